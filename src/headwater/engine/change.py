"""A change of a relation: rows with `_w`, as tables, staged files, or ranges of a map that holds them."""

from __future__ import annotations

import contextlib
import errno
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headwater.calculus.types import RecordType
from headwater.errors import StateError
from headwater.interop.arrow_types import arrow_type
from headwater.plan.program import WEIGHT
from headwater.state.directory import STAGING

FOLDER = STAGING


@dataclass(frozen=True)
class Change:
    """Rows of a relation with `_w`: tables in memory, staged files, and ranges of a map that holds them."""

    tables: tuple[pa.Table, ...] = ()
    files: tuple[str, ...] = ()
    ranges: tuple[tuple[str, int, int], ...] = ()
    rows: int = 0

    @staticmethod
    def of(table: pa.Table) -> Change:
        """A table as a change."""
        return Change((table,), rows=table.num_rows)

    def with_rows(self, other: Change) -> Change:
        """Both changes as one."""
        return Change(
            (*self.tables, *other.tables),
            (*self.files, *other.files),
            (*self.ranges, *other.ranges),
            self.rows + other.rows,
        )


def read_file(path: Path) -> pa.Table:
    """A staged file, mapped."""
    with pa.memory_map(str(path)) as f:
        return pa.ipc.open_file(f).read_all()


def write_file(root: Path, table: pa.Table) -> str:
    """A table as a staged file; gives its name."""
    name = f"{FOLDER}/{uuid.uuid4().hex}.arrow"
    with (
        staging(root),
        pa.OSFile(str(root / name), "wb") as f,
        pa.ipc.new_file(f, table.schema) as out,
    ):
        out.write_table(table)
    return name


@contextlib.contextmanager
def staging(root: Path) -> Iterator[None]:
    """The folder of staged files is there while something is written into it; what the disk says against it is told."""
    try:
        (root / FOLDER).mkdir(parents=True, exist_ok=True)
        if (root / FOLDER).is_symlink():
            raise OSError(errno.ELOOP, "it is a link, and none is followed")
        yield
    except OSError as e:
        raise StateError(
            f"a change could not be staged in {root / FOLDER}: {e.strerror or e}",
            hint="nothing was committed; make room or mend the disk, and do the same again",
        ) from e


def schema_of(row: RecordType) -> pa.Schema:
    """The columns of a staged change."""
    return pa.schema([*((n, arrow_type(t)) for n, t in row.fields), (WEIGHT, pa.int64())])
