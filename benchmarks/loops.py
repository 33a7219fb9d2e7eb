"""Iteration: what a change of a graph costs a loop that is kept, beside recomputing the loop.

Every case is loaded, and a copy takes eleven increments, of which the last nine count. After each, the peers recompute from the
same tables, warm, until they have taken their time; an answer that differs is an error, and no number counts before. The
cases with a second increment and a ninth are figures 3 and 4 of the paper: nine increments of four sizes each, the medians of three series. A piece
of its own is how long it takes to define a loop of ten rounds, and of a hundred.

What a case measured is kept in a file, so that cases can be measured one by one, each while the machine is quiet, and
told on one page in the end (`together`).
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import statistics
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

import headwater as hw
from benchmarks import edits
from benchmarks import loops_peers as peers
from benchmarks.loops_cases import CASES, FIXPOINT, LINKS, NODES, Case, ranks_10, ranks_100
from benchmarks.report import TRIAL, Progress, Report, number, short, timed
from benchmarks.views import Tables, changed, folder, session

WARM, COUNTED = 2, 9
SERIES = 3
"""How often increments are made of which two single ones are compared: of one time alone the machine says as much as we do."""
PATIENCE = {"small": 2.0, "ordinary": 60.0, "full": 120.0}
"""Seconds that a peer may take in all; it is asked once at least."""
DEFINED, MOST_MAPS = 0.5, 12
DAMPING = 0.85
LOOPS = (*(c.name for c in CASES), "definition")
PIECES = (*LOOPS, "edits")


@dataclass
class Visited:
    """What a commit says of its loop."""

    rounds: int
    moved: int
    bytes: int
    where: str

    @staticmethod
    def of(commit: hw.Commit) -> Visited:
        found = commit.rounds.get("answer", ())
        return Visited(len(found), sum(n for _, n in found), commit.bytes, commit.where)


@dataclass
class Measured:
    """What one case measured at one size."""

    size: int
    rows: int
    load: float
    seconds: list[float]
    visits: list[Visited]
    others: dict[str, list[float]]
    error: tuple[float, float] | None = None
    """How far ranks that are kept near are from the fixpoint, and how far ten rounds are."""

    @staticmethod
    def of_data(data: dict[str, Any]) -> Measured:
        """What was kept in a file."""
        error = data["error"]
        visits = [Visited(**v) for v in data["visits"]]
        return Measured(**{**data, "visits": visits, "error": (*error,) if error else None})


def run(report: Report, pieces: tuple[str, ...] = ()) -> None:
    """All loops at the sizes of a scale, or some of the pieces, of which edits are one that can be asked for."""
    chosen = _chosen(report.scale, pieces or LOOPS)
    progress = Progress(len(chosen) + 1)
    spark = session() if chosen else None
    told = []
    for case in chosen:
        progress.step(case.title, 0)
        told.append(measured_with_sizes(report, case, spark))
        keep(report, told[-1])
        progress.step("")
    if told:
        tell(report, told)
    if "definition" in (pieces or LOOPS):
        definition(report)
    if "edits" in pieces:
        load = round(os.getloadavg()[0], 1)
        edits.run(report)
        keep_edits(report, load)
    progress.end()


def together(report: Report) -> None:
    """Tells what cases measured before, each by itself."""
    chosen = _chosen(report.scale, PIECES)
    told = [kept(report, case) for case in chosen if _file(report, case.name).exists()]
    files = [json.loads(_file(report, case.name).read_text()) for case, *_ in told]
    commits = ", ".join(sorted({f.get("commit", report.versions.get("commit")) for f in files}))
    report.say(
        f"Cases were measured one by one, at {commits}, with the load that the machine had then: the last column. "
        "Where it is above the number of cores, others were at work, and single increments say little."
    )
    measured_ones = {case.name for case, *_ in told}
    if absent := [case.title for case in chosen if case.name not in measured_ones]:
        report.say(f"Not measured: {', '.join(absent)}.")
    tell(report, told)
    definition(report)
    if _file(report, "edits").exists():
        tell_edits(report)


def _chosen(scale: str, names: Iterable[str]) -> list[Case]:
    """The cases of these names that are measured at a scale."""
    chosen = [sized(c, scale) for c in CASES if c.name in set(names)]
    return [c for c in chosen if scale == "full" or not c.only_full]


def _file(report: Report, name: str) -> Any:
    return TRIAL / f"iteration-{report.scale}-{name}.kept.json"


def keep(report: Report, told: Told) -> None:
    """Writes down what a case measured."""
    case, main, larger, other, load = told
    plain = {
        "main": asdict(main),
        "larger": [asdict(one) for one in larger],
        "other": asdict(other) if other else None,
        "load": load,
        "commit": report.versions.get("commit", "unknown"),
    }
    TRIAL.mkdir(parents=True, exist_ok=True)
    _file(report, case.name).write_text(json.dumps(plain))


def kept(report: Report, case: Case) -> Told:
    """What a case measured before."""
    data = json.loads(_file(report, case.name).read_text())
    larger = [Measured.of_data(d) for d in data["larger"]]
    other = data["other"] and Measured.of_data(data["other"])
    return case, Measured.of_data(data["main"]), larger, other, data["load"]


def keep_edits(report: Report, load: float) -> None:
    """Writes down what edits measured."""
    samples = [s for s in report.samples if "edit" in s]
    plain = {"samples": samples, "load": load, "commit": report.versions.get("commit", "unknown")}
    TRIAL.mkdir(parents=True, exist_ok=True)
    _file(report, "edits").write_text(json.dumps(plain))


def tell_edits(report: Report) -> None:
    """Tells what edits measured before."""
    data = json.loads(_file(report, "edits").read_text())
    report.samples.extend(data["samples"])
    report.say("## Edits")
    report.say(f"Measured at {data['commit']}, with a load of {data['load']} at the start.")
    edits.tell(report)


def sized(case: Case, scale: str) -> Case:
    """A case at the size of a scale: the small one only shows that it runs."""
    if scale != "small":
        return case
    return replace(case, size=max(case.size // 250, 60), rows=max(case.rows // 20, 1))


Told = tuple[Case, Measured, list[Measured], Measured | None, float]
"""A case, what it measured, the same with larger increments and at another size, and the load of the machine."""


def measured_with_sizes(report: Report, case: Case, spark: SparkSession | None) -> Told:
    """The case; with increments two, three and four times as large, if it is a figure; and at another size, if growth counts."""
    load = os.getloadavg()[0]
    with folder() as home:
        loaded = Loaded.of(case, home, spark)
        main = measured(report, case, spark, True, loaded)
        larger = list[Measured]()
        if case.settled is not None:
            main = steadied(report, case, spark, loaded, main)
            larger = [
                steadied(report, replace(case, rows=case.rows * n), spark, loaded)
                for n in (2, 3, 4)
            ]
    other = None
    if case.grown is not None:
        # In a full run ten times the graph, else a tenth of it beside the one that was measured.
        size = case.size * 10 if report.scale == "full" else case.size // 10
        other = measured(report, replace(case, size=size), spark, compare=False)
    return case, main, larger, other, round(load, 1)


@dataclass
class Loaded:
    """A database with the tables of a case, in its files, to be copied; and what changes are drawn from."""

    home: Path
    tables: Tables
    rng: np.random.Generator
    seconds: float

    @staticmethod
    def of(case: Case, home: Path, spark: SparkSession | None) -> Loaded:
        rng = np.random.default_rng(18)
        tables = case.load(case.size, rng)
        with hw.open(home / "loaded", spark=spark) as db:
            for name, ddl in case.sources.items():
                db.source(name, ddl)
            db.view("answer", case.query, **case.options)
            seconds, _ = timed(lambda: db.apply(tables))
        return Loaded(home, tables, rng, seconds)


def measured(
    report: Report,
    case: Case,
    spark: SparkSession | None,
    compare: bool,
    loaded: Loaded | None = None,
) -> Measured:
    """Makes the increments on a copy of what was loaded, and has the peers recompute after each that counts."""
    if loaded is None:
        with folder() as home:
            return measured(report, case, spark, compare, Loaded.of(case, home, spark))
    tables, rng = loaded.tables, deepcopy(loaded.rng)
    out = Measured(case.size, case.rows, loaded.seconds, [], [], {})
    asked = case.peers(spark) if compare else []
    shutil.copytree(loaded.home / "loaded", loaded.home / "db")
    with hw.open(loaded.home / "db", spark=spark) as db:
        gc.collect()
        for turn in range(WARM + COUNTED):
            change = case.change(tables, case.rows, turn, rng)
            given = {n: hw.Delta(inserts=i, deletes=d) for n, (i, d) in change.items()}
            seconds, commit = timed(partial(db.apply, given))
            tables = changed(tables, change)
            if turn < WARM:
                continue
            out.seconds.append(seconds)
            out.visits.append(Visited.of(commit))
            recompute(report, case, asked, tables, db, out.others)
        if case.options.get("mode") == "diffuse" and "links" in tables:
            out.error = errors(tables, db, case.options["cut"] / (1 - DAMPING))
    shutil.rmtree(loaded.home / "db")
    for peer in asked:
        peer.close()
    return out


def steadied(
    report: Report,
    case: Case,
    spark: SparkSession | None,
    loaded: Loaded,
    first: Measured | None = None,
) -> Measured:
    """The same increments three times, each series on a copy of its own: the time of an increment is the median of its three."""
    series = [first] if first is not None else []
    while len(series) < SERIES:
        series.append(measured(report, case, spark, False, loaded))
    seconds = [statistics.median(s) for s in zip(*(one.seconds for one in series), strict=True)]
    return replace(series[0], seconds=seconds)


def sample(report: Report, case: Case, one: Measured) -> None:
    """Every single measurement."""
    for seconds in one.seconds:
        report.sample("increment", seconds, "s", case=case.name, size=one.size, rows=one.rows)
    for who, values in one.others.items():
        for value in values:
            report.sample(who, value, "s", case=case.name, size=one.size, rows=one.rows)


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
        if sum(taken) > PATIENCE[report.scale]:
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
    for case, main, larger, other, _ in told:
        for one in (main, *larger, *([other] if other else [])):
            sample(report, case, one)
        judge(report, case, main, larger, other)
    who = list(dict.fromkeys(name for _, main, *_ in told for name in main.others))
    rows = []
    for case, main, _, _, load in told:
        ours = statistics.median(main.seconds)
        beside = (main.others.get(name) for name in who)
        cells = (
            f"{statistics.median(s):.3f} s ({number(statistics.median(s) / ours)}×)" if s else ""
            for s in beside
        )
        rows.append(
            [named(case), f"{1000 * ours:.0f} ms", f"{main.load:.1f} s", *cells, f"{load:.1f}"]
        )
    report.say(
        f"Median of {COUNTED} increments after {WARM}; the peers recompute from warm tables, at every increment or as often "
        f"as {PATIENCE[report.scale]:.0f} s allow. In brackets: how many times faster the increment is."
    )
    report.table(["case", "increment", "filled in", *who, "load"], rows)
    report.say("Rounds that increments visited, and rows that moved in them.")
    report.table(
        ["case", "rounds", "rows moved", "written", "where"],
        [[named(case), *visited(main.visits)] for case, main, *_ in told],
    )
    tell_settled(report, told)
    figures = [(case, [main, *larger]) for case, main, larger, *_ in told if larger]
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


def tell_settled(report: Report, told: list[Told]) -> None:
    """What the second and the ninth increment had to do, where they are compared and a loop says it."""
    rows = []
    for case, main, larger, *_ in told:
        for n, one in enumerate([main, *larger], 1):
            if case.settled is None or not any(v.rounds for v in one.visits):
                continue
            cells = [
                f"{1000 * one.seconds[i]:.0f} ms, {one.visits[i].rounds} rounds, {one.visits[i].moved:,} rows"
                for i in (1, 8)
            ]
            rows.append([f"{case.title}, +{short(case.rows * n)}", *cells])
    if rows:
        report.say(
            "The second increment and the ninth: where one of them moves rows in more rounds, it has more to do, whatever was before it."
        )
        report.table(["case", "second", "ninth"], rows)


def named(case: Case) -> str:
    return f"{case.title}, {short(case.size)}, {short(case.rows)} changed"


def visited(visits: list[Visited]) -> list[str]:
    """The median numbers of rounds and of moved rows, the bytes, and where it was."""
    written = statistics.median(v.bytes for v in visits) / 1e6
    rounds, moved = (
        statistics.median(x) for x in zip(*((v.rounds, v.moved) for v in visits), strict=True)
    )
    return [f"{rounds:,.0f}", f"{moved:,.0f}", f"{written:.2f} MB", visits[-1].where]


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
        a_round = [s / max(1, v.rounds) for s, v in zip(main.seconds, main.visits, strict=True)]
        what = f"{name}: milliseconds a visited round"
        report.at_most(what, 1000 * statistics.median(a_round), 1000 * case.a_round)
    if case.grown is not None and other is not None:
        beside: Any = statistics.median(other.seconds)
        grown = beside / ours if report.scale == "full" else ours / beside
        report.at_most(f"{name}: times as long at ten times the graph", grown, case.grown)
    if main.error is not None:
        report.at_most(f"{name}: times the error of ten rounds", main.error[0] / main.error[1], 2.0)
