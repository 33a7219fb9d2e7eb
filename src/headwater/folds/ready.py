"""Ready rows: those of which everything that they depend on, and that stands before them, is there.

A row x of a header is ready when, for every header g that it depends on, the rows of g with the same keys before x are
closed, and every row that stands before it and that it depends on is ready itself. Without the last clause a row could
pass a mark that still waits. And it must last: a row that may still be deleted waits, whatever it depends on. So ready rows
are a prefix of the stream that is meant, nothing comes before them later, and none of them goes.

Rows with the same order value stand in this order: headers of outer marks before inner ones (a mark at T stands before
rows at T, so that frames are [T, T')), clocks before other marks, then by name, then by the row itself. A row that is not
there yet may so come before one of its own header with the same value: up to that value all must be closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.patterns import ANYTHING, Constant, Punctuation, Punctuations
from headwater.engine.membership import matching
from headwater.folds.scale import MOST, Bound, Numbers, Scale, latest
from headwater.state.keys import Bools, Ints, canonical
from headwater.state.run import column
from headwater.streams.order import dependence
from headwater.streams.schema import Bag, Par, PartitionBy, Schema, Sync


@dataclass(frozen=True)
class Ordered:
    """The order of a stream's rows: the schema, the order column of each header, and which headers are clocks."""

    schema: Schema
    columns: Mapping[str, str]
    clocks: frozenset[str] = frozenset()

    def ranks(self) -> dict[str, int]:
        """Where a header stands among those with the same order value."""
        depth = _depths(self.schema, 0)
        by_place = sorted(depth, key=lambda h: (depth[h], h not in self.clocks, h))
        return {h: i for i, h in enumerate(by_place)}


def _depths(schema: Schema, depth: int) -> dict[str, int]:
    """How many marks are around each header."""
    match schema:
        case Bag(headers):
            return dict.fromkeys(headers, depth)
        case Sync(headers, sub):
            return dict.fromkeys(headers, depth) | _depths(sub, depth + 1)
        case PartitionBy(_, sub):
            return _depths(sub, depth)
        case Par(parts):
            return {h: d for part in parts for h, d in _depths(part, depth).items()}


def ready(
    ordered: Ordered,
    rows: Mapping[str, pa.Table],
    closed: Mapping[str, Punctuations],
    lasting: frozenset[str],
    scale: Scale,
    held: frozenset[str] = frozenset(),
) -> dict[str, Bools]:
    """Which rows of each header are ready; rows of clocks are the times at which they may strike.

    `lasting` are the headers whose rows are never deleted, `held` those that wait whatever is closed.
    """
    numbers = {h: scale.numbers(column(t, ordered.columns[h])) for h, t in rows.items()}
    ranks = ordered.ranks()
    out = {}
    for h, t in rows.items():
        lasts = h in lasting or h in ordered.clocks
        out[h] = (
            np.ones(t.num_rows, np.bool_)
            if lasts
            else matching(closed.get(h, Punctuations.NONE), t)
        )
        out[h] &= h not in held
    pairs = [(h, g, keys) for (h, g), keys in dependence(ordered.schema).items()]
    keyed = _Keyed(rows)
    for h, g, keys in pairs:
        if g in ordered.clocks or not len(numbers[h]):
            continue  # a clock is closed beforehand
        limit, closed_at = _covered(
            closed.get(g, Punctuations.NONE), ordered.columns[g], keys, rows[h], scale
        )
        x = numbers[h]
        if ranks[g] <= ranks[h]:
            out[h] &= (x < limit) | ((x == limit) & closed_at)
        else:
            out[h] &= x <= limit
    _hold_back(pairs, numbers, ranks, keyed, out)
    return out


def _hold_back(
    pairs: Sequence[tuple[str, str, tuple[str, ...]]],
    numbers: Mapping[str, Numbers],
    ranks: Mapping[str, int],
    keyed: _Keyed,
    out: dict[str, Bools],
) -> None:
    """Rows behind one that is not ready are not ready, until nothing changes."""
    changed = True
    while changed:
        changed = False
        for h, g, keys in pairs:
            waits = ~out[g]
            if not waits.any() or not out[h].any():
                continue
            of_h, of_g, count = keyed.codes(h, g, keys)
            first = np.full(count, np.inf if numbers[g].dtype.kind == "f" else MOST)
            first = first.astype(numbers[g].dtype)
            np.minimum.at(first, of_g[waits], numbers[g][waits])
            least, x = first[of_h], numbers[h]
            behind = x > least
            if ranks[g] <= ranks[h]:
                behind |= x == least
            if (out[h] & behind).any():
                out[h] &= ~behind
                changed = True


def _covered(
    closed: Punctuations, order: str, keys: Sequence[str], rows: pa.Table, scale: Scale
) -> tuple[Numbers, Bools]:
    """For each row up to where rows with the same keys are closed: the limits, and whether they are closed themselves."""
    whole: list[Bound] = []
    by_key: list[tuple[Punctuation, Bound]] = []
    for p in closed:
        if set(p.shape) <= {order, *keys}:
            at = p.at(order)
            bound = (MOST, True) if at == ANYTHING else scale.bound(at)
            if bound is not None:
                rest = [(n, q) for n, q in p.columns if n != order]
                if rest:
                    by_key.append((Punctuation(tuple(rest)), bound))
                else:
                    whole.append(bound)
    limit, closed_at = latest(whole)
    count = rows.num_rows
    limits = np.full(count, scale.limit(limit), scale.kind)
    ends = np.full(count, closed_at, np.bool_)
    if not by_key:
        return limits, ends
    codes, distinct = _distinct(rows, keys)
    best: list[Bound] = [(limit, closed_at)] * distinct.num_rows
    for p, bound in _by_constants(by_key, distinct, best):
        for i in np.flatnonzero(matching(Punctuations([p]), distinct)):
            best[i] = max(best[i], bound)
    limits = np.array([scale.limit(b[0]) for b in best], scale.kind)[codes]
    ends = np.array([b[1] for b in best], np.bool_)[codes]
    return limits, ends


def _by_constants(
    by_key: Sequence[tuple[Punctuation, Bound]], distinct: pa.Table, best: list[Bound]
) -> list[tuple[Punctuation, Bound]]:
    """Takes in the punctuations that have a constant for every key, by a look-up; gives the others."""
    names = distinct.column_names
    plain = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)
    if not all(any(is_plain(f.type) for is_plain in plain) for f in distinct.schema):
        return list(by_key)  # values of other types are not the same in Python
    cells = list(zip(*(distinct.column(n).to_pylist() for n in names), strict=True))
    places = {c: i for i, c in enumerate(cells)}
    others = []
    for p, bound in by_key:
        patterns = [p.at(n) for n in names]
        if not all(isinstance(q, Constant) for q in patterns):
            others.append((p, bound))
            continue
        at = places.get(tuple(q.value for q in patterns))  # type: ignore[union-attr]
        if at is not None:
            best[at] = max(best[at], bound)
    return others


def _distinct(rows: pa.Table, keys: Sequence[str]) -> tuple[Ints, pa.Table]:
    """The different keys of rows, and which of them each row has."""
    codes, count = _codes([column(rows, k) for k in keys], rows.num_rows)
    first = np.zeros(count, np.int64)
    first[codes[::-1]] = np.arange(rows.num_rows)[::-1]
    return codes, rows.select(list(keys)).take(pa.array(first))


def _codes(columns: Sequence[pa.Array], count: int) -> tuple[Ints, int]:
    """Numbers for the different rows of some columns."""
    codes = np.zeros(count, np.int64)
    for c in columns:
        encoded = pc.dictionary_encode(canonical(c), null_encoding="encode")
        part = np.asarray(encoded.indices.cast(pa.int64()))
        codes = codes * (int(part.max(initial=0)) + 1) + part
        _, codes = np.unique(codes, return_inverse=True)
    return codes.astype(np.int64), int(codes.max(initial=-1)) + 1


def codes_of(rows: pa.Table, keys: Sequence[str]) -> Ints:
    """Numbers for the different keys of rows."""
    return _codes([column(rows, k) for k in keys], rows.num_rows)[0]


class _Keyed:
    """Numbers for the keys of rows that two headers have in common, each pair once."""

    def __init__(self, rows: Mapping[str, pa.Table]):
        self.rows = rows
        self.known: dict[tuple[str, str, tuple[str, ...]], tuple[Ints, Ints, int]] = {}

    def codes(self, h: str, g: str, keys: tuple[str, ...]) -> tuple[Ints, Ints, int]:
        """The numbers of the rows of both, and how many there are."""
        if (h, g, keys) not in self.known:
            a, b = self.rows[h], self.rows[g]
            columns = []
            for k in keys:
                both = [column(a, k), column(b, k)]
                columns.append(pa.concat_arrays([canonical(c) for c in both]))
            codes, count = _codes(columns, a.num_rows + b.num_rows)
            self.known[h, g, keys] = codes[: a.num_rows], codes[a.num_rows :], max(count, 1)
        return self.known[h, g, keys]
