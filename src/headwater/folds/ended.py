"""Keys that have ended: when all rows of a key are closed, its state goes, if nobody will ask for it.

A stream that is cut by key and by no mark keeps a state for each key until it ends. Of a key whose rows are closed in every
header none comes any more, and those that came are ready, so that its state is asked for at the end only, where the steps
of the key may tell rows. If they would tell none, the state goes:

    no row of k comes, end(state of k) tells nothing   ⇒   without the state of k the same is told
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from headwater.calculus.patterns import Constant, OneOf, Punctuation, Punctuations
from headwater.calculus.types import BIGINT, BOOLEAN, DATE, INTEGER, SMALLINT, STRING, TINYINT
from headwater.folds.batch import Key, Told
from headwater.folds.columnar import Columnar, Marked
from headwater.folds.instances import Instances, Node
from headwater.folds.kernel import Chain, Keys, Sides
from headwater.folds.states import all_held, held, with_held
from headwater.streams.schema import Headers

_AS_WRITTEN = {BIGINT, INTEGER, SMALLINT, TINYINT, STRING, DATE, BOOLEAN}
"""Types whose values are in keys as they are in patterns."""
LISTED = 10_000
"""Keys of one punctuation that are looked up one by one; of more, all states are looked at."""


@dataclass(frozen=True)
class Place:
    """A place where a stream is cut by key, and the way to its state and first value."""

    node: Node
    keys: tuple[str, ...]
    headers: tuple[str, ...]
    path: tuple[tuple[Node, int], ...]


def places(node: Node, path: tuple[tuple[Node, int], ...] = ()) -> Iterator[Place]:
    """The places whose keys are never cut by marks, and that read headers of the stream itself."""
    match node:
        case Keys(t=t) if node.headers and not t.gives and _plain(t.headers_in, t.keys):
            yield Place(node, t.keys, tuple(node.headers), path)
        case Marked(keyed=keyed) if keyed is not None and _plain(node.marks, keyed[0]):
            yield Place(node, keyed[0], tuple(node.marks), path)
        case Sides(left=left, right=right):
            yield from places(left, (*path, (node, 0)))
            yield from places(right, (*path, (node, 1)))
        case Chain(first=first):
            yield from places(first, (*path, (node, 0)))


def _plain(headers: Headers, keys: Sequence[str]) -> bool:
    return all(t in _AS_WRITTEN for h in headers.values() for n, t in h.fields if n in keys)


def without_ended(
    node: Node,
    state: Any,
    closed: Mapping[str, Punctuations],
    before: Mapping[str, Punctuations],
) -> tuple[Any, int]:
    """The state of a stream without those of keys that have ended since, and how many these are."""
    count = 0
    for place in places(node):
        now = keys_closed(closed, place)
        if now == keys_closed(before, place):
            continue
        held_there = _at(place, state)
        if held_there is None:
            continue
        first = _first(place)
        gone = [
            key
            for key, s in _asked(place, now, held_there)
            if s is not None and _tells_nothing(place, first, key, s)
        ]
        if gone:
            count += len(gone)
            state = _with(place.path, state, with_held(held_there, dict.fromkeys(gone)))
    return state, count


def keys_closed(closed: Mapping[str, Punctuations], place: Place) -> Punctuations:
    """The keys of which all rows are closed, in each header."""
    out: Punctuations | None = None
    for h in place.headers:
        found = closed.get(h, Punctuations.NONE)
        mine = Punctuations([p for p in found if set(p.shape) <= set(place.keys)], found.types)
        out = mine if out is None else out & mine
    return Punctuations.NONE if out is None else out


def _asked(place: Place, now: Punctuations, states: Any) -> Iterator[tuple[Key, Any]]:
    """The states of keys that are closed: looked up where the keys are listed, else found among all."""
    listed = [_listed(p, place.keys) for p in now]
    if all(keys is not None for keys in listed):
        keys = list({k for some in listed for k in some or ()})
        yield from zip(keys, held(states, keys), strict=True)
        return
    for key, s in all_held(states).items():
        if now.matches(dict(zip(place.keys, key, strict=True))):
            yield key, s


def _listed(p: Punctuation, keys: Sequence[str]) -> list[Key] | None:
    """The keys that a punctuation has; None if they are not listed, or many."""
    values: list[Sequence[Any]] = []
    for k in keys:
        match p.at(k):
            case Constant(value):
                values.append([value])
            case OneOf(several):
                values.append(list(several))
            case _:
                return None
    count = int(np.prod([len(v) for v in values]))
    return list(product(*values)) if count <= LISTED else None


def _tells_nothing(place: Place, first: Any, key: Key, state: Any) -> bool:
    """Whether the steps of a key tell nothing at the end."""
    node = place.node
    if isinstance(node, Columnar):
        return True
    assert isinstance(node, Keys)
    told = Told()
    x = node.t.init(first, key)
    node.sub.run({}, Instances([x], [state], np.zeros(1, np.int64)), told)
    return not told.events and not any(len(r) for r, _ in told.rows)


def _first(place: Place) -> Any:
    """The first value at a place."""
    x: Any = None
    for node, side in place.path:
        if isinstance(node, Sides):
            x = node.t.init(x)[side]
    return x


def _at(place: Place, state: Any) -> Any:
    """The states of keys at a place."""
    for _, side in place.path:
        state = None if state is None else state[side]
    return state


def _with(path: Sequence[tuple[Node, int]], state: Any, held_there: Any) -> Any:
    """A state with others at a place."""
    if not path:
        return held_there
    (_, side), *rest = path
    parts = list(state)
    parts[side] = _with(rest, parts[side], held_there)
    return tuple(parts)
