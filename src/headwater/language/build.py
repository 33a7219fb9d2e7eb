"""Terms that both front ends build: constants, and bags without their repetitions."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from headwater.calculus.check import type_of
from headwater.calculus.ring import EXACT
from headwater.calculus.terms import Box, Call, Const, Each, Num, Pred, Sng, Term, Times, Var
from headwater.calculus.types import BIGINT, INT, decimal

ONE = Num(1, INT)
ZERO = Const(0, BIGINT)


def distinct(bag: Term, key: str = "k", count: str = "v") -> Term:
    """Every row that is there, once."""
    return each_distinct(bag, lambda row: Sng(row, ONE), key, count)


def each_distinct(
    bag: Term, body: Callable[[Term], Term], key: str = "k", count: str = "v"
) -> Term:
    """The sum of a body over the different rows of a bag."""
    row, times = Var(key, type_of(bag).key), Var(count, INT)
    return Each(row, times, bag, Times((Pred(Call(">", (Box(times), ZERO))), body(row))))


def decimal_literal(value: Decimal) -> Const | None:
    """A decimal constant with the least precision and scale that hold it; None if 38 digits do not."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    scale = max(0, -exponent)
    precision = max(len(digits) + max(exponent, 0), scale)
    if precision > 38:
        return None
    exact = value.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    return Const(exact, decimal(precision, scale))


def exactly(*numbers: Term) -> Term:
    """The product of numbers as a summand that nothing rounds."""
    return Call("_exact", numbers)
