"""What sources say is over, with the numbers written out: what is final and when, what is late, what is kept, what is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.engine.late import ASIDE
from headwater.engine.ledgers import LEDGER
from headwater.engine.membership import matching
from headwater.errors import KeyConflict, LateRows, Purged, QueryError
from spark_session import session

SILENT = "SELECT zone, hour FROM monitors EXCEPT SELECT zone, hour FROM calls"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        yield made


def rows(table: Any) -> list[tuple[Any, ...]]:
    """Rows of a table as often as they are there, without `_w`, in some order."""
    out = []
    for row in table.to_pylist():
        weight = row.pop("_w")
        out += [tuple(row.values())] * weight
    return sorted(out, key=repr)


def final(db: hw.Database, view: str, **asked: int) -> list[tuple[Any, ...]]:
    """The final rows of a view, each with the version that told it."""
    return rows(db.final_table(view, **asked))


def seconds(n: float) -> datetime:
    return NOON + timedelta(seconds=n)


def entries(db: hw.Database, name: str) -> int:
    """How many entries of a map are stored."""
    return sum(r.rows for r in db.store.at().version.maps[name][1])


def purge(db: hw.Database) -> None:
    """Takes every dead entry away at once, as compactions do in time."""
    dead = db.dead()
    db._writing()
    with db._commit("purge") as commit:
        for name, region in dead.items():
            commit.purge(name, lambda t, region=region: matching(region, t))


def maps_of(db: hw.Database, *kinds: str) -> list[str]:
    return [n for n in db.store.at().version.maps if n.startswith(kinds)]


# --- what is final, and when -------------------------------------------------------------------------------------------


def outage(db: hw.Database, append_only: bool = True) -> None:
    db.source("monitors", "zone INT, hour INT", append_only=append_only, closes="hour")
    db.source("calls", "zone INT, hour INT, phone STRING", append_only=append_only, closes="hour")
    db.view("silent", SILENT)


def test_a_difference_is_final_when_what_is_taken_away_has_ended(db: hw.Database) -> None:
    outage(db)
    first = {"monitors": [(1, 3), (2, 3), (3, 4)], "calls": [(2, 3, "x")]}
    commit = db.apply(first, punctuate={"calls": hw.closed(hour=3)})
    assert (commit.version, commit.closed) == (4, {"silent": 1})
    assert final(db, "silent") == [(1, 3, 4)]  # told before `monitors` ends its hour
    assert rows(db.table("silent")) == [(1, 3), (3, 4)]
    # Monitors of hour 3 are still open: what comes is final at once, or not there at all.
    assert db.apply({"monitors": [(5, 3), (2, 3), (1, 3)]}).closed == {"silent": 1}
    assert final(db, "silent") == [(1, 3, 4), (5, 3, 5)]
    assert db.punctuate("monitors", hour=3).closed == {}
    assert db["silent"].closed().matches({"zone": 1, "hour": 3})
    assert db.punctuate("calls", hour=hw.upto(9)).closed == {"silent": 1}
    assert final(db, "silent", since=5) == [(3, 4, 7)]
    assert rows(db.table("silent")) == [(1, 3), (3, 4), (5, 3)]


def test_a_difference_of_sources_with_deletions_waits_for_both(db: hw.Database) -> None:
    outage(db, append_only=False)
    db.apply({"monitors": [(1, 3), (2, 3)]}, punctuate={"calls": hw.closed(hour=3)})
    assert final(db, "silent") == []  # a monitor may still be taken back
    db.apply({"monitors": hw.Delta(deletes=[(2, 3)])})
    assert db.punctuate("monitors", hour=3).closed == {"silent": 1}
    assert final(db, "silent") == [(1, 3, 6)]


def test_the_end_of_a_stream_makes_a_total_final(db: hw.Database) -> None:
    db.source("s", "k INT, n INT", closes="k")
    db.view("total", "SELECT count(*) AS c, sum(n) AS t FROM s")
    db.view("bare", "SELECT max(n) AS m FROM s")
    db.apply({"s": [(1, 10), (2, 20)]}, punctuate={"s": hw.closed(k=1)})
    with pytest.raises(QueryError, match="no row of `total` is final before all"):
        db.final_table("total")
    commit = db.apply({"s": [(3, 5)]}, punctuate={"s": hw.closed()})
    assert commit.closed == {"total": 1, "bare": 1}
    assert final(db, "total") == [(3, 35, 5)] and final(db, "bare") == [(20, 5)]
    with pytest.raises(LateRows):
        db.apply({"s": [(4, 1)]})
    assert rows(db.table("total")) == [(3, 35)]


def test_the_end_of_a_stream_without_rows_tells_a_total_of_nothing(db: hw.Database) -> None:
    db.source("s", "k INT", closes="k")
    db.view("total", "SELECT count(*) AS c FROM s")
    assert db.punctuate("s").closed == {"total": 1}
    assert final(db, "total") == [(0, 3)]


def test_all_rows_of_append_only_sources_are_final_at_once(db: hw.Database) -> None:
    db.source("s", "k INT, n INT", append_only=True)
    db.view("large", "SELECT k, n FROM s WHERE n > 5")
    db.view("some", "SELECT DISTINCT k FROM s")
    db.apply({"s": [(1, 7), (1, 7), (2, 3)]})
    assert final(db, "large") == [(1, 7, 4), (1, 7, 4)]
    assert final(db, "some") == [(1, 4), (2, 4)]
    db.apply({"s": [(1, 7), (3, 9)]})
    assert final(db, "large", since=4) == [(1, 7, 5), (3, 9, 5)]
    assert final(db, "some", since=4) == [(3, 5)]
    assert rows(db.table("large")) == [(1, 7)] * 3 + [(3, 9)]


def test_punctuations_by_zone_and_hour(db: hw.Database) -> None:
    db.source("s", "zone INT, hour INT, n INT", closes=("zone", "hour"))
    db.view("both", "SELECT zone, hour, sum(n) AS t FROM s GROUP BY zone, hour")
    db.view("hours", "SELECT hour, sum(n) AS t FROM s GROUP BY hour")
    db.apply({"s": [(z, h, 10 * z + h) for z in (1, 2, 6) for h in (5, 8)]})
    commit = db.punctuate("s", zone={1, 6}, hour=hw.between(5, 8))
    assert commit.closed == {"both": 4}
    assert final(db, "both") == [(1, 5, 15, 5), (1, 8, 18, 5), (6, 5, 65, 5), (6, 8, 68, 5)]
    db.apply({"s": [(2, 5, 1), (1, 9, 1)]})
    with pytest.raises(LateRows, match="zone"):
        db.apply({"s": [(6, 7, 1)]})
    # Hour 5 is over for every zone.
    assert db.punctuate("s", hour=5).closed == {"both": 1, "hours": 1}
    assert final(db, "hours") == [(5, 106, 7)]
    assert final(db, "both", since=5) == [(2, 5, 26, 7)]


# --- watermarks --------------------------------------------------------------------------------------------------------

WINDOWS = (
    "SELECT window.start AS start, count(*) AS n FROM events GROUP BY window(ts, '10 seconds')"
)


def test_a_punctuation_without_rows_closes_the_last_window(db: hw.Database) -> None:
    db.source("events", "ts TIMESTAMP, v INT", closes=hw.watermark("ts", "10 seconds"))
    db.view("windows", WINDOWS)
    db.apply({"events": [(seconds(3), 1), (seconds(14), 2), (seconds(8), 3)]})
    assert db.apply({"events": [(seconds(21), 4)]}).closed == {"windows": 1}
    assert final(db, "windows") == [(NOON, 2, 4)]
    commit = db.punctuate("events", ts=hw.below(seconds(30)))
    assert commit.closed == {"windows": 2} and commit.rows == {}
    assert final(db, "windows", since=4) == [(seconds(10), 1, 5), (seconds(20), 1, 5)]
    late = db.apply({"events": [(seconds(25), 1), (seconds(31), 1)]})
    assert late.late == {"events": 1}
    assert rows(db.late_table("events")) == [(seconds(25), 1, 6, _ranged("ts", 30))]


def _ranged(column: str, n: int) -> str:
    return f"⟨{column}: (*, '{seconds(n).replace(tzinfo=None).isoformat()}')⟩"


def device(db: hw.Database, **options: Any) -> None:
    mark = hw.watermark("ts", "5 seconds", by="device", **options)
    db.source("events", "device STRING, ts TIMESTAMP", append_only=True, closes=mark)
    db.view(
        "own",
        "SELECT device, window.start AS s, count(*) AS n FROM events GROUP BY device, window(ts, '10 seconds')",
    )
    db.view("windows", WINDOWS)


def test_each_device_has_a_watermark_of_its_own(db: hw.Database) -> None:
    device(db)
    db.apply({"events": [("a", seconds(1)), ("b", seconds(2))]})
    assert db.apply({"events": [("a", seconds(16))]}).closed == {"own": 1}
    assert final(db, "own") == [("a", NOON, 1, 5)]
    assert db.apply({"events": [("b", seconds(3))]}).late == {}  # b is not that far
    assert db.apply({"events": [("a", seconds(4))]}).late == {"events": 1}
    assert rows(db.late_table("events"))[0][:2] == ("a", seconds(4))
    # Nobody knows all devices, so no window is over for all of them before somebody says so.
    assert final(db, "own") == [("a", NOON, 1, 5)]
    assert db.punctuate("events", ts=hw.below(seconds(10))).closed == {"own": 1, "windows": 1}
    assert final(db, "windows") == [(NOON, 3, 8)]


def test_what_all_devices_have_passed_is_over_for_all(db: hw.Database) -> None:
    device(db, of=["a", "b"])
    db.apply({"events": [("a", seconds(1)), ("a", seconds(40))]})
    assert final(db, "windows") == []  # b was never heard of
    assert db.apply({"events": [("b", seconds(2))]}).closed == {}
    commit = db.apply({"events": [("b", seconds(17))]})
    assert commit.closed == {"own": 1, "windows": 1}
    assert final(db, "windows") == [(NOON, 2, 6)]
    assert db["events"].closed().matches({"device": "c", "ts": datetime(2026, 3, 1, 12, 0, 11)})


def test_an_idle_device_does_not_hold_the_others_up(db: hw.Database) -> None:
    device(db, of=["a", "b"], idle="30 seconds")
    db.apply({"events": [("a", seconds(1)), ("b", seconds(2))]})
    assert (
        "windows" not in db.apply({"events": [("a", seconds(31))]}).closed
    )  # b is 29 seconds behind
    assert db.apply({"events": [("a", seconds(33))]}).closed["windows"] == 1  # and now 31
    assert final(db, "windows") == [(NOON, 2, 6)]
    # b wakes: what is over for all is over for it too.
    assert db.apply({"events": [("b", seconds(4)), ("b", seconds(29))]}).late == {"events": 1}


# --- exactly once, reopened, before --------------------------------------------------------------------------------------


def test_an_id_makes_a_punctuation_once(db: hw.Database) -> None:
    outage(db)
    change = {"monitors": [(1, 3)]}, {"calls": hw.closed(hour=3)}
    first = db.apply(change[0], punctuate=change[1], id="hour 3")
    again = db.apply(change[0], punctuate=change[1], id="hour 3")
    assert again.repeated and again.version == first.version == db.version
    assert final(db, "silent") == [(1, 3, 4)]
    assert not db.punctuate(
        "calls", hour=3
    ).closed  # without one it is told again, and closes nothing more
    assert final(db, "silent") == [(1, 3, 4)]


def test_what_is_over_told_and_late_is_there_after_reopening(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("events", "k INT, ts BIGINT", closes=hw.watermark("ts", 5))
        db.view("v", "SELECT ts div 10 AS w, count(*) AS n FROM events GROUP BY ts div 10")
        db.apply({"events": [(1, 3), (2, 12)]})
        db.apply({"events": [(1, 4), (3, 16)]})
        db.apply({"events": [(1, 1)]})
        told = final(db, "v"), rows(db.late_table("events")), rows(db.table("v"))
        closed = db["events"].closed(), db["v"].closed()
    assert told == (
        [(0, 1, 4)],
        [(1, 1, 5, "⟨ts: (*, 10]⟩"), (1, 4, 4, "⟨ts: (*, 6]⟩")],
        [(0, 1), (1, 2)],
    )
    with hw.open(tmp_path / "db") as db:
        assert (final(db, "v"), rows(db.late_table("events")), rows(db.table("v"))) == told
        assert (db["events"].closed(), db["v"].closed()) == closed
        assert db.apply({"events": [(9, 10), (9, 11)]}).late == {"events": 1}  # 11 is in time
        assert db.apply({"events": [(9, 25)]}).closed == {"v": 1}
        assert final(db, "v") == [(0, 1, 4), (1, 3, 7)]


def test_what_was_over_at_an_old_version(db: hw.Database) -> None:
    db.source("s", "h INT, n INT", closes="h")
    db.view("v", "SELECT h, sum(n) AS t FROM s GROUP BY h")
    db.apply({"s": [(1, 10), (2, 20)]})
    db.punctuate("s", h=1)
    db.apply({"s": [(2, 5)]}, punctuate={"s": hw.closed(h=2)})
    purge(db)
    assert final(db, "v", until=3) == []
    assert final(db, "v", until=4) == [(1, 10, 4)]
    assert final(db, "v", since=4, until=5) == [(2, 25, 5)]
    assert [rows(db.table("v", version=n)) for n in (3, 4, 5)] == [
        [(1, 10), (2, 20)],
        [(1, 10), (2, 20)],
        [(1, 10), (2, 25)],
    ]
    over = [db.closed_source("s", n).matches({"h": 2, "n": 0}) for n in (3, 4, 5)]
    assert over == [False, False, True]
    assert [db.closed_view("v", n).matches({"h": 1, "t": 0}) for n in (3, 4)] == [False, True]


# --- dropping, rebuilding, verifying ---------------------------------------------------------------------------------------


def test_a_view_and_a_source_go_with_all_that_is_over_of_them(db: hw.Database) -> None:
    db.source("s", "h INT, n INT", closes=hw.watermark("h", 1))
    db.view("v", "SELECT h, sum(n) AS t FROM s GROUP BY h")
    db.apply({"s": [(1, 10), (5, 20)]})
    db.apply({"s": [(2, 1)]})
    assert maps_of(db, LEDGER, ASIDE) == ["ledger:v", "aside:s"]
    db.drop("v")
    assert maps_of(db, LEDGER, ASIDE) == ["aside:s"]
    db.drop("s")
    facts = db.store.at().facts
    assert not maps_of(db, LEDGER, ASIDE)
    assert not [f for f in facts if f.startswith(("closed:", "marks:", "told:"))]
    db.source("s", "h INT, n INT", closes="h")  # another one of that name knows nothing of it
    db.view("v", "SELECT h, sum(n) AS t FROM s GROUP BY h")
    db.apply({"s": [(1, 3)]})
    assert rows(db.table("v")) == [(1, 3)] and final(db, "v") == []
    assert rows(db.late_table("s")) == []


def test_rebuilding_tells_nothing_twice(db: hw.Database) -> None:
    outage(db)
    db.view("hours", "SELECT hour, count(*) AS n FROM calls GROUP BY hour")
    db.apply(
        {"monitors": [(1, 3), (2, 4)], "calls": [(2, 3, "x"), (2, 3, "y")]},
        punctuate={"calls": hw.closed(hour=3)},
    )
    purge(db)
    before = final(db, "silent"), final(db, "hours"), rows(db.table("silent"))
    assert before == ([(1, 3, 5)], [(3, 2, 5)], [(1, 3), (2, 4)])
    db.rebuild()
    assert (final(db, "silent"), final(db, "hours"), rows(db.table("silent"))) == before
    db.punctuate("calls", hour=4)
    assert final(db, "silent") == [(1, 3, 5), (2, 4, 8)]


def test_a_new_view_over_a_source_that_keeps_all_rows_is_whole(db: hw.Database) -> None:
    db.source("s", "h INT, n INT", closes="h")
    db.view("v", "SELECT h, sum(n) AS t FROM s GROUP BY h")
    db.apply({"s": [(1, 10), (1, 3), (2, 20)]}, punctuate={"s": hw.closed(h=1)})
    purge(db)
    db.view("again", "SELECT h, sum(n) AS t FROM s GROUP BY h")
    db.view("total", "SELECT sum(n) AS t FROM s")
    assert rows(db.table("again")) == [(1, 13), (2, 20)] and rows(db.table("total")) == [(33,)]
    assert final(db, "again") == [(1, 13, 5)]  # told by the version that made the view
    db.apply({"s": [(2, 1)]}, punctuate={"s": hw.closed(h=2)})
    assert final(db, "again") == [(1, 13, 5), (2, 21, 7)]


def test_a_source_that_keeps_open_rows_shows_those(db: hw.Database) -> None:
    db.source("s", "h INT, n INT", closes="h", retain="open")
    db.view("v", "SELECT h, sum(n) AS t FROM s GROUP BY h")
    db.apply({"s": [(1, 10), (2, 20), (3, 30)]}, punctuate={"s": hw.closed(h=hw.upto(2))})
    assert rows(db.table("s")) == [(3, 30)]
    assert rows(db.table("s", version=db.version - 1)) == []
    assert rows(db.table("v")) == [(1, 10), (2, 20), (3, 30)]
    purge(db)
    (held,) = (m.name for m in db.catalog.sources["s"].all_maps)
    assert entries(db, held) == 1
    assert rows(db.table("s")) == [(3, 30)]
    assert rows(db.table("v")) == [(1, 10), (2, 20), (3, 30)]
    db.apply({"s": hw.Delta(inserts=[(3, 1)], deletes=[(3, 30)])})
    assert rows(db.table("v")) == [(1, 10), (2, 20), (3, 1)]


def test_a_key_is_enforced_among_the_rows_that_are_kept(db: hw.Database) -> None:
    db.source("s", "h INT, n INT", key="n", closes="h", retain="open")
    db.apply({"s": [(1, 10), (2, 20)]}, punctuate={"s": hw.closed(h=1)})
    with pytest.raises(KeyConflict):
        db.apply({"s": [(3, 20)]})
    assert db.lookup("s", (10,)) is None
    db.apply({"s": [(3, 10)]})  # the row that had it is over, whether it is still stored or not
    purge(db)
    assert rows(db.table("s")) == [(2, 20), (3, 10)]
    assert db.lookup("s", (10,)) == {"h": 3, "n": 10}


def test_a_new_view_that_would_need_what_is_gone_is_refused(db: hw.Database) -> None:
    db.source("s", "h INT, n INT", closes="h", retain="open")
    db.view("v", "SELECT h, sum(n) AS t FROM s GROUP BY h")
    db.apply({"s": [(1, 10), (2, 20)]}, punctuate={"s": hw.closed(h=1)})
    version = db.version
    for query in ("SELECT sum(n) AS t FROM s", "SELECT n, count(*) AS c FROM s GROUP BY n"):
        with pytest.raises(Purged, match="rows of `s` that `w` would need are over"):
            db.view("w", query)
    with pytest.raises(Purged, match=r"`w` would share a map .* from which rows of `s` are gone"):
        db.view("w", "SELECT h, sum(n) AS t FROM s GROUP BY h")
    with pytest.raises(Purged, match="`s` keeps open rows only"):
        db.rebuild()
    assert db.version == version and "w" not in db.views
    db.view(
        "w", "SELECT h, n FROM s"
    )  # whose rows say their hour begins with the hours that are whole
    assert rows(db.table("w")) == [(2, 20)]
    assert rows(db.table("v")) == [(1, 10), (2, 20)] and final(db, "v") == [(1, 10, 3)]


def test_the_change_feed_is_the_same_where_rows_move_to_a_ledger(db: hw.Database) -> None:
    db.source("s", "h INT, n INT", closes="h")
    db.view("v", "SELECT h, sum(n) AS t FROM s GROUP BY h")
    db.apply({"s": [(1, 10)]})
    db.apply({"s": [(1, 5)]}, punctuate={"s": hw.closed(h=1)})
    db.punctuate("s", h=2)
    fed: Counter[tuple[Any, ...]] = Counter()
    for r in db.changes_table("v", 2).to_pylist():
        fed[r["_version"], r["h"], r["t"]] += r["_w"]
    assert fed == {(3, 1, 10): 1, (4, 1, 10): -1, (4, 1, 15): 1}


@pytest.mark.spark
def test_verify_checks_final_rows_too(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db", spark=session()) as db:
        outage(db)
        db.apply(
            {"monitors": [(1, 3), (2, 3), (3, 4)], "calls": [(2, 3, "x")]},
            punctuate={"calls": hw.closed(hour=3), "monitors": hw.closed(hour=3)},
        )
        purge(db)
        db.verify()
        assert sorted(map(tuple, db["silent"].final().collect())) == [(1, 3, 4)]
        assert sorted(map(tuple, db["silent"].snapshot().collect())) == [(1, 3), (3, 4)]
