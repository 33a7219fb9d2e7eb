"""Sessions that are over: when they are final, what holds them up, and what is left of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from closings import moment
from headwater.engine import found
from test_bounds import purge

BY_USER = """SELECT user, session_window.start AS s, session_window.end AS e, count(*) AS n FROM clicks
    GROUP BY user, session_window(ts, '10 seconds')"""
SOURCE = "user INT, ts TIMESTAMP"


def second(v: Any) -> int:
    return int((v.replace(tzinfo=None) - moment(0)).total_seconds())


def sessions(table: Any) -> set[tuple[int, int, int, int]]:
    return {(r["user"], second(r["s"]), second(r["e"]), r["n"]) for r in table.to_pylist()}


def clicks(*given: tuple[int, float]) -> dict[str, Any]:
    return {"clicks": [(user, moment(t)) for user, t in given]}


def opened(path: Path, view: str = BY_USER, **said: Any) -> hw.Database:
    db = hw.open(path)
    db.source("clicks", SOURCE, **({"closes": "ts"} | said))
    db.view("v", view)
    return db


def close(db: hw.Database, below: int) -> int:
    return db.punctuate("clicks", ts=hw.below(moment(below))).closed.get("v", 0)


def entries(db: hw.Database) -> dict[str, int]:
    """How many entries the maps of the view have, once what is dead is gone and all runs are one."""
    purge(db)
    snapshot, at = db._at(None)
    working, held = (
        db._reading(snapshot, at),
        {m.name for m in db.catalog.sources["clicks"].all_maps},
    )
    return {
        f"{m.note} {n}": sum(t.num_rows for t in working.now(n).scan())
        for n, m in db.program.maps.items()
        if n not in held
    }


def test_a_late_row_joins_two_sessions_before_they_are_over(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        db.apply(clicks((1, 0), (1, 5), (1, 20), (2, 3)))
        assert sessions(db.table("v")) == {(1, 0, 15, 2), (1, 20, 30, 1), (2, 3, 13, 1)}
        assert close(db, 13) == 0  # a click of user 2 at 13 would belong to it
        assert close(db, 14) == 1
        assert sessions(db.final_table("v")) == {(2, 3, 13, 1)}
        db.apply(clicks((1, 14)))  # 9 seconds behind one session, 6 before the other
        assert sessions(db.table("v")) == {(1, 0, 30, 4), (2, 3, 13, 1)}
        assert close(db, 30) == 0
        db.apply(clicks((1, 30), (2, 30)))
        assert close(db, 40) == 0
        assert close(db, 41) == 2
        assert sessions(db.final_table("v")) == {(2, 3, 13, 1), (1, 0, 40, 5), (2, 30, 40, 1)}
        assert sessions(db.table("v")) == sessions(db.final_table("v"))
        assert {*entries(db).values()} == {0}


def test_a_row_is_taken_out_of_a_session_while_it_is_open(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        db.apply(clicks((1, 0), (1, 8), (1, 16)))
        assert close(db, 8) == 0
        db.apply({"clicks": hw.Delta(deletes=[(1, moment(8))])})
        assert close(db, 12) == 1
        assert sessions(db.final_table("v")) == {(1, 0, 10, 1)}
        db.apply({"clicks": hw.Delta(deletes=[(1, moment(16))])})
        assert close(db, 60) == 0
        assert sessions(db.table("v")) == {(1, 0, 10, 1)}
        assert {*entries(db).values()} == {0}


@pytest.mark.parametrize("endless", [1, found.HELD, found.HELD + 5])
def test_sessions_that_do_not_end(tmp_path: Path, endless: int) -> None:
    """A few of them hold up only themselves; if they are many, those that began after the first of them wait."""
    with opened(tmp_path) as db:
        users = [(1000 + i, i / 10) for i in range(endless)]
        for t in range(0, 120, 8):
            short = [(t, t)] if t else []
            db.apply(clicks(*((u, t + later) for u, later in users), *short))
            close(db, t)
        final = {s[0] for s in sessions(db.final_table("v"))}
        assert final == ({*range(8, 104, 8)} if endless <= found.HELD else set())
        assert close(db, 1000) == endless + 14 - len(final)
        assert {*entries(db).values()} == {0}


def test_state_is_flat(tmp_path: Path) -> None:
    """Users come and go: what is left of them does not grow, nor does what is known of sessions that are over."""
    rng, sizes = random.Random(1), list[int]()
    with opened(tmp_path) as db:
        for step in range(24):
            now = 20 * step
            db.apply(
                clicks(
                    *((step * 5 + rng.randint(0, 9), now + rng.randint(0, 30)) for _ in range(40))
                )
            )
            close(db, now)
            if step % 4 == 3:
                sizes.append(sum(entries(db).values()))
                assert all(len(p) <= found.HELD + 2 for p in db.over.found.values())
        assert max(sizes[2:]) <= 1.3 * sizes[1], sizes


def test_users_that_are_closed_each_by_itself(tmp_path: Path) -> None:
    with opened(tmp_path, closes=hw.watermark("ts", "0 seconds", by="user")) as db:
        db.apply(clicks(*((u, 0) for u in range(30))))
        db.apply(
            clicks(*((u, 10 + u) for u in range(0, 30, 2)))
        )  # user 0 goes on, 2 to 28 begin anew
        assert {s[0] for s in sessions(db.final_table("v"))} == set(range(2, 30, 2))
        db.apply(clicks((0, 100), (1, 100)))
        assert {s[:3] for s in sessions(db.final_table("v")) if s[0] < 2} == {
            (0, 0, 20),
            (1, 0, 10),
        }


def test_without_a_key(tmp_path: Path) -> None:
    view = "SELECT session_window.start AS s, count(*) AS n FROM clicks GROUP BY session_window(ts, '5 seconds')"
    with opened(tmp_path, view) as db:
        db.apply(clicks((1, 0), (2, 4), (3, 20)))
        assert close(db, 9) == 0
        assert close(db, 10) == 1
        assert [(second(r["s"]), r["n"]) for r in db.final_table("v").to_pylist()] == [(0, 2)]


def test_gaps_of_two_lengths_share_their_rows(tmp_path: Path) -> None:
    """Rows stay for the longer gap; a view that comes later gets back what is gone."""
    longer = BY_USER.replace("10 seconds", "30 seconds")
    with opened(tmp_path) as db:
        db.apply(clicks((1, 0), (1, 20), (2, 1), (2, 50)))
        assert close(db, 40) == 3
        purge(db)
        db.view("w", longer)
        assert sessions(db.table("w")) == {(1, 0, 50, 2), (2, 1, 31, 1), (2, 50, 80, 1)}
        assert sessions(db.final_table("w")) == {(2, 1, 31, 1)}
        db.apply(clicks((1, 45)))
        assert sessions(db.table("w")) == {(1, 0, 75, 3), (2, 1, 31, 1), (2, 50, 80, 1)}
        close(db, 76)
        assert (1, 0, 75, 3) in sessions(db.final_table("w"))
        close(db, 100)
        assert {*entries(db).values()} == {0}
        assert len(db.over.found) == 2
        db.drop("w")
        assert len(db.over.found) == 1


def test_counts_that_others_show_stay(tmp_path: Path) -> None:
    counts = "SELECT user, count(*) AS n FROM clicks WHERE ts IS NOT NULL GROUP BY user"
    with opened(tmp_path) as db:
        db.apply(clicks((1, 0), (2, 0), (2, 3)))
        assert close(db, 50) == 2
        db.view("counts", counts)
        db.apply(clicks((2, 60)))
        close(db, 100)
        assert {(r["user"], r["n"]) for r in db.table("counts").to_pylist()} == {(1, 1), (2, 3)}
        db.drop("counts")
        db.apply(clicks((2, 105)))
        close(db, 200)
        assert (2, 105, 115, 1) in sessions(db.final_table("v"))


def test_rebuilt_and_opened_again(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        db.apply(clicks((1, 0), (2, 5), (2, 12)))
        assert close(db, 14) == 1
        db.rebuild()
        assert sessions(db.final_table("v")) == {(1, 0, 10, 1)}
    with hw.open(tmp_path) as db:
        db.apply(clicks((2, 20)))
        assert close(db, 31) == 1
        assert sessions(db.final_table("v")) == {(1, 0, 10, 1), (2, 5, 30, 3)}
        assert {*entries(db).values()} == {0}
        assert db["v"].closed().subsumes(hw.closed(s=hw.below(moment(31))))
