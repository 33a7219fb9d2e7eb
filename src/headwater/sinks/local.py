"""A directory that a sink writes to: files that appear whole, and a pointer that says which version they are.

A file is written under a hidden name, synced, and renamed; then the folder is synced. The pointer `_headwater.json` is
replaced in the same way, after all files that it speaks of. Spark and others skip names that begin with `_` or `.`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from headwater.errors import SinkError
from headwater.sinks.sink import Place
from headwater.state.directory import local_path

POINTER = "_headwater.json"
_HIDDEN = re.compile(r"\..+\.[0-9a-f]{32}", re.ASCII)
"""Names that files have until they are whole."""


class Folder:
    """The directory of a sink; `own` is what the names of its files look like."""

    def __init__(self, sink: str, path: str, own: re.Pattern[str]):
        self.sink, self.path, self.own = sink, local_path(path), own

    def place(self) -> Place | None:
        """What the pointer says; None without one, and then there are no files of others. Removes what a killed process left."""
        self.check_own()
        if POINTER not in self.names():
            return None
        with self.telling("read"):
            text = (self.path / POINTER).read_text()
        try:
            return Place.of_data(json.loads(text))
        except ValueError as e:
            raise SinkError(
                f"{self.path / POINTER} does not say what the sink `{self.sink}` has",
                hint="take the directory away, and the whole view is written again",
            ) from e

    def check_own(self) -> None:
        """Removes what a killed process left; SinkError where the directory is somebody else's."""
        names = self.names()
        for name in names:
            if _HIDDEN.fullmatch(name):
                self.remove(name)
        others = [n for n in names if not n.startswith((".", "_")) and not self.own.fullmatch(n)]
        if others and POINTER not in names:
            raise SinkError(
                f"the directory {self.path} of the sink `{self.sink}` has files of others: {others[0]}",
                hint="take a new directory, or an empty one",
            )

    def names(self) -> list[str]:
        """The names of all files and folders, hidden ones too."""
        with self.telling("read"), contextlib.suppress(FileNotFoundError):
            return sorted(os.listdir(self.path))
        return []

    def put(self, name: str, chunks: Iterable[bytes]) -> None:
        """Makes a file appear whole, unless there is one of that name."""
        if not (self.path / name).exists():
            self._write(name, chunks)

    def point(self, place: Place) -> None:
        """Says what the directory has from now on."""
        self._write(POINTER, [json.dumps(place.as_data()).encode()])

    def remove(self, name: str) -> None:
        """Removes a file, or a directory with all that it has."""
        at = self.path / name
        with self.telling("written"):
            if at.is_dir() and not at.is_symlink():
                remove_folder(at)
            else:
                remove(at)

    def _write(self, name: str, chunks: Iterable[bytes]) -> None:
        hidden = self.path / f".{name}.{uuid.uuid4().hex}"
        with self.telling("written"):
            self.path.mkdir(parents=True, exist_ok=True)
            write(hidden, chunks)
            move(hidden, self.path / name)

    @contextlib.contextmanager
    def telling(self, doing: str) -> Iterator[None]:
        """Turns errors of the disk into errors that name the sink and the directory."""
        try:
            yield
        except OSError as e:
            raise SinkError(
                f"the directory {self.path} of the sink `{self.sink}` cannot be {doing}: {e.strerror or e}",
                hint="give it rights or room, and sync again; the version that it has stays",
            ) from e


# --- the steps ------------------------------------------------------------------------------------------------------
# Whatever a sink does to a directory is made of these, so that a test can end it before or after each of them.


def write(path: Path, chunks: Iterable[bytes]) -> None:
    """Writes a new file, durably."""
    with path.open("xb") as f:
        for chunk in chunks:
            f.write(chunk)
        f.flush()
        os.fsync(f.fileno())


def move(path: Path, to: Path) -> None:
    """Gives something its name, in the place of what has that; durably."""
    os.replace(path, to)
    handle = os.open(to.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def link(path: Path, to: Path) -> None:
    """Gives a file a second name."""
    os.link(path, to)


def symlink(to: str, path: Path) -> None:
    """Makes a link that leads to a name beside it."""
    os.symlink(to, path)


def remove(path: Path) -> None:
    """Removes a file or link, if it is there."""
    path.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Removes a directory and all that it has."""
    shutil.rmtree(path)


STEPS = ("write", "move", "link", "symlink", "remove", "remove_folder")
