"""Finding hashes in a run: binary search that touches little memory, whatever the size of the run.

A run's hashes are sorted over all of its segments. Every 4,096th is kept in memory as a *fence*; a hash is
looked for among the fences, which stay in the processor's cache, and then inside one block. Hashes are spread evenly, so
that where one lies between two fences says where it is, give or take some rows, and what is found there says it better:
two looks, and a bisection of a few rows that lie together. Hashes that are not there, because many rows have one hash, are
bisected in the whole block. Rows are numbered through the whole run, and since a run is one stretch of a file,
its hashes are addressed as words of that stretch, across segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from headwater.state.keys import Ints

Floats = np.ndarray[Any, np.dtype[np.float64]]

BLOCK = 4096
WINDOW = 32
"""Rows around the place where a hash should be, that are bisected first."""
DENSE = 32
"""If there is a key for every 32 rows, or more keys, going through the run in order is faster than jumping."""
FEW = 256
"""Keys that are bisected one by one in a run of one part: few touch little memory anyhow."""
SMALL = 1 << 16
"""Rows of a run of one part that are searched as they are: its hashes stay near the processor."""
NEAR = 1 << 31
"""Keys times rows of a run of one part, up to which numpy's own bisection is faster: 2,048 keys among a million rows."""


class Across:
    """64-bit numbers in several parts of one stretch of memory, numbered through: one array of words, and where in it each part is.

    It begins with the part that lies first, and the others lie behind it.
    """

    def __init__(self, parts: Sequence[Ints]):
        at = [p.__array_interface__["data"][0] for p in parts]
        base = min(at, default=0)
        ends = [(a - base) // 8 + len(p) for a, p in zip(at, parts, strict=True)]
        firsts = accumulate([len(p) for p in parts], initial=0)
        places = [(a - base) // 8 - first for a, first in zip(at, firsts, strict=False)]
        self.shift = np.array(places, np.int64)
        self.words: Any = _words(base, max(ends, default=0))

    def at(self, rows: Ints, part: Ints) -> Ints:
        """The numbers of some rows, of which it is known in which part each is."""
        found: Ints = self.words[rows + self.shift[part]]
        return found


class Hashes:
    """The hashes of a run, in ascending order, as parts that follow each other."""

    def __init__(self, parts: list[Ints]):
        self.parts = [p for p in parts if len(p)]
        lengths = [len(p) for p in self.parts]
        self.starts = np.array([0, *accumulate(lengths)], np.int64)
        self.rows = sum(lengths)
        if len(self.parts) != 1 or self.rows > SMALL:
            self._build(lengths)

    def _build(self, lengths: list[int]) -> None:
        """The words and fences that a run of one small part does without."""
        self.across = Across(self.parts)
        self.words, self.shift = self.across.words, self.across.shift
        blocks = [
            np.arange(start, start + n, BLOCK, dtype=np.int64)
            for start, n in zip(self.starts, lengths, strict=False)
        ]
        self.block_starts = np.concatenate([*blocks, [self.rows]]).astype(np.int64)
        owner = np.repeat(np.arange(len(blocks)), [len(b) for b in blocks])
        self.block_shift = self.shift[owner] if len(owner) else np.zeros(0, np.int64)
        self.fences = self.words[self.block_starts[:-1] + self.block_shift]
        final = [p[-1] for p in self.parts[-1:]]
        apart = np.append(self.fences[1:], final).astype(np.float64) - self.fences
        self.rates = np.diff(self.block_starts) / np.where(apart > 0, apart, np.inf)
        """How many rows there are for one step of a hash, block by block."""

    def _plain(self, wanted: Ints) -> bool:
        """Whether numpy's own bisection will do."""
        few = len(wanted) <= FEW or len(wanted) * self.rows <= NEAR
        return len(self.parts) == 1 and few

    def at(self, rows: Ints) -> Ints:
        """The hashes of some rows."""
        if len(self.parts) == 1:
            mine: Ints = self.parts[0][rows]
            return mine
        return self.across.at(rows, self.part_of(rows))

    def part_of(self, rows: Ints) -> Ints:
        """In which part each of some rows is."""
        found: Ints = np.searchsorted(self.starts, rows, "right") - 1
        return found

    def first(self, wanted: Ints) -> Ints:
        """For ascending hashes, the first row that is not before each; the number of rows if none is."""
        if not self.rows:
            return np.zeros(len(wanted), np.int64)
        if self._plain(wanted):
            found: Ints = self.parts[0].searchsorted(wanted, "left")
            return found
        if len(wanted) * DENSE > self.rows:
            return self._walk(wanted)
        block = np.maximum(np.searchsorted(self.fences, wanted, "left") - 1, 0)
        start, last = self.block_starts[block], self.block_starts[block + 1] - 1
        shift, rate = self.block_shift[block], self.rates[block]
        as_float = wanted.astype(np.float64)
        near = np.clip(start + _rows(as_float - self.fences[block], rate), start, last)
        near += _rows(as_float - self.words[near + shift], rate)
        from_ = np.clip(near - WINDOW // 2, start, np.maximum(start, last + 1 - WINDOW))
        found = self._bisected(wanted, from_, last, shift, WINDOW)
        missed = (found == from_) & (found > start)
        missed |= (found == from_ + WINDOW) & (found <= last)
        if missed.any():
            some = np.flatnonzero(missed)
            found[some] = self._bisected(wanted[some], start[some], last[some], shift[some], BLOCK)
        return found

    def _bisected(self, wanted: Ints, low: Ints, last: Ints, shift: Ints, width: int) -> Ints:
        """The first row that is not before each hash among `width` rows from `low` on, none of them behind `last`.

        All keys step together, and none is asked whether it is done. A row behind the last is taken for the last one, so
        that it is passed only where that is before the hash.
        """
        low = low.copy()
        step = (1 << (width - 1).bit_length()) >> 1
        while step:
            before = self.words[np.minimum(low + (step - 1), last) + shift] < wanted
            low += before * step
            step >>= 1
        low += self.words[np.minimum(low, last) + shift] < wanted
        return np.minimum(low, last + 1)

    def _walk(self, wanted: Ints) -> Ints:
        """The same, part by part, each with the hashes that can be in it."""
        out = np.full(len(wanted), self.rows, np.int64)
        done = 0
        for start, part in zip(self.starts, self.parts, strict=False):
            upto = int(np.searchsorted(wanted, part[-1], "right"))
            if upto > done:
                out[done:upto] = start + np.searchsorted(part, wanted[done:upto], "left")
                done = upto
        return out

    def ranges(self, wanted: Ints) -> tuple[Ints, Ints]:
        """For ascending hashes: (first row, number of rows) of each."""
        if len(wanted) <= FEW and len(self.parts) == 1:
            low, high = (self.parts[0].searchsorted(wanted, side) for side in ("left", "right"))
            return low, high - low
        first = self.first(wanted)
        if not self.rows:
            return first, np.zeros(len(wanted), np.int64)
        last = self.rows - 1
        found = self.at(np.minimum(first, last)) == wanted
        counts = found.astype(np.int64)
        places = found.nonzero()[0]
        after = first[places] + 1
        more = (self.at(np.minimum(after, last)) == wanted[places]) & (after <= last)
        several = places[
            more
        ]  # few hashes have several rows: only those are searched for their end
        if len(several):
            end = np.full(len(several), self.rows, np.int64)
            less = wanted[several] < np.iinfo(np.int64).max
            end[less] = self.first(wanted[several][less] + 1)
            counts[several] = end - first[several]
        return first, counts


def _rows(distance: Floats, rate: Floats) -> Ints:
    """About how many rows lie between hashes of some distance, at most those of a block."""
    return np.clip(distance * rate, -BLOCK, BLOCK).astype(np.int64)


def _words(address: int, count: int) -> Ints:
    """Memory as 64-bit words; what keeps it alive is the run that the hashes belong to."""
    holder = type("Words", (), {})()
    holder.__array_interface__ = {
        "data": (address, True),
        "shape": (count,),
        "typestr": "<i8",
        "version": 3,
    }
    return np.asarray(holder) if count else np.zeros(0, np.int64)
