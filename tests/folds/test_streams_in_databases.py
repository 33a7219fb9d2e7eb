"""Streams beside views in a database: layers, order of any kind, functions that fail or are not there, and looking at it."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
import headwater.st as st
from headwater.errors import HeadwaterError, InUse, StreamChanged, StreamError, StreamMissing, Ties

DDL = "k BIGINT, ts TIMESTAMP, x BIGINT"
HOUR = {"hour": "1 hour"}


def at(minutes: int) -> datetime:
    return datetime(2024, 3, 1, tzinfo=UTC) + timedelta(minutes=minutes)


def below(minutes: int, **keys: Any) -> Any:
    return hw.closed(ts=hw.below(at(minutes)), **keys)


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with hw.open(tmp_path / "db") as made:
        for name in ("a", "b"):
            made.source(name, DDL, closes="ts")
        yield made


def minutes(handle: Any, header: str | None = None, column: str = "ts") -> list[int]:
    """The times of what was told, in order."""
    table = handle.output_table(header)
    return [int((t - at(0)).total_seconds() // 60) for t in table.column(column).to_pylist()]


def rows(table: Any) -> list[tuple[Any, ...]]:
    names = [n for n in table.column_names if not n.startswith("_")]
    return [tuple(r[n] for n in names) for r in table.to_pylist()]


SUMS = st.hierarchical(
    st.relational("SELECT sum(x) AS total FROM a"),
    update="SELECT mark.ts AS hour, total FROM mark, result",
    gives="sums",
)


# --- what is ready ----------------------------------------------------------------------------------------


def test_rows_that_were_there_are_not_passed_by_one_that_comes(db: Any) -> None:
    """Nothing is closed when a stream is defined over rows, and then a later row comes."""
    db.apply({"a": [(1, at(50), 1)]})
    s = db.stream("s", "k{seq a}", st.filter("x > 0"), order="ts")
    db.apply({"a": [(1, at(200), 2)]})
    db.apply({}, punctuate={"a": below(300)})
    assert minutes(s) == [50, 200]


def test_frames_begin_where_nothing_can_come_before(db: Any) -> None:
    """A row of another header may come in an earlier frame, so that rows wait until it cannot."""
    s = db.stream("s", "hour[bag a | bag b]", st.filter("x > 0", "a"), order="ts", marks=HOUR)
    db.apply({"a": [(1, at(70), 1)]}, punctuate={"a": below(80)})
    assert minutes(s, "a") == []
    db.apply({"b": [(1, at(10), 1)]})
    db.apply({}, punctuate={"a": hw.closed(), "b": hw.closed()})
    assert minutes(s, "hour") == [60, 120]
    assert str(s.value()).startswith("[<{} | {b(")
    s.verify()


def test_frames_begin_with_the_rows_that_a_clock_cuts(db: Any) -> None:
    """Rows beside it are told before anything is known of the others, and make no frames."""
    s = db.stream("s", "hour[bag a] | seq b", st.filter("x > 0", "a"), order="ts", marks=HOUR)
    db.apply({"b": [(1, at(30), 1)]}, punctuate={"b": below(31)})
    assert minutes(s, "b") == [30]
    db.apply({"a": [(1, at(130), 1)]}, punctuate={"a": below(190)})
    assert minutes(s, "hour") == [180]
    s.verify()


def test_a_first_row_that_goes_makes_no_frame(db: Any) -> None:
    s = db.stream("s", "hour[bag a]", st.filter("x > 0", "a"), order="ts", marks=HOUR)
    db.apply({"a": [(1, at(10), 1), (1, at(130), 1)]}, punctuate={"a": below(5)})
    db.apply({"a": hw.Delta(deletes=[(1, at(10), 1)])}, punctuate={"a": below(125)})
    db.apply({}, punctuate={"a": hw.closed()})
    assert minutes(s, "hour") == [180]


def test_frames_without_rows_are_told(tmp_path: Path) -> None:
    """Also where what is closed by key says something of all times."""
    with hw.open(tmp_path / "db") as db:
        db.source("a", DDL, closes=["ts", ("k", "ts")])
        s = db.stream("s", "hour[k{seq a}]", st.filter("x > 0", "a"), order="ts", marks=HOUR)
        db.apply({"a": [(1, at(10), 1)]}, punctuate={"a": below(240)})
        assert minutes(s, "hour") == [60, 120, 180, 240]


def test_rows_that_last_and_wait_for_nobody_are_told_at_once(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("a", DDL, closes="ts", append_only=True)
        s = db.stream("s", "bag a", st.filter("x > 0"), order="ts")
        commit = db.apply({"a": [(1, at(10), 1), (1, at(5), 0), (2, at(400), 3)]})
        assert minutes(s) == [10, 400]
        assert set(s.output_table().column("_version").to_pylist()) == {commit.version}


def test_outputs_are_closed_as_far_as_all_keys_are(tmp_path: Path) -> None:
    """What is closed of one key closes nothing of what others tell."""
    with hw.open(tmp_path / "db") as db:
        db.source("a", DDL, closes=["ts", ("k", "ts")])
        s = db.stream("s", "k{seq a}", st.filter("x > 0"), order="ts", closes={"a": "ts"})
        db.view("v", "SELECT count(*) AS n, ts FROM s GROUP BY ts")
        db.apply({"a": [(1, at(50), 1)]}, punctuate={"a": below(100, k=1)})
        assert minutes(s) == [50] and not db.final_table("v").num_rows
        db.apply({"a": [(2, at(50), 1)]}, punctuate={"a": below(100, k=2)})
        commit = db.apply({}, punctuate={"a": below(100)})
        assert commit.closed == {"v": 1} and rows(db.final_table("v")) == [(2, at(50))]


def test_outputs_beside_a_clock_are_closed_as_far_as_their_own_rows_are(db: Any) -> None:
    s = db.stream(
        "s",
        "hour[bag a] | seq b",
        st.filter("x > 0", "a"),
        order="ts",
        marks=HOUR,
        closes={"b": "ts"},
    )
    db.apply(
        {"a": [(1, at(10), 1)], "b": [(1, at(30), 1)]}, punctuate={"a": below(90), "b": below(20)}
    )
    assert minutes(s, "hour") == [60] and minutes(s, "b") == []
    db.apply({}, punctuate={"b": below(60)})
    assert minutes(s, "b") == [30]


# --- order ------------------------------------------------------------------------------------------------


def test_ties_by_the_row_or_refused(db: Any) -> None:
    by_row = db.stream("s", "seq a", st.filter("x >= 0"), order="ts")
    db.apply({"a": [(2, at(5), 1), (1, at(5), 2), (1, at(5), 1)]})
    db.apply({}, punctuate={"a": below(10)})
    assert [r[:1] + r[2:] for r in rows(by_row.output_table())] == [(1, 1), (1, 2), (2, 1)]
    db.stream("t", "k{seq b}", st.filter("x >= 0"), order="ts", ties="error")
    db.apply({"b": [(1, at(5), 1), (2, at(5), 1)]}, punctuate={"b": below(10)})
    with pytest.raises(Ties, match="two rows of `b`"):
        db.apply({"b": [(1, at(15), 1), (1, at(15), 2)]}, punctuate={"b": below(20)})
    assert db["t"].output_table().num_rows == 2 and db.table("b").num_rows == 2


def test_by_arrival(db: Any) -> None:
    s = db.stream("s", "k{seq a}", st.filter("x > 0"), order="arrival")
    db.apply({"a": [(1, at(50), 2), (1, at(10), 1)]})
    db.apply({"a": [(1, at(5), 3)]})
    assert minutes(s) == [10, 50, 5]
    with pytest.raises(StreamError, match="taken as it came"):
        db.apply({"a": hw.Delta(deletes=[(1, at(5), 3)])})
    with pytest.raises(StreamError, match="nobody knows"):
        s.verify()
    assert db.table("a").num_rows == 3


def test_one_order_column_a_header(db: Any) -> None:
    db.source("m", "happened TIMESTAMP, name STRING", closes="happened")
    order = {"a": "ts", "m": "happened"}
    s = db.stream("s", "m[bag a]", st.filter("x > 0", "a"), order=order)
    both = {"a": below(60), "m": hw.closed(happened=hw.below(at(60)))}
    db.apply({"a": [(1, at(5), 1), (1, at(20), 2)], "m": [(at(10), "tea")]}, punctuate=both)
    assert str(s.value()).count("tea") == 1 and minutes(s, "a") == [5, 20]
    s.verify()


def test_a_static_source_is_over_from_the_beginning(db: Any) -> None:
    db.source("names", "k BIGINT, ts TIMESTAMP, name STRING", static=True)
    db.apply({"names": [(1, at(0), "one")]})
    s = db.stream("s", "seq a, names", st.filter("k > 0"), order="ts")
    db.apply({"a": [(1, at(5), 1)]}, punctuate={"a": below(10)})
    assert [e for e in str(s.value()).split() if e.startswith(("[names", "a("))] == [
        "[names(1,",
        "a(1,",
    ]


# --- layers -----------------------------------------------------------------------------------------------


def test_a_stream_over_a_stream_over_a_ledger_under_a_view(db: Any) -> None:
    """A SQL view over a stream over a stream over the final rows of a view, in one commit."""
    db.view("by_minute", "SELECT ts, sum(x) AS x FROM a GROUP BY ts")
    db.stream(
        "hours",
        "hour[bag by_minute]",
        st.hierarchical(
            st.relational("SELECT max(x) AS most FROM by_minute"),
            update="SELECT mark.ts AS ts, most FROM mark, result",
            gives="highest_minutes",
        ),
        order="ts",
        marks=HOUR,
        closes={"highest_minutes": "ts"},
    )
    rises = st.mark(st.when("most < 5") + st.when("most >= 5"), "rose")
    db.stream("rises", "seq highest_minutes", rises, order="ts", closes={"rose": "ts"})
    db.view("days", "SELECT date(ts) AS day, count(*) AS n FROM rose GROUP BY date(ts)")
    given = [(1, at(10), 1), (2, at(10), 3), (1, at(70), 2), (1, at(70), 4), (1, at(130), 9)]
    db.apply({"a": given})
    commit = db.apply({}, punctuate={"a": below(60)})
    assert rows(db["hours"].output_table()) == [(at(60), 4)]
    assert commit.closed["by_minute"] == 1
    commit = db.apply({}, punctuate={"a": below(185)})
    assert rows(db["hours"].output_table()) == [(at(60), 4), (at(120), 6), (at(180), 9)]
    assert rows(db["rises"].output_table("rose")) == [(at(120), 6)]
    assert [r[1] for r in rows(db.table("days"))] == [1]
    for name in ("hours", "rises"):
        db[name].verify()
    commit = db.apply({}, punctuate={"a": hw.closed()})
    assert commit.closed["days"] == 1
    assert rows(db.final_table("days"))[0][1] == 1
    with pytest.raises(InUse, match="rises"):
        db.drop("hours")
    with pytest.raises(InUse, match="days"):
        db.drop("rises")
    with pytest.raises(InUse, match="is told by the stream"):
        db.drop("rose")
    with pytest.raises(InUse, match="hours"):
        db.drop("by_minute")
    db.drop("days")
    db.drop("rises")
    db.drop("hours")
    assert not list(db.streams)
    assert not [m for m in db.store.at().version.maps if m.startswith(("p:", "s:", "b:", "t:"))]


def test_what_was_told_at_earlier_versions(db: Any) -> None:
    s = db.stream("s", "k{seq a}", st.filter("x > 0"), order="ts")
    versions = []
    for n in range(4):
        row = (1, at(10 * n), n + 1)
        versions.append(db.apply({"a": [row]}, punctuate={"a": below(10 * n + 1)}).version)
    assert [s.value(v) == s.value(versions[-1]) for v in versions] == [False, False, False, True]
    assert rows(s.output_table(since=versions[0], until=versions[2])) == [
        (1, at(10), 2),
        (1, at(20), 3),
    ]
    assert s.output_table(since=versions[-1]).num_rows == 0
    assert len(str(s.value(versions[0])).split("a(")) == 2


def test_pending_and_state(db: Any) -> None:
    def total(state: Any, row: Any, emit: Any) -> Any:
        return ((state.n or 0) + row.x,)

    steps = st.partitioned(st.fold(total, state="n BIGINT", result="n"))
    s = db.stream("s", "k{seq a}", steps, order="ts")
    db.apply({"a": [(1, at(5), 2), (2, at(5), 3), (1, at(50), 4)]}, punctuate={"a": below(10)})
    (waits,) = s.pending()
    assert (waits.header, waits.rows, waits.first, waits.waits_for) == (
        "a",
        1,
        at(50),
        {"a": at(10)},
    )
    assert "closed up to" in str(waits)
    assert "2" in str(s.state(1)) and "3" in str(s.state(2)) and s.state(7) is None
    assert rows(s.pending_table("a")) == [(1, at(50), 4)]
    before = db.version
    db.apply({}, punctuate={"a": below(60)})
    assert not s.pending() and "6" in str(s.state(1)) and "2" in str(s.state(1, version=before))
    assert s.pending(before)[0].rows == 1


# --- functions that fail, and that are not there ----------------------------------------------------------


def raising(on: int, with_: BaseException) -> Any:
    """A step that raises on some rows, as long as it is told to."""
    broken = [True]

    def step(row: Any) -> Any:
        if broken[0] and row.x == on:
            raise with_
        return row

    return step, broken


def test_a_function_that_raises_loses_nothing(db: Any) -> None:
    step, broken = raising(3, ZeroDivisionError("no such thing"))
    s = db.stream("s", "k{seq a}", st.map(a=step), order="ts")
    db.apply({"a": [(1, at(5), 1), (1, at(6), 3)]}, punctuate={"a": below(6)})
    with pytest.raises(HeadwaterError, match="the stream `s`"):
        db.apply({"a": [(1, at(7), 2)]}, punctuate={"a": below(10)})
    assert minutes(s) == [5] and db.table("a").num_rows == 2
    db.apply({"a": [(1, at(8), 2)]})  # what makes nothing ready goes on
    broken[0] = False
    db.apply({"a": [(1, at(7), 2)]}, punctuate={"a": below(10)})
    assert minutes(s) == [5, 6, 7, 8]
    s.verify()


def test_an_interrupt_in_a_step_leaves_the_version_before(db: Any) -> None:
    step, broken = raising(3, KeyboardInterrupt())
    s = db.stream("s", "k{seq a}", st.map(a=step), order="ts")
    db.apply({"a": [(1, at(5), 1), (1, at(6), 3)]})
    version = db.version
    with pytest.raises(KeyboardInterrupt):
        db.apply({}, punctuate={"a": below(10)}, id="once")
    assert (db.version, minutes(s)) == (version, [])
    broken[0] = False
    db.apply({}, punctuate={"a": below(10)}, id="once")
    db.apply({}, punctuate={"a": below(10)}, id="once")
    assert minutes(s) == [5, 6]
    s.verify()


def add(state: Any, row: Any, emit: Any) -> Any:
    emit("sums", row.k, row.ts, (state.n or 0) + row.x)
    return ((state.n or 0) + row.x,)


def changed(state: Any, row: Any, emit: Any) -> Any:
    emit("sums", row.k, row.ts, 0)
    return (0,)


ADD = st.partitioned(st.fold(add, state="n BIGINT", result="n", gives={"sums": DDL}))


def test_a_process_without_the_functions_lets_rows_wait(tmp_path: Path) -> None:
    """Also rows that come before those that were looked at last: all are taken when the stream is defined again."""

    def opened() -> Any:
        made = hw.open(tmp_path / "db")
        for name in ("a", "b"):
            made.source(name, DDL, closes="ts")
        return made

    steps = ADD
    schema = "k{seq a}"
    with opened() as db:
        db.stream("s", schema, steps, order="ts")
        db.apply({"a": [(1, at(5), 1)]}, punctuate={"a": below(10)})
    with opened() as db:
        db.apply({"a": [(1, at(30), 2)]})
        db.apply({"a": [(1, at(20), 3)]}, punctuate={"a": below(25)})
        assert minutes(db["s"]) == [5]
        with pytest.raises(StreamMissing, match="does not know"):
            db["s"].verify()
        assert minutes(db["s"]) == [5]  # what was told can be looked at
        other = st.partitioned(st.fold(changed, state="n BIGINT", result="n", gives={"sums": DDL}))
        with pytest.raises(StreamChanged, match="with other steps"):
            db.stream("s", schema, other, order="ts")
        assert db.table("sums").num_rows == 1
    with opened() as db:
        s = db.stream("s", schema, steps, order="ts")
        assert minutes(s) == [5, 20]
        db.apply({"a": hw.Delta(deletes=[(1, at(30), 2)], inserts=[(1, at(26), 7)])})
        db.apply({}, punctuate={"a": below(40)})
        assert [r[2] for r in rows(s.output_table())] == [1, 4, 11]
        s.verify()


def test_rows_that_wait_for_another_header_while_functions_are_missing(tmp_path: Path) -> None:
    """b is closed further than a, and a row of a comes before that, to a process that cannot run the stream."""

    def opened() -> Any:
        made = hw.open(tmp_path / "db")
        for name in ("a", "b"):
            made.source(name, DDL, closes="ts")
        return made

    def same(row: Any) -> Any:
        return row

    steps = st.map(a=same, b=same)
    with opened() as db:
        db.stream("s", "seq a, b", steps, order="ts")
        db.apply({}, punctuate={"a": below(50), "b": below(200)})
    with opened() as db:
        db.apply({"a": [(1, at(60), 1)]})
    with opened() as db:
        s = db.stream("s", "seq a, b", steps, order="ts")
        db.apply({}, punctuate={"a": below(300), "b": below(300)})
        assert minutes(s, "a") == [60]


def test_dropped_and_defined_again(db: Any) -> None:
    s = db.stream("s", "hour[bag a]", SUMS, order="ts", marks=HOUR, closes={"sums": "hour"})
    db.apply({"a": [(1, at(5), 1), (1, at(70), 3)]}, punctuate={"a": below(60)})
    before = rows(s.output_table())
    db.drop("s")
    with pytest.raises(HeadwaterError):
        db["s"].value()
    db.apply({"a": [(1, at(80), 3)]}, punctuate={"a": below(120)})
    s = db.stream("s", "hour[bag a]", SUMS, order="ts", marks=HOUR, closes={"sums": "hour"})
    assert before == [(at(60), 1)] and rows(s.output_table()) == [*before, (at(120), 6)]
    s.verify()


# --- beside everything else -------------------------------------------------------------------------------


def test_what_a_database_does_goes_on_beside_streams(tmp_path: Path) -> None:
    """Changes, copies, rebuilding, checking, verifying, and versions that go: nothing breaks by a stream."""
    with hw.open(tmp_path / "db", keep_versions=4) as db:
        db.source("a", DDL, closes="ts")
        db.view("by_key", "SELECT k, ts, sum(x) AS x FROM a GROUP BY k, ts")
        s = db.stream("s", "hour[bag a]", SUMS, order="ts", marks=HOUR, closes={"sums": "hour"})
        ledger = db.stream("t", "k{seq by_key}", st.filter("x > 1"), order="ts")
        db.view("most", "SELECT max(total) AS most FROM sums")
        db.view("all_sums", "SELECT * FROM sums")
        copy = hw.copies.ParquetCopy(tmp_path / "copy")
        outputs = hw.copies.ParquetCopy(tmp_path / "outputs")
        for n in range(6):
            rows_now = [(n % 3, at(50 * n + 5 * i), i + n) for i in range(3)]
            db.apply({"a": rows_now}, punctuate={"a": below(50 * n)})
            copy.sync(db["most"])
            outputs.sync(db["all_sums"])
            if n == 3:
                before = s.value(), ledger.value(), rows(db.table("most"))
                db.rebuild()
                assert (s.value(), ledger.value(), rows(db.table("most"))) == before
        told = db.changes_table("sums", db.version - 1)
        assert set(told.column("_w").to_pylist()) <= {1}
        assert sorted(rows(outputs.rows())) == sorted(rows(db.table("sums")))
        assert rows(copy.rows()) == rows(db.table("most"))
        assert not db.check().problems
        for handle in (s, ledger):
            handle.verify()
        assert len(s.output_table()) == 4 and ledger.output_table().num_rows > 5


KEYS: dict[str, list[Any]] = {
    "STRING": ["a", "ä", "", None],
    "TIMESTAMP": [at(0), at(60), None],
    "DECIMAL(10,2)": [Decimal("1.50"), Decimal("0.00"), None],
    "DOUBLE": [0.0, -0.0, 1.5, math.inf, math.nan, None],
    "BINARY": [b"a", b"", None],
}


@pytest.mark.parametrize("type", KEYS)
def test_keys_of_many_types(tmp_path: Path, type: str) -> None:
    """States are found by key again, also by NULL, NaN and a zero with a sign."""
    given = {"sums": f"k {type}, ts TIMESTAMP, x BIGINT"}
    steps = st.partitioned(st.fold(add, state="n BIGINT", result="n", gives=given))
    n = 0
    for _ in range(3):
        with hw.open(tmp_path / "db") as db:
            db.source("a", f"k {type}, ts TIMESTAMP, x BIGINT", closes="ts")
            s = db.stream("s", "k{seq a}", steps, order="ts")
            new = [(key, at(n + i), 1) for i, key in enumerate(KEYS[type])]
            n += len(new)
            db.apply({"a": new}, punctuate={"a": below(n)})
            last = {repr(k): x for k, _, x in rows(s.output_table())}
            states = [s.state(k) for k in KEYS[type]]
            s.verify()
    zeros = {"0.0": 6} if type == "DOUBLE" else {}
    assert (
        last == {repr(k): 3 for k in KEYS[type] if repr(k) != "-0.0"} | zeros or type == "TIMESTAMP"
    )
    assert None not in states and sorted(last.values())[0] == 3


def test_sources_that_keep_little(tmp_path: Path) -> None:
    """Rows that a source keeps no longer, or sets aside, are none that a stream needs."""
    with hw.open(tmp_path / "db") as db:
        db.source("a", DDL, closes="ts", retain="open", late="aside")
        db.source("b", DDL, closes="ts", retain=False)
        s = db.stream("s", "seq a, b", st.filter("x > 0"), order="ts")
        for n in range(4):
            late = [(9, at(0), 9)] if n > 1 else []
            db.apply(
                {"a": [(1, at(10 * n), 1), *late], "b": [(2, at(10 * n + 5), 2)]},
                punctuate={"a": below(10 * n), "b": below(10 * n)},
            )
        assert minutes(s, "a") == [0, 10, 20] and minutes(s, "b") == [5, 15, 25]
        assert db.late_table("a").num_rows == 2
        with pytest.raises(HeadwaterError, match="kept no more"):
            s.verify()
        with pytest.raises(HeadwaterError, match="over, and are kept no more"):
            db.stream("late", "seq a", st.filter("x > 0"), order="ts")
