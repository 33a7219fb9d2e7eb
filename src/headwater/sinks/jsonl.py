"""Changes as JSON lines: a file for each version that changed the view, in a directory, each appears whole.

A line is a row with `_w`, how often it came or went, and `_version`. `000000000012.jsonl` has what version 12 changed, and
`000000000012.whole.jsonl` the whole view at version 12: rows of the view are those of the newest whole file and of what was
changed after it, added up. `_headwater.json` says which version the directory is at, and is renamed into place last.

A file that a killed process left is of a version behind that, and its rows are those that will be written again: it stays as
it is. Only of another history it goes, before the whole view is there. Files are never removed but for that: they are a log.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.sinks.local import POINTER, Folder
from headwater.sinks.sink import Place, Rows, Target
from headwater.sinks.sync import VERSION

_FILE = re.compile(r"(\d{12})(\.whole)?\.jsonl", re.ASCII)


def make(target: Target) -> JsonLines:
    """The sink that writes JSON lines to a directory."""
    assert target.path is not None
    return JsonLines(Folder(target.sink, target.path, _FILE))


class JsonLines:
    """A directory of JSON lines."""

    by_version = True

    def __init__(self, folder: Folder):
        self.folder = folder

    def place(self) -> Place | None:
        """What the pointer says."""
        return self.folder.place()

    def write(self, changes: pa.Table, place: Place) -> None:
        """A file for each version that changed something, then the pointer."""
        for version in sorted(pc.unique(changes.column(VERSION)).to_pylist()):
            rows = changes.filter(pc.equal(changes.column(VERSION), version))
            self.folder.put(f"{version:012d}.jsonl", lines(rows))
        self.folder.point(place)

    def replace(self, rows: Rows, place: Place) -> None:
        """One file with the whole view, then the pointer; what others wrote for later versions goes first."""
        names = self.folder.names()
        for name in names:
            found = _FILE.fullmatch(name)
            if found and (int(found[1]) >= place.version or POINTER not in names):
                self.folder.remove(name)
        numbered = (
            t.append_column(VERSION, pa.repeat(pa.scalar(place.version, pa.int64()), t.num_rows))
            for t in rows.tables()
        )
        self.folder.put(
            f"{place.version:012d}.whole.jsonl", (c for t in numbered for c in lines(t))
        )
        self.folder.point(place)

    def close(self) -> None:
        """Nothing is held."""


def lines(table: pa.Table) -> Iterator[bytes]:
    """The rows of a table, an object a line."""
    for batch in table.to_batches(10_000):
        yield b"".join(_line(row) for row in batch.to_pylist())


def _line(row: dict[str, Any]) -> bytes:
    text = json.dumps(plain(row), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode() + b"\n"


def plain(value: Any) -> Any:
    """A value as JSON has it, in the form that Spark's `to_json` gives: NaN and infinities as text, bytes in base64."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _odd(value)
        case dict():
            return {n: plain(v) for n, v in value.items()}
        case list() | tuple():
            return [plain(v) for v in value]
        case datetime.datetime():
            zone = "" if value.tzinfo is None else "Z"
            at = value if value.tzinfo is None else value.astimezone(datetime.UTC)
            return at.replace(tzinfo=None).isoformat(timespec="microseconds") + zone
        case datetime.date():
            return value.isoformat()
        case decimal.Decimal():
            return format(value, "f")
        case bytes():
            return base64.b64encode(value).decode()
    return str(value)


def _odd(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
