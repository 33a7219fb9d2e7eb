"""Taxis: what a mile cost in each hour, and fixes that cannot be true, whatever the order in which rows arrive.

Fixes of one taxi have an order, those of different taxis have none, and rides of an hour have none at all; the end of an
hour stands behind everything before it. The schema says so, and the steps follow it from the inside out: P1 adds up what
rides cost, P2 follows one taxi and tells outliers, P3 adds up all taxis, P4 divides, P5 tells a rate when an hour is over.
The rates are a relation, which a SQL view reads. Run it with `python examples/taxi.py`.
"""

from __future__ import annotations

import math
import tempfile
from datetime import UTC, datetime
from typing import Any

import headwater as hw
import headwater.st as st


def drive(at: Any, fix: Any, emit: Any) -> Any:
    """One taxi, fix after fix: a fix more than a mile away is told, and the taxi stays where it was."""
    if at.x is None:
        return fix.x, fix.y, 0.0
    step = math.hypot(fix.x - at.x, fix.y - at.y)
    if step > 1:
        emit("outliers", fix.taxi, fix.ts, fix.x, fix.y)
        return at
    return fix.x, fix.y, at.miles + step


P1 = st.relational("SELECT sum(cost) AS cost FROM rides")
P2 = st.fold(
    drive,
    state="x DOUBLE, y DOUBLE, miles DOUBLE",
    result="miles",
    gives={"outliers": "taxi BIGINT, ts TIMESTAMP, x DOUBLE, y DOUBLE"},
)
P3 = st.partitioned(P2, agg="SELECT sum(miles) AS miles FROM results")
P4 = st.parallel(P3, P1, fin="SELECT cost / nullif(miles, 0) AS rate FROM lefts, rights")
P5 = st.hierarchical(P4, update="SELECT mark.ts AS hour, rate FROM mark, result", gives="rates")
TAXIS = st.Sync("hour", st.Par(st.PartitionBy("taxi", st.Seq("gps")), st.Bag("rides")))


def define(db: hw.Database) -> None:
    """The sources, the stream, and a view over what it tells."""
    db.source("gps", "taxi BIGINT, ts TIMESTAMP, x DOUBLE, y DOUBLE", closes="ts")
    db.source("rides", "taxi BIGINT, ts TIMESTAMP, cost DOUBLE", closes="ts")
    hours = {"hour": "1 hour"}
    db.stream("taxis", TAXIS, P5, order="ts", marks=hours, closes={"rates": "hour"})
    db.view("worst", "SELECT date(hour) AS day, max(rate) AS rate FROM rates GROUP BY date(hour)")


def at(hour: int, minute: int = 0) -> datetime:
    """A time of one day."""
    return datetime(2026, 3, 1, hour, minute, tzinfo=UTC)


def main(folder: str) -> None:
    """Four hours: fixes out of order, an outlier, a taxi over an hour's end, and an hour in which nobody drives."""
    with hw.open(folder) as db:
        define(db)

        def told(what: str, changes: dict[str, Any], over: datetime | None = None) -> None:
            ends = {} if over is None else dict.fromkeys(("gps", "rides"), _until(over))
            version = db.apply(changes, punctuate=ends).version
            rates = db["taxis"].output_table("rates", since=version - 1).to_pylist()
            shown = [f"{r['hour']:%H:%M} {r['rate']}" for r in rates]
            print(f"{what}: {', '.join(shown) or 'no rate'}")

        some = [(7, at(8, 20), 0.5, 0.0), (7, at(8, 10), 0.0, 0.0), (8, at(8, 30), 5.0, 5.0)]
        told("fixes and a ride", {"gps": some, "rides": [(7, at(8, 15), 3.0)]})
        more = [(7, at(8, 40), 9.0, 9.0), (8, at(8, 50), 5.0, 5.25), (7, at(8, 55), 0.5, 0.5)]
        told("the others of this hour", {"gps": more, "rides": [(8, at(8, 45), 2.0)]}, at(9))
        for row in db["taxis"].output_table("outliers").to_pylist():
            print(f"an outlier of taxi {row['taxi']} at {row['ts']:%H:%M}")
        # Taxi 7 drives on over the hour's end. Its way between two hours is in neither.
        rest = [(7, at(9, 5), 0.75, 0.5), (7, at(9, 10), 0.75, 1.0)]
        told("a taxi over the hour's end", {"gps": rest, "rides": [(7, at(9, 30), 4.0)]}, at(10))
        told("an hour without fixes", {"rides": [(8, at(10, 30), 1.0)]}, at(11))
        told("a fix that waits", {"gps": [(8, at(11, 30), 5.0, 5.0)]})
        print(*db["taxis"].pending(), sep="\n")
        print(
            "the worst hours:", [(str(r["day"]), r["rate"]) for r in db.table("worst").to_pylist()]
        )
        db["taxis"].verify()


def _until(time: datetime) -> Any:
    return hw.closed(ts=hw.below(time))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
