"""What the rounds of a loop read of its maps: nothing of a collection that is kept as it is, and what there was of a sum once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.engine.here.carried import Addend, Carried
from headwater.state import exact
from headwater.state.arrangement import Arrangement
from headwater.state.run import MapSpec
from page_rank import ranks

NODES, LINKS = 40, 240


class Graph:
    """Ranks of nodes whose links change, in a database."""

    def __init__(self, root: Path, rng: random.Random):
        self.rng, self.db = rng, hw.open(root)
        self.nodes, self.links = list(range(NODES)), [self.link() for _ in range(LINKS)]
        self.db.source("nodes", "node BIGINT")
        self.db.source("links", "src BIGINT, dst BIGINT")
        self.db.view("ranks", ranks)
        self.db.apply({"nodes": [(n,) for n in self.nodes], "links": self.links})
        self.found: Counter[tuple[str, str, bool]] = Counter()
        """Entries that were read: of which map, how, and whether they were there before the increment."""
        self.sizes: dict[str, int] = {}
        """How many entries maps had before the increment, of those that were read; an entry may be there in parts."""

    def link(self) -> tuple[int, int]:
        return self.rng.randrange(NODES), self.rng.randrange(NODES)

    def change(self) -> None:
        """Three links come, two go."""
        new, gone = [self.link() for _ in range(3)], self.rng.sample(self.links, 2)
        self.found.clear()
        self.db.apply({"links": hw.Delta(inserts=new, deletes=gone)})
        for row in gone:
            self.links.remove(row)
        self.links += new

    def watch(self, of: Arrangement, found: pa.Table, how: str) -> None:
        before = bool(of.refs) and not any(r.file.startswith("memory") for r in of.refs)
        self.found[of.spec.name, how, before] += found.num_rows
        if before:
            self.sizes[of.spec.name] = of.size()


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Graph]:
    made = Graph(tmp_path / "db", random.Random(5))
    monkeypatch.setattr(Arrangement, "watch", lambda of, found, how: made.watch(of, found, how))
    with made.db:
        yield made


def test_the_change_of_a_collection_is_what_rounds_add_to_its_map(graph: Graph) -> None:
    (loop,) = graph.db.program.loops.values()
    (name,) = loop.collections
    kept = graph.db.program.strata[name]
    assert kept.as_added
    for _ in range(3):
        graph.change()
        # It is added to blindly, once, in the end.
        assert not [how for of, how, _ in graph.found if of == kept.group.name]


BILL = """
WITH RECURSIVE bill (whole, part, n) AS (
  SELECT whole, part, n FROM uses UNION ALL
  SELECT b.whole, u.part, b.n * u.n FROM bill b JOIN uses u ON u.whole = b.part)
SELECT whole, part, sum(n) AS n FROM bill GROUP BY whole, part
"""


def test_what_a_change_from_outside_adds_to_a_collection_is_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the collection's change at every round that it has, just as what rounds add: nothing of its map is looked up."""
    uses = [(k, 2 * k + i, 2) for k in range(1, 16) for i in range(2)]
    with hw.open(tmp_path / "db") as db:
        db.source("uses", "whole BIGINT, part BIGINT, n BIGINT")
        db.view("bill", BILL)
        db.apply({"uses": uses})
        (loop,) = db.program.loops.values()
        kept = db.program.strata[loop.collections[0]].group.name
        read = Counter[str]()

        def watch(of: Arrangement, found: pa.Table, how: str) -> None:
            read[how] += of.spec.name == kept

        monkeypatch.setattr(Arrangement, "watch", watch)
        changed = hw.Delta(inserts=[(2, 5, 3)], deletes=[(2, 5, 2)])
        commit = db.apply({"uses": changed})
        assert len(commit.rounds["bill"]) == 4
        assert read and not any(read.values())  # what is added to it is written blindly
        monkeypatch.undo()
        counts = {(r["whole"], r["part"]): r["n"] for r in db.table("bill").to_pylist()}
        assert (counts[2, 5], counts[1, 5], counts[1, 21]) == (3, 6, 24)
        assert len(counts) == 2 * 1 + 4 * 2 + 8 * 3 + 16 * 4


def test_what_comes_from_outside_is_added_up_before_it_fans_out(graph: Graph) -> None:
    """A node with a link more has another share in every round: the old ones and the new ones go along its links as one."""
    text = graph.db.explain("ranks")
    (outside,) = {n for n, s in graph.db.program.strata.items() if not s.rounds} - {
        n for loop in graph.db.program.loops.values() for n in loop.strata
    }
    (line,) = [t for t in text.splitlines() if f"Δ{outside} (degree 0, once" in t]
    ranks, links = line.index("add up by"), line.rindex("look up")
    assert ranks < links and line.count("look up") == 3


def test_what_there_was_of_a_sum_is_found_once(graph: Graph) -> None:
    (loop,) = graph.db.program.loops.values()
    (answer,) = (n for n in loop.strata if n not in loop.collections)
    group = graph.db.program.strata[answer].group.name
    for _ in range(3):
        graph.change()
        assert 0 < graph.found[group, "look-up", True] <= graph.sizes[group]


def test_the_ranks_are_those_of_a_new_database(graph: Graph, tmp_path: Path) -> None:
    for turn in range(4):
        graph.change()
        with hw.open(tmp_path / f"new{turn}") as new:
            new.source("nodes", "node BIGINT")
            new.source("links", "src BIGINT, dst BIGINT")
            new.view("ranks", ranks)
            new.apply({"nodes": [(n,) for n in graph.nodes], "links": graph.links})
            told = [sorted(r.items()) for r in new.table("ranks").to_pylist()]
        # To the last bit: sums are not rounded before they are told.
        assert sorted(told) == sorted(
            sorted(r.items()) for r in graph.db.table("ranks").to_pylist()
        )


NUMBERS = st.sampled_from([0.0, 0.1, -0.3, 1e300, -1e300, 5e-324, 2.0**-40])


@pytest.mark.property
@given(
    numbers=st.lists(NUMBERS, min_size=1, max_size=6),
    rows=st.lists(
        st.tuples(st.integers(0, 5), st.integers(-3, 3), st.integers(0, 4)), min_size=1, max_size=30
    ),
)
def test_products_that_are_added_up_before_they_are_made(
    numbers: list[float], rows: list[tuple[int, int, int]]
) -> None:
    at = np.array([i % len(numbers) for i, _, _ in rows])
    by, group = (np.array(c) for c in zip(*((w, g) for _, w, g in rows), strict=True))
    made = exact.Products(exact.of_doubles(np.array(numbers)), at, by)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(group[order]) != 0))
    every = [Fraction(numbers[i]) * int(w) for i, w in zip(at, by, strict=True)]
    assert exact.fractions(exact.limbs(made.stored())) == every
    sums = {int(g): sum(v for v, k in zip(every, group, strict=True) if k == g) for g in group}
    told = exact.fractions(exact.limbs(made.sums(order, starts)))
    assert told == [sums[g] for g in sorted(sums)]


@pytest.mark.property
@given(
    rounds=st.lists(
        st.lists(st.tuples(st.integers(-1, 4), NUMBERS, st.integers(-2, 2)), max_size=12),
        max_size=6,
    )
)
def test_running_sums_are_sums(rounds: list[list[tuple[int, float, int]]]) -> None:
    spec = MapSpec("m", (("k", pa.int64()),), (("r0", pa.int64()), ("r1", exact.STORED)), ("k",))
    values, told = Carried.zero(spec, 5), [[0, Fraction(0)] for _ in range(5)]
    for some in rounds:
        at = np.array([p for p, _, _ in some], np.int64)
        numbers = exact.stored(exact.of_doubles(np.array([x for _, x, _ in some], np.float64)))
        counts = pa.array([n for _, _, n in some], pa.int64())
        values = values.plus(Addend.of(spec, pa.table({"r0": counts, "r1": numbers}), at))
        for place, x, n in some:
            if place >= 0:
                told[place] = [told[place][0] + n, told[place][1] + Fraction(x)]
    some_of = values.at(np.array([4, -1, 0, 1, 2, 3]))
    expected = [told[4], [0, 0], *told[:4]]
    assert some_of.columns["r0"].tolist() == [n for n, _ in expected]
    assert exact.fractions(some_of.columns["r1"]) == [x for _, x in expected]
