"""A file system in memory that fails on purpose, at any step of any operation.

It does what `LocalFiles` does, in the same steps: a file is created, written a chunk at a time, synced, and
then its name is synced; a record is written to a hidden name and linked. Steps are numbered from 1, so a test
runs once to count them and then once for every step and kind of fault:

    for step in range(1, steps + 1):
        files = base.copy()
        files.faults = {step: "before"}
        with suppress(Stopped):
            work(files)
        for found in files.crashed():
            ...  # what the next process may find

What was not synced may be there after a crash or not. Names that were not synced come back in any combination,
so a later one without an earlier one; contents that were not synced come back whole, not at all, or as zeros.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import itertools
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

import pyarrow as pa

from headwater.state.files import Entry

T = TypeVar("T")
Kind: TypeAlias = Literal["before", "after", "tear", "error", "full", "slow"]
"""The process dies before a step, after it, or within it; the step fails; the disk is full; it takes long."""
STOPS: tuple[Kind, ...] = ("before", "after", "tear")
FAILURES: tuple[Kind, ...] = ("error", "full")
MANY = 6
"""Up to this number of unsynced names, all their combinations are tried."""


class Stopped(BaseException):
    """The process died at a step; what it does after that has no effect."""


@dataclass(eq=False)
class _File:
    """A file's bytes as processes see them, and those that were synced."""

    content: bytes = b""
    synced: bytes = b""
    written: float = 0.0


class MemoryFiles:
    """Files in memory; `faults` says at which steps what goes wrong, `trace` which steps were taken.

    Folders have one level; a folder's own name is kept with a `/` after it. `clock` is moved by the test.
    """

    def __init__(self, clock: float = 1_000_000.0) -> None:
        self.clock = clock
        self.faults: dict[int, Kind] = {}
        self.trace: list[str] = []
        self.slow: Callable[[], None] = lambda: None
        self._live: dict[str, _File] = {}
        self._durable: dict[str, _File] = {}
        self._unsynced: list[tuple[str, _File | None]] = []  # names made and removed, in order
        self._made: set[str] = set()  # folders whose own names this process has synced
        self._lock = threading.RLock()
        self._dead = False

    # --- the interface --------------------------------------------------------------------------------

    def write(self, path: str, chunks: Iterable[bytes | memoryview | pa.Buffer]) -> int:
        self._make(_folder(path))
        file = self._create(path)
        for chunk in chunks:
            self._append(path, file, bytes(chunk))
        self._sync(path, file)
        self._sync_names(_folder(path))
        return len(file.content)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        folder, _, name = path.rpartition("/")
        self._make(folder)
        hidden = f"{folder}/.{name}.{uuid.uuid4().hex}"
        try:
            file = self._create(hidden)
            self._append(hidden, file, data)
            self._sync(hidden, file)
            self._step(f"link {path}", lambda: self._new(path, file), grows=True)
        except FileExistsError:
            return False
        finally:
            with contextlib.suppress(OSError):
                self.delete(hidden)
        self._sync_names(folder)
        return True

    def read(self, path: str) -> bytes:
        return self._step(f"read {path}", lambda: self._found(path).content)

    def map(self, path: str) -> pa.Buffer:
        return self._step(f"map {path}", lambda: pa.py_buffer(self._found(path).content))

    def list(self, folder: str) -> list[Entry]:
        def entries() -> list[Entry]:
            prefix = f"{folder}/"
            names = [p for p in self._live if p.startswith(prefix) and p != prefix]
            shown = [(p, self._live[p]) for p in sorted(names) if not p.startswith(f"{prefix}.")]
            return [Entry(p.removeprefix(prefix), len(f.content), f.written) for p, f in shown]

        return self._step(f"list {folder}", entries)

    def names(self, folder: str) -> Sequence[str]:
        prefix = f"{folder}/"
        return self._step(
            f"list {folder}",
            lambda: sorted(
                p.removeprefix(prefix) for p in self._live if p.startswith(prefix) and p != prefix
            ),
        )

    def size(self, path: str) -> int | None:
        def found() -> int | None:
            return len(self._live[path].content) if path in self._live else None

        return self._step(f"look at {path}", found)

    def delete(self, path: str) -> None:
        self._step(f"remove {path}", lambda: self._gone(path))

    def now(self) -> float:
        return self.clock

    # --- the steps ------------------------------------------------------------------------------------

    def _step(
        self,
        what: str,
        act: Callable[[], T],
        torn: Callable[[], object] = lambda: None,
        grows: bool = False,
    ) -> T:
        """Takes a step, unless its number has a fault; `torn` is the part of it that a tear leaves."""
        with self._lock:
            self.trace.append(what)
            number, kind = len(self.trace), self.faults.get(len(self.trace))
        if kind == "slow":
            self.slow()  # others may go on meanwhile
        with self._lock:
            if self._dead:
                raise Stopped("the process is dead")
            if kind in ("error", "full") and (kind == "error" or grows):
                torn()
                code = errno.EIO if kind == "error" else errno.ENOSPC
                raise OSError(code, f"step {number}, {what}")
            if kind not in STOPS:
                return act()
            if kind == "after":
                act()
            elif kind == "tear":
                torn()
            self._dead = True
            raise Stopped(f"step {number}, {what}")

    def _make(self, folder: str) -> None:
        if folder in self._made:
            return
        if f"{folder}/" not in self._live:
            self._step(f"mkdir {folder}", lambda: self._new(f"{folder}/", _File()), grows=True)
        self._sync_names("")
        self._made.add(folder)

    def _create(self, path: str) -> _File:
        file = _File(written=self.clock)
        self._step(f"create {path}", lambda: self._new(path, file), grows=True)
        return file

    def _append(self, path: str, file: _File, chunk: bytes) -> None:
        def add(part: bytes) -> None:
            file.content, file.written = file.content + part, self.clock

        half = chunk[: len(chunk) // 2]
        self._step(f"write {path}", lambda: add(chunk), lambda: add(half), grows=True)

    def _sync(self, path: str, file: _File) -> None:
        self._step(f"sync {path}", lambda: setattr(file, "synced", file.content), grows=True)

    def _sync_names(self, folder: str) -> None:
        def sync() -> None:
            done = [e for e in self._unsynced if _folder(e[0]) == folder]
            self._durable = _after(self._durable, done)
            self._unsynced = [e for e in self._unsynced if _folder(e[0]) != folder]

        self._step(f"sync {folder}/", sync, grows=True)

    # --- the state ------------------------------------------------------------------------------------

    def _found(self, path: str) -> _File:
        if path not in self._live:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return self._live[path]

    def _new(self, path: str, file: _File) -> None:
        if path in self._live:
            raise FileExistsError(errno.EEXIST, "the file exists", path)
        self._live[path] = file
        self._unsynced.append((path, file))

    def _gone(self, path: str) -> None:
        if self._live.pop(path, None) is not None:
            self._unsynced.append((path, None))

    def copy(self) -> MemoryFiles:
        """The same files for another process: it has no faults, and what was not synced still is not."""
        other = MemoryFiles(self.clock)
        held = copy.deepcopy(
            (self._live, self._durable, self._unsynced)
        )  # together: they share files
        other._live, other._durable, other._unsynced = held
        return other

    def crashed(self) -> Iterator[MemoryFiles]:
        """What the next process may find: first after a kill, then after each way to lose power."""
        yield self.copy()
        for chosen in _combinations(len(self._unsynced)):
            names = _after(self._durable, [self._unsynced[i] for i in chosen])
            names = {p: f for p, f in names.items() if p.endswith("/") or f"{_folder(p)}/" in names}
            pending = any(f.content != f.synced for f in names.values())
            for kept in (0, 1, 2) if pending else (0,):
                found = MemoryFiles(self.clock)
                for path, f in names.items():
                    content = (f.content, f.synced, f.synced or bytes(len(f.content)))[kept]
                    found._live[path] = _File(content, content, f.written)
                found._durable = dict(found._live)
                yield found

    def replace(self, path: str, content: bytes | None) -> None:
        """Damage from outside: other bytes in a file's place, or none at all."""
        if content is None:
            del self._live[path], self._durable[path]
        else:
            self._found(path).content = self._found(path).synced = content


def _folder(path: str) -> str:
    """The folder that a name is in; that of a folder is the root."""
    return "" if path.endswith("/") else path.rpartition("/")[0]


def _after(names: dict[str, _File], effects: list[tuple[str, _File | None]]) -> dict[str, _File]:
    """Names after some were made and some removed."""
    merged = {**names, **dict(effects)}
    return {path: file for path, file in merged.items() if file is not None}


def _combinations(n: int) -> list[tuple[int, ...]]:
    """Which of n effects survive: all combinations of few; of many, some of the last without the first."""
    if n > MANY:
        return [tuple(range(i, n)) for i in (0, 1, n // 2, n - 1, n)]
    return [c for size in range(n + 1) for c in itertools.combinations(range(n), size)]
