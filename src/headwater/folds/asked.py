"""Queries asked of many frames at once: the answer of a SQL text over the rows of each frame and key.

A query over tables is asked of an *instance* (a frame, a key, both) by a number that every row of every table has beside
its columns: `rides` is read as the rows of `rides` with the same number. That is the correlation of a lateral join, and the
program of the joined query answers for all instances in one increment over empty maps:

    answer(q, {i ↦ tables_i}) = {(i, row) : row ∈ q(tables_i)}

An instance without rows is asked too, for a total has an answer there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Call,
    Field,
    For,
    Num,
    Pred,
    Record,
    Rel,
    Sng,
    Term,
    Times,
    Var,
    relations,
    substitute,
    subterms,
)
from headwater.calculus.types import BIGINT, INT, TIMESTAMP, MapType, RecordType, bag
from headwater.engine import view_rows
from headwater.engine.change import Change, schema_of
from headwater.engine.increment import Increment
from headwater.engine.policy import NO_LIMIT
from headwater.engine.spark.session import Session
from headwater.engine.working import Working
from headwater.plan.compiler import Compiler
from headwater.plan.program import WEIGHT, Program
from headwater.state.files import FileSystem
from headwater.state.keys import Ints
from headwater.state.run import Runs, column

INSTANCE = "_instance"
ALL = "_instances"
"""The relation of the instances that are asked."""
ANSWER = "answer"
_ONE = RecordType(((INSTANCE, BIGINT),))

_IN_ANY_ZONE = frozenset(("=", "<>", "<", "<=", ">", ">=", "<=>"))
"""Functions of instants that mean the same in every time zone."""


class Asked:
    """A query that is asked of many instances at once."""

    def __init__(self, term: Term, files: FileSystem):
        """`files` is where maps would be; nothing is written there."""
        self.term, self.files = term, files
        made = type_of(term)
        assert isinstance(made, MapType) and isinstance(made.key, RecordType)
        self.row: RecordType = made.key
        """The columns of an answer."""
        self.tables: dict[str, RecordType] = {
            r.name: r.type.key  # type: ignore[union-attr, misc]  # tables are bags of records
            for r in sorted(relations(term), key=lambda r: r.name)
        }
        """The columns of the tables that it reads."""

    @cached_property
    def in_zone(self) -> bool:
        """Whether an instant is taken apart or made somewhere, for which the interpreter knows only UTC."""
        calls = [t for t in subterms(self.term) if isinstance(t, Call)]
        return any(
            c.function not in _IN_ANY_ZONE and TIMESTAMP in (type_of(c), *map(type_of, c.args))
            for c in calls
        )

    @cached_property
    def _rows(self) -> dict[str, RecordType]:
        wide = {n: RecordType((*_ONE.fields, *r.fields)) for n, r in self.tables.items()}
        return {ALL: _ONE, **wide}

    @cached_property
    def program(self) -> Program:
        """The program of the query joined with the instances."""
        made = Program()
        made.relations.rows |= self._rows
        made.relations.levels |= dict.fromkeys(self._rows, 0)
        compiler = Compiler(made, {})
        compiler.view(ANSWER, _of_each(self.term, self.row), "recursive")
        compiler.maps.complete()
        return compiler.program

    def __call__(self, count: int, tables: Mapping[str, pa.Table], session: Session) -> pa.Table:
        """The answers of instances 0 to count - 1, with `_instance` first and each row as often as it is there.

        Tables have `_instance` and their columns; one that is not given is empty.
        """
        numbers = pa.table({INSTANCE: pa.array(np.arange(count, dtype=np.int64))})
        changes = {ALL: Change.of(_weighed(numbers))}
        for name, row in self._rows.items():
            if name in tables and tables[name].num_rows:
                schema = schema_of(row)
                given = tables[name].select([n for n in schema.names if n != WEIGHT])
                changes[name] = Change.of(_weighed(given).cast(schema))
        program = self.program
        working = Working(program.maps, {}, Runs(self.files), rows=self._rows)
        increment = Increment(program, working, session, Path(), NO_LIMIT)
        increment.run(changes, in_sequence=True)
        view = program.views[ANSWER]
        found = list(view_rows.scan(program, view, working, session.evaluate))
        table = pa.concat_tables([schema_of(view.type).empty_table(), *found])
        return view_rows.repeated(table)


def _weighed(table: pa.Table) -> pa.Table:
    return table.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), table.num_rows))


def _of_each(term: Term, row: RecordType) -> Term:
    """for i in instances, for q in term[tables ↦ their rows of i] collect {(i, q)}."""
    i = Var("i_", _ONE)
    mine: dict[Rel, Term] = {}
    for r in relations(term):
        fields = r.type.key.fields  # type: ignore[union-attr]
        wide = RecordType((*_ONE.fields, *fields))
        x = Var(f"{r.name}_", wide)
        same = Pred(Call("=", (Field(x, INSTANCE), Field(i, INSTANCE))))
        cells = Record(tuple((n, Field(x, n)) for n, _ in fields))
        mine[r] = For(x, Rel(r.name, bag(wide)), Times((same, Sng(cells, Num(1, INT)))))
    q = Var("q_", row)
    cells = Record(((INSTANCE, Field(i, INSTANCE)), *((n, Field(q, n)) for n, _ in row.fields)))
    each = For(q, substitute(term, mine), Sng(cells, Num(1, INT)))
    return For(i, Rel(ALL, bag(_ONE)), each)


def instances_of(table: pa.Table) -> Ints:
    """The instance of each row of an answer."""
    return np.asarray(column(table, INSTANCE))
