"""Random SQL: small tables, a change to them, and a query that nests, in Spark's and DuckDB's words.

The columns that are wanted come first, as names with kinds, and everything that can give them follows:
set operations, grouped and plain SELECTs, expressions by kind. A `Text` is one piece of SQL in both
dialects. Like in `values`, every choice is `pick(n)`, where 0 is the simplest, so that Hypothesis can
draw and shrink, and `left` counts the tables that may still be read, so that queries stop growing.

Both engines must give one and the same bag, so: numbers are multiples of 0.25, nothing divides but avg,
an average is only passed on or compared with a constant, arrays are never compared (they are bags here and
lists there), aggregates read local columns only, and LIMIT follows an order over all columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from values import Pick

T = TypeVar("T")
Columns = Sequence[tuple[str, str]]
"""Names with kinds."""

Rows = list[tuple[Any, ...]]

TYPES = {  # the kinds: their types in Spark and in DuckDB
    "int": ("BIGINT", "BIGINT"),
    "str": ("STRING", "VARCHAR"),
    "dec": ("DECIMAL(8,2)", "DECIMAL(8,2)"),
    "dbl": ("DOUBLE", "DOUBLE"),
    "date": ("DATE", "DATE"),
    "bool": ("BOOLEAN", "BOOLEAN"),
    "avg": ("DOUBLE", "DOUBLE"),
    "avgdec": ("DECIMAL(12,6)", "DOUBLE"),
    "ints": ("ARRAY<BIGINT>", "BIGINT[]"),
    "rows": ("ARRAY<STRUCT<p: BIGINT, q: STRING>>", "STRUCT(p BIGINT, q VARCHAR)[]"),
}
POOLS: dict[str, tuple[Any, ...]] = {
    "int": (1, 2, 1, 2, 3, 0, -1, None),
    "str": ("x", "y", "x", "Ab", "", None),
    "dec": (*map(Decimal, ("0.50", "1.25", "0.50", "0.00", "-1.00", "12.75")), None),
    "dbl": (0.5, 1.25, 0.5, 0.0, -1.0, 2.75, None),
    "date": (date(2024, 1, 31), date(2024, 2, 29), date(2024, 1, 31), date(2023, 12, 31), None),
    "bool": (True, False, True, False, None),
}
SCALARS, ARRAYS, NAMES = tuple(POOLS), ("ints", "rows"), "abcdef"
WANTED = (*SCALARS, "int", "int", "str", "avg", "avgdec", *ARRAYS)

# What gives a kind: Spark's template, the kinds of its arguments (K: the kind itself), DuckDB's template.
Template = tuple[str, str] | tuple[str, str, str]
ANY: tuple[Template, ...] = (
    ("coalesce({}, {})", "K K"),
    ("CASE WHEN {} THEN {} ELSE {} END", "bool K K"),
    ("CASE WHEN {} THEN {} END", "bool K"),
    ("CASE {} WHEN {} THEN {} WHEN {} THEN {} ELSE NULL END", "int int K int K"),
    ("nullif({}, {})", "K K"),
    # DuckDB 2.0 fails on greatest and least of one column twice ("Duplicate named argument").
    ("greatest({}, {})", "K K", "list_max([{}, {}])"),
    ("least({}, {}, {})", "K K K", "list_min([{}, {}, {}])"),
)
FUNCTIONS: dict[str, tuple[Template, ...]] = {
    "int": (
        ("({} + {})", "int int"),
        ("({} - {})", "int int"),
        ("({} * 2)", "int"),
        ("-({})", "int"),
        ("abs({})", "int"),
        ("length({})", "str"),
        ("year({})", "date"),
        ("day({})", "date"),
        ("datediff({}, {})", "date date", "({} - {})"),
        ("size({})", "rows", "len({})"),
        ("CAST({} AS INT)", "bool"),
    ),
    "str": (
        ("({} || {})", "str str"),
        ("upper({})", "str"),
        ("lower({})", "str"),
        ("substring({}, 1, 1)", "str"),
        ("CAST({} AS STRING)", "int", "CAST({} AS VARCHAR)"),
    ),
    "dec": (
        ("({} + {})", "dec dec"),
        ("({} - {})", "dec int"),
        ("({} * 2)", "dec"),
        ("coalesce({}, {})", "int dec"),
        ("CAST({} AS DECIMAL(8,2))", "int"),
    ),
    "dbl": (
        ("({} + {})", "dbl dbl"),
        ("({} - {})", "dbl dec"),
        ("({} * {})", "dbl dbl"),
        ("CASE WHEN {} THEN {} ELSE {} END", "bool dec dbl"),
        ("CAST({} AS DOUBLE)", "dec"),
    ),
    "date": (("date_add({}, 1)", "date", "({} + 1)"), ("last_day({})", "date")),
}
COMPARISONS: tuple[Template, ...] = (  # conditions over two or more values that can be compared
    *((f"({{}} {op} {{}})", "K K") for op in ("=", "<", "<>", ">=", ">", "<=")),
    ("({} <=> {})", "K K", "({} IS NOT DISTINCT FROM {})"),
    ("({} IN ({}, {}))", "K K K"),
    ("({} NOT IN ({}, NULL))", "K K"),
    ("({} BETWEEN {} AND {})", "K K K"),
)
AGGREGATES: dict[str, tuple[Template, ...]] = {
    "int": (
        ("count(*)", "", "count(*) FILTER (WHERE {where})"),
        ("sum({})", "int", "CAST(sum({}) FILTER (WHERE {where}) AS BIGINT)"),
        ("count({})", "S"),
        ("count(DISTINCT {})", "S"),
        ("sum(DISTINCT {})", "int", "CAST(sum(DISTINCT {}) FILTER (WHERE {where}) AS BIGINT)"),
        ("count_if({})", "bool", "count(*) FILTER (WHERE ({}) AND {where})"),
        (
            "count(DISTINCT {}, {})",
            "S S",
            "count(DISTINCT ({0}, {1})) FILTER (WHERE {0} IS NOT NULL AND {1} IS NOT NULL AND {where})",
        ),
    ),
    "dec": tuple(
        (s, "dec", f"CAST({s} FILTER (WHERE {{where}}) AS DECIMAL(18,2))")
        for s in ("sum({})", "sum(DISTINCT {})")
    ),
    "dbl": (("sum({})", "dbl"), ("sum(DISTINCT {})", "dbl")),
    "bool": (("bool_and({})", "bool"), ("bool_or({})", "bool")),
    "avg": (("avg({})", "int"), ("avg({})", "dbl"), ("avg(DISTINCT {})", "int")),
    "avgdec": (("avg({})", "dec"), ("avg(DISTINCT {})", "dec")),
    "ints": tuple(
        (
            f"{spark}(CAST({{}} AS BIGINT))",
            "int",
            f"coalesce(list({duckdb}CAST({{0}} AS BIGINT)) FILTER (WHERE {{0}} IS NOT NULL AND {{where}}), [])",
        )
        for spark, duckdb in (("collect_list", ""), ("collect_set", "DISTINCT "))
    ),
    "rows": (
        (
            "collect_list(struct(CAST({} AS BIGINT) AS p, {} AS q))",
            "int str",
            "coalesce(list(struct_pack(p := CAST({} AS BIGINT), q := {})) FILTER (WHERE {where}), [])",
        ),
    ),
}
EXTREMES: tuple[Template, ...] = (("min({})", "K"), ("max({})", "K"))
JOINS = ("JOIN", "LEFT JOIN", "CROSS JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")  # fmt: skip


class Text(NamedTuple):
    """A piece of SQL in both dialects."""

    spark: str
    duckdb: str


def sql(template: str, *parts: Text | str, duckdb: str | None = None) -> Text:
    """A template with its parts put in, in both dialects."""
    pairs = [Text(p, p) if isinstance(p, str) else p for p in parts]
    other = template if duckdb is None else duckdb
    return Text(
        template.format(*(p.spark for p in pairs)), other.format(*(p.duckdb for p in pairs))
    )


def joined(separator: str, parts: Iterable[Text]) -> Text:
    spark, duckdb = zip(*parts, strict=True)
    return Text(separator.join(spark), separator.join(duckdb))


@dataclass(frozen=True)
class Column:
    """A value that expressions may read: a column, a group's key or an aggregate.

    `alias` is its table's, empty where no subquery can name it; `bare`: its name alone may mean it.
    """

    text: Text
    kind: str
    name: str = ""
    alias: str = ""
    bare: bool = False


@dataclass(frozen=True)
class Scope:
    """What an expression may read, what its subqueries may, and how deep those may nest."""

    columns: tuple[Column, ...]
    visible: tuple[Column, ...] = ()
    depth: int = 0


class Queries:
    """Draws queries over tables with the given columns."""

    def __init__(self, pick: Pick, tables: Mapping[str, Columns], left: int = 6):
        self.pick, self.tables, self.left, self.count = pick, tables, left, 0
        self.ctes: list[tuple[str, Columns]] = []

    def choose(self, options: Sequence[T]) -> T:
        return options[self.pick(len(options))]

    def chance(self, n: int) -> bool:
        """True once in n times; False is simpler."""
        return self.pick(n) == n - 1

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def wanted(self, flat: bool = False) -> Columns:
        """Some columns; flat ones can be compared."""
        kinds = SCALARS if flat else WANTED
        start = self.pick(len(NAMES))
        return [
            (NAMES[(start + i) % len(NAMES)], self.choose(kinds)) for i in range(1 + self.pick(3))
        ]

    # --- queries --------------------------------------------------------------------------------------

    def query(self, columns: Columns, outer: tuple[Column, ...] = (), depth: int = 3) -> Text:
        """Any query with these columns; it may read columns of the query around it."""
        known, clause = list(self.ctes), sql("")
        if depth > 1 and self.left > 2 and self.chance(5):
            name, inner = self.fresh("w"), self.wanted()
            names = f"({', '.join(n for n, _ in inner)})" if self.pick(2) else ""
            renamed = [(n + "0", k) for n, k in inner] if names else inner
            clause = sql("WITH {}{} AS ({}) ", name, names, self.query(renamed, (), depth - 1))
            self.ctes.append((name, inner))
        flat = all(k not in ARRAYS for _, k in columns)
        if depth > 1 and self.left > 1 and self.chance(4):
            body = self.set_operation(columns, outer, depth - 1, flat)
        else:
            body = self.select(columns, outer, depth)
        self.ctes = known
        if flat and self.chance(6):
            body = sql("{}{}", body, self.order(columns, self.pick(5)))
        return sql("{}{}", clause, body)

    def set_operation(
        self, columns: Columns, outer: tuple[Column, ...], depth: int, flat: bool
    ) -> Text:
        """UNION ALL, and where rows can be compared the others; integers may meet other numbers."""
        others = [
            (n + "2", "int" if k in ("dec", "dbl") and self.chance(6) else k) for n, k in columns
        ]
        left, right = self.query(columns, outer, depth), self.query(others, outer, depth)
        distinct = ("UNION", "EXCEPT ALL", "INTERSECT ALL", "EXCEPT", "INTERSECT")
        operation = self.choose(("UNION ALL", *distinct) if flat else ("UNION ALL",))
        return sql("({}) {} ({})", left, operation, right)

    def order(self, columns: Columns, limit: int) -> Text:
        """ORDER BY all columns, and a limit; NULLs come where Spark puts them unless it is said."""
        order = []
        for i, (name, _) in enumerate(columns):
            down = ("ASC", "DESC")[self.pick(2)]
            nulls = ("", " NULLS LAST", " NULLS FIRST")[self.pick(3)]
            given = nulls or (" NULLS FIRST" if down == "ASC" else " NULLS LAST")
            by = name if self.pick(2) else str(i + 1)
            order.append(Text(f"{by} {down}{nulls}", f"{i + 1} {down}{given}"))
        offset = " OFFSET 1" if self.chance(4) else ""
        return sql(" ORDER BY {} LIMIT {}{}", joined(", ", order), str(limit), offset)

    def select(
        self, columns: Columns, outer: tuple[Column, ...], depth: int, one: bool = False
    ) -> Text:
        """One SELECT; `one` makes it a global aggregate, of one row or none."""
        source, local = self.from_clause(depth)
        aliases = {c.alias for c in local}
        outer = tuple(c for c in outer if c.alias not in aliases)
        visible = (*(c for c in local if c.alias), *outer)
        where: list[Text] = []
        if outer and local:
            where = self.correlation(local, outer)
        if self.chance(3):
            where.append(self.condition(Scope((*local, *outer), visible, depth - 1), 2))
        tail = sql(" WHERE {}", joined(" AND ", where)) if where else sql("")
        grouped = sql("")
        grouping = one or self.chance(3)
        if grouping:
            scope, grouped = self.grouped(columns, local, outer, depth, one)
            tail = sql("{}{}", tail, grouped)
        else:
            scope = Scope((*self.bare(local), *outer), visible, depth - 1)
        values = [self.value(k, scope, 2) for _, k in columns]
        shown = any(c.text.spark in v.spark for c in scope.columns for v in values)
        if grouping and not shown and " GROUP BY" not in grouped.spark[:9]:
            values[0] = scope.columns[0].text  # without a key it is an aggregate that makes one row
        items = [sql(f"{{}} AS {n}", v) for (n, _), v in zip(columns, values, strict=True)]
        flat = all(k not in ARRAYS for _, k in columns)
        distinct = "DISTINCT " if flat and self.chance(6) else ""
        return sql("SELECT {}{} FROM {}{}", distinct, joined(", ", items), source, tail)

    def correlation(self, local: list[Column], outer: tuple[Column, ...]) -> list[Text]:
        """A comparison of a local column with one of the query around it, if their kinds agree."""
        pairs = [(a, b) for a in local for b in outer if a.kind == b.kind and a.kind in SCALARS]
        if not pairs:
            return []
        a, b = self.choose(pairs)
        return [sql(self.choose(("{} = {}", "{} = {}", "{} < {}")), a.text, b.text)]

    def bare(self, columns: list[Column]) -> Iterator[Column]:
        """Some columns without the name of their table, where Spark knows which one is meant."""
        names = Counter(c.name for c in columns if c.bare)
        for c in columns:
            short = c.alias and c.bare and names[c.name] == 1 and self.chance(3)
            yield replace(c, text=Text(c.name, c.text.duckdb)) if short else c

    def grouped(
        self,
        columns: Columns,
        local: list[Column],
        outer: tuple[Column, ...],
        depth: int,
        one: bool,
    ) -> tuple[Scope, Text]:
        """GROUP BY with HAVING: what can be read of a group, and the clauses."""
        keys, aggregates = [], []
        for kind in (k for _, k in columns):
            found = [c for c in local if c.kind == kind and kind in SCALARS]
            if found and not one and self.pick(3):
                key = self.choose(found)
                if self.chance(3):
                    template = self.choose(("coalesce({0}, {0})", "nullif({0}, {0})"))
                    key = Column(sql(template, key.text), kind)
                keys.append(key)
            else:
                aggregates.append(self.aggregate(kind, local))
        visible = (*(k for k in keys if k.alias), *outer)
        clauses = sql(" GROUP BY {}", joined(", ", (k.text for k in keys))) if keys else sql("")
        # Known bug: a column of the query around it is refused in the select list and the HAVING of a
        # grouped subquery ("neither grouped by nor aggregated"), so `outer` is not among the columns.
        scope = Scope((*keys, *aggregates), visible, depth - 1)
        if self.chance(4):
            named = tuple(c for c in keys if c.alias)  # a merged column may be an alias too
            extra = self.aggregate(self.choose(SCALARS), local)
            inner = replace(scope, columns=(extra, *named, *aggregates))
            clauses = sql("{} HAVING {}", clauses, self.condition(inner, 1))
        return scope, clauses

    def aggregate(self, kind: str, local: list[Column]) -> Column:
        """An aggregate of this kind over local columns, with or without FILTER."""
        options = (*AGGREGATES.get(kind, ()), *(EXTREMES if kind in SCALARS else ()))
        spark, kinds, *other = self.choose(options)
        scope = Scope(tuple(local))
        wanted = [
            kind if k == "K" else self.choose(SCALARS) if k == "S" else k for k in kinds.split()
        ]
        args = [self.value(k, scope, 1) for k in wanted]
        where = self.condition(scope, 1) if self.chance(4) else None
        duckdb = other[0] if other else f"{spark} FILTER (WHERE {{where}})"
        text = spark.format(*(a.spark for a in args))
        return Column(
            Text(
                text if where is None else f"{text} FILTER (WHERE {where.spark})",
                duckdb.format(
                    *(a.duckdb for a in args), where=where.duckdb if where is not None else "true"
                ),
            ),
            kind,
        )

    # --- FROM -----------------------------------------------------------------------------------------

    def from_clause(self, depth: int) -> tuple[Text, list[Column]]:
        """One to three tables joined, then an array exploded."""
        text, columns = self.source(depth, set())
        for _ in range(self.pick(3)):
            if self.left > 0:
                right, theirs = self.source(depth, {c.alias for c in columns})
                text, columns = self.join(text, columns, right, theirs)
        arrays = [c for c in columns if c.kind in ARRAYS]
        if arrays and self.chance(2):
            array, alias = self.choose(arrays), self.fresh("e")
            outer = "OUTER " if self.pick(2) else ""
            exploded = "LEFT JOIN LATERAL (SELECT unnest({}) AS item) {} ON true" if outer else "CROSS JOIN unnest({}) {}(item)"  # fmt: skip
            view = sql(f"LATERAL VIEW {outer}explode({{}}) {{}} AS item", array.text, alias, duckdb=exploded)  # fmt: skip
            text = sql("{} {}", text, view)
            fields = (("", "int"),) if array.kind == "ints" else ((".p", "int"), (".q", "str"))
            columns = columns + [Column(sql(f"{alias}.item{f}"), k, "", alias) for f, k in fields]
        return text, columns

    def source(self, depth: int, used: set[str]) -> tuple[Text, list[Column]]:
        """A table, a CTE, constants, or a subquery; a table may go by its own name."""
        self.left -= 1
        known = [*self.tables.items(), *self.ctes]
        alias = self.fresh("t")
        if depth > 1 and self.left > 0 and self.chance(3):
            columns = self.wanted()
            text = sql("({}) {}", self.query(columns, (), depth - 1), alias)
        elif self.chance(10):
            columns = self.wanted(flat=True)
            rows = [
                sql("({})", joined(", ", (self.literal(k, i) for _, k in columns)))
                for i in range(1 + self.pick(2))
            ]
            names = ", ".join(n for n, _ in columns)
            text = sql("(VALUES {}) AS {}({})", joined(", ", rows), alias, names)
        else:
            name, columns = self.choose(known)
            alias = name if name not in used and self.pick(2) else alias
            text = sql(name if alias == name else f"{name} {alias}")
        return text, [Column(sql(f"{alias}.{n}"), k, n, alias, True) for n, k in columns]

    def join(
        self, left: Text, ours: list[Column], right: Text, theirs: list[Column]
    ) -> tuple[Text, list[Column]]:
        """Any kind of join, by a condition or by USING."""
        kind = self.choose(JOINS)
        both, half = [*ours, *theirs], "SEMI" in kind or "ANTI" in kind
        duckdb = f"{{}} {kind.removeprefix('LEFT ') if half else kind} {{}}"
        if kind == "CROSS JOIN":
            return sql("{} CROSS JOIN {}", left, right), both
        names = Counter(c.name for c in ours if c.bare)
        common = [
            (a, b)
            for a in ours
            for b in theirs
            if a.bare and a.name == b.name and names[a.name] == 1 and a.kind == b.kind in SCALARS
        ]
        if common and self.chance(3):
            a, b = self.choose(common)
            equal = f"{a.text.duckdb} = {b.text.duckdb}"
            text = sql(
                f"{{}} {kind} {{}} USING ({a.name})", left, right, duckdb=f"{duckdb} ON {equal}"
            )
            if kind == "FULL JOIN":
                value = f"coalesce({a.text.duckdb}, {b.text.duckdb})"
            else:
                value = (b if kind == "RIGHT JOIN" else a).text.duckdb
            rest = [replace(c, bare=False) if c in (a, b) else c for c in both]
            merged = Column(Text(a.name, value), a.kind, a.name, "", True)
            return text, ours if half else [merged, *(c for c in rest if c.alias)]
        scope = Scope(tuple(both))
        pairs = [(a, b) for a in ours for b in theirs if a.kind == b.kind and a.kind in SCALARS]
        on = self.condition(scope, 1)
        if pairs and self.pick(4) < 3:
            a, b = self.choose(pairs)
            template = self.choose(("{} = {}", "{} = {} AND {}", "{} = {} OR {}", "{} < {}"))
            on = sql(template, a.text, b.text, on)
        elif not pairs or self.pick(2):
            on = sql("true")
        text = sql(f"{{}} {kind} {{}} ON {{}}", left, right, on, duckdb=f"{duckdb} ON {{}}")
        return text, ours if half else both

    # --- expressions ----------------------------------------------------------------------------------

    def literal(self, kind: str, i: int | None = None) -> Text:
        """A constant; of the pool the i-th where it is given."""
        pool = POOLS.get(kind, (None,))
        value = pool[self.pick(len(pool)) if i is None else i]
        if value is None:
            spark, duckdb = TYPES[kind]
            return Text(f"CAST(NULL AS {spark})", f"CAST(NULL AS {duckdb})")
        return sql("{}", f"{value}E0" if kind == "dbl" else constant(value))

    def value(self, kind: str, scope: Scope, depth: int) -> Text:
        """An expression of this kind."""
        found = [c.text for c in scope.columns if c.kind == kind]
        if depth == 0 or kind not in SCALARS or self.pick(3) == 0:
            at = self.pick(len(found) + 1)
            return found[at] if at < len(found) else self.literal(kind)
        if scope.depth > 0 and self.left > 0 and self.chance(8):
            return self.scalar(kind, scope)
        if kind == "bool" and self.pick(3):
            return self.condition(scope, depth - 1)
        return self.call(self.choose((*FUNCTIONS.get(kind, ()), *ANY)), kind, scope, depth - 1)

    def call(self, template: Template, kind: str, scope: Scope, depth: int) -> Text:
        spark, kinds, *other = template
        args = [self.value(kind if k == "K" else k, scope, depth) for k in kinds.split()]
        return sql(spark, *args, duckdb=other[0] if other else None)

    def scalar(self, kind: str, scope: Scope) -> Text:
        """A scalar subquery: a global aggregate, or the first row in an order over all columns."""
        column = [("v", kind)]
        if self.chance(4):
            rows = self.select(column, scope.visible, scope.depth)
            return sql(
                "({} ORDER BY 1 LIMIT 1)", rows, duckdb="({} ORDER BY 1 NULLS FIRST LIMIT 1)"
            )
        return sql("({})", self.select(column, scope.visible, scope.depth, one=True))

    def condition(self, scope: Scope, depth: int) -> Text:
        """A boolean expression: a comparison, logic, or a subquery's test."""
        if depth > 0 and self.chance(3):
            parts = [self.condition(scope, depth - 1) for _ in range(2)]
            return sql(self.choose(("({} AND {})", "({} OR {})", "(NOT {0})")), *parts)
        if scope.depth > 0 and self.left > 0 and self.chance(3):
            negated = self.choose(("", "NOT "))
            if self.pick(2):
                rows = self.query(self.wanted(flat=True), scope.visible, scope.depth)
                return sql("({}EXISTS ({}))", negated, rows)
            kind = self.choose(SCALARS)
            rows = self.query([("v", kind)], scope.visible, scope.depth)
            return sql("({} {}IN ({}))", self.value(kind, scope, 1), negated, rows)
        if scope.columns and self.chance(4):
            c = self.choose(scope.columns)
            tests = ["({} IS NULL)", "({} IS NOT NULL)"]
            tests += ["({} > 0.25)", "({} <= 1)"] if c.kind in ("avg", "avgdec") else []
            tests += ["({} IS TRUE)", "{}", "({} IS NOT FALSE)"] if c.kind == "bool" else []
            tests += ["({} LIKE '%x%')", "({} NOT LIKE 'A_')"] if c.kind == "str" else []
            return sql(self.choose(tests), c.text)
        known = [c.kind for c in scope.columns if c.kind in SCALARS]
        kind = self.choose((*known, "int"))
        return self.call(self.choose(COMPARISONS), kind, scope, depth)


# --- cases ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Tables with their rows before and after a change, and a query."""

    tables: Mapping[str, Columns]
    old: Mapping[str, Rows]
    new: Mapping[str, Rows]
    query: Text

    @property
    def schema(self) -> str:
        """The tables, as `schemas` reads them."""
        columns = {
            n: ", ".join(f"{c} {TYPES[k][0]}" for c, k in cs) for n, cs in self.tables.items()
        }
        return "; ".join(f"{name}({text})" for name, text in columns.items())

    def statements(self, rows: Mapping[str, Rows]) -> Iterator[str]:
        """What makes the tables in DuckDB."""
        for name, columns in self.tables.items():
            types = ", ".join(f"{n} {TYPES[k][1]}" for n, k in columns)
            yield f"CREATE OR REPLACE TABLE {name} ({types})"
            if rows[name]:
                yield f"INSERT INTO {name} VALUES {', '.join(map(constant, rows[name]))}"


def case(pick: Pick) -> Case:
    """Two to four tables, of which the first has an array, a change to some of them, and a query."""
    tables: dict[str, Columns] = {}
    for name in "rstu"[: 2 + pick(3)]:
        others = [(n, SCALARS[pick(len(SCALARS))]) for n in NAMES[1 : 2 + pick(3)]]
        tables[name] = [("a", "int"), *others, *([] if tables else [("xs", "rows")])]
    old = {name: rows(pick, columns, 4) for name, columns in tables.items()}
    new = {}
    for name, columns in tables.items():
        kept = [row for row in old[name] if pick(3)]
        new[name] = old[name] if pick(4) == 0 else [*kept, *rows(pick, columns, 2)]
    queries = Queries(pick, tables)
    return Case(tables, old, new, queries.query(queries.wanted()))


def rows(pick: Pick, columns: Columns, most: int) -> Rows:
    """Rows of a table; the last may repeat."""
    out = [tuple(datum(pick, k) for _, k in columns) for _ in range(pick(most + 1))]
    return out + out[-1:] * (pick(3) == 2)


def datum(pick: Pick, kind: str) -> Any:
    """A value of a column."""
    if kind == "rows":
        pairs = [rows(pick, [("p", "int"), ("q", "str")], 2), None, [None]]
        return pairs[max(0, pick(8) - 5)]
    return POOLS[kind][pick(len(POOLS[kind]))]


def constant(value: Any) -> str:
    """A value as SQL writes it; DuckDB alone has the tuples and lists."""
    match value:
        case None | bool():
            return "NULL" if value is None else str(value).upper()
        case str():
            return f"'{value}'"
        case date():
            return f"DATE '{value}'"
        case tuple():
            return f"({', '.join(map(constant, value))})"
        case list():
            return f"[{', '.join(map(constant, value))}]"
        case _:
            return str(value)
