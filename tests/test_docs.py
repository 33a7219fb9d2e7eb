"""The pages for people are about the code that is there: links lead somewhere, and every module is on the map.

What a page says of a module is for reviewers; that the module exists, and is named at all, is checked here.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "headwater"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#:\s]+)\)")
NAMED = re.compile(r"`((?:\w+/)+\w+\.py)`")
MODULES = sorted(p for p in SRC.rglob("*.py") if not p.name.startswith("__"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    lost = [to for to in LINK.findall(page.read_text("utf-8")) if not (page.parent / to).exists()]
    assert not lost


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_that_are_named_exist(page: Path) -> None:
    """`plan/maps.py` is in the package, or `tests/test_project.py` in the repository."""
    names = set(NAMED.findall(page.read_text("utf-8")))
    assert not [n for n in sorted(names) if not (SRC / n).exists() and not (ROOT / n).exists()]


def test_every_module_is_on_the_map() -> None:
    """ARCHITECTURE.md has a line for each, under its folder: `sql/select`, `here/arrow`, or only the last name."""
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    named = {n.split("/")[-1] for n in re.findall(r"`([\w/]+)`", page)}
    assert not [str(p.relative_to(SRC)) for p in MODULES if p.stem not in named]


@pytest.mark.parametrize(
    "record", sorted((ROOT / "docs" / "decisions").glob("*.md")), ids=lambda r: r.name
)
def test_a_decision_has_its_four_parts(record: Path) -> None:
    """A problem, a decision, alternatives and consequences, on a page; numbered as its file is."""
    text = record.read_text("utf-8")
    assert text.startswith(f"# {int(record.name[:4])}. ")
    for part in ("Problem", "Decision", "Alternatives", "Consequences"):
        assert f"**{part}.**" in text
    assert len(text.splitlines()) <= 60
