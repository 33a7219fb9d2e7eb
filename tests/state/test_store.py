"""The store against a plain dictionary: whatever is done to it, in any order, every version reads the same.

A machine merges random changes (in one piece, blindly, or divided over hash ranges), looks up, groups, takes
first entries, scans, purges, compacts, collects, reopens, drops and creates maps, and reads back in time. It puts
entries into latest maps, and a queue has runs of another map, which come and go one by one. Some versions are minor. The
model of a version is a dict from keys to ring values for each map. The hash is weak on purpose, so that keys
that share one are the rule and both ends of the hash space occur; segments, checkpoints and pieces of a
compaction are small, so that a few rows have several of them.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise, product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from headwater.errors import StateError, VersionGone
from headwater.state import collection, compaction, log, run, search, writing
from headwater.state.arrangement import Arrangement, Touched
from headwater.state.collection import Keep
from headwater.state.ends import first_k
from headwater.state.files import LocalFiles
from headwater.state.run import LEAST, MOST, MapSpec, Order, RunRef
from headwater.state.store import Commit, Store
from headwater.state.writing import Writer

Key = tuple[Any, ...]
Ring = tuple[Any, ...]
Change = tuple[Key, Ring]
Map = dict[Key, Ring]

INT, TEXT, REAL = pa.int64(), pa.string(), pa.float64()

TOTALS = MapSpec(
    "totals",
    (("a", INT), ("b", TEXT)),
    (("n", INT), ("s", INT), ("d", pa.decimal128(18, 2)), ("x", REAL)),
    ("a", "b"),
    "value",
)
BAG = MapSpec("bag", (("a", INT), ("b", TEXT), ("c", INT)), (("n", INT),), ("a", "b"))
SUMS = MapSpec("sums", (("a", INT), ("b", TEXT)), (("n", INT), ("s", INT)), ("a",))
RANKS = MapSpec(
    "ranks",
    (("a", INT), ("c", INT), ("b", TEXT), ("e", INT)),
    (("n", INT),),
    ("a",),
    order=(Order("c", descending=True, nulls_last=True), Order("b")),
)
BEST = MapSpec(
    "best",
    (("a", INT), ("r", REAL)),
    (("n", INT), ("x", REAL)),
    ("a",),
    "value",
    (Order("r", descending=True),),
)
LINES = pa.list_(pa.struct([("x", TEXT), ("y", pa.decimal128(9, 2))]))
CELLS = MapSpec(
    "cells",
    (("a", INT), ("b", TEXT)),
    (("n", pa.int32()), ("t", TEXT), ("l", LINES), ("x", REAL)),
    ("a", "b"),
    "latest",
)
NOTES = MapSpec(
    "notes",
    (("a", INT), ("c", INT), ("b", TEXT)),
    (("n", INT), ("t", TEXT)),
    ("a",),
    "latest",
    (Order("c", descending=True),),
)
QUEUE = replace(BAG, name="queue", pinned=True, of="bag")
GIVEN = pa.schema([("_h", INT), ("a", INT)])
SPECS = {s.name: s for s in (TOTALS, BAG, SUMS, RANKS, BEST, CELLS, NOTES)}
HASHES = (LEAST, 5, MOST - 1)
PARTS = ("keys", "old", "new")
CUTS = (LEAST, LEAST + 1, -1, 5, 6, MOST - 1, MOST)

SOME: dict[str, list[Any]] = {
    "a": [None, 0, 1, 2, 3, 4],
    "b": [None, "", "x", "é"],
    "c": [None, -2, -1, 0, 7],
    "e": [0, 1],
    "r": [None, math.nan, 0.0, -0.0, 1.5, -math.inf, math.inf],
}
VALUES = {name: st.sampled_from(values) for name, values in SOME.items()}
RINGS: dict[str, st.SearchStrategy[Any]] = {
    "n": st.sampled_from([-2, -1, 0, 1, 1, 1, 2]),
    "s": st.integers(-3, 3),
    "d": st.integers(-300, 300).map(lambda i: Decimal(i) / 100),
    "x": st.integers(-4, 4).map(lambda i: i / 2),
}
CENTS = st.none() | st.integers(0, 9).map(lambda i: Decimal(i).scaleb(-2))
HELD: dict[str, st.SearchStrategy[Any]] = {
    "t": st.sampled_from([None, "", "x", "é"]),
    "l": st.none()
    | st.lists(st.none() | st.fixed_dictionaries({"x": VALUES["b"], "y": CENTS}), max_size=2),
    "x": st.sampled_from([None, 0.5, math.inf]),
}


def plain(value: Any) -> Any:
    """A key's value with the one NaN, as one that is equal to itself, and no negative zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def unplain(key: Key) -> Key:
    return tuple(math.nan if v == "NaN" else v for v in key)


def hashable(value: Any) -> Any:
    """A ring value that may be nested."""
    if isinstance(value, list):
        return tuple(hashable(v) for v in value)
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


def plainly(key: Iterable[Any]) -> Key:
    return tuple(plain(v) for v in key)


def weak(values: Iterable[Any]) -> int:
    """A hash with three values."""
    return HASHES[
        sum(7 if v is None else len(v) if isinstance(v, str) else int(v) for v in values) % 3
    ]


def named(spec: MapSpec, names: Iterable[str], key: Key) -> Key:
    """Some columns of a key."""
    at = [n for n, _ in spec.key]
    return tuple(key[at.index(n)] for n in names)


def hash_of(spec: MapSpec, key: Key) -> int:
    return weak(named(spec, spec.lookup, key))


def table(spec: MapSpec, changes: list[Change]) -> pa.Table:
    """Changes as a table, in two chunks."""
    data: dict[str, pa.ChunkedArray] = {}
    half = len(changes) // 2

    def add(name: str, values: list[Any], t: pa.DataType) -> None:
        data[name] = pa.chunked_array([values[:half], values[half:]], t)

    add("_h", [hash_of(spec, k) for k, _ in changes], INT)
    for i, (name, t) in enumerate(spec.key):
        add(name, [k[i] for k, _ in changes], t)
    for i, (name, t) in enumerate(spec.ring):
        add(name, [r[i] for _, r in changes], t)
    return pa.table(data)


def read(spec: MapSpec, entries: pa.Table) -> list[Change]:
    """A table's entries as plain tuples; their hashes must be those of their keys."""
    keys = list(zip(*(entries.column(n).to_pylist() for n, _ in spec.key), strict=True))
    rings = list(zip(*(entries.column(n).to_pylist() for n in spec.rings), strict=True))
    if "_h" in entries.column_names:
        assert entries.column("_h").to_pylist() == [hash_of(spec, k) for k in keys]
    return [(plainly(k), hashable(list(r))) for k, r in zip(keys, rings, strict=True)]


def indexed(spec: MapSpec, entries: pa.Table) -> Counter[tuple[int, Key, Ring]]:
    """The entries of an answer by `_i`."""
    at = entries.column("_i").to_pylist()
    return Counter((i, k, r) for i, (k, r) in zip(at, read(spec, entries), strict=True))


def zero(spec: MapSpec) -> Ring:
    rest = None if spec.kind == "latest" else 0
    return (0, *[rest] * (len(spec.ring) - 1))


def add(a: Ring, b: Ring) -> Ring:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def net(spec: MapSpec, changes: list[Change]) -> Map:
    """The sum of the changes of each key, without those that come to nothing."""
    out: Map = {}
    for key, ring in changes:
        out[plainly(key)] = add(out.get(plainly(key), zero(spec)), ring)
    return {k: r for k, r in out.items() if any(r)}


def merged(spec: MapSpec, old: Map, changes: list[Change]) -> Map:
    """New values are old values and changes added; of a change map what comes to nothing is gone, else what has no count."""
    new = dict(old)
    whole = spec.kind == "change" and all(t != pa.float64() for _, t in spec.ring)
    for key, ring in net(spec, changes).items():
        new[key] = add(old.get(key, zero(spec)), ring)
        if not any(new[key]) if whole else new[key][0] == 0:
            del new[key]
    return new


def put(old: Map, entries: list[Change]) -> Map:
    """New entries in place of old ones; a key whose count is zero is gone."""
    new = dict(old)
    for key, ring in entries:
        new.pop(plainly(key), None)
        if ring[0]:
            new[plainly(key)] = hashable(list(ring))
    return new


def rank(spec: MapSpec, key: Key) -> list[Any]:
    """What Spark's order of the entries of a group is the order of."""
    directions = {o.column: o for o in spec.order}
    out: list[Any] = []
    for name, value in zip(spec.keys, named(spec, spec.keys, key), strict=True):
        order = directions.get(name, Order(name))
        place: tuple[Any, ...] = (value == "NaN", 0.0 if value == "NaN" else value)
        if isinstance(value, str) and value != "NaN":
            place = (False, value)
        if value is None:
            out.append((order.nulls_last,))
        elif order.descending:
            out.append((not order.nulls_last, -place[0], -place[1]))
        else:
            out.append((not order.nulls_last, *place))
    return out


def first(spec: MapSpec, content: Map, k: int) -> list[Change]:
    """The entries that hold the first k rows of a group."""
    out, rows = [], 0
    for key in sorted(content, key=lambda x: rank(spec, x)):
        if rows >= k:
            break
        out.append((key, content[key]))
        rows += max(content[key][0], 0)
    return out


def key_of(spec: MapSpec) -> st.SearchStrategy[Key]:
    return st.tuples(*(VALUES[n] for n, _ in spec.key))


def changes_of(name: str) -> st.SearchStrategy[tuple[str, list[Change]]]:
    spec = SPECS[name]
    ring = st.tuples(*(RINGS[n] for n in spec.rings))
    return st.tuples(st.just(name), st.lists(st.tuples(key_of(spec), ring), max_size=14))


def keys_of(name: str) -> st.SearchStrategy[tuple[str, list[Key]]]:
    return st.tuples(st.just(name), st.lists(key_of(SPECS[name]), max_size=8))


def entries_of(name: str) -> st.SearchStrategy[tuple[str, list[Change]]]:
    """Rows for a latest map; what a row has beside a count of zero does not matter."""
    spec = SPECS[name]
    ring = st.tuples(st.sampled_from([0, 1, 1]), *(HELD[n] for n in spec.rings[1:]))
    return st.tuples(st.just(name), st.lists(st.tuples(key_of(spec), ring), max_size=14))


NAMES = st.sampled_from(sorted(SPECS))
CHANGES = st.sampled_from([n for n, s in SPECS.items() if s.kind != "latest"]).flatmap(changes_of)
ENTRIES = st.sampled_from(["cells", "notes"]).flatmap(entries_of)
KEYS = NAMES.flatmap(keys_of)
ORDERED = st.sampled_from(["ranks", "best", "notes"]).flatmap(keys_of)
RANGES = st.lists(st.sampled_from(CUTS[1:-1]), max_size=3, unique=True).map(
    lambda cuts: [LEAST, *sorted(cuts), MOST]
)


@dataclass(frozen=True)
class Past:
    """The model of a version."""

    maps: dict[str, Map]
    facts: dict[str, Any]


class Machine(RuleBasedStateMachine):
    """A store and its model, changed together."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="headwater-"))
        self.undo = ExitStack()
        self.rows: dict[Key, list[int]] = {}
        self.past: dict[int, Past] = {0: Past({}, {})}
        self.head, self.floor = 0, 1
        self.minor, self.counted = False, list[int]()
        self.queued: dict[RunRef, Map] = {}

    @initialize(
        fan=st.integers(2, 4),
        segment=st.integers(1, 9),
        block=st.integers(1, 4),
        dense=st.sampled_from([0, 1, 100]),
        keep=st.integers(1, 6),
    )
    def start(self, fan: int, segment: int, block: int, dense: int, keep: int) -> None:
        whole = Arrangement.pieces

        def pieces(self: Arrangement, low: int = LEAST, high: int = MOST, rows: int = 5) -> Any:
            return whole(self, low, high, min(rows, 5))

        for target, name, value in (
            (compaction, "FAN", fan),
            (writing, "SEGMENT", segment),
            (search, "BLOCK", block),
            (search, "DENSE", dense),
            (log, "CHECKPOINT", 4),
            (collection, "CHECKPOINT", 4),
            (Arrangement, "pieces", pieces),
            (
                os,
                "fsync",
                lambda handle: None,
            ),  # no machine stops here, and waiting is most of the time
        ):
            self.undo.enter_context(patch.object(target, name, value))
        self.keep = keep
        self.store = self.opened()
        self.writer = self.store.writer()
        commit = self.writer.begin()
        for spec in SPECS.values():
            commit.create(spec)
        commit.create(QUEUE)
        self.commit(commit, {name: {} for name in (*SPECS, "queue")})

    def opened(self) -> Store:
        return Store(LocalFiles(self.folder), Keep(versions=self.keep))

    def teardown(self) -> None:
        try:
            if self.head:
                for number in range(self.floor, self.head + 1):
                    self.same(self.opened(), number)
                assert not self.store.check().problems
                self.writer.close()
        finally:  # or the tests after one that fails have its sizes
            self.undo.close()
            shutil.rmtree(self.folder)

    @property
    def now(self) -> Past:
        return self.past[self.head]

    def commit(self, commit: Commit, maps: dict[str, Map] | None = None) -> None:
        """Commits, with some maps changed in the model."""
        facts = {**self.now.facts, **commit.change.facts}
        self.past[self.head + 1] = Past(
            {**self.now.maps, **(maps or {})}, {k: v for k, v in facts.items() if v is not None}
        )
        self.head += 1
        self.counted += [] if self.minor else [self.head]
        note = {"minor": True} if self.minor else None
        assert self.writer.commit(commit, note).number == self.head == self.store.head()
        for name in maps or {}:
            self.same_map(self.store.at().arrangement(name), self.now.maps[name])

    def same_map(self, arrangement: Arrangement, model: Map) -> None:
        found = [e for t in arrangement.scan(rows=3) for e in read(arrangement.spec, t)]
        assert len(found) == len(model) and dict(found) == model

    def same(self, store: Store, number: int) -> None:
        """A version of the store is what the model says."""
        snapshot = store.at(number)
        assert snapshot.number == number and snapshot.facts == self.past[number].facts
        assert set(snapshot.version.maps) == set(self.past[number].maps)
        for name, model in self.past[number].maps.items():
            self.same_map(snapshot.arrangement(name), model)

    def existing(self, name: str) -> MapSpec | None:
        return SPECS[name] if name in self.now.maps else None

    def well_formed(self, name: str, changes: list[Change]) -> list[Change]:
        """Changes that a bag of rows could have: in `sums`, a count of zero means a sum of zero."""
        if name != "sums":
            return changes
        out = []
        for key, (n, s) in changes:
            rows = self.rows.setdefault(key, [])
            gone = [rows.pop() for _ in range(min(len(rows), 2 if n == -2 else n != 1))]
            new = [s] * n if n > 0 else [s] if n == 0 and gone else []
            rows.extend(new)
            out.append((key, (len(new) - len(gone), sum(new) - sum(gone))))
        return out

    # --- writing ----------------------------------------------------------------------------------------

    @rule(batch=CHANGES)
    def merge(self, batch: tuple[str, list[Change]]) -> None:
        name, changes = batch
        spec = self.existing(name)
        if spec is None:
            return
        changes = self.well_formed(name, changes)
        commit = self.writer.begin()
        touched = commit.merge(name, table(spec, changes))
        assert touched is not None
        old, new = self.now.maps[name], merged(spec, self.now.maps[name], changes)
        self.touched(spec, touched, changes, old, new)
        self.commit(commit, {name: new})

    def touched(
        self, spec: MapSpec, got: Touched, changes: list[Change], old: Map, new: Map
    ) -> None:
        """A merge answers each key that changes came for with its values before and after."""
        keys = {plainly(key) for key, _ in changes}
        for rings, model in ((got.old, old), (got.new, new)):
            entries = read(
                spec, pa.table([*got.keys, *rings], [*got.keys.column_names, *spec.rings])
            )
            assert len(entries) == len(keys)
            assert dict(entries) == {k: model.get(k, zero(spec)) for k in keys}

    @rule(batch=st.sampled_from(["bag", "sums", "ranks"]).flatmap(changes_of))
    def merge_blindly(self, batch: tuple[str, list[Change]]) -> None:
        name, changes = batch
        spec = self.existing(name)
        if spec is None:
            return
        changes = self.well_formed(name, changes)
        commit = self.writer.begin()
        assert commit.merge(name, table(spec, changes), blind=True) is None
        self.commit(commit, {name: merged(spec, self.now.maps[name], changes)})

    @rule(batches=st.lists(CHANGES, max_size=3, unique_by=lambda b: b[0]), ends=RANGES)
    def merge_in_parallel(self, batches: list[tuple[str, list[Change]]], ends: list[int]) -> None:
        """Each task has a range of hashes, and one file for the runs of all maps."""
        commit = self.writer.begin()
        batches = [
            (name, self.well_formed(name, c)) for name, c in batches if name in self.now.maps
        ]
        answers: dict[str, list[Touched]] = {name: [] for name, _ in batches}
        for low, high in pairwise(ends):
            writer = Writer(self.store.files, "task")
            for name, changes in batches:
                arrangement = commit.arrangement(name)
                mine = [(k, r) for k, r in changes if low <= hash_of(SPECS[name], k) < high]
                entries, touched = arrangement.merge(table(SPECS[name], mine))
                writer.add(arrangement.spec, [entries], commit.generation())
                assert touched is not None
                answers[name].append(touched)
            for name, ref in writer.close():
                assert low <= ref.low <= ref.high < high
                commit.add(name, [ref])
        new: dict[str, Map] = {}
        for name, changes in batches:
            spec, old = SPECS[name], self.now.maps[name]
            new[name] = merged(spec, old, changes)
            parts = answers[name]
            whole = Touched(*(pa.concat_tables([getattr(t, f) for t in parts]) for f in PARTS))
            self.touched(spec, whole, changes, old, new[name])
        self.commit(commit, new)

    @rule(
        name=st.sampled_from(["sums", "totals"]),
        updates=st.lists(st.tuples(VALUES["a"], VALUES["b"], RINGS["s"]), max_size=4),
    )
    def update(self, name: str, updates: list[tuple[int | None, str | None, int]]) -> None:
        """Small increments on top of a large run, compacted without it.

        In `sums` they change no count; in `totals` they delete keys.
        """
        spec = SPECS[name]
        every: list[Change] = [
            (k, (1,) * len(spec.ring)) for k in product(SOME["a"], SOME["b"]) if k[1] is not None
        ]
        self.merge((name, every))
        for a, b, s in updates:
            old = self.now.maps.get(name, {}).get((a, b), zero(spec))
            change = (0, s) if name == "sums" else tuple(-x for x in old)
            self.merge((name, [((a, b), change)]))
        self.compact(whole=False, background=False, now=True)

    @rule(name=st.sampled_from(["ranks", "best"]), a=VALUES["a"], gone=st.integers(1, 12))
    def shorten(self, name: str, a: int | None, gone: int) -> None:
        """The first entries of a group are deleted, or it is filled when there are none."""
        if self.existing(name) is None:
            return
        spec, old = SPECS[name], self.now.maps[name]
        group = {k: r for k, r in old.items() if k[0] == a}
        front = first(spec, group, MOST)[:gone]
        changes = [(unplain(k), tuple(-x for x in r)) for k, r in front]
        if not front:
            names = (n for n, _ in spec.key[1:])
            changes = [((a, *k), (1,) * len(spec.ring)) for k in product(*(SOME[n] for n in names))]
        commit = self.writer.begin()
        commit.merge(name, table(spec, changes), blind=spec.kind == "change")
        self.commit(commit, {name: merged(spec, old, changes)})
        self.front(name, [(a,)], 3, 0)

    @rule(name=NAMES, a=VALUES["a"])
    def purge(self, name: str, a: int | None) -> None:
        if self.existing(name) is None:
            return
        commit = self.writer.begin()
        commit.purge(name, lambda t: np.array([v == a for v in t.column("a").to_pylist()], bool))
        if name == "sums":
            self.rows = {k: r for k, r in self.rows.items() if k[0] != a}
        self.commit(commit, {name: {k: r for k, r in self.now.maps[name].items() if k[0] != a}})
        assert len(self.store.at().version.maps[name][1]) <= 1

    @rule(again=st.booleans(), batch=CHANGES)
    def drop(self, again: bool, batch: tuple[str, list[Change]]) -> None:
        """A map is dropped, and in the same commit perhaps created and filled again."""
        name, changes = batch
        if self.existing(name) is None:
            return
        commit = self.writer.begin()
        commit.drop(name)
        if name == "sums":
            self.rows = {}
        gone = self.past[self.head].maps
        left = {n: m for n, m in gone.items() if n != name}
        if again:
            commit.create(SPECS[name])
            changes = self.well_formed(name, changes)
            commit.merge(name, table(SPECS[name], changes))
            left[name] = merged(SPECS[name], {}, changes)
        self.past[self.head] = Past(left, self.now.facts)
        self.commit(commit)
        self.past[self.head - 1] = Past(gone, self.past[self.head - 1].facts)
        if again:
            self.same_map(self.store.at().arrangement(name), left[name])
        else:
            with pytest.raises(StateError, match=f"no map `{name}`"):
                self.store.at().arrangement(name)

    @rule(name=NAMES)
    def create(self, name: str) -> None:
        commit = self.writer.begin()
        if self.existing(name) is None:
            commit.create(SPECS[name])
            self.commit(commit, {name: {}})
        else:
            with pytest.raises(StateError, match="already"):
                commit.create(SPECS[name])

    @rule(key=st.sampled_from("pq"), value=st.sampled_from([None, 1, {"offsets": [1, "é"]}]))
    def fact(self, key: str, value: Any) -> None:
        commit = self.writer.begin()
        commit.set(key, value)
        self.commit(commit)

    @rule(batch=ENTRIES)
    def put(self, batch: tuple[str, list[Change]]) -> None:
        name, entries = batch
        spec = self.existing(name)
        if spec is None:
            return
        commit = self.writer.begin()
        commit.put(name, table(spec, entries))
        self.commit(commit, {name: put(self.now.maps[name], entries)})

    @rule(batch=ENTRIES, ends=RANGES)
    def put_in_parallel(self, batch: tuple[str, list[Change]], ends: list[int]) -> None:
        name, entries = batch
        spec = self.existing(name)
        if spec is None:
            return
        commit = self.writer.begin()
        for low, high in pairwise(ends):
            writer = Writer(self.store.files, "task")
            mine = [(k, r) for k, r in entries if low <= hash_of(spec, k) < high]
            writer.add(spec, [commit.arrangement(name).put(table(spec, mine))], commit.generation())
            commit.add(name, [ref for _, ref in writer.close()])
        self.commit(commit, {name: put(self.now.maps[name], entries)})

    @rule(minor=st.booleans())
    def minor_from_now_on(self, minor: bool) -> None:
        self.minor = minor

    # --- a queue ----------------------------------------------------------------------------------------

    def waiting(self) -> Map:
        """What the runs of the queue say together."""
        return merged(QUEUE, {}, [e for content in self.queued.values() for e in content.items()])

    @rule(batch=changes_of("bag"), done=st.sets(st.integers(0, 3)))
    def enqueue(self, batch: tuple[str, list[Change]], done: set[int]) -> None:
        """A run becomes one of both maps; some that were in the queue are done with."""
        if self.existing("bag") is None:
            return
        commit = self.writer.begin()
        self.dequeue(commit, done)
        commit.merge("bag", table(BAG, batch[1]), blind=True)
        refs = commit.change.added.get("bag", [])
        commit.add("queue", refs)
        self.queued |= {ref: net(BAG, batch[1]) for ref in refs}
        new = {"bag": merged(BAG, self.now.maps["bag"], batch[1]), "queue": self.waiting()}
        self.commit(commit, new)

    def dequeue(self, commit: Commit, done: set[int]) -> None:
        gone = [ref for i, ref in enumerate(self.queued) if i in done]
        commit.remove("queue", gone)
        self.queued = {r: content for r, content in self.queued.items() if r not in gone}

    @rule(done=st.sets(st.integers(0, 3)))
    def enqueue_all(self, done: set[int]) -> None:
        """All runs that the other map has now, whatever they came from; none is there twice."""
        commit = self.writer.begin()
        _, refs = commit.base.maps.get("bag", (BAG, ()))
        for ref in refs:
            if ref in self.queued:
                with pytest.raises(StateError, match="a run twice"):
                    commit.add("queue", [ref])
        self.dequeue(commit, done)
        new = [ref for ref in refs if ref not in commit.base.maps["queue"][1]]
        commit.add("queue", new)
        for ref in new:
            held = Arrangement(BAG, [ref], self.store.runs).collected([ref], LEAST, MOST)
            self.queued[ref] = dict(read(BAG, held))
        self.commit(commit, {"queue": self.waiting()})

    # --- upkeep -----------------------------------------------------------------------------------------

    @rule(whole=st.booleans(), background=st.booleans(), now=st.booleans())
    def compact(self, whole: bool, background: bool, now: bool) -> None:
        """Compactions ride in the next commit, whatever it is."""
        if whole and now:
            self.commit(self.writer.begin())  # so that no run is being rewritten already
        if background:
            self.writer.tidy()
            self.writer.wait()
            # Now and then it collects, too.
            oldest = max(self.store.log.floor(), 1)
            assert oldest in (self.floor, self.oldest_kept())
            self.floor = oldest
        else:
            self.writer.compact(whole)
        if now:
            self.commit(self.writer.begin(), self.now.maps)
            refs = [r for s, r in self.store.at().version.maps.values() if not s.pinned]
            assert not whole or background or all(len(r) <= 1 for r in refs), refs

    def oldest_kept(self) -> int:
        """The oldest version that a collection leaves."""
        kept = self.counted[-self.keep :]
        return max(self.floor, kept[0] if len(kept) == self.keep else 1)

    @rule()
    def collect(self) -> None:
        """Versions out of retention are gone, and no other is."""
        self.commit(self.writer.begin())  # what waits to ride is no garbage
        self.writer.collect()
        self.floor = self.oldest_kept()
        assert self.store.kept() == list(range(self.floor, self.head + 1))
        records = self.store.log.records()
        assert records == list(range(records[0], self.head + 1))
        assert self.floor - 4 < records[0] <= self.floor
        self.same(self.opened(), self.floor)

    @rule()
    def reopen(self) -> None:
        self.writer.close()
        self.store = self.opened()
        self.writer = self.store.writer()

    @rule()
    def zombie(self) -> None:
        """A task that nobody waits for any more leaves a file; that changes nothing."""
        writer = Writer(self.store.files, "zombie")
        row = run.prepared(BAG, table(BAG, [((9, "x", 9), (9,))]))
        writer.add(BAG, [row], (self.head + 1, 0))
        writer.close()

    # --- reading ----------------------------------------------------------------------------------------

    def somewhere(self, name: str, back: int) -> tuple[Arrangement, Map] | None:
        """A map at the newest version or one before it."""
        number = max(self.floor, self.head - back)
        if name not in self.past[number].maps:
            return None
        return self.store.at(number).arrangement(name), self.past[number].maps[name]

    @rule(probes=KEYS, whole_key=st.booleans(), back=st.sampled_from([0, 0, 0, 1, 3]))
    def lookup(self, probes: tuple[str, list[Key]], whole_key: bool, back: int) -> None:
        """Probes may be absent or repeated."""
        name, keys = probes
        found = self.somewhere(name, back)
        if found is None:
            return
        arrangement, model = found
        spec = SPECS[name]
        names = spec.keys if whole_key else list(spec.lookup)
        given = table(spec, [(k, zero(spec)) for k in keys]).select(["_h", *names])
        got = indexed(spec, arrangement.lookup(given, whole_key))
        want = Counter(
            (i, k, r)
            for i, probe in enumerate(keys)
            for k, r in model.items()
            if named(spec, names, k) == plainly(named(spec, names, probe))
        )
        assert got == want

    @rule(batch=CHANGES)
    def groups(self, batch: tuple[str, list[Change]]) -> None:
        name, changes = batch
        spec = self.existing(name)
        if spec is None:
            return
        arrangement, old = self.store.at().arrangement(name), self.now.maps[name]
        keys, before, after = arrangement.groups(table(spec, changes))
        new = merged(spec, old, changes)
        groups = list(zip(*(keys.column(n).to_pylist() for n in spec.lookup), strict=True))
        assert Counter(groups) == Counter(
            {named(spec, spec.lookup, plainly(k)) for k, _ in changes}
        )
        for got, model in ((before, old), (after, new)):
            assert indexed(spec, got) == Counter(
                (groups.index(named(spec, spec.lookup, k)), k, r)
                for k, r in model.items()
                if named(spec, spec.lookup, k) in groups
            )

    @rule(probes=ORDERED, k=st.integers(1, 6), back=st.sampled_from([0, 0, 0, 1, 3]))
    def first_k(self, probes: tuple[str, list[Key]], k: int, back: int) -> None:
        self.front(probes[0], [key[:1] for key in probes[1]], k, back)

    def front(self, name: str, keys: list[Key], k: int, back: int) -> None:
        found = self.somewhere(name, back)
        if found is None:
            return
        arrangement, model = found
        spec = SPECS[name]
        given = {"_h": [weak(p) for p in keys], "a": pa.array([a for (a,) in keys], INT)}
        got = first_k(arrangement, pa.table(given, schema=GIVEN), k)
        at = got.column("_i").to_pylist()
        assert at == sorted(at)
        for i, probe in enumerate(keys):
            group = {e: r for e, r in model.items() if e[0] == probe[0]}
            mine = [e for j, e in zip(at, read(spec, got), strict=True) if i == j]
            assert mine == first(spec, group, k)

    @rule(
        name=NAMES,
        ends=st.tuples(st.sampled_from(CUTS), st.sampled_from(CUTS)),
        rows=st.integers(1, 9),
    )
    def scan(self, name: str, ends: tuple[int, int], rows: int) -> None:
        """Entries of a hash range, sorted by hash and then by key, in pieces of about so many rows."""
        spec = self.existing(name)
        if spec is None:
            return
        low, high = sorted(ends)
        pieces = [read(spec, t) for t in self.store.at().arrangement(name).scan(low, high, rows)]
        got = [e for piece in pieces for e in piece]
        model = {k: r for k, r in self.now.maps[name].items() if low <= hash_of(spec, k) < high}
        want = sorted(model, key=lambda k: (hash_of(spec, k), rank(spec, k)))
        assert got == [(k, model[k]) for k in want]
        assert all(pieces)

    @rule(back=st.integers(-1, 12), fresh=st.booleans())
    def version(self, back: int, fresh: bool) -> None:
        """A version that is retained reads as it was; no other can be read."""
        number = self.head - back
        store = self.opened() if fresh else self.store
        if number == 0 or self.floor <= number <= self.head:
            self.same(store, number)
        else:
            note(f"version {number} of {self.floor} to {self.head}")
            with pytest.raises(VersionGone):
                store.at(number)

    @rule()
    def check(self) -> None:
        report = self.store.check()
        assert not report.problems and report.whole == self.head
        assert report.versions == self.head - self.floor + 1


Machine.TestCase.settings = settings(
    max_examples=max(40, settings().max_examples // 2), stateful_step_count=30
)
TestStore = pytest.mark.property(Machine.TestCase)
