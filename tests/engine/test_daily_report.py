"""The daily report: an ordinary view with dates, roundings and text, on a machine without Java."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine.spark import session

SCHEMA = (
    "id BIGINT, at TIMESTAMP, day STRING, shop STRING, city STRING, price DOUBLE, tax DECIMAL(10,3)"
)
REPORT = """
SELECT to_date(at) AS day, date_trunc('MONTH', at) AS month, upper(shop) AS shop,
       concat_ws(', ', shop, city) AS place, count(*) AS n, sum(round(price, 1)) AS total,
       max(to_date(day)) AS latest, sum(round(tax, 2)) AS taxes
FROM sales WHERE year(at) >= 2020 AND trim(shop) <> ''
GROUP BY to_date(at), date_trunc('MONTH', at), upper(shop), concat_ws(', ', shop, city)
"""
LINES = "SELECT id, CAST(price AS STRING) AS p, floor(price) AS w, hour(at) AS h FROM sales WHERE id % 3 = 0"
START = datetime(2024, 2, 28, 22, tzinfo=UTC)


def sales(first: int, count: int) -> pa.Table:
    """Some sales, from a number on."""
    number = np.arange(first, first + count)
    at = np.datetime64(START.replace(tzinfo=None), "us") + (number * 7_013_000_001).astype(
        "timedelta64[us]"
    )
    at = np.where(number % 97 == 0, at + np.timedelta64(20, "D"), at)
    days = np.datetime_as_string(at, unit="D")
    return pa.table(
        {
            "id": number,
            "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
            "day": pa.array(days.tolist()),
            "shop": pa.array(np.array([" north", "South", "", "Höfe"])[number % 4].tolist()),
            "city": pa.array([None if i % 5 == 0 else f"c{i % 7}" for i in number.tolist()]),
            "price": (number % 1000) * 0.25 + 0.05,
            "tax": pa.array((number % 100).tolist(), pa.decimal128(10, 3)),
        }
    )


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "local_session", refuse)
    monkeypatch.setattr(session, "current_session", lambda: None)


def test_maintained_without_spark(tmp_path: Path, no_java: None) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("sales", SCHEMA)
        db.view("report", REPORT)
        db.view("lines", LINES)
        db.apply({"sales": sales(0, 500)})
        db.apply({"sales": sales(500, 40)})
        gone = sales(100, 7)
        db.apply({"sales": gone.append_column("_w", pa.array([-1] * 7, pa.int64()))})
        found = db.table("report").to_pylist()
        assert sum(r["n"] for r in found) == sum(
            i % 4 != 2 for i in range(540) if not 100 <= i < 107
        )
        assert {r["shop"] for r in found} == {" NORTH", "SOUTH", "HÖFE"}
        assert all(r["month"].day == 1 and r["month"].hour == 0 for r in found)
        assert db.changes_table("report", since=db.version - 1).num_rows
        text = {r["id"]: r["p"] for r in db.table("lines").to_pylist()}
        assert text[3] == "0.8" and text[399] == "99.8"


LOG = "id BIGINT, at TIMESTAMP, line STRING, doc STRING, price DECIMAL(38, 10), rate DOUBLE"
WORDS = """
SELECT word, count(*) AS n FROM log LATERAL VIEW explode(split(line, ' ')) x AS word GROUP BY word
"""
PARTS = """
SELECT id, split(line, ' ')[0] AS first, size(split(line, ' ')) AS words, initcap(line) AS title,
       hex(id) AS code, get_json_object(doc, '$.a.b[1]') AS found, date_format(at, 'EEE d MMM yyyy') AS day,
       from_unixtime(id) AS since, to_date(substring(line, 1, 8), 'yyyyMMdd') AS said,
       price * price AS square, price / 3 AS third, power(rate, 2.5) AS p, ln(rate) AS l, exp(rate) AS e
FROM log
"""


def test_text_documents_and_powers_without_spark(tmp_path: Path, no_java: None) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("log", LOG)
        db.view("words", WORDS)
        db.view("parts", PARTS)
        at = datetime(2024, 2, 29, 12, tzinfo=UTC)
        rows = [
            (255, at, "20240229 a a", '{"a": {"b": [1, "x"]}}', Decimal("1.5"), 2.0),
            (1, at, "20240301 b", '{"a": 1.50}', Decimal(2), 1.0),
            (2, None, None, None, None, None),
        ]
        names = ("id", "at", "line", "doc", "price", "rate")
        db.apply({"log": [dict(zip(names, row, strict=True)) for row in rows]})
        words = {r["word"]: r["n"] for r in db.table("words").to_pylist()}
        assert words == {"20240229": 1, "a": 2, "20240301": 1, "b": 1}
        found = {r["id"]: r for r in db.table("parts").to_pylist()}
        assert found[255] == {
            **{"id": 255, "first": "20240229", "words": 3, "title": "20240229 A A", "code": "FF"},
            **{"found": "x", "day": "Thu 29 Feb 2024", "since": "1970-01-01 00:04:15"},
            **{"said": date(2024, 2, 29), "square": Decimal("2.250000"), "third": Decimal("0.5")},
            **{"p": 5.65685424949238, "l": 0.6931471805599453, "e": 7.38905609893065, "_w": 1},
        }
        assert found[1]["found"] is None and found[2]["first"] is None


SCRIPT = """
import sys, headwater as hw
from test_daily_report import LINES, REPORT, SCHEMA, sales
with hw.open(sys.argv[1]) as db:
    db.source("sales", SCHEMA)
    db.view("report", REPORT)
    db.view("lines", LINES)
    db.apply({"sales": sales(0, 200)})
    assert db.table("report").num_rows and db.table("lines").num_rows
"""


def test_without_java_on_the_machine(tmp_path: Path) -> None:
    known = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "SPARK_HOME")}
    environ = {**known, "PATH": "/nowhere", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "db")],
        env=environ,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_million_rows(tmp_path: Path, no_java: None) -> None:
    """+100 rows over a million take less than 60 ms, in the median."""
    with hw.open(tmp_path / "db") as db:
        db.source("sales", SCHEMA)
        db.view("report", REPORT)
        step = 50_000
        for first in range(0, 1_000_000, step):
            db.apply({"sales": sales(first, step)})
        took, busy = [], []
        for i in range(30):
            change = sales(1_000_000 + 100 * i, 100)
            start, worked = time.perf_counter(), time.process_time()
            db.apply({"sales": change})
            took.append(time.perf_counter() - start)
            busy.append(time.process_time() - worked)
        wall, work = (statistics.median(x) * 1000 for x in (took, busy))
        print(
            f"median {wall:.1f} ms, of which {work:.1f} ms of work; most {max(took) * 1000:.1f} ms"
        )
        assert wall < 60, f"{wall:.1f} ms, of which {work:.1f} ms of work"
