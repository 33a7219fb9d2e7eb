"""What PostgreSQL's plugin `pgoutput` tells of a table, read from its messages: whole transactions, in the order of their commits.

A message is a letter and what follows it, as PostgreSQL's manual has it under "Logical Replication Message Formats", version 1
of the protocol. Values are text, as the session of the reader prints them. A value that an update left where it was, out of
line, is not told: it is taken from the old row where that is whole (replica identity FULL), and is `UNTOLD` where it is not.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from headwater.errors import FeedLost

UNTOLD = object()
"""A value that an update did not touch and that nobody told."""

Values: TypeAlias = Sequence[Any]
"""A row as texts, None for NULL, in the order of the table's columns."""


@dataclass(frozen=True)
class Relation:
    """A table as it was when its next changes were made: its columns, and which of them are told of a row that goes."""

    schema: str
    name: str
    identity: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    types: tuple[int, ...]


@dataclass(frozen=True)
class RowChange:
    """A row that came, went (no `new`) or became another; `old` may have its key alone, or be missing where that stayed."""

    inserted: bool
    relation: Relation
    old: Values | None
    new: Values | None
    whole: bool = False
    """Whether `old` has all columns."""


@dataclass(frozen=True)
class Truncated:
    """All rows of the tables went."""

    relations: tuple[Relation, ...]


@dataclass
class Transaction:
    """What one transaction did, and the place behind its commit."""

    xid: int
    end: int
    changes: list[RowChange | Truncated] = field(default_factory=list)


def lsn_text(lsn: int) -> str:
    """A place in the log as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """The number of a place in the log."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


class Decoder:
    """Puts messages together; relations are told once and remembered while messages follow each other."""

    def __init__(self) -> None:
        self.relations: dict[int, Relation] = {}

    def transactions(self, messages: Iterable[tuple[int, bytes]]) -> Iterator[Transaction]:
        """The transactions whose commits are among the messages."""
        now: Transaction | None = None
        for xid, data in messages:
            kind = data[:1]
            if kind == b"B":
                now = Transaction(xid, 0)
            elif kind == b"C":
                assert now is not None
                now.end = struct.unpack_from(">Q", data, 10)[0]
                yield now
                now = None
            elif kind == b"R":
                self._relation(data)
            elif kind in b"IUD":
                assert now is not None
                now.changes.append(self._change(kind, data))
            elif kind == b"T":
                assert now is not None
                count = struct.unpack_from(">I", data, 1)[0]
                ids = struct.unpack_from(f">{count}I", data, 6)
                now.changes.append(Truncated(tuple(self.relations[i] for i in ids)))
            elif kind not in (b"O", b"Y", b"M"):  # origins, types and messages change no row
                raise FeedLost(
                    f"PostgreSQL told a change of a kind that is not known: {kind!r}",
                    hint="make a new slot with the plugin pgoutput",
                )

    def _relation(self, data: bytes) -> None:
        oid = struct.unpack_from(">I", data, 1)[0]
        schema, at = _name(data, 5)
        name, at = _name(data, at)
        identity = chr(data[at])
        count = struct.unpack_from(">H", data, at + 1)[0]
        at += 3
        columns, keys, types = [], [], []
        for _ in range(count):
            flag = data[at]
            column, at = _name(data, at + 1)
            types.append(struct.unpack_from(">I", data, at)[0])
            at += 8
            columns.append(column)
            if flag & 1:
                keys.append(column)
        self.relations[oid] = Relation(
            schema, name, identity, tuple(columns), tuple(keys), tuple(types)
        )

    def _change(self, kind: bytes, data: bytes) -> RowChange:
        relation = self.relations[struct.unpack_from(">I", data, 1)[0]]
        at, old, new, whole = 5, None, None, False
        if data[at : at + 1] in (b"K", b"O"):
            whole = data[at : at + 1] == b"O"
            old, at = _row(data, at + 1)
        if kind != b"D":
            new, at = _row(data, at + 1)
            if old is not None and whole:
                new = [o if n is UNTOLD else n for o, n in zip(old, new, strict=True)]
        return RowChange(kind == b"I", relation, old, new, whole)


def _name(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _row(data: bytes, at: int) -> tuple[list[Any], int]:
    """The values of a row, and the place behind them."""
    count = (data[at] << 8) + data[at + 1]
    at += 2
    out: list[Any] = []
    for _ in range(count):
        mark = data[at]
        if mark == 0x74:  # t: text
            size = int.from_bytes(data[at + 1 : at + 5], "big")
            at += 5 + size
            out.append(data[at - size : at].decode())
        else:  # n: NULL, u: unchanged and out of line
            out.append(None if mark == 0x6E else UNTOLD)
            at += 1
    return out, at
