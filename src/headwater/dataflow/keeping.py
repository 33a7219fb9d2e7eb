"""State as a stage's function sees it: a record, records by key, or a bag of rows; what it was, and what is written.

A handle has what the group's state was at the epoch's start, loaded by whoever calls, and collects writes. Reads see the
writes of the same call. State stays until it is changed:

    state.n = 1                      a record of the group
    state[url].n = 1; del state[url] records by key
    state.add(rows)                  a bag; weights add up
    state.clear()                    all of it
    state.at(key).n = 1              of another group, seen from the next epoch
    state.wake(time)                 the group is called again when the clock has come to `time`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from headwater.dataflow.rows import ALIKE, Row, frozen, row_class, sort_key
from headwater.errors import StageError

Key = tuple[Any, ...]
Values = tuple[Any, ...]
_new = object.__new__
WORDS = frozenset(("at", "wake", "clock", "clear"))
"""What a state says besides its columns; no column and no part may be called so."""


@dataclass(frozen=True)
class Kept:
    """A part of a stage's state: its name (empty where there is one), what it is, and its columns."""

    name: str
    kind: str
    """`record`, `records` or `bag`."""
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    @property
    def all_columns(self) -> tuple[str, ...]:
        return (*self.key, *self.columns)


@dataclass
class Held:
    """What a part was for a group, and what was written: by key of an entry, which is () for a record; or by row."""

    was: Mapping[Key, Any] = field(default_factory=dict)
    writes: dict[Key, Any] = field(default_factory=dict)
    """Of records the new values, or None where they are gone; of a bag by how much rows became more."""
    blind: bool = False
    """Whether it is of another group, of which nothing is known."""


class _Part:
    """What all parts have: their columns, and whether the call that they were given to is over."""

    def __init__(self, kept: Kept, held: Held, told: Callable[[], None]):
        object.__setattr__(self, "_kept", kept)
        object.__setattr__(self, "_held", held)
        object.__setattr__(self, "_told", told)


class RecordHandle(_Part):
    """A record: its columns are attributes, None where it is not there."""

    _kept: Kept
    _held: Held
    _told: Callable[[], None]

    def _values(self) -> Values | None:
        held = self._held
        if () in held.writes:
            found: Values | None = held.writes[()]
            return found
        return held.was.get(())

    def __getattr__(self, name: str) -> Any:
        columns = self._kept.columns
        if name not in columns:
            raise AttributeError(f"the state has no `{name}`; it has {', '.join(columns)}")
        _refuse_to_show(self._held, ())
        values = self._values()
        return None if values is None else values[columns.index(name)]

    def __setattr__(self, name: str, value: Any) -> None:
        columns = self._kept.columns
        if name not in columns:
            raise AttributeError(f"the state has no `{name}`; it has {', '.join(columns)}")
        self._told()
        values = list(self._values() or (None,) * len(columns))
        values[columns.index(name)] = value
        self._held.writes[()] = tuple(values)

    def __bool__(self) -> bool:
        _refuse_to_show(self._held, ())
        return self._values() is not None

    def clear(self) -> None:
        """The record is gone."""
        self._told()
        self._held.writes.clear()
        if self._held.blind or () in self._held.was:
            self._held.writes[()] = None


class Entry:
    """A record at a key: columns of the key to read, columns of the record to read and to write.

    It knows the records that it is of, its key as it was given, and its key as it is found by.
    """

    __slots__ = ("_is",)
    _is: tuple[RecordsHandle, Key, Key]

    def __getattr__(self, name: str) -> Any:
        of, key, _ = self._is
        if name in of._kept.key:
            return key[of._kept.key.index(name)]
        told = ", ".join(of._kept.all_columns)
        raise AttributeError(f"the state has no `{name}`; it has {told}")

    def __bool__(self) -> bool:
        of, _, at = self._is
        return of._values(at) is not None


_fill: Callable[[Entry, Any], None] = Entry.__dict__["_is"].__set__
"""Tells an entry what it is; it is not set otherwise, for what is set is a column."""


@lru_cache(maxsize=256)
def entry_class(kept: Kept) -> type[Entry]:
    """The class of a state's entries, whose columns are read and written without a search for their names."""
    places = {n: i for i, n in enumerate(kept.columns)}
    blank = (None,) * len(places)

    def column(i: int) -> property:
        def read(entry: Entry) -> Any:
            of, _, at = entry._is
            values = of._values(at)
            return None if values is None else values[i]

        return property(read)

    def write(entry: Entry, name: str, value: Any) -> None:
        of, _, at = entry._is
        i = places.get(name)
        if i is None:
            told = ", ".join(kept.columns)
            raise AttributeError(f"the state has no `{name}` to set; it has {told}")
        values = blank if of._held.blind and at not in of._held.writes else of._values(at) or blank
        of._write(at, (*values[:i], value, *values[i + 1 :]))

    own = {n: column(i) for n, i in places.items() if n != "_is"}
    return type("Entry", (Entry,), {"__slots__": (), "__setattr__": write, **own})


class RecordsHandle(_Part):
    """Records by key."""

    _kept: Kept
    _held: Held
    _told: Callable[[], None]
    _seen: Any = None
    """The keys that may be looked at, where not all of the group's are loaded."""

    _made: type[Entry] | None = None
    """The class of its entries, once there was one."""

    def _key(self, key: Any) -> Key:
        given = key if isinstance(key, tuple) and len(self._kept.key) > 1 else (key,)
        if len(given) != len(self._kept.key):
            raise KeyError(f"{key!r} is no key of the state, which has {', '.join(self._kept.key)}")
        return given

    def _values(self, at: Key) -> Values | None:
        held = self._held
        if at in held.writes:
            found: Values | None = held.writes[at]
            return found
        if held.blind:
            _refuse_to_show(held, at)
        if self._seen is not None and at not in self._seen:
            raise StageError(
                f"the state at {at!r} was not loaded: only the entries that the group's rows name are",
                hint=f"read entries that a row's {', '.join(self._kept.only)} names, or leave `only` out",
            )
        return held.was.get(at)

    def _write(self, at: Key, values: Values | None) -> None:
        self._told()
        self._held.writes[at] = values

    def _entries(self) -> type[Entry]:
        self._made = entry_class(self._kept)
        return self._made

    def __getitem__(self, key: Any) -> Entry:
        if type(key) in ALIKE and len(self._kept.key) == 1:  # what most keys are
            given = at = (key,)
        else:
            given = self._key(key)
            at = frozen(given)
        made = _new(self._made or self._entries())
        _fill(made, (self, given, at))
        return made

    def __delitem__(self, key: Any) -> None:
        self._write(frozen(self._key(key)), None)

    def __contains__(self, key: Any) -> bool:
        return bool(self[key])

    def __iter__(self) -> Iterator[Entry]:
        """The records, in the order that the state has, else by key."""
        if self._seen is not None:
            raise StageError(
                "the state is read by `only`, and cannot be gone through", hint="leave `only` out"
            )
        held = self._held
        _refuse_to_show(held, None)
        there = {**held.was, **held.writes}
        names = self._kept.all_columns
        places = [names.index(n) for n in self._kept.order]
        rows = [(k, v) for k, v in there.items() if v is not None]

        def place(item: tuple[Key, Values]) -> Any:
            whole = (*item[0], *item[1])
            return sort_key([whole[i] for i in places]), sort_key(item[0])

        return iter([self[k if len(k) > 1 else k[0]] for k, _ in sorted(rows, key=place)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def clear(self) -> None:
        """All records of the group are gone; with `only`, those that are loaded."""
        self._told()
        _refuse_blind(self._held)
        gone = dict.fromkeys((*self._held.was, *self._held.writes))
        self._held.writes.update(gone)


def _refuse_to_show(held: Held, at: Any) -> None:
    """Of another group's state nothing can be read but what this call wrote."""
    if held.blind and at not in held.writes:
        raise StageError(
            "the state of another group is read, and it can only be written to",
            hint="send the group a row, and have it read its own state",
        )


def _refuse_blind(held: Held) -> None:
    if held.blind:
        raise StageError(
            "the entries of another group's state cannot be cleared, for they are not known here",
            hint="write to its entries by key, or have the group clear itself",
        )


class _Owing(StageError, TypeError):
    """A bag without a length; a TypeError, so that `list` and `sorted`, who ask for one first, go through it all the same."""


class BagHandle(_Part):
    """A bag of rows: `add` takes rows of any shape that has the bag's columns; going through it gives each row with `_w`."""

    _kept: Kept
    _held: Held
    _told: Callable[[], None]

    def _counts(self) -> dict[Key, int]:
        _refuse_to_show(self._held, None)
        out = dict(self._held.was)
        for row, n in self._held.writes.items():
            out[row] = out.get(row, 0) + n
        return {r: n for r, n in out.items() if n}

    def add(self, rows: Any, sign: int = 1) -> None:
        """Adds a row, or rows, with their weights."""
        self._told()
        one = isinstance(rows, (Row, dict, str, bytes)) or not isinstance(rows, Iterable)
        if isinstance(rows, tuple) and rows and not one:
            one = not any(isinstance(r, (tuple, dict)) for r in rows)
        for row in [rows] if one else rows:
            values, weight = self._shaped(row)
            if type(weight) is not int:
                raise StageError(
                    f"{row!r} is added to the state with the weight {weight!r}",
                    hint="a weight is a whole number: how often the row comes, or goes",
                )
            key = frozen(values)
            self._held.writes[key] = self._held.writes.get(key, 0) + sign * weight

    def remove(self, rows: Any) -> None:
        """Takes a row, or rows, away."""
        self.add(rows, -1)

    def _shaped(self, row: Any) -> tuple[Values, int]:
        names = self._kept.columns
        if isinstance(row, Row):
            fields = row._fields
            if all(n in fields for n in names):
                weight = row[fields.index("_w")] if "_w" in fields else 1
                return tuple(row[fields.index(n)] for n in names), weight
        if isinstance(row, dict):
            return tuple(row[n] for n in names), row.get("_w", 1)
        values = tuple(row) if isinstance(row, (tuple, list)) else (row,)
        if len(values) == len(names) + 1:
            return values[:-1], values[-1]
        if len(values) != len(names):
            raise StageError(
                f"{row!r} is no row of the state, which has {', '.join(names)}",
                hint="give a value for each column; a weight may follow",
            )
        return values, 1

    def __iter__(self) -> Iterator[Row]:
        """Each row once, with `_w`, in the order that the state has."""
        made = row_class((*self._kept.columns, "_w"))
        counts = self._counts()
        places = [self._kept.columns.index(n) for n in self._kept.order]
        ordered = sorted(counts, key=lambda r: (sort_key([r[i] for i in places]), sort_key(r)))
        return iter([made((*r, counts[r])) for r in ordered])

    def __len__(self) -> int:
        count = sum(self._counts().values())
        if count < 0:
            raise _Owing(
                f"more rows were taken from the state than it had: it has {count}",
                hint="go through it: each row has its `_w`, which may be negative",
            )
        return count

    def __bool__(self) -> bool:
        return bool(self._counts())

    def nth(self, place: int) -> Row:
        """The row at a place, counted from 0 and as often as each is there."""
        left = place
        for row in self:
            if 0 <= left < row[-1]:
                return row
            left -= row[-1]
        raise IndexError(f"there is no row {place} in a bag of {len(self)}")

    def clear(self) -> None:
        """The bag is empty."""
        self._told()
        _refuse_blind(self._held)
        self._held.writes.clear()
        self._held.writes.update({r: -n for r, n in self._held.was.items()})


HANDLES: dict[str, type[_Part]] = {
    "record": RecordHandle,
    "records": RecordsHandle,
    "bag": BagHandle,
}


class Open:
    """Whether the call is still going on: who writes to state afterwards is told so."""

    def __init__(self) -> None:
        self.open = True

    def __call__(self) -> None:
        if not self.open:
            self.refuse()

    def refuse(self) -> None:
        raise StageError(
            "state is written to after the function returned", hint="write before it returns"
        )


@dataclass
class Writes:
    """What one call wrote: parts of its own group, parts of others by their key, and when it is to be called again."""

    own: dict[str, Held]
    others: dict[Key, dict[str, Held]] = field(default_factory=dict)
    wake: Any = None
    wakes: bool = False


class State:
    """The state of a group, for one call."""

    def __init__(
        self,
        parts: Iterable[Kept],
        was: Mapping[str, Mapping[Key, Any]],
        clock: Any = None,
        seen: Mapping[str, Any] | None = None,
        key_width: int = 1,
    ):
        self._parts = {p.name: p for p in parts}
        self._open = Open()
        self._writes = Writes({n: Held(was.get(n, {})) for n in self._parts})
        self._clock, self._width = clock, key_width
        self._handles = _made(self._parts, self._writes.own, self._open, seen or {})

    def close(self) -> Writes:
        """What was written; the state takes no more."""
        self._open.open = False
        return self._writes

    def given(self) -> Any:
        """What the function gets: the part itself where there is one, with the words of a state."""
        return _Single(self) if list(self._parts) == [""] else _Several(self)

    def _wake(self, time: Any) -> None:
        self._open()
        self._writes.wake, self._writes.wakes = time, True

    def _clear(self) -> None:
        for handle in self._handles.values():
            handle.clear()  # type: ignore[attr-defined]
        self._wake(None)

    def _at(self, key: Any) -> Any:
        given = tuple(key) if isinstance(key, tuple) and self._width != 1 else (key,)
        if len(given) != self._width:
            raise StageError(f"{key!r} is no key of the stage's groups", hint="give a whole key")
        held = self._writes.others.setdefault(
            frozen(given), {n: Held(blind=True) for n in self._parts}
        )
        handles = _made(self._parts, held, self._open, {})
        return handles[""] if list(self._parts) == [""] else _Named(handles)


def _made(
    parts: Mapping[str, Kept], held: Mapping[str, Held], told: Callable[[], None], seen: Any
) -> dict[str, _Part]:
    out = {}
    for name, part in parts.items():
        out[name] = HANDLES[part.kind](part, held[name], told)
        if name in seen:
            object.__setattr__(out[name], "_seen", seen[name])
    return out


class _Named:
    """Several parts by name."""

    def __init__(self, handles: Mapping[str, _Part]):
        object.__setattr__(self, "_handles", handles)

    def __getattr__(self, name: str) -> Any:
        handles = object.__getattribute__(self, "_handles")
        if name in handles:
            return handles[name]
        raise AttributeError(f"the state has no `{name}`; it has {', '.join(handles)}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"`{name}` of the state is not set as a whole; set its columns")


class _Words:
    """The words of a state."""

    _state: State

    def at(self, key: Any) -> Any:
        """The state of another group, to write to."""
        return self._state._at(key)

    def wake(self, time: Any) -> None:
        """The group is called when the clock has come to a time; None takes that back."""
        self._state._wake(time)

    def clear(self) -> None:
        """All state of the group is gone, and it is not called again."""
        self._state._clear()

    @property
    def clock(self) -> Any:
        """The greatest time that was seen in the stage's input."""
        return self._state._clock


class _Several(_Words):
    def __init__(self, state: State):
        object.__setattr__(self, "_state", state)

    def __getattr__(self, name: str) -> Any:
        handle = self._state._handles.get(name)
        return getattr(_Named(self._state._handles), name) if handle is None else handle

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"`{name}` of the state is not set as a whole; set its columns")


class _Single(_Words):
    """The one part of a state, and the words."""

    def __init__(self, state: State):
        object.__setattr__(self, "_state", state)
        object.__setattr__(self, "_one", state._handles[""])

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_one"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_one"), name, value)

    def __getitem__(self, key: Any) -> Any:
        return self._one[key]

    def __delitem__(self, key: Any) -> None:
        del self._one[key]

    def __contains__(self, key: Any) -> bool:
        return key in self._one

    def __iter__(self) -> Iterator[Any]:
        return iter(self._one)

    def __len__(self) -> int:
        return len(self._one)

    def __bool__(self) -> bool:
        return bool(object.__getattribute__(self, "_one"))
