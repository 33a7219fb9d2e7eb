"""Scalar functions of text: more rows of `scalars.SCALARS`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from headwater.calculus.scalars import SCALARS, Scalar, TypeRule
from headwater.calculus.types import BOOLEAN, INTEGER, INTEGRAL, STRING, VOID, Base, KeyType


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
    """A function of so many strings (None: any number), then of the given types."""
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
      (?: [A-Za-z0-9 ,;:@/_=<>!\#%&'"~\x60-]          # a letter that stands for itself
        | \\[.*+?()\[\]{}|^$/\\-] | \\d             # an escaped sign; a digit
        | \[ \^? (?: [A-Za-z0-9](?:-[A-Za-z0-9])? | [ _,;:@/.] | \\[d.\\] )+ \]
        | \( | \) | \|
      ) (?: [*+?] | \{[0-9]{1,2}(?:,[0-9]{0,2})?\} )? \??
    )* \$? \Z"""
)
"""Regular expressions that mean the same in Java and in Python: ASCII, no looking around, no signs of their own."""


_ODD = ("(?", "()", "||", "(|", "|)", ")*", ")+", ")?", "){")
"""Groups of their own kind, empty ones, and repeated ones, of which Java may keep another match."""


def plain_pattern(pattern: str) -> re.Pattern[str] | None:
    """A pattern as Python's, if it means the same in Java."""
    if not _PLAIN.match(pattern) or any(odd in pattern for odd in _ODD):
        return None
    if pattern.endswith("$") and not pattern.endswith("\\$"):
        pattern = pattern[:-1] + r"\Z"
    try:
        return re.compile(pattern, re.ASCII)
    except re.error:
        return None


def _compiled(pattern: str) -> re.Pattern[str]:
    found = plain_pattern(pattern)
    if found is None:
        raise ValueError("a regular expression that only Spark reads")
    return found


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
