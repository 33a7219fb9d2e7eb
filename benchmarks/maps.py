"""Maps of bigint keys to a count and a sum, as large as asked, and the numpy model of them.

A map of n entries has the even keys 0, 2, ..., 2n - 2; odd keys are absent. An entry's values follow from
its key, so the model of a map of any size is a formula. Hashes are Spark's xxhash64 of a bigint, the ones
that the engine gives.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from headwater.state.arrangement import INDEX, Touched
from headwater.state.files import FileSystem
from headwater.state.keys import Bools, Ints
from headwater.state.run import MapSpec, RunRef
from headwater.state.writing import SEGMENT, Writer

SPEC = MapSpec(
    "counts",
    key=(("k", pa.int64()),),
    ring=(("n", pa.int64()), ("s", pa.int64())),
    lookup=("k",),
    kind="value",
)
Pair = tuple[Ints, Ints]
"""Counts and sums."""
ENTRY_BYTES = 32
ABSENT = 0.1
"""The share of keys asked for that the map does not have."""

P1, P2, P3, P4, P5 = (
    np.uint64(p)
    for p in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def xxhash64(keys: Ints) -> Ints:
    """Spark's `xxhash64` of a bigint column."""
    with np.errstate(over="ignore"):
        h = _rotated(keys.view(np.uint64) * P2, 31) * P1
        h ^= np.uint64(42 + 8) + P5
        h = _rotated(h, 27) * P1 + P4
        h = (h ^ (h >> np.uint64(33))) * P2
        h = (h ^ (h >> np.uint64(29))) * P3
        h ^= h >> np.uint64(32)
    return h.view(np.int64)


def _rotated(
    x: np.ndarray[tuple[int], np.dtype[np.uint64]], bits: int
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


# --- the model --------------------------------------------------------------------------------------------


def present(keys: Ints, entries: int) -> Bools:
    """Which keys a map of so many entries has."""
    return np.asarray((keys % 2 == 0) & (keys >= 0) & (keys < 2 * entries), np.bool_)


def values(keys: Ints, entries: int) -> Pair:
    """The count and the sum of each key; zeros where the map has none."""
    there = present(keys, entries)
    return np.where(there, 1 + keys % 3, 0), np.where(there, 7 * keys - 1000, 0)


def change(keys: Ints) -> Pair:
    """What the merges that are measured add to each key."""
    return np.ones(len(keys), np.int64), keys % 1000 - 500


def some_keys(rng: np.random.Generator, many: int, entries: int) -> Ints:
    """Different keys in random order, nine in ten of which the map has."""
    absent = int(many * ABSENT)
    there = 2 * rng.choice(entries, many - absent, replace=False, shuffle=False)
    missing = 2 * rng.choice(entries, absent, replace=False, shuffle=False) + 1
    return rng.permutation(np.concatenate([there, missing]).astype(np.int64))


def asked(keys: Ints) -> pa.Table:
    """Keys as a look-up takes them."""
    return pa.table({"_h": xxhash64(keys), "k": keys})


def changes(keys: Ints, n: Ints, s: Ints) -> pa.Table:
    """Changes as a merge takes them."""
    return pa.table({"_h": xxhash64(keys), "k": keys, "n": n, "s": s})


# --- the map ----------------------------------------------------------------------------------------------


def build(files: FileSystem, keys: Ints, n: Ints, s: Ints, generation: int = 1) -> RunRef:
    """One run with these entries, written as a bulk load would."""
    h = xxhash64(keys)
    order = np.argsort(h)

    def pieces() -> Iterator[pa.Table]:
        for start in range(0, len(order), SEGMENT):
            at = order[start : start + SEGMENT]
            yield pa.table([h[at], keys[at], n[at], s[at]], schema=SPEC.schema)

    writer = Writer(files, "bench")
    writer.add(SPEC, pieces(), (generation, 0))
    ((_, ref),) = writer.close()
    return ref


def one_run(files: FileSystem, entries: int) -> list[RunRef]:
    """A map in one run."""
    keys = 2 * np.arange(entries, dtype=np.int64)
    return [build(files, keys, *values(keys, entries))]


def many_runs(files: FileSystem, entries: int, runs: int) -> list[RunRef]:
    """A map in runs of like size: every run has its own keys, and the oldest also has stale values of
    half the keys of the newest, which a look-up must not see."""
    out = []
    for age in range(runs):
        keys = 2 * np.arange(age, entries, runs, dtype=np.int64)
        n, s = values(keys, entries)
        if age == runs - 1:
            stale = 2 * np.arange(0, entries, 2 * runs, dtype=np.int64)
            wrong = np.full(len(stale), 99, np.int64)
            keys, n, s = (np.concatenate(p) for p in ((keys, stale), (n, wrong), (s, -wrong)))
        out.append(build(files, keys, n, s, generation=runs - age))
    return out


# --- comparing --------------------------------------------------------------------------------------------


class WrongAnswer(Exception):
    """The map and its model differ, so that no time counts."""


def check_lookup(answer: pa.Table, keys: Ints, entries: int) -> None:
    """A look-up's answer is the model's."""
    order = np.argsort(_column(answer, INDEX))
    at = np.flatnonzero(present(keys, entries))
    n, s = values(keys[at], entries)
    for name, expected in ((INDEX, at), ("k", keys[at]), ("n", n), ("s", s)):
        same(name, _column(answer, name)[order], expected)


def check_merge(
    made: pa.Table | None, touched: Touched | None, keys: Ints, old: Pair, new: Pair
) -> None:
    """A merge's answer is the model's: counts and sums of the keys, before and after."""
    assert touched is not None
    order, at = np.argsort(keys), np.argsort(_column(touched.keys, "k"))
    same("k", _column(touched.keys, "k")[at], keys[order])
    for i, name in enumerate(("n", "s")):
        same(f"old {name}", _column(touched.old, name)[at], old[i][order])
        same(f"new {name}", _column(touched.new, name)[at], new[i][order])
        if made is not None:
            same(f"run {name}", _column(made, name)[at], new[i][order])


def same(what: str, found: Ints, expected: Ints) -> None:
    if not np.array_equal(found, expected):
        raise WrongAnswer(f"{what}: {len(found)} values found, and {len(expected)} others expected")


def _column(table: pa.Table, name: str) -> Ints:
    return np.asarray(table.column(name).to_numpy())
