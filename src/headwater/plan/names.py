"""Whether a program names only what it has: every map, relation, stratum and column that stands in it is there.

A program that the compiler made does. One that is read from a log may have been changed by somebody, and whoever runs it
would find a name that is not there in the middle of an increment. `check` walks through every statement as it would run,
with nothing but the names of its columns:

    columns of the change ─ steps add columns and read those before them ─ key and ring of the target are among them

What is checked are names and how many of them there are. That a scalar means what the query said nobody can tell from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, cast

from headwater.calculus.types import BIGINT
from headwater.plan import program as p
from headwater.plan.failures import CASTS, DIVIDES, EMPTY
from headwater.plan.scalar import Scalar
from headwater.rules.rounds import ROUND

COUNTED = (DIVIDES, CASTS, EMPTY)
"""What the maps count that check rows."""
Names = AbstractSet[str]


def check(program: p.Program) -> None:
    """Raises ValueError unless a program names only what it has."""
    _Checks(program).all()


class _Checks:
    """The checks of one program."""

    def __init__(self, program: p.Program):
        self.program, self.maps = program, program.maps
        self.rows = {n: {c for c, _ in row.fields} for n, row in program.relations.rows.items()}
        self.keys = {n: {c for c, _ in m.key} for n, m in program.maps.items()}
        self.rings = {n: {c for c, _ in m.ring} for n, m in program.maps.items()}

    def all(self) -> None:
        for named in (self.maps, self.program.strata, self.program.views, self.program.loops):
            for name, made in cast(Mapping[str, Any], named).items():
                if made.name != name:
                    raise ValueError(f"`{name}` is called `{made.name}`")
        for m in self.maps.values():
            self.map(m, self.keys[m.name], self.rings[m.name])
            _among(m.reads, self.rows.keys(), m.name, "reads")
        for m in self.program.checks.values():
            if m.lookup or m.note not in COUNTED:
                raise ValueError(f"the map `{m.name}` counts nothing that fails")
        for name, kept in self.program.kept.items():
            self.kept(self.maps[name], kept)
        for s in self.program.strata.values():
            self.stratum(s)
        for loop in self.program.loops.values():
            self.loop(loop)
        for v in self.program.views.values():
            self.view(v)

    def map(self, m: p.Map, key: Names, ring: Names) -> None:
        """A map is searched, routed and sorted by columns of its key, and no two of its columns are called the same."""
        if len(key) != len(m.key) or len(ring) != len(m.ring) or not key.isdisjoint(ring):
            raise ValueError(f"two columns of the map `{m.name}` have one name")
        _among(m.lookup, key, m.name, "is searched by")
        _among(m.route, key, m.name, "is routed by")
        _among([n for n, _, _ in m.order], key, m.name, "is sorted by")

    # --- how maps are kept -----------------------------------------------------------------------------------------

    def kept(self, m: p.Map, kept: p.Kept) -> None:
        """A map is kept by statements of its own, each from a relation whose rows have the columns that it takes."""
        for relation, statements in kept.changes.items():
            for s in statements:
                if s.drives != relation:
                    raise ValueError(
                        f"the map `{m.name}` is changed by `{s.drives}` for `{relation}`"
                    )
                self.of_relation(m, s)
        seen = {id(s) for statements in kept.changes.values() for s in statements}
        for s in (*kept.filling, *(kept.at_once or ())):
            if id(s) not in seen:  # most stand there, too
                self.of_relation(m, s)
        for product in kept.products or ():
            _among(product.factors, self.rows.keys(), m.name, "is a product of")
            self.statement(m, product.statement, {n for n, _ in product.row.fields})

    def of_relation(self, m: p.Map, s: p.Statement) -> None:
        if s.drives not in self.rows:
            raise ValueError(f"the map `{m.name}` is changed by `{s.drives}`, which is not there")
        self.statement(m, s, self.rows[s.drives])

    def statement(self, m: p.Map | None, s: p.Statement, row: Names) -> None:
        """Each step reads what the change and the steps before it have, and the target is made of all of that."""
        target = s.target
        if m is not None and target.name != m.name:
            raise ValueError(f"the map `{m.name}` is changed by a statement of `{target.name}`")
        changes = {c.target.name: c.target for c in s.changes}
        for c in s.changes:
            if c.drives not in self.rows:
                raise ValueError(f"`{target.name}` looks up a change of `{c.drives}`")
            self.statement(None, c, self.rows[c.drives])
        _among([n for n, _ in s.columns], row, target.name, "takes")
        there = {c for _, c in s.columns}
        there.add(p.WEIGHT)
        for step in s.steps:
            self.step(target.name, step, there, changes)
        _among(s.key, there, target.name, "is keyed by")
        for factors in s.ring:
            _among(factors, there, target.name, "multiplies")
        if len(s.key) != len(target.key) or len(s.ring) > len(target.ring):
            raise ValueError(f"a statement of `{target.name}` gives other columns than the map has")

    def step(self, of: str, step: p.Step, there: set[str], changes: Mapping[str, p.Map]) -> None:
        match step:
            case p.Bind(name, scalar):
                _read(scalar, there, of)
                there.add(name)
            case p.Filter(condition):
                _read(condition, there, of)
            case p.Expand(array, brings):
                _among([array], there, of, "opens")
                there.update(given for _, given in brings)
            case p.Lookup():
                self.look_up(of, step, there, changes)
            case p.AddUp(by, sums):
                _among([*by, *(n for _, _, factors in sums for n in factors)], there, of, "adds up")
                there.clear()
                there.update((p.WEIGHT, *by, *(name for name, _, _ in sums)))

    def look_up(self, of: str, s: p.Lookup, there: set[str], changes: Mapping[str, p.Map]) -> None:
        """What is looked up is kept, or arranged by the statement; its key has as many columns as are given."""
        if s.version != "change" and s.into not in self.maps:
            raise ValueError(f"`{of}` looks up `{s.into}`, which is not there")
        if s.version != "old" and s.into not in changes:
            raise ValueError(f"`{of}` looks up a change of `{s.into}`, which is not arranged")
        if s.into in self.maps:
            m, key, ring = self.maps[s.into], self.keys[s.into], self.rings[s.into]
        else:
            m = changes[s.into]
            key, ring = {n for n, _ in m.key}, {n for n, _ in m.ring}
            self.map(m, key, ring)
        if not len(s.keys) == len(s.matches_null) == len(m.lookup):
            raise ValueError(f"`{of}` looks up `{s.into}` by other columns than it is searched by")
        _among(s.keys, there, of, "looks up")
        _among([n for n, _ in s.brings], key, of, f"brings of `{s.into}`")
        _among([n for n, _ in s.weights], ring, of, f"weighs by `{s.into}`")
        there.update(given for _, given in s.brings)
        there.update(given for _, given in s.weights)

    # --- answers ---------------------------------------------------------------------------------------------------

    def stratum(self, s: p.Stratum) -> None:
        """An answer is told from columns of its maps, and its row is that of its relation."""
        _among([m.name for m in s.maps], self.maps.keys(), s.name, "is answered from")
        _among(s.checks, self.program.checks.keys(), s.name, "is checked by")
        _among([d.column for d in s.distinct], self.rings[s.group.name], s.name, "counts in")
        for d in s.distinct:
            if len(d.map.key) <= len(s.group.key):
                raise ValueError(f"`{s.name}` counts the values of `{d.map.name}`, which has none")
        for b in s.from_bags:
            _among(b.items, self.keys[b.map.name], s.name, f"takes of `{b.map.name}`")
        for t in s.told:
            _among(t.sums, self.rings[s.group.name], s.name, "is told from")
        if s.ranked is not None:
            self.ranked(s, s.ranked)
        columns = s.components
        there = {n for n, _ in columns}
        kept = len(s.group.key) + len(s.from_bags) if s.rounds else len(columns)
        if s.answers is not None and len(s.answers.key) != kept:
            raise ValueError(f"`{s.name}` keeps other columns than it answers from")
        for scalar in s.where:
            _read(scalar, there, s.name)
        if s.weight is not None:
            _read(s.weight, there, s.name)
        for _, scalar in s.row:
            _read(scalar, there, s.name)
        if [n for n, _ in s.row] != [n for n, _ in s.type.fields]:
            raise ValueError(f"`{s.name}` gives other columns than its rows have")
        known = self.program.relations.rows.get(s.name)
        if known is not None and known != s.type:
            raise ValueError(f"`{s.name}` gives other rows than its relation has")

    def loop(self, loop: p.Loop) -> None:
        """A loop has what it names, and all that is answered in it has a round."""
        _among(loop.strata, self.program.strata.keys(), loop.name, "answers")
        _among(loop.maps, self.maps.keys(), loop.name, "moves")
        if loop.diffuse is not None:
            self.diffuse(loop, loop.diffuse)
            return
        _among(loop.collections, set(loop.strata), loop.name, "collects")
        for name in loop.strata:
            if self.program.strata[name].type.fields[-1] != (ROUND, BIGINT):
                raise ValueError(f"`{name}` has no rounds, and is answered in `{loop.name}`")

    def diffuse(self, loop: p.Loop, of: p.Diffuse) -> None:
        """A loop in diffuse mode holds what it tells, by maps of the same columns, and asks for groups that are there."""
        _among(loop.collections, self.rows.keys(), loop.name, "collects")
        held = of.told, of.steps, of.due, of.begins
        if any(len(maps) != len(loop.collections) for maps in held):
            raise ValueError(f"`{loop.name}` does not hold each of its collections")
        for name, told, step, due, begins in zip(loop.collections, *held, strict=True):
            row = self.program.relations.rows[name]
            if told.fields != tuple(n for n, _ in row.fields) or told.reads != (name,):
                raise ValueError(f"`{told.name}` does not hold the rows of `{name}`")
            columns = told.key, told.lookup
            for m in (step, begins):
                if (m.key, m.lookup) != columns or due.lookup != told.lookup:
                    raise ValueError(f"`{m.name}` has other columns than what is told of `{name}`")
        every = [*(m for maps in held for m in maps), *([of.aliases] if of.aliases else [])]
        _among([m.name for m in every], self.maps.keys(), loop.name, "holds")
        for settled in of.settled:
            _among([settled.stratum], set(loop.strata), loop.name, "settles")
            _among([settled.asks], self.rows.keys(), loop.name, "asks")
            of_group = self.program.strata[settled.stratum]
            if of_group.answers is None or settled.groups.columns != of_group.group.columns:
                raise ValueError(f"`{settled.stratum}` does not keep what it was answered")
            for probing in settled.probes:
                _among(
                    [probing.target.name], {m.name for m in of_group.maps}, loop.name, "probes for"
                )
                self.statement(None, probing, self.rows[settled.asks])

    def ranked(self, s: p.Stratum, r: p.Ranked) -> None:
        key = self.keys[r.map.name]
        _among(r.order, key, s.name, f"sorts `{r.map.name}` by")
        _among([n for n, _ in r.row], key, s.name, f"takes of `{r.map.name}`")
        _among([n for _, n in r.totals], self.rings[s.group.name], s.name, "totals in")

    def view(self, v: p.View) -> None:
        """A view is read from what is there, and that has as many columns as its rows."""
        _among(v.checks, self.program.checks.keys(), v.name, "is checked by")
        _among([m.name for m in v.maps], self.maps.keys(), v.name, "is read from")
        match v.rows:
            case p.Answered(name):
                if name not in self.program.strata:
                    raise ValueError(f"the view `{v.name}` is answered by what is not there")
                # Arrays that are kept whole are lists in an answer, and bags in the rows of its view.
                given, shown = (
                    [n for n, _ in t.fields] for t in (self.program.strata[name].type, v.type)
                )
                if given != shown:
                    raise ValueError(f"the view `{v.name}` has other columns than its answer")
            case p.Stored(map=m):
                if len(m.key) != len(v.type.fields):
                    raise ValueError(f"the view `{v.name}` has other columns than its map")
            case p.Nested(parts):
                for i, part in enumerate(parts):
                    self.part(v, i, part)

    def part(self, v: p.View, place: int, part: p.Part) -> None:
        if len(part.columns) != len(part.map.key):
            raise ValueError(f"the part `{part.path}` of `{v.name}` has other columns than its map")
        _among(part.label, {n for n, _ in part.columns}, v.name, "is put together by")
        if part.owner is not None and not 0 <= part.owner < place:
            raise ValueError(
                f"the part `{part.path}` of `{v.name}` is in none that stands before it"
            )


def _read(scalar: Scalar, there: Names, of: str) -> None:
    _among(scalar.reads, there, of, "reads")


def _among(names: Iterable[str], there: Names, of: str, verb: str) -> None:
    if not there >= (asked := set(names)):
        missing = min(asked.difference(there))
        raise ValueError(f"`{of}` {verb} `{missing}`, which is not there")
