"""The words of a script, and its statements: text cut at each `;` that stands in no quotation and no comment.

Quotations and comments are Spark's: '...' and "..." with \\ before what is taken as it is and with a quote written twice,
r'...' without \\, `...` for names, -- to the end of the line, /* ... */ which may stand inside of each other. Every word knows its place in the
script, so that a query is the script's own text from one word to another, with its comments, and an error can name its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from headwater.errors import ParseError, Span

Kind = Literal["word", "name", "text", "number", "sign"]
_SPACE = re.compile(r"\s+")
_LINE_COMMENT = re.compile(r"--[^\r\n]*")
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*")
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"`((?:[^`]|``)*)`")
_RAW = re.compile(r"""[rR](?:'([^']*)'|"([^"]*)")""")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}


@dataclass(frozen=True)
class Word:
    """A word of a script, from `start` up to `end`: a plain word, a name in backquotes, a text, a number or a sign."""

    kind: Kind
    text: str
    start: int
    end: int

    def said(self, *words: str) -> bool:
        """Whether it is one of some plain words or signs; upper and lower case are the same."""
        return self.kind in ("word", "sign") and self.text.upper() in words


@dataclass(frozen=True)
class Script:
    """A text of statements, and the file that it is from."""

    text: str
    file: str = ""

    def span(self, start: int, end: int) -> Span:
        """The place of some of its characters."""
        before = self.text[:start]
        line = before.count("\n") + 1
        column = start - (before.rfind("\n") + 1) + 1
        return Span(line, column, max(1, end - start))

    def line(self, start: int) -> int:
        """The line that a character is in."""
        return self.text.count("\n", 0, start) + 1


@dataclass(frozen=True)
class Piece:
    """One statement of a script, as its words."""

    script: Script
    words: tuple[Word, ...]

    @property
    def start(self) -> int:
        """Where it begins."""
        return self.words[0].start

    @property
    def line(self) -> int:
        """The line that it begins in."""
        return self.script.line(self.start)

    @property
    def text(self) -> str:
        """Its own text, without the `;`."""
        return self.script.text[self.start : self.words[-1].end]

    def from_word(self, i: int) -> str:
        """Its text from a word on."""
        return self.script.text[self.words[i].start : self.words[-1].end]


def pieces(script: Script) -> list[Piece]:
    """The statements of a script; what stands between two `;` and has no word is none."""
    out: list[Piece] = []
    held: list[Word] = []
    for word in words(script):
        if word.kind == "sign" and word.text == ";":
            out += [Piece(script, tuple(held))] if held else []
            held = []
        else:
            held.append(word)
    return out + ([Piece(script, tuple(held))] if held else [])


def words(script: Script) -> Iterator[Word]:
    """The words of a script, one after another, without comments."""
    text, at = script.text, 0
    while at < len(text):
        if found := _SPACE.match(text, at) or _LINE_COMMENT.match(text, at):
            at = found.end()
        elif text.startswith("/*", at):
            at = _after_comment(script, at)
        elif found := _RAW.match(text, at):
            yield Word("text", found[1] if found[1] is not None else found[2], at, found.end())
            at = found.end()
        elif text[at] in "'\"":
            value, end = _quoted(script, at)
            yield Word("text", value, at, end)
            at = end
        elif text[at] == "`":
            named = _NAME.match(text, at)
            if named is None:
                raise _unended(script, at, "name", "`")
            yield Word("name", named[1].replace("``", "`"), at, named.end())
            at = named.end()
        elif found := _NUMBER.match(text, at):
            yield Word("number", found[0], at, found.end())
            at = found.end()
        elif found := _WORD.match(text, at):
            yield Word("word", found[0], at, found.end())
            at = found.end()
        else:
            yield Word("sign", text[at], at, at + 1)
            at += 1


def _after_comment(script: Script, at: int) -> int:
    """The place behind a comment, and behind those inside of it."""
    depth, here, text = 0, at, script.text
    while here < len(text):
        if text.startswith("/*", here):
            depth, here = depth + 1, here + 2
        elif text.startswith("*/", here):
            depth, here = depth - 1, here + 2
            if not depth:
                return here
        else:
            here += 1
    raise _unended(script, at, "comment", "*/")


def _quoted(script: Script, at: int) -> tuple[str, int]:
    """A quotation, and the place behind it; a quote written twice is one quote."""
    text, quote, here = script.text, script.text[at], at + 1
    out: list[str] = []
    while here < len(text):
        c = text[here]
        if c == "\\" and here + 1 < len(text):
            following = text[here + 1]
            kept = f"\\{following}" if following in "%_" else _ESCAPES.get(following, following)
            out.append(kept)
            here += 2
        elif c == quote:
            if not text.startswith(quote, here + 1):
                return "".join(out), here + 1
            out.append(quote)
            here += 2
        else:
            out.append(c)
            here += 1
    raise _unended(script, at, "text", quote)


def _unended(script: Script, at: int, what: str, end: str) -> ParseError:
    return ParseError(
        f"a {what} has no end",
        text=script.text,
        span=script.span(at, at + 1),
        hint=f"close it with {end}",
    )
