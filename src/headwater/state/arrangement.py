"""Arrangements: a map at a version, looked up and merged in proportion to the change.

An arrangement is a list of runs, newest first. A look-up finds the rows of each key in each run by binary
search, compares the real keys, and adds up what the runs say (a change map) or takes the newest (a value
map, a latest map). A merge looks up the old values of the keys that change and gives the new run with, for each
touched key, its old and its new value; to put entries into a latest map needs no look-up. All work on a range of
the hash space, so that any number of tasks can share a map, and on tables: there is no loop over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import DamagedState
from headwater.state import exact
from headwater.state.adding import plus, replaced, sums, zeros
from headwater.state.hashing import hash_keys
from headwater.state.keys import (
    Bools,
    Ints,
    all_parts,
    bisected,
    boundaries,
    canonical,
    equal,
    expand,
    plain,
    sort_order,
)
from headwater.state.radix import in_order, order_of
from headwater.state.run import (
    LEAST,
    MOST,
    MapSpec,
    Run,
    RunRef,
    Runs,
    cast,
    column,
    hashes,
    key_parts,
    prepared,
    sort_columns,
)

INDEX = "_i"
"""The column of a look-up's answer that says which row of the keys an entry belongs to."""
Share = tuple[int, int]
"""One of several equal parts of something: which, and of how many."""
WHOLE: Share = (0, 1)
MARKS = 8
"""Hashes that are looked at for each stretch that a map is cut into, at least."""
CROWDED = 8
"""Entries with the hash of a whole key, above which it is bisected among them."""


class TooMany(Exception):
    """A look-up would find more entries than it was allowed to."""


@dataclass(frozen=True)
class Touched:
    """A merge's answer: the keys that changed with `_h`, and their ring values before and after."""

    keys: pa.Table
    old: pa.Table
    new: pa.Table


class Arrangement:
    """A map at a version; `runs` are newest first. Tests may set a `watch`, which sees the entries that are read, and how."""

    watch: ClassVar[Callable[[Arrangement, pa.Table, str], None] | None] = None

    def __init__(self, spec: MapSpec, refs: Sequence[RunRef], runs: Runs):
        self.spec, self.runs = spec, runs
        self.refs = sorted(refs, key=lambda r: (-r.version, -r.round, r.low))

    def open(self, ref: RunRef) -> Run:
        """One of its runs, which must say that it is of this map, or of the one whose runs this one has."""
        run, said = self.runs.open(ref), ref.of or self.spec.written_as
        if run.of is not None and run.of != said:
            raise DamagedState(
                f"{self.runs.folder}/{ref.file}",
                f"the run at byte {ref.offset} is of the map `{run.of}`, and not of `{said}`",
            )
        if (
            (run.of is None or self.spec.of or ref.of)
            and ref.size
            and run.segments[0].batch.schema.names != self.spec.schema.names
        ):
            raise DamagedState(
                f"{self.runs.folder}/{ref.file}",
                f"the run at byte {ref.offset} has other columns than the map `{self.spec.name}`",
            )
        return run

    def watched(self, found: pa.Table, how: str) -> pa.Table:
        """What was read, once a watch has seen it."""
        if Arrangement.watch is not None:
            Arrangement.watch(self, found, how)
        return found

    # --- reading --------------------------------------------------------------------------------------

    def lookup(
        self,
        keys: pa.Table,
        whole_key: bool = False,
        linear: bool = False,
        share: Share = WHOLE,
        most: int | None = None,
    ) -> pa.Table:
        """The entries of the given look-up keys (with `_h`): `_i`, the key, the ring; none that is zero.

        With `whole_key` the keys give all key columns and only those very entries are found. For a `linear` use
        the entries of a change map may come in parts, to be added up by whoever sums: that saves a sort, and a
        `share` of them can be asked for. `TooMany` if there are more than `most`.
        """
        spec = self.spec
        if not self.refs:
            return self._consolidated([], True)
        names = spec.keys if whole_key else list(spec.lookup)
        wanted = all_parts([cast(canonical(column(keys, n)), spec.types[n]) for n in names])
        found = self._found(hashes(keys), names, wanted, linear, share, most)
        return self.watched(found, "look-up")

    def _found(
        self,
        h: Ints,
        names: list[str],
        wanted: list[pa.Array],
        linear: bool = False,
        share: Share = WHOLE,
        most: int | None = None,
    ) -> pa.Table:
        """The entries of some keys, of which the hashes and the parts are given."""
        spec = self.spec
        summed = linear and spec.kind == "change"
        assert summed or share == WHOLE, "only what is added up can be found in shares"
        single = spec.unique or len(names) == len(spec.keys)
        order = order_of(h)
        sorted_h = h[order]
        found: list[tuple[Ints, pa.Table]] = []
        for ref in self.refs:
            some = _within(sorted_h, ref)
            if some.start == some.stop:
                self.runs.look(ref)
                continue
            made = self._matches(
                self.open(ref), sorted_h[some], order[some], names, wanted, share, most
            )
            if made is not None:
                probes, _ = made
                found.append(made)
                most = None if most is None else most - len(probes)
                if spec.newest and single:
                    # The newest run with a key has said it all.
                    if len(probes) == len(order):
                        break
                    rest = np.ones(len(h), np.bool_)
                    rest[probes] = False
                    left = rest[order]
                    order, sorted_h = order[left], sorted_h[left]
        if summed and found:
            table = pa.concat_tables([t for _, t in found])
            return self._indexed(np.concatenate([i for i, _ in found]), table)
        return self._consolidated(found, single)

    def _matches(
        self,
        run: Run,
        h: Ints,
        order: Ints,
        names: list[str],
        wanted: list[pa.Array],
        share: Share,
        most: int | None,
    ) -> tuple[Ints, pa.Table] | None:
        """Which keys a run has, and their entries there; `h` are the hashes of the keys in `order`, ascending."""
        first, counts = run.hashes.ranges(h)
        hit = np.flatnonzero(counts)
        if not len(hit):
            return None
        if names == self.spec.keys and not self.spec.order and counts.sum() > CROWDED * len(order):
            probes = pa.array(order)
            first, counts = self._narrowed(run, first, counts, [p.take(probes) for p in wanted])
            hit = np.flatnonzero(counts)
        mine = stretch(int(counts.sum()), share)
        if most is not None and mine.stop - mine.start > most:
            raise TooMany
        at, rows = order[hit], first[hit]
        if mine.stop - mine.start != len(hit) or int(counts.max()) > 1:
            at, rows = np.repeat(at, counts[hit])[mine], expand(rows, counts[hit])[mine]
        table = run.take(rows)
        same = _same(all_parts([column(table, n) for n in names]), wanted, at)
        if not same.all():
            at, table = at[same], table.filter(pa.array(same))
        return (at, table) if len(at) else None

    def _narrowed(
        self, run: Run, first: Ints, counts: Ints, wanted: list[pa.Array]
    ) -> tuple[Ints, Ints]:
        """Of the rows that share the hash of a whole key, the one that may be it: they are in order, so that it is bisected.

        Of a group with many entries a few are looked for, and the others are not read. Where both ends of all stretches
        have the look-up key that is wanted, so has what lies between, and the rest of the key is enough.
        """
        end, names, group = first + counts, self.spec.keys, list(self.spec.lookup)
        some = np.flatnonzero(counts)

        def held(rows: Ints, names: list[str]) -> list[pa.Array]:
            table = run.take(rows, names)
            return all_parts([column(table, n) for n in names])

        ends = [held(first[some], group), held(end[some] - 1, group)]
        width, at = len(ends[0]), pa.array(some)
        if all(equal(e, [p.take(at) for p in wanted[:width]]).all() for e in ends):
            names, wanted = names[len(group) :], wanted[width:]
        low = bisected(lambda rows: held(rows, names), wanted, first, end)
        return low, (low < end).astype(np.int64)

    def _consolidated(self, found: list[tuple[Ints, pa.Table]], single: bool) -> pa.Table:
        """What the runs say together, newest first: one entry for each key, none that is zero."""
        if not found:
            return self._indexed(np.zeros(0, np.int64), self.spec.schema.empty_table())
        at = np.concatenate([i for i, _ in found])
        table = pa.concat_tables([t for _, t in found])
        if len(found) == 1 and (single or self.spec.kind == "change"):
            kept = there(self.spec, table)
            return self._indexed(at, table, kept)
        if single and self.spec.newest:  # one run has said what there is of a key
            order = np.argsort(at, kind="stable")  # each run's are in order, and merged
            table = table.take(pa.array(order))
            return self._indexed(at[order], table, there(self.spec, table))
        if single:
            order = np.argsort(at, kind="stable")
            starts = boundaries(at[order], [])
        else:
            runs = np.repeat(np.arange(len(found)), [len(i) for i, _ in found])
            order, starts = put_together(self.spec, table, at, runs)
        merged = combine(self.spec, table.take(pa.array(order)), starts)
        kept = there(self.spec, merged)
        return self._indexed(at[order[starts]], merged, kept)

    def _indexed(self, at: Ints, table: pa.Table, kept: Bools | None = None) -> pa.Table:
        if kept is not None and not kept.all():
            at, table = at[kept], table.filter(pa.array(kept))
        return table.add_column(0, INDEX, pa.array(at))

    def count(self, h: Ints) -> Ints:
        """How many entries the runs have for each hash, those that cancel each other included."""
        out = np.zeros(len(h), np.int64)
        order = order_of(h)
        sorted_h = h[order]
        for ref in self.refs:
            some = _within(sorted_h, ref)
            if some.stop > some.start:
                _, counts = self.open(ref).hashes.ranges(sorted_h[some])
                out[order[some]] += counts
            else:
                self.runs.look(ref)
        return out

    def size(self, low: int = LEAST, high: int = MOST) -> int:
        """How many entries the runs have whose hash is in [low, high)."""
        spans = (s.within(low, high) for ref in self.refs for s in self.open(ref).segments)
        return sum(b - a for a, b in spans)

    def scan(
        self, low: int = LEAST, high: int = MOST, rows: int = 1_000_000, share: Share = WHOLE
    ) -> Iterator[pa.Table]:
        """All entries whose hash is in [low, high), consolidated and in order, about `rows` at a time.

        A `share` of them has those that a hash of the whole key says, so that a single hash can be divided.
        """
        for a, b in self.pieces(low, high, rows):
            table = self.together(self.refs, a, b, share)
            kept = there(self.spec, table)
            table = table if kept.all() else table.filter(pa.array(kept))
            if table.num_rows:
                yield self.watched(table, "scan")

    def pieces(
        self, low: int = LEAST, high: int = MOST, rows: int = 1_000_000
    ) -> Iterator[tuple[int, int]]:
        """Hash ranges of about `rows` rows each; a hash that has as many has a range of its own.

        Runs may overlap or follow each other, so each is looked at in equal steps and all marks count the same.
        """
        segments = [s for ref in self.refs for s in self.open(ref).segments]
        spans = [s.within(low, high) for s in segments]
        total = sum(b - a for a, b in spans)
        if not total:
            return
        cuts = {low, high}
        if total > rows:
            step = max(1, min(rows // MARKS, total // (len(segments) * MARKS)))
            marks = np.concatenate(
                [s.h[a:b][step // 2 :: step] for s, (a, b) in zip(segments, spans, strict=True)]
            )
            marks.sort()
            apart = max(1, rows // step)
            values, counts = np.unique(marks, return_counts=True)
            heavy = values[counts >= apart]
            cuts |= {int(m) for m in marks[apart::apart]}
            cuts |= {int(h) + after for h in heavy for after in (0, 1)}
        yield from pairwise(sorted(c for c in cuts if low <= c <= high))

    def collected(
        self, refs: Sequence[RunRef], low: int, high: int, share: Share = WHOLE
    ) -> pa.Table:
        """What some runs say together about a range of hashes, zero entries included."""
        return self.watched(self.together(refs, low, high, share), "runs")

    def together(
        self, refs: Sequence[RunRef], low: int, high: int, share: Share = WHOLE
    ) -> pa.Table:
        """The same for those who write it anew, which is no reading."""
        tables = [
            t if share == WHOLE else t.filter(pa.array(_in_share(self.spec, t, share)))
            for ref in sorted(refs, key=lambda r: (-r.version, -r.round))
            if ref.low < high and ref.high >= low
            for t in self.open(ref).tables(low, high)
        ]
        if not tables:
            return self.spec.schema.empty_table()
        if len(tables) == 1:
            return tables[0]
        return consolidate(self.spec, pa.concat_tables(tables))

    def groups(self, changes: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
        """The touched groups: their look-up keys, and their contents before and after, by `_i`."""
        spec = self.spec
        assert spec.kind != "latest", "the entries of a latest map are not added up"
        entries = total(spec, prepared(spec, changes))
        h, rows = hashes(entries), all_parts([column(entries, n) for n in spec.lookup])
        starts = boundaries(h, rows)  # entries are sorted by the look-up key first
        keys = entries.select(["_h", *spec.lookup]).take(pa.array(starts))
        before = self.lookup(keys)
        counts = np.diff(np.append(starts, entries.num_rows))
        at = np.repeat(np.arange(len(starts), dtype=np.int64), counts)
        after = pa.concat_tables([before, entries.add_column(0, INDEX, pa.array(at))])
        index = np.asarray(column(after, INDEX))
        columns = key_parts(spec, after)
        order = sort_order(index, columns)
        chosen = pa.array(order)
        firsts = boundaries(index[order], [c.take(chosen) for c in columns])
        summed = added(spec, after.drop_columns([INDEX]).take(chosen), firsts)
        kept = there(spec, summed)
        return keys, before, self._indexed(index[order][firsts], summed, kept)

    # --- writing --------------------------------------------------------------------------------------

    def merge(self, changes: pa.Table, blind: bool = False) -> tuple[pa.Table, Touched | None]:
        """The entries of the new run, and for each touched key its old and its new ring value; blind, only the run, without a look-up."""
        return self.merge_summed(total(self.spec, prepared(self.spec, changes)), blind)

    def merge_summed(self, entries: pa.Table, blind: bool) -> tuple[pa.Table, Touched | None]:
        """The same for changes that `total` has added up."""
        spec = self.spec
        assert spec.kind != "latest", "entries are put into a latest map"
        kept = any_ring(spec, entries)
        entries = entries if kept.all() else entries.filter(pa.array(kept))
        if blind:
            assert spec.kind == "change", "a value map is merged with its old values"
            return entries, None
        found = self._found(hashes(entries), spec.keys, key_parts(spec, entries))
        self.watched(found, "merge")
        at = np.asarray(column(found, INDEX))
        old, new = {}, {}
        for name in spec.rings:
            change = column(entries, name)
            before = replaced(zeros(change.type, len(change)), at, column(found, name))
            old[name], new[name] = before, plus(before, change)
        gone = np.flatnonzero(np.asarray(new[spec.count]) == 0)
        if len(gone):  # a group that empties takes its rounding error with it
            for name in spec.rings:
                new[name] = replaced(new[name], gone, zeros(new[name].type, len(gone)))
        keys = entries.select(["_h", *spec.keys])
        touched = Touched(keys, pa.table(old), pa.table(new))
        if spec.kind == "value":
            arrays = [*keys.columns, *(new[n] for n in spec.rings)]
            entries = pa.Table.from_arrays(arrays, schema=spec.schema)
        return entries, touched

    def put(self, entries: pa.Table) -> pa.Table:
        """The entries of a new run of a latest map: sorted, for each key the last one given; nothing is looked up.

        An entry whose count is 0 says that its key is gone, and nothing else.
        """
        spec = self.spec
        assert spec.kind == "latest", "only a latest map is written without a look at what it has"
        table = prepared(spec, entries)
        counts = np.asarray(column(table, spec.count))
        assert ((counts == 0) | (counts == 1)).all(), "an entry is there (1) or gone (0)"
        h = hashes(table)
        columns, down = sort_columns(spec, table)
        given = pa.array(np.arange(table.num_rows, dtype=np.int64))
        order = sort_order(h, [*columns, given], {*down, len(columns)})
        rows = pa.array(order)
        chosen = order[boundaries(h[order], [c.take(rows) for c in columns])]
        gone = counts[chosen] == 0
        out = table.take(pa.array(chosen))
        if gone.any():
            there = pa.array(chosen, mask=gone)
            for name in spec.rings[1:]:
                place = out.schema.get_field_index(name)
                out = out.set_column(place, name, column(table, name).take(there))
        return out


def stretch(rows: int, share: Share) -> slice:
    """The rows of a share: one stretch of them."""
    i, n = share
    return slice(rows * i // n, rows * (i + 1) // n)


def _in_share(spec: MapSpec, table: pa.Table, share: Share) -> Bools:
    """Which entries are in a share, by the hash of their whole key: equal keys are together."""
    i, n = share
    h = hash_keys([column(table, name) for name in spec.keys], table.num_rows)
    return np.asarray(h.view(np.uint64) % np.uint64(n) == np.uint64(i))


def _within(sorted_h: Ints, ref: RunRef) -> slice:
    """Those of some ascending hashes that lie in a run's range."""
    if not len(sorted_h):
        return slice(0, 0)
    first, last = 0, len(sorted_h)
    if sorted_h[0] < ref.low:
        first = int(sorted_h.searchsorted(np.int64(ref.low)))
    if sorted_h[-1] > ref.high:
        last = int(sorted_h.searchsorted(np.int64(ref.high), "right"))
    return slice(first, last)


def _same(held: list[pa.Array], wanted: list[pa.Array], at: Ints) -> Bools:
    """Whether keys that were found are those that are wanted at some places."""
    out = np.ones(len(at), np.bool_)
    for a, b in zip(held, wanted, strict=True):
        x, y = plain(a), plain(b)
        if x is None or y is None:
            out &= equal([a], [b.take(pa.array(at))])
        else:
            out &= x == y[at]
    return out


# --- the kernels ------------------------------------------------------------------------------------------


def consolidate(spec: MapSpec, table: pa.Table) -> pa.Table:
    """Entries sorted, one for each key: added up in a change map, the first (newest) in another."""
    columns, down = sort_columns(spec, table)
    h = hashes(table)
    order = sort_order(h, columns, down)
    starts = boundaries(h[order], columns, order)
    if spec.newest:  # of most entries nothing else is needed, so that they are moved once
        return table.take(pa.array(order[starts]))
    return added(spec, table.take(pa.array(order)), starts)


def total(spec: MapSpec, table: pa.Table) -> pa.Table:
    """Changes sorted, one for each key, added up whatever the kind of the map."""
    if table.num_rows < 2:
        return table
    h = hashes(table)
    columns, down = sort_columns(spec, table)
    order = sort_order(h, columns, down)
    starts = boundaries(h[order], columns, order)
    return added(spec, table if in_order(order) else table.take(pa.array(order)), starts)


def put_together(spec: MapSpec, table: pa.Table, at: Ints, runs: Ints) -> tuple[Ints, Ints]:
    """The order by group and entry of what several runs have, and where each entry starts in it.

    In a run the entries of a group are in order, and each is there once, so only groups that several runs
    have a part of are sorted.
    """
    places = np.argsort(at, kind="stable")
    group, run = at[places], runs[places]
    same = group[1:] == group[:-1]
    firsts = np.flatnonzero(np.append(True, ~same))
    sizes = np.diff(np.append(firsts, len(at)))
    shared = np.flatnonzero(np.repeat(run[firsts] != run[firsts + sizes - 1], sizes))
    if not len(shared):
        return places, np.arange(len(at), dtype=np.int64)
    some = places[shared]
    columns, down = sort_columns(spec, table.select(spec.keys).take(pa.array(some)))
    order = sort_order(at[some], columns, down)
    places[shared] = some[order]
    chosen = pa.array(order)
    begins = np.ones(len(at), np.bool_)
    begins[shared] = False
    begins[shared[boundaries(at[some], [c.take(chosen) for c in columns])]] = True
    return places, np.flatnonzero(begins)


def combine(spec: MapSpec, table: pa.Table, starts: Ints) -> pa.Table:
    """One entry for each group of equal keys, by the kind of the map."""
    if spec.newest and len(starts) < table.num_rows:
        return table.take(pa.array(starts))
    return added(spec, table, starts)


def added(spec: MapSpec, table: pa.Table, starts: Ints) -> pa.Table:
    """One entry for each group of equal keys, its ring values summed."""
    if len(starts) == table.num_rows:
        return table
    rings, firsts = set(spec.rings), pa.array(starts)
    arrays = {
        n: sums(column(table, n), starts) if n in rings else column(table, n).take(firsts)
        for n in table.column_names
    }
    return pa.table(arrays)


def any_ring(spec: MapSpec, table: pa.Table) -> Bools:
    """The entries with anything in them."""
    out = np.zeros(table.num_rows, np.bool_)
    for name in spec.rings:
        values = column(table, name)
        if values.type == exact.STORED:
            out |= exact.nonzero(values)
        elif values.type == pa.int64():
            out |= np.asarray(values) != 0
        else:
            out |= np.asarray(pc.not_equal(values, pa.scalar(0, values.type)))
    return out


def there(spec: MapSpec, table: pa.Table) -> Bools:
    """The entries that are not gone: in a loop a count may be 0 at a round where a sum is not. A rounding error is nothing."""
    if spec.kind != "change" or any(t == pa.float64() for _, t in spec.ring):
        return np.asarray(np.asarray(column(table, spec.count)) != 0)
    return any_ring(spec, table)
