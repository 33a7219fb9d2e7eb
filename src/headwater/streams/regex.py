"""Symbolic regular expressions: patterns over rows, where a letter is a predicate on one row.

    r ::= predicate | r + r | r | r | r.many() | r.times(n)

A predicate is a condition (SQL text or a function), a header's name, or both; `~p` is one row that is not p. An
expression is read by its *position automaton*: one state for each predicate that is written (`times(8)` writes eight) and
a start, and no more. A state is a set of positions as the bits of an int, with bit 0 for the start; a row is the bits of
the predicates that hold of it. So a step is

    step(s, b) = follow(s) ∩ positions(b)

and a search for stretches that end here keeps the start in s. `Scan` makes the same steps over whole columns, with the
sets that occur numbered once in a table: it takes a state and gives one, so a column may be cut anywhere.

What an expression means is said by `derivative`, which the automaton is tested against.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, TypeVar, assert_never

import numpy as np

from headwater.errors import HeadwaterError, ParseError

T = TypeVar("T")


class _Expression:
    """The operators that build expressions."""

    def __add__(self, other: Regex) -> Regex:
        return _one_or(Then, _parts(Then, self) + _parts(Then, other))

    def __or__(self, other: Regex) -> Regex:
        return _one_or(Either, _parts(Either, self) + _parts(Either, other))

    def many(self: Regex) -> Regex:  # type: ignore[misc]  # the class is the union's only base
        """Any number of stretches in a row, also none."""
        return Many(self)

    def times(self: Regex, n: int) -> Regex:  # type: ignore[misc]
        """Exactly n stretches in a row."""
        if n < 1:
            raise HeadwaterError(f"`times({n})`: a pattern comes at least once", hint="r.times(8)")
        return Times(self, n)

    def __invert__(self) -> Regex:
        raise HeadwaterError(
            f"`~` is one row that does not match a predicate, and `{self}` is no predicate",
            hint="negate the predicates: ~p + ~q",
        )

    def __str__(self) -> str:
        return show(self)  # type: ignore[arg-type]


@dataclass(frozen=True, repr=False)
class Predicate(_Expression):
    """One row of the header (any, if none is named) for which the condition is true; or, negated, one that is not so."""

    condition: str | Callable[[Any], Any] | None = None
    header: str | None = None
    negated: bool = False

    def __invert__(self) -> Predicate:
        return Predicate(self.condition, self.header, not self.negated)

    __repr__ = _Expression.__str__


@dataclass(frozen=True, repr=False)
class Then(_Expression):
    """A stretch of the first part, then one of the second, and so on; of no parts, the empty stretch."""

    parts: tuple[Regex, ...] = ()
    __repr__ = _Expression.__str__


@dataclass(frozen=True, repr=False)
class Either(_Expression):
    """A stretch of one of the parts; of no parts, no stretch at all."""

    parts: tuple[Regex, ...] = ()
    __repr__ = _Expression.__str__


@dataclass(frozen=True, repr=False)
class Many(_Expression):
    """Any number of stretches of r, one after another."""

    of: Regex
    __repr__ = _Expression.__str__


@dataclass(frozen=True, repr=False)
class Times(_Expression):
    """Exactly n stretches of r, one after another."""

    of: Regex
    n: int
    __repr__ = _Expression.__str__


Regex: TypeAlias = Predicate | Then | Either | Many | Times
EMPTY = Then()
NEVER = Either()


def _parts(kind: type[Then] | type[Either], r: Any) -> tuple[Regex, ...]:
    """The parts of an expression of this kind; another is one part."""
    if not isinstance(r, _Expression):
        raise HeadwaterError(f"`{r!r}` is no pattern", hint='st.when("cases > 100")')
    return r.parts if isinstance(r, kind) else (r,)  # type: ignore[return-value]


def _one_or(kind: type[Then] | type[Either], parts: tuple[Regex, ...]) -> Regex:
    """The parts together; one part is itself."""
    return parts[0] if len(parts) == 1 else kind(parts)


def when(
    condition: str | Callable[[Any], Any] | None = None, *, header: str | None = None
) -> Predicate:
    """A row for which a condition is true, a row of a header, or both: `when("cases > 100")`, `when(header="day")`."""
    if condition is None and header is None:
        raise HeadwaterError(
            "`when` wants a condition or a header", hint='when("cases > 100"), when(header="day")'
        )
    return Predicate(condition, header)


def predicates(r: Regex) -> tuple[Predicate, ...]:
    """The different predicates of an expression, without their negations, in reading order."""
    match r:
        case Predicate(condition, header):
            return (Predicate(condition, header),)
        case Then(parts) | Either(parts):
            return tuple(dict.fromkeys(p for part in parts for p in predicates(part)))
        case Many(of) | Times(of, _):
            return predicates(of)
        case _:
            assert_never(r)


# --- what an expression means -----------------------------------------------------------------------------


def empty_too(r: Regex) -> bool:
    """Whether the empty stretch matches."""
    match r:
        case Predicate():
            return False
        case Then(parts):
            return all(map(empty_too, parts))
        case Either(parts):
            return any(map(empty_too, parts))
        case Many():
            return True
        case Times(of, _):
            return empty_too(of)
        case _:
            assert_never(r)


def derivative(r: Regex, holds: Callable[[Predicate], bool]) -> Regex:
    """r without its first row: what the rest of a stretch must match. ∂(r + s) = ∂r + s | ∂s if r may be empty."""
    match r:
        case Predicate(condition, header, negated):
            return EMPTY if holds(Predicate(condition, header)) != negated else NEVER
        case Then(parts) if parts:
            rest = Then(parts[1:])
            ways = [derivative(parts[0], holds) + rest]
            if empty_too(parts[0]):
                ways.append(derivative(rest, holds))
            return Either(tuple(ways))
        case Then():
            return NEVER
        case Either(parts):
            return Either(tuple(derivative(part, holds) for part in parts))
        case Many(of):
            return derivative(of, holds) + r
        case Times(of, n):
            return derivative(Then((of,) * n), holds)
        case _:
            assert_never(r)


# --- the position automaton -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Automaton:
    """A pattern as positions: which predicate each asks for, and which may come after which.

    Positions are numbered from 1, in reading order; 0 is the start. Sets of positions are bits of an int.
    """

    predicates: tuple[Predicate, ...]
    asks: tuple[tuple[int, bool], ...]
    """For each position the number of its predicate, and whether it is negated."""
    follow: tuple[int, ...]
    """For 0 and each position the set of positions that may come next."""
    last: int
    """Where a stretch may end."""

    START = 1

    def __len__(self) -> int:
        """How many positions it has."""
        return len(self.asks)

    def positions(self, bits: int) -> int:
        """The positions whose predicates hold, if those of `bits` do."""
        return sum(2 << i for i, (p, negated) in enumerate(self.asks) if (bits >> p & 1) != negated)

    def step(self, state: int, bits: int) -> int:
        """The positions after one more row; the start is among them only if the caller adds it again."""
        after = 0
        for i, following in enumerate(self.follow):
            if state >> i & 1:
                after |= following
        return after & self.positions(bits)

    def search(self, state: int, bits: int) -> int:
        """The same where a stretch may begin at any row: the start stays."""
        return self.step(state | self.START, bits) | self.START

    def matches(self, state: int) -> bool:
        """Whether some stretch ends here, having at least one row."""
        return bool(state & self.last)

    def carried(
        self, runs: Mapping[int, T], fresh: T, bits: int, later: Callable[[T], Any]
    ) -> dict[int, T]:
        """What each position holds after a row: the latest of what the positions before it held, or `fresh` at a start.

        So a position holds what belongs to the most recent start of a stretch that leads to it, and there are never
        more of them than positions.
        """
        after: dict[int, T] = {}
        holding = self.positions(bits)
        for position in range(1, len(self.follow)):
            if holding >> position & 1:
                ways = [held for p, held in runs.items() if self.follow[p] >> position & 1]
                if self.follow[0] >> position & 1:
                    ways.append(fresh)
                if ways:
                    after[position] = max(ways, key=later)
        return after

    def matched(self, runs: Mapping[int, T], later: Callable[[T], Any]) -> T | None:
        """What belongs to the shortest stretch that ends here, if one does."""
        ended = [held for position, held in runs.items() if self.last >> position & 1]
        return max(ended, key=later) if ended else None

    @cached_property
    def scan(self) -> Scan:
        """The same steps for whole columns."""
        return Scan(self)


def automaton(r: Regex) -> Automaton:
    """The position automaton of an expression (Glushkov): as many states as predicates are written, and a start."""
    known = {p: i for i, p in enumerate(predicates(r))}
    asks: list[tuple[int, bool]] = []
    follow = [0]

    def place(r: Regex) -> tuple[bool, int, int]:
        """Whether r may be empty, where it begins, and where it ends."""
        match r:
            case Predicate(condition, header, negated):
                asks.append((known[Predicate(condition, header)], negated))
                follow.append(0)
                here = 1 << len(asks)
                return False, here, here
            case Then(parts):
                empty, first, last = True, 0, 0
                for part in parts:
                    part_empty, part_first, part_last = place(part)
                    connect(last, part_first)
                    first |= part_first if empty else 0
                    last = part_last | (last if part_empty else 0)
                    empty = empty and part_empty
                return empty, first, last
            case Either(parts):
                empty, first, last = False, 0, 0
                for part in parts:
                    part_empty, part_first, part_last = place(part)
                    empty, first, last = empty or part_empty, first | part_first, last | part_last
                return empty, first, last
            case Many(of):
                _, first, last = place(of)
                connect(last, first)
                return True, first, last
            case Times(of, n):
                return place(Then((of,) * n))
            case _:
                assert_never(r)

    def connect(ends: int, begins: int) -> None:
        for position in range(1, len(follow)):
            if ends >> position & 1:
                follow[position] |= begins

    _, follow[0], last = place(r)
    return Automaton(tuple(known), tuple(asks), tuple(follow), last)


# --- whole columns ----------------------------------------------------------------------------------------

MOST_ENTRIES = 200_000
"""Entries of the table of steps; past them it is begun again, for rare sets of positions are not needed twice."""


@dataclass
class Scan:
    """Searching steps of an automaton over columns: sets of positions numbered as they occur, steps found once.

    A state is the automaton's own int, before and after.
    """

    automaton: Automaton
    _numbers: dict[int, int] = field(default_factory=dict)
    _states: list[int] = field(default_factory=list)
    _ends: list[bool] = field(default_factory=list)
    _table: dict[int, int] = field(default_factory=dict)

    def _number(self, state: int) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
            self._ends.append(self.automaton.matches(state))
        return number

    def _step(self, key: int, width: int) -> int:
        """One step that is not in the table yet."""
        number, bits = key >> width, key & ((1 << width) - 1)
        after = self._table[key] = self._number(self.automaton.search(self._states[number], bits))
        return after

    def run(self, bits: Sequence[int], state: int = Automaton.START) -> tuple[Any, int]:
        """For each row whether some stretch ends there (an array of booleans), and the state after the last."""
        matched, states = self.run_groups(bits, [0, len(bits)], [state])
        return matched, states[0]

    def run_groups(
        self, bits: Sequence[int], cuts: Sequence[int], states: Iterable[int]
    ) -> tuple[Any, list[int]]:
        """The same for many sequences that stand one after another: group i is the rows from cuts[i] to cuts[i + 1]."""
        if len(self._table) > MOST_ENTRIES:
            for kept in (self._numbers, self._states, self._ends, self._table):
                kept.clear()
        width = len(self.automaton.predicates)
        rows = np.asarray(bits).tolist()
        table, step = self._table, self._step
        visited: list[int] = []
        visit = visited.append
        after = []
        for i, state in enumerate(states):
            number = self._number(state)
            for b in rows[cuts[i] : cuts[i + 1]]:
                key = number << width | b
                try:
                    number = table[key]
                except KeyError:
                    number = step(key, width)
                visit(number)
            after.append(self._states[number])
        return np.array(self._ends, dtype=bool)[np.array(visited, dtype=np.int64)], after


def bits_of(columns: Sequence[Any]) -> Any:
    """The bits of each row, of a column of booleans for each predicate; NULL is not true."""
    total = np.zeros(len(columns[0]) if columns else 0, dtype=np.int64)
    for i, column in enumerate(columns):
        holds = (
            np.array([x is not None and bool(x) for x in column], dtype=bool)
            if isinstance(column, list)
            else np.asarray(column, dtype=bool)
        )
        total |= holds.astype(np.int64) << i
    return total


# --- text -------------------------------------------------------------------------------------------------


def show(r: Regex) -> str:
    """An expression as text: `[cases > 100]`, `day[lmax]`, `!day`, one after another, `(r | s)`, `r*`, `r^8`."""
    match r:
        case Predicate(condition, header, negated):
            text = ""
            if condition is not None:
                name = condition if isinstance(condition, str) else f"@{_called(condition)}"
                text = "[" + name.replace("]", "]]") + "]"
            return ("!" if negated else "") + (header or "") + text
        case Then(parts):
            return " ".join(_inside(part, Then) for part in parts) or "ε"
        case Either(parts):
            return "(" + " | ".join(map(show, parts)) + ")" if parts else "∅"
        case Many(of):
            return _inside(of, Then, Many, Times) + "*"
        case Times(of, n):
            return _inside(of, Then, Many, Times) + f"^{n}"
        case _:
            assert_never(r)


def _inside(r: Regex, *bracketed: type) -> str:
    """An expression inside of another: in brackets where it would be read otherwise."""
    return f"({show(r)})" if isinstance(r, bracketed) and r != EMPTY else show(r)


def _called(function: Any) -> str:
    return str(getattr(function, "__qualname__", function))


CONDITION = r"\[(?:[^\]]|\]\])*\]"
PREDICATE = re.compile(rf"(!?)([A-Za-z_]\w*)?({CONDITION})?")
EXAMPLE = "for example: day[lmax] (!day[lmax])* day[lmax]"
TOKEN = re.compile(rf"\s*(!?[A-Za-z_]\w*(?:{CONDITION})?|!?{CONDITION}|\^\d+|[()|*ε∅])")


def parse(text: str) -> Regex:
    """The expression that a text shows; conditions are SQL texts."""
    tokens: list[str] = []
    at = 0
    while text[at:].strip():
        found = TOKEN.match(text, at)
        if not found:
            raise ParseError(
                f"`{text[at:].strip()}` of the pattern `{text}` cannot be read",
                hint=EXAMPLE,
            )
        tokens.append(found[1])
        at = found.end()
    reader = _Reader(text, tokens)
    r = reader.either()
    if reader.tokens:
        raise ParseError(
            f"`{reader.tokens[0]}` is not expected in the pattern `{text}`", hint=EXAMPLE
        )
    return r


@dataclass
class _Reader:
    """Tokens of a pattern, read from the left."""

    text: str
    tokens: list[str]

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def either(self) -> Regex:
        parts = [self.then()]
        while self.peek() == "|":
            self.tokens.pop(0)
            parts.append(self.then())
        return _one_or(Either, tuple(parts))

    def then(self) -> Regex:
        parts = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repeated())
        return _one_or(Then, tuple(parts))

    def repeated(self) -> Regex:
        r = self.one()
        while self.peek() == "*" or self.peek().startswith("^"):
            token = self.tokens.pop(0)
            r = Many(r) if token == "*" else Times(r, int(token[1:]))
        return r

    def one(self) -> Regex:
        token = self.tokens.pop(0)  # there is one: `then` has looked
        if token == "(":
            r = self.either()
            if self.peek() != ")":
                raise ParseError(
                    f"a bracket is not closed in the pattern `{self.text}`", hint=EXAMPLE
                )
            self.tokens.pop(0)
            return r
        if token in ("ε", "∅"):
            return EMPTY if token == "ε" else NEVER
        found = PREDICATE.fullmatch(token)
        if not found:
            raise ParseError(
                f"a predicate is expected in the pattern `{self.text}`, not `{token}`", hint=EXAMPLE
            )
        negated, header, condition = found.groups()
        text = condition[1:-1].replace("]]", "]") if condition else None
        return Predicate(text, header, bool(negated))
