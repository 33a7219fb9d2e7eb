"""The laws of transformers, checked over one sequence of events: what breaks is said."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from headwater.streams.stepper import Stepper, stepper
from headwater.streams.stream import Events, Stream, concat, is_empty, parse, prefix
from headwater.streams.transformer import Transformer
from random_schemas import random_stream, shuffled


class Unlawful(AssertionError):
    """A law that does not hold."""


def require(holds: bool, law: str) -> None:
    if not holds:
        raise Unlawful(law)


def judge(
    of: Transformer,
    x: Any,
    events: Events,
    rng: Random,
    made: Callable[[Transformer], Stepper] = stepper,
) -> None:
    """Theorem 25, open ≤ closed, and a stepper that equals both, after every prefix and at the end."""
    stream = parse(of.input, of.headers_in, events)
    more = random_stream(rng, of.input, of.headers_in, 4)
    opened = of.open(x, stream)
    require(
        prefix(opened, of.open(x, concat(stream, more))), "what was told is taken back (Theorem 25)"
    )
    final, closed = of.closed(x, stream)
    require(prefix(opened, closed), "the end takes back what was told")
    require(is_empty(of.open(x, parse(of.input, of.headers_in, ()))), "something of nothing")
    by_hand = _stepped(made(of), of, x, events)
    require(by_hand == (final, closed), "stepper at the end")
    other = shuffled(rng, of.input, of.headers_in, events)
    require(
        made(of).run(x, other)[0] == final, "the final value depends on order that does not matter"
    )
    told = parse(of.output, of.headers_out, made(of).run(x, other)[1])
    require(told == closed, "what is told depends on order that does not matter")


def _stepped(by: Stepper, of: Transformer, x: Any, events: Events) -> tuple[Any, Stream]:
    """The stepper's end, compared with `open` on the way there."""
    state = by.start(x)
    told: list[Any] = []
    for n, event in enumerate(events, 1):
        state, now = by.step(state, event)
        told += now
        said = parse(of.output, of.headers_out, told)
        meant = of.open(x, parse(of.input, of.headers_in, events[:n]))
        require(said == meant, f"stepper after {n} events: {said} is not {meant}")
    final, last = by.end(state)
    return final, parse(of.output, of.headers_out, [*told, *last])


def plain(state: Any) -> bool:
    """None, scalars, tuples, lists and dicts, of which each is plain."""
    if isinstance(state, tuple | list):
        return all(map(plain, state))
    if isinstance(state, dict):
        return all(map(plain, state)) and all(map(plain, state.values()))
    return state is None or isinstance(state, int | float | str)
