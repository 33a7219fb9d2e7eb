"""Punctuating: what of sources is over, which rows are late, and what becomes final of views; each commit says it anew.

A change comes before the punctuations of its own commit: a row is late if it matches what was over at the version before.
Promises are computed anew only where a fact has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.api.catalog import Catalog, SourceDef
from headwater.api.feeding import Feeding
from headwater.api.over import (
    BEGINS,
    CLOSED,
    FOUND,
    MARKS,
    TOLD,
    Over,
    closed_of,
    declared_of,
    forgotten_of,
    held_by,
    others,
    promises_of,
    promises_something,
    still_whole,
    types_of,
)
from headwater.calculus.patterns import Punctuation, Punctuations
from headwater.calculus.terms import relations
from headwater.engine.change import Change
from headwater.engine.closing import Region, region, told_now
from headwater.engine.dead import Fronted, Promised
from headwater.engine.found import came_spent, count_off, keys_over, starts_over
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.late import ASIDE, Divided, broken, divided, set_aside, values_of
from headwater.engine.ledgers import LEDGER, scan_ledger, write_down
from headwater.engine.rings import spec_of
from headwater.engine.slices import whole
from headwater.engine.working import Working
from headwater.errors import BadChange, LateRows, Purged
from headwater.language.closes import Scheme, members_of, passed, plain
from headwater.plan.bounds import Bounds, Readers, read_whole
from headwater.plan.closing import Closing
from headwater.plan.outlook import closed_through
from headwater.plan.program import WEIGHT, Map, Program, Stratum, View
from headwater.plan.promises import Promises
from headwater.plan.sessions import sessions_of
from headwater.plan.through import Through
from headwater.state.purging import Dead
from headwater.state.run import column
from headwater.state.store import Commit as StoreCommit


@dataclass(frozen=True)
class Known:
    """The promises of a program when some of its sources is closed, and something was found to be over."""

    program: Program
    told: Mapping[str, Punctuations]
    found: Mapping[str, Punctuations]
    promises: Promises[Punctuations]


@dataclass(frozen=True)
class Tied:
    """What is known of a program once: the ties of its statements, who reads its maps, and which are closed through entries."""

    sources: Mapping[str, SourceDef]
    closing: Closing
    readers: Readers
    through: Mapping[str, Through]


class Punctuating(Feeding):
    """The part of a database that knows what is over."""

    _promises_known: list[Known]
    _regions: dict[str, tuple[Promises[Punctuations], Region]]
    _tied_known: Tied | None = None
    _dead_known: tuple[Program, tuple[Any, Any], Mapping[str, Dead]] | None = None

    def _is_over(self, over: Over) -> None:
        """What a commit left over is what is over at the version that the handle is at now; what is dead then may go."""
        self._over_known = self.version, over
        self._tell_dead()

    def _promises_something(self) -> bool:
        """Whether any source can be over, is, or lasts."""
        return bool(self.over.closed) or promises_something(self.catalog)

    # --- promises ----------------------------------------------------------------------------------------------------

    def _promises(self, over: Over) -> Promises[Punctuations]:
        """The promises of all relations and maps when something is over; those before a commit and after it are known."""
        for made in self._promises_known:
            if made.program is self.program and (made.told, made.found) == (
                over.closed,
                over.found,
            ):
                return made.promises
        return self._knows(over.closed, over.found)

    def _knows(
        self, closed: Mapping[str, Punctuations], found: Mapping[str, Punctuations]
    ) -> Promises[Punctuations]:
        tied = self._tied()
        promises = promises_of(tied.closing, self.catalog, closed, found, tied.through)
        made = Known(self.program, closed, found, promises)
        self._promises_known = [*self._promises_known[-1:], made]
        return promises

    def _tied(self) -> Tied:
        """What is known of the program, found once."""
        known, sources = self._tied_known, self.catalog.sources
        if known is None or known.closing.program is not self.program or known.sources != sources:
            closing = Closing(self.program, self.session.zone)
            through = closed_through(closing, declared_of(self.catalog))
            known = self._tied_known = Tied(sources, closing, Readers(self.program), through)
        return known

    def _bounds(self, over: Over) -> Bounds[Punctuations]:
        """What of maps nobody will read again when something is over."""
        return self._with(self._promises(over))

    def _with(self, promises: Promises[Punctuations]) -> Bounds[Punctuations]:
        return Bounds(promises, *held_by(self.catalog), self._tied().readers)

    def _tell_dead(self) -> None:
        """Tells the store what nobody will read again, if that is more than it knows; entries go when it rewrites runs."""
        writer, over, known = self._writer, self.over, self._dead_known
        if writer is None or not self._promises_something():
            return
        told = over.closed, over.found
        if known is None or known[0] is not self.program or known[1] != told:
            made = self._predicates(over)
            known = self._dead_known = self.program, told, made
        if writer.dead is not known[2]:
            writer.dead = known[2]

    def _predicates(self, over: Over) -> dict[str, Dead]:
        """What the store is told of each map: what is dead, and of bags that are read from an end what is dominated."""
        bounds, out = self._bounds(over), dict[str, Dead]()
        for name, m in self.program.maps.items():
            dead, fronts = bounds.dead(m), bounds.fronts(m)
            lasting = bounds.behind(m)
            if lasting:
                out[name] = Fronted(dead, spec_of(m), fronts, lasting)
            elif dead:
                out[name] = Promised(dead)
        for source in self.catalog.sources.values():
            if source.sequences is not None and (gone := forgotten_of(source, over.closed)):
                out[source.sequences.name] = Promised(gone)
        return out

    def dead(self) -> dict[str, Punctuations]:
        """The entries of maps that nobody will read again; maps that have none are left out."""
        bounds = self._bounds(self.over)
        found = {n: bounds.dead(m) for n, m in self.program.maps.items()}
        return {n: p for n, p in found.items() if p}

    # --- changes -----------------------------------------------------------------------------------------------------

    def _in_time(
        self, working: Working, staged: dict[str, Change], version: int
    ) -> tuple[dict[str, Change], dict[str, int]]:
        """A change without its late rows, which are refused, set aside or dropped; and how many there are, by source."""
        out, counts, over = dict(staged), dict[str, int](), self.over
        for name, change in staged.items():
            source = self.catalog.owning(name)
            told = bool(source.schemes) or source.name in over.closed
            if not change.rows or not (told or source.append_only):
                continue
            table = whole(change, self.path, working)
            if source.append_only:
                _check_only_added(source, table)
            if not told:
                continue
            closed = closed_of(source, over.closed)
            found = divided(table, closed)  # rows of inner relations have the key of their owner
            if name == source.name:
                _check_members(source, found.in_time)
            if not found.late.num_rows:
                continue
            if source.lateness == "refuse":
                raise _late_rows(source, name, found, closed, over.since.get(source.name, version))
            if source.lateness == "aside":
                set_aside(working, name, source.row, found.late, closed, version)
            counts[name] = found.count
            out[name] = Change.of(found.in_time)
        return out, counts

    def _close(
        self,
        commit: StoreCommit,
        working: Working,
        staged: Mapping[str, Change],
        points: Mapping[str, Punctuation],
        over: Over | None = None,
    ) -> tuple[Over, dict[str, pa.Table]]:
        """Takes in what is over after a change: rows that become final go to ledgers. Gives what is over, and the rows.

        `over` is what was over before, if something of the same commit was closed already.
        """
        over, catalog = over or self.over, self.catalog
        if not points and not self._promises_something():
            return over, {}
        closed, since, marks = dict(over.closed), dict(over.since), dict(over.marks)
        for name, source in catalog.sources.items():
            said = [points[name]] if name in points else []
            change = staged.get(name)
            if change is not None and change.rows and any(s.in_order for s in source.schemes):
                table = whole(change, self.path, working)
                moved = _moved(source, marks.get(name), table)
                if moved != marks.get(name):
                    marks[name] = moved
                    commit.set(f"{MARKS}{name}", _as_facts(moved))
                    types = types_of(source.row)
                    for scheme, greatest in zip(source.schemes, moved, strict=True):
                        said.extend(passed(scheme, greatest, types) if scheme.in_order else ())
            if not said:
                continue
            before = closed.get(name, Punctuations((), types_of(source.row)))
            after = before.add(*said)
            if after != before:
                closed[name], since[name] = after, commit.version
                commit.set(f"{CLOSED}{name}", {"set": after.to_data(), "version": commit.version})
        was = now = self._promises(over)
        found = over.found
        came = any(came_spent(t, working, was.spent(t)) for t in was.through.values())
        if came or closed != over.closed:
            found = dict(over.found)
            now = self._knows(closed, found)
            bounds, strata = self._with(now), self.program.strata.values()
            self._find(commit, working, was, bounds, found, [*self.program.maps.values(), *strata])
            self._count_off(working, was, bounds, strata)
        told, final = self._told(commit, working, was, now, over)
        _create(commit, working)
        return Over(closed, since, marks, told, over.begins, found), final

    def _find(
        self,
        commit: StoreCommit,
        working: Working,
        was: Promises[Punctuations] | None,
        now: Bounds[Punctuations],
        found: dict[str, Punctuations],
        of: Iterable[Stratum | Map],
    ) -> None:
        """Adds what entries of strata and maps say is over to what was `found`; all of it if there were no promises before.

        What stands upon others is asked after them: promises are computed from what was found so far.
        """
        none, promises = Punctuations.NONE, now.promises
        for x in sorted(of, key=lambda x: (x.level, isinstance(x, Stratum))):
            before = after = found.get(x.name, none)
            if isinstance(x, Map) and x.name in promises.through:
                t = promises.through[x.name]
                moved = Region(none if was is None else was.spent(t), promises.spent(t), False)
                after = keys_over(t, x, working, moved, before)
            elif isinstance(x, Stratum) and x.ranked is not None and sessions_of(x) is not None:
                moved = Region(none if was is None else was.rows(x), promises.rows(x), False)
                if moved.before != moved.after:
                    dead = none if was is None else was.left_behind(x)
                    at = working.now(x.ranked.map.name)
                    after = starts_over(x, at, moved, before, dead)
            if after != before:
                found[x.name] = after
                commit.set(f"{FOUND}{x.name}", after.to_data())

    def _count_off(
        self,
        working: Working,
        was: Promises[Punctuations] | None,
        now: Bounds[Punctuations],
        of: Iterable[Stratum],
    ) -> None:
        """Takes rows of sessions that are over off the counts that are looked at for open rows only."""
        for s in of:
            before = Punctuations.NONE if was is None else was.left_behind(s)
            after = now.promises.left_behind(s)
            if s.ranked is not None and after != before and now.counts_open(s.group) == s:
                count_off(working, s.group, s.ranked.map, Region(before, after, False))

    def _told(
        self,
        commit: StoreCommit,
        working: Working,
        was: Promises[Punctuations],
        now: Promises[Punctuations],
        over: Over,
    ) -> tuple[dict[str, Punctuations], dict[str, pa.Table]]:
        """Moves rows that are final now to the ledgers of their views."""
        told, final = dict(over.told), dict[str, pa.Table]()
        for name, view in self.program.views.items():
            before = told.get(name, Punctuations.NONE)
            moved = self._region(was, now, view, before)
            if moved.after == before and not (moved.grows and before):
                continue
            found = told_now(self.program, view, working, moved, self.session.evaluate)
            if self._write_down(commit, working, view, found):
                final[name] = found
            if moved.after != before:
                told[name] = moved.after
                commit.set(f"{TOLD}{name}", moved.after.to_data())
        return told, final

    def _region(
        self,
        was: Promises[Punctuations],
        now: Promises[Punctuations],
        view: View,
        before: Punctuations,
    ) -> Region:
        """What becomes final of a view; remembered, for most commits close nothing."""
        never = self.over.begins.get(view.name, Punctuations.NONE)
        if was is not now:
            return region(was, now, view, before, never)
        known = self._regions.get(view.name)
        if known is None or known[0] is not now or known[1].before is not before:
            known = self._regions[view.name] = now, region(was, now, view, before, never)
        return known[1]

    def _write_down(
        self, commit: StoreCommit, working: Working, view: View, found: pa.Table
    ) -> bool:
        """Puts rows that are final into the ledger of their view; whether there are any."""
        if not found.num_rows:
            return False
        weights = np.asarray(column(found, WEIGHT))
        assert (weights > 0).all(), f"a row of {view.name} that is final was taken back"
        write_down(working, view, found, commit.version)
        _create(commit, working)
        return True

    def _tell_first(
        self,
        commit: StoreCommit,
        working: Working,
        views: Collection[View],
        becomes: tuple[Catalog, Program],
        replaced: Collection[str] = (),
    ) -> None:
        """What is final of views that are new, or planned anew; what their ledgers have already is not told again.

        Of views that are `replaced`, what was hidden says nothing of the entries that they have now.
        """
        catalog, program = becomes
        over = self.over
        if not over.closed and not promises_something(catalog):
            return
        found = dict(over.found)
        promises = promises_of(Closing(program, self.session.zone), catalog, over.closed, found)
        new = {n for n, m in program.maps.items() if not working.refs.get(n)}
        strata = [
            s
            for s in program.strata.values()
            if s.name not in self.program.strata or any(m.name in new for m in s.bags)
        ]
        maps = [m for n, m in program.maps.items() if n not in self.program.maps]
        bounds = Bounds(promises, *held_by(catalog))
        self._find(commit, working, None, bounds, found, [*maps, *strata])
        self._count_off(working, None, bounds, strata)
        for view in views:
            if view.name in replaced:
                commit.set(f"{TOLD}{view.name}", None)
                commit.set(f"{BEGINS}{view.name}", None)
            never = self._begins(commit, view, becomes, view.name in replaced)
            moved = region(promises, promises, view, Punctuations.NONE, never)
            if moved.after or view.name in replaced:
                self._tell_at_once(commit, working, view, moved, program)

    def _tell_at_once(
        self, commit: StoreCommit, working: Working, view: View, moved: Region, program: Program
    ) -> None:
        found = told_now(program, view, working, moved, self.session.evaluate)
        known = list(scan_ledger(view, working))
        gone = [_negative(t) for t in known]
        new = consolidated(pa.concat_tables([found, *gone]))
        if pc.any(pc.less(column(new, WEIGHT), 0)).as_py():
            raise Purged(
                f"rows of `{view.name}` were told to be final, and its new plan does not say so",
                hint="drop the view and define it again",
            )
        self._write_down(commit, working, view, new)
        if moved.after:
            commit.set(f"{TOLD}{view.name}", moved.after.to_data())

    def _begins(
        self,
        commit: StoreCommit,
        view: View,
        becomes: tuple[Catalog, Program],
        replaced: bool = False,
    ) -> Punctuations:
        """What of a new view is never shown, as rows that are kept no more may have reached it; nothing if there are none."""
        known = self.over.begins.get(view.name)
        if known is not None and not replaced:
            return known
        catalog, program = becomes
        names = [r.name for r in relations(catalog.whole(view.name))]
        closing = Closing(program, self.session.zone)
        promises = still_whole(closing, catalog, self.over, names)
        if promises is None:
            return Punctuations.NONE
        whole = promises.over(view)
        if not whole:
            purged = [
                n for n in names if n in self.over.closed and catalog.sources[n].retain == "open"
            ]
            raise Purged(
                f"rows of `{purged[0]}` that `{view.name}` would need are over, and are kept no more",
                hint="define the view before rows are closed, declare the source with retain=True, or show the columns "
                "by which it is closed",
            )
        never = others(whole)
        commit.set(f"{BEGINS}{view.name}", never.to_data())
        return never

    def _spare(self, maps: set[str]) -> None:
        """Nothing of some maps goes until the next commit says what is dead."""
        assert self._writer is not None
        self._writer.spare(*maps)
        self._dead_known = None

    def _lacking(self, program: Program, name: str) -> set[str]:
        """The maps that a new view reads whole, and of which some entries may be gone; they are to be filled again."""
        before = self.program
        if not self._promises_something():
            return set()
        held, open_only = held_by(self.catalog)
        forgets, promises = set(self._predicates(self.over)), self._promises(self.over)
        # Counts from which rows were taken off count open rows only.
        forgets |= {s.group.name for s in before.strata.values() if promises.left_behind(s)}
        lacking = read_whole(program, before, name, forgets) - set(held)
        for n in lacking:
            purged = open_only.intersection(program.maps[n].reads, self.over.closed)
            if purged:
                raise Purged(
                    f"`{name}` would share a map with other views, from which rows of `{min(purged)}` are gone",
                    hint="define views before rows are closed, or declare the source with retain=True",
                )
        return lacking


def _create(commit: StoreCommit, working: Working) -> None:
    """Makes the maps of ledgers and of late rows that have their first entries."""
    for name in working.added:
        new = name not in commit.base.maps and name not in commit.change.created
        if name.startswith((LEDGER, ASIDE)) and new:
            commit.create(working.spec(name))


def _negative(table: pa.Table) -> pa.Table:
    """Rows as taken back."""
    place = table.schema.get_field_index(WEIGHT)
    return table.set_column(place, WEIGHT, pc.negate(column(table, WEIGHT)))


# --- watermarks --------------------------------------------------------------------------------------------------------


def _moved(
    source: SourceDef, before: list[dict[Any, Any]] | None, table: pa.Table
) -> list[dict[Any, Any]]:
    """The greatest value of each member of each watermark, after the rows of a change."""
    came = table.filter(pc.greater(column(table, WEIGHT), 0))
    out = []
    for i, scheme in enumerate(source.schemes):
        greatest = dict(before[i]) if before is not None and i < len(before) else {}
        if scheme.in_order and came.num_rows:
            for member, value in _greatest(came, scheme):
                if value is not None and (member not in greatest or value > greatest[member]):
                    greatest[member] = value
        out.append(greatest)
    return out


def _greatest(table: pa.Table, scheme: Scheme) -> list[tuple[Any, Any]]:
    (name,) = scheme.columns
    values = column(table, name)
    if pa.types.is_floating(values.type):
        # What is no number, or infinite, says nothing of how far a source is: one such row would close all others.
        values = pc.if_else(pc.is_finite(values), values, None)
    if scheme.by is None:
        return [(None, _value(pc.max(values).as_py()))]
    found = (
        pa.table({"m": column(table, scheme.by), "v": values})
        .group_by("m")
        .aggregate([("v", "max")])
    )
    pairs = zip(found.column("m").to_pylist(), found.column("v_max").to_pylist(), strict=True)
    return [(_value(m), _value(v)) for m, v in pairs]


def _value(v: Any) -> Any:
    """A value as the calculus has it."""
    if isinstance(v, datetime) and v.tzinfo is not None:
        return v.astimezone(UTC).replace(tzinfo=None)
    return v


def _as_facts(marks: list[dict[Any, Any]]) -> list[list[list[Any]]]:
    return [[[plain(m), plain(v)] for m, v in greatest.items()] for greatest in marks]


# --- messages ----------------------------------------------------------------------------------------------------------


def _check_only_added(source: SourceDef, table: pa.Table) -> None:
    mask = pc.less(column(table, WEIGHT), 0)
    if pc.any(mask).as_py():
        row = table.filter(mask).slice(0, 1).drop_columns([WEIGHT]).to_pylist()[0]
        raise BadChange(
            f"`{source.name}` is append-only, and a row is deleted: {row}",
            hint="declare the source without append_only=True, or give no deletions for it",
        )


def _check_members(source: SourceDef, table: pa.Table) -> None:
    """Raises for a row of a member that a watermark does not list, which could be closed without having been waited for."""
    for scheme in source.schemes:
        if scheme.by is None or scheme.of is None:
            continue
        values = column(table, scheme.by)
        listed = members_of(scheme, types_of(source.row)[scheme.by])
        known = pc.is_in(values, pa.array(listed, values.type))
        mask = pc.and_(pc.invert(known), pc.greater(column(table, WEIGHT), 0))
        if pc.any(mask).as_py():
            row = values_of(table.filter(mask), source.row, 0)
            raise BadChange(
                f"a row for `{source.name}` is of a member that `of` of its watermark does not list, "
                f"`{scheme.by}` is {row[scheme.by]!r}: {row}",
                hint="nothing was applied; declare the source again with that member in `of` as well",
            )


def _late_rows(
    source: SourceDef, name: str, found: Divided, closed: Punctuations, version: int
) -> LateRows:
    row = values_of(found.late, source.relations[name], 0)
    p = broken(closed, row)
    row = {n: v for n, v in row.items() if f"{name}.{n}" not in source.relations}  # no labels
    what = "deletion" if column(found.late, WEIGHT)[0].as_py() < 0 else "row"
    empty = [n for s in source.schemes for n in s.columns if row[n] is None]
    if empty:
        return LateRows(
            f"a {what} for `{name}` has NULL in `{empty[0]}`, by which it is closed: {row}",
            hint=f"no punctuation would ever close it: give `{empty[0]}` a value"
            + ("" if source.nested else ", or declare late='aside'"),
        )
    more = f" and {found.count - 1} more" if found.count > 1 else ""
    return LateRows(
        f"a late {what} for `{name}`{more}: {row} matches {p}, closed by version {version}"
        if p.columns
        else f"a late {what} for `{name}`{more}: {row}, and all of it was closed by version {version}",
        hint="nothing was applied; "
        + (
            "leave out the rows that are over"
            if source.nested
            else "declare late='aside' to set such rows aside, or late='drop'"
        ),
    )
