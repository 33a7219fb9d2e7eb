"""Epochs on Spark: one job, one exchange, and state that is never sent.

    pieces of queues ─► rows to the parts of their groups ─► one exchange ─► epoch of a part ─► runs and files, by name

The first hop reads its pieces and routes their rows; the second computes the epoch of the groups whose hashes are in its
part, with the same code as in this process, looks their state up in mapped files, and writes runs. Only rows are sent; a
part is a range of hashes, so that there may be any number of parts in any epoch. A stage that takes row by row needs no
exchange. Functions must be deterministic, for a task may be repeated; `epoch.random` is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.calculus.types import RecordType
from headwater.dataflow import epoch
from headwater.dataflow.call import Context, Made
from headwater.dataflow.calling import Failed
from headwater.dataflow.define import Input, Stage, arrow_schema
from headwater.dataflow.groups import Keyed
from headwater.dataflow.lookups import LookUps
from headwater.dataflow.queues import Inbox
from headwater.dataflow.rows import as_data, of_data
from headwater.engine.change import read_file, write_file
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.spark.exchange import BLOBS, bytes_of, from_bytes
from headwater.engine.spark.rounds import given, numbers_of, runs_of
from headwater.engine.spark.session import Session, telling
from headwater.errors import StageError, StateConflict
from headwater.plan.program import WEIGHT
from headwater.state.arrangement import Arrangement
from headwater.state.files import LocalFiles
from headwater.state.hashing import hash_keys, part_bounds, parts_of
from headwater.state.keys import canonical
from headwater.state.run import LEAST, MOST, Generation, MapSpec, RunRef, column
from headwater.state.snapshot import Snapshot
from headwater.state.store import DATA
from headwater.state.writing import Writer

RESULTS = "kind string, name string, content binary"
SPREAD = 4
"""Pieces of a queue for each core."""


@dataclass(frozen=True)
class Piece:
    """Some rows of an input: a range of hashes of its queue's runs, or a staged file."""

    input: str
    refs: tuple[RunRef, ...] = ()
    low: int = LEAST
    high: int = MOST
    file: str = ""


@dataclass(frozen=True)
class Plan:
    """What tasks need of an epoch."""

    root: str
    stage: Stage
    maps: Mapping[str, tuple[MapSpec, tuple[RunRef, ...]]]
    queues: Mapping[str, tuple[MapSpec, tuple[str, ...]]]
    context: Mapping[str, Any]
    looked_up: Mapping[str, RecordType]
    generation: Generation
    parts: int

    def arrangement(self, spec: MapSpec) -> Arrangement:
        """A map of the stage, in a task."""
        _, refs = self.maps.get(spec.name, (spec, ()))
        return Arrangement(spec, refs, runs_of(self.root))

    def read(self, piece: Piece) -> pa.Table:
        """The rows of a piece with `_w`, equal ones added up."""
        i = next(i for i in self.stage.inputs if i.name == piece.input)
        if piece.file:
            return read_file(Path(self.root) / piece.file)
        spec, columns = self.queues[piece.input]
        at = Arrangement(spec, piece.refs, runs_of(self.root))
        found = at.collected(piece.refs, piece.low, piece.high)
        counts = np.asarray(column(found, spec.count))
        found = found.filter(pa.array(counts != 0))
        schema = arrow_schema(i.row)
        arrays = [column(found, n).cast(f.type) for n, f in zip(columns, schema, strict=True)]
        return pa.table([*arrays, column(found, spec.count)], [*schema.names, WEIGHT])

    def run(self, tables: Mapping[str, pa.Table], low: int, high: int) -> Made:
        """The epoch of some groups."""
        look_up = LookUps(self.stage, self.looked_up, self.arrangement)
        context = Context(self.arrangement, look_up=look_up, low=low, high=high, **self.context)
        return epoch.run(self.stage, tables, context)


@dataclass
class Result:
    """What tasks made: runs of the stage's maps by name, files with the rows of outputs, punctuations, rows set aside."""

    runs: dict[str, list[RunRef]] = field(default_factory=dict)
    files: dict[str, list[str]] = field(default_factory=dict)
    points: dict[str, Any] = field(default_factory=dict)
    aside: list[tuple[str, str, str, str]] = field(default_factory=list)
    foreign: dict[str, list[pa.Table]] = field(default_factory=dict)
    """Records that were written for groups of other parts."""


def run(
    session: Session,
    root: Path,
    stage: Stage,
    inboxes: Mapping[str, Inbox],
    reads: Mapping[str, int],
    context: Context,
    snapshot: Snapshot,
    looked_up: Mapping[str, RecordType],
    version: int,
) -> Result:
    """An epoch on Spark; `Failed` where a function fails, or gives what does not fit."""
    made: list[str] = []
    pieces, frames = _pieces(session, root, inboxes, reads, made)
    names = [n for n in snapshot.version.maps if _is_of(n, stage, looked_up)]
    plan = Plan(
        str(root),
        replace(stage, runnable=type(stage.runnable)(_no_runnable, "")),
        {n: (snapshot.version.maps[n][0], snapshot.version.maps[n][1]) for n in names},
        {n: (b.queue.spec, tuple(b.columns)) for n, b in inboxes.items()},
        {
            "number": context.number,
            "clock": context.clock,
            "swept": context.swept,
            "frames": frames,
            "zone": context.zone,
        },
        looked_up,
        (version, 0),
        session.partitions,
    )
    try:
        with telling(f"running the stage `{stage.name}`"):
            numbers = numbers_of(session.spark, pieces)
            if stage.row_wise:
                sent = numbers.mapInArrow(_row_wise(plan, pieces), RESULTS)
            else:
                routed = numbers.mapInArrow(_router(plan, pieces), BLOBS)
                if stage.groups == "all" or stage.clock is not None:
                    routed = routed.union(
                        numbers_of(session.spark, range(plan.parts)).mapInArrow(_every, BLOBS)
                    )
                sent = routed.repartitionById(plan.parts, "part").mapInArrow(_epochs(plan), RESULTS)
                session.counts.exchanges += 1
                session.counts.hops += 1
            session.counts.jobs += 1
            session.counts.hops += 1
            rows = sent.toArrow().to_pylist()
    finally:
        for name in made:
            (root / name).unlink(missing_ok=True)
    try:
        found = _gathered(rows)
        for name, tables in found.foreign.items():
            _check_foreign(plan, name, pa.concat_tables(tables), found.runs.get(name, []))
    except Failed:
        for r in rows:
            if r["kind"] == "file":
                (root / r["content"].decode()).unlink(missing_ok=True)
        raise
    return found


def _check_foreign(plan: Plan, name: str, table: pa.Table, new: list[RunRef]) -> None:
    """`StateConflict` where two groups, of any parts, wrote one entry differently."""
    spec = plan.maps[name][0]
    own = Arrangement(spec, new, runs_of(plan.root)).lookup(table, whole_key=True)
    both = pa.concat_tables([table, own.select(table.column_names).cast(table.schema)])
    keys = hash_keys([canonical(column(both, n)) for n, _ in spec.key], both.num_rows)
    whole = hash_keys([canonical(column(both, n)) for n in table.column_names], both.num_rows)
    if len(np.unique(keys)) != len(np.unique(whole)):
        raise Failed(
            StateConflict(
                f"an entry of the state of `{plan.stage.name}` is written by two groups, and differently"
            )
        )


def _no_runnable(waiting: Any, small: Any) -> None:
    """Tasks decide nothing."""


def _is_of(name: str, stage: Stage, looked_up: Mapping[str, Any]) -> bool:
    """Whether a map is one that tasks of a stage read."""
    head, _, rest = name.partition(":")
    if head == "l":
        return rest.partition("(")[0] in looked_up
    return bool(rest) and head != "q" and rest.partition(".")[0] == stage.name


def _pieces(
    session: Session,
    root: Path,
    inboxes: Mapping[str, Inbox],
    reads: Mapping[str, int],
    made: list[str],
) -> tuple[list[Piece], dict[str, Any]]:
    """What is read, in pieces; framed inputs are cut here, and staged."""
    out: list[Piece] = []
    frames: dict[str, Any] = {}
    for name, box in inboxes.items():
        count = reads.get(name, 0)
        if box.input.framing is not None:
            table, frames[name] = box.table(count)
            if table.num_rows:
                made.append(write_file(root, table))
                out.append(Piece(name, file=made[-1]))
            continue
        refs = tuple(box.refs(count))
        if refs:
            at = Arrangement(box.queue.spec, refs, box.queue.runs)
            rows = max(1, sum(r.rows for r in refs) // (SPREAD * session.cores))
            out += [Piece(name, refs, low, high) for low, high in at.pieces(rows=rows)]
    return out, frames


# --- what runs in tasks ----------------------------------------------------------------------------------------------


def _router(plan: Plan, pieces: Sequence[Piece]) -> Any:
    def routing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for piece in given(batches, pieces):
            i = next(i for i in plan.stage.inputs if i.name == piece.input)
            table = plan.read(piece)
            try:
                for part, rows in _routed(plan, i, table):
                    yield _blob(part, i.name, bytes_of(rows))
            except Failed as e:
                yield _blob(0, "!", _failure(e))

    return routing


def _routed(plan: Plan, i: Input, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Rows by the parts that have a group of theirs; those for all groups go to all parts."""
    call = epoch.kind_of(plan.stage)(plan.stage, Context(plan.arrangement, **plan.context))
    assert isinstance(call, Keyed), "a stage that takes row by row needs no exchange"
    arrays, places, every = call.keys_of(i, table)
    where = np.arange(table.num_rows) if places is None else places
    if len(every):
        yield from ((p, table.take(pa.array(every))) for p in range(plan.parts))
    parts = parts_of(hash_keys([canonical(a) for a in arrays], len(where)), plan.parts)
    for part in np.unique(parts).tolist():
        mine = np.unique(where[parts == part])
        yield part, table.take(pa.array(mine))


def _every(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A word to each part, which has groups to call that get no rows."""
    for batch in batches:
        for part in batch.column(0).to_pylist():
            yield _blob(part, "", b"")


def _epochs(plan: Plan) -> Any:
    def computing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        got: dict[int, dict[str, list[pa.Table]]] = {}
        failed = False
        for batch in batches:
            for row in batch.to_pylist():
                if row["name"] == "!":
                    failed = True
                    yield _result("failed", "", row["content"])
                    continue
                mine = got.setdefault(row["part"], {})
                if row["name"]:
                    mine.setdefault(row["name"], []).append(from_bytes(row["content"]))
        for part, tables in got.items():
            if not failed:
                whole = {
                    i.name: _together(plan, i, tables.get(i.name, [])) for i in plan.stage.inputs
                }
                yield from _made(plan, whole, *part_bounds(part, plan.parts))

    return computing


def _row_wise(plan: Plan, pieces: Sequence[Piece]) -> Any:
    def computing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for piece in given(batches, pieces):
            yield from _made(plan, {piece.input: plan.read(piece)}, LEAST, MOST)

    return computing


def _together(plan: Plan, i: Input, tables: list[pa.Table]) -> pa.Table:
    """The rows of an input that a part got; those of one piece are different, those of two may be equal."""
    names = [*i.columns, *(["_frame"] if i.name in plan.context["frames"] else []), WEIGHT]
    schema = arrow_schema(i.row)
    if "_frame" in names:
        schema = schema.append(pa.field("_frame", pa.int64()))
    schema = schema.append(pa.field(WEIGHT, pa.int64()))
    found = pa.concat_tables(
        [schema.empty_table(), *(t.select(names).cast(schema) for t in tables)]
    )
    return found if len(tables) < 2 else consolidated(found)


def _made(
    plan: Plan, tables: Mapping[str, pa.Table], low: int, high: int
) -> Iterator[pa.RecordBatch]:
    """The epoch of some groups, as runs and files."""
    try:
        made = plan.run(tables, low, high)
    except Failed as e:
        yield _result("failed", "", _failure(e))
        return
    writer = Writer(LocalFiles(plan.root), "run", DATA)
    for pieces in made.entries.values():
        spec = pieces[0][0]
        table = pa.concat_tables([t for _, t in pieces])
        at = Arrangement(spec, (), runs_of(plan.root))
        new = at.put(table) if spec.kind == "latest" else at.merge(table, blind=True)[0]
        writer.add(spec, [new], plan.generation)
    for name, ref in writer.close():
        yield _result("run", name, json.dumps(ref.data()).encode())
    for output, table in made.outputs.items():
        if table.num_rows:
            yield _result("file", output, write_file(Path(plan.root), consolidated(table)).encode())
    for output, key in made.points.items():
        yield _result("point", output, json.dumps(as_data(key)).encode())
    for spec, table in made.foreign:
        yield _result("foreign", spec.name, bytes_of(table))
    if made.aside:
        yield _result("aside", "", json.dumps(made.aside).encode())


def _blob(part: int, name: str, content: bytes) -> pa.RecordBatch:
    schema = pa.schema([("part", pa.int32()), ("name", pa.string()), ("content", pa.binary())])
    return pa.RecordBatch.from_pylist(
        [{"part": part, "name": name, "content": content}], schema=schema
    )


def _result(kind: str, name: str, content: bytes) -> pa.RecordBatch:
    schema = pa.schema([("kind", pa.string()), ("name", pa.string()), ("content", pa.binary())])
    return pa.RecordBatch.from_pylist(
        [{"kind": kind, "name": name, "content": content}], schema=schema
    )


def _failure(e: Failed) -> bytes:
    told = {
        "told": e.told,
        "hint": getattr(e.why, "hint", ""),
        "key": repr(e.key),
        "row": repr(e.row),
    }
    return json.dumps(told).encode()


class Shown:
    """A value that was in a task, as it was shown there."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _gathered(rows: Sequence[Mapping[str, Any]]) -> Result:
    failures = sorted(r["content"] for r in rows if r["kind"] == "failed")
    if failures:
        told = json.loads(failures[0])
        key, row = (None if told[n] == "None" else Shown(told[n]) for n in ("key", "row"))
        raise Failed(StageError(told["told"], hint=told["hint"]), key, row)
    out = Result()
    for r in rows:
        name = r["name"]
        if r["kind"] == "run":
            out.runs.setdefault(name, []).append(RunRef.of_data(json.loads(r["content"])))
        elif r["kind"] == "file":
            out.files.setdefault(name, []).append(r["content"].decode())
        elif r["kind"] == "point":
            key = of_data(json.loads(r["content"]))
            out.points[name] = max(out.points.get(name, key), key)
        elif r["kind"] == "foreign":
            out.foreign.setdefault(name, []).append(from_bytes(r["content"]))
        else:
            out.aside += [tuple(a) for a in json.loads(r["content"])]
    return out
