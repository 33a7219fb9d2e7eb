"""The file system that state lives on: a handful of operations that any store can offer.

A file is written once, whole, under a name that nothing else has, and is never changed. The only
operation that decides anything is `put_if_absent`: it makes a small file appear with all of its bytes,
durably, or not at all, and says whether it was there already. Everything that must be atomic is built
on that one.

- `write` has made the bytes durable when it returns.
- `read` and `map` of a file that exists give all of it; `map` does not load it.
- `list` and `names` may miss nothing that was written before they were called.
- `delete` of a file that is gone is no error.
- `now` is told by the clock that stamps files, which may be another machine's: ages are only ever the
  difference of two times of that clock.

A path is a folder's plain name and a file's plain name. Links are never followed, neither to read nor to
delete: a directory may come from somebody else, and names nothing outside of itself.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True)
class Entry:
    """A file in a folder: its name, size, and when it was written, in seconds."""

    name: str
    size: int
    written: float


class FileSystem(Protocol):
    """What state needs of a file system; paths are relative, with `/` between folder and name."""

    def write(self, path: str, chunks: Iterable[bytes | memoryview | pa.Buffer]) -> int:
        """Writes a new file durably, and gives its size."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Makes a file appear whole and durable unless it exists; whether it did."""

    def read(self, path: str) -> bytes:
        """All bytes of a file; FileNotFoundError if there is none."""

    def map(self, path: str) -> pa.Buffer:
        """A file's bytes without loading them."""

    def list(self, folder: str) -> list[Entry]:
        """The files of a folder but for hidden ones; none if there is no such folder."""

    def names(self, folder: str) -> Sequence[str]:
        """The names of all files of a folder, hidden ones too; cheaper than `list`. `""` is the directory itself."""

    def size(self, path: str) -> int | None:
        """How many bytes a file has; None if there is none."""

    def delete(self, path: str) -> None:
        """Removes a file."""

    def now(self) -> float:
        """The time by the clock that stamps files."""


NO_FILE = (errno.ELOOP, errno.EINVAL)
"""What an error has where a link, a folder or a pipe is in the place of a file, or a name is no name of one."""
_HIDDEN = re.compile(r"\..+\.[0-9a-f]{32}")


def is_temporary(name: str) -> bool:
    """Whether a name is one that `put_if_absent` takes until a file is whole."""
    return _HIDDEN.fullmatch(name) is not None


class LocalFiles:
    """A directory that all tasks reach."""

    def __init__(self, root: str | Path):
        self.root = Path(root)
        self._durable: set[Path] = set()  # folders whose own names this process has synced

    def write(self, path: str, chunks: Iterable[bytes | memoryview | pa.Buffer]) -> int:
        target = self._made(path)
        with target.open("xb") as f:
            for chunk in chunks:
                f.write(chunk)
            f.flush()
            os.fsync(f.fileno())
            size = f.tell()
        _sync(target.parent)
        return size

    def put_if_absent(self, path: str, data: bytes) -> bool:
        target = self._made(path)
        hidden = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with hidden.open("xb") as f:
                f.write(data)
                f.flush()
                os.fsync(f.fileno())
            try:
                os.link(hidden, target)  # fails if the name is taken: the one atomic decision
            except FileExistsError:
                # A server that linked, and whose answer was lost, finds the name taken by ourselves.
                if not os.path.samestat(hidden.lstat(), target.lstat()):
                    return False
        finally:
            with contextlib.suppress(OSError):  # what is decided stays decided
                hidden.unlink()
        _sync(target.parent)
        return True

    def read(self, path: str) -> bytes:
        with os.fdopen(self._opened(path), "rb") as f:
            return f.read()

    def map(self, path: str) -> pa.Buffer:
        handle = self._opened(path)
        try:
            if os.fstat(handle).st_size == 0:
                return pa.py_buffer(b"")
            # By the open file and not by its name, which may have become a link since it was looked at.
            with pa.memory_map(
                f"/proc/self/fd/{handle}" if _BY_HANDLE else str(self._path(path))
            ) as f:
                return f.read_buffer()
        finally:
            os.close(handle)

    def list(self, folder: str) -> list[Entry]:
        found = []
        for e in self._entries(folder):
            if not e.name.startswith("."):
                with contextlib.suppress(FileNotFoundError):  # deleted since it was listed
                    about = e.stat(follow_symlinks=False)
                    found.append(Entry(e.name, about.st_size, about.st_mtime))
        return sorted(found, key=lambda e: e.name)

    def names(self, folder: str) -> Sequence[str]:
        return sorted(e.name for e in self._entries(folder))

    def _entries(self, folder: str) -> Iterator[os.DirEntry[str]]:
        path = self._path(folder) if folder else self.root
        if folder and path.is_symlink():
            raise _is_link(path)
        with contextlib.suppress(FileNotFoundError), os.scandir(path) as entries:
            for e in entries:
                if e.is_file(follow_symlinks=False):
                    yield e

    def size(self, path: str) -> int | None:
        try:
            about = self._path(path).lstat()
        except FileNotFoundError:
            return None
        return about.st_size if stat.S_ISREG(about.st_mode) else None

    def delete(self, path: str) -> None:
        target = self._path(path)
        if target.parent != self.root and target.parent.is_symlink():
            raise _is_link(target.parent)
        target.unlink(missing_ok=True)

    def now(self) -> float:
        """Of a file that is made for it: the disk may be a server's, with a clock of its own."""
        self.root.mkdir(parents=True, exist_ok=True)
        hidden = self.root / f".now.{uuid.uuid4().hex}"
        handle = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            return os.fstat(handle).st_mtime
        finally:
            os.close(handle)
            os.unlink(hidden)

    def _path(self, path: str) -> Path:
        """Where a path leads; only to a name in this directory or in a folder of it."""
        parts = path.split("/")
        if len(parts) > 2 or any(p in ("", ".", "..") or "\0" in p for p in parts):
            raise OSError(errno.EINVAL, "it is no name of a file in this directory", path)
        return self.root.joinpath(*parts)

    def _opened(self, path: str) -> int:
        target = self._path(path)
        for at in (target.parent, target):
            if at != self.root and at.is_symlink():
                raise _is_link(at)
        # A pipe that somebody put there must not be waited for.
        handle = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.EINVAL, f"{target.name} is no file", str(target))
        return handle

    def _made(self, path: str) -> Path:
        target = self._path(path)
        folder = target.parent
        if folder != self.root and folder.is_symlink():
            raise _is_link(folder)
        if folder not in self._durable or not folder.is_dir():
            made = [f for f in (folder, *folder.parents) if not f.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            # One that is there may have been made by a process that died before it synced the name.
            for above in dict.fromkeys(f.parent for f in (folder, *made)):
                _sync(above)
            self._durable.add(folder)
        return target


_BY_HANDLE = os.path.isdir("/proc/self/fd")


def _is_link(path: Path) -> OSError:
    return OSError(errno.ELOOP, f"{path.name} is a link, and none is followed", str(path))


def _sync(folder: Path) -> None:
    """Makes the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fresh_name(stem: str, suffix: str) -> str:
    """A file name that no other task, retry or zombie will ever use."""
    return f"{stem}-{uuid.uuid4().hex}{suffix}"
