"""Facts of streams that somebody changed: an error of ours, or what is right; nothing is run, and nothing outside is touched."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
import headwater.st as st
from headwater.errors import HeadwaterError
from test_tampering import Watch, numbers, other, places, record, reseal, silently, texts, write

OF_STREAMS = ("stream:", "waits:", "source:sums", "source:s", "closed:")
ROWS = [[(1, 10, 3), (2, 20, 5)], [(1, 70, 4), (2, 65, 1)], [(1, 200, 1)]]


def add(state: Any, row: Any, emit: Any) -> Any:
    emit("sums", row.k, row.t, (state.n or 0) + row.x)
    return ((state.n or 0) + row.x,)


DDL = "k BIGINT, t BIGINT, x BIGINT"
FOLD = st.partitioned(st.fold(add, state="n BIGINT", result="n", gives={"sums": DDL}))


def bind(db: hw.Database) -> None:
    """Streams of every kind of step: with functions, with queries, over a stream, with a clock."""
    pattern = st.mark(st.when("x > 3") + st.when("x < 3").many(), "fell")
    db.stream("folded", "k{seq a}", FOLD, order="t", closes={"sums": "t"})
    db.stream("falls", "k{seq a}", st.lift("seq a", pattern), order="t")
    most = st.relational("SELECT k, max(x) AS x FROM a WHERE x > 1 GROUP BY k", gives="most")
    db.stream(
        "mosts",
        "hour[bag a]",
        st.filter("x > 0", "a") >> st.lift("bag a", most),
        order="t",
        marks={"hour": 60},
    )
    db.stream("again", "seq sums", st.map(sums="k, x * 2 AS twice"), order="t")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("told") / "db"
    with hw.open(path) as db:
        db.source("a", DDL, closes=["t", "k"])
        bind(db)
        db.view("by_key", "SELECT k, sum(x) AS x FROM sums GROUP BY k")
        for n, rows in enumerate(ROWS):
            db.apply({"a": rows}, punctuate={"a": hw.closed(t=hw.below(60 * n + 10))})
    assert not used(Path(shutil.copytree(path, path.parent / "warm")))
    return path


def used(path: Path) -> list[HeadwaterError]:
    """Everything that is done with streams; the errors of ours that came out."""
    errors: list[HeadwaterError] = []

    def tried(act: Callable[[], Any]) -> Any:
        try:
            return act()
        except HeadwaterError as e:
            errors.append(e)
            return None

    db = tried(lambda: hw.open(path))
    if db is None:
        return errors
    with contextlib.closing(db):
        for name in ("falls", "mosts", "again"):  # as the log says
            tried(lambda n=name: db[n].value())
        tried(lambda: bind(db))
        for name in ("folded", "falls", "mosts", "again"):
            tried(lambda n=name: db[n].value())
            tried(lambda n=name: db[n].pending())
            tried(lambda n=name: db.explain(n))
            tried(lambda n=name: db[n].verify())
        tried(lambda: db["folded"].state(1))
        over = {"a": hw.closed(t=hw.below(300))}
        tried(lambda: db.apply({"a": [(1, 250, 3)]}, punctuate=over))
        tried(lambda: db.table("by_key"))
        tried(lambda: db.drop("again"))
        tried(lambda: db.drop("mosts"))
    silently(["status", str(path)])
    silently(["explain", str(path), "mosts"])
    return errors


def changed(r: random.Random, path: Path) -> str:
    """What the log says of streams and their outputs, inside of steps too; with checksums and seals."""
    newest = max(n for n in numbers(path) if "checkpoint" in record(path, n))
    places_of = [(n, "checkpoint" if n == newest else "change") for n in numbers(path)[-3:]]
    number, part = r.choice([(newest, "checkpoint"), *places_of])
    found = record(path, number)
    facts = found[part]["facts"]
    mine = [f for f in facts if f.startswith(OF_STREAMS)]
    if not mine:
        return "nothing"
    chosen = r.choice(mine)
    fact = facts[chosen]
    if chosen.startswith("stream:") and r.random() < 0.5:
        steps = json.loads(fact["steps"])
        holder, key = r.choice(list(places(steps)))
        old = holder[key]
        holder[key] = other(r, old, texts(facts))
        said = f"{chosen} steps {key}: {str(old)[:60]} -> {str(holder[key])[:60]}"
        fact["steps"] = json.dumps(steps)
    else:
        inside = list(places(fact)) if isinstance(fact, dict | list) else []
        holder, key = r.choice([(facts, chosen), *inside * 3])
        old = holder[key]
        holder[key] = other(r, old, texts(facts))
        said = f"{chosen} {key}: {str(old)[:60]} -> {str(holder[key])[:60]}"
    write(path, number, found)
    return f"record {number}, {said}, sealed: {reseal(path)}"


def assert_lawful(told: Path, path: Path, seed: int) -> None:
    shutil.copytree(told, path)
    said = changed(random.Random(seed), path)
    try:
        with Watch(
            path, allows=["compile", "exec"]
        ):  # of rows with names, and of functions that are bound
            used(path)
    except BaseException as e:
        e.add_note(f"seed {seed}: {said}")
        raise


@pytest.mark.parametrize("seed", range(8))
def test_facts_of_streams_that_were_changed_give_an_error_of_ours(
    told: Path, tmp_path: Path, seed: int
) -> None:
    assert_lawful(told, tmp_path / "db", seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8, 200))
def test_facts_of_streams_that_were_changed_in_more_ways(
    told: Path, tmp_path: Path, seed: int
) -> None:
    assert_lawful(told, tmp_path / "db", seed)
