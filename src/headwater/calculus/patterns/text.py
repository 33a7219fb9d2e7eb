"""The text of punctuations, read: ⟨zone: {1, 6}, hour: [5, 8]⟩, and sets of them with ∪ between.

What a value stands for depends on the type of its column: '2024-02-29' is text, a date or a time. Without a type it
is what it looks like.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from headwater.calculus.notation.tokens import Cursor
from headwater.calculus.patterns.pattern import (
    ANYTHING,
    Constant,
    Pattern,
    Range,
    normal,
    one_of,
)
from headwater.calculus.patterns.punctuation import NO_TYPES, Punctuation
from headwater.calculus.patterns.sets import Punctuations
from headwater.calculus.ring import number
from headwater.calculus.types import Base
from headwater.errors import BadPattern

_ESCAPED = {"n": "\n", "r": "\r"}


def parse_punctuation(text: str, types: Mapping[str, Base] = NO_TYPES) -> Punctuation:
    """The punctuation that a text stands for: parse(str(p)) = p."""
    reader = _Reader(text, types)
    return reader.whole(reader.punctuation)


def parse_punctuations(text: str, types: Mapping[str, Base] = NO_TYPES) -> Punctuations:
    """The set that a text stands for."""
    reader = _Reader(text, types)
    return reader.whole(reader.several)


class _Reader(Cursor):
    def __init__(self, text: str, types: Mapping[str, Base]):
        super().__init__(text)
        self.types = types

    def several(self) -> Punctuations:
        if self.accept("{"):
            self.take("}")
            return Punctuations((), self.types)
        return Punctuations([self.punctuation(), *self.repeated("∪", self.punctuation)], self.types)

    def punctuation(self) -> Punctuation:
        columns = sorted(self.listed("⟨", self.column, "⟩"), key=lambda c: c[0])
        return Punctuation(tuple((n, p) for n, p in columns if p != ANYTHING))

    def column(self) -> tuple[str, Pattern]:
        first, name = self.at, self.name("column")
        self.take(":")
        t = self.types.get(name)
        found = self.pattern(t)
        if t is None:
            return name, found
        try:
            return name, normal(found, t, column=name)
        except BadPattern as e:
            raise self.wrong(e.what, e.hint, first) from e

    def pattern(self, t: Base | None) -> Pattern:
        if self.accept("*"):
            return ANYTHING
        if self.sees("{"):
            return one_of(self.listed("{", lambda: self.value(t), "}"))
        if not self.sees("[", "("):
            return Constant(self.value(t))
        low_closed = self.next().text == "["
        low = self.end(t)
        self.take(",")
        high = self.end(t)
        if not self.sees("]", ")"):
            raise self.unexpected("`]` or `)`")
        return Range(low, high, low_closed, self.next().text == "]")

    def end(self, t: Base | None) -> Any:
        return None if self.accept("*") else self.value(t)

    def value(self, t: Base | None) -> Any:
        first, sign = self.at, "-" if self.accept("-") else ""
        kind, text, _, _ = self.next()
        try:
            return _value(kind, sign + text, t.name if t else "")
        except (ValueError, ArithmeticError, KeyError) as e:
            what = f"`{sign}{text}` is no {t or 'value'}"
            raise self.wrong(what, "one such as 3, 'a' or null", first) from e


def _value(kind: str, text: str, name: str) -> Any:
    """What a token stands for in a type."""
    if kind == "name":
        return {"null": None, "true": True, "false": False}[text]
    if kind == "string":
        text = re.sub(r"(?s)\\(.)", lambda m: _ESCAPED.get(m[1], m[1]), text[1:-1])
        match name:
            case "binary":
                return bytes.fromhex(text)
            case "date":
                return date.fromisoformat(text)
            case "timestamp" | "timestamp_ntz":
                return datetime.fromisoformat(text)
            case "float" | "double":
                return number(float(text))
            case _:
                return text
    if kind != "number":
        raise ValueError(text)
    if name == "decimal":
        return Decimal(text)
    if name in ("float", "double"):
        return number(float(text))
    return int(text) if text.lstrip("-").isdecimal() else float(text)
