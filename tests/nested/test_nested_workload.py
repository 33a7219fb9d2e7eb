"""Q1 to Q7 of seed 001 on TPC-H data through six increments, exact after each.

Increments insert and delete at every level: customers, orders with their lines, single lines, parts, suppliers and
what they supply; half of what was deleted comes back. The oracle is the query itself, a Python function, run on lists.
It runs twice: on the tables, where Q4 to Q7 read the views Q1 to Q3, and on nested sources in the place of those views,
which are given deep changes. All of it happens in the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

import headwater as hw
from comprehensions import agree, canonical
from headwater.api.database import Database
from headwater.calculus.check import type_of
from headwater.calculus.types import MapType
from headwater.engine.view_rows import repeated
from spark_session import session
from tpch.data import GROWING, Stream, Tables, generated
from tpch.nested import (
    FROM_NESTED,
    NESTED,
    QUERIES,
    SCHEMAS,
    STATIC,
    Lists,
    Rows,
    deep_change,
    deltas,
    lists,
    nested,
    piecewise,
    plainly,
    projected,
    projected_all,
)

QUICK, FULL = 0.001, 0.01
INCREMENTS = 6
DELETED = {**dict.fromkeys(GROWING, 0.05), "supplier": 0.2}  # of ten suppliers one goes, too
TORN = 0.02
"""The share of lines that are missing from their orders, other ones after every increment."""


def stream(tables: Tables) -> Stream:
    """From half of the rows to all, with insertions and deletions in all tables."""
    return Stream(tables, INCREMENTS, dict.fromkeys(GROWING, 0.5), DELETED, torn=TORN)


def thinned(tables: Tables, one_of: int) -> Tables:
    """Only some of the orders, with their lines, and of partsupp."""
    some = {n: t.take(np.arange(0, len(t), one_of)) for n, t in tables.items() if n in THINNED}
    lines = tables["lineitem"]
    of = pc.is_in(lines.column("l_orderkey"), some["orders"].column("o_orderkey"))
    return {**tables, **some, "lineitem": lines.filter(of)}


THINNED = ("orders", "partsupp")


# --- the oracle ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tpch")


@pytest.fixture(scope="module")
def tiny(folder: Path) -> list[Lists]:
    """Tables of a few hundred rows, before and after each increment, and what Q1 to Q3 make of them."""
    changing = stream(thinned(generated(QUICK, folder), 12))
    states = [changing.tables, *(changing.tables for _ in changing.changes())]
    out = [lists(projected_all(tables)) for tables in states]
    for given in out:
        given |= {name: plainly(name, given) for name in ("q1", "q2", "q3")}
    return out


def types() -> dict[str, MapType]:
    """The types of the tables, and of the answers under their names."""
    out = hw.schemas(";".join(f"{n}({ddl})" for n, ddl in SCHEMAS.items()))
    for name, q in QUERIES.items():
        out[name] = type_of(q.read(out))
    return out


@pytest.mark.parametrize("name", QUERIES)
def test_the_term_means_what_the_function_does(name: str, tiny: list[Lists]) -> None:
    assert plainly(name, tiny[0])
    agree(QUERIES[name], types(), tiny[0])


@pytest.mark.parametrize("name", QUERIES)
def test_piece_by_piece_is_the_same_answer(name: str, tiny: list[Lists]) -> None:
    for given in tiny:
        flat = {n: given[n] for n in SCHEMAS}
        assert canonical(piecewise(name, flat)) == canonical(plainly(name, given))


def test_names_may_repeat_piece_by_piece(tiny: list[Lists]) -> None:
    """Rows that are there twice and names that several rows have, which no table of TPC-H has."""
    given = {n: list(tiny[-1][n]) for n in SCHEMAS}
    for name in ("customer", "part", "supplier"):
        given[name] = [row._replace(name=row.name[:-1]) for row in given[name]]
    for name, rows in given.items():
        given[name] = rows + rows[: len(rows) // 3]
    for name in QUERIES:
        assert canonical(piecewise(name, dict(given))) == canonical(plainly(name, given)), name


@pytest.mark.parametrize("name", NESTED)
def test_a_nested_source_has_the_rows_of_the_query(name: str, tiny: list[Lists]) -> None:
    for given in tiny:
        rows = nested(name, dict(given))
        assert canonical([_without_keys(r) for r in rows]) == canonical(given[name])


@pytest.mark.parametrize("name", NESTED)
def test_deep_changes_lead_from_one_state_to_the_next(name: str, tiny: list[Lists]) -> None:
    paths: set[str] = set()
    for before, after in pairwise(nested(name, dict(given)) for given in tiny):
        change = deep_change(name, before, after)
        assert canonical(_changed(name, before, change)) == canonical(after)
        paths |= {p for p, delta in change.items() if delta.inserts} & {
            p for p, delta in change.items() if delta.deletes
        }
    bags = {
        "q1": ("orders", "orders.parts"),
        "q2": ("customers",),
        "q3": ("suppliers", "customers"),
    }
    assert paths == {name, *(f"{name}.{bag}" for bag in bags[name])}


def _without_keys(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_keys(v) for v in value]
    if isinstance(value, dict):
        keys = ("custkey", "orderkey", "suppkey", "partkey")
        return {k: _without_keys(v) for k, v in value.items() if k not in keys}
    return value


def _changed(name: str, rows: Rows, change: dict[str, hw.Delta]) -> Rows:
    """Applies a deep change as one would by hand: finds the owner, and adds to its list or takes from it."""
    out = [_copy(r) for r in rows]
    for path, delta in change.items():
        inside = path.split(".")[1:]
        for sign, given in ((-1, delta.deletes), (1, delta.inserts)):
            for row in given:
                bag, rest = out, dict(row)
                for i, field_name in enumerate(inside):
                    prefix = "".join(f"{p}." for p in inside[:i])
                    keys = [k.removeprefix(prefix) for k in NESTED[name][1] if k.startswith(prefix)]
                    own = {k: rest.pop(k) for k in keys if "." not in k}
                    (owner,) = (r for r in bag if own.items() <= r.items())
                    bag = owner[field_name]
                element = rest["value"] if list(rest) == ["value"] else rest
                if sign > 0:
                    bag.append(element)
                else:
                    where = [canonical(x) for x in bag].index(canonical(element))
                    del bag[where]
    return out


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _copy(v) for k, v in value.items()}
    return [_copy(v) for v in value] if isinstance(value, list) else value


def test_every_level_changes(tiny: list[Lists]) -> None:
    """A stream in which nothing came, went or emptied at some level would test nothing."""
    for name in set(SCHEMAS) - set(STATIC):
        steps = list(pairwise({tuple(r) for r in given[name]} for given in tiny))
        assert sum(bool(b - a) for a, b in steps) >= INCREMENTS - 1, (
            name
        )  # of ten suppliers five come
        assert all(a - b for a, b in steps), name
    for name in QUERIES:
        answers = [canonical(plainly(name, given)) for given in tiny]
        assert all(a != b for a, b in pairwise(answers)), name
    first = tiny[0]
    assert any(not c["orders"] for c in first["q1"])
    assert any(not o["parts"] for c in first["q1"] for o in c["orders"])
    assert any(len(c["orders"]) > 1 for c in first["q1"])
    assert any(not p["customers"] for p in first["q3"])
    assert any(n["parts"] for n in plainly("q7", first))


# --- the engine ------------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """What Headwater answered at each version, and the function itself."""

    found: dict[str, list[Any]] = field(default_factory=dict)
    expected: dict[str, list[Any]] = field(default_factory=dict)
    refused: dict[str, Exception] = field(default_factory=dict)
    jobs: list[int] = field(default_factory=list)
    failed: Exception | None = None

    def define(self, db: Database, names: Any) -> None:
        for name in names:
            try:
                db.view(name, QUERIES[name])
            except Exception as e:
                self.refused[name] = e

    def apply(self, db: Database, change: Any) -> None:
        """An increment; where one fails, the oracle still goes on."""
        if self.failed is not None:
            return
        try:
            commit = db.apply(change)
            self.jobs.append(commit.jobs)
            for name in db.views:
                rows = repeated(db.table(name)).to_pylist()
                self.found.setdefault(name, []).append(canonical(rows))
        except Exception as e:
            self.failed = e

    def exact(self, name: str) -> None:
        """A view has the function's answer at every version."""
        if name in self.refused:
            raise self.refused[name]
        found, expected = self.found.get(name, []), self.expected[name]
        for version, (a, b) in enumerate(zip(found, expected)):  # noqa: B905
            assert a == b, f"at increment {version}"
        if self.failed is not None:
            raise self.failed
        assert len(found) == len(expected)


Oracle = Callable[[str, Lists], Rows]


def states(changing: Stream) -> Iterator[tuple[Any, Lists]]:
    """The load and the increments as changes of tables, each with the rows that are there after it."""
    load: list[Any] = [{n: projected(n, t) for n, t in changing.load.items() if n in SCHEMAS}]
    turns = (deltas(change, SCHEMAS) for change in changing.changes())
    for change in chain(load, turns):
        yield change, lists(projected_all(changing.tables))


def over_tables(
    changing: Stream, home: Path, oracle: Oracle, small: int | None = None, spark: Any = None
) -> Run:
    """All seven as views of one database, four of them over the other three.

    Where statements find more rows than `small`, their round is on Spark.
    """
    made = Run()
    with hw.open(home, spark=spark) as db:
        db.policy.small = small or db.policy.small
        for name, ddl in SCHEMAS.items():
            db.source(name, ddl, static=name in STATIC)
        db.apply({n: projected(n, changing.full[n]) for n in STATIC})
        made.define(db, QUERIES)
        for change, given in states(changing):
            made.apply(db, change)
            for name in QUERIES:
                given[name] = oracle(name, given)
                made.expected.setdefault(name, []).append(canonical(given[name]))
    return made


def over_nested(changing: Stream, home: Path, oracle: Oracle) -> Run:
    """Q4 to Q7 over nested sources, which are given deep changes."""
    made = Run()
    with hw.open(home) as db:
        for name, (ddl, key) in NESTED.items():
            db.source(name, ddl, key=key)
        for name in ("customer", "nation"):
            db.source(name, SCHEMAS[name], static=name in STATIC)
        db.apply({n: projected(n, changing.full[n]) for n in STATIC})
        made.define(db, FROM_NESTED)
        before: Lists = {name: [] for name in NESTED}
        for change, given in states(changing):
            after = {name: nested(name, dict(given)) for name in NESTED}
            deep = {n: d for n in NESTED for n, d in deep_change(n, before[n], after[n]).items()}
            made.apply(db, {**deep, **{n: d for n, d in change.items() if n == "customer"}})
            before = after
            for name in FROM_NESTED:
                rows = oracle(name, {**given, **after})
                made.expected.setdefault(name, []).append(canonical(rows))
    return made


@pytest.fixture(scope="module")
def quick(folder: Path) -> Run:
    tables = thinned(generated(QUICK, folder), 3)
    return over_tables(stream(tables), folder / "quick", plainly)


@pytest.fixture(scope="module")
def quick_nested(folder: Path) -> Run:
    tables = thinned(generated(QUICK, folder), 3)
    return over_nested(stream(tables), folder / "quick-nested", plainly)


@pytest.fixture(scope="module")
def full(folder: Path) -> Run:
    return over_tables(stream(generated(FULL, folder)), folder / "full", piecewise)


@pytest.fixture(scope="module")
def full_nested(folder: Path) -> Run:
    return over_nested(stream(generated(FULL, folder)), folder / "full-nested", piecewise)


@pytest.mark.parametrize("name", QUERIES)
def test_quick(quick: Run, name: str) -> None:
    quick.exact(name)


@pytest.mark.parametrize("name", FROM_NESTED)
def test_quick_over_nested_sources(quick_nested: Run, name: str) -> None:
    quick_nested.exact(name)


def test_quick_without_spark(quick: Run, quick_nested: Run) -> None:
    for made in (quick, quick_nested):
        assert made.jobs == [0] * (1 + INCREMENTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_full(full: Run, name: str) -> None:
    full.exact(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", FROM_NESTED)
def test_full_over_nested_sources(full_nested: Run, name: str) -> None:
    full_nested.exact(name)


@pytest.mark.slow
def test_full_without_spark(full: Run, full_nested: Run) -> None:
    for made in (full, full_nested):
        assert made.jobs == [0] * (1 + INCREMENTS)


@pytest.mark.slow
@pytest.mark.spark
def test_rounds_here_and_rounds_on_spark(folder: Path) -> None:
    """An increment of which some rounds are small and some are not; none may see what another put off."""
    changing = stream(thinned(generated(QUICK, folder), 3))
    made = over_tables(changing, folder / "mixed", plainly, small=800, spark=session())
    assert any(made.jobs)
    for name in QUERIES:
        made.exact(name)
