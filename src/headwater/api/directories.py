"""Directories as nodes of the graph: `run` takes the new files of a source's directory, like an `apply` of their rows.

The files of a step are read in this process and applied by the code that `apply` runs; that they were taken is in the same
commit. So a process that is killed leaves the version before, and the files are new, or the version after. A step that
fails is tried with half of its files until the one that is wrong is alone: those before it are taken, and it stops its
directory until the next run, while the rest of the graph goes on.

A database may be somebody else's, and so may a path in its log. So a directory is looked at only where `db.source` has
named it in this process, as a stage runs only where its function is bound.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.api.applying import Beside
from headwater.api.catalog import SourceDef, well_defined
from headwater.api.taking import Taking
from headwater.dataflow.calling import Failed
from headwater.dataflow.directory import (
    File,
    changed_file,
    fact_of,
    forgotten,
    is_whole,
    marks,
    new_files,
    step,
    taken_of,
    told_changed,
)
from headwater.dataflow.graph import Graph, NodeFact
from headwater.errors import BadChange, QueryError, StageMissing
from headwater.io.files import checked_options, limits, read_file
from headwater.state.directory import local_path


@dataclass(frozen=True)
class Seen:
    """What a look at a directory showed: everything that may be taken, and of that what is new."""

    there: frozenset[str]
    new: tuple[File, ...]


@dataclass(frozen=True)
class FilesRead:
    """Files that were read and are not committed."""

    source: str
    files: list[File]
    tables: list[pa.Table]
    seconds: float


@dataclass
class Looks:
    """What the looks of a run showed, by source."""

    seen: dict[str, Seen] = field(default_factory=dict)

    def after(self, source: str, taken: Collection[File]) -> None:
        """Without files that were taken; a directory whose last new one that was is looked at again."""
        before = self.seen.pop(source, None)
        left = () if before is None else tuple(f for f in before.new if f not in taken)
        if before is not None and left:
            self.seen[source] = replace(before, new=left)


class Directories(Taking):
    """The part of a database that takes files in."""

    _looks: Looks

    def directories(self) -> dict[str, SourceDef]:
        """The sources whose rows are files of a directory."""
        return {n: s for n, s in self.catalog.sources.items() if s.is_directory}

    def new_files(self, source: str) -> list[str]:
        """The files in a source's directory that were not taken, in the order in which they will be."""
        made = self.catalog.sources[self.catalog.named(source)]
        if not self._is_watched(made):
            raise not_named(made)
        there = listed(made)
        return [f.name for f in new_files(there, self._taken(made.name))]

    def _is_watched(self, made: SourceDef) -> bool:
        return made.path is not None and self._watched.get(made.name) == str(local_path(made.path))

    def _taken(self, source: str) -> dict[str, Any]:
        facts = self.store.at(self.version).facts
        return well_defined(self.version, lambda: taken_of(source, facts))

    def _look_again(self, rested: bool = False) -> None:
        """Files that come from now on are seen."""
        super()._look_again(rested)
        self._looks = Looks()

    def _directories_ready(self, graph: Graph, failures: dict[str, Failed]) -> list[str]:
        """The directories that have new files; one that cannot be taken from is put among the failures."""
        out = []
        for name, made in self.directories().items():
            if name in failures or graph.nodes.get(name, NodeFact()).paused:
                continue
            if not self._is_watched(made):
                continue
            if name not in self._looks.seen:
                try:
                    self._looks.seen[name] = self._look(made)
                except (BadChange, QueryError) as e:
                    failures[name] = Failed(e)
                    continue
            if self._looks.seen[name].new:
                out.append(name)
        return out

    def _look(self, made: SourceDef) -> Seen:
        checked_options(made.name, made.format, made.options)  # an older version took any
        there, taken = listed(made), self._taken(made.name)
        other = changed_file(there, taken)
        if other is not None:
            raise told_changed(made.name, *other)
        return Seen(frozenset(f.name for f in there), tuple(new_files(there, taken)))

    def _read_files(self, name: str) -> FilesRead:
        """The files of the next step; those before the first that cannot be read, if there are any."""
        started = time.perf_counter()
        made = self.catalog.sources[name]
        assert made.path is not None and made.format is not None
        files = step(self._looks.seen[name].new, *limits(made.options))
        tables: list[pa.Table] = []
        for f in files:
            try:
                path = Path(made.path) / f.name
                table = read_file(path, made.row, made.format, made.options)
                _check_same(name, f, path)
            except BadChange as e:
                if not tables:
                    raise Failed(e) from e
                break
            tables.append(table)
        return FilesRead(name, files[: len(tables)], tables, time.perf_counter() - started)

    def _take_files(self, p: FilesRead, ready: Collection[str]) -> None:
        """Applies the rows of files, and notes that they were taken, in one commit; the right to write is held."""
        writer = self._writing()
        made = self.catalog.sources[p.source]
        taken = self._taken(p.source)
        if any(f.name in taken for f in p.files):  # by a run of another thread
            self._looks.after(p.source, p.files)
            return
        count = len(p.files)
        while True:
            files, tables = p.files[:count], p.tables[:count]
            part = p.seconds * count / len(p.files)
            beside = Beside(
                partial(self._marks, p.source, files, taken),
                partial(_ran, p.source, part, ready),
                {"source": p.source, "files": len(files)},
            )
            given = [(p.source, t) for t in tables]
            try:
                cast = made.format != "parquet"
                self._brought_in(writer, given, None, cast, {}, beside, time.perf_counter())
                break
            except BadChange as e:
                if count == 1:
                    told = f"`{files[0].name}` does not fit: {e.what}"
                    raise Failed(BadChange(told, hint=e.hint)) from e
                count //= 2
        self._looks.after(p.source, files)

    def _marks(
        self, source: str, files: list[File], taken: Mapping[str, Any], version: int
    ) -> dict[str, Any]:
        """The facts of a step: what it took, and without what nobody can take again."""
        assert self._writer is not None
        seen = self._looks.seen.get(source)
        there = seen.there if seen is not None else taken
        gone = forgotten(taken, there, self._writer.floor())
        return {**{fact_of(source, n): None for n in gone}, **marks(source, files, version)}


def not_named(made: SourceDef) -> StageMissing:
    """What is said of a directory that this process has not named."""
    return StageMissing(
        f"the source `{made.name}` has a directory that this process has not named: {made.path}",
        hint="declare it again with db.source(..., path=...); one that is declared without a path has none any more",
    )


def listed(made: SourceDef) -> list[File]:
    """The files of a source's directory that may be taken."""
    assert made.path is not None
    out = []
    try:
        with os.scandir(made.path) as entries:
            for e in entries:
                if e.is_file():
                    at = e.stat()
                    if is_whole(e.name, at.st_size):
                        out.append(File(e.name, at.st_size, at.st_mtime_ns))
    except OSError as e:
        raise BadChange(
            f"{made.path} cannot be looked at: {e.strerror or e}",
            hint="make the directory, or declare the source again with another path",
        ) from e
    return out


def _check_same(source: str, f: File, path: Path) -> None:
    """Raises where a file was written while it was read."""
    try:
        at = path.stat()
    except OSError as e:
        raise BadChange(f"`{f.name}` went while it was read", hint="put it back") from e
    if (at.st_size, at.st_mtime_ns) != (f.size, f.time):
        raise BadChange(
            f"`{f.name}` is still being written",
            hint="write it under a name that begins with `_` or ends in .tmp, and rename it when it is whole",
        )


def _ran(name: str, seconds: float, ready: Collection[str], rows: int, graph: Graph) -> Graph:
    """The graph after a step of a directory."""
    node = graph.nodes.get(name, NodeFact())
    graph = graph.with_node(
        name,
        epochs=node.epochs + 1,
        rows=node.rows + rows,
        seconds=round(node.seconds + seconds, 6),
    )
    return replace(graph, schedule=graph.schedule.seen({*ready, name}).ran(name))
