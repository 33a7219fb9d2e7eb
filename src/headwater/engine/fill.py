"""New maps filled from what is there: each is computed from one relation read whole and from maps that are filled.

The statements are those of an increment: of each monomial one atom is taken as changed from nothing to everything,
the others are looked up, and maps come after those that they look up. So there is no second way to compute a map.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pyarrow as pa

from headwater.engine.change import Change
from headwater.engine.here import by_round
from headwater.engine.here.answers import keep_answers, merge, nothing, passed_on, signed
from headwater.engine.increment import Increment, answered_rows
from headwater.engine.spark.session import Session
from headwater.engine.working import Working
from headwater.errors import NotRetained
from headwater.plan.adopting import Adopted
from headwater.plan.program import Loop, Map, Program, Statement, Stratum
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
        adopted: Mapping[str, Adopted] | None = None,
    ):
        """`gone` are the sources that have had rows and keep none; `adopted` the maps that have what others had already."""
        self.gone, self.adopted = gone, adopted or {}
        self.program, self.working, self.session = program, working, session
        self.increment = Increment(program, working, session, root, small)
        self.new: set[str] = set()
        self.sources = {
            m.reads[0]: m for m in program.maps.values() if m.fields and len(m.reads) == 1
        }

    def run(self, before: Program) -> None:
        """Fills the maps that the program before had not, in the order of the program."""
        created = [self.program.maps[n] for n in self.program.kept if n not in before.maps]
        self.new = new = {m.name for m in created}
        strata = self.program.strata.values()
        self.working.reads_new = True
        loops = [loop for n, loop in self.program.loops.items() if n not in before.loops]
        inside = self.increment.inside
        waiting = [s for s in strata if s.name not in before.strata and s.name not in inside]
        # Bags of different values pass on to their group, which must know its rows by then: one round for both.
        bags = {d.map.name: s.group.name for s in strata for d in s.distinct}
        together: dict[str, list[Map]] = {}
        for m in created:
            together.setdefault(bags.get(m.name, m.name), []).append(m)
        for m in created:
            # A map may read the collections of a loop that is new: its rounds come first, unless it is a part of it.
            for loop in [x for x in loops if m.name not in x.maps and {*x.relations} & {*m.reads}]:
                self._loop(loop, waiting)
                loops.remove(loop)
            # A map may read a stratum that is new: its answers must be there first.
            for s in [s for s in waiting if s.name in m.reads]:
                self._answer(s)
                waiting.remove(s)
            if m.name in together:
                self._fill(together[m.name])
                self._pass_on(m, new)
        for loop in loops:
            self._loop(loop, waiting)
        for s in waiting:
            self._answer(s)
        self.increment.check()

    def _loop(self, loop: Loop, waiting: list[Stratum]) -> None:
        """The rounds of a loop whose maps have, by now, all that does not move in it."""
        if loop.diffuse is not None:
            read = {x.drives for x in loop.diffuse.start}
            for s in [s for s in waiting if s.name in read]:  # X* starts from its rows
                self._answer(s)
                waiting.remove(s)
            start = {n: c for n in read if (c := self._whole(n)).rows}
            self.increment.changes = start
            self.increment.loop(loop, new=True)
            return
        for name in loop.strata:
            if self.program.strata[name].always:  # it has a row from round 1 on, whatever there is
                self.working.fresh.add(name)
                first = pa.table({by_round.round_of(self.program.strata[name]): [1]})
                self.increment.touched.setdefault(name, []).append(first)
        self.increment.loop(loop)
        self.working.fresh.difference_update(loop.strata)

    def _fill(self, maps: list[Map]) -> None:
        statements = [s for m in maps for s in self._statements(m)]
        drivers = {s.drives for s in statements}
        self.increment.changes = {n: c for n in drivers if (c := self._whole(n)).rows}
        self.increment.execute([s for s in statements if s.drives in self.increment.changes])
        self.increment.settle()

    def _statements(self, m: Map) -> tuple[Statement, ...]:
        """How a map is filled: with all that it holds, or with what it lacks of that."""
        adopted = self.adopted.get(m.name)
        return self.program.kept[m.name].filling if adopted is None else adopted.filling

    def _pass_on(self, group: Map, new: set[str]) -> None:
        """What bags of different values that were there before say to a group that is new."""
        done: set[str] = set()
        for s in self.program.strata.values():
            for d in s.distinct:
                if s.group == group and d.map.name not in new and d.column not in done:
                    done.add(d.column)
                    for table in self.working.before(d.map.name).scan():
                        keys = table.select(["_h", *d.map.columns])
                        none = pa.table({"r0": pa.repeat(pa.scalar(0, pa.int64()), table.num_rows)})
                        moved = Touched(keys, none, table.select(["r0"]))
                        merge(self.working, [], {group.name: [passed_on(d, group, moved)]})

    def _answer(self, s: Stratum) -> None:
        if s.answers is not None:
            if s.always:  # what it answers before any row, to be taken back by the first
                keep_answers(self.working, s, signed(s, [(nothing(s), 1)]))
            # Shared with a view that was there, or taken over: what it had was touched by nothing.
            if s.group.name not in self.new or s.group.name in self.adopted:
                keys = [t.select(s.group.columns) for t in self.working.now(s.group.name).scan()]
                self.increment.touched |= {s.name: keys} if keys else {}
            self.increment.answer([s])

    def _whole(self, relation: str) -> Change:
        """All rows of a relation."""
        if relation in self.program.strata:
            return self._answered(self.program.strata[relation])
        m = self.sources.get(relation)
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
