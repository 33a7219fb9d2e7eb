"""Evaluates the trees of scalar expressions on Arrow tables, column by column.

A tree is made by `plan/scalar.py` where Arrow can mean exactly what Spark means; here each name is
one row of `NODES`, a function of the result type and of the operands' columns or constants. Where Spark
would raise an error (overflow, division by zero), `ArrowCannot` is raised and Spark is asked. A guard guards
as it does there: behind `case`, `and`, `or` and `coalesce` only the rows are evaluated that come so far.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import cache, lru_cache, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.deep import with_room
from headwater.calculus.lists import read_list
from headwater.calculus.notation.parse import parse_type
from headwater.engine.here.scalars import decimals, formats, numbers, texts, times, zones
from headwater.engine.here.scalars.base import ArrowCannot, Column, columnar
from headwater.engine.here.scalars.casts import cast, fitted, try_cast
from headwater.errors import NotIncremental
from headwater.interop.arrow_types import arrow_type
from headwater.state.run import column

__all__ = ["NODES", "ArrowCannot", "evaluate", "in_zone", "is_column"]


@with_room
def evaluate(tree: Any, table: pa.Table, zone: str = "UTC") -> pa.Array:
    """The column that a tree stands for, with a row for each row of the table, in a time zone."""
    try:
        with np.errstate(all="ignore"):  # a NaN may have bits of which numpy warns
            out = _value(tree, table, zone)
        return pa.repeat(out, table.num_rows) if isinstance(out, pa.Scalar) else out
    except (pa.ArrowException, OverflowError) as e:
        raise ArrowCannot(str(e)) from e


def is_column(tree: Any) -> str | None:
    """The name of the column that the tree is, if it is no more than that."""
    return tree[2] if tree is not None and tree[0] == "column" else None


def in_zone(tree: Any) -> bool:
    """Whether what a tree means depends on the time zone."""
    if not isinstance(tree, list):
        return False
    return tree[0] in ZONED or any(in_zone(x) for x in tree[2:])


def _value(tree: Any, table: pa.Table, zone: str) -> Column:
    name, shown, *rest = tree
    t = _type(shown)
    match name:
        case "column":
            found = column(table, rest[0])
            return found if t in (None, found.type) else found.cast(t)
        case "literal":
            return _literal(shown, rest[0], t)
        case "cast" if rest[0][0] == "literal" and isinstance(rest[0][2], int):
            return _number_cast(shown, rest[0][1], rest[0][2])
        case "case":
            return _case(t, rest, table, zone)
        case "and" | "or" | "coalesce":
            return _until(name, t, rest, table, zone)
        case "field":
            return pc.struct_field(_value(rest[0], table, zone), rest[1])
        case _ if name in ZONED:
            return ZONED[name](t, *(_value(r, table, zone) for r in rest), zone)
        case _:
            return NODES[name](t, *(_value(r, table, zone) for r in rest))


@cache
def _type(shown: str) -> pa.DataType | None:
    """The Arrow type that is shown; labels have none, and their columns are taken as they are."""
    t: Any = parse_type(shown)
    try:
        return arrow_type(t)
    except NotIncremental:
        return None


_READ: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "double": float,
    "decimal": Decimal,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamp_ntz": datetime.fromisoformat,
    "binary": bytes.fromhex,
}


def _literal(shown: str, value: Any, t: pa.DataType) -> pa.Scalar:
    if isinstance(value, int):
        return _number(shown, value)
    return _constant(shown, value, t)


@lru_cache(maxsize=4096)
def _number(shown: str, value: int) -> pa.Scalar:
    """A whole number; a statement has the same in every round."""
    return _constant(shown, value, _type(shown))


@lru_cache(maxsize=4096)
def _number_cast(shown: str, given: str, value: int) -> pa.Scalar:
    """CAST of a whole number, as `v + 1` has it where v is wider than 1."""
    return cast(_type(shown), _number(given, value))


def _constant(shown: str, value: Any, t: pa.DataType | None) -> pa.Scalar:
    if pa.types.is_large_list(t) and value is not None:
        return pa.scalar(read_list(value, parse_type(shown)), type=t)
    read = _READ.get(shown.partition("(")[0])
    return pa.scalar(read(value) if read is not None and value is not None else value, type=t)


# --- comparison: NaN equals NaN and is the greatest, 0.0 equals -0.0 -----------------------------------


def _equal(_: pa.DataType, a: Column, b: Column) -> Column:
    same = pc.equal(a, b)
    return pc.or_(same, pc.and_(pc.is_nan(a), pc.is_nan(b))) if _floating(a) else same


def _less(_: pa.DataType, a: Column, b: Column) -> Column:
    less = pc.less(a, b)
    return pc.or_(less, pc.and_not(pc.is_nan(b), pc.is_nan(a))) if _floating(a) else less


def _different(t: pa.DataType, a: Column, b: Column) -> Column:
    return pc.invert(_equal(t, a, b))


def _same(t: pa.DataType, a: Column, b: Column) -> Column:
    """<=>: NULL is the same as NULL, and as nothing else."""
    return pc.if_else(
        pc.or_(pc.is_null(a), pc.is_null(b)),
        pc.and_(pc.is_null(a), pc.is_null(b)),
        _equal(t, a, b),
    )


def _among(_: pa.DataType, a: Column, values: pa.Scalar) -> Column:
    """IN of a constant list: unknown where the value is, or where it is not found and NULL is in the list."""
    listed = values.values.cast(a.type)
    if _floating(a):  # Arrow tells 0.0 from -0.0
        a, listed = pc.add(a, pa.scalar(0.0, a.type)), pc.add(listed, pa.scalar(0.0, a.type))
    found = pc.is_in(a, value_set=listed, skip_nulls=True)
    unknown = pc.is_null(a)
    if listed.null_count:
        unknown = pc.or_(unknown, pc.invert(found))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def _floating(a: Column) -> bool:
    return bool(pa.types.is_floating(a.type))


def _extreme(before: Callable[[pa.DataType, Column, Column], Column]) -> Callable[..., Column]:
    """The operand before which none comes; NULL only if all are."""

    def pick(a: Column, b: Column) -> Column:
        return pc.if_else(pc.coalesce(before(pa.bool_(), b, a), pc.is_null(a)), b, a)

    return lambda _, *operands: reduce(pick, operands)


# --- arithmetic: an overflow is an error; decimals are computed in 256 bits and rounded half up ----------


def _arithmetic(name: str) -> Callable[..., Column]:
    plain, checked = getattr(pc, name), getattr(pc, f"{name}_checked")

    def apply(t: pa.DataType, *operands: Column) -> Column:
        if pa.types.is_decimal(t):
            return fitted(t, plain(*map(decimals.wide, operands)))
        return (plain if pa.types.is_floating(t) else checked)(*operands)

    return apply


def _multiply(t: pa.DataType, a: Column, b: Column) -> Column:
    return decimals.multiply(t, a, b) if pa.types.is_decimal(t) else _times(t, a, b)


_times = _arithmetic("multiply")


def _divide(t: pa.DataType, a: Column, b: Column) -> Column:
    if pa.types.is_decimal(t):
        return decimals.divide(t, a, b)
    if pa.types.is_integer(t):
        return pc.divide_checked(a, b)
    failing = pc.and_(pc.is_valid(a), pc.equal(b, pa.scalar(0.0, b.type)))  # NULL / 0 is NULL
    if pc.any(failing).as_py():
        raise ArrowCannot("division by zero")
    return pc.divide(a, b)


def _remainder(t: pa.DataType, a: Column, b: Column) -> Column:
    if pa.types.is_decimal(t):
        return decimals.remainder(t, a, b)
    if pa.types.is_floating(t):
        return decimals.float_remainder(t, a, b)
    return pc.subtract(a, pc.multiply(pc.divide_checked(a, b), b))


# --- dates -----------------------------------------------------------------------------------------------


def _part(name: str, **options: Any) -> Callable[..., Column]:
    return lambda t, a: getattr(pc, name)(a, **options).cast(t)


def _days(op: Callable[..., Column]) -> Callable[..., Column]:
    """Arithmetic on the numbers of days."""
    return lambda t, *operands: op(*(x.cast(pa.int32()) for x in operands)).cast(t)


# --- the table ---------------------------------------------------------------------------------------------


def _case(t: pa.DataType, args: list[Any], table: pa.Table, zone: str) -> pa.Array:
    """CASE WHEN: a branch is evaluated only for the rows that take it, as an error in it must be."""
    left = np.arange(table.num_rows)
    pieces: list[pa.Array] = []
    places: list[np.ndarray[Any, Any]] = []

    def take(rows: np.ndarray[Any, Any], tree: Any) -> None:
        if len(rows):
            some = table if len(rows) == table.num_rows else table.take(pa.array(rows))
            out = _value(tree, some, zone)
            pieces.append(pa.repeat(out, len(rows)) if isinstance(out, pa.Scalar) else out)
            places.append(rows)

    *branches, last = args if len(args) % 2 else [*args, ["literal", "void", None]]
    for condition, value in zip(branches[::2], branches[1::2], strict=True):
        some = table if len(left) == table.num_rows else table.take(pa.array(left))
        test = _value(condition, some, zone)
        if isinstance(test, pa.Scalar):
            test = pa.repeat(test, len(left))
        true = np.asarray(pc.fill_null(test, False) if test.null_count else test)
        take(left[true], value)
        left = left[~true]
    take(left, last)
    if len(pieces) < 2:
        return pieces[0].cast(t) if pieces else pa.array([], t)
    order = np.argsort(np.concatenate(places), kind="stable")
    return pa.concat_arrays([p.cast(t) for p in pieces]).take(pa.array(order))


OPEN: dict[str, Callable[[Column], Column]] = {
    "and": lambda a: pc.fill_null(a, True),
    "or": lambda a: pc.invert(pc.fill_null(a, False)),
    "coalesce": pc.is_null,
}
"""For which rows the next operand is evaluated, by the value of the one before: for `a and b` those in which a is not false."""

HARMLESS = {
    *("column", "literal", "field", "=", "<>", "<", "<=", ">", ">=", "<=>"),
    *("and", "or", "not", "is_null", "is_not_null", "coalesce", "case"),
}
"""Nodes that have a value for every row, so that no row has to be left out."""


def _until(name: str, t: pa.DataType, trees: list[Any], table: pa.Table, zone: str) -> Column:
    """AND, OR and coalesce: an operand is evaluated for the rows that those before it leave open, and NULL elsewhere."""
    out = _value(trees[0], table, zone)
    for tree in trees[1:]:
        if (
            name == "coalesce"
            and out.type == t
            and isinstance(out, pa.Array)
            and not out.null_count
        ):
            break  # no row comes further
        rows = None if _is_harmless(tree) else OPEN[name](out)
        out = NODES[name](t, out, _where(rows, tree, t, table, zone))
    return out


def _where(rows: Column | None, tree: Any, t: pa.DataType, table: pa.Table, zone: str) -> Column:
    """A column that is evaluated for some rows, and NULL in the others."""
    if isinstance(rows, pa.Scalar):
        return _value(tree, table, zone) if rows.as_py() else pa.scalar(None, t)
    if rows is None or pc.all(rows, min_count=0).as_py():
        return _value(tree, table, zone)
    if not pc.any(rows).as_py():
        return pa.scalar(None, t)
    out = _value(tree, table.filter(rows), zone)
    if isinstance(out, pa.Scalar):
        return out
    taken = np.asarray(rows)
    return out.take(pa.array(np.cumsum(taken) - 1, mask=~taken))


def _is_harmless(tree: Any) -> bool:
    return tree[0] in HARMLESS and all(_is_harmless(x) for x in tree[2:] if isinstance(x, list))


def _one_row(_: pa.DataType, rows: Column, value: Column) -> Column:
    if pc.any(pc.greater(rows, 1)).as_py():
        raise ArrowCannot("a scalar subquery gave more than one row")  # so Spark says it
    return value


def _present(_: pa.DataType, a: Column) -> Column:
    if pc.any(pc.is_null(a)).as_py():
        raise ArrowCannot("the min or max of nothing")
    return a


def _record(t: pa.DataType | None, *parts: Column) -> Column:
    if t is None:
        raise ArrowCannot("a record with a label in it has no type of Arrow")
    return pc.make_struct(*parts, field_names=[f.name for f in t])


NODES: dict[str, Callable[..., Column]] = {
    "cast": cast,
    "try_cast": try_cast,
    "record": _record,
    "=": _equal,
    "<>": _different,
    "<": _less,
    ">": lambda t, a, b: _less(t, b, a),
    "<=": lambda t, a, b: pc.invert(_less(t, b, a)),
    ">=": lambda t, a, b: pc.invert(_less(t, a, b)),
    "<=>": _same,
    "among": _among,
    "greatest": _extreme(lambda t, a, b: _less(t, b, a)),
    "least": _extreme(_less),
    "and": lambda _, *a: reduce(pc.and_kleene, a),
    "or": lambda _, *a: reduce(pc.or_kleene, a),
    "not": lambda _, a: pc.invert(a),
    "is_null": lambda _, a: pc.is_null(a),
    "is_not_null": lambda _, a: pc.is_valid(a),
    "coalesce": lambda _, *a: pc.coalesce(*a),
    "one_row": _one_row,
    "py_present": _present,
    "+": _arithmetic("add"),
    "-": _arithmetic("subtract"),
    "*": _multiply,
    "/": _divide,
    "div": _divide,
    "%": _remainder,
    "negate": _arithmetic("negate"),
    "abs": _arithmetic("abs"),
    "year": _part("year"),
    "quarter": _part("quarter"),
    "month": _part("month"),
    "day": _part("day"),
    "dayofweek": _part("day_of_week", count_from_zero=False, week_start=7),
    "dayofyear": _part("day_of_year"),
    "weekofyear": _part("iso_week"),
    "date_add": _days(pc.add_checked),
    "date_sub": _days(pc.subtract_checked),
    "datediff": _days(pc.subtract_checked),
    "length": _part("utf8_length"),
    "cardinality": _part("list_value_length"),
    "elements": lambda t, a: a.cast(t),
    **numbers.NODES,
    **texts.NODES,
    **times.NODES,
}
"""What each node of a tree means; `column`, `literal` and `field` are leaves, or hold a name."""

ZONED: dict[str, Callable[..., Column]] = {
    "local": lambda t, a, zone: columnar(lambda t, a: zones.local(t, a, zone))(t, a),
    "instant": lambda t, a, zone: columnar(lambda t, a: zones.instant(t, a, zone))(t, a),
    "day_start": lambda t, a, zone: columnar(lambda t, a: zones.day_start(t, a, zone))(t, a),
    "date_trunc": times.date_trunc,
    "date_format": formats.date_format,
    "from_unixtime": formats.from_unixtime,
    "to_timestamp": formats.to_timestamp,
}
"""What depends on the time zone, which is the last argument."""
