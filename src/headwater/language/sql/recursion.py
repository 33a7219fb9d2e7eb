"""Recursive WITH clauses as loops: WITH RECURSIVE and WITH MUTUALLY RECURSIVE into `Repeat` terms.

    WITH RECURSIVE r AS (a UNION ALL s)     repeat r := ∅ then a + s(r)               s is linear in r
    WITH RECURSIVE r AS (a UNION s)         repeat r := ∅ then distinct(a + s(r))     s is monotone in r
    WITH MUTUALLY RECURSIVE a AS .., b ..   repeat ⟨a, b⟩ := ∅ then ⟨a(a, b), b(a, b)⟩   all at once, whatever is maintained

The first two agree with rounds that see the newest rows alone, for the steps that `recursive_shape.py` takes. The columns of
the start are those of the loop, as in Spark; a mutually recursive query says the types of its columns. Of several queries
those that read each other are one loop, and the others are what they are without recursion: queries before it or behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.scalars import common_type
from headwater.calculus.terms import Add, Field, Record, Repeat, Term, Var, Zero, variables
from headwater.calculus.types import VOID, Base, KeyType, RecordType, bag
from headwater.errors import ParseError, QueryError
from headwater.language.schema import sql_name, type_of_ddl
from headwater.language.sql.recursive_grammar import Clause, clause_of, level_of
from headwater.language.sql.recursive_shape import linear, monotone, references, refusal
from headwater.language.sql.scope import Scope

if TYPE_CHECKING:
    from headwater.language.sql.reader import Reader

LEVELS = 100
"""Levels of UNION ALL without MAX RECURSION LEVEL, as Spark has it."""
LIMIT = 10_000
"""Rounds of all other loops."""


@dataclass(frozen=True)
class Rounds:
    """Queries of a recursive WITH clause that are computed together: once, or at once round after round."""

    queries: tuple[exp.CTE, ...]
    looped: bool = False
    times: int | None = None
    limit: int = LIMIT


def bind(
    reader: Reader, node: exp.With, parent: Scope | None, without: Collection[str] = ()
) -> list[Rounds]:
    """Gives the names of a recursive WITH clause their meaning in the query that follows it, all but some of them.

    What is computed together comes in an order in which it can be computed.
    """
    told = clause_of(node)
    assert told is not None
    if told.mutually:
        return list(_Mutual(reader, told, node.expressions, parent).bind())
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


def no_level(reader: Reader, cte: exp.CTE, what: str) -> None:
    """Raises where MAX RECURSION LEVEL would mean nothing."""
    if (level := level_of(cte)) is not None:
        span = reader.between(*level.place)
        raise ParseError(what, text=reader.text, span=span, hint="leave MAX RECURSION LEVEL out")


@dataclass
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
            raise _loop_in_loop(reader, clause.expressions[0])
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
            with _open(reader, loop):
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
        return _closed(reader, rounds, self.name, self.cte)

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
            start = reader.relabelled(start, [c.name for c in columns], self.cte)
        for i, (name, t) in enumerate(type_of(start).key.fields):
            at = _column(body.left, i)
            if t == VOID:
                what = (
                    f"the column `{name}` of `{self.name}` is NULL in the start, which has no type"
                )
                hint = "give it one: CAST(NULL AS INT)"
                raise reader.refuse("RECURSION_TYPES", what, at, hint)
            if not isinstance(t, Base):
                raise _nested(reader, self.name, name, sql_name(t), at)
        return start

    def _step(self, body: exp.Union, row: RecordType) -> Term:
        self.reader.unnamed(body.right)
        step = self.reader.query(body.right, self.parent)
        return _typed(self.reader, self.name, step, row, body.right, "the start")

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


# --- mutual recursion -------------------------------------------------------------------------------------------


@dataclass
class _Mutual:
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

        with _open(reader, loop):
            reader.ctes = {**before, **each(loop)}
            steps = tuple((c.alias, self._query(c, rows[c.alias.lower()])) for c in ctes)
        step = Record(steps) if several else steps[0][1]
        out = Repeat(loop, start, step, times=self.told.returns, limit=self.told.fails or LIMIT)
        reader.ctes = {**before, **each(_closed(reader, out, ctes[0].alias, ctes[0]))}
        return out

    def _query(self, cte: exp.CTE, row: RecordType) -> Term:
        self.reader.unnamed(cte.this)
        term = self.reader.query(cte.this, self.parent)
        return _typed(self.reader, cte.alias, term, row, cte.this, "its head")

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
            if not isinstance(t, Base):
                raise _nested(self.reader, cte.alias, column.name, sql_name(t), column)
            if column.name.lower() in {n.lower() for n, _ in fields}:
                what = f"two columns of `{cte.alias}` are called `{column.name}`"
                raise self.reader.error(QueryError, what, column)
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


# --- what both share ----------------------------------------------------------------------------------------------


@contextmanager
def _open(reader: Reader, loop: Var) -> Iterator[None]:
    """While the step of a loop is read: its variable stands for what there was the round before."""
    reader.loops.append(loop)
    try:
        yield
    finally:
        reader.loops.pop()


def _closed(reader: Reader, loop: Repeat, name: str, node: exp.CTE) -> Repeat:
    """The loop, if it reads inputs alone: nothing of a loop around it, and no row of a query around it."""
    around = variables(loop)
    if around & set(reader.loops):
        raise _loop_in_loop(reader, node)
    if around:
        what = f"the recursive query `{name}` reads a column of the query around it"
        hint = "let it have the column as one of its own, and join with it"
        raise reader.refuse("RECURSION_SHAPE", what, node.args["alias"], hint)
    return loop


def _loop_in_loop(reader: Reader, cte: exp.CTE) -> QueryError:
    what = f"the recursive query `{cte.alias}` reads the rows of a recursive query around it"
    hint = "a loop inside of a loop is not maintained yet: make it one WITH MUTUALLY RECURSIVE"
    return reader.refuse("LOOP_IN_LOOP", what, cte.args["alias"], hint)


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


def _typed(
    reader: Reader, name: str, term: Term, row: RecordType, node: exp.Expr, says: str
) -> Term:
    """A query's rows in the columns of the loop: a type that is narrower is widened, others are refused."""
    fields = type_of(term).key.fields
    if len(fields) != len(row.fields):
        what = (
            f"`{name}` has {len(row.fields)} columns by {says}, and this query gives {len(fields)}"
        )
        raise reader.refuse("RECURSION_TYPES", what, node, "give each round the same columns")
    for i, ((column, t), (_, u)) in enumerate(zip(row.fields, fields, strict=True)):
        if common_type(t, u) == t:
            continue
        at = _column(node, i)
        if not isinstance(u, Base):
            raise _nested(reader, name, column, sql_name(u), at)
        what = (
            f"the column `{column}` of `{name}` is {sql_name(t)} by {says}, and {sql_name(u)} here"
        )
        hint = (
            f"cast it here, CAST(... AS {sql_name(t).upper()}), or let {says} have the wider type"
        )
        raise reader.refuse("RECURSION_TYPES", what, at, hint)
    return reader.as_row(term, row)


def _nested(reader: Reader, name: str, column: str, kind: str, node: exp.Expr) -> QueryError:
    what = f"the column `{column}` of the recursive query `{name}` is {kind}"
    hint = "a loop has rows of plain values: explode the array, or name the fields of the struct"
    return reader.refuse("RECURSION_NESTED", what, node, hint)


def _column(query: exp.Expr, place: int) -> exp.Expr:
    """The expression of a column, as far as the text has one; else the query."""
    first = query
    while isinstance(first, (exp.SetOperation, exp.Subquery, exp.Paren)):
        first = first.this
    items = first.expressions if isinstance(first, exp.Select) else []
    written = place < len(items) and not any(i.is_star for i in items[: place + 1])
    return items[place] if written else query
