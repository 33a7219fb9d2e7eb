"""Random SQL for views: the queries of `random_sql` with every clause that is maintained.

Added are window functions, QUALIFY and filters over row_number, grouping sets, lateral subqueries, and aggregates of
whole bags. Left out are arrays, and scalars that only Spark evaluates, in a job. Where ties would leave the answer
open, the order is over all columns: rows that are tied are then equal, and the bag is one and the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from random_sql import Columns, Outer, Queries
from random_sql_words import SCALARS, Column, Scope, Template, Text, joined, sql
from random_values import Pick

SLOW = ("upper", "lower", "last_day", "CAST({} AS STRING)", "CAST({} AS INT)", "CAST({} AS DOUBLE)")
"""What only Spark evaluates, in a job; a decimal that becomes a double is such, too."""

NUMBERS = ("int", "dec")
BAGS: dict[str, tuple[Template, ...]] = {
    "avg": (
        *(
            (f"{name}({{}})", kind)
            for name in ("stddev", "var_pop", "var_samp")
            for kind in NUMBERS
        ),
        *(
            (spark, kind, f"{duckdb} FILTER (WHERE {{where}})")
            for kind in NUMBERS
            for spark, duckdb in (
                ("median({})", "median(CAST({} AS DOUBLE))"),
                ("percentile({}, 0.3)", "quantile_cont(CAST({} AS DOUBLE), 0.3)"),
            )
        ),
    ),
    "int": (
        (
            "percentile_disc(0.3) WITHIN GROUP (ORDER BY {})",
            "int",
            "CAST(percentile_disc(0.3) WITHIN GROUP (ORDER BY {}) FILTER (WHERE {where}) AS BIGINT)",
        ),
    ),
    "str": (
        (
            "listagg({0}, '|') WITHIN GROUP (ORDER BY {0})",
            "str",
            "string_agg({0}, '|' ORDER BY {0}) FILTER (WHERE {where})",
        ),
        (
            "listagg(DISTINCT {0}, '|') WITHIN GROUP (ORDER BY {0} DESC)",
            "str",
            "array_to_string(list_sort(list(DISTINCT {0}) FILTER (WHERE {0} IS NOT NULL AND {where}), 'DESC'), '|')",
        ),
    ),
}
"""Aggregates of the whole bag of a group. Doubles are left out: DuckDB refuses infinite ones."""

FRAMES = (
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
)
RANGES = (
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
)
NEAR = (
    "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
)
PLACES: dict[str, tuple[tuple[str, str], ...]] = {
    # Of a place in the order: with the order that it needs, all of the columns or any of them.
    "int": (
        ("row_number()", "all"),
        ("rank()", "any"),
        ("dense_rank()", "any"),
        ("ntile(2)", "all"),
    ),
    "avg": (("percent_rank()", "any"), ("cume_dist()", "any")),
}
MOVED = (
    "lag({})",
    "lead({})",
    "lag({}, 2)",
    "lead({0}, 1, {1})",
    "first_value({})",
    "last_value({})",
    "nth_value({}, 2)",
)
TOTALS: dict[str, tuple[tuple[str, str, str], ...]] = {
    # Of a frame: the aggregate, the kind of its argument, and the type that DuckDB is to cast to.
    "int": (
        ("sum({})", "int", "BIGINT"),
        ("count(*)", "int", ""),
        ("count({})", "str", ""),
        ("min({})", "int", ""),
        ("max({})", "int", ""),
    ),
    "dec": (("sum({})", "dec", "DECIMAL(18,2)"), ("max({})", "dec", "")),
    "dbl": (("sum({})", "dbl", ""), ("min({})", "dbl", "")),
    "str": (("min({})", "str", ""), ("max({})", "str", "")),
    "date": (("min({})", "date", ""), ("max({})", "date", "")),
    "bool": (("bool_and({})", "bool", ""), ("bool_or({})", "bool", "")),
    "avg": (("avg({})", "int", ""), ("stddev({})", "int", ""), ("var_pop({})", "int", "")),
}


class Clauses(Queries):
    """Queries with all clauses that are maintained; `jobs` allows for scalars that need Spark."""

    def __init__(self, pick: Pick, tables: Mapping[str, Columns], left: int, jobs: bool = False):
        super().__init__(pick, tables, left)
        self.jobs = jobs
        self.placed: tuple[list[Column], Text] = [], sql("1")

    def choose(self, options: Sequence[Any]) -> Any:
        if isinstance(options[0], tuple):
            options = [o for o in options if not self.slow(o)] or options
        return super().choose(options)

    def slow(self, template: Any) -> bool:
        name, kinds = str(template[0]), str(template[1]).split()
        if name.startswith("size("):
            return True
        mixed = "dec" in kinds and "dbl" in kinds
        return not self.jobs and (name.startswith(SLOW) or mixed)

    def call(self, template: Template, kind: str, scope: Scope, depth: int) -> Text:
        if self.slow(template):  # nothing else gives this kind
            return self.literal(kind)
        return super().call(template, kind, scope, depth)

    def wanted(self, flat: bool = False) -> Columns:
        names = super().wanted(flat=True)
        if not flat and self.chance(6):
            names = [*names[:-1], (names[-1][0], "avg")]
        return names

    def set_operation(self, columns: Columns, outer: Outer, depth: int, flat: bool) -> Text:
        others = [(n + "2", k) for n, k in columns]
        left, right = self.query(columns, outer, depth), self.query(others, outer, depth)
        words = ("UNION ALL", "UNION", "EXCEPT ALL", "INTERSECT ALL", "EXCEPT", "INTERSECT")
        only_all = any(k not in SCALARS for _, k in columns)  # averages differ in the last digit
        return sql("({}) {} ({})", left, words[0 if only_all else self.pick(len(words))], right)

    def order(self, columns: Columns, limit: int) -> Text:
        if any(k not in SCALARS for _, k in columns):
            return sql("")
        return super().order(columns, limit)

    # --- SELECT -----------------------------------------------------------------------------------------

    def select(self, columns: Columns, outer: Outer, depth: int, one: bool = False) -> Text:
        if not one and self.chance(4):
            return self.windowed(columns, outer, depth)
        if not one and self.chance(10):
            return self.sets(columns, outer, depth)
        if not one and not self.inside and self.chance(4):
            return self.asking(columns, depth)
        return super().select(columns, outer, depth, one)

    def aggregate(self, kind: str, local: list[Column], depth: int = 0) -> Column:
        """An aggregate of sums and bags, or of the whole bag."""
        known = [c for c in local if c.kind in SCALARS]
        if kind in SCALARS and known and self.chance(8):
            return self.beside(kind, local, known)
        if kind not in BAGS or not self.chance(4):
            return super().aggregate(kind, local, depth)
        spark, wanted, *other = self.choose(BAGS[kind])
        value = self.value(wanted, Scope(tuple(local)), 1)
        where = self.condition(Scope(tuple(local)), 1) if self.chance(4) else None
        duckdb = other[0] if other else f"{spark} FILTER (WHERE {{where}})"
        text = spark.format(value.spark)
        return Column(
            Text(
                text if where is None else f"{text} FILTER (WHERE {where.spark})",
                duckdb.format(value.duckdb, where="true" if where is None else where.duckdb),
            ),
            kind,
        )

    def beside(self, kind: str, local: list[Column], known: list[Column]) -> Column:
        """max_by and min_by of an order over all columns without NULLs, of which dialects differ."""
        value = self.value(kind, Scope(tuple(known)), 1)
        parts = [
            sql("{0} IS NULL, coalesce({0}, {1})", c.text, self.literal(c.kind, 0)) for c in known
        ]
        order = joined(", ", parts)
        name, duckdb = self.choose(("max_by", "min_by")), {"max_by": "arg_max_null"}
        text = f"{name}({{}}, struct({{}}))"
        other = f"{duckdb.get(name, 'arg_min_null')}({{}}, ({{}}))"
        return Column(sql(text, value, order, duckdb=other), kind)

    # --- subqueries in expressions ----------------------------------------------------------------------

    def asking(self, columns: Columns, depth: int) -> Text:
        """A SELECT of one or two tables that asks subqueries: in its conditions, in its list, and in HAVING."""
        self.left, kept = min(self.left, 2), self.left
        source, local = self.from_clause(1)
        self.left = max(kept - 2, 1)
        scope = Scope(tuple(local), tuple(c for c in local if c.alias), 1)
        where = [self.asked(scope) for _ in range(self.pick(3))]
        tail = sql(" WHERE {}", joined(" AND ", where)) if where else sql("")
        if self.chance(4):
            scope, grouped = self.grouped(columns, local, (), 1, False)
            tail = sql("{}{}", tail, grouped)
            keys = tuple(c for c in scope.columns if c.alias)
            if " HAVING " not in grouped.spark and self.chance(2):
                inner = Scope(scope.columns, keys, 1)
                tail = sql("{} HAVING {}", tail, self.asked(inner))
            if " GROUP BY" not in grouped.spark[:9]:
                items = [
                    c.text
                    if (c := next((x for x in scope.columns if x.kind == k), None))
                    else self.literal(k)
                    for _, k in columns
                ]
                if not any(c.text in items for c in scope.columns):
                    return super().select(columns, (), depth)
                named = (sql(f"{{}} AS {n}", v) for (n, _), v in zip(columns, items, strict=True))
                return sql("SELECT {}{}{}", joined(", ", named), source, tail)
            scope = Scope(scope.columns, keys, 1)
        values = [
            self.answer_of(k, scope)
            if k in SCALARS and (self.chance(3) or (not where and i == 0))
            else self.value(k, scope, 1)
            for i, (_, k) in enumerate(columns)
        ]
        named = (sql(f"{{}} AS {n}", v) for (n, _), v in zip(columns, values, strict=True))
        return sql("SELECT {}{}{}", joined(", ", named), source, tail)

    def answer_of(self, kind: str, scope: Scope) -> Text:
        """A scalar subquery, or an expression over one."""
        self.left = max(self.left, 1)
        made = self.scalar(kind, Scope(scope.columns, scope.visible, 1 + self.pick(2)))
        return sql("coalesce({}, {})", made, self.value(kind, scope, 0)) if self.chance(3) else made

    def asked(self, scope: Scope) -> Text:
        """A condition with a subquery, alone or under OR, CASE and NOT."""
        self.left = max(self.left, 1)
        inner = Scope(scope.columns, scope.visible, 1 + self.pick(2))
        which = self.pick(3)
        known = [c for c in scope.columns if c.kind in SCALARS]
        if which == 2 and known:
            c = self.choose(known)
            form = self.choose(("({} > {})", "({} = {})", "({} <= {})"))
            test = sql(form, c.text, self.answer_of(c.kind, inner))
        else:
            self.inside += 1
            columns = self.wanted(flat=True)[: 1 + self.pick(2)]
            if not all(c.name for c in scope.columns):
                columns = columns[:1]
            rows = self.query(columns, scope.visible, inner.depth)
            self.inside -= 1
            if which == 0:
                test = sql(self.choose(("EXISTS ({})", "(NOT EXISTS ({}))")), rows)
            else:
                test = self.is_in(columns, Scope(scope.columns), rows)
        other = self.condition(Scope(scope.columns), 0)
        forms = ["{}", "{}", "{}", "({} OR {})", "(CASE WHEN {} THEN {} ELSE true END)"]
        forms += ["(NOT {})"] if " IN (" not in test.spark else []
        return sql(self.choose(forms), test, other)

    # --- windows ----------------------------------------------------------------------------------------

    def windowed(self, columns: Columns, outer: Outer, depth: int) -> Text:
        """A SELECT with windows over rows or over groups, kept by QUALIFY or by a query around it."""
        source, local = self.from_clause(depth)
        local = [c for c in local if c.kind in SCALARS]
        aliases = {c.alias for c in local}
        outer = tuple(c for c in outer if c.alias not in aliases)
        where = self.correlation(local, outer) if outer else []
        if self.chance(3):
            where.append(self.condition(Scope((*local, *outer), tuple(local), depth - 1), 1))
        tail = sql(" WHERE {}", joined(" AND ", where)) if where else sql("")
        over, others = local, local
        if local and self.chance(4):
            over = list(dict.fromkeys(self.choose(local) for _ in range(1 + self.pick(2))))
            extra = [self.aggregate(k, local) for k in ("int", self.choose(SCALARS))]
            others = [*over, *(c for c in extra if c.kind in SCALARS)]
            tail = sql("{} GROUP BY {}", tail, joined(", ", (c.text for c in over)))
        # Of equal rows either may be the first. All windows that tell them apart have one order, so that their
        # values go together.
        self.placed = self.parts(over), self.by(over, True)[0]
        values = []
        for i, (_, kind) in enumerate(columns):
            shown = [c.text for c in others if c.kind == kind]
            if kind in (*PLACES, *TOTALS) and (i == 0 or not shown or self.pick(2)):
                values.append(self.window(kind, over, others))
            else:
                values.append(self.value(kind, Scope(tuple(others)), 1))
        items = joined(
            ", ", (sql(f"{{}} AS {n}", v) for (n, _), v in zip(columns, values, strict=True))
        )
        distinct = "DISTINCT " if self.chance(10) and all(k in SCALARS for _, k in columns) else ""
        which = self.pick(4)
        if which == 2:
            kept = self.kept(self.window("int", over, others))
            return sql("SELECT {}{}{}{} QUALIFY {}", distinct, items, source, tail, kept)
        if which == 3:
            place = self.window("int", over, others)
            inner = sql("SELECT {}, {} AS n0{}{}", items, place, source, tail)
            names = ", ".join(n for n, _ in columns)
            kept = self.kept(sql("n0"))
            return sql(
                "SELECT {}{} FROM ({}) {} WHERE {}", distinct, names, inner, self.fresh("t"), kept
            )
        return sql("SELECT {}{}{}{}", distinct, items, source, tail)

    def kept(self, place: Text) -> Text:
        return sql(self.choose(("{} = 1", "{} <= 2", "{} > 1", "({0} IS NULL OR {0} < 3)")), place)

    def window(self, kind: str, over: list[Column], others: list[Column]) -> Text:
        """A window function; `over` are columns that tell all rows apart, others may be read too."""
        partition, whole = self.parts(over), self.placed
        forms = self.pick(3)
        if forms == 0 and kind in PLACES:
            name, need = self.choose(PLACES[kind])
            if need == "all":
                partition, order = whole
            else:
                order, _ = self.by(over, False)
            return self.over(sql(name), partition, order, "")
        if forms == 1 and kind in SCALARS:
            args = [self.value(kind, Scope(tuple(others)), 0) for _ in range(2)]
            partition, order = whole
            name = self.choose(MOVED)
            frame = self.choose(("", *FRAMES)) if "value" in name else ""
            return self.over(sql(name, *args), partition, order, frame)
        name, wanted, cast = self.choose(TOTALS[kind])
        value = self.value(wanted, Scope(tuple(others)), 0)
        filtered = sql("")
        if self.chance(8) and others:
            filtered = sql(" FILTER (WHERE {})", self.condition(Scope(tuple(others)), 0))
        call = sql("{}{}", sql(name, value), filtered)
        shape = self.pick(4)
        if shape == 0 or not over:
            return self.over(call, partition, None, "", cast)
        if shape == 1:
            partition, order = whole
            frame = self.choose(("", *FRAMES))
        else:
            order, ranges = self.by(over, False)
            frame = self.choose(("", *ranges))
        return self.over(call, partition, order, frame, cast)

    def parts(self, over: list[Column]) -> list[Column]:
        return [self.choose(over) for _ in range((1, 1, 0, 2)[self.pick(4)])] if over else []

    def by(self, over: list[Column], all_of_them: bool) -> tuple[Text, tuple[str, ...]]:
        """An order over all columns or one or two of them, and the ranges that may frame it."""
        chosen = over or [Column(self.literal("int", 0), "int")]
        start = self.pick(len(chosen))
        chosen = [*chosen[start:], *chosen[:start]]
        if not all_of_them:
            chosen = chosen[: 1 + self.pick(2)]
        parts = []
        for c in chosen:
            down = ("ASC", "DESC")[self.pick(2)]
            nulls = ("", " NULLS LAST", " NULLS FIRST")[self.pick(3)]
            given = nulls or (" NULLS FIRST" if down == "ASC" else " NULLS LAST")
            parts.append(Text(f"{c.text.spark} {down}{nulls}", f"{c.text.duckdb} {down}{given}"))
        near = NEAR if len(chosen) == 1 and chosen[0].kind == "int" else ()
        return joined(", ", parts), (*RANGES, *near)

    def over(
        self, call: Text, partition: list[Column], order: Text | None, frame: str, cast: str = ""
    ) -> Text:
        inside = []
        if partition:
            inside.append(sql("PARTITION BY {}", joined(", ", (c.text for c in partition))))
        if order is not None:
            inside.append(sql("ORDER BY {}", order))
        if frame:
            inside.append(sql(frame))
        text = sql("{} OVER ({})", call, joined(" ", inside) if inside else sql(""))
        return sql("{}", text, duckdb=f"CAST({{}} AS {cast})") if cast else text

    # --- grouping sets ----------------------------------------------------------------------------------

    def sets(self, columns: Columns, outer: Outer, depth: int) -> Text:
        """Several groupings at once. The total of no rows has no row in Spark, and has one in DuckDB."""
        source, local = self.from_clause(depth)
        keys = [self.choose(found) for k in SCALARS if (found := [c for c in local if c.kind == k])]
        keys = keys[: 1 + self.pick(2)]  # a cube of three is eight groupings to compile
        if not keys:
            return super().select(columns, outer, depth)
        aliases = {c.alias for c in local}
        outer = tuple(c for c in outer if c.alias not in aliases)
        where = self.correlation(local, outer) if outer else []
        if self.chance(3):
            where.append(self.condition(Scope((*local, *outer), tuple(local), depth - 1), 1))
        tail = sql(" WHERE {}", joined(" AND ", where)) if where else sql("")
        read = [*keys, *(self.aggregate(k, local) for _, k in columns)]
        read.append(Column(sql("grouping({})", self.choose(keys).text), "int"))
        values = [self.value(k, Scope(tuple(read)), 1) for _, k in columns]
        texts = joined(", ", (k.text for k in keys))
        one = self.choose(keys).text
        which = self.pick(4)
        if which == 3:
            by = sql("GROUPING SETS (({}), ({}), ({}))", texts, one, self.choose(keys).text)
        else:
            words = ("ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())")
            by = sql(words[which], texts)
        some, more = Text("", " HAVING count(*) > 0"), sql("")
        if self.chance(4):
            more = self.condition(Scope(tuple(read)), 1)
            some = Text(f" HAVING {more.spark}", f" HAVING count(*) > 0 AND {more.duckdb}")
        items = joined(
            ", ", (sql(f"{{}} AS {n}", v) for (n, _), v in zip(columns, values, strict=True))
        )
        return sql("SELECT {}{}{} GROUP BY {}{}", items, source, tail, by, some)

    # --- FROM -------------------------------------------------------------------------------------------

    def from_clause(self, depth: int) -> tuple[Text, list[Column]]:
        """Tables joined, then perhaps a subquery that reads their columns."""
        text, columns = super().from_clause(depth)
        named = tuple(c for c in columns if c.alias)
        if depth < 2 or not named or not self.chance(6):
            return text, columns
        self.left = max(self.left, 1)
        alias, inner = self.fresh("l"), self.wanted(flat=True)
        self.inside += 1
        rows = self.select(inner, named, depth - 1, one=bool(self.pick(2)))
        self.inside -= 1
        words = (", LATERAL ({}) {}", " LEFT JOIN LATERAL ({}) {} ON true")[self.pick(2)]
        theirs = [Column(sql(f"{alias}.{n}"), k, n, alias, True) for n, k in inner]
        return sql(f"{{}}{words}", text, rows, alias), [*columns, *theirs]
