"""Recursive materialization: which maps a map's deltas look up, and the statements that keep it.

    Δ of a map is a sum of monomials (rules.delta, then normalize). In each, take away the changed atoms;
    what remains falls into blocks that equalities hold together; each block is a map of its own, keyed by
    what the rest reads, with everything else summed away, and is maintained in the same way.

Equal blocks, up to the names of variables, are one map for all views. With the strategy `first-order` a block is
a single atom, so that only the inputs are arranged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from headwater.calculus.check import type_of
from headwater.calculus.deep import with_room
from headwater.calculus.terms import (
    Call,
    Pred,
    Rel,
    Term,
    Unbox,
    Var,
    variables,
)
from headwater.calculus.types import (
    DYADIC,
    INT,
    RingType,
)
from headwater.plan.choose import Work
from headwater.plan.failures import raises
from headwater.plan.flow import Flow, Link, connected, links_of, parts_of, row_columns
from headwater.plan.maps import FIRST_ORDER, block_term, checked, map_of, output_of
from headwater.plan.program import (
    WEIGHT,
    Expand,
    Kept,
    Lookup,
    Map,
    Product,
    Program,
    Relations,
    Statement,
    Version,
)
from headwater.plan.together import multiplied, singles, untied
from headwater.rules.changes import MOST_SETS, Changed, changes_of
from headwater.rules.monomial import Monomial, summands
from headwater.rules.normalize import normalize

RULES = 2
"""By which rules new views are planned. A view that was planned by earlier ones keeps to them, and so its maps:

    0   all unions are written out; all changes of a product at once
    1   unions that multiply are relations (`rules.unions`); many changes of a product one by one (`rules.changes`)
    2   equal scalar subqueries of a row are one, and their averages are known not to fail; running sums of doubles carry
        what comes before
"""


MOST_AT_ONCE = 6
"""Relations of a map whose changes can be taken at once; with more they are taken one after another."""
T = TypeVar("T")


class NoSuchMap(Exception):
    """A statement would look up a map that is not kept."""


class Materializer:
    """The maps of a program, and the statements that keep them; it adds to the program that it is given."""

    def __init__(self, program: Program):
        self.program = program
        self.frozen = False
        self.work = Work()
        self.rules = RULES
        self._summands: dict[str, list[tuple[int, Monomial]]] = {}
        """What each map that was made here holds, as a sum of monomials."""

    @property
    def relations(self) -> Relations:
        return self.program.relations

    # --- maps ---------------------------------------------------------------------------------------------

    def keep(
        self,
        term: Term,
        lookup: Sequence[int],
        *,
        strategy: str,
        route: Sequence[int] | None = None,
        kind: str = "change",
        order: Sequence[tuple[int, bool, bool]] = (),
        extra: Sequence[tuple[str, RingType]] = (),
        note: str = "",
        level: int = 0,
    ) -> Map:
        """The map that holds a term, a sum of monomials with one key record; made unless there is one."""
        made = map_of(term, lookup, route, kind, order, extra, note, strategy, self.relations)
        if (
            level > made.level
        ):  # merged later than others that hold the same, so not shared with them
            made = replace(made, name=f"{made.name}{level}", level=level)
        known = self.program.maps.get(made.name)
        if known is not None:
            return known
        if self.frozen:
            raise NoSuchMap(made.name)
        found = summands(normalize(term))
        for _, m in found:
            checked(m)
        self._add(made, found, set(made.reads) - self.relations.static)
        return made

    def hold(self, made: Map, term: Term) -> None:
        """Adds a map that holds the rows of a source; one that is static is filled once, by a change."""
        self._add(made, summands(term), set(made.reads))

    def _add(self, made: Map, found: list[tuple[int, Monomial]], moving: Collection[str]) -> None:
        """Adds a map that holds a sum of monomials, with the maps that keeping it looks up."""
        self._summands[made.name] = found
        self.program.maps[made.name] = made
        changes: dict[str, tuple[Statement, ...]] = {}
        for name in sorted(moving):
            changes[name] = self._statements(made, {name})  # this makes the maps that it looks up
            self.work.add(self.program, changes[name])
        # Its filling looks up the same maps, but of inputs that never change it makes its own.
        filling = self._filling(made)
        self.program.kept[made.name] = Kept(changes, filling)  # after those that it looks up

    def complete(self) -> None:
        """Adds the statements of several changes, once all maps are there that they may look up."""
        for name in self._summands:
            m, kept = self.program.maps[name], self.program.kept[name]
            if kept.at_once is None and kept.products is None:
                made = replace(kept, at_once=self._at_once(m), products=self._products(m))
                self.program.kept[name] = made

    @with_room
    def _statements(self, target: Map, changed: Collection[str]) -> tuple[Statement, ...]:
        """How the changes of some relations, all at once, change a map."""
        return tuple(
            self._statement(target, sign, term, target.strategy)
            for sign, m in self._summands[target.name]
            for term in changes_of(m, changed, self._one_by_one(m, changed, target.strategy))
        )

    def _one_by_one(self, m: Monomial, names: Collection[str], strategy: str) -> bool:
        """Whether changes are taken one by one: always where only inputs are kept, as it asks for no other maps."""
        moving = sum(isinstance(s, Rel) and s.name in names for _, s in m.atoms)
        return strategy == FIRST_ORDER or (self.rules >= 1 and moving > MOST_SETS)

    @with_room
    def _filling(self, target: Map) -> tuple[Statement, ...]:
        """How a map is computed when it is new: of each monomial one atom is read whole, the rest is looked up."""
        out = []
        for sign, m in self._summands[target.name]:
            names = [s.name if isinstance(s, Rel) else "" for _, s in m.atoms]
            place = next((i for i, n in enumerate(names) if n not in self.relations.static), 0)
            whole = Changed(m, frozenset({m.atoms[place][0]}))
            out.append(self._statement(target, sign, whole, target.strategy))
        return tuple(out)

    def _at_once(self, target: Map) -> tuple[Statement, ...] | None:
        """The statements of any set of changes, by the maps that are kept; None if these are not enough.

        Terms of changes one by one are right for every set of them: what does not change is the same before and after.
        """
        moving = set(target.reads) - self.relations.static
        if not 1 < len(moving) <= MOST_AT_ONCE:
            return None
        return self._with_what_is_kept(lambda: self._statements(target, moving))

    def _products(self, target: Map) -> tuple[Product, ...] | None:
        """How relations of one row each change a map together, those of a monomial as one; None if they cannot."""
        terms = self._summands[target.name]
        names = singles(self.program).intersection(target.reads)
        names &= untied([m for _, m in terms]) if len(names) > 1 else set()
        if len(names) < 2:
            return None
        return self._with_what_is_kept(lambda: self._multiplied(target, terms, names))

    def _multiplied(
        self, target: Map, terms: list[tuple[int, Monomial]], names: set[str]
    ) -> tuple[Product, ...] | None:
        out = []
        for sign, m in terms:
            if not names.isdisjoint(s.name for _, s in m.atoms if isinstance(s, Rel)):
                made = multiplied(m, names)
                if made is None:
                    return None
                changed = Changed(made.monomial, frozenset({made.monomial.atoms[0][0]}))
                statement = self._statement(target, sign, changed, target.strategy)
                out.append(Product(made.factors, made.row, statement))
        return tuple(out)

    def _with_what_is_kept(self, plan: Callable[[], T | None]) -> T | None:
        """A plan that adds no map; None if it would have to."""
        self.frozen = True
        try:
            return plan()
        except NoSuchMap:
            return None
        finally:
            self.frozen = False

    # --- statements -----------------------------------------------------------------------------------------

    def _statement(self, target: Map, sign: int, of: Changed, strategy: str) -> Statement:
        """The statement of one term of a change: from the rows of its first change through look-ups of the rest."""
        m = checked(of.monomial)
        inner = [(v, s) for v, s in m.atoms if isinstance(s, Unbox)]
        changed = [(v, s) for v, s in m.atoms if v in of.change]
        rest = [v for v, s in m.atoms if v not in of.change and not isinstance(s, Unbox)]
        sources = dict(m.atoms)
        (driver, drives), *others = changed
        assert isinstance(drives, Rel)
        filters = [f.condition for f in m.factors if isinstance(f, Pred)]
        if (
            len(m.atoms) == 1
        ):  # what cannot fail comes first: it may guard the others; of joins nothing fails
            filters.sort(key=raises)
        scale = [f for f in m.factors if not isinstance(f, Pred)]
        key, values = output_of(m.output)
        rings = [[*scale, *v] for v in values]
        waiting: list[tuple[list[Var], Version]] = [([v], "change") for v, _ in others]
        if strategy == FIRST_ORDER:
            waiting += [([v], "new" if v in of.new else "old") for v in rest]
        else:
            waiting += [([v], "new") for v in rest if v in of.new]
            old = [v for v in rest if v not in of.new]
            waiting += [(block, "old") for block in connected(old, filters)]

        flow = Flow()
        flow.bind_row(driver)
        weights: list[list[str]] = [[WEIGHT] for _ in rings]
        changes: list[Statement] = []
        pending = list(dict.fromkeys(filters))
        rows, order = _rows_joined(filters), [driver]
        while True:
            for f in [f for f in pending if flow.reads(f)]:
                flow.filter(f)
                pending.remove(f)
            ready = next(((v, s) for v, s in inner if flow.reads(s)), None)
            if ready is not None:
                inner.remove(ready)
                flow.expand(*ready)
                order.append(ready[0])
                continue
            if not waiting:
                break
            answers = {
                v for v, t in m.atoms if isinstance(t, Rel) and t.name in self.program.strata
            }
            block, version = _next(waiting, pending, flow.known, order, rows, answers)
            waiting.remove((block, version))
            order.extend(block)
            inside = set(block)
            links = links_of(pending, inside, flow.known)
            within = [f for f in pending if variables(f) <= inside]
            pending = [f for f in pending if f not in within and f not in links]
            absorbed = [_absorbed(ring, inside) for ring in rings]
            rings = [
                [f for f in ring if f not in a] for ring, a in zip(rings, absorbed, strict=True)
            ]
            reading = [*pending, *key, *(f for ring in rings for f in ring), *(s for _, s in inner)]
            needed = list(dict.fromkeys(p for t in reading for p in parts_of(t, inside)))
            atoms = tuple((v, sources[v]) for v in block)
            joined = self._join(
                flow, atoms, within, list(links.values()), needed, absorbed, version
            )
            changes.extend(joined.changes)
            flow.known |= inside
            for w, a in zip(weights, joined.weights, strict=True):
                w.append(a)
        for ring, w in zip(rings, weights, strict=True):
            w.extend(flow.ring(ring))
        columns = tuple(flow.column(k) for k in key)
        read = _columns_read(flow, [*columns, *(c for w in weights for c in w)])
        given = [(n, f"{driver.name}.{n}") for n, _ in row_columns(driver)]
        return Statement(
            target,
            drives.name,
            tuple((n, c) for n, c in given if c in read),
            tuple(flow.steps),
            columns,
            tuple(tuple(w) for w in weights),
            sign,
            tuple(changes),
        )

    def _join(
        self,
        flow: Flow,
        atoms: tuple[tuple[Var, Term], ...],
        within: list[Term],
        links: list[Link],
        needed: list[Term],
        absorbed: list[list[Term]],
        version: Version,
    ) -> _Joined:
        """Looks up a block in a version of it; its map is made if need be."""
        by_inner = {link.inner: link for link in reversed(links)}
        guards = [Call("is_not_null", (k.inner,)) for k in by_inner.values() if not k.null_safe]
        part = block_term(
            atoms,
            (*within, *guards),
            tuple(by_inner),
            tuple(needed),
            tuple(map(tuple, absorbed)),
        )
        strategy = "recursive" if len(atoms) > 1 else "either"
        keys = list(part.keys)
        places = [keys.index(i) for i in by_inner]
        changes: tuple[Statement, ...] = ()
        if version == "change":
            into = map_of(part.term, places, None, "change", (), (), "", "change", self.relations)
        else:
            into = self.keep(part.term, places, strategy=strategy)
        if version != "old":
            changes = tuple(
                self._statement(
                    into, sign, Changed(m, frozenset(v for v, _ in m.atoms)), FIRST_ORDER
                )
                for sign, m in summands(normalize(part.term))
            )
        probes = []
        for name in into.lookup:
            inner = next(i for i in by_inner if part.keys[i] == name)
            probes.append((flow.column(by_inner[inner].outer), by_inner[inner].null_safe))
        stem = f"j{len(flow.steps)}"
        brings = []
        for term, column in part.keys.items():
            if term in needed or len(links) > len(by_inner):
                brings.append((column, f"{stem}.{column}"))
                flow.columns.setdefault(term, f"{stem}.{column}")
        used = dict.fromkeys(part.rings)
        weights = tuple((r, f"{stem}.{r}") for r in used)
        flow.steps.append(
            Lookup(
                into.name,
                tuple(p for p, _ in probes),
                tuple(s for _, s in probes),
                tuple(brings),
                weights,
                version,
            )
        )
        flow.known |= {v for v, _ in atoms}
        for link in links:  # a column that two things are equal to is looked up by one of them
            if by_inner[link.inner] is not link:
                op = "<=>" if link.null_safe else "="
                flow.filter(Call(op, (link.inner, link.outer)))
        return _Joined([f"{stem}.{r}" for r in part.rings], changes)


@dataclass(frozen=True)
class _Joined:
    weights: list[str]
    changes: tuple[Statement, ...]


def _absorbed(ring: Sequence[Term], block: set[Var]) -> list[Term]:
    """The factors that a block's map can hold: those over it alone, unless numbers of others meet them."""
    mine = [f for f in ring if (v := variables(f)) and v <= block]
    others = [f for f in ring if f not in mine and isinstance(f, Unbox)]
    if any(type_of(f) == DYADIC for f in mine):  # whole numbers multiply it, and nothing else does
        others = [f for f in others if type_of(f) != INT]
    if others and any(isinstance(f, Unbox) for f in mine):
        return []
    return mine


def _next(
    waiting: list[tuple[list[Var], Version]],
    pending: list[Term],
    known: set[Var],
    joined: Sequence[Var],
    rows: Mapping[Term, int],
    answers: set[Var],
) -> tuple[list[Var], Version]:
    """The block to look up next: one that equalities tie to what is known, changes first.

    Of several, by the column that most rows are joined by, which is likely a key and no mere attribute; then the one
    that is tied to what was looked up last (`joined` is in that order), so that a chain of keys is followed to its end.
    """

    def rank(block: tuple[list[Var], Version]) -> tuple[bool, bool, bool, int, int]:
        mine = set(block[0])
        tied = [f for f in pending if variables(f) & mine]
        whole = not mine & answers or all(variables(f) - mine <= known for f in tied)
        links = links_of(pending, set(block[0]), known).values()
        last = [max(joined.index(v) for v in variables(k.outer)) for k in links]
        joins = [rows.get(k.inner, 0) for k in links]
        return bool(links), block[1] == "change", whole, max(joins, default=0), max(last, default=0)

    return max(waiting, key=rank)


def _rows_joined(filters: Sequence[Term]) -> dict[Term, int]:
    """Of each column that is compared: how many rows are joined by it and by those that are equal to it."""
    groups: list[set[Term]] = []
    for f in filters:
        match f:
            case Call("=" | "<=>", (a, b)):
                met = [g for g in groups if a in g or b in g]
                groups = [g for g in groups if g not in met] + [{a, b}.union(*met)]
    sizes = [(g, len({v for t in g for v in variables(t)})) for g in groups]
    return {t: n for g, n in sizes for t in g}


def _columns_read(flow: Flow, outputs: Iterable[str]) -> set[str]:
    read = set(outputs)
    for step in flow.steps:
        match step:
            case Lookup():
                read |= set(step.keys)
            case Expand():
                read.add(step.array)
            case _:
                used = step.scalar if hasattr(step, "scalar") else step.condition
                read |= set(used.reads)
    return read
