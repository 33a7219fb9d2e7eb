"""Queries that mean the same as another one: their terms are equal."""

from __future__ import annotations

import pytest

from headwater.language.sql import read_sql
from sql.tables import SCHEMAS


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("TABLE r", "SELECT * FROM r"),
        (
            "TABLE `empty` UNION ALL TABLE empty",
            "SELECT * FROM empty UNION ALL SELECT * FROM empty",
        ),
        ("SELECT x.a FROM (TABLE r) x", "SELECT x.a FROM (SELECT * FROM r) x"),
        ("SELECT a, b FROM r MINUS (TABLE empty)", "SELECT a, b FROM r EXCEPT SELECT * FROM empty"),
        ("FROM r SELECT a", "SELECT a FROM r"),
        (
            "SELECT a, b, count(*) AS n FROM r GROUP BY a, b WITH CUBE",
            "SELECT a, b, count(*) AS n FROM r GROUP BY GROUPING SETS ((a, b), (a), (b), ())",
        ),
        (
            "SELECT a, b, count(*) AS n FROM r GROUP BY a, ROLLUP (b)",
            "SELECT a, b, count(*) AS n FROM r GROUP BY GROUPING SETS ((a, b), (a))",
        ),
        ("SELECT median(a) AS m FROM r", "SELECT percentile(a, 0.5) AS m FROM r"),
        ("SELECT std(a) AS m FROM r", "SELECT stddev_samp(a) AS m FROM r"),
        (
            "SELECT string_agg(s, '|') WITHIN GROUP (ORDER BY a) AS m FROM r",
            "SELECT listagg(s, '|') WITHIN GROUP (ORDER BY a) AS m FROM r",
        ),
    ],
)
def test_other_words_for_the_same_term(short: str, long: str) -> None:
    assert read_sql(short, SCHEMAS) == read_sql(long, SCHEMAS)
