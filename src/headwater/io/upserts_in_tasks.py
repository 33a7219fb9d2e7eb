"""Changes by key in tasks of Spark: events go to their keys, and each task makes rows with weights of those of its keys.

    pieces of events ─► (part of the hash of the key, bytes) ─► one exchange ─► `Upserting.rows` for each part

What an event does depends on events of the same key alone, so the parts do it by themselves, in the order in which the events
were given. Each writes the rows that come of it as staged files, equal ones added up, and the sequences that it remembers as a run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater import errors
from headwater.engine import policy
from headwater.engine.change import Change, write_file
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.rings import spec_of
from headwater.engine.slices import Piece, pieces_of
from headwater.engine.spark.exchange import BLOBS, bytes_of, from_bytes
from headwater.engine.spark.rounds import Cluster, Task, given, numbers_of, slim_map
from headwater.engine.spark.session import Session, telling
from headwater.errors import HeadwaterError
from headwater.io.upserts import Replaced, Upserting
from headwater.state.files import LocalFiles
from headwater.state.hashing import hash_keys, parts_of
from headwater.state.run import RunRef, column

TOLD = "content binary"
"""What a task gives for a part: JSON."""


@dataclass(frozen=True)
class InTasks:
    """The events of one relation, brought to tasks."""

    at: Upserting
    number: int
    """Which relation of the source it is."""
    session: Session

    def rows(self, by_key: Change) -> Replaced:
        """Events as changes of the relation and of the arrays inside, as `Upserting.rows` gives them."""
        at, made = self.at, list[str]()
        working, cluster = at.working, Cluster(at.working, self.session, at.root)
        working.on_spark = True
        working.next_round()
        if at.sequences is not None:
            working.know(spec_of(at.sequences))
        try:
            with telling("finding rows by their keys"):
                pieces = self._pieces(by_key, made)
                task = cluster.task()
                if at.sequences is not None:
                    name = at.sequences.name
                    task.refs = {**task.refs, name: tuple(working.refs.get(name, ()))}
                parts = max(self.session.partitions, -(-by_key.rows // policy.PER_PART))
                key = at.parts[self.number].key
                sent = numbers_of(self.session.spark, pieces).mapInArrow(
                    _sender(task, key, pieces, parts), BLOBS
                )
                resolve = _resolver(task, self._plain(made), self.number)
                found = sent.repartitionById(parts, "part").mapInArrow(resolve, TOLD).toArrow()
        finally:
            for name in made:
                (at.root / name).unlink(missing_ok=True)
        counts = self.session.counts
        counts.jobs, counts.exchanges, counts.hops = (
            counts.jobs + 1,
            counts.exchanges + 1,
            counts.hops + 2,
        )
        return self._put_together([json.loads(c) for c in found.column(0).to_pylist()])

    def _pieces(self, by_key: Change, made: list[str]) -> list[Piece]:
        """The events in pieces, in the order in which this process would take them."""
        cores = self.session.cores
        tables, files = replace(by_key, files=()), replace(by_key, tables=())
        return [
            p for c in (tables, files) for p in pieces_of(c, self.at.root, cores, made, self.at.working)
        ]  # fmt: skip

    def _plain(self, made: list[str]) -> dict[str, Any]:
        """What a task makes an `Upserting` of: plain data, with what else the change has in files."""
        at, staged = self.at, dict[str, Change]()
        for name, change in at.staged.items():
            if name in at.maps and change.rows:
                files = [write_file(at.root, t) for t in change.tables]
                made.extend(files)
                staged[name] = Change(files=(*change.files, *files), rows=change.rows)
        return {
            "parts": at.parts,
            "forgotten": at.forgotten,
            "maps": {n: slim_map(m) for n, m in at.maps.items()},
            "staged": staged,
            "strict": at.strict,
            "by": at.by,
            "sequences": at.sequences and slim_map(at.sequences),
            "late": at.late,
        }

    def _put_together(self, told: list[dict[str, Any]]) -> Replaced:
        for one in told:
            if "error" in one:
                kind = getattr(errors, one["error"])
                raise kind(one["what"], hint=one["hint"])
        out = {n: Change() for n in (p.name for p in self.at.parts)}
        for one in told:
            for n, (file, rows) in one["files"].items():
                out[n] = out[n].with_rows(Change(files=(file,), rows=rows))
            runs: Mapping[str, list[Any]] = one["runs"]
            self.at.working.add_stored({n: [*map(RunRef.of_data, rs)] for n, rs in runs.items()})
        ignored, stale = (sum(one[n] for one in told) for n in ("ignored", "stale"))
        return Replaced({n: c for n, c in out.items() if c.rows}, ignored, stale)


def _sender(task: Task, key: tuple[str, ...], pieces: list[Piece], parts: int) -> Any:
    numbered = list(enumerate(pieces))
    schema = pa.schema([("part", pa.int32()), ("name", pa.string()), ("content", pa.binary())])

    def sending(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        working = task.working()
        for number, piece in given(batches, numbered):
            for table in piece.read(Path(task.root), working):
                keys = [column(table, n) for n in key]
                part = pa.array(parts_of(hash_keys(keys, table.num_rows), parts))
                for p in part.unique().to_pylist():
                    mine = table.filter(pa.compute.equal(part, p))
                    row = {"part": p, "name": f"{number:09d}", "content": bytes_of(mine)}
                    yield pa.RecordBatch.from_pylist([row], schema=schema)

    return sending


def _resolver(task: Task, plain: dict[str, Any], number: int) -> Any:
    def resolving(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sent: dict[int, list[tuple[str, bytes]]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                sent.setdefault(row["part"], []).append((row["name"], row["content"]))
        root = Path(task.root)
        for mine in sent.values():
            working = task.working()
            events = pa.concat_tables(from_bytes(content) for _, content in sorted(mine))
            try:
                done = Upserting(**plain, working=working, root=root).rows(
                    number, Change.of(events)
                )
            except HeadwaterError as e:
                told: dict[str, Any] = {"error": type(e).__name__, "what": e.what, "hint": e.hint}
            else:
                files = {}
                for n, change in done.changes.items():
                    (table,) = change.tables
                    net = consolidated(table)
                    if net.num_rows:
                        files[n] = write_file(root, net), net.num_rows
                runs = working.written(LocalFiles(task.root))
                named = {n: [r.data() for r in rs] for n, rs in runs.items()}
                told = {"files": files, "runs": named, "ignored": done.ignored, "stale": done.stale}
            yield pa.RecordBatch.from_pydict({"content": [json.dumps(told).encode()]})

    return resolving
