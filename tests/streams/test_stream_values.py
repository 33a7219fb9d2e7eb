"""Streams as values: the monoid, prefixes, flattenings and reading by another schema, over random schemas."""

from __future__ import annotations

import pickle
from random import Random

import pytest

from headwater.calculus.types import BIGINT
from headwater.errors import NotInSchema
from headwater.streams.order import relaxes
from headwater.streams.schema import (
    Bag,
    Event,
    Header,
    Headers,
    Par,
    PartitionBy,
    Schema,
    Seq,
    Sync,
)
from headwater.streams.schema import parse as schema_of
from headwater.streams.stream import (
    Beside,
    Events,
    Keyed,
    Ordered,
    Stream,
    Unordered,
    concat,
    draw,
    empty,
    flatten,
    flattenings,
    interleavings,
    is_empty,
    parse,
    prefix,
    rest,
    text,
)
from random_schemas import (
    equivalent_sequences,
    random_events,
    random_headers,
    random_relaxation,
    random_schema,
    random_stream,
    relaxes_by_definition,
    shuffled,
)

CASES = [400, pytest.param(10_000, marks=pytest.mark.slow)]

GPS = Header.of("gps", n=BIGINT, taxi=BIGINT)
RIDES = Header.of("rides", n=BIGINT, taxi=BIGINT)
HOUR = Header.of("hour", n=BIGINT)
HEADERS = {h.name: h for h in (GPS, RIDES, HOUR)}
TAXI = Sync("hour", Par(PartitionBy("taxi", Seq("gps")), Bag("rides")))
RED, GREEN, BLUE = 1, 2, 3
NONE = Unordered()


def sequence(*events: Event) -> Ordered:
    """A stream of a Seq."""
    return Ordered(NONE, tuple((e, NONE) for e in events))


def drawn(rng: Random, most: int = 4) -> tuple[Headers, Schema]:
    headers = random_headers(rng, rng.randint(1, most))
    return headers, random_schema(rng, headers)


# --- the examples -----------------------------------------------------------------------------------------


def test_the_stream_of_two_hours() -> None:
    """Example 7."""
    red = [GPS.event(n, RED) for n in range(3)]
    green, blue = GPS.event(0, GREEN), GPS.event(0, BLUE)
    rides = [RIDES.event(n, taxi) for n, taxi in enumerate((RED, GREEN, BLUE))]
    first, second, third = (HOUR.event(n) for n in range(3))
    late, ride = GPS.event(9, RED), RIDES.event(9, BLUE)
    by_taxi = Keyed({(RED,): sequence(*red), (GREEN,): sequence(green), (BLUE,): sequence(blue)})
    nothing = Beside((Keyed({}), NONE))
    stream = Ordered(
        nothing,
        (
            (first, Beside((by_taxi, Unordered(tuple(rides))))),
            (second, Beside((Keyed({(RED,): sequence(late)}), Unordered((ride,))))),
            (third, nothing),
        ),
    )
    events = [first, rides[2], red[0], blue, *red[1:], *rides[:2], green, second, late, ride, third]
    assert parse(TAXI, HEADERS, events) == stream
    assert text(stream) == (
        "[hour(0) <{1: [gps(0, 1) gps(1, 1) gps(2, 1)], 2: [gps(0, 2)], 3: [gps(0, 3)]} | "
        "{rides(0, 1), rides(1, 2), rides(2, 3)}> hour(1) <{1: [gps(9, 1)]} | {rides(9, 3)}> hour(2)]"
    )
    assert str(stream) == text(stream)
    assert draw(stream).splitlines() == [
        "hour(0)",
        "  1:",
        "    gps(0, 1)",
        "    gps(1, 1)",
        "    gps(2, 1)",
        "  2:",
        "    gps(0, 2)",
        "  3:",
        "    gps(0, 3)",
        "  {rides(0, 1), rides(1, 2), rides(2, 3)}",
        "hour(1)",
        "  1:",
        "    gps(9, 1)",
        "  {rides(9, 3)}",
        "hour(2)",
    ]


def test_two_sequences_of_one_hour() -> None:
    """Example 12: both are flattenings of one stream; swapping two rows of one taxi gives another."""
    r1, r2 = GPS.event(1, RED), GPS.event(2, RED)
    b1, b2 = GPS.event(1, BLUE), GPS.event(2, BLUE)
    ride1, ride2, ride3 = RIDES.event(1, RED), RIDES.event(2, RED), RIDES.event(1, BLUE)
    hour = HOUR.event(1)
    one = (r1, ride1, ride3, b1, ride2, b2, r2, hour)
    other = (b1, b2, r1, r2, ride3, ride1, ride2, hour)
    stream = Ordered(
        Beside(
            (
                Keyed({(RED,): sequence(r1, r2), (BLUE,): sequence(b1, b2)}),
                Unordered((ride1, ride2, ride3)),
            )
        ),
        ((hour, empty(TAXI.sub)),),
    )
    assert parse(TAXI, HEADERS, one) == parse(TAXI, HEADERS, other) == stream
    every = flattenings(stream)
    assert {one, other} <= every
    assert (
        len(every) == 6 * 210
    )  # 4! / (2! 2!) of the taxis, times 7! / 4! for where the three rides are
    assert parse(TAXI, HEADERS, (r2, ride1, ride3, b1, ride2, b2, r1, hour)) != stream


def test_a_mark_closes_all_that_is_below() -> None:
    """An a may come behind a c without a b between them."""
    headers = {n: Header.of(n, v=BIGINT) for n in "abc"}
    a, b, c = (headers[n].event for n in "abc")
    schema = Sync("a", Sync("b", Seq("c")))
    stream = parse(schema, headers, [c(1), a(2), c(3), b(4), c(5), a(6)])
    assert text(stream) == "[[[c(1)]] a(2) [[c(3)] b(4) [c(5)]] a(6)]"


def test_empty_streams() -> None:
    assert empty(Bag("a")) == Unordered()
    assert empty(Sync("a", Bag("b"))) == Ordered(Unordered())
    assert empty(PartitionBy("k", Bag("b"))) == Keyed({})
    assert empty(Par(Bag("a"), Bag("b"))) == Beside((Unordered(), Unordered()))
    assert is_empty(empty(TAXI))
    assert text(empty(TAXI)) == "[]"
    assert not is_empty(parse(TAXI, HEADERS, [HOUR.event(1)]))
    assert text(parse(PartitionBy("k", "l", Bag("a")), {"a": Header.of("a", k=BIGINT, l=BIGINT)}, [
        Event("a", (1, 2))
    ])) == "{(1, 2): {a(1, 2)}}"  # fmt: skip


def test_what_has_no_place_is_refused() -> None:
    with pytest.raises(NotInSchema, match=r"header `bids`, which is not in `hour\[taxi"):
        parse(TAXI, HEADERS, [Event("bids", (1,))])
    with pytest.raises(NotInSchema, match=r"`gps` with 1 values: gps\(1\)"):
        parse(TAXI, HEADERS, [Event("gps", (1,))])
    with pytest.raises(NotInSchema, match="streams of different schemas"):
        concat(Unordered(), Keyed({}))
    with pytest.raises(NotInSchema, match="streams of different schemas"):
        prefix(empty(TAXI), Beside(()))


def test_rows_count_in_a_bag() -> None:
    a, b = Event("a", (1,)), Event("a", (2,))
    assert Unordered((a, b, a)) == Unordered((a, a, b)) != Unordered((a, b, b))
    assert hash(Unordered((a, b, a))) == hash(Unordered((a, a, b)))
    assert rest(Unordered((a,)), Unordered((a, b, a))) == Unordered((a, b))
    assert rest(Unordered((b, b)), Unordered((a, b, a))) is None


def test_interleavings() -> None:
    a, b, c = (Event(n, ()) for n in "abc")
    assert set(interleavings((a, b), (c,))) == {(a, b, c), (a, c, b), (c, a, b)}


# --- laws -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cases", CASES)
def test_proposition_9(cases: int) -> None:
    """⊥ is neutral, ∘ is associative, ≤ is a partial order, and `rest` is what was put behind."""
    for seed in range(cases):
        rng = Random(seed)
        headers, schema = drawn(rng)
        t, u, w = (random_stream(rng, schema, headers, 5) for _ in range(3))
        none = empty(schema)
        assert concat(t, none) == t == concat(none, t), seed
        assert concat(concat(t, u), w) == concat(t, concat(u, w)), seed
        assert hash(concat(concat(t, u), w)) == hash(concat(t, concat(u, w)))
        assert prefix(t, t) and prefix(none, t)
        assert rest(t, concat(t, u)) == u, seed
        assert prefix(t, concat(concat(t, u), w))
        for a, b in ((t, u), (t, w), (u, w)):
            left = rest(a, b)
            assert left is None or concat(a, left) == b, seed
            assert not (prefix(a, b) and prefix(b, a)) or a == b, seed
        assert pickle.loads(pickle.dumps(t)) == t


@pytest.mark.parametrize("cases", CASES)
def test_a_prefix_is_a_flattening_cut_off(cases: int) -> None:
    """t ≤ u just if some flattening of u begins with one of t."""
    found = {True: 0, False: 0}
    for seed in range(cases):
        rng = Random(seed)
        headers, schema = drawn(rng, 3)
        u = random_events(rng, schema, headers, 5)
        t = shuffled(rng, schema, headers, u)[: rng.randint(0, len(u))]
        if rng.random() < 0.5:
            t = tuple(rng.sample(u, rng.randint(0, len(u))))
        whole = parse(schema, headers, u)
        begins = {s[: len(t)] for s in flattenings(whole)}
        expected = t in begins
        assert prefix(parse(schema, headers, t), whole) == expected, seed
        found[expected] += 1
    assert min(found.values()) > cases / 20


@pytest.mark.parametrize("cases", CASES)
def test_proposition_14(cases: int) -> None:
    """A sequence is a flattening of one stream, and its flattenings are the sequences that are equivalent to it."""
    for seed in range(cases):
        rng = Random(seed)
        headers, schema = drawn(rng)
        events = random_events(rng, schema, headers, 5)
        stream = parse(schema, headers, events)
        every = flattenings(stream)
        assert every == equivalent_sequences(schema, headers, events), seed
        assert tuple(flatten(stream)) in every
        assert {parse(schema, headers, s) for s in every} == {stream}, seed
        assert {text(parse(schema, headers, s)) for s in every} == {text(stream)}, seed
        cut = rng.randint(0, len(events))
        begins, behind = (parse(schema, headers, s) for s in (events[:cut], events[cut:]))
        assert concat(begins, behind) == stream, seed


@pytest.mark.parametrize("cases", CASES)
def test_proposition_17(cases: int) -> None:
    """By a schema that relaxes its own a stream is read as one; by another some stream is read as several."""
    weaker = 0
    for seed in range(cases):
        rng = Random(seed)
        headers, schema = drawn(rng)
        weak = random_relaxation(rng, schema, headers)
        stream = random_stream(rng, schema, headers, 5)
        read = {parse(weak, headers, s) for s in flattenings(stream)}
        assert len(read) == 1, seed
        assert flattenings(stream) <= flattenings(read.pop()), seed
        weaker += not relaxes(schema, weak)
    assert weaker > cases / 5


def test_a_schema_that_does_not_relax_reads_some_stream_as_several() -> None:
    """The other half: relaxation is needed. Two rows that must not be swapped are told apart."""
    seen = 0
    for seed in range(300):
        rng = Random(seed)
        headers = random_headers(rng, 2)
        strong, weak = random_schema(rng, headers), random_schema(rng, headers)
        if relaxes_by_definition(weak, strong, headers):
            continue
        seen += 1
        streams = (random_stream(rng, strong, headers, 3) for _ in range(500))
        several = (len({parse(weak, headers, s) for s in flattenings(t)}) > 1 for t in streams)
        assert any(several), (seed, str(weak), str(strong))
    assert seen > 30


def test_a_wrong_concatenation_is_seen() -> None:
    """A planted mistake: marks appended without joining the streams at the seam. Associativity stays, ⊥ does not."""

    def wrong(t: Stream, u: Stream) -> Stream:
        assert isinstance(t, Ordered) and isinstance(u, Ordered)
        return Ordered(t.before, t.frames + u.frames)

    schema = schema_of("hour[bag rides]")
    events: Events = (RIDES.event(1, 1), HOUR.event(1), RIDES.event(2, 1))
    t = parse(schema, HEADERS, events)
    assert concat(empty(schema), t) == t != wrong(empty(schema), t)
