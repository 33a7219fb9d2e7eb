"""The differ: nothing is found exactly when two sequences are one stream; as early as can be; little is kept."""

from __future__ import annotations

import random
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from headwater.calculus.types import BIGINT, DOUBLE
from headwater.errors import HeadwaterError
from headwater.streams.differ import LEFT, PIECE, RIGHT, Differ, differ
from headwater.streams.order import depends
from headwater.streams.schema import Bag, Event, Header, Par, PartitionBy, Schema, Seq, Sync
from headwater.streams.schema import parse as schema_of
from headwater.streams.stream import parse
from headwater.streams.tables import merged

NAMES = ("a", "b", "c")
HEADERS = {name: Header.of(name, k=BIGINT, l=BIGINT) for name in NAMES}
SCHEMAS = [
    schema_of(text)
    for text in (
        "bag a, b, c",
        "seq a, b, c",
        "a[bag b, c]",
        "a[seq b | bag c]",
        "a[b[seq c]]",
        "a[k{seq b | bag c}]",
        "k{seq a} | l{b[bag c]}",
        "k{a[l{seq b, c}]}",
        "k{bag a} | b[k{bag c}]",
        "k{seq a | bag b} | seq c",
        "a, b[k{bag c}]",
    )
]


def sequences(most: int) -> Any:
    row = some.tuples(some.integers(0, 1), some.integers(0, 1))
    return some.lists(some.builds(Event, some.sampled_from(NAMES), row), max_size=most)


def shuffled(schema: Schema, events: list[Event], randomness: random.Random) -> list[Event]:
    """An equivalent sequence, by swapping neighbours whose swap is the same stream."""
    events = list(events)
    for _ in range(3 * len(events)):
        i = randomness.randrange(max(1, len(events) - 1))
        pair = events[i : i + 2]
        if parse(schema, HEADERS, pair) == parse(schema, HEADERS, pair[::-1]):
            events[i : i + 2] = pair[::-1]
    return events


@settings(max_examples=400, deadline=None)
@given(some.sampled_from(SCHEMAS), sequences(6), sequences(6), some.randoms())
def test_nothing_is_found_exactly_when_the_streams_are_equal(
    schema: Schema, left: list[Event], other: list[Event], randomness: random.Random
) -> None:
    swapped = list(left)
    if len(swapped) > 1:  # a sequence that is close to the left one, and often another stream
        i, j = randomness.randrange(len(swapped)), randomness.randrange(len(swapped))
        swapped[i], swapped[j] = swapped[j], swapped[i]
    same = shuffled(schema, left, randomness)
    for right in (other, swapped, same, same[:-1], [*same, *other[:1]]):
        equal = parse(schema, HEADERS, left) == parse(schema, HEADERS, right)
        assert (differ(schema, HEADERS, left, right) is None) == equal
        assert (differ(schema, HEADERS, right, left) is None) == equal
        # Online, in any interleaving of the two sides, of which one may be over long before the other.
        both = Differ(schema, HEADERS)
        rest: list[list[Event | None]] = [[*left, None], [*right, None]]
        while any(rest):
            side = randomness.choice([s for s in (LEFT, RIGHT) if rest[s]])
            event = rest[side].pop(0)
            if event is None:
                both.end_of(side)
            else:
                (both.left, both.right)[side](event)
        found = both.difference
        assert (found is None) == equal
        if found is None:
            assert both.unmatched() == 0
        else:
            assert "differ" in str(found)


@settings(max_examples=150, deadline=None)
@given(some.sampled_from(SCHEMAS), sequences(4), sequences(4))
def test_a_difference_is_told_as_soon_as_nothing_can_mend_it(
    schema: Schema, left: list[Event], right: list[Event]
) -> None:
    """left · x and right · y are one stream for some x and y unless a difference was told, by cancelling both sides."""
    both = Differ(schema, HEADERS)
    both.lefts(left)
    told = both.rights(right) is not None
    assert told == (not agreeable(schema, left, right))


@settings(max_examples=100, deadline=None)
@given(some.sampled_from(SCHEMAS), sequences(8), sequences(8), some.integers(1, 3), some.randoms())
def test_pieces_of_any_size_tell_the_same(
    schema: Schema, left: list[Event], right: list[Event], size: int, randomness: random.Random
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("headwater.streams.differ.PIECE", size)
        assert differ(schema, HEADERS, left, shuffled(schema, left, randomness)) is None
        equal = parse(schema, HEADERS, left) == parse(schema, HEADERS, right)
        assert (differ(schema, HEADERS, left, right) is None) == equal


def agreeable(schema: Schema, left: list[Event], right: list[Event]) -> bool:
    """Whether both can go on to one stream: cancel what is first on both sides; what is left must not depend across."""
    left, right = list(left), list(right)

    def depend(x: Event, y: Event) -> bool:
        keys = depends(schema, x.header, y.header)
        return keys is not None and all(
            x.row["kl".index(key)] == y.row["kl".index(key)] for key in keys
        )

    cancelled = True
    while cancelled:
        cancelled = False
        for i, x in enumerate(left):
            if any(depend(y, x) for y in left[:i]):
                continue
            for j, z in enumerate(right):
                if z == x and not any(depend(y, z) for y in right[:j]):
                    del left[i], right[j]
                    cancelled = True
                    break
            if cancelled:
                break
    return not any(depend(x, y) for x in left for y in right)


# --- what is told -----------------------------------------------------------------------------------------

TAXI = {
    "hour": Header.of("hour", ts=BIGINT),
    "gps": Header.of("gps", taxi=BIGINT, ts=BIGINT, x=DOUBLE),
    "rides": Header.of("rides", taxi=BIGINT, cost=DOUBLE),
}
TAXIS = Sync("hour", Par(PartitionBy("taxi", Seq("gps")), Bag("rides")))


def taxi(text: str) -> list[Event]:
    """`hour 1, gps 7 2 0.5` as events."""
    made = []
    for item in text.split(","):
        name, *values = item.split()
        made.append(TAXI[name].event(*(float(v) if "." in v else int(v) for v in values)))
    return made


def test_frame_key_header_and_both_rows_are_told() -> None:
    left = taxi("hour 1, gps 7 2 0.5, gps 8 2 0.1, rides 7 3.0, gps 7 4 0.6, hour 2")
    right = taxi("hour 1, gps 8 2 0.1, gps 7 2 0.5, gps 7 4 0.7, rides 7 3.0, hour 2")
    found = differ(TAXIS, TAXI, left, right)
    assert found is not None
    assert (found.header, found.key) == ("gps", (("taxi", 7),))
    assert [str(mark) for mark in found.frame] == ["hour(1)", "gps(7, 2, 0.5)"]
    assert str(found) == (
        "the streams differ in `gps`, after hour(ts=1), gps(taxi=7, ts=2, x=0.5), at taxi = 7:\n"
        "  left   gps(taxi=7, ts=4, x=0.6)\n"
        "  right  gps(taxi=7, ts=4, x=0.7)"
    )


def test_a_row_that_one_side_lacks() -> None:
    left = taxi("rides 7 3.0, rides 7 3.0, hour 2")
    found = differ(TAXIS, TAXI, left, taxi("rides 7 3.0, hour 2"))
    assert str(found) == (
        "the streams differ in `rides`, from the start:\n"
        "  left   rides(taxi=7, cost=3.0)\n"
        "  right  has no such row"
    )


def test_marks_that_differ_in_header() -> None:
    schema = Seq("a", "b")
    found = differ(schema, HEADERS, [Event("a", (0, 0))], [Event("b", (0, 0))])
    assert found is not None and (found.header, found.other_header) == ("a", "b")
    assert "right  b(0, 0)" in str(found)


def test_nan_is_equal_to_nan() -> None:
    left = [TAXI["rides"].event(1, float("nan"))]
    right = [TAXI["rides"].event(1, float("inf") - float("inf"))]
    assert differ(TAXIS, TAXI, left, right) is None
    assert differ(TAXIS, TAXI, left, taxi("rides 1 0.5")) is not None


def test_tables() -> None:
    ride = pa.table({"cost": [1.0, 2.0], "taxi": [1, 2]})
    assert differ(Bag("rides"), TAXI, {"rides": ride}, {"rides": [(2, 2.0), (1, 1.0)]}) is None
    assert differ(Bag("rides"), TAXI, {"rides": ride}, {"rides": [(2, 2.0)]}) is not None
    with pytest.raises(HeadwaterError, match="no order between them"):
        differ(TAXIS, TAXI, {"rides": ride, "hour": []}, [])
    with pytest.raises(HeadwaterError, match="no column `taxi`"):
        differ(Bag("rides"), TAXI, {"rides": pa.table({"cost": [1.0]})}, [])
    with pytest.raises(HeadwaterError, match="`trips` is not in the schema"):
        differ(Bag("rides"), TAXI, {"trips": ride}, [])
    with pytest.raises(HeadwaterError, match="`trips` is not in the schema"):
        differ(Bag("rides"), TAXI, [Event("trips", (1,))], [])


def test_tables_merged_by_a_column_have_marks_before_rows() -> None:
    tables = {"gps": [(7, 3, 0.1), (7, 1, 0.2), (6, 3, None)], "hour": [(3,), (0,)]}
    events = merged(tables, TAXI, "ts", marks=["hour"])
    assert [str(e) for e in events] == [
        "hour(0)", "gps(7, 1, 0.2)", "hour(3)", "gps(6, 3, None)", "gps(7, 3, 0.1)",
    ]  # fmt: skip


# --- how much is kept, and how fast -----------------------------------------------------------------------


def frames(n: int, each: int, randomness: random.Random) -> list[Event]:
    """n hours of `each` rides and fixes, shuffled within the hour as far as the schema allows."""
    gps, rides, hour = TAXI["gps"], TAXI["rides"], TAXI["hour"]
    events: list[Event] = []
    for h in range(n):
        own = [Event("rides", rides.row(i % 97, float(i % 13))) for i in range(each // 2)]
        randomness.shuffle(own)
        fixes = [[Event("gps", gps.row(t, i, 0.5)) for i in range(each // 200)] for t in range(100)]
        randomness.shuffle(fixes)
        mixed = own + [e for fix in fixes for e in fix]
        events += [*mixed, hour.event(h)]
    return events


def test_memory_of_a_frame() -> None:
    left, right = frames(20, 2000, random.Random(1)), frames(20, 2000, random.Random(2))
    most = 0
    both = Differ(TAXIS, TAXI)
    for x, y in zip(left, right, strict=True):
        assert both.left(x) is None and both.right(y) is None
        most = max(most, both.unmatched())
    assert both.end() is None
    assert most <= 2 * 2001
    # Where pieces are large beside frames, a piece more is kept.
    assert PIECE <= 10_000


def test_speed() -> None:
    left, right = frames(10, 10_000, random.Random(1)), frames(10, 10_000, random.Random(2))
    began = time.process_time()  # not by the clock: others may be at work
    assert differ(TAXIS, TAXI, left, right) is None
    taken = time.process_time() - began
    assert taken < 1.0  # two streams of 100,000 rows; a million is a slow test


@pytest.mark.slow
def test_a_million_rows() -> None:
    left, right = frames(20, 50_000, random.Random(1)), frames(20, 50_000, random.Random(2))
    began = time.perf_counter()
    assert differ(TAXIS, TAXI, left, right) is None
    assert time.perf_counter() - began < 5.0
