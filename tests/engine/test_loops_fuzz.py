"""Random stories of loops, as many as are asked for: `make fuzz PART=loops`; FUZZ_EXAMPLES=2000 plays two hundred."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from loop_stories import Run, told
from loops import BY_NAME
from test_loops import HOWS

FEW = settings.default.max_examples // 10 or 1


@pytest.mark.slow
@pytest.mark.property
@settings(deadline=None, max_examples=FEW)
@given(hs.sampled_from(sorted(BY_NAME)), hs.integers(0, 1 << 40), hs.sampled_from(HOWS))
def test_random_stories_of_loops(name, seed, how) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Run(told(BY_NAME[name], seed), how, Path(folder)).play()
