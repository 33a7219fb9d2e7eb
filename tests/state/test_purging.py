"""Purging: a store that is told what is dead against its twin that is told nothing.

Whatever is living reads the same in both at every version; versions that are kept read as they did when they were made; and
what is dead leaves. The predicates of these tests grow: all times below a bound, and some groups.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from faulty_files import FAILURES, STOPS, MemoryFiles, Stopped
from headwater.errors import DamagedState
from headwater.state import compaction, purging, run, writing, zones
from headwater.state.arrangement import INDEX, Arrangement
from headwater.state.collection import Keep
from headwater.state.ends import first_k, last_k
from headwater.state.files import FileSystem
from headwater.state.keys import Bools, canonical
from headwater.state.log import path_of
from headwater.state.positions import from_position
from headwater.state.purging import Dead, Purging, zones_of
from headwater.state.run import MapSpec, Order, RunRef, Runs
from headwater.state.store import DATA, Store, StoreWriter
from headwater.state.writing import Writer
from headwater.state.zones import Zones

INT = pa.int64()
KEY = (("g", INT), ("t", INT), ("x", INT))
RING = (("n", INT), ("s", INT))
SPECS = {
    "changes": MapSpec("changes", KEY, RING, ("g",)),
    "ordered": MapSpec("ordered", KEY, RING, ("g",), order=(Order("t"),)),
    "downwards": MapSpec("downwards", KEY, RING, ("g",), order=(Order("t", descending=True),)),
    "values": MapSpec("values", KEY, RING, ("g", "t", "x"), "value"),
    "groups": MapSpec("groups", KEY, RING, ("g",), "value", (Order("t"),)),
    "latest": MapSpec("latest", KEY, RING, ("g",), "latest", (Order("t"),)),
}
Row = tuple[int, int | None, int, int, int]


class Over(Dead):
    """Times below a bound, and some groups."""

    columns = ("t", "g")

    def __init__(self, bound: int = 0, groups: frozenset[int] = frozenset()):
        self.bound, self.groups = bound, groups

    def gone(self, entries: pa.Table) -> Bools:
        assert set(entries.column_names) == {"g", "t", "x"}
        return np.array(
            [self.is_dead(*r) for r in zip(*(entries[c].to_pylist() for c in "gt"), strict=True)],
            np.bool_,
        )

    def is_dead(self, g: int, t: int | None) -> bool:
        return g in self.groups or (t is not None and t < self.bound)

    def all(self, zones: Zones) -> bool:
        t, g = zones.get("t"), zones.get("g")
        if t is not None and not t.nulls and t.ends is not None and t.greatest.as_py() < self.bound:
            return True
        return g is not None and set(_span(g)) <= self.groups

    def none(self, zones: Zones) -> bool:
        t, g = zones.get("t"), zones.get("g")
        early = t is None or (t.ends is not None and t.least.as_py() < self.bound)
        return not early and g is not None and self.groups.isdisjoint(_span(g))


def _span(zone: zones.Zone) -> range:
    return range(zone.least.as_py(), zone.greatest.as_py() + 1)


class Counting(Over):
    """The same with zones of nothing: runs can only be counted."""

    columns = ()


class Shaded(Over):
    """Of a group the first two entries in the order of the map are read, and no other."""

    def dominated(self, entries: pa.Table) -> Bools:
        seen: dict[Any, int] = {}
        out = []
        for g in entries["g"].to_pylist():
            seen[g] = seen.get(g, 0) + 1
            out.append(seen[g] > 2)
        assert entries["g"].to_pylist() == sorted(
            entries["g"].to_pylist(), key=list(dict.fromkeys(entries["g"].to_pylist())).index
        ), "a group is in one piece"
        return np.array(out, np.bool_)


def hashed(g: int) -> int:
    return (g % 3) * 0x1234_5678_9ABC - (1 << 50)  # groups share hashes


def table(rows: list[Row]) -> pa.Table:
    g, t, x, n, s = (list(c) for c in zip(*rows, strict=True)) if rows else ([],) * 5
    h = [hashed(i) for i in g]
    columns = {"_h": h, "g": g, "t": t, "x": x, "n": n, "s": s}
    return pa.table({c: pa.array(v, INT) for c, v in columns.items()})


def keys_of(groups: list[int]) -> pa.Table:
    h = pa.array([hashed(g) for g in groups], INT)
    return pa.table({"_h": h, "g": pa.array(groups, INT)})


def applied(writer: StoreWriter, name: str, rows: list[Row]) -> int:
    commit = writer.begin()
    if name not in commit.base.maps:
        commit.create(SPECS[name])
    if SPECS[name].kind == "latest":
        commit.put(
            name, table([(g, t, x, int(n > 0), s if n > 0 else 0) for g, t, x, n, s in rows])
        )
    else:  # what adds up is nothing where the count is
        commit.merge(name, table([(g, t, x, n, n * (x + (t or 0))) for g, t, x, n, _ in rows]))
    return writer.commit(commit).number


def entries(at: Arrangement, dead: Over | None = None, some: int = 1000) -> list[tuple[Any, ...]]:
    """All entries, or those that are living, `some` at a time."""
    rows = [tuple(r.values())[1:] for t in at.scan(rows=some) for r in t.to_pylist()]
    return rows if dead is None else living(at, rows, dead)


def living(at: Arrangement, rows: list[tuple[Any, ...]], dead: Over) -> list[tuple[Any, ...]]:
    g, t = at.spec.keys.index("g"), at.spec.keys.index("t")
    return [r for r in rows if not dead.is_dead(r[g], r[t])]


def found(at: Arrangement, answer: pa.Table, dead: Over) -> list[tuple[Any, ...]]:
    """The living entries of a look-up's answer, with the place of their key."""
    names = [INDEX, *at.spec.keys, *at.spec.rings]
    rows = [tuple(r[n] for n in names) for r in answer.select(names).to_pylist()]
    shown = at.spec.keys.index("g") + 1, at.spec.keys.index("t") + 1
    return [r for r in rows if not dead.is_dead(r[shown[0]], r[shown[1]])]


def assert_alike(purged: Arrangement, twin: Arrangement, dead: Over) -> None:
    """Everything that is living reads the same."""
    spec = purged.spec
    assert entries(purged, dead, 3) == entries(twin, dead)
    groups = [g for g in range(5) if g not in dead.groups]
    keys = keys_of(groups)
    if spec.lookup == ("g",):
        got, expected = (sorted(found(a, a.lookup(keys), dead), key=repr) for a in (purged, twin))
        assert got == expected
    there = entries(twin, dead) + [(g, 99, 0, 1, 1) for g in groups]
    whole = pa.table(
        {
            "_h": pa.array([hashed(r[0]) for r in there], INT),
            **{n: pa.array([r[i] for r in there], INT) for i, n in enumerate(spec.keys)},
        }
    )
    got, expected = (
        sorted(found(a, a.lookup(whole, whole_key=True), dead)) for a in (purged, twin)
    )
    assert got == expected
    if not spec.order:
        return
    first = pa.table({"t": pa.array([dead.bound] * len(groups), INT)})
    last = pa.table({"t": pa.array([max(dead.bound, 3)] * len(groups), INT)})
    down = spec.order[0].descending
    if not down:
        for until, after in ((None, 0), (last, 2)):
            got, expected = (
                from_position(a, keys, first, until=until, after=after).to_pylist()
                for a in (purged, twin)
            )
            assert got == expected
    # As many rows from the end as are not over; what lies behind nobody asks for.
    near = first_k if down else last_k
    for at, g in enumerate(groups):
        rows = [r for r in entries(twin, dead) if r[0] == g and r[1] is not None]
        for k in {1, sum(max(r[3], 0) for r in rows)} if rows and rows[0][3] > 0 else ():
            if k <= sum(max(r[3], 0) for r in rows):
                one = keys.slice(at, 1)
                assert near(purged, one, k).to_pylist() == near(twin, one, k).to_pylist()


ROWS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.none() | st.integers(0, 9),
        st.integers(0, 1),
        st.sampled_from([1, 1, 2, -1]),
        st.integers(-3, 3),
    ),
    max_size=6,
    unique_by=lambda r: r[:3],
)
STEPS = st.lists(
    st.tuples(
        ROWS,
        st.integers(0, 3),
        st.none() | st.integers(0, 4),
        st.sampled_from(["", "", "due", "whole"]),
    ),
    min_size=1,
    max_size=12,
)


@contextlib.contextmanager
def small() -> Iterator[None]:
    """A few rows are enough for everything to be due."""
    with (
        patch.object(writing, "SEGMENT", 4),
        patch.object(purging, "FEW", 1),
        patch.object(compaction, "FEW", 1),
        patch.object(purging, "PATIENCE", 2),
        patch.object(purging, "EVERY", 1),
    ):
        yield


Steps = list[tuple[list[Row], int, int | None, str]]


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(SPECS)), st.sampled_from([Over, Counting]), STEPS)
@example(
    # A run that is all dead, above it a large one, and small ones that delete a key of that: the deletion must stay.
    "values",
    Counting,
    [
        ([(0, 0, 0, 1, 0)], 1, None, ""),
        ([(1, 9, x, 1, 0) for x in range(12)], 0, None, ""),
        ([(1, 9, 0, -1, 0)], 0, None, ""),
        *(([(2, 9, x, 1, 0)], 0, None, "due" if x == 2 else "") for x in range(3)),
        ([], 0, None, ""),
    ],
)
def test_what_is_living_reads_as_in_a_store_that_purges_nothing(
    name: str, kind: type[Over], steps: Steps
) -> None:
    with small():
        assert_a_story(name, kind, steps)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None)
@given(st.sampled_from(sorted(SPECS)), st.sampled_from([Over, Counting]), STEPS)
def test_what_is_living_reads_the_same_for_long(name: str, kind: type[Over], steps: Steps) -> None:
    with small():
        assert_a_story(name, kind, steps)


def assert_a_story(name: str, kind: type[Over], steps: Steps) -> None:
    keep = Keep(versions=1000)
    store, other = Store(MemoryFiles(), keep), Store(MemoryFiles(), keep)
    dead, shown = kind(), dict[int, list[tuple[Any, ...]]]()
    with store.writer() as writer, other.writer() as twin:
        for rows, further, group, how in steps:
            writer.dead = {name: dead}
            if SPECS[name].kind == "value":  # each key once: as a merge with a value map wants it
                rows = [r for r in rows if not dead.is_dead(r[0], r[1])]
            number = applied(writer, name, rows)
            assert applied(twin, name, rows) == number
            if how:
                writer.compact(whole=how == "whole")
            purged, whole = store.at(number).arrangement(name), other.at(number).arrangement(name)
            assert_alike(purged, whole, dead)
            shown[number] = entries(purged)
            more = dead.groups if group is None else dead.groups | {group}
            dead = kind(dead.bound + further, more)
        writer.dead = {name: dead}
        for _ in range(2):  # what was begun before rides first
            writer.compact(whole=True)
            assert applied(writer, name, []) == applied(twin, name, [])
        at = store.at().arrangement(name)
        assert_alike(at, other.at().arrangement(name), dead)
        assert entries(at) == entries(at, dead), "nothing that is dead is left"
        for old, expected in shown.items():
            assert entries(store.at(old).arrangement(name)) == expected
        assert not store.check().problems


# --- what is done, and what is not -------------------------------------------------------------------------


def filled(
    name: str, windows: int, dead: Dead | None, rows: int = 400
) -> tuple[Store, StoreWriter]:
    """A window of entries an increment; nothing is rewritten."""
    store = Store(MemoryFiles(), Keep(versions=1))
    writer = store.writer()
    if dead is not None:
        writer.dead = {name: dead}
    for t in range(windows):
        applied(writer, name, [(x % 5, t, x, 1, 1) for x in range(rows)])
    return store, writer


def test_a_run_that_is_all_dead_is_dropped_unread() -> None:
    store, writer = filled("changes", 3, Over())
    writer.dead = {"changes": Over(2)}
    with (
        patch.object(Runs, "open", side_effect=AssertionError("nothing is read")),
        patch.object(Runs, "verify", side_effect=AssertionError("nothing is read")),
    ):
        writer.compact()
    before = store.at().arrangement("changes").refs
    applied(writer, "changes", [])
    assert store.at().arrangement("changes").refs == before[:1]
    assert len(writer.collect()) >= 2
    assert not store.check().problems


def test_a_run_without_zones_is_counted_and_never_dropped_unread() -> None:
    store, writer = filled("changes", 3, None)
    assert all(not r.zone for r in store.at().arrangement("changes").refs)
    writer.dead = {"changes": Over(2)}
    with patch.object(Over, "all", side_effect=AssertionError("there are no zones")):
        writer.compact()
    applied(writer, "changes", [])
    assert [r.version for r in store.at().arrangement("changes").refs] == [3]


def test_a_map_is_rewritten_when_a_quarter_is_dead_and_not_again() -> None:
    """One run has all windows: a quarter of it must be over before it is written anew, and then once."""
    store, writer = filled("changes", 20, Over())
    writer.compact(whole=True)
    applied(writer, "changes", [])
    rewritten = []
    for bound in [*range(10), *[9] * 10]:
        writer.dead = {"changes": Over(bound)}
        with patch.object(purging, "PATIENCE", 1), patch.object(purging, "EVERY", 1):
            writer.compact()
        refs = store.at().arrangement("changes").refs
        applied(writer, "changes", [])
        now = store.at().arrangement("changes").refs
        if now != refs:
            rewritten.append((bound, now[0].rows))
    assert rewritten == [(5, 6000), (9, 4400)]


def test_a_run_is_counted_ever_more_seldom() -> None:
    _, writer = filled("changes", 10, Over())
    writer.compact(whole=True)
    applied(writer, "changes", [])
    looked = list[int]()

    class Looking(Over):
        def __init__(self, i: int):
            super().__init__(1)
            self.i = i

        def gone(self, entries: pa.Table) -> Bools:
            looked.append(self.i)
            return np.zeros(entries.num_rows, np.bool_)

    for i in range(100):
        writer.dead = {"changes": Looking(i)}
        writer.compact()
    assert looked == [0, 4, 12, 28, 44, 60, 76, 92]


def test_a_predicate_that_is_taken_back_purges_nothing_more() -> None:
    """Also what was rewritten while it held is left aside; and runs are counted anew after that."""
    for told in (None, Over(1), Counting(1)):
        store, writer = filled("changes", 3, None if isinstance(told, Counting) else Over())
        for _ in range(3):  # after that it is not looked at for a while
            writer.dead = {"changes": Over(2), "other": Over(2)}
            writer.compact(whole=True)
        writer.spare("changes")
        assert set(writer.dead) == {"other"}
        if told is not None:
            writer.dead = {"changes": told}
            applied(writer, "changes", [])
            writer.compact()
        applied(writer, "changes", [])
        refs = store.at().arrangement("changes").refs
        assert [r.version for r in refs] == ([3, 2, 1] if told is None else [3, 2])
        assert all(r.file.startswith("run-") for r in refs), "none was rewritten"


def test_dominated_entries_leave_when_all_runs_are_rewritten_at_once() -> None:
    store, writer = filled("ordered", 6, Shaded(), rows=100)
    at = store.at().arrangement("ordered")
    with patch.object(Shaded, "dominated", side_effect=AssertionError("runs are left")):
        compaction.compact(at, at.refs[:4], Writer(store.files, "x"), Shaded())
    with patch.object(Arrangement, "pieces", lambda *_: [(run.LEAST, 0), (0, run.MOST)]):
        writer.compact(whole=True)
    applied(writer, "ordered", [])
    at = store.at().arrangement("ordered")
    assert [r[:3] for r in entries(at)] == sorted(
        ((g, 0, x) for g in range(5) for x in (g, g + 5)), key=lambda r: (hashed(r[0]), r)
    )
    writer.compact()  # one run, and nothing of it is dead
    applied(writer, "ordered", [(0, 9, 9, 1, 1)])
    writer.compact(whole=True)
    applied(writer, "ordered", [])
    assert len(entries(store.at().arrangement("ordered"))) == 10


def test_a_pinned_map_is_left_alone() -> None:
    store, writer = filled("changes", 2, Over())
    commit = writer.begin()
    queue = replace(SPECS["changes"], name="queue", pinned=True, of="changes")
    commit.create(queue)
    commit.add("queue", commit.base.maps["changes"][1])
    writer.commit(commit)
    writer.dead = {n: Over(10) for n in ("changes", "queue")}
    writer.compact(whole=True)
    applied(writer, "changes", [])
    assert not entries(store.at().arrangement("changes"))
    assert len(entries(store.at().arrangement("queue"))) == 800
    writer.collect()
    assert not store.check().problems


def test_what_is_kept_does_not_grow_when_the_bound_follows_the_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bytes on disk after collection, by `tidy` alone; the twin's grow with the windows."""
    sizes: dict[bool, list[int]] = {True: [], False: []}
    monkeypatch.setattr(purging, "FEW", 100)
    monkeypatch.setattr(compaction, "FEW", 100)
    for purges, kept in sizes.items():
        store = Store(MemoryFiles(), Keep(versions=2))
        with store.writer() as writer:
            for window in range(40):
                for part in range(2):
                    rows = [(x % 5, window, 1000 * part + x, 1, 1) for x in range(100)]
                    applied(writer, "ordered", rows)
                    writer.dead = {"ordered": Over(window - 1)} if purges else {}
                    writer.tidy()
                    writer.wait()
                writer.collect()
                kept.append(store.disk().data)
    purged, twin = sizes[True], sizes[False]
    assert max(purged[25:]) < 1.3 * max(purged[8:20])
    assert max(purged[25:]) < max(twin) / 4


@dataclass
class Seen:
    """Dead entries that were read, by how."""

    dead: Over
    found: ClassVar[dict[str, int]] = {}

    def __call__(self, at: Arrangement, found: pa.Table, how: str) -> None:
        mask = self.dead.gone(found.select(["g", "t", "x"]))
        self.found[how] = self.found.get(how, 0) + int(mask.sum())


def test_a_watch_sees_the_dead_entries_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    store, writer = filled("ordered", 4, Over(), rows=100)
    at, keys = store.at().arrangement("ordered"), keys_of([1])
    seen = Seen(Over(2))
    monkeypatch.setattr(Seen, "found", {})
    monkeypatch.setattr(Arrangement, "watch", seen)
    times = [pa.table({"t": pa.array([t], INT)}) for t in (1, 2)]
    at.lookup(keys)
    last_k(at, keys, 20)
    from_position(at, keys, times[1])
    assert seen.found == {"look-up": 40, "ends": 0, "range": 0}
    first_k(at, keys, 30)
    from_position(at, keys, times[0])
    at.merge(table([(1, 0, 1, 1, 1), (1, 3, 1, 1, 1)]))
    list(at.scan())
    at.collected(at.refs[2:], run.LEAST, run.MOST)
    expected = {"look-up": 40, "ends": 30, "range": 20, "merge": 1, "scan": 200, "runs": 200}
    assert seen.found == expected
    writer.compact(whole=True)
    assert seen.found == expected, "compaction does not count"


# --- zones -------------------------------------------------------------------------------------------------

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    INT: st.integers(-(1 << 63), (1 << 63) - 1),
    pa.int16(): st.integers(-(1 << 15), (1 << 15) - 1),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.decimal128(38, 3): st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda i: Decimal((i < 0, tuple(map(int, str(abs(i)))), -3))
    ),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(
        datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)
    ),
    pa.string(): st.text(max_size=4),
}


def in_order(value: Any) -> Any:
    """A value by Spark's order: NaN is the greatest, texts are by their bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(list(VALUES)))
def test_a_zone_has_the_least_and_the_greatest_value(data: st.DataObject, t: pa.DataType) -> None:
    many = data.draw(st.lists(st.lists(st.none() | VALUES[t], min_size=1), min_size=1, max_size=3))
    tables = [pa.record_batch({"k": canonical(pa.array(values, t))}) for values in many]
    noted = zones.together([zones.noted(table, ["k"]) for table in tables])
    assert zones.of_data(json.loads(json.dumps(noted))) == noted
    zone = zones.known(noted, tables[0].schema)["k"]
    values = [v for table in tables for v in table["k"].to_pylist()]
    there = sorted((v for v in values if v is not None), key=in_order)
    assert zone.nulls == (len(there) < len(values))
    if not there:
        assert zone.ends is None and zone.least is None and zone.greatest is None
    else:
        ends = [in_order(v.as_py()) for v in (zone.least, zone.greatest)]
        assert ends == [in_order(there[0]), in_order(there[-1])]
        assert zone.least.type == zone.greatest.type == tables[0].schema.field("k").type


def test_some_columns_have_no_zone() -> None:
    lists = pa.array([[1]], pa.large_list(INT))
    long = pa.array(["x" * 65], pa.large_string())
    given = pa.record_batch({"l": lists, "s": long, "i": pa.array([1], INT)})
    assert zones.noted(given, ["l", "s", "i"]) == (("i", 1, 1, False),)
    both = zones.together([(("i", 1, 1, False),), (("i", 0, 0, True), ("s", "a", "b", False))])
    assert both == (("i", 0, 1, True),)


def test_a_record_has_the_zones_that_its_writer_was_told_and_no_other() -> None:
    store, writer = filled("changes", 2, None, rows=2)
    writer.dead = {"changes": Over()}
    applied(writer, "changes", [(3, None, 0, 1, 1), (1, 7, 0, 1, 1), (2, 5, 0, 1, 1)])
    writer.dead = {"changes": Counting()}
    applied(writer, "changes", [(3, 8, 0, 1, 1)])
    records = [json.loads(store.files.read(path_of(n)).rpartition(b"\n")[0]) for n in range(1, 5)]
    runs = [r["change"]["added"]["changes"][0] for r in records]
    assert ["zone" in r for r in runs] == [False, False, True, False]
    assert runs[2]["zone"] == [["t", 5, 7, True], ["g", 1, 3, False]]
    assert "zone" not in records[0]["checkpoint"]["maps"]["changes"][1][0]
    for number in range(1, 5):  # as another process reads it
        found = Store(store.files).at(number).version
        assert found.maps == store.at(number).version.maps
        refs = found.maps["changes"][1]
        assert [bool(r.zone) for r in refs] == [n == 3 for n in range(1, number + 1)]
    at = Store(store.files).at(3).arrangement("changes")
    known = zones_of(at, at.refs[0])
    assert (known["t"].least.as_py(), known["t"].greatest.as_py(), known["t"].nulls) == (5, 7, True)
    assert RunRef.of_data(json.loads(json.dumps(at.refs[0].data()))).zone == at.refs[0].zone
    assert not store.check().problems


@pytest.mark.parametrize(
    "zone",
    [
        [["t", 5]],
        [["t", 7, 5, False]],
        [["t", 5, "7", False]],
        [["t", 5, None, False]],
        [["t", 5, 7, 0]],
        [[1, 5, 7, True]],
        [["t", 5, 7, True], ["t", 5, 7, True]],
        [["t", 5.0, 7.0, True]],
        5,
    ],
)
def test_a_zone_that_no_writer_writes_is_refused(zone: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        zones.of_data(zone)


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ((("t", 6, 7, True),), "is not that of its entries"),
        ((("s", 1, 1, False),), "is of a column that is no key"),
    ],
)
def test_a_zone_that_lies_is_found_by_a_check(zone: tuple[zones.Noted, ...], told: str) -> None:
    store, writer = filled("changes", 1, Over(), rows=2)
    commit = writer.begin()
    out = Writer(store.files, "run", DATA)
    out.add(SPECS["changes"], [table([(1, 5, 0, 1, 1)])], commit.generation())
    ((_, ref),) = out.close()
    commit.add("changes", [replace(ref, zone=zone)])
    writer.commit(commit)
    assert [told in str(p) for p in store.check().problems] == [True]
    if "no key" in told:
        with pytest.raises(DamagedState, match=told):
            writer.dead = {"changes": Over(1)}
            writer.compact(whole=True)


# --- faults ------------------------------------------------------------------------------------------------

BEFORE, BOUND = 6, Over(4, frozenset({2}))


def purging_work(files: FileSystem) -> None:
    """Purges two maps, and lets a commit of both carry it; then what nobody names goes."""
    with Store(files, Keep(versions=1)).writer(time_to_live=0) as writer:
        writer.dead = {n: BOUND for n in ("changes", "latest")}
        writer.compact()
        story(writer, BEFORE)
        writer.collect()


def story(writer: StoreWriter, k: int) -> None:
    commit = writer.begin()
    for name in ("changes", "latest"):
        if k == 0:
            commit.create(SPECS[name])
        rows: list[Row] = [(x % 5, k + x % 2, x, 1, k) for x in range(6)]
        (commit.put if name == "latest" else commit.merge)(name, table(rows))
    writer.commit(commit)


def contents(store: Store, number: int, dead: Over | None = None) -> Any:
    at = store.at(number)
    return {n: entries(at.arrangement(n), dead) for n in at.version.maps}


def different(trace: list[str]) -> list[int]:
    """The steps of some work, but for writes to a file between its first and its last one."""
    around = [None, *trace, None]
    return [i for i in range(1, len(trace) + 1) if len({*around[i - 1 : i + 2]}) > 1]


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=[pytest.mark.slow] * (k in ("tear", "full"))) for k in STOPS + FAILURES],
)
def test_a_commit_that_purges_may_stop_at_any_step(kind: Any) -> None:
    """The version before is there or the one after, whole; those that are kept read as before; and it goes on."""
    with small():
        base = MemoryFiles()
        with Store(base).writer(time_to_live=0) as writer:
            writer.dead = {n: Over() for n in ("changes", "latest")}
            for k in range(BEFORE):
                story(writer, k)
        base.clock += 7200
        shown = {n: contents(Store(base), n) for n in range(1, BEFORE + 1)}
        twin = base.copy()
        with Store(twin).writer(time_to_live=0) as writer:
            story(writer, BEFORE)
        alive = {n: contents(Store(twin), n, BOUND) for n in (BEFORE, BEFORE + 1)}
        done = base.copy()
        purging_work(done)
        after = contents(Store(done), BEFORE + 1)
        assert contents(Store(done), BEFORE + 1, BOUND) == alive[BEFORE + 1]
        assert sum(map(len, after.values())) < sum(
            len(v) for v in contents(Store(twin), BEFORE + 1).values()
        )
        assert len(done.names(DATA)) < len(base.names(DATA))
        heads, checked = set(), set()
        for step in different(done.trace):
            broken = base.copy()
            broken.faults = {step: kind}
            with contextlib.suppress(Stopped, OSError):
                purging_work(broken)
            crashed = itertools.islice(broken.crashed(), 3)
            for found in crashed if kind in STOPS else (broken.copy(),):
                store = Store(found)
                head = store.head()
                heads.add(head)
                for n in {*store.log.numbers()[:1], *store.log.numbers()[-2:]}:
                    assert contents(store, n) == (after if n > BEFORE else shown[n])
                assert not store.check().problems
                if (step, head) not in checked and step % 4 == 0:
                    checked.add((step, head))
                    found.clock += 7200
                    if head == BEFORE:
                        purging_work(found)
                        again = Store(found)  # a fence may have come before
                        assert contents(again, again.head(), BOUND) == alive[BEFORE + 1]
        assert heads == {BEFORE, BEFORE + 1}


def test_the_numbers_that_say_when_are_in_order() -> None:
    assert compaction.FEW == purging.FEW
    assert not Over().dominates and Shaded().dominates
    assert Purging().counts(Arrangement(SPECS["changes"], (), None), None, None) == {}  # type: ignore[arg-type]
