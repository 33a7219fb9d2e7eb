"""Window functions: the kernel is the reference, both are Spark, and a suffix with its carry is the whole."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal, localcontext
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
    Reach,
    Total,
    Window,
    carried,
    evaluate,
    reach,
    result_type,
)
from headwater.engine.here import windows as kernel
from headwater.errors import ScalarError
from headwater.interop.arrow_types import arrow_type
from headwater.interop.spark_text import spark_type
from spark_session import session
from sql.corpus import same as alike

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
    function = draw(
        st.sampled_from(sorted(set(FUNCTIONS) - {"session_start"}))
    )  # of sessions alone
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


@pytest.mark.property
@given(st.data(), ORDERS)
def test_a_window_reads_as_it_is_written(data: st.DataObject, columns: list[str]) -> None:
    w = data.draw(some_windows(columns))
    assert Window.parse(w.text()) == w


def test_names_in_a_window_may_be_anything() -> None:
    w = Window("lag", ("from `a`",), None, True, -2, "default", decimal(4, 2))
    assert w.text() == "lag(`from ``a```) by -2 default default ignore nulls: decimal(4,2)"
    assert Window.parse(w.text()) == w


@pytest.mark.parametrize(
    ("function", "argument", "wanted"),
    [
        ("sum", INTEGER, BIGINT),
        ("sum", decimal(10, 2), decimal(20, 2)),
        ("sum", decimal(38, 4), decimal(38, 4)),
        ("sum", STRING, None),
        ("avg", BIGINT, DOUBLE),
        ("avg", decimal(10, 2), decimal(14, 6)),
        ("avg", decimal(37, 36), decimal(38, 38)),
        ("max", STRING, STRING),
        ("bool_or", INTEGER, None),
        ("row_number", INTEGER, None),
        ("nothing", INTEGER, None),
    ],
)
def test_result_types(function: str, argument: KeyType, wanted: KeyType | None) -> None:
    assert result_type(function, (argument,)) == wanted


# --- parts of partitions -----------------------------------------------------------------------------


@pytest.mark.property
@given(st.data(), PARTITIONS, ORDERS, st.lists(DIRECTIONS, min_size=2, max_size=2))
def test_a_part_of_a_partition_is_enough(
    data: st.DataObject,
    partitions: list[Partition],
    columns: list[str],
    directions: list[Direction],
) -> None:
    """What `reach` says a row depends on, is all that it depends on."""
    directions = directions[: len(columns)]
    near = some_windows(columns).filter(lambda w: reach([w], TYPES).kind != "whole")
    ws = data.draw(st.lists(near, min_size=1, max_size=3))
    try:
        table, groups, values = whole(partitions, columns, directions, ws)
    except ScalarError:
        return
    far = reach(ws, TYPES)
    rows = kernel.Rows(table, groups, columns, directions, {})
    taken, kept, wanted = [], [], []  # the rows that are read, and those that are asked for
    for first in np.unique(rows.first):
        end = rows.end[first]
        start, stop = sorted(data.draw(st.tuples(*[st.integers(first, end)] * 2)))
        if far.kind == "suffix":  # whole peers; and what comes behind them does not matter either
            start, stop = (end if i == end else int(rows.peer_first[i]) for i in (start, stop))
        begin = max(first, start - far.before)
        last = min(end, stop + far.after) if stop > start else begin
        taken.append(np.arange(begin, last))
        inside = (taken[-1] >= start) & (taken[-1] < stop)
        kept.append(inside)
        wanted.append(taken[-1][inside])
    some = np.concatenate([np.zeros(0, np.int64), *taken])
    inside = np.concatenate([np.zeros(0, np.bool_), *kept])
    carry = totals(table, groups, some, carried(ws)) if far.kind == "suffix" else None
    part = table.take(pa.array(some))
    found = kernel.evaluate(part, groups[some], columns, directions, ws, carry)
    for column, value in zip(found, values, strict=True):
        chosen = [value[i] for w in wanted for i in w]
        assert same(column.filter(pa.array(inside)), chosen)


def totals(
    table: pa.Table, groups: np.ndarray[Any, Any], some: Any, asked: tuple[Total, ...]
) -> dict[Total, pa.Array]:
    """The totals, by partition, of the rows before the first one that is taken."""
    rows = table.to_pylist()
    size = int(groups.max(initial=-1)) + 1
    first = {g: min((i for i in some if groups[i] == g), default=0) for g in range(size)}
    before = [[r for i, r in enumerate(rows) if groups[i] == g and i < first[g]] for g in first]
    out = {}
    for total in asked:
        if total.kind == "sum":
            (name,) = total.columns
            with localcontext(prec=60):
                sums = [sum(Decimal(r[name]) for r in b if r[name] is not None) for b in before]
            scale = getattr(TYPES[name], "scale", 0)
            out[total] = pa.array([s if s else None for s in sums], pa.decimal128(38, scale))
        else:
            out[total] = pa.array(
                [sum(all(r[n] is not None for n in total.columns) for r in b) for b in before],
                pa.int64(),
            )
    return out


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("lag(i) by 3: int", Reach("local", 3, 0)),
        ("lead(i) by 2: int", Reach("local", 0, 2)),
        ("lag(i) ignore nulls: int", Reach("whole")),
        ("sum(f) rows -2 to 1: double", Reach("local", 2, 1)),
        ("max(s) rows 1 to 4: string", Reach("local", 0, 4)),
        ("row_number(): int", Reach("suffix")),
        ("dense_rank(): int", Reach("whole")),
        ("ntile() by 2: int", Reach("whole")),
        ("sum(i): bigint", Reach("suffix")),
        ("avg(i): double", Reach("suffix")),
        ("avg(f): double", Reach("whole")),
        ("avg(f) exact: double", Reach("suffix")),
        ("stddev_samp(i) exact rows unbounded to -1: double", Reach("suffix", 1, 0)),
        ("sum(f) exact rows 0 to unbounded: double", Reach("whole")),
        ("sum(d) rows unbounded to -2: decimal(20,2)", Reach("suffix", 2, 0)),
        ("count(s) rows unbounded to 2: bigint", Reach("suffix", 0, 2)),
        ("count() range 0 to 0: bigint", Reach("suffix")),
        ("max(i): int", Reach("whole")),
        ("sum(i) range -1 to 0: bigint", Reach("whole")),
        ("sum(i) rows 0 to unbounded: bigint", Reach("whole")),
    ],
)
def test_reach(written: str, wanted: Reach) -> None:
    assert reach([Window.parse(written)], TYPES) == wanted


def test_the_reach_of_several_is_the_farthest() -> None:
    ws = [Window.parse(w) for w in ("lag(i) by 3: int", "lead(i): int", "row_number(): int")]
    assert reach(ws, TYPES) == Reach("suffix", 3, 1)
    assert carried(ws) == (Total("rows"),)


def test_exact_sums_carry_the_powers_that_they_are_told_from() -> None:
    ws = [Window.parse(w) for w in ("sum(f) exact: double", "var_pop(f) exact: double")]
    powers = (Total("power", ("f",), 1), Total("power", ("f",), 2))
    assert carried(ws) == (Total("count", ("f",)), *powers)
    assert reach(ws, TYPES, powers=False) == Reach("whole")  # as views of earlier rules are kept


# --- sums of floats ----------------------------------------------------------------------------------


@pytest.mark.property
@given(
    st.lists(st.floats(-10, 10), min_size=1, max_size=300),
    st.integers(1, 300),
    st.sampled_from(["sliding", "running", "rest"]),
    st.sampled_from([1, 50, 1 << 22]),
)
def test_floats_are_added_from_the_front(
    values: list[float], width: int, kind: str, at_once: int
) -> None:
    """To the last bit, however many are added together."""
    n = len(values)
    at = np.arange(n)
    low = np.zeros(n, np.int64) if kind == "running" else np.maximum(at - width, 0)
    high = np.full(n, n) if kind == "rest" else at + 1
    found = kernel.sequential(np.array(values), low, high, at_once)
    assert found.tolist() == [sum_in_order(values[a:b]) for a, b in zip(low, high, strict=True)]


def sum_in_order(values: list[float]) -> float:
    out = 0.0
    for v in values:
        out += v
    return out


# --- Spark -------------------------------------------------------------------------------------------

ORDER_BY: dict[str, tuple[list[str], list[Direction]]] = {
    "ORDER BY i": (["i"], [(False, False)]),
    "ORDER BY i DESC": (["i"], [(True, True)]),
    "ORDER BY i NULLS LAST, s DESC": (["i", "s"], [(False, True), (True, True)]),
    "ORDER BY f": (["f"], [(False, False)]),
    "ORDER BY f DESC NULLS FIRST": (["f"], [(True, False)]),
    "ORDER BY d NULLS LAST": (["d"], [(False, True)]),
    "ORDER BY t": (["t"], [(False, False)]),
    "ORDER BY u DESC": (["u"], [(True, True)]),
    "ORDER BY k": (["k"], [(False, False)]),
    "ORDER BY k DESC": (["k"], [(True, True)]),
    "": ([], []),
}
"""Clauses, and what they mean; k is different in each row, so that places are the same in Spark."""

PLACED = """
row_number(): int
ntile() by 3: int
ntile() by 20: int
lag(i): int
lag(s) by 2: string
lead(i) by -2: int
lag(d) by 0: decimal(10,2)
lag(l) by 3 default k: bigint
lead(s) by 4 default s: string
lag(i) by 2 ignore nulls: int
lead(i) by 2 ignore nulls: int
lead(l) ignore nulls: bigint
lag(l) by 2 default k ignore nulls: bigint
lag(i) by -2 ignore nulls: int
first_value(s): string
first_value(i) ignore nulls: int
first_value(i) rows 1 to 3: int
last_value(i) rows -3 to -1: int
last_value(s) ignore nulls: string
last_value(i) ignore nulls rows -1 to 1: int
nth_value(i) by 3: int
nth_value(i) by 2 rows -1 to 2: int
nth_value(s) by 2 ignore nulls rows unbounded to unbounded: string
nth_value(s) by 2 ignore nulls rows -2 to 2: string
nth_value(i) by 4 ignore nulls rows unbounded to 0: int
sum(f) rows -1 to 1: double
sum(f) rows 0 to unbounded: double
sum(f) rows unbounded to 0: double
avg(f) rows 1 to 2: double
sum(i) rows -2 to -1: bigint
avg(l) rows -3 to 0: double
sum(d) rows unbounded to -2: decimal(20,2)
avg(d) rows -1 to 5: decimal(14,6)
avg(e) rows -1 to 0: decimal(38,8)
sum(e) rows -1 to 0: decimal(38,4)
count(i, s) rows -1 to 1: bigint
count() rows 2 to 4: bigint
min(f) rows -1 to 1: double
max(f) rows -2 to 0: double
min(s) rows -2 to 2: string
max(d) rows 0 to 3: decimal(10,2)
max(t) rows -2 to -1: date
stddev_samp(f) rows -1 to 1: double
var_pop(i) rows -2 to 0: double
var_samp(d) rows unbounded to 0: double
stddev_pop(d) rows 0 to unbounded: double
bool_and(b) rows -1 to 1: boolean
bool_or(b) rows unbounded to 0: boolean
"""

PEERS = """
rank(): int
dense_rank(): int
percent_rank(): double
cume_dist(): double
count(): bigint
count(l) range 0 to 0: bigint
sum(i): bigint
sum(d) range 0 to unbounded: decimal(20,2)
avg(i) range unbounded to unbounded: double
avg(d): decimal(14,6)
min(s): string
max(f) range 0 to unbounded: double
var_samp(i): double
"""

RANGES = {
    "ORDER BY i": ["-1 to 1", "1 to 2", "-2 to -1", "unbounded to -1", "1 to unbounded"],
    "ORDER BY i DESC": ["-1 to 1", "-2 to -1", "0 to 2", "unbounded to 1"],
    "ORDER BY f": ["-1.5r to 0", "0.25r to 3.75r", "unbounded to 1.5r"],
    "ORDER BY f DESC NULLS FIRST": ["-1.5r to 0", "0 to 3.75r", "unbounded to -1.0r"],
    "ORDER BY d NULLS LAST": ["-2.51d to 0.01d", "0.01d to unbounded", "unbounded to -2.50d"],
    "ORDER BY t": ["-1 to 1", "interval(-1, 0, 0) to 0", "interval(1, 0, 0) to unbounded"],
    "ORDER BY u DESC": [
        "interval(0, 0, -43200000000) to 0",
        "interval(-1, 0, 0) to interval(1, 0, 0)",
        "0 to interval(0, 0, 86400000000)",
    ],
}


def written_windows() -> list[tuple[str, Window]]:
    """All clauses with their windows."""
    placed = [w for w in PLACED.splitlines() if w]
    peers = [w for w in PEERS.splitlines() if w]
    out = [(by, w) for by in ("ORDER BY k", "ORDER BY k DESC") for w in placed]
    out += [(by, w) for by in ORDER_BY if not by.startswith("ORDER BY k") for w in peers]
    out += [
        (by, f"{aggregate} range {frame}: {t}")
        for by, frames in RANGES.items()
        for frame in frames
        for aggregate, t in (("count()", "bigint"), ("sum(k)", "bigint"), ("min(s)", "string"))
    ]
    # Spark wants an order for what ranks, and for ranges.
    ordered = ("rank", "dense_rank", "percent_rank", "cume_dist")
    return [
        (by, Window.parse(w))
        for by, w in out
        if by or not (w.startswith(ordered) or " range " in w)
    ]


def in_sql(by: str, w: Window) -> str:
    """A window as SQL has it."""
    arguments = list(w.arguments) or ["*"] * (w.function == "count")
    if w.function in ("lag", "lead", "ntile", "nth_value"):
        arguments.append(str(w.offset))
    arguments += [w.default] if w.default else []
    frame = ""
    if w.frame is not None:
        bounds = in_clause(w.frame.start, "PRECEDING"), in_clause(w.frame.end, "FOLLOWING")
        frame = f"{w.frame.unit} BETWEEN {bounds[0]} AND {bounds[1]}"
    nulls = "IGNORE NULLS " if w.ignore_nulls else ""
    return f"{w.function}({', '.join(arguments)}) {nulls}OVER (PARTITION BY g {by} {frame})"


def in_clause(bound: Bound, side: str) -> str:
    offset = bound.offset
    if offset is None:
        return f"UNBOUNDED {side}"
    if offset == 0:
        return "CURRENT ROW"
    if isinstance(offset, Interval):
        size, unit = (offset.months, "MONTH") if offset.months else (offset.microseconds, "SECOND")
        after = size > 0
        shown = f"INTERVAL '{abs(size) // (1 if offset.months else 1_000_000)}' {unit}"
    else:
        after = offset > 0
        shown = f"{abs(offset)}" + ("D" if isinstance(offset, float) else "")
    return f"{shown} {'FOLLOWING' if after else 'PRECEDING'}"


SPARK_TYPES = {**TYPES, "l": BIGINT, "k": BIGINT, "g": INTEGER}


def spark_rows() -> list[Row]:
    """Partitions of several sizes; sums fit, so that Spark gives values."""
    draw = random.Random(7)
    pools = {n: pool for n, (_, pool) in COLUMNS.items()}
    pools["l"] = [0, 5, -7, 1 << 40, None]
    pools["e"] = [Decimal("0.0001"), Decimal("7e28"), Decimal("-123456789012345678901234567.8912")]
    sizes = {0: 14, 1: 1, 2: 2, 3: 23}
    return [
        {**{n: draw.choice(pool) for n, pool in pools.items()}, "k": i, "g": g}
        for g, size in sizes.items()
        for i in draw.sample(range(100), size)
    ]


def spark_table(rows: Sequence[Any]) -> pa.Table:
    return pa.table(
        {n: pa.array([r[n] for r in rows], arrow_type(t)) for n, t in SPARK_TYPES.items()}
    )


@pytest.mark.spark
@pytest.mark.parametrize("by", ORDER_BY)
def test_spark_agrees(by: str) -> None:
    columns, directions = ORDER_BY[by]
    rows, asked = spark_rows(), [w for clause, w in written_windows() if clause == by]
    spark = session()
    spark.createDataFrame(spark_table(rows)).createOrReplaceTempView("windows_test")
    listed = ", ".join(f"{in_sql(by, w)} AS w{i}" for i, w in enumerate(asked))
    frame = spark.sql(f"SELECT g, k, {listed} FROM windows_test")
    answers = {(row.g, row.k): row for row in frame.collect()}
    schema = {f.name: f.dataType.simpleString() for f in frame.schema}
    partitions = [[(r, 1) for r in rows if r["g"] == g] for g in range(4)]
    found = [pair for p in partitions for pair in expected(p, columns, directions, asked)]
    groups = np.array([row["g"] for row, _ in found], np.int64)
    table = spark_table([row for row, _ in found])
    arrays = kernel.evaluate(table, groups, columns, directions, asked)
    for i, w in enumerate(asked):
        assert schema[f"w{i}"] == spark_type(w.returns), w
        for row, values in found:
            wanted = answers[row["g"], row["k"]][f"w{i}"]
            assert alike(values[i], wanted), (w.text(), row, values[i], wanted)
        assert same(arrays[i], [values[i] for _, values in found]), w.text()
