"""Skew on Spark: a key with nine of ten rows is divided over all tasks that merge, and everything else stays as it was.

The threshold is given to tasks by the driver, so that it can be low here. How even the tasks are is told by the rows
that each part wrote: a part writes one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.calculus.types import BIGINT, INT
from headwater.engine import policy
from headwater.engine.change import Change
from headwater.engine.here.statements import hashed, run
from headwater.engine.slices import pieces_of, weighed
from headwater.engine.spark.rounds import little_by_little
from headwater.engine.spark.skew import Routing, added_up, part_of
from headwater.engine.view_rows import repeated
from headwater.plan.program import Map
from headwater.state.run import LEAST, MOST, RunRef
from spark_session import session

PARTS = 4
HEAVY = 200
VIEWS = {
    "joined": "SELECT r.k, r.x, s.y FROM r JOIN s ON r.k = s.k",
    "groups": "SELECT k, count(*) AS n, sum(x) AS s, count(DISTINCT x) AS d FROM r GROUP BY k",
    "everything": "SELECT count(*) AS n, sum(x) AS s FROM r",
    "rows": "SELECT DISTINCT k, x FROM r",
    "bags": "SELECT k, min(x) AS a, percentile(x, 0.5) AS p, array_agg(x) AS xs FROM r GROUP BY k",
    "nested": "SELECT k, y, (SELECT array_agg(struct(x)) FROM r WHERE r.k = s.k) AS xs FROM s",
    "numbered": "SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x) AS i FROM r",
}
"""Views over a bag that is looked up, values, DISTINCT, bags in order, inner bags and a window."""


def skewed(size: int, seed: int, share: float = 0.9) -> pa.Table:
    """Rows of which most have the key 0."""
    rng = np.random.default_rng(seed)
    k = np.where(rng.random(size) < share, 0, rng.integers(1, 60, size))
    return pa.table({"k": k, "x": rng.permutation(size) + 10 * seed})


def few(keys: int, each: int) -> pa.Table:
    """The rows of s: so many keys, so many rows for each."""
    at = np.arange(keys * each)
    return pa.table({"k": at // each, "y": at % each})


def opened(path: Path, execution: str, views: dict[str, str]) -> hw.Database:
    db = hw.open(path, spark=session(), partitions=PARTS)
    db.policy.execution = execution
    db.source("r", "k BIGINT, x BIGINT")
    db.source("s", "k BIGINT, y BIGINT")
    for name, query in views.items():
        db.view(name, query)
    return db


def rows(db: hw.Database, name: str) -> list[str]:
    """The rows of a view in an order of their own; an array is a bag."""
    found = []
    for row in db.table(name).to_pylist():
        found.append(cells(row))
    return sorted(found)


def cells(row: dict[str, Any]) -> str:
    """A row as text."""
    bags = {n: sorted(v, key=repr) for n, v in row.items() if isinstance(v, list)}
    return repr({**row, **bags})


def map_of(db: hw.Database, note: str, key: int = 2, kind: str = "change") -> Map:
    """The map over r that is noted so and has so many key columns."""
    maps = db.program.maps.values()
    (found,) = (
        m
        for m in maps
        if m.reads == ("r",) and m.note == note and len(m.key) == key and m.kind == kind
    )
    return found


def newest(db: hw.Database, name: str) -> dict[str, list[RunRef]]:
    """The runs that the last increment wrote for a map, by the part that wrote them."""
    refs = [r for r in db.store.at().version.maps[name][1] if r.version == db.version]
    files = {r.file for r in refs}
    return {f: [r for r in refs if r.file == f] for f in files}


def sizes(db: hw.Database, name: str) -> list[int]:
    return [sum(r.rows for r in refs) for refs in newest(db, name).values()]


def keys_of(db: hw.Database, name: str, refs: list[RunRef]) -> list[tuple[Any, ...]]:
    """The whole keys that some runs have."""
    spec, _ = db.store.at().version.maps[name]
    tables = [t.select(spec.keys) for r in refs for t in db.store.runs.open(r).tables()]
    return [tuple(row.values()) for row in pa.concat_tables(tables).to_pylist()]


# --- on Spark ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[hw.Database, hw.Database]]:
    """The same changes on Spark, with heavy keys divided, and in the driver."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "HEAVY", HEAVY)
        patch.setattr(policy, "LEAST_ROWS", 1000)
        made = [opened(tmp_path_factory.mktemp(e) / "db", e, VIEWS) for e in ("spark", "driver")]
        for db in made:
            db.apply({"r": skewed(6000, 1), "s": few(3, 2)})
        yield made[0], made[1]
        for db in made:
            db.close()


Story = tuple[hw.Database, hw.Database]


@pytest.mark.spark
def test_parts_are_even_although_a_key_is_not(story: Story) -> None:
    on_spark, _ = story
    _, inner = on_spark.program.views["nested"].parts
    for m in [
        map_of(on_spark, ""),
        map_of(on_spark, "the values of a group, in order"),
        map_of(on_spark, "the rows of a group, in order", 3),
        inner.map,
    ]:
        found = sizes(on_spark, m.name)
        assert len(found) == PARTS
        assert max(found) <= 2 * median(found), (m.note, found)


@pytest.mark.spark
def test_light_keys_stay_in_one_part(story: Story) -> None:
    on_spark, _ = story
    m = map_of(on_spark, "")
    parts = newest(on_spark, m.name).values()
    holders: dict[int, int] = {}
    for refs in parts:
        for k in {k for k, _ in keys_of(on_spark, m.name, refs)}:
            holders[k] = holders.get(k, 0) + 1
    assert holders.pop(0) == PARTS
    assert len(holders) == 59 and set(holders.values()) == {1}
    # What is divided has runs of its own: a look-up of a light key opens one of the newest runs.
    h = hashed(pa.table({"k0": pa.array([k for k in holders], pa.int64())}), ["k0"])
    opened = [sum(r.low <= x <= r.high for refs in parts for r in refs) for x in h.to_pylist()]
    assert sum(n > 1 for n in opened) <= 2  # the hash of 0 may be inside of one range


@pytest.mark.spark
def test_maps_that_need_one_writer_have_one(story: Story) -> None:
    on_spark, _ = story
    for note, key, kind in [
        ("the different values of a group", 2, "change"),
        ("a group's value", 2, "value"),
    ]:
        m = map_of(on_spark, note, key, kind)
        found = [
            k
            for refs in newest(on_spark, m.name).values()
            for k in set(keys_of(on_spark, m.name, refs))
        ]
        assert len(found) == len(set(found)) > 0, note
    m = map_of(on_spark, "the different values of a group")
    holders = [
        {k for k, _ in keys_of(on_spark, m.name, refs)}
        for refs in newest(on_spark, m.name).values()
    ]
    assert sum(0 in ks for ks in holders) == 1  # a group's different values are with the group


@pytest.mark.spark
def test_without_division_one_part_has_nearly_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "HEAVY", 1 << 40)
    with opened(tmp_path / "db", "spark", {"joined": VIEWS["joined"]}) as db:
        db.apply({"r": skewed(6000, 1), "s": few(3, 2)})
        found = sizes(db, map_of(db, "").name)
        assert max(found) > 10 * median(found)


@pytest.mark.spark
def test_answers_are_those_of_the_driver(story: Story) -> None:
    """Also after tasks of one increment disagreed on who writes a key, deletions, compaction and a new view."""
    on_spark, here = story
    for name in VIEWS:
        assert rows(on_spark, name) == rows(here, name), name
    # Of the first piece the key 0 is heavy, of the second it is light, and some rows are in both.
    first = pa.table({"k": [0] * 900 + [1] * 600, "x": [*range(50_000, 50_900), *range(600)]})
    second = pa.table({"k": [0] * 100 + [2] * 1400, "x": [*range(50_000, 50_100), *range(1400)]})
    for db in story:
        db.apply({"r": pa.concat_tables([first, second])})
    name = map_of(on_spark, "").name
    writers = [keys_of(on_spark, name, refs) for refs in newest(on_spark, name).values()]
    assert sum(len(w) for w in writers) > len({k for w in writers for k in w})
    gone = hw.Delta(deletes=skewed(6000, 1).slice(1000, 2000))
    for db in story:
        db.apply({"r": gone, "s": few(4, 1)})
    for name in VIEWS:
        assert rows(on_spark, name) == rows(here, name), name
    assert on_spark._writer is not None
    on_spark._writer.wait()
    on_spark._writer.compact(whole=True)
    for db in story:
        db.view("late", "SELECT r.k, sum(r.x * s.y) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k")
    name = map_of(on_spark, "").name
    assert len(on_spark.store.at().version.maps[name][1]) == 1
    for name in (*VIEWS, "late"):
        assert rows(on_spark, name) == rows(here, name), name


@pytest.mark.spark
def test_views_are_read_in_even_ranges(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    on_spark, _ = story
    monkeypatch.setattr(on_spark.policy, "read_here", 0)
    for name in ("joined", "everything", "numbered", "nested"):
        frame = on_spark[name].snapshot()
        tasks = {"everything": 1, "nested": 4}.get(name, 8)
        assert frame.rdd.getNumPartitions() >= tasks, name
        found = [cells(r) for r in frame.toArrow().to_pylist()]
        table = repeated(on_spark.table(name))
        assert sorted(found) == sorted(cells(r) for r in table.to_pylist()), name


@pytest.mark.spark
def test_few_rows_that_match_many_entries_are_many(tmp_path: Path) -> None:
    with opened(tmp_path / "db", "auto", {"joined": VIEWS["joined"]}) as db:
        db.policy.small = 30_000
        assert db.apply({"r": few(5, 5000).rename_columns(["k", "x"])}).where == "driver"
        assert db.apply({"s": few(5, 1)}).where == "driver"
        assert db.apply({"s": few(5, 4)}).where == "spark"
        found = db.table("joined")
        # (k, x, 0) twice and the others once, for each of five rows of s: what both ways have added.
        assert found.num_rows == 4 * 25_000
        assert int(np.sum(found["_w"])) == 5 * 25_000
        assert set(found.filter(pa.array(np.asarray(found["y"]) == 0))["_w"].to_pylist()) == {2}


# --- here ----------------------------------------------------------------------------------------------------------


def bag(lookup: tuple[str, ...], kind: str = "change") -> Map:
    """A map of two columns."""
    return Map("m", "", (("k0", BIGINT), ("k1", BIGINT)), (("r0", INT),), lookup, lookup, kind)


def emitted(k: Any, v: Any) -> pa.Table:
    one = np.ones(len(k), np.int64)
    return pa.table({"k0": np.asarray(k, np.int64), "k1": np.asarray(v, np.int64), "r0": one})


def test_only_heavy_keys_are_divided() -> None:
    k = np.where(np.arange(10_000) % 10 == 0, np.arange(10_000), 7)
    table = emitted(k, np.arange(10_000))
    for free in (True, False):
        routing = Routing(PARTS, frozenset({"m"} if free else ()), HEAVY)
        parts = dict(routing.routed(bag(("k0",)), table))
        got = pa.concat_tables(parts.values()).sort_by([("k1", "ascending")])
        assert got.equals(table)
        for part, mine in parts.items():
            own = part_of(np.asarray(hashed(mine, ["k0"])), PARTS) == part
            assert set(np.asarray(mine["k0"])[~own]) <= {7}
        found = [t.num_rows for t in parts.values()]
        assert (max(found) <= 1.2 * min(found)) == free
        entries = parts[0].add_column(0, "_h", hashed(parts[0], ["k0"]))
        assert len(routing.runs(0, "m", entries)) == 1 + free


def test_repeated_keys_are_added_up_before_they_are_sent() -> None:
    table = emitted(np.zeros(5000), np.zeros(5000))
    value = bag(("k0", "k1"), "value")
    (sent,) = (t for _, t in Routing(PARTS, frozenset(), HEAVY).routed(value, table))
    assert sent.to_pylist() == [{"k0": 0, "k1": 0, "r0": 5000}]
    (sent,) = (t for _, t in Routing(PARTS, frozenset(), 10_000).routed(value, table))
    assert sent.num_rows == 5000  # too few to be worth it
    nothing = table.set_column(2, "r0", pa.array([1, -1] * 2500))
    assert added_up(value, nothing)["r0"].to_pylist() == [0]  # its group is touched all the same


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        made.policy.execution = "driver"
        made.source("r", "k BIGINT, x BIGINT")
        made.source("s", "k BIGINT, y BIGINT")
        made.view("joined", VIEWS["joined"])
        made.apply({"r": skewed(30_000, 1)})
        yield made


@pytest.mark.parametrize("keys", [[0], [0, 1, 2, 3], [3, 4]])
def test_tasks_share_what_few_rows_find(db: hw.Database, keys: list[int]) -> None:
    snapshot, at = db._at(None)
    working, program = db._reading(snapshot, at), at.program
    target = program.views["joined"].maps[0]
    assert target is not None
    (s,) = program.statements(target, {"s"})
    one = np.ones(len(keys), np.int64)
    change = pa.table({"k": keys, "y": keys, "_w": one})
    whole = run(s, change, working)
    shares = [run(s, change, working, share=(i, 3)) for i in range(3)]
    order = [(n, "ascending") for n in whole.column_names]
    assert pa.concat_tables(shares).sort_by(order).equals(whole.sort_by(order))
    assert (whole.num_rows >= policy.ENOUGH) == (0 in keys)
    assert max(t.num_rows for t in shares) - min(t.num_rows for t in shares) <= 1


@pytest.mark.parametrize("share", [(0, 1), (1, 2)])
def test_what_a_task_finds_is_taken_little_by_little(
    db: hw.Database, monkeypatch: pytest.MonkeyPatch, share: tuple[int, int]
) -> None:
    monkeypatch.setattr(policy, "MOST_FOUND", 1000)
    snapshot, at = db._at(None)
    working, program = db._reading(snapshot, at), at.program
    target = program.views["joined"].maps[0]
    assert target is not None
    (s,) = program.statements(target, {"s"})
    change = pa.table({"k": [0, 1, 2, 3], "y": [0, 0, 0, 0], "_w": [1, 1, 1, 1]})
    made = list(little_by_little(s, change, working, share))
    assert len(made) > 10 and max(t.num_rows for t in made) <= 1000
    order = [("k0", "ascending"), ("k1", "ascending")]
    whole = run(s, change, working, share=share)
    assert pa.concat_tables(made).sort_by(order).equals(whole.sort_by(order))


def test_there_is_a_piece_for_every_core(db: hw.Database, tmp_path: Path) -> None:
    snapshot, at = db._at(None)
    working = db._reading(snapshot, at)
    made: list[str] = []
    change = Change.of(pa.table({"k": [1], "y": [1], "_w": [1]}))
    assert len(pieces_of(change, tmp_path, 8, made, working)) == 1
    found = pieces_of(change, tmp_path, 8, made, working, finds=True)
    assert [p.share for p in found] == [(i, 8) for i in range(8)]
    assert all(next(p.read(tmp_path, working)).num_rows == 1 for p in found)


def test_a_map_is_cut_into_pieces_of_the_same_size(
    db: hw.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one in which a key has nine of ten entries, here read as if it held a relation's rows."""
    monkeypatch.setattr(policy, "LEAST_ROWS", 1000)
    snapshot, at = db._at(None)
    working, program = db._reading(snapshot, at), at.program
    (name,) = program.looked_up() & {m.name for m in program.maps.values() if m.reads == ("r",)}
    working.maps = {name: replace(working.maps[name], fields=("k", "x"))}
    change = Change(ranges=((name, LEAST, MOST),), rows=30_000)
    found = [
        pa.concat_tables(p.read(tmp_path, working))
        for p in pieces_of(change, tmp_path, 10, [], working)
    ]
    sizes = [t.num_rows for t in found]
    assert max(sizes) < 1.5 * 3000 and 10 <= len(sizes) <= 14
    order = [("k", "ascending"), ("x", "ascending")]
    given = skewed(30_000, 1).sort_by(order)
    assert pa.concat_tables(found).drop_columns(["_w"]).sort_by(order).equals(given)


def test_groups_are_cut_by_what_is_read_for_them(tmp_path: Path) -> None:
    keys = pa.table({"_h": pa.array(range(100))})
    weights = np.where(np.arange(100) == 50, 1000, 10)
    found = weighed(keys, weights, tmp_path, 4, [])
    assert sum(p.count for p in found) == 100
    assert [p.first for p in found] == list(np.cumsum([0, *(p.count for p in found)]))[:-1]
    heaviest = max(weights[p.first : p.first + p.count].sum() for p in found)
    assert 2 <= len(found) <= 4 and heaviest <= 1500
