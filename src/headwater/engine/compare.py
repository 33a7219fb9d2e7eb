"""Whether two answers are the same bag of rows: exactly, and doubles to nine digits."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from headwater.compiler.program import WEIGHT
from headwater.engine.answers import consolidated

CLOSE = 1e-9


def differences(found: pa.Table, expected: pa.Table) -> str:
    """What is wrong with an answer, in words; empty if nothing is."""
    if found.column_names != expected.column_names:
        return f"its columns are {found.column_names}, and should be {expected.column_names}"
    try:
        aligned = expected.cast(found.schema)
    except pa.ArrowException:
        return f"its columns are {found.schema.types}, and should be {expected.schema.types}"
    signed = [
        t.append_column(WEIGHT, pa.repeat(pa.scalar(w, pa.int64()), t.num_rows))
        for t, w in ((found, 1), (aligned, -1))
    ]
    rest = consolidated(pa.concat_tables(signed)).to_pylist()
    more = [r for r in rest if r[WEIGHT] > 0 for _ in range(r[WEIGHT])]
    less = [r for r in rest if r[WEIGHT] < 0 for _ in range(-r[WEIGHT])]
    if len(more) == len(less) and _all_close(more, less):
        return ""
    shown = [f"{'has' if r[WEIGHT] > 0 else 'lacks'} {_row(r)}" for r in rest[:4]]
    return f"of {found.num_rows} rows and {expected.num_rows} expected, it {', '.join(shown)}"


def _all_close(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> bool:
    """Whether rows are the same but for rounding: paired by what is not a double, then by the doubles in order."""
    pairs = zip(sorted(left, key=_order), sorted(right, key=_order), strict=True)
    return all(_close(a, b) for a, b in pairs)


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    exact = [repr(v) for k, v in row.items() if not isinstance(v, float) and k != WEIGHT]
    loose = [
        float(f"{v:.6g}") if v == v else math.inf for v in row.values() if isinstance(v, float)
    ]
    return (exact, loose)


def _close(a: dict[str, Any], b: dict[str, Any]) -> bool:
    for name in a:
        x, y = a[name], b[name]
        if name == WEIGHT or x == y:
            continue
        if not (isinstance(x, float) and isinstance(y, float)):
            return False
        if not (math.isnan(x) and math.isnan(y)) and not math.isclose(
            x, y, rel_tol=CLOSE, abs_tol=CLOSE
        ):
            return False
    return True


def _row(row: dict[str, Any]) -> str:
    return "(" + ", ".join(f"{k}={v!r}" for k, v in row.items() if k != WEIGHT) + ")"
