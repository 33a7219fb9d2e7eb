"""Which steps WITH RECURSIVE takes: those for which all rows and the rows of the last round come to the same.

Spark gives a step the rows that the round before has found; a loop gives it all rows that there are. The two agree

    UNION ALL   where the step is linear,     s(x + y) = s(x) + s(y): every summand of it reads x once
    UNION       where it is monotone, too,    x ⊆ y ⇒ s(x) ⊆ s(y): nothing of x is counted, ranked or negated

A monotone step that joins x with itself is taken as well, which Spark and the standard do not have: all rows are what it means, the
least fixpoint, where an engine that joins the last round's rows alone misses pairs of rows of different rounds.

The term decides (`linear`, `monotone`). What is refused is then looked for in the text (`refusal`), so that the message names
the clause; WITH MUTUALLY RECURSIVE takes whatever is maintained.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.calculus.terms import (
    Add,
    Box,
    Call,
    Each,
    For,
    Let,
    Not,
    Pred,
    Sng,
    Sum,
    Term,
    Times,
    Var,
    Zero,
    variables,
)
from headwater.errors import NotIncremental
from headwater.language.build import ZERO
from headwater.language.sql.aggregate import aggregates
from headwater.language.sql.recursive_grammar import clause_of

if TYPE_CHECKING:
    from headwater.language.sql.reader import Reader


def linear(term: Term, loop: Var) -> bool:
    """Whether s(x + y) = s(x) + s(y) for the loop's variable x."""
    return _degree(term, frozenset((loop,))) == 1


def _degree(term: Term, loop: frozenset[Var]) -> int | None:
    """How often each summand of a term multiplies what the variables stand for; None where it is not linear in one."""
    if not variables(term) & loop:
        return 0
    match term:
        case Var():
            return 1
        case Add(terms):
            degrees = {_degree(t, loop) for t in terms if not isinstance(t, Zero)}
            return degrees.pop() if len(degrees) == 1 else None
        case Times(factors):
            return _product(*(_degree(f, loop) for f in factors))
        case For(_, source, body):
            return _product(_degree(source, loop), _degree(body, loop))
        case Let(var, bound, body):
            degree = _degree(bound, loop)
            if degree is None or degree > 1:
                return None
            return _degree(body, loop | {var} if degree else loop)
        case Sng(key, value):
            return None if variables(key) & loop else _degree(value, loop)
        case Sum(inner):
            return _degree(inner, loop)
        case _:
            return None


def _product(*degrees: int | None) -> int | None:
    known = [d for d in degrees if d is not None]
    return sum(known) if len(known) == len(degrees) else None


def monotone(term: Term, loop: Var) -> bool:
    """Whether more rows for the loop's variable give no fewer rows."""
    return _grows(term, frozenset((loop,)))


def _grows(term: Term, loop: frozenset[Var]) -> bool:
    if not variables(term) & loop:
        return True
    match term:
        case Var():
            return True
        case Add(terms) | Times(terms):
            return all(_grows(t, loop) for t in terms)
        case For(_, source, body):
            return _grows(source, loop) and _grows(body, loop)
        case Let(var, bound, body):
            return _grows(bound, loop) and _grows(body, loop | {var})
        case Sng(key, value):
            return not variables(key) & loop and _grows(value, loop)
        case Sum(inner) | Not(Not(inner)):
            return _grows(inner, loop)
        case Each(_, count, source, Times((Pred(Call(">", (Box(counted), zero))), body))):
            only_there = counted == count and zero == ZERO and count not in variables(body)
            return only_there and _grows(source, loop) and _grows(body, loop)
        case _:
            return False


# --- names in the text ----------------------------------------------------------------------------------------


def references(node: exp.Expr, names: frozenset[str]) -> list[exp.Table]:
    """Where a query reads one of the names, in the order of the text; a WITH inside of it may hide them."""
    out: list[exp.Table] = []
    waiting = [(node, names)]
    while waiting:
        at, seen = waiting.pop()
        if isinstance(at, exp.Table) and ".".join(p.name for p in at.parts).lower() in seen:
            out.append(at)
        clause = at.args.get("with_")
        inside: list[tuple[exp.Expr, frozenset[str]]] = []
        if isinstance(clause, exp.With):
            inside, seen = _in_clause(clause, seen)
        inside += [(child, seen) for child in at.iter_expressions() if child is not clause]
        waiting += [x for x in reversed(inside) if x[1]]
    return out


def _in_clause(
    clause: exp.With, seen: frozenset[str]
) -> tuple[list[tuple[exp.Expr, frozenset[str]]], frozenset[str]]:
    """The queries of a WITH clause with the names that they see, and those that are seen behind it."""
    told = clause_of(clause)
    own = frozenset(cte.alias.lower() for cte in clause.expressions)
    out, left = [], seen - own if told is not None and told.mutually else seen
    for cte in clause.expressions:
        itself = {cte.alias.lower()}
        out.append((cte.this, left - itself if told is not None else left))
        left = left - itself
    return out, seen - own


# --- what is refused --------------------------------------------------------------------------------------------


_MONOTONE = ("under DISTINCT", "under UNION", "under a SEMI join", "in a subquery")


def refusal(
    reader: Reader,
    name: str,
    step: exp.Expr,
    read: list[exp.Table],
    once: bool,
    instead: str,
) -> NotIncremental:
    """The refusal of a step of UNION (`once`) or UNION ALL, at the clause that is the reason, as far as the text tells."""
    found = [place for table in read for place in _clauses(table, step)]
    # What a monotone step may have is the reason only where there is no other.
    for clause, node in sorted(found, key=lambda place: once and place[0] in _MONOTONE):
        what = f"the recursive query `{name}` reads itself {clause}"
        return reader.refuse("RECURSION_SHAPE", what, node, instead)
    for part in _parts(step):
        if not any(_inside(table, part) for table in read):
            what = f"a part of the step of `{name}` does not read `{name}`, and would be added each round"
            hint = "put it before the UNION ALL that the step comes after"
            return reader.refuse("RECURSION_SHAPE", what, part, hint)
    what = f"the recursive query `{name}` reads itself several times"
    return reader.refuse("RECURSION_SHAPE", what, read[-1], instead)


def _inside(node: exp.Expr, around: exp.Expr) -> bool:
    at: exp.Expr | None = node
    while at is not None and at is not around:
        at = at.parent
    return at is around


def _parts(step: exp.Expr) -> Iterator[exp.Expr]:
    """The queries that a step adds up."""
    waiting = [step]
    while waiting:
        at = waiting.pop()
        if isinstance(at, exp.Union):
            waiting += [at.right, at.left]
        elif isinstance(at, (exp.Subquery, exp.Paren)) and isinstance(at.this, exp.Query):
            waiting.append(at.this)
        else:
            yield at


_TABLES = (
    exp.From,
    exp.Join,
    exp.Lateral,
    exp.CTE,
    exp.SetOperation,
    exp.Subquery,
    exp.Exists,
    exp.In,
)
"""What has a query in brackets inside of it that is no value; EXISTS and IN are looked at themselves."""


def _clauses(table: exp.Table, step: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """What stands between a table and the step that reads it and does more than join and filter, from inside out."""
    at: exp.Expr = table
    while at is not step and at.parent is not None:
        below, at = at, at.parent
        match at:
            case exp.Join():
                kind = (at.kind or "").upper()
                if kind in ("SEMI", "ANTI"):
                    yield f"under {'a' if kind == 'SEMI' else 'an'} {kind} join", at.this
                elif (at.side or "").upper() in ("LEFT", "FULL"):
                    yield "under an outer join", at.this
            case exp.Exists() | exp.In():
                negated = isinstance(at.parent, exp.Not)
                yield "under NOT" if negated else "in a subquery", table
            case exp.Select():
                yield from _in_select(at, below)
            case exp.Except() | exp.Intersect():
                yield f"under {at.key.upper()}", table
            case exp.Union() if at.args.get("distinct"):
                yield "under UNION", table
            case exp.Subquery() if isinstance(below, exp.Query) and not isinstance(
                at.parent, _TABLES
            ):
                yield "in a subquery", table
            case _:
                pass
        if at.args.get("pivots"):
            yield "under PIVOT", at.args["pivots"][0]
        for limit in ("limit", "offset"):
            if at.args.get(limit):
                yield f"under {limit.upper()}", at.args[limit]


def _in_select(select: exp.Select, below: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """What a SELECT does with a table of its FROM clause."""
    joins = select.args.get("joins") or []
    if below.arg_key in ("from_", "joins"):
        after = joins[joins.index(below) + 1 :] if below in joins else joins
        for join in after:
            if (join.side or "").upper() in ("RIGHT", "FULL"):
                yield "under an outer join", join.this
    listed = [*select.expressions, select.args.get("having"), select.args.get("order")]
    searched = [e for e in listed if e is not None]
    window = next((w for e in searched for w in e.find_all(exp.Window)), None)
    aggregate = next((a for e in searched for a in aggregates(e)), None)
    if aggregate is not None:
        yield "under an aggregate", aggregate
    elif select.args.get("group"):
        yield "under GROUP BY", select.args["group"]
    if window is not None or select.args.get("qualify"):
        yield "under a window", window or select.args["qualify"]
    if select.args.get("distinct"):
        yield "under DISTINCT", select
