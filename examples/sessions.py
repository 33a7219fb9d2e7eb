"""Sessions of clicks: those of a user that follow each other within half an hour, told when they are over.

The stage has a clock, the latest click of anybody, and asks to be woken when a session is due: so one ends though its user
never comes again. How the clicks are cut into increments makes no difference. Run it with `python examples/sessions.py`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import headwater as hw
from headwater import flow

CLICKS = "user STRING, at TIMESTAMP"
GAP = timedelta(minutes=30)


@flow.stage(
    "clicks",
    by="user",
    order_by="at",
    state="start TIMESTAMP, last TIMESTAMP, n INT",
    clock="at",
    out="user STRING, start TIMESTAMP, last TIMESTAMP, n INT",
)
def sessions(user, clicks, state):
    for click in [*clicks, None]:  # None: now
        now = click.at if click else state.clock
        if state.n and now - state.last >= GAP:
            yield user, state.start, state.last, state.n
            state.clear()
        if click:
            state.start, state.last, state.n = state.start or now, now, (state.n or 0) + 1
    if state.n:
        state.wake(state.last + GAP)


def told(folder: Path, cuts: Iterable[list[Any]]) -> list[tuple[Any, ...]]:
    """The sessions of clicks that come in some increments."""
    with hw.open(folder) as db:
        db.source("clicks", CLICKS)
        db.stage(sessions)
        for clicks in cuts:
            db.apply({"clicks": clicks})
            db.run()
        rows = db.table("sessions").to_pylist()
        return sorted((r["user"], r["start"], r["last"], r["n"]) for r in rows)


def main(folder: str) -> None:
    """The same clicks at once, one by one, and by the hour."""
    day = datetime(2026, 3, 1)
    minutes = {"ann": (0, 5, 20, 90, 95), "bob": (10, 45, 50), "cid": (300,)}
    clicks = [(u, day + timedelta(minutes=m)) for u, some in minutes.items() for m in some]
    clicks.sort(key=lambda c: c[1])
    hours = [[c for c in clicks if c[1].hour == h] for h in range(24)]
    cuts = {
        "at once": [clicks],
        "one by one": [[c] for c in clicks],
        "by the hour": filter(None, hours),
    }
    for name, increments in cuts.items():
        found = told(Path(folder) / name.replace(" ", "_"), increments)
        print(f"{name}:", *(f"{u} {a:%H:%M}-{b:%H:%M} ({n})" for u, a, b, n in found))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
