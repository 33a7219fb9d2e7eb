"""Changes by key: a source that is changed by upserts and deletions of keys is a plain dict.

Whatever the form that they are given in, beside rows with weights, in nested sources, and over a database that is opened
again in between.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.engine.change import FOLDER
from headwater.errors import BadChange, DeletesMissingRows, HeadwaterError
from headwater.io.upserts import Latest
from spark_session import session


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hw.Database]:
    with hw.open(tmp_path / "db") as made:
        yield made


def rows(db: hw.Database, name: str) -> list[Any]:
    found = db.table(name).to_pylist()
    return sorted((tuple(r.values())[:-1] for r in found for _ in range(r["_w"])), key=repr)


def refused(db: hw.Database, change: Any, *words: str, kind: type[HeadwaterError]) -> None:
    """The change is refused with the words, and nothing happened."""
    kept = [n for n, s in db.catalog.sources.items() if s.retain]
    before = db.version, {n: rows(db, n) for n in kept}
    with pytest.raises(kind) as caught:
        db.apply(change)
    for w in words:
        assert w in str(caught.value), f"{w!r} is not said in:\n{caught.value}"
    assert (db.version, {n: rows(db, n) for n in kept}) == before


def test_an_upsert_takes_the_place_of_the_row_with_its_key(db: hw.Database) -> None:
    """Of several with one key the last counts; views follow; what is there as it is given does not change."""
    db.source("s", "id BIGINT, item STRING", key="id")
    db.view("n", "SELECT item, count(*) AS n FROM s GROUP BY item")
    db.apply({"s": [(1, "a"), (2, "b")]})
    made = db.apply({"s": hw.Delta(upserts=[(1, "x"), (3, "c"), (1, "b"), (2, "b")])})
    assert rows(db, "s") == [(1, "b"), (2, "b"), (3, "c")]
    assert rows(db, "n") == [("b", 2), ("c", 1)]
    assert made.rows == {"s": 4}
    told = db.changes_table("s", made.version - 1).to_pylist()
    assert sorted((r["id"], r["item"], r["_w"]) for r in told) == [
        (1, "a", -1),
        (1, "b", 1),
        (3, "c", 1),
    ]


@pytest.mark.parametrize(
    "keys",
    [
        [1, 3],
        [(1,), (3,)],
        [{"ID": 1}, {"ID": 3}],
        pa.table({"id": [1, 3]}),
        pd.DataFrame({"id": [1, 3]}),
        [(1, "a"), (3, "c")],
    ],
    ids=["values", "tuples", "dicts", "arrow", "pandas", "rows"],
)
def test_deletions_may_be_keys_alone(db: hw.Database, keys: Any) -> None:
    db.source("s", "id BIGINT, item STRING NOT NULL", key="id")
    db.apply({"s": [(1, "a"), (2, "b"), (3, "c")]})
    db.apply({"s": hw.Delta(deletes=keys, upserts=[(2, "z")])})
    assert rows(db, "s") == [(2, "z")]


def test_keys_of_several_columns_are_given_in_any_order(db: hw.Database) -> None:
    db.source("s", "a BIGINT, b STRING, v INT", key=["b", "a"])
    db.apply({"s": hw.Delta(upserts=[(1, "x", 1), (1, "y", 2), (2, "x", 3)])})
    db.apply({"s": hw.Delta(deletes=[{"a": 1, "b": "y"}], upserts=[(2, "x", 4)])})
    db.apply({"s": hw.Delta(deletes=[("x", 1)])})  # in the order of the key
    assert rows(db, "s") == [(2, "x", 4)]


def test_rows_say_what_they_are_and_count_in_order(db: hw.Database) -> None:
    """A `delete` beside upserts is one of its key; `delete_key` is so by itself; columns but the key may be missing."""
    db.source("s", "id BIGINT, item STRING NOT NULL", key="id")
    up, gone = {"_change_type": "upsert"}, {"_change_type": "delete"}
    db.apply(
        {
            "s": [
                {"id": 1, "item": "a", **up},
                {"id": 2, "item": "b", **up},
                {"id": 1, **gone},
                {"id": 3, "item": "c", **up},
                {"id": 3, "item": "another", **gone},
                {"id": 3, "item": "d", **up},
            ]
        }
    )
    assert rows(db, "s") == [(2, "b"), (3, "d")]
    db.apply({"s": [{"id": 3, "_change_type": "delete_key"}]})
    assert rows(db, "s") == [(2, "b")]
    both = {"id": [2, 2, 4, 4], "item": ["b", "e", "f", "g"]}
    signs = ["update_preimage", "update_postimage", "insert", "upsert"]
    db.apply({"s": pa.table({**both, "_change_type": signs})})  # weights first, then what is by key
    assert rows(db, "s") == [(2, "e"), (4, "g")]


def test_rows_with_weights_come_first(db: hw.Database) -> None:
    """Then deletions of keys, then upserts: a key in all of them has the row that is upserted."""
    db.source("s", "id BIGINT, item STRING", key="id")
    db.apply({"s": [(1, "a"), (2, "b")]})
    db.apply(
        {
            "s": hw.Delta(
                inserts=pa.table({"id": [1, 1, 3], "item": ["a", "n", "m"], "_w": [-1, 1, 1]}),
                deletes=[1, 2, 3],
                upserts=[(1, "z")],
            )
        }
    )
    assert rows(db, "s") == [(1, "z")]


def test_keys_that_are_not_there(db: hw.Database) -> None:
    """A deletion of one is refused, or counted where the source is not strict; one of a key that came before it is none."""
    db.source("s", "id BIGINT, item STRING", key="id")
    db.source("t", "id BIGINT, item STRING", key="id", strict=False)
    refused(db, {"s": hw.Delta(deletes=[7, 8])}, "2 keys", "`s`", "id=7", kind=DeletesMissingRows)
    made = db.apply({"t": hw.Delta(deletes=[7, 8], upserts=[(8, "a")])})
    assert (made.ignored, rows(db, "t")) == ({"t": 2}, [(8, "a")])
    twice = [{"id": 8, "_change_type": "delete_key"}] * 2
    assert db.apply({"t": twice}).ignored == {"t": 1}
    refused(db, {"s": [{"id": 1, "item": "a", "_change_type": "upsert"}, *twice]}, kind=BadChange)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (hw.Delta(upserts=[(None, "a")]), ["`id`", "key"]),
        (hw.Delta(deletes=pa.table({"id": pa.array([None], pa.int64())})), ["`id`", "key"]),
        (hw.Delta(upserts=[(1, "a", 2)]), ["`s`", "_w"]),
        (hw.Delta(upserts=[(1, "toolong")]), ["VARCHAR(3)"]),
        (hw.Delta(upserts=[("x", "a")]), ["`id`", "'x'"]),
        (hw.Delta(upserts=[(1,)]), ["row 1"]),
        (hw.Delta(upserts=[{"id": 1, "item": "a", "_change_type": "upsert"}]), ["_change_type"]),
        (hw.Delta(deletes=[{"id": 1, "item": "a", "_change_type": "upsert"}]), ["deletes"]),
        ([{"id": 1, "item": "a", "_change_type": "merge"}], ["'merge'", "upsert, delete_key"]),
        (hw.Delta(inserts=[(1, "a")], upserts=None, deletes=[(1, 2, 3, 4)]), ["row 1"]),
    ],
)
def test_bad_changes_by_key(db: hw.Database, change: Any, words: list[str]) -> None:
    db.source("s", "id BIGINT, item VARCHAR(3)", key="id")
    db.apply({"s": [(5, "e")]})
    refused(db, {"s": change}, *words, kind=BadChange)


def test_sources_whose_rows_are_not_found_by_key(db: hw.Database) -> None:
    """Without a key, or without a copy of the rows, there is no upsert; what only adds has no row replaced."""
    db.source("plain", "id BIGINT")
    db.source("c", "id BIGINT, o ARRAY<STRUCT<k: BIGINT>>", key="id", retain=False)
    db.source("log", "id BIGINT, v INT", key="id", append_only=True)
    refused(db, {"plain": hw.Delta(upserts=[(1,)])}, "`plain`", "key=", kind=BadChange)
    up = [{"id": 1, "_change_type": "upsert"}]
    refused(db, {"plain": up}, "`plain`", "key=", kind=BadChange)
    with pytest.raises(BadChange, match="keeps no copy"):
        db.apply({"c": hw.Delta(upserts=[(1, [])])})
    db.apply({"log": hw.Delta(upserts=[(1, 1)])})
    refused(db, {"log": hw.Delta(upserts=[(1, 2)])}, "`log`", kind=HeadwaterError)


def test_rows_that_are_over_are_not_found(db: hw.Database) -> None:
    """A source that keeps open rows only replaces among these; a row that is closed is late."""
    db.source("s", "id BIGINT, day INT", key="id", closes="day", retain="open", late="drop")
    db.apply({"s": [(1, 1), (2, 2)]}, punctuate={"s": hw.closed(day=1)})
    made = db.apply({"s": hw.Delta(upserts=[(1, 2), (2, 3), (3, 1)])})
    assert (made.late, rows(db, "s")) == ({"s": 1}, [(1, 2), (2, 3)])


def test_a_row_of_a_nested_source_is_replaced_with_its_arrays(db: hw.Database) -> None:
    """An upsert of an outer row replaces what is inside; one of a row of an array is found by the owner's key and its own."""
    ddl = "id BIGINT, name STRING, o ARRAY<STRUCT<k: BIGINT, l: ARRAY<BIGINT>>>"
    db.source("c", ddl, key=["id", "o.k"])
    db.view("n", "SELECT id, e.k AS k FROM c LATERAL VIEW explode(o) AS e")
    db.apply({"c": [(1, "a", [(1, [1, 2]), (2, [3])]), (2, "b", [])]})
    db.apply({"c": hw.Delta(upserts=[(1, "z", [(2, [5])]), (3, "n", None)], deletes=[2])})
    assert rows(db, "c") == [(1, "z", [{"k": 2, "l": [5]}]), (3, "n", None)]
    db.apply({"c.o": hw.Delta(upserts=[(1, 2, [6]), (1, 3, [7])])})
    assert rows(db, "n") == [(1, 2), (1, 3)]
    db.apply({"c.o": hw.Delta(deletes=[(1, 2)]), "c": hw.Delta(upserts=[(3, "m", [])])})
    assert rows(db, "c") == [(1, "z", [{"k": 3, "l": [7]}]), (3, "m", [])]
    refused(db, {"c.o": hw.Delta(upserts=[(9, 1, [])])}, "c.o", kind=BadChange)
    refused(db, {"c.o.l": hw.Delta(upserts=[(1, 3, 4)])}, "c.o.l", "key", kind=BadChange)


def test_owner_and_inner_rows_by_key_in_one_change(db: hw.Database) -> None:
    """A row comes with an array, and a row of that array is replaced in the same change."""
    db.source("c", "id BIGINT, o ARRAY<STRUCT<k: BIGINT, v: INT>>", key=["id", "o.k"])
    db.apply({"c": [(1, [(1, 1)])]})
    up = hw.Delta(upserts=[(1, 2, 20), (2, 1, 21)])
    db.apply({"c.o": up, "c": hw.Delta(upserts=[(1, [(1, 5), (2, 2)]), (2, [])])})
    assert rows(db, "c") == [
        (1, [{"k": 1, "v": 5}, {"k": 2, "v": 20}]),
        (2, [{"k": 1, "v": 21}]),
    ]


# --- against a dict ------------------------------------------------------------------------------------------------

EVENTS = st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 2))), max_size=8)


@settings(max_examples=100)
@given(st.sets(st.integers(0, 3)), EVENTS)
@example({1}, [(1, None), (1, None)])
@example(set(), [(1, None), (1, 0), (1, None)])
def test_the_last_event_of_a_key_counts(there: set[int], events: list[tuple[int, Any]]) -> None:
    """What is left of each key, and whether it is there when an event comes, is what a dict says."""
    table = pa.table(
        {
            "k": pa.array([k for k, _ in events], pa.int64()),
            "_w": pa.array([-1 if v is None else 1 for _, v in events], pa.int64()),
        }
    )
    latest = Latest.of(table, ["k"])
    keys = latest.keys.column("k").to_pylist()
    found = latest.there_before(table, pa.array([k in there for k in keys]).to_numpy(False))
    held, last, before = set(there), {}, []
    for i, (k, v) in enumerate(events):
        last[k] = i
        before.append(k in held)
        (held.discard if v is None else held.add)(k)
    assert dict(zip(keys, latest.last.tolist(), strict=True)) == last
    assert found.tolist() == before


def test_ten_thousand_events_beside_a_dict(tmp_path: Path) -> None:
    """Upserts and deletions in small changes of all forms, in a database that is opened again in between, and one whose rows are nested."""
    rng = random.Random(5)
    flat: dict[int, int] = {}
    nested: dict[int, list[tuple[int, int]]] = {}
    done = 0
    for _ in range(4):
        with hw.open(tmp_path / "db") as db:
            db.source("s", "id BIGINT, v BIGINT", key="id", strict=False)
            db.source("c", "id BIGINT, o ARRAY<STRUCT<k: BIGINT, v: BIGINT>>", key="id")
            db.view("t", "SELECT v % 7 AS g, count(*) AS n, sum(id) AS s FROM s GROUP BY v % 7")
            for _ in range(12):
                events: list[dict[str, Any]] = []
                for _ in range(rng.choice([1, 10, 900])):
                    k = rng.randrange(300)
                    if rng.random() < 0.3:
                        events.append({"id": k, "v": None, "_change_type": "delete_key"})
                        flat.pop(k, None)
                    else:
                        flat[k] = rng.randrange(50)
                        events.append({"id": k, "v": flat[k], "_change_type": "upsert"})
                ups: list[Any] = []
                for _ in range(rng.randrange(5)):
                    k = rng.randrange(10)
                    bag = [(rng.randrange(3), rng.randrange(3)) for _ in range(rng.randrange(3))]
                    nested[k] = bag
                    ups.append((k, bag))
                gone = [k for k in list(nested) if rng.random() < 0.1 and k not in dict(ups)]
                for k in gone:
                    del nested[k]
                given = rng.choice([events, pa.Table.from_pylist(events), pd.DataFrame(events)])
                db.apply({"s": given, "c": hw.Delta(upserts=ups, deletes=gone)})
                done += len(events) + len(ups) + len(gone)
            assert rows(db, "s") == sorted(flat.items(), key=repr)
            groups = {v % 7 for v in flat.values()}
            ids = {g: [k for k, v in flat.items() if v % 7 == g] for g in groups}
            assert rows(db, "t") == sorted(((g, len(i), sum(i)) for g, i in ids.items()), key=repr)
            found = {
                r["id"]: sorted((e["k"], e["v"]) for e in r["o"]) for r in db.table("c").to_pylist()
            }
            assert found == {k: sorted(b) for k, b in nested.items()}
    assert done > 10_000


@pytest.mark.slow
@pytest.mark.spark
def test_upserts_of_dataframes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones come through the driver and large ones as files; one that says what its rows are is divided by that."""
    spark = session()
    monkeypatch.setattr("headwater.io.rows.INLINE", 100)
    with hw.open(tmp_path / "db", spark=spark) as db:
        db.source("s", "id BIGINT, v BIGINT", key="id")
        db.view("t", "SELECT v % 3 AS g, count(*) AS n FROM s GROUP BY v % 3")
        db.apply({"s": hw.Delta(upserts=spark.range(0, 3000).selectExpr("id", "id AS v"))})
        more = spark.range(1000, 4000, 1, 4).selectExpr("id", "-id AS v")
        made = db.apply({"s": hw.Delta(upserts=more, deletes=spark.range(0, 500))})
        assert made.rows == {"s": 3500}
        said = spark.range(990, 1010).selectExpr(
            "id", "0L AS v", "if(id % 2 = 0, 'upsert', 'delete') AS _change_type"
        )
        db.apply({"s": said})
        held = {i: i for i in range(500, 1000)} | {i: -i for i in range(1000, 4000)}
        held |= {i: 0 for i in range(990, 1010, 2)}
        for i in range(991, 1010, 2):
            del held[i]
        assert dict(rows(db, "s")) == held
        counts = Counter(v % 3 if v >= 0 else -(-v % 3) for v in held.values())  # as SQL has it
        assert dict(rows(db, "t")) == counts
        assert not list((tmp_path / "db" / FOLDER).glob("*"))
