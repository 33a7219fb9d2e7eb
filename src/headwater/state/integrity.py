"""Integrity: whether everything that is kept is as it was written, and what the bytes on disk are for.

Nothing that was read before is trusted: all records and all runs are read again, every byte of them, and compared with
their checksums. Files of other names than a writer gives are *strays*: they are told and left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from headwater.errors import DamagedState
from headwater.state import lease
from headwater.state.arrangement import Arrangement
from headwater.state.directory import MARKER, STAGING, is_passing
from headwater.state.files import FileSystem, is_temporary
from headwater.state.log import FLOORS, FOLDER, Log, Version
from headwater.state.purging import check_zones
from headwater.state.run import RunRef, Runs, is_data_file


@dataclass
class Report:
    """What `check` found: how much was read, and everything that is damaged."""

    versions: int = 0
    files: int = 0
    bytes: int = 0
    whole: int = 0
    problems: list[DamagedState] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    """Files that are none of the database's; they are left alone."""


@dataclass(frozen=True)
class Disk:
    """What a store has on disk, in bytes: all, the records, all data files, those that kept versions and the newest one name."""

    files: int
    total: int
    log: int
    data: int
    named: int
    newest: int
    strays: tuple[str, ...]


def check(files: FileSystem, data: str) -> Report:
    """Reads everything that is kept, all bytes of it, and names what is damaged and what is not ours."""
    report = Report()
    seen: dict[RunRef, DamagedState | None] = {}
    fit: dict[tuple[str, str, RunRef], DamagedState | None] = {}
    broken: dict[str, DamagedState] = {}
    log = Log(files)  # nothing that was read before is trusted
    runs = Runs(files, data)
    numbers = log.numbers()
    for number, found in zip(numbers, _versions(log, numbers), strict=True):
        if isinstance(found, DamagedState):
            # One record that is broken breaks all until a checkpoint.
            broken.setdefault(found.path, found)
            continue
        report.versions += 1
        whole = True
        for name, (spec, refs) in found.maps.items():
            for ref in refs:
                if ref not in seen:  # several maps may have it, and its bytes are read once
                    seen[ref] = _damage(runs.verify, ref)
                    report.bytes += ref.size
                named = name, spec.written_as, ref
                if named not in fit:
                    fit[named] = seen[ref] or _damage(Arrangement(spec, [ref], runs).open, ref)
                    if ref.zone and fit[named] is None:
                        fit[named] = _damage(
                            partial(check_zones, Arrangement(spec, [ref], runs)), ref
                        )
                whole = whole and fit[named] is None
        if whole:
            report.whole = number
    report.files = len({ref.file for ref in seen})
    for damage in (*broken.values(), *_once(fit.values())):
        report.problems.append(DamagedState(damage.path, damage.damage, report.whole))
    report.strays = strays(files, data)
    return report


def disk(files: FileSystem, data: str, kept: Sequence[int]) -> Disk:
    """What is on disk now."""
    log, sizes = files.list(FOLDER), {e.name: e.size for e in files.list(data)}
    other = [e for folder in (FLOORS, lease.FOLDER) for e in files.list(folder)]
    versions = [v for v in _versions(Log(files), kept) if isinstance(v, Version)]
    named = frozenset().union(*(v.files for v in versions))
    newest = versions[-1].files if versions else frozenset()
    records, everything = sum(e.size for e in log), sum(sizes.values())
    return Disk(
        len(log) + len(sizes) + len(other),
        records + everything + sum(e.size for e in other),
        records,
        everything,
        sum(sizes.get(f, 0) for f in named),
        sum(sizes.get(f, 0) for f in newest),
        tuple(strays(files, data)),
    )


def strays(files: FileSystem, data: str) -> list[str]:
    """Files in the directory and the folders of the store that are none of its own."""
    shapes: dict[str, Callable[[str], bool]] = {
        data: is_data_file,
        STAGING: is_passing,
        "": lambda n: n == MARKER,
    }
    others = [
        f"{folder}/{n}".removeprefix("/")
        for folder, ours in shapes.items()
        for n in files.names(folder)
        if not ours(n) and not is_temporary(n)
    ]
    return [*Log(files).strays(), *lease.strays(files), *others]


def _versions(log: Log, numbers: Sequence[int]) -> Iterator[Version | DamagedState]:
    """The versions one by one; a record that is missing or broken hides those that are read from it."""
    hidden: DamagedState | None = None
    for found in log.history(numbers[0], numbers[-1]) if numbers else ():
        if isinstance(found, DamagedState):
            hidden = hidden or found
            yield hidden
        else:
            hidden = None
            yield found


def _once(damages: Iterable[DamagedState | None]) -> list[DamagedState]:
    """One damage for each file."""
    return list({d.path: d for d in damages if d is not None}.values())


def _damage(read: Callable[[RunRef], object], ref: RunRef) -> DamagedState | None:
    try:
        read(ref)
    except DamagedState as e:
        return e
    return None
