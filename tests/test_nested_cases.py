"""Cases of nested data that random stories have found, each small and with a name.

A case is played like a story (see `nested_run`): with views defined before the data under one strategy, and after its
first change under the other, compared with the function itself after every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from fuzz_nested import Rec, SourceOf, ViewOf
from headwater.language.comprehension import Query
from headwater.language.schema import columns
from nested_run import Run
from nested_story import Apply, Change, Define, Step, Story, of_key

Given = Mapping[str, Change]


def source(ddl: str, *key: str) -> SourceOf:
    """A source from its DDL."""
    row = of_key(columns(ddl))
    assert isinstance(row, Rec)
    return SourceOf(row.fields, key)


def rows(names: str, *values: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Rows from a line of names and tuples of values."""
    return [dict(zip(names.split(), v, strict=True)) for v in values]


def come(*inserts: Any) -> Change:
    return Change((), inserts)


def go(*deletes: Any) -> Change:
    return Change(deletes)


@pytest.fixture(params=[("recursive", 0), ("first-order", 1)], ids=["before", "after"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Plays views over sources through changes; nothing of it may be refused."""

    def played(
        sources: Mapping[str, SourceOf], views: Sequence[Query], changes: Sequence[Given]
    ) -> None:
        strategy, place = request.param
        steps: list[Step] = [Apply(c) for c in changes]
        steps[place:place] = [
            Define(ViewOf(q.__name__, q.source or "", q.inputs, Rec(()), 1, strategy), q)
            for q in views
        ]
        run = Run(Story(sources, steps), tmp_path / "database")
        run.play()
        assert not run.refused

    return played


FLAT = {"R": source("k BIGINT, a BIGINT, s STRING"), "S": source("k BIGINT, a BIGINT")}
R = rows("k a s", (1, 1, "x"), (1, 2, "y"), (0, 1, "x"), (0, 1, "x"))
S = rows("k a", (1, 1), (1, 2), (0, 1))
STEPS: list[Given] = [
    {"R": come(*R), "S": come(*S)},
    {"R": Change([R[0]], rows("k a s", (2, 2, "y")))},
    {"S": Change([S[0], S[2]], rows("k a", (2, 0), (2, 0)))},
    {"R": go(R[1], R[2]), "S": go(S[1])},
    {"R": go(R[3], *rows("k a s", (2, 2, "y"))), "S": go(*rows("k a", (2, 0), (2, 0)))},
]


def test_a_loop_over_a_set_of_scalars(play: Any) -> None:
    @hw.query
    def pairs(R):
        return [(k, k) for k in {x.k for x in R}]

    @hw.query
    def joined(R):
        return [(k, a) for k in {x.k for x in R} for a in {y.a for y in R} if a == k]

    play(FLAT, [pairs, joined], STEPS)


def test_a_set_that_reads_two_rows_that_are_joined(play: Any) -> None:
    """It was asked for the rows that it is made for, and so on for ever."""

    @hw.query
    def sums(R, S):
        return [
            (x.k, n)
            for x in S
            for y in R
            if y.k == x.k
            for n in {x.a + z.k for z in R if z.k == y.k}
        ]

    @hw.query
    def inside(R, S):
        return [
            (x.k, [n for y in R if y.k == x.k for n in {x.a for z in R if z.k == y.a}]) for x in S
        ]

    play(FLAT, [sums, inside], STEPS)


def test_united_queries_with_bags_in_bags(play: Any) -> None:
    """The inner bags of one part are not those of the other, though their labels say the same."""

    @hw.query
    def united(R, S):
        return [
            (x.a, [(y.a, [(z.a,) for z in R if z.k == x.k]) for y in R if y.k == x.k]) for x in S
        ] + [(x.k, [(x.k, [(x.k,) for z in R if z.k == x.k]) for y in R if y.k == x.k]) for x in R]

    play(FLAT, [united], STEPS)


def test_a_choice_of_lists_with_bags(play: Any) -> None:
    @hw.query
    def chosen(R, S):
        return [
            (
                x.a,
                [(y.a, [z.a for z in R if z.k == x.k]) for y in R if y.k == x.k]
                if x.k > 0
                else [(y.a, [z.k for z in R if z.k <= x.k]) for y in S if y.k == x.k],
            )
            for x in S
        ]

    play(FLAT, [chosen], STEPS)


def test_labels_of_text_that_look_alike(play: Any) -> None:
    """Text with quotes and backslashes, and NULL beside the word."""
    sources = {"R": source("s STRING, t STRING, a BIGINT")}

    @hw.query
    def same(R):
        return [(x.a, [y.a for y in R if y.s == x.s and y.t == x.t]) for x in R]

    @hw.query
    def deeper(R):
        return [(x.s, [(y.t, [z.a for z in R if z.t == y.t]) for y in R if y.s == x.s]) for x in R]

    data = rows(
        "s t a",
        ("a", "b', 'c", 1),
        ("a', 'b", "c", 2),
        ("\\", "'", 3),
        ("\\'", "", 4),
        (None, "NULL", 5),
        ("NULL", None, 6),
        (None, None, 7),
    )
    play(
        sources, [same, deeper], [{"R": come(*data)}, {"R": go(*data[::2])}, {"R": go(*data[1::2])}]
    )


def test_a_struct_in_a_label_beside_another_kind_of_bag(play: Any) -> None:
    """Where the other kind has no such column it is NULL, which needs no Spark."""
    sources = {
        "N": source(
            "id BIGINT, r STRUCT<k: BIGINT, s: STRING>, lines ARRAY<STRUCT<k: BIGINT>>", "id"
        )
    }

    @hw.query
    def both(N):
        return [
            (x.id, [(x.r, [y.k for y in x.lines if y.k < z.k]) for z in x.lines] + [(x.r, [x.id])])
            for x in N
            if x.r.s == "x"
        ]

    n = [
        {"id": i, "r": {"k": i, "s": s}, "lines": [{"k": k} for k in range(i)]}
        for i, s in enumerate("xyx")
    ]
    deep = {"N.lines": Change([{"id": 2, "k": 1}], [{"id": 0, "k": 7}, {"id": 0, "k": 7}])}
    play(sources, [both], [{"N": come(*n)}, deep, {"N": go(n[1])}])


NESTED = {
    "N": source(
        "id BIGINT, a BIGINT, lines ARRAY<STRUCT<no: BIGINT, k: BIGINT, parts: ARRAY<STRUCT<k: BIGINT>>>>",
        "id",
        "lines.no",
    ),
    "C": source("id BIGINT, lines ARRAY<STRUCT<k: BIGINT, parts: ARRAY<STRUCT<k: BIGINT>>>>", "id"),
}


def line(no: int, k: int, parts: list[int] | None) -> dict[str, Any]:
    return {"no": no, "k": k, "parts": None if parts is None else [{"k": p} for p in parts]}


DEEP: list[Given] = [
    {
        "N": come(
            {"id": 1, "a": 1, "lines": [line(1, 1, [1, 1]), line(2, 1, None)]},
            {"id": 2, "a": 1, "lines": None},
            {"id": 3, "a": 0, "lines": [line(1, 1, [])]},
        ),
        "C": come({"id": 1, "lines": [{"k": 1, "parts": [{"k": 2}]}, {"k": 1, "parts": None}]}),
    },
    {
        "N.lines": Change(
            [{"id": 1, **line(2, 1, None)}],
            [{"id": 3, **line(2, 0, [1])}, {"id": 1, **line(2, 0, [])}],
        )
    },
    {"N.lines.parts": Change([{"id": 1, "no": 1, "k": 1}], [{"id": 3, "no": 1, "k": 5}])},
    {"N": Change([{"id": 2, "a": 1, "lines": None}], [{"id": 2, "a": 1, "lines": []}])},
    {"C.lines": Change([{"id": 1, "k": 1, "parts": None}], [{"id": 1, "k": 2, "parts": []}])},
    {"N": come({"id": 4, "a": 0, "lines": []}), "N.lines": come({"id": 4, **line(1, 1, [3])})},
]


def test_nested_rows_passed_on(play: Any) -> None:
    """NULL stays NULL and empty stays empty, at every depth; arrays without a key are kept whole."""

    @hw.query
    def passed(N):
        return [(x.a, x.lines) for x in N]

    @hw.query
    def cells(C):
        return [(x.id, [(y.k, y.parts) for y in x.lines]) for x in C]

    play(NESTED, [passed, cells], DEEP)


def test_views_over_nested_views(play: Any) -> None:
    @hw.query
    def first(N):
        return [{"id": x.id, "of": [{"k": y.k, "parts": y.parts} for y in x.lines]} for x in N]

    @hw.query
    def flat(first):
        return [(x.id, y.k, p.k) for x in first for y in x.of for p in y.parts]

    @hw.query
    def turned(first, N):
        return [(n.a, [x.id for x in first for y in x.of if y.k == n.a]) for n in N]

    @hw.query
    def asked(first):
        return [
            (x.id, len(x.of), max((p.k for y in x.of for p in y.parts), default=0))
            for x in first
            if all(any(p.k > 0 for p in y.parts) for y in x.of)
        ]

    play(NESTED, [first, flat, turned, asked], DEEP)
