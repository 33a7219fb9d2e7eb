"""The demo: a shop's orders arrive day by day, some lines are returned, and two views stay fresh.

`revenue` joins orders with their lines and groups by customer; `bands` groups the customers of `revenue`. The first month is read by Spark
from Parquet files and loaded on Spark; so is the day of the sale, as on a cluster (`execution="spark"`: with few cores this process would
be chosen for a million rows, `engine/policy`). The other days are small, and need no job of Spark. Each says where it ran. Every
day is applied as one change, and both queries are also computed anew by plain Spark over the same rows as Parquet files, which it
reads best. Both ways end with the rows of `bands` in hand; they are compared, and all times are of this run.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from headwater.api.database import Database, open_database
from headwater.api.handles import Commit
from headwater.engine.spark.session import quiet_session
from headwater.engine.verify.compare import differences
from headwater.engine.view_rows import repeated
from headwater.errors import StateError
from headwater.io.events import Delta
from headwater.show.terminal import DIM, Paint, changes_shown, in_order, rows_shown, seconds, size

ORDERS, DAILY, DAYS, SALE = 300_000, 1_000, 5, 300_000
"""Orders of the month before, orders of each day, days, and orders of the day on which there is a sale."""
MONTH = date(2026, 2, 1)
ON_SALE = 3
"""The day of the sale."""
SOURCES = {
    "orders": "id BIGINT, customer BIGINT, day DATE",
    "lines": "order_id BIGINT, line INT, price DECIMAL(12,2)",
}
REVENUE = """SELECT o.customer, count(*) AS lines, sum(l.price) AS total, avg(l.price) AS mean
FROM orders o JOIN lines l ON o.id = l.order_id GROUP BY o.customer"""
BANDS = """SELECT CASE WHEN total >= 10000 THEN 'A' WHEN total >= 5000 THEN 'B' ELSE 'C' END AS band,
       count(*) AS customers, sum(total) AS revenue
FROM revenue GROUP BY band"""
FIRST = date(2026, 3, 2)
"""The first of the days that are told."""


def run(
    folder: Path | None, orders: int, daily: int, days: int, sale: int, paint: Paint, command: str
) -> None:
    """Tells the story in a directory, a temporary one unless it is named."""
    folder = folder or Path(tempfile.mkdtemp(prefix="headwater-demo-"))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StateError(f"{folder} is not empty", hint="name a directory that is empty or new")
    with tempfile.TemporaryDirectory() as beside:
        started = time.perf_counter()
        spark = quiet_session(Path(beside) / "spark.log")
        print(f"Spark {spark.version} is up after {seconds(time.perf_counter() - started)}\n")
        with open_database(folder, spark) as db:
            story = Story(db, Shop(orders), Parquet(spark.newSession(), Path(beside)), paint)
            story.begin(orders)
            first = db.version
            for day in range(1, days + 1):
                story.day(day, sale if day == ON_SALE else daily)
            story.end()
    print(f"\nThe database stays in {folder}. Look into it:")
    print(f"  {command} status {folder}")
    print(f"  {command} show {folder} bands --version {first}")
    print(f"  {command} explain {folder} bands")


class Shop:
    """Random orders, the same ones in every run."""

    def __init__(self, orders: int):
        self.random = np.random.default_rng(7)
        self.customers = max(10, orders // 5)
        self.next = 1

    def orders(self, count: int, day: date) -> tuple[pa.Table, pa.Table]:
        """The orders of a day or month, and their lines."""
        ids = np.arange(self.next, self.next + count)
        self.next += count
        customers = self.random.integers(1, self.customers + 1, count)
        days = pa.repeat(pa.scalar(day), count)
        many = self.random.integers(1, 7, count)
        starts = np.repeat(np.cumsum(many) - many, many)
        numbers = (np.arange(many.sum()) - starts + 1).astype(np.int32)
        cents = pa.array(self.random.integers(100, 50_000, many.sum()))
        price = pc.multiply(cents.cast(pa.decimal128(19)), Decimal("0.01"))
        return (
            pa.table({"id": ids, "customer": customers, "day": days}),
            pa.table(
                {
                    "order_id": np.repeat(ids, many),
                    "line": numbers,
                    "price": price.cast(pa.decimal128(12, 2)),
                }
            ),
        )

    def returned(self, lines: pa.Table, count: int) -> np.ndarray[Any, Any]:
        """Which lines are returned."""
        some = self.random.choice(lines.num_rows, min(count, lines.num_rows), replace=False)
        out = np.zeros(lines.num_rows, bool)
        out[some] = True
        return out


class Parquet:
    """The other way: the same rows as Parquet files, and the queries computed anew by Spark."""

    def __init__(self, spark: SparkSession, folder: Path):
        self.spark, self.folder = spark, folder
        spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))

    def write(self, source: str, when: str, rows: pa.Table) -> None:
        """The rows of a day or month, in place of those that were there."""
        (self.folder / source).mkdir(exist_ok=True)
        pq.write_table(rows, self.folder / source / f"{when}.parquet")

    def frame(self, source: str, spark: SparkSession) -> DataFrame:
        """All rows of a source, read by Spark from its files."""
        return spark.read.schema(SOURCES[source]).parquet(str(self.folder / source))

    def bands(self) -> tuple[pa.Table, float]:
        """The answer, and how long it took."""
        started = time.perf_counter()
        for name in SOURCES:
            self.frame(name, self.spark).createOrReplaceTempView(name)
        self.spark.sql(REVENUE).createOrReplaceTempView("revenue")
        return self.spark.sql(BANDS).toArrow(), time.perf_counter() - started


@dataclass
class Story:
    """The days, told one after another."""

    db: Database
    shop: Shop
    parquet: Parquet
    paint: Paint
    kept: float = 0.0
    anew: float = 0.0
    days: int = 0
    lines: pa.Table = None
    """The lines of the last month, some of which are returned."""

    def begin(self, orders: int) -> None:
        """The sources, the views, and the orders of the months before."""
        for name, ddl in SOURCES.items():
            self.db.source(name, ddl)
        for name, text in (("revenue", REVENUE), ("bands", BANDS)):
            self.db.view(name, text)
            print(self.paint.heading(f"VIEW {name}"))
            print("\n".join(f"  {line}" for line in text.splitlines()))
        print()
        made, self.lines = self.shop.orders(orders, MONTH)
        self._also(f"{MONTH:%Y-%m}", made, self.lines)
        month = {name: self.parquet.frame(name, self.db.spark) for name in SOURCES}
        commit = self.db.apply(month, execution="spark")
        print(
            f"{self.paint.heading(f'{MONTH:%B}')}   {made.num_rows:,} orders with {self.lines.num_rows:,} lines, read by"
            f" Spark from Parquet files, loaded in {seconds(commit.seconds)} ({_where(commit)})"
        )
        print(rows_shown(in_order(self._bands().drop_columns(["_w"])), None, self.paint, "  "))
        cold = sum(self.parquet.bands()[1] for _ in range(2))  # a query that runs often is compiled
        print(self.paint(f"  Spark's first two runs took {seconds(cold)} and do not count", DIM))

    def _bands(self) -> pa.Table:
        return self.db.table("bands")

    def day(self, number: int, orders: int) -> None:
        """A day's orders, and every other day some returns."""
        made, lines = self.shop.orders(orders, _date(number))
        back = self.shop.returned(self.lines, orders // 4 if number % 2 == 0 else 0)
        what = "the sale: " if number == ON_SALE else ""
        gone, self.lines = (self.lines.filter(pa.array(b)) for b in (back, ~back))
        change = {"orders": made, "lines": Delta(inserts=lines, deletes=gone)}

        started = time.perf_counter()
        commit = self.db.apply(change, execution="spark" if number == ON_SALE else "auto")
        bands = self._bands()
        kept = time.perf_counter() - started

        self._also(f"{_date(number)}", made, lines)
        self.parquet.write("lines", f"{MONTH:%Y-%m}", self.lines)
        expected, anew = self.parquet.bands()
        problem = differences(repeated(bands), expected, rounded=True)
        if problem:
            raise StateError(f"on day {number} the view `bands` differs from Spark's: {problem}")
        if number != ON_SALE:
            self.kept, self.anew, self.days = self.kept + kept, self.anew + anew, self.days + 1

        returned = f", {gone.num_rows:,} lines returned" if gone.num_rows else ""
        print(
            f"\n{self.paint.heading(_day(number))}   {what}{orders:,} orders with {lines.num_rows:,} lines{returned}"
        )
        for view, key, limit in (("revenue", "customer", 4), ("bands", "band", 6)):
            changed = self.db.changes_table(view, commit.version - 1).drop_columns(["_version"])
            print(f"  {view}: {changed.num_rows:,} rows changed")
            print(changes_shown(changed, limit, self.paint, "    ", by=[key]))
        times = self.paint.heading(f"{anew / kept:.{0 if anew > 2 * kept else 1}f} times")
        print(
            f"  kept fresh in {seconds(kept)} ({_where(commit)}), recomputed by Spark in"
            f" {seconds(anew)}: {times} as long, the same answer"
        )

    def end(self) -> None:
        """The sums, and the check."""
        started = time.perf_counter()
        self.db.verify()
        took = time.perf_counter() - started
        refs = [r for _, refs in self.db.store.at().version.maps.values() for r in refs]
        print(f"\n{self.paint.heading('In all')}")
        if self.days:
            print(
                f"  {self.days} ordinary days: {seconds(self.kept)} to keep the views fresh, {seconds(self.anew)} to"
                f" recompute them: {self.anew / self.kept:.0f} times as long"
            )
        print(f"  {size(sum(r.size for r in refs))} of state, inputs included")
        print(f"  verified in {seconds(took)}: both views are what their queries give")

    def _also(self, when: str, orders: pa.Table, lines: pa.Table) -> None:
        self.parquet.write("orders", when, orders)
        self.parquet.write("lines", when, lines)


def _date(number: int) -> date:
    return FIRST + timedelta(days=number - 1)


def _day(number: int) -> str:
    day = _date(number)
    return f"{day:%A} {day.day} {day:%B}"


def _where(commit: Commit) -> str:
    jobs = f"{commit.jobs} Spark job{'s' if commit.jobs != 1 else ''}"
    return f"on Spark, {jobs}" if commit.where == "spark" else f"in this process, {jobs}"
