"""The words in which stages are defined: what is read and how, what is kept, how input is cut, when a stage runs.

Users get them as `headwater.flow`. Each is plain data beside at most one function; `define` checks them against the
inputs that there are.

    @db.stage(flow.reads("clicks", by="user", order_by="at"), state="n BIGINT", out="user STRING, n BIGINT")
    def counted(user, clicks, state):
        state.n = (state.n or 0) + len(clicks)
        return user, state.n
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from headwater.errors import StageError

Columns = str | Sequence[str] | None


class _All:
    """The one value that sends a row to every group of an epoch."""

    def __repr__(self) -> str:
        return "ALL"

    def __reduce__(self) -> str:
        return "ALL"


ALL = _All()
"""As `by=flow.ALL`, or given by a route: the row is seen by every group of the epoch."""


@dataclass(frozen=True)
class Route:
    """Keys of a row, computed: `f(row)` gives a key, a list of keys, None for no group, or `ALL`."""

    f: Callable[[Any], Any]
    ddl: str


def route(f: Callable[[Any], Any], ddl: str) -> Route:
    """Groups by what a function of the row says; `ddl` has the columns of the key: `flow.route(site_of, "site STRING")`."""
    return Route(f, ddl)


# --- what is read ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reads:
    """An input of a stage: whose changes, grouped by what, sorted by what, and how much of it at a time."""

    what: str
    by: Any = None
    order_by: tuple[str, ...] = ()
    framing: Framing | None = None
    take: int | Literal["all"] = 1
    changes: bool = False
    combine: Combine | None = None
    start: Literal["all", "new"] = "all"


def reads(
    what: Any,
    *,
    by: Any = None,
    order_by: Columns = None,
    framing: Framing | None = None,
    take: int | Literal["all"] = 1,
    changes: bool = False,
    combine: Combine | Callable[[list[Any]], Any] | None = None,
    start: Literal["all", "new"] = "all",
) -> Reads:
    """An input: a source, a view or a flow, by name or handle.

    `take` frames are read in an epoch; with `changes` rows have their weight `_w` and may be deletions; `combine` adds
    rows of a group up before the call; a stage that is defined late begins with all rows that are there, or, with
    `start="new"`, without them.
    """
    if not (take == "all" or (type(take) is int and take > 0)):
        raise StageError(f"take={take!r} is no number of increments", hint='1, 2, ... or "all"')
    if start not in ("all", "new"):
        raise StageError(f"start={start!r} means nothing", hint='"all" or "new"')
    if framing is not None and not isinstance(framing, Framing):
        raise StageError(f"framing={framing!r} is no framing", hint='give flow.daily("at")')
    if combine is not None and not isinstance(combine, Combine):
        if not callable(combine):
            raise StageError(f"combine={combine!r} combines nothing", hint='give flow.sums("n")')
        combine = Combine("function", (), combine)
    return Reads(name_of(what), by, columns_of(order_by), framing, take, changes, combine, start)


def name_of(what: Any) -> str:
    """The name that a handle, or text, is."""
    name = getattr(what, "name", what)
    if not isinstance(name, str):
        raise StageError(f"{what!r} is no name of a source, view or flow", hint="give its name")
    return name


def columns_of(given: Any) -> tuple[str, ...]:
    """One column or several, as a tuple."""
    if given is None:
        return ()
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Sequence) and all(isinstance(c, str) for c in given):
        return tuple(given)
    raise StageError(f"{given!r} are no columns", hint='give "a" or ["a", "b"]')


@dataclass(frozen=True)
class Lookup:
    """Rows of a source, view or retained flow that a stage may look at, as they are when its epoch starts."""

    what: str
    on: tuple[tuple[str, str], ...] | None = None


def lookup(what: Any, on: Mapping[str, str] | str | None = None) -> Lookup:
    """Rows to look at: those whose columns equal columns of the row, or of the group's key; all of them without `on`.

    `on={"user": "id"}` finds the rows whose `id` is the row's `user`; `on="id"` is `{"id": "id"}`.
    """
    if isinstance(on, str):
        on = {on: on}
    if on is not None and not isinstance(on, Mapping):
        raise StageError(
            f"on={on!r} says not which columns are equal",
            hint='give {"user": "id"}: its column, and theirs',
        )
    return Lookup(name_of(what), None if on is None else tuple(on.items()))


# --- what is kept ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """State of a group: one record, or one for each key; `only` are the columns of its rows that name the entries it sees."""

    ddl: str
    key: str | None = None
    order_by: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    expires: timedelta | None = None


@dataclass(frozen=True)
class Bag:
    """State of a group: rows with how often each is there, in an order."""

    ddl: str
    order_by: tuple[str, ...] = ()


def record(
    ddl: str,
    *,
    key: str | None = None,
    order_by: Columns = None,
    only: Columns = None,
    expires: timedelta | None = None,
) -> Record:
    """State that is a record, or, with `key`, records by key; an entry that is not written for `expires` is gone."""
    return Record(ddl, key, columns_of(order_by), columns_of(only), expires)


def bag(ddl: str, *, order_by: Columns = None) -> Bag:
    """State that is a bag of rows."""
    return Bag(ddl, columns_of(order_by))


# --- combining ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Combine:
    """Fewer rows that say the same to a stage; associative and commutative."""

    kind: Literal["sums", "least", "greatest", "function"]
    columns: tuple[str, ...] = ()
    f: Callable[[list[Any]], Any] | None = None


def sums(*columns: str) -> Combine:
    """Rows that are equal but for some columns are one, with the sums of these."""
    return Combine("sums", columns)


def least(*columns: str) -> Combine:
    """Rows that are equal but for some columns are one, with the least of these."""
    return Combine("least", columns)


def greatest(*columns: str) -> Combine:
    """Rows that are equal but for some columns are one, with the greatest of these."""
    return Combine("greatest", columns)


# --- framing -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Framing:
    """How input is cut into frames: rows in an order, and a key for each; a frame ends where the key changes.

    `key(row, small)` gives the key and the small state that the next row sees.
    """

    order: tuple[str, ...]
    key: Callable[[Any, Any], tuple[Any, Any]]
    small: Any = None
    told: str = ""


def frames(f: Callable[[Any, Any], Any], order: Columns, small: Any = None) -> Framing:
    """Frames of one's own: `f(row, small)` gives `(key, small)`; rows come in an order, and keys must grow with it.

    A row whose key is None is in no frame.
    """
    return Framing(columns_of(order), f, small, f"frames({getattr(f, '__name__', 'f')})")


@dataclass(frozen=True)
class _Step:
    """The beginning of the stretch of time that a value lies in."""

    column: str
    length: timedelta

    def __call__(self, row: Any, small: Any) -> tuple[Any, Any]:
        at = getattr(row, self.column)
        if at is None:
            return None, small
        if not isinstance(at, datetime):
            return datetime(at.year, at.month, at.day), small
        zero = datetime(1970, 1, 1, tzinfo=at.tzinfo)
        return zero + ((at - zero) // self.length) * self.length, small


@dataclass(frozen=True)
class _Day:
    """The day of a value, in the time that it is given in."""

    column: str

    def __call__(self, row: Any, small: Any) -> tuple[Any, Any]:
        at = getattr(row, self.column)
        return (at.date() if isinstance(at, datetime) else at), small


@dataclass(frozen=True)
class _Count:
    """The number of a frame of n rows."""

    n: int

    def __call__(self, row: Any, small: int) -> tuple[int, int]:
        return small // self.n, small + 1


@dataclass(frozen=True)
class _Gap:
    """The first time of rows that follow each other closely."""

    column: str
    gap: timedelta

    def __call__(self, row: Any, small: Any) -> tuple[Any, Any]:
        at = getattr(row, self.column)
        if at is None:
            return None, small
        start, last = small or (at, at)
        start = at if at - last >= self.gap else start
        return start, (start, max(at, last))


def daily(column: str) -> Framing:
    """A frame a day; of a TIMESTAMP, by the day in UTC."""
    return Framing((column,), _Day(column), told=f"daily({column})")


def hourly(column: str) -> Framing:
    """A frame an hour."""
    return Framing((column,), _Step(column, timedelta(hours=1)), told=f"hourly({column})")


def hops(column: str, **length: float) -> Framing:
    """Frames of a length of time: `hops("at", hours=6)`."""
    step = timedelta(**length)
    if step <= timedelta(0):
        raise StageError(f"hops of {step} do not end", hint="give a length above zero: hours=6")
    return Framing((column,), _Step(column, step), told=f"hops({column}, {step})")


def count(n: int) -> Framing:
    """Frames of n rows."""
    if type(n) is not int or n < 1:
        raise StageError(f"count({n!r}) is no number of rows", hint="give 1, 2, ...")
    return Framing((), _Count(n), 0, f"count({n})")


def gap(column: str, **length: float) -> Framing:
    """Frames that end where nothing comes for a length of time: `gap("at", minutes=30)`."""
    least = timedelta(**length)
    if least <= timedelta(0):
        raise StageError(f"a gap of {least} is none", hint="give a length above zero: minutes=30")
    return Framing((column,), _Gap(column, least), None, f"gap({column}, {least})")


@dataclass(frozen=True)
class Punctuation:
    """Frames up to a key, that one included, are complete."""

    key: Any


def punctuate(key: Any) -> Punctuation:
    """What a stage may give for an output: frames up to a key are complete."""
    return Punctuation(key)


upto = punctuate


# --- when a stage runs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """What an epoch reads: so many complete frames of each input, and how many of them are then removed.

    `small` is what the runnable sees the next time.
    """

    reads: Mapping[str, int] = field(default_factory=dict)
    removes: Mapping[str, int] | None = None
    small: Any = None


@dataclass(frozen=True)
class Runnable:
    """When a stage runs: `f(waiting, small)` gives a `Run`, or None while it should wait."""

    f: Callable[[Any, Any], Run | None]
    told: str
    kahn: bool = False
    """Whether it waits for given frames whatever else is there: then the outcome depends on no schedule."""
    small: Any = None
    inputs: tuple[str, ...] = ()
