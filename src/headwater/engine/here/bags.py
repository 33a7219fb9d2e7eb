"""Answers over the bags of many groups at once: percentiles, modes, values beside an extreme, joined texts.

`answer` gets the rows of all groups in one table: the columns of the bag's element, and `_n`, how often each is there.
Rows stand by group, and within a group by element in the total order of the calculus (NULL first, NaN last, records
field by field), which is the order in which a map that is searched in order gives them. Nothing loops over rows or
groups. What each function means is said in `calculus/answers.py`, and a property test compares the two.

    percentile, percentile_disc, mode, min, max    one column
    max_by, min_by                                 the columns of `by`, then `value`
    listagg                                        the columns of `order`, then `row`

`by` and `order` may be structs, or be spread over several columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.state.run import column

COUNT = "_n"
Params = tuple[Any, ...]


class _Groups:
    """The rows that are there, and where each group begins and ends."""

    def __init__(self, table: pa.Table, groups: np.ndarray, count: int):
        times = np.asarray(column(table, COUNT), np.int64)
        there = times > 0
        if not there.all():
            table, groups, times = table.filter(pa.array(there)), groups[there], times[there]
        names = [n for n in table.column_names if n != COUNT]
        self.columns = [column(table, n) for n in names]
        self.groups, self.times, self.count = groups, times, count
        edges = np.arange(count, dtype=np.int64)
        self.begin = np.searchsorted(groups, edges, "left")
        self.end = np.searchsorted(groups, edges, "right")
        self.some = self.end > self.begin
        self.until = np.cumsum(times)
        """How many rows, with repetitions, have come when a row has."""
        self.before = np.where(self.begin > 0, self._until(self.begin - 1), 0)
        self.size = np.where(self.some, self._until(self.end - 1), self.before) - self.before

    def _until(self, rows: np.ndarray) -> np.ndarray:
        if not len(self.until):
            return np.zeros(len(rows), np.int64)
        return np.asarray(self.until[np.clip(rows, 0, len(self.until) - 1)])

    def at(self, place: np.ndarray) -> np.ndarray:
        """The row of each group at a place, counted from 0 with repetitions."""
        return np.asarray(np.searchsorted(self.until, self.before + place, "right"))

    def take(self, values: pa.Array, rows: np.ndarray) -> pa.Array:
        """One row's value a group; NULL for groups without rows."""
        return values.take(pa.array(rows.astype(np.int64), mask=~self.some))


def answer(
    function: str,
    params: Params,
    table: pa.Table,
    groups: np.ndarray,
    count: int,
    returns: pa.DataType,
) -> pa.Array:
    """One value a group; NULL for a group without rows."""
    found = _KERNELS[function](params, _Groups(table, np.asarray(groups, np.int64), count))
    return found if found.type == returns else found.cast(returns)


def functions() -> frozenset[str]:
    """The answers that there is a kernel for."""
    return frozenset(_KERNELS)


# --- numbers ----------------------------------------------------------------------------------------------------


def _doubles(values: pa.Array) -> np.ndarray:
    """Numbers as doubles; a decimal is rounded once, which its text is and Arrow's own cast is not."""
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())
    whole = pa.types.is_integer(values.type)  # a whole number beyond 2⁵³ is rounded, as in Java
    return np.asarray(values.cast(pa.float64(), safe=not whole).fill_null(0.0))


def _at_places(g: _Groups, place: np.ndarray, descending: bool) -> np.ndarray:
    """The numbers at places of the order, which may be turned round."""
    place = np.where(g.some, g.size - 1 - place if descending else place, 0)
    return _doubles(g.take(g.columns[0], g.at(place)))


def _percentile(params: Params, g: _Groups) -> pa.Array:
    share, descending = params
    place = (g.size - 1) * float(share)
    low, high = np.floor(place), np.ceil(place)
    below = _at_places(g, low.astype(np.int64), descending)
    above = _at_places(g, high.astype(np.int64), descending)
    with np.errstate(invalid="ignore", over="ignore"):
        between = (high - place) * below + (place - low) * above
    same = (low == high) | (below == above)
    return _nullable(g, np.where(same, below, between))


def _percentile_disc(params: Params, g: _Groups) -> pa.Array:
    share, descending = params
    rank = np.maximum(np.ceil(g.size * float(share)), 1).astype(np.int64) - 1
    return _nullable(g, _at_places(g, rank, descending))


def _nullable(g: _Groups, values: np.ndarray) -> pa.Array:
    return pa.array(np.asarray(values, np.float64), pa.float64(), mask=~g.some)


# --- one row of each group --------------------------------------------------------------------------------------


def _smallest(_: Params, g: _Groups) -> pa.Array:
    return g.take(g.columns[0], g.begin)


def _largest(_: Params, g: _Groups) -> pa.Array:
    return g.take(g.columns[0], g.end - 1)


def _mode(params: Params, g: _Groups) -> pa.Array:
    """The most frequent row: rows are put by group, then from the most frequent one on, then in their order."""
    place = np.arange(len(g.groups))
    ranked = np.lexsort((-place if params[0] else place, -g.times, g.groups))
    first = np.clip(g.begin, 0, max(len(ranked) - 1, 0))
    rows = ranked[first] if len(ranked) else np.zeros(g.count, np.int64)
    return g.take(g.columns[0], rows)


def _max_by(_: Params, g: _Groups) -> pa.Array:
    """Rows stand by `by` and then by value, so it is the last one."""
    return g.take(g.columns[-1], g.end - 1)


def _min_by(_: Params, g: _Groups) -> pa.Array:
    """The first one."""
    return g.take(g.columns[-1], g.begin)


# --- texts ------------------------------------------------------------------------------------------------------


def _listagg(params: Params, g: _Groups) -> pa.Array:
    separator, directions = params
    order = _order_columns(g.columns[:-1])
    keys: list[np.ndarray] = []
    for part, (descending, nulls_last) in zip(order, directions, strict=True):
        absent = np.asarray(part.is_null())
        rank = _ranks(part)
        keys += [absent == nulls_last, np.where(absent, 0, -rank if descending else rank)]
    ranked = np.lexsort((*reversed(keys), g.groups))  # stable: ties stay in the order of the rows
    texts = g.columns[-1].take(pa.array(np.repeat(ranked, g.times[ranked])))
    ends = np.concatenate([[0], np.cumsum(g.size)])
    lists = pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), texts)
    joined = pc.binary_join(lists, pa.scalar(separator, texts.type))
    return pc.if_else(pa.array(g.some), joined, pa.scalar(None, joined.type))


def _order_columns(columns: list[pa.Array]) -> list[pa.Array]:
    """The order columns: the fields of one struct, or as they are."""
    if len(columns) == 1 and pa.types.is_struct(columns[0].type):
        return list(columns[0].flatten())
    return columns


def _ranks(values: pa.Array) -> np.ndarray:
    """Numbers that are ordered as the values are; a struct's order is that of its fields, NULLs first."""
    if not pa.types.is_struct(values.type):
        found = pc.rank(values, sort_keys="ascending", tiebreaker="dense")
        return np.asarray(found, np.int64)
    parts = [np.asarray(values.is_valid())]
    for field in values.flatten():
        absent = np.asarray(field.is_null())
        parts += [~absent, np.where(absent, 0, _ranks(field))]
    table = np.stack([p.astype(np.int64) for p in parts], axis=1)
    return np.asarray(np.unique(table, axis=0, return_inverse=True)[1]).reshape(-1)


_KERNELS: dict[str, Callable[[Params, _Groups], pa.Array]] = {
    "percentile": _percentile,
    "percentile_disc": _percentile_disc,
    "min": _smallest,
    "max": _largest,
    "mode": _mode,
    "max_by": _max_by,
    "min_by": _min_by,
    "listagg": _listagg,
}
