"""The kernel of a fold: `(rows in order, states) -> (what is told, states, final values)`, for many instances at once.

A transformer is run over a batch as its schema is put together, each shape by one *node*:

    Hierarchical   marks cut each instance into frames, which are instances of what is below; then one fold over the marks
    Partitioned    an instance below for each instance and key
    Parallel       both sides over their own headers
    Relational     the rows of each instance

So everything below a node runs over all frames and keys of a batch at once, as long as frames do not depend on each other:
where `call` reads the state, frame follows frame. An instance that does not end leaves its state, from which the next run
goes on; the state of keys and of bags that are not below a key may be read only where it is needed (`states.py`).

The meaning is that of `streams/stepper.py`, after any prefix and at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headwater.folds.batch import Batch, Key, Rows, Told
from headwater.folds.frames import Frames, Sorted, sorted_marks
from headwater.folds.instances import GOES_ON, Instances, Node, Ran, together
from headwater.folds.states import all_held, held, with_held
from headwater.state.keys import Ints
from headwater.streams.fitting import taken_back
from headwater.streams.schema import Event, Header, headers_of
from headwater.streams.transformer import (
    LEFT_ALONE,
    NO_CALL,
    TAKEN,
    Composed,
    Hierarchical,
    Parallel,
    Partitioned,
    Relational,
    Relaxed,
    Transformer,
)


def node_of(t: Transformer) -> Node:
    """The node of a transformer."""
    match t:
        case Relational():
            return Leaf(t)
        case Parallel():
            return Sides(t)
        case Hierarchical():
            return Marks(t)
        case Partitioned():
            return Keys(t)
        case Relaxed():
            return node_of(t.inner)
        case Composed():
            return Chain(node_of(t.first), node_of(t.second), t.second.headers_in)
    raise AssertionError(t)


def _is_nothing(t: Transformer) -> bool:
    """Whether a transformer reads nothing and tells nothing; told from what it has, for one that was sent is a copy."""
    match t:
        case Relaxed(inner):
            return _is_nothing(inner)
        case Relational(reads, gives, None, None, None):
            return not reads and not gives
    return False


def _only(given: Batch, headers: Sequence[str]) -> dict[str, Rows]:
    return {h: given[h] for h in headers if h in given and len(given[h])}


# --- bags -------------------------------------------------------------------------------------------------


class Leaf(Node):
    """A bag of rows for each instance."""

    def __init__(self, t: Relational):
        self.t = t

    def run(self, given: Batch, at: Instances, told: Told) -> Ran:
        came = _by_instance(given, len(at))
        ran = Ran([None] * len(at), [None] * len(at))
        ends = at.end.tolist()
        asked = []
        for i in range(len(at)):
            mine = came.get(i, [])
            kept = self._grown(at, i, mine, told)
            if ends[i] == GOES_ON:
                ran.states[i] = kept
            else:
                asked.append((i, kept))
        self._answered(at, asked, ran, told)
        return ran

    def _grown(self, at: Instances, i: int, mine: list[tuple[int, Event]], told: Told) -> Any:
        """Tells what can be told of new rows before the end, and gives the bag with them."""
        t, x, state = self.t, at.x[i], at.state[i]
        if t.each is not None:
            for place, e in mine:
                told.add(place, i, t.each(x, e))
        events = [e for _, e in mine]
        if t.answer is None and t.early is None:
            return state if state is not None else []  # nothing is asked of the rows later
        kept = events if state is None else state + events
        if t.early is not None and mine:
            held_before = [] if state is None else list(state)
            before = list(t.early(x, held_before)) if held_before else []
            told.add(mine[-1][0], i, _more(before, list(t.early(x, list(kept)))))
        return kept

    def _answered(
        self, at: Instances, asked: Sequence[tuple[int, Any]], ran: Ran, told: Told
    ) -> None:
        """The answers of instances that end."""
        t = self.t
        if t.answer is None:
            for i, _ in asked:
                ran.finals[i] = at.x[i]
            return
        bags = [list(kept) for _, kept in asked]
        for (i, _), bag, (final, gave) in zip(
            asked, bags, self._of_all(at, asked, bags), strict=True
        ):
            ran.finals[i] = final
            before: list[Event] = []
            if t.early is not None and bag:  # nothing is told of an empty bag before its end
                before = list(t.early(at.x[i], bag))
            elif t.each is not None:
                before = [e for row in bag for e in t.each(at.x[i], row)]
            told.add(int(at.end[i]), i, _more(before, list(gave)))

    def _of_all(
        self, at: Instances, asked: Sequence[tuple[int, Any]], bags: Sequence[list[Event]]
    ) -> Sequence[tuple[Any, Any]]:
        """The answers of many bags, together where that can be done."""
        answer: Any = self.t.answer
        return together(answer, [(at.x[i], bag) for (i, _), bag in zip(asked, bags, strict=True)])


def _by_instance(given: Batch, count: int) -> dict[int, list[tuple[int, Event]]]:
    """Rows with their places by instance, in order."""
    out: dict[int, list[tuple[int, Event]]] = {}
    several = len(given) > 1
    for rows in given.values():
        for of, place, e in zip(rows.of.tolist(), rows.place.tolist(), rows.events, strict=True):
            out.setdefault(of, []).append((place, e))
    if several:
        for mine in out.values():
            mine.sort(key=lambda p: p[0])
    return out


def _more(before: list[Event], after: list[Event]) -> list[Event]:
    """What was told in addition; `NotMonotone` where something that was told is not there any more."""
    if not before:
        return after
    left, more = list(before), []
    for e in after:
        if e in left:
            left.remove(e)
        else:
            more.append(e)
    if left:
        raise taken_back(before, after)
    return more


# --- side by side -----------------------------------------------------------------------------------------


class Sides(Node):
    """Two transformers over their own headers."""

    def __init__(self, t: Parallel):
        self.t = t
        self.left, self.right = node_of(t.left), node_of(t.right)
        self.headers = headers_of(t.left.input), headers_of(t.right.input)

    def run(self, given: Batch, at: Instances, told: Told) -> Ran:
        first = [self.t.init(x) for x in at.x]
        pairs = [s if s is not None else (None, None) for s in at.state]
        ran = []
        for side, node in enumerate((self.left, self.right)):
            mine = Instances([x[side] for x in first], [s[side] for s in pairs], at.end)
            below = Told()
            ran.append(node.run(_only(given, self.headers[side]), mine, below))
            told.take(below, None)
        left, right = ran
        ends = at.end.tolist()
        fin: Any = self.t.fin
        both = list(zip(left.finals, right.finals, strict=True))
        over = [i for i, end in enumerate(ends) if end != GOES_ON]
        finals: list[Any] = [None] * len(at)
        for i, value in zip(over, together(fin, [both[i] for i in over]), strict=True):
            finals[i] = value
        states = list(zip(left.states, right.states, strict=True))
        return Ran(finals, [s if e == GOES_ON else None for s, e in zip(states, ends, strict=True)])


# --- marks ------------------------------------------------------------------------------------------------


class Marks(Node):
    """A fold over marks, with frames between them."""

    def __init__(self, t: Hierarchical):
        self.t = t
        self.headers = tuple(t.marks)
        self.below = headers_of(t.sub.input)
        # Between two rows of a sequence is nothing, and nothing is to be taken from it.
        is_sequence = _is_nothing(t.sub) and t.ret is LEFT_ALONE
        self.sub = None if is_sequence else node_of(t.sub)
        self.at_once = t.call is NO_CALL
        """Whether frames run at once: none depends on the state."""

    def run(self, given: Batch, at: Instances, told: Told) -> Ran:
        own = _only(given, self.headers)
        if self.sub is None and len(own) == 1 and hasattr(self.t.update, "runs"):
            return self._in_one_go(next(iter(own.values())), at, told)
        marks = sorted_marks(own)
        t, count = self.t, len(at)
        states = [
            s if s is not None else (t.init(x), None) for s, x in zip(at.state, at.x, strict=True)
        ]
        ys, below = [s[0] for s in states], [s[1] for s in states]
        counts = np.bincount(marks.of, minlength=count) if count else np.zeros(0, np.int64)
        starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        if self.sub is None:
            self._fold(marks, starts, ys, None, told)
            return self._ended(at, ys, [None] * count, told)
        frames = Frames(marks, counts, at, _only(given, self.below))
        if self.at_once:
            first = t.call(None)
            x = [first] * frames.total
            finals, left = self._sub(frames.all(x, below), frames, told)
            if t.ret is TAKEN and hasattr(t.update, "many"):
                self._each_alone(frames, marks, finals, ys, told)
            else:
                self._fold(marks, starts, ys, lambda i, f: finals[frames.base[i] + f], told)
            rest = [left[frames.base[i] + counts[i]] for i in range(count)]
            last = [finals[frames.base[i] + counts[i]] for i in range(count)]
        else:
            rest, last = self._one_by_one(frames, marks, starts, counts, ys, below, told)
        ys = [
            y if e == GOES_ON else t.ret(y, f)
            for y, f, e in zip(ys, last, at.end.tolist(), strict=True)
        ]
        return self._ended(at, ys, rest, told)

    def _in_one_go(self, rows: Rows, at: Instances, told: Told) -> Ran:
        """A sequence of rows of one header, whose update takes many at once."""
        t = self.t
        runs: Any = t.update.runs  # type: ignore[attr-defined]  # asked for before
        order = np.lexsort((rows.place, rows.of))
        if not (np.diff(order) == 1).all():
            rows = rows.take(order, rows.of[order])
        counts = np.bincount(rows.of, minlength=len(at))
        bounds = np.concatenate(([0], np.cumsum(counts))).tolist()
        before = [s[0] if s is not None else t.init(x) for s, x in zip(at.state, at.x, strict=True)]
        ys, gave = runs(before, rows.rows, bounds)
        for k, e in gave:
            told.add(int(rows.place[k]), int(rows.of[k]), (e,))
        return self._ended(at, ys, [None] * len(at), told)

    def _sub(
        self, asked: tuple[Batch, Instances, Ints], frames: Frames, told: Told
    ) -> tuple[list[Any], list[Any]]:
        """Runs what is below over some frames."""
        assert self.sub is not None
        batch, instances, owner = asked
        below = Told()
        ran = self.sub.run(batch, instances, below)
        told.take(below, owner)
        return ran.finals, ran.states

    def _each_alone(
        self, frames: Frames, marks: Sorted, finals: Sequence[Any], ys: list[Any], told: Told
    ) -> None:
        """Updates that know their own frame alone, all at once."""
        closing = np.flatnonzero(frames.number < frames.counts[frames.owner]).tolist()
        given = [(finals[f], e) for f, e in zip(closing, marks.events, strict=True)]
        found = together(self.t.update, given)
        places, of = marks.place.tolist(), marks.of.tolist()
        for k, (y, more) in enumerate(found):
            ys[of[k]] = y
            told.add(places[k], of[k], more)

    def _one_by_one(
        self,
        frames: Frames,
        marks: Sorted,
        starts: Ints,
        counts: Ints,
        ys: list[Any],
        below: list[Any],
        told: Told,
    ) -> tuple[list[Any], list[Any]]:
        """Frame after frame, of all instances at once: each begins with what the state says then."""
        t, count = self.t, len(ys)
        rest, last = [None] * count, [None] * count
        for f in range(int(counts.max(initial=0)) + 1):
            mine = [i for i in range(count) if counts[i] >= f]
            x = [t.call(ys[i]) for i in mine]
            held_below = [below[i] if f == 0 else None for i in mine]
            finals, left = self._sub(frames.numbered(f, mine, x, held_below), frames, told)
            for j, i in enumerate(mine):
                if f < counts[i]:
                    k = int(starts[i]) + f
                    y = t.ret(ys[i], finals[j])
                    ys[i], more = t.update(y, marks.events[k])
                    told.add(int(marks.place[k]), i, more)
                else:
                    rest[i], last[i] = left[j], finals[j]
        return rest, last

    def _fold(self, marks: Sorted, starts: Ints, ys: list[Any], final: Any, told: Told) -> None:
        """Goes over the marks of each instance in order."""
        update, ret = self.t.update, self.t.ret
        bounds, places, events = starts.tolist(), marks.place.tolist(), marks.events
        add_place, add_of, add = told.place.append, told.of.append, told.events.append
        add_turn, turn = told.turns.append, told.turn
        for i, y in enumerate(ys):
            a, b = bounds[i], bounds[i + 1]
            for k in range(a, b):
                if final is not None:
                    y = ret(y, final(i, k - a))
                y, more = update(y, events[k])
                for e in more:
                    add_place(places[k])
                    add_of(i)
                    add_turn(turn)
                    add(e)
            ys[i] = y

    def _ended(self, at: Instances, ys: list[Any], rest: Sequence[Any], told: Told) -> Ran:
        """The final values of instances that end, and the states of the others."""
        ran = Ran([None] * len(at), [None] * len(at))
        for i, end in enumerate(at.end.tolist()):
            if end == GOES_ON:
                ran.states[i] = (ys[i], rest[i])
            else:
                ran.finals[i], more = self.t.fin(ys[i])
                told.add(end, i, more)
        return ran


# --- keys -------------------------------------------------------------------------------------------------


class Keys(Node):
    """An instance below for each instance and key that has rows, or had some and has not ended."""

    def __init__(self, t: Partitioned):
        self.t, self.sub = t, node_of(t.sub)
        self.headers = headers_of(t.input)
        self.spread: Any = None
        """What runs many rows elsewhere (`tasks.py`)."""

    def run(self, given: Batch, at: Instances, told: Told) -> Ran:
        own = _only(given, self.headers)
        count = sum(map(len, own.values()))
        if self.spread is not None and self.spread.takes(self, count):
            pairs, finals, kept = self.spread.run(self, own, at, told)
            return self._together(at, pairs, Ran(finals, []), told, kept)
        pairs, ran = self.by_key(own, at, told)
        return self._together(at, pairs, ran, told)

    def by_key(self, own: Batch, at: Instances, told: Told) -> tuple[list[tuple[int, Key]], Ran]:
        """Runs what is below for each instance and key; gives these, with what they have after the run."""
        numbers: dict[tuple[int, Key], int] = {}
        batch = {}
        for h, rows in own.items():
            batch[h] = rows.with_instances(self._numbered(rows, numbers))
        states = _held_of(at, list(numbers))
        for i, end in enumerate(at.end.tolist()):
            if end != GOES_ON and at.state[i] is not None:
                for key, state in all_held(at.state[i]).items():
                    if (i, key) not in numbers:
                        numbers[i, key] = len(numbers)
                        states.append(state)
        pairs = list(numbers)
        owner = np.array([i for i, _ in pairs], np.int64)
        x = [self.t.init(at.x[i], key) for i, key in pairs]
        mine = Instances(x, states, at.end[owner] if len(pairs) else at.end[:0])
        below = Told()
        ran = self.sub.run(batch, mine, below)
        self._check_keys(below, pairs)
        told.take(below, owner)
        return pairs, ran

    def _numbered(self, rows: Rows, numbers: dict[tuple[int, Key], int]) -> Ints:
        """The instance below of each row."""
        codes, keys = rows.keys(self.t.keys)
        both = rows.of * max(len(keys), 1) + codes
        different, inverse = np.unique(both, return_inverse=True)
        found = np.empty(len(different), np.int64)
        for j, pair in enumerate(different.tolist()):
            i, code = divmod(pair, max(len(keys), 1))
            found[j] = numbers.setdefault((i, keys[code]), len(numbers))
        return found[inverse]

    def _check_keys(self, below: Told, pairs: Sequence[tuple[int, Key]]) -> None:
        """Rows that are told by key have it."""
        if not self.t._key_of:
            return
        assert not below.rows, "what is told in columns is told below no key"
        for of, e in zip(below.of, below.events, strict=True):
            self.t.own(pairs[of][1], (e,))

    def _together(
        self,
        at: Instances,
        pairs: Sequence[tuple[int, Key]],
        ran: Ran,
        told: Told,
        stored: Any = None,
    ) -> Ran:
        """The final values of the keys of an instance as one, or the states of its keys, if they are not `stored` already."""
        finals: list[list[tuple[Key, Any]]] = [[] for _ in range(len(at))]
        kept: list[dict[Key, Any]] = [{} for _ in range(len(at))]
        ends = at.end.tolist()
        for j, (i, key) in enumerate(pairs):
            if ends[i] != GOES_ON:
                finals[i].append((key, ran.finals[j]))
            else:
                kept[i][key] = ran.states[j]
        out = Ran([None] * len(at), [None] * len(at))
        over = [i for i, end in enumerate(ends) if end != GOES_ON]
        for i, end in enumerate(ends):
            if end == GOES_ON:
                out.states[i] = with_held(at.state[i], kept[i]) if stored is None else stored
        agg: Any = self.t.agg
        found = together(agg, [(at.x[i], finals[i]) for i in over])
        for i, (value, more) in zip(over, found, strict=True):
            out.finals[i] = value
            told.add(ends[i], i, self.t.common(more))
        return out


def _held_of(at: Instances, pairs: Sequence[tuple[int, Key]]) -> list[Any]:
    """The states of keys, of each instance in one go."""
    wanted: dict[int, list[int]] = {}
    for j, (i, _) in enumerate(pairs):
        wanted.setdefault(i, []).append(j)
    out: list[Any] = [None] * len(pairs)
    for i, mine in wanted.items():
        if at.state[i] is not None:
            for j, s in zip(mine, held(at.state[i], [pairs[j][1] for j in mine]), strict=True):
                out[j] = s
    return out


# --- one after the other -----------------------------------------------------------------------------------


class Chain(Node):
    """Two transformers, of which the second reads what the first tells in the same run."""

    def __init__(self, first: Node, second: Node, headers: Mapping[str, Header]):
        """`headers` are those of what the first tells."""
        self.first, self.second, self.headers = first, second, headers

    def run(self, given: Batch, at: Instances, told: Told) -> Ran:
        pairs = [s if s is not None else (None, None) for s in at.state]
        between = Told()
        one = self.first.run(given, replace(at, state=[s[0] for s in pairs]), between)
        batch, places = between.in_order(self.headers)
        # Places between the two are the numbers of what the first told, and all ends are behind them.
        ends = np.where(at.end == GOES_ON, GOES_ON, len(places))
        below = Told()
        two = self.second.run(batch, Instances(at.x, [s[1] for s in pairs], ends), below)
        told.take_after(below, places, at.end)
        last = at.end.tolist()
        finals = list(zip(one.finals, two.finals, strict=True))
        states = list(zip(one.states, two.states, strict=True))
        over = [end != GOES_ON for end in last]
        return Ran(
            [f if o else None for f, o in zip(finals, over, strict=True)],
            [None if o else s for s, o in zip(states, over, strict=True)],
        )
