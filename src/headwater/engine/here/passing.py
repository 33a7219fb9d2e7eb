"""Which statements rows of a change can pass: those of views whose filters exclude all of them are not run.

A statement's filters that compare a column with a constant (`plan/conditions`) are asked about the values that the change has
in that column, which are collected once for all statements. What is said is only ever that no row passes.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headwater.plan.program import Statement

FEW = 10_000
"""Rows of a change whose values are collected; of more it is likely that some pass."""


class Values(NamedTuple):
    """What a change has in a column, without NULLs; None of the rest if it has nothing."""

    all: Container[Any]
    least: Any
    most: Any


class Passing:
    """The values of a change, column by column, as statements ask for them."""

    def __init__(self, change: pa.Table):
        self.change = change
        self.known: dict[str, Values] = {}

    def some(self, statement: Statement) -> bool:
        """Whether some row may pass the filters of a statement."""
        if self.change.num_rows > FEW:
            return True
        for c in statement.conditions:
            values = self.known.get(c.column)
            if values is None:
                values = self.known[c.column] = self._values(c.column)
            if values.least is None or not c.passes(*values):
                return False
        return True

    def _values(self, name: str) -> Values:
        column = self.change.column(name)
        found = pc.min_max(column)
        return Values(
            frozenset(pc.unique(column).to_pylist()), found["min"].as_py(), found["max"].as_py()
        )
