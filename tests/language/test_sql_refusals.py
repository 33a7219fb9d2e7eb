"""Queries that are refused: the class of the error, a piece of what it says, and where it points.

The cases are in `sql/refusals.case`; carets under a line of a query mark the place underlined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from headwater import errors
from sql.corpus import FOLDER
from sql.tables import SCHEMAS

sql = pytest.importorskip("headwater.language.sql")

CARETS = re.compile(r" *(\^+)")
FILE = FOLDER / "refusals.case"


@dataclass(frozen=True)
class Case:
    """A query that is refused, and what its error must be."""

    about: str
    error: str
    reason: str
    says: str
    query: str
    span: errors.Span | None


def cases(text: str) -> Iterator[Case]:
    """The blocks of a case file; a block is separated from the next by a blank line."""
    for block in re.split(r"\n\n+", text.strip()):
        title, *lines = block.splitlines()
        if len(lines) < 2 or not lines[0].startswith("error "):
            continue  # the comment at the top
        error, _, reason = lines[0].removeprefix("error").strip().partition(" ")
        query, span = _marked(lines[2:])
        yield Case(
            title.lstrip("# "), error, reason, lines[1].removeprefix("says").strip(), query, span
        )


def _marked(lines: list[str]) -> tuple[str, errors.Span | None]:
    """A query's text and the place that carets mark in it."""
    kept: list[str] = []
    span = None
    for line in lines:
        if carets := CARETS.fullmatch(line):
            assert kept and carets.end() <= len(kept[-1]), f"carets under nothing: {lines}"
            span = errors.Span(len(kept), carets.start(1) + 1, len(carets[1]))
        else:
            kept.append(line)
    return "\n".join(kept), span


CASES = list(cases(FILE.read_text()))


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 40


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.about.replace(" ", "-"))
def test_refusal(case: Case) -> None:
    with pytest.raises(errors.HeadwaterError) as caught:
        sql.read_sql(case.query, SCHEMAS)
    error = caught.value
    assert type(error).__name__ == case.error, error
    assert case.says in str(error)
    if case.reason:
        assert getattr(error, "reason", "") == case.reason, error
    if case.span is not None:
        assert error.span is not None, f"no place is underlined\n{error}"
        expected, found = case.span.underline(case.query), error.span.underline(case.query)
        assert (error.span.line, error.span.column) == (case.span.line, case.span.column), (
            f"expected\n{expected}\nfound\n{found}"
        )
