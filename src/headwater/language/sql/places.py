"""Where in its text a query has what the compiler refuses.

The compiler sees terms, which have no places. A refusal names a kind of clause, and the first clause of that kind is
what the message underlines and quotes.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headwater.errors import HeadwaterError, NotIncremental
from headwater.language.schema import Schemas
from headwater.language.sql.reader import Reader


def _is_distinct(e: exp.Expr) -> bool:
    return isinstance(e, exp.AggFunc) and isinstance(e.this, exp.Distinct)


def _is_outer_join(e: exp.Expr) -> bool:
    return isinstance(e, exp.Join) and bool(e.side or (e.kind or "").upper() in ("SEMI", "ANTI"))


def _is_subquery(e: exp.Expr) -> bool:
    if isinstance(e, exp.Exists) or (isinstance(e, exp.In) and e.args.get("query") is not None):
        return True
    inside = isinstance(e, exp.Subquery) and not isinstance(
        e.parent, (exp.From, exp.Join, exp.Query)
    )
    return inside and e.find_ancestor(exp.Where, exp.Having, exp.Select) is not None


def _names_the_weight(e: exp.Expr) -> bool:
    """Whether a name is given here that stands for how often a row is there."""
    given = e.parent if isinstance(e, exp.Identifier) else None
    return isinstance(given, (exp.Alias, exp.TableAlias)) and e.this.lower() == "_w"


CLAUSES: dict[str, tuple[tuple[Callable[[exp.Expr], bool], str], ...]] = {
    "AGGREGATE": ((_is_distinct, "the aggregate `{}` is not maintained"),),
    "COLUMN_NAME": (
        (_names_the_weight, "the column name `{}` has a meaning already: how often a row is there"),
    ),
    "SUBQUERY": (
        (_is_subquery, "the subquery `{}` is used in a way that is not maintained"),
        (_is_outer_join, "the join `{}` is used in a way that is not maintained"),
    ),
}
CLAUSES |= {name: CLAUSES["SUBQUERY"] for name in ("CORRELATED", "EXPRESSION", "ANSWER", "VALUE")}
HINTS = {
    "COLUMN_NAME": "take another",
    "AGGREGATE": "aggregate over SELECT DISTINCT in FROM",
    "SUBQUERY": "write a join, or group in a view of its own and join that",
}


def placed(error: NotIncremental, text: str, schemas: Schemas) -> NotIncremental:
    """The refusal with the clause that it is about, quoted and underlined, where one is found."""
    if error.span is not None or error.reason not in CLAUSES:
        return error
    reader = Reader(text, schemas)
    try:
        tree = reader.parse()
    except HeadwaterError:
        return error
    for test, what in CLAUSES[error.reason]:
        for node in tree.walk():
            if test(node):
                shown = node.sql(dialect="spark").strip()
                shown = shown if len(shown) <= 60 else shown[:57] + "..."
                reason = error.reason if error.reason in HINTS else "SUBQUERY"
                return reader.refuse(reason, what.format(shown), node, HINTS[reason])
    return error
