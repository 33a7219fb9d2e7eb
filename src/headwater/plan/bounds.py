"""Bounds: which entries of a map nobody will read again, so that they may go; and which maps grow for ever, and why.

An entry is *dead* when no statement can make anything of it any more (one that still finds it drops it by a filter), no
group is answered from it, and no row that is shown is read from it:

    dead(M) = ⋂ pulled(s, closed(driver of s), M's entries)     over the statements s that look M up
            ∩ the groups that are closed, and of sessions        over the strata that are answered from M
              the rows far enough before those that are open
            ∩ the rows that are final, and so in the ledger      over the views whose rows M holds
            ∩ what is closed of a source that keeps open rows    where M holds the rows of one
            ∩ nothing                                            where a loop in diffuse mode is kept by M
            ∩ what lasts of M                                    where keys of others are closed through it (`through`)

Who changes M has no part in it: the left side of a join goes by the promises of the right one.

Of a bag in order that is read from an end (`fronts`: min, max, the first n of a group) entries are *dominated*, and may go,
where as many as are read stand before them and last, though the group is open.

The counts of rows of a stratum of sessions are looked at to see whether there are any: where nobody else reads them, rows that
are dead are taken off (`counts_open`), so that groups without open rows leave.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Generic, TypeVar

from headwater.plan.analysis import kept_for
from headwater.plan.program import (
    ENDS,
    Lookup,
    Loop,
    Map,
    Program,
    Statement,
    Stored,
    Stratum,
    View,
)
from headwater.plan.promises import Promises, looks_back
from headwater.plan.sessions import sessions_of

P = TypeVar("P")


@dataclass(frozen=True)
class Reader(Generic[P]):
    """Somebody who reads a map: a statement, a stratum, a view, a loop, or the source whose rows it holds; and what it needs no more."""

    what: Statement | Stratum | View | Loop | str
    dead: P


@dataclass(frozen=True)
class Front:
    """The first rows of each group of a bag, or the last: nobody reads what stands behind as many that are lasting.

    With `over` it is rows that are over which only those after them look back to: all but the last of them may go.
    """

    rows: int
    last: bool
    over: bool = False


class Readers:
    """Who reads each map of a program: statements that look it up, strata that are answered from it, views whose rows it has."""

    def __init__(self, program: Program):
        self.statements = looked_up_by(program)
        self.strata: dict[str, list[Stratum]] = {}
        for s in program.strata.values():
            for m in s.maps:
                self.strata.setdefault(m.name, []).append(s)
        self.shown: dict[str, list[View]] = {}
        for v in program.views.values():
            for m in v.maps:
                self.shown.setdefault(m.name, []).append(v)
        near = [x for x in program.loops.values() if x.diffuse is not None]
        self.near = {m.name: loop for loop in near for m in kept_for(program, loop)}
        """The maps that loops in diffuse mode are kept by, and look up in every increment."""


class Bounds(Generic[P]):
    """The entries of each map that are dead, by promises.

    `held` are the maps that hold rows of sources, with the source; `open_only` the sources that keep open rows only.
    `known` are the readers of the program's maps, if they were found before.
    """

    def __init__(
        self,
        promises: Promises[P],
        held: Mapping[str, str],
        open_only: frozenset[str] = frozenset(),
        known: Readers | None = None,
    ):
        self.promises, self.program = promises, promises.program
        self.held, self.open_only = held, open_only
        found = Readers(self.program) if known is None else known
        self.statements, self.strata, self.shown = found.statements, found.strata, found.shown
        self.near = found.near

    def dead(self, m: Map) -> P:
        """The entries of a map that nobody will read again."""
        a = self.promises.algebra
        readers = list(self.readers(m))
        return reduce(a.meet, (r.dead for r in readers), a.everything) if readers else a.none

    def readers(self, m: Map) -> Iterator[Reader[P]]:
        """Everybody who reads a map."""
        a, promises = self.promises.algebra, self.promises
        for s, place in self.statements.get(m.name, ()):
            ties = promises.closing.read(s, place)
            dead = a.pulled(ties, promises.relation(s.drives).closed)
            if promises.waits(s, place):
                dead = a.meet(dead, promises.count(m, 0)[1])
            yield Reader(s, dead)
        for stratum in self.strata.get(m.name, ()):
            groups = promises.groups(stratum).closed
            if stratum.ranked is not None and m == stratum.ranked.map:
                groups = a.join(groups, promises.left_behind(stratum))
            if m == stratum.answers:
                groups = a.renamed(
                    groups, dict(zip(stratum.group.columns, m.columns, strict=False))
                )
            yield Reader(stratum, groups)
        for view in self.shown.get(m.name, ()):
            whole = isinstance(view.rows, Stored) and m.name in self.program.kept
            yield Reader(view, promises.final(view) if whole else a.none)
        source = self.held.get(m.name)
        if source is not None:
            keeps = source not in self.open_only or not m.fields
            yield Reader(source, a.none if keeps else self._of_source(m))
        if m.name in self.program.checks:
            yield Reader(m.note, a.none)
        if m.name in self.near:
            yield Reader(self.near[m.name], a.none)

    def fronts(self, m: Map) -> tuple[Front, ...]:
        """How much of each group of a bag is read from which end, where that is all that anybody reads of it."""
        strata = self.strata.get(m.name, [])
        others = self.statements.get(m.name) or self.shown.get(m.name) or m.name in self.held
        if not strata or others or not m.order:
            return ()
        if all(s.ranked and s.ranked.map == m and looks_back(s) for s in strata):
            reach = [s.ranked.reach for s in strata if s.ranked]
            if any(r.kind != "local" for r in reach):
                return ()
            return (Front(max(r.before for r in reach), True, over=True),)
        found: list[Front] = []
        for s in strata:
            ends = [ENDS.get(b.function) for b in s.from_bags if b.map == m]
            r = s.ranked if s.ranked is not None and s.ranked.map == m else None
            whole = m in (s.group, s.answers) or any(d.map == m for d in s.distinct)
            if whole or None in ends or (r is not None and r.limit is None):
                return ()
            found += [Front(1, e[0]) for e in ends if e is not None]
            found += [Front(r.limit + r.offset, False)] if r is not None and r.limit else []
        return tuple(dict.fromkeys(found))

    def counts_open(self, m: Map) -> Stratum | None:
        """The stratum of sessions whose open rows a map counts, if it counts no others: that of the longest gap.

        What is dead for it is dead for those of shorter gaps.
        """
        strata = self.strata.get(m.name, [])
        others = self.statements.get(m.name) or self.shown.get(m.name) or m.name in self.held
        if not strata or others or m.name in self.program.checks or len(m.ring) > 1:
            return None
        found = [(x.gap, s.name) for s in strata if s.group == m and (x := sessions_of(s))]
        bags = {s.ranked.map.name for s in strata if s.ranked is not None}
        if len(found) < len(strata) or len(bags) > 1:
            return None
        return self.program.strata[max(found)[1]]

    def behind(self, m: Map) -> P:
        """Which entries of a bag that is read from an end count as standing before others."""
        a, fronts = self.promises.algebra, self.fronts(m)
        if not fronts:
            return a.none
        if not fronts[0].over:
            return self.promises.count(m, 0)[1]
        return reduce(a.meet, (self.promises.rows(s) for s in self.strata[m.name]), a.everything)

    def _of_source(self, m: Map) -> P:
        """What is closed of the relation whose rows a map holds, in terms of the map's columns."""
        closed = self.promises.relation(m.reads[0]).closed
        return self.promises.algebra.renamed(closed, dict(zip(m.fields, m.columns, strict=True)))


def looked_up_by(program: Program) -> dict[str, list[tuple[Statement, int]]]:
    """The statements that look up each map, with the place of the step; those of filling run when a map is made only."""
    out: dict[str, list[tuple[Statement, int]]] = {}
    for kept in program.kept.values():
        every = [s for found in kept.changes.values() for s in found]
        # Terms of several changes may look up what those of one do not.
        every += [*(kept.at_once or ()), *(p.statement for p in kept.products or ())]
        every += [c for s in every for c in s.changes]
        for s in every:
            for place, step in enumerate(s.steps):
                if (
                    isinstance(step, Lookup)
                    and step.version != "change"
                    and step.into in program.maps
                ):
                    out.setdefault(step.into, []).append((s, place))
    return out


def read_whole(program: Program, before: Program, view: str, forgets: Collection[str]) -> set[str]:
    """The maps that there were before which a new view reads: when its maps are filled, and by their statements ever after.

    What others will not read again of them it may, so that those that forget something are filled again. A loop whose
    groups are, is gone through again as a whole.
    """
    out: set[str] = set()
    seen: set[str] = set()
    groups = {
        m.name: x for x in program.loops.values() for n in x.strata for m in program.strata[n].maps
    }
    todo = [n for n in program.kept if n not in before.maps]
    strata = [program.views[view].stratum]
    todo += [m.name for m in program.views[view].maps]
    while todo or strata:
        while strata:
            name = strata.pop()
            if name in program.strata:
                todo += [m.name for m in program.strata[name].maps]
        n = todo.pop() if todo else None
        if n is None or n in seen:
            continue
        seen.add(n)
        if n in before.maps:
            out.add(n)
        kept = program.kept.get(n)
        if kept is not None:
            # A map that there was before is filled again, and looked up by others as it was.
            todo += [r for s in kept.filling for r in s.reads] if n in before.maps else kept.reads
            strata = [s.drives for s in kept.filling]
        loop = groups.get(n)
        if loop is not None and n in out and n in forgets:
            todo += [*loop.maps, *(r for x in loop.maps for r in program.kept[x].reads)]
            strata += program.around(loop)
    again = [x for n, x in groups.items() if n in out and n in forgets]
    return out.intersection(forgets).union(n for x in again for n in x.maps)
