"""The text form of the calculus, both ways: `parse(show(e), inputs) == e`.

One notation serves printing, golden files, error messages and `explain`. Keys and ring values have
grammars of their own, like the two modes of the types; where a term may be either, a keyword or the
type of what is applied decides. Composite operands are in parentheses, so there is no precedence to
remember; `for`, `let`, `each`, `fn` and `dict` reach as far to the right as they can.

    key   ::= 3 | 'a' | null | 3:int | x | key.a | {a: key, ...} | f(key, ...) | key + key
            | box(ring) | min(ring) | ℓ1(key, ...) | let X := ring in key
    ring  ::= 3 | 3.0r | 3.00d | R | ring.a | ⟨a: ring, ...⟩ | {key} | {key ↦ ring} | zero(type)
            | ring + ring | -ring | ring · ring | ring * ring | ring ∪ ring | ring @ argument
            | [key] | ¬ring | sum(ring) | unbox(key) | δ(ring) | first[...](ring)
            | for x in ring collect ring | each k ↦ v in ring collect ring
            | let X := ring in ring | fn x: type => ring | dict ℓ1(x: type, ...) ↦ ring
"""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any, assert_never

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
    RingType,
    is_key,
)

INFIX = ("=", "<>", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "and", "or")
"""Scalar functions that are written between their operands."""

_SIMPLE = re.compile(r"[Δ′A-Za-z_ℓ][A-Za-z0-9_′]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ATOMIC = (Const, Var, Rel, Record, Num, Zero, Sng, Pred, Sum, Box, Unbox, Label, Differential, Field)


def quoted(name: str, simple: re.Pattern[str] = _SIMPLE) -> str:
    """A name as it is written: in backticks unless it is plain."""
    return name if simple.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def show(term: Term) -> str:
    """The text of a term, on one line."""
    match term:
        case Const(value, t):
            return literal(value, t)
        case Var(name) | Rel(name):
            return quoted(name)
        case Record(fields):
            left, right = ("{", "}") if _keyed(term) else ("⟨", "⟩")
            return left + ", ".join(f"{quoted(n, _FIELD)}: {show(t)}" for n, t in fields) + right
        case Field(inner, name):
            return f"{atom(inner)}.{quoted(name, _FIELD)}"
        case Call(name, args, returns):
            if name in INFIX and len(args) > 1:
                return f" {name} ".join(atom(a) for a in args)
            typed = f":{returns}" if returns is not None else ""
            return f"{quoted(name)}({', '.join(map(show, args))}){typed}"
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
            return f"for {quoted(var.name)} in {atom(source)} collect {show(body)}"
        case Let(var, bound, body):
            key = "key " if is_key(var.type) else ""
            return f"let {key}{quoted(var.name)} := {show(bound)} in {show(body)}"
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
            listed = ", ".join(f"{quoted(p.name)}: {p.type}" for p in params)
            return f"dict {quoted(index)}({listed}) ↦ {show(body)}"
        case DictUnion(left, right):
            return f"{atom(left)} ∪ {atom(right)}"
        case Fn(var, body):
            return f"fn {quoted(var.name)}: {var.type} => {show(body)}"
        case Apply(function, argument):
            return f"{atom(function)} @ {atom(argument)}"
        case Differential(function):
            return f"δ({show(function)})"
        case Each(key, value, source, body):
            names = f"{quoted(key.name)} ↦ {quoted(value.name)}"
            return f"each {names} in {atom(source)} collect {show(body)}"
        case Answer(name, params, inner):
            return f"{name}{_params(params)}({show(inner)})"
        case _:
            assert_never(term)


def atom(term: Term) -> str:
    """A term as an operand: in parentheses unless it is atomic."""
    if isinstance(term, Call):
        plain = term.function not in INFIX or len(term.args) < 2
    else:
        plain = isinstance(term, (*_ATOMIC, Answer)) and not (
            isinstance(term, Num) and term.value < 0
        )
    return show(term) if plain else f"({show(term)})"


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
    elif isinstance(value, str):
        text, default = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'", STRING
    elif isinstance(value, int):
        text, default = str(value), BIGINT
    elif isinstance(value, Decimal):
        text, default = f"{value:f}", VOID
    else:
        text, default = repr(value), DOUBLE
    return text if t == default else f"{text}:{t}"


def number(value: Any, t: RingType) -> str:
    """A ring constant: 3 of Int, 3.0r of Real, 3.00d of Exact(2)."""
    match t:
        case Exact(scale):
            return f"{Decimal(value):.{scale}f}d"
        case _ if t == REAL:
            return f"{float(value)!r}r"
        case _:
            return str(value)


def _params(params: tuple[Any, ...]) -> str:
    """The parameters of `first`: limit, offset, and the directions of the order columns."""
    if not params:
        return ""
    limit, offset, directions = params
    shown = [
        f"{'desc' if descending else 'asc'} nulls {'last' if last else 'first'}"
        for descending, last in directions
    ]
    return f"[{'; '.join([str(limit).lower(), str(offset), *shown])}]"


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
            t = getattr(inner, "type", None)
            fields = dict(getattr(t, "fields", ()))
            return is_key(fields[name]) if name in fields else _is_key_term(inner)
        case Answer(name):
            return name != "first"
        case Let(_, _, body):
            return _is_key_term(body)
        case _:
            return False
