"""Keys on Spark: one job, in which each task runs the kernel over the keys of its part.

    ready rows, cut by the hash of their keys ─► tasks: states of their keys, the kernel ─► runs of states, rows that are told

What is ready, in which order and in which frame, is decided before; a part is a range of hashes, so that a task looks its
states up in mapped runs and writes them itself, and there may be any number of parts in any run. Rows that are told and
final values come back; `agg`, and all that is around the keys, runs in this process. Functions must be deterministic, for a
task may be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from headwater.calculus.types import RecordType
from headwater.engine.change import read_file, write_file
from headwater.engine.spark.exchange import bytes_of, from_bytes
from headwater.engine.spark.rounds import given, numbers_of, runs_of
from headwater.engine.spark.session import Session, telling
from headwater.engine.undisturbed import uncollected
from headwater.engine.working import Working
from headwater.errors import HeadwaterError, StepFailed
from headwater.folds.batch import Batch, Key, Rows, Told
from headwater.folds.codec import as_text, of_texts
from headwater.folds.instances import GOES_ON, Instances
from headwater.folds.keeping import Form, KeptKeys, Layout, entries_of
from headwater.folds.kernel import Keys
from headwater.state.arrangement import Arrangement
from headwater.state.files import LocalFiles
from headwater.state.hashing import hash_keys, part_bounds, parts_of
from headwater.state.keys import canonical
from headwater.state.run import Generation, MapSpec, RunRef, column
from headwater.state.store import DATA
from headwater.state.writing import Writer
from headwater.streams.schema import Header
from headwater.streams.transformer import Partitioned

RESULTS = "kind string, name string, content binary"
OF, PLACE, TURN = "_of", "_place", "_turn"


@dataclass(frozen=True)
class Plan:
    """What tasks need of a run over keys."""

    root: str
    t: Partitioned
    spec: MapSpec
    row: RecordType
    form: Form
    refs: tuple[RunRef, ...]
    x: tuple[Any, ...]
    end: tuple[int, ...]
    goes_on: bool
    """Whether the first instance has states from a run before."""
    files: tuple[Mapping[str, str], ...]
    """The rows of each part, by header."""
    generation: Generation
    zone: str


class Spread:
    """Runs keys on Spark, from a number of rows on."""

    def __init__(
        self, session: Session, root: Path, layout: Layout, working: Working, most_here: int
    ):
        self.session, self.root, self.layout = session, root, layout
        self.working, self.most_here = working, most_here

    def takes(self, node: Keys, rows: int) -> bool:
        """Whether so many rows are run on Spark: many, and what runs can be sent to tasks."""
        return rows > self.most_here and self.layout.number(node) is not None and can_be_sent(node)

    def run(
        self, node: Keys, batch: Batch, at: Instances, told: Told
    ) -> tuple[list[tuple[int, Key]], list[Any], KeptKeys]:
        """The final values of keys of instances that end, and the states of the others, which tasks have written."""
        n = self.layout.number(node)
        assert n is not None
        spec, row = self.layout.keys[n], self.layout.key_types[n]
        working = self.working
        working.know(spec)
        working.next_round()
        files = self._staged(node, batch)
        plan = Plan(
            str(self.root),
            _alone(node.t),
            spec,
            row,
            self.layout.forms[n],
            tuple(working.refs.get(spec.name, ())),
            tuple(at.x),
            tuple(at.end.tolist()),
            bool(len(at)) and at.state[0] is not None,
            tuple(files),
            working.generation,
            self.layout.zone,
        )
        try:
            with telling("running a stream"):
                numbers = numbers_of(self.session.spark, files)
                rows = numbers.mapInArrow(_computing(plan), RESULTS).toArrow().to_pylist()
                self.session.counts.jobs += 1
                self.session.counts.hops += 1
        finally:
            for of_part in files:
                for name in of_part.values():
                    (self.root / name).unlink(missing_ok=True)
        working.on_spark = True
        finals = self._gathered(rows, node.t.headers_out, told)
        kept = self.layout.kept(n, lambda: working.now(spec.name))
        return [(i, key) for i, key, _ in finals], [f for _, _, f in finals], kept

    def _staged(self, node: Keys, batch: Batch) -> list[dict[str, str]]:
        """Rows as files, a part each."""
        parts = self.session.partitions
        out: list[dict[str, str]] = [{} for _ in range(parts)]
        for h in node.headers:
            if h not in batch or not len(batch[h]):
                continue
            rows = batch[h]
            table = rows.table(self.layout.zone)
            keys = [canonical(column(table, k)) for k in node.t.keys]
            part = parts_of(hash_keys(keys, table.num_rows), parts)
            table = table.append_column(OF, pa.array(rows.of))
            table = table.append_column(PLACE, pa.array(rows.place))
            order = np.argsort(part, kind="stable")
            table = table.take(pa.array(order))
            cuts = np.searchsorted(part[order], np.arange(parts + 1))
            for p in range(parts):
                size = int(cuts[p + 1] - cuts[p])
                if size:
                    out[p][h] = write_file(self.root, table.slice(int(cuts[p]), size))
        return out

    def _gathered(
        self, rows: Sequence[Mapping[str, Any]], headers: Mapping[str, Header], told: Told
    ) -> list[tuple[int, Key, Any]]:
        """Takes in what tasks made."""
        failed = sorted(r["content"] for r in rows if r["kind"] == "failed")
        if failed:
            said = json.loads(failed[0])
            raise StepFailed(said["what"], hint=said["hint"])
        finals: list[tuple[int, Key, Any]] = []
        runs: dict[str, list[RunRef]] = {}
        turns = told.turn
        for r in rows:
            match r["kind"]:
                case "run":
                    ref = RunRef.of_data(json.loads(r["content"]))
                    runs.setdefault(r["name"], []).append(ref)
                case "finals":
                    finals += of_texts([r["content"].decode()])[0]
                case "told":
                    table = from_bytes(r["content"])
                    of, place = (np.asarray(column(table, c)) for c in (OF, PLACE))
                    turn = np.asarray(column(table, TURN)) + turns
                    header = headers[r["name"]]
                    cells = table.select(list(header.columns))
                    told.rows.append((Rows(header, place, of, table=cells), turn))
                    told.turn = max(told.turn, int(turn.max(initial=0)) + 1)
        self.working.add_stored(runs)
        return finals


def _alone(t: Partitioned) -> Partitioned:
    """What runs for each key, without what is made of all keys, which stays here."""
    return replace(t, agg=_nothing)


def _nothing(x: Any, finals: Any) -> tuple[None, tuple[()]]:
    """In the place of what is made of all keys."""
    return None, ()


def can_be_sent(node: Keys) -> bool:
    """Whether what runs for a key can be sent to tasks: SQL in it is answered in this process."""
    known: bool | None = getattr(node, "sendable", None)
    if known is None:
        try:
            cloudpickle.dumps(_alone(node.t))  # type: ignore[no-untyped-call]
            known = True
        except Exception:  # whatever a function has in its closure may refuse
            known = False
        node.sendable = known  # type: ignore[attr-defined]
    return known


# --- what runs in tasks --------------------------------------------------------------------------------------


def _computing(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def computing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in given(batches, range(len(plan.files))):
            try:
                yield from _part(plan, part)
            except HeadwaterError as e:
                said = {"what": e.what, "hint": e.hint}
                yield _result("failed", "", json.dumps(said).encode())

    return computing


def _part(plan: Plan, part: int) -> Iterator[pa.RecordBatch]:
    """The keys of a part."""
    low, high = part_bounds(part, len(plan.files))
    at = Arrangement(plan.spec, plan.refs, runs_of(plan.root))
    before = KeptKeys(plan.spec, plan.row, plan.form, lambda: at, plan.zone, low, high)
    node = Keys(plan.t)
    batch = {}
    for h, name in plan.files[part].items():
        table = read_file(Path(plan.root) / name)
        of, place = (np.asarray(column(table, c)) for c in (OF, PLACE))
        header = plan.t.headers_in[h]
        batch[h] = Rows(header, place, of, table=table.select(list(header.columns)))
    states: list[Any] = [None] * len(plan.x)
    if plan.goes_on:
        states[0] = before
    end = np.array(plan.end, np.int64)
    told = Told()
    with uncollected():
        pairs, ran = node.by_key(batch, Instances(plan.x, states, end), told)
    writes: dict[Key, Any] = {}
    if plan.goes_on and plan.end[0] != GOES_ON:
        writes |= dict.fromkeys(before.all())  # their frame has ended
    finals = []
    for j, (i, key) in enumerate(pairs):
        if plan.end[i] == GOES_ON:
            writes[key] = ran.states[j]
        else:
            finals.append((i, key, ran.finals[j]))
    if writes:
        writer = Writer(LocalFiles(plan.root), "run", DATA)
        entries = entries_of(plan.spec, plan.row, plan.form, writes, plan.zone)
        put = Arrangement(plan.spec, (), runs_of(plan.root)).put(entries)
        writer.add(plan.spec, [put], plan.generation)
        for name, ref in writer.close():
            yield _result("run", name, json.dumps(ref.data()).encode())
    if finals:
        yield _result("finals", "", as_text(finals).encode())
    gave, places = told.in_order(plan.t.headers_out)
    for name, rows in gave.items():
        table = rows.table(plan.zone)
        for c, values in ((OF, rows.of), (PLACE, places[rows.place]), (TURN, rows.place)):
            table = table.append_column(c, pa.array(values))
        yield _result("told", name, bytes_of(table))


def _result(kind: str, name: str, content: bytes) -> pa.RecordBatch:
    schema = pa.schema([("kind", pa.string()), ("name", pa.string()), ("content", pa.binary())])
    rows = [{"kind": kind, "name": name, "content": content}]
    return pa.RecordBatch.from_pylist(rows, schema=schema)
