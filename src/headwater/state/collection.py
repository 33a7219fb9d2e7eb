"""Collection: files that no kept version names are deleted, by what the log says and never by comparing clocks.

A data file is named by the versions from the one that added it to the one before it *ended*: the version that took
its last run away from the last map that had any. A commit names no file again that had ended. So it may go when the oldest version that is kept is not older than its end. The writer learns of
ends as it commits; of what was there when it began it reads the records once, some at a time. A file that was there
then and that no record names is left over from a writer that died: it may go too, for only the writer that has the
lease commits, and it names none that it did not write itself.

The oldest version that is kept is raised (the *floor*) before anything is deleted, so that a reader that comes too
late is told so. Only names of the shapes that Headwater gives are ever deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass

from headwater.errors import DamagedState
from headwater.state.files import FileSystem, is_temporary
from headwater.state.log import CHECKPOINT, FLOORS, FOLDER, Log, Version, path_of
from headwater.state.run import is_data_file

AT_A_TIME = 32
"""How many old records are read at a time."""


@dataclass(frozen=True)
class Keep:
    """How much of the past stays readable: the last versions, and those of the last minutes.

    Versions that are *minor* by their notes are not counted; those that are newer than the oldest that is kept are.
    A file that no kept version names any more stays for `grace` more minutes, for readers that are about to open it.
    """

    versions: int = 8
    minutes: float = 0.0
    grace: float = 0.0

    def first(self, log: Log) -> int:
        """The oldest version that is kept; ages are told by when the records were written, on one clock."""
        numbers = log.numbers()
        if not numbers:
            return 0
        first = max(numbers[0], self._counted(log, numbers[0], numbers[-1]))
        if self.minutes > 0:
            times = log.times()
            newest = times.get(numbers[-1], 0.0)
            for n in range(first - 1, numbers[0] - 1, -1):
                if newest - times.get(n, newest) > self.minutes * 60:
                    break
                first = n
        return first

    def _counted(self, log: Log, oldest: int, newest: int) -> int:
        """The newest version from which on there are as many as are wished that are not minor.

        Records say how many versions up to theirs are minor, so it is found by bisection, and where none is, at once.
        One that is damaged says nothing, and then more is kept.
        """
        wished = max(1, self.versions)
        low, high = oldest, newest - wished + 1
        try:
            minors = log.minors(newest)
        except DamagedState:
            return oldest
        while minors and low < high:
            middle = (low + high + 1) // 2
            try:
                minor = minors - log.minors(middle - 1)
                fewer = newest - middle + 1 - minor < wished
            except DamagedState:
                fewer = True
            low, high = (low, middle - 1) if fewer else (middle, high)
        return low if minors else high


class Collector:
    """What the writer of a store knows of files that may go."""

    def __init__(self, files: FileSystem, log: Log, data: str, head: Version):
        self.files, self.log, self.data = files, log, data
        self.ends: dict[str, int] = {}
        """Files that the newest version does not name, and the version that took their last run away."""
        self.damage: DamagedState | None = None
        self._left = {n for n in files.names(data) if is_data_file(n)} - head.files
        self._temporary = [
            f"{folder}/{n}".removeprefix("/")
            for folder in (data, FOLDER, FLOORS, "")
            for n in files.names(folder)
            if is_temporary(n)
        ]
        self._seen: dict[str, float] = {}
        self._history: Iterator[Version | DamagedState] | None = None
        self._begun, self._before, self._newest = head.number, Version(), head

    def committed(self, version: Version) -> None:
        """Takes note of the newest version."""
        for file in self._newest.files - version.files:
            self.ends[file] = version.number
        self._newest = version

    def look_back(self, records: int = AT_A_TIME) -> bool:
        """Reads some more of the records that were there at the beginning; whether all of them are read."""
        if not self._left:
            return True
        if self._history is None:
            first = max(1, self.log.floor())
            self._history = Log(self.files).history(first, self._begun)
        for _ in range(records):
            version = next(self._history, None)
            if version is None:
                if self.damage is None:  # then nobody can name what is left
                    self.ends |= dict.fromkeys(self._left, 0)
                self._left = set()
                return True
            if isinstance(version, DamagedState):
                # What it named is not known, so what nobody else names stays until it is let go.
                self.damage, self._before = self.damage or version, Version()
                continue
            for file in self._before.files - version.files:
                self.ends[file] = version.number
            self._left -= version.files
            self._before = version
        return False

    def collect(self, keep: Keep, needed: Callable[[], Set[str]]) -> list[str]:
        """Deletes what may go, and says what it was; `needed` are files that no version names yet."""
        first = keep.first(self.log)
        if first == 0:
            return []
        self.log.raise_floor(first)
        known = list(self.ends.items())  # at once: a commit may add to them meanwhile
        ready = sorted(f for f, end in known if end <= first)
        if keep.grace > 0 and ready:
            now = self.files.now()
            ready = [f for f in ready if now - self._seen.setdefault(f, now) >= keep.grace * 60]
        spared = needed() if ready else set()
        gone = [f"{self.data}/{f}" for f in ready if f not in spared]
        records = self.log.records()
        base = max((n for n in records if n <= first and n % CHECKPOINT == 1), default=0)
        old = [
            path_of(n) for n in records if n < base
        ]  # oldest first: what is left is a whole tail
        temporary, self._temporary = self._temporary, []
        for path in (*old, *gone, *temporary):
            self.files.delete(path)
        for file in ready:
            self.ends.pop(file, None)
            self._seen.pop(file, None)
        return [*old, *gone, *temporary]
