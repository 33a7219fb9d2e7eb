"""Promises: what of each relation, map and view is over, told from what is over of the sources.

A relation has two promises: *ended*, no row that matches will come; *lasting*, no row that matches will be taken away.
*Closed* is both. A map changes only by its statements, so a key of it is closed when every row that could still reach it
is (`closing.Ties.pulled`):

    closed(M)  = ⋂ pulled(s, closed(driver of s))     over the statements s of M
    ended(M)   = ⋂ pulled(s, ended(driver))           where s adds counts of rows: an insertion only adds
    lasting(M) = ⋂ pulled(s, lasting(driver))         and a deletion only subtracts; else both need closed

A stratum's rows are closed with their group. Where its rows are keys, and conditions say which counts are there and which
are not (DISTINCT, EXISTS, EXCEPT), a row is lasting already when what is there lasts and what is not there has ended.

What moves in a loop reads itself: a row may move any other one, at a later round. Of all of it nothing is promised before
all that the loop reads from outside is over, and then everything is.

Some of what is over is told by entries alone, such as which sessions are (`sessions.py`), or which keys are because what they
would be reached through is (`through.py`): it is *found* when something is closed, and given here.

The same is asked of *schemes*, the columns by which sources will be closed in time: `Schemes` and `Told` are two
algebras of one computation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import Any, Generic, Protocol, TypeVar

from headwater.calculus.patterns import (
    Anything,
    Constant,
    OneOf,
    Pattern,
    Punctuation,
    Punctuations,
    Range,
)
from headwater.plan.closing import (
    AtMost,
    Closing,
    Image,
    Preimage,
    Tie,
    Ties,
    shallow,
)
from headwater.plan.monotone import constant
from headwater.plan.program import (
    WEIGHT,
    AddUp,
    Answered,
    Bind,
    Lookup,
    Loop,
    Map,
    Nested,
    Statement,
    Stored,
    Stratum,
    View,
)
from headwater.plan.sessions import before_starts, sessions_of
from headwater.plan.through import Through
from headwater.plan.trees import Tree

P = TypeVar("P")


class Algebra(Protocol[P]):
    """What promises are computed with: sets of keys that are over, or of columns by which they will be."""

    none: P
    everything: P

    def meet(self, a: P, b: P) -> P:
        """What both promise."""
        ...

    def pulled(self, ties: Ties, promise: P) -> P:
        """A promise of a driver as one of a map."""
        ...

    def join(self, a: P, b: P) -> P:
        """What one of both promises."""
        ...

    def only(self, promise: P, columns: Collection[str]) -> P:
        """What is promised in terms of some columns alone."""
        ...

    def from_the_start(self, promise: P, column: str, nullable: bool) -> P:
        """What is promised of all values of a column up to some value, NULL among them if there may be one."""
        ...

    def renamed(self, promise: P, names: Mapping[str, str]) -> P:
        """The same under other names; what names a column that has none is not promised."""
        ...

    def one_by_one(self, promise: P, columns: Collection[str]) -> P:
        """What a promise of entries says of their keys, some columns, before it is known which these are."""
        ...


class Told:
    """Promises that were made: sets of punctuations."""

    none = Punctuations.NONE
    everything = Punctuations.EVERYTHING

    def meet(self, a: Punctuations, b: Punctuations) -> Punctuations:
        return a & b

    def pulled(self, ties: Ties, promise: Punctuations) -> Punctuations:
        return promise if promise == self.everything else ties.pulled(promise)

    def join(self, a: Punctuations, b: Punctuations) -> Punctuations:
        return a | b

    def from_the_start(self, promise: Punctuations, column: str, nullable: bool) -> Punctuations:
        if nullable and not promise.subsumes(Punctuation.of({column: None})):
            return Punctuations.NONE
        return Punctuations([p for p in promise if _begins(p.at(column))], promise.types)

    def only(self, promise: Punctuations, columns: Collection[str]) -> Punctuations:
        kept = [p for p in promise if set(p.shape) <= set(columns)]
        return promise if len(kept) == len(promise) else Punctuations(kept)

    def renamed(self, promise: Punctuations, names: Mapping[str, str]) -> Punctuations:
        return self.only(promise, names).rename(names)

    def one_by_one(self, promise: Punctuations, columns: Collection[str]) -> Punctuations:
        return self.none


@dataclass(frozen=True)
class Column:
    """A column of a scheme: every value of it is closed in time, in its order (as by a watermark) or one by one."""

    name: str
    in_order: bool = False
    of: str = ""
    """The column of a source that it comes from, where this is followed."""
    nulls: bool = True
    """Whether NULL is closed with it, as it is from the start in a column that closes a source."""

    def __str__(self) -> str:
        return self.name


ALL = ""
"""The name of a column of the source all of whose values that matter are closed in time: a filter says which these are."""

Scheme = frozenset[Column]
"""Columns whose values are closed together; the empty one says that everything is over."""


class Schemes:
    """Promises to come: sets of schemes, each of which is enough; none that another one makes needless."""

    none: frozenset[Scheme] = frozenset()
    everything: frozenset[Scheme] = frozenset({frozenset()})

    def meet(self, a: frozenset[Scheme], b: frozenset[Scheme]) -> frozenset[Scheme]:
        return least(x | y for x in a for y in b)

    def pulled(self, ties: Ties, promise: frozenset[Scheme]) -> frozenset[Scheme]:
        out: list[Scheme] = []
        for scheme in promise:
            needs: list[set[Column]] = []
            for c in scheme:
                known = ties.known.get(c.name)
                if not c.name or (known is not None and _bounded(known, c.in_order)):
                    needs.append({replace(c, name=ALL)})
                    continue
                ways = [_through(t, c) for t in ties.ways.get(c.name, ())]
                needs.append({w for w in ways if w is not None})
            out.extend(frozenset(choice) for choice in product(*needs))
        return least(out)

    def join(self, a: frozenset[Scheme], b: frozenset[Scheme]) -> frozenset[Scheme]:
        return least(a | b)

    def from_the_start(
        self, promise: frozenset[Scheme], column: str, nullable: bool
    ) -> frozenset[Scheme]:
        return frozenset(
            s
            for s in promise
            if all(c.in_order and (c.nulls or not nullable) for c in s if c.name == column)
        )

    def only(self, promise: frozenset[Scheme], columns: Collection[str]) -> frozenset[Scheme]:
        return frozenset(s for s in promise if all(c.name in columns or not c.name for c in s))

    def renamed(self, promise: frozenset[Scheme], names: Mapping[str, str]) -> frozenset[Scheme]:
        return least(
            frozenset(replace(c, name=names[c.name]) if c.name else c for c in s)
            for s in self.only(promise, names)
        )

    def one_by_one(self, promise: frozenset[Scheme], columns: Collection[str]) -> frozenset[Scheme]:
        # That all entries are over says nothing of keys that are not there yet.
        of = [{c.of for c in s} for s in promise if s]
        return least(frozenset(Column(n, of=o) for o in origins for n in columns) for origins in of)


def least(schemes: Iterable[Scheme]) -> frozenset[Scheme]:
    """Schemes without those whose columns contain another's; of equal ones, the one that comes from fewest columns."""
    found: dict[frozenset[tuple[str, bool, bool]], Scheme] = {}
    for s in schemes:
        columns = frozenset((c.name, c.in_order, c.nulls) for c in s if c.name)
        if columns not in found or _origins(s) < _origins(found[columns]):
            found[columns] = s
    return frozenset(s for at, s in found.items() if not any(o < at for o in found))


def _origins(s: Scheme) -> tuple[int, list[tuple[str, str]]]:
    return len(s), sorted((c.name, c.of) for c in s)


def _through(tie: Tie, c: Column) -> Column | None:
    """The column of a map whose values are closed in time when those of a driver's column are."""
    for step in tie.steps:
        match step:
            case AtMost() if c.in_order:
                c = replace(c, nulls=False)  # a comparison says nothing of NULL
            case Image() | Preimage():
                pass
            case _:
                return None
    return replace(c, name=tie.column)


def _bounded(pattern: Pattern, in_order: bool) -> bool:
    """Whether all values of a pattern are closed in time."""
    match pattern:
        case Constant() | OneOf():
            return True
        case Range(_, high, _, _):
            return in_order and high is not None
    return False


@dataclass(frozen=True)
class Promise(Generic[P]):
    """What is promised of a relation, in terms of its columns."""

    ended: P
    lasting: P
    closed: P


class Promises(Generic[P]):
    """The promises of a program, from those of its sources; each is computed when it is asked for, and once.

    `found` is what entries say is over, by the name of a stratum or map; None if it is asked what will be over in time, which
    all of it will. More may be found before it is asked for. `through` are the maps whose keys are closed through entries.
    """

    def __init__(
        self,
        closing: Closing,
        algebra: Algebra[P],
        sources: Callable[[str], Promise[P] | None],
        found: Mapping[str, P] | None,
        through: Mapping[str, Through],
    ):
        self.closing, self.program, self.algebra, self.sources = (
            closing,
            closing.program,
            algebra,
            sources,
        )
        self.found, self.through = found, through
        self.inside = self.program.inside()
        self._relations: dict[str, Promise[P]] = {}
        self._closed: dict[str, P] = {}
        self._through: dict[str, Through | None] = {}
        self._spent: dict[int, P] = {}
        """Of each of `through`, which holds them, by who it is."""
        self._columns: dict[tuple[str, int], tuple[P, P]] = {}
        self._groups: dict[str, Promise[P]] = {}
        self._emitted: dict[tuple[int, int], P] = {}
        """What statements make of promises of their drivers, by who they are: the program and `_relations` hold both."""

    # --- relations ---------------------------------------------------------------------------------------------------

    def relation(self, name: str) -> Promise[P]:
        """What is promised of a source or of the rows of a stratum."""
        if name not in self._relations:
            self._relations[name] = self._relation(name)
        return self._relations[name]

    def _relation(self, name: str) -> Promise[P]:
        a = self.algebra
        given = self.sources(name)
        if given is not None:
            return given
        if name in self.program.relations.static:
            return Promise(a.everything, a.everything, a.everything)
        if name in self.inside:
            return self._moving(self.inside[name])
        s = self.program.strata.get(name)
        if s is None:
            return Promise(a.none, a.none, a.none)
        ties, groups = self.closing.answered(s), self.groups(s)
        made = [a.pulled(ties, p) for p in (groups.ended, groups.lasting, groups.closed)]
        if looks_back(s):
            rows = a.pulled(self.closing.answered(s, by_row=True), self.rows(s))
            made = [a.join(p, rows) for p in made]
        if sessions_of(s) is not None:
            starts = a.pulled(self.closing.answered(s, by_row=True), self.starts(s))
            made = [a.join(p, starts) for p in made]
        return Promise(*made)

    def _moving(self, loop: Loop) -> Promise[P]:
        """What is promised of all that moves in a loop."""
        a = self.algebra
        if loop.diffuse is None and all(
            self.relation(r).closed == a.everything for r in self.program.around(loop)
        ):
            return Promise(a.everything, a.everything, a.everything)
        return Promise(a.none, a.none, a.none)

    # --- maps --------------------------------------------------------------------------------------------------------

    def closed(self, m: Map) -> P:
        """The keys of a map at which nothing changes any more."""
        if m.name in self.inside:
            return self._moving(self.inside[m.name]).closed
        if m.name not in self._closed:
            statements = self._statements(m) if m.name in self.program.kept else None
            self._closed[m.name] = (
                self.algebra.none
                if statements is None
                else self._or_through(m, ((s, self.relation(s.drives).closed) for s in statements))
            )
        return self._closed[m.name]

    def _or_through(self, m: Map, pulled: Iterable[tuple[Statement, P]]) -> P:
        """What every statement of a map promises of its keys, and keys that are closed through entries."""
        every = self._every(pulled)
        return self.algebra.join(every, self.passed(m)) if self.closed_through(m) else every

    def closed_through(self, m: Map) -> Through | None:
        """Through which entries keys of a map are closed in time, if the columns that it is looked up by do not say it."""
        if m.name not in self._through:
            t = self.through.get(m.name)
            if t is not None and self.found is None:
                drivers = ((s, self.relation(s.drives).closed) for s in self._statements(m))
                said = self.algebra.only(self._every(drivers), m.lookup)
                t = None if said or not self._in_time(t) else t
            self._through[m.name] = t
        return self._through[m.name]

    def passed(self, m: Map) -> P:
        """The keys of a map that are closed through entries."""
        if self.found is not None:
            return self.found.get(m.name, self.algebra.none)
        return self._in_time(self.through[m.name])

    def _in_time(self, t: Through) -> P:
        return self.algebra.one_by_one(self.spent(t), [c for _, c in t.columns])

    def spent(self, t: Through) -> P:
        """The entries through which no key is reached any more: they last, and are dead for those who look them up."""
        if id(t) not in self._spent:
            a, read = self.algebra, self.closing.read
            dead = (a.pulled(read(s, p), self.relation(s.drives).closed) for s, p in t.readers)
            self._spent[id(t)] = reduce(a.meet, dead, self.count(t.into, 0)[1])
        return self._spent[id(t)]

    def waits(self, s: Statement, place: int) -> bool:
        """Whether an entry that a statement looks up stays until it is sure to last, for it tells then that a key is closed."""
        t = self.closed_through(s.target)
        return t is not None and (s, place) in t.readers

    def count(self, m: Map, column: int) -> tuple[P, P]:
        """The keys at which a count, a ring column of a map, does not grow any more; and those at which it does not fall."""
        key = m.name, column
        if m.name in self.inside:
            made = self._moving(self.inside[m.name])
            return made.ended, made.lasting
        if key not in self._columns:
            moving = [s for s in self._statements(m) if not _adds_nothing(s, column)]
            if self.counts(m, column):
                drivers = [(s, self.relation(s.drives)) for s in moving]
                self._columns[key] = (
                    self._or_through(m, ((s, p.ended) for s, p in drivers)),
                    self._or_through(m, ((s, p.lasting) for s, p in drivers)),
                )
            else:
                pulled = ((s, self.relation(s.drives).closed) for s in moving)
                closed = self._or_through(m, pulled)
                self._columns[key] = closed, closed
        return self._columns[key]

    def _statements(self, m: Map) -> list[Statement]:
        return [s for found in self.program.kept[m.name].changes.values() for s in found]

    def _every(self, pulled: Iterable[tuple[Statement, P]]) -> P:
        """What every statement of a map promises of its keys."""
        a = self.algebra
        return reduce(a.meet, (self._pulled(s, p) for s, p in pulled), a.everything)

    def _pulled(self, s: Statement, promise: P) -> P:
        known = id(s), id(promise)
        if known not in self._emitted:
            self._emitted[known] = self.algebra.pulled(self.closing.emitted(s), promise)
        return self._emitted[known]

    def counts(self, m: Map, column: int) -> bool:
        """Whether a ring column of a map counts rows: an insertion into what it reads never makes it less."""
        kept = self.program.kept.get(m.name)
        # A row that comes may take back, at a later round, what another one gave: there are no counts in loops.
        return (
            kept is not None
            and m.name not in self.inside
            and all(s.sign > 0 and self._never_negative(s, s.ring[column]) for s in kept.filling)
        )

    def _never_negative(self, s: Statement, factors: Iterable[str]) -> bool:
        known: dict[str, bool] = {WEIGHT: True}
        for step in s.steps:
            match step:
                case Bind(name, scalar):
                    known[name] = _is_count(scalar.tree)
                case Lookup():
                    into = self.program.maps.get(step.into)
                    rings = [] if into is None else [n for n, _ in into.ring]
                    for ring, name in step.weights:
                        known[name] = into is not None and self.counts(into, rings.index(ring))
                case AddUp(sums=sums):
                    known |= {
                        n: all(known.get(f, False) for f in product) for n, _, product in sums
                    }
        return all(known.get(f, False) for f in factors)

    # --- strata and views --------------------------------------------------------------------------------------------

    def groups(self, s: Stratum) -> Promise[P]:
        """What is promised of the rows of a stratum, in terms of the key of its groups."""
        if s.name in self.inside:
            return self._moving(self.inside[s.name])
        if s.name not in self._groups:
            self._groups[s.name] = self._of_groups(s)
        return self._groups[s.name]

    def _of_groups(self, s: Stratum) -> Promise[P]:
        a = self.algebra
        closed = self.closed(s.group)
        for bag in s.bags:
            closed = a.meet(closed, a.only(self.closed(bag), s.group.columns))
        signs = _signs(s)
        if signs is None or not all(self.counts(s.group, i) for i in signs):
            return Promise(closed, closed, closed)
        ended = lasting = a.everything
        for i, there in signs.items():
            grown, fallen = self.count(s.group, i)
            ended = a.meet(ended, grown if there else fallen)
            lasting = a.meet(lasting, fallen if there else grown)
        return Promise(ended, lasting, closed)

    def rows(self, s: Stratum) -> P:
        """The rows of groups in order that nothing changes any more, in terms of the bag's columns.

        A window that looks back says of a row what the rows before it say: it is over when all of these are.
        """
        assert s.ranked is not None
        first, descending, _ = s.ranked.map.order[0]
        if descending:
            return self.algebra.none
        columns = [*s.group.columns, first]
        closed = self.algebra.only(self.closed(s.ranked.map), columns)
        nullable = first not in self.closing.never_null.of(s.ranked.map)
        return self.algebra.from_the_start(closed, first, nullable)

    def starts(self, s: Stratum) -> P:
        """The starts of sessions that are over, in terms of the key of the groups and of the start."""
        sessions = sessions_of(s)
        assert sessions is not None
        if self.found is not None:
            return self.found.get(s.name, self.algebra.none)
        names = {**{c: c for c in s.group.columns}, sessions.time: sessions.start}
        return self.algebra.renamed(self.rows(s), names)

    def left_behind(self, s: Stratum) -> P:
        """The rows of sessions that are over which nobody reads on the way from an open one, in terms of the bag's columns."""
        sessions = sessions_of(s)
        if sessions is None:
            return self.algebra.none
        first = self.algebra.from_the_start(self.starts(s), sessions.start, nullable=False)
        return self.algebra.pulled(before_starts(s, sessions), first)

    def over(self, view: View) -> P:
        """The rows of a view at which nothing changes any more, in terms of the key of the map that it is read from."""
        match view.rows:
            case Answered(name):
                return self.groups(self.program.strata[name]).closed
            case Stored(map=m):
                return self.closed(m)
            case Nested():
                return self.algebra.none

    def final(self, view: View) -> P:
        """The rows of a view that nothing takes back, in terms of the key of the map that it is read from."""
        match view.rows:
            case Answered(name):
                return self.groups(self.program.strata[name]).lasting
            case Stored(map=m):
                return self.count(m, 0)[1] if m.name in self.program.kept else self.algebra.none
            case Nested():
                return self.algebra.none


def looks_back(s: Stratum) -> bool:
    """Whether what windows say of a row depends on rows before it alone, and on its peers."""
    r = s.ranked
    if r is None or not r.windows or r.limit is not None or not r.map.order:
        return False
    return r.reach.kind != "whole" and r.reach.after == 0


def _begins(p: Pattern) -> bool:
    match p:
        case Range(None, _, _, _) | Anything():
            return True
    return False


def _adds_nothing(s: Statement, column: int) -> bool:
    """Whether a ring column of what a statement emits is always 0."""
    zeros = set[str]()
    for step in s.steps:
        match step:
            case Bind(name, scalar) if constant(scalar.tree) == 0:
                zeros.add(name)
            case AddUp(sums=sums):
                zeros |= {name for name, _, product in sums if not zeros.isdisjoint(product)}
    return not zeros.isdisjoint(s.ring[column])


def _is_count(tree: Tree) -> bool:
    """Whether a factor is a constant that is not negative, or one of some by a condition."""
    if tree is None or not shallow(tree):
        return False
    value: Any = constant(tree)
    if isinstance(value, int):
        return value >= 0
    if tree[0] == "case":
        *branches, last = tree[2:]
        return all(_is_count(t) for t in [*branches[1::2], last])
    return False


def _signs(s: Stratum) -> dict[int, bool] | None:
    """Of a stratum whose rows are keys, the counts that its conditions read: whether they must be there, or must not.

    None where rows say more than their key, or conditions more than whether a count is 0.
    """
    plain = (
        s.weight is None and s.ranked is None and not s.from_bags and not s.always and not s.told
    )
    keys, rings = set(s.group.columns), [n for n, _ in s.group.ring]
    if not plain or s.distinct or any(not set(cell.reads) <= keys for _, cell in s.row):
        return None
    out: dict[int, bool] = {}
    for condition in s.where:
        for part in _parts(condition.tree):
            found = _sign(part, rings)
            if found is None or out.get(found[0], found[1]) != found[1]:
                return None
            out[found[0]] = found[1]
    return out


def _parts(tree: Tree) -> list[Tree]:
    if tree is not None and tree[0] == "and" and shallow(tree):
        return [p for part in tree[2:] for p in _parts(part)]
    return [tree]


def _sign(tree: Tree, rings: list[str]) -> tuple[int, bool] | None:
    """`r1 > 0` says that a count is there, `r2 = 0` and `r2 <= 0` that it is not."""
    if tree is None or tree[0] not in (">", "=", "<=", "<>", ">=") or tree[2][0] != "column":
        return None
    name, value = tree[2][2], constant(tree[3])
    if name not in rings:
        return None
    there = {(">", 0): True, ("<>", 0): True, (">=", 1): True, ("=", 0): False, ("<=", 0): False}
    found = there.get((tree[0], value)) if isinstance(value, int) else None
    return None if found is None else (rings.index(name), found)
