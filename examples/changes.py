"""Following a view: read what changed since the last time, and push it to a copy elsewhere.

The copy here is a dictionary; it could be a cache, a search index or a table. Each change is a row with `_w`, how
often it came (or went, if negative), and `_version`. Run it with `python examples/changes.py`.
"""

from __future__ import annotations

import tempfile
from collections import Counter

import headwater as hw


class Copy:
    """A copy of a view that knows the version it has seen."""

    def __init__(self) -> None:
        self.version = 0
        self.rows: Counter[tuple[object, ...]] = Counter()

    def follow(self, db: hw.Database, view: str) -> int:
        """Takes over what changed; gives the number of changes."""
        newest = db.version
        changes = db.changes_table(view, self.version, newest).to_pylist()
        for change in changes:
            weight = change.pop("_w")
            del change["_version"]
            row = tuple(change.values())
            self.rows[row] += weight
            if not self.rows[row]:
                del self.rows[row]
        self.version = newest
        return len(changes)


def main(folder: str) -> None:
    """Three rounds of changes, each pushed to the copy, which then is the view."""
    with hw.open(folder) as db:
        db.source("visits", "page STRING, user BIGINT")
        db.view(
            "popular", "SELECT page, count(*) AS n FROM visits GROUP BY page HAVING count(*) > 1"
        )
        copy = Copy()
        for visits in (
            [("home", 1), ("home", 2), ("news", 1)],
            [("news", 2), ("news", 3), ("shop", 1)],
            hw.Delta(deletes=[("home", 1)]),
        ):
            db.apply({"visits": visits})
            count = copy.follow(db, "popular")
            print(f"version {copy.version}: {count} changes, the copy is {sorted(copy.rows)}")
        view = [tuple(r.values()) for r in db.table("popular").drop_columns(["_w"]).to_pylist()]
        assert sorted(copy.rows) == sorted(view)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
