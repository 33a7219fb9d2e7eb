"""Bringing in a change: rows given for a source become changes of its relations, checked against the rows that are there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.api.catalog import Catalog, SourceDef
from headwater.api.over import Over, closed_of, forgotten_of
from headwater.engine import policy
from headwater.engine.change import Change
from headwater.engine.here import threads
from headwater.engine.slices import whole
from headwater.engine.spark.session import Session
from headwater.engine.working import Working
from headwater.errors import BadChange, UnknownName
from headwater.io.deletes import checked_deletes
from headwater.io.events import ByKey
from headwater.io.keys import check_keys
from headwater.io.owners import Owners, apart
from headwater.io.rows import stage
from headwater.io.upserts import Upserting
from headwater.io.upserts_in_tasks import InTasks
from headwater.language.declared import limits_below

RESOLVING = 2
"""How many statements resolving an event by its key costs, about: it is looked up, and put beside the others of its key."""


@dataclass(frozen=True)
class Given:
    """Rows given for a relation of a source: its name as declared, what they change by relation, what is by key, and how many there are."""

    name: str
    changes: dict[str, Change]
    by_key: Change
    rows: int


def staged_change(
    catalog: Catalog, session: Session, root: Path, name: str, given: Any, cast: bool
) -> Given:
    """Rows given for a source as changes of its relations, staged; they may be given for an array in its rows, too.

    For `{"customers": rows}` with arrays of orders: a change of `customers` and one of `customers.orders`.
    """
    source = _changing(catalog, name)
    if source.written:
        by = "stages write" if source.written == "flow" else f"`{source.written}` writes"
        raise BadChange(
            f"`{name}` is no source: {by} it",
            hint="apply changes to sources; stages and streams give the rows of their outputs",
        )
    readers = catalog.readers(source.name) if source.static else []
    if readers:
        raise BadChange(
            f"`{name}` is static, and the view `{readers[0]}` reads it",
            hint="declare it without static=True, or fill it before the first view",
        )
    number = [p.name.lower() for p in source.parts].index(name.lower())
    part = source.parts[number]
    row = part.given if source.nested else source.row
    limits = limits_below(source.limits, part.path)
    how = source.by if number == 0 else ByKey(part.key)
    if number and source.sequence_by:
        raise BadChange(
            f"rows of `{name}` are given by themselves, and those of `{source.name}` are ordered by `{source.by.sequence}`",
            hint=f"give rows of `{source.name}` with all that is inside of them",
        )
    staged = stage(name, row, given, root, session.counts, session.zone, cast, limits, how)
    if staged.by_key.rows:
        _check_by_key(source, name)
    if not source.nested:
        return Given(source.name, {source.name: staged.rows}, staged.by_key, staged.count)
    try:
        made = apart(source.parts, number, staged.rows, root)
        return Given(part.name, made, staged.by_key, staged.count)
    finally:
        for f in staged.rows.files:
            (root / f).unlink(missing_ok=True)


def _check_by_key(source: SourceDef, name: str) -> None:
    """Raises where old rows cannot be found by key."""
    if not source.retain:
        raise BadChange(
            f"`{name}` keeps no copy of its rows, so that none is found by its key",
            hint="declare it without retain=False, or give the old rows as deletes and the new ones as inserts",
        )


def _changing(catalog: Catalog, name: str) -> SourceDef:
    """The source that a change is given for, by its name or by the path of an array in its rows."""
    if not isinstance(name, str):
        raise BadChange(f"a change is given for {name!r}", hint="name the source: {'orders': rows}")
    head, dot, _ = name.partition(".")
    source = catalog.sources.get(catalog.named(head))
    if source is not None and (not dot or name.lower() in {p.name.lower() for p in source.parts}):
        return source
    if source is not None:
        inner = ", ".join(p.name for p in source.parts[1:])
        keyed = "declare the source with key=..., so that inner rows have an owner"
        raise UnknownName(
            f"`{name}` is no array of `{head}` that can be changed by itself",
            hint=f"arrays that can: {inner}" if inner else keyed,
        )
    is_view = catalog.named(name) in catalog.views
    what = "is a view; changes are applied to sources" if is_view else "is unknown"
    raise UnknownName(f"`{name}` {what}", hint=f"sources: {', '.join(catalog.sources) or 'none'}")


@dataclass
class ByKeys:
    """Changes by key as rows with weights beside those that are staged; and how many events had no effect or were stale, by relation."""

    staged: dict[str, Change]
    ignored: dict[str, int] = field(default_factory=dict)
    stale: dict[str, int] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    """Relations of flat sources whose whole change was looked up: its deletions are there, and its keys once."""


def replaced_by_key(
    catalog: Catalog,
    root: Path,
    staged: dict[str, Change],
    by_key: Mapping[str, Change],
    working: Working,
    over: Over,
    session: Session,
    most: int,
) -> ByKeys:
    """Changes by key, of relations, as rows with weights beside those that are staged.

    More than `most` events, or more than this process would do sooner, are resolved in tasks of Spark.
    """
    out = ByKeys(staged)
    # From the outside in: rows of an array may be given by key beside a new row that has it.
    for name in sorted(by_key, key=lambda n: n.count(".")):
        source = catalog.owning(name)
        number = [p.name for p in source.parts].index(name)
        by, kept = (source.by, source.sequences) if number == 0 else (ByKey(), None)
        told = bool(source.schemes) or source.name in over.closed
        late = closed_of(source, over.closed) if told and source.lateness != "refuse" else None
        parts, maps = source.parts, source.maps
        # A topic may have tombstones of keys that never were, as it is made compact.
        strict = source.strict and source.format != "kafka"
        gone = None if kept is None else forgotten_of(source, over.closed)
        at = Upserting(parts, maps, out.staged, working, root, strict, by, kept, late, gone)
        events, cores = by_key[name], threads.cores()
        if policy.carried_here(events.rows, RESOLVING, most, cores, session.known_cores):
            made = at.rows(number, events)
        else:
            made = InTasks(at, number, session).rows(events)
            if len(parts) == 1 and not out.staged.get(name, Change()).rows:
                out.known.add(name)
        out.ignored[name], out.stale[name] = made.ignored, made.stale
        more = {n: out.staged.get(n, Change()).with_rows(c) for n, c in made.changes.items()}
        out.staged = {**out.staged, **more}
    return out


def checked_change(
    catalog: Catalog,
    root: Path,
    staged: dict[str, Change],
    working: Working,
    known: Collection[str] = (),
) -> dict[str, int]:
    """Checks deletions, keys and owners. Deletions that are ignored are taken out of `staged`; gives how many, by relation.

    Those that are `known` need no check.
    """
    ignored: dict[str, int] = {}
    tables: dict[str, pa.Table] = {}
    for n, change in staged.items():
        source = catalog.owning(n)
        if source.retain and n not in known:
            tables[n] = whole(change, root, working)
            staged[n], ignored[n] = checked_deletes(
                n, source.maps[n], change, tables[n], working, source.strict
            )
            if staged[n] is not change:
                tables[n] = whole(staged[n], root, working)
    for source in catalog.sources.values():
        mine = {n: t for n, t in tables.items() if n in source.maps}
        if source.nested and mine:
            Owners(source.parts, mine, source.maps, source.keys, working).check()
        elif source.key and mine:
            (kept,) = source.maps.values()
            check_keys(source.name, source.parts[0].key, kept, mine[source.name], working)
    return ignored
