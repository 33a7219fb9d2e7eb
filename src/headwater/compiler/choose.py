"""What to keep: the work of a change under each strategy, from the structure of the statements.

Before data is there sizes are not known, so a look-up by all columns of a map's key finds one entry, one by some of
them one more, and one by none of them everything. The work of a statement is the rows that it has at each step; a map
that other views keep already costs nothing more. The strategy with less work is taken, and `explain` says both.

Keeping the inputs alone is planned first. Its work is the limit of the other plan, which is given up as soon as it
has more: a star of n dimensions has a map for each of the 2ⁿ sets of them, and after some 3n statements it is plain
that they cannot win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from headwater.compiler.program import Lookup, Map, Program, Statement

NONE, ONE, ALL = 0, 1, 10_000
"""Rows more that a look-up is taken to make by all of the key, by a part of it, by none.

They are added and not multiplied: most joins follow a key, and n of them that double the rows each are rare.
"""
STATEMENT = 12
"""What a statement costs besides its rows, in rows."""


MOST_STATEMENTS = 150
"""Statements of a recursive plan; with more, their number is felt whatever the sizes of the maps."""


class TooMuchWork(Exception):
    """A plan has more work than the best one that is known."""


@dataclass
class Work:
    """The rows that one changed row of each input makes, look-ups and writes together, of the maps planned so far."""

    most: float = inf
    most_statements: float = inf
    rows: int = 0
    statements: int = 0

    def add(self, program: Program, statements: Sequence[Statement]) -> None:
        """Adds that of statements; raises once there is more than allowed."""
        self.rows += sum(_work(program, s) for s in statements)
        self.statements += len(statements)
        if self.rows > self.most or self.statements > self.most_statements:
            raise TooMuchWork


def _work(program: Program, s: Statement) -> int:
    rows, total = 1, STATEMENT
    for step in s.steps:
        if isinstance(step, Lookup):
            total += rows
            if step.version != "change":
                rows += _more(program, program.maps[step.into])
    return total + rows


def _more(program: Program, m: Map) -> int:
    """How many rows more a look-up makes of one."""
    if not m.lookup:
        return NONE if all(_single(program, r) for r in m.reads) else ALL
    return NONE if set(m.lookup) == set(m.columns) else ONE


def _single(program: Program, relation: str) -> bool:
    """Whether a relation has one row at most: the answer of an aggregate without groups."""
    stratum = program.strata.get(relation)
    return stratum is not None and not stratum.group.key and stratum.ranked is None
