"""Where a scalar has a tree: conditions on the types of its operands, and on those that must be constant.

A tree is given where Arrow can mean what Spark means for most values. Whether it does for a value is decided when it is
evaluated: `engine/vector.py` leaves to Spark what it cannot tell.

    local(t)      the local time of an instant, in the time zone of the database
    instant(t)    the instant of a local time; day_start(d) the first one of a day
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.calculus import types as ty
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


def _products(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    """A product of decimals keeps all digits, and 256 bits hold it."""
    a, b = types
    if is_a(a, "decimal") and is_a(b, "decimal"):
        assert isinstance(a, Base) and isinstance(b, Base) and isinstance(r, Base)
        return a.scale + b.scale == r.scale and a.precision + b.precision < 76
    return _alike(types, r, trees) and ty.is_numeric(r)


def _quotients(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    """Doubles; and decimals where 256 bits hold the quotient and one digit more than the result has.

    Spark rounds a quotient to 39 places and then to the result's. That is one rounding where the
    divisor has no more digits than lie between: a quotient that is not half is further from it.
    """
    a, b = types
    if not is_a(a, "decimal"):
        return types == (ty.DOUBLE, ty.DOUBLE) and r == ty.DOUBLE
    assert isinstance(a, Base) and isinstance(b, Base) and isinstance(r, Base)
    places = max(a.scale + b.precision - b.scale + 1, r.scale + 1, 4)
    single = b.precision + r.scale <= 39 and r.scale >= a.scale - b.scale
    return single and a.precision - a.scale + b.scale + places <= 76


def _fixed(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    """All but the first operand are constants, and not NULL."""
    return all(t[0] == "literal" and t[2] is not None for t in trees[1:])


def _from_left(types: Types, r: KeyType, trees: list[Tree]) -> bool:
    return _fixed(types, r, trees) and all(t[2] >= 0 for t in trees[1:])


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


_TESTS: tuple[tuple[Test, str], ...] = (
    (
        _always,
        "and or not is_null is_not_null case negate abs length concat trim ltrim rtrim one_row among",
    ),
    (_alike, "= <> < <= > >= <=> greatest least coalesce"),
    (_sums, "+ -"),
    (_products, "*"),
    (_quotients, "/"),
    (_integers, "% div pmod"),
    (_always, "year quarter month day dayofweek dayofyear weekofyear date_add date_sub datediff"),
    (_always, "weekday yearofweek last_day add_months unix_date"),
    (_always, "hour minute second second_part unix_seconds unix_timestamp unix_millis unix_micros"),
    (_always, "timestamp_seconds timestamp_millis timestamp_micros"),
    (_known_unit, "trunc date_trunc"),
    (_days_of_text, "next_day"),
    (_rounds, "round"),
    (_no_floats, "floor ceil sign sqrt rint isnan nanvl"),
    (_always, "upper lower concat_ws"),
    (_fixed, "startswith endswith contains replace instr repeat right"),
    (_always, "reverse lpad rpad locate substring_index translate split_part md5 sha1 sha256"),
    (_same_pattern, "rlike regexp_extract regexp_replace"),
    (_from_left, "substring left"),
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
    """LIKE with a constant pattern that escapes nothing; with `%` at its ends only it is a plain search."""
    subject, pattern = trees
    if pattern[0] != "literal" or pattern[2] is None:
        return None
    word = pattern[2].strip("%")
    if "\\" in word:
        return None
    if "%" in word or "_" in word:
        return ["like", str(r), subject, pattern]
    ends = (pattern[2][:1] == "%", pattern[2][-1:] == "%")
    name = {(False, False): "=", (False, True): "startswith", (True, False): "endswith"}
    return [name.get(ends, "contains"), str(r), subject, ["literal", "string", word]]
