"""Random nested views over random nested sources: the engine, the interpreter and plain Python agree.

A story (see `nested_stories`) is drawn by a seed: sources with arrays to a depth of three, comprehensions over them and over
each other, changes of whole rows and of inner ones. A view is its own oracle: its function run on lists. The first tests
compare what the reader and the rules make of it, the others play the story on a database after every step. A failure is
made smaller and printed as a script that repeats it. `make fuzz PART=nested` goes on with other seeds.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from nested_stories import Apply, Define, Drop, Model, Stories, Story, checked, script, without
from nested_stories_played import Run
from random_comprehensions import Features
from random_values import Pick
from shrinking import repeated, seeded, shrunk
from spark_session import session

pytestmark = pytest.mark.property

PROFILE = settings.default
assert PROFILE is not None
ORDINARY = PROFILE is settings.get_profile("default")
BASE = 0 if ORDINARY else random.SystemRandom().randrange(1 << 40)
"""The first seed: the same in an ordinary run, another in each round of `make fuzz`."""
PATIENCE = 60.0
"""So many seconds a failure is made smaller by its numbers, and then by its steps and rows."""
STRATEGIES = ("auto", "recursive", "first-order")
SEVERAL = ("auto", "in sequence", "at once")
MOST_REFUSED = 0.25
"""More of the views are not refused."""


def seeds(count: int) -> range:
    """So many seeds in an ordinary run; a share of the examples that were asked for when fuzzing."""
    assert PROFILE is not None
    return range(BASE, BASE + (count if ORDINARY else PROFILE.max_examples * count // 100))


def drawn(features: Features, increments: int = 4) -> Callable[[Pick], Story]:
    return lambda pick: Stories(pick, features, STRATEGIES).story(increments)


def smallest(
    make: Callable[[Pick], Story], picks: list[int], failure: Callable[[Story], str]
) -> str:
    """What fails of a case that was made smaller."""
    kind = _kind(failure(make(repeated(picks))))

    def fails(story: Story) -> bool:
        return _kind(failure(story)) == kind

    story = make(repeated(shrunk(make, fails, picks, PATIENCE)))
    end, again = time.monotonic() + PATIENCE, True
    while again and time.monotonic() < end:
        again = False
        for tried in without(story):
            if fails(tried):
                story, again = tried, True
                break
    return failure(story)


def _kind(said: str) -> str:
    """The error that a failure ends in: a smaller case must not fail by another."""
    last = said.rsplit("\n# ", said.count("\n# and not") + 1)[1:]
    parts = last[0].split(":") if last else []
    return ":".join(parts[: 2 if "Assertion" in parts[0] else 1]) if parts else ""


# --- the reader and the rules -----------------------------------------------------------------------------------


def disagreement(story: Story) -> str:
    """How the function of a view, its term, its normal and its shredded form differ; empty if they do not."""
    try:
        model = Model(story)
        for step in story.steps:
            match step:
                case Define():
                    model.define(step)
                case Apply():
                    model.apply(step)
                case Drop():
                    pass
            checked(model)
    except (ValueError, KeyError):  # a smaller story may delete what is not there
        return ""
    except Exception as e:
        return "\n".join([*script(story), f"# {type(e).__name__}: {e}"])
    return ""


def agree(count: int) -> None:
    make = drawn(Features(), increments=2)
    for seed in seeds(count):
        picks: list[int] = []
        if disagreement(make(seeded(seed, picks))):
            pytest.fail(f"seed {seed}:\n{smallest(make, picks, disagreement)}")


def test_function_term_and_rules_agree() -> None:
    agree(30)


@pytest.mark.slow
def test_function_term_and_rules_agree_longer() -> None:
    agree(600)


# --- the engine -------------------------------------------------------------------------------------------------


def played(story: Story, several: str, spark: Any = None) -> Run | str:
    """The run of a story, or the script of one that fails."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(story, Path(folder) / "database", several, spark)
        try:
            run.play()
        except AssertionError as e:
            return str(e)
    return run


def play(features: Features, count: int, increments: int = 4) -> None:
    """Stories by seed; few of their views are refused."""
    make = drawn(features, increments)
    views, refused = 0, []
    for seed in seeds(count):
        picks: list[int] = []
        several = SEVERAL[seed % 3]
        story = make(seeded(seed, picks))
        run = played(story, several)
        if isinstance(run, str):

            def failure(story: Story, several: str = several) -> str:
                again: Any = played(story, several)
                return again if isinstance(again, str) else ""

            pytest.fail(f"seed {seed}, {several}:\n{smallest(make, picks, failure)}")
        views += len(story.views)
        refused += run.refused
    print(f"{len(refused)} of {views} views refused", *sorted(refused), sep="\n")
    assert len(refused) <= MOST_REFUSED * views, f"{len(refused)} of {views}: {refused}"


FLAT = Features(nested=False, deep=False)
WHOLE = Features(deep=False)
DEEP = Features()


@pytest.mark.parametrize("features", [FLAT, DEEP], ids=["flat sources", "nested sources"])
def test_small_views_of(features: Features) -> None:
    play(replace(features, atoms=3), 4, increments=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "features", [FLAT, WHOLE, DEEP], ids=["flat sources", "whole rows", "nested sources"]
)
def test_views_of(features: Features) -> None:
    play(features, 100)


@pytest.mark.slow
@pytest.mark.spark
def test_on_spark() -> None:
    make = drawn(replace(DEEP, atoms=3), increments=2)
    for seed in seeds(6):
        run = played(make(seeded(seed, [])), SEVERAL[seed % 3], session())
        assert isinstance(run, Run), f"seed {seed}, on Spark:\n{run}"
