"""The differ over two long streams that are the same, each shuffled within its frames: seconds, and memory.

Streams are read as they come, so that what is held is what is unmatched. Its memory is that of a process of its own in which both
streams are made frame by frame, beside the same for one frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import headwater.st as st
from benchmarks.memory import peak_of
from benchmarks.report import timed
from headwater.streams.differ import differ

SCHEMA = st.Sync("tick", st.Bag("bid"))
HEADERS = {
    "tick": st.Header("tick", st.fields("n BIGINT")),
    "bid": st.Header("bid", st.fields("auction BIGINT, bidder BIGINT, price BIGINT")),
}


def events(frames: int, rows: int, side: int, other: int = -1) -> Iterator[st.Event]:
    """Frames with a mark behind each; the two sides have their rows in different orders. A row of frame `other` is another one."""
    for frame in range(frames):
        values = np.random.default_rng(frame).integers(0, 1_000_000, (rows, 3))
        if frame == other:
            values[0, 2] += 1
        shuffled = np.random.default_rng((frame, side)).permutation(values).tolist()
        for row in shuffled:
            yield st.Event("bid", tuple(row))
        yield st.Event("tick", (frame,))


def seconds(frames: int, rows: int, times: int) -> list[float]:
    """Seconds of comparing two streams that are there; a row that is another one is found."""
    left, right = list(events(frames, rows, 0)), list(events(frames, rows, 1))
    took = []
    for _ in range(times):
        s, found = timed(lambda: differ(SCHEMA, HEADERS, left, right))
        if found is not None:
            raise AssertionError(f"the same stream twice: {found}")
        took.append(s)
    found = differ(SCHEMA, HEADERS, left, events(frames, rows, 1, other=frames - 1))
    if found is None or found.frame != (st.Event("tick", (frames - 2,)),):
        raise AssertionError(f"a row of the last frame is another one, and the differ said {found}")
    return took


def comparing(frames: int, rows: int) -> Callable[[], object]:
    """A call that compares two streams which are made while they are read."""
    return lambda: differ(SCHEMA, HEADERS, events(frames, rows, 0), events(frames, rows, 1))


def memory(frames: int, rows: int) -> tuple[int, int]:
    """Bytes that comparing takes at its peak: of so many frames, and of one."""
    long, one = (peak_of(comparing, n, rows, calls=c) for n, c in ((frames, 1), (1, 3)))
    return long[1] - long[0], one[1] - one[0]
