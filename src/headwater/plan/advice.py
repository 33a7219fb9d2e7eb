"""Bounds of a view as data: what of it stays small, what grows and why, and what would do.

A view is *unblocked* when every map that it needs, but for those of sources, is bounded and its rows become final.

Advice is found by trial: a *measure* is one thing more that may be declared of a source, and a set of measures is given only
if the outlook with it has what is wanted. Promises only grow with measures, so that it is enough to look at few sets:

    a source needs a measure      if the goal is not met though all the others never change
    a measure of it may help      if the goal is met with it when all the others never change

Of the sets that take one such measure of each source that needs one, those that meet the goal are given; before them a key
that is enough by itself, for groups that are closed through entries. What ends a source
(it never changes, or is closed by a column that a filter fixes) is given only where nothing else would do, and never of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations, islice, product

from headwater.plan.analysis import maps_of
from headwater.plan.bounds import Reader, Readers
from headwater.plan.closing import Closing
from headwater.plan.column_names import ColumnNames
from headwater.plan.outlook import Declared, Needs, Outlook, Sources, State
from headwater.plan.program import Lookup, Loop, Map, Statement, Stratum, View
from headwater.plan.promises import Scheme
from headwater.plan.through import rows_of

MOST_TRIED = 200
"""How many sets of measures are tried for one goal."""
MOST_GIVEN = 3
"""How many of those that would do are said."""
UNORDERED = ("float", "double", "void")
"""Types of columns that nobody closes a source by."""


@dataclass(frozen=True)
class Measure:
    """One thing more that may be declared of a source."""

    source: str
    what: str
    """`closes`, `key`, `append_only`, `static` or `retain`."""
    column: str = ""

    def taken(self, d: Declared) -> Declared:
        """A source with it."""
        match self.what:
            case "closes":
                return replace(d, closes=(*d.closes, (self.column,)))
            case "key":
                return replace(d, key=(self.column,))
            case "append_only":
                return replace(d, append_only=True)
            case "retain":
                return replace(d, retain="open")
        return replace(d, static=True, append_only=True)

    def __str__(self) -> str:
        match self.what:
            case "closes" | "key":
                return f'{self.what}="{self.column}" on {self.source}'
            case "retain":
                return f'retain="open" on {self.source}'
        return f"{self.what}=True on {self.source}"


Measures = tuple[Measure, ...]
Goal = Callable[[Outlook], bool]


@dataclass(frozen=True)
class MapBound:
    """What becomes of a map: when its entries leave, or who blocks, and what would do."""

    name: str
    what: str
    state: State
    leaves: Needs | None = None
    first: int = 0
    """Of a front: how many entries of a group stay."""
    over: bool = False
    """Of a front: whether it is the last entries of those that are over, beside those that are open."""
    blocked: tuple[str, ...] = ()
    would_do: tuple[Measures, ...] = ()


@dataclass(frozen=True)
class ViewBounds:
    """The bounds of a view."""

    view: str
    sources: tuple[tuple[str, str], ...]
    """The sources that it reads, each with what is declared of it."""
    verdict: str
    final: Needs | None
    maps: tuple[MapBound, ...]
    not_final: tuple[str, ...] = ()
    would_be_final: tuple[Measures, ...] = ()
    would_do: tuple[Measures, ...] = ()
    """What would unblock all of it."""

    @property
    def growing(self) -> frozenset[str]:
        """The maps that grow for ever."""
        return frozenset(m.name for m in self.maps if m.state in ("unbounded", "front"))


@dataclass
class Advice:
    """The bounds of the views of a program; outlooks are computed once."""

    closing: Closing
    sources: Sources
    names: ColumnNames = field(init=False)
    readers: Readers = field(init=False)
    _outlooks: dict[frozenset[Measure], Outlook] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = ColumnNames(self.closing.program)
        self.readers = Readers(self.closing.program)

    def with_(self, *measures: Measure) -> Outlook:
        """The outlook with some measures more."""
        key = frozenset(measures)
        if key not in self._outlooks:
            sources = dict(self.sources)
            for m in measures:
                sources[m.source] = m.taken(sources[m.source])
            self._outlooks[key] = Outlook(self.closing, sources, self.readers)
        return self._outlooks[key]

    # --- a view ------------------------------------------------------------------------------------------------------

    def of(self, view: View) -> ViewBounds:
        """The bounds of a view."""
        now, maps = self.with_(), maps_of(self.closing.program, view)
        read = self.read_by(maps)
        final = now.final(view)
        growing = [m for m in maps if now.grows(m)]
        forgets = [m for m in maps if now.state(m) == "bounded"]
        verdict = "unblocked" if not growing and final is not None else "partly unblocked"
        if final is None and not forgets and (growing or not maps):
            verdict = "blocked"

        def unblocked(o: Outlook) -> bool:
            return o.final(view) is not None and not any(o.grows(m) for m in maps)

        return ViewBounds(
            view.name,
            tuple((n, self.sources[n].said) for n in read),
            verdict,
            final,
            tuple(self.bound(m, maps) for m in maps),
            () if final is not None else self.not_final(view),
            () if final is not None else self.meets(lambda o: o.final(view) is not None, maps),
            () if verdict == "unblocked" else self.meets(unblocked, maps),
        )

    def read_by(self, maps: list[Map]) -> list[str]:
        """The sources that some maps are computed from."""
        program, found, todo = self.closing.program, set[str](), [r for m in maps for r in m.reads]
        while todo:
            r = todo.pop()
            if r not in found:
                found.add(r)
                stratum = program.strata.get(r)
                todo += [x for m in stratum.maps for x in m.reads] if stratum else []
        return [n for n in self.sources if n in found]

    def bound(self, m: Map, maps: list[Map]) -> MapBound:
        """What becomes of a map, which is one of those of a view."""
        now = self.with_()
        state, what = now.state(m), self.said(m)
        match state:
            case "bounded":
                return MapBound(m.name, what, state, now.leaves(m))
            case "fixed":
                return MapBound(m.name, what, state)
            case "ends":
                return MapBound(m.name, what, state, now.ends(m))
            case "kept":
                source = now.bounds.held[m.name]
                opened = Measure(source, "retain")

                def forgets(o: Outlook) -> bool:
                    return o.state(m) == "bounded"

                whole = self.sources[source].whole or not m.fields
                would = () if whole else self.meets(forgets, maps, (opened,))
                return MapBound(m.name, what, state, now.leaves(m, but_source=True), would_do=would)
        fronts = now.bounds.fronts(m) if state == "front" else ()
        return MapBound(
            m.name,
            what,
            state,
            first=sum(f.rows for f in fronts),
            over=any(f.over for f in fronts),
            blocked=tuple(dict.fromkeys(self.blocks(r) for r in now.blocked(m))),
            would_do=self.meets(lambda o: not o.grows(m), maps),
        )

    def said(self, m: Map) -> str:
        """What a map is, by its columns."""
        note = m.note or "looked up by deltas"
        columns = ", ".join(self.names.of(m).values())
        return f"{note}, by ({columns})" if columns else note

    # --- why ---------------------------------------------------------------------------------------------------------

    def blocks(self, reader: Reader[frozenset[Scheme]]) -> str:
        """Why a reader needs the entries of a map for ever."""
        match reader.what:
            case Statement():
                return self._looks_up(reader.what)
            case Stratum():
                return self.not_closed(reader.what)
            case View(name=name):
                return f"rows of {name} may be taken back"
            case Loop():
                return "a loop in diffuse mode reads it in every increment"
        return f"{reader.what} is read after every increment"

    def _looks_up(self, s: Statement) -> str:
        scope = self.names.scope(s)
        probes = [x.keys for x in s.steps if isinstance(x, Lookup) and x.version != "change"]
        by = ", ".join(dict.fromkeys(scope.get(k, k) for keys in probes for k in keys))
        found = f"Δ{self.called(s.drives)} looks up " + (f"by {by}" if by else "all of it")
        return f"{found}: {self._open(s)}"

    def not_closed(self, s: Stratum) -> str:
        """Why the groups of a stratum are not closed."""
        now, out = self.with_(), dict[str, None]()
        loop = now.promises.inside.get(s.name)
        if loop is not None:
            read = ", ".join(sorted(self.called(r) for r in self.closing.program.around(loop)))
            return f"a loop over {read} is over when all of that is"
        for m in now.open_groups(s):
            kept = self.closing.program.kept.get(m.name)
            for st in [x for found in kept.changes.values() for x in found] if kept else ():
                pulled = now.promises.algebra.pulled(
                    self.closing.emitted(st), now.promises.relation(st.drives).closed
                )
                if not pulled:
                    out[self._open(st)] = None
        columns = ", ".join(self.names.of(s.group).values())
        by = f"groups by ({columns}) stay open" if columns else "its one group stays open"
        return ": ".join([by, *([", ".join(out)] if out else [])])

    def _open(self, s: Statement) -> str:
        """Why rows that drive a statement may come for ever."""
        found = self.with_().promises.relation(s.drives).closed
        if found:
            of = sorted({c.of for scheme in found for c in scheme})
            return f"which does not say {' or '.join(of)}"
        stratum = self.closing.program.strata.get(s.drives)
        if stratum is None:
            return f"{s.drives} is never closed"
        closed = self.with_().promises.groups(stratum).closed
        if closed:  # its groups are, and its rows do not tell which
            names = self.names.of(stratum.group)
            of = sorted({names[c.name] for scheme in closed for c in scheme if c.name})
            return f"which does not say {' or '.join(of)}"
        return self.not_closed(stratum)

    def called(self, relation: str) -> str:
        """What a relation is called: the rows of a stratum by the view that shows them."""
        views = self.closing.program.views.values()
        return next((v.name for v in views if v.stratum == relation), relation)

    def not_final(self, view: View) -> tuple[str, ...]:
        """Why the rows of a view are never final."""
        program, now = self.closing.program, self.with_()
        if view.stratum is not None:
            return (self.not_closed(program.strata[view.stratum]),)
        out = dict[str, None]()
        for m in view.maps:
            kept = program.kept.get(m.name)
            if kept is None:
                out["it is computed anew at every increment"] = None
                continue
            for s in [x for found in kept.changes.values() for x in found]:
                lasting = now.promises.relation(s.drives).lasting
                if not now.promises.algebra.pulled(self.closing.emitted(s), lasting):
                    out[f"Δ{self.called(s.drives)}: {self._open(s)}"] = None
        return tuple(out) or ("its rows are nested, and are final with all their inner rows only",)

    # --- trials ------------------------------------------------------------------------------------------------------

    def meets(self, goal: Goal, maps: list[Map], with_: Measures = ()) -> tuple[Measures, ...]:
        """Sets of measures that meet a goal over some maps, beside some that are taken anyway."""
        changing = [n for n in self.read_by(maps) if not self.sources[n].static]

        def alone(source: str, *measures: Measure) -> bool:
            others = [Measure(n, "static") for n in changing if n != source]
            return goal(self.with_(*measures, *with_, *others))

        needed = [n for n in changing if not alone(n)]
        helping = [[m for m in self.possible(n) if alone(n, m)] for n in needed]
        tried = islice(product(*helping), MOST_TRIED) if needed else iter(())
        keys = [(k,) for n in changing for k in self.keys(n) if goal(self.with_(k, *with_))]
        found = keys + [s for s in tried if goal(self.with_(*s, *with_))]
        if not found:  # where one of several sources is enough, none of them is needed
            found = [s for s in self._more(maps, changing) if goal(self.with_(*s, *with_))]
        found = [s for s in found if not any(set(o) < set(s) for o in found)]
        found = [s for s in found if sum(m.what == "static" for m in s) < len(changing)]
        found.sort(key=lambda s: (self._ends(maps, s), sum(m.what == "static" for m in s)))
        ends = [s for s in found if not self._ends(maps, s)]
        return tuple((*s, *with_) for s in (ends or found)[:MOST_GIVEN])

    def _more(self, maps: list[Map], changing: list[str]) -> Iterator[Measures]:
        """Single measures, and pairs of two sources of which each is some progress."""
        grow = sum(map(self.with_().grows, maps))
        every = [m for n in changing for m in self.possible(n)]
        yield from ((m,) for m in every)
        useful = [m for m in every if sum(map(self.with_(m).grows, maps)) < grow]
        useful = [m for m in useful if not self._ends(maps, (m,))]
        pairs = ((a, b) for a, b in combinations(useful, 2) if a.source != b.source)
        yield from islice(pairs, MOST_TRIED)

    def _ends(self, maps: list[Map], measures: Measures) -> int:
        """How much is ended rather than bounded: by a source that never changes, or a column that a filter fixes."""
        now, then = self.with_(), self.with_(*measures)
        ended = ("fixed", "ends")
        return sum(then.state(m) in ended and now.state(m) not in ended for m in maps)

    def keys(self, source: str) -> Iterator[Measure]:
        """Columns by which statements look up rows of a source, which may be meant to tell them apart: a key, if there is none."""
        d, maps = self.sources[source], self.closing.program.maps.values()
        if d.key or d.whole or d.retain is not True:
            return
        for c in d.types:
            held = [
                (m, rows_of(self.closing, m, source, (c,))) for m in maps if m.reads == (source,)
            ]
            if any(h is not None and m.lookup == (h[c],) for m, h in held):
                yield Measure(source, "key", c)

    def possible(self, source: str) -> Iterator[Measure]:
        """What may be declared of a source beside what is."""
        d = self.sources[source]
        for name, t in d.types.items():
            if t.name not in UNORDERED and (name,) not in d.closes:
                yield Measure(source, "closes", name)
        if not d.append_only:
            yield Measure(source, "append_only")
        yield Measure(source, "static")
