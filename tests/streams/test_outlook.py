"""What is said to be bounded is: when all is closed that schemes close, every entry of a bounded map is dead, and of others not.

The same of final rows. Verdicts are computed from schemes alone (`plan/outlook`), what is dead from punctuations.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from closings import OVER, SOURCES, VIEWS, story
from headwater.api.over import declared_of, promises_of, types_of
from headwater.calculus.patterns import Punctuations
from headwater.engine.membership import matching
from headwater.plan.advice import Advice
from headwater.plan.bounds import Bounds
from headwater.plan.closing import Closing
from headwater.plan.never_null import NeverNull
from headwater.plan.program import Answered, Map, Stored, View

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
    return pa.concat_tables(list(db._reading(snapshot, at).now(m.name).scan()))


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
