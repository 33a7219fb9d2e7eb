"""Laws of patterns, punctuations and sets of them, over every type that has an order."""

from __future__ import annotations

import json
import math
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.calculus import types as ty
from headwater.calculus.patterns import (
    ANYTHING,
    EVERYTHING,
    NONE,
    NOTHING,
    Constant,
    OneOf,
    Punctuation,
    Punctuations,
    Range,
    above,
    below,
    between,
    combine,
    constant,
    matches,
    matching_rows,
    minus,
    normal,
    one_of,
    other_rows,
    parse_punctuation,
    parse_punctuations,
    pattern,
    since,
    subsumes,
    unmatched,
    upto,
)
from headwater.calculus.scalars import order
from headwater.calculus.types import Base
from headwater.errors import BadPattern, ParseError
from random_patterns import POOLS, few_columns, patterns, probes, punctuations, rows, types

pytestmark = pytest.mark.property
closed = Punctuation.of
WHOLE = {"zone": ty.INTEGER, "hour": ty.INTEGER}


# --- one column -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", POOLS, ids=str)
def test_values_are_in_the_order_of_spark(t: Base) -> None:
    """Every range over every two values of the pool, which is in Spark's order, against their places in it."""
    pool = POOLS[t]
    for i, low in enumerate(pool):
        for j, high in enumerate(pool[i:], i):
            for k, v in enumerate(pool):
                assert matches(between(low, high), v) == (i <= k <= j)
                assert matches(Range(low, high, False, False), v) == (i < k < j)
        assert [matches(p(low), low) for p in (below, upto, since, above)] == [0, 1, 1, 0]
        assert not any(matches(p(low), None) for p in (below, upto, since, above))


def test_negative_zero_and_nan() -> None:
    assert matches(constant(0.0), -0.0) and matches(constant(-0.0), 0.0)
    assert constant(-0.0) == constant(0.0) and str(constant(-0.0)) == "0.0"
    nan = float("nan")
    assert matches(constant(math.nan), nan) and matches(one_of([1.0, nan]), math.nan)
    assert constant(nan) == constant(-nan) and hash(constant(nan)) == hash(constant(math.nan))
    assert pickle.loads(pickle.dumps(upto(nan))) == upto(math.nan)
    assert matches(since(math.inf), nan) and not matches(below(nan), nan)
    assert normal(upto(nan), ty.DOUBLE) == Range(None, None, False, False)


@given(st.data(), types)
def test_combine_is_the_intersection(data: st.DataObject, t: Base) -> None:
    """matches(combine(p, q), v) ⇔ matches(p, v) ∧ matches(q, v), with the type and without."""
    p, q = data.draw(patterns(t)), data.draw(patterns(t))
    for v in probes(t):
        both = matches(p, v) and matches(q, v)
        assert matches(combine(p, q), v) == both
        found = combine(normal(p, t), normal(q, t), t)
        assert matches(found, v) == both
        assert found == normal(found, t)
    assert combine(p, q) == combine(q, p)


@given(st.data(), types)
def test_the_normal_form_means_the_same_and_is_one(data: st.DataObject, t: Base) -> None:
    p, q = data.draw(patterns(t)), data.draw(patterns(t))
    a, b = normal(p, t), normal(q, t)
    assert normal(a, t) == a
    assert [matches(p, v) for v in probes(t)] == [matches(a, v) for v in probes(t)]
    if (
        t.name in ty.INTEGRAL or t == ty.BOOLEAN
    ):  # where the probes tell all patterns of the pool apart
        same = [matches(a, v) for v in probes(t)] == [matches(b, v) for v in probes(t)]
        assert same == (a == b)


@given(st.data(), types)
def test_subsumption_is_a_partial_order_that_agrees_with_matching(
    data: st.DataObject, t: Base
) -> None:
    p, q, r = (normal(data.draw(patterns(t)), t) for _ in range(3))
    assert subsumes(p, p, t)
    assert not (subsumes(p, q, t) and subsumes(q, p, t)) or p == q
    assert not (subsumes(p, q, t) and subsumes(q, r, t)) or subsumes(p, r, t)
    if subsumes(p, q, t):
        assert all(matches(p, v) for v in probes(t) if matches(q, v))
        assert combine(p, q, t) == q
    if t.name in ty.INTEGRAL or t == ty.BOOLEAN:
        inside = all(matches(p, v) for v in probes(t) if matches(q, v))
        assert subsumes(p, q, t) == inside


@given(st.data(), types)
def test_minus_takes_away(data: st.DataObject, t: Base) -> None:
    p, q = (normal(data.draw(patterns(t)), t) for _ in range(2))
    left = minus(p, q, t)
    for v in probes(t):
        assert sum(matches(x, v) for x in left) == (matches(p, v) and not matches(q, v))
    assert (left == ()) == subsumes(q, p, t)


def test_forms_written_out() -> None:
    """What users write, in the one form of a type."""
    whole = Range(None, None, False, False)
    for given_, t, wanted in [
        (below(5), ty.INTEGER, upto(4)),
        (above(5), ty.BIGINT, since(6)),
        (Range(4, 5, False, False), ty.INTEGER, NOTHING),
        (Range(4, 6, False, False), ty.INTEGER, Constant(5)),
        (between(5, 5), ty.INTEGER, Constant(5)),
        (one_of([3, 1, 2]), ty.INTEGER, between(1, 3)),
        (one_of([3, 1]), ty.INTEGER, OneOf((1, 3))),
        (one_of([2, None, 1]), ty.INTEGER, OneOf((None, 1, 2))),
        (since(-128), ty.TINYINT, whole),
        (above(127), ty.TINYINT, NOTHING),
        (since(127), ty.TINYINT, Constant(127)),
        (below(True), ty.BOOLEAN, Constant(False)),
        (upto(True), ty.BOOLEAN, whole),
        (one_of([True, False, None]), ty.BOOLEAN, ANYTHING),
        (below(5), ty.DOUBLE, below(5.0)),
        (Range(4, 5, False, False), ty.DOUBLE, Range(4.0, 5.0, False, False)),
        (constant(0.1), ty.FLOAT, Constant(0.10000000149011612)),
        (upto(""), ty.STRING, Constant("")),
        (below(""), ty.STRING, NOTHING),
        (constant(Decimal("1.5")), ty.decimal(5, 2), Constant(Decimal("1.50"))),
        (constant(3), ty.decimal(5, 2), Constant(Decimal("3.00"))),
        (below("2024-03-01"), ty.DATE, upto(date(2024, 2, 29))),
        (below(datetime(2024, 3, 1)), ty.DATE, upto(date(2024, 2, 29))),
        (below("2024-03-01"), ty.TIMESTAMP, below(datetime(2024, 3, 1))),
        (below(date(2024, 3, 1)), ty.TIMESTAMP_NTZ, below(datetime(2024, 3, 1))),
        (below("2024-03-01T02:00+02:00"), ty.TIMESTAMP, below(datetime(2024, 3, 1))),
        (below(datetime(2024, 3, 1, tzinfo=UTC)), ty.TIMESTAMP, below(datetime(2024, 3, 1))),
    ]:
        assert normal(given_, t) == wanted, f"{given_} as {t}"
    assert str(normal(constant(Decimal("1.5")), ty.decimal(5, 2))) == "1.50"
    there = normal(below(datetime(2024, 7, 1, 2)), ty.TIMESTAMP, zone="Europe/Berlin")
    assert there == below(datetime(2024, 7, 1))
    assert pattern({1, 6}) == pattern([6, 1, 6]) == OneOf((1, 6))
    assert (pattern(None), pattern([7]), pattern([])) == (Constant(None), Constant(7), NOTHING)
    assert pattern(below(3)) == below(3)


ZONED = datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("p", "t", "says"),
    [
        (constant("5"), ty.INTEGER, "`c`: '5' is no int"),
        (constant(5.0), ty.INTEGER, "`c`: 5.0 is no int"),
        (constant(True), ty.INTEGER, "`c`: True is no int"),
        (below(2**31), ty.INTEGER, "`c`: 2147483648 is no int"),
        (constant(1), ty.BOOLEAN, "`c`: 1 is no boolean"),
        (constant(Decimal("0.005")), ty.decimal(5, 2), "no decimal(5,2)"),
        (constant(1000), ty.decimal(5, 2), "1000 is no decimal(5,2)"),
        (constant(0.5), ty.decimal(5, 2), "0.5 is no decimal(5,2)"),
        (constant(2**53 + 1), ty.DOUBLE, "is no double"),
        (constant(b"a"), ty.STRING, "b'a' is no string"),
        (constant("\ud800"), ty.STRING, "is no string"),
        (constant("a"), ty.BINARY, "'a' is no binary"),
        (below("yesterday"), ty.TIMESTAMP, "'yesterday' is no timestamp"),
        (below(5), ty.TIMESTAMP, "5 is no timestamp"),
        (below(ZONED), ty.TIMESTAMP_NTZ, "is no timestamp_ntz"),
        (constant(datetime(2024, 1, 1, 2)), ty.DATE, "is no date"),
        (below({1}), ty.INTEGER, "a list is written one_of([...])"),
        (between(8, 5), ty.INTEGER, "`c`: the ends of [8, 5] are turned round"),
        (constant(1), ty.ListType(ty.INTEGER), "list(int) has none"),
        (ANYTHING, ty.ListType(ty.INTEGER), "list(int) has none"),
    ],
)
def test_what_is_no_value_of_the_type_is_refused(p: Any, t: Any, says: str) -> None:
    with pytest.raises(BadPattern) as e:
        normal(p, t, column="c")
    assert says in str(e.value)
    assert e.value.hint


@pytest.mark.parametrize("make", [below, upto, since, above, lambda v: between(1, v)])
def test_null_is_no_end_of_a_range(make: Any) -> None:
    with pytest.raises(BadPattern, match="NULL is no end of a range"):
        make(None)


def test_values_of_two_kinds_are_no_list() -> None:
    with pytest.raises(BadPattern, match="cannot be compared"):
        one_of([1, "a"])


# --- several columns --------------------------------------------------------------------------------------


@given(st.data(), few_columns())
def test_punctuations_are_closed_under_and(data: st.DataObject, columns: dict[str, Base]) -> None:
    p, q = (data.draw(punctuations(columns)).normal(columns) for _ in range(2))
    both = p.combine(q, columns)
    less = p.without(q, columns)
    for row in rows(data.draw, columns):
        assert (both is not None and both.matches(row)) == (p.matches(row) and q.matches(row))
        assert sum(x.matches(row) for x in less) == (p.matches(row) and not q.matches(row))
        assert not p.subsumes(q, columns) or p.matches(row) or not q.matches(row)


@given(st.data(), few_columns())
def test_text_is_read_back(data: st.DataObject, columns: dict[str, Base]) -> None:
    p = data.draw(punctuations(columns)).normal(columns)
    assert parse_punctuation(str(p), columns) == p
    several = Punctuations(data.draw(st.lists(punctuations(columns), max_size=4)), columns)
    assert parse_punctuations(str(several), columns) == several


def test_text_written_out() -> None:
    p = closed({"zone": {1, 6}, "hour": between(5, 8)})
    assert str(p) == "⟨hour: [5, 8], zone: {1, 6}⟩"
    assert parse_punctuation("⟨zone: {1, 6}, hour: [5, 8], day: *⟩") == p
    assert str(closed({"a b": None, "c": below("it's")})) == "⟨`a b`: null, c: (*, 'it\\'s')⟩"
    assert str(closed({})) == "⟨⟩" and str(NONE) == "{}"
    two = Punctuations([closed({"hour": below(5)}), closed({"hour": 9})], WHOLE)
    assert parse_punctuations("⟨hour: (*, 4]⟩ ∪ ⟨hour: 9⟩", WHOLE) == two
    for wrong in (
        "⟨hour: 5",
        "⟨hour 5⟩",
        "⟨hour: [5, 8⟩",
        "⟨hour: 'a'⟩",
        "⟨hour: [8, 5]⟩",
        "⟨hour: -⟩",
    ):
        with pytest.raises(ParseError):
            parse_punctuation(wrong, WHOLE)


def test_helpers_over_lists() -> None:
    """The zones and hours of the outage reports."""
    reports = [{"zone": z, "hour": h} for z in (1, 2, 6) for h in (3, 5, 8)]
    p = closed({"zone": {1, 6}, "hour": between(5, 8)})
    assert matching_rows(reports, p) == [r for r in reports if r["zone"] != 2 and r["hour"] != 3]
    assert other_rows(reports, p) == [r for r in reports if r["zone"] == 2 or r["hour"] == 3]
    hour_3, hour_4 = closed({"hour": 3}), closed({"hour": 4})
    assert unmatched([hour_3, hour_4], reports) == [hour_4]
    assert matching_rows(reports, Punctuations([hour_3, hour_4])) == reports[::3]
    assert hour_3.at("zone") == ANYTHING and hour_3.shape == ("hour",)


def test_columns_that_are_not_there_are_named() -> None:
    with pytest.raises(BadPattern, match="no column `hours`") as e:
        closed({"hours": 3}).normal(WHOLE)
    assert "zone, hour" in e.value.hint


# --- sets -------------------------------------------------------------------------------------------------


@given(st.data(), few_columns())
def test_a_set_is_the_union_of_its_members_and_no_larger(
    data: st.DataObject, columns: dict[str, Base]
) -> None:
    members = data.draw(st.lists(punctuations(columns), max_size=6))
    given_ = [p.normal(columns) for p in members]
    found = Punctuations(members, columns)
    for row in rows(data.draw, columns):
        wanted = any(p.matches(row) for p in members)
        assert found.matches(row) == wanted
        assert any(p.matches(row) for p in found) == wanted
        assert Punctuations(members).matches(row) == wanted, "without types"
    assert found.size <= sum(p.size for p in given_ if not p.is_empty)
    assert Punctuations(reversed(members), columns) == found
    assert Punctuations(found, columns) == found
    for p in found:
        assert not any(q is not p and q.subsumes(p, columns) for q in found)


@given(st.data(), few_columns())
def test_union_intersection_and_covering(data: st.DataObject, columns: dict[str, Base]) -> None:
    a, b = (
        Punctuations(data.draw(st.lists(punctuations(columns), max_size=4)), columns) for _ in "ab"
    )
    p = data.draw(punctuations(columns))
    either, both, more = a | b, a & b, a.add(p)
    for row in rows(data.draw, columns):
        assert either.matches(row) == (a.matches(row) or b.matches(row))
        assert both.matches(row) == (a.matches(row) and b.matches(row))
        assert more.matches(row) == (a.matches(row) or p.matches(row))
        assert not a.subsumes(b) or a.matches(row) or not b.matches(row)
        assert not a.subsumes(p) or a.matches(row) or not p.matches(row)
    assert either.subsumes(a) and either.subsumes(b) and a.subsumes(both) and more.subsumes(p)
    assert (a | NONE, a & EVERYTHING, a & NONE) == (a, a, NONE)
    assert a | EVERYTHING == EVERYTHING and EVERYTHING.subsumes(a)
    assert b | a == either and b & a == both


@given(st.data(), st.sampled_from([t for t in POOLS if t.name in ty.INTEGRAL or t == ty.BOOLEAN]))
def test_covering_is_exact_where_there_is_one_column(data: st.DataObject, t: Base) -> None:
    """a ⊇ p if no value says otherwise; and sets over one column are equal if they mean the same."""
    of = punctuations({"a": t})
    a, b = (Punctuations(data.draw(st.lists(of, max_size=5)), {"a": t}) for _ in "ab")
    means = [[x.matches({"a": v}) for v in probes(t)] for x in (a, b)]
    assert a.subsumes(b) == all(left or not right for left, right in zip(*means, strict=True))
    assert (a == b) == (means[0] == means[1])


@given(st.data(), few_columns())
def test_sets_are_data(data: st.DataObject, columns: dict[str, Base]) -> None:
    found = Punctuations(data.draw(st.lists(punctuations(columns), max_size=4)), columns)
    stored = json.loads(json.dumps(found.to_data()))
    again = Punctuations.from_data(stored)
    assert again == found and again.types == found.types
    assert Punctuations.from_data(stored, columns) == found
    assert pickle.loads(pickle.dumps(found)) == found and hash(again) == hash(found)


def test_sets_written_out() -> None:
    def of(*members: dict[str, Any]) -> str:
        return str(Punctuations(map(closed, members), WHOLE))

    assert of({"hour": 1}, {"hour": 2}, {"hour": 3}) == "⟨hour: [1, 3]⟩"
    assert of({"hour": 1}, {"hour": 5}, {"hour": 3}) == "⟨hour: {1, 3, 5}⟩"
    assert of({"hour": below(3)}, {"hour": between(3, 5)}, {"hour": 6}) == "⟨hour: (*, 6]⟩"
    assert of({"hour": {1, 2, 9}}) == "⟨hour: [1, 2]⟩ ∪ ⟨hour: 9⟩"
    assert of({"hour": {1, 2, 9}, "zone": 4}) == "⟨hour: {1, 2, 9}, zone: 4⟩", "which is shorter"
    assert of({"hour": {1, 2, 3, 9}}) == "⟨hour: [1, 3]⟩ ∪ ⟨hour: 9⟩"
    assert of({"hour": below(3)}, {"hour": None}, {"hour": since(3)}) == "⟨⟩"
    assert of({"hour": 3}, {"hour": below(5), "zone": 1}, {"hour": 3, "zone": 7}) in (
        "⟨hour: (*, 4], zone: 1⟩ ∪ ⟨hour: 3⟩",
        "⟨hour: 3⟩ ∪ ⟨hour: (*, 4], zone: 1⟩",
    )
    grid = ({"hour": h, "zone": z} for h in (5, 6) for z in (1, 2))
    assert of(*grid) == "⟨hour: [5, 6], zone: [1, 2]⟩"
    assert of({}, {"hour": 3}) == "⟨⟩" and of({"hour": NOTHING}) == "{}"
    dense = [closed({"x": below(3.0)}), closed({"x": 3}), closed({"x": Range(3, 4, False, True)})]
    assert str(Punctuations(dense, {"x": ty.DOUBLE})) == "⟨x: (*, 4.0]⟩"
    assert len(Punctuations([closed({"x": 3}), closed({"x": 4})], {"x": ty.DOUBLE})) == 1
    assert not Punctuations([closed({"x": {3, 5}})], {"x": ty.DOUBLE}).matches({"x": 4.0})


def test_columns_are_renamed_and_promises_about_others_forgotten() -> None:
    known = Punctuations([closed({"hour": 3}), closed({"zone": 1, "hour": 9})], WHOLE)
    assert known.rename({"hour": "h"}) == Punctuations([closed({"h": 3})], {"h": ty.INTEGER})
    assert known.rename({"hour": "h", "zone": "z"}).types == {"h": ty.INTEGER, "z": ty.INTEGER}
    one = known.rename({"hour": "x", "zone": "x"})
    assert one == Punctuations([closed({"x": 3})]), (
        "a row has one value there, which is not 1 and 9"
    )


def test_types_come_with_either_set() -> None:
    typed, plain = (
        Punctuations([closed({"hour": 3})], WHOLE),
        Punctuations([closed({"hour": below(3)})]),
    )
    for found in (typed | plain, plain | typed, NONE | typed | plain):
        assert found == Punctuations([closed({"hour": upto(3)})], WHOLE)
    assert typed.add(closed({"hour": below(3)})) == typed | plain
    apart = plain | Punctuations([closed({"zone": 1})], WHOLE)
    assert set(apart) == {closed({"hour": upto(2)}), closed({"zone": 1})}
    assert plain & typed == typed & plain == NONE
    assert (plain & Punctuations([closed({"hour": above(1)})], WHOLE)).members == (
        closed({"hour": 2}),
    )


def test_a_row_is_found_behind_ranges_that_begin_later() -> None:
    long, short = (
        {"hour": between(0, 99), "zone": below(5)},
        {"hour": between(6, 7), "zone": above(8)},
    )
    found = Punctuations(map(closed, (long, short)), WHOLE)
    assert found.matches({"hour": 50, "zone": 1}) and not found.matches({"hour": 50, "zone": 9})
    assert (
        found.matches({"hour": 6, "zone": 9}) and found.add(closed({"hour": 8, "zone": 2})) is found
    )


def test_many_constants_are_one_list() -> None:
    """Sets grow about linearly: this takes a second, and minutes if each constant is compared with all others."""
    members = [closed({"hour": 3 * i}) for i in range(40_000)]
    found = Punctuations(members, WHOLE)
    assert len(found) == 1 and found.size == 40_000
    more = found.add(closed({"hour": 1}), closed({"hour": 2}))
    assert len(more) == 2 and more.matches({"hour": 2}) and not found.matches({"hour": 2})
    assert (found & more) == found and found.add(members[7]) is found
    pairs = Punctuations([closed({"hour": 3 * i, "zone": i}) for i in range(10_000)], WHOLE)
    assert len(pairs) == 10_000
    assert pairs.matches({"hour": 300, "zone": 100}) and not pairs.matches({"hour": 3, "zone": 2})
    boxes = [{"hour": between(3 * i, 3 * i + 1), "zone": below(i)} for i in range(2_000)]
    assert len(Punctuations(map(closed, boxes), WHOLE)) == 2_000


@example(5, [1, 2, 3])
@given(st.integers(0, 9), st.lists(st.integers(0, 9)))
def test_order_is_that_of_the_calculus(v: int, values: list[int]) -> None:
    """The order that ORDER BY has in the calculus is the one that patterns have."""
    assert [x for x in values if matches(below(v), x)] == [x for x in values if order(x) < order(v)]
