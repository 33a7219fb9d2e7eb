"""Simplification: ring laws, constants, and what a constructor followed by its inverse leaves.

Every rule makes a term smaller or more direct and keeps its meaning; each has a golden file of the
same name. Comprehensions are put into normal form by `normalize`, which starts from here.
"""

from __future__ import annotations

from headwater.calculus import ring
from headwater.calculus.check import type_of
from headwater.calculus.scalars import SCALARS, evaluate
from headwater.calculus.terms import (
    Add,
    Answer,
    Apply,
    Box,
    Call,
    Const,
    Dict,
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
    Sng,
    Sum,
    Term,
    Times,
    Unbox,
    Var,
    Zero,
    binders,
    change_name,
    children,
    free,
    fresh,
    names_in,
    substitute,
)
from headwater.calculus.types import BOOLEAN, INT, MapType, is_key
from headwater.errors import ScalarError
from headwater.rules.delta import derive
from headwater.rules.rewrite import Rule, Step, rewrite


def is_zero(term: Term) -> bool:
    """Whether a term is literally 0."""
    return isinstance(term, Zero) or (isinstance(term, Num) and term.value == 0)


def add_flatten(term: Add) -> Term | None:
    """(a + b) + c = a + b + c."""
    match term:
        case Add(terms) if any(isinstance(t, Add) for t in terms):
            return Add(tuple(u for t in terms for u in (t.terms if isinstance(t, Add) else (t,))))
    return None


def add_zero(term: Add) -> Term | None:
    """a + 0 = a."""
    match term:
        case Add(terms) if any(map(is_zero, terms)):
            kept = tuple(t for t in terms if not is_zero(t))
            return Add(kept) if kept else terms[0]
    return None


def add_single(term: Add) -> Term | None:
    """A sum of one term is the term."""
    match term:
        case Add((only,)):
            return only
    return None


def add_cancel(term: Add) -> Term | None:
    """a + -a = 0."""
    match term:
        case Add(terms):
            for i, t in enumerate(terms):
                if isinstance(t, Neg) and t.term in terms:
                    j = terms.index(t.term)
                    rest = tuple(u for n, u in enumerate(terms) if n not in (i, j))
                    return Add((*rest, Zero(type_of(term))))
    return None


def add_numbers(term: Add) -> Term | None:
    """2 + 3 = 5."""
    match term:
        case Add(terms) if sum(isinstance(t, Num) for t in terms) > 1:
            numbers = [t for t in terms if isinstance(t, Num)]
            value = numbers[0].value
            for n in numbers[1:]:
                value = ring.add(value, n.value)
            rest = tuple(t for t in terms if not isinstance(t, Num))
            return Add((*rest, Num(value, type_of(term))))
    return None


def neg_neg(term: Neg) -> Term | None:
    """--a = a."""
    match term:
        case Neg(Neg(a)):
            return a
    return None


def neg_zero(term: Neg) -> Term | None:
    """-0 = 0."""
    match term:
        case Neg(a) if is_zero(a):
            return a
    return None


def times_zero(term: Times) -> Term | None:
    """a · 0 = 0."""
    match term:
        case Times(factors) if any(map(is_zero, factors)):
            return Zero(type_of(term))
    return None


def times_one(term: Times) -> Term | None:
    """1 · a = a."""
    match term:
        case Times((only,)):
            return only
        case Times(factors) if any(f == Num(1, INT) for f in factors):
            return Times(tuple(f for f in factors if f != Num(1, INT)) or factors[:1])
    return None


def times_flatten(term: Times) -> Term | None:
    """(a · b) · c = a · b · c where at most one factor inside is a map, so that no keys are regrouped."""
    match term:
        case Times(factors):
            for i, f in enumerate(factors):
                if isinstance(f, Times) and _maps(f.factors) <= 1:
                    return Times((*factors[:i], *f.factors, *factors[i + 1 :]))
    return None


def times_neg(term: Times) -> Term | None:
    """a · -b = -(a · b)."""
    match term:
        case Times(factors):
            for i, f in enumerate(factors):
                if isinstance(f, Neg):
                    return Neg(Times((*factors[:i], f.term, *factors[i + 1 :])))
    return None


def _maps(factors: tuple[Term, ...]) -> int:
    return sum(isinstance(type_of(f), MapType) for f in factors)


def pointwise_zero(term: Pointwise) -> Term | None:
    """a * 0 = 0."""
    match term:
        case Pointwise(left, right) if is_zero(left) or is_zero(right):
            return Zero(type_of(term))
    return None


def sum_zero(term: Sum) -> Term | None:
    """sum(0) = 0."""
    match term:
        case Sum(a) if is_zero(a):
            return Zero(type_of(term))
    return None


def sum_singleton(term: Sum) -> Term | None:
    """sum({e ↦ r}) = r."""
    match term:
        case Sum(Sng(_, value)):
            return value
    return None


def sng_zero(term: Sng) -> Term | None:
    """{e ↦ 0} = 0."""
    match term:
        case Sng(_, value) if is_zero(value):
            return Zero(type_of(term))
    return None


def for_zero(term: For) -> Term | None:
    """for x in 0 collect b = for x in a collect 0 = 0."""
    match term:
        case For(_, source, body) if is_zero(source) or is_zero(body):
            return Zero(type_of(term))
    return None


def for_singleton(term: For) -> Term | None:
    """for x in {e ↦ r} collect s = r · s[e/x]."""
    match term:
        case For(var, Sng(key, value), body):
            return Times((value, substitute(body, {var: key})))
    return None


def each_zero(term: Each) -> Term | None:
    """each k ↦ v in 0 collect b = each k ↦ v in m collect 0 = 0."""
    match term:
        case Each(_, _, source, body) if is_zero(source) or is_zero(body):
            return Zero(type_of(term))
    return None


def field_of_record(term: Field) -> Term | None:
    """{a: e, ...}.a = e."""
    match term:
        case Field(Record(fields), name):
            return dict(fields)[name]
        case Field(Zero(), _):
            return Zero(type_of(term))
    return None


def unbox_box(term: Unbox) -> Term | None:
    """unbox(box(r)) = r."""
    match term:
        case Unbox(Box(inner)):
            return inner
    return None


def let_inline(term: Let) -> Term | None:
    """let X := a in b = b[a/X] when a is a leaf, or X is read at most once and under no binder."""
    match term:
        case Let(var, bound, body):
            leaf = isinstance(bound, (Var, Rel, Const, Num, Zero))
            if leaf or var not in free(body) or _reads(body, var) == 1:
                return substitute(body, {var: bound})
    return None


def _reads(term: Term, var: Var) -> int:
    """How often a variable is read; a read under a binder counts as many."""
    if term == var:
        return 1
    if var not in free(term):
        return 0
    many = 2 if binders(term) else 1
    *outer, last = children(term)
    return sum(_reads(c, var) for c in outer) + many * _reads(last, var)


def apply_fn(term: Apply) -> Term | None:
    """(fn x => r) @ a = r[a/x]."""
    match term:
        case Apply(Fn(var, body), argument):
            return substitute(body, {var: argument})
    return None


def apply_dict(term: Apply) -> Term | None:
    """(dict ι(x) ↦ r) @ ι(e) = r[e/x], and 0 at a label with another index."""
    match term:
        case Apply(Dict(index, params, body), Label(other, args)):
            if index != other:
                return Zero(type_of(term))
            return substitute(body, dict(zip(params, args, strict=True)))
    return None


def apply_zero(term: Apply) -> Term | None:
    """0 @ e = 0."""
    match term:
        case Apply(Zero(), _):
            return Zero(type_of(term))
    return None


def apply_add(term: Apply) -> Term | None:
    """(f + g) @ a = f @ a + g @ a, and (-f) @ a = -(f @ a)."""
    match term:
        case Apply(Add(terms), argument):
            return Add(tuple(Apply(t, argument) for t in terms))
        case Apply(Neg(f), argument):
            return Neg(Apply(f, argument))
    return None


def differential_fn(term: Differential) -> Term | None:
    """δ(fn x => r) = fn x => fn Δx => δ_x r."""
    match term:
        case Differential(Fn(var, body)):
            taken = names_in(body) | {var.name}
            change = Var(fresh(change_name(var.name), taken), var.type)
            return Fn(var, Fn(change, derive(body, {var: change}) or Zero(type_of(body))))
    return None


def pred_constant(term: Pred) -> Term | None:
    """[true] = 1; [false] = [null] = 0."""
    match term:
        case Pred(Const(value)):
            return Num(1 if value is True else 0, INT)
    return None


def not_constant(term: Not) -> Term | None:
    """¬0 = 1, ¬n = 0 for any other number, and ¬¬¬a = ¬a."""
    match term:
        case Not(a) if is_zero(a):
            return Num(1, INT)
        case Not(Num()):
            return Num(0, INT)
        case Not(Not(Not(a))):
            return Not(a)
    return None


def call_constant(term: Call) -> Term | None:
    """A listed scalar function of constants is a constant, unless it is an error."""
    match term:
        case Call(name, args) if name in SCALARS and args and name not in _UNFOLDED:
            if all(isinstance(a, Const) for a in args):
                try:
                    types = tuple(type_of(a) for a in args)
                    value = evaluate(
                        name, type_of(term), types, [getattr(a, "value", None) for a in args]
                    )
                except ScalarError:
                    return None
                return Const(value, type_of(term))
    return None


def call_null(term: Call) -> Term | None:
    """A strict function of NULL is NULL."""
    match term:
        case Call(name, args) if name in SCALARS and SCALARS[name].strict:
            if any(isinstance(a, Const) and a.value is None for a in args):
                return Const(None, type_of(term))
    return None


_UNFOLDED = {"case", "coalesce", "_exact"}
"""Evaluated branch by branch in the interpreter, so not by their row; or no constant of a column."""


def and_constant(term: Call) -> Term | None:
    """true and e = e; false and e = false, for conditions."""
    match term:
        case Call("and", args) if any(isinstance(a, Const) and a.value is not None for a in args):
            if any(isinstance(a, Const) and a.value is False for a in args):
                return Const(False, BOOLEAN)
            rest = tuple(a for a in args if not (isinstance(a, Const) and a.value is True))
            return Call("and", rest) if len(rest) > 1 else rest[0] if rest else Const(True, BOOLEAN)
    return None


def null_of_record(term: Call) -> Term | None:
    """A record that is written out is not NULL, whatever its fields are; neither is what is boxed."""
    match term:
        case Call("is_null" | "is_not_null" as test, (Record() | Box(),)):
            return Const(test == "is_not_null", BOOLEAN)
    return None


def single_singleton(term: Answer) -> Term | None:
    """single({e}) = e, under a let too."""
    match term:
        case Answer("single", (), Sng(key, Num(1))):
            return key
        case Answer("single", (), Let(var, bound, body)) if not is_key(var.type):
            return Let(var, bound, Answer("single", (), body))
    return None


def extreme_zero(term: Answer) -> Term | None:
    """max(∅) = NULL."""
    match term:
        case Answer("min" | "max", (), Zero()) if is_key(t := type_of(term)):
            return Const(None, t)
    return None


SIMPLIFY: tuple[Rule, ...] = (
    add_flatten,
    add_zero,
    add_cancel,
    add_numbers,
    add_single,
    neg_neg,
    neg_zero,
    times_zero,
    times_one,
    times_flatten,
    times_neg,
    pointwise_zero,
    sng_zero,
    sum_zero,
    sum_singleton,
    for_zero,
    for_singleton,
    each_zero,
    field_of_record,
    unbox_box,
    let_inline,
    apply_zero,
    apply_fn,
    apply_dict,
    apply_add,
    differential_fn,
    pred_constant,
    not_constant,
    call_constant,
    call_null,
    and_constant,
    null_of_record,
    single_singleton,
    extreme_zero,
)


def simplify(term: Term, trace: list[Step] | None = None) -> Term:
    """The term with all simplification rules applied."""
    return rewrite(term, SIMPLIFY, trace=trace)
