"""Precedence and associativity of operators, over all pairs: by Spark's grammar, and by Spark's parser itself.

An expression with two operators is read as one of its two bracketings, or not at all. Binary operators have a level
in Spark's grammar, and group from the left; predicates (BETWEEN, IN, LIKE, IS) are above all comparisons, take whole
values on their right, and stand once; then come NOT, AND and OR.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from sqlglot import exp

from headwater.errors import ParseError
from headwater.language.sql.reader import Reader
from spark_session import session

LEVELS = (
    ("*", "/", "%", "DIV"),
    ("+", "-", "||"),
    ("<<", ">>", ">>>"),
    ("&",),
    ("^",),
    ("|",),
    ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"),
)
VALUES = [o for level in LEVELS for o in level]
PREDICATES = [
    *("IS NULL", "IS NOT NULL", "IS TRUE", "IS NOT FALSE", "IS UNKNOWN", "IN (7, 8)"),
    *("NOT IN (7)", "LIKE p", "NOT LIKE p", "RLIKE p", "BETWEEN 7 AND 8", "NOT BETWEEN 7 AND 8"),
    *("IS DISTINCT FROM p", "IS NOT DISTINCT FROM p"),
]
WITH_A_VALUE = [p for p in PREDICATES if p[-1] in "p8"]
LOGIC = ("AND", "OR")
UNARY = ("-", "+", "~")


def level(operator: str) -> int:
    return next(i for i, ops in enumerate(LEVELS) if operator in ops)


def tree(text: str) -> exp.Expr:
    """The tree of an expression, without its brackets."""
    select = Reader(f"SELECT {text} AS x FROM r", {}).parse()
    for paren in reversed(list(select.find_all(exp.Paren))):
        paren.replace(paren.this)
    found: exp.Expr = select.expressions[0].this
    return found


@pytest.mark.parametrize(("a", "b"), list(product(VALUES, VALUES)))
def test_two_operators(a: str, b: str) -> None:
    left, right = f"(x {a} y) {b} z", f"x {a} (y {b} z)"
    assert tree(f"x {a} y {b} z") == tree(right if level(b) < level(a) else left)


@pytest.mark.parametrize(("a", "p"), list(product(VALUES, PREDICATES)))
def test_a_predicate_is_of_the_whole_value(a: str, p: str) -> None:
    assert tree(f"x {a} y {p}") == tree(f"(x {a} y) {p}")
    assert tree(f"NOT x {a} y {p} AND z") == tree(f"(NOT ((x {a} y) {p})) AND z")


@pytest.mark.parametrize(("p", "a"), list(product(WITH_A_VALUE, VALUES)))
def test_what_stands_after_a_predicate_is_a_whole_value(p: str, a: str) -> None:
    if p.endswith(")"):
        return
    start, last = p.rsplit(" ", 1)
    assert tree(f"x {p} {a} y") == tree(f"x {start} ({last} {a} y)")


@pytest.mark.parametrize(("p", "q"), list(product(PREDICATES, PREDICATES)))
def test_a_value_has_one_predicate(p: str, q: str) -> None:
    with pytest.raises(ParseError):
        tree(f"x {p} {q}")


@pytest.mark.parametrize(("u", "a"), list(product(UNARY, VALUES)))
def test_signs_bind_tightest(u: str, a: str) -> None:
    assert tree(f"{u} x {a} y") == tree(f"({u} x) {a} y")
    assert tree(f"x {a} {u} y") == tree(f"x {a} ({u} y)")


@pytest.mark.parametrize(("a", "l"), list(product([*VALUES, *PREDICATES], LOGIC)))
def test_logic_is_last(a: str, l: str) -> None:  # noqa: E741
    whole = f"x {a} y" if a in VALUES else f"x {a}"
    assert tree(f"{whole} {l} z") == tree(f"({whole}) {l} z")
    assert tree(f"z {l} {whole}") == tree(f"z {l} ({whole})")
    assert tree(f"NOT {whole}") == tree(f"NOT ({whole})")


def test_and_binds_tighter_than_or() -> None:
    assert tree("x OR y AND z") == tree("x OR (y AND z)")
    assert tree("x AND y OR z") == tree("(x AND y) OR z")
    assert tree("NOT x AND y") == tree("(NOT x) AND y")


@pytest.mark.parametrize("text", ["x ISNULL", "x NOTNULL", "x = NOT y", "x ?? y", "x ** y"])
def test_what_spark_does_not_read(text: str) -> None:
    with pytest.raises(ParseError):
        tree(text)


def _pairs() -> list[str]:
    binary = [*VALUES, *LOGIC]
    return [
        *(f"x {a} y {b} z" for a, b in product(binary, binary)),
        *(f"x {a} y {p}" for a, p in product(binary, PREDICATES)),
        *(f"x {p} {a} y" for p, a in product(PREDICATES, binary)),
        *(f"x {p} {q}" for p, q in product(PREDICATES, PREDICATES)),
        *(f"{u} x {a} {v} y" for u, a, v in product(UNARY, binary, UNARY)),
        *(f"NOT x {a} y" for a in binary),
        *(f"NOT x {p}" for p in PREDICATES),
    ]


@pytest.mark.spark
def test_spark_reads_all_pairs_so() -> None:
    """What Spark's parser reads, with all brackets, is what is read here; what it refuses is refused."""
    parser = session()._jsparkSession.sessionState().sqlParser()
    wrong = []
    for text in _pairs():
        theirs = _spark(parser, text)
        try:
            ours: Any = _plain(tree(text))
        except ParseError:
            ours = None
        if theirs is not None and ours is not None:
            same = _plain(tree(theirs)) == ours
        else:
            same = theirs is ours is None
        if not same:
            wrong.append(f"{text}: Spark {theirs}, here {ours}")
    assert not wrong, "\n".join(wrong[:40])


def _spark(parser: Any, text: str) -> str | None:
    try:
        return str(parser.parseExpression(text).sql()).replace("between(", "between_(")
    except Exception:
        return None


def _plain(found: exp.Expr) -> str:
    """A tree in Spark's own words for operators that Spark writes as others."""

    def word(e: exp.Expr) -> exp.Expr:
        match e:
            case exp.NEQ():
                return exp.Not(this=exp.EQ(this=e.this, expression=e.expression))
            case exp.NullSafeNEQ():
                return exp.Not(this=exp.NullSafeEQ(this=e.this, expression=e.expression))
            case exp.DPipe():
                return exp.Anonymous(this="concat", expressions=[e.this, e.expression])
            case exp.Concat():
                return exp.Anonymous(this="concat", expressions=e.expressions)
            case exp.Between():
                return exp.Anonymous(
                    this="between_", expressions=[e.this, e.args["low"], e.args["high"]]
                )
            case exp.Like() | exp.Is() if e.args.get("negate"):
                return exp.Not(this=type(e)(this=e.this, expression=e.expression))
            case exp.Is(expression=exp.Boolean()):
                return exp.NullSafeEQ(this=e.this, expression=e.expression)
            case _:
                return e

    for e in reversed(list(found.walk())):
        new = word(e)
        if new is not e:
            found = new if e is found else found
            e.replace(new)
    return repr(found).lower()
