"""Ledgers: the final rows of views, with the versions that told them; they only grow.

What a view shows is its ledger and the rows of its map that are not *hidden*, that is, outside of the region of which
everything is in the ledger (`engine/closing`). A source that keeps open rows only has a hidden region and no ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from headwater.calculus.patterns import Punctuations
from headwater.calculus.types import BIGINT, INT
from headwater.engine.change import schema_of
from headwater.engine.here.statements import changes_of
from headwater.engine.membership import matching
from headwater.engine.rings import spec_of
from headwater.engine.working import Working
from headwater.plan.program import WEIGHT, Map, View
from headwater.state.arrangement import WHOLE, Arrangement, Share
from headwater.state.run import LEAST, MOST, column

LEDGER = "ledger:"
"""How the names of the maps of ledgers begin."""
VERSION = "_version"


def ledger_map(view: View) -> Map:
    """The map of a view's ledger: versions and rows, with how often each is there."""
    cells = tuple((f"k{i}", t) for i, (_, t) in enumerate(view.type.fields))
    return Map(
        f"{LEDGER}{view.name}",
        f"the final rows of {view.name}",
        ((VERSION, BIGINT), *cells),
        (("r0", INT),),
        (VERSION,),
        (VERSION,),
        note=f"the final rows of {view.name}",
    )


def scan_ledger(
    view: View,
    working: Working,
    low: int = LEAST,
    high: int = MOST,
    share: Share = WHOLE,
    versions: bool = False,
) -> Iterator[pa.Table]:
    """The rows of a view's ledger with weights, and the versions that told them if they are asked for."""
    made = ledger_map(view)
    if made.name not in working.refs and made.name not in working.added:
        return
    working.know(spec_of(made))
    for table in working.now(made.name).scan(low, high, share=share):
        yield _rows(view, table, versions)


def _rows(view: View, table: pa.Table, versions: bool) -> pa.Table:
    schema = schema_of(view.type)
    arrays = [column(table, f"k{i}").cast(f.type) for i, f in enumerate(list(schema)[:-1])]
    made = pa.table([*arrays, column(table, "r0")], schema=schema)
    return made.append_column(VERSION, column(table, VERSION)) if versions else made


def write_down(working: Working, view: View, rows: pa.Table, version: int) -> None:
    """Adds rows that a version tells to the ledger of a view, among what the increment writes."""
    made = ledger_map(view)
    working.know(spec_of(made))
    arrays = {VERSION: pa.repeat(pa.scalar(version, pa.int64()), rows.num_rows)}
    for i, (name, _) in enumerate(view.type.fields):
        arrays[f"k{i}"] = column(rows, name)
    entries = changes_of(made, pa.table({**arrays, "r0": column(rows, WEIGHT)}))
    merged, _ = Arrangement(working.spec(made.name), (), working.runs).merge(entries, blind=True)
    working.add(made.name, merged)


def outside(
    hidden: Punctuations | None, table: pa.Table, names: Mapping[str, str] | None = None
) -> pa.Table:
    """The entries outside of a region; `names` says what its columns are called in the table."""
    if not hidden:
        return table
    mask = matching(hidden, table, names)
    return table.filter(pa.array(~mask)) if mask.any() else table
