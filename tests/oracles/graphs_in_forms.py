"""The same graph said otherwise: stages in the forms of tables, and stages that set aside what fails.

The meaning knows rows and functions that do not fail. So a graph is drawn twice over: the meaning runs the functions as they
were drawn, and the engine others of which the same must come:

    in_tables(graph)      the engine's get Arrow tables and pandas frames, and call the drawn ones row by row, or group by group
    failing(graph)        the engine's raise, or give what does not fit, where those of the meaning give nothing; what the latter
                          see then is what must have been set aside
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

import pandas as pd
import pyarrow as pa

from graphs import ROW, Graph
from headwater import flow
from headwater.calculus.types import RecordType
from headwater.dataflow.calling import given_by
from headwater.dataflow.define import Readable, Stage, arrow_schema
from headwater.dataflow.rows import row_class, rows_of
from headwater.dataflow.trial import Given, defined
from headwater.language.schema import columns

Function = Callable[..., Any]
WEIGHTED = ("_w", pa.int64())
NUMBERED = ("_g", pa.int64())


def _stage(given: Given) -> Stage:
    """The stage of a definition; all flows have the same columns."""
    looked = (given.words.get("lookups") or {}).values()
    return given.checked({i.what: Readable(columns(ROW)) for i in (*given.inputs, *looked)})


# --- tables --------------------------------------------------------------------------------------------------------


def in_tables(graph: Graph) -> list[Function]:
    """The stages of a graph, some of them in the forms of tables."""
    chance = random.Random(graph.seed)
    out = []
    for f in graph.stages:
        given = defined(f)
        assert given is not None
        form = chance.choice(["arrow", "pandas", "rows"])
        made = _in_tables(given, form) if form != "rows" and _fits_tables(given) else None
        if made is not None:
            graph.words.add(f"{made[1]} in {form}")
            made[0].__name__ = given.name
            f = flow.stage(*given.inputs, **given.words, form=form)(made[0])
        out.append(f)
    return out


def _fits_tables(given: Given) -> bool:
    """Whether a stage has nothing that only rows have: frames, look-ups, clocks, other state than a record."""
    words = given.words
    if any(words.get(w) for w in ("lookups", "remember", "clock")):
        return False
    return not any(i.framing or i.combine for i in given.inputs) and (
        words.get("state") is None or isinstance(words["state"], str)
    )


def _in_tables(given: Given, form: str) -> tuple[Function, str] | None:
    stage = _stage(given)
    if stage.row_wise:
        return _row_wise(given, stage, form), "row-wise"
    if stage.whole:
        return _whole(given, stage, form), "whole"
    return (_with_state(given, stage, form), "record") if stage.state else None


def _read(table: Any, row: RecordType, *more: tuple[str, pa.DataType]) -> list[tuple[Any, ...]]:
    """The rows of a table or frame, those columns first that are not of the row."""
    schema = pa.schema([*more, *arrow_schema(row)])
    if isinstance(table, pd.DataFrame):
        table = pa.Table.from_pandas(table[schema.names], schema, preserve_index=False)
    return rows_of(table.select(schema.names).cast(schema), schema.names)


def _made(
    form: str, row: RecordType, rows: Sequence[tuple[Any, ...]], *more: tuple[str, pa.DataType]
) -> Any:
    """A table or frame of rows."""
    schema = pa.schema([*more, *arrow_schema(row)])
    arrays = [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(schema)]
    table = pa.table(arrays, schema=schema)
    return table.to_pandas() if form == "pandas" else table


def _outputs(stage: Stage, form: str, found: Any, *more: tuple[str, pa.DataType]) -> Any:
    """What was given, as a table for each output, or the one."""
    tables = {
        o: _made(form, row, [r for name, r in found if name == o], *more)
        for o, row in stage.outputs.items()
    }
    return tables[stage.single] if stage.single else tables


def _row_wise(given: Given, stage: Stage, form: str) -> Function:
    made = row_class(stage.inputs[0].columns)

    def f(table: Any) -> Any:
        found = []
        for w, *values in _read(table, columns(ROW), WEIGHTED):
            for o, row, n in given_by(stage, given.f(made(values)), {}):
                found.append((o, (n * w, *row)))
        return _outputs(stage, form, found, WEIGHTED)

    return f


def _groups(stage: Stage, groups: Any, tables: Sequence[Any]) -> list[tuple[int, Any, list[Any]]]:
    """Each group: its number, its key as a function sees it, and its rows by input."""
    assert stage.key is not None
    rows: list[dict[int, list[Any]]] = []
    for i, table in zip(stage.inputs, tables, strict=True):
        changes = i.changes and not stage.whole
        made = row_class((*i.columns, "_w") if changes else i.columns)
        by: dict[int, list[Any]] = {}
        for g, *values in _read(table, columns(ROW), NUMBERED, *([WEIGHTED] if changes else [])):
            by.setdefault(g, []).append(made([*values[1:], values[0]] if changes else values))
        rows.append(by)
    out = []
    for g, *key in _read(groups, stage.key, NUMBERED):
        shown = key[0] if len(key) == 1 else tuple(key)
        out.append((g, shown, [by.get(g, []) for by in rows]))
    return out


def _whole(given: Given, stage: Stage, form: str) -> Function:
    def f(groups: Any, *tables: Any) -> Any:
        found = []
        for g, key, rows in _groups(stage, groups, tables):
            if any(rows):
                for o, row, n in given_by(stage, given.f(key, *rows), {}):
                    found += [(o, (g, *row))] * n
        return _outputs(stage, form, found, NUMBERED)

    return f


class _State:
    """A record of a group."""

    def __init__(self, names: Sequence[str], values: Sequence[Any] | None):
        for i, n in enumerate(names):
            self.__dict__[n] = None if values is None else values[i]
        self.__dict__["is"] = "as it was"

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value
        self.__dict__["is"] = "written"

    def clear(self) -> None:
        for name in self.__dict__:
            self.__dict__[name] = None
        self.__dict__["is"] = "gone"


def _with_state(given: Given, stage: Stage, form: str) -> Function:
    (part,) = stage.state
    names = [n for n, _ in part.row.fields]

    def f(groups: Any, *tables: Any, state: Any) -> Any:
        was = {g: values for g, *values in _read(state, part.row, NUMBERED)}
        found, new, gone = [], [], []
        for g, key, rows in _groups(stage, groups, tables):
            mine = _State(names, was.get(g))
            for o, row, n in given_by(stage, given.f(key, *rows, state=mine), {}):
                found.append((o, (n, *row)))
            if mine.__dict__["is"] == "written":
                new.append((g, *(mine.__dict__[n] for n in names)))
            elif mine.__dict__["is"] == "gone":
                gone.append(g)
        rows_given = _outputs(stage, form, found, WEIGHTED)
        return flow.result(rows_given, state=_made(form, part.row, new, NUMBERED), cleared=gone)

    return f


# --- what is set aside ---------------------------------------------------------------------------------------------


@dataclass
class Failing:
    """A graph whose functions give nothing where those of the engine fail, and what they saw then, by stage."""

    graph: Graph
    stages: list[Function] = field(default_factory=list)
    aside: dict[str, Counter[tuple[str, str, str]]] = field(default_factory=dict)
    """Inputs, keys and rows that must have been set aside."""


def failing(graph: Graph) -> Failing:
    """A graph in which functions fail at some rows, and the rows are set aside."""
    chance = random.Random(graph.seed)
    out = Failing(replace(graph, stages=[]))
    for f in graph.stages:
        given = defined(f)
        assert given is not None
        words, mine = given.words, f
        if not words.get("whole") and not words.get("remember") and chance.random() < 0.7:
            how = chance.choice(["raises", "raises late", "does not fit"])
            graph.words.add(how)
            noted = out.aside[given.name] = Counter[tuple[str, str, str]]()
            stage, at = _stage(given), chance.randint(0, 4)
            mine = _fails(given.f, stage, at, how)
            mine = flow.stage(*given.inputs, **words, on_error="set aside")(mine)
            f = flow.stage(*given.inputs, **words)(_forgives(given.f, stage, at, noted))
        out.graph.stages.append(f)
        out.stages.append(mine)
    return out


def _rows(stage: Stage, args: Sequence[Any]) -> list[tuple[str, Any]]:
    """The rows that a call sees, with the inputs that they are of."""
    if stage.row_wise:
        return [(stage.inputs[0].name, args[0])]
    return [(i.name, r) for i, rows in zip(stage.inputs, args[1:], strict=True) for r in rows]


def _fails(f: Function, stage: Stage, at: int, how: str) -> Function:
    """The function as the engine has it: it fails where a row has a given x."""

    @wraps(f)
    def made(*args: Any, **named: Any) -> Any:
        bad = any(r.x == at for _, r in _rows(stage, args))
        if not bad:
            return f(*args, **named)
        if how == "raises":
            raise ValueError("at the beginning")
        given = [(o, (*row, n)) for o, row, n in given_by(stage, f(*args, **named), {})]
        rows = [row if stage.single else (o, row) for o, row in given]
        if how == "raises late":
            return _then_raises(rows)
        wrong = (0, "no number", None, None)
        return [*rows, wrong if stage.single else (next(iter(stage.outputs)), wrong)]

    return made


def _then_raises(rows: list[Any]) -> Any:
    yield from rows
    raise ValueError("at the end")


def _forgives(f: Function, stage: Stage, at: int, noted: Counter[tuple[str, str, str]]) -> Function:
    """The function as the meaning has it: it gives nothing there, writes nothing, and notes what it saw."""

    @wraps(f)
    def made(*args: Any, **named: Any) -> Any:
        rows = _rows(stage, args)
        if any(r.x == at for _, r in rows):
            key = None if stage.row_wise else args[0]
            noted.update((i, repr(key), repr(r)) for i, r in rows)
            return None
        return f(*args, **named)

    return made
