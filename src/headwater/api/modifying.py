"""Modifying: INSERT, UPDATE and DELETE of rows of sources, found by queries and applied as one change.

    DELETE FROM s WHERE c            -1 times  SELECT * FROM s WHERE c
    UPDATE s SET a = e WHERE c       -1 times  SELECT * FROM s WHERE c  and  SELECT ..., e AS a, ... FROM s WHERE c
    INSERT INTO s query                        the rows of the query

Rows that are there several times are found with their weights, so that all of them go or change. Where much is read, tasks of Spark
find the rows and stage them, and this process reads the staged files part by part. What changes nothing is no commit, unless it has an id, which is to be remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from headwater.api.answering import Answering
from headwater.api.catalog import SourceDef
from headwater.api.handles import Commit
from headwater.api.ids import Id, applied
from headwater.calculus.types import KeyType, RecordType, has_box
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.spark.session import telling
from headwater.engine.view_rows import repeated
from headwater.errors import BadChange, UnknownName
from headwater.interop.spark_text import column_name
from headwater.io.events import Delta
from headwater.language.schema import sql_name
from headwater.plan.program import WEIGHT
from headwater.script.statements import Delete, Insert, Update

SET = "_set_"
"""How the columns are called that hold the new values of an UPDATE."""


class Modifying(Answering):
    """The part of a database that changes rows by statements."""

    def _insert(self, change: Insert, id: Id | None) -> Commit:
        with self._locked():
            self._writing()
            source = self._modified(change.source)
            if (done := self._done(id)) is not None:
                return done
            names = _target(source, change.columns)
            if change.rows is not None:
                return self._apply_rows(source, names, change.rows, id)
            found = self._found(change.query)
            given = found.columns if isinstance(found, DataFrame) else found.column_names[:-1]
            if len(given) != len(names):
                raise _other_number(source.name, names, len(given))
            if isinstance(found, DataFrame):
                return self._modify_in_tasks(source, found.toDF(*names), id)
            found = found.rename_columns([*names, WEIGHT])
            return self._modify(source, found, id)

    def _apply_rows(
        self, source: SourceDef, names: list[str], rows: tuple[tuple[Any, ...], ...], id: Id | None
    ) -> Commit:
        for row in rows:
            if len(row) != len(names):
                raise _other_number(source.name, names, len(row))
        all_names = [n for n, _ in source.row.fields]
        places = [names.index(n) if n in names else None for n in all_names]
        given = [tuple(None if p is None else row[p] for p in places) for row in rows]
        return self.apply({source.name: given}, id=id, cast=True)

    def _delete(self, change: Delete, id: Id | None) -> Commit:
        with self._locked():
            self._writing()
            source = self._modified(change.source)
            if (done := self._done(id)) is not None:
                return done
            found = self._found(
                f"SELECT * FROM {column_name(source.name)}{_where(change.condition)}"
            )
            if isinstance(found, DataFrame):
                return self._modify_in_tasks(source, found, id, deletes=True)
            return self._modify(source, _times(found, -1), id)

    def _update(self, change: Update, id: Id | None) -> Commit:
        with self._locked():
            self._writing()
            source = self._modified(change.source)
            if (done := self._done(id)) is not None:
                return done
            names = [n for n, _ in source.row.fields]
            low = [n.lower() for n in names]
            for n in change.values:
                if n.lower() not in low:
                    raise _unknown_column(source, n)
            types = dict(source.row.fields)
            new = {names[low.index(n.lower())]: e for n, e in change.values.items()}
            cast = [f"{_as(types[n], e)} AS {SET}{names.index(n)}" for n, e in new.items()]
            found = self._found(
                f"SELECT *, {', '.join(cast)} FROM {column_name(source.name)}{_where(change.condition)}"
            )
            if isinstance(found, DataFrame):
                return self._modify_in_tasks(source, _both(found, names, new), id)
            came = [found.column(f"{SET}{i}" if n in new else n) for i, n in enumerate(names)]
            rows = pa.table([*came, found.column(WEIGHT)], [*names, WEIGHT])
            gone = _times(found.select([*names, WEIGHT]), -1)
            if source.nested:  # inner rows are told apart by their owners
                given: Any = Delta(repeated(rows), repeated(_times(gone, -1)))
                return self.apply({source.name: given}, id=id)
            rows = pa.concat_tables([gone, rows.cast(gone.schema)])
            return self._modify(source, consolidated(rows), id)

    # --- rows ----------------------------------------------------------------------------------------------------------

    def _modified(self, name: str) -> SourceDef:
        """The source that a statement changes."""
        source = self.catalog.sources.get(self.catalog.named(name))
        if source is None or source.written:
            is_view = self.catalog.named(name) in self.catalog.views
            what = "is a view; rows of sources are changed" if is_view else "is no source"
            raise UnknownName(
                f"`{name}` {what}",
                hint=f"sources: {', '.join(n for n, s in self.catalog.sources.items() if not s.written) or 'none'}",
            )
        return source

    def _done(self, id: Id | None) -> Commit | None:
        """The commit of an id that was applied before."""
        found = None if id is None else applied(self.store.at(self.version).facts, id)
        if found is None:
            return None
        return Commit(found["version"], found["rows"], id=id, repeated=True, database=self)

    def _found(self, query: str) -> pa.Table | DataFrame:
        """The rows of a query with their weights, last; where it reads much, a DataFrame that has each row as often as it is there."""
        if self._is_small(query, self._defined):
            return self._weighted(query)
        return self._in_spark(query, None)

    def _modify_in_tasks(
        self, source: SourceDef, rows: DataFrame, id: Id | None, deletes: bool = False
    ) -> Commit:
        """Applies rows that tasks of Spark find and stage; none at all are no commit."""
        with telling("looking for rows to change"):
            none = id is None and rows.isEmpty()
        if none:
            return Commit(self.version, {source.name: 0}, database=self)
        missing = [(n, t) for n, t in source.row.fields if n not in rows.columns]
        rows = rows.selectExpr("*", *(f"{_as(t, 'NULL')} AS {column_name(n)}" for n, t in missing))
        given = Delta(deletes=rows) if deletes else rows
        return self.apply({source.name: given}, id=id, cast=True)

    def _modify(self, source: SourceDef, rows: pa.Table, id: Id | None) -> Commit:
        """Applies rows with weights; none at all are no commit."""
        if not rows.num_rows and id is None:
            return Commit(self.version, {source.name: 0}, database=self)
        missing = [n for n, _ in source.row.fields if n not in rows.column_names]
        for n in missing:
            rows = rows.append_column(n, pa.nulls(rows.num_rows))
        return self.apply({source.name: rows}, id=id, cast=True)


def _where(condition: str) -> str:
    return f" WHERE {condition}" if condition else ""


def _as(t: KeyType, expression: str) -> str:
    """An expression as a value of a column, as INSERT would store it."""
    return (
        f"({expression})"
        if has_box(t) or isinstance(t, RecordType)
        else f"CAST(({expression}) AS {sql_name(t)})"
    )


def _both(found: DataFrame, names: list[str], new: Mapping[str, str]) -> DataFrame:
    """Of each row that an UPDATE found the old one with weight -1 and the new one, from one evaluation."""

    def row(prefix: bool, weight: int) -> str:
        cells = [
            f"{column_name(f'{SET}{i}' if prefix and n in new else n)} AS {column_name(n)}"
            for i, n in enumerate(names)
        ]
        return f"struct({', '.join(cells)}, {weight}L AS {WEIGHT})"

    return found.selectExpr(f"inline(array({row(False, -1)}, {row(True, 1)}))")


def _times(rows: pa.Table, sign: int) -> pa.Table:
    """Rows with their weights multiplied."""
    place = rows.column_names.index(WEIGHT)
    return rows.set_column(place, WEIGHT, pc.multiply(rows.column(WEIGHT), sign))


def _target(source: SourceDef, columns: tuple[str, ...]) -> list[str]:
    """The columns that rows are given for, as they were declared; all of them where none is named."""
    names = [n for n, _ in source.row.fields]
    low = [n.lower() for n in names]
    for n in columns:
        if n.lower() not in low:
            raise _unknown_column(source, n)
    if len({n.lower() for n in columns}) < len(columns):
        raise BadChange(f"a column of `{source.name}` is named twice", hint="name each once")
    return [names[low.index(n.lower())] for n in columns] or names


def _unknown_column(source: SourceDef, name: str) -> UnknownName:
    names = ", ".join(n for n, _ in source.row.fields)
    return UnknownName(
        f"unknown column `{name}` in `{source.name}`", hint=f"columns of `{source.name}`: {names}"
    )


def _other_number(source: str, names: list[str], found: int) -> BadChange:
    return BadChange(
        f"a row for `{source}` has {found} values, and {len(names)} columns are given",
        hint=f"give a value for each of {', '.join(names)}",
    )
