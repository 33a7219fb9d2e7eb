"""What holds of every query over streams: its stepper is its meaning, what is told stays told, and state is plain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from headwater.streams.pipeline import Query
from headwater.streams.schema import Event
from headwater.streams.stream import Stream, parse, prefix

PLAIN = (bool, int, float, str, bytes, date, Decimal)


def plain(state: Any) -> bool:
    """Whether a state is made of None, scalars, tuples, lists and dicts only."""
    match state:
        case None:
            return True
        case dict():
            return all(plain(k) and plain(v) for k, v in state.items())
        case list() | tuple():
            return all(map(plain, state))
        case _:
            return isinstance(state, PLAIN)


def checked_run(query: Query, events: Sequence[Event], *, every: int = 1) -> Stream:
    """What a query tells of a stream, after the laws were checked on it, at every so many prefixes."""
    whole = query.run(events)
    stepper = query.stepper()
    state, told, before = stepper.start(None), list[Event](), query.so_far([])
    for place, event in enumerate(events, 1):
        state, now = stepper.step(state, event)
        told += now
        if place % every == 0:
            assert plain(state), state
            so_far = query.so_far(events[:place])
            assert parse(query.output, query.headers_out, told) == so_far
            assert prefix(before, so_far) and prefix(so_far, whole)
            before = so_far
    told += stepper.end(state)[1]
    assert parse(query.output, query.headers_out, told) == whole
    return whole


def stream(query: Query, events: Iterable[Event | tuple[str, tuple[Any, ...]]]) -> Stream:
    """Events as a stream of what the query tells."""
    return parse(query.output, query.headers_out, [Event(*e) for e in events])
