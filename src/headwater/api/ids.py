"""Which changes were applied: an `id` that comes again does nothing.

Text ids are kept for as long as the versions that they made can be read. An application that numbers its changes gives
`id=(application, number)`: of these one number is kept for each application, and whatever is not above it was applied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, TypeAlias

from headwater.errors import BadChange

TEXT, NUMBERED = "applied:", "application:"
"""How the facts are called that say what was applied."""
AT_A_TIME = 256
"""So many ids at most are forgotten with one commit."""
Id: TypeAlias = str | tuple[str, int]


def checked_id(given: Any) -> Id | None:
    """An id, checked: text, or an application and a number."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, (tuple, list)) and len(given) == 2:
        application, number = given
        if isinstance(application, str) and type(number) is int and number >= 0:
            return application, number
    raise BadChange(
        f"{given!r} is no id of a change",
        hint="give text, or (application, number) with a number that grows with every change",
    )


def applied(facts: Mapping[str, Any], id: Id) -> Mapping[str, Any] | None:
    """The `version` and `rows` of a change that was applied before under an id; None if there is none."""
    if isinstance(id, str):
        found: Mapping[str, Any] | None = facts.get(TEXT + id)
        return found
    last = facts.get(NUMBERED + id[0])
    return last if last is not None and id[1] <= last["number"] else None


def noted(id: Id, version: int, rows: Mapping[str, int]) -> tuple[str, dict[str, Any]]:
    """The fact that stores that a change was applied: its name and its value."""
    fact: dict[str, Any] = {"version": version, "rows": dict(rows)}
    if isinstance(id, str):
        return TEXT + id, fact
    return NUMBERED + id[0], {"number": id[1], **fact}


def as_note(id: Id) -> Any:
    """An id as the note of a version has it."""
    return id if isinstance(id, str) else list(id)


class TextIds:
    """The text ids of a database, oldest first, to be forgotten with their versions."""

    def __init__(self, facts: Mapping[str, Any]):
        applied = {k: f for k, f in facts.items() if k.startswith((TEXT, NUMBERED))}
        for key, f in applied.items():
            numbers = f["version"], *([f["number"]] if key.startswith(NUMBERED) else [])
            if not all(type(n) is int for n in numbers) or not isinstance(f["rows"], dict):
                raise ValueError(f"`{key}` does not say what was applied")
        known = ((f["version"], key) for key, f in applied.items() if key.startswith(TEXT))
        self.known = deque(sorted(known))

    def forgotten(self, floor: int) -> list[str]:
        """The facts of ids whose versions cannot be read any more, some at a time."""
        out: list[str] = []
        for version, key in self.known:
            if version >= floor or len(out) >= AT_A_TIME:
                break
            out.append(key)
        return out

    def committed(self, gone: list[str], new: tuple[int, str] | None) -> None:
        """Notes a commit: which ids it forgot, and which one it added."""
        for _ in gone:
            self.known.popleft()
        if new is not None:
            self.known.append(new)
