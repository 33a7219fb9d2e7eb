"""Feeds: batches with a cursor that is committed with them, whatever is killed; what is wrong is named, and holds only itself."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from dying_files import Dying
from faulty_files import Stopped
from headwater.errors import FeedAway, FeedLost, QueryError, StageFailed, StageMissing, UnknownName
from headwater.feeds.feed import Batch, Limit

COLUMNS = "id BIGINT, name STRING"


@pytest.fixture
def db(tmp_path: Path) -> hw.Database:
    return hw.open(tmp_path / "db")


def ids(db: hw.Database, name: str = "orders") -> list[int]:
    return sorted(r["id"] for r in db.table(name).to_pylist() for _ in range(r["_w"]))


class Numbers:
    """Gives the numbers up to an end, so many at a time; it notes what it was told, and raises what it is given."""

    replays = True

    def __init__(self, end: int, most: int = 2):
        self.end, self.most = end, most
        self.told: list[Any] = []
        self.wrong: list[Exception] = []
        self.closed = 0

    def read(self, after: Any, limit: Limit) -> Batch | None:
        if self.wrong:
            raise self.wrong.pop(0)
        first = after or 0
        rows = [(n, "x") for n in range(first, min(self.end, first + self.most))]
        return Batch(rows, first + len(rows)) if rows else None

    def committed(self, cursor: Any) -> None:
        self.told.append(cursor)

    def close(self) -> None:
        self.closed += 1


def test_items_of_a_list_are_taken_once_and_it_may_grow(db: hw.Database) -> None:
    items: list[Any] = [(1, "a"), (2, "b"), (3, "c")]
    db.source("orders", COLUMNS, feed=items, options={"max_rows": 2})
    db.view("names", "SELECT count(*) AS n FROM orders")
    assert db.run().epochs == ["orders", "orders"]
    assert ids(db) == [1, 2, 3]
    version = db.version
    assert db.run().epochs == [] and db.version == version
    items.append({"id": 4, "name": "d"})
    db.run()
    assert ids(db) == [1, 2, 3, 4] and db.table("names").to_pylist()[0]["n"] == 4


def test_tables_of_an_iterator_and_none_where_there_is_nothing_now(db: hw.Database) -> None:
    def gives() -> Any:
        yield pa.table({"id": [1, 2], "name": ["a", "b"]})
        yield None
        yield (3, "c")
        yield hw.Delta(deletes=[(1, "a")])

    db.source("orders", COLUMNS, feed=gives())
    assert db.run().epochs == ["orders"] and ids(db) == [1, 2]
    assert db.run().epochs == ["orders", "orders"] and ids(db) == [2, 3]


def test_another_process_goes_on_behind_what_was_taken(tmp_path: Path) -> None:
    for end in (3, 3, 7):
        with hw.open(tmp_path / "db") as db:
            db.source("orders", COLUMNS, feed=((n, "x") for n in range(end)))
            db.run()
            assert ids(db) == list(range(end))


def test_a_batch_is_told_to_be_committed_after_it_is(db: hw.Database) -> None:
    feed = Numbers(5)
    db.source("orders", COLUMNS, feed=feed)
    db.run()
    assert feed.told == [2, 4, 5] and ids(db) == [0, 1, 2, 3, 4]
    db.close()
    assert feed.closed == 1


@pytest.mark.parametrize("items", [[("a", "b")], [(1, "x"), 5], [(1,)]])
def test_what_does_not_fit_holds_the_feed_alone(db: hw.Database, items: list[Any]) -> None:
    db.source("orders", COLUMNS, feed=items)
    db.source("others", COLUMNS, feed=[(1, "x")])
    with pytest.raises(StageFailed, match="the feed of `orders` is held"):
        db.run()
    assert ids(db) == [] and ids(db, "others") == [1]


def test_a_feed_that_is_away_is_tried_again_while_the_rest_goes_on(db: hw.Database) -> None:
    away, there = Numbers(3), Numbers(3)
    away.wrong = [FeedAway("nobody answers", hint="start the server")]
    db.source("orders", COLUMNS, feed=away)
    db.source("others", COLUMNS, feed=there)
    with pytest.raises(StageFailed, match="the feed of `orders` is away: nobody answers") as told:
        db.run()
    assert "start the server" in str(told.value) and away.closed == 1
    assert ids(db) == [] and ids(db, "others") == [0, 1, 2]
    away.wrong = [FeedAway("nobody answers")]
    db.run(every=0.05, seconds=1.0)  # the first pause is half a second
    assert ids(db) == [0, 1, 2]


def test_late_rows_hold_their_feed_alone(db: hw.Database) -> None:
    db.source("orders", COLUMNS, feed=[(1, "x"), (5, "y")], closes="id")
    db.source("others", COLUMNS, feed=[(1, "x")])
    db.punctuate("orders", id=hw.below(3))
    with pytest.raises(StageFailed, match="the feed of `orders` is held"):
        db.run()
    assert ids(db) == [] and ids(db, "others") == [1]


def test_what_is_lost_is_told(db: hw.Database) -> None:
    feed = Numbers(3)
    db.source("orders", COLUMNS, feed=feed)
    feed.wrong = [FeedLost("the slot is gone", hint="declare another")]
    with pytest.raises(StageFailed, match="held: the slot is gone"):
        db.run()
    db.run()
    assert ids(db) == [0, 1, 2]


def test_a_feed_of_another_kind_begins_anew_and_none_has_none(db: hw.Database) -> None:
    db.source("orders", COLUMNS, feed=Numbers(2))
    db.run()
    db.source("orders", COLUMNS, feed=[(7, "x")])
    db.run()
    assert ids(db) == [0, 1, 7]
    db.source("orders", COLUMNS)
    assert db.run().epochs == []


def test_a_feed_is_opened_only_where_it_was_declared(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("orders", COLUMNS, feed=[(1, "x")])
    with hw.open(tmp_path / "db") as db:
        with pytest.raises(StageMissing, match="feed of kind iterable"):
            db.run()
        db.drop("orders")
        db.source("orders", COLUMNS, feed=[(1, "x")])
        db.run()
        assert ids(db) == [1]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"format": "kafak"}, "has the format 'kafak'"),
        ({"feed": [], "options": {"rows": 1}}, "the option `rows` of `orders` means nothing"),
        ({"feed": [], "options": {"max_rows": 0}}, "the option `max_rows` of `orders` is '0'"),
        ({"feed": [], "options": {"max_seconds": "nan"}}, "`max_seconds` of `orders` is 'nan'"),
        ({"feed": [], "options": {"max_rows": [1]}}, "is of type list"),
        ({"feed": [], "format": "csv"}, "has `feed=`, and `format=`"),
        ({"feed": 5}, "the feed of `orders` is of type int"),
        ({"feed": [], "bad": "drop"}, "`bad` of `orders` is 'drop'"),
    ],
)
def test_what_means_nothing_is_refused_by_name(
    db: hw.Database, given: dict[str, Any], told: str
) -> None:
    with pytest.raises(QueryError, match=told):
        db.source("orders", COLUMNS, **given)
    assert "orders" not in db


def rejecting(db: hw.Database, bad: Any) -> hw.Progress:
    class Lines:
        def read(self, after: Any, limit: Limit) -> Batch | None:
            wrong = pa.table({"record": ["?"], "place": ["line 2"], "why": ["no number"]})
            return None if after else Batch([(1, "x")], 1, rejected=wrong)

    db.source("orders", COLUMNS, feed=Lines(), bad=bad)
    return db.run()


def test_records_that_do_not_fit_are_counted(db: hw.Database) -> None:
    rejecting(db, "skip")
    assert ids(db) == [1] and "orders_rejected" not in db
    assert db.graph.nodes["orders"].rejected == 1


def test_records_that_do_not_fit_are_set_aside(db: hw.Database) -> None:
    rejecting(db, "aside")
    found = db.table("orders_rejected").to_pylist()
    assert found == [
        {"record": "?", "place": "line 2", "why": "no number", "version": db.version, "_w": 1}
    ]
    assert ids(db) == [1]
    db.drop("orders")
    assert "orders_rejected" not in db
    with pytest.raises(UnknownName):
        db.drop("orders")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@settings(max_examples=8, deadline=None)
@given(
    grows=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    writes=st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["before", "after"])), max_size=5),
    most=st.integers(1, 3),
    listed=st.booleans(),
)
def test_whatever_is_killed_nothing_is_lost_or_doubled(
    tmp_path_factory: pytest.TempPathFactory,
    grows: list[int],
    writes: list[tuple[int, str]],
    most: int,
    listed: bool,
) -> None:
    """Processes die at any write, and others go on with the same items; of which there are more and more."""
    path, total = tmp_path_factory.mktemp("killed") / "db", 0
    for number, more in enumerate([*grows, *[1] * len(writes), 1]):
        total += more
        items = [(n, "x") for n in range(total)]
        with pytest.MonkeyPatch.context() as patched, contextlib.suppress(Stopped):
            if number < len(writes):
                Dying(*writes[number]).over(patched)
            db = hw.open(path)
            given = items if listed else iter(items)
            db.source("orders", COLUMNS, feed=given, options={"max_rows": most})
            db.run()
        db.close()
        with hw.open(path) as again:
            if "orders" in again:
                assert ids(again) == list(range(len(ids(again))))
    assert ids(hw.open(path)) == list(range(total))
