"""Random stories of files, changed files, deletions, bad lines and batches, with processes that die at any write.

What the database has in the end, and at every version on the way, is what a plain list has: nothing is lost or doubled.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from dying_files import Dying
from faulty_files import Stopped

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


class Story:
    """An inbox, one of deletions, an iterable, and what must come of them."""

    def __init__(self, root: Path, seed: int, replaces: bool):
        self.rng, self.root, self.replaces = random.Random(seed), root, replaces
        self.inbox, self.gone = root / "in", root / "gone"
        self.inbox.mkdir()
        self.gone.mkdir()
        self.files: dict[str, list[int]] = {}
        self.deleted: list[int] = []
        self.items: list[tuple[int]] = []
        self.bad = self.time = self.next = 0

    def write(self, folder: Path, name: str, ids: list[int], bad: int = 0) -> None:
        lines = [f"{i}" for i in ids] + ["no number"] * bad
        self.rng.shuffle(lines)
        self.time += 1
        whole = folder / f"_{name}"
        whole.write_text("id\n" + "".join(x + "\n" for x in lines))
        os.utime(whole, (self.time, self.time))
        whole.rename(folder / name)

    def step(self) -> None:
        """Something happens outside."""
        what = self.rng.random()
        new = [self.next + n for n in range(self.rng.randint(1, 3))]
        self.next += len(new)
        if what < 0.5 or not self.files:
            name, bad = f"{self.next}.csv", self.rng.choice([0, 0, 1])
            self.write(self.inbox, name, new, bad)
            self.files[name], self.bad = new, self.bad + bad
        elif what < 0.7:
            self.items += [(i,) for i in new]
        elif self.replaces:
            name = self.rng.choice(list(self.files))
            self.write(self.inbox, name, new)
            self.files[name] = new
        else:
            there = [i for ids in self.files.values() for i in ids if i not in self.deleted]
            if there:
                one = self.rng.choice(there)
                self.write(self.gone, f"{self.next}.csv", [one])
                self.deleted.append(one)

    @property
    def wanted(self) -> Counter[int]:
        out = Counter(i for ids in self.files.values() for i in ids)
        out.subtract(self.deleted)
        return +out

    def declare(self, db: hw.Database) -> None:
        options: dict[str, Any] = {"max_files": 2, "changed": "replace"}
        if not self.replaces:
            options = {"max_files": 2, "deletes": str(self.gone)}
        db.source("t", "id BIGINT", path=self.inbox, format="csv", options=options, bad="aside")
        db.source("u", "id BIGINT", feed=iter(list(self.items)), options={"max_rows": 2})
        db.view("total", "SELECT count(*) AS n, sum(id) AS s FROM t")


def ids(db: hw.Database, name: str) -> Counter[int]:
    return Counter({r["id"]: r["_w"] for r in db.table(name).to_pylist()})


@pytest.mark.parametrize("seed", range(4))
def test_a_story_ends_as_a_plain_list_does(tmp_path: Path, seed: int) -> None:
    story = Story(tmp_path, seed, replaces=bool(seed % 2))
    path = tmp_path / "db"
    for number in range(10):
        story.step()
        kill = number % 3 != 2
        with pytest.MonkeyPatch.context() as patched, contextlib.suppress(Stopped):
            db = hw.open(path)
            story.declare(db)
            if kill:
                where = story.rng.choice(["before", "after"])
                Dying(story.rng.randint(1, 6), where).over(patched)
            db.run()
        db.close()
        if not kill:
            with hw.open(path) as again:
                assert ids(again, "t") == story.wanted
                assert ids(again, "u") == Counter(i for (i,) in story.items)
                (total,) = again.table("total").to_pylist()
                assert total["n"] == sum(story.wanted.values())
    with hw.open(path) as db:
        story.declare(db)
        db.run()
        assert ids(db, "t") == story.wanted
        if not story.replaces:  # one that is replaced before it was taken was never seen
            assert db.table("t_rejected").num_rows == story.bad
