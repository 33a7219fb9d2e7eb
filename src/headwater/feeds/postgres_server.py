"""A PostgreSQL server as feeds and sinks have it: connections, what is wrong with one in words, and the columns of a table.

A connection is opened when it is asked for and again after the server went away. Errors of the library become those of
Headwater by their SQLSTATE, and no message has a password in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from headwater.errors import FeedAway, HeadwaterError, QueryError
from headwater.feeds.postgres_types import SESSION

_PATIENCE = 10
"""Seconds for a server to answer a new connection."""


@dataclass(frozen=True)
class Column:
    """A column of a table: its type as PostgreSQL calls it, and whether it is told of rows that go."""

    name: str
    typename: str
    modifier: int
    required: bool
    told: bool = False


class Server:
    """One connection to a server, which is opened when it is needed, and the table that is meant."""

    def __init__(
        self,
        whose: str,
        options: Mapping[str, str],
        table: str,
        away: type[HeadwaterError] = FeedAway,
        refused: type[HeadwaterError] = FeedAway,
    ):
        self.whose, self.away, self.refused = whose, away, refused
        self.options = options
        self.schema = options.get("schema", "public")
        self.table = options.get("table", table)
        self._connection: psycopg.Connection[Any] | None = None

    @property
    def where(self) -> str:
        """The server in words."""
        o = self.options
        named = o.get("host", "") + (":" + o["port"] if "port" in o else "")
        return f"PostgreSQL at {named or 'its usual place'}"

    @property
    def named(self) -> sql.Composed:
        """The table in a statement."""
        return sql.SQL("{}.{}").format(sql.Identifier(self.schema), sql.Identifier(self.table))

    @property
    def called(self) -> str:
        """The table in a message."""
        return f"{self.schema}.{self.table}"

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """A connection in which every statement is a transaction unless one is begun."""
        if self._connection is None or self._connection.closed:
            o = self.options
            given = {
                "host": o.get("host"),
                "port": o.get("port"),
                "dbname": o.get("database"),
                "user": o.get("user"),
                "password": o.get("password"),
                "sslmode": o.get("sslmode"),
                "sslrootcert": o.get("sslrootcert"),
            }
            self._connection = psycopg.connect(
                autocommit=True,
                connect_timeout=_PATIENCE,
                application_name="headwater",
                prepare_threshold=None,
                **{k: v for k, v in given.items() if v is not None},  # type: ignore[arg-type]
            )
            self._connection.execute(SESSION)
        return self._connection

    def close(self) -> None:
        """Lets the connection go."""
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
        self._connection = None

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Says what is wrong with a server; after any error the next statement has a new connection."""
        try:
            yield
        except psycopg.Error as e:
            self.close()
            raise self._told(e) from None  # its own text may have the password of the connection

    def _told(self, e: psycopg.Error) -> Exception:
        said = " ".join(str(e).split())
        secret = self.options.get("password")
        said = said.replace(secret, "...") if secret else said
        if "authentication failed" in said or e.sqlstate in ("28P01", "28000"):
            return self.away(
                f"{self.where} does not let in the user of `{self.whose}`: {said}",
                hint="declare it again with the right `user` and `password`",
            )
        if e.sqlstate is None or e.sqlstate[:2] in ("08", "57", "53"):
            return self.away(
                f"{self.where} does not answer `{self.whose}`: {said}",
                hint="it is tried again; look at `host` and `port`, and whether the server runs",
            )
        if e.sqlstate == "42501":
            return self.refused(
                f"the user of `{self.whose}` may not do this in {self.where}: {said}",
                hint="a feed needs SELECT on the table, REPLICATION, and to own the table or its publication; a sink to own its table",
            )
        return self.refused(
            f"{self.where} refuses what `{self.whose}` asks: {said}", hint="see there"
        )

    def columns(self) -> tuple[list[Column], str]:
        """The columns of the table and its replica identity; no columns where there is no such table."""
        with self.telling():
            found = self.connection.execute(
                """
                SELECT a.attname, t.typname, t.typtype, a.atttypmod, a.attnotnull, c.relreplident, c.relkind,
                       coalesce(a.attnum = ANY (i.indkey), false)
                FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                JOIN pg_type t ON t.oid = a.atttypid
                LEFT JOIN pg_index i ON i.indrelid = c.oid
                  AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END
                WHERE n.nspname = %s AND c.relname = %s ORDER BY a.attnum
                """,
                (self.schema, self.table),
            ).fetchall()
        identity = _text(found[0][5]) if found else ""
        columns = [
            Column(n, "an enum" if _text(kind) == "e" else t, m, required, told or identity == "f")
            for n, t, kind, m, required, _, _, told in found
        ]
        return columns, identity


def _text(char: Any) -> str:
    """A value of PostgreSQL's one-byte type, which the library may give as bytes."""
    return char.decode() if isinstance(char, bytes) else str(char)


def one_column(whose: str, called: str, found: list[Column], name: str) -> Column:
    """A column by its name, in any case where only one is so called."""
    exact = [c for c in found if c.name == name]
    folded = exact or [c for c in found if c.name.lower() == name.lower()]
    if len(folded) != 1:
        raise QueryError(
            f"the table {called} has no column `{name}`, which `{whose}` has",
            hint=f"columns of {called}: {', '.join(c.name for c in found)}",
        )
    return folded[0]
