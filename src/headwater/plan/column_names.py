"""Names of the columns of maps, in terms of the columns of sources: `bid.auction`, `window_start(bid.ts)`.

A column of a map is what the statements that fill it emit: a column of their driver, something computed from some, or a
column of a map that is looked up. A driver may be a stratum, whose rows are computed from the key of its groups. What
has no short name is called by the map's own name of it.
"""

from __future__ import annotations

from headwater.plan.program import Bind, Expand, Lookup, Map, Program, Statement
from headwater.plan.trees import Tree

LONGEST = 48
"""Longer names say less than the map's own."""
BETWEEN = ("+", "-", "*", "/", "div", "%")


class ColumnNames:
    """The names of a program's columns, found once."""

    def __init__(self, program: Program):
        self.program = program
        self._maps: dict[str, dict[str, str]] = {}

    def of(self, m: Map) -> dict[str, str]:
        """The name of each column of a map."""
        if m.name not in self._maps:
            self._maps[m.name] = {c: c for c in m.columns}  # while it is looked for
            if m.fields and m.reads and m.reads[0] not in self.program.strata:
                found = {c: f"{m.reads[0]}.{f}" for c, f in zip(m.columns, m.fields, strict=True)}
            else:
                found = self._filled(m)
            short = {c: n for c, n in found.items() if len(n) <= LONGEST}
            self._maps[m.name] = {c: short.get(c, c) for c in m.columns}
        return self._maps[m.name]

    def _filled(self, m: Map) -> dict[str, str]:
        kept = self.program.kept.get(m.name)
        if kept is None or not kept.filling:
            groups = [s.group for s in self.program.strata.values() if s.answers == m]
            known = self.of(groups[0]) if groups else {}
            return dict(zip(m.columns, known.values(), strict=False))
        s = kept.filling[0]
        scope = self.scope(s)
        return {c: scope.get(k, k) for c, k in zip(m.columns, s.key, strict=True)}

    def scope(self, s: Statement) -> dict[str, str]:
        """The name of each column of a statement."""
        out = {name: self._relation(s.drives, c) for c, name in s.columns}
        for step in s.steps:
            match step:
                case Bind(name, scalar):
                    out[name] = self.tree(scalar.tree, out, name)
                case Lookup(into=into, brings=brings) if into in self.program.maps:
                    known = self.of(self.program.maps[into])
                    out |= {name: known.get(c, c) for c, name in brings}
                case Expand(array, brings):
                    out |= {name: out.get(array, name) for _, name in brings}
        return out

    def _relation(self, relation: str, column: str) -> str:
        """The name of a column of a source, or of the rows of a stratum."""
        stratum = self.program.strata.get(relation)
        if stratum is None:
            return f"{relation}.{column}"
        cell, known = dict(stratum.row)[column], dict(self.of(stratum.group))
        if stratum.ranked is not None:
            bag = self.of(stratum.ranked.map)
            known |= {name: bag[c] for c, name in stratum.ranked.row}
        if not set(cell.reads) <= set(known):
            return column
        return self.tree(cell.tree, known, column)

    def tree(self, tree: Tree, scope: dict[str, str], otherwise: str) -> str:
        """The name of something computed."""
        match tree:
            case None:
                return otherwise
            case ["column", _, name]:
                return scope.get(str(name), str(name))
            case ["literal", _, value]:
                return str(value)
            case ["cast", t, inner]:
                named = self.tree(inner, scope, otherwise)
                return f"date({named})" if t == "date" else named
            case [name, _, a, b] if name in BETWEEN:
                return f"{self.tree(a, scope, otherwise)} {name} {self.tree(b, scope, otherwise)}"
            case [name, _, *arguments]:
                given = [self.tree(a, scope, "") for a in arguments if a and a[0] != "literal"]
                return f"{name}({', '.join(given)})" if all(given) else otherwise
        return otherwise
