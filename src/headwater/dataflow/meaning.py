"""What a graph of stages means: the reference executor, on plain lists. Everything else is compared with it.

A *flow* carries increments, each a bag of rows with weights. Every reader of a flow has a queue of those that it has not
removed. An *epoch* of a stage, at a version:

    its runnable chooses complete frames; equal rows of what is read are added up;
    rows are routed to groups, keys that are due and, with groups="all", keys with state are groups too;
    the function is called once a group, and sees its rows, sorted, flow by flow, its state, and look-ups at the version;
    the next version has together the new state, one increment more on every output, and the queues without what was removed.

Sources, views and flows that are kept to be looked at are *relations*; a change of them, from outside or by an epoch, goes
through all views before the version is made, and whoever reads a relation gets its change as an increment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.calculus.types import RecordType
from headwater.dataflow.calling import Epoch, Failed, combined, given_by, keys_given
from headwater.dataflow.define import Input, Stage
from headwater.dataflow.framing import Cut, cut, in_order
from headwater.dataflow.keeping import State, Writes
from headwater.dataflow.rows import frozen, row_class, rows_of, sort_key
from headwater.dataflow.runnable import Waiting, decided
from headwater.dataflow.schedule import Schedule
from headwater.dataflow.words import ALL, Punctuation, Run
from headwater.errors import CycleLimit, StageError, StateConflict
from headwater.io.values import converted

Bag = dict[tuple[Any, ...], int]
"""Rows with weights, none of which is zero."""


def added(*bags: Mapping[tuple[Any, ...], int]) -> Bag:
    """The sum of bags."""
    out: Counter[tuple[Any, ...]] = Counter()
    for bag in bags:
        for row, n in bag.items():
            out[row] += n
    return {r: n for r, n in out.items() if n}


def minus(bag: Mapping[tuple[Any, ...], int]) -> Bag:
    """A bag with its weights turned round."""
    return {r: -n for r, n in bag.items()}


def typed(
    name: str, row: RecordType, rows: Sequence[tuple[Any, ...]], zone: str = "UTC"
) -> list[tuple[Any, ...]]:
    """Rows with their values in the types of the columns, as the engine would have them."""
    names = [n for n, _ in row.fields]
    table = converted(
        name,
        row,
        dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {n: [] for n in names},
        zone,
        False,
    )
    return rows_of(table, names)


@dataclass
class Queue:
    """The increments of an input that were not removed, numbered, and what they were cut into."""

    first: int = 0
    increments: list[tuple[Bag, Punctuation | None]] = field(default_factory=list)
    done: int = 0
    """The number of the first increment that is not cut yet."""
    cut: Cut = field(default_factory=Cut)


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


View = Callable[[Mapping[str, Bag]], Bag]
"""A view: the bags of all relations before it in, its own out."""


class Meaning:
    """A graph on plain lists: sources, stages, flows, and views as functions of bags."""

    def __init__(
        self,
        stages: Sequence[Stage],
        relations: Mapping[str, RecordType],
        declared: Sequence[str] = (),
        views: Mapping[str, View] | None = None,
        zone: str = "UTC",
    ):
        """`relations` are sources, views and retained flows; `declared` the flows of `db.flow`, which send nothing empty."""
        self.zone, self.views = zone, dict(views or {})
        self.rows = dict(relations)
        self.relations: dict[str, Bag] = {n: {} for n in relations}
        self.quiet = {*relations, *declared} - {o for s in stages for o in s.outputs} | set(
            declared
        )
        self.nodes: dict[str, Node] = {}
        self.sent: dict[str, list[Bag]] = {}
        self.schedule = Schedule()
        self.version = 0
        for s in stages:
            self.define(s)
        for name, view in self.views.items():
            self.relations[name] = view(self.relations)

    def define(self, s: Stage) -> None:
        """One stage more; it begins with all rows that are there, where its input says so."""
        queues = {}
        for i in s.inputs:
            queues[i.name] = queue = Queue(cut=Cut(small=i.framing.small if i.framing else None))
            there = self.relations.get(i.name, {})
            if i.start == "all" and there:
                queue.increments.append((dict(there), None))
        self.nodes[s.name] = Node(s, queues, small=s.runnable.small)

    # --- input from outside ----------------------------------------------------------------------------------------

    def give(self, changes: Mapping[str, Bag], punctuate: Mapping[str, Any] | None = None) -> None:
        """A change of sources, and punctuations, as one version."""
        closing = {n: Punctuation(k) for n, k in (punctuate or {}).items()}
        self._change(changes, closing)
        self.version += 1

    def _change(self, changes: Mapping[str, Bag], closing: Mapping[str, Punctuation]) -> None:
        """Changes of relations and flows, through all views, to everybody who reads them."""
        after, told = dict(self.relations), dict(changes)
        for name, bag in changes.items():
            if name in after:
                after[name] = added(after[name], bag)
                gone = next((r for r, n in after[name].items() if n < 0), None)
                if gone is not None:
                    raise Failed(
                        StageError(f"`{name}` does not have {gone!r}, which is taken back")
                    )
        for name, view in self.views.items():
            new = view(after)
            told[name] = added(new, minus(after[name]))
            after[name] = new
        self.relations = after
        for name in {**told, **closing}:
            self._send(name, added(told.get(name, {})), closing.get(name))

    def _send(self, name: str, bag: Bag, punctuation: Punctuation | None) -> None:
        if not bag and punctuation is None and name in self.quiet | self.views.keys():
            return
        self.sent.setdefault(name, []).append(bag)
        for node in self.nodes.values():
            if name in node.queues:
                node.queues[name].increments.append((bag, punctuation))

    # --- what waits ----------------------------------------------------------------------------------------------

    def waiting(self, name: str) -> dict[str, Waiting]:
        """What waits on the inputs of a stage."""
        node = self.nodes[name]
        return {i.name: self._waits(i, node.queues[i.name]) for i in node.stage.inputs}

    def _waits(self, i: Input, q: Queue) -> Waiting:
        if i.framing is None:
            return Waiting((None,) * len(q.increments), take=i.take)
        while q.done < q.first + len(q.increments):
            bag, punctuation = q.increments[q.done - q.first]
            rows = in_order(i.framing, [row_class(i.columns)(r) for r in bag])
            q.cut = cut(i.framing, q.cut, q.done, rows, punctuation)
            q.done += 1
        c = q.cut
        return Waiting(
            tuple(f.key for f in c.frames), c.open.key if c.open else None, c.closed, i.take
        )

    def ready(self, name: str) -> Run | None:
        """What the next epoch of a stage would read; None while it waits or is held."""
        node = self.nodes[name]
        if node.held is not None:
            return None
        try:
            return decided(node.stage.runnable, self.waiting(name), node.small)
        except Exception as e:  # what a user wrote may raise anything
            node.held = Failed(e)
            return None

    def full(self, name: str) -> bool:
        """Whether every output of a stage has something unread for each of its readers, who are not itself."""
        outputs = self.nodes[name].stage.outputs
        unread = [
            bool(len(self.waiting(n)[o]))
            for o in outputs
            for n, node in self.nodes.items()
            if o in node.queues
        ]
        return bool(unread) and all(unread)

    # --- running -------------------------------------------------------------------------------------------------

    def run(
        self, epochs: int | None = None, rounds: int = 1000, bottlenecks: bool = True
    ) -> list[str]:
        """Runs stages until none can, or for so many epochs; who ran, in order."""
        ran: list[str] = []
        for node in self.nodes.values():
            node.held = None
        while epochs is None or len(ran) < epochs:
            name = self.next(bottlenecks)
            if name is None:
                break
            ran.append(name)
            if ran.count(name) > rounds:
                raise CycleLimit(f"`{name}` ran {rounds} times without input from outside")
        return ran

    def next(self, bottlenecks: bool = True) -> str | None:
        """Runs the stage whose turn it is; None if there is none that can."""
        runs = {n: self.ready(n) for n in self.nodes}
        self.schedule = self.schedule.seen([n for n, r in runs.items() if r is not None])
        full = [n for n in self.schedule.since if bottlenecks and self.full(n)]
        name = self.schedule.next(full)
        if name is not None:
            try:
                chosen = runs[name]
                assert chosen is not None
                self.epoch(name, chosen)
                self.version += 1
            except Failed as e:
                self.nodes[name].held = e
            self.schedule = self.schedule.ran(name)
        return name

    def epoch(self, name: str, run: Run) -> None:
        """One epoch of a stage: all of it, or, if it fails, nothing."""
        node = self.nodes[name]
        s = node.stage
        read = {
            i.name: self._read(i, node.queues[i.name], run.reads.get(i.name, 0)) for i in s.inputs
        }
        after = replace(
            node,
            state={p: {g: dict(e) for g, e in groups.items()} for p, groups in node.state.items()},
            written=dict(node.written),
            wakes=dict(node.wakes),
            remembered=dict(node.remembered),
            whole=dict(node.whole),
            answers=dict(node.answers),
        )
        points: dict[str, Any] = {}
        if s.row_wise:
            gave = self._row_wise(after, read[s.inputs[0].name], points)
        elif s.whole:
            gave = self._whole(after, read, points)
        else:
            gave = self._grouped(after, read, points)
        outputs = {o: added(gave.get(o, {})) for o in s.outputs}
        assert run.removes is not None
        after.queues = {
            i.name: self._removed(i, node.queues[i.name], run.removes.get(i.name, 0))
            for i in s.inputs
        }
        before, self.nodes[name] = self.nodes[name], after
        try:
            self._change(outputs, {o: Punctuation(k) for o, k in points.items()})
        except Failed:
            self.nodes[name] = before
            raise
        after.epochs, after.small = node.epochs + 1, run.small

    def _read(self, i: Input, q: Queue, count: int) -> list[tuple[Any, int]]:
        """The rows of so many frames, added up, with weights."""
        names = (*i.columns, "_w") if i.changes else i.columns
        made = row_class(names)
        if i.framing is None:
            bags: list[tuple[dict[str, Any], Bag]] = [({}, b) for b, _ in q.increments[:count]]
        else:
            bags = []
            for frame in q.cut.frames[:count]:
                for number, first, last in frame.rows:
                    bag = q.increments[number - q.first][0]
                    rows = in_order(i.framing, [row_class(i.columns)(r) for r in bag])
                    some = {tuple(r): bag[tuple(r)] for r in rows[first:last]}
                    bags.append(({"_frame": frame.key}, some))
        total: dict[Any, int] = {}
        for about, bag in bags:
            for r, n in bag.items():
                at = (r, frozen(about.get("_frame")))
                total[at] = total.get(at, 0) + n
        out = []
        for (r, key), n in total.items():
            if n:
                row = made((*r, n) if i.changes else r)
                if i.framing is not None:
                    row._frame = key  # type: ignore[attr-defined]
                out.append((row, n))
        return out

    def _removed(self, i: Input, q: Queue, count: int) -> Queue:
        if i.framing is None:
            return replace(q, first=q.first + count, increments=q.increments[count:])
        left = q.cut.frames[count:]
        needed = [n for f in (*left, *([q.cut.open] if q.cut.open else ())) for n, _, _ in f.rows]
        first = min([*needed, q.done])
        return replace(
            q,
            first=first,
            increments=q.increments[first - q.first :],
            cut=replace(q.cut, frames=left),
        )

    # --- the three kinds of stages -----------------------------------------------------------------------------------

    def _row_wise(
        self, node: Node, read: list[tuple[Any, int]], points: dict[str, Any]
    ) -> dict[str, Bag]:
        """f is linear: what it gives for a row counts as often as the row."""
        out: dict[str, list[Bag]] = {}
        for row, n in read:
            key = frozen(row)
            had, kept = node.remembered.get(key, (0, None))
            if node.stage.remember and had:
                gave = kept
            elif node.stage.remember and n < 0:
                raise Failed(StageError(f"{row!r} is taken back, and was not given"), None, row)
            else:
                gave = self._call(node, (), [row], points, None, row)
            for output, bag in gave.items():
                out.setdefault(output, []).append({r: w * n for r, w in bag.items()})
            if node.stage.remember:
                if had + n < 0:
                    raise Failed(StageError(f"{row!r} is taken back, and was not given"), None, row)
                node.remembered[key] = (had + n, gave)
                if had + n == 0:
                    del node.remembered[key]
        return {o: added(*bags) for o, bags in out.items()}

    def _whole(
        self, node: Node, read: dict[str, list[tuple[Any, int]]], points: dict[str, Any]
    ) -> dict[str, Bag]:
        """The rows of touched groups, all of them, again: old answers out, new ones in."""
        out: dict[str, list[Bag]] = {}
        groups = self._groups(node, read, signed=True)
        for key in sorted(groups, key=sort_key):
            had = node.whole.get(key, {})
            bags = {n: added(had.get(n, {}), dict(groups[key].get(n, ()))) for n in read}
            gone = next((r for b in bags.values() for r, n in b.items() if n < 0), None)
            if gone is not None:
                raise Failed(StageError(f"{gone!r} is taken back, and was not given"), key, gone)
            gave: dict[str, Bag] = {}
            if any(bags.values()):
                rows = [
                    self._sorted(
                        i,
                        [
                            row_class(i.columns)(r)
                            for r, n in bags[i.name].items()
                            for _ in range(n)
                        ],
                    )
                    for i in node.stage.inputs
                ]
                gave = self._call(node, key, rows, points, None)
            for output in {*gave, *node.answers.get(key, {})}:
                old = node.answers.get(key, {}).get(output, {})
                out.setdefault(output, []).append(added(gave.get(output, {}), minus(old)))
            node.whole[key], node.answers[key] = bags, gave
            if not any(bags.values()):
                del node.whole[key], node.answers[key]
        return {o: added(*bags) for o, bags in out.items()}

    def _grouped(
        self, node: Node, read: dict[str, list[tuple[Any, int]]], points: dict[str, Any]
    ) -> dict[str, Bag]:
        """The function of each group, with its state; what it writes is seen from the next call of the group on."""
        s, out = node.stage, dict[str, list[Bag]]()
        if s.clock is not None:
            seen = [
                getattr(r, s.clock)
                for rows in read.values()
                for r, _ in rows
                if hasattr(r, s.clock)
            ]
            node.clock = max([v for v in (node.clock, *seen) if v is not None], default=None)
        groups = self._groups(node, read)
        due = [g for g, at in node.wakes.items() if node.clock is not None and at <= node.clock]
        for g in due:
            groups.setdefault(g, {})
            del node.wakes[g]
        if s.groups == "all":
            for held in node.state.values():
                for g in held:
                    groups.setdefault(g, {})
        for i in s.inputs:  # rows for all groups
            for row, n in read[i.name]:
                if self._keys(node, i, row) is ALL:
                    for g in groups.values():
                        g.setdefault(i.name, []).append((row, n))
        wrote: list[tuple[Any, Writes]] = []
        for key in sorted(groups, key=sort_key):
            rows = []
            for i in s.inputs:
                some = groups[key].get(i.name, [])
                if not i.changes and any(n < 0 for _, n in some):
                    bad = next(r for r, n in some if n < 0)
                    told = f"a row of `{i.name}` is deleted, and the stage takes no deletions"
                    hint = "read it with changes=True, or make the stage whole"
                    raise Failed(StageError(told, hint=hint), key, bad)
                every = [r for r, n in some for _ in range(1 if i.changes else n)]
                made = row_class((*i.columns, "_w") if i.changes else i.columns)
                rows.append(self._sorted(i, combined(s, i.name, every, made)))
            state = self._state(node, key, rows) if s.state else None
            gave = self._call(node, key, rows, points, state)
            for output, bag in gave.items():
                out.setdefault(output, []).append(bag)
            if state is not None:
                wrote.append((key, state.close()))
        self._write(node, wrote)
        return {o: added(*bags) for o, bags in out.items()}

    def _keys(self, node: Node, i: Input, row: Any) -> Any:
        by, width = i.by, len(node.stage.key.fields) if node.stage.key else 0
        assert by is not None
        if by.kind == "all":
            return ALL
        if by.kind == "columns":
            return [tuple(getattr(row, c) for c in by.columns)]
        assert by.f is not None
        try:
            given = by.f(row)
            if given is ALL:
                return ALL
            keys = keys_given(node.stage, row, given, width)
            assert node.stage.key is not None
            return typed(f"the key of {node.stage.name}", node.stage.key, keys, self.zone)
        except Exception as e:  # what a user wrote may raise anything
            raise Failed(e, None, row) from e

    def _groups(
        self, node: Node, read: dict[str, list[tuple[Any, int]]], signed: bool = False
    ) -> dict[Any, dict[str, list[tuple[Any, int]]]]:
        """Rows by group and input."""
        out: dict[Any, dict[str, list[tuple[Any, int]]]] = {}
        for i in node.stage.inputs:
            for row, n in read[i.name]:
                keys = self._keys(node, i, row)
                for key in () if keys is ALL else dict.fromkeys(map(frozen, keys)):
                    item = (tuple(row[: len(i.columns)]) if signed else row, n)
                    out.setdefault(key, {}).setdefault(i.name, []).append(item)
        return out

    def _sorted(self, i: Input, rows: list[Any]) -> list[Any]:
        def place(r: Any) -> Any:
            return sort_key([getattr(r, n) for n in i.order_by]), sort_key(r)

        return sorted(rows, key=place)

    # --- calls and state -----------------------------------------------------------------------------------------------

    def _call(
        self,
        node: Node,
        key: Any,
        args: list[Any],
        points: dict[str, Any],
        state: State | None,
        row: Any = None,
    ) -> dict[str, Bag]:
        """What the function gives for a group, or for a row."""
        s = node.stage
        shown = key[0] if s.key is not None and len(s.key.fields) == 1 else key
        first = row if s.row_wise else next((r for rows in args for r in rows), None)
        named: dict[str, Any] = {}
        if state is not None and "state" in s.takes:
            named["state"] = state.given()
        if "epoch" in s.takes:
            named["epoch"] = Epoch(s.name, node.epochs, shown)
        try:
            for name in s.lookups:
                if name in s.takes:
                    named[name] = self._looked_up(s, name, row if s.row_wise else key)
            result = s.f(*args, **named) if s.row_wise else s.f(shown, *args, **named)
            given = list(given_by(s, result, points))
        except Exception as e:  # what a user wrote may raise anything
            raise Failed(e, shown, first) from e
        out: dict[str, Bag] = {}
        for o, rowtype in s.outputs.items():
            mine = [(v, w) for name, v, w in given if name == o]
            try:
                rows = typed(o, rowtype, [v for v, _ in mine], self.zone)
            except Exception as e:
                raise Failed(e, shown, first) from e
            out[o] = added(*({frozen(r): w} for r, (_, w) in zip(rows, mine, strict=True)))
        return out

    def _looked_up(self, s: Stage, name: str, at: Any) -> list[Any]:
        look = s.lookups[name]
        names = tuple(n for n, _ in self.rows[look.what].fields)
        made = row_class(names)
        found = [
            made(r)
            for r, n in sorted(self.relations[look.what].items(), key=lambda x: sort_key(x[0]))
            for _ in range(n)
        ]
        if look.on is None:
            return found
        ours = (
            s.inputs[0].columns
            if s.row_wise
            else tuple(n for n, _ in s.key.fields)
            if s.key
            else ()
        )
        values = [frozen(at[ours.index(a)]) for a, _ in look.on]
        return [
            r
            for r in found
            if [frozen(getattr(r, b)) for _, b in look.on] == values and None not in values
        ]

    def _state(self, node: Node, key: Any, rows: list[Any]) -> State:
        was: dict[str, dict[Any, Any]] = {}
        seen: dict[str, Any] = {}
        for p in node.stage.state:
            name = p.kept.name
            held = dict(node.state.get(name, {}).get(key, {}))
            if p.expires is not None and node.clock is not None:
                for entry in list(held):
                    if node.clock - node.written[name, key, entry] >= p.expires:
                        del held[entry]
            if p.kept.only:
                named = {
                    frozen([getattr(r, c) for c in p.kept.only])
                    for some in rows
                    for r in some
                    if all(hasattr(r, c) for c in p.kept.only)
                }
                held = {e: v for e, v in held.items() if e in named}
                seen[name] = named
            was[name] = held
        assert node.stage.key is not None
        return State(node.stage.kept, was, node.clock, seen, len(node.stage.key.fields))

    def _write(self, node: Node, wrote: list[tuple[Any, Writes]]) -> None:
        """What all calls of an epoch wrote, checked for two that disagree."""
        by: dict[tuple[str, Any, Any], Any] = {}
        for key, writes in wrote:
            if writes.wakes:
                node.wakes.pop(key, None)
                if writes.wake is not None:
                    node.wakes[key] = writes.wake
            for group, held in [(key, writes.own), *writes.others.items()]:
                for p in node.stage.state:
                    for entry, value in held[p.kept.name].writes.items():
                        at = (p.kept.name, group, entry)
                        if p.kept.kind == "bag":
                            by[at] = by.get(at, 0) + value
                        elif at in by and frozen(by[at]) != frozen(value):
                            raise Failed(
                                StateConflict(f"the state at {group!r} is written twice"), key
                            )
                        else:
                            by[at] = value
        for p in node.stage.state:
            mine = {at: v for at, v in by.items() if at[0] == p.kept.name}
            name = p.kept.name
            for (_, group, entry), value in mine.items():
                groups = node.state.setdefault(name, {})
                entries = groups.setdefault(group, {})
                if p.kept.kind == "bag":
                    row = frozen(typed(name, p.row, [entry], self.zone)[0])
                    entries[row] = entries.get(row, 0) + value
                    if not entries[row]:
                        del entries[row]
                else:
                    at = frozen(typed(name, p.key, [entry], self.zone)[0]) if entry else entry
                    if value is None:
                        entries.pop(at, None)
                    else:
                        entries[at] = typed(name, p.row, [value], self.zone)[0]
                        node.written[name, group, at] = node.clock
                if not entries:
                    del groups[group]
