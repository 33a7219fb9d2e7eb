"""Merging changes into maps, and answering the groups that they touch.

`merge` takes the changes of maps and adds the new entries; a bag whose different values are counted passes its
appearances and disappearances on to its group in the same step. `components` reads for touched groups what their
answer is computed from, before and after, and `rows` computes it: the change of the stratum's relation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.dyadic import POWERS, Dyadic
from headwater.calculus.dyadic import shown as shown_of
from headwater.calculus.types import DYADIC, DyadicType, RealType
from headwater.calculus.windows import Total
from headwater.engine.here import alike, by_end, by_round, few_keys, threads
from headwater.engine.here.different_values import passed_on
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.here.extremes import Before, Extremes, by_change
from headwater.engine.here.from_bags import Span, around, changed_part, from_bag, next_ends, ranked
from headwater.engine.here.statements import Scalars, hashed
from headwater.engine.here.threads import Merged
from headwater.engine.rings import ring_columns, shown, spec_of
from headwater.engine.working import Working
from headwater.interop.arrow_types import arrow_type
from headwater.plan.program import (
    COLLECT,
    ENDS,
    WEIGHT,
    Bind,
    Filter,
    FromBag,
    Map,
    Stratum,
)
from headwater.state.arrangement import INDEX, Arrangement, Touched, are_same
from headwater.state.columns import Column, all_taken, parts_of, worked
from headwater.state.entries import total
from headwater.state.keys import Bools, Ints, all_parts, boundaries, canonical, equal
from headwater.state.run import MapSpec, cast, column, hashes, prepared

CELL, TIMES = "row.", "row"
"""How the cells of an answer and its multiplicity are called among the components."""
Changes = Mapping[str, list[pa.Table]]
"""Emitted rows by map."""


def merge(
    working: Working, strata: Iterable[Stratum], changes: Changes, answered: Collection[str] = ()
) -> dict[str, pa.Table]:
    """Adds changes to their maps; the touched groups of answered strata, by name, as their key columns."""
    strata = list(strata)
    working.next_round()
    pending = {n: list(tables) for n, tables in changes.items() if any(t.num_rows for t in tables)}
    asked = {m.name for s in strata if s.name in answered for m in (s.group, *s.bags)}
    touched: dict[str, pa.Table] = {}
    # Strata may share a bag and even a group: each is merged once, and passes on once.
    passes = {
        (d.map.name, s.group.name, d.column): (d, s.group) for s in strata for d in s.passed_on
    }
    bags = {bag for bag, _, _ in passes}
    first = {n: pending.pop(n) for n in list(pending) if n in bags}
    for name, made in _merged_maps(working, first, bags):
        _note(working, name, made, asked, touched)
        if made.touched is not None:
            for (bag, group, _), (d, g) in passes.items():
                if bag == name:
                    pending.setdefault(group, []).append(passed_on(d, g, made.touched))
    for name, made in _merged_maps(working, pending):
        _note(working, name, made, asked, touched)
    out: dict[str, pa.Table] = {}
    for s in strata:
        maps = [m for m in (s.group, *s.bags) if m.name in touched]
        if s.name in answered and maps:
            out[s.name] = _groups(s.group, {m.name: touched[m.name] for m in maps}, working.spec)
    return out


def _groups(
    group: Map, touched: Mapping[str, pa.Table], spec_of: Callable[[str], MapSpec]
) -> pa.Table:
    """The different groups that the keys of maps are of; mostly all maps say the same."""
    names, found, once = ["_h", *group.columns], list[pa.Table](), True
    for name, keys in touched.items():
        spec = spec_of(name)
        if name != group.name and not spec.unique and {*spec.lookup} == {*group.columns}:
            # The entries of a group lie together.
            starts = boundaries(hashes(keys), all_parts([column(keys, n) for n in spec.lookup]))
            keys = keys if len(starts) == keys.num_rows else keys.take(pa.array(starts))
        once &= name == group.name or spec.lookup == group.lookup == tuple(group.columns)
        found.append(keys.select(names))
    first, *others = found
    return (
        first if once and all(_alike(first, keys) for keys in others) else different(group, found)
    )


def _alike(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables of keys are the same, row by row."""
    if one.num_rows != other.num_rows or not np.array_equal(hashes(one), hashes(other)):
        return False
    sides = (all_parts([column(t, n) for n in t.column_names[1:]]) for t in (one, other))
    return bool(equal(*sides).all())


def _merged_maps(
    working: Working, changes: Changes, seen: Collection[str] = ()
) -> Iterator[tuple[str, Merged]]:
    """Changes merged into their maps: many in threads, few together with those of other maps; blindly where a map is not `seen`."""
    few: dict[str, pa.Table] = {}

    def blind(name: str) -> bool:
        return working.maps[name].kind == "change" and name not in seen

    for name, tables in changes.items():
        some = [t for t in tables if t.num_rows]
        if not some:
            continue
        table = some[0] if len(some) == 1 else pa.concat_tables(some)
        table = few_keys.added_up(working.spec(name), table, working.threads)
        if threads.times(table.num_rows, working.threads) == 1:
            few[name] = table
            continue
        yield name, threads.merged(working.now(name), table, blind(name), working.threads)
    for name, summed in alike.summed(working, few):
        yield name, threads.of_summed(working.now(name), summed, blind(name))


def _note(
    working: Working,
    name: str,
    made: Merged,
    asked: Collection[str],
    touched: dict[str, pa.Table],
) -> None:
    """Adds what a merge has made of a map, and notes in `touched` its keys if they are asked for."""
    working.add(name, made.entries)
    if made.touched is not None:
        working.merged.setdefault(name, []).append(made.touched)
    if name in asked:
        touched[name] = made.keys


@lru_cache(maxsize=1024)
def _keys_of(group: Map) -> MapSpec:
    """The keys of a group's map as a map of their own."""
    return MapSpec("keys", spec_of(group).key, (("_n", pa.int64()),), group.lookup)


def different(group: Map, keys: list[pa.Table]) -> pa.Table:
    """Different keys of a group's map, with their hash."""
    if not group.key:
        return pa.table({"_h": pa.array([0], pa.int64())})
    spec = _keys_of(group)
    table = pa.concat_tables([t.select(group.columns) for t in keys])
    table = table.append_column("_n", pa.array(np.ones(table.num_rows, np.int64)))
    table = table.add_column(0, "_h", hashed(table, group.lookup))
    return total(spec, prepared(spec, table)).select(["_h", *group.columns])


# --- answers --------------------------------------------------------------------------------------------------


def components(working: Working, stratum: Stratum, keys: pa.Table) -> pa.Table:
    """What the answers of touched groups are computed from: before with weight -1, after with weight 1."""
    if stratum.rounds:
        return at_rounds(working, stratum, keys).components
    if stratum.ranked is not None and stratum.ranked.reads_part:
        keys, span = changed_part(working.new(stratum.ranked.map.name), keys)
        sides = [
            (current(m, stratum, keys, span), w)
            for m, w in ((working.before, -1), (working.now, 1))
        ]
        return signed(stratum, sides)
    if stratum.answers is None:
        after = current(working.now, stratum, keys)
        before = current(working.before, stratum, keys)
    else:
        found = working.before(stratum.answers.name).lookup(keys)
        before = found.select(stratum.answers.columns)
        before = before.rename_columns([n for n, _ in stratum.components])
        if stratum.always and before.num_rows == 0 and keys.num_rows:
            before = nothing(stratum)
            after = current(working.now, stratum, keys)
        else:
            places = np.full(keys.num_rows, -1, np.int64)
            places[np.asarray(column(found, INDEX))] = np.arange(found.num_rows)
            merged = _merged(working, stratum.group, keys)
            last = Before(before, places, _unanswered(working, stratum, keys, places, merged))
            after, at = _current(working.now, stratum, keys, last=(working, last), merged=merged)
            if stratum.ranked is None:
                before, after = _changed(stratum, before, after, places[at])
    return signed(stratum, [(before, -1), (after, 1)])


def _changed(
    stratum: Stratum, before: pa.Table, after: pa.Table, places: Ints
) -> tuple[pa.Table, pa.Table]:
    """Components before and after, without those that are the same; `places` say where each was before, -1 if nowhere."""
    both = np.flatnonzero(places >= 0)
    was, now = list[Column](), list[Column]()
    for n, _ in stratum.components[len(stratum.group.key) :]:
        old = canonical(column(before, n))
        was += parts_of([worked(old)])
        now += parts_of([worked(cast(canonical(column(after, n)), old.type))])
    same = both[are_same(all_taken(was, places[both]), now, both)]
    if not len(same):
        return before, after
    kept = [np.ones(t.num_rows, np.bool_) for t in (before, after)]
    kept[0][places[same]] = kept[1][same] = False
    return before.filter(pa.array(kept[0])), after.filter(pa.array(kept[1]))


def _merged(working: Working, group: Map, keys: pa.Table) -> Touched | None:
    """What the one merge of a group's map said about some of its keys, if these are all that it was about.

    Both are in the order of the map, and all keys of the merge are among those that are touched.
    """
    known = working.merged.get(group.name, ())
    if len(known) != 1 or not np.array_equal(hashes(known[0].keys), hashes(keys)):
        return None
    return known[0]


def _unanswered(
    working: Working, stratum: Stratum, keys: pa.Table, places: Ints, merged: Touched | None
) -> Bools:
    """The groups that had rows and no answer; where maps are being filled, all that had no answer may be such."""
    missing = places < 0
    if not working.steady or not missing.any():
        return missing
    if merged is not None:
        had = np.asarray(column(merged.old, working.spec(stratum.group.name).count)) != 0
        return np.asarray(missing & had)
    at = np.flatnonzero(missing)
    found = working.before(stratum.group.name).lookup(keys.take(pa.array(at)))
    out = np.zeros(len(places), np.bool_)
    out[at[np.asarray(column(found, INDEX))]] = True
    return out


class AtRounds(NamedTuple):
    """What groups of a loop are answered from at their rounds, and the later rounds at which those have entries that moved."""

    components: pa.Table
    later: pa.Table


def at_rounds(working: Working, stratum: Stratum, keys: pa.Table, before: bool = True) -> AtRounds:
    """The change of what groups are answered from, from the round before theirs to theirs, before and after.

    Without `before` it is what they are answered from now, round by round.
    """
    if stratum.answers is not None and before:
        change, later = by_end.changed(working, stratum, keys)
        return AtRounds(signed(stratum, [change]), later)
    found = by_round.summed(working, stratum, keys, before)
    table = current(found.maps, found.stratum, found.keys)
    if stratum.always:
        at = by_round.round_of(stratum)
        missing = by_round.absent(found.keys, table, at, stratum.name in working.fresh)
        empty = nothing(stratum).take(pa.array(np.zeros(len(missing), np.int64)))
        empty = empty.append_column(at, pa.array(missing))
        table = pa.concat_tables([table, empty.select(table.column_names).cast(table.schema)])
    told, weights = by_round.weighed(stratum, table)
    return AtRounds(signed(stratum, [(told, weights)]), found.later)


def read_for(working: Working, stratum: Stratum, keys: pa.Table) -> Ints:
    """How much is read to answer each group: a row for it, and the entries of bags that are read whole."""
    bags = {b.map.name for b in stratum.from_bags if b.function not in ENDS}
    r = stratum.ranked
    if r is not None and r.limit is None and not r.reads_part:
        bags.add(r.map.name)
    if not bags:
        return np.ones(keys.num_rows, np.int64)
    h = hashes(keys)
    return sum((working.now(n).count(h) for n in bags), np.ones(len(h), np.int64))


def keep_answers(working: Working, *answers: tuple[Stratum, pa.Table]) -> None:
    """Writes down what strata were answered, to be taken back the next time."""
    changes: dict[str, pa.Table] = {}
    for stratum, change in answers:
        m = stratum.answers
        assert m is not None
        names = by_end.answered(stratum) if stratum.rounds else [n for n, _ in stratum.components]
        types = spec_of(m).types
        arrays = [cast(column(change, n), types[c]) for n, c in zip(names, m.columns, strict=True)]
        columns = [*arrays, column(change, WEIGHT)]
        changes[m.name] = pa.Table.from_arrays(columns, [*m.columns, "r0"])
    for name, summed in alike.summed(working, changes):
        entries, _ = working.now(name).merge_summed(summed, blind=True)
        working.add(name, entries)


def current(
    maps: Callable[[str], Arrangement],
    stratum: Stratum,
    keys: pa.Table,
    span: Span | None = None,
    last: tuple[Working, Before] | None = None,
    merged: Touched | None = None,
) -> pa.Table:
    """The components of groups, as some maps have them; groups that are gone have none.

    With a span those of the rows that a change between its positions can matter for. `last` is what they were answered
    from before an increment, and its maps; `merged` is what its merge said about these very groups.
    """
    return _current(maps, stratum, keys, span, last, merged)[0]


def _current(
    maps: Callable[[str], Arrangement],
    stratum: Stratum,
    keys: pa.Table,
    span: Span | None = None,
    last: tuple[Working, Before] | None = None,
    merged: Touched | None = None,
) -> tuple[pa.Table, Ints]:
    """The same, and of which of the keys each row is."""
    group = stratum.group
    if merged is None:
        found = maps(group.name).lookup(keys)
    else:
        found = _present(keys, merged.new, spec_of(group).count)
    at = np.asarray(column(found, INDEX))
    there = pa.array(at)
    live = keys if merged is not None and len(at) == keys.num_rows else keys.take(there)
    arrays = {n: column(found, n) for n in group.columns} | shown(stratum, found)
    for n in stratum.only_there if stratum.answers is not None else ():
        # Answers are kept, and one that is kept as it was is not written again.
        arrays[n] = pa.array(np.minimum(np.asarray(arrays[n]), 1))
    came: dict[str, pa.Table] = {}
    gone: dict[str, list[tuple[FromBag, Extremes]]] = {}
    for b in stratum.from_bags:
        known = None
        if last is not None and b.function in ENDS:
            working, before = last
            new, empty = working.new(b.map.name), not working.refs.get(b.map.name)
            if b.map.name not in came:  # the least and the greatest are of one bag
                came[b.map.name] = new.lookup(live)
            known = by_change(new, b, came[b.map.name], before.take(at), empty)
        if known is None:
            arrays[b.column] = from_bag(maps(b.map.name), b, live)
        elif len(known.unknown):
            gone.setdefault(b.map.name, []).append((b, known))
        else:
            arrays[b.column] = known.values
    for name, asked in gone.items():
        searched = next_ends(maps(name), [(b, known.unknown) for b, known in asked], live)
        for (b, known), values in zip(asked, searched, strict=True):
            arrays[b.column] = known.with_searched(values)
    table = pa.table(arrays)
    if stratum.always and table.num_rows == 0 and keys.num_rows:
        return nothing(stratum), np.zeros(1, np.int64)
    if stratum.ranked is not None and table.num_rows:
        bag = maps(stratum.ranked.map.name)
        if span is None:
            of, more, times = ranked(bag, stratum.ranked, live)
        else:
            sums = stratum.ranked.totals
            totals: dict[Total, Any] = {t: arrays[n] for t, n in sums if t.kind != "power"}
            totals |= {t: _summed(found, n) for t, n in sums if t.kind == "power"}
            of, more, times = around(bag, stratum.ranked, live, span.take(there), totals)
        table, at = table.take(pa.array(of)), at[of]
        for n, c in more.items():
            table = table.append_column(n, c)
        table = table.append_column(WEIGHT, times)
    return table, at


def _present(keys: pa.Table, values: pa.Table, count: str) -> pa.Table:
    """Groups and their values as a look-up would find them, which finds none without rows."""
    at = np.flatnonzero(np.asarray(column(values, count)))
    arrays = {INDEX: pa.array(at)}
    for table in (keys, values):
        some = table if len(at) == table.num_rows else table.take(pa.array(at))
        arrays |= dict(zip(some.column_names, some.columns, strict=True))
    return pa.table(arrays)


def _summed(found: pa.Table, name: str) -> pa.Table:
    """The columns of a Dyadic among those of groups."""
    names = [n for n, _ in ring_columns(name, DYADIC)]
    return found.select(names).rename_columns([n for n, _ in ring_columns("s", DYADIC)])


def nothing(stratum: Stratum) -> pa.Table:
    """The components of the empty bag: zeros and NULLs; what an aggregate without groups answers at first."""
    arrays = {
        n: pa.array([0.0 if isinstance(t, RealType) else 0], _boxed(t))
        for n, t in stratum.group.ring
        if not isinstance(t, DyadicType)
    }
    for told in stratum.told:
        none = [Dyadic() if any(p) else 0 for p in POWERS[told.function]]
        arrays[told.column] = pa.array([shown_of(told.function, told.scales, none)], pa.float64())
    for b in stratum.from_bags:
        empty: Any = [] if b.function == COLLECT else None
        arrays[b.column] = pa.array([empty], arrow_type(b.type))
    return pa.table(arrays)


def _boxed(t: object) -> pa.DataType:
    ((_, arrow), *_) = ring_columns("x", t)
    return arrow


def signed(stratum: Stratum, sides: Sequence[tuple[pa.Table, int | pa.Array]]) -> pa.Table:
    """Components with their weights, one weight for all of a table, or one for each row."""
    schema = _signed_schema(stratum)
    wanted = list(zip(schema.names, schema.types, strict=True))[:-1]
    tables = list[pa.Table]()
    for table, w in sides:
        if table.num_rows == 0:
            continue
        arrays = [cast(column(table, n), t) for n, t in wanted]
        weights = pa.array(np.full(table.num_rows, w)) if isinstance(w, int) else w
        if WEIGHT in table.column_names:  # of rows that are there several times
            weights = pc.multiply(weights, column(table, WEIGHT))
        tables.append(pa.table([*arrays, weights], schema=schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


@lru_cache(maxsize=1 << 12)
def _signed_schema(stratum: Stratum) -> pa.Schema:
    return pa.schema([*((n, arrow_type(t)) for n, t in stratum.components), (WEIGHT, pa.int64())])


def answer_steps(stratum: Stratum) -> list[Bind | Filter]:
    """The conditions and cells of a stratum's rows, over its components."""
    weight = [Bind(TIMES, stratum.weight)] if stratum.weight is not None else []
    cells = [Bind(f"{CELL}{n}", s) for n, s in stratum.row]
    return [*(Filter(c) for c in stratum.where), *weight, *cells]


def rows(stratum: Stratum, table: pa.Table, scalars: Scalars) -> pa.Table:
    """The rows that components give, with their weights, added up."""
    table = scalars(answer_steps(stratum), table)
    weights = column(table, WEIGHT)
    if stratum.weight is not None:
        weights = pc.multiply(weights, column(table, TIMES).cast(pa.int64()))
    arrays = {n: column(table, f"{CELL}{n}") for n, _ in stratum.row}
    return consolidated(pa.table({**arrays, WEIGHT: weights}))
