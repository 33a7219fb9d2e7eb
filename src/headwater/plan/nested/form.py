"""What the rows of a view are kept as: flat rows, flat parts, or rows with whole arrays.

    flat      no row has an array, at least once bags that are built and read at once are opened
    nested    inner bags are rows of parts of their own, named by labels (`parts`)
    whole     an array is one value, a cell that changes with its row: what labels cannot follow

The form is decided before a map is made, from the term alone, and is recorded with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from headwater.calculus.check import type_of
from headwater.calculus.terms import Rel, Term, relations
from headwater.calculus.types import has_box
from headwater.errors import NotIncremental, NotShreddable
from headwater.plan.nested.groups import groups_again
from headwater.plan.nested.opening import builds_bags, without_order
from headwater.plan.nested.parts import FlatPart, parts_of

MOST_SAID = 200
"""So many characters of a refusal are repeated."""


@dataclass(frozen=True)
class Form:
    """How a term is kept, why, and the term or the flat parts that are kept for it."""

    kind: Literal["flat", "nested", "whole"]
    why: str
    term: Term
    parts: tuple[FlatPart, ...] = ()


def is_plain(term: Term, read: Mapping[Rel, Term]) -> bool:
    """Whether nothing of a term is nested: no array is shown, built or read, and no keys are taken to group by again."""
    plain = not has_box(type_of(term)) and not apart(read)
    return plain and not builds_bags(term) and not groups_again(term)


def apart(read: Mapping[Rel, Term]) -> list[str]:
    """The sources whose arrays are kept as rows of their own."""
    return [r.name for r, t in read.items() if not isinstance(t, Rel)]


def form_of(
    whole: Term,
    opened: Term,
    read: Mapping[Rel, Term],
    refusal: Callable[[Sequence[Term]], str],
) -> Form:
    """The form of a term that is not plain, given as it was and with its bags opened.

    `refusal` says why flat terms cannot be kept, if they cannot. Arrays that are kept as rows of their own are nowhere
    kept whole, so over such sources there is no other form to take, and the refusal is the answer.
    """
    owned = apart(read)
    without_order(opened, _inner(read))
    if not has_box(type_of(opened)):
        why = "" if owned else refusal([opened])
        return Form("whole", why, whole) if why else Form("flat", "no row has an array", opened)
    try:
        parts = tuple(parts_of(opened))
    except NotShreddable as e:
        if owned:
            raise _not_nested(e, owned[0]) from e
        return Form("whole", _short(e.what), whole)
    why = "" if owned else refusal([p.term for p in parts])
    if why:
        return Form("whole", why, whole)
    inner = ", ".join(dict.fromkeys(p.path for p in parts if p.path))
    return Form("nested", f"inner bags are rows of their own: {inner}", opened, parts)


def _inner(read: Mapping[Rel, Term]) -> set[str]:
    """The relations of the arrays that are kept as rows of their own: all that a source is read as but its own rows."""
    return {q.name for r, t in read.items() for q in relations(t) if q.name != r.name}


def _not_nested(e: NotShreddable, source: str) -> NotIncremental:
    return NotIncremental(
        "NESTED",
        f"{_short(e.what)}\n(the arrays of `{source}` are kept as rows of their own)",
        hint=e.hint or "read inner rows with a loop or explode, and compare keys",
    )


def _short(text: str) -> str:
    return text if len(text) < MOST_SAID else f"{text[:MOST_SAID]}..."
