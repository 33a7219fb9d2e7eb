"""Views that are replaced: as if they were defined anew, told as the difference of the answers, or refused with nothing lost."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from edits import Played, bag, edit_story
from headwater import errors, flow
from headwater.api.editing import Editing
from headwater.engine.fill import Backfill
from headwater.engine.working import Working
from headwater.errors import NotIncremental, QueryError
from headwater.plan import compiler
from headwater.plan.compiler import Compiler
from headwater.state.log import Log
from shrinking import seeded

SUMS = "SELECT k, sum(x) AS v FROM s GROUP BY k"
SOME = "SELECT k, sum(x) AS v FROM s WHERE x > 2 GROUP BY k"
MOST = "SELECT k, max(x) AS v FROM s GROUP BY k"
READER = "SELECT count(*) AS n, sum(v) AS total FROM q"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        made.source("s", "k BIGINT, x BIGINT")
        made.view("q", SUMS)
        made.view("r", READER)
        made.apply({"s": [(1, 2), (1, 3), (2, 5), (3, 1)]})
        yield made


def rows(db: hw.Database, name: str, version: int | None = None) -> list[tuple[Any, ...]]:
    return sorted(bag(db.table(name, version)).elements())


def texts(*found: tuple[Any, ...]) -> list[tuple[str, ...]]:
    return [tuple(map(repr, r)) for r in found]


# --- one view ---------------------------------------------------------------------------------------------------------


def test_a_view_gets_another_query_and_its_reader_follows(db: hw.Database) -> None:
    first = db.version
    handle = db.view("Q", SOME, replace=True)
    assert (handle.name, db.version) == ("q", first + 1)
    assert rows(db, "q") == texts((1, 3), (2, 5))
    assert rows(db, "r") == texts((2, 8))
    assert rows(db, "q", first) == texts((1, 5), (2, 5), (3, 1)), "the past has the old query"
    told = bag(db.changes_table("q", first))
    assert told == Counter(dict(zip(texts((1, 5), (3, 1), (1, 3)), (-1, -1, 1), strict=True)))
    assert bag(db.changes_table("q", 0)) == bag(db.table("q"))
    assert bag(db.changes_table("r", 0)) == bag(db.table("r"))
    db.apply({"s": [(3, 9)]})
    assert rows(db, "r") == texts((3, 17))
    assert (db.catalog.views["q"].created, db.catalog.views["q"].replaced) == (2, first + 1)


def test_the_same_query_is_no_change(db: hw.Database) -> None:
    first = db.version
    db.view("q", SUMS, replace=True)
    assert db.replace_views({"q": SUMS, "r": READER}).repeated
    assert db.version == first
    assert rows(db, "q") == texts((1, 5), (2, 5), (3, 1))


def test_one_that_is_not_there_is_defined(db: hw.Database) -> None:
    db.view("new", MOST, replace=True)
    assert rows(db, "new") == texts((1, 3), (2, 5), (3, 1))
    assert db.catalog.views["new"].replaced == 0


def test_what_both_have_is_kept_and_nothing_else_is(db: hw.Database) -> None:
    """HAVING changed: the group's map has the runs that it had. And what nobody needs is gone."""
    group = db.program.strata[str(db.program.views["q"].stratum)].group.name
    before = db.store.at(db.version).version.maps[group][1]
    db.view("q", SUMS + " HAVING count(*) > 1", replace=True)
    assert db.store.at(db.version).version.maps[group][1] == before
    assert rows(db, "q") == texts((1, 5))
    db.view("q", SUMS, replace=True)
    kept = set(db.store.at(db.version).version.maps)
    with hw.open(db.path.parent / "other") as other:
        other.source("s", "k BIGINT, x BIGINT")
        other.view("q", SUMS)
        other.view("r", READER)
        assert kept == set(other.store.at(other.version).version.maps)


def test_the_same_answer_written_otherwise_moves_nothing(db: hw.Database) -> None:
    first = db.version
    db.view("q", "SELECT t.k, sum(t.x) AS v FROM s t GROUP BY t.k", replace=True)
    assert db.version == first + 1 and db.catalog.views["q"].replaced == 0
    assert db.changes_table("q", first).num_rows == db.changes_table("r", first).num_rows == 0


def test_a_view_may_read_one_that_was_defined_later(db: hw.Database) -> None:
    db.view("late", "SELECT k, x AS v FROM s WHERE k < 3")
    db.view("q", "SELECT k, sum(v) AS v FROM late GROUP BY k", replace=True)
    assert db.views.index("late") < db.views.index("q") < db.views.index("r")
    assert rows(db, "r") == texts((2, 10))
    db.close()
    with hw.open(db.path) as again:
        again.apply({"s": [(1, 1)]})
        assert rows(again, "r") == texts((2, 11))


def test_comprehensions_and_nested_views(db: hw.Database) -> None:
    @hw.query
    def small(s):
        return [{"k": a.k, "v": a.x} for a in s if a.x < 4]

    db.view("q", small, replace=True)
    assert rows(db, "r") == texts((3, 6))
    nested = "SELECT k, collect_list(struct(x)) AS xs FROM s {} GROUP BY k"
    db.view("n", nested.format(""))
    first = db.version
    db.view("n", nested.format("WHERE x > 2"), replace=True)
    assert len(rows(db, "n")) == 2 and len(rows(db, "n", first)) == 3
    with pytest.raises(errors.DefinedAnew, match="nested rows"):
        db.changes_table("n", first)


def test_strategies(db: hw.Database) -> None:
    for strategy in ("recursive", "first-order"):
        db.view("q", SOME, strategy=strategy, replace=True)
        assert rows(db, "r") == texts((2, 8))
    with pytest.raises(QueryError, match="no strategy"):
        db.view("q", SUMS, strategy="none", replace=True)


# --- several ----------------------------------------------------------------------------------------------------------


def test_several_at_once_in_any_order(db: hw.Database) -> None:
    commit = db.replace_views(
        {
            "r": "SELECT max(most) AS top FROM q",
            "q": "SELECT k, v AS most FROM below",
            "below": MOST,
        }
    )
    assert db.version == commit.version and db.views == ["below", "q", "r"]
    assert rows(db, "r") == texts((5,))
    assert commit.changed == {"below": 3, "q": 6, "r": 2}
    with pytest.raises(errors.DefinedAnew, match="other columns"):
        db.changes_table("q", commit.version - 1)
    with pytest.raises(QueryError, match="type list"):
        db.replace_views([("q", SUMS)])  # type: ignore[arg-type]


def test_a_view_that_is_named_again_is_read_anew_over_what_is_replaced(db: hw.Database) -> None:
    """Its text is what it was, and * says more: it was refused, with the hint to do what was done."""

    @hw.query
    def copied(q):
        return [a for a in q]

    every = {"z": "SELECT * FROM q", "above": "SELECT * FROM z", "copy": copied}
    more = {"q": "SELECT k, sum(x) AS v, count(*) AS n FROM s GROUP BY k"}
    db.replace_views(every)
    first = db.version
    assert not db.replace_views({**every, **more}).repeated
    for name in every:
        assert rows(db, name) == rows(db, "q") == texts((1, 5, 2), (2, 5, 1), (3, 1, 1))
        assert db.catalog.views[name].replaced == first + 1
    assert db.replace_views({**more, **every}).repeated and db.version == first + 1
    db.apply({"s": [(3, 1)]})
    assert rows(db, "above") == texts((1, 5, 2), (2, 5, 1), (3, 2, 2))
    db.replace_views({"q": SUMS, **every})
    assert rows(db, "copy") == rows(db, "above") == texts((1, 5), (2, 5), (3, 2))


def test_a_view_that_is_named_again_is_kept_as_it_was(
    db: hw.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the term that is read is the one that it has, no strategy is chosen, and nothing is filled."""
    chosen: list[str] = []
    choose = Compiler.choose

    def told(self: Compiler, name: str, *args: Any) -> Any:
        chosen.append(name)
        return choose(self, name, *args)

    monkeypatch.setattr(Compiler, "choose", told)
    db.replace_views({"q": SOME, "r": READER})
    assert rows(db, "r") == texts((2, 8))
    db.replace_views({"q": "SELECT k, sum(x) AS v, max(x) AS top FROM s GROUP BY k", "r": READER})
    assert rows(db, "r") == texts((3, 11))
    assert chosen == ["q", "q"]


def test_who_is_not_named_still_keeps_its_columns(db: hw.Database) -> None:
    db.replace_views({"z": "SELECT * FROM q", "above": "SELECT * FROM z"})
    more = {"q": "SELECT k, sum(x) AS v, count(*) AS n FROM s GROUP BY k"}
    with pytest.raises(QueryError, match="`above` reads `z`, and needs its columns") as e:
        db.replace_views({**more, "z": "SELECT * FROM q"})
    assert e.value.hint == "replace all at once: db.replace_views({..., 'above': ...})"


def test_a_program_whose_upstream_view_gets_a_column(db: hw.Database) -> None:
    def program(query: str) -> list[Any]:
        @hw.materialized_view
        def below():
            return query

        @hw.materialized_view
        def above():
            return "SELECT * FROM below"

        @hw.materialized_view
        def copied(below):
            return [a for a in below]

        return [above, copied, below]

    db.define(program(SUMS))
    first, more = db.version, program("SELECT k, sum(x) AS v, max(x) AS top FROM s GROUP BY k")
    db.define(more)
    assert db.version == first + 1 and db.define(more).repeated
    assert rows(db, "above") == rows(db, "copied") == texts((1, 5, 3), (2, 5, 5), (3, 1, 1))


ALL = "SELECT * FROM s WHERE x > 2"


@pytest.mark.parametrize(
    "replaced",
    [
        lambda db: db.view("w", ALL, replace=True),
        lambda db: db.replace_views({"w": ALL}),
        lambda db: db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW w AS {ALL}"),
        lambda db: db.define([hw.materialized_view(name="w")(lambda: ALL)]),
    ],
    ids=["view", "replace_views", "statement", "define"],
)
def test_a_source_that_got_a_column_is_read_anew(db: hw.Database, replaced: Any) -> None:
    """The text is the same, and * says more; once it was read so, it is no change."""
    replaced(db)
    db.execute("ALTER SOURCE s ADD COLUMN c BIGINT")
    first = db.version
    db.view("w", ALL)
    assert db.version == first, "without replace it stays"
    replaced(db)
    assert db.version == first + 1
    assert rows(db, "w") == texts((1, 3, None), (2, 5, None))
    replaced(db)
    db.replace_views({"q": SUMS, "r": READER})  # which read the source, and nothing else of it
    assert db.version == first + 1
    db.apply({"s": [(9, 9, 9)]})
    db.source("s", "k BIGINT, x BIGINT, c BIGINT, d BIGINT")
    replaced(db)
    replaced(db)
    assert db.version == first + 4
    assert rows(db, "w")[-1:] == texts((9, 9, 9, None))


def test_a_source_that_got_wider_and_more_columns_is_read_anew(db: hw.Database) -> None:
    db.source("i", "k INT")
    db.view("w", "SELECT * FROM i")
    db.source("i", "k BIGINT, c INT")
    assert db.catalog.views["w"].ddl == "`k` bigint"
    assert not db.replace_views({"w": "SELECT * FROM i"}).repeated
    assert db.catalog.views["w"].ddl == "`k` bigint, `c` int"
    assert db.replace_views({"w": "SELECT * FROM i"}).repeated


def test_a_script_with_replace_is_no_change_the_second_time(db: hw.Database) -> None:
    script = f"""
        CREATE OR REPLACE MATERIALIZED VIEW w AS {ALL};
        CREATE OR REPLACE MATERIALIZED VIEW named AS SELECT k, x FROM s;
        ALTER SOURCE s ADD COLUMN c BIGINT"""
    db.execute(script)
    first = db.version
    db.execute(script)
    assert db.version == first + 1, "one view says * of a source that has got a column"
    db.execute(script)
    assert db.version == first + 1


def test_the_same_comprehension_is_no_change(db: hw.Database) -> None:
    @hw.query
    def small(s):
        return [{"k": a.k} for a in s if a.x < 4]

    db.view("w", small)
    first = db.version
    db.view("w", small, replace=True)
    assert db.replace_views({"w": small}).repeated and db.version == first


def test_names_that_differ_in_case_are_one(db: hw.Database) -> None:
    first = db.version
    for names in (("new", "NEW"), ("Q", "q")):
        with pytest.raises(QueryError, match=f"the view `{names[1]}` is given twice"):
            db.replace_views({names[0]: SOME, names[1]: MOST})
        with pytest.raises(QueryError, match=f"the view `{names[1]}` is defined twice"):
            db.define([hw.materialized_view(name=n)(lambda: SOME) for n in names])
    assert db.version == first


def test_a_name_that_is_no_text(db: hw.Database) -> None:
    with pytest.raises(QueryError, match="the name 1 of a view is of type int"):
        db.replace_views({1: SOME})  # type: ignore[dict-item]


def test_a_statement(db: hw.Database) -> None:
    assert db.execute(f"create or replace materialized view Q as\n {SOME};").name == "q"
    assert rows(db, "q") == texts((1, 3), (2, 5))
    db.execute(f"CREATE MATERIALIZED VIEW `top` AS {MOST}")
    assert rows(db, "top") == texts((1, 3), (2, 5), (3, 1))
    with pytest.raises(errors.NameTaken):
        db.execute(f"CREATE MATERIALIZED VIEW q AS {MOST}")
    with pytest.raises(errors.ParseError, match="int"):
        db.execute(5)  # type: ignore[arg-type]


def test_what_an_edit_would_do(db: hw.Database) -> None:
    first = db.version
    told = db.can(SUMS + " HAVING count(*) > 1", instead_of="Q")
    assert "INSTEAD: 2 maps are kept, 1 adopted, 0 filled, 0 dropped" in told
    assert "1 entries, and the difference of the answer r" in told
    assert "VIEW q is planned anew" in told and "VIEW r is planned anew" in told
    told = db.can(SOME, instead_of="q")
    assert "from all of `s` (4 entries)" in told
    assert "nothing moves" in db.can("SELECT t.k, sum(t.x) AS v FROM s t GROUP BY t.k", None, "q")
    with pytest.raises(QueryError, match="REPLACE_COLUMNS"):
        db.can("SELECT k FROM s", instead_of="q")
    with pytest.raises(errors.UnknownName):
        db.can(SUMS, instead_of="nothing")
    with pytest.raises(QueryError, match="both `closes` and `instead_of`"):
        db.can(SUMS, closes={}, instead_of="q")
    assert db.version == first


# --- paying for the edit only -----------------------------------------------------------------------------------------


JOINED = "SELECT a.k, a.x, b.y FROM s a JOIN t b ON a.k = b.k WHERE {}"


@pytest.fixture
def joined(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "joined") as made:
        made.source("s", "k BIGINT, x BIGINT")
        made.source("t", "k BIGINT, y BIGINT")
        made.apply({"s": [(i % 40, i if i % 7 else None) for i in range(400)]})
        made.apply({"t": [(i, i % 5) for i in range(40)]})
        yield made


@pytest.mark.parametrize("strategy", ["recursive", "first-order"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a.x > 300", "a.x > 296"),
        ("a.x > 296", "a.x > 300"),
        ("a.x > 300", "a.x < 10"),
        ("a.x > 300", "a.x > 300 AND b.y = 2"),
        ("a.x > 300 AND b.y = 2", "a.x > 300"),
        ("a.x > 300 AND b.y < 3", "a.x > 298 AND b.y < 4"),
        ("a.x > 300", "a.x > 300 OR a.x IS NULL"),
        ("a.x + b.y > 300", "a.x + b.y > 290"),
    ],
)
def test_another_filter_writes_what_is_between_both(
    joined: hw.Database, strategy: str, old: str, new: str
) -> None:
    joined.view("v", JOINED.format(old), strategy=strategy)
    joined.view("w", "SELECT y, count(*) AS n, sum(x) AS t FROM v GROUP BY y", strategy=strategy)
    first = joined.version
    before = bag(joined.table("v"))
    joined.view("v", JOINED.format(new), strategy=strategy, replace=True)
    joined.view("v2", JOINED.format(new), strategy="first-order")
    joined.view("w2", "SELECT y, count(*) AS n, sum(x) AS t FROM v2 GROUP BY y")
    for start in (294, 298, 302):
        assert bag(joined.table("v")) == bag(joined.table("v2"))
        assert bag(joined.table("w")) == bag(joined.table("w2"))
        gone = [(i % 40, i if i % 7 else None) for i in range(start, start + 4)]
        joined.apply({"s": hw.Delta([(1, 301), (2, 5)], gone)})
    told = bag(joined.changes_table("v", first, first + 1))
    after = bag(joined.table("v", first + 1))
    after.subtract(before)
    assert told == Counter({r: w for r, w in after.items() if w})
    joined.check()
    joined.close()
    with hw.open(joined.path) as again:
        again.apply({"t": [(1, 2), (7, 3)]})
        assert bag(again.table("w")) == bag(again.table("w2"))


def test_runs_are_taken_over(joined: hw.Database) -> None:
    """A join whose filter is widened has the run that it had, and a small one beside it; compacted, it is its own."""
    joined.view("v", JOINED.format("a.x > 20"))
    (had,) = joined.store.at(joined.version).version.maps[joined.program.views["v"].maps[0].name][1]
    told = joined.can(JOINED.format("a.x > 17"), instead_of="v")
    assert "ADOPT the rows of v" in told and "FILL" not in told
    joined.view("v", JOINED.format("a.x > 17"), replace=True)
    m = joined.program.views["v"].maps[0].name
    refs = joined.store.at(joined.version).version.maps[m][1]
    assert {(r.file, r.offset) for r in refs} > {(had.file, had.offset)}
    assert sum(r.rows for r in refs if r.version == joined.version) == 3
    version = joined.version
    for i in range(60):
        joined.apply({"s": [(i % 40, 1000 + i)]})
    joined.check()
    joined.view("v2", JOINED.format("a.x > 17"))
    assert bag(joined.table("v")) == bag(joined.table("v2"))
    assert len(bag(joined.table("v", version))) > 300


def test_a_branch_more_and_a_branch_less(joined: hw.Database) -> None:
    one, two = JOINED.format("a.x > 300"), JOINED.format("b.y = 1")
    joined.view("v", one)
    joined.view("v", f"{one} UNION ALL {two}", replace=True)
    joined.view("v2", f"{one} UNION ALL {two}")
    assert bag(joined.table("v")) == bag(joined.table("v2"))
    joined.view("v", two, replace=True)
    joined.view("v3", two)
    assert bag(joined.table("v")) == bag(joined.table("v3"))


def written(db: hw.Database) -> dict[str, int]:
    """How many entries the last version has written, by map; maps that it has not written are left out."""
    maps = db.store.at(db.version).version.maps.items()
    rows = {n: sum(r.rows for r in refs if r.version == db.version) for n, (_, refs) in maps}
    return {n: count for n, count in rows.items() if count}


def compared(db: hw.Database, queries: dict[str, str], *changes: Any) -> None:
    """Views are what they are when they are defined anew, through some changes."""
    with hw.open(db.path.parent / f"anew{db.version}") as other:
        for n in db.sources:
            other.source(n, "k BIGINT, x BIGINT" if n == "s" else "k BIGINT, y BIGINT")
            rows = [r for r in db.table(n).to_pylist() for _ in range(r.pop("_w"))]
            other.apply({n: rows})
        for n, query in queries.items():
            other.view(n, query)
        for change in ({}, *changes):
            for each in (db, other) if change else ():
                each.apply(change)
            for n in queries:
                assert bag(db.table(n)) == bag(other.table(n)), (n, change)


GROUPED = "SELECT k, count(*) AS n, {} AS m FROM s GROUP BY k HAVING {}"
ABOVE = {
    "joined": "SELECT q.k, q.m, t.y FROM q JOIN t ON q.k = t.k",
    "itself": "SELECT a.k, b.m FROM q a JOIN q b ON a.m = b.n",
    "sums": "SELECT n, sum(m) AS m, max(k) AS k FROM q GROUP BY n HAVING max(k) > 3",
    "over": "SELECT count(*) AS c, sum(sums.m) AS m FROM sums JOIN t ON sums.k = t.k",
    "distinct": "SELECT count(DISTINCT m) AS d, min(n) AS n FROM q",
    "rows": "SELECT k, m FROM q WHERE m > 100",
}


@pytest.mark.parametrize("function", ["sum(x)", "max(x)", "count(DISTINCT x)"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("count(*) > 9", "count(*) > 9 AND k <> 7"),
        ("k <> 7", "count(*) > 8"),
        ("count(*) > 100", "count(*) > 1"),
        ("count(*) > 1", "count(*) > 100"),
    ],
)
def test_another_having_is_carried(joined: hw.Database, function: str, old: str, new: str) -> None:
    """Nothing is written but above the answer, and there what the rows that differ give."""
    joined.view("q", GROUPED.format(function, old))
    for n, query in ABOVE.items():
        joined.view(n, query)
    stratum = joined.program.strata[str(joined.program.views["q"].stratum)]
    mine = {m.name for m in (stratum.group, *stratum.bags)}
    joined.view("q", GROUPED.format(function, new), replace=True)
    stratum = joined.program.strata[str(joined.program.views["q"].stratum)]
    assert mine == {m.name for m in (stratum.group, *stratum.bags)}
    assert mine.isdisjoint(written(joined))
    assert stratum.answers is None or stratum.answers.name not in written(joined)
    queries = {"q": GROUPED.format(function, new), **ABOVE}
    compared(joined, queries, {"s": [(7, 1), (50, 3)]}, {"t": [(7, 2), (50, 1)]})
    joined.check()


def test_only_what_differs_is_written_above(joined: hw.Database) -> None:
    joined.view("q", GROUPED.format("sum(x)", "k <> 7"))
    joined.view("joined", ABOVE["joined"], strategy="first-order")
    joined.view("q", GROUPED.format("sum(x)", "k <> 7 AND k <> 8"), replace=True)
    assert sorted(written(joined).values()) == [1, 1], "the answer by its key, and the join"
    queries = {"q": GROUPED.format("sum(x)", "k <> 7 AND k <> 8"), "joined": ABOVE["joined"]}
    compared(joined, queries, {"t": [(7, 2), (8, 2), (9, 2)]})


def test_a_wider_filter_touches_its_groups(joined: hw.Database) -> None:
    """The rows between both filters are added to their groups, and what these answer is carried on."""
    base = "SELECT k, sum(x) AS m, count(*) AS n FROM s WHERE x > {} GROUP BY k"
    joined.view("q", base.format(20))
    for n in ("joined", "sums", "over"):
        joined.view(n, ABOVE[n])
    told = joined.can(base.format(17), instead_of="q")
    assert "FILL" not in told and told.count("ADOPT") > 4
    joined.view("q", base.format(17), replace=True)
    assert max(written(joined).values()) <= 8, "three groups, before and after"
    queries = {"q": base.format(17), **{n: ABOVE[n] for n in ("joined", "sums", "over")}}
    compared(joined, queries, {"s": [(18, 1), (50, 30)]}, {"t": [(50, 1)]})


def test_another_computed_column(joined: hw.Database) -> None:
    base = "SELECT k, count(*) AS n, CASE WHEN max(x) > {} THEN sum(x) ELSE 0 END AS m FROM s GROUP BY k"
    joined.view("q", base.format(370))
    for n, query in ABOVE.items():
        joined.view(n, query)
    for least in (375, 100, 399):
        joined.view("q", base.format(least), replace=True)
        compared(joined, {"q": base.format(least), **ABOVE}, {"s": [(least % 40, least)]})


def test_loops_are_filled_and_what_is_above_them_follows(tmp_path: Path) -> None:
    """An edited loop is computed anew; another HAVING over one that stays is carried."""
    reach = (
        "WITH RECURSIVE reach (a, b) AS (SELECT k, x FROM s WHERE x > {} UNION "
        "SELECT r.a, s.x FROM reach r JOIN s ON s.k = r.b) "
        "SELECT a AS k, count(*) AS n, max(b) AS m FROM reach GROUP BY a HAVING count(*) > {}"
    )
    with hw.open(tmp_path / "db") as db:
        db.source("s", "k BIGINT, x BIGINT")
        db.source("t", "k BIGINT, y BIGINT")
        db.apply({"s": [(i % 9, i * i % 11) for i in range(20)], "t": [(i, 1) for i in range(9)]})
        db.view("q", reach.format(2, 1))
        for n in ("joined", "sums", "over"):
            db.view(n, ABOVE[n])
        for edit in ((2, 3), (4, 3), (0, 8), (0, 2)):
            told = db.can(reach.format(*edit), instead_of="q")
            db.view("q", reach.format(*edit), replace=True)
            queries = {
                "q": reach.format(*edit),
                **{n: ABOVE[n] for n in ("joined", "sums", "over")},
            }
            gone = [r for r in db.table("s").to_pylist() if r["k"] == edit[0]][:1]
            for r in gone:
                r.pop("_w")
            change = {"s": hw.Delta([(edit[1], 5), (5, 12)], gone)}
            compared(db, queries, change, {"t": [(edit[0], 7)]})
            assert ("ADOPT" in told) == (edit in ((2, 3), (0, 2))), told


NEAR = (
    "WITH MUTUALLY RECURSIVE v (k BIGINT, v DOUBLE) AS (SELECT s.k, 1D + 0.5D * coalesce(sum(v.v), 0D) AS v"
    " FROM s LEFT JOIN v ON v.k = s.x GROUP BY s.k) SELECT k, v FROM v{}"
)


def test_a_view_that_is_kept_near_stays_so(tmp_path: Path) -> None:
    """A statement says nothing of it, and neither does a program that does not; both leave it as it is."""

    @hw.materialized_view
    def q():
        return NEAR.format("")

    @hw.materialized_view(
        name="q", table_properties={"headwater.mode": "diffuse", "headwater.cut": "0.5"}
    )
    def further():
        return NEAR.format("")

    with hw.open(tmp_path) as db:
        db.source("s", "k BIGINT, x BIGINT")
        db.view("q", NEAR.format(""), mode="diffuse", cut=0.25, rounds=9)
        db.apply({"s": [(1, 2), (2, 1), (3, 1)]})
        first = db.version
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW q AS " + NEAR.format(""))
        db.define([q])
        assert db.version == first
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW q AS " + NEAR.format(" WHERE k < 3"))
        assert (db.catalog.views["q"].mode, db.catalog.views["q"].rounds) == ("diffuse", 9)
        assert len(db.table("q")) == 2
        db.define([further])
        assert (db.catalog.views["q"].cut, len(db.table("q"))) == (0.5, 3)
        with pytest.raises(QueryError, match="has no loop"):
            db.execute("CREATE OR REPLACE MATERIALIZED VIEW q AS " + SUMS)


def test_a_mode_can_be_asked_about(db: hw.Database) -> None:
    assert "exact: every round is kept" in db.can(NEAR.format(""))
    assert "diffuse" in db.can(NEAR.format(""), mode="diffuse", cut=0.1)
    assert "diffuse" in db.can(NEAR.format(""), instead_of="r", mode="diffuse", cut=0.1)
    with pytest.raises(QueryError, match="the query` has no loop"):
        db.can(SUMS, mode="diffuse", cut=0.1)
    with pytest.raises(QueryError, match="`cut` is given"):
        db.can(SUMS, cut=0.1)


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT k, x AS w FROM s", "[REPLACE_COLUMNS] `r` reads `q`, and needs its column `v`"),
        ("SELECT k, 'a' AS v FROM s", "[REPLACE_COLUMNS] `r` reads `q`, and needs its column `v`"),
        ("SELECT n AS k, total AS v FROM r", "`q` would read itself, through `r`"),
        ("SELECT * FROM q", "`q` would read itself"),
        ("SELECT k, rand() AS v FROM s", "NON_DETERMINISTIC"),
        ("SELECT k, v FROM nowhere", "nowhere"),
        ("SELECT k, 1 / (x - 1) AS v FROM s", ""),
    ],
)
def test_what_is_refused_changes_nothing(db: hw.Database, query: str, says: str) -> None:
    first, before = db.version, rows(db, "q")
    with pytest.raises(errors.HeadwaterError) as e:
        db.view("q", query, replace=True)
    assert says in str(e.value)
    assert (db.version, rows(db, "q"), rows(db, "r")) == (first, before, texts((3, 11)))
    db.apply({"s": [(9, 9)]})
    assert rows(db, "r") == texts((4, 20))


def test_a_column_more_is_no_matter_to_who_names_others(db: hw.Database) -> None:
    db.view("q", "SELECT k, sum(x) AS v, count(*) AS n FROM s GROUP BY k", replace=True)
    assert rows(db, "r") == texts((3, 11))
    db.view("all_of_it", "SELECT * FROM q")
    with pytest.raises(QueryError, match=r"REPLACE_COLUMNS\] `all_of_it` reads `q`"):
        db.view(
            "q", "SELECT k, sum(x) AS v, count(*) AS n, 1 AS one FROM s GROUP BY k", replace=True
        )


def test_a_reader_that_cannot_be_kept_is_named_with_the_reason(
    db: hw.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is refused for, and the hint of that, whatever the error; or else the hint to replace both."""
    db.view("asked", "SELECT a.k FROM q a JOIN q b ON a.v = b.v", strategy="recursive")
    db.drop("r")
    first = db.version
    for error, hint in (
        (NotIncremental("ANSWER", "it is so", hint="aggregate in a subquery of FROM first"), ""),
        (
            errors.IllTyped("1 + x", "a number", "a text"),
            "replace both at once: db.replace_views({'q': ..., 'asked': ...})",
        ),
    ):

        def refused(*args: Any, error: errors.HeadwaterError = error) -> None:
            raise error

        monkeypatch.setattr(Compiler, "asked_for", refused)
        with pytest.raises(QueryError) as e:
            db.view("q", SOME, replace=True)
        said = "the view `asked` reads `q`, and cannot be kept over what that becomes: "
        assert (e.value.what, e.value.hint) == (said + error.what, error.hint or hint)
    assert db.version == first


def test_a_reader_that_gets_too_large_is_told_what_to_do(
    db: hw.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.view("asked", "SELECT a.k FROM q a JOIN q b ON a.v = b.v", strategy="recursive")
    monkeypatch.setattr(compiler, "MOST_ASKED_FOR", 1)
    with pytest.raises(QueryError, match=r"`asked` reads `q`, .*: \[TOO_LARGE\]") as e:
        db.view("q", "SELECT k, x AS v FROM s", replace=True)
    assert e.value.hint.startswith("leave the strategy out")


def test_sources_and_names_that_are_none(db: hw.Database) -> None:
    with pytest.raises(errors.NameTaken, match="there is a source or view `s` already"):
        db.replace_views({"s": SUMS})
    with pytest.raises(QueryError, match="is no name"):
        db.replace_views({"a b": SUMS})
    with pytest.raises(errors.NotRetained):
        db.source("gone", "k BIGINT, v BIGINT", retain=False)
        db.apply({"gone": [(1, 1)]})
        db.view("q", "SELECT k, v FROM gone", replace=True)


# --- who reads it -------------------------------------------------------------------------------------------------------


def test_stages_are_told_the_difference(db: hw.Database) -> None:
    seen: list[tuple[int, int, int]] = []

    @db.stage(flow.reads("q", by="k", changes=True), out="k BIGINT", name="taken")
    def taken(key: Any, found: Any) -> Any:
        seen.extend((r.k, r.v, r._w) for r in found)
        return []

    db.run()
    seen.clear()
    db.view("q", SOME, replace=True)
    db.run()
    assert sorted(seen) == [(1, 3, 1), (1, 5, -1), (3, 1, -1)]
    with pytest.raises(QueryError, match=r"REPLACE_COLUMNS\] .*the stage `taken` reads `q`"):
        db.replace_views({"q": "SELECT k FROM s", "r": "SELECT k FROM q"})


def test_copies_follow(db: hw.Database, tmp_path: Path) -> None:
    copy = hw.ParquetCopy(tmp_path / "copy")
    copy.sync(db["q"])
    db.view("q", SOME, replace=True)
    copy.sync(db["q"])
    assert bag(copy.rows()) == bag(db.table("q"))
    assert len(copy._names()) == 2, "by what changed"
    db.replace_views({"q": "SELECT k FROM s", "r": "SELECT count(k) AS n, 1 AS total FROM q"})
    copy.sync(db["q"])
    assert bag(copy.rows()) == bag(db.table("q"))


def test_what_was_told_to_be_final_stays_so(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("visits", "day BIGINT, x BIGINT", closes="day")
        db.view("days", "SELECT day, sum(x) AS v FROM visits GROUP BY day")
        db.apply(
            {"visits": [(1, 1), (1, 2), (2, 5)]}, punctuate={"visits": hw.closed(day=hw.upto(1))}
        )
        assert rows(db, "days") == texts((1, 3), (2, 5))
        told = db.final_table("days").to_pylist()
        assert [(r["day"], r["v"]) for r in told] == [(1, 3)]
        first = db.version
        with pytest.raises(errors.Purged, match="were told to be final"):
            db.view("days", "SELECT day, max(x) AS v FROM visits GROUP BY day", replace=True)
        with pytest.raises(errors.Purged, match="other columns"):
            db.view("days", "SELECT day FROM visits", replace=True)
        assert db.version == first
        db.view(
            "days",
            "SELECT day, sum(x) AS v FROM visits GROUP BY day HAVING sum(x) < 9",
            replace=True,
        )
        assert rows(db, "days") == texts((1, 3), (2, 5))
        assert db.final_table("days").to_pylist() == told
        db.apply({"visits": [(2, 9)]}, punctuate={"visits": hw.closed(day=hw.upto(2))})
        assert rows(db, "days") == texts((1, 3))
        db.close()
        with hw.open(tmp_path / "db") as again:
            assert rows(again, "days") == texts((1, 3))


def test_rows_that_are_gone(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("visits", "day BIGINT, x BIGINT", closes="day", retain="open")
        db.view("total", "SELECT sum(x) AS v FROM visits")
        db.apply({"visits": [(1, 1), (2, 5)]}, punctuate={"visits": hw.closed(day=hw.upto(1))})
        first = db.version
        with pytest.raises(errors.Purged):
            db.view("total", "SELECT max(x) AS v FROM visits", replace=True)
        assert db.version == first and rows(db, "total") == texts((6,))
        db.apply({"visits": [(3, 1)]})
        assert rows(db, "total") == texts((7,))


# --- stopped on the way ---------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The end of a process."""


@pytest.mark.parametrize(
    ("of", "method", "after", "committed"),
    [
        (Editing, "edited", True, False),
        (Backfill, "_fill", False, False),
        (Backfill, "_answer", True, False),
        (Working, "written", False, False),
        (Working, "written", True, False),
        (Log, "append", False, False),
        (Log, "append", True, True),
    ],
)
def test_stopped_anywhere_it_is_the_version_before_or_after(
    db: hw.Database, monkeypatch: Any, of: Any, method: str, after: bool, committed: bool
) -> None:
    first, whole = db.version, getattr(of, method)

    def stops(*args: Any, **named: Any) -> Any:
        if after:
            whole(*args, **named)
        raise Killed

    monkeypatch.setattr(of, method, stops)
    with pytest.raises(Killed):
        db.replace_views({"q": SOME, "r": READER + " WHERE v > 1"})
    monkeypatch.undo()
    for again in (db, hw.open(db.path)):
        again.refresh()
        assert again.version == first + committed
        assert rows(again, "r") == (texts((2, 8)) if committed else texts((3, 11)))
    db.apply({"s": [(2, 3)]})
    assert rows(db, "r") == (texts((2, 11)) if committed else texts((3, 14)))
    db.view("q", SOME, replace=True)
    assert rows(db, "q") == texts((1, 3), (2, 8))


# --- the law ------------------------------------------------------------------------------------------------------------


def played(seed: int, alike: bool = False) -> Played:
    with tempfile.TemporaryDirectory() as folder:
        story = edit_story(seeded(seed, []), alike=alike)
        made = Played(story, Path(folder), reopens=seed % 3 == 0)
        made.play()
    return made


def test_replacing_is_defining_anew() -> None:
    assert played(4).edits > 4


def test_replacing_by_a_query_alike() -> None:
    assert played(3, alike=True).adopted > 2


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("first", range(100, 400, 20))
def test_replacing_is_defining_anew_longer(first: int) -> None:
    """Some of the queries ask Spark."""
    for seed in range(first, first + 20):
        played(seed, alike=seed % 2 == 0)
