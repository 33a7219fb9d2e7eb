"""Windows of time in a SELECT: `window(ts, width[, slide[, start]])`, `session_window(ts, gap)`, `window_time(w)`.

A call of `window` in the SELECT list or in GROUP BY gives the rows of the SELECT one more column, `window`, the pair of
a start and an end. A row is in no window if its time is NULL.

    tumbling    one window a row: its start is a scalar, window_start(ts, width, start)
    hopping     every window that holds the row: for s in window_starts(ts, width, slide, start), an array that is expanded
    sessions    of the rows with the same other keys of GROUP BY, those that steps of at most the gap connect: the start is
                an answer over the partition in order, session_start; the end is max(ts) + gap, an aggregate of the group

What is grouped by is the start alone: the end follows from it. There is one such call in a SELECT, as in Spark; elsewhere
it is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.terms import Call, Const, Pred, Term, Unbox, Var, variables
from headwater.calculus.types import (
    BIGINT,
    DATE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Base,
    Boxed,
    MapType,
    RecordType,
)
from headwater.calculus.windows import Window
from headwater.errors import NotIncremental, QueryError, TypeMismatch
from headwater.language.schema import sql_name
from headwater.language.sql.coerce import cast_to
from headwater.language.sql.grouping_sets import has_sets
from headwater.language.sql.placing import place_of
from headwater.language.sql.scope import TimeWindow, field_of
from headwater.language.sql.windows import Stage, Windows

if TYPE_CHECKING:
    from headwater.language.sql.expressions import Expressions
    from headwater.language.sql.reader import Reader

CALLS = ("window", "session_window")
MOST_STARTS = 1 << 16
"""Windows that one row may be in."""


def is_call(e: exp.Expr) -> bool:
    """Whether an expression is a call of `window` or `session_window`."""
    return isinstance(e, exp.Anonymous) and e.name.lower() in CALLS


def is_field(e: exp.Expr) -> bool:
    """Whether an expression is such a call, or a field of one."""
    return is_call(e) or (isinstance(e, exp.Dot) and is_call(e.this))


# --- durations ------------------------------------------------------------------------------------------------

_MICROS = {
    "week": 7 * 86_400_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_MONTHS = {"year", "month"}
_PART = re.compile(r"\s*([+-]?)\s*(\d+(?:\.\d{0,9})?|\.\d{1,9})\s+([a-z]+?)s?(?=\s|$)")


def durations(text: str) -> list[tuple[int, str]] | None:
    """The parts of an interval as Spark reads it from text, each as microseconds and its unit; None if it is none.

    Months and years have no microseconds. Of units only seconds may have places behind the point, and six of them count.
    """
    left = text.strip().lower()
    left = re.sub(r"^interval\s+", "", left)
    out: list[tuple[int, str]] = []
    while left:
        found = _PART.match(left)
        if found is None:
            return None
        sign, amount, unit = found.groups()
        whole, point, places = amount.partition(".")
        if unit not in {*_MICROS, *_MONTHS} or (point and unit != "second"):
            return None
        micros = int(whole or "0") * _MICROS.get(unit, 0) + int(f"{places:0<9}"[:6] if point else 0)
        out.append((-micros if sign == "-" else micros, unit))
        left = left[found.end() :].strip()
    return out or None


def _shown(reader: Reader, e: exp.Expr) -> str:
    """An expression as it is written."""
    place = place_of(e)
    return " ".join(reader.text[slice(*place)].split()) if place else e.sql(dialect="spark")


class _Durations:
    """The durations that a call is given, which are constants."""

    def __init__(self, reader: Reader, e: exp.Anonymous):
        self.reader, self.e = reader, e

    def refuse(self, what: str, at: exp.Expr, hint: str) -> NotIncremental:
        return self.reader.refuse("TIME_WINDOW", what, at, hint)

    def micros(self, at: exp.Expr, called: str) -> int:
        """A duration in microseconds: text such as '10 seconds', or the number itself."""
        sign, literal = (-1, at.this) if isinstance(at, exp.Neg) else (1, at)
        place = place_of(literal)
        written = self.reader.text[slice(*place)] if place else ""
        if re.fullmatch(r"\d+[lL]?", written) and self.e.name.lower() == "window":
            return sign * int(written.rstrip("lL"))
        if not isinstance(at, exp.Literal) or not at.is_string:
            what = f"{called} `{_shown(self.reader, at)}` is no constant duration"
            raise self.refuse(what, at, "write it as text: '10 seconds'")
        parts = durations(at.this)
        if parts is None:
            hint = "write numbers with units: '1 hour 30 minutes'"
            raise self.refuse(f"{called} '{at.this}' is no duration", at, hint)
        if any(unit in _MONTHS for _, unit in parts):
            what = f"{called} '{at.this}' has months, which are not of one length"
            hint = "write days: '30 days'; or group by date_trunc('month', ...)"
            raise self.refuse(what, at, hint)
        if self.e.name.lower() == "session_window" and any(u in ("day", "week") for _, u in parts):
            what = f"{called} '{at.this}' has days, and not every day has 24 hours"
            raise self.refuse(what, at, "write hours: '24 hours'")
        return sum(n for n, _ in parts)

    def positive(self, at: exp.Expr, called: str) -> int:
        found = self.micros(at, called)
        if not 0 < found < 1 << 63:
            what = f"{called} {_shown(self.reader, at)} is not positive"
            raise self.refuse(what, at, "write one that is longer than nothing: '10 seconds'")
        return found

    def window(self) -> tuple[int, int, int]:
        """The width, the slide and the start of `window`."""
        _, *given = self.e.expressions
        if not 1 <= len(given) <= 3:
            raise self.wrong_count("window(time, width[, slide[, start]])")
        width = self.positive(given[0], "the width")
        slide = self.positive(given[1], "the slide") if len(given) > 1 else width
        start = self.micros(given[2], "the start") if len(given) > 2 else 0
        if slide > width:
            what = f"the slide {_shown(self.reader, given[1])} is longer than the width"
            hint = "rows between windows would be in none: filter them, or use a width as long"
            raise self.refuse(what, given[1], hint)
        if abs(start) >= slide:
            what = f"the start {_shown(self.reader, given[2])} is not shorter than the slide"
            raise self.refuse(what, given[2], "write the rest of it that is left by the slide")
        if width > MOST_STARTS * slide:
            what = f"a row would be in more than {MOST_STARTS} windows"
            raise self.refuse(what, given[1], "use a longer slide")
        return width, slide, start

    def gap(self) -> int:
        """The gap of `session_window`."""
        if len(self.e.expressions) != 2:
            raise self.wrong_count("session_window(time, gap)")
        at = self.e.expressions[1]
        if not isinstance(at, exp.Literal):
            what = f"the gap `{_shown(self.reader, at)}` may differ from row to row"
            raise self.refuse(what, at, "write a constant gap: '5 minutes'")
        return self.positive(at, "the gap")

    def wrong_count(self, form: str) -> QueryError:
        what = f"`{_shown(self.reader, self.e)}` has {len(self.e.expressions)} arguments"
        return self.reader.error(QueryError, what, self.e, hint=f"write {form}")


# --- the window of a SELECT -----------------------------------------------------------------------------------


def calls_in(e: exp.Expr) -> Iterator[exp.Anonymous]:
    """The calls in an expression, but for those of its subqueries."""
    if isinstance(e, exp.Query):
        return
    if is_call(e):
        assert isinstance(e, exp.Anonymous)
        yield e
    for child in e.iter_expressions():
        yield from calls_in(child)


def add(x: Expressions, node: exp.Select, grouped: Callable[[], list[exp.Expr]]) -> None:
    """Gives the rows of a SELECT the column of its time window, if it calls for one; `grouped` is what GROUP BY has."""
    group = node.args.get("group")
    for clause in ("where", "having", "order", "qualify"):
        for e in calls_in(node.args.get(clause) or exp.Null()):
            raise misplaced(x.reader, e)
    calls = [
        c for e in (*node.expressions, *([group] if group is not None else [])) for c in calls_in(e)
    ]
    rows = x.scope.rows
    for e in calls:
        known = _described(x, e)
        if rows.window is None:
            session = e.name.lower() == "session_window"
            made = _sessions(x, node, e, grouped(), known) if session else _windows(x, known)
            rows.window = made
        elif rows.window.known != known:
            what = "a SELECT has one window of time, and this is another one"
            hint = "compute one of the two in a subquery of FROM"
            raise x.reader.refuse("TIME_WINDOW", what, e, hint)


def misplaced(reader: Reader, e: exp.Expr) -> NotIncremental:
    """A call where rows are filtered, joined or ordered."""
    name = e.name.lower()
    return reader.refuse(
        "TIME_WINDOW",
        f"`{_shown(reader, e)}` makes rows of its own, and stands in GROUP BY or in the SELECT list only",
        e,
        f"group by it, and write {name}.start or {name}.end here; in WHERE compare the time itself",
    )


def _described(x: Expressions, e: exp.Anonymous) -> tuple[Any, ...]:
    """What tells a call from others: its name, its time, and its durations."""
    if not e.expressions:
        raise _Durations(x.reader, e).wrong_count(f"{e.name.lower()}(time, '10 seconds')")
    given = _Durations(x.reader, e)
    if e.name.lower() == "session_window":
        return ("session_window", _time(x, e), given.gap())
    return ("window", _time(x, e), *given.window())


def _time(x: Expressions, e: exp.Anonymous) -> Term:
    """The time of a row: a time as it is, a date or a text as an instant, a window by its last microsecond."""
    at = e.expressions[0]
    term = x.key(at)
    t = type_of(term)
    if is_window(t):
        return last_moment(term)
    if t in (TIMESTAMP, TIMESTAMP_NTZ):
        return term
    if t not in (DATE, STRING, VOID):
        what = f"`{_shown(x.reader, e)}` is of {sql_name(t)}, not of a time"
        raise x.reader.error(TypeMismatch, what, at, hint="cast it to TIMESTAMP")
    zone = "UTC" if x.reader.ask is None else x.reader.ask.zone
    if isinstance(term, Const) and t != VOID and zone not in ("UTC", "Etc/UTC"):
        what = f"the time of `{_shown(x.reader, e)}` is a constant, and depends on the time zone"
        raise x.reader.refuse("TIME_WINDOW", what, at, "compute it in a subquery of FROM")
    return cast_to(term, TIMESTAMP)


def is_window(t: object) -> bool:
    """Whether a type is that of a window: a start and an end, times of one type."""
    match t:
        case RecordType((("start", a), ("end", b))):
            return a == b and a in (TIMESTAMP, TIMESTAMP_NTZ)
        case _:
            return False


def later(time: Term, micros: int) -> Term:
    """A time so many microseconds on."""
    return Call("add_micros", (time, Const(micros, BIGINT)))


def last_moment(window: Term) -> Term:
    """window_time: the end, less a microsecond."""
    return later(field_of(window, "end"), -1)


def _windows(x: Expressions, known: tuple[Any, ...]) -> TimeWindow:
    """The window of a call of `window`; rows that are in none are filtered, and rows in several are repeated."""
    name, time, width, slide, start = known
    rows = x.scope.rows
    if slide == width:
        rows.factors.append(Pred(Call("is_not_null", (time,))))
        begin: Term = Call("window_start", (time, Const(width, BIGINT), Const(start, BIGINT)))
    else:
        starts = Call("window_starts", (time, *(Const(n, BIGINT) for n in (width, slide, start))))
        t = type_of(starts)
        assert isinstance(t, Boxed) and isinstance(t.content, MapType)
        begin = Var(x.reader.fresh("s"), t.content.key)
        rows.atoms.append((begin, Unbox(starts)))
    return TimeWindow(name, known, begin, later(begin, width))


# --- sessions -------------------------------------------------------------------------------------------------


def _sessions(
    x: Expressions,
    node: exp.Select,
    e: exp.Anonymous,
    grouped: list[exp.Expr],
    known: tuple[Any, ...],
) -> TimeWindow:
    """The sessions of the rows that have the same other keys of GROUP BY."""
    name, time, gap = known
    if has_sets(node.args.get("group")):
        what = "sessions are of the rows with the same keys, of which grouping sets have several"
        hint = "group by the sessions in one query for each set, and connect these with UNION ALL"
        raise x.reader.refuse("TIME_WINDOW", what, e, hint)
    if not any(is_call(g) for g in grouped):
        what = f"`{_shown(x.reader, e)}` makes one row of many, and GROUP BY has no session_window"
        hint = "group by session_window(time, gap) itself, not by a field of it"
        raise x.reader.refuse("TIME_WINDOW", what, e, hint)
    keys = tuple(dict.fromkeys(x.key(g) for g in grouped if not is_call(g)))
    t = type_of(time)
    assert isinstance(t, Base)
    start, end = (Var(x.reader.fresh(n), t) for n in ("w", "e"))
    window = Window("session_start", ("a0",), offset=gap, returns=t)
    stage = Stage(keys, (time,), ((False, False),), [(window, (time,))])
    windows = Windows(x.reader, node)
    windows.stages.append(stage)
    windows.values[start] = (0, 0)
    rows = x.scope.rows
    rows.factors.append(Pred(Call("is_not_null", (time,))))
    rows.between = windows.collect
    return TimeWindow(name, known, start, end, session=(time, gap))


def asks_end(e: exp.Expr) -> bool:
    """Whether an expression names a session otherwise than by its start."""
    for n in e.walk():
        if is_call(n) and n.name.lower() == "session_window":
            around = n.parent
            field = around.expression.name if isinstance(around, exp.Dot) else ""
        elif isinstance(n, exp.Column) and n.parts[0].name.lower() == "session_window":
            field = n.parts[1].name if len(n.parts) > 1 else ""
        else:
            continue
        if field.lower() != "start":
            return True
    return False


def no_end(reader: Reader, window: TimeWindow | None, term: Term | None, e: exp.Expr) -> None:
    """Raises where an aggregate, or a key, reads the end of a session, which only its group tells."""
    if window is None or window.session is None:
        return
    if asks_end(e) if term is None else window.end in variables(term):
        what = f"`{_shown(reader, e)}` reads the end of a session, which is known of the whole group only"
        raise reader.refuse("TIME_WINDOW", what, e, "compute it in a query around this one")


# --- reading --------------------------------------------------------------------------------------------------


def _called(x: Expressions, e: exp.Anonymous) -> Term:
    """A call of `window` or `session_window`: the pair that the SELECT has as a column."""
    window = x.scope.rows.window
    if window is None or _described(_over_rows(x), e) != window.known:
        raise misplaced(x.reader, e)
    return window.pair()


def _over_rows(x: Expressions) -> Expressions:
    """The expressions over the rows, also where these are grouped."""
    return x if x.grouping is None else x.grouping.row


def _window_time(x: Expressions, e: exp.Anonymous) -> Term:
    if len(e.expressions) != 1:
        what = f"`{_shown(x.reader, e)}` has {len(e.expressions)} arguments"
        raise x.reader.error(QueryError, what, e, hint="write window_time(window)")
    if x.grouping is not None:
        what = f"`{_shown(x.reader, e)}` is neither grouped by nor aggregated"
        hint = "add it to GROUP BY, or take it of `window` in a query around this one"
        raise x.reader.error(QueryError, what, e, hint=hint)
    window = x.key(e.expressions[0])
    if not is_window(type_of(window)):
        what = f"`{_shown(x.reader, e)}` is of {sql_name(type_of(window))}, not of a window"
        hint = "give it the column `window` of a query that groups by window(...)"
        raise x.reader.refuse("TIME_WINDOW", what, e.expressions[0], hint)
    return last_moment(window)


NAMED = {"window": _called, "session_window": _called, "window_time": _window_time}
"""How these functions are read, by name."""
