"""Visited: the rounds that a commit went through in each loop, as the note of its version has them, for `explain`.

A loop may take thousands of rounds: those behind the first hundred are noted as one, with all rows that moved in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.show.loops import Rounds

NOTED = 100
"""Rounds of a loop that are noted one by one."""
WORD = "rounds"
"""What they are called in a note."""


def as_note(rounds: Rounds) -> dict[str, Any]:
    """The rounds of loops, for a note; nothing where there are none."""
    return {WORD: {name: _noted(found) for name, found in rounds.items()}} if rounds else {}


def _noted(found: Sequence[tuple[int, int]]) -> list[list[int]]:
    first, rest = found[:NOTED], found[NOTED:]
    last = [[rest[-1][0], sum(n for _, n in rest)]] if rest else []
    return [*(list(one) for one in first), *last]


def from_note(note: Mapping[str, Any]) -> Rounds:
    """The rounds that a note has; none in those of earlier versions of Headwater."""
    found: Mapping[str, Any] = note.get(WORD, {})
    return {name: [(int(at), int(n)) for at, n in visited] for name, visited in found.items()}
