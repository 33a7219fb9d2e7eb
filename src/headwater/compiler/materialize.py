"""Recursive materialization: which maps a map's deltas look up, and the statements that keep it.

    Δ of a map is a sum of monomials (rules.delta, then normalize). In each, take away the changed atoms;
    what remains falls into blocks that equalities hold together; each block is a map of its own, keyed by
    what the rest reads, with everything else summed away, and is maintained in the same way.

Equal blocks, up to the names of variables, are one map for all views. With the strategy `first-order` a block is
a single atom, so that only the inputs are arranged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headwater.calculus.check import type_of
from headwater.calculus.deep import with_room
from headwater.calculus.terms import (
    Call,
    Num,
    Pred,
    Record,
    Rel,
    Sng,
    Term,
    Times,
    Unbox,
    Var,
    Zero,
    change_name,
    relations,
    substitute,
    variables,
)
from headwater.calculus.text import show
from headwater.calculus.types import (
    DYADIC,
    INT,
    KeyType,
    MapType,
    ProductType,
    RecordType,
    RingType,
    is_scalar,
)
from headwater.compiler.alpha import canonical, digest, once, sorted_monomial
from headwater.compiler.flow import Flow, Link, connected, links_of, parts_of, row_columns
from headwater.compiler.program import WEIGHT, Expand, Lookup, Map, Program, Statement
from headwater.compiler.together import Together, multiplied, untied
from headwater.errors import NotIncremental
from headwater.rules.delta import delta
from headwater.rules.failures import raises
from headwater.rules.keyed import cells
from headwater.rules.monoid import Monomial, summands
from headwater.rules.normalize import normalize

ONE = Num(1, INT)
CHANGE = change_name("")
BASE = "base"
"""How the names of maps begin that are kept from the inputs alone."""


@dataclass
class Relations:
    """What is known of the relations that maps read: their rows, their stratum, and whether they never change."""

    rows: dict[str, RecordType] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    static: set[str] = field(default_factory=set)


class NoSuchMap(Exception):
    """A statement would look up a map that is not kept."""


class Materializer:
    """The maps of a program, and the statements that keep them."""

    def __init__(self, program: Program, relations: Relations):
        self.program, self.relations = program, relations
        self.created: list[Map] = []
        self.frozen = False
        self._statements: dict[tuple[str, frozenset[str]], list[Statement]] = {}
        self._together: dict[tuple[str, frozenset[str]], list[Together] | None] = {}

    def copy(self, program: Program, relations: Relations) -> Materializer:
        """The same over a copy of a program: statements that are known stay so."""
        made = Materializer(program, relations)
        made._statements = dict(self._statements)
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
            self.statements(made, {name})  # makes the maps that these look up
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
            strategy = "first-order" if target.name.startswith(BASE) else "recursive"
            terms = summands(normalize(delta(target.term, names))) if names else []
            self._statements[key] = [
                self._statement(target, sign, m, strategy) for sign, m in terms
            ]
        return self._statements[key]

    @with_room
    def filling(self, target: Map) -> list[Statement]:
        """How a map is computed when it is new: of each monomial one atom is read whole, the rest is looked up."""
        strategy = "first-order" if target.name.startswith(BASE) else "recursive"
        out = []
        for sign, m in summands(normalize(target.term)):
            names = [s.name if isinstance(s, Rel) else "" for _, s in m.atoms]
            place = next((i for i, n in enumerate(names) if n not in self.relations.static), 0)
            atoms = [
                (v, Rel(change_name(names[i]), s.type) if i == place and isinstance(s, Rel) else s)
                for i, (v, s) in enumerate(m.atoms)
            ]
            changed = Monomial(tuple(atoms), m.factors, m.output)
            out.append(self._statement(target, sign, changed, strategy))
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
        terms = summands(normalize(target.term))
        if not names <= untied([m for _, m in terms]):
            return None
        strategy = "first-order" if target.name.startswith(BASE) else "recursive"
        out = []
        for sign, m in terms:
            if not names.isdisjoint(s.name for _, s in m.atoms if isinstance(s, Rel)):
                made = multiplied(m, names)
                if made is None:
                    return None
                statement = self._statement(target, sign, made.monomial, strategy)
                out.append(Together(made.factors, made.row, statement))
        return out

    # --- statements -----------------------------------------------------------------------------------------

    def _statement(self, target: Map, sign: int, m: Monomial, strategy: str) -> Statement:
        m = checked(m)
        changed = [(v, s) for v, s in m.atoms if _is_change(s)]
        inner = [(v, s) for v, s in m.atoms if isinstance(s, Unbox)]
        rest = [v for v, s in m.atoms if not _is_change(s) and not isinstance(s, Unbox)]
        sources = dict(m.atoms)
        (driver, drives), *others = changed
        filters = [f.condition for f in m.factors if isinstance(f, Pred)]
        if (
            len(m.atoms) == 1
        ):  # what cannot fail comes first: it may guard the others; of joins nothing fails
            filters.sort(key=raises)
        scale = [f for f in m.factors if not isinstance(f, Pred)]
        key, values = output_of(m.output)
        rings = [[*scale, *v] for v in values]
        blocks = connected(rest, filters) if strategy == "recursive" else [[v] for v in rest]
        waiting = [([v], True) for v, _ in others] + [(b, False) for b in blocks]

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
            block, is_change = _next(waiting, pending, flow.known, order, rows, answers)
            waiting.remove((block, is_change))
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
                flow, atoms, within, list(links.values()), needed, absorbed, is_change
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
            _unchanged(drives),
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
        is_change: bool,
    ) -> _Joined:
        """Looks up a block; its map is made if need be."""
        by_inner = {link.inner: link for link in reversed(links)}
        guards = [Call("is_not_null", (k.inner,)) for k in by_inner.values() if not k.null_safe]
        part = block_term(atoms, [*within, *guards], list(by_inner), needed, absorbed)
        strategy = "recursive" if len(atoms) > 1 else "either"
        names = [part.keys[i] for i in by_inner]
        places = [int(n[1:]) for n in names]
        changes: tuple[Statement, ...] = ()
        if is_change:
            term = substitute(part.term, {s: _old(s) for _, s in atoms})
            into = map_of(term, places, None, "change", (), (), "", "change", self.relations)
            made = summands(normalize(part.term))
            changes = tuple(self._statement(into, s, m, "first-order") for s, m in made)
        else:
            into = self.keep(part.term, places, strategy=strategy)
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
                is_change,
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


@dataclass(frozen=True)
class Block:
    """A block as a map's term, with the column of each key term and the ring column of each component."""

    term: Term
    keys: dict[Term, str]
    rings: list[str]


def block_term(
    atoms: tuple[tuple[Var, Term], ...],
    filters: Sequence[Term],
    links: Sequence[Term],
    needed: Sequence[Term],
    absorbed: Sequence[Sequence[Term]],
) -> Block:
    """for atoms collect [filters] · {keys ↦ ⟨1, what is absorbed⟩}, in an order that does not depend on names."""
    ordered = sorted(atoms, key=lambda a: a[1].name if isinstance(a[1], Rel) else "")
    names: dict[Var, Term] = {v: Var(f"y{i}", v.type) for i, (v, _) in enumerate(ordered)}

    def text(t: Term) -> str:
        return show(substitute(t, names))

    keys = sorted(dict.fromkeys((*links, *needed)), key=text)
    products = [Times(tuple(a)) if len(a) > 1 else a[0] if a else ONE for a in absorbed]
    parts = [ONE, *sorted({p for p in products if p != ONE}, key=text)]
    rings = {p: f"r{i}" for i, p in enumerate(parts)}
    key = Record(tuple((f"k{i}", k) for i, k in enumerate(keys)))
    value = Record(tuple((r, p) for p, r in rings.items()))
    m = Monomial(tuple(ordered), tuple(once(Pred(f) for f in filters)), Sng(key, value))
    columns = {k: f"k{i}" for i, k in enumerate(keys)}
    return Block(canonical(sorted_monomial(m)), columns, [rings[p] for p in products])


def map_of(
    term: Term,
    lookup: Sequence[int],
    route: Sequence[int] | None,
    kind: str,
    order: Sequence[tuple[int, bool, bool]],
    extra: Sequence[tuple[str, RingType]],
    note: str,
    strategy: str,
    known: Relations | None = None,
    names: Sequence[str] = (),
) -> Map:
    """A map with the columns of its term; its name says what it holds and how it is searched."""
    t = type_of(term)
    fields = key_fields(t)
    key = tuple((f"k{i}", f) for i, (_, f) in enumerate(fields))
    ring = (*ring_columns(t), *extra)
    by = tuple(f"k{i}" for i in lookup)
    to = by if route is None else tuple(f"k{i}" for i in route)
    reads = sorted(r for r in _inputs(term))
    ordering = tuple((f"k{i}", descending, last) for i, descending, last in order)
    described = (show(term), ",".join(by), ",".join(to), kind, str(ordering), str(extra))
    stem = BASE if strategy == "first-order" else "m"
    return Map(
        f"{stem}{digest(*described)}",
        term,
        key,
        ring,
        by,
        to,
        kind,
        ordering,
        max((known.levels.get(r, 0) for r in reads), default=0) if known else 0,
        tuple(reads),
        note,
        tuple(names),
    )


def key_fields(t: MapType | RingType) -> list[tuple[str, KeyType]]:
    """The columns of a map's key; a value without a key has none."""
    if not isinstance(t, MapType):
        return []
    if isinstance(t.key, RecordType):
        return list(t.key.fields)
    return [("value", t.key)]


def ring_columns(t: MapType | RingType) -> tuple[tuple[str, RingType], ...]:
    """The ring columns of a map; the first counts rows."""
    value = t.value if isinstance(t, MapType) else t
    if isinstance(value, ProductType):
        return tuple((f"r{i}", f) for i, (_, f) in enumerate(value.fields))
    assert is_scalar(value), value
    return (("r0", value),)


def checked(m: Monomial) -> Monomial:
    """The monomial, if it is over relations only; `NotIncremental` with a reason if not."""
    for _, source in m.atoms:
        if not isinstance(source, (Rel, Unbox)):
            raise NotIncremental(
                "CORRELATED",
                f"`{source}` is read for every row of what stands before it",
                hint="join on an equality instead",
            )
    key, values = output_of(m.output)
    for f in (*m.factors, *key, *(f for v in values for f in v)):
        ring = f in key or isinstance(f, (Pred, Unbox, Num, Zero))
        if not ring or relations(f):
            raise NotIncremental(
                "SUBQUERY",
                f"`{f}` is a subquery or an outer, semi or anti join, which are not maintained yet",
                hint="write an inner join, or aggregate in a view of its own and join",
            )
    return m


def output_of(output: Term) -> tuple[list[Term], list[list[Term]]]:
    """The key terms of an output, and the factors of each ring component."""
    if isinstance(type_of(output), MapType):
        assert isinstance(output, Sng), output
        key = cells(output.key)
        value = output.value
    else:
        key, value = list[Term](), output
    parts = [v for _, v in value.fields] if isinstance(value, Record) else [value]
    return key, [_factors(p) for p in parts]


def _factors(value: Term) -> list[Term]:
    factors = value.factors if isinstance(value, Times) else (value,)
    return [f for f in factors if f != ONE]


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
    waiting: list[tuple[list[Var], bool]],
    pending: list[Term],
    known: set[Var],
    joined: Sequence[Var],
    rows: Mapping[Term, int],
    answers: set[Var],
) -> tuple[list[Var], bool]:
    """The block to look up next: one that equalities tie to what is known, changes first.

    Of several, by the column that most rows are joined by, which is likely a key and no mere attribute; then the one
    that is tied to what was looked up last (`joined` is in that order), so that a chain of keys is followed to its end.
    """

    def rank(block: tuple[list[Var], bool]) -> tuple[bool, bool, bool, int, int]:
        mine = set(block[0])
        tied = [f for f in pending if variables(f) & mine]
        whole = not mine & answers or all(variables(f) - mine <= known for f in tied)
        links = links_of(pending, set(block[0]), known).values()
        last = [max(joined.index(v) for v in variables(k.outer)) for k in links]
        joins = [rows.get(k.inner, 0) for k in links]
        return bool(links), block[1], whole, max(joins, default=0), max(last, default=0)

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


def _inputs(term: Term) -> set[str]:
    return {r.name for r in relations(term)}


def _is_change(source: Term) -> bool:
    return isinstance(source, Rel) and source.name.startswith(CHANGE)


def _unchanged(source: Term) -> str:
    assert isinstance(source, Rel)
    return source.name.removeprefix(CHANGE)


def _old(source: Term) -> Rel:
    assert isinstance(source, Rel)
    return Rel(_unchanged(source), source.type)
