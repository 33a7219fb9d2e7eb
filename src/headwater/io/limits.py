"""Whether the rows of a change keep what their source says of its columns: never NULL, text of a length at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import BadChange
from headwater.state.run import column

ELEMENT = "[]"
Ints = np.ndarray[Any, np.dtype[np.int64]]


class Limit(Protocol):
    """What holds of the values at a path."""

    @property
    def path(self) -> tuple[str, ...]: ...
    @property
    def never_null(self) -> bool: ...
    @property
    def most(self) -> int | None: ...


def check_limits(name: str, limits: Sequence[Limit], table: pa.Table, there: bool = False) -> None:
    """Raises for the first row that does not keep a limit, with its column and value: of a change, or of what is there."""
    for limit in limits:
        values, at = _at(table, limit.path)
        where = ".".join(s for s in limit.path if s != ELEMENT)
        if limit.never_null and values.null_count:
            row = int(at[np.flatnonzero(np.asarray(values.is_null()))[0]])
            which = "a row that is in" if there else f"row {row + 1} of the change of"
            raise BadChange(
                f"{which} `{name}` has no `{where}`, which is declared NOT NULL:"
                f" {_shown(table, row)}",
                hint="give it a value, or declare the column without NOT NULL",
            )
        if limit.most is not None:
            long = np.asarray(pc.fill_null(pc.greater(pc.utf8_length(values), limit.most), False))
            if long.any():
                first = int(np.flatnonzero(long)[0])
                text = values[first].as_py()
                row = int(at[first])
                which = "a row that is in" if there else f"row {row + 1} of the change of"
                shown = f": {_shown(table, row)}" if there else ""
                raise BadChange(
                    f"{which} `{name}`: {text!r} has {len(text)} characters,"
                    f" and `{where}` is VARCHAR({limit.most}){shown}",
                    hint="shorten it, or declare the column longer",
                )


def _at(table: pa.Table, path: tuple[str, ...]) -> tuple[pa.Array, Ints]:
    """The values at a path, and the row that each is of; what is inside of a NULL is none."""
    values = column(table, path[0])
    at: Ints = np.arange(table.num_rows)
    for step in path[1:]:
        there = values.is_valid()
        values, at = values.filter(there), at[np.asarray(there)]
        if step == ELEMENT:
            lengths = np.asarray(pc.list_value_length(values)).astype(np.int64)
            values, at = values.flatten(), np.repeat(at, lengths)
        else:
            values = pc.struct_field(values, step)
    return values, at


def _shown(table: pa.Table, row: int) -> str:
    (cells,) = table.slice(row, 1).to_pylist()
    return "(" + ", ".join(f"{n}={v!r}" for n, v in cells.items() if n != "_w") + ")"
