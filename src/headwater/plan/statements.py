"""Recursive materialization: which maps a map's deltas look up, and the statements that keep it.

    Δ of a map is a sum of monomials (rules.delta, then normalize). In each, take away the changed atoms;
    what remains falls into blocks that equalities hold together; each block is a map of its own, keyed by
    what the rest reads, with everything else summed away, and is maintained in the same way.

Equal blocks, up to the names of variables, are one map for all views. With the strategy `first-order` a block is
a single atom, so that only the inputs are arranged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

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
from headwater.plan.maps import FIRST_ORDER, Relations, block_term, checked, map_of, output_of
from headwater.plan.program import (
    WEIGHT,
    Expand,
    Lookup,
    Map,
    Program,
    Statement,
    Version,
)
from headwater.plan.together import Together, multiplied, untied
from headwater.rules.changes import MOST_SETS, Changed, changes_of
from headwater.rules.monomial import Monomial, summands
from headwater.rules.normalize import normalize

RULES = 1
"""By which rules new views are planned. A view that was planned by earlier ones keeps to them, and so its maps:

    0   all unions are written out; all changes of a product at once
    1   unions that multiply are relations (`rules.unions`); many changes of a product one by one (`rules.changes`)
"""


class NoSuchMap(Exception):
    """A statement would look up a map that is not kept."""


class Materializer:
    """The maps of a program, and the statements that keep them."""

    def __init__(self, program: Program, relations: Relations):
        self.program, self.relations = program, relations
        self.created: list[Map] = []
        self.frozen = False
        self.work = Work()
        self.rules = RULES
        self._statements: dict[tuple[str, frozenset[str]], list[Statement]] = {}
        self._summands: dict[str, list[tuple[int, Monomial]]] = {}
        self._together: dict[tuple[str, frozenset[str]], list[Together] | None] = {}

    def copy(self, program: Program, relations: Relations) -> Materializer:
        """The same over a copy of a program: statements that are known stay so."""
        made = Materializer(program, relations)
        made._statements = dict(self._statements)
        made.work = replace(self.work)
        return made

    def only(self, program: Program, relations: Relations, maps: set[str]) -> Materializer:
        """The same over some of the maps of a program; statements that look others up are forgotten."""
        made = Materializer(program, relations)
        made._statements = {
            key: found
            for key, found in self._statements.items()
            if key[0] in maps and all(s.reads <= maps for s in found)
        }
        return made

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
        monomials = [checked(m) for _, m in summands(normalize(term))]
        self.program.maps[made.name] = made
        for name in sorted(set(made.reads) - self.relations.static):
            # this makes the maps that these look up
            self.work.add(self.program, self.statements(made, {name}))
        if any(self._is_static(m) for m in monomials):
            self.filling(made)  # no change makes the maps that filling it looks up
        self.created.append(made)  # after those that it is computed from
        return made

    @with_room
    def statements(self, target: Map, changed: Iterable[str]) -> list[Statement]:
        """How the changes of some relations, all at once, change a map."""
        names = frozenset(changed) & set(target.reads)
        key = target.name, names
        if key not in self._statements:
            self._statements[key] = [
                self._statement(target, sign, changed, target.strategy)
                for sign, m in self._monomials(target)
                for changed in changes_of(m, names, self._one_by_one(m, names, target.strategy))
            ]
        return self._statements[key]

    def _one_by_one(self, m: Monomial, names: frozenset[str], strategy: str) -> bool:
        """Whether changes are taken one by one: always where only inputs are kept, as it asks for no other maps."""
        moving = sum(isinstance(s, Rel) and s.name in names for _, s in m.atoms)
        return strategy == FIRST_ORDER or (self.rules >= 1 and moving > MOST_SETS)

    def _monomials(self, target: Map) -> list[tuple[int, Monomial]]:
        """What a map holds as a sum of monomials."""
        if target.name not in self._summands:
            self._summands[target.name] = summands(normalize(target.term))
        return self._summands[target.name]

    @with_room
    def filling(self, target: Map) -> list[Statement]:
        """How a map is computed when it is new: of each monomial one atom is read whole, the rest is looked up."""
        out = []
        for sign, m in self._monomials(target):
            names = [s.name if isinstance(s, Rel) else "" for _, s in m.atoms]
            place = next((i for i, n in enumerate(names) if n not in self.relations.static), 0)
            whole = Changed(m, frozenset({m.atoms[place][0]}))
            out.append(self._statement(target, sign, whole, target.strategy))
        return out

    def _is_static(self, m: Monomial) -> bool:
        """Whether a monomial reads inputs that never change, and nothing else."""
        names = {s.name if isinstance(s, Rel) else "" for _, s in m.atoms}
        return bool(names) and names <= self.relations.static

    def looked_up(self) -> set[str]:
        """The maps that statements of single changes look up."""
        return {
            name
            for m in self.program.maps.values()
            for relation in m.reads
            if relation not in self.relations.static
            for s in self.statements(m, {relation})
            for name in s.reads
        }

    def at_once(self, target: Map, changed: Iterable[str]) -> list[Statement] | None:
        """The same, with the maps that are kept; None if they are not enough."""
        self.frozen = True
        try:
            return self.statements(target, changed)
        except NoSuchMap:
            return None
        finally:
            self.frozen = False

    def together(self, target: Map, changed: Iterable[str]) -> list[Together] | None:
        """How relations of one row each change a map, those of a monomial as one; None if that is not possible."""
        names = frozenset(changed) & set(target.reads)
        key = target.name, names
        if key not in self._together:
            self.frozen = True
            try:
                self._together[key] = self._products(target, names)
            except NoSuchMap:
                self._together[key] = None
            finally:
                self.frozen = False
        return self._together[key]

    def _products(self, target: Map, names: frozenset[str]) -> list[Together] | None:
        terms = self._monomials(target)
        if not names <= untied([m for _, m in terms]):
            return None
        out = []
        for sign, m in terms:
            if not names.isdisjoint(s.name for _, s in m.atoms if isinstance(s, Rel)):
                made = multiplied(m, names)
                if made is None:
                    return None
                changed = Changed(made.monomial, frozenset({made.monomial.atoms[0][0]}))
                statement = self._statement(target, sign, changed, target.strategy)
                out.append(Together(made.factors, made.row, statement))
        return out

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
