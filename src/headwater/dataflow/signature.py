"""Whether a function can be called as a stage calls it: the row, or the key and the rows of each input, in their places;
state, look-ups and the epoch by name, where it has such parameters.

    f(row)    f(key, rows of an input, rows of another, ...)    with state=, epoch=, a look-up= by name
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from headwater.errors import StageError

EPOCH = "epoch"


def taken(
    f: Callable[..., Any],
    shape: Sequence[str],
    needed: Sequence[str],
    wrong: Callable[[str, str], StageError],
) -> frozenset[str]:
    """What a function takes by name; `wrong` makes the error where it cannot be called, or leaves out what it has."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):  # of some functions that are not in Python
        return frozenset()
    offered = {*needed, EPOCH}
    called = f"it is called as f({', '.join(shape)}) with {', '.join(sorted(offered))} by name"
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    any_more = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    if len(placed) < len(shape) and not any_more:
        raise wrong(f"has a function of {len(parameters)} parameters", called)
    rest = [*placed[len(shape) :], *(p for p in parameters if p.kind == p.KEYWORD_ONLY)]
    unknown = [p.name for p in rest if p.name not in offered and p.default is p.empty]
    if unknown:
        raise wrong(f"has a parameter `{unknown[0]}` that means nothing", called)
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        return frozenset(offered)
    takes = {p.name for p in rest}
    lacking = [n for n in needed if n not in takes]
    if lacking:
        raise wrong(
            f"has `{lacking[0]}`, and its function has no such parameter",
            f"add `{lacking[0]}` to it",
        )
    return frozenset(takes & offered)
