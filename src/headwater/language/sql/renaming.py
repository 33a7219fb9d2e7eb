"""A query whose tables have other names: the text stays as it was written, but for the names of tables.

A table whose name stands before columns (`orders.id`) keeps that name as an alias, so that nothing else has to change. A name that a
WITH clause gives is no table, where it is in sight.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from headwater.calculus.deep import with_room
from headwater.language.sql.reader import SPARK, Reader


@with_room
def with_tables(text: str, names: Mapping[str, str]) -> str:
    """A text with other names of tables, which are given in lower case."""
    tree = Reader(text, {}).parse()
    prefixes = {c.table.lower() for c in tree.find_all(exp.Column) if c.table}
    edits: list[tuple[int, int, str]] = []
    for table in tree.find_all(exp.Table):
        new, meta = names.get(table.name.lower()), table.this.meta
        if new is None or "start" not in meta or _is_given(table):
            continue
        start, end = meta["start"], meta["end"] + 1
        written = text[start:end]
        said = _written(new)
        if not table.alias and table.name.lower() in prefixes:
            said += f" AS {written}"
        edits.append((start, end, said))
    for start, end, said in sorted(set(edits), reverse=True):
        text = text[:start] + said + text[end:]
    return text


def _written(name: str) -> str:
    """A name as it can stand in a query."""
    words = SPARK.tokenize(name)
    return name if len(words) == 1 and words[0].token_type.name == "VAR" else f"`{name}`"


def _is_given(table: exp.Table) -> bool:
    """Whether a WITH clause around a table gives its name: of those before the one that it stands in, but for recursive ones."""
    low = table.name.lower()
    below: exp.Expr = table
    inside: exp.Expr | None = None
    node = table.parent
    while node is not None:
        given = node.args.get("with_")
        seen = list(given.expressions) if isinstance(given, exp.With) and below is not given else []
        if isinstance(node, exp.With):
            seen = list(node.expressions)
            if not node.args.get("recursive"):
                seen = seen[: next(i for i, c in enumerate(seen) if c is inside)]
        if any(c.alias.lower() == low for c in seen):
            return True
        inside = node if isinstance(node, exp.CTE) else inside
        below, node = node, node.parent
    return False
