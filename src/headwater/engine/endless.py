"""Loops that do not end: how that is noticed, and what is said of them.

    X@n = X@(n − p)  for some p     the rounds alternate with the period p, and so they do for ever

What the collections are at a round is known by a *fingerprint*: the sum of the hashes of their rows, so that it moves by what
the round changes, at no other cost. Rounds whose fingerprints are those of p rounds before, time after time, are a reason
to read the collections and compare them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from headwater.engine.here.equal_rows import consolidated
from headwater.errors import NoFixpoint
from headwater.plan.analysis import loops_of
from headwater.plan.program import WEIGHT, Loop, Program
from headwater.rules.rounds import ROUND
from headwater.state.hashing import hash_keys
from headwater.state.run import column

PATIENCE = 25
"""Rounds after which a loop is watched, and rounds that have to repeat others before it is asked whether that will ever end."""
SHOWN = 3
"""Rows and views that are named at most."""


class Fingerprints:
    """What collections have been, round by round."""

    def __init__(self) -> None:
        self.now = 0
        self.seen: dict[int, int] = {}
        """By fingerprint, the last round that had it."""
        self.period = 0
        """How many rounds ago the fingerprint of the last round was seen; 0 if it was not."""
        self.repeated = 0
        """How many rounds have repeated others of this period, one after another."""

    def add(self, at: int, changes: Mapping[str, pa.Table]) -> None:
        """Notes a round, by what the collections changed by at it."""
        for name, change in changes.items():
            whose = 2 * crc32(name.encode()) + 1
            self.now = (self.now + whose * _weighed(change)) % (1 << 64)
        period = at - self.seen.get(self.now, at)
        self.repeated = self.repeated + 1 if period and period == self.period else bool(period)
        self.period = period
        self.seen[self.now] = at


def _weighed(change: pa.Table) -> int:
    """The hashes of the rows of a change, added up as often as these come."""
    names = [n for n in change.column_names if n not in (WEIGHT, ROUND)]
    hashes = hash_keys([column(change, n) for n in names], change.num_rows)
    return int((hashes * np.asarray(column(change, WEIGHT))).sum())


def is_nothing(moved: pa.Table) -> bool:
    """Whether what came and went at some rounds is nothing in all."""
    return bool(consolidated(moved.drop_columns([ROUND])).num_rows == 0)


def error(
    program: Program, loop: Loop, at: int, period: int | None, last: Mapping[str, pa.Table]
) -> NoFixpoint:
    """What is said of a loop that has gone too far, or whose rounds alternate; `last` is what came and went at the last one."""
    rows = [r for change in last.values() for r in change.slice(0, SHOWN).to_pylist()]
    some = ", ".join(_shown(r) for r in rows[:SHOWN])
    count = sum(change.num_rows for change in last.values())
    whose = f"a loop{_readers(program, loop)}"
    if period is None:
        what = f"{whose} has not ended after {loop.limit:,} rounds: {count:,} row{'s' if count != 1 else ''} came or went at the last one"
    else:
        what = f"the rounds of {whose} alternate: what there is at round {at:,} is what there was {period:,} rounds before, and rows come and go"
    hint = _hint(_is_sql(loop), period is not None)
    return NoFixpoint(f"{what}, such as {some}", hint=f"{hint}\nthe database is as it was before")


def _readers(program: Program, loop: Loop) -> str:
    """The views that read a loop, first those that were defined first."""
    names = [
        n for n, v in program.views.items() if loop.name in {x.name for x in loops_of(program, v)}
    ]
    if not names:
        return ""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    shown = ", ".join(f"`{n}`" for n in names[:SHOWN])
    return f" of the view{'s' if len(names) > 1 else ''} {shown}{more}"


def _is_sql(loop: Loop) -> bool:
    """Whether a loop was written in SQL: those begin with nothing, and those of Python with rows."""
    return re.match(r"(⟨[^:]+: )?zero\(", loop.text.partition(" := ")[2]) is not None


def _hint(sql: bool, alternates: bool) -> str:
    """What to write, in the language that the loop is written in."""
    if alternates:
        keep = "let the step keep what it has, as UNION does; or say how many rounds there are"
        how = "WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 10)" if sql else "times=10"
        return f"{keep}: {how}"
    if sql:
        return (
            "put a bound on what grows; or allow for more rounds: MAX RECURSION LEVEL n in WITH RECURSIVE, "
            "(ERROR AT RECURSION LIMIT n) in WITH MUTUALLY RECURSIVE, or (RETURN AT RECURSION LIMIT n) for so many"
        )
    return "put a bound on what grows; or allow for more rounds with limit=, or say with times= how many there are"


def _shown(row: dict[str, Any]) -> str:
    """A row that came or went, to be read."""
    cells = ", ".join(f"{n}: {v}" for n, v in row.items() if n not in (WEIGHT, ROUND))
    return f"{'+' if row[WEIGHT] > 0 else '-'} {{{cells}}}"
