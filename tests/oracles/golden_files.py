"""The form of golden files of terms, and random values to compare their meaning on.

A file says its inputs once, and its free variables if there are any; then come blocks of a comment, a
term and what the rule makes of it at the root, which is the term itself where the rule does not apply:

    inputs  r(a BIGINT, b BIGINT); s(b BIGINT, c BIGINT)
    scope   x: {a: bigint}; X: Bag(bigint)
    where   counts are natural

    # two signs cancel
    before  -(-r)
    after   r

    # one does not
    before  -r
    after   -r

With the line `where`, of a law that holds for bags alone, no row is there less than no times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from headwater.calculus.notation.parse import parse, parse_key, parse_type
from headwater.calculus.notation.text import show
from headwater.calculus.ring import Dictionary, Function, Value
from headwater.calculus.terms import Term
from headwater.calculus.types import LABEL, FunType, Type
from headwater.errors import ParseError
from headwater.language.schema import schemas
from random_values import Pick, value

Rule = Callable[[Term], Term | None]
NATURAL = "counts are natural"


@dataclass
class Block:
    """A term, the text of what the rule makes of it, and the line it is on."""

    line: int
    before: Term
    after: str | None = None
    natural: bool = False


class Golden:
    """A golden file, read."""

    def __init__(self, text: str):
        self.lines = text.splitlines()
        self.inputs: dict[str, Any] = {}
        self.scope: dict[str, Type] = {}
        self.blocks: list[Block] = []
        natural = False
        for number, line in enumerate(self.lines, start=1):
            word, _, rest = line.partition(" ")
            match word:
                case "inputs":
                    self.inputs = dict(schemas(rest))
                case "scope":
                    self.scope = dict(_declared(rest))
                case "where":
                    natural = rest.strip() == NATURAL
                    if not natural:
                        raise ParseError(f"line {number} of a golden file: where `{rest.strip()}`")
                case "before":
                    self.blocks.append(Block(number, self.read(rest.strip()), natural=natural))
                case "after" if self.blocks and self.blocks[-1].after is None:
                    self.blocks[-1].after = rest.strip()
                case _ if line.strip() and not line.startswith("#"):
                    raise ParseError(f"line {number} of a golden file: `{line}`")

    def read(self, text: str) -> Term:
        """A term: a ring value, or else a key."""
        try:
            return parse(text, self.inputs, self.scope)
        except ParseError as as_ring:
            try:
                return parse_key(text, self.inputs, self.scope)
            except ParseError as as_key:
                raise max(as_ring, as_key, key=_place) from None

    def rewritten(self, rule: Rule) -> str:
        """The text with what the rule makes of each term now."""
        lines = list(self.lines)
        for block in reversed(self.blocks):
            after = f"after   {show(rule(block.before) or block.before)}"
            lines[block.line : block.line + (block.after is not None)] = [after]
        return "\n".join(lines) + "\n"


def _declared(text: str) -> Iterator[tuple[str, Type]]:
    for part in text.split(";"):
        name, _, t = part.partition(":")
        yield name.strip(), parse_type(t.strip())


def _place(error: ParseError) -> tuple[int, int]:
    return (error.span.line, error.span.column) if error.span else (0, 0)


def anything(t: Type, pick: Pick) -> Value:
    """A value of any type; a function gives an arbitrary value, and the same one each time."""
    if not isinstance(t, FunType):
        return value(t, pick)
    known: dict[Any, Value] = {}

    def apply(argument: Any) -> Value:
        if argument not in known:
            known[argument] = anything(t.result, pick)
        return known[argument]

    return Dictionary(apply, lambda _: True) if t.argument == LABEL else Function(apply)
