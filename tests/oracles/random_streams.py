"""Random punctuated streams over few values, and every future that their punctuations leave open.

Columns are boolean, which with NULL has three values: so all futures over three values are all there are, and what is
certain in them is certain. `Judge` knows for each prefix of an input which rows are in the answer of the table operator
whatever comes, and which may still come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, product
from random import Random
from typing import Any

from headwater.calculus.patterns import (
    ANYTHING,
    Constant,
    Punctuation,
    Punctuations,
    Range,
    above,
    below,
    one_of,
)
from headwater.calculus.types import BOOLEAN
from headwater.streams.framework import Chain, Operator, Row, Slice, named

VALUES = (None, False, True)
PATTERNS = [
    *map(Constant, VALUES),
    *(below(True), above(False), Range(None, None, False, False)),
    *(one_of([None, True]), one_of([None, False]), ANYTHING, ANYTHING, ANYTHING),
]
MORE = 3
"""Rows of the longest future."""

Element = tuple[int, Row | Punctuation]
"""A row or punctuation of one of the inputs."""
Table = Callable[..., Any]
"""An operator of tables: lists of rows to a list of rows."""


@dataclass(frozen=True)
class Case:
    """An operator of streams beside the operator of tables that it should be faithful to."""

    op: Operator | Chain
    table: Table
    values: tuple[Any, ...] = VALUES
    patterns: list[Any] = field(default_factory=lambda: PATTERNS)
    complete: bool = True
    """Whether it tells all that is certain; if not, it only tells nothing else."""
    ordered: bool = False

    def rows(self, which: int) -> list[Row]:
        """All rows that an input may have."""
        return list(product(self.values, repeat=len(self.op.inputs[which])))


def random_input(case: Case, pick: Random, length: int) -> list[Element]:
    """Rows and punctuations of the inputs, in the order in which they come; grammatical."""
    out: list[Element] = []
    closed = [Punctuations((), schema) for schema in case.op.inputs]
    while len(out) < length:
        which = pick.randrange(len(closed))
        schema = case.op.inputs[which]
        open_ = [r for r in case.rows(which) if not closed[which].matches(named(schema, r))]
        if open_ and pick.random() < 0.6:
            out.append((which, pick.choice(open_)))
        else:
            p = Punctuation.of({n: pick.choice(case.patterns) for n in schema})
            if p != Punctuation() or pick.random() < 0.3:
                closed[which] = closed[which].add(p)
                out.append((which, p))
    return out


def tables(case: Case, elements: list[Element]) -> list[list[Row]]:
    """The rows of each input."""
    return [
        [x for w, x in elements if w == which and not isinstance(x, Punctuation)]
        for which in range(len(case.op.inputs))
    ]


def futures(case: Case, elements: list[Element]) -> Iterator[list[Element]]:
    """Every way to go on with a few rows that match no punctuation so far."""
    still: list[Element] = []
    for which, schema in enumerate(case.op.inputs):
        said = [p for w, p in elements if w == which and isinstance(p, Punctuation)]
        rows = case.rows(which)
        still += [(which, r) for r in rows if not any(p.matches(named(schema, r)) for p in said)]
    for n in range(MORE + 1):
        yield from map(list, combinations_with_replacement(still, n))


class Judge:
    """What the futures of a prefix say: which rows are in every answer, and which are in some, and how often."""

    def __init__(self, case: Case, prefix: list[Element]):
        answers = [case.table(*tables(case, prefix + more)) for more in futures(case, prefix)]
        self.certain = _common_start(answers) if case.ordered else _common(answers)
        self.possible: Counter[Row] = Counter()
        for answer in answers:
            self.possible |= Counter(answer)


def _common(answers: list[list[Row]]) -> Counter[Row]:
    out = Counter(answers[0])
    for answer in answers:
        out &= Counter(answer)
    return out


def _common_start(answers: list[list[Row]]) -> list[Row]:
    out = answers[0]
    for answer in answers:
        same = [a == b for a, b in zip(out, answer, strict=False)]
        out = out[: same.index(False) if False in same else len(same)]
    return out


def pieces(case: Case, elements: list[Element]) -> list[Slice]:
    """A slice for each input: its rows, then its punctuations."""
    out: list[Slice] = []
    for which in range(len(case.op.inputs)):
        mine = [x for w, x in elements if w == which]
        out.append(sorted(mine, key=lambda x: isinstance(x, Punctuation)))
    return out


class Unfaithful(AssertionError):
    """An operator that told too much or too little; the inputs, sliced, say where."""


def judged(case: Case, elements: list[Element]) -> None:
    """Holds the operator against every future, after each slice of every slicing of an input."""
    judges = [Judge(case, elements[:n]) for n in range(len(elements) + 1)]
    none = Punctuations((), case.op.schema)

    def go_on(start: int, memory: Any, rows: list[Row], told: Punctuations, cut: list[Any]) -> None:
        for end in range(start + 1, len(elements) + 1):
            now = pieces(case, elements[start:end])
            later, new, over = memory, list(rows), told
            for which, piece in enumerate(now):
                out, later = case.op.turn(which, piece, later)
                for x in out:
                    if isinstance(x, Punctuation):
                        over = over.add(x)
                    elif over.matches(named(case.op.schema, x)):
                        raise Unfaithful(f"not grammatical: {x} after {over}, of {[*cut, now]}")
                    else:
                        new.append(x)
            _check(case, judges[end], new, over, [*cut, now])
            go_on(end, later, new, over, [*cut, now])

    go_on(0, case.op.start(), [], none, [])


def _check(case: Case, judge: Judge, rows: list[Row], over: Punctuations, cut: list[Any]) -> None:
    told = rows if case.ordered else Counter(rows)
    certain: Any = judge.certain
    safe = certain[: len(rows)] == rows if case.ordered else told <= certain
    if not safe:
        raise Unfaithful(f"not safe: {rows} where {certain} is certain, of {cut}")
    if case.complete and told != certain:
        raise Unfaithful(f"not complete: {rows} where {certain} is certain, of {cut}")
    count = Counter(rows)
    for row, n in judge.possible.items():
        if n > count[row] and over.matches(named(case.op.schema, row)):
            raise Unfaithful(f"not proper: {row} may come and {over} was told, of {cut}")


TWO = {"a": BOOLEAN, "b": BOOLEAN}
ONE = {"a": BOOLEAN}
