"""Loops: a `Repeat` as relations that have a round, which move each other.

    repeat x := start then step        X̂ = start·(t⁰ − t¹) + step^(d X̂)        rules.rounds

The step is planned like any query, with the collection as a relation X. What reads X moves in the loop: its monomials
are lifted, so that its maps have the round as one more column. A collection is kept as it is, by row and round; one that
starts from nothing and is an answer (GROUP BY, DISTINCT) is that answer. Outside, the loop is read as all rows of X̂ without
their round: the rows that came at some round and are not gone at a later one. So nothing above a loop knows of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.calculus.check import type_of
from headwater.calculus.notation.text import show
from headwater.calculus.terms import (
    Answer,
    Box,
    Call,
    Const,
    Each,
    Field,
    For,
    Num,
    Pred,
    Record,
    Rel,
    Repeat,
    Sng,
    Term,
    Times,
    Unbox,
    Var,
    Within,
    relations,
    substitute,
    variables,
)
from headwater.calculus.types import (
    BIGINT,
    DOUBLE,
    FLOAT,
    INT,
    Base,
    MapType,
    ProductType,
    RecordType,
    bag,
    boxed,
    has_box,
)
from headwater.errors import NotIncremental
from headwater.plan.equal_maps import canonical, digest
from headwater.plan.passes import OF_QUERY, but, cut_answers
from headwater.plan.program import Loop, Stratum, Until
from headwater.plan.subqueries.keyed import is_row
from headwater.rules.monomial import Signed, monomial
from headwater.rules.rewrite import rewrite
from headwater.rules.rounds import ROUND, lifted, started, with_round
from headwater.rules.rows import tidy
from headwater.rules.simplify import SIMPLIFY

if TYPE_CHECKING:
    from headwater.plan.compiler import Compiler

ONE = Num(1, INT)
WIDE = Base("decimal", 38, 0)


class Looping:
    """A loop whose step is being planned: its collections, and the answers inside of it that were found so far."""

    def __init__(self, rows: dict[str, RecordType], last: int | None):
        self.last = last
        self.collections = {n: Rel(n, bag(with_round(row))) for n, row in rows.items()}
        self.answers: dict[str, Rel] = {}
        self.names = set(rows)
        """Everything that moves: collections and answers."""

    def reads(self, term: Term) -> bool:
        """Whether a term reads a collection, or an answer over one."""
        return any(r.name in self.names for r in relations(term))

    def moves(self, found: Signed) -> bool:
        """Whether monomials read a collection, or an answer over one."""
        names = {s.name for _, m in found for _, s in m.atoms if isinstance(s, Rel)}
        return not names.isdisjoint(self.names)

    def lifted(self, found: Signed) -> Signed:
        """The monomials with their round as one more column."""
        return [(sign, lifted(m, self.collections, self.answers, self.last)) for sign, m in found]

    def add(self, made: Stratum) -> None:
        """An answer inside of the loop, which others inside may read."""
        self.answers[made.name] = Rel(made.name, bag(made.type))
        self.names.add(made.name)


def looped(compiler: Compiler, term: Term) -> Term:
    """The rows of a loop at its end: for x in X̂ collect {x without its round}."""
    loop, place = (term.term, term.name) if isinstance(term, Field) else (term, "")
    assert isinstance(loop, Repeat)
    stem = "first:" if compiler.strategy == "first-order" else ""
    name = f"x{digest(stem + show(loop))}"
    rows = rows_of(loop)
    if name not in compiler.program.loops:
        compiler.program.loops[name] = _planned(compiler, name, loop, rows)
    row = rows[place]
    left = Rel(collection(name, list(rows).index(place)), bag(with_round(row)))
    x = Var(compiler.subqueries.fresh("x"), with_round(row))
    shown = Record(tuple((n, Field(x, n)) for n, _ in row.fields))
    return For(x, left, Sng(shown, ONE))


def _planned(compiler: Compiler, name: str, term: Repeat, rows: dict[str, RecordType]) -> Loop:
    """The loop with all that moves in it, added to the program."""
    outer = compiler.looping
    if outer is not None and not outer.collections.keys().isdisjoint(
        r.name for r in relations(term)
    ):
        raise NotIncremental(
            "LOOP_IN_LOOP",
            "a loop stands in the step of another loop, whose rows it reads",
            hint="write both as one loop of several collections",
        )
    names = {collection(name, i): row for i, row in enumerate(rows.values())}
    read = [Rel(n, bag(row)) for n, row in names.items()]
    x: Term = read[0] if "" in rows else Record(tuple(zip(rows, read, strict=True)))
    step, start = substitute(term.step, {term.var: x}), term.start
    program, before = compiler.program, set(compiler.program.maps)
    compiler.looping = None
    starts = [compiler.monomials(part(start, place), name) for place in rows]
    compiler.looping = looping = Looping(names, term.times)
    compiler.maps.moving = looping.names
    for n, row in names.items():
        compiler.relations.rows[n], compiler.relations.levels[n] = with_round(row), 0
    try:
        for (n, row), place, begun in zip(names.items(), rows, starts, strict=True):
            _collect(compiler, n, row, part(step, place), begun)
        strata = list(looping.answers)
        until = None
        if term.within is not None:
            compiler.looping = None
            until = _until(compiler, looping, term.within)
            strata.append(until.far)
    finally:
        compiler.looping = outer
        compiler.maps.moving = outer.names if outer is not None else frozenset()
    new = [m for m in program.maps.values() if m.name not in before]
    maps = [m for m in new if not looping.names.isdisjoint(m.reads)]
    groups = [program.strata[n].group for n in names]
    level = max([m.level for m in (*maps, *groups)], default=0)
    for n in names:
        compiler.relations.levels[n] = level + 1
    moving = tuple(dict.fromkeys([*(m.name for m in maps), *(g.name for g in groups)]))
    return Loop(
        name,
        show(term),
        tuple(names),
        tuple(strata),
        moving,
        level,
        term.times,
        term.limit,
        until,
    )


def _until(compiler: Compiler, looping: Looping, end: Within) -> Until:
    """How a loop is measured: by key and round the changes of a value are added up, and rows that moved too far counted by round.

    At a round a key that stays has its old value with weight -1 and its new one with weight 1: their sum is how far it
    moved. One that comes or goes has moved however far its value is.
    """
    ((name, x),) = looping.collections.items()
    row = Var("x", x.type.key)  # type: ignore[union-attr]
    by = [*end.by, ROUND]
    value = Field(row, end.column)
    there = Pred(Call("is_not_null", (value,)))
    exact = type_of(value) in (DOUBLE, FLOAT)
    amount = Unbox(Call("_exact", (value,)) if exact else _wide(value))
    key = Record(tuple((n, Field(row, n)) for n in by))
    parts = Record((("n", ONE), ("a", Times((there, amount))), ("c", Times((there, ONE)))))
    source = For(row, x, Sng(key, parts))
    k, v = Var("k", type_of(key)), Var("v", type_of(parts))
    moved = Answer("_sum", (), Field(v, "a")) if exact else Box(Field(v, "a"))
    zero = Const(0, boxed(INT))
    far = Call(
        "or",
        (
            Call("<>", (Box(Field(v, "n")), zero)),
            Call("<>", (Box(Field(v, "c")), zero)),
            Call(">", (Call("abs", (moved,)), Const(end.epsilon, DOUBLE))),
        ),
    )
    shown = Record((("by", Const(1, BIGINT)), (ROUND, Field(k, ROUND))))
    answer = Each(k, v, source, Times((Pred(far), Sng(shown, ONE))))
    made = compiler.answer(f"{name}.far", answer, differences=True)
    looping.names.add(made.name)
    r = Var("r", made.type)
    counted = For(
        r,
        Rel(made.name, bag(made.type)),
        Sng(Record((("k0", Field(r, ROUND)),)), Record((("r0", ONE),))),
    )
    count = compiler.maps.keep(
        canonical(counted), [0], strategy=compiler.strategy, kind="value", note="moves of a round"
    )
    return Until(made.name, count)


def _wide(value: Term) -> Term:
    """A value in a type that has room for how far it moves, which between two bigints is more than a bigint."""
    return Call("cast", (value,), WIDE) if type_of(value) == BIGINT else value


def _collect(compiler: Compiler, name: str, row: RecordType, step: Term, begun: Signed) -> None:
    """The stratum of a collection: the answer that its step is, or its rows by round as they are."""
    ready = _fused(compiler.run(but(OF_QUERY, cut_answers), step, name))
    if isinstance(ready, Each) and not begun and is_row(ready.body, {ready.key, ready.value}):
        compiler.answer(name, ready)
        if compiler.program.strata[name].rounds:
            return
        # Nothing in it moves: the step says the same in every round, and is a collection like others.
        del compiler.program.strata[name]
    k, v = Var("k", row), Var("v", INT)
    last = compiler.looping.last if compiler.looping else None
    at = [(sign * s, m) for sign, b in begun for s, m in started(b, last)]
    compiler.answer(name, Each(k, v, ready, Times((v, Sng(k, ONE)))), at)


def _fused(term: Term) -> Term:
    """for x in (each k ↦ v in m collect c · {r}) collect s = each k ↦ v in m collect c · s[r/x]: an answer with other columns."""
    match term:
        case For(x, Each(k, v, source, body), shown) if not variables(shown) - {x}:
            inner, outer = monomial(body), monomial(shown)
            if inner.atoms or outer.atoms or not isinstance(inner.output, Sng):
                return term
            if inner.output.value != ONE:
                return term
            made = [*inner.factors, substitute(shown, {x: inner.output.key})]
            return Each(k, v, source, tidy(Times(tuple(made)) if len(made) > 1 else made[0]))
    return term


def rows_of(term: Repeat) -> dict[str, RecordType]:
    """The rows of each collection, by name; one that has none is called "" ."""
    t = type_of(term)
    parts = dict(t.fields) if isinstance(t, ProductType) else {"": t}
    rows = {}
    for name, part in parts.items():
        if (
            not isinstance(part, MapType)
            or part.value != INT
            or not isinstance(part.key, RecordType)
        ):
            raise NotIncremental("SHAPE", "a loop is over bags of rows", hint="select rows")
        if any(has_box(f) for _, f in part.key.fields):
            raise NotIncremental(
                "RECURSION_NESTED",
                "the rows of a loop have arrays",
                hint="keep the elements as rows of the loop, and put them together after it",
            )
        rows[name] = part.key
    return rows


def part(term: Term, place: str) -> Term:
    """One collection of a product of them."""
    if not place:
        return term
    return rewrite(Field(term, place), SIMPLIFY)


def collection(loop: str, place: int) -> str:
    return f"{loop}.{place}"
