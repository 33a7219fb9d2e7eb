"""Files read by tasks of Spark, straight into staging, by the code that reads them here.

A task is given a file and the same `Reader`; what it reads is in the columns and types of the source when it leaves the task:
few rows come back with the task, many as a file in the database's staging, of which the name comes back. So a batch is the
same wherever it was read, with the same records that do not fit. A file is read by one task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.change import read_file, write_file
from headwater.engine.policy import INLINE
from headwater.engine.spark.session import telling
from headwater.errors import BadChange
from headwater.feeds.fitting import REJECTED_SCHEMA
from headwater.feeds.records import Reader
from headwater.io.events import CHANGE_TYPE
from headwater.io.rows import Parts
from headwater.plan.program import WEIGHT

FOUND = "n int, file string, content binary, rejected binary, wrong string, hint string"
_SCHEMA = pa.schema(
    [
        *(("n", pa.int32()), ("file", pa.string()), ("content", pa.binary())),
        *(("rejected", pa.binary()), ("wrong", pa.string()), ("hint", pa.string())),
    ]
)


@dataclass(frozen=True)
class Unit:
    """A file that a task reads: its path, its name, and whether its rows are deletions."""

    path: str
    name: str
    gone: bool = False


def read_in_tasks(
    spark: Any, reader: Reader, units: Sequence[Unit], root: Path
) -> tuple[Parts, pa.Table]:
    """The rows of files, in their order, and the records that do not fit; BadChange for the first file that cannot be read."""
    with telling(f"reading files of `{reader.source}`"):
        frame = spark.range(0, len(units), 1, len(units))
        found = frame.mapInArrow(_task(reader, list(units), str(root)), FOUND).toArrow().to_pylist()
    found.sort(key=lambda f: f["n"])
    tables, rejected = [], [REJECTED_SCHEMA.empty_table()]
    try:
        for f in found:
            if f["wrong"] is not None:
                raise BadChange(f["wrong"], hint=f["hint"])
            table = read_file(root / f["file"]) if f["file"] else _of_bytes(f["content"])
            tables.append((table, bool(f["file"])))
            rejected.append(_of_bytes(f["rejected"]))
    finally:
        for f in found:
            if f["file"]:
                (root / f["file"]).unlink(missing_ok=True)  # it is mapped, and read once
    return Parts(tuple(tables)), pa.concat_tables(rejected)


def _task(reader: Reader, units: list[Unit], root: str) -> Any:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for n in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist([_read(reader, units[n], n, root)], schema=_SCHEMA)

    return read


def _read(reader: Reader, unit: Unit, n: int, root: str) -> dict[str, Any]:
    """One file: its rows as a file or as bytes; what is wrong with it is told, for a task that raises is tried again."""
    out: dict[str, Any] = dict.fromkeys(_SCHEMA.names)
    try:
        found = reader.file(Path(unit.path), unit.name)
    except BadChange as e:
        return {**out, "n": n, "wrong": e.what, "hint": e.hint}
    table = as_deletions(found.table) if unit.gone else found.table
    out |= {"n": n, "rejected": _as_bytes(found.rejected)}
    if table.nbytes > INLINE:
        return {**out, "file": write_file(Path(root), table)}
    return {**out, "content": _as_bytes(table)}


def as_deletions(table: pa.Table) -> pa.Table:
    """Rows that come as rows that go."""
    if CHANGE_TYPE in table.column_names:
        raise BadChange("a file of deletions says what its rows do", hint="leave _change_type out")
    at = table.schema.get_field_index(WEIGHT)
    return table.set_column(at, WEIGHT, pc.negate(table.column(WEIGHT)))


def _as_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _of_bytes(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
