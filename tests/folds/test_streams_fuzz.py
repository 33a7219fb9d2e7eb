"""Random stories and cuts of streams, as many as are asked for: `make fuzz PART=streams`; FUZZ_EXAMPLES=20000 plays two thousand."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import test_kernel
import test_ready
from stream_pipelines import PIPELINES
from test_stream_cuts import compare
from test_stream_stories import play

FEW = settings.default.max_examples // 10 or 1


@pytest.mark.slow
@pytest.mark.property
@settings(deadline=None, max_examples=FEW)
@given(hs.sampled_from(sorted(PIPELINES)), hs.integers(0, 1 << 40))
def test_random_stories_of_streams(name: str, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        play(Path(folder), name, seed)


@pytest.mark.slow
@pytest.mark.property
@settings(deadline=None, max_examples=FEW)
@given(hs.sampled_from(sorted(PIPELINES)), hs.integers(0, 1 << 40))
def test_random_cuts_of_streams(name: str, seed: int) -> None:
    compare(name, seed, 3)


@pytest.mark.slow
@pytest.mark.property
@settings(deadline=None, max_examples=10 * FEW)
@given(hs.integers(0, 1 << 40))
def test_random_kernels_and_frontiers(seed: int) -> None:
    test_kernel.compare(seed, test_kernel.Texts if seed % 2 else test_kernel.Maps, 20)
    test_ready.compare(seed)
