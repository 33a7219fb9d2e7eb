"""Random monomials and random loops over rows of two numbers.

The relations X and Y are the collections of a loop, A an answer inside of it; S and T come from outside. A loop's start and step
are sums of monomials, of which some subtract; a step's rows may be answered in every round, by `distinct` or by `totals`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.calculus.ring import RingMap
from headwater.calculus.terms import (
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
    substitute,
)
from headwater.calculus.types import BIGINT, INT, ProductType, bag, record
from headwater.rules.monomial import Monomial, Signed, sum_of
from headwater.rules.rounds import lifted, started, with_round
from random_values import Pick, value

Answer = Callable[[str, Term], Term]
"""What becomes of the rows of a collection, by its name."""
ROW = record(a=BIGINT, b=BIGINT)
ROWS = bag(ROW)
WITH_ROUNDS = bag(with_round(ROW))
X, Y, A, S, T = (Rel(name, ROWS) for name in "XYAST")
LOOP = {name: Rel(name, WITH_ROUNDS) for name in "XY"}
ANSWERS = {"A": Rel("A", WITH_ROUNDS)}
ONE = Num(1, INT)


def rows(pick: Pick, most: int = 4) -> RingMap:
    """A few rows of small numbers and NULL, some of them counted negative."""
    return value(ROWS, pick, most)


def distinct(name: str, rows: Term) -> Term:
    """The rows that are there."""
    k, n = Var(f"k{name}", ROW), Var(f"n{name}", INT)
    return Each(k, n, rows, Times((Pred(Call(">", (Box(n), Const(0, BIGINT)))), Sng(k, ONE))))


def totals(name: str, rows: Term) -> Term:
    """The sum of b for each a, modulo 3, so that loops do not grow without end."""
    x, k = Var(f"z{name}", ROW), Var(f"k{name}", record(a=BIGINT))
    v = Var(f"v{name}", ProductType((("n", INT), ("s", INT))))
    value = Record((("n", ONE), ("s", Unbox(Field(x, "b")))))
    groups = For(x, rows, Sng(Record((("a", Field(x, "a")),)), value))
    there = Pred(Call("<>", (Box(Field(v, "n")), Const(0, BIGINT))))
    row = Record((("a", Field(k, "a")), ("b", Call("%", (Box(Field(v, "s")), Const(3, BIGINT))))))
    return Each(k, v, groups, Times((there, Sng(row, ONE))))


class Random:
    """Random monomials over relations of one row type: joins, filters, and outputs of all forms."""

    def __init__(self, pick: Pick):
        self.pick = pick

    def choose(self, options: Any) -> Any:
        return options[self.pick(len(options))]

    def monomial(self, moving: list[Rel], steady: list[Rel], output: str = "") -> Monomial:
        atoms = [*moving, *steady]
        bound = [(Var(f"x{i}", ROW), r) for i, r in enumerate(atoms)]
        cells = [Field(v, n) for v, _ in bound for n in ("a", "b")] or [Const(1, BIGINT)]
        factors = [self.factor(cells) for _ in range(self.pick(3))]
        return Monomial(tuple(bound), tuple(factors), self.output(bound, cells, output))

    def factor(self, cells: list[Term]) -> Term:
        left, right = self.choose(cells), self.choose([*cells, Const(1, BIGINT)])
        if self.pick(4) == 3:
            return Unbox(left)
        return Pred(Call(self.choose(("=", "=", "<=>", "<>", "<")), (left, right)))

    def output(self, bound: list[Any], cells: list[Term], form: str) -> Term:
        some = [self.choose([*cells, Const(2, BIGINT)]) for _ in range(2)]
        match form or self.choose(("row", "whole", "cell", "map", "number", "pair")):
            case "whole" if bound:
                return Sng(self.choose(bound)[0], ONE)
            case "pair" if bound:
                whole = Record((("row", self.choose(bound)[0]), ("c", some[0])))
                return Sng(whole, Record((("n", ONE), ("s", Unbox(some[1])))))
            case "cell":
                return Sng(some[0], Unbox(some[1]))
            case "map":
                return Sng(Record((("k", some[0]),)), Sng(Record((("o", some[1]),)), ONE))
            case "number":
                return Unbox(some[0])
            case _:
                return Sng(Record((("a", some[0]), ("b", some[1]))), ONE)


class Loop:
    """A loop over one or two collections, whose start and step are sums of monomials."""

    def __init__(self, pick: Pick, most: int):
        random, self.names = Random(pick), "XY"[: 1 + pick(2)]
        both = [Rel(n, ROWS) for n in self.names]
        self.start = {n: [(1, random.monomial([], [S], "whole"))] * pick(3) for n in self.names}
        self.step: dict[str, Signed] = {}
        for n in self.names:
            count = 1 + pick(2)
            moving = [[random.choose(both) for _ in range(pick(most + 1))] for _ in range(count)]
            steady = [[random.choose((S, T)) for _ in range(pick(2))] for _ in range(count)]
            forms = ("row", "whole")
            self.step[n] = [
                ((1, 1, -1)[pick(3)], random.monomial(m, s, forms[pick(2)] if m or s else "row"))
                for m, s in zip(moving, steady, strict=True)
            ]

    def repeat(self, times: int | None, answer: Answer = lambda _, rows: rows) -> Repeat:
        """The loop as a term; every collection may be answered in every round."""
        product = ProductType(tuple((n, ROWS) for n in self.names))
        var = Var("L", product)
        inside = {Rel(n, ROWS): Field(var, n) for n in self.names}
        steps = {n: substitute(sum_of(self.step[n], ROWS), inside) for n in self.names}
        return Repeat(
            var,
            Record(tuple((n, sum_of(self.start[n], ROWS)) for n in self.names)),
            Record(tuple((n, answer(n, t)) for n, t in steps.items())),
            times=times,
            limit=40,
        )

    def lifted(self, last: int) -> dict[str, Term]:
        """start·(t⁰ − t¹) + F̂(d X̂, S), for each collection."""
        loop = {n: LOOP[n] for n in self.names}
        out: dict[str, Term] = {}
        for n in self.names:
            start = [(s * t, m) for s, b in self.start[n] for t, m in started(b, last)]
            step = [(s, lifted(m, loop, {}, last)) for s, m in self.step[n]]
            out[n] = sum_of([*start, *step], WITH_ROUNDS)
        return out
