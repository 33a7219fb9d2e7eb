"""Debezium's envelope: what a record of its topics says of one row, and where that stood in the log of its source.

A record has `op` (c: came, r: read for the first copy, u: became another, d: went, t: all went), the row `before` and
`after`, and in `source` the place in the source's log; with the JSON converter's schemas all of that is the `payload` beside
a `schema`, which says what numbers mean that stand for dates, times and decimals. Without a schema the option
`time_unit` says it for times.

Debezium sends at least once: after a failure it goes back to an earlier place of the log and tells again what follows. Within a
partition places rise, so a record whose place is below the highest one was told before, and is dropped. Records of a
first copy have all one place, and begin a new count: a source that was moved to another server is copied again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from headwater.calculus import types as ty
from headwater.calculus.types import Base, KeyType, RecordType

OPS = ("c", "r", "u", "d", "t")
_EPOCH = datetime(1970, 1, 1)
_PER_SECOND = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_UNITS = {
    "io.debezium.time.Timestamp": "millis",
    "org.apache.kafka.connect.data.Timestamp": "millis",
    "io.debezium.time.MicroTimestamp": "micros",
    "io.debezium.time.NanoTimestamp": "nanos",
}
DECIMAL = "org.apache.kafka.connect.data.Decimal"


@dataclass(frozen=True)
class Event:
    """What a record says: the rows before and after, as values that the columns take, and its place in the source's log."""

    op: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    position: tuple[Any, ...] | None


class Malformed(ValueError):
    """A record that is no envelope, or has a value that means nothing; why."""


def read_event(value: Any, row: RecordType, unit: str | None) -> Event | None:
    """What a record says; None for one that says nothing of rows (a message, a heartbeat, a change of the schema)."""
    if not isinstance(value, Mapping):
        raise Malformed("it is no JSON object")
    schema: Any = None
    if "payload" in value and "schema" in value:
        schema, value = value["schema"], value["payload"]
        if not isinstance(value, Mapping):
            raise Malformed("its payload is no JSON object")
    op = value.get("op")
    if op is None or op == "m":
        if op is None and not {"ddl", "ts_ms", "status"} & set(value):
            raise Malformed("it has no `op`: it is no envelope of Debezium")
        return None
    if op not in OPS:
        raise Malformed(f"its `op` is {op!r}")
    hints = {side: _hints(schema, side) for side in ("before", "after")}
    rows = {s: _row(value.get(s), row, hints[s], unit) for s in ("before", "after")}
    if op in ("c", "r", "u") and rows["after"] is None:
        raise Malformed(f"its `op` is {op!r}, and it has no `after`")
    return Event(op, rows["before"], rows["after"], position_of(value.get("source")))


def position_of(source: Any) -> tuple[Any, ...] | None:
    """The place of a record in the log of its source, of which later ones are greater; None where none is told."""
    if not isinstance(source, Mapping):
        return None
    if source.get("sequence"):  # PostgreSQL: the commit before, and the change itself
        found = source["sequence"]
        found = json.loads(found) if isinstance(found, str) else found
        if isinstance(found, list) and all(str(p).isdecimal() for p in found if p is not None):
            return tuple(0 if p is None else int(p) for p in found)
    if source.get("commit_lsn") is not None:  # SQL Server, Db2
        return (
            source["commit_lsn"],
            source.get("change_lsn") or "",
            source.get("event_serial_no") or 0,
        )
    if source.get("lsn") is not None:
        return (int(source["lsn"]),)
    if source.get("file") is not None and source.get("pos") is not None:  # MySQL
        return (source["file"], int(source["pos"]), int(source.get("row") or 0))
    return None


def _hints(schema: Any, side: str) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """What the schema calls the values of a row, by column."""
    if not isinstance(schema, Mapping):
        return {}
    found: Any = next((f for f in schema.get("fields") or () if f.get("field") == side), {})
    return {
        f["field"]: (f["name"], f.get("parameters") or {})
        for f in found.get("fields") or ()
        if f.get("name")
    }


def _row(
    value: Any,
    row: RecordType,
    hints: Mapping[str, tuple[str, Mapping[str, Any]]],
    unit: str | None,
) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise Malformed("its row is no JSON object")
    out = dict(value)
    for name, t in row.fields:
        if name in out and isinstance(out[name], int | str):
            out[name] = _value(name, out[name], t, hints.get(name), unit)
    return out


def _value(
    name: str, v: Any, t: KeyType, hint: tuple[str, Mapping[str, Any]] | None, unit: str | None
) -> Any:
    """A value as its column takes it: numbers that are days or instants, and digits in base 64."""
    if isinstance(v, str):
        if hint is not None and hint[0] == DECIMAL:
            unscaled = int.from_bytes(base64.b64decode(v), "big", signed=True)
            return Decimal(unscaled).scaleb(-int(hint[1].get("scale", 0)))
        if t == ty.BINARY:
            return base64.b64decode(v)
        return v
    if t == ty.DATE:
        return date(1970, 1, 1) + timedelta(days=v)
    if t in (ty.TIMESTAMP, ty.TIMESTAMP_NTZ):
        per = _PER_SECOND.get(_UNITS.get(hint[0], "") if hint is not None else unit or "")
        if per is None:
            raise Malformed(
                f"`{name}` is the number {v}, and neither a schema nor the option time_unit says of what"
            )
        at = _EPOCH + timedelta(microseconds=v * 1_000_000 // per)
        return at.replace(tzinfo=UTC) if t == ty.TIMESTAMP else at
    if isinstance(t, Base) and t.name == "decimal" and not isinstance(v, bool):
        return Decimal(v)
    return v
