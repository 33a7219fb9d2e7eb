"""Streaming: the streams of a database run in the commit that brings what they wait for.

After the views of a commit and what it closes, each stream takes the rows that came of its headers (of sources, of ledgers,
of streams before it), runs what is ready, and what it tells is a change like any other: carried through the views that read
it, closed as far as the stream has come, and there for the streams behind it. All of it is one version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.api.catalog import as_stored
from headwater.api.feeding import Told
from headwater.api.over import Over, closed_of, of_rows
from headwater.api.stream_binding import Binding
from headwater.api.stream_defs import StreamDef
from headwater.calculus.patterns import Punctuation, Punctuations, Range, below
from headwater.engine.change import Change
from headwater.engine.here.equal_rows import consolidated
from headwater.engine.slices import whole
from headwater.engine.working import Working
from headwater.errors import HeadwaterError, StreamError
from headwater.folds.fold import Gave
from headwater.folds.pending import add, check_placed, pending_spec
from headwater.folds.scale import Scale
from headwater.folds.tasks import Spread
from headwater.plan.program import WEIGHT
from headwater.state.run import column
from headwater.state.store import Commit as StoreCommit

WAITS = "waits:"
"""How the fact is called that says that rows of a stream wait to be looked at, whatever comes."""


def counted(final: Mapping[str, pa.Table]) -> dict[str, int]:
    """How many rows became final, by view."""
    return {n: int(np.asarray(column(t, WEIGHT)).sum()) for n, t in final.items()}


class Streaming(Binding):
    """The part of a database that runs streams."""

    def _fold(
        self,
        commit: StoreCommit,
        working: Working,
        carried: Mapping[str, Change],
        over: Over,
        final: Mapping[str, pa.Table],
        told: Told,
    ) -> tuple[Over, dict[str, pa.Table], Told]:
        """Runs all streams, each after those that it may read."""
        finals, moved = dict(final), dict(carried)
        for stream in self.stream_defs.values():
            gave = self._run_stream(commit, working, stream, moved, finals, over)
            if gave is None:
                continue
            staged = {
                stream.relations[h]: Change.of(_once(table))
                for h, table in gave.tables.items()
                if table.num_rows
            }
            working.go_on()
            increment = None
            if staged:
                _, increment = self._carry(working, staged, self._wanted(self.graph), again=True)
                moved |= staged
            with as_stored(self.version):
                more = self._tell(working, self.graph, staged, increment) if staged else Told()
            told.runs |= more.runs
            points = self._closed_by(stream, gave, over)
            over, new = self._close(commit, working, staged, points, over)
            for name, table in new.items():
                known = [finals[name]] if name in finals else []
                finals[name] = pa.concat_tables([*known, table])
        return over, finals, told

    def _run_stream(
        self,
        commit: StoreCommit,
        working: Working,
        stream: StreamDef,
        moved: Mapping[str, Change],
        final: Mapping[str, pa.Table],
        over: Over,
    ) -> Gave | None:
        """Runs one stream; rows of one that is not bound wait."""
        came = {}
        for h in stream.inputs:
            if h in self.program.views:
                if h in final:
                    came[h] = final[h]
            elif h in moved and moved[h].rows:
                came[h] = whole(moved[h], self.path, working)
        closed = {h: self._closed_at(h, over) for h in stream.inputs}
        waits, fold = f"{WAITS}{stream.name}", self.fold_of(stream)
        if fold is None:
            self._let_wait(working, stream, came)
            commit.set(waits, True)
            return None
        before = {h: self._closed_at(h, self.over) for h in stream.inputs}
        waited = waits in commit.base.facts
        if waited:
            commit.set(waits, None)
        elif not came and closed == before:
            return None
        try:
            most = self.policy.most_here
            spread = Spread(self.session, self.path, fold.layout, working, most)
            lasting = self._lasting(stream)
            known = None if waited else before
            return fold.run(working, came, closed, lasting, commit.version, spread, known)
        except HeadwaterError as e:
            e.what = f"the stream `{stream.name}`: {e.what}"
            e.args = (e.what,)
            raise

    def _let_wait(self, working: Working, stream: StreamDef, came: Mapping[str, pa.Table]) -> None:
        """Rows wait, of a stream that is new or whose functions this process does not know."""
        for h, table in came.items():
            order, row = None if stream.by_arrival else stream.order[h], self._row_of(h)
            if order is not None:
                check_placed(stream.name, h, table, order, Scale(dict(row.fields)[order]))
            add(working, pending_spec(stream.name, h, row, order), table)

    def _lasting(self, stream: StreamDef) -> frozenset[str]:
        """The headers of a stream whose rows are never deleted: final rows of views, and append-only sources."""
        sources = self.catalog.sources
        return frozenset(h for h in stream.inputs if h not in sources or sources[h].append_only)

    def _row_of(self, name: str) -> Any:
        """The columns of a header."""
        if name in self.program.views:
            return self.program.views[name].type
        return self.catalog.sources[name].row

    def _closed_at(self, name: str, over: Over) -> Punctuations:
        """What is closed of a header: of a source what was said, of a view what follows from that."""
        if name in self.program.views:
            view = self.program.views[name]
            return of_rows(self._promises(over), view)
        source = self.catalog.sources[name]
        if source.static:
            return Punctuations.EVERYTHING
        return closed_of(source, over.closed)

    def _closed_by(self, stream: StreamDef, gave: Gave, over: Over) -> dict[str, Punctuation]:
        """What of a stream's outputs is over after a run: what stands before where it has come."""
        out: dict[str, Punctuation] = {}
        for h in stream.outputs:
            name, relation = stream.closes.get(h), stream.relations[h]
            scale = None
            if name is not None:
                t: Any = dict(self.catalog.sources[relation].row.fields)[name]
                scale = Scale(t)
                self._check_follows(stream, h, name, gave, over, scale)
            if gave.ended:
                out[relation] = Punctuation()
            elif name is not None and scale is not None and gave.bound is not None:
                value = scale.values(np.array([gave.bound], scale.kind)).to_pylist()[0]
                out[relation] = Punctuation.of({name: below(_plain(value))})
        return out

    def _check_follows(
        self, stream: StreamDef, header: str, name: str, gave: Gave, over: Over, scale: Scale
    ) -> None:
        """Raises where a row is told that should have been told before."""
        table, before = gave.tables.get(header), over.closed.get(stream.relations[header])
        if table is None or not table.num_rows:
            return
        values = column(table, name)
        if values.null_count:
            raise StreamError(
                f"the stream `{stream.name}` tells a row of `{header}` with NULL in `{name}`, by which it is closed",
                hint=f"give `{name}` a value; or define the stream without closes for `{header}`",
            )
        patterns = [p.at(name) for p in before or () if p.shape == (name,)]
        bounds = [b for p in patterns if isinstance(p, Range) and (b := scale.bound(p)) is not None]
        if not bounds:
            return
        numbers = scale.numbers(values)
        if (numbers < max(bounds)[0]).any():
            raise StreamError(
                f"the stream `{stream.name}` tells a row of `{header}` whose `{name}` is closed already",
                hint=f"`{name}` does not follow the order of the stream; define it without closes for `{header}`",
            )


def _once(table: pa.Table) -> pa.Table:
    """Rows as they are inserted."""
    ones = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
    return consolidated(table.append_column(WEIGHT, ones))


def _plain(value: Any) -> Any:
    """A value as patterns have it: instants without a zone."""
    tz = getattr(value, "tzinfo", None)
    return value.replace(tzinfo=None) if tz is not None else value
