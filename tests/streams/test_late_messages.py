"""Bad input about what is over: each is refused with what is wrong and what to do, and nothing is lost or moved."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater import flow
from headwater.errors import (
    BadChange,
    BadPattern,
    HeadwaterError,
    LateRows,
    NameTaken,
    Purged,
    QueryError,
    StateError,
    UnknownName,
)

COLUMNS = (
    "z INT, h INT, t TIMESTAMP, d DATE, x DOUBLE, s STRING, a ARRAY<INT>, m DECIMAL(9,2), f BOOLEAN"
)
DAY = datetime(2026, 3, 1)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        yield made


@contextlib.contextmanager
def refused(db: hw.Database, kind: type[HeadwaterError], *words: str) -> Iterator[None]:
    """Something is refused with these words, and everything that can be read is as before."""
    before = db.version, db.store.head(), _rows(db), db.sources, db.views
    with pytest.raises(kind) as caught:
        yield
    told = str(caught.value)
    for w in words:
        assert w in told, f"{w!r} is not said in:\n{told}"
    assert len(told.splitlines()) > 1, f"what to do is not said:\n{told}"
    assert (db.version, db.store.head(), _rows(db), db.sources, db.views) == before
    assert not list((db.path / "staging").glob("*")), "something stayed staged"


def _rows(db: hw.Database) -> dict[str, list[str]]:
    return {n: sorted(map(str, db.table(n).to_pylist())) for n in (*db.sources, *db.views)}


# --- declarations -----------------------------------------------------------------------------------------------------

W = hw.watermark
DECLARED: dict[str, tuple[Callable[[], dict[str, Any]], str, str]] = {
    "closes int": (lambda: {"closes": 5}, "`closes` of `q` is of type int", "name a column"),
    "closes None": (lambda: {"closes": None}, "is of type NoneType", "a tuple of columns"),
    "closes dict": (lambda: {"closes": {"h": 1}}, "is of type dict", "name a column"),
    "closes list": (lambda: {"closes": [5]}, "`closes` of `q` has 5", "a scheme is a column"),
    "closes empty": (lambda: {"closes": [()]}, "`closes` of `q` has ()", "a scheme is"),
    "closes unknown": (lambda: {"closes": "p"}, "closed by `p`, which is no", "columns are z, h"),
    "closes array": (lambda: {"closes": "a"}, "`a`, which is of type", "numbers, text, dates"),
    "closes inner": (lambda: {"closes": "a.n"}, "closed by `a.n`", "closed with its owner"),
    "mark on text": (lambda: {"closes": W("s", "1 day")}, "is on `s`, which is of", "of times"),
    "mark on truth": (lambda: {"closes": W("f", 1)}, "of type boolean", "times, dates or numbers"),
    "mark on nothing": (lambda: {"closes": W(None, 1)}, "closed by `None`", "columns are"),
    "negative": (lambda: {"closes": W("t", "-1 second")}, "is negative: '-1 second'", "behind"),
    "negative number": (lambda: {"closes": W("h", -1)}, "is negative: -1", "behind its column"),
    "number of time": (lambda: {"closes": W("t", 5)}, "the delay of the", "such as '10 seconds'"),
    "time of number": (lambda: {"closes": W("h", "5 s")}, "is '5 s'", "a whole number"),
    "part of a whole": (lambda: {"closes": W("h", 1.5)}, "is 1.5", "give a whole number"),
    "not a number": (lambda: {"closes": W("x", float("nan"))}, "is nan", "give a number"),
    "months": (lambda: {"closes": W("t", "1 month")}, "is '1 month'", "such as '10 seconds'"),
    "hours of days": (lambda: {"closes": W("d", "5 hours")}, "is '5 hours'", "whole days"),
    "many digits": (lambda: {"closes": W("m", Decimal("0.005"))}, "0.005", "more than 2 digits"),
    "by unknown": (lambda: {"closes": W("t", "1 day", by="p")}, "closed by `p`", "columns are"),
    "by itself": (lambda: {"closes": W("t", "1 day", by="t")}, "which it follows", "a device"),
    "by double": (lambda: {"closes": W("t", "1 day", by="x")}, "of type double", "tells members"),
    "of alone": (lambda: {"closes": W("t", "1 day", of=[1])}, "`of=` and no `by=`", "members"),
    "idle alone": (lambda: {"closes": W("t", "1 day", by="z", idle="1 day")}, "no `of=`", "lists"),
    "of nobody": (lambda: {"closes": W("t", "1 day", by="z", of=[])}, "is empty", "list all"),
    "of text": (lambda: {"closes": W("t", "1 day", by="z", of=["x"])}, "'x' is no int", "give a"),
    "of a word": (lambda: {"closes": W("t", "1 day", by="s", of="ab")}, "is 'ab'", "give a list"),
    "of a number": (lambda: {"closes": W("t", "1 day", by="z", of=5)}, "is 5", "give a list"),
    "idle negative": (
        lambda: {"closes": W("t", "1 day", by="z", of=[1], idle="-1 day")},
        "`idle` of the watermark of `q` is negative",
        "behind",
    ),
    "late word": (lambda: {"closes": "h", "late": "ignore"}, "is 'ignore'", "refuse, aside, drop"),
    "late number": (lambda: {"closes": "h", "late": 0}, "`late` of `q` is 0", "refuse, aside"),
    "late list": (lambda: {"closes": "h", "late": ["drop"]}, "is ['drop']", "one of"),
    "late alone": (lambda: {"late": "drop"}, "no row of it is ever late", "say closes="),
    "retain word": (lambda: {"retain": "some"}, "`retain` of `q` is 'some'", "True, 'open'"),
    "retain number": (lambda: {"retain": 1}, "`retain` of `q` is 1", "or False"),
    "retain None": (lambda: {"retain": None}, "`retain` of `q` is None", "or False"),
    "retain open": (lambda: {"retain": "open"}, "no row of it is ever closed", "say closes="),
    "append word": (lambda: {"append_only": "yes"}, "`append_only` of `q` is 'yes'", "True or"),
    "append None": (lambda: {"append_only": None}, "`append_only` of `q` is None", "True or"),
    "static": (lambda: {"static": True, "closes": "h"}, "is static", "leave closes="),
}


@pytest.mark.parametrize("what", DECLARED)
def test_a_bad_declaration_is_refused(db: hw.Database, what: str) -> None:
    given, *words = DECLARED[what]
    with refused(db, QueryError, *words):
        db.source("q", COLUMNS, **given())


NESTED = "id INT, z INT, o ARRAY<STRUCT<n: INT, v: INT>>"
OF_NESTED: dict[str, tuple[dict[str, Any], str, str]] = {
    "inner column": ({"closes": "o.n"}, "closed by `o.n`", "name a column of the key"),
    "no key": ({"closes": "z"}, "arrays with owners, and is closed by `z`", "its key: id"),
    "open": ({"closes": "id", "retain": "open"}, "keeps open rows only", "leave retain='open'"),
    "aside": ({"closes": "id", "late": "aside"}, "and late='aside'", "cannot come without"),
}


@pytest.mark.parametrize("what", OF_NESTED)
def test_a_nested_source_is_closed_by_its_key(db: hw.Database, what: str) -> None:
    given, *words = OF_NESTED[what]
    with refused(db, QueryError, *words):
        db.source("c", NESTED, key=["id", "o.n"], **given)


def test_what_was_promised_is_not_declared_away(db: hw.Database) -> None:
    by = {"closes": W("h", 1, by="z", of=[1, 2])}
    db.source("q", "z INT, h INT", **by)
    for other in (
        {},
        {"closes": "h"},
        {**by, "append_only": True},
        {**by, "retain": "open"},
        {"closes": W("h", 1, by="z", of=[1])},
        {"closes": W("h", 2, by="z", of=[1, 2])},
    ):
        with refused(db, NameTaken, "there is a source or view `q` already", "drop it first"):
            db.source("q", "z INT, h INT", **other)
    db.source("q", "z INT, h INT", closes=[W("h", 1, by="z", of=[2, 1, 3]), "z"], late="drop")
    assert [s.of for s in db.catalog.sources["q"].schemes] == [(2, 1, 3), None]


# --- punctuations -----------------------------------------------------------------------------------------------------


def at_hours(db: hw.Database) -> None:
    """Sources of which some is over, and views."""
    db.source("q", COLUMNS, closes=["h", ("z", "h"), "t", "d", "x", "s", "m", "f"])
    db.source("p", "h INT, n INT", closes="h")
    db.source("plain", "h INT, n INT")
    db.source("fixed", "h INT", static=True)
    db.view("v", "SELECT h, count(*) AS c FROM p GROUP BY h")
    db.view("total", "SELECT count(*) AS c FROM plain")
    db.apply({"p": [(1, 10), (2, 20)], "plain": [(1, 1)]}, punctuate={"p": hw.closed(h=1)})


Act = Callable[[hw.Database], Any]
PUNCTUATED: dict[str, tuple[Act, type[HeadwaterError], str, str]] = {
    "source": (lambda db: db.punctuate("nope", h=1), UnknownName, "`nope`, which", "sources: q, p"),
    "view": (lambda db: db.punctuate("v", h=1), UnknownName, "`v`, which is punctuated", "sources"),
    "no name": (lambda db: db.punctuate(5, h=1), UnknownName, "`5`, which is", "sources: q"),
    "column": (lambda db: db.punctuate("q", u=1), BadPattern, "no column `u`", "columns are z, h"),
    "other": (lambda db: db.punctuate("p", n=1), BadPattern, "not closed by `n`", "closes=['h']"),
    "no closes": (
        lambda db: db.punctuate("plain", h=1),
        BadPattern,
        "not closed by `h`",
        "closes=",
    ),
    "static": (lambda db: db.punctuate("fixed"), BadPattern, "`fixed` is static", "leave its"),
    "array": (lambda db: db.punctuate("q", a=[1]), BadPattern, "`a`: a pattern is over", "numbers"),
    "text": (lambda db: db.punctuate("q", h="x"), BadPattern, "`h`: 'x' is no int", "that type"),
    "fraction": (lambda db: db.punctuate("q", h=1.5), BadPattern, "1.5 is no int", "that type"),
    "truth": (lambda db: db.punctuate("q", h=True), BadPattern, "True is no int", "that type"),
    "large": (lambda db: db.punctuate("q", h=2**40), BadPattern, "1099511627776 is no int", "type"),
    "number": (lambda db: db.punctuate("q", s=1), BadPattern, "1 is no string", "that type"),
    "moment": (lambda db: db.punctuate("q", t="soon"), BadPattern, "no timestamp", "a datetime"),
    "digits": (
        lambda db: db.punctuate("q", m=Decimal("1.005")),
        BadPattern,
        "is no decimal(9,2)",
        "no more digits",
    ),
    "one": (lambda db: db.punctuate("q", f=1), BadPattern, "1 is no boolean", "that type"),
    "object": (lambda db: db.punctuate("q", h=object()), BadPattern, "is no int", "that type"),
    "dict": (lambda db: db.punctuate("q", h={"a": 1}), BadPattern, "{'a': 1} is no int", "list"),
    "range()": (lambda db: db.punctuate("q", h=range(3)), BadPattern, "range(0, 3)", "that type"),
    "mixed": (lambda db: db.punctuate("q", h=[1, "x"]), BadPattern, "[1, 'x']", "of one type"),
    "ends": (lambda db: db.punctuate("q", h=hw.between(8, 5)), BadPattern, "[8, 5]", "lower end"),
    "moments": (
        lambda db: db.punctuate("q", t=hw.between(DAY, DAY - timedelta(1))),
        BadPattern,
        "`t`: the ends of",
        "the lower end comes first",
    ),
    "no end": (lambda db: db.punctuate("q", h=hw.below(None)), BadPattern, "NULL is no", "None"),
    "below text": (lambda db: db.punctuate("q", h=hw.below("x")), BadPattern, "'x' is no", "type"),
    "bare": (lambda db: db.apply({}, punctuate={"q": 5}), BadPattern, "`q` is of type int", "say"),
    "bare range": (
        lambda db: db.apply({}, punctuate={"q": hw.upto(3)}),
        BadPattern,
        "what closes `q` is of type Range",
        "say hw.closed(column=value)",
    ),
    "nothing": (
        lambda db: db.apply({}, punctuate={"q": None}),
        BadPattern,
        "NoneType",
        "hw.closed",
    ),
    "several": (lambda db: db.apply({}, punctuate={"q": [hw.closed()]}), BadPattern, "list", "say"),
    "no dict": (lambda db: db.apply({}, punctuate="q"), BadPattern, "of type str", "a dict by"),
    "no source": (
        lambda db: db.apply({}, punctuate=hw.closed(h=1)),
        BadPattern,
        "the punctuations are of type Punctuation",
        "punctuate={",
    ),
    "rows too": (
        lambda db: db.apply({"p": [(7, 7)]}, punctuate={"p": hw.closed(h="x")}),
        BadPattern,
        "what closes `p`: `h`: 'x' is no int",
        "give a value",
    ),
}


@pytest.mark.parametrize("what", PUNCTUATED)
def test_a_bad_punctuation_is_refused(db: hw.Database, what: str) -> None:
    act, kind, *words = PUNCTUATED[what]
    at_hours(db)
    with refused(db, kind, *words):
        act(db)
    assert str(db["p"].closed()) == "⟨h: {null, 1}⟩"


READ: dict[str, tuple[Act, type[HeadwaterError], str, str]] = {
    "final of a source": (lambda db: db.final_table("p"), UnknownName, "no view `p`", "views: v"),
    "late of a view": (lambda db: db.late_table("v"), UnknownName, "no source `v`", "sources: q"),
    "closed of a view": (lambda db: db.closed_source("v"), UnknownName, "no source", "sources: q"),
    "since": (lambda db: db.final_table("v", since=99), StateError, "no version 99", "newest is 7"),
    "since text": (lambda db: db.final_table("v", since="a"), QueryError, "'a' is no", "a whole"),
    "until": (lambda db: db.final_table("v", until=99), StateError, "version 99", "versions that"),
    "never": (
        lambda db: db.final_table("total"),
        QueryError,
        "no row of `total` is final before all that it reads is over",
        "no column would do: only the end of what it reads, db.punctuate('plain')",
    ),
}


@pytest.mark.parametrize("what", READ)
def test_what_cannot_be_read_is_said(db: hw.Database, what: str) -> None:
    act, kind, *words = READ[what]
    at_hours(db)
    with refused(db, kind, *words):
        act(db)


WOULD_DO = {
    "SELECT h, count(*) AS c FROM r GROUP BY h": ("h", "h", 'would do: closes="h" on r'),
    "SELECT h, n FROM r EXCEPT SELECT h, n FROM s": (
        "h",
        "h",
        'closes="h" on r and closes="h" on s',
    ),
    "SELECT r.n, s.m FROM r JOIN s ON r.h = s.h": ("n", "m", 'closes="n" on r and closes="m" on s'),
}
"""Queries with the columns by which both sources are closed, and how it is said."""


@pytest.mark.parametrize("query", WOULD_DO)
def test_what_final_says_would_do_does(tmp_path: Path, query: str) -> None:
    first, second, said = WOULD_DO[query]
    with hw.open(tmp_path / "before") as db:
        db.source("r", "h INT, n INT")
        db.source("s", "h INT, n INT, m INT")
        db.view("v", query)
        with refused(db, QueryError, "no row of `v` is final", said):
            db.final_table("v")
    with hw.open(tmp_path / "after") as db:
        db.source("r", "h INT, n INT", closes=first)
        db.source("s", "h INT, n INT, m INT", closes=second)
        db.view("v", query)
        db.apply({"r": [(1, 1)], "s": [(1, 2, 1)]})
        db.punctuate("r", **{first: 1})
        db.punctuate("s", **{second: 1})
        assert db.final_table("v").num_rows == 1


# --- changes ------------------------------------------------------------------------------------------------------------


def test_a_late_row_is_named_with_what_it_breaks(db: hw.Database) -> None:
    at_hours(db)
    row = "{'h': 1, 'n': 5} matches ⟨h: {null, 1}⟩, closed by version 7"
    with refused(db, LateRows, f"a late row for `p`: {row}", "declare late='aside'"):
        db.apply({"p": [(3, 1), (1, 5)], "plain": [(9, 9)]})
    with refused(db, LateRows, "a late row for `p` and 2 more"):
        db.apply({"p": [(1, 5), (1, 6), (1, 7)]})
    with refused(db, LateRows, "a late deletion for `p`: {'h': 1, 'n': 10}", "by version 7"):
        db.apply({"p": hw.Delta(deletes=[(1, 10)])})
    with refused(db, LateRows, "has NULL in `h`, by which it is closed", "give `h` a value"):
        db.apply({"p": [(None, 5)]})
    assert db.apply({"p": [(3, 1)]}).late == {}


def test_rows_after_the_end_of_a_stream_are_late(db: hw.Database) -> None:
    at_hours(db)
    db.punctuate("plain")
    with refused(db, LateRows, "{'h': 5, 'n': 5}, and all of it was closed by version 8"):
        db.apply({"plain": [(5, 5)]})
    assert db.final_table("total").to_pylist() == [{"c": 1, "_w": 1, "_version": 8}]


def test_inner_rows_of_what_is_closed_are_late(db: hw.Database) -> None:
    db.source("c", NESTED, key=["id", "o.n"], closes="id")
    db.view("total", "SELECT count(*) AS n FROM c LATERAL VIEW explode(o) t AS x")
    db.apply({"c": [(1, 0, [{"n": 1, "v": 5}]), (2, 0, [])]}, punctuate={"c": hw.closed(id=1)})
    with refused(db, LateRows, "a late row for `c.o`: {'id': 1, 'n': 3, 'v': 9}", "leave out"):
        db.apply({"c.o": hw.Delta(inserts=[{"id": 1, "n": 3, "v": 9}])})
    with refused(db, LateRows, "a late row for `c.o`: {'id': 1, 'n': 2, 'v': 7}"):
        db.apply({"c": [(1, 0, [{"n": 2, "v": 7}])]})
    db.apply({"c.o": hw.Delta(inserts=[{"id": 2, "n": 3, "v": 9}])})
    assert db.punctuate("c").closed == {"total": 1}
    with refused(db, LateRows, "a late row for `c.o`: {'id': 2, 'n': 4, 'v': 1}, and all of it"):
        db.apply({"c.o": hw.Delta(inserts=[{"id": 2, "n": 4, "v": 1}])})
    assert db.table("total").to_pylist() == [{"n": 2, "_w": 1}]


def test_nothing_is_deleted_from_an_append_only_source(db: hw.Database) -> None:
    db.source("s", "k INT", append_only=True)
    db.source("c", NESTED, key=["id", "o.n"], append_only=True)
    db.apply({"s": [(1,)], "c": [(1, 0, [{"n": 1, "v": 5}])]})
    with refused(
        db, BadChange, "`s` is append-only, and a row is deleted: {'k': 1}", "append_only"
    ):
        db.apply({"s": hw.Delta(inserts=[(2,)], deletes=[(1,)])})
    with refused(db, BadChange, "`c` is append-only, and a row is deleted"):
        db.apply({"c.o": hw.Delta(deletes=[{"id": 1, "n": 1, "v": 5}])})


def test_a_member_that_is_not_listed_is_refused(db: hw.Database) -> None:
    db.source("e", "d STRING, t INT", closes=W("t", 1, by="d", of=["a", "b"]))
    db.apply({"e": [("a", 5), ("b", 7)]})
    with refused(db, BadChange, "`d` is 'c': {'d': 'c', 't': 9}", "declare the source again"):
        db.apply({"e": [("a", 6), ("c", 9)]})
    with refused(db, BadChange, "`d` is None"):
        db.apply({"e": [(None, 9)]})
    # One that is late anyway is set aside like any other.
    assert db.apply({"e": [("c", 1)]}).late == {"e": 1}
    db.source("e", "d STRING, t INT", closes=W("t", 1, by="d", of=["a", "b", "c"]))
    db.apply({"e": [("a", 9), ("b", 9)]})
    assert db.apply({"e": [("c", 4)]}).late == {}  # everybody waits for c from now on
    assert db.apply({"e": [("c", 3)]}).late == {"e": 1}


def test_what_is_no_number_holds_no_watermark_up(db: hw.Database) -> None:
    nan, inf = float("nan"), float("inf")
    db.source("s", "x DOUBLE, k INT", closes=W("x", 1.5))
    db.view("v", "SELECT x, count(*) AS n FROM s GROUP BY x")
    db.apply({"s": [(1.0, 1), (nan, 1)]})
    assert str(db["s"].closed()) == "⟨x: (*, -0.5)⟩ ∪ ⟨x: null⟩"
    assert db.apply({"s": [(5.0, 1)]}).closed == {"v": 1}
    # NaN is greater than every number: it is not over before all is. NULL is over from the start.
    assert db.apply({"s": [(nan, 2), (2.0, 1), (None, 1)]}).late == {"s": 2}
    # Nor does an infinite one say how far the source is.
    assert db.apply({"s": [(inf, 1)]}).closed == {}
    assert db.apply({"s": [(1e300, 1), (inf, 2), (nan, 3), (-inf, 1)]}).late == {"s": 1}
    assert db.apply({"s": [(1e299, 1), (inf, 2), (nan, 3)]}).late == {"s": 1}
    assert db.final_table("v").column("x").to_pylist() == [1.0, 5.0]
    assert db.punctuate("s").closed == {"v": 3}


def test_capital_letters_are_as_good_as_small_ones(db: hw.Database) -> None:
    db.source("s", "Zone INT, Hour INT", closes=["HOUR", ("zone", "hour")])
    db.source("w", "Zone INT, Ts BIGINT", closes=hw.watermark("TS", 5, by="ZONE"))
    db.view("v", "SELECT zone, hour, count(*) AS n FROM s GROUP BY zone, hour")
    db.apply({"s": [(1, 1), (2, 2)], "w": [(1, 100)]})
    assert db.punctuate("s", hour=1).closed == {"v": 1}
    assert db.punctuate("s", ZONE=2, hOUR=2).closed == {"v": 1}
    assert db.apply({"w": [(1, 90), (2, 90)]}).late == {"w": 1}
    with pytest.raises(BadPattern, match="there is no column `hours`"):
        db.punctuate("s", hours=1)


def test_a_watermark_below_all_values_of_its_type_closes_nothing(db: hw.Database) -> None:
    db.source("a", "t TINYINT", closes=W("t", 100))
    db.source("b", "t DECIMAL(4,2)", closes=W("t", 90))
    db.source("c", "t TIMESTAMP", closes=W("t", "99999999999 days"))
    db.source("d", "k DATE, t DATE", closes=W("t", "1 day", by="k", of=[date(2026, 3, 1)]))
    day = datetime(2026, 3, 1, tzinfo=UTC)
    db.apply({"a": [(-100,)], "b": [(Decimal("-50.00"),)], "c": [(day,)]})
    db.apply({"d": [(date(2026, 3, 1), date.min)]})
    assert {str(db[n].closed()) for n in "abcd"} == {"⟨t: null⟩"}
    db.apply({"a": [(100,)]})
    assert "⟨t: (*, -1]⟩" in str(db["a"].closed())


# --- what is kept no more -------------------------------------------------------------------------------------------------


def test_what_would_need_rows_that_are_gone_is_refused(db: hw.Database) -> None:
    db.source("s", "h INT, n INT", closes="h", retain="open")
    with refused(db, QueryError, "`w` is recomputed from rows of `s`", "retain=True"):
        db.view("w", "SELECT sum(n) AS t FROM s", strategy="recompute")
    db.apply({"s": [(1, 10), (2, 20)]}, punctuate={"s": hw.closed(h=1)})
    with refused(db, Purged, "rows of `s` that `w` would need are over", "define the view before"):
        db.view("w", "SELECT sum(n) AS t FROM s")
    with refused(db, Purged, "`s` keeps open rows only", "retain=True"):
        db.rebuild()

    def each(row):
        return (row.h,)

    with refused(db, Purged, "the stage `each` reads `s`, of which some is over", 'start="new"'):
        db.stage("s", out="h INT")(each)
    db.stage(flow.reads("s", start="new"), out="h INT")(each)
    db.apply({"s": [(3, 30)]})
    db.run()
    assert db.table("each").to_pylist() == [{"h": 3, "_w": 1}]


def test_a_day_is_not_over_before_clocks_cannot_go_back_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Newfoundland a minute after midnight became 23:01 of the day before: 02:30 UTC is 7 November, 02:40 is the 6th."""
    if SparkSession._instantiatedSession is not None:
        pytest.skip(
            "the session of this process, which another test has started, has a zone of its own"
        )
    monkeypatch.setattr("headwater.engine.spark.session.LOCAL_ZONE", "America/St_Johns")
    midnight = datetime(2010, 11, 7, 2, 30, tzinfo=UTC)
    with hw.open(tmp_path / "db") as db:
        db.source("e", "ts TIMESTAMP", closes="ts")
        db.view(
            "days", "SELECT CAST(ts AS DATE) AS day, count(*) AS n FROM e GROUP BY CAST(ts AS DATE)"
        )
        db.apply({"e": [(midnight - timedelta(hours=1),), (midnight,)]})
        db.punctuate("e", ts=hw.upto(midnight))  # the 7th has begun
        with refused(db, LateRows, "a late row for `e`"):
            db.apply({"e": [(midnight,)]})
        db.apply({"e": [(midnight + timedelta(minutes=10),)]})  # and it is the 6th again
        answer = [
            {"day": date(2010, 11, 6), "n": 2, "_w": 1},
            {"day": date(2010, 11, 7), "n": 1, "_w": 1},
        ]
        assert sorted(db.table("days").to_pylist(), key=lambda r: r["day"]) == answer
        assert db.final_table("days").num_rows == 0
        assert db.punctuate("e", ts=hw.upto(midnight + timedelta(days=3))).closed == {"days": 2}
        assert sorted(db.table("days").to_pylist(), key=lambda r: r["day"]) == answer
