"""Views with loops, and everything else that a database does with views: nothing around a loop knows of its rounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater import flow
from headwater.command.cli import main
from headwater.engine.view_rows import repeated
from headwater.errors import InUse, NoFixpoint
from looped_views import (
    CHAIN,
    REACHED,
    SHORTEST,
    STEPS,
    VIEWS,
    WALKS,
    Row,
    bag,
    changes,
    is_as_new,
    is_right,
    opened,
    rows,
    told,
)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with opened(tmp_path / "db") as made:
        made.apply({"edges": CHAIN})
        yield made


# --- what is seen ------------------------------------------------------------------------------------------------------


def test_rounds_of_a_commit(db: hw.Database) -> None:
    """A chain grows at its end: a path more each round, for who reads the loop, in a view of its own or above."""
    commit = db.apply({"edges": [(4, 5, 1)]})
    assert commit.rounds["reached"] == [(1, 1), (2, 1), (3, 1), (4, 1)]
    assert commit.rounds["walks"] == [(1, 1), (2, 1), (3, 1), (4, 1)]
    assert commit.rounds["shortest"] == [(5, 1)]
    assert commit.rounds["counted"] == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]
    assert "steps" not in commit.rounds
    apart = db.apply({"edges": [(9, 8, 5)]})
    assert "shortest" not in apart.rounds, "nothing that is reachable is touched"
    assert apart.rounds["reached"] == [(1, 1)]
    assert db.apply({"edges": []}).rounds == {}


def test_rounds_of_an_edit(db: hw.Database) -> None:
    made = db.replace_views(
        {"shortest": SHORTEST.replace("1L", "2L"), "steps": STEPS + " AND n > 0"}
    )
    assert made.rounds["shortest"] == [(1, 1), (2, 1), (3, 1)]
    assert made.rounds["counted"] == made.rounds["shortest"], "its other loop stays"
    assert made.rounds["walks"] == [(1, 3), (2, 2), (3, 1)]
    assert "reached" not in made.rounds


def test_what_explain_says(db: hw.Database) -> None:
    text = db.explain("reached")
    (loop,) = db.program.loops[next(n for n in db.program.loops if n in text)].collections
    assert "cost class rounds" in text
    assert "start  x0 := ∅\n  step   x0 := each " in text
    assert "ends   when a round changes nothing; 10,000 rounds that do are an error" in text
    assert "last   the last commit moved 6 rows, at rounds 1 to 3: 3, 2, 1" in text
    once = "Δedges (degree 0, once, against all rounds)"
    assert f"{once}: add up by (x0.src, x0.dst); look up" in text, "edges that differ in costs"
    assert f"Δ{loop} (degree 0, round by round): look up" in text
    assert f"Δ{loop} (degree 0): {{(x0.src, x0.dst) ↦ _w}}" in text, "above the loop"
    assert text.svg.count("<rect") >= 6
    assert "after 4 rounds, or when a round changes nothing" in db.explain("labels")
    near = "when no rank by (node) moves by more than 0.01 in a round; 10,000 rounds that do are an error"
    assert near in db.explain("settled")
    above = db.explain("counted")
    assert above.count("\nLOOP ") == 2 and above.svg.startswith("<svg")
    assert "LOOP" not in db.explain("steps")
    db.apply({"edges": [(9, 9, 1)]})
    assert "the last commit" not in db.explain("shortest"), "the last commit did not touch it"


def test_the_last_rounds_are_known_after_reopening(db: hw.Database, tmp_path: Path) -> None:
    """The note of a version has them; of a long loop those behind the first hundred as one."""
    with hw.open(db.path) as reader:
        said = "last   the last commit moved 6 rows, at rounds 1 to 3: 3, 2, 1"
        assert said in reader.explain("reached")
    with hw.open(tmp_path / "long") as long:
        long.source("edges", "src BIGINT, dst BIGINT, n BIGINT")
        long.view("shortest", SHORTEST)
        long.apply({"edges": [(n, n + 1, 1) for n in range(1, 300)]})
    with hw.open(tmp_path / "long") as long:
        text = long.explain("shortest")
        (noted,) = long.store.at(long.version).version.note["rounds"].values()
    (last,) = [t for t in text.splitlines() if "the last commit" in t]
    assert "the last commit moved 299 rows, at rounds 2: 1, 3: 1, " in last
    assert len(noted) == 101 and noted[-1] == [300, 199]


def test_keys_that_have_yet_to_move_are_said(tmp_path: Path) -> None:
    """A loop whose values grow for ever goes on in every increment, whatever that is about."""
    grows = """WITH MUTUALLY RECURSIVE g (k BIGINT, v DOUBLE) AS (SELECT e.dst, 1D + 1.5D * coalesce(sum(g.v), 0D) AS v
      FROM edges e LEFT JOIN g ON g.k = e.src GROUP BY e.dst) SELECT k, v FROM g"""
    with hw.open(tmp_path / "db") as db:
        db.source("edges", "src BIGINT, dst BIGINT")
        db.view("grown", grows, mode="diffuse", cut=1e-3, rounds=5)
        assert db.apply({"edges": [(1, 2)]}).due == {}
        for edge in ((0, 0), (7, 8)):
            assert db.apply({"edges": [edge]}).due == {"grown": 1}


def test_what_can_says(db: hw.Database) -> None:
    text = db.can(REACHED.replace("edges", "steps"))
    assert "cost class rounds" in text and "\n  LOOP x" in text and "ends   when a round" in text
    edit = db.can(REACHED + " WHERE src = 1", instead_of="reached")
    assert "LOOP" in edit and "from all of the answer" in edit


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(tmp_path / "db") as db:
        db.apply({"edges": CHAIN})
    for arguments in (
        ["explain", str(tmp_path / "db"), "counted"],
        ["status", str(tmp_path / "db")],
    ):
        assert main(arguments) in (0, None)
    assert "LOOP" in capsys.readouterr().out


# --- what follows a loop -----------------------------------------------------------------------------------------------


def test_changes_versions_copies_and_opening(tmp_path: Path) -> None:
    db = opened(tmp_path / "db")
    copies = {n: hw.ParquetCopy(tmp_path / n, files=3) for n in VIEWS}
    kept = dict[int, dict[str, Counter[Row]]]()
    for step, change in enumerate(changes(1, 6)):
        before, since = {n: rows(db, n) for n in VIEWS}, db.version
        db.apply({"edges": change})
        is_right(db)
        kept[db.version] = {n: rows(db, n) for n in VIEWS}
        for n, found in kept[db.version].items():
            moved = found.copy()
            moved.subtract(before[n])
            assert told(db, n, since) == Counter({r: w for r, w in moved.items() if w}), n
            copies[n].sync(db[n])
            assert bag(db, n, repeated(copies[n].rows())) == found
        if step == 2:
            db.rebuild()
        if step == 4:
            db.close()
            db = hw.open(tmp_path / "db")
    for version, found in kept.items():
        assert {n: rows(db, n, version) for n in VIEWS} == found
    is_as_new(db, tmp_path / "new", VIEWS)
    db.close()


def test_views_that_go(db: hw.Database) -> None:
    for name, reader in {"steps": "walks", "reached": "counted", "edges": "reached"}.items():
        with pytest.raises(InUse, match=f"read by the view `{reader}`"):
            db.drop(name)
    db.drop("counted")
    db.drop("reached")
    assert len(db.program.loops) == 4
    db.apply({"edges": [(4, 1, 1)]})
    is_right(db)
    for name in ("walks", "steps", "shortest", "labels", "settled"):
        db.drop(name)
    assert not db.program.loops and not db.program.strata and len(db.program.maps) == 1
    db.drop("edges")


def test_a_loop_that_two_views_share_stays_for_the_other(db: hw.Database) -> None:
    db.view("again", REACHED + " WHERE src = 1")
    assert len(db.program.loops) == 5, "no loop more"
    db.drop("counted")
    db.drop("reached")
    db.apply({"edges": [(4, 5, 1)]})
    is_right(db)


def test_stages_read_loops(db: hw.Database) -> None:
    seen = Counter[tuple[int, int]]()

    @db.stage(
        flow.reads("reached", by="src", changes=True), out="src BIGINT, n BIGINT", name="seen"
    )
    def told_of(key: Any, found: Any) -> Any:
        for r in found:
            seen[r.src, r.dst] += r._w
        return [(key, sum(r._w for r in found))]

    db.view(
        "above",
        "WITH RECURSIVE x AS (SELECT src, n FROM seen UNION SELECT x.src, e.dst FROM x JOIN edges e ON e.src = x.n) SELECT * FROM x",
    )
    for change in changes(7, 4):
        db.apply({"edges": change})
        db.run()
        assert Counter({r: n for r, n in seen.items() if n}) == Counter(
            (int(a), int(b)) for a, b in rows(db, "reached")
        )
        is_right(db, "reached", "above")


# --- what a loop reads ---------------------------------------------------------------------------------------------------


@hw.query
def spread(edges, nodes):
    far = hw.repeat(
        [{"src": n.node, "dst": n.node} for n in nodes],
        lambda old: [{"src": o.src, "dst": e.dst} for o in old for e in edges if e.src == o.dst],
        times=2,
    )
    return [{"node": n.node, "to": [f.dst for f in far if f.src == n.node]} for n in nodes]


@hw.query
def each(reached, nodes):
    return [{"node": n.node, "to": [r.dst for r in reached if r.src == n.node]} for n in nodes]


def test_loops_in_nested_queries(tmp_path: Path) -> None:
    with opened(tmp_path / "db", {"reached": REACHED}) as db:
        db.source("nodes", "node BIGINT")
        db.view("spread", spread)
        db.view("each", each)
        db.view("listed", f"SELECT src, collect_list(dst) AS to FROM ({REACHED}) GROUP BY src")
        for node, change in enumerate(changes(4, 6)):
            commit = db.apply({"edges": change, "nodes": [(node,)]})
            is_right(db)
        assert {"reached", "spread", "each", "listed"} <= commit.rounds.keys()
        assert "LOOP" in db.explain("spread") and db.program.views["spread"].parts


def test_loops_over_flat_parts_of_nested_sources(tmp_path: Path) -> None:
    uses = "SELECT u.part, u.of FROM things LATERAL VIEW explode(uses) x AS u"
    made_of = f"WITH RECURSIVE m AS ({uses} UNION SELECT m.part, u.of FROM m JOIN ({uses}) u ON u.part = m.of) SELECT * FROM m"
    with hw.open(tmp_path / "db") as db:
        db.source("things", "id BIGINT, uses ARRAY<STRUCT<part: BIGINT, of: BIGINT>>", key="id")
        db.view("made_of", made_of)
        thing = [
            {"id": i, "uses": [{"part": i, "of": i + 1}, {"part": i, "of": 9}]} for i in range(4)
        ]
        db.apply({"things": thing})
        assert len(rows(db, "made_of")) == 14
        is_right(db)
        db.apply(
            {
                "things": hw.Delta(
                    deletes=[thing[1]], inserts=[{"id": 7, "uses": [{"part": 9, "of": 0}]}]
                )
            }
        )
        is_right(db)


def test_loops_over_loops(tmp_path: Path) -> None:
    views = {
        "reached": REACHED,
        "twice": REACHED.replace("edges", "reached"),
        "two": f"SELECT a.src, b.far FROM ({REACHED}) a JOIN ({SHORTEST}) b ON b.node = a.dst",
        "itself": f"SELECT a.src, count(*) AS n FROM ({REACHED}) a JOIN ({REACHED}) b ON a.src = b.dst AND a.dst = b.src GROUP BY a.src",
    }
    with opened(tmp_path / "db", views) as db:
        assert len(db.program.loops) == 3
        for change in changes(5, 5):
            db.apply({"edges": change})
            is_right(db)
        is_as_new(db, tmp_path / "new", views)


@hw.query
def left(edges):
    far, _ = hw.repeat(
        ([{"a": e.src} for e in edges], [{"b": e.dst} for e in edges]),
        lambda f, n: (
            [{"a": x.a + 1} for x in f if x.a < 4],
            [{"b": y.b} for y in n for x in f if x.a == y.b],
        ),
        times=3,
    )
    return [{"a": x.a} for x in far]


def test_collections_that_nobody_reads_go_round_with_the_others(tmp_path: Path) -> None:
    with opened(tmp_path / "db", {"left": left, "reached": REACHED}) as db:
        db.apply({"edges": CHAIN})
        db.drop("reached")
        db.apply({"edges": [(1, 4, 1)]})
        is_right(db)
        is_as_new(db, tmp_path / "new", {"left": left})


# --- edits -----------------------------------------------------------------------------------------------------------------

EDITS = [
    ("shortest", SHORTEST.replace("1L AS node", "2L AS node")),
    ("steps", STEPS + " AND n > 0"),
    ("walks", WALKS.replace("LEVEL 30", "LEVEL 20")),
    ("reached", REACHED.replace("FROM edges UNION", "FROM edges WHERE n > 0 UNION")),
    ("reached", REACHED + " WHERE src <> dst"),
    ("shortest", SHORTEST.replace("RECURSIVE d", "RECURSIVE (RETURN AT RECURSION LIMIT 2) d")),
    ("steps", "SELECT dst AS src, src AS dst, n FROM edges WHERE src > dst"),
    ("shortest", "SELECT src AS node, min(n) AS far FROM edges GROUP BY src"),
]


def test_editing_is_defining_anew(tmp_path: Path) -> None:
    """Other limits, anchors and filters, views below a loop and above, and a loop that becomes none."""
    queries, given = dict(VIEWS), changes(3, len(EDITS) + 2)
    with opened(tmp_path / "db") as db:
        db.apply({"edges": next(given)})
        db.apply({"edges": next(given)})
        for i, (name, query) in enumerate(EDITS):
            before, since = rows(db, name), db.version
            db.view(name, query, replace=True)
            queries[name] = query
            is_right(db)
            moved = rows(db, name)
            moved.subtract(before)
            assert told(db, name, since) == Counter({r: w for r, w in moved.items() if w})
            assert rows(db, name, since) == before
            db.apply({"edges": next(given)})
            is_right(db)
            if i % 2:
                is_as_new(db, tmp_path / f"changed {i}", queries)


def test_no_fixpoint_leaves_what_was_there(tmp_path: Path) -> None:
    cyclic, query = [(1, 2, 1), (2, 1, 1)], WALKS.replace("steps", "edges")
    with opened(tmp_path / "db", {"steps": STEPS}) as db:
        db.apply({"edges": cyclic})
        with pytest.raises(NoFixpoint):
            db.view("walks", query)
        assert "walks" not in db.catalog.views and not db.program.loops
        db.view("walks", WALKS)
        version = db.version
        with pytest.raises(NoFixpoint):
            db.view("walks", query, replace=True)
        assert db.version == version
        db.apply({"edges": hw.Delta(deletes=cyclic[1:], inserts=[(2, 3, 1)])})
        db.view("walks", query, replace=True)
        version = db.version
        with pytest.raises(NoFixpoint):
            db.apply({"edges": cyclic[1:]})
        assert db.version == version
        db.apply({"edges": [(3, 4, 2)]})
        is_right(db)
