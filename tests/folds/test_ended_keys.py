"""States of keys that have ended go, where nothing is told at the end; and the same is told as if they had stayed."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import headwater as hw
import headwater.st as st
from headwater.folds import fold as module

DDL = "k BIGINT, n BIGINT, x BIGINT"


def add(state: Any, row: Any, emit: Any) -> Any:
    total = (state.total or 0) + row.x
    emit("sums", row.k, row.n, total)
    return (total,)


FOLD = st.fold(add, state="total BIGINT", result="total", gives={"sums": DDL})
STEPS = {
    "fold": ("k{seq a}", st.partitioned(FOLD), True),
    "two headers": ("k{seq a, b}", st.filter("x > 0") >> st.filter("x > 1"), True),
    "beside": ("k{seq a} | seq b", st.parallel(st.partitioned(FOLD), st.filter("x > 0")), True),
    "pattern": (
        "k{seq a}",
        st.lift("seq a", st.mark(st.when("x > 3") + st.when("x < 3"), "fell")),
        True,
    ),
    "told at the end": (
        "k{seq a}",
        st.partitioned(FOLD, agg="SELECT k, total FROM results", gives="totals"),
        False,
    ),
    "peaks": ("k{seq a}", st.peaks("x"), False),
}


def opened(path: Path, name: str) -> Any:
    db = hw.open(path)
    for source in ("a", "b"):
        db.source(source, DDL, closes=["n", "k", ("k", "n")])
    schema, steps, _ = STEPS[name]
    db.stream("s", schema, steps, order="n")
    return db


def states(db: Any) -> int:
    """Keys that have a state."""
    count = 0
    for name, (_, _refs) in db.store.at(db.version).version.maps.items():
        if name.startswith("s:s.") and name != "s:s.":
            tables = db.store.at(db.version).arrangement(name).scan()
            count += sum(t.num_rows for t in tables)
    return count


def play(path: Path, name: str, seed: int) -> tuple[Any, list[int]]:
    """What is told of a story in which keys end one after the other, and how many keys have states."""
    pick = Random(seed)
    db = opened(path, name)
    counts, n = [], 0
    for step in range(9):
        rows = [(k, n + pick.randrange(20), pick.randrange(6)) for k in range(step, step + 4)]
        n += 10
        changes = {"a": [r for r in rows if r[1] >= n - 10]}
        if "b" in STEPS[name][0]:
            changes["b"] = [(k, n + 5, x) for k, _, x in rows[:2]]
        db.apply(changes)
        key = hw.upto(step) if pick.random() < 0.3 else step
        for over in (hw.closed(n=hw.below(n)), hw.closed(k=key)):
            db.apply({}, punctuate={"a": over, "b": over})
        counts.append(states(db))
        if pick.random() < 0.2:
            db.close()
            db = opened(path, name)
    db["s"].verify()
    db.apply({}, punctuate={"a": hw.closed(), "b": hw.closed()})
    db["s"].verify()
    value = db["s"].value()
    db.close()
    return value, counts


@pytest.mark.parametrize("name", STEPS)
def test_states_of_keys_that_ended(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, counts = play(tmp_path / "db", name, 1)
    goes = STEPS[name][2]
    assert max(counts) <= 5 if goes else max(counts) > 6
    monkeypatch.setattr(module, "without_ended", lambda node, state, *_: (state, 0))
    same, all_counts = play(tmp_path / "other", name, 1)
    assert same == value
    assert max(all_counts) > 6 or name == "two headers"


def test_a_key_that_ends_while_the_functions_are_missing(tmp_path: Path) -> None:
    """Its rows wait, so that its state stays until they are taken."""
    with opened(tmp_path / "db", "fold") as db:
        db.apply({"a": [(1, 5, 2), (2, 5, 1)]}, punctuate={"a": hw.closed(n=hw.below(10))})
        assert states(db) == 2
    with hw.open(tmp_path / "db") as db:
        db.apply({"a": [(1, 20, 3)]}, punctuate={"a": hw.closed(k=1)})
        assert states(db) == 2
    with opened(tmp_path / "db", "fold") as db:
        assert db["s"].output_table("sums").column("x").to_pylist()[-1] == 5
        assert states(db) == 1 and db["s"].state(1) is None and db["s"].state(2) is not None
        db["s"].verify()


def test_explain_says_what_is_bounded_and_by_what(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("a", DDL, closes=["n", "k"])
        db.stream("by_key", "k{seq a}", st.partitioned(FOLD), order="n")
        most = st.relational("SELECT k, max(x) AS x FROM a GROUP BY k", gives="most")
        marks = {"hour": 60}
        db.stream("hours", "hour[bag a]", st.lift("bag a", most), order="n", marks=marks)
        db.stream(
            "whole", "bag a", st.relational("SELECT sum(x) AS x FROM a", gives="total"), order="n"
        )
        db.apply({"a": [(1, 10, 3), (1, 200, 1)]}, punctuate={"a": hw.closed(n=hw.below(100))})
        shown = {name: str(db.explain(name)) for name in ("by_key", "hours", "whole")}
        assert db.nodes() == [] and db.sizes()["streams"].entries > 4
    lines = {
        line.split(":")[1].strip(): line
        for s in shown.values()
        for line in s.splitlines()
        if line.startswith("  s:") or line.startswith("  b:")
    }
    assert "a state a key, until `k` is closed in `a`" in lines["by_key.0"]
    assert "until the next `hour`" in lines["hours.0.a"]
    assert "grows: until the stream ends" in lines["whole.0.a"]
    assert all(
        "until they are ready" in s and "grows: all that was told" in s for s in shown.values()
    )
