"""FROM: tables, subqueries and joins as rows to iterate over.

An inner join adds atoms and factors. An outer join is a bag of its own: the pairs that match, and the
rows with no match beside a row of NULLs, where no match is ¬ of the count of matches. A semi join is
¬¬ of that count, an anti join ¬. An exploded array is the inner bag itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.scalars import SPARK_TEXT
from headwater.calculus.terms import (
    Add,
    Call,
    Const,
    Field,
    For,
    Let,
    Not,
    Pred,
    Record,
    Rel,
    Sng,
    Sum,
    Term,
    Times,
    Unbox,
    Var,
)
from headwater.calculus.types import INTEGER, Boxed, KeyType, MapType, RecordType, bag
from headwater.errors import QueryError, TypeMismatch, UnknownName
from headwater.language.build import ONE
from headwater.language.schema import sql_name
from headwater.language.sql import pivot
from headwater.language.sql.expressions import Expressions
from headwater.language.sql.scope import Merged, Rows, Scope, Source, field_of

if TYPE_CHECKING:
    from headwater.language.sql.reader import Reader


class FromClause:
    """Reads the FROM clause of one SELECT."""

    def __init__(self, reader: Reader, parent: Scope | None):
        self.reader, self.parent = reader, parent

    def read(self, node: exp.Select) -> Rows:
        """All tables, joins and lateral views."""
        start = node.args.get("from_") or node.args.get("from")
        rows = self.table(start.this) if start is not None else Rows()
        for join in node.args.get("joins") or []:
            rows = self.join(rows, join)
        for lateral in node.args.get("laterals") or []:
            self.lateral(rows, lateral)
        return rows

    # --- one table ------------------------------------------------------------------------------------

    def table(self, node: exp.Expr) -> Rows:
        """A table, a subquery or inline values, with the joins written after it."""
        if node.args.get("sample"):
            raise self.reader.refuse(
                "NON_DETERMINISTIC",
                "TABLESAMPLE picks other rows at each evaluation",
                node,
                "filter by a column instead",
            )
        if isinstance(node, exp.Lateral):
            if isinstance(node.this, exp.Subquery):  # nothing stands before it
                bag = self.reader.query(node.this, self.parent)
                return self._bound(bag, node.alias or self.reader.fresh("lateral"), node)
            rows = Rows()
            self.lateral(rows, node)
            return rows
        if isinstance(node, exp.Paren):
            return self.table(node.this)
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            rows = self.table(node.this)
        else:
            bag, alias = self.reader.source(node, self.parent)
            rows = self._bound(bag, alias, node)
        rows = self._pivoted(rows, node)
        for join in node.args.get("joins") or []:
            rows = self.join(rows, join)
        return rows

    def _bound(self, bag: Term, alias: str, node: exp.Expr) -> Rows:
        t = type_of(bag)
        assert isinstance(t, MapType)
        row = Var(self.reader.fresh(alias), t.key)
        columns = node.args["alias"].columns if node.args.get("alias") else []
        return Rows([(row, bag)], [], [Source(alias, self._renamed(row, columns, node))])

    def _renamed(self, row: Term, columns: list[exp.Identifier], node: exp.Expr) -> Term:
        """The row under the column names of `AS t(a, b)`."""
        if not columns:
            return row
        names = [n for n, _ in type_of(row).fields]
        if len(names) != len(columns):
            raise self.reader.error(
                QueryError, f"{len(columns)} names are given for {len(names)} columns", node
            )
        return Record(
            tuple((c.name, field_of(row, n)) for c, n in zip(columns, names, strict=True))
        )

    # --- joins ------------------------------------------------------------------------------------------

    def join(self, left: Rows, node: exp.Join) -> Rows:
        """The rows of a join."""
        if isinstance(node.this, exp.Lateral):
            return self._pivoted(self._lateral_join(left, node), node)
        if node.this.args.get("pivots"):
            raise self.reader.refuse(
                "PIVOT",
                "PIVOT after a join is of the whole join",
                node.this.args["pivots"][0],
                "write the join, or the PIVOT, as a subquery",
            )
        right = self.table(node.this)
        self._distinct_aliases(left, right, node)
        side, kind = (node.side or "").upper(), (node.kind or "").upper()
        named: list[tuple[Var, Term]] = []
        if side and kind not in ("SEMI", "ANTI"):
            left, right = self._named(left, named), self._named(right, named)
        both = Rows([], [], left.sources + right.sources, left.merged + right.merged)
        merged = self._merged(left, right, node)
        on = self._condition(both, left, right, merged, node)
        if kind in ("SEMI", "ANTI"):
            left.merged = _remerged("LEFT", left, Rows(), merged)
            matches = right_matches(right, on)
            left.factors.append(Not(Not(matches)) if kind == "SEMI" else Not(matches))
            return self._pivoted(left, node)
        if not side:
            inner = Rows(
                left.atoms + right.atoms,
                left.factors + right.factors + on,
                both.sources,
                _remerged("LEFT", left, right, merged),
            )
            return self._pivoted(inner, node)
        return self._pivoted(self._outer(side, left, right, on, merged, named), node)

    def _pivoted(self, rows: Rows, node: exp.Expr) -> Rows:
        """Rows after the PIVOT and UNPIVOT clauses that follow them, each of which is a bag of its own."""
        for clause in node.args.get("pivots") or []:
            bag = pivot.read(self.reader, rows, clause, self.parent)
            rows = self._bound(bag, clause.alias or self.reader.fresh("pivot"), clause)
        return rows

    def _named(self, rows: Rows, named: list[tuple[Var, Term]]) -> Rows:
        """Rows that are read several times, as a bag with a name, unless they are an input as it is."""
        if len(rows.atoms) == 1 and not rows.factors and isinstance(rows.atoms[0][1], (Rel, Var)):
            return rows
        bag = rows.collect(Sng(_record({s.alias: s.row for s in rows.sources}), ONE))
        name = Var(self.reader.fresh("q"), type_of(bag))
        row = Var(self.reader.fresh("j"), type_of(bag).key)
        named.append((name, bag))
        sources = [Source(s.alias, Field(row, s.alias)) for s in rows.sources]
        return Rows([(row, name)], [], sources, rows.merged)

    def _outer(
        self,
        side: str,
        left: Rows,
        right: Rows,
        on: list[Term],
        merged: list[tuple[str, str, str]],
        named: list[tuple[Var, Term]],
    ) -> Rows:
        sources = left.sources + right.sources
        pairs = Rows(left.atoms + right.atoms, left.factors + right.factors + on)
        whole = {s.alias: s.row for s in sources}
        parts = [pairs.collect(Sng(_record(whole), ONE))]
        if side in ("LEFT", "FULL"):
            parts.append(_alone(left, right, on, whole))
        if side in ("RIGHT", "FULL"):
            parts.append(_alone(right, left, on, whole))
        joined: Term = Add(tuple(parts))
        for name, matched in reversed(named):
            joined = Let(name, matched, joined)
        row = Var(self.reader.fresh("j"), type_of(joined).key)
        return Rows(
            [(row, joined)],
            [],
            [Source(s.alias, Field(row, s.alias)) for s in sources],
            _remerged(side, left, right, merged),
        )

    def _distinct_aliases(self, left: Rows, right: Rows, node: exp.Join) -> None:
        known = {s.alias.lower() for s in left.sources}
        for source in right.sources:
            if source.alias.lower() in known:
                raise self.reader.error(
                    QueryError,
                    f"the name `{source.alias}` stands twice in FROM",
                    node.this.args.get("alias") or node.this,
                    hint=f"give one an alias: {source.alias} AS {source.alias}2",
                )

    def _merged(self, left: Rows, right: Rows, node: exp.Join) -> list[tuple[str, str, str]]:
        """The columns that USING or NATURAL equates: (name, left alias, right alias)."""
        names = [i.name for i in node.args.get("using") or []]
        if (node.method or "").upper() == "NATURAL":
            theirs = {c.lower() for s in right.sources for c in s.columns()}
            names = [c for s in left.sources for c in s.columns() if c.lower() in theirs]
        out = []
        for name in dict.fromkeys(names):
            sides = []
            for rows in (left, right):
                owner = next((s for s in rows.sources if s.column(name) is not None), None)
                if owner is None:
                    at = next((i for i in node.args.get("using") or [] if i.name == name), node)
                    what = f"USING names `{name}`, which is not a column of both sides"
                    raise self.reader.error(UnknownName, what, at)
                sides.append(owner.alias)
            out.append((name, sides[0], sides[1]))
        return out

    def _condition(
        self,
        both: Rows,
        left: Rows,
        right: Rows,
        merged: list[tuple[str, str, str]],
        node: exp.Join,
    ) -> list[Term]:
        expressions = Expressions(self.reader, Scope(both, self.parent))
        if merged:
            by_left, by_right = Scope(left), Scope(right)
            return [
                factor
                for name, _, _ in merged
                for factor in self._equated(expressions, by_left, by_right, name, node)
            ]
        condition = node.args.get("on")
        return expressions.factors(condition) if condition is not None else []

    def _equated(
        self, expressions: Expressions, left: Scope, right: Scope, name: str, node: exp.Join
    ) -> list[Term]:
        a, b = left.resolve([name]), right.resolve([name])
        assert a is not None and b is not None
        return [Pred(expressions.compare("=", node, a, b))]

    # --- lateral tables ---------------------------------------------------------------------------------------

    def _lateral_join(self, left: Rows, node: exp.Join) -> Rows:
        """a [LEFT] JOIN LATERAL (query) ON ...: the query is read for every row of what stands before it."""
        lateral, side = node.this, (node.side or "").upper()
        condition: exp.Expr | None = node.args.get("on")
        if isinstance(condition, exp.Boolean) and condition.this:
            condition = None
        if side in ("RIGHT", "FULL") or (node.kind or "").upper() in ("SEMI", "ANTI"):
            what = (
                f"{side or node.kind} JOIN LATERAL would have rows without what they are read for"
            )
            raise self.reader.error(QueryError, what, lateral, hint="use LEFT JOIN LATERAL")
        if not isinstance(lateral.this, exp.Subquery):
            if side and condition is not None:
                what = "LEFT JOIN LATERAL of a function takes no condition"
                raise self.reader.error(QueryError, what, condition, hint="write ON true")
            self.lateral(left, lateral, bool(side))
            if condition is not None:
                left.factors.extend(
                    Expressions(self.reader, Scope(left, self.parent)).factors(condition)
                )
            return left
        alias = lateral.alias or self.reader.fresh("lateral")
        bag = self.reader.query(lateral.this, Scope(left, self.parent))
        right = self._bound(bag, alias, lateral)
        self._distinct_aliases(left, right, node)
        both = Rows([], [], left.sources + right.sources, left.merged)
        scope = Expressions(self.reader, Scope(both, self.parent))
        on = [] if condition is None else scope.factors(condition)
        if side:
            ((row, _),) = right.atoms
            kept = For(row, bag, Times((*on, Sng(row, ONE)))) if on else bag
            name = Var(self.reader.fresh("q"), type_of(bag))
            alone = Times((Not(Sum(name)), Sng(null_row(row), ONE)))
            right.atoms, on = [(row, Let(name, kept, Add((name, alone))))], []
        return Rows(
            left.atoms + right.atoms,
            left.factors + on,
            both.sources,
            left.merged,
        )

    def lateral(self, rows: Rows, node: exp.Lateral, outer: bool = False) -> None:
        """LATERAL VIEW [OUTER] explode(array) t AS x: one row for each element."""
        function = node.this
        outer = outer or bool(node.args.get("outer"))
        if isinstance(function, (exp.ExplodeOuter, exp.PosexplodeOuter)):
            outer = True
        if not isinstance(function, (exp.Explode, exp.Inline)):
            raise self.reader.refuse(
                "LATERAL_SUBQUERY",
                f"`{function.sql(dialect='spark')[:60]}` is not maintained as a lateral table",
                function,
                "explode and inline of an array are; write a join or a correlated subquery otherwise",
            )
        alias = node.args.get("alias")
        name = alias.name if alias is not None and alias.name else self.reader.fresh("lateral")
        columns = [c.name for c in alias.columns] if alias is not None else []
        array = Expressions(self.reader, Scope(rows, self.parent)).key(function.this)
        element = self.explode(rows, array, function, outer)
        if isinstance(function, (exp.Inline, exp.Posexplode)):
            row = self._renamed(element, alias.columns if alias is not None else [], node)
        else:
            row = Record((((columns or ["col"])[0], element),))
        rows.sources.append(Source(name, row))

    def explode(self, rows: Rows, array: Term, node: exp.Expr, outer: bool = False) -> Term:
        """Adds the elements of an array to the rows; outer gives an absent or empty array one NULL."""
        t = type_of(array)
        if not (isinstance(t, Boxed) and isinstance(t.content, MapType)):
            raise self.reader.error(
                TypeMismatch,
                f"`{node.sql(dialect='spark')}` explodes {sql_name(t)}",
                node,
                hint="explode takes an array",
            )
        if isinstance(node, exp.Posexplode):
            array, t = with_places(array, t.content.key)
        element = Var(self.reader.fresh("e"), t.content.key)
        bag: Term = Unbox(array)
        if outer:
            nothing = Sng(Const(None, t.content.key), ONE)
            bag = Add((bag, Times((Not(Sum(bag)), nothing))))
        rows.atoms.append((element, bag))
        return element


def with_places(array: Term, element: KeyType) -> tuple[Term, Any]:
    """An array as one of its elements with their places, from 0."""
    t = Boxed(bag(RecordType((("pos", INTEGER), ("col", element)))))
    return Call(
        f"{SPARK_TEXT}transform({{0}}, (x, i) -> struct(i AS pos, x AS col))", (array,), t
    ), t


def _remerged(
    side: str, left: Rows, right: Rows, merged: list[tuple[str, str, str]]
) -> list[Merged]:
    """The merged columns after a join: those that it merges, then those of either side that it does not."""
    new = []
    for name, a, b in merged:
        of_left = next((m.aliases for m in left.merged if m.name.lower() == name.lower()), (a,))
        of_right = next((m.aliases for m in right.merged if m.name.lower() == name.lower()), (b,))
        by_side = {"LEFT": of_left, "RIGHT": of_right, "FULL": (*of_left, *of_right)}
        new.append(Merged(name, by_side[side]))
    names = {m.name.lower() for m in new}
    return new + [m for m in (*left.merged, *right.merged) if m.name.lower() not in names]


def right_matches(right: Rows, on: list[Term]) -> Term:
    """How many rows of one side match, given a row of the other."""
    return Rows(right.atoms, right.factors + on).collect(ONE)


def _record(rows: dict[str, Term]) -> Record:
    return Record(tuple(rows.items()))


def _alone(kept: Rows, other: Rows, on: list[Term], whole: dict[str, Term]) -> Term:
    """The rows of one side that match nothing, beside NULLs."""
    nulls = {s.alias: null_row(s.row) for s in other.sources}
    unmatched = Rows(kept.atoms, [*kept.factors, Not(right_matches(other, on))])
    return unmatched.collect(Sng(_record({a: nulls.get(a, r) for a, r in whole.items()}), ONE))


def null_row(row: Term) -> Term:
    """A row of NULLs like a given one."""
    t = type_of(row)
    assert isinstance(t, RecordType)
    return Record(tuple((n, Const(None, f)) for n, f in t.fields))
