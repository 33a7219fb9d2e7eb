"""The maps of a stream: what waits, what its steps have kept, and what it has told.

    p:stream.header     rows that wait, in order (`pending.py`)
    s:stream.           the state that is below no key, as one text
    s:stream.n          the states of keys: of the n-th place where the stream is cut by key, from left to right
    b:stream.n.header   the rows of a bag that is below no key, until its frame ends
    t:stream.header     what was told, by version and place

States are texts (`codec.py`), found by typed keys, and replaced whole. `load` puts them into the shape that the kernel runs
on, where keys and bags are read when they are needed; `save` writes what changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.calculus.types import BIGINT, RecordType
from headwater.dataflow.rows import rows_of, values_of
from headwater.engine.change import schema_of
from headwater.engine.working import Working
from headwater.folds.batch import Key, row_type, table_of
from headwater.folds.codec import as_text, of_texts
from headwater.folds.columnar import Columnar
from headwater.folds.kernel import Chain, Keys, Leaf, Marks, Node, Sides
from headwater.folds.states import KeptBag
from headwater.interop.arrow_types import arrow_type
from headwater.io.values import converted
from headwater.plan.program import WEIGHT
from headwater.state.arrangement import Arrangement
from headwater.state.hashing import hash_keys
from headwater.state.keys import canonical
from headwater.state.run import MapSpec, column
from headwater.streams.schema import Event, Header

COUNT, TEXT = "r0", "v0"
_COUNT = ((COUNT, pa.int64()),)
KEPT = "kept"
"""What stands in the text of a state for keys and bags that are in maps of their own."""
VERSION, PLACE = "_version", "_place"


class Layout:
    """The maps of a stream's states, found by walking its node once."""

    def __init__(self, stream: str, node: Node, zone: str):
        self.stream, self.zone = stream, zone
        self.root = MapSpec(f"s:{stream}.", (), (*_COUNT, (TEXT, pa.large_string())), (), "latest")
        self.keys: dict[int, MapSpec] = {}
        self.key_types: dict[int, RecordType] = {}
        self.bags: dict[int, dict[str, tuple[MapSpec, Header]]] = {}
        self._places: dict[int, int] = {}
        self._walk(node)

    def _walk(self, node: Node) -> None:
        match node:
            case Marks(sub=sub):
                if sub is not None:
                    self._walk(sub)
            case Sides(left=left, right=right):
                self._walk(left)
                self._walk(right)
            case Chain(first=first, second=second):
                self._walk(first)
                self._walk(second)
            case Keys(t=t) if node.headers:  # without a header below there is never a key
                self._add_keys(node, t.keys, next(iter(t.headers_in[h] for h in node.headers)))
            case Columnar(keyed=keyed) if keyed is not None:
                self._add_keys(node, *keyed)
            case Leaf(t=t) if t.reads and (t.answer is not None or t.early is not None):
                n = self._numbered(node)
                self.bags[n] = {}
                for name, header in t.reads.items():
                    key = tuple((f"k{i}", arrow_type(f)) for i, (_, f) in enumerate(header.fields))
                    spec = MapSpec(f"b:{self.stream}.{n}.{name}", key, _COUNT, ())
                    self.bags[n][name] = (spec, header)

    def _add_keys(self, node: Node, keys: Sequence[str], header: Header) -> None:
        """The map of the states of keys."""
        n, types = self._numbered(node), dict(header.fields)
        key = tuple((f"g{i}", arrow_type(types[k])) for i, k in enumerate(keys))
        self.key_types[n] = RecordType(tuple((k, types[k]) for k in keys))
        ring = (*_COUNT, (TEXT, pa.large_string()))
        by = tuple(k for k, _ in key)
        self.keys[n] = MapSpec(f"s:{self.stream}.{n}", key, ring, by, "latest")

    def _numbered(self, node: Node) -> int:
        return self._places.setdefault(id(node), len(self._places))

    def number(self, node: Node) -> int | None:
        """The number of a place with keys or a bag of its own; None for one without."""
        return self._places.get(id(node))

    @property
    def specs(self) -> list[MapSpec]:
        """All maps of states."""
        bags = [spec for found in self.bags.values() for spec, _ in found.values()]
        return [self.root, *self.keys.values(), *bags]


class KeptKeys:
    """The states of keys in a map, and those that changed since."""

    def __init__(self, spec: MapSpec, row: RecordType, working: Working, zone: str):
        self.spec, self.row, self.working, self.zone = spec, row, working, zone
        self.writes: dict[Key, Any] = {}

    def some(self, keys: Sequence[Key]) -> list[Any]:
        """The states of some keys, None for one that has none."""
        asked = [k for k in keys if k not in self.writes]
        found: dict[int, Any] = {}
        if asked:
            table = keyed(self.spec, self.row, asked, self.zone)
            there = self.working.now(self.spec.name).lookup(table)
            states = of_texts(values_of(column(there, TEXT)))
            found = dict(zip(np.asarray(column(there, "_i")).tolist(), states, strict=True))
        numbers = {k: i for i, k in enumerate(asked)}
        return [self.writes[k] if k in self.writes else found.get(numbers[k]) for k in keys]

    def all(self) -> Mapping[Key, Any]:
        """The states of all keys."""
        out: dict[Key, Any] = {}
        for table in self.working.now(self.spec.name).scan():
            keys = rows_of(table, [n for n, _ in self.spec.key])
            out |= dict(zip(keys, of_texts(values_of(column(table, TEXT))), strict=True))
        return {k: s for k, s in {**out, **self.writes}.items() if s is not None}

    def changed(self, states: Mapping[Key, Any]) -> KeptKeys:
        """The same with other states for some keys."""
        self.writes |= states
        return self


def keyed(spec: MapSpec, row: RecordType, keys: Sequence[Key], zone: str) -> pa.Table:
    """Keys with their hash, to be looked up."""
    cells = list(zip(*keys, strict=True)) if keys and row.fields else []
    given = dict(zip((n for n, _ in row.fields), cells, strict=True))
    made = converted("key", row, given, zone, False) if cells else None
    arrays = [] if made is None else [column(made, n) for n, _ in row.fields]
    h = hash_keys([canonical(a) for a in arrays], len(keys))
    return pa.table([pa.array(h), *arrays], ["_h", *spec.lookup])


# --- loading and saving ------------------------------------------------------------------------------------


def load(layout: Layout, node: Node, working: Working) -> tuple[Any, Any]:
    """The state of a stream for its kernel, and what is kept beside it; None for both at the beginning."""
    working.know(layout.root)
    one = pa.table({"_h": pa.array([0], pa.int64())})
    found = working.now(layout.root.name).lookup(one)
    if not found.num_rows:
        return None, None
    state, beside = of_texts(values_of(column(found, TEXT)))[0]
    return _loaded(layout, node, state, working), beside


def _loaded(layout: Layout, node: Node, state: Any, working: Working) -> Any:
    if state is None:
        return None
    match node:
        case Marks(sub=sub):
            y, below = state
            return y, None if sub is None else _loaded(layout, sub, below, working)
        case Sides(left=left, right=right) | Chain(first=left, second=right):
            a, b = state
            return _loaded(layout, left, a, working), _loaded(layout, right, b, working)
        case Columnar(keyed=None):
            return state
        case Keys() | Columnar():
            n = layout.number(node)
            if n is None or state != KEPT:
                return state
            working.know(layout.keys[n])
            return KeptKeys(layout.keys[n], layout.key_types[n], working, layout.zone)
        case Leaf():
            n = layout.number(node)
            if n is None or state != KEPT:
                return state
            return KeptBag(lambda: list(_bag(layout, n, working)))
    raise AssertionError(node)


def _bag(layout: Layout, n: int, working: Working) -> Iterator[Event]:
    """The rows of a bag, each as often as it is there."""
    for name, (spec, header) in layout.bags[n].items():
        working.know(spec)
        for table in working.now(spec.name).scan():
            counts = np.asarray(column(table, COUNT)).tolist()
            made: Any = header.row
            for row, count in zip(rows_of(table, [k for k, _ in spec.key]), counts, strict=True):
                yield from [Event(name, made(*row))] * count


def save(layout: Layout, node: Node, state: Any, beside: Any, working: Working) -> None:
    """Writes the state of a stream after a run."""
    text = as_text((_saved(layout, node, state, working), beside))
    working.know(layout.root)
    arrays = [
        pa.array([0], pa.int64()),
        pa.array([1], pa.int64()),
        pa.array([text], pa.large_string()),
    ]
    entries = pa.table(arrays, ["_h", COUNT, TEXT])
    _put(working, layout.root, entries)


def _saved(layout: Layout, node: Node, state: Any, working: Working) -> Any:
    """What of a state stands in the one text; the rest goes to its own maps, and what is there and is over goes."""
    match node:
        case Marks(sub=sub):
            y, below = (None, None) if state is None else state
            kept = None if sub is None else _saved(layout, sub, below, working)
            return None if state is None else (y, kept)
        case Sides(left=left, right=right) | Chain(first=left, second=right):
            a, b = (None, None) if state is None else state
            both = (_saved(layout, left, a, working), _saved(layout, right, b, working))
            return None if state is None else both
        case Columnar(keyed=None):
            return state
        case Keys() | Columnar():
            return _saved_keys(layout, node, state, working)
        case Leaf():
            return _saved_bag(layout, node, state, working)
    raise AssertionError(node)


def _saved_keys(layout: Layout, node: Node, state: Any, working: Working) -> Any:
    n = layout.number(node)
    if n is None:
        return state
    spec, row = layout.keys[n], layout.key_types[n]
    working.know(spec)
    if isinstance(state, KeptKeys):
        writes = state.writes
    else:  # a frame has ended since: what is there is over
        old = KeptKeys(spec, row, working, layout.zone).all()
        writes = {**dict.fromkeys(old), **(state or {})}
    if writes:
        keys = list(writes)
        table = keyed(spec, row, keys, layout.zone)
        texts = [None if s is None else as_text(s) for s in writes.values()]
        there = pa.array([int(t is not None) for t in texts], pa.int64())
        table = table.append_column(COUNT, there)
        _put(working, spec, table.append_column(TEXT, pa.array(texts, pa.large_string())))
    return None if state is None else KEPT


def _saved_bag(layout: Layout, node: Node, state: Any, working: Working) -> Any:
    n = layout.number(node)
    if n is None:
        return state
    if isinstance(state, KeptBag):
        added, ended = state.added, False
    else:
        added, ended = list(state or []), True
    for name, (spec, header) in layout.bags[n].items():
        working.know(spec)
        tables = []
        if ended:
            for table in working.now(spec.name).scan():
                gone = -np.asarray(column(table, COUNT))
                tables.append(_changes(spec, [column(table, k) for k, _ in spec.key], gone))
        mine = [e[1] for e in added if e[0] == name]
        if mine:
            table = table_of(header, mine, layout.zone)
            cells = [column(table, c) for c in header.columns]
            tables.append(_changes(spec, cells, np.ones(len(mine), np.int64)))
        if tables:
            changes = pa.concat_tables(tables)
            entries, _ = Arrangement(spec, (), working.runs).merge(changes, blind=True)
            working.add(spec.name, entries)
    return None if state is None else KEPT


def _changes(spec: MapSpec, cells: Sequence[pa.Array], counts: Any) -> pa.Table:
    h = pa.array(np.zeros(len(counts), np.int64))
    names = ["_h", *(k for k, _ in spec.key), COUNT]
    return pa.table([h, *cells, pa.array(counts)], names)


def _put(working: Working, spec: MapSpec, entries: pa.Table) -> None:
    working.next_round()
    working.add(spec.name, Arrangement(spec, (), working.runs).put(entries))


# --- what was told -----------------------------------------------------------------------------------------


def told_spec(stream: str, header: Header) -> MapSpec:
    """The map of what a stream has told of a header, by version and place."""
    cells = tuple((f"k{i}", arrow_type(t)) for i, (_, t) in enumerate(header.fields))
    key = ((VERSION, arrow_type(BIGINT)), (PLACE, arrow_type(BIGINT)), *cells)
    return MapSpec(f"t:{stream}.{header.name}", key, _COUNT, (VERSION,))


def write_told(
    working: Working, spec: MapSpec, header: Header, table: pa.Table, places: Any, version: int
) -> None:
    """Rows that a version tells, with their places."""
    working.know(spec)
    versions = pa.repeat(pa.scalar(version, pa.int64()), table.num_rows)
    cells = [column(table, c) for c in header.columns]
    arrays = [versions, pa.array(places), *cells]
    h = hash_keys([versions], table.num_rows)
    ones = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
    names = ["_h", *(k for k, _ in spec.key), COUNT]
    changes = pa.table([pa.array(h), *arrays, ones], names)
    entries, _ = Arrangement(spec, (), working.runs).merge(changes, blind=True)
    working.add(spec.name, entries)


def read_told(arrangement: Arrangement, header: Header, since: int, until: int) -> pa.Table:
    """What was told after a version up to another, with `_place` and `_version`, in order."""
    schema = schema_of(row_type(header))
    fields = [f for f in schema if f.name != WEIGHT]
    whole = pa.schema([*fields, (PLACE, pa.int64()), (VERSION, pa.int64())])
    tables = [whole.empty_table()]
    for table in arrangement.scan():
        cells = [column(table, f"k{i}").cast(f.type) for i, f in enumerate(fields)]
        more = [column(table, PLACE), column(table, VERSION)]
        tables.append(pa.table([*cells, *more], schema=whole))
    found = pa.concat_tables(tables)
    versions = np.asarray(column(found, VERSION))
    wanted = (versions > since) & (versions <= until)
    return found.filter(pa.array(wanted)).sort_by([(VERSION, "ascending"), (PLACE, "ascending")])
