"""Probing a map: columns of any rows as the keys that it is searched by, in its own types and with their hash."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headwater.state.arrangement import Arrangement
from headwater.state.hashing import hash_keys
from headwater.state.run import cast, column


def probe(into: Arrangement, table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The keys of rows, as a look-up takes them: the columns are in the order of those that the map is searched by."""
    spec = into.spec
    keys = [
        cast(column(table, given), spec.types[n])
        for given, n in zip(names, spec.lookup, strict=True)
    ]
    return pa.table([pa.array(hash_keys(keys, table.num_rows)), *keys], ["_h", *spec.lookup])


def entries_at(into: Arrangement, labels: pa.Table) -> pa.Table:
    """The entries of a map at some labels, which are the columns that it is searched by."""
    return into.lookup(probe(into, labels, labels.column_names))
