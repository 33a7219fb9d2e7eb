"""Failures found in nested data, each small and with a name.

Those that random stories have found are played like a story (see `nested_stories_played`): with views defined before the
data under one strategy, and after its first change under the other, compared with the function itself after every step.
Then come corners, each with what must be true there: names, keys, values inside of arrays, variables that meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from beside_lists import Beside, opened
from headwater.copies import DocumentCopy, ParquetCopy, updated
from headwater.engine.spark import session
from headwater.errors import (
    BadChange,
    IllTyped,
    LabelConflict,
    MissingOwner,
    QueryError,
    UnknownName,
)
from headwater.language.comprehension import Query
from headwater.language.schema import columns
from nested_stories import Apply, Change, Define, Step, Story, of_key
from nested_stories_played import Run
from random_comprehensions import Rec, SourceOf, ViewOf

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


@pytest.fixture
def b(tmp_path: Path) -> Iterator[Beside]:
    yield from opened(tmp_path)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        made.policy.execution = "driver"
        yield made


# --- variables --------------------------------------------------------------------------------------------------------


def test_a_list_that_is_named_and_read_twice(b: Beside) -> None:
    """The rows of `t` are counted outside and read inside of another condition, under one name."""
    b.source("p", "k BIGINT, name STRING")
    b.source("l", "k BIGINT, o BIGINT, q BIGINT")
    b.source("s", "k BIGINT, n BIGINT")

    @hw.query
    def v(p, l, s):  # noqa: E741
        t = [x for x in l if x.q > 0]
        return [
            {"name": y.name}
            for y in p
            for x in t
            if x.k == y.k
            if not any(z.k == x.k for z in s)
            if not any(w.o == y.k and w.k == 2 for w in t)
        ]

    b.view("v", v)
    rows = [{"k": k, "o": o, "q": 1} for k, o in ((1, 5), (2, 1), (3, 3))]
    b.apply({"p": [{"k": 1, "name": "a"}, {"k": 3, "name": "c"}], "l": rows})
    b.apply({"l": hw.Delta(deletes=[rows[1]])})


def test_a_number_with_a_name(b: Beside) -> None:
    b.source("p", "k BIGINT, name STRING")

    @hw.query
    def v(p):
        n = len(p)
        return [{"name": y.name, "n": n, "twice": 2 * n} for y in p if y.k < n]

    b.view("v", v)
    b.apply({"p": [{"k": 1, "name": "a"}, {"k": 2, "name": "b"}]})
    b.apply({"p": [{"k": 3, "name": "c"}]})


def test_a_division_of_rows_that_join_with_nothing(b: Beside) -> None:
    b.source("p", "k BIGINT, name STRING")
    b.source("l", "k BIGINT, q BIGINT")
    b.source("s", "k BIGINT, n DOUBLE")
    b.view(
        "v",
        """SELECT name FROM p JOIN l ON l.k = p.k
           WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.n = 10 / l.q AND s.k = p.k)""",
        lambda p, l, s: [  # noqa: E741
            {"name": x.name}
            for x in p
            for y in l
            if y.k == x.k
            if not any(z.n == 10 / y.q and z.k == x.k for z in s)
        ],
    )
    b.apply({"p": [{"k": 1, "name": "a"}], "l": [{"k": 1, "q": 2}, {"k": 2, "q": 0}]})
    b.apply({"s": [{"k": 1, "n": 5.0}]})


def test_a_condition_beside_an_array_is_not_that_of_the_array(db: hw.Database) -> None:
    db.source("c", "k BIGINT, name STRING, tags ARRAY<STRING>", key="k")
    db.view(
        "v",
        """SELECT k, e FROM (SELECT k, CASE WHEN name IS NOT NULL THEN
             (SELECT collect_list(e) FROM LATERAL (SELECT explode(c.tags) AS e)) END AS x FROM c)
           LATERAL VIEW explode(x) AS e""",
    )
    db.apply({"c": [{"k": 1, "name": "a", "tags": ["y"]}, {"k": 2, "name": None, "tags": ["z"]}]})
    assert db.table("v").to_pylist() == [{"k": 1, "e": "y", "_w": 1}]


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_in_another_order_than_the_columns(db: hw.Database) -> None:
    db.source("c", "a BIGINT, b STRING, tags ARRAY<STRING>", key=["b", "a"])
    db.apply({"c": [{"a": 1, "b": "x", "tags": ["p"]}]})
    db.apply({"c.tags": [{"a": 1, "b": "x", "value": "q"}]})
    row = db.lookup("c", ("x", 1))
    assert row is not None
    assert sorted(row["tags"]) == ["p", "q"]
    with pytest.raises(LabelConflict):
        db.apply({"c": [{"a": 1, "b": "x", "tags": []}]})
    with pytest.raises(MissingOwner):
        db.apply({"c.tags": [{"a": 2, "b": "x", "value": "q"}]})


def test_keys_that_have_one_name_at_every_depth(db: hw.Database) -> None:
    inner = "ARRAY<STRUCT<id: BIGINT, c_id: BIGINT, items: ARRAY<STRUCT<id: BIGINT, n: BIGINT>>>>"
    db.source("c", f"id BIGINT, orders {inner}", key=["id", "orders.id"])
    item = {"id": 3, "n": 4}
    db.apply({"c": [{"id": 1, "orders": [{"id": 2, "c_id": 9, "items": [item]}]}]})
    db.view("v", "SELECT id, o.id AS o, i.id AS i FROM c LATERAL VIEW explode(orders) AS o LATERAL VIEW explode(o.items) AS i")  # fmt: skip
    assert db.table("v").to_pylist() == [{"id": 1, "o": 2, "i": 3, "_w": 1}]
    with pytest.raises(QueryError, match="`K` twice"):
        db.source("d", "k BIGINT, t ARRAY<STRING>", key=["k", "K"])


def test_owners_that_nobody_checks_are_joined(db: hw.Database) -> None:
    db.source("c", "k BIGINT, name STRING, t ARRAY<STRING>", key="k", retain=False)
    db.view("v", "SELECT k, e FROM c LATERAL VIEW explode(t) AS e")
    db.view("w", "SELECT k, name, e FROM c LATERAL VIEW explode(t) AS e")
    owner = {"k": 1, "name": "a", "t": ["x"]}
    db.apply({"c": [owner], "c.t": [{"k": 7, "value": "nobody's"}]})
    for view in ("v", "w"):
        assert db.table(view).column("e").to_pylist() == ["x"]


def test_arrays_with_owners_need_strict_deletions(db: hw.Database) -> None:
    with pytest.raises(QueryError, match="arrays with owners, and is not strict"):
        db.source("c", "k BIGINT, t ARRAY<STRING>", key="k", strict=False)
    db.source("plain", "k BIGINT, t ARRAY<STRING>", strict=False)


# --- values inside ----------------------------------------------------------------------------------------------------

INSIDE = "k BIGINT, ts ARRAY<TIMESTAMP>, os ARRAY<STRUCT<o: BIGINT>>, w STRUCT<x: BIGINT>"
ROW: dict[str, Any] = {"k": 1, "ts": [], "os": [], "w": None}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("os", [{"o": 2.9}]),
        ("os", [{"o": 1, "zz": 1}]),
        ("os", [{}]),
        ("os", "text"),
        ("ts", [5]),
        ("w", {"x": 1.5}),
        ("w", 3),
    ],
)
def test_what_does_not_fit_inside_is_refused(db: hw.Database, column: str, value: Any) -> None:
    db.source("c", INSIDE, key="k")
    with pytest.raises(BadChange, match=f"row 1 of the change of `c`.*`{column}`"):
        db.apply({"c": [{**ROW, column: value}]})
    assert db.table("c").num_rows == 0


def test_names_inside_have_no_case(db: hw.Database) -> None:
    db.source("c", INSIDE, key="k")
    db.apply({"c": [{**ROW, "os": [{"O": 1}, (2,)], "w": {"X": 3}}]})
    (row,) = db.table("c").to_pylist()
    assert sorted(o["o"] for o in row["os"]) == [1, 2]
    assert row["w"] == {"x": 3}


def test_times_inside_are_of_the_zone_of_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LOCAL_ZONE", "America/New_York")
    noon = datetime(2024, 1, 1, 12)
    with hw.open(tmp_path / "db") as db:
        db.policy.execution = "driver"
        db.source("c", INSIDE, key="k")
        db.source("l", "t TIMESTAMP, n BIGINT")
        db.view("v", "SELECT t, collect_list(n) AS ns FROM l GROUP BY t")
        db.apply({"c": [{**ROW, "ts": [noon]}], "l": [(noon, 1)]})
        db.apply({"c.ts": hw.Delta(deletes=[{"k": 1, "value": noon}])})
        assert db.table("c").to_pylist()[0]["ts"] == []
        found = db.lookup("v", (noon,))
        assert found is not None
        assert found["ns"] == [1]


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_that_mean_something_here(db: hw.Database) -> None:
    db.source("l", "k BIGINT, n BIGINT")
    with pytest.raises(QueryError, match="`Δl` is no name"):
        db.source("Δl", "k BIGINT")
    with pytest.raises(QueryError, match="`_w` has a meaning"):
        db.source("c", "k BIGINT, os ARRAY<STRUCT<_w: BIGINT>>", key="k")
    with pytest.raises(QueryError, match="`_w` has a meaning"):
        db.view("v", "SELECT k AS _w FROM l")
    with pytest.raises((QueryError, IllTyped), match="`_i` has a meaning"):
        db.view("v", "SELECT k, collect_list(struct(n AS _i)) AS ns FROM l GROUP BY k")
    assert db.views == []


def test_a_column_called_like_an_argument(db: hw.Database) -> None:
    db.source("l", "cls BIGINT, self BIGINT")
    db.view("v", "SELECT cls, collect_list(self) AS ns FROM l GROUP BY cls")
    db.apply({"l": [(1, 2)]})
    assert db["v"].lookup(1).asDict() == {"cls": 1, "ns": [2]}


def test_rows_that_have_nothing_but_arrays_need_a_key(db: hw.Database) -> None:
    db.source("l", "k BIGINT")
    db.view("v", "SELECT collect_list(k) AS ks FROM l")
    with pytest.raises(QueryError, match="the first column of `v` is an array"):
        db.lookup("v", (1,))


# --- versions ---------------------------------------------------------------------------------------------------------


def test_a_source_before_it_was_declared(db: hw.Database) -> None:
    before = db.version
    db.source("l", "k BIGINT")
    with pytest.raises(UnknownName, match=f"no source `l` at version {before}"):
        db.table("l", before)


def test_changes_across_other_columns(db: hw.Database) -> None:
    db.source("l", "k BIGINT, n BIGINT")
    db.view("v", "SELECT k FROM l")
    db.apply({"l": [(1, 2)]})
    db.drop("v")
    db.view("v", "SELECT k, n FROM l")
    with pytest.raises(QueryError, match="defined anew with other columns"):
        db.changes_table("v", 0)
    assert db.changes_table("v", db.version - 1).num_rows == 1


# --- copies -----------------------------------------------------------------------------------------------------------


@hw.query
def bags_of_bags(l):  # noqa: E741
    return [
        {"k": k, "m": [[y.o for y in l if y.k == x.o] for x in l if x.k == k]}
        for k in {x.k for x in l}
    ]


class Store:
    """A store of documents in a dict, with changes inside."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.documents: dict[Any, Any] = {}

    def version(self) -> int | None:
        return self.at

    def put(self, key: Any, document: Any, version: int) -> None:
        self.documents[key] = document

    def delete(self, key: Any, version: int) -> None:
        self.documents.pop(key, None)

    def update(self, key: Any, changes: Any, version: int) -> None:
        self.documents[key] = updated(self.documents[key], changes)

    def done(self, version: int, whole: bool) -> None:
        self.at = version


def test_copies_of_bags_of_bags(db: hw.Database, tmp_path: Path) -> None:
    db.source("l", "k BIGINT, o BIGINT")
    db.view("v", bags_of_bags)
    store = Store()
    files, documents = ParquetCopy(tmp_path / "copy"), DocumentCopy(store)
    for rows in ([(1, 2), (2, 5)], [(2, 6), (1, 7)]):
        db.apply({"l": rows})
        files.sync(db["v"])
        documents.sync(db["v"])
        expected = {r["k"]: canon(r["m"]) for r in db.table("v").to_pylist()}
        assert {r["k"]: canon(r["m"]) for r in files.rows().to_pylist()} == expected
        assert {k: canon(d["m"]) for (k,), d in store.documents.items()} == expected


def canon(bags: list[list[int]]) -> list[list[int]]:
    return sorted(sorted(inner) for inner in bags)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k AS _base FROM l",
        "SELECT k, collect_list(struct(o AS _labels)) AS os FROM l GROUP BY k",
        "SELECT k, collect_list(o) AS `o.s` FROM l GROUP BY k",
    ],
)
def test_names_that_copies_read_otherwise(db: hw.Database, tmp_path: Path, query: str) -> None:
    db.source("l", "k BIGINT, o BIGINT")
    db.view("v", query)
    for copy in (ParquetCopy(tmp_path / "copy"), DocumentCopy(Store())):
        with pytest.raises(QueryError, match="a name that copies read otherwise"):
            copy.sync(db["v"])


def test_a_document_whose_key_is_no_number(db: hw.Database) -> None:
    db.source("l", "k DOUBLE, o BIGINT")
    db.view("v", "SELECT k, collect_list(o) AS os FROM l GROUP BY k")
    store = Store()
    copy = DocumentCopy(store)
    for o in (1, 2):
        db.apply({"l": [(float("nan"), o)]})
        copy.sync(db["v"])
    (document,) = store.documents.values()
    assert sorted(document["os"]) == [1, 2]


def test_a_time_inside_of_a_zone_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LOCAL_ZONE", "GMT+05:30")
    with hw.open(tmp_path / "db") as db:
        db.source("c", INSIDE, key="k")
        with pytest.raises(BadChange, match=r"row 1 of the change of `c`.*`ts`"):
            db.apply({"c": [{**ROW, "ts": [datetime(2024, 1, 1, 12)]}]})
