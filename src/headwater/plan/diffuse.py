"""Loops in diffuse mode: one state instead of one a round, kept near the fixpoint of the step.

    X*   the rows told last, a relation like a source; T, the maps of the step at X*; a(T), the rows that the step gives
    X* is within `cut` of a(T) at every key

The step is planned like any query over X*, without rounds. A stratum whose groups come from inputs, and which no equality
ties to X* (for each point the nearest centre), would be read whole whenever X* moves. This term of the product rule is left
out: its groups are *settled*, they keep their answer until an input touches them.

Rows that are the least, the greatest or the different ones of rows of the loop are refused, and so are rows that are there by rows
of the loop alone (`plan/sustained.py`): what X* has would keep itself alive after its reason is gone, which only starting anew
can find out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater.calculus.notation.text import show
from headwater.calculus.terms import (
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
    Var,
    relations,
    substitute,
    subterms,
    variables,
)
from headwater.calculus.types import (
    DOUBLE,
    INT,
    Base,
    KeyType,
    MapType,
    ProductType,
    RecordType,
    bag,
)
from headwater.errors import NotIncremental
from headwater.plan.answer_terms import summed
from headwater.plan.answers import Answering
from headwater.plan.equal_maps import digest
from headwater.plan.flow import connected
from headwater.plan.loops import collection, part, rows_of
from headwater.plan.maps import map_of, output_of
from headwater.plan.passes import OF_QUERY
from headwater.plan.program import Diffuse, Loop, Map, Program, Settled, Stratum
from headwater.plan.statements import Materializer
from headwater.plan.sustained import Sustained
from headwater.plan.together import singles
from headwater.rules.monomial import Monomial, monomial, summands
from headwater.rules.normalize import normalize

if TYPE_CHECKING:
    from headwater.plan.compiler import Compiler

ONE = Num(1, INT)
FRACTIONS = ("float", "double", "decimal")
"""The types of values that can be near each other; columns of other types are the key of a row."""


def diffused(compiler: Compiler, term: Term) -> Term:
    """The relation X* of a loop, or of one of its collections."""
    loop, place = (term.term, term.name) if isinstance(term, Field) else (term, "")
    assert isinstance(loop, Repeat) and compiler.diffusion is not None
    stem = "first:" if compiler.strategy == "first-order" else ""
    name = f"x{digest(str(compiler.diffusion), stem + show(loop))}"
    rows = rows_of(loop)
    if name not in compiler.program.loops:
        compiler.program.loops[name] = _planned(compiler, name, loop, rows)
    return Rel(collection(name, list(rows).index(place)), bag(rows[place]))


def check_no_loops(views: Mapping[Rel, Term]) -> None:
    """Raises where a view is read as its term, and that has loops: they are kept exactly, and would be kept near here."""
    for view, term in views.items():
        if any(isinstance(t, Repeat) for t in subterms(term)):
            raise _refused(
                f"`{view.name}` is read, whose loops are kept exactly",
                hint=f"keep the loops of `{view.name}` near, too, or write them into this query",
            )


def is_value(t: KeyType) -> bool:
    """Whether a column is a value, which may be near another."""
    return isinstance(t, Base) and t.name in FRACTIONS


def _planned(compiler: Compiler, name: str, term: Repeat, rows: dict[str, RecordType]) -> Loop:
    """The loop with all that is kept for it, added to the program."""
    assert compiler.diffusion is not None
    outer = compiler.diffusing
    if outer is not None and not outer.names.isdisjoint(r.name for r in relations(term)):
        raise NotIncremental(
            "LOOP_IN_LOOP",
            "a loop stands in the step of another loop, whose rows it reads",
            hint="write both as one loop of several collections",
        )
    names = {collection(name, i): row for i, row in enumerate(rows.values())}
    read = [Rel(n, bag(row)) for n, row in names.items()]
    x: Term = read[0] if "" in rows else Record(tuple(zip(rows, read, strict=True)))
    step = substitute(term.step, {term.var: x})
    program, before = compiler.program, set(compiler.program.maps)
    compiler.diffusing = None
    begins = [_begun(compiler, row, part(term.start, place), name) for place, row in rows.items()]
    compiler.diffusing = diffusing = Diffusing(compiler, names)
    moving, compiler.maps.moving = compiler.maps.moving, diffusing.names
    for n, row in names.items():
        compiler.relations.rows[n], compiler.relations.levels[n] = row, 0
    try:
        told = [_told(compiler, n, row) for n, row in names.items()]
        steps = [
            _stepped(compiler, n, row, part(step, place))
            for (n, row), place in zip(names.items(), rows, strict=True)
        ]
    finally:
        compiler.diffusing, compiler.maps.moving = outer, moving
    new = [m for m in program.maps.values() if m.name not in before and m.name in program.kept]
    maps = [m for m in new if not diffusing.names.isdisjoint(m.reads)]
    groups = [s.groups for s in diffusing.settled]
    level = max(m.level for m in (*maps, *steps, *begins, *groups))
    for n in names:
        compiler.relations.levels[n] = level + 1
    near = compiler.diffusion.near is not None
    if near and not any(_gives_fractions(program.strata[s.stratum]) for s in diffusing.settled):
        raise _refused(
            "near= says which fractions are one, and no row of an input is given a fraction of the loop",
            hint="leave near= out",
        )
    made = Diffuse(
        compiler.diffusion,
        tuple(told),
        tuple(steps),
        tuple(_due(compiler, m) for m in told),
        tuple(begins),
        tuple(diffusing.settled),
        tuple(diffusing.left_out),
        _aliases(compiler, name) if near else None,
    )
    moved = tuple(dict.fromkeys(m.name for m in maps))
    strata = tuple(diffusing.strata)
    return Loop(
        name, show(term), tuple(names), strata, moved, level, term.times, term.limit, diffuse=made
    )


def _told(compiler: Compiler, name: str, row: RecordType) -> Map:
    """The map that holds X*, as a source is held, searched by the key of its rows."""
    x = Var("x0", row)
    names = [n for n, _ in row.fields]
    term = For(x, Rel(name, bag(row)), Sng(Record(tuple((n, Field(x, n)) for n in names)), ONE))
    note = "the rows told last"
    made = map_of(term, _key(row), None, "change", (), (), note, "source", None, names)
    compiler.maps.hold(made, term)
    return made


def _stepped(compiler: Compiler, name: str, row: RecordType, step: Term) -> Map:
    """The map of the rows that the step gives."""
    found = compiler.monomials(compiler.run(OF_QUERY, step, name), name)
    assert compiler.diffusing is not None
    compiler.diffusing.check_rows([m for _, m in found], row)
    term = summed(found, bag(row))
    note = "the rows that the step gives"
    return compiler.maps.keep(term, _key(row), strategy=compiler.strategy, note=note)


def _begun(compiler: Compiler, row: RecordType, start: Term, of: str) -> Map:
    """The map of the rows that X* starts from, which nothing moves in the loop."""
    term = summed(compiler.monomials(start, of), bag(row))
    note = "the rows that the loop starts from"
    return compiler.maps.keep(term, _key(row), strategy=compiler.strategy, note=note)


def _due(compiler: Compiler, told: Map) -> Map:
    """The keys that have yet to move, if there were too many rounds."""
    types = dict(told.key)
    key = tuple((n, types[n]) for n in told.lookup)
    name = f"d{digest(told.name)}"
    note = "keys that have yet to move"
    made = Map(name, told.text, key, (("r0", INT),), told.lookup, told.lookup, note=note)
    compiler.program.maps[name] = made
    return made


def _aliases(compiler: Compiler, loop: str) -> Map:
    """The fractions that were told, each with the one that it is taken for."""
    key = (("k0", DOUBLE), ("k1", DOUBLE))
    name = f"n{digest(loop)}"
    note = "fractions that are taken for others"
    made = Map(name, "", key, (("r0", INT),), ("k0",), ("k0",), note=note)
    compiler.program.maps[name] = made
    return made


def _key(row: RecordType) -> list[int]:
    return [i for i, (_, t) in enumerate(row.fields) if not is_value(t)]


class Diffusing:
    """A loop whose step is being planned: what moves in it, and which answers are settled."""

    def __init__(self, compiler: Compiler, collections: Mapping[str, RecordType]):
        self.compiler = compiler
        self.names = set(collections)
        """Everything that moves: collections, and answers that read what moves."""
        self.living = set(collections)
        """What of it follows X* by equalities; settled answers do not, nor what reads them alone."""
        values = {n: [c for c, t in row.fields if is_value(t)] for n, row in collections.items()}
        self.sustained = Sustained(values)
        """What of it has rows only while X* has some."""
        self.strata: list[str] = []
        self.settled: list[Settled] = []
        self.left_out: list[str] = []

    def stratum(self, answering: Answering) -> Stratum:
        """The stratum of an answer, settled if nothing ties its groups to what moves."""
        moving = [m for _, m in answering.monomials if self._moving(m)]
        if not moving:
            return answering.stratum()
        settles = all(self._loose(m) and self._of_inputs(m) for m in moving)
        if settles:
            made = self._settled(answering)
            fractions = [n for n, t in _given(made) if _has_fractions(t)]
            self.sustained.settled(answering, made.name, fractions)
        else:
            made = answering.stratum()
            if any(self.living.intersection(_names(m)) for m in moving):
                self._check(answering, made)
                self.living.add(made.name)
            self.sustained.answer(answering, made.name)
        self.names.add(made.name)
        self.strata.append(made.name)
        return made

    # --- what ties answers to what moves ------------------------------------------------------------------------

    def _moving(self, m: Monomial) -> set[Var]:
        return {v for v, s in m.atoms if isinstance(s, Rel) and s.name in self.names}

    def _inputs(self, m: Monomial) -> list[Var]:
        """The atoms that do not move, and of which there may be many rows."""
        few = singles(self.compiler.program)
        return [
            v
            for v, s in m.atoms
            if isinstance(s, Rel) and s.name not in self.names and s.name not in few
        ]

    def _loose(self, m: Monomial) -> bool:
        """Whether a change of what moves would read an input whole: no equality ties the two."""
        moving, inputs = self._moving(m), set(self._inputs(m))
        blocks = connected([v for v, _ in m.atoms], _filters(m))
        return any(inputs.intersection(b) and moving.isdisjoint(b) for b in blocks)

    def _of_inputs(self, m: Monomial) -> bool:
        """Whether the groups are those of inputs, and there are any."""
        key, _ = output_of(m.output)
        return bool(key) and all(variables(k) <= set(self._inputs(m)) for k in key)

    # --- settled answers ------------------------------------------------------------------------------------------

    def _settled(self, answering: Answering) -> Stratum:
        """The stratum of an answer that is given when an input touches a group, and stays until one does again."""
        compiler, maps = self.compiler, self.compiler.maps
        compiler.maps = recorded = _Recorded(compiler.program)
        try:
            made = answering.stratum()
        finally:
            compiler.maps = maps
        if made.distinct or made.ranked is not None:
            raise _refused(
                "an answer for rows that no equality ties to the loop has LIMIT, a window, or different values",
                hint="write min_by(what, key) for the nearest one",
            )
        if made.answers is None:
            made = replace(made, answers=answering.last_answers(made))
        width = len(made.group.key)
        row = RecordType(made.group.key)
        asks = f"{made.name}?"
        compiler.relations.rows[asks], compiler.relations.levels[asks] = row, 0
        asked = Var("asked", row)
        probes = [
            maps.driven(target, sign, _asked(m, asked, asks, width), asked)
            for target, found in recorded.found
            for sign, m in found
        ]
        there = [(1, t) for _, m in answering.monomials if (t := self._touching(m)) is not None]
        groups = maps.keep(
            summed(there, MapType(row, ProductType((("r0", INT),)))),
            list(range(width)),
            strategy=compiler.strategy,
            note="the groups that are there",
        )
        self.settled.append(Settled(made.name, groups, asks, tuple(probes)))
        read = {s.name for _, m in answering.monomials for v, s in m.atoms if v in self._inputs(m)}
        self.left_out.append(
            f"a row of the loop that moves does not reach all of {', '.join(_sources(compiler.program, read))}:"
            f" groups of {made.name} keep their answer until an input touches them"
        )
        return made

    def _touching(self, m: Monomial) -> Monomial | None:
        """The groups that the inputs of a monomial have, whatever moves."""
        moving = self._moving(m)
        atoms = tuple((v, s) for v, s in m.atoms if v not in moving)
        if not atoms:
            return None
        kept = tuple(
            f for f in m.factors if isinstance(f, Pred) and moving.isdisjoint(variables(f))
        )
        key = Record(tuple((f"k{i}", c) for i, c in enumerate(output_of(m.output)[0])))
        return Monomial(atoms, kept, Sng(key, Record((("r0", ONE),))))

    # --- what is refused --------------------------------------------------------------------------------------------

    def check_rows(self, found: Sequence[Monomial], row: RecordType) -> None:
        """Raises where no value of rows follows the loop, or where rows come of rows of the loop alone."""
        values = [i for i, (_, t) in enumerate(row.fields) if is_value(t)]
        follow = (
            variables(cell) & self._moving(m)
            for m in found
            for i, cell in enumerate(output_of(m.output)[0])
            if i in values
        )
        if found and not any(follow):
            raise _refused(
                "the rows of the loop have no number with a fraction that follows the loop, so that none is near another"
            )
        key = [i for i in range(len(row.fields)) if i not in values]
        if self.sustained.alone(found, key):
            raise _refused(
                "rows of the loop are there by rows or values of the loop alone: in a circle they would keep each other for ever",
                hint="take the keys from an input, as FROM nodes LEFT JOIN ... does, and filter in a view over this one;"
                " or leave mode='diffuse' out: exactly, it is kept",
            )
        if self.sustained.keyed(found, key):
            raise _refused(
                "the key of the loop's rows (its columns that are no fractions) is made of values of the loop:"
                " a row at such a key would keep itself for ever"
            )

    def _check(self, answering: Answering, made: Stratum) -> None:
        """Raises where an answer is the least, the greatest, the first or the different ones of rows of the loop."""
        if made.ranked is not None:
            raise _refused("LIMIT or a window reads rows of the loop")
        moving = [b for b in made.bags if not self.names.isdisjoint(b.reads)]
        if moving:
            what = sorted({b.function for b in made.from_bags}) or ["DISTINCT"]
            raise _refused(f"{', '.join(what)} of rows of the loop is a row of the loop")
        if _only_different(answering):
            raise _refused(
                "different rows of the loop (DISTINCT, UNION, EXISTS) are rows of the loop"
            )


class _Recorded(Materializer):
    """Maps that nothing is kept in: only what they would hold is written down."""

    def __init__(self, program: Program):
        super().__init__(program)
        self.found: list[tuple[Map, list[tuple[int, Monomial]]]] = []

    def keep(self, term: Term, lookup: Sequence[int], **how: Any) -> Map:
        given = {"route": None, "kind": "change", "order": (), "extra": (), "note": "", **how}
        given.pop("level", None)
        made = map_of(term, lookup, known=self.relations, **given)
        made = replace(made, name=f"s{made.name}")  # for one of that name may be kept
        if made.name not in self.program.maps:
            self.program.maps[made.name] = made
        if all(m.name != made.name for m, _ in self.found):
            self.found.append((made, summands(normalize(term))))
        return made


def _asked(m: Monomial, asked: Var, name: str, width: int) -> Monomial:
    """A monomial at some groups: for g in asked collect [key <=> g] · m."""
    key, _ = output_of(m.output)
    same = tuple(Pred(Call("<=>", (Field(asked, f"k{i}"), c))) for i, c in enumerate(key[:width]))
    assert isinstance(asked.type, RecordType)
    return Monomial(((asked, Rel(name, bag(asked.type))), *m.atoms), (*same, *m.factors), m.output)


def _only_different(answering: Answering) -> bool:
    """Whether the rows of an answer are keys of its groups that have rows: each k ↦ v in m collect [v > 0] · {k}.

    So are those of DISTINCT and of EXISTS; those of NOT EXISTS have none of what they look for.
    """
    if not isinstance(answering.term, Each):
        return False
    m = monomial(answering.body)
    positive = all(
        isinstance(f, Pred)
        and isinstance(f.condition, Call)
        and f.condition.function == ">"
        and isinstance(f.condition.args[1], Const)
        for f in m.factors
    )
    shown = m.output.key if isinstance(m.output, Sng) else m.output
    return positive and variables(shown) <= {answering.term.key}


def given_columns(s: Stratum) -> list[str]:
    """The columns of an answer's rows that are no columns of its groups."""
    key = set(s.group.columns)
    return [n for n, c in s.row if not key.issuperset(c.reads)]


def _gives_fractions(s: Stratum) -> bool:
    return any(_has_fractions(t) for _, t in _given(s))


def _given(s: Stratum) -> list[tuple[str, KeyType]]:
    names = given_columns(s)
    return [(n, t) for n, t in s.type.fields if n in names]


def _has_fractions(t: KeyType) -> bool:
    return any(_has_fractions(f) for _, f in t.fields) if isinstance(t, RecordType) else is_value(t)


def _names(m: Monomial) -> set[str]:
    return {s.name for _, s in m.atoms if isinstance(s, Rel)}


def _filters(m: Monomial) -> list[Term]:
    return [f.condition for f in m.factors if isinstance(f, Pred)]


def _sources(program: Program, names: set[str]) -> list[str]:
    """The sources that some relations are computed from."""
    out, todo = set[str](), list(names)
    while todo:
        name = todo.pop()
        if name in program.strata:
            todo += [r for m in program.strata[name].maps for r in m.reads]
        else:
            out.add(name)
    return sorted(out)


def _refused(
    what: str, hint: str = "leave mode='diffuse' out: exactly, it is kept"
) -> NotIncremental:
    return NotIncremental("DIFFUSE_SHAPE", what, hint=hint)
