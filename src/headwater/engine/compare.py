"""Whether two answers are the same bag of rows: exactly, and doubles to nine digits."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from headwater.calculus.types import Boxed, MapType, RecordType, Type, has_box
from headwater.compiler.program import WEIGHT
from headwater.engine.answers import consolidated

CLOSE = 1e-9


def differences(found: pa.Table, expected: pa.Table, row: RecordType | None = None) -> str:
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
    if len(more) == len(less) and _all_close(more, less):
        return ""
    shown = [f"{'has' if r[WEIGHT] > 0 else 'lacks'} {_row(r)}" for r in rest[:4]]
    return f"of {found.num_rows} rows and {expected.num_rows} expected, it {', '.join(shown)}"


def not_among(found: pa.Table, whole: pa.Table, row: RecordType | None = None) -> str:
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
            like = next((x for x in left if x[WEIGHT] < 0 and _close(r, x)), None)
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
