"""Cases by seed, and smaller ones that fail too.

A case is what a generator makes of numbers that it asks for, `pick(n)`. They are recorded, so that a case that fails
can be made again of fewer and smaller numbers; the smallest that still fails is kept. Hypothesis does this better, but
takes a test for it; this serves where a seed is to give the same case for ever.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from values import Pick

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
