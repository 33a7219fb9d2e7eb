"""Columns of maps that are never NULL, as the statements that fill them say it.

A row that passes a comparison has no NULL on either side, nor has one that a look-up by equality found; what is equal to such
a column is not NULL either. A column of a map is never NULL if all statements that fill it say so.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.plan.program import Bind, Filter, Lookup, Map, Program, Statement
from headwater.plan.trees import Tree

COMPARISONS = ("=", "<", "<=", ">", ">=")
MOST_PARTS = 100
"""How many conditions of a filter are looked at."""


class NeverNull:
    """The columns of a program's maps that are never NULL, found once."""

    def __init__(self, program: Program):
        self.program = program
        # What fills a map of a loop is not all that comes into it: its rounds do, too.
        self._known: dict[str, frozenset[str]] = dict.fromkeys(program.inside(), frozenset())

    def of(self, m: Map) -> frozenset[str]:
        """The columns of a map that are never NULL."""
        if m.name not in self._known:
            self._known[m.name] = frozenset()  # while it is looked for nothing is known
            kept = self.program.kept.get(m.name)
            found = [self._emitted(s, m) for s in kept.filling] if kept else []
            self._known[m.name] = frozenset.intersection(*found) if found else frozenset()
        return self._known[m.name]

    def _emitted(self, s: Statement, m: Map) -> frozenset[str]:
        known = self._columns(s)
        return frozenset(c for c, name in zip(m.columns, s.key, strict=True) if name in known)

    def _columns(self, s: Statement) -> set[str]:
        """The columns of a statement that are not NULL in any row that it emits."""
        driver = self.relation(s.drives)
        out = {name for c, name in s.columns if c in driver}
        equal: list[tuple[str, str]] = []
        for step in s.steps:
            match step:
                case Bind(name, scalar) if scalar.tree and scalar.tree[0] == "column":
                    equal.append((name, scalar.tree[2]))
                case Filter(condition):
                    out.update(passed(condition.tree))
                case Lookup() if step.into in self.program.maps:
                    into = self.program.maps[step.into]
                    brings = dict(step.brings)
                    out.update(brings[c] for c in self.of(into) if c in brings)
                    found = zip(into.lookup, step.keys, step.matches_null, strict=True)
                    for column, probe, matches_null in found:
                        if not matches_null:
                            out.add(probe)
                        if column in brings:
                            equal.append((brings[column], probe))
        for _ in equal:
            out.update(x for a, b in equal if a in out or b in out for x in (a, b))
        return out

    def relation(self, name: str) -> frozenset[str]:
        """The columns of a relation that are never NULL: those of a stratum that are columns of its group."""
        stratum = self.program.strata.get(name)
        if stratum is None:
            return frozenset()
        known = set(self.of(stratum.group))
        if stratum.ranked is not None:
            bag = self.of(stratum.ranked.map)
            known |= {new for c, new in stratum.ranked.row if c in bag}
        cells = ((n, c.tree) for n, c in stratum.row if c.tree is not None)
        return frozenset(n for n, t in cells if t[0] == "column" and t[2] in known)


def passed(tree: Tree) -> Iterator[str]:
    """The columns that are not NULL where a condition is true."""
    todo = [tree]
    for _ in range(MOST_PARTS):
        part = todo.pop() if todo else None
        if part is None:
            return
        if part[0] == "and":
            todo += part[2:]
        elif part[0] in COMPARISONS or part[0] == "is_not_null":
            yield from (side[2] for side in part[2:] if side[0] == "column")
