"""Schemas: well-formed or refused with header and key, the notation both ways, and the order that they ask for."""

from __future__ import annotations

import pickle
from itertools import combinations, combinations_with_replacement, permutations
from random import Random

import pytest

from headwater.calculus.types import BIGINT, DATE, DOUBLE
from headwater.errors import IllFormedSchema, ParseError
from headwater.streams.order import dependence, depends, equivalent, first_misfit, relaxes, tabled
from headwater.streams.schema import (
    Bag,
    Event,
    Header,
    Par,
    PartitionBy,
    Schema,
    Seq,
    Sync,
    check,
    draw,
    headers_of,
    parse,
    side_by_side,
    text,
    without,
)
from headwater.streams.stream import flattenings
from headwater.streams.stream import parse as stream_of
from random_schemas import (
    dependent,
    keyless,
    random_headers,
    random_relaxation,
    random_schema,
    relaxes_as_printed,
    relaxes_by_definition,
    rows,
)

CASES = [400, pytest.param(10_000, marks=pytest.mark.slow)]

# Example 2
GPS = Header.of("gps", location=DOUBLE, taxi=BIGINT)
RIDES = Header.of("rides", ride=BIGINT, taxi=BIGINT, passenger=BIGINT, cost=BIGINT)
HOUR = Header.of("hour", date=DATE, hour=BIGINT)
HEADERS = {h.name: h for h in (GPS, RIDES, HOUR)}
TAXI = Sync("hour", Par(PartitionBy("taxi", Seq("gps")), Bag("rides")))  # Example 4


def test_the_taxi_schema() -> None:
    check(TAXI, HEADERS)
    assert text(TAXI) == str(TAXI) == "hour[taxi{seq gps} | bag rides]"
    assert parse("hour[taxi{seq gps} | bag rides]") == TAXI
    assert draw(TAXI).splitlines() == [
        "sync hour",
        "├─ by taxi",
        "│  └─ seq gps",
        "└─ bag rides",
    ]
    assert headers_of(TAXI) == ("hour", "gps", "rides")
    assert tabled(TAXI).splitlines()[1:] == [
        "  hour hour: always",
        "  hour gps: always",
        "  hour rides: always",
        "  gps gps: equal taxi",
        "  gps rides: free",
        "  rides rides: free",
    ]


def test_headers_have_rows_with_names() -> None:
    fix = GPS.event(0.5, 7)
    assert fix == ("gps", (0.5, 7))
    assert fix.row.taxi == 7  # type: ignore[attr-defined]
    assert str(fix) == "gps(0.5, 7)"
    assert str(GPS) == "gps(location double, taxi bigint)"
    assert Header("gps", (("location", DOUBLE), ("taxi", BIGINT))) == GPS
    again = pickle.loads(pickle.dumps(fix))
    assert again == fix and type(again.row) is type(fix.row)
    odd = Header("from", (("two words", BIGINT), ("class", BIGINT), ("x", BIGINT)))
    assert odd.event(1, 2, 3).row.x == 3  # type: ignore[attr-defined]


def test_names_may_be_given_in_lists() -> None:
    assert Bag("a", "b") == Bag(["a", "b"]) == Bag(("a",), "b")
    assert Sync("a", "b", Bag("c")) == Sync(("a", "b"), Bag("c"))
    assert Seq("a") == Sync("a", Bag())
    assert PartitionBy(("k", "l"), Bag("c")).keys == ("k", "l")


def test_par_is_associative() -> None:
    a, b, c = Bag("a"), Seq("b"), Bag("c")
    assert Par(Par(a, b), c) == Par(a, b, c) == Par(a, Par(b, c))
    assert side_by_side(a, Bag(), Seq()) == a
    assert side_by_side(Bag(), b, c) == Par(b, c)
    assert side_by_side() == Bag()
    with pytest.raises(IllFormedSchema, match="`Par` of 1 parts"):
        Par(a)


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        (Sync("hour", Par(Seq("gps"), Bag("gps"))), "header `gps` is twice"),
        (Bag("rides", "rides"), "header `rides` is twice"),
        (PartitionBy("taxi", Sync("hour", Seq("gps"))), "key `taxi` is no column of header `hour`"),
        (
            PartitionBy("ride", Par(Bag("rides"), Seq("gps"))),
            "key `ride` is no column of header `gps`",
        ),
        (
            PartitionBy("taxi", Sync("rides", PartitionBy("taxi", Seq("gps")))),
            r"key `taxi` is given twice in `taxi\{seq gps\}`, around header `gps`",
        ),
        (PartitionBy("taxi", "taxi", Bag("gps")), "key `taxi` is given twice"),
        (Sync("hour", Bag("bids")), "unknown header `bids`"),
    ],
    ids=str,
)
def test_an_ill_formed_schema_is_refused(schema: Schema, what: str) -> None:
    with pytest.raises(IllFormedSchema, match=what):
        check(schema, HEADERS)


def test_the_same_key_beside_itself_is_well_formed() -> None:
    check(Par(PartitionBy("taxi", Seq("gps")), PartitionBy("taxi", Bag("rides"))), HEADERS)


def test_a_schema_without_what_is_below_it() -> None:
    with pytest.raises(IllFormedSchema, match="`Sync` has no schema below it"):
        Sync("hour")
    with pytest.raises(IllFormedSchema, match="`PartitionBy` has no schema below it"):
        PartitionBy("taxi", "gps")


@pytest.mark.parametrize("cases", CASES)
def test_the_notation_both_ways(cases: int) -> None:
    for seed in range(cases):
        rng = Random(seed)
        headers = random_headers(rng, rng.randint(0, 6))
        schema = random_schema(rng, headers)
        check(schema, headers)
        assert parse(text(schema)) == schema, seed
        assert len(draw(schema).splitlines()) >= len(
            schema.parts if isinstance(schema, Par) else [1]
        )


@pytest.mark.parametrize(
    ("source", "schema"),
    [
        ("bag", Bag()),
        ("seq", Seq()),
        ("[bag a]", Sync((), Bag("a"))),
        ("{seq a}", PartitionBy((), Seq("a"))),
        (
            "a, b [ k,l{ (bag c|seq d) } ]",
            Sync("a", "b", PartitionBy("k", "l", Par(Bag("c"), Seq("d")))),
        ),
        ("(bag a | bag b) | bag c", Par(Bag("a"), Bag("b"), Bag("c"))),
        ("`seq`[bag `bag`, `two words`, `a``b`]", Sync("seq", Bag("bag", "two words", "a`b"))),
    ],
)
def test_more_of_the_notation(source: str, schema: Schema) -> None:
    assert parse(source) == schema
    assert parse(text(schema)) == schema


@pytest.mark.parametrize(
    ("source", "column", "what"),
    [
        ("", 1, "expected a part"),
        ("hour", 5, r"expected `\[` or `{`"),
        ("hour[seq gps", 13, r"expected `\]`"),
        ("taxi{seq gps]", 13, "expected `}`"),
        ("hour[seq gps] rides", 15, "expected its end"),
        ("hour, [bag a]", 7, "expected a name"),
        ("bag a | | bag b", 9, "expected a part"),
        ("bag a ; b", 7, "no part of the notation"),
    ],
)
def test_what_is_no_schema(source: str, column: int, what: str) -> None:
    with pytest.raises(ParseError, match=what) as raised:
        parse(source)
    assert raised.value.span is not None and raised.value.span.column == column


def test_a_schema_without_some_headers() -> None:
    assert without(TAXI, ["gps"]) == Sync("hour", Bag("rides"))
    assert without(TAXI, ["hour"]) == TAXI.sub
    assert without(TAXI, ["gps", "rides"]) == Seq("hour")
    assert without(TAXI, HEADERS) == Bag()
    assert without(TAXI, ["bids"]) is TAXI


@pytest.mark.parametrize("cases", CASES)
def test_what_is_left_has_the_order_that_it_had(cases: int) -> None:
    for seed in range(cases):
        rng = Random(seed)
        headers = random_headers(rng, rng.randint(1, 5))
        schema = random_schema(rng, headers)
        drop = [h for h in headers if rng.random() < 0.4]
        left = without(schema, drop)
        order = {p: k for p, k in dependence(schema).items() if not set(p) & set(drop)}
        assert dependence(left) == order, seed
        assert set(headers_of(left)) == set(headers) - set(drop)


# --- order ------------------------------------------------------------------------------------------------


def test_when_rows_of_the_taxi_depend_on_each_other() -> None:
    assert depends(TAXI, "hour", "hour") == ()
    assert depends(TAXI, "gps", "hour") == depends(TAXI, "hour", "gps") == ()
    assert depends(TAXI, "gps", "gps") == ("taxi",)
    assert depends(TAXI, "gps", "rides") is None
    assert depends(TAXI, "rides", "rides") is None
    assert depends(TAXI, "rides", "bids") is None
    assert depends(TAXI, "hour", "bids") is None
    nested = PartitionBy("k", Sync("a", PartitionBy("l", Seq("b"))))
    assert depends(nested, "a", "b") == ("k",)
    assert depends(nested, "b", "b") == ("k", "l")


@pytest.mark.parametrize("cases", CASES)
def test_dependence_by_formula_is_dependence_by_definition(cases: int) -> None:
    """Definition 10, over all rows of two values."""
    for seed in range(cases):
        rng = Random(seed)
        headers = random_headers(rng, rng.randint(1, 4))
        schema = random_schema(rng, headers)
        table = dependence(schema)
        for h in headers:
            for g in headers:
                keys = depends(schema, h, g)
                assert keys == table.get((h, g))
                for x in rng.sample(rows(headers[h]), 2):
                    for y in rows(headers[g]):
                        said = keys is not None and all(
                            getattr(x.row, k) == getattr(y.row, k) for k in keys
                        )
                        assert said == dependent(schema, headers, x, y), (seed, x, y)


@pytest.mark.parametrize("cases", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_relaxation_by_formula_is_relaxation_by_definition(cases: int) -> None:
    """Proposition 18: keys that are given are among those asked for, for each pair of headers."""
    told = {True: 0, False: 0}
    printed_differs = 0
    for seed in range(cases):
        rng = Random(seed)
        headers = random_headers(rng, rng.randint(1, 3))
        strong = random_schema(rng, headers)
        some = [h for h in headers if rng.random() < 0.9]
        weak = rng.choice(
            [
                lambda s=strong, r=rng, h=headers: random_relaxation(r, s, h),
                lambda r=rng, h=headers, n=some: random_schema(r, h, n),
            ]
        )()
        for a, b in ((weak, strong), (strong, weak)):
            expected = relaxes_by_definition(a, b, headers)
            told[expected] += 1
            assert relaxes(a, b) == expected, (seed, str(a), str(b))
            misfit = first_misfit(a, b)
            assert (misfit is None) == expected
            printed_differs += relaxes_as_printed(a, b, headers) != expected
    assert min(told.values()) > cases / 5
    assert printed_differs > cases / 10, "the printed direction is another relation"


def test_a_random_relaxation_is_one() -> None:
    for seed in range(300):
        rng = Random(seed)
        headers = random_headers(rng, rng.randint(1, 5))
        schema = random_schema(rng, headers)
        weak = random_relaxation(rng, schema, headers)
        check(weak, headers)
        assert relaxes(weak, schema), (seed, str(weak), str(schema))


def test_relaxing_the_taxi() -> None:
    """Example 16."""
    free = Sync("hour", Par(PartitionBy("taxi", Bag("gps")), Bag("rides")))
    assert relaxes(free, TAXI) and not relaxes(TAXI, free)
    assert equivalent(free, Sync("hour", Bag("gps", "rides")))
    assert equivalent(Sync("hour", Seq("gps")), Seq("hour", "gps"))
    assert not equivalent(Sync("hour", Seq("gps")), Seq("hour"))
    assert relaxes_by_definition(free, TAXI, {h: HEADERS[h] for h in HEADERS}) is True


def test_the_printed_direction_fails() -> None:
    """By the printed Definition 15 a sequence relaxes a bag; then Proposition 17 does not hold."""
    headers = {"a": Header.of("a", v=BIGINT)}
    bag, sequence = Bag("a"), Seq("a")
    assert relaxes_as_printed(sequence, bag, headers) and not relaxes(sequence, bag)
    stream = stream_of(bag, headers, [Event("a", (1,)), Event("a", (2,))])
    read = {stream_of(sequence, headers, s) for s in flattenings(stream)}
    assert len(read) == 2, "not one stream of which every flattening is one"
    # and Example 16's relaxation is none
    assert not relaxes_as_printed(bag, sequence, headers) and relaxes(bag, sequence)


@pytest.mark.parametrize(
    ("asked", "given", "header", "key", "said"),
    [
        ("seq gps", "bag gps", "gps", None, "rows of `gps` are asked for in order, and are given without order"),
        ("seq gps", "taxi{seq gps}", "gps", "taxi", "given in order only for equal `taxi`, not across `taxi`"),
        ("seq gps", "seq gps | bag rides", "rides", None, "header `rides` has no place in it"),
        ("gps[bag rides]", "bag rides | seq gps", "gps", None, "rows of `gps` and `rides` are asked for in order"),
        (
            "taxi{seq rides}",
            "taxi{ride{seq rides}}",
            "rides",
            "ride",
            "asked for in order for equal `taxi`, and are given in order only for equal `taxi`, `ride`, not across",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(
    asked: str, given: str, header: str, key: str | None, said: str
) -> None:
    misfit = first_misfit(parse(asked), parse(given))
    assert misfit is not None
    assert (misfit.header, misfit.key) == (header, key)
    assert said in str(misfit)


def test_the_relations_over_four_headers_that_have_a_schema() -> None:
    """376 of 1,024: no path and no cycle of four, and every root ordered in itself."""
    names = ("a", "b", "c", "d")
    pairs = list(combinations_with_replacement(names, 2))

    def relation(schema: Schema) -> frozenset[tuple[str, str]]:
        found = dependence(schema)
        return frozenset(p for p in pairs if p in found)

    def related(of: frozenset[tuple[str, str]], x: str, y: str) -> bool:
        return (x, y) in of or (y, x) in of

    def quasi_threshold(of: frozenset[tuple[str, str]]) -> bool:
        """No path or cycle of four: of a - b - c - d with a apart from c and b from d, which both of them are."""
        return not any(
            related(of, a, b) and related(of, b, c) and related(of, c, d)
            and not related(of, a, c) and not related(of, b, d)
            for a, b, c, d in permutations(names)
        )  # fmt: skip

    def rooted(of: frozenset[tuple[str, str]]) -> bool:
        """Every connected set of headers, of two or more, has one that is before all and is ordered in itself."""
        sets = [s for n in (2, 3, 4) for s in combinations(names, n)]
        return all(
            any(all(related(of, root, x) for x in some) for root in some)
            for some in sets
            if connected(of, some)
        )

    def connected(of: frozenset[tuple[str, str]], some: tuple[str, ...]) -> bool:
        reached, waiting = {some[0]}, [some[0]]
        while waiting:
            x = waiting.pop()
            for y in some:
                if y not in reached and related(of, x, y):
                    reached.add(y)
                    waiting.append(y)
        return len(reached) == len(some)

    every = [
        frozenset(p for n, p in enumerate(pairs) if bits >> n & 1)
        for bits in range(2 ** len(pairs))
    ]
    have = {relation(schema) for schema in keyless(names)}
    assert (len(every), len(have)) == (1024, 376)
    assert have == {r for r in every if quasi_threshold(r) and rooted(r)}
    plain = {name: Header.of(name, v=BIGINT) for name in names}
    assert {relation(random_schema(Random(seed), plain)) for seed in range(300)} <= have
