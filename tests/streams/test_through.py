"""Keys that are closed through entries: an auction's when it has expired, though no key says a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.api.over import bounds_of
from headwater.engine import found
from test_bounds import purge

BIDS = "SELECT a.id, max(b.price) AS top FROM auctions a JOIN bids b ON a.id = b.auction AND b.t BETWEEN a.t AND a.expires GROUP BY a.id"


def opened(
    path: Path, view: str = BIDS, key: str = "id", id_type: str = "INT", **said: Any
) -> hw.Database:
    db = hw.open(path)
    db.source(
        "auctions",
        f"id {id_type}, house INT, t INT, expires INT",
        key=key.split(),
        closes="t",
        **said,
    )
    db.source("bids", f"auction {id_type}, house INT, t INT, price INT", closes="t")
    db.view("v", view)
    return db


def add(db: hw.Database, auctions: Any = (), bids: Any = ()) -> int:
    """A change; gives how many rows are final by it."""
    return db.apply({"auctions": list(auctions), "bids": list(bids)}).closed.get("v", 0)


def close(db: hw.Database, **below: int) -> int:
    """Closes sources up to a time; gives how many rows are final by it."""
    points = {n: hw.closed(t=hw.below(t)) for n, t in below.items()}
    return db.apply({}, punctuate=points).closed.get("v", 0)


def final(db: hw.Database) -> list[tuple[Any, ...]]:
    return sorted((r["id"], r["top"]) for r in db.final_table("v").to_pylist())


def left(db: hw.Database) -> int:
    """How many entries the maps of the view have, once what is dead is gone."""
    purge(db)
    snapshot, at = db._at(None)
    working = db._reading(snapshot, at)
    held = {m.name for s in db.catalog.sources.values() for m in s.all_maps}
    return sum(t.num_rows for n in db.program.maps if n not in held for t in working.now(n).scan())


@pytest.mark.parametrize("append_only", [True, False])
def test_an_auction_that_has_expired_is_final(tmp_path: Path, append_only: bool) -> None:
    """With an append-only source it is enough that no bid comes; else the auction must be closed itself."""
    with opened(tmp_path, append_only=append_only) as db:
        add(
            db,
            [(1, 0, 0, 5), (2, 0, 0, 9)],
            [(1, 0, 3, 10), (1, 0, 5, 12), (2, 0, 3, 7), (1, 0, 6, 99)],
        )
        assert close(db, bids=5) == 0  # a bid at 5 would count
        assert close(db, bids=6) == (1 if append_only else 0)
        assert close(db, auctions=1) == (0 if append_only else 1)
        assert final(db) == [(1, 12)]
        assert add(db, bids=[(2, 0, 9, 8), (1, 0, 7, 100)]) == 0
        assert close(db, auctions=20, bids=10) == 1
        assert final(db) == [(1, 12), (2, 8)]
        assert left(db) == 0
        assert len(db.over.found) == 2 and {len(p) for p in db.over.found.values()} == {1}


def test_an_auction_that_comes_when_it_has_expired(tmp_path: Path) -> None:
    """Its bids were there before it; nobody needs to close anything for it to be final."""
    with opened(tmp_path, append_only=True) as db:
        add(db, bids=[(1, 0, 3, 10), (1, 0, 8, 20), (2, 0, 3, 5)])
        close(db, bids=7)
        assert add(db, [(1, 0, 2, 6)]) == 1
        assert final(db) == [(1, 10)]
        assert add(db, [(2, 0, 1, 9)]) == 0
        assert close(db, bids=10, auctions=30) == 1
        assert final(db) == [(1, 10), (2, 5)]
        assert left(db) == 0


def test_an_auction_that_is_prolonged(tmp_path: Path) -> None:
    """While it is open it may be taken away and come again; its key is not closed before it is."""
    with opened(tmp_path) as db:
        add(db, [(1, 0, 2, 5)], [(1, 0, 3, 10)])
        assert close(db, bids=6) == 0
        db.apply({"auctions": hw.Delta(inserts=[(1, 0, 2, 8)], deletes=[(1, 0, 2, 5)])})
        add(db, bids=[(1, 0, 7, 30)])
        assert close(db, auctions=3) == 0
        assert close(db, bids=9) == 1
        assert final(db) == [(1, 30)]


@pytest.mark.parametrize("id_type", ["STRING", "BIGINT", "DECIMAL(9,2)", "DATE"])
def test_keys_of_any_type(tmp_path: Path, id_type: str) -> None:
    made: Any = {
        "STRING": lambda n: f"number {n}",
        "BIGINT": lambda n: (1 << 40) + 2 * n,
        "DECIMAL(9,2)": lambda n: f"{n}.50",
        "DATE": lambda n: f"2024-01-{n + 1:02}",
    }[id_type]
    with opened(tmp_path, id_type=id_type, append_only=True) as db:
        for n in range(20):
            change = {"auctions": [(made(n), 0, n, n + 2)], "bids": [(made(n), 0, n, n)]}
            db.apply(change, cast=True, punctuate={"bids": hw.closed(t=hw.below(n))})
        assert db.final_table("v").num_rows == 17
        close(db, bids=50, auctions=50)
        assert db.final_table("v").num_rows == 20
        assert left(db) == 0


def test_keys_of_two_columns(tmp_path: Path) -> None:
    """An auction is known by its house and its number; a key that says the number alone is not closed by one of them."""
    by_both = BIDS.replace("ON a.id", "ON a.house = b.house AND a.id").replace(
        "SELECT a.id", "SELECT a.house, a.id"
    )
    with opened(
        tmp_path / "both", by_both.replace("BY a.id", "BY a.house, a.id"), "house id"
    ) as db:
        add(db, [(1, 1, 0, 5), (1, 2, 0, 9)], [(1, 1, 3, 10), (1, 2, 3, 7)])
        assert close(db, auctions=1, bids=6) == 1
        assert close(db, auctions=20, bids=10) == 1
        assert left(db) == 0
    with opened(tmp_path / "one", by_both.replace("a.house, a.id,", "a.id,"), "house id") as db:
        add(db, [(1, 1, 0, 5), (1, 2, 0, 9)], [(1, 1, 3, 10), (1, 2, 3, 7)])
        assert close(db, auctions=1, bids=10) == 0
        assert not db.over.found


def test_without_a_key_that_is_enforced(tmp_path: Path) -> None:
    """A key that is enforced among open rows only may come again; and without one nothing says that an auction is alone."""
    for said in ({"retain": "open"}, {"key": ""}):
        with opened(tmp_path / str(len(said)) / next(iter(said)), **said) as db:
            assert bounds_of(db.program, db.catalog, "v", "UTC").verdict == "partly unblocked"
            add(db, [(1, 0, 0, 5)], [(1, 0, 3, 10)])
            assert close(db, auctions=1, bids=6) == 0
            add(db, [(1, 0, 7, 9)], [(1, 0, 8, 50)])
            assert [r["top"] for r in db.table("v").to_pylist()] == [50]


def test_a_key_is_advised_where_it_would_do(tmp_path: Path) -> None:
    """What is said to do does: with the key all of it is bounded, and rows become final."""
    with opened(tmp_path / "without", key="", append_only=True) as db:
        now = bounds_of(db.program, db.catalog, "v", "UTC")
    assert now.verdict == "partly unblocked" and now.final is None
    for advised in (now.would_do, now.would_be_final):
        assert [str(m) for m in advised[0]] == ['key="id" on auctions']
    with opened(tmp_path / "with", append_only=True) as db:
        then = bounds_of(db.program, db.catalog, "v", "UTC")
    assert then.verdict == "unblocked" and then.final == (("bids", ("t",)),)


def test_too_many_keys_to_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that do not follow one another are written down one by one; from some number on no more of them are closed."""
    monkeypatch.setattr(found, "SAID", 10)
    with opened(tmp_path, append_only=True) as db:
        for n in range(30):
            add(db, [(3 * n, 0, n, n)], [(3 * n, 0, n, 1)])
            close(db, bids=n)
        told = db.final_table("v").num_rows
        assert 8 <= told <= 10
        assert db.table("v").num_rows == 30


def test_views_that_come_later_and_databases_that_are_rebuilt(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        add(db, [(1, 0, 0, 5), (2, 0, 0, 9)], [(1, 0, 3, 10), (2, 0, 3, 7)])
        assert close(db, auctions=1, bids=6) == 1
        purge(db)
        db.view("w", BIDS.replace("max", "min"))
        assert db.final_table("w").num_rows == 1
        db.rebuild()
        assert final(db) == [(1, 10)]
    with hw.open(tmp_path) as db:
        assert add(db, bids=[(2, 0, 9, 70)]) == 0
        assert close(db, bids=10) == 1
        assert final(db) == [(1, 10), (2, 70)]
        assert sorted(r["top"] for r in db.table("w").to_pylist()) == [7, 10]
        db.drop("w")
        db.drop("v")
        assert not db.over.found


def test_state_is_flat(tmp_path: Path) -> None:
    sizes = []
    with opened(tmp_path, append_only=True) as db:
        for n in range(32):
            bids = [(i, 0, n, n) for i in range(max(0, n - 6), n + 1)]
            add(db, [(n, 0, n, n + 4)], bids)
            close(db, auctions=n - 2, bids=n - 2)
            if n % 8 == 7:
                sizes.append(left(db))
        assert max(sizes[2:]) <= sizes[1], sizes
        assert all(p.size <= 4 for p in db.over.found.values())
