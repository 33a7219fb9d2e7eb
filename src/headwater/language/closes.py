"""How a source is closed: the columns that punctuations of it name, and watermarks that make them from its rows.

    closes="hour"                          somebody says which hours are over
    closes=("zone", "hour")                ... of which zones; a tuple is one scheme of several columns
    closes=["day", watermark("ts", "10 seconds")]
                                           several schemes; a watermark follows the greatest time that was seen

A watermark is `delay` behind the greatest value of its column. With `by` each member (a device, a partition) has its own,
and with `of`, the list of all members, what is below the least of theirs is closed for all; one that is more than `idle`
behind the foremost does not hold the others up. No clock has a part in it: rows say how far it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from headwater.calculus.patterns import (
    Constant,
    Punctuation,
    Punctuations,
    below,
    pattern,
)
from headwater.calculus.patterns import constant as as_constant
from headwater.calculus.types import INTEGRAL, Base, KeyType, RecordType
from headwater.errors import BadPattern, QueryError

UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
LATE = ("refuse", "aside", "drop")
"""What becomes of rows that match what was closed."""


@dataclass(frozen=True)
class Watermark:
    """A scheme that follows the rows: everything `delay` below the greatest value of a column is over."""

    column: str
    delay: Any
    by: str | None = None
    of: tuple[Any, ...] | None = None
    idle: Any = None


def watermark(
    column: str,
    delay: Any,
    *,
    by: str | None = None,
    of: Iterable[Any] | None = None,
    idle: Any = None,
) -> Watermark:
    """A scheme for `closes=`: rows of a source that are `delay` below the greatest value seen of a column are over.

    The greatest number, that is: NaN and the infinities are no measure of how far a source is, and move nothing.

    The delay is text such as '10 seconds' or a timedelta for times, a number for numbers. `by` names a column whose
    members each have a bound of their own; `of` lists all of them, so that what all have passed is over for all; a member
    that is more than `idle` behind the foremost does not hold the others up.
    """
    if of is not None and (isinstance(of, str | bytes) or not isinstance(of, Iterable)):
        raise QueryError(
            f"`of` of a watermark is {of!r}", hint="give a list of all members: of=['a', 'b']"
        )
    return Watermark(column, delay, by, None if of is None else tuple(of), idle)


def closed(**columns: Any) -> Punctuation:
    """What of a source is over: `closed(hour=3)`, `closed(zone={1, 6}, hour=between(5, 8))`; `closed()` is all of it.

    A value is a constant, a set or list several of them, and `below`, `upto`, `above`, `since` and `between` are ranges.
    """
    return Punctuation.of({name: pattern(value) for name, value in columns.items()})


@dataclass(frozen=True)
class Scheme:
    """One way in which a source is closed: by punctuations over some columns, or by a watermark as well."""

    columns: tuple[str, ...]
    delay: Any = None
    """Of a watermark: microseconds for times and days for dates, else a number as text; None if it is none."""
    by: str | None = None
    of: tuple[Any, ...] | None = None
    idle: Any = None

    @property
    def in_order(self) -> bool:
        """Whether it is a watermark."""
        return self.delay is not None

    def described(self) -> dict[str, Any]:
        """The scheme as plain data, for the log."""
        return {n: v for n, v in asdict(self).items() if v is not None}

    @staticmethod
    def read(data: Mapping[str, Any]) -> Scheme:
        """What `described` gave."""
        made: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in data.items()}
        return Scheme(**made)

    def said(self, t: Base) -> str:
        """The scheme in words; `t` is the type of its first column."""
        if self.delay is None:
            return " with ".join(self.columns)
        (column,) = self.columns
        by = "" if self.by is None else f" by {self.by}"
        return f"{column}{by}, {said_delay(self.delay, t)} behind"


def said_delay(delay: Any, t: Base) -> str:
    """A distance between values of a type in words: `30 seconds`, `2 days`, or a number."""
    if t.name == "date":
        return f"{delay} day" if delay == 1 else f"{delay} days"
    if t.name not in ("timestamp", "timestamp_ntz"):
        return str(delay)
    unit, size = next(
        (u, n) for u, n in reversed(UNITS.items()) if delay % n == 0 and (delay or u == "second")
    )
    return f"{delay // size} {unit}" + ("" if delay == size else "s")


def schemes_of(closes: Any, row: RecordType, name: str) -> tuple[Scheme, ...]:
    """What `closes=` says, checked against the columns of a source."""
    if isinstance(closes, str | Watermark) or (
        isinstance(closes, tuple) and closes and all(isinstance(c, str) for c in closes)
    ):
        closes = [closes]
    if not isinstance(closes, list | tuple):
        raise QueryError(
            f"`closes` of `{name}` is of type {type(closes).__name__}",
            hint="name a column, a tuple of columns, a watermark, or give a list of these",
        )
    types = {n: t for n, t in row.fields}
    return tuple(dict.fromkeys(_scheme(c, types, name) for c in closes))


def _scheme(given: Any, types: Mapping[str, KeyType], name: str) -> Scheme:
    if isinstance(given, Watermark):
        return _watermark(given, types, name)
    columns = (given,) if isinstance(given, str) else given
    if not isinstance(columns, list | tuple) or not columns:
        raise QueryError(
            f"`closes` of `{name}` has {given!r}",
            hint="a scheme is a column, a tuple of columns, or a watermark",
        )
    columns = [as_declared(c, types) for c in columns]
    for c in columns:
        _checked(c, types, name)
    return Scheme(tuple(dict.fromkeys(columns)))


def as_declared(column: Any, types: Mapping[str, KeyType]) -> Any:
    """The name of a column as its source has it: capital letters are as good as small ones. What is none stays as it is."""
    if not isinstance(column, str) or column in types:
        return column
    return next((n for n in types if n.lower() == column.lower()), column)


def _checked(column: Any, types: Mapping[str, KeyType], name: str) -> Base:
    """The type of a column that closes, which must be there and have an order."""
    if not isinstance(column, str) or column not in types:
        inner = isinstance(column, str) and "." in column
        raise QueryError(
            f"`{name}` is closed by `{column}`, which is no column of its rows",
            hint="an inner row is closed with its owner: name a column of the key"
            if inner
            else f"its columns are {', '.join(types)}",
        )
    t = types[column]
    if not isinstance(t, Base):
        raise QueryError(
            f"`{name}` is closed by `{column}`, which is of type {t} and has no order",
            hint="name a column of numbers, text, dates or times",
        )
    return t


def _watermark(given: Watermark, types: Mapping[str, KeyType], name: str) -> Scheme:
    column, by = as_declared(given.column, types), as_declared(given.by, types)
    given = replace(given, column=column, by=by)
    t = _checked(given.column, types, name)
    if not _has_distance(t):
        raise QueryError(
            f"the watermark of `{name}` is on `{given.column}`, which is of type {t}",
            hint="a watermark follows a column of times, dates or numbers",
        )
    delay = _amount(given.delay, t, f"the delay of the watermark of `{name}`")
    idle = (
        None
        if given.idle is None
        else _amount(given.idle, t, f"`idle` of the watermark of `{name}`")
    )
    if given.by is None:
        if given.of is not None or given.idle is not None:
            said = "of" if given.of is not None else "idle"
            raise QueryError(
                f"the watermark of `{name}` has `{said}=` and no `by=`",
                hint="`by` names the column whose members are meant",
            )
        return Scheme((given.column,), delay)
    member = _checked(given.by, types, name)
    if given.by == given.column or member.name in ("float", "double"):
        raise QueryError(
            f"the watermark of `{name}` is kept by `{given.by}`, "
            + ("which it follows" if given.by == given.column else f"which is of type {member}"),
            hint="`by` names a column that tells members apart, such as a device or a partition",
        )
    of = None
    if given.of is not None:
        try:
            of = tuple(dict.fromkeys(plain(_value(m, member)) for m in given.of))
        except BadPattern as e:
            raise QueryError(f"`of` of the watermark of `{name}`: {e.what}", hint=e.hint) from e
        if not of:
            raise QueryError(f"`of` of the watermark of `{name}` is empty", hint="list all members")
    if given.idle is not None and of is None:
        raise QueryError(
            f"the watermark of `{name}` has `idle=` and no `of=`",
            hint="`of` lists all members: without it none waits for another",
        )
    return Scheme((given.column,), delay, given.by, of, idle)


def _value(value: Any, t: Base) -> Any:
    made = Punctuation.of({"x": as_constant(value)}).normal({"x": t}).at("x")
    assert isinstance(made, Constant)
    return made.value


def plain(value: Any) -> Any:
    """A value as JSON; it is read back by the type of its column."""
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _has_distance(t: Base) -> bool:
    return t.name in INTEGRAL or t.name in (
        "date",
        "timestamp",
        "timestamp_ntz",
        "decimal",
        "double",
        "float",
    )


def _amount(given: Any, t: Base, what: str) -> Any:
    """A distance between values of a type: microseconds, days, or a number as text."""
    made: Any = None
    if t.name in ("timestamp", "timestamp_ntz", "date"):
        made = interval(given)
        if made is not None and t.name == "date":
            made = made // UNITS["day"] if made % UNITS["day"] == 0 else None
        hint = "write it as text, such as '10 seconds', or as a timedelta"
        hint = "give whole days, such as '2 days'" if t.name == "date" else hint
    else:
        hint = "give a whole number" if t.name in INTEGRAL else "give a number"
        number = isinstance(given, int | float | Decimal) and not isinstance(given, bool)
        if number and math.isfinite(given) and (t.name not in INTEGRAL or given == int(given)):
            made = int(given) if t.name in INTEGRAL else str(given)
            if t.name == "decimal" and -int(Decimal(made).as_tuple().exponent) > t.scale:
                made, hint = (
                    None,
                    f"give a number with no more than {t.scale} digits after the point",
                )
    if made is None:
        raise QueryError(f"{what} is {given!r}", hint=hint)
    if Decimal(made) < 0:
        raise QueryError(f"{what} is negative: {given!r}", hint="a watermark is behind its column")
    return made


def interval(given: Any) -> int | None:
    """A length of time in microseconds: a timedelta, or text such as '1 hour 30 minutes'; None if it is none."""
    if isinstance(given, timedelta):
        return given // timedelta(microseconds=1)
    if not isinstance(given, str):
        return None
    text = re.sub(r"^\s*interval\b", "", given.strip().lower())
    parts = re.findall(r"([+-]?\d+(?:\.\d+)?)\s*([a-z]+)", text)
    if not parts or re.sub(r"[+-]?\d+(?:\.\d+)?\s*[a-z]+", "", text).strip():
        return None
    total = Decimal(0)
    for number, unit in parts:
        size = UNITS.get(unit.rstrip("s"))
        if size is None:
            return None
        total += Decimal(number) * size
    return int(total) if total == int(total) else None


# --- how far watermarks are --------------------------------------------------------------------------------------------


def bound(scheme: Scheme, greatest: Any, t: Base) -> Any:
    """The value below which everything is over, when some value was the greatest; None where the type has none so low."""
    try:
        return _value(_minus(greatest, scheme.delay), t)
    except (OverflowError, BadPattern):
        return None


def _minus(value: Any, amount: Any) -> Any:
    match value:
        case datetime():
            return value - timedelta(microseconds=amount)
        case date():
            return value - timedelta(days=amount)
        case float():
            return value - float(amount)
        case Decimal():
            return value - Decimal(amount)
    return value - int(amount)


def passed(
    scheme: Scheme, greatest: Mapping[Any, Any], types: Mapping[str, Base]
) -> Iterable[Punctuation]:
    """What a watermark says when the greatest value of each member is known; without `by` the one member is None."""
    (column,) = scheme.columns
    if scheme.by is None:
        for value in greatest.values():
            low = bound(scheme, value, types[column])
            if low is not None:
                yield Punctuation.of({column: below(low)})
        return
    for member, value in greatest.items():
        low = bound(scheme, value, types[column])
        if low is not None:
            yield Punctuation.of({scheme.by: as_constant(member), column: below(low)})
    if scheme.of is None or not greatest:
        return
    foremost = max(greatest.values())
    heard = set(greatest)
    members = members_of(scheme, types[scheme.by])
    waits = []
    for m in members:
        if m in heard:
            if not _is_idle(scheme, greatest[m], foremost):
                waits.append(greatest[m])
        elif scheme.idle is None:
            return  # nobody knows how far a member is that was never heard of
    low = bound(scheme, min(waits), types[column]) if waits else None
    if low is not None:
        yield Punctuation.of({column: below(low)})


def members_of(scheme: Scheme, t: Base) -> list[Any]:
    """All members that a watermark lists, of the type of their column."""
    return [value_of(m, t) for m in scheme.of or ()]


def _is_idle(scheme: Scheme, value: Any, foremost: Any) -> bool:
    """Whether a member is so far behind the foremost that it holds nobody up."""
    try:
        return scheme.idle is not None and bool(value < _minus(foremost, scheme.idle))
    except OverflowError:  # nobody can be so far behind
        return False


def more_members(before: Scheme, after: Scheme) -> bool:
    """Whether a scheme is another one with members added to `of`: those wait from then on, and no promise is taken back."""
    known, listed = before.of or (), after.of or ()
    return replace(before, of=after.of) == after and bool(known) and set(known) <= set(listed)


def value_of(value: Any, t: Base | None) -> Any:
    """The value that `plain` wrote, of a type."""
    if value is None or t is None:
        return None
    match t.name:
        case "decimal":
            return Decimal(str(value))
        case "date":
            return date.fromisoformat(value)
        case "timestamp" | "timestamp_ntz":
            return datetime.fromisoformat(value)
    return value


def nulls(schemes: Sequence[Scheme]) -> list[Punctuation]:
    """NULL in a closing column, which no punctuation would ever close: over from the start."""
    names = {c for s in schemes for c in s.columns}
    return [Punctuation.of({n: as_constant(None)}) for n in sorted(names)]


def punctuated(
    name: str,
    given: Any,
    schemes: Sequence[Scheme],
    row: RecordType,
    zone: str,
    static: bool = False,
) -> Punctuation:
    """A punctuation that a user gives for a source, checked against its columns and schemes."""
    if not isinstance(given, Punctuation):
        raise BadPattern(
            f"what closes `{name}` is of type {type(given).__name__}",
            hint="say hw.closed(column=value)",
        )
    if static:
        raise BadPattern(
            f"`{name}` is static, so all of it is over", hint="leave its punctuation out"
        )
    types = dict(row.fields)
    renamed = given.rename({n: as_declared(n, types) for n in given.shape})
    try:
        made = (given if renamed is None else renamed).normal(types, zone)
    except BadPattern as e:
        raise BadPattern(f"what closes `{name}`: {e.what}", hint=e.hint) from e
    named = {c for s in schemes for c in (*s.columns, *([s.by] if s.by else []))}
    other = [c for c in made.shape if c not in named]
    if other:
        raise BadPattern(
            f"`{name}` is not closed by `{other[0]}`",
            hint=f"its source says closes={sorted(named)!r}"
            if named
            else "declare the source with closes=",
        )
    return made


def all_over(schemes: Sequence[Scheme], told: Punctuations) -> Punctuations:
    """What is over of a source: what it was told, and NULL in the columns that close it."""
    return told | Punctuations(nulls(schemes), told.types) if schemes else told
