"""The file system that state lives on: a handful of operations that any store can offer.

A file is written once, whole, under a name that nothing else has, and is never changed. The only
operation that decides anything is `put_if_absent`: it makes a small file appear with all of its bytes,
durably, or not at all, and says whether it was there already. Everything that must be atomic is built
on that one.

- `write` has made the bytes durable when it returns.
- `read` and `map` of a file that exists give all of it; `map` does not load it.
- `list` may miss nothing that was written before it was called.
- `delete` of a file that is gone is no error.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterable
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
        """The files of a folder; none if there is no such folder."""

    def delete(self, path: str) -> None:
        """Removes a file."""

    def now(self) -> float:
        """The time by which ages are told."""


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
            os.link(hidden, target)  # fails if the name is taken: the one atomic decision
        except FileExistsError:
            return False
        finally:
            with contextlib.suppress(OSError):  # what is decided stays decided
                hidden.unlink()
        _sync(target.parent)
        return True

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def map(self, path: str) -> pa.Buffer:
        target = self.root / path
        if target.stat().st_size == 0:
            return pa.py_buffer(b"")
        with pa.memory_map(str(target)) as f:
            return f.read_buffer()

    def list(self, folder: str) -> list[Entry]:
        found = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.root / folder) as entries:
            for e in entries:
                if e.is_file() and not e.name.startswith("."):
                    with contextlib.suppress(FileNotFoundError):  # deleted since it was listed
                        stat = e.stat()
                        found.append(Entry(e.name, stat.st_size, stat.st_mtime))
        return sorted(found, key=lambda e: e.name)

    def delete(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    def now(self) -> float:
        return time.time()

    def _made(self, path: str) -> Path:
        target = self.root / path
        folder = target.parent
        if folder not in self._durable or not folder.is_dir():
            made = [f for f in (folder, *folder.parents) if not f.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            # One that is there may have been made by a process that died before it synced the name.
            for above in dict.fromkeys(f.parent for f in (folder, *made)):
                _sync(above)
            self._durable.add(folder)
        return target


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
