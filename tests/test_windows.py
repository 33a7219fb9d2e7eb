"""Window functions: the kernel is the reference, both are Spark, and a suffix with its carry is the whole."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.calculus.scalars import order
from headwater.calculus.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIMESTAMP_NTZ,
    KeyType,
    decimal,
)
from headwater.calculus.windows import (
    CURRENT,
    FUNCTIONS,
    PLACES,
    UNBOUNDED,
    Bound,
    Direction,
    Frame,
    Interval,
    Window,
    evaluate,
    result_type,
)
from headwater.engine import windows as kernel
from headwater.engine.types import arrow_type
from headwater.errors import ScalarError

MOST = (1 << 63) - 1
DAY = date(2024, 1, 31)

COLUMNS: dict[str, tuple[KeyType, list[Any]]] = {
    "i": (INTEGER, [0, 1, 2, 3, 5, -4, None]),
    "l": (BIGINT, [0, 1, -7, MOST, -MOST, MOST // 2, None]),
    "d": (decimal(10, 2), [Decimal("0.01"), Decimal("-2.50"), Decimal("99999999.99"), None]),
    "e": (decimal(38, 4), [Decimal("0.0001"), Decimal("7e32"), Decimal("-7e32"), None]),
    "f": (DOUBLE, [0.0, 1.5, -2.25, 1e300, float("inf"), float("-inf"), float("nan"), None]),
    "s": (STRING, ["", "a", "b", "ß", None]),
    "b": (BOOLEAN, [False, True, None]),
    "t": (DATE, [DAY, date(2024, 2, 29), date(2024, 3, 1), date(2023, 12, 31), None]),
    "u": (
        TIMESTAMP_NTZ,
        [datetime(2024, 1, 31, 12), datetime(2024, 2, 29), datetime(2024, 2, 29, 12, 0, 1), None],
    ),
}
TYPES = {name: t for name, (t, _) in COLUMNS.items()}
ROWS = st.tuples(*(st.sampled_from(pool) for _, pool in COLUMNS.values())).map(
    lambda values: dict(zip(COLUMNS, values, strict=True))
)
SMALL = st.sampled_from([-3, -2, -1, 0, 1, 2, 3])
OFFSETS: dict[str, st.SearchStrategy[Any]] = {
    "i": SMALL,
    "l": st.sampled_from([-1, 1, 7, MOST, -MOST]),
    "d": st.sampled_from([Decimal("-2.51"), Decimal("0.01"), Decimal("1e8"), Decimal("0.005")]),
    "e": st.sampled_from([Decimal("-7e32"), Decimal("0.0001"), Decimal("7e32")]),
    "f": st.sampled_from([-1.5, 0.25, 3.75, 1e300]),
    "t": st.one_of(SMALL, st.builds(Interval, SMALL, SMALL)),
    "u": st.builds(
        Interval, SMALL, SMALL, st.sampled_from([0, 1, -43_200_000_000, 86_400_000_000])
    ),
}

Row = dict[str, Any]
Partition = list[tuple[Row, int]]


@st.composite
def frames(draw: st.DrawFn, columns: Sequence[str]) -> Frame | None:
    """Any frame that SQL allows over these order columns."""
    shape = draw(st.integers(0, 3))
    if shape == 0:
        return None
    if shape == 1:
        bounds = st.one_of(st.just(UNBOUNDED), st.builds(Bound, SMALL))
        return Frame("rows", draw(bounds), draw(bounds))
    if shape == 2 or len(columns) != 1 or columns[0] not in OFFSETS:
        bounds = st.sampled_from([UNBOUNDED, CURRENT])
    else:
        moved = st.builds(Bound, OFFSETS[columns[0]])
        bounds = st.one_of(st.just(UNBOUNDED), st.just(CURRENT), moved)
    return Frame("range", draw(bounds), draw(bounds))


@st.composite
def some_windows(draw: st.DrawFn, columns: Sequence[str]) -> Window:
    """Any window over these order columns."""
    function = draw(st.sampled_from(sorted(FUNCTIONS)))
    frame = None if function in PLACES else draw(frames(columns))
    least = -3 if function in ("lag", "lead") else 1
    offset = draw(st.integers(least, 4))
    if result_type(function, ()) is not None:
        arguments: tuple[str, ...] = ()
        if function == "count":
            arguments = tuple(draw(st.lists(st.sampled_from(sorted(TYPES)), max_size=2)))
    else:
        arguments = (
            draw(st.sampled_from([n for n, t in TYPES.items() if result_type(function, (t,))])),
        )
    returns = result_type(function, tuple(TYPES[a] for a in arguments))
    assert returns is not None
    ignoring = function in ("lag", "lead", "first_value", "last_value", "nth_value")
    default = None
    if function in ("lag", "lead") and draw(st.booleans()):
        default = arguments[0]
    ignore = ignoring and draw(st.booleans())
    if function not in ("lag", "lead", "ntile", "nth_value"):
        offset = 1
    return Window(function, arguments, frame, ignore, offset, default, returns)


DIRECTIONS = st.tuples(st.booleans(), st.booleans())
ORDERS = st.one_of(
    st.sampled_from([[n] for n in TYPES]),
    st.lists(st.sampled_from(sorted(TYPES)), max_size=2, unique=True),
)
PARTITIONS = st.lists(
    st.lists(st.tuples(ROWS, st.integers(1, 3)), min_size=1, max_size=7), max_size=4
)


def expected(
    partition: Partition, columns: Sequence[str], directions: Sequence[Direction], ws: list[Window]
) -> list[tuple[Any, tuple[Any, ...]]]:
    return evaluate(
        [(tuple(row[c] for c in columns), row, n) for row, n in partition], directions, ws
    )


def as_table(rows: Sequence[Any]) -> pa.Table:
    return pa.table(
        {n: pa.array([row[n] for row in rows], arrow_type(t)) for n, t in TYPES.items()}
    )


def same(found: pa.Array, wanted: Sequence[Any]) -> bool:
    return [order(v) for v in found.to_pylist()] == [order(v) for v in wanted]


def whole(
    partitions: list[Partition],
    columns: list[str],
    directions: list[Direction],
    ws: list[Window],
) -> tuple[pa.Table, np.ndarray[Any, Any], list[list[Any]]]:
    """The rows of all partitions in order, their partitions, and what the windows are by the reference."""
    answers = [expected(p, columns, directions, ws) for p in partitions]
    groups = np.repeat(np.arange(len(answers)) * 2, [len(a) for a in answers]).astype(np.int64)
    rows = [pair for answer in answers for pair in answer]
    values = [[v[k] for _, v in rows] for k in range(len(ws))]
    return as_table([row for row, _ in rows]), groups, values


@pytest.mark.property
@given(st.data(), PARTITIONS, ORDERS, st.lists(DIRECTIONS, min_size=2, max_size=2))
def test_the_kernel_is_the_reference(
    data: st.DataObject,
    partitions: list[Partition],
    columns: list[str],
    directions: list[Direction],
) -> None:
    directions = directions[: len(columns)]
    ws = data.draw(st.lists(some_windows(columns), min_size=1, max_size=4))
    for w in ws:
        try:
            table, groups, values = whole(partitions, columns, directions, [w])
        except ScalarError:
            plain = [expected(p, columns, directions, []) for p in partitions]
            table = as_table([row for answer in plain for row, _ in answer])
            groups = np.repeat(np.arange(len(plain)), [len(a) for a in plain])
            with pytest.raises(ScalarError):
                kernel.evaluate(table, groups, columns, directions, [w])
            continue
        (found,) = kernel.evaluate(table, groups, columns, directions, [w])
        assert found.type == arrow_type(w.returns)
        assert same(found, values[0]), (w, found.to_pylist(), values[0])
