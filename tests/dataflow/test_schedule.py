"""The scheduler: nobody waits for ever, nobody catches up at the cost of the others, and full flows are left alone.

The laws are tried on random queues in plain numbers. Beside the scheduler stand others that are wrong in one rule each;
the same laws must find every one of them.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date, timedelta

import pytest

from headwater import flow
from headwater.dataflow.define import Readable, stage_of
from headwater.dataflow.meaning import Meaning
from headwater.dataflow.schedule import Schedule
from headwater.language.schema import columns

STORIES = 5_000
"""Of each of two kinds."""


# --- schedulers that are wrong in one rule ---------------------------------------------------------------------------


class NoClock(Schedule):
    """A node that becomes runnable keeps its own count, however far the others are."""

    def seen(self, runnable: Collection[str]) -> Schedule:
        runs = dict(self.runs)
        return replace(super().seen(runnable), runs={n: runs.get(n, 0) for n in {*runs, *runnable}})


class Literal(Schedule):
    """A node whose outputs are unread never runs."""

    def next(self, full: Collection[str] = ()) -> str | None:
        return replace(self, since={n: t for n, t in self.since.items() if n not in full})._least()

    def _least(self) -> str | None:
        return super().next()


class NoDetection(Schedule):
    """Unread outputs mean nothing."""

    def next(self, full: Collection[str] = ()) -> str | None:
        return super().next()


class ByName(Schedule):
    """Whoever comes first."""

    def next(self, full: Collection[str] = ()) -> str | None:
        return min([n for n in self.since if n not in full] or self.since, default=None)


# --- random sets of what can run ---------------------------------------------------------------------------------------


def broken_on_sets(schedule: Schedule, seed: int) -> str | None:
    """What a scheduler does wrong when nodes become able and unable to run, and full, by chance."""
    chance = random.Random(seed)
    names = [f"n{i}" for i in range(chance.randint(1, 5))]
    stays = chance.choice(names)
    fickle, fills = chance.choice([0, 0.02, 0.2, 0.7]), chance.choice([0, 0.02, 0.1, 0.5])
    able = {n for n in names if chance.random() < 0.5}
    full: set[str] = set()
    late = chance.choice([0, 5, 40])
    waited = 0
    for step in range(late + 2 * len(names) + 2):
        for n in names:
            if chance.random() < fickle:
                able ^= {n}
            if chance.random() < fills:
                full ^= {n}
        if step == late and chance.random() < 0.5:  # whatever was full is read from now on
            fickle, fills, able, full = 0, 0, set(names), set()
        if step >= late:
            able, full = able | {stays}, full - {stays}
        schedule = schedule.seen([n for n in names if n in able])
        name = schedule.next(full)
        if name is None:
            if able:
                return f"{able} could run, and nothing does"
            continue
        if name not in able:
            return f"{name} cannot run, and is to"
        if name in full and able - full:
            return f"{name} is full, {able - full} could run"
        schedule = schedule.ran(name)
        waited = 0 if name == stays or step < late else waited + 1
        if waited > 2 * len(names):
            return f"{stays} waits for {waited} runs of {len(names)} nodes"
    return None


# --- random graphs of queues ------------------------------------------------------------------------------------------


@dataclass
class Queues:
    """A graph in numbers: an edge has so many unread increments; its reader needs some, and removes one."""

    needs: dict[tuple[str, str], int]
    unread: dict[tuple[str, str], int]
    given: dict[str, int]
    """Increments from outside; of nodes that read no other."""
    dead: str

    @staticmethod
    def drawn(chance: random.Random) -> Queues:
        names = [f"n{i}" for i in range(chance.randint(2, 6))]
        chance.shuffle(names)  # the order of names is not that of the graph
        edges = {
            (a, b): chance.choice([1, 1, 1, 2, 3])
            for i, b in enumerate(names)
            for a in names[:i]
            if chance.random() < 0.5
        }
        roots = {n for n in names if not any(b == n for _, b in edges)}
        dead = chance.choice(["", *(n for n in names if n not in roots)])
        given = {n: chance.randint(0, 8) for n in roots}
        return Queues(edges, dict.fromkeys(edges, 0), given, dead)

    @property
    def names(self) -> list[str]:
        return sorted({*self.given, *(n for e in self.needs for n in e)})

    def able(self, name: str) -> bool:
        if name == self.dead:
            return False
        reads = [e for e in self.needs if e[1] == name]
        return all(self.unread[e] >= self.needs[e] for e in reads) and self.given.get(name, 1) > 0

    def full(self, name: str) -> bool:
        """As in the meaning: a window has what it needs to be closed of every frame, so one increment is a frame."""
        out = [e for e in self.needs if e[0] == name]
        return bool(out) and all(self.unread[e] for e in out)

    def run(self, name: str) -> None:
        for e in self.needs:
            if e[1] == name:
                self.unread[e] -= 1
            if e[0] == name:
                self.unread[e] += 1
        if name in self.given:
            self.given[name] -= 1


def broken_on_queues(schedule: Schedule, seed: int) -> str | None:
    """What a scheduler does wrong in a random graph, one node of which may never read."""
    queues = Queues.drawn(random.Random(seed))
    names = queues.names
    waited = dict.fromkeys(names, 0)
    while True:
        able = [n for n in names if queues.able(n)]
        full = {n for n in able if queues.full(n)}
        schedule = schedule.seen(able)
        name = schedule.next(full)
        if name is None:
            return f"{able} could run, and nothing does" if able else None
        if name in full and len(full) < len(able):
            return f"{name} runs, whose outputs nobody has read, and {able} could"
        queues.run(name)
        schedule = schedule.ran(name)
        for n in names:
            free = n in able and n not in full and n != name
            waited[n] = waited[n] + 1 if free else 0
            if waited[n] > 2 * len(names):
                return f"{n} waits for {waited[n]} runs of {len(names)} nodes"


@pytest.mark.parametrize("law", [broken_on_sets, broken_on_queues])
def test_the_scheduler_keeps_the_laws(law) -> None:
    for seed in range(STORIES):
        assert law(Schedule(), seed) is None, f"seed {seed}"


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        (NoClock, broken_on_sets),
        (Literal, broken_on_sets),
        (Literal, broken_on_queues),
        (NoDetection, broken_on_sets),
        (NoDetection, broken_on_queues),
        (ByName, broken_on_sets),
    ],
)
def test_a_wrong_scheduler_is_found(wrong, law) -> None:
    assert any(law(wrong(), seed) is not None for seed in range(STORIES))


def test_a_node_that_stood_still_does_not_catch_up() -> None:
    """One that was passed over for long runs once more than the others, not as often as they did."""
    schedule = Schedule()
    for _ in range(100):
        schedule = schedule.seen(["a", "b"]).ran("b")
    ran = []
    for _ in range(7):
        schedule = schedule.seen(["a", "b"])
        ran.append(schedule.next())
        schedule = schedule.ran(ran[-1])
    assert ran == ["a", "a", "b", "a", "b", "a", "b"]


def test_counters_survive_as_plain_data() -> None:
    schedule = Schedule().seen(["a", "b"]).ran("a").seen(["a", "b"])
    assert Schedule.of(schedule.as_data()) == schedule
    assert Schedule.of(None) == Schedule()
    assert schedule.without("b").next() == "a"


# --- the same through the meaning ---------------------------------------------------------------------------------------

DAYS = [{(date(2024, 1, 1) + timedelta(days=i // 2), i): 1} for i in range(12)]


def windows(framing: object, *, beside: bool) -> Meaning:
    """days -> passed -> window, where a window needs several increments of what `passed` gives; perhaps a reader beside it."""
    known = {"days": Readable(columns("day DATE, x INT"))}
    passed = stage_of(lambda r: tuple(r), ("days",), known, name="passed", out="day DATE, x INT")
    known["passed"] = Readable(passed.outputs["passed"])
    window = stage_of(
        lambda k, rows: (len(rows), min(r.x for r in rows)),
        (flow.reads("passed", by=(), framing=framing),),
        known,
        name="window",
        out="n INT, first INT",
        runnable=flow.sliding("passed", frames=3),
    )
    other = stage_of(lambda r: tuple(r), ("passed",), known, name="beside", out="day DATE, x INT")
    m = Meaning([passed, window, *([other] if beside else [])], {"days": known["days"].row})
    for bag in DAYS:
        m.give({"days": bag})
    return m


@pytest.mark.parametrize(("framing", "count"), [(None, 10), (flow.daily("day"), 3)])
@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("detection", [True, False])
def test_windows_never_deadlock(framing, count, detection, beside) -> None:
    m = windows(framing, beside=beside)
    m.run(bottlenecks=detection)
    assert len(m.sent["window"]) == count
    assert len(m.sent["passed"]) == len(DAYS)


@pytest.mark.parametrize("framing", [None, flow.daily("day")])
def test_the_literal_rule_deadlocks_in_a_window(framing) -> None:
    m = windows(framing, beside=False)
    m.schedule = Literal()
    m.run()
    assert m.sent.get("window", []) == [] and m.ready("passed") is not None


@pytest.mark.parametrize(("detection", "most"), [(True, 1), (False, 6)])
def test_upstream_of_a_flow_that_is_not_read_stands_still(detection, most) -> None:
    """`a` feeds a reader that waits for what never comes; `b` is beside it. `a` runs once, until `b` is through."""
    known = {n: Readable(columns("x INT")) for n in ("s", "t", "never")}

    def node(name, *inputs, **more):
        made = stage_of(lambda *a: None, inputs, known, name=name, out="x INT", **more)
        known[name] = Readable(made.outputs[name])
        return made

    stages = [node("a", "s"), node("b", "t"), node("reader", "a", "never", by="x")]
    m = Meaning(stages, {n: columns("x INT") for n in ("s", "t", "never")})
    for x in range(6):
        m.give({"s": {(x,): 1}, "t": {(x,): 1}})
    ran = m.run(bottlenecks=detection)
    assert ran.count("a") == ran.count("b") == 6
    last = max(i for i, n in enumerate(ran) if n == "b")
    assert ran[:last].count("a") == most - (not detection and ran[-1] == "a")


def test_a_stage_that_reads_itself_is_not_full_of_its_own() -> None:
    """Nobody else can empty what it gave itself: it has its turn like others."""
    known = {n: Readable(columns("n INT")) for n in ("start", "again", "other")}
    down = stage_of(
        lambda k, start, again: [(r.n - 1,) for r in (*start, *again) if r.n > 0],
        (flow.reads("start", by=()), flow.reads("again", by=())),
        known,
        name="again",
        out="n INT",
        runnable=flow.any_input(),
    )
    other = stage_of(lambda r: None, ("other",), known, name="beside", out="n INT")
    m = Meaning([down, other], {n: columns("n INT") for n in ("start", "other")}, ["again"])
    m.give({"start": {(4,): 1}})
    for x in range(5):
        m.give({"other": {(x,): 1}})
    ran = m.run()
    assert ran[:8].count("again") == 4
