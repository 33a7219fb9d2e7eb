"""The interpreter with indexes, for `verify`: the same values, where the definition alone would go through every pair of rows.

    for x in r collect [x.a = e] · s       the rows of r with e as their a, from an index of r by a, and not all of them
    a comprehension that reads nothing around it       evaluated once
    the sum over the rows of r             its entries collected at once, and not added up map by map

What a term means is said by `calculus.interpret`, and there alone; this is held against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from headwater.calculus import ring
from headwater.calculus.check import type_of
from headwater.calculus.interpret import Evaluation, Scope
from headwater.calculus.ring import RingMap, Value
from headwater.calculus.terms import (
    Call,
    Const,
    Each,
    Field,
    For,
    Pred,
    Rel,
    Repeat,
    Term,
    Times,
    Var,
    variables,
)
from headwater.calculus.types import Base, MapType
from headwater.rules.equalities import equality

KEPT = 100
"""Indexes that are kept: a loop has others in every round."""
FEW = 4
"""Rows that are gone through as they are."""


def evaluated(term: Term, inputs: Mapping[str, Value]) -> Value:
    """The value of a term, as `interpret` has it."""
    return _Indexed(inputs).value(term, {})


class Probe(NamedTuple):
    """An equality by which rows of a source are found: a column of theirs, and what it is to be."""

    column: Term
    wanted: Term
    meets_null: bool


class _Indexed(Evaluation):
    """An evaluation that finds rows by equalities."""

    def __init__(self, inputs: Mapping[str, Value]):
        super().__init__(inputs)
        self.closed: dict[Term, Value] = {}
        self.probes: dict[Term, Probe | None] = {}
        self.indexes: dict[tuple[int, Term], tuple[RingMap, dict[Any, list[Any]]]] = {}
        """By the identity of a source's value, and the column: the value, which must stay the one that it is, and its rows by the column."""

    def value(self, term: Term, scope: Scope) -> Value:
        if not isinstance(term, (For, Each, Repeat)) or variables(term):
            return super().value(term, scope)
        if term not in self.closed:
            self.closed[term] = super().value(term, {})
        return self.closed[term]

    def _for(self, term: For, scope: Scope) -> Value:
        source = self.value(term.source, scope)
        if term not in self.probes:
            self.probes[term] = _probe(term)
        probe = self.probes[term]
        rows: Iterable[Any] = source.items()
        if probe is not None and len(source) > FEW:
            wanted = self.value(probe.wanted, scope)
            found = self._index(source, term.var, probe.column)
            rows = (
                found.get(_comparable(wanted), ()) if wanted is not None or probe.meets_null else ()
            )
        bodies = (
            ring.scale(count, body)
            for key, count in rows
            if not ring.is_zero(body := self.value(term.body, {**scope, term.var.name: key}))
        )
        return _total(term, bodies)

    def _each(self, term: Each, scope: Scope) -> Value:
        entries = self.value(term.source, scope).items()
        k, v = term.key.name, term.value.name
        return _total(term, (self.value(term.body, {**scope, k: a, v: b}) for a, b in entries))

    def _index(self, source: RingMap, row: Var, column: Term) -> dict[Any, list[Any]]:
        at = id(source), column
        if at not in self.indexes:
            made: dict[Any, list[Any]] = {}
            for entry in source.items():
                cell = self.value(column, {row.name: entry[0]})
                made.setdefault(_comparable(cell), []).append(entry)
            while len(self.indexes) >= KEPT:
                del self.indexes[next(iter(self.indexes))]
            self.indexes[at] = source, made
        return self.indexes[at][1]


def _probe(term: For) -> Probe | None:
    """The first equality of a comprehension that its rows can be found by; nothing that could fail may stand before it."""
    if not isinstance(term.source, (Rel, Var)) and variables(term.source):
        return None  # it is another value for every row around it
    factors = term.body.factors if isinstance(term.body, Times) else (term.body,)
    for f in factors:
        if not isinstance(f, Pred) or not _is_equality(f.condition):
            return None
        found = equality(f)
        assert found is not None
        for column, wanted in (found.sides, found.sides[::-1]):
            if variables(column) == {term.var} and term.var not in variables(wanted):
                return Probe(column, wanted, found.null_safe)
    return None


def _is_equality(condition: Term) -> bool:
    """Whether it compares two plain cells, which cannot fail."""
    match condition:
        case Call("=" | "<=>", (a, b)):
            return type_of(a) == type_of(b) and _is_plain(a) and _is_plain(b)
    return False


def _is_plain(side: Term) -> bool:
    if not isinstance(type_of(side), Base):
        return False
    while isinstance(side, Field):
        side = side.term
    return isinstance(side, (Var, Const))


def _comparable(cell: Any) -> Any:
    """A cell as a key of a dictionary, where NaN is equal to itself."""
    return "NaN" if isinstance(cell, float) and cell != cell else (cell,)


def _total(term: Term, values: Iterable[Value]) -> Value:
    """The sum of some values of a term's type."""
    t = type_of(term)
    if isinstance(t, MapType):
        return ring.collect(entry for value in values for entry in value.items())
    out = ring.zero(t)
    for value in values:
        out = ring.add(out, value)
    return out
