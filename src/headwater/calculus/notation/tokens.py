"""The text of the calculus as tokens, and a cursor over them.

A name in backticks has them taken off and its own kind, so that it is never a keyword. The cursor
only moves forward; what it cannot read is a `ParseError` at the token where reading stopped, with
what was expected there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from headwater.calculus.notation.text import NAME
from headwater.errors import ParseError, Span

T = TypeVar("T")

_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?[rd]?)"
    r"|(?P<string>'(?:[^'\\]|\\.)*')"
    r"|(?P<quoted>`(?:[^`]|``)*`)"
    rf"|(?P<name>{NAME.pattern})"
    r"|(?P<sign><=>|<=|>=|<>|:=|=>|->|[-+*/%=<>.,;:(){}\[\]⟨⟩↦·∪@¬δ])",
    re.DOTALL,
)


class Token(NamedTuple):
    """A piece of the text: a number, string, quoted, name or sign, or the end."""

    kind: str
    text: str
    start: int
    end: int


class Cursor:
    """A place in a text, and the ways to move on from it."""

    def __init__(self, text: str):
        self.text, self.at = text, 0
        self.tokens: list[Token] = []
        start = 0
        while start < len(text):
            found = _TOKEN.match(text, start)
            if found is None:
                raise self.error(
                    f"unexpected character {text[start]!r}", "a term", start, start + 1
                )
            kind, piece = str(found.lastgroup), found.group()
            if kind != "space":
                piece = piece[1:-1].replace("``", "`") if kind == "quoted" else piece
                self.tokens.append(Token(kind, piece, start, found.end()))
            start = found.end()
        self.tokens.append(Token("end", "", start, start))

    @property
    def token(self) -> Token:
        """The token here."""
        return self.tokens[self.at]

    @property
    def after(self) -> Token:
        """The token after the one here; after the end comes the end."""
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def error(self, what: str, expected: str, start: int, end: int) -> ParseError:
        """An error at a place in the text."""
        line, margin = self.text.count("\n", 0, start) + 1, self.text.rfind("\n", 0, start) + 1
        span = Span(line, start - margin + 1, max(1, end - start))
        return ParseError(what, text=self.text, span=span, hint=f"expected {expected}")

    def wrong(self, what: str, expected: str, first: int) -> ParseError:
        """An error about what was read from the token `first` up to here."""
        return self.error(what, expected, self.tokens[first].start, self.tokens[self.at - 1].end)

    def unexpected(self, expected: str) -> ParseError:
        """The error that the token here is not what was expected."""
        _, _, start, end = self.token
        found = f"`{self.text[start:end]}`" if end > start else "end of the text"
        return self.error(f"unexpected {found}", expected, start, end)

    def sees(self, *texts: str) -> bool:
        """Whether the token here is one of these signs or words."""
        return self.token.kind in ("sign", "name") and self.token.text in texts

    def opens(self, bracket: str) -> bool:
        """Whether the token here is a name with a bracket after it."""
        named = self.token.kind in ("name", "quoted")
        return named and self.after.kind == "sign" and self.after.text == bracket

    def next(self) -> Token:
        """The token here, which is then behind."""
        out = self.token
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return out

    def accept(self, text: str) -> bool:
        """Reads the sign or word if it is here."""
        seen = self.sees(text)
        self.at += seen
        return seen

    def take(self, text: str) -> None:
        """Reads the sign or word, which must be here."""
        if not self.accept(text):
            raise self.unexpected(f"`{text}`")

    def name(self, of: str) -> str:
        """A name; a dotted one must be quoted."""
        kind, text, _, _ = self.token
        if kind == "quoted" or (kind == "name" and "." not in text):
            return self.next().text
        raise self.unexpected(f"the name of a {of}")

    def integer(self) -> int:
        """A number without a sign, a point or a suffix."""
        if self.token.kind == "number" and self.token.text.isdecimal():
            return int(self.next().text)
        raise self.unexpected("a whole number")

    def within(self, left: str, item: Callable[[], T], right: str) -> T:
        """One item in brackets."""
        self.take(left)
        out = item()
        self.take(right)
        return out

    def listed(self, left: str, item: Callable[[], T], right: str) -> tuple[T, ...]:
        """Items in brackets, with commas between."""
        self.take(left)
        out: list[T] = []
        while not self.sees(right):
            if out:
                self.take(",")
            out.append(item())
        self.take(right)
        return tuple(out)

    def repeated(self, sign: str, item: Callable[[], T]) -> list[T]:
        """Items that each have the sign before them."""
        out = []
        while self.accept(sign):
            out.append(item())
        return out

    def whole(self, item: Callable[[], T]) -> T:
        """An item that is all of the text."""
        out = item()
        if self.token.kind != "end":
            raise self.unexpected(
                "the end of the text; operands that are composite need parentheses"
            )
        return out
