"""Random edits: a database whose views get other queries, beside one in which these are defined anew.

An `EditStory` has tables, a view and a reader of it, and then changes and edits by turns. The law:

    replacing = defining anew          in all rows and look-ups, through changes that come later
    changes(since) over an edit = the new answer - the old one, where the columns are the same
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.api.feeds import REPLACE
from headwater.errors import DefinedAnew, EngineError, NotIncremental, QueryError, TypeMismatch
from random_sql import Columns
from random_sql_clauses import Clauses
from random_sql_words import joined, sql
from random_values import Pick
from view_stories import Apply, Row, Shapes, Stories, Table, form

READER = "reader"
Bag = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Edit:
    """Queries for views, to be given at once."""

    queries: Mapping[str, str]


@dataclass(frozen=True)
class EditStory:
    """Tables by name, and what happens."""

    tables: Mapping[str, Table]
    steps: Sequence[Apply | Edit]


class Family:
    """Queries that are edits of each other: the same join and columns, with other filters, HAVING and branches."""

    def __init__(self, pick: Pick, known: Mapping[str, Columns]):
        self.pick, self.shapes = pick, Shapes(pick, known, dict.fromkeys(known, 1))
        self.clause, self.joined, self.where = self.shapes.from_clause(2, None, None)
        if pick(2):
            items, self.tail, self.columns = self.shapes.grouped(self.joined)
        else:
            found = [self.shapes.choose(self.joined) for _ in range(2)]
            items = [sql(f"{{}} AS c{i}", c.text) for i, c in enumerate(found)]
            self.tail, self.columns = sql(""), [(f"c{i}", c.kind) for i, c in enumerate(found)]
        self.items = joined(", ", items)
        self.conditions = [self.shapes.condition(self.joined) for _ in range(3)]

    def query(self) -> str:
        """One of them."""
        made = self.branch()
        return f"{made} UNION ALL {self.branch()}" if self.pick(5) == 4 else made

    def branch(self) -> str:
        """One SELECT: some of its filters, now and then one more."""
        where = [*self.where, *(c for c in self.conditions if self.pick(2))]
        if self.pick(3) == 2:
            where.append(self.shapes.condition(self.joined))
        tail = sql(" WHERE {}", joined(" AND ", where)) if where else sql("")
        return sql("SELECT {} FROM {}{}{}", self.items, self.clause, tail, self.tail).spark


def edit_story(pick: Pick, edits: int = 3, alike: bool = False) -> EditStory:
    """A view, a reader of it, and a story in which changes come between edits of either.

    The queries of the view have nothing in common but their columns; if they are `alike`, they are a family.
    """
    stories = Stories(pick, most=9)
    known = {n: t.columns for n, t in stories.tables.items()}
    family = Family(pick, known)
    columns = family.columns if alike else Clauses(pick, known, 3).wanted(flat=True)
    reads = {**known, "v": columns}

    def query() -> str:
        return family.query() if alike else _query(pick, known, columns)

    steps: list[Apply | Edit] = [stories.apply(), Edit({"v": query()})]
    steps.append(Edit({READER: _reader(pick, reads)}))
    for _ in range(edits):
        steps += [stories.apply(), Edit({"v": query()}), stories.apply()]
        if pick(3) == 2:
            steps.append(Edit({READER: _reader(pick, reads)}))
    everything = {n: [(r, -w) for r, w in rows.items()] for n, rows in stories.rows.items()}
    return EditStory(stories.tables, [*steps, Apply(everything)])


def _query(pick: Pick, known: Mapping[str, Columns], columns: Columns) -> str:
    return Clauses(pick, known, 3).query(columns, depth=1 + pick(2)).spark


def _reader(pick: Pick, known: Mapping[str, Columns]) -> str:
    shapes = Shapes(pick, known, dict.fromkeys(known, 1))
    text, _ = shapes.select(2, first="v")
    return text.spark


def bag(table: Any) -> Bag:
    """Rows with weights as a bag; what is not equal to itself as its text."""
    out: Bag = Counter()
    for r in table.to_pylist():
        weight = r.pop("_w")
        r.pop("_version", None)
        out[tuple(repr(x) for x in r.values())] += weight
    return Counter({r: w for r, w in out.items() if w})


class Played:
    """A story, played on a database that is edited, and compared with databases in which views are defined anew."""

    def __init__(self, story: EditStory, path: Path, reopens: bool = False):
        self.story, self.path, self.reopens = story, path, reopens
        self.rows: dict[str, Counter[Row]] = {n: Counter() for n in story.tables}
        self.queries: dict[str, str] = {}
        self.edits = self.refused = self.count = self.adopted = 0
        self.db = self._open("edited")

    def _open(self, name: str) -> hw.Database:
        db = hw.open(self.path / name)
        if not db.sources:
            for n, table in self.story.tables.items():
                db.source(n, table.ddl)
        return db

    def play(self) -> None:
        """Plays all steps, and compares after each."""
        for step in self.story.steps:
            if isinstance(step, Apply):
                self._apply(self.db, step)
                for n, rows in step.changes.items():
                    for row, w in rows:
                        self.rows[n][row] += w
            elif not self._edit(step):
                self.refused += 1
                continue
            if self.reopens:
                self.db.close()
                self.db = self._open("edited")
            self._compare(step)
        self.db.close()

    def _apply(self, db: hw.Database, step: Apply) -> None:
        changes = {
            n: form([r for r in rows if r[1]], self.story.tables[n], 1)
            for n, rows in step.changes.items()
        }
        db.apply(changes)

    def _edit(self, step: Edit) -> bool:
        """Whether the edit was made; one that is refused leaves everything as it was."""
        version = self.db.version
        try:
            self.db.replace_views(step.queries)
        except (NotIncremental, TypeMismatch, EngineError):
            assert self.db.version == version
            return False
        except QueryError as e:
            assert self.db.version == version
            if "REPLACE_COLUMNS" not in str(e) and "cannot be kept over" not in str(e):
                return False
            assert READER in str(e) and READER in self.queries
            self.db.drop(READER)
            del self.queries[READER]
            return self._edit(step)
        self.queries |= step.queries
        self.edits += 1
        maps = self.db.store.at(self.db.version).version.maps.values()
        self.adopted += any(r.of for _, refs in maps for r in refs)
        return True

    def _compare(self, step: Apply | Edit) -> None:
        self.count += 1
        anew = self._open(f"anew{self.count}")
        with anew:
            self._apply(anew, Apply({n: [*rows.items()] for n, rows in self.rows.items()}))
            for name, query in self.queries.items():
                anew.view(name, query)
            for name in self.queries:
                told = f"{name} after {step}\n{self.queries}\n{self.story}"
                assert bag(self.db.table(name)) == bag(anew.table(name)), told
                self._changes(name, told)

    def _changes(self, name: str, told: str) -> None:
        """What the last version changed is the difference of the answers."""
        last = self.db.version
        if name not in self.db._at(last - 1)[1].catalog.views:
            return
        try:
            changed = bag(self.db.changes_table(name, last - 1, last))
        except DefinedAnew:
            was, now = (self.db.table(name, v).schema for v in (last - 1, last))
            assert was != now, told
            return
        before, after = bag(self.db.table(name, last - 1)), bag(self.db.table(name, last))
        after.subtract(before)
        assert changed == Counter({r: w for r, w in after.items() if w}), told
        if self.db.store.log.read(last).note["what"].startswith(REPLACE):
            assert self.db.changed_rows(last)[name] == len(changed), told
