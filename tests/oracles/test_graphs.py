"""The generator of graphs draws everything, the same from the same seed, and what it draws runs."""

from __future__ import annotations

from graphs import PLANNED, WORDS, drawn, run_meaning


def test_everything_occurs_and_nothing_is_held_but_where_that_is_planned() -> None:
    words, held, sent, epochs, sizes = set(), 0, 0, 0, set()
    for seed in range(200):
        graph = drawn(seed)
        words |= graph.words
        for after in run_meaning(graph):
            assert after["held"] == {}, f"seed {seed}: {after['held']}"
        sizes.add(len(graph.stages))
        epochs += sum(after["epochs"].values())
        sent += sum(len(b) for bags in after["flows"].values() for b in bags)
    for seed in range(60):
        graph = drawn(seed, PLANNED)
        words |= graph.words
        for after in run_meaning(graph):
            assert set(after["held"]) <= graph.planned
        held += bool(after["held"])
    assert words == WORDS | {"conflict", "raises"}
    assert sizes == {1, 2, 3, 4, 5, 6}
    assert held > 5 and epochs > 1_000 and sent > 5_000


def test_a_seed_is_a_graph() -> None:
    for seed in range(10):
        assert drawn(seed).story == drawn(seed).story
        assert run_meaning(drawn(seed)) == run_meaning(drawn(seed))
