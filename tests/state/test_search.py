"""Finding hashes in a run: what is found is what a plain count finds, however many are looked for and however long the run is."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.state.keys import Ints
from headwater.state.search import FEW, Hashes

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def hashes_of(held: Ints, parts: int) -> Hashes:
    """A run of several segments, which lie one behind the other."""
    return Hashes(np.array_split(held, parts))


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("rows", [0, 1, 5, 5000, 70_000])
@pytest.mark.parametrize("wanted", [1, FEW, FEW + 1, 3000, 40_000])
def test_ranges_are_those_of_a_plain_search(rows: int, wanted: int, parts: int) -> None:
    rng = np.random.default_rng(rows + wanted)
    some = np.concatenate((rng.integers(LEAST, MOST, 1 + rows // 3), [LEAST, MOST]))
    held = np.sort(rng.choice(some, rows))
    asked = np.concatenate((rng.choice(some, wanted), rng.integers(LEAST, MOST, 1 + wanted // 2)))
    asked = np.sort(asked)
    first, counts = hashes_of(held, parts).ranges(asked)
    low, high = (np.searchsorted(held, asked, side) for side in ("left", "right"))
    assert np.array_equal(counts, high - low)
    assert np.array_equal(first[counts > 0], low[counts > 0])
