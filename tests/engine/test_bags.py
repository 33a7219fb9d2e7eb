"""Answers over the bags of many groups at once are the answers of the calculus, group by group."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.calculus.answers import ANSWERS
from headwater.calculus.ring import RingMap
from headwater.calculus.scalars import order
from headwater.calculus.types import (
    BIGINT,
    DATE,
    DOUBLE,
    STRING,
    Base,
    KeyType,
    RecordType,
    bag,
    decimal,
)
from headwater.engine.here.bags import answer, functions
from headwater.interop.arrow_types import arrow_type

pytestmark = pytest.mark.property
PRICE = decimal(20, 3)
VALUES: dict[Base, st.SearchStrategy[Any]] = {
    BIGINT: st.integers(-3, 3) | st.just((1 << 53) + 1),
    DOUBLE: st.sampled_from([0.0, 0.1, -2.5, 1e300, math.inf, -math.inf, math.nan]),
    PRICE: st.sampled_from(
        [Decimal(n) for n in ("0.000", "0.001", "-7.125", "99999999999999.999")]
    ),
    STRING: st.sampled_from(["", "a", "b", "é", "ab", "\U0001f40e", "zz"]),
    DATE: st.dates(),
}
NUMBERS = (BIGINT, DOUBLE, PRICE)
SHARES = st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.75, 0.999, 1.0]) | st.floats(0, 1)
DIRECTIONS = st.tuples(st.booleans(), st.booleans())

Case = tuple[str, tuple[Any, ...], KeyType, list[RingMap]]


def rows(element: st.SearchStrategy[Any]) -> st.SearchStrategy[list[RingMap]]:
    """Groups, some of them empty, with multiplicities that may be negative."""
    times = st.sampled_from([1, 1, 2, 3, 7, -1])
    groups = st.dictionaries(element, times, max_size=6).map(RingMap)
    return st.lists(groups, max_size=5)


def null_or(t: Base) -> st.SearchStrategy[Any]:
    return VALUES[t] | st.none()


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """An answer, its parameters, the type of an element, and the bags of some groups."""
    name = draw(st.sampled_from(sorted(functions())))
    t, u, w = (draw(st.sampled_from(list(VALUES))) for _ in range(3))
    params: tuple[Any, ...] = ()
    match name:
        case "percentile" | "percentile_disc":
            t = draw(st.sampled_from(NUMBERS))
            params = (draw(SHARES), draw(st.booleans()))
            return name, params, t, draw(rows(VALUES[t]))
        case "mode" | "min" | "max":
            params = (draw(st.booleans()),) if name == "mode" else ()
            return name, params, t, draw(rows(null_or(t)))
        case "listagg":
            columns = RecordType((("o1", t), ("o2", u)))
            keys = st.tuples(null_or(t), null_or(u))
            separator = draw(st.sampled_from(["", ", ", "é"]))
            params = (separator, (draw(DIRECTIONS), draw(DIRECTIONS)))
            element = RecordType((("order", columns), ("row", STRING)))
            return name, params, element, draw(rows(st.tuples(keys, VALUES[STRING])))
        case _ if draw(st.booleans()):
            by = RecordType((("a", t), ("b", u)))
            element = RecordType((("by", by), ("value", w)))
            drawn = st.tuples(st.tuples(null_or(t), null_or(u)), null_or(w))
            return name, params, element, draw(rows(drawn))
        case _:
            element = RecordType((("by", t), ("value", w)))
            return name, params, element, draw(rows(st.tuples(VALUES[t], null_or(w))))


def as_arrow(t: KeyType, value: Any) -> Any:
    """A value of the calculus as Arrow reads it."""
    if isinstance(t, RecordType) and value is not None:
        return {n: as_arrow(f, v) for (n, f), v in zip(t.fields, value, strict=True)}
    return value


def table_of(t: KeyType, groups: list[RingMap]) -> tuple[pa.Table, np.ndarray]:
    """The rows of all groups, in the order of their elements, and the group of each."""
    listed = [(i, k, g[k]) for i, g in enumerate(groups) for k in sorted(g, key=order)]
    fields = t.fields if isinstance(t, RecordType) else (("value", t),)
    whole = [k if isinstance(t, RecordType) else (k,) for _, k, _ in listed]
    arrays = {
        n: pa.array([as_arrow(f, k[i]) for k in whole], arrow_type(f))
        for i, (n, f) in enumerate(fields)
    }
    arrays["_n"] = pa.array([n for _, _, n in listed], pa.int64())
    return pa.table(arrays), np.array([i for i, _, _ in listed], np.int64)


def same(found: Any, wanted: Any) -> bool:
    """Equal; a NaN is a NaN, and doubles are the same to the last digit."""
    if isinstance(found, float) and isinstance(wanted, float):
        return found == wanted or (found != found and wanted != wanted)
    return bool(found == wanted)


@given(cases())
@example(("percentile", (0.5, False), BIGINT, [RingMap(), RingMap({1: -1}), RingMap({1: 1, 4: 1})]))
@example(("percentile", (0.3, True), PRICE, [RingMap({Decimal("0.001"): 2, Decimal("7.125"): 1})]))
@example(("mode", (False,), STRING, []))
@example(
    ("min_by", (), RecordType((("by", DOUBLE), ("value", STRING))), [RingMap({(math.nan, "a"): 1})])
)
def test_kernel_is_the_answer_of_the_calculus(case: Case) -> None:
    name, params, t, groups = case
    returns = ANSWERS[name].types(bag(t), params)
    assert isinstance(returns, Base)
    table, at = table_of(t, groups)
    found = answer(name, params, table, at, len(groups), arrow_type(returns)).to_pylist()
    wanted = [ANSWERS[name].apply(params, g) for g in groups]
    assert len(found) == len(wanted)
    assert all(map(same, found, wanted)), (found, wanted)


def test_order_may_be_spread_over_columns() -> None:
    """The fields of a struct may stand as columns of their own."""
    arrays = {"by": [1, 1, 2], "then": [5, 5, 0], "value": ["a", "b", "c"], "_n": [1, 1, 1]}
    at = np.zeros(3, np.int64)
    assert answer("min_by", (), pa.table(arrays), at, 1, pa.large_string()).to_pylist() == ["a"]
    order_of = (("|", ((True, True), (False, False))),)[0]
    joined = answer("listagg", order_of, pa.table(arrays), at, 1, pa.large_string())
    assert joined.to_pylist() == ["c|a|b"]
