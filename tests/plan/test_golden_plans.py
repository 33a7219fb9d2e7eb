"""Golden plans: `golden/<family>.case` has queries, and for each the maps kept and the statements that keep them.

A file says its sources; then come blocks of a comment and a query, in SQL or as a comprehension, with a strategy if it is
not chosen. What is indented below a block is its plan (see `plans`):

    source  r: a BIGINT, b BIGINT

    # a sum by group
    strategy  first-order
    sql  SELECT a, sum(b) AS t FROM r GROUP BY a
      kept first-order, read from R1
      ...

Plans say what a change does to the cost of an increment, and names of maps what it does to databases that are there:
those are in `golden/names.txt`. `--golden` writes all of it anew; the difference is what a reviewer reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

import headwater as hw
from plans import Plan, comprehension, plan

FOLDER = Path(__file__).parent / "golden"
FILES = sorted(FOLDER.glob("*.case"))
NAMES = FOLDER / "names.txt"


@dataclass
class Block:
    """A query with its words, the line after it, and the plan that is written below."""

    line: int
    words: dict[str, str]
    written: list[str] = field(default_factory=list)


@dataclass
class Case:
    """A file of plans, read: the lines that are no plans, the sources, and the blocks."""

    lines: list[str] = field(default_factory=list)
    sources: list[tuple[str, str, bool]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)


def read(text: str) -> Case:
    case = Case()
    words: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("  "):
            assert case.blocks and not words, f"a plan below no query: {line}"
            case.blocks[-1].written.append(line[2:])
            continue
        case.lines.append(line)
        word, _, rest = line.partition(" ")
        if word in ("source", "static"):
            name, _, ddl = rest.strip().partition(": ")
            case.sources.append((name, ddl, word == "static"))
        elif word in ("strategy", "key"):
            words[word] = rest.strip()
        elif word in ("sql", "query"):
            case.blocks.append(Block(len(case.lines), {**words, word: rest.strip()}))
            words = {}
        else:
            assert not line or line.startswith("#"), f"no word of a golden plan: {line}"
    return case


def planned(case: Case, block: Block, folder: Path) -> Plan:
    """The plan of a block now, in a database without rows."""
    words = block.words
    with hw.open(folder) as db:
        for name, ddl, static in case.sources:
            db.source(name, ddl, static=static)
        inputs = [name for name, _, _ in case.sources]
        asked = words["sql"] if "sql" in words else comprehension(words["query"], inputs)
        key = {"key": words["key"]} if "key" in words else {}
        db.view("v", asked, strategy=words.get("strategy", "auto"), **key)
        return plan(db, "v")


@cache
def plans(path: Path, folder: Path) -> tuple[Case, list[Plan]]:
    """What a file says, and the plans of its queries now."""
    case = read(path.read_text(encoding="utf-8"))
    return case, [
        planned(case, b, folder / f"{path.stem}-{n}") for n, b in enumerate(case.blocks, 1)
    ]


def text(case: Case, found: list[Plan]) -> str:
    """A file with these plans below its queries."""
    lines = list(case.lines)
    for block, one in reversed([*zip(case.blocks, found, strict=True)]):
        lines[block.line : block.line] = [f"  {line}" for line in one.lines]
    return "\n".join(lines) + "\n"


def names(folder: Path) -> Iterator[str]:
    """A line for each query: the maps and answers of its plan with their names on disk."""
    for path in FILES:
        for number, one in enumerate(plans(path, folder)[1], 1):
            yield f"{path.stem} {number}: " + ", ".join(f"{n} {d}" for d, n in one.names.items())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans")


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_plans(path: Path, folder: Path, pytestconfig: pytest.Config) -> None:
    case, found = plans(path, folder)
    if pytestconfig.getoption("--golden"):
        path.write_text(text(case, found), encoding="utf-8")
        return
    for block, one in zip(case.blocks, found, strict=True):
        assert one.lines == block.written, f"{block.words}: run `make golden`, read the difference"


def test_names_of_maps(folder: Path, pytestconfig: pytest.Config) -> None:
    """A map on disk is found by its name: one that changes is computed anew, and needs a reason."""
    found = list(names(folder))
    if pytestconfig.getoption("--golden"):
        NAMES.write_text("\n".join(found) + "\n", encoding="utf-8")
        return
    assert found == NAMES.read_text(encoding="utf-8").splitlines()


def test_a_plan_that_differs_is_seen(tmp_path: Path) -> None:
    case = read("source  r: a BIGINT, b BIGINT\n\n# a sum\nsql  SELECT sum(b) AS t FROM r\n")
    (block,) = case.blocks
    found = planned(case, block, tmp_path / "one")
    again = read(text(case, [found]))
    assert again.lines == case.lines and again.blocks[0].written == found.lines
    first = Block(0, {**block.words, "strategy": "first-order"})
    other = planned(case, first, tmp_path / "other")
    assert other.lines != found.lines and not {*other.names} & {*found.names}
