"""Rounds: a loop, all of its rounds at once.

    R[Round]   sums of rᵢ·tⁱ with tⁱ · tʲ = t^max(i, j)      the ring of rounds over a ring R
    v@n        the sum of rᵢ for i ≤ n                        the value at round n, which keeps sums and products
    d          tⁱ ↦ tⁱ⁺¹                                      what the next round sees
    X̂ = start·(t⁰ − t¹) + F̂(d X̂, S)                          X̂@0 = start, X̂@n = F(X̂@(n−1), S)

An entry (k, i) of a map with rounds is the change of k from round i − 1 to round i. Since `@n` keeps sums and products,
the monomials of F̂ are those of F with one more output column, the round. It is one more column of the key, so that
deltas, maps, look-ups and merges are what they are without it.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.calculus import ring
from headwater.calculus.check import type_of
from headwater.calculus.ring import RingMap
from headwater.calculus.terms import (
    Call,
    Const,
    Field,
    Pred,
    Record,
    Rel,
    Sng,
    Term,
    Var,
    relations,
    substitute,
)
from headwater.calculus.types import BIGINT, MapType, RecordType
from headwater.errors import NotIncremental
from headwater.rules.monomial import Monomial, Signed
from headwater.rules.rows import cells, row_like, tidy

ROUND = "_round"
"""The column of the round, the last one of a key."""


def with_round(row: RecordType) -> RecordType:
    """The rows of a loop's collection, or of an answer inside of it, with their round."""
    if any(n == ROUND for n, _ in row.fields):
        raise NotIncremental(
            "RECURSION_TYPES",
            f"a column inside of a loop is named `{ROUND}`, which is the column of its rounds",
            hint="give it another name",
        )
    return RecordType((*row.fields, (ROUND, BIGINT)))


def at(value: RingMap, n: int) -> RingMap:
    """v@n: the entries up to round n added up, where the round is the last cell of the keys."""
    return ring.collect((key[:-1], v) for key, v in value.items() if key[-1] <= n)


def lifted(
    m: Monomial, loop: Mapping[str, Rel], answers: Mapping[str, Rel], last: int | None
) -> Monomial:
    """F̂(d X̂) of a monomial of F: its atoms have rounds, and its output the greatest of theirs.

    `loop` has the relation with rounds of every collection of the loop, `answers` those of answers inside of it. What the
    round before had is seen one round later, an answer in its own round, and what does not move in the loop from round 1
    on. Rounds of collections begin at 0 and those of answers at 1, so 1 is the least. Rounds after `last` are left out.
    """
    atoms, rows, rounds = list[tuple[Var, Term]](), dict[Var, Term](), list[Term]()
    for var, source in m.atoms:
        name = source.name if isinstance(source, Rel) else None
        with_rounds = loop.get(name) or answers.get(name) if name is not None else None
        if with_rounds is None:
            atoms.append((var, tidy(substitute(source, rows))))
            continue
        new = Var(var.name, with_rounds.type.key)  # type: ignore[union-attr]
        atoms.append((new, with_rounds))
        own = with_rounds.type.key.fields[:-1]  # type: ignore[union-attr]
        rows[var] = row_like(var.type, [Field(new, n) for n, _ in own])  # a scalar has one
        now = Field(new, ROUND)
        rounds.append(Call("+", (now, _constant(1))) if name in loop else now)
    when = Call("greatest", tuple(rounds)) if len(rounds) > 1 else (*rounds, _constant(1))[0]
    factors = [tidy(substitute(f, rows)) for f in m.factors]
    if last is not None:
        factors.append(Pred(Call("<=", (when, _constant(last)))))
    found = _at_round(
        Monomial(tuple(atoms), tuple(factors), tidy(substitute(m.output, rows))), when
    )
    moving = {*loop, *answers}
    for part in (*found.factors, found.output):
        assert not moving & {r.name for r in relations(part)}, (
            f"`{part}` reads what moves in the loop"
        )
    return found


def started(m: Monomial, last: int | None = None) -> Signed:
    """start·(t⁰ − t¹): there at round 0, and gone at round 1, which the step alone says, if there is one."""
    begun = (1, _at_round(m, _constant(0)))
    return [begun] if last == 0 else [begun, (-1, _at_round(m, _constant(1)))]


def _at_round(m: Monomial, when: Term) -> Monomial:
    """The monomial with the round as the last column of its keys; numbers without a key get one."""
    if not isinstance(type_of(m.output), MapType):
        return Monomial(m.atoms, m.factors, Sng(Record(((ROUND, when),)), m.output))
    assert isinstance(m.output, Sng), f"`{m.output}` is no entry of a map"
    row = type_of(m.output.key)
    if not isinstance(row, RecordType):
        row = RecordType((("value", row),))
    key = row_like(with_round(row), [*cells(m.output.key), when])
    return Monomial(m.atoms, m.factors, Sng(key, m.output.value))


def _constant(n: int) -> Const:
    return Const(n, BIGINT)
