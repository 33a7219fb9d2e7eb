"""A graph that changes, with three loops over it: ranks, components and shortest paths stay what they would be anew.

A loop is `hw.repeat` in Python, or a recursive WITH in SQL. `Commit.rounds` says which rounds a change went through, and how
many rows moved in each. Run it with `python examples/graph.py`.
"""

from __future__ import annotations

import tempfile

import headwater as hw


@hw.query
def ranks(places, roads):
    out = [{"place": p.place, "n": len([r for r in roads if r.src == p.place])} for p in places]
    return hw.repeat(
        [{"place": p.place, "rank": 1.0} for p in places],
        lambda rank: [{"place": p.place, "rank": 0.15 + 0.85 * sum(
            x.rank / o["n"] for r in roads if r.dst == p.place
            for o in out if o["place"] == r.src for x in rank if x.place == r.src)} for p in places],
        times=10,
    )  # fmt: skip


COMPONENTS = """
WITH MUTUALLY RECURSIVE component (place STRING, label STRING) AS (
  SELECT place, min(label) AS label FROM (
    SELECT place, place AS label FROM places UNION ALL
    SELECT r.dst, c.label FROM component c JOIN roads r ON r.src = c.place UNION ALL
    SELECT r.src, c.label FROM component c JOIN roads r ON r.dst = c.place) GROUP BY place)
SELECT label, count(*) AS places FROM component GROUP BY label
"""
DISTANCES = """
WITH MUTUALLY RECURSIVE distance (place STRING, km BIGINT) AS (
  SELECT place, min(km) AS km FROM (
    SELECT 'Bern' AS place, 0L AS km UNION ALL
    SELECT r.dst, d.km + r.km FROM distance d JOIN roads r ON r.src = d.place) GROUP BY place)
SELECT place, km FROM distance
"""


def main(folder: str) -> None:
    """Three views, some roads, one that is closed, and one that is built."""
    with hw.open(folder) as db:
        db.source("places", "place STRING")
        db.source("roads", "src STRING, dst STRING, km BIGINT")
        for name, query in (("ranks", ranks), ("components", COMPONENTS), ("distances", DISTANCES)):
            db.view(name, query)
        roads = [
            ("Bern", "Thun", 28),
            ("Thun", "Brig", 93),
            ("Bern", "Brig", 150),
            ("Chur", "Davos", 59),
        ]
        both = roads + [(dst, src, km) for src, dst, km in roads]
        changes = {
            "four roads": hw.Delta(inserts=both),
            "a pass is closed": hw.Delta(deletes=[("Thun", "Brig", 93), ("Brig", "Thun", 93)]),
            "a tunnel is built": hw.Delta(inserts=[("Brig", "Chur", 170), ("Chur", "Brig", 170)]),
        }
        db.apply({"places": [(p,) for p in ("Bern", "Thun", "Brig", "Chur", "Davos")]})
        for what, change in changes.items():
            commit = db.apply({"roads": change})
            print(f"{what}: rounds of distances {commit.rounds.get('distances', [])}")
            for name in ("components", "distances"):
                print(" ", name, sorted(tuple(r.values())[:-1] for r in db.table(name).to_pylist()))
            best = max(
                db.table("ranks").to_pylist(), key=lambda r: (round(r["rank"], 9), r["place"])
            )
            print(f"  the highest rank has {best['place']}: {best['rank']:.3f}")
        db.verify("ranks")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
