"""Small changes: many views over one source, min and max beside DuckDB, and growth of the state; without Spark.

`many`: 100 rows into a source that 1, 10, 100 and 300 views read, each of three maps (a group's sums, its values in order, its
last answers); and into one where no row passes the filter of any view. `extremes`: min and max of 1 million rows by 100
thousand keys, 5 thousand rows in and 5 thousand out, beside DuckDB recomputing. `growth`: sums by key, 10 thousand rows into
1 million keys and into ten times as many (a hundred times at `full`), with the runs that are looked up, and the pages that
were not mapped or not in memory. Answers are compared before a number counts.
"""

from __future__ import annotations

import os
import resource
import statistics
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import headwater as hw
from benchmarks.duck import connected
from benchmarks.report import Report, number, plain, short, timed
from headwater.engine.probing import entries_at

VIEWS = (1, 10, 100, 300)
KEYS = 10_000
"""Keys of the groups of each of many views."""
GROWTH = 1.25
"""How much longer an increment may take at ten times the state."""


def run(report: Report, home: Path, pieces: tuple[str, ...]) -> None:
    """Some pieces, with their targets."""
    for piece in pieces:
        PIECES[piece](report, home / piece)


# --- many views -------------------------------------------------------------------------------------------------


def many(report: Report, home: Path) -> None:
    """The time of an increment over the number of views that it touches, and where it touches none."""
    counts = VIEWS[:2] if report.scale == "small" else VIEWS
    touched = {n: _of_views(report, home / f"touched-{n}", n, concerned=True) for n in counts}
    spared = {n: _of_views(report, home / f"spared-{n}", n, concerned=False) for n in counts}
    if report.scale != "small":
        report.at_most("100 views of three maps, 100 rows: seconds", touched[100], 0.3)
        report.at_most("300 views of three maps: milliseconds a map", touched[300] / 0.9, 1)
        a_view = (touched[300] - touched[100]) / 200
        slope = a_view / ((touched[100] - touched[10]) / 90)
        report.at_most("a view more, from 100 to 300, beside one from 10 to 100", slope, GROWTH)
        unconcerned = (spared[300] - spared[1]) / 299 * 1000
        report.at_most("a view that no row concerns: milliseconds", unconcerned, 0.05)
    report.say("100 rows into a source with views of three maps each; medians of increments.")
    rows = [
        [
            str(n),
            str(3 * n + 1),
            f"{1000 * touched[n]:.0f} ms",
            f"{1000 * touched[n] / (3 * n + 1):.2f} ms",
            f"{1000 * spared[n]:.1f} ms",
        ]
        for n in counts
    ]
    report.table(["views", "maps", "all touched", "a map", "none touched"], rows)
    with report.plot("many") as (axis,):
        for name, seconds in (("all touched", touched), ("none touched", spared)):
            values = [1000 * s for s in seconds.values()]
            axis.plot(list(seconds), values, marker="o", label=name)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.xaxis.set_major_formatter(plain)
        axis.yaxis.set_major_formatter(plain)
        axis.set_xlabel("views")
        axis.set_ylabel("milliseconds an increment")
        axis.legend(fontsize=8)


def _of_views(report: Report, home: Path, views: int, concerned: bool) -> float:
    """The median of an increment of 100 rows, once the views are found to be right."""
    rng = np.random.default_rng(5)

    def rows(n: int) -> pa.Table:
        columns = {"k": KEYS, "g": 100, "v": 1000}
        return pa.table({c: rng.integers(0, most, n) for c, most in columns.items()})

    with hw.open(home) as db:
        db.source("r", "k BIGINT, g BIGINT, v BIGINT")
        queries = [
            f"SELECT k, sum(v * {i + 1}) AS t, min(v + {i}) AS low FROM r "
            f"WHERE {'g >= 0' if concerned else f'g = {1000 + i}'} GROUP BY k"
            for i in range(views)
        ]
        for i, query in enumerate(queries):
            db.view(f"w{i}", query)
        every = [rows(20_000)]
        db.apply({"r": every[0]})
        seconds = []
        for turn in range(12):
            every.append(rows(100))
            taken, _ = timed(partial(db.apply, {"r": every[-1]}))
            if turn >= 3:
                seconds.append(taken)
        con = connected()
        con.register("r", pa.concat_tables(every))
        for i in {0, views - 1}:
            _same(db, f"w{i}", con.sql(queries[i]).to_arrow_table())
    facts = {"views": views, "concerned": concerned}
    for s in seconds:
        report.sample("many", s, "s", **facts)
    return statistics.median(seconds)


def _same(db: hw.Database, view: str, expected: pa.Table) -> None:
    """Raises unless a view has the rows of an answer."""
    names = expected.column_names
    found = db.table(view).select(names).sort_by([(n, "ascending") for n in names])
    expected = expected.cast(found.schema).sort_by([(n, "ascending") for n in names])
    if found.to_pydict() != expected.to_pydict():
        raise AssertionError(f"the answer of {view} differs from DuckDB's")


# --- min and max ------------------------------------------------------------------------------------------------


def extremes(report: Report, home: Path) -> None:
    """Min and max, half of the change deleted, beside DuckDB recomputing."""
    rows, change = (1_000_000, 5_000) if report.scale != "small" else (10_000, 50)
    query = "SELECT k, min(v) AS low, max(v) AS high FROM r GROUP BY k"
    rng = np.random.default_rng(7)

    def pairs(n: int) -> pa.Table:
        return pa.table({"k": rng.integers(0, rows // 10, n), "v": rng.integers(0, 10**9, n)})

    table, ours, duck = pairs(rows), list[float](), list[float]()
    with hw.open(home) as db:
        db.source("r", "k BIGINT, v BIGINT")
        db.view("w", query)
        db.apply({"r": table})
        for turn in range(13):
            gone = np.zeros(table.num_rows, np.bool_)
            gone[rng.choice(table.num_rows, change, replace=False)] = True
            new = pairs(change)
            given = hw.Delta(inserts=new, deletes=table.filter(pa.array(gone)))
            taken, _ = timed(partial(db.apply, {"r": given}))
            table = pa.concat_tables([table.filter(pa.array(~gone)), new]).combine_chunks()
            if turn < 3:
                continue
            ours.append(taken)
            con = connected()
            con.register("given", table)
            con.execute("CREATE TABLE r AS SELECT * FROM given")
            taken, expected = timed(lambda c=con: c.sql(query).to_arrow_table())  # type: ignore[misc]
            duck.append(taken)
            _same(db, "w", expected)
    for who, values in (("extremes", ours), ("extremes in DuckDB", duck)):
        for s in values:
            report.sample(who, s, "s", rows=rows, changed=2 * change)
    mine, theirs = statistics.median(ours), statistics.median(duck)
    name = f"min and max, {short(rows)} rows, {short(change)} in and {short(change)} out"
    if report.scale != "small":
        report.at_most(f"{name}: milliseconds", 1000 * mine, 20)
        report.at_least(f"{name}: times faster than DuckDB recomputing", theirs / mine, 1)
    report.say(f"{name}, medians of {len(ours)}:")
    report.table(
        ["", "median", "worst"],
        [
            [who, *(f"{1000 * f(v):.0f} ms" for f in (statistics.median, max))]
            for who, v in (("Headwater", ours), ("DuckDB, recomputing", duck))
        ],
    )


# --- growth -----------------------------------------------------------------------------------------------------


def growth(report: Report, home: Path) -> None:
    """The time of an increment over the size of the state, with what else it took."""
    sizes = {"small": (10_000, 100_000), "ordinary": (1_000_000, 10_000_000)}
    found, rows = {}, list[list[str]]()
    for keys in sizes.get(report.scale, (1_000_000, 10_000_000, 100_000_000)):
        seconds, runs, minor, major = _of_keys(report, home / str(keys), keys)
        found[keys] = statistics.median(seconds)
        told = (f"{1000 * f(seconds):.0f} ms" for f in (statistics.median, max))
        rows.append([short(keys), *told, number(runs), number(minor), number(major)])
    least = min(found)
    for keys, seconds_of in found.items():
        if keys > least and report.scale != "small":
            name = f"sums by {short(keys)} keys: times as long as by {short(least)}"
            report.at_most(name, seconds_of / found[least], GROWTH)
    report.say(
        "10 thousand rows into sums by key. Runs, and page faults, are those of an increment:"
    )
    report.table(["keys", "median", "worst", "runs", "page faults", "from disk"], rows)


def _of_keys(report: Report, home: Path, keys: int) -> tuple[list[float], float, float, float]:
    """Seconds of increments; runs of the map, and page faults with and without reading, of one of them."""
    rng = np.random.default_rng(11)
    counts, sums = np.zeros(keys, np.int64), np.zeros(keys, np.int64)

    def given(k: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Table:
        v = rng.integers(0, 1000, len(k))
        np.add.at(counts, k, 1)
        np.add.at(sums, k, v)
        return pa.table({"k": k, "v": v})

    with hw.open(home) as db:
        db.source("r", "k BIGINT, v BIGINT", retain=False)
        db.view("w", "SELECT k, sum(v) AS t, count(*) AS n FROM r GROUP BY k")
        for first in range(0, keys, 1_000_000):
            db.apply({"r": given(np.arange(first, min(first + 1_000_000, keys)))})
        db.compact()
        os.sync()  # or the disk is still at work on the load when increments wait for it
        (group,) = [m.name for m in db.program.maps.values() if m.kind == "value"]
        seconds, runs, faults = list[float](), list[int](), list[tuple[int, int]]()
        for turn in range(45):
            change = given(rng.integers(0, keys, min(10_000, keys // 10)))
            before = resource.getrusage(resource.RUSAGE_SELF)
            taken, _ = timed(partial(db.apply, {"r": change}))
            after = resource.getrusage(resource.RUSAGE_SELF)
            if turn < 5:
                continue
            seconds.append(taken)
            runs.append(len(db.store.at().version.maps[group][1]))
            faults.append((after.ru_minflt - before.ru_minflt, after.ru_majflt - before.ru_majflt))
        sample = np.sort(rng.choice(keys, 1000, replace=False))
        found = entries_at(db.store.at().arrangement(group), pa.table({"k0": sample}))
        found = found.sort_by("k0")
        for name, expected in (("k0", sample), ("r0", counts[sample]), ("r1", sums[sample])):
            if not np.array_equal(np.asarray(found.column(name)), expected):
                raise AssertionError("counts and sums are not those of the rows")
    for s, n in zip(seconds, runs, strict=True):
        report.sample("growth", s, "s", keys=keys, runs=n)
    minor, major = (statistics.median(f[i] for f in faults) for i in (0, 1))
    return seconds, statistics.median(runs), minor, major


PIECES = {"many": many, "extremes": extremes, "growth": growth}
