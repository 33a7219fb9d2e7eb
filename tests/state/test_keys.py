"""Keys of every Spark SQL type: equal, apart and in order as Spark has them, in any form of Arrow table.

For each type, values are drawn from few, so that equal ones meet; `canon` says in Python which are equal
(one NaN, no negative zero, NULL equals NULL) and `rank` how Spark orders them (NULL first, NaN greatest, text
by its bytes, arrays by their elements). The hash is weak, so that keys are told apart by themselves. Input
comes whole, sliced, in chunks, as dictionaries, as large strings, and with rubbish under its NULLs.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.state import arrangement
from headwater.state.arrangement import Arrangement
from headwater.state.compaction import compact
from headwater.state.ends import first_k
from headwater.state.files import Entry
from headwater.state.run import MapSpec, Order, RunRef, Runs
from headwater.state.writing import Writer

Plain = Any
Batch = list[tuple[Any, int]]


@dataclass(frozen=True)
class Kind:
    """A type of key: values to draw, which are equal, and how they are ordered (None apart)."""

    name: str
    type: pa.DataType
    values: st.SearchStrategy[Any]
    canon: Callable[[Any], Plain] = lambda v: v
    rank: Callable[[Any], Any] = lambda v: v

    def same(self, value: Any) -> Plain:
        return None if value is None else (self.canon(value),)

    def place(self, value: Any) -> Any:
        return (0,) if value is None else (1, self.rank(value))

    @property
    def nullable(self) -> st.SearchStrategy[Any]:
        return st.one_of(st.none(), self.values, self.values, self.values)


def one_nan(value: float) -> Plain:
    return "NaN" if math.isnan(value) else value + 0.0


def nan_last(value: float) -> Any:
    return (1, 0.0) if math.isnan(value) else (0, value + 0.0)


def moment(value: datetime) -> int:
    """Microseconds since 1970, wherever the clock hangs."""
    since = value.replace(tzinfo=value.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1)


def nan(bits: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value


NANS = [nan(0x7FF8 << 48), nan(0xFFF8 << 48), nan((0x7FF8 << 48) + 1), nan(0xFFFF << 48)]
REALS = [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, 2.0**-149, *NANS]


WIDE = Context(prec=40)


def whole(bits: int) -> st.SearchStrategy[int]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return st.sampled_from([0, 1, -1, low, high, 100, -100]) | st.integers(low, high)


def digits(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    some = st.sampled_from([0, 1, -1, most, -most, 256, -256]) | st.integers(-most, most)
    return some.map(lambda i: Decimal(i).scaleb(-scale, context=WIDE))


def days(n: int) -> date:
    return date(1970, 1, 1) + timedelta(days=n)


def micros(zone: Any) -> st.SearchStrategy[datetime]:
    some = st.sampled_from([0, 1, -1, 10**15, -(10**15), 256])
    return some.map(lambda i: datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=i))


TEXTS = ["", "a", "b", "aa", "é", "\u00ff", "\uffff", "\U0001f600", "a\0", "a\0b", "\0"]
FLAT = [
    Kind("tinyint", pa.int8(), whole(8)),
    Kind("smallint", pa.int16(), whole(16)),
    Kind("int", pa.int32(), whole(32)),
    Kind("bigint", pa.int64(), whole(64)),
    Kind("decimal(5,2)", pa.decimal128(5, 2), digits(5, 2)),
    Kind("decimal(18,4)", pa.decimal128(18, 4), digits(18, 4)),
    Kind("decimal(38,0)", pa.decimal128(38, 0), digits(38, 0)),
    Kind("decimal(38,38)", pa.decimal128(38, 38), digits(38, 38)),
    Kind("string", pa.string(), st.sampled_from(TEXTS), rank=lambda v: v.encode()),
    Kind(
        "binary",
        pa.binary(),
        st.sampled_from([b"", b"a", b"\0", b"\0\0", b"\xff", b"\x80a", b"a\0\1"]),
    ),
    Kind("date", pa.date32(), st.sampled_from([0, 1, -1, 20000, -20000, 256]).map(days)),
    Kind("timestamp", pa.timestamp("us", "UTC"), micros(UTC), moment, moment),
    Kind("timestamp_ntz", pa.timestamp("us"), micros(None), moment, moment),
    Kind("boolean", pa.bool_(), st.booleans()),
    Kind("float", pa.float32(), st.sampled_from(REALS), one_nan, nan_last),
    Kind("double", pa.float64(), st.sampled_from([*REALS, 5e-324]), one_nan, nan_last),
]
ALL = {k.name: k for k in FLAT}


def structs(*fields: Kind) -> Kind:
    """A struct; NULL is not a struct of NULLs."""
    names = [f"f{i}" for i in range(len(fields))]
    return Kind(
        f"struct<{', '.join(f.name for f in fields)}>",
        pa.struct([(n, f.type) for n, f in zip(names, fields, strict=True)]),
        st.fixed_dictionaries({n: f.nullable for n, f in zip(names, fields, strict=True)}),
        lambda v: tuple(f.same(v[n]) for n, f in zip(names, fields, strict=True)),
        lambda v: [f.place(v[n]) for n, f in zip(names, fields, strict=True)],
    )


def arrays(of: Kind) -> Kind:
    """An array, ordered by its first element that differs, then by length."""
    return Kind(
        f"array<{of.name}>",
        pa.list_(of.type),
        st.lists(of.nullable, max_size=3),
        lambda v: ("array", *(of.same(x) for x in v)),
        lambda v: [of.place(x) for x in v],
    )


PAIR = structs(ALL["int"], ALL["double"])
NESTED = [
    *(structs(k) for k in FLAT),
    *(arrays(k) for k in FLAT),
    PAIR,
    structs(ALL["string"], PAIR, ALL["boolean"]),
    structs(arrays(ALL["string"]), ALL["date"]),
    arrays(PAIR),
    arrays(arrays(ALL["string"])),
    arrays(structs(ALL["binary"], arrays(ALL["decimal(5,2)"]))),
]
KINDS = pytest.mark.parametrize("kind", [*FLAT, *NESTED], ids=lambda k: k.name)


class Memory:
    """A file system in a dict: what a test of keys needs of one."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}

    def write(self, path: str, chunks: Iterable[bytes | memoryview | pa.Buffer]) -> int:
        self.content[path] = b"".join(bytes(memoryview(c)) for c in chunks)
        return len(self.content[path])

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self.content.setdefault(path, data) is data

    def read(self, path: str) -> bytes:
        return self.content[path]

    def map(self, path: str) -> pa.Buffer:
        return pa.py_buffer(self.content[path])

    def list(self, folder: str) -> list[Entry]:
        return []

    def delete(self, path: str) -> None:
        del self.content[path]

    def now(self) -> float:
        return 0.0


# --- forms of input -----------------------------------------------------------------------------------------


def as_is(values: list[Any], t: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, t)])


def sliced(values: list[Any], t: pa.DataType) -> pa.ChunkedArray:
    """A slice of a longer array, which begins in the middle of a byte of validity."""
    longer = [*values[-3:], *values, *values[:2]]
    return pa.chunked_array([pa.array(longer, t).slice(len(values[-3:]), len(values))])


def chunked(values: list[Any], t: pa.DataType) -> pa.ChunkedArray:
    """Chunks of two rows, sliced, with an empty one between."""
    pairs = [sliced(values[i : i + 2], t).chunk(0) for i in range(0, len(values), 2)]
    return pa.chunked_array([*pairs[:1], pa.array([], t), *pairs[1:]], t)


def encoded(values: list[Any], t: pa.DataType) -> pa.ChunkedArray:
    """Dictionaries, another one for each chunk; nested types have none."""
    if pa.types.is_nested(t):
        return as_is(values, t)
    chunks = [c.dictionary_encode() for c in chunked(values, t).chunks]
    return pa.chunked_array(chunks, pa.dictionary(pa.int32(), t))


def large(values: list[Any], t: pa.DataType) -> pa.ChunkedArray:
    return as_is(values, larger(t))


def larger(t: pa.DataType) -> pa.DataType:
    """The type with 64-bit offsets everywhere."""
    if pa.types.is_struct(t):
        return pa.struct([(f.name, larger(f.type)) for f in t])
    if pa.types.is_list(t):
        return pa.large_list(larger(t.value_type))
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(t, t)


def over_rubbish(values: list[Any], t: pa.DataType) -> pa.ChunkedArray:
    """NULLs that hide some other value."""
    present = [v for v in values if v is not None]
    if not present:
        return as_is(values, t)
    absent = pa.array([v is None for v in values])
    full = pa.array([present[0] if v is None else v for v in values], t)
    if pa.types.is_struct(t):
        fields = [full.field(i) for i in range(t.num_fields)]
        made = pa.StructArray.from_arrays(fields, fields=list(t), mask=absent)
    elif pa.types.is_list(t):
        made = pa.ListArray.from_arrays(full.offsets, full.values, mask=absent)
    else:
        valid = pa.array([v is not None for v in values]).buffers()[1]
        made = pa.Array.from_buffers(t, len(values), [valid, *full.buffers()[1:]])
    return pa.chunked_array([made])


FORMS = st.sampled_from([as_is, sliced, chunked, encoded, large, over_rubbish])


def weak(plain: Plain) -> int:
    """A hash with three values, one of them at each end."""
    return [-(1 << 63), 0, (1 << 63) - 1][zlib.crc32(repr(plain).encode()) % 3]


# --- equal and apart ----------------------------------------------------------------------------------------


@KINDS
@pytest.mark.property
@settings(max_examples=max(12, settings().max_examples // 20))
@given(data=st.data())
def test_equal_keys_are_one_entry(kind: Kind, data: st.DataObject) -> None:
    """Equal keys meet within a batch, over runs, in look-ups and in compactions; others stay apart."""
    mode = data.draw(st.sampled_from(["change", "value"]))
    change = st.tuples(kind.nullable, st.sampled_from([1, 1, 2, -1]))
    batches = data.draw(st.lists(st.lists(change, max_size=9), min_size=1, max_size=4))
    probes = data.draw(st.lists(kind.nullable, max_size=5))
    forms = [data.draw(FORMS) for _ in batches]
    spec = MapSpec("m", (("k", kind.type),), (("n", pa.int64()),), ("k",), mode)
    files = Memory()
    runs, refs, model = Runs(files), list[RunRef](), dict[Plain, int]()
    with patch.object(arrangement, "CROWDED", data.draw(st.sampled_from([0, 8]))):
        for i, (batch, form) in enumerate(zip(batches, forms, strict=True)):
            keys = [k for k, _ in batch]
            table = probe_table(kind, keys, form).append_column(
                "n", pa.array([n for _, n in batch], pa.int64())
            )
            entries, touched = Arrangement(spec, refs, runs).merge(table)
            assert touched is not None
            old, model = model, dict(model)
            for k, n in batch:
                model[kind.same(k)] = model.get(kind.same(k), 0) + n
            changed = {p for p in map(kind.same, keys) if model[p] != old.get(p, 0)}
            model = {p: n for p, n in model.items() if n}
            told = [kind.same(k) for k in touched.keys.column("k").to_pylist()]
            assert len(told) == len(set(told)) and set(told) == set(map(kind.same, keys))
            assert {kind.same(k) for k in entries.column("k").to_pylist()} == changed
            assert touched.old.column("n").to_pylist() == [old.get(p, 0) for p in told]
            assert touched.new.column("n").to_pylist() == [model.get(p, 0) for p in told]
            refs = [*refs, *written(files, spec, [entries], i + 1)]
            same(kind, Arrangement(spec, refs, runs), model, probes, data.draw(FORMS))
        for some in (refs[1:], refs):
            if some:
                writer = Writer(files, "compact")
                compact(Arrangement(spec, refs, runs), some, writer)
                rest = [r for r in refs if r not in some]
                new = [*rest, *(r for _, r in writer.close())]
                same(kind, Arrangement(spec, new, runs), model, probes, as_is)


def written(files: Memory, spec: MapSpec, tables: list[pa.Table], generation: int) -> list[RunRef]:
    writer = Writer(files, "run")
    writer.add(spec, tables, (generation, 0))
    return [ref for _, ref in writer.close()]


def probe_table(kind: Kind, keys: list[Any], form: Callable[..., pa.ChunkedArray]) -> pa.Table:
    hashes = pa.array([weak(kind.same(k)) for k in keys], pa.int64())
    return pa.table({"_h": hashes, "k": form(keys, kind.type)})


def same(
    kind: Kind,
    arrangement: Arrangement,
    model: dict[Plain, int],
    probes: list[Any],
    form: Callable[..., pa.ChunkedArray],
) -> None:
    """The map has the model's entries, and look-ups of old and new values find them."""
    tables = list(arrangement.scan())
    keys = [k for t in tables for k in t.column("k").to_pylist()]
    counts = [n for t in tables for n in t.column("n").to_pylist()]
    assert len(keys) == len(model)
    assert dict(zip(map(kind.same, keys), counts, strict=True)) == model
    for wanted in (probes, [*keys, *probes, *keys[:1]]):
        found = arrangement.lookup(probe_table(kind, wanted, form))
        answers = zip(
            found.column("_i").to_pylist(),
            map(kind.same, found.column("k").to_pylist()),
            found.column("n").to_pylist(),
            strict=True,
        )
        plain = list(enumerate(map(kind.same, wanted)))
        assert sorted(answers, key=repr) == sorted(
            ((i, p, model[p]) for i, p in plain if p in model), key=repr
        )


# --- in order -----------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.property
@settings(max_examples=max(12, settings().max_examples // 20))
@given(data=st.data())
def test_order(kind: Kind, data: st.DataObject) -> None:
    """A group's entries come as Spark orders them, up or down, NULLs first or last."""
    order = Order(
        "k", data.draw(st.booleans(), "descending"), data.draw(st.booleans(), "nulls last")
    )
    spec = MapSpec(
        "m", (("g", pa.int64()), ("k", kind.type)), (("n", pa.int64()),), ("g",), order=(order,)
    )
    batches = data.draw(st.lists(st.lists(kind.nullable, max_size=9), min_size=1, max_size=3))
    k = data.draw(st.integers(1, 9))
    files = Memory()
    refs: list[RunRef] = []
    present: dict[Plain, Any] = {}
    for i, batch in enumerate(batches):  # the key that comes again is deleted
        signs = [(v, -1 if kind.same(v) in present else 1) for v in batch]
        signs = list({kind.same(v): (v, n) for v, n in signs}.values())
        keys = [v for v, _ in signs]
        table = pa.table(
            {
                "_h": pa.array([7] * len(keys), pa.int64()),
                "g": pa.array([1] * len(keys), pa.int64()),
                "k": data.draw(FORMS)(keys, kind.type),
                "n": pa.array([n for _, n in signs], pa.int64()),
            }
        )
        entries, _ = Arrangement(spec, refs, Runs(files)).merge(table, blind=True)
        refs += written(files, spec, [entries], i + 1)
        for v, n in signs:
            if n > 0:
                present[kind.same(v)] = v
            else:
                del present[kind.same(v)]
    wanted = sorted(
        (v for v in present.values() if v is not None), key=kind.place, reverse=order.descending
    )
    if None in present:
        wanted = [*wanted, None] if order.nulls_last else [None, *wanted]
    one = pa.table({"_h": [7], "g": [1]})
    got = first_k(Arrangement(spec, refs, Runs(files)), one, k)
    assert [kind.same(v) for v in got.column("k").to_pylist()] == [kind.same(v) for v in wanted[:k]]
