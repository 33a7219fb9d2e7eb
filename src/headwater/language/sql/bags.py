"""Aggregates of the whole bag of a group: percentiles, the mode, the value beside an extreme, joined texts.

What is kept is the bag of values, or of values with what orders them; what is shown is an `Answer` over it. Where
Spark leaves open which of several rows is meant, the greatest value is taken, and of several modes the least.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.terms import Answer, Const, Record, Sng, Term
from headwater.calculus.types import STRING, VOID, Base, has_box, is_numeric
from headwater.errors import HeadwaterError, QueryError, TypeMismatch
from headwater.language.build import ONE
from headwater.language.schema import sql_name
from headwater.language.sql.coerce import can_cast, cast_to

if TYPE_CHECKING:
    from headwater.language.sql.aggregate import Grouping

Answered = Callable[[Callable[[str], Term]], Term]


def read(g: Grouping, e: exp.Expr, where: list[Term]) -> Answered | None:
    """The answer of an aggregate of a whole bag; None if it is of another kind."""
    match e:
        case exp.Median():
            return _percentile(g, e, where, "percentile", e.this, exp.Literal.number("0.5"), False)
        case exp.Quantile():
            return _percentile(g, e, where, "percentile", e.this, e.args["quantile"], False)
        case exp.WithinGroup(this=exp.PercentileCont() | exp.PercentileDisc() as inner):
            name = "percentile" if isinstance(inner, exp.PercentileCont) else "percentile_disc"
            item = _only(g, e)
            descending = bool(item.args.get("desc"))
            return _percentile(g, e, where, name, item.this, inner.this, descending)
        case exp.Mode() if e.this is not None:
            return _mode(g, e, where, e.this, False)
        case exp.WithinGroup(this=exp.Mode()):
            item = _only(g, e)
            return _mode(g, e, where, item.this, bool(item.args.get("desc")))
        case exp.ArgMax() | exp.ArgMin():
            return _by(g, e, where)
        case exp.GroupConcat() | exp.WithinGroup(this=exp.GroupConcat()):
            return _joined(g, e, where)
        case _:
            return None


def _only(g: Grouping, e: exp.WithinGroup) -> exp.Ordered:
    items = e.expression.expressions
    if len(items) != 1:
        what = f"WITHIN GROUP of `{e.this.sql(dialect='spark')}` orders by one expression"
        raise g.reader.error(QueryError, what, e)
    item: exp.Ordered = items[0]
    return item


def _bag(
    g: Grouping, where: list[Term], distinct: bool, present: list[Term], key: Term
) -> Answered:
    """Keeps the bag of a key, and gives it back, without repetitions if it is asked for."""
    kept = g.kept(where, present, Sng(key, ONE))
    if not distinct:
        return lambda v: v(kept)
    return lambda v: g.distinct(v(kept), lambda d: Sng(d, ONE))


def _plain(e: exp.Expr) -> tuple[exp.Expr, bool]:
    """An argument, and whether DISTINCT stands before it."""
    if isinstance(e, exp.Distinct):
        return e.expressions[0], True
    return e, False


def _percentile(
    g: Grouping,
    e: exp.Expr,
    where: list[Term],
    name: str,
    of: exp.Expr,
    share: exp.Expr,
    descending: bool,
) -> Answered:
    of, distinct = _plain(of)
    value = g.argument(e, of)
    if not is_numeric(type_of(value)):
        what = f"`{e.sql(dialect='spark')}` orders {sql_name(type_of(value))} on a line of numbers"
        raise g.reader.error(TypeMismatch, what, of, hint="percentiles are of numbers; cast first")
    p = _share(g, e, share)
    bag = _bag(g, where, distinct, [value], value)
    return lambda v: Answer(name, (p, descending), bag(v))


def _share(g: Grouping, e: exp.Expr, share: exp.Expr) -> float:
    """The percentage of a percentile: a constant between 0 and 1."""
    if isinstance(share, exp.Array) or share.find(exp.Column) is not None:
        what = f"`{e.sql(dialect='spark')}` asks for more than one constant percentage"
        raise g.reader.refuse("AGGREGATE", what, share, "write one percentile for each of them")
    try:
        constant = g.row.key(share)
    except HeadwaterError:
        constant = Const(None, VOID)
    known = constant.value if isinstance(constant, Const) else None
    if not isinstance(known, bool) and known is not None and not isinstance(known, str):
        p = float(known)
        if 0 <= p <= 1:
            return p
    what = f"`{share.sql(dialect='spark')}` is not a number between 0 and 1"
    raise g.reader.error(QueryError, what, share, hint="the middle is 0.5")


def _mode(g: Grouping, e: exp.Expr, where: list[Term], of: exp.Expr, descending: bool) -> Answered:
    if isinstance(of, exp.Distinct):
        what = "the mode of different values"
        raise g.reader.error(QueryError, what, e, hint="every value is there once")
    value = g.argument(e, of)
    if not isinstance(type_of(value), Base):
        what = f"`{e.sql(dialect='spark')}` counts {sql_name(type_of(value))}"
        raise g.reader.error(TypeMismatch, what, e, hint="the mode is of one column")
    bag = _bag(g, where, False, [value], value)
    return lambda v: Answer("mode", (descending,), bag(v))


def _comparable(g: Grouping, e: exp.Expr, term: Term) -> Term:
    if has_box(type_of(term)):
        what = f"`{e.sql(dialect='spark')}` compares {sql_name(type_of(term))}"
        raise g.reader.error(TypeMismatch, what, e, hint="arrays are bags here, without an order")
    return term


def _by(g: Grouping, e: exp.ArgMax | exp.ArgMin, where: list[Term]) -> Answered:
    """max_by(value, order) and min_by: rows without an order are left out, DISTINCT changes nothing."""
    if e.args.get("count") is not None:
        what = f"`{g.reader.word(e)}` with a number of values gives an array in order"
        raise g.reader.refuse("ARRAY_ORDER", what, e, "rank the rows, and keep the first ones")
    given = (_plain(e.this)[0], e.expression)
    value, by = (_comparable(g, e, g.argument(e, x)) for x in given)
    name = "max_by" if isinstance(e, exp.ArgMax) else "min_by"
    bag = _bag(g, where, False, [by], Record((("by", by), ("value", value))))
    return lambda v: Answer(name, (), bag(v))


def _joined(g: Grouping, e: exp.Expr, where: list[Term]) -> Answered:
    """listagg(value, separator) WITHIN GROUP (ORDER BY ...)."""
    node = e.this if isinstance(e, exp.WithinGroup) else e
    assert isinstance(node, exp.GroupConcat)
    order = e.expression if isinstance(e, exp.WithinGroup) else node.this
    of = node.this.this if isinstance(node.this, exp.Order) else node.this
    if not isinstance(order, exp.Order):
        what = f"`{node.sql(dialect='spark')}` joins the values in any order"
        hint = "say in which: WITHIN GROUP (ORDER BY ...)"
        raise g.reader.refuse("NON_DETERMINISTIC", what, e, hint)
    of, distinct = _plain(of)
    value = g.argument(e, of)
    if not can_cast(type_of(value), STRING) or not isinstance(type_of(value), Base):
        what = f"`{node.sql(dialect='spark')}` joins {sql_name(type_of(value))}"
        raise g.reader.error(TypeMismatch, what, of, hint="listagg joins texts; cast first")
    keys = [_comparable(g, e, g.argument(e, item.this)) for item in order.expressions]
    if distinct and keys != [value]:
        what = "DISTINCT values are ordered by themselves"
        raise g.reader.error(QueryError, what, order, hint="ORDER BY the value that is joined")
    directions = tuple(
        (bool(item.args.get("desc")), not item.args.get("nulls_first"))
        for item in order.expressions
    )
    record = Record(tuple((f"o{i + 1}", k) for i, k in enumerate(keys)))
    row = Record((("order", record), ("row", cast_to(value, STRING))))
    bag = _bag(g, where, distinct, [value], row)
    separator = _separator(g, node)
    return lambda v: Answer("listagg", (separator, directions), bag(v))


def _separator(g: Grouping, node: exp.GroupConcat) -> str:
    given = node.args.get("separator")
    if given is None or isinstance(given, exp.Null):
        return ""
    if isinstance(given, exp.Literal) and given.is_string:
        return str(given.this)
    what = f"`{given.sql(dialect='spark')}` is not a text that is written out"
    raise g.reader.error(QueryError, what, given, hint="the separator is a constant: ', '")
