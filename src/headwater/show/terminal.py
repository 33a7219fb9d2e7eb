"""Rows and changes laid out for a terminal: aligned columns, numbers to the right, `+` green and `-` red.

Colour is used where the output is a terminal and NO_COLOR is not set; the text is the same without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TextIO

import pyarrow as pa

WIDEST = 40
"""Cells longer than this are cut."""
NULL = "∅"
RED, GREEN, BOLD, DIM = "31", "32", "1", "2"


class Paint:
    """Colours, or none."""

    def __init__(self, on: bool = False):
        self.on = on

    @staticmethod
    def of(stream: TextIO) -> Paint:
        """Colours where a stream is a terminal and nobody asked for none."""
        return Paint(stream.isatty() and not os.environ.get("NO_COLOR"))

    def __call__(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self.on and text else text

    def heading(self, text: str) -> str:
        """A line that stands above others."""
        return self(text, BOLD)

    def sign(self, text: str) -> str:
        """A line that begins with what it does: added in green, taken away in red."""
        return self(text, {"+": GREEN, "-": RED}.get(text.lstrip()[:1], ""))


def cell(value: Any, widest: int = WIDEST) -> str:
    """A value as text of one line."""
    match value:
        case None:
            return NULL
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.6g}" if value == value and abs(value) < 1e6 else f"{value:g}"
        case datetime():
            return value.isoformat(" ")
        case date() | int() | Decimal():
            return str(value)
    text = value if isinstance(value, str) else str(value)
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= widest else text[: widest - 1] + "…"


def grid(
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    right: Iterable[bool],
    paint: Paint | None = None,
    indent: str = "",
    signed: bool = False,
    widest: int = WIDEST,
) -> str:
    """Columns under their names; `right` says which hold numbers; `signed` rows begin with + or -."""
    paint = paint or Paint()
    texts = [[cell(v, widest) for v in row] for row in rows]
    heads = [cell(n, widest) for n in names]
    numeric = list(right)
    widths = [max(len(h), *(len(r[i]) for r in texts), 0) for i, h in enumerate(heads)]

    def line(cells: Sequence[str]) -> str:
        aligned = (
            c.rjust(w) if n else c.ljust(w) for c, w, n in zip(cells, widths, numeric, strict=True)
        )
        return (indent + "  ".join(aligned)).rstrip()

    lines = [line(r) for r in texts]
    return "\n".join([paint.heading(line(heads)), *(map(paint.sign, lines) if signed else lines)])


def numbers_of(schema: pa.Schema) -> list[bool]:
    """Which columns hold numbers."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return [any(k(f.type) for k in kinds) for f in schema]


def in_order(table: pa.Table, first: Sequence[str] = ()) -> pa.Table:
    """The rows by their columns from left to right, as far as they have an order."""
    names = [*first, *(n for n in table.column_names if n not in first)]
    keys = [(n, "ascending") for n in names if not pa.types.is_nested(table.schema.field(n).type)]
    return table.sort_by(keys) if keys and table.num_rows else table


def rows_shown(table: pa.Table, limit: int | None, paint: Paint, indent: str = "") -> str:
    """A table, and how many rows are left out."""
    part = table if limit is None else table.slice(0, limit)
    text = grid(part.column_names, _rows(part), numbers_of(part.schema), paint, indent)
    return text + _rest(table.num_rows - part.num_rows, indent)


def changes_shown(
    table: pa.Table, limit: int | None, paint: Paint, indent: str = "", by: Sequence[str] = ()
) -> str:
    """Rows with `_w` as what was taken away and what was added, old before new."""
    kept = [n for n in table.column_names if n not in ("_w", "_version")]
    front = ["_version"] if "_version" in table.column_names else []
    ordered = in_order(table.select([*front, *by, "_w", *(n for n in kept if n not in by)]))
    part = ordered if limit is None else ordered.slice(0, limit)
    signs = ["+" if w > 0 else "-" for w in part.column("_w").to_pylist()]
    times = [abs(w) for w in part.column("_w").to_pylist()]
    marks = [s + (f"{n}" if n > 1 else "") for s, n in zip(signs, times, strict=True)]
    shown = part.select([*front, *kept])
    names = ["", *(n.removeprefix("_") if n in front else n for n in shown.column_names)]
    rows = [[m, *r] for m, r in zip(marks, _rows(shown), strict=True)]
    text = grid(names, rows, [False, *numbers_of(shown.schema)], paint, indent, signed=True)
    return text + _rest(ordered.num_rows - part.num_rows, indent)


def _rows(table: pa.Table) -> list[list[Any]]:
    columns = [c.to_pylist() for c in table.columns]
    return [list(r) for r in zip(*columns, strict=True)]


def _rest(count: int, indent: str) -> str:
    return f"\n{indent}… and {count:,} more" if count > 0 else ""


def size(count: int) -> str:
    """A number of bytes."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def seconds(value: float) -> str:
    """A time."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"
