"""Streams in order: folds by key, marks by patterns, what they keep, and Structured Streaming with the same folds.

The second half of `streams`. What every stream has told is compared by the differ, with a plain program over all rows, before a number
counts. `python -m benchmarks --only PIECE ...` runs some pieces alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import headwater as hw
from benchmarks import streams_compared as comparing
from benchmarks import streams_fold_peers as peers
from benchmarks import streams_kept as keeping
from benchmarks import streams_taxis as taxis
from benchmarks.dataflow import Asked
from benchmarks.report import Progress, Report, number, short, timed
from benchmarks.streams import loaded
from benchmarks.streams_peers import Compared
from benchmarks.streams_played import place
from benchmarks.streams_points import median
from benchmarks.streams_taxis import HOUR, same
from benchmarks.views import session

HERE, ON_SPARK = 250_000, 300_000
"""Rows a second of the taxi pipeline."""
FASTER = (8.0, 2.0)
"""Times that a fold is faster than Spark's, with small and with large increments."""
BIDS, THAN_SPARK = 1_000_000, 1.5
MARKS, KEYS, FLAT, DIFFER = 1.5, 60, 1.2, 5.0
"""Seconds, milliseconds, times and seconds."""
ONE_FRAME = 1.5
"""Memory of the differ, against that of one frame: while one side is read, the other may have begun the next frame."""


@dataclass(frozen=True)
class Size:
    """How much of everything there is at a scale."""

    taxis: int
    fixes: int
    times: int
    """How often a run is repeated whose median counts."""
    folded: tuple[tuple[int, int], tuple[int, int]]
    """Rows of a small and of a large increment beside Spark, and how many of them count."""
    bids: tuple[int, int]
    """Bids of an increment, and how many increments count."""
    marked: tuple[int, int]
    """Rows and keys."""
    keys: int
    changed: tuple[int, int]
    """Rows of an increment over many keys, and how many increments count."""
    frames: int
    frame: int
    """Fixes of a frame."""
    compared: tuple[int, int]
    """Frames of two streams that are compared, and rows of each."""

    @property
    def early(self) -> int:
        """The frame that the last one is compared with."""
        return self.frames // 5


SIZES = {
    "small": Size(
        50, 5_000, 1, ((500, 2), (2_000, 1)), (5_000, 2), (5_000, 50), 2_000, (200, 3), 10, 200, (4, 500)
    ),
    "ordinary": Size(
        2_000,
        2_000_000,
        3,
        ((10_000, 15), (500_000, 3)),
        (1_000_000, 5),
        (1_000_000, 10_000),
        1_000_000,
        (10_000, 30),
        100,
        10_000,
        (20, 50_000),
    ),
    "full": Size(
        2_000,
        2_000_000,
        7,
        ((10_000, 60), (500_000, 7)),
        (1_000_000, 10),
        (1_000_000, 10_000),
        1_000_000,
        (10_000, 100),
        300,
        10_000,
        (20, 50_000),
    ),
}  # fmt: skip


def run(report: Report, pieces: tuple[str, ...] = ()) -> None:
    """All of it, or some pieces; the small scale shows that it runs."""
    size, asked = SIZES[report.scale], Asked(report)
    report.say(
        "Sources keep no copies of their rows. What every stream has told was compared by the differ with what a plain program "
        "tells of all rows, and of Spark too, before a number counted."
    )
    chosen = pieces or tuple(PIECES)
    progress = Progress(len(chosen))
    for name in chosen:
        progress.step(name, 0)
        PIECES[name](report, asked, size)
        progress.step(name)
    progress.end()
    if asked.whys:
        report.say("## Missed, and why")
        report.say("\n".join(f"- {name}: {why}" for name, why in asked.whys))
    report.say(f"At the end {loaded()}.")


# --- taxis ---------------------------------------------------------------------------------------------------------


def rates(report: Report, asked: Asked, size: Size) -> None:
    """The whole pipeline over all fixes in one commit, in this process and on Spark."""
    hours = 4
    gps = taxis.fixes(taxis.some(size.fixes, size.taxis), hours * HOUR)
    rides = taxis.rides(hours * size.taxis, size.taxis, hours * HOUR)
    wanted = taxis.rated(gps, rides, hours)
    over = hw.closed(ts=hw.below(taxis.instant(hours * HOUR)))
    closed = {"gps": over, "rides": over}
    rows = []
    for where, least in (("here", HERE), ("on Spark", ON_SPARK)):
        took = []
        for _ in range(size.times + 1):
            with place() as home, taxis.rates(home / "db", spark=session()) as db:
                if where == "here":
                    db.policy.execution = "driver"
                else:  # what is large is run there, as by itself, at every scale
                    db.policy.small = min(db.policy.small, size.fixes // 2)
                change = {"gps": gps, "rides": rides}
                took.append(timed(partial(db.apply, change, punctuate=closed))[0])
                same(f"taxis {where}", taxis.TOLD, db["rates"], wanted)
        took = took[1:]  # the first one compiles, and starts workers
        for s in took:
            report.sample("taxis", s, "s", where=where, rows=size.fixes, taxis=size.taxis)
        asked.at_least(
            f"taxi pipeline {where}, {short(size.fixes)} fixes of {short(size.taxis)} taxis, Python step, rows a second",
            size.fixes / median(took),
            least,
            f"one commit of all fixes takes {median(took):.1f} s; {loaded()}",
        )
        rows.append(
            [where, *(number(size.fixes / s) for s in (max(took), median(took), min(took)))]
        )
    report.say("## The taxi pipeline, rows a second")
    report.table(["", "least", "median", "most"], rows)


def folds(report: Report, asked: Asked, size: Size) -> None:
    """The fold of the pipeline alone, beside Spark's two operators with state."""
    rows: dict[str, list[str]] = {"ours": [], **{name: [] for name in peers.FOLDS}}
    absent: dict[str, str] = {}
    for (many, increments), least in zip(size.folded, FASTER, strict=True):
        found = peers.folded(session(), size.taxis, many, increments, max(increments // 4, 1))
        there: dict[str, Compared] = {}
        for name, got in found.items():
            if isinstance(got, str):
                absent[name] = got
                rows[name].append("-")
                continue
            there[name] = got
            rows[name].append(number(1000 * median(got.spark)))
            for s in got.spark:
                report.sample("fold beside Spark", s, "s", who=name, rows=many)
        if not there:
            raise AssertionError("none of Spark's operators with state is there")
        ours = next(iter(there.values())).ours
        for s in ours:
            report.sample("fold beside Spark", s, "s", who="ours", rows=many)
        rows["ours"].append(number(1000 * median(ours)))
        fastest = min(there, key=lambda name: median(there[name].spark))
        theirs = median(there[fastest].spark)
        asked.at_least(
            f"the same fold, increments of {short(many)} rows, times faster than {fastest}",
            theirs / median(ours),
            least,
            f"ours takes {1000 * median(ours):.0f} ms, Spark {1000 * theirs:.0f} ms; {loaded()}",
        )
    report.say(f"## The fold of {short(size.taxis)} taxis alone, increments in ms")
    report.say("\n".join(f"{name} is not compared: {why}." for name, why in absent.items()))
    small, large = (short(many) for many, _ in size.folded)
    table = [[name, *cells] for name, cells in rows.items()]
    report.table(["", f"{small} rows", f"{large} rows"], table)


# --- library steps -------------------------------------------------------------------------------------------------


def nexmark(report: Report, asked: Asked, size: Size) -> None:
    """NEXMark 7 as a stream, and in Spark with the same watermark."""
    many, increments = size.bids
    committed, found = peers.nexmark(session(), many, 10, increments, max(increments // 4, 1))
    for s in committed:
        report.sample("NEXMark 7", s, "s", rows=many)
    asked.at_least(
        f"NEXMark 7 as a stream, increments of {short(many)} bids, rows a second",
        many / median(committed),
        BIDS,
        f"one takes {1000 * median(committed):.0f} ms; {loaded()}",
    )
    rows = [["ours, the commit alone", number(1000 * median(committed))]]
    ours = median(next(iter(found.values())).ours)
    rows.append(["ours, with reading the file", number(1000 * ours)])
    for name, got in found.items():
        for who, took in (("ours", got.ours), ("Spark", got.spark)):
            for s in took:
                report.sample("NEXMark 7 beside Spark", s, "s", who=who, how=name, rows=many)
        theirs = median(got.spark)
        asked.at_least(
            f"NEXMark 7, times faster than Structured Streaming with a watermark ({name})",
            theirs / ours,
            THAN_SPARK,
            f"ours takes {1000 * ours:.0f} ms, Spark {1000 * theirs:.0f} ms; {loaded()}",
        )
        rows.append([f"Spark, {name}", number(1000 * theirs)])
    report.say(f"## NEXMark 7, increments of {short(many)} bids in ten windows, in ms")
    report.table(["", "median"], rows)


def marks(report: Report, asked: Asked, size: Size) -> None:
    many, keys = size.marked
    took = keeping.marks(many, keys, size.times)
    for s in took:
        report.sample("marks", s, "s", rows=many, keys=keys)
    asked.at_most(
        f"marks by a pattern of {len(keeping.TESTS)} predicates, {short(many)} rows, {short(keys)} keys, s",
        median(took),
        MARKS,
        f"the least is {min(took):.2f} s; {loaded()}",
    )


# --- what is kept --------------------------------------------------------------------------------------------------


def keys(report: Report, asked: Asked, size: Size) -> None:
    many, increments = size.changed
    took, load = keeping.many_keys(size.keys, many, increments, max(increments // 10, 1))
    for s in took:
        report.sample("many keys", s, "s", rows=many, keys=size.keys)
    report.sample("many keys, load", load, "s", keys=size.keys)
    asked.at_most(
        f"{short(many)} rows, {short(size.keys)} keys with state: median increment, ms",
        1000 * median(took),
        KEYS,
        f"between {1000 * min(took):.0f} and {1000 * max(took):.0f} ms; {loaded()}",
    )
    report.say(
        f"{short(size.keys)} keys get their first state in {load:.1f} s, {number(size.keys / load)} a second; after that an "
        f"increment of {short(many)} rows takes between {1000 * min(took):.0f} and {1000 * max(took):.0f} ms."
    )


def frames(report: Report, asked: Asked, size: Size) -> None:
    """The taxi pipeline hour by hour, with fixes that come late."""
    each, few = 5, max(size.frames // 20, 1)
    kept = keeping.frames(size.frames, size.frame, each, size.taxis)
    for i, s in enumerate(kept.seconds):
        at = i // each + 1
        facts = {"states": kept.states[i], "pending": kept.pending[i], "bytes": kept.bytes[i]}
        report.sample("frame by frame", s, "s", frame=at, **facts)
    rows = [s + p for s, p in zip(kept.states, kept.pending, strict=True)]
    table = []
    for name, values in (("states and pending rows", rows), ("bytes of them", kept.bytes)):
        early, last = (kept.over(values, f, each, few) for f in (size.early, size.frames))
        table.append([name, number(early), number(last), number(last / early)])
        asked.at_most(
            f"{name}, frame {size.frames} against {size.early}, times",
            last / early,
            FLAT,
            f"from {number(early)} to {number(last)}",
        )
    report.say(
        f"## What is kept, frame by frame: {short(size.frame)} fixes a frame, {each} increments"
    )
    report.table(
        ["mean of the frames up to it", f"frame {size.early}", f"frame {size.frames}", "times"],
        table,
    )
    with report.plot("kept", columns=2) as axes:
        where = [(i + 1) / each for i in range(len(rows))]
        axes[0].plot(where, kept.states, color="#2a7", label="states")
        axes[0].plot(where, kept.pending, color="#bbb", label="pending rows")
        axes[0].set(title="states and pending rows", xlabel="frame", ylim=(0, None))
        axes[0].legend(fontsize=8)
        axes[1].plot(where, [b / 2**20 for b in kept.bytes], color="#2a7")
        axes[1].set(title="MB of them", xlabel="frame", ylim=(0, None))


# --- the differ ----------------------------------------------------------------------------------------------------


def differ(report: Report, asked: Asked, size: Size) -> None:
    count, rows = size.compared
    took = comparing.seconds(count, rows, size.times)
    for s in took:
        report.sample("differ", s, "s", rows=count * rows, frames=count)
    whole, one = comparing.memory(count, rows)
    report.sample("differ, memory", whole, "bytes", rows=count * rows, frames=count)
    report.sample("differ, memory", one, "bytes", rows=rows, frames=1)
    name = f"differ, two streams of {short(count * rows)} rows"
    asked.at_most(f"{name}, shuffled within {count} frames, s", median(took), DIFFER, loaded())
    asked.at_most(
        f"{name}: memory, against that of one frame, times",
        whole / max(one, 1),
        ONE_FRAME,
        f"{whole / 2**20:.1f} MB, and {one / 2**20:.1f} MB for one frame",
    )
    report.say(
        f"The differ takes {whole / 2**20:.1f} MB for {count} frames of {short(rows)} rows, and {one / 2**20:.1f} MB for one of them."
    )


PIECES: dict[str, Callable[[Report, Asked, Size], None]] = {
    "marks": marks,
    "keys": keys,
    "frames": frames,
    "differ": differ,
    "nexmark": nexmark,
    "rates": rates,
    "folds": folds,
}
