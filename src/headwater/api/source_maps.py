"""The maps that hold the rows of sources, each with its term: those of relations, and those of the keys of inner rows."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.calculus.terms import Field, For, Num, Record, Rel, Sng, Term, Var
from headwater.calculus.types import INT, RecordType, bag
from headwater.plan.maps import map_of
from headwater.plan.nested.sources import SourcePart
from headwater.plan.program import Map


def part_map(part: SourcePart, row: RecordType) -> tuple[Map, Term]:
    """The map that holds the rows of a relation: looked up by owner or key, or by the whole row."""
    names = [n for n, _ in row.fields]
    low = [n.lower() for n in names]
    by = [low.index(k.lower()) for k in part.label or part.key] or range(len(names))
    term = _selected(part.name, row, names)
    note = f"the rows of {part.name}"
    return map_of(term, list(by), None, "change", (), (), note, "source", None, names), term


def key_map(part: SourcePart) -> tuple[Map, Term]:
    """The map with the keys of inner rows, and with marks that say which of their arrays are there."""
    names = [*part.key, *part.marks.values()]
    term = _selected(part.name, part.row, names)
    by = list(range(len(part.key)))
    note = f"the keys of {part.name}"
    return map_of(term, by, None, "change", (), (), note, "source"), term


def _selected(name: str, row: RecordType, names: Sequence[str]) -> Term:
    x = Var("x0", row)
    cells = Record(tuple((n, Field(x, n)) for n in names))
    return For(x, Rel(name, bag(row)), Sng(cells, Num(1, INT)))
