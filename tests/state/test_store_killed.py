"""A real process on a real disk, killed at random moments: what it leaves is a version, whole.

This file is also the program that is run. It forks a child that writes increments, compacts in the background
and collects, kills it after a few milliseconds, looks at what is there, and goes on from it. The contents of a
version are a function of its cursor, so nothing needs to be remembered from one child to the next.
"""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa

from faulty_files import MemoryFiles
from headwater.state.collection import Keep
from headwater.state.files import LocalFiles
from headwater.state.run import MapSpec
from headwater.state.store import Store

KEY = (("k", pa.int64()),)
ADDED = MapSpec("added", KEY, (("n", pa.int64()),), ("k",))
LATEST = MapSpec("latest", KEY, (("n", pa.int64()), ("s", pa.int64())), ("k",), kind="value")


def test_a_process_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    program = [sys.executable, __file__, str(tmp_path), "100"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stdout + done.stderr


def keys(cursor: int) -> list[int]:
    """The keys that an increment adds one to; every seventh takes them away again."""
    return [(cursor * 31 + i * i) % 200 for i in range(20)]


def sign(cursor: int) -> int:
    return -1 if cursor % 7 == 0 else 1


def changes(cursor: int) -> pa.Table:
    counts = Counter(keys(cursor))
    n = [sign(cursor) * c for c in counts.values()]
    h = [(k - 100) << 55 for k in counts]
    return pa.table({"_h": h, "k": list(counts), "n": n, "s": [cursor * c for c in n]})


class Model:
    """The maps after an increment, from the ones before."""

    def __init__(self) -> None:
        self.cursor, self.added, self.latest = 0, Counter[int](), dict[int, tuple[int, int]]()

    def at(self, cursor: int) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
        while self.cursor < cursor:
            self.cursor += 1
            for k, c in Counter(keys(self.cursor)).items():
                self.added[k] += sign(self.cursor) * c
                n, s = self.latest.get(k, (0, 0))
                new = n + sign(self.cursor) * c
                self.latest[k] = (new, s + self.cursor * sign(self.cursor) * c) if new else (0, 0)
        latest = {k: v for k, v in self.latest.items() if v[0]}
        return {k: n for k, n in self.added.items() if n}, latest


def opened(path: str) -> Store:
    return Store(LocalFiles(path), Keep(versions=4))


def child(store: Store, time_to_live: float, until: float = math.inf) -> None:
    """Writes until it is killed."""
    cursor = 0
    with store.writer(time_to_live) as writer:
        while cursor < until:
            commit = writer.begin()
            cursor = commit.base.facts.get("cursor", 0) + 1
            if cursor == 1:
                commit.create(ADDED)
                commit.create(LATEST)
            commit.merge("added", changes(cursor).drop_columns(["s"]), blind=True)
            commit.merge("latest", changes(cursor))
            commit.set("cursor", cursor)
            writer.commit(commit)
            writer.tidy()
            if cursor % 5 == 0:
                writer.collect()


def verified(path: str, model: Model) -> tuple[int, int]:
    """The version and the cursor that are found; fails unless all is as it must be."""
    store = opened(path)
    at = store.at()
    cursor = at.facts.get("cursor", 0)
    if cursor:
        added = [r for t in at.arrangement("added").scan() for r in t.to_pylist()]
        latest = [r for t in at.arrangement("latest").scan() for r in t.to_pylist()]
        found = {r["k"]: r["n"] for r in added}, {r["k"]: (r["n"], r["s"]) for r in latest}
        assert found == model.at(cursor), f"the contents are not those of cursor {cursor}"
        assert (len(added), len(latest)) == (len(found[0]), len(found[1])), "a key is there twice"
    report = store.check()
    assert not report.problems, report.problems
    return at.number, cursor


def main(path: str, kills: int, seed: int) -> None:
    child(Store(MemoryFiles()), time_to_live=0, until=8)  # all is loaded before the first fork
    assert threading.active_count() == 1
    chance, model = random.Random(seed), Model()
    number = cursor = 0
    gained: Counter[bool] = Counter()
    for _ in range(kills):
        pid = os.fork()
        if pid == 0:
            try:
                child(opened(path), time_to_live=0.05)
            finally:
                os._exit(1)  # only if the child failed by itself
        time.sleep(chance.uniform(0.002, 0.1))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), "the child ended before it was killed; its error is above"
        now, at = verified(path, model)
        assert now >= number and at >= cursor, "a version that was there is gone"
        gained[at > cursor] += 1
        number, cursor = now, at
    compacted = any(e.name.startswith("compact") for e in LocalFiles(path).list("data"))
    assert cursor > 0 and compacted, "the children hardly ran"
    print(f"{kills} kills, version {number}, cursor {cursor}, {gained[True]} children committed")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), seed=int(sys.argv[3]) if len(sys.argv) > 3 else 0)
