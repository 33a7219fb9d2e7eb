"""The text form, both ways: what is shown is read back as the same term."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.calculus.notation.layout import layout
from headwater.calculus.notation.parse import parse, parse_key, parse_type
from headwater.calculus.notation.text import show
from headwater.calculus.terms import Call, Const, Field, For, Num, Rel, Sng, Term, Var
from headwater.calculus.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGER,
    REAL,
    STRING,
    TIMESTAMP,
    VOID,
    Exact,
    ProductType,
    Type,
    bag,
    decimal,
    record,
)
from headwater.errors import ParseError
from strategies import Query, full_terms, function_types, key_terms, ring_terms, ring_types

R, S = bag(record(a=BIGINT, b=STRING)), bag(record(b=STRING, c=DOUBLE))
INPUTS = {"R": R, "S": S, "customers.orders": R, "totals": ProductType((("n", INT), ("s", REAL)))}
ONE = Num(1, INT)


@pytest.mark.property
@settings(max_examples=200)
@given(full_terms())
def test_terms_are_read_back(query: Query) -> None:
    assert parse(show(query.term), query.inputs) == query.term


@pytest.mark.property
@given(st.data())
def test_open_terms_are_read_back(data: st.DataObject) -> None:
    scope: dict[str, Type] = {"row": R.key, "Rows": S, "n": INT}
    t = data.draw(ring_types() | function_types())
    term = data.draw(ring_terms(t, scope, INPUTS))
    assert parse(show(term), INPUTS, scope) == term
    key = data.draw(key_terms(R.key, scope, INPUTS))
    assert parse_key(show(key), INPUTS, scope) == key


@pytest.mark.property
@given(ring_types() | function_types())
def test_types_are_read_back(t: Type) -> None:
    assert parse_type(str(t)) == t


EXAMPLES = [
    "for x in R collect [x.a < 3] · {x}",
    "for x in R collect for y in S collect [x.b = y.b] · {{a: x.a, c: y.c}}",
    "each k ↦ v in R collect {k.b ↦ v}",
    "for x in R collect {x.b ↦ ⟨n: 1, s: unbox(x.a)⟩}",
    "let X := R · S in for p in X collect {p._1 ↦ 2.50d}",
    "let key x := {a: 3:int, b: null} in {x}",
    "{let X := sum(R) in box(X)}",
    "let key := R in key",
    "ΔR + Δ′R + Δ′′R",
    "R + (-R)",
    "-(3)",
    "-3",
    "2 · (-3)",
    "-(-3)",
    "+R",
    "·R",
    "¬(¬R)",
    "R * (fn x: {a: bigint, b: string} => [x.a > 0])",
    "R @ {a: 1, b: 'it\\'s\\n'}",
    "(δ(fn X: Bag(bigint) => X · X) @ {1}) @ {2}",
    "((dict ℓ1(x: bigint) ↦ {x}) ∪ (dict ℓ2() ↦ zero(Bag(bigint)))) @ ℓ1(3)",
    "first[10; 0; asc nulls first; desc nulls last](zero(Bag({order: {a: int, b: date}, row: string})))",
    "first[none; 2](zero(Bag({order: {}, row: string})))",
    "for x in customers.orders collect {{c: x.b, n: max(for y in Δcustomers.orders collect {y.a})}}",
    "totals.n · {upper('a')}",
    "{opaque(1):decimal(10,2)}",
    "{(1 + 2) * (3 - -4)}",
    "[true and not(false) and (null = 1)]",
    "{single({1}) <=> null:bigint}",
    "{null:{a: bigint}.a}",
    "zero({a: bigint} -> string -> Real)",
    "zero((Bag(bigint) => [⟨n: Int⟩] -> Exact(3)))",
    "for `in` in R collect {`in`.a}",
    "{{`order by`: 1, in: 2}.`order by`}",
    "{`min`(1):bigint + `a b`(2):bigint}",
    "{`+`(1, 2):bigint}",
    "repeat[times 3] X := R then X + ΔR",
    "repeat[limit 100] X := zero(Bag({a: bigint, b: string})) then for x in X collect [x.a < 3] · {x}",
    "repeat[within 0.01 of c by b limit 50] X := S then X",
    "repeat[within 1e-06 of c limit 50] X := S then X",
    "repeat[within 0.5 of limit by `by b`, limit, of limit 50] X := S then X",
    "repeat[times 3 within 0.5 of c by b] X := S then X",
    "repeat[times 3 limit 7] X := S then X",
    "(repeat[times 2] X := ⟨m: R, n: S⟩ then ⟨m: X.m + R, n: X.n⟩).n",
    "-(repeat[times 2] X := R then -X)",
    "repeat[times 1] X := repeat[times 2] Y := R then Y then X",
    "repeat[times 1] then := R then then",
    "repeat[times 1] repeat := R then repeat + repeat",
    "let repeat := R in repeat · [true]",
    "{repeat('a', 2):string}",
    "let repeat := {repeat('a', 2):string} in repeat",
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples_are_shown_as_they_are_written(text: str) -> None:
    assert show(parse(text, INPUTS)) == text


def test_notation_is_free_in_its_spaces() -> None:
    text = "for x in R\n  collect [x.a=1]·{ {a:x.a} }"
    assert show(parse(text, INPUTS)) == "for x in R collect [x.a = 1] · {{a: x.a}}"


@pytest.mark.parametrize(
    ("value", "t", "text"),
    [
        (3, BIGINT, "3"),
        (-3, INTEGER, "-3:int"),
        (None, VOID, "null"),
        (None, STRING, "null:string"),
        (True, BOOLEAN, "true"),
        (1.5, DOUBLE, "1.5"),
        (1e-300, DOUBLE, "1e-300"),
        (-0.5, FLOAT, "-0.5:float"),
        (math.nan, DOUBLE, "'nan':double"),
        (-math.inf, DOUBLE, "'-inf':double"),
        (Decimal("1.50"), decimal(3, 2), "1.50:decimal(3,2)"),
        ("a'b\\\n", STRING, r"'a\'b\\\n'"),
        (date(2024, 2, 29), DATE, "'2024-02-29':date"),
        (datetime(2024, 2, 29, 1, 2, 3), TIMESTAMP, "'2024-02-29T01:02:03':timestamp"),
        (b"\x00\xff", BINARY, "'00ff':binary"),
    ],
)
def test_constants(value: Any, t: Any, text: str) -> None:
    assert show(Const(value, t)) == text
    assert parse_key(text, {}) == Const(value, t)


@pytest.mark.parametrize(
    ("value", "t", "text"),
    [
        (3, INT, "3"),
        (3.0, REAL, "3.0r"),
        (1e22, REAL, "1e+22r"),
        (math.inf, REAL, "'inf'r"),
        (Decimal("3.00"), Exact(2), "3.00d"),
        (Decimal("3"), Exact(0), "3d"),
    ],
)
def test_numbers(value: Any, t: Any, text: str) -> None:
    assert show(Num(value, t)) == text
    assert parse(text, {}) == Num(value, t)


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (Rel("my table", R), "`my table`"),
        (Rel("let", R), "`let`"),
        (Rel("Δmy table", R), "`Δmy table`"),
        (Rel("a`b", R), "`a``b`"),
        (Rel("db.orders", R), "db.orders"),
        (For(Var("x.y", R.key), Rel("R", R), ONE), "for `x.y` in R collect 1"),
        (Sng(Field(Var("x", record(null=BIGINT)), "null"), ONE), "{x.null}"),
        (Sng(Call("max", (Const(1, BIGINT),), BIGINT), ONE), "{`max`(1):bigint}"),
    ],
)
def test_names_that_mean_something_else_are_quoted(term: Term, text: str) -> None:
    names = {"R": R, "my table": R, "let": R, "a`b": R, "db.orders": R}
    assert show(term) == text
    assert parse(text, names, {"x": record(null=BIGINT)}) == term


def test_a_quoted_repeat_is_a_name() -> None:
    with pytest.raises(ParseError, match="unknown name `repeat`"):
        parse("`repeat`[times 3] X := R then X", INPUTS)
    assert parse("`repeat`", {"repeat": R}) == parse("repeat", {"repeat": R}) == Rel("repeat", R)


LONG = [
    "repeat[times 3] X := for x in R collect [x.a < 3] · {x} then for x in X collect [x.a < 3] · {x}",
    "(repeat[limit 9] X := ⟨m: R, n: S⟩ then ⟨m: X.m + R, n: X.n + S⟩).m",
]


@pytest.mark.parametrize("text", LONG)
def test_a_loop_over_several_lines_is_read_back(text: str) -> None:
    term = parse(text, INPUTS)
    for width in (20, 40, 60):
        laid = layout(term, width)
        assert laid.count("\n") > 1
        assert parse(laid, INPUTS) == term


def test_a_variable_shadows_an_input() -> None:
    term = parse("for R in R collect {R.a}", INPUTS)
    x = Var("R", R.key)
    assert term == For(x, Rel("R", R), Sng(Field(x, "a"), ONE))


def test_the_longest_input_is_meant() -> None:
    inputs = {"a": ProductType((("b", INT),)), "a.b": REAL}
    assert parse("a.b", inputs) == Rel("a.b", REAL)
    assert parse("a.b", {"a": inputs["a"]}) == Field(Rel("a", inputs["a"]), "b")
    assert parse("a.b", inputs, {"a": inputs["a"]}) == Field(Var("a", inputs["a"]), "b")


@pytest.mark.parametrize(
    ("text", "line", "column", "length", "what", "hint"),
    [
        ("R + T", 1, 5, 1, "unknown name `T`", "R, S, customers.orders, totals"),
        ("for x in R", 1, 11, 1, "unexpected end of the text", "expected `collect`"),
        ("for x in R\ncollect {x.prise}", 2, 10, 7, "`x.prise` has no type", "a field prise"),
        ("for x in totals collect 1", 1, 10, 6, "is of type ⟨n: Int, s: Real⟩", "a finite map"),
        ("for x in R collect x", 1, 20, 1, "`x` is of type {a: bigint", "a ring value"),
        ("{R}", 1, 2, 1, "`R` is of type Bag", "a key"),
        ("R + S · S", 1, 7, 1, "unexpected `·`", "need parentheses"),
        ("3 @ 4", 1, 1, 1, "`3` is of type Int", "a map or a function"),
        ("zero(bigint)", 1, 6, 6, "bigint is a key type", "a ring type"),
        ("fn x: what => 1", 1, 7, 4, "unexpected `what`", "a type"),
        ("{'2024-02-30':date}", 1, 2, 17, "is not a constant of type date", "'2024-02-29':date"),
        ("1.5", 1, 1, 3, "`1.5` is not a number of a ring", "3.0r"),
        ("first[1; 0; up nulls last](R)", 1, 13, 2, "unexpected `up`", "`asc` or `desc`"),
        ("repeat[until 3] X := R then X", 1, 8, 5, "unexpected `until`", "`times`, `within` or"),
        (
            "repeat[within 0.1r of a limit 9] X := R then X",
            1,
            15,
            4,
            "unexpected",
            "how far a value",
        ),
        ("repeat[times -1] X := R then X", 1, 14, 1, "unexpected `-`", "a whole number"),
        ("repeat[within 0.1 of a] X := R then X", 1, 23, 1, "unexpected `]`", "`limit`"),
        ("repeat[times 1] X := R in X", 1, 24, 2, "unexpected `in`", "`then`"),
        ("median(R)", 1, 1, 6, "`median` is not a form", "zero, sum, unbox, first or window"),
        ("R § S", 1, 3, 1, "unexpected character '§'", "expected"),
        ("{'a}", 1, 2, 1, 'unexpected character "\'"', "expected"),
        ("", 1, 1, 1, "unexpected end of the text", "a ring value"),
    ],
)
def test_errors_say_where_and_what_was_expected(
    text: str, line: int, column: int, length: int, what: str, hint: str
) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text, INPUTS)
    error = caught.value
    assert error.span is not None
    assert (error.span.line, error.span.column, error.span.length) == (line, column, length)
    assert what in error.what
    assert hint in error.hint
    assert error.text == text


def test_an_error_underlines_its_place() -> None:
    with pytest.raises(ParseError) as caught:
        parse("for x in R collect {x.prise}", INPUTS)
    assert str(caught.value).splitlines()[1:3] == [
        "  for x in R collect {x.prise}",
        "                      ^^^^^^^",
    ]
