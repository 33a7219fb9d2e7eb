"""The names of output columns that have no alias: Spark's own, or none.

Spark calls a column by the expression that it is, written out in a normal form: `count(1)`, `(n + 1)`, `CAST((n + 1) AS
INT)`; strings stand without quotes, brackets around columns are left out, and a cast of a column has the name of the
column. Here are the forms that are certain; of all others the reader asks for an alias.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.errors import HeadwaterError
from headwater.language.schema import sql_name, type_of_ddl
from headwater.language.sql.functions import ARITHMETIC
from headwater.language.sql.placing import place_of
from headwater.language.sql.time_windows import is_call, is_field

if TYPE_CHECKING:
    from headwater.language.sql.reader import Reader

_BINARY: dict[type[exp.Expr], str] = {
    **ARITHMETIC,
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
}
_NEGATED: dict[type[exp.Expr], str] = {exp.NEQ: "=", exp.NullSafeNEQ: "<=>"}
_CALLED = {
    *("count", "sum", "avg", "mean", "min", "max", "stddev", "std", "stddev_samp", "stddev_pop"),
    *("variance", "var_samp", "var_pop", "collect_list", "collect_set", "bool_and", "bool_or"),
    *("every", "median", "corr", "max_by", "min_by", "count_if", "skewness", "kurtosis"),
    *("covar_pop", "covar_samp", "upper", "lower", "length", "coalesce", "nvl", "ifnull", "nvl2"),
    *("nullif", "greatest", "least", "abs", "concat", "substring", "substr", "trim", "replace"),
    *("year", "month", "day", "quarter", "dayofweek", "dayofyear", "weekofyear", "last_day"),
    *("add_months", "reverse", "struct", "grouping", "grouping_id", "startswith", "endswith"),
    *("window_time",),
}
"""Functions that are called in the name as in the text, in small letters, with their arguments."""
_LARGE = {"floor": "FLOOR", "ceil": "CEIL", "sqrt": "SQRT", "power": "POWER"}
_WHOLE = re.compile(r"(0|[1-9]\d*)(\.\d+)?")


def spark_name(reader: Reader, e: exp.Expr, tables: Callable[[str], object]) -> str | None:
    """Spark's name of an output column; None where it is not certain. `tables` finds a table by its alias."""
    while isinstance(e, exp.Paren) and not e.meta.get("plus"):
        e = e.this
    if isinstance(e, (exp.Cast, exp.TryCast)):
        inner = e.this
        while isinstance(inner, exp.Paren) and not inner.meta.get("plus"):
            inner = inner.this
        if isinstance(inner, (exp.Column, exp.Dot)):
            return inner.name
    if isinstance(e, exp.Column) and not isinstance(e.this, exp.Star):
        return e.name
    if is_call(e):
        return e.name.lower()
    if isinstance(e, exp.Dot):
        before = f"{e.this.name.lower()}." if is_call(e.this) else ""
        return f"{before}{e.expression.name}" or None
    return _Names(reader, tables).of(e)


class _Unsure(Exception):
    """An expression whose name is not certain."""


class _Names:
    """Writes expressions as Spark does in the names of columns."""

    def __init__(self, reader: Reader, tables: Callable[[str], object]):
        self.reader, self.tables = reader, tables

    def of(self, e: exp.Expr) -> str | None:
        """The name, if it is certain."""
        try:
            return self._name(e)
        except (_Unsure, HeadwaterError, RecursionError):
            return None

    def _name(self, e: exp.Expr) -> str:
        kind = type(e)
        if kind in _BINARY:
            return f"({self._name(e.this)} {_BINARY[kind]} {self._name(e.expression)})"
        if kind in _NEGATED:
            return f"(NOT ({self._name(e.this)} {_NEGATED[kind]} {self._name(e.expression)}))"
        match e:
            case exp.Paren():
                return f"(+ {self._name(e.this)})" if e.meta.get("plus") else self._name(e.this)
            case exp.Column():
                return self._column(e)
            case exp.Literal() | exp.Boolean() | exp.Null():
                return _literal(e)
            case exp.Neg(this=exp.Literal(is_string=False)):
                return f"-{self._name(e.this)}"
            case exp.Neg():
                return f"(- {self._name(e.this)})"
            case exp.BitwiseNot():
                return f"~{self._name(e.this)}"
            case exp.DPipe():
                return f"concat({self._name(e.this)}, {self._name(e.expression)})"
            case exp.And() | exp.Or():
                return self._logical(e)
            case exp.Anonymous() | exp.Dot() if is_field(e):
                return spark_name(self.reader, e, self.tables) or ""
            case exp.Subquery():
                return "scalarsubquery()"
            case exp.Exists(this=exp.Query()):
                return "exists()"
            case exp.Case():
                return self._case(e)
            case exp.Cast() | exp.TryCast():
                return self._cast(e)
            case exp.Filter():
                return f"{self._name(e.this)} FILTER (WHERE {self._name(e.expression.this)})"
            case _:
                return self._predicate(e) or self._call(e)

    def _column(self, e: exp.Column) -> str:
        field = len(e.parts) == 2 and self.tables(e.table) is None
        if isinstance(e.this, exp.Star) or len(e.parts) > 2 or field:
            raise _Unsure
        return e.name

    def _logical(self, e: exp.And | exp.Or) -> str:
        """A chain of ANDs or ORs is a balanced tree in Spark."""
        word, parts = type(e).__name__.upper(), [e.expression]
        while type(e.this) is type(e):
            e = e.this
            parts.append(e.expression)
        return _balanced([self._name(p) for p in [e.this, *reversed(parts)]], word)

    def _predicate(self, e: exp.Expr) -> str | None:
        match e:
            case exp.Not(this=exp.Is(expression=exp.Null())):
                return f"({self._name(e.this.this)} IS NOT NULL)"
            case exp.Not():
                return f"(NOT {self._name(e.this)})"
            case exp.Is(expression=exp.Null()):
                not_ = "NOT " if e.args.get("negate") else ""
                return f"({self._name(e.this)} IS {not_}NULL)"
            case exp.In() if e.args.get("query") is not None:
                return f"({self._name(e.this)} IN (listquery()))"
            case exp.In():
                listed = ", ".join(map(self._name, e.expressions))
                return f"({self._name(e.this)} IN ({listed}))"
            case exp.Between():
                return (
                    f"between({', '.join(self._name(e.args[a]) for a in ('this', 'low', 'high'))})"
                )
            case exp.Like():
                like = f"{self._name(e.this)} LIKE {self._name(e.expression)}"
                return f"(NOT {like})" if e.args.get("negate") else like
            case _:
                return None

    def _case(self, e: exp.Case) -> str:
        parts = []
        for branch in e.args["ifs"]:
            when = self._name(branch.this)
            if e.this is not None:
                when = f"({self._name(e.this)} = {when})"
            parts.append(f"WHEN {when} THEN {self._name(branch.args['true'])}")
        default = e.args.get("default")
        if default is not None:
            parts.append(f"ELSE {self._name(default)}")
        return f"CASE {' '.join(parts)} END"

    def _cast(self, e: exp.Expr) -> str:
        """CAST and ::, which are written as such; DATE '...' and int(x) are casts of sqlglot's only."""
        if e.args.get("safe") or not isinstance(e, exp.TryCast):
            raise _Unsure
        if isinstance(e.this, exp.Literal):
            raise _Unsure
        t = sql_name(type_of_ddl(e.args["to"])).upper().replace(", ", ",")
        return f"CAST({self._name(e.this)} AS {t})"

    def _call(self, e: exp.Expr) -> str:
        word = (self.reader.word(e) or self._written(e)).lower()
        args = [a for a in e.iter_expressions() if not isinstance(a, exp.Var)]
        if word == "count" and len(args) == 1 and isinstance(args[0], exp.Star):
            return "count(1)"
        distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
        if distinct:
            args = args[0].expressions
        named = [self._argument(a) for a in args]
        if word == "round" and len(named) == 1:
            named.append("0")
        if word not in _CALLED and word not in _LARGE and word != "round":
            raise _Unsure
        return f"{_LARGE.get(word, word)}({'DISTINCT ' if distinct else ''}{', '.join(named)})"

    def _written(self, e: exp.Expr) -> str:
        """The name of a function by the text that it begins with."""
        place = place_of(e) if isinstance(e, exp.Func) else None
        found = re.compile(r"(\w+)\s*\(").match(self.reader.text, place[0]) if place else None
        return found[1] if found else ""

    def _argument(self, a: exp.Expr) -> str:
        if isinstance(a, exp.TsOrDsToDate) and place_of(a) is None:
            a = a.this  # sqlglot's own
        return self._name(a.expression if isinstance(a, exp.PropertyEQ) else a)


def _literal(e: exp.Expr) -> str:
    if isinstance(e, exp.Null):
        return "NULL"
    if isinstance(e, exp.Boolean):
        return "true" if e.this else "false"
    text = str(e.this)
    if not e.args.get("is_string") and not _WHOLE.fullmatch(text):
        raise _Unsure
    return text


def _balanced(parts: list[str], word: str) -> str:
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) - 1) // 2 + 1
    return f"({_balanced(parts[:middle], word)} {word} {_balanced(parts[middle:], word)})"
