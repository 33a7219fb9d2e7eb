"""Window functions: what each is, as data, and what it means.

A window function gives each row of a partition a value that depends on the partition's order. The rows are
sorted by the order columns, then by the rows themselves, so that the answer is one bag; rows that repeat
stand beside each other. *Peers* are rows with equal order columns. A *frame* is the rows around a row that
an aggregate sees: by position (rows), or by what the one order column is (range). Without a frame it is all
up to the last peer, which is the whole partition where there are no order columns.

`evaluate` is the meaning: short and slow. `reach` says how far a changed row can matter.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from headwater.calculus.frames import AGGREGATES, Row, powers_of
from headwater.calculus.notation import text
from headwater.calculus.notation.literals import Literals
from headwater.calculus.ring import number
from headwater.calculus.scalars import EXACT, order
from headwater.calculus.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    INTEGER,
    INTEGRAL,
    REAL,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Base,
    Exact,
    KeyType,
    decimal,
    field_name,
    is_numeric,
)

Direction: TypeAlias = tuple[bool, bool]
"""Of an order column: whether it descends, and whether its NULLs come last."""


@dataclass(frozen=True)
class Interval:
    """What is added to a date or timestamp: months first, then days, then microseconds."""

    months: int = 0
    days: int = 0
    microseconds: int = 0


@dataclass(frozen=True)
class Bound:
    """An end of a frame: a number of rows, or a distance in the order column, after the current row.

    A negative offset is before it, 0 is the current row (in a range frame: its peers), None is no bound.
    Plain numbers are days where the order column is a date.
    """

    offset: int | float | Decimal | Interval | None


UNBOUNDED, CURRENT = Bound(None), Bound(0)


@dataclass(frozen=True)
class Frame:
    """The rows from `start` to `end`, both included; by position, or by the value of the order column."""

    unit: Literal["rows", "range"]
    start: Bound
    end: Bound


DEFAULT = Frame("range", UNBOUNDED, CURRENT)


@dataclass(frozen=True)
class Window:
    """A function of a row, its frame and its place.

    Arguments are columns of the row. `offset` is what lag, lead, nth_value and ntile are given besides, and the gap
    between sessions in microseconds (session_start, whose argument is the one order column, which ascends);
    `default` is a column with what lag and lead give where there is no row. Functions of the place alone
    (row_number, rank, lag, ...) have no use for a frame.
    """

    function: str
    arguments: tuple[str, ...] = ()
    frame: Frame | None = None
    ignore_nulls: bool = False
    offset: int = 1
    default: str | None = None
    returns: KeyType = BIGINT
    exact: bool = False
    """Whether a sum of doubles, and what is made from sums, is rounded once; else as older views have it, at each step."""

    def text(self) -> str:
        """As it is written: lag(a) by 2 default b ignore nulls: int."""
        out = f"{self.function}({', '.join(map(field_name, self.arguments))})"
        out += f" by {self.offset}" if self.offset != 1 else ""
        out += f" default {field_name(self.default)}" if self.default is not None else ""
        out += " ignore nulls" if self.ignore_nulls else ""
        out += " exact" if self.exact else ""
        if self.frame is not None:
            out += f" {self.frame.unit} {_bound(self.frame.start)} to {_bound(self.frame.end)}"
        return f"{out}: {self.returns}"

    def over(self, names: Mapping[str, str]) -> Window:
        """The same with columns under other names."""
        default = None if self.default is None else names[self.default]
        return replace(self, arguments=tuple(names[a] for a in self.arguments), default=default)

    @staticmethod
    def parse(written: str) -> Window:
        """The window that `text` writes so."""
        cursor = Literals(written)
        return cursor.whole(lambda: read_window(cursor))


def _bound(bound: Bound) -> str:
    match bound.offset:
        case None:
            return "unbounded"
        case Interval(months, days, microseconds):
            return f"interval({months}, {days}, {microseconds})"
        case Decimal() as d:
            return text.number(d, Exact(max(0, -int(d.as_tuple().exponent))))
        case float() as f:
            return text.number(f, REAL)
        case n:
            return text.number(n, INT)


def read_window(cursor: Literals) -> Window:
    """Reads a window where the cursor stands."""
    function = cursor.name("window function")
    arguments = cursor.listed("(", lambda: cursor.name("column"), ")")
    offset = cursor.number().value if cursor.accept("by") else 1
    default = cursor.name("column") if cursor.accept("default") else None
    ignore_nulls = cursor.accept("ignore")
    if ignore_nulls:
        cursor.take("nulls")
    exact = bool(cursor.accept("exact"))
    frame = None
    if cursor.sees("rows", "range"):
        by_rows = cursor.next().text == "rows"
        start = _read_bound(cursor)
        cursor.take("to")
        frame = Frame("rows" if by_rows else "range", start, _read_bound(cursor))
    cursor.take(":")
    t = cursor.key_type()
    return Window(function, arguments, frame, ignore_nulls, offset, default, t, exact)


def _read_bound(cursor: Literals) -> Bound:
    if cursor.accept("unbounded"):
        return UNBOUNDED
    if cursor.accept("interval"):
        return Bound(Interval(*cursor.listed("(", lambda: cursor.number().value, ")")))
    return Bound(cursor.number().value)


# --- types -------------------------------------------------------------------------------------------

Types: TypeAlias = tuple[KeyType, ...]


def _sum_type(t: KeyType) -> KeyType | None:
    match t:
        case Base("decimal", p, s):
            return decimal(min(38, p + 10), s)
        case Base(name) if name in INTEGRAL:
            return BIGINT
        case _:
            return DOUBLE if is_numeric(t) or t == VOID else None


def _mean_type(t: KeyType) -> KeyType | None:
    match t:
        case Base("decimal", p, s):
            return decimal(min(38, p + 4), min(38, s + 4))
        case _:
            return DOUBLE if is_numeric(t) or t == VOID else None


def _one(rule: Callable[[KeyType], KeyType | None]) -> Callable[[Types], KeyType | None]:
    return lambda types: rule(types[0]) if len(types) == 1 else None


def _no(result: KeyType) -> Callable[[Types], KeyType | None]:
    return lambda types: result if not types else None


_SPREAD = _one(lambda t: DOUBLE if is_numeric(t) or t == VOID else None)
_TRUTH = _one(lambda t: BOOLEAN if t in (BOOLEAN, VOID) else None)
_SAME = _one(lambda t: t)

FUNCTIONS: dict[str, Callable[[Types], KeyType | None]] = {
    "row_number": _no(INTEGER),
    "rank": _no(INTEGER),
    "dense_rank": _no(INTEGER),
    "ntile": _no(INTEGER),
    "percent_rank": _no(DOUBLE),
    "cume_dist": _no(DOUBLE),
    "lag": _SAME,
    "lead": _SAME,
    "session_start": _one(lambda t: t if t in (TIMESTAMP, TIMESTAMP_NTZ) else None),
    "first_value": _SAME,
    "last_value": _SAME,
    "nth_value": _SAME,
    "min": _SAME,
    "max": _SAME,
    "count": lambda _: BIGINT,
    "sum": _one(_sum_type),
    "avg": _one(_mean_type),
    "var_pop": _SPREAD,
    "var_samp": _SPREAD,
    "stddev_pop": _SPREAD,
    "stddev_samp": _SPREAD,
    "bool_and": _TRUTH,
    "bool_or": _TRUTH,
}
"""The functions, each with the rule for its type; a number that is a parameter is no argument."""

PLACES = (
    *("row_number", "rank", "dense_rank", "ntile", "percent_rank", "cume_dist", "lag", "lead"),
    "session_start",
)
"""Functions of the row's place in the partition; the others are of the frame."""


def result_type(function: str, types: Types) -> KeyType | None:
    """The type that Spark gives the function of such columns; None if it takes none such."""
    rule = FUNCTIONS.get(function)
    return None if rule is None else rule(types)


# --- meaning -----------------------------------------------------------------------------------------


def evaluate(
    rows: Iterable[tuple[tuple[Any, ...], Row, int]],
    directions: Sequence[Direction],
    windows: Sequence[Window],
) -> list[tuple[Row, tuple[Any, ...]]]:
    """The rows of one partition in order, each as often as it is there, with the values of the windows.

    A row comes with its order columns and its multiplicity; a dict's fields are compared in its own order.
    """
    partition = Partition(rows, directions)
    return [
        (row, tuple(number(partition.value(w, i)) for w in windows))
        for i, (_, row) in enumerate(partition.rows)
    ]


class Partition:
    """The rows of one partition, in order, and what the window functions are there."""

    def __init__(
        self, rows: Iterable[tuple[tuple[Any, ...], Row, int]], directions: Sequence[Direction]
    ):
        self.directions = directions
        ranked = sorted((r for r in rows if r[2] > 0), key=lambda r: order(tuple(r[1].values())))
        ranked.sort(key=lambda r: self._place(r[0]))
        self.rows = [(k, row) for k, row, n in ranked for _ in range(n)]
        self.places = [self._place(k) for k, _ in self.rows]

    def _place(self, columns: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(place(v, *d) for v, d in zip(columns, self.directions, strict=True))

    def value(self, w: Window, i: int) -> Any:
        """The value of a window at the i-th row."""
        count, peers = len(self.rows), self._peers(i)
        match w.function:
            case "row_number":
                return i + 1
            case "rank":
                return peers[0] + 1
            case "dense_rank":
                return len({self._peers(j)[0] for j in range(i + 1)})
            case "percent_rank":
                return peers[0] / (count - 1) if count > 1 else 0.0
            case "cume_dist":
                return (peers[-1] + 1) / count
            case "ntile":
                sizes = [count // w.offset + (b < count % w.offset) for b in range(w.offset)]
                return [b for b, size in enumerate(sizes, 1) for _ in range(size)][i]
            case "session_start":
                return self._session_start(w, i)
            case "lag" | "lead":
                return self._shifted(w, i, w.offset if w.function == "lead" else -w.offset)
            case _:
                rows = [self.rows[j][1] for j in self.frame(w.frame or DEFAULT, i)]
                return AGGREGATES[w.function](w, rows)

    def _peers(self, i: int) -> list[int]:
        return [j for j, p in enumerate(self.places) if p == self.places[i]]

    def _shifted(self, w: Window, i: int, by: int) -> Any:
        """The value `by` rows further on; with `ignore nulls` only rows with a value are counted."""
        (name,), step, at = w.arguments, 1 if by > 0 else -1, i
        for _ in range(abs(by)):
            at += step
            while w.ignore_nulls and 0 <= at < len(self.rows) and self.rows[at][1][name] is None:
                at += step
        if 0 <= at < len(self.rows):
            return self.rows[at][1][name]
        return None if w.default is None else self.rows[i][1][w.default]

    def _session_start(self, w: Window, i: int) -> Any:
        """The first time of the rows that are connected with this one: steps from row to row are the gap at most."""
        (name,), gap = w.arguments, timedelta(microseconds=w.offset)
        while i > 0 and self.rows[i][1][name] - self.rows[i - 1][1][name] <= gap:
            i -= 1
        return self.rows[i][1][name]

    def frame(self, frame: Frame, i: int) -> list[int]:
        """The places of the rows that the i-th row's frame has."""
        start, end = frame.start.offset, frame.end.offset
        return [
            j
            for j in range(len(self.rows))
            if (start is None or self._compared(frame.unit, j, i, start) >= 0)
            and (end is None or self._compared(frame.unit, j, i, end) <= 0)
        ]

    def _compared(self, unit: str, j: int, i: int, offset: Any) -> int:
        """Whether row j is before (-1), at (0) or after (1) the bound that row i has."""
        if unit == "rows":
            return int(j > i + offset) - int(j < i + offset)
        if not isinstance(offset, Interval) and offset == 0:
            here, bound = self.places[j], self.places[i]
        else:
            ((value,), (other,)), (direction,) = (self.rows[i][0], self.rows[j][0]), self.directions
            here = place(moved(other, 0), *direction)
            bound = place(moved(value, offset, direction[0]), *direction)
        return int(here > bound) - int(here < bound)


def place(value: Any, descending: bool, nulls_last: bool) -> tuple[Any, ...]:
    """A sort key of a value in an order column."""
    if value is None:
        return (1 if nulls_last else -1,)
    return (0, Reversed(order(value)) if descending else order(value))


@dataclass(frozen=True, order=False)
class Reversed:
    """A sort key that goes down."""

    key: Any

    def __lt__(self, other: Reversed) -> bool:
        return bool(other.key < self.key)


def moved(value: Any, offset: Any, back: bool = False) -> Any:
    """A value of an order column with an offset added, or taken away; dates and timestamps as numbers.

    Decimals and integers are exact here, so a bound beyond the column's type is only far away.
    """
    if value is None:
        return None
    by = offset if isinstance(offset, Interval) else Interval(days=offset)
    sign = -1 if back else 1
    if isinstance(value, datetime):
        naive = value.replace(tzinfo=None) - (value.utcoffset() or timedelta(0))
        clock = (naive - datetime.combine(naive, time())) // timedelta(microseconds=1)
        day = _with_months(naive.date(), sign * by.months) + sign * by.days
        return day * 86_400_000_000 + clock + sign * by.microseconds
    if isinstance(value, date):
        return _with_months(value, sign * by.months) + sign * by.days
    if isinstance(value, Decimal):
        return EXACT.add(value, sign * Decimal(offset))
    return value + sign * offset


def _with_months(day: date, months: int) -> int:
    """The number of the day some months later, or of the last day of that month, in any year."""
    if not months:
        return day.toordinal()
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    # The calendar repeats every 400 years, which are 146,097 days; Python's begins with the year 1.
    cycles, within = divmod(year - 1, 400)
    last = monthrange(within + 1, month + 1)[1]
    return date(within + 1, month + 1, min(day.day, last)).toordinal() + cycles * 146_097


# --- how far a change matters --------------------------------------------------------------------------


@dataclass(frozen=True)
class Reach:
    """How far a changed row matters for the rows around it.

    local: the value at row i depends on the rows i - before to i + after.
    suffix: on those, on the row's peers, and on totals of what comes before, which `carried` lists.
    session: on the rows before it that steps of at most the gap connect with it.
    whole: on the whole partition.
    """

    kind: Literal["local", "suffix", "session", "whole"]
    before: int = 0
    """Rows; of a session the gap, in microseconds."""
    after: int = 0


WHOLE = Reach("whole")


def reach(windows: Iterable[Window], types: Mapping[str, KeyType], powers: bool = True) -> Reach:
    """The reach of several windows together; `types` are those of the row's columns.

    Where there are no order columns all rows are peers, and a suffix is the whole partition. Without `powers` what is
    told from exact sums of doubles depends on the whole partition, as views of earlier rules have it.
    """
    each = [_reach(w, types, powers) for w in windows]
    if len(set(each)) == 1 and each[0].kind == "session":
        return each[0]
    if any(r.kind in ("whole", "session") for r in each):
        return WHOLE
    kind: Literal["local", "suffix"] = "local" if all(r.kind == "local" for r in each) else "suffix"
    before, after = (max((getattr(r, n) for r in each), default=0) for n in ("before", "after"))
    return Reach(kind, before, after)


def _reach(w: Window, types: Mapping[str, KeyType], powers: bool) -> Reach:
    if w.function in ("lag", "lead"):
        by = w.offset if w.function == "lead" else -w.offset
        return WHOLE if w.ignore_nulls else Reach("local", max(0, -by), max(0, by))
    if w.function == "session_start":
        return Reach("session", w.offset)
    if w.function in PLACES:
        return Reach("suffix") if w.function in ("row_number", "rank") else WHOLE
    frame = w.frame or DEFAULT
    start, end = frame.start.offset, frame.end.offset
    if frame.unit == "rows" and isinstance(start, int) and isinstance(end, int):
        return Reach("local", max(0, -start), max(0, end))
    if not isinstance(end, int) or not (frame.unit == "rows" or end == 0):
        return WHOLE
    if frame == Frame("range", CURRENT, CURRENT):
        return Reach("suffix")
    if start is None and (_linear(w, types) or (powers and w.exact)):
        return Reach("suffix", max(0, -end), max(0, end))
    return WHOLE


def _linear(w: Window, types: Mapping[str, KeyType]) -> bool:
    """Whether the value is made from counts and exact sums: sums of floats depend on their order."""
    if w.function in ("sum", "avg"):
        t = types[w.arguments[0]]
        return isinstance(t, Base) and (t.name in INTEGRAL or t.name == "decimal")
    return w.function == "count"


def looks_back(windows: Iterable[Window]) -> bool:
    """Whether no value depends on rows behind its own, so that the first rows can be had without the others."""
    for w in windows:
        if w.function in ("row_number", "rank", "dense_rank"):
            continue
        if w.function in ("lag", "lead"):
            if (w.offset if w.function == "lead" else -w.offset) > 0 or w.ignore_nulls:
                return False
        elif (
            w.frame is None
            or w.frame.unit != "rows"
            or not isinstance(w.frame.end.offset, int)
            or w.frame.end.offset > 0
        ):
            return False
    return True


@dataclass(frozen=True)
class Total:
    """A linear total of rows: how many, how many without a NULL in the columns, the sum of a column or of its powers.

    Sums of powers are not rounded.
    """

    kind: Literal["rows", "count", "sum", "power"]
    columns: tuple[str, ...] = ()
    power: int = 1


def carried(windows: Iterable[Window]) -> tuple[Total, ...]:
    """The totals of the rows before a suffix that its values depend on, where the reach is a suffix."""
    out: dict[Total, None] = {}
    for w in windows:
        running = w.frame is None or w.frame.start == UNBOUNDED
        if w.function in ("row_number", "rank"):
            out[Total("rows")] = None
        elif w.exact and running:
            out[Total("count", w.arguments)] = None
            out |= {Total("power", w.arguments, k): None for k in powers_of(w) if k}
        elif w.function in ("count", "sum", "avg") and running:
            out[Total("count", w.arguments) if w.arguments else Total("rows")] = None
            if w.function != "count":
                out[Total("sum", w.arguments)] = None
    return tuple(out)
