"""What is said to be bounded is: when all is closed that schemes close, every entry of a bounded map is dead, and of others not.

The same of final rows. Verdicts are computed from schemes alone (`plan/outlook`), what is dead from punctuations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from closings import (
    OVER,
    SOURCES,
    VIEWS,
    Story,
    moment,
    sessions_story,
    story,
    through_story,
)
from headwater.api.over import declared_of, promises_of, types_of
from headwater.calculus.patterns import Punctuations
from headwater.engine.membership import matching
from headwater.plan.advice import Advice
from headwater.plan.bounds import Bounds
from headwater.plan.closing import Closing
from headwater.plan.never_null import NeverNull
from headwater.plan.program import Answered, Map, Stored, View
from test_bounds import final_rows

SCHEMES: list[dict[str, Any]] = [
    {"r": "t", "q": "t", "u": "t"},
    {"r": ("a", "t"), "q": ("a", "t"), "u": "e"},
    {"r": "a", "q": ["t", "a"], "u": "k"},
    {"r": "t", "u": "e"},
]
CASES = [(closes, i % 2 == 1) for i, closes in enumerate(SCHEMES)]
LOOKS_BACK = """SELECT x.a, x.e, sum(x.b) OVER (PARTITION BY x.a ORDER BY x.e, x.b ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s
    FROM (SELECT r.a, u.e, max(r.b) AS b FROM r JOIN u ON r.a = u.k AND r.t <= u.e GROUP BY r.a, u.e) x"""
FILTERED = [
    "SELECT a, count(*) AS n FROM r WHERE t >= 2 GROUP BY a",
    "SELECT a, count(*) AS n FROM r WHERE t <= 4 GROUP BY a",
]
BEYOND = 1000
"""A value above all that there are."""


def opened(folder: Path, closes: dict[str, Any], append_only: bool) -> hw.Database:
    db = hw.open(folder)
    for name, ddl in SOURCES.items():
        only = append_only and name == "q"
        db.source(name, ddl, closes=closes.get(name, ()), append_only=only)
    for i, query in enumerate([*VIEWS, LOOKS_BACK, *FILTERED]):
        db.view(f"v{i}", query)
    db.view("base", "SELECT t, count(*) AS n FROM r GROUP BY t")
    for i, query in enumerate(OVER):
        db.view(f"over{i}", query.format("base"))
    rows: dict[str, list[Any]] = {n: [] for n in SOURCES}
    for change, _ in story(3, steps=12).steps:
        for name, delta in change.items():
            rows[name] += delta.inserts
    db.apply(rows)
    return db


def all_closed(db: hw.Database, closes: dict[str, Any]) -> dict[str, Punctuations]:
    """Every scheme of every source, closed beyond all values."""
    out = {}
    for name, given in closes.items():
        schemes = given if isinstance(given, list) else [given]
        points = [
            hw.closed(**dict.fromkeys(s if isinstance(s, tuple) else [s], hw.upto(BEYOND)))
            for s in schemes
        ]
        out[name] = Punctuations(points, types_of(db.catalog.sources[name].row))
    return out


def entries(db: hw.Database, m: Map) -> pa.Table:
    snapshot, at = db._at(None)
    found = db._reading(snapshot, at).now(m.name)
    return pa.concat_tables([found.spec.schema.empty_table(), *found.scan()])


@pytest.mark.parametrize(("closes", "append_only"), CASES, ids=str)
def test_what_is_said_comes_true(tmp_path: Path, closes: dict[str, Any], append_only: bool) -> None:
    with opened(tmp_path, closes, append_only) as db:
        closing = Closing(db.program, "UTC")
        now = Advice(closing, declared_of(db.catalog)).with_()
        promises = promises_of(closing, db.catalog, all_closed(db, closes), {})
        told = Bounds(promises, now.bounds.held)
        seen = 0
        for m in db.program.maps.values():
            table = entries(db, m)
            if not table.num_rows or not m.columns or m.name in now.bounds.held:
                continue
            dead, state = matching(told.dead(m), table), now.state(m)
            seen += state in ("bounded", "unbounded")
            if state == "bounded":
                assert dead.all(), (m.note, m.text)
            elif state in ("unbounded", "front"):
                assert not dead.all(), (m.note, m.text)
        assert seen > 40
        for view in db.program.views.values():
            table = entries(db, _read(db, view))
            if table.num_rows:
                final = matching(promises.final(view), table).all()
                assert final == (now.final(view) is not None), view.name


@pytest.mark.parametrize("append_only", [False, True])
@pytest.mark.parametrize("of", [sessions_story, through_story])
def test_what_is_said_of_what_is_found_comes_true(
    tmp_path: Path, of: Callable[..., Story], append_only: bool
) -> None:
    """The same where entries say what is over: sessions, and keys through entries."""
    told, seen = of(5, steps=12), Counter[str]()
    with hw.open(tmp_path) as db:
        column = "ts" if of is sessions_story else "t"
        for name, ddl in told.sources.items():
            key = told.keys.get(name)
            db.source(name, ddl, key=key, closes=column, append_only=append_only)
        for i, query in enumerate(told.pool):
            db.view(f"v{i}", query)
        for change, _ in told.steps:
            db.apply({n: hw.Delta(inserts=d.inserts) for n, d in change.items() if n != "o"})
            if "o" in change:
                there = db.table("o").column("id").to_pylist()
                rows = [x for x in change["o"].inserts if x[0] not in there]
                db.apply(
                    {"o": [x for i, x in enumerate(rows) if x[0] not in [y[0] for y in rows[:i]]]}
                )
        end = hw.upto(moment(BEYOND) if of is sessions_story else BEYOND)
        db.apply({}, punctuate={n: hw.closed(**{column: end}) for n in told.sources})
        now = Advice(Closing(db.program, "UTC"), declared_of(db.catalog)).with_()
        gone = db.dead()
        for n, m in db.program.maps.items():
            if n in now.bounds.held or not m.columns:
                continue
            table, state = entries(db, m), now.state(m)
            left = table.num_rows - int(matching(gone.get(n, Punctuations.NONE), table).sum())
            seen[state] += 1
            if state == "bounded":
                assert left == 0, (m.note, m.text)
            elif state in ("unbounded", "front") and table.num_rows:
                assert left > 0, (m.note, m.text)
        for view in db.program.views.values():
            table = db.table(view.name)
            if table.num_rows:
                final = final_rows(db, view.name).total()
                wanted = sum(table.column("_w").to_pylist()) if now.final(view) is not None else 0
                assert final == wanted, view.name
    assert seen["bounded"] > 10 and seen["unbounded"] > 0


def _read(db: hw.Database, view: View) -> Map:
    match view.rows:
        case Answered(name):
            return db.program.strata[name].group
        case Stored(map=m):
            return m
    raise AssertionError(view)


@pytest.mark.parametrize(
    ("query", "never"),
    [
        ("SELECT b, t FROM r WHERE b > 1", {"b"}),
        ("SELECT b, t FROM r WHERE b > 1 OR t > 1", set()),
        ("SELECT b, t FROM r WHERE b IS NOT NULL AND t = 2", {"b", "t"}),
        ("SELECT r.b, q.c, r.t FROM r JOIN q ON r.b = q.c", {"b", "c"}),
        ("SELECT r.b, q.c, r.t FROM r JOIN q ON r.b <=> q.c", set()),
        ("SELECT b, t FROM r WHERE b > 1 UNION ALL SELECT a, t FROM q", set()),
        ("SELECT x.b, x.n FROM (SELECT b, count(*) AS n FROM r WHERE b > 1 GROUP BY b) x", {"b"}),
    ],
)
def test_columns_that_are_never_null(tmp_path: Path, query: str, never: set[str]) -> None:
    with hw.open(tmp_path) as db:
        for name, ddl in SOURCES.items():
            db.source(name, ddl)
        db.view("v", query)
        found, view = NeverNull(db.program), db.program.views["v"]
        match view.rows:
            case Answered(name):
                assert found.relation(name) & {"b", "t", "c"} == never
            case Stored(map=m):
                names = dict(zip(m.columns, [n for n, _ in view.type.fields], strict=True))
                assert {names[c] for c in found.of(m)} == never
