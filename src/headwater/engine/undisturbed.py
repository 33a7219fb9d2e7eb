"""Small increments without Python's search for cycles, which takes the longer the more objects a process has.

An increment makes no cycles. What it holds until its commit makes Python look through all objects all the same, those of every
map and of whoever uses this library, now and then in the middle of it: with 300 views a fifth of the time. Large increments
are left as they are, for there the time is elsewhere, and memory matters.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

FEW = 10_000
"""Rows of an increment that is short enough."""


@contextlib.contextmanager
def undisturbed(rows: int) -> Iterator[None]:
    """Carries something through for a change of so many rows; the search goes on afterwards, if it did before."""
    if rows > FEW or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
