"""Random graphs of stages with a story of increments, for comparing an engine with the meaning, version by version.

    graph = drawn(seed)
    for name, ddl in graph.sources.items(): db.source(name, ddl)
    for name, ddl in graph.flows.items(): db.flow(name, ddl)
    for f in graph.stages: db.stage(f)
    for step, expected in zip(graph.story, run_meaning(graph)): ...

All flows have the same columns, so any stage can read any flow. Functions are deterministic, and what they give is small.
A flow is *signed* if deletions may come in it: sources that the story deletes from, and what is linear or `whole` behind
them. A stage that takes no deletions reads only others, so no stage is held but where that is planned. What a flow adds up
to is never negative.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from headwater import flow
from headwater.dataflow.define import Readable
from headwater.dataflow.meaning import Meaning
from headwater.dataflow.rows import sort_key
from headwater.dataflow.trial import Flow, bag_of, defined
from headwater.dataflow.unread import Bag
from headwater.language.schema import columns

ROW = "k INT, x BIGINT, at TIMESTAMP, t STRING"
START = datetime(2024, 1, 1, tzinfo=UTC)
Rows = list[tuple[Any, ...]]
Step = tuple[str, Any]
"""`("give", {source: rows with a weight behind them})`, or `("run", so many epochs or None)`."""


@dataclass
class Graph:
    """Sources, declared flows, stages in an order of definition, and what happens to them."""

    seed: int
    sources: dict[str, str] = field(default_factory=dict)
    flows: dict[str, str] = field(default_factory=dict)
    stages: list[Callable[..., Any]] = field(default_factory=list)
    story: list[Step] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    """What occurs in it."""
    planned: set[str] = field(default_factory=set)
    """Stages that may be held."""

    @property
    def retained(self) -> set[str]:
        """Flows that are kept: those that are looked up, and those that nobody reads."""
        given = [defined(f) for f in self.stages]
        read = {i.what for g in given for i in g.inputs}
        looked = {k.what for g in given for k in (g.words.get("lookups") or {}).values()}
        outputs = {o for g in given for o in _outputs(g)}
        return (outputs - read) | (outputs & looked)


def _outputs(given: Any) -> list[str]:
    out = given.words["out"]
    several = out if isinstance(out, Mapping) else {given.name: out}
    return [o.name if isinstance(o, Flow) else n for n, o in several.items()]


# --- the meaning of one ----------------------------------------------------------------------------------------------


def meaning_of(graph: Graph) -> Meaning:
    """The graph on plain lists, before its story."""
    known = {n: Readable(columns(d)) for n, d in {**graph.sources, **graph.flows}.items()}
    made = []
    for f in graph.stages:
        made.append(defined(f).checked(known))
        known |= {n: Readable(r) for n, r in made[-1].outputs.items()}
    kept = {*graph.sources, *graph.retained}
    return Meaning(made, {n: known[n].row for n in known if n in kept}, list(graph.flows))


def bags(graph: Graph, change: Mapping[str, Rows]) -> dict[str, Bag]:
    """Rows with weights as bags."""
    return {n: bag_of(n, columns(graph.sources[n]), rows) for n, rows in change.items()}


def seen(m: Meaning) -> dict[str, Any]:
    """Everything that can be seen of a graph: increments of flows, relations, state, who waits, who is held."""
    return {
        "flows": {n: list(bags) for n, bags in m.sent.items()},
        "relations": dict(m.relations),
        "state": {n: node.state for n, node in m.nodes.items() if node.stage.state},
        "wakes": {n: node.wakes for n, node in m.nodes.items() if node.stage.clock},
        "epochs": {n: node.epochs for n, node in m.nodes.items()},
        "waiting": {n: {i: w.keys for i, w in m.waiting(n).items()} for n in m.nodes},
        "held": {n: node.held.told for n, node in m.nodes.items() if node.held},
    }


def run_meaning(graph: Graph, story: Sequence[Step] | None = None) -> list[dict[str, Any]]:
    """What can be seen after every step; `ran` has who ran in it, in order."""
    m, out = meaning_of(graph), []
    for kind, what in graph.story if story is None else story:
        ran: list[str] = []
        if kind == "give":
            m.give(bags(graph, what))
        else:
            ran = m.run(what)
        out.append({**seen(m), "ran": ran})
    return out


# --- drawing ----------------------------------------------------------------------------------------------------------


def drawn(seed: int, kinds: Sequence[str] | None = None, steps: int = 6) -> Graph:
    """A graph from a seed: one to six stages of any kinds, or of some."""
    return _Drawing(seed, kinds).graph(steps)


def moved(r: Any, x: Any) -> tuple[Any, ...]:
    """A row with another x."""
    return r.k, x, r.at, r.t


def latest(rows: Sequence[Any]) -> Any:
    return max((r.at for r in rows if r.at is not None), default=None)


def weight(r: Any) -> int:
    return r._w if "_w" in r._fields else 1


def total(rows: Sequence[Any]) -> int:
    return sum(weight(r) * r.x for r in rows) % 97


class _Drawing:
    """One graph as it is drawn; a method `kind_...` for each kind of stage."""

    def __init__(self, seed: int, kinds: Sequence[str] | None):
        self.chance = random.Random(seed)
        self.made = Graph(seed)
        self.signed: dict[str, bool] = {}
        self.punctuated: set[str] = set()
        self.kinds = list(kinds or KINDS)

    def graph(self, steps: int) -> Graph:
        for i in range(self.chance.randint(1, 3)):
            self.made.sources[f"s{i}"] = ROW
            self.signed[f"s{i}"] = self.chance.random() < 0.4
        wanted = self.chance.randint(1, 6)
        while len(self.made.stages) < wanted:
            getattr(self, f"kind_{self.chance.choice(self.kinds)}")()
        self._story(steps)
        return self.made

    def word(self, *words: str) -> None:
        self.made.words |= set(words)

    def one_in(self, n: int) -> bool:
        return self.chance.randrange(n) == 0

    # --- what is read ---------------------------------------------------------------------------------------------

    def flow(self, unsigned: bool = False, but: Sequence[str] = ()) -> str | None:
        there = [n for n, s in self.signed.items() if n not in but and not (unsigned and s)]
        there += [n for n in there if n not in self.made.sources]  # rather behind a stage
        return self.chance.choice(there) if there else None

    def reads(self, name: str, changes: bool | None = None, **more: Any) -> Any:
        """An input of a stage with groups: with changes where there are deletions."""
        if changes is None:
            changes = self.signed[name] or self.one_in(6)
        if changes:
            self.word("changes")
        if "take" not in more and self.one_in(4):
            more["take"] = self.chance.choice([2, "all"])
            self.word("take all" if more["take"] == "all" else "take")
        return flow.reads(name, changes=changes, **more)

    def framing(self, name: str) -> Any:
        kinds = ["daily"] if name in self.punctuated else FRAMINGS
        kind = self.chance.choice(kinds)
        self.word(kind, "framing")
        match kind:
            case "daily":
                return flow.daily("at")
            case "hourly":
                return flow.hourly("at")
            case "hops":
                return flow.hops("at", hours=6)
            case "gap":
                return flow.gap("at", hours=5)
            case "count":
                return flow.count(self.chance.randint(1, 3))
        return flow.frames(lambda r, small: (small // 5, small + 1 + (r.x > 2)), ["at"], 0)

    def by(self, whole: bool = False) -> Any:
        """How rows are grouped, and what a key is as k and t."""
        chance = self.chance
        kind = chance.choice(["k", "k", "k", "t", "k, t", "()", "one", "several", "none", "all"])
        if kind == "all" and whole:
            kind = "one"
        self.word(f"by {kind}")
        a = chance.randint(2, 4)
        match kind:
            case "k":
                return "k", lambda key: (key, None)
            case "t":
                return "t", lambda key: (None, key)
            case "k, t":
                return ["k", "t"], lambda key: key
            case "()":
                return (), lambda key: (0, "all")
            case "one":
                return flow.route(lambda r: r.x % a, "g INT"), lambda key: (key, None)
            case "several":
                ks = flow.route(lambda r: [r.x % a, (r.x + 1) % a], "g INT")
                return ks, lambda key: (key, None)
            case "none":
                some = flow.route(lambda r: r.k if r.x % a else None, "g INT")
                return some, lambda key: (key, None)
        every = flow.route(lambda r: flow.ALL if r.x % a == 0 else r.k, "g INT")
        return every, lambda key: (key, None)

    def runnable(self, names: Sequence[str], framed: bool) -> Any:
        """A runnable for some inputs, none of which is signed where one reads again."""
        chance = self.chance
        kinds = ["all", "all", "any_input", "own"]
        if len(names) > 1:
            kinds += ["in_turn", "prefer"]
        if not any(self.signed[n] for n in names):
            kinds += ["sliding", "landmark"] * (2 if framed else 1)
        kind = chance.choice(kinds)
        self.word(kind)
        match kind:
            case "any_input":
                return flow.any_input()
            case "in_turn":
                return flow.in_turn(*names)
            case "prefer":
                return flow.prefer(names[0], to=names[1], times=2, most=3)
            case "sliding":
                return flow.sliding(names[0], frames=chance.randint(2, 3))
            case "landmark":
                return flow.landmark(names[0])
            case "own":
                return _fullest
        return None

    # --- how a stage is made -------------------------------------------------------------------------------------

    def stage(
        self, f: Callable[..., Any], *inputs: Any, signed: bool, outputs: Any = None, **words: Any
    ) -> str:
        name = f"n{len(self.made.stages)}"
        words = {k: v for k, v in words.items() if v is not None}
        out: Any = ROW
        if outputs:
            out = {f"{name}_{o}" if isinstance(o, str) else o.name: ROW for o in outputs}
            out |= {o.name: o for o in outputs if isinstance(o, Flow)}
        f.__name__ = name
        self.made.stages.append(flow.stage(*inputs, name=name, out=out, **words)(f))
        for o in out if outputs else [name]:
            self.signed[o] = signed
        return name

    def bend(self) -> Callable[[int], int]:
        a, b = self.chance.randint(1, 5), self.chance.randint(0, 5)
        return lambda x: (a * x + b) % 11 - 2

    def looks(self, of_row: bool) -> dict[str, Any]:
        """A look-up of a source, or of a flow that is kept."""
        what = self.chance.choice(list(self.made.sources))
        flows = [n for n in self.signed if n not in self.made.sources and n not in self.made.flows]
        if flows and self.one_in(3):
            what = self.chance.choice(flows)
            for f in self.made.stages:
                given = defined(f)
                if what in _outputs(given):
                    given.words["retain"] = True
            self.word("look-up of a flow")
        on = {"k": "k"} if of_row and self.one_in(2) else None
        self.word("look-up", "look-up on" if on else "look-up of all")
        return {"who": flow.lookup(what, on=on)}

    # --- row by row ------------------------------------------------------------------------------------------------

    def kind_row_wise(self) -> None:
        name, bend, times = self.flow(), self.bend(), self.chance.randint(1, 2)
        drops = self.chance.choice([2, 3, 100])

        def f(r: Any) -> Any:
            return [moved(r, bend(r.x))] * times if r.x % drops != 1 else None

        self.word("row-wise")
        framed = self.framing(name) if not self.signed[name] and self.one_in(4) else None
        runs = self.runnable([name], True) if framed else None
        given = self.reads(name, changes=False, framing=framed)
        self.stage(f, given, signed=self.signed[name], runnable=runs)

    def kind_outputs(self) -> None:
        name, bend = self.flow(), self.bend()
        made = f"n{len(self.made.stages)}"

        def f(r: Any) -> Any:
            yield f"{made}_a", moved(r, bend(r.x))
            if r.x % 2:
                yield f"{made}_b", {"k": r.k, "x": 1, "at": r.at, "t": "odd"}

        self.word("outputs")
        given = self.reads(name, changes=False)
        self.stage(f, given, outputs=["a", "b"], signed=self.signed[name])

    def kind_punctuates(self) -> None:
        name = self.flow(unsigned=True)
        if name is None:
            return

        def f(r: Any) -> Any:
            yield moved(r, r.x)
            if r.x % 3 == 0 and r.at is not None:
                yield flow.punctuate(r.at.date())

        self.word("punctuate")
        self.punctuated.add(self.stage(f, self.reads(name, changes=False), signed=False))

    def kind_looks_up(self) -> None:
        name = self.flow()
        remembers = self.signed[name] or self.one_in(2)

        def f(r: Any, who: Any) -> Any:
            return moved(r, (r.x + len(who)) % 11)

        if remembers:
            self.word("remember")
        looks = self.looks(True)
        given = self.reads(name, changes=False)
        self.stage(f, given, signed=self.signed[name], lookups=looks, remember=remembers)

    # --- whole -------------------------------------------------------------------------------------------------------

    def kind_whole(self) -> None:
        names = [self.flow()]
        if self.one_in(2) and (other := self.flow(but=names)):
            names.append(other)
        by, shown = self.by(whole=True)

        def f(key: Any, *inputs: Any) -> Any:
            rows = [r for some in inputs for r in some]
            k, t = shown(key)
            first = inputs[0][0].x if inputs[0] else -1
            return k, (sum(r.x for r in rows) * 3 + first) % 13, latest(rows), t

        self.word("whole", "two inputs" if len(names) > 1 else "whole")
        runs = self.chance.choice([None, flow.any_input()]) if len(names) > 1 else None
        given = [self.reads(n, by=by, order_by="x", changes=False) for n in names]
        self.stage(f, *given, signed=True, whole=True, runnable=runs)

    # --- with groups and state -------------------------------------------------------------------------------------

    def grouped(self, f: Callable[..., Any], *, by: Any = None, **words: Any) -> None:
        """A stage over one or two inputs, in all ways of reading."""
        unsigned = self.one_in(2)
        name = self.flow(unsigned)
        if name is None:
            return
        names = [name]
        if self.one_in(2) and (other := self.flow(unsigned, but=names)):
            names.append(other)
            self.word("two inputs")
        framed = not any(self.signed[n] for n in names) and self.one_in(2)
        given = []
        for n in names:
            more: dict[str, Any] = {"by": by, "framing": self.framing(n) if framed else None}
            if len(given) == 1 and self.one_in(3):
                more["by"] = flow.ALL
                self.word("ALL")
            if self.one_in(4):
                more["combine"] = self.combine(n)
            changes = None if more.get("combine") is None or self.signed[n] else False
            given.append(self.reads(n, changes, order_by=self.order(), **more))
        if self.one_in(4) and "lookups" not in words:
            words["lookups"] = self.looks(by == "k")
        runs = self.runnable(names, framed)
        self.stage(f, *given, signed=False, runnable=runs, **words)

    def order(self) -> Any:
        return self.chance.choice([None, "x", ["at", "x"]])

    def combine(self, name: str) -> Any:
        kind = self.chance.choice(["sums"] if self.signed[name] else COMBINES)
        self.word(kind)
        match kind:
            case "sums":
                return flow.sums("x")
            case "least":
                return flow.least("x")
            case "greatest":
                return flow.greatest("x")
        return lambda rows: [max(rows, key=sort_key)]

    def kind_increment(self) -> None:
        """No state: it is about an increment."""
        by, shown = self.by()

        def f(key: Any, *inputs: Any, **named: Any) -> Any:
            rows = [r for some in inputs for r in some]
            k, t = shown(key)
            luck = named["epoch"].random.randrange(5) + named["epoch"].number
            frames = len({getattr(r, "_frame", None) for r in rows})
            return (
                k,
                (total(rows) + luck + frames + len(named.get("who", ()))) % 13,
                latest(rows),
                t,
            )

        self.word("by increment", "epoch")
        self.grouped(f, by=by)

    def kind_record(self) -> None:
        by, shown = self.by()
        clears = self.chance.choice([5, 100])

        def f(key: Any, *inputs: Any, state: Any, **named: Any) -> Any:
            rows = [r for some in inputs for r in some]
            state.n = ((state.n or 0) + total(rows) + len(named.get("who", ()))) % 97
            state.last = latest(rows) or state.last
            given = (*((shown(key)[0], state.n)), state.last, shown(key)[1])
            if state.n % clears == 3:
                state.clear()
            return given

        self.word("record")
        groups = "all" if self.one_in(3) else "touched"
        self.word(f"groups {groups}")
        self.grouped(f, by=by, state="n BIGINT, last TIMESTAMP", groups=groups)

    def kind_records(self) -> None:
        by, shown = self.by()
        only = self.one_in(2)

        def f(key: Any, *inputs: Any, state: Any, **named: Any) -> Any:
            k, t = shown(key)
            for r in [r for some in inputs for r in some]:
                state[r.x].n = (state[r.x].n or 0) + weight(r)
                if state[r.x].n % 4 == 3:
                    del state[r.x]
                yield k, state[r.x].n or 0, r.at, t
            if not only and len(state):
                yield k, next(iter(state)).e, None, "first"

        self.word("records", "only" if only else "order")
        kept = flow.record("n BIGINT", key="e BIGINT", order_by="n", only="x" if only else None)
        self.grouped(f, by=by, state=kept)

    def kind_bag(self) -> None:
        by, shown = self.by()

        def f(key: Any, *inputs: Any, state: Any, **named: Any) -> Any:
            k, t = shown(key)
            for some in inputs:
                state.rows.add(some)
            state.one.n = sum(r._w for r in state.rows)
            if state.one.n > 6:
                state.rows.clear()
                state.rows.add((state.one.n, None))
            rows = [r for r in state.rows if r._w > 0]
            if len(rows) == len(list(state.rows)) and rows:
                yield k, state.rows.nth(len(state.rows) // 2).x, rows[0].at, t

        self.word("bag", "parts")
        kept = {"one": "n BIGINT", "rows": flow.bag("x BIGINT, at TIMESTAMP", order_by="x")}
        self.grouped(f, by=by, state=kept)

    def kind_at(self) -> None:
        """Groups write to a bag of another one, whose rows add up."""

        def f(key: Any, *inputs: Any, state: Any, **named: Any) -> Any:
            state.at(((key or 0) + 1) % 4).add([r.x for some in inputs for r in some])
            return key, len(state), None, "at"

        self.word("at")
        self.grouped(f, by="k", state=flow.bag("x BIGINT"))

    def kind_clock(self) -> None:
        """Groups that are called when it is time; entries that go when they are old."""
        expires = timedelta(hours=20) if self.one_in(2) else None

        def f(key: Any, *inputs: Any, state: Any, **named: Any) -> Any:
            rows = [r for some in inputs for r in some]
            if not rows:
                yield key, state.n or -1, state.clock, "due"
                state.clear()
                return
            state.n = (state.n or 0) + len(rows)
            if state.clock is not None:
                state.wake(state.clock + timedelta(hours=6))
            yield key, state.n, state.clock, "seen"

        self.word("clock", "expires" if expires else "wake")
        self.grouped(f, by="k", state=flow.record("n BIGINT", expires=expires), clock="at")

    def kind_join(self) -> None:
        """A join by hand, with deletions: it is bilinear."""
        a = self.flow()
        b = self.flow(but=[a])
        if b is None:
            return

        def f(key: Any, left: Any, right: Any, state: Any) -> Any:
            for r in left:
                for s in state.b:
                    yield key, (r.x + s.x) % 11, r.at, s.t, r._w * s._w
            state.a.add(left)
            for s in right:
                for r in state.a:
                    yield key, (r.x + s.x) % 11, r.at, s.t, r._w * s._w
            state.b.add(right)

        self.word("join", "two inputs")
        given = [self.reads(n, True, by="k") for n in (a, b)]
        kept = {"a": flow.bag("x BIGINT, at TIMESTAMP"), "b": flow.bag("x BIGINT, t STRING")}
        runs = self.chance.choice([None, flow.any_input(), flow.in_turn(a, b)])
        self.stage(f, *given, signed=True, state=kept, runnable=runs)

    def kind_same_frame(self) -> None:
        a = self.flow(unsigned=True)
        b = self.flow(unsigned=True, but=[a or ""])
        if a is None or b is None:
            return

        def f(_: Any, left: Any, right: Any) -> Any:
            rows = [*left, *right]
            return len(left), len(right), latest(rows), rows[0]._frame.isoformat()

        self.word("same_frame", "daily")
        given = [flow.reads(n, by=(), framing=flow.daily("at")) for n in (a, b)]
        self.stage(f, *given, signed=False, runnable=flow.same_frame())

    def kind_cycle(self) -> None:
        """Rows go round until their x is counted down."""
        name = self.flow(unsigned=True)
        if name is None:
            return
        number = len(self.made.stages)
        back = flow.declared_flow(f"back{number}", ROW)
        self.made.flows[back.name] = ROW
        by = self.chance.choice(["k", "t"])

        def f(key: Any, fresh: Any, again: Any, state: Any) -> Any:
            for r in [*fresh, *again]:
                state.n = (state.n or 0) + 1
                if r.x > 0:
                    yield back.name, moved(r, min(r.x, 9) - 2)
                else:
                    yield f"n{number}_out", moved(r, state.n)

        self.word("cycle")
        given = [flow.reads(name, by=by), flow.reads(back, by=by)]
        runs = self.chance.choice([flow.any_input(), flow.prefer(back, to=name, times=2)])
        self.stage(f, *given, signed=False, outputs=["out", back], runnable=runs, state="n BIGINT")

    def kind_fails(self) -> None:
        """One that may be held: its function raises, or groups write one entry differently."""
        name = self.flow()
        if self.one_in(2):

            def f(key: Any, rows: Any, state: Any) -> Any:
                state.at(9).n = key
                return key, 1, None, "told"

            self.word("conflict")
            kept: Any = "n INT"
        else:

            def f(key: Any, rows: Any, state: Any) -> Any:
                if any(r.x == 4 for r in rows):
                    raise ValueError("four")
                state.n = len(rows)
                return key, len(rows), None, "told"

            self.word("raises")
            kept = "n INT"
        made = self.stage(f, self.reads(name, by="k"), signed=False, state=kept)
        self.made.planned.add(made)

    # --- what happens ------------------------------------------------------------------------------------------------

    def _story(self, steps: int) -> None:
        there: dict[str, Rows] = {n: [] for n in self.made.sources}
        hour = 0
        for _ in range(steps):
            change: dict[str, Rows] = {}
            for n in self.made.sources:
                if self.one_in(4):
                    continue
                rows = change[n] = []
                for _ in range(self.chance.randint(0, 4)):
                    rows.append((*self._row(hour), 1 + self.one_in(8)))
                if self.signed[n]:
                    gone = self.chance.sample(
                        there[n], min(len(there[n]), self.chance.randint(0, 3))
                    )
                    rows += [(*r, -1) for r in gone]
                    for r in gone:
                        there[n].remove(r)
                there[n] += [r[:-1] for r in rows for _ in range(r[-1])]
            hour += self.chance.randint(0, 14)
            self.made.story.append(("give", change))
            if not self.one_in(3):
                self.made.story.append(("run", self.chance.choice([None, None, 1, 3])))
        self.made.story.append(("run", None))

    def _row(self, hour: int) -> tuple[Any, ...]:
        chance = self.chance
        late = chance.randint(0, 30) if self.one_in(5) else 0
        at = START + timedelta(hours=hour + chance.randint(0, 6) - late)
        return (
            None if self.one_in(10) else chance.randrange(4),
            chance.randint(0, 6),
            None if self.one_in(12) else at,
            chance.choice(["a", "b", "", None]),
        )


def _fullest(waiting: Any, small: Any) -> Any:
    """A runnable of one's own: one frame of whoever has most; it counts how often it ran."""
    name = max(waiting, key=lambda n: (len(waiting[n]), n))
    return flow.Run({name: 1}, small=(small or 0) + 1) if len(waiting[name]) else None


FRAMINGS = ["daily", "hourly", "hops", "gap", "count", "own frames"]
COMBINES = ["sums", "least", "greatest", "combine f"]
KINDS = [
    *["row_wise"] * 3,
    *("outputs", "punctuates", "looks_up", "whole", "whole"),
    *("increment", "record", "records", "bag", "at", "clock"),
    *("join", "same_frame", "cycle"),
]
PLANNED = [*KINDS, "fails"]
"""With stages that may be held."""
LINEAR = ["row_wise", "outputs", "whole"]
"""Whose outcome does not depend on how input is cut, where they read without frames and look nothing up."""
WORDS = {
    *("row-wise", "outputs", "punctuate", "look-up", "look-up on", "look-up of all", "remember"),
    *("look-up of a flow", "whole", "two inputs", "changes", "take", "take all", "ALL", "framing"),
    *FRAMINGS,
    *COMBINES,
    *(f"by {b}" for b in ("k", "t", "k, t", "()", "one", "several", "none", "all", "increment")),
    *(
        "epoch",
        "record",
        "groups all",
        "groups touched",
        "records",
        "only",
        "order",
        "bag",
        "parts",
    ),
    *("at", "clock", "wake", "expires", "join", "same_frame", "cycle"),
    *("all", "any_input", "in_turn", "prefer", "sliding", "landmark", "own"),
}
