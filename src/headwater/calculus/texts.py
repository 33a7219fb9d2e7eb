"""Scalar functions of text: more rows of `scalars.SCALARS`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from headwater.calculus.scalars import SCALARS, Scalar, TypeRule
from headwater.calculus.types import (
    BINARY,
    BOOLEAN,
    INTEGER,
    INTEGRAL,
    STRING,
    VOID,
    Base,
    KeyType,
    ListType,
)


def _strings(result: KeyType, *rest: KeyType) -> TypeRule:
    """The first arguments are strings and the others have the given types; VOID fits everywhere."""

    def rule(types: tuple[KeyType, ...]) -> KeyType | None:
        texts = len(types) - len(rest)
        wanted = (STRING,) * texts + rest
        ok = all(
            t in (w, VOID) or (w == INTEGER and isinstance(t, Base) and t.name in INTEGRAL)
            for t, w in zip(types, wanted, strict=True)
        )
        return result if ok else None

    return rule


def _string(
    name: str, result: KeyType, f: Callable[..., Any], *rest: KeyType, texts: int | None = 1
) -> None:
    """A function of `texts` strings (None: any number), then of the given types."""
    arity = (1, None) if texts is None else (texts + len(rest), texts + len(rest))
    apply = lambda _r, _t, *values: f(*values)  # noqa: E731
    SCALARS[name] = Scalar(name, _strings(result, *rest), apply, True, arity)


def substring(s: str, start: int, length: int | None = None) -> str:
    """1-based; a negative start counts from the end, and what lies outside is empty."""
    begin = start - 1 if start > 0 else len(s) + start if start < 0 else 0
    end = len(s) if length is None else begin + length
    return s[max(begin, 0) : max(end, 0)]


def like(s: str, pattern: str) -> bool:
    r"""SQL LIKE with `%`, `_` and the escape `\`."""
    out, i = "", 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\" and i + 1 < len(pattern):
            i += 1
            out += re.escape(pattern[i])
        else:
            out += ".*" if c == "%" else "." if c == "_" else re.escape(c)
        i += 1
    return re.fullmatch(out, s, re.DOTALL) is not None


_string("upper", STRING, str.upper)
_string("lower", STRING, str.lower)
_string("length", INTEGER, len)
_string("trim", STRING, lambda s: s.strip(" "))
_string("ltrim", STRING, lambda s: s.lstrip(" "))
_string("rtrim", STRING, lambda s: s.rstrip(" "))
_string("trim_both", STRING, str.strip, texts=2)
_string("trim_leading", STRING, str.lstrip, texts=2)
_string("trim_trailing", STRING, str.rstrip, texts=2)
_string("concat", STRING, lambda *parts: "".join(parts), texts=None)
_string("replace", STRING, lambda s, a, b: s.replace(a, b) if a else s, texts=3)
_string("startswith", BOOLEAN, str.startswith, texts=2)
_string("endswith", BOOLEAN, str.endswith, texts=2)
_string("contains", BOOLEAN, lambda s, t: t in s, texts=2)
_string("instr", INTEGER, lambda s, t: s.find(t) + 1, texts=2)
_string("like", BOOLEAN, like, texts=2)
_string("reverse", STRING, lambda s: s[::-1])
_string("left", STRING, lambda s, n: s[: max(n, 0)], INTEGER)
_string("right", STRING, lambda s, n: s[-n:] if n > 0 else "", INTEGER)
_string("repeat", STRING, lambda s, n: s * max(n, 0), INTEGER)
_string("substring", STRING, substring, INTEGER, INTEGER)


def concat_ws(separator: str | None, *parts: str | None) -> str | None:
    """The parts that are not NULL, with the separator between them."""
    return None if separator is None else separator.join(p for p in parts if p is not None)


SCALARS["concat_ws"] = Scalar(
    "concat_ws", _strings(STRING), lambda _r, _t, *values: concat_ws(*values), False, (1, None)
)


# --- places and pieces ----------------------------------------------------------------------------------------


def pad(s: str, size: int, fill: str, left: bool) -> str:
    """Text of just this size: cut on the right, or filled on one side."""
    if len(s) >= size:
        return s[: max(size, 0)]
    more = "" if not fill else (fill * (size // len(fill) + 1))[: size - len(s)]
    return more + s if left else s + more


def locate(word: str | None, s: str | None, start: int | None) -> int | None:
    """The place of a word from a place on, counted from 1; 0 where it is not, and where no place is given."""
    if start is None:
        return 0
    if word is None or s is None:
        return None
    if start < 1 or not word:
        return int(start >= 1)
    return s.find(word, start - 1) + 1


def substring_index(s: str, separator: str, count: int) -> str:
    """What comes before the separator is there count times; from the end where count is negative."""
    if not separator or not count:
        return ""
    parts = s.split(separator) if count > 0 else s.rsplit(separator, -count)
    if count > 0:
        return separator.join(parts[:count])
    return s if len(parts) <= -count else separator.join(parts[1:])


def translate(s: str, letters: str, by: str) -> str:
    """Every letter replaced by the one at its place, or left out where there is none."""
    places: dict[int, str | None] = {}
    for i, c in enumerate(letters):
        places.setdefault(ord(c), by[i] if i < len(by) else None)
    return s.translate(places)


def split_part(s: str, separator: str, place: int) -> str:
    """The piece at a place counted from 1, from the end where it is negative; empty where there is none."""
    if place == 0:
        raise ValueError("pieces are counted from 1")
    parts = s.split(separator) if separator else [s]
    at = place - 1 if place > 0 else len(parts) + place
    return parts[at] if 0 <= at < len(parts) else ""


_string("lpad", STRING, lambda s, n, fill: pad(s, n, fill, True), INTEGER, STRING)
_string("rpad", STRING, lambda s, n, fill: pad(s, n, fill, False), INTEGER, STRING)
SCALARS["locate"] = Scalar(
    "locate", _strings(INTEGER, INTEGER), lambda _r, _t, *values: locate(*values), False, (3, 3)
)
_string("substring_index", STRING, substring_index, INTEGER, texts=2)
_string("translate", STRING, translate, texts=3)
_string("split_part", STRING, split_part, INTEGER, texts=2)
_string("md5", STRING, lambda s: hashlib.md5(s.encode(), usedforsecurity=False).hexdigest())
_string("sha1", STRING, lambda s: hashlib.sha1(s.encode(), usedforsecurity=False).hexdigest())
_string("sha256", STRING, lambda s: hashlib.sha256(s.encode()).hexdigest())


# --- regular expressions ----------------------------------------------------------------------------------------

_PLAIN = re.compile(
    r"""(?x) \A (?: \^ )? (?:
      (?: [A-Za-z0-9 ,;:@/_=<>!\#%&'"~\x60-] | \.     # a letter that stands for itself; any letter
        | \\[.*+?()\[\]{}|^$/\\-] | \\[dws]         # an escaped sign; a digit, a letter, a space
        | \[ \^? (?: [A-Za-z0-9](?:-[A-Za-z0-9])? | [ _,;:@/.] | \\[dws.\\] )+ \]
        | \( | \) | \|
      ) (?: [*+?] | \{[0-9]{1,2}(?:,[0-9]{0,2})?\} )? \??
    )* \$? \Z"""
)
"""Regular expressions that mean the same in Java and in Python: ASCII, no looking around, no signs of their own."""


_ODD = ("(?", "()", "||", "(|", "|)", ")*", ")+", ")?", "){")
"""Groups of their own kind, empty ones, and repeated ones, of which Java may keep another match."""


def plain_pattern(pattern: str) -> re.Pattern[str] | None:
    """A pattern as Python's, if it means the same in Java."""
    flags = re.ASCII
    if pattern.startswith("(?i)"):
        pattern, flags = pattern[4:], flags | re.IGNORECASE
    if not _PLAIN.match(pattern) or any(odd in pattern for odd in _ODD):
        return None
    if pattern.endswith("$") and not pattern.endswith("\\$"):
        pattern = pattern[:-1] + r"\Z"
    try:
        return re.compile(pattern, flags)
    except re.error:
        return None


def _compiled(pattern: str) -> re.Pattern[str]:
    found = plain_pattern(pattern)
    if found is None:
        raise ValueError("a regular expression that only Spark reads")
    return found


_LITERAL = re.compile(
    r"(?:[A-Za-z0-9 ,;:@/_=<>!#%&'\"~`\u0100-\uffff\u00a1-\u00ff-]|\\[.*+?()\[\]{}|^$/\\-])+"
)


def literal_pattern(pattern: str) -> str | None:
    r"""The text that a pattern stands for, if it is just text: of `a\.b`, `a.b`."""
    if len(pattern) == 3 and pattern[0] == "[" and pattern[2] == "]" and pattern[1] in ",|;.":
        return pattern[1]
    return re.sub(r"\\(.)", r"\1", pattern) if _LITERAL.fullmatch(pattern) else None


def split(s: str, pattern: str, limit: int) -> tuple[str, ...]:
    """The pieces between the matches of a pattern that matches something; with a limit, that many at most."""
    word = literal_pattern(pattern)
    if word is not None:
        return tuple(s.split(word, limit - 1 if limit > 0 else -1))
    compiled, start = _compiled(pattern), 0
    out: list[str] = []
    if compiled.search("") is not None:
        raise ValueError("a pattern that matches nothing at all")
    for found in compiled.finditer(s):
        if len(out) == limit - 1:
            break
        out.append(s[start : found.start()])
        start = found.end()
    return (*out, s[start:])


def regexp_extract(s: str, pattern: str, group: int) -> str:
    """A group of the first match; empty where there is none."""
    found = _compiled(pattern).search(s)
    return "" if found is None else found[group] or ""


_string("rlike", BOOLEAN, lambda s, p: _compiled(p).search(s) is not None, texts=2)
_string("regexp_extract", STRING, regexp_extract, INTEGER, texts=2)
_string(
    "regexp_replace",
    STRING,
    lambda s, p, by: _compiled(p).sub(lambda _: by, s),
    texts=3,
)
_string("split", ListType(STRING), split, INTEGER, texts=2)


# --- elements of arrays -------------------------------------------------------------------------------------------


def _item(first: int, absent: bool) -> Callable[..., Any]:
    """The element at a place counted from `first`; NULL where there is none, or else an error."""

    def apply(_r: KeyType, _t: Any, array: tuple[Any, ...], place: int) -> Any:
        at = len(array) + place if first and place < 0 else place - first
        if (first and not place) or (not absent and not 0 <= at < len(array)):
            raise ValueError(f"an array of {len(array)} elements has none at {place}")
        return array[at] if 0 <= at < len(array) else None

    return apply


def _element(types: tuple[KeyType, ...]) -> KeyType | None:
    array, place = types
    whole = isinstance(place, Base) and place.name in INTEGRAL
    return array.element if isinstance(array, ListType) and whole else None


for _name, _first, _absent in (
    ("item", 0, False),
    ("get", 0, True),
    ("element_at", 1, False),
    ("try_element_at", 1, True),
):
    SCALARS[_name] = Scalar(_name, _element, _item(_first, _absent), True, (2, 2))


# --- signs ---------------------------------------------------------------------------------------------------------


def hexadecimal(value: Any) -> str:
    """The digits of a number, which counts from 2^64 down where it is negative, or of bytes."""
    if isinstance(value, int):
        return f"{value & (1 << 64) - 1:X}"
    return (value.encode() if isinstance(value, str) else value).hex().upper()


def _hex_type(types: tuple[KeyType, ...]) -> KeyType | None:
    t = types[0]
    known = t in (STRING, BINARY, VOID) or (isinstance(t, Base) and t.name in INTEGRAL)
    return STRING if known else None


SCALARS["hex"] = Scalar("hex", _hex_type, lambda _r, _t, value: hexadecimal(value), True, (1, 1))


def initcap(s: str) -> str:
    """Every word with a capital, and the rest without; words end at spaces."""
    if not s.isascii():
        raise ValueError("letters whose case may be another one")
    return " ".join(w[:1].upper() + w[1:] for w in s.lower().split(" "))


_string("initcap", STRING, initcap)
