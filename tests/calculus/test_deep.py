"""Queries that are deeper than Python's stack: read, kept and shown all the same, or refused by name; never an error of Python."""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path

import pytest

import headwater as hw
from headwater.calculus.deep import LEVELS, with_room
from headwater.errors import NotIncremental


def summing(path: Path, summands: int) -> hw.Query:
    """A comprehension with so many summands, from a file as a query must be."""
    file = path / f"of_{summands}.py"
    file.write_text(
        f"def q(x):\n    return [{{'s': {' + '.join(['a.v'] * summands)}}} for a in x]\n"
    )
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return hw.query(module.q)


@pytest.mark.parametrize("summands", [200, 1000])
def test_a_comprehension_with_many_summands(tmp_path: Path, summands: int) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("x", "v BIGINT")
        db.view("q", summing(tmp_path, summands))
        db.apply({"x": [(2,)]})
        assert db.table("q").to_pylist() == [{"s": 2 * summands, "_w": 1}]
        assert "a.v" in str(db.explain("q")) or db.explain("q") is not None
    with hw.open(tmp_path / "db") as db:  # whose program is compiled again
        db.apply({"x": hw.Delta(inserts=[(3,)], deletes=[(2,)])})
        assert db.table("q").to_pylist() == [{"s": 3 * summands, "_w": 1}]


def test_many_branches(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("x", "v BIGINT")
        db.view("many", " UNION ALL ".join(["SELECT v FROM x"] * 400))
        db.apply({"x": [(2,)]})
        assert db.table("many").to_pylist() == [{"v": 2, "_w": 400}]


# --- the room ------------------------------------------------------------------------------------------------------


def depth(n: int) -> int:
    return 0 if n == 0 else 1 + depth(n - 1)


def test_what_is_deeper_is_done_again_with_room() -> None:
    limit = sys.getrecursionlimit()
    assert with_room(depth)(limit + 10) == limit + 10
    assert sys.getrecursionlimit() == limit and threading.stack_size() == 0


def test_what_is_too_deep_for_that_is_refused() -> None:
    with pytest.raises(NotIncremental, match="TOO_DEEP"):
        with_room(depth)(10 * LEVELS)
    assert with_room(depth)(20) == 20  # and all goes on


def test_one_room_is_enough() -> None:
    threads: list[threading.Thread] = []

    @with_room
    def inner(n: int) -> int:
        threads.append(threading.current_thread())
        return depth(n)

    outer = with_room(lambda n: inner(n))
    assert outer(2000) == 2000
    assert len(threads) == 2 and threads[0] is threading.current_thread()


def test_other_errors_come_through() -> None:
    @with_room
    def fails(n: int) -> int:
        depth(n)
        raise KeyError("mine")

    for n in (10, 2000):
        with pytest.raises(KeyError, match="mine"):
            fails(n)


@pytest.mark.spark
def test_deep_queries_in_tasks(tmp_path: Path) -> None:
    from spark_session import session

    with hw.open(tmp_path / "db", session()) as db:
        db.policy.execution = "spark"
        db.source("x", "v BIGINT")
        db.view("s", f"SELECT {' + '.join(['v'] * 300)} AS s FROM x")
        db.view("o", f"SELECT v FROM x WHERE {' OR '.join(f'v = {i}' for i in range(1000))}")
        db.view("u", " UNION ALL ".join(["SELECT v FROM x"] * 400))
        cases = " ".join(f"WHEN v = {i} THEN {i}" for i in range(200))
        db.view("c", f"SELECT CASE {cases} END AS c FROM x")
        db.apply({"x": [(2,)]})
        assert db.table("s").to_pylist() == [{"s": 600, "_w": 1}]
        assert db.table("o").to_pylist() == [{"v": 2, "_w": 1}]
        assert db.table("u").to_pylist() == [{"v": 2, "_w": 400}]
        assert db.table("c").to_pylist() == [{"c": 2, "_w": 1}]
