"""The order that a schema asks for: when two rows depend on each other, and which schema asks for less.

Two rows *depend* on each other if their order matters (Definition 10). For rows of two headers that is *never*, or
*whenever these keys are equal*; so the whole relation is a table of keys by pairs of headers, and everything here is
answered from it.

A schema *relaxes* another if every stream of the other can be read as a stream of it: it has all its headers and asks for
no order that the other does not ask for. Whoever reads may ask for less than the writer gives, never for more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from headwater.streams.schema import Bag, Par, PartitionBy, Schema, Sync, headers_of, text

Keys: TypeAlias = tuple[str, ...]
"""Columns that must be equal in two rows."""


def depends(schema: Schema, h: str, g: str) -> Keys | None:
    """When rows of h and g depend on each other: None is never, else whenever these keys are equal.

    Bag: never.  Sync(H, S): if one of them is a mark always, else as in S.  PartitionBy(K, S): as in S, and equal in K.
    Par: as in the part that has both.
    """
    match schema:
        case Bag():
            return None
        case Sync(headers, sub):
            below = headers_of(sub)
            known = (h in headers or h in below) and (g in headers or g in below)
            if known and (h in headers or g in headers):
                return ()
            return depends(sub, h, g)
        case PartitionBy(keys, sub):
            found = depends(sub, h, g)
            return None if found is None else keys + found
        case Par(parts):
            for part in parts:
                if (found := depends(part, h, g)) is not None:
                    return found
            return None
        case _:
            assert_never(schema)


def dependence(schema: Schema) -> dict[tuple[str, str], Keys]:
    """All pairs of headers that can depend on each other, in both directions, with their keys; one walk."""
    match schema:
        case Bag():
            return {}
        case Sync(headers, sub):
            found = dependence(sub)
            for mark in headers:
                for other in headers_of(schema):
                    found[mark, other] = found[other, mark] = ()
            return found
        case PartitionBy(keys, sub):
            return {pair: keys + found for pair, found in dependence(sub).items()}
        case Par(parts):
            return {pair: keys for part in parts for pair, keys in dependence(part).items()}
        case _:
            assert_never(schema)


@dataclass(frozen=True)
class Misfit:
    """Why a schema does not relax another: a header that it has not, or two whose order it asks for and is not given.

    `asked` and `given` are when rows of `header` and `other` depend on each other there; a header that is missing has
    no `other`.
    """

    header: str
    other: str | None = None
    asked: Keys | None = None
    given: Keys | None = None

    @property
    def key(self) -> str | None:
        """A key by which the order that is given is cut, and the order that is asked for is not."""
        lost = [k for k in self.given or () if k not in (self.asked or ())]
        return lost[0] if lost else None

    def __str__(self) -> str:
        if self.other is None:
            return f"header `{self.header}` has no place in it"
        rows = f"rows of `{self.header}`"
        if self.other != self.header:
            rows += f" and `{self.other}`"
        asked = f"{rows} are asked for in order{_of_equal(self.asked)}"
        if self.given is None:
            return f"{asked}, and are given without order"
        return (
            f"{asked}, and are given in order only{_of_equal(self.given)}, not across `{self.key}`"
        )


def _of_equal(keys: Keys | None) -> str:
    """A condition on keys, in words."""
    return f" for equal {', '.join(f'`{k}`' for k in keys)}" if keys else ""


def first_misfit(weak: Schema, strong: Schema) -> Misfit | None:
    """The first reason why `weak` does not relax `strong`, by the order of headers in `strong`; None if it does."""
    have = set(headers_of(weak))
    headers = headers_of(strong)
    for header in headers:
        if header not in have:
            return Misfit(header)
    asked, given = dependence(weak), dependence(strong)
    for place, header in enumerate(headers):
        for other in headers[: place + 1]:
            pair = (header, other)
            # Equal in the asked keys must imply equal in the given ones, so the given ones are among the asked ones.
            if pair in asked and (pair not in given or not set(given[pair]) <= set(asked[pair])):
                return Misfit(header, other, asked[pair], given.get(pair))
    return None


def relaxes(weak: Schema, strong: Schema) -> bool:
    """headers(weak) ⊇ headers(strong), and on those: x D_weak y implies x D_strong y (Definition 15, mended)."""
    return first_misfit(weak, strong) is None


def equivalent(a: Schema, b: Schema) -> bool:
    """Both relax each other: the same headers and the same order, however they are written."""
    return relaxes(a, b) and relaxes(b, a)


def tabled(schema: Schema) -> str:
    """The order that a schema asks for, a line for each pair: `gps gps: equal taxi`."""
    found = dependence(schema)
    headers = headers_of(schema)
    lines = [f"order of `{text(schema)}`"]
    for place, h in enumerate(headers):
        for g in headers[place:]:
            keys = found.get((h, g))
            said = "free" if keys is None else "equal " + ", ".join(keys) if keys else "always"
            lines.append(f"  {h} {g}: {said}")
    return "\n".join(lines)
