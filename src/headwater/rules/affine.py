"""Loops whose values are sums: kept as sums, with nothing to answer in their rounds.

    repeat x := s then F(x) = F(each k ↦ w in y collect {k, w})        F(x) = (k, α + β·Σ v.w), v over rows of x
    y = repeat y := w·{k} then (α + β·Σ y)·{k}                          a row's value as how often its key is there

How many people are below whom, what an assembly costs, how many ways lead to a node: values of one round are sums of those of
the round before. As rows, a value that moves is an old row and a new one, told by a group that is answered in every round. As
multiplicities of a bag of keys the values are linear: the loop is sums of products, without an answer in it, and its step is
once more taken of what it leaves, to tell the rows.

This is for whole numbers, which the multiplicities of a bag are. A sum of doubles is rounded in every round, which is not linear.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Add,
    Box,
    Call,
    Const,
    Each,
    Field,
    Let,
    Neg,
    Num,
    Pred,
    Record,
    Repeat,
    Sng,
    Term,
    Times,
    Unbox,
    Var,
    children,
    fresh,
    names_in,
    replaced,
    substitute,
    variables,
)
from headwater.calculus.types import BIGINT, INT, MapType, RecordType, bag, is_key
from headwater.rules.monomial import Monomial, Signed, monomial, sum_of, summands
from headwater.rules.normalize import normalize
from headwater.rules.rewrite import Rule

ONE = Num(1, INT)


def affine_loop(term: Repeat) -> Term | None:
    """repeat x := s then F(x) = F(each k ↦ w in y collect {k, w}), where y := w·{k} then (α + β·Σ y)·{k}."""
    t = type_of(term)
    if term.within is not None or term.times == 0 or not isinstance(t, MapType):
        return None
    if t.value != INT or not isinstance(t.key, RecordType) or len(t.key.fields) < 2:
        return None
    start, step = (summands(normalize(s)) for s in (term.start, term.step))
    found = [_moving(m, term.var) for _, m in step]
    columns = {c for moving in found for c in moving or ()}
    if None in found or len(columns) != 1:
        return None
    (column,) = columns
    is_whole = dict(t.key.fields)[column] == BIGINT
    return _Affine(term, t.key, column).rewritten(start, step) if is_whole else None


def _moving(m: Monomial, x: Var) -> list[str] | None:
    """The columns of a step's rows that read the loop; None if something else does."""
    if not _has_rows(m):
        return None
    assert isinstance(m.output, Sng) and isinstance(m.output.key, Record)
    rest = (m.output.value, *m.factors, *(s for _, s in m.atoms))
    if any(x in variables(s) for s in rest):
        return None
    return [n for n, c in m.output.key.fields if x in variables(c)]


class _Affine:
    """A loop over rows, of which one column is only added up."""

    def __init__(self, term: Repeat, row: RecordType, column: str):
        self.term, self.x, self.row, self.column = term, term.var, row, column
        self.rest = RecordType(tuple(f for f in row.fields if f[0] != column))
        """The columns of a row beside its value."""
        self.y = Var(fresh(f"{self.x.name}s", names_in(term)), bag(self.rest))

    def rewritten(self, start: Signed, step: Signed) -> Term | None:
        """The step over the values that the loop leaves, one row for each key; None if it is not affine."""
        sums: dict[Term, Term] = {}
        for _, m in step:
            found = self._sums(_cell(m, self.column))
            if found is None:
                return None
            sums |= found
        if not all(_has_rows(m) for _, m in start):
            return None
        t, times = self.y.type, self.term.times
        begun, values = (
            normalize(sum_of([(sign, self._as_values(m, sums)) for sign, m in part], t))
            for part in (start, step)
        )
        made = replace(
            self.term,
            var=self.y,
            start=begun,
            step=values,
            times=None if times is None else times - 1,
        )
        return substitute(self.term.step, {self.x: self._rows(made)})

    def _rows(self, values: Term) -> Term:
        """Every key that has a value, with it."""
        taken = names_in(self.term)
        k, w = Var(fresh("k", taken), self.rest), Var(fresh("w", taken), INT)
        cells: dict[str, Term] = {n: Field(k, n) for n, _ in self.rest.fields}
        cells[self.column] = Box(w)
        return Each(
            k, w, values, Sng(Record(tuple((n, cells[n]) for n, _ in self.row.fields)), ONE)
        )

    # --- what is added up -----------------------------------------------------------------------------------------

    def _sums(self, e: Term) -> dict[Term, Term] | None:
        """The sums of values in an affine scalar, each as a number over y; None if it is not affine."""
        if self.x not in variables(e):
            return {}
        match e:
            case Call("+" | "-", (a, b)) if type_of(e) == BIGINT:
                sides = [self._sums(a), self._sums(b)]
            case Call("*", (a, b)) if type_of(e) == BIGINT:
                if all(self.x in variables(s) for s in (a, b)):
                    return None
                sides = [self._sums(a), self._sums(b)]
            case _:
                added = _added(e)
                number = None if added is None else self._linear(added)
                return None if number is None else {e: number}
        return None if None in sides else {k: v for s in sides if s for k, v in s.items()}

    def _linear(self, number: Term) -> Term | None:
        """A sum of values of x as that of multiplicities of y; None if it reads them otherwise."""
        out: Signed = []
        for sign, m in summands(normalize(number)):
            mine = [v for v, source in m.atoms if source == self.x]
            others = [s for _, s in m.atoms if s != self.x]
            if len(mine) != 1 or any(self.x in variables(s) for s in (*others, *m.factors)):
                return None
            made = self._without_value(m, mine[0])
            if made is None:
                return None
            out.append((sign, made))
        return sum_of(out, INT)

    def _without_value(self, m: Monomial, v: Var) -> Monomial | None:
        """A monomial with y for x, without the value as a factor; None if that is not one, or something else, too."""
        given = (*m.factors, m.output)
        # NULL is 0 as a number, so that nothing has to be said of it.
        known = {Pred(Call("is_not_null", (f.key,))) for f in given if isinstance(f, Unbox)}
        factors = [p for f in given if f not in known for p in _product(f)]
        value = Unbox(Field(v, self.column))
        if factors.count(value) != 1:
            return None
        factors.remove(value)
        y = Var(v.name, self.rest)
        cells: dict[Term, Term] = {Field(v, n): Field(y, n) for n, _ in self.rest.fields}
        atoms = tuple(
            (y, self.y) if w == v else (w, replaced(source, cells)) for w, source in m.atoms
        )
        left = [replaced(f, cells) for f in factors]
        if any(v in variables(t) for t in (*left, *(s for _, s in atoms))):
            return None
        return monomial(Monomial(atoms, tuple(left), ONE).build(ONE))

    # --- values as multiplicities -----------------------------------------------------------------------------------

    def _as_values(self, m: Monomial, sums: dict[Term, Term]) -> Monomial:
        """Rows as their keys, each as often as its value says: none where that is NULL."""
        assert isinstance(m.output, Sng) and isinstance(m.output.key, Record)
        e = _cell(m, self.column)
        key = Record(tuple((n, c) for n, c in m.output.key.fields if n != self.column))
        guards = [Pred(Call("is_not_null", (c,))) for c in _nullable(e, sums)]
        times = Times((*guards, _number(e, sums), m.output.value))
        return Monomial(m.atoms, m.factors, Sng(key, times))


def _has_rows(m: Monomial) -> bool:
    return isinstance(m.output, Sng) and isinstance(m.output.key, Record)


def _cell(m: Monomial, column: str) -> Term:
    """The value of a monomial's rows."""
    assert isinstance(m.output, Sng) and isinstance(m.output.key, Record)
    return dict(m.output.key.fields)[column]


def _product(number: Term) -> list[Term]:
    """unbox(a * b) = unbox(a) · unbox(b), of whole numbers."""
    match number:
        case Unbox(Call("*", (a, b)) as e) if type_of(e) == BIGINT:
            return [*_product(Unbox(a)), *_product(Unbox(b))]
    return [number]


def _added(e: Term) -> Term | None:
    """The number that a scalar shows: box(r), or an SQL sum that is 0 where there are no values."""
    match e:
        case Box(number) if type_of(number) == INT:
            return number
        case Call("coalesce", (Let(v, bound, shown), Const(0))):
            match shown:
                case Call("case", (none, Const(None), Box(Field(a, s)))) if a == v:
                    match none:
                        case Call("=", (Box(Field(b, n)), Const(0))) if b == v:
                            return _counted(bound, s, n)
    return None


def _counted(bound: Term, total: str, count: str) -> Term | None:
    """The component of a value that adds some values, if another one counts them: where there are none it is 0."""
    for _, m in summands(normalize(bound)):
        parts = dict(m.output.fields) if isinstance(m.output, Record) else {}
        match parts.get(total), parts.get(count):
            case Times((Pred(Call("is_not_null", (a,))) as there, Unbox(b))), Pred() as counted:
                if a != b or there != counted:
                    return None
            case _:
                return None
    return normalize(Field(bound, total))


def _number(e: Term, sums: dict[Term, Term]) -> Term:
    """An affine scalar as a number."""
    if e in sums:
        return sums[e]
    match e:
        case Call("+", (a, b)) if _reads(e, sums):
            return Add((_number(a, sums), _number(b, sums)))
        case Call("-", (a, b)) if _reads(e, sums):
            return Add((_number(a, sums), Neg(_number(b, sums))))
        case Call("*", (a, b)) if _reads(e, sums):
            return Times((_number(a, sums), _number(b, sums)))
        case Const(value) if value is not None:
            return Num(value, INT)
    return Unbox(e)


def _nullable(e: Term, sums: dict[Term, Term]) -> Iterable[Term]:
    """The parts of an affine scalar that may be NULL, so that all of it is."""
    if e in sums:
        return []
    if _reads(e, sums):
        return [c for part in children(e) for c in _nullable(part, sums)]
    known = isinstance(e, Box) or (isinstance(e, Const) and e.value is not None)
    return [] if known else [e]


def _reads(e: Term, sums: dict[Term, Term]) -> bool:
    """Whether some of the sums stand in a scalar."""
    return e in sums or any(_reads(c, sums) for c in children(e) if is_key(type_of(c)))


AFFINE: tuple[Rule, ...] = (affine_loop,)
