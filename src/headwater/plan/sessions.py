"""Sessions: strata that tell each row the start of its session, and what of them is over.

A row joins a session if it is at most the gap away from a row of it. So no row joins a session any more, and none leaves it,
when the session's last row + the gap is closed; no row that is smaller can come either. Which sessions that are is said by
their rows (`engine/found.py`), and promised in terms of their starts:

    over(starts)  = the starts up to which rows are closed, but for those of sessions whose last row + the gap is not
    dead(rows)    = those more than the gap before each start that is not over

Between a row and a session that it does not belong to there is more than the gap: rows that are read outwards from a change end
before anything that is dead, also where some of that is gone and the rest looks as if it had never been deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.calculus.types import Base
from headwater.plan.closing import Preimage, Tie, Ties
from headwater.plan.monotone import monotone
from headwater.plan.program import Stratum


@dataclass(frozen=True)
class Sessions:
    """The columns of a stratum of sessions: the time of its rows in their bag, the start that they are told; and the gap."""

    time: str
    start: str
    gap: int
    type: Base
    """The type of both columns."""


def sessions_of(s: Stratum) -> Sessions | None:
    """What a stratum says of sessions; None if it says nothing."""
    r = s.ranked
    if r is None or r.reach.kind != "session" or r.limit is not None:
        return None
    name, window = r.windows[0]
    assert isinstance(window.returns, Base)
    return Sessions(r.map.order[0][0], name, r.reach.before, window.returns)


def before_starts(s: Stratum, found: Sessions) -> Ties:
    """What ties starts to the rows that are more than the gap before them: time + gap < start."""
    t = str(found.type)
    moved = monotone(
        ["add_micros", t, ["column", t, found.time], ["literal", "bigint", found.gap]], "UTC"
    )
    assert moved is not None
    same = {c: (Tie(c),) for c in s.group.columns}
    scalar = {c: t for c, t in s.group.key if isinstance(t, Base)}
    return Ties(
        {**same, found.start: (Tie(found.time, (Preimage(moved[0]),)),)},
        types={**scalar, found.time: found.type},
    )
