"""`verify` of sums of doubles: Spark's rounding is not taken for damage, and damage is not taken for rounding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine import view_rows
from headwater.engine.verify.compare import differences
from headwater.engine.verify.exactly import of_list
from headwater.errors import StateError
from headwater.language.schema import schemas
from headwater.language.sql.rounding import without_rounding

SCHEMAS = schemas("r(k BIGINT, x DOUBLE, n BIGINT, d DECIMAL(10,2))")
REWRITTEN = {
    "SELECT k, sum(x) AS s FROM r GROUP BY k": "SELECT k, headwater_sum(collect_list(x)) AS s FROM r GROUP BY k",
    "SELECT sum(n), sum(d), avg(d), count(x), max(x) FROM r": None,
    "SELECT avg(n) FROM r": "SELECT headwater_whole_mean(collect_list(n)) FROM r",
    "SELECT sum(DISTINCT x) FILTER (WHERE k IN (1, 2)) + 1 AS s FROM r": (
        "SELECT headwater_sum(collect_list(DISTINCT x) FILTER (WHERE k IN (1, 2))) + 1 AS s FROM r"
    ),
    "SELECT corr(x, n) c FROM r": "SELECT headwater_corr(collect_list( struct(x, n))) c FROM r",
    "SELECT avg(x) OVER (PARTITION BY k ORDER BY n) AS a, sum(x) OVER w AS b FROM r WINDOW w AS (ORDER BY n)": (
        "SELECT headwater_avg(collect_list(x) OVER (PARTITION BY k ORDER BY n)) AS a, "
        "headwater_sum(collect_list(x) OVER w) AS b FROM r WINDOW w AS (ORDER BY n)"
    ),
    "SELECT k FROM r GROUP BY k HAVING stddev(d) > 1": (
        "SELECT k FROM r GROUP BY k HAVING headwater_stddev_samp(collect_list(d)) > 1"
    ),
}


@pytest.mark.parametrize("text", REWRITTEN)
def test_sums_in_other_words(text: str) -> None:
    assert without_rounding(text, SCHEMAS)[0] == (REWRITTEN[text] or text)


def test_sums_of_lists() -> None:
    assert of_list("sum")([1e16, 1.0, -1e16]) == 1.0
    assert of_list("sum")([1e308, 1e308, -1e308]) == 1e308
    assert of_list("sum")([]) is None and math.isnan(of_list("sum")([math.inf, -math.inf]) or 0)
    assert of_list("avg")([0.1] * 3) == 0.1
    assert of_list("whole_mean")([2**53, 1, 2]) == float(2**53 + 3) / 3
    assert of_list("stddev_samp")([Decimal("1.50"), Decimal("3.50")]) == math.sqrt(2)
    assert of_list("corr")([(1.0, 2), (2.0, 4), (None, 1), (3.0, 6)]) == 1.0
    assert of_list("regr_avgx")([(1.0, 2.0), (2.0, 5.0)]) == 3.5


def test_doubles_are_compared_as_they_are() -> None:
    one, other = (
        pa.table({"k": [1, 2], "s": [0.3, math.nan]}),
        pa.table({"k": [1, 2], "s": [0.1 + 0.2, math.nan]}),
    )
    assert differences(one, one) == "" and "0.3" in differences(one, other)
    assert differences(one, other, rounded=True) == ""


VIEWS = {
    "sums": "SELECT k, sum(x) AS s, avg(x) AS a, count(*) AS c, sum(n) AS t, avg(n) AS m FROM r GROUP BY k",
    "big": "SELECT k FROM r GROUP BY k HAVING sum(x) > 0.5",
    "unnamed": "SELECT k, sum(x), avg(DISTINCT x) FROM r GROUP BY k",
    "above": "SELECT max(`sum(x)`) AS m FROM unnamed",
    "spread": "SELECT stddev(x) AS d, corr(x, n) AS c, kurtosis(x) AS u, var_pop(d) AS v, regr_slope(x, n) AS l FROM r",
    "running": "SELECT n, sum(x) OVER (PARTITION BY k ORDER BY n) AS s, avg(x) OVER (ORDER BY n ROWS 1 PRECEDING) AS a FROM r",
    "most": "SELECT k, sum(x) AS s FROM r GROUP BY k ORDER BY k LIMIT 2",
    "share": "SELECT k, sum(x) / (SELECT sum(abs(x)) FROM r) AS p FROM r GROUP BY k",
    "pivoted": "SELECT * FROM (SELECT k, x FROM r) PIVOT (sum(x) AS s FOR k IN (1 AS a, 2 AS b))",
}
ROWS = [
    *((1, x, i, Decimal(i) / 4) for i, x in enumerate([1e16, 1.0, -1e16])),
    *((2, x, i + 10, Decimal(i)) for i, x in enumerate([0.1] * 11 + [1e8, -1e8])),
    *((3, x, i + 50, None) for i, x in enumerate([1e-9, 3.3, 7.7])),
]  # fmt: skip


@pytest.fixture(scope="module")
def db(tmp_path_factory: Any) -> Iterator[hw.Database]:
    from spark_session import session

    with hw.open(tmp_path_factory.mktemp("sums") / "db", session()) as made:
        made.source("r", "k BIGINT, x DOUBLE, n BIGINT, d DECIMAL(10,2)")
        for name, text in VIEWS.items():
            made.view(name, text)
        made.apply({"r": ROWS})
        yield made


@pytest.mark.spark
def test_what_spark_rounds_is_said_and_no_damage(db: hw.Database) -> None:
    (one,) = [r for r in db.table("sums").to_pylist() if r["k"] == 1]
    assert one["s"] == 1.0
    remarks = db.verify()
    assert "sums" in remarks and "rounding" in remarks["sums"]
    assert {r["k"] for r in db.table("big").to_pylist()} == {1, 2, 3}


@pytest.mark.spark
@pytest.mark.parametrize("name", ["sums", "unnamed", "spread", "running", "most"])
@pytest.mark.parametrize("off", [1, 1000], ids=["the last bit", "a thousand of the last bits"])
def test_a_wrong_sum_is_found(
    db: hw.Database, monkeypatch: pytest.MonkeyPatch, name: str, off: int
) -> None:
    """However small: sums are exact, so the last bit of one is wrong or right."""
    right = db.table

    def planted(view: str, version: int | None = None) -> pa.Table:
        table = right(view, version)
        at = next(i for i, f in enumerate(table.schema) if pa.types.is_floating(f.type))
        values = table.column(at).to_pylist()
        for _ in range(off):
            values[0] = math.nextafter(values[0], math.inf)
        return table.set_column(at, table.schema.field(at), pa.array(values))

    monkeypatch.setattr(db, "table", planted)
    with pytest.raises(StateError, match="differs from its query"):
        db.verify(name)


@pytest.mark.spark
def test_moments_that_overflow_in_spark_are_said(tmp_path: Path) -> None:
    from spark_session import session

    with hw.open(tmp_path / "db", session()) as db:
        db.source("r", "x DOUBLE, y DOUBLE")
        db.view("q", "SELECT corr(x, y) AS c, skewness(x) AS k FROM r")
        db.apply({"r": [(1e200, 1.0), (2e200, 2.0), (4e200, 3.0)]})
        (row,) = db.table("q").to_pylist()
        assert math.isfinite(row["c"]) and math.isfinite(row["k"])
        assert "lacks" in db.verify()["q"]
        assert view_rows.repeated(db.table("q")).num_rows == 1
