"""New maps filled from what is there: each is computed from one relation read whole and from maps that are filled.

The statements are those of an increment: of each monomial one atom is taken as changed from nothing to everything,
the others are looked up, and maps come after those that they look up. So there is no second way to compute a map.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import pyarrow as pa

from headwater.engine import view_rows
from headwater.engine.change import Change
from headwater.engine.here.answers import keep_answers, merge, nothing, passed_on, signed
from headwater.engine.increment import Increment
from headwater.engine.spark.session import Session
from headwater.engine.working import Working
from headwater.errors import NotRetained
from headwater.plan.compiler import Compiler
from headwater.plan.program import Map, Stratum, View
from headwater.state.arrangement import Touched
from headwater.state.run import LEAST, MOST


class Backfill:
    """The filling of the maps of a new view."""

    def __init__(
        self,
        compiler: Compiler,
        working: Working,
        session: Session,
        root: Path,
        small: int,
        gone: Collection[str] = (),
    ):
        """`gone` are the sources that have had rows and keep none."""
        self.gone = gone
        self.compiler, self.working, self.session = compiler, working, session
        self.increment = Increment(compiler, working, session, root, small)
        self.new: set[str] = set()
        self.sources = {
            m.reads[0]: m for m in compiler.program.maps.values() if m.fields and len(m.reads) == 1
        }

    def run(self, created: Iterable[Map], known: set[str]) -> None:
        """Fills maps in the order given; `known` are the strata that were there before."""
        created = list(created)
        self.new = new = {m.name for m in created}
        strata = self.compiler.program.strata.values()
        self.working.reads_new = True
        waiting = [s for s in strata if s.name not in known]
        # Bags of different values pass on to their group, which must know its rows by then: one round for both.
        bags = {d.map.name: s.group.name for s in strata for d in s.distinct}
        together: dict[str, list[Map]] = {}
        for m in created:
            together.setdefault(bags.get(m.name, m.name), []).append(m)
        for m in created:
            # A map may read a stratum that is new: its answers must be there first.
            for s in [s for s in waiting if s.name in m.reads]:
                self._answer(s)
                waiting.remove(s)
            if m.name in together:
                self._fill(together[m.name])
                self._pass_on(m, new)
        for s in waiting:
            self._answer(s)
        self.increment.check()

    def _fill(self, maps: list[Map]) -> None:
        statements = [s for m in maps for s in self.compiler.maps.filling(m)]
        drivers = {s.drives for s in statements}
        self.increment.changes = {n: c for n in drivers if (c := self._whole(n)).rows}
        self.increment.execute([s for s in statements if s.drives in self.increment.changes])
        self.increment.settle()

    def _pass_on(self, group: Map, new: set[str]) -> None:
        """What bags of different values that were there before say to a group that is new."""
        done: set[str] = set()
        for s in self.compiler.program.strata.values():
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
            if (
                s.group.name not in self.new
            ):  # shared with a view that was there, so nothing touched it
                keys = [t.select(s.group.columns) for t in self.working.now(s.group.name).scan()]
                self.increment.touched |= {s.name: keys} if keys else {}
            self.increment.answer([s])

    def _whole(self, relation: str) -> Change:
        """All rows of a relation."""
        if relation in self.compiler.program.strata:
            return self._answered(self.compiler.program.strata[relation])
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
        view = View(s.name, s.term, s.type, "", s.name, None)
        found = list(
            view_rows.scan(self.compiler.program, view, self.working, self.session.evaluate)
        )
        if not found:
            return Change()
        return Change.of(pa.concat_tables(found))
