"""The maps of a stream: what waits, what its steps have kept, and what it has told.

    p:stream.header     rows that wait, in order (`pending.py`)
    s:stream.           the state that is below no key, as one text
    s:stream.n          the states of keys: of the n-th place where the stream is cut by key, from left to right
    b:stream.n.header   the rows of a bag that is below no key, until its frame ends
    t:stream.header     what was told, by version and place

States are texts (`codec.py`), or typed columns where they are those of one fold, found by typed keys, and replaced whole. `load` puts them into the shape that the kernel runs
on, where keys and bags are read when they are needed; `save` writes what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.calculus.types import BIGINT, INTEGRAL, Base, RecordType
from headwater.dataflow.rows import rows_of, values_of
from headwater.engine.change import schema_of
from headwater.engine.working import Working
from headwater.errors import StreamError
from headwater.folds.batch import Key, row_type, table_of
from headwater.folds.codec import as_text, of_texts
from headwater.folds.columnar import Columnar
from headwater.folds.instances import Node
from headwater.folds.kernel import Chain, Keys, Leaf, Marks, Sides
from headwater.folds.states import KeptBag, KeptTables
from headwater.interop.arrow_types import arrow_type
from headwater.io.values import converted
from headwater.plan.program import WEIGHT
from headwater.state.arrangement import Arrangement
from headwater.state.hashing import hash_keys
from headwater.state.keys import canonical
from headwater.state.run import LEAST, MOST, MapSpec, column
from headwater.streams.schema import Event, Header

COUNT, TEXT = "r0", "v0"
_COUNT = ((COUNT, pa.int64()),)
KEPT = "kept"
"""What stands in the text of a state for keys and bags that are in maps of their own."""
VERSION, PLACE = "_version", "_place"


KINDS = {
    "p": "rows that wait",
    "s": "the state of a stream",
    "b": "rows of a frame that is open",
    "t": "what a stream has told",
}
"""What the maps of a stream are, by how their names begin."""


def is_of_stream(name: str, streams: Collection[str]) -> bool:
    """Whether a map is one of these streams'."""
    kind, _, rest = name.partition(":")
    return kind in KINDS and rest.partition(".")[0] in streams


class Layout:
    """The maps of a stream's states, found by walking its node once."""

    def __init__(self, stream: str, node: Node, zone: str):
        self.stream, self.zone = stream, zone
        self.root = MapSpec(f"s:{stream}.", (), (*_COUNT, (TEXT, pa.large_string())), (), "latest")
        self.keys: dict[int, MapSpec] = {}
        self.key_types: dict[int, RecordType] = {}
        self.forms: dict[int, Form] = {}
        self.bags: dict[int, dict[str, tuple[MapSpec, Header]]] = {}
        self._places: dict[int, int] = {}
        self.spreading: list[Keys] = []
        """Where the stream is cut by key, which many rows may run elsewhere."""
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
                self._add_keys(node, t.keys, t.headers_in[node.headers[0]])
                self.spreading.append(node)
            case Columnar(keyed=keyed) if keyed is not None:
                self._add_keys(node, *keyed)
            case Columnar(bag=bag) if bag:
                self._add_bag(node, bag)
            case Leaf(t=t) if t.reads and (t.answer is not None or t.early is not None):
                self._add_bag(node, t.reads)

    def _add_bag(self, node: Node, headers: Mapping[str, Header]) -> None:
        """The maps of the rows of a bag."""
        n = self._numbered(node)
        self.bags[n] = {}
        for name, header in headers.items():
            key = tuple((f"k{i}", arrow_type(f)) for i, (_, f) in enumerate(header.fields))
            spec = MapSpec(f"b:{self.stream}.{n}.{name}", key, _COUNT, ())
            self.bags[n][name] = (spec, header)

    def _add_keys(self, node: Node, keys: Sequence[str], header: Header) -> None:
        """The map of the states of keys."""
        n, types = self._numbered(node), dict(header.fields)
        key = tuple((f"g{i}", arrow_type(types[k])) for i, k in enumerate(keys))
        self.key_types[n] = RecordType(tuple((k, types[k]) for k in keys))
        typed = Typed.of(node) if isinstance(node, Keys) else None
        self.forms[n] = typed or Texts()
        ring = (*_COUNT, *self.forms[n].ring)
        by = tuple(k for k, _ in key)
        self.keys[n] = MapSpec(f"s:{self.stream}.{n}", key, ring, by, "latest")

    def kept(self, n: int, at: Callable[[], Arrangement]) -> KeptKeys:
        """The states of keys in their map."""
        return KeptKeys(self.keys[n], self.key_types[n], self.forms[n], at, self.zone)

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


class Texts:
    """States as texts, in one column."""

    ring: tuple[tuple[str, pa.DataType], ...] = ((TEXT, pa.large_string()),)

    def columns(self, states: Sequence[Any]) -> dict[str, pa.Array]:
        """States as columns; None where a key is gone."""
        texts = [None if s is None else as_text(s) for s in states]
        return {TEXT: pa.array(texts, pa.large_string())}

    def states(self, table: pa.Table) -> list[Any]:
        """States from columns."""
        return of_texts(values_of(column(table, TEXT)))


class Typed:
    """The states of a fold in columns of their own types: of types whose values are the same inside and outside."""

    def __init__(self, fields: Sequence[tuple[str, Base]]):
        self.fields = tuple(fields)
        self.ring = tuple((f"v{i}", arrow_type(t)) for i, (_, t) in enumerate(self.fields))

    @staticmethod
    def of(node: Keys) -> Typed | None:
        """For keys below which is one fold over rows, whose state has such columns."""
        sub = node.sub
        if not isinstance(sub, Marks) or sub.sub is not None:
            return None
        fields = getattr(sub.t.update, "state", None)
        plain = (*INTEGRAL, "double", "boolean", "string", "date")
        if not fields or any(t.name not in plain for _, t in fields):
            return None
        return Typed(fields)

    def columns(self, states: Sequence[Any]) -> dict[str, pa.Array]:
        """States as columns; None where a key is gone."""
        gone = (None,) * len(self.fields)
        rows = [gone if s is None else s[0] for s in states]
        out = {}
        for i, ((n, t), (name, _)) in enumerate(zip(self.ring, self.fields, strict=True)):
            try:
                out[n] = pa.array(list(map(itemgetter(i), rows)), t)
            except (pa.ArrowException, OverflowError, TypeError, ValueError) as e:
                raise StreamError(
                    f"a state has a value in `{name}` that is no {t}: {e}",
                    hint="declare the column of the state with a type that has room for it",
                ) from e
        return out

    def states(self, table: pa.Table) -> list[Any]:
        """States from columns."""
        cells = [values_of(column(table, n)) for n, _ in self.ring]
        return [(y, None) for y in zip(*cells, strict=True)]


Form = Texts | Typed


class KeptKeys:
    """The states of keys in a map, and those that changed since."""

    def __init__(
        self,
        spec: MapSpec,
        row: RecordType,
        form: Form,
        at: Callable[[], Arrangement],
        zone: str,
        low: int = LEAST,
        high: int = MOST,
    ):
        """`at` gives the map; of all keys, those with hashes from `low` to `high` are meant."""
        self.spec, self.row, self.form, self.at, self.zone = spec, row, form, at, zone
        self.low, self.high = low, high
        self.writes: dict[Key, Any] = {}

    def some(self, keys: Sequence[Key]) -> list[Any]:
        """The states of some keys, None for one that has none."""
        asked = [k for k in keys if k not in self.writes]
        found: dict[int, Any] = {}
        if asked:
            table = keyed(self.spec, self.row, asked, self.zone)
            there = self.at().lookup(table)
            states = self.form.states(there)
            found = dict(zip(np.asarray(column(there, "_i")).tolist(), states, strict=True))
        numbers = {k: i for i, k in enumerate(asked)}
        return [self.writes[k] if k in self.writes else found.get(numbers[k]) for k in keys]

    def all(self) -> Mapping[Key, Any]:
        """The states of all keys."""
        out: dict[Key, Any] = {}
        for table in self.at().scan(self.low, self.high):
            keys = rows_of(table, [n for n, _ in self.spec.key])
            out |= dict(zip(keys, self.form.states(table), strict=True))
        return {k: s for k, s in {**out, **self.writes}.items() if s is not None}

    def changed(self, states: Mapping[Key, Any]) -> KeptKeys:
        """The same with other states for some keys."""
        self.writes |= states
        return self


def keyed(spec: MapSpec, row: RecordType, keys: Sequence[Key], zone: str) -> pa.Table:
    """Keys with their hash, to be looked up."""
    given = {n: list(map(itemgetter(i), keys)) for i, (n, _) in enumerate(row.fields)}
    made = converted("key", row, given, zone, False) if keys and row.fields else None
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
        case Columnar(keyed=None, bag=bag):
            n = layout.number(node)
            if not bag or n is None:
                return state
            return KeptTables(lambda h: _bag_table(layout, n, h, working), {})
        case Keys() | Columnar():
            n = layout.number(node)
            if n is None or state != KEPT:
                return state
            working.know(layout.keys[n])
            name = layout.keys[n].name
            return layout.kept(n, lambda: working.now(name))
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


def _bag_table(layout: Layout, n: int, name: str, working: Working) -> pa.Table:
    """The rows of a header of a bag, each as often as it is there."""
    spec, header = layout.bags[n][name]
    working.know(spec)
    fields = [f for f in schema_of(row_type(header)) if f.name != WEIGHT]
    schema = pa.schema(fields)
    tables = [schema.empty_table()]
    for table in working.now(spec.name).scan():
        counts = np.asarray(column(table, COUNT))
        cells = [column(table, k).cast(f.type) for (k, _), f in zip(spec.key, fields, strict=True)]
        made = pa.table(cells, schema=schema)
        if (counts != 1).any():
            made = made.take(pa.array(np.repeat(np.arange(len(counts)), counts)))
        tables.append(made)
    return pa.concat_tables(tables)


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
        case Columnar(keyed=None, bag=bag):
            return _saved_bag(layout, node, state, working) if bag else state
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
        old = layout.kept(n, lambda: working.now(spec.name)).all()
        writes = {**dict.fromkeys(old), **(state or {})}
    if writes:
        _put(working, spec, entries_of(spec, row, layout.forms[n], writes, layout.zone))
    return None if state is None else KEPT


def entries_of(
    spec: MapSpec, row: RecordType, form: Form, states: Mapping[Key, Any], zone: str
) -> pa.Table:
    """States of keys as entries of their map; None is a key that is gone."""
    table = keyed(spec, row, list(states), zone)
    there = pa.array([int(s is not None) for s in states.values()], pa.int64())
    table = table.append_column(COUNT, there)
    for name, values in form.columns(list(states.values())).items():
        table = table.append_column(name, values)
    return table


def _saved_bag(layout: Layout, node: Node, state: Any, working: Working) -> Any:
    n = layout.number(node)
    if n is None:
        return state
    given: dict[str, list[pa.Table]] = {}
    added: Sequence[Event] = ()
    if isinstance(state, KeptTables):
        given, ended = state.added, state.read is None
    elif isinstance(state, KeptBag):
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
        for table in [
            *given.get(name, ()),
            *([table_of(header, mine, layout.zone)] if mine else []),
        ]:
            if table.num_rows:
                cells = [column(table, c) for c in header.columns]
                tables.append(_changes(spec, cells, np.ones(table.num_rows, np.int64)))
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
