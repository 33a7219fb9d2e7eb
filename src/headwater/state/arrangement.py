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
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from headwater.errors import DamagedState
from headwater.state.adding import nothing, plus, replaced
from headwater.state.columns import (
    Column,
    all_taken,
    arrow,
    as_table,
    columns_of,
    joined,
    parts_of,
    taken,
    worked,
)
from headwater.state.entries import (
    added_columns,
    any_of,
    are_there,
    combined,
    consolidate,
    put_together,
    there,
    total,
)
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
    grouped,
    plain,
    sort_order,
)
from headwater.state.ordering import order_of
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
FEW = 4096
"""Entries that are sorted as they are; with more it is found out first which ones several runs have."""
CROWDED = 8
"""Entries with the hash of a whole key, above which it is bisected among them."""


class TooMany(Exception):
    """A look-up would find more entries than it was allowed to."""


@dataclass(frozen=True)
class Touched:
    """A merge's answer: the keys that changes came for with `_h`, and their ring values before and after.

    Changes of a key that come to zero touch it too, and leave its value as it was.
    """

    keys: pa.Table
    old: pa.Table
    new: pa.Table


class Found(NamedTuple):
    """Entries that were found: for which of the keys each is, and their columns, as those of a run."""

    at: Ints
    columns: list[Column]

    def rest(self, spec: MapSpec) -> list[Column]:
        """The key columns behind those that were looked up, in which entries of one group differ."""
        return self.columns[1 + len(spec.lookup) : 1 + len(spec.keys)]

    def taken(self, rows: Ints) -> Found:
        """Some of them."""
        return Found(self.at[rows], all_taken(self.columns, rows))

    def kept(self, which: Bools) -> Found:
        """Those that are to stay."""
        return self if which.all() else self.taken(which.nonzero()[0])


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
            return self.indexed(self._consolidated([], True))
        names = spec.keys if whole_key else list(spec.lookup)
        wanted = all_parts([cast(canonical(column(keys, n)), spec.types[n]) for n in names])
        found = self._found(hashes(keys), names, wanted, linear, share, most)
        return self.watched(self.indexed(found), "look-up")

    def _found(
        self,
        h: Ints,
        names: list[str],
        wanted: list[Column],
        linear: bool = False,
        share: Share = WHOLE,
        most: int | None = None,
    ) -> Found:
        """The entries of some keys, of which the hashes and the parts are given."""
        spec = self.spec
        summed = linear and spec.kind == "change"
        assert summed or share == WHOLE, "only what is added up can be found in shares"
        single = spec.unique or len(names) == len(spec.keys)
        order = order_of(h)
        sorted_h = h[order]
        found: list[Found] = []
        for ref in self.refs:
            some = _within(sorted_h, ref)
            if some.start == some.stop:
                self.runs.look(ref)
                continue
            made = self._matches(
                self.open(ref), sorted_h[some], order[some], names, wanted, share, most
            )
            if made is not None:
                found.append(made)
                most = None if most is None else most - len(made.at)
                if spec.newest and single:
                    # The newest run with a key has said it all.
                    if len(made.at) == len(order):
                        break
                    rest = np.ones(len(h), np.bool_)
                    rest[made.at] = False
                    left = rest[order]
                    order, sorted_h = order[left], sorted_h[left]
        return together(found) if summed and found else self._consolidated(found, single)

    def _matches(
        self,
        run: Run,
        h: Ints,
        order: Ints,
        names: list[str],
        wanted: list[Column],
        share: Share,
        most: int | None,
    ) -> Found | None:
        """Which keys a run has, and their entries there; `h` are the hashes of the keys in `order`, ascending."""
        first, counts = run.hashes.ranges(h)
        hit = counts.nonzero()[0]
        if not len(hit):
            return None
        size = int(counts.sum())
        if size > CROWDED * len(order) and names == self.spec.keys and not self.spec.order:
            probes = pa.array(order)
            by = [arrow(p).take(probes) for p in wanted]
            first, counts = self._narrowed(run, first, counts, by)
            hit, size = counts.nonzero()[0], int(counts.sum())
        mine = stretch(size, share)
        if most is not None and mine.stop - mine.start > most:
            raise TooMany
        at, rows, hashed = order[hit], first[hit], h[hit]
        if size != len(hit) or share != WHOLE:
            times = counts[hit]
            rows = expand(rows, times)[mine]
            at, hashed = (np.repeat(x, times)[mine] for x in (at, hashed))
        found = Found(at, run.entries(rows, hashed))
        # The keys follow the hash, and those that are looked up come first among them.
        same = are_same(parts_of(found.columns[1 : 1 + len(names)]), wanted, at)
        if not same.all():
            found = found.kept(same)
        return found if len(found.at) else None

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

    def _consolidated(self, found: list[Found], single: bool) -> Found:
        """What the runs say together, newest first: one entry for each key, none that is zero."""
        spec = self.spec
        if not found:
            return nothing_found(spec)
        every = together(found)
        if len(found) > 1 or (not single and spec.kind != "change"):
            if single:  # the entries of each run are in order, and merged
                order = np.argsort(every.at, kind="stable")
                starts = boundaries(every.at[order], [])
            elif len(every.at) < FEW:
                by = parts_of(every.rest(spec))
                order, starts = grouped(every.at, by)
            else:
                runs = np.repeat(np.arange(len(found)), [len(f.at) for f in found])
                order, starts = put_together(spec, every.rest(spec), every.at, runs)
            every = Found(every.at[order[starts]], combined(spec, every.columns, order, starts))
        return every.kept(are_there(spec, every.columns))

    def indexed(self, found: Found) -> pa.Table:
        """What was found, as a table."""
        return as_table([found.at, *found.columns], [INDEX, *self.spec.types])

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
            table = _only(table, there(self.spec, table))
            if table.num_rows:
                yield self.watched(table, "scan")

    def is_empty(self) -> bool:
        """Whether no entry is there; the first ones mostly say so, and the others are not read."""
        if not self.refs:
            return True
        largest = self.open(max(self.refs, key=lambda r: r.rows)).hashes
        high = int(largest.at(np.array([min(FEW, largest.rows) - 1]))[0])
        spans = ((LEAST, high), (high, MOST))
        return not any(t.num_rows for a, b in spans for t in self.scan(a, b))

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
        columns = columns_of(after, spec.types)
        by = parts_of(columns[1 : 1 + len(spec.keys)])
        order, firsts = grouped(index, by)
        summed = Found(index[order[firsts]], added_columns(spec, columns, order, firsts))
        return keys, before, self.indexed(summed.kept(are_there(spec, summed.columns)))

    # --- writing --------------------------------------------------------------------------------------

    def merge(self, changes: pa.Table, blind: bool = False) -> tuple[pa.Table, Touched | None]:
        """The entries of the new run, and for each touched key its old and its new ring value; blind, only the run, without a look-up."""
        return self.merge_summed(total(self.spec, prepared(self.spec, changes)), blind)

    def merge_summed(self, entries: pa.Table, blind: bool) -> tuple[pa.Table, Touched | None]:
        """The same for changes that `total` has added up."""
        spec = self.spec
        assert spec.kind != "latest", "entries are put into a latest map"
        keyed = 1 + len(spec.keys)
        columns = columns_of(entries, spec.types)
        moved = any_of(columns[keyed:])
        if blind:
            assert spec.kind == "change", "a value map is merged with its old values"
            return _only(entries, moved), None
        found = self._found(columns[0], spec.keys, parts_of(columns[1:keyed]))
        if Arrangement.watch is not None:
            self.watched(self.indexed(found), "merge")
        old = [
            replaced(nothing(c), found.at, f)
            for c, f in zip(columns[keyed:], found.columns[keyed:], strict=True)
        ]
        new = [plus(a, b) for a, b in zip(old, columns[keyed:], strict=True)]
        gone = np.flatnonzero(np.asarray(new[0]) == 0)
        if len(gone):  # a group that empties takes its rounding error with it
            new = [replaced(c, gone, taken(nothing(c), gone)) for c in new]
        keys = entries.select(["_h", *spec.keys])
        touched = Touched(keys, as_table(old, spec.rings), as_table(new, spec.rings))
        if spec.kind == "value":
            arrays = [*keys.columns, *touched.new.columns]
            entries = pa.Table.from_arrays(arrays, schema=spec.schema)
        return _only(entries, moved), touched

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
        chosen = order[boundaries(h[order], columns, order)]
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


def _only(table: pa.Table, which: Bools) -> pa.Table:
    """Some rows of a table; the table itself if they are all."""
    return table if which.all() else table.filter(pa.array(which))


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


def nothing_found(spec: MapSpec) -> Found:
    """No entries."""
    return Found(np.zeros(0, np.int64), [worked(pa.array([], t)) for t in spec.types.values()])


def together(found: Sequence[Found]) -> Found:
    """What was found in several runs."""
    if len(found) == 1:
        return found[0]
    columns = [joined(c) for c in zip(*(f.columns for f in found), strict=True)]
    return Found(np.concatenate([f.at for f in found]), columns)


def are_same(held: list[Column], wanted: list[Column], at: Ints) -> Bools:
    """Whether keys that were found are those that are wanted at some places."""
    out: Bools | None = None
    for a, b in zip(held, wanted, strict=True):
        x, y = plain(a), plain(b)
        if x is None or y is None:
            same = equal([arrow(a)], [arrow(b).take(pa.array(at))])
        else:
            same = x == y[at]
        out = same if out is None else out & same
    return np.ones(len(at), np.bool_) if out is None else out
