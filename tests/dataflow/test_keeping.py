"""State handles beside plain dicts: whatever a call does to one and to the other, they read the same, and write the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headwater.dataflow.keeping import Kept, State, Writes
from headwater.dataflow.one_record import closed, one_record
from headwater.dataflow.rows import row_class
from headwater.errors import StageError

RECORD = Kept("", "record", ("n", "m"))
RECORDS = Kept("", "records", ("n", "m"), ("k",), ("m",))
ONLY = Kept("", "records", ("n",), ("k",), (), ("k",))
PAIRS = Kept("", "records", ("n",), ("a", "b"))
BAG = Kept("", "bag", ("x", "y"), (), ("y",))


def opened(kept: Kept, was: dict[Any, Any], **more: Any) -> tuple[State, Any]:
    state = State([kept], {"": was}, **more)
    return state, state.given()


def after(was: dict[Any, Any], writes: Writes) -> dict[Any, Any]:
    """What a group's records are when what was written is put over them."""
    both = {**was, **writes.own[""].writes}
    return {k: v for k, v in both.items() if v is not None}


# --- random stories -------------------------------------------------------------------------------------------------


def one(kept: Kept, was: dict[Any, Any], clock: Any = None) -> tuple[Any, Any]:
    """The same record as the quick state that an engine gives."""
    state = one_record(kept)(kept, was.get(()), clock, 1)
    return state, state


@pytest.mark.property
@pytest.mark.parametrize("open_one", [opened, one])
def test_a_record_is_a_dict(open_one: Any) -> None:
    for seed in range(200):
        chance = random.Random(seed)
        was = {(): (1, None)} if chance.random() < 0.5 else {}
        state, given = open_one(RECORD, was)
        model: dict[str, Any] | None = {"n": 1, "m": None} if was else None
        for _ in range(chance.randint(0, 6)):
            name, value = chance.choice("nm"), chance.randint(0, 9)
            if chance.random() < 0.25:
                given.clear()
                model = None
            else:
                setattr(given, name, value)
                model = {**(model or {"n": None, "m": None}), name: value}
            assert (given.n, given.m) == ((model["n"], model["m"]) if model else (None, None))
            assert bool(given) == (model is not None)
        expected = {} if model is None else {(): (model["n"], model["m"])}
        assert after(was, closed(state)) == expected


@pytest.mark.property
def test_records_are_a_dict_of_dicts() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        was = {(k,): (chance.randint(0, 9), chance.randint(0, 3)) for k in chance.sample("abc", 2)}
        state, given = opened(RECORDS, was)
        model = {k: list(v) for (k,), v in was.items()}
        for _ in range(chance.randint(0, 8)):
            k, what = chance.choice("abcd"), chance.random()
            if what < 0.1:
                given.clear()
                model = {}
            elif what < 0.3:
                del given[k]
                model.pop(k, None)
            else:
                name, value = chance.choice("nm"), chance.randint(0, 9)
                setattr(given[k], name, value)
                model.setdefault(k, [None, None])["nm".index(name)] = value
            _same_records(given, model)
        assert after(was, state.close()) == {(k,): tuple(v) for k, v in model.items()}


def _same_records(given: Any, model: dict[str, list[Any]]) -> None:
    assert len(given) == len(model)
    in_order = sorted(model, key=lambda k: (model[k][1] is not None, model[k][1] or 0, k))
    assert [e.k for e in given] == in_order, "by m, of which NULL is first, then by key"
    for k in "abcd":
        assert (k in given) == bool(given[k]) == (k in model)
        assert [given[k].n, given[k].m] == model.get(k, [None, None])


@pytest.mark.property
def test_a_bag_is_a_counter() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        was = {(x, x % 2): 1 + x for x in chance.sample(range(4), 2)}
        state, given = opened(BAG, dict(was))
        model = Counter(was)
        for _ in range(chance.randint(0, 6)):
            x, n = chance.randrange(4), chance.randint(-2, 3)
            match chance.randrange(5):
                case 0:
                    given.clear()
                    model.clear()
                case 1:
                    given.add([(x, x % 2, n)])
                    model[x, x % 2] += n
                case 2:
                    given.remove((x, x % 2))
                    model[x, x % 2] -= 1
                case 3:
                    given.add({"y": x % 2, "x": x})
                    model[x, x % 2] += 1
                case 4:
                    given.add([row_class(("y", "other", "x", "_w"))((x % 2, "", x, n))])
                    model[x, x % 2] += n
            there = {r: c for r, c in model.items() if c}
            assert {(r.x, r.y): r._w for r in given} == there
            assert [(r.y, r.x) for r in given] == sorted((y, x) for x, y in there)
            assert sum(r._w for r in given) == sum(there.values())
            if all(c > 0 for c in there.values()):
                every = [r for r in sorted(there, key=lambda r: r[::-1]) for _ in range(there[r])]
                assert [tuple(given.nth(i)[:2]) for i in range(len(given))] == every
                with pytest.raises(IndexError, match=f"no row {len(every)} in a bag of"):
                    given.nth(len(every))
        total = Counter(was)
        for row, n in state.close().own[""].writes.items():
            total[row] += n
        assert {r: c for r, c in total.items() if c} == {r: c for r, c in model.items() if c}


# --- one by one -------------------------------------------------------------------------------------------------------


def test_what_is_not_written_is_no_write() -> None:
    state, given = opened(RECORD, {(): (1, 2)})
    assert given.n == 1
    assert state.close().own[""].writes == {}
    state, given = opened(RECORD, {})
    given.n = 1
    given.clear()
    assert state.close().own[""].writes == {}, "there was nothing, and there is nothing"


@pytest.mark.parametrize("open_one", [opened, one])
def test_columns_of_a_record_that_are_not_there(open_one: Any) -> None:
    _, given = open_one(RECORD, {})
    with pytest.raises(AttributeError, match=r"the state has no `k`; it has n, m"):
        _ = given.k
    with pytest.raises(AttributeError, match=r"no (attribute 'k'|`k`; it has n, m)"):
        given.k = 1


@pytest.mark.parametrize("open_one", [opened, one])
def test_words_of_a_record(open_one: Any) -> None:
    state, given = open_one(RECORD, {(): (1, 2)}, clock=7)
    given.at("b").n = 5
    given.wake(9)
    given.n = 3
    assert given.clock == 7 and given.m == 2
    writes = closed(state)
    assert (writes.wakes, writes.wake) == (True, 9)
    assert writes.own[""].writes == {(): (3, 2)}
    assert writes.others[("b",)][""].writes == {(): (5, None)}
    for write in (lambda: given.wake(1), lambda: setattr(given, "n", 1), given.clear):
        with pytest.raises(StageError, match="after the function returned"):
            write()
    state, given = open_one(RECORD, {(): (1, 2)})
    given.wake(9)
    given.clear()
    writes = closed(state)
    assert (writes.wakes, writes.wake, writes.own[""].writes) == (True, None, {(): None})


@pytest.mark.parametrize("open_one", [opened, one])
def test_a_column_may_be_called_close(open_one: Any) -> None:
    """Of prices there is an open and a close; the quick state had a method of that name, which the column hid."""
    state, given = open_one(Kept("", "record", ("open", "close")), {(): (1, 2)})
    given.close = given.open + 4
    assert closed(state).own[""].writes == {(): (1, 5)}


def test_columns_that_are_not_there() -> None:
    _, records = opened(RECORDS, {})
    with pytest.raises(AttributeError, match=r"no `x`; it has k, n, m"):
        _ = records["a"].x
    with pytest.raises(AttributeError, match=r"no `k` to set; it has n, m"):
        records["a"].k = 1


def test_keys_of_several_columns() -> None:
    state, given = opened(PAIRS, {(1, "x"): (5,)})
    assert given[1, "x"].n == 5 and given[1, "x"].b == "x" and (1, "y") not in given
    with pytest.raises(KeyError, match="is no key of the state, which has a, b"):
        _ = given[1]
    given[2, "y"].n = 6
    assert [(e.a, e.b, e.n) for e in given] == [(1, "x", 5), (2, "y", 6)]
    assert state.close().own[""].writes == {(2, "y"): (6,)}


def test_zeros_and_nan_are_one_key_each() -> None:
    state, given = opened(RECORDS, {})
    given[0.0].n, given[-0.0].n = 1, 2
    given[float("nan")].n = 3
    assert given[float("nan")].n == 3 and len(given) == 2
    assert len(state.close().own[""].writes) == 2


def test_with_only_what_rows_name_is_there() -> None:
    state, given = opened(ONLY, {("a",): (1,)}, seen={"": {("a",), ("b",)}})
    assert given["a"].n == 1 and given["b"].n is None and "b" not in given
    given["b"].n = 2
    for read in (lambda: given["c"].n, lambda: "c" in given, lambda: bool(given["c"])):
        with pytest.raises(StageError, match=r"the state at \('c',\) was not loaded") as e:
            read()
        assert "a row's k names" in e.value.hint
    for walk in (list, len, bool):
        with pytest.raises(StageError, match="read by `only`, and cannot be gone through"):
            walk(given)
    assert state.close().own[""].writes == {("b",): (2,)}


def test_a_deletion_of_an_entry_that_is_not_loaded_survives_clear() -> None:
    """With `only` an entry may be deleted unseen; clear() forgot that it was to go."""
    state, given = opened(ONLY, {("a",): (1,)}, seen={"": {("a",)}})
    del given["z"]
    given.clear()
    assert state.close().own[""].writes == {("z",): None, ("a",): None}


def test_clear_and_then_write() -> None:
    state, given = opened(RECORDS, {("a",): (1, 1), ("b",): (2, 2)})
    given["c"].n = 1
    given.clear()
    given["b"].n = 5
    assert [(e.k, e.n, e.m) for e in given] == [("b", 5, None)]
    writes = state.close().own[""].writes
    assert {k: v for k, v in writes.items() if k != ("c",)} == {("a",): None, ("b",): (5, None)}
    assert writes.get(("c",)) is None
    state, bag = opened(BAG, {(1, 1): 3})
    bag.clear()
    bag.add((1, 1))
    assert [tuple(r) for r in bag] == [(1, 1, 1)]
    assert state.close().own[""].writes == {(1, 1): -2}


def test_what_may_be_added_to_a_bag() -> None:
    one = Kept("", "bag", ("x",))
    for rows, expected in [
        (5, {(5,): 1}),
        ("abc", {("abc",): 1}),
        (b"abc", {(b"abc",): 1}),
        ((5,), {(5,): 1}),
        ((5, 3), {(5,): 3}),
        ([5, 5], {(5,): 2}),
        (["abc"], {("abc",): 1}),
        (((5,), (6,)), {(5,): 1, (6,): 1}),
        ({"x": 5, "_w": -1}, {(5,): -1}),
        ((), {}),
        ([], {}),
        ((x for x in (1, 2)), {(1,): 1, (2,): 1}),
    ]:
        state, given = opened(one, {})
        given.add(rows)
        assert state.close().own[""].writes == expected, rows


def test_text_is_one_row_of_a_bag() -> None:
    """It was gone through letter by letter."""
    state, given = opened(Kept("", "bag", ("x",)), {})
    given.add("ab")
    assert list(state.close().own[""].writes) == [("ab",)]


@pytest.mark.parametrize("weight", [1.5, "2", None, True])
def test_a_weight_in_a_bag_is_a_whole_number(weight: Any) -> None:
    _, given = opened(BAG, {})
    with pytest.raises(StageError, match="with the weight") as e:
        given.add([(1, 2, weight)])
    assert "whole number" in e.value.hint


def test_a_bag_that_more_was_taken_from_than_it_had() -> None:
    """Python said that a length should not be negative, and nothing of the state."""
    _, given = opened(BAG, {(1, 1): 1})
    given.remove([(1, 1), (2, 2)])
    assert list(given) == sorted(given) == [(2, 2, -1)], "both ask for a length first"
    assert given, "it has rows, though fewer than none"
    with pytest.raises(StageError, match="more rows were taken from the state than it had") as e:
        len(given)
    assert "`_w`" in e.value.hint


def test_what_is_no_row_of_a_bag() -> None:
    _, given = opened(BAG, {})
    with pytest.raises(StageError, match=r"is no row of the state, which has x, y"):
        given.add([(1,)])


def test_several_parts_have_names() -> None:
    parts = [Kept("one", "record", ("n",)), Kept("many", "records", ("n",), ("k",))]
    state = State([*parts, Kept("rows", "bag", ("x",))], {"one": {(): (1,)}})
    given = state.given()
    assert given.one.n == 1 and len(given.many) == 0 and len(given.rows) == 0
    given.one.n, given.many["a"].n = 2, 3
    given.rows.add(4)
    with pytest.raises(AttributeError, match="not set as a whole"):
        given.one = 5
    with pytest.raises(AttributeError, match="has no `two`; it has one, many, rows"):
        _ = given.two
    given.many.clear()
    writes = state.close().own
    assert writes["one"].writes == {(): (2,)} and writes["rows"].writes == {(4,): 1}
    assert not any(writes["many"].writes.values())


def test_clear_of_all_parts_takes_the_wake_back() -> None:
    parts = [Kept("one", "record", ("n",)), Kept("rows", "bag", ("x",))]
    state = State(parts, {"one": {(): (1,)}, "rows": {(4,): 2}}, clock=10)
    given = state.given()
    assert given.clock == 10
    given.wake(20)
    given.clear()
    writes = state.close()
    assert (writes.wakes, writes.wake) == (True, None)
    assert writes.own["one"].writes == {(): None} and writes.own["rows"].writes == {(4,): -2}


def test_a_wake_that_is_not_said_is_none() -> None:
    state, given = opened(RECORD, {})
    given.n = 1
    assert not state.close().wakes
    state, given = opened(RECORD, {})
    given.wake(5)
    given.wake(7)
    assert state.close().wake == 7


def test_of_an_empty_state() -> None:
    for kept in (RECORD, RECORDS, BAG):
        assert not opened(kept, {})[1], kept.kind
    assert opened(RECORD, {(): (None, None)})[1] and opened(BAG, {(1, 1): 1})[1]


# --- another group's ----------------------------------------------------------------------------------------------------


def test_the_state_of_another_group_is_written_to() -> None:
    state, given = opened(RECORD, {(): (1, 1)})
    given.at("b").n = 5
    given.at("b").m = 6
    given.at("c").clear()
    writes = state.close()
    assert writes.own[""].writes == {}
    found = {k: held[""].writes for k, held in writes.others.items()}
    assert found == {("b",): {(): (5, 6)}, ("c",): {(): None}}


def test_the_state_of_another_group_is_not_read() -> None:
    """It was None, silently: `at(k).n = (at(k).n or 0) + 1` counted to one."""
    reads: list[tuple[Kept, Callable[[Any], Any]]] = [
        (RECORD, lambda s: s.n),
        (RECORD, bool),
        (RECORDS, lambda s: s["a"].n),
        (RECORDS, lambda s: "a" in s),
        (RECORDS, list),
        (RECORDS, len),
        (BAG, list),
        (BAG, len),
        (BAG, lambda s: s.nth(0)),
    ]
    for kept, read in reads:
        _, given = opened(kept, {})
        with pytest.raises(StageError, match="the state of another group is read"):
            read(given.at("b"))
    _, given = opened(RECORD, {})
    given.at("b").n = 1
    assert given.at("b").n == 1, "but for what this call wrote"


def test_records_and_bags_of_another_group() -> None:
    state, given = opened(RECORDS, {})
    given.at("b")["x"].n = 5
    del given.at("b")["y"]
    with pytest.raises(StageError, match="cannot be cleared, for they are not known here"):
        given.at("b").clear()
    assert state.close().others[("b",)][""].writes == {("x",): (5, None), ("y",): None}
    state, given = opened(BAG, {})
    given.at("b").add((1, 2))
    with pytest.raises(StageError, match="cannot be cleared"):
        given.at("b").clear()
    assert state.close().others[("b",)][""].writes == {(1, 2): 1}


def test_keys_of_other_groups() -> None:
    state, given = opened(RECORD, {}, key_width=2)
    given.at((1, 2)).n = 5
    with pytest.raises(StageError, match="1 is no key of the stage's groups"):
        given.at(1)
    assert list(state.close().others) == [(1, 2)]
    state, given = opened(RECORD, {}, key_width=0)
    given.at(()).n = 5
    assert list(state.close().others) == [()]


# --- afterwards -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "write"),
    [
        (RECORD, lambda s: setattr(s, "n", 1)),
        (RECORD, lambda s: s.clear()),
        (RECORD, lambda s: s.wake(1)),
        (RECORD, lambda s: setattr(s.at("b"), "n", 1)),
        (RECORDS, lambda s: setattr(s["a"], "n", 1)),
        (RECORDS, lambda s: s.__delitem__("a")),
        (RECORDS, lambda s: s.clear()),
        (BAG, lambda s: s.add((1, 2))),
        (BAG, lambda s: s.remove((1, 2))),
        (BAG, lambda s: s.clear()),
    ],
)
def test_nothing_is_written_after_the_call(kept: Kept, write: Callable[[Any], Any]) -> None:
    state, given = opened(kept, {})
    writes = state.close()
    with pytest.raises(StageError, match="written to after the function returned") as e:
        write(given)
    assert e.value.hint == "write before it returns"
    assert not writes.own[""].writes and not writes.wakes
    assert not any(h.writes for held in writes.others.values() for h in held.values())


def test_an_entry_that_was_held_is_not_written_to_afterwards() -> None:
    state, given = opened(RECORDS, {})
    entry = given["a"]
    state.close()
    with pytest.raises(StageError, match="after the function returned"):
        entry.n = 1
