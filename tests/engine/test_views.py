"""Views kept up to date, one behaviour each: what a change does to a view, and what is refused.

Tables are drawn as text, `_` is NULL; the last column of a change may be `+n` or `-n`, how often a row comes or goes.
Nothing here needs Spark but what is marked so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.errors import (
    DeletesMissingRows,
    EngineError,
    HeadwaterError,
    InUse,
    NotIncremental,
    NotRetained,
    QueryError,
    UnknownName,
)
from headwater.plan.analysis import maps_of
from spark_session import session

Row = tuple[Any, ...]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        made.policy.execution = "driver"
        made.source("r", "k STRING, x BIGINT")
        made.source("s", "k STRING, y BIGINT")
        yield made


@pytest.fixture(params=["driver", "spark"])
def both(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[hw.Database]:
    """A database on a Spark session, with changes carried through here and on Spark."""
    with hw.open(tmp_path / "db", spark=session()) as made:
        made.policy.execution = request.param
        made.source("r", "k STRING, x BIGINT")
        made.source("s", "k STRING, y BIGINT")
        yield made


def drawn(text: str) -> list[Row]:
    """Rows from text: a line each, cells between bars; whole numbers, `_` for NULL, else strings."""

    def cell(word: str) -> Any:
        return None if word == "_" else int(word) if re.fullmatch(r"[+-]?\d+", word) else word

    lines = [line for line in text.splitlines() if line.strip()]
    return [tuple(cell(c.strip()) for c in line.split("|")) for line in lines]


def rows(db: hw.Database, name: str = "v", version: int | None = None) -> list[Row]:
    """The rows of a view in some order, repeated by their weights, of which none is negative."""
    out: list[Row] = []
    for row in db.table(name, version).to_pylist():
        weight = row.pop("_w")
        assert weight > 0, row
        out += [tuple(row.values())] * weight
    return sorted(out, key=repr)


def shows(db: hw.Database, text: str, name: str = "v") -> None:
    """A view has the rows that are drawn."""
    assert rows(db, name) == sorted(drawn(text), key=repr)


# --- one table ---------------------------------------------------------------------------------------------------


def test_rows_are_filtered_and_repeat(db: hw.Database) -> None:
    db.view("v", "SELECT k, x + 1 AS y FROM r WHERE x > 1")
    db.apply({"r": drawn("a | 1\n a | 2\n a | 2\n b | _")})
    shows(db, "a | 3\n a | 3")
    db.apply({"r": drawn("a | 2 | -1\n c | 5 | +2")})
    shows(db, "a | 3\n c | 6\n c | 6")


def test_groups_come_change_and_go(db: hw.Database) -> None:
    db.view("v", "SELECT k, count(*) AS n, sum(x) AS total FROM r GROUP BY k")
    db.apply({"r": drawn("a | 1\n a | 2\n b | 7")})
    shows(db, "a | 2 | 3\n b | 1 | 7")
    db.apply({"r": drawn("a | 1 | -1\n b | 7 | -1\n c | 4 | +1")})
    shows(db, "a | 1 | 2\n c | 1 | 4")


def test_null_is_a_group(db: hw.Database) -> None:
    db.view("v", "SELECT k, count(*) AS n FROM r GROUP BY k")
    db.apply({"r": drawn("_ | 1\n _ | 2\n a | 3")})
    shows(db, "_ | 2\n a | 1")
    db.apply({"r": drawn("_ | 1 | -1\n _ | 2 | -1")})
    shows(db, "a | 1")


def test_sums_ignore_null_and_are_null_of_nothing_else(db: hw.Database) -> None:
    db.view("v", "SELECT k, sum(x) AS s, count(x) AS n, count(*) AS m FROM r GROUP BY k")
    db.apply({"r": drawn("a | _\n a | 5\n b | _")})
    shows(db, "a | 5 | 1 | 2\n b | _ | 0 | 1")
    db.apply({"r": drawn("a | 5 | -1")})
    shows(db, "a | _ | 0 | 1\n b | _ | 0 | 1")


def test_the_next_extreme_follows_one_that_is_deleted(db: hw.Database) -> None:
    db.view("v", "SELECT k, min(x) AS low, max(x) AS high FROM r GROUP BY k")
    db.apply({"r": drawn("a | 1\n a | 5\n a | 5\n a | 9\n b | _")})
    shows(db, "a | 1 | 9\n b | _ | _")
    db.apply({"r": drawn("a | 9 | -1\n a | 1 | -1\n a | 5 | -1")})
    shows(db, "a | 5 | 5\n b | _ | _")
    db.apply({"r": drawn("a | 5 | -1\n a | 7 | +1")})
    shows(db, "a | 7 | 7\n b | _ | _")


def test_different_values_are_counted_and_added_once(db: hw.Database) -> None:
    query = "SELECT k, count(DISTINCT x) AS n, sum(DISTINCT x) AS s FROM r GROUP BY k"
    db.view("v", query)
    db.apply({"r": drawn("a | 3\n a | 3\n a | 4\n a | _")})
    shows(db, "a | 2 | 7")
    db.apply({"r": drawn("a | 3 | -1")})
    shows(db, "a | 2 | 7")
    db.apply({"r": drawn("a | 3 | -1")})
    shows(db, "a | 1 | 4")


def test_an_aggregate_without_groups_has_one_row_always(db: hw.Database) -> None:
    db.view("v", "SELECT count(*) AS n, sum(x) AS s FROM r")
    shows(db, "0 | _")
    db.apply({"r": drawn("a | 2")})
    shows(db, "1 | 2")
    db.apply({"r": drawn("a | 2 | -1")})
    shows(db, "0 | _")


def test_an_extreme_without_groups_has_one_row_always(db: hw.Database) -> None:
    """The answer over nothing was taken back without having been written (found by the fuzzer)."""
    db.view("v", "SELECT max(x) AS m FROM r")
    for change, expected in (("a | 2 | +1", "2"), ("a | 2 | -1", "_"), ("a | 3 | +1", "3")):
        before = rows(db)
        db.apply({"r": drawn(change)})
        shows(db, expected)
        changes = db.changes_table("v", db.version - 1).to_pylist()
        gone = [(c["m"],) for c in changes if c["_w"] < 0]
        assert gone == before


def test_having(db: hw.Database) -> None:
    db.view("v", "SELECT k, sum(x) AS s FROM r GROUP BY k HAVING count(*) > 1")
    db.apply({"r": drawn("a | 1\n b | 1\n b | 2")})
    shows(db, "b | 3")
    db.apply({"r": drawn("a | 5 | +1\n b | 2 | -1")})
    shows(db, "a | 6")


def test_filtered_aggregates(db: hw.Database) -> None:
    db.view("v", "SELECT k, count(*) FILTER (WHERE x > 1) AS n, max(x) FILTER (WHERE x < 5) AS m FROM r GROUP BY k")  # fmt: skip
    db.apply({"r": drawn("a | 1\n a | 3\n a | 8")})
    shows(db, "a | 2 | 3")
    db.apply({"r": drawn("a | 3 | -1")})
    shows(db, "a | 1 | 1")


def test_distinct(db: hw.Database) -> None:
    db.view("v", "SELECT DISTINCT k FROM r")
    db.apply({"r": drawn("a | 1\n a | 2\n _ | 3")})
    shows(db, "a\n _")
    db.apply({"r": drawn("a | 1 | -1")})
    shows(db, "a\n _")
    assert db.changes_table("v", db.version - 1).num_rows == 0
    db.apply({"r": drawn("a | 2 | -1")})
    shows(db, "_")


def test_union_all(db: hw.Database) -> None:
    db.view("v", "SELECT k, x FROM r UNION ALL SELECT k, y FROM s")
    db.apply({"r": drawn("a | 1"), "s": drawn("a | 1\n b | 2")})
    shows(db, "a | 1\n a | 1\n b | 2")
    db.apply({"s": drawn("a | 1 | -1")})
    shows(db, "a | 1\n b | 2")


@pytest.mark.parametrize("word", ["EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"])
def test_except_and_intersect(db: hw.Database, word: str) -> None:
    """Counts of both sides decide; those of `a` cancel, and its key must not be taken for absent."""
    db.view("v", f"SELECT k FROM r {word} SELECT k FROM s")
    db.apply({"r": drawn("a | 1\n a | 2\n b | 1\n _ | 1"), "s": drawn("a | 1\n a | 2\n c | 1")})
    expected = {
        "EXCEPT": "b\n _",
        "EXCEPT ALL": "b\n _",
        "INTERSECT": "a",
        "INTERSECT ALL": "a\n a",
    }
    shows(db, expected[word])
    db.apply({"s": drawn("a | 1 | -1\n _ | 3 | +1\n c | 1 | -1"), "r": drawn("c | 1 | +1")})
    expected = {
        "EXCEPT": "b\n c",
        "EXCEPT ALL": "a\n b\n c",
        "INTERSECT": "a\n _",
        "INTERSECT ALL": "a\n _",
    }
    shows(db, expected[word])
    db.apply({"r": drawn("a | 1 | -1\n a | 2 | -1\n b | 1 | -1\n _ | 1 | -1\n c | 1 | -1")})
    shows(db, "")
    db.apply({"r": drawn("_ | 1\n a | 1\n b | 1")})
    shows(db, {"E": "b", "I": "a\n _"}[word[0]])


def test_a_column_that_is_null_in_one_branch_of_a_union(db: hw.Database) -> None:
    """Its share of an aggregate is 0, which was no bag to the compiler (found by the fuzzer)."""
    union = "(SELECT k, x FROM r UNION ALL SELECT k, NULL AS x FROM s) t"
    db.view("v", f"SELECT k, max(x) AS m, sum(x) AS s, count(DISTINCT x) AS n, count(*) AS c FROM {union} GROUP BY k")  # fmt: skip
    db.apply({"r": drawn("a | 1\n a | 4"), "s": drawn("a | 9\n b | 9")})
    shows(db, "a | 4 | 5 | 2 | 3\n b | _ | _ | 0 | 1")


def test_aggregates_of_null(db: hw.Database) -> None:
    db.view("v", "SELECT k, sum(CAST(NULL AS BIGINT)) AS s, count(NULL) AS n FROM r GROUP BY k")
    db.apply({"r": drawn("a | 1")})
    shows(db, "a | _ | 0")


# --- joins ---------------------------------------------------------------------------------------------------------


def test_both_sides_of_a_join_change_at_once(db: hw.Database) -> None:
    db.view("v", "SELECT r.k, x, y FROM r JOIN s ON r.k = s.k")
    db.apply({"r": drawn("a | 1\n b | 2"), "s": drawn("a | 7\n a | 8")})
    shows(db, "a | 1 | 7\n a | 1 | 8")
    db.apply({"r": drawn("a | 1 | -1\n a | 3 | +1"), "s": drawn("a | 7 | -1\n b | 9 | +2")})
    shows(db, "a | 3 | 8\n b | 2 | 9\n b | 2 | 9")


@pytest.mark.parametrize("several", ["at once", "in sequence"])
@pytest.mark.parametrize("strategy", ["recursive", "first-order"])
def test_a_self_join(db: hw.Database, strategy: str, several: str) -> None:
    db.policy.several = several
    db.view("v", "SELECT a.x AS x, b.x AS y FROM r a JOIN r b ON a.k = b.k WHERE a.x < b.x", strategy=strategy)  # fmt: skip
    db.apply({"r": drawn("a | 1\n a | 2\n b | 3")})
    shows(db, "1 | 2")
    db.apply({"r": drawn("a | 1 | -1\n a | 3 | +1\n a | 4 | +1")})
    shows(db, "2 | 3\n 2 | 4\n 3 | 4")


def test_a_join_without_equality(db: hw.Database) -> None:
    db.view("v", "SELECT x, y FROM r JOIN s ON x < y")
    db.apply({"r": drawn("a | 1\n a | 5\n a | _"), "s": drawn("b | 3\n b | 6")})
    shows(db, "1 | 3\n 1 | 6\n 5 | 6")
    db.apply({"s": drawn("b | 6 | -1"), "r": drawn("a | 2 | +1")})
    shows(db, "1 | 3\n 2 | 3")


def test_null_keys_match_nothing_and_null_safe_ones_each_other(db: hw.Database) -> None:
    db.view("v", "SELECT x, y FROM r JOIN s ON r.k = s.k")
    db.view("w", "SELECT x, y FROM r JOIN s ON r.k <=> s.k")
    db.apply({"r": drawn("_ | 1\n a | 2"), "s": drawn("_ | 3\n a | 4")})
    shows(db, "2 | 4", "v")
    shows(db, "1 | 3\n 2 | 4", "w")


def test_keys_of_different_integer_types(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("small", "a SMALLINT")
        db.source("big", "a BIGINT")
        db.view("v", "SELECT small.a AS a, big.a AS b FROM small JOIN big ON small.a = big.a")
        db.apply({"small": [(1,), (2,)], "big": [(1,), (1 << 40,)]})
        assert rows(db) == [(1, 1)]


def test_a_sum_over_a_join_of_three(db: hw.Database) -> None:
    db.source("t", "y BIGINT, z BIGINT")
    db.view("v", "SELECT r.k, sum(x * z) AS total FROM r JOIN s USING (k) JOIN t USING (y) GROUP BY r.k")  # fmt: skip
    db.apply({"r": drawn("a | 2\n a | 3"), "s": drawn("a | 1\n a | 1"), "t": [(1, 10), (1, 1)]})
    shows(db, "a | 110")
    db.apply({"r": drawn("a | 3 | -1"), "s": drawn("a | 1 | -1"), "t": [(1, 1, -1)]})
    shows(db, "a | 20")


def test_views_over_views(db: hw.Database) -> None:
    db.view("totals", "SELECT k, sum(x) AS total FROM r GROUP BY k")
    db.view("sizes", "SELECT total, count(*) AS n FROM totals GROUP BY total")
    db.view("v", "SELECT s.k, z.n FROM s JOIN sizes z ON s.y = z.total")
    db.apply({"r": drawn("a | 1\n b | 1\n c | 2"), "s": drawn("p | 1\n q | 3")})
    shows(db, "p | 2")
    db.apply({"r": drawn("b | 2 | +1")})
    shows(db, "p | 1\n q | 1")


def test_a_static_source(db: hw.Database) -> None:
    db.source("names", "k STRING, name STRING", static=True)
    db.apply({"names": [("a", "Ada"), ("b", "Bob")]})
    db.view("v", "SELECT name, sum(x) AS s FROM r JOIN names USING (k) GROUP BY name")
    db.apply({"r": drawn("a | 1\n a | 2\n c | 3")})
    shows(db, "Ada | 3")
    with pytest.raises(HeadwaterError, match="static"):
        db.apply({"names": [("c", "Cid")]})
    assert not any(m.note != "the rows of v" and "Δnames" in m.text for m in db.program.maps.values())  # fmt: skip


def test_static_sources_that_are_joined(db: hw.Database) -> None:
    """Nothing changes the maps that filling their join looks up, so it was empty (found by TPC-H's nation and region)."""
    db.source("names", "k STRING, name STRING, place BIGINT", static=True)
    db.source("places", "place BIGINT, town STRING", static=True)
    db.apply({"names": [("a", "Ada", 1), ("b", "Bob", 2)], "places": [(1, "Rome"), (2, "Oslo")]})
    joined = "names JOIN places USING (place)"
    db.view("towns", f"SELECT town, sum(x) AS s FROM r JOIN {joined} USING (k) GROUP BY town")
    db.view("all_towns", f"SELECT town FROM {joined} UNION ALL SELECT k AS town FROM s")
    db.apply({"r": drawn("a | 1\n a | 2\n b | 3\n c | 4"), "s": drawn("p | 1")})
    shows(db, "Rome | 3\n Oslo | 3", "towns")
    shows(db, "Rome\n Oslo\n p", "all_towns")


# --- views that come later -------------------------------------------------------------------------------------------


def test_a_late_view_is_filled_and_shares_maps(db: hw.Database) -> None:
    query = "SELECT r.k, count(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k"
    db.view("early", query, strategy="recursive")
    db.apply({"r": drawn("a | 2"), "s": drawn("a | 3\n a | 4\n b | 1")})
    before = set(db.program.maps)
    db.view("v", query.replace("r.k,", "r.k, max(y) AS m,"), strategy="recursive")
    shows(db, "a | 4 | 2")
    kept = {m.name for m in maps_of(db.program, db.program.views["v"])}
    assert kept & before, "nothing that was kept is used again"
    assert kept - before, "nothing had to be filled"
    db.apply({"r": drawn("a | 5 | +1\n b | 5 | +1"), "s": drawn("a | 4 | -1")})
    shows(db, "a | 3 | 2\n b | 1 | 1")
    shows(db, "a | 2\n b | 1", "early")


def test_a_late_view_with_extremes_over_shared_groups(db: hw.Database) -> None:
    """Its group was there and touched by nothing, so that its answers stayed empty (found by reading)."""
    db.view("early", "SELECT k, max(x) AS m FROM r GROUP BY k")
    db.apply({"r": drawn("a | 1\n a | 5\n b | 2")})
    db.view("v", "SELECT k, max(x) + 1 AS m FROM r GROUP BY k")
    shows(db, "a | 6\n b | 3")


def test_a_late_view_over_a_source_that_was_emptied(db: hw.Database) -> None:
    """Runs that cancel have no rows to read, which was no table at all (found by the fuzzer)."""
    db.apply({"r": drawn("a | 1")})
    db.apply({"r": drawn("a | 1 | -1")})
    db.view("v", "SELECT k, sum(x) AS s FROM r GROUP BY k")
    shows(db, "")
    db.apply({"r": drawn("a | 1")})
    shows(db, "a | 1")


def test_dropping(db: hw.Database) -> None:
    db.view("a", "SELECT k, sum(x) AS s FROM r GROUP BY k")
    db.view("b", "SELECT count(*) AS n FROM a")
    with pytest.raises(InUse, match="`b`"):
        db.drop("a")
    with pytest.raises(InUse, match="`a`"):
        db.drop("r")
    db.apply({"r": drawn("a | 1")})
    old = db.version
    db.drop("b")
    db.drop("a")
    assert set(db.store.at().version.maps) == {m for m in db.program.maps}
    with pytest.raises(UnknownName):
        db.table("b")
    assert rows(db, "b", old) == [(1,)]
    db.view("b", "SELECT max(x) AS n FROM r")
    shows(db, "1", "b")


def test_what_a_query_names_but_does_not_need_stays(db: hw.Database) -> None:
    """The text of a view is what it is recomputed from (found by the fuzzer)."""
    db.view("a", "SELECT k FROM r")
    db.view("v", "WITH unused AS (SELECT k FROM a) SELECT k FROM s")
    with pytest.raises(InUse, match="`v`"):
        db.drop("a")
    db.drop("v")
    db.drop("a")


# --- versions and changes --------------------------------------------------------------------------------------------


def test_older_versions_stay(db: hw.Database) -> None:
    db.view("v", "SELECT k, sum(x) AS s FROM r GROUP BY k")
    versions = [db.apply({"r": [("a", i)]}).version for i in (1, 2, 3)]
    assert [rows(db, "v", n) for n in versions] == [[("a", 1)], [("a", 3)], [("a", 6)]]


def test_changes_say_what_came_and_went(db: hw.Database) -> None:
    db.view("v", "SELECT k, sum(x) AS s FROM r GROUP BY k")
    first = db.apply({"r": drawn("a | 1\n b | 2")}).version
    commit = db.apply({"r": drawn("a | 2 | +1\n b | 2 | -1")})
    changes = db.changes_table("v", first).to_pylist()
    found = sorted((c["k"], c["s"], c["_w"], c["_version"]) for c in changes)
    assert found == [("a", 1, -1, commit.version), ("a", 3, 1, commit.version), ("b", 2, -1, commit.version)]  # fmt: skip
    assert commit.changed == {"v": 3}


def test_a_commit_says_what_was_done(db: hw.Database) -> None:
    before = db.version
    commit = db.apply({"r": drawn("a | 1\n b | 2"), "s": []})
    assert (commit.version, commit.rows, commit.where) == (before + 1, {"r": 2, "s": 0}, "driver")
    assert commit.jobs == 0
    assert commit.bytes > 0
    assert not commit.repeated


def test_an_id_is_applied_once(db: hw.Database) -> None:
    db.view("v", "SELECT sum(x) AS s FROM r")
    first = db.apply({"r": drawn("a | 1")}, id="monday")
    again = db.apply({"r": drawn("a | 1")}, id="monday")
    assert (again.version, again.repeated) == (first.version, True)
    assert db.version == first.version
    shows(db, "1")
    db.apply({"r": drawn("a | 1")}, id="tuesday")
    shows(db, "2")


def test_rows_that_come_and_go_in_one_change(db: hw.Database) -> None:
    db.view("v", "SELECT k, max(x) AS m, count(DISTINCT x) AS n FROM r GROUP BY k")
    db.apply({"r": drawn("a | 1 | +1\n a | 1 | -1\n b | 2 | +1")})
    shows(db, "b | 2 | 1")


def test_deletes_of_rows_that_are_not_there(db: hw.Database) -> None:
    db.view("v", "SELECT k, sum(x) AS s FROM r GROUP BY k")
    before = db.apply({"r": drawn("a | 1")}).version
    with pytest.raises(DeletesMissingRows, match="k='b'"):
        db.apply({"r": drawn("a | 1 | -1\n b | 2 | -1")})
    assert db.version == before
    shows(db, "a | 1")


def test_deletes_that_are_ignored_where_a_source_is_not_strict(db: hw.Database) -> None:
    db.source("loose", "k STRING, x BIGINT", strict=False)
    db.view("v", "SELECT k, sum(x) AS s FROM loose GROUP BY k")
    db.apply({"loose": drawn("a | 1\n a | 1")})
    commit = db.apply({"loose": drawn("a | 1 | -3\n b | 2 | -1")})
    assert commit.ignored == {"loose": 2}
    shows(db, "")


def test_a_source_that_keeps_no_rows(db: hw.Database) -> None:
    db.source("stream", "k STRING, x BIGINT", retain=False)
    db.view("v", "SELECT k, sum(x) AS s FROM stream GROUP BY k")
    db.apply({"stream": drawn("a | 1")})
    db.apply({"stream": drawn("a | 1 | -1\n a | 3 | +1")})
    shows(db, "a | 3")
    with pytest.raises(NotRetained, match="stream"):
        db.view("late", "SELECT k, max(x) AS m FROM stream GROUP BY k")
    with pytest.raises(NotRetained, match="stream"):
        db.table("stream")
    assert db.views == ["v"]
    db.apply({"stream": drawn("b | 3")})
    shows(db, "a | 3\n b | 3")


# --- numbers -----------------------------------------------------------------------------------------------------------


def test_what_is_not_finite_comes_out_again(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("r", "x DOUBLE")
        db.view("v", "SELECT sum(x) AS s, max(x) AS m, count(*) AS n FROM r")
        db.apply({"r": [(0.5,), (1.5,)]})
        for value, total, most in (
            (math.inf, math.inf, math.inf),
            (-math.inf, -math.inf, 1.5),
            (math.nan, math.nan, math.nan),
        ):
            db.apply({"r": [(value,)]})
            assert repr(rows(db)) == repr([(total, most, 3)])
            db.apply({"r": hw.Delta(deletes=[(value,)])})
            assert rows(db) == [(2.0, 1.5, 2)]
        db.apply({"r": [(math.inf,), (-math.inf,)]})
        assert math.isnan(rows(db)[0][0])


def test_a_double_that_is_summed_and_taken_back_leaves_nothing(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("r", "k BIGINT, x DOUBLE")
        db.view("v", "SELECT k, sum(x) AS s FROM r GROUP BY k")
        db.apply({"r": [(1, 0.1), (1, 0.2), (1, 0.3)]})
        db.apply({"r": hw.Delta(deletes=[(1, 0.3), (1, 0.1), (1, 0.2)])})
        assert rows(db) == []
        db.apply({"r": [(1, 0.1)]})
        assert rows(db) == [(1, 0.1)]


def test_zero_has_no_sign(tmp_path: Path) -> None:
    """-0.0 and 0.0 are one value: of a group, of a join, of a set."""
    with hw.open(tmp_path / "db") as db:
        db.source("r", "x DOUBLE")
        db.view("v", "SELECT x, count(*) AS n FROM r GROUP BY x")
        db.view("w", "SELECT count(*) AS n FROM r a JOIN r b ON a.x = b.x")
        db.view("u", "SELECT count(DISTINCT x) AS n FROM r")
        db.apply({"r": [(0.0,), (-0.0,)]})
        assert rows(db, "v") == [(0.0, 2)]
        assert rows(db, "w") == [(4,)]
        assert rows(db, "u") == [(1,)]
        db.apply({"r": hw.Delta(deletes=[(0.0,), (-0.0,)])})
        assert rows(db, "v") == []


def test_decimals_are_exact(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db") as db:
        db.source("r", "k BIGINT, x DECIMAL(10,2)")
        db.view("v", "SELECT k, sum(x) AS s, avg(x) AS m, sum(x * k) AS p FROM r GROUP BY k")
        db.apply({"r": [(3, Decimal("0.10"))] * 3 + [(3, Decimal("99999999.99"))]})
        total = Decimal("100000000.29")
        assert rows(db) == [(3, total, Decimal("25000000.072500"), 3 * total)]
        db.apply({"r": hw.Delta(deletes=[(3, Decimal("99999999.99"))])})
        assert rows(db) == [(3, Decimal("0.30"), Decimal("0.100000"), Decimal("0.90"))]


def test_an_overflow_leaves_the_version_as_it_was(db: hw.Database) -> None:
    db.view("v", "SELECT k, sum(x) AS s FROM r GROUP BY k")
    before = db.apply({"r": [("a", 2**62)]}).version
    with pytest.raises(EngineError, match="a sum does not fit into int64"):
        db.apply({"r": [("a", 2**62)]})
    assert db.version == before
    assert rows(db) == [("a", 2**62)]
    db.apply({"r": [("a", 5)]})
    assert rows(db) == [("a", 2**62 + 5)]


# --- what is refused -----------------------------------------------------------------------------------------------------

REFUSED = {
    "random": "SELECT k, rand() AS r FROM r",
    "time of day": "SELECT k FROM r WHERE current_date() > DATE'2024-01-01'",
    "any row": "SELECT k, first(x) AS f FROM r GROUP BY k",
    "approximate": "SELECT approx_count_distinct(x) AS n FROM r",
    "sample": "SELECT k FROM r TABLESAMPLE (10 PERCENT)",
    "regression of different values": "SELECT k, regr_slope(DISTINCT x, k) AS s FROM r GROUP BY k",
    "window of different values": "SELECT k, count(DISTINCT x) OVER (PARTITION BY k) AS n FROM r",
    "unknown column": "SELECT nothing FROM r",
}


@pytest.mark.parametrize("query", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_maintained_is_refused_and_leaves_nothing(db: hw.Database, query: str) -> None:
    db.view("before", "SELECT k, sum(x) AS s FROM r GROUP BY k")
    version, kept = db.version, set(db.store.at().version.maps)
    with pytest.raises(QueryError) as refusal:
        db.view("v", query)
    if isinstance(refusal.value, NotIncremental):
        assert re.match(r"\[[A-Z_]+\] [\w`]", str(refusal.value))
    assert (db.version, db.views, set(db.store.at().version.maps)) == (version, ["before"], kept)
    db.view("v", "SELECT k, max(x) AS m FROM r GROUP BY k")
    db.apply({"r": drawn("a | 1")})
    shows(db, "a | 1")


# --- queries that are not SQL --------------------------------------------------------------------------------------------


@hw.query
def pairs(r: Any, s: Any) -> Any:
    return [{"k": a.k, "both": a.x + b.y} for a in r for b in s if a.k == b.k]


def test_a_comprehension(db: hw.Database) -> None:
    db.view("v", pairs)
    db.apply({"r": drawn("a | 1"), "s": drawn("a | 10\n b | 20")})
    shows(db, "a | 11")
    db.apply({"r": drawn("b | 2 | +1"), "s": drawn("a | 10 | -1")})
    shows(db, "b | 22")


@hw.function("BIGINT")
def twofold(x: int) -> int:
    return 2 * x


# --- with Spark ------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_a_python_function_before_and_after_a_lookup(both: hw.Database) -> None:
    both.view("v", "SELECT r.k, sum(twofold(x + y)) AS t FROM r JOIN s ON twofold(x) = y GROUP BY r.k")  # fmt: skip
    both.apply({"r": drawn("a | 1\n b | 2"), "s": drawn("p | 2\n q | 4")})
    shows(both, "a | 6\n b | 12")
    both.apply({"s": drawn("p | 2 | -1\n p | 4 | +1")})
    shows(both, "b | 24")
    both.verify()


@pytest.mark.spark
def test_expressions_that_only_spark_evaluates(both: hw.Database) -> None:
    both.source("days", "k STRING, day DATE")
    query = """SELECT upper(r.k) AS k, last_day(max(d.day)) AS ends, count(*) AS n
               FROM r JOIN days d ON upper(r.k) = upper(d.k)
               WHERE last_day(d.day) > d.day GROUP BY upper(r.k)"""
    both.view("v", query)
    day, last = date(2024, 1, 29), date(2024, 1, 31)
    both.apply({"r": drawn("a | 1\n A | 2"), "days": [("a", day), ("A", last)]})
    assert rows(both) == [("A", last, 2)]
    both.apply({"r": drawn("a | 1 | -1"), "days": [("A", date(2024, 2, 5))]})
    assert rows(both) == [("A", date(2024, 2, 29), 2)]
    both.verify()


@pytest.mark.spark
def test_a_view_over_an_answer_that_only_spark_evaluates(both: hw.Database) -> None:
    """Spark read nothing of a table that began with two empty pieces (found by the fuzzer)."""
    both.view("w", "SELECT k, upper(k) AS big, max(x) AS m FROM r GROUP BY k")
    both.view("v", "SELECT big, sum(m) AS t FROM w GROUP BY big")
    both.apply({"r": drawn("a | 1")})
    shows(both, "A | 1")
    both.apply({"r": drawn("A | 5\n a | 7")})
    shows(both, "A | 12")


@pytest.mark.spark
def test_an_error_of_spark_commits_nothing(both: hw.Database) -> None:
    both.view("v", "SELECT k FROM r WHERE 10 / x > 1")
    before = both.apply({"r": drawn("a | 2")}).version
    with pytest.raises(EngineError, match=r"(?i)divi"):
        both.apply({"r": drawn("b | 0\n c | 1")})
    assert both.version == before
    shows(both, "a")
    both.apply({"r": drawn("c | 1")})
    shows(both, "a\n c")


@pytest.mark.spark
def test_overflow_commits_nothing(both: hw.Database) -> None:
    both.view("v", "SELECT k, sum(x) AS s FROM r GROUP BY k")
    before = both.apply({"r": [("a", 2**62)]}).version
    with pytest.raises(EngineError, match=r"does not fit into int64"):
        both.apply({"r": [("a", 2**62)]})
    assert both.version == before
    assert rows(both) == [("a", 2**62)]


@pytest.mark.spark
def test_changes_are_accepted_again(tmp_path: Path) -> None:
    """A source that is given the changes of a view, in both forms, is that view."""
    with hw.open(tmp_path / "db", spark=session()) as db:
        db.source("r", "k STRING, x BIGINT")
        db.view("v", "SELECT k, sum(x) AS s FROM r GROUP BY k")
        for name in ("weights", "cdc"):
            db.source(name, "k STRING, s BIGINT")
        since = db.version
        for change in ("a | 1\n b | 2", "a | 3", "b | 2 | -1\n b | 4 | +1"):
            db.apply({"r": drawn(change)})
            frames = {f: db["v"].changes(since=since, format=f) for f in ("weights", "cdc")}
            since = db.version
            db.apply({name: frame for name, frame in frames.items()})
            since = db.version
        expected = rows(db)
        assert expected == [("a", 4), ("b", 4)]
        assert rows(db, "weights") == rows(db, "cdc") == expected


@pytest.mark.spark
def test_the_baseline_recomputes(both: hw.Database) -> None:
    query = "SELECT r.k, count(*) AS n FROM r LEFT JOIN s ON r.k = s.k GROUP BY r.k"
    both.view("v", query, strategy="recompute")
    both.apply({"r": drawn("a | 1\n b | 2"), "s": drawn("a | 1\n a | 2")})
    shows(both, "a | 2\n b | 1")
    both.apply({"s": drawn("a | 1 | -1")})
    shows(both, "a | 1\n b | 1")
    changes = both.changes_table("v", both.version - 1).to_pylist()
    assert sorted((c["k"], c["n"], c["_w"]) for c in changes) == [("a", 1, 1), ("a", 2, -1)]


@pytest.mark.spark
def test_snapshots_repeat_rows(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db", spark=session()) as db:
        db.source("r", "k STRING, x BIGINT")
        view = db.view("v", "SELECT k FROM r")
        db.apply({"r": drawn("a | 1\n a | 2\n b | 3")})
        first = db.version
        db.apply({"r": drawn("a | 2 | -1")})
        assert sorted(r.k for r in view.snapshot().collect()) == ["a", "b"]
        assert sorted(r.k for r in view.snapshot(version=first).collect()) == ["a", "a", "b"]


@pytest.mark.spark
def test_a_large_change_goes_through_spark(tmp_path: Path) -> None:
    """The threshold decides, and the answer is the same on both sides of it."""
    with hw.open(tmp_path / "db", spark=session()) as db:
        db.source("r", "k BIGINT, x BIGINT")
        db.view("v", "SELECT k, sum(x) AS s, max(x) AS m, count(DISTINCT x) AS d FROM r GROUP BY k")
        db.policy.small = 100
        some = pa.table({"k": [i % 7 for i in range(500)], "x": [i % 50 for i in range(500)]})
        assert db.apply({"r": some}).where == "spark"
        assert db.apply({"r": some.slice(0, 50)}).where == "driver"
        gone = hw.Delta(deletes=some.slice(100))
        assert db.apply({"r": gone}).where == "spark"
        left = [*zip(*some.slice(0, 100).to_pydict().values(), strict=True)]
        left += left[:50]
        expected = []
        for k in range(7):
            xs = [x for key, x in left if key == k]
            expected.append((k, sum(xs), max(xs), len(set(xs))))
        assert rows(db) == sorted(expected, key=repr)
        db.verify()
