"""PIVOT and UNPIVOT: values into columns, and columns into rows.

PIVOT is a grouped query with one filtered aggregate for each value: by the columns that it does not name, of the rows
where the pivot column is the value. As in Spark a cell of no rows is NULL, also that of a count; only where an
aggregate is not a number (or a boolean) it is what the aggregate of nothing is, since Spark computes that in another way.

UNPIVOT is a sum, one comprehension for each column: {ids, the column's name, the column's value}, without the rows
whose values are all NULL unless it says INCLUDE NULLS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.scalars import SCALARS, common_type
from headwater.calculus.terms import Add, Call, Const, Pred, Record, Sng, Term, Times
from headwater.calculus.types import BOOLEAN, STRING, KeyType, is_numeric
from headwater.errors import QueryError, TypeMismatch, UnknownName
from headwater.language.build import ONE
from headwater.language.schema import sql_name
from headwater.language.sql.aggregate import aggregates
from headwater.language.sql.coerce import cast_to
from headwater.language.sql.expressions import Expressions
from headwater.language.sql.scope import Rows, Scope

if TYPE_CHECKING:
    from headwater.language.sql.reader import Reader


def read(reader: Reader, rows: Rows, node: exp.Pivot, parent: Scope | None) -> Term:
    """The bag of a PIVOT or an UNPIVOT of some rows."""
    if node.args.get("unpivot"):
        return _Unpivot(reader, rows, node, parent).read()
    return _Pivot(reader, rows, node, parent).read()


def _parts(e: exp.Expr) -> list[exp.Expr]:
    """(a, b) or a, as a list."""
    return list(e.expressions) if isinstance(e, exp.Tuple) else [e.unnest()]


class _Clause:
    """What both have: rows, the columns they name, and FOR ... IN (...)."""

    def __init__(self, reader: Reader, rows: Rows, node: exp.Pivot, parent: Scope | None):
        self.reader, self.rows, self.node, self.parent = reader, rows, node, parent
        self.scope = Scope(rows, parent)
        self.expressions = Expressions(reader, self.scope)
        fields = node.args["fields"]
        if len(fields) != 1:
            raise reader.error(QueryError, "more than one FOR ... IN", node, hint="write one")
        self.field: exp.In = fields[0]
        self.columns = dict(self.scope.star())

    def others(self, named: set[str]) -> list[str]:
        """The columns that the clause does not name, in their order."""
        return [n for n in self.columns if n.lower() not in named]


class _Pivot(_Clause):
    """sum(price) AS s, ... FOR status IN ('O' AS o, ...)."""

    def read(self) -> Term:
        """As Spark computes it for numbers, unless there is something else."""
        guarded = self._query(guarded=True)
        fields = type_of(guarded).key.fields[len(self.keys) :]
        if all(is_numeric(t) or t == BOOLEAN for _, t in fields):
            return guarded
        return self._query(guarded=False)

    def _query(self, guarded: bool) -> Term:
        from headwater.language.sql.select import (
            Select,
        )  # a SELECT reads its FROM, which may have a PIVOT

        over = _parts(self.field.this)
        named = {c.name.lower() for e in (*self.node.expressions, *over) for c in _columns(e)}
        self.keys = self.others(named)
        keys = [exp.column(exp.to_identifier(n, quoted=True)) for n in self.keys]
        cells = [
            cell
            for value in self.field.expressions
            for e in self.node.expressions
            for cell in self._cell(over, value, e, guarded)
        ]
        select = exp.Select(expressions=[*keys, *cells])
        if keys:
            select.set("group", exp.Group(expressions=[k.copy() for k in keys]))
        select.parent = self.node  # so that an error finds a place in the text
        return Select(self.reader, select, self.parent, self.rows).read()

    def _cell(
        self, over: list[exp.Expr], value: exp.Expr, e: exp.Expr, guarded: bool
    ) -> list[exp.Expr]:
        """One column: the aggregate of the rows where the pivot column is the value."""
        wanted = value.this if isinstance(value, exp.PivotAlias) else value
        values = _parts(wanted)
        if len(values) != len(over):
            what = f"{len(values)} values for {len(over)} columns"
            raise self.reader.error(QueryError, what, value)
        tests = [
            exp.NullSafeEQ(this=c.copy(), expression=v.copy())
            for c, v in zip(over, values, strict=True)
        ]
        test = exp.and_(*tests)
        body = e.unalias()
        if next(aggregates(body), None) is None:
            what = f"`{body.sql(dialect='spark')}` is not an aggregate"
            raise self.reader.error(QueryError, what, body, hint="PIVOT takes aggregates: sum(...)")
        body = body.copy()
        holder = exp.Paren(this=body)
        for a in list(aggregates(body)):
            inner, where = (a.this, a.expression.this) if isinstance(a, exp.Filter) else (a, None)
            condition = exp.and_(test.copy(), where.copy()) if where is not None else test.copy()
            filtered = exp.Filter(this=inner.copy(), expression=exp.Where(this=condition))
            a.replace(filtered)
        shown: exp.Expr = holder.this
        if guarded:
            count = exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=test))
            branch = exp.If(this=exp.GT(this=count, expression=exp.Literal.number(0)), true=shown)
            shown = exp.Case(ifs=[branch])
        return [exp.alias_(shown, self._name(value, e), quoted=True)]

    def _name(self, value: exp.Expr, e: exp.Expr) -> str:
        """Spark's name of a column: the value, and the aggregate too if there are several."""
        if isinstance(value, exp.PivotAlias):
            name = str(value.args["alias"].name)
        else:
            texts = [self._text(v) for v in _parts(value)]
            name = texts[0] if not isinstance(value, exp.Tuple) else "{" + ", ".join(texts) + "}"
        if len(self.node.expressions) == 1:
            return name
        called = e.alias or e.sql(dialect="spark").lower().replace("count(*)", "count(1)")
        return f"{name}_{called}"

    def _text(self, value: exp.Expr) -> str:
        constant = Expressions(self.reader, Scope(Rows())).key(value)
        if not isinstance(constant, Const):
            what = f"`{value.sql(dialect='spark')}` is not a constant"
            raise self.reader.error(QueryError, what, value, hint="PIVOT needs its values")
        if constant.value is None:
            return "null"
        return str(SCALARS["cast"].apply(STRING, (constant.type,), constant.value))


def _columns(e: exp.Expr) -> list[exp.Expr]:
    return list(e.find_all(exp.Column))


class _Unpivot(_Clause):
    """(value, ...) FOR name IN (column AS alias, ...)."""

    def read(self) -> Term:
        """One comprehension for each column."""
        names = [i.name for e in self.node.expressions for i in _parts(e)]
        entries = [self._entry(e, len(names)) for e in self.field.expressions]
        used = {c.name.lower() for e in self.field.expressions for c in _columns(e)}
        ids = [(n, self.columns[n]) for n in self.others(used)]
        types = [self._common(i, entries) for i in range(len(names))]
        bags = []
        for label, values in entries:
            cells = [cast_to(v, t) for v, t in zip(values, types, strict=True)]
            row = Record(
                (
                    *ids,
                    (self.field.this.name, Const(label, STRING)),
                    *zip(names, cells, strict=True),
                )
            )
            present = tuple(Call("is_not_null", (c,)) for c in cells)
            test = Pred(present[0] if len(present) == 1 else Call("or", present))
            kept: Term = Sng(row, ONE)
            if not self.node.args.get("include_nulls"):
                kept = Times((test, kept))
            bags.append(self.rows.collect(kept))
        self._different(list(bags))
        return bags[0] if len(bags) == 1 else Add(tuple(bags))

    def _entry(self, e: exp.Expr, width: int) -> tuple[str, list[Term]]:
        """A column, or several, with the name that its rows get."""
        inner = e.this if isinstance(e, exp.PivotAlias) else e
        columns = _parts(inner)
        if len(columns) != width:
            what = f"{len(columns)} columns for {width} values"
            raise self.reader.error(QueryError, what, e)
        for c in columns:
            if not isinstance(c, exp.Column):
                what = f"`{c.sql(dialect='spark')}` is not a column"
                raise self.reader.error(QueryError, what, c, hint="compute it in a subquery first")
        if isinstance(e, exp.PivotAlias):
            label = str(e.args["alias"].name)
        else:
            label = "_".join(self._written(c.name) for c in columns)
        return label, [self.expressions.key(c) for c in columns]

    def _written(self, name: str) -> str:
        """A column's own name, whatever its case in the query."""
        return next((n for n in self.columns if n.lower() == name.lower()), name)

    def _common(self, i: int, entries: list[tuple[str, list[Term]]]) -> KeyType:
        out: KeyType | None = type_of(entries[0][1][i])
        for label, values in entries[1:]:
            t = type_of(values[i])
            assert out is not None
            merged = common_type(out, t)
            if merged is None:
                what = f"`{label}` is {sql_name(t)}, and the columns before it are {sql_name(out)}"
                raise self.reader.error(
                    TypeMismatch, what, self.field, hint="cast them to one type in a subquery"
                )
            out = merged
        assert out is not None
        return out

    def _different(self, bags: list[Term]) -> None:
        names = [n.lower() for n, _ in type_of(bags[0]).key.fields]
        repeated = [n for i, n in enumerate(names) if n in names[:i]]
        if repeated:
            what = f"two output columns are called `{repeated[0]}`"
            raise self.reader.error(UnknownName, what, self.node)
