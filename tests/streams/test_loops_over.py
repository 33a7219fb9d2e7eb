"""Loops over sources that are closed part by part: nothing of them is final or forgotten that could still move."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from closings import looped_story
from headwater import st
from headwater.engine.view_rows import repeated
from headwater.errors import Purged
from looped_views import CHAIN, EDGES, REACHED, VIEWS, WALKS, is_right, opened, rows
from test_bounds import play, purge


@pytest.mark.parametrize("seed", range(3))
def test_purged_is_not_purged(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, looped_story, in_part=seed % 3 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 185))
def test_long_stories_of_what_is_over(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, looped_story, in_part=seed % 3 == 0, steps=10)


def test_a_loop_is_over_when_all_that_it_reads_is(tmp_path: Path) -> None:
    with opened(tmp_path / "db", closes="n") as db:
        db.apply({"edges": CHAIN})
        assert "a loop over edges is over when all of that is" in db.explain("reached")
        assert "by (src, dst, round)" in db.explain("reached")
        some = db.apply({}, punctuate={"edges": hw.closed(n=hw.upto(1))})
        assert some.closed.keys() <= {"steps"}, "a row with n = 2 may still give any path"
        over = db.apply({}, punctuate={"edges": hw.closed()})
        assert {**some.closed, **over.closed} == {n: db.table(n).num_rows for n in VIEWS}
        assert purge(db) > 10
        is_right(db)
        db.view("later", REACHED + " WHERE src > 1")
        is_right(db)
        db.rebuild()
        is_right(db)


def test_loops_over_what_is_kept_open_only(tmp_path: Path) -> None:
    """What is over of a source stays in the loop, and no view comes later that would need it."""
    with opened(tmp_path / "db", {"reached": REACHED}, closes="n", retain="open") as db:
        db.apply({"edges": CHAIN}, punctuate={"edges": hw.closed(n=hw.upto(2))})
        purge(db)
        assert db.table("edges").num_rows == 0
        db.apply({"edges": [(4, 5, 3)]})
        assert sum(rows(db, "reached").values()) == 10
        for query in (f"SELECT count(*) AS n FROM ({REACHED})", WALKS.replace("steps", "edges")):
            with pytest.raises(Purged):
                db.view("later", query)


def test_streams_take_the_rows_of_a_loop_when_it_is_over(tmp_path: Path) -> None:
    with opened(tmp_path / "db", {"reached": REACHED}, closes="n") as db:
        s = db.stream("s", "seq reached", st.filter("src < 3"), order="dst")
        db.apply({"edges": CHAIN}, punctuate={"edges": hw.closed(n=hw.upto(5))})
        assert s.output_table().num_rows == 0
        db.apply({}, punctuate={"edges": hw.closed()})
        assert [r["dst"] for r in s.output_table().to_pylist()] == [2, 3, 3, 4, 4]


@hw.query
def ranks(edges):
    nodes = [{"node": n} for n in {e.src for e in edges}]
    out = [{"node": n.node, "n": len([k for k in edges if k.src == n.node])} for n in nodes]
    return hw.repeat(
        [{"node": n.node, "rank": 1.0} for n in nodes],
        lambda rank: [
            {
                "node": n.node,
                "rank": 0.15
                + 0.85
                * sum(
                    r.rank / o["n"]
                    for k in edges
                    if k.dst == n.node
                    for o in out
                    if o["node"] == k.src
                    for r in rank
                    if r.node == k.src
                ),
            }
            for n in nodes
        ],
    )


@pytest.mark.parametrize("closes", ["n", "src", "dst"])
def test_loops_in_diffuse_mode_keep_what_they_are_kept_by(tmp_path: Path, closes: str) -> None:
    plain, closing = hw.open(tmp_path / "plain"), hw.open(tmp_path / "closing")
    plain.source("edges", EDGES)
    closing.source("edges", EDGES, closes=closes)
    for db in (plain, closing):
        db.view("ranks", ranks, mode="diffuse", cut=0.05)
        db.apply({"edges": [(1, 2, 1), (2, 3, 1), (3, 1, 1), (1, 3, 1), (4, 1, 1)]})
    assert "a loop in diffuse mode reads it in every increment" in closing.explain("ranks")
    for i in range(3):
        new = [(i + 5, i + 4, i + 5), (i + 4, i + 5, i + 6)]
        plain.apply({"edges": new})
        closing.apply({"edges": new}, punctuate={"edges": hw.closed(**{closes: hw.upto(i + 3)})})
        purge(closing)
        both = [sorted(map(str, repeated(d.table("ranks")).to_pylist())) for d in (plain, closing)]
        assert both[0] == both[1]
    plain.close()
    closing.close()


@hw.query
def means(points, centres):
    def step(old):
        near = [{"k": min(old, key=lambda c: (c.x - p.x) ** 2).k, "x": p.x, "n": 1} for p in points]
        return [
            {
                "k": c.k,
                "x": sum(p["x"] for p in near if p["k"] == c.k)
                / (sum(p["n"] for p in near if p["k"] == c.k) + 0.001),
            }
            for c in centres
        ]

    return hw.repeat([{"k": c.k, "x": c.x} for c in centres], step)


def test_settled_groups_of_what_is_closed(tmp_path: Path) -> None:
    """Points that keep their centre are groups without a statement of the loop, and closed like others."""
    found = []
    for closes in ((), "id", "x"):
        with hw.open(tmp_path / f"by {closes}") as db:
            db.source("points", "id BIGINT, x DOUBLE", closes=closes)
            db.source("centres", "k BIGINT, x DOUBLE")
            db.view("means", means, mode="diffuse", cut=0.01)
            db.apply({"centres": [(1, 0.0), (2, 9.0)], "points": [(1, 1.0), (2, 8.0)]})
            for i in range(3, 6):
                over = {"points": hw.closed(**{closes: hw.upto(i)})} if closes else None
                db.apply({"points": [(i, float(i)), (i + 9, i + 9.0)]}, punctuate=over)
                purge(db)
            found.append(sorted(map(str, repeated(db.table("means")).to_pylist())))
    assert found[0] == found[1] == found[2]
