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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headwater.calculus.types import RecordType
from headwater.dataflow.calling import Epoch, Failed, combined, given_by, keys_given
from headwater.dataflow.define import Input, Stage
from headwater.dataflow.framing import Cut
from headwater.dataflow.keeping import State, Writes
from headwater.dataflow.node import Node, expire, shown, state_of, typed, wake, write
from headwater.dataflow.rows import frozen, row_class, sort_key
from headwater.dataflow.runnable import Waiting, decided
from headwater.dataflow.schedule import Schedule, rings
from headwater.dataflow.unread import Bag, Queue, added, minus, read, removed, waits
from headwater.dataflow.words import ALL, Punctuation, Run
from headwater.errors import CycleLimit, StageError

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
        for node in self.nodes.values():
            node.rounds = 0

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
        return {i.name: waits(i, node.queues[i.name]) for i in node.stage.inputs}

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
        unread = [
            # what a reader that is held has cannot be cut, perhaps; it is unread
            bool(node.queues[o].increments if node.held else len(self.waiting(n)[o]))
            for o in self.nodes[name].stage.outputs
            for n, node in self.nodes.items()
            if o in node.queues and n != name
        ]
        return bool(unread) and all(unread)

    # --- running -------------------------------------------------------------------------------------------------

    def run(
        self, epochs: int | None = None, rounds: int = 1000, bottlenecks: bool = True
    ) -> list[str]:
        """Runs stages until none can, or for so many epochs; who ran, in order.

        CycleLimit when a stage runs more than `rounds` times, and nothing from outside came to it or its cycle.
        """
        ran: list[str] = []
        for node in self.nodes.values():
            node.held = None
        while epochs is None or len(ran) < epochs:
            name = self.next(bottlenecks)
            if name is None:
                break
            ran.append(name)
            if self.nodes[name].rounds > rounds:
                ring = ", ".join(sorted(self._rings()[name]))
                raise CycleLimit(
                    f"`{name}` ran {rounds} times without input from outside; on its cycle: {ring}",
                    hint="give nothing when nothing changes, or allow more rounds",
                )
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
        rows = {i.name: read(i, node.queues[i.name], run.reads.get(i.name, 0)) for i in s.inputs}
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
            gave = self._row_wise(after, rows[s.inputs[0].name], points)
        elif s.whole:
            gave = self._whole(after, rows, points)
        else:
            gave = self._grouped(after, rows, points)
        outputs = {o: added(gave.get(o, {})) for o in s.outputs}
        assert run.removes is not None
        after.queues = {
            i.name: removed(i, node.queues[i.name], run.removes.get(i.name, 0)) for i in s.inputs
        }
        before, self.nodes[name] = self.nodes[name], after
        try:
            self._change(outputs, {o: Punctuation(k) for o, k in points.items()})
        except Failed:
            self.nodes[name] = before
            raise
        after.epochs, after.small = node.epochs + 1, run.small
        self._count(name, run.removes)

    def _rings(self) -> dict[str, frozenset[str]]:
        """For each stage those that it is on a cycle with; what a relation gets may go through any view."""

        def feeds(s: Stage, reader: Stage) -> bool:
            through = not s.outputs.keys().isdisjoint(self.relations)
            names = {*s.outputs, *(self.views if through else ())}
            return any(i.name in names for i in reader.inputs)

        stages = [n.stage for n in self.nodes.values()]
        return rings({s.name: [r.name for r in stages if feeds(s, r)] for s in stages})

    def _count(self, name: str, removes: Mapping[str, int]) -> None:
        """One round more of a stage; none for a cycle that took something from outside, or gets something from this one."""
        found = self._rings()
        ring = found[name]
        inside = {o for n in ring for o in self.nodes[n].stage.outputs}
        fresh = {r for o in self.nodes[name].stage.outputs for r in self._readers(o)} - ring
        if any(count and i not in inside for i, count in removes.items()):
            fresh.add(name)
        self.nodes[name].rounds += 1
        for n in {m for f in fresh for m in found[f]}:
            self.nodes[n].rounds = 0

    def _readers(self, flow: str) -> list[str]:
        return [n for n, node in self.nodes.items() if flow in node.queues]

    # --- the three kinds of stages -----------------------------------------------------------------------------------

    def _row_wise(
        self, node: Node, rows: list[tuple[Any, int]], points: dict[str, Any]
    ) -> dict[str, Bag]:
        """f is linear: what it gives for a row counts as often as the row."""
        out: dict[str, list[Bag]] = {}
        for row, n in rows:
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
                told = f"{gone!r} is taken back, and was not given"
                raise Failed(StageError(told), shown(node.stage, key), gone)
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
                for i in s.inputs
                if s.clock in i.columns
                for r, _ in read[i.name]
            ]
            node.clock = max([v for v in (node.clock, *seen) if v is not None], default=None)
            expire(node)
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
                    raise Failed(StageError(told, hint=hint), shown(s, key), bad)
                every = [r for r, n in some for _ in range(1 if i.changes else n)]
                made = row_class((*i.columns, "_w") if i.changes else i.columns)
                try:
                    rows.append(self._sorted(i, combined(s, i.name, every, made)))
                except Exception as e:  # what a user wrote may raise anything
                    raise Failed(e, shown(s, key), every[0]) from e
            state = state_of(node, key, rows) if s.state else None
            gave = self._call(node, key, rows, points, state)
            for output, bag in gave.items():
                out.setdefault(output, []).append(bag)
            if state is not None:
                wrote.append((key, state.close()))
        wake(node, wrote, self.zone)
        write(node, wrote, self.zone)
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
                if keys is ALL and node.stage.whole:
                    told = f"a route of `{node.stage.name}` gave ALL, and the stage is whole"
                    raise Failed(StageError(told, hint="give the keys of the row"), None, row)
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
        mine = shown(s, key)
        first = row if s.row_wise else next((r for rows in args for r in rows), None)
        named: dict[str, Any] = {}
        if state is not None and "state" in s.takes:
            named["state"] = state.given()
        if "epoch" in s.takes:
            named["epoch"] = Epoch(s.name, node.epochs, tuple(row) if s.row_wise else mine)
        try:
            for name in s.lookups:
                if name in s.takes:
                    named[name] = self._looked_up(s, name, row if s.row_wise else key)
            result = s.f(*args, **named) if s.row_wise else s.f(mine, *args, **named)
            given = list(given_by(s, result, points))
        except Exception as e:  # what a user wrote may raise anything
            raise Failed(e, mine, first) from e
        out: dict[str, Bag] = {}
        for o, rowtype in s.outputs.items():
            some = [(v, w) for name, v, w in given if name == o]
            try:
                rows = typed(o, rowtype, [v for v, _ in some], self.zone)
            except Exception as e:
                raise Failed(e, mine, first) from e
            out[o] = added(*({frozen(r): w} for r, (_, w) in zip(rows, some, strict=True)))
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
