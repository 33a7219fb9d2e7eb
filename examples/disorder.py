"""Events whose times are out of order, a watermark, and windows that are final when it has passed them.

The watermark is ten seconds behind the latest event. What is later than that is set aside and can be looked at; the rest is
counted, whatever the order. Windows that are over are told once, and what was kept to compute them goes: half an hour of
events needs as much state as five minutes. Run it with `python examples/disorder.py`.
"""

from __future__ import annotations

import random
import tempfile
from datetime import datetime, timedelta
from typing import Any

import headwater as hw

START = datetime(2026, 3, 1, 12)
QUERY = """SELECT window.start AS start, count(*) AS n, count(DISTINCT value) AS values
           FROM events GROUP BY window(ts, '10 seconds')"""


def events(seconds: int) -> list[tuple[Any, ...]]:
    """Twenty events a second, in the order in which they come: up to 8 seconds behind, and one in a thousand 30."""
    chance = random.Random(seconds)
    behind = [30 if chance.random() < 0.001 else chance.random() * 8 for _ in range(400)]
    at = [START + timedelta(seconds=seconds + i / 20 - b) for i, b in enumerate(behind)]
    return [(chance.choice("abc"), t, chance.randrange(10**6)) for t in at]


def main(folder: str) -> None:
    """Half an hour of events, twenty seconds at a time."""
    with hw.open(folder) as db:
        db.source(
            "events",
            "device STRING, ts TIMESTAMP, value BIGINT",
            append_only=True,
            retain="open",  # rows that are over need not be kept
            closes=hw.watermark("ts", "10 seconds"),
        )
        db.view("windows", QUERY)
        final = late = 0
        for seconds in range(0, 1800, 20):
            commit = db.apply({"events": events(seconds)})
            final += commit.closed.get("windows", 0)
            late += commit.late.get("events", 0)
            minutes, rest = divmod(seconds + 20, 60)
            if minutes % 10 == 5 and not rest:
                maps = db.store.at().version.maps.items()  # with a colon: ledgers, late rows
                kept = sum(r.rows for n, (_, refs) in maps if ":" not in n for r in refs)
                told = f"{final} windows are final, {late} events were late"
                print(f"{minutes} minutes: {told}, {kept} entries are kept")
        for row in db.final_table("windows").slice(30, 3).to_pylist():
            print(f"{row['start']:%H:%M:%S} {row['n']} events, told by version {row['_version']}")
        for row in db.late_table("events").slice(0, 1).to_pylist():
            print(f"late in version {row['_version']}: {row['ts']:%H:%M:%S} is in {row['_closed']}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
