"""A view that is defined after data arrived: filled from what is there, then kept like any other.

`explain` says how it is kept: the maps, what each change does to them, and which maps it shares with views that were
there before. Run it with `python examples/late_view.py`.
"""

from __future__ import annotations

import tempfile

import headwater as hw
from headwater.errors import NotIncremental


def main(folder: str) -> None:
    """Data first, then a view and a view over it; a query that is refused; a check."""
    with hw.open(folder) as db:
        db.source("sales", "item STRING, shop STRING, amount BIGINT")
        db.source("items", "item STRING, kind STRING")
        db.apply(
            {
                "sales": [(f"i{n % 7}", f"s{n % 3}", n) for n in range(1000)],
                "items": [(f"i{n}", "food" if n < 4 else "tools") for n in range(7)],
            }
        )

        db.view(
            "by_kind",
            """SELECT s.shop, i.kind, sum(s.amount) AS total FROM sales s JOIN items i ON s.item = i.item
               GROUP BY s.shop, i.kind""",
        )
        db.view("best", "SELECT kind, max(total) AS most FROM by_kind GROUP BY kind")
        print(db["best"].explain())

        db.apply({"items": hw.Delta(inserts=[("i3", "tools")], deletes=[("i3", "food")])})
        db["best"].snapshot().orderBy("kind").show()

        try:
            db.view("lots", "SELECT item, rand() AS lot FROM sales")
        except NotIncremental as e:  # refused by name, never recomputed in silence
            print(e)
        db.verify()
        print("all views are what their queries give")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
