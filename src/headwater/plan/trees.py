"""Where a scalar has a tree: conditions on the types of its operands, and on those that must be constant.

A tree is given where Arrow can mean what Spark means for most values. Whether it does for a value is decided when it is
evaluated: `engine/here/arrow.py` leaves to Spark what it cannot tell.

    local(t)      the local time of an instant, in the time zone of the database
    instant(t)    the instant of a local time; day_start(d) the first one of a day

Of windows of time, with constant numbers of microseconds:

    window_start(t, width, offset)           the start of the window that holds t; it never goes back as t goes on
    window_starts(t, width, slide, offset)   the array of the starts s of all that do: t - width < s <= t
    add_micros(t, n)                         so much later
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.calculus import types as ty
from headwater.calculus.formats import reader, writable
from headwater.calculus.jsonpath import steps
from headwater.calculus.texts import plain_pattern
from headwater.calculus.types import Base, KeyType, Type

Types = tuple[KeyType, ...]
Tree = Any
Test = Callable[[Types, KeyType, list[Tree]], bool]


def is_a(t: Type, *names: str) -> bool:
    return isinstance(t, Base) and t.name in names


def integral(t: Type) -> bool:
    return is_a(t, *ty.INTEGRAL)


def _always(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    return True


def _alike(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    """One scalar type throughout."""
    return isinstance(types[0], Base) and all(t == types[0] for t in types)


def _integers(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    return all(integral(t) and t == types[0] for t in types)


def _sums(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    return all(is_a(t, "decimal") for t in types) or (_alike(types, r, trees) and ty.is_numeric(r))


def _quotients(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    """Decimals, or doubles."""
    return all(is_a(t, "decimal") for t in types) or types == (ty.DOUBLE, ty.DOUBLE)


def _remainders(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    """What has a quotient, or integers of one type."""
    return _quotients(types, r, trees) or _integers(types, r, trees)


def _fixed(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    """All but the first operand are constants, and not NULL."""
    return all(t[0] == "literal" and t[2] is not None for t in trees[1:])


def _known_unit(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    unit = next((t for t in trees if t[0] == "literal" and t[1] == "string"), None)
    return unit is not None and isinstance(unit[2], str)


def _rounds(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    """Doubles with up to 15 places, decimals and integers; the places are constant."""
    if is_a(types[0], "float") or not _fixed(types, r, trees):
        return False
    return not is_a(types[0], "double") or len(trees) == 1 or 0 <= trees[1][2] <= 15


def _no_floats(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    return not any(is_a(t, "float") for t in types)


def _days_of_text(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    return _fixed(types, r, trees) and isinstance(trees[1][2], str)


def _same_pattern(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    """A constant pattern that means the same in Java and here; one that is replaced is never empty."""
    if not _fixed(types, r, trees):
        return False
    pattern = plain_pattern(trees[1][2])
    if pattern is None:
        return False
    if r == ty.STRING and isinstance(trees[2][2], str):
        return pattern.search("") is None and not set("$\\") & set(trees[2][2])
    return r != ty.STRING or 0 <= trees[2][2] <= pattern.groups


def _written(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    return _fixed(types, r, trees) and writable(trees[1][2])


def _read(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    return _fixed(types, r, trees) and reader(trees[1][2]) is not None


def _path(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    return _fixed(types, r, trees) and steps(trees[1][2]) is not None


_TESTS: tuple[tuple[Test, str], ...] = (
    (
        _always,
        "and or not is_null is_not_null case negate abs length concat trim ltrim rtrim one_row among",
    ),
    (_alike, "= <> < <= > >= <=> greatest least coalesce py_present"),
    (_sums, "+ - *"),
    (_quotients, "/"),
    (_remainders, "%"),
    (_integers, "div pmod py_floordiv py_mod"),
    (_always, "year quarter month day dayofweek dayofyear weekofyear date_add date_sub datediff"),
    (_always, "weekday yearofweek last_day add_months unix_date"),
    (_always, "hour minute second second_part unix_seconds unix_timestamp unix_millis unix_micros"),
    (_always, "timestamp_seconds timestamp_millis timestamp_micros"),
    (_known_unit, "trunc date_trunc"),
    (_fixed, "window_start window_starts add_micros"),
    (_days_of_text, "next_day"),
    (_rounds, "round"),
    (_no_floats, "floor ceil sign sqrt rint isnan nanvl"),
    (_always, "exp ln log log2 log10 power hex initcap"),
    (_always, "as_timestamp trim_both trim_leading trim_trailing"),
    (_fixed, "split item get element_at try_element_at"),
    (_path, "get_json_object"),
    (_written, "date_format from_unixtime"),
    (_read, "to_timestamp"),
    (_always, "upper lower concat_ws"),
    (_always, "startswith endswith contains replace instr repeat right substring left"),
    (_always, "reverse lpad rpad locate substring_index translate split_part md5 sha1 sha256"),
    (_same_pattern, "rlike regexp_extract regexp_replace"),
)

TREES: dict[str, Test] = {name: test for test, names in _TESTS for name in names.split()}
"""Where the tree of a call means what Spark means; casts have `cast_tree`."""


# --- casts ---------------------------------------------------------------------------------------------------

_WHOLE = frozenset(ty.INTEGRAL)
_NUMBERS = _WHOLE | {"float", "double", "decimal"}


def cast_tree(source: KeyType, target: KeyType, tree: Tree) -> Tree:
    """A cast that Arrow can make; NULL of any type."""
    if source == ty.VOID:
        return ["literal", str(target), None]
    if tree is None or not (isinstance(source, Base) and isinstance(target, Base)):
        return None
    if tree[0] == "literal" and source.name == "decimal" and target == ty.DOUBLE:
        return ["literal", "double", tree[2] if tree[2] is None else repr(float(tree[2]))]
    if source == ty.TIMESTAMP:
        here = ["local", "timestamp_ntz", tree]
        return here if target == ty.TIMESTAMP_NTZ else cast_tree(ty.TIMESTAMP_NTZ, target, here)
    if target == ty.TIMESTAMP:
        if source == ty.DATE:
            return ["day_start", "timestamp", tree]
        if source == ty.TIMESTAMP_NTZ:
            return ["instant", "timestamp", tree]
        here = cast_tree(source, ty.TIMESTAMP_NTZ, tree)
        return None if here is None else ["instant", "timestamp", here]
    return ["cast", str(target), tree] if _castable(source.name, target.name) else None


def try_cast_tree(source: KeyType, target: KeyType, tree: Tree) -> Tree:
    """TRY_CAST: the tree of the cast, in which text that is surely no value is NULL; the rest is Spark's to try."""
    made = cast_tree(source, target, tree)
    if source != ty.STRING or made is None or made[0] == "literal":
        return made
    return _tried(made, tree)


def _tried(made: Tree, tree: Tree) -> Tree:
    """The cast of a tree, which may have a change of its zone around it, as one that is tried."""
    name, shown, inner = made
    return ["try_cast", shown, tree] if inner is tree else [name, shown, _tried(inner, tree)]


def _castable(a: str, b: str) -> bool:
    """Whether there is a cast between two kinds of values; the digits of a float are Java's."""
    if (a == "float" and b in ("decimal", "string")) or (
        b == "float" and a in ("decimal", "string")
    ):
        return False
    if a == "string":
        return b in _NUMBERS | {"boolean", "date", "timestamp_ntz"}
    if b == "string":
        return a in _NUMBERS | {"boolean", "date", "timestamp_ntz"}
    moments = {"date", "timestamp_ntz"}
    numbers = _NUMBERS | {"boolean"}
    return (a in numbers and b in numbers) or (a in moments and b in moments)


def like_tree(r: KeyType, trees: list[Tree]) -> Tree:
    """LIKE with a constant pattern; with `%` at its ends only it is a plain search."""
    subject, pattern = trees
    if pattern[0] != "literal" or pattern[2] is None:
        return None
    word = pattern[2].strip("%")
    if "\\" in word:
        return ["like_escaped", str(r), subject, pattern]
    if "%" in word or "_" in word:
        return ["like", str(r), subject, pattern]
    ends = (pattern[2][:1] == "%", pattern[2][-1:] == "%")
    name = {(False, False): "=", (False, True): "startswith", (True, False): "endswith"}
    return [name.get(ends, "contains"), str(r), subject, ["literal", "string", word]]
