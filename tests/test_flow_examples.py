"""The examples of dataflow beside plain Python: after every increment they say the same, and so does a trial of their stages."""

from __future__ import annotations

import random
import re
import runpy
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from math import log1p
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import headwater as hw
from headwater import flow

EXAMPLES = Path(__file__).parent.parent / "examples"
Bag = Counter[tuple[Any, ...]]


def example(name: str) -> SimpleNamespace:
    """What an example defines."""
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / f"{name}.py")))


def bag(db: hw.Database, name: str) -> Bag:
    """The rows of something, with how often each is there."""
    out: Bag = Counter()
    for r in db.table(name).to_pylist():
        weight = r.pop("_w")
        out[tuple(r.values())] += weight
    return out


def tried(trial: flow.Trial, name: str) -> Bag:
    return Counter(map(tuple, trial.rows(name)))


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as db:
        yield db


# --- crawl -----------------------------------------------------------------------------------------------------------


class Crawled:
    """The crawl queue in plain Python: dictionaries, and a loop over the links."""

    def __init__(self) -> None:
        self.urls: Counter[str] = Counter()
        self.sites: Counter[str] = Counter()
        self.seen: set[str] = set()
        self.queue: Bag = Counter()

    def take(self, pages: list[tuple[str, str]]) -> None:
        linked = [u for _, html in pages for u in re.findall(r'href="([^"]*)"', html)]
        self.urls.update(linked)
        self.sites.update(u.split("/")[0] for u in linked)
        self.seen.update(url for url, _ in pages)
        for url in set(linked) - self.seen:
            score = log1p(self.urls[url]) + log1p(self.sites[url.split("/")[0]]) / 10
            if score > 1:
                self.queue[url, score] += 1

    @property
    def best(self) -> Bag:
        times: Counter[str] = Counter()
        score: dict[str, float] = {}
        for (url, s), n in self.queue.items():
            times[url] += n
            score[url] = max(s, score.get(url, s))
        return Counter((u, score[u], n) for u, n in times.items())


def test_crawl_is_plain_python_after_every_increment(db: hw.Database) -> None:
    crawl, chance, plain = example("crawl"), random.Random(3), Crawled()
    crawl.define(db)
    urls = [f"{site}.org/{n}" for site in "abc" for n in range(6)]
    increments = []
    for _ in range(8):
        pages = [
            crawl.page(chance.choice(urls), *chance.choices(urls, k=chance.randrange(6)))
            for _ in range(chance.randrange(1, 6))
        ]
        increments.append(pages)
        db.apply({"pages": pages})
        db.run()
        plain.take(pages)
        assert bag(db, "queue") == plain.queue
        assert bag(db, "best") == plain.best
    assert len(plain.best) > 5
    trial = flow.trial(crawl.STAGES, {"pages": increments}, {"pages": crawl.PAGES})
    assert tried(trial, "queue") == plain.queue


# --- median ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [False, True], ids=["increment by increment", "all waiting"])
def test_every_prefix_has_its_median_with_and_without_the_cycle(
    db: hw.Database, at_once: bool
) -> None:
    median, chance = example("median"), random.Random(5)
    straight, round_, place = median.define(db)
    increments = [
        [(chance.randrange(500),) for _ in range(chance.randrange(1, 5))] for _ in range(12)
    ]
    seen: list[int] = []
    expected = []
    for some in increments:
        db.apply({"numbers": some})
        seen = sorted(seen + [x for (x,) in some])
        expected.append((len(seen), seen[(len(seen) - 1) // 2]))
        if not at_once:
            db.run()
            assert median.answers(db, "medians") == median.answers(db, "same_medians") == expected
    db.run()
    assert median.answers(db, "medians") == median.answers(db, "same_medians") == expected
    given = {"numbers": increments}, {"numbers": median.NUMBERS}
    for stages, flows, name in ((straight, [], "medians"), (round_, [place], "same_medians")):
        trial = flow.trial(stages, *given, flows=flows)
        assert [tuple(r) for some in trial.increments(name) for r in some] == expected


# --- cube ------------------------------------------------------------------------------------------------------------


def asked(query: Sequence[Any], sales: list[tuple[int, ...]]) -> tuple[int, int, int]:
    """The answer to a range query, by going through all sales."""
    ends = [(query[i], query[i + 1]) for i in (1, 3, 5)]
    found = [
        s[3]
        for s in sales
        if all(a is None or a <= v <= b for v, (a, b) in zip(s[:3], ends, strict=True))
    ]
    return query[0], len(found), sum(found)


def cube_story(increments: int) -> tuple[list[list[Any]], list[list[Any]]]:
    """Increments of sales and of range queries over every cuboid."""
    chance = random.Random(11)
    sales = [
        [(*(chance.randrange(5) for _ in range(3)), chance.randrange(1, 100)) for _ in range(8)]
        for _ in range(increments)
    ]
    queries = []
    for i in range(increments):
        some = []
        for j in range(3):
            ends: list[int | None] = []
            for d in range(3):
                pair = sorted(chance.choices(range(5), k=2))
                ends += pair if (3 * i + j) >> d & 1 else [None, None]
            some.append((3 * i + j, *ends))
        queries.append(some)
    return sales, queries


@pytest.mark.parametrize("bottlenecks", [True, False])
def test_the_cube_answers_for_the_updates_that_it_has(db: hw.Database, bottlenecks: bool) -> None:
    cube = example("cube")
    cube.define(db)
    sales, queries = cube_story(30)
    for some, questions in zip(sales, queries, strict=True):
        db.apply({"sales": some, "queries": questions})
    waits = {"changed": 0, "points": 0}
    applied: list[tuple[int, ...]] = []
    expected: Bag = Counter()
    updates = answered = in_a_row = longest = behind = 0
    while (run := db.run(epochs=1, bottlenecks=bottlenecks)).epochs:
        now = {**waits, **dict.fromkeys(waits, 0), **run.waiting.get("cube", {})}
        if run.epochs == ["cube"]:
            if now["changed"] < waits["changed"]:
                applied += sales[updates]
                updates, in_a_row = updates + 1, 0
            else:
                assert now["points"] == waits["points"] - 1
                expected.update(asked(q, applied) for q in queries[answered])
                answered += 1
                in_a_row = in_a_row + 1 if now["changed"] else 0
                longest = max(longest, in_a_row)
        waits = now
        behind = max(behind, now["changed"])
        assert now["changed"] <= 20
    assert bag(db, "answers") == expected
    assert (updates, answered) == (30, 30)
    assert longest == 4
    assert behind == (1 if bottlenecks else 20), "upstream stands still where that is noticed"
    assert sum(n for _, n, _ in expected) > 1000


def test_the_cube_in_a_database_is_the_cube_in_a_trial(db: hw.Database) -> None:
    cube = example("cube")
    cube.define(db)
    sales, queries = cube_story(10)
    given: dict[str, list[list[Any]]] = {"sales": [], "queries": []}
    for some, questions in zip(sales, queries, strict=True):  # in turn, so that no schedule matters
        for change in ({"sales": some}, {"queries": questions}):
            db.apply(change)
            db.run()
            for name, increments in given.items():
                increments.append(change.get(name, []))
    trial = flow.trial(cube.STAGES, given, {"sales": cube.SALES, "queries": cube.QUERIES})
    assert tried(trial, "answers") == bag(db, "answers")
    expected = Counter(
        asked(q, [s for some in sales[: i + 1] for s in some])
        for i, questions in enumerate(queries)
        for q in questions
    )
    assert bag(db, "answers") == expected


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_stages_by_hand_are_the_views_after_every_increment(db: hw.Database) -> None:
    by_hand, chance = example("by_hand"), random.Random(2)
    by_hand.define(db)
    held: dict[str, list[tuple[Any, ...]]] = {"orders": [], "lines": []}
    given: dict[str, list[list[Any]]] = {"orders": [], "lines": []}
    went = 0
    for number in range(20):
        change = {}
        for name, rows in held.items():
            gone = [
                rows.pop(chance.randrange(len(rows)))
                for _ in range(min(len(rows), chance.randrange(4)))
            ]
            new: list[tuple[Any, ...]] = []
            for _ in range(chance.randrange(7) if number < 15 else 1):
                key = chance.randrange(8)
                last = chance.choice("abc") if name == "orders" else chance.randrange(4)
                new.append((key, last))
            rows += new
            went += len(gone)
            change[name] = hw.Delta(inserts=new, deletes=gone)
            given[name].append([*new, *((*r, -1) for r in gone)])
        db.apply(change)
        db.run()
        pairs = Counter((c, p) for i, c in held["orders"] for j, p in held["lines"] if i == j)
        assert bag(db, "joined") == bag(db, "joined_sql") == pairs
        sums = Counter(
            (c, sum(n for (d, _), n in pairs.items() if d == c), total)
            for c in {c for c, _ in pairs}
            for total in [sum(n * p for (d, p), n in pairs.items() if d == c)]
        )
        assert bag(db, "totals") == bag(db, "totals_sql") == sums
    assert went > 20
    trial = flow.trial(by_hand.STAGES, given, by_hand.SOURCES)
    assert tried(trial, "joined") == pairs and tried(trial, "totals") == sums


# --- sessions --------------------------------------------------------------------------------------------------------


def sessions_of(clicks: list[tuple[str, datetime]], gap: timedelta) -> Bag:
    """The sessions that are over when the last click comes."""
    out: Bag = Counter()
    end = max(at for _, at in clicks)
    for user in {u for u, _ in clicks}:
        times = sorted(at for u, at in clicks if u == user)
        some: list[datetime] = []
        for at in [*times, None]:
            if some and (at or end) - some[-1] >= gap:
                out[user, some[0], some[-1], len(some)] += 1
                some = []
            if at:
                some.append(at)
    return out


def test_sessions_are_the_same_for_every_cut(tmp_path: Path) -> None:
    sessions, chance = example("sessions"), random.Random(4)
    start = datetime(2026, 3, 1, tzinfo=UTC)
    clicks = [
        (chance.choice("abcde"), start + timedelta(minutes=chance.randrange(1000)))
        for _ in range(120)
    ]
    clicks.sort(key=lambda c: c[1])
    expected = sessions_of(clicks, sessions.GAP)
    assert len(expected) > 20
    cuts = [clicks[i : i + 7] for i in range(0, 120, 7)]
    uneven = [clicks[:1], clicks[1:80], clicks[80:81], clicks[81:]]
    for number, cut in enumerate(([clicks], cuts, uneven)):
        assert Counter(sessions.told(tmp_path / str(number), cut)) == expected
        trial = flow.trial([sessions.sessions], {"clicks": cut}, {"clicks": sessions.CLICKS})
        assert tried(trial, "sessions") == expected


# --- enrich ----------------------------------------------------------------------------------------------------------


def test_clicks_are_enriched_as_the_view_was_and_leave_nothing(db: hw.Database) -> None:
    enrich, chance = example("enrich"), random.Random(6)
    stage = enrich.define(db)
    names = {"no": "Norway", "pe": "Peru", "fi": "Finland"}
    lives: dict[str, str] = {}
    gave: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    given: dict[str, list[list[Any]]] = {"home": [], "clicks": []}
    start = datetime(2026, 3, 1, tzinfo=UTC)

    def step(moves: dict[str, str], new: list[Any], gone: list[Any]) -> None:
        left = [(u, lives[u]) for u in moves if u in lives]
        db.apply(
            {
                "users": hw.Delta(inserts=list(moves.items()), deletes=left),
                "clicks": hw.Delta(inserts=new, deletes=gone),
            }
        )
        db.run()
        lives.update(moves)
        given["home"].append(
            [*((u, names[c]) for u, c in moves.items()), *((u, names[c], -1) for u, c in left)]
        )
        given["clicks"].append([*new, *((*c, -1) for c in gone)])
        for c in gone:
            del gave[c]
        gave.update({c: (*c, names[lives[c[0]]] if c[0] in lives else None) for c in new})
        assert bag(db, "enriched") == Counter(gave.values())

    db.apply({"countries": list(names.items())})
    for number in range(12):
        moves = {u: chance.choice([*names]) for u in chance.sample("abcd", chance.randrange(3))}
        new = [(u, start + timedelta(minutes=number)) for u in chance.sample("abcde", 3)]
        step(moves, new, chance.sample(sorted(gave), min(len(gave), chance.randrange(3))))
    trial = flow.trial([stage], given, {"home": "id STRING, country STRING", **enrich.SOURCES})
    assert tried(trial, "enriched") == bag(db, "enriched") and gave

    def remembered() -> int:
        return sum(t.num_rows for t in db.store.at().arrangement("r:enriched").scan())

    assert remembered()
    step({}, [], sorted(gave))
    assert not bag(db, "enriched") and not remembered()
