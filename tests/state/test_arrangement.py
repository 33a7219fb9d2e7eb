"""Latest maps: whatever is put into them, of any type, is read back as it was given, like from a dict.

Rows are put, put again and deleted, a few keys at a time; the newest run that has a key says its entry. The hash is weak,
so that keys share one, and values come in every form that Arrow has for them.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.state import arrangement, compaction, entries, writing
from headwater.state import run as runs
from headwater.state.arrangement import INDEX, Arrangement
from headwater.state.ends import first_k, last_k
from headwater.state.positions import from_position
from headwater.state.run import MapSpec, Order, RunRef, Runs
from headwater.state.writing import Writer
from test_keys import FLAT, FORMS, NESTED, Kind, Memory, as_is, chunked, sliced, weak, written

INT = pa.int64()
Row = tuple[int, int | None, Any]
"""A key, its place in the order, and what is put there: None for a key that is gone, else a tuple of one value."""

OTHERS = [
    Kind("void", pa.null(), st.none()),
    Kind("array<void>", pa.list_(pa.null()), st.lists(st.none(), max_size=2)),
    Kind("struct<>", pa.struct([]), st.just({})),
    Kind(
        "map<string, array<int>>",
        pa.map_(pa.string(), pa.list_(pa.int32())),
        st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 3), max_size=2))),
    ),
    Kind("fixed binary", pa.binary(3), st.sampled_from([b"abc", b"\0\0\0"])),
    Kind("fixed array", pa.list_(pa.int8(), 2), st.tuples(st.integers(0, 3), st.none()).map(list)),
    Kind("duration", pa.duration("us"), st.integers(-3, 3).map(lambda n: dt.timedelta(n))),
    Kind("time", pa.time64("us"), st.just(dt.time(23, 59, 59, 999_999))),
    Kind("interval", pa.month_day_nano_interval(), st.tuples(*[st.integers(-2, 2)] * 3)),
    Kind("unsigned", pa.uint64(), st.sampled_from([0, (1 << 64) - 1])),
    Kind("decimal(60,2)", pa.decimal256(60, 2), st.just(Decimal("123456789" * 5 + ".25"))),
]
EVERY = pytest.mark.parametrize("kind", [*FLAT, *NESTED, *OTHERS], ids=lambda k: k.name)


def given_back(kind: Kind, value: Any) -> str:
    """A value as Arrow gives it back, told apart from all others: -0.0 is not 0.0, and NULL not NaN."""
    return repr(pa.array([value], kind.type).to_pylist()[0])


def table(kind: Kind, rows: list[Row], form: Any = as_is) -> pa.Table:
    values = [None if held is None else held[0] for _, _, held in rows]
    return pa.table(
        {
            "v": form(values, kind.type),
            "n": pa.array([int(held is not None) for *_, held in rows], pa.int32()),
            "o": pa.array([o for _, o, _ in rows], INT),
            "k": pa.array([k for k, *_ in rows], INT),
            "_h": pa.array([weak(k) for k, *_ in rows], INT),
        }
    )


def spec_of(kind: Kind, order: tuple[Order, ...] = ()) -> MapSpec:
    ring = (("n", pa.int32()), ("v", kind.type))
    return MapSpec("m", (("k", INT), ("o", INT)), ring, ("k",), "latest", order)


def rows_of(found: pa.Table) -> list[tuple[int, int | None, str]]:
    assert set(found.column("n").to_pylist()) <= {1}
    columns = (found.column(n).to_pylist() for n in ("k", "o", "v"))
    return [(k, o, repr(v)) for k, o, v in zip(*columns, strict=True)]


Model = dict[tuple[int, int | None], str]


def assert_like(at: Arrangement, model: Model) -> None:
    """All ways to read say what a dict says."""
    with patch.object(Arrangement, "pieces", _pieces):
        found = [r for t in at.scan() for r in rows_of(t)]
    want = [(k, o, v) for (k, o), v in model.items()]
    assert sorted(found, key=repr) == sorted(want, key=repr)
    whole = [(k, o) for k in range(4) for o in (None, 0, 1)]
    keys = pa.table(
        {
            "_h": [weak(k) for k, _ in whole],
            "k": [k for k, _ in whole],
            "o": pa.array([o for _, o in whole], INT),
        }
    )
    told = at.lookup(keys, whole_key=True)
    places = told.column(INDEX).to_pylist()
    assert {whole[i]: r[2] for i, r in zip(places, rows_of(told), strict=True)} == model
    assert len(places) == len(model)
    groups = keys.select(["_h", "k"]).take(pa.array(range(0, len(whole), 3)))
    told = at.lookup(groups)
    assert sorted(rows_of(told), key=repr) == sorted(want, key=repr)
    if at.spec.order:
        ordered = sorted(want, key=lambda r: (r[0], r[1] is not None, r[1] or 0))
        assert rows_of(first_k(at, groups, 9)) == ordered
        ends = [[r for r in ordered if r[0] == k][-1:] for k in range(4)]
        assert rows_of(last_k(at, groups, 1)) == [r for end in ends for r in end]
        zero = pa.table({"o": pa.array([0] * 4, INT)})
        later = [r for r in ordered if r[1] is not None]
        assert rows_of(from_position(at, groups, zero)) == later


def _pieces(_: Arrangement, low: int = runs.LEAST, high: int = runs.MOST, rows: int = 0) -> Any:
    cuts = [low, *(c for c in (0, 1) if low < c < high), high]
    return pairwise(cuts)


def rows_drawn(kind: Kind) -> st.SearchStrategy[list[Row]]:
    held = st.one_of(st.none(), *[st.tuples(kind.nullable)] * 3)
    row = st.tuples(st.integers(0, 3), st.sampled_from([None, 0, 1]), held)
    return st.lists(row, max_size=9)


@EVERY
@pytest.mark.property
@settings(max_examples=max(6, settings().max_examples // 20), deadline=None)
@given(data=st.data())
def test_what_is_put_is_read_back(kind: Kind, data: st.DataObject) -> None:
    """Through puts, deletions and compactions; a compaction of the newest runs keeps the keys that are gone."""
    batches = data.draw(st.lists(rows_drawn(kind), min_size=1, max_size=4))
    forms = FORMS if kind not in OTHERS else st.sampled_from([as_is, sliced, chunked])
    spec = spec_of(kind, data.draw(st.sampled_from([(), (Order("o"),)])))
    files, refs, made, model = Memory(), list[RunRef](), list[RunRef](), Model()
    opened = Runs(files)
    crowded = patch.object(arrangement, "CROWDED", data.draw(st.sampled_from([0, 8])))
    with crowded, patch.object(writing, "SEGMENT", data.draw(st.sampled_from([1, 2, 100]))):
        for i, rows in enumerate(batches):
            entries = Arrangement(spec, refs, opened).put(table(kind, rows, data.draw(forms)))
            assert entries.schema == spec.schema
            for k, o, held in rows:
                model.pop((k, o), None)
                if held is not None:
                    model[k, o] = given_back(kind, held[0])
            told = zip(*(entries.column(n).to_pylist() for n in ("k", "o", "n", "v")), strict=True)
            given = {(k, o) for k, o, _ in rows}
            said = [(k, o, None if n == 0 else repr(v)) for k, o, n, v in told]
            assert len(said) == len(given)
            assert {(k, o, model.get((k, o))) for k, o in given} == set(said)
            gone = np.asarray(entries.column("n")) == 0
            assert entries.column("v").filter(pa.array(gone)).null_count == gone.sum()
            refs += written(files, spec, [entries], i + 1)
            assert_like(Arrangement(spec, refs, opened), model)
        for some in (refs[-2:], refs):
            if some:
                out = Writer(files, "compact")
                compaction.compact(Arrangement(spec, refs, opened), list(some), out)
                made = [r for _, r in out.close()]
                left = [*(r for r in refs if r not in some), *made]
                assert_like(Arrangement(spec, left, opened), model)
    assert sum(r.spent for r in made) == 0, "what is gone is dropped where nothing older is left"
    assert sum(r.rows for r in made) == len(model)


def test_of_a_key_that_is_put_twice_the_last_one_counts() -> None:
    """Also where there are many, and none is near another."""
    kind = FLAT[3]
    rows: list[Row] = [(i * 7919 % 50, 0, (i,)) for i in range(20_000)]
    entries = Arrangement(spec_of(kind), [], Runs(Memory())).put(table(kind, rows))
    want = {k: held[0] for k, _, held in rows}
    assert dict(zip(*(entries.column(n).to_pylist() for n in "kv"), strict=True)) == want


@pytest.mark.parametrize("kind", ["value", "latest"])
def test_the_newest_of_many_entries_is_the_first(kind: str) -> None:
    """Groups of which several runs have the same entries, more than are sorted by insertion."""
    spec = MapSpec("m", (("k", INT), ("o", INT)), (("n", INT),), ("k",), kind, (Order("o"),))
    spec = MapSpec(spec.name, spec.key, (("n", INT), ("v", INT)), ("k",), kind, spec.order)
    files, refs = Memory(), list[RunRef]()
    at = np.arange(300)
    for run in range(1, 6):
        columns = {"_h": at * 0, "k": at * 0, "o": at, "n": at * 0 + 1, "v": at * 0 + run}
        entries = pa.table({n: pa.array(c) for n, c in columns.items()}).select(spec.schema.names)
        refs += written(files, spec, [entries], run)
    keys = pa.table({"_h": pa.array([0]), "k": pa.array([0])})
    for near in (first_k, last_k):
        found = near(Arrangement(spec, refs, Runs(files)), keys, 100)
        assert found.num_rows == 100 and set(found.column("v").to_pylist()) == {5}


def test_a_latest_map_is_put_and_others_are_merged() -> None:
    kind = FLAT[3]
    rows = table(kind, [(1, 1, (1,))])
    latest = Arrangement(spec_of(kind), [], Runs(Memory()))
    for act in (latest.merge, latest.groups):
        with pytest.raises(AssertionError, match="latest map"):
            act(rows)
    value = MapSpec("m", latest.spec.key, latest.spec.ring, ("k",), "value")
    with pytest.raises(AssertionError, match="only a latest map"):
        Arrangement(value, [], Runs(Memory())).put(rows)
    with pytest.raises(AssertionError, match=r"there \(1\) or gone \(0\)"):
        place = rows.schema.get_field_index("n")
        latest.put(rows.set_column(place, "n", pa.array([2], pa.int32())))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("kind", [*FLAT, *NESTED], ids=lambda k: k.name)
def test_totals_of_several_maps_are_those_of_each(kind: Kind, data: st.DataObject) -> None:
    """What is added up together for maps of the same columns is, entry for entry, what each has alone."""
    order = data.draw(st.sampled_from([(), (Order("k1", descending=True),)]))
    key = (("k0", pa.int64()), ("k1", kind.type))
    spec = MapSpec("m", key, (("r0", pa.int64()), ("r1", pa.int64())), ("k0",), order=order)
    row = st.tuples(*[st.integers(0, 2)] * 3, st.none() | kind.values)
    each = []
    for rows in data.draw(st.lists(st.lists(row, max_size=6), min_size=1, max_size=4)):
        numbers = {
            n: pa.array([r[i] for r in rows], pa.int64()) for i, n in enumerate(("k0", "r0", "r1"))
        }
        h = pa.array([weak(r[0]) for r in rows], pa.int64())
        k1 = pa.array([r[3] for r in rows], kind.type)
        each.append(runs.prepared(spec, pa.table({**numbers, "_h": h, "k1": k1})))
    together = pa.concat_tables(each).combine_chunks()
    found = entries.totals(spec, together, [t.num_rows for t in each])
    for one, alone in zip(found, each, strict=True):
        expected = entries.total(spec, alone)
        assert one.schema == expected.schema
        assert repr(one.to_pylist()) == repr(expected.to_pylist())
