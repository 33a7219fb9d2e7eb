"""Bringing a target to the newest version of a view: the one decision that all sinks and copies share.

    nothing there, or older than the view, or of a past that is not kept or not this one   the whole view
    at the newest version                                                                nothing to do
    behind                                                                               what changed since
    of another view or another database                                                  refused

Versions are not kept longer because a sink has not taken them: a target that stood still for too long gets the whole view
again, or, where the sink was told so, an error.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pyarrow as pa

from headwater.engine.here.equal_rows import consolidated
from headwater.errors import DefinedAnew, QueryError, StateError
from headwater.sinks.sink import Followed, Place, Sink

LOG = logging.getLogger("headwater")
VERSION = "_version"


@dataclass(frozen=True)
class Synced:
    """What a sync did: the version that the target has, how many rows it was given, and why they were the whole view, if so."""

    version: int
    rows: int = 0
    whole: str = ""
    moved: bool = True
    """Whether the target was not at that version already."""


@dataclass(frozen=True)
class Next:
    """What a target needs: the changes after a version, or, without one, the whole view, and why."""

    since: int | None
    why: str = ""
    fresh: bool = False
    """Whether there was nothing before."""


def decided(there: Place | None, view: Followed, newest: int, what: str) -> Next | None:
    """What a target that is at a place needs; None if nothing. `what` is what it is called in errors."""
    if there is None:
        return Next(None, "it is new", fresh=True)
    if there.view not in (view.name, view.name_at(there.version)):
        raise QueryError(
            f"{what} is a copy of `{there.view}`, and not of `{view.name}`",
            hint="take another directory, or another table",
        )
    if there.database not in ("", view.database):
        raise _ahead(view.name, there.version, newest)
    if there.mark is None:  # written before copies knew; all that can be seen is the number
        if there.version > newest:
            raise _ahead(view.name, there.version, newest)
    # Of a version that is not kept any more nobody can tell; then the whole view is taken anyway.
    elif there.version > newest or view.mark_of(there.version) not in (None, there.mark):
        why = "it is from a history that the database does not have any more"
        LOG.warning(
            "%s has version %d of `%s`: %s, and it starts anew", what, there.version, view.name, why
        )
        return Next(None, why)
    if there.version == newest:
        return None
    if there.version < view.created:
        return Next(None, f"`{view.name}` was defined anew")
    return Next(there.version)


def changes_since(view: Followed, since: int, newest: int) -> pa.Table | Next:
    """What changed of a view after a version; or that the whole view is needed, and why.

    The version may be gone, or the view replaced by one of other columns.
    """
    try:
        return view.changes(since, newest)
    except (StateError, DefinedAnew) as e:
        return Next(None, e.what)


def sync(sink: Sink, view: Followed, what: str, gap: str = "whole") -> Synced:
    """Brings a target to the newest version of a view; with the gap `stop`, never by the whole view in the place of what is there."""
    newest = view.newest()
    needed = decided(sink.place(), view, newest, what)
    if needed is None:
        return Synced(newest, moved=False)
    place = Place(view.database, view.name, newest, view.mark_of(newest))
    if needed.since is not None:
        found = changes_since(view, needed.since, newest)
        if isinstance(found, pa.Table):
            if not sink.by_version:
                found = found.drop_columns([VERSION])
                found = found if view.nested else consolidated(found)
            sink.write(found, place)
            return Synced(newest, found.num_rows)
        needed = found
    if gap == "stop" and not needed.fresh:
        raise StateError(
            f"{what} cannot go on from the version that it has: {needed.why}",
            hint="the option gap = whole takes the whole view again; keep(versions=...) keeps more of the past",
        )
    rows = view.rows(newest)
    sink.replace(rows, place)
    return Synced(newest, rows.count, needed.why)


def _ahead(name: str, version: int, newest: int) -> StateError:
    return StateError(
        f"the copy has version {version}, and the newest of `{name}` is {newest}",
        hint="it is a copy of another database: make a new one",
    )
