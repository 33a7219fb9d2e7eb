"""Stories of sources that keep open rows only, and of databases that are rebuilt and opened again while parts are closed.

Beside each is one that was told nothing of what is over: views say the same at every version, and final rows stay.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from closings import Story, sessions_story, story, through_story
from test_bounds import final_rows, purge, rows_of


def play(path: Path, seed: int, retain: Any, of: Callable[..., Story] = story) -> None:
    told, chance = of(seed, steps=5, views=3), random.Random(seed)
    plain, closing = hw.open(path / "plain"), hw.open(path / "closing")
    for name, ddl in told.sources.items():
        closes, key = told.closes[name], told.keys.get(name)
        plain.source(name, ddl, key=key)
        closing.source(
            name,
            ddl,
            key=key,
            closes=closes,
            append_only=name in told.append_only,
            retain=retain if closes != () else True,
        )
    for name, query in told.views.items():
        plain.view(name, query)
        closing.view(name, query)
    final: dict[str, Counter[Any]] = {v: Counter() for v in told.views}
    for change, points in told.steps:
        plain.apply(change)
        closing.apply(change, punctuate=points)
        if chance.random() < 0.5:
            purge(closing)
        if retain is True and chance.random() < 0.4:
            closing.rebuild()
        if chance.random() < 0.3:
            closing.close()
            closing = hw.open(path / "closing")
        for view, query in told.views.items():
            answer, ledger = rows_of(plain.table(view)), final_rows(closing, view)
            assert rows_of(closing.table(view)) == answer, (seed, view, query)
            assert final[view] <= ledger <= answer, (seed, view, query)
            final[view] = ledger
    plain.close()
    closing.close()


@pytest.mark.parametrize("retain", ["open", True])
@pytest.mark.parametrize("seed", range(4))
def test_views_say_the_same_whatever_is_kept(tmp_path: Path, seed: int, retain: Any) -> None:
    play(tmp_path, seed, retain)


@pytest.mark.parametrize("retain", ["open", True])
@pytest.mark.parametrize("of", [sessions_story, through_story])
@pytest.mark.parametrize("seed", range(2))
def test_what_is_found_is_the_same_whatever_is_kept(
    tmp_path: Path, seed: int, of: Callable[..., Story], retain: Any
) -> None:
    play(tmp_path, seed, retain, of)


@pytest.mark.slow
@pytest.mark.parametrize("retain", ["open", True])
@pytest.mark.parametrize("of", [story, sessions_story, through_story])
@pytest.mark.parametrize("seed", range(1000, 1060))
def test_long_stories_of_what_is_kept(
    tmp_path: Path, seed: int, of: Callable[..., Story], retain: Any
) -> None:
    play(tmp_path, seed, retain, of)
