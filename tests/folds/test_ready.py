"""Which rows are ready: the rule over columns against its definition, which asks of every row that might still come.

Rows have few values, so that all rows that may stand before one can be listed; one value of each key is never closed by
itself, which stands for all that are not listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers

from headwater.calculus.patterns import (
    Pattern,
    Punctuation,
    Punctuations,
    above,
    below,
    between,
    constant,
    one_of,
    upto,
)
from headwater.calculus.types import BIGINT, DATE, DOUBLE, TIMESTAMP, Base
from headwater.engine.change import schema_of
from headwater.folds import ready as module
from headwater.folds.batch import row_type
from headwater.folds.ready import Ordered, ready
from headwater.folds.scale import Scale
from headwater.streams.order import depends
from headwater.streams.schema import Bag, Event, Header, Par, PartitionBy, Schema, Sync, headers_of
from random_schemas import KEYS, dependent, random_schema

TIMES = 5
"""Times are the numbers below, and one before them."""
VALUES = (0, 1, 2, None)
"""Values of keys; the last but one is never closed by itself."""


@dataclass(frozen=True)
class Case:
    """Rows of the headers of a schema that are there, and what is closed."""

    schema: Schema
    headers: Mapping[str, Header]
    clocks: frozenset[str]
    type: Base
    rows: Mapping[str, list[Any]]
    closed: Mapping[str, Punctuations]
    lasting: frozenset[str]

    def ready(self) -> dict[str, list[Any]]:
        """The rows that are ready, by the rule."""
        ordered = Ordered(self.schema, dict.fromkeys(self.headers, "t"), self.clocks)
        tables = {h: self._table(h) for h in self.headers}
        masks = ready(ordered, tables, self.closed, self.lasting, Scale(self.type))
        return {
            h: [r for r, is_ready in zip(self.rows[h], masks[h], strict=True) if is_ready]
            for h in self.headers
        }

    def _table(self, h: str) -> pa.Table:
        schema = schema_of(row_type(self.headers[h]))
        rows = self.rows[h]
        cells = [[r[i] for r in rows] for i in range(len(schema) - 1)]
        arrays = [pa.array(c, f.type) for c, f in zip(cells, schema, strict=False)]
        ones = pa.array(np.ones(len(rows), np.int64))
        return pa.table([*arrays, ones], schema=schema)

    # --- the definition -----------------------------------------------------------------------------------

    def meant(self, barrier: bool = True) -> dict[str, list[Any]]:
        """The rows that are ready, by definition; without the barrier, those that everything is closed for."""
        out: dict[str, list[Any]] = {h: [] for h in self.headers}
        waits: list[Event] = []
        events = [Event(h, r) for h, rows in self.rows.items() for r in rows]
        for x in sorted(events, key=self._place):
            lasts = x.header in self.lasting | self.clocks or self._is_closed(x)
            fine = lasts and all(map(self._is_closed, self._before(x)))
            if fine and barrier:
                fine = not any(self._depends(x, y) for y in waits if self._stands_before(y, x))
            if fine:
                out[x.header].append(x.row)
            else:
                waits.append(x)
        return out

    def _place(self, x: Event) -> Any:
        names = self.headers[x.header].columns
        depth = _depth(self.schema, x.header)
        cells = tuple((c is not None, c) for c in x.row)
        return x.row[names.index("t")], depth, x.header not in self.clocks, x.header, cells

    def _stands_before(self, y: Event, x: Event) -> bool:
        """A row that is equal in order is of the same header, and may be either."""
        a, b = self._place(y)[:-1], self._place(x)[:-1]
        return bool(a <= b)

    def _depends(self, x: Event, y: Event) -> bool:
        return dependent(self.schema, self.headers, x, y)

    def _before(self, x: Event) -> Iterator[Event]:
        """All rows that may still come, stand before a row, and matter to it."""
        for h in self.headers:
            keys = depends(self.schema, x.header, h)
            if h in self.clocks or keys is None:
                continue
            mine = {k: x.row[self.headers[x.header].columns.index(k)] for k in keys}
            names = self.headers[h].columns
            domains = [[mine[c]] if c in mine else _domain(c, self.type, True) for c in names]
            for cells in product(*domains):
                y = Event(h, self.headers[h].row(*cells))
                if self._stands_before(y, x):
                    yield y

    def _is_closed(self, y: Event) -> bool:
        names = self.headers[y.header].columns
        cells = {n: _plain(c) for n, c in zip(names, y.row, strict=True)}
        return y.header in self.clocks or bool(self.closed[y.header].matches(cells))


def _depth(schema: Schema, header: str) -> int:
    match schema:
        case Bag():
            return 0
        case Sync(headers, sub):
            return 0 if header in headers else 1 + _depth(sub, header)
        case PartitionBy(_, sub):
            return _depth(sub, header)
        case Par(parts):
            return next(_depth(p, header) for p in parts if header in headers_of(p))


def _domain(column: str, type: Base, finely: bool = False) -> list[Any]:
    """The values of a column; finely, also those between the times of rows."""
    if column in KEYS:
        return list(VALUES)
    if column == "t":
        more = (0.5, *((0.25, 0.75) if finely else ()))
        halves = more if type in (DOUBLE, TIMESTAMP) else ()
        return [at(n + part, type) for n in range(-1, TIMES + 1) for part in (0, *halves)]
    return [0]


def at(number: float, type: Base) -> Any:
    """A time, of the type that rows are ordered by."""
    if type == DATE:
        return date(2024, 2, 27) + timedelta(days=int(number))
    if type == TIMESTAMP:
        return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
    return float(number) if type == DOUBLE else number


def _plain(value: Any) -> Any:
    """A value as patterns have it: instants without a zone."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


# --- random cases -----------------------------------------------------------------------------------------


def drawn(seed: int, prefixes: bool = True) -> Case:
    """A random case; without prefixes, some times are closed before those that come before them are."""
    rng = Random(seed)
    type = rng.choice([BIGINT, BIGINT, DOUBLE, DATE, TIMESTAMP])
    names = "abcd"[: rng.randint(1, 4)]
    headers = {}
    for n in names:
        keys = [(k, BIGINT) for k in KEYS if rng.random() < 0.8]
        headers[n] = Header(n, (*keys, ("t", type), ("v", BIGINT)))
    schema = random_schema(rng, headers)
    clocks = frozenset[str]()
    if rng.random() < 0.4:  # around everything, or around what a part has
        headers["hour"] = Header("hour", (("t", type),))
        clocks = frozenset({"hour"})
        schema = Sync("hour", schema)
    rows: dict[str, list[Any]] = {}
    for n, header in headers.items():
        if n in clocks:
            rows[n] = [header.row(at(3 * i, type)) for i in range(TIMES // 3 + 1)]
            continue
        first = at(0, type)  # something may stand before all that are there
        domains = [[v for v in _domain(c, type) if c != "t" or v >= first] for c in header.columns]
        made = {tuple(rng.choice(d) for d in domains) for _ in range(rng.randrange(5))}
        rows[n] = [header.row(*cells) for cells in made]
    closed = {n: _closed(rng, headers[n], type, prefixes) for n in headers if n not in clocks}
    lasting = frozenset(n for n in names if rng.random() < 0.2)
    return Case(schema, headers, clocks, type, rows, closed, lasting)


def _closed(rng: Random, header: Header, type: Base, prefixes: bool) -> Punctuations:
    types = {n: t for n, t in header.fields if isinstance(t, Base)}
    out = Punctuations((), types)
    for _ in range(rng.choice([0, 1, 2, 3, 4])):
        columns: dict[str, Pattern] = {}
        for k in KEYS:
            if k in types and rng.random() < 0.4:
                some = [constant(0), constant(1), constant(None), one_of([0, 1]), below(2)]
                columns[k] = rng.choice(some)
        if rng.random() < 0.95:
            columns["t"] = _times(rng, type, prefixes)
        out = out.add(Punctuation.of(columns))
    return out


def _times(rng: Random, type: Base, prefixes: bool) -> Pattern:
    a, b = (_plain(at(rng.randrange(TIMES + 2), type)) for _ in range(2))
    some = [below(a), upto(a)]
    if not prefixes:
        some += [above(a), constant(a), between(min(a, b), max(a, b))]
    return rng.choice(some)


# --- laws -------------------------------------------------------------------------------------------------


def compare(seed: int) -> tuple[int, int]:
    """How many rows are ready and how many wait, which the rule and the definition agree on."""
    case = drawn(seed)
    found, meant = case.ready(), case.meant()
    for h in case.headers:
        assert sorted(map(repr, found[h])) == sorted(map(repr, meant[h])), (seed, h, case)
    count = sum(map(len, found.values()))
    return count, sum(map(len, case.rows.values())) - count


@pytest.mark.parametrize("cases", [250, pytest.param(10_000, marks=pytest.mark.slow)])
def test_ready_rows_are_those_of_the_definition(cases: int) -> None:
    counts = [compare(seed) for seed in range(cases)]
    assert sum(c[0] for c in counts) > cases / 2 and sum(c[1] for c in counts) > cases / 2


@pytest.mark.property
@given(integers(min_value=100_000))
@settings(max_examples=settings().max_examples // 2, deadline=None)
def test_ready_rows_of_any_case(seed: int) -> None:
    compare(seed)


def test_what_is_not_closed_from_the_first_time_on() -> None:
    """Times that are closed in the middle may make nothing ready, and never too much."""
    for seed in range(200):
        case = drawn(seed, prefixes=False)
        found, meant = case.ready(), case.meant()
        for h in case.headers:
            more = Counter(map(repr, found[h])) - Counter(map(repr, meant[h]))
            assert not more, (seed, h, case)


# --- wrong rules ------------------------------------------------------------------------------------------


def no_barrier(*args: Any) -> None:
    """Rows pass one that waits."""


def by_any_key(closed: Punctuations, *args: Any) -> Any:
    """What is closed for one key is closed for all."""
    order = args[0]
    wide = [Punctuation.of({order: p.at(order)}) for p in closed]
    return COVERED(Punctuations(wide), *args)


COVERED = module._covered
WRONG = {"_hold_back": no_barrier, "_covered": by_any_key}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, name, WRONG[name])
    with pytest.raises(AssertionError):
        for seed in range(400):
            compare(seed)


def test_the_barrier_matters() -> None:
    """There are rows that everything is closed for, behind one that waits."""
    passing = 0
    for seed in range(100):
        case = drawn(seed)
        passing += case.meant(barrier=False) != case.meant()
    assert passing > 0
