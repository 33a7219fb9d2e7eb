"""Records as rows of a source: those that fit as a table, and the others with their place and what is wrong with them.

All records are tried at once, which is what nearly always succeeds; where one does not fit, halves are tried until it is
alone, so that a few bad records among many cost little.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import pyarrow as pa

from headwater.calculus.types import Boxed, ListType, RecordType
from headwater.engine.change import schema_of
from headwater.errors import BadChange, HeadwaterError
from headwater.feeds.feed import Declared
from headwater.feeds.new_columns import NewColumns
from headwater.io.values import converted
from headwater.plan.program import WEIGHT

T = TypeVar("T")
REJECTED_SCHEMA = pa.schema([(n, pa.string()) for n in ("record", "place", "why")])
_NESTED = (Boxed, ListType, RecordType)


@dataclass(frozen=True)
class Bad:
    """A record that does not fit: its text, where it stands, and why."""

    record: str
    place: str
    why: str


def as_rejected(bad: Sequence[Bad]) -> pa.Table:
    """Records that do not fit as a table."""
    return pa.Table.from_pylist([asdict(b) for b in bad], schema=REJECTED_SCHEMA)


def halved(
    count: int,
    read: Callable[[int, int], T],
    wrong: tuple[type[Exception], ...],
    alone: Callable[[int, Exception], None],
) -> list[tuple[int, int, T]]:
    """What stretches of records are read as, in order, as large as they can be; a record that is wrong even alone is told."""
    out: list[tuple[int, int, T]] = []
    todo = [(0, count)] if count else []
    while todo:
        start, end = todo.pop()
        try:
            out.append((start, end, read(start, end)))
        except NewColumns:  # they are of the source, not of one record
            raise
        except wrong as e:
            if end - start == 1:
                alone(start, e)
                continue
            middle = (start + end) // 2
            todo += [(middle, end), (start, middle)]  # the first half first
    return out


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

    def read(start: int, end: int) -> pa.Table:
        part = {n: [r.get(n) for r in rows[start:end]] for n in names}
        return converted(declared.name, row, part, declared.zone, True)

    def alone(i: int, e: Exception) -> None:
        assert isinstance(e, HeadwaterError)
        shown = json.dumps(rows[i], default=str, ensure_ascii=False)
        bad.append(Bad(shown, places[i], e.what))

    found = halved(len(rows), read, (HeadwaterError,), alone)
    parts = [table for _, _, table in found]
    kept = [i for start, end, _ in found for i in range(start, end)]
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
    return as_rejected(bad)
