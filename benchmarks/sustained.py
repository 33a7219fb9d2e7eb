"""Sustained merges: what a commit takes while compaction works behind it.

Each step begins a commit, merges keys of which some are new and some vanish, and commits; then a compaction
is started unless one is under way, and every so often garbage is collected. The time of a step is begin to
commit, so it has in it the look-up in all runs, the new run, two durable writes, and whatever the compaction
takes away. The model is two arrays; each merge's answer is compared, and the whole map at the end.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from benchmarks import maps
from benchmarks.report import Progress, Report, number, plain, timed
from headwater.state.arrangement import Touched
from headwater.state.files import LocalFiles
from headwater.state.keys import Ints
from headwater.state.log import Version
from headwater.state.store import Store, StoreWriter

COLLECT = 25
"""Garbage is collected after so many merges."""
GONE = 0.05
"""The share of the keys of a merge that vanish, if they are there."""


def sustained(
    report: Report, folder: Path, entries: int, merges: int, many: int, progress: Progress
) -> None:
    """So many merges of so many keys, from a map of so many entries."""
    rng = np.random.default_rng(11)
    store = Store(LocalFiles(folder))
    universe = entries + entries // 10 + merges * many // 10
    keys = np.arange(universe, dtype=np.int64)
    n, s = np.where(keys < entries, 1, 0), np.where(keys < entries, 3 * keys, 0)
    with store.writer() as writer:
        load(store, writer, keys[:entries], n[:entries], s[:entries])
        for step in range(merges):
            chosen = rng.choice(universe, many, replace=False, shuffle=False)
            more_n, more_s = np.ones(many, np.int64), chosen % 1000 - 500
            gone = (rng.random(many) < GONE) & (n[chosen] > 0)
            more_n[gone], more_s[gone] = -n[chosen][gone], -s[chosen][gone]
            new = n[chosen] + more_n, s[chosen] + more_s
            table = maps.changes(chosen, more_n, more_s)

            def one(table: object = table) -> tuple[Touched | None, Version]:
                commit = writer.begin()
                touched = commit.merge(maps.SPEC.name, table)
                return touched, writer.commit(commit)

            seconds, (touched, version) = timed(one)
            maps.check_merge(None, touched, chosen, (n[chosen], s[chosen]), new)
            n[chosen], s[chosen] = new
            _, runs = version.maps[maps.SPEC.name]
            facts = {"step": step, "runs": len(runs), "rows": sum(r.rows for r in runs)}
            report.sample("merge and commit", seconds, "s", keys=many, **facts)
            writer.tidy()
            if step % COLLECT == COLLECT - 1:
                seconds, names = timed(writer.collect)
                report.sample("collect", seconds, "s", step=step, files=len(names))
            progress.step(f"sustained: {len(runs)} runs")
    check_whole(store, n, s)


def load(store: Store, writer: StoreWriter, keys: Ints, n: Ints, s: Ints) -> None:
    """The map that the merges start from, in one run."""
    commit = writer.begin()
    commit.create(maps.SPEC)
    ref = maps.build(store.files, keys, n, s, commit.version)
    commit.add(maps.SPEC.name, [ref])
    writer.commit(commit)


def check_whole(store: Store, n: Ints, s: Ints) -> None:
    """All that the map holds at the end is the model."""
    seen = 0
    for table in store.at().arrangement(maps.SPEC.name).scan():
        k = np.asarray(table.column("k"))
        maps.same("n at the end", np.asarray(table.column("n")), n[k])
        maps.same("s at the end", np.asarray(table.column("s")), s[k])
        seen += len(k)
    maps.same("entries at the end", np.array([seen]), np.array([np.count_nonzero(n)]))


def tell_sustained(report: Report) -> None:
    """Table and plot."""
    samples = [x for x in report.samples if x["what"] == "merge and commit"]
    times = 1000 * np.array([x["value"] for x in samples])
    runs = np.array([x["runs"] for x in samples])
    middle, high = np.percentile(times, [50, 99])
    many = samples[0]["keys"]
    report.say(
        f"## Sustained\n\n{len(samples)} merges of {many:,} keys and their commits, one after another, with "
        f"compaction in the background; {samples[0]['rows']:,} rows in the runs at the first, "
        f"{samples[-1]['rows']:,} at the last."
    )
    cells = [
        *(number(x) for x in (middle, high, times.max())),
        f"{np.median(runs):.0f}",
        f"{runs.max()}",
    ]
    header = ["", "median ms", "99th percentile ms", "longest ms", "runs, median", "runs, most"]
    report.table(header, [["merge and commit", *cells]])
    with report.plot("sustained", rows=2) as (above, below):
        above.plot(times, ".", markersize=3, color="C0")
        above.axhline(middle, color="C0", label=f"median {number(middle)} ms")
        above.axhline(high, color="C3", linestyle="--", label=f"99th percentile {number(high)} ms")
        above.set(yscale="log", ylabel="milliseconds", title="merge and commit, one after another")
        above.set_ylim(top=2.5 * times.max())  # room for the legend
        above.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        above.yaxis.set_major_formatter(plain)
        above.yaxis.set_minor_formatter(NullFormatter())
        above.legend(loc="upper left", ncols=2)
        below.step(range(len(runs)), runs, where="post", color="C1")
        below.set(xlabel="merge", ylabel="runs", title="runs that a look-up reads", ylim=(0, None))
