"""Verdicts: what of NEXMark, of the retailer's queries and of TPC-H stays small and becomes final, what does not, what would do.

`golden/*_bounds.txt` has them; `--golden` writes them anew. What is advised is declared, and then does what it promised.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

import headwater as hw
import nexmark
from headwater.api.over import bounds_of
from headwater.engine.undisturbed import uncollected
from headwater.errors import HeadwaterError
from headwater.plan.advice import Measures, ViewBounds
from headwater.show.bounds import bounds_text, when
from retail import corpus
from retail import tables as retail
from tpch import data as tpch

GOLDEN = Path(__file__).parent / "golden"
DIGEST = re.compile(r"(?<![0-9a-z])(?:m|a|r|base)[0-9a-f]{10}\b")
RETAIL_EVERY = 5
"""One of so many queries of the retailer is judged, by its name: others may come and go."""


def masked(text: str) -> str:
    """A text in which names of maps and strata are numbered: other tests look at the names themselves."""
    names: dict[str, str] = {}
    return DIGEST.sub(lambda m: names.setdefault(m[0], f"#{len(names) + 1}"), text)


def compare(name: str, lines: Iterable[str], config: pytest.Config) -> None:
    path, text = GOLDEN / f"{name}_bounds.txt", "\n".join(lines) + "\n"
    if config.getoption("--golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    assert text == path.read_text(encoding="utf-8"), "run with --golden, read the difference"


def short(b: ViewBounds) -> Iterator[str]:
    """The verdict in a few lines."""
    states = Counter(m.state for m in b.maps)
    counts = ", ".join(f"{n} {s}" for s, n in sorted(states.items()))
    final = "never final" if b.final is None else f"final {when(b.final)}"
    yield f"{b.view}   {b.verdict}: {counts or 'no maps'}; {final}"
    for s in b.would_do:
        yield f"    would do: {' with '.join(map(str, s))}"


def bounds(db: hw.Database, view: str) -> ViewBounds:
    return bounds_of(db.program, db.catalog, view, "UTC")


# --- NEXMark ----------------------------------------------------------------------------------------------------------


def nexmark_view(folder: Path, name: str, measures: Measures = ()) -> hw.Database:
    db = hw.open(folder)
    more: dict[str, dict[str, Any]] = {}
    for m in measures:
        said = more.setdefault(m.source, {})
        if m.what == "closes":
            said.setdefault("closes", []).append(m.column)
        else:
            assert m.what == "static", m
            said["static"] = True
    nexmark.declare(db, **more)
    db.view(name, nexmark.QUERIES[name])
    return db


def test_nexmark(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    lines = []
    for name in nexmark.QUERIES:
        with nexmark_view(tmp_path / name, name) as db:
            text = str(db.explain(name))
            lines.append(masked(text[text.index("BOUNDS of") :]))
    compare("nexmark", "\n\n".join(lines).splitlines(), pytestconfig)


@pytest.mark.parametrize("name", ["q3", "q4", "q18", "q19", "q20"])
def test_advice_does_what_it_says(tmp_path: Path, name: str) -> None:
    """Every set of measures that is given for NEXMark, declared: the map does not grow any more, the rows are final."""
    with nexmark_view(tmp_path / "now", name) as db:
        now = bounds(db, name)
    assert now.verdict != "unblocked" and now.would_do
    sets = {s for m in now.maps for s in m.would_do if all(x.what != "retain" for x in s)}
    sets |= {*now.would_do, *now.would_be_final}
    for i, measures in enumerate(sorted(sets, key=str)):
        with nexmark_view(tmp_path / f"{i}", name, measures) as db:
            then = bounds(db, name)
        for m in now.maps:
            if measures in m.would_do:
                assert m.name in now.growing and m.name not in then.growing, (m, measures)
        if measures in now.would_be_final:
            assert now.final is None and then.final is not None
        if measures in now.would_do:
            assert then.verdict == "unblocked"


def test_a_verdict_under_other_schemes(tmp_path: Path) -> None:
    """`can` says what would be if sources were closed otherwise; a source that is not there is named."""
    with hw.open(tmp_path) as db:
        db.source("calls", "zone INT, hour INT")
        query = "SELECT zone, hour, count(*) AS n FROM calls GROUP BY zone, hour"
        assert "BOUNDS" not in db.can(query)
        assert "closes hour)   unblocked" in db.can(query, closes={"calls": "hour"})
        assert "(calls: no scheme)   blocked" in db.can(query, closes={})
        by_phone = "SELECT zone, count(*) AS n FROM calls GROUP BY zone"
        told = db.can(by_phone, closes={"calls": "hour"})
        assert "groups by (calls.zone) stay open: which does not say calls.hour" in told
        assert 'TO UNBLOCK all of it: closes="zone" on calls' in told
        with pytest.raises(HeadwaterError, match="there is no source `phones`"):
            db.can(query, closes={"phones": "hour"})


def test_maps_that_grow_are_marked(tmp_path: Path) -> None:
    with hw.open(tmp_path) as db:
        db.source("calls", "zone INT, hour INT", closes="hour")
        db.view("by_hour", "SELECT hour, count(*) AS n FROM calls GROUP BY hour")
        db.view("by_zone", "SELECT zone, count(*) AS n FROM calls GROUP BY zone")
        assert "#c0392b" not in db.explain("by_hour").svg
        assert "#c0392b" in db.explain("by_zone").svg


def test_rows_that_a_source_keeps(tmp_path: Path) -> None:
    """A map of the source's own rows is kept; with open rows only it is as bounded as its readers let it be."""
    query = "SELECT a.*, b.c FROM a JOIN b ON a.k = b.k AND a.t = b.t"
    for retain in (True, "open"):
        with hw.open(tmp_path / str(retain)) as db:
            for name, ddl in (("a", "k INT, t INT, s STRING"), ("b", "k INT, t INT, c INT")):
                db.source(name, ddl, closes="t", retain=retain)
            db.view("v", query, strategy="first-order")
            found = bounds(db, "v")
            own = [m for m in found.maps if m.what.startswith("the rows of a,")]
        if own:
            (kept,) = own
            assert kept.state == ("kept" if retain is True else "bounded")
            advised = [" with ".join(map(str, s)) for s in kept.would_do]
            assert advised == (['retain="open" on a'] if retain is True else [])
        assert found.verdict == "unblocked"


# --- TPC-H, and the retailer -------------------------------------------------------------------------------------------


def tpch_view(folder: Path, name: str, measures: Measures = ()) -> hw.Database:
    db = hw.open(folder)
    for source, ddl in tpch.SCHEMAS.items():
        closes = {"orders": ["o_orderdate"], "lineitem": ["l_shipdate"]}.get(source, [])
        own = [m for m in measures if m.source == source]
        closes = [*closes, *(m.column for m in own if m.what == "closes")]
        static = source in tpch.STATIC or any(m.what == "static" for m in own)
        only = any(m.what == "append_only" for m in own)
        said = {"static": True} if static else {"closes": closes or (), "append_only": only}
        db.source(source, ddl, **said)
    db.view(name, tpch.query(name, 0.01))
    return db


def test_tpch(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Verdicts with orders closed by their date and lines by theirs; what would unblock is declared, and does."""
    lines, seconds = [], []
    for name in tpch.QUERIES:
        # The search for cycles would go through what thousands of tests before left.
        with tpch_view(tmp_path / name, name) as db, uncollected():
            began = time.process_time()
            found = bounds(db, name)
            bounds_text(found)
            seconds.append(time.process_time() - began)
        lines += short(found)
        for i, measures in enumerate(found.would_do[:1]):
            with tpch_view(tmp_path / f"{name}-{i}", name, measures) as db:
                assert bounds(db, name).verdict == "unblocked", (name, measures)
    compare("tpch", lines, pytestconfig)
    assert max(seconds) <= 1


class NoSpark:
    """Stands for Spark where a query asks it for a type."""

    zone = "UTC"

    def __call__(self, *_: Any) -> Any:
        raise Asked


class Asked(Exception):
    """A query that cannot be read without Spark."""


def test_retail(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Verdicts with a watermark on what the retailer sells: orders, payments and visits by their times."""
    times = {"orders": "placed", "payments": "paid", "visits": "at"}
    lines, judged = [], 0
    with hw.open(tmp_path) as db:
        db.ask = NoSpark()  # type: ignore[assignment]
        for name, ddl in retail.SCHEMA.items():
            closes = hw.watermark(times[name], "10 minutes") if name in times else ()
            db.source(name, ddl, closes=closes)
        for q in corpus.read():
            if q.refused or crc32(q.id.encode()) % RETAIL_EVERY:
                continue
            try:
                text = db.can(q.text)
            except Asked:
                continue
            judged += 1
            if "BOUNDS of" in text:
                lines.append(f"{q.id}   {_summary(text[text.index('BOUNDS of') :])}")
    assert judged > 60 and len(lines) > 30
    compare("retail", lines, pytestconfig)


def _summary(text: str) -> str:
    """The verdict, how many maps are what, and the first advice."""
    verdict = text.splitlines()[0].rpartition("   ")[2]
    states = Counter(re.findall(r"^    (bounded|fixed|ends|kept|by group|unbounded) ", text, re.M))
    final = re.search(r"^  (rows  final .*|NOT FINAL)", text, re.M)
    advice = re.search(r"^  TO UNBLOCK all of it: (.*)", text, re.M)
    counts = ", ".join(f"{n} {s}" for s, n in sorted(states.items()))
    said = final[1].replace("rows  ", "") if final else ""
    return f"{verdict}: {counts}; {said}" + (f"; {advice[1]}" if advice else "")
