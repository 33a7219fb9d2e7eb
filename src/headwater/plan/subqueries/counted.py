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

from collections.abc import Collection, Mapping, Sequence
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
from headwater.plan.subqueries.asked import AskedRows, calls_of
from headwater.plan.subqueries.keyed import LIVE, ONE
from headwater.rules.equalities import Equality, equality
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
    # Equalities between members of the classes are said by the keys themselves, and are no join any more.
    said = {f: e for f in plain if (e := _same_value(f)) and all(t in equal for t in e.sides)}
    needed = _needed(m, [f for f in plain if f not in said], keys, equal)
    free = frozenset(v for v, _ in m.atoms) - needed
    found = _keys_inside(classes, free, list(said.values())) if free else None
    if found is None:
        return None
    chosen, guards = found
    mine = [f for f in plain if f not in said and variables(f) and variables(f) <= free]
    # Rows that join with nothing do not fail; counted by themselves they would.
    if needed and any(raises(t) for t in (*mine, *chosen)):
        return None
    counted = Monomial(tuple(a for a in m.atoms if a[0] in free), (*mine, *guards), ONE)
    others = tuple(a for a in m.atoms if a[0] not in free)
    left = tuple(f for f in m.factors if f not in said and f not in mine)
    return Split(counted, chosen, Monomial(others, left, m.output), equal)


def _needed(
    m: Monomial, joining: Sequence[Term], keys: Sequence[Term], equal: Mapping[Term, int]
) -> set[Var]:
    """The rows that are more than counted: what is shown or asked besides the keys, and all that is joined with those."""
    own = {v for v, _ in m.atoms}
    shown = [m.output, *(f for f in m.factors if not _is_plain(f))]
    # A member of a class is read as its key, which is still there when the row is not.
    read = {v for t in shown for v in variables(replaced(t, dict.fromkeys(equal, LIVE)))}
    read |= {v for v, source in m.atoms if not _is_relation(source)}
    joined = [variables(t) for t in (*joining, *keys)]
    joined += [variables(source) | {v} for v, source in m.atoms]
    return _closure(read & own, joined)


def _keys_inside(
    classes: Sequence[Sequence[Term]], free: frozenset[Var], said: Sequence[Equality]
) -> tuple[list[Term], list[Term]] | None:
    """A column of the counted rows for each key, and that its class is equal to it; None if a class has none."""
    chosen: list[Term] = []
    guards: list[Term] = []
    for same in classes:
        inside = [t for t in same if variables(t) <= free]
        if not inside:
            return None
        first, *others = inside
        chosen.append(first)
        guards += [Pred(Call("<=>", (first, t))) for t in others]
        if any(e.left in same and not e.null_safe for e in said):  # NULL = NULL is not true
            guards.append(Pred(Call("is_not_null", (first,))))
    return chosen, guards


def _is_plain(f: Term) -> bool:
    """Whether a factor is a filter that asks no subquery."""
    return isinstance(f, Pred) and not relations(f) and not any(calls_of(f))


def _is_relation(source: Term) -> bool:
    return isinstance(source, Rel) and not isinstance(source, AskedRows)


def _same_value(f: Term) -> Equality | None:
    """An equality between two columns of one type whose equal values are the same value: 0.0 and -0.0 are not."""
    found = equality(f)
    if found is None or not all(isinstance(t, Field) for t in found.sides):
        return None
    t = type_of(found.left)
    exact = t not in (DOUBLE, FLOAT) and not isinstance(t, RecordType)
    return found if exact and t == type_of(found.right) else None


def _classes(plain: Sequence[Term], keys: Sequence[Term]) -> list[list[Term]]:
    """Each key with all columns that are equal to it."""
    pairs = [e.sides for f in plain if (e := _same_value(f)) is not None]
    out: list[list[Term]] = []
    for key in keys:
        found = [key]
        for t in found:  # grows while it is read
            for sides in pairs:
                if t in sides:
                    found += [s for s in sides if s not in found]
        out.append(found)
    return out


def _closure(start: Collection[Var], linked: Sequence[frozenset[Var]]) -> set[Var]:
    """The variables that some are tied to, by any number of links."""
    out = set(start)
    while more := [s for s in linked if s & out and not s <= out]:
        out |= more[0]
    return out
