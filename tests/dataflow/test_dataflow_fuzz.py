"""Random graphs with random stories beside the meaning, as many as are asked for: `make fuzz PART=dataflow`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import drawn
from test_against_meaning import LOOSE, told


@pytest.mark.property
@settings(deadline=None, max_examples=settings.default.max_examples // 10 or 1)
@given(st.integers(0, 1 << 40), st.booleans())
def test_random_graphs(seed: int, fuse: bool) -> None:
    graph = drawn(seed)
    with tempfile.TemporaryDirectory() as folder:
        told(graph, Path(folder) / "db", fuse=fuse and not graph.words & LOOSE)
