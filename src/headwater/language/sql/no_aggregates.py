"""Aggregates that are refused, each with the name of the reason and what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.errors import NotIncremental

if TYPE_CHECKING:
    from headwater.language.sql.reader import Reader

ANY_ROW = {"first", "last", "first_value", "last_value", "any_value"}
APPROXIMATE = {
    "approx_count_distinct": "count(DISTINCT ...) is exact, and is maintained",
    "approx_percentile": "percentile(...) is exact, and is maintained",
    "percentile_approx": "percentile(...) is exact, and is maintained",
    "approx_top_k": "GROUP BY with count(*), ORDER BY and LIMIT is exact",
    "histogram_numeric": "GROUP BY a bucket: floor(x / 10)",
    "count_min_sketch": "GROUP BY with count(*) is exact",
    "hll_sketch_agg": "count(DISTINCT ...) is exact, and is maintained",
    "hll_union_agg": "count(DISTINCT ...) is exact, and is maintained",
}
OTHERS = {"try_sum", "try_avg", "product", "bitmap_construct_agg", "bitmap_or_agg"}
_WORDS: dict[type[exp.Expr], str] = {
    exp.First: "first",
    exp.Last: "last",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
    exp.AnyValue: "any_value",
    exp.ApproxDistinct: "approx_count_distinct",
    exp.ApproxQuantile: "approx_percentile",
    exp.ApproxTopK: "approx_top_k",
}
MAINTAINED = (
    "sum, count, avg, min, max, bool_and, bool_or, stddev, variance, corr, regr_..., percentile, median, mode, "
    "max_by, min_by, listagg, array_agg and their DISTINCT forms are"
)


def _word(e: exp.Expr) -> str:
    return e.name.lower() if isinstance(e, exp.Anonymous) else _WORDS.get(type(e), "")


def is_refused(e: exp.Expr) -> bool:
    """Whether a function is an aggregate that sqlglot does not know as one, and that is refused here."""
    return _word(e) in ANY_ROW | set(APPROXIMATE) | OTHERS


def refusal(reader: Reader, e: exp.Expr) -> NotIncremental | None:
    """Why an aggregate is not maintained; None for those that are."""
    inner = e
    while isinstance(inner, (exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)):
        inner = inner.this
    word = _word(inner)
    if word in ANY_ROW:
        what = f"`{e.sql(dialect='spark')}` may give another row's value each time"
        hint = "say which row: max_by(value, order) or min_by(value, order), or use min or max"
        return reader.refuse("NON_DETERMINISTIC", what, e, hint)
    if word in APPROXIMATE:
        what = f"`{e.sql(dialect='spark')}` is approximate, and depends on the order of the rows"
        return reader.refuse("APPROXIMATE", what, e, APPROXIMATE[word])
    return None


def unknown(reader: Reader, e: exp.Expr) -> NotIncremental:
    """An aggregate that nobody has made maintainable yet."""
    what = f"the aggregate `{e.sql(dialect='spark')}` is not maintained yet"
    return reader.refuse("AGGREGATE", what, e, MAINTAINED)
