"""Queries with the sums that Spark rounds added up without rounding, as text.

Spark adds up doubles one after the other and rounds each time, so that its sum depends on the order of the rows; ours is
rounded once. To tell the one from an error of ours, `verify` has Spark run the query with other sums:

    SELECT k, sum(x) AS s FROM r GROUP BY k
    SELECT k, headwater_sum(collect_list(x)) AS s FROM r GROUP BY k

Everything else in the text stays as its author wrote it. `Reader.rounds` says where such aggregates stand.
"""

from __future__ import annotations

from typing import Any

from headwater.calculus.deep import with_room
from headwater.language.schema import Schemas
from headwater.language.sql.moments import TWO_ARGUMENTS
from headwater.language.sql.opaque import Ask
from headwater.language.sql.reader import Reader

PREFIX = "headwater_"
"""How the names of the functions begin that add up a list."""


@with_room
def without_rounding(text: str, schemas: Schemas, ask: Ask | None = None) -> tuple[str, set[str]]:
    """The query with exact sums, and the aggregates that it has in other words; none if Spark rounds no sum of it."""
    reader = Reader(text, schemas, ask)
    reader.query(reader.parse(), None)
    edits: list[tuple[int, int, str]] = []
    for start, name in reader.rounds.items():
        edits += _edits(reader.tokens, start, name)
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return text, set(reader.rounds.values())


def _edits(tokens: list[Any], start: int, name: str) -> list[tuple[int, int, str]]:
    """What is put in the place of what, for one aggregate: its name, its arguments if there are two, and its end."""
    at = next(i for i, t in enumerate(tokens) if t.start == start)
    first, last = at + 1, _closing(tokens, at + 1)
    out = [(start, tokens[at].end + 1, f"{PREFIX}{name}(collect_list")]
    if name in TWO_ARGUMENTS:
        before = first + (tokens[first + 1].text.upper() == "DISTINCT")
        out += [(tokens[before].end + 1, tokens[before].end + 1, " struct(")]
        out += [(tokens[last].start, tokens[last].start, ")")]
    for word in ("FILTER", "OVER"):
        if last + 1 < len(tokens) and tokens[last + 1].text.upper() == word:
            named = tokens[last + 2].text != "("
            last = last + 2 if named else _closing(tokens, last + 2)
    return [*out, (tokens[last].end + 1, tokens[last].end + 1, ")")]


def _closing(tokens: list[Any], at: int) -> int:
    """The bracket that closes the one that stands there."""
    depth = 0
    for i in range(at, len(tokens)):
        kind = tokens[i].token_type.name
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        if depth == 0:
            return i
    raise ValueError("a bracket is not closed")
