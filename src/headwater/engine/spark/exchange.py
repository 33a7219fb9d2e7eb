"""What tasks leave for each other and for the driver: rows with Arrow bytes, or with the place where they are.

    many rows    into a staged file, a batch for each part that merges; the row that goes through Spark names file and batch
    few rows     in the row itself

So the exchange moves names, and neither the JVM nor a socket sees what is large: whoever takes it maps it as it lies in the
file. Files begin with the mark of their round, by which they are taken away when it is over, whatever became of the
tasks that wrote them. A task that is tried again leaves the same under the same names, for Spark gives up a job whose tasks send
something else the second time; a file appears as a whole, so that nobody minds which of them wrote it.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from headwater.engine.change import FOLDER, staging
from headwater.engine.spark.skew import Routing
from headwater.plan.program import Map
from headwater.state.run import RunRef

BLOBS = "part int, name string, content binary"
"""The columns of a row that goes from a task to another."""
EMITTED = f"{BLOBS}, file string, at int"
"""Those of one that may be a place."""
RESULTS = "name string, content binary, file string"
"""The columns of a row that goes from a task to the driver."""
_SCHEMA = pa.schema(
    [
        ("part", pa.int32()),
        ("name", pa.string()),
        ("content", pa.binary()),
        ("file", pa.string()),
        ("at", pa.int32()),
    ]
)


def new_mark() -> str:
    """How the files of a round begin."""
    return f"{FOLDER}/{uuid.uuid4().hex}"


def names(mark: str) -> Iterator[str]:
    """What the files are called that this task leaves: by its number among the tasks of the stage, and theirs."""
    task = TaskContext.get()
    assert task is not None, "only a task leaves files"
    stem = f"{mark}-{task.partitionId()}"
    return (f"{stem}-{i}.arrow" for i in count())


def left(
    target: Map, table: pa.Table, routing: Routing, root: Path, files: Iterator[str]
) -> Iterator[pa.RecordBatch]:
    """Emitted rows, left for the tasks of the parts that they are routed to; the next of `files` has them where they are many."""
    if table.num_rows == 0:
        return
    routed = list(routing.routed(target, table))
    if sum(mine.nbytes for _, mine in routed) <= routing.inline:
        rows = [{"part": p, "name": target.name, "content": bytes_of(mine)} for p, mine in routed]
    else:
        file = next(files)
        _write(root, file, [mine for _, mine in routed])
        rows = [
            {"part": p, "name": target.name, "file": file, "at": i}
            for i, (p, _) in enumerate(routed)
        ]
    yield pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)


def _write(root: Path, file: str, tables: Sequence[pa.Table]) -> None:
    """Tables of one schema as the batches of a staged file, which appears when it is whole."""
    half = root / f"{file.removesuffix('.arrow')}-{uuid.uuid4().hex}.arrow"
    with staging(root):
        with pa.OSFile(str(half), "wb") as f, pa.ipc.new_file(f, tables[0].schema) as out:
            for table in tables:
                (batch,) = table.combine_chunks().to_batches()
                out.write_batch(batch)
        os.replace(half, root / file)


def taken(row: Mapping[str, Any], root: Path) -> pa.Table:
    """The emitted rows that a row of the exchange stands for; those of a file are mapped."""
    if row["file"] is None:
        return from_bytes(row["content"])
    with pa.memory_map(str(root / row["file"])) as f:
        return pa.Table.from_batches([pa.ipc.open_file(f).get_batch(row["at"])])


def results(
    tables: Mapping[str, pa.Table],
    refs: Mapping[str, Sequence[RunRef]],
    root: Path,
    mark: str,
    inline: int,
) -> Iterator[pa.RecordBatch]:
    """What a task tells the driver: tables by name, and with no name the runs that it wrote."""
    named = {n: [r.data() for r in rs] for n, rs in refs.items()}
    rows: list[dict[str, Any]] = [{"name": "", "content": json.dumps(named).encode()}]
    for name, table in tables.items():
        if table.nbytes <= inline:
            rows.append({"name": name, "content": bytes_of(table)})
        else:
            file = f"{mark}-{uuid.uuid4().hex}.arrow"
            _write(root, file, [table])
            rows.append({"name": name, "file": file})
    schema = pa.schema([("name", pa.string()), ("content", pa.binary()), ("file", pa.string())])
    yield pa.RecordBatch.from_pylist(rows, schema=schema)


def received(
    sent: pa.Table, root: Path
) -> tuple[dict[str, list[RunRef]], dict[str, list[pa.Table]]]:
    """The runs that tasks wrote, by map, and the tables that they told, by name."""
    refs: dict[str, list[RunRef]] = {}
    tables: dict[str, list[pa.Table]] = {}
    for row in sent.to_pylist():
        if row["name"] == "":
            for name, written in json.loads(row["content"]).items():
                refs.setdefault(name, []).extend(map(RunRef.of_data, written))
        else:
            tables.setdefault(row["name"], []).append(taken({"at": 0, **row}, root))
    return refs, tables


def sweep(root: Path, marks: Sequence[str]) -> None:
    """Takes away what a round has left, that of tasks that failed included."""
    for path in [p for mark in marks for p in root.glob(f"{mark}-*")]:
        path.unlink(missing_ok=True)


def bytes_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def from_bytes(content: bytes) -> pa.Table:
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()
