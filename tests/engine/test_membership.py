"""Membership of tables against `matches` row by row, over every type that has an order."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.calculus import types as ty
from headwater.calculus.patterns import (
    EVERYTHING,
    NONE,
    Punctuation,
    Punctuations,
    Range,
    above,
    below,
    between,
    one_of,
    since,
    upto,
)
from headwater.calculus.types import Base
from headwater.engine import membership
from headwater.engine.membership import matching
from headwater.errors import BadPattern
from headwater.interop.arrow_types import arrow_type
from headwater.state.hashing import hash_keys
from random_patterns import POOLS, few_columns, probes, punctuations, rows

closed = Punctuation.of


def table_of(found: list[dict[str, Any]], columns: dict[str, Base]) -> pa.Table:
    """Rows as a source keeps them."""
    return pa.table({n: pa.array([r[n] for r in found], arrow_type(t)) for n, t in columns.items()})


@pytest.mark.property
@given(
    st.data(),
    few_columns(),
    st.sampled_from([membership.LISTED, 2]),
    st.sampled_from([membership.FEW, 0]),
)
def test_a_table_is_matched_as_its_rows_are(
    data: st.DataObject, columns: dict[str, Base], listed: int, few: int
) -> None:
    several = Punctuations(data.draw(st.lists(punctuations(columns), max_size=6)), columns)
    found = rows(data.draw, columns, 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(membership, "LISTED", listed)
        patch.setattr(membership, "FEW", few)
        got = matching(several, table_of(found, columns))
        assert got.tolist() == [several.matches(r) for r in found]
        assert matching(several, table_of(found[:7], columns)).tolist() == got[:7].tolist()


@pytest.mark.parametrize("t", POOLS, ids=str)
def test_every_value_and_range_of_a_type(t: Base) -> None:
    """Each pattern alone over all values of the pool, in Arrow types that a table may have too."""
    tried = probes(t)
    pool = POOLS[t]
    made = [p(v) for p in (below, upto, since, above) for v in pool]
    made += [between(a, b) for i, a in enumerate(pool) for b in pool[i:]]
    made += [one_of([v]) for v in tried] + [one_of([None, *pool[::2]])]
    made += [Range(None, None, False, False)]
    column = pa.array(tried, arrow_type(t))
    forms = [pa.chunked_array([column[:3], column[3:]]), pa.chunked_array([column.slice(1)])]
    if t in (ty.STRING, ty.BINARY):
        forms.append(
            pa.chunked_array([column.cast(pa.string() if t == ty.STRING else pa.binary())])
        )
        forms.append(pa.chunked_array([column.dictionary_encode()]))
    for p in made:
        one = closed({"a": p})
        several = Punctuations([one], {"a": t})
        for form in forms:
            start = len(tried) - len(form)
            wanted = [one.matches({"a": v}) for v in tried[start:]]
            assert matching(several, pa.table({"a": form})).tolist() == wanted, str(one)


def test_columns_have_other_names_in_the_table() -> None:
    several = Punctuations([closed({"hour": below(3)})], {"hour": ty.INTEGER})
    table = pa.table({"hour": [1, 9], "k0": [9, 1]})
    assert matching(several, table).tolist() == [True, False]
    assert matching(several, table, {"hour": "k0"}).tolist() == [False, True]


def test_nothing_everything_and_no_rows() -> None:
    table = pa.table({"a": pa.array([1, None], pa.int32()), "n": pa.nulls(2)})
    assert matching(NONE, table).tolist() == [False, False]
    assert matching(EVERYTHING, table).tolist() == [True, True]
    assert matching(EVERYTHING, table[:0]).tolist() == []
    assert matching(Punctuations([closed({"n": None})]), table).tolist() == [True, True]
    assert matching(Punctuations([closed({"n": 3})]), table).tolist() == [False, False]
    both = Punctuations([closed({"n": None, "a": 1})])
    assert matching(both, table).tolist() == [True, False]


def test_floats_as_spark_has_them() -> None:
    """Any NaN is the one NaN, which is the greatest; a negative zero is zero."""
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    table = pa.table({"x": pa.array([*odd, -0.0, 0.0, np.inf])})
    for p, wanted in [
        (float("nan"), "11000"),
        (above(float("inf")), "11000"),
        (-0.0, "00110"),
        (below(0.0), "00000"),
        (upto(-0.0), "00110"),
        (between(0.0, float("inf")), "00111"),
    ]:
        found = matching(Punctuations([closed({"x": p})], {"x": ty.DOUBLE}), table)
        assert "".join(map(str, found.astype(int))) == wanted


def test_rows_that_share_a_hash_are_told_apart() -> None:
    """Two keys of two columns, made so that their hashes are the same."""

    def mixed(a: int) -> int:
        return int(hash_keys([pa.array([a])], 1)[0])

    first, second = (1, 5), (2, mixed(1) + 5 - mixed(2))
    columns = {"a": ty.BIGINT, "b": ty.BIGINT}
    table = table_of([{"a": a, "b": b} for a, b in (first, second)], columns)
    hashes = hash_keys([table.column(n).combine_chunks() for n in columns], 2)
    assert hashes[0] == hashes[1]
    for row, other in ((first, second), (second, first)):
        one = closed(dict(zip(columns, row, strict=True)))
        assert matching(Punctuations([one], columns), table).tolist() == [
            row == first,
            row == second,
        ]
        both = [one, closed(dict(zip(columns, other, strict=True)))]
        assert matching(Punctuations(both, columns), table).tolist() == [True, True]


def test_values_that_the_column_cannot_have_are_named() -> None:
    with pytest.raises(BadPattern, match="`a`: a punctuation has values that are no int32"):
        matching(Punctuations([closed({"a": "x"})]), pa.table({"a": pa.array([1], pa.int32())}))


KINDS: list[tuple[Base, Any]] = [
    (ty.BIGINT, lambda i: i * 3),
    (ty.STRING, lambda i: f"device-{i}"),
    (ty.TIMESTAMP, lambda i: datetime(2024, 1, 1) + timedelta(seconds=i)),
    (ty.decimal(20, 2), lambda i: Decimal(i).scaleb(-2)),
]


def fastest(run: Any, times: int = 5) -> float:
    """Seconds of processor time, of the quickest of a few runs."""
    out = []
    for _ in range(times):
        start = time.process_time()
        run()
        out.append(time.process_time() - start)
    return min(out)


@pytest.mark.parametrize("t, make", KINDS, ids=[str(t) for t, _ in KINDS])
@pytest.mark.parametrize("n", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a_large_set_answers_at_once(t: Base, make: Any, n: int) -> None:
    """100,000 rows against as many as 1 million constants, at most 50 ms."""
    several = Punctuations([closed({"id": one_of(make(i) for i in range(n))})], {"id": t})
    pick = Random(7)
    asked = [pick.randrange(2 * n) for _ in range(100_000)]
    table = pa.table({"id": pa.array([make(i) for i in asked], arrow_type(t))})
    found = matching(several, table)
    assert found.tolist() == [i < n for i in asked]
    assert fastest(lambda: matching(several, table)) <= 0.05


def test_many_ranges_and_many_pairs() -> None:
    """Ranges over one column are searched, and constants beside a range are looked up: not one by one."""
    types = {"zone": ty.INTEGER, "hour": ty.INTEGER}
    ranges = [closed({"hour": between(10 * i, 10 * i + 3)}) for i in range(5_000)]
    pairs = [closed({"zone": i, "hour": below(i % 100)}) for i in range(5_000)]
    pick = Random(7)
    asked = [{"zone": pick.randrange(10_000), "hour": pick.randrange(99_999)} for _ in range(2_000)]
    asked += [{"zone": pick.randrange(10_000), "hour": pick.randrange(99)} for _ in range(2_000)]
    table = table_of(asked, types)
    for members in (ranges, pairs, ranges + pairs):
        several = Punctuations(members, types)
        assert matching(several, table).tolist() == [several.matches(r) for r in asked]
        assert fastest(lambda several=several: matching(several, table)) <= 0.05
