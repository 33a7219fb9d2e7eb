"""Random stories of purging, as many as are asked for: `make fuzz PART=bounds`; FUZZ_EXAMPLES=20000 plays two thousand."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closings import Story, sessions_story, story, through_story
from test_bounds import play


@pytest.mark.slow
@pytest.mark.property
@settings(deadline=None, max_examples=settings.default.max_examples // 10 or 1)
@given(
    st.integers(0, 1 << 40),
    st.sampled_from([story, sessions_story, through_story]),
    st.booleans(),
)
def test_random_stories(seed: int, of: Callable[..., Story], in_part: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        play(Path(folder), seed, of, in_part)
