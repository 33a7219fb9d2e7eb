"""Recursive WITH clauses as loops: what their names stand for are `Repeat` terms.

    WITH RECURSIVE r AS (a UNION ALL s)     repeat r := ∅ then a + s(r)               s is linear in r
    WITH RECURSIVE r AS (a UNION s)         repeat r := ∅ then distinct(a + s(r))     s is monotone in r
    WITH MUTUALLY RECURSIVE a .., b ..      repeat ⟨a, b⟩ := ∅ then ⟨a(a, b), b(a, b)⟩   `mutual_recursion.py`

The first two agree with rounds that see the newest rows alone, for the steps that `recursive_shape.py` takes. The columns of
the start are those of the loop, as in Spark. A query of WITH RECURSIVE that does not read itself is one as without the word.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.terms import Add, Repeat, Term, Var, Zero
from headwater.calculus.types import VOID, Base, RecordType, bag
from headwater.errors import QueryError
from headwater.language.schema import sql_name
from headwater.language.sql.loop_queries import (
    LIMIT,
    closed,
    column_of,
    loop_in_loop,
    nested,
    no_level,
    no_round,
    open_loop,
    typed,
)
from headwater.language.sql.mutual_recursion import Mutual, Rounds
from headwater.language.sql.recursive_grammar import clause_of, level_of
from headwater.language.sql.recursive_shape import linear, monotone, references, refusal
from headwater.language.sql.scope import Scope

if TYPE_CHECKING:
    from headwater.language.sql.reader import Reader

LEVELS = 100
"""Levels of UNION ALL without MAX RECURSION LEVEL, as Spark has it."""


def bind(
    reader: Reader, node: exp.With, parent: Scope | None, without: Collection[str] = ()
) -> list[Rounds]:
    """Gives the names of a recursive WITH clause their meaning in the query that follows it, all but some of them.

    What is computed together comes in an order in which it can be computed.
    """
    told = clause_of(node)
    assert told is not None
    if told.mutually:
        return list(Mutual(reader, told, node.expressions, parent).bind())
    out = []
    for cte in node.expressions:
        name = cte.alias.lower()
        if name in without:
            continue
        if references(cte.this, frozenset((name,))):
            loop = _Recursive(reader, cte, parent).read()
            reader.ctes[name] = loop
            out.append(Rounds((cte,), True, limit=loop.limit))
        else:
            no_level(reader, cte, "a query that does not read itself has no levels")
            reader.ctes[name] = reader.common_table(cte, parent)
            out.append(Rounds((cte,)))
    return out


@dataclass(frozen=True)
class _Recursive:
    """One query of WITH RECURSIVE that reads itself: a start, UNION or UNION ALL, and a step."""

    reader: Reader
    cte: exp.CTE
    parent: Scope | None

    @property
    def name(self) -> str:
        return str(self.cte.alias)

    def read(self) -> Repeat:
        """The loop, from nothing on."""
        reader, own = self.reader, frozenset((self.name.lower(),))
        body = self._union()
        clause: exp.With | None = body.args.get("with_")
        hidden = {c.alias.lower() for c in clause.expressions} if clause is not None else set()
        within = _reading(clause, own) if clause is not None else frozenset()
        seen = (own - hidden) | within
        told = clause_of(clause) if clause is not None else None
        if clause is not None and within and told is not None and told.mutually:
            raise loop_in_loop(reader, clause.expressions[0])
        if first := references(body.left, seen):
            raise self._shape(
                f"the first part of the recursive query `{self.name}` reads `{self.name}`",
                first[0],
                "begin with a query that does not, and put several steps into brackets: start UNION ALL (step UNION ALL step)",
            )
        if not references(body.right, seen):
            raise self._no_step()
        known = dict(reader.ctes)
        try:
            reader.bind_all(clause, self.parent, without=within)
            start = self._start(body)
            row = type_of(start).key
            loop = Var(reader.fresh(self.name), bag(row))
            with open_loop(reader, loop):
                reader.ctes = {**known, self.name.lower(): loop}
                reader.bind_all(clause, self.parent)
                step = self._step(body, row)
        finally:
            reader.ctes = known
        once = bool(body.args.get("distinct"))
        if not (monotone if once else linear)(step, loop):
            read = references(self.cte.this, own)
            raise refusal(reader, self.name, body.right, read, once, self._instead(row))
        added = Add((start, step))
        rounds = Repeat(
            loop,
            Zero(bag(row)),
            reader.distinct(added) if once else added,
            limit=self._limit(once),
        )
        return closed(reader, rounds, self.name, self.cte)

    def _union(self) -> exp.Union:
        """The UNION of a start and a step that the query is, without brackets around it."""
        body: exp.Expr = self.cte.this
        while True:
            for clause in ("order", "limit", "offset"):
                if body.args.get(clause):
                    word = "ORDER BY" if clause == "order" else clause.upper()
                    what = f"{word} stands over the recursive query `{self.name}`"
                    hint = f"write it where `{self.name}` is read"
                    raise self._shape(what, body.args[clause], hint)
            if isinstance(body, exp.Union):
                return body
            if not isinstance(body, exp.Subquery) or body.args.get("with_"):
                raise self._no_step()
            body = body.this

    def _start(self, body: exp.Union) -> Term:
        """The rows that are there without recursion, under the names of the loop's columns."""
        reader, columns = self.reader, self.cte.args["alias"].columns
        if columns:
            reader.unnamed(body.left)
        start = reader.query(body.left, self.parent)
        if columns:
            start = reader.relabelled(start, columns, self.cte)
        for i, (name, t) in enumerate(type_of(start).key.fields):
            at = column_of(body.left, i)
            no_round(reader, name, columns[i] if columns else at)
            if t == VOID:
                what = (
                    f"the column `{name}` of `{self.name}` is NULL in the start, which has no type"
                )
                hint = "give it one: CAST(NULL AS INT)"
                raise reader.refuse("RECURSION_TYPES", what, at, hint)
            if not isinstance(t, Base):
                raise nested(reader, self.name, name, sql_name(t), at)
        return start

    def _step(self, body: exp.Union, row: RecordType) -> Term:
        self.reader.unnamed(body.right)
        step = self.reader.query(body.right, self.parent)
        return typed(self.reader, self.name, step, row, body.right, "the start")

    def _limit(self, once: bool) -> int:
        """n levels with rows, and a round in which there are no more."""
        level = level_of(self.cte)
        if level is None:
            return LIMIT if once else LEVELS + 1
        return level.rounds + 1

    def _no_step(self) -> QueryError:
        what = f"the recursive query `{self.name}` is no start UNION ALL step"
        hint = f"write a query that does not read `{self.name}`, UNION ALL, and one that does"
        return self._shape(what, self.cte.args["alias"], hint)

    def _shape(self, what: str, node: exp.Expr, hint: str) -> QueryError:
        return self.reader.refuse("RECURSION_SHAPE", what, node, hint)

    def _instead(self, row: RecordType) -> str:
        columns = ", ".join(f"{n} {sql_name(t).upper()}" for n, t in row.fields)
        return f"WITH MUTUALLY RECURSIVE {self.name} ({columns}) AS (...) takes any step"


def _reading(clause: exp.With, names: frozenset[str]) -> frozenset[str]:
    """The queries of a WITH clause that read one of the names, directly or through each other."""
    out: set[str] = set()
    for cte in clause.expressions:
        name = cte.alias.lower()
        itself = {name} if clause_of(clause) is not None else set()
        if references(cte.this, names - itself):
            out.add(name)
            names = names | {name}
        else:
            names = names - {name}
    return frozenset(out)
