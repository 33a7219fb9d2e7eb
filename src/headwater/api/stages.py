"""Stages and flows to look at: what a stage has kept, what waits for it, and the rows of flows that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row

from headwater.api.handles import Source, as_row
from headwater.calculus.types import RecordType
from headwater.dataflow import maps
from headwater.dataflow.define import Part, Stage
from headwater.dataflow.maps import keyed
from headwater.dataflow.rows import values_of
from headwater.errors import QueryError, StageMissing
from headwater.io.values import NOT_FITTING, one_value
from headwater.state.arrangement import Arrangement
from headwater.state.keys import all_parts, canonical, equal
from headwater.state.run import MapSpec, column

if TYPE_CHECKING:
    from headwater.api.running import Running
    from headwater.show.drawing import Explanation


class FlowHandle(Source):
    """A flow: what stages write and read, and, where it is kept, rows to look at. It serves as the name of an input."""

    database: Running

    def __init__(self, database: Any, name: str):
        super().__init__(database, name)

    @property
    def row(self) -> RecordType:
        """Its columns."""
        return self.database.catalog.sources[self.name].row

    @property
    def retained(self) -> bool | None:
        """Whether its rows are kept to be looked at; None until its first increment decides."""
        return self.database.graph.flows[self.name].retained

    def verify(self) -> None:
        """Computes the flow anew with the stage that writes it, and compares; of stages row by row, and whole ones."""
        self.database.verify_stage(self.database.graph.flows[self.name].writer)

    @property
    def waiting(self) -> dict[str, int]:
        """How many increments each reader has not removed."""
        graph = self.database.graph
        return {s: len(graph.cursors[s, self.name].at) for s in graph.readers(self.name)}

    def __repr__(self) -> str:
        return f"Flow({self.name}: {self.database.catalog.sources[self.name].ddl})"


class StageHandle:
    """A stage: its state, what waits for it, and its one output where it has one."""

    def __init__(self, database: Any, name: str):
        self.database: Running = database
        self.name = name

    @property
    def _known(self) -> Any:
        return self.database.graph.stages[self.name]

    def _output(self) -> str:
        outputs: list[str] = self._known.outputs
        if len(outputs) > 1:
            raise QueryError(
                f"the stage `{self.name}` has several outputs",
                hint=f"read one: {', '.join(outputs)}",
            )
        return outputs[0]

    def snapshot(self, version: int | None = None, *, settled: bool = False) -> DataFrame:
        """The rows of its one output, now or at a version, or when nothing waited last; of an output that is kept."""
        version = self.database.settled_version() if settled else version
        return self.database.frame(self._output(), version)

    def verify(self) -> None:
        """Computes the outputs anew from the rows that the inputs have, and compares; of stages row by row, and whole ones."""
        self.database.verify_stage(self.name)

    def changes(
        self, since: int = 0, until: int | None = None, format: str = "weights"
    ) -> DataFrame:
        """The rows of its one output that came and went after a version."""
        return self.database.changes_frame(self._output(), since, until, format)

    def lookup(self, *row: Any, version: int | None = None) -> Row | None:
        """A row of its one output, which is kept, by all of its columns; None if it is not there."""
        found = self.database.lookup(self._output(), row, version)
        return None if found is None else as_row(found)

    def state(self, *key: Any, version: int | None = None) -> Any:
        """What a group has kept, now or at a version: a row, a list of rows, or a dict of these by part; None if nothing."""
        stage = self.database._bound.get(self.name)
        if stage is None:
            raise StageMissing(
                f"the stage `{self.name}` has no function in this process",
                hint="define it again with db.stage, by the same name",
            )
        if not stage.state:
            raise QueryError(f"the stage `{self.name}` has no state", hint="define it with state=")
        found = {p.kept.name: self._part(stage, p, key, version) for p in stage.state}
        return found[""] if list(found) == [""] else found

    def _part(self, stage: Stage, p: Part, key: tuple[Any, ...], version: int | None) -> Any:
        spec = maps.state_spec(stage, p)
        fields = stage.key.fields if stage.key is not None else ()
        if len(key) != len(fields):
            raise QueryError(
                f"groups of `{self.name}` have the key ({', '.join(n for n, _ in fields)}), and {len(key)} values are given",
                hint="give a value for each column of the key",
            )
        try:
            zone = self.database.session.zone
            arrays = [one_value(v, t, zone) for v, (_, t) in zip(key, fields, strict=True)]
        except NOT_FITTING as e:
            raise QueryError(f"{key!r} is no key of `{self.name}`", hint="see its by=") from e
        store = self.database.store
        snapshot = store.at(self.database.version if version is None else version)
        at = snapshot.arrangement(spec.name)
        found = _of_group(at, spec, arrays) if p.kept.only else at.lookup(keyed(spec, arrays, 1))
        rows = _shown(p, found)
        if p.kept.kind == "record":
            return rows[0] if rows else None
        return rows

    @property
    def waiting(self) -> dict[str, int]:
        """How many increments of each input it has not removed."""
        graph = self.database.graph
        return {i: len(graph.cursors[self.name, i].at) for i in self._known.inputs}

    @property
    def held(self) -> str:
        """Why it is held, from the last run of this process; empty if it is not."""
        failed = self.database._failures.get(self.name)
        return "" if failed is None else failed.told

    @property
    def epochs(self) -> int:
        """How many epochs it ran."""
        return self.database.graph.nodes[self.name].epochs

    def pause(self) -> None:
        """Its epochs wait until `resume`; what it reads waits with them."""
        self.database._pause(self.name, True)

    def resume(self) -> None:
        """Its epochs go on."""
        self.database._pause(self.name, False)

    def explain(self) -> Explanation:
        """What it reads, keeps and gives, when it runs, and what its answers depend on."""
        return self.database.explain(self.name)

    def __repr__(self) -> str:
        known = self._known
        return f"Stage({self.name}: {', '.join(known.inputs)} → {', '.join(known.outputs)})"


def _of_group(at: Arrangement, spec: MapSpec, key: list[pa.Array]) -> pa.Table:
    """The entries of a group where each is found by itself: all of the map are looked at."""
    names, tables = maps.group_of(spec), [at.spec.schema.empty_table()]
    wanted = all_parts([canonical(k) for k in key])
    for table in at.scan():
        if not names:
            tables.append(table)
            continue
        first = pa.array(np.zeros(table.num_rows, np.int64))
        held = all_parts([column(table, n) for n in names])
        tables.append(table.filter(pa.array(equal(held, [w.take(first) for w in wanted]))))
    return pa.concat_tables(tables)


def _shown(p: Part, found: pa.Table) -> list[Row]:
    """Entries of state as rows: their key and their columns; of a bag with `_w`."""
    names: list[str] = []
    columns: list[list[Any]] = []
    if p.kept.kind == "bag":
        names += [*p.kept.columns, "_w"]
        columns += [values_of(column(found, f"k{j}")) for j in range(len(p.kept.columns))]
        columns.append(values_of(column(found, "r0")))
    else:
        names += p.kept.all_columns
        columns += [values_of(column(found, f"k{j}")) for j in range(len(p.kept.key))]
        columns += [values_of(column(found, f"v{j}")) for j in range(len(p.kept.columns))]
    rows = [as_row(dict(zip(names, r, strict=True))) for r in zip(*columns, strict=True)]
    return sorted(rows, key=repr)
