"""What is over at a version, as its facts say it: of sources, of their watermarks, and of what views have told.

Facts are what is closed of each source (`closed:`), how far its watermarks are (`marks:`), and of each view the entries
that its ledger has (`told:`). What only entries say is over, such as sessions, is a fact, too (`found:`, `engine/found`).
Promises of maps and views are computed from these by the program (`plan/promises`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.api.catalog import Catalog, SourceDef
from headwater.calculus.patterns import Punctuation, Punctuations, Range, normal
from headwater.calculus.types import Base, RecordType
from headwater.errors import UnknownName
from headwater.language.closes import Scheme as Closes
from headwater.language.closes import all_over, value_of
from headwater.language.closes import schemes_of as schemes_by
from headwater.plan.advice import Advice, ViewBounds
from headwater.plan.analysis import maps_of
from headwater.plan.closing import Closing
from headwater.plan.outlook import Declared, closed_through, promised
from headwater.plan.program import Answered, Program, Stored, View
from headwater.plan.promises import Promise, Promises, Scheme, Told
from headwater.plan.through import Through
from headwater.state.store import Commit

CLOSED, MARKS, TOLD, BEGINS, FOUND = "closed:", "marks:", "told:", "begins:", "found:"
"""How the facts are called that say what is over."""


@dataclass(frozen=True)
class Over:
    """What is over at a version: of sources what was said, of watermarks the greatest values, of views what is told."""

    closed: Mapping[str, Punctuations] = field(default_factory=dict)
    since: Mapping[str, int] = field(default_factory=dict)
    """The version in which each source was closed last."""
    marks: Mapping[str, list[dict[Any, Any]]] = field(default_factory=dict)
    told: Mapping[str, Punctuations] = field(default_factory=dict)
    begins: Mapping[str, Punctuations] = field(default_factory=dict)
    """Of views that came after rows were gone, the entries that such rows may have reached: they are never shown."""
    found: Mapping[str, Punctuations] = field(default_factory=dict)
    """Of strata of sessions, the starts of those that are over; of maps, the keys that are closed through entries."""

    @staticmethod
    def read(facts: Mapping[str, Any], catalog: Catalog) -> Over:
        """What the facts of a version say."""
        closed, since, marks, told, begins, found = {}, {}, {}, {}, {}, {}
        for key, value in facts.items():
            kind, colon, name = key.partition(":")
            match kind + colon:
                case "closed:":
                    closed[name] = _fitting(value["set"], catalog.sources[name])
                    since[name] = int(value["version"])
                case "marks:":
                    marks[name] = _marks(value, catalog.sources[name])
                case "told:":
                    told[name] = Punctuations.from_data(value)
                case "begins:":
                    begins[name] = Punctuations.from_data(value)
                case "found:":
                    found[name] = Punctuations.from_data(value)
        return Over(closed, since, marks, told, begins, found)


def _fitting(data: Mapping[str, Any], source: SourceDef) -> Punctuations:
    """What is closed of a source, by its columns and in their types; an error where it is of others."""
    made, types = Punctuations.from_data(data), types_of(source.row)
    for p in made:
        for name, pattern in p.columns:
            normal(pattern, types[name], column=name)
    return made


def forget_found(commit: Commit, program: Program) -> None:
    """Takes away what was found of strata and maps that a program has no more."""
    for fact in commit.base.facts:
        name = fact.removeprefix(FOUND)
        if fact.startswith(FOUND) and name not in program.strata and name not in program.maps:
            commit.set(fact, None)


def types_of(row: RecordType) -> dict[str, Base]:
    """The types of the scalar columns of a row."""
    return {n: t for n, t in row.fields if isinstance(t, Base)}


def closed_of(source: SourceDef, closed: Mapping[str, Punctuations]) -> Punctuations:
    """What is over of a source: what was said, and NULL in its closing columns."""
    said = closed.get(source.name, Punctuations((), types_of(source.row)))
    return all_over(source.schemes, said)


def promises_of(
    closing: Closing,
    catalog: Catalog,
    closed: Mapping[str, Punctuations],
    found: Mapping[str, Punctuations],
    through: Mapping[str, Through] | None = None,
) -> Promises[Punctuations]:
    """The promises of a program when some of its sources is closed, and something was found to be over.

    `through` are the maps whose keys are closed through entries, if they are known.
    """
    known: dict[str, Promise[Punctuations]] = {}
    for source in catalog.sources.values():
        if source.static:
            continue
        over = closed_of(source, closed)
        lasting = Punctuations.EVERYTHING if source.append_only else over
        known[source.name] = Promise(over, lasting, over)
        for relation in source.relations:
            if relation != source.name:  # an inner row is over when all rows are
                all_of_it = over if over == Punctuations.EVERYTHING else Punctuations.NONE
                known[relation] = Promise(all_of_it, all_of_it, all_of_it)
    if through is None:
        through = closed_through(closing, declared_of(catalog))
    return Promises(closing, Told(), known.get, found, through)


def promises_something(catalog: Catalog) -> bool:
    """Whether any source can be over, or lasts."""
    return any(s.schemes or s.append_only for s in catalog.sources.values())


def still_whole(
    closing: Closing, catalog: Catalog, over: Over, names: Collection[str]
) -> Promises[Punctuations] | None:
    """What of relations and maps no row reaches that some sources keep no more; None if they keep all.

    It is asked as promises are: which keys are reached by rows alone that are not closed?
    """
    known: dict[str, Promise[Punctuations]] = {}
    for source in catalog.sources.values():
        whole = Punctuations.EVERYTHING
        if source.name in names and source.retain == "open" and source.name in over.closed:
            whole = others(closed_of(source, over.closed))
        known[source.name] = Promise(whole, whole, whole)
    if all(p.closed == Punctuations.EVERYTHING for p in known.values()):
        return None
    return Promises(closing, Told(), known.get, {}, {})


def others(closed: Punctuations) -> Punctuations:
    """The rows that do not match."""
    rest = [Punctuation()]
    for p in closed:
        rest = [x for q in rest for x in q.without(p, closed.types)]
    return Punctuations(rest, closed.types)


def of_rows(promises: Promises[Punctuations], view: View) -> Punctuations:
    """What is closed of a view, in terms of its columns."""
    match view.rows:
        case Answered(stratum):
            return promises.relation(stratum).closed
        case Stored(map=m):
            names = [n for n, _ in view.type.fields]
            return promises.closed(m).rename(dict(zip(m.columns, names, strict=True)))
    return Punctuations.NONE


def schemes_of(closing: Closing, catalog: Catalog) -> Promises[frozenset[Scheme]]:
    """The promises that a program will have in time, by the schemes of its sources."""
    return promised(closing, declared_of(catalog))


def declared_of(catalog: Catalog, program: Program | None = None) -> dict[str, Declared]:
    """What is declared of the sources of a catalog, as far as it says what will be over."""
    anew = program is not None and any(v.strategy == "recompute" for v in program.views.values())
    out = {}
    for source in catalog.sources.values():
        types = types_of(source.row)
        if source.nested:  # an inner row is closed with its owner, by columns of the key
            types = {n: t for n, t in types.items() if n in source.key}
        out[source.name] = Declared(
            types,
            tuple(_columns_of(s) for s in source.schemes),
            source.append_only,
            source.static,
            source.retain,
            frozenset(m.name for m in source.all_maps),
            source.nested or anew,
            said_of(source),
            () if source.nested or source.written else source.parts[0].key,
        )
    return out


def _columns_of(s: Closes) -> tuple[str, ...]:
    """The columns that a scheme closes together."""
    return s.columns if s.by is None or s.of is not None else (*s.columns, s.by)


def said_of(source: SourceDef) -> str:
    """What is declared of the end of a source, in words."""
    if source.static:
        return "static"
    types = types_of(source.row)
    closes = [f"closes {s.said(types[s.columns[0]])}" for s in source.schemes]
    return ", ".join([*(["append-only"] if source.append_only else []), *closes]) or "no scheme"


def closing_by(catalog: Catalog, closes: Mapping[str, Any]) -> Catalog:
    """A catalog in which some sources are closed by other schemes; nothing else of it is meant to be used."""
    sources = dict(catalog.sources)
    for given, asked in closes.items():
        name = catalog.named(given)
        source = sources.get(name)
        if source is None:
            raise UnknownName(
                f"there is no source `{given}`", hint=f"sources: {', '.join(sources) or 'none'}"
            )
        schemes = schemes_by(asked, source.row, name) if asked != () else ()
        described = tuple(json.dumps(s.described()) for s in schemes)
        sources[name] = replace(source, closes=described)
    return replace(catalog, sources=sources)


def bounds_of(program: Program, catalog: Catalog, view: str, zone: str) -> ViewBounds:
    """What of a view stays small and becomes final in time, what does not, and what would do."""
    return Advice(Closing(program, zone), declared_of(catalog, program)).of(program.views[view])


def is_bounded(program: Program, catalog: Catalog, view: str) -> bool:
    """Whether something is declared of the end of what a view reads."""
    maps = maps_of(program, program.views[view])
    read = {r for m in maps for r in m.reads}
    sources = [s for s in catalog.sources.values() if not read.isdisjoint(s.relations)]
    return any(s.schemes or s.append_only for s in sources)


def forgotten_of(source: SourceDef, closed: Mapping[str, Punctuations]) -> Punctuations:
    """The deletions of a source that need not be remembered, as nothing older can come: in the columns of their map.

    Where the sequence is closed up to a value, whatever is older than a deletion below it is late; where a column of the key is
    closed, whatever has the key. A sequence that is no column of the rows says nothing of them.
    """
    kept, by = source.sequences, source.by
    if kept is None or by.beside is not None or source.name not in closed:
        return Punctuations.NONE
    whole = [
        p
        for p in closed[source.name]
        if all(n != by.sequence or (isinstance(q, Range) and q.low is None) for n, q in p.columns)
    ]
    names = {**dict(zip(by.key, kept.columns, strict=False)), by.sequence: kept.columns[-1]}
    return Punctuations(whole, closed[source.name].types).rename(names)


def held_by(catalog: Catalog) -> tuple[dict[str, str], frozenset[str]]:
    """The maps that hold rows of sources, with the source; and the sources that keep open rows only."""
    sources = catalog.sources.values()
    held = {m.name: s.name for s in sources if s.retain for m in s.all_maps}
    return held, frozenset(s.name for s in sources if s.retain == "open")


def hidden_at(over: Over, catalog: Catalog) -> dict[str, Punctuations]:
    """What of the maps of views and sources is not shown."""
    out = dict(over.told)
    for name, never in over.begins.items():
        out[name] = out[name] | never if name in out else never
    for source in catalog.sources.values():
        if source.retain == "open" and source.name in over.closed:
            m = source.maps[source.name]
            closed = closed_of(source, over.closed)
            out[source.name] = closed.rename(dict(zip(m.fields, m.columns, strict=True)))
    return out


def _marks(facts: list[list[list[Any]]], source: SourceDef) -> list[dict[Any, Any]]:
    types, out = types_of(source.row), []
    for scheme, pairs in zip(source.schemes, facts, strict=False):
        member = types[scheme.by] if scheme.by else None
        value = types[scheme.columns[0]]
        out.append({value_of(m, member): value_of(v, value) for m, v in pairs})
    return out
