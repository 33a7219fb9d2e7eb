"""Rows that are alike are added up before the last look-up: the old row and the new one of an answer find what they find once."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.calculus.types import BIGINT, DYADIC, INT, Exact
from headwater.engine.here import statements
from headwater.engine.rings import sums
from headwater.plan.closing import Closing
from headwater.plan.program import WEIGHT, AddUp, Bind
from headwater.plan.promises import Promises, Told, _adds_nothing
from headwater.plan.scalar import Scalar
from headwater.state.arrangement import Arrangement
from page_rank import ROUNDS, ranks

ALIKE = AddUp(
    ("k", "s"),
    (("n", INT, (WEIGHT,)), ("t", DYADIC, (WEIGHT, "x")), ("d", Exact(2), (WEIGHT, "y"))),
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, 1, 2]),
        st.sampled_from([None, "a", "b"]),
        st.sampled_from([0.1, -0.0, 1e300, -3.5]),
        st.sampled_from([Decimal("0.10"), Decimal("7.25")]),
        st.sampled_from([-2, -1, 1]),
    ),
    max_size=40,
)


@pytest.mark.property
@pytest.mark.parametrize("by", [("k", "s"), ("s",), ()])
@pytest.mark.parametrize("summing", [True, False])
@given(rows=ROWS)
def test_sums_are_those_of_all_rows(
    summing: bool, by: tuple[str, ...], rows: list[tuple[Any, ...]]
) -> None:
    """By all columns, by some, and by none, as in a view without groups over the sums of another."""
    types = [pa.int64(), pa.string(), pa.float64(), pa.decimal128(10, 2), pa.int64()]
    columns = list(zip(*rows, strict=True)) or [()] * 5
    arrays = [pa.array(list(c), t) for c, t in zip(columns, types, strict=True)]
    table = pa.table(arrays, names=["k", "s", "x", "y", WEIGHT])
    made = statements.added_up(replace(ALIKE, by=by), table, summing)
    found: dict[Any, list[Any]] = defaultdict(lambda: [0, 0, Decimal(0)])
    totals = [t.finite for t in sums(made, "t")]
    keys = made.select(list(by)).to_pylist() if by else [{}] * made.num_rows
    for key, n, t, d, w in zip(
        (tuple(k.values()) for k in keys),
        made.column("n").to_pylist(),
        totals,
        *(made.column(c).to_pylist() for c in ("d", WEIGHT)),
        strict=True,
    ):
        assert w == 1
        found[key] = [a + b for a, b in zip(found[key], (n, t, d), strict=True)]
    expected: dict[Any, list[Any]] = defaultdict(lambda: [0, 0, Decimal(0)])
    for k, s, x, y, w in rows:
        summand = (w, w * Fraction(x), w * y)
        key = tuple(c for n, c in (("k", k), ("s", s)) if n in by)
        expected[key] = [a + b for a, b in zip(expected[key], summand, strict=True)]
    assert {k: v for k, v in found.items() if any(v)} == {
        k: v for k, v in expected.items() if any(v)
    }
    if summing:
        assert made.num_rows == len({k for k, v in expected.items() if any(v)})


def in_python(nodes: list[int], links: list[tuple[int, int]]) -> dict[int, float]:
    """The ranks after four rounds."""
    out = Counter(src for src, _ in links)
    rank = dict.fromkeys(nodes, 1.0)
    for _ in range(ROUNDS):
        share = dict.fromkeys(nodes, 0.0)
        for src, dst in links:
            if src in rank and dst in rank:
                share[dst] += rank[src] / out[src]
        rank = {n: 0.15 + 0.85 * share[n] for n in nodes}
    return rank


class Found:
    """How many entries of some maps look-ups found."""

    def __init__(self, patched: pytest.MonkeyPatch):
        self.entries: Counter[str] = Counter()

        def watch(of: Arrangement, found: pa.Table, how: str) -> None:
            if how == "look-up":
                self.entries[of.spec.name] += found.num_rows

        patched.setattr(Arrangement, "watch", watch)


def test_ranks_are_those_of_python_and_links_are_found_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "FEW", 0)
    rng = random.Random(3)
    nodes = list(range(60))
    links = [(rng.randrange(60), rng.randrange(60)) for _ in range(400)]
    with hw.open(tmp_path) as db:
        db.source("nodes", "node BIGINT")
        db.source("links", "src BIGINT, dst BIGINT")
        db.view("ranks", ranks)
        db.apply({"nodes": [(n,) for n in nodes], "links": links})
        for turn in range(6):
            new = [(rng.randrange(60), rng.randrange(60)) for _ in range(3)]
            gone = rng.sample(links, 2)
            found = Found(monkeypatch)
            made = db.apply({"links": hw.Delta(inserts=new, deletes=gone)})
            for row in gone:
                links.remove(row)
            links += new
            told = {r["node"]: r["rank"] for r in db.table("ranks").to_pylist()}
            expected = in_python(nodes, links)
            assert told.keys() == expected.keys()
            assert all(abs(told[n] - expected[n]) < 1e-12 for n in nodes), turn
            # The map of links that rounds fan out by: of a node that moves its links, once a round, and not for each of four rows.
            fans = [
                step.into
                for kept in db.program.kept.values()
                for s in kept.changes.get(_collection(db), ())
                for before, step in zip(s.steps, s.steps[1:], strict=False)
                if isinstance(before, AddUp)
            ]
            assert len(fans) == 1
            moved = sum(rows for at, rows in made.rounds["ranks"] if at < ROUNDS)
            assert found.entries[fans[0]] <= moved / 4 * (len(links) / len(nodes)) * 2


def _collection(db: hw.Database) -> str:
    (loop,) = db.program.loops.values()
    (name,) = loop.collections
    return name


@pytest.mark.parametrize("strategy", ["recursive", "first-order"])
def test_a_view_over_sums_of_another(
    strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "FEW", 0)
    rng = random.Random(strategy)
    rows: list[tuple[int, float]] = []
    groups = [(k, g) for k in range(20) for g in range(k % 3 + 1)]
    with hw.open(tmp_path) as db:
        db.source("r", "k BIGINT, v DOUBLE")
        db.source("s", "k BIGINT, g BIGINT")
        db.view("a", "SELECT k, sum(v) AS t FROM r GROUP BY k")
        db.view(
            "b",
            "SELECT s.g, sum(a.t) AS t, count(*) AS n FROM a JOIN s ON s.k = a.k GROUP BY s.g",
            strategy=strategy,
        )
        steps = [
            step
            for kept in db.program.kept.values()
            for some in kept.changes.values()
            for s in some
            for step in s.steps
        ]
        assert any(isinstance(step, AddUp) for step in steps)
        db.apply({"s": groups})
        for _ in range(8):
            new = [(rng.randrange(20), rng.uniform(-1, 1)) for _ in range(30)]
            gone = rng.sample(rows, len(rows) // 3)
            db.apply({"r": hw.Delta(inserts=new, deletes=gone)})
            for row in gone:
                rows.remove(row)
            rows += new
            of_k: dict[int, list[float]] = defaultdict(list)
            for k, v in rows:
                of_k[k].append(v)
            expected: dict[int, list[float]] = defaultdict(lambda: [0.0, 0])
            for k, g in groups:
                if k in of_k:
                    expected[g][0] += sum(of_k[k])
                    expected[g][1] += 1
            told = {r["g"]: (r["t"], r["n"]) for r in db.table("b").to_pylist()}
            assert told.keys() == expected.keys()
            for g, (t, n) in expected.items():
                assert told[g][1] == n and abs(told[g][0] - t) < 1e-9


def test_counts_and_zeros_are_known_through_sums(tmp_path: Path) -> None:
    with hw.open(tmp_path) as db:
        db.source("r", "k BIGINT, v BIGINT")
        db.source("s", "k BIGINT, g BIGINT")
        db.view("a", "SELECT k, sum(v) AS t FROM r GROUP BY k")
        db.view(
            "b", "SELECT s.g, sum(a.t) AS t, count(*) AS n FROM a JOIN s ON s.k = a.k GROUP BY s.g"
        )
        program = db.program
    promises = Promises(Closing(program, "UTC"), Told(), {}.get, {}, {})
    (group,) = [s.group for s in program.strata.values() if s.name == program.views["b"].stratum]
    every = [s for some in program.kept[group.name].changes.values() for s in some]
    every += program.kept[group.name].filling
    summed = [s for s in every if any(isinstance(x, AddUp) for x in s.steps)]
    assert summed
    assert promises.counts(group, 0)
    for s in summed:
        zero = Bind("z", Scalar("0L", BIGINT, (), ["literal", "bigint", 0]))
        add = next(x for x in s.steps if isinstance(x, AddUp))
        none = replace(add, sums=tuple((n, t, (*f, "z")) for n, t, f in add.sums))
        steps = tuple(y for x in s.steps for y in ((zero, none) if x is add else (x,)))
        assert not _adds_nothing(s, 0) and _adds_nothing(replace(s, steps=steps), 0)


# --- rows of sources ---------------------------------------------------------------------------------------------

JOINED = "SELECT r.g, sum(s.v) AS t, count(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.g"


def with_sources(db: hw.Database, groups: int, static: bool) -> None:
    db.source("r", "k BIGINT, g BIGINT", static=static)
    db.source("s", "k BIGINT, v BIGINT")
    db.apply({"r": [(k, g) for k in range(20) for g in range(groups)]})


def joined(db: hw.Database, groups: int, static: bool = False) -> str:
    """A view over two sources, and the map that rows of `s` fan out by; where `r` is static, none is kept of `s`."""
    with_sources(db, groups, static)
    db.view("q", JOINED)
    fans = {
        after.into
        for kept in db.program.kept.values()
        for s in kept.changes.get("s", ())
        for before, after in zip(s.steps, s.steps[1:], strict=False)
        if isinstance(before, AddUp)
    }
    (fan,) = fans
    return fan


@pytest.mark.parametrize(("groups", "looked_up"), [(5, 20 * 5), (1, 200)])
def test_rows_of_a_source_that_are_alike_find_what_they_fan_out_by_once(
    groups: int, looked_up: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 rows of 20 keys; not where they find one entry each, as adding them up would cost more."""
    with hw.open(tmp_path) as db:
        fan = joined(db, groups)
        found = Found(monkeypatch)
        db.apply({"s": [(i % 20, i) for i in range(200)]})
        assert found.entries[fan] == looked_up
        told = {r["g"]: (r["t"], r["n"]) for r in db.table("q").to_pylist()}
        assert told == {g: (sum(range(200)), 200) for g in range(groups)}
        db.apply({"s": hw.Delta(deletes=[(i % 20, i) for i in range(100)])})
        told = {r["g"]: (r["t"], r["n"]) for r in db.table("q").to_pylist()}
        assert told == {g: (sum(range(100, 200)), 100) for g in range(groups)}


def test_sums_of_rows_that_find_nothing_may_be_too_large(tmp_path: Path) -> None:
    """Recomputing never adds them up, so neither do we; rows that do find something are right beside them."""
    large = 2**62
    with hw.open(tmp_path) as db:
        joined(db, 5, static=True)
        rows = [(99, large)] * 40 + [(i % 20, 1) for i in range(100)]
        db.apply({"s": rows})
        told = {r["g"]: (r["t"], r["n"]) for r in db.table("q").to_pylist()}
        assert told == {g: (100, 100) for g in range(5)}
        with pytest.raises(hw.HeadwaterError):
            db.apply({"s": [(3, large)] * 40})
        assert {r["t"] for r in db.table("q").to_pylist()} == {100}


def test_numbers_of_rows_that_find_nothing_may_be_too_large(tmp_path: Path) -> None:
    """The same where the view is filled: forty rows are one there, of weight 40, whose product does not fit."""
    with hw.open(tmp_path) as db:
        with_sources(db, 5, static=True)
        db.apply({"s": [(99, 2**62)] * 40 + [(i % 20, 1) for i in range(100)]})
        db.view("q", JOINED)
        told = {r["g"]: (r["t"], r["n"]) for r in db.table("q").to_pylist()}
        assert told == {g: (100, 100) for g in range(5)}


def test_a_kept_sum_that_is_too_large_is_said_and_its_hint_helps(tmp_path: Path) -> None:
    """Sums of `s` are kept for rows of `r` to come, also of keys that `r` has not yet; recomputing would not meet them."""
    rows = [(99, 2**62)] * 40 + [(1, 1)]
    wide = JOINED.replace("sum(s.v)", "sum(cast(s.v AS DECIMAL(38, 0)))")
    with hw.open(tmp_path) as db:
        joined(db, 5)
        with pytest.raises(hw.HeadwaterError, match="what is kept of sums has to fit") as e:
            db.apply({"s": rows})
        assert "sum(cast(x AS DECIMAL(38, 0)))" in str(e.value)
        assert db.table("q").num_rows == 0
        db.drop("q")
        db.view("q", wide)
        db.apply({"s": rows})
        told = {r["g"]: (r["t"], r["n"]) for r in db.table("q").to_pylist()}
        assert told == {g: (1, 1) for g in range(5)}
