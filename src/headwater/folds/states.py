"""States of keys and of bags: plain data, or read from a map where they are needed.

Below a key everything is plain: the state of a `PartitionBy` is a dict, that of a bag a list. The outermost keys of a
stream, and bags that are below no key, are in maps of their own: a run reads the states of the keys that have rows, and all
of them where a frame ends, and writes those that changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from headwater.streams.schema import Event

Key = tuple[Any, ...]


class Stored(Protocol):
    """The states of keys in a map."""

    def some(self, keys: Sequence[Key]) -> list[Any]:
        """The states of some keys, None for one that has none."""

    def all(self) -> Mapping[Key, Any]:
        """The states of all keys."""

    def changed(self, states: Mapping[Key, Any]) -> Any:
        """The same with other states for some keys."""


def held(state: dict[Key, Any] | Stored, keys: Sequence[Key]) -> list[Any]:
    """The states of some keys, None for one that has none."""
    if isinstance(state, dict):
        return [state.get(k) for k in keys]
    return state.some(keys)


def all_held(state: dict[Key, Any] | Stored) -> Mapping[Key, Any]:
    """The states of all keys."""
    if isinstance(state, dict):
        return state
    return state.all()


def with_held(state: dict[Key, Any] | Stored | None, changed: Mapping[Key, Any]) -> Any:
    """The states of keys, with others for some."""
    if state is None:
        return dict(changed)
    if isinstance(state, dict):
        return {**state, **changed}
    return state.changed(changed)


class KeptTables:
    """Rows of a bag in maps, and those that a run adds, as tables by header."""

    def __init__(self, read: Any, added: Mapping[str, Sequence[pa.Table]]):
        """`read` gives the rows of a header in the map; without it the bag is a new one."""
        self.read, self.added = read, {h: list(tables) for h, tables in added.items()}

    def with_rows(self, more: Mapping[str, Sequence[pa.Table]]) -> KeptTables:
        """The same with more rows."""
        both = {h: [*self.added.get(h, ()), *more.get(h, ())] for h in {*self.added, *more}}
        return KeptTables(self.read, both)

    def all(self, header: str) -> pa.Table:
        """All rows of a header."""
        stored = [] if self.read is None else [self.read(header)]
        return pa.concat_tables([*stored, *self.added.get(header, ())])


class KeptBag:
    """Rows of a bag in a map, and those that a run adds; all are read only if somebody asks for them."""

    def __init__(self, read: Any, added: Sequence[Event] = ()):
        """`read` gives the rows in the map."""
        self.read, self.added = read, list(added)

    def __add__(self, events: Sequence[Event]) -> KeptBag:
        return KeptBag(self.read, [*self.added, *events])

    def __iter__(self) -> Iterator[Event]:
        yield from self.read()
        yield from self.added
