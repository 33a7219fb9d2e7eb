"""The examples run, and say what they promise."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from spark_session import session

pytestmark = pytest.mark.spark
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
}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_an_example_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session()  # the one that is active; without it an example starts its own
    runpy.run_path(str(path), run_name="__main__")
    shown = capsys.readouterr().out
    for text in SAYS[path.stem]:
        assert text in shown


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_an_example_is_short_and_opens_with_what_it_shows(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    assert lines[0].startswith('"""') and len(lines) <= 60
