"""A table of PostgreSQL as a feed: a copy of it, then what its transactions change, from a logical slot.

    what the source is at a version = what the table was behind some transaction

The copy is read in one transaction, of which the cursor keeps the snapshot: of the transactions that the slot tells, those
that the snapshot saw are passed over, and every later one is taken whole. So slot and copy need no moment in common, and
a batch has whole transactions: none is torn over two versions. The copy is one batch, however large, and only a part of it is in memory (`copying`).

The slot is asked for changes by SQL (`pg_logical_slot_peek_binary_changes`), which leaves it where it is; it moves on
when a version is durable. Cursors name places in the server's log, so that a slot which fell back after a crash of the server
tells nothing twice. A slot that is ahead of the cursor was made anew or read by somebody else: what is between is lost.

With the option `cursor` there is no slot: rows whose value of that column is above the last one are taken, as upserts where
the source has a key, else as new rows. The limits: no deletion is seen, nor an update that leaves the column as it is; and a
transaction that commits behind another with a lower value is passed over, unless the column is written under a lock.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
from psycopg import sql

from headwater.errors import BadChange, FeedAway, FeedLost, QueryError
from headwater.feeds.copying import Copying
from headwater.feeds.feed import Batch, Cursor, Declared, Limit
from headwater.feeds.net import Net, by_key
from headwater.feeds.pgoutput import (
    UNTOLD,
    Decoder,
    Relation,
    RowChange,
    Transaction,
    Truncated,
    lsn_of,
    lsn_text,
)
from headwater.feeds.postgres_server import Column, Server, one_column
from headwater.feeds.postgres_types import can_read, suggested, typed, unfitting
from headwater.io.events import Delta
from headwater.plan.program import WEIGHT

IDLE = 16 << 20
"""How much of the server's log is passed over before an empty batch moves the cursor and the slot."""
READ = 16 << 20
"""How many bytes of a copy are read at a time."""
ORDERED = ("int2", "int4", "int8", "numeric", "date", "timestamp", "timestamptz", "float8")
"""The types that a cursor column may have."""


def check(declared: Declared) -> None:
    """Raises where the table is other than the source; a server that is away is told by the first batch."""
    feed = PostgresFeed(declared)
    try:
        feed.look()
    except FeedAway:
        return
    finally:
        feed.close()


class PostgresFeed:
    """Gives the rows of a table and what changed of them."""

    replays = True

    def __init__(self, declared: Declared):
        self.declared = declared
        self.name, self.key = declared.name, tuple(declared.key or ())
        self.server = Server(declared.name, declared.options, declared.name)
        self.columns: list[Column] | None = None
        plain = "".join(c if c.isalnum() else "_" for c in declared.name.lower())
        self.slot = declared.options.get("slot", f"headwater_{plain}"[:63])
        self.publication = declared.options.get("publication", self.slot)
        self.by = declared.options.get("cursor")

    def close(self) -> None:
        """Lets the connection go; slot and publication stay, as they hold the place."""
        self.server.close()

    # --- the table -----------------------------------------------------------------------------------------------

    def look(self) -> list[Column]:
        """The table's columns that the source has, in its order; QueryError where it cannot be its table."""
        found, identity = self.server.columns()
        if not found:
            raise QueryError(
                f"{self.server.where} has no table {self.server.called}, which `{self.name}` is to follow",
                hint="make it, or give the options `schema` and `table`",
            )
        out = []
        for name, t in self.declared.row.fields:
            column = one_column(self.name, self.server.called, found, name)
            if not can_read(column.typename, column.modifier, t):
                better = suggested(column.typename, column.modifier)
                raise QueryError(
                    f"the column `{name}` of {self.server.called} is {column.typename}, and `{self.name}` has it as {t}",
                    hint=f"declare it as {better}"
                    if better
                    else "this type is not read: leave the column out, or cast it in a table of its own",
                )
            out.append(column)
        if self.by is not None:
            by = one_column(self.name, self.server.called, found, self.by)
            if by.typename not in ORDERED or not by.required:
                raise QueryError(
                    f"the cursor column `{self.by}` of {self.server.called} is {by.typename}{'' if by.required else ' and may be NULL'}",
                    hint="it has to be a number, date or time, and NOT NULL",
                )
        else:
            self._check_identity(found, identity, out)
        self.columns = out
        return out

    def _check_identity(self, found: list[Column], identity: str, mine: list[Column]) -> None:
        """Raises where deletions and updates would not say which row they are of."""
        told = {c.name for c in found if c.told}
        names = [n for n, _ in self.declared.row.fields]
        key = [mine[names.index(k)].name for k in self.key]
        if key and told.issuperset(key):
            return
        if not key and identity == "f":
            return
        what = f"the key of `{self.name}`" if key else "whole rows"
        raise QueryError(
            f"changes of {self.server.called} do not tell {what}: its replica identity has {', '.join(sorted(told)) or 'no columns'}",
            hint=f"ALTER TABLE {self.server.called} REPLICA IDENTITY FULL"
            + ("; or take its primary key as the source's" if told else ""),
        )

    # --- batches -------------------------------------------------------------------------------------------------

    def read(self, after: Cursor, limit: Limit) -> Batch | None:
        """The copy, or what whole transactions changed behind the cursor."""
        mine = self.columns or self.look()
        with self.server.telling():
            if self.by is not None:
                return self._behind(mine, after, limit)
            return self._copy(mine) if after is None else self._changes(mine, after, limit)

    def committed(self, cursor: Cursor) -> None:
        """Lets the server forget what is durable here."""
        if self.by is not None:
            return
        with self.server.telling():
            moved = "SELECT pg_replication_slot_advance(%s, %s::pg_lsn) FROM pg_replication_slots WHERE slot_name = %s AND confirmed_flush_lsn < %s::pg_lsn"
            at = cursor["lsn"]
            self.server.connection.execute(moved, (self.slot, at, self.slot, at))

    def _copy(self, mine: list[Column]) -> Batch:
        """The whole table at one moment, and the place from which the slot tells what followed."""
        lsn = self._prepared()
        names = sql.SQL(", ").join(sql.Identifier(c.name) for c in mine)
        connection = self.server.connection
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            seen, until = connection.execute(
                "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text"
            ).fetchone() or ("", "")
            told = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv)")
            copying, bad = Copying(self.declared.home), list[pa.Table]()
            with connection.cursor().copy(told.format(names, self.server.named)) as copy:
                for data in _by_size(copy):
                    part, rejected = self._typed(_from_csv(data, len(mine)), "the copy")
                    copying.add(part)
                    bad += [] if rejected is None else [rejected]
        rows = copying.rows()
        return Batch(
            Delta(upserts=rows) if self.key else rows,
            {"lsn": lsn, "seen": seen, "until": until},
            rejected=pa.concat_tables(bad) if bad else None,
        )

    def _prepared(self) -> str:
        """Makes publication and slot where they are missing, and gives the place of the slot."""
        connection = self.server.connection
        level = connection.execute("SHOW wal_level").fetchone()
        if level != ("logical",):
            raise FeedAway(
                f"{self.server.where} keeps no changes for slots: its wal_level is {level and level[0]}",
                hint="set wal_level = logical and restart it; or give the option `cursor`, which needs no slot",
            )
        there = connection.execute(
            "SELECT 1 FROM pg_publication WHERE pubname = %s", (self.publication,)
        ).fetchone()
        if there is None:
            made = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}")
            connection.execute(made.format(sql.Identifier(self.publication), self.server.named))
        listed = connection.execute(
            "SELECT 1 FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s AND tablename = %s",
            (self.publication, self.server.schema, self.server.table),
        ).fetchone()
        if listed is None:
            raise FeedLost(
                f"the publication `{self.publication}` does not have the table {self.server.called}",
                hint=f"ALTER PUBLICATION {self.publication} ADD TABLE {self.server.called}, or give another `publication`",
            )
        place = self._place()
        if place is None:
            connection.execute(
                "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self.slot,)
            )
            place = self._place()
        assert place is not None
        return place

    def _place(self) -> str | None:
        """Where the slot stands; None where there is none."""
        found = self.server.connection.execute(
            "SELECT confirmed_flush_lsn::text, plugin, wal_status FROM pg_replication_slots WHERE slot_name = %s",
            (self.slot,),
        ).fetchone()
        if found is None:
            return None
        if found[1] != "pgoutput" or found[2] == "lost":
            raise self._lost(
                f"has the plugin {found[1]}"
                if found[2] != "lost"
                else "is lost: it was too far behind"
            )
        return str(found[0])

    def _lost(self, what: str) -> FeedLost:
        return FeedLost(
            f"the slot `{self.slot}` of `{self.name}` {what}",
            hint=f"what changed since is not known: SELECT pg_drop_replication_slot('{self.slot}'), drop the source and declare it again",
        )

    def _changes(self, mine: list[Column], after: dict[str, str], limit: Limit) -> Batch | None:
        """What whole transactions behind the cursor changed, as many as `limit` takes and one at least."""
        place = self._place()
        if place is None:
            raise self._lost("is gone")
        if lsn_of(place) > lsn_of(after["lsn"]):
            raise self._lost(f"is at {place}, and `{self.name}` at {after['lsn']}")
        connection = self.server.connection
        now = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        assert now is not None
        most, end, net = limit.rows, lsn_of(after["lsn"]), Net[Any](bool(self.key))
        while True:
            with connection.cursor(binary=True) as cursor:
                cursor.execute(
                    "SELECT xid, data FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, %s,"
                    " 'proto_version', '1', 'publication_names', %s)",
                    (self.slot, now[0], most, self.publication),
                )
                told = [(int.from_bytes(xid, "big"), data) for xid, data in cursor]
            for t in Decoder().transactions(told):
                if t.end > end:
                    end = t.end
                    if not (t.end <= lsn_of(after["until"]) and _saw(after["seen"], t.xid)):
                        self._take(mine, t, net)
                    if net.events >= limit.rows:
                        break
            if net.events or len(told) < most:
                break
            most *= 2  # all of them were taken before: the slot has not moved on yet
        if not net.events:
            end = max(end, lsn_of(now[0]))
            if end - lsn_of(after["lsn"]) < IDLE:
                return None
        cursor_ = {**after, "lsn": lsn_text(end)}
        return self._batch(net, cursor_, f"log {cursor_['lsn']}")

    def _take(self, mine: list[Column], t: Transaction, net: Net[Any]) -> None:
        """Adds what a transaction changed."""
        for c in t.changes:
            if isinstance(c, Truncated):
                if any(self._is_mine(r) for r in c.relations):
                    net.truncate()
            elif self._is_mine(c.relation):
                self._take_row(self._places(mine, c.relation), c, net, t)

    def _take_row(self, places: Sequence[int], c: RowChange, net: Net[Any], t: Transaction) -> None:
        new = None if c.new is None else tuple(c.new[i] for i in places)
        old = None if c.old is None else tuple(c.old[i] for i in places)
        if new is not None and UNTOLD in new:
            raise BadChange(
                f"an update of {self.server.called} at log {lsn_text(t.end)} does not tell a large value that it left as it was",
                hint=f"ALTER TABLE {self.server.called} REPLICA IDENTITY FULL; then drop slot and source, and declare it again",
            )
        if not self.key:
            if old is not None:
                net.delete(None, old)
            if new is not None:
                net.insert(None, new)
            return
        gone = None if old is None else self._key(old)
        if new is None:
            net.delete(gone)
        elif c.inserted:
            net.insert(self._key(new), new)
        else:
            at = self._key(new)
            if gone is not None and gone != at:  # the new key was free
                net.delete(gone)
                net.insert(at, new)
            else:
                net.put(at, new)

    def _is_mine(self, r: Relation) -> bool:
        return (r.schema, r.name) == (self.server.schema, self.server.table)

    def _places(self, mine: list[Column], r: Relation) -> list[int]:
        """Where the source's columns are in a row of the table as it was then."""
        missing = [c.name for c in mine if c.name not in r.columns]
        if missing:
            raise FeedLost(
                f"the table {self.server.called} has no column `{missing[0]}` any more, which `{self.name}` has",
                hint="drop the source and declare it with the columns that there are",
            )
        if self.declared.options.get("new_columns") == "stop" and len(r.columns) > len(mine):
            new = next(c for c in r.columns if c not in {m.name for m in mine})
            raise BadChange(
                f"the table {self.server.called} has a new column `{new}`, which `{self.name}` has not",
                hint="declare the source again with it, or with the option new_columns=ignore",
            )
        return [r.columns.index(c.name) for c in mine]

    def _key(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """The key of a row as texts, of which equal ones are equal: 1.0 is 1.00."""
        out = []
        for (n, _), c, v in zip(self.declared.row.fields, self.columns or (), row, strict=True):
            if n in self.key:
                out.append(
                    str(Decimal(v).normalize()) if c.typename == "numeric" and v is not None else v
                )
        return tuple(out)

    # --- a cursor column -------------------------------------------------------------------------------------------

    def _behind(self, mine: list[Column], after: Cursor, limit: Limit) -> Batch | None:
        """Rows above the last value of the cursor column, all of equal ones."""
        assert self.by is not None
        by = sql.Identifier(self.by)
        names = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(c.name)) for c in mine)
        above: sql.Composable = sql.SQL("")
        if after is not None:
            above = sql.SQL("WHERE {} > {}").format(by, sql.Literal(after["value"]))
        told = sql.SQL(
            "SELECT {}, {}::text FROM {} {} ORDER BY {} FETCH FIRST {} ROWS WITH TIES"
        ).format(names, by, self.server.named, above, by, sql.Literal(limit.rows))
        found = self.server.connection.execute(told).fetchall()
        if not found:
            return None
        net = Net[Any](bool(self.key))
        for *row, _ in found:
            if self.key:
                net.put(self._key(row), tuple(row))
            else:
                net.insert(None, tuple(row))
        at = found[-1][-1]
        return self._batch(net, {"value": at}, f"up to {self.by} = {at}")

    # --- rows ----------------------------------------------------------------------------------------------------

    def _batch(self, net: Net[Any], cursor: Cursor, place: str) -> Batch:
        """A batch of what changes come to."""
        fields = self.declared.row.fields
        if self.key:
            puts, rejected = self._typed(_columns(net.puts(), len(fields)), place)
            keys = [(n, t) for n, t in fields if n in self.key]
            gone = net.gone()
            deletes = {n: typed([k[i] for k in gone], t) for i, (n, t) in enumerate(keys)}
            given = puts
            if not net.whole:
                given = by_key(self.declared.row, self.key, puts, pa.table(deletes))
            return Batch(given, cursor, rejected=rejected, whole=net.whole)
        weighted = net.weighted()
        columns = _columns([r for r, _ in weighted], len(fields))
        rows, rejected = self._typed(columns, place, [w for _, w in weighted])
        return Batch(rows, cursor, rejected=rejected, whole=net.whole)

    def _typed(
        self, columns: Sequence[Any], place: str, weights: list[int] | None = None
    ) -> tuple[pa.Table, pa.Table | None]:
        """Columns of texts in the types of the source, and what does not fit."""
        fields = self.declared.row.fields
        try:
            made = {n: typed(c, t) for (n, t), c in zip(fields, columns, strict=True)}
        except (pa.ArrowException, ValueError):
            return self._fitting(columns, place, weights)
        if weights is not None:
            made[WEIGHT] = pa.array(weights, pa.int64())
        return pa.table(made), None

    def _fitting(
        self, columns: Sequence[Any], place: str, weights: list[int] | None
    ) -> tuple[pa.Table, pa.Table | None]:
        """The rows that fit, and the others with the column that does not."""
        fields = self.declared.row.fields
        texts = [c if isinstance(c, list) else c.to_pylist() for c in columns]
        why: dict[int, str] = {}
        for (n, t), column in zip(fields, texts, strict=True):
            for i in unfitting(column, t):
                why.setdefault(i, f"`{n}` is {column[i]!r}, which is no {t}")
        rows = list(zip(*texts, strict=True))
        if self.declared.bad == "stop":
            i = min(why)
            raise BadChange(
                f"a row of {self.server.called} does not fit `{self.name}` ({place}): {why[i]}",
                hint='change the row, or declare the source with bad="skip" or "aside"',
            )
        kept = [i for i in range(len(rows)) if i not in why]
        table, _ = self._typed(
            _columns([rows[i] for i in kept], len(fields)),
            place,
            None if weights is None else [weights[i] for i in kept],
        )
        told = {
            "record": [str(dict(zip([n for n, _ in fields], rows[i], strict=True))) for i in why],
            "place": [f"{self.server.called}, {place}"] * len(why),
            "why": list(why.values()),
        }
        return table, pa.table({n: pa.array(v, pa.string()) for n, v in told.items()})


def _by_size(messages: Iterable[Any]) -> Iterator[bytes]:
    """What COPY sends, a row a message, put together as far as is read at a time; at least once, for no rows have columns too."""
    held, size = list[bytes](), 0
    for message in messages:
        held.append(bytes(message))
        size += len(held[-1])
        if size >= READ:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def _columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Rows turned into columns."""
    return [list(c) for c in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def _from_csv(data: bytes, width: int) -> list[Any]:
    """What COPY gives, as columns of texts; NULL is what has no quotes and nothing in it."""
    names = [str(i) for i in range(width)]
    if not data:
        return [pa.array([], pa.string()) for _ in names]
    table = pa_csv.read_csv(
        io.BytesIO(data),
        read_options=pa_csv.ReadOptions(column_names=names, block_size=max(1 << 24, 1)),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types={n: pa.large_string() for n in names},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return [table.column(n) for n in names]


def _saw(snapshot: str, xid: int) -> bool:
    """Whether a snapshot (`xmin:xmax:running`) sees what a transaction did; xid has 32 bits and goes round."""
    _, xmax, running = snapshot.split(":")
    if xid in {int(x) & 0xFFFFFFFF for x in running.split(",") if x}:
        return False
    return (xid - int(xmax)) & 0xFFFFFFFF >= 1 << 31
