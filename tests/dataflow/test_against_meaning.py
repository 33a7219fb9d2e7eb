"""The engine beside the meaning: random graphs with a story, step by step, in this process and reopened on the way."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from graphs import Graph, bags, drawn, meaning_of
from graphs_in_forms import failing, in_tables
from headwater.dataflow import maps
from headwater.dataflow.define import Stage
from headwater.dataflow.meaning import Meaning
from headwater.dataflow.rows import frozen, rows_of
from headwater.errors import StageFailed
from headwater.plan.program import WEIGHT


def opened(
    path: Path, graph: Graph, fuse: bool, stages: Sequence[Any] | None = None, **how: Any
) -> Any:
    """A database with the stages of a graph, or with others that mean the same."""
    db = hw.open(path, **how)
    db.policy.fuse = fuse
    for name, ddl in graph.sources.items():
        db.source(name, ddl)
    for name, ddl in graph.flows.items():
        db.flow(name, ddl)
    for f in graph.stages if stages is None else stages:
        db.stage(f)
    return db


def relation(db: Any, name: str) -> dict[Any, int]:
    table = db.table(name)
    names = [n for n in table.column_names if n != WEIGHT]
    weights = table.column(WEIGHT).to_pylist()
    return {frozen(r): n for r, n in zip(rows_of(table, names), weights, strict=True)}


def state_of(db: Any, stage: Stage) -> dict[str, dict[Any, dict[Any, Any]]]:
    """All state of a stage, by part, group and entry, as `meaning` has it."""
    out: dict[str, dict[Any, dict[Any, Any]]] = {}
    snapshot, clock = db.store.at(db.version), db.graph.nodes[stage.name].clock
    for p in stage.state:
        spec = maps.state_spec(stage, p)
        groups: dict[Any, dict[Any, Any]] = {}
        for table in snapshot.arrangement(spec.name).scan():
            keys = rows_of(table, maps.group_of(spec))
            entries = rows_of(table, [n for n, _ in spec.key if n not in maps.group_of(spec)])
            values = rows_of(table, [n for n, _ in spec.ring])
            for g, e, v in zip(keys, entries, values, strict=True):
                if p.expires is not None and clock is not None and v[-1] is not None:
                    if clock - v[-1] >= p.expires:
                        continue  # it is not seen any more, and is taken away some day
                held = v[0] if p.kept.kind == "bag" else v[1 : 1 + len(p.row.fields)]
                groups.setdefault(frozen(g), {})[frozen(e)] = held
        if groups:
            out[p.kept.name] = groups
    return out


def compare(db: Any, m: Meaning, where: str) -> None:
    for name in m.relations:
        if name in db.catalog.sources and db.catalog.sources[name].retain:
            assert relation(db, name) == m.relations[name], (where, name)
    for name, node in m.nodes.items():
        stage = db._bound[name]
        fact = db.graph.nodes[name]
        assert fact.epochs == node.epochs, (where, name, "epochs")
        assert fact.clock == node.clock, (where, name, "clock")
        expected = {p: g for p, g in node.state.items() if g}
        assert state_of(db, stage) == expected, (where, name, "state")
        for i, queue in node.queues.items():
            cursor = db.graph.cursors[name, i]
            assert (cursor.first, len(cursor.at)) == (queue.first, len(queue.increments)), (
                where,
                name,
                i,
            )


def told(
    graph: Graph,
    path: Path,
    fuse: bool = False,
    reopen: bool = True,
    stages: Sequence[Any] | None = None,
) -> None:
    """A story in both; compared after every step, and, where stages are not fused, epoch by epoch.

    The engine may be given other stages that mean the same.
    """
    rng = random.Random(graph.seed)
    m = meaning_of(graph)
    db = opened(path, graph, fuse, stages)
    for n, (what, given) in enumerate(graph.story):
        if what == "give":
            m.give(bags(graph, given))
            db.apply(given)
        else:
            given = None if fuse else given
            ran, held = m.run(given), False
            try:
                mine = db.run(epochs=given).epochs
                if not fuse:
                    assert mine == ran, (graph.seed, n)
            except StageFailed:
                held = True
            assert held == any(x.held for x in m.nodes.values()), (graph.seed, n)
        if not fuse:
            compare(db, m, f"seed {graph.seed}, step {n}")
        if fuse and what == "run":
            compare(db, m, f"seed {graph.seed}, step {n}")
        if reopen and rng.random() < 0.3:
            db.close()
            db = opened(path, graph, fuse, stages)
    db.close()


@pytest.mark.parametrize("seed", range(40))
def test_the_engine_is_the_meaning(seed: int, tmp_path: Path) -> None:
    told(drawn(seed), tmp_path / "db")


LOOSE = {"any_input", "prefer", "landmark", "own", "take all", "look-up", "conflict", "raises"}
"""What makes an outcome depend on the schedule, or holds a stage."""


FIRM = [s for s in range(3000, 3120) if not drawn(s).words & LOOSE]
"""Graphs whose outcome depends on no schedule: what stages that are run together must not change."""


def test_some_graphs_depend_on_no_schedule() -> None:
    assert len(FIRM) > 20


@pytest.mark.parametrize("seed", FIRM)
def test_stages_that_are_run_together(seed: int, tmp_path: Path) -> None:
    told(drawn(seed), tmp_path / "db", fuse=True)


TABLES = ["row_wise", "outputs", "whole", "record", "cycle"]
"""Kinds of stages that there are in the forms of tables."""


def in_forms(seed: int, path: Path) -> set[str]:
    """A graph whose stages get tables, in the engine; what is in it."""
    graph = drawn(seed, TABLES)
    told(graph, path, stages=in_tables(graph))
    return graph.words


def test_tables_mean_what_rows_do(tmp_path: Path) -> None:
    found = {word for seed in range(18) for word in in_forms(seed, tmp_path / str(seed))}
    kinds = ("row-wise", "whole", "record")
    assert found >= {f"{kind} in {form}" for kind in kinds for form in ("arrow", "pandas")}


def set_aside(seed: int, path: Path, fuse: bool) -> set[str]:
    """A graph whose functions fail at some rows, which are set aside; what is in it."""
    graph = drawn(seed)
    if fuse and graph.words & LOOSE:
        return set()
    made = failing(graph)
    told(made.graph, path, fuse, stages=made.stages)
    with opened(path, made.graph, fuse, made.stages) as db:
        for name, expected in made.aside.items():
            found = Counter[Any]()
            for (i, key, row, _), n in relation(db, f"{name}_failed").items():
                found[i, key, row] += n
            assert found == expected, (seed, name)
    return graph.words


@pytest.mark.parametrize("fuse", [False, True])
def test_what_fails_is_set_aside_and_the_rest_is_as_if_it_were_not_there(
    tmp_path: Path, fuse: bool
) -> None:
    found = {w for seed in range(18) for w in set_aside(seed, tmp_path / str(seed), fuse)}
    assert found >= {"raises", "raises late", "does not fit"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30, 300))
def test_tables_and_what_is_set_aside_more(seed: int, tmp_path: Path) -> None:
    in_forms(seed, tmp_path / "forms")
    for fuse in (False, True):
        set_aside(seed, tmp_path / str(fuse), fuse)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 2000))
def test_the_engine_is_the_meaning_more(seed: int, tmp_path: Path) -> None:
    told(drawn(seed), tmp_path / "db")
