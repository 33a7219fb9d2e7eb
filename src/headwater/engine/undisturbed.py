"""Work that its surroundings do not disturb: in memory that is used again, and few rows without Python's search for cycles.

Neither an increment nor an epoch makes cycles. What they hold until their commit makes Python look through all objects all the
same, now and then in the middle of it: the rows of an epoch, which took up to two thirds of its time so, and with 300 views, whose
maps have many objects, a fifth of a small increment. Larger increments are left as they are: the time is elsewhere there, and memory matters.

An increment takes and leaves arrays of some megabytes all the time. The system makes each page of new memory when it is first
touched, which was a third of the processor's time where allocators gave arrays back as soon as they were free. So while an increment
runs Arrow takes its memory from the C library, as numpy does, and the C library keeps what is free.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from collections.abc import Iterator
from functools import cache

import pyarrow as pa

FEW = 10_000
"""Rows of an increment that is short enough to go without the search for cycles."""
SOME = 1_000
"""Rows from which on arrays are so large that it matters: for smaller ones Arrow's own allocator is the faster one."""
KEPT, LARGEST = 256 << 20, 32 << 20
"""Bytes of free memory that the C library keeps, and of the largest arrays that it takes from there: it allows no more for these."""
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""What glibc calls them."""


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


@contextlib.contextmanager
def reusing() -> Iterator[None]:
    """Carries something through in memory of the C library's.

    Others that allocate meanwhile do it there too, which they do not notice: arrays go back to where they came from.
    """
    _keep_memory()
    before = pa.default_memory_pool()
    if before.backend_name == "system":
        yield
        return
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


@cache
def _keep_memory() -> None:
    """Tells the C library to keep some free memory, where it is glibc's and nobody has told it otherwise."""
    if any(n.startswith("MALLOC_") for n in os.environ) or "GLIBC_TUNABLES" in os.environ:
        return
    with contextlib.suppress(OSError, AttributeError):  # other libraries have no such thing
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(MMAP_THRESHOLD, LARGEST)
        mallopt(TRIM_THRESHOLD, KEPT)


@contextlib.contextmanager
def undisturbed(rows: int) -> Iterator[None]:
    """Carries a change of so many rows through."""
    plain = contextlib.nullcontext
    with reusing() if rows >= SOME else plain(), uncollected() if rows <= FEW else plain():
        yield
