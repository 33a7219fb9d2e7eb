"""The highest bids of every ten minutes (NEXMark 7), once as a stream and once in SQL: the same rows, ties included.

The stream puts a mark between bids every ten minutes, takes these for windows, and keeps the rows of each window that are
highest, all that tie. The view says the same with a join. Bids arrive out of order, in increments of any size; both tell a
window when it is over, and the view's final rows and the stream's output are equal. Run it with `python examples/highest_bids.py`.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import headwater as hw
import headwater.st as st

BIDS = "auction BIGINT, price BIGINT, ts TIMESTAMP"
STEPS = st.every("10 minutes", "tick") >> st.window("tick") >> st.highest("price")
SQL = """SELECT b.auction, b.price, b.ts FROM bids b JOIN
           (SELECT window.start AS starts, window.end AS ends, max(price) AS price
            FROM bids GROUP BY window(ts, '10 minutes')) w
         ON b.price = w.price AND b.ts >= w.starts AND b.ts < w.ends"""
START = datetime(2026, 3, 1, 11, 57, tzinfo=UTC)


def define(db: hw.Database) -> None:
    """Bids up to five minutes late, the stream, and the view."""
    db.source("bids", BIDS, append_only=True, closes=hw.watermark("ts", "5 minutes"))
    db.stream("highest", st.Seq("bids"), STEPS, order="ts")
    db.view("highest_sql", SQL)


def generated(count: int, seed: int = 7) -> list[tuple[Any, ...]]:
    """Bids in the order in which they come, with few prices, so that there are ties; some windows have none."""
    chance, at, made = random.Random(seed), START, []
    for i in range(count):
        at += timedelta(seconds=chance.choice([0, 2, 9]) if i % 100 else 1500)
        late = timedelta(seconds=chance.randrange(290))
        made.append((at + late, (chance.randrange(9), chance.randrange(60), at)))
    return [row for _, row in sorted(made)]


def rows(db: hw.Database) -> tuple[Counter[Any], Counter[Any]]:
    """What the stream has told, and what is final of the view."""
    told, final = db["highest"].output_table(), db.final_table("highest_sql")
    cells = [[t.column(n).to_pylist() for n in ("auction", "price", "ts")] for t in (told, final)]
    return Counter(zip(*cells[0], strict=True)), Counter(zip(*cells[1], strict=True))


def main(folder: str) -> None:
    """Two thousand bids in increments of different sizes."""
    bids, chance = generated(2000), random.Random(1)
    with hw.open(folder) as db:
        define(db)
        while bids:
            size = chance.choice([1, 40, 300])
            db.apply({"bids": bids[:size]})
            del bids[:size]
        db.punctuate("bids")  # the last window is over, too
        told, final = rows(db)
        windows = len({(ts.hour, ts.minute // 10) for _, _, ts in told})
        print(f"{windows} windows, {told.total()} highest bids; as in SQL: {told == final}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
