"""The kernel of folds tells what steppers tell: random transformers over random cuts, with states kept as texts and in maps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers

from faulty_files import MemoryFiles
from headwater.calculus.types import BIGINT
from headwater.engine.working import Working
from headwater.errors import NotMonotone
from headwater.folds import kernel
from headwater.folds.batch import Rows, Told, batch_of, table_of
from headwater.folds.codec import as_text, of_texts
from headwater.folds.instances import GOES_ON, Instances, Node
from headwater.folds.keeping import Layout, load, save
from headwater.folds.kernel import node_of
from headwater.state.run import Runs
from headwater.streams.schema import Event, Header
from headwater.streams.stepper import stepper
from headwater.streams.stream import Stream, parse
from headwater.streams.transformer import (
    Composed,
    Hierarchical,
    Parallel,
    Partitioned,
    Relational,
    Relaxed,
    Transformer,
    Value,
)
from random_schemas import random_events, random_headers, random_schema
from random_transformers import first_value, random_pipeline, shapes

# --- transformers -----------------------------------------------------------------------------------------


def events_in_order(told: Told, headers: Any) -> list[Event]:
    """What was told, in order."""
    batch, _ = told.in_order(headers)
    placed = [p for r in batch.values() for p in zip(r.place.tolist(), r.events, strict=True)]
    return [e for _, e in sorted(placed, key=lambda p: p[0])]


def begun(t: Transformer, first: Value) -> Transformer:
    """A transformer that begins with a value where it is given None."""

    def known(x: Value) -> Value:
        return first if x is None else x

    def after(f: Any) -> Any:
        return None if f is None else lambda x, *more: f(known(x), *more)

    match t:
        case Relational():
            answer = t.answer or _of_itself(t)
            return replace(t, answer=after(answer), each=after(t.each), early=after(t.early))
        case Parallel() | Hierarchical():
            return replace(t, init=after(t.init))
        case Partitioned():
            return replace(t, init=after(t.init), agg=after(t.agg))
        case Relaxed():
            return Relaxed(begun(t.inner, first), output=t.output)
        case Composed():
            return begun(t.first, first) >> begun(t.second, first)
    raise AssertionError(t)


def _of_itself(t: Relational) -> Any:
    """The answer of a bag that gives back its first value, with all that it tells before its end."""
    if t.early is not None:
        return lambda x, rows: (x, t.early(x, rows))
    return lambda x, rows: (x, [e for r in rows for e in (t.each(x, r) if t.each else ())])


def at_once(t: Transformer, rng: Random) -> Transformer:
    """The same, in which the frames of some marks that are below no key do not depend on each other."""
    match t:
        case Hierarchical():
            sub = at_once(t.sub, rng)
            if rng.random() < 0.6:
                fields = {
                    n: getattr(t, n) for n in ("marks", "gives", "update", "init", "ret", "fin")
                }
                return Hierarchical(**fields, sub=begun(sub, (rng.randrange(1000), ())))
            return replace(t, sub=sub)
        case Parallel():
            return replace(t, left=at_once(t.left, rng), right=at_once(t.right, rng))
        case Relaxed():
            return Relaxed(at_once(t.inner, rng), output=t.output)
        case Composed():
            return at_once(t.first, rng) >> at_once(t.second, rng)
    return t


def drawn(seed: int) -> tuple[Transformer, Random]:
    rng = Random(seed)
    headers = random_headers(rng, rng.randint(1, 5))
    schema = random_schema(rng, headers)
    made = random_pipeline(rng, schema, headers, rng.choice([1, 1, 1, 2, 3]))
    return at_once(made, rng), rng


# --- runs -------------------------------------------------------------------------------------------------


def as_batch(rng: Random, events: Sequence[Event], headers: Any) -> dict[str, Rows]:
    """Events of one instance, each header as tuples or as a table."""
    out = {}
    for name, rows in batch_of(events, [0] * len(events), headers).items():
        if rng.random() < 0.5:
            table = table_of(headers[name], rows.rows, "UTC")
            rows = Rows(rows.header, rows.place, rows.of, table=table)
        out[name] = rows
    return out


class Maps:
    """States in maps, as a database has them."""

    def __init__(self, node: Node):
        self.node, self.layout = node, Layout("s", node, "UTC")
        self.working = Working({}, {}, Runs(MemoryFiles()))

    def load(self) -> Any:
        return load(self.layout, self.node, self.working)[0]

    def save(self, state: Any) -> None:
        save(self.layout, self.node, state, None, self.working)
        self.working.go_on()
        self.working.next_round()


class Texts:
    """A state as one text."""

    def __init__(self, node: Node):
        self.text = as_text(None)

    def load(self) -> Any:
        return of_texts([self.text])[0]

    def save(self, state: Any) -> None:
        self.text = as_text(state)


def run_in_cuts(
    of: Transformer, x: Value, events: Sequence[Event], cuts: Sequence[int], rng: Random, kept: Any
) -> tuple[Value, list[list[Event]]]:
    """What the kernel tells in each run and at the end, and the final value."""
    node = node_of(of)
    states = kept(node)
    told: list[list[Event]] = []
    final = None
    bounds = [0, *cuts, len(events)]
    for n, (a, b) in enumerate(pairwise(bounds)):
        over = n == len(bounds) - 2
        end = b - a if over else GOES_ON
        at = Instances([x], [states.load()], np.array([end], np.int64))
        here = Told()
        ran = node.run(as_batch(rng, events[a:b], of.headers_in), at, here)
        told.append(events_in_order(here, of.headers_out))
        if over:
            final = ran.finals[0]
        states.save(ran.states[0])
    return final, told


def compare(seed: int, kept: Any, length: int = 12) -> Transformer:
    """What the kernel tells after each run is the open meaning of the events so far, and at the end the closed one."""
    of, rng = drawn(seed)
    x = first_value(rng)
    events = random_events(rng, of.input, of.headers_in, length)
    cuts = sorted(rng.randint(0, len(events)) for _ in range(rng.randrange(4)))
    final, told = run_in_cuts(of, x, events, cuts, rng, kept)
    should = stepper(of)
    state, said, so_far = should.start(x), list[Event](), list[Event]()
    start = 0
    for n, cut in enumerate([*cuts, len(events)]):
        for e in events[start:cut]:
            state, more = should.step(state, e)
            said += more
        start = cut
        if n == len(cuts):
            value, more = should.end(state)
            said += more
            assert final == value, (seed, str(of.input))
        so_far += told[n]
        assert _stream(of, so_far) == _stream(of, said), (seed, n, cuts, str(of.input))
    return of


def _stream(of: Transformer, events: Sequence[Event]) -> Stream:
    return parse(of.output, of.headers_out, tuple(events))


# --- laws -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cases", [400, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_kernel_is_the_stepper(cases: int) -> None:
    """Runs of any cut, with the state carried from run to run as a text."""
    seen = Counter(shape for seed in range(cases) for shape in set(shapes(compare(seed, Texts))))
    kinds = (Relational, Parallel, Hierarchical, Partitioned, Relaxed, Composed)
    assert min(seen[kind.__name__] for kind in kinds) > cases / 4


@pytest.mark.parametrize("cases", [150, pytest.param(10_000, marks=pytest.mark.slow)])
def test_states_in_maps_are_the_states(cases: int) -> None:
    """The same with the states of keys and bags in maps, which are read where they are needed."""
    for seed in range(50_000, 50_000 + cases):
        compare(seed, Maps)


@pytest.mark.property
@given(integers(min_value=100_000))
@settings(max_examples=settings().max_examples // 2, deadline=None)
def test_any_transformer_runs_as_its_stepper_does(seed: int) -> None:
    compare(seed, Texts if seed % 2 else Maps, 20)


# --- wrong rules ------------------------------------------------------------------------------------------


def only_keys_with_rows(state: Any) -> Any:
    """Keys that have no row in a run do not end with their frame."""
    return {}


def nothing_held(state: Any, keys: Sequence[Any]) -> list[Any]:
    """Every run begins anew."""
    return [None] * len(keys)


def all_that_is_told(before: list[Event], after: list[Event]) -> list[Event]:
    """What was told before the end is told again."""
    return after


WRONG = {"all_held": only_keys_with_rows, "held": nothing_held, "_more": all_that_is_told}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, name, WRONG[name])
    with pytest.raises((AssertionError, NotMonotone)):
        for seed in range(400):
            compare(seed, Texts)


def test_places_that_several_rows_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the second of two tells of rows with one place stays in order; found with seeds 178 and 422."""
    for seed in (178, 422):
        compare(seed, Texts)

    def turned(told: Told) -> tuple[Any, Any]:
        place = np.array(told.place, np.int64)
        order = np.lexsort((-np.arange(len(place)), place))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank, place[order]

    monkeypatch.setattr(Told, "_ranked", turned)
    with pytest.raises(AssertionError):
        for seed in range(400):
            compare(seed, Texts)


def test_a_bag_that_takes_back_is_refused() -> None:
    bids = Header.of("bids", price=BIGINT)
    highest = Header.of("highest", price=BIGINT)

    def early(x: Value, rows: Sequence[Event]) -> list[Event]:
        return [highest.event(max(e.row.price for e in rows))] if rows else []

    of = Relational({"bids": bids}, {"highest": highest}, early=early)
    events = [bids.event(1), bids.event(2)]
    with pytest.raises(NotMonotone):
        run_in_cuts(of, None, events, [1], Random(0), Texts)
