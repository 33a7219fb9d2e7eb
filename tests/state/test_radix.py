"""Orders found digit by digit are those that comparing finds, and stable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.state.keys import sort_order
from headwater.state.radix import FEW, by_columns, order_of

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


@pytest.mark.parametrize("down", [set(), {0}, {1, 2}])
def test_an_order_by_columns_is_the_stable_one(down: set[int]) -> None:
    columns = [
        pa.array(RNG.integers(0, 5, N)),
        pa.array(RNG.integers(-40_000, 40_000, N).astype(np.int32)).cast(pa.date32()),
        pa.array(RNG.choice(np.array([LEAST, -1, MOST]), N)),
    ]
    numbers = [np.asarray(c.cast(pa.int32() if c.type == pa.date32() else c.type)).astype(object)
               for c in columns]  # fmt: skip
    signed = [(-x if i in down else x) for i, x in enumerate(numbers)]
    found = by_columns(columns, down)
    assert found is not None
    assert found.tolist() == sorted(range(N), key=lambda i: tuple(x[i] for x in signed))


def test_columns_that_have_no_digits_are_left_to_comparing() -> None:
    assert by_columns([pa.array(["a"] * N)]) is None
    assert by_columns([pa.array([None, *range(N)])]) is None
    assert by_columns([pa.array(HASHES)] * 3) is None


def test_entries_of_a_hash_are_in_the_order_of_their_parts_either_way() -> None:
    """The same rows with and without a NULL, which is compared: the order of the others is the same."""
    h = HASHES[RNG.integers(0, 50, N)]
    part = RNG.integers(0, 1000, N)
    by_digits = sort_order(h, [pa.array(part)], {0})
    compared = sort_order(np.append(h, MOST), [pa.array([*part.tolist(), None])], {0})
    assert (compared[compared < N] == by_digits).all()
