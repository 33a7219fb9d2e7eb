"""Programs as JSON: what is read is what was written, and what is not as it should be is an error."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import HeadwaterError
from headwater.language.queries import read_query
from headwater.language.sql.texts import check_expression
from headwater.plan import stored
from headwater.plan.program import Program

VIEWS = {
    "joined": "SELECT o.c, sum(l.p) AS s, avg(l.p) AS m FROM o JOIN l ON o.id = l.oid GROUP BY o.c",
    "bags": "SELECT c, max(d) AS x, collect_list(id) AS ids, percentile(id, 0.25) AS q FROM o GROUP BY c",
    "distinct": "SELECT c, count(DISTINCT id) AS n, stddev(DISTINCT id) AS s FROM o GROUP BY c",
    "outer": "SELECT * FROM o FULL JOIN l ON o.id = l.oid",
    "window": "SELECT id, row_number() OVER (PARTITION BY c ORDER BY d) AS n, sum(id) OVER (PARTITION BY c ORDER BY id "
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM o",
    "first": "SELECT * FROM o ORDER BY d DESC, id LIMIT 3",
    "scalars": "SELECT id, (SELECT avg(p) FROM l) AS a, (SELECT max(p) FROM l) AS b FROM o",
    "failing": "SELECT o.id, 10 / l.oid AS q FROM o JOIN l ON o.id > l.oid",
    "anti": "SELECT id FROM o WHERE id NOT IN (SELECT oid FROM l WHERE p > 1)",
    "itself": "SELECT a.id FROM o a JOIN o b ON a.c = b.c JOIN o e ON b.id = e.id",
    "over": "SELECT c, count(*) AS n FROM joined WHERE s > 1 GROUP BY c",
    "text": "SELECT id, CASE WHEN s LIKE '%{0}$x' THEN regexp_replace(s, '[{}]', '\\\\') END AS t FROM l, o",
    "again": "SELECT count(*) AS n FROM o",
}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hw.Database]:
    with hw.open(tmp_path_factory.mktemp("stored") / "db") as made:
        made.source("o", "id BIGINT, c BIGINT, d DATE")
        made.source("l", "oid BIGINT, p DOUBLE, s STRING")
        made.source("n", "id BIGINT, kids ARRAY<STRUCT<age: INT, name: STRING>>", key="id")
        made.source("fixed", "id BIGINT, tags ARRAY<STRING>", static=True)
        for name, query in VIEWS.items():
            strategy = "recompute" if name == "again" else "auto"
            made.view(name, query, strategy=strategy)
        made.view("nested", "SELECT c, collect_list(struct(id, d)) AS all FROM o GROUP BY c")
        made.view("kids", "SELECT n.id, k.age FROM n LATERAL VIEW explode(kids) e AS k")
        yield made


def again(program: Program) -> Program:
    facts = json.loads(json.dumps(stored.facts_of(program)))
    return stored.read(facts, check_expression)


@pytest.mark.spark
def test_what_is_read_is_what_was_written(db: hw.Database) -> None:
    found = again(db.program)
    assert found == db.program
    for part in ("maps", "kept", "strata", "views"):
        assert list(getattr(found, part)) == list(getattr(db.program, part)), part


@pytest.mark.spark
def test_the_facts_are_all_that_there_is(db: hw.Database) -> None:
    assert stored.facts_of(db.program).keys() == stored.names_of(db.program)
    facts = db.store.at().version.facts
    assert stored.read(facts, check_expression) == db.program


@pytest.mark.spark
def test_only_what_is_new_is_written(db: hw.Database) -> None:
    known = db.program
    compiler = db.catalog.compiler(known)
    term = read_query("SELECT id + 7 AS x FROM o WHERE id > 7", db.catalog.schemas(), db.ask)[2]
    made, _, _ = compiler.choose("new", term)
    new = stored.facts_of(made, known)
    assert "program:new" in new
    assert not any(stored.names_of(known) & new.keys())


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values inside of a value."""
    yield path
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, cell in inner:
        yield from places(cell, (*path, key))


@pytest.mark.spark
def test_whatever_is_changed_is_an_error_or_a_program(db: hw.Database) -> None:
    """No value at any place makes reading fail otherwise than a damaged directory may."""
    facts = stored.facts_of(db.program)
    every = [(k, p) for k in facts for p in places(facts[k]) if p]
    for number, (key, path) in enumerate(every[:: max(1, len(every) // 1500)]):
        other = copy.deepcopy(facts[key])
        at: Any = other
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = (None, 7, "x", [], {}, {"is": "Lookup"}, True)[number % 7]
        wrong = (HeadwaterError, TypeError, ValueError, KeyError, AttributeError, IndexError)
        with contextlib.suppress(*wrong):
            stored.read({**facts, key: other}, check_expression)


@pytest.mark.spark
@pytest.mark.parametrize(
    "text", ["reflect('a', 'b')", "(SELECT 1)", "1) + (1", "a -- b", "java_method('a', 'b')"]
)
def test_text_that_runs_code_is_refused(db: hw.Database, text: str) -> None:
    facts = json.loads(json.dumps(stored.facts_of(db.program)))
    (scalar,) = [
        s
        for key, f in facts.items()
        if key.startswith("stratum:")
        for _, s in f["stratum"]["row"][:1]
    ][:1]
    scalar["sql"] = text
    with pytest.raises(HeadwaterError):
        stored.read(facts, check_expression)


@pytest.mark.spark
def test_a_program_names_what_is_there(db: hw.Database) -> None:
    facts = stored.facts_of(db.program)
    looked_up = next(n for n in db.program.looked_up())
    with pytest.raises((KeyError, ValueError)):
        stored.read({k: v for k, v in facts.items() if k != f"map:{looked_up}"}, check_expression)


def test_functions_of_python_are_called_by_their_names_in_quotes() -> None:
    check_expression("`twice`(`x0.n`)", frozenset({"twice"}))
    for functions in (frozenset[str](), frozenset({"once"}), frozenset({"reflect"})):
        with pytest.raises(HeadwaterError):
            check_expression(
                "`twice`(`x0.n`)" if "reflect" not in functions else "`reflect`(1)", functions
            )


def test_an_error_of_ours_may_be_stored_and_others_may_not(tmp_path: Path) -> None:
    """A scalar subquery that gives several rows raises; a database with one opens again."""
    check_expression("if(`x0.v0` > 1, raise_error('several'), `x0.v1`)")
    with pytest.raises(HeadwaterError):
        check_expression("raise_error(`x0.v0`)")
    with hw.open(tmp_path / "again") as made:
        made.source("r", "a BIGINT, b BIGINT")
        made.view("v", "SELECT a, (SELECT t.b FROM r t WHERE t.a = r.b) AS x FROM r")
    with hw.open(tmp_path / "again") as made:
        assert made.views == ["v"]


def test_records_keep_their_order_after_drops(tmp_path: Path) -> None:
    """New records come behind those that are there, also where others were dropped before them."""
    db = hw.open(tmp_path / "db")
    db.source("a", "k INT, x INT")
    db.source("b", "k INT, y INT")
    for i in range(3):
        db.view(
            f"v{i}",
            f"SELECT a.k, sum(x + {i}) AS s FROM a, b WHERE a.k = b.k GROUP BY a.k HAVING sum(y) > {i}",
        )
    db.drop("v0")
    db.drop("v1")
    for i in range(3):
        db.view(
            f"w{i}",
            f"SELECT v.k, max(v.s) AS m FROM v2 v, a WHERE v.k = a.k AND a.x > {i} GROUP BY v.k",
        )
    db.apply({"a": [{"k": 1, "x": 5}], "b": [{"k": 1, "y": 7}]})
    was = [list(r) for r in (db.program.maps, db.program.strata, db.program.views, db.program.kept)]
    db.close()
    with hw.open(tmp_path / "db") as again:
        p = again.program
        assert [list(r) for r in (p.maps, p.strata, p.views, p.kept)] == was
        again.rebuild()
        assert all(again.table(f"w{i}")["m"].to_pylist() == [7] for i in range(3))
