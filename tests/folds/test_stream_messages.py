"""Bad input of streams: each is refused with what, where and what to do, nothing is lost, and it goes on when mended."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

import headwater as hw
import headwater.st as st
from headwater.errors import (
    BadChange,
    HeadwaterError,
    IllFormedSchema,
    InUse,
    LateRows,
    NameTaken,
    NotMonotone,
    ParseError,
    QueryError,
    SchemaMismatch,
    StateError,
    StepFailed,
    StreamChanged,
    StreamError,
    StreamMissing,
    Ties,
    UnknownName,
)
from headwater.streams.schema import Event, Headers, Schema, headers_of
from headwater.streams.steps import Context, Step, chosen
from headwater.streams.transformer import Relational, Transformer

HOUR = {"hour": "1 hour"}
HOURS = "hour[taxi{seq gps} | bag rides]"
COUNT = st.relational("SELECT count(*) AS n FROM gps", gives="counts")


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 3, 1, hour, minute, tzinfo=UTC)


def below(hour: int) -> Any:
    return hw.closed(ts=hw.below(at(hour)))


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        made.source("gps", "taxi BIGINT, ts TIMESTAMP, x DOUBLE", closes="ts")
        made.source("rides", "taxi BIGINT, ts TIMESTAMP, cost DOUBLE", closes="ts")
        made.source("days", "taxi BIGINT, day DATE, name STRING", closes="day")
        yield made


def seen(db: hw.Database) -> Any:
    """Everything that can be read: rows, what was told, what waits."""
    rows = {n: sorted(map(str, db.table(n).to_pylist())) for n in (*db.sources, *db.views)}
    told = {}
    for name in db.streams:
        outputs = {o: db[name].output_table(o).to_pylist() for o in db[name].outputs}
        told[name] = outputs, list(map(str, db[name].pending()))
    return rows, told, db.streams


@contextlib.contextmanager
def refused(
    db: hw.Database, kind: type[HeadwaterError], *words: str, hint: bool = True
) -> Iterator[Any]:
    """Something is refused with these words, and the database is at the version before."""
    before = db.version, seen(db)
    with pytest.raises(kind) as caught:
        yield caught
    told = str(caught.value)
    for w in words:
        assert w in told, f"{w!r} is not said in:\n{told}"
    assert not hint or len(told.splitlines()) > 1, f"what to do is not said:\n{told}"
    assert "object at 0x" not in told and "Base(" not in told and "<locals>.emit" not in told
    assert (db.version, seen(db)) == before
    assert not list((db.path / "staging").glob("*")), "something stayed staged"


# --- definitions -----------------------------------------------------------------------------------------------------


def kept(state: Any, row: Any, emit: Any) -> Any:
    """The last x."""
    return (row.x,)


FOLD = st.fold(kept, state="x DOUBLE", gives={"told": "x DOUBLE"})
PASS = st.filter("true")
Defined = tuple[Any, Any, dict[str, Any], type[HeadwaterError], tuple[str, ...]]
DEFINED: dict[str, Defined] = {
    "header twice": (
        "hour[seq gps | bag gps]", PASS, {"marks": HOUR}, IllFormedSchema,
        ("the stream `s`: header `gps` is twice", "give one of the two another name"),
    ),
    "key that is no field": (
        "hour[driver{seq gps} | bag rides]", PASS, {"marks": HOUR}, IllFormedSchema,
        ("key `driver` is no column of header `gps`", "columns of `gps`: taxi, ts, x"),
    ),
    "key of the clock": (
        st.PartitionBy("taxi", st.Sync("hour", st.Bag("gps"))), PASS, {"marks": HOUR}, IllFormedSchema,
        ("key `taxi` is no column of header `hour`", "columns of `hour`: ts"),
    ),
    "key twice": (
        "taxi{taxi{seq gps}}", PASS, {}, IllFormedSchema,
        ("key `taxi` is given twice", "around header `gps`", "leave the second one out"),
    ),
    "notation": ("taxi{seq gps", PASS, {}, ParseError, ("expected `}`", "for example: hour[")),
    "no schema": (None, PASS, {}, StreamError, ("its schema is of type NoneType", "its notation")),
    "no steps": ("seq gps", "x > 0", {}, StreamError, ("its steps are of type str", "st.filter(")),
    "unknown header": (
        "seq trips", PASS, {}, StreamError,
        ("there is no header `trips`", "a header is one of gps, rides, days", "marks={'trips': '1 hour'}"),
    ),
    "no order column": (
        "seq gps", PASS, {"order": "at"}, StreamError, ("`gps` has no order column `at`", "columns of `gps`: taxi, ts, x"),
    ),
    "no order column of one": (
        "rides[bag days]", PASS, {}, StreamError, ("`days` has no order column `ts`", "order={'days': 'column'}"),
    ),
    "no order named": (
        "rides[bag gps]", PASS, {"order": {"rides": "ts"}}, StreamError, ("`gps` has no order column", "or 'arrival'"),
    ),
    "order of another": (
        "seq gps", PASS, {"order": {"gps": "ts", "trips": "ts"}}, StreamError, ("`order` has `trips`", "headers: gps"),
    ),
    "no order at all": ("seq gps", PASS, {"order": None}, StreamError, ("`order` is of type NoneType", "name a column")),
    "order of other types": (
        "rides[bag days]", PASS, {"order": {"rides": "ts", "days": "day"}}, StreamError,
        ("`ts` of `rides` is timestamp, `day` of `days` is date", "give them one type"),
    ),
    "order by text": (
        "seq days", PASS, {"order": "name"}, StreamError, ("`name` of `days` is string", "a time, a date, a whole number or a double"),
    ),
    "clock backwards": (
        HOURS, PASS, {"marks": {"hour": "-1 hour"}}, HeadwaterError,
        ("the clock `hour`: ", "'-1 hour', which is not positive", "10 minutes"),
    ),
    "clock that stands": (HOURS, PASS, {"marks": {"hour": "0 hours"}}, HeadwaterError, ("'0 hours'", "10 minutes")),
    "clock of nothing": (HOURS, PASS, {"marks": {"hour": "often"}}, HeadwaterError, ("`often` is no interval", "minute, hour")),
    "clock by numbers": (
        HOURS, PASS, {"marks": {"hour": 5}}, HeadwaterError, ("by 5 over a column of type timestamp", "any time for timestamps"),
    ),
    "clock elsewhere": ("seq gps", PASS, {"marks": HOUR}, StreamError, ("the clock `hour` is no header", "headers: gps")),
    "clock of a source": (
        "rides[bag gps]", PASS, {"marks": {"rides": "1 hour"}}, StreamError, ("the name of a source", "another name"),
    ),
    "clock and arrival": (
        HOURS, PASS, {"marks": HOUR, "order": "arrival"}, StreamError, ("has the clock `hour`", "order='ts'"),
    ),
    "marks as a list": (HOURS, PASS, {"marks": ["hour"]}, StreamError, ("`marks` is of type list", "marks={")),
    "a step's clock backwards": (
        "seq gps", st.every("-1 hour", "tick"), {}, HeadwaterError,
        ("every('-1 hour', name='tick')", "which is not positive", "10 minutes"),
    ),
    "a step's clock taken": (
        "seq gps", st.every("1 hour", "gps"), {}, SchemaMismatch, ("header `gps` is in `seq gps` already", "another name"),
    ),
    "ties": ("seq gps", PASS, {"ties": "drop"}, StreamError, ("`ties` is 'drop'", "'row' or 'error'")),
    "closes": ("seq gps", PASS, {"closes": "ts"}, StreamError, ("`closes` is of type str", "closes={")),
    "closes nothing": (
        "seq gps", PASS, {"closes": {"told": "ts"}}, StreamError, ("`told`, which is no output", "outputs: gps"),
    ),
    "closes no column": (
        "seq gps", PASS, {"closes": {"gps": "at"}}, QueryError, ("`at`, which is no column", "taxi, ts, x"),
    ),
    "changed": ("seq gps", PASS, {"changed": "yes"}, StreamError, ("`changed` is 'yes'", "'refuse' or 'keep'")),
    "a bag for a sequence": (
        HOURS, st.lift("rides", st.fold(kept, state="x DOUBLE")), {"marks": HOUR}, SchemaMismatch,
        ("fold(kept, state='x double') does not fit", "rows of `rides` are asked for in order", "partition them by a key"),
    ),
    "no keys": (
        "seq gps", st.partitioned(FOLD), {}, SchemaMismatch, ("it asks for streams by key", "is given `seq gps`", "lift"),
    ),
    "the second step": (
        "hour[bag gps]", st.filter("x > 0", of="gps") >> st.highest("cost"), {"marks": HOUR}, UnknownName,
        ("step 2 of 2, highest('cost')", "unknown column `cost` of header `gps`", "columns of `gps`: taxi, ts, x"),
    ),
    "the second step's header": (
        HOURS, PASS >> st.filter("x > 0", of="trips"), {"marks": HOUR}, UnknownName,
        ("step 2 of 2", "header `trips` is not there", "headers: hour, gps, rides"),
    ),
    "the second step's key": (
        "hour[taxi{seq gps}]",
        st.peaks("x") >> st.carry("driver", lambda at, row, header: at, "n BIGINT", gives="status"),
        {"marks": HOUR}, SchemaMismatch,
        ("step 2 of 2, carry(('driver',)", "in order for equal `driver`", "only for equal `taxi`", "order the rows"),
    ),
    "a pattern's field": (
        "taxi{seq gps}", st.lift("seq gps", st.mark(st.when("speed > 3").times(2), "fast")), {}, UnknownName,
        ("mark([speed > 3]^2, name='fast')", "unknown column `speed` in `gps`", "columns of `gps`: taxi, ts, x"),
    ),
    "a pattern's header": (
        "seq gps", st.mark(st.when("x > 3", header="trips"), "fast"), {}, UnknownName,
        ("speaks of header `trips`", "marks: gps"),
    ),
    "a pattern of numbers": (
        "seq gps", st.mark(st.when("x + 3"), "fast"), {}, StreamError, ("`x + 3` is no condition", "true, false or NULL"),
    ),
    "a table that is not there": (
        "hour[bag gps]", st.lift("gps", st.relational("SELECT * FROM trips", gives="q")), {"marks": HOUR}, UnknownName,
        ("unknown table `trips`", "tables: gps"),
    ),
    "no part": ("seq gps", st.lift("rides", PASS), {}, UnknownName, ("`rides` is no part of `seq gps`", "parts of it")),
    "a result that is none": (
        "seq gps", st.fold(kept, state="x DOUBLE", result="y"), {}, StepFailed, ("`y` is no column of its state", "state: x"),
    ),
    "an output that is taken": (
        "hour[bag gps]", st.lift("gps", st.relational("SELECT x FROM gps", gives="days")), {"marks": HOUR}, NameTaken,
        ("there is a source, view, stage or stream `days`", "take another name"),
    ),
    "an output that is a mark": (
        "hour[bag gps]", st.lift("gps", st.relational("SELECT x FROM gps", gives="hour")), {"marks": HOUR}, IllFormedSchema,
        ("header `hour` is twice", "another name"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", DEFINED)
def test_a_bad_definition_is_refused_and_mended(db: hw.Database, what: str) -> None:
    schema, steps, more, kind, words = DEFINED[what]
    db.apply({"gps": [(1, at(8), 1.0)]}, punctuate={"gps": below(9)})
    with refused(db, kind, *words):
        db.stream("s", schema, steps, **{"order": "ts", **more})
    db.stream("s", "taxi{seq gps}", st.filter("x > 0"), order="ts")
    assert db["s"].output_table().column("x").to_pylist() == [1.0]


def test_names_that_are_taken(db: hw.Database) -> None:
    db.view("fast", "SELECT taxi FROM gps WHERE x > 1")
    db.stream("s", "hour[bag gps]", st.lift("gps", COUNT), order="ts", marks=HOUR)
    for name in ("gps", "fast", "FAST", "counts"):
        with refused(db, NameTaken, f"`{name}`", "take another name"):
            db.stream(name, "seq gps", PASS, order="ts")
    with refused(db, NameTaken, "`counts`", "take another name"):  # an output of the first
        db.stream("t", "hour[bag gps]", st.lift("gps", COUNT), order="ts", marks=HOUR)
    with refused(db, HeadwaterError, "`counts`"):
        db.source("counts", "n INT")
    for name in (5, "a b", ""):
        with refused(db, StreamError, f"{name!r} is no name of a stream", "letters"):
            db.stream(name, "seq gps", PASS, order="ts")  # type: ignore[arg-type]
    with refused(db, BadChange, "`counts` is no source: `s` writes it", "apply changes to sources"):
        db.apply({"counts": [(1,)]})
    with refused(db, InUse, "`gps` is read by the", "first"):
        db.drop("gps")
    with refused(db, InUse, "`counts` is told by the stream `s`", "drop `s` first"):
        db.drop("counts")


def test_another_definition_under_an_old_name(db: hw.Database) -> None:
    db.stream("s", "taxi{seq gps}", PASS, order="ts")
    others: list[tuple[Any, Any, dict[str, Any], str]] = [
        ("seq gps", PASS, {}, "schema='taxi{seq gps}' and not 'seq gps'"),
        ("taxi{seq gps}", PASS, {"ties": "error"}, "ties='row' and not 'error'"),
        ("taxi{seq gps}", PASS, {"closes": {"gps": "ts"}}, "closes={} and not {'gps': 'ts'}"),
        ("taxi{seq gps}", st.filter("x > 1"), {}, "was defined with other steps"),
    ]
    for schema, steps, more, said in others:
        for changed in ("refuse", "keep"):  # only functions may go on
            with refused(db, StreamChanged, "the stream `s` was defined", said, "drop it"):
                db.stream("s", schema, steps, order="ts", changed=changed, **more)
    db.stream("s", "taxi{seq gps}", PASS, order="ts")


# --- functions -------------------------------------------------------------------------------------------------------

GIVES = {"told": "taxi BIGINT, x DOUBLE"}
ROWS = [(1, at(8), 1.0), (1, at(8, 30), 2.0)]


def folding(f: Callable[..., Any]) -> Step:
    f.__qualname__ = "moved"
    return st.partitioned(st.fold(f, state="n BIGINT", gives=GIVES))


def right(at: Any, row: Any, emit: Any) -> Any:
    emit("told", row.taxi, row.x)
    return ((at.n or 0) + 1,)


def raises(at: Any, row: Any, emit: Any) -> Any:
    emit("told", row.taxi, row.x)
    return (1 // (2 - int(row.x)),)


def reads_what_is_not_there(at: Any, row: Any, emit: Any) -> Any:
    return (row.speed,)


def two_columns(at: Any, row: Any, emit: Any) -> Any:
    return 1, 2


def no_state(at: Any, row: Any, emit: Any) -> Any:
    emit("told", row.taxi, row.x)


def state_of_text(at: Any, row: Any, emit: Any) -> Any:
    return ("one",)


def state_too_large(at: Any, row: Any, emit: Any) -> Any:
    return (1 << 70,)


def few_cells(at: Any, row: Any, emit: Any) -> Any:
    emit("told", row.taxi)
    return (1,)


def cells_of_text(at: Any, row: Any, emit: Any) -> Any:
    emit("told", "one", row.x)
    return (1,)


def not_declared(at: Any, row: Any, emit: Any) -> Any:
    emit("other", row.taxi)
    return (1,)


def two_arguments(at: Any, row: Any) -> Any:
    return at


FUNCTIONS: dict[Callable[..., Any], tuple[str, ...]] = {
    raises: (
        "`moved` fails with ZeroDivisionError",
        "it was given State(n=1), gps(taxi=1",
        "x=2.0)",
    ),
    reads_what_is_not_there: ("fails with AttributeError", "no attribute 'speed'", "gps(taxi=1"),
    two_columns: ("gives (1, 2), which is no row of 1 column", "its columns: n bigint"),
    no_state: ("gives None, which is no row of 1 column", "its columns: n bigint"),
    state_of_text: ("gives 'one' for `n`, which is no bigint", "its columns: n bigint"),
    state_too_large: ("for `n`, which is no bigint", "its columns: n bigint"),
    few_cells: ("gives (1,), which is no row of 2 columns", "its columns: taxi bigint, x double"),
    cells_of_text: ("gives 'one' for `taxi`, which is no bigint", "taxi bigint, x double"),
    not_declared: ("tells a row of `other`, which it does not declare", "it declares: told"),
    two_arguments: ("fails with TypeError", "3 were given", "gps(taxi=1"),
}


@pytest.mark.parametrize("wrong", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_function_that_is_wrong_is_mended(db: hw.Database, wrong: Callable[..., Any]) -> None:
    db.view("sums", "SELECT taxi, sum(x) AS x FROM gps GROUP BY taxi")
    db.stream("s", "taxi{seq gps}", folding(wrong), order="ts")
    db.apply({"gps": ROWS})  # nothing is over: they wait
    step = "the stream `s`: fold(moved, state='n bigint'"
    with refused(db, StepFailed, step, *FUNCTIONS[wrong]):
        db.punctuate("gps", ts=hw.below(at(9)))
    db.apply({"rides": [(1, at(8), 2.0)]})  # what the stream does not read goes on
    with refused(db, StreamChanged, "the function `moved`", "`s`", "changed='keep'"):
        db.stream("s", "taxi{seq gps}", folding(right), order="ts")
    db.stream("s", "taxi{seq gps}", folding(right), order="ts", changed="keep")
    db.punctuate("gps", ts=hw.below(at(9)))
    assert db["s"].output_table("told").column("x").to_pylist() == [1.0, 2.0]
    db["s"].verify()


def test_a_bad_row_can_be_taken_away_instead(db: hw.Database) -> None:
    db.stream("s", "taxi{seq gps}", folding(raises), order="ts")
    db.apply({"gps": ROWS})
    with refused(db, StepFailed, "ZeroDivisionError"):
        db.punctuate("gps", ts=hw.below(at(9)))
    db.apply({"gps": hw.Delta(deletes=ROWS[1:])}, punctuate={"gps": below(9)})
    assert db["s"].output_table("told").column("x").to_pylist() == [1.0]


def test_a_function_that_fails_once_tells_its_rows_once(db: hw.Database) -> None:
    """What it told before it failed is told by nobody, neither then nor in a later run."""
    fails = iter([True, True, False])  # a call that fails is made again, to say what it was given

    def once(at: Any, row: Any, emit: Any) -> Any:
        emit("told", row.taxi, row.x)
        if next(fails, False):
            raise ConnectionError("try again")
        return (1,)

    db.stream("s", "taxi{seq gps}", folding(once), order="ts")
    db.apply({"gps": ROWS})
    with refused(db, StepFailed, "`moved` fails with ConnectionError: try again"):
        db.punctuate("gps", ts=hw.below(at(9)))
    db.punctuate("gps", ts=hw.below(at(9)))
    assert db["s"].output_table("told").column("x").to_pylist() == [1.0, 2.0]


def test_a_stream_that_fails_over_the_rows_that_are_there_is_not_defined(db: hw.Database) -> None:
    db.apply({"gps": ROWS}, punctuate={"gps": below(9)})
    before = seen(db)
    with pytest.raises(StepFailed, match="ZeroDivisionError"):
        db.stream("s", "taxi{seq gps}", folding(raises), order="ts")
    assert seen(db) == before and db.streams == []
    db.apply({"gps": [(2, at(9), 1.0)]}, punctuate={"gps": below(10)})
    db.stream("s", "taxi{seq gps}", folding(right), order="ts")
    assert sorted(db["s"].output_table("told").column("x").to_pylist()) == [1.0, 1.0, 2.0]


def test_states_go_on_with_a_mended_function(db: hw.Database, tmp_path: Path) -> None:
    def double(at: Any, row: Any, emit: Any) -> Any:
        emit("told", row.taxi, 2 * row.x)
        return ((at.n or 0) + 1,)

    db.stream("s", "taxi{seq gps}", folding(right), order="ts")
    db.apply({"gps": ROWS}, punctuate={"gps": below(9)})
    db.stream("s", "taxi{seq gps}", folding(double), order="ts", changed="keep")
    db.apply({"gps": [(1, at(9), 5.0)]}, punctuate={"gps": below(10)})
    assert db["s"].output_table("told").column("x").to_pylist() == [1.0, 2.0, 10.0]
    assert db["s"].state(1)[0] == (3,)
    with refused(db, StreamChanged, "the function `moved`"):  # the new one is the one that counts
        db.stream("s", "taxi{seq gps}", folding(right), order="ts")
    db.close()
    with hw.open(tmp_path / "db") as again:
        with pytest.raises(StreamMissing, match="define it again"):
            again["s"].verify()
        assert again["s"].output_table("told").num_rows == 3  # what is there can be looked at
        assert again["s"].state(1)[0] == (3,) and again["s"].pending() == []
        again.apply({"gps": [(1, at(10), 6.0)]}, punctuate={"gps": below(11)})  # it waits
        again.stream("s", "taxi{seq gps}", folding(double), order="ts")
        assert again["s"].output_table("told").column("x").to_pylist()[-1] == 12.0


def test_functions_of_other_steps(db: hw.Database) -> None:
    counted = st.relational("SELECT count(*) AS n FROM gps")
    gives = {"counts": "at TIMESTAMP, n BIGINT"}
    cases: list[tuple[str, Step, tuple[str, ...]]] = [
        ("seq gps", st.filter(lambda r: r.speed > 1), ("filter(", "fails with AttributeError")),
        ("seq gps", st.map(gps=lambda r: (1,)), ("map", "(1,), which is no row of 3 columns")),
        (
            "hour[bag gps]",
            st.lift("gps", st.relational(lambda rows: [("a",)], gives="q", columns="n BIGINT")),
            ("relational(", "'a' for `n`, which is no bigint"),
        ),
        (
            "hour[bag gps]",
            st.hierarchical(counted, lambda y, mark, emit: emit("counts", mark.ts, y), gives),
            ("hierarchical(", "for `n`, which is no bigint", "at timestamp, n bigint"),
        ),
        (
            "hour[taxi{seq gps}]",
            st.carry("taxi", lambda at, row, header: (at.n + 1,), "n BIGINT", gives="counts"),
            ("carry(", "fails with TypeError", "State(n=None)"),
        ),
        (
            "hour[bag gps]",
            st.hierarchical(
                counted, lambda y, mark, emit: y, gives, ret=lambda y, value: Outside()
            ),
            ("of type Outside, which is no plain value", "can be kept"),
        ),
    ]  # fmt: skip
    db.apply({"gps": ROWS})
    for schema, steps, words in cases:
        marks = HOUR if "hour" in schema else {}
        db.stream("s", schema, steps, order="ts", marks=marks)
        with refused(db, HeadwaterError, "the stream `s`: ", *words):
            db.punctuate("gps", ts=hw.below(at(9)))
        db.drop("s")
    db.stream("s", "seq gps", PASS, order="ts")
    db.punctuate("gps", ts=hw.below(at(9)))
    assert db["s"].output_table().num_rows == 2


class Outside:
    """A value with behaviour, which no state may hold."""

    def __repr__(self) -> str:
        return "Outside()"


def test_sql_that_fails_for_a_row(db: hw.Database) -> None:
    failing = st.relational(
        "SELECT sum(CAST(x AS INT) DIV (CAST(x AS INT) - 2)) AS n FROM gps", gives="q"
    )
    db.stream("s", "hour[bag gps]", st.lift("gps", failing), order="ts", marks=HOUR)
    db.apply({"gps": ROWS})
    with refused(db, HeadwaterError, "the stream `s`: division by zero", "nullif"):
        db.punctuate("gps", ts=hw.below(at(9)))
    db.apply({"gps": hw.Delta(deletes=ROWS[1:])}, punctuate={"gps": below(9)})
    assert db["s"].output_table("q").column("n").to_pylist() == [-1]


@dataclass(frozen=True)
class Greatest(Step):
    """Tells the greatest row of a bag while rows come, and takes it back when a greater one comes."""

    word: ClassVar[str] = "greatest"

    def transformer(
        self, schema: Schema, headers: Headers, context: Context | None = None
    ) -> Transformer:
        own = chosen(headers, headers_of(schema))

        def greatest(_x: Any, events: list[Event]) -> list[Event]:
            return [max(events, key=lambda e: e.row)] if events else []

        return Relational(
            own, own, answer=lambda x, events: (None, greatest(x, events)), early=greatest
        )


def test_a_function_that_takes_back_what_it_told(db: hw.Database) -> None:
    db.source("bids", "price BIGINT, ts TIMESTAMP", append_only=True, closes="ts")
    db.stream("s", "bag bids", Greatest(), order="ts")
    db.apply({"bids": [(5, at(8))]}, punctuate={"bids": below(9)})
    assert db["s"].output_table().column("price").to_pylist() == [5]
    with refused(
        db, NotMonotone, "the stream `s`: ", "takes back", "5", "7", "when the bag is over"
    ) as caught:
        db.apply({"bids": [(7, at(9))]}, punctuate={"bids": below(10)})
    assert [e.row.price for e in caught.value.before] == [5]
    assert [e.row.price for e in caught.value.after] == [7]
    db.apply({"bids": [(3, at(9))]}, punctuate={"bids": below(10)})  # a row that it can live with
    assert db["s"].output_table().column("price").to_pylist() == [5]


def test_what_a_function_keeps_outside_is_found_by_verify(db: hw.Database) -> None:
    """While it runs it looks like any other: what it reads outside is seen only when the same rows tell something else."""
    numbers = itertools.count()

    def outside(at: Any, row: Any, emit: Any) -> Any:
        emit("told", row.taxi, float(next(numbers)))
        return (1,)

    db.stream("s", "taxi{seq gps}", folding(outside), order="ts")
    db.apply({"gps": ROWS}, punctuate={"gps": below(9)})
    with refused(
        db, StateError, "what the stream `s` has told (left)", "at taxi = 1", "outside of its state"
    ):
        db["s"].verify()


SEEN: list[int] = []


def test_plain_values_outside_are_part_of_a_function(db: hw.Database) -> None:
    """Lists, numbers and texts that it reads are in its mark, so that it is another one when they have changed."""

    def outside(at: Any, row: Any, emit: Any) -> Any:
        SEEN.append(1)
        emit("told", row.taxi, float(len(SEEN)))
        return (1,)

    SEEN.clear()
    db.stream("s", "taxi{seq gps}", folding(outside), order="ts")
    db.apply({"gps": ROWS}, punctuate={"gps": below(9)})
    with refused(db, StreamChanged, "the function `moved`", "changed='keep'"):
        db.stream("s", "taxi{seq gps}", folding(outside), order="ts")


# --- rows ------------------------------------------------------------------------------------------------------------


def test_ties_that_are_refused(db: hw.Database) -> None:
    db.stream("s", "taxi{seq gps}", PASS, order="ts", ties="error")
    db.apply({"gps": [(1, at(8), 1.0), (2, at(8), 1.0)]}, punctuate={"gps": below(9)})
    assert db["s"].output_table().num_rows == 2  # rows of different taxis have no order
    both = [(1, at(9), 1.0), (1, at(9), 2.0)]
    said = ("the stream `s`: two rows of `gps` have the same `ts`", "1.0", "2.0", "ties='row'")
    with refused(db, Ties, *said):
        db.apply({"gps": both}, punctuate={"gps": below(10)})
    db.apply({"gps": both})  # nobody asks for their order yet
    with refused(db, Ties, *said):
        db.punctuate("gps", ts=hw.below(at(10)))
    db.apply({"gps": hw.Delta(deletes=both[1:])}, punctuate={"gps": below(10)})
    assert db["s"].output_table().num_rows == 3


def test_a_row_after_its_mark_is_late(db: hw.Database) -> None:
    db.stream("s", HOURS, st.filter("x > 0", of="gps"), order="ts", marks=HOUR)
    db.apply({"gps": ROWS, "rides": []}, punctuate={"gps": below(9), "rides": below(9)})
    with refused(db, LateRows, "a late row for `gps`", "closed by version", "late='aside'"):
        db.apply({"gps": [(1, at(8, 45), 1.0)]})
    with refused(db, LateRows, "a late deletion for `gps`", "nothing was applied"):
        db.apply({"gps": hw.Delta(deletes=ROWS[:1])})
    with refused(db, LateRows, "has NULL in `ts`", "give `ts` a value"):
        db.apply({"gps": [(1, None, 1.0)]})
    db.apply({"gps": [(1, at(9), 3.0)]}, punctuate={"gps": below(10), "rides": below(10)})
    assert db["s"].output_table("gps").column("x").to_pylist() == [1.0, 2.0, 3.0]
    db["s"].verify()


def test_late_rows_that_are_set_aside_are_in_no_stream(db: hw.Database) -> None:
    watermark = hw.watermark("ts", "10 minutes")
    db.source("fixes", "taxi BIGINT, ts TIMESTAMP", append_only=True, closes=watermark)
    db.stream("s", "seq fixes", PASS, order="ts")
    db.apply({"fixes": [(1, at(8)), (2, at(9))]})
    commit = db.apply({"fixes": [(3, at(8, 30)), (4, at(10))]})
    assert commit.late == {"fixes": 1}
    db.punctuate("fixes")
    assert db["s"].output_table().column("taxi").to_pylist() == [1, 2, 4]
    db["s"].verify()


def test_a_column_without_order_is_refused_row_by_row(db: hw.Database) -> None:
    db.source("plain", "n BIGINT")
    db.stream("s", "seq plain", PASS, order="n")
    with refused(db, StreamError, "a row of `plain` has NULL in `n`", "`s` is ordered", "NOT NULL"):
        db.apply({"plain": [(1,), (None,)]})
    db.apply({"plain": [(1,)]})
    db.punctuate("plain")
    assert db["s"].output_table().num_rows == 1


def test_a_mark_that_never_comes(db: hw.Database) -> None:
    db.source("shifts", "ts TIMESTAMP", closes="ts")
    db.stream("s", "shifts[taxi{seq gps} | bag rides]", st.filter("x > 0", of="gps"), order="ts")
    db.apply(
        {"gps": ROWS, "rides": [(1, at(8), 1.0)]}, punctuate={"gps": below(12), "rides": below(8)}
    )
    waits = {w.header: w for w in db["s"].pending()}
    assert waits["gps"].rows == 2 and waits["gps"].waits_for == {"shifts": None}
    assert waits["rides"].waits_for == {"shifts": None, "rides": at(8)}
    assert str(waits["gps"]) == (
        "2 rows of `gps` wait, the first at 2026-03-01 08:00:00+00:00: nothing of `shifts` is closed"
    )
    assert "1 row of `rides` waits" in str(waits["rides"])
    assert "`shifts`" in str(db.explain("s"))
    db.punctuate("shifts", ts=hw.below(at(8, 15)))
    (fixes,) = [w for w in db["s"].pending() if w.header == "gps"]
    assert fixes.rows == 1 and fixes.waits_for == {"shifts": at(8, 15)}
    db.apply({"shifts": [(at(10),)]}, punctuate={"shifts": below(12), "rides": below(12)})
    assert db["s"].pending() == []
    assert db["s"].output_table("gps").num_rows == 2


def test_one_key_that_is_not_closed_holds_only_its_rows(db: hw.Database) -> None:
    db.source("fixes", "taxi BIGINT, ts TIMESTAMP", closes=[("taxi", "ts")])
    db.stream("s", "taxi{seq fixes}", PASS, order="ts")
    db.apply(
        {"fixes": [(1, at(8)), (2, at(8))]},
        punctuate={"fixes": hw.closed(taxi=1, ts=hw.below(at(9)))},
    )
    (waits,) = db["s"].pending()
    assert waits.rows == 1 and waits.waits_for == {"fixes": None}
    assert db["s"].output_table().column("taxi").to_pylist() == [1]


def test_a_clock_that_would_strike_for_ever(db: hw.Database) -> None:
    db.stream(
        "s", "hour[bag gps]", st.filter("x > 0", of="gps"), order="ts", marks={"hour": "1 second"}
    )
    db.apply({"gps": ROWS})
    wrong = hw.closed(ts=hw.below(at(8) + timedelta(days=40000)))
    with refused(db, StreamError, "the stream `s`: the clock of 1 second", "a longer interval"):
        db.punctuate("gps", ts=wrong.at("ts"))
    db.punctuate("gps", ts=hw.below(at(9)))
    assert db["s"].output_table("gps").num_rows == 2


# --- looking ---------------------------------------------------------------------------------------------------------


def test_what_is_asked_of_a_stream(db: hw.Database) -> None:
    db.stream("s", HOURS, st.filter("x > 0", of="gps"), order="ts", marks=HOUR)
    with refused(db, QueryError, "the stream `s` has several outputs", "read one: "):
        db["s"].output_table()
    with refused(db, QueryError, "`trips` is no output of the stream `s`", "outputs: "):
        db["s"].output_table("trips")
    with refused(db, QueryError, "`trips` is no header of the stream `s`", "headers: gps, rides"):
        db["s"].pending_table("trips")
    for since, error, says, hint in (
        ("x", QueryError, "'x' is no version", "a version is a whole number"),
        (99, StateError, "there is no version 99", "the newest is "),
        (-1, StateError, "there is no version -1", "the newest is "),
    ):
        with refused(db, error, says, hint):
            db["s"].output_table("gps", since=since)  # type: ignore[arg-type]
    for asked in (
        lambda: db["s"].output_table("gps", until="x"),
        lambda: db["s"].pending_table("gps", "x"),
        lambda: db["s"].state(version="x"),
    ):
        with refused(db, QueryError, "'x' is no version", "a version is a whole number"):
            asked()
    with refused(db, QueryError, "1 values are given for a key of `s`", "its keys are: none"):
        db["s"].state(1)  # a filter keeps nothing
    db.stream("folds", "taxi{seq gps}", folding(right), order="ts")
    with refused(db, QueryError, "3 values are given for a key of `folds`", "its keys are: taxi"):
        db["folds"].state(1, 2, 3)
    with refused(db, QueryError, "('x',) is no key of `folds`", "its key is taxi bigint"):
        db["folds"].state("x")
