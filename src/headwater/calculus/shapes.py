"""How nested rows are put together from flat columns.

A nested row is kept flat, with the columns of a label in the place of each inner bag; the bags are in parts of their
own, under the same columns. A shape says which column is where. A place may hold bags of different *variants*, such as
those of two branches of a union: each variant has its part, and a tag says which one it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Cell:
    """A value that is a column."""

    column: str


@dataclass(frozen=True)
class Row:
    """A record, field by field."""

    fields: tuple[tuple[str, Shape], ...]


@dataclass(frozen=True)
class Variant:
    """One kind of bag at a place: the number of the part that has its contents, and the columns of its label."""

    part: int
    label: tuple[str, ...]


@dataclass(frozen=True)
class Bags:
    """An inner bag, or NULL: the tag's column has the number of the variant, or NULL; without one it is the first."""

    variants: tuple[Variant, ...]
    tag: str | None = None

    @property
    def columns(self) -> list[str]:
        """The columns of a row that are the label."""
        return [*([self.tag] if self.tag else []), *(c for v in self.variants for c in v.label)]


Shape: TypeAlias = Cell | Row | Bags


def inner_bags(shape: Shape, path: str = "") -> Iterator[tuple[str, Bags]]:
    """The places of inner bags in a row, by path."""
    match shape:
        case Row(fields):
            for name, inner in fields:
                yield from inner_bags(inner, f"{path}.{name}" if path else name)
        case Bags():
            yield path, shape
        case _:
            return
