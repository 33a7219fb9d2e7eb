"""Whether two answers are the same bag of rows: exactly, or, of a database of before, doubles to nine digits.

NaN is equal to NaN, and 0.0 to -0.0.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from headwater.calculus.types import Boxed, MapType, RecordType, Type, has_box
from headwater.engine.here.equal_rows import consolidated
from headwater.plan.program import WEIGHT

CLOSE = 1e-9
"""How near sums are that were rounded one by one, as they once were here."""


def differences(
    found: pa.Table, expected: pa.Table, row: RecordType | None = None, rounded: bool = False
) -> str:
    """What is wrong with an answer, in words; empty if nothing is. With the type of a row, inner bags have no order."""
    if found.column_names != expected.column_names:
        return f"its columns are {found.column_names}, and should be {expected.column_names}"
    try:
        aligned = expected.cast(found.schema)
    except pa.ArrowException:
        return f"its columns are {found.schema.types}, and should be {expected.schema.types}"
    if row is not None and has_box(row):
        found, aligned = in_order(found, row), in_order(aligned, row)
    signed = [
        t.append_column(WEIGHT, pa.repeat(pa.scalar(w, pa.int64()), t.num_rows))
        for t, w in ((found, 1), (aligned, -1))
    ]
    rest = consolidated(pa.concat_tables(signed)).to_pylist()
    more = [r for r in rest if r[WEIGHT] > 0 for _ in range(r[WEIGHT])]
    less = [r for r in rest if r[WEIGHT] < 0 for _ in range(-r[WEIGHT])]
    if len(more) == len(less) and _all_close(more, less, rounded):
        return ""
    shown = [f"{'has' if r[WEIGHT] > 0 else 'lacks'} {_row(r)}" for r in rest[:4]]
    return f"of {found.num_rows} rows and {expected.num_rows} expected, it {', '.join(shown)}"


def not_among(
    found: pa.Table, whole: pa.Table, row: RecordType | None = None, rounded: bool = False
) -> str:
    """Which rows of an answer are none of some others, or are there more often, in words; empty if none is."""
    aligned = whole.cast(found.schema)
    if row is not None and has_box(row):
        found, aligned = in_order(found, row), in_order(aligned, row)
    signed = [
        t.append_column(WEIGHT, pa.repeat(pa.scalar(w, pa.int64()), t.num_rows))
        for t, w in ((found, 1), (aligned, -1))
    ]
    rest = consolidated(pa.concat_tables(signed)).to_pylist()
    left = [dict(r) for r in rest if r[WEIGHT] < 0]
    for r in rest:
        for _ in range(max(r[WEIGHT], 0)):
            like = next((x for x in left if x[WEIGHT] < 0 and _same(r, x, rounded)), None)
            if like is None:
                return f"it has {_row(r)}, which is none of the rows to take from"
            like[WEIGHT] += 1
    return ""


def in_order(table: pa.Table, row: RecordType) -> pa.Table:
    """The table with the elements of inner bags in one order."""
    for i, (name, t) in enumerate(row.fields):
        if has_box(t):
            cells = [_sorted(v, t) for v in table.column(i).to_pylist()]
            table = table.set_column(i, name, pa.array(cells, table.schema.field(i).type))
    return table


def _sorted(value: Any, t: Type) -> Any:
    match t:
        case Boxed(MapType(element, _)) if value is not None:
            return sorted((_sorted(v, element) for v in value), key=repr)
        case RecordType(fields) if value is not None:
            return {n: _sorted(value[n], f) for n, f in fields}
        case _:
            return value


def _all_close(left: list[dict[str, Any]], right: list[dict[str, Any]], rounded: bool) -> bool:
    """Whether rows are the same but for rounding: paired by what is not a double, then by the doubles in order."""
    pairs = zip(sorted(left, key=_order), sorted(right, key=_order), strict=True)
    return all(_same(a, b, rounded) for a, b in pairs)


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    exact = [repr(v) for k, v in row.items() if not isinstance(v, float) and k != WEIGHT]
    loose = [
        float(f"{v:.6g}") if v == v else math.inf for v in row.values() if isinstance(v, float)
    ]
    return (exact, loose)


def _same(a: dict[str, Any], b: dict[str, Any], rounded: bool) -> bool:
    """Whether two rows are; the equal ones have gone before, so what is left has other doubles at least."""
    return all(name == WEIGHT or _alike(x, b[name], rounded) for name, x in a.items())


def _alike(x: Any, y: Any, rounded: bool) -> bool:
    if x == y:
        return True
    if not (isinstance(x, float) and isinstance(y, float)):
        return False
    near = rounded and math.isclose(x, y, rel_tol=CLOSE, abs_tol=CLOSE)
    return near or (math.isnan(x) and math.isnan(y))


def _row(row: dict[str, Any]) -> str:
    return "(" + ", ".join(f"{k}={v!r}" for k, v in row.items() if k != WEIGHT) + ")"
