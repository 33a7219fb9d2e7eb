"""One increment: statements, merges and answers, stratum by stratum, in this process or on Spark.

Several relations that changed are treated in one of two ways, which give the same maps:

    at once      every product-rule term, all look-ups at the version before        one round a stratum
    in sequence  one relation after another, each reads what those before it wrote  no terms of two changes

In sequence, answers of one row that nothing ties to the rest are one relation: their product, before and after.

Answers are evaluated once, after the last change that touches their groups. Every round and every answer is
computed here while the change, what is found for it and the groups that it touches are small, and on Spark when not.

The changes of views that are `wanted` are given after `run`: of an answer those of its stratum, which is then evaluated
on the way; of stored rows, and of the parts of nested ones, the entries that were added to their maps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.types import RecordType
from headwater.engine import diffuse, loops, policy, refill, until, view_rows
from headwater.engine.change import Change, schema_of
from headwater.engine.here import threads
from headwater.engine.here.answers import components, different, keep_answers, merge, read_for, rows
from headwater.engine.here.passing import Passing
from headwater.engine.here.statements import Scalars, changes_of, run
from headwater.engine.nested.rows import Moved
from headwater.engine.slices import whole
from headwater.engine.spark.rounds import Cluster
from headwater.engine.spark.session import Session
from headwater.engine.undisturbed import reusing
from headwater.engine.working import Working
from headwater.errors import EngineError
from headwater.plan.failures import CASTS, DIVIDES, EMPTY
from headwater.plan.program import (
    WEIGHT,
    Answered,
    Loop,
    Map,
    Program,
    Statement,
    Stratum,
    View,
)
from headwater.plan.routes import routes
from headwater.plan.together import singles
from headwater.state.arrangement import TooMany

FAILED = {
    DIVIDES: (
        "a row of a view divides by zero",
        "guard the divisor, for example with nullif(divisor, 0)",
    ),
    CASTS: (
        "a row of a view casts a value that has no form in that type",
        "guard the cast, or write try_cast",
    ),
    EMPTY: ("min(), max() or mode() of an empty collection", "give default= a value, or ask first"),
}
"""What is said of rows that fail, and what can be done."""


def product_of(changes: Sequence[pa.Table], row: RecordType) -> pa.Table:
    """The change of the product of relations of one row each: that of their old rows goes, that of the new comes."""
    schema = schema_of(row)
    sides = [schema.empty_table()]
    for sign in (-1, 1):
        rows = [t.filter(pc.equal(t.column(WEIGHT), sign)) for t in changes]
        assert all(t.num_rows <= 1 for t in rows), "an answer without groups has one row"
        if all(t.num_rows for t in rows):
            cells = [c for t in rows for c in t.drop_columns([WEIGHT]).columns]
            arrays = [c.cast(f.type) for c, f in zip(cells, schema, strict=False)]
            sides.append(pa.table([*arrays, pa.array([sign], pa.int64())], schema=schema))
    return pa.concat_tables(sides)


def answered_rows(
    program: Program, s: Stratum, working: Working, scalars: Scalars
) -> list[pa.Table]:
    """All rows of an answer, with weights."""
    ending = [x for x in program.loops.values() if x.until is not None and s.name in x.strata]
    if ending:
        return [until.told_rows(s, ending[0], working, scalars)]
    if s.rounds:
        return [loops.all_rows(s, working, scalars)]
    view = View(s.name, s.type, "", Answered(s.name))
    return list(view_rows.scan(program, view, working, scalars))


def _weighed(table: pa.Table, weight: int) -> pa.Table:
    """Rows with another weight."""
    place = table.schema.get_field_index(WEIGHT)
    return table.set_column(place, WEIGHT, pa.repeat(pa.scalar(weight, pa.int64()), table.num_rows))


class Increment:
    """The changes of some relations, carried through the maps of a program."""

    def __init__(
        self,
        program: Program,
        working: Working,
        session: Session,
        root: Path,
        small: int,
        wanted: frozenset[str] = frozenset(),
    ):
        """`small` is how many rows are carried through here at most; `wanted` the views whose changes are to be given."""
        self.program = program
        self.working, self.session, self.root, self.small = working, session, root, small
        self.cluster = Cluster(working, session, root)
        working.threads = threads.cores()
        self.touched: dict[str, list[pa.Table]] = {}
        self.changes: dict[str, Change] = {}
        self.later: dict[str, list[pa.Table]] = {}
        self.routes = known = routes(program)
        self.looked_up: Set[str] = known.looked_up
        self.wanted = wanted
        answering = [program.views[n].stratum for n in wanted]
        self.asked = {name for name in answering if name is not None}
        """The strata whose changes somebody wants."""
        self.answers: dict[str, pa.Table] = {}
        self.answered = {*known.answered, *self.asked}
        self.merged_here = not known.inside
        """Whether merges here have said all that was touched, and no loop: then the keys of one merge are different already."""
        self.may_refill = False
        """Whether the sources have all rows that the maps were made from, so that these may be filled anew."""
        self.refilled: frozenset[str] = frozenset()
        """The maps that are filled anew."""
        self.rounds: dict[str, list[tuple[int, int]]] = {}
        """Of each loop the rounds that were visited, and how many rows moved at each."""
        self.withheld: dict[str, int] = {}
        """Of each loop in diffuse mode how many answers were near enough to what was told last, and not told."""
        self.due: dict[str, int] = {}
        """Of each loop in diffuse mode how many keys had yet to move when its rounds were over."""
        self.inside = known.inside
        self.touching = diffuse.touching(program)
        """Strata whose groups are touched by what a map besides their own says."""
        self.answered |= {s.name for s in self.touching}
        self.besides: dict[str, list[Stratum]] = {}
        """These by that map."""
        for s in self.touching:
            self.besides.setdefault(s.group.name, []).append(s)

    def run(self, changes: Mapping[str, Change], in_sequence: bool) -> None:
        """Carries the changes of sources through; what is new is then in `working`."""
        self.changes = {n: c for n, c in changes.items() if c.rows}
        self.working.steady = True
        self.refilled = refill.chosen(self)
        levels = self.program.relations.levels
        for level in self.routes.levels:
            changed = [n for n in self.changes if levels.get(n, 0) == level]
            if in_sequence:
                self.working.reads_new = True
                single = self._single(changed) if len(changed) > 1 else set[str]()
                for name in changed:
                    if name not in single:
                        self.round(self._above(name), {name})
                if single:
                    self.round_together(self.routes.changed_by(single), single)
            else:
                reached = self.routes.changed_by(self.changes)
                self.round([m for m in reached if m.level == level], self.changes)
            mine = self.routes.loops.get(level, ())
            # Rows that a loop takes as they were added wait for their rounds.
            touched_ones = [x for x in mine if not self.later.keys().isdisjoint(x.maps)]
            waiting = {n for loop in touched_ones for n in loops.as_added(self, loop)}
            self.settle(level, but=waiting)
            for m in self.program.maps.values() if self.refilled else ():
                if m.name in self.refilled and m.level == level:
                    self.later[m.name] = [refill.difference(self, m)]
            self.settle(level, but=waiting)
            touched = [self.program.strata[n] for n in self.touched if n in self.program.strata]
            self.answer([s for s in touched if s.level == level and s.name not in self.inside])
            for loop in mine:
                self.loop(loop)
        self.check()

    @reusing()
    def loop(self, loop: Loop, new: bool = False) -> None:
        """Carries what touched a loop through it, in its mode; one that is new starts."""
        if loop.diffuse is not None:
            diffuse.run(self, loop, new)
        elif loop.until is not None:
            until.run(self, loop, new)
        else:
            loops.run(self, loop)
        self.working.gathered.clear()

    def _above(self, relation: str) -> list[Map]:
        """The maps that a relation changes; those of a loop have what its collections changed already."""
        loop = self.inside.get(relation)
        readers = self.routes.readers.get(relation, ())
        return [m for m in readers if loop is None or m.name not in loop.maps]

    def check(self) -> None:
        """Raises if rows are left that fail."""
        one = pa.table({"_h": pa.array([0], pa.int64())})
        for m in self.program.checks.values():
            if m.name in self.working.added and self.working.now(m.name).lookup(one).num_rows:
                what, hint = FAILED[m.note]
                raise EngineError(what, hint=f"{hint}\nthe database is as it was before")

    def possible_at_once(self, changed: Iterable[str]) -> bool:
        """Whether the maps that are kept are enough for all product-rule terms of a change to sources."""
        reached = self._reached(set(changed))
        for m in self.program.maps.values():
            kept = self.program.kept.get(m.name)
            if kept is not None and kept.at_once is None and len(reached.intersection(m.reads)) > 1:
                return False
        return True

    def _reached(self, names: set[str]) -> set[str]:
        """The relations that change when some do."""
        out = set(names)
        for s in sorted(self.program.strata.values(), key=lambda s: s.level):
            if any(set(m.reads) & out for m in s.maps):
                loop = self.inside.get(s.name)
                out |= {s.name} if loop is None else set(loop.relations)
            for loop in self.program.loops.values():
                if any(out.intersection(self.program.maps[n].reads) for n in loop.maps):
                    out |= set(loop.relations)
        return out

    # --- rounds ------------------------------------------------------------------------------------------------

    def round(self, maps: Iterable[Map], changed: Iterable[str]) -> None:
        """The statements of some changes, all reading the same maps, and then the merges."""
        names = set(changed).intersection(self.changes)
        maps = [m for m in maps if m.name not in self.refilled]
        self.execute([s for m in maps for s in self.program.statements(m, names)])

    def _single(self, changed: Iterable[str]) -> set[str]:
        """The changed relations of one row that all maps can take together; none if there is only one."""
        names, before = singles(self.program).intersection(changed), set[str]()
        while names != before:  # what one map cannot take leaves fewer for the others
            before = set(names)
            for m in self.program.maps.values():
                mine = names.intersection(m.reads)
                if len(mine) > 1 and not mine <= self._multiplied(m):
                    names -= mine
        return names if len(names) > 1 else set()

    def _multiplied(self, m: Map) -> set[str]:
        """The relations of one row that a map can take together."""
        kept = self.program.kept.get(m.name)
        return {n for p in (kept and kept.products) or () for n in p.factors}

    def round_together(self, maps: Iterable[Map], single: set[str]) -> None:
        """The statements of relations of one row each, in one round: none looks up what another changes."""
        statements: list[Statement] = []
        for m in maps:
            mine = single.intersection(m.reads)
            if len(mine) < 2:
                statements.extend(self.program.statements(m, mine))
                continue
            for p in self.program.kept[m.name].products or ():
                if mine.isdisjoint(p.factors):
                    continue
                change = product_of([self._sides(n) for n in p.factors], p.row)
                if change.num_rows:
                    statements.append(p.statement)
                    self.changes[p.statement.drives] = Change.of(change)
                    self.working.rows = {**self.working.rows, p.statement.drives: p.row}
        self.execute(statements)

    def _sides(self, relation: str) -> pa.Table:
        """The row of a relation before, with weight -1, and after, with weight 1; both are the same if it did not change."""
        if relation in self.changes:
            return self.table(relation)
        s = self.program.strata[relation]
        found = answered_rows(self.program, s, self.working, self.session.evaluate)
        gone = [_weighed(t, -1) for t in found]
        return pa.concat_tables([schema_of(s.type).empty_table(), *gone, *found])

    def table(self, relation: str) -> pa.Table:
        """The rows of a change, together."""
        return whole(self.changes[relation], self.root, self.working)

    def execute(self, statements: list[Statement]) -> None:
        """Statements over the changes that are known, and then the merges."""
        for s in statements:
            self._arrange(s)
        rows = sum(self.changes[n].rows for n in {s.drives for s in statements})
        cores, known = threads.cores(), self.session.known_cores
        if policy.carried_here(rows, len(statements), self.small, cores, known):
            with contextlib.suppress(TooMany):  # few rows that match many entries are many
                self._merge(self._emitted(statements))
                return
        self.settle()  # a group's value has no state in which a change is missing that came before
        self.merged_here = False
        strata = [*self.program.strata.values(), *self.touching]
        self._touch(self.cluster.round(statements, self.changes, strata, self.answered))

    def _emitted(self, statements: Sequence[Statement]) -> dict[str, list[pa.Table]]:
        """What statements give here, by map; of one whose filters no row passes nothing."""
        tables: dict[str, pa.Table] = {}
        passing: dict[str, Passing] = {}
        out: dict[str, list[pa.Table]] = {}
        scalars, cores = self.session.evaluate, threads.cores()
        for s in statements:
            if s.drives not in tables:
                mine = [x for x in statements if x.drives == s.drives]
                tables[s.drives] = table = threads.in_order(self.table(s.drives), mine, cores)
                passing[s.drives] = Passing(table)
            if not passing[s.drives].some(s):
                continue
            made = threads.emitted(s, tables[s.drives], self.working, scalars, self.small, cores)
            if made.num_rows:
                out.setdefault(s.target.name, []).append(made)
        return out

    def _merge(self, emitted: Mapping[str, list[pa.Table]]) -> None:
        """Merges at once the maps that statements look up; the others later, all rounds together."""
        now = {n: tables for n, tables in emitted.items() if n in self.looked_up}
        for n, tables in emitted.items():
            if n not in self.looked_up:
                self.later.setdefault(n, []).extend(tables)
        self._add(now)

    def settle(
        self,
        level: int | None = None,
        of: Collection[str] | None = None,
        but: Collection[str] = (),
    ) -> None:
        """Merges what was put off: all of it, or of the maps up to a level, or of those that are named; but for some."""
        names = [n for n in self.later if level is None or self.program.maps[n].level <= level]
        names = [n for n in names if n not in but and (of is None or n in of)]
        self._add({n: self.later.pop(n) for n in names})

    def _add(self, emitted: Mapping[str, list[pa.Table]]) -> None:
        """Merges changes into their maps, with the strata that are answered from these."""
        mine = [
            s for n in emitted for s in (*self.routes.strata.get(n, ()), *self.besides.get(n, ()))
        ]
        strata = {s.name: s for s in mine}
        self._touch(merge(self.working, strata.values(), emitted, self.answered))

    def _touch(self, touched: Mapping[str, pa.Table]) -> None:
        for name, keys in touched.items():
            self.touched.setdefault(name, []).append(keys)

    def _arrange(self, s: Statement) -> None:
        for c in s.changes:
            if c.drives not in self.changes:  # looked up in its new version, which is the old one
                self.working.arrange_nothing(c.target)
                continue
            table = whole(self.changes[c.drives], self.root, self.working)
            emitted = run(c, table, self.working, self.session.evaluate)
            self.working.arrange(c.target, changes_of(c.target, emitted))

    # --- answers -----------------------------------------------------------------------------------------------

    def answer(self, strata: Iterable[Stratum]) -> None:
        """The changes of relations whose groups were touched."""
        kept = list[tuple[Stratum, pa.Table]]()
        for s in strata:
            if s.name not in self.answered or s.name not in self.touched:
                continue
            touched = self.touched[s.name]
            keys = (
                touched[0]
                if len(touched) == 1 and self.merged_here and self.working.steady
                else different(s.group, touched)
            )
            found, here = self._components(s, keys)
            if here and s.answers is not None:
                kept.append((s, found))
            read = s.name in self.routes.readers
            if read or s.name in self.asked:
                change = self.answers[s.name] = rows(s, found, self.session.evaluate)
                if change.num_rows and read:
                    self.changes[s.name] = Change.of(change)
        keep_answers(self.working, *kept)

    def components(self, s: Stratum, keys: pa.Table) -> pa.Table:
        """What groups are answered from, before and after, here or on Spark; kept where the stratum keeps it."""
        found, here = self._components(s, keys)
        if here and s.answers is not None:
            keep_answers(self.working, (s, found))
        return found

    def _components(self, s: Stratum, keys: pa.Table) -> tuple[pa.Table, bool]:
        """The same, and whether it was found here: what tasks find they keep themselves."""
        weights = read_for(self.working, s, keys)
        if weights.sum() > self.small:
            return self.cluster.components(s, keys, weights), False
        return components(self.working, s, keys), True

    # --- changes of views --------------------------------------------------------------------------------------

    def changes_of(self, view: View) -> pa.Table:
        """The rows of a wanted view that came and went, with weights that are not zero; as `view_rows.changed` tells them."""
        self._check_wanted(view)
        if isinstance(view.rows, Answered):
            found = self.answers.get(view.rows.stratum)
            return view_rows.row_schema(view).empty_table() if found is None else found
        return view_rows.rows_added(view, self.working)

    def parts_of(self, view: View) -> list[Moved]:
        """What changed of the parts of a wanted nested view; as `view_rows.changed_parts` tells it."""
        self._check_wanted(view)
        return view_rows.parts_added(view, self.working)

    def _check_wanted(self, view: View) -> None:
        assert view.name in self.wanted, f"nobody has asked for the changes of {view.name}"
