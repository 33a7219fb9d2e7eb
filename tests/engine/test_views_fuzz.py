"""Random views, kept up to date through random changes, against DuckDB's answers after every step.

A story (see `view_stories`) defines and drops views, applies changes, and deletes everything in the end. However it is played,
in this process or on Spark, several changes at once or in sequence, whatever is kept for a view: every view is what
DuckDB computes, its changes add up to it, older versions stay as they were, and the maps are those of a database
that was given the same rows at once. A failure prints a script that repeats it. The last tests draw from all clauses
that are maintained: some cases by seed in `make test-all`, and without end in `make fuzz PART=views`.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, assume, event, given, settings

from random_values import Pick
from shrinking import fewer, repeated, seeded, shrunk
from spark_session import session
from strategies import drawn
from view_stories import How, Run, Stories, Story

pytestmark = [pytest.mark.property, pytest.mark.spark]

PROFILE = settings.default
assert PROFILE is not None
ORDINARY = PROFILE is settings.get_profile("default")
STRATEGIES = ("auto", "recursive", "first-order")


def few(examples: int) -> settings:
    """So many examples in an ordinary run; a share of those that were asked for when fuzzing."""
    assert PROFILE is not None
    return settings(
        PROFILE,
        max_examples=examples if ORDINARY else max(1, PROFILE.max_examples * examples // 20),
        # A story takes seconds: an ordinary run prints it as it was drawn, `make fuzz` makes it small first.
        phases=[
            p for p in Phase if p is not Phase.explain and not (ORDINARY and p is Phase.shrink)
        ],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def stories(
    strategies: tuple[str, ...] = STRATEGIES, increments: int = 4, jobs: bool = False
) -> Callable[[Pick], Story]:
    return lambda pick: Stories(pick, strategies, jobs=jobs).story(increments)


def play(story: Story, how: How) -> Run:
    """Plays a story; one on which DuckDB breaks (its own overflow, say) tells nothing."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(story, how, Path(folder) / "database", session())
        try:
            run.play()
        except duckdb.Error:
            assume(False)
    event(f"{len(run.refused)} views refused")
    return run


@few(7)
@given(drawn(stories(increments=3)))
def test_one_change_after_another(story: Story) -> None:
    play(story, How(several="in sequence"))


@few(5)
@given(drawn(stories(("auto", "first-order"), increments=3)))
def test_all_changes_at_once(story: Story) -> None:
    play(story, How(several="at once"))


@few(2)
@given(drawn(stories(increments=3)))
def test_reopened_after_every_change(story: Story) -> None:
    play(story, How(reopens=True))


@few(1)
@given(drawn(stories(increments=2, jobs=True)))
def test_on_spark(story: Story) -> None:
    play(story, How(execution="spark", several="at once"))


@few(1)
@given(drawn(stories(increments=2, jobs=True)))
def test_on_spark_one_after_another(story: Story) -> None:
    play(story, How(execution="spark", several="in sequence"))


@pytest.mark.slow
@few(10)
@given(drawn(stories(increments=40)))
def test_many_changes(story: Story) -> None:
    """So many that runs are compacted on the way."""
    play(story, How())


@pytest.mark.slow
@few(10)
@given(drawn(stories(increments=5, jobs=True)))
def test_on_spark_longer(story: Story) -> None:
    play(story, How(execution="spark"))


@few(1)
@given(drawn(stories(("recompute", "auto"), increments=2)))
def test_recomputed_beside_maintained(story: Story) -> None:
    play(story, How())


@few(3)
@given(drawn(stories(increments=2)))
def test_the_interpreter_agrees(story: Story) -> None:
    play(story, How(interprets=True))


# --- all clauses, by seed ---------------------------------------------------------------------------------------

CASES = 200
CHUNK = 10
BASE = 0 if ORDINARY else random.SystemRandom().randrange(1 << 40)
"""The first seed: the same in an ordinary run, another in each round of `make fuzz`."""
PATIENCE = 60.0
"""So many seconds a failure is made smaller by its numbers, and then by its steps and rows."""


def clauses(pick: Pick) -> Story:
    """A story of which every view draws from all clauses that are maintained."""
    return Stories(pick, ("auto", "auto", "recursive", "first-order"), shapes=0).story(3)


def failure(story: Story, how: How) -> str:
    """The script of a story that fails; empty if it does not, or if DuckDB breaks on it."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(story, how, Path(folder) / "database", None)
        try:
            run.play()
        except duckdb.Error:
            return ""
        except AssertionError as e:
            return str(e)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_all_clauses(first: int) -> None:
    """Small changes need no Spark session, and none is given."""
    for seed in range(BASE + first, BASE + first + CHUNK):
        how = How(several=("auto", "in sequence", "at once")[seed % 3])
        picks: list[int] = []
        if not failure(clauses(seeded(seed, picks)), how):
            continue

        def fails(tried: Story, how: How = how) -> bool:
            return bool(failure(tried, how))

        smaller = clauses(repeated(shrunk(clauses, fails, picks, PATIENCE)))
        pytest.fail(f"seed {seed}: {failure(fewer(smaller, fails, PATIENCE), how)}")


@pytest.mark.slow
@few(20)
@given(drawn(clauses))
def test_all_clauses_drawn(story: Story) -> None:
    play(story, How())
