"""A relation that is narrowed before a map is filled from it: the same entries as those of all of its rows, and no Spark where few pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from corpus_edits import entries
from headwater.engine import fill, narrowing
from headwater.engine.change import Change
from headwater.engine.here import threads

ROWS = 1200
QUERIES = (
    "SELECT k, v, name FROM r WHERE v < {0}",
    "SELECT r.k, v, grp FROM r JOIN g ON r.k = g.k WHERE v < {0} OR v IS NULL",
    "SELECT grp, sum(v) AS s, max(v) AS m FROM r JOIN g ON r.k = g.k WHERE v + r.k < {0} GROUP BY grp",
    "SELECT a.k, b.v FROM r a JOIN r b ON a.k = b.v WHERE a.v < {0} AND b.k < {1}",
    "SELECT k FROM r WHERE v < {0} UNION ALL SELECT v FROM r WHERE k > {1}",
    "SELECT k, count(*) AS n FROM r WHERE name = 'b' AND v > {1} GROUP BY k",
)


def rows(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    names = pa.array([None, "a", "b", "cc"]).take(pa.array(rng.integers(0, 4, n)))
    values = pa.array(rng.integers(0, 1000, n), mask=rng.random(n) < 0.02)
    return pa.table({"k": rng.integers(0, 400, n), "v": values, "name": names})


def loaded(path: Path) -> hw.Database:
    """A relation of several runs, of which some rows are gone."""
    db = hw.open(path, execution="here")
    db.source("r", "k BIGINT, v BIGINT, name STRING")
    db.source("g", "k BIGINT, grp BIGINT")
    db.apply({"g": pa.table({"k": np.arange(300), "grp": np.arange(300) % 7})})
    first = rows(ROWS, 1)
    db.apply({"r": first})
    db.apply({"r": hw.Delta(inserts=rows(ROWS // 2, 2), deletes=first.slice(200, 400))})
    return db


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches of two hundred rows, of any relation."""
    monkeypatch.setattr(threads, "LEAST_ROWS", 1)
    monkeypatch.setattr(threads, "AT_ONCE", 200)


def watch(patch: pytest.MonkeyPatch, narrow: bool = True) -> list[tuple[int, int]]:
    """Rows before and after of all that is narrowed; with `narrow` False nothing is."""
    seen: list[tuple[int, int]] = []

    def watched(change: Change, *given: Any) -> Change:
        out = narrowing.narrowed(change, *given) if narrow else change
        seen.append((change.rows, out.rows))
        return out

    patch.setattr(fill, "narrowed", watched)
    return seen


@settings(deadline=None, max_examples=settings.default.max_examples // 4 or 1)
@given(
    st.sampled_from(QUERIES),
    st.sampled_from(QUERIES),
    st.tuples(st.integers(-5, 1005), st.integers(-5, 405)),
    st.tuples(st.integers(-5, 1005), st.integers(-5, 405)),
)
def test_a_relation_that_is_narrowed_fills_the_same_maps(
    tmp_path_factory: pytest.TempPathFactory,
    first: str,
    second: str,
    one: tuple[int, int],
    other: tuple[int, int],
) -> None:
    """s(r) = s(σ r), for views that are defined and for those that are replaced."""
    made = []
    for narrow in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threads, "LEAST_ROWS", 1)
            patch.setattr(threads, "AT_ONCE", 200)
            watch(patch, narrow)
            with loaded(tmp_path_factory.mktemp("narrowed") / "db") as db:
                db.view("q", first.format(*one))
                db.view("q", first.format(*other), replace=True)
                db.view("p", second.format(*other))
                made.append(entries(db))
    assert made[0] == made[1]


def test_only_the_rows_of_a_wider_filter_come_together(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loaded(tmp_path / "db") as db:
        query = "SELECT r.k, v, grp FROM r JOIN g ON r.k = g.k WHERE v < {}"
        db.view("q", query.format(500))
        seen = watch(monkeypatch)
        db.view("q", query.format(510), replace=True)
        held = sum(500 <= v < 510 for v in db.table("r").column("v").drop_null().to_pylist())
        narrow = [after for before, after in seen if before > after]
        assert narrow and all(0 < after <= held for after in narrow)


def test_few_rows_of_a_relation_that_is_large_need_no_spark(tmp_path: Path, small: None) -> None:
    """This test would fail if Spark were started: it is not marked."""
    with loaded(tmp_path / "db") as db:
        db.policy.execution, db.policy.small = "auto", 400
        db.view("q", "SELECT r.k, v, grp FROM r JOIN g ON r.k = g.k WHERE v < 20")
        assert db.table("q").num_rows > 0


def test_what_many_rows_pass_stays_as_it_is(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loaded(tmp_path / "db") as db:
        seen = watch(monkeypatch)
        db.view("q", "SELECT k, v FROM r WHERE v < 900")
        assert seen and all(before == after for before, after in seen)
