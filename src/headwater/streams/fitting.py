"""What is checked when transformers are put together, and the messages of what does not fit.

A step can read what it is given if its schema relaxes the other's, and headers of one name have the same columns. Rows
that several tell together come in no order, so their headers must be free of order in each of them. What a function gave
it may not take back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.errors import NotMonotone, SchemaMismatch
from headwater.streams.order import dependence, first_misfit
from headwater.streams.schema import Event, Headers, Schema, headers_of


def check_fits(
    step: str, asked: Schema, asked_headers: Headers, given: Schema, given_headers: Headers
) -> None:
    """A step can read what it is given: `asked` relaxes `given`, and headers of one name have the same columns."""
    misfit = first_misfit(asked, given)
    if misfit is not None:
        raise SchemaMismatch(
            f"{step} does not fit: {misfit}", hint=f"it asks for `{asked}`, and is given `{given}`"
        )
    for name in headers_of(given):
        check_same(step, asked_headers, given_headers, name)


def check_same(step: str, asked: Headers, given: Headers, name: str) -> None:
    """A header that two speak of has the same columns for both."""
    if asked[name].fields != given[name].fields:
        raise SchemaMismatch(
            f"{step} does not fit: header `{name}` has other columns",
            hint=f"it asks for {asked[name]}, and is given {given[name]}",
        )


def check_free(headers: Iterable[str], schema: Schema, why: str) -> None:
    """Headers that are told in one bag by several are free of order in each of them."""
    order = dependence(schema)
    for header in headers:
        bound = [other for h, other in order if h == header]
        if bound:
            raise SchemaMismatch(
                f"header `{header}` {why}, and its rows are in order with those of `{bound[0]}` in `{schema}`",
                hint="rows of several come in no order: relax the output to a Bag of them",
            )


def taken_back(before: Sequence[Event], after: Sequence[Event]) -> NotMonotone:
    """What a function gave before, and what it gives now without some of it."""
    return NotMonotone(
        f"a function takes back what it gave before: it gave {_listed(before)}, and now {_listed(after)}",
        before=tuple(before),
        after=tuple(after),
        hint="what may still change while rows come is told by `answer`, when the bag is over",
    )


def _listed(events: Sequence[Event]) -> str:
    return "{" + ", ".join(str(Event(*e)) for e in events) + "}"
