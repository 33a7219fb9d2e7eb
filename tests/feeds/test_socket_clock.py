"""Sockets and clocks: lines as they come, and one row that says the time."""

from __future__ import annotations

import json
import socket
import threading
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import QueryError, StageFailed
from headwater.feeds.clock import ClockFeed


@pytest.fixture
def db(tmp_path: Path) -> hw.Database:
    return hw.open(tmp_path / "db")


class Server:
    """Sends to whoever connects what it is given, and ends the connection."""

    def __init__(self, *parts: bytes):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.parts = list(parts)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        for part in self.parts:
            connection, _ = self.listener.accept()
            connection.sendall(part)
            connection.close()
        self.listener.close()


def lines(*ids: Any) -> bytes:
    return "".join(json.dumps({"id": i}) + "\n" for i in ids).encode()


def test_lines_of_a_socket_are_rows_and_bad_ones_are_set_aside(db: hw.Database) -> None:
    server = Server(lines(1, 2, "x", 3), lines(4)[:-1])
    options = {"host": "127.0.0.1", "port": server.port}
    db.source("t", "id BIGINT", format="socket", options=options, bad="aside")
    done = db.run(always=True, seconds=3)
    assert sorted(r["id"] for r in db.table("t").to_pylist()) == [1, 2, 3, 4]
    (aside,) = db.table("t_rejected").to_pylist()
    assert (
        aside["record"] == '{"id": "x"}' and f"line 3 of 127.0.0.1:{server.port}" in aside["place"]
    )
    assert done.rows == {"t": 4} and done.rejected == {"t": 1}
    assert list(done.away) == ["t"]  # it ended the connection, and nobody listens


def test_a_server_that_is_not_there_is_away(db: hw.Database) -> None:
    db.source(
        "t",
        "line STRING",
        format="socket",
        options={"host": "127.0.0.1", "port": 1, "lines": "text"},
    )
    with pytest.raises(StageFailed, match=r"the feed of `t` is away: 127.0.0.1:1") as told:
        db.run()
    assert "start the server" in str(told.value)
    for options, named in (({"host": "x"}, "`port`"), ({"host": "x", "port": "y"}, "'y'")):
        with pytest.raises(QueryError, match=named):
            db.source("u", "line STRING", format="socket", options=options)


def test_a_clock_is_one_row_that_views_join(
    db: hw.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = [datetime(2026, 3, 1, 23, 59, 58).timestamp()]
    monkeypatch.setattr(ClockFeed, "_now", lambda self: time[0])
    db.source("clock", "now TIMESTAMP, today DATE", format="clock", options={"every": 1})
    db.source("due", "id BIGINT, day DATE")
    db.view("late", "SELECT id FROM due JOIN clock ON day < today")
    db.apply({"due": [(1, date(2026, 3, 1)), (2, date(2026, 3, 5))]})
    assert db.run().epochs == ["clock"] and db.table("late").num_rows == 0
    assert db.run().epochs == []
    for seconds, wanted in ((5, [1]), (4 * 86400, [1, 2])):
        time[0] += seconds
        db.run()
        assert sorted(r["id"] for r in db.table("late").to_pylist()) == wanted
        assert db.table("clock").num_rows == 1
    with pytest.raises(QueryError, match="nothing that a clock gives"):
        db.source("c", "now STRING", format="clock")
