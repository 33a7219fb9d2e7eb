"""Loops in an increment: round by round, and only the rounds at which something moves.

Changes from outside have met the maps of a loop as they meet all maps, every round of them at once, since a look-up
brings the rounds along. What they touch is the *agenda*: groups and rows, each with a round. While there is one, the
least round is taken:

    answers inside, lowest first    groups that are touched at the round are answered at it, before and now
    collections                     rows that came or went at the round; their statements give entries of later rounds

A group that has moved is put on the agenda for the later rounds at which it has entries: what it was answered there is
a difference to the round before. A collection whose rows are the entries of its map is not answered: what rounds add to
the map is its change, and is merged into the map once, in the end. When the agenda is empty, all later rounds are what
they were: a fixpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine import endless
from headwater.engine.change import Change, schema_of
from headwater.engine.here import by_round, by_sum
from headwater.engine.here.answers import at_rounds, different, keep_answers, read_for, rows, signed
from headwater.engine.here.by_sum import Sums
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.here.statements import Scalars
from headwater.engine.working import AGAIN, Working
from headwater.plan.program import WEIGHT, Lookup, Loop, Statement, Stratum
from headwater.rules.rounds import ROUND
from headwater.state.run import LEAST, MOST, column

TOLD = 250_000
"""Rows that a collection changed by, from which on they are added up over rounds: with fewer whoever reads them does it."""
WAITING = 1_000_000
"""Rows that wait for the end at most: more than are carried in this process would go through Spark and back."""

if TYPE_CHECKING:
    from headwater.engine.increment import Increment


def as_added(increment: Increment, loop: Loop) -> dict[str, Stratum]:
    """By map, the strata of a loop whose rows are its entries, where nobody else reads it before the end."""
    if loop.until is not None or loop.diffuse is not None:
        return {}  # an end is found by what is kept of every round; what is near has no rounds
    out, program = {}, increment.program
    read = looked_up(statements_of(increment, loop))
    for s in (program.strata[n] for n in loop.strata):
        name = s.group.name
        readers = (*increment.routes.strata[name], *increment.besides.get(name, ()))
        if s.as_added and name not in read and readers == (s,):
            out[name] = s
    return out


def statements_of(increment: Increment, loop: Loop) -> dict[str, list[Statement]]:
    """Of each relation of a loop what its change says to the maps of the loop, at its round."""
    program = increment.program
    maps = [program.maps[n] for n in loop.maps]
    return {n: [s for m in maps for s in program.statements(m, {n})] for n in loop.relations}


def looked_up(statements: Mapping[str, Iterable[Statement]]) -> set[str]:
    """The maps that statements look up."""
    every = [s for some in statements.values() for s in some]
    return {n for s in every for t in (s, *s.changes) for n in t.reads}


def run(increment: Increment, loop: Loop) -> None:
    """Carries what touched a loop through its rounds; the changes of its collections are then those of the increment."""
    made = Rounds(increment, loop)
    before, increment.working.reads_new = increment.working.reads_new, True
    looked_up, increment.looked_up = increment.looked_up, made.looked_up
    try:
        made.run()
    finally:
        increment.working.reads_new = before
        increment.looked_up = looked_up
    increment.settle()


class Rounds:
    """The rounds of one loop in one increment."""

    def __init__(self, increment: Increment, loop: Loop):
        self.increment, self.loop = increment, loop
        self.strata = [increment.program.strata[n] for n in loop.strata]
        self.maps = [increment.program.maps[n] for n in loop.maps]
        self.agenda: dict[str, dict[int, list[pa.Table]]] = {s.name: {} for s in self.strata}
        """Of each stratum the keys to be answered, by round."""
        self.rows: dict[str, dict[int, list[pa.Table]]] = {s.name: {} for s in self.strata}
        """Of strata whose rows are the entries of a map the rows that were added to it, by round."""
        self.visited: list[tuple[int, int]] = []
        self.moved: dict[str, list[pa.Table]] = {}
        self.last: dict[str, pa.Table] = {}
        """What the collections changed by at the last round."""
        self.sums: dict[str, Sums] = {}
        """Of strata that are answered from sums what these were at the last round, of the groups that were visited there."""
        self.states = endless.Fingerprints()
        self.patience = endless.PATIENCE
        """How many rounds have to repeat others before they are asked whether they alternate, which reads everything."""
        self.statements = statements_of(increment, loop)
        self.looked_up = looked_up(self.statements)
        self.answered = {m.name for s in self.strata for m in s.maps}
        """What rounds look up, and are answered from. Maps that are neither are merged in the end, all rounds at once."""
        self.as_added = as_added(increment, loop)
        self.added: dict[str, list[pa.Table]] = {}
        """What was added to these maps, and is yet to be merged."""
        self.in_the_end: dict[str, list[Statement]] = {}
        """Of each relation the statements that wait: no round reads what they give, and they look nothing up, so that of
        all changes together they give what they would of one after another."""
        self.waiting_changes: dict[str, list[pa.Table]] = {}
        if loop.until is None:  # whose end is found by what is kept of every round
            read = self.looked_up | self.answered
            for n, some in self.statements.items():
                self.in_the_end[n] = [s for s in some if s.target.name not in read and is_linear(s)]
                self.statements[n] = [s for s in some if s not in self.in_the_end[n]]
            self.answered -= self.as_added.keys()

    def _reads_round(self, name: str) -> bool:
        """Whether maps outside of the loop ask for the round of a collection's rows."""
        program, mine = self.increment.program, set(self.loop.maps)
        outside = [m for m in self.increment.routes.readers.get(name, ()) if m.name not in mine]
        kept = [program.kept[m.name] for m in outside if m.name in program.kept]
        every = [s for k in kept for s in k.every]
        asked = [t for s in every for t in (s, *s.changes) if t.drives == name]
        return any(field == ROUND for s in asked for _, field in s.columns)

    def run(self) -> None:
        """Visits the rounds at which something is touched, until there is none."""
        self._collect()
        while waiting := self._waiting():
            self._visit(min(waiting))
        self._finish()

    def _waiting(self) -> list[int]:
        """The rounds on the agenda."""
        return [r for agenda in (self.agenda, self.rows) for by in agenda.values() for r in by]

    def _visit(self, at: int) -> None:
        if len(self.visited) == AGAIN:
            self.increment.working.gather(self.looked_up.difference(self.loop.maps))
        self.visited.append((at, self._round(at)))

    def _finish(self) -> None:
        """Carries what could wait, and leaves the changes of the collections, those of all rounds together."""
        for name in list(self.waiting_changes):
            self._carry_waiting(name)
        self._merge_added()
        for name in self.loop.strata:
            self.increment.changes.pop(name, None)
        for name, tables in self.moved.items():
            self.increment.changes[name] = Change.of(pa.concat_tables(tables))
        if self.visited:
            self.increment.rounds[self.loop.name] = self.visited

    def _merge_added(self) -> None:
        """Merges what rounds have added to maps that are not answered from; who reads these knows it already."""
        added, self.added = self.added, {}
        self.increment.later.update(added)
        self.increment.settle(of=added)
        for name in added:
            self.increment.touched.pop(self.as_added[name].name, None)

    def _round(self, at: int) -> int:
        """One round: how many rows of the collections moved."""
        count = 0
        self.last = {}
        for s in self.strata:
            change = self._change(s, at)
            if not change.num_rows:
                continue
            if s.name in self.loop.collections:
                count += change.num_rows
                self.last[s.name] = change
                self._tell(s.name, change)
            if self.statements[s.name]:
                self.increment.changes[s.name] = Change.of(change)
                self.increment.execute(self.statements[s.name])
                self._collect()
            if self.in_the_end.get(s.name):
                waiting = self.waiting_changes.setdefault(s.name, [])
                waiting.append(change)
                if rows_of(waiting) >= WAITING:
                    self._carry_waiting(s.name)
        if count and self.loop.times is None:
            self._check(at)
        return count

    def _carry_waiting(self, name: str) -> None:
        """Carries what waits of a relation."""
        changes = self.waiting_changes.pop(name)
        self.increment.changes[name] = Change.of(pa.concat_tables(changes))
        self.increment.execute(self.in_the_end[name])

    def _tell(self, name: str, change: pa.Table) -> None:
        """Notes what a collection changed by at a round, for those who read it outside.

        A value that moves at many rounds goes and comes at each of them. Where nobody asks for the round, many rows are added up
        over all rounds, so that what is told, and held, is what the collection changed by in all.
        """
        told = self.moved.setdefault(name, [])
        told.append(change)
        if rows_of(told[1:]) < max(TOLD, told[0].num_rows) or self._reads_round(name):
            return
        every = pa.concat_tables(told)
        at_none = by_round.at_round(every, ROUND, np.zeros(every.num_rows, np.int64))
        self.moved[name] = [consolidated(at_none)]

    def _change(self, s: Stratum, at: int) -> pa.Table:
        """The rows of a stratum that come and go at a round: those of touched groups, and those that were added."""
        touched, added = self.agenda[s.name].pop(at, None), self.rows[s.name].pop(at, None)
        if added is None:
            return self._answered(s, touched) if touched else schema_of(s.type).empty_table()
        if touched:
            added.append(self._answered(s, touched).cast(schema_of(s.type)))
        return consolidated(pa.concat_tables(added))

    def _answered(self, s: Stratum, touched: list[pa.Table]) -> pa.Table:
        """The rows of a stratum that come and go at a round."""
        increment, keys = self.increment, _keys(s, touched)
        if not s.rounds:
            return rows(s, increment.components(s, keys), increment.session.evaluate)
        last = self.sums.pop(s.name, None)
        if read_for(increment.working, s, keys).sum() > increment.small:
            found = increment.components(s, keys)
            later = by_round.summed(increment.working, s, keys).later
        elif by_sum.is_answered_so(s):
            components, later, self.sums[s.name] = by_sum.changed(increment.working, s, keys, last)
            found = signed(s, [components])
        else:
            found, later = at_rounds(increment.working, s, keys)
            if s.answers is not None:
                keep_answers(increment.working, (s, found))
        self._plan(s, later)
        return rows(s, found, increment.session.evaluate)

    def _collect(self) -> None:
        """Puts what was touched on the agenda."""
        self.increment.settle(of=None if self.loop.until else self.answered)
        for name, s in self.as_added.items():
            for table in self.increment.later.pop(name, ()):
                self.added.setdefault(name, []).append(table)
                _by_round(self.rows[s.name], _as_rows(s, table), ROUND)
        for s in self.strata:
            for keys in self.increment.touched.pop(s.name, ()):
                self._plan(s, keys)

    def _plan(self, s: Stratum, keys: pa.Table) -> None:
        """Puts keys on the agenda, each for its round."""
        _by_round(self.agenda[s.name], keys, by_round.round_of(s))

    def _check(self, at: int) -> None:
        """A loop that has not ended after as many rounds as there may be is an error; so is one whose rounds alternate."""
        if len(self.visited) >= endless.PATIENCE:
            self.states.add(at, self.last)
        ends, repeated = at >= self.loop.limit, self.states.repeated
        period = None
        if repeated >= self.patience or (ends and repeated):
            period = self._alternates(at)
            self.patience *= 2
        if ends or period is not None:
            raise endless.error(self.increment.program, self.loop, at, period, self.last)

    def _alternates(self, at: int) -> int | None:
        """The period p of rounds that will go on for ever: X@n = X@(n − p), and the last of them moves something."""
        period = self.states.period
        every = [self._moved_since(n, at - period, at) for n in self.loop.collections]
        last = [t.filter(pc.equal(t.column(ROUND), at)) for t in every]
        same = all(endless.is_nothing(t) for t in every)
        return period if same and not all(endless.is_nothing(t) for t in last) else None

    def _moved_since(self, name: str, after: int, at: int) -> pa.Table:
        """What comes and goes in a collection at the rounds behind one, up to another, found by reading all of it."""
        s, increment = self.increment.program.strata[name], self.increment
        self._merge_added()
        if s.rounds:
            table = all_rows(s, increment.working, increment.session.evaluate)
        else:
            found = increment.working.now(s.group.name).collected(
                increment.working.now(s.group.name).refs, LEAST, MOST
            )
            table = found.select([*s.group.columns, "r0"]).rename_columns(
                [*(n for n, _ in s.row), WEIGHT]
            )
        rounds = table.column(ROUND)
        return table.filter(pc.and_(pc.greater(rounds, after), pc.less_equal(rounds, at)))


def rows_of(tables: list[pa.Table]) -> int:
    return sum(t.num_rows for t in tables)


def is_linear(s: Statement) -> bool:
    """Whether a statement gives of two changes together what it gives of each: it reads nothing else."""
    return not s.changes and not any(isinstance(step, Lookup) for step in s.steps)


def _by_round(agenda: dict[int, list[pa.Table]], table: pa.Table, name: str) -> None:
    """Puts the rows of a table on an agenda, each for the round that a column says."""
    rounds = np.asarray(column(table, name))
    for at in np.unique(rounds):
        here = rounds == at
        mine = table if here.all() else table.filter(pa.array(here))
        agenda.setdefault(int(at), []).append(mine)


def _as_rows(s: Stratum, added: pa.Table) -> pa.Table:
    """What was added to the map of a stratum whose rows are its entries, as a change of its rows."""
    schema = schema_of(s.type)
    cells = added.select([*s.group.columns, s.group.ring[0][0]])
    return cells.rename_columns(schema.names).cast(schema)


def _keys(s: Stratum, touched: list[pa.Table]) -> pa.Table:
    """The different keys that were touched; tasks may say the same one several times."""
    if len(touched) == 1 and touched[0].num_rows == 1 and "_h" in touched[0].column_names:
        return touched[0]
    return different(s.group, touched)


def all_rows(s: Stratum, working: Working, scalars: Scalars) -> pa.Table:
    """All rows of an answer inside of a loop, round by round."""
    groups = list(by_round.all_groups(working, s))
    if s.always:
        groups.append(pa.table({by_round.round_of(s): pa.array([1], pa.int64())}))
    if not groups:
        return schema_of(s.type).empty_table()
    keys = different(s.group, groups)
    return rows(s, at_rounds(working, s, keys, before=False).components, scalars)
