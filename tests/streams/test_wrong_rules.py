"""Rules that are wrong on purpose: stories of purging find each of them, so that they would find one put in by mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from closings import moment
from headwater.calculus.patterns import Pattern, Punctuations, Range
from headwater.engine import found
from headwater.plan import outlook, promises
from headwater.plan.bounds import Bounds
from headwater.plan.closing import Closing, Image, Ties, _all_of, _range
from headwater.plan.program import Map, Statement, Stratum
from headwater.plan.promises import Promise, Promises
from headwater.plan.sessions import Sessions, before_starts
from headwater.plan.through import Keys, Through, through
from test_bounds import play, purge_some

IMAGE, GROUPS, EVERY, READERS = Image.back, Promises.groups, Promises._every, Bounds.readers


def by_its_own_driver(self: Bounds[Punctuations], m: Map) -> Punctuations:
    """A map is purged by the promises of who changes it, in place of those who read it."""
    read = m.name not in self.held and m.name in self.program.kept and any(READERS(self, m))
    return self.promises.closed(m) if read else Punctuations.NONE


def by_the_first_column(self: Ties, promise: Punctuations) -> Punctuations:
    """Of a punctuation over several columns one is enough."""
    found = []
    for p in promise:
        needs = [n for c, pattern in p.columns[:1] for n in self.needs(c, pattern)]
        found += [made for choice in product(*needs) if (made := _all_of(choice)) is not None]
    return Punctuations(found, self.types)


def ended_for_lasting(self: Promises[Punctuations], s: Stratum) -> Promise[Punctuations]:
    """A row lasts where no other like it comes."""
    right = GROUPS(self, s)
    return Promise(right.lasting, right.ended, right.closed)


def by_one_statement(
    self: Promises[Punctuations], pulled: Iterable[tuple[Statement, Punctuations]]
) -> Punctuations:
    """A key is closed when one of the statements that reach it says so."""
    return EVERY(self, list(pulled)[:1])


def a_step_too_far(self: Image, p: Pattern) -> Pattern:
    """The window in which a bound lies is closed, too."""
    match p:
        case Range(None, high, _, _) if isinstance(high, int):
            return _range(None, self.function.low(high) + 1)
    return IMAGE(self, p)


def with_its_last_row(table: pa.Table, name: str, by: int) -> pa.Table:
    """A session is over when its last row is closed."""
    return table


def up_to_the_start(s: Stratum, sessions: Sessions) -> Ties:
    """All rows before the oldest open session are dead."""
    return before_starts(s, replace(sessions, gap=0))


def though_it_may_be_deleted(self: Promises[Punctuations], t: Through) -> Punctuations:
    """A key is closed when no row finds its entry any more, whether the entry lasts or not."""
    a, read = self.algebra, self.closing.read
    dead = (a.pulled(read(s, p), self.relation(s.drives).closed) for s, p in t.readers)
    return reduce(a.meet, dead)


def by_any_column(closing: Closing, m: Map, keys: Keys) -> Through | None:
    """A column that tells nothing apart is as good as a key."""
    return through(closing, m, {n: ("house",) for n in keys})


WRONG: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "its own driver": (Bounds, "dead", by_its_own_driver),
    "the first column": (Ties, "pulled", by_the_first_column),
    "ended for lasting": (Promises, "groups", ended_for_lasting),
    "one statement": (Promises, "_every", by_one_statement),
    "a step too far": (Image, "back", a_step_too_far),
    "with its last row": (found, "_shifted", with_its_last_row),
    "up to the start": (promises, "before_starts", up_to_the_start),
    "though it may be deleted": (Promises, "spent", though_it_may_be_deleted),
    "by any column": (outlook, "through", by_any_column),
}
SEEDS = {"its own driver": 8, "the first column": 8, "one statement": 0, "a step too far": 7}
"""A story that finds each of them."""


def played(path: Path, rule: str) -> None:
    if rule in SEEDS:
        play(path, SEEDS[rule])
    else:
        TOLD[rule](path)


def difference(path: Path) -> None:
    """What is taken away by rows that may still come is not final, though nothing more comes to what it is taken from."""
    with hw.open(str(path)) as db:
        db.source("r", "a INT, t INT", closes="t")
        db.source("q", "a INT, t INT", closes="t", append_only=True)
        db.view("v", "SELECT a, t FROM r EXCEPT SELECT a, t FROM q")
        db.apply({"r": [(1, 1), (2, 1)]}, punctuate={"r": hw.closed(t=hw.upto(1))})
        assert db.final_table("v").num_rows == 0
        db.apply({"q": [(1, 1)]}, punctuate={"q": hw.closed(t=1)})
        assert [r["a"] for r in db.final_table("v").to_pylist()] == [2]


SESSIONS = """SELECT user, session_window.start AS s, count(*) AS n FROM clicks
    GROUP BY user, session_window(ts, '10 seconds')"""


def goes_on(path: Path) -> None:
    """A row within the gap goes on with a session though all its rows are closed."""
    with hw.open(str(path)) as db:
        db.source("clicks", "user INT, ts TIMESTAMP", closes="ts")
        db.view("v", SESSIONS)
        db.apply(
            {"clicks": [(1, moment(0))]}, punctuate={"clicks": hw.closed(ts=hw.upto(moment(5)))}
        )
        db.apply({"clicks": [(1, moment(9))]})
        assert [r["n"] for r in db.table("v").to_pylist()] == [2]


def as_if_it_were_there(path: Path) -> None:
    """A row that was deleted before a session looks as if it were there, when only its deletion is gone from the bag."""
    with hw.open(str(path)) as db:
        db.source("clicks", "user INT, ts TIMESTAMP", closes="ts")
        db.view("v", SESSIONS)
        others = [(2 + i, moment(100)) for i in range(200)]  # many: the runs stay apart
        db.apply({"clicks": [(1, moment(5)), *others]})
        second = hw.Delta(inserts=[(1, moment(12))], deletes=[(1, moment(5))])
        version = db.apply({"clicks": second}).version
        db.punctuate("clicks", ts=hw.below(moment(13)))
        purge_some(db, lambda run: run.version == version)
        db.apply({"clicks": [(1, moment(14))]})
        mine = [r for r in db.table("v").to_pylist() if r["user"] == 1]
        assert [(r["s"].second, r["n"]) for r in mine] == [(12, 2)]


def prolonged(path: Path) -> None:
    """An auction that has expired may be taken away and come again with more time, as long as it is open itself."""
    with auctions(path, "a.id") as db:
        db.apply({"auctions": [(1, 0, 2, 5)], "bids": [(1, 3)]})
        db.punctuate("bids", t=hw.below(6))
        db.apply({"auctions": hw.Delta(inserts=[(1, 0, 2, 8)], deletes=[(1, 0, 2, 5)])})
        db.apply({"bids": [(1, 7)]})
        assert [r["n"] for r in db.table("v").to_pylist()] == [2]


def another_of_the_house(path: Path) -> None:
    """A house has several auctions, and is not closed with the first."""
    with auctions(path, "a.house") as db:
        db.apply({"auctions": [(1, 7, 2, 5)], "bids": [(1, 3)]})
        db.punctuate("auctions", t=hw.below(4))
        db.punctuate("bids", t=hw.below(6))
        db.apply({"auctions": [(2, 7, 8, 9)], "bids": [(2, 8)]})
        assert [r["n"] for r in db.table("v").to_pylist()] == [2]


def auctions(path: Path, by: str) -> hw.Database:
    db = hw.open(str(path))
    db.source("auctions", "id INT, house INT, t INT, expires INT", key="id", closes="t")
    db.source("bids", "auction INT, t INT", closes="t")
    db.view(
        "v",
        f"SELECT {by}, count(*) AS n FROM auctions a JOIN bids b ON a.id = b.auction AND b.t BETWEEN a.t AND a.expires GROUP BY {by}",
    )
    return db


TOLD = {
    "though it may be deleted": prolonged,
    "by any column": another_of_the_house,
    "ended for lasting": difference,
    "with its last row": goes_on,
    "up to the start": as_if_it_were_there,
}


@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_rule_is_found(tmp_path: Path, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, name, wrong = WRONG[rule]
    played(tmp_path / "right", rule)
    monkeypatch.setattr(kind, name, wrong)
    with pytest.raises(AssertionError):
        played(tmp_path / "wrong", rule)
