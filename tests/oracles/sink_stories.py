"""Sinks beside their view: random changes, processes that are killed at any step of a sync, and what a target adds up to."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.sinks import local


class Killed(BaseException):
    """The process was killed at a step."""


class Steps:
    """The steps that sinks take on a disk, counted; at `kill` the process ends, before the step or after it."""

    def __init__(self) -> None:
        self.taken, self.kill = 0, 0
        self.after = False

    def around(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """A step of which the process may not come back."""

        def taken(*given: Any) -> Any:
            self.taken += 1
            if self.taken == self.kill and not self.after:
                raise Killed
            done = step(*given)
            if self.taken == self.kill:
                raise Killed
            return done

        return taken


@contextmanager
def watched() -> Iterator[Steps]:
    """The steps of all sinks that write to directories."""
    steps = Steps()
    with pytest.MonkeyPatch.context() as patch:
        for name in local.STEPS:
            patch.setattr(local, name, steps.around(getattr(local, name)))
        yield steps


class Orders:
    """Random changes of a source with rows that repeat."""

    def __init__(self, db: hw.Database, seed: int):
        self.db, self.random = db, random.Random(seed)
        self.rows: list[tuple[int, str | None, float]] = []

    def change(self, size: int = 4) -> None:
        """One version, which may change nothing."""
        r = self.random
        gone = r.sample(self.rows, min(len(self.rows), r.randint(0, size // 2)))
        for g in gone:
            self.rows.remove(g)
        came = [
            (r.randint(1, 5), r.choice(["ax", "o'clock", "ä\n", None]), r.randint(0, 3) / 4)
            for _ in range(r.randint(0, size))
        ]
        self.rows += came
        self.db.apply({"orders": hw.Delta(inserts=came, deletes=gone)})


VIEWS = {
    "totals": "SELECT item, sum(price) AS total, count(*) AS n FROM orders GROUP BY item",
    "items": "SELECT item, price FROM orders WHERE id > 1",
}


def declared(path: Path, **keep: Any) -> hw.Database:
    """A database with the source of these stories and its views."""
    db = hw.open(path, **keep)
    db.source("orders", "id BIGINT, item STRING, price DOUBLE")
    for name, query in VIEWS.items():
        db.view(name, query)
    return db


def rows_of(db: hw.Database, view: str, version: int | None = None) -> Counter[str]:
    """The rows of a view, as often as they are there."""
    return bag(db.table(view, version).to_pylist())


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    """Rows with weights, added up."""
    out: Counter[str] = Counter()
    for row in rows:
        cells = {n: v for n, v in row.items() if n not in ("_w", "_version")}
        out[json.dumps(cells, sort_keys=True, default=str)] += row.get("_w", 1)
    return Counter({k: n for k, n in out.items() if n})


def lines_in(folder: Path) -> Counter[str]:
    """What a directory of JSON lines adds up to, as its documentation says."""
    names = sorted(p.name for p in folder.glob("[0-9]*.jsonl"))
    at = max((i for i, n in enumerate(names) if n.endswith(".whole.jsonl")), default=0)
    texts = [(folder / n).read_text() for n in names[at:]]
    return bag([json.loads(line) for text in texts for line in text.splitlines()])
