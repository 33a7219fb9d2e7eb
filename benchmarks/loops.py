"""Iteration: what a change of a graph costs a loop that is kept, beside recomputing the loop.

Every case is loaded and takes eleven increments, of which the last nine count. After each, the peers recompute from the
same tables, warm, until they have taken their time; an answer that differs is an error, and no number counts before. The
cases with a second increment and a ninth are figures 3 and 4 of the paper: nine increments of four sizes each. A piece
of its own is how long it takes to define a loop of ten rounds, and of a hundred.
"""

from __future__ import annotations

import gc
import statistics
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

import headwater as hw
from benchmarks import loops_peers as peers
from benchmarks.loops_cases import CASES, FIXPOINT, LINKS, NODES, Case, ranks_10, ranks_100
from benchmarks.report import Progress, Report, number, short, timed
from benchmarks.views import Tables, changed, folder, session

WARM, COUNTED = 2, 9
PATIENCE = {"small": 2.0, "ordinary": 60.0, "full": 120.0}
"""Seconds that a peer may take in all; it is asked three times at least."""
DEFINED, MOST_MAPS = 0.5, 12
DAMPING = 0.85
PIECES = (*(c.name for c in CASES), "definition")


@dataclass
class Measured:
    """What one case measured at one size."""

    load: float
    seconds: list[float]
    commits: list[hw.Commit]
    others: dict[str, list[float]]
    error: tuple[float, float] | None = None
    """How far ranks that are kept near are from the fixpoint, and how far ten rounds are."""


def run(report: Report, pieces: tuple[str, ...] = ()) -> None:
    """All cases at the sizes of a scale, or some of them."""
    chosen = [sized(c, report.scale) for c in CASES if c.name in (pieces or PIECES)]
    chosen = [c for c in chosen if report.scale == "full" or not c.only_full]
    progress = Progress(len(chosen) + 1)
    spark = session()
    told = []
    for case in chosen:
        progress.step(case.title, 0)
        told.append((case, *measured_with_sizes(report, case, spark)))
        progress.step("")
    if told:
        tell(report, told)
    if "definition" in (pieces or PIECES):
        definition(report)
    progress.end()


def sized(case: Case, scale: str) -> Case:
    """A case at the size of a scale: the small one only shows that it runs."""
    if scale != "small":
        return case
    return replace(case, size=max(case.size // 250, 60), rows=max(case.rows // 20, 1))


Told = tuple[Case, Measured, list[Measured], Measured | None]


def measured_with_sizes(
    report: Report, case: Case, spark: SparkSession | None
) -> tuple[Measured, list[Measured], Measured | None]:
    """The case; with increments two, three and four times as large, if it is a figure; and at another size, if growth counts."""
    main = measured(report, case, spark, compare=True)
    larger = [
        measured(report, replace(case, rows=case.rows * n), spark, compare=False)
        for n in (2, 3, 4)
        if case.settled is not None
    ]
    other = None
    if case.grown is not None:
        # In a full run ten times the graph, else a tenth of it beside the one that was measured.
        size = case.size * 10 if report.scale == "full" else case.size // 10
        other = measured(report, replace(case, size=size), spark, compare=False)
    return main, larger, other


def measured(report: Report, case: Case, spark: SparkSession | None, compare: bool) -> Measured:
    """Loads, makes the increments, and has the peers recompute after each that counts."""
    rng = np.random.default_rng(18)
    tables = case.load(case.size, rng)
    out = Measured(0.0, [], [], {})
    asked = case.peers(spark) if compare else []
    with folder() as home, hw.open(home / "db", spark=spark) as db:
        for name, ddl in case.sources.items():
            db.source(name, ddl)
        db.view("answer", case.query, **case.options)
        out.load, _ = timed(lambda: db.apply(tables))
        gc.collect()
        for turn in range(WARM + COUNTED):
            change = case.change(tables, case.rows, turn, rng)
            given = {n: hw.Delta(inserts=i, deletes=d) for n, (i, d) in change.items()}
            seconds, commit = timed(partial(db.apply, given))
            tables = changed(tables, change)
            if turn < WARM:
                continue
            out.seconds.append(seconds)
            out.commits.append(commit)
            recompute(report, case, asked, tables, db, out.others)
        if case.options.get("mode") == "diffuse" and "links" in tables:
            out.error = errors(tables, db, case.options["cut"] / (1 - DAMPING))
    for peer in asked:
        peer.close()
    for seconds in out.seconds:
        report.sample("increment", seconds, "s", case=case.name, size=case.size, rows=case.rows)
    for who, values in out.others.items():
        for value in values:
            report.sample(who, value, "s", case=case.name, size=case.size, rows=case.rows)
    return out


def recompute(
    report: Report,
    case: Case,
    asked: list[peers.Peer],
    tables: Tables,
    db: hw.Database,
    others: dict[str, list[float]],
) -> None:
    """The seconds of the peers that have time left, each after its answer was compared with ours."""
    found = None
    for peer in asked:
        taken = others.setdefault(peer.name, [])
        if len(taken) >= 3 and sum(taken) > PATIENCE[report.scale]:
            continue
        found = db.table("answer").drop_columns(["_w"]) if found is None else found
        peer.given(tables)
        if not taken:
            peer.answer()  # its first run compiles
        seconds, answer = timed(peer.answer)
        if not case.compared or peer.name in case.compared:
            problem = peers.apart(found, answer, case.keys, case.near)
            if problem:
                raise AssertionError(f"{case.title}: not the answer of {peer.name}: {problem}")
        taken.append(seconds)


def errors(tables: Tables, db: hw.Database, most: float) -> tuple[float, float]:
    """The mean distance from the fixpoint: of ranks that are kept, which is bounded, and of ten rounds from nothing."""
    far = []
    arrays = peers.Numpy(peers.ranks(FIXPOINT))
    arrays.given(tables)
    fixed = arrays.answer().sort_by("node").column("rank").to_numpy()
    found = db.table("answer").sort_by("node").column("rank").to_numpy()
    ten = peers.ranks(10)(arrays.arrays).sort_by("node").column("rank").to_numpy()
    for rank in (found, ten):
        far.append(float(np.abs(rank - fixed).mean()))
    if far[0] > most:
        raise AssertionError(f"ranks are {far[0]:g} from the fixpoint, and may be {most:g}")
    return far[0], far[1]


# --- definition --------------------------------------------------------------------------------------------------


def definition(report: Report) -> None:
    """Seconds to define PageRank and the maps that it is kept in, whatever the number of rounds."""
    maps: dict[str, int] = {}
    rows = []
    for name, query in (("ten rounds", ranks_10), ("a hundred rounds", ranks_100)):
        taken = []
        for _ in range(3):
            with folder() as home, hw.open(home / "db") as db:
                for source, ddl in (NODES | LINKS).items():
                    db.source(source, ddl)
                seconds, _ = timed(partial(db.view, "answer", query))
                taken.append(seconds)
                maps[name] = len(db.program.maps)
        report.sample("definition", statistics.median(taken), "s", rounds=name, maps=maps[name])
        report.at_most(f"seconds to define PageRank of {name}", statistics.median(taken), DEFINED)
        report.at_most(f"maps of PageRank of {name}", maps[name], MOST_MAPS)
        rows.append([name, f"{1000 * statistics.median(taken):.0f} ms", str(maps[name])])
    if len(set(maps.values())) > 1:
        raise AssertionError(f"the maps of a loop depend on how many rounds it has: {maps}")
    report.say("## Definition")
    report.table(["PageRank", "defined in", "maps"], rows)


# --- telling -----------------------------------------------------------------------------------------------------


def tell(report: Report, told: list[Told]) -> None:
    """Targets, tables and figures."""
    for case, main, larger, other in told:
        judge(report, case, main, larger, other)
    who = list(dict.fromkeys(name for _, main, _, _ in told for name in main.others))
    rows = []
    for case, main, _, _ in told:
        ours = statistics.median(main.seconds)
        beside = (main.others.get(name) for name in who)
        cells = (
            f"{statistics.median(s):.3f} s ({number(statistics.median(s) / ours)}×)" if s else ""
            for s in beside
        )
        rows.append([named(case), f"{1000 * ours:.0f} ms", f"{main.load:.1f} s", *cells])
    report.say(
        f"Median of {COUNTED} increments after {WARM}; the peers recompute from warm tables, at every increment or as often "
        f"as {PATIENCE[report.scale]:.0f} s allow, three times at least. In brackets: how many times faster the increment is."
    )
    report.table(["case", "increment", "load", *who], rows)
    report.say("Rounds that increments visited, and rows that moved in them.")
    report.table(
        ["case", "rounds", "rows moved", "written", "where"],
        [[named(case), *visited(main.commits)] for case, main, _, _ in told],
    )
    figures = [(case, [main, *larger]) for case, main, larger, _ in told if larger]
    if figures:
        with report.plot("figures", columns=2, rows=(len(figures) + 1) // 2) as axes:
            for axis, (case, series) in zip(axes, figures, strict=False):
                for n, one in enumerate(series):
                    at = range(1, len(one.seconds) + 1)
                    axis.plot(at, one.seconds, label=f"+{short(case.rows * (n + 1))}")
                axis.set_ylim(bottom=0)
                axis.set_title(f"{case.title}, {short(case.size)}")
                axis.set_xlabel("increment")
                axis.set_ylabel("seconds")
                axis.legend(fontsize=8)


def named(case: Case) -> str:
    return f"{case.title}, {short(case.size)}, {short(case.rows)} changed"


def visited(commits: list[hw.Commit]) -> list[str]:
    """The median numbers of rounds and of moved rows, the bytes, and where it was."""
    rounds = [len(c.rounds.get("answer", ())) for c in commits]
    moved = [sum(n for _, n in c.rounds.get("answer", ())) for c in commits]
    written = statistics.median(c.bytes for c in commits) / 1e6
    medians = [f"{statistics.median(x):,.0f}" for x in (rounds, moved)]
    return [*medians, f"{written:.2f} MB", commits[-1].where]


def judge(
    report: Report, case: Case, main: Measured, larger: list[Measured], other: Measured | None
) -> None:
    """What is asked of a case; the small scale asks nothing."""
    if report.scale == "small":
        return
    ours, name = statistics.median(main.seconds), named(case)
    for who, times in case.asked.items():
        faster = statistics.median(main.others[who]) / ours
        report.at_least(f"{name}: times faster than {who}", faster, times)
    for n, one in enumerate([main, *larger], 1):
        if case.settled is not None:
            what = f"{case.title}, +{short(case.rows * n)}: ninth increment by the second"
            report.at_most(what, one.seconds[8] / one.seconds[1], case.settled)
    if case.against_load is not None:
        report.at_most(f"{name}: times its own load", ours / main.load, case.against_load)
    if case.a_round is not None:
        a_round = [
            s / max(1, len(c.rounds.get("answer", ())))
            for s, c in zip(main.seconds, main.commits, strict=True)
        ]
        what = f"{name}: milliseconds a visited round"
        report.at_most(what, 1000 * statistics.median(a_round), 1000 * case.a_round)
    if case.grown is not None and other is not None:
        beside: Any = statistics.median(other.seconds)
        grown = beside / ours if report.scale == "full" else ours / beside
        report.at_most(f"{name}: times as long at ten times the graph", grown, case.grown)
    if main.error is not None:
        report.at_most(f"{name}: times the error of ten rounds", main.error[0] / main.error[1], 2.0)
