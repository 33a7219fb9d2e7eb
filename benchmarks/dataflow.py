"""Dataflow: stages with state beside the same without, schedules, what an epoch costs, and Spark's own stateful operators.

The crawl queue and the data cube are those of the paper that the stages come from, and so are three of the plots. Ratios are of
the processor's time, so that what else runs on the machine changes little; times that are asked for as such are by the clock, with
the processor's beside them. Answers are compared with plain Python, or with each other, before a number counts.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from benchmarks import dataflow_crawl as crawl
from benchmarks import dataflow_cube as cube
from benchmarks import dataflow_rates as rates
from benchmarks.dataflow_streaming import PEERS, Stateful, lacking
from benchmarks.report import ROOT, Progress, Report, number, short
from benchmarks.views import session


@dataclass(frozen=True)
class Size:
    """How much of everything there is at a scale."""

    pages: int
    sent: int
    """Pages of an increment on Spark."""
    epochs: int
    groups: tuple[int, int, int]
    rows: int
    times: int
    streamed: int
    batches: tuple[int, int]
    repeats: int = 1


SIZES = {
    "small": Size(100, 50, 24, (20_000, 10_000, 50_000), 20_000, 5, 500, (50, 200)),
    "ordinary": Size(
        9_000, 900, 120, (1_000_000, 500_000, 5_000_000), 500_000, 40, 200_000, (1_000, 100_000), 2
    ),
    "full": Size(
        27_000,
        2_700,
        240,
        (1_000_000, 500_000, 5_000_000),
        500_000,
        40,
        200_000,
        (1_000, 100_000),
        2,
    ),
}
INCREMENTS, QUARTERS, UPDATES, QUERIES = 10, 4, 5_000, 1_000
A_THOUSAND, A_MILLION = 1_000, 1_000_000


@dataclass
class Asked:
    """Targets with the reasons why they may be missed; those of them that are get said."""

    report: Report
    whys: list[tuple[str, str]] = field(default_factory=list)

    def at_most(self, name: str, measured: float, target: float, why: str = "") -> None:
        self.report.at_most(name, measured, target)
        self._note(why)

    def at_least(self, name: str, measured: float, target: float, why: str = "") -> None:
        self.report.at_least(name, measured, target)
        self._note(why)

    def _note(self, why: str) -> None:
        last = self.report.targets[-1]
        if not last.met and why:
            self.whys.append((last.name, why))


def run(report: Report) -> None:
    """All of it; the small scale shows that it runs."""
    size, asked = SIZES[report.scale], Asked(report)
    progress = Progress(6)
    crawling(report, asked, size, progress)
    progress.step("the cube")
    cubing(report, asked, size)
    progress.step("many groups")
    many_groups(report, asked, size)
    progress.step("rows a second")
    by_form(report, asked, size)
    progress.step("what the exchange carries")
    spark = session()
    sending(report, asked, size, spark)
    progress.step("Spark's stateful operators")
    beside_spark(report, asked, size, spark)
    progress.step("")
    progress.end()
    if asked.whys:
        report.say("## Missed, and why")
        report.say("\n".join(f"- {name}: {why}" for name, why in asked.whys))
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    report.say(
        f"The load was {load} at the end (over 1, 5 and 15 minutes), on {os.cpu_count()} cores."
    )


@contextmanager
def place() -> Iterator[Path]:
    """A directory on a disk, for a while."""
    (ROOT / "build").mkdir(exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=ROOT / "build", prefix="dataflow-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


# --- the crawl -------------------------------------------------------------------------------------------------------


def crawling(report: Report, asked: Asked, size: Size, progress: Progress) -> None:
    """Direct, black box and landmark; direct and black box also with increments a quarter the size."""
    given = crawl.crawled(size.pages, INCREMENTS)
    found: dict[tuple[str, int], crawl.Crawl] = {}
    for way, parts in (
        ("direct", 1),
        ("black box", 1),
        ("landmark", 1),
        ("direct", QUARTERS),
        ("black box", QUARTERS),
    ):
        progress.step(f"the crawl, {way}, {parts * INCREMENTS} increments", 0)
        runs = []
        for _ in range(size.repeats if way == "direct" else 1):
            with place() as home:
                runs.append(crawl.crawl(way, crawl.cut(given, parts), home / "db"))
        best = runs[0]
        best.cpu = [min(c) for c in zip(*(r.cpu for r in runs), strict=True)]
        best.wall = [min(c) for c in zip(*(r.wall for r in runs), strict=True)]
        found[way, parts] = best
        for i, (cpu, wall) in enumerate(zip(best.cpu, best.wall, strict=True)):
            facts = {"way": way, "increment": i + 1, "of": parts * INCREMENTS}
            runs_of_state = {"runs": best.runs[i]} if way == "direct" else {}
            report.sample("crawl", cpu, "s", **facts, wall=round(wall, 4), **runs_of_state)
    direct, box, landmark = (found[w, 1] for w in ("direct", "black box", "landmark"))
    small, small_box = found["direct", QUARTERS], found["black box", QUARTERS]
    without = INCREMENTS * landmark.cpu[0]
    of_state = (sum(box.cpu) - without) / (sum(direct.cpu) - without)
    of_small = (sum(small_box.cpu) - without) / (sum(small.cpu) - without)
    asked.at_most(
        "crawl, direct: last increment against the second",
        direct.cpu[-1] / direct.cpu[1],
        1.3,
        "every few increments the runs of the state are merged, in a thread beside what is measured; after each increment the counts of URLs are in "
        f"{', '.join(map(str, direct.runs))} runs. The ninth against the second is {direct.cpu[-2] / direct.cpu[1]:.2f}, the "
        f"average of the last three against that of the second to fourth {sum(direct.cpu[-3:]) / sum(direct.cpu[1:4]):.2f}",
    )
    asked.at_least(
        "crawl, landmark: last increment against direct's",
        landmark.cpu[-1] / direct.cpu[-1],
        5,
        f"state costs: ten times as many rows take landmark {landmark.cpu[-1] / landmark.cpu[0]:.1f} times as long as its first increment, which has no "
        f"state and the same rows as any of direct's, and direct's last takes {direct.cpu[-1] / landmark.cpu[0]:.1f} times as long as that",
    )
    asked.at_least(
        "crawl, black box: all increments against direct's",
        sum(box.cpu) / sum(direct.cpu),
        2,
        f"most of an increment is neither's state: reading rows and calling functions takes {without:.1f} s of the {sum(box.cpu):.1f} s and of the "
        f"{sum(direct.cpu):.1f} s (ten times landmark's first increment, which has no state). Of what remains black box takes {of_state:.1f} times as "
        "much. In one process nothing has to be sent; what would be is told below",
    )
    asked.at_most(
        "crawl, direct, increments a quarter the size: all against those of full size",
        sum(small.cpu) / sum(direct.cpu),
        1.5,
        "an increment is three commits, and popular URLs are looked up and written in every one of four times as many",
    )
    asked.at_least(
        "crawl, increments a quarter the size: black box against direct",
        sum(small_box.cpu) / sum(small.cpu),
        4,
        f"as at full size; of what is left without the {without:.1f} s of rows and functions black box takes {of_small:.1f} times as much",
    )
    report.say("## The crawl queue")
    report.say(
        f"{INCREMENTS} increments of {size.pages:,} pages with {crawl.LINKS_A_PAGE} links each (27,000 at full scale), "
        f"and the same pages in {QUARTERS * INCREMENTS}. Seconds of the processor; of the direct way the faster of "
        f"{size.repeats} runs, increment by increment."
    )
    names = [
        ("direct", 1),
        ("black box", 1),
        ("landmark", 1),
        ("direct", QUARTERS),
        ("black box", QUARTERS),
    ]
    rows = []
    for way, parts in names:
        c = found[way, parts]
        times = [number(x) for x in (c.cpu[1], c.cpu[-1], sum(c.cpu), sum(c.wall))]
        kept = f"{c.kept / 1e6:.1f} MB"
        rows.append([way, str(parts * INCREMENTS), *times, kept])
    header = ["way", "increments", "second", "last", "all", "all, by the clock", "state at the end"]
    report.table(header, rows)
    draw_crawl(report, found)


def draw_crawl(report: Report, found: dict[tuple[str, int], crawl.Crawl]) -> None:
    with report.plot("crawl", columns=3) as axes:
        for axis, way in zip(axes, ("landmark", "black box", "direct"), strict=True):
            c = found[way, 1]
            numbers = range(1, INCREMENTS + 1)
            axis.plot(numbers, c.wall, "o-", color="#333", label="an increment")
            decide = "decides" if way == "black box" else "merged"
            for stage, label, color in (
                ("inlinks", "counting links", "#2a7"),
                (decide, "deciding", "#c52"),
            ):
                axis.plot(numbers, [s[stage] for s in c.stages], "s--", color=color, label=label)
            axis.set_title(way)
            axis.set_xlabel("increment")
            axis.set_ylabel("seconds")
            axis.set_ylim(bottom=0)
        axes[0].legend(frameon=False)
    with report.plot("increments") as (axis,):
        for (way, parts), c in found.items():
            if way != "landmark":
                done = np.arange(1, len(c.cpu) + 1) / len(c.cpu)
                style = {
                    "color": "#2a7" if way == "direct" else "#c52",
                    "linestyle": "-" if parts == 1 else "--",
                }
                label = f"{way}, {parts * INCREMENTS} increments"
                axis.plot(100 * done, list(accumulate(c.cpu)), label=label, **style)  # type: ignore[arg-type]
        axis.set_xlabel("% of the pages")
        axis.set_ylabel("seconds of the processor, added up")
        axis.legend(frameon=False)


def sending(report: Report, asked: Asked, size: Size, spark: SparkSession) -> None:
    """Bytes that tasks send each other, by input; state that is a flow is an input too."""
    given = crawl.crawled(size.sent, 4)
    rows = []
    state = {"direct": set[str](), "black box": {"counts", "known"}}
    inputs = {"links", "urls", "sites", "pages"}
    for way, names in state.items():
        with place() as home:
            sent = crawl.exchanged(way, given, home, spark)
        for i, by_input in enumerate(sent):
            mine = sum(n for name, n in by_input.items() if name in names or name not in inputs)
            others = sum(by_input.values()) - mine
            report.sample("sent", mine, "bytes of state", way=way, increment=i + 1, rows=others)
            if i in (0, len(sent) - 1):
                rows.append([way, str(i + 1), f"{others:,}", f"{mine:,}"])
    asked.at_most(
        "crawl on Spark, direct: bytes of state in the exchange",
        sum(report.values("sent", way="direct")),
        0,
    )
    report.say("## What the exchange carries on Spark")
    report.say(
        f"Increments of {size.sent:,} pages, every epoch on Spark. Every blob that a task sends to another was counted, by the input "
        "whose rows are in it; what is of no input, or of a flow that is state, is state."
    )
    report.table(["way", "increment", "bytes of rows", "bytes of state"], rows)


# --- the cube --------------------------------------------------------------------------------------------------------


def cubing(report: Report, asked: Asked, size: Size) -> None:
    """The three schedules, for so many epochs each."""
    scale = 20 if report.scale == "small" else 1
    given = cube.Given.drawn(size.epochs // 3 + 5, UPDATES // scale, QUERIES // scale)
    found: dict[str, cube.Counted] = {}
    for way in cube.WAYS:
        with place() as home:
            c = found[way.name] = cube.cubed(way, given, size.epochs, home / "db")
        facts = {"schedule": way.name, "epochs": size.epochs, "wall": round(c.wall, 3)}
        for what, value in (
            ("computed", c.computed[-1]),
            ("written", c.written[-1]),
            ("answered", c.answered[-1]),
        ):
            report.sample(f"increments {what}", value, "increments", **facts)
        report.sample("cube", c.seconds[-1], "s", **facts)
    both, priority, none = (found[w.name] for w in cube.WAYS)
    seconds = min(c.seconds[-1] for c in found.values())
    at = {n: c.within(seconds) - 1 for n, c in found.items()}

    def in_time(counts: Sequence[int], way: str) -> int:
        return counts[at[way]]

    first, second, third = (w.name for w in cube.WAYS)
    asked.at_least(
        "cube, queries answered in a time: priority and detection against no priority",
        in_time(both.answered, first) / in_time(none.answered, third),
        1.25,
    )
    asked.at_least(
        "cube, queries answered in as many epochs: the same",
        both.answered[-1] / none.answered[-1],
        1.25,
        "without priority one epoch of `cube` takes updates and queries together, so that four epochs answer an increment of queries; with it "
        "five increments are fifteen epochs, for an epoch of updates sends an empty increment that `answers` reads. What is gained is that epochs "
        "of updates, the long ones, are fewer: see the same in a time",
    )
    asked.at_most(
        "cube, updates computed in as many epochs: detection against without",
        both.computed[-1] / priority.computed[-1],
        0.5,
    )
    for name, ratio in (
        ("in a time", in_time(priority.answered, second) / in_time(none.answered, third)),
        ("in as many epochs", priority.answered[-1] / none.answered[-1]),
    ):
        told = f"cube, queries answered {name}: priority without detection against no priority"
        why = (
            "four of five epochs of `cube` are queries, and no more epochs are saved: 0.8 in the long run"
            if ratio < 0.8
            else "an epoch of `cube` without updates is shorter, and updates that are computed are not written: it is better than asked for"
        )
        asked.at_least(f"{told}, at least", ratio, 0.8, why)
        asked.at_most(f"{told}, at most", ratio, 1.2, why)
    report.say("## The data cube")
    report.say(
        f"Increments of {UPDATES // scale:,} updates and {QUERIES // scale:,} queries, as many as are read; {size.epochs} epochs of each "
        f"schedule. In brackets: what was done in {seconds:.2f} s of the processor, which is when the fastest had its epochs."
    )
    header = ["schedule", "seconds", "updates computed", "updates written", "queries answered"]
    rows = []
    for name, x in found.items():
        cells = [
            f"{n * each // scale:,} ({m * each // scale:,})"
            for n, m, each in (
                (x.computed[-1], in_time(x.computed, name), UPDATES),
                (x.written[-1], in_time(x.written, name), UPDATES),
                (x.answered[-1], in_time(x.answered, name), QUERIES),
            )
        ]
        rows.append([name, number(x.seconds[-1]), *cells])
    report.table(header, rows)
    with report.plot("cube", columns=3) as axes:
        for axis, (title, each) in zip(
            axes, (("computed", UPDATES), ("written", UPDATES), ("answered", QUERIES)), strict=True
        ):
            for (name, x), color in zip(found.items(), ("#2a7", "#27a", "#c52"), strict=True):
                counts = np.array(getattr(x, title)) * each / scale / 1000
                axis.plot(x.seconds, counts, label=name, color=color)
            axis.set_title(f"{'queries' if title == 'answered' else 'updates'} {title}")
            axis.set_xlabel("seconds of the processor")
            axis.set_ylabel("thousands")
        axes[0].legend(frameon=False)


# --- what an epoch costs ---------------------------------------------------------------------------------------------


def many_groups(report: Report, asked: Asked, size: Size) -> None:
    """A thousand rows on many groups."""
    medians: list[tuple[float, float]] = []
    rows = []
    for groups in size.groups:
        with place() as home:
            taken = rates.epochs_on(groups, A_THOUSAND, size.times, home / "db")
        for wall, cpu in taken:
            report.sample("epoch", wall, "s", groups=groups, rows=A_THOUSAND, cpu=round(cpu, 5))
        both = [statistics.median(t[i] for t in taken) for i in (0, 1)]
        medians.append((both[0], both[1]))
        worst = max(t[0] for t in taken)
        rows.append([short(groups), *(f"{1000 * x:.1f} ms" for x in (*both, worst))])
    load = os.getloadavg()[0]
    asked.at_most(
        f"{short(A_THOUSAND)} rows on {short(size.groups[0])} groups, here: ms of an epoch with its commit, median",
        1000 * medians[0][0],
        25,
        f"of it {1000 * medians[0][1]:.0f} ms are the processor's; the rest is waiting, for the disk and for the two cores, on which "
        f"the load was {load:.1f}",
    )
    asked.at_most(
        f"the same at {short(size.groups[2])} groups against {short(size.groups[1])}, the processor's time",
        medians[2][1] / medians[1][1],
        1.5,
        "every row finds its group in a file that is ten times as large, and in more runs",
    )
    report.say("## Many groups")
    report.say(f"{size.times} epochs of {A_THOUSAND:,} rows, a call a group, each with its commit.")
    report.table(["groups", "median", "of the processor", "longest"], rows)


def by_form(report: Report, asked: Asked, size: Size) -> None:
    """Rows a second and core, and a chain of stages."""
    wanted = {0: 300_000.0, 1: 200_000.0, 2: 2_000_000.0, 3: 2_000_000.0}
    rows = []
    for i, form in enumerate(rates.FORMS):
        with place() as home:
            found = rates.rates(form, size.rows, 5, home)
        for x in found:
            report.sample("rate", x, "rows a second and core", form=form.name)
        best = max(found)
        why = "grouping and sorting rows takes most of it" if i == 3 else ""
        asked.at_least(
            f"{form.name}: thousand rows a second and core", best / 1000, wanted[i] / 1000, why
        )
        rows.append([form.name, f"{best / 1e6:.2f} M", f"{statistics.median(found) / 1e6:.2f} M"])
    report.say("## Rows a second and core")
    report.say(f"Epochs of {size.rows:,} rows, with their commits.")
    report.table(["form", "best", "median"], rows)
    told = []
    for n in (1, 5):
        with place() as home:
            seconds, commits = rates.chain(n, size.rows // 5, 7, home / "db")
        for x in seconds:
            report.sample("chain", x, "s", stages=n, commits=commits)
        told.append((min(seconds), commits))
    (one, one_commits), (five, five_commits) = told
    alone = [rates.calls(n, size.rows // 5, 5) for n in (1, 5)]
    asked.at_most(
        "a chain of five stages row by row against one of them: time",
        five / one,
        1.5,
        f"nothing is written between them, but five functions are called: the calls alone, and the rows that they are given, take {1000 * alone[1]:.0f} ms in "
        f"plain Python of the {1000 * five:.0f} ms, and {1000 * alone[0]:.0f} ms of the {1000 * one:.0f} ms of one stage",
    )
    asked.at_most("the same: commits", five_commits / one_commits, 1)


# --- beside Spark ----------------------------------------------------------------------------------------------------


def beside_spark(report: Report, asked: Asked, size: Size, spark: SparkSession) -> None:
    """A micro-batch of the same function in Spark's stateful operators, and ours."""
    few, many = size.batches
    groups = size.streamed
    report.say("## Beside Spark's stateful operators")
    report.say(
        f"Counting rows by key, {short(groups)} groups (see below), RocksDB with changelog checkpoints. Seconds by the "
        f"clock of a micro-batch, and of ours `apply` and `run` together; the median of three of {few:,} rows, and one of {many:,}."
    )
    with place() as home, rates.counting(groups, home / "db") as c:

        def ours(rows: int) -> float:
            start = time.perf_counter()
            c.some(rows)
            return time.perf_counter() - start

        ours(few)
        mine = statistics.median(ours(few) for _ in range(9)), min(ours(many) for _ in range(3))
        c.check()
    for rows, value in zip(size.batches, mine, strict=True):
        report.sample("micro-batch", value, "s", who="headwater", rows=rows, groups=groups)
    table: list[list[str]] = [["headwater", *(f"{x:.3f}" for x in mine)]]
    skipped: list[str] = []
    rng: Any = np.random.default_rng(11)
    for name in PEERS:
        why = lacking(spark, name)
        if why:
            skipped.append(f"{name} is left out: {why}.")
            continue
        with place() as home:
            stream = Stateful(spark, name, groups, home)
            try:
                stream.take(rng.integers(0, groups, few))
                short_ones = [stream.take(rng.integers(0, groups, few)) for _ in range(3)]
                theirs = statistics.median(short_ones), stream.take(rng.integers(0, groups, many))
            finally:
                stream.close()
        for rows, value, own, least in zip(size.batches, theirs, mine, (10, 4), strict=True):
            report.sample("micro-batch", value, "s", who=name, rows=rows, groups=groups)
            asked.at_least(
                f"{name}, {short(rows)} rows: times slower than ours", value / own, least
            )
        table.append(
            [name, *(f"{x:.3f} ({number(x / m)}×)" for x, m in zip(theirs, mine, strict=True))]
        )
    report.table(["", f"{few:,} rows", f"{many:,} rows"], table)
    slowest = max(report.values("micro-batch", rows=many))
    if len(table) > 1 and groups < A_MILLION:
        report.say(
            f"A million groups were not tried: at the rate of the larger micro-batch, loading them would take up to {slowest * A_MILLION / many / 60:.0f} minutes."
        )
    with contextlib.suppress(PackageNotFoundError):
        found = version("protobuf")
        report.say(
            f"transformWithStateInPandas needs the package protobuf, which the project does not; {found} was there."
        )
    for line in skipped:
        report.say(line)
