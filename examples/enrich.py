"""Clicks with the country that their user lives in at that time, looked up in a view that changes.

The stage remembers what it gave for a click: when the click is taken back, that goes, though the user has moved since.
Run it with `python examples/enrich.py`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import datetime
from typing import Any

import headwater as hw
from headwater import flow

SOURCES = {
    "users": "id STRING, code STRING",
    "countries": "code STRING, name STRING",
    "clicks": "user STRING, at TIMESTAMP",
}
HOME = "SELECT u.id, c.name AS country FROM users u JOIN countries c ON u.code = c.code"


def define(db: hw.Database) -> Callable[..., Any]:
    """Three sources, a view of two of them, and the stage; gives the stage."""
    for name, columns in SOURCES.items():
        db.source(name, columns)
    db.view("home", HOME)

    @db.stage(
        "clicks",
        lookups={"home": flow.lookup("home", on={"user": "id"})},
        remember=True,
        out="user STRING, at TIMESTAMP, country STRING",
    )
    def enriched(click, home):
        return click.user, click.at, home[0].country if home else None

    return enriched


def rows(db: hw.Database) -> list[tuple[Any, ...]]:
    found = [(r["user"], r["at"], r["country"]) for r in db.table("enriched").to_pylist()]
    return sorted(found, key=lambda r: r[:2])


def main(folder: str) -> None:
    """Ann clicks, moves, and clicks again; then both clicks are taken back, and nothing is left."""
    first, second = ("ann", datetime(2026, 3, 1)), ("ann", datetime(2026, 3, 2))
    with hw.open(folder) as db:
        define(db)
        db.apply({"countries": [("no", "Norway"), ("pe", "Peru")], "users": [("ann", "no")]})
        for change in (
            {"clicks": [first, ("bob", datetime(2026, 3, 1))]},
            {"users": hw.Delta(inserts=[("ann", "pe")], deletes=[("ann", "no")])},
            {"clicks": [second]},
            {"clicks": hw.Delta(deletes=[first, second])},
        ):
            db.apply(change)
            db.run()
            print(", ".join(f"{u} {at:%d %B} {country}" for u, at, country in rows(db)))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
