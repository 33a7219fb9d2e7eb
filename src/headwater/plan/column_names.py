"""Names of the columns of maps, in terms of the columns of sources: `bid.auction`, `window_start(bid.ts)`.

A column of a map is what the statements that fill it emit: a column of their driver, something computed from some, or a
column of a map that is looked up. A driver may be a stratum, whose rows are computed from the key of its groups. What
has no short name is called by the map's own name of it. What moves in a loop is called by the names of the loop's own columns.
"""

from __future__ import annotations

from headwater.plan.closing import shallow
from headwater.plan.program import Bind, Expand, Lookup, Loop, Map, Program, Statement
from headwater.plan.trees import Tree

LONGEST = 48
"""Longer names say less than the map's own."""
BETWEEN = ("+", "-", "*", "/", "div", "%")


class ColumnNames:
    """The names of a program's columns, found once."""

    def __init__(self, program: Program):
        self.program = program
        self.inside = {n: x for n, x in program.inside().items() if x.diffuse is None}
        self._maps: dict[str, dict[str, str]] = {}

    def of(self, m: Map) -> dict[str, str]:
        """The name of each column of a map."""
        if m.name not in self._maps:
            self._maps[m.name] = {c: c for c in m.columns}  # while it is looked for
            if m.name in self.inside:
                found = self._looped(m, self.inside[m.name])
            elif m.fields and m.reads and m.reads[0] not in self.program.strata:
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

    def _looped(self, m: Map, loop: Loop) -> dict[str, str]:
        """The names of the columns of a map that moves in a loop; the last one of a group is the round, where there are some."""
        strata = [self.program.strata[n] for n in loop.strata]
        answered = [s for s in strata if s.group == m]
        if answered:
            cells = [(n, c.tree) for n, c in answered[0].row if c.tree and c.tree[0] == "column"]
            found = {tree[2]: n for n, tree in cells}
            named = {c: found.get(c, c) for c in m.columns}
            return {**named, m.columns[-1]: "round"} if loop.diffuse is None else named
        if m.fields:
            return dict(zip(m.columns, m.fields, strict=True))
        s = next((x for n in loop.relations for x in self.program.statements(m, {n})), None)
        if s is None:  # what was answered last, and what settled groups are answered from
            return self._filled(m)
        scope = self.scope(s)
        return {c: scope.get(k, k) for c, k in zip(m.columns, s.key, strict=True)}

    def scope(self, s: Statement) -> dict[str, str]:
        """The name of each column of a statement."""
        out = {name: self._relation(s.drives, c) for c, name in s.columns}
        for step in s.steps:
            match step:
                case Bind(name, scalar):
                    out[name] = self.called(scalar.tree, out, name)
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
        return self.called(cell.tree, known, column)

    def called(self, tree: Tree, scope: dict[str, str], otherwise: str) -> str:
        """The name of something computed, unless it is deeper than people write."""
        return self.tree(tree, scope, otherwise) if tree and shallow(tree) else otherwise

    def tree(self, tree: Tree, scope: dict[str, str], otherwise: str) -> str:
        """The name of a tree."""
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
