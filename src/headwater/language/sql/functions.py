"""Which scalar function of the calculus a node of sqlglot's syntax tree is, and its arguments in order."""

from __future__ import annotations

from sqlglot import exp

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
}
FUNCTIONS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Upper: ("upper", "this"),
    exp.Lower: ("lower", "this"),
    exp.Length: ("length", "this"),
    exp.Replace: ("replace", "this", "expression", "replacement"),
    exp.StartsWith: ("startswith", "this", "expression"),
    exp.EndsWith: ("endswith", "this", "expression"),
    exp.Contains: ("contains", "this", "expression"),
    exp.Reverse: ("reverse", "this"),
    exp.Left: ("left", "this", "expression"),
    exp.Right: ("right", "this", "expression"),
    exp.Repeat: ("repeat", "this", "times"),
    exp.Abs: ("abs", "this"),
    exp.Sign: ("sign", "this"),
    exp.Sqrt: ("sqrt", "this"),
    exp.Pow: ("power", "this", "expression"),
    exp.Exp: ("exp", "this"),
    exp.Ln: ("ln", "this"),
    exp.Hex: ("hex", "this"),
    exp.Floor: ("floor", "this"),
    exp.Ceil: ("ceil", "this"),
    exp.Year: ("year", "this"),
    exp.Quarter: ("quarter", "this"),
    exp.Month: ("month", "this"),
    exp.Day: ("day", "this"),
    exp.DayOfMonth: ("day", "this"),
    exp.DayOfWeek: ("dayofweek", "this"),
    exp.DayOfYear: ("dayofyear", "this"),
    exp.WeekOfYear: ("weekofyear", "this"),
    exp.Hour: ("hour", "this"),
    exp.Minute: ("minute", "this"),
    exp.Second: ("second", "this"),
    exp.AddMonths: ("add_months", "this", "expression"),
    exp.LastDay: ("last_day", "this"),
    exp.UnixDate: ("unix_date", "this"),
    exp.UnixSeconds: ("unix_seconds", "this"),
    exp.UnixMillis: ("unix_millis", "this"),
    exp.UnixMicros: ("unix_micros", "this"),
    exp.NextDay: ("next_day", "this", "expression"),
    exp.SubstringIndex: ("substring_index", "this", "delimiter", "count"),
    exp.Translate: ("translate", "this", "from_", "to"),
    exp.SplitPart: ("split_part", "this", "delimiter", "part_index"),
    exp.MD5: ("md5", "this"),
    exp.SHA: ("sha1", "this"),
    exp.Rint: ("rint", "this"),
    exp.IsNan: ("isnan", "this"),
    exp.Nanvl: ("nanvl", "this", "expression"),
}
NON_DETERMINISTIC = {
    *("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "sample"),
    *("monotonically_increasing_id", "spark_partition_id"),
}
TIME_OF_DAY = {
    *("now", "current_timestamp", "current_date", "current_time", "curdate", "localtimestamp"),
    *("localtime", "getdate"),
}
SESSION = {
    *("current_user", "session_user", "user", "current_catalog", "current_database", "version"),
    *("current_schema", "current_timezone", "current_path", "input_file_name"),
    *("input_file_block_start", "input_file_block_length"),
}
RUNS_CODE = {"java_method", "reflect", "try_reflect", "from_protobuf", "to_protobuf", "read_files"}
"""Functions that call into Java by name, or open files."""
SIDE_EFFECT = {"raise_error", "assert_true"} | RUNS_CODE
WINDOWS_OF_TIME = {"window", "session_window", "window_time"}
WITHOUT_BRACKETS = TIME_OF_DAY | {"current_user", "session_user"}
NOW_WITHOUT_ARGUMENTS = {"unix_timestamp", "to_unix_timestamp"}


def refused_function(name: str, called: bool, empty: bool) -> tuple[str, str, str] | None:
    """Why a function of Spark is never maintained: a reason, what it does, and what to do instead.

    `called` says that brackets follow the name, `empty` that nothing is in them.
    """
    if not called and name not in WITHOUT_BRACKETS:
        return None
    if name in NON_DETERMINISTIC:
        return (
            "NON_DETERMINISTIC",
            "gives another value at each evaluation",
            "compute it once, in the source",
        )
    if name in TIME_OF_DAY or (empty and name in NOW_WITHOUT_ARGUMENTS):
        return (
            "TIME_OF_DAY",
            "changes without any input changing",
            "keep the time in a source of one row, and join with it",
        )
    if name in SESSION:
        return (
            "SESSION",
            "depends on the session that evaluates it, not on the inputs",
            "keep the value in a source, and join with it",
        )
    if name in SIDE_EFFECT:
        return (
            "SIDE_EFFECT",
            "is called for what it does, and how often it is evaluated is not fixed",
            "keep a view of the rows that should not be there, and look at that",
        )
    if name in WINDOWS_OF_TIME:
        return (
            "TIME_WINDOW",
            "makes rows of its own, and stands in GROUP BY or in the SELECT list only",
            "group by it, and write window.start or window.end here",
        )
    return None
