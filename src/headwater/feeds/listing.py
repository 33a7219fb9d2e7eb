"""The files of a directory: which of them are new, which of them a step takes, and what is noted of those.

Every file that was taken is a fact, `from:source/file`, with its size, its time and the version that took it, set in the
commit that has its rows. A mark such as "everything before noon" would be smaller, and wrong: files are copied with the
times that they had, and would be older than it. So

    new = there - taken, the oldest first, by name among those of one time;

a name that was taken with another size or time is no new file but a changed one, and stops its directory: rows of it are
in the database. What is gone from the directory is forgotten when the version that took it cannot be read any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.errors import BadChange
from headwater.feeds.feed import FROM

UNFINISHED = (".", "_")
"""How names begin of files that somebody still writes."""
TEMPORARY = ".tmp"


@dataclass(frozen=True)
class File:
    """A file as a directory shows it; the time is that of its last change, in nanoseconds."""

    name: str
    size: int
    time: int


@dataclass(frozen=True)
class Mark:
    """What is noted of a file that was taken."""

    size: int
    time: int
    version: int

    def as_data(self) -> list[int]:
        """As plain data."""
        return [self.size, self.time, self.version]


def is_whole(name: str, size: int) -> bool:
    """Whether a file may be taken, by its name and size: one without a byte is about to be written."""
    return size > 0 and not name.startswith(UNFINISHED) and not name.endswith(TEMPORARY)


def fact_of(source: str, name: str) -> str:
    """How the fact is called that a file was taken."""
    return f"{FROM}{source}/{name}"


def taken_of(source: str, facts: Mapping[str, Any]) -> dict[str, Mark]:
    """The files of a source that were taken, by name."""
    prefix = fact_of(source, "")
    return {k.removeprefix(prefix): Mark(*v) for k, v in facts.items() if k.startswith(prefix)}


def new_files(there: Iterable[File], taken: Mapping[str, Mark]) -> list[File]:
    """The files that were not taken, in the order in which they are."""
    new = [f for f in there if f.name not in taken]
    return sorted(new, key=lambda f: (f.time, f.name))


def changed_file(there: Iterable[File], taken: Mapping[str, Mark]) -> tuple[File, Mark] | None:
    """The first file, by name, that is not what it was when it was taken."""
    for f in sorted(there, key=lambda f: f.name):
        mark = taken.get(f.name)
        if mark is not None and (mark.size, mark.time) != (f.size, f.time):
            return f, mark
    return None


def told_changed(source: str, f: File, mark: Mark) -> BadChange:
    """What is said of a file that changed after it was taken."""
    how = (
        f"shrank from {mark.size} to {f.size} bytes"
        if f.size < mark.size
        else f"grew from {mark.size} to {f.size} bytes"
        if f.size > mark.size
        else "was written again"
    )
    return BadChange(
        f"the file `{f.name}` of `{source}` {how} after version {mark.version} took it",
        hint="its rows are there as they were: take it away or put it back as it was, and give what is new in a file of another name",
    )


def step(files: Sequence[File], most: int, most_bytes: int) -> list[File]:
    """The first files, as many as a step takes; one at least."""
    out: list[File] = []
    size = 0
    for f in files[:most]:
        size += f.size
        if out and size > most_bytes:
            break
        out.append(f)
    return out


def marks(source: str, files: Iterable[File], version: int) -> dict[str, list[int]]:
    """The facts that files were taken by a version."""
    return {fact_of(source, f.name): Mark(f.size, f.time, version).as_data() for f in files}


def forgotten(taken: Mapping[str, Mark], there: Iterable[str], floor: int) -> list[str]:
    """The files that are gone, and were taken by versions that cannot be read any more."""
    names = set(there)
    return [n for n, mark in taken.items() if n not in names and mark.version < floor]
