"""Patterns of dates and times, such as 'yyyy-MM-dd HH:mm': a moment written in one, and text read in one.

A pattern is a row of parts, each a letter and how often it stands there, or text that stands for itself. The letters
are those of which Spark's meaning is plain: years, months, days, days of the week, the clock and fractions of a second.
Patterns with others, and text that has not just the form of its pattern, are left to Spark.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import cache
from typing import NamedTuple

from headwater.calculus.scalars import SCALARS, Scalar
from headwater.calculus.times import EPOCH
from headwater.calculus.types import (
    BIGINT,
    INTEGRAL,
    STRING,
    TIMESTAMP,
    VOID,
    Base,
    KeyType,
)

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
CLOCK = "HhmsSa"
"""The letters for which the day is not enough."""

_WRITTEN = {"y": (1, 2, 4), "M": (1, 2, 3, 4), "d": (1, 2), "E": (1, 2, 3, 4), "a": (1,)}
_WRITTEN |= dict.fromkeys("Hhms", (1, 2)) | {"S": tuple(range(1, 10)), "D": (1, 3)}
_READ = {"y": (2, 4), "M": (1, 2, 3), "d": (1, 2), "a": (1,), "S": tuple(range(1, 7))}
_READ |= dict.fromkeys("Hhms", (1, 2))
"""Which letters are known, and how often they may stand beside each other: in writing and in reading."""


class Part(NamedTuple):
    """A letter and how often it stands there; without a letter, text that stands for itself."""

    letter: str
    times: int
    text: str = ""


@cache
def parts(pattern: str) -> tuple[Part, ...] | None:
    """The parts of a pattern; None where it has signs with a meaning of their own."""
    out: list[Part] = []
    for found in re.finditer(r"(?s)([A-Za-z])\1*|'((?:[^']|'')*)'|(.)", pattern):
        if found[1]:
            out.append(Part(found[1], len(found[0])))
        elif found[2] is not None:
            out.append(Part("", 0, found[2].replace("''", "'") or "'"))
        elif found[3] in "'[]{}#":
            return None
        else:
            out.append(Part("", 0, found[3]))
    return tuple(out)


def _known(pattern: str, letters: dict[str, tuple[int, ...]]) -> tuple[Part, ...] | None:
    found = parts(pattern)
    if not found or any(p.letter and p.times not in letters.get(p.letter, ()) for p in found):
        return None
    return found


# --- writing --------------------------------------------------------------------------------------------------


def writable(pattern: str) -> bool:
    """Whether moments can be written in a pattern."""
    return _known(pattern, _WRITTEN) is not None


def written(t: datetime, pattern: str) -> str:
    """A moment in a pattern: of 2024-02-01 in 'd MMM yyyy', 1 Feb 2024."""
    found = _known(pattern, _WRITTEN)
    if found is None:
        raise ValueError("a pattern of time that only Spark reads")
    return "".join(_piece(t, p) for p in found)


def _piece(t: datetime, part: Part) -> str:
    letter, count, text = part
    match letter:
        case "":
            return text
        case "y":
            return f"{t.year % 100:02}" if count == 2 else f"{t.year:0{count}}"
        case "M" if count > 2:
            return MONTHS[t.month - 1][: 3 if count == 3 else None]
        case "E":
            return DAYS[t.weekday()][: 3 if count < 4 else None]
        case "a":
            return "AM" if t.hour < 12 else "PM"
        case "S":
            return f"{t.microsecond:06}000"[:count]
    number = {
        "M": t.month,
        "d": t.day,
        "D": t.timetuple().tm_yday,
        "H": t.hour,
        "h": (t.hour - 1) % 12 + 1,
        "m": t.minute,
        "s": t.second,
    }[letter]
    return f"{number:0{count}}"


# --- reading --------------------------------------------------------------------------------------------------


@cache
def reader(pattern: str) -> tuple[re.Pattern[str], tuple[Part, ...]] | None:
    """A regular expression with a group for each letter, and the letters; None where Spark may read it otherwise.

    A number of one or two digits ends where something else begins, so that nothing with a digit may stand after it.
    """
    found = _known(pattern, _READ)
    if found is None:
        return None
    letters = [p.letter for p in found if p.letter]
    once = len(set(letters)) == len(letters) and "y" in letters
    clock = ("h" in letters) == ("a" in letters) and not {"h", "H"} <= set(letters)
    if not once or not clock or ("d" in letters and "M" not in letters):
        return None
    form = ""
    for part, after in zip(found, (*found[1:], Part("", 0, " ")), strict=True):
        loose = part.letter in "MdHhms" and part.times == 1
        if loose and (after.letter not in ("", "a") or after.text[:1].isdigit()):
            return None
        if part.letter and after.letter == "S":  # of digits in a row Java knows no fraction
            return None
        form += _form(part)
    return re.compile(form), tuple(p for p in found if p.letter)


def _form(part: Part) -> str:
    letter, count, text = part
    if not letter:
        return re.escape(text)
    if letter in "yS":
        return f"([0-9]{{{count}}})"
    if letter == "a":
        return "(AM|PM)"
    if letter == "M" and count == 3:
        return f"({'|'.join(m[:3] for m in MONTHS)})"
    return "([0-9]{2})" if count == 2 else "([0-9]{1,2})"


def read(text: str, pattern: str) -> datetime:
    """The moment that text in a pattern says: of '1/2/2024' in 'd/M/yyyy', the first of February."""
    known = reader(pattern)
    found = None if known is None else known[0].fullmatch(text)
    if known is None or found is None:
        raise ValueError("text in another form than its pattern, which only Spark reads")
    said = {p.letter: (p, v) for p, v in zip(known[1], found.groups(), strict=True)}
    numbers = {n: int(v) for n, (_, v) in said.items() if v.isdigit()}
    year = numbers["y"] + (2000 if said["y"][0].times == 2 else 0)
    month = numbers.get("M", 1)
    if "M" in said and "M" not in numbers:
        month = next(i for i, m in enumerate(MONTHS, 1) if m.startswith(said["M"][1]))
    hour = numbers.get("H", 0)
    if "h" in numbers:
        if not 1 <= numbers["h"] <= 12:
            raise ValueError("no hour of half a day")
        hour = numbers["h"] % 12 + (12 if said["a"][1] == "PM" else 0)
    micros = int(said["S"][1].ljust(6, "0")) if "S" in said else 0
    clock = numbers.get("m", 0), numbers.get("s", 0), micros
    return datetime(year, month, numbers.get("d", 1), hour, *clock)


# --- the rows ---------------------------------------------------------------------------------------------------


def _row(name: str, result: KeyType, first: Base, f: object) -> None:
    def rule(types: tuple[KeyType, ...]) -> KeyType | None:
        whole = isinstance(types[0], Base) and first == BIGINT and types[0].name in INTEGRAL
        fits = types[0] in (first, VOID) or whole
        return result if fits and types[1] in (STRING, VOID) else None

    apply = lambda _r, _t, *values: f(*values)  # type: ignore[operator]  # noqa: E731
    SCALARS[name] = Scalar(name, rule, apply, True, (2, 2))


_row("date_format", STRING, TIMESTAMP, written)
_row("from_unixtime", STRING, BIGINT, lambda n, p: written(EPOCH + timedelta(seconds=n), p))
_row("to_timestamp", TIMESTAMP, STRING, read)
