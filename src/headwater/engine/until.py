"""A loop that ends when its values are near enough: the first round at which none moves too far is its last.

    N = the least n ≥ 1 at which no row is far from that of the round before        X@N is the answer

Rounds up to N are *told*: their rows are the collection. What the last of them gives to the next one is kept, too, but
nobody has answered it. A change is carried through the rounds up to N, and beside them goes the count of far rows by
round. Then either a round before N has none, and all rounds after it are taken back; or N has some, and the loop goes on
from what is kept of round N + 1. Both cost as much as the rounds that come or go, in which every row may move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.change import Change, schema_of
from headwater.engine.here import by_round
from headwater.engine.here.answers import at_rounds, current, different, keep_answers, rows, signed
from headwater.engine.here.statements import Scalars, hashed
from headwater.engine.loops import Rounds, all_rows
from headwater.engine.view_rows import scan_components
from headwater.engine.working import Working
from headwater.plan.program import WEIGHT, Loop, Stratum
from headwater.rules.rounds import ROUND
from headwater.state.run import LEAST, MOST, column

if TYPE_CHECKING:
    from headwater.engine.increment import Increment


def run(increment: Increment, loop: Loop, new: bool) -> None:
    """Carries what touched a loop through its rounds, and finds out which is the last."""
    made = _Until(increment, loop, new)
    before, increment.working.reads_new = increment.working.reads_new, True
    try:
        made.run()
    finally:
        increment.working.reads_new = before


def last_round(loop: Loop, working: Working) -> int:
    """The last round that is told: every one before it has rows that are far."""
    assert loop.until is not None
    count = loop.until.count
    tables = working.now(count.name).scan()
    # Rows that the loop starts with come at round 0, which is no step.
    far = [np.count_nonzero(np.asarray(column(t, count.columns[0])) >= 1) for t in tables]
    return 1 + int(sum(far))


def told_rows(s: Stratum, loop: Loop, working: Working, scalars: Scalars) -> pa.Table:
    """The rows of a stratum that are told, with their rounds."""
    if s.rounds:
        table = all_rows(s, working, scalars)
    else:
        found = [rows(s, t, scalars) for t in scan_components(s, working)]
        table = pa.concat_tables(found) if found else schema_of(s.type).empty_table()
    return table.filter(pc.less_equal(table.column(ROUND), last_round(loop, working)))


class _Until(Rounds):
    """The rounds of a loop in one increment, and the last of them."""

    def __init__(self, increment: Increment, loop: Loop, new: bool):
        super().__init__(increment, loop)
        self.new = new
        self.before = 0 if new else last_round(loop, increment.working.as_before())
        """The last round that was told before."""

    def run(self) -> None:
        """Visits touched rounds up to the last one, and then goes on, or takes back what is behind a new last one."""
        self._collect()
        end = self._last_of_old()
        if end is None:
            self._go_on()
        elif end < self.before:
            self._take_back(end)
        self._finish()

    def _last_of_old(self) -> int | None:
        """The first round at which nothing is far among those that were told; None if there is none."""
        while waiting := [r for r in self._waiting() if r <= self.before]:
            at = min(waiting)
            self._visit(at)
            if at >= 1 and not self._far(at):
                return at
        return self.before if self.before and not self._far(self.before) else None

    def _go_on(self) -> None:
        """Tells round after round, until nothing is far."""
        at = self.before
        while at == self.before or self._far(at):
            at += 1
            if not self.new:  # everything that is kept of a round, touched or not
                for s in self.strata:
                    for keys in by_round.all_groups(self.increment.working, s):
                        self._plan(s, keys.filter(pc.equal(column(keys, by_round.round_of(s)), at)))
            if at in self._waiting():
                self._visit(at)

    def _check(self, at: int) -> None:
        """A loop may end at the last round that there may be."""
        if at < self.loop.limit or self._far(at):
            super()._check(at)

    def _far(self, at: int) -> bool:
        """Whether some row is far from that of the round before."""
        assert self.loop.until is not None
        count = self.loop.until.count
        key = pa.table({count.columns[0]: pa.array([at], pa.int64())})
        key = key.add_column(0, "_h", hashed(key, count.lookup))
        return bool(self.increment.working.now(count.name).lookup(key).num_rows)

    def _answered(self, s: Stratum, touched: list[pa.Table]) -> pa.Table:
        keys = different(s.group, touched)
        told = np.asarray(column(keys, by_round.round_of(s))) <= self.before
        if self.new or told.all():
            return super()._answered(s, touched)
        # Nobody has answered this round before: all that there is of it is new.
        working, scalars = self.increment.working, self.increment.session.evaluate
        if not s.rounds:
            return rows(s, signed(s, [(current(working.now, s, keys), 1)]), scalars)
        found = at_rounds(working, s, keys, before=False).components
        if s.answers is not None:
            keep_answers(working, (s, found))
        return rows(s, found, scalars)

    def _take_back(self, end: int) -> None:
        """Takes back what was told of the rounds behind the last one, from the highest down to it."""
        increment, old = self.increment, self.increment.working.as_before()
        told = {
            s.name: told_rows(s, self.loop, old, increment.session.evaluate) for s in self.strata
        }
        for at in range(self.before, end, -1):
            for s in reversed(self.strata):
                change = told[s.name].filter(pc.equal(told[s.name].column(ROUND), at))
                if not change.num_rows:
                    continue
                place = change.schema.get_field_index(WEIGHT)
                change = change.set_column(place, WEIGHT, pc.negate(column(change, WEIGHT)))
                if s.name in self.loop.collections:
                    self.moved.setdefault(s.name, []).append(change)
                increment.changes[s.name] = Change.of(change)
                increment.round(self.maps, {s.name})
                increment.settle()
        for s in self.strata:
            increment.touched.pop(s.name, None)
            if s.answers is not None and s.rounds:
                self._forget(s, end)

    def _forget(self, s: Stratum, end: int) -> None:
        """Takes back the answers that are kept of the rounds behind the last one."""
        m, working = s.answers, self.increment.working
        assert m is not None
        kept = working.before(m.name)
        table = kept.collected(kept.refs, LEAST, MOST)
        at = m.columns[len(s.group.columns) - 1]
        table = table.filter(pc.greater(table.column(at), end))
        gone = table.set_column(
            table.schema.get_field_index("r0"), "r0", pc.negate(column(table, "r0"))
        )
        if gone.num_rows:
            entries, _ = working.now(m.name).merge(gone, blind=True)
            working.add(m.name, entries)
