"""WITH MUTUALLY RECURSIVE: queries that may all read each other, with columns that say their types.

    repeat ⟨a, b⟩ := ∅ then ⟨a(a, b), b(a, b)⟩     all from all at once, whatever is maintained

Those that read each other are one loop, over a bag or over a product of bags; the others are what they are without recursion:
queries before the loop or behind it. Where RETURN AT RECURSION LIMIT counts rounds, all loops have the same ones and are one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.terms import Field, Record, Repeat, Term, Var, Zero
from headwater.calculus.types import Base, KeyType, RecordType, bag
from headwater.errors import ParseError, QueryError
from headwater.language.schema import sql_name, type_of_ddl
from headwater.language.sql.loop_queries import (
    LIMIT,
    closed,
    nested,
    no_level,
    no_round,
    open_loop,
    typed,
)
from headwater.language.sql.recursive_grammar import Clause
from headwater.language.sql.recursive_shape import references
from headwater.language.sql.scope import Scope

if TYPE_CHECKING:
    from headwater.language.sql.reader import Reader


@dataclass(frozen=True)
class Rounds:
    """Queries of a recursive WITH clause that are computed together: once, or at once round after round."""

    queries: tuple[exp.CTE, ...]
    looped: bool = False
    times: int | None = None
    limit: int = LIMIT


@dataclass(frozen=True)
class Mutual:
    """The queries of WITH MUTUALLY RECURSIVE: each may read all."""

    reader: Reader
    told: Clause
    ctes: Sequence[exp.CTE]
    parent: Scope | None

    def bind(self) -> Iterator[Rounds]:
        """Binds every name: to its loop, or to its own query where it is in none."""
        by_name = {cte.alias.lower(): cte for cte in self.ctes}
        rows = {name: self._declared(cte) for name, cte in by_name.items()}
        names = frozenset(by_name)
        reads = {
            name: {t.name.lower() for t in references(cte.this, names)}
            for name, cte in by_name.items()
        }
        for group in groups(reads, together=self.told.returns is not None):
            ctes = [by_name[n] for n in group]
            if len(group) == 1 and group[0] not in reads[group[0]]:
                self.reader.ctes[group[0]] = self._query(ctes[0], rows[group[0]])
                yield Rounds((ctes[0],))
            else:
                loop = self._loop(ctes, rows)
                yield Rounds(tuple(ctes), True, loop.times, loop.limit)

    def _loop(self, ctes: list[exp.CTE], rows: Mapping[str, RecordType]) -> Repeat:
        """Queries that read each other, as one loop over a bag, or over a product of bags."""
        reader, several = self.reader, len(ctes) > 1
        nothing = {cte.alias: Zero(bag(rows[cte.alias.lower()])) for cte in ctes}
        start: Term = Record(tuple(nothing.items())) if several else nothing[ctes[0].alias]
        loop = Var(reader.fresh(ctes[0].alias), type_of(start))
        before = dict(reader.ctes)

        def each(whole: Term) -> dict[str, Term]:
            return {c.alias.lower(): Field(whole, c.alias) if several else whole for c in ctes}

        with open_loop(reader, loop):
            reader.ctes = {**before, **each(loop)}
            steps = tuple((c.alias, self._query(c, rows[c.alias.lower()])) for c in ctes)
        step = Record(steps) if several else steps[0][1]
        out = Repeat(loop, start, step, times=self.told.returns, limit=self.told.fails or LIMIT)
        reader.ctes = {**before, **each(closed(reader, out, ctes[0].alias, ctes[0]))}
        return out

    def _query(self, cte: exp.CTE, row: RecordType) -> Term:
        self.reader.unnamed(cte.this)
        term = self.reader.query(cte.this, self.parent)
        return typed(self.reader, cte.alias, term, row, cte.this, "its head")

    def _declared(self, cte: exp.CTE) -> RecordType:
        """The columns that the head of a query says."""
        no_level(self.reader, cte, "MAX RECURSION LEVEL stands in WITH RECURSIVE only")
        alias = cte.args["alias"]
        fields: list[tuple[str, KeyType]] = []
        for column in alias.columns:
            if not isinstance(column, exp.ColumnDef) or column.args.get("kind") is None:
                break
            try:
                t = type_of_ddl(column.args["kind"])
            except ParseError as e:
                raise self.reader.error(ParseError, e.what, column, hint=e.hint) from None
            if (
                column.args["kind"].is_type(*exp.DataType.TEXT_TYPES)
                and column.args["kind"].expressions
            ):
                what = f"the length of `{column.name}` means nothing here: texts of a loop are of any length"
                raise self.reader.error(QueryError, what, column, hint="write STRING")
            if not isinstance(t, Base):
                raise nested(self.reader, cte.alias, column.name, sql_name(t), column)
            if column.name.lower() in {n.lower() for n, _ in fields}:
                what = f"two columns of `{cte.alias}` are called `{column.name}`"
                raise self.reader.error(QueryError, what, column)
            no_round(self.reader, column.name, column)
            fields.append((column.name, t))
        else:
            if fields:
                return RecordType(tuple(fields))
        what = (
            f"the mutually recursive query `{cte.alias}` does not say its columns and their types"
        )
        hint = f"write {cte.alias} (column TYPE, ...) AS (...)"
        raise self.reader.error(QueryError, what, alias, hint=hint)


def groups(reads: Mapping[str, set[str]], together: bool = False) -> list[list[str]]:
    """Names by whom they read, those first that others need; a group is of names that read each other.

    With `together` all names that stand in loops, or between them, are one group: they share one count of rounds.
    """
    reached = {n: _reached(reads, n) for n in reads}
    looped = {n for n in reads if n in reached[n]}
    one = {
        n
        for n in reads
        if (n in looped or reached[n] & looped) and any(n in reached[m] for m in looped)
    }

    def alike(a: str, b: str) -> bool:
        mutual = b in reached[a] and a in reached[b]
        return a == b or mutual or (together and {a, b} <= one)

    out: list[list[str]] = []
    left = list(reads)
    while left:
        for name in left:
            group = [m for m in left if alike(name, m)]
            needed = set().union(*(reached[m] for m in group)) - set(group)
            if not needed & set(left):
                break
        out.append(group)
        left = [n for n in left if n not in group]
    return out


def _reached(reads: Mapping[str, set[str]], name: str) -> set[str]:
    """All names that a name reads, directly or through others."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = reads[waiting.pop()] - found
        found |= new
        waiting += new
    return found
