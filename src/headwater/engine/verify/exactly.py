"""Aggregates of a list of numbers without rounding, as functions of Spark: what `verify` compares sums of doubles with.

They are told by `calculus.dyadic`, the definition, from all values of the group at once, and share nothing with what is
kept: neither limbs nor increments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from pyspark.sql import SparkSession

from headwater.calculus.dyadic import POWERS, Dyadic, shown

WHOLE_MEAN = "whole_mean"
"""The average of integers: their sum as a double, divided."""


def register(spark: SparkSession, prefix: str, names: Iterable[str]) -> None:
    """Makes some aggregates known to Spark, as functions of a list."""
    for name in names:
        spark.udf.register(f"{prefix}{name}", of_list(name), "double")


def of_list(name: str) -> Callable[[list[Any]], float | None]:
    """An aggregate as a function of all values.

    >>> of_list("sum")([1e16, 1.0, -1e16]), of_list("var_pop")([Decimal("1.5"), Decimal("2.5")])
    (1.0, 0.25)
    """

    def aggregate(values: list[Any]) -> float | None:
        rows = [v if isinstance(v, tuple) else (v,) for v in values]
        rows = [r for r in rows if None not in r]
        if not rows:
            return None
        if name == WHOLE_MEAN:
            return float(sum(r[0] for r in rows)) / len(rows)
        if name in ("sum", "avg", "regr_avgx", "regr_avgy"):
            mine = [r[name == "regr_avgx"] for r in rows]
            return _sum(mine) if name == "sum" else shown("_avg", (), [len(mine), _dyadic(mine)])
        return _told(f"_{name}", rows)

    return aggregate


def _sum(values: list[float]) -> float:
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # beyond all doubles on the way, or ∞ - ∞
        return _dyadic(values).rounded()


def _dyadic(values: list[Any]) -> Dyadic:
    return sum(map(Dyadic.of, values), Dyadic())


def _told(name: str, rows: list[tuple[Any, ...]]) -> float | None:
    """A moment from the sums of powers; decimals are whole numbers of their last digit."""
    scales = [_scale(column) for column in zip(*rows, strict=True)]
    whole = [tuple(_units(v, s) for v, s in zip(r, scales, strict=True)) for r in rows]
    sums: list[Any] = [
        sum((_power(r, p) for r in whole), Dyadic()) if any(p) else len(rows) for p in POWERS[name]
    ]
    return shown(name, scales, sums)


def _power(row: tuple[Any, ...], powers: tuple[int, ...]) -> Dyadic:
    return Dyadic.of(*(v for v, k in zip(row, powers, strict=True) for _ in range(k)))


def _scale(column: tuple[Any, ...]) -> int:
    return max((-int(v.as_tuple().exponent) for v in column if isinstance(v, Decimal)), default=0)


def _units(value: Any, scale: int) -> Any:
    return int(value.scaleb(scale)) if isinstance(value, Decimal) else value
