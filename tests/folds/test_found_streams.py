"""What was found wrong in streams by trying odd input: each as small as it could be made, with what is meant now."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
import headwater.st as st
from headwater.engine.spark.session import Session
from headwater.errors import BadChange, NameTaken, ScalarError, StepFailed, StreamError, UnknownName

Opened = Callable[..., hw.Database]


@pytest.fixture
def made(tmp_path: Path) -> Opened:
    """Makes a database with the source `s`, which is closed by `o`."""

    def make(order: str = "BIGINT", key: str = "BIGINT", **how: Any) -> hw.Database:
        db = hw.open(tmp_path / "db")
        db.source("s", f"k {key}, o {order}", **(how or {"closes": "o"}))
        return db

    return make


def counted(state: Any, row: Any, emit: Any) -> Any:
    """Tells the number of each row of a key."""
    n = (state.n or 0) + 1
    emit("told", row.k, row.o, n)
    return (n,)


def counting(order: str = "BIGINT", key: str = "BIGINT") -> Any:
    gives = {"told": f"k {key}, o {order}, n BIGINT"}
    return st.partitioned(st.fold(counted, state="n BIGINT", gives=gives))


def telling(value: Any, column: str) -> Any:
    """A fold that tells one value for each row."""

    def tell(state: Any, row: Any, emit: Any) -> Any:
        emit("told", row.k, value)
        return (1,)

    gives = {"told": f"k BIGINT, {column}"}
    return st.partitioned(st.fold(tell, state="n BIGINT", gives=gives))


def told(db: hw.Database, column: str = "o") -> list[Any]:
    return [r[column] for r in db["z"].output_table("told").to_pylist()]


# --- values that stand nowhere in the order --------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
def test_a_double_that_stands_nowhere_is_refused(made: Opened, value: float) -> None:
    """NaN was lost: neither told nor waiting."""
    db = made("DOUBLE")
    db.stream("z", "k{seq s}", counting("DOUBLE"), order="o")
    with pytest.raises(StreamError, match=f"has {value} in `o`".replace("+", r"\+")):
        db.apply({"s": [(1, 1.0), (1, value)]}, punctuate={"s": hw.closed(o=hw.below(5.0))})
    db.apply({"s": [(1, 1.0), (1, 4e18)]}, punctuate={"s": hw.closed(o=hw.below(math.nan))})
    assert told(db) == [1.0, 4e18]


@pytest.mark.parametrize("value", [2**62, 2**63 - 1, -(2**62), -(2**63)])
def test_a_number_beyond_all_places_is_refused(made: Opened, value: int) -> None:
    """Such rows waited for ever."""
    db = made()
    db.stream("z", "k{seq s}", counting(), order="o")
    with pytest.raises(StreamError, match="stands at no place in the order"):
        db.apply({"s": [(1, value)]})
    db.apply({"s": [(1, 2**62 - 1), (1, 1 - 2**62)]})
    db.punctuate("s", o=hw.upto(2**63 - 1))
    assert told(db) == [1 - 2**62, 2**62 - 1] and not db["z"].pending()


def test_null_in_rows_that_are_there(made: Opened) -> None:
    """The stream was defined, and looking at what waits failed inside."""
    db = made(append_only=True)
    db.apply({"s": [(1, None), (1, 5)]})
    version = db.version
    with pytest.raises(StreamError, match="has NULL in `o`"):
        db.stream("z", "k{seq s}", counting(), order="o")
    assert db.version == version and "z" not in db.streams


def test_null_while_functions_are_missing(made: Opened) -> None:
    db = made(append_only=True)
    db.stream("z", "k{seq s}", counting(), order="o")
    db.close()
    with hw.open(db.path) as again:
        with pytest.raises(StreamError, match="has NULL in `o`"):
            again.apply({"s": [(1, None)]})
        again.apply({"s": [(1, 3)]})
        assert again["z"].pending_table("s").num_rows == 1


Edge = tuple[str, Any, Any]
EDGES: list[Edge] = [
    ("DATE", "1 month", date(9999, 12, 31)),
    ("DATE", "1 day", date(9999, 12, 31)),
    ("TIMESTAMP", "1 year", datetime(9999, 12, 31, tzinfo=UTC)),
    ("TIMESTAMP", "1 day", datetime(9999, 12, 31, tzinfo=UTC)),
    ("TINYINT", 5, 127),
    ("INT", 5, 2**31 - 1),
    ("BIGINT", 5, 2**62 - 1),
]


@pytest.mark.parametrize(("order", "interval", "value"), EDGES)
def test_a_clock_behind_the_last_value(made: Opened, order: str, interval: Any, value: Any) -> None:
    """The date that says for ever had no month behind it, and the error was one of Python."""
    db = made(order)
    count = st.aggregate("SELECT count(*) AS n FROM s", gives="told")
    db.stream("z", "tick[bag s]", count, order="o", marks={"tick": interval})
    db.apply({"s": [(1, value)]})
    version = db.version
    with pytest.raises(StreamError, match=rf"the clock of {interval} has no strike behind"):
        db.punctuate("s")
    assert db.version == version
    db.apply({"s": hw.Delta(deletes=[(1, value)])})
    db.punctuate("s")
    assert told(db, "n") == []


# --- outputs and what closes them ------------------------------------------------------------------------------------


def test_null_in_the_column_that_closes_an_output(made: Opened) -> None:
    """A view over such rows lost them: NULL counts as closed."""
    db = made()
    db.stream("z", "k{seq s}", telling(None, "o BIGINT"), order="o", closes={"told": "o"})
    db.view("v", "SELECT o, count(*) AS n FROM told GROUP BY o")
    with pytest.raises(StreamError, match="a row of `told` with NULL in `o`"):
        db.apply({"s": [(1, 1), (1, 5)]}, punctuate={"s": hw.closed(o=hw.below(3))})


def test_an_output_that_does_not_follow_the_order_at_the_end(made: Opened) -> None:
    """At the end nobody looked."""
    db = made()
    db.stream("z", "k{seq s}", telling(-7, "o BIGINT"), order="o", closes={"told": "o"})
    db.apply({"s": [(1, 1), (1, 5)]}, punctuate={"s": hw.closed(o=hw.below(3))})
    with pytest.raises(StreamError, match="whose `o` is closed already"):
        db.punctuate("s")


@pytest.mark.parametrize("column", ["DATE", "STRING", "INT", "DECIMAL(10,0)", "TIMESTAMP_NTZ"])
def test_an_output_closed_by_a_column_of_another_type(made: Opened, column: str) -> None:
    """Instants were cast to days as numbers, when the first rows were closed."""
    db = made("TIMESTAMP")
    with pytest.raises(
        StreamError, match=r"is to be closed, is .*, and `z` is ordered by timestamp"
    ):
        db.stream("z", "k{seq s}", telling(None, f"o {column}"), order="o", closes={"told": "o"})
    assert not db.streams


def test_an_output_closed_by_a_wider_column_in_other_letters(made: Opened) -> None:
    db = made("INT")
    db.stream("z", "k{seq s}", counting(), order="o", closes={"told": "O"})
    db.apply({"s": [(1, 1), (1, 5)]}, punctuate={"s": hw.closed(o=hw.below(3))})
    assert told(db) == [1] and "o: (*, 2]" in str(db["told"].closed())
    with pytest.raises(StreamError, match="name one column"):
        db.stream("y", "k{seq s}", counting(), order="o", closes={"told": ("o", "k")})  # type: ignore[dict-item]


def test_two_outputs_that_differ_in_letters_only(made: Opened) -> None:
    """Both were made, and SQL could read only one of them."""
    db = made()
    gives = {"told": "k BIGINT", "Told": "k BIGINT"}
    fold = st.partitioned(st.fold(counted, state="n BIGINT", gives=gives))
    with pytest.raises(NameTaken, match="two outputs of the stream `z`"):
        db.stream("z", "k{seq s}", fold, order="o")


def test_an_output_with_a_column_that_has_a_meaning(made: Opened) -> None:
    db = made()
    with pytest.raises(StreamError, match="the column name `_place` of `told`"):
        db.stream("z", "k{seq s}", telling(1, "_place BIGINT"), order="o")


def test_an_output_is_not_punctuated_by_hand(made: Opened) -> None:
    """The hint listed it among the sources."""
    db = made()
    db.stream("z", "k{seq s}", counting(), order="o")
    with pytest.raises(UnknownName) as caught:
        db.punctuate("told")
    assert str(caught.value).endswith("sources: s")


# --- sources and functions -------------------------------------------------------------------------------------------


def test_a_static_source_that_a_stream_has_taken(made: Opened) -> None:
    """Rows came after the stream had ended, and its end was told twice."""
    db = made(static=True)
    db.apply({"s": [(1, 1)]})
    count = st.relational("SELECT count(*) AS n FROM s", gives="told")
    db.stream("z", "bag s", count, order="o")
    with pytest.raises(BadChange, match="`S` is static, and the stream `z` reads it"):
        db.apply({"S": [(1, 2)]})
    assert told(db, "n") == [1]


@pytest.mark.parametrize(
    ("column", "value"),
    [("v FLOAT", 0.1), ("v FLOAT", 1e300), ("v TIMESTAMP", datetime(2026, 1, 1, 5))],
)
def test_verify_compares_what_is_kept(made: Opened, column: str, value: Any) -> None:
    """A FLOAT has fewer digits than the function gave, and a time without a zone became an instant."""
    db = made()
    h = db.stream("z", "k{seq s}", telling(value, column), order="o")
    db.apply({"s": [(1, 1), (2, 1)]}, punctuate={"s": hw.closed(o=hw.below(3))})
    assert len(told(db, "v")) == 2
    h.verify()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("v DECIMAL(10,2)", Decimal("1.005")),
        ("v DECIMAL(10,2)", Decimal("123456789.5")),
        ("v DECIMAL(10,2)", Decimal("NaN")),
        ("v TIMESTAMP_NTZ", datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_state_of_its_type(made: Opened, column: str, value: Any) -> None:
    """States had more digits than they were declared with."""
    db = made()
    fold = st.fold(lambda state, row, emit: (value,), state=column, gives={"told": "k BIGINT"})
    db.stream("z", "k{seq s}", st.partitioned(fold), order="o")
    with pytest.raises(StepFailed, match="for `v`, which is no"):
        db.apply({"s": [(1, 1)]}, punctuate={"s": hw.closed(o=hw.below(3))})


@pytest.mark.parametrize("value", ["1.50", "-12345678.90", "0", "0E-5", "1E+7", "1.5000"])
def test_decimals_that_fit(made: Opened, value: str) -> None:
    db = made()
    h = db.stream("z", "k{seq s}", telling(Decimal(value), "v DECIMAL(10,2)"), order="o")
    db.apply({"s": [(1, 1)]}, punctuate={"s": hw.closed(o=hw.below(3))})
    assert told(db, "v") == [Decimal(value)]
    h.verify()


@pytest.mark.parametrize("key", ["INT", "SMALLINT", "TINYINT", "BIGINT"])
def test_states_of_keys_of_all_whole_types_end(made: Opened, key: str) -> None:
    """The state of an INT key stayed for ever."""
    db = made(key=key, closes=["o", "k"])
    h = db.stream("z", "k{seq s}", counting(key=key), order="o")
    db.apply({"s": [(1, 1), (2, 1)]}, punctuate={"s": hw.closed(o=hw.below(3))})
    db.punctuate("s", k=1)
    assert h.state(1) is None and h.state(2) is not None


def test_emit_that_is_called_in_a_wrong_way(made: Opened) -> None:
    db = made()
    fold = st.fold(
        lambda state, row, emit: emit("told", k=1) or (1,),
        state="n BIGINT",
        gives={"told": "k BIGINT"},
    )
    db.stream("z", "k{seq s}", st.partitioned(fold), order="o")
    with pytest.raises(StepFailed, match=r"TypeError: emit\(\) got an unexpected keyword"):
        db.apply({"s": [(1, 1)]}, punctuate={"s": hw.closed(o=hw.below(3))})


def test_a_column_with_a_backtick_in_its_name() -> None:
    assert [n for n, _ in st.fields("`a``b` BIGINT, c STRING")] == ["a`b", "c"]


def test_hours_of_another_zone_whatever_the_size(
    made: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries over few rows were answered in UTC, and those over many in the zone of the database."""
    monkeypatch.setattr(Session, "zone", "America/New_York")
    db = made("TIMESTAMP")
    hours = st.aggregate("SELECT min(hour(o)) AS h, count(*) AS n FROM s", gives="told")
    h = db.stream("z", "day[bag s]", hours, order="o", marks={"day": "1 day"})
    few = [(i, datetime(2026, 1, 1, 20, i, tzinfo=UTC)) for i in range(3)]
    many = [(i, datetime(2026, 1, 2, 20, i % 60, tzinfo=UTC)) for i in range(100)]
    db.apply(
        {"s": few}, punctuate={"s": hw.closed(o=hw.below(datetime(2026, 1, 2, 1, tzinfo=UTC)))}
    )
    db.apply({"s": many}, punctuate={"s": hw.closed()})
    assert told(db, "n") == [3, 100]
    assert told(db, "h") == [15, 15]
    h.verify()


@pytest.mark.parametrize(
    ("column", "value", "text", "meant"),
    [
        pytest.param("FLOAT", 0.1, "cast(v AS STRING)", "0.1", marks=pytest.mark.spark),
        pytest.param("FLOAT", 0.1, "concat('at ', v)", "at 0.1", marks=pytest.mark.spark),
        pytest.param("BINARY", b"ab", "cast(v AS STRING)", "ab", marks=pytest.mark.spark),
        pytest.param("STRING", "ab", "cast(v AS BINARY)", b"ab", marks=pytest.mark.spark),
    ],
)
def test_casts_that_types_decide_over_few_rows(
    tmp_path: Path, column: str, value: Any, text: str, meant: Any
) -> None:
    """The interpreter, which answers for few rows, wrote a FLOAT with the digits of a double, and bytes as Python does."""
    with hw.open(tmp_path / "db") as db:
        db.source("s", f"o BIGINT, v {column}", closes="o")
        db.stream("z", "seq s", st.map(s=f"o, {text} AS w"), order="o")
        query = f"SELECT {text} AS w FROM s"
        db.stream("y", "t[bag s]", st.aggregate(query, gives="told"), order="o", marks={"t": 5})
        db.apply({"s": [(1, value)]}, punctuate={"s": hw.closed()})
        assert [r["w"] for r in db["z"].output_table().to_pylist()] == [meant]
        assert [r["w"] for r in db["y"].output_table().to_pylist()] == [meant]
        db["z"].verify()
        db["y"].verify()


@pytest.mark.spark
@pytest.mark.xfail(
    strict=True,
    raises=ScalarError,
    reason="the interpreter, which answers for few rows, gives up with ScalarError where Spark has a value",
)
def test_a_value_that_only_spark_has_over_few_rows(tmp_path: Path) -> None:
    """Over more than 64 rows Spark answers, and nothing fails; last_day of December 9999 is such a value, too."""
    with hw.open(tmp_path / "db") as db:
        db.source("s", "o BIGINT, v STRING", closes="o")
        query = "SELECT initcap(v) AS w FROM s"
        db.stream("z", "t[bag s]", st.aggregate(query, gives="told"), order="o", marks={"t": 5})
        db.apply({"s": [(1, "École de là")]}, punctuate={"s": hw.closed()})
        assert told(db, "w") == ["École De Là"]
