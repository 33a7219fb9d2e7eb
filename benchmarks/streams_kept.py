"""What streams keep: marks by a pattern over many keys, many keys with states, and states and pending rows frame by frame."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import headwater as hw
import headwater.st as st
from benchmarks import streams_taxis as taxis
from benchmarks.report import timed
from benchmarks.streams_cases import Ints
from benchmarks.streams_played import place
from benchmarks.streams_taxis import HOUR, same

# --- marks ---------------------------------------------------------------------------------------------------------

TESTS = ("x > 50", "x < 50", "x > 60", "x < 40", "x > 70", "x < 30")
"""A value that goes up and down, further each time."""
MARKED = st.PartitionBy("k", st.Seq("a", "hit"))


def values(rows: int, keys: int) -> pa.Table:
    rng = np.random.default_rng(20)
    ts = np.arange(rows) * (HOUR // rows)
    k, x = rng.integers(0, keys, rows), rng.integers(0, 100, rows)
    return pa.table({"k": k, "ts": taxis.instants(ts), "x": x})


def hits(table: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The rows that end six of their key which hold one after another, by numpy."""
    k, x = (np.asarray(table.column(c)) for c in ("k", "x"))
    order = np.argsort(k, kind="stable")
    k, x = k[order], x[order]
    n, length = len(k), len(TESTS)
    holds = [x > 50, x < 50, x > 60, x < 40, x > 70, x < 30]
    ends = np.zeros(n, np.bool_)
    if n >= length:
        last = n - length + 1
        found = k[:last] == k[length - 1 :]
        for i, held in enumerate(holds):
            found &= held[i : i + last]
        ends[length - 1 :] = found
    marked = np.zeros(n, np.bool_)
    marked[order] = ends
    return marked


def marks(rows: int, keys: int, times: int) -> list[float]:
    """Seconds of commits that mark so many rows; what is told is compared once."""
    pattern: Any = st.when(TESTS[0])
    for test in TESTS[1:]:
        pattern = pattern + st.when(test)
    table, took = values(rows, keys), []
    for turn in range(times):
        with place() as home, hw.open(home / "db") as db:
            db.policy.execution = "driver"
            db.source(
                "a",
                "k BIGINT, ts TIMESTAMP, x BIGINT",
                closes="ts",
                append_only=True,
                retain=False,
            )
            step = st.lift("seq a", st.mark(pattern, "hit"))
            db.stream("marks", "k{seq a}", step, order="ts")
            over = {"a": hw.closed(ts=hw.below(taxis.instant(HOUR)))}
            seconds, _ = timed(partial(db.apply, {"a": table}, punctuate=over))
            took.append(seconds)
            if turn == 0:
                marked = hits(table)
                names = np.where(marked, "hit", "a").tolist()
                columns = [c.to_pylist() for c in table.columns]
                wanted = list(zip(names, zip(*columns, strict=True), strict=True))
                same("marks", MARKED, db["marks"], wanted)
    return took


# --- many keys with states -----------------------------------------------------------------------------------------


def many_keys(keys: int, rows: int, increments: int, skip: int) -> tuple[list[float], float]:
    """Seconds of increments over keys that all have a state, and of the load that gave them one."""
    rng = np.random.default_rng(21)
    touched = rng.integers(0, keys, rows * (increments + skip))
    gps = taxis.fixes(np.concatenate((rng.permutation(keys), touched)), 20 * HOUR)
    took = []

    def apply(db: hw.Database, part: pa.Table) -> float:
        end = taxis.instant(int(taxis.numbers(part)[-1]) + 1)
        over = {"gps": hw.closed(ts=hw.below(end))}
        return timed(partial(db.apply, {"gps": part}, punctuate=over))[0]

    with place() as home, taxis.alone(home / "db") as db:
        db.policy.execution = "driver"
        each = max(keys // 10, 1)
        load = sum(apply(db, gps.slice(i, min(each, keys - i))) for i in range(0, keys, each))
        assert db._writer is not None
        db._writer.wait()
        for i in range(increments + skip):
            took.append(apply(db, gps.slice(keys + i * rows, rows)))
        wanted, states = taxis.driven(gps, by_hour=False)
        same("many keys", taxis.TOLD_ALONE, db["drives"], wanted)
        for key in [*touched[:10].tolist(), *range(10)]:
            found = db["drives"].state(key)[0]
            if tuple(found) != states[0][key]:
                raise AssertionError(f"the state of {key} is {found}, not {states[0][key]}")
    return took[skip:], load


# --- frame by frame ------------------------------------------------------------------------------------------------


@dataclass
class Kept:
    """What a stream has after each increment."""

    states: list[int]
    pending: list[int]
    bytes: list[int]
    seconds: list[float]

    def over(self, values: list[int], frame: int, each: int, few: int) -> float:
        """What there was on average over the few frames up to one."""
        return float(np.mean(values[(frame - few) * each : frame * each]))


LATE = HOUR // 6
"""Microseconds by which a fix may come late."""
DELAY = "20 minutes"


def late(table: pa.Table, seed: int) -> tuple[pa.Table, Ints]:
    """Rows as they come, up to ten minutes late, and when."""
    when = taxis.numbers(table)
    comes = when + np.random.default_rng(seed).integers(0, LATE, len(when))
    order = np.argsort(comes, kind="stable")
    return table.take(pa.array(order)), comes[order]


def frames(count: int, rows: int, each: int, many: int) -> Kept:
    """The pipeline of rates over so many hours of so many fixes, in so many increments an hour."""
    span = count * HOUR
    gps = taxis.fixes(taxis.some(count * rows, many), span)
    taken = taxis.rides(count * max(rows // 50, 1), many, span)
    (fixes, when), (paid, paid_when) = late(gps, 22), late(taken, 23)
    cuts = np.arange(1, count * each + 1) * (HOUR // each)
    kept = Kept([], [], [], [])
    with place() as home, taxis.rates(home / "db", hw.watermark("ts", DELAY)) as db:
        start, first = 0, 0
        for cut in cuts:
            stop, last = np.searchsorted(when, cut), np.searchsorted(paid_when, cut)
            change = {
                "gps": fixes.slice(start, stop - start),
                "rides": paid.slice(first, last - first),
            }
            seconds, commit = timed(partial(db.apply, change))
            if commit.late:
                raise AssertionError(f"rows were late: {commit.late}")
            kept.seconds.append(seconds)
            _count(db, kept)
            start, first = int(stop), int(last)
        rest = {"gps": fixes.slice(start), "rides": paid.slice(first)}
        over = hw.closed(ts=hw.below(taxis.instant(span)))
        db.apply(rest, punctuate={"gps": over, "rides": over})
        same("frame by frame", taxis.TOLD, db["rates"], taxis.rated(gps, taken, count))
    return kept


def _count(db: hw.Database, kept: Kept) -> None:
    """Notes the entries and the bytes of the stream's maps; what it has told is not among them."""
    snapshot, fold = db.store.at(), db["rates"]._fold()
    states = fold.layout.specs
    pending = [fold.pending(h) for h in fold.inputs]
    live = [
        sum(
            int((np.asarray(t.column("r0")) != 0).sum())
            for spec in specs
            for t in snapshot.arrangement(spec.name).scan()
        )
        for specs in (states, pending)
    ]
    kept.states.append(live[0])
    kept.pending.append(live[1])
    maps = snapshot.version.maps
    names = [spec.name for spec in (*states, *pending)]
    kept.bytes.append(sum(r.size for n in names for r in maps[n][1]))
