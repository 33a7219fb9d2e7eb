"""Rounds: the ring of rounds, monomials with rounds, and loops that are all of their rounds at once.

Steps are sums of random products of the loop's collections, of answers inside of it and of inputs from outside. What is
iterated here is plain Python over the interpreter: X̂ = start·(t⁰ − t¹) + F̂(d X̂, S), from nothing, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import event, given, settings

from headwater.calculus import ring
from headwater.calculus.check import check, type_of
from headwater.calculus.interpret import interpret
from headwater.calculus.notation.parse import parse
from headwater.calculus.notation.text import show
from headwater.calculus.ring import RingMap, Value
from headwater.calculus.terms import (
    Rel,
    Repeat,
    Term,
    Var,
    change_name,
    relations,
    substitute,
)
from headwater.calculus.types import (
    BIGINT,
    Boxed,
    MapType,
    RecordType,
    bag,
    record,
)
from headwater.errors import NotIncremental
from headwater.rules.delta import delta
from headwater.rules.monomial import Monomial, Signed, monomial, sum_of, summands
from headwater.rules.normalize import normalize
from headwater.rules.rounds import ROUND, at, lifted, started, with_round
from random_loops import (
    ANSWERS,
    LOOP,
    ROW,
    ROWS,
    A,
    Loop,
    Random,
    S,
    T,
    X,
    Y,
    rows,
)
from random_terms import At, Generator
from strategies import POSITIVE, Pick, drawn, value

pytestmark = pytest.mark.property

FEW = settings(max_examples=settings().max_examples // 5)
"""Stories of several rounds take longer than terms."""
LAST = 5


def by_round(pick: Pick, first: int) -> RingMap:
    """Rows that come and go at rounds from the first on."""
    entries = [(n, rows(pick, 3)) for n in range(first, LAST)]
    return ring.collect(((*row, n), count) for n, found in entries for row, count in found.items())


# --- the ring of rounds ------------------------------------------------------------------------------------


def plus(v: RingMap, w: RingMap) -> RingMap:
    return ring.add(v, w)


def product(v: RingMap, w: RingMap) -> RingMap:
    """tⁱ · tʲ = t^max(i, j)."""
    return ring.collect(((max(i, j),), r * s) for (i,), r in v.items() for (j,), s in w.items())


def later(v: RingMap) -> RingMap:
    """d: tⁱ ↦ tⁱ⁺¹."""
    return ring.collect(((i + 1,), r) for (i,), r in v.items())


def number(v: RingMap, n: int) -> int:
    found: int = at(v, n).get((), 0)
    return found


def polynomial(pick: Pick) -> RingMap:
    return ring.collect(((pick(LAST),), (1, 2, -1, 3, -2)[pick(5)]) for _ in range(pick(4)))


@given(drawn(lambda pick: [polynomial(pick) for _ in range(3)]))
def test_rounds_are_a_ring(drawn_values: list[RingMap]) -> None:
    """v · w = w · v, (u · v) · w = u · (v · w), u · (v + w) = u · v + u · w, t⁰ · v = v."""
    u, v, w = drawn_values
    assert product(v, w) == product(w, v)
    assert product(product(u, v), w) == product(u, product(v, w))
    assert product(u, plus(v, w)) == plus(product(u, v), product(u, w))
    assert product(RingMap({(0,): 1}), v) == v


@given(drawn(lambda pick: [polynomial(pick) for _ in range(2)]))
def test_the_value_at_a_round_keeps_sums_and_products(drawn_values: list[RingMap]) -> None:
    """(v + w)@n = v@n + w@n, (v · w)@n = v@n · w@n, (d v)@n = v@(n−1), and all @n together say v."""
    v, w = drawn_values
    for n in range(LAST + 1):
        assert number(plus(v, w), n) == number(v, n) + number(w, n)
        assert number(product(v, w), n) == number(v, n) * number(w, n)
        assert number(later(v), n) == (number(v, n - 1) if n else 0)
    told = ring.collect(((n,), number(v, n) - number(v, n - 1)) for n in range(LAST))
    assert told == v


# --- monomials with rounds ------------------------------------------------------------------------------------


def a_monomial(pick: Pick) -> Monomial:
    random = Random(pick)
    moving = [random.choose((X, Y, A)) for _ in range(pick(4))]
    return random.monomial(moving, [random.choose((S, T)) for _ in range(pick(2))])


def term_of(m: Monomial) -> Term:
    return m.build(m.output)


def keyed(m: Monomial, found: Value) -> Value:
    """What a monomial gives, with keys as rows: those of numbers are empty, and those of plain keys have a column."""
    if isinstance(t := type_of(m.output), MapType):
        plain = not isinstance(t.key, RecordType)
        return RingMap({(k,): v for k, v in found.items()}) if plain else found
    return ring.collect([((), found)])


def a_database(pick: Pick) -> dict[str, RingMap]:
    moving = {"X": by_round(pick, 0), "Y": by_round(pick, 0), "A": by_round(pick, 1)}
    return {**moving, "S": rows(pick), "T": rows(pick)}


@FEW
@given(drawn(lambda pick: (a_monomial(pick), a_database(pick))))
def test_a_lifted_monomial_is_the_monomial_at_every_round(case: Any) -> None:
    """interpret(lifted m)@n = interpret(m), where collections are those of round n − 1 and answers those of n."""
    m, inputs = case
    up = lifted(m, LOOP, ANSWERS, None)
    check(term_of(up))
    key = type_of(up.output).key
    assert key.fields[-1] == (ROUND, BIGINT)
    assert [v.name for v, _ in up.atoms] == [v.name for v, _ in m.atoms]
    whole = interpret(term_of(up), inputs)
    assert at(whole, 0) == {}
    event(f"{len(m.atoms)} atoms")
    for n in range(1, LAST + 2):
        then = {x: at(inputs[x], n - 1) for x in LOOP} | {"A": at(inputs["A"], n)}
        assert at(whole, n) == keyed(m, interpret(term_of(m), {**inputs, **then}))


@FEW
@given(drawn(lambda pick: (a_monomial(pick), a_database(pick), pick(LAST))))
def test_rounds_after_the_last_are_left_out(case: Any) -> None:
    """lifted with a last round has the entries up to it, and no others."""
    m, inputs, last = case
    whole = interpret(term_of(lifted(m, LOOP, ANSWERS, None)), inputs)
    some = interpret(term_of(lifted(m, LOOP, ANSWERS, last)), inputs)
    assert some == RingMap({k: v for k, v in whole.items() if k[-1] <= last})


@FEW
@given(drawn(lambda pick: (a_monomial(pick), a_database(pick))))
def test_a_start_is_there_at_round_0_and_gone_at_round_1(case: Any) -> None:
    """start·(t⁰ − t¹)."""
    m, inputs = case
    steady = {name: at(inputs[name], LAST) for name in "XYA"}
    there = {**inputs, **steady}
    both = interpret(sum_of(started(m)), there)
    found = keyed(m, interpret(term_of(m), there))
    assert at(both, 0) == found
    assert at(both, 1) == {}
    assert interpret(sum_of(started(m, last=0)), there) == RingMap(
        {(*k, 0): v for k, v in found.items()}
    )


NESTED = record(a=BIGINT, c=Boxed(bag(record(a=BIGINT))))


def positive_monomials(pick: Pick) -> tuple[Signed, dict[str, MapType], Pick]:
    """The monomials of a random term of IncNRC+, which reads inner bags of its rows, too."""
    inputs = {"R": ROWS, "N": bag(NESTED), "S": ROWS}
    term = Generator(pick, inputs, POSITIVE, 14).ring(ROWS, At((), 3))
    return summands(normalize(term)), inputs, pick


@given(drawn(positive_monomials))
def test_monomials_of_random_terms_are_lifted(case: Any) -> None:
    """The same law for the normal form of random terms, where R and N are collections of the loop."""
    found, inputs, pick = case
    loop = {n: Rel(n, bag(with_round(inputs[n].key))) for n in "RN"}
    there = {n: value(t.type, pick, 4) for n, t in loop.items()} | {"S": rows(pick)}
    there |= {
        n: RingMap({(*k[:-1], abs(k[-1] or 0)): v for k, v in there[n].items()}) for n in loop
    }
    for _, m in found:
        if any(relations(f) for f in (*m.factors, m.output)):  # a number that is looked for
            continue
        whole = interpret(term_of(lifted(m, loop, {}, None)), there)
        event(f"{sum(s.name in loop for _, s in m.atoms if isinstance(s, Rel))} collections")
        for n in range(1, 5):
            then = {name: at(there[name], n - 1) for name in loop}
            assert at(whole, n) == keyed(m, interpret(term_of(m), {**there, **then}))


def test_a_monomial_is_shown_with_its_round() -> None:
    step = parse(
        "for x in X collect for s in S collect [x.b = s.a] · {{a: x.a, b: s.b}}",
        {"X": ROWS, "S": ROWS},
    )
    up = lifted(monomial(step), LOOP, ANSWERS, 3)
    assert show(term_of(up)) == (
        "for x in X collect for s in S collect [x.b = s.a] · [(x._round + 1) <= 3]"
        " · {{a: x.a, b: s.b, _round: x._round + 1}}"
    )
    both = parse("for x in X collect for y in A collect {x}", {"X": ROWS, "A": ROWS})
    assert show(lifted(monomial(both), LOOP, ANSWERS, None).output) == (
        "{{a: x.a, b: x.b, _round: greatest(x._round + 1, y._round)}}"
    )
    outside = parse("for s in S collect {s}", {"S": ROWS})
    assert (
        show(lifted(monomial(outside), LOOP, ANSWERS, None).output)
        == "{{a: s.a, b: s.b, _round: 1}}"
    )


def test_a_column_of_that_name_is_refused() -> None:
    with pytest.raises(NotIncremental, match=r"RECURSION_TYPES.*`_round`"):
        with_round(with_round(ROW))


# --- loops as sums of products ------------------------------------------------------------------------------------


def fixpoint(
    step: Callable[[dict[str, RingMap]], dict[str, RingMap]], names: str
) -> dict[str, RingMap]:
    """From nothing, the step again and again until nothing changes."""
    now = {n: RingMap() for n in names}
    for _ in range(100):
        before, now = now, step(now)
        if before == now:
            return now
    raise AssertionError("no fixpoint")


def all_rounds(loop: Loop, last: int, inputs: Mapping[str, Value]) -> dict[str, RingMap]:
    terms = loop.lifted(last)
    return fixpoint(
        lambda now: {n: interpret(t, {**inputs, **now}) for n, t in terms.items()}, loop.names
    )


def _loops(most: int, last: int) -> Any:
    def make(pick: Pick) -> Any:
        return (
            Loop(pick, most),
            last,
            {n: rows(pick, 2) for n in "ST"},
            {n: rows(pick, 2) for n in "ST"},
        )

    return drawn(make)


@FEW
@given(_loops(most=1, last=4))
def test_a_linear_loop_is_all_of_its_rounds(case: Any) -> None:
    """X̂@n = Xₙ for every n, and X̂ added up is the loop's value, for steps linear in their collections."""
    _is_all_of_its_rounds(*case)


@FEW
@given(_loops(most=2, last=2))
def test_a_square_loop_is_all_of_its_rounds(case: Any) -> None:
    """The same for steps that multiply collections."""
    _is_all_of_its_rounds(*case)


def _is_all_of_its_rounds(loop: Loop, last: int, old: Any, change: Any) -> None:
    new = {n: ring.add(old[n], change[n]) for n in old}
    for inputs in (old, new):
        found = all_rounds(loop, last, inputs)
        for n in range(last + 2):
            expected = interpret(loop.repeat(min(n, last)), inputs)
            assert tuple(at(found[x], n) for x in loop.names) == expected
        for entries in found.values():
            assert all(0 <= k[-1] <= last for k in entries)


@FEW
@given(_loops(most=2, last=2))
def test_a_change_of_the_rounds_leaves_no_history(case: Any) -> None:
    """ΔX̂ = δ(start·(t⁰ − t¹) + F̂)(ΔX̂, ΔS) brings X̂ to what iterating from nothing over the new inputs gives."""
    loop, last, old, change = case
    new = {n: ring.add(old[n], change[n]) for n in old}
    before = all_rounds(loop, last, old)
    terms = {n: delta(t, {*loop.names, *old}) for n, t in loop.lifted(last).items()}
    known = {**old, **before, **{change_name(n): v for n, v in change.items()}}

    def step(moved: dict[str, RingMap]) -> dict[str, RingMap]:
        changes = {change_name(n): v for n, v in moved.items()}
        return {n: interpret(t, {**known, **changes}) for n, t in terms.items()}

    moved = fixpoint(step, loop.names)
    after = all_rounds(loop, last, new)
    assert {n: ring.add(before[n], moved[n]) for n in loop.names} == after


# --- loops with answers inside ------------------------------------------------------------------------------------

LINEAR = "S + (for x in X collect for s in S collect [x.b = s.a] · {{a: x.a, b: s.b}})"
SQUARE = "S + (for x in X collect for y in X collect [x.b = y.a] · {{a: x.a, b: y.b}})"
PATHS = (
    "S + (for x in X collect for s in S collect [x.a = s.a] · [x.b < 4] · {{a: s.b, b: x.b + 1}})"
)


def distinct(v: RingMap) -> RingMap:
    """The rows that are there."""
    return RingMap({k: 1 for k, n in v.items() if n > 0})


def least(v: RingMap) -> RingMap:
    """The least b of each a."""
    there = [k for k, n in v.items() if n > 0 and None not in k]
    return RingMap({(a, min(b for c, b in there if c == a)): 1 for a, _ in there})


def by_points(v: RingMap, answer: Callable[[RingMap], RingMap]) -> RingMap:
    """ans(v) = Σ tⁱ·(ans(v@i) − ans(v@(i−1)))."""
    out = RingMap()
    for i in sorted({k[-1] for k in v}):
        moved = ring.add(answer(at(v, i)), ring.neg(answer(at(v, i - 1))))
        out = ring.add(out, RingMap({(*k, i): n for k, n in moved.items()}))
    return out


DISTINCT = "each k ↦ n in ({}) collect [box(n) > 0] · {{k}}"


@pytest.mark.parametrize(
    ("group", "answer"), [(LINEAR, distinct), (SQUARE, distinct), (PATHS, least)]
)
@FEW
@given(drawn(lambda pick: [graph(pick) for _ in range(3)]))
def test_a_loop_with_an_answer_inside_is_all_of_its_rounds(
    group: str, answer: Callable[[RingMap], RingMap], graphs: list[RingMap]
) -> None:
    """X̂@n = Xₙ where a step answers groups: closure and least lengths over graphs with cycles, edges coming and going."""
    term = normalize(parse(group, {"X": ROWS, "S": ROWS}))
    step = sum_of([(s, lifted(m, {"X": LOOP["X"]}, {}, None)) for s, m in summands(term)])
    copied = lifted(monomial(parse("for y in A collect {y}", {"A": ROWS})), {}, ANSWERS, None)
    edges = graphs[0]
    for change in graphs[1:]:
        known = {"S": edges}

        def rounds(
            now: dict[str, RingMap], known: dict[str, RingMap] = known
        ) -> dict[str, RingMap]:
            answered = by_points(interpret(step, {**known, **now}), answer)
            return {"X": interpret(term_of(copied), {"A": answered})}

        found = fixpoint(rounds, "X")["X"]
        now, n = RingMap(), 0
        while True:
            assert at(found, n) == now
            before, now = now, answer(interpret(term, {**known, "X": now}))
            n += 1
            if before == now:
                break
        assert all(k[-1] < n for k in found), "after the last change there is no entry"
        if answer is distinct:
            var = Var("X", ROWS)
            body = substitute(parse(DISTINCT.format(group), {"X": ROWS, "S": ROWS}), {X: var})
            assert interpret(Repeat(var, sum_of([], ROWS), body), known) == now
        edges = RingMap({k: v for k, v in ring.add(edges, change).items() if v > 0})
        edges = RingMap({k: v for k, v in edges.items() if k not in list(edges)[:1]})


def graph(pick: Pick) -> RingMap:
    """Edges between four nodes: cycles, loops of one node, duplicates."""
    return ring.collect(((pick(4), pick(4)), 1) for _ in range(pick(6)))


def test_what_reads_a_collection_elsewhere_is_not_lifted() -> None:
    """A monomial reads what moves as atoms; anything else would be silently wrong."""
    inner = parse("for s in S collect (¬X) · {s}", {"S": ROWS, "X": ROWS})
    with pytest.raises(AssertionError, match="reads what moves in the loop"):
        lifted(monomial(inner), LOOP, ANSWERS, None)
    assert X in relations(inner)
