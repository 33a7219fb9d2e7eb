"""Text: case, joining, searching and cutting.

Case is mapped here for the letters on which Python and Java agree, told by `SURE`. Most functions of text are those of
the calculus, applied to every different value; the common ones are Arrow's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.scalars import SCALARS
from headwater.calculus.texts import literal_pattern
from headwater.engine.here.scalars.base import ArrowCannot, Column, Node, columnar, ints, require
from headwater.engine.here.scalars.casts import each
from headwater.errors import ScalarError


def ascii_only(a: pa.Array) -> bool:
    """Whether all text of a column is ASCII: as many bytes as characters."""
    same = pc.equal(pc.binary_length(a), pc.utf8_length(a))
    return bool(pc.all(same, min_count=0).as_py())


LAST_SURE, SIGMA = 0x0500, "\u03a3"
"""Letters before this one have had their case for long; a capital sigma depends on what is around it."""


def _cased(name: str) -> Node:
    def mapped(value: str | None) -> str | None:
        if value is None:
            return None
        if any(ord(c) >= LAST_SURE or c == SIGMA for c in value):
            raise ArrowCannot("letters whose case may be another one")
        return value.upper() if name == "upper" else value.lower()

    def node(t: pa.DataType, a: pa.Array) -> pa.Array:
        if ascii_only(a):
            return getattr(pc, f"ascii_{name}")(a)
        return each(t, a, mapped)

    return columnar(node)


def concat(_: pa.DataType, *parts: Column) -> Column:
    """All parts together; NULL if one is."""
    between = pa.scalar("", pa.large_string())
    return pc.binary_join_element_wise(*parts, between, null_handling="emit_null")


def _concat_ws(t: pa.DataType, separator: Column, *parts: Column) -> Column:
    """The parts that are not NULL with the separator between them; NULL only if that is.

    Arrow's own way to skip NULLs leaves out the rows in which all parts are NULL.
    """
    joined: Column = pa.scalar(None, t)
    for part in parts:
        both = concat(t, joined, separator, part)
        joined = pc.coalesce(both, joined, part)
    return pc.if_else(pc.is_valid(separator), pc.coalesce(joined, pa.scalar("", t)), None)


def search(name: str) -> Node:
    """A search for a word that is the same in every row."""
    return lambda _, a, word: getattr(pc, name)(a, word.as_py())


def trim(name: str) -> Node:
    """Spaces taken away; no other white space."""
    return lambda _, a: getattr(pc, name)(a, characters=" ")


def substring(_: pa.DataType, a: Column, start: pa.Scalar, length: pa.Scalar) -> Column:
    """Positions count from 1, and 0 is the first as well."""
    begin = max(start.as_py() - 1, 0)
    return pc.utf8_slice_codeunits(a, begin, begin + length.as_py())


def _replace(_: pa.DataType, a: Column, word: Column, by: Column) -> Column:
    word, by = word.as_py(), by.as_py()
    return pc.replace_substring(a, word, by) if word else a


@columnar
def _instr(t: pa.DataType, a: pa.Array, word: Column) -> pa.Array:
    """The place of a word counted from 1, 0 where it is not."""
    if ascii_only(a):
        return pc.add(pc.find_substring(a, word.as_py()), 1).cast(t)
    return each(t, a, lambda v: None if v is None else v.find(word.as_py()) + 1)


def _right(_: pa.DataType, a: Column, count: pa.Scalar) -> Column:
    n = count.as_py()
    if n <= 0:
        return pc.if_else(pc.is_valid(a), "", a)
    return pc.utf8_slice_codeunits(a, -n, None)


# --- value by value -----------------------------------------------------------------------------------------


def _by_value(name: str) -> Node:
    """A function of the calculus, for every row or, where one operand is a column, for every different value."""
    f, strict = SCALARS[name].apply, SCALARS[name].strict

    def value(t: pa.DataType, operands: tuple[Any, ...]) -> Any:
        if strict and any(v is None for v in operands):
            return None
        try:
            return f(t, (), *operands)
        except (ScalarError, ValueError, ArithmeticError, IndexError) as e:
            raise ArrowCannot(str(e)) from e

    def node(t: pa.DataType, *operands: Column) -> Column:
        columns = [i for i, o in enumerate(operands) if not isinstance(o, pa.Scalar)]
        fixed = [o.as_py() if isinstance(o, pa.Scalar) else None for o in operands]
        if not columns:
            return pa.scalar(value(t, tuple(fixed)), t)
        if len(columns) == 1:
            (i,) = columns
            return each(t, operands[i], lambda v: value(t, (*fixed[:i], v, *fixed[i + 1 :])))
        length = len(operands[columns[0]])
        lists = [
            [o.as_py()] * length if isinstance(o, pa.Scalar) else o.to_pylist() for o in operands
        ]
        return pa.array([value(t, row) for row in zip(*lists, strict=True)], t)

    return node


def _quick(name: str, node: Node, least: int | None = None) -> Node:
    """Arrow's own form of a function where all but the first operand are constants, and no number is below a least one."""
    general = _by_value(name)

    def chosen(t: pa.DataType, a: Column, *rest: Column) -> Column:
        fixed = all(isinstance(r, pa.Scalar) and r.is_valid for r in rest)
        if not fixed or isinstance(a, pa.Scalar):
            return general(t, a, *rest)
        if least is not None and any(r.as_py() < least for r in rest):
            return general(t, a, *rest)
        return node(t, a, *rest)

    return chosen


def _matched(name: str) -> Node:
    """A regular expression over text without ends of lines, and without letters of two units in Java."""
    node = _by_value(name)

    def guarded(t: pa.DataType, a: Column, *rest: Column) -> Column:
        if isinstance(a, pa.Scalar) or not ascii_only(a):
            raise ArrowCannot("text in which Java may find something else")
        if pc.any(pc.match_substring_regex(a, r"[\n\r]")).as_py():
            raise ArrowCannot("text of several lines")
        return node(t, a, *rest)

    return guarded


@columnar
def _split(t: pa.DataType, a: pa.Array, pattern: Column, limit: Column) -> pa.Array:
    """The pieces of text, between words or between matches."""
    word, most = literal_pattern(pattern.as_py()), limit.as_py()
    if word is None:
        return _matched("split")(t, a, pattern, limit)
    return pc.split_pattern(a, word, max_splits=most - 1 if most > 0 else None).cast(t)


def _item(first: int, absent: bool) -> Node:
    """The element of an array at a place counted from `first`; NULL where there is none, or else Spark's error."""

    def node(t: pa.DataType, a: pa.Array, place: Column) -> pa.Array:
        wanted, lengths = place.as_py(), ints(pc.list_value_length(a))
        from_end = bool(first) and wanted < 0
        at = lengths + wanted if from_end else np.full(len(a), wanted - first)
        inside = (at >= 0) & (at < lengths)
        if (first and not wanted) or not absent:
            require(inside & (wanted != 0 or not first), a, "no such element")
        places = np.cumsum(lengths) - lengths + at
        return a.flatten().take(pa.array(places, mask=~inside)).cast(t)

    return columnar(node)


BY_VALUE = (
    *("reverse", "lpad", "rpad", "locate", "substring_index", "translate", "split_part"),
    *("trim_both", "trim_leading", "trim_trailing"),
    *("md5", "sha1", "sha256", "hex", "initcap", "get_json_object"),
)

NODES: dict[str, Node] = {
    **{name: _by_value(name) for name in BY_VALUE},
    **{name: _matched(name) for name in ("rlike", "regexp_extract", "regexp_replace")},
    "split": _split,
    "item": _item(0, absent=False),
    "get": _item(0, absent=True),
    "element_at": _item(1, absent=False),
    "try_element_at": _item(1, absent=True),
    "upper": _cased("upper"),
    "lower": _cased("lower"),
    "concat": concat,
    "concat_ws": _concat_ws,
    "startswith": _quick("startswith", search("starts_with")),
    "endswith": _quick("endswith", search("ends_with")),
    "contains": _quick("contains", search("match_substring")),
    "like": search("match_like"),
    "like_escaped": _by_value("like"),
    "trim": trim("utf8_trim"),
    "ltrim": trim("utf8_ltrim"),
    "rtrim": trim("utf8_rtrim"),
    "substring": _quick("substring", substring, least=0),
    "left": _quick("left", lambda t, a, n: substring(t, a, pa.scalar(1), n), least=0),
    "right": _quick("right", _right),
    "replace": _quick("replace", _replace),
    "instr": _quick("instr", _instr),
    "repeat": _quick("repeat", lambda t, a, n: pc.binary_repeat(a, max(n.as_py(), 0))),
}
