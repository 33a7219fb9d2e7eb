"""Edits of a corpus: a view that is one query of it after another, or such a query with a small edit, beside one defined anew.

Two databases have the same sources and changes. In one, a view and a reader of it are replaced; in the other, they are dropped
and defined. After each edit, and after a change that follows it, the law:

    replacing = dropping and defining          in rows, in maps by name, and in the entries of every map
    changes(since) over an edit = the new answer - the old one, where the columns are the same
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import sqlglot
from sqlglot import exp

import headwater as hw
import retail.corpus
import retail.tables
import sql.corpus
import sql.tables
from edits import bag
from headwater.engine.spark import session
from headwater.errors import DefinedAnew, HeadwaterError
from random_values import Pick

VIEW, READER = "edited", "reader"
READERS = (
    "SELECT `{0}`, count(*) AS n FROM edited GROUP BY `{0}`",
    "SELECT count(*) AS n, max(`{0}`) AS most FROM edited",
    "SELECT DISTINCT `{0}` FROM edited",
    "SELECT a.`{0}`, b.n FROM edited a JOIN (SELECT `{0}`, count(*) AS n FROM edited GROUP BY `{0}`) b ON a.`{0}` = b.`{0}`",
    "SELECT `{0}`, n FROM (SELECT `{0}`, count(*) AS n FROM edited GROUP BY `{0}`) WHERE n > 1",
)
"""Queries over a view, of which one column is named."""
LONGEST = 1_000
"""Queries that are longer are edited no more: some edits double them."""
Change = Mapping[str, Any]


@dataclass(frozen=True)
class Corpus:
    """Queries over some tables, and changes of these that may come one after another, again and again."""

    sources: Mapping[str, str]
    queries: Sequence[str]
    changes: Sequence[Change]


def small() -> Corpus:
    """The corpus of SQL: half of the rows, then the other half instead, and so on."""
    lines = [line.rstrip(";") for line in sql.tables.SCHEMA.strip().splitlines()]
    sources = {name: ddl.removesuffix(")") for name, _, ddl in (x.partition("(") for x in lines)}

    def change(new: Mapping[str, Any], gone: Mapping[str, Any]) -> Change:
        return {n: hw.Delta(list(new[n]), list(gone[n])) for n in sources if new[n] or gone[n]}

    none, even, odd = sql.tables.NONE, sql.tables.EVEN, sql.tables.ODD
    changes = [change(even, none), change(odd, none), change(none, even), change(even, odd)]
    return Corpus(sources, [q.spark for q in sql.corpus.read()], [*changes, change(none, even)])


def shop() -> Corpus:
    """The corpus of a retailer, with its story."""
    changes = [
        {t: retail.tables.change_of(t, rows) for t, rows in step.items()}
        for step in retail.tables.STORY
    ]
    return Corpus(retail.tables.SCHEMA, [q.text for q in retail.corpus.read()], changes)


# --- edits ------------------------------------------------------------------------------------------------------------

OTHERS = {exp.GT: exp.GTE, exp.GTE: exp.GT, exp.LT: exp.LTE, exp.LTE: exp.LT, exp.EQ: exp.NEQ}


def edited(pick: Pick, query: str) -> str:
    """A query with a small edit: another constant, comparison, filter, HAVING or branch."""
    tree = sqlglot.parse_one(query, read="spark")
    found = list(_edits(tree))
    if not found or not pick(6):
        return f"SELECT * FROM ({query}) UNION ALL SELECT * FROM ({query})"
    node, other = found[pick(len(found))]
    node.replace(other) if node is not tree else None
    return (other if node is tree else tree).sql(dialect="spark")


def _edits(tree: exp.Expression) -> Iterator[tuple[exp.Expression, exp.Expression]]:
    """Pairs of a part of a query and what may stand there instead."""
    for node in tree.walk():
        if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit():
            inside = node.find_ancestor(exp.Where, exp.Having, exp.Limit, exp.Join)
            if inside is not None and node.find_ancestor(exp.Interval) is None:
                yield node, exp.Literal.number(int(node.this) + 1)
        elif type(node) in OTHERS:
            yield node, OTHERS[type(node)](this=node.this.copy(), expression=node.expression.copy())
        elif isinstance(node, exp.And):
            yield node, node.this.copy()
            yield node, node.expression.copy()
        elif isinstance(node, exp.Select):
            where, having, group = (node.args.get(k) for k in ("where", "having", "group"))
            if where is not None:
                yield node, _with(node, where=None)
            if having is not None:
                yield node, _with(node, having=None)
            elif group is not None:
                count = sqlglot.parse_one("count(*) > 1", read="spark")
                yield node, _with(node, having=exp.Having(this=count))


def _with(node: exp.Select, **parts: Any) -> exp.Select:
    made = node.copy()
    for name, part in parts.items():
        made.set(name, part)
    return made


# --- playing ----------------------------------------------------------------------------------------------------------


class AsksSpark(Exception):
    """A query that is left out, as only Spark can answer it."""


@contextmanager
def without_spark() -> Iterator[None]:
    """No session is started: who would start one is told so."""

    def refuses() -> Any:
        raise AsksSpark

    with mock.patch.object(session, "local_session", refuses):
        yield


@dataclass
class Chain:
    """A database in which a view becomes one query after another, and one in which they are defined anew."""

    corpus: Corpus
    pick: Pick
    path: Path
    edits: int = 0
    adopted: int = 0
    left_out: int = 0
    at: int = 0
    queries: dict[str, str] = field(default_factory=dict)

    def play(self, edits: int) -> None:
        """As many edits as are asked for, each followed by a change."""
        with without_spark(), self._open("edited") as self.db, self._open("anew") as self.anew:
            self._change()
            while self.edits < edits:
                self._step()
                assert self.left_out < 20 + 4 * edits, "too many queries are left out"

    def _open(self, name: str) -> hw.Database:
        db = hw.open(self.path / name)
        for n, ddl in self.corpus.sources.items():
            db.source(n, ddl)
        return db

    def _step(self) -> None:
        query = self._query()
        told = f"{self.queries}\nbecomes {query}\nafter {self.at} changes"
        try:
            self.anew.view(VIEW, query)
            names = [n for n in self.anew.table(VIEW).schema.names if n != "_w"]
        except (HeadwaterError, AsksSpark):
            self._clear()
            self.left_out += 1
            return
        wanted = {VIEW: query}
        if self.pick(3):
            reader = READERS[self.pick(len(READERS))].format(names[self.pick(len(names))])
            try:
                self.anew.view(READER, reader)
                wanted[READER] = reader
            except (HeadwaterError, AsksSpark):
                pass
        if READER in self.db.views and READER not in wanted:
            self.db.drop(READER)
        try:
            self.db.replace_views(wanted)
        except Exception as e:
            raise AssertionError(f"{type(e).__name__}: {e}\n{told}\n{wanted}") from e
        self.queries = wanted
        self.edits += 1
        runs = self.db.store.at(self.db.version).version.maps.values()
        self.adopted += any(r.of for _, refs in runs for r in refs)
        told += f"\n{wanted}"
        self._compare(told, edit=True)
        if self._change():
            self._compare(f"{told}\nand a change", edit=False)
        else:
            self.queries = {}
        self._clear()

    def _query(self) -> str:
        known = self.queries.get(VIEW, "")
        if 0 < len(known) < LONGEST and self.pick(3):
            return edited(self.pick, known)
        return self.corpus.queries[self.pick(len(self.corpus.queries))]

    def _change(self) -> bool:
        """The next change, in both; whether they took it: rows of a view may fail, which is the same in both."""
        change = self.corpus.changes[self.at % len(self.corpus.changes)]
        failed = [self._applied(db, change) for db in (self.db, self.anew)]
        assert failed[0] == failed[1], (failed, self.queries)
        if failed[0]:
            for db in (self.db, self.anew):
                for name in [n for n in (READER, VIEW) if n in db.views]:
                    db.drop(name)
                db.apply(change)
        self.at += 1
        return not failed[0]

    def _applied(self, db: hw.Database, change: Change) -> str:
        """What is said against a change; nothing if it is taken."""
        try:
            db.apply(change)
        except (HeadwaterError, AsksSpark) as e:
            return type(e).__name__
        return ""

    def _clear(self) -> None:
        for name in [n for n in (READER, VIEW) if n in self.anew.views]:
            self.anew.drop(name)

    def _compare(self, told: str, edit: bool) -> None:
        try:
            for name in self.queries:
                mine, other = bag(self.db.table(name)), bag(self.anew.table(name))
                assert mine == other, f"{name}: {mine - other}, {other - mine}\n{told}"
                if edit:
                    self._changes(name, told)
        except AsksSpark:
            self.left_out += 1
            return
        here, there = entries(self.db), entries(self.anew)
        assert here.keys() == there.keys(), told
        for name, found in here.items():
            missing, extra = sql.corpus.difference(found, there[name])
            what = f"missing {missing[:3]}, extra {extra[:3]}"
            assert not missing and not extra, f"{self.db.program.maps[name]}: {what}\n{told}"

    def _changes(self, name: str, told: str) -> None:
        """What an edit changed is the difference of the answers."""
        last = self.db.version
        if name not in self.db._at(last - 1)[1].catalog.views:
            return
        before, after = self.db.table(name, last - 1), self.db.table(name, last)
        try:
            changed = bag(self.db.changes_table(name, last - 1, last))
        except DefinedAnew:
            assert before.schema != after.schema or any(map(_is_nested, after.schema)), told
            return
        now = bag(after)
        now.subtract(bag(before))
        assert changed == Counter({r: w for r, w in now.items() if w}), told


def entries(db: hw.Database) -> dict[str, list[Any]]:
    """The entries of all maps, key and ring as a row."""
    snapshot, at = db._at(None)
    working = db._reading(snapshot, at)
    return {
        name: [
            sql.corpus.plain(tuple(r.values()))
            for t in working.now(name).scan()
            for r in t.drop_columns(["_h"]).to_pylist()
        ]
        for name in at.program.maps
    }


def _is_nested(f: pa.Field) -> bool:
    return pa.types.is_nested(f.type)
