"""Groups from a position on: what is found is what a sorted list has, and little else is read."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.state import search, writing
from headwater.state.arrangement import Arrangement
from headwater.state.positions import from_position
from headwater.state.run import MapSpec, Order, Run, RunRef, Runs
from test_kernels import entries, recorded, weakly
from test_keys import Memory, written

INT = pa.int64()
KEY = (("k", INT), ("o", INT), ("e", INT))
Entry = tuple[int, int | None, int]
Place = tuple[int | None, int]
PLACES = st.tuples(st.none() | st.integers(-3, 3), st.integers(-1, 3))
ORDER = st.builds(Order, st.just("o"), st.booleans(), st.booleans())
ORDERS = st.tuples(ORDER) | st.tuples(ORDER, st.builds(Order, st.just("e"), st.booleans()))


@pytest.mark.property
@given(
    batches=st.lists(
        st.dictionaries(
            st.tuples(st.integers(0, 4), st.none() | st.integers(-2, 2), st.integers(0, 2)),
            st.sampled_from([1, 1, 2, -1, -2]),
            max_size=25,
        ),
        max_size=4,
    ),
    probes=st.lists(st.tuples(st.integers(0, 6), PLACES, PLACES), max_size=6),
    before=st.integers(0, 4),
    after=st.integers(0, 4),
    ends=st.booleans(),
    orders=ORDERS,
    kind=st.sampled_from(["change", "value"]),
    segment=st.sampled_from([1, 2, 7, 100]),
)
def test_groups_from_a_position_on(
    batches: list[dict[Entry, int]],
    probes: list[tuple[int, Place, Place]],
    before: int,
    after: int,
    ends: bool,
    orders: tuple[Order, ...],
    kind: str,
    segment: int,
) -> None:
    """Whatever is deleted, and hashes alike; with NULLs, up and down."""
    spec = MapSpec("m", KEY, (("n", INT),), ("k",), kind, orders)
    files, refs = Memory(), list[RunRef]()
    model: dict[Entry, int] = {}
    keys = pa.table(
        {"_h": pa.array([weakly(k) for k, _, _ in probes], INT), "k": _ints(p[0] for p in probes)}
    )
    low, high = (
        pa.table({"o": _ints(p[i][0] for p in probes), "e": _ints(p[i][1] for p in probes)})
        for i in (1, 2)
    )
    with patch.object(writing, "SEGMENT", segment), patch.object(search, "BLOCK", 3):
        opened = Runs(files)
        for i, batch in enumerate(batches):
            changes = {e: max(n, -model.get(e, 0)) for e, n in batch.items()}
            model |= {e: model.get(e, 0) + n for e, n in changes.items()}
            new, _ = Arrangement(spec, refs, opened).merge(entries(changes))
            refs += written(files, spec, [new], i + 1)
        arrangement = Arrangement(spec, refs, opened)
        found = from_position(arrangement, keys, low, before, after, high if ends else None)

    by = orders[0]

    def rank(o: int | None, e: int) -> Any:
        first = ((o is None) == by.nulls_last, 0 if o is None else -o if by.descending else o)
        return (*first, -e if orders[-1].column == "e" and orders[-1].descending else e)

    def place(entry: Entry | Place) -> Any:
        """The order columns alone."""
        return rank(*entry[-2:])[: 1 + len(orders)]

    wanted: list[tuple[int, Entry, int]] = []
    for i, (k, start, stop) in enumerate(probes):
        group = sorted(
            ((e, n) for e, n in model.items() if e[0] == k and n),
            key=lambda x: rank(*x[0][1:]),
        )
        first = [x for x in group if place(x[0]) < place(start)]
        rest = [x for x in group if place(x[0]) >= place(start)]
        inner = [x for x in rest if not ends or place(x[0]) <= place(stop)]
        chosen = _holding(first[::-1], before)[::-1] + inner + _holding(rest[len(inner) :], after)
        wanted += [(i, e, n) for e, n in chosen]
    assert [(r["_i"], (r["k"], r["o"], r["e"]), r["n"]) for r in found.to_pylist()] == wanted


def _ints(values: Any) -> pa.Array:
    return pa.array(list(values), INT)


def _holding(group: list[tuple[Entry, int]], k: int) -> list[tuple[Entry, int]]:
    """The entries that hold the first k rows."""
    upto = np.cumsum([0, *(n for _, n in group)])
    return [e for e, n in zip(group, upto, strict=False) if n < k]


@pytest.mark.parametrize("deleted", [0, 5, 50])
def test_little_is_read(monkeypatch: pytest.MonkeyPatch, deleted: int) -> None:
    """A few rows of a large group are found by bisection, also when their neighbours are gone."""
    size, middle = 100_000, 60_000
    spec = MapSpec("m", KEY, (("n", INT),), ("k",), "change", (Order("o"),))
    files, refs = Memory(), list[RunRef]()
    gone = {(1, o, 0): -1 for o in range(middle - deleted, middle)}
    for i, batch in enumerate([{(k, o, 0): 1 for k in (1, 4) for o in range(size)}, gone]):
        new, _ = Arrangement(spec, refs, Runs(files)).merge(entries(batch))
        refs += written(files, spec, [new], i + 1) if new.num_rows else []
    keys = pa.table({"_h": pa.array([weakly(1)], INT), "k": pa.array([1], INT)})
    position, until = (pa.table({"o": pa.array([o], INT)}) for o in (middle, middle + 3))
    read = recorded(monkeypatch, Run, "take", lambda answer: answer.num_rows)
    found = from_position(Arrangement(spec, refs, Runs(files)), keys, position, 2, 1, until)
    wanted = [middle - deleted - 2, middle - deleted - 1, *range(middle, middle + 5)]
    assert found.column("o").to_pylist() == wanted
    assert sum(read) <= 300 + 8 * deleted
