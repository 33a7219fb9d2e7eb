"""A TCP socket as a feed: lines that a server sends, as records of json, csv or text.

    format="socket", options={"host": "localhost", "port": 9999, "lines": "json"}

A socket cannot be asked for anything again, so its rows come *at least once* at best, and lines that were read and not
committed are lost with their process: `replays` is False, and `status` says so. Lines that do not fit are told with their
number since the connection was made. The cursor is how many lines were taken in all, which nobody asks for again.
"""

from __future__ import annotations

import socket
import time
from typing import ClassVar

from headwater.errors import FeedAway
from headwater.feeds.feed import Batch, Cursor, Declared, Limit
from headwater.feeds.records import Record, reader_of
from headwater.io.files import check_held

CONNECT = 5.0
"""Seconds until a server that does not answer is away."""
CHUNK = 1 << 16
SHORT = 0.05
"""Seconds that are waited for more lines, once there are some."""


class SocketFeed:
    """Reads lines; `held` are those that were given and not committed, which come again while the process lives."""

    replays: ClassVar[bool] = False

    def __init__(self, declared: Declared):
        self.declared = declared
        self.host, self.port = declared.options["host"], declared.number("port", 0)
        self.reader = reader_of(declared, declared.options.get("lines", "json"))
        self.socket: socket.socket | None = None
        self.rest = b""
        self.held: list[Record] = []
        self.count = 0

    def read(self, after: Cursor, limit: Limit) -> Batch | None:
        if not self.held:
            self._receive(limit)
        if not self.held:
            return None
        found = self.reader.lines(self.held)
        return Batch(found.table, int(after or 0) + len(self.held), rejected=found.rejected)

    def committed(self, cursor: Cursor) -> None:
        """Lines that were committed are let go."""
        self.held = []

    def close(self) -> None:
        """Ends the connection; lines that were read stay until they are committed."""
        if self.socket is not None:
            self.socket.close()
        self.socket, self.rest, self.count = None, b"", 0

    def _receive(self, limit: Limit) -> None:
        """Takes the lines that are there, up to a limit, waiting a little for the first and less for more."""
        until = time.monotonic() + limit.seconds
        size = 0
        while len(self.held) < limit.rows and size < limit.bytes:
            wait = SHORT if self.held else min(limit.seconds, SHORT * 4)
            if time.monotonic() > until:
                break
            data = self._more(wait)
            if not data:
                break
            size += len(data)
            *lines, self.rest = (self.rest + data).split(b"\n")
            for line in lines:
                self.count += 1
                place = f"line {self.count} of {self.host}:{self.port}"
                if line.strip() or self.reader.format == "text":
                    self.held.append(Record(line.removesuffix(b"\r"), place))

    def _more(self, wait: float) -> bytes:
        """What comes next; nothing where nothing does. A server that ends the connection is away until it is back."""
        try:
            if self.socket is None:
                self.socket = socket.create_connection((self.host, self.port), CONNECT)
            self.socket.settimeout(wait)
            data = self.socket.recv(CHUNK)
        except TimeoutError:
            if self.socket is None:
                raise self._away("does not answer") from None
            return b""
        except OSError as e:
            self.close()
            raise self._away(e.strerror or str(e)) from e
        if not data:
            last, self.rest = self.rest, b""
            if last.strip():  # a last line without an end
                return last + b"\n"
            self.close()
            if not self.held:
                raise self._away("ended the connection")
        return data

    def _away(self, why: str) -> FeedAway:
        return FeedAway(
            f"{self.host}:{self.port}: {why}",
            hint="start the server; it is tried again, and lines that it sent meanwhile are not known here",
        )


def check(declared: Declared) -> None:
    """Raises where lines of the format cannot hold rows of the source."""
    check_held(declared.name, declared.row, declared.options.get("lines", "json"))
