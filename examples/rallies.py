"""SQL, then order, then SQL: prices of every minute by a view, rallies in them by a stream, rallies counted by a view.

The view `prices` has the highest trade of each minute; a minute is final when trades before its end are over. Its final rows
are a header of the stream, which finds three minutes in a row that rise, in each item by itself: a pattern over rows in order,
which SQL has no word for. What the stream marks is a relation again, and a view counts it. All of it is one commit.
Run it with `python examples/rallies.py`.
"""

from __future__ import annotations

import random
import tempfile
from datetime import UTC, datetime, timedelta
from typing import Any

import headwater as hw
import headwater.st as st

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
PRICES = """SELECT item, window.start AS minute, max(price) AS price
            FROM trades GROUP BY item, window(ts, '1 minute')"""
COUNTED = "SELECT item, count(*) AS rallies, max(minute) AS latest FROM rallies GROUP BY item"


def compare(at: Any, row: Any, emit: Any) -> Any:
    """Whether the price of a minute is above that of the minute before."""
    emit("moves", row.item, row.minute, row.price, at.price is not None and row.price > at.price)
    return (row.price,)


MOVES = {"moves": "item STRING, minute TIMESTAMP, price BIGINT, rises BOOLEAN"}
RALLY = st.when("rises").times(3)
STEPS = st.partitioned(st.fold(compare, state="price BIGINT", gives=MOVES)) >> st.lift(
    "seq moves", st.mark(RALLY, "rallies", keep=True)
)


def define(db: hw.Database) -> None:
    """Trades, a view over them, a stream over the view, a view over the stream."""
    db.source("trades", "item STRING, ts TIMESTAMP, price BIGINT", append_only=True, closes="ts")
    db.view("prices", PRICES)
    db.stream("found", st.PartitionBy("item", st.Seq("prices")), STEPS, order="minute")
    db.view("counted", COUNTED)


def generated(minutes: int, seed: int = 5) -> list[tuple[Any, ...]]:
    """Some trades of each item in each minute."""
    chance = random.Random(seed)
    return [
        (item, START + timedelta(minutes=m, seconds=chance.randrange(60)), chance.randrange(100))
        for m in range(minutes)
        for item in "abc"
        for _ in range(3)
    ]


def main(folder: str) -> None:
    """Two hours of trades, shuffled, a quarter of an hour at a time."""
    trades, chance = generated(120), random.Random(1)
    with hw.open(folder) as db:
        define(db)
        for quarter in range(8):
            until = START + timedelta(minutes=15 * (quarter + 1))
            some = [t for t in trades if until - timedelta(minutes=15) <= t[1] < until]
            chance.shuffle(some)
            db.apply({"trades": some}, punctuate={"trades": hw.closed(ts=hw.below(until))})
        for row in sorted(db.table("counted").to_pylist(), key=lambda r: str(r["item"])):
            print(f"{row['item']}: {row['rallies']} rallies, the latest at {row['latest']:%H:%M}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
