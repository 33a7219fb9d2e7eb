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


def _is_limit(e: exp.Expr) -> bool:
    return isinstance(e, (exp.Limit, exp.Offset))


def _is_outer_join(e: exp.Expr) -> bool:
    return isinstance(e, exp.Join) and bool(e.side or (e.kind or "").upper() in ("SEMI", "ANTI"))


def _is_subquery(e: exp.Expr) -> bool:
    if isinstance(e, exp.Exists) or (isinstance(e, exp.In) and e.args.get("query") is not None):
        return True
    inside = isinstance(e, exp.Subquery) and not isinstance(
        e.parent, (exp.From, exp.Join, exp.Query)
    )
    return inside and e.find_ancestor(exp.Where, exp.Having, exp.Select) is not None


CLAUSES: dict[str, tuple[tuple[Callable[[exp.Expr], bool], str], ...]] = {
    "LIMIT": ((_is_limit, "{} keeps an order, which is not maintained yet"),),
    "SUBQUERY": (
        (_is_outer_join, "the join `{}` is not maintained yet: only inner joins are"),
        (_is_subquery, "the subquery `{}` is not maintained yet"),
    ),
}
CLAUSES["CORRELATED"] = CLAUSES["EXPRESSION"] = CLAUSES["ANSWER"] = CLAUSES["SUBQUERY"]
HINTS = {
    "LIMIT": "leave it out, and take the first rows of the view when it is read",
    "SUBQUERY": "write an inner join, or group in a view of its own and join that",
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
                reason = "LIMIT" if error.reason == "LIMIT" else "SUBQUERY"
                return reader.refuse(reason, what.format(shown), node, HINTS[reason])
    return error
