"""Whether a subquery has rows, as joins: EXISTS, IN, NOT IN, and the unmatched rows of outer joins.

    ¬¬q(x) = for p in D collect [p = e(x)]      D has every key of q once, where q(x) = M @ e(x)
    ¬q(x)  = for p in A collect [p = e(x)]      A has the keys of the outer rows at which M is zero
    ¬(a · b) = ¬a + ¬¬a · ¬b,   ¬(a + b) = ¬a · ¬b,   ¬¬(a + b) = ¬¬a + ¬a · ¬¬b      for a, b ≥ 0

D and A are answers over counts by key, so what was ¬ of a count is a join, and changes like one.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Add,
    Box,
    Call,
    Const,
    Each,
    Field,
    For,
    Let,
    Neg,
    Not,
    Num,
    Pred,
    Record,
    Sng,
    Term,
    Times,
    Unbox,
    Var,
    Zero,
    replaced,
    variables,
)
from headwater.calculus.types import (
    INT,
)
from headwater.plan.subqueries.counted import only_counted
from headwater.plan.subqueries.keyed import (
    FALSE,
    LIVE,
    NONE,
    ONE,
    Keyed,
    beside_outer,
    by_equalities,
    key_of,
    keyless,
    matching,
    outer_rows,
)
from headwater.rules.monomial import Monomial, monomial, sum_of, summands
from headwater.rules.normalize import normalize
from headwater.rules.rows import cells, spread

if TYPE_CHECKING:
    from headwater.plan.subqueries.cut import Subqueries

Cases = list[tuple[tuple[tuple[Var, Term], ...], tuple[Term, ...]]]
"""A truth value as cases of which at most one holds: atoms to join, factors."""


class Truth:
    """Whether a subquery has rows, given a row of a monomial, as joins."""

    def __init__(self, of: Subqueries, m: Monomial):
        self.of, self.m = of, m
        self.rows = {v for v, _ in m.atoms}

    def absent(self, term: Term) -> Cases:
        """¬r."""
        match term:
            case Not(inner):
                return self.present(inner)
            case Pred(e):
                return [((), (Pred(Call("not", (Call("coalesce", (e, FALSE)),))),))]
            case Num(value):
                return [] if value else [((), ())]
            case Zero():
                return [((), ())]
            case Times(factors):
                return self._absent_product(list(factors))
            case Add(terms) if not any(isinstance(t, Neg) for t in terms):
                return _both(*(self.absent(t) for t in terms))
            case _:
                return self._joined(term, there=False)

    def _absent_product(self, factors: list[Term]) -> Cases:
        """¬(a · b) = ¬a + ¬¬a · ¬b."""
        first, *rest = factors
        if not rest:
            return self.absent(first)
        return [
            *self.absent(first),
            *_both(self.present(first), self._absent_product(rest)),
        ]

    def present(self, term: Term) -> Cases:
        """¬¬r."""
        match term:
            case Not(inner):
                return self.absent(inner)
            case Pred():
                return [((), (term,))]
            case Num(value):
                return [((), ())] if value else []
            case Zero():
                return []
            case Times(factors):
                return _both(*(self.present(f) for f in factors))
            case Add((first, *rest)) if not any(isinstance(t, Neg) for t in (first, *rest)):
                more = Add(tuple(rest)) if len(rest) > 1 else rest[0]
                return [*self.present(first), *_both(self.absent(first), self.present(more))]
            case _:
                return self._joined(term, there=True)

    def counted(self, term: Term) -> Monomial | None:
        """The monomial times ¬r, where some of its rows are only counted; None if there are none such.

        These rows are not joined. The answers A have, for each key at which r has nothing, how many of them there are,
        and the monomial is multiplied by that number (see `counted.py`).
        """
        if not isinstance(term, For) or _null_aware(term) is not None:
            return None
        of, found = self.of, keyless(summands(term))
        outer = {v for v in variables(term) if v in self.rows}
        by = by_equalities(found, outer) if outer else None
        split = only_counted(self.m, by.keys) if by is not None else None
        if split is None:
            return None
        keyed = Keyed(of.keyed(found, outer, self.m).parts, split.keys)
        groups = beside_outer(keyed, split.counted, lambda q: (("c", q),), (("c", NONE),))
        k, w = Var(of.fresh("k"), type_of(groups).key), Var(of.fresh("w"), type_of(groups).value)
        row = Record((*key_of(cells(k)).fields, ("n", Box(Field(w, "n")))))
        answers = of.named(Each(k, w, groups, Times((*_none_beside(w), Sng(row, ONE)))))
        p = Var(of.fresh("p"), type_of(answers).key)
        m = split.rest
        rows = {v for v, _ in m.atoms}
        keys: dict[Term, Term] = {t: Field(p, f"_key{i}") for t, i in split.equal.items()}
        joined = [Pred(Call("<=>", (key, t))) for t, key in keys.items() if variables(t) <= rows]
        factors = [replaced(f, keys) for f in m.factors]
        atoms = ((p, answers), *m.atoms)
        return Monomial(atoms, (*joined, *factors, Unbox(Field(p, "n"))), replaced(m.output, keys))

    def _joined(self, term: Term, there: bool) -> Cases:
        """A join with the keys at which a subquery has rows, or with those of the outer rows at which it has none."""
        split = _null_aware(term)
        if split is not None:
            return self.present(split) if there else self.absent(split)
        of, found = self.of, summands(term)
        outer = {v for v in variables(term) if v in self.rows}
        w = Var(of.fresh("w"), INT)
        if not outer:
            whole = sum_of(of.expanded(found), INT)
            test = Pred(Call(">" if there else "=", (Box(w), LIVE)))
            answers = of.named(Let(w, whole, Times((test, Sng(Record((("_key0", LIVE),)), ONE)))))
            return [(((Var(of.fresh("p"), type_of(answers).key), answers),), ())]
        keyed = of.keyed(keyless(found), outer, self.m)
        if there:
            groups = sum_of(keyed.parts)
            k = Var(of.fresh("k"), type_of(groups).key)
            tests: tuple[Term, ...] = (Pred(Call(">", (Box(w), LIVE))),)
        else:
            groups = beside_outer(
                keyed, outer_rows(self.m, keyed.keys), lambda q: (("c", q),), (("c", NONE),)
            )
            k = Var(of.fresh("k"), type_of(groups).key)
            w = Var(w.name, type_of(groups).value)
            tests = _none_beside(w)
        row = spread(k, {k})
        answers = of.named(Each(k, w, groups, Times((*tests, Sng(row, ONE)))))
        p = Var(of.fresh("p"), type_of(answers).key)
        return [(((p, answers),), matching(p, keyed.keys))]


def _none_beside(w: Var) -> tuple[Term, ...]:
    """That there are outer rows, and none of the subquery."""
    counts = ((">", "n"), ("=", "c"))
    return tuple(Pred(Call(op, (Box(Field(w, n)), LIVE))) for op, n in counts)


def _both(*several: Cases) -> Cases:
    """A product of truth values: one case of each."""
    return [
        (tuple(a for atoms, _ in chosen for a in atoms), tuple(f for _, fs in chosen for f in fs))
        for chosen in product(*several)
    ]


def _null_aware(term: Term) -> Term | None:
    """[coalesce(a = b, true)] · r, of NOT IN, is there when [a = b] · r, [a is null] · r or [b is null] · r is."""
    if not isinstance(term, For):
        return None
    m = monomial(term)
    for i, f in enumerate(m.factors):
        match f:
            case Pred(Call("coalesce", (Call("=", (a, b)), Const(True)))):
                rest = (*m.factors[:i], *m.factors[i + 1 :])
                sides = [Call("is_null", (t,)) for t in (a, b) if not isinstance(t, Const)]
                tests = [Call("=", (a, b)), *sides]
                parts = [
                    normalize(Monomial(m.atoms, (Pred(c), *rest), m.output).build(m.output))
                    for c in tests
                ]
                return Add(tuple(parts))
    return None
