"""Dropping with all that reads it: views, stages, streams and sinks, those that nothing reads first, all in one commit."""

from __future__ import annotations

from headwater.api.feeds import DROP
from headwater.api.modifying import Modifying


class Cascading(Modifying):
    """The part of a database that drops what reads something with it."""

    def drop(self, name: str, *, cascade: bool = False) -> None:
        """Takes away a view, source, flow, stage, stream or sink that nothing reads, with what only it needs.

        With `cascade` everything that reads it goes with it, and what reads that, in one commit: after a failure all of them
        are there. The targets of sinks stay as they are.
        """
        with self._locked():
            self._writing()
            if name in self.sink_defs or self._group is not None:
                super().drop(name)
                return
            names = self.read_by(name) if cascade else [name]
            here = self._opened, self._sinks, self._bound, self._folds
            self._opened, self._sinks = dict(self._opened), dict(self._sinks)
            self._bound, self._folds = dict(self._bound), dict(self._folds)
            try:
                with self._as_one(f"{DROP}{', '.join(names)}"):
                    for n in names:
                        super().drop(n)
            except BaseException:
                self._opened, self._sinks, self._bound, self._folds = here
                for sink in self._sinks.values():  # some were closed, and are made again
                    sink.sink = None
                raise

    def read_by(self, name: str) -> list[str]:
        """Everything that reads something, and what reads that, each before what it reads; the last is the name itself."""
        out: list[str] = []
        self._reading_first(self.catalog.named(name), set(), out)
        return out

    def _reading_first(self, name: str, seen: set[str], out: list[str]) -> None:
        if name in seen:
            return
        seen.add(name)
        graph, given = self.graph, [name]
        if name in graph.stages:  # what a stage writes goes with it
            given = [n for n, f in graph.flows.items() if f.writer == name]
        elif name in self.stream_defs:
            given = [*self.stream_defs[name].relations.values()]
        for n in given:
            readers = [
                *(s.name for s in self.sink_defs.values() if s.of == n),
                *self.catalog.readers(n),
                *graph.readers(n),
                *(s.name for s in graph.stages.values() if n in [w for w, _ in s.looks_up]),
                *(d.name for d in self.stream_defs.values() if n in d.inputs),
            ]
            for reader in readers:
                self._reading_first(reader, seen, out)
        out.append(name)
