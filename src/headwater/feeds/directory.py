"""A directory as a feed: its files, each taken once, in the order of their times; and another one whose files are deletions.

Its cursor is a set: every file that was taken is a fact, with its size, its time and the version that took it (`listing`).
A batch has a piece a file, so that those before one that is wrong are taken. A name that was taken and has another
size or time is a changed file: it stops the directory, or with `changed="replace"` its rows of before are taken back in the
commit that brings the new ones, for which they are kept by file (`<source>_files`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from headwater.errors import BadChange, FeedAway, HeadwaterError, QueryError
from headwater.feeds.feed import Batch, Cursor, Declared, Limit
from headwater.feeds.in_tasks import Unit, read_in_tasks
from headwater.feeds.listing import (
    File,
    Mark,
    changed_file,
    forgotten,
    is_whole,
    new_files,
    step,
    told_changed,
)
from headwater.feeds.records import Records, reader_of
from headwater.io.events import Delta
from headwater.io.files import check_held
from headwater.state.directory import local_path

MOST_FILES = 100
"""How many files are taken at a time unless `max_files` says otherwise."""
SPARK_BYTES = 64 << 20
"""From how many bytes on tasks of Spark read the files of a batch, unless `spark_bytes` says otherwise."""
DELETES = "deletes/"
"""How the names begin, in cursors, of files whose rows are deletions."""


@dataclass(frozen=True)
class Seen:
    """What a look showed: everything that may be taken, and of that what is new or changed, in order."""

    there: frozenset[str]
    new: tuple[File, ...]


class DirectoryFeed:
    """The files of a directory."""

    replays: ClassVar[bool] = True
    by_name: ClassVar[bool] = True

    def __init__(self, declared: Declared):
        self.declared = declared
        assert declared.path is not None
        self.path = Path(declared.path)
        deletes = declared.options.get("deletes")
        self.deletes = None if deletes is None else Path(local_path(deletes))
        self.replaces = declared.options.get("changed") == "replace"
        self.reader = reader_of(declared, declared.format)
        self.seen: Seen | None = None
        self.here: set[str] = set()

    def read(self, after: Cursor, limit: Limit) -> Batch | None:
        """The files of the next step; those before the first that cannot be read, if there are any."""
        taken = marks_of(after)
        files = self._next(taken)
        if not files:
            return None
        files = step(files, self.declared.number("max_files", MOST_FILES), limit.bytes)
        if self._is_large(files):
            batch = self._in_tasks(files)
            if batch is not None:
                return batch
        pieces: list[Batch] = []
        for f in files:
            try:
                found = self._read(f)
            except BadChange:
                if not pieces:
                    self.seen = None
                    raise
                break
            pieces.append(self._piece(f, found))
        return Batch(None, {}, pieces=tuple(pieces))

    def _is_large(self, files: list[File]) -> bool:
        """Whether tasks of Spark read files: where they are many bytes, and none of them is known to be wrong."""
        most = self.declared.number("spark_bytes", SPARK_BYTES)
        if self.replaces or self.declared.spark is None or sum(f.size for f in files) <= most:
            return False
        return not any(f.name in self.here for f in files)

    def _in_tasks(self, files: list[File]) -> Batch | None:
        """Files that tasks have read, as one batch; None where one is wrong, or Spark is not to be had: they are read here then."""
        units = [Unit(str(self._path(f)), f.name, f.name.startswith(DELETES)) for f in files]
        try:
            root = Path(self.declared.home)
            rows, rejected = read_in_tasks(self.declared.spark(), self.reader, units, root)
            for f in files:
                check_same(f, self._path(f))
        except (
            HeadwaterError,
            ImportError,
            OSError,
            RuntimeError,
        ):  # the one that is wrong is found here
            self.read_here([f.name for f in files])
            return None
        cursor = {f.name: [f.size, f.time] for f in files}
        shown = files[0].name + (f" and {len(files) - 1} more" if len(files) > 1 else "")
        return Batch(rows, cursor, rejected=rejected, name=shown, read="spark")

    def read_here(self, names: Iterable[str]) -> None:
        """Some files are read in this process, one by one, so that one that is wrong is alone."""
        self.here |= {*names}

    def committed(self, cursor: Cursor) -> None:
        """Nothing outside is to be told."""
        self.here -= {*cursor}

    def look_again(self) -> None:
        """What an earlier look showed is forgotten."""
        self.seen = None

    def close(self) -> None:
        """Nothing is held open; the next look is a new one."""
        self.seen = None

    def new(self, after: Cursor) -> list[str]:
        """The files that were not taken, in the order in which they will be."""
        taken = marks_of(after)
        return [f.name for f in new_files(self._look(taken)[1], taken)]

    def forgotten(self, after: Cursor, floor: int) -> list[str]:
        """The names that are gone, and were taken by versions that cannot be read any more."""
        taken = marks_of(after)
        there = taken.keys() if self.seen is None else self.seen.there
        return forgotten(taken, there, floor)

    def _next(self, taken: Mapping[str, Mark]) -> list[File]:
        """The files that are to be taken; those of the last look while it has any."""
        if self.seen is not None:
            left = [f for f in self.seen.new if not _is_taken(f, taken)]
            if left:
                return left
        there, other = self._look(taken)
        changed = changed_file(other, taken)
        if changed is not None and not self.replaces:
            raise told_changed(self.declared.name, *changed)
        new = new_files(other, {})
        self.seen = Seen(frozenset(there), tuple(new))
        return new

    def _look(self, taken: Mapping[str, Mark]) -> tuple[set[str], list[File]]:
        """The names of all files that may be taken, and the files that are not as they were taken."""
        there, other = looked(self.path, "", taken)
        if self.deletes is not None:
            more, gone = looked(self.deletes, DELETES, taken)
            there, other = there | more, other + gone
        return there, other

    def _path(self, f: File) -> Path:
        if f.name.startswith(DELETES):
            assert self.deletes is not None
            return self.deletes / f.name.removeprefix(DELETES)
        return self.path / f.name

    def _read(self, f: File) -> Records:
        path = self._path(f)
        found = self.reader.file(path, f.name)
        check_same(f, path)
        return found

    def _piece(self, f: File, found: Records) -> Batch:
        rows: Any = found.table
        if f.name.startswith(DELETES):
            rows = Delta(deletes=found.table)
        return Batch(
            rows,
            {f.name: [f.size, f.time]},
            rejected=found.rejected,
            name=f.name,
            replaces=self.replaces,
        )


def check(declared: Declared) -> None:
    """Raises where files of the format cannot hold rows of the source, or options do not go together."""
    check_held(declared.name, declared.row, declared.format)
    deletes = declared.options.get("deletes")
    if deletes is not None and "://" in deletes:
        raise QueryError(
            f"the option `deletes` of `{declared.name}` is {deletes!r}",
            hint="give a local directory",
        )
    if deletes is not None and declared.options.get("changed") == "replace":
        raise QueryError(
            f"`{declared.name}` has deletions in files, and files that are replaced",
            hint="a file that is replaced takes its own rows back: leave one of `deletes` and `changed` out",
        )


def marks_of(after: Cursor) -> dict[str, Mark]:
    """A cursor: what is noted of each file."""
    return after or {}


def _is_taken(f: File, taken: Mapping[str, Mark]) -> bool:
    mark = taken.get(f.name)
    return mark is not None and (mark.size, mark.time) == (f.size, f.time)


def looked(path: Path, prefix: str, taken: Mapping[str, Mark]) -> tuple[set[str], list[File]]:
    """A look at a directory: which files may be taken, and those of them that are not as they were when they were.

    Of the others nothing is made, as there may be many thousands.
    """
    there, other = set[str](), list[File]()
    try:
        with os.scandir(path) as entries:
            for e in entries:
                if not e.is_file():
                    continue
                at, name = e.stat(), prefix + e.name
                mark = taken.get(name)
                if mark is not None and (mark.size, mark.time) == (at.st_size, at.st_mtime_ns):
                    there.add(name)
                elif is_whole(e.name, at.st_size):
                    there.add(name)
                    other.append(File(name, at.st_size, at.st_mtime_ns))
    except OSError as e:
        raise FeedAway(
            f"{path} cannot be looked at: {e.strerror or e}",
            hint="make the directory, or declare the source again with another path",
        ) from e
    return there, other


def check_same(f: File, path: Path) -> None:
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
