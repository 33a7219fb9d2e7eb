"""Work without Python's search for cycles, which takes the longer the more objects a process has.

Neither an increment nor an epoch makes cycles. What they hold until their commit makes Python look through all objects all the
same, now and then in the middle of it: the rows of an epoch, which took up to two thirds of its time so, and with 300 views, whose
maps have many objects, a fifth of a small increment. Large increments are left as they are: the time is elsewhere there, and memory matters.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

FEW = 10_000
"""Rows of an increment that is short enough."""


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Carries something through without the search; it goes on afterwards, if it did before."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def undisturbed(rows: int) -> contextlib.AbstractContextManager[None]:
    """The same for a change of so many rows, if these are few."""
    return uncollected() if rows <= FEW else contextlib.nullcontext()
