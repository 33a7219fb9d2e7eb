"""The command that shows a query at every stage."""

from __future__ import annotations

import pytest

from headwater.calculus.__main__ import main

SCHEMA = "r(a BIGINT, b BIGINT); s(b BIGINT, c BIGINT)"


def test_without_arguments_it_tells_the_movie_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert "flat := for m in M collect {{name: m.name, related: ℓ1(m)}}" in shown
    assert "Drive +['Jarhead'], Skyfall +['Jarhead']" in shown
    assert "Skyfall    {Jarhead, Rush}" in shown.split("AFTER")[1]


def test_a_join_with_an_average_at_every_stage(capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT r.a, avg(s.c) AS mean FROM r JOIN s ON r.b = s.b GROUP BY r.a"
    assert main(["--schema", SCHEMA, query]) == 0
    shown = capsys.readouterr().out
    for title in ("TYPE", "NORMAL FORM", "STATE AND ANSWER", "DELTAS"):
        assert f"\n{title}\n" in f"\n{shown}"
    assert "Bag({a: bigint, mean: double})" in shown
    assert "merge ↑(+ × + × +)   where one side of r1.b = s1.b has one row a key" in shown
    for sign, degree in (("X1", 2), ("δX1", 1), ("δ²X1", 0)):
        assert f"{sign}   degree {degree}, cost " in shown


def test_a_nested_query_is_shredded(capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT b, array_agg(struct(c)) AS cs FROM s GROUP BY b"
    assert main(["--schema", SCHEMA, query]) == 0
    shown = capsys.readouterr().out
    assert "SHREDDED" in shown and "cs := dict ℓ1(k: {g1: bigint}) ↦" in shown


def test_an_unreadable_query_is_said_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--schema", SCHEMA, "SELECT r.prise FROM r"]) == 1
    error = capsys.readouterr().err
    assert error == (
        "unknown column `prise` in `r` (line 1, column 10)\n"
        "  SELECT r.prise FROM r\n"
        "           ^^^^^\n"
        "columns of `r`: a, b\n"
    )
