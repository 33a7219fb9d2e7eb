"""A program of the compiler names only what it has; one in which a name is another is refused, whichever name it is."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

import headwater as hw
from headwater.errors import HeadwaterError, NotIncremental
from headwater.language.sql import read_sql
from headwater.language.sql.texts import check_expression
from headwater.plan import stored
from headwater.plan.names import check
from sql.corpus import read
from sql.tables import SCHEMAS
from test_map_names import EVERY, compiler
from test_stored import again, places
from test_stored import db as db


def test_what_the_compiler_makes_names_only_what_it_has() -> None:
    checked = 0
    for i, query in enumerate(read()):
        if i % EVERY and "nested" not in query.spark:
            continue
        term = read_sql(query.spark, SCHEMAS)
        for strategy, keyed in (("recursive", False), ("first-order", False), ("recursive", True)):
            made = compiler(keyed)
            try:
                made.view("v", term, strategy)
            except NotIncremental:
                continue
            made.maps.complete()
            check(made.program)
            checked += 1
    assert checked > 100


READ = {"drives", "into", "target", "map", "group", "stratum", "column", "array"}
"""Places whose text is a name that something else must have."""
LISTS = {"columns", "keys", "brings", "weights", "key", "ring", "reads", "lookup", "route", "items"}
"""Places whose texts are such names; of pairs the first is."""


def names_in(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The places of names that must be somewhere else, in the statements of a map or in a stratum."""
    for at in places(value, path):
        inner: Any = value
        for step in at[len(path) :]:
            inner = inner[step]
        last = max(i for i, x in enumerate(at) if isinstance(x, str))
        word, rest = at[last], at[last + 1 :]
        named = word in READ if not rest else word in LISTS and (len(rest) == 1 or rest[-1] == 0)
        if isinstance(inner, str) and named:
            yield at


@pytest.mark.spark
def test_a_name_that_is_not_there_is_found_when_a_program_is_read(db: hw.Database) -> None:
    facts = json.loads(json.dumps(stored.facts_of(again(db.program))))
    wanted = [
        (key, at)
        for key, fact in facts.items()
        for part in ("kept", "stratum")
        if isinstance(fact, dict) and fact.get(part)
        for at in names_in(fact[part], (part,))
    ]
    assert len(wanted) > 500
    for key, path in wanted[:: len(wanted) // 250]:
        other = copy.deepcopy(facts[key])
        at: Any = other
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = "no such name"
        with pytest.raises((ValueError, KeyError, TypeError, HeadwaterError)):
            stored.read({**facts, key: other}, check_expression)
