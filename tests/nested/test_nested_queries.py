"""Nested queries kept up to date: the movies step by step, and Q1 to Q7 under every law.

A nested answer is maintained in shredded form: the flat part and each dictionary change by their own
deltas, and what is nested from them is what the comprehension gives on the new data.
"""

from __future__ import annotations

from typing import Any

import pytest

from comprehensions import (
    ADDED,
    BEFORE,
    BENCHMARK,
    MOVIES,
    RELATED_AFTER,
    RELATED_BEFORE,
    benchmark_data,
    benchmark_types,
    related,
)
from headwater.calculus import ring
from headwater.calculus.check import type_of
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.notation.text import show
from headwater.calculus.ring import LabelValue, Value
from headwater.calculus.terms import Term, change_name
from headwater.language.comprehension import Query
from headwater.plan.nested.shred import Labeller, evaluate, map_context, nest, shred, shred_value
from headwater.rules.delta import delta
from headwater.rules.normalize import normalize
from headwater.theory.degree_cost import degree
from headwater.theory.split import split

# --- the movies, step by step ----------------------------------------------------------------------------

TERM = normalize(related.read(MOVIES))
SHREDDED = shred(TERM)
((PATH, DICTIONARY),) = SHREDDED.dictionaries().items()
M = from_python(MOVIES["M"], BEFORE)
CHANGE = {"ΔM": from_python(MOVIES["M"], ADDED)}


def label(movie: Any) -> LabelValue:
    return LabelValue("ℓ1", (tuple(from_python(MOVIES["M"].key, movie)),))


def test_shredding_gives_a_flat_query_and_one_dictionary() -> None:
    assert show(SHREDDED.flat) == "for m in M collect {{_1: m.name, _2: ℓ1(m)}}"
    assert PATH == "_2"
    assert show(DICTIONARY).startswith("dict ℓ1(m: {name: string, gen: string, dir: string}) ↦ ")


def test_flat_rows_carry_labels_and_the_dictionary_their_bags() -> None:
    assert interpret(SHREDDED.flat, {"M": M}) == ring.bag((m.name, label(m)) for m in BEFORE)
    bags = interpret(DICTIONARY, {"M": M})
    assert [bags(label(m)) for m in BEFORE] == [ring.bag(names) for _, names in RELATED_BEFORE]


def test_neither_delta_reads_the_old_movies() -> None:
    for part in (SHREDDED.flat, DICTIONARY):
        assert degree(part, {"M"}) == 1
        assert degree(delta(part, {"M"}), {"M"}) == 0
    assert show(delta(SHREDDED.flat, {"M"})) == "for m in ΔM collect {{_1: m.name, _2: ℓ1(m)}}"


def test_a_new_movie_changes_the_bags_of_old_ones_and_no_more() -> None:
    inputs = {"M": M, **CHANGE}
    added = interpret(delta(DICTIONARY, {"M"}), inputs)
    assert {m.name: added(label(m)) for m in BEFORE} == {
        "Drive": {"Jarhead": 1},
        "Skyfall": {"Jarhead": 1},
        "Rush": {},
    }
    assert interpret(delta(SHREDDED.flat, {"M"}), inputs) == {("Jarhead", label(ADDED[0])): 1}


def test_after_the_change_the_parts_nest_to_the_new_answer() -> None:
    inputs = {"M": M, **CHANGE}

    def maintained(part: Term) -> Value:
        return ring.add(interpret(part, inputs), interpret(delta(part, {"M"}), inputs))

    flat, context = maintained(SHREDDED.flat), map_context(SHREDDED.context, maintained)
    assert nest(flat, context, SHREDDED.type) == from_python(SHREDDED.type, RELATED_AFTER)


# --- the benchmark ------------------------------------------------------------------------------------------

TYPES = benchmark_types()
SEEDS = range(6)


@pytest.fixture(scope="module", params=SEEDS)
def data(request: pytest.FixtureRequest) -> tuple[dict[str, Value], dict[str, Value]]:
    """An old instance, and a change that deletes and inserts at every table."""
    old, new = (benchmark_data(seed) for seed in (request.param, request.param + 100))
    before = {n: from_python(t, old[n]) for n, t in TYPES.items()}
    after = {n: from_python(t, new[n]) for n, t in TYPES.items()}
    changes = {change_name(n): ring.add(after[n], ring.neg(before[n])) for n in TYPES}
    return before, changes


def after(before: dict[str, Value], changes: dict[str, Value]) -> dict[str, Value]:
    return {n: ring.add(v, changes[change_name(n)]) for n, v in before.items()}


@pytest.mark.parametrize("q", BENCHMARK, ids=lambda q: q.__name__)
def test_delta(q: Query, data: Any) -> None:
    before, changes = data
    term = q.read(TYPES)
    change = interpret(delta(term, q.inputs), {**before, **changes})
    new = interpret(term, after(before, changes))
    assert ring.add(interpret(term, before), change) == new


@pytest.mark.parametrize("q", BENCHMARK, ids=lambda q: q.__name__)
def test_shredding(q: Query, data: Any) -> None:
    before, _ = data
    term = normalize(q.read(TYPES))
    shredded, inputs, labels = shred(term), {}, Labeller()
    for name in q.inputs:
        inputs |= shred_value(name, before[name], TYPES[name], labels)
    flat, context = evaluate(shredded, inputs)
    assert nest(flat, context, type_of(term)) == interpret(term, before)


@pytest.mark.parametrize("q", BENCHMARK, ids=lambda q: q.__name__)
def test_shredded_parts_are_maintained(q: Query, data: Any) -> None:
    before, changes = data
    term, labels = normalize(q.read(TYPES)), Labeller()
    shredded = shred(term)
    old: dict[str, Value] = {}
    moved: dict[str, Value] = {}
    for name in q.inputs:
        old |= shred_value(name, before[name], TYPES[name], labels)
        parts = shred_value(name, changes[change_name(name)], TYPES[name], labels)
        moved |= {change_name(n): v for n, v in parts.items()}

    def maintained(part: Term) -> Value:
        change = interpret(delta(part, set(old)), {**old, **moved})
        return ring.add(interpret(part, old), change)

    flat, context = maintained(shredded.flat), map_context(shredded.context, maintained)
    assert nest(flat, context, type_of(term)) == interpret(term, after(before, changes))


@pytest.mark.parametrize("q", BENCHMARK, ids=lambda q: q.__name__)
def test_split(q: Query, data: Any) -> None:
    before, _ = data
    term = normalize(q.read(TYPES))
    whole = split(term)
    states = {s.var.name: interpret(s.term, before) for s in whole.states}
    assert interpret(whole.answer, before, states) == interpret(term, before)
