"""Orders found digit by digit are those that comparing finds, and stable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.state.keys import sort_order
from headwater.state.ordering import FEW, by_columns, order_of

RNG = np.random.default_rng(7)
LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
N = 3 * FEW
HASHES = RNG.integers(LEAST, MOST, N, endpoint=True)
KINDS: dict[str, Any] = {
    "hashes": HASHES,
    "few hashes": HASHES[RNG.integers(0, 7, N)],
    "places": RNG.integers(0, N, N),
    "below zero": RNG.integers(-(1 << 20), 1 << 20, N),
    "all the same": np.full(N, -3),
    "in order": np.sort(HASHES),
    "two sorted stretches": np.concatenate([np.sort(HASHES[:FEW]), np.sort(HASHES[FEW:])]),
    "equal in their first half": (np.int64(5) << 40) + RNG.integers(0, 1 << 34, N),
    "ends of the space": RNG.choice(np.array([LEAST, MOST, -1, 0, 1]), N),
    "few": HASHES[:10],
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_order_of_numbers_is_the_stable_one(kind: str) -> None:
    values = KINDS[kind]
    assert (order_of(values) == np.argsort(values, kind="stable")).all()


SHORT = pa.array(RNG.integers(0, 5, N))
DATES = pa.array(RNG.integers(-40_000, 40_000, N).astype(np.int32)).cast(pa.date32())
ENDS = pa.array(RNG.choice(np.array([LEAST, -1, 0, MOST]), N))
COLUMNS = {
    "that fit into one number": [SHORT, DATES],
    "of which a part fits": [SHORT, DATES, ENDS],
    "that are longer than a number": [ENDS, pa.array(HASHES)],
    "of hashes with several rows each": [pa.array(HASHES[: N // 4].repeat(4)), SHORT],
    "that are longer than a number and all alike": [ENDS.take(pa.array([0] * N))] * 3,
    "as numpy has them": [RNG.integers(-3, 3, N), RNG.integers(LEAST, MOST, N)],
    "none": [],
}
GROUPS = {
    "one group": np.zeros(N, np.int64),
    "large groups": np.sort(RNG.integers(0, 3, N)),
    "small groups": np.sort(RNG.integers(0, N // 3, N)),
    "a row each": np.arange(N),
}


@pytest.mark.parametrize("down", [set(), {0}, {1, 2}])
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("kind", COLUMNS)
def test_an_order_by_columns_is_the_stable_one(kind: str, group: str, down: set[int]) -> None:
    columns, groups = COLUMNS[kind], GROUPS[group].tolist()
    numbers = [
        (c.cast(pa.int32()) if c.type == pa.date32() else c).to_pylist()
        if isinstance(c, pa.Array)
        else c.tolist()
        for c in columns
    ]
    signed = [[-v for v in x] if i in down else x for i, x in enumerate(numbers)]
    found = by_columns(np.asarray(GROUPS[group]), columns, down)
    assert found is not None
    assert found.tolist() == sorted(range(N), key=lambda i: (groups[i], *(x[i] for x in signed)))


def test_no_rows_are_in_order() -> None:
    found = by_columns(np.zeros(0, np.int64), [pa.array([], pa.int64())])
    assert found is not None and found.tolist() == []


def test_columns_that_are_no_numbers_are_left_to_comparing() -> None:
    group = np.arange(N)
    assert by_columns(group, [pa.array(["a"] * N)]) is None
    assert by_columns(group, [pa.array([None, *range(N - 1)])]) is None


def test_entries_of_a_hash_are_in_the_order_of_their_parts_either_way() -> None:
    """The same rows with and without a NULL, which is compared: the order of the others is the same."""
    h = HASHES[RNG.integers(0, 50, N)]
    part = RNG.integers(0, 1000, N)
    by_digits = sort_order(h, [pa.array(part)], {0})
    compared = sort_order(np.append(h, MOST), [pa.array([*part.tolist(), None])], {0})
    assert (compared[compared < N] == by_digits).all()
