"""GROUPING SETS, CUBE and ROLLUP: several groupings of the same rows, as one sum.

A grouping set is a subset of the grouping expressions. A row belongs to one group of each set: the key of that
group has NULL for what is not in the set, and `id`, the number whose bits say which those are (grouping_id). So

    each k ↦ v in (for ... collect {{id: 0, g1: a, g2: b} ↦ ⟨...⟩}) + (for ... collect {{id: 1, g1: a, g2: null} ↦ ⟨...⟩})

is GROUP BY a, b GROUPING SETS ((a, b), (a)). Sets that stand twice are told apart by `set`, their position. Like
Spark, and unlike the standard, the set () of an empty table has no row, unless there is nothing to group by at all.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.terms import Call, Const, Field, Record, Term, Var
from headwater.calculus.types import BIGINT, TINYINT
from headwater.errors import QueryError
from headwater.language.sql.coerce import cast_to

if TYPE_CHECKING:
    from headwater.language.sql.reader import Reader

Items = list[exp.Expr]
MOST = 256
"""A sum of more sets than this is refused: every one is a grouping of its own."""


def has_sets(group: exp.Group | None) -> bool:
    """Whether a GROUP BY has any of the three clauses, in any of their spellings."""
    if group is None:
        return False
    after = any(group.args.get(n) for n in ("cube", "rollup", "grouping_sets"))
    return after or any(_is_clause(e) for e in group.expressions)


def _is_clause(e: exp.Expr) -> bool:
    return isinstance(e, (exp.Cube, exp.Rollup, exp.GroupingSets))


class Sets:
    """The grouping sets of one GROUP BY: its different expressions, and which of them each set has."""

    def __init__(self, reader: Reader, group: exp.Group, key: Callable[[exp.Expr], Term]):
        self.reader, self.group = reader, group
        self.key = key
        self.terms: list[Term] = []
        self.sets = [self._positions(s) for s in self._read(group)]
        if len(self.sets) > MOST:
            raise self._too_many(group)
        self.twice = len(set(self.sets)) < len(self.sets)

    def _read(self, group: exp.Group) -> list[Items]:
        """The sets as lists of expressions."""
        for name in ("cube", "rollup", "grouping_sets"):
            for clause in group.args.get(name) or []:
                # GROUP BY a, b WITH CUBE, and GROUP BY a, b GROUPING SETS (...): the order is that of a, b.
                self._positions(group.expressions)
                if name == "grouping_sets":
                    return self._checked(self._clause(clause), len(self.terms), clause)
                return self._clause(type(clause)(expressions=list(group.expressions)))
        parts = [self._clause(e) if _is_clause(e) else [[e]] for e in group.expressions]
        count = 1
        for part in parts:
            count *= len(part)
        if count > MOST:
            raise self._too_many(group)
        return [[e for part in choice for e in part] for choice in product(*parts)]

    def _checked(self, sets: list[Items], known: int, clause: exp.Expr) -> list[Items]:
        for s in sets:
            self._positions(s)
        if len(self.terms) > known:
            what = "GROUPING SETS names what GROUP BY does not"
            raise self.reader.error(QueryError, what, clause, hint="list it after GROUP BY too")
        return sets

    def _clause(self, e: exp.Expr) -> list[Items]:
        """The sets of one clause; in GROUPING SETS the others may stand inside."""
        match e:
            case exp.GroupingSets():
                return [s for x in e.expressions for s in self._element(x)]
            case exp.Rollup():
                levels = [_unwrapped(x) for x in e.expressions]
                return [_joined(levels[:n]) for n in range(len(levels), -1, -1)]
            case _:
                columns = [_unwrapped(x) for x in e.expressions]
                if 1 << len(columns) > MOST:
                    raise self._too_many(e)
                sizes = range(len(columns), -1, -1)
                return [_joined(list(c)) for n in sizes for c in combinations(columns, n)]

    def _element(self, e: exp.Expr) -> list[Items]:
        return self._clause(e) if _is_clause(e) else [_unwrapped(e)]

    def _positions(self, items: Items) -> tuple[int, ...]:
        """Where the expressions of a set stand among all of them."""
        out = set()
        for e in items:
            term = self.key(e)
            if term not in self.terms:
                self.terms.append(term)
            out.add(self.terms.index(term))
        return tuple(sorted(out))

    def _too_many(self, node: exp.Expr) -> Exception:
        return self.reader.refuse(
            "GROUPING_SETS",
            f"more than {MOST} grouping sets, each of which is a grouping of its own",
            node,
            "list the sets that are needed: GROUPING SETS (...)",
        )

    # --- terms -----------------------------------------------------------------------------------------------

    def keys(self) -> list[Record]:
        """The key of a row's group in each of the sets."""
        return [self._key(i, s) for i, s in enumerate(self.sets)]

    def _key(self, position: int, chosen: tuple[int, ...]) -> Record:
        bits = len(self.terms)
        number = sum(1 << (bits - 1 - i) for i in range(bits) if i not in chosen)
        place = [("set", Const(position, BIGINT))] if self.twice else []
        values = [
            (f"g{i + 1}", t if i in chosen else Const(None, type_of(t)))
            for i, t in enumerate(self.terms)
        ]
        return Record((("id", Const(number, BIGINT)), *place, *values))

    def function(self, e: exp.Expr, k: Var) -> Term | None:
        """grouping(a), grouping_id(), or the old name grouping__id of the latter, of the group k."""
        if isinstance(e, exp.Column) and e.name.lower() == "grouping__id" and not e.table:
            return Field(k, "id")
        if isinstance(e, exp.GroupingId):
            if e.expressions and [self.key(x) for x in e.expressions] != self.terms:
                what = f"`{e.sql(dialect='spark')}` names other columns than GROUP BY"
                raise self.reader.error(
                    QueryError, what, e, hint="write grouping_id(), or all columns in their order"
                )
            return Field(k, "id")
        if not isinstance(e, exp.Grouping):
            return None
        asked = [self.key(x) for x in e.expressions]
        if len(asked) != 1 or asked[0] not in self.terms:
            what = f"`{e.sql(dialect='spark')}` is not of one column of GROUP BY"
            raise self.reader.error(QueryError, what, e, hint="grouping() takes a grouped column")
        weight = 1 << (len(self.terms) - 1 - self.terms.index(asked[0]))
        shifted = Call("div", (Field(k, "id"), Const(weight, BIGINT)))
        return cast_to(Call("%", (shifted, Const(2, BIGINT))), TINYINT)


def no_sets(reader: Reader, e: exp.Expr) -> QueryError:
    """grouping() in a query without grouping sets."""
    what = f"`{e.sql(dialect='spark')}` without GROUPING SETS, CUBE or ROLLUP"
    return reader.error(QueryError, what, e, hint="every column of GROUP BY is grouped by here")


def _unwrapped(e: exp.Expr) -> Items:
    """(a, b), (a) or a, as a list."""
    if isinstance(e, exp.Tuple):
        return list(e.expressions)
    return [e.this] if isinstance(e, exp.Paren) else [e]


def _joined(parts: list[Items]) -> Items:
    return [e for part in parts for e in part]
