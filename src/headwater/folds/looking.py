"""Streams looked at: which rows wait for which header, what was kept for a key, and what a reference run would have told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.calculus.patterns import ANYTHING, Punctuation, Punctuations
from headwater.dataflow.rows import values_of
from headwater.errors import BadChange, QueryError
from headwater.folds import ended, keeping
from headwater.folds.codec import of_texts
from headwater.folds.columnar import Columnar, FrameQuery
from headwater.folds.fold import Beside, Fold
from headwater.folds.instances import Node
from headwater.folds.kernel import Chain, Keys, Leaf, Marks, Sides
from headwater.folds.scale import MOST
from headwater.io.values import NOT_FITTING
from headwater.plan.program import WEIGHT
from headwater.state.arrangement import Arrangement
from headwater.state.run import MapSpec, column
from headwater.streams.order import depends
from headwater.streams.schema import Event
from headwater.streams.stepper import stepper


@dataclass(frozen=True)
class Waiting:
    """Rows of a header that wait: how many, the first of them, and up to where the headers that they wait for are closed."""

    header: str
    rows: int
    first: Any
    waits_for: Mapping[str, Any]
    """For each header that is not closed far enough for the first row, up to where it is; None if nothing is closed."""
    unbound: bool = False
    """Whether the stream has functions that this process does not know, so that nothing of it runs."""

    def __str__(self) -> str:
        many = "1 row" if self.rows == 1 else f"{self.rows} rows"
        told = f"{many} of `{self.header}` {'waits' if self.rows == 1 else 'wait'}, the first at {self.first}"
        if not self.waits_for:
            why = "until its functions are known here" if self.unbound else "rows before them wait"
            return f"{told}: {why}"
        behind = [
            f"`{h}` is closed up to {upto}" if upto is not None else f"nothing of `{h}` is closed"
            for h, upto in self.waits_for.items()
        ]
        return f"{told}: {', '.join(behind)}"


def waits_for(
    fold: Fold, rows: Mapping[str, pa.Table], closed: Mapping[str, Punctuations]
) -> list[Waiting]:
    """What waits of each header, and for which headers."""
    out = []
    for h, table in rows.items():
        if not table.num_rows:
            continue
        count = int(np.asarray(column(table, WEIGHT)).sum())
        if fold.by_arrival:
            out.append(Waiting(h, count, None, {}))
            continue
        numbers = fold.scale.numbers(column(table, fold.order[h]))
        at = int(numbers.argmin())
        first = table.slice(at, 1)
        behind: dict[str, Any] = {}
        for g in fold.inputs:
            keys = depends(fold.schema, h, g)
            if keys is None and g != h:
                continue
            upto = _closed_for(fold, closed[g], g, keys or (), first)
            if upto is None or upto <= numbers[at]:
                behind[g] = None if upto is None else _said(fold, upto)
        out.append(Waiting(h, count, _said(fold, numbers[at].item()), behind))
    return out


def _closed_for(
    fold: Fold, closed: Punctuations, header: str, keys: tuple[str, ...], row: pa.Table
) -> Any:
    """Up to which number rows of a header with the keys of a row are closed; None if none are."""
    found = []
    cells = {k: row.column(k).to_pylist()[0] for k in keys}
    for p in closed:
        if set(p.shape) - {fold.order[header], *keys}:
            continue
        if Punctuation(tuple((k, p.at(k)) for k in keys if p.at(k) != ANYTHING)).matches(cells):
            at = p.at(fold.order[header])
            bound = (MOST, True) if at == ANYTHING else fold.scale.bound(at)
            if bound is not None:
                found.append(bound[0])
    return max(found, default=None)


def _said(fold: Fold, number: Any) -> Any:
    if abs(number) >= MOST:
        return "its end"
    return fold.scale.values(np.array([number], fold.scale.kind)).to_pylist()[0]


# --- states ------------------------------------------------------------------------------------------------


def kept_for(fold: Fold, key: tuple[Any, ...], at: Callable[[MapSpec], Arrangement]) -> Any:
    """What the steps of a stream have kept for a key, or below none."""
    layout = fold.layout
    if not key:
        one = pa.table({"_h": pa.array([0], pa.int64())})
        found = at(layout.root).lookup(one)
        return of_texts(values_of(column(found, keeping.TEXT)))[0][0] if found.num_rows else None
    places = {n: r for n, r in layout.key_types.items() if len(r.fields) == len(key)}
    if not places:
        known = [", ".join(n for n, _ in r.fields) for r in layout.key_types.values()]
        raise QueryError(
            f"{len(key)} values are given for a key of `{fold.name}`",
            hint=f"its keys are: {'; '.join(known) or 'none'}",
        )
    out = []
    for n, row in places.items():
        try:
            wanted = keeping.keyed(layout.keys[n], row, [key], layout.zone)
        except (BadChange, *NOT_FITTING) as e:
            columns = ", ".join(f"{n} {t}" for n, t in row.fields)
            raise QueryError(
                f"{key!r} is no key of `{fold.name}`", hint=f"its key is {columns}"
            ) from e
        found = at(layout.keys[n]).lookup(wanted)
        states = layout.forms[n].states(found)
        out.append(states[0] if states else None)
    return out[0] if len(out) == 1 else out


# --- the reference -----------------------------------------------------------------------------------------


def told_anew(fold: Fold, rows: Mapping[str, pa.Table], beside: Beside) -> list[Event]:
    """What the steppers of the reference tell of the rows that were taken, in order, and of the strikes of clocks."""
    struck = {}
    for h, clock in fold.clocks.items():
        if beside.first is not None and h in beside.struck:
            struck[h] = clock.strikes(beside.first, beside.struck[h])
    batch, _ = fold.batch(rows, struck)
    events = [
        (place, e)
        for r in batch.values()
        for place, e in zip(r.place.tolist(), r.events, strict=True)
    ]
    steps = stepper(fold.transformer)
    state, told = steps.start(None), list[Event]()
    for _, e in sorted(events, key=lambda p: p[0]):
        state, more = steps.step(state, e)
        told += more
    if beside.ended:
        told += steps.end(state)[1]
    return told


# --- what runs ---------------------------------------------------------------------------------------------


def what_runs(fold: Fold) -> list[tuple[str, str, str]]:
    """Where in a stream what runs, and what is kept for it: places of the schema from the outside in."""
    out: list[tuple[str, str, str]] = []
    _walk(fold.node, out, below_key=False)
    return out


def _walk(node: Node, out: list[tuple[str, str, str]], below_key: bool) -> None:
    own = "in the state of the key" if below_key else ""
    match node:
        case Chain(first=first, second=second):
            _walk(first, out, below_key)
            _walk(second, out, below_key)
        case Sides(left=left, right=right):
            _walk(left, out, below_key)
            _walk(right, out, below_key)
        case Marks(t=t, sub=sub):
            name = ", ".join(node.headers)
            if sub is None:
                out.append((f"seq {name}", "a fold over its rows in order", own or "one state"))
                return
            how = (
                "all frames at once"
                if node.at_once
                else "frame after frame, for `call` reads the state"
            )
            out.append((f"sync {name}", f"a fold over its marks, {how}", own or "one state"))
            _walk(sub, out, below_key)
        case Keys(t=t, sub=sub):
            kept = own or "a state a key, found by the key"
            out.append((f"by {', '.join(t.keys)}", "keys side by side", kept))
            _walk(sub, out, True)
        case Columnar():
            kept = "a state a key, found by the key" if node.keyed else "little"
            out.append((type(node).__name__, "in columns", kept))
        case Leaf(t=t):
            if not t.reads:
                return
            name = f"bag {', '.join(t.reads)}"
            if t.answer is None and t.early is None:
                out.append((name, "row by row", "nothing"))
            else:
                out.append((name, "a query when its frame ends", own or "its rows until then"))


# --- what bounds it ----------------------------------------------------------------------------------------


def bounds(fold: Fold) -> dict[str, str]:
    """By what each map of a stream stays bounded, or that it grows."""
    out = {fold.pending(h).name: "until they are ready" for h in fold.inputs}
    out[fold.layout.root.name] = "one state"
    places = {id(p.node): p for p in ended.places(fold.node)}
    _bounds(fold, fold.node, "", places, out)
    for h in fold.outputs.values():
        out[keeping.told_spec(fold.name, h).name] = "grows: all that was told"
    return out


def _bounds(
    fold: Fold, node: Node, frame: str, places: Mapping[int, ended.Place], out: dict[str, str]
) -> None:
    """Of states and bags: until a frame ends, until a key does, or for ever."""
    layout, n = fold.layout, fold.layout.number(node)
    match node:
        case Chain(first=first, second=second):
            _bounds(fold, first, frame, places, out)
            _bounds(fold, second, frame, places, out)
        case Sides(left=left, right=right):
            _bounds(fold, left, frame, places, out)
            _bounds(fold, right, frame, places, out)
        case FrameQuery() if n is not None:
            for spec, _ in layout.bags[n].values():
                out[spec.name] = f"until the next `{', '.join(node.marks)}`"
        case Marks(sub=sub) if sub is not None:
            _bounds(fold, sub, f"until the next `{', '.join(node.headers)}`", places, out)
        case Leaf() if n in layout.bags:
            for spec, _ in layout.bags[n].values():
                out[spec.name] = frame or "grows: until the stream ends"
        case Keys() | Columnar() if n in layout.keys:
            out[layout.keys[n].name] = frame or _by_key(places.get(id(node)))


def _by_key(place: ended.Place | None) -> str:
    if place is None:
        return "grows: a state a key, until the stream ends"
    keys = ", ".join(f"`{k}`" for k in place.keys)
    of = " and ".join(f"`{h}`" for h in place.headers)
    return f"a state a key, until {keys} is closed in {of} and nothing is left to be told of it"
