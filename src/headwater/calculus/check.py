"""Types of terms, and well-formedness.

`type_of` is a function of the term alone: leaves carry their types, binders are compared with what
they bind. A term without a type raises `IllTyped` with the sub-term, what was expected and what was
found. `check` says in addition that nothing is unbound and that inputs have their declared types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import headwater.calculus.functions  # noqa: F401  (its rows join SCALARS)
from headwater.calculus.answers import ANSWERS
from headwater.calculus.scalars import SCALARS
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
    Zero,
    relations,
    subterms,
    variables,
)
from headwater.calculus.types import (
    BOOLEAN,
    DYADIC,
    INT,
    LABEL,
    REAL,
    VOID,
    Exact,
    FunType,
    MapType,
    ProductType,
    RecordType,
    RingType,
    Type,
    boxed,
    is_finite,
    is_key,
    unboxed,
)
from headwater.errors import IllTyped


def type_of(term: Term) -> Any:
    """The type of a term, worked out once per node."""
    known = getattr(term, "_type", None)
    if known is None:
        known = _type_of(term)
        object.__setattr__(term, "_type", known)
    return known


def check(term: Term, inputs: Mapping[str, Type] | None = None) -> Type:
    """The type of a closed term; inputs, if given, must be declared with the types they are used at."""
    loose = variables(term)
    if loose:
        raise IllTyped(str(term), "no unbound variables", ", ".join(sorted(v.name for v in loose)))
    for rel in relations(term):
        if inputs is not None and inputs.get(rel.name) != rel.type:
            found = inputs.get(rel.name, "no such input")
            raise IllTyped(rel.name, f"an input of type {rel.type}", str(found))
    known: Type = type_of(term)
    for t in subterms(term):
        type_of(t)
    return known


def _fail(term: Term, expected: str, found: Any) -> IllTyped:
    return IllTyped(str(term), expected, str(found))


def _key(owner: Term, term: Term) -> Any:
    t = type_of(term)
    if not is_key(t):
        raise _fail(owner, f"a key for `{term}`", t)
    return t


def _ring(owner: Term, term: Term) -> Any:
    t = type_of(term)
    if is_key(t):
        raise _fail(owner, f"a ring value for `{term}`", t)
    return t


def _map(owner: Term, term: Term) -> MapType:
    t = type_of(term)
    if not isinstance(t, MapType):
        raise _fail(owner, f"a finite map for `{term}`", t)
    return t


def _same(owner: Term, terms: tuple[Term, ...]) -> Any:
    if not terms:
        raise _fail(owner, "at least one term", "none")
    first = _ring(owner, terms[0])
    for other in terms[1:]:
        if (t := _ring(owner, other)) != first:
            raise _fail(owner, f"{first} for `{other}`", t)
    return first


def _bound(owner: Term, var: Var, t: Type) -> None:
    if var.type != t:
        raise _fail(owner, f"{var.name} of type {t}", var.type)


def times_type(a: RingType, b: RingType) -> RingType | None:
    """The type of a · b: numbers promote, numbers scale products and maps, maps pair their keys."""
    if _rank(b) > _rank(a):
        a, b = b, a
    if b == INT:  # which every ring is scaled by
        return a
    match a:
        case FunType(argument, result):
            inner = None if isinstance(b, (FunType, MapType)) else times_type(result, b)
            return inner and FunType(argument, inner)
        case MapType(key, value) if isinstance(b, MapType):
            inner = times_type(value, b.value)
            return inner and MapType(RecordType((("_1", key), ("_2", b.key))), inner)
        case MapType(key, value):
            inner = times_type(value, b)
            return inner and MapType(key, inner)
        case ProductType(fields):
            others = b.fields if isinstance(b, ProductType) else tuple((n, b) for n, _ in fields)
            if [n for n, _ in fields] != [n for n, _ in others]:
                return None
            parts = [(n, times_type(t, u)) for (n, t), (_, u) in zip(fields, others, strict=True)]
            known = tuple((n, t) for n, t in parts if t is not None)
            return ProductType(known) if len(known) == len(parts) else None
        case _ if DYADIC in (a, b):
            return DYADIC if INT in (a, b) else None
        case _ if REAL in (a, b):
            return REAL
        case _ if isinstance(a, Exact) or isinstance(b, Exact):
            return Exact(sum(t.scale for t in (a, b) if isinstance(t, Exact)))
        case _:
            return INT


def _rank(t: RingType) -> int:
    """How much structure a ring has: what has more is scaled by what has less."""
    return {FunType: 3, MapType: 2, ProductType: 1}.get(type(t), 0)


def _product(owner: Term, factors: tuple[Term, ...]) -> RingType:
    """The type of a product: the keys of several maps pair, everything else scales."""
    types = [_ring(owner, f) for f in factors]
    maps = [t for t in types if isinstance(t, MapType)]
    if not types or (maps and any(isinstance(t, FunType) for t in types)):
        raise _fail(owner, "factors that can be multiplied", " · ".join(map(str, types)) or "none")
    out: RingType = INT
    for t in types:
        paired = isinstance(t, MapType) and len(maps) > 1
        out = _multiplied(owner, out, t.value if paired else t)
    if len(maps) < 2:
        return out
    return MapType(RecordType(tuple((f"_{i + 1}", m.key) for i, m in enumerate(maps))), out)


def _multiplied(owner: Term, a: RingType, b: RingType) -> RingType:
    out = times_type(a, b)
    if out is None:
        raise _fail(owner, "rings that can be multiplied", f"{a} · {b}")
    return out


def _collected(owner: Term, values: RingType, body: RingType) -> RingType:
    """The type of Σ v · b: a map body is scaled by the value and never paired with it."""
    if isinstance(values, MapType) and isinstance(body, MapType):
        raise _fail(owner, "a number or a product as the value or the body", f"{values} and {body}")
    return _multiplied(owner, values, body)


def _call(term: Call) -> Type:
    types = tuple(_key(term, a) for a in term.args)
    row = SCALARS.get(term.function)
    if row is None:
        if term.returns is None:
            raise _fail(term, "a declared type for an unlisted function", term.function)
        return term.returns
    if not row.takes(len(types)):
        raise _fail(term, f"{row.counted()} of {term.function}", str(len(types)))
    out = term.returns or row.types(types)
    if out is None:
        raise _fail(term, f"arguments that {term.function} takes", ", ".join(map(str, types)))
    return out


def _field(term: Field) -> Type:
    t = type_of(term.term)
    if not isinstance(t, (RecordType, ProductType)):
        raise _fail(term, f"a record for `{term.term}`", t)
    for name, inner in t.fields:
        if name == term.name:
            return inner
    raise _fail(term, f"a record with a field {term.name}", t)


def _record(term: Record) -> Type:
    types = tuple((n, type_of(t)) for n, t in term.fields)
    if len({n for n, _ in types}) < len(types):
        raise _fail(term, "distinct field names", ", ".join(n for n, _ in types))
    if all(is_key(t) for _, t in types):
        return RecordType(types)
    if any(is_key(t) for _, t in types):
        raise _fail(term, "all keys or all ring values", ", ".join(f"{n}: {t}" for n, t in types))
    return ProductType(types)


def _apply(term: Apply) -> Type:
    f, a = type_of(term.function), type_of(term.argument)
    match f:
        case MapType(key, value) if key == a:
            return value
        case FunType(argument, result) if argument == a:
            return result
        case MapType(wanted, _) | FunType(wanted, _):
            raise _fail(term, f"an argument of type {wanted}", a)
        case _:
            raise _fail(term, f"a map or a function for `{term.function}`", f)


def _each(term: Each) -> Type:
    source = _map(term, term.source)
    _bound(term, term.key, source.key)
    _bound(term, term.value, source.value)
    out: Type = _ring(term, term.body)
    return out


def _answer(term: Answer) -> Type:
    row, t = ANSWERS[term.function], _ring(term, term.term)
    out = row.types(t, term.params)
    if out is None:
        raise _fail(term, row.expects, t)
    return out


def _type_of(term: Term) -> Type:
    match term:
        case Const() | Var() | Rel() | Num() | Zero():
            known: Type = term.type
            return known
        case Record():
            return _record(term)
        case Field():
            return _field(term)
        case Call():
            return _call(term)
        case Sng(key, value):
            return MapType(_key(term, key), _ring(term, value))
        case Add(terms):
            same: Type = _same(term, terms)
            return same
        case Neg(inner):
            ring: Type = _ring(term, inner)
            return ring
        case Times(factors):
            return _product(term, factors)
        case Pointwise(left, right):
            return _pointwise(term, _ring(term, left), _ring(term, right))
        case Sum(inner):
            return _map(term, inner).value
        case For(var, source, body):
            m = _map(term, source)
            _bound(term, var, m.key)
            return _collected(term, m.value, _ring(term, body))
        case Let(var, bound, body):
            _bound(term, var, type_of(bound))
            whole: Type = type_of(body)
            return whole
        case Pred(condition):
            if (t := type_of(condition)) not in (BOOLEAN, VOID):
                raise _fail(term, f"a condition for `{condition}`", t)
            return INT
        case Not(inner):
            if not is_finite(t := _ring(term, inner)):
                raise _fail(term, "a finite ring value", t)
            return INT
        case Box(inner):
            if not is_finite(t := _ring(term, inner)):
                raise _fail(term, "a finite ring value", t)
            return boxed(t)
        case Unbox(key):
            t = _key(term, key)
            if (out := unboxed(t)) is None:
                raise _fail(term, f"a number or a boxed value for `{key}`", t)
            return out
        case Label(_, args):
            for a in args:
                _key(term, a)
            return LABEL
        case Dict(_, _, body):
            return FunType(LABEL, _ring(term, body))
        case DictUnion(left, right):
            d: Type = _same(term, (left, right))
            if not (isinstance(d, FunType) and d.argument == LABEL):
                raise _fail(term, "dictionaries", d)
            return d
        case Fn(var, body):
            return FunType(var.type, _ring(term, body))
        case Apply():
            return _apply(term)
        case Differential(function):
            f = type_of(function)
            if not isinstance(f, FunType) or is_key(f.argument):
                raise _fail(term, f"a function of a ring value for `{function}`", f)
            return FunType(f.argument, FunType(f.argument, f.result))
        case Each():
            return _each(term)
        case Repeat(var, start, step):
            loop: Type = _ring(term, start)
            if not is_finite(loop):  # two rounds are compared
                raise _fail(term, "a finite ring value", loop)
            _bound(term, var, loop)
            if (t := _ring(term, step)) != loop:
                raise _fail(term, f"{loop} for `{step}`", t)
            return loop
        case Answer():
            return _answer(term)
        case _:
            assert_never(term)


def _pointwise(owner: Term, a: RingType, b: RingType) -> RingType:
    match a, b:
        case (
            (MapType(k1, v1), MapType(k2, v2))
            | (MapType(k1, v1), FunType(k2, v2))
            | (FunType(k1, v1), MapType(k2, v2))
        ) if k1 == k2:
            return MapType(k1, _multiplied(owner, v1, v2))  # type: ignore[arg-type]
        case _:
            raise _fail(owner, "maps with the same keys, at least one of them finite", f"{a} * {b}")
