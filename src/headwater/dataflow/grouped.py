"""Stages with groups and state: the state of all groups is looked up at once, and what calls wrote is entries of its maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.dataflow import maps
from headwater.dataflow.call import Made
from headwater.dataflow.calling import Failed
from headwater.dataflow.define import Part, arrow_schema
from headwater.dataflow.groups import Groups, Keyed
from headwater.dataflow.keeping import Held, State, Writes
from headwater.dataflow.maps import COUNT, WRITTEN, entries, keyed
from headwater.dataflow.one_record import closed, one_record
from headwater.dataflow.rows import frozen, frozen_rows, rows_of, values_of
from headwater.errors import StageError, StateConflict
from headwater.state.arrangement import INDEX
from headwater.state.hashing import hash_keys
from headwater.state.keys import Bools, Ints, canonical
from headwater.state.positions import from_position
from headwater.state.run import LEAST, MOST, MapSpec, column


@dataclass
class Written:
    """What calls wrote of a part: the groups' keys by column, by which calls, at which entries, and what."""

    groups: list[pa.Array]
    by: list[int]
    at: list[Any]
    values: list[Any] = field(default_factory=list)


def _numbered(groups: Sequence[Sized]) -> Ints:
    """For each element of all groups the number of its group."""
    return np.repeat(np.arange(len(groups)), np.array(list(map(len, groups)), np.int64))


class Grouped(Keyed):
    """The function of each group, with its state."""

    def run(self, tables: Mapping[str, pa.Table]) -> Made:
        s = self.stage
        self._tick(tables)
        self._sweep()
        due = self._due()
        more = [due] if due is not None else []
        if s.groups == "all":
            more += self._all_groups()
        groups = self.groups(tables, more)
        named = self.named(groups)
        seen = {p.kept.name: self._seen(groups, p) for p in s.state if p.kept.only}
        held = {p.kept.name: self._held(groups, p, seen.get(p.kept.name, [])) for p in s.state}
        wrote: list[Writes] = []
        kept, clock, width = s.kept, self.made.clock, len(groups.arrays)
        single = len(kept) == 1 and kept[0].kind == "record" and not kept[0].name
        record = one_record(kept[0]) if single else None
        for g in range(groups.count):
            args = [groups.of(i.name, g) for i in s.inputs]
            by_name = named(g)
            if s.state:
                state: Any
                if record is not None:
                    state = given = record(kept[0], held[""][g].get(()), clock, width)
                else:
                    was = {n: h[g] for n, h in held.items()}
                    state = State(kept, was, clock, {n: x[g] for n, x in seen.items()}, width)
                    given = state.given()
                if "state" in s.takes:
                    by_name["state"] = given
                well = self.call(groups, g, args, by_name)
                wrote.append(closed(state) if well else Writes({n: Held() for n in held}))
            else:
                self.call(groups, g, args, by_name)

        def ended() -> None:
            self.tables(self.where(groups))
            self._write(groups, wrote)

        def aside(g: int) -> tuple[Any, list[Any]]:
            if wrote:
                wrote[g] = Writes({n: Held() for n in held})
            return self.rows_given(groups, g)

        self.finish(ended, groups.count, lambda g: self._check_writes(groups, g, wrote), aside)
        if s.clock is not None:
            self._wake(groups, wrote, due)
        return self.made

    # --- time ------------------------------------------------------------------------------------------------------

    def _tick(self, tables: Mapping[str, pa.Table]) -> None:
        """The clock is the greatest time so far."""
        name = self.stage.clock
        if name is None:
            return
        seen = [self.made.clock]
        for i in self.stage.inputs:
            if name in i.columns:
                seen += values_of(tables[i.name].column(name))
        self.made.clock = max((v for v in seen if v is not None), default=None)

    def _due(self) -> list[pa.Array] | None:
        """The keys of groups whose time has come."""
        if self.stage.clock is None or self.made.clock is None:
            return None
        _, spec = maps.due_specs(self.stage)
        t = maps.clock_type(self.stage)
        key = keyed(spec, [], 1)
        first = pa.table({"due": pa.array([None], t)})
        until = pa.table({"due": pa.array([self.made.clock], t)})
        found = from_position(self.context.arrangement(spec), key, first, until=until)
        columns = [n for n, _ in spec.key if n != "due"]
        h = hash_keys([column(found, n) for n in columns], found.num_rows)
        mine = (h >= np.int64(self.context.low)) & (h <= np.int64(self.context.high - 1))
        found = found.filter(pa.array(mine))
        return [column(found, n) for n in columns] if found.num_rows else None

    def _wake(self, groups: Groups, wrote: list[Writes], due: list[pa.Array] | None) -> None:
        """When groups are called again, in place of when they were to be."""
        by_group, in_order = maps.due_specs(self.stage)
        t = maps.clock_type(self.stage)
        found = self.context.arrangement(by_group).lookup(
            keyed(by_group, groups.arrays, groups.count)
        )
        old = dict(
            zip(
                np.asarray(column(found, INDEX)).tolist(),
                values_of(found.column("due")),
                strict=True,
            )
        )
        clock = self.made.clock
        changed: list[tuple[int, Any, Any]] = []
        for g in range(groups.count):
            before = old.get(g)
            writes = wrote[g] if wrote else None
            if writes is not None and writes.wakes:
                after = writes.wake
            else:
                after = (
                    None if before is not None and clock is not None and before <= clock else before
                )
            if before != after:
                changed.append((g, before, after))
        if not changed:
            return
        at = pa.array([g for g, _, _ in changed], pa.int64())
        keys = {n: a.take(at) for (n, _), a in zip(by_group.key, groups.arrays, strict=True)}
        try:
            new = pa.array([after for _, _, after in changed], t)
        except (pa.ArrowException, TypeError, ValueError) as e:
            g, _, after = changed[0]
            raise Failed(
                StageError(f"wake({after!r}) is no time of the clock"), groups.keys[g]
            ) from e
        there = pa.array([int(after is not None) for _, _, after in changed], pa.int64())
        self.made.add(by_group, entries(by_group, {**keys, COUNT: there, "due": new}, len(changed)))
        for values, sign in ((pa.array([b for _, b, _ in changed], t), -1), (new, 1)):
            some = values.is_valid()
            columns = {n: a.filter(some) for n, a in keys.items()} | {"due": values.filter(some)}
            count = len(columns["due"])
            columns[COUNT] = pa.array(np.full(count, sign, np.int64))
            self.made.add(in_order, entries(in_order, columns, count))

    # --- state -----------------------------------------------------------------------------------------------------

    def _all_groups(self) -> list[list[pa.Array]]:
        """The keys of all groups that have state."""
        out = []
        for p in self.stage.state:
            spec = maps.state_spec(self.stage, p)
            for table in self._scan(spec):
                table = table.filter(pa.array(self._fresh(p, table)))
                keys = [column(table, n) for n in maps.group_of(spec)]
                if keys or table.num_rows:
                    out.append(keys)
        return out

    def _scan(self, spec: MapSpec) -> Iterator[pa.Table]:
        """All entries of a state map whose groups are computed here."""
        at, low, high = self.context.arrangement(spec), self.context.low, self.context.high
        if set(spec.lookup) == set(maps.group_of(spec)):
            yield from at.scan(low, high)
            return
        for table in at.scan():
            yield table.filter(pa.array(self._are_here(spec, table)))

    def _are_here(self, spec: MapSpec, table: pa.Table) -> Bools:
        """Which entries are of groups that are computed here; where the hash is of more than the group, by a hash of that."""
        low, high = self.context.low, self.context.high
        if low <= LEAST and high >= MOST:
            return np.ones(table.num_rows, np.bool_)
        names = maps.group_of(spec)
        if set(spec.lookup) == set(names):
            h = np.asarray(column(table, "_h"))
        else:
            h = hash_keys([canonical(column(table, n)) for n in names], table.num_rows)
        here: Bools = (h >= np.int64(low)) & (h <= np.int64(high - 1))
        return here

    def _held(self, groups: Groups, p: Part, seen: list[set[Any]]) -> list[dict[Any, Any]]:
        """What a part is for each group; `seen` are the entries that its rows name, where only those are looked up."""
        spec = maps.state_spec(self.stage, p)
        at = self.context.arrangement(spec)
        if p.kept.only:
            pairs = self._named_entries(groups, p, seen)
            arrays = [pairs.column(n).combine_chunks() for n in spec.lookup]
            found = at.lookup(keyed(spec, arrays, pairs.num_rows), whole_key=True)
            index = np.asarray(column(pairs, INDEX))[np.asarray(column(found, INDEX))].tolist()
        else:
            found = at.lookup(keyed(spec, groups.arrays, groups.count))
            index = np.asarray(column(found, INDEX)).tolist()
        out: list[dict[Any, Any]] = [{} for _ in range(groups.count)]
        fresh = self._fresh(p, found)
        if not fresh.all():
            found = found.filter(pa.array(fresh))
            index = [g for g, f in zip(index, fresh.tolist(), strict=True) if f]
        if p.kept.kind == "bag":
            rows = map(frozen, rows_of(found, [f"k{j}" for j in range(len(p.row.fields))]))
            for g, row, n in zip(index, rows, values_of(found.column(COUNT)), strict=True):
                out[g][row] = n
            return out
        values = rows_of(found, [f"v{j}" for j in range(len(p.row.fields))])
        if p.kept.kind == "record":
            for g, value in zip(index, values, strict=True):
                out[g][()] = value
            return out
        keys = frozen_rows([values_of(found.column(f"k{j}")) for j in range(len(p.key.fields))])
        for g, key, value in zip(index, keys, values, strict=True):
            out[g][key] = value
        return out

    def _fresh(self, p: Part, table: pa.Table) -> Bools:
        """Which entries have not expired; one that was written before the clock began has not."""
        clock = self.made.clock
        if p.expires is None or clock is None:
            return np.ones(table.num_rows, np.bool_)
        written = values_of(table.column(WRITTEN))
        return np.array([v is None or clock - v < p.expires for v in written], np.bool_)

    def _sweep(self) -> None:
        """Entries that have expired are taken away, all of them, once in the time that they are kept for."""
        clock, since = self.made.clock, self.context.swept
        for p in self.stage.state:
            if (
                p.expires is None
                or clock is None
                or (since is not None and clock - since < p.expires)
            ):
                continue
            self.made.swept = clock
            spec = maps.state_spec(self.stage, p)
            if since is None:
                self._begin(p, spec)
                continue
            for table in self._scan(spec):
                gone = table.filter(pa.array(~self._fresh(p, table)))
                there = pa.array(np.zeros(gone.num_rows, np.int64))
                place = gone.schema.get_field_index(COUNT)
                self.made.add(spec, gone.set_column(place, COUNT, there))

    def _begin(self, p: Part, spec: MapSpec) -> None:
        """Entries that were written before there was a time begin with the first."""
        for table in self._scan(spec):
            some = table.filter(column(table, WRITTEN).is_null())
            at = pa.array([self.made.clock] * some.num_rows, maps.clock_type(self.stage))
            self.made.add(spec, some.set_column(some.schema.get_field_index(WRITTEN), WRITTEN, at))

    def _named_entries(self, groups: Groups, p: Part, seen: list[set[Any]]) -> pa.Table:
        """The entries that rows of groups name: the columns of the group and of the entry, and `_i`."""
        wanted = [at for named in seen for at in named]
        which = _numbered(seen)
        columns = {f"g{j}": a.take(pa.array(which)) for j, a in enumerate(groups.arrays)}
        for j, f in enumerate(arrow_schema(p.key)):
            columns[f"k{j}"] = pa.array([at[j] for at in wanted], f.type)
        return pa.table({INDEX: pa.array(which), **columns})

    def _seen(self, groups: Groups, p: Part) -> list[set[Any]]:
        """For each group the entries of a part that its rows name."""
        names = p.kept.only
        out: list[set[Any]] = [set() for _ in range(groups.count)]
        for i in self.stage.inputs:
            if not maps.only_columns(p, i):
                continue
            rows, starts = groups.rows[i.name], groups.starts[i.name]
            values = [list(map(itemgetter(i.columns.index(c)), rows)) for c in names]
            entries = frozen_rows(values)
            for g in range(groups.count):
                out[g].update(entries[starts[g] : starts[g + 1]])
        return out

    def _write(self, groups: Groups, wrote: list[Writes]) -> None:
        """What all calls wrote, as entries; `StateConflict` where two disagree."""
        others = any(writes.others for writes in wrote)
        for p in self.stage.state:
            name, spec = p.kept.name, maps.state_spec(self.stage, p)
            if others:
                new = self._compared(groups, p, wrote)
            else:  # groups that write their own entries cannot disagree
                own = [writes.own[name].writes for writes in wrote]
                which = _numbered(own)
                arrays = [a.take(pa.array(which)) for a in groups.arrays]
                new = Written(arrays, which.tolist(), [at for w in own for at in w])
                new.values = [v for w in own for v in w.values()]
            if new.at:
                self._put_entries(spec, self._entries(groups, p, spec, new))

    def _compared(self, groups: Groups, p: Part, wrote: list[Writes]) -> Written:
        """What calls wrote for their own groups and for others, which may be the same."""
        assert self.stage.key is not None
        written: dict[tuple[Any, Any], tuple[int, Any]] = {}
        for g, writes in enumerate(wrote):
            key = frozen(groups.keys[g])
            for at, value in writes.own[p.kept.name].writes.items():
                self._note(p, written, (key, at), g, value, groups)
            for other, held in writes.others.items():
                for at, value in held[p.kept.name].writes.items():
                    self._note(p, written, (other, at), g, value, groups)
        by = [g for g, _ in written.values()]
        where = lambda i: Failed(ValueError(), self.shown(groups.keys[by[i]]))  # noqa: E731
        name = f"the state of {self.stage.name}"
        arrays = self.converted(name, self.stage.key, [k for k, _ in written], where)
        return Written(arrays, by, [at for _, at in written], [v for _, v in written.values()])

    def _check_writes(self, groups: Groups, g: int, wrote: list[Writes]) -> None:
        """Raises where a call wrote what does not fit."""
        for p in self.stage.state if wrote else ():
            own = wrote[g].own[p.kept.name].writes
            if own:
                which = [g] * len(own)
                arrays = [a.take(pa.array(which)) for a in groups.arrays]
                new = Written(arrays, which, list(own), list(own.values()))
                self._entries(groups, p, maps.state_spec(self.stage, p), new)

    def _put_entries(self, spec: MapSpec, table: pa.Table) -> None:
        """New entries; those of records of groups that are computed elsewhere are kept apart."""
        mine = self._are_here(spec, table)
        if spec.kind != "latest" or mine.all():
            self.made.add(spec, table)
            return
        self.made.add(spec, table.filter(pa.array(mine)))
        self.made.foreign.append((spec, table.filter(pa.array(~mine))))

    def _note(
        self,
        p: Part,
        written: dict[tuple[Any, Any], tuple[int, Any]],
        at: tuple[Any, Any],
        g: int,
        value: Any,
        groups: Groups,
    ) -> None:
        before = written.get(at)
        if before is None:
            written[at] = g, value
        elif p.kept.kind == "bag":
            written[at] = before[0], before[1] + value
        elif frozen(before[1]) != frozen(value):
            what = f"the state at {self.shown(at[0])!r} is written by the groups {self.shown(groups.keys[before[0]])!r} and {self.shown(groups.keys[g])!r}, and differently"
            raise Failed(StateConflict(what), self.shown(groups.keys[g]))

    def _entries(self, groups: Groups, p: Part, spec: MapSpec, new: Written) -> pa.Table:
        """What was written, as entries of the part's map."""
        where = lambda i: Failed(ValueError(), self.shown(groups.keys[new.by[i]]))  # noqa: E731
        columns: dict[str, Any] = {f"g{j}": a for j, a in enumerate(new.groups)}
        of, count = p.row if p.kept.kind == "bag" else p.key, len(new.at)
        names = f"the state of {self.stage.name}"
        entry = self.converted(names, of, new.at, where) if of.fields else []
        columns |= {f"k{j}": a for j, a in enumerate(entry)}
        if p.kept.kind == "bag":
            columns[COUNT] = pa.array(new.values, pa.int64())
            return entries(spec, columns, count)
        blank = (None,) * len(p.row.fields)
        values = [blank if v is None else v for v in new.values]
        columns |= {f"v{j}": a for j, a in enumerate(self.converted(names, p.row, values, where))}
        columns[COUNT] = pa.array([int(v is not None) for v in new.values], pa.int64())
        if p.expires is not None:
            columns[WRITTEN] = pa.array([self.made.clock] * count, maps.clock_type(self.stage))
        return entries(spec, columns, count)
