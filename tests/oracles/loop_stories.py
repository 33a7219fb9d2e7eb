"""Stories of loops: rows that are there, then changes of several sources at once, and what must hold after each.

A `Story` is a loop, rows to begin with and changes; one change in the middle of some deletes everything, so that what
follows starts from nothing, and so does the last of others. `play` keeps the loop as a view through all of it; after
every change the view is the answer found elsewhere, `changes` tells the difference, versions before stay, and in the end
the maps are those of a new database that was given the rows that are left: nothing of the past is in them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import headwater as hw
from loop_answers import Row, Tables
from loops import Loop, differs
from view_stories import maps

CHANGES = 12
Change = Mapping[str, Sequence[tuple[Row, int]]]


@dataclass(frozen=True)
class Story:
    """A loop, the rows that its sources begin with, and changes."""

    loop: Loop
    first: Change
    changes: Sequence[Change]

    def states(self) -> Iterator[tuple[Change, Tables]]:
        """Each change, the first one too, with the rows that are there after it."""
        rows: dict[str, Counter[Row]] = {n: Counter() for n in self.loop.sources}
        for change in (self.first, *self.changes):
            for name, given in change.items():
                for row, w in given:
                    rows[name][row] += w
                    assert rows[name][row] >= 0, "a story deletes rows that are not there"
            yield change, tables(rows)


def tables(rows: Mapping[str, Counter[Row]]) -> dict[str, list[Row]]:
    return {n: list(r.elements()) for n, r in rows.items()}


class Teller:
    """Draws a story."""

    def __init__(self, loop: Loop, seed: int):
        self.loop, self.chance = loop, random.Random(f"{loop.name} {seed}")
        self.rows: dict[str, Counter[Row]] = {n: Counter() for n in loop.sources}

    def story(self, changes: int = CHANGES) -> Story:
        first = {n: self.inserted(n, self.loop.size) for n in self.loop.sources}
        emptied = self.chance.choice((changes // 2, changes - 1, None))
        made = [self.emptied() if i == emptied else self.change() for i in range(changes)]
        return Story(self.loop, first, made)

    def change(self) -> Change:
        """Some rows that come and some that go, of one source or of several."""
        names = [n for n in self.loop.sources if self.chance.randrange(3) < 2]
        out = {}
        for name in names or [self.chance.choice(list(self.loop.sources))]:
            gone = self.deleted(name, self.chance.choice((0, 1, 1, 2, 4)))
            few = sum(self.rows[name].values()) < self.loop.size // 2
            come = self.inserted(name, self.chance.choice((3, 5) if few else (0, 1, 2, 3)))
            out[name] = _net([*gone, *come])
        return out

    def emptied(self) -> Change:
        return {n: _net(self.deleted(n, sum(r.values()))) for n, r in self.rows.items()}

    def inserted(self, name: str, count: int) -> list[tuple[Row, int]]:
        """Rows that come, some of them twice; where rows have keys, only those that are free."""
        key = self.loop.unique.get(name)
        out = []
        for _ in range(count):
            row = self.loop.draws[name](self.chance)
            if key is None:
                out.append((row, 1 + (self.chance.randrange(6) == 0)))
            elif all(r[:key] != row[:key] for r in self.rows[name]):
                out.append((row, 1))
            else:
                continue
            self.rows[name][row] += out[-1][1]
        return out

    def deleted(self, name: str, count: int) -> list[tuple[Row, int]]:
        out = []
        for _ in range(count):
            there = sorted(self.rows[name].items(), key=repr)
            if len(there) > (name in self.loop.kept):
                row, n = self.chance.choice(there)
                out.append((row, -self.chance.randint(1, n)))
                self.rows[name][row] += out[-1][1]
                self.rows[name] = +self.rows[name]
        return out


def _net(change: Sequence[tuple[Row, int]]) -> list[tuple[Row, int]]:
    total: Counter[Row] = Counter()
    for row, w in change:
        total[row] += w
    return [(r, w) for r, w in total.items() if w]


def told(loop: Loop, seed: int, changes: int = CHANGES) -> Story:
    return Teller(loop, seed).story(changes)


# --- playing -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class How:
    """How a story is played: where rounds run, of how many rows a round is small, when the view is defined, and how often reopened."""

    execution: str = "driver"
    several: str = "auto"
    small: int | None = None
    late: bool = False
    reopens: bool = False


class Run:
    """A story on a database."""

    def __init__(self, story: Story, how: How, path: Path, spark: Any = None):
        self.story, self.how, self.path, self.spark = story, how, path, spark
        self.past: dict[int, Counter[Row]] = {}

    def play(self) -> None:
        """The rows that are there at first, then every change; the view is compared after each."""
        db = self.opened(self.path / "db")
        loop = self.story.loop
        try:
            for name, ddl in loop.sources.items():
                db.source(name, ddl)
            if not self.how.late:
                db.view("v", loop.query)
            for i, (change, there) in enumerate(self.story.states()):
                db.apply({n: weighted(rows) for n, rows in change.items()})
                if i == 0 and self.how.late:
                    db.view("v", loop.query)
                self.compare(db, there, f"change {i}")
                if self.how.reopens:
                    db.close()
                    db = self.opened(self.path / "db")
            self.compare_past(db)
            self.compare_state(db, there)
        finally:
            db.close()

    def opened(self, path: Path) -> hw.Database:
        db = hw.open(path, spark=self.spark)
        db.policy.execution, db.policy.several = self.how.execution, self.how.several
        if self.how.small is not None:
            db.policy.small = self.how.small
        return db

    # --- comparing ---------------------------------------------------------------------------------------------

    def compare(self, db: hw.Database, there: Tables, when: str) -> None:
        """The view is the answer; what it changed since the version before is the difference of both."""
        loop, found = self.story.loop, bag(db.table("v"))
        assert all(w > 0 for w in found.values()), f"{when}: {found}"
        problem = differs(found.elements(), loop.expected(there), loop.near)
        assert not problem, f"{loop.name}, {when}: {problem}\n{dict(there)}"
        if self.past:
            before = max(self.past)
            change = bag(db.changes_table("v", before))
            wanted = Counter(found)
            wanted.subtract(self.past[before])
            assert change == {r: w for r, w in wanted.items() if w}, f"{when}: told {change}"
        self.past[db.version] = found

    def compare_past(self, db: hw.Database) -> None:
        """Versions are what they were."""
        for version in (min(self.past), sorted(self.past)[len(self.past) // 2]):
            assert bag(db.table("v", version)) == self.past[version], f"at version {version}"

    def compare_state(self, db: hw.Database, there: Tables) -> None:
        """Every map is, entry for entry, what it is in a database that is given the rows that are left at once."""
        loop = self.story.loop
        with hw.open(
            self.path / "fresh"
        ) as fresh:  # in this process, wherever the story was played
            fresh.policy.execution = "driver"
            for name, ddl in loop.sources.items():
                fresh.source(name, ddl)
            fresh.view("v", loop.query)
            fresh.apply({n: rows for n, rows in there.items() if rows})
            kept, anew = maps(db), maps(fresh)
        assert kept.keys() == anew.keys()
        for name in kept:
            problem = differs(
                Counter(kept[name]).elements(), Counter(anew[name]).elements(), loop.near
            )
            assert not problem, f"{loop.name}: the map {name}: {problem}"


def weighted(rows: Sequence[tuple[Row, int]]) -> list[Row]:
    return [(*row, w) for row, w in rows]


def bag(table: Any) -> Counter[Row]:
    """Rows with the sum of their weights."""
    out: Counter[Row] = Counter()
    for row in table.to_pylist():
        w = row.pop("_w")
        row.pop("_version", None)
        out[tuple(row.values())] += w
    return Counter({r: w for r, w in out.items() if w})
