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
    exp.StrPosition: ("instr", "this", "substr"),
    exp.Reverse: ("reverse", "this"),
    exp.Left: ("left", "this", "expression"),
    exp.Right: ("right", "this", "expression"),
    exp.Repeat: ("repeat", "this", "times"),
    exp.Abs: ("abs", "this"),
    exp.Sign: ("sign", "this"),
    exp.Sqrt: ("sqrt", "this"),
    exp.Pow: ("power", "this", "expression"),
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
    exp.DateTrunc: ("trunc", "this", "unit"),
}
NON_DETERMINISTIC = {"rand", "randn", "random", "uuid", "shuffle", "monotonically_increasing_id"}
TIME_OF_DAY = {"now", "current_timestamp", "current_date", "curdate", "localtimestamp"}
