"""What Python's operators mean, said with the terms of the calculus.

Functions here take and give terms and know nothing of syntax trees. Where Python and Spark differ,
Python wins: None equals None, None is false, `//` rounds down, 32 bits do not overflow. Errors
carry no place; the reader of the syntax tree adds the expression that they arose in.

What cannot be Python's to the last bit, and is Spark's instead:
- `<` and arithmetic with None are errors in Python; here they give NULL, and NULL is not true;
- NaN equals itself; a missing record equals one whose fields are all missing;
- a missing collection is an empty one; min and max take a lone None for an empty collection;
- `x ** 2` of a float is x * x, rounded once, and Python's may be the double beside it;
- decimals have at most 38 digits, and a quotient or long product the scale that Spark gives it.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from functools import reduce
from typing import Any

from headwater.calculus.check import type_of
from headwater.calculus.scalars import common_type
from headwater.calculus.terms import (
    Add,
    Box,
    Call,
    Const,
    Field,
    For,
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
)
from headwater.calculus.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    VOID,
    Base,
    Boxed,
    KeyType,
    MapType,
    ProductType,
    RecordType,
    Type,
    bag,
    has_box,
    is_key,
    is_numeric,
)
from headwater.errors import NotIncremental, TypeMismatch
from headwater.language.build import decimal_literal
from headwater.language.comprehension.mixed import are_mixed, mixed_equal, mixed_order

NULL, FALSE, NONE_OF_THEM = Const(None, VOID), Const(False, BOOLEAN), Const(0, BIGINT)
ONE = Num(1, INT)
EMPTY = Zero(bag(VOID))
"""The empty list before it meets a list that has a type."""

_WIDE = {"tinyint": BIGINT, "smallint": BIGINT, "int": BIGINT, "float": DOUBLE}
_TWO_VALUED = frozenset(("<=>", "=", "<>", "<", "<=", ">", ">=", "is_null", "is_not_null")) | {
    "startswith",
    "endswith",
    "contains",
}


def kind(t: Type) -> str:
    """A type in the words of the language."""
    match t:
        case Base("void"):
            return "None"
        case RecordType():
            return "a tuple" if is_tuple(t) else "a record"
        case Boxed() | MapType():
            return "a collection"
        case ProductType():
            return "a tuple of collections"
        case _:
            return str(t)


def is_tuple(t: Type) -> bool:
    """Whether a record type has the fields _1, _2, ... that a tuple has."""
    return isinstance(t, RecordType) and all(n == f"_{i + 1}" for i, (n, _) in enumerate(t.fields))


def is_collection(t: Type) -> bool:
    """Whether a type is a bag, boxed or not."""
    return isinstance(t.content if isinstance(t, Boxed) else t, MapType)


def constant(value: Any) -> Const:
    """A Python constant: int is bigint, float is double, Decimal("1.50") is decimal(3,2)."""
    plain = {type(None): VOID, bool: BOOLEAN, float: DOUBLE, str: STRING, date: DATE}
    if type(value) in plain:
        return Const(value, plain[type(value)])
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return Const(value, BIGINT)
    if type(value) is Decimal and (exact := decimal_literal(value)) is not None:
        return exact
    raise NotIncremental(
        "UNSUPPORTED_SYNTAX",
        f"{value!r} cannot be a constant of a query",
        hint='constants: int (64 bits), float, str, bool, None, Decimal("1.50"), date(2024, 1, 2)',
    )


# --- keys and collections ------------------------------------------------------------------------


def as_key(term: Term) -> Term:
    """A term as a key: a collection is boxed."""
    if is_key(type_of(term)):
        return term
    if isinstance(type_of(term), ProductType):
        hint = "name the collections: a, b = hw.repeat((a0, b0), ...)"
        raise TypeMismatch("a tuple of collections is not one value", hint=hint)
    return term.key if isinstance(term, Unbox) else Box(term)


def as_bag(term: Term) -> Term:
    """A term as a collection: a boxed one is unboxed."""
    t = type_of(term)
    if isinstance(t, MapType):
        return term
    if not is_collection(t):
        raise TypeMismatch(f"{kind(t)} is not a collection")
    return term.term if isinstance(term, Box) else Unbox(term)


def component(term: Term, name: str) -> Term:
    """A field of a record; of a record that was just built, what it was built from."""
    return dict(term.fields)[name] if isinstance(term, Record) else Field(term, name)


def product(*factors: Term) -> Term:
    """A product, flat; of one factor, that factor."""
    flat = [g for f in factors for g in (f.factors if isinstance(f, Times) else (f,))]
    return flat[0] if len(flat) == 1 else Times(tuple(flat))


# --- common types --------------------------------------------------------------------------------


def joined(a: KeyType, b: KeyType) -> KeyType | None:
    """The type that values of both have in Python without a loss; None if there is none."""
    match a, b:
        case (Base("void"), _) | (_, Base("void")):
            return b if a == VOID else a
        case Base(), Base():
            names = {a.name, b.name}
            mixed = "decimal" in names and names & {"float", "double"}
            return None if mixed or names == {"date", "timestamp"} else common_type(a, b)
        case RecordType(fields), RecordType(others):
            if {n for n, _ in fields} != {n for n, _ in others}:
                return None
            parts = [(n, joined(t, dict(others)[n])) for n, t in fields]
            whole = tuple((n, t) for n, t in parts if t is not None)
            return RecordType(whole) if len(whole) == len(parts) else None
        case Boxed(MapType(k, _)), Boxed(MapType(l, _)):
            inner = joined(k, l)
            return inner and Boxed(bag(inner))
        case _:
            return a if a == b else None


def common(*types: KeyType) -> KeyType:
    """The type that all have in common, or an error that says why there is none."""
    out = types[0]
    for t in types[1:]:
        both = joined(out, t)
        if both is None:
            raise TypeMismatch(
                f"{kind(out)} and {kind(t)} have no common type", hint=_apart(out, t)
            )
        out = both
    return out


def _apart(a: KeyType, b: KeyType) -> str:
    match a, b:
        case Base(), Base() if "decimal" in (a.name, b.name) and is_numeric(a) and is_numeric(b):
            return 'Decimal and float do not mix in Python; write Decimal("0.5"), or float(...)'
        case RecordType(), RecordType():
            return f"the fields are {a} and {b}"
        case _:
            return ""


def coerce(term: Term, t: KeyType | MapType) -> Term:
    """The same value in a wider type, as `joined` gives it."""
    source = type_of(term)
    if source == t:
        return term
    if term == EMPTY:
        return Zero(t)  # type: ignore[arg-type]
    match t:
        case MapType():
            return _coerce_rows(term, t)
        case _ if source == VOID:
            return Const(None, t)
        case Boxed(MapType() as content):
            built: Term = Box(coerce(as_bag(term), content))
        case RecordType(fields):
            built = Record(tuple((n, coerce(component(term, n), f)) for n, f in fields))
        case _:
            return Call("cast", (term,), t)
    if isinstance(term, (Box, Record, Var)):
        return built
    return Call("case", (Call("is_null", (term,)), Const(None, t), built))


def _coerce_rows(rows: Term, t: MapType) -> Term:
    """A bag in a wider type; where its rows are built, they are built in that type."""
    match rows:
        case Sng(key, count):
            return Sng(coerce(key, t.key), count)
        case Add(terms):
            return Add(tuple(coerce(x, t) for x in terms))
        case For(var, source, body):
            return For(var, source, coerce(body, t))
        case Times(factors):
            maps = (isinstance(type_of(f), MapType) for f in factors)
            parts = zip(factors, maps, strict=True)
            return Times(tuple(coerce(f, t) if is_map else f for f, is_map in parts))
        case _:
            row = Var("row", type_of(rows).key)
            return For(row, rows, Sng(coerce(row, t.key), ONE))


def together(bags: list[Term]) -> Term:
    """The rows of all the bags, in their common type."""
    whole = bag(common(*(type_of(b).key for b in bags)))
    terms = tuple(t for t in (coerce(b, whole) for b in bags) if not isinstance(t, Zero))
    return Zero(whole) if not terms else terms[0] if len(terms) == 1 else Add(terms)


# --- truth ---------------------------------------------------------------------------------------


def two_valued(condition: Term) -> bool:
    """Whether a condition is never NULL where Python gives it a value."""
    match condition:
        case Const(value):
            return value is not None
        case Call("and" | "or" | "not", args):
            return all(map(two_valued, args))
        case Call("case", args):
            return all(map(two_valued, (*args[1::2], args[-1])))
        case Call("coalesce", args):
            return two_valued(args[-1])
        case Call(name):
            return name in _TWO_VALUED
        case _:
            return False


def negated(condition: Term) -> Term:
    """`not c`: None is false, so `not None` is True."""
    if isinstance(condition, Call) and condition.function == "not" and two_valued(condition):
        return condition.args[0]
    known = condition if two_valued(condition) else Call("coalesce", (condition, FALSE))
    return Call("not", (known,))


def connected(name: str, operands: list[Term]) -> Term:
    """`a and b`, `a or b` as values: the operand that decides, which may be None."""
    if all(map(two_valued, operands[:-1])):
        return Call(name, tuple(operands))
    if name == "and":
        return reduce(lambda rest, a: Call("case", (a, rest, a)), reversed(operands))
    return reduce(lambda rest, a: Call("case", (a, a, rest)), reversed(operands))


def equal(a: Term, b: Term) -> Term:
    """`a == b`, where None equals None and nothing else; tuples and records field by field."""
    s, t = type_of(a), type_of(b)
    if has_box(s) or has_box(t) or not (is_key(s) and is_key(t)):
        raise NotIncremental(
            "COLLECTION_EQUALITY",
            "collections are not compared with each other",
            hint="compare what identifies them, or what matters: len(x) == 0, sum(...) == sum(...)",
        )
    if VOID in (s, t):
        return Call("is_null", (b if s == VOID else a,))
    wider = common(s, t)
    if not isinstance(wider, RecordType):
        return mixed_equal(a, b) if are_mixed(a, b) else Call("<=>", (a, b))
    parts = [equal(component(a, n), component(b, n)) for n, _ in wider.fields]
    return parts[0] if len(parts) == 1 else Call("and", tuple(parts))


def ordered(op: str, a: Term, b: Term) -> Term:
    """`a < b` and its like, of scalars."""
    s, t = type_of(a), type_of(b)
    for x in (s, t):
        if not isinstance(x, Base) or x == VOID:
            raise TypeMismatch(f"`{op}` compares numbers, strings and dates, not {kind(x)}")
    common(s, t)
    return mixed_order(op, a, b) if are_mixed(a, b) else Call(op, (a, b))


def chosen(condition: Term, a: Term, b: Term) -> Term:
    """`a if c else b`: of collections, the rows of one or of the other."""
    s, t = type_of(a), type_of(b)
    if is_collection(s) or is_collection(t):
        a, b = as_bag(a), as_bag(b)
        whole = bag(common(type_of(a).key, type_of(b).key))
        yes, no = Pred(condition), Not(Pred(condition))
        return Add((product(yes, coerce(a, whole)), product(no, coerce(b, whole))))
    wider = common(s, t)
    if isinstance(wider, RecordType) and all(isinstance(x, (Record, Var)) for x in (a, b)):
        parts = [(n, chosen(condition, component(a, n), component(b, n))) for n, _ in wider.fields]
        return Record(tuple((n, as_key(p)) for n, p in parts))
    if not isinstance(wider, Base):
        a, b = coerce(a, wider), coerce(b, wider)
    return Call("case", (condition, a, b))


# --- arithmetic ----------------------------------------------------------------------------------


def numeric(op: str, written: str, *operands: Term) -> Term:
    """An operation on numbers, in 64 bits at least; `written` is its form in Python."""
    types = [type_of(o) for o in operands]
    if not all(map(is_numeric, types)):
        raise TypeMismatch(f"`{written}` takes numbers, not {' and '.join(map(kind, types))}")
    wider = common(*types)
    if isinstance(wider, Base) and wider.name in _WIDE:
        first = Call("cast", (operands[0],), _WIDE[wider.name])
        return Call(op, (first, *operands[1:]))
    return Call(op, operands)
