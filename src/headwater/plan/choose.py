"""What to keep: the work of a change under each strategy, from the structure of the statements.

Where rows are there, a look-up finds as many entries as there are rows for one value of what it is searched by. Where
there are none, one by all columns of a map's key finds one entry, one by some of them one more, and one by none of them
everything. The work of a statement is the rows that it has at each step; a map
that other views keep already costs nothing more. The strategy with less work is taken, and `explain` says both.

Keeping the inputs alone is planned first. Its work is the limit of the other plan, which is given up as soon as it
has more: a star of n dimensions has a map for each of the 2ⁿ sets of them, and after some 3n statements it is plain
that they cannot win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Protocol

from headwater.calculus.terms import Field, Rel, Sng, Term, Var, subterms, variables
from headwater.plan.maps import term_of
from headwater.plan.program import Lookup, Map, Program, Statement
from headwater.rules.monomial import Monomial, summands
from headwater.rules.rows import cells

NONE, ONE, ALL = 0, 1, 10_000
"""Rows more that a look-up is taken to make by all of the key, by a part of it, by none.

They are added and not multiplied: most joins follow a key, and n of them that double the rows each are rare.
"""
STATEMENT = 12
"""What a statement costs besides its rows, in rows."""


MOST_STATEMENTS = 150
"""Statements of a recursive plan; with more, their number is felt whatever the sizes of the maps."""


class TooMuchWork(Exception):
    """A plan has more work than the best one that is known."""


class Data(Protocol):
    """What is known of the rows that are there; None where nothing is."""

    def rows(self, relation: str) -> int | None:
        """How many rows a relation has."""

    def different(self, relation: str, columns: Sequence[str]) -> float | None:
        """How many different values it has in some columns."""


@dataclass
class Work:
    """The rows that one changed row of each input makes, look-ups and writes together, of the maps planned so far."""

    most: float = inf
    most_statements: float = inf
    data: Data | None = None
    rows: float = 0
    statements: int = 0

    def add(self, program: Program, statements: Sequence[Statement]) -> None:
        """Adds that of statements; raises once there is more than allowed."""
        self.rows += sum(self._of(program, s) for s in statements)
        self.statements += len(statements)
        if self.rows > self.most or self.statements > self.most_statements:
            raise TooMuchWork

    def _of(self, program: Program, s: Statement) -> float:
        rows, total = 1.0, float(STATEMENT)
        for step in s.steps:
            if isinstance(step, Lookup):
                total += rows
                if step.version != "change":
                    m = program.maps[step.into]
                    found = self._found(program, m)
                    rows = rows + _more(program, m) if found is None else rows * found
        return total + rows

    def _found(self, program: Program, m: Map) -> float | None:
        """How many entries a look-up finds on average, by the data; None if that is not known."""
        if self.data is None:
            return None
        found = [_found(self.data, m, n) for _, n in summands(term_of(program, m))]
        return sum(f for f in found if f is not None) if None not in found else None


def _found(data: Data, m: Map, of: Monomial) -> float | None:
    """The entries of a join by the columns that it is searched by: each atom has rows / different values of its links.

    What is summed away makes no entries: there are no more than different values in the rest of the key.
    """
    names = {v: s.name for v, s in of.atoms if isinstance(s, Rel)}
    if len(names) < len(of.atoms) or not isinstance(of.output, Sng):
        return None
    terms = dict(zip(m.columns, cells(of.output.key), strict=True))
    tied: dict[Var, set[str]] = {v: set() for v in names}
    for column in m.lookup:
        _tie(tied, terms[column])
    found, waiting = 1.0, list(names)
    while waiting:
        v = next((v for v in waiting if tied[v]), waiting[0])
        waiting.remove(v)
        rows, keys = data.rows(names[v]), data.different(names[v], sorted(tied[v]))
        if rows is None or keys is None:
            return None
        found *= rows / keys
        for a, b in of.equalities():
            for mine, other in ((a, b), (b, a)):
                if variables(mine) == {v}:
                    _tie(tied, other)
    return min(found, prod(_values(data, names, terms[c]) for c in m.columns if c not in m.lookup))


def _tie(tied: dict[Var, set[str]], term: Term) -> None:
    """Notes the columns that a term reads of one atom."""
    for t in subterms(term):
        if isinstance(t, Field) and isinstance(t.term, Var) and t.term in tied:
            tied[t.term].add(t.name)


def _values(data: Data, names: dict[Var, str], key: Term) -> float:
    """How many different values a column of a key has at most."""
    read: dict[Var, set[str]] = {v: set() for v in names}
    _tie(read, key)
    found = [data.different(names[v], sorted(c)) for v, c in read.items() if c]
    return prod(inf if f is None else f for f in found)


def _more(program: Program, m: Map) -> int:
    """How many rows more a look-up makes of one, by the structure of the map alone."""
    if not m.lookup:
        return NONE if all(_single(program, r) for r in m.reads) else ALL
    return NONE if set(m.lookup) == set(m.columns) else ONE


def _single(program: Program, relation: str) -> bool:
    """Whether a relation has one row at most: the answer of an aggregate without groups."""
    stratum = program.strata.get(relation)
    return stratum is not None and not stratum.group.key and stratum.ranked is None
