"""Plays queries of the corpus as views of one database through the story, and compares each with Spark after every change.

Every second view is defined before there is data, the others after the first load. A query that is refused, fails or is
wrong spoils no other: where a change cannot be applied, the views are played again in halves until the one to blame
stands alone.
"""

from __future__ import annotations

import hashlib
import pickle
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark

import headwater as hw
from headwater.engine.spark.session import local_frame
from headwater.engine.view_rows import repeated
from headwater.errors import HeadwaterError, NotIncremental
from retail.corpus import Query
from retail.tables import SCHEMA, STATES, STORY, WORDS, arrow, change_of
from sql.corpus import difference

QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.codegen.wholeStage": "false",  # of few rows, compiling takes most of the time
}


@dataclass(frozen=True)
class Answer:
    """The rows of an answer as plain values, and the kinds of its columns."""

    kinds: tuple[str, ...]
    rows: list[Any]


@dataclass(frozen=True)
class Verdict:
    """How a query went: `right`, `refused` (with a reason), or `wrong` (also where it fails), and what there is to say."""

    outcome: str
    reason: str = ""
    message: str = ""
    cost: str = ""

    def fits(self, query: Query) -> bool:
        """Whether that is what the corpus says of the query."""
        if query.refused:
            return self.outcome == "refused" and self.reason == query.refused
        return self.outcome == "right"


# --- answers ------------------------------------------------------------------------------------------------------


class Spark:
    """Spark's own answers after each change of the story: a session for each, with the tables as they are then.

    With a file, answers are kept there for the next time; they are found again by the query, the rows of all tables
    and the version of Spark.
    """

    def __init__(self, session: Any, kept: Path | None = None):
        self.session, self.kept = session, kept
        self.sessions: dict[int, Any] = {}
        there = kept is not None and kept.exists()
        self.known: dict[str, Answer] = pickle.loads(kept.read_bytes()) if kept and there else {}
        words = [f"{pyspark.__version__} {sorted(QUICK.items())} {rows}" for rows in STATES]
        self.digests = [hashlib.sha256(w.encode()).hexdigest() for w in words]

    def answer(self, query: Query, at: int) -> Answer:
        """What a query gives after a change."""
        key = f"{self.digests[at]} {query.ordered} {query.text}"
        if key not in self.known:
            self.known[key] = answer(self.at(at).sql(query.text).toArrow(), query.ordered)
        return self.known[key]

    def keep(self) -> None:
        """Writes what is known to the file."""
        if self.kept is not None:
            self.kept.parent.mkdir(parents=True, exist_ok=True)
            self.kept.write_bytes(pickle.dumps(self.known))

    def at(self, at: int) -> Any:
        """The session with the tables after a change."""
        if at not in self.sessions:
            made = self.session.newSession()
            for name, value in QUICK.items():
                made.conf.set(name, value)
            for table, rows in STATES[at].items():
                frame = local_frame(made, arrow(table, rows))
                frame.createOrReplaceTempView(table)
            self.sessions[at] = made
        return self.sessions[at]


def answer(table: pa.Table, ordered: bool) -> Answer:
    """An Arrow table as an answer; where arrays have no order they are bags."""
    columns = [[plain(v, ordered) for v in c.to_pylist()] for c in table.columns]
    rows = list(zip(*columns, strict=True)) if columns else [()] * table.num_rows
    return Answer(tuple(kind(f.type) for f in table.schema), rows)


def plain(value: Any, ordered: bool) -> Any:
    """Structs and arrays in order as tuples, arrays without order as lists, which are compared as bags."""
    if isinstance(value, dict):
        return tuple(plain(v, ordered) for v in value.values())
    if isinstance(value, list):
        made = [plain(v, ordered) for v in value]
        return ("array", *made) if ordered else made
    return value


def kind(t: pa.DataType) -> str:
    """What a type is, but for its width."""
    if pa.types.is_integer(t):
        return "integer"
    if pa.types.is_floating(t):
        return "double"
    if pa.types.is_decimal(t):
        return f"decimal({t.precision},{t.scale})"
    if pa.types.is_string(t) or pa.types.is_large_string(t):
        return "string"
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return f"array of {kind(t.value_type)}"
    if pa.types.is_struct(t):
        return f"struct of {', '.join(kind(f.type) for f in t)}"
    return str(t)


def unequal(found: Answer, expected: Answer) -> str:
    """How two answers differ; empty if they do not."""
    if found.kinds != expected.kinds:
        return f"columns of {', '.join(found.kinds)}, and not of {', '.join(expected.kinds)}"
    missing, extra = difference(found.rows, expected.rows)
    return f"missing {missing[:3]}, extra {extra[:3]}" if missing or extra else ""


# --- playing ------------------------------------------------------------------------------------------------------


Cost = Callable[[hw.Database, str], str]


def play(
    queries: Sequence[Query], path: Path, spark: Spark, cost: Cost | None = None
) -> dict[str, Verdict]:
    """The verdict on each query, by its id; `cost` says what a view costs, while it is there."""
    game = Game(queries, path, spark, cost)
    try:
        game.run()
        return game.verdicts
    except CannotApply as e:
        left = game.left()
        if not left:
            raise  # no view is to blame
        if len(left) == 1:
            return game.verdicts | {left[0].id: Verdict("wrong", "ERROR", str(e))}
    finally:
        game.db.close()
        shutil.rmtree(path, ignore_errors=True)
    half = len(left) // 2
    first = play(left[:half], path / "a", spark, cost)
    return game.verdicts | first | play(left[half:], path / "b", spark, cost)


class CannotApply(Exception):
    """A change that fails for some view."""


class Game:
    """One database with the views of some queries."""

    def __init__(self, queries: Sequence[Query], path: Path, spark: Spark, cost: Cost | None):
        self.queries, self.spark, self.cost = queries, spark, cost
        self.verdicts: dict[str, Verdict] = {}
        self.db = hw.open(path, spark=spark.session)
        for name, ddl in SCHEMA.items():
            self.db.source(name, ddl)

    def run(self) -> None:
        """Plays the whole story."""
        costs: dict[str, str] = {}
        for q in self.queries[::2]:
            self.define(q)
        for at, change in enumerate(STORY):
            self.apply(at, {t: change_of(t, rows) for t, rows in change.items()})
            if at == 0:
                for q in self.queries[1::2]:
                    self.define(q)
                if self.cost is not None:
                    costs = {q.id: self.cost(self.db, q.view) for q in self.left()}
            for q in self.left():
                self.compare(q, at)
        for q in self.left():
            self.verdicts[q.id] = Verdict("right", cost=costs.get(q.id, ""))

    def left(self) -> list[Query]:
        """The queries that nothing was found against."""
        return [q for q in self.queries if q.id not in self.verdicts]

    def define(self, q: Query) -> None:
        """Defines a view; what the database says against it is the verdict."""
        try:
            self.db.view(q.view, q.text)
        except NotIncremental as e:
            self.verdicts[q.id] = Verdict("refused", e.reason, str(e))
        except HeadwaterError as e:
            self.verdicts[q.id] = Verdict("refused", type(e).__name__, str(e))
        except Exception as e:
            self.verdicts[q.id] = Verdict("wrong", "ERROR", f"{type(e).__name__}: {e}")

    def apply(self, at: int, change: dict[str, pa.Table]) -> None:
        try:
            self.db.apply(change)
        except Exception as e:
            raise CannotApply(f"at {WORDS[at]}: {type(e).__name__}: {e}") from e

    def compare(self, q: Query, at: int) -> None:
        """Compares a view with Spark; at the last change but one by its DataFrame, else by its table."""
        try:
            if WORDS[at] == "most goes":
                table = self.db[q.view].snapshot().toArrow()
            else:
                table = repeated(self.db.table(q.view))
            problem = unequal(answer(table, q.ordered), self.spark.answer(q, at))
        except Exception as e:
            problem = f"{type(e).__name__}: {e}"
        if problem:
            self.verdicts[q.id] = Verdict("wrong", "WRONG", f"after {WORDS[at]}: {problem}")
