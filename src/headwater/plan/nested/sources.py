"""Nested sources: rows with arrays kept as flat relations, one for the rows and one for each array that has an owner.

An array belongs to the row that holds it, so where the rows of a source have a key, their arrays are relations of
their own: rows of the owner's key and the element's columns. What names an array is the key of its owner and its path,
never its contents. A key may name columns of inner rows too (`orders.orderkey`); then their arrays are relations as
well. Where there is no key, nobody could address the array, and it stays a cell that changes with its row.

    customers          custkey, name, orders (0, or NULL for a NULL array)
    customers.orders   custkey, and the columns of an order

To queries a nested source is a query over these relations that puts the rows together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.calculus.check import type_of
from headwater.calculus.shapes import Bags, Cell, Row, Shape, Variant
from headwater.calculus.terms import (
    Box,
    Call,
    Const,
    Field,
    For,
    Num,
    Pred,
    Record,
    Rel,
    Sng,
    Term,
    Times,
    Var,
)
from headwater.calculus.types import (
    BIGINT,
    INT,
    Boxed,
    KeyType,
    MapType,
    RecordType,
    bag,
    has_box,
)
from headwater.errors import QueryError, UnknownName
from headwater.plan.nested.opening import as_lists
from headwater.plan.nested.ownership import Owner

VALUE = "value"
"""The column of an element that is no struct."""
PRESENT = Const(0, BIGINT)


@dataclass(frozen=True)
class SourcePart:
    """One relation of a source: its rows, or the elements of an array in them.

    `row` has the columns of the relation: first those of `label`, the key of the row that holds the array, then the element's
    own. In the place of an array that is a relation itself there is a mark: 0, or NULL for an array that is NULL. `key` are
    the columns that tell rows apart, if there are any; `given` is a row as users write it; `owner` is the number of
    the relation that has the owners. The words are those of the parts of a view, `program.Part`.
    """

    name: str
    path: str
    row: RecordType
    label: tuple[str, ...]
    key: tuple[str, ...]
    shape: Shape
    element: KeyType
    given: RecordType
    owner: int | None

    @property
    def marks(self) -> dict[int, str]:
        """The columns that say whether an array is there, by the number of the relation that has its elements."""
        shapes = self.shape.fields if isinstance(self.shape, Row) else ()
        return {s.variants[0].part: n for n, s in shapes if isinstance(s, Bags)}


def source_parts(name: str, row: RecordType, key: Sequence[str]) -> list[SourcePart]:
    """The relations of a source, its rows first, each after the one above it."""
    parts: list[SourcePart] = []
    keys: dict[str, list[str]] = {}
    for k in key:
        path, _, column = k.rpartition(".")
        keys.setdefault(path.lower(), []).append(column)
    _add(parts, name, "", row, (), keys, None)
    known = {p.path.lower() for p in parts}
    lost = [k for k in key if k.rpartition(".")[0].lower() not in known]
    if lost:
        raise UnknownName(
            f"the key `{lost[0]}` of `{name}` is in no array that has an owner",
            hint="give the key of the rows first, and then keys of inner rows: key=['id', 'items.item']",
        )
    return parts


def _add(
    parts: list[SourcePart],
    name: str,
    path: str,
    element: KeyType,
    owner: tuple[tuple[str, KeyType], ...],
    keys: dict[str, list[str]],
    above: int | None,
) -> int:
    fields = element.fields if isinstance(element, RecordType) else ((VALUE, element),)
    own = _own_key(name, path, fields, keys.get(path.lower(), []))
    owned = _renamed(name, owner, [n for n, _ in fields])
    number = len(parts)
    parts.append(None)  # type: ignore[arg-type]  # its number is taken before those of what is inside
    columns: list[tuple[str, KeyType]] = []
    shapes: list[tuple[str, Shape]] = []
    identity = (*owned, *((k, dict(fields)[k]) for k in own)) if own else ()
    for n, t in fields:
        if isinstance(t, Boxed) and isinstance(t.content, MapType) and own:
            inner = f"{path}.{n}" if path else n
            child = _add(parts, name, inner, t.content.key, identity, keys, number)
            shapes.append((n, Bags((Variant(child, tuple(c for c, _ in identity)),), n)))
            columns.append((n, BIGINT))
        else:
            shapes.append((n, Cell(n)))
            columns.append((n, as_lists(t)))
    shape: Shape = Row(tuple(shapes)) if isinstance(element, RecordType) else shapes[0][1]
    parts[number] = SourcePart(
        f"{name}.{path}" if path else name,
        path,
        RecordType((*owned, *columns)),
        tuple(n for n, _ in owned),
        tuple(n for n, _ in identity),
        shape,
        element,
        RecordType((*owned, *fields)),
        above,
    )
    return number


def _own_key(
    name: str, path: str, fields: Sequence[tuple[str, KeyType]], wanted: Sequence[str]
) -> list[str]:
    known = {n.lower(): (n, t) for n, t in fields}
    out = []
    for k in wanted:
        at = f"{path}.{k}" if path else k
        if k.lower() not in known:
            raise UnknownName(
                f"the key `{at}` is no column of `{name}`",
                hint=f"columns: {', '.join(n for n, _ in fields)}",
            )
        n, t = known[k.lower()]
        if n in out:
            raise QueryError(f"the key of `{name}` has `{at}` twice", hint="name it once")
        if has_box(t):
            raise QueryError(f"the key `{at}` of `{name}` is an array", hint="take a scalar column")
        out.append(n)
    return out


def _renamed(
    name: str, owner: Sequence[tuple[str, KeyType]], taken: Sequence[str]
) -> tuple[tuple[str, KeyType], ...]:
    """The owner's key under names that the element's columns have not."""
    low = {t.lower() for t in taken}
    out: list[tuple[str, KeyType]] = []
    for n, t in owner:
        while n.lower() in low:
            n = f"{name}_{n}"
        low.add(n.lower())
        out.append((n, t))
    return tuple(out)


def owned_by(parts: Sequence[SourcePart]) -> dict[str, Owner]:
    """Which relation has the owners of the rows of each."""
    out = {}
    for p in parts:
        if p.owner is not None:
            above = parts[p.owner]
            out[p.name] = Owner(above.name, tuple(zip(p.label, above.key, strict=True)))
    return out


def rows_of(parts: Sequence[SourcePart]) -> Term:
    """A nested source as a query over its relations."""
    return _rows(parts, 0, ())


def _rows(parts: Sequence[SourcePart], number: int, owner: Sequence[Term]) -> Term:
    part = parts[number]
    x = Var(f"s{number}", part.row)
    same = [Pred(Call("<=>", (Field(x, n), e))) for n, e in zip(part.label, owner, strict=True)]
    shapes = part.shape.fields if isinstance(part.shape, Row) else (("", part.shape),)
    cells: list[tuple[str, Term]] = []
    for n, s in shapes:
        if isinstance(s, Bags):
            mine = [Field(x, k) for k in part.key]
            box = Box(_rows(parts, s.variants[0].part, mine))
            there = Call("is_not_null", (Field(x, n),))
            cells.append((n, Call("case", (there, box, Const(None, type_of(box))))))
        else:
            assert isinstance(s, Cell)
            cells.append((n, Field(x, s.column)))
    key: Term = Record(tuple(cells)) if isinstance(part.shape, Row) else cells[0][1]
    output = Sng(key, Num(1, INT))
    return For(x, Rel(part.name, bag(part.row)), Times((*same, output)) if same else output)
