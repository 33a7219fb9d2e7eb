"""Random guards: divisions and casts behind `and`, `or`, `case`, `if`, `coalesce` and joins, against plain Python.

A case is a query over `x` and `y` with the function of Python that it means, where NULL is None and evaluation stops where
Spark's does; and some changes of both tables. Where Python fails for no row, the view has its rows, and Spark is never
asked. Where an output fails for a row that the filters leave, or a filter that is the only one, the change is refused. In
between is what depends on the order of filters, and nothing is said of it.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import headwater as hw
from headwater.engine.spark import session
from headwater.errors import EngineError

pytestmark = pytest.mark.property

PROFILE = settings.default
assert PROFILE is not None
ORDINARY = PROFILE is settings.get_profile("default")

Row = tuple[Any, ...]
Of = Callable[[Row, Row], Any]
"""A scalar of a row of x and one of y."""
Drawn = tuple[str, Of]

FAILS = (ZeroDivisionError, ValueError)
X = "k BIGINT, kind STRING, s STRING, v INT"
Y = "k BIGINT, s STRING, v INT"
NONE: Row = (None, None, None)


# --- scalars ------------------------------------------------------------------------------------------------------


def strict(f: Callable[..., Any], *of: Of) -> Of:
    """NULL where an operand is."""

    def apply(x: Row, y: Row) -> Any:
        values = [g(x, y) for g in of]
        return None if None in values else f(*values)

    return apply


def stopping(end: bool, *of: Of) -> Of:
    """AND and OR: the first operand that is `end` says it; NULL if none does and one is NULL."""

    def apply(x: Row, y: Row) -> Any:
        found = False
        for g in of:
            value = g(x, y)
            if value is end:
                return end
            found = found or value is None
        return None if found else not end

    return apply


def is_true(of: Of, yes: bool = True) -> Of:
    return lambda x, y: (of(x, y) is True) is yes


class Scalars:
    """Scalars over the columns that are in sight."""

    def __init__(self, draw: random.Random, both: bool = True):
        self.draw, self.both = draw, both

    def column(self, names: tuple[str, str], x: int, y: int) -> Drawn:
        if self.both and self.draw.random() < 0.5:
            return names[1], lambda _, b: b[y]
        return names[0], lambda a, _: a[x]

    def risk(self) -> tuple[Drawn, Drawn]:
        """A number that may fail, and a test that says where it does not; either may be NULL."""
        if self.draw.random() < 0.5:
            text, of = self.column(("x.s", "y.s"), 2, 1)
            test = f"{text} <> 'q'", strict(lambda v: v != "q", of)
            return (f"CAST({text} AS INT)", strict(int, of)), test
        (a, f), (b, g) = self.number(0), self.column(("x.v", "y.v"), 3, 2)
        test = f"{b} <> 0", strict(lambda v: v != 0, g)
        if self.draw.random() < 0.5:
            return (f"({a} % {b})", strict(lambda m, n: m % n, f, g)), test
        return (f"({a} div {b})", strict(lambda m, n: m // n, f, g)), test

    def guarded(self) -> Drawn:
        """A truth value that does not fail, for its guard."""
        ((r, f), (t, p)), (b, g) = self.risk(), self.number(0)
        safe = f"{r} >= {b}", strict(lambda m, n: m >= n, f, g)
        if self.draw.random() < 0.5:
            return f"(({t}) IS TRUE AND {safe[0]})", stopping(False, is_true(p), safe[1])
        return f"(({t}) IS NOT TRUE OR {safe[0]})", stopping(True, is_true(p, False), safe[1])

    def guarded_number(self) -> Drawn:
        ((r, f), (t, p)), (b, g) = self.risk(), self.number(0)
        form = self.draw.choice(("CASE WHEN {} THEN {} ELSE {} END", "if({}, {}, {})"))
        return form.format(t, r, b), lambda x, y: f(x, y) if p(x, y) is True else g(x, y)

    def number(self, depth: int) -> Drawn:
        if depth and self.draw.random() < 0.3:
            return self.guarded_number()
        which = self.draw.randrange(9 if depth else 3)
        if which < 2:
            return self.column(("x.v", "y.v"), 3, 2)
        if which == 2:
            n = self.draw.randrange(3)
            return str(n), lambda *_: n
        if which == 3:
            text, of = self.column(("x.s", "y.s"), 2, 1)
            return f"CAST({text} AS INT)", strict(int, of)
        (a, f), (b, g) = self.number(depth - 1), self.number(depth - 1)
        if which == 4:
            return f"({a} % {b})", strict(lambda m, n: m % n, f, g)
        if which == 5:
            return f"({a} div {b})", strict(lambda m, n: m // n, f, g)
        if which == 6:
            return f"coalesce({a}, {b})", lambda x, y: g(x, y) if (v := f(x, y)) is None else v
        if which == 7:
            return f"nullif({a}, {b})", lambda x, y: None if (v := f(x, y)) == g(x, y) else v
        t, p = self.truth(depth - 1)
        form = self.draw.choice(("CASE WHEN {} THEN {} ELSE {} END", "if({}, {}, {})"))
        return form.format(t, a, b), lambda x, y: f(x, y) if p(x, y) is True else g(x, y)

    def truth(self, depth: int) -> Drawn:
        if depth and self.draw.random() < 0.4:
            return self.guarded()
        which = self.draw.randrange(8 if depth else 5)
        if which == 0:
            return "x.kind = 'n'", strict(lambda v: v == "n", lambda x, _: x[1])
        if which == 1:
            text, of = self.column(("x.s", "y.s"), 2, 1)
            return f"{text} <> 'q'", strict(lambda v: v != "q", of)
        if which < 5:
            (a, f), (b, g) = self.number(depth), self.number(max(0, depth - 1))
            if which == 2:
                return f"{a} = {b}", strict(lambda m, n: m == n, f, g)
            if which == 3:
                return f"{a} > {b}", strict(lambda m, n: m > n, f, g)
            return f"{a} IS NOT NULL", lambda x, y: f(x, y) is not None
        (a, f), (b, g) = self.truth(depth - 1), self.truth(depth - 1)
        if which == 5:
            return f"({a} OR {b})", stopping(True, f, g)
        if which == 6:
            return f"({a} AND {b})", stopping(False, f, g)
        return f"(NOT {a})", strict(lambda v: not v, f)


# --- queries -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Query:
    """A query; which pairs it has, what it shows of them, and its filter."""

    sql: str
    pairs: Callable[[Sequence[Row], Sequence[Row]], list[tuple[Row, Row]]]
    shown: Callable[[list[tuple[Row, Row]], Sequence[Row]], list[Row]]
    filter: str

    @property
    def definite(self) -> bool:
        """Whether its filter has no parts whose order is free, and no constant that is NULL."""
        return not any(w in self.filter for w in ("AND", "OR", "nullif"))


def joined(xs: Sequence[Row], ys: Sequence[Row], on: Of) -> list[tuple[Row, Row]]:
    pairs = [(x, y) for x in xs for y in ys if x[0] is not None and x[0] == y[0]]
    return [p for p in pairs if on(*p) is True]


def query(draw: random.Random) -> Query:
    one, two = Scalars(draw, both=False), Scalars(draw)
    which = draw.choice(("one", "join", "left", "exists", "absent", "or exists", "sum", "scalar"))
    where, passes = one.truth(2)
    on, meets = two.truth(2)
    out, gives = (two if which in ("join", "left", "sum") else one).number(2)
    match which:
        case "one":
            return Query(
                f"SELECT x.k, {out} AS c FROM x WHERE {where}",
                lambda xs, ys: [(x, NONE) for x in xs if passes(x, NONE) is True],
                lambda pairs, _: [(x[0], gives(x, y)) for x, y in pairs],
                where,
            )
        case "join":
            return Query(
                f"SELECT x.k, y.v, {out} AS c FROM x JOIN y ON x.k = y.k WHERE {on}",
                lambda xs, ys: joined(xs, ys, meets),
                lambda pairs, _: [(x[0], y[2], gives(x, y)) for x, y in pairs],
                on,
            )
        case "left":
            return Query(
                f"SELECT x.k, y.v, {out} AS c FROM x LEFT JOIN y ON x.k = y.k AND {on}",
                lambda xs, ys: [p for x in xs for p in (joined([x], ys, meets) or [(x, NONE)])],
                lambda pairs, _: [(x[0], y[2], gives(x, y)) for x, y in pairs],
                on,
            )
        case "exists" | "absent" | "or exists":
            word = "NOT EXISTS" if which == "absent" else "EXISTS"
            first = f"{where} OR " if which == "or exists" else ""

            def asked(x: Row, ys: Sequence[Row]) -> bool:
                if first and passes(x, NONE) is True:
                    return True
                return bool(joined([x], ys, meets)) == (which != "absent")

            return Query(
                f"SELECT x.k, {out} AS c FROM x WHERE {first}{word} "
                f"(SELECT 1 FROM y WHERE x.k = y.k AND {on})",
                lambda xs, ys: [(x, NONE) for x in xs if asked(x, ys)],
                lambda pairs, _: [(x[0], gives(x, y)) for x, y in pairs],
                first + on,
            )
        case "sum":
            test, holds = two.truth(1)

            def added(pairs: list[tuple[Row, Row]], _: Sequence[Row]) -> list[Row]:
                groups: dict[Any, list[Any]] = {}
                for x, y in pairs:
                    value = gives(x, y) if holds(x, y) is True else None
                    groups.setdefault(x[0], []).append(value)
                known = {k: [v for v in vs if v is not None] for k, vs in groups.items()}
                return [(k, sum(vs) if vs else None) for k, vs in known.items()]

            return Query(
                f"SELECT x.k, sum(CASE WHEN {test} THEN {out} END) AS c "
                f"FROM x JOIN y ON x.k = y.k WHERE {on} GROUP BY x.k",
                lambda xs, ys: joined(xs, ys, meets),
                added,
                on,
            )
        case _:
            value, of = two.number(2)

            def greatest(x: Row, ys: Sequence[Row]) -> Any:
                found = [of(*p) for p in joined([x], ys, meets)]
                return max((v for v in found if v is not None), default=None)

            return Query(
                f"SELECT x.k, (SELECT max({value}) FROM y WHERE x.k = y.k AND {on}) AS c "
                f"FROM x WHERE {where}",
                lambda xs, ys: [(x, NONE) for x in xs if passes(x, NONE) is True],
                lambda pairs, ys: [(x[0], greatest(x, ys)) for x, _ in pairs],
                where,
            )


# --- the play -----------------------------------------------------------------------------------------------------


class Asked(Exception):
    """Spark was asked, which has the errors of one row and nothing else here."""


def refuse() -> Any:
    raise Asked


def rows_of(db: hw.Database) -> Counter[Row]:
    out: Counter[Row] = Counter()
    for row in db.table("q").to_pylist():
        *values, n = row.values()
        out[tuple(values)] += n
    return out


def changes(draw: random.Random) -> list[dict[str, hw.Delta]]:
    """Rows that come, and some of them that go, of both tables together or of one."""
    text = ("0", "1", "2", "q", None)

    def x() -> Row:
        return (
            draw.randrange(2),
            draw.choice("nt"),
            draw.choice(text),
            draw.choice((0, 1, 2, None)),
        )

    def y() -> Row:
        return (draw.randrange(3), draw.choice(text), draw.choice((0, 1, 3, None)))

    there: dict[str, list[Row]] = {"x": [], "y": []}
    out = []
    for _ in range(3):
        step = {}
        for name, make in (("x", x), ("y", y)):
            gone = [r for r in there[name] if draw.random() < 0.4]
            new = [make() for _ in range(draw.randrange(3))]
            for r in gone:
                there[name].remove(r)
            there[name] += new
            step[name] = hw.Delta(inserts=new, deletes=gone)
        out.append(step)
    return out


def fault(q: Query, steps: Sequence[dict[str, hw.Delta]], folder: Path) -> tuple[str, str]:
    """What is wrong with a view after some changes, and how far the play came."""
    tables: dict[str, list[Row]] = {"x": [], "y": []}
    with hw.open(folder) as db:
        db.policy.execution = "driver"
        db.source("x", X)
        db.source("y", Y)
        db.view("q", q.sql)
        for step in steps:
            for name, change in step.items():
                for row in change.deletes:
                    tables[name].remove(row)
                tables[name] += change.inserts
            pairs = None
            try:
                pairs = q.pairs(tables["x"], tables["y"])
                expected = Counter(q.shown(pairs, tables["y"]))
            except FAILS:
                if pairs is None and not q.definite:
                    return "", "a filter fails"
                try:
                    db.apply(step)
                except (EngineError, Asked):
                    return "", "refused"
                return f"{tables}: nothing failed, but {dict(rows_of(db))}", ""
            try:
                db.apply(step)
            except (EngineError, Asked) as e:
                return f"{tables}: {e!r} instead of {dict(expected)}", ""
            if rows_of(db) != expected:
                return f"{tables}: {dict(rows_of(db))} instead of {dict(expected)}", ""
    return "", "compared"


@pytest.mark.parametrize("share", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_drawn_guards(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "local_session", refuse)
    monkeypatch.setattr(session, "current_session", lambda: None)
    assert PROFILE is not None
    count = 25 if ORDINARY else PROFILE.max_examples
    first = share * count if ORDINARY else random.SystemRandom().randrange(1 << 40)
    ends: Counter[str] = Counter()
    for seed in range(first, first + count):
        draw = random.Random(seed)
        q = query(draw)
        while not any(w in q.sql for w in ("%", "div", "CAST")):
            q = query(draw)
        with tempfile.TemporaryDirectory() as folder:
            wrong, end = fault(q, changes(draw), Path(folder) / "db")
        assert not wrong, f"seed {seed}: {q.sql}\n{wrong}"
        ends[end] += 1
    assert ends["compared"] > 0.3 * ends.total() and ends["refused"] > 5, ends
