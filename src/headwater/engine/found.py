"""What entries say is over, where promises of columns alone do not: sessions, and keys through entries.

Which sessions are over their rows say (`plan/sessions`); which keys are, the entries that they would be reached through
(`plan/through`). It is looked for when more of these is closed than before, in runs that can have such entries and are not
dead, and what is found is a fact of the version. It only grows: what is closed does not change.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.calculus.patterns import Pattern, Punctuation, Punctuations, Range, combine
from headwater.calculus.types import Base
from headwater.engine.closing import Region, newly, within
from headwater.engine.dead import Promised, value
from headwater.engine.here.answers import different
from headwater.engine.here.statements import changes_of, hashed
from headwater.engine.membership import matching
from headwater.engine.rings import spec_of
from headwater.engine.working import Working
from headwater.plan.program import Map, Stratum
from headwater.plan.sessions import Sessions, sessions_of
from headwater.plan.through import Through
from headwater.state.arrangement import Arrangement
from headwater.state.entries import total
from headwater.state.keys import Ints, all_parts, boundaries
from headwater.state.purging import zones_of
from headwater.state.run import LEAST, MOST, MapSpec, Order, column, hashes, prepared

HELD = 16
"""How many open sessions, the oldest ones, are told apart from those that began after them; those after the last wait for it."""
SAID = 10_000
"""Values that the keys of one map that were found may say, as a fact of each version; beyond that no more are."""
EPOCH = datetime(1970, 1, 1)


# --- sessions ----------------------------------------------------------------------------------------------------------


def starts_over(
    s: Stratum, at: Arrangement, moved: Region, before: Punctuations, dead: Punctuations
) -> Punctuations:
    """The starts of sessions that are over by the rows of a bag that are closed: `before`, and what more of them says.

    Rows that are `dead` are not looked at again.
    """
    closed, known = moved.after, frozenset(moved.before)
    sessions = sessions_of(s)
    assert sessions is not None
    found = _open_starts(s, sessions, _entries(at, closed, dead), closed)
    members = list[Punctuation]()
    try:
        for p in closed:
            if p in known:
                continue
            mine = matching(Punctuations([p]), found, {sessions.time: sessions.start})
            held = sorted({_time(v) for v in _micros(found, sessions.start)[mine]})
            members += _between(p, sessions, held)
    except OverflowError:  # a session begins before all times that a punctuation can say
        return before
    types = {n: t for n, t in closed.types.items() if n in s.group.columns}
    return before | Punctuations(members, {**types, sessions.start: sessions.type})


def _between(p: Punctuation, sessions: Sessions, held: list[datetime]) -> Iterator[Punctuation]:
    """The starts up to which rows are closed, but for those of open sessions."""
    others = {n: q for n, q in p.columns if n != sessions.time}
    ends: list[Any] = [None, *held[: HELD + 1]]
    ranges: list[Pattern] = [Range(a, b, False, False) for a, b in pairwise(ends)]
    if len(held) <= HELD:
        rest = p.at(sessions.time)
        ranges.append(rest if not held else combine(Range(ends[-1], None, False, False), rest))
    for r in ranges:
        yield Punctuation.of({**others, sessions.start: r})


def _entries(at: Arrangement, closed: Punctuations, dead: Punctuations) -> Iterator[pa.Table]:
    """The entries of runs that are closed and not dead; one may be in several runs."""
    wanted, gone = Promised(closed), Promised(dead)
    for ref in at.refs:
        if ref.zone and (wanted.none(zones := zones_of(at, ref)) or gone.all(zones)):
            continue
        for table in at.open(ref).tables(LEAST, MOST):
            mask = wanted.gone(table) & ~gone.gone(table)
            if mask.any():
                yield table.filter(pa.array(mask))


def _open_starts(
    s: Stratum, sessions: Sessions, entries: Iterator[pa.Table], closed: Punctuations
) -> pa.Table:
    """The keys of groups whose last session among some rows is open, and its start."""
    types = dict(spec_of(s.ranked.map).key) if s.ranked else {}
    names, time = s.group.columns, sessions.time
    key = tuple((n, types[n]) for n in (*names, time))
    spec = MapSpec("rows", key, (("r0", pa.int64()),), tuple(names), order=(Order(time),))
    given = [pa.table({n: column(t, n) for n in (*names, time, "r0")}) for t in entries]
    columns = [pa.field(n, t) for n, t in (*key, ("r0", pa.int64()))]
    rows = pa.concat_tables([pa.schema(columns).empty_table(), *given])
    rows = rows.add_column(0, "_h", hashed(rows, spec.lookup))
    rows = total(spec, prepared(spec, rows))
    rows = rows.filter(pa.array(np.asarray(column(rows, "r0")) > 0))
    first = boundaries(hashes(rows), all_parts([column(rows, n) for n in names]))
    times = _micros(rows, time)
    begins = np.diff(times, prepend=times[:1]) > sessions.gap
    begins[first] = True
    last = np.append(first[1:], rows.num_rows)[: len(first)] - 1
    begun = np.maximum.accumulate(np.where(begins, np.arange(rows.num_rows), 0))[last]
    ends = _shifted(rows.take(pa.array(last)), time, sessions.gap)
    is_open = ~matching(closed, ends)
    starts = rows.take(pa.array(begun[is_open])).select([*names, time])
    return starts.rename_columns([*names, sessions.start])


def _micros(table: pa.Table, name: str) -> Ints:
    return np.asarray(column(table, name).cast(pa.int64()))


def _shifted(table: pa.Table, name: str, by: int) -> pa.Table:
    """Times so many microseconds on, the last one that there is at most."""
    place, times = table.schema.get_field_index(name), _micros(table, name)
    moved = np.minimum(times, np.iinfo(np.int64).max - by) + by
    return table.set_column(place, name, pa.array(moved).cast(table.schema.field(name).type))


def _time(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=int(micros))


# --- keys --------------------------------------------------------------------------------------------------------------


def came_spent(t: Through, working: Working, spent: Punctuations) -> bool:
    """Whether an increment brought entries that are out of use from the start, as of an auction that has expired."""
    return any(True for _ in within(working.new(t.into.name), Region(spent, spent, True)))


def keys_over(
    t: Through, m: Map, working: Working, moved: Region, before: Punctuations
) -> Punctuations:
    """The keys of a map that are closed through entries: `before`, and now through those that were not spent, or not there."""
    names, types = [c for _, c in t.columns], dict(m.key)
    known = {n: b for n in names if isinstance(b := types[n], Base)}
    if len(known) < len(names):
        return before  # what is no scalar has no patterns
    at = working.now(t.into.name)
    found = [*newly(at, moved), *within(working.new(t.into.name), moved)]
    if not found:
        return before
    there = at.lookup(different(t.into, found), whole_key=True)
    there = there.filter(pa.array(np.asarray(column(there, at.spec.count)) > 0))
    columns = [column(there, c) for c, _ in t.columns]
    room = SAID - before.size
    if len(columns) == 1 and pa.types.is_integer(columns[0].type):
        members = list(_stretches(names[0], np.unique(np.asarray(columns[0]))))
        return before | Punctuations(members[: max(0, room // 2)], known)
    some = [c[: max(0, room // len(columns))] for c in columns]
    rows = zip(*([value(v) for v in c] for c in some), strict=True)
    new = (Punctuation.of(dict(zip(names, r, strict=True))) for r in rows)
    return before | Punctuations(new, known)


def _stretches(name: str, values: Ints) -> Iterator[Punctuation]:
    """Whole numbers, those that follow one another as one range."""
    ends = np.flatnonzero(np.diff(values) != 1)
    firsts, lasts = np.append(0, ends + 1), np.append(ends, len(values) - 1)
    for a, b in zip(values[firsts], values[lasts], strict=True) if len(values) else ():
        yield Punctuation.of({name: Range(int(a), int(b), True, True)})


# --- counts ------------------------------------------------------------------------------------------------------------


def count_off(working: Working, group: Map, bag: Map, moved: Region) -> None:
    """Takes rows that are dead from now on off the counts of their groups, which are looked at for open rows only."""
    names = group.columns
    tables = [
        pa.table({n: column(t, n) for n in (*names, "r0")})
        for t in newly(working.now(bag.name), moved)
    ]
    if not tables:
        return
    rows = pa.concat_tables(tables)
    less = pa.array(-np.asarray(column(rows, "r0")))
    rows = rows.set_column(rows.schema.get_field_index("r0"), "r0", less)
    working.next_round()
    entries, _ = working.now(group.name).merge(changes_of(group, rows))
    working.add(group.name, entries)
