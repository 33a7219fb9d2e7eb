"""Several processes on one store: tasks write disjoint hash ranges at once, and readers see whole versions.

A task is a process that opens the store by its path, reads a version, merges the changes of its range and
gives back what it wrote, as the engine's tasks do; the driver commits. A reader in another process reads the
newest version again and again while a writer commits, compacts and collects.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.errors import VersionGone, WriterBusy
from headwater.state.collection import Keep
from headwater.state.files import LocalFiles
from headwater.state.run import LEAST, MOST, MapSpec, RunRef
from headwater.state.store import Store
from headwater.state.writing import Writer

INT = pa.int64()
VALUE = MapSpec("value", (("k", INT),), (("n", INT), ("s", INT)), ("k",), "value")
BAG = MapSpec("bag", (("k", INT), ("v", INT)), (("n", INT), ("s", INT)), ("k",))
SPECS = (VALUE, BAG)
SIZE = 5000
Answer = tuple[list[tuple[str, RunRef]], list[tuple[str, int, int]]]


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as executor:
        yield executor


def spread(k: Any) -> Any:
    """A hash of integers that fills the whole space."""
    return (np.asarray(k).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)


def changes(step: int) -> pa.Table:
    """Half of the keys, another half each time."""
    k = np.arange(step % 2, SIZE, 2)
    data = {"_h": spread(k), "k": k, "v": k % 7, "n": np.ones(len(k), np.int64), "s": k + step}
    return pa.table({n: pa.array(v, INT) for n, v in data.items()})


def task(path: str, version: int, step: int, low: int, high: int) -> Answer:
    """What one task of an increment does: its part of the changes, merged into all maps."""
    store = Store(LocalFiles(path))
    snapshot = store.at(version)
    h = np.asarray(changes(step).column("_h"))
    mine = changes(step).filter(pa.array((h >= low) & ((h < high) if high < MOST else True)))
    writer = Writer(store.files, "task")
    seen = []
    for spec in SPECS:
        arrangement = snapshot.arrangement(spec.name)
        entries, touched = arrangement.merge(mine)
        assert touched is not None
        old, new = (t.column("s").to_pylist() for t in (touched.old, touched.new))
        seen.append((spec.name, sum(old), sum(new)))
        writer.add(spec, [entries], (version + 1, 0))
    return writer.close(), seen


def watch(path: str, last: int) -> list[tuple[int, int, int, int]]:
    """Reads the newest version until the last one; each version's totals as they were seen."""
    store = Store(LocalFiles(path))
    seen: list[tuple[int, int, int, int]] = []
    while not seen or seen[-1][0] < last:
        snapshot = store.at()
        try:
            totals = [
                sum(sum(t.column("s").to_pylist()) for t in snapshot.arrangement(s.name).scan())
                for s in SPECS
            ]
        except (
            VersionGone
        ):  # four versions are kept, and this process did not get its turn for so long
            continue
        seen.append((snapshot.number, snapshot.facts["step"], *totals))
    return seen


def created(path: Path) -> Store:
    store = Store(LocalFiles(path), Keep(versions=4))
    with store.writer() as writer:
        commit = writer.begin()
        for spec in SPECS:
            commit.create(spec)
        commit.set("step", 0)
        writer.commit(commit)
    return store


def totals(steps: int) -> dict[int, tuple[int, int]]:
    """Rows and sum of each key after so many steps."""
    out: dict[int, tuple[int, int]] = {}
    for step in range(1, steps + 1):
        for k in range(step % 2, SIZE, 2):
            n, s = out.get(k, (0, 0))
            out[k] = n + 1, s + k + step
    return out


def test_tasks_of_disjoint_ranges(pool: ProcessPoolExecutor, tmp_path: Path) -> None:
    """Increments divided over 1 to 5 tasks, two at a time, are what one task would have made of them."""
    store = created(tmp_path)
    with store.writer() as writer:
        for step, tasks in enumerate((2, 5, 1, 3, 2, 4), 1):
            commit = writer.begin()
            ends = [LEAST + i * (MOST - LEAST) // tasks for i in range(tasks)] + [MOST]
            version = commit.base.number
            answers = [
                pool.submit(task, str(tmp_path), version, step, low, high)
                for low, high in pairwise(ends)
            ]
            seen: dict[str, list[int]] = {s.name: [0, 0] for s in SPECS}
            for answer in answers:
                refs, told = answer.result(timeout=120)
                for name, ref in refs:
                    commit.add(name, [ref])
                for name, old, new in told:
                    seen[name][0] += old
                    seen[name][1] += new
            touched = range(step % 2, SIZE, 2)
            before, after = totals(step - 1), totals(step)
            for name in seen:
                assert seen[name] == [
                    sum(before.get(k, (0, 0))[1] for k in touched),
                    sum(after[k][1] for k in touched),
                ]
            writer.commit(commit)
            writer.tidy()
    model = totals(6)
    fresh = Store(LocalFiles(tmp_path))
    probes = pa.table({"_h": spread(np.arange(SIZE + 10)), "k": np.arange(SIZE + 10)})
    for spec in SPECS:
        found = fresh.at().arrangement(spec.name).lookup(probes).select(["k", "n", "s"]).to_pylist()
        assert len(found) == len(model)
        assert {r["k"]: (r["n"], r["s"]) for r in found} == model
    assert not fresh.check().problems


def test_a_task_that_runs_twice(pool: ProcessPoolExecutor, tmp_path: Path) -> None:
    """Both copies of a task may finish; what the driver commits counts once, the other is garbage."""
    store = created(tmp_path)
    with store.writer() as writer:
        commit = writer.begin()
        twins = [pool.submit(task, str(tmp_path), 1, 1, LEAST, MOST) for _ in range(2)]
        (refs, _), (others, _) = (t.result(timeout=120) for t in twins)
        assert not {r.file for _, r in refs} & {r.file for _, r in others}
        for name, ref in refs:
            commit.add(name, [ref])
        writer.commit(commit)
    for spec in SPECS:
        rows = [r for t in store.at().arrangement(spec.name).scan() for r in t.to_pylist()]
        assert {r["k"]: (r["n"], r["s"]) for r in rows} == totals(1)


def test_readers_see_whole_versions(pool: ProcessPoolExecutor, tmp_path: Path) -> None:
    """Whatever a writer is doing, another process reads some version, all of it, and never an older one."""
    store, steps = created(tmp_path), 25
    with store.writer() as writer:
        reader = pool.submit(watch, str(tmp_path), steps + 1)
        second = pool.submit(second_writer, str(tmp_path))
        for step in range(1, steps + 1):
            commit = writer.begin()
            for spec in SPECS:
                commit.merge(spec.name, changes(step))
            commit.set("step", step)
            writer.commit(commit)
            writer.tidy()
            writer.collect()
        seen = reader.result(timeout=120)
        assert second.result(timeout=120)
    wanted = {step: sum(s for _, s in totals(step).values()) for step in {s for _, s, _, _ in seen}}
    assert all(number == step + 1 for number, step, _, _ in seen)
    assert [n for n, *_ in seen] == sorted(n for n, *_ in seen)
    assert all(value == bag == wanted[step] for _, step, value, bag in seen)


def second_writer(path: str) -> bool:
    """Whether a second writer is refused."""
    try:
        Store(LocalFiles(path)).writer()
    except WriterBusy:
        return True
    return False
