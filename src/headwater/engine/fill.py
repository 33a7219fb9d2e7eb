"""New maps filled from what is there: each is computed from one relation read whole and from maps that are filled.

The statements are those of an increment: of each monomial one atom is taken as changed from nothing to everything,
the others are looked up, and maps come after those that they look up. So there is no second way to compute a map.

A map that follows another (`plan/adopting.py`) has its entries already, and is filled with what it lacks; if it reads an answer
that differs from the one before, the difference is a change, and carried by the statements of that.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.change import Change, schema_of
from headwater.engine.here import by_round
from headwater.engine.here.answers import keep_answers, merge, nothing, signed
from headwater.engine.here.different_values import passed_on
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.increment import Increment, answered_rows
from headwater.engine.narrowing import narrowed
from headwater.engine.spark.session import Session
from headwater.engine.undisturbed import reusing
from headwater.engine.working import Working
from headwater.errors import NotRetained
from headwater.plan.adopting import Adoption
from headwater.plan.program import WEIGHT, Loop, Map, Program, Statement, Stratum
from headwater.state.arrangement import Touched
from headwater.state.run import LEAST, MOST


class Backfill:
    """The filling of the maps of a new view."""

    def __init__(
        self,
        program: Program,
        working: Working,
        session: Session,
        root: Path,
        small: int,
        gone: Collection[str] = (),
        adopts: Adoption | None = None,
        old: Working | None = None,
    ):
        """`gone` are the sources that have had rows and keep none; `adopts` says which maps have what others had already.

        `old` are the maps of the program before, where answers follow others.
        """
        self.gone, self.adopts, self.old = gone, adopts or Adoption(), old
        self.program, self.working, self.session = program, working, session
        self.increment = Increment(program, working, session, root, small)
        self.new: set[str] = set()
        self.waiting: list[Stratum] = []
        self.sources = {
            m.reads[0]: m for m in program.maps.values() if m.fields and len(m.reads) == 1
        }

    @reusing()
    def run(self, before: Program) -> None:
        """Fills the maps that the program before had not, in the order of the program."""
        created = [self.program.maps[n] for n in self.program.kept if n not in before.maps]
        self.new = new = {m.name for m in created}
        strata = self.program.strata.values()
        self.working.reads_new = True
        loops = [loop for n, loop in self.program.loops.items() if n not in before.loops]
        inside = self.increment.inside
        self.waiting = [s for s in strata if s.name not in before.strata and s.name not in inside]
        # Bags of different values pass on to their group, which must know its rows by then: one round for both.
        bags = {d.map.name: s.group.name for s in strata for d in s.passed_on}
        together: dict[str, list[Map]] = {}
        for m in created:
            together.setdefault(bags.get(m.name, m.name), []).append(m)
        for m in self._ordered(created):
            # A map may read the collections of a loop that is new: its rounds come first, unless it is a part of it.
            for loop in [x for x in loops if m.name not in x.maps and {*x.relations} & {*m.reads}]:
                self._loop(loop)
                loops.remove(loop)
            # A map may read a stratum that is new: its answers must be there first.
            self._answer_for(m, before)
            if m.name in together:
                self._fill(together[m.name])
                self._pass_on(m, new)
        for loop in loops:
            self._loop(loop)
        self._answer_all(self.waiting, before)
        self.increment.check()

    def _ordered(self, created: list[Map]) -> list[Map]:
        """The maps in the order in which they are filled.

        Where differences of answers are carried, what reads no new answer comes first, for they are looked up together with
        it; and then the others level by level, each after the differences of the levels below, which its look-ups have by then.
        """
        if not self.adopts.strata:
            return created
        new = {s.name for s in self.waiting}
        return sorted(created, key=lambda m: -1 if new.isdisjoint(m.reads) else m.level)

    def _answer_for(self, m: Map, before: Program) -> None:
        """Answers the new strata that a map reads; where differences are carried, all below its level."""
        ready = [s for s in self.waiting if s.name in m.reads]
        if ready and self.adopts.strata:
            ready = [s for s in self.waiting if s.level < m.level]
        self._answer_all(ready, before)

    def _answer_all(self, strata: list[Stratum], before: Program) -> None:
        for s in sorted(strata, key=lambda s: s.level if self.adopts.strata else 0):
            self._answer(s)
            self._carry(s, before)
        self.waiting = [s for s in self.waiting if s not in strata]

    def _loop(self, loop: Loop) -> None:
        """The rounds of a loop whose maps have, by now, all that does not move in it."""
        if loop.diffuse is not None:
            self.increment.loop(loop, new=True)
            return
        for name in loop.strata:
            if self.program.strata[name].always:  # it has a row from round 1 on, whatever there is
                self.working.fresh.add(name)
                first = pa.table({by_round.round_of(self.program.strata[name]): [1]})
                self.increment.touched.setdefault(name, []).append(first)
        self.increment.loop(loop, new=True)
        self.working.fresh.difference_update(loop.strata)

    def _fill(self, maps: list[Map]) -> None:
        statements = [s for m in maps for s in self._statements(m)]
        driven: dict[str, list[Statement]] = {}
        for s in statements:
            driven.setdefault(s.drives, []).append(s)
        small, zone = self.increment.small, self.session.zone
        found = {
            n: narrowed(self._whole(n), mine, self.working, small, zone)
            for n, mine in driven.items()
        }
        self.increment.changes = {n: c for n, c in found.items() if c.rows}
        self.increment.execute([s for s in statements if s.drives in self.increment.changes])
        self.increment.settle()

    def _statements(self, m: Map) -> tuple[Statement, ...]:
        """How a map is filled: with all that it holds, or with what it lacks of that."""
        adopted = self.adopts.maps.get(m.name)
        return self.program.kept[m.name].filling if adopted is None else adopted.filling

    def _pass_on(self, group: Map, new: set[str]) -> None:
        """What bags of different values that were there before say to a group that is new."""
        done: set[str] = set()
        for s in self.program.strata.values():
            for d in s.passed_on:
                if s.group == group and d.map.name not in new and d.column not in done:
                    done.add(d.column)
                    for table in self.working.before(d.map.name).scan():
                        keys = table.select(["_h", *d.map.columns])
                        none = pa.table({"r0": pa.repeat(pa.scalar(0, pa.int64()), table.num_rows)})
                        moved = Touched(keys, none, table.select(["r0"]))
                        merge(self.working, [], {group.name: [passed_on(d, group, moved)]})

    def _answer(self, s: Stratum) -> None:
        follows = self.adopts.strata.get(s.name)
        if s.answers is not None and s.answers.name not in self.adopts.maps:
            if s.always:  # what it answers before any row, to be taken back by the first
                keep_answers(self.working, (s, signed(s, [(nothing(s), 1)])))
            # Shared with a view that was there, or taken over: what it had was touched by nothing.
            if s.group.name not in self.new or s.group.name in self.adopts.maps:
                keys = [t.select(s.group.columns) for t in self.working.now(s.group.name).scan()]
                self.increment.touched |= {s.name: keys} if keys else {}
        if s.answers is not None or (follows is not None and follows.same):
            self.increment.answer([s])

    def _carry(self, s: Stratum, before: Program) -> None:
        """Carries what an answer differs by from the one that it follows to the maps that follow those over that."""
        follows = self.adopts.strata.get(s.name)
        if follows is None:
            return
        if follows.same:
            change = self.increment.answers.get(s.name)
        else:
            assert self.old is not None
            scalars = self.session.evaluate
            gone = answered_rows(before, follows.of, self.old, scalars)
            found = answered_rows(self.program, s, self.working, scalars)
            empty = schema_of(s.type).empty_table()
            change = consolidated(pa.concat_tables([empty, *found, *map(_negative, gone)]))
        if change is None or not change.num_rows:
            return
        carried = [a.map for a in self.adopts.maps.values() if s.name in a.carried]
        self.increment.changes = {s.name: Change.of(change)}
        self.increment.round(carried, {s.name})
        self.increment.settle()

    def _whole(self, relation: str) -> Change:
        """All rows of a relation."""
        if relation in self.program.strata:
            return self._answered(self.program.strata[relation])
        m = self.sources.get(relation)
        if m is not None and relation in self.increment.inside:  # told by a loop, perhaps just now
            found = [t.select([*m.columns, "r0"]) for t in self.working.now(m.name).scan()]
            names = [*m.fields, WEIGHT]
            return Change.of(pa.concat_tables(found).rename_columns(names)) if found else Change()
        if m is None and relation not in self.gone:
            return Change()
        if m is None:
            raise NotRetained(
                f"`{relation}` keeps no copy of its rows, and has had some already",
                hint="define the view before data arrives, or declare the source without retain=False",
            )
        rows = sum(r.rows for r in self.working.refs.get(m.name, ()))
        return Change(ranges=((m.name, LEAST, MOST),), rows=rows)

    def _answered(self, s: Stratum) -> Change:
        found = answered_rows(self.program, s, self.working, self.session.evaluate)
        return Change.of(pa.concat_tables(found)) if found else Change()


def _negative(table: pa.Table) -> pa.Table:
    """Rows that go."""
    place = table.schema.get_field_index(WEIGHT)
    return table.set_column(place, WEIGHT, pc.negate(table.column(WEIGHT)))
