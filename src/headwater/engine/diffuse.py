"""Loops in diffuse mode in an increment: what is touched is answered, and X* moves where that is too far from it.

    carry ΔS;  repeat: touched keys are answered;  X* moves where the answer is further than `cut` from it;  carry ΔX*

until nothing moves, or as often as there may be rounds: keys that have yet to move then are *due* in the next increment. What
is withheld is compared with X*, not with the last answer, so that X* is within `cut` of the answer at every key. Keys that
come or go always move. Groups that are settled are answered when an input touches them, and in the later rounds of the same
increment, from X* as it is by then; they keep that answer afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine import loops
from headwater.engine.change import Change, schema_of
from headwater.engine.here.answers import (
    current,
    different,
    keep_answers,
    nothing,
    rows,
    signed,
)
from headwater.engine.here.by_round import arranged
from headwater.engine.here.equal_rows import consolidated, different_rows
from headwater.engine.here.statements import changes_of
from headwater.engine.here.statements import run as run_statement
from headwater.engine.here.threads import beside
from headwater.engine.near import Near
from headwater.engine.probing import probe
from headwater.engine.working import AGAIN, Overlay, Working
from headwater.plan.diffuse import is_value
from headwater.plan.program import (
    WEIGHT,
    Loop,
    Map,
    Program,
    Settled,
    Statement,
    Stratum,
)
from headwater.state.arrangement import INDEX, Arrangement
from headwater.state.keys import Bools, Ints
from headwater.state.run import column

if TYPE_CHECKING:
    from headwater.engine.increment import Increment

FINER = 0.1
"""How much nearer a loop is computed when it starts, so that what is withheld from then on begins with little."""
PIECE = 200_000
"""Settled groups that are answered at a time."""


def run(increment: Increment, loop: Loop, new: bool = False) -> None:
    """Carries what touched a loop until its rows are near enough to what its step gives; one that is new starts."""
    made = _Diffusing(increment, loop)
    before, increment.working.reads_new = increment.working.reads_new, True
    try:
        if new or made.is_empty():
            made.start(new)
        made.run()
    finally:
        increment.working.reads_new = before


def touching(program: Program) -> list[Stratum]:
    """What is touched in loops by other maps than those of their strata.

    Settled strata are touched as though they were answered from the groups that are there, and collections, which are none, as
    though they were answered from the rows that the step gives.
    """
    out = []
    for loop in program.loops.values():
        if loop.diffuse is None:
            continue
        for s in loop.diffuse.settled:
            stratum = program.strata[s.stratum]
            out.append(replace(stratum, group=s.groups, distinct=(), from_bags=(), ranked=None))
        of = loop.diffuse
        for name, step, begins in zip(loop.collections, of.steps, of.begins, strict=True):
            row = program.relations.rows[name]
            for called, m in ((name, step), (_first(name), begins)):
                out.append(Stratum(called, "", row, m, (), (), None, None, False, (), (), None))
    return out


def _first(collection: str) -> str:
    """What the rows that a collection starts from are called among what is touched."""
    return f"{collection}.0"


class Moves(NamedTuple):
    """How the rows told last move: the change, and how many answers were near enough to what was told."""

    change: pa.Table
    keys: pa.Table
    withheld: int


class _Diffusing:
    """One loop in one increment."""

    def __init__(self, increment: Increment, loop: Loop):
        assert loop.diffuse is not None
        self.increment, self.loop, self.of = increment, loop, loop.diffuse
        self.working: Working = increment.working
        self.strata = [increment.program.strata[n] for n in loop.strata]
        self.settled = {s.stratum: s for s in self.of.settled}
        self.asked: dict[str, pa.Table] = {}
        """Of each settled stratum the groups that an input touched in this increment."""
        self.answered: dict[str, dict[str, Arrangement]] = {}
        """The maps of a stratum as they were when it was answered last in this increment."""
        self.moved: dict[str, list[pa.Table]] = {}
        self.also: dict[int, pa.Table] = {}
        """Of each collection the keys to be compared in the next round, whatever is touched."""
        self.fresh: set[str] = set()
        """Answers without groups that have never been given."""
        self.statements = loops.statements_of(increment, loop)
        self.looked_up = loops.looked_up(self.statements)
        self.in_the_end: dict[str, list[Statement]] = {}
        """Of each relation the statements that wait: no round reads what they give, and what comes and goes meanwhile is nothing to them."""
        self.waiting: dict[str, list[pa.Table]] = {}
        """Of each relation the changes that these are yet to be told."""
        read = self._read_in_rounds()
        for n, some in self.statements.items():
            self.in_the_end[n] = [
                s for s in some if s.target.name not in read and loops.is_linear(s)
            ]
            self.statements[n] = [s for s in some if s not in self.in_the_end[n]]
        self.endless: dict[int, list[pa.Table]] = {}
        """Of each collection the keys at which the step gave a NaN or an infinity."""
        self.cut = self.of.how.cut
        self.near = Near(self.of, self.working) if self.of.how.near is not None else None

    def _read_in_rounds(self) -> set[str]:
        """The maps that rounds look up, compare with, or are touched by."""
        of = self.of
        probes = {n for s in of.settled for p in s.probes for n in p.reads}
        answered = {m.name for s in self.strata for m in s.maps}
        compared = {m.name for m in (*of.told, *of.steps, *of.begins, *of.due)}
        return self.looked_up | probes | answered | compared | self.increment.besides.keys()

    def is_empty(self) -> bool:
        """Whether X* has no rows, where something was touched that it could start from."""
        if not any(n in self.increment.touched for n in self._touched_names()):
            return False
        return all(self.working.now(m.name).is_empty() for m in self.of.told)

    def _touched_names(self) -> list[str]:
        return [*self.loop.relations, *map(_first, self.loop.collections)]

    def start(self, new: bool) -> None:
        """X* as it starts, and every settled group as though it had been touched; answers without groups if they are new."""
        self.cut *= FINER
        self.increment.changes, outside = {}, self.increment.changes
        moves = {}
        for i, (begins, name) in enumerate(zip(self.of.begins, self.loop.collections, strict=True)):
            self.increment.touched.pop(_first(name), None)
            found = [
                _weighed(t, begins, self._row(i), 1) for t in self.working.now(begins.name).scan()
            ]
            if found:
                moves[name] = pa.concat_tables(found)
                self.also[i] = moves[name].select(self._key(i))
        for s in self.strata:
            touched = self.increment.touched.setdefault(s.name, [])
            if s.name in self.settled:
                groups = self.settled[s.name].groups
                touched += [t.select(groups.columns) for t in self.working.now(groups.name).scan()]
            elif s.always and new:
                touched.append(pa.table({"_h": pa.array([0], pa.int64())}))
                self.fresh.add(s.name)
        self._carry(moves)
        self.increment.changes |= outside

    def _key(self, place: int) -> list[str]:
        """The key columns of the rows of a collection."""
        told = self.of.told[place]
        names = dict(zip(told.columns, told.fields, strict=True))
        return [names[k] for k in told.lookup]

    def run(self) -> None:
        """Rounds until nothing moves."""
        is_touched = any(n in self.increment.touched for n in self._touched_names())
        for place, due in self._due().items():
            self.also[place] = _together(self.also.get(place), due)
        if is_touched:
            self._begin_again()
        withheld, visited = 0, list[tuple[int, int]]()
        for at in range(1, self.of.how.rounds + 2):
            self._answer()
            found = {
                name: self._compared(i, self.also.pop(i, None))
                for i, name in enumerate(self.loop.collections)
            }
            withheld += sum(m.withheld for m in found.values())
            moves = {n: m.change for n, m in found.items() if m.change.num_rows}
            if at == 1:
                self._newcomers(moves)
            if not moves:
                break
            if at > self.of.how.rounds:
                for place, m in enumerate(found.values()):
                    self._set_due(place, m.keys, 1)
                self.increment.due[self.loop.name] = sum(m.keys.num_rows for m in found.values())
                break
            if at == AGAIN:
                self.working.gather(self.looked_up.difference(self.loop.maps))
            visited.append((at, sum(t.num_rows for t in moves.values())))
            self._carry(moves)
        self._keep_endless()
        for name in list(self.waiting):
            self._carry_waiting(name)
        for name in self._touched_names():
            self.increment.changes.pop(name, None)
            self.increment.touched.pop(name, None)
        for name, tables in self.moved.items():
            total = consolidated(pa.concat_tables(tables))
            if total.num_rows:
                self.increment.changes[name] = Change.of(total)
            else:
                self.increment.changes.pop(name, None)
        if visited:
            self.increment.rounds[self.loop.name] = visited
        if withheld:
            self.increment.withheld[self.loop.name] = withheld

    # --- what is touched is answered -----------------------------------------------------------------------------

    def _answer(self) -> None:
        """The strata inside, lowest first, each carried before those that read it are answered."""
        for s in self.strata:
            self.increment.settle()
            touched = self.increment.touched.pop(s.name, [])
            settled = self.settled.get(s.name)
            if settled is not None:
                change = self._settled(s, settled, touched)
            elif touched:
                change = self._between(s, different(s.group, touched))
            else:
                continue
            if change is not None and change.num_rows:
                self._emit({s.name: change})
        self.increment.settle()

    def _between(self, s: Stratum, keys: pa.Table) -> pa.Table:
        """The rows of a stratum that came and went since it was answered last, in this increment or before it."""
        had = self.answered.get(s.name, {})

        def before(name: str) -> Arrangement:
            return had[name] if name in had else self.working.before(name)

        def last() -> pa.Table | None:
            if s.answers is not None:
                return self._last(s, keys, before(s.answers.name))
            return None if s.name in self.fresh else current(before, s, keys)

        after, gone = beside(keys.num_rows, lambda: current(self.working.now, s, keys), last)
        gone = after.slice(0, 0) if gone is None else gone
        found = signed(s, [(gone, -1), (after, 1)])
        if s.answers is not None:
            keep_answers(self.working, (s, found))
        self.fresh.discard(s.name)
        self.answered[s.name] = {m.name: self.working.as_now(m.name) for m in s.maps}
        return rows(s, found, self.increment.session.evaluate)

    def _last(self, s: Stratum, keys: pa.Table, at: Arrangement) -> pa.Table:
        """What groups were answered from last."""
        assert s.answers is not None
        found = at.lookup(keys).select(s.answers.columns)
        found = found.rename_columns([n for n, _ in s.components])
        if s.always and not found.num_rows and keys.num_rows and s.name not in self.fresh:
            return nothing(s)
        return found

    def _settled(self, s: Stratum, of: Settled, touched: list[pa.Table]) -> pa.Table | None:
        """The rows of a settled stratum that came and went: of the groups that inputs touched, and of no others."""
        known = self.asked.get(s.name)
        if known is not None:
            touched = [*touched, known]
        if not touched:
            return None
        keys = self.asked[s.name] = different(s.group, touched)
        changes = []
        for low in range(0, keys.num_rows, PIECE):
            some = keys.slice(low, PIECE)
            after = self._asked(s, of, some)
            assert s.answers is not None
            gone = self._last(s, some, self.working.now(s.answers.name))
            found = signed(s, [(gone, -1), (after, 1)])
            keep_answers(self.working, (s, found))
            made = rows(s, found, self.increment.session.evaluate)
            changes.append(made if self.near is None else self.near.taken(s, made))
        return consolidated(pa.concat_tables(changes))

    def _asked(self, s: Stratum, of: Settled, keys: pa.Table) -> pa.Table:
        """What groups are answered from, computed from inputs and X* as they are."""
        names = s.group.columns
        ones = pa.array(np.ones(keys.num_rows, np.int64))
        asked = keys.select(names).append_column(WEIGHT, ones)
        tables: dict[str, list[pa.Table]] = {}
        for probing in of.probes:
            made = run_statement(probing, asked, self.working, self.increment.session.evaluate)
            if made.num_rows:
                tables.setdefault(probing.target.name, []).append(changes_of(probing.target, made))
        runs = Overlay(self.working.runs.below)
        maps = {
            m.name: arranged(m, names, tables.get(m.name, []), runs)
            for m in dict.fromkeys((s.group, *s.bags))
        }
        return current(maps.__getitem__, s, keys)

    # --- X* moves ---------------------------------------------------------------------------------------------------

    def _compared(self, place: int, also: pa.Table | None) -> Moves:
        """How the rows of a collection move, at the keys at which the step gives others than it did."""
        told, step, row = self.of.told[place], self.of.steps[place], self._row(place)
        touched = self.increment.touched.pop(self.loop.collections[place], [])
        touched = [t.select(step.lookup) for t in touched]
        if also is not None:
            touched.append(also.rename_columns(list(step.lookup)))
        keys = _different(touched)
        if keys is None:
            return Moves(row.empty_table(), pa.table({}), 0)
        answer, last = beside(
            keys.num_rows,
            lambda: _found(self.working.now(step.name), keys),
            lambda: _found(self.working.now(told.name), keys),
        )
        values = _values(told)
        moves, withheld = _far(keys.num_rows, answer, last, values, self.cut)
        odd = _is_endless(answer, values)
        if odd.any():
            at = np.unique(answer.at[odd])
            self.endless.setdefault(place, []).append(keys.take(pa.array(at)))
        both = [
            _weighed(t.filter(pa.array(moves[i])), told, row, sign)
            for t, i, sign in ((last.rows, last.at, -1), (answer.rows, answer.at, 1))
        ]
        change = consolidated(pa.concat_tables(both))
        return Moves(change, keys.filter(pa.array(moves)), withheld)

    def _newcomers(self, moves: dict[str, pa.Table]) -> None:
        """Adds rows that the loop starts from anew, at keys at which the step gives none and none were told.

        They are compared in the next round: what the step gives by then is told instead.
        """
        for i, name in enumerate(self.loop.collections):
            touched = self.increment.touched.pop(_first(name), [])
            begins, told, step = self.of.begins[i], self.of.told[i], self.of.steps[i]
            keys = _different([t.select(begins.lookup) for t in touched])
            if keys is None:
                continue
            begun, *others = (_found(self.working.now(m.name), keys) for m in (begins, told, step))
            there = np.zeros(keys.num_rows, np.bool_)
            for f in others:
                there[f.at] = True
            rows = begun.rows.filter(pa.array(~there[begun.at]))
            if rows.num_rows:
                new = _weighed(rows, begins, self._row(i), 1)
                self.also[i] = new.select(self._key(i))
                moves[name] = pa.concat_tables([moves[name], new]) if name in moves else new

    def _begin_again(self) -> None:
        """Has X* start anew at the keys that are due and have a NaN or an infinity: none of these ever fades.

        What they came from may have gone. If it has not, the step gives them again.
        """
        moves = {}
        for place, due in self.also.items():
            keys = different_rows(due) if due.num_columns else due.slice(0, 1)
            told, begins, row = self.of.told[place], self.of.begins[place], self._row(place)
            found = _found(self.working.now(told.name), keys)
            odd = np.unique(found.at[_is_endless(found, _values(told))])
            if not len(odd):
                continue
            gone = found.rows.filter(pa.array(np.isin(found.at, odd)))
            begun = _found(self.working.now(begins.name), keys.take(pa.array(odd))).rows
            both = [_weighed(gone, told, row, -1), _weighed(begun, begins, row, 1)]
            moves[self.loop.collections[place]] = pa.concat_tables(both)
        self._carry(moves)

    def _keep_endless(self) -> None:
        """Has keys whose rows are a NaN or an infinity in the end be due."""
        for place, tables in self.endless.items():
            keys, told = _different(tables), self.of.told[place]
            assert keys is not None
            found = _found(self.working.now(told.name), keys)
            odd = np.unique(found.at[_is_endless(found, _values(told))])
            self._set_due(place, keys.take(pa.array(odd)), 1)

    def _carry(self, moves: dict[str, pa.Table]) -> None:
        """Tells moves, and has them change the maps of the loop."""
        for name, change in moves.items():
            self.moved.setdefault(name, []).append(change)
            if self.near is not None:
                place = self.loop.collections.index(name)
                self.near.told(self.of.told[place], change)
        self._emit(moves)

    def _emit(self, changes: dict[str, pa.Table]) -> None:
        """Runs the statements of relations of the loop, one after another, but for those that wait."""
        for name, change in changes.items():
            self._execute(self.statements[name], name, change)
            if self.in_the_end[name]:
                waiting = self.waiting.setdefault(name, [])
                waiting.append(change)
                if loops.rows_of(waiting) >= loops.WAITING:
                    self._carry_waiting(name)

    def _carry_waiting(self, name: str) -> None:
        """Carries what waits of a relation, all rounds together."""
        change = consolidated(pa.concat_tables(self.waiting.pop(name)))
        self._execute(self.in_the_end[name], name, change)

    def _execute(self, statements: list[Statement], name: str, change: pa.Table) -> None:
        """Runs statements over a change of a relation of the loop."""
        if change.num_rows and statements:
            self.increment.changes[name] = Change.of(change)
            self.increment.execute(statements)
            del self.increment.changes[name]

    def _row(self, place: int) -> pa.Schema:
        name = self.loop.collections[place]
        return schema_of(self.increment.program.relations.rows[name])

    # --- what is due ------------------------------------------------------------------------------------------------

    def _due(self) -> dict[int, pa.Table]:
        """The keys of each collection that had yet to move; they are due no more."""
        out: dict[int, pa.Table] = {}
        for i, due in enumerate(self.of.due):
            for t in self.working.now(due.name).scan():
                out[i] = _together(out.get(i), t.select(due.lookup))
                weights = pc.negate(column(t, "r0"))
                self._set_due(i, t.select(due.lookup), weights)
        return out

    def _set_due(self, place: int, keys: pa.Table, weight: int | pa.Array) -> None:
        due = self.of.due[place]
        if not keys.num_rows:
            return
        named = {n: column(keys, k) for n, k in zip(due.lookup, _names(keys), strict=True)}
        weights = pa.array(np.full(keys.num_rows, weight)) if isinstance(weight, int) else weight
        table = pa.table({**named, "r0": weights})
        entries, _ = self.working.now(due.name).merge(changes_of(due, table), blind=True)
        self.working.add(due.name, entries)


class Found(NamedTuple):
    """Entries that a map has at some keys: their rows, which key each is at, and how often each is there."""

    rows: pa.Table
    at: Ints
    counts: Ints


def _found(at: Arrangement, keys: pa.Table) -> Found:
    table = at.lookup(probe(at, keys, _names(keys)))
    return Found(table, np.asarray(column(table, INDEX)), np.asarray(column(table, "r0")))


def _together(a: pa.Table | None, b: pa.Table) -> pa.Table:
    """Keys with more of them, in columns of the same names."""
    return b if a is None else pa.concat_tables([a, b.rename_columns(a.column_names)])


def _names(keys: pa.Table) -> list[str]:
    return [n for n in keys.column_names if n not in ("_h", "_i", "r0")]


def _values(told: Map) -> list[str]:
    """The columns of the rows of a collection that are no key."""
    return [n for n, t in told.key if is_value(t)]


def _is_endless(found: Found, values: list[str]) -> Bools:
    """Which entries have a NaN or an infinity."""
    out = np.zeros(len(found.at), np.bool_)
    for name in values:
        cells = column(found.rows, name)
        if pa.types.is_floating(cells.type):
            out |= ~np.isfinite(np.asarray(pc.fill_null(cells, 0.0)))
    return out


def _far(many: int, answer: Found, last: Found, values: list[str], cut: float) -> tuple[Any, int]:
    """The keys whose answer is too far from what was told last, and how many are near it but not equal.

    Only one row can be near one row: where there are several, or none, all that differ are too far.
    """
    single = np.ones(many, np.bool_)
    places = []
    for found in (answer, last):
        entries = np.bincount(found.at, minlength=many)
        single &= entries == 1
        place = np.zeros(many, np.int64)
        place[found.at] = np.arange(len(found.at))
        single[found.at[found.counts != 1]] = False
        places.append(place)
    differs, far = np.zeros(many, np.bool_), np.zeros(many, np.bool_)
    ours, theirs = (p[single] for p in places)
    for name in values:
        a, b = (
            pc.cast(column(f.rows, name), pa.float64()).take(pa.array(p))
            for f, p in ((answer, ours), (last, theirs))
        )
        gone = np.asarray(pc.xor(a.is_null(), b.is_null()))
        x, y = (np.asarray(pc.fill_null(c, 0.0)) for c in (a, b))
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        with np.errstate(invalid="ignore"):  # of two infinities
            away = ~same & ~(np.abs(x - y) <= cut)
        differs[single] |= gone | ~same
        far[single] |= gone | away
    return ~single | far, int((differs & ~far).sum())


def _weighed(table: pa.Table, told: Map, row: pa.Schema, sign: int) -> pa.Table:
    """Entries as rows that come or go; key columns of the step's map have the names and the order of those told."""
    cells = [column(table, n).cast(f.type) for n, f in zip(told.columns, row, strict=False)]
    weights = column(table, "r0")
    return pa.table([*cells, weights if sign > 0 else pc.negate(weights)], schema=row)


def _different(touched: list[pa.Table]) -> pa.Table | None:
    """Different keys; those without columns are one."""
    some = [t for t in touched if t.num_rows]
    if not some:
        return None
    if not some[0].num_columns:
        return pa.table({"_h": pa.array([0], pa.int64())})
    return different_rows(pa.concat_tables(some))
