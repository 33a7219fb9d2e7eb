"""The steps of a recursive query as texts: what Spark can compute round by round where it does not take the whole.

Spark has no WITH MUTUALLY RECURSIVE, and no UNION in WITH RECURSIVE. The rounds of both are ordinary queries: with a table
for every name of the clause, empty at first, the text of a name over the tables of the round before is its next table,

    Xᵢ = text(Xᵢ₋₁)     a UNION ALL s  and  a UNION s, too, as all rows are given to s

and behind the last round the query itself is what stands in the text without the clause.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.deep import with_room
from headwater.calculus.types import KeyType
from headwater.language.schema import Schemas
from headwater.language.sql import recursion
from headwater.language.sql.opaque import Ask
from headwater.language.sql.reader import Reader
from headwater.language.sql.recursive_grammar import body_of, clause_of
from headwater.language.sql.recursive_shape import references


@dataclass(frozen=True)
class Binding:
    """A name of a recursive WITH clause: its columns, and the query of one round of it."""

    name: str
    columns: tuple[tuple[str, KeyType], ...]
    text: str


@dataclass(frozen=True)
class Together:
    """Bindings that are computed from each other: all at once, round after round, until nothing changes or `times` is over.

    Without `looped` there is one round. A loop that still changes in round `limit` has no value.
    """

    bindings: tuple[Binding, ...]
    looped: bool
    times: int | None
    limit: int


@dataclass(frozen=True)
class Steps:
    """A recursive query taken apart: what is computed first, in this order, and the query that then reads it."""

    parts: tuple[Together, ...]
    main: str

    def mapped(self, change: Callable[[str], str]) -> Steps:
        """The same with every text changed."""
        parts = [
            replace(p, bindings=tuple(replace(b, text=change(b.text)) for b in p.bindings))
            for p in self.parts
        ]
        return Steps(tuple(parts), change(self.main))


@with_room
def spark_takes(text: str) -> bool:
    """Whether all recursion of a query is such as Spark has itself: UNION ALL in WITH RECURSIVE."""
    return all(_spark_has(clause) for clause in Reader(text, {}).parse().find_all(exp.With))


def _spark_has(clause: exp.With) -> bool:
    told = clause_of(clause)
    if told is None or told.mutually:
        return told is None
    loops = [
        c.this for c in clause.expressions if references(c.this, frozenset((c.alias.lower(),)))
    ]
    return not any(loop.unnest().args.get("distinct") for loop in loops)


@with_room
def steps(text: str, schemas: Schemas, ask: Ask | None = None) -> Steps | None:
    """The steps of a query that begins with a recursive WITH clause; None of another, or where Spark does not take a step."""
    reader = Reader(text, schemas, ask)
    tree = reader.parse()
    clause = tree.args.get("with_")
    told = clause_of(clause) if clause is not None else None
    inner = [c for c in tree.find_all(exp.With) if c is not clause]
    if clause is None or told is None or not all(_spark_has(c) for c in inner):
        return None
    parts = []
    for rounds in recursion.bind(reader, clause, None):
        bindings = tuple(
            Binding(
                cte.alias,
                type_of(reader.ctes[cte.alias.lower()]).key.fields,
                text[slice(*body_of(cte))],
            )
            for cte in rounds.queries
        )
        parts.append(Together(bindings, rounds.looped, rounds.times, rounds.limit))
    start, end = told.place
    return Steps(tuple(parts), text[:start] + text[end:])
