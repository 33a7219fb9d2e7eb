"""Edits drawn from the corpora of queries and from random ones, as many as are asked for: `make fuzz PART=edits`.

A handful of pairs of queries of the corpora is in `make test`, 300 of them in `make test-all`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_edits import Chain, shop, small
from edits import Played, edit_story
from shrinking import seeded

CORPORA = {"small": small(), "shop": shop()}


def play(corpus: str, seed: int, edits: int) -> Chain:
    with tempfile.TemporaryDirectory() as folder:
        made = Chain(CORPORA[corpus], seeded(seed, []), Path(folder))
        made.play(edits)
    return made


@pytest.mark.parametrize(("corpus", "seed"), [("small", 0), ("small", 3), ("shop", 1)])
def test_replacing_one_query_of_a_corpus_by_another(corpus: str, seed: int) -> None:
    assert play(corpus, seed, 5).edits == 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_three_hundred_pairs(seed: int) -> None:
    play("shop" if seed % 3 == 0 else "small", 1000 + seed, 10)


@pytest.mark.slow
@pytest.mark.property
@settings(deadline=None, max_examples=settings.default.max_examples // 10 or 1)
@given(st.integers(0, 1 << 40), st.sampled_from([*CORPORA]))
def test_edits_of_corpora(seed: int, corpus: str) -> None:
    play(corpus, seed, 6)


@pytest.mark.slow
@pytest.mark.property
@pytest.mark.spark
@settings(deadline=None, max_examples=settings.default.max_examples // 10 or 1)
@given(st.integers(0, 1 << 40), st.booleans())
def test_edits_of_random_queries(seed: int, alike: bool) -> None:
    """Some of the queries ask Spark."""
    with tempfile.TemporaryDirectory() as folder:
        story = edit_story(seeded(seed, []), alike=alike)
        Played(story, Path(folder), reopens=seed % 3 == 0).play()
