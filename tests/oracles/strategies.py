"""Hypothesis strategies for types, terms, databases and changes.

The generators are in `random_values` and `random_terms`; here Hypothesis does the picking. A closed term comes
with its inputs as a `Query`; what to evaluate it on is drawn from `databases(query.inputs)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from headwater.calculus.terms import Term, Var
from headwater.calculus.types import FunType, KeyType, MapType, RecordType, RingType, Type
from random_terms import FULL, LABELS, POSITIVE, SHREDDABLE, At, Features, Generator, Query, query
from random_values import Database, Inputs, Pick, Types, change, conforms, database, updated, value

__all__ = [
    "FULL",
    "LABELS",
    "POSITIVE",
    "SHREDDABLE",
    "Features",
    "Query",
    "query",
    "Database",
    "Inputs",
    "Pick",
    "Types",
    "value",
    "conforms",
    "database",
    "change",
    "updated",
]
"""The generators themselves, for tests that pick in their own way."""


@lru_cache(maxsize=100)
def _below(n: int) -> SearchStrategy[int]:
    return st.integers(0, n - 1)


@st.composite
def drawn(draw: st.DrawFn, make: Callable[[Pick], Any]) -> Any:
    """What a generator makes when Hypothesis picks."""
    return make(lambda n: draw(_below(n)) if n > 1 else 0)


def flat_records() -> SearchStrategy[RecordType]:
    return drawn(lambda pick: Types(pick).flat())


def nested_records() -> SearchStrategy[RecordType]:
    return drawn(lambda pick: Types(pick).nested())


def ring_types() -> SearchStrategy[RingType]:
    return drawn(lambda pick: Types(pick).ring())


def function_types() -> SearchStrategy[FunType]:
    return drawn(lambda pick: Types(pick).function())


def input_types() -> SearchStrategy[dict[str, MapType]]:
    return drawn(lambda pick: Types(pick).inputs())


def ring_terms(
    t: RingType,
    scope: Mapping[str, Type],
    inputs: Inputs,
    depth: int = 3,
    features: Features = FULL,
) -> SearchStrategy[Term]:
    """Terms of a ring type over variables and inputs; the variables' names may not be x1, X2, ..."""
    at = At(tuple(Var(n, v) for n, v in scope.items()), depth)
    return drawn(lambda pick: Generator(pick, inputs, features).ring(t, at))


def key_terms(
    t: KeyType, scope: Mapping[str, Type], inputs: Inputs, depth: int = 3, features: Features = FULL
) -> SearchStrategy[Term]:
    """Terms of a key type."""
    at = At(tuple(Var(n, v) for n, v in scope.items()), depth)
    return drawn(lambda pick: Generator(pick, inputs, features).key(t, at))


def queries(features: Features, depth: int = 3, size: int = 10) -> SearchStrategy[Query]:
    """Closed terms with their inputs."""
    return drawn(lambda pick: query(pick, features, depth, size))


def positive_terms() -> SearchStrategy[Query]:
    return queries(POSITIVE)


def labelled_terms() -> SearchStrategy[Query]:
    return queries(LABELS)


def shreddable_terms() -> SearchStrategy[Query]:
    return queries(SHREDDABLE)


def full_terms() -> SearchStrategy[Query]:
    return queries(FULL)


def databases(inputs: Inputs) -> SearchStrategy[Database]:
    return drawn(lambda pick: database(inputs, pick))


def changes(inputs: Inputs) -> SearchStrategy[Database]:
    return drawn(lambda pick: change(inputs, pick))
