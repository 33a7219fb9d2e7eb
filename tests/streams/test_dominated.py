"""Of a bag that is read from an end, entries behind enough others that last are gone once its map is rewritten whole."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import headwater as hw

VIEWS = {
    "highest": "SELECT a, max(b) AS m FROM r GROUP BY a",
    "both": "SELECT a, min(b) AS m, max(b) AS n FROM r GROUP BY a",
    "top": "SELECT a, b, t FROM (SELECT *, row_number() OVER (PARTITION BY a ORDER BY b DESC, t) AS p FROM r) WHERE p <= 3",
}
GROUPS = 4


def entries(db: hw.Database, note: str) -> int:
    """How many entries bags of a kind have."""
    maps = db.store.at().version.maps
    bags = [m.name for m in db.program.maps.values() if m.order and m.note.startswith(note)]
    return sum(r.rows for n in bags for r in maps[n][1])


@pytest.mark.parametrize("append_only", [True, False])
def test_answers_stay_while_bags_shrink(tmp_path: Path, append_only: bool) -> None:
    """Every answer is that of a database that forgets nothing, also where the rest may still be deleted."""
    rng = random.Random(append_only)
    plain, closing = hw.open(str(tmp_path / "plain")), hw.open(str(tmp_path / "closing"))
    plain.source("r", "a INT, b INT, t INT")
    closing.source("r", "a INT, b INT, t INT", closes="t", append_only=append_only)
    there: list[tuple[int, int, int]] = []
    with plain, closing:
        for db in (plain, closing):
            for name, query in VIEWS.items():
                db.view(name, query)
        for step in range(10):
            new = [
                (rng.randrange(GROUPS), rng.randrange(50), step + rng.randrange(5))
                for _ in range(10)
            ]
            open_rows = [x for x in there if x[2] >= step]
            gone = [] if append_only else rng.sample(open_rows, min(3, len(open_rows)))
            for x in gone:
                there.remove(x)
            there += new
            change = {"r": hw.Delta(inserts=new, deletes=gone)}
            plain.apply(change)
            closing.apply(change, punctuate={"r": hw.closed(t=hw.below(step + 1))})
            writer = closing._writer
            assert writer is not None
            writer.wait()
            writer.compact(whole=True)
            for name in VIEWS:
                wanted, got = (
                    sorted(map(str, db.table(name).to_pylist())) for db in (plain, closing)
                )
                assert got == wanted, (step, name)
        closing.punctuate("r", t=hw.below(10))
        assert entries(plain, "the rows") > 6 * GROUPS
        assert entries(closing, "the rows") <= 4 * GROUPS  # three, and what the last change brought
        if append_only:
            assert (
                entries(closing, "the values") <= 3 * GROUPS
            )  # the least, the greatest, what came last
        else:  # a value does not say when it was closed, so that any may be deleted
            assert entries(closing, "the values") > 6 * GROUPS
