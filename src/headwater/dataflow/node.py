"""What is known of a stage between its epochs, on plain dicts: its queues, its state, and when its groups are due.

what a group sees of its state is what was kept when the epoch began; what calls write is kept when all of them are done
two groups that write one entry differently are a StateConflict; rows of bags add up
an entry that was not written for as long as it keeps is gone when the epoch begins
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.calculus.types import RecordType
from headwater.dataflow.calling import Failed
from headwater.dataflow.define import Stage
from headwater.dataflow.keeping import State, Writes
from headwater.dataflow.rows import frozen, rows_of
from headwater.dataflow.unread import Bag, Queue
from headwater.errors import StageError, StateConflict
from headwater.io.values import converted


@dataclass
class Node:
    """What is known of a stage between its epochs."""

    stage: Stage
    queues: dict[str, Queue]
    epochs: int = 0
    small: Any = None
    clock: Any = None
    state: dict[str, dict[Any, dict[Any, Any]]] = field(default_factory=dict)
    """By part and group: entries of records, or rows of a bag."""
    written: dict[tuple[str, Any, Any], Any] = field(default_factory=dict)
    """The clock when an entry that expires was written."""
    wakes: dict[Any, Any] = field(default_factory=dict)
    remembered: dict[Any, tuple[int, Any]] = field(default_factory=dict)
    whole: dict[Any, dict[str, Bag]] = field(default_factory=dict)
    answers: dict[Any, dict[str, Bag]] = field(default_factory=dict)
    held: Failed | None = None
    rounds: int = 0
    """Epochs since something came to it, or to those it is on a cycle with, from outside of the cycle."""


def typed(
    name: str, row: RecordType, rows: Sequence[tuple[Any, ...]], zone: str = "UTC"
) -> list[tuple[Any, ...]]:
    """Rows with their values in the types of the columns, as the engine would have them."""
    names = [n for n, _ in row.fields]
    if not names:  # a table without columns would have no rows
        return [() for _ in rows]
    table = converted(
        name,
        row,
        dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {n: [] for n in names},
        zone,
        False,
    )
    return rows_of(table, names)


def shown(s: Stage, key: Any) -> Any:
    """A group's key as its function sees it."""
    return key[0] if s.key is not None and len(s.key.fields) == 1 else key


def state_of(node: Node, key: Any, rows: list[Any]) -> State:
    """The state of a group, for one call that sees some rows."""
    was: dict[str, dict[Any, Any]] = {}
    seen: dict[str, Any] = {}
    for p in node.stage.state:
        name = p.kept.name
        held = dict(node.state.get(name, {}).get(key, {}))
        if p.kept.only:
            named = {
                frozen([getattr(r, c) for c in p.kept.only])
                for i, some in zip(node.stage.inputs, rows, strict=True)
                if set(p.kept.only) <= set(i.columns)
                for r in some
            }
            held = {e: v for e, v in held.items() if e in named}
            seen[name] = named
        was[name] = held
    assert node.stage.key is not None
    return State(node.stage.kept, was, node.clock, seen, len(node.stage.key.fields))


def expire(node: Node) -> None:
    """Entries that were not written for too long are gone; those written before there was a time begin with it."""
    for p in node.stage.state:
        if p.expires is None or node.clock is None:
            continue
        groups = node.state.get(p.kept.name, {})
        for g in list(groups):
            for entry in list(groups[g]):
                at = (p.kept.name, g, entry)
                if node.written.get(at) is None:
                    node.written[at] = node.clock
                if node.clock - node.written[at] >= p.expires:
                    del groups[g][entry], node.written[at]
            if not groups[g]:
                del groups[g]


def wake(node: Node, wrote: list[tuple[Any, Writes]], zone: str) -> None:
    """When groups are to be called again."""
    s = node.stage
    for key, writes in wrote:
        if not writes.wakes:
            continue
        node.wakes.pop(key, None)
        if writes.wake is None:
            continue
        time = next((i.row for i in s.inputs if s.clock in i.columns), None)
        if time is None or s.clock is None:
            told = "the state is to wake, and the stage has no clock"
            raise Failed(StageError(told, hint="give clock=, a column of time"), shown(s, key))
        row = RecordType(tuple(f for f in time.fields if f[0] == s.clock))
        try:
            ((node.wakes[key],),) = typed("wake", row, [(writes.wake,)], zone)
        except Exception as e:
            told = f"wake({writes.wake!r}) is no time of the clock `{s.clock}`"
            raise Failed(StageError(told), shown(s, key)) from e


def write(node: Node, wrote: list[tuple[Any, Writes]], zone: str) -> None:
    """What all calls of an epoch wrote, checked for two that disagree."""
    by: dict[tuple[str, Any, Any], Any] = {}
    assert node.stage.key is not None
    for key, writes in wrote:
        others = zip(
            map(frozen, _fitting(node.stage.key, list(writes.others), node, key, zone)),
            writes.others.values(),
            strict=True,
        )
        for group, held in [(key, writes.own), *others]:
            for p in node.stage.state:
                told = list(held[p.kept.name].writes.items())
                row = p.row if p.kept.kind == "bag" else p.key
                entries = _fitting(row, [e for e, _ in told], node, key, zone)
                for entry, (_, value) in zip(map(frozen, entries), told, strict=True):
                    at = (p.kept.name, group, entry)
                    if p.kept.kind == "bag":
                        by[at] = by.get(at, 0) + value
                        continue
                    if value is not None:
                        (value,) = _fitting(p.row, [value], node, key, zone)
                    if at in by and frozen(by[at]) != frozen(value):
                        what = f"the state at {shown(node.stage, group)!r} is written by two groups, and differently"
                        raise Failed(StateConflict(what), shown(node.stage, key))
                    by[at] = value
    bags = {p.kept.name for p in node.stage.state if p.kept.kind == "bag"}
    for (name, group, entry), value in by.items():
        groups = node.state.setdefault(name, {})
        kept = groups.setdefault(group, {})
        new = kept.get(entry, 0) + value if name in bags else value
        if new is None or (name in bags and not new):
            kept.pop(entry, None)
            node.written.pop((name, group, entry), None)
        else:
            kept[entry] = new
            node.written[name, group, entry] = node.clock
        if not kept:
            del groups[group]


def _fitting(row: RecordType, values: list[Any], node: Node, key: Any, zone: str) -> list[Any]:
    """Values of the state in its types."""
    try:
        named = f"the state of {node.stage.name}"
        return typed(named, row, values, zone)
    except Exception as e:
        raise Failed(e, shown(node.stage, key)) from e
