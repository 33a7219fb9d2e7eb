"""The corpus of SQL queries: reading the files, and comparing answers.

A file `<clause>.sql` is a sequence of blocks:

    -- name: what the query shows
    SELECT ... in the Spark dialect;
    -- duckdb:
    SELECT ... where DuckDB needs other words;

Answers are bags of rows. They are compared by position, numbers by value (`1`, `1.0` and
`Decimal("1.00")` are equal, `True` and `1` are not), inner lists as bags, NULL equal to NULL. Integers
and decimals are compared exactly; a double on either side allows an error of 1e-9; and where the
answer under test is a decimal and DuckDB's is a double, the double need only round to it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from headwater.calculus.ring import RingMap, elements

FOLDER = Path(__file__).parent
HEADER = re.compile(r"-- (\w+):(.*)")
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Query:
    """A query of the corpus, in the words of Spark and in those of DuckDB."""

    file: str
    name: str
    shows: str
    spark: str
    duckdb: str

    @property
    def id(self) -> str:
        return f"{self.file}:{self.name}"


def read(folder: Path = FOLDER) -> list[Query]:
    """All queries of the files in a folder."""
    return [q for path in sorted(folder.glob("*.sql")) for q in blocks(path.stem, path.read_text())]


def blocks(file: str, text: str) -> Iterator[Query]:
    """The queries of one file's text."""
    found: list[tuple[str, str, list[str]]] = []
    for line in text.splitlines():
        if header := HEADER.fullmatch(line):
            found.append((header[1], header[2].strip(), []))
        elif found:
            found[-1][2].append(line)
        else:
            assert not line.strip(), f"{file}: {line!r} comes before the first `-- name:`"
    for i, (name, shows, lines) in enumerate(found):
        if name != "duckdb":
            spark = _statement(lines)
            other = found[i + 1] if i + 1 < len(found) else ("", "", [])
            yield Query(
                file, name, shows, spark, _statement(other[2]) if other[0] == "duckdb" else spark
            )


def _statement(lines: list[str]) -> str:
    text = "\n".join(lines).strip()
    assert text.endswith(";"), f"a query does not end in a semicolon: {text}"
    return text[:-1]


# --- comparing ------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value of the interpreter or of DuckDB as tuples and lists: records are tuples, bags are lists."""
    if isinstance(value, RingMap):
        return [plain(v) for v in elements(value)]
    if isinstance(value, Mapping):
        return tuple(plain(v) for v in value.values())
    if isinstance(value, tuple):
        return tuple(plain(v) for v in value)
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value


def same(actual: Any, expected: Any) -> bool:
    """Whether two plain values are equal, as the file's docstring says."""
    if isinstance(actual, bool) or isinstance(expected, bool) or actual is None or expected is None:
        return actual is expected
    if isinstance(actual, (int, float, Decimal)) and isinstance(expected, (int, float, Decimal)):
        return _same_number(actual, expected)
    if isinstance(actual, list) and isinstance(expected, list):
        missing, extra = difference(actual, expected)
        return not missing and not extra
    if isinstance(actual, tuple) and isinstance(expected, tuple):
        return len(actual) == len(expected) and all(map(same, actual, expected))
    return type(actual) is type(expected) and bool(actual == expected)


def _same_number(actual: int | float | Decimal, expected: int | float | Decimal) -> bool:
    if not isinstance(actual, float) and not isinstance(expected, float):
        return actual == expected
    if actual != actual or expected != expected:
        return actual != actual and expected != expected
    if abs(actual) == abs(expected):  # infinities, which have no difference
        return actual == expected
    if math.isinf(actual) or math.isinf(expected):  # else any number is near enough
        return False
    allowed = TOLERANCE * max(1.0, abs(float(expected)))
    if isinstance(actual, Decimal):
        allowed += 0.5 * 10.0 ** min(0, int(actual.as_tuple().exponent))
    return abs(float(actual) - float(expected)) <= allowed


def difference(actual: Iterable[Any], expected: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """What is missing from a bag, and what it has too much."""
    missing, extra = [], list(actual)
    for row in expected:
        at = next((i for i, other in enumerate(extra) if same(other, row)), None)
        if at is None:
            missing.append(row)
        else:
            del extra[at]
    return missing, extra


def report(query: Query, where: str, missing: list[Any], extra: list[Any]) -> str:
    """The message of a failure: the query, and the rows that differ."""
    parts = [f"{query.id} on {where}: {query.shows}", query.spark]
    if query.duckdb != query.spark:
        parts.append(f"-- duckdb:\n{query.duckdb}")
    parts += [f"missing  {row}" for row in sorted(missing, key=repr)]
    parts += [f"extra    {row}" for row in sorted(extra, key=repr)]
    return "\n".join(parts)
