"""Window functions of a SELECT: each row of a partition beside what is said of it.

Windows are computed after grouping and before DISTINCT and LIMIT. The columns that the query reads besides them make
a bag of rows; for every partition and order that occurs it is taken apart by partition, answered, and put together
with the values added:

    each k ↦ v in (for r in rows collect {partition ↦ {{order, row: r}}})
    collect for x in window[...](v) collect {x.row and x.w}

What is selected is then read from the last of these bags.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Answer,
    Const,
    Each,
    Field,
    For,
    Record,
    Sng,
    Term,
    Var,
    children,
    replaced,
    variables,
)
from headwater.calculus.types import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INTEGER,
    VOID,
    Base,
    RecordType,
    is_key,
)
from headwater.calculus.windows import (
    CURRENT,
    UNBOUNDED,
    Bound,
    Direction,
    Frame,
    Interval,
    Window,
    result_type,
)
from headwater.errors import QueryError, TypeMismatch
from headwater.language.build import ONE
from headwater.language.sql.coerce import case_of, cast_to

if TYPE_CHECKING:
    from headwater.language.sql.expressions import Expressions
    from headwater.language.sql.reader import Reader

NAMES: dict[type[exp.Expr], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
    exp.Ntile: "ntile",
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
    exp.First: "first_value",
    exp.LastValue: "last_value",
    exp.Last: "last_value",
    exp.NthValue: "nth_value",
    exp.Count: "count",
    exp.CountIf: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
}
BY_NAME = {"mean": "avg", "every": "bool_and", "some": "bool_or", "count_if": "count"}
ORDERED = {"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"}
"""Functions that mean nothing without an order."""
SPREADS = {"var_pop", "var_samp", "stddev_pop", "stddev_samp"}
UNITS = {
    "YEAR": ("months", 12),
    "QUARTER": ("months", 3),
    "MONTH": ("months", 1),
    "WEEK": ("days", 7),
    "DAY": ("days", 1),
    "HOUR": ("microseconds", 3_600_000_000),
    "MINUTE": ("microseconds", 60_000_000),
    "SECOND": ("microseconds", 1_000_000),
    "MILLISECOND": ("microseconds", 1_000),
    "MICROSECOND": ("microseconds", 1),
}


@dataclass
class Stage:
    """The windows over one partition and order."""

    partition: tuple[Term, ...]
    order: tuple[Term, ...]
    directions: tuple[Direction, ...]
    windows: list[tuple[Window, tuple[Term, ...]]] = field(default_factory=list)
    """Each with the terms that its columns, arguments and then default, are."""


class Windows:
    """The windows of one SELECT, in the order in which they are met."""

    def __init__(self, reader: Reader, node: exp.Select):
        self.reader = reader
        self.named = {w.this.name.lower(): w for w in node.args.get("windows") or []}
        self.stages: list[Stage] = []
        self.values: dict[Var, tuple[int, int]] = {}
        self.inside = False

    # --- reading --------------------------------------------------------------------------------------------------

    def term_of(self, x: Expressions, e: exp.Window) -> Term:
        """The value of a window, as a variable that `collect` gives a meaning to."""
        if self.inside:
            raise self.reader.error(
                QueryError, "a window function inside of a window function", e,
                hint="compute the inner one in a subquery",
            )  # fmt: skip
        if e.find(exp.Query) is not None:
            raise self.reader.refuse(
                "WINDOW_FUNCTION",
                "a subquery inside of a window is not maintained",
                e,
                "compute it in a subquery of FROM first",
            )
        self.inside = True
        try:
            partition, order, spec = self._clauses(e)
            stage = self._stage(x, partition, order)
            made, terms = self._window(x, e, stage, spec)
        finally:
            self.inside = False
        if (made, terms) not in stage.windows:
            stage.windows.append((made, terms))
        place = self.stages.index(stage), stage.windows.index((made, terms))
        for known, where in self.values.items():
            if where == place:
                return known
        var = Var(self.reader.fresh("w"), made.returns)
        self.values[var] = place
        return var

    def _clauses(
        self, e: exp.Window
    ) -> tuple[list[exp.Expr], exp.Order | None, exp.WindowSpec | None]:
        """PARTITION BY, ORDER BY and the frame, those of a named window included."""
        base: tuple[Any, Any, Any] = ([], None, None)
        name = e.args.get("alias")
        if name is not None:
            if name.name.lower() not in self.named:
                raise self.reader.error(
                    QueryError, f"no window is called `{name.name}`", e,
                    hint=f"named windows: {', '.join(self.named) or 'none'}",
                )  # fmt: skip
            base = self._clauses(self.named[name.name.lower()])
        return (
            e.args.get("partition_by") or base[0],
            e.args.get("order") or base[1],
            e.args.get("spec") or base[2],
        )

    def _stage(self, x: Expressions, partition: list[exp.Expr], order: exp.Order | None) -> Stage:
        keys = tuple(dict.fromkeys(x.key(p) for p in partition))
        columns, directions = [], []
        for item in order.expressions if order is not None else []:
            columns.append(x.key(item.this))
            directions.append((bool(item.args.get("desc")), not item.args.get("nulls_first")))
        for known in self.stages:
            if (known.partition, known.order, known.directions) == (
                keys,
                tuple(columns),
                tuple(directions),
            ):
                return known
        self.stages.append(Stage(keys, tuple(columns), tuple(directions)))
        return self.stages[-1]

    def _window(
        self, x: Expressions, e: exp.Window, stage: Stage, spec: exp.WindowSpec | None
    ) -> tuple[Window, tuple[Term, ...]]:
        node, ignores = e.this, False
        if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)):
            node, ignores = node.this, isinstance(node, exp.IgnoreNulls)
        where = None
        if isinstance(node, exp.Filter):
            where, node = node.expression.this, node.this
        name = NAMES.get(type(node)) or (
            BY_NAME.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None
        )
        several = not isinstance(node, exp.Anonymous) and node.expressions
        if name is None or isinstance(node.this, exp.Distinct) or several:
            raise self.reader.refuse(
                "WINDOW_FUNCTION",
                f"`{node.sql(dialect='spark')}` is not maintained over a window",
                e,
                f"these are: {', '.join(sorted(set(NAMES.values())))}",
            )
        if name in ORDERED and not stage.order:
            raise self.reader.error(
                QueryError, f"`{node.sql(dialect='spark')}` over a window without an order", e,
                hint="write OVER (... ORDER BY ...)",
            )  # fmt: skip
        args = self._arguments(x, node, where)
        offset = self._offset(node)
        default = node.args.get("default")
        terms = list(args)
        if default is not None and args:
            terms.append(cast_to(x.key(default), type_of(args[0])))
        if name in ("min", "max") and not all(isinstance(type_of(a), Base) for a in args):
            what = f"`{node.sql(dialect='spark')}` orders structs"
            raise self.reader.refuse("WINDOW_FUNCTION", what, e, "order by its fields")
        returns = result_type(name, tuple(type_of(a) for a in args))
        if returns is None:
            shown = ", ".join(str(type_of(a)) for a in args)
            raise self.reader.error(
                TypeMismatch, f"`{node.sql(dialect='spark')}` of {shown}", e,
                hint="cast the argument",
            )  # fmt: skip
        # Columns get their names when all of them are known.
        names = tuple(f"a{i}" for i in range(len(args)))
        frame = None if name in ORDERED else self._frame(x, e, spec, stage)
        more = "d" if len(terms) > len(args) else None
        exact = name in SPREADS or (
            name in ("sum", "avg") and type_of(args[0]) in (FLOAT, DOUBLE, VOID)
        )
        if name in SPREADS or name in ("sum", "avg"):
            self.reader.rounded(node, name, [type_of(a) for a in args])
        return Window(name, names, frame, ignores, offset, more, returns, exact), tuple(terms)

    def _arguments(self, x: Expressions, node: exp.Expr, where: exp.Expr | None) -> list[Term]:
        given = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
        if isinstance(node, (exp.Ntile, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)):
            given = []
        args = [x.key(g) for g in given if g is not None and not isinstance(g, exp.Star)]
        one = Const(1, INTEGER)
        if isinstance(node, exp.CountIf) or node.name.lower() == "count_if":
            args = [case_of([args[0]], [one, Const(None, INTEGER)])]
        if where is not None:
            condition = x.key(where)
            if type_of(condition) != BOOLEAN:
                raise self.reader.error(TypeMismatch, "FILTER takes a condition", where)
            args = [case_of([condition], [a, Const(None, type_of(a))]) for a in (args or [one])]
        return args

    def _offset(self, node: exp.Expr) -> int:
        given = node.this if isinstance(node, exp.Ntile) else node.args.get("offset")
        if given is None:
            return 1
        sign = -1 if isinstance(given, exp.Neg) else 1
        literal = given.this if isinstance(given, exp.Neg) else given
        if not isinstance(literal, exp.Literal) or not literal.is_int:
            raise self.reader.error(
                QueryError, f"`{given.sql(dialect='spark')}` is no whole number", node,
                hint="write the number",
            )  # fmt: skip
        return sign * int(literal.this)

    # --- frames ---------------------------------------------------------------------------------------------------

    def _frame(
        self, x: Expressions, e: exp.Window, spec: exp.WindowSpec | None, stage: Stage
    ) -> Frame | None:
        if spec is None:
            return None if stage.order else Frame("rows", UNBOUNDED, UNBOUNDED)
        unit = "rows" if str(spec.args.get("kind")).upper() == "ROWS" else "range"
        start = self._bound(x, e, spec.args.get("start"), spec.args.get("start_side"), stage, unit)
        end = spec.args.get("end")
        last = self._bound(x, e, end, spec.args.get("end_side"), stage, unit) if end else CURRENT
        return Frame("rows" if unit == "rows" else "range", start, last)

    def _bound(
        self, x: Expressions, e: exp.Window, given: Any, side: Any, stage: Stage, unit: str
    ) -> Bound:
        if isinstance(given, str):
            return UNBOUNDED if given.upper() == "UNBOUNDED" else CURRENT
        sign = -1 if str(side).upper() == "PRECEDING" else 1
        if isinstance(given, exp.Interval):
            return Bound(self._interval(e, given, sign))
        value = x.key(given)
        if not isinstance(value, Const) or not isinstance(value.value, (int, Decimal, float)):
            raise self.reader.error(
                QueryError, f"`{given.sql(dialect='spark')}` is no constant", e,
                hint="a frame has constant bounds",
            )  # fmt: skip
        if unit == "range" and (len(stage.order) != 1 or not _steps(type_of(stage.order[0]))):
            raise self.reader.error(
                TypeMismatch, "a RANGE frame with a number needs one order column of numbers or dates", e
            )  # fmt: skip
        return Bound(sign * value.value)

    def _interval(self, e: exp.Window, given: exp.Interval, sign: int) -> Interval:
        unit = (given.args["unit"].name if given.args.get("unit") else "").upper().rstrip("S")
        try:
            n = int(given.this.name)
        except ValueError:
            unit = ""
        if unit not in UNITS:
            raise self.reader.refuse(
                "INTERVAL",
                f"`{given.sql(dialect='spark')}` is not a whole number of one unit",
                e,
                "write INTERVAL 7 DAYS",
            )
        part, factor = UNITS[unit]
        return Interval(**{part: sign * n * factor})

    # --- building --------------------------------------------------------------------------------------------------

    def collect(self, rows: Callable[[Term], Term], body: Term) -> Term:
        """The comprehension with a body that reads windows, over rows that `rows` collects."""
        if not self.values:
            return rows(body)
        columns: dict[Term, str] = {}
        for t in (body, *(t for s in self.stages for t in self._reads(s))):
            for c in _columns(t, set(self.values)):
                columns.setdefault(c, f"c{len(columns)}")
        for argument in (t for s in self.stages for _, terms in s.windows for t in terms):
            columns.setdefault(argument, f"c{len(columns)}")  # a constant is a column, too
        row = Record(tuple((n, t) for t, n in columns.items()))
        bag = rows(Sng(row, ONE))
        for number, stage in enumerate(self.stages):
            bag = self._staged(bag, stage, columns, number)
        p = Var(self.reader.fresh("p"), type_of(bag).key)
        by: dict[Term, Term] = {t: Field(p, n) for t, n in columns.items() if variables(t)}
        by |= {v: Field(p, f"w{i}_{j}") for v, (i, j) in self.values.items()}
        return For(p, bag, replaced(body, by))

    def _reads(self, stage: Stage) -> list[Term]:
        return [*stage.partition, *stage.order, *(t for _, terms in stage.windows for t in terms)]

    def _staged(self, bag: Term, stage: Stage, columns: dict[Term, str], number: int) -> Term:
        r = Var(self.reader.fresh("r"), type_of(bag).key)
        assert isinstance(r.type, RecordType)
        names = tuple(n for n, _ in r.type.fields)
        whole = Record(tuple((n, Field(r, n)) for n in names))
        by: dict[Term, Term] = {t: Field(r, n) for t, n in columns.items() if variables(t)}
        order = Record(tuple((f"o{i + 1}", replaced(t, by)) for i, t in enumerate(stage.order)))
        key = Record(tuple((f"g{i + 1}", replaced(t, by)) for i, t in enumerate(stage.partition)))
        groups = For(r, bag, Sng(key, Sng(Record((("order", order), ("row", whole))), ONE)))
        k = Var(self.reader.fresh("k"), type_of(groups).key)
        v = Var(self.reader.fresh("v"), type_of(groups).value)
        windows = []
        for w, terms in stage.windows:
            given = {f"a{i}": columns[t] for i, t in enumerate(terms)}
            if w.default is not None:
                given["d"] = columns[terms[-1]]
            windows.append(w.over(given))
        answer = Answer("window", (stage.directions, tuple(windows), names, None), v)
        x = Var(self.reader.fresh("x"), type_of(answer).key)
        out = [(n, Field(Field(x, "row"), n)) for n in names]
        out += [(f"w{number}_{j}", Field(Field(x, "w"), f"w{j}")) for j in range(len(windows))]
        return Each(k, v, groups, For(x, answer, Sng(Record(tuple(out)), ONE)))


def _steps(t: Any) -> bool:
    """Whether a RANGE frame can be told by numbers in a type."""
    return isinstance(t, Base) and t.name not in ("string", "boolean", "binary")


def _columns(term: Term, windows: set[Var]) -> list[Term]:
    """The largest scalars of a term that read rows and no window."""
    reads = variables(term)
    if is_key(type_of(term)) and not isinstance(term, (Const, Record)):
        if reads and not reads & windows:
            return [term]
        if isinstance(term, Var):
            return []
    return [c for x in children(term) for c in _columns(x, windows)]
