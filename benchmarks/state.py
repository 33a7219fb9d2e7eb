"""State: does the cost of a look-up and a merge follow the change, and not the size of the map?

Maps of 1, 10 and 50 million entries are looked up and merged with 1 thousand to 1 million keys; 10 million
entries also in 8 runs; the peak memory of a merge; and 500 merges and commits one after another with
compaction behind them. The maps are in the page cache, and read once through their mapping, before anything
is timed; every repetition has keys of its own, so they are not in the processor's caches. A merge here is
the look-up and the new run in memory; writing it durably is in the sustained figures. Every answer is
compared with the model.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes

from benchmarks import maps
from benchmarks.memory import peak_of
from benchmarks.report import ROOT, Progress, Report, number, plain, short, timed
from benchmarks.sustained import sustained, tell_sustained
from headwater.state.arrangement import Arrangement
from headwater.state.files import LocalFiles
from headwater.state.keys import Ints
from headwater.state.run import RunRef, Runs

RUNS = 8
GROWTH = 2.5
"""How much longer the largest map may take than the smallest."""
ONE_RUN, MANY_RUNS = 15.0, 60.0
"""Milliseconds for 10 thousand look-ups in 10 million entries."""
KEY_BYTES, FIXED_BYTES = 1024, 64 << 20
"""What a merge may take in memory: so much a changed key, and so much besides."""


@dataclass(frozen=True)
class Size:
    """How large the maps are, how many keys are asked for, how often, and how long it is sustained."""

    entries: tuple[int, ...]
    repetitions: dict[int, int]
    several: tuple[int, int]  # entries and keys of the map in several runs
    remembered: tuple[int, ...]  # keys of the merges whose memory is measured
    sustained: tuple[int, int, int]  # entries at the start, merges, keys of a merge


Built = dict[int, list[RunRef]]
"""The run of each map, by its number of entries."""

ENTRIES = (1_000_000, 10_000_000, 50_000_000)
SIZES = {
    "small": Size(
        (20_000, 100_000, 500_000),
        {1_000: 5, 10_000: 5},
        (100_000, 10_000),
        (1_000, 10_000),
        (20_000, 60, 1_000),
    ),
    "ordinary": Size(
        ENTRIES,
        {1_000: 31, 10_000: 21, 100_000: 11, 1_000_000: 7},
        (10_000_000, 10_000),
        (10_000, 100_000, 1_000_000),
        (1_000_000, 500, 10_000),
    ),
    "full": Size(
        ENTRIES,
        {1_000: 101, 10_000: 101, 100_000: 51, 1_000_000: 21},
        (10_000_000, 10_000),
        (10_000, 100_000, 1_000_000),
        (10_000_000, 500, 10_000),
    ),
}


def run(report: Report) -> None:
    """The part."""
    size = SIZES[report.scale]
    timings = 2 * len(size.entries) * sum(size.repetitions.values())
    several = size.repetitions[size.several[1]]
    others = len(size.entries) + 1 + 2 * len(size.remembered)
    progress = Progress(timings + several + others + size.sustained[1])
    with scratch(size) as folder:
        files = LocalFiles(folder)
        refs: Built = {}
        for entries in size.entries:
            progress.step(f"writing {short(entries)} entries", 0)
            refs[entries] = maps.one_run(files, entries)
            progress.step("")
        by_size(report, size, files, refs, progress)
        several_runs(report, size, files, progress)
        memory(report, size, folder, refs, progress)
        sustained(report, folder / "sustained", *size.sustained, progress)
    progress.end()
    tell_sizes(report, size)
    tell_memory(report, size)
    tell_sustained(report)


@contextmanager
def scratch(size: Size) -> Iterator[Path]:
    """A directory that is gone afterwards, on a disk with room for all the maps."""
    started, merges, keys = size.sustained  # what these leave behind is collected after a while
    rows = sum(size.entries) + 2 * size.several[0] + 8 * (started + merges * keys)
    needed = rows * maps.ENTRY_BYTES
    (ROOT / "build").mkdir(exist_ok=True)
    free = shutil.disk_usage(ROOT / "build").free
    if free < needed:
        raise SystemExit(f"{needed >> 20} MB of disk are needed, and {free >> 20} are free")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=ROOT / "build") as folder:
        yield Path(folder)


# --- look-ups and merges ----------------------------------------------------------------------------------


def by_size(report: Report, size: Size, files: LocalFiles, refs: Built, progress: Progress) -> None:
    """Each number of keys, looked up and merged in each map; repetitions go round the maps, so that
    what else the machine does falls on all of them alike."""
    rng = np.random.default_rng(3)
    opened = {n: Arrangement(maps.SPEC, r, Runs(files)) for n, r in refs.items()}
    for entries, arrangement in opened.items():
        warm_up(report, arrangement, rng, entries, min(10_000, *size.repetitions))
    for what, measure in (("look-up", look_up), ("merge", merge)):
        for many, repetitions in size.repetitions.items():
            for repetition in range(-1, repetitions):  # the one before the first does not count
                for entries, arrangement in opened.items():
                    keys = maps.some_keys(rng, many, entries)
                    seconds = measure(arrangement, keys, entries)
                    if repetition >= 0:
                        report.sample(what, seconds, "s", entries=entries, keys=many, runs=1)
                        progress.step(f"{what}: {short(many)} keys in {short(entries)} entries")


def several_runs(report: Report, size: Size, files: LocalFiles, progress: Progress) -> None:
    """Look-ups in a map of several runs of like size, which compaction would not leave so."""
    entries, many = size.several
    progress.step(f"writing {short(entries)} entries in {RUNS} runs", 0)
    refs = maps.many_runs(files, entries, RUNS)
    progress.step("")
    arrangement = Arrangement(maps.SPEC, refs, Runs(files))
    touch(arrangement)
    rng = np.random.default_rng(5)
    look_up(arrangement, maps.some_keys(rng, many, entries), entries)
    for _ in range(size.repetitions[many]):
        seconds = look_up(arrangement, maps.some_keys(rng, many, entries), entries)
        report.sample("look-up", seconds, "s", entries=entries, keys=many, runs=RUNS)
        progress.step(f"look-up: {short(many)} keys in {short(entries)} entries, {RUNS} runs")


def warm_up(
    report: Report, arrangement: Arrangement, rng: np.random.Generator, entries: int, many: int
) -> None:
    """The first look-up in a map that was just opened, when its pages are in memory but not mapped yet,
    is kept apart; then every page is read."""
    seconds = look_up(arrangement, maps.some_keys(rng, many, entries), entries)
    report.sample("first look-up", seconds, "s", entries=entries, keys=many, runs=1)
    touch(arrangement)


def touch(arrangement: Arrangement) -> None:
    """Reads every page of a map through its mapping."""
    for ref in arrangement.refs:
        for segment in arrangement.runs.open(ref).segments:
            for column in segment.batch.columns:
                column.to_numpy().sum()


def look_up(arrangement: Arrangement, keys: Ints, entries: int) -> float:
    """Seconds of a look-up whose answer is right."""
    table = maps.asked(keys)
    gc.collect()
    seconds, answer = timed(lambda: arrangement.lookup(table))
    maps.check_lookup(answer, keys, entries)
    return seconds


def merge(arrangement: Arrangement, keys: Ints, entries: int) -> float:
    """Seconds of a merge whose answer is right."""
    more, table = maps.change(keys), maps.changes(keys, *maps.change(keys))
    gc.collect()
    seconds, (made, touched) = timed(lambda: arrangement.merge(table))
    old = maps.values(keys, entries)
    maps.check_merge(made, touched, keys, old, (old[0] + more[0], old[1] + more[1]))
    return seconds


# --- memory -----------------------------------------------------------------------------------------------


def memory(report: Report, size: Size, folder: Path, refs: Built, progress: Progress) -> None:
    """The peak of a merge into the smallest map and the largest, each in a process of its own; the
    changes are a mapped file too, so that preparing them leaves no free memory that would hide the peak."""
    rng = np.random.default_rng(7)
    for entries in (size.entries[0], size.entries[-1]):
        for many in size.remembered:
            progress.step(f"memory of a merge: {short(many)} keys in {short(entries)} entries", 0)
            keys = maps.some_keys(rng, many, entries)
            table = maps.changes(keys, *maps.change(keys))
            path = str(folder / f"changes-{many}-{entries}.arrow")
            with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
                out.write_table(table)
            before, peak, reads = peak_of(prepared_merge, str(folder), refs[entries], path)
            facts = {"entries": entries, "keys": many, "before": before, "reads": reads}
            report.sample("memory", peak - before, "bytes", **facts)
            progress.step("")


def prepared_merge(folder: str, refs: list[RunRef], path: str) -> Callable[[], object]:
    """A merge to be made in another process, with its map and its changes mapped."""
    arrangement = Arrangement(maps.SPEC, refs, Runs(LocalFiles(folder)))
    table = pa.ipc.open_file(pa.memory_map(path)).read_all()
    arrangement.merge(table.slice(0, 10))  # what the first call of all allocates is not the merge's
    return lambda: arrangement.merge(table)


# --- what is told -----------------------------------------------------------------------------------------


def median(report: Report, what: str, **facts: int) -> float:
    return float(np.median(report.values(what, **facts)))


def tell_sizes(report: Report, size: Size) -> None:
    """Tables, targets and the plot of look-ups and merges."""
    least, most = size.entries[0], size.entries[-1]
    rows = []
    for what in ("look-up", "merge"):
        for many in size.repetitions:
            seconds = [median(report, what, keys=many, entries=n, runs=1) for n in size.entries]
            ratio = seconds[-1] / seconds[0]
            cells = [f"{what}, {short(many)} keys", *(number(1000 * s) for s in seconds)]
            rows.append([*cells, f"{ratio:.2f}", number(1e9 * seconds[-1] / many)])
            report.at_most(
                f"{what} of {short(many)} keys: time in {short(most)} entries / in {short(least)}",
                ratio,
                GROWTH,
            )
    entries, many = size.several
    for runs, target in ((1, ONE_RUN), (RUNS, MANY_RUNS)):
        name = f"look-up of {short(many)} keys in {short(entries)} entries in {runs} run{'s'[: runs > 1]}, ms"
        seconds = [median(report, "look-up", keys=many, entries=entries, runs=runs)]
        report.at_most(name, 1000 * seconds[0], target)
    report.say("## Look-ups and merges\n\n" + HOW)
    header = ["milliseconds", *(f"{short(n)} entries" for n in size.entries)]
    report.table([*header, f"{short(most)} / {short(least)}", "ns a key in the largest"], rows)
    first = [
        f"{number(1000 * median(report, 'first look-up', entries=n))} ms in {short(n)}"
        for n in size.entries
    ]
    many = min(size.repetitions)
    report.say(
        f"The first look-up of {short(many)} keys after opening, whose pages are in memory but not mapped yet: "
        + ", ".join(first)
        + " entries."
    )
    with report.plot("size", columns=2) as axes:
        for axis, what in zip(axes, ("look-up", "merge"), strict=True):
            plot_sizes(axis, report, size, what)


HOW = (
    "Median over repetitions, each with keys of its own, nine in ten of which exist; bigint keys, a count and a "
    "sum; one run; page cache warm. A merge is the look-up of the old values, the new values, and the new run in "
    "memory. All answers equal those of the model."
)


def plot_sizes(axis: Axes, report: Report, size: Size, what: str) -> None:
    for i, many in enumerate(size.repetitions):
        samples = [
            1000 * np.array(report.values(what, keys=many, entries=n, runs=1)) for n in size.entries
        ]
        middle = [float(np.median(s)) for s in samples]
        low, high = (np.array([np.percentile(s, p) for s in samples]) for p in (10, 90))
        axis.fill_between(size.entries, low, high, color=f"C{i}", alpha=0.15, linewidth=0)
        axis.plot(size.entries, middle, "o-", color=f"C{i}")
        text = f" {short(many)} keys\n ×{middle[-1] / middle[0]:.1f}"
        axis.annotate(text, (size.entries[-1], middle[-1]), color=f"C{i}", va="center")
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="entries in the map",
        ylabel="milliseconds (median, 10–90 %)",
    )
    axis.set_title(f"{what}: time by size of the map")
    axis.set_xticks(size.entries, [short(n) for n in size.entries])
    axis.minorticks_off()
    axis.set_xlim(size.entries[0] * 0.8, size.entries[-1] * 4)
    axis.yaxis.set_major_formatter(plain)


def tell_memory(report: Report, size: Size) -> None:
    """Table, targets and the plot of the memory of a merge."""
    ends = (size.entries[0], size.entries[-1])
    megabytes = {
        n: [median(report, "memory", keys=k, entries=n) / 2**20 for k in size.remembered]
        for n in ends
    }
    allowed = [(KEY_BYTES * k + FIXED_BYTES) / 2**20 for k in size.remembered]
    rows = []
    for i, many in enumerate(size.remembered):
        at_end = megabytes[ends[1]][i]
        report.at_most(
            f"peak anonymous memory of a merge of {short(many)} keys in {short(ends[1])} entries, MB",
            at_end,
            allowed[i],
        )
        cells = [number(megabytes[n][i]) for n in ends]
        rows.append([f"{short(many)} keys", *cells, f"{at_end * 2**20 / many:,.0f}"])
    report.say(
        "## Memory of a merge\n\nPeak `RssAnon` of a fresh process above what it had before, in MB; "
        f"asked: {KEY_BYTES} bytes a changed key and {FIXED_BYTES >> 20} MB."
    )
    report.table(["merge", *(f"{short(n)} entries" for n in ends), "bytes a key"], rows)
    with report.plot("memory") as (axis,):
        for (n, peaks), mark in zip(megabytes.items(), ("s-", "o--"), strict=True):
            axis.plot(size.remembered, peaks, mark, label=f"{short(n)} entries")
        label = f"asked: {KEY_BYTES} bytes a key + {FIXED_BYTES >> 20} MB"
        axis.plot(size.remembered, allowed, ":", color="grey", label=label)
        axis.set(xscale="log", yscale="log", xlabel="changed keys", ylabel="MB")
        axis.set_title("peak anonymous memory of a merge")
        axis.set_xticks(size.remembered, [short(k) for k in size.remembered])
        axis.minorticks_off()
        axis.yaxis.set_major_formatter(plain)
        axis.legend()
