"""Pulling promises back along a statement: which keys that it emits, or entries that it reads, need a row that is over.

A statement runs for rows of its driver only. `ties(...)` finds, for each column of the driver, the columns of a map (the
key that the statement emits, or the entries that it looks up) that are tied to it, and how; `Tie.back` then answers:
which pattern of the map's column forces the driver's column into a given pattern? The ways are

    equal      look-up keys and what they probe, columns brought, filters `a = b`, binds of a column
    image      a, where b = f(a) is known: a < W if b < low(W)                         (`monotone.py`)
    preimage   b, where a is known: f(a) < W if a < under(W)
    ordered    filters `a ≤ b`: a < W if b < W
    known      a filter that says the column itself: hour = 8 is never in hour = 9

It reads the trees of the compiled scalars, so what it says holds for what runs; a scalar without a tree ties nothing.
What holds of all entries of a map (k0 is k3 div 60) is found in the same way from the statements that fill it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from itertools import product
from typing import Any, TypeAlias, TypeVar

from headwater.calculus import types as ty
from headwater.calculus.patterns import (
    ANYTHING,
    NOTHING,
    Anything,
    Constant,
    Nothing,
    OneOf,
    Pattern,
    Punctuation,
    Punctuations,
    Range,
    combine,
    one_of,
    subsumes,
)
from headwater.calculus.types import Base, KeyType
from headwater.plan.monotone import DAY, MICROSECOND, MISSING, Monotone, constant, monotone, type_at
from headwater.plan.never_null import NeverNull
from headwater.plan.program import Bind, Expand, Filter, Lookup, Map, Program, Statement, Stratum
from headwater.plan.scalar import Scalar
from headwater.plan.trees import Tree, integral

T = TypeVar("T")

FARTHEST = 6
"""How many ties a column is followed over."""
DEEPEST = 30
"""How deep a tree is looked into."""
MOST_WAYS = 4
"""How many of the ways from one column to another are tried."""
EMITTED, BY_ROW = -1, -2
"""The places of what a statement emits, and of the rows of a bag in order, beside those of steps."""


# --- ties --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Image:
    """From a to b = f(a): if b is in the pattern that is given back, a is in the one that was asked for."""

    function: Monotone

    def back(self, p: Pattern) -> Pattern:
        f, t = self.function, self.function.source
        match p:
            case Constant(None):
                return p
            case Constant(v) if f.one_to_one:
                return Constant(f.low(v))
            case OneOf(values) if f.one_to_one:
                return one_of([v if v is None else f.low(v) for v in values])
            case Constant(v):
                return self.back(Range(v, v, True, True))
            case Range(low, high, low_closed, high_closed):
                if high_closed and high is not None and (after := _next(high, t)) is not None:
                    high, high_closed = after, False
                if low_closed and low is not None and (before := _next(low, t, -1)) is not None:
                    low, low_closed = before, False
                # What has no next value loses the end itself, which is the safe side.
                return _range(
                    None if low is None else f.high(low), None if high is None else f.low(high)
                )
        return NOTHING


@dataclass(frozen=True)
class Preimage:
    """From b = f(a) to a."""

    function: Monotone

    def back(self, p: Pattern) -> Pattern:
        f, t = self.function, self.function.result
        match p:
            case Constant(None):
                return p
            case Constant(v):
                return self.back(Range(v, v, True, True))
            case Range(low, high, low_closed, high_closed):
                if high is not None and high_closed:
                    high = _next(high, t)
                    if high is None:
                        return NOTHING
                if low is not None and not low_closed:
                    low = _next(low, t)
                    if low is None:
                        return NOTHING
                return _range(
                    None if low is None else f.over(low),
                    None if high is None else f.under(high),
                    True,
                )
        return NOTHING


@dataclass(frozen=True)
class AtMost:
    """From a to b where a ≤ b, or a < b: an upper bound of b is one of a."""

    strictly: bool

    def back(self, p: Pattern) -> Pattern:
        match p:
            case Range(None, high, _, closed) if high is not None:
                return Range(None, high, False, closed or self.strictly)
        return NOTHING


@dataclass(frozen=True)
class AtLeast:
    """From a to b where a ≥ b, or a > b: a lower bound of b is one of a."""

    strictly: bool

    def back(self, p: Pattern) -> Pattern:
        match p:
            case Range(low, None, closed, _) if low is not None:
                return Range(low, None, closed or self.strictly, False)
        return NOTHING


Step: TypeAlias = Image | Preimage | AtMost | AtLeast


@dataclass(frozen=True)
class Tie:
    """A column of a map that is tied to a column of the driver, and the steps from this one to that."""

    column: str
    steps: tuple[Step, ...] = ()

    def back(self, p: Pattern) -> Pattern:
        """The values of the map's column that force the driver's column into a pattern: NOTHING where none is known to."""
        for step in self.steps:
            if isinstance(p, Anything | Nothing):
                return p
            try:
                p = step.back(p)
            except (OverflowError, ValueError):  # beyond the last date that there is
                return NOTHING
        return p


@dataclass(frozen=True)
class Ties:
    """What ties the columns of a driver to those of a map: the ways of each, and what filters say of columns themselves."""

    ways: Mapping[str, tuple[Tie, ...]]
    known: Mapping[str, Pattern] = field(default_factory=dict)
    """Patterns that a column of the driver is always in."""
    held: Mapping[str, Pattern] = field(default_factory=dict)
    """Patterns that a column of the map is always in."""
    types: Mapping[str, Base] = field(default_factory=dict)
    """The types of the map's columns."""

    def pulled(self, promise: Punctuations) -> Punctuations:
        """The keys of the map whose rows of the driver all match a promise: a row forced into every column of a member."""
        found: list[Punctuation] = list(self.contradictions())
        for p in promise:
            needs = [n for c, pattern in p.columns for n in self.needs(c, pattern)]
            for choice in product(*needs):
                made = _all_of(choice)
                if made is not None:
                    found.append(made)
        return Punctuations(found, self.types)

    def needs(self, name: str, pattern: Pattern) -> list[list[tuple[str, Pattern]]]:
        """What must hold of the map's columns for a column of the driver to be in a pattern; of each, one of some."""
        out: list[list[tuple[str, Pattern]]] = []
        for half in _halves(pattern):
            if name in self.known and subsumes(half, self.known[name]):
                continue
            pulled = [(t.column, t.back(half)) for t in self.ways.get(name, ())]
            out.append([(c, p) for c, p in pulled if not isinstance(p, Nothing)])
        return out

    def contradictions(self) -> Iterator[Punctuation]:
        """Keys that a filter excludes: closed from the start."""
        for name, pattern in self.held.items():
            for other in _others(pattern):
                yield Punctuation.of({name: other})


def _halves(pattern: Pattern) -> list[Pattern]:
    """A pattern as several that must all hold, which may be forced by different columns."""
    match pattern:
        case Range(low, high, low_closed, high_closed) if low is not None and high is not None:
            return [Range(low, None, low_closed, False), Range(None, high, False, high_closed)]
    return [pattern]


def _others(pattern: Pattern) -> list[Pattern]:
    """The values outside of a pattern."""
    match pattern:
        case Constant(None):
            return [Range(None, None, False, False)]
        case Constant(v):
            return [Constant(None), Range(None, v, False, False), Range(v, None, False, False)]
        case Range(low, high, low_closed, high_closed):
            out: list[Pattern] = [Constant(None)]
            if low is not None:
                out.append(Range(None, low, False, not low_closed))
            if high is not None:
                out.append(Range(high, None, not high_closed, False))
            return out
    return []


def _all_of(choice: Iterable[tuple[str, Pattern]]) -> Punctuation | None:
    """The punctuation that says all of some patterns of columns; None if they exclude each other."""
    columns: dict[str, Pattern] = {}
    for name, pattern in choice:
        columns[name] = combine(columns.get(name, ANYTHING), pattern)
        if isinstance(columns[name], Nothing):
            return None
    return Punctuation.of(columns)


def _range(low: Any, high: Any, low_closed: bool = False) -> Pattern:
    if low is None and high is None:
        return NOTHING
    if low is not None and high is not None and not low < high:
        return NOTHING
    return Range(low, high, low_closed and low is not None, False)


def _next(value: Any, t: Base, way: int = 1) -> Any:
    """The next value of a type whose values have one; None if they have not."""
    match value:
        case bool():
            return None
        case int() if integral(t):
            return value + way
        case datetime():
            return value + way * MICROSECOND
        case date():
            return value + way * DAY
        case Decimal() if t.name == "decimal":
            return value + way * Decimal(1).scaleb(-t.scale)
    return None


# --- the graph of a statement ------------------------------------------------------------------------------------------


class Graph:
    """The columns of a statement, and what its steps say of pairs of them."""

    def __init__(self, zone: str):
        self.zone = zone
        self.edges: dict[str, list[tuple[str, tuple[Step, ...]]]] = {}
        self.known: dict[str, Pattern] = {}
        self.trees: dict[str, Tree] = {}
        """What was bound to each column."""
        self.same: dict[str, str] = {}
        """The columns that are equal, each with another one; the last of them stands for all."""

    def one(self, node: str) -> str:
        """The column that stands for all that are equal to it."""
        while node in self.same:
            node = self.same[node]
        return node

    def equal(self, a: str, b: str) -> None:
        a, b = self.one(a), self.one(b)
        if a != b:
            self.same[a] = b
            self.edges.setdefault(b, []).extend(self.edges.pop(a, ()))
            if a in self.known:
                self.say(b, self.known.pop(a))

    def tie(self, a: str, b: str, there: tuple[Step, ...]) -> None:
        self.edges.setdefault(self.one(a), []).append((b, there))

    def say(self, node: str, pattern: Pattern) -> None:
        node = self.one(node)
        self.known[node] = combine(self.known.get(node, ANYTHING), pattern)

    def node(self, tree: Tree) -> str | None:
        """The node of a tree: its column, or one of its own that is tied to what it is computed from."""
        if tree is None or not shallow(tree):
            return None
        if tree[0] == "column":
            return str(tree[2])
        value = constant(tree)
        name = json.dumps(tree)
        if value is not MISSING:
            self.say(name, Constant(value))
            return name
        found = monotone(tree, self.zone)
        if found is not None:
            function, inner = found
            below = self.node(inner)
            if below is not None:
                self.tie(below, name, (Image(function),))
                self.tie(name, below, (Preimage(function),))
        return name

    def bind(self, name: str, scalar: Scalar) -> None:
        self.trees[name] = scalar.tree
        node = self.node(scalar.tree)
        if node is not None:
            self.equal(node, name)

    def filter(self, tree: Tree) -> None:
        """What is true of every row that passes a condition."""
        if tree is None or not shallow(tree):
            return
        if tree[0] == "and":
            for part in tree[2:]:
                self.filter(part)
            return
        if tree[0] not in ("=", "<=>", "<", "<=", ">", ">="):
            return
        op, left, right = tree[0], tree[2], tree[3]
        values = constant(left), constant(right)
        if values[0] is not MISSING and values[1] is MISSING:
            op = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
            left, right, values = right, left, (values[1], values[0])
        a = self.node(left)
        if a is None:
            return
        if values[1] is not MISSING:
            if values[1] is not None or op == "<=>":
                self.say(a, _compared(op, values[1]))
            return
        b = self.node(right)
        if b is None or type_at(left) != type_at(right):
            return
        match op:
            case "=" | "<=>":
                self.equal(a, b)
            case "<" | "<=":
                self.tie(a, b, (AtMost(op == "<"),))
                self.tie(b, a, (AtLeast(op == "<"),))
            case _:
                self.tie(b, a, (AtMost(op == ">"),))
                self.tie(a, b, (AtLeast(op == ">"),))

    def expand(self, array: str, name: str) -> None:
        """What is true of the elements of an array: the starts of hopping windows hold their time, t - width < s ≤ t."""
        tree = self.trees.get(array)
        if tree is None or tree[0] != "window_starts":
            return
        time, width = self.node(tree[2]), tree[3]
        end = self.node(["add_micros", tree[2][1], ["column", tree[2][1], name], width])
        if time is not None and end is not None:
            self.tie(name, time, (AtMost(False),))
            self.tie(time, name, (AtLeast(False),))
            self.tie(time, end, (AtMost(True),))
            self.tie(end, time, (AtLeast(True),))

    def hold(self, name: Mapping[str, str], invariants: Invariants) -> None:
        """What is true of every entry of a map, whose columns are called by other names here."""
        for a, tie in invariants.ties:
            if not tie.steps:
                self.equal(name[a], name[tie.column])
        for a, tie in invariants.ties:
            if tie.steps:
                self.tie(name[a], name[tie.column], tie.steps)
        for a, pattern in invariants.patterns:
            self.say(name[a], pattern)

    def ways(self, start: str, ends: Mapping[str, str]) -> list[Tie]:
        """The ways from a column to some others, fewest steps first; `ends` are the names of those others here."""
        by_node: dict[str, list[str]] = {}
        for column, node in ends.items():
            by_node.setdefault(self.one(node), []).append(column)
        found: list[Tie] = []
        paths: list[tuple[str, tuple[Step, ...], frozenset[str]]] = [
            (self.one(start), (), frozenset({self.one(start)}))
        ]
        while paths and len(found) < MOST_WAYS * len(ends):
            following = []
            for node, steps, seen in paths:
                found.extend(Tie(c, steps) for c in by_node.get(node, ()))
                if len(seen) <= FARTHEST:
                    for other, there in self.edges.get(node, ()):
                        other = self.one(other)
                        if other not in seen:
                            following.append((other, steps + there, seen | {other}))
            paths = following
        return list(dict.fromkeys(found))


def _compared(op: str, value: Any) -> Pattern:
    """The values that compare so with a constant."""
    match op:
        case "<" | "<=":
            return Range(None, value, False, op == "<=")
        case ">" | ">=":
            return Range(value, None, op == ">=", False)
    return Constant(value)


@dataclass(frozen=True)
class Invariants:
    """What is true of every entry of a map: ties between its columns, and patterns that they are always in."""

    ties: frozenset[tuple[str, Tie]] = frozenset()
    patterns: frozenset[tuple[str, Pattern]] = frozenset()

    def __and__(self, other: Invariants) -> Invariants:
        return Invariants(self.ties & other.ties, self.patterns & other.patterns)


# --- statements, maps, strata ------------------------------------------------------------------------------------------


class Closing:
    """The ties of a program's statements, found once and remembered."""

    def __init__(self, program: Program, zone: str = "UTC"):
        self.program, self.zone = program, zone
        self.never_null = NeverNull(program)
        # What fills a map of a loop is not all that comes into it: its rounds do, too.
        self._invariants = dict.fromkeys(program.inside(), Invariants())
        self._graphs: dict[int, tuple[Statement, Graph]] = {}
        self._ties_known: dict[tuple[int | str, int], Ties] = {}
        self._found: dict[Any, Any] = {}

    def remember(self, of: Mapping[str, Any], find: Callable[[Closing, Mapping[str, Any]], T]) -> T:
        """What others find in the program by some of what is known, found once."""
        known = find.__name__, tuple(sorted(of.items()))
        if known not in self._found:
            self._found[known] = find(self, of)
        found: T = self._found[known]
        return found

    def graph(self, s: Statement) -> Graph:
        """What the steps of a statement say of its columns; `place@k0` is a column of the entry of a look-up."""
        known = self._graphs.get(id(s))
        if known is not None:
            return known[1]
        graph = Graph(self.zone)
        for place, step in enumerate(s.steps):
            match step:
                case Bind(name, scalar):
                    graph.bind(name, scalar)
                case Filter(condition):
                    graph.filter(condition.tree)
                case Lookup():
                    into = self._looked_up(s, step)
                    if into is None:
                        continue
                    for column, probe in zip(into.lookup, step.keys, strict=True):
                        graph.equal(entry(place, column), probe)
                    for column, name in step.brings:
                        graph.equal(entry(place, column), name)
                    if into.name in self.program.kept:
                        names = {c: entry(place, c) for c in into.columns}
                        graph.hold(names, self.invariants(into))
                case Expand(array, (("", name),)):
                    graph.expand(array, name)
        self._graphs[id(s)] = (s, graph)
        return graph

    def _looked_up(self, s: Statement, step: Lookup) -> Map | None:
        arranged = {c.target.name: c.target for c in s.changes}
        return self.program.maps.get(step.into) or arranged.get(step.into)

    def invariants(self, m: Map) -> Invariants:
        """What is true of all entries of a map, as all statements that fill it say it."""
        if m.name not in self._invariants:
            self._invariants[m.name] = Invariants()  # while it is looked for nothing is known
            found = [self._said(s, m) for s in self.program.kept[m.name].filling]
            both = found[0] if found else Invariants()
            for other in found[1:]:
                both &= other
            self._invariants[m.name] = both
        return self._invariants[m.name]

    def _said(self, s: Statement, m: Map) -> Invariants:
        """What a statement says of the keys that it emits."""
        graph, names = self.graph(s), dict(zip(m.columns, s.key, strict=True))
        ties = {
            (a, tie)
            for a, node in names.items()
            for tie in graph.ways(node, {b: n for b, n in names.items() if b != a})
            if len(tie.steps) <= 2
        }
        held = {(a, graph.known[n]) for a, x in names.items() if (n := graph.one(x)) in graph.known}
        return Invariants(frozenset(ties), frozenset(held))

    def emitted(self, s: Statement) -> Ties:
        """What ties the driver of a statement to the key that it emits."""
        ends = dict(zip(s.target.columns, s.key, strict=True))
        return self._ties(s, EMITTED, ends, s.target.key)

    def read(self, s: Statement, place: int) -> Ties:
        """What ties the driver of a statement to the entries of the map that one of its steps looks up."""
        step = s.steps[place]
        assert isinstance(step, Lookup)
        into = self.program.maps[step.into]
        return self._ties(s, place, {c: entry(place, c) for c in into.columns}, into.key)

    def _ties(
        self,
        s: Statement,
        place: int,
        ends: Mapping[str, str],
        types: Sequence[tuple[str, KeyType]],
    ) -> Ties:
        known = id(s), place  # the graph of a statement holds it, so that its id stays its own
        if known not in self._ties_known:
            self._ties_known[known] = _between(self.graph(s), s.columns, ends, types)
        return self._ties_known[known]

    def answered(self, s: Stratum, by_row: bool = False) -> Ties:
        """What ties the key of a stratum's group to the rows that it is answered with; or its bag in order and its windows."""
        known = s.name, BY_ROW if by_row else EMITTED
        if known not in self._ties_known:
            self._ties_known[known] = self._answered(s, by_row)
        return self._ties_known[known]

    def _answered(self, s: Stratum, by_row: bool) -> Ties:
        graph = Graph(self.zone)
        for condition in s.where:
            graph.filter(condition.tree)
        for name, cell in s.row:
            graph.bind(shown(name), cell)
        if s.group.name in self.program.kept:
            graph.hold({c: c for c in s.group.columns}, self.invariants(s.group))
        columns = [(c, c) for c in s.group.columns]
        if s.ranked is not None and s.ranked.map.name in self.program.kept:
            # Each row is an entry of the bag, whose first columns are the key of its group.
            bag = s.ranked.map
            names = {c: c if c in s.group.columns else f"bag.{c}" for c in bag.columns}
            graph.hold(names, self.invariants(bag))
            for column, name in s.ranked.row:
                graph.equal(names[column], name)
            if by_row:
                columns += [(c, names[c]) for c in bag.columns if c not in s.group.columns]
                columns += [(name, name) for name, _ in s.ranked.windows]
        ends = {name: shown(name) for name, _ in s.row}
        return _between(graph, columns, ends, [(name, cell.type) for name, cell in s.row])


def _between(
    graph: Graph,
    columns: Sequence[tuple[str, str]],
    ends: Mapping[str, str],
    types: Sequence[tuple[str, KeyType]],
) -> Ties:
    scalar = {c: t for c, t in types if isinstance(t, Base) and t != ty.VOID}
    ends = {c: n for c, n in ends.items() if c in scalar}
    known = {c: graph.known[x] for c, n in columns if (x := graph.one(n)) in graph.known}
    held = {c: graph.known[x] for c, n in ends.items() if (x := graph.one(n)) in graph.known}
    return Ties({c: tuple(graph.ways(n, ends)) for c, n in columns}, known, held, scalar)


def shallow(tree: Tree) -> bool:
    """Whether a tree is of the depth that people write; what a program wrote, of any depth, ties nothing."""
    level = [tree]
    for _ in range(DEEPEST):
        level = [part for t in level for part in t[2:] if isinstance(part, list)]
        if not level:
            return True
    return False


def entry(place: int, column: str) -> str:
    """The node of a column of an entry that a step looks up."""
    return f"{place}@{column}"


def shown(name: str) -> str:
    """The node of a cell of an answer."""
    return f"row.{name}"
