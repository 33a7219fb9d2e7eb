"""Records as rows of a source: those that fit as a table, and the others with their place and what is wrong with them.

All records are tried at once, which is what nearly always succeeds; where one does not fit, halves are tried until it is
alone, so that a few bad records among many cost little.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headwater.calculus.types import Boxed, ListType, RecordType
from headwater.engine.change import schema_of
from headwater.errors import BadChange, HeadwaterError
from headwater.feeds.feed import Declared
from headwater.io.values import converted
from headwater.plan.program import WEIGHT

_NESTED = (Boxed, ListType, RecordType)


@dataclass(frozen=True)
class Bad:
    """A record that does not fit: its text, where it stands, and why."""

    record: str
    place: str
    why: str


def reader(row: RecordType) -> Callable[[str | bytes], Any]:
    """Reads JSON so that no digit is lost: fractions stay texts until their column is known."""
    if any(isinstance(t, _NESTED) for _, t in row.fields):
        return json.loads
    return _exact


def _exact(text: str | bytes) -> Any:
    return json.loads(text, parse_float=str)


def fitted(
    declared: Declared,
    rows: Sequence[dict[str, Any]],
    places: Sequence[str],
    bad: list[Bad],
    columns: Sequence[str] | None = None,
) -> tuple[pa.Table, list[int]]:
    """The rows that fit, as a table, and which those are; the others are added to `bad`."""
    names = list(columns) if columns is not None else [n for n, _ in declared.row.fields]
    row = RecordType(tuple((n, t) for n, t in declared.row.fields if n in names))
    parts: list[pa.Table] = []
    kept: list[int] = []

    def go(start: int, end: int) -> None:
        if start == end:
            return
        try:
            part = {n: [r.get(n) for r in rows[start:end]] for n in names}
            parts.append(converted(declared.name, row, part, declared.zone, True))
            kept.extend(range(start, end))
        except HeadwaterError as e:
            if end - start == 1:
                shown = json.dumps(rows[start], default=str, ensure_ascii=False)
                bad.append(Bad(shown, places[start], e.what))
                return
            middle = (start + end) // 2
            go(start, middle)
            go(middle, end)

    go(0, len(rows))
    if not parts:
        empty = schema_of(row).empty_table()
        return empty.drop_columns([WEIGHT]) if WEIGHT in empty.column_names else empty, []
    return pa.concat_tables(parts), kept


def told(declared: Declared, bad: Sequence[Bad]) -> pa.Table | None:
    """Records that do not fit as a table; where the policy is to stop the first is raised."""
    if not bad:
        return None
    if declared.bad == "stop":
        first = bad[0]
        raise BadChange(
            f"a record of `{declared.name}` does not fit ({first.place}): {first.why}",
            hint='mend it where it comes from, or declare the source with bad="skip" or "aside"',
        )
    columns = {
        "record": [b.record for b in bad],
        "place": [b.place for b in bad],
        "why": [b.why for b in bad],
    }
    return pa.table({n: pa.array(v, pa.string()) for n, v in columns.items()})
