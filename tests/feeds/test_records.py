"""Records of files: what each means alone, those that do not fit with their place, and what becomes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.errors import BadChange, QueryError, StageFailed
from headwater.feeds.records import Reader, Record
from headwater.language.schema import columns

COLUMNS = "id BIGINT, name STRING, day DATE"


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def db(tmp_path: Path) -> hw.Database:
    return hw.open(tmp_path / "db")


def ids(db: hw.Database, name: str = "t") -> list[Any]:
    return sorted(r["id"] for r in db.table(name).to_pylist() for _ in range(r["_w"]))


@pytest.mark.parametrize("format", ["csv", "json"])
def test_three_bad_lines_of_ten_thousand_are_set_aside_with_file_and_line(
    db: hw.Database, inbox: Path, format: str
) -> None:
    bad = {17: "x", 5000: "1.2.3", 9999: "??"}

    def line(n: int) -> str:
        value = bad.get(n, n)
        if format == "json":
            return json.dumps({"id": value, "name": "é", "day": "2026-01-02"})
        return f'{value},"a ""quoted"" name",2026-01-02'

    head = "id,name,day\n" if format == "csv" else ""
    text = head + "\n".join(line(n) for n in range(1, 10_001)) + "\n"
    (inbox / "a").write_text(text, encoding="utf-8")
    db.source("t", COLUMNS, path=inbox, format=format, bad="aside")
    db.run()
    assert ids(db) == [n for n in range(1, 10_001) if n not in bad]
    found = {r["place"]: r for r in db.table("t_rejected").to_pylist()}
    first = 1 if format == "csv" else 0
    assert sorted(found) == sorted(f"`a`, line {n + first}" for n in bad)
    assert all(line(n) == found[f"`a`, line {n + first}"]["record"] for n in bad)
    assert all(r["why"] and r["version"] == db.version for r in found.values())


@pytest.mark.parametrize(
    ("format", "text", "place"),
    [
        ("csv", 'id,name,day\n1,"a\nb",\n2,x,\n\nfour,y,\n', "`f`, line 6"),
        ("csv", "id,name,day\n1,a,\n2,x\n", "`f`, line 3"),
        ("csv", 'id,name,day\n1,a,\n2,"x,\n', "`f`, line 3"),
        ("json", '{"id": 1}\n\n{"id": 2, "name": 3}\n{"id": "x"}\n', "`f`, line 3"),
        ("json", '{"id": 1}\n{"id": 2, "more": 3}\n', "`f`, line 2"),
        ("json", '{"id": 1}\n{"id": 2\n', "`f`, line 2"),
        ("xml", "<r><row><id>1</id></row><row><id>x</id></row></r>", "`f`, element 2"),
    ],
)
def test_a_record_that_does_not_fit_stops_with_its_place_or_is_skipped(
    tmp_path: Path, inbox: Path, format: str, text: str, place: str
) -> None:
    (inbox / "f").write_text(text, encoding="utf-8")
    stops = hw.open(tmp_path / "stops")
    stops.source("t", COLUMNS, path=inbox, format=format)
    with pytest.raises(StageFailed) as told:
        stops.run()
    assert place in str(told.value) and "bad='aside'" in str(told.value)
    skips = hw.open(tmp_path / "skips")
    skips.source("t", COLUMNS, path=inbox, format=format, bad="skip")
    skips.run()
    assert ids(skips)[0] == 1 and skips.graph.nodes["t"].rejected >= 1


def test_limits_and_keys_are_part_of_what_fits(db: hw.Database, inbox: Path) -> None:
    (inbox / "f").write_text("id,name\n1,ab\n,x\n2,\n3,abc\n", encoding="utf-8")
    schema = "id BIGINT, name VARCHAR(2) NOT NULL, PRIMARY KEY (id)"
    db.source("t", schema, path=inbox, format="csv", bad="aside")
    db.run()
    assert ids(db) == [1]
    places = sorted(r["place"] for r in db.table("t_rejected").to_pylist())
    assert places == ["`f`, line 3", "`f`, line 4", "`f`, line 5"]


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_columns_that_are_new_stop_or_are_ignored(
    db: hw.Database, inbox: Path, format: str
) -> None:
    if format == "parquet":
        pq.write_table(pa.table({"id": [1], "name": ["a"], "more": [2]}), inbox / "a")
    else:
        text = {"csv": "id,name,more\n1,a,2\n", "json": '{"id": 1, "more": 2, "_w": 1}\n'}
        (inbox / "a").write_text(text[format])
    db.source("t", "id BIGINT, name STRING", path=inbox, format=format)
    with pytest.raises(StageFailed, match="more"):
        db.run()
    options = {"new_columns": "ignore"}
    db.source("t", "id BIGINT, name STRING", path=inbox, format=format, options=options)
    db.run()
    assert ids(db) == [1]


def test_xml_and_text(db: hw.Database, inbox: Path) -> None:
    db.source("x", COLUMNS, path=inbox / "x", format="xml", options={"row_tag": "order"})
    db.source("l", "line STRING", path=inbox / "l", format="text")
    (inbox / "x").mkdir()
    (inbox / "l").mkdir()
    (inbox / "x" / "a.xml").write_text(
        '<orders><order id="1"><name>é &amp; x</name><day>2026-01-02</day></order>'
        "<other/><order id=' 2 '/></orders>"
    )
    (inbox / "l" / "a.txt").write_bytes(b"one\r\n\ntwo, 2\nlast")
    db.run()
    assert [r["name"] for r in db.table("x").to_pylist() if r["id"] == 1] == ["é & x"]
    assert ids(db, "x") == [1, 2]
    lines = sorted(r["line"] for r in db.table("l").to_pylist())
    assert lines == ["", "last", "one", "two, 2"]
    with pytest.raises(QueryError, match="text files have lines"):
        db.source("m", COLUMNS, path=inbox, format="text")
    (inbox / "x" / "b.xml").write_text("<orders><order></orders>")
    with pytest.raises(StageFailed, match=r"`b.xml` cannot be read as xml: mismatched tag"):
        db.run()


def test_a_second_directory_has_deletions(db: hw.Database, inbox: Path, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    options = {"deletes": str(tmp_path / "gone")}
    db.source("t", "id BIGINT, name STRING", path=inbox, format="csv", options=options)
    (inbox / "a.csv").write_text("id,name\n1,a\n2,b\n2,b\n")
    (tmp_path / "gone" / "a.csv").write_text("id,name\n2,b\n")
    db.run()
    assert ids(db) == [1, 2]
    (tmp_path / "gone" / "b.csv").write_text("id,name\n1,a\n")
    db.run()
    assert ids(db) == [2] and db.run().epochs == []


def test_a_changed_file_replaces_its_rows(db: hw.Database, inbox: Path) -> None:
    options = {"changed": "replace"}
    db.source("t", "id BIGINT, name STRING", path=inbox, format="csv", options=options)
    db.view("n", "SELECT count(*) AS n, sum(id) AS total FROM t")
    for text in ("id,name\n1,a\n2,\n2,\n", "id,name\n2,\n3,c\n4,d\n", "id,name\n7,x\n"):
        (inbox / "a.csv").write_text(text)
        (inbox / f"{len(text)}.csv").write_text("id,name\n100,y\n")
        db.run()
        wanted = [int(x.split(",")[0]) for x in text.splitlines()[1:]]
        assert [i for i in ids(db) if i < 100] == wanted
    assert db.run().epochs == [] and ids(db) == [7, 100, 100, 100]
    db.drop("n")
    db.drop("t")
    assert "t_files" not in db


CELLS = st.sampled_from(
    ["1", "-7", "x", "", "9223372036854775808", " 5 ", '"q, ""x"""', "2026-01-02"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(CELLS, min_size=2, max_size=4), max_size=8))
def test_what_a_record_means_does_not_depend_on_its_neighbours(rows: list[list[str]]) -> None:
    reader = Reader("t", columns("id BIGINT, name STRING, day DATE"), "csv", bad="skip")
    records = [Record(",".join(r).encode(), f"{n}") for n, r in enumerate(rows)]
    whole = reader.lines(records)
    alone = [reader.lines([r]) for r in records]
    assert whole.table.to_pylist() == [x for a in alone for x in a.table.to_pylist()]
    assert whole.rejected.to_pylist() == [x for a in alone for x in a.rejected.to_pylist()]
    if whole.rejected.num_rows:
        with pytest.raises(BadChange):
            Reader("t", reader.row, "csv").lines(records)
