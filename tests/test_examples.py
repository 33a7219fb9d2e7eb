"""The examples run, and say what they promise."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from spark_session import session

EXAMPLES = Path(__file__).parent.parent / "examples"
SAYS = {
    "orders": ["|    200|35.50|17.750000|  2|", "the view is what its query gives"],
    "changes": ["version 5: 1 changes, the copy is [('news', 3)]"],
    "copies": [
        "update (1,): [('items', 'ink', 1)]",
        "the files: [{'id': 1, 'items': ['ink'], '_w': 1}]",
    ],
    "report": ["reads the first 2 rows of a group", "both are what Spark gives"],
    "nested": [
        "+1 in items(1): {'day': 'Mon', 'item': 'lamp', 'cost': 240}",
        "there is no row of `customers`",
    ],
    "late_view": ["|tools|95619|", "[NON_DETERMINISTIC]", "all views are what their queries give"],
    "crawl": ["1 pages: b.org/y 1.594, b.org/x 1.581, c.org/ 1.208"],
    "median": [
        "straight on:    [(3, 331), (6, 331), (9, 404)",
        "with the cycle: [(3, 331), (6, 331), (9, 404)",
    ],
    "cube": ["query 0: 0 sales", "query 9: 18 sales, 180 in all"],
    "by_hand": ["by hand and in SQL: ann 3: 25"],
    "sessions": ["one by one: ann 00:00-00:20 (3) ann 01:30-01:35 (2) bob 00:10-00:10 (1)"],
    "enrich": ["ann 01 March Norway, ann 02 March Peru, bob 01 March None\nbob 01 March None\n"],
    "outage": [
        "reports and a call: nothing is final\nthe last call of hour 3: zone 1 at 3 is final\n",
        "two more reports of hour 3: zone 4 at 3 is final\n",
        "a late row for `calls`: {'zone': 1, 'hour': 3, 'phone': '555-0102'} matches ⟨hour: {null, 3}⟩",
        "no more calls at all: nothing is final\na report of hour 5: zone 7 at 5 is final\n",
    ],
    "disorder": ["25 minutes: 150 windows are final, 25 events were late", "late in version"],
    "taxi": [
        "the others of this hour: 09:00 4.0\nan outlier of taxi 7 at 08:40\n",
        "a taxi over the hour's end: 10:00 8.0\nan hour without fixes: 11:00 None\n",
        "`gps` is closed up to 2026-03-01 11:00:00",
        "the worst hours: [('2026-03-01', 8.0)]",
    ],
    "highest_bids": ["31 windows, 54 highest bids; as in SQL: True"],
    "top_states": ["68 highs of 730 days, 643 times a state on top of two"],
    "monthly_status": [
        "36439 rows: 0 are told\nno more rows: 1200 are told, of 24 months\n",
        "s01: 11 surges are over, the present one is rising: 16844 cases",
    ],
    "differing": [
        "the streams differ in `growth`, after growth(meter='b', hour=1, by=0), at meter = 'b':",
        "left   growth(meter='b', hour=2, by=1)\n  right  growth(meter='b', hour=2, by=-1)",
    ],
    "graph": [
        "a pass is closed: rounds of distances [(3, 2), (4, 0)]",
        "('Chur', 320), ('Davos', 379), ('Thun', 28)]\n  the highest rank has Brig: 1.240",
    ],
    "parts": [
        "28 spokes a wheel: bike 316.00, trailer 76.00, wheel 38.00\n",
        "a bike in its own rim: NoFixpoint, and nothing is changed\nas before: bike 316.00",
    ],
    "rallies": ["a: 3 rallies, the latest at 09:52", "c: 4 rallies, the latest at 10:52"],
}
STAGES = ("crawl", "median", "cube", "by_hand", "sessions", "enrich")
"""Examples of stages; tests/test_flow_examples.py compares them with plain Python."""
STREAMS = ("differing", "taxi", "highest_bids", "top_states", "monthly_status", "rallies")
"""Examples of streams in order; tests/test_streams_beside_python.py compares them with plain Python."""
LOOPS = ("graph", "parts")
"""Examples of loops; tests/engine/test_loops.py compares such views with networkx."""
HERE = (*STAGES, *STREAMS[1:], *LOOPS, "outage", "disorder")
"""Examples that start no Spark."""
ALL = [
    pytest.param(p, id=p.stem, marks=[] if p.stem in HERE else [pytest.mark.spark])
    for p in sorted(EXAMPLES.glob("*.py"))
]


@pytest.mark.parametrize("path", ALL)
def test_an_example_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if path.stem not in HERE:
        session()  # the one that is active; without it an example starts its own
    runpy.run_path(str(path), run_name="__main__")
    shown = capsys.readouterr().out
    for text in SAYS[path.stem]:
        assert text in shown


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_an_example_is_short_and_opens_with_what_it_shows(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    most = 110 if path.stem in (*STAGES, *STREAMS, *LOOPS) else 60
    assert lines[0].startswith('"""') and len(lines) <= most
