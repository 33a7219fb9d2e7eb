"""Scripts cut into statements: quotations and comments hide a `;`, and each statement knows its line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import ParseError
from headwater.script.words import Script, pieces, words

PLAIN = [
    "SELECT",
    "a1",
    "`x;y`",
    "'it''s; so'",
    '"q;"',
    r"'\'; '",
    "r'\\'",
    "1.5e3",
    "<",
    "(",
    ")",
    ",",
]
SPACES = [" ", "\n", " -- ; no\n", "/* ; /* ; */ ; */", "\t"]


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=4), max_size=4),
    st.data(),
)
def test_statements_are_what_stands_between(made: list[list[str]], data: st.DataObject) -> None:
    text, lines = "", []
    for statement in made:
        text += data.draw(st.sampled_from(SPACES))
        lines.append(text.count("\n") + 1)
        for word in statement:
            text += word + data.draw(st.sampled_from(SPACES))
        text += ";" * data.draw(st.integers(1, 2))
    found = pieces(Script(text))
    assert [p.line for p in found] == lines
    assert [[text[w.start : w.end] for w in p.words] for p in found] == made


def test_values_of_texts() -> None:
    text = r"""'a''b' "c\"d" 'e\n\%' r'\n' `f``g`"""
    assert [w.text for w in words(Script(text))] == ["a'b", 'c"d', "e\n\\%", "\\n", "f`g"]


@pytest.mark.parametrize(
    ("text", "place"),
    [("SELECT 1;\n 'x", (2, 2)), ("`x", (1, 1)), ("SELECT /* a /* b */", (1, 8))],
)
def test_what_has_no_end_is_told_with_its_place(text: str, place: tuple[int, int]) -> None:
    with pytest.raises(ParseError, match="has no end") as told:
        pieces(Script(text))
    assert told.value.span is not None
    assert (told.value.span.line, told.value.span.column) == place
