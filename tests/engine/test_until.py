"""Loops that end when their values are near enough: right when the last round moves, and nothing of the past in the state."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import headwater as hw


class Link(NamedTuple):
    """A row of the source."""

    src: int
    dst: int


@hw.query
def ranks(links):  # type: ignore[no-untyped-def]
    """PageRank, until no rank moves by more than a fiftieth."""
    nodes = [{"node": n} for n in {k.src for k in links}]
    out = [{"node": n["node"], "n": len([k for k in links if k.src == n["node"]])} for n in nodes]
    return hw.repeat(
        [{"node": n["node"], "rank": 1.0} for n in nodes],
        lambda rank: [
            {
                "node": n["node"],
                "rank": 0.15
                + 0.85
                * sum(
                    r.rank / o["n"]
                    for k in links
                    if k.dst == n["node"]
                    for o in out
                    if o["node"] == k.src
                    for r in rank
                    if r.node == k.src
                ),
            }
            for n in nodes
        ],
        until=hw.within(0.02, "rank", by="node"),
    )


@hw.query
def lowest(links):  # type: ignore[no-untyped-def]
    """The least node that a node comes from, until no label moves by more than one."""
    return hw.repeat(
        [{"node": k.dst, "label": k.dst} for k in links],
        lambda label: [
            {
                "node": n,
                "label": min(
                    x.label
                    for k in links
                    if k.dst == n
                    for x in label
                    if x.node == k.src or x.node == n
                ),
            }
            for n in {k.dst for k in links}
        ],
        until=hw.within(1.0, "label", by="node"),
    )


def entries(db: hw.Database) -> dict[str, dict[Any, int]]:
    """The entries of all maps."""
    snapshot, at = db._at(None)
    working = db._reading(snapshot, at)
    out = {}
    for name, m in at.program.maps.items():
        rows = [r for t in working.now(name).scan() for r in t.drop_columns(["_h"]).to_pylist()]
        exact = [n for n, t in m.ring if str(t) == "Int"]
        out[name] = dict(Counter(tuple(_near(r[n]) for n in (*m.columns, *exact)) for r in rows))
    return out


def _near(value: Any) -> Any:
    return round(value, 9) if isinstance(value, float) else value


def compare(db: hw.Database, query: Any, links: list[Link]) -> None:
    column = "rank" if query is ranks else "label"
    want = {r["node"]: r[column] for r in query(links)}
    got = {r["node"]: r[column] for r in db.table("v").to_pylist()}
    assert want.keys() == got.keys()
    assert all(abs(want[n] - got[n]) < 1e-9 for n in want), (want, got)


def play(path: Path, query: Any, seed: int, changes: int = 8) -> list[int]:
    """The last rounds that were visited, change by change."""
    chance, have, visited = random.Random(seed), Counter[Link](), []
    late = seed % 3 == 0
    with hw.open(path / "db") as db:
        db.source("links", "src BIGINT NOT NULL, dst BIGINT NOT NULL")
        if not late:
            db.view("v", query)
        for i in range(changes):
            pool = list(have.elements())
            chance.shuffle(pool)
            gone = pool if i == changes // 2 else pool[: chance.randrange(3)]
            come = [
                Link(chance.randrange(6), chance.randrange(6)) for _ in range(chance.randrange(5))
            ]
            commit = db.apply({"links": hw.Delta(come, gone)})
            have.update(come)
            have.subtract(gone)
            have = +have
            if late and i == 2:
                db.view("v", query)
            if i == 5:
                db.view("above", "SELECT count(*) AS n FROM v")
            if "v" in db.views:
                compare(db, query, list(have.elements()))
                visited.append(commit.rounds.get("v", [(0, 0)])[-1][0])
        assert db.table("above")["n"].to_pylist() == [db.table("v").num_rows]
        with hw.open(path / "new") as new:
            new.source("links", "src BIGINT NOT NULL, dst BIGINT NOT NULL")
            new.apply({"links": list(have.elements())})
            new.view("v", query)
            new.view("above", "SELECT count(*) AS n FROM v")
            kept, anew = entries(db), entries(new)
    assert kept == anew
    return visited


@pytest.mark.parametrize("seed", range(3))
def test_ranks_until_they_are_near(tmp_path: Path, seed: int) -> None:
    play(tmp_path, ranks, seed)


@pytest.mark.parametrize("seed", range(2))
def test_labels_until_they_are_near(tmp_path: Path, seed: int) -> None:
    play(tmp_path, lowest, seed)


@pytest.mark.slow
@pytest.mark.parametrize("query", [ranks, lowest], ids=["ranks", "lowest"])
@pytest.mark.parametrize("seed", range(2, 40))
def test_many_until_they_are_near(tmp_path: Path, query: Any, seed: int) -> None:
    play(tmp_path, query, seed)


def test_the_last_round_comes_and_goes(tmp_path: Path) -> None:
    """A chain needs more rounds the longer it is: rounds are told, and taken back."""
    chain = [Link(i, i + 1) for i in range(8)] + [Link(8, 8)]
    with hw.open(tmp_path / "db") as db:
        db.source("links", "src BIGINT NOT NULL, dst BIGINT NOT NULL")
        db.view("v", ranks)
        first = db.apply({"links": chain[:2] + chain[-1:]}).rounds["v"][-1][0]
        more = db.apply({"links": chain[2:-1]}).rounds["v"][-1][0]
        assert more > first
        compare(db, ranks, chain)
        db.apply({"links": hw.Delta(deletes=chain[2:-1])})
        compare(db, ranks, chain[:2] + chain[-1:])


@hw.query
def turned(nodes):  # type: ignore[no-untyped-def]
    """Great numbers once are negated, and then 5."""
    return hw.repeat(
        [{"n": k.id, "v": k.x} for k in nodes],
        lambda x: [{"n": r.n, "v": 5 if r.v < 0 else 0 - r.v if r.v > 100 else r.v} for r in x],
        until=hw.within(1, "v", by="n"),
    )


def test_a_bigint_may_move_further_than_a_bigint_goes(tmp_path: Path) -> None:
    """From 2⁶² + 5 to its negative: how far that is does not fit into 64 bits."""
    great = 2**62 + 5
    with hw.open(tmp_path / "db", execution="here") as db:
        db.source("nodes", "id BIGINT, x BIGINT")
        db.view("v", turned)
        db.apply({"nodes": [(1, great), (2, 7), (3, 2**63 - 1), (3, 2**63 - 1), (4, None)]})
        rows = {(r["n"], r["v"]): r["_w"] for r in db.table("v").to_pylist()}
        assert rows == {(1, 5): 1, (2, 7): 1, (3, 5): 2, (4, None): 1}
        db.apply({"nodes": hw.Delta([(2, great)], [(1, great), (2, 7)])})
        assert {r["n"]: r["v"] for r in db.table("v").to_pylist()} == {2: 5, 3: 5, 4: None}


def test_how_far_integers_move_is_told_exactly(tmp_path: Path) -> None:
    """A bigint that moves by one is near, and one that moves by two is not."""
    for step, ends in ((1, True), (2, False)):
        with hw.open(tmp_path / str(step), execution="here") as db:
            db.source("nodes", "id BIGINT, x BIGINT")
            db.view("v", stepped)
            if ends:
                db.apply({"nodes": [(step, 2**60 + 1)]})
                assert [r["v"] for r in db.table("v").to_pylist()] == [2**60 + 2]
            else:
                with pytest.raises(hw.errors.NoFixpoint):
                    db.apply({"nodes": [(step, 2**60 + 1)]})


@hw.query
def stepped(nodes):  # type: ignore[no-untyped-def]
    """Numbers that move by that of their node."""
    return hw.repeat(
        [{"n": k.id, "v": k.x} for k in nodes],
        lambda x: [{"n": r.n, "v": r.v + r.n} for r in x],
        until=hw.within(1, "v", by="n"),
        limit=20,
    )


class Node(NamedTuple):
    """A row of another source."""

    id: int
    v: float


@hw.query
def halved(nodes):  # type: ignore[no-untyped-def]
    """Halves, for which there are three rounds."""
    return hw.repeat(
        [{"n": k.id, "v": k.v} for k in nodes],
        lambda x: [{"n": r.n, "v": r.v * 0.5} for r in x],
        until=hw.within(1.5, "v", by="n"),
        limit=3,
    )


def test_a_loop_may_end_at_the_last_round_of_its_limit(tmp_path: Path) -> None:
    """8, 4, 2, 1: the third round is near enough; 16 would need one more. On lists it is so, too."""
    assert [r["v"] for r in halved([Node(1, 8.0)])] == [1.0]
    with hw.open(tmp_path / "db", execution="here") as db:
        db.source("nodes", "id BIGINT, v DOUBLE")
        db.view("v", halved)
        db.apply({"nodes": [(1, 8.0)]})
        assert [r["v"] for r in db.table("v").to_pylist()] == [1.0]
        with pytest.raises(hw.errors.NoFixpoint, match="after 3 rounds"):
            db.apply({"nodes": [(2, 16.0)]})
        db.apply({"nodes": [(2, 4.0)]})
        assert sorted(r["v"] for r in db.table("v").to_pylist()) == [0.5, 1.0]
