"""The text form of the calculus, both ways: `parse(show(e), inputs) == e`.

One notation serves printing, golden files, error messages and `explain`. Keys and ring values have
grammars of their own, like the two modes of the types; where a term may be either, a keyword or the
type of what is applied decides. Composite operands are in parentheses, so there is no precedence to
remember; `for`, `let`, `each`, `repeat`, `fn` and `dict` reach as far to the right as they can.

    key   ::= 3 | 'a' | null | 3:int | x | key.a | {a: key, ...} | f(key, ...) | f(key, ...):type
            | key + key | box(ring) | min(ring) | percentile[0.5; asc](ring) | ℓ1(key, ...)
            | let X := ring in key | let key x := key in key
    ring  ::= 3 | 3.0r | 3.00d | R | ring.a | ⟨a: ring, ...⟩ | {key} | {key ↦ ring} | zero(type)
            | ring + ring | -ring | ring · ring | ring * ring | ring ∪ ring | ring @ argument
            | [key] | ¬ring | sum(ring) | unbox(key) | δ(ring) | first[...](ring)
            | for x in ring collect ring | each k ↦ v in ring collect ring
            | let X := ring in ring | let key x := key in ring
            | repeat[end] X := ring then ring
            | fn x: type => ring | dict ℓ1(x: type, ...) ↦ ring
    end   ::= times 10 | limit 100 | within 0.01 of rank by node limit 100

`repeat` is a word of its own only before a bracket, since functions and inputs have that name, too.
A sum or a product of one operand has the sign before it. Names that would read as something else
are in backticks; a constant whose form does not say its type has the type after it: '2024-02-29':date.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container
from datetime import date, datetime
from decimal import Decimal
from typing import Any, assert_never

from headwater.calculus.dyadic import POWERS
from headwater.calculus.lists import show_list
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
)
from headwater.calculus.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    REAL,
    STRING,
    VOID,
    Exact,
    KeyType,
    ListType,
    RingType,
    field_name,
    is_key,
)

INFIX = ("=", "<>", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "and", "or")
"""Scalar functions that are written between their operands."""

RESERVED = (
    "null",
    "true",
    "false",
    "for",
    "in",
    "collect",
    "each",
    "let",
    "fn",
    "dict",
    "and",
    "or",
)
"""Words that are names only in backticks."""

KEY_FORMS = (
    "box",
    "min",
    "max",
    "single",
    "percentile",
    "percentile_disc",
    "mode",
    "max_by",
    "min_by",
    "listagg",
    *POWERS,
)
"""What looks like a scalar function but has a ring term in it; a function of that name is in backticks."""

NAME = re.compile(r"[Δ′A-Za-z_ℓ][A-Za-z0-9_′]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
"""A plain name; a dotted one is an input, a function or a label: `x.a` of a variable is its field."""

_BOUND = re.compile(r"[Δ′A-Za-z_ℓ][A-Za-z0-9_′]*")
_ATOMIC = (
    Const,
    Var,
    Rel,
    Record,
    Num,
    Zero,
    Sng,
    Pred,
    Sum,
    Box,
    Unbox,
    Label,
    Differential,
    Field,
)


def quoted(name: str, plain: re.Pattern[str] = NAME, taken: Container[str] = RESERVED) -> str:
    """A name as it is written: in backticks unless it is plain and means nothing else."""
    if plain.fullmatch(name) and name not in taken:
        return name
    return "`" + name.replace("`", "``") + "`"


def bound(var: Var) -> str:
    """A variable, where it is bound and where it is used."""
    return quoted(var.name, _BOUND)


def infix(term: Call) -> bool:
    """Whether a call is written between its operands."""
    return term.function in INFIX and len(term.args) > 1 and term.returns is None


def show(term: Term) -> str:
    """The text of a term, on one line."""
    match term:
        case Const(value, t):
            return literal(value, t)
        case Var():
            return bound(term)
        case Rel(name):
            return quoted(name)
        case Record(fields):
            left, right = ("{", "}") if _keyed(term) else ("⟨", "⟩")
            return left + ", ".join(f"{field_name(n)}: {show(t)}" for n, t in fields) + right
        case Field(inner, name):
            return f"{atom(inner)}.{field_name(name)}"
        case Call(name, args, returns):
            if infix(term):
                return f" {name} ".join(atom(a) for a in args)
            typed = f":{returns}" if returns is not None else ""
            written = quoted(name, taken=(*RESERVED, *KEY_FORMS))
            return f"{written}({', '.join(map(show, args))}){typed}"
        case Num(value, t):
            return number(value, t)
        case Zero(t):
            return f"zero({t})"
        case Sng(key, Num(1, t)) if t == INT:
            return f"{{{show(key)}}}"
        case Sng(key, value):
            return f"{{{show(key)} ↦ {show(value)}}}"
        case Add(terms):
            return " + ".join(map(atom, terms)) if len(terms) > 1 else f"+{atom(terms[0])}"
        case Neg(Num() as inner):
            return f"-({show(inner)})"
        case Neg(inner):
            return f"-{atom(inner)}"
        case Times(factors):
            return " · ".join(map(atom, factors)) if len(factors) > 1 else f"·{atom(factors[0])}"
        case Pointwise(left, right):
            return f"{atom(left)} * {atom(right)}"
        case Sum(inner):
            return f"sum({show(inner)})"
        case For(var, source, body):
            return f"for {bound(var)} in {atom(source)} collect {show(body)}"
        case Let(var, source, body):
            marked = "key " if is_key(var.type) else ""
            return f"let {marked}{bound(var)} := {show(source)} in {show(body)}"
        case Pred(condition):
            return f"[{show(condition)}]"
        case Not(inner):
            return f"¬{atom(inner)}"
        case Box(inner):
            return f"box({show(inner)})"
        case Unbox(key):
            return f"unbox({show(key)})"
        case Label(index, args):
            return f"{quoted(index)}({', '.join(map(show, args))})"
        case Dict(index, params, body):
            listed = ", ".join(f"{bound(p)}: {p.type}" for p in params)
            return f"dict {quoted(index)}({listed}) ↦ {show(body)}"
        case DictUnion(left, right):
            return f"{atom(left)} ∪ {atom(right)}"
        case Fn(var, body):
            return f"fn {bound(var)}: {var.type} => {show(body)}"
        case Apply(function, argument):
            return f"{atom(function)} @ {atom(argument)}"
        case Differential(function):
            return f"δ({show(function)})"
        case Each(key, value, source, body):
            names = f"{bound(key)} ↦ {bound(value)}"
            return f"each {names} in {atom(source)} collect {show(body)}"
        case Repeat(var, start, step):
            return f"repeat[{ends(term)}] {bound(var)} := {show(start)} then {show(step)}"
        case Answer(name, params, inner):
            return f"{name}{_params(name, params)}({show(inner)})"
        case _:
            assert_never(term)


def atom(term: Term) -> str:
    """A term as an operand: in parentheses unless it is atomic."""
    if isinstance(term, Call):
        plain = not infix(term)
    else:
        plain = isinstance(term, (*_ATOMIC, Answer)) and not (
            isinstance(term, Num) and term.value < 0
        )
    return show(term) if plain else f"({show(term)})"


_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"})


def literal(value: Any, t: KeyType) -> str:
    """A key constant; the type is written where the form does not say it."""
    if value is None:
        return "null" if t == VOID else f"null:{t}"
    if isinstance(value, bool):
        text, default = ("true" if value else "false"), BOOLEAN
    elif isinstance(value, (datetime, date)):
        text, default = f"'{value.isoformat()}'", STRING
    elif isinstance(value, bytes):
        text, default = f"'{value.hex()}'", STRING
    elif isinstance(t, ListType):
        text, default = f"'{show_list(value).translate(_ESCAPES)}'", STRING
    elif isinstance(value, str):
        text, default = f"'{value.translate(_ESCAPES)}'", STRING
    elif isinstance(value, int):
        text, default = str(value), BIGINT
    elif isinstance(value, Decimal):
        text, default = f"{value:f}", VOID
    elif isinstance(value, float) and not math.isfinite(value):
        text, default = f"'{value!r}'", STRING
    else:
        text, default = repr(value), DOUBLE
    return text if t == default else f"{text}:{t}"


def number(value: Any, t: RingType) -> str:
    """A ring constant: 3 of Int, 3.0r of Real, 3.00d of Exact(2); 'inf'r where there are no digits."""
    match t:
        case Exact(scale):
            return f"{Decimal(value):.{scale}f}d"
        case _ if t == REAL:
            text = repr(float(value))
            return f"{text}r" if math.isfinite(value) else f"'{text}'r"
        case _:
            return str(value)


def _params(name: str, params: tuple[Any, ...]) -> str:
    """The parameters of an answer: first[limit; offset; order ...], listagg['sep'; order ...], percentile[0.5; asc]."""
    if not params:
        return ""
    match name:
        case "first":
            limit, offset, directions = params
            shown = [str(limit).lower(), str(offset), *map(_direction, directions)]
        case "window":
            directions, windows, names, limit = params
            columns = ", ".join(map(field_name, names))
            shown = [f"({columns})", str(limit).lower(), *map(_direction, directions)]
            shown += [w.text() for w in windows]
        case "listagg":
            shown = [literal(params[0], STRING), *map(_direction, params[1])]
        case "mode":
            shown = [_sense(params[0])]
        case _ if name in POWERS:
            shown = [str(s) for s in params]
        case _:
            shown = [repr(float(params[0])), _sense(params[1])]
    return f"[{'; '.join(shown)}]"


def ends(term: Repeat) -> str:
    """When the rounds of a loop end: `times 10`, `within 0.01 of rank by node limit 100`, or `limit 100`."""
    words = [] if term.times is None else [f"times {term.times}"]
    if (end := term.within) is not None:
        words.append(f"within {float(end.epsilon)!r} of {field_name(end.column)}")
        words += [f"by {', '.join(map(field_name, end.by))}"] if end.by else []
    if term.times is None or term.limit != Repeat.limit:
        words.append(f"limit {term.limit}")
    return " ".join(words)


def _sense(descending: bool) -> str:
    return "desc" if descending else "asc"


def _direction(column: tuple[bool, bool]) -> str:
    descending, last = column
    return f"{_sense(descending)} nulls {'last' if last else 'first'}"


def _keyed(term: Record) -> bool:
    """Whether a record is one of keys; told from the terms alone, so that ill-typed terms print too."""
    return all(_is_key_term(t) for _, t in term.fields)


def _is_key_term(term: Term) -> bool:
    match term:
        case Const() | Call() | Box() | Label():
            return True
        case Var(_, t):
            return is_key(t)
        case Record():
            return _keyed(term)
        case Field(inner, name):
            fields = dict(getattr(getattr(inner, "type", None), "fields", ()))
            return is_key(fields[name]) if name in fields else _is_key_term(inner)
        case Answer(name):
            return name not in ("first", "window")
        case Let(_, _, body):
            return _is_key_term(body)
        case _:
            return False
