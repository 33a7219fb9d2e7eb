"""Rows of a join that are only counted: nothing of them is read but the key that a condition is asked for.

    for x in R, y in S collect [f(y) = e(x)] · ¬q(f(y)) · s(x)
        = for p in A collect for x in R collect [p.key = e(x)] · p.n · s(x)

A has the keys f(y) at which q has nothing, with the number n of rows of S there. To find A, the rows of S are counted by
key in any case (`beside_outer` in `keyed.py`), and a join with S would only count them again. For example,

    SELECT c.name FROM customers c JOIN orders o ON o.customer = c.id
    WHERE NOT EXISTS (SELECT * FROM returns r WHERE r.customer = o.customer)

reads nothing of an order but its customer: A has each customer without returns, with the number of orders.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Call,
    Field,
    Pred,
    Rel,
    Term,
    Var,
    relations,
    replaced,
    variables,
)
from headwater.calculus.types import DOUBLE, FLOAT, RecordType
from headwater.plan.failures import raises
from headwater.plan.subqueries.keyed import LIVE, MARK, ONE, calls_of
from headwater.rules.monomial import Monomial


@dataclass(frozen=True)
class Split:
    """A monomial in two: `counted`, the rows that are only counted, with the `keys` that they have; and the `rest`.

    `equal` says which columns of the whole monomial are equal to which of the keys: they are read from the key then.
    """

    counted: Monomial
    keys: list[Term]
    rest: Monomial
    equal: dict[Term, int]


def only_counted(m: Monomial, keys: Sequence[Term]) -> Split | None:
    """The monomial in two, if some of its rows are read for nothing but the keys; None if there are no such rows.

    `keys` are the terms over the monomial's rows that a subquery is asked for.
    """
    # 1. Every column that is equal to a key can be read from the key, wherever it stands. The equalities among such
    #    columns hold by themselves once both sides are compared with the key, so they tie no rows together.
    plain = [f for f in m.factors if _is_plain(f)]
    classes = _classes(plain, keys)
    equal = {t: i for i, c in enumerate(classes) for t in c}
    fixed = [f for f in plain if _equality(f) and all(t in equal for t in _sides(f))]
    # 2. Rows are needed if something else of them is read: in the output, in a subquery, or to have the elements of an
    #    array. Rows that are tied to needed ones, by another filter or by a key over both, are needed, too.
    own = frozenset(v for v, _ in m.atoms)
    elsewhere = [m.output, *(f for f in m.factors if f not in plain)]
    read = {v for t in elsewhere for v in variables(replaced(t, dict.fromkeys(equal, LIVE)))}
    read |= {v for v, source in m.atoms if not _is_relation(source)}
    joined = [variables(t) for t in (*(f for f in plain if f not in fixed), *keys)]
    joined += [variables(source) | {v} for v, source in m.atoms]
    needed = _closure(read & own, joined)
    free = own - needed  # what is left is only counted
    if not free:
        return None
    # 3. The rows that are counted must say every key by themselves. Their own columns of one class are compared with
    #    each other here, as their equalities are among those that were left out; `=` among them leaves NULLs out.
    chosen: list[Term] = []
    guards: list[Term] = []
    for same in classes:
        inside = [t for t in same if variables(t) <= free]
        if not inside:
            return None
        first = inside[0]
        chosen.append(first)
        guards += [Pred(Call("<=>", (first, t))) for t in inside[1:]]
        if any(_equality(f) == "=" and _sides(f)[0] in same for f in fixed):
            guards.append(Pred(Call("is_not_null", (first,))))
    mine = [f for f in plain if f not in fixed and variables(f) and variables(f) <= free]
    # 4. Counted rows are evaluated whether or not the rest has rows to join with. In the query a row that joins with
    #    nothing does not fail, so what may fail is not evaluated here.
    failing = [t for t in (*mine, *chosen) if raises(t)]
    if needed and failing:
        return None
    left = tuple(f for f in m.factors if f not in fixed and f not in mine)
    counted = tuple(a for a in m.atoms if a[0] in free)
    others = tuple(a for a in m.atoms if a[0] not in free)
    rest = Monomial(others, left, m.output)
    return Split(Monomial(counted, (*mine, *guards), ONE), chosen, rest, equal)


def _is_plain(f: Term) -> bool:
    """Whether a factor is a filter that asks no subquery."""
    return isinstance(f, Pred) and not relations(f) and not any(calls_of(f))


def _is_relation(source: Term) -> bool:
    """Whether an atom is a relation: neither the elements of an array nor a subquery that is a function of columns."""
    return isinstance(source, Rel) and not source.name.startswith(MARK)


def _equality(f: Term) -> str:
    """= or <=> between two columns of one type whose equal values are the same value; else nothing.

    0.0 = -0.0, so doubles that are equal may show differently, and one cannot stand for the other.
    """
    match f:
        case Pred(Call("=" | "<=>" as op, (Field() as a, Field() as b))):
            t = type_of(a)
            if t == type_of(b) and t not in (DOUBLE, FLOAT) and not isinstance(t, RecordType):
                return op
    return ""


def _sides(f: Term) -> tuple[Term, Term]:
    assert isinstance(f, Pred) and isinstance(f.condition, Call)
    a, b = f.condition.args
    return a, b


def _classes(plain: Sequence[Term], keys: Sequence[Term]) -> list[list[Term]]:
    """For each key, the key itself and all columns that are equal to it, directly or by way of others."""
    out: list[list[Term]] = []
    for key in keys:
        found = [key]
        for t in found:
            for f in plain:
                if _equality(f) and t in _sides(f):
                    found += [s for s in _sides(f) if s not in found]
        out.append(found)
    return out


def _closure(start: Collection[Var], linked: Sequence[frozenset[Var]]) -> set[Var]:
    """The variables that some are tied to, by any number of links."""
    out = set(start)
    while more := [s for s in linked if s & out and not s <= out]:
        out |= more[0]
    return out
