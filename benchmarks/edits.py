"""Edits: what it takes to give a view another query, beside dropping and defining it.

A join of many lines with their orders has a filter that is widened, by a hundredth of the rows that it lets through, again and
again; and a report by customer over the same join, with another view above it, gets another HAVING. Each answer is compared with one
that NumPy computes before a number counts. Rows written are those of all maps together.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import headwater as hw
from benchmarks.report import Progress, Report, number, short, timed
from benchmarks.views import folder, session

FASTER, WRITTEN = 10.0, 2.0
"""Times that a wider filter is faster than defining anew, and rows written by the rows that differ, at most."""
PRICES, FIRST = 1_000_000, 700_000
"""Prices of lines are below this, and the first filter lets through those below that."""
JOIN = "SELECT o.id, o.customer, l.price FROM orders o JOIN lines l ON o.id = l.order_id WHERE l.price < {}"
REPORT = (
    "SELECT o.customer, count(*) AS n, sum(l.price) AS total FROM orders o JOIN lines l ON o.id = l.order_id"
    " GROUP BY o.customer HAVING count(*) > {}"
)
ABOVE = "SELECT n, count(*) AS customers, sum(total) AS total FROM report GROUP BY n"


@dataclass(frozen=True)
class Size:
    """How many lines there are, how many edits count, and how often the view is defined anew."""

    lines: int
    edits: int
    anew: int


SIZES = {
    "small": Size(4_000, 2, 1),
    "ordinary": Size(5_000_000, 9, 2),
    "full": Size(5_000_000, 9, 3),
}
EDITS = {
    "a wider filter": "the filter of a join over {} rows widened by 1 %",
    "another HAVING": "another HAVING over a join of {} rows",
}
"""The edits, as they are told of so many rows."""
EARLY = 2
"""Edits that do not count."""


@dataclass(frozen=True)
class Tables:
    """Orders by their place, and lines."""

    customers: Any
    order_ids: Any
    prices: Any

    @staticmethod
    def of(lines: int) -> Tables:
        rng = np.random.default_rng(18)
        orders = max(1, lines // 4)
        return Tables(
            rng.integers(0, max(1, lines // 100), orders),
            rng.integers(0, orders, lines),
            rng.integers(0, PRICES, lines),
        )

    def apply(self, db: hw.Database) -> None:
        db.source("orders", "id BIGINT, customer BIGINT")
        db.source("lines", "order_id BIGINT, price BIGINT")
        ids = np.arange(len(self.customers))
        db.apply({"orders": pa.table({"id": ids, "customer": self.customers})})
        db.apply({"lines": pa.table({"order_id": self.order_ids, "price": self.prices})})


def run(report: Report) -> None:
    """Measures both edits."""
    size = SIZES[report.scale]
    tables = Tables.of(size.lines)
    spark = session() if report.scale == "full" else None
    progress = Progress(EARLY + size.edits + size.anew + 3)
    with folder() as home, hw.open(home / "db", spark=spark) as db:
        tables.apply(db)
        wider(report, db, tables, size, progress)
        other_having(report, db, tables, progress)
    progress.end()
    tell(report)


def wider(report: Report, db: hw.Database, tables: Tables, size: Size, progress: Progress) -> None:
    """The filter of a join, widened by a hundredth each time."""
    limit = FIRST
    db.view("joined", JOIN.format(limit))
    for i in range(EARLY + size.edits):
        progress.step("a wider filter")
        before, limit = limit, limit + FIRST // 100
        query = JOIN.format(limit)
        seconds, _ = timed(lambda query=query: db.view("joined", query, replace=True))  # type: ignore[misc]
        differ = int(((tables.prices >= before) & (tables.prices < limit)).sum())
        check_join(db, tables, limit)
        if i >= EARLY:
            facts: dict[str, Any] = {"edit": "a wider filter", "lines": size.lines}
            report.sample("replace", seconds, "s", **facts)
            report.sample("written", written(db) / differ, "rows a row that differs", **facts)
    for _ in range(size.anew):
        progress.step("defined anew")
        db.drop("joined")
        seconds, _ = timed(lambda: db.view("joined", JOIN.format(limit)))
        check_join(db, tables, limit)
        report.sample("define", seconds, "s", edit="a wider filter", lines=size.lines)


def other_having(report: Report, db: hw.Database, tables: Tables, progress: Progress) -> None:
    """HAVING of a report, under which one customer or none falls, and a view above it."""
    counts = np.bincount(tables.customers[tables.order_ids])
    some = np.sort(counts[counts > 0])
    least = int(some[len(some) // 100])
    progress.step("a report")
    db.view("report", REPORT.format(least))
    db.view("above", ABOVE)
    progress.step("another HAVING")
    seconds, _ = timed(lambda: db.view("report", REPORT.format(least + 1), replace=True))
    rows, differ = written(db), int((some == least + 1).sum())
    check_report(db, tables, least + 1)
    facts: dict[str, Any] = {"edit": "another HAVING", "lines": len(tables.prices)}
    report.sample("replace", seconds, "s", **facts)
    report.sample("written", rows / max(1, differ), "rows a row that differs", **facts)
    progress.step("defined anew")
    db.drop("above")
    db.drop("report")

    def define() -> None:
        db.view("report", REPORT.format(least + 1))
        db.view("above", ABOVE)

    seconds, _ = timed(define)
    check_report(db, tables, least + 1)
    report.sample("define", seconds, "s", **facts)


def tell(report: Report) -> None:
    """The targets of both edits, and their numbers, from the samples."""
    rows = []
    for edit, what in EDITS.items():
        lines = next(s["lines"] for s in report.samples if s.get("edit") == edit)
        said = what.format(short(lines))
        rows.append([said, *judged(report, edit, said)])
    report.table(
        ["edit", "replaced, s", "defined anew, s", "rows written by the rows that differ"], rows
    )


def judged(report: Report, edit: str, said: str) -> list[str]:
    """The targets of an edit, and its row of numbers."""
    replaced, defined, rows = (
        median(report.values(what, edit=edit)) for what in ("replace", "define", "written")
    )
    report.at_least(f"{said}: times faster than dropping and defining", defined / replaced, FASTER)
    report.at_most(f"{said}: rows written by the rows that differ", rows, WRITTEN)
    return [number(replaced), number(defined), number(rows)]


def written(db: hw.Database) -> int:
    """The entries that the last version has written, of all maps."""
    maps = db.store.at(db.version).version.maps.values()
    return sum(r.rows for _, refs in maps for r in refs if r.version == db.version)


# --- answers ----------------------------------------------------------------------------------------------------------


def check_join(db: hw.Database, tables: Tables, limit: int) -> None:
    """The join is the lines below the limit, each with its order."""
    mine = tables.prices < limit
    ids, prices = tables.order_ids[mine], tables.prices[mine]
    check(db, "joined", {"id": ids, "customer": tables.customers[ids], "price": prices})


def check_report(db: hw.Database, tables: Tables, least: int) -> None:
    """The report has the customers with more lines than that, and the view above it as many as have so many lines."""
    customers = tables.customers[tables.order_ids]
    counts = np.bincount(customers)
    totals = np.bincount(customers, tables.prices).astype(np.int64)
    some = np.flatnonzero(counts > least)
    check(db, "report", {"customer": some, "n": counts[some], "total": totals[some]})
    ns, places = np.unique(counts[some], return_inverse=True)
    sums = np.bincount(places, totals[some]).astype(np.int64)
    check(db, "above", {"n": ns, "customers": np.bincount(places), "total": sums})


def check(db: hw.Database, name: str, expected: dict[str, Any]) -> None:
    """A view has these rows, in any order."""
    table = db.table(name)
    weights = table.column("_w").to_numpy()
    found = [np.repeat(table.column(n).to_numpy(), weights) for n in expected]
    wanted = [np.asarray(a) for a in expected.values()]
    assert all(
        np.array_equal(a, b) for a, b in zip(_sorted(found), _sorted(wanted), strict=True)
    ), f"{name} is wrong"


def _sorted(columns: list[Any]) -> list[Any]:
    order = np.lexsort(columns)
    return [c[order] for c in columns]
