"""Nested views: every flat part a map of its own, looked up by label, and the owners of each label beside it.

A part holds the rows of its flat query. It may hold bags that no row has, since a part reads nothing of the rows above
it. So there is a second map for each part, `owners`: every label, with the labels of the rows above that have it. A bag is
there for a reader when `owners` has its label.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.calculus.check import type_of
from headwater.calculus.shapes import Bags, Cell, Row, Shape, inner_bags
from headwater.calculus.terms import Call, Const, Field, For, Pred, Record, Sng, Term, Times, Var
from headwater.calculus.types import BIGINT, Boxed, KeyType, MapType, RecordType
from headwater.errors import QueryError
from headwater.plan.maps import ONE
from headwater.plan.nested.form import Form
from headwater.plan.nested.parts import FlatPart
from headwater.plan.passes import OF_QUERY, but, name_unions
from headwater.plan.program import Map, Part

if TYPE_CHECKING:
    from headwater.plan.compiler import Compiler


def nested_parts(compiler: Compiler, name: str, form: Form, key: Sequence[str]) -> tuple[Part, ...]:
    """The parts of a nested view, kept; top rows are looked up by the columns `key`."""
    flat, t = form.parts, type_of(form.term)
    assert isinstance(t, MapType)
    types: dict[int, KeyType] = {0: t.key}
    made: list[Part] = []
    for i, p in enumerate(flat):
        columns = type_of(p.term).key.fields
        names = [n for n, _ in columns]
        if p.owner is None:
            lookup = [names.index(c) for c in _key_columns(name, p.shape, key)]
            note = f"the rows of {name}"
        else:
            lookup = list(range(len(p.label)))
            note = f"the inner rows of {name}.{p.path}"
        kept = _kept(compiler, p.term, lookup, note)
        owners = None
        if p.owner is not None:
            owners = _kept(
                compiler,
                _owners(p, flat[p.owner]),
                lookup,
                f"who has the inner bags of {name}.{p.path}",
            )
        for number, content in _inside(types[i], p.shape):
            types[number] = content
        alike = [j for j, other in enumerate(flat) if other.path == p.path]
        kind = alike.index(i) if len(alike) > 1 else None
        made.append(Part(p.path, kept, columns, p.label, p.shape, types[i], p.owner, owners, kind))
    return tuple(made)


def _kept(compiler: Compiler, term: Term, lookup: Sequence[int], note: str) -> Map:
    # Unions stay as they are: parts have been kept so, and the names of their maps say it.
    rows = compiler.rows(compiler.run(but(OF_QUERY, name_unions), term, note), note)
    return compiler.maps.keep(rows, lookup, strategy=compiler.strategy, note=note)


def _owners(part: FlatPart, above: FlatPart) -> Term:
    """Each label with the labels of the rows above that have it."""
    r = Var("r", type_of(above.term).key)
    pairs = [*zip(part.label, part.at, strict=True), *((f"of{n}", n) for n in above.label)]
    row = Sng(Record(tuple((n, Field(r, c)) for n, c in pairs)), ONE)
    if part.tagged is None:
        return For(r, above.term, row)
    tag, number = part.tagged
    mine = Pred(Call("=", (Field(r, tag), Const(number, BIGINT))))
    return For(r, above.term, Times((mine, row)))


def _key_columns(name: str, shape: Shape, key: Sequence[str]) -> list[str]:
    """The columns that top rows are looked up by: those asked for, or the first that is no bag."""
    fields = shape.fields if isinstance(shape, Row) else (("value", shape),)
    plain = {n: s.column for n, s in fields if isinstance(s, Cell)}
    missing = [k for k in key if k not in plain]
    if missing:
        raise QueryError(
            f"the view `{name}` has no column `{missing[0]}` to look rows up by",
            hint=f"columns that are no arrays: {', '.join(plain) or 'none'}",
        )
    if key:
        return [plain[k] for k in key]
    return list(plain.values())[:1] or [c for _, b in inner_bags(shape) for c in b.columns]


def _inside(t: KeyType, shape: Shape) -> list[tuple[int, KeyType]]:
    """The parts of a row's inner bags, each with the type of its elements."""
    match t, shape:
        case RecordType(fields), Row(shapes):
            return [x for (_, f), (_, s) in zip(fields, shapes, strict=True) for x in _inside(f, s)]
        case Boxed(MapType(content, _)), Bags(variants):
            return [(v.part, content) for v in variants]
        case _:
            return []
