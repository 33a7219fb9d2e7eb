"""Random stories of sources that are closed part by part, with views over them: what the tests of purging draw from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import headwater as hw
from headwater.calculus.patterns import Punctuation

SOURCES = {
    "r": "a INT, b INT, t INT, s STRING",
    "q": "a INT, c INT, t INT",
    "u": "k INT, t INT, e INT",
}
VIEWS = [
    "SELECT a, b, t FROM r WHERE b > 1",
    "SELECT a, s FROM r WHERE t = 3",
    "SELECT t, count(*) AS n, sum(b) AS total FROM r GROUP BY t",
    "SELECT t div 3 AS w, max(b) AS top, min(s) AS low FROM r GROUP BY t div 3",
    "SELECT a, t + 1 AS nxt, count(DISTINCT b) AS n FROM r GROUP BY a, t + 1",
    "SELECT t, avg(b) AS mean FROM r GROUP BY t HAVING count(*) > 1",
    "SELECT DISTINCT a, t FROM r",
    "SELECT DISTINCT t div 2 AS w FROM r WHERE b < 3",
    "SELECT a, t FROM r EXCEPT SELECT a, t FROM q",
    "SELECT a, t FROM r EXCEPT ALL SELECT a, t FROM q",
    "SELECT a, t FROM r INTERSECT SELECT a, t FROM q",
    "SELECT a, t FROM r UNION SELECT a, t FROM q",
    "SELECT a, t FROM r UNION ALL SELECT a, t FROM q",
    "SELECT r.a, r.b, q.c, r.t FROM r JOIN q ON r.a = q.a AND r.t = q.t",
    "SELECT r.t, sum(r.b * q.c) AS x FROM r JOIN q ON r.a = q.a AND r.t = q.t GROUP BY r.t",
    "SELECT r.a, r.t, u.e FROM r JOIN u ON r.a = u.k AND r.t <= u.e",
    "SELECT r.a, r.t, q.t AS qt FROM r JOIN q ON r.a = q.a AND q.t BETWEEN r.t AND r.t + 2",
    "SELECT u.k, count(*) AS n FROM u JOIN r ON u.k = r.a AND r.t >= u.t AND r.t < u.t + 3 GROUP BY u.k",
    "SELECT r.a, r.t, q.c FROM r LEFT JOIN q ON r.a = q.a AND r.t = q.t",
    "SELECT r.a, q.c, coalesce(r.t, q.t) AS t FROM r FULL JOIN q ON r.a = q.a AND r.t = q.t",
    "SELECT r.t, count(q.c) AS n FROM r LEFT JOIN q ON r.a = q.a AND r.t = q.t GROUP BY r.t",
    "SELECT a, t FROM r WHERE EXISTS (SELECT 1 FROM q WHERE q.a = r.a AND q.t = r.t)",
    "SELECT a, t FROM r WHERE NOT EXISTS (SELECT 1 FROM q WHERE q.a = r.a AND q.t = r.t AND q.c > 1)",
    "SELECT a, b, t FROM r WHERE b > (SELECT avg(c) FROM q WHERE q.t = r.t)",
    "SELECT a, b FROM r WHERE t IN (SELECT t FROM q WHERE c = 2)",
    "SELECT count(*) AS n, sum(b) AS total FROM r",
    "SELECT a, count(*) AS n FROM r GROUP BY a",
    "SELECT t, a, rank() OVER (PARTITION BY t ORDER BY b, a, s) AS place FROM r",
    "SELECT a, t, lag(t) OVER (PARTITION BY a ORDER BY t, b, s) AS before FROM r",
    "SELECT a, t, b, lag(b, 2) OVER (PARTITION BY a ORDER BY t, b, s) AS before FROM r",
    "SELECT a, t, c, lead(c) OVER (PARTITION BY a ORDER BY t, c) AS nxt FROM q",
    "SELECT a, t, sum(c) OVER (PARTITION BY a ORDER BY t ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS three FROM q",
    "SELECT a, t, row_number() OVER (PARTITION BY a ORDER BY t, c) AS place FROM q",
    "SELECT a, t, max(c) OVER (PARTITION BY a ORDER BY t RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS top FROM q",
    "SELECT t, b, sum(b) OVER (PARTITION BY t ORDER BY a, b, s) AS so_far FROM r",
    "SELECT a, t, b FROM r WHERE t >= 2 AND t < 9 AND a = 1",
    "SELECT r.t, max(q.c) AS top FROM r JOIN q ON r.t = q.t GROUP BY r.t",
    "SELECT x.w, count(*) AS n FROM (SELECT t div 2 AS w, a FROM r GROUP BY t div 2, a) x GROUP BY x.w",
    "SELECT r.t, r.a, y.n FROM r JOIN (SELECT t, count(*) AS n FROM q GROUP BY t) y ON r.t = y.t",
    "SELECT u.k, u.t, u.e FROM u WHERE e > 3",
    "SELECT e - 2 AS w, count(*) AS n FROM u GROUP BY e - 2",
    "SELECT t, percentile(b, 0.5) AS mid FROM r GROUP BY t",
    "SELECT r.a, r.t FROM r, u WHERE r.t = u.t AND u.k = 2",
]
OVER = [
    "SELECT n, count(*) AS m FROM {0} GROUP BY n",
    "SELECT t, max(n) AS top FROM {0} GROUP BY t",
    "SELECT {0}.t, {0}.n, q.c FROM {0} JOIN q ON {0}.t = q.t",
]
"""Views over the view of counts by time."""


LOOPS = [
    """WITH RECURSIVE x AS (SELECT a, b, t FROM r UNION SELECT x.a, r.b, r.t FROM x JOIN r ON r.a = x.b AND r.t = x.t)
    SELECT * FROM x""",
    """WITH RECURSIVE x AS (SELECT a, b FROM r UNION SELECT x.a, q.c FROM x JOIN q ON q.a = x.b) SELECT a, count(*) AS n FROM x GROUP BY a""",
    """WITH RECURSIVE x (a, t, n) AS (SELECT a, t, 1 FROM r WHERE b = 1 UNION ALL SELECT q.c, q.t, x.n + 1 FROM x
    JOIN q ON q.a = x.a AND q.t > x.t) SELECT t, count(*) AS n, max(n) AS most FROM x GROUP BY t""",
    """WITH RECURSIVE x AS (SELECT a, t FROM r WHERE t = 2 UNION SELECT q.c, q.t FROM x JOIN q ON q.a = x.a AND q.t = x.t + 1) SELECT * FROM x""",
    """WITH RECURSIVE x AS (SELECT a, t FROM r WHERE t = 3 UNION SELECT q.c, q.t FROM x JOIN q ON q.a = x.a AND q.t = 3) SELECT * FROM x""",
    """WITH MUTUALLY RECURSIVE x (a INT, n INT) AS (SELECT a, min(n) FROM (SELECT k AS a, e AS n FROM u UNION ALL
    SELECT r.b, x.n + r.t FROM x JOIN r ON r.a = x.a) GROUP BY a) SELECT * FROM x WHERE n < 9""",
    """WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 3) x (a INT, t INT) AS (SELECT a, t FROM r WHERE NOT EXISTS
    (SELECT 1 FROM y WHERE y.a = r.b)), y (a INT, t INT) AS (SELECT a, t FROM q WHERE a IN (SELECT a FROM x)) SELECT * FROM y""",
    """WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 4) x (t INT, n BIGINT) AS (SELECT r.t, count(x.n) FROM r
    LEFT JOIN x ON x.t = r.t - 1 GROUP BY r.t) SELECT * FROM x""",
]
"""Views with a loop, over the same sources."""


@dataclass
class Story:
    """What is declared, and the changes with the punctuations that follow them."""

    closes: dict[str, Any]
    append_only: set[str]
    views: dict[str, str]
    steps: list[tuple[dict[str, Any], dict[str, Punctuation]]] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=lambda: SOURCES)
    pool: Sequence[str] = tuple(VIEWS)
    """Views that may be defined later."""
    keys: dict[str, str] = field(default_factory=dict)


def looped_story(seed: int, steps: int = 6) -> Story:
    """A random story whose views have loops, or stand over one."""
    made, rng = story(seed, steps, 1), random.Random(seed)
    first, second = LOOPS[seed % len(LOOPS)], rng.choice(LOOPS)
    made.views = {**made.views, "v0": first, "v1": second}
    made.views["counted"] = "SELECT count(*) AS n FROM v0"
    made.pool = tuple(LOOPS)
    return made


def story(seed: int, steps: int = 8, views: int = 4) -> Story:
    """A random story in which no row comes late."""
    rng = random.Random(seed)
    closes: dict[str, Any] = {}
    for name in SOURCES:
        closes[name] = rng.choice(
            [
                "t",
                "t",
                "t",
                ("a", "t") if name != "u" else ("k", "t"),
                ["t", "a" if name != "u" else "e"],
                (),
            ]
        )
    made = Story(closes, {n for n in SOURCES if rng.random() < 0.4}, {})
    # One view after another, so that a few stories have them all; the rest by chance.
    chosen = [VIEWS[seed % len(VIEWS)], *rng.sample(VIEWS, views - 1)]
    made.views = {f"v{i}": q for i, q in enumerate(chosen)}
    if rng.random() < 0.5:
        made.views["base"] = "SELECT t, count(*) AS n FROM r GROUP BY t"
        made.views["over"] = rng.choice(OVER).format("base")
    there: dict[str, list[tuple[Any, ...]]] = {n: [] for n in SOURCES}
    closed: dict[str, list[Punctuation]] = {n: [] for n in SOURCES}
    low = 0
    for _ in range(steps):
        change: dict[str, Any] = {}
        for name in SOURCES:
            if rng.random() < 0.25:
                continue
            rows = [_row(rng, name, low) for _ in range(rng.randint(0, 5))]
            rows = [x for x in rows if not _late(name, x, closed, closes)]
            gone: list[tuple[Any, ...]] = []
            if name not in made.append_only:
                open_ = [x for x in there[name] if not _late(name, x, closed, closes)]
                gone = rng.sample(open_, min(len(open_), rng.randint(0, 2)))
            for x in gone:
                there[name].remove(x)
            there[name] += rows
            if rows or gone:
                change[name] = hw.Delta(inserts=rows, deletes=gone)
        points: dict[str, Punctuation] = {}
        for name in SOURCES:
            if closes[name] != () and rng.random() < 0.5:
                p = _point(rng, name, closes[name], low)
                points[name] = p
                closed[name].append(p)
        made.steps.append((change, points))
        low += rng.choice([0, 1, 1, 2])
    return made


# --- sessions ----------------------------------------------------------------------------------------------------------

MOMENTS = {"m": "a INT, ts TIMESTAMP, b INT", "q": "a INT, ts TIMESTAMP"}
SESSIONS = [
    "SELECT a, session_window.start AS s, session_window.end AS e, count(*) AS n FROM m GROUP BY a, session_window(ts, '3 seconds')",
    "SELECT session_window.start AS s, sum(b) AS x FROM m GROUP BY session_window(ts, '2 seconds')",
    "SELECT session_window, a, max(b) AS top FROM m WHERE b > 0 GROUP BY session_window(ts, '4 seconds'), a",
    "SELECT a, b, session_window.start AS s, count(*) AS n FROM m GROUP BY session_window(ts, '3 seconds'), a, b",
    "SELECT a, session_window.start AS s, count(*) AS n FROM m GROUP BY a, session_window(ts, '6 seconds')",
    "SELECT x.a, count(*) AS n FROM (SELECT a, session_window.start AS s FROM m GROUP BY a, session_window(ts, '3 seconds')) x GROUP BY x.a",
    "SELECT x.s, count(*) AS n FROM (SELECT a, session_window.start AS s FROM m GROUP BY a, session_window(ts, '3 seconds')) x GROUP BY x.s",
    "SELECT x.a, x.s, q.ts FROM (SELECT a, session_window.start AS s FROM m GROUP BY a, session_window(ts, '3 seconds')) x "
    "JOIN q ON x.a = q.a AND x.s <= q.ts AND q.ts <= x.s + INTERVAL 4 SECONDS",
    "SELECT x.a, session_window.start AS t, count(*) AS n FROM (SELECT a, session_window.start AS s FROM m "
    "GROUP BY a, session_window(ts, '2 seconds')) x GROUP BY x.a, session_window(x.s, '5 seconds')",
    "SELECT a, session_window.start AS s, count(*) AS n FROM (SELECT a, ts FROM m UNION ALL SELECT a, ts FROM q) x "
    "GROUP BY a, session_window(ts, '3 seconds')",
    "SELECT a, count(*) AS n FROM m WHERE ts IS NOT NULL GROUP BY a",
    "SELECT a, ts, lag(ts) OVER (PARTITION BY a ORDER BY ts) AS before FROM m",
]


def moment(second: float) -> datetime:
    """A time so many seconds after the beginning of all stories."""
    return datetime(2024, 1, 1) + timedelta(seconds=second)


def sessions_story(seed: int, steps: int = 8, views: int = 3) -> Story:
    """A random story of sessions, in which no row comes late."""
    rng = random.Random(seed)
    closes = {
        n: rng.choice(["ts", "ts", "ts", ("a", "ts"), ["ts", "a"]] + [()] * (n == "q"))
        for n in MOMENTS
    }
    chosen = [SESSIONS[seed % len(SESSIONS)], *rng.sample(SESSIONS, views - 1)]
    named = {f"v{i}": q for i, q in enumerate(chosen)}
    only = {n for n in MOMENTS if rng.random() < 0.3}
    made = Story(closes, only, named, sources=MOMENTS, pool=SESSIONS)

    def row(name: str, low: int, _: Rows) -> tuple[Any, ...]:
        ts = moment(low + rng.choice([-2, 0, 1, 2, 3, 4, 6, 8]))
        return (rng.randint(0, 2), ts, rng.randint(0, 2))[: 3 if name == "m" else 2]

    def point(name: str, low: int) -> Punctuation:
        given = closes[name]
        time = rng.choice(
            [hw.below(moment(low)), hw.upto(moment(low)), hw.below(moment(low + 2)), moment(low)]
        )
        if isinstance(given, tuple):
            return hw.closed(a=rng.choice([0, 1, {1, 2}, hw.anything]), ts=time)
        if isinstance(given, list) and rng.random() < 0.1:
            return hw.closed(a=0)
        return hw.closed(ts=time)

    _tell(made, rng, steps, row, point)
    return made


# --- keys that are closed through entries ------------------------------------------------------------------------------

ORDERS = {"o": "id INT, g INT, t INT, e INT", "p": "id INT, t INT, c INT"}
THROUGH = [
    "SELECT o.id, count(*) AS n FROM o JOIN p ON o.id = p.id AND p.t <= o.e GROUP BY o.id",
    "SELECT o.id, o.g, max(p.c) AS top FROM o JOIN p ON o.id = p.id AND p.t BETWEEN o.t AND o.e GROUP BY o.id, o.g",
    "SELECT x.g, avg(x.top) AS mean FROM (SELECT o.id, o.g, max(p.c) AS top FROM o JOIN p ON o.id = p.id AND p.t BETWEEN o.t AND o.e "
    "GROUP BY o.id, o.g) x GROUP BY x.g",
    "SELECT x.id, x.c FROM (SELECT o.id, p.c, row_number() OVER (PARTITION BY o.id ORDER BY p.c DESC, p.t) AS n "
    "FROM o JOIN p ON o.id = p.id AND p.t >= o.t AND p.t <= o.e) x WHERE x.n = 1",
    "SELECT DISTINCT o.id FROM o JOIN p ON o.id = p.id AND p.t < o.e",
    "SELECT p.id, count(DISTINCT p.c) AS n FROM p JOIN o ON o.id = p.id AND p.t <= o.e + 1 WHERE o.g > 0 GROUP BY p.id",
    "SELECT o.id, count(p.c) AS n FROM o LEFT JOIN p ON o.id = p.id AND p.t <= o.e GROUP BY o.id",
    "SELECT a.id, count(*) AS n FROM o a JOIN p ON a.id = p.id AND p.t <= a.e JOIN o b ON b.id = p.c AND p.t <= b.e GROUP BY a.id",
    "SELECT o.id, count(*) AS n FROM o JOIN p ON o.id = p.id AND p.t <= o.e JOIN p r ON o.id = r.id AND r.t <= o.e GROUP BY o.id",
    "SELECT o.id + 1 AS w, count(*) AS n FROM o JOIN p ON o.id = p.id AND p.t <= o.e GROUP BY o.id + 1",
    "SELECT o.id, o.t, sum(p.c) AS x FROM o JOIN p ON o.id = p.id GROUP BY o.id, o.t",
]


def through_story(seed: int, steps: int = 8, views: int = 3) -> Story:
    """A random story of orders that are known by a number, each until some time, in which no row comes late."""
    rng = random.Random(seed)
    closes = {n: rng.choice(["t", "t", "t", ["t", "id"]]) for n in ORDERS}
    chosen = [THROUGH[seed % len(THROUGH)], *rng.sample(THROUGH, views - 1)]
    named = {f"v{i}": q for i, q in enumerate(chosen)}
    only = {n for n in ORDERS if rng.random() < 0.3}
    made = Story(closes, only, named, sources=ORDERS, pool=THROUGH, keys={"o": "id"})
    numbers = list(range(40))
    rng.shuffle(numbers)

    def row(name: str, low: int, there: Rows) -> tuple[Any, ...] | None:
        t = low + rng.choice([-1, 0, 0, 1, 2, 3])
        number = rng.choice(numbers[: 4 + low])
        if name == "p":
            return (number, t, rng.randint(0, 3))
        if any(x[0] == number for x in there):
            return None
        return (number, rng.randint(0, 2), t, t + rng.randint(0, 3))

    def point(name: str, low: int) -> Punctuation:
        if isinstance(closes[name], list) and rng.random() < 0.2:
            return hw.closed(id=rng.choice(numbers))
        return hw.closed(t=rng.choice([hw.below(low), hw.upto(low), hw.below(low + 2), low]))

    _tell(made, rng, steps, row, point)
    return made


Rows = list[tuple[Any, ...]]


def _tell(made: Story, rng: random.Random, steps: int, row: Any, point: Any) -> None:
    """Adds steps to a story: rows that are in time, deletions of open rows, punctuations."""
    there: dict[str, list[tuple[Any, ...]]] = {n: [] for n in made.sources}
    closed: dict[str, list[Punctuation]] = {n: [] for n in made.sources}
    low = 0

    def late(name: str, x: tuple[Any, ...]) -> bool:
        names = [c.split()[0] for c in made.sources[name].split(", ")]
        return any(p.matches(dict(zip(names, x, strict=True))) for p in closed[name])

    for _ in range(steps):
        change: dict[str, Any] = {}
        for name in made.sources:
            if rng.random() < 0.2:
                continue
            gone: Rows = []
            if name not in made.append_only:
                open_ = [x for x in there[name] if not late(name, x)]
                gone = rng.sample(open_, min(len(open_), rng.randint(0, 2)))
            for x in gone:
                there[name].remove(x)
            rows: Rows = []
            for _ in range(rng.randint(0, 5)):
                x = row(name, low, there[name])
                if x is not None and not late(name, x):
                    rows.append(x)
                    there[name].append(x)
            if rows or gone:
                change[name] = hw.Delta(inserts=rows, deletes=gone)
        points: dict[str, Punctuation] = {}
        for name in made.sources:
            if made.closes[name] != () and rng.random() < 0.6:
                p = points[name] = point(name, low)
                closed[name].append(p)
        made.steps.append((change, points))
        low += rng.choice([0, 1, 2, 3])


# --- rows and punctuations ---------------------------------------------------------------------------------------------


def _row(rng: random.Random, name: str, low: int) -> tuple[Any, ...]:
    t = low + rng.randint(-1, 4)
    match name:
        case "r":
            return (
                rng.randint(0, 2),
                rng.choice([None, 0, 1, 2, 3]),
                t,
                rng.choice(["x", "y", None]),
            )
        case "q":
            return (rng.randint(0, 2), rng.randint(0, 3), t)
    return (rng.randint(0, 2), t, t + rng.randint(0, 4))


def _names(name: str) -> list[str]:
    return [c.split()[0] for c in SOURCES[name].split(", ")]


def _late(
    name: str, row: tuple[Any, ...], closed: dict[str, list[Punctuation]], closes: Any
) -> bool:
    values = dict(zip(_names(name), row, strict=True))
    return any(p.matches(values) for p in closed[name])


def _point(rng: random.Random, name: str, closes: Any, low: int) -> Punctuation:
    """A punctuation by the scheme of a source."""
    time = rng.choice(
        [hw.below(low), hw.upto(low), low, hw.between(low - 1, low + 1), {low, low + 2}]
    )
    if isinstance(closes, tuple):
        member = rng.choice([0, 1, {1, 2}, hw.anything])
        return hw.closed(**{closes[0]: member, closes[1]: time})
    if isinstance(closes, list) and rng.random() < 0.3:
        return hw.closed(**{closes[1]: rng.choice([0, 1, hw.upto(low)])})
    return hw.closed(t=time)
