"""Conditions that compare a column with a constant, which tell of many views at once that no row of a change concerns them.

    g = 7,  7 < g,  name = 'x'        (column, operator, constant)

A hundred views over one source mostly differ in such a filter. To ask each of them about a set of values, or about the least
and the greatest, takes no table, so that a view that a change does not concern costs a comparison.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from headwater.plan.scalar import Scalar

FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operators, and what they are with their sides exchanged."""
WHOLE = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class Condition:
    """A column compared with a constant: a whole number, or a text."""

    column: str
    operator: str
    constant: Any

    def passes(self, values: Container[Any], least: Any, most: Any) -> bool:
        """Whether one of some values may pass, of which all, or at least the ends, are known; NULL never does."""
        match self.operator:
            case "=":
                return self.constant in values
            case "<":
                return bool(least < self.constant)
            case "<=":
                return bool(least <= self.constant)
            case ">":
                return bool(most > self.constant)
            case _:
                return bool(most >= self.constant)


def condition(s: Scalar) -> Condition | None:
    """A scalar as such a condition, if it is one."""
    if s.tree is None or s.tree[0] not in FLIPPED:
        return None
    operator, _, left, right = s.tree
    if right[0] == "column":
        left, right, operator = right, left, FLIPPED[operator]
    if left[0] != "column":
        return None
    constant = _constant(right, left[1])
    return None if constant is None else Condition(left[2], operator, constant)


def _constant(tree: Any, shown: str) -> int | str | None:
    """The whole number or the text that a tree is, beside a column of a type."""
    if tree[0] == "cast" and tree[1] in WHOLE and tree[2][0] == "literal":
        tree = tree[2]
    if tree[0] != "literal":
        return None
    kind, value = tree[1], tree[2]
    if shown in WHOLE and kind in WHOLE and type(value) is int:
        return value
    return value if shown == kind == "string" and type(value) is str else None
