"""Peak anonymous memory of a call, in a fresh process.

Mapped files count in a process's resident memory although the system can drop them at any time; what a call
really takes is `RssAnon`. A child process starts from nothing, prepares, and waits; while it makes the call,
its parent reads the child's `RssAnon` as fast as it can, from another core and without its interpreter lock.
The call is made several times, so that a short peak is not missed; memory that earlier calls left with the
allocator stays in the figure. The figure is good to a megabyte or so: the system counts pages roughly, and
what the allocator had at hand before the call is not seen.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

CALLS = 10


def peak_of(
    prepare: Callable[..., Callable[[], object]], *given: Any, calls: int = CALLS
) -> tuple[int, int, int]:
    """`RssAnon` in bytes before `prepare(*given)()` and at its peak, and how often it was read."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=_child, args=(there, prepare, given, calls), daemon=True)
    child.start()
    there.close()
    assert child.pid is not None
    try:
        here.recv()
        before = peak = anonymous(child.pid)
        reads = 0
        here.send("go")
        while not here.poll():
            peak = max(peak, anonymous(child.pid))
            reads += 1
        here.recv()  # EOFError if the child died
    finally:
        here.close()
        child.join()
    return before, peak, reads


def _child(
    pipe: Connection, prepare: Callable[..., Callable[[], object]], given: Any, calls: int
) -> None:
    call = prepare(*given)
    pipe.send("ready")
    pipe.recv()
    for _ in range(calls):
        call()
    pipe.send("done")


def anonymous(pid: int) -> int:
    """The `RssAnon` of a process, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0  # a process that has ended has no memory
