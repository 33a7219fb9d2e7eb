"""The reference interpreter: the meaning of every term, small and slow.

`interpret(term, inputs)` gives a ring value or a key for a term and the values of its inputs, by
name. Bags may have negative multiplicities. Every other component is tested against this file, so it
follows the sentences in `terms.py` and nothing else: no rewriting, no cleverness.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, assert_never

from headwater.calculus import ring
from headwater.calculus.answers import ANSWERS
from headwater.calculus.check import type_of
from headwater.calculus.ring import Dictionary, Function, LabelValue, RingMap, Value
from headwater.calculus.scalars import SCALARS, evaluate, fit
from headwater.calculus.terms import (
    Add,
    Answer,
    Apply,
    Box,
    Call,
    Const,
    Dict,
    DictUnion,
    Differential,
    Each,
    Field,
    Fn,
    For,
    Label,
    Let,
    Neg,
    Not,
    Num,
    Pointwise,
    Pred,
    Record,
    Rel,
    Repeat,
    Sng,
    Sum,
    Term,
    Times,
    Unbox,
    Var,
    Within,
    Zero,
)
from headwater.calculus.types import Exact, ListType, MapType, RealType
from headwater.errors import NoFixpoint, NotInterpretable

Scope = dict[str, Value]


def interpret(term: Term, inputs: Mapping[str, Value], scope: Scope | None = None) -> Value:
    """The value of a term where inputs and free variables have the given values."""
    return Evaluation(inputs).value(term, scope or {})


class Evaluation:
    """One evaluation: the inputs are fixed, scopes come and go."""

    def __init__(self, inputs: Mapping[str, Value]):
        self.inputs = inputs

    def value(self, term: Term, scope: Scope) -> Value:
        match term:
            case Const(value) | Num(value):
                return ring.number(value)
            case Zero(t):
                return ring.zero(t)
            case Var(name):
                if name not in scope:
                    raise NotInterpretable(f"the variable `{name}` has no value")
                return scope[name]
            case Rel(name):
                if name not in self.inputs:
                    raise NotInterpretable(f"input `{name}` has no value")
                return self.inputs[name]
            case Record(fields):
                return tuple(self.value(t, scope) for _, t in fields)
            case Field():
                return self._field(term, scope)
            case Call():
                return self._call(term, scope)
            case Sng(key, value):
                return ring.collect([(self.value(key, scope), self.value(value, scope))])
            case Add(terms):
                out = self.value(terms[0], scope)
                for other in terms[1:]:
                    out = ring.add(out, self.value(other, scope))
                return out
            case Neg(inner):
                return ring.neg(self.value(inner, scope))
            case Times():
                return self._times(term, scope)
            case Pointwise(left, right):
                return ring.pointwise(self.value(left, scope), self.value(right, scope))
            case Sum(inner):
                return ring.total(self.value(inner, scope), ring.zero(type_of(term)))
            case For():
                return self._for(term, scope)
            case Let(var, bound, body):
                return self.value(body, {**scope, var.name: self.value(bound, scope)})
            case Pred(condition):
                return 1 if self.value(condition, scope) is True else 0
            case Not(inner):
                return 1 if ring.is_zero(self.value(inner, scope)) else 0
            case Box(inner):
                return fit(type_of(term), self.value(inner, scope))
            case Unbox():
                return self._unbox(term, scope)
            case Label(index, args):
                return LabelValue(index, tuple(self.value(a, scope) for a in args))
            case Dict():
                return self._dict(term, scope)
            case DictUnion(left, right):
                return ring.union(self.value(left, scope), self.value(right, scope))
            case Fn(var, body):
                return Function(lambda x: self.value(body, {**scope, var.name: x}))
            case Apply(function, argument):
                f, a = self.value(function, scope), self.value(argument, scope)
                return ring.apply(f, a, ring.zero(type_of(term)))
            case Differential(function):
                f = self.value(function, scope)
                return Function(
                    lambda x: Function(lambda dx: ring.add(f(ring.add(x, dx)), ring.neg(f(x))))
                )
            case Each():
                return self._each(term, scope)
            case Repeat():
                return self._repeat(term, scope)
            case Answer(name, params, inner):
                return ANSWERS[name].apply(params, self.value(inner, scope))
            case _:
                assert_never(term)

    def _field(self, term: Field, scope: Scope) -> Value:
        value = self.value(term.term, scope)
        if value is None:  # a field of a NULL record is NULL
            return None
        names = [n for n, _ in type_of(term.term).fields]
        return value[names.index(term.name)]

    def _times(self, term: Times, scope: Scope) -> Value:
        values = []
        for factor in term.factors:
            value = self.value(factor, scope)
            if ring.is_zero(value):
                return ring.zero(type_of(term))
            values.append(value)
        return ring.times(tuple(values))

    def _for(self, term: For, scope: Scope) -> Value:
        out = ring.zero(type_of(term))
        for key, value in self.value(term.source, scope).items():
            body = self.value(term.body, {**scope, term.var.name: key})
            if not ring.is_zero(body):
                out = ring.add(out, ring.scale(value, body))
        return out

    def _each(self, term: Each, scope: Scope) -> Value:
        out = ring.zero(type_of(term))
        for key, value in self.value(term.source, scope).items():
            inner = {**scope, term.key.name: key, term.value.name: value}
            out = ring.add(out, self.value(term.body, inner))
        return out

    def _repeat(self, term: Repeat, scope: Scope) -> Value:
        now = self.value(term.start, scope)
        for _ in range(term.limit if term.times is None else term.times):
            before, now = now, self.value(term.step, {**scope, term.var.name: now})
            if before == now and term.within is None:
                return now
            if term.within is not None and _within(term.within, type_of(term), before, now):
                return now
        if term.times is None:
            raise NoFixpoint(
                f"the loop still changes after {term.limit:,} rounds",
                hint="end it: times= says how many rounds there are, until= how near is near enough",
            )
        return now

    def _unbox(self, term: Unbox, scope: Scope) -> Value:
        value, t = self.value(term.key, scope), type_of(term)
        if value is None:
            return ring.zero(t)
        if isinstance(t, RealType):
            return float(value)
        if isinstance(t, Exact):
            return Decimal(value)
        if isinstance(type_of(term.key), ListType):
            return ring.collect((element, 1) for element in value)
        assert not isinstance(t, MapType) or isinstance(value, RingMap), value
        return value

    def _dict(self, term: Dict, scope: Scope) -> Value:
        nothing = ring.zero(type_of(term.body))
        names = [p.name for p in term.params]

        def defines(label: Any) -> bool:
            return isinstance(label, LabelValue) and label.index == term.index

        def apply(label: Any) -> Value:
            if not defines(label):
                return nothing
            return self.value(term.body, {**scope, **dict(zip(names, label.args, strict=True))})

        return Dictionary(apply, defines)

    def _call(self, term: Call, scope: Scope) -> Value:
        args = term.args
        match term.function:
            case "case":
                for condition, result in zip(args[:-1:2], args[1::2], strict=True):
                    if self.value(condition, scope) is True:
                        return self._fitted(term, result, scope)
                return self._fitted(term, args[-1], scope)
            case "coalesce":
                for a in args:
                    if self.value(a, scope) is not None:
                        return self._fitted(term, a, scope)
                return None
            case "and" | "or":
                decisive, unknown = term.function == "or", False
                for a in args:
                    value = self.value(a, scope)
                    if value is decisive:
                        return decisive
                    unknown = unknown or value is None
                return None if unknown else not decisive
            case name if name in SCALARS:
                types = tuple(type_of(a) for a in args)
                return evaluate(name, type_of(term), types, [self.value(a, scope) for a in args])
            case name:
                raise NotInterpretable(
                    f"the interpreter does not know the function `{name}`",
                    hint="register a Python meaning for it, or run the query on Spark",
                )

    def _fitted(self, term: Call, branch: Term, scope: Scope) -> Value:
        """A branch's value in the type of the whole: an int branch of a decimal case is a decimal."""
        return ring.number(fit(type_of(term), self.value(branch, scope)))


def _within(end: Within, t: MapType, before: RingMap, after: RingMap) -> bool:
    """Whether a column moves by no more than epsilon, from one round to the next."""
    names = [n for n, _ in t.key.fields]  # type: ignore[union-attr]
    by, column = [names.index(n) for n in end.by], names.index(end.column)

    def values(rows: RingMap) -> dict[Any, tuple[int, int, Any]]:
        """By key its rows, its values that are not NULL, and their sum."""
        out: dict[Any, tuple[int, int, Any]] = {}
        for row, n in rows.items():
            key, value = tuple(row[i] for i in by), row[column]
            count, known, total = out.get(key, (0, 0, 0))
            if value is not None:
                known, total = known + n, total + n * value
            out[key] = count + n, known, total
        return out

    old, new = values(before), values(after)
    return old.keys() == new.keys() and all(
        old[k][:2] == new[k][:2]
        and (old[k][2] == new[k][2] or abs(new[k][2] - old[k][2]) <= end.epsilon)
        for k in old
    )
