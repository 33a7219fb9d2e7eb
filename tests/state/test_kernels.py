"""The kernels of the state on small tables, and what they cost: a prefix, the newest run, the change.

Costs are counted in rows that are looked at or written, never in seconds.
"""

from __future__ import annotations

import math
import tracemalloc
from bisect import bisect_left
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.state import compaction, search, writing
from headwater.state import ends as ordered
from headwater.state.adding import plus, replaced, sums
from headwater.state.arrangement import Arrangement
from headwater.state.collection import Keep
from headwater.state.ends import first_k, last_k
from headwater.state.files import LocalFiles
from headwater.state.keys import Ints, boundaries, canonical, expand, parts, row_bytes, sort_order
from headwater.state.run import MapSpec, Order, Run, RunRef, Runs
from headwater.state.search import Hashes
from headwater.state.store import Store, StoreWriter
from headwater.state.writing import Writer
from test_keys import Memory, written

INT = pa.int64()
LEAST, MOST = -(1 << 63), (1 << 63) - 1
COUNTS = MapSpec("m", (("k", INT),), (("n", INT),), ("k",), "value")
TOTALS = MapSpec("m", (("k", INT),), (("n", INT), ("s", INT)), ("k",))
GROUPS = MapSpec("m", (("k", INT), ("o", INT)), (("n", INT),), ("k",), order=(Order("o"),))


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def table(spec: MapSpec, **columns: Any) -> pa.Table:
    """Entries whose hash is their key; a single number stands for a whole column."""
    size = len(columns["k"])
    filled = {n: np.broadcast_to(np.asarray(v, np.int64), size) for n, v in columns.items()}
    names = [n for n, _ in (*spec.key, *spec.ring) if n in filled]
    return pa.table({"_h": pa.array(filled["k"]), **{n: pa.array(filled[n]) for n in names}})


def keys(*values: int) -> pa.Table:
    return table(COUNTS, k=values)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(LocalFiles(tmp_path))


@pytest.fixture
def writer(store: Store) -> Iterator[StoreWriter]:
    with store.writer() as w:
        yield w


def grown(writer: StoreWriter, spec: MapSpec, *batches: pa.Table) -> Arrangement:
    """A map with a commit for each batch."""
    for batch in batches:
        commit = writer.begin()
        if spec.name not in commit.base.maps:
            commit.create(spec)
        commit.merge(spec.name, batch, blind=spec.kind == "change")
        writer.commit(commit)
    return writer.store.at().arrangement(spec.name)


def content(arrangement: Arrangement) -> list[dict[str, Any]]:
    return [row for t in arrangement.scan() for row in t.drop_columns(["_h"]).to_pylist()]


# --- finding ------------------------------------------------------------------------------------------------


def parted(held: list[int], cuts: list[int], gap: int) -> Hashes:
    """Hashes cut into parts that lie behind each other in memory, with something else between."""
    pieces = [held[a:b] for a, b in pairwise([0, *cuts, len(held)])]
    words = np.array([w for p in pieces for w in (*p, *[-1] * gap)], np.int64)
    starts = np.cumsum([0, *(len(p) + gap for p in pieces)])
    return Hashes([words[a : a + len(p)] for a, p in zip(starts, pieces, strict=False)])


@pytest.mark.parametrize(
    ("held", "probes", "found"),
    [
        ([], [1], [(0, 0)]),
        ([1, 2, 3], [], []),
        ([1, 3, 5], [0, 2, 4, 6], [(0, 0), (1, 0), (2, 0), (3, 0)]),
        ([1, 3, 5], [1, 5], [(0, 1), (2, 1)]),
        ([1, 3, 3, 3, 5], [3], [(1, 3)]),
        ([3, 3], [3, 3], [(0, 2), (0, 2)]),
        ([LEAST, LEAST, MOST, MOST], [LEAST, 0, MOST], [(0, 2), (2, 0), (2, 2)]),
        ([7] * 4, [7, 8], [(0, 4), (4, 0)]),
    ],
)
def test_ranges_of_hashes(held: list[int], probes: list[int], found: list[tuple[int, int]]) -> None:
    """The first row of a hash, or where it would be, and how many rows have it."""
    first, counts = parted(held, [], 0).ranges(ints(*probes))
    assert list(zip(first.tolist(), counts.tolist(), strict=True)) == found


SMALL = st.integers(-4, 4) | st.sampled_from([LEAST, MOST])


@pytest.mark.property
@given(
    held=st.lists(SMALL, max_size=30).map(sorted),
    probes=st.lists(SMALL, max_size=9).map(sorted),
    cuts=st.lists(st.integers(0, 30), max_size=4).map(sorted),
    gap=st.integers(0, 3),
    block=st.integers(1, 5),
    dense=st.sampled_from([0, 1, 1000]),
    window=st.sampled_from([1, 2, 32]),
)
def test_ranges_over_parts(
    held: list[int],
    probes: list[int],
    cuts: list[int],
    gap: int,
    block: int,
    dense: int,
    window: int,
) -> None:
    """Jumping and walking give the same answer, wherever parts and blocks end, and hashes are not where they should be."""
    with (
        patch.object(search, "BLOCK", block),
        patch.object(search, "DENSE", dense),
        patch.object(search, "WINDOW", window),
    ):
        first, counts = parted(held, [c for c in cuts if c <= len(held)], gap).ranges(ints(*probes))
    assert counts.tolist() == [held.count(p) for p in probes]
    assert first.tolist() == [bisect_left(held, p) for p in probes]


@pytest.mark.property
@given(seed=st.integers(0, 2**32), evenly=st.sampled_from(["all", "half", "none"]))
def test_hashes_that_lie_evenly_and_others(seed: int, evenly: str) -> None:
    """Hashes of many rows are found where they should be, and where they are not."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 30_000))
    some = {"all": rows, "half": rows // 2, "none": 0}[evenly]
    lumps = rng.integers(-3, 3, rows - some) * rng.integers(1, 1 << 60)
    held = np.sort(np.concatenate((rng.integers(LEAST, MOST, some), lumps)))
    probes = np.sort(np.append(rng.choice(held, rows // 64 + 1), rng.integers(LEAST, MOST, 3)))
    found = Hashes(np.array_split(held, rng.integers(1, 4))).ranges(probes)
    low, high = (np.searchsorted(held, probes, side) for side in ("left", "right"))
    assert np.array_equal(found[0], low) and np.array_equal(found[1], high - low)


@pytest.mark.parametrize(
    ("starts", "counts", "out"),
    [
        ([], [], []),
        ([5], [0], []),
        ([5, 0, 9], [2, 0, 3], [5, 6, 9, 10, 11]),
        ([3, 3], [1, 2], [3, 3, 4]),
    ],
)
def test_expand(starts: list[int], counts: list[int], out: list[int]) -> None:
    assert expand(ints(*starts), ints(*counts)).tolist() == out


def test_sort_order() -> None:
    """By hash, then by the columns; NULL is less, and stays so where a part goes down the other way."""
    h = ints(2, 1, 2, 2, 1)
    column = pa.array([3, 1, None, 1, 0])
    assert sort_order(h, []).tolist() == [1, 4, 0, 2, 3]
    assert sort_order(h, [column]).tolist() == [4, 1, 2, 3, 0]
    assert sort_order(h, [pa.array([0] * 5), column], {0}).tolist() == [4, 1, 2, 3, 0]
    present = pa.array([3, 1, 2, 1, 0])
    assert sort_order(h, [present], {0}).tolist() == [1, 4, 0, 2, 3]
    assert sort_order(ints(), []).tolist() == []


def test_sort_order_is_stable() -> None:
    """Rows that are equal stay in the order they came in."""
    h = ints(*[1, 0] * 50)
    order = sort_order(h, [pa.array([None, 5] * 50)])
    assert order.tolist() == [*range(1, 100, 2), *range(0, 100, 2)]


def test_boundaries() -> None:
    """A group starts where the hash or a column differs; NULL equals NULL."""
    h = ints(1, 1, 1, 2, 2, 3)
    assert boundaries(h, []).tolist() == [0, 3, 5]
    assert boundaries(h, [pa.array([None, None, 0, 0, 0, 0])]).tolist() == [0, 2, 3, 5]
    assert boundaries(ints(), []).tolist() == []
    assert boundaries(ints(4), [pa.array(["x"])]).tolist() == [0]


@pytest.mark.parametrize(
    "t",
    [
        pa.list_(pa.int32()),
        pa.list_(pa.date32()),
        pa.list_(pa.decimal128(5, 2)),
        pa.list_(pa.bool_()),
        pa.list_(pa.string()),
        pa.list_(pa.list_(pa.int64())),
        pa.list_(pa.struct([("x", pa.string())])),
    ],
    ids=str,
)
def test_row_bytes_of_absent_elements(t: pa.DataType) -> None:
    """NULL, an empty array, and an array of a NULL are three things, in a slice too."""
    whole = canonical(pa.array([[None, None], None, [], [None], None, []], t))
    for column in (whole, whole.slice(1)):
        offsets, data = row_bytes(column)
        rows = [bytes(data[a:b]) for a, b in pairwise(offsets)]
        assert len(set(rows)) == len({str(v) for v in column.to_pylist()})
        assert rows[-2:] == [rows[-5], rows[-4]]
    assert row_bytes(whole.slice(0, 0))[0].tolist() == [0]


def test_row_bytes_have_no_seams() -> None:
    """Texts that are cut differently do not look alike."""
    words = pa.array(
        [["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""]], pa.large_list(pa.large_string())
    )
    (column,) = parts(words)
    assert len(set(column.to_pylist())) == 4


# --- adding -------------------------------------------------------------------------------------------------


def test_sums() -> None:
    assert sums(pa.array([1, 2, 3, 4]), ints(0, 1, 3)).to_pylist() == [1, 5, 4]
    assert sums(pa.array([0.5, 1.0]), ints(0)).to_pylist() == [1.5]
    assert sums(pa.array([], INT), ints()).to_pylist() == []
    money = pa.array([Decimal("999.99"), Decimal("-0.01"), Decimal("1.00")], pa.decimal128(5, 2))
    total = sums(money, ints(0, 2))
    assert total.to_pylist() == [Decimal("999.98"), Decimal("1.00")] and total.type == money.type


@pytest.mark.parametrize(
    "values",
    [[MOST], [MOST, 0], [MOST, 1, -1], [LEAST], [1 << 62, (1 << 62) - 1], [-(1 << 62)] * 2],
)
def test_sums_up_to_the_limit(values: list[int]) -> None:
    """What fits is no overflow, even if a sum on the way is one."""
    assert sums(pa.array(values, INT), ints(0)).to_pylist() == [sum(values)]


@pytest.mark.parametrize("values", [[MOST, 1], [LEAST, -1], [MOST] * 3, [MOST] * 2, [1 << 62] * 4])
def test_overflow_of_integers(values: list[int]) -> None:
    with pytest.raises(OverflowError):
        sums(pa.array(values, INT), ints(0))


def test_overflow_of_small_integers() -> None:
    with pytest.raises(OverflowError):
        sums(pa.array([2**31 - 1, 1], pa.int32()), ints(0))


@pytest.mark.parametrize(
    "t", [pa.decimal128(5, 2), pa.decimal128(18, 0), pa.decimal128(38, 0)], ids=str
)
def test_overflow_of_decimals(t: pa.DataType) -> None:
    most = Decimal(10**t.precision - 1).scaleb(-t.scale, Context(prec=40))
    column = pa.array([most, Decimal(1).scaleb(-t.scale)], t)
    with pytest.raises(OverflowError):
        sums(column, ints(0))
    with pytest.raises(OverflowError):
        plus(column.slice(0, 1), column.slice(1, 1))
    assert plus(column.slice(1), column.slice(1)).to_pylist() == [Decimal(2).scaleb(-t.scale)]


CENTS = st.integers(-(10**20), 10**20) | st.integers(-100, 100) | st.sampled_from([LEAST, MOST])


def money(values: list[int], t: pa.DataType) -> pa.Array:
    """A slice, for its values begin behind others, of decimals with these unscaled values."""
    context = Context(prec=40)
    column = [Decimal(v).scaleb(-t.scale, context) for v in [7, *values]]
    return pa.array(column, t).slice(1)


def unscaled(column: pa.Array) -> list[int]:
    return [int(v.scaleb(column.type.scale, Context(prec=80))) for v in column.to_pylist()]


@pytest.mark.property
@given(
    groups=st.lists(st.lists(CENTS, min_size=1, max_size=4), min_size=1, max_size=4),
    t=st.sampled_from([pa.decimal128(38, 2), pa.decimal128(21, 0), pa.decimal256(50, 2)]),
)
@example(groups=[[10**21 - 1, 1]], t=pa.decimal128(21, 0))
@example(groups=[[MOST, 1], [LEAST, -1]], t=pa.decimal128(38, 2))
@example(groups=[[MOST], [LEAST]], t=pa.decimal128(38, 2))
def test_decimals_add_up(groups: list[list[int]], t: pa.DataType) -> None:
    """Small ones are added as integers and large ones as decimals: the sums are the same."""
    values = money([v for g in groups for v in g], t)
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    wanted = list(map(sum, groups))
    if max(map(abs, wanted)) >= 10**t.precision:
        with pytest.raises(OverflowError):
            sums(values, starts)
    else:
        found = sums(values, starts)
        found.validate(full=True)
        assert unscaled(found) == wanted and found.type == t
    twice = [2 * v for g in groups for v in g]
    if max(map(abs, twice)) < 10**t.precision:
        assert unscaled(plus(values, values)) == twice
    other = replaced(values, ints(0), values.slice(len(values) - 1))
    other.validate(full=True)
    assert unscaled(other) == [groups[-1][-1], *unscaled(values)[1:]]


def test_overflow_of_a_merge(writer: StoreWriter) -> None:
    """A sum over versions that does not fit is an error, and nothing is committed."""
    with pytest.raises(OverflowError):
        grown(writer, COUNTS, table(COUNTS, k=[1], n=MOST), table(COUNTS, k=[1], n=1))
    assert writer.store.head() == 1


@pytest.mark.parametrize(
    "t", [pa.decimal128(5, 2), pa.decimal128(18, 2), pa.decimal128(38, 38)], ids=str
)
def test_decimal_rings(writer: StoreWriter, t: pa.DataType) -> None:
    """Ring columns may be decimals of any precision and scale."""
    spec = MapSpec("m", (("k", INT),), (("n", INT), ("d", t)), ("k",), "value")
    one = Decimal(1).scaleb(-t.scale)
    batch = pa.table({"_h": [1], "k": [1], "n": [1], "d": pa.array([one], t)})
    (row,) = content(grown(writer, spec, batch, batch))
    assert row == {"k": 1, "n": 2, "d": 2 * one}


# --- what is read -------------------------------------------------------------------------------------------


def recorded(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, of: Callable[..., int]
) -> list[int]:
    """The sizes of what a function gives, call by call."""
    seen: list[int] = []
    inner = getattr(owner, name)

    def outer(*given: Any) -> Any:
        answer = inner(*given)
        seen.append(of(answer))
        return answer

    monkeypatch.setattr(owner, name, outer)
    return seen


@pytest.mark.parametrize("deleted", [0, 1, 5, 50])
def test_first_k_reads_a_prefix(
    writer: StoreWriter, monkeypatch: pytest.MonkeyPatch, deleted: int
) -> None:
    """Three of a group of 100,000 are found in the front of the runs, also when some of it is deleted."""
    size = 100_000
    inserts = table(GROUPS, k=np.repeat([1, 2], size), o=np.tile(np.arange(size), 2), n=1)
    deletes = table(GROUPS, k=[1] * deleted, o=range(deleted), n=-1)
    arrangement = grown(writer, GROUPS, inserts, deletes)
    rows = recorded(monkeypatch, ordered, "_near", lambda answer: len(answer[1]))
    found = first_k(arrangement, table(GROUPS, k=[1, 2]), 3)
    assert found.column("o").to_pylist() == [*range(deleted, deleted + 3), 0, 1, 2]
    assert 6 <= sum(rows) <= 16 * (deleted + 3)


@pytest.mark.parametrize("deleted", [0, 1, 5, 50])
def test_last_k_reads_a_suffix(
    writer: StoreWriter, monkeypatch: pytest.MonkeyPatch, deleted: int
) -> None:
    """The same from the other end."""
    size = 100_000
    inserts = table(GROUPS, k=np.repeat([1, 2], size), o=np.tile(np.arange(size), 2), n=1)
    deletes = table(GROUPS, k=[1] * deleted, o=range(size - deleted, size), n=-1)
    arrangement = grown(writer, GROUPS, inserts, deletes)
    rows = recorded(monkeypatch, ordered, "_near", lambda answer: len(answer[1]))
    found = last_k(arrangement, table(GROUPS, k=[1, 2]), 3)
    end = size - 1
    left = [end - deleted - i for i in range(3)]
    assert found.column("o").to_pylist() == [*left, end, end - 1, end - 2]
    assert 6 <= sum(rows) <= 16 * (deleted + 3)


Entry = tuple[int, int | None, int]


def weakly(k: int) -> int:
    """Few hashes, the least and the greatest among them."""
    return (LEAST, 5, MOST)[k % 3]


def entries(batch: dict[Entry, int]) -> pa.Table:
    columns = list(zip(*batch, strict=True)) or [(), (), ()]
    arrays = [pa.array(c, INT) for c in (map(weakly, columns[0]), *columns, batch.values())]
    return pa.table(arrays, ["_h", "k", "o", "e", "n"])


def nearest(group: list[tuple[Entry, int]], k: int) -> list[tuple[Entry, int]]:
    """The entries that hold the first k rows."""
    before = [sum(n for _, n in group[:i]) for i in range(len(group))]
    return [e for e, b in zip(group, before, strict=True) if b < k]


@pytest.mark.property
@given(
    batches=st.lists(
        st.dictionaries(
            st.tuples(st.integers(0, 4), st.none() | st.integers(-2, 2), st.integers(0, 2)),
            st.sampled_from([1, 1, 2, -1, -2]),
            max_size=25,
        ),
        max_size=4,
    ),
    probes=st.lists(st.integers(0, 6), max_size=6),
    k=st.integers(1, 7),
    order=st.builds(Order, st.just("o"), st.booleans(), st.booleans()),
    kind=st.sampled_from(["change", "value"]),
    segment=st.sampled_from([1, 2, 7, 100]),
)
def test_both_ends_of_groups(
    batches: list[dict[Entry, int]],
    probes: list[int],
    k: int,
    order: Order,
    kind: str,
    segment: int,
) -> None:
    """The first and the last k rows are those of the sorted group, whatever is deleted and hashes alike."""
    key = (("k", INT), ("o", INT), ("e", INT))
    spec = MapSpec("m", key, (("n", INT),), ("k",), kind, (order,))
    files, refs = Memory(), list[RunRef]()
    model: dict[Entry, int] = {}
    with patch.object(writing, "SEGMENT", segment), patch.object(search, "BLOCK", 3):
        opened = Runs(files)
        for i, batch in enumerate(batches):
            changes = {e: max(n, -model.get(e, 0)) for e, n in batch.items()}
            model |= {e: model.get(e, 0) + n for e, n in changes.items()}
            new, _ = Arrangement(spec, refs, opened).merge(entries(changes))
            refs += written(files, spec, [new], i + 1)
        arrangement = Arrangement(spec, refs, opened)
        keys = pa.table({"_h": pa.array(map(weakly, probes), INT), "k": pa.array(probes, INT)})
        first, last = first_k(arrangement, keys, k), last_k(arrangement, keys, k)

    def rank(entry: Entry) -> Any:
        _, o, e = entry
        absent = (o is None) == order.nulls_last
        return (absent, 0 if o is None else -o if order.descending else o, e)

    def told(found: pa.Table) -> list[tuple[int, Entry, int]]:
        return [(r["_i"], (r["k"], r["o"], r["e"]), r["n"]) for r in found.to_pylist()]

    groups = [
        sorted(((e, n) for e, n in model.items() if e[0] == p and n), key=lambda x: rank(x[0]))
        for p in probes
    ]
    assert told(first) == [(i, *e) for i, g in enumerate(groups) for e in nearest(g, k)]
    assert told(last) == [(i, *e) for i, g in enumerate(groups) for e in nearest(g[::-1], k)]


@pytest.mark.property
@given(
    size=st.integers(1, 12),
    rows=st.lists(st.integers(0, 11), max_size=15),
    segment=st.integers(1, 12),
    names=st.sampled_from([None, ["k"]]),
)
def test_rows_of_a_run(size: int, rows: list[int], segment: int, names: list[str] | None) -> None:
    """Rows come in the order asked for, from whatever segments they are in."""
    rows = [r for r in rows if r < size]
    files, whole = Memory(), table(COUNTS, k=range(size), n=range(1, size + 1))
    with patch.object(writing, "SEGMENT", segment):
        (ref,) = written(files, COUNTS, [whole], 1)
    found = Runs(files).open(ref).take(ints(*rows), names)
    assert found.equals((whole.select(names) if names else whole).take(pa.array(rows, INT)))


def test_first_k_goes_on_to_the_end(writer: StoreWriter) -> None:
    """A group of which all was deleted is empty, and one with a single entry left has it found."""
    inserts = table(GROUPS, k=np.repeat([1, 2], 100), o=np.tile(np.arange(100), 2), n=1)
    deletes = table(GROUPS, k=[1] * 100 + [2] * 99, o=[*range(100), *range(99)], n=-1)
    found = first_k(grown(writer, GROUPS, inserts, deletes), table(GROUPS, k=[1, 2]), 3)
    assert found.select(["_i", "o", "n"]).to_pylist() == [{"_i": 1, "o": 99, "n": 1}]


def test_lookup_stops_at_the_newest_run(
    writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key of a value map is searched for in no run that is older than the first one that has it."""
    every = table(COUNTS, k=range(10), n=1)
    arrangement = grown(writer, COUNTS, every, every, table(COUNTS, k=[1], n=1), every)
    searched: list[list[int]] = []
    inner = Hashes.ranges

    def outer(self: Hashes, wanted: Ints) -> tuple[Ints, Ints]:
        searched.append(wanted.tolist())
        return inner(self, wanted)

    monkeypatch.setattr(Hashes, "ranges", outer)
    found = arrangement.lookup(keys(1, 5, 77))
    assert found.column("n").to_pylist() == [4, 3]
    assert searched == [[1, 5]]  # 77 lies outside of every run
    searched.clear()
    arrangement.lookup(keys(1, 5))
    assert searched[0] == [1, 5] and not any(searched[1:])


def test_lookup_in_a_value_map_is_of_the_newest(writer: StoreWriter) -> None:
    """A key that was deleted is not found in an older run."""
    one = table(COUNTS, k=[1, 2], n=1)
    arrangement = grown(writer, COUNTS, one, table(COUNTS, k=[1], n=-1))
    assert arrangement.lookup(keys(1, 2)).select(["_i", "n"]).to_pylist() == [{"_i": 1, "n": 1}]


def test_merge_allocates_in_proportion_to_the_change(store: Store, writer: StoreWriter) -> None:
    """A merge of 1,000 keys into 2 million entries needs room for thousands, not for millions."""
    size, few = 2_000_000, 1000
    rng = np.random.default_rng(0)
    grown(writer, COUNTS, table(COUNTS, k=np.arange(size), n=1))
    arrangement = Store(store.files).at().arrangement("m")
    changes = table(COUNTS, k=np.sort(rng.choice(size, few, replace=False)), n=1)
    arrangement.merge(changes.slice(0, 1))  # opens the run
    pool = pa.default_memory_pool()
    allocated = pool.total_bytes_allocated() if hasattr(pool, "total_bytes_allocated") else 0
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    entries, touched = arrangement.merge(changes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert touched is not None and touched.new.column("n").to_pylist() == [2] * few
    bound = few * 8 * 100
    assert peak < bound and pa.total_allocated_bytes() - before < bound
    if allocated:
        assert pool.total_bytes_allocated() - allocated < bound
    assert entries.num_rows == few


# --- what is rewritten --------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [TOTALS, COUNTS], ids=lambda s: s.kind)
def test_runs_stay_logarithmic(
    writer: StoreWriter, monkeypatch: pytest.MonkeyPatch, spec: MapSpec
) -> None:
    """200 merges of equal size leave few runs, and each row was rewritten a few times."""
    merges, size = 200, 10
    written = recorded(monkeypatch, Writer, "close", lambda refs: sum(r.rows for _, r in refs))
    for i in range(merges):
        batch = table(
            spec, k=range(i * size, (i + 1) * size), n=1, **({"s": 1} if spec is TOTALS else {})
        )
        arrangement = grown(writer, spec, batch)
        assert len(arrangement.refs) <= 2 * math.log2(i + 2) + compaction.FAN
        writer.compact()
    assert sum(written) <= merges * size * (1 + math.log2(merges))
    assert sum(t.num_rows for t in arrangement.scan()) == merges * size


def test_updates_of_one_key_stay_cheap(writer: StoreWriter) -> None:
    """A key that is updated for ever leaves no more behind than a few rows."""
    for _ in range(100):
        arrangement = grown(writer, COUNTS, table(COUNTS, k=[1], n=1))
        writer.compact()
    assert content(arrangement) == [{"k": 1, "n": 100}]
    assert sum(r.rows for r in arrangement.refs) <= 2 * compaction.FAN


def test_due_leaves_large_runs_alone(writer: StoreWriter) -> None:
    """Small runs become one; a run that is much larger than all of them is not touched."""
    batches = [table(COUNTS, k=range(1000), n=1), *(table(COUNTS, k=[i], n=1) for i in range(4))]
    arrangement = grown(writer, COUNTS, *batches)
    assert {r.rows for r in compaction.due(arrangement)} == {1}
    assert len(compaction.due(arrangement)) == 4
    arrangement = grown(writer, COUNTS, table(COUNTS, k=range(2000, 2100), n=1))
    assert sorted(r.rows for r in compaction.due(arrangement)) == [1, 1, 1, 1, 100]
    arrangement = grown(writer, COUNTS, table(COUNTS, k=[3000], n=1))
    assert compaction.due(arrangement) == []


def compacted(writer: StoreWriter, refs: list[RunRef], arrangement: Arrangement) -> Run | None:
    out = Writer(writer.store.files, "test")
    compaction.compact(arrangement, refs, out)
    made = [ref for _, ref in out.close()]
    return writer.store.runs.open(made[0]) if made else None


def test_tombstones_leave_with_the_oldest_run(writer: StoreWriter) -> None:
    """A gone key stays written until no older run can have it."""
    arrangement = grown(
        writer,
        COUNTS,
        table(COUNTS, k=range(100), n=1),
        table(COUNTS, k=[1, 200], n=1),
        table(COUNTS, k=[1, 2, 200], n=[-2, -1, -1]),
    )
    newer = compacted(writer, arrangement.refs[:2], arrangement)
    assert newer is not None and newer.ref.rows == newer.ref.spent == 3
    everything = compacted(writer, arrangement.refs, arrangement)
    assert everything is not None and (everything.ref.rows, everything.ref.spent) == (98, 0)


def test_small_runs_wait_until_they_are_many(
    writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To rewrite a few entries costs more than to look a few runs more up."""
    monkeypatch.setattr(compaction, "SMALL", 100)
    few = [table(COUNTS, k=[i], n=1) for i in range(compaction.FAN_OF_SMALL)]
    assert compaction.due(grown(writer, COUNTS, *few[:-1])) == []
    arrangement = grown(writer, COUNTS, few[-1])
    assert len(compaction.due(arrangement)) == compaction.FAN_OF_SMALL


def test_changes_that_cancel_are_dropped_at_once(writer: StoreWriter) -> None:
    """In a change map a zero says nothing, whatever older runs have."""
    arrangement = grown(
        writer,
        TOTALS,
        table(TOTALS, k=[1, 2], n=1, s=5),
        table(TOTALS, k=[1], n=1, s=3),
        table(TOTALS, k=[1], n=-1, s=-3),
    )
    assert compacted(writer, arrangement.refs[:2], arrangement) is None


def test_changes_of_sums_alone_are_kept(writer: StoreWriter) -> None:
    """A change of no count is still a change: compacting it with another one loses nothing."""
    updates = [table(TOTALS, k=[1], n=0, s=s) for s in (1, 2, 3, 4)]
    arrangement = grown(writer, TOTALS, table(TOTALS, k=range(100), n=1, s=5), *updates)
    assert len(compaction.due(arrangement)) == 4
    writer.compact()
    writer.commit(writer.begin())
    after = writer.store.at().arrangement("m")
    assert len(after.refs) == 2
    assert after.lookup(keys(1)).column("s").to_pylist() == [15]


@pytest.mark.parametrize("spec", [GROUPS, COUNTS], ids=lambda s: s.kind)
def test_spent_entries_cause_a_rewrite(writer: StoreWriter, spec: MapSpec) -> None:
    """When a share of the entries only cancels others, the map is rewritten whole."""
    some: dict[str, Any] = {"o": 0} if spec is GROUPS else {}
    arrangement = grown(writer, spec, table(spec, k=range(100), n=1, **some))
    arrangement = grown(writer, spec, table(spec, k=range(20), n=-1, **some))
    assert compaction.due(arrangement) == []
    arrangement = grown(writer, spec, table(spec, k=range(20, 50), n=-1, **some))
    assert len(compaction.due(arrangement)) == 3
    writer.compact()
    writer.commit(writer.begin())
    (ref,) = writer.store.at().arrangement("m").refs
    assert (ref.rows, ref.spent) == (50, 0)


# --- commits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [TOTALS, COUNTS], ids=lambda s: s.kind)
def test_changes_of_a_key_in_one_table_add_up(writer: StoreWriter, spec: MapSpec) -> None:
    changes = table(spec, k=[1, 1, 2, 1], n=[1, 2, 1, 3], **({"s": 0} if spec is TOTALS else {}))
    arrangement = grown(writer, spec, changes)
    assert [(r["k"], r["n"]) for r in content(arrangement)] == [(1, 6), (2, 1)]
    _, before, after = arrangement.groups(changes)
    assert before.column("n").to_pylist() == [6, 1] and after.column("n").to_pylist() == [12, 2]


def test_a_map_that_is_created_anew_is_empty(writer: StoreWriter) -> None:
    """Dropped, created and merged into in one commit, a map has nothing of the one before."""
    grown(writer, COUNTS, table(COUNTS, k=[1], n=1))
    commit = writer.begin()
    commit.drop("m")
    commit.create(COUNTS)
    touched = commit.merge("m", table(COUNTS, k=[1], n=1))
    writer.commit(commit)
    assert touched is not None and touched.old.column("n").to_pylist() == [0]
    assert content(writer.store.at().arrangement("m")) == [{"k": 1, "n": 1}]


def test_a_map_without_key_columns(writer: StoreWriter) -> None:
    """The total of everything is a map with one entry, whose key is empty."""
    spec = MapSpec("m", (), (("n", INT),), (), "value")
    batch = pa.table({"_h": [42, 42], "n": [1, 2]})
    arrangement = grown(writer, spec, batch, batch)
    assert content(arrangement) == [{"n": 6}]
    found = arrangement.lookup(pa.table({"_h": [42, 42, 43]}))
    assert found.select(["_i", "n"]).to_pylist() == [{"_i": 0, "n": 6}, {"_i": 1, "n": 6}]


def test_a_range_that_is_empty(writer: StoreWriter) -> None:
    """The ends of the hash space are as good as any other place to begin and end at."""
    arrangement = grown(writer, COUNTS, table(COUNTS, k=[LEAST, MOST], n=1))
    assert list(arrangement.scan(MOST + 1, MOST + 1)) == []
    assert list(arrangement.scan(LEAST, LEAST)) == []
    assert [r["k"] for t in arrangement.scan(MOST, MOST + 1) for r in t.to_pylist()] == [MOST]


def test_a_compaction_that_waits_is_no_garbage(tmp_path: Path) -> None:
    """Collecting between a compaction and the commit that it rides in loses nothing."""
    store = Store(LocalFiles(tmp_path))
    with store.writer() as writer:
        grown(writer, COUNTS, *(table(COUNTS, k=[i], n=1) for i in range(3)))
        writer.compact(whole=True)
        writer.collect()
        writer.commit(writer.begin())
    fresh = Store(LocalFiles(tmp_path))
    assert [r["k"] for r in content(fresh.at().arrangement("m"))] == [0, 1, 2]
    assert not fresh.check().problems


def test_records_are_collected(tmp_path: Path) -> None:
    """Records that no retained version is read from are deleted."""
    store = Store(LocalFiles(tmp_path), Keep(versions=2))
    with store.writer() as writer:
        for _ in range(50):
            writer.commit(writer.begin())
        writer.collect()
    assert store.log.numbers() == [49, 50]
    assert store.log.records()[0] >= 33
    assert Store(LocalFiles(tmp_path)).at(49).number == 49


def test_changes_that_come_to_zero_touch_their_key(writer: StoreWriter) -> None:
    """They leave no entry, and the value of the key as it was: whoever answers the key need not look it up again."""
    held = table(COUNTS, k=[1, 2], n=1)
    arrangement = grown(writer, COUNTS, held)
    changes = pa.concat_tables([table(COUNTS, k=[1, 2, 3], n=1), table(COUNTS, k=[1, 3], n=-1)])
    entries, touched = arrangement.merge(changes)
    assert touched is not None
    told = zip(*(t.column(n).to_pylist() for t, n in zip(
        (touched.keys, touched.old, touched.new), "knn", strict=True)), strict=True)  # fmt: skip
    assert sorted(told) == [(1, 1, 1), (2, 1, 2), (3, 0, 0)]
    assert entries.column("k").to_pylist() == [2]
