"""Many views over one source: what an increment does is counted, and depends on the maps that it touches alone."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine.here import answers
from headwater.engine.here.statements import run
from headwater.plan.conditions import Condition, condition
from headwater.plan.program import Filter
from headwater.plan.routes import routes
from headwater.state.arrangement import Arrangement
from headwater.state.files import LocalFiles
from headwater.state.run import Runs

SCHEMA = "k BIGINT, g BIGINT, v BIGINT"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        made.source("r", SCHEMA)
        yield made


def rows(*given: tuple[int | None, int | None, int | None]) -> pa.Table:
    columns = zip(*given, strict=True)
    return pa.table({n: pa.array(c, pa.int64()) for n, c in zip("kgv", columns, strict=True)})


def looked_at(db: hw.Database, change: pa.Table) -> dict[str, Any]:
    """What an increment does: statements run, maps merged, files written, bytes of the record, maps that it names."""
    done: dict[str, Any] = {"statements": 0, "merged": set(), "files": 0, "record": 0}
    merge, write, put = Arrangement.merge_summed, LocalFiles.write, LocalFiles.put_if_absent

    def ran(*args: Any, **more: Any) -> pa.Table:
        done["statements"] += 1
        return run(*args, **more)

    def merged(self: Arrangement, *args: Any, **more: Any) -> Any:
        done["merged"].add(self.spec.name)
        return merge(self, *args, **more)

    def written(self: LocalFiles, path: str, chunks: Any) -> int:
        done["files"] += 1
        return write(self, path, chunks)

    def recorded(self: LocalFiles, path: str, data: bytes) -> bool:
        done["record"] += len(data)
        return put(self, path, data)

    with (
        patch("headwater.engine.here.threads.run", ran),
        patch.object(Arrangement, "merge_summed", merged),
        patch.object(LocalFiles, "write", written),
        patch.object(LocalFiles, "put_if_absent", recorded),
        patch("headwater.state.store.StoreWriter.tidy", lambda self: None),
    ):
        db.apply({"r": change})
    return done


def defined(db: hw.Database, views: int) -> None:
    """Views of three maps each, every one of another value of g."""
    for i in range(views):
        db.view(
            f"w{i}",
            f"SELECT k, sum(v) AS t, min(v) AS low FROM r WHERE g = {i} AND v < 9 GROUP BY k",
        )


def test_one_of_many_views_costs_what_one_costs(tmp_path: Path) -> None:
    """An increment that one of a hundred views is concerned with does what it does where there is no other view."""
    found = []
    for views in (1, 100):
        with hw.open(tmp_path / f"db{views}") as db:
            db.source("r", SCHEMA)
            defined(db, views)
            db.apply({"r": rows((1, 0, 3), (2, 0, 4))})  # so that what is told once is told
            done = looked_at(db, rows((1, 0, 2), (2, 0, 8)))
            assert db.table("w0").select(["k", "t", "low"]).sort_by("k").to_pydict() == {
                "k": [1, 2],
                "t": [5, 12],
                "low": [2, 4],
            }
            found.append(done)
    alone, among = found
    assert among["statements"] == alone["statements"] == 3  # the rows, the group, the bag
    assert len(among["merged"]) == len(alone["merged"]) == 4  # and the answers
    assert among["files"] == alone["files"] == 1
    assert abs(among["record"] - alone["record"]) < 64  # numbers have more digits or fewer


def test_views_that_no_row_concerns_are_not_run(db: hw.Database) -> None:
    """Rows that pass no filter touch the source's own map alone; NULL passes none."""
    defined(db, 20)
    done = looked_at(db, rows((1, 77, 3), (1, None, 3)))
    assert done["statements"] == 1 and len(done["merged"]) == 1
    done = looked_at(db, rows((1, 5, 9), (1, 5, None), (1, None, 1)))  # each passes one of two
    assert len(done["merged"]) == 1
    assert all(db.table(f"w{i}").num_rows == 0 for i in range(20))


@pytest.mark.parametrize(
    ("where", "passing"),
    [
        ("g = 3", [3]),
        ("3 = g", [3]),
        ("g < 3", [1, 2]),
        ("3 < g", [4, 5]),
        ("g <= 3", [1, 2, 3]),
        ("3 >= g", [1, 2, 3]),
        ("g > 3", [4, 5]),
        ("g >= 3", [3, 4, 5]),
        ("3 <= g", [3, 4, 5]),
    ],
)
def test_a_condition_passes_what_its_filter_passes(
    db: hw.Database, where: str, passing: list[int]
) -> None:
    """A comparison of a column with a constant is one, whichever side it is on; of a single value it is exact."""
    db.view("w", f"SELECT k FROM r WHERE {where}")
    kept = [s for k in db.program.kept.values() for ss in k.changes.values() for s in ss]
    (c,) = [c for s in kept for c in s.conditions]
    assert c.column == "g"
    assert [g for g in range(1, 6) if c.passes({g}, g, g)] == passing


def test_other_filters_are_no_conditions(db: hw.Database) -> None:
    """What compares columns, or computes, is left to whoever evaluates."""
    db.view("w", "SELECT k FROM r WHERE g = v AND g + 1 > 2 AND (g = 1 OR v = 2) AND v <> 3")
    steps = [
        s
        for k in db.program.kept.values()
        for ss in k.changes.values()
        for x in ss
        for s in x.steps
    ]
    filters = [s for s in steps if isinstance(s, Filter)]
    assert filters and all(condition(f.condition) is None for f in filters)


def test_text_is_compared_by_its_letters() -> None:
    assert Condition("c", "<", "b").passes({"a", "c"}, "a", "c")
    assert not Condition("c", ">", "z").passes({"a", "é"}, "a", "y")


def test_routes_are_told_again_when_a_view_is_added(db: hw.Database) -> None:
    """What is known of a program is that of the program as it is."""
    defined(db, 1)
    before = routes(db.program)
    assert routes(db.program) is before
    defined_too = "SELECT g, max(v) AS high FROM r GROUP BY g"
    db.view("other", defined_too)
    assert len(routes(db.program).readers["r"]) > len(before.readers["r"])
    db.apply({"r": rows((1, 0, 5))})
    assert db.table("other").column("high").to_pylist() == [5]


# --- min and max ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_extremes_by_the_change_are_those_of_the_rows(db: hw.Database, seed: int) -> None:
    """Insertions and deletions of equal, new, least and greatest values, groups that come, empty and come again, NULLs."""
    rng = random.Random(seed)
    db.view("w", "SELECT k, min(v) AS low, max(v) AS high, count(*) AS n FROM r GROUP BY k")
    held: list[tuple[int, int, int | None]] = []
    for _ in range(12):
        new = [
            (rng.randrange(4), 0, rng.choice([None, *range(5)])) for _ in range(rng.randrange(6))
        ]
        gone = rng.sample(held, min(len(held), rng.randrange(6)))
        for r in gone:
            held.remove(r)
        held += new
        given = {n: rows(*x) for n, x in (("inserts", new), ("deletes", gone)) if x}
        if given:
            db.apply({"r": hw.Delta(**given)})
        expected = {}
        for k in {k for k, _, _ in held}:
            values = [v for j, _, v in held if j == k and v is not None]
            expected[k] = (min(values, default=None), max(values, default=None))
        found = db.table("w").to_pylist()
        assert {r["k"]: (r["low"], r["high"]) for r in found} == expected


def test_a_bag_is_searched_where_the_extreme_itself_goes(db: hw.Database) -> None:
    """Other deletions, and insertions of any value, are answered without a look into the bag."""
    db.view("w", "SELECT k, min(v) AS low FROM r GROUP BY k")
    db.apply({"r": rows(*((k, 0, v) for k in range(10) for v in range(5)))})
    searched: list[int] = []
    inner = answers.next_ends

    def counted(at: Arrangement, asked: Any, keys: pa.Table) -> list[pa.Array]:
        searched.extend(len(some) for _, some in asked)
        return inner(at, asked, keys)

    with patch.object(answers, "next_ends", counted):
        db.apply({"r": rows(*((k, 0, k - 5) for k in range(10)))})
        db.apply({"r": hw.Delta(deletes=rows(*((k, 0, 4) for k in range(10))))})
        assert searched == []
        db.apply({"r": hw.Delta(deletes=rows((0, 0, -5), (1, 0, 2)), inserts=rows((2, 0, 3)))})
    assert searched == [1]
    low = {r["k"]: r["low"] for r in db.table("w").to_pylist()}
    assert low == {k: 0 if k == 0 else min(k - 5, 0) for k in range(10)}


def test_maps_of_the_same_columns_are_added_up_together(tmp_path: Path) -> None:
    """Views whose maps have the same columns, and others among them, with NULLs and text as keys: rows come and go, each in its own map."""
    random.seed(11)
    keys = [None, "", "a", "b", "Ü"]
    queries = {
        f"w{i}": f"SELECT {by}, sum(v * {i}) AS t, min(v + {i}) AS low, count(DISTINCT v) AS n "
        f"FROM r WHERE v <> {i} GROUP BY {by}"
        for i, by in enumerate(["k", "g", "k", "k", "g", "k, g", "k, g", "k"])
    }
    there: list[tuple[str | None, int, int]] = []
    schema = pa.schema([("k", pa.string()), ("g", pa.int64()), ("v", pa.int64())])
    with hw.open(tmp_path / "db") as db:
        db.source("r", "k STRING, g BIGINT, v BIGINT")
        for name, query in queries.items():
            db.view(name, query)
        for turn in range(12):
            new = [
                (random.choice(keys), random.randrange(3), random.randrange(9)) for _ in range(15)
            ]
            random.shuffle(there)
            gone, there = there[: turn * 2], there[turn * 2 :] + new
            tables = [
                pa.table(dict(zip("kgv", zip(*t, strict=True), strict=True)), schema=schema)
                if t
                else schema.empty_table()
                for t in (new, gone)
            ]
            db.apply({"r": hw.Delta(inserts=tables[0], deletes=tables[1])})
            for i, (name, query) in enumerate(queries.items()):
                by = query.split("GROUP BY ")[1].split(", ")
                groups: dict[Any, list[int]] = {}
                for row in there:
                    if row[2] != i:
                        key = tuple(dict(zip("kgv", row, strict=True))[c] for c in by)
                        groups.setdefault(key, []).append(row[2])
                expected = {
                    k: (sum(v * i for v in vs), min(vs) + i, len(set(vs)))
                    for k, vs in groups.items()
                }
                found = {
                    tuple(r[c] for c in by): (r["t"], r["low"], r["n"])
                    for r in db.table(name).to_pylist()
                }
                assert found == expected, (turn, name)


def test_an_increment_leaves_the_search_for_cycles_as_it_was(db: hw.Database) -> None:
    """It goes on after a small increment, and after one that fails; whoever has turned it off finds it off."""
    db.view("w", "SELECT k, sum(v) AS t FROM r GROUP BY k")
    seen = list[bool]()

    def watched(*_: Any) -> None:
        seen.append(gc.isenabled())

    with patch.object(Arrangement, "watch", watched):
        db.apply({"r": rows((1, 2, 3))})
        db.apply({"r": rows((1, 2, 4))})
    assert seen and not any(seen) and gc.isenabled()
    with pytest.raises(hw.HeadwaterError):
        db.apply({"r": hw.Delta(deletes=rows((9, 9, 9)))})
    assert gc.isenabled()
    gc.disable()
    try:
        db.apply({"r": rows((1, 2, 3))})
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_small_runs_that_were_just_written_are_not_read_back(db: hw.Database) -> None:
    """Whoever wrote them has their entries; to open them again was a twentieth of a small increment with many maps."""
    db.view("w", "SELECT k, sum(v) AS t, min(v) AS low FROM r GROUP BY k")
    db.apply({"r": rows((1, 1, 1), (2, 2, 2))})
    with patch.object(Runs, "_opened", side_effect=AssertionError("a run was opened")):
        db.apply({"r": rows((1, 1, 5), (3, 3, 3))})
    assert sorted(db.table("w").select(["k", "t", "low"]).to_pydict()["t"]) == [2, 3, 6]
