"""SQL text into a term of the calculus.

sqlglot parses the text in the Spark dialect; names are resolved here against the declared schemas, so
that an error can point at its place. A SELECT is a comprehension over its FROM clause, then a grouping,
then DISTINCT, then ORDER BY with LIMIT; set operations are answers over key counts. What is outside the
language raises `NotIncremental` with a reason, the clause underlined, and what to write instead.
"""

from __future__ import annotations

from typing import Any, TypeVar

import sqlglot
from sqlglot import exp

from headwater.calculus.check import check, type_of
from headwater.calculus.scalars import common_type
from headwater.calculus.terms import (
    Add,
    Answer,
    Box,
    Call,
    Const,
    Each,
    Field,
    For,
    Num,
    Pred,
    Record,
    Rel,
    Sng,
    Term,
    Times,
    Unbox,
    Var,
    fresh,
)
from headwater.calculus.types import BIGINT, INT, MapType, RecordType
from headwater.errors import (
    HeadwaterError,
    NotIncremental,
    ParseError,
    QueryError,
    Span,
    TypeMismatch,
    UnknownName,
)
from headwater.language.aggregate import Grouping, aggregates, is_aggregate
from headwater.language.joins import FromClause
from headwater.language.scalar import Expressions, cast_to
from headwater.language.schema import Schemas
from headwater.language.scope import Rows, Scope

ONE, ZERO = Num(1, INT), Const(0, BIGINT)
E = TypeVar("E", bound=HeadwaterError)


def read_sql(text: str, schemas: Schemas) -> Term:
    """The term of a query over inputs with the given types."""
    reader = Reader(text, schemas)
    term = reader.query(reader.parse(), None)
    check(term, schemas)
    return term


class Reader:
    """One reading of one text: its inputs, its names, and where things stand in it."""

    def __init__(self, text: str, schemas: Schemas):
        self.text, self.schemas = text, schemas
        self.taken: set[str] = set(schemas)
        self.ctes: dict[str, Term] = {}

    # --- text and errors --------------------------------------------------------------------------------

    def parse(self) -> exp.Expression:
        """The syntax tree of the one query in the text."""
        try:
            statements = [s for s in sqlglot.parse(self.text, dialect="spark") if s is not None]
        except sqlglot.errors.ParseError as e:
            first = e.errors[0] if e.errors else {}
            width = len(first.get("highlight") or " ")
            span = Span(first.get("line") or 1, max(1, (first.get("col") or 1) - width + 1), width)
            what = (first.get("description") or str(e)).rstrip(".")
            raise ParseError(f"cannot read the query: {what}", text=self.text, span=span) from None
        except sqlglot.errors.SqlglotError as e:
            raise ParseError(f"cannot read the query: {e}", text=self.text, span=Span(1, 1)) from None
        if len(statements) != 1:
            count = "no query" if not statements else f"{len(statements)} statements"
            raise ParseError(f"expected one query, found {count}", text=self.text, span=Span(1, 1))
        if not isinstance(statements[0], (exp.Query, exp.Values)):
            raise ParseError(
                f"expected a query, found {statements[0].key.upper()}",
                text=self.text,
                span=Span(1, 1),
                hint="a view is defined by a SELECT",
            )
        return statements[0]

    def span(self, node: exp.Expression) -> Span:
        """Where a node stands in the text, as far as its tokens tell."""
        marks = [n.meta for n in node.walk() if "start" in n.meta]
        if not marks:
            return self.span(node.parent) if node.parent is not None else Span(1, 1)
        start = min(m["start"] for m in marks)
        end = max(m["end"] for m in marks) + 1
        before = self.text[:start]
        line = before.count("\n") + 1
        column = start - (before.rfind("\n") + 1) + 1
        return Span(line, column, len(self.text[start:end].split("\n", 1)[0]))

    def error(self, kind: type[E], what: str, node: exp.Expression, hint: str = "") -> E:
        """An error at a node."""
        return kind(what, text=self.text, span=self.span(node), hint=hint)

    def refuse(self, reason: str, what: str, node: exp.Expression, hint: str) -> NotIncremental:
        """A refusal at a node, by a reason that has a name."""
        return NotIncremental(reason, what, text=self.text, span=self.span(node), hint=hint)

    def fresh(self, name: str) -> str:
        """A variable's name that nothing else in the query has."""
        new = fresh(name, self.taken)
        self.taken.add(new)
        return new

    def is_aggregate(self, e: exp.Expression) -> bool:
        return is_aggregate(e)

    # --- queries ------------------------------------------------------------------------------------------

    def query(self, node: exp.Expression, parent: Scope | None) -> Term:
        """The bag of any query expression."""
        known = dict(self.ctes)
        try:
            self._with(node, parent)
            match node:
                case exp.Subquery() | exp.Paren():
                    term = self.query(node.this, parent)
                    return self._ordered_rows(term, node) if node.args.get("limit") else term
                case exp.SetOperation():
                    return self._ordered_rows(self.set_operation(node, parent), node)
                case exp.Select():
                    return Select(self, node, parent).read()
                case exp.Values():
                    return self._values(node)
                case exp.Table():
                    return self.source(node, parent)[0]
                case _:
                    raise self.refuse("UNSUPPORTED_QUERY", f"{node.key.upper()} is no query", node, "")
        finally:
            self.ctes = known

    def subquery(self, node: exp.Expression, scope: Scope) -> Term:
        """A query inside an expression, which sees the scope around it."""
        return self.query(node, scope)

    def _with(self, node: exp.Expression, parent: Scope | None) -> None:
        clause = node.args.get("with_") or node.args.get("with")
        if clause is None:
            return
        if clause.args.get("recursive"):
            raise self.refuse(
                "RECURSIVE_CTE",
                "a recursive query has no fixed number of rounds",
                clause,
                "unroll a fixed number of rounds",
            )
        for cte in clause.expressions:
            term = self.query(cte.this, parent)
            columns = cte.args["alias"].columns
            if columns:
                term = self._relabelled(term, [c.name for c in columns], cte)
            self.ctes[cte.alias.lower()] = term

    def _relabelled(self, term: Term, names: list[str], node: exp.Expression) -> Term:
        row = Var(self.fresh("r"), type_of(term).key)
        known = [n for n, _ in row.type.fields]
        if len(known) != len(names):
            raise self.error(
                QueryError, f"{len(names)} names are given for {len(known)} columns", node
            )
        fields = tuple((n, Field(row, k)) for n, k in zip(names, known, strict=True))
        return For(row, term, Sng(Record(fields), ONE))

    def source(self, node: exp.Expression, parent: Scope | None) -> tuple[Term, str]:
        """A table by name, or a subquery, with its alias."""
        if not isinstance(node, exp.Table):
            return self.query(node, None), node.alias or self.fresh("q")
        name = ".".join(p.name for p in node.parts)
        if name.lower() in self.ctes:
            return self.ctes[name.lower()], node.alias or name
        for known, t in self.schemas.items():
            if known.lower() == name.lower():
                return Rel(known, t), node.alias or node.name
        raise self.error(
            UnknownName,
            f"unknown table `{name}`",
            node.this,
            hint=f"tables: {', '.join(sorted({*self.schemas, *self.ctes})) or 'none'}",
        )

    def _values(self, node: exp.Values) -> Term:
        scope = Expressions(self, Scope(Rows()))
        rows = [
            [scope.key(x) for x in (r.expressions if isinstance(r, exp.Tuple) else [r])]
            for r in node.expressions
        ]
        names = [f"col{i + 1}" for i in range(len(rows[0]))]
        out: Term | None = None
        for row in rows:
            bag = Sng(Record(tuple(zip(names, row, strict=True))), ONE)
            out = bag if out is None else Add(self.aligned(out, bag, node))
        assert out is not None
        return out

    # --- set operations -------------------------------------------------------------------------------------

    def set_operation(self, node: exp.SetOperation, parent: Scope | None) -> Term:
        """UNION adds; INTERSECT and EXCEPT compare how often a row is on either side."""
        left, right = self.aligned(
            self.query(node.left, parent), self.query(node.right, parent), node
        )
        distinct = bool(node.args.get("distinct"))
        if isinstance(node, exp.Union):
            both = Add((left, right))
            return self.distinct(both) if distinct else both
        x = Var(self.fresh("r"), type_of(left).key)
        zero = Num(0, INT)
        counts = Add(
            (
                For(x, left, Sng(x, Record((("l", ONE), ("r", zero))))),
                For(x, right, Sng(x, Record((("l", zero), ("r", ONE))))),
            )
        )
        k, v = Var(self.fresh("k"), x.type), Var(self.fresh("v"), type_of(counts).value)
        l, r = Box(Field(v, "l")), Box(Field(v, "r"))  # noqa: E741
        if isinstance(node, exp.Intersect):
            if distinct:
                test = Call("and", (Call(">", (l, ZERO)), Call(">", (r, ZERO))))
                body: Term = Times((Pred(test), Sng(k, ONE)))
            else:
                body = Sng(k, Unbox(Call("greatest", (ZERO, Call("least", (l, r))))))
        elif distinct:
            test = Call("and", (Call(">", (l, ZERO)), Call("<=", (r, ZERO))))
            body = Times((Pred(test), Sng(k, ONE)))
        else:
            body = Sng(k, Unbox(Call("greatest", (ZERO, Call("-", (l, r))))))
        return Each(k, v, counts, body)

    def aligned(self, left: Term, right: Term, node: exp.Expression) -> tuple[Term, Term]:
        """Two bags with the column names of the first and the common types of both."""
        a, b = type_of(left).key.fields, type_of(right).key.fields
        if len(a) != len(b):
            raise self.error(
                TypeMismatch,
                f"{node.key.upper()} of {len(a)} and {len(b)} columns",
                node.args.get("expression") or node,
                hint="select the same number of columns on both sides",
            )
        types = []
        for (name, t), (_, u) in zip(a, b, strict=True):
            common = common_type(t, u)
            if common is None:
                raise self.error(
                    TypeMismatch,
                    f"the column `{name}` is {t} on one side and {u} on the other",
                    node.args.get("expression") or node,
                    hint="cast one of them",
                )
            types.append((name, common))
        wanted = RecordType(tuple(types))
        return self._as(left, wanted), self._as(right, wanted)

    def _as(self, bag: Term, wanted: RecordType) -> Term:
        t = type_of(bag).key
        if t == wanted:
            return bag
        row = Var(self.fresh("r"), t)
        fields = tuple(
            (n, cast_to(Field(row, own), w))
            for (n, w), (own, _) in zip(wanted.fields, t.fields, strict=True)
        )
        return For(row, bag, Sng(Record(fields), ONE))

    def distinct(self, bag: Term) -> Term:
        """Every row that is there, once."""
        t = type_of(bag)
        assert isinstance(t, MapType)
        k, v = Var(self.fresh("k"), t.key), Var(self.fresh("v"), t.value)
        return Each(k, v, bag, Times((Pred(Call(">", (Box(v), ZERO))), Sng(k, ONE))))

    # --- order and limit --------------------------------------------------------------------------------------

    def _ordered_rows(self, bag: Term, node: exp.Expression) -> Term:
        """ORDER BY and LIMIT over rows whose columns are the only names."""
        if not (node.args.get("limit") or node.args.get("offset") or node.args.get("order")):
            return bag
        row = Var(self.fresh("r"), type_of(bag).key)
        rows = Rows([(row, bag)], [], [source_of(row)])
        keys, directions = order_keys(Expressions(self, Scope(rows)), node, row)
        return self.limited(
            node, directions, lambda: For(row, bag, Sng(ranked(keys, row), ONE)), bag
        )

    def limited(self, node: exp.Expression, directions: Any, ranked_bag: Any, plain: Term) -> Term:
        """The first rows in order; a bag has no order, so without LIMIT there is nothing to do."""
        limit, offset = self._count(node, "limit"), self._count(node, "offset")
        if limit is None and not offset:
            return plain
        return Answer("first", (limit, offset or 0, tuple(directions)), ranked_bag())

    def _count(self, node: exp.Expression, name: str) -> int | None:
        clause = node.args.get(name)
        if clause is None or (clause.expression.name.upper() == "ALL" and name == "limit"):
            return None
        if isinstance(clause.expression, exp.Literal) and clause.expression.is_int:
            return int(clause.expression.this)
        raise self.refuse(
            "LIMIT_EXPRESSION",
            f"{name.upper()} takes a whole number, not `{clause.expression.sql(dialect='spark')}`",
            clause,
            "write the number",
        )


def source_of(row: Var) -> Any:
    """A row as the only source of a scope."""
    from headwater.language.scope import Source  # beside its only use

    return Source("", row)


def ranked(keys: list[Term], row: Term) -> Record:
    """What `first` sorts: the order columns and the row."""
    order = Record(tuple((f"o{i + 1}", k) for i, k in enumerate(keys)))
    return Record((("order", order), ("row", row)))


def order_keys(
    expressions: Expressions, node: exp.Expression, output: Term, columns: list[Term] | None = None
) -> tuple[list[Term], list[tuple[bool, bool]]]:
    """The terms and directions of ORDER BY; an ordinal names a column of the output."""
    keys: list[Term] = []
    directions: list[tuple[bool, bool]] = []
    order = node.args.get("order")
    names = [n for n, _ in type_of(output).fields]
    given = columns if columns is not None else [Field(output, n) for n in names]
    for item in order.expressions if order is not None else []:
        e = item.this
        if isinstance(e, exp.Literal) and e.is_int:
            position = int(e.this)
            if not 1 <= position <= len(given):
                raise expressions.reader.error(
                    QueryError, f"ORDER BY {position}: there are {len(given)} columns", item
                )
            keys.append(given[position - 1])
        else:
            named = [
                g for g, n in zip(given, names, strict=True)
                if isinstance(e, exp.Column) and not e.table and n.lower() == e.name.lower()
            ]
            keys.append(named[0] if named else expressions.key(e))
        descending = bool(item.args.get("desc"))
        directions.append((descending, not item.args.get("nulls_first")))
    return keys, directions


class Select:
    """One SELECT."""

    def __init__(self, reader: Reader, node: exp.Select, parent: Scope | None):
        self.reader, self.node, self.parent = reader, node, parent

    def read(self) -> Term:
        """FROM, WHERE, then grouped or not, then DISTINCT and LIMIT."""
        self._refusals()
        self.rows = FromClause(self.reader, self.parent).read(self.node)
        self.scope = Scope(self.rows, self.parent)
        where = self.node.args.get("where")
        if where is not None:
            self.rows.factors.extend(Expressions(self.reader, self.scope).factors(where.this))
        self._generators()
        group, having = self.node.args.get("group"), self.node.args.get("having")
        listed = [*self.node.expressions, *([having] if having is not None else [])]
        ordered = self.node.args.get("order")
        searched = [*listed, *([ordered] if ordered is not None else [])]
        if group is not None or any(next(aggregates(e), None) is not None for e in searched):
            return self._grouped(group, having)
        if having is not None:
            raise self.reader.refuse(
                "HAVING_WITHOUT_GROUP", "HAVING without groups or aggregates", having, "use WHERE"
            )
        return self._plain()

    def _refusals(self) -> None:
        for name, reason, hint in (
            ("qualify", "WINDOW_FUNCTION", "filter in a query around this one"),
            ("windows", "WINDOW_FUNCTION", "aggregate per group and join"),
        ):
            if self.node.args.get(name):
                clause = self.node.args[name]
                at = clause[0] if isinstance(clause, list) else clause
                raise self.reader.refuse(reason, f"{name.upper()} is not maintained yet", at, hint)
        distinct = self.node.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise self.reader.refuse(
                "DISTINCT_ON", "DISTINCT ON is not Spark SQL", distinct, "use GROUP BY with max_by"
            )

    # --- what is selected -----------------------------------------------------------------------------------

    def _generators(self) -> None:
        """explode(...) in the select list becomes one more atom."""
        self.exploded: dict[int, Term] = {}
        for item in self.node.expressions:
            e = item.unalias()
            if isinstance(e, exp.Explode) and not isinstance(e, exp.Posexplode):
                array = Expressions(self.reader, self.scope).key(e.this)
                outer = isinstance(e, exp.ExplodeOuter)
                clause = FromClause(self.reader, self.parent)
                self.exploded[id(item)] = clause.explode(self.rows, array, e, outer)

    def _items(self, expressions: Expressions) -> list[tuple[str, Term]]:
        """The output columns by name."""
        out: list[tuple[str, Term]] = []
        for item in self.node.expressions:
            e = item.unalias()
            if id(item) in self.exploded:
                out.append((item.alias or "col", self.exploded[id(item)]))
            elif isinstance(e, exp.Star):
                out.extend(self._star(e, expressions))
            elif isinstance(e, exp.Column) and isinstance(e.this, exp.Star):
                out.extend(self._table_star(e, expressions))
            else:
                out.append((self._name(item), expressions.key(e)))
                if item.alias:
                    expressions.aliases.setdefault(item.alias.lower(), e)
        return self._unique(out)

    def _name(self, item: exp.Expression) -> str:
        if item.alias_or_name:
            return item.alias_or_name
        bare = item.copy()
        for column in bare.find_all(exp.Column):
            for part in ("table", "db", "catalog"):
                column.set(part, None)
        return bare.sql(dialect="spark").lower()

    def _star(self, e: exp.Star, expressions: Expressions) -> list[tuple[str, Term]]:
        if expressions.grouping is not None:
            raise self.reader.refuse("NOT_GROUPED", "* in a grouped query", e, "name the columns")
        if not self.rows.sources:
            raise self.reader.error(QueryError, "* without a FROM clause", e)
        left_out = {c.name.lower() for c in e.args.get("except_") or e.args.get("except") or []}
        return [(n, t) for n, t in self.scope.star() if n.lower() not in left_out]

    def _table_star(self, e: exp.Column, expressions: Expressions) -> list[tuple[str, Term]]:
        source = self.scope.source(e.table)
        if source is None:
            known = ", ".join(s.alias for s in self.rows.sources)
            raise self.reader.error(
                UnknownName, f"unknown table `{e.table}`", e, hint=f"tables in scope: {known}"
            )
        if expressions.grouping is not None:
            raise self.reader.refuse("NOT_GROUPED", "* in a grouped query", e, "name the columns")
        return [(n, t) for n in source.columns() if (t := source.column(n)) is not None]

    def _unique(self, items: list[tuple[str, Term]]) -> list[tuple[str, Term]]:
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
        items = self._items(expressions)
        output = Record(tuple(items))
        return self._finished(output, [t for _, t in items], expressions, self.rows.collect)

    def _grouped(self, group: exp.Group | None, having: exp.Expression | None) -> Term:
        aliases = {x.alias.lower(): x.unalias() for x in self.node.expressions if x.alias}
        keys = [self._group_key(e, aliases) for e in self._group_items(group, aliases)]
        grouping = Grouping(
            self.reader, self.rows, self.scope, list(dict.fromkeys(keys)), group is not None
        )
        order = self.node.args.get("order")
        for e in (*self.node.expressions, having, order):
            if e is not None:
                grouping.gather(e)
        grouping.close()
        expressions = Expressions(self.reader, self.scope, grouping)
        items = self._items(expressions)
        expressions.aliases.update(aliases)
        conditions = expressions.factors(having.this) if having is not None else []
        output = Record(tuple(items))
        return self._finished(
            output, [t for _, t in items], expressions, lambda body: grouping.build(body, conditions)
        )

    def _group_items(
        self, group: exp.Group | None, aliases: dict[str, exp.Expression]
    ) -> list[exp.Expression]:
        if group is None:
            return []
        for name in ("cube", "rollup", "grouping_sets"):
            if group.args.get(name):
                raise self._no_sets(group)
        if any(isinstance(e, (exp.Cube, exp.Rollup, exp.GroupingSets)) for e in group.expressions):
            raise self._no_sets(group)
        if group.args.get("all"):
            return [
                x.unalias() for x in self.node.expressions if next(aggregates(x), None) is None
            ]
        return list(group.expressions)

    def _no_sets(self, group: exp.Group) -> NotIncremental:
        return self.reader.refuse(
            "GROUPING_SETS",
            "GROUPING SETS, CUBE and ROLLUP are not maintained yet",
            group,
            "write one GROUP BY for each set, and UNION ALL",
        )

    def _group_key(self, e: exp.Expression, aliases: dict[str, exp.Expression]) -> Term:
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
        return rows.key(e)

    def _finished(
        self, output: Record, columns: list[Term], expressions: Expressions, collect: Any
    ) -> Term:
        """DISTINCT, then ORDER BY and LIMIT."""
        if self.node.args.get("distinct"):
            bag = self.reader.distinct(collect(Sng(output, ONE)))
            return self.reader._ordered_rows(bag, self.node)
        plain = collect(Sng(output, ONE))
        keys, directions = order_keys(expressions, self.node, output, columns)
        return self.reader.limited(
            self.node, directions, lambda: collect(Sng(ranked(keys, output), ONE)), plain
        )
