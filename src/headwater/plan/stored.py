"""A program as JSON, both ways: `read(facts_of(p)) = p`.

A program is stored as facts of a version, one for each relation, map, stratum and view, so that a new view adds its own and
leaves the others as they are. A map stands in other facts as its name. Terms and types are texts in the notation of the
calculus, scalars as `scalar.to_json` has them; everything else is a record of `program.py`, written field by field.

    "map:m1a2b3c"      {"place": 3, "map": {...}, "kept": {"changes": {"orders": [...]}, "filling": [...]}}
    "stratum:r4d5e6f"  {"place": 0, "stratum": {...}}
    "program:revenue"  {"place": 1, "view": {...}}

A log may come from somebody else, so what is read is of the types that it should be, and names only what is there; the text
of every scalar, which may go to Spark, is given to whoever reads for a look at it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import count
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from headwater.calculus.deep import with_room
from headwater.calculus.notation.parse import parse_type
from headwater.calculus.shapes import Bags, Cell, Row
from headwater.calculus.types import KeyType, RecordType, RingType, Type
from headwater.calculus.windows import Window
from headwater.plan import names
from headwater.plan import program as p
from headwater.plan.scalar import Scalar, from_json, to_json

MAP, STRATUM, VIEW, RELATION, LOOP = "map:", "stratum:", "program:", "relation:", "loop:"
"""How the facts of a program are called."""
KINDS = (MAP, STRATUM, VIEW, RELATION, LOOP)

T = TypeVar("T")
Facts = dict[str, Any]
Look = Callable[[str], None]
"""Looks at a text that may go to Spark, and raises if it may not."""


@with_room
def facts_of(
    program: p.Program, known: p.Program | None = None, facts: Mapping[str, Any] | None = None
) -> Facts:
    """The facts of a program; of one that is `known` already, whose facts are given, only those that are others.

    Places say the order in which records were added. Those that are there keep theirs, and new ones come behind all: an
    index would give, after something was dropped, a place that another record has.
    """
    out: Facts = {}
    there = {} if known is None or facts is None else facts
    rel, before = program.relations, known.relations if known else p.Relations()
    for name, row in rel.rows.items():
        said = row, rel.levels.get(name, 0), name in rel.static
        if said != (before.rows.get(name), before.levels.get(name, 0), name in before.static):
            out[RELATION + name] = {"row": str(row), "level": said[1], "static": said[2]}
    was, writer = known or p.Program(), _Writer(program.maps)
    order = _places(
        [MAP + n for n in program.kept], there, lambda f: (f["kept"] or {}).get("order")
    )
    places = _places([MAP + n for n in program.maps], there)
    for name, m in program.maps.items():
        kept = program.kept.get(name)
        if was.maps.get(name) is not m or was.kept.get(name) is not kept:
            out[MAP + name] = {
                "place": places[MAP + name],
                "map": writer.record(m),
                "kept": None if kept is None else {"order": order[MAP + name], **writer.kept(kept)},
                "check": name in program.checks,
            }
    places = _places([STRATUM + n for n in program.strata], there)
    for name, s in program.strata.items():
        if was.strata.get(name) is not s:
            out[STRATUM + name] = {"place": places[STRATUM + name], "stratum": writer.record(s)}
    for name, loop in program.loops.items():
        if was.loops.get(name) is not loop:
            out[LOOP + name] = {"loop": writer.record(loop)}
    places = _places([VIEW + n for n in program.views], there)
    for name, v in program.views.items():
        if was.views.get(name) is not v:
            out[VIEW + name] = {"place": places[VIEW + name], "view": writer.record(v)}
    return out


def _places(
    keys: Sequence[str],
    there: Mapping[str, Any],
    said: Callable[[Any], int | None] = lambda fact: fact["place"],
) -> dict[str, int]:
    """The places of records, by the keys of their facts: those that facts say, and new ones behind them."""
    known = {k: at for k in keys if k in there and (at := said(there[k])) is not None}
    new = count(1 + max(known.values(), default=-1))
    return {k: known[k] if k in known else next(new) for k in keys}


def names_of(program: p.Program) -> set[str]:
    """The names of all facts of a program."""
    return {
        *(RELATION + n for n in program.relations.rows),
        *(MAP + n for n in program.maps),
        *(STRATUM + n for n in program.strata),
        *(LOOP + n for n in program.loops),
        *(VIEW + n for n in program.views),
    }


def _kind(key: str) -> str:
    """What a fact is of: the word before the colon in its name, which the log has as its key."""
    word, colon, _ = key.partition(":")
    return word + colon


def is_stored(facts: Mapping[str, Any]) -> bool:
    """Whether facts have a program; those of the first databases have none."""
    return any(_kind(k) == RELATION for k in facts)


@with_room
def read(facts: Mapping[str, Any], look: Look) -> p.Program:
    """The program in the facts of a version."""
    out = p.Program()
    found: dict[str, list[tuple[str, Any]]] = {kind: [] for kind in KINDS}
    for key, value in facts.items():
        if (kind := _kind(key)) in found:
            found[kind].append((key[len(kind) :], value))
    for name, value in found[RELATION]:
        row: Any = parse_type(value["row"])
        out.relations.rows[name] = _is(RecordType, row)
        out.relations.levels[name] = _is(int, value["level"])
        if _is(bool, value["static"]):
            out.relations.static.add(name)
    reader = _Reader(out.maps, look)
    maps = sorted(found[MAP], key=lambda f: _is(int, f[1]["place"]))
    for name, value in maps:
        out.maps[name] = reader.record(p.Map, value["map"])
        if _is(bool, value["check"]):
            out.checks[name] = out.maps[name]
    kept = [(n, v["kept"]) for n, v in maps if v["kept"] is not None]
    for name, value in sorted(kept, key=lambda f: _is(int, f[1]["order"])):
        out.kept[name] = reader.kept(value)
    for name, value in sorted(found[STRATUM], key=lambda f: _is(int, f[1]["place"])):
        out.strata[name] = reader.record(p.Stratum, value["stratum"])
    for name, value in found[LOOP]:
        out.loops[name] = reader.record(p.Loop, value["loop"])
    for name, value in sorted(found[VIEW], key=lambda f: _is(int, f[1]["place"])):
        out.views[name] = reader.record(p.View, value["view"])
    names.check(out)
    return out


# --- writing ------------------------------------------------------------------------------------------------------

_UNIONS = {
    p.Bind,
    p.Filter,
    p.Lookup,
    p.Expand,
    p.AddUp,
    p.Answered,
    p.Stored,
    p.Nested,
    Cell,
    Row,
    Bags,
}
"""Records that stand where others may stand too, so that they say which they are."""
_CLASSES = {c.__name__: c for c in _UNIONS}


class _Writer:
    """Records as JSON; maps of a program are their names."""

    def __init__(self, maps: Collection[str]):
        self.maps = maps

    def kept(self, kept: p.Kept) -> Facts:
        """How a map is kept; a statement that stands among those of single changes already is its place there."""
        places = [(s, [r, i]) for r, found in kept.changes.items() for i, s in enumerate(found)]

        def write(statements: tuple[p.Statement, ...] | None) -> Any:
            if statements is None:
                return None
            known = [next((at for other, at in places if other == s), None) for s in statements]
            return [at or self.record(s) for s, at in zip(statements, known, strict=True)]

        products = kept.products
        return {
            "changes": {r: [self.record(s) for s in found] for r, found in kept.changes.items()},
            "filling": write(kept.filling),
            "at_once": write(kept.at_once),
            "products": None if products is None else [self.record(x) for x in products],
        }

    def record(self, value: Any) -> Facts:
        """A record as its fields, those that have their default left out."""
        out: Facts = {"is": type(value).__name__} if type(value) in _UNIONS else {}
        for f in fields(value):
            cell = getattr(value, f.name)
            if f.default is MISSING or cell != f.default:
                out[f.name] = self._cell(cell)
        return out

    def _cell(self, value: Any) -> Any:
        match value:
            case None | bool() | int() | str():
                return value
            case float():
                return value if value - value == 0 else {"float": str(value)}
            case Decimal():
                return {"decimal": str(value)}
            case tuple():
                return [self._cell(v) for v in value]
            case Scalar():
                # A tree may be deeper than what writes the log can follow, so it is a text of its own.
                return {**to_json(value), "tree": json.dumps(value.tree)}
            case Window():
                return value.text()
            case p.Map() if value.name in self.maps:
                return value.name
            case _ if isinstance(value, _TYPES):
                return str(value)
            case _ if is_dataclass(value):
                return self.record(value)
            case _:
                raise TypeError(f"{value!r} has no form in JSON")


# --- reading ------------------------------------------------------------------------------------------------------

_TYPES = get_args(Type)


class _Reader:
    """Records from JSON, by the types of their fields; what is of another type is an error."""

    def __init__(self, maps: Mapping[str, p.Map], look: Look):
        self.maps, self.look = maps, look

    def kept(self, data: Facts) -> p.Kept:
        """How a map is kept."""
        changes = {
            _is(str, r): tuple(self.record(p.Statement, s) for s in found)
            for r, found in data["changes"].items()
        }

        def read(found: Any) -> tuple[p.Statement, ...]:
            return tuple(
                changes[s[0]][s[1]] if isinstance(s, list) else self.record(p.Statement, s)
                for s in found
            )

        products = data["products"]
        return p.Kept(
            changes,
            read(data["filling"]),
            None if data["at_once"] is None else read(data["at_once"]),
            None if products is None else tuple(self.record(p.Product, x) for x in products),
        )

    def record(self, of: type[T], data: Any) -> T:
        """A record of a class."""
        types = _types_of(cast(Any, of))
        cells = {n: self._cell(types[n], v) for n, v in _is(dict, data).items() if n != "is"}
        return of(**cells)

    def _cell(self, of: Any, value: Any) -> Any:
        if of is str or of is int or of is bool or of is float:  # first, for most cells are
            return _is(of, value)
        if of is Any:
            return _plain(value)
        if of is Scalar:
            made = from_json({**value, "tree": json.loads(value["tree"])})
            for text in (made.sql, *made.reads):
                _is(str, text)
            self.look(made.sql)
            return made
        if of is Window:
            return Window.parse(_is(str, value))
        if of is p.Map:
            return self.maps[value] if isinstance(value, str) else self.record(p.Map, value)
        if of is RecordType or of in (KeyType, RingType):
            return _type(_is(str, value), of)
        origin, arguments = _made_of(of)
        if origin is tuple:
            cells = _is(list, value)
            if arguments[-1:] == (...,):
                return tuple(self._cell(arguments[0], v) for v in cells)
            return tuple(self._cell(t, v) for t, v in zip(arguments, cells, strict=True))
        if origin is Literal:
            if value not in arguments:
                raise ValueError(f"{value!r} is none of {arguments}")
            return value
        if origin in (UnionType, Union):
            if value is None and NoneType in arguments:
                return None
            if isinstance(value, dict) and value.get("is") in _CLASSES:
                named = _CLASSES[value["is"]]
                if named not in arguments:
                    raise TypeError(f"{value['is']} stands where none may stand")
                return self.record(named, value)
            (only,) = [t for t in arguments if t is not NoneType]
            return self._cell(only, value)
        return self.record(of, value)


@lru_cache(maxsize=64)
def _types_of(of: Any) -> dict[str, Any]:
    return get_type_hints(of)


@lru_cache(maxsize=64)
def _made_of(of: Any) -> tuple[Any, tuple[Any, ...]]:
    """What a type is a form of, and of which types."""
    return get_origin(of), get_args(of)


@lru_cache(maxsize=4096)
def _type(text: str, of: Any) -> Any:
    found: Any = parse_type(text)
    if not isinstance(found, get_args(of) or of):
        raise TypeError(f"{text} is no {of}")
    return found


def _plain(value: Any) -> Any:
    """A parameter of an answer: numbers, texts, and tuples of them."""
    match value:
        case {"decimal": str(digits)}:
            return Decimal(digits)
        case {"float": str(name)}:
            return float(name)
        case list():
            return tuple(map(_plain, value))
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise TypeError(f"{value!r} is no parameter")


def _is(of: type[T], value: Any) -> T:
    if not isinstance(value, of) or (isinstance(value, bool) and of is not bool):
        raise TypeError(f"{value!r} is no {of.__name__}")
    return value
