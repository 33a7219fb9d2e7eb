"""Streams: state that stays flat, what closing costs, and Structured Streaming on the same streams.

A stream comes window by window, and a view over it is kept twice: with a watermark that closes what is over, and by a twin that is
never closed. Both answer as DuckDB does over all rows before a number counts. Then punctuations without rows over many open
groups, the late check, `explain` with its bounds, and Spark in append mode.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks import streams_points as points
from benchmarks.dataflow import Asked
from benchmarks.report import Progress, Report, number, short
from benchmarks.streams_cases import CASES, Case
from benchmarks.streams_peers import PEERS, Compared, compared
from benchmarks.streams_played import HERE, Played, both
from benchmarks.views import session

PARTS = ("flat", "points", "late", "explain", "spark")
FLAT, GROWS, STEADY, SHARE, CHECK = 1.2, 3.0, 1.25, 15.0, 5.0
"""What is asked for: times, and shares in %."""
COMING = 20
"""Increments over which bytes are averaged, at least: maps are looked at for dead entries by turns."""


@dataclass(frozen=True)
class Size:
    """How much of everything there is at a scale."""

    windows: int
    rows: int
    """Rows of a window."""
    increment: int
    groups: int
    """Open groups that punctuations meet."""
    checked: int
    """Rows of an increment that the late check is measured in."""
    streamed: tuple[int, int]
    """Rows of a small and of a large increment beside Spark."""
    counted: tuple[int, int]
    """How many of them."""
    cases: tuple[str, ...] = tuple(c.name for c in CASES)
    parts: tuple[str, ...] = PARTS

    @property
    def early(self) -> int:
        """The window that the last one is compared with."""
        return self.windows // 5

    def of(self, windows: range, values: Sequence[float]) -> list[float]:
        """What was measured in the increments of some windows, of which the first is 0."""
        each = self.rows // self.increment
        return list(values[windows.start * each : windows.stop * each])


SIZES = {
    "small": Size(20, 5_000, 2_500, 20_000, 20_000, (2_000, 20_000), (4, 2)),
    "ordinary": Size(100, 100_000, 10_000, 1_000_000, 100_000, (10_000, 1_000_000), (30, 5)),
    "full": Size(300, 100_000, 10_000, 1_000_000, 100_000, (10_000, 1_000_000), (60, 10)),
}


def run(report: Report, size: Size | None = None) -> None:
    """All of it; the small scale shows that it runs. Another size may be given."""
    size, asked = size or SIZES[report.scale], Asked(report)
    each = size.windows * size.rows // size.increment
    progress = Progress((2 * each * len(size.cases) if "flat" in size.parts else 0) + 4)
    report.say(
        f"{size.windows} windows of {size.rows:,} rows, {size.increment:,} rows an increment. Sources keep no copies of their "
        f"rows; ledgers are not counted. Every answer was compared with DuckDB's over all rows."
    )
    if size != SIZES[report.scale]:
        asked_for = SIZES[report.scale]
        report.say(
            f"This is less than the scale `{report.scale}`, which has {asked_for.windows} windows of {asked_for.rows:,} rows, "
            f"{asked_for.increment:,} rows an increment."
        )
    if "flat" in size.parts:
        flat(report, asked, size, progress)
    if "points" in size.parts:
        progress.step("punctuations without rows")
        punctuations(report, asked, size)
    if "late" in size.parts:
        progress.step("the late check")
        late(report, asked, size)
    if "explain" in size.parts:
        progress.step("explain")
        explain(report, asked)
    if "spark" in size.parts:
        progress.step("Structured Streaming")
        beside_spark(report, asked, size)
    progress.end()
    if asked.whys:
        report.say("## Missed, and why")
        report.say("\n".join(f"- {name}: {why}" for name, why in asked.whys))
    report.say(f"At the end {loaded()}.")


def loaded() -> str:
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    return f"the load was {load} (over 1, 5 and 15 minutes), on {os.cpu_count()} cores"


# --- state that stays flat -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Growth:
    """What a story says of its growth."""

    early: float
    last: float
    steady: float
    median: float

    @property
    def ratio(self) -> float:
        return self.last / self.early


def growth(size: Size, played: Played) -> Growth:
    """Bytes and times at the end beside those of a fifth of the way; bytes over a few windows, as runs come and go."""
    few = max(size.windows // 20, min(size.early, COMING * size.increment // size.rows), 1)
    early, last = (
        float(np.mean(size.of(range(w - few, w), played.bytes))) for w in (size.early, size.windows)
    )
    tenth = max(size.windows // 10, 1)
    before = size.of(range(tenth, 2 * tenth), played.seconds)
    after = size.of(range(size.windows - tenth, size.windows), played.seconds)
    steady = points.median(after) / points.median(before)
    return Growth(early, last, steady, points.median(played.seconds))


def flat(report: Report, asked: Asked, size: Size, progress: Progress) -> None:
    """Bytes and times of each view, closed and not."""
    rows, timed_parts = list[list[str]](), list[list[str]]()
    found: list[tuple[Case, Played, Played]] = []
    total, closing = 0.0, 0.0
    for case in [c for c in CASES if c.name in size.cases]:
        progress.step(case.name, 0)
        kept, twin = both(
            case,
            size.windows,
            size.rows,
            size.increment,
            size.early * size.rows // size.increment - 1,
            lambda name=case.name: progress.step(name),  # type: ignore[misc]
        )
        found.append((case, kept, twin))
        mine, other = growth(size, kept), growth(size, twin)
        share = 100 * kept.clocks.closing / sum(kept.seconds)
        total, closing = total + sum(kept.seconds), closing + kept.clocks.closing
        tell_samples(report, case, size, kept, twin)
        last = f"window {size.windows} against {size.early}"
        asked.at_most(
            f"{case.name}: bytes of maps, {last}, times", mine.ratio, FLAT, grown(case, kept)
        )
        asked.at_least(
            f"{case.name}: the same without purging, times",
            other.ratio,
            GROWS,
            f"from {number(other.early / 2**20)} to {number(other.last / 2**20)} MB",
        )
        asked.at_most(
            f"{case.name}: median increment, last tenth of windows against the second, times",
            mine.steady,
            STEADY,
            f"that of the twin is {number(other.steady)}; {loaded()}",
        )
        rows.append(
            [
                case.name,
                number(mine.last / 2**20),
                number(mine.ratio),
                number(other.last / 2**20),
                number(other.ratio),
                number(1000 * mine.median),
                number(1000 * other.median),
                f"{share:.1f} %",
                f"{kept.final:,}",
            ]
        )
        timed_parts.append([case.name, *parts_of(kept)])
    asked.at_most(
        "purging and closing, share of the time of all increments, %",
        100 * closing / total,
        SHARE,
        f"by part it is in the table of shares; {size.rows // size.increment} increments are a window, and one of them closes it",
    )
    report.say("## Bytes of maps, and increments")
    report.table(
        [
            "view",
            "MB at the end",
            "times",
            "MB, never closed",
            "times",
            "median ms",
            "never closed, ms",
            "closing and purging",
            "final rows",
        ],
        rows,
    )
    report.say("What closing and purging took, as shares of the time of all increments, in %:")
    report.table(["view", *NAMES], timed_parts)
    plot(report, size, found)


NAMES = (*(n.strip("_") for n in HERE), "counting dead entries", "rewriting for dead entries")


def parts_of(played: Played) -> list[str]:
    total = sum(played.seconds)
    return [f"{100 * played.clocks.seconds.get(n, 0.0) / total:.1f}" for n in NAMES]


def grown(case: Case, played: Played) -> str:
    """Why a story is not flat: what is known, and the maps that grew."""
    most = sorted(played.grown.items(), key=lambda m: m[1][0] - m[1][1])[:2]
    said = "; ".join(f"`{n}` from {a / 2**20:.1f} to {b / 2**20:.1f} MB" for n, (a, b) in most)
    half = played.bytes[len(played.bytes) // 2 :]
    between = f"between {min(half) / 2**20:.1f} and {max(half) / 2**20:.1f} MB in the second half"
    return f"{case.grows or 'they come and go with runs'}, {between} ({said})"


def tell_samples(report: Report, case: Case, size: Size, kept: Played, twin: Played) -> None:
    each = size.rows // size.increment
    for name, played in (("closed", kept), ("never closed", twin)):
        for w in range(size.windows):
            here = slice(w * each, (w + 1) * each)
            facts = {"view": case.name, "twin": name, "window": w + 1}
            report.sample("bytes of maps", float(np.mean(played.bytes[here])), "bytes", **facts)
            report.sample("increment", points.median(played.seconds[here]), "s", **facts)
    for n, s in kept.clocks.seconds.items():
        report.sample("closing and purging", s, "s", view=case.name, part=n)


def plot(report: Report, size: Size, found: list[tuple[Case, Played, Played]]) -> None:
    each = size.rows // size.increment
    with report.plot("bytes", columns=2, rows=max((len(found) + 1) // 2, 1)) as axes:
        for axis, (case, kept, twin) in zip(axes, found, strict=False):
            where = np.arange(len(kept.bytes)) / each
            axis.plot(where, np.array(twin.bytes) / 2**20, color="#bbb", label="never closed")
            axis.plot(where, np.array(kept.bytes) / 2**20, color="#2a7", label="closed")
            axis.set(title=case.name, xlabel="window", ylabel="MB of maps", ylim=(0, None))
            axis.legend(fontsize=8)


# --- what punctuations cost -----------------------------------------------------------------------------------------


def punctuations(report: Report, asked: Asked, size: Size) -> None:
    """Punctuations without rows, over groups that came in order of time, and mixed."""
    report.say("## Punctuations without rows")
    rows = []
    for mixed in (False, True):
        nothing, some = points.punctuated(size.groups, mixed, 10)
        how = "mixed" if mixed else "in order"
        for s in nothing:
            report.sample("a punctuation that closes nothing", s, "s", groups=size.groups, came=how)
        for s in some:
            report.sample("a punctuation that closes", s, "s", groups=size.groups, came=how)
        open_, over = short(size.groups), short(size.groups // points.OPEN)
        why = f"the least is {{:.1f}} ms; {loaded()}"
        asked.at_most(
            f"closes nothing of {open_} open groups that came {how}, ms",
            1000 * points.median(nothing),
            10,
            why.format(1000 * min(nothing)),
        )
        asked.at_most(
            f"closes {over} of {open_} open groups that came {how}, ms",
            1000 * points.median(some),
            150,
            why.format(1000 * min(some)),
        )
        least = [number(1000 * min(x)) for x in (nothing, some)]
        most = [number(1000 * max(x)) for x in (nothing, some)]
        rows.append([f"groups came {how}", least[0], most[0], least[1], most[1]])
    report.table(["", "nothing, least ms", "most", f"{over}, least ms", "most"], rows)


def late(report: Report, asked: Asked, size: Size) -> None:
    took, checks = points.late_check(size.checked, 12)
    for s, c in zip(took, checks, strict=True):
        report.sample("increment with a late check", s, "s", rows=size.checked, check=c)
    share = 100 * points.median(checks) / points.median(took)
    asked.at_most(
        f"late check, share of an increment of {short(size.checked)} rows, %", share, CHECK
    )
    report.say(
        f"The late check takes {1000 * points.median(checks):.1f} of {1000 * points.median(took):.0f} ms."
    )


def explain(report: Report, asked: Asked) -> None:
    took = points.explained()
    for name, (s, bounds) in took.items():
        report.sample("explain", s, "s", view=name, bounds=bounds)
    told = {n: s for n, (s, bounds) in took.items() if bounds}
    others = [n for n in took if n not in told]
    if told:
        slowest = max(told, key=lambda n: told[n])
        asked.at_most(
            f"`explain` with BOUNDS of {slowest}, the slowest of TPC-H, s", told[slowest], 1
        )
    if others:
        report.say(f"`explain` tells no BOUNDS of {', '.join(others)}.")


# --- Structured Streaming --------------------------------------------------------------------------------------------


def beside_spark(report: Report, asked: Asked, size: Size) -> None:
    """The same increments, small and large, ours and Spark's."""
    spark = session()
    report.say("## Beside Structured Streaming in append mode")
    rows = []
    for name in PEERS:
        cells = [name]
        for rate, many, least in zip(size.streamed, size.counted, (5.0, 1.5), strict=True):
            window = max(size.rows, rate)
            got = compared(spark, name, window, rate, many, skip=max(many // 4, 1))
            if isinstance(got, str):
                report.say(
                    f"{name}: not compared, as nothing of the view is told to be final: {got}"
                )
                cells += ["-", "-"]
                continue
            cells += tell_compared(report, asked, name, got, least)
        rows.append(cells)
    small, large = (short(n) for n in size.streamed)
    report.table(
        ["", f"{small} rows, ms", "Spark, ms", f"{large} rows, rows a second", "Spark"], rows
    )


def tell_compared(
    report: Report, asked: Asked, name: str, got: Compared, least: float
) -> list[str]:
    for who, took in (("ours", got.ours), ("Spark", got.spark)):
        for s in took:
            report.sample("beside Spark", s, "s", view=name, who=who, rows=got.rows)
    ours, theirs = points.median(got.ours), points.median(got.spark)
    asked.at_least(
        f"{name}: increments of {short(got.rows)} rows, times faster than Structured Streaming",
        theirs / ours,
        least,
        f"ours takes {1000 * ours:.0f} ms, Spark {1000 * theirs:.0f} ms",
    )
    if least == 5.0:
        return [number(1000 * ours), number(1000 * theirs)]
    return [number(got.rows / ours), number(got.rows / theirs)]
