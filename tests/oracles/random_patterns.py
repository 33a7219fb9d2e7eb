"""Random patterns, punctuations and sets, over every type that has an order.

`POOLS` has for each type some values in the order in which Spark sorts them, as they are written down here by hand: the
least and the greatest, neighbours, and what is odd in the type. Patterns are made of some of them, and all of them are
what a pattern is tried on.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from headwater.calculus import types as ty
from headwater.calculus.patterns import (
    ANYTHING,
    NOTHING,
    Constant,
    Pattern,
    Punctuation,
    Range,
    one_of,
)
from headwater.calculus.types import Base

POOLS: dict[Base, list[Any]] = {
    ty.TINYINT: [-128, -127, -1, 0, 1, 2, 3, 4, 126, 127],
    ty.INTEGER: [-(2**31), -5, 0, 1, 2, 3, 4, 6, 2**31 - 2, 2**31 - 1],
    ty.BIGINT: [-(2**63), -1, 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1],
    ty.BOOLEAN: [False, True],
    ty.DOUBLE: [-math.inf, -1.5, 0.0, 5e-324, 0.5, 1.0, 1e300, math.inf, math.nan],
    ty.FLOAT: [-math.inf, -0.25, 0.0, 0.5, 1.0, 3.0, math.inf, math.nan],
    ty.STRING: ["", "\0", "A", "a", "a'\\", "b\n", "z", "é", "\uffff", "𐀀"],
    ty.BINARY: [b"", b"\0", b"\0\0", b"a", b"\x7f", b"\x80", b"\xff"],
    ty.decimal(5, 2): [
        *map(Decimal, ("-999.99", "-0.01", "0.00", "0.01", "0.50", "1.00", "999.99"))
    ],
    ty.decimal(38, 10): [
        *map(Decimal, ("-" + "9" * 28 + "." + "9" * 10, "-0.0000000001", "0.0000000000")),
        *map(Decimal, ("0.0000000001", "1" * 28 + ".1111111111", "9" * 28 + "." + "9" * 10)),
    ],
    ty.DATE: [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(1970, 1, 2), date.max],
    ty.TIMESTAMP: [
        *(datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999)),
        *(datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 0, 1), datetime(2024, 2, 29, 12, 30)),
    ],
    ty.TIMESTAMP_NTZ: [datetime(1, 1, 1), datetime(2024, 2, 29, 12, 30), datetime(9999, 12, 31)],
}
"""Values of each type, in Spark's order."""

types = st.sampled_from(list(POOLS))


def probes(t: Base) -> list[Any]:
    """What patterns of a type are tried on: NULL, the values, and in a discrete type those beside them."""
    pool = POOLS[t]
    beside: list[Any] = []
    if t.name in ty.INTEGRAL:
        beside = [v + d for v in pool for d in (-1, 1) if pool[0] <= v + d <= pool[-1]]
    if t == ty.DATE:
        beside = [date.fromordinal(v.toordinal() + 1) for v in pool[:-1]]
    return [None, *pool, *beside]


@st.composite
def patterns(draw: st.DrawFn, t: Base, every: bool = True) -> Pattern:
    """A pattern that means something in a type; not always in its one form."""
    pool = POOLS[t]
    i, j = sorted((draw(st.integers(0, len(pool) - 1)), draw(st.integers(0, len(pool) - 1))))
    low, high = draw(st.sampled_from([(pool[i], pool[j])] * 2 + [(None, pool[j]), (pool[i], None)]))
    closed = st.booleans()
    kinds: list[SearchStrategy[Pattern]] = [
        st.just(Constant(draw(st.sampled_from([None, *pool])))),
        st.just(Range(low, high, draw(closed), draw(closed))),
        st.lists(st.sampled_from([None, *pool]), max_size=5).map(one_of),
    ]
    odd = [st.just(ANYTHING), st.just(NOTHING), st.just(Range(None, None, False, False))]
    return draw(st.one_of(*kinds, *(odd if every else [])))


@st.composite
def punctuations(draw: st.DrawFn, columns: dict[str, Base]) -> Punctuation:
    """A punctuation over some of the columns."""
    named = draw(st.lists(st.sampled_from(sorted(columns)), unique=True, max_size=len(columns)))
    return Punctuation.of({n: draw(patterns(columns[n])) for n in named})


@st.composite
def few_columns(draw: st.DrawFn) -> dict[str, Base]:
    """One to three columns with their types, so few that punctuations meet."""
    return {n: draw(types) for n in ("a", "b", "c")[: draw(st.integers(1, 3))]}


def rows(draw: st.DrawFn, columns: dict[str, Base], n: int = 30) -> list[dict[str, Any]]:
    """Some rows over the columns; from one number, for drawing each value takes longer than the tests do."""
    pick = Random(draw(st.integers(0, 1 << 16)))
    tried = {name: probes(t) for name, t in columns.items()}
    return [{name: pick.choice(found) for name, found in tried.items()} for _ in range(n)]
