"""Random SQL that nests, in Spark's and DuckDB's words.

The columns that are wanted come first, as names with kinds, and everything that can give them follows:
set operations, grouped and plain SELECTs, expressions by kind. Like in `random_values`, every choice is
`pick(n)`, where 0 is the simplest, so that Hypothesis can draw and shrink; `left` counts the tables that
may still be read, so that queries stop growing.

Both engines must give one and the same bag, so an average is only passed on or compared with a constant,
arrays are never compared (they are bags here and lists there), aggregates read local columns only, and
LIMIT follows an order over all columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from random_sql_words import (
    AGGREGATES,
    ANY,
    ARRAYS,
    COMPARISONS,
    EXTREMES,
    FUNCTIONS,
    JOINS,
    NAMES,
    POOLS,
    SCALARS,
    TYPES,
    WANTED,
    Column,
    Scope,
    Template,
    Text,
    constant,
    joined,
    sql,
)
from random_values import Pick

T = TypeVar("T")
Columns = Sequence[tuple[str, str]]
"""Names with kinds."""

Outer = tuple[Column, ...]
"""What a subquery may read of the queries around it."""


class Queries:
    """Draws queries over tables with the given columns."""

    def __init__(self, pick: Pick, tables: Mapping[str, Columns], left: int = 6):
        self.pick, self.tables, self.left, self.count = pick, tables, left, 0
        self.ctes: list[tuple[str, Columns]] = []
        self.inside = 0

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
            (NAMES[(start + i) % len(NAMES)], self.choose(kinds)) for i in range(1 + self.pick(4))
        ]

    # --- queries --------------------------------------------------------------------------------------

    def query(self, columns: Columns, outer: Outer = (), depth: int = 3) -> Text:
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
        elif depth > 1 and self.chance(12):
            star = self.choose(("SELECT * FROM ({}) {}", "SELECT {1}.* FROM ({0}) {1}"))
            body = sql(star, self.query(columns, (), depth - 1), self.fresh("t"))
        else:
            body = self.select(columns, outer, depth)
        self.ctes = known
        if flat and self.chance(6):
            body = sql("{}{}", body, self.order(columns, 6 - self.pick(6)))
        return sql("{}{}", clause, body)

    def set_operation(self, columns: Columns, outer: Outer, depth: int, flat: bool) -> Text:
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
            # Known bug: inside EXISTS, IN and scalar subqueries ORDER BY does not see output names.
            by = name if self.pick(2) and not self.inside else str(i + 1)
            order.append(Text(f"{by} {down}{nulls}", f"{i + 1} {down}{given}"))
        offset = " OFFSET 1" if self.chance(4) else ""
        return sql(" ORDER BY {} LIMIT {}{}", joined(", ", order), str(limit), offset)

    def select(self, columns: Columns, outer: Outer, depth: int, one: bool = False) -> Text:
        """One SELECT; `one` makes it a global aggregate, of one row or none."""
        source, local = self.from_clause(depth) if not self.chance(20) else (sql(""), [])
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
        lacking = {k for _, k in columns} - {c.kind for c in local} - set(SCALARS)
        grouping = one or (self.pick(4) > 0 if lacking else self.chance(6))
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
        distinct = "DISTINCT " if flat and self.chance(8) else ""
        return sql("SELECT {}{}{}{}", distinct, joined(", ", items), source, tail)

    def correlation(self, local: list[Column], outer: Outer) -> list[Text]:
        """A comparison of a local column with one of the query around it, if their kinds agree."""
        pairs = [(a, b) for a in local for b in outer if a.kind == b.kind and a.kind in SCALARS]
        if not pairs:
            return []
        a, b = self.choose(pairs)
        return [sql(self.choose(("{} = {}", "{} <= {}")), a.text, b.text)]

    def bare(self, columns: list[Column]) -> Iterator[Column]:
        """Some columns without the name of their table, where Spark knows which one is meant."""
        names = Counter(c.name for c in columns if c.bare)
        for c in columns:
            short = c.alias and c.bare and names[c.name] == 1 and self.chance(3)
            yield replace(c, text=Text(c.name, c.text.duckdb)) if short else c

    def grouped(
        self, columns: Columns, local: list[Column], outer: Outer, depth: int, one: bool
    ) -> tuple[Scope, Text]:
        """GROUP BY with HAVING: what can be read of a group, and the clauses."""
        keys, aggregates = [], []
        for kind in (k for _, k in columns):
            found = [c for c in local if c.kind == kind and kind in SCALARS]
            if found and not one and self.pick(4):
                key = self.choose(found)
                if self.chance(3):
                    template = self.choose(("coalesce({}, {})", "nullif({}, {})"))
                    key = Column(sql(template, key.text, self.literal(kind)), kind)
                keys.append(key)
            else:
                aggregates.append(self.aggregate(kind, local, depth - 1))
        others = [c for c in local if c.kind in SCALARS]
        if others and not keys and not one and self.pick(4):
            keys.append(self.choose(others))
        visible = (*(k for k in keys if k.alias), *outer)
        clauses = sql(" GROUP BY {}", joined(", ", (k.text for k in keys))) if keys else sql("")
        # Known bug: a column of the query around it is refused in the select list and the HAVING of a
        # grouped subquery ("neither grouped by nor aggregated"), so `outer` is not among the columns.
        scope = Scope((*keys, *aggregates), visible, depth - 1)
        if self.chance(6):
            named = tuple(c for c in keys if c.alias)  # a merged column may be an alias too
            extra = self.aggregate(self.choose(SCALARS), local)
            inner = replace(scope, columns=(extra, *named, *aggregates))
            clauses = sql("{} HAVING {}", clauses, self.condition(inner, 1))
        return scope, clauses

    def aggregate(self, kind: str, local: list[Column], depth: int = 0) -> Column:
        """An aggregate of this kind over local columns, with or without FILTER."""
        options = (*AGGREGATES.get(kind, ()), *(EXTREMES if kind in SCALARS else ()))
        spark, kinds, *other = self.choose(options)
        scope = Scope(tuple(local), tuple(c for c in local if c.alias), depth)
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
        text = sql(" FROM {}", text)
        for _ in range(self.pick(3)):
            if self.left > 0:
                right, theirs = self.source(depth, {c.alias for c in columns})
                text, columns = self.join(text, columns, right, theirs, depth - 1)
        arrays = [c for c in columns if c.kind in ARRAYS]
        if arrays and self.chance(4):
            array, alias = self.choose(arrays), self.fresh("e")
            outer = "OUTER " if self.pick(2) else ""
            exploded = "LEFT JOIN LATERAL (SELECT unnest({}) AS item) {} ON true" if outer else "CROSS JOIN unnest({}) {}(item)"  # fmt: skip
            view = sql(f"LATERAL VIEW {outer}explode({{}}) {{}} AS item", array.text, alias, duckdb=exploded)  # fmt: skip
            text = sql("{} {}", text, view)
            fields = (("", "int"),) if array.kind == "ints" else ((".p", "int"), (".q", "str"))
            columns = columns + [
                Column(sql(f"{alias}.item{f}"), k, "item", alias) for f, k in fields
            ]
        return text, columns

    def source(self, depth: int, used: set[str]) -> tuple[Text, list[Column]]:
        """A table, a CTE, constants, or a subquery; a table may go by its own name."""
        self.left -= 1
        known = [*self.tables.items(), *self.ctes, *self.ctes, *self.ctes]
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
        self, left: Text, ours: list[Column], right: Text, theirs: list[Column], depth: int
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
        if kind in ("RIGHT JOIN", "FULL JOIN"):
            # Known bug: after a second USING (a) that is RIGHT or FULL, `a` is still the first one's.
            common = [(a, b) for a, b in common if a.alias]
        if common and self.chance(2):
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
        scope = Scope(
            tuple(both), tuple(c for c in both if c.alias), depth if kind == "JOIN" else 0
        )
        pairs = [(a, b) for a in ours for b in theirs if a.kind == b.kind and a.kind in SCALARS]
        on = self.condition(scope, 1)
        if pairs and self.pick(4) < 3:
            a, b = self.choose(pairs)
            template = self.choose(("{} = {}", "{} = {} OR {}", "{} <= {}", "{} = {} AND {}"))
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
        if depth == 0 or kind not in SCALARS or self.pick(5) < 3:
            kinds = {c.kind for c in scope.columns}
            made = [t for t in FUNCTIONS.get(kind, ()) if kinds.issuperset(t[1].split())]
            at = self.pick(4 * len(found) + 1)
            if at == 0 and made and not found and self.pick(3):
                return self.call(self.choose(made), kind, scope, 0)
            return found[at // 4] if at < 4 * len(found) else self.literal(kind)
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
        first = self.chance(4)
        self.inside += 1
        rows = self.select([("v", kind)], scope.visible, scope.depth, one=not first)
        self.inside -= 1
        order = Text(" ORDER BY 1 LIMIT 1", " ORDER BY 1 NULLS FIRST LIMIT 1")
        return sql("({}{})", rows, order if first else "")

    def condition(self, scope: Scope, depth: int) -> Text:
        """A boolean expression: a comparison, logic, or a subquery's test."""
        if depth > 0 and self.chance(3):
            parts = [self.condition(scope, depth - 1) for _ in range(2)]
            logic = ["({} OR {})", "({} AND {})", "(NOT {0})"]
            if re.search(r"\bIN \((SELECT|WITH|\()", parts[0].spark):
                logic.pop()  # Spark moves NOT inwards, where it meets an IN that is never NULL
            return sql(self.choose(logic), *parts)
        if scope.depth > 0 and self.left > 0 and self.chance(2):
            self.inside += 1
            columns = self.wanted(flat=True)
            if not all(c.name for c in scope.columns):
                columns = columns[:1]  # DuckDB's words for IN of more cannot hold an aggregate
            rows = self.query(columns, scope.visible, scope.depth)
            self.inside -= 1
            if self.pick(2):
                return sql(self.choose(("EXISTS ({})", "(NOT EXISTS ({}))")), rows)
            return self.is_in(columns, scope, rows)
        if scope.columns and self.chance(4):
            c = self.choose(scope.columns)
            tests = ["({} IS NULL)", "({} IS NOT NULL)"]
            tests += ["({} > 0.25)", "({} <= 1)"] if c.kind in ("avg", "avgdec") else []
            tests += ["({} IS TRUE)", "{}", "({} IS NOT FALSE)"] if c.kind == "bool" else []
            tests += ["({} LIKE '%x%')", "({} NOT LIKE 'A_')"] if c.kind == "str" else []
            return sql(self.choose(tests), c.text)
        spark, kinds, *other = self.choose(COMPARISONS)
        known = [c for c in scope.columns if c.kind in SCALARS]
        first = self.choose(known) if known else Column(self.literal("int"), "int")
        others = replace(scope, columns=tuple(c for c in scope.columns if c.text != first.text))
        args = [self.value(first.kind, others, depth) for _ in kinds.split()[1:]]
        return sql(spark, first.text, *args, duckdb=other[0] if other else None)

    def is_in(self, columns: Columns, scope: Scope, rows: Text) -> Text:
        """[NOT] IN. In Spark it is never NULL; and DuckDB compares rows in its own way, so it counts."""
        left = [self.value(k, scope, 1) for _, k in columns]
        words = self.choose(("{} IN ({})", "{} NOT IN ({})", "NOT ({} IN ({}))"))
        if len(left) == 1:
            return sql(f"({words})", left[0], rows, duckdb=f"coalesce({words}, false)")
        z = self.fresh("z")
        pairs = (f"{z}.{n} = {v.duckdb}" for (n, _), v in zip(columns, left, strict=True))
        test = "({}) IS NOT FALSE) = 0" if "NOT" in words else "{}) > 0"
        counted = f"SELECT count(*) FILTER (WHERE {test.format(' AND '.join(pairs))}"
        spark = words.format(f"({', '.join(v.spark for v in left)})", rows.spark)
        return Text(f"({spark})", f"({counted} FROM ({rows.duckdb}) {z})")
