"""Maps as data: which columns and which name the map of a term has, and of which terms there are maps.

    for atoms collect [filters] · {keys ↦ ⟨1, numbers⟩}

Equal terms, up to the names of variables and the order of atoms and factors, are one map: its name is a digest of the
term in one form, and of how the map is searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from headwater.calculus.check import type_of
from headwater.calculus.notation.parse import parse
from headwater.calculus.notation.text import show
from headwater.calculus.terms import (
    Num,
    Pred,
    Record,
    Rel,
    Repeat,
    Sng,
    Term,
    Times,
    Unbox,
    Var,
    Zero,
    relations,
    substitute,
)
from headwater.calculus.types import (
    INT,
    KeyType,
    MapType,
    ProductType,
    RecordType,
    RingType,
    bag,
    is_scalar,
)
from headwater.errors import NotIncremental
from headwater.plan.equal_maps import canonical, digest, once, sorted_monomial
from headwater.plan.nested.opening import as_lists
from headwater.plan.program import Loop, Map, Program, Relations
from headwater.rules.monomial import Monomial
from headwater.rules.rows import cells

ONE = Num(1, INT)
FIRST_ORDER = "first-order"
"""The strategy of maps whose statements look up the inputs alone."""


@dataclass(frozen=True)
class Block:
    """A block as a map's term, with the column of each key term and the ring column of each component."""

    term: Term
    keys: dict[Term, str]
    rings: list[str]


@lru_cache(
    maxsize=4096
)  # the statements of a map look up the same blocks, one for each of its relations
def block_term(
    atoms: tuple[tuple[Var, Term], ...],
    filters: tuple[Term, ...],
    links: tuple[Term, ...],
    needed: tuple[Term, ...],
    absorbed: tuple[tuple[Term, ...], ...],
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
    text = show(term)
    described = (text, ",".join(by), ",".join(to), kind, str(ordering), str(extra))
    stem = "base" if strategy == FIRST_ORDER else "m"
    return Map(
        f"{stem}{digest(*described)}",
        text,
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
        FIRST_ORDER if strategy == FIRST_ORDER else "recursive",
    )


def term_of(program: Program, m: Map) -> Term:
    """The term that a map holds, read from its text; arrays that it reads whole are lists, but in the rows of a source."""
    rows = program.relations.rows
    types = [(r, rows[r] if m.fields else as_lists(rows[r])) for r in m.reads]
    return _read(m.text, tuple((n, bag(t)) for n, t in types))


def term_of_loop(program: Program, loop: Loop) -> Repeat:
    """The term of a loop, read from its text."""
    types = [(n, bag(as_lists(row))) for n, row in program.relations.rows.items()]
    term = parse(loop.text, dict(types))
    assert isinstance(term, Repeat)
    return term


@lru_cache(maxsize=4096)
def _read(text: str, types: tuple[tuple[str, MapType], ...]) -> Term:
    return parse(text, dict(types))


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
                f"`{f}` looks for rows of other relations where it cannot be joined with them",
                hint="write a join, or define the subquery as a view of its own and join that",
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


def _inputs(term: Term) -> set[str]:
    return {r.name for r in relations(term)}
