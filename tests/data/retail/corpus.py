"""The corpus of retail queries: reading the files.

A file `<family>.sql` is a sequence of blocks:

    -- name: what the query shows
    -- clauses: left join, group by
    -- arrays: in any order
    -- refused: NON_DETERMINISTIC
    SELECT ... in the Spark dialect;

`clauses` is there always. `arrays` is there where the order of elements is not the query's to say, and `refused`
where a view cannot be kept: the reason that the refusal must have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
HEADER = re.compile(r"-- (\w+):(.*)")
NOTES = ("clauses", "arrays", "refused")


@dataclass(frozen=True)
class Query:
    """A query of the corpus, and what is said of it."""

    family: str
    name: str
    shows: str
    text: str
    clauses: tuple[str, ...]
    ordered: bool
    refused: str

    @property
    def id(self) -> str:
        return f"{self.family}:{self.name}"

    @property
    def view(self) -> str:
        """A name for its view: names of queries are unique in a family."""
        return f"{self.family}_{self.name}"


def read(folder: Path = FOLDER) -> list[Query]:
    """All queries of the files in a folder."""
    found = [
        q for path in sorted(folder.glob("*.sql")) for q in blocks(path.stem, path.read_text())
    ]
    ids = [q.id for q in found]
    assert len(ids) == len(set(ids)), [i for i in ids if ids.count(i) > 1]
    return found


def blocks(family: str, text: str) -> Iterator[Query]:
    """The queries of one file's text."""
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        heads = [h for line in lines if (h := HEADER.fullmatch(line))]
        body = "\n".join(line for line in lines if not HEADER.fullmatch(line)).strip()
        assert heads and heads[0][1] not in NOTES, f"{family}: a block has no name: {block}"
        name, notes = heads[0][1], {h[1]: h[2].strip() for h in heads[1:]}
        assert notes.keys() <= set(NOTES) and notes.get("clauses"), f"{family}:{name}: {notes}"
        assert body.endswith(";"), f"{family}:{name} does not end in a semicolon"
        yield Query(
            family,
            name,
            heads[0][2].strip(),
            body[:-1],
            tuple(c.strip() for c in notes["clauses"].split(",")),
            "arrays" not in notes,
            notes.get("refused", ""),
        )
