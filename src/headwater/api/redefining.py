"""Stages as they are given: new, as they were, or defined anew and then refused, kept with their state, or replayed.

`changed="keep"` goes on with the state that there is: other functions, and columns of records that were added or widened.
`changed="replay"` begins again with all rows of the inputs, and sends the difference to what was sent before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headwater.api.stream_defining import Streams
from headwater.calculus.types import (
    BIGINT,
    DOUBLE,
    FLOAT,
    INTEGER,
    SMALLINT,
    TINYINT,
    KeyType,
    RecordType,
)
from headwater.dataflow import maps
from headwater.dataflow.define import Part, Stage, arrow_schema
from headwater.dataflow.graph import Known
from headwater.dataflow.marks import mark
from headwater.dataflow.trial import Given, defined, note
from headwater.errors import StageChanged, StageError
from headwater.language.schema import columns
from headwater.state.arrangement import Arrangement
from headwater.state.run import column

_WIDER = ((TINYINT, SMALLINT, INTEGER, BIGINT), (FLOAT, DOUBLE))
"""Types of which each holds all values of those before it."""


class Redefining(Streams):
    """The part of a database that takes definitions of stages, and other ones of those that are there."""

    def stage(
        self,
        *inputs: Any,
        out: Any = None,
        by: Any = None,
        order_by: str | Sequence[str] | None = None,
        state: Any = None,
        name: str | None = None,
        form: str = "rows",
        whole: bool = False,
        groups: str = "touched",
        lookups: Mapping[str, Any] | None = None,
        runnable: Any = None,
        clock: str | None = None,
        remember: bool = False,
        retain: bool | None = None,
        on_error: str = "hold",
        changed: str = "refuse",
    ) -> Any:
        """Defines a stage: a decorator. `@db.stage("orders", by="customer", state="n BIGINT", out="customer STRING, n BIGINT")`.

        `inputs` are names, handles, or `flow.reads(...)`, and `out` the columns of the output, or a dict of several; `by` and
        `order_by` are those of all inputs that say nothing else. With `by` the function is called once a group, as
        `f(key, *rows of each input)`, else once a row; `state`, `epoch` and look-ups are given by name to functions that
        have such a parameter. `whole` computes touched groups anew from all their rows; `groups="all"` calls those with state,
        too; `remember` takes back what a row gave; `clock` is the column whose greatest value wakes groups; `form` is
        `rows`, `arrow` or `pandas`; `retain` says whether outputs are kept to be looked at; `on_error="set aside"` sends rows
        of calls that fail to `<stage>_failed`; `changed` is what to do with another definition of the same name:
        `refuse`, `keep` the state, or `replay`.

        The function stays callable; its name is that of the stage, and of its output where there is one. A function that
        was defined with `flow.stage` is taken as it is: `db.stage(f)`.
        """
        words = {n: v for n, v in locals().items() if n not in ("self", "inputs")}
        given = defined(inputs[0]) if len(inputs) == 1 and out is None else None
        if given is not None:
            return self._stage(given)

        def define(f: Callable[..., Any]) -> Callable[..., Any]:
            return self._stage(Given(f, inputs, words))

        return define

    def _stage(self, given: Given) -> Callable[..., Any]:
        known = self._readables()
        for i in given.inputs:
            name = getattr(i, "what", getattr(i, "name", i))
            if isinstance(name, str) and name not in known:
                self._refuse_path(given.name, name)
        stage = given.checked(known)
        marks = {what: mark(f) for what, f in stage.functions.items()}
        note(given.f, given)
        there = self.graph.stages.get(stage.name)
        if there is not None and (there.described, there.marks) == (stage.described(), marks):
            self._bound[stage.name] = stage
            return given.f
        with self._locked():
            self._writing()
            there = self.graph.stages.get(stage.name)
            if there is not None:
                self._changed(there, stage, marks)
            else:
                self._define_stage(stage, marks)
            self._bound[stage.name] = stage
        return given.f

    def _changed(self, known: Known, stage: Stage, marks: Mapping[str, str]) -> None:
        """Another definition under the name of a stage."""
        described = stage.described()
        other = [n for n in described if described[n] != known.described.get(n)]
        functions = [n for n in {**known.marks, **marks} if known.marks.get(n) != marks.get(n)]
        if not other and not functions:
            return
        if stage.changed == "refuse":
            raise StageChanged(
                f"the stage `{stage.name}` was defined with another {', '.join([*other, *functions])}",
                hint='changed="keep" goes on with the state that it has, changed="replay" begins again; or drop it first',
            )
        if stage.changed == "replay":
            self._replay(known, stage, marks)
            return
        grown = self._grown(known, stage) if "state" in other else []
        if [n for n in other if n != "state"]:
            raise StageChanged(
                f"the stage `{stage.name}` was defined with another {', '.join(other)}",
                hint="while state is kept, functions may change, and columns of records be added or widened: drop it first",
            )
        graph = self.graph
        made = replace(known, marks=dict(marks), described=described)
        after = replace(graph, stages={**graph.stages, known.name: made})
        with self._commit(f"stage {stage.name}", minor=True) as commit:
            working = self._working(commit, self.program)
            for p, before in grown:
                spec = maps.state_spec(stage, p)
                old = commit.arrangement(spec.name)
                tables = [_widened(t, p, before) for t in old.scan()]
                commit.drop(spec.name)
                commit.create(spec)
                working.know(spec)
                if tables:
                    new = Arrangement(spec, (), working.runs).put(pa.concat_tables(tables))
                    working.add(spec.name, new)
            self._add_made(commit, self._written(working))
            self._set_graph(commit, after, graph)
        self._became(after)
        self._specs.clear()

    def _grown(self, known: Known, stage: Stage) -> list[tuple[Part, RecordType]]:
        """The parts of a stage's state that have other columns, with those that they had; StageChanged if they cannot be kept."""
        before = {p["name"]: p for p in known.described["state"]}
        now = {p["name"]: p for p in stage.described()["state"]}
        out = []
        for p in stage.state:
            name = p.kept.name
            if name in before and before[name] == now[name]:
                continue
            same = name in before and {**before[name], "row": ""} == {**now[name], "row": ""}
            row = columns(before[name]["row"]) if same else None
            if row is None or p.kept.kind == "bag" or not _holds(p.row, row):
                raise StageChanged(
                    f"the state of the stage `{stage.name}` was defined with other columns",
                    hint="columns of records may be added, or widened; for more, drop the stage or replay it",
                )
            out.append((p, row))
        if len(before) > len(now):
            raise StageChanged(
                f"the stage `{stage.name}` had more state", hint="drop the stage, or replay it"
            )
        return out

    def _replay(self, known: Known, stage: Stage, marks: Mapping[str, str]) -> None:
        """Begins a stage again, with all rows of its inputs; its next epoch sends the difference to what it has sent."""
        sources = self.catalog.sources
        gone = [i.name for i in stage.inputs if i.name in sources and not sources[i.name].retain]
        gone += [o for o in known.outputs if not sources[o].retain]
        if gone:
            raise StageError(
                f"the stage `{stage.name}` cannot be replayed, for the rows of `{gone[0]}` are not kept",
                hint='changed="keep" goes on with the state that it has; retain=True keeps the rows of a flow',
            )
        if stage.described()["outputs"] != known.described["outputs"]:
            raise StageChanged(
                f"the stage `{stage.name}` has other outputs than before",
                hint="drop it, and define it again: a replay sends the difference to rows of the same columns",
            )
        self._define_stage(stage, marks, again=known)


def _holds(now: RecordType, before: RecordType) -> bool:
    """Whether records of some columns hold those of others: none is gone, and none is narrower."""
    types = dict(now.fields)
    return all(n in types and _wide_enough(types[n], t) for n, t in before.fields)


def _wide_enough(now: KeyType, before: KeyType) -> bool:
    if now == before:
        return True
    for kinds in _WIDER:
        if now in kinds and before in kinds:
            return kinds.index(now) >= kinds.index(before)
    return False


def _widened(table: pa.Table, p: Part, before: RecordType) -> pa.Table:
    """Entries of a part with its columns as they are now."""
    names = [n for n, _ in before.fields]
    kept = [n for n in table.column_names if not n.startswith("v")]
    out = {n: column(table, n) for n in kept}
    for j, f in enumerate(arrow_schema(p.row)):
        if f.name in names:
            out[f"v{j}"] = column(table, f"v{names.index(f.name)}").cast(f.type)
        else:
            out[f"v{j}"] = pa.nulls(table.num_rows, f.type)
    return pa.table(out)
