"""The state of a group that is one record, made to cost little: it is what most stages have.

What `keeping.State` gives for such a state, without a handle for each part and a dictionary for each group.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from headwater.dataflow.keeping import Held, Kept, Open, State, Values, Writes

NOTHING = Writes({"": Held()})
"""What a call wrote that wrote nothing."""


class OneRecord:
    """The state of a group that is one record: what `State` gives for it, made to cost little, for it is what most stages have."""

    __slots__ = ("_clock", "_kept", "_new", "_open", "_rest", "_values", "_width")

    def __init__(self, kept: Kept, values: Values | None, clock: Any, width: int):
        self._kept, self._values, self._clock, self._width = kept, values, clock, width
        self._new, self._open = False, True
        self._rest: State | None = None

    def _get(self, i: int) -> Any:
        return None if self._values is None else self._values[i]

    def _set(self, i: int, value: Any) -> None:
        if not self._open:
            Open().refuse()
        if not self._new or self._values is None:
            values = list(self._values or (None,) * len(self._kept.columns))
            self._values, self._new = values, True  # type: ignore[assignment]
        self._values[i] = value  # type: ignore[index]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the state has no `{name}`; it has {', '.join(self._kept.columns)}")

    def __bool__(self) -> bool:
        return self._values is not None

    @property
    def clock(self) -> Any:
        """The greatest time that was seen in the stage's input."""
        return self._clock

    def _others(self) -> State:
        if not self._open:
            Open().refuse()
        if self._rest is None:
            self._rest = State([self._kept], {}, self._clock, None, self._width)
        return self._rest

    def at(self, key: Any) -> Any:
        """The state of another group, to write to."""
        return self._others()._at(key)

    def wake(self, time: Any) -> None:
        """The group is called when the clock has come to a time; None takes that back."""
        self._others()._wake(time)

    def clear(self) -> None:
        """The record is gone, and the group is not called again."""
        self.wake(None)
        self._values, self._new = None, True

    def close(self) -> Writes:
        """What was written; the state takes no more."""
        self._open = False
        if not self._new and self._rest is None:
            return NOTHING
        out = Writes({}) if self._rest is None else self._rest.close()
        new = None if self._values is None else tuple(self._values)
        out.own = {"": Held({}, {(): new} if self._new else {})}
        return out


def closed(state: Any) -> Writes:
    """What was written to a state, which takes no more; a column may be called `close`, too."""
    return OneRecord.close(state) if isinstance(state, OneRecord) else state.close()


@lru_cache(maxsize=256)
def one_record(kept: Kept) -> type[OneRecord]:
    """The class of such states, with the record's columns as attributes."""

    def column(i: int) -> property:
        return property(lambda s: s._get(i), lambda s, v: s._set(i, v))

    cells = {n: column(i) for i, n in enumerate(kept.columns)}
    return type("State", (OneRecord,), {"__slots__": (), **cells})
