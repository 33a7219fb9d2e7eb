"""Zones that nobody called about: final as soon as the calls of an hour are over, whatever else is still open.

Monitors report that a zone is out of power; calls come from people there. Calls of an hour end before the monitors end it,
and a zone that nobody called about by then is told once and stays. Run it with `python examples/outage.py`.
"""

from __future__ import annotations

import tempfile

import headwater as hw


def main(folder: str) -> None:
    """Three hours: what is final, when it was told, and what is still open."""
    with hw.open(folder) as db:
        db.source("monitors", "zone INT, hour INT", append_only=True, closes="hour")
        db.source("calls", "zone INT, hour INT, phone STRING", append_only=True, closes="hour")
        db.view("silent", "SELECT zone, hour FROM monitors EXCEPT SELECT zone, hour FROM calls")

        def told(what: str, commit: hw.Commit) -> None:
            new = db.final_table("silent", since=commit.version - 1).to_pylist()
            zones = [f"zone {r['zone']} at {r['hour']}" for r in new]
            print(f"{what}: {', '.join(zones) or 'nothing'} is final")

        out = {"monitors": [(1, 3), (2, 3), (3, 3), (1, 4)], "calls": [(2, 3, "555-0100")]}
        told("reports and a call", db.apply(out))
        over = {"calls": hw.closed(hour=3)}
        told("the last call of hour 3", db.apply({"calls": [(3, 3, "555-0101")]}, punctuate=over))
        # The monitors go on with hour 3: calls of it cannot come, so a new zone is final at once, or never there.
        told("two more reports of hour 3", db.apply({"monitors": [(4, 3), (2, 3)]}))
        told("the monitors end hour 3", db.punctuate("monitors", hour=3))  # no rows needed
        try:
            db.apply({"calls": [(1, 3, "555-0102")]})
        except hw.HeadwaterError as e:
            print(e)
        told("calls of hour 4 end", db.punctuate("calls", hour=hw.upto(4)))
        told("there are no more calls at all", db.punctuate("calls"))
        told("a report of hour 5", db.apply({"monitors": [(7, 5)]}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
