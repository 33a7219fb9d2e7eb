"""Cases by seed, and smaller ones that fail too.

A case is what a generator makes of numbers that it asks for, `pick(n)`. They are recorded, so that a case that fails
can be made again of fewer and smaller numbers, and the smallest that still fails is kept; then steps and rows are left
out of the story. Hypothesis does the first better, but this serves where a seed is to give the same case for ever.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from random_values import Pick
from view_stories import Apply, Story

T = TypeVar("T")


def seeded(seed: int, picks: list[int]) -> Pick:
    """Random numbers by a seed, recorded."""
    source = random.Random(seed)

    def pick(n: int) -> int:
        picks.append(source.randrange(n) if n > 1 else 0)
        return picks[-1]

    return pick


def repeated(picks: Sequence[int]) -> Pick:
    """The numbers given, made to fit, then zeros."""
    rest = iter(picks)
    return lambda n: min(next(rest, 0), n - 1)


def shrunk(
    make: Callable[[Pick], T], fails: Callable[[T], bool], picks: Sequence[int], seconds: float
) -> list[int]:
    """Numbers of a smaller case that fails, found in the time given: spans left out, then numbers made 0."""
    best, end = list(picks), time.monotonic() + seconds

    def smaller(tried: list[int]) -> bool:
        nonlocal best
        if time.monotonic() > end or tried == best:
            return False
        try:
            worse = fails(make(repeated(tried)))
        except Exception:  # the generator itself cannot use these numbers
            return False
        if worse:
            best = tried
        return worse

    while time.monotonic() < end:
        before = list(best)
        size = max(1, len(best) // 2)
        while size:
            at = 0
            while at < len(best):
                if not smaller([*best[:at], *best[at + size :]]):
                    zeros = [0] * len(best[at : at + size])
                    smaller([*best[:at], *zeros, *best[at + size :]])
                    at += size
            size //= 2
        if best == before:
            break
    while best and best[-1] == 0:
        best.pop()
    return best


def fewer(story: Story, fails: Callable[[Story], bool], seconds: float) -> Story:
    """A story that fails with fewer steps and fewer rows, found in the time given."""
    end = time.monotonic() + seconds
    again = True
    while again and time.monotonic() < end:
        again = False
        for tried in _without(story):
            if time.monotonic() > end:
                break
            if fails(tried):
                story, again = tried, True
                break
    return story


def _without(story: Story) -> Iterator[Story]:
    """The story without a step, without half of the rows of a change, or without one of its rows."""
    for i, step in enumerate(story.steps):
        rest = [*story.steps[:i], *story.steps[i + 1 :]]
        yield replace(story, steps=rest)
        if not isinstance(step, Apply):
            continue
        for name, rows in step.changes.items():
            spans = [(0, len(rows))]
            if len(rows) > 2:
                spans += [(0, len(rows) // 2), (len(rows) // 2, len(rows))]
            for a, b in (*spans, *((j, j + 1) for j in range(len(rows)))):
                kept = {**step.changes, name: [*rows[:a], *rows[b:]]}
                less = Apply({n: c for n, c in kept.items() if c}, step.form)
                yield replace(story, steps=[*story.steps[:i], less, *story.steps[i + 1 :]])
