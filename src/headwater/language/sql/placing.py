"""A parser that remembers where each expression stands in the text.

sqlglot rewrites some functions into nodes of its own, and what it writes for them need not be what was read. What
Spark evaluates is therefore the text that the author wrote; `place_of` says from where to where it goes. A node that
the parser made out of another (the `rlike` in `a NOT RLIKE b`) has no place of its own, and the node around it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from headwater.language.sql.recursive_grammar import RecursiveParser

PLACE = "place"

_METHODS = (
    *("disjunction", "conjunction", "equality", "comparison", "range", "bitwise", "term"),
    *("factor", "exponent", "unary", "type", "atom", "column", "primary", "paren", "function"),
    *("lambda", "interval"),
)
"""Methods of the parser that read one expression from the token that they begin at."""


class PlacingParser(RecursiveParser):
    """sqlglot's parser for Spark, with a place for what it reads."""


def _placing(read: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **named: Any) -> Any:
        first = self._index
        node = read(self, *args, **named)
        begun = not args and named.get("this") is None  # else it began before
        if begun and isinstance(node, exp.Expr) and self._index > first:
            place = (self._tokens[first].start, self._tokens[self._index - 1].end + 1)
            node.meta.setdefault(PLACE, place)
        return node

    return method


for _name in _METHODS:
    setattr(PlacingParser, f"_parse_{_name}", _placing(getattr(RecursiveParser, f"_parse_{_name}")))


def place_of(node: exp.Expr) -> tuple[int, int] | None:
    """From where to where a node stands in the text; None where the text does not say."""
    if isinstance(node, exp.Column):
        marks = [p.meta for p in node.parts if "start" in p.meta]
        if marks and len(marks) == len(node.parts):
            return min(m["start"] for m in marks), max(m["end"] for m in marks) + 1
        return None
    found: tuple[int, int] | None = node.meta.get(PLACE)
    return found
