"""Which arguments of which node of sqlglot's tree are read: whatever else is set is refused by name.

sqlglot parses the clauses of many dialects, and a clause that nobody reads would mean nothing in silence. So every
class that the reader handles is here, with each argument that sqlglot gives it in one of three lists: `read`, those
that have a meaning here; `marks`, those that sqlglot sets by itself or that mean nothing to a bag of rows; and
`others`. One walk before reading refuses clauses, aggregates and window functions of which one of the others is set,
and classes that are in no list; a scalar of which one is set is left to Spark as it is written (`unread`). A test
compares the lists with sqlglot's `arg_types`: an argument that a new version brings has to be decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from headwater.errors import NotIncremental
from headwater.language.sql.functions import ARITHMETIC, COMPARISONS, FUNCTIONS
from headwater.language.sql.recursive_grammar import is_declared

if TYPE_CHECKING:
    from headwater.language.sql.reader import Reader


@dataclass(frozen=True)
class Args:
    """The arguments of one class."""

    read: frozenset[str]
    marks: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()


def _args(read: str, marks: str = "", others: str = "") -> Args:
    return Args(*(frozenset(words.split()) for words in (read, marks, others)))


_TABLES = "laterals joins pivots sample"
"""What stands after a table, and after a query where it is one."""
_FOREIGN = "match connect prewhere locks settings format options for_"
_SETS = _args(
    "this expression distinct with_ order limit offset",
    "",
    f"{_FOREIGN} {_TABLES} by_name side kind on where group having qualify windows distribute sort cluster",
)

CLAUSES: dict[type[exp.Expr], Args] = {
    exp.Select: _args(
        "expressions from_ joins laterals where group having qualify windows distinct order limit offset with_ "
        "sort distribute cluster",
        "hint",
        f"{_FOREIGN} kind into operation_modifiers exclude pivots sample",
    ),
    exp.Subquery: _args(
        "this alias joins pivots sample with_ order limit offset",
        "",
        f"{_FOREIGN} laterals where group having qualify windows distribute sort cluster",
    ),
    exp.Union: _SETS,
    exp.Intersect: _SETS,
    exp.Except: _SETS,
    exp.Values: _args("expressions alias pivots order limit offset"),
    exp.Table: _args(
        "this alias db catalog joins pivots sample",
        "",
        "laterals hints system_time version format pattern ordinality when only partition changes rows_from indexed",
    ),
    exp.TableAlias: _args("this columns"),
    exp.TableSample: _args(  # refused where a table has one
        "expressions method bucket_numerator bucket_denominator bucket_field percent rows size seed"
    ),
    exp.From: _args("this"),
    exp.Join: _args(
        "this side kind on using method pivots",
        "",
        "global_ hint match_condition nearest directed expressions",
    ),
    exp.Lateral: _args("this view outer alias", "", "cross_apply ordinality"),
    exp.Where: _args("this"),
    exp.Having: _args("this"),
    exp.Qualify: _args("this"),
    exp.Group: _args("expressions all cube rollup grouping_sets", "", "totals"),
    exp.Cube: _args("expressions"),
    exp.Rollup: _args("expressions"),
    exp.GroupingSets: _args("expressions"),
    exp.Order: _args("this expressions", "", "siblings"),
    exp.Sort: _args("this expressions", "", "siblings"),
    exp.Distribute: _args("this expressions", "", "siblings"),
    exp.Cluster: _args("expressions"),
    exp.Ordered: _args("this desc nulls_first", "", "with_fill"),
    exp.Limit: _args("expression", "", "this offset limit_options expressions"),
    exp.Offset: _args("expression", "", "this expressions"),
    exp.With: _args("expressions recursive", "", "search cycle udfs"),
    exp.CTE: _args("this alias", "", "scalar materialized key_expressions"),
    exp.Window: _args("this partition_by order spec alias", "over", "first"),
    exp.WindowSpec: _args("kind start start_side end end_side", "", "exclude"),
    exp.Filter: _args("this expression"),
    exp.WithinGroup: _args("this expression"),
    exp.IgnoreNulls: _args("this"),
    exp.RespectNulls: _args("this"),
    exp.Distinct: _args("expressions on"),  # DISTINCT ON has a refusal of its own
    exp.Star: _args("except_", "", "replace rename ilike"),
    exp.Pivot: _args(
        "expressions fields unpivot include_nulls alias",
        "columns pivot_column_naming",
        "this using group default_on_null into with_ identify_pivot_strings prefixed_pivot_columns "
        "value_columns_first",
    ),
    exp.PivotAlias: _args("this alias"),
    exp.Alias: _args("this alias"),
    exp.Aliases: _args("this expressions"),
    exp.Tuple: _args("expressions"),
    exp.Identifier: _args("this quoted", "", "global_ temporary"),
    exp.DataType: _args("this expressions nested", "", "values kind nullable collate"),
    exp.DataTypeParam: _args("this", "", "expression"),
    exp.Var: _args("this"),
}
"""The clauses of a query."""

_OF_TWO = (
    *(exp.CovarPop, exp.CovarSamp, exp.RegrCount, exp.RegrAvgx, exp.RegrAvgy, exp.RegrSxx),
    *(exp.RegrSyy, exp.RegrSxy, exp.RegrSlope, exp.RegrIntercept, exp.RegrR2),
)
_OF_ONE = (
    *(exp.Sum, exp.Avg, exp.ArrayUniqueAgg, exp.LogicalAnd, exp.LogicalOr, exp.Any, exp.Median),
    *(exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop, exp.Skewness),
    *(exp.Kurtosis, exp.FirstValue, exp.LastValue, exp.Ntile, exp.RowNumber, exp.Inline),
)
_OF_NONE = (
    *(exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Grouping, exp.GroupingId),
)

AGGREGATES: dict[type[exp.Expr], Args] = {
    **{kind: _args("this expression") for kind in _OF_TWO},
    **{kind: _args("this") for kind in _OF_ONE},
    **{kind: _args("expressions") for kind in _OF_NONE},
    exp.Count: _args("this expressions", "big_int"),
    exp.Min: _args("this expressions", "", "count"),
    exp.Max: _args("this expressions", "", "count"),
    exp.ArrayAgg: _args("this", "nulls_excluded"),
    exp.CountIf: _args("this", "", "zero_on_all_null"),
    exp.Corr: _args("this expression", "", "null_on_zero_variance"),
    exp.First: _args("this", "", "expression"),
    exp.Last: _args("this", "", "expression"),
    exp.NthValue: _args("this offset", "", "from_first"),
    exp.Lag: _args("this offset default"),
    exp.Lead: _args("this offset default"),
    exp.Quantile: _args("this quantile"),
    exp.PercentileCont: _args("this", "", "expression"),
    exp.PercentileDisc: _args("this", "", "expression"),
    exp.Mode: _args("this", "", "deterministic"),
    exp.ArgMax: _args("this expression count"),  # with a count it has a refusal of its own
    exp.ArgMin: _args("this expression count"),
    exp.GroupConcat: _args("this separator", "", "on_overflow"),
    exp.Explode: _args("this", "", "expressions"),
    exp.ExplodeOuter: _args("this"),
    exp.Posexplode: _args("this", "", "expressions"),
    exp.PosexplodeOuter: _args("this", "", "expressions"),
}
"""Aggregates, window functions and generators, which Spark cannot be asked for as scalars."""

_UNREAD: dict[type[exp.Expr], str] = {
    exp.AddMonths: "preserve_end_of_month",
    exp.Ceil: "decimals to",
    exp.Contains: "json_scope",
    exp.Floor: "decimals to",
    exp.Hex: "case",
    exp.LastDay: "unit",
    exp.Left: "negative_length_returns_empty",
    exp.Length: "binary encoding",
    exp.Right: "negative_length_returns_empty",
    exp.SplitPart: "part_index_zero_as_one empty_delimiter_returns_whole",
}
_CAST = "format action default"

SCALARS: dict[type[exp.Expr], Args] = {
    **{kind: _args("this expression") for kind in (*COMPARISONS, *ARITHMETIC)},
    **{k: _args(" ".join(f[1:]), "", _UNREAD.get(k, "")) for k, f in FUNCTIONS.items()},
    exp.Div: _args("this expression", "typed safe"),
    exp.NullSafeNEQ: _args("this expression"),
    exp.And: _args("this expression"),
    exp.Or: _args("this expression"),
    exp.Not: _args("this"),
    exp.Neg: _args("this"),
    exp.Paren: _args("this"),
    exp.Is: _args("this expression negate"),
    exp.Like: _args("this expression negate"),
    exp.ILike: _args("this expression negate"),
    exp.Escape: _args("this expression"),
    exp.Between: _args("this low high", "", "symmetric"),
    exp.In: _args("this expressions query", "", "unnest field is_global"),
    exp.Exists: _args("this expression"),
    exp.Case: _args("this ifs default"),
    exp.If: _args("this true false"),
    exp.Coalesce: _args("this expressions", "is_nvl is_null"),
    exp.Nvl2: _args("this true false"),
    exp.Nullif: _args("this expression"),
    exp.Greatest: _args("this expressions", "ignore_nulls"),
    exp.Least: _args("this expressions", "ignore_nulls"),
    exp.Cast: _args("this to", "", f"{_CAST} safe"),
    exp.TryCast: _args(
        "this to safe",
        "",
        f"{_CAST} requires_string null_on_text_overflow probe_date_format",
    ),
    exp.TsOrDsToDate: _args("this format", "safe", "default_date"),
    exp.TimeToStr: _args("this format", "", "culture zone"),
    exp.TimeStrToTime: _args("this", "", "zone"),
    exp.UnixToStr: _args("this format"),
    exp.StrToTime: _args("this format", "", "zone safe target_type default_year nlsparam"),
    exp.Log: _args("this expression"),
    exp.Initcap: _args("this", "expression"),
    exp.RegexpSplit: _args("this expression limit", "", "mode"),
    exp.Bracket: _args("this expressions offset safe", "", "returns_list_for_maps json_access"),
    exp.JSONExtractScalar: _args(
        "this expression", "", "only_json_types expressions json_type scalar_only json_subtype"
    ),
    exp.TimestampTrunc: _args("this unit", "", "zone input_type_preserved"),
    exp.ConcatWs: _args("expressions", "safe coalesce flatten"),
    exp.StrToUnix: _args("this", "format"),
    exp.Pad: _args("this expression fill_pattern is_left"),
    exp.StrPosition: _args("this substr position", "", "occurrence clamp_position"),
    exp.RegexpLike: _args("this expression", "", "flag full_match"),
    exp.RegexpExtract: _args(
        "this expression group",
        "null_if_pos_overflow",
        "position occurrence parameters null_if_no_match empty_if_group_missing",
    ),
    exp.RegexpReplace: _args(
        "this expression replacement", "", "position occurrence modifiers single_replace"
    ),
    exp.SHA2: _args("this length"),
    exp.TsOrDsAdd: _args("this expression unit", "", "return_type"),
    exp.DateDiff: _args("this expression", "", "unit zone big_int date_part_boundary"),
    exp.DateTrunc: _args("this unit", "", "zone input_type_preserved"),
    exp.Extract: _args("this expression"),
    exp.Substring: _args("this start length", "", "zero_start"),
    exp.Trim: _args("this position expression", "", "collation"),
    exp.Concat: _args("expressions", "safe", "coalesce"),
    exp.DPipe: _args("this expression", "safe"),
    exp.Round: _args("this decimals", "", "truncate casts_non_integer_decimals"),
    exp.ArraySize: _args("this", "", "expression"),
    exp.Struct: _args("expressions"),
    exp.PropertyEQ: _args("this expression"),
    exp.Dot: _args("this expression"),
    exp.Column: _args("this table db catalog", "", "join_mark shadow"),
    exp.Literal: _args("this is_string"),
    exp.Boolean: _args("this"),
    exp.Null: _args(""),
    exp.Anonymous: _args("this expressions"),
}
"""Scalars that the calculus has itself; of which something else is set, Spark has them as they are written."""

READ = {**CLAUSES, **AGGREGATES, **SCALARS}

VALUES: dict[tuple[type[exp.Expr], str], set[Any]] = {
    (exp.Join, "side"): {"LEFT", "RIGHT", "FULL"},
    (exp.Join, "kind"): {"INNER", "OUTER", "CROSS", "SEMI", "ANTI"},
    (exp.Join, "method"): {"NATURAL"},
    (exp.WindowSpec, "kind"): {"ROWS", "RANGE"},
    (exp.Group, "all"): {True},
    (exp.TsOrDsAdd, "unit"): {"DAY"},
}
"""Arguments that are read for some of their values only."""

SAID = {(exp.Group, "all"), (exp.CTE, "materialized"), (exp.Lateral, "cross_apply")}
"""Arguments that a clause sets to False: GROUP BY DISTINCT, NOT MATERIALIZED, OUTER APPLY."""

IN_TEXT = (
    *(exp.Condition, exp.Lambda, exp.Interval, exp.IntervalSpan, exp.JSONPath, exp.JSONPathPart),
    *(exp.ColumnDef, exp.DataType, exp.Slice, exp.Hint),
    *(exp.AtTimeZone, exp.FromTimeZone),
)
"""Classes that stand in expressions, which Spark reads as they are written where they are not read here."""

_BAGS = "a view has the answer of Spark, which has no such clause"
_WRITE: dict[tuple[str, str], tuple[str, str]] = {
    ("Table", "version"): ("AS OF", "a view is of its inputs as they are; read old versions of it"),
    ("Limit", "limit_options"): ("", "LIMIT n takes n rows; rank the rows with rank() <= n"),
    ("Limit", "expressions"): ("BY", "rank the rows: QUALIFY row_number() OVER (...) <= n"),
    ("Fetch", ""): ("FETCH", "write LIMIT n"),
    ("Union", "by_name"): ("BY NAME", "name the columns of both sides in one order"),
    ("Intersect", "by_name"): ("BY NAME", "name the columns of both sides in one order"),
    ("Except", "by_name"): ("BY NAME", "name the columns of both sides in one order"),
    ("Join", "method"): ("", "join on the condition, and keep the first with QUALIFY"),
    ("Join", "kind"): ("", "use one of Spark's joins"),
    ("WindowSpec", "exclude"): ("EXCLUDE", "subtract what the row itself adds"),
    ("WindowSpec", "kind"): ("GROUPS", "use ROWS or RANGE"),
    ("Group", "totals"): ("WITH TOTALS", "use ROLLUP"),
    ("Group", "all"): ("DISTINCT", "leave DISTINCT out"),
    ("Select", "connect"): ("CONNECT BY", "a view has a fixed number of joins"),
    ("Select", "into"): ("INTO", "a view has a name of its own"),
    ("Select", "locks"): ("FOR", "leave it out: readers see one version"),
    ("Star", "replace"): ("REPLACE", "write * EXCEPT (...), and the new columns"),
    ("Star", "rename"): ("RENAME", "write * EXCEPT (...), and the new columns"),
    ("CTE", "materialized"): ("MATERIALIZED", "leave it out"),
    ("Lateral", "cross_apply"): ("APPLY", "write a LATERAL subquery"),
    ("DataType", "collate"): ("COLLATE", "texts are compared by their bytes"),
    ("Identifier", ""): ("", "names stand in backticks"),
    ("Window", ""): ("WINDOW", "a named window is not made of another one in Spark"),
    ("Parameter", ""): ("@", "a view is of its inputs as they are; read old versions of it"),
}
"""The word of the text to underline, and what to write instead, by the names of the class and the argument."""


def unread(e: exp.Expr) -> str | None:
    """The first argument of a node that is set and that nobody reads."""
    known = READ.get(type(e))
    if known is None:
        return None
    for name, value in e.args.items():
        if value in (None, False, []):
            if value is False and (type(e), name) in SAID:
                return name
        elif name not in known.read and name not in known.marks:
            return name
        elif (allowed := VALUES.get((type(e), name))) is not None:
            text = value.name if isinstance(value, exp.Expr) else value
            if (text.upper() if isinstance(text, str) else text) not in allowed:
                return name
    return None


def refuse_unread(reader: Reader, tree: exp.Expr) -> None:
    """Raises for the first clause of a query that nobody reads."""
    for node in tree.walk(prune=lambda n: isinstance(n, exp.Hint)):
        kind = type(node)
        in_name = isinstance(node.parent, exp.TableAlias) and not isinstance(node, exp.Identifier)
        in_name = in_name and not is_declared(node)
        if in_name or not (kind in READ or isinstance(node, IN_TEXT)):
            raise _refused(reader, node, "")
        quoted = isinstance(node, exp.Identifier) and reader.word(node)[:1] in ("'", '"')
        if quoted or (isinstance(node, exp.Window) and node.arg_key == "windows" and node.alias):
            raise _refused(reader, node, "")
        if kind in SCALARS:
            continue
        name = unread(node)
        if name is None and isinstance(node, exp.Subquery) and _alone(node):
            name = next((a for a in ("joins", "pivots", "sample") if node.args.get(a)), None)
        if name is not None:
            raise _refused(reader, node, name)


def _alone(node: exp.Subquery) -> bool:
    """Whether a query in brackets stands where no table does."""
    return not isinstance(node.parent, (exp.From, exp.Join, exp.Subquery, exp.Table, exp.Lateral))


def _refused(reader: Reader, node: exp.Expr, name: str) -> NotIncremental:
    """The refusal of an argument, or of a whole node; its word in the text is underlined where it is found."""
    word, hint = _WRITE.get((type(node).__name__, name), ("", _BAGS))
    value = node.args.get(name)
    first = value[0] if isinstance(value, list) and value else value
    shown = word or _shown(first) or (name or node.key).strip("_").replace("_", " ").upper()
    what = f"{shown} is not maintained"
    if isinstance(node, exp.Func):
        what = f"`{node.sql(dialect='spark')}` has an argument that is not read"
    if isinstance(node, (exp.ColumnDef, exp.ColumnConstraint)):
        shown, what = "", "the head of a query says more of a column than it may"
        hint = (
            "write names of columns; in WITH MUTUALLY RECURSIVE also their types, and nothing more"
        )
    if isinstance(node, exp.Identifier):
        what = f"{reader.word(node)} is a text, and stands for a name"
    span = reader.find(shown, node) if shown else None
    if span is None:
        return reader.refuse(
            "UNSUPPORTED_CLAUSE", what, first if isinstance(first, exp.Expr) else node, hint
        )
    return NotIncremental("UNSUPPORTED_CLAUSE", what, text=reader.text, span=span, hint=hint)


def _shown(value: Any) -> str:
    """The words of an argument that is written in words."""
    if isinstance(value, str):
        return value.upper()
    if isinstance(value, exp.LimitOptions):
        words = {"with_ties": "WITH TIES", "percent": "PERCENT", "rows": "ROWS"}
        return next((w for a, w in words.items() if value.args.get(a)), "")
    if isinstance(value, exp.RecursiveWithSearch):
        return "CYCLE" if value.args["kind"] == "CYCLE" else "SEARCH"
    return ""
