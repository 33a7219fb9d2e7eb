"""How deep a query may be: brackets that say nothing are left out, and what is too deep is refused by name.

The parser and the compiler call themselves for each level; `calculus/deep.py` gives them a large stack, and this bounds what
they need of it. So the levels are counted first, word by word: what each kind of bracket costs is about the number of
calls that the parser makes for it. Chains (`a + b + c`, UNION, AND) are no levels: they are read from the left in loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

BUDGET = 3_500
"""Calls that the parser may need; what is compiled of it needs several times as many."""
_BRACKET, _TABLE, _CASE, _SIGN = 34, 9, 30, 4
_FROM = {"FROM", "JOIN", "COMMA", "UNION", "ALL", "EXCEPT", "INTERSECT", "ALIAS"}
_SIGNS = {"NOT", "DASH", "PLUS", "TILDE"}
LONGEST = 2_000
"""Operators in a chain: the compiler goes into terms one by one."""
MOST_ANSWERS = 150
"""Set operations in a chain that are answers over answers, each with state of its own."""


def plain(tokens: list[Any]) -> list[Any]:
    """The words without brackets that stand directly inside of brackets and directly around others."""
    opened: list[int] = []
    pair: dict[int, int] = {}
    for i, token in enumerate(tokens):
        if token.token_type.name == "L_PAREN":
            opened.append(i)
        elif token.token_type.name == "R_PAREN" and opened:
            pair[opened.pop()] = i
    spare: set[int] = set()
    for start, end in pair.items():
        inside = pair.get(start + 1) == end - 1
        around = pair.get(start - 1) == end + 1
        if inside and around:
            spare |= {start, end}
    return [t for i, t in enumerate(tokens) if i not in spare] if spare else tokens


def too_deep(tokens: list[Any]) -> Any | None:
    """The first word at which a query is deeper than the budget."""
    costs: list[int] = []
    total = signs = 0
    before = ""
    for token in tokens:
        kind = token.token_type.name
        signs = signs + 1 if kind in _SIGNS else 0
        if kind in ("L_PAREN", "CASE"):
            table = kind == "L_PAREN" and before in _FROM
            cost = _CASE if kind == "CASE" else _TABLE if table else _BRACKET
            costs.append(cost)
            total += cost
        elif kind in ("R_PAREN", "END") and costs:
            total -= costs.pop()
        if total + _SIGN * signs > BUDGET:
            return token
        before = kind
    return None


def chain(e: exp.Expr, kinds: tuple[type[exp.Expr], ...]) -> Iterator[exp.Expr]:
    """A node and those down its left side, as long as they are of the same kinds."""
    while isinstance(e, kinds):
        yield e
        e = e.this
