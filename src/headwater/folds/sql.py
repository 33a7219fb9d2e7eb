"""SQL in the steps of a stream: conditions, expressions and queries, read as those of views are and answered by the engine.

A query over few rows is answered by the calculus' own interpreter, which begins at once; one over many rows, or over many
frames together, by a program (`asked.py`). Both mean the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.terms import Field, For, Num, Record, Rel, Sng, Term
from headwater.calculus.types import BOOLEAN, TIMESTAMP, Base, RecordType, bag
from headwater.dataflow.rows import rows_of
from headwater.engine.spark.session import Session
from headwater.errors import NotIncremental, NotInterpretable, StreamError
from headwater.folds.asked import INSTANCE, Asked, instances_of
from headwater.folds.batch import row_type, table_of
from headwater.interop.spark_text import column_name
from headwater.language.sql import read_sql
from headwater.language.sql.opaque import Ask
from headwater.language.sql.reader import Reader
from headwater.plan.program import Bind
from headwater.plan.scalar import scalar
from headwater.state.files import FileSystem
from headwater.state.run import column
from headwater.streams.schema import Header

Row = tuple[Any, ...]
Fields = tuple[tuple[str, Base], ...]
FEW = 64
"""Rows and frames that the interpreter answers a query for."""
_UTC = ("UTC", "Etc/UTC", "GMT", "Z")
"""Names of the zone in which the interpreter has instants."""


class Sql:
    """What SQL texts mean, over headers as tables."""

    def __init__(self, session: Session, ask: Ask, files: FileSystem):
        self.session, self.ask, self.files = session, ask, files
        self._known: dict[tuple[str, tuple[tuple[str, Fields], ...]], Asked] = {}

    def __reduce__(self) -> Any:
        raise TypeError("SQL is answered in the process that has the session")

    def asked(self, text: str, tables: Mapping[str, Header]) -> Asked:
        """A query over tables, read once."""
        key = text, tuple(sorted((n, h.fields) for n, h in tables.items()))
        if key not in self._known:
            schemas = {n: bag(row_type(h)) for n, h in tables.items()}
            made = Asked(read_sql(text, schemas, self.ask), self.files)
            nested = [n for n, t in made.row.fields if not isinstance(t, Base)]
            if nested:
                raise StreamError(
                    f"`{nested[0]}` of `{text}` is no single value",
                    hint="open arrays and structs in the query",
                )
            self._known[key] = made
        return self._known[key]

    # --- queries ------------------------------------------------------------------------------------------------

    def columns(self, text: str, tables: Mapping[str, Header]) -> Fields:
        """The columns of a query."""
        found: Any = self.asked(text, tables).row.fields
        return tuple(found)

    def relation(self, text: str, tables: Mapping[str, tuple[Header, Sequence[Row]]]) -> list[Row]:
        """The rows of a query."""
        return self.relations(text, [tables])[0]

    def relations(
        self, text: str, many: Sequence[Mapping[str, tuple[Header, Sequence[Row]]]]
    ) -> list[list[Row]]:
        """The rows of a query over many sets of tables, asked at once."""
        asked = self.asked(text, {n: h for n, (h, _) in many[0].items()})
        size = len(many) + sum(len(rows) for tables in many for _, rows in tables.values())
        if size <= FEW and not asked.beyond and (self.session.zone in _UTC or not asked.in_zone):
            with contextlib.suppress(NotInterpretable):  # a scalar that only Spark has
                return [_interpreted(asked.term, asked.row, tables) for tables in many]
        given = {}
        for name in asked.tables:
            header = next(h for n, (h, _) in many[0].items() if n == name)
            rows = [r for tables in many for r in tables[name][1]]
            of = np.repeat(np.arange(len(many)), [len(tables[name][1]) for tables in many])
            table = table_of(header, rows, self.session.zone)
            given[name] = table.append_column(INSTANCE, pa.array(of))
        return self.answers(asked, len(many), given)

    def of_frames(
        self, text: str, headers: Mapping[str, Header], count: int, tables: Mapping[str, pa.Table]
    ) -> pa.Table:
        """The answers of frames over tables that have `_instance`, with `_instance` first."""
        asked = self.asked(text, headers)
        if count + sum(t.num_rows for t in tables.values()) > FEW:
            return asked(count, tables, self.session)
        many = []
        for i in range(count):
            mine = {}
            for name, header in headers.items():
                table = tables.get(name)
                rows = []
                if table is not None:
                    part = table.filter(pc.equal(column(table, INSTANCE), i))
                    rows = rows_of(part, header.columns)
                mine[name] = (header, rows)
            many.append(mine)
        found = self.relations(text, many)
        answer = Header("answer", self.columns(text, headers))
        made = table_of(answer, [row for rows in found for row in rows], self.session.zone)
        of = np.repeat(np.arange(count), [len(rows) for rows in found])
        return made.add_column(0, INSTANCE, pa.array(of))

    def answers(self, asked: Asked, count: int, given: Mapping[str, pa.Table]) -> list[list[Row]]:
        """The rows of a query over tables with instances, by instance."""
        found = asked(count, given, self.session)
        out: list[list[Row]] = [[] for _ in range(count)]
        rows = rows_of(found.drop_columns([INSTANCE]))
        for i, row in zip(instances_of(found).tolist(), rows, strict=True):
            out[i].append(row)
        return out

    # --- rows ---------------------------------------------------------------------------------------------------

    def condition(self, text: str, header: Header) -> Callable[[Row], bool | None]:
        """A condition over one row."""
        found = self.expression(text, header)
        if found.type != BOOLEAN:  # type: ignore[attr-defined]
            raise StreamError(
                f"`{text}` is no condition", hint="a condition is true, false or NULL"
            )
        return found

    def expression(self, text: str, header: Header) -> Callable[[Row], Any]:
        """An expression over one row."""
        return Scalar(self, text, header)

    def typed(self, text: str, header: Header) -> Base:
        """The type of an expression."""
        return Scalar(self, text, header).type

    def reads(self, text: str, header: Header) -> frozenset[str]:
        """The columns of a header that an expression reads."""
        tree = sqlglot.parse_one(text, read="spark")
        known = {c.lower(): c for c in header.columns}
        named = {c.name.lower() for c in tree.find_all(exp.Column)}
        return frozenset(known[n] for n in named if n in known)

    def fewer(self, text: str) -> bool:
        """Whether a query never has more rows than the one table that it reads."""
        tree = Reader(text, {}).parse()
        several = (exp.Join, exp.Union, exp.Explode, exp.Lateral, exp.Values)
        grouped = tree.find(exp.Cube, exp.Rollup, exp.GroupingSets)
        if any(w.args.get("recursive") for w in tree.find_all(exp.With)):
            return False
        # A subquery that is read as a table may have any number of rows; one that is a value adds none.
        tables = any(isinstance(f.this, exp.Subquery) for f in tree.find_all(exp.From))
        return grouped is None and not tables and not any(tree.find(kind) for kind in several)


class Scalar:
    """An expression over rows of a header: one by one, or over a whole table."""

    def __init__(self, sql: Sql, text: str, header: Header):
        self.sql, self.text, self.header = sql, text, header
        self.query = f"SELECT {text} AS v FROM {column_name(header.name)}"
        self.asked = sql.asked(self.query, {header.name: header})
        ((_, t),) = self.asked.row.fields
        assert isinstance(t, Base)
        self.type = t

    def __call__(self, row: Row) -> Any:
        ((found,),) = self.sql.relation(self.query, {self.header.name: (self.header, [row])})
        return found

    @cached_property
    def _bind(self) -> Bind | None:
        """The expression over columns; None where a query is asked for each row."""
        match self.asked.term:
            case For(x, Rel(), Sng(Record(((_, expression),)), Num())):
                columns: dict[Term, str] = {Field(x, n): n for n in self.header.columns}
                try:
                    return Bind("v_", scalar(expression, columns))
                except NotIncremental:
                    return None
        return None

    def many(self, table: pa.Table) -> pa.Array:
        """The values of all rows of a table, in their order."""
        if self._bind is not None:
            return column(self.sql.session.evaluate([self._bind], table), "v_")
        numbers = pa.array(np.arange(table.num_rows, dtype=np.int64))
        given = {self.header.name: table.append_column(INSTANCE, numbers)}
        found = self.asked(table.num_rows, given, self.sql.session)
        order = np.argsort(instances_of(found), kind="stable")
        return found.column("v").combine_chunks().take(pa.array(order))


@lru_cache(maxsize=1024)
def _times(row: RecordType) -> tuple[int, ...]:
    return tuple(i for i, (_, t) in enumerate(row.fields) if t == TIMESTAMP)


def _interpreted(
    term: Term, row: RecordType, tables: Mapping[str, tuple[Header, Sequence[Row]]]
) -> list[Row]:
    """The rows of a query by the meaning of its term. The calculus has instants without a zone."""
    inputs = {}
    for name, (header, rows) in tables.items():
        of = row_type(header)
        plain = [_shifted(tuple(r), _times(of), _without_zone) for r in rows]
        inputs[name] = from_python(bag(of), plain)
    found: Any = interpret(term, inputs)
    assert type_of(term) == bag(row)
    out: list[Row] = []
    for key, count in found.items():
        out += [_shifted(tuple(key), _times(row), _with_zone)] * count
    return out


def _shifted(row: Row, places: tuple[int, ...], shift: Callable[[Any], Any]) -> Row:
    if not places:
        return row
    cells = list(row)
    for i in places:
        cells[i] = shift(cells[i])
    return tuple(cells)


def _without_zone(v: Any) -> Any:
    return v.astimezone(UTC).replace(tzinfo=None) if isinstance(v, datetime) and v.tzinfo else v


def _with_zone(v: Any) -> Any:
    return v.replace(tzinfo=UTC) if isinstance(v, datetime) else v
