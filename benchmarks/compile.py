"""Compiling: how long `db.view` takes on empty sources, and opening again, by the shape and the size of a query.

Every shape of `tests/oracles/query_shapes.py` is defined at growing sizes in a database of its own, three times, of which the
fastest counts. What is asked is a time for each size; how it grows is the ratio of two sizes beside that of their times.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from tests.oracles.query_shapes import SHAPES

import headwater as hw
from benchmarks.report import Progress, Report, number, timed

TIMES = 3
ASKED: dict[str, dict[int, float]] = {
    "a star of n dimensions, grouped": {4: 0.1, 6: 0.2, 8: 0.3, 9: 0.4, 12: 0.6},
    "n left joins": {3: 0.1, 4: 0.2, 5: 0.3, 6: 0.4, 10: 0.8},
    "a chain of n tables": {6: 0.1, 10: 0.3, 16: 0.6},
    "a table joined with itself n times": {6: 0.2, 8: 0.4, 9: 0.6},
    "FULL JOIN USING of n uses of one table": {3: 0.5, 10: 2, 30: 10},
    "n literal rows, crossed, under two full joins": {16: 2},
    "five tables, n OR-ed sets of conditions": {3: 1},
    "n views, each over the one before": {10: 2},
    "n views beside each other": {},
    "n tables, two by LEFT JOIN, one by a range": {11: 2, 12: 2},
    "a CTE of three tables, used n times": {4: 2, 5: 2, 6: 2},
}
"""Seconds, by size."""
MORE: dict[str, Sequence[int]] = {
    "n views, each over the one before": (5, 10, 20),
    "n tables, two by LEFT JOIN, one by a range": (6,),
    "n scalar subqueries": (4, 10, 30),
    "UNION ALL of n branches": (10, 50),
    "n columns": (50, 200),
    "an IN list of n values": (100, 1_000),
    "CASE of n branches": (50, 200),
}
"""Further sizes, of which nothing is asked."""
BESIDE, EARLY, LATE, MOST_LATER = "n views beside each other", 10, 300, 1.5
OPENED, MOST_OPENING = ("n views, each over the one before", 10), 0.3


@dataclass
class Took:
    """Seconds of the views of a database, one after another, and of opening it again."""

    views: list[float]
    opening: float
    maps: int


def run(report: Report) -> None:
    """Measures every shape; the small scale leaves out all but the first size."""
    sizes = {s: sorted({*ASKED.get(s, {}), *MORE.get(s, ())}) for s in SHAPES if s != BESIDE}
    if report.scale == "small":
        sizes = {s: some[:1] for s, some in sizes.items()}
    progress = Progress(sum(map(len, sizes.values())))
    rows = []
    for shape, some in sizes.items():
        before: tuple[int, float] | None = None
        for n in some:
            progress.step(f"{shape}, n = {n}")
            took = best(shape, n)
            seconds = sum(took.views)
            report.sample("view", seconds, "s", shape=shape, n=n, maps=took.maps)
            report.sample("open", took.opening, "s", shape=shape, n=n)
            asked = ASKED.get(shape, {}).get(n)
            if asked is not None:
                report.at_most(f"{shape}, n = {n}: seconds", seconds, asked)
            if (shape, n) == OPENED:
                report.at_most(f"{shape}, n = {n}: seconds to open", took.opening, MOST_OPENING)
            growth = f"{n / before[0]:.1f}× → {seconds / before[1]:.1f}×" if before else ""
            before = n, seconds
            rows.append(
                [shape, str(n), number(seconds), number(took.opening), str(took.maps), growth]
            )
    progress.end()
    if report.scale != "small":
        views = best(BESIDE, LATE, 1).views
        late, early = median(views[-9:]), median(views[EARLY - 5 : EARLY + 4])
        report.sample("view", late / early, "times", shape=BESIDE, n=LATE)
        name = f"{BESIDE}: view {LATE} as long as view {EARLY}, times"
        report.at_most(name, late / early, MOST_LATER)
    report.say("Seconds of `db.view` on empty sources, and of opening the database again.")
    report.table(["shape", "n", "define", "open", "maps", "n and time grow by"], rows)


def best(shape: str, n: int, times: int = TIMES) -> Took:
    """The fastest of some runs: of the views, and of opening."""
    runs = [once(shape, n) for _ in range(times)]
    fastest = min(runs, key=lambda t: sum(t.views))
    return Took(fastest.views, min(t.opening for t in runs), fastest.maps)


def once(shape: str, n: int) -> Took:
    sources, views = SHAPES[shape](n)
    folder = Path(mkdtemp(prefix="headwater-compile-"))
    try:
        db = hw.open(folder / "db")
        for name, ddl in sources.items():
            db.source(name, ddl)
        seconds = [timed(lambda q=q, i=i: db.view(f"v{i}", q))[0] for i, q in enumerate(views)]  # type: ignore[misc]
        opening, _ = timed(lambda: hw.open(folder / "db"))
        return Took(seconds, opening, len(db.program.maps))
    finally:
        shutil.rmtree(folder)


def median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
