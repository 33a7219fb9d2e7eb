"""One SELECT: FROM and WHERE, then grouped or not, then DISTINCT, then ORDER BY with LIMIT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from headwater.calculus.terms import Field, Record, Sng, Term, Times
from headwater.errors import QueryError, UnknownName
from headwater.language.build import ONE
from headwater.language.sql import time_windows
from headwater.language.sql.aggregate import Grouping, aggregates
from headwater.language.sql.expressions import Expressions
from headwater.language.sql.grouping_sets import Sets, has_sets
from headwater.language.sql.joins import FromClause
from headwater.language.sql.naming import spark_name
from headwater.language.sql.scope import Rows, Scope
from headwater.language.sql.windows import Windows

if TYPE_CHECKING:
    from headwater.language.sql.reader import Reader


def ranked(keys: list[Term], row: Term) -> Record:
    """What `first` sorts: the order columns and the row."""
    order = Record(tuple((f"o{i + 1}", k) for i, k in enumerate(keys)))
    return Record((("order", order), ("row", row)))


def order_keys(
    expressions: Expressions, node: exp.Expr, names: list[str], columns: list[Term]
) -> tuple[list[Term], list[tuple[bool, bool]]]:
    """The terms and directions of ORDER BY: ordinals and names mean columns of the output first."""
    keys: list[Term] = []
    directions: list[tuple[bool, bool]] = []
    order = node.args.get("order")
    expressions.outputs = {n.lower(): c for n, c in zip(names, columns, strict=True)}
    for item in order.expressions if order is not None else []:
        e = item.this
        if isinstance(e, exp.Var) and e.name.upper() == "ALL":  # ORDER BY ALL: by every column
            direction = (bool(item.args.get("desc")), not item.args.get("nulls_first"))
            return list(columns), [direction] * len(columns)
        if isinstance(e, exp.Literal) and e.is_int:
            position = int(e.this)
            if not 1 <= position <= len(columns):
                raise expressions.reader.error(
                    QueryError, f"ORDER BY {position}: there are {len(columns)} columns", item
                )
            keys.append(columns[position - 1])
        else:
            keys.append(expressions.key(e))
        directions.append((bool(item.args.get("desc")), not item.args.get("nulls_first")))
    return keys, directions


class Select:
    """One SELECT."""

    def __init__(
        self, reader: Reader, node: exp.Select, parent: Scope | None, rows: Rows | None = None
    ):
        self.reader, self.node, self.parent, self.given = reader, node, parent, rows

    def read(self) -> Term:
        """FROM, WHERE, then grouped or not, then DISTINCT and LIMIT."""
        self._refusals()
        self.rows = self.given or FromClause(self.reader, self.parent).read(self.node)
        self.scope = Scope(self.rows, self.parent)
        where = self.node.args.get("where")
        if where is not None:
            self.rows.factors.extend(Expressions(self.reader, self.scope).factors(where.this))
        time_windows.add(Expressions(self.reader, self.scope), self.node, self._grouped_by)
        self._generators()
        group, having = self.node.args.get("group"), self.node.args.get("having")
        listed = [*self.node.expressions, *([having] if having is not None else [])]
        ordered = self.node.args.get("order")
        searched = [*listed, *([ordered] if ordered is not None else [])]
        if group is not None or any(next(aggregates(e), None) is not None for e in searched):
            return self._grouped(group, having)
        if having is not None:  # without groups it is a condition on all rows as one group
            return self._grouped(None, having)
        return self._plain()

    def _refusals(self) -> None:
        distinct = self.node.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise self.reader.refuse(
                "DISTINCT_ON", "DISTINCT ON is not Spark SQL", distinct, "use GROUP BY with max_by"
            )

    def _partitioned(self, expressions: Expressions) -> None:
        """SORT BY, DISTRIBUTE BY and CLUSTER BY: how Spark lays rows out, which a bag does not keep."""
        for name in ("sort", "distribute", "cluster"):
            clause = self.node.args.get(name)
            if clause is None:
                continue
            if self.node.args.get("limit") or self.node.args.get("offset"):
                what = f"{name.upper()} BY orders each partition by itself, and LIMIT takes any"
                raise self.reader.refuse("NON_DETERMINISTIC", what, clause, "use ORDER BY")
            for item in clause.expressions:
                expressions.key(item.this if isinstance(item, exp.Ordered) else item)

    # --- what is selected -----------------------------------------------------------------------------------

    def _generators(self) -> None:
        """explode(...) in the select list becomes one more atom."""
        self.exploded: dict[int, Term] = {}
        for item in self.node.expressions:
            e = item.unalias()
            if isinstance(e, exp.Explode):
                array = Expressions(self.reader, self.scope).key(e.this)
                outer = isinstance(e, (exp.ExplodeOuter, exp.PosexplodeOuter))
                clause = FromClause(self.reader, self.parent)
                self.exploded[id(item)] = clause.explode(self.rows, array, e, outer)

    def _items(self, expressions: Expressions) -> list[tuple[str, Term]]:
        """The output columns by name."""
        out: list[tuple[str, Term]] = []
        for item in self.node.expressions:
            e = item.unalias()
            if id(item) in self.exploded:
                out.extend(_generated(item, e, self.exploded[id(item)]))
            elif isinstance(e, exp.Star):
                out.extend(self._star(e, expressions))
            elif isinstance(e, exp.Column) and isinstance(e.this, exp.Star):
                out.extend(self._table_star(e, expressions))
            else:
                out.append((self._name(item), expressions.key(e)))
                if item.alias:
                    expressions.aliases.setdefault(item.alias.lower(), e)
        return self._unique(out)

    def _name(self, item: exp.Expr) -> str:
        """The alias of an output column, or Spark's name of it."""
        if isinstance(item, exp.Alias):
            return item.alias
        name = spark_name(self.reader, item, self.scope.source)
        if name is None and not self.node.meta.get("unnamed"):
            what = f"the column `{item.sql(dialect='spark')[:60]}` has no name"
            raise self.reader.refuse("NO_NAME", what, item, "give it one: ... AS name")
        return name or ""

    def _star(self, e: exp.Star, expressions: Expressions) -> list[tuple[str, Term]]:
        if expressions.grouping is not None:
            raise self.reader.error(QueryError, "* in a grouped query", e, hint="name the columns")
        if not self.rows.sources:
            raise self.reader.error(QueryError, "* without a FROM clause", e)
        return self._without(e, list(self.scope.star()))

    def _without(self, star: exp.Star, items: list[tuple[str, Term]]) -> list[tuple[str, Term]]:
        """The columns of a star without those that EXCEPT names."""
        named = star.args.get("except_") or star.args.get("except") or []
        known = {n.lower() for n, _ in items}
        for c in named:
            if c.name.lower() not in known:
                hint = f"columns: {', '.join(n for n, _ in items)}"
                raise self.reader.error(UnknownName, f"unknown column `{c.name}`", c, hint=hint)
        left_out = {c.name.lower() for c in named}
        return [(n, t) for n, t in items if n.lower() not in left_out]

    def _table_star(self, e: exp.Column, expressions: Expressions) -> list[tuple[str, Term]]:
        source = self.scope.source(e.table)
        if source is None:
            known = ", ".join(s.alias for s in self.rows.sources)
            raise self.reader.error(
                UnknownName, f"unknown table `{e.table}`", e, hint=f"tables in scope: {known}"
            )
        if expressions.grouping is not None:
            raise self.reader.error(QueryError, "* in a grouped query", e, hint="name the columns")
        items = [(n, t) for n in source.columns() if (t := source.column(n)) is not None]
        assert isinstance(e.this, exp.Star)
        return self._without(e.this, items)

    def _unique(self, items: list[tuple[str, Term]]) -> list[tuple[str, Term]]:
        """Output columns have different names, unless nobody can name them."""
        self.names = [n for n, _ in items]
        if self.node.meta.get("unnamed"):
            return [(f"c{i + 1}", t) for i, (_, t) in enumerate(items)]
        seen: set[str] = set()
        for name, _ in items:
            if name.lower() in seen:
                repeated = [x for x in self.node.expressions if x.alias_or_name == name]
                raise self.reader.error(
                    QueryError,
                    f"two output columns are called `{name}`",
                    repeated[-1] if repeated else self.node,
                    hint=f"give one an alias: ... AS {name}2",
                )
            seen.add(name.lower())
        return items

    # --- the two shapes -----------------------------------------------------------------------------------------

    def _plain(self) -> Term:
        expressions = Expressions(self.reader, self.scope)
        expressions.windows = Windows(self.reader, self.node)
        items = self._items(expressions)
        output = Record(tuple(items))
        return self._finished(output, [t for _, t in items], expressions, self.rows.collect)

    def _grouped(self, group: exp.Group | None, having: exp.Expr | None) -> Term:
        aliases = {x.alias.lower(): x.unalias() for x in self.node.expressions if x.alias}
        grouping = self._grouping(group, aliases)
        order, qualify = (self.node.args.get(n) for n in ("order", "qualify"))
        for e in (*self.node.expressions, having, order, qualify):
            if e is not None:
                grouping.gather(e)
        for w in self.node.args.get("windows") or []:
            grouping.gather(w)
        grouping.gather_end([e for e in (*self.node.expressions, having, order, qualify) if e])
        grouping.close()
        expressions = Expressions(self.reader, self.scope, grouping)
        expressions.windows = Windows(self.reader, self.node)
        items = self._items(expressions)
        expressions.aliases.update(aliases)
        conditions = expressions.factors(having.this, True) if having is not None else []
        output = Record(tuple(items))
        return self._finished(
            output,
            [t for _, t in items],
            expressions,
            lambda body: grouping.build(body, conditions),
        )

    def _grouping(self, group: exp.Group | None, aliases: dict[str, exp.Expr]) -> Grouping:
        """The keys of GROUP BY, or its grouping sets."""
        if group is None or not has_sets(group):
            keys = [self._group_key(e, aliases) for e in self._group_items(group)]
            different = list(dict.fromkeys(keys))
            none = group is None or (bool(group.args.get("all")) and not keys)
            return Grouping(self.reader, self.rows, self.scope, different, not none)
        sets = Sets(self.reader, group, lambda e: self._group_key(e, aliases))
        if not sets.terms:  # GROUPING SETS (()) is a global aggregate
            return Grouping(self.reader, self.rows, self.scope, [], False)
        return Grouping(self.reader, self.rows, self.scope, sets.terms, True, sets)

    def _group_items(self, group: exp.Group | None) -> list[exp.Expr]:
        if group is None:
            return []
        if group.args.get("all"):
            return [x.unalias() for x in self.node.expressions if next(aggregates(x), None) is None]
        return list(group.expressions)

    def _group_key(self, e: exp.Expr, aliases: dict[str, exp.Expr]) -> Term:
        """A grouping expression: an ordinal, a column, an alias of the select list, or any scalar."""
        if isinstance(e, exp.Literal) and e.is_int:
            position = int(e.this)
            if not 1 <= position <= len(self.node.expressions):
                raise self.reader.error(
                    QueryError,
                    f"GROUP BY {position}: there are {len(self.node.expressions)} columns",
                    e,
                )
            e = self.node.expressions[position - 1].unalias()
        rows = Expressions(self.reader, self.scope)
        rows.aliases.update(aliases)
        term, window = rows.key(e), self.rows.window
        if window is None or term != window.pair():
            time_windows.no_end(self.reader, window, term, e)
            return term
        window.grouped = True
        return window.start

    def _grouped_by(self) -> list[exp.Expr]:
        """The expressions of GROUP BY, those that it names by their place or their alias written out."""
        aliases = {x.alias.lower(): x.unalias() for x in self.node.expressions if x.alias}
        out = []
        for e in self._group_items(self.node.args.get("group")):
            places = range(1, len(self.node.expressions) + 1)
            if isinstance(e, exp.Literal) and e.is_int and int(e.this) in places:
                e = self.node.expressions[int(e.this) - 1].unalias()
            elif isinstance(e, exp.Column) and not e.table and self.scope.local([e.name]) is None:
                e = aliases.get(e.name.lower(), e)
            out.append(e)
        return out

    def _finished(
        self, output: Record, columns: list[Term], expressions: Expressions, rows: Any
    ) -> Term:
        """Windows and QUALIFY, then DISTINCT, then ORDER BY and LIMIT."""
        windows = expressions.windows
        assert windows is not None
        qualify = self.node.args.get("qualify")
        tests = expressions.factors(qualify.this) if qualify is not None else []

        def collect(body: Term) -> Term:
            return windows.collect(rows, Times((*tests, body)) if tests else body)

        if self.node.args.get("distinct"):
            bag = self.reader.distinct(collect(Sng(output, ONE)))
            self._partitioned(expressions)
            return self.reader.ordered_rows(bag, self.node, self.names)
        plain = collect(Sng(output, ONE))
        keys, directions = order_keys(expressions, self.node, self.names, columns)
        self._partitioned(expressions)
        return self.reader.limited(
            self.node, directions, lambda: collect(Sng(ranked(keys, output), ONE)), plain
        )


def _generated(item: exp.Expr, e: exp.Expr, element: Term) -> list[tuple[str, Term]]:
    """The columns that a generator in the select list gives."""
    if not isinstance(e, exp.Posexplode):
        return [(item.alias or "col", element)]
    names = [a.name for a in item.aliases] if isinstance(item, exp.Aliases) else ["pos", "col"]
    return [(n, Field(element, f)) for n, f in zip(names, ("pos", "col"), strict=True)]
