"""The directory of a database: what may be one, and the marker that says so.

A database begins with its marker, a file that names the format on disk and the version of Headwater that made it. A
directory with a log of ours and no marker is of the first format, which had none. Any other directory with something
in it belongs to somebody else: it is refused before anything is written, for what is not ours is never touched.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

from headwater.errors import DamagedState, StateError
from headwater.state import lease
from headwater.state.files import LocalFiles, is_temporary
from headwater.state.log import FLOORS, FOLDER, Log
from headwater.state.run import is_data_file

MARKER = "headwater.json"
FORMAT = 2
"""The format that is written: 2 since runs say their version and round, and records have a seal."""
STAGING = "staging"
"""The folder of changes that are being applied."""
_STAGED = re.compile(r"[0-9a-f]{32}(-[0-9a-f]+)*\.arrow")
_MARK = re.compile(r"epoch-\w+\.json")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_ALLOWED = {"lost+found"}
"""What a fresh disk has by itself."""


def is_staged(name: str) -> bool:
    """Whether a name is one that a staged change has."""
    return _STAGED.fullmatch(name) is not None


def is_passing(name: str) -> bool:
    """Whether a name is one that something has which is staged: a change, or the mark of an epoch that is computed."""
    return is_staged(name) or _MARK.fullmatch(name) is not None


def local_path(given: str | Path) -> Path:
    """The directory that is meant: `~` is the home directory, `file:` says what is said without; no other scheme."""
    if not isinstance(given, (str, Path)):
        raise StateError(
            f"the directory is given as {type(given).__name__}",
            hint="give its path, as text or Path",
        )
    text = str(given)
    if _SCHEME.match(text):
        scheme, _, rest = text.partition(":")
        if scheme.lower() != "file":
            raise StateError(
                f"{text} is not on a local disk, and a database is",
                hint="give a directory that all executors reach, such as a mounted volume",
            )
        host, slash, inside = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
        if host not in ("", "localhost"):
            raise StateError(f"{text} is on the host {host}", hint="mount it, and give the path")
        text = unquote(slash + inside)
    if not text or "\0" in text:
        raise StateError(f"{given!r} names no directory", hint="give its path")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as e:
        raise StateError(f"{text} has no meaning here: {e}", hint="give the whole path") from e


def check(path: Path) -> LocalFiles:
    """The files of a database, or of what can become one; `StateError` where somebody else's are there."""
    try:
        return _checked(path)
    except OSError as e:
        raise StateError(
            f"{path} cannot be looked at: {e.strerror or e}", hint="nothing was changed"
        ) from e


def _checked(path: Path) -> LocalFiles:
    if path.exists() and not path.is_dir():
        raise StateError(f"{path} is a file", hint="give a directory")
    files = LocalFiles(path)
    if files.size(MARKER) is not None:
        _check_format(files)
        return files
    others = sorted(_others(files, path)) if path.is_dir() else []
    if others and not Log(files).records():
        raise StateError(
            f"{path} is not empty and is no database: it has {others[0]}",
            hint="give a new or empty directory, or that of a database",
        )
    return files


def mark(files: LocalFiles, made_by: str) -> None:
    """Makes the marker, unless it is there: before anything else is written."""
    if files.size(MARKER) is None:
        about = {"format": FORMAT, "made_by": made_by}
        files.put_if_absent(MARKER, json.dumps(about).encode())


def _check_format(files: LocalFiles) -> None:
    try:
        about = json.loads(files.read(MARKER))
        found, by = int(about["format"]), str(about.get("made_by", "an unknown version"))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as e:
        raise DamagedState(
            MARKER, f'it should say {{"format": {FORMAT}}}, and says something else'
        ) from e
    if found > FORMAT or found < 1:
        raise StateError(
            f"{files.root} has format {found}, made by {by}, and this version reads up to {FORMAT}",
            hint="use a newer version of Headwater",
        )


def _others(files: LocalFiles, path: Path) -> list[str]:
    """What is in a directory that a database has not; folders of ours may be there from before a first commit."""
    shapes = {
        FOLDER: lambda n: False,
        FLOORS: lambda n: False,
        lease.FOLDER: lambda n: f"{lease.FOLDER}/{n}" not in lease.strays(files),
        "data": is_data_file,
        STAGING: is_passing,
    }
    out = []
    for entry in path.iterdir():
        if entry.name in _ALLOWED or (is_temporary(entry.name) and entry.is_file()):
            continue
        ours = shapes.get(entry.name)
        if ours is None or not entry.is_dir() or entry.is_symlink():
            out.append(entry.name)
            continue
        inside = [e.name for e in entry.iterdir()]
        out += [f"{entry.name}/{n}" for n in inside if not ours(n) and not is_temporary(n)]
    return out
