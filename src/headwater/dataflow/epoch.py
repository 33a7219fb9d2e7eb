"""An epoch, computed: rows of the inputs and the maps of the stage in; rows of the outputs and new entries out.

There are three kinds of stages, each in a module of its own, in the form of rows or of whole tables. What an epoch gives
equals what `meaning` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from headwater.dataflow.bulk import BulkGrouped, BulkRowWise, BulkWhole
from headwater.dataflow.call import Call, Context, Made
from headwater.dataflow.define import Stage
from headwater.dataflow.grouped import Grouped
from headwater.dataflow.row_wise import RowWise
from headwater.dataflow.whole import Whole
from headwater.engine.undisturbed import uncollected


def kind_of(stage: Stage) -> type[Call]:
    """How epochs of a stage are computed."""
    rows = stage.form == "rows"
    if stage.row_wise:
        return RowWise if rows else BulkRowWise
    if stage.whole:
        return Whole if rows else BulkWhole
    return Grouped if rows else BulkGrouped


def run(stage: Stage, tables: Mapping[str, pa.Table], context: Context) -> Made:
    """An epoch of a stage over rows with `_w`, equal ones added up; `Failed` if the function, or what it gives, is wrong."""
    with uncollected():
        return kind_of(stage)(stage, context).run(tables)


def run_plain(stage: Stage, values: list[Any], weights: list[int], context: Context) -> Made:
    """An epoch of a stage that takes row by row, over what another stage gave just now."""
    with uncollected():
        return RowWise(stage, context).run_plain(values, weights)
