"""Joins that are only counted beside NOT EXISTS: their number is read from the group that asks, and they are not joined again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from beside_lists import Beside, opened


@pytest.fixture
def b(tmp_path: Path) -> Iterator[Beside]:
    for made in opened(tmp_path):
        made.source("p", "k BIGINT, name STRING")
        made.source("l", "k BIGINT, o BIGINT, q BIGINT")
        made.source("o", "o BIGINT, n BIGINT")
        made.source("s", "k BIGINT, n BIGINT")
        yield made


def changed(b: Beside, rounds: int) -> None:
    """Random rows with duplicates and NULLs in all keys come and go."""
    pick = random.Random(3)

    def key() -> Any:
        return pick.choice((None, 1, 2, 3, 4))

    rows: dict[str, Any] = {
        "p": lambda: {"k": key(), "name": pick.choice("ab")},
        "l": lambda: {"k": key(), "o": key(), "q": pick.choice((0, 1, 2))},
        "o": lambda: {"o": key(), "n": key()},
        "s": lambda: {"k": key(), "n": key()},
    }
    there: dict[str, list[Any]] = {n: [] for n in rows}
    for turn in range(rounds):
        change = {}
        for name, made in rows.items():
            gone = [there[name].pop() for _ in range(len(there[name]) // 3)] if turn else []
            came = [made() for _ in range(pick.choice((1, 3)) if name == "s" else 6)]
            there[name] += came
            pick.shuffle(there[name])
            change[name] = hw.Delta(came, gone)
        b.apply(change)


def equal(x: Any, y: Any) -> bool:
    return x is not None and x == y


def test_a_join_is_counted_beside_the_row_that_is_shown(b: Beside) -> None:
    def meaning(p: Any, l: Any, o: Any, s: Any) -> Any:  # noqa: E741
        found = [
            x.name
            for x in p
            for y in l
            if equal(y.k, x.k)
            for z in o
            if equal(z.o, y.o)
            if not any(equal(w.k, x.k) and equal(w.n, z.n) for w in s)
        ]
        return [{"name": n, "c": found.count(n)} for n in set(found)]

    sql = """
      SELECT p.name, count(*) AS c FROM p JOIN l ON l.k = p.k JOIN o ON o.o = l.o
      WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = p.k AND s.n = o.n) GROUP BY p.name"""
    for how in ("first-order", "recursive"):
        b.view(how.partition("-")[0], sql, meaning, strategy=how)
    shown = b.db["first"].explain()
    (line,) = [t for t in shown.splitlines() if "unbox(x1.n)" in t]
    assert "[x0.k <=> x1._key0]" in line, shown
    changed(b, 6)
    b.reopened()


def test_nothing_is_shown_but_keys(b: Beside) -> None:
    b.view(
        "v",
        """SELECT l.k, o.n FROM l JOIN o ON o.o <=> l.o
           WHERE l.q > 0 AND NOT EXISTS (SELECT 1 FROM s WHERE s.k <=> l.k AND s.n = o.n)""",
        lambda l, o, s: [  # noqa: E741
            {"k": x.k, "n": y.n}
            for x in l
            if x.q > 0
            for y in o
            if y.o == x.o
            if not any(w.k == x.k and equal(w.n, y.n) for w in s)
        ],
    )
    assert "unbox(x0.n) ·" in b.db["v"].explain()
    changed(b, 6)


def test_what_is_shown_is_joined(b: Beside) -> None:
    b.view(
        "v",
        """SELECT l.q, o.n FROM l JOIN o ON o.o = l.o
           WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = l.k AND s.n = o.n)""",
        lambda l, o, s: [  # noqa: E741
            {"q": x.q, "n": y.n}
            for x in l
            for y in o
            if equal(y.o, x.o)
            if not any(equal(w.k, x.k) and equal(w.n, y.n) for w in s)
        ],
    )
    assert "unbox(" not in b.db["v"].explain()
    changed(b, 4)


def test_two_conditions_on_one_join(b: Beside) -> None:
    b.view(
        "v",
        """SELECT p.name, l.k FROM p, l, o WHERE o.o = l.o AND p.k = l.k
           AND NOT EXISTS (SELECT 1 FROM s WHERE s.k = p.k AND s.n = o.n)
           AND NOT EXISTS (SELECT 1 FROM s WHERE s.n = p.k)""",
        lambda p, l, o, s: [  # noqa: E741
            {"name": x.name, "k": y.k}
            for x in p
            for y in l
            if equal(y.k, x.k)
            for z in o
            if equal(z.o, y.o)
            if not any(equal(w.k, x.k) and equal(w.n, z.n) for w in s)
            and not any(equal(w.n, x.k) for w in s)
        ],
    )
    changed(b, 6)
