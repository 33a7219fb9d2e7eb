"""Transformers and their steppers: the laws over random ones, the taxis with numbers, and what is refused."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers

from headwater.calculus.types import BIGINT, DOUBLE
from headwater.errors import (
    HeadwaterError,
    IllFormedSchema,
    NotInSchema,
    NotMonotone,
    SchemaMismatch,
)
from headwater.streams import stepper as stepper_module
from headwater.streams.schema import Bag, Event, Header, Par, PartitionBy, Seq, Sync
from headwater.streams.schema import parse as schema_of
from headwater.streams.stepper import Rows, State, Stepper, stepper
from headwater.streams.stream import Keyed, Stream, flatten, is_empty, parse, text
from headwater.streams.transformer import (
    NOTHING,
    Composed,
    Hierarchical,
    Parallel,
    Partitioned,
    Relational,
    Relaxed,
    Transformer,
    Value,
    steps,
)
from random_schemas import random_events, random_headers, random_schema
from random_transformers import first_value, random_pipeline, shapes
from transformer_laws import Unlawful, judge, plain


def drawn(seed: int) -> tuple[Transformer, Random]:
    """A random transformer, or several in a row."""
    rng = Random(seed)
    headers = random_headers(rng, rng.randint(1, 5))
    schema = random_schema(rng, headers)
    return random_pipeline(rng, schema, headers, rng.choice([1, 1, 1, 2, 3])), rng


def judge_drawn(seed: int) -> Transformer:
    """The laws, of a random transformer over a random sequence."""
    of, rng = drawn(seed)
    events = random_events(rng, of.input, of.headers_in, 8)
    try:
        judge(of, first_value(rng), events, rng)
    except Unlawful as error:
        raise Unlawful(f"seed {seed}, {of.input} to {of.output}: {error}") from error
    return of


# --- laws -------------------------------------------------------------------------------------------------


@pytest.mark.property
@given(integers(min_value=20_000))
@settings(max_examples=settings().max_examples // 2)
def test_the_laws_of_any_transformer(seed: int) -> None:
    judge_drawn(seed)


@pytest.mark.parametrize("cases", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_laws_of_transformers(cases: int) -> None:
    """Theorem 25, open ≤ closed, stepper = open after every prefix and = closed at the end, whatever the order."""
    seen = Counter(shape for seed in range(cases) for shape in set(shapes(judge_drawn(seed))))
    kinds = (Relational, Parallel, Hierarchical, Partitioned, Relaxed, Composed)
    assert min(seen[kind.__name__] for kind in kinds) > cases / 4


def test_random_transformers_tell_something() -> None:
    """The laws would hold of what tells nothing."""
    opened = closed = 0
    for seed in range(200):
        of, rng = drawn(seed)
        t = parse(of.input, of.headers_in, random_events(rng, of.input, of.headers_in, 8))
        x = first_value(rng)
        opened += not is_empty(of.open(x, t))
        closed += of.open(x, t) != of.closed(x, t)[1]
    assert opened > 80 and closed > 80


def test_states_are_plain() -> None:
    for seed in range(200):
        of, rng = drawn(seed)
        by = stepper(of)
        state = by.start(first_value(rng))
        for event in random_events(rng, of.input, of.headers_in, 8):
            assert plain(state)
            state, _ = by.step(state, event)
        assert plain(state)


def agg_of_first_values(self: Partitioned, x: Value, t: Stream) -> tuple[Value, Stream]:
    """Definition 24 as it is printed: agg takes what the keys began with."""
    assert isinstance(t, Keyed)
    firsts = {key: self.init(x, key) for key in t.streams}
    told = [e for key, s in t.streams.items() for e in flatten(self.sub.closed(firsts[key], s)[1])]
    value, more = self.agg(x, list(firsts.items()))
    return value, self._said([*told, *more])


def empty_keys_kept(self: Partitioned, x: Value, t: Stream) -> Stream:
    """Definition 24 as it is printed: a stream for every key, of which some are empty."""
    assert isinstance(t, Keyed)
    told = {key: self.sub.open(self.init(x, key), s) for key, s in t.streams.items()}
    if isinstance(self.output, PartitionBy):
        return Keyed(told)
    return self._said(e for s in told.values() for e in flatten(s))


def call_once(self: Hierarchical, x: Value, t: Stream) -> Stream:
    """sub of the last frame begins with the first state."""
    _, told, last = self._up_to_last_mark(x, t)
    return self._said([*told, *flatten(self.sub.open(self.call(self.init(x)), last))])


def closed_of_open(self: Composed, x: Value, t: Stream) -> tuple[Value, Stream]:
    """The second does not see what the first tells at its end."""
    final1, _ = self.first.closed(x, t)
    final2, told = self.second.closed(x, self._read(self.first.open(x, t)))
    return (final1, final2), told


def sub_goes_on(of: Hierarchical) -> Stepper:
    """A stepper that does not begin sub anew at a mark."""
    right, sub = RIGHT_HIERARCHICAL(of), stepper(of.sub)

    def step(state: State, event: Event) -> tuple[State, Rows]:
        if event.header not in of.marks:
            return right.step(state, event)
        final, told = sub.end(state[1])
        y, more = of.update(of.ret(state[0], final), event)
        return (y, state[1]), [*told, *more]

    return Stepper(right.start, step, right.end)


def sub_told_late(of: Hierarchical) -> Stepper:
    """A stepper that tells what update tells before what sub tells at its end."""
    right, sub = RIGHT_HIERARCHICAL(of), stepper(of.sub)

    def step(state: State, event: Event) -> tuple[State, Rows]:
        if event.header not in of.marks:
            return right.step(state, event)
        final, told = sub.end(state[1])
        y, more = of.update(of.ret(state[0], final), event)
        return (y, sub.start(of.call(y))), [*more, *told]

    return Stepper(right.start, step, right.end)


def told_twice(before: Rows, after: Rows) -> Rows:
    """A stepper of bags that tells again what it told."""
    return after


RIGHT_HIERARCHICAL = stepper_module._hierarchical
WRONG: list[tuple[Any, str, Callable[..., Any]]] = [
    (Partitioned, "closed", agg_of_first_values),
    (Partitioned, "open", empty_keys_kept),
    (Hierarchical, "open", call_once),
    (Composed, "closed", closed_of_open),
    (stepper_module, "_hierarchical", sub_goes_on),
    (stepper_module, "_hierarchical", sub_told_late),
    (stepper_module, "_more", told_twice),
]


@pytest.mark.parametrize(("where", "name", "rule"), WRONG, ids=lambda r: getattr(r, "__name__", ""))
def test_a_wrong_rule_is_found(
    where: Any, name: str, rule: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, rule)
    with pytest.raises(Unlawful):
        for seed in range(300):
            judge_drawn(seed)


# --- the taxis, with numbers ------------------------------------------------------------------------------

GPS = Header.of("gps", taxi=BIGINT, x=DOUBLE, y=DOUBLE)
RIDES = Header.of("rides", taxi=BIGINT, cost=DOUBLE)
HOUR = Header.of("hour", hour=BIGINT)
OUTLIER = Header.of("outlier", taxi=BIGINT, x=DOUBLE, y=DOUBLE)
RATE = Header.of("rate", hour=BIGINT, rate=DOUBLE)
gps, rides, hour, outlier, rate = (h.event for h in (GPS, RIDES, HOUR, OUTLIER, RATE))


def on(*headers: Header) -> dict[str, Header]:
    return {h.name: h for h in headers}


def drive(y: Any, fix: Event) -> Any:
    """The last place and the way so far; a fix further off than 1 is told and otherwise left out."""
    at, way = y
    taxi, *place = fix.row
    if at is None:
        return (place, way), ()
    step = math.dist(at, place)
    return ((place, way + step), ()) if step <= 1 else (y, [outlier(taxi, *place)])


P1 = Relational(on(RIDES), {}, answer=lambda x, rows: (sum(r.row[1] for r in rows), ()))
P2 = Hierarchical(on(GPS), on(OUTLIER), drive, init=lambda x: (None, 0.0), fin=lambda y: (y[1], ()))
P3 = Partitioned(
    ("taxi",),
    Relaxed(P2, output=Bag("outlier")),
    on(OUTLIER),
    agg=lambda x, ways: (sum(way for _, way in ways), ()),
)
P4 = Parallel(P3, P1, fin=lambda way, cost: cost / way if way else None)
P5 = Hierarchical(
    on(HOUR),
    on(RATE),
    update=lambda y, mark: (y, [rate(mark.row[0], y)]),
    sub=P4,
    ret=lambda y, x: x,
    fin=lambda y: (None, ()),
)
DAY = (
    gps(7, 0.0, 0.0), rides(7, 3.0), gps(8, 1.0, 1.0), gps(7, 0.6, 0.8), gps(7, 5.0, 5.0),
    gps(8, 1.0, 1.5), rides(8, 5.0), gps(7, 0.6, 0.3), hour(1),
    gps(7, 0.6, 0.0), rides(7, 7.0), hour(2),
    gps(7, 0.0, 0.0), gps(7, 0.0, 0.5), gps(8, 9.0, 9.0), rides(8, 2.0),
)  # fmt: skip


def test_the_types_of_the_taxi() -> None:
    """Appendix A, with Outlier in a bag where it comes of several taxis."""
    assert (str(P1.input), str(P1.output)) == ("bag rides", "bag")
    assert (str(P2.input), str(P2.output)) == ("seq gps", "seq outlier")
    assert (str(P3.input), str(P3.output)) == ("taxi{seq gps}", "bag outlier")
    assert (str(P4.input), str(P4.output)) == ("taxi{seq gps} | bag rides", "bag outlier")
    assert str(P5.input) == "hour[taxi{seq gps} | bag rides]"
    assert str(P5.output) == "rate[bag outlier]"


def test_one_taxi() -> None:
    way = [gps(7, 0.0, 0.0), gps(7, 0.6, 0.8), gps(7, 5.0, 5.0), gps(7, 0.6, 0.3)]
    t = parse(P2.input, P2.headers_in, way)
    final, told = P2.closed(None, t)
    assert final == pytest.approx(1.5)
    assert text(told) == "[outlier(7, 5.0, 5.0)]"
    assert P2.open(None, t) == told


def test_the_rate_of_each_hour() -> None:
    """Hour 1: way 1 + 0.5 + 0.5, cost 8. Hour 2: the way from the last fix is in neither, so there is no rate."""
    t = parse(P5.input, P5.headers_in, DAY)
    told = P5.open(None, t)
    assert text(told) == "[{outlier(7, 5.0, 5.0)} rate(1, 4.0) rate(2, None)]"
    assert P5.closed(None, t) == (None, told), "the third hour has no end yet"
    final, last = P4.closed(None, parse(P4.input, P4.headers_in, DAY[12:]))
    assert (final, text(last)) == (4.0, "{}")
    by = stepper(P5)
    state, rows = by.start(None), []
    for event in DAY:
        state, now = by.step(state, event)
        rows.append([str(e) for e in now])
    said = {n: r for n, r in enumerate(rows) if r}
    assert said == {4: ["outlier(7, 5.0, 5.0)"], 8: ["rate(1, 4.0)"], 11: ["rate(2, None)"]}
    assert by.end(state) == (None, [])


def test_the_taxis_are_lawful_in_any_order() -> None:
    for seed in range(20):
        judge(P5, None, DAY, Random(seed))


def test_definition_24_as_printed_has_no_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the taxis began with is no distance."""
    t = parse(P3.input, P3.headers_in, [e for e in DAY[:8] if e.header == "gps"])
    assert P3.closed(None, t)[0] == pytest.approx(2.0)
    monkeypatch.setattr(Partitioned, "closed", agg_of_first_values)
    with pytest.raises(TypeError):
        P3.closed(None, t)


def test_definition_24_as_printed_gives_no_stream() -> None:
    """A key of which nothing is told is left out; kept, it gives what no sequence is a flattening of."""
    by_taxi = Partitioned(("taxi",), P2)
    t = parse(by_taxi.input, by_taxi.headers_in, [e for e in DAY[:8] if e.header == "gps"])
    told = by_taxi.open(None, t)
    assert text(told) == "{7: [outlier(7, 5.0, 5.0)]}"
    printed = empty_keys_kept(by_taxi, None, t)
    assert text(printed) == "{7: [outlier(7, 5.0, 5.0)], 8: []}"
    assert parse(by_taxi.output, by_taxi.headers_out, flatten(printed)) == told != printed


# --- shapes -----------------------------------------------------------------------------------------------

A, B, C = (Header.of(n, k=BIGINT, v=BIGINT) for n in "abc")
a, b, c = (h.event for h in (A, B, C))


def passing(*headers: Header) -> Relational:
    """A bag as it is."""
    return Relational(on(*headers), on(*headers), each=lambda x, e: [e])


def in_order(reads: Header, gives: Header) -> Hierarchical:
    """Every row under another name, in order."""
    return Hierarchical(on(reads), on(gives), lambda y, e: (y, [gives.event(*e.row)]))


def test_a_bag_is_refused_where_a_sequence_is_asked() -> None:
    with pytest.raises(
        SchemaMismatch,
        match="step 2, Hierarchical over `seq a`, does not fit: rows of `a` are asked",
    ) as raised:
        passing(A) >> in_order(A, B)
    assert raised.value.hint == "it asks for `seq a`, and is given `bag a`"
    assert str((in_order(A, B) >> passing(B)).output) == "bag b"


def test_what_does_not_fit_names_step_header_and_key() -> None:
    by_key = Partitioned("k", in_order(A, B))
    assert str(by_key.output) == "k{seq b}"
    both = by_key >> Partitioned("k", in_order(B, C))
    assert [str(s.output) for s in steps(both)] == ["k{seq b}", "k{seq c}"]
    with pytest.raises(SchemaMismatch, match=r"step 3.* rows of `c` .* not across `k`"):
        both >> in_order(C, A)
    with pytest.raises(SchemaMismatch, match=r"step 2.* header `b` has no place in it"):
        by_key >> passing(A)
    other = Header.of("b", k=BIGINT, w=BIGINT)
    with pytest.raises(SchemaMismatch, match="header `b` has other columns") as raised:
        by_key >> passing(other)
    assert "b(k bigint, w bigint), and is given b(k bigint, v bigint)" in raised.value.hint


def test_values_of_composed() -> None:
    """Both begin with x, and both final values are there."""
    count = Relational(on(A), on(A), answer=lambda x, rows: ((x, len(rows)), rows))
    t = parse(Bag("a"), on(A), [a(1, 1), a(1, 2)])
    pipeline = count >> count >> passing(A)
    assert pipeline.closed(5, t) == ((((5, 2), (5, 2)), 5), t)
    assert is_empty(pipeline.open(5, t)), "nothing is told of the first before its end"


def test_both_sides_may_tell_one_header_in_a_bag() -> None:
    renamed = Relational(on(B), on(A), each=lambda x, e: [a(*e.row)])
    both = Parallel(passing(A), renamed)
    assert str(both.output) == "bag a"
    t = parse(both.input, both.headers_in, [a(1, 1), b(1, 1)])
    assert text(both.open(None, t)) == "{a(1, 1), a(1, 1)}"
    with pytest.raises(SchemaMismatch, match=r"header `a` is told by both sides, .* in order"):
        Parallel(passing(A), in_order(B, A))
    with pytest.raises(SchemaMismatch, match="header `a` has other columns"):
        Parallel(passing(A), Relational(on(B), on(Header.of("a", w=BIGINT))))


def test_all_keys_may_tell_one_header_in_a_bag() -> None:
    with pytest.raises(SchemaMismatch, match="header `b` is told by all keys together"):
        Partitioned("k", in_order(A, B), on(B))
    bag = Partitioned("k", Relaxed(in_order(A, B), output=Bag("b")), on(B))
    assert str(bag.output) == "bag b"
    without_key = Header.of("b", v=BIGINT)
    with pytest.raises(IllFormedSchema, match="key `k` is no column of header `b`"):
        Partitioned("k", Hierarchical(on(A), on(without_key), lambda y, e: (y, ())))


def test_more_than_two_side_by_side() -> None:
    three = Parallel(
        Parallel(passing(A), in_order(B, Header.of("d", k=BIGINT, v=BIGINT))), passing(C)
    )
    right = Parallel(
        passing(A), Parallel(in_order(B, Header.of("d", k=BIGINT, v=BIGINT)), passing(C))
    )
    assert three.input == right.input == Par(Bag("a"), Seq("b"), Bag("c"))
    assert three.output == right.output == schema_of("bag a | seq d | bag c")
    t = parse(three.input, three.headers_in, [b(1, 2), a(1, 1), b(1, 1), c(0, 0)])
    assert three.open(None, t) == right.open(None, t)
    assert text(three.open(None, t)) == "<{a(1, 1)} | [d(1, 2) d(1, 1)] | {c(0, 0)}>"
    assert three.closed(1, t)[0] == ((1, 1), 1)


def test_a_mark_may_tell_rows_of_what_is_below() -> None:
    """update and fin tell several rows, marks and others, in the order in which they stand."""
    of = Hierarchical(
        on(A),
        on(C),
        update=lambda y, mark: (y + 1, [b(0, y), c(0, y), b(1, y), c(1, y)]),
        sub=passing(B),
        init=lambda x: x,
        fin=lambda y: (y, [b(9, 9), c(9, 9)]),
    )
    t = parse(of.input, of.headers_in, [b(5, 5), a(0, 0), b(6, 6)])
    begins = "[{b(0, 3), b(5, 5)} c(0, 3) {b(1, 3)} c(1, 3)"
    assert text(of.open(3, t)) == f"{begins} {{b(6, 6)}}]"
    final, told = of.closed(3, t)
    assert (final, text(told)) == (4, f"{begins} {{b(6, 6), b(9, 9)}} c(9, 9)]")


def test_an_output_wider_than_what_sub_tells() -> None:
    """NOTHING with a bag in its output, which update fills; the stepper takes its short way."""
    of = Hierarchical(
        on(A),
        on(C),
        update=lambda y, e: (y, [b(*e.row)] if e.row[1] else [c(*e.row)]),
        sub=Relaxed(NOTHING, output=Bag("b"), headers=on(B)),
    )
    assert str(of.output) == "c[bag b]"
    judge(of, None, (a(0, 1), a(0, 0), a(1, 1), a(2, 1)), Random(1))
    assert str(Hierarchical(on(A), {}, lambda y, e: (y, ()), sub=of.sub).output) == "bag b"


def test_reading_with_more_order_than_is_asked() -> None:
    of = Relaxed(passing(A, B), input=Sync("a", Seq("b")))
    t = parse(of.input, of.headers_in, [b(1, 1), a(1, 1), b(0, 0)])
    assert text(of.open(None, t)) == "{a(1, 1), b(0, 0), b(1, 1)}"
    with pytest.raises(SchemaMismatch, match="rows of `a` are asked for in order"):
        Relaxed(in_order(A, B), input=Bag("a"))
    with pytest.raises(SchemaMismatch, match=r"the relaxed output of .* rows of `b` are asked for"):
        Relaxed(passing(B), output=Seq("b"))
    with pytest.raises(IllFormedSchema, match="unknown header `c`"):
        Relaxed(passing(B), output=Bag("b", "c"))


# --- functions that are wrong -----------------------------------------------------------------------------


def largest(x: Value, rows: Any) -> list[Event]:
    """The largest row so far, which the next may take back."""
    return [max(rows, key=lambda r: r.row)]


def test_a_function_that_takes_back_is_told_with_both_outputs() -> None:
    of = Relational(on(A), on(A), early=largest)
    by = stepper(of)
    state, told = by.step(by.start(None), a(1, 1))
    assert told == [a(1, 1)]
    with pytest.raises(
        NotMonotone, match=r"it gave \{a\(1, 1\)\}, and now \{a\(1, 2\)\}"
    ) as raised:
        by.step(state, a(1, 2))
    assert (raised.value.before, raised.value.after) == ((a(1, 1),), (a(1, 2),))
    with pytest.raises(Unlawful, match="Theorem 25"):
        judge(of, None, (a(0, 0),), Random(3))


def test_an_end_that_takes_back() -> None:
    of = Relational(on(A), on(A), each=lambda x, e: [e], answer=lambda x, rows: (x, rows[1:]))
    t = parse(of.input, on(A), [a(1, 1), a(1, 2)])
    with pytest.raises(NotMonotone):
        of.closed(None, t)
    with pytest.raises(NotMonotone) as raised:
        stepper(of).run(None, [a(1, 1), a(1, 2)])
    assert raised.value.after == (a(1, 2),)


@pytest.mark.parametrize(
    "run", [lambda of, t: of.open(None, t), lambda of, t: stepper(of).run(None, flatten(t))]
)
def test_a_function_that_tells_what_has_no_place(run: Callable[[Any, Stream], Any]) -> None:
    t = parse(Bag("a"), on(A), [a(1, 1)])
    unknown = Relational(on(A), on(A), each=lambda x, e: [b(*e.row)])
    with pytest.raises(NotInSchema, match="header `b`, which is not in `bag a`"):
        run(unknown, t)
    short = Relational(on(A), on(A), each=lambda x, e: [Event("a", (1,))])
    with pytest.raises(NotInSchema, match=r"header `a` with 1 values: a\(1\)"):
        run(short, t)
    by_key = parse(PartitionBy("k", Bag("a")), on(A), [a(1, 1)])
    stray = Partitioned("k", Relational(on(A), on(A), each=lambda x, e: [a(2, 2)]))
    with pytest.raises(NotInSchema, match=r"told by key \(1,\) has another: a\(2, 2\)"):
        run(stray, by_key)


def test_agg_tells_no_rows_of_a_key() -> None:
    of = Partitioned("k", passing(A), on(B), agg=lambda x, finals: (None, [a(1, 1)]))
    t = parse(of.input, of.headers_in, [a(1, 1)])
    with pytest.raises(
        NotInSchema, match="`agg` tells a row of `a`, which is told by key"
    ) as raised:
        of.closed(None, t)
    assert raised.value.hint == "it can tell: b"
    with pytest.raises(NotInSchema, match="`agg` tells a row of `a`"):
        stepper(of).run(None, [a(1, 1)])


def test_early_is_given_once() -> None:
    with pytest.raises(IllFormedSchema, match="both `early` and `each`"):
        Relational(on(A), on(A), early=lambda x, r: r, each=lambda x, e: [e])


def test_a_stream_of_another_schema() -> None:
    bag, keyed = parse(Bag("a"), on(A), [a(1, 1)]), Keyed({})
    for of in (in_order(A, B), Partitioned("k", passing(A)), Parallel(passing(A), passing(B))):
        with pytest.raises(NotInSchema, match="streams of different schemas"):
            of.open(None, bag)
    with pytest.raises(NotInSchema, match="streams of different schemas"):
        passing(A).open(None, keyed)


def test_a_transformer_of_ones_own_has_no_stepper() -> None:
    class Own(Relational):
        pass

    class Other(Transformer):
        def open(self, x: Value, t: Stream) -> Stream:
            return t

        def closed(self, x: Value, t: Stream) -> tuple[Value, Stream]:
            return x, t

    assert stepper(Own(on(A), on(A), each=lambda x, e: [e])).run(1, [a(1, 1)]) == (1, [a(1, 1)])
    with pytest.raises(HeadwaterError, match="no stepper for a transformer of class `Other`"):
        stepper(Other())
