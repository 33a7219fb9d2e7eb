"""The words that users say for steps of streams, which `headwater.st` has: each makes a step, as data.

Tables and columns are declared as text, `"taxi BIGINT, x DOUBLE"`; conditions, expressions and queries are SQL texts or
functions of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal

from headwater.streams.columns import Fields, Row, fields
from headwater.streams.pieces import Query, declared
from headwater.streams.queries import Collect, Filter, Lift, Map, Rewrite, Window
from headwater.streams.queries_ahead import Carry, LocalMaxima, Peaks
from headwater.streams.queries_in_time import Every, Join, Mark, Union
from headwater.streams.queries_of_frames import Aggregate, Frames, Highest, Keep, MapReduce
from headwater.streams.regex import Regex
from headwater.streams.regex import parse as pattern
from headwater.streams.schema import Schema, text
from headwater.streams.shapes import (
    Fold,
    HierarchicalStep,
    ParallelStep,
    PartitionedStep,
    RelationalStep,
)
from headwater.streams.steps import Condition, Step

Columns = str | Fields | None
Given = str | Callable[[Any], Any] | Mapping[str, str] | tuple[Callable[[Any], Any], str]


def _columns(given: Columns) -> Fields | None:
    return None if given is None else fields(given)


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _regex(given: Regex | str) -> Regex:
    return pattern(given) if isinstance(given, str) else given


def _rewrite(given: Given, into: str) -> Rewrite:
    match given:
        case tuple():
            function, columns = given
            return Rewrite(function, into, fields(columns))
        case Mapping():
            return Rewrite(tuple(given.items()), into)
        case _:
            return Rewrite(given, into)


# --- rows, and parts of a schema --------------------------------------------------------------------------


def filter(condition: Condition, of: str | None = None) -> Filter:
    """The rows of a header (of all, if none is named) for which a condition is true: `filter("cases > 100")`."""
    return Filter(condition, of)


def map(into: Mapping[str, str] | None = None, /, **headers: Given) -> Map:
    """Rows mapped in their place: `map(gps="taxi, x * 2 AS x")`, an expression for each column, or a function.

    A function gives a row, None for no row, or a list of rows; with other columns it is given as a pair,
    `map(gps=(function, "taxi BIGINT, x DOUBLE"))`. `into` gives headers another name.
    """
    names = into or {}
    return Map(tuple((name, _rewrite(how, names.get(name, name))) for name, how in headers.items()))


def lift(at: Schema | str, step: Step) -> Lift:
    """A step applied to one part of a schema: where a header stands, or a schema."""
    return Lift(at if isinstance(at, str) else text(at), step)


def window(mark: str) -> Window:
    """One kind of marks made the outer ones: they delimit windows."""
    return Window(mark)


def collect() -> Collect:
    """A stream as a value: its events."""
    return Collect()


# --- frames -----------------------------------------------------------------------------------------------


def aggregate(
    query: Query, gives: str | None = None, keep: Keep | None = None, columns: Columns = None
) -> Aggregate:
    """What a query says of each frame: rows of `gives` in order, or columns of the mark (keep="mark", or "all" with rows)."""
    return Aggregate(query, gives, keep or ("answer" if gives else "mark"), _columns(columns))


def highest(
    column: str, of: str | None = None, keep: Literal["answer", "mark"] = "answer"
) -> Highest:
    """The rows of each frame with the highest value, all that tie."""
    return Highest(column, of, keep)


def frames(
    query: Query | None = None,
    gives: str | None = None,
    where: Condition | None = None,
    columns: Columns = None,
) -> Frames:
    """A query over each frame's bag, kept where the mark that closes it satisfies a condition."""
    return Frames(query, gives, where, _columns(columns))


def map_reduce(
    map: Given, by: str | Iterable[str], reduce: Query, gives: str, columns: Columns = None
) -> MapReduce:
    """The rows of a bag mapped, then all rows of a key made rows of `gives`."""
    return MapReduce(_rewrite(map, "mapped"), _names(by), reduce, gives, _columns(columns))


# --- in time ----------------------------------------------------------------------------------------------


def every(interval: str | int | timedelta, name: str, column: str | None = None) -> Every:
    """Marks of a clock between rows: `every("10 minutes", "tick")`."""
    if isinstance(interval, timedelta):
        interval = f"{interval // timedelta(microseconds=1)} microseconds"
    return Every(interval, name, column)


def mark(regex: Regex | str, name: str, keep: bool = False) -> Mark:
    """A mark where some stretch of rows that ends there matches a pattern, in the place of the row or behind it."""
    return Mark(_regex(regex), name, keep)


def join(
    regex: Regex | str,
    on: str | Iterable[str],
    keep: Literal["ends", "all"] = "ends",
    of: str | None = None,
    gives: str | None = None,
) -> Join:
    """The last frame of the shortest stretch of marks that matches, joined with its first (or with all of them)."""
    return Join(_regex(regex), _names(on), keep, of, gives)


def union(
    regex: Regex | str,
    keep: Literal["ends", "all"] = "ends",
    of: str | None = None,
    gives: str | None = None,
) -> Union:
    """The first and the last frame of the shortest stretch of marks that matches, or all its frames, as one bag."""
    return Union(_regex(regex), keep, of, gives)


def local_maxima(column: str, around: int = 1, name: str = "lmax") -> LocalMaxima:
    """Marks with a boolean that says whether they are higher than those around them."""
    return LocalMaxima(column, around, name)


def peaks(column: str, around: int = 1, names: tuple[str, str] = ("peak", "valley")) -> Peaks:
    """Marks behind rows of a sequence that are higher, or lower, than those around them."""
    return Peaks(column, around, names)


def carry(
    key: str | Iterable[str],
    f: Callable[..., Any],
    state: str | Fields,
    gives: str,
    start: Row | None = None,
) -> Carry:
    """A state for each key carried over its rows by f(state, row, header) from frame to frame, told at each mark."""
    return Carry(_names(key), f, fields(state), gives, start)


# --- the four shapes --------------------------------------------------------------------------------------


def relational(query: Query, gives: str | None = None, columns: Columns = None) -> RelationalStep:
    """The answer of a query over a bag: rows of `gives`, or a value for what stands around it."""
    return RelationalStep(query, gives, _columns(columns))


def fold(
    f: Callable[..., Any],
    state: str | Fields,
    result: str | None = None,
    gives: Mapping[str, str | Fields] | None = None,
    start: Row | None = None,
) -> Fold:
    """A state carried over a sequence by f(state, row, emit); its value is one column of the last state."""
    return Fold(f, fields(state), result, declared(gives), start)


def partitioned(
    sub: Step,
    agg: Query | None = None,
    gives: str | None = None,
    columns: Columns = None,
    *,
    init: Callable[[Any, Row], Any] | None = None,
) -> PartitionedStep:
    """A piece for each key; `agg` makes one value of theirs, or rows of `gives`."""
    return PartitionedStep(sub, agg, gives, _columns(columns), init)


def parallel(
    left: Step,
    right: Step,
    fin: Query | None = None,
    columns: Columns = None,
    *,
    init: Callable[[Any], tuple[Any, Any]] | None = None,
) -> ParallelStep:
    """Two pieces side by side; `fin` makes one value of theirs."""
    return ParallelStep(left, right, fin, _columns(columns), init)


def hierarchical(
    sub: Step,
    update: Query,
    gives: Mapping[str, str | Fields] | str | None = None,
    *,
    init: Callable[[], Any] | None = None,
    call: Callable[[Any], Any] | None = None,
    ret: Callable[[Any, Any], Any] | None = None,
    fin: Callable[[Any], Any] | None = None,
) -> HierarchicalStep:
    """A piece over each frame; at the mark that closes it `update` tells rows of `gives`, in order."""
    told = gives if isinstance(gives, str) else declared(gives)
    return HierarchicalStep(sub, update, told, init, call, ret, fin)
