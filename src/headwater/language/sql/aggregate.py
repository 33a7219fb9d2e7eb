"""GROUP BY: a map from the group's key to a product of rings, answered group by group.

What an aggregate keeps is linear: a sum and a count of non-NULLs for sum and avg, a bag of values for
min, max and the DISTINCT forms. What it shows is an answer over that value. So a grouped query is

    each k ↦ v in (for ... collect {k ↦ ⟨n: 1, s: ..., c: ...⟩}) collect [v.n > 0] · {answers of k and v}

and a global aggregate, which has its one row always, is the same with `let v := ...`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Add,
    Answer,
    Box,
    Call,
    Const,
    Each,
    Field,
    Let,
    Pred,
    Record,
    Sng,
    Term,
    Times,
    Unbox,
    Var,
    replaced,
)
from headwater.calculus.types import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    Base,
    KeyType,
    decimal,
    has_box,
    is_numeric,
)
from headwater.errors import HeadwaterError, QueryError, TypeMismatch
from headwater.language.build import ONE, ZERO, each_distinct, exactly
from headwater.language.schema import sql_name
from headwater.language.sql import bags
from headwater.language.sql.coerce import case_of, cast_to
from headwater.language.sql.expressions import Expressions
from headwater.language.sql.grouping_sets import Sets, no_sets
from headwater.language.sql.moments import TWO_ARGUMENTS, Total, moments
from headwater.language.sql.no_aggregates import is_refused, refusal, unknown
from headwater.language.sql.scope import Rows, Scope, field_of
from headwater.language.sql.time_windows import asks_end, later, no_end

if TYPE_CHECKING:
    from headwater.language.sql.reader import Reader

KNOWN: dict[type[exp.Expr], str] = {
    exp.Sum: "sum",
    exp.Count: "count",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.ArrayAgg: "array_agg",
    exp.ArrayUniqueAgg: "collect_set",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Any: "bool_or",
    exp.CountIf: "count_if",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Skewness: "skewness",
    exp.Kurtosis: "kurtosis",
    exp.CovarPop: "covar_pop",
    exp.CovarSamp: "covar_samp",
    exp.Corr: "corr",
    exp.RegrCount: "regr_count",
    exp.RegrAvgx: "regr_avgx",
    exp.RegrAvgy: "regr_avgy",
    exp.RegrSxx: "regr_sxx",
    exp.RegrSyy: "regr_syy",
    exp.RegrSxy: "regr_sxy",
    exp.RegrSlope: "regr_slope",
    exp.RegrIntercept: "regr_intercept",
    exp.RegrR2: "regr_r2",
}
BY_NAME = {
    "mean": "avg",
    "every": "bool_and",
    "some": "bool_or",
    "collect_list": "array_agg",
    "collect_set": "collect_set",
    "count_if": "count_if",
    "std": "stddev_samp",
}
WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
"""What stands around an aggregate and is part of it."""

Answered = Callable[[Callable[[str], Term]], Term]
"""What an aggregate shows, given the components of the group's value."""


def name_of(e: exp.Expr) -> str | None:
    """The name of an aggregate that is maintained, or None."""
    if isinstance(e, exp.Anonymous):
        return BY_NAME.get(e.name.lower())
    if isinstance(e, exp.Any) and isinstance(e.parent, exp.Binary):  # LIKE ANY (...)
        return None
    return KNOWN.get(type(e))


def is_aggregate(e: exp.Expr) -> bool:
    """Whether an expression is an aggregate function, maintained or not."""
    if isinstance(e, WRAPPERS):
        return is_aggregate(e.this)
    return name_of(e) is not None or isinstance(e, exp.AggFunc) or is_refused(e)


def aggregates(e: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregates of an expression, outermost, leaving out those of subqueries and windows themselves."""
    if isinstance(e, exp.Query):
        return
    if isinstance(
        e, exp.Window
    ):  # its function is none, but what the function is given may have some
        function = e.this
        while isinstance(function, (*WRAPPERS, exp.IgnoreNulls, exp.RespectNulls)):
            function = function.this
        for child in (*function.iter_expressions(), *e.iter_expressions()):
            if child is not e.this:
                yield from aggregates(child)
        if isinstance(e.this, exp.Filter):
            yield from aggregates(e.this.expression)
        return
    if is_aggregate(e):
        yield e
        return
    for child in e.iter_expressions():
        yield from aggregates(child)


class Grouping:
    """One GROUP BY: the group's keys, the components of its value, and the answer of each aggregate."""

    def __init__(
        self,
        reader: Reader,
        rows: Rows,
        scope: Scope,
        keys: list[Term],
        grouped: bool,
        sets: Sets | None = None,
    ):
        self.reader, self.rows, self.scope = reader, rows, scope
        self.row = Expressions(reader, scope)
        self.keys, self.grouped, self.sets = keys, grouped, sets
        plain = Record(tuple((f"g{i + 1}", k) for i, k in enumerate(keys)))
        self.key_records = [plain] if sets is None else sets.keys()
        self.k = Var(reader.fresh("k"), type_of(self.key_records[0]))
        self.components: dict[Term, str] = {ONE: "n"}
        self.answers: dict[int, Answered] = {}
        self.end: Answered | None = None
        self.v: Var | None = None

    # --- first pass: what the aggregates keep ---------------------------------------------------------

    def gather(self, e: exp.Expr) -> None:
        """Adds the components of every aggregate in an expression."""
        for node in aggregates(e):
            if isinstance(node, (exp.Grouping, exp.GroupingId)):
                if self.sets is None:
                    raise no_sets(self.reader, node)
            elif id(node) not in self.answers:
                self.answers[id(node)] = self._read(node)

    def gather_end(self, shown: list[exp.Expr]) -> None:
        """The end of a session, where it is asked for: the last time and the gap."""
        window = self.rows.window
        if window is None or window.session is None or not any(map(asks_end, shown)):
            return
        time, gap = window.session
        times = self.kept([], [time], Sng(time, ONE))
        self.end = lambda v: later(Answer("max", (), v(times)), gap)

    def close(self) -> None:
        """All aggregates are known, so the group's value has its type."""
        record = Record(tuple((n, t) for t, n in self.components.items()))
        self.v = Var(self.reader.fresh("v"), type_of(record))

    def _component(self, term: Term) -> str:
        return self.components.setdefault(term, f"a{len(self.components)}")

    def kept(self, where: list[Term], args: list[Term], value: Term) -> str:
        """The component that adds up a value over the rows where a condition holds and no argument is NULL."""
        present = [Pred(Call("is_not_null", (a,))) for a in args]
        factors = (*where, *present, value)
        return self._component(factors[0] if len(factors) == 1 else Times(factors))

    def _read(self, e: exp.Expr) -> Answered:
        no_end(self.reader, self.rows.window, None, e)
        where: list[Term] = []
        node = e
        if isinstance(node, exp.Filter):
            where = self.row.factors(node.expression.this)
            node = node.this
        if (refused := refusal(self.reader, node)) is not None:
            raise refused
        if (answered := bags.read(self, node, where)) is not None:
            return answered
        name = name_of(node)
        if name is None:
            raise unknown(self.reader, node)
        args, distinct = self.arguments(node)
        self._counted(node, name, args)
        total = self._total(where, args, distinct)
        match name:
            case "count" if not args:
                counted = self._component(Times((*where, ONE)) if where else ONE)
                return lambda v: Box(v(counted))
            case "count":
                return boxed(total(lambda _: ONE))
            case "count_if" if distinct:
                return boxed(total(lambda parts: Pred(parts[0])))
            case "count_if":
                test = self._component(Times((*where, Pred(args[0]))))
                return lambda v: Box(v(test))
            case "bool_and" | "bool_or":
                return self._logical(name, args[0], where, boxed(total(lambda _: ONE)))
            case "min" | "max":
                if has_box(type_of(args[0])):
                    what = f"`{node.sql(dialect='spark')}` compares {sql_name(type_of(args[0]))}"
                    hint = "arrays are bags here, without an order"
                    raise self.reader.error(TypeMismatch, what, node, hint=hint)
                if not isinstance(type_of(args[0]), Base):
                    what = f"`{node.sql(dialect='spark')}` orders structs"
                    hint = "use max_by(value, order) or min_by(value, order)"
                    raise self.reader.refuse("AGGREGATE", what, node, hint)
                values = self.kept(where, args, Sng(args[0], ONE))
                return lambda v: Answer(name, (), v(values))
            case "array_agg" | "collect_set":
                items = self.kept(where, args, Sng(args[0], ONE))
                if name == "array_agg" and not distinct:
                    return lambda v: Box(v(items))
                return lambda v: Box(self.distinct(v(items), lambda d: Sng(d, ONE)))
            case _:
                return self._numeric(node, name, args, total)

    def _counted(self, e: exp.Expr, name: str, args: list[Term]) -> None:
        """Raises where an aggregate has more arguments than it reads, or fewer."""
        wanted = 2 if name in TWO_ARGUMENTS else 1
        nothing = isinstance(e, exp.Count) and e.this is None
        if nothing or (name != "count" and len(args) != wanted):
            what = f"`{e.sql(dialect='spark')}` has {len(args)} arguments, not {wanted}"
            raise self.reader.error(QueryError, what, e)

    def _total(self, where: list[Term], args: list[Term], distinct: bool) -> Total:
        """How a sum over the rows is kept: as it is, or, of DISTINCT, as a bag that is added up when it is shown.

        What is given back is a number of a ring.
        """
        if not distinct:

            def plain(summand: Callable[[list[Term]], Term]) -> Answered:
                component = self.kept(where, args, summand(args))
                return lambda v: v(component)

            return plain

        def different(summand: Callable[[list[Term]], Term]) -> Answered:
            key = args[0] if len(args) == 1 else _tuple(args)
            bag = self.kept(where, args, Sng(key, ONE))

            def of(d: Term) -> Term:
                if len(args) == 1:
                    return summand([d])
                return summand([Field(d, n) for n, _ in type_of(d).fields])

            return lambda v: self.distinct(v(bag), of)

        return different

    def arguments(self, node: exp.Expr) -> tuple[list[Term], bool]:
        """The terms of an aggregate's arguments over the rows, and whether DISTINCT stands before them."""
        given = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
        given = [g for g in given if g is not None and not isinstance(g, exp.Star)]
        distinct = bool(given) and isinstance(given[0], exp.Distinct)
        if distinct:
            given = given[0].expressions
            if len(given) == 1 and isinstance(given[0], exp.Star):
                return [t for _, t in self.scope.star()], True
        elif not isinstance(node, exp.Anonymous):
            more = [node.expression] if isinstance(node.args.get("expression"), exp.Expr) else []
            given = [*given, *more, *(node.expressions or [])]
        return [self.argument(node, g) for g in given], distinct

    def argument(self, node: exp.Expr, g: exp.Expr) -> Term:
        """One argument, which has no aggregate inside."""
        if next(aggregates(g), None) is not None:
            raise self.reader.error(
                QueryError,
                f"`{node.sql(dialect='spark')}` aggregates an aggregate",
                g,
                hint="aggregate in a subquery first",
            )
        if isinstance(g.unnest(), exp.Tuple):
            what = f"`{node.sql(dialect='spark')}` aggregates tuples"
            hint = "list the columns: count(DISTINCT a, b) is of rows without NULLs"
            raise self.reader.refuse("AGGREGATE", what, g, hint)
        return self.row.key(g)

    def _logical(self, name: str, arg: Term, where: list[Term], count: Answered) -> Answered:
        true = self._component(Times((*where, Pred(arg))))

        def answer(v: Callable[[str], Term]) -> Term:
            n, t = count(v), Box(v(true))
            shown = Call("=", (n, t)) if name == "bool_and" else Call(">", (t, ZERO))
            return case_of([Call("=", (n, ZERO))], [Const(None, BOOLEAN), shown])

        return answer

    def _numeric(self, e: exp.Expr, name: str, args: list[Term], total: Total) -> Answered:
        """sum, avg, and what is made from sums of powers."""
        for arg in args:
            if not is_numeric(type_of(arg)):
                raise self.reader.error(
                    TypeMismatch,
                    f"`{e.sql(dialect='spark')}` adds up {sql_name(type_of(arg))}",
                    e.this if isinstance(e.this, exp.Expr) else e,
                    hint=f"{name} takes numbers; cast first",
                )
        if name != "regr_count":
            self.reader.rounded(e, name, [type_of(a) for a in args])
        if name in ("sum", "avg"):
            return self._summed(name, 0, args, total)
        if name in ("regr_avgx", "regr_avgy"):  # regr_...(y, x)
            return self._summed("avg", 1 if name == "regr_avgx" else 0, args, total)
        return moments(name, [type_of(a) for a in args], total)

    def _summed(self, name: str, at: int, args: list[Term], total: Total) -> Answered:
        """sum and avg: NULL where no value is there, else the sum, or the sum over the count; of doubles not rounded."""
        t = type_of(args[at])
        doubles = t in (FLOAT, DOUBLE)
        added = total(lambda parts: Unbox(exactly(parts[at]) if doubles else parts[at]))
        count = total(lambda _: ONE)

        def answer(v: Callable[[str], Term]) -> Term:
            s, n = added(v), count(v)
            if doubles and name == "avg":
                return Answer("_avg", (), Record((("n", n), ("s", s))))
            out = Answer("_sum", (), s) if doubles else shown(name, t, Box(s), Box(n))
            return case_of([Call("=", (Box(n), ZERO))], [Const(None, type_of(out)), out])

        return answer

    def distinct(self, bag: Term, body: Callable[[Term], Term]) -> Term:
        """The sum of a body over the different values of a bag."""
        return each_distinct(bag, body, self.reader.fresh("d"), self.reader.fresh("w"))

    # --- second pass: what the query shows -----------------------------------------------------------

    def term_of(self, e: exp.Expr) -> Term | None:
        """The term of an expression that is an aggregate, or that the query groups by."""
        if id(e) in self.answers:
            assert self.v is not None
            v = self.v
            return self.answers[id(e)](lambda name: Field(v, name))
        if self.sets is not None and (asked := self.sets.function(e, self.k)) is not None:
            return asked
        if isinstance(e, (exp.Literal, exp.Null, exp.Boolean)) or not self.keys:
            return None
        if next(aggregates(e), None) is not None or e.find(exp.Query) is not None:
            return None
        try:
            return self.key_of(self.row.key(e))
        except HeadwaterError:
            return None  # not an expression over the rows; the caller says what is wrong with it

    def key_of(self, term: Term) -> Term | None:
        """The group's key that a term over the rows is, if it is one."""
        for i, known in enumerate(self.keys):
            if known == term:
                return Field(self.k, f"g{i + 1}")
        if isinstance(term, Field) and (whole := self.key_of(term.term)) is not None:
            return field_of(whole, term.name)  # of a struct that is grouped by
        return self._of_window(term)

    def _of_window(self, term: Term) -> Term | None:
        """`window` and `window.end` of a group by `window`, whose key is the start."""
        window = self.rows.window
        if window is None or not window.grouped or term not in (window.end, window.pair()):
            return None
        start = Field(self.k, f"g{self.keys.index(window.start) + 1}")
        known: dict[Term, Term] = {window.start: start}
        if self.end is not None and self.v is not None:
            v = self.v
            known[window.end] = self.end(lambda name: Field(v, name))
        told = replaced(term, known)
        if self.sets is None or term == window.end:
            return told
        return case_of([Call("is_null", (start,))], [Const(None, type_of(told)), told])

    def outer_scope(self, _: Expressions) -> Scope:
        """What a subquery of a grouped query sees: the group's keys under the names of their columns."""
        return _GroupedScope(self)

    def build(self, body: Term, having: list[Term]) -> Term:
        """The grouped query with this body over k and v."""
        assert self.v is not None
        value = Record(tuple((n, t) for t, n in self.components.items()))
        if not self.grouped:
            kept = self.rows.collect(value)
            return Let(self.v, kept, Times((*having, body)) if having else body)
        live = Pred(Call(">", (Box(Field(self.v, "n")), ZERO)))
        parts = [self.rows.collect(Sng(key, value)) for key in self.key_records]
        groups = parts[0] if len(parts) == 1 else Add(tuple(parts))
        return Each(self.k, self.v, groups, Times((live, *having, body)))


class _GroupedScope(Scope):
    """A scope in which only grouped columns have a meaning."""

    def __init__(self, grouping: Grouping):
        super().__init__(grouping.rows, grouping.scope.parent)
        self.grouping = grouping

    def local(self, parts: list[str]) -> Term | None:
        found = super().local(parts)
        return None if found is None else self.grouping.key_of(found)


def shown(name: str, arg: KeyType, total: Term, count: Term) -> Term:
    """A sum or an average in Spark's result type."""
    assert isinstance(arg, Base)
    if name == "sum":
        if arg.name == "decimal":
            return cast_to(total, decimal(min(arg.precision + 10, 38), arg.scale))
        return total
    if arg.name == "decimal":
        result = decimal(min(arg.precision + 4, 38), min(arg.scale + 4, 38))
        return Call("/", (total, count), result)
    return Call("/", (cast_to(total, DOUBLE), cast_to(count, DOUBLE)))


def boxed(of: Answered) -> Answered:
    """A number of a ring as one that is shown."""
    return lambda v: Box(of(v))


def _tuple(parts: list[Term]) -> Term:
    return Record(tuple((f"_{i + 1}", p) for i, p in enumerate(parts)))
