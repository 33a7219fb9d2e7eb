"""Scalar terms as data that an engine runs: Spark SQL text, and a tree where Arrow means the same.

`scalar(term, columns)` writes a key term over the columns of a table. Spark's own coercion is never
relied on: operands are cast to the types that the calculus computes with, so the text has the type
`type_of(term)` and the calculus' meaning, whatever stands around it. A number of a ring is written as
the key it is when boxed. The tree is nested lists, `[name, type, argument, ...]`, plain JSON; it is
None where Arrow would mean something else than Spark, and `engine/here/arrow.py` evaluates it.

    SQL      what each function is in Spark SQL, and the types that its operands are cast to
    TREES    where a function has a tree (`trees.py`): a condition on the types and trees of its operands
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, cast

from headwater.calculus import types as ty
from headwater.calculus.check import type_of
from headwater.calculus.notation.parse import parse_type
from headwater.calculus.scalars import AS_BAG, SCALARS, SPARK_TEXT, as_decimal, common_type
from headwater.calculus.terms import (
    Add,
    Box,
    Call,
    Const,
    Field,
    For,
    Neg,
    Not,
    Num,
    Pred,
    Record,
    Sum,
    Term,
    Times,
    Unbox,
    Var,
    Zero,
)
from headwater.calculus.types import Base, KeyType, RecordType, Type
from headwater.errors import NotIncremental
from headwater.interop.spark_text import column_name, literal, spark_type, text, tree_value
from headwater.plan.trees import (
    TREES,
    Tree,
    Types,
    cast_tree,
    integral,
    is_a,
    like_tree,
    try_cast_tree,
)

__all__ = ["SQL", "TREES", "Scalar", "from_json", "literal", "scalar", "spark_type", "to_json"]


@dataclass(frozen=True)
class Scalar:
    """A scalar expression over the columns of a table: Spark SQL text, and a tree where Arrow means the same."""

    sql: str
    type: KeyType
    reads: tuple[str, ...]
    tree: Tree = None


def scalar(term: Term, columns: Mapping[Term, str]) -> Scalar:
    """A scalar term over a table, where `columns` says which sub-terms are columns of it."""
    writer = _Writer(columns)
    part = writer.write(term)
    return Scalar(part.sql, part.type, tuple(writer.reads), part.tree)


def to_json(s: Scalar) -> dict[str, Any]:
    """A scalar as JSON data."""
    return {"sql": s.sql, "type": str(s.type), "reads": list(s.reads), "tree": s.tree}


def from_json(d: Mapping[str, Any]) -> Scalar:
    """The scalar that `to_json` wrote."""
    return Scalar(d["sql"], _parsed(d["type"]), tuple(d["reads"]), d["tree"])


@lru_cache(maxsize=1024)  # the scalars of a program have few types
def _parsed(text: str) -> KeyType:
    t: Any = parse_type(text)
    return cast(KeyType, t)


# --- what operands are cast to ------------------------------------------------------------------------

Operands = Callable[[Types, KeyType], Types]


def _own(types: Types, _: KeyType) -> Types:
    return types


def _result(types: Types, r: KeyType) -> Types:
    return (r,) * len(types)


def _takes(*wanted: KeyType) -> Operands:
    """The given types, the last one for all that follow."""
    return lambda types, _: (wanted + wanted[-1:] * len(types))[: len(types)]


def _common(types: Types, _: KeyType) -> Types:
    """The common type of both; decimals stay as they are where it has not room for all their digits."""
    common = common_type(types[0], types[1])
    assert common is not None
    if isinstance(common, Base) and common.name == "decimal":
        sizes = [as_decimal(t) for t in types if isinstance(t, Base) and t != ty.VOID]
        if max(p - s for p, s in sizes) + max(s for _, s in sizes) > 38:
            return types
    return (common, common)


def _numbers(types: Types, r: KeyType) -> Types:
    """Operands in the arithmetic of the result: decimals with their own digits, else all the same."""
    if isinstance(r, Base) and r.name == "decimal":
        return tuple(ty.decimal(*as_decimal(t)) for t in types if isinstance(t, Base))
    return (r,) * len(types)


def _whole(types: Types, _: KeyType) -> Types:
    t = types[0]
    return types if is_a(t, "decimal", "double") else (ty.BIGINT if integral(t) else ty.DOUBLE,)


def _local(types: Types, _: KeyType) -> Types:
    """A time of day is that of an instant, which a date has as well: the first of its day."""
    return (ty.TIMESTAMP,) if types[0] == ty.DATE else types


# --- the functions in Spark SQL --------------------------------------------------------------------------

Writing = Callable[..., str]


def _infix(op: str, before: str = "") -> Writing:
    return lambda _, *a: f"{before}({f' {op} '.join(a)})"


def _form(form: str) -> Writing:
    return lambda _, *a: form.format(*a)


def _case(_: KeyType, *args: str) -> str:
    whens = (f"WHEN {c} THEN {v}" for c, v in zip(args[:-1:2], args[1::2], strict=True))
    return f"(CASE {' '.join(whens)} ELSE {args[-1]} END)"


def _py_mod(r: KeyType, a: str, b: str) -> str:
    """Python's remainder has the divisor's sign; that of its decimals has the dividend's."""
    rest = f"({a} % {b})"
    if is_a(r, "decimal"):
        return rest
    return f"(CASE WHEN {_opposed(rest, b)} THEN CAST({rest} + {b} AS {spark_type(r)}) ELSE {rest} END)"


def _py_floordiv(r: KeyType, a: str, b: str) -> str:
    """Python divides down; its decimals divide towards zero."""
    rest = f"({a} % {b})"
    exact = f"(({a} - {rest}) / {b})"
    if is_a(r, "decimal"):
        return f"CAST({exact} AS {spark_type(r)})"
    whole = f"({a} div {b})" if integral(r) else f"rint{exact}"
    return f"CAST({whole} - (CASE WHEN {_opposed(rest, b)} THEN 1 ELSE 0 END) AS {spark_type(r)})"


def _among(_: KeyType, value: str, values: str) -> str:
    """Spark looks IN up in a table, in which 0.0 and -0.0 differ; doubles are compared one by one."""
    if values.endswith((" AS double))", " AS float))")):
        return f"array_contains({values}, {value})"
    return f"({value} IN {values.removeprefix('array')})"


def _opposed(rest: str, divisor: str) -> str:
    return f"{rest} <> 0 AND ({rest} < 0) <> ({divisor} < 0)"


def _micros(t: KeyType, time: str) -> str:
    """The microseconds of a time since 1970; those of a local time are counted as if it were in UTC."""
    if t == ty.TIMESTAMP_NTZ:
        time = f"CAST(concat(CAST({time} AS STRING), 'Z') AS TIMESTAMP)"
    return f"unix_micros({time})"


def _time(t: KeyType, micros: str) -> str:
    """The time of a number of microseconds. Intervals would do for instants as well, but their days have 23 hours at times."""
    if t == ty.TIMESTAMP:
        return f"timestamp_micros({micros})"
    return f"(TIMESTAMP_NTZ '1970-01-01 00:00:00' + INTERVAL '0.000001' SECOND * ({micros}))"


def _window_start(r: KeyType, time: str, width: str, offset: str) -> str:
    n = _micros(r, time)
    return _time(r, f"{n} - pmod({n} - {offset}, {width})")


def _window_starts(r: KeyType, time: str, width: str, slide: str, offset: str) -> str:
    assert isinstance(r, ty.Boxed) and isinstance(r.content, ty.MapType)
    t = r.content.key
    n = _micros(t, time)
    last = f"{n} - pmod({n} - {offset}, {slide})"
    first = f"{n} - {width} - pmod({n} - {width} - {offset}, {slide}) + {slide}"
    return f"transform(sequence({first}, {last}, {slide}), start_ -> {_time(t, 'start_')})"


def _add_micros(r: KeyType, time: str, n: str) -> str:
    return _time(r, f"{_micros(r, time)} + {n}")


def _of_time(types: Types, _: KeyType) -> Types:
    return (types[0], *(ty.BIGINT for _ in types[1:]))


_SPACES = "".join(c for c in map(chr, range(0x3001)) if c.isspace())
"""What str.strip takes away."""

_PRESENT = "coalesce({}, raise_error('min(), max() or mode() of an empty collection'))"

_CALLED: tuple[tuple[Operands, str], ...] = (
    (_own, "abs"),
    (_result, "greatest least coalesce"),
    (_whole, "floor ceil"),
    (_takes(ty.DOUBLE), "sign sqrt power rint isnan nanvl exp ln log log2 log10"),
    (_takes(ty.STRING), "concat_ws translate md5 sha1 rlike regexp_replace initcap"),
    (_takes(ty.STRING), "get_json_object to_timestamp"),
    (_own, "hex get element_at try_element_at"),
    (_takes(ty.TIMESTAMP, ty.STRING), "date_format"),
    (_takes(ty.BIGINT, ty.STRING), "from_unixtime"),
    (_takes(ty.STRING, ty.INTEGER, ty.STRING), "lpad rpad"),
    (
        _takes(ty.STRING, ty.STRING, ty.INTEGER),
        "locate substring_index split_part regexp_extract split",
    ),
    (_takes(ty.DATE), "weekday unix_date"),
    (_takes(ty.DATE, ty.STRING), "next_day"),
    (_takes(ty.STRING, ty.TIMESTAMP), "date_trunc"),
    (_takes(ty.TIMESTAMP), "unix_seconds unix_timestamp unix_millis unix_micros"),
    (_takes(ty.BIGINT), "timestamp_seconds timestamp_millis timestamp_micros"),
    (_takes(ty.STRING), "upper lower length trim ltrim rtrim concat replace reverse"),
    (_takes(ty.STRING), "startswith endswith contains instr"),
    (_takes(ty.STRING, ty.INTEGER), "left right repeat substring"),
    (_takes(ty.DATE), "year quarter month day dayofweek dayofyear weekofyear last_day datediff"),
    (_takes(ty.DATE, ty.INTEGER), "date_add date_sub add_months"),
    (_takes(ty.DATE, ty.STRING), "trunc"),
    (_local, "hour minute second"),
    (lambda types, _: (types[0], ty.INTEGER)[: len(types)], "round"),
)
"""Functions that have their name in Spark too."""

SQL: dict[str, tuple[Operands, Writing]] = {
    **{name: (takes, _infix(",", name)) for takes, names in _CALLED for name in names.split()},
    **{op: (_numbers, _infix(op)) for op in ("+", "-", "*", "%")},
    **{op: (_common, _infix(op)) for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")},
    "/": (_takes(ty.DOUBLE), _infix("/")),
    "div": (_takes(ty.BIGINT), _infix("div")),
    "item": (_own, _form("({})[{}]")),
    "as_timestamp": (_takes(ty.BIGINT), _form("CAST({} AS TIMESTAMP)")),
    "trim_both": (_takes(ty.STRING), _form("trim(BOTH {1} FROM {0})")),
    "trim_leading": (_takes(ty.STRING), _form("trim(LEADING {1} FROM {0})")),
    "trim_trailing": (_takes(ty.STRING), _form("trim(TRAILING {1} FROM {0})")),
    "sha256": (_takes(ty.STRING), _form("sha2({}, 256)")),
    "pmod": (_numbers, _infix(",", "pmod")),
    "yearofweek": (_takes(ty.DATE), _form("extract(YEAROFWEEK FROM {})")),
    "second_part": (_local, _form("extract(SECOND FROM {})")),
    "negate": (_own, _form("(-({}))")),
    "and": (_takes(ty.BOOLEAN), _infix("AND")),
    "or": (_takes(ty.BOOLEAN), _infix("OR")),
    "not": (_takes(ty.BOOLEAN), _form("(NOT {})")),
    "is_null": (_own, _form("({} IS NULL)")),
    "is_not_null": (_own, _form("({} IS NOT NULL)")),
    "case": (lambda types, r: (ty.BOOLEAN, r) * (len(types) // 2) + (r,), _case),
    "like": (_takes(ty.STRING), _infix("LIKE")),
    "among": (_own, _among),
    "window_start": (_of_time, _window_start),
    "window_starts": (_of_time, _window_starts),
    "add_micros": (_of_time, _add_micros),
    "one_row": (
        lambda types, r: (ty.BIGINT, r),
        _form("if({} > 1, raise_error('a scalar subquery gave more than one row'), {})"),
    ),
    "py_mod": (_numbers, _py_mod),
    "py_floordiv": (_numbers, _py_floordiv),
    "py_strip": (_takes(ty.STRING), _form(f"trim(BOTH {text(_SPACES)} FROM {{}})")),
    "py_present": (lambda types, _: types[:1], _form(_PRESENT)),
}
"""How a function is written, after its operands have been cast; `cast`, `try_cast` and `nullif` are the writer's."""


def _apart(sql: str) -> str:
    """What is put into a hole of a text, so that it becomes one word with nothing before it: `-` and `-1`, `r` and `'x'`."""
    return sql if sql[:1] in "`(" or sql[:1].isalpha() else f"({sql})"


def _plain_pattern(term: Term) -> Term:
    """A constant pattern with escapes only where Spark wants them: before %, _ and the escape."""
    if not isinstance(term, Const) or term.value is None:
        return term
    kept = ("%", "_", "\\")
    plain = lambda m: m[0] if m[1] in kept else m[1] or "\\\\"  # noqa: E731
    return Const(re.sub(r"(?s)\\(.?)", plain, term.value), term.type)


# --- the writer ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """What has been written of a sub-term."""

    sql: str
    type: KeyType
    tree: Tree

    def cast(self, t: KeyType) -> _Part:
        if self.type == t:
            return self
        sql = f"CAST({self.sql} AS {spark_type(t)})"
        return _Part(sql, t, cast_tree(self.type, t, self.tree))

    def try_cast(self, t: KeyType) -> _Part:
        sql = f"TRY_CAST({self.sql} AS {spark_type(t)})"
        return _Part(sql, t, try_cast_tree(self.type, t, self.tree))


def _refused(term: Term, why: str) -> NotIncremental:
    return NotIncremental("EXPRESSION", f"`{term}` cannot be written as an expression: {why}")


class _Writer:
    """One expression: its columns, and those that were read."""

    def __init__(self, columns: Mapping[Term, str]):
        self.columns = columns
        self.reads: dict[str, None] = {}

    def write(self, term: Term) -> _Part:
        if isinstance(term, Const):  # though a column may have it: some operands must be constants
            return self._const(term, term.value, term.type)
        if term in self.columns:
            return self._column(self.columns[term], type_of(term))
        match term:
            case Box(inner):
                return self.write(inner) if inner in self.columns else self._ring(inner)
            case Record(fields) if ty.is_key(type_of(term)):
                return self._record(tuple((n, self.write(t)) for n, t in fields))
            case Field(Record(fields), name):
                return self.write(dict(fields)[name])
            case Field(inner, name) if ty.is_key(type_of(term)):
                return self._field(self.write(inner), name, type_of(term))
            case Call():
                return self._call(term)
            case Var(_, RecordType(p)) if p and all(Field(term, n) in self.columns for n, _ in p):
                return self._record(tuple((n, self.write(Field(term, n))) for n, _ in p))
            case _ if ty.is_scalar(type_of(term)):
                return self._ring(term)
            case _:
                raise _refused(term, "it is neither a column nor computed from columns")

    def _column(self, name: str, t: Type) -> _Part:
        self.reads[name] = None
        key: Any = t if ty.is_key(t) else ty.boxed(t)  # type: ignore[arg-type]
        return _Part(column_name(name), key, ["column", str(key), name])

    def _const(self, term: Term, value: Any, t: KeyType) -> _Part:
        sql = literal(value, t)
        if sql is None:
            raise _refused(term, f"there are no constants of type {t}")
        plain = (isinstance(t, (Base, ty.ListType)) and t != ty.VOID) or (
            value is None and isinstance(t, RecordType)
        )
        return _Part(sql, t, ["literal", str(t), tree_value(value)] if plain else None)

    def _record(self, fields: tuple[tuple[str, _Part], ...]) -> _Part:
        inside = ", ".join(f"{text(n)}, {p.sql}" for n, p in fields)
        t = RecordType(tuple((n, p.type) for n, p in fields))
        tree = ["record", str(t), *(p.tree for _, p in fields)]
        sql = f"named_struct({inside})" if fields else "struct()"
        return _Part(sql, t, None if None in tree or not fields else tree)

    def _field(self, record: _Part, name: str, t: KeyType) -> _Part:
        tree = None if record.tree is None else ["field", str(t), record.tree, name]
        return _Part(f"({record.sql}).{column_name(name)}", t, tree)

    # --- calls -------------------------------------------------------------------------------------------

    def _call(self, term: Call) -> _Part:
        name, r = term.function, type_of(term)
        if name == "nullif":
            same = Call("=", term.args)
            return self.write(Call("case", (same, Const(None, r), term.args[0])))
        parts = [self.write(_plain_pattern(a) if name == "like" else a) for a in term.args]
        if name == "cast":
            return parts[0].cast(r)
        if name == "try_cast":
            return parts[0].try_cast(r)
        if name.startswith(SPARK_TEXT):
            sql = name.removeprefix(SPARK_TEXT).format(*(_apart(p.sql) for p in parts))
            known = {CARDINALITY: "cardinality", AS_BAG: "elements"}.get(name)
            tree = (
                None if known is None or parts[0].tree is None else [known, str(r), parts[0].tree]
            )
            return _Part(f"({sql})", r, tree)
        if name not in SQL:
            return _Part(f"{column_name(name)}({', '.join(p.sql for p in parts)})", r, None)
        types = tuple(p.type for p in parts)
        if SCALARS[name].strict and ty.VOID in types:
            return _Part("NULL", ty.VOID, None).cast(r)
        if name in _COMPARISONS and any(map(ty.has_box, types)):
            raise _refused(term, "collections are not compared")
        operands, write = SQL[name]
        if name == "/" and is_a(r, "decimal"):
            return self._quotient(parts, r)
        parts = [p.cast(t) for p, t in zip(parts, operands(types, r), strict=False)]
        if operands is _local and parts[0].type == ty.TIMESTAMP:
            parts = [parts[0].cast(ty.TIMESTAMP_NTZ)]
        sql = write(r, *(p.sql for p in parts))  # to which Spark may give another type:
        if name in ("round", "/") or term.returns is not None:
            sql = f"CAST({sql} AS {spark_type(r)})"
        return _Part(sql, r, _tree(name, r, parts))

    def _quotient(self, parts: list[_Part], r: Base) -> _Part:
        """a / b of decimals with the places of r, rounded once.

        Spark gives a quotient of more than 38 digits the places that the dividend's digits before the
        point leave, and 6 at least; so the dividend is cast to leave as many as r has. Where r has
        fewer than 6, a power of ten smaller than the dividend is divided, and the quotient multiplied.
        """
        types = _numbers(tuple(p.type for p in parts), r)
        a, b = (p.cast(t) for p, t in zip(parts, types, strict=True))
        tree = _tree("/", r, [a, b])
        assert isinstance(a.type, Base) and isinstance(b.type, Base)
        natural: Any = SCALARS["/"].types((a.type, b.type))
        sql, up = a.sql, max(0, 6 - r.scale)
        if natural.scale != r.scale:
            scale = a.type.scale + up
            if up:
                sql = f"({sql} * CAST('1e-{up}' AS {ty.decimal(up + 1, up)}))"
            sql = f"CAST({sql} AS {ty.decimal(min(38, 38 - r.scale - b.type.scale + a.type.scale), scale)})"
        sql = f"({sql} / {b.sql})"
        if natural.scale != r.scale and up:
            sql = f"({sql} * {10**up})"
        return _Part(f"CAST({sql} AS {r})" if natural != r else sql, r, tree)

    # --- numbers of rings -----------------------------------------------------------------------------------

    def _ring(self, term: Term) -> _Part:
        """A number of a ring, as the key that it is when boxed."""
        key, t = self._as_key(term), type_of(term)
        found = type_of(key)
        if isinstance(t, ty.Exact) and found.scale < t.scale:
            raise _refused(term, f"{found} has not room for its {t.scale} places")
        return self.write(key).cast(ty.boxed(t))

    def _as_key(self, term: Term) -> Term:
        """A key term with the value of a number of a ring; decimals keep their own precision."""
        if term in self.columns:
            return Box(term)
        t = type_of(term)
        if not ty.is_scalar(t):
            raise _refused(term, f"{t} is not a number")
        one, none = Const(1, ty.BIGINT), Const(0, ty.BIGINT)
        match term:
            case Num(value):
                if not isinstance(t, ty.Exact):
                    return Const(value, ty.boxed(t))
                digits = len(value.as_tuple().digits)
                return Const(value, ty.decimal(max(digits, t.scale, 1), t.scale))
            case Zero():
                return Call("cast", (none,), ty.boxed(t))
            case Unbox(key):
                wide = type_of(key) if isinstance(t, ty.Exact) else ty.boxed(t)
                value = key if type_of(key) == wide else Call("cast", (key,), wide)
                return Call("coalesce", (value, Call("cast", (none,), wide)))
            case For(_, Unbox(array), Num(1)) | Sum(Unbox(array)):
                size = Call(CARDINALITY, (array,), ty.INTEGER)
                return Call("coalesce", (Call("cast", (size,), ty.BIGINT), none))
            case Add(terms):
                return _folded("+", [self._as_key(x) for x in terms])
            case Neg(inner):
                return Call("negate", (self._as_key(inner),))
            case Pred(condition):
                return Call("case", (condition, one, none))
            case Not(inner) if ty.is_scalar(type_of(inner)):
                return Call("case", (Call("=", (self._as_key(inner), none)), one, none))
            case Times(factors):
                return self._product(factors, t)
            case Field(Record(fields), name):
                return self._as_key(dict(fields)[name])
            case _:
                raise _refused(term, "it is neither a column nor computed from columns")

    def _product(self, factors: tuple[Term, ...], t: Type) -> Term:
        """Conditions guard the rest; a zero is zero beside whatever double."""
        none = Const(0, ty.BIGINT)
        tests = [f.condition for f in factors if isinstance(f, Pred)]
        parts = [self._as_key(f) for f in factors if not isinstance(f, Pred)]
        out = _folded("*", parts or [Const(1, ty.BIGINT)])
        if t == ty.REAL and len(parts) > 1:
            tests += [Call("<>", (p, none)) for p in parts]
        if not tests:
            return out
        test = Call("and", tuple(tests)) if len(tests) > 1 else tests[0]
        return Call("case", (test, out, Call("cast", (none,), type_of(out))))


CARDINALITY = f"{SPARK_TEXT}cardinality({{0}})"
"""The size of an array that is kept whole."""
_COMPARISONS = {"=", "<>", "<", "<=", ">", ">=", "<=>", "greatest", "least"}


def _tree(name: str, r: KeyType, parts: list[_Part]) -> Tree:
    trees = [p.tree for p in parts]
    if None in trees or name == "like":
        return None if None in trees else like_tree(r, trees)
    known = name in TREES and TREES[name](tuple(p.type for p in parts), r, trees)
    return [name, str(r), *trees] if known else None


def _folded(op: str, terms: list[Term]) -> Term:
    return reduce(lambda a, b: Call(op, (a, b)), terms)
