"""A map in which one look-up key has most of the entries, and whose runs overlap: read, cut, divided, compacted.

Tasks that divide a heavy key write runs of one generation that overlap, and may even have the same entries. Here such
runs are made at random, and all ways of reading are compared with a dict.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.state import compaction
from headwater.state.arrangement import INDEX, Arrangement, TooMany, stretch
from headwater.state.ends import first_k, last_k
from headwater.state.hashing import hash_keys
from headwater.state.positions import from_position
from headwater.state.run import LEAST, MOST, MapSpec, Order, RunRef, Runs
from headwater.state.writing import Writer
from test_keys import Memory

INT = pa.int64()
SPEC = MapSpec("m", (("k", INT), ("o", INT)), (("n", INT),), ("k",), order=(Order("o"),))
Entry = tuple[int, int, int]

entries = st.lists(
    st.tuples(st.sampled_from((0, 0, 0, 0, 1, 2)), st.integers(0, 9), st.sampled_from((-1, 1, 1))),
    min_size=1,
    max_size=30,
)
written = st.lists(st.tuples(st.integers(1, 3), entries), min_size=1, max_size=6)
"""Runs: a generation, and what is in it."""


def table(rows: list[Entry]) -> pa.Table:
    k, o, n = (pa.array([r[i] for r in rows], INT) for i in range(3))
    return pa.table({"_h": pa.array(hash_keys([k], len(rows))), "k": k, "o": o, "n": n})


def arranged(files: Any, given: list[tuple[int, list[Entry]]]) -> Arrangement:
    """Each list of entries as a run, as a task of that generation would write it."""
    refs: list[RunRef] = []
    for generation, rows in given:
        made, _ = Arrangement(SPEC, (), Runs(files)).merge(table(rows), blind=True)
        writer = Writer(files, "run")
        writer.add(SPEC, [made], (generation, 0))
        refs += [ref for _, ref in writer.close()]
    return Arrangement(SPEC, refs, Runs(files))


def meant(given: list[tuple[int, list[Entry]]]) -> dict[tuple[int, int], int]:
    out: Counter[tuple[int, int]] = Counter()
    for _, rows in given:
        for k, o, n in rows:
            out[k, o] += n
    return {key: n for key, n in out.items() if n}


def read(found: pa.Table) -> list[tuple[tuple[int, int], int]]:
    return [((r["k"], r["o"]), r["n"]) for r in found.to_pylist()]


def keys(*values: int) -> pa.Table:
    k = pa.array(values, INT)
    return pa.table({"_h": pa.array(hash_keys([k], len(values))), "k": k})


@pytest.mark.property
@settings(max_examples=settings().max_examples // 4)
@given(written, st.integers(1, 4))
def test_overlapping_runs_of_a_generation_are_added_up(
    given: list[tuple[int, list[Entry]]], times: int
) -> None:
    at, expected = arranged(Memory(), given), meant(given)
    assert sorted(read(at.lookup(keys(0, 1, 2)))) == sorted(expected.items())
    linear: Counter[tuple[int, int]] = Counter()
    for i in range(times):
        for key, n in read(at.lookup(keys(0, 1, 2), linear=True, share=(i, times))):
            linear[key] += n
    assert {key: n for key, n in linear.items() if n} == expected
    for rows in (1, 5, 100):
        found = [e for t in at.scan(rows=rows) for e in read(t)]
        assert sorted(found) == sorted(expected.items())
    shares = [[e for t in at.scan(rows=7, share=(i, times)) for e in read(t)] for i in range(times)]
    assert sorted(e for s in shares for e in s) == sorted(expected.items())


@pytest.mark.property
@settings(max_examples=settings().max_examples // 4)
@given(written)
def test_the_first_and_last_of_a_group_in_overlapping_runs(
    given: list[tuple[int, list[Entry]]],
) -> None:
    at = arranged(Memory(), given)
    group = sorted((o, n) for (k, o), n in meant(given).items() if k == 0)
    if any(n < 0 for _, n in group):
        return  # a bag has no such entries when an increment is done
    first, last = first_k(at, keys(0), 1), last_k(at, keys(0), 1)
    assert first.column("o").to_pylist()[:1] == [o for o, _ in group[:1]]
    assert last.column("o").to_pylist()[:1] == [o for o, _ in group[-1:]]
    behind = from_position(at, keys(0), pa.table({"o": pa.array([4], INT)}))
    assert list(zip(behind["o"].to_pylist(), behind["n"].to_pylist(), strict=True)) == [
        (o, n) for o, n in group if o >= 4
    ]


@pytest.mark.property
@settings(max_examples=settings().max_examples // 4)
@given(written)
def test_overlapping_runs_become_one(given: list[tuple[int, list[Entry]]]) -> None:
    files = Memory()
    at = arranged(files, given)
    if not at.refs:
        return
    writer = Writer(files, "compact")
    compaction.compact(at, at.refs, writer)
    one = Arrangement(SPEC, [ref for _, ref in writer.close()], Runs(files))
    assert len(one.refs) <= 1
    assert [e for t in one.scan() for e in read(t)] == [e for t in at.scan() for e in read(t)]
    assert sorted(e for t in one.scan() for e in read(t)) == sorted(meant(given).items())


@pytest.fixture
def heavy() -> Arrangement:
    """Three runs that overlap, in which one key has nine of ten entries."""
    rng = np.random.default_rng(0)
    given = []
    for run in range(3):
        k = np.where(rng.random(4000) < 0.9, 7, rng.integers(0, 500, 4000))
        o = np.arange(4000) * 3 + run
        given.append((1, [(int(a), int(b), 1) for a, b in zip(k, o, strict=True)]))
    return arranged(Memory(), given)


def test_ranges_are_cut_by_their_entries(heavy: Arrangement) -> None:
    cuts = list(heavy.pieces(rows=300))
    assert cuts[0][0] == LEAST and cuts[-1][1] == MOST
    assert all(a[1] == b[0] for a, b in pairwise(cuts))
    sizes = [heavy.size(a, b) for a, b in cuts]
    (h,) = hash_keys([pa.array([7], INT)], 1)
    assert (int(h), int(h) + 1) in cuts
    assert sum(sizes) == sum(r.rows for r in heavy.refs)
    light = [n for n, (a, _) in zip(sizes, cuts, strict=True) if a != int(h)]
    assert max(light) < 2 * 300 and len(light) <= 8


def test_a_single_hash_is_divided_by_whole_keys(heavy: Arrangement) -> None:
    (h,) = hash_keys([pa.array([7], INT)], 1)
    low = int(h)
    shares = [
        [e for t in heavy.scan(low, low + 1, share=(i, 4)) for e in read(t)] for i in range(4)
    ]
    sizes = [len(s) for s in shares]
    assert sum(sizes) == heavy.size(low, low + 1) and max(sizes) < 1.2 * min(sizes)


def test_a_look_up_counts_and_refuses_what_is_too_much(heavy: Arrangement) -> None:
    both = keys(7, 3)
    counts = heavy.count(np.asarray(both["_h"]))
    assert counts.tolist() == [heavy.lookup(keys(k), linear=True).num_rows for k in (7, 3)]
    assert heavy.lookup(both, linear=True, most=int(counts.sum())).num_rows == counts.sum()
    with pytest.raises(TooMany):
        heavy.lookup(both, linear=True, most=int(counts.sum()) - 1)
    # A share of it may be allowed where the whole is not.
    third = heavy.lookup(both, linear=True, share=(1, 3), most=int(counts.sum()) // 2)
    assert abs(third.num_rows - counts.sum() / 3) < 5
    assert third.column(INDEX).to_pylist().count(0) > 0


@pytest.mark.property
@given(st.integers(0, 1000), st.integers(1, 9), st.integers(0, 8))
def test_a_share_is_its_two_halves(rows: int, times: int, which: int) -> None:
    share = stretch(rows, (which % times, times))
    i = which % times
    first, second = stretch(rows, (2 * i, 2 * times)), stretch(rows, (2 * i + 1, 2 * times))
    assert (first.start, first.stop, second.stop) == (share.start, second.start, share.stop)
