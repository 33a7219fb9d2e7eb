"""try_cast of text, which says where a cast fails: NULL where Spark has NULL, and most of that is told without it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.calculus.terms import Call
from headwater.calculus.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    decimal,
)
from headwater.plan.scalar import scalar
from spark_session import session
from test_scalars import OF, of, on_arrow, told

TEXTS = (
    *("", " ", "-", "+", ".", "7", " 7 ", "+7", "-7", "7.", ".7", "7.5", "1e3", "1E-2", "7d", "7f"),
    *("x", "1x", "x1", "N/A", "nan", "NaN", "inf", "-Infinity", "Nancy", "0x1p3", "1_0", "1,0"),
    *("\u0663", "7\u3000", "\t7\n", "\x007", "é", "-x", "--7", "7-", "(7)", "#", "null"),
    *("999", "9000", "3000000000", "9223372036854775808", "9" * 20, "1" * 45, "-128", "128.4"),
    *("t", "TRUE", " yes ", "n", "0", "1", "on", "tru", "true x", "2024", "2024-02-30", "2024-1-2"),
    *("2024-01-02", "2024-01-02 03:04:05", "2024-01-02T3:4", "12:30", "today", "now", "epoch"),
    *("T12:30", "2024-01-02 25:00:00"),
)
TYPES = (TINYINT, INTEGER, BIGINT, DOUBLE, decimal(5, 2), BOOLEAN, DATE, TIMESTAMP_NTZ, TIMESTAMP)


@pytest.mark.spark
def test_as_spark() -> None:
    given = pa.table({"s": pa.array([*TEXTS, None], pa.large_string())})
    session().createDataFrame(given).createOrReplaceTempView("odd")
    written = [scalar(Call("try_cast", (of("s"),), t), OF) for t in TYPES]
    asked = ", ".join(f"{s.sql} AS v{i}" for i, s in enumerate(written))
    found = session().sql(f"SELECT {asked} FROM odd").toArrow()
    wrong, here = [], 0
    for i, s in enumerate(written):
        wrong += on_arrow(str(s.type), s, given, found.column(i).to_pylist())
        here += len(told(s, given)[1])
    assert not wrong, "\n".join(wrong)
    assert here > 0.6 * len(TYPES) * given.num_rows
