"""Random tables with a random change and a random query: what the fuzz tests run on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from random_sql import Columns, Queries
from random_sql_words import NAMES, POOLS, SCALARS, TYPES, Text, constant
from random_values import Pick

Rows = list[tuple[Any, ...]]

# --- cases ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Tables with their rows before and after a change, and a query."""

    tables: Mapping[str, Columns]
    old: Mapping[str, Rows]
    new: Mapping[str, Rows]
    query: Text

    @property
    def schema(self) -> str:
        """The tables, as `schemas` reads them."""
        columns = {
            n: ", ".join(f"{c} {TYPES[k][0]}" for c, k in cs) for n, cs in self.tables.items()
        }
        return "; ".join(f"{name}({text})" for name, text in columns.items())

    def statements(self, rows: Mapping[str, Rows]) -> Iterator[str]:
        """What makes the tables in DuckDB."""
        for name, columns in self.tables.items():
            types = ", ".join(f"{n} {TYPES[k][1]}" for n, k in columns)
            yield f"CREATE OR REPLACE TABLE {name} ({types})"
            if rows[name]:
                yield f"INSERT INTO {name} VALUES {', '.join(map(constant, rows[name]))}"


def case(pick: Pick) -> Case:
    """Two to four tables, of which the first has an array, a change to some of them, and a query."""
    tables: dict[str, Columns] = {}
    for name in "rstu"[: 2 + pick(3)]:
        others = [(n, k) for n, k in zip(NAMES[1:], (*SCALARS[1:], "int"), strict=False) if pick(3)]
        tables[name] = [("a", "int"), *others, *([] if tables else [("xs", "rows")])]
    old = {name: rows(pick, columns, 5) for name, columns in tables.items()}
    new = {}
    for name, columns in tables.items():
        kept = [row for row in old[name] if pick(3)]
        new[name] = old[name] if pick(4) == 0 else [*kept, *rows(pick, columns, 3)]
    queries = Queries(pick, tables, left=3 + pick(4))
    return Case(tables, old, new, queries.query(queries.wanted(), depth=(1, 2, 2, 3)[pick(4)]))


def rows(pick: Pick, columns: Columns, most: int) -> Rows:
    """Rows of a table; the last may repeat."""
    count = (0, *range(most, 1, -1), *range(most, 0, -1))[pick(2 * most)]
    out = [tuple(datum(pick, k) for _, k in columns) for _ in range(count)]
    return out + out[-1:] * (pick(3) == 2)


def datum(pick: Pick, kind: str) -> Any:
    """A value of a column."""
    if kind == "rows":
        pairs = [rows(pick, [("p", "int"), ("q", "str")], 2), None, [None]]
        return pairs[max(0, pick(8) - 5)]
    return POOLS[kind][pick(len(POOLS[kind]))]
