"""A table of PostgreSQL that is a view: what changed is written in one transaction, with the version that the table is at then.

    the rows of the table = the rows of the view at the version that `headwater_places` has for it

`headwater_places` is a table beside it with a row for each table that a sink writes. Where the rows of a view have a key the
table has a unique index on it, and rows are upserted and deleted by it. Where they have none equal rows are there as often
as in the view, and a column `headwater_row`, a hash of the row with an index on it, finds those that go. A table that is not
there is made. One that is there has to have the view's columns and no others, and no rows of somebody else.
"""

from __future__ import annotations

import io
import json
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv as pa_csv
from psycopg import sql

from headwater.errors import QueryError, SinkAway, SinkError
from headwater.feeds.postgres_server import Column, Server
from headwater.feeds.postgres_types import can_read, of_arrow, written_as
from headwater.plan.program import WEIGHT
from headwater.sinks.sink import Place, Rows, Target

PLACES = "headwater_places"
HASH = "headwater_row"
_STAGED = sql.Identifier("headwater_staged")


def make(target: Target) -> PostgresSink:
    """The sink that keeps a table."""
    return PostgresSink(target)


class PostgresSink:
    """A table that is a view."""

    by_version = False

    def __init__(self, target: Target):
        self.target = target
        self.server = Server(target.sink, target.options, target.sink, SinkAway, SinkError)
        self.names = list(target.schema.names)
        self.types: dict[str, str] = {}
        for f in target.schema:
            made = written_as(of_arrow(f.type))
            if made is None or f.name in (HASH, WEIGHT):
                raise QueryError(
                    f"the column `{f.name}` of `{target.view}` is {f.type}, for which PostgreSQL has no column here",
                    hint="leave it out of the view, or cast it",
                )
            self.types[f.name] = made
        self.key = target.key
        self.at: Place | None = None

    def close(self) -> None:
        """Lets the connection go."""
        self.server.close()

    # --- places --------------------------------------------------------------------------------------------------

    def place(self) -> Place | None:
        """The version that the table has."""
        with self.server.telling():
            found = self.server.connection.execute(
                "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = %s",
                (self.server.schema, PLACES),
            ).fetchone()
            self.at = self._stored("") if found else None
        return self.at

    @property
    def _places(self) -> sql.Composed:
        return sql.SQL("{}.{}").format(sql.Identifier(self.server.schema), sql.Identifier(PLACES))

    def _stored(self, lock: str) -> Place | None:
        told = sql.SQL("SELECT place FROM {} WHERE table_name = {} " + lock).format(
            self._places, sql.Literal(self.server.table)
        )
        found = self.server.connection.execute(told).fetchone()
        return None if found is None else Place.of_data(json.loads(found[0]))

    def _set(self, place: Place) -> None:
        told = sql.SQL(
            "INSERT INTO {} VALUES ({}, {}, {}) ON CONFLICT (table_name) DO UPDATE SET version = excluded.version, place = excluded.place"
        )
        data = json.dumps(place.as_data())
        self.server.connection.execute(
            told.format(
                self._places,
                sql.Literal(self.server.table),
                sql.Literal(place.version),
                sql.Literal(data),
            )
        )

    # --- writing -------------------------------------------------------------------------------------------------

    def write(self, changes: pa.Table, place: Place) -> None:
        """Upserts and deletes, and the new place, in one transaction."""
        with self.server.telling(), self.server.connection.transaction():
            there = self._stored("FOR UPDATE")
            if there == place:  # it was written before, and the answer was lost
                return
            if there != self.at:
                raise SinkAway(
                    f"somebody else writes the table {self.server.called} of `{self.target.sink}`",
                    hint="one process may run a sink at a time",
                )
            self._check(self.server.columns()[0])
            if changes.num_rows:
                self._stage(changes)
                self._changed()
            self._set(place)
        self.at = place

    def replace(self, rows: Rows, place: Place) -> None:
        """The whole view in the place of what the table has, in one transaction."""
        with self.server.telling(), self.server.connection.transaction():
            do = self.server.connection.execute
            made = sql.SQL(
                "CREATE TABLE IF NOT EXISTS {} (table_name text PRIMARY KEY, version bigint NOT NULL, place text NOT NULL)"
            )
            do(made.format(self._places))
            there = self._stored("FOR UPDATE")
            found = self.server.columns()[0]
            if not found:
                self._make()
            else:
                self._check(found)
                if there is None:
                    self._check_empty()
            do(sql.SQL("DELETE FROM {}").format(self.server.named))
            for piece in rows.tables():
                self._stage(piece)
                self._insert(sql.SQL("true"))
            self._set(place)
        self.at = place

    def _make(self) -> None:
        """Makes the table, with the index that finds its rows."""
        do = self.server.connection.execute
        columns = [sql.SQL("{} " + t).format(sql.Identifier(n)) for n, t in self.types.items()]
        if self.key is None:
            columns.append(sql.SQL("{} bigint NOT NULL").format(sql.Identifier(HASH)))
        do(sql.SQL("CREATE TABLE {} ({})").format(self.server.named, sql.SQL(", ").join(columns)))
        if self.key:
            do(
                sql.SQL("CREATE UNIQUE INDEX ON {} ({})").format(
                    self.server.named, self._list(self.key)
                )
            )
        elif self.key is None:
            by = sql.Identifier(HASH)
            do(sql.SQL("CREATE INDEX ON {} ({})").format(self.server.named, by))

    def _check(self, found: list[Column]) -> None:
        """Raises where the table has other columns than the view."""
        own = {HASH} if self.key is None else set()
        there = {c.name: c for c in found}
        wanted = {*self.names, *own}
        other = sorted(there.keys() ^ wanted)
        if other:
            which = "has no column" if other[0] in wanted else "has a column"
            raise SinkError(
                f"the table {self.server.called} {which} `{other[0]}`, other than `{self.target.view}`",
                hint=f"give the sink a table of its own; columns of the view: {', '.join(self.names)}",
            )
        for f in self.target.schema:
            c, t = there[f.name], of_arrow(f.type)
            assert t is not None
            small = str(t) == "tinyint" and c.typename == "int2"
            if not small and not can_read(c.typename, c.modifier, t):
                raise SinkError(
                    f"the column `{f.name}` of the table {self.server.called} is {c.typename}, and of `{self.target.view}` {t}",
                    hint=f"it should be {self.types[f.name]}",
                )
        if self.key:
            self._check_unique(self.key)

    def _check_unique(self, key: tuple[str, ...]) -> None:
        found = self.server.connection.execute(
            """
            SELECT array_agg(a.attname::text) FROM pg_index i
            JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
            WHERE i.indrelid = (quote_ident(%s) || '.' || quote_ident(%s))::regclass AND i.indisunique AND i.indpred IS NULL
            GROUP BY i.indexrelid
            """,
            (self.server.schema, self.server.table),
        ).fetchall()
        if not any(set(names) == set(key) for (names,) in found):
            raise SinkError(
                f"the table {self.server.called} has no unique index on {', '.join(key)}, the key of `{self.target.view}`",
                hint=f"CREATE UNIQUE INDEX ON {self.server.called} ({', '.join(key)})",
            )

    def _check_empty(self) -> None:
        some = sql.SQL("SELECT 1 FROM {} LIMIT 1").format(self.server.named)
        if self.server.connection.execute(some).fetchone():
            raise SinkError(
                f"the table {self.server.called} has rows that no sink wrote",
                hint=f"empty it, or give `{self.target.sink}` another table",
            )

    # --- statements ------------------------------------------------------------------------------------------------

    def _list(self, names: Any, of: str = "") -> sql.Composed:
        told = [sql.SQL(of + "{}").format(sql.Identifier(n)) for n in names]
        return sql.SQL(", ").join(told)

    def _same(self, names: Any, nulls: bool) -> sql.Composed:
        """That rows of both tables are equal in some columns; where NULL may be equal to NULL no index helps."""
        equal = "t.{0} IS NOT DISTINCT FROM s.{0}" if nulls else "t.{0} = s.{0}"
        told = [sql.SQL(equal).format(sql.Identifier(n)) for n in names]
        return sql.SQL(" AND ").join(told)

    def _stage(self, rows: pa.Table) -> None:
        """Puts rows with their weights into a table of the transaction."""
        connection = self.server.connection
        columns = [sql.SQL("{} " + t).format(sql.Identifier(n)) for n, t in self.types.items()]
        columns.append(sql.SQL("{} bigint").format(sql.Identifier(WEIGHT)))
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(_STAGED))
        made = sql.SQL("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP")
        connection.execute(made.format(_STAGED, sql.SQL(", ").join(columns)))
        told = sql.SQL("COPY {} FROM STDIN (FORMAT csv)").format(_STAGED)
        try:
            with connection.cursor().copy(told) as copy:
                copy.write(as_csv(rows.select([*self.names, WEIGHT])))
        except psycopg.errors.DataError as e:
            raise SinkError(
                f"a row of `{self.target.view}` is none of the table {self.server.called}: {' '.join(str(e).split())}",
                hint="PostgreSQL has no such value: leave it out in the view",
            ) from None

    def _hashed(self, of: str) -> sql.Composed:
        return sql.SQL("hashtextextended(ROW({})::text, 0)").format(self._list(self.names, of))

    def _insert(self, where: sql.Composable) -> None:
        """Rows that come, each as often as its weight says."""
        columns, values = self._list(self.names), self._list(self.names, "s.")
        if self.key is None:
            columns = sql.SQL("{}, {}").format(columns, sql.Identifier(HASH))
            values = sql.SQL("{}, {}").format(values, self._hashed("s."))
        on = sql.Composed([])
        if self.key:
            rest = [n for n in self.names if n not in self.key]
            set_ = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(n)) for n in rest]
            do = (
                sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(set_))
                if rest
                else sql.SQL("NOTHING")
            )
            on = sql.SQL("ON CONFLICT ({}) DO {}").format(self._list(self.key), do)
        told = sql.SQL(
            "INSERT INTO {} ({}) SELECT {} FROM {} s, generate_series(1, s.{}) WHERE {} {}"
        )
        weight = sql.Identifier(WEIGHT)
        self.server.connection.execute(
            told.format(self.server.named, columns, values, _STAGED, weight, where, on)
        )

    def _changed(self) -> None:
        """Rows that go, then rows that come."""
        do, w = self.server.connection.execute, sql.Identifier(WEIGHT)
        if self.key is None:
            do(
                sql.SQL(
                    "DELETE FROM {t} WHERE ctid IN (SELECT id FROM (SELECT t.ctid AS id, s.{w} AS n, row_number() OVER"
                    " (PARTITION BY s.ctid) AS i FROM {s} s JOIN {t} t ON t.{h} = {hash} AND {same} WHERE s.{w} < 0) found WHERE i <= -n)"
                ).format(
                    t=self.server.named,
                    s=_STAGED,
                    w=w,
                    h=sql.Identifier(HASH),
                    hash=self._hashed("s."),
                    same=self._same(self.names, True),
                )
            )
        elif not self.key:
            do(
                sql.SQL("DELETE FROM {} WHERE EXISTS (SELECT 1 FROM {} s WHERE s.{} < 0)").format(
                    self.server.named, _STAGED, w
                )
            )
        else:
            self._deleted(self.key)
        self._insert(sql.SQL("s.{} > 0").format(w))

    def _deleted(self, key: tuple[str, ...]) -> None:
        """Deletes the keys that go and do not come; of keys with NULL all that go, as no upsert finds them."""
        w = sql.Identifier(WEIGHT)
        null = sql.SQL(" OR ").join(sql.SQL("s.{} IS NULL").format(sql.Identifier(n)) for n in key)
        coming = sql.SQL("EXISTS (SELECT 1 FROM {} c WHERE c.{} > 0 AND {})").format(
            _STAGED,
            w,
            sql.SQL(" AND ").join(sql.SQL("c.{0} = s.{0}").format(sql.Identifier(n)) for n in key),
        )
        gone = sql.SQL("DELETE FROM {} t USING {} s WHERE s.{} < 0 AND {} AND {}")
        plain = sql.SQL("NOT ({}) AND NOT {}").format(null, coming)
        do = self.server.connection.execute
        do(sql.SQL("ANALYZE {}").format(_STAGED))
        do(gone.format(self.server.named, _STAGED, w, plain, self._same(key, False)))
        do(
            gone.format(
                self.server.named, _STAGED, w, sql.SQL("({})").format(null), self._same(key, True)
            )
        )


def as_csv(rows: pa.Table) -> bytes:
    """Rows as COPY reads them: every value in quotes, and nothing for NULL."""
    columns = []
    for f in rows.schema:
        column = rows.column(f.name)
        if pa.types.is_large_binary(f.type) or pa.types.is_binary(f.type):
            found = [None if v is None else "\\x" + v.hex() for v in column.to_pylist()]
            column = pa.chunked_array([pa.array(found, pa.string())])
        elif pa.types.is_decimal(f.type):
            column = column.cast(pa.string())
        elif pa.types.is_floating(f.type):
            # Arrow writes the shortest text that reads as the number; NaN and infinities as PostgreSQL knows them.
            column = column.cast(pa.string())
        columns.append(column)
    sink = io.BytesIO()
    options = pa_csv.WriteOptions(include_header=False, quoting_style="all_valid")
    pa_csv.write_csv(pa.table(columns, names=rows.column_names), sink, options)
    return sink.getvalue()
