"""Random databases that live for a while: tables, views defined and dropped, changes applied, everything deleted.

A `Story` is drawn with `pick`, where 0 is the simplest choice, so that Hypothesis can shrink it. `Run` plays one on a
database and on DuckDB and compares every view after every step; a failure is told as a script that repeats it.
Queries come from two generators: `Shapes` draws joins that meet and aggregates over them, `Clauses` (of
`random_sql_clauses`) everything else that is maintained, nested in each other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import headwater as hw
from headwater.calculus.check import type_of
from headwater.calculus.data import from_python, to_python
from headwater.calculus.interpret import interpret
from headwater.calculus.terms import relations
from headwater.errors import EngineError, NotIncremental, QueryError
from headwater.plan.passes import keep_sums, said
from increment_changes import applied
from random_sql import Columns
from random_sql_clauses import Clauses
from random_sql_words import POOLS, SCALARS, TYPES, Column, Text, joined, sql
from random_values import Pick
from sql.corpus import difference

Row = tuple[Any, ...]
Change = Mapping[str, Sequence[tuple[Row, int]]]
INTS = ("BIGINT", "INT", "BIGINT", "SMALLINT")
MOST_JOINED = 4
"""So many tables at most stand in one join: of a self join of k there are 2ᵏ - 1 terms to compile."""
ODD = (math.nan, math.inf, -math.inf)


# --- stories ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """A view to define, in both dialects."""

    name: str
    query: Text
    columns: Columns
    strategy: str = "auto"


@dataclass(frozen=True)
class Drop:
    """A view to drop, unless another reads it."""

    name: str


@dataclass(frozen=True)
class Apply:
    """Changes to apply at once: rows with weights, by table, in one of the forms that `apply` takes."""

    changes: Change
    form: int = 0


Step = View | Drop | Apply


@dataclass(frozen=True)
class Table:
    """A table: its columns with kinds, and their types in DDL."""

    columns: Columns
    types: tuple[str, ...]

    @property
    def ddl(self) -> str:
        return ", ".join(f"{n} {t}" for (n, _), t in zip(self.columns, self.types, strict=True))

    @property
    def duckdb(self) -> str:
        return self.ddl.replace("STRING", "VARCHAR")


@dataclass(frozen=True)
class Story:
    """Tables, and what happens to them."""

    tables: Mapping[str, Table]
    steps: Sequence[Step]


class Stories:
    """Draws stories."""

    def __init__(
        self,
        pick: Pick,
        strategies: Sequence[str] = ("auto",),
        most: int = 3,
        jobs: bool = False,
        shapes: int = 2,
    ):
        self.pick, self.strategies, self.most, self.jobs = pick, strategies, most, jobs
        self.shapes = shapes  # so many thirds of the views are joins that meet
        self.tables = {n: self.table(i) for i, n in enumerate("rstu"[: 2 + pick(3)])}
        self.rows: dict[str, Counter[Row]] = {n: Counter() for n in self.tables}
        self.views: dict[str, Columns] = {}
        self.sizes = dict.fromkeys(self.tables, 1)
        self.count = 0
        self.odd = pick(4) == 3

    def table(self, place: int) -> Table:
        kinds = ["int", *(k for k in ("int", *SCALARS[1:]) if self.pick(3) != 1)]
        columns = [(n, k) for n, k in zip("abcdefg", kinds, strict=False)]
        types = [
            INTS[self.pick(4)] if k == "int" else "DECIMAL(10,2)" if k == "dec" else TYPES[k][0]
            for k in kinds
        ]
        return Table(columns, tuple(types))

    def story(self, increments: int) -> Story:
        steps: list[Step] = [self.view() for _ in range(1 + self.pick(2))]
        full = {n: [(self.row(n), 1) for _ in range(6)] for n in self.tables if self.pick(6)}
        for name, change in full.items():
            self.rows[name] = Counter(dict(_net(change)))
        steps.insert(self.pick(len(steps) + 1), Apply(full, self.pick(3)))
        for _ in range(increments):
            steps.append(self.apply())
            if len(self.views) < self.most and self.pick(3) == 2:
                steps.append(self.view())
            elif len(self.views) > 1 and self.pick(6) == 5:
                name = list(self.views)[self.pick(len(self.views))]
                steps.append(Drop(name))
                self.views.pop(name)  # if the drop is refused it is only read no more
        everything = {n: [(r, -w) for r, w in rows.items()] for n, rows in self.rows.items()}
        steps.append(Apply(everything))
        return Story(self.tables, steps)

    def view(self) -> View:
        known = {n: t.columns for n, t in self.tables.items()} | self.views
        self.count += 1
        name = f"v{self.count}"
        if self.pick(3) < self.shapes:
            shapes = Shapes(self.pick, known, self.sizes)
            query, columns = shapes.query()
            self.sizes[name] = shapes.size
        else:
            queries = Clauses(self.pick, known, 3, self.jobs)
            columns = queries.wanted()
            query = queries.query(columns, depth=1 + self.pick(2))
            self.sizes[name] = 2
        self.views[name] = columns
        return View(name, query, columns, self.strategies[self.pick(len(self.strategies))])

    def apply(self) -> Apply:
        changes = {n: self.change(n) for n in self.tables if self.pick(3) < 2}
        return Apply(changes, self.pick(3))

    def change(self, name: str) -> list[tuple[Row, int]]:
        """Rows that come, and rows that go, of which some may have come in the same change."""
        rows = self.rows[name]
        out: list[tuple[Row, int]] = []
        for _ in range((2, 1, 0, 5)[self.pick(4)]):
            out.append((self.row(name), 1 + (self.pick(5) == 4)))
        for _ in range((0, 1, 3)[self.pick(3)]):
            there = sorted((rows + Counter(dict(_net(out)))).items(), key=repr)
            there = [(r, n) for r, n in there if n > 0]
            if there:
                row, n = there[self.pick(len(there))]
                out.append((row, -n if self.pick(3) == 0 else -1))
        self.rows[name] = Counter({r: n for r, n in _net([*rows.items(), *out]) if n})
        return out

    def row(self, name: str) -> Row:
        return tuple(self.datum(k) for _, k in self.tables[name].columns)

    def datum(self, kind: str) -> Any:
        if kind == "dbl" and self.odd and self.pick(4) == 3:
            return ODD[self.pick(3)]
        return POOLS[kind][self.pick(len(POOLS[kind]))]


def _net(changes: Iterable[tuple[Row, int]]) -> list[tuple[Row, int]]:
    """Equal rows once."""
    total: dict[Row, int] = {}
    for row, w in changes:
        total[row] = total.get(row, 0) + w
    return list(total.items())


# --- queries ----------------------------------------------------------------------------------------------------


class Shapes:
    """Joins of a few tables on columns that meet, plain, grouped, distinct, united, nested in FROM."""

    def __init__(self, pick: Pick, tables: Mapping[str, Columns], sizes: Mapping[str, int]):
        self.pick, self.tables, self.count = pick, tables, 0
        self.sizes, self.size = dict(sizes), 0

    def choose(self, options: Sequence[Any]) -> Any:
        return options[self.pick(len(options))]

    def query(self) -> tuple[Text, Columns]:
        which = self.pick(12)
        if which == 9:
            one, columns = self.select(2)
            other, _ = self.select(2, [k for _, k in columns])
            return sql("{} UNION ALL {}", one, other), columns
        if which == 10:
            inner, columns = self.select(2)
            return self.over(sql("({})", inner), columns)
        if which == 11:
            inner, columns = self.select(2)
            outer, names = self.over(sql("w"), columns)
            return sql("WITH w AS ({}) {}", inner, outer), names
        return self.select(4)

    def over(self, source: Text, columns: Columns) -> tuple[Text, Columns]:
        """A query over a derived table, joined to something or to itself."""
        self.tables = {**self.tables, source.spark: columns}
        self.sizes[source.spark], self.size = self.size, 0
        return self.select(2, first=source.spark, text=source)

    def select(
        self,
        most: int,
        kinds: Sequence[str] | None = None,
        first: str | None = None,
        text: Text | None = None,
    ) -> tuple[Text, Columns]:
        clause, columns, where = self.from_clause(most, first, text)
        while self.pick(3) == 2:
            where.append(self.condition(columns))
        tail = sql(" WHERE {}", joined(" AND ", where)) if where else sql("")
        if kinds is None and self.pick(2):
            self.size = 1
            items, group, named = self.grouped(columns)
            tail = sql("{}{}", tail, group)
        else:
            items, named = [], []
            for i, k in enumerate(kinds or [None] * (1 + self.pick(3))):
                found = [c for c in columns if k in (None, c.kind)]
                c = self.choose(found) if found else Column(self.null(k or "int"), k or "int")
                if k is None and self.pick(3) == 2:
                    c = self.computed(c, columns)
                items.append(sql(f"{{}} AS c{i}", c.text))
                named.append((f"c{i}", c.kind))
        distinct = "DISTINCT " if kinds is None and self.pick(8) == 7 else ""
        comma = joined(", ", items)
        return sql("SELECT {}{} FROM {}{}", distinct, comma, clause, tail), named

    def null(self, kind: str) -> Text:
        spark, other = TYPES[kind]
        return Text(f"CAST(NULL AS {spark})", f"CAST(NULL AS {other})")

    # --- FROM ------------------------------------------------------------------------------------------------

    def atom(self, given: str | None = None) -> tuple[str, str, list[Column]]:
        fits = [n for n in self.tables if self.size + self.sizes[n] <= MOST_JOINED]
        name = given or self.choose(fits or list(self.tables)[:1])
        self.size += self.sizes[name]
        self.count += 1
        alias = f"x{self.count}"
        columns = [Column(sql(f"{alias}.{n}"), k, n, alias) for n, k in self.tables[name]]
        return name, alias, columns

    def from_clause(
        self, most: int, first: str | None, text: Text | None
    ) -> tuple[Text, list[Column], list[Text]]:
        name, alias, columns = self.atom(first)
        shown = text if text is not None else sql(name)
        clause, where = sql(f"{{}} {alias}", shown), []
        number = (1, 2, 2, 3, 4)[self.pick(5)]
        for _ in range(min(number, most) - 1):
            name, alias, theirs = self.atom()
            right = text if text is not None and name == first else sql(name)
            on = self.on(columns, theirs)
            if self.pick(3) == 2:
                clause = sql(f"{{}}, {{}} {alias}", clause, right)
                where.append(on)
            else:
                clause = sql(f"{{}} JOIN {{}} {alias} ON {{}}", clause, right, on)
            columns = columns + theirs
        return clause, columns, where

    def on(self, ours: list[Column], theirs: list[Column]) -> Text:
        """Mostly an equality of integers; others of any kind, and other comparisons."""
        keys = ("int", "int", "str", "date", "bool", "dec", "dbl")
        kind = self.choose(keys)
        pairs = [(a, b) for a in ours for b in theirs if a.kind == b.kind == kind]
        pairs = pairs or [(a, b) for a in ours for b in theirs if a.kind == b.kind == "int"]
        pairs = pairs or [(a, b) for a in ours for b in theirs if a.kind == b.kind in SCALARS]
        if not pairs:
            return sql("true")
        a, b = self.choose(pairs)
        forms: list[tuple[str, str | None]] = [("{} = {}", None)] * 6
        forms += [("{} < {}", None), ("{} <> {}", None)]
        forms += [("{} <=> {}", "{} IS NOT DISTINCT FROM {}")]
        if a.kind == "int":
            forms += [("{} + 1 = {}", None), ("{0} = {1} AND {0} > 0", None)]
            forms += [("{} + {} > 2", None)]
        form, other = self.choose(forms)
        made = sql(form, a.text, b.text, duckdb=other)
        if len(pairs) > 1 and self.pick(4) == 3:
            c, d = self.choose(pairs)
            return sql("{} AND {} = {}", made, c.text, d.text)
        return made

    def condition(self, columns: list[Column]) -> Text:
        c = self.choose(columns)
        if c.kind == "int":
            form = self.choose(("{} > 0", "{} <> 2", "{} IS NOT NULL", "{} IN (1, 2)", "-{} < 1"))
        elif c.kind == "bool":
            form = self.choose(("{}", "NOT {}", "{} IS NULL"))
        elif c.kind in ("dec", "dbl"):
            form = self.choose(("{} > 0.25", "{} < 2", "{} IS NULL"))
        elif c.kind == "str":
            form = self.choose(("{} = 'x'", "{} <> 'x'", "{} LIKE '%x%'", "length({}) > 0"))
        else:
            form = "{} IS NOT NULL"
        return sql(form, c.text)

    def computed(self, c: Column, columns: list[Column]) -> Column:
        others = [x for x in columns if x.kind == c.kind]
        other = self.choose(others)
        forms = {
            "int": ("({} + {})", "({} * {})", "coalesce({}, {})", "({} - 1)"),
            "dec": ("({} + {})", "({} * 2)"),
            "dbl": ("({} + {})", "({} - {})"),
            "str": ("({} || {})", "coalesce({}, {})"),
            "bool": ("({} AND {})", "({} OR {})"),
        }.get(c.kind)
        if forms is None:
            return c
        return Column(sql(self.choose(forms), c.text, other.text), c.kind)

    # --- GROUP BY ----------------------------------------------------------------------------------------------

    def grouped(self, columns: list[Column]) -> tuple[list[Text], Text, Columns]:
        keys = [self.choose(columns) for _ in range((1, 1, 2, 0)[self.pick(4)])]
        keys = [c for c in dict.fromkeys(keys) if c.kind in SCALARS]
        keys = [self.computed(c, columns) if self.pick(6) == 5 else c for c in keys]
        aggregates = [self.aggregate(columns) for _ in range(1 + self.pick(3))]
        chosen = [*(k for k in keys if self.pick(5) < 4), *aggregates]
        items = [sql(f"{{}} AS c{i}", c.text) for i, c in enumerate(chosen)]
        named = [(f"c{i}", c.kind) for i, c in enumerate(chosen)]
        clause = sql(" GROUP BY {}", joined(", ", (k.text for k in keys))) if keys else sql("")
        if self.pick(5) == 4:
            a = self.aggregate(columns, ("int",))
            form = self.choose(("{} > 1", "{} IS NOT NULL", "{} < 3"))
            clause = sql("{} HAVING {}", clause, sql(form, a.text))
        return items, clause, named

    def aggregate(self, columns: list[Column], kinds: Sequence[str] = ()) -> Column:
        c = self.choose([x for x in columns if x.kind in SCALARS] or columns)
        ints = [x for x in columns if x.kind == "int"]
        big = "CAST(sum({}) AS BIGINT)"
        options: list[tuple[str, str | None, str]] = [("count(*)", None, "int")]
        options.append(("count({})", None, "int"))
        if c.kind in SCALARS:
            options.append(("count(DISTINCT {})", None, "int"))
            options += [("min({})", None, c.kind), ("max({})", None, c.kind)]
        if c.kind == "int":
            options += [("sum({})", big, "int")] * 3 + [("avg({})", None, "avg")]
            options.append(("sum(DISTINCT {})", "CAST(sum(DISTINCT {}) AS BIGINT)", "int"))
            if len(ints) > 1:
                d = self.choose(ints)
                for op in "*+":
                    e = f"{{}} {op} {d.text.spark}"
                    options.append((f"sum({e})", f"CAST(sum({e}) AS BIGINT)", "int"))
        if c.kind == "dec":
            options += [("sum({})", None, "dec")] * 2 + [("avg({})", None, "avgdec")]
            options.append(("sum(DISTINCT {})", None, "dec"))
            if ints:
                e = f"{{}} * {self.choose(ints).text.spark}"
                options.append((f"sum({e})", None, "dec"))
        if c.kind == "dbl":
            options += [("sum({})", None, "dbl")] * 2 + [("avg({})", None, "avg")]
            if ints:
                e = f"{{}} * {self.choose(ints).text.spark}"
                options.append((f"sum({e})", None, "dbl"))
        if kinds:
            options = [o for o in options if o[2] in kinds]
        form, other, kind = self.choose(options)
        where = ""
        if self.pick(6) == 5:
            filtered = self.condition(columns)
            where = f" FILTER (WHERE {filtered.spark})"
        duck = (other or form).replace(" AS BIGINT)", " AS BIGINT)")
        if where:
            form += where
            duck = duck.replace(") AS BIGINT)", f"){where} AS BIGINT)") if other else duck + where
        return Column(sql(form, c.text, duckdb=duck), kind)


# --- playing a story --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class How:
    """How a story is played."""

    execution: str = "driver"
    several: str = "auto"
    reopens: bool = False
    interprets: bool = False


class Run:
    """A story on a database and on DuckDB, side by side."""

    def __init__(self, story: Story, how: How, path: Path, spark: Any):
        self.story, self.how, self.path, self.spark = story, how, path, spark
        self.duck = duckdb.connect(":memory:", config={"threads": 1})
        self.rows: dict[str, Counter[Row]] = {n: Counter() for n in story.tables}
        self.done: list[str] = []
        self.refused: list[str] = []
        self.kept: dict[str, dict[int, Counter[Row]]] = {}
        self.db = self.open(path)
        for name, table in story.tables.items():
            self.db.source(name, table.ddl)
            self.duck.execute(f"CREATE TABLE {name} ({table.duckdb})")

    def open(self, path: Path) -> hw.Database:
        db = hw.open(path, spark=self.spark)
        db.policy.execution, db.policy.several = self.how.execution, self.how.several
        return db

    def play(self) -> None:
        """Every step, and after it every view is compared."""
        try:
            for step in self.story.steps:
                self.tell(step)
                self.step(step)
                self.compare(step)
                if self.how.interprets:
                    self.compare_meaning()
                if self.how.reopens and isinstance(step, Apply):
                    self.db.close()
                    self.db = self.open(self.path)
            self.compare_past()
            self.compare_state()
        except Exception as e:
            if isinstance(e, duckdb.Error):
                raise
            raise AssertionError("\n".join([*self.script(), f"# {type(e).__name__}: {e}"])) from e
        finally:
            self.db.close()
            self.duck.close()

    def step(self, step: Step) -> None:
        match step:
            case View():
                self.define(step)
            case Drop(name):
                others = [v.text for n, v in self.db.catalog.views.items() if n != name]
                if name in self.db.views and not any(name in text for text in others):
                    self.db.drop(name)
                    self.duck.execute(f"DROP VIEW {name}")
            case Apply():
                self.apply(step)

    def define(self, view: View) -> None:
        try:
            self.duck.execute(f"CREATE VIEW {view.name} AS {view.query.duckdb}")
        except duckdb.Error as e:
            self.refused.append(f"DuckDB: {str(e).splitlines()[0]}")
            return
        before = self.db.version
        try:
            self.db.view(view.name, view.query.spark, strategy=view.strategy)
        except (NotIncremental, QueryError) as e:
            self.refused.append(f"{type(e).__name__}: {str(e).splitlines()[0]}")
            assert self.db.version == before
            assert view.name not in self.db.views
            self.duck.execute(f"DROP VIEW {view.name}")

    def apply(self, step: Apply) -> None:
        before = self.db.version
        given = {n: form(c, self.story.tables[n], step.form) for n, c in step.changes.items()}
        try:
            commit = applied(self.db, given) if before % 2 else self.db.apply(given)
        except EngineError:
            assert self.db.version == before
            self.load(step.changes)
            for name in self.db.views:  # DuckDB's own error says that this is one of the data
                self.duck.execute(f"FROM {name}").fetchall()
            raise
        assert commit.version == self.db.version == before + 1
        sizes = {n: len(c) for n, c in step.changes.items()}
        assert commit.rows == sizes, f"{commit.rows} and not {sizes} rows"
        assert commit.ignored == {}
        self.load(step.changes)

    def load(self, changes: Change) -> None:
        """The same changes in DuckDB."""
        for name, change in changes.items():
            total = dict(_net([*self.rows[name].items(), *change]))
            self.rows[name] = Counter({r: n for r, n in total.items() if n})
            columns = list(zip(*self.rows[name].elements(), strict=True))
            table = self.story.tables[name]
            self.duck.execute(f"DELETE FROM {name}")
            if columns:
                data = _arrow(table, columns)
                self.duck.register("given", data)
                self.duck.execute(f"INSERT INTO {name} SELECT * FROM given")
                self.duck.unregister("given")

    # --- comparing -----------------------------------------------------------------------------------------------

    def compare(self, step: Step) -> None:
        version = self.db.version
        for name in self.db.views:
            found = bag(self.db.table(name))
            assert all(n > 0 for n in found.values()), f"{name} has negative rows: {found}"
            expected = Counter(map(_plain, self.duck.execute(f"FROM {name}").fetchall()))
            problem = unequal(found, expected)
            assert not problem, f"{name} at version {version}: {problem}"
            past = self.kept.setdefault(name, {})
            if version - 1 in past and isinstance(step, Apply):
                change = bag(self.db.changes_table(name, version - 1, version))
                total = {r: n for r, n in _net([*past[version - 1].items(), *change.items()]) if n}
                assert total == found, (
                    f"the changes of {name} at {version} give {total}, not {found}"
                )
            past[version] = found

    def compare_meaning(self) -> None:
        """Views are what the reference interpreter makes of their terms."""
        for name in self.db.views:
            term = self.db.catalog.whole(name)
            types = {r.name: r.type for r in relations(term)}
            values = {n: from_python(t, list(self.rows[n].elements())) for n, t in types.items()}
            answer = to_python(type_of(term), interpret(term, values))
            expected = Counter(_plain(tuple(row.values())) for row in answer)
            problem = unequal(bag(self.db.table(name)), expected)
            assert not problem, f"{name} by the interpreter: {problem}"

    def compare_past(self) -> None:
        """Older versions are as they were, and changes add up from the first to the last."""
        for name in self.db.views[-1:]:
            past = self.kept[name]
            first = min(past)
            middle = list(past)[len(past) // 2]
            for version in {first, middle}:
                assert bag(self.db.table(name, version)) == past[version], f"{name} at {version}"
            change = bag(self.db.changes_table(name, first))
            total = {r: n for r, n in _net([*past[first].items(), *change.items()]) if n}
            assert total == past[self.db.version], f"all changes of {name} since {first}: {total}"

    def compare_state(self) -> None:
        """Every map is what it is when the views are defined on the same data at once."""
        fresh = self.open(self.path / "fresh")
        for name, table in self.story.tables.items():
            fresh.source(name, table.ddl)
            rows = list(self.rows[name].items())
            if rows:
                fresh.apply({name: form(rows, table, 2)})
        for name, view in self.db.catalog.views.items():
            fresh.view(name, view.text, strategy=view.strategy)
        here, there = maps(self.db), maps(fresh)
        fresh.close()
        assert here.keys() == there.keys()
        for name in here:
            problem = unequal(here[name], there[name])
            assert not problem, f"the map {self.db.program.maps[name]}: {problem}"

    # --- telling -------------------------------------------------------------------------------------------------

    def tell(self, step: Step) -> None:
        match step:
            case View():
                chosen = f", strategy={step.strategy!r}" if step.strategy != "auto" else ""
                self.done.append(f"db.view({step.name!r}, {step.query.spark!r}{chosen})")
                if step.query.duckdb != step.query.spark:
                    self.done.append(f"# DuckDB: {step.query.duckdb}")
            case Drop(name):
                self.done.append(f"db.drop({name!r})")
            case Apply():
                given = []
                for n, change in step.changes.items():
                    weighted = [(*row, w) for row, w in change]
                    given.append(f"{n!r}: {weighted!r}")
                self.done.append(f"db.apply({{{', '.join(given)}}})")

    def script(self) -> Iterator[str]:
        """What was done so far, to be run again."""
        yield "\nimport math, tempfile, headwater as hw\nfrom math import nan, inf"
        yield "from datetime import date\nimport datetime\nfrom decimal import Decimal"
        yield f"# {self.how}"
        yield "db = hw.open(tempfile.mkdtemp())"
        yield f"db.policy.execution, db.policy.several = {self.how.execution!r}, {self.how.several!r}"
        for name, table in self.story.tables.items():
            yield f"db.source({name!r}, {table.ddl!r})"
        yield from self.done


ARROW = {
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "SMALLINT": pa.int16(),
    "STRING": pa.string(),
    "DECIMAL(10,2)": pa.decimal128(10, 2),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "BOOLEAN": pa.bool_(),
}


def _arrow(table: Table, columns: Sequence[Sequence[Any]]) -> pa.Table:
    arrays = [pa.array(c, ARROW[t]) for c, t in zip(columns, table.types, strict=True)]
    return pa.table(arrays, [n for n, _ in table.columns])


def form(change: Sequence[tuple[Row, int]], table: Table, which: int) -> Any:
    """A change as rows with weights, as insertions and deletions, or as an Arrow table."""
    if which == 0 or not change:
        return [(*row, w) for row, w in change]
    if which == 1 and all(abs(w) == 1 for _, w in change):
        inserts = [row for row, w in change if w > 0]
        return hw.Delta(inserts=inserts, deletes=[row for row, w in change if w < 0])
    columns = list(zip(*(row for row, _ in change), strict=True))
    weights = pa.array([w for _, w in change], pa.int64())
    return _arrow(table, columns).append_column("_w", weights)


def _plain(row: Row) -> Row:
    """A row that can be counted: NaN is equal to itself, and true is not 1."""
    return tuple(map(_cell, row))


def _cell(v: Any) -> Any:
    match v:
        case bool():
            return ("bool", v)
        case float() if v != v:
            return "NaN"
        case dict():  # a struct, the order of a bag that is kept for max_by
            return tuple((n, _cell(x)) for n, x in v.items())
        case _:
            return v


def bag(table: pa.Table) -> dict[Row, int]:
    """Rows with the sum of their weights."""
    names = [n for n in table.column_names if n not in ("_w", "_version")]
    columns = [table.column(n).to_pylist() for n in names]
    rows = zip(*columns, strict=True) if columns else [()] * table.num_rows
    weights = table.column("_w").to_pylist()
    return {r: n for r, n in _net(zip(map(_plain, rows), weights, strict=True)) if n}


def unequal(found: Mapping[Row, int], expected: Mapping[Row, int]) -> str:
    """How two bags differ, but for the last digits of doubles; empty if they do not."""
    rest = _net([*found.items(), *((r, -n) for r, n in expected.items())])
    more = [r for r, n in rest for _ in range(n)]
    less = [r for r, n in rest for _ in range(-n)]
    missing, extra = difference(more, less)
    return f"missing {missing[:5]}, extra {extra[:5]}" if missing or extra else ""


def maps(db: hw.Database) -> dict[str, dict[Row, int]]:
    """The entries of all maps: key and ring as a row, counted once; no count may be negative, but by rounds of a loop."""
    snapshot, at = db._at(None)
    working, program = db._reading(snapshot, at), at.program
    by_rounds = {n for loop in program.loops.values() for n in loop.maps}
    looped = [program.strata[n] for loop in program.loops.values() for n in loop.strata]
    by_rounds |= {s.answers.name for s in looped if s.answers is not None}
    if any(said(keep_sums) in (p for _, p in v.passes) for v in program.views.values()):
        # What a loop of sums leaves is as often there as its value says, which may be less than nothing.
        left = {n for loop in program.loops.values() for n in loop.collections}
        by_rounds |= {m.name for m in program.maps.values() if not left.isdisjoint(m.reads)}
    out = {}
    for name, m in program.maps.items():
        tables = [t.drop_columns(["_h"]) for t in working.now(name).scan()]
        rows = [tuple(r.values()) for t in tables for r in t.to_pylist()]
        for row in rows:
            assert row[len(m.key)] >= 0 or name in by_rounds, (
                f"a negative count in {m.note or m.text}: {row}"
            )
        out[name] = dict(Counter(map(_plain, rows)))
    return out
