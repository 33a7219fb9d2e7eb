"""Rows that are added up before they are sorted are the same once they are sorted and added up; and so they are fewer."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine.here import few_keys
from headwater.engine.here.statements import hashed
from headwater.state.entries import total
from headwater.state.run import MapSpec, prepared

N = 30_000
RNG = np.random.default_rng(3)
NUMBER, TEXT, MONEY = pa.int64(), pa.string(), pa.decimal128(38, 2)
NAMES = np.array(["", "a", "b", "Ü", "a longer name"])


def cents(numbers: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array([Decimal(int(n)) / 100 for n in numbers], MONEY)


def some(kind: pa.DataType, different: int) -> pa.Array:
    """Values of a key, with NULLs where it is a text."""
    if kind == NUMBER:
        return pa.array(RNG.integers(-different // 2, different // 2 + 1, N))
    if kind == TEXT:
        return pa.array([None if i == 0 else NAMES[i % 5] for i in RNG.integers(0, different, N)])
    width = np.int32 if kind == pa.date32() else np.int64
    return pa.array(RNG.integers(0, different, N).astype(width)).cast(kind)


def rows(keys: dict[str, pa.DataType], different: int, values: Callable[[], Any]) -> pa.Table:
    cells = {n: some(t, different) for n, t in keys.items()}
    return pa.table({**cells, "n": RNG.integers(-1, 2, N), "s": values()})


def spec(keys: dict[str, pa.DataType], ring: pa.DataType) -> MapSpec:
    return MapSpec("m", tuple(keys.items()), (("n", NUMBER), ("s", ring)), (next(iter(keys)),))


def sorted_and_added(of: MapSpec, table: pa.Table) -> pa.Table:
    return total(of, prepared(of, table.add_column(0, "_h", hashed(table, of.lookup))))


SMALL = lambda: RNG.integers(-1000, 1000, N)  # noqa: E731


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("keys", "ring", "values"),
    [
        ({"k": NUMBER}, NUMBER, SMALL),
        ({"k": NUMBER}, MONEY, lambda: cents(SMALL())),
        ({"k": TEXT, "j": NUMBER}, NUMBER, SMALL),
        ({"k": pa.date32(), "j": TEXT}, MONEY, lambda: cents(SMALL())),
        ({"k": pa.timestamp("us", "UTC")}, NUMBER, SMALL),
    ],
)
def test_rows_of_few_keys_are_added_up_first(
    keys: dict[str, pa.DataType],
    ring: pa.DataType,
    values: Callable[[], Any],
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headwater.engine.here.threads.LEAST_ROWS", 1000)
    of, table = spec(keys, ring), rows(keys, 40, values)
    made = few_keys.added_up(of, table, threads)
    assert made.num_rows < N / 2
    assert sorted_and_added(of, made).equals(sorted_and_added(of, table))


@pytest.mark.parametrize(
    ("keys", "different", "ring", "values"),
    [
        (
            {"k": NUMBER},
            1 << 40,
            NUMBER,
            SMALL,
        ),  # most keys are there once, and far from each other
        ({"k": TEXT, "j": NUMBER}, N, NUMBER, SMALL),
        ({"k": NUMBER}, 40, NUMBER, lambda: RNG.integers(-(1 << 62), 1 << 62, N)),  # may not fit
        ({"k": NUMBER}, 40, pa.float64(), lambda: RNG.random(N)),  # whose order counts
        ({"k": pa.float64()}, 40, NUMBER, SMALL),  # of which several are equal that look otherwise
        ({"k": NUMBER}, 40, MONEY, lambda: pa.array([Decimal(10) ** 30] * N, MONEY)),
    ],
)
def test_other_rows_stay_as_they_are(
    keys: dict[str, pa.DataType], different: int, ring: pa.DataType, values: Callable[[], Any]
) -> None:
    table = rows(keys, different, values)
    assert few_keys.added_up(spec(keys, ring), table) is table


@pytest.mark.parametrize("least", [-(1 << 63), -N, 0, (1 << 63) - 2 * N - 1])
def test_whole_numbers_that_lie_close_to_each_other_are_places(least: int) -> None:
    """Even where most of them are there once; keys whose changes come to zero are told all the same."""
    of = spec({"k": NUMBER}, MONEY)
    keys = RNG.integers(0, 2 * N, N) + least
    table = pa.table({"k": keys, "n": RNG.integers(-1, 2, N), "s": cents(SMALL())})
    made = few_keys.added_up(of, table)
    assert made.column("k").to_pylist() == sorted({*keys.tolist()})
    assert sorted_and_added(of, made).equals(sorted_and_added(of, table))


def test_a_part_that_does_not_fit_is_left_to_who_knows_the_rest() -> None:
    """Of two keys one has a sum of three digits, which the type has not, until what comes elsewhere takes it back."""
    narrow = pa.decimal128(2, 0)
    table = pa.table(
        {
            "k": pa.array([1, 2] * (N // 2)),
            "n": pa.array([1] * N),
            "s": pa.array([Decimal(9)] * N, narrow),
        }
    )
    assert few_keys.added_up(spec({"k": NUMBER}, narrow), table) is table


def test_a_join_into_few_groups_as_duckdb_has_it(tmp_path: Path) -> None:
    """Thousands of rows for each of some groups, in and out again; a group whose changes come to zero stays what it was."""
    query = "SELECT r.g, sum(s.v) AS t, count(*) AS n, max(s.v) AS high FROM r JOIN s ON r.k = s.k GROUP BY r.g"
    rng = np.random.default_rng(5)

    def drawn(n: int, other: str) -> pa.Table:
        return pa.table({"k": rng.integers(0, 50, n), other: rng.integers(0, 20, n)})

    there = {"r": drawn(600, "g"), "s": drawn(900, "v")}
    with hw.open(tmp_path, execution="here") as db:
        db.source("r", "k BIGINT, g BIGINT")
        db.source("s", "k BIGINT, v BIGINT")
        db.view("w", query)
        db.apply(there)
        for turn in range(4):
            new, gone = drawn(700, "v"), there["s"].slice(0, 500 + 100 * turn)
            db.apply({"s": hw.Delta(inserts=new, deletes=gone)})
            there["s"] = pa.concat_tables([there["s"].slice(gone.num_rows), new])
            con = duckdb.connect()
            for name, table in there.items():
                con.register(name, table)
            wanted = sorted(con.sql(query).fetchall())
            found = db.table("w").select(["g", "t", "n", "high"]).to_pylist()
            assert sorted(tuple(r.values()) for r in found) == wanted
