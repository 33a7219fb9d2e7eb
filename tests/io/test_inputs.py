"""What goes into sources: keys, constraints, values and the forms they come in. What does not fit is refused, and
nothing is taken otherwise than it was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType, VarcharType

import headwater as hw
from headwater.errors import (
    BadChange,
    HeadwaterError,
    KeyConflict,
    NameTaken,
    ParseError,
    QueryError,
)
from headwater.io.casts import cast_value
from headwater.io.values import NOT_FITTING, one_value
from headwater.language.schema import columns
from spark_session import session


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        yield made


def rows(db: hw.Database, name: str) -> list[tuple[Any, ...]]:
    found = db.table(name).to_pylist()
    return sorted((tuple(r.values())[:-1] for r in found for _ in range(r["_w"])), key=repr)


def refused(db: hw.Database, change: Any, *words: str, kind: type[HeadwaterError]) -> None:
    """The change is refused with the words, and nothing happened."""
    before = db.version, {n: rows(db, n) for n in db.sources}
    with pytest.raises(kind) as caught:
        db.apply(change)
    for w in words:
        assert w in str(caught.value), f"{w!r} is not said in:\n{caught.value}"
    assert (db.version, {n: rows(db, n) for n in db.sources}) == before


# --- keys ----------------------------------------------------------------------------------------------------------


def test_a_key_is_there_once(db: hw.Database) -> None:
    """A second row with a key is refused, in the same change or a later one; the key and the rows are named."""
    db.source("s", "id BIGINT, item STRING", key="id")
    db.apply({"s": [(1, "a"), (2, "b")]})
    refused(db, {"s": [(1, "c")]}, "id=1", "item='a'", "item='c'", kind=KeyConflict)
    refused(db, {"s": [(3, "x"), (3, "y")]}, "id=3", "item='x'", "item='y'", kind=KeyConflict)
    refused(db, {"s": [(1, "a")]}, "2 rows with the key id=1", kind=KeyConflict)
    refused(db, {"s": [(4, "d", 2)]}, "(id=4, item='d') 2 times", kind=KeyConflict)
    assert issubclass(KeyConflict, BadChange)


def test_a_key_is_never_null(db: hw.Database) -> None:
    db.source("s", "a BIGINT, b STRING, c INT", key=["b", "a"])
    refused(db, {"s": [(1, None, 3)]}, "has no `b`", "(a=1, b=None, c=3)", kind=KeyConflict)
    refused(db, {"s": [(None, "x", 3)]}, "has no `a`", kind=KeyConflict)
    db.apply({"s": [(1, "x", None), (1, "y", None), (2, "x", None)]})
    refused(db, {"s": [(2, "x", 4)]}, "b='x', a=2", kind=KeyConflict)


def test_a_row_is_replaced_by_deleting_the_old_one(db: hw.Database) -> None:
    db.source("s", "id BIGINT, item STRING", key="ID")
    db.apply({"s": [(1, "a"), (2, "b")]})
    db.apply({"s": hw.Delta(inserts=[(1, "c")], deletes=[(1, "a")])})
    db.apply({"s": [(2, "b", -1), (2, "d", 1), (5, "e", 1)]})
    db.apply({"s": [(7, "x", 1), (7, "x", -1), (7, "y", 1)]})  # only what is left counts
    assert rows(db, "s") == [(1, "c"), (2, "d"), (5, "e"), (7, "y")]
    refused(
        db,
        {"s": hw.Delta(inserts=[(1, "d"), (2, "e")], deletes=[(1, "c")])},
        "id=2",
        kind=KeyConflict,
    )


def test_rows_from_before_keys_were_enforced_can_go(
    db: hw.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an older version let in is read, and taken away row by row."""
    db.source("s", "id BIGINT, item STRING", key="id")
    with monkeypatch.context() as older:
        older.setattr("headwater.api.bring_in.check_keys", lambda *_: None)
        db.apply({"s": [(1, "a"), (1, "b"), (1, "c"), (None, "d")]})
    db.apply({"s": hw.Delta(deletes=[(1, "a"), (None, "d")])})
    refused(db, {"s": [(1, "e")]}, "3 rows", kind=KeyConflict)
    db.apply({"s": [(2, "f")]})
    assert rows(db, "s") == [(1, "b"), (1, "c"), (2, "f")]


def test_keys_are_checked_where_deletions_may_be_missing(db: hw.Database) -> None:
    """A deletion that is ignored makes no room for a row."""
    db.source("s", "id BIGINT, item STRING", key="id", strict=False)
    db.apply({"s": [(1, "a")]})
    missing = hw.Delta(inserts=[(1, "b")], deletes=[(1, "nothing")])
    refused(db, {"s": missing}, "id=1", kind=KeyConflict)


def test_a_key_needs_the_rows(db: hw.Database) -> None:
    with pytest.raises(QueryError, match="keeps no copy of its rows"):
        db.source("s", "id BIGINT", key="id", retain=False)


def test_keys_cost_what_the_change_costs(db: hw.Database) -> None:
    """A change of one row looks up one key, whatever the source has."""
    db.source("s", "id BIGINT, item STRING", key="id")
    db.apply({"s": pa.table({"id": range(300_000), "item": ["x"] * 300_000})})
    from headwater.state.arrangement import Arrangement  # to be watched

    looked: list[int] = []
    inner = Arrangement.lookup

    def watched(self: Any, keys: pa.Table, *more: Any, **named: Any) -> pa.Table:
        looked.append(keys.num_rows)
        return inner(self, keys, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Arrangement, "lookup", watched)
        db.apply({"s": [(300_000, "y")]})
    assert looked == [1]


@pytest.mark.spark
def test_keys_of_a_change_that_spark_carries(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db", spark=session()) as db:
        db.source("s", "id BIGINT, item STRING", key="id")
        db.view("n", "SELECT item, count(*) AS n FROM s GROUP BY item")
        db.policy.execution = "spark"
        spark = session()
        db.apply({"s": spark.sql("SELECT id, 'x' AS item FROM range(1000)")})
        twice = spark.sql("SELECT id % 999 + 2000 AS id, 'y' AS item FROM range(1000)")
        refused(db, {"s": twice}, "with the key id=2000", kind=KeyConflict)
        late = spark.sql("SELECT id + 999 AS id, 'y' AS item FROM range(1000)")
        refused(db, {"s": late}, "with the key id=999", kind=KeyConflict)
        assert rows(db, "n") == [("x", 1000)]


# --- values --------------------------------------------------------------------------------------------------------

YORK = "America/New_York"
AWARE = datetime(2024, 5, 1, 12, tzinfo=UTC)
FORMS: dict[str, Any] = {
    "tuples": lambda n, v: [(1, None), (2, v)],
    "dicts": lambda n, v: [{"id": 1, n: None}, {"id": 2, n: v}],
    "pandas": lambda n, v: pd.DataFrame({"id": [1, 2], n: pd.Series([None, v], dtype=object)}),
    "pandas typed": lambda n, v: pd.DataFrame({"id": [1, 2], n: pd.Series([v, v])}),
    "arrow": lambda n, v: pa.table({"id": [1, 2], n: pa.array([None, v])}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("TIMESTAMP_NTZ", AWARE),
        ("STRING", b"abc"),
        ("BINARY", "abc"),
        ("DATE", datetime(2024, 5, 1, 12)),
    ],
)
def test_a_value_is_what_it_is_or_refused(db: hw.Database, form: str, ddl: str, value: Any) -> None:
    """An aware time is none without a zone, bytes are no text, text no bytes, a time of day no date: in every form."""
    db.source("s", f"id BIGINT, c {ddl}")
    refused(db, {"s": FORMS[form]("c", value)}, "`c`", kind=BadChange)


def test_a_value_inside_is_what_it_is_or_refused(db: hw.Database) -> None:
    db.source("s", "id BIGINT, c ARRAY<TIMESTAMP_NTZ>, d STRUCT<x: STRING>")
    refused(db, {"s": [(1, [AWARE], None)]}, "`c`", kind=BadChange)
    refused(db, {"s": [(1, None, {"x": b"abc"})]}, "`d`", kind=BadChange)
    db.apply({"s": [(1, [datetime(2024, 5, 1)], {"x": "abc"})]})


def test_gaps_in_a_pandas_frame_are_null(db: hw.Database, tmp_path: Path) -> None:
    """A frame as `read_csv` makes it: None, NaN and NaT in columns of text, dates, booleans and numbers."""
    db.source("s", "a BIGINT, b STRING, c DATE, d BOOLEAN, e DOUBLE, f DECIMAL(5,2), g BINARY")
    (tmp_path / "x.csv").write_text("a,b,d,e\n1,x,True,1.5\n2,,,\n,z,False,2.5\n")
    frame = pd.read_csv(tmp_path / "x.csv")
    for n, v in {"c": date(2024, 1, 2), "f": Decimal("1.25"), "g": b"x"}.items():
        frame[n] = pd.Series([v, float("nan"), None], dtype=object)
    db.apply({"s": frame})
    day, some = date(2024, 1, 2), Decimal("1.25")
    assert rows(db, "s") == [
        (1, "x", day, True, 1.5, some, b"x"),
        (2, None, None, None, None, None, None),
        (None, "z", None, False, 2.5, None, None),
    ]
    db.apply({"s": hw.Delta(deletes=frame.astype({"b": object, "e": object}))})
    assert rows(db, "s") == []


NAIVE = [
    *(datetime(2024, 3, 10, 1, 30) + timedelta(minutes=20 * i) for i in range(9)),  # put forward
    *(datetime(2024, 11, 3, 0, 30) + timedelta(minutes=20 * i) for i in range(9)),  # put back
    *(datetime(y, 7, 4, 12, 1, 2, 3) for y in (1, 1500, 1883, 1900, 1970, 2036, 2037, 2500, 9999)),
]


@pytest.mark.parametrize("form", ["tuples", "pandas", "pandas typed", "arrow", "arrow chunks"])
def test_times_without_a_zone_are_of_the_database(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever form they have, the same instants as Python's, which are Spark's: on days when clocks change too."""
    monkeypatch.setattr("headwater.engine.spark.session.LOCAL_ZONE", YORK)
    times = NAIVE if form != "pandas typed" else [t for t in NAIVE if 1700 < t.year < 2200]
    array = pa.array(times, pa.timestamp("us"))
    given: Any = {
        "tuples": lambda: [(t,) for t in times],
        "pandas": lambda: pd.DataFrame({"t": pd.Series([*times, None], dtype=object)}),
        "pandas typed": lambda: pd.DataFrame({"t": pd.Series(pd.to_datetime(times))}),
        "arrow": lambda: pa.table({"t": array}),
        "arrow chunks": lambda: pa.table({"t": pa.chunked_array([array[:7], array[7:]])}),
    }[form]()
    with hw.open(tmp_path / "db") as db:
        db.source("s", "t TIMESTAMP")
        db.apply({"s": given})
        found = Counter(db.table("s").column("t").to_pylist())
        zone = ZoneInfo(YORK)
        wanted = Counter({t.replace(tzinfo=zone).astimezone(UTC) for t in times})
        if form == "pandas":
            wanted[None] += 1  # type: ignore[index]
        assert set(found) == set(wanted)


def test_times_without_a_zone_in_bulk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pandas column of times costs about what an Arrow column costs."""
    monkeypatch.setattr("headwater.engine.spark.session.LOCAL_ZONE", YORK)
    times = pd.Series(pd.date_range("2001-01-01", periods=300_000, freq="min"))
    from headwater.io import values  # to be watched

    slow: list[Any] = []
    monkeypatch.setattr(values, "one_value", lambda *a: slow.append(a))
    made = values.converted("s", columns("t TIMESTAMP"), {"t": times}, YORK, False)
    assert made.num_rows == 300_000 and not slow


# --- cast=True -----------------------------------------------------------------------------------------------------

TYPES = "i INT, b BIGINT, m DECIMAL(6,2), x DOUBLE, d DATE, t TIMESTAMP, u TIMESTAMP_NTZ, o BOOLEAN"
TEXT = (
    " 7 ",
    "-12",
    "3.145",
    "1e3",
    "2024-2-09",
    "2024-01-02T03:04:05.5Z",
    "2024-01-02 03:04",
    "Yes",
)
READ = (
    7,
    -12,
    Decimal("3.15"),
    1000.0,
    date(2024, 2, 9),
    datetime(2024, 1, 2, 3, 4, 5, 500000, UTC),
    datetime(2024, 1, 2, 3, 4),
    True,
)  # fmt: skip


@pytest.mark.parametrize("form", ["tuples", "pandas", "arrow"])
def test_cast_reads_text(db: hw.Database, form: str) -> None:
    db.source("s", TYPES)
    names = [c.split()[0] for c in TYPES.split(", ")]
    table = {n: [v, None] for n, v in zip(names, TEXT, strict=True)}
    given: Any = {
        "tuples": [TEXT, (None,) * len(TEXT)],
        "pandas": pd.DataFrame(table),
        "arrow": pa.table(table),
    }[form]
    with pytest.raises(BadChange):
        db.apply({"s": given})
    db.apply({"s": given}, cast=True)
    assert rows(db, "s") == [READ, (None,) * len(TEXT)]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("i", "1.0"),
        ("i", "x"),
        ("i", "3000000000"),
        ("i", "0x1F"),
        ("i", 3e10),
        ("i", float("inf")),
        ("m", "12345.00"),
        ("m", "NaN"),
        ("x", "1.5.2"),
        ("d", "2024-13-01"),
        ("d", "1/2/2024"),
        ("t", "noon"),
        ("t", "2024-01-01 25:00"),
        ("u", "2024-01-02 03:04:00+01:00"),
        ("o", "maybe"),
    ],
)
def test_cast_names_what_cannot_be_read(db: hw.Database, column: str, value: Any) -> None:
    db.source("s", TYPES)
    names = [c.split()[0] for c in TYPES.split(", ")]
    given = [dict.fromkeys(names), {**dict.fromkeys(names), column: value}]
    for form in (given, pd.DataFrame(given).astype(object), pa.Table.from_pylist(given)):
        with pytest.raises(BadChange) as caught:
            db.apply({"s": form}, cast=True)
        assert f"row 2 of the change of `s`: {value!r} is no" in str(caught.value)


def test_cast_cuts_and_rounds_fractions(db: hw.Database) -> None:
    db.source("s", "i INT, m DECIMAL(6,2)")
    db.apply({"s": [(1.9, 1.005), (-1.9, 2.675)]}, cast=True)
    db.apply({"s": pd.DataFrame({"i": [3.5, None], "m": [0.125, -0.125]})}, cast=True)
    assert rows(db, "s") == [
        (-1, Decimal("2.68")),
        (1, Decimal("1.01")),
        (3, Decimal("0.13")),
        (None, Decimal("-0.13")),
    ]


@pytest.mark.spark
def test_cast_is_what_spark_does(tmp_path: Path) -> None:
    """Values that are read here are those that Spark's CAST gives; what Spark refuses is refused here."""
    spark = session()
    texts = [
        "1",
        " 2 ",
        "+3",
        "-4",
        "5.5",
        ".5",
        "5.",
        "1e2",
        "x",
        "",
        "true",
        "T",
        "no",
        "NaN",
        "-Infinity",
        "inf",
    ]
    texts += [
        "2024-01-02",
        "2024-1-2",
        "2024-02-30",
        "2024-01-02 03:04:05",
        "2024-01-02T03:04:05.123456Z",
        "127",
        "128",
    ]
    texts += [
        "2024-01-02 03:04:05+02:00",
        "1.005",
        "99999.999",
        "9223372036854775808",
        "2024-01-02 3:4",
    ]
    for t in ("TINYINT", "INT", "BIGINT", "DECIMAL(7,2)", "DOUBLE", "DATE", "TIMESTAMP", "BOOLEAN"):
        key = columns(f"c {t}").fields[0][1]
        frame = spark.createDataFrame([(x,) for x in texts], "x STRING")
        wanted = frame.selectExpr("x", f"try_cast(x AS {t}) AS c").toArrow().to_pylist()
        for r in wanted:
            try:
                found = one_value(cast_value(r["x"], key), key, db_zone(spark)).to_pylist()[0]
            except NOT_FITTING:
                continue  # some forms that Spark reads are refused
            assert repr(found) == repr(r["c"]), (t, r)
    with hw.open(tmp_path / "db", spark=spark) as db:
        db.source("s", "a INT, b DATE")
        db.apply({"s": spark.sql("SELECT '7' AS a, '2024-01-02' AS b")}, cast=True)
        assert rows(db, "s") == [(7, date(2024, 1, 2))]


def db_zone(spark: Any) -> str:
    return str(spark.conf.get("spark.sql.session.timeZone"))


# --- what a schema says ----------------------------------------------------------------------------------------------

STRUCT = StructType(
    [
        StructField("id", LongType(), False),
        StructField("item", VarcharType(3)),
        StructField("inner", StructType([StructField("x", LongType(), False)])),
    ]
)


@pytest.mark.parametrize(
    "schema",
    ["id BIGINT NOT NULL, item VARCHAR(3), inner STRUCT<x: BIGINT NOT NULL>", STRUCT],
    ids=["ddl", "struct"],
)
def test_limits_of_a_schema_are_kept_and_enforced(tmp_path: Path, schema: Any) -> None:
    """NOT NULL and VARCHAR(n), also inside of a column, and after the database was opened again."""
    with hw.open(tmp_path / "db") as made:
        made.source("s", schema)
        made.apply({"s": [(1, "abc", None), (2, None, {"x": 1})]})
    with hw.open(tmp_path / "db") as db:
        assert "`id` bigint NOT NULL" in db.catalog.sources["s"].ddl
        assert "varchar(3)" in db.catalog.sources["s"].ddl
        refused(db, {"s": [(3, "a", None), (None, "b", None)]}, "row 2", "`id`", kind=BadChange)
        refused(db, {"s": [(3, "äbcd", None)]}, "'äbcd' has 4 characters", kind=BadChange)
        refused(db, {"s": [(3, "a", {"x": None})]}, "`inner.x`", kind=BadChange)
        frame = pd.DataFrame({"id": [4, None], "item": ["x", "y"], "inner": [None, None]})
        refused(db, {"s": frame}, "row 2", "`id`", kind=BadChange)
        version = db.version
        db.source("s", schema)  # the same again
        assert db.version == version


def test_limits_of_inner_rows(db: hw.Database) -> None:
    inner = "items ARRAY<STRUCT<name: VARCHAR(2), n: INT NOT NULL>>, tags ARRAY<VARCHAR(2)>"
    db.source("c", f"id BIGINT, {inner}", key="id")
    row = {"id": 1, "items": [{"name": "ab", "n": 1}], "tags": ["ab"]}
    db.apply({"c": [row]})
    long = {"id": 2, "items": [{"name": "abc", "n": 1}], "tags": []}
    refused(db, {"c": [long]}, "`items.name` is VARCHAR(2)", kind=BadChange)
    refused(db, {"c": [{"id": 2, "items": [], "tags": ["abc"]}]}, "`tags`", kind=BadChange)
    deep = {"id": 1, "name": "x", "n": None}
    refused(db, {"c.items": [deep]}, "row 1 of the change of `c.items`", "`n`", kind=BadChange)
    refused(db, {"c.tags": [{"id": 1, "value": "abc"}]}, "VARCHAR(2)", kind=BadChange)


@pytest.mark.parametrize(
    "schema", ["id BIGINT PRIMARY KEY, v INT", "id BIGINT, v INT, PRIMARY KEY (id)"]
)
def test_a_primary_key_is_the_key(db: hw.Database, schema: str) -> None:
    db.source("s", schema)
    assert db.catalog.sources["s"].key == ("id",)
    db.apply({"s": [(1, 2)]})
    refused(db, {"s": [(1, 3)]}, "id=1", kind=KeyConflict)
    with pytest.raises(QueryError, match="say it once"):
        db.source("t", schema, key="v")


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ("id INT DEFAULT 5", "DEFAULT 5"),
        ("id CHAR(3)", "CHAR(3)"),
        ("id INT UNIQUE", "UNIQUE"),
        ("id INT, CHECK (id > 3)", "CHECK"),
        ("id INT, FOREIGN KEY (id) REFERENCES t (a)", "FOREIGN KEY"),
        ("id INT, b INT GENERATED ALWAYS AS (id + 1)", "GENERATED"),
        ("a INT PRIMARY KEY, b INT PRIMARY KEY", "two primary keys"),
        ("a DECIMAL(50,2)", "DECIMAL(50,2)"),
    ],
)
def test_what_a_schema_says_is_enforced_or_refused(
    db: hw.Database, schema: str, named: str
) -> None:
    with pytest.raises(ParseError) as caught:
        db.source("s", schema)
    assert named in str(caught.value)


def test_limits_of_rows_that_are_there(db: hw.Database) -> None:
    """Declared again with other limits, a source keeps its rows, which must keep them."""
    db.source("s", "id BIGINT, v STRING")  # as an older version stored it, whatever was said
    db.apply({"s": [(1, "abc"), (None, "d")]})
    with pytest.raises(BadChange, match="NOT NULL"):
        db.source("s", "id BIGINT NOT NULL, v STRING")
    db.apply({"s": hw.Delta(deletes=[(None, "d")])})
    db.source("s", "id BIGINT NOT NULL, v VARCHAR(3)")
    refused(db, {"s": [(None, "x")]}, "`id`", kind=BadChange)
    with pytest.raises(NameTaken):
        db.source("s", "id INT, v STRING")


def test_an_older_database_that_names_a_directory_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path was stored as it was given, once."""
    with monkeypatch.context() as older, hw.open(tmp_path / "db") as made:
        said = "csv", "x", dict[str, str](), dict[str, str]()
        older.setattr("headwater.api.declaring.declared_feed", lambda *_: said)
        made.source("s", "id BIGINT", path="x", format="csv")
    with hw.open(tmp_path / "db") as db:
        version = db.version
        db.source("s", "id BIGINT", path="x", format="csv")
        assert db.version == version
        db.apply({"s": [(1,)]})
        assert rows(db, "s") == [(1,)]


def test_names_of_a_key_have_no_case(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("s", "id BIGINT, v STRING", key="id")
        version = db.version
        db.source("s", "id BIGINT, v STRING", key="ID")
        db.source("s", "id BIGINT, v STRING, PRIMARY KEY (ID)")
        assert db.version == version
        db.source("t", "id BIGINT, v STRING, PRIMARY KEY (ID)")
        version = db.version
        db.source("t", "id BIGINT, v STRING", key="id")
        assert db.version == version
        db.apply({"t": [(1, "a")]})
        with pytest.raises(KeyConflict):
            db.apply({"t": [(1, "b")]})
        with pytest.raises(NameTaken):
            db.source("t", "id BIGINT, v STRING", key="v")


def test_a_limit_that_rows_do_not_keep_names_a_row_that_is_there(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("s", "id BIGINT, v STRING")
        db.apply({"s": [(1, "abc"), (2, None)]})
        with pytest.raises(BadChange, match=r"a row that is in `s` has no `v`.*id=2"):
            db.source("s", "id BIGINT, v STRING NOT NULL")
        with pytest.raises(BadChange, match=r"a row that is in `s`: 'abc' has 3 .*id=1"):
            db.source("s", "id BIGINT, v VARCHAR(2)")
        with pytest.raises(BadChange, match="row 1 of the change of `u`"):
            db.source("u", "id BIGINT, v STRING NOT NULL")
            db.apply({"u": [(1, None)]})
