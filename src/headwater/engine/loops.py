"""Loops in an increment: round by round, and only the rounds at which something moves.

Changes from outside have met the maps of a loop as they meet all maps, every round of them at once, since a look-up
brings the rounds along. What they touch is the *agenda*: groups and rows, each with a round. While there is one, the
least round is taken:

    answers inside, lowest first    groups that are touched at the round are answered at it, before and now
    collections                     rows that came or went at the round; their statements give entries of later rounds

A group that has moved is put on the agenda for the later rounds at which it has entries: what it was answered there is
a difference to the round before. When the agenda is empty, all later rounds are what they were: a fixpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headwater.engine.change import Change, schema_of
from headwater.engine.here import by_round
from headwater.engine.here.answers import at_rounds, different, read_for, rows
from headwater.engine.here.statements import Scalars
from headwater.engine.working import Working
from headwater.errors import NoFixpoint
from headwater.plan.program import Loop, Stratum
from headwater.state.run import column

if TYPE_CHECKING:
    from headwater.engine.increment import Increment


def run(increment: Increment, loop: Loop) -> None:
    """Carries what touched a loop through its rounds; the changes of its collections are then those of the increment."""
    made = _Rounds(increment, loop)
    before, increment.working.reads_new = increment.working.reads_new, True
    try:
        made.run()
    finally:
        increment.working.reads_new = before


class _Rounds:
    """The rounds of one loop in one increment."""

    def __init__(self, increment: Increment, loop: Loop):
        self.increment, self.loop = increment, loop
        self.strata = [increment.program.strata[n] for n in loop.strata]
        self.maps = [increment.program.maps[n] for n in loop.maps]
        self.agenda: dict[str, dict[int, list[pa.Table]]] = {s.name: {} for s in self.strata}
        """Of each stratum the keys to be answered, by round."""
        self.moved: dict[str, list[pa.Table]] = {}

    def run(self) -> None:
        visited = []
        self._collect()
        while waiting := [r for by in self.agenda.values() for r in by]:
            at = min(waiting)
            visited.append((at, self._round(at)))
        for name in self.loop.strata:
            self.increment.changes.pop(name, None)
        for name, tables in self.moved.items():
            self.increment.changes[name] = Change.of(pa.concat_tables(tables))
        if visited:
            self.increment.rounds[self.loop.name] = visited

    def _round(self, at: int) -> int:
        """One round: how many rows of the collections moved."""
        count = 0
        for s in self.strata:
            touched = self.agenda[s.name].pop(at, None)
            if touched is None:
                continue
            change = self._answered(s, touched)
            if not change.num_rows:
                continue
            if s.name in self.loop.collections:
                count += change.num_rows
                self._check(s, at, change)
                self.moved.setdefault(s.name, []).append(change)
            self.increment.changes[s.name] = Change.of(change)
            self.increment.round(self.maps, {s.name})
            self._collect()
        return count

    def _answered(self, s: Stratum, touched: list[pa.Table]) -> pa.Table:
        """The rows of a stratum that come and go at a round."""
        increment, keys = self.increment, different(s.group, touched)
        if not s.rounds:
            return rows(s, increment.components(s, keys), increment.session.evaluate)
        if read_for(increment.working, s, keys).sum() > increment.small:
            found = increment.components(s, keys)
            later = by_round.summed(increment.working, s, keys).later
        else:
            found, later = at_rounds(increment.working, s, keys)
        self._plan(s, later)
        return rows(s, found, increment.session.evaluate)

    def _collect(self) -> None:
        """Puts what was touched on the agenda."""
        self.increment.settle()
        for s in self.strata:
            for keys in self.increment.touched.pop(s.name, ()):
                self._plan(s, keys)

    def _plan(self, s: Stratum, keys: pa.Table) -> None:
        """Puts keys on the agenda, each for its round."""
        if not keys.num_rows:
            return
        rounds = np.asarray(column(keys, by_round.round_of(s)))
        agenda = self.agenda[s.name]
        for at in np.unique(rounds):
            mine = keys.filter(pa.array(rounds == at)).select(s.group.columns)
            agenda.setdefault(int(at), []).append(mine)

    def _check(self, s: Stratum, at: int, change: pa.Table) -> None:
        """A round at which rows still move after as many as there may be is an error."""
        if self.loop.times is not None or at < self.loop.limit:
            return
        raise NoFixpoint(
            f"a loop still changes {change.num_rows:,} rows at round {at:,}, and there may be no more rounds",
            hint="the database is as it was before",
        )


def all_rows(s: Stratum, working: Working, scalars: Scalars) -> pa.Table:
    """All rows of an answer inside of a loop, round by round."""
    groups = list(by_round.all_groups(working, s))
    if s.always:
        groups.append(pa.table({by_round.round_of(s): pa.array([1], pa.int64())}))
    if not groups:
        return schema_of(s.type).empty_table()
    keys = different(s.group, groups)
    return rows(s, at_rounds(working, s, keys, before=False).components, scalars)
