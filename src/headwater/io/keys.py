"""The keys of flat sources: after a change every key that it brings is there once, and none is NULL.

Only the keys of rows that come are looked up, so the cost is that of the change; what was there before keys were
enforced can always be taken away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.engine.here.equal_rows import consolidated
from headwater.engine.here.statements import fields_of
from headwater.engine.ledgers import outside
from headwater.engine.probing import entries_at
from headwater.engine.working import Working
from headwater.errors import KeyConflict
from headwater.plan.program import WEIGHT, Map
from headwater.state.arrangement import INDEX
from headwater.state.hashing import places
from headwater.state.run import column

SHOWN = 3
"""How many rows of a key are shown."""


def check_keys(
    name: str, key: Sequence[str], kept: Map, change: pa.Table, working: Working
) -> None:
    """Raises unless the keys of the rows that come are not NULL, and there once; the change has equal rows once
    where it has deletions."""
    came = change.filter(pc.greater(column(change, WEIGHT), 0))
    if not came.num_rows:
        return
    for k in key:
        if column(came, k).null_count:
            first = came.filter(column(came, k).is_null()).slice(0, 1)
            raise KeyConflict(
                f"a row of `{name}` has no `{k}`, which is part of its key: {_shown(first)[0]}",
                hint="give every row its key, or declare the source without key=",
            )
    labels, weights = _summed(came, key)
    gone = change.filter(pc.less(column(change, WEIGHT), 0))
    if gone.num_rows:
        _add(weights, labels, gone, key)
    # The map is looked up by its key: columns in the order of the key.
    there = outside(working.hidden.get(name), entries_at(working.before(kept.name), labels))
    np.add.at(weights, np.asarray(column(there, INDEX)), np.asarray(column(there, "r0")))
    if weights.max() > 1:
        at = int(weights.argmax())
        label = labels.slice(at, 1)
        before = there.filter(pc.equal(column(there, INDEX), at)).select([*kept.columns, "r0"])
        named = before.rename_columns([*fields_of(kept), WEIGHT])
        raise _twice(name, label, int(weights[at]), named, came)


def _summed(rows: pa.Table, key: Sequence[str]) -> tuple[pa.Table, np.ndarray[Any, Any]]:
    """The different keys of rows, and the sum of their weights."""
    net = consolidated(rows.select([*key, WEIGHT]))
    return net.select(list(key)), np.array(column(net, WEIGHT))


def _add(
    weights: np.ndarray[Any, Any], labels: pa.Table, rows: pa.Table, key: Sequence[str]
) -> None:
    place = places([column(labels, n) for n in key], [column(rows, n) for n in key])
    known = place >= 0
    np.add.at(weights, place[known], np.asarray(column(rows, WEIGHT))[known])


def _twice(name: str, label: pa.Table, count: int, before: pa.Table, came: pa.Table) -> KeyConflict:
    key = label.column_names
    mine = places([column(label, n) for n in key], [column(came, n) for n in key]) >= 0
    new = _shown(came.filter(pa.array(mine)))
    old = _shown(before)
    (values,) = label.to_pylist()
    said = ", ".join(f"{n}={v!r}" for n, v in values.items())
    told = [f"there {_are(old)}: {'; '.join(old)}"] if old else []
    told += [f"inserted {_are(new)}: {'; '.join(new)}"]
    return KeyConflict(
        f"`{name}` would have {count} rows with the key {said}; {'; '.join(told)}",
        hint="a key is there once: delete the old row in the same change",
    )


def _are(rows: list[str]) -> str:
    return "is" if len(rows) == 1 else "are"


def _shown(rows: pa.Table) -> list[str]:
    """Rows with their columns, some of them."""
    out = []
    for r in rows.slice(0, SHOWN).to_pylist():
        often = r.pop(WEIGHT)
        cells = ", ".join(f"{n}={v!r}" for n, v in r.items())
        out.append(f"({cells})" + (f" {often} times" if often > 1 else ""))
    return [*out, "…"] if rows.num_rows > SHOWN else out
