"""Recursive materialization: which maps a map's deltas look up, and the statements that keep it.

    Δ of a map is a sum of monomials (rules.delta, then normalize). In each, take away the changed atoms;
    what remains falls into blocks that equalities hold together; each block is a map of its own, keyed by
    what the rest reads, with everything else summed away, and is maintained in the same way.

Equal blocks, up to the names of variables, are one map for all views. With the strategy `first-order` a block is
a single atom, so that only the inputs are arranged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from headwater.calculus.deep import with_room
from headwater.calculus.terms import (
    Call,
    Rel,
    Term,
    Var,
    subterms,
    variables,
)
from headwater.calculus.types import (
    RingType,
)
from headwater.plan.choose import Work
from headwater.plan.flow import Flow, row_columns
from headwater.plan.joining import Joining, Rest
from headwater.plan.maps import FIRST_ORDER, block_term, checked, map_of
from headwater.plan.program import (
    WEIGHT,
    AddUp,
    Expand,
    Kept,
    Lookup,
    Map,
    Product,
    Program,
    Relations,
    Statement,
)
from headwater.plan.together import multiplied, singles, untied
from headwater.rules.changes import MOST_SETS, Changed, changes_of
from headwater.rules.monomial import Monomial, summands
from headwater.rules.normalize import normalize

RULES = 4
"""By which rules new views are planned. A view that was planned by earlier ones keeps to them, and so its maps:

    0   all unions are written out; all changes of a product at once
    1   unions that multiply are relations (`plan.unions`); many changes of a product one by one (`rules.changes`)
    2   equal scalar subqueries of a row are one, and their averages are known not to fail; running sums of doubles carry
        what comes before
    3   in loops of which only inputs are kept, all that is equal to a column of what moves is looked up by that column, and what
        may find several rows last
    4   the map of a loop's collection is written blindly; a loop of sums is kept as its sums (`rules.affine`); what
        comes to a loop from outside is joined with it as rule 3 says for what moves in it
"""


MOST_AT_ONCE = 6
"""Relations of a map whose changes can be taken at once; with more they are taken one after another."""
T = TypeVar("T")


class NoSuchMap(Exception):
    """A statement would look up a map that is not kept."""


class Materializer:
    """The maps of a program, and the statements that keep them; it adds to the program that it is given."""

    def __init__(self, program: Program):
        self.program = program
        self.frozen = False
        self.work = Work()
        self.rules = RULES
        self.moving: Collection[str] = frozenset()
        """What moves in the loop whose maps are planned now: all of it is empty before the loop runs."""
        self._summands: dict[str, list[tuple[int, Monomial]]] = {}
        """What each map that was made here holds, as a sum of monomials."""

    @property
    def relations(self) -> Relations:
        return self.program.relations

    # --- maps ---------------------------------------------------------------------------------------------

    def keep(
        self,
        term: Term,
        lookup: Sequence[int],
        *,
        strategy: str,
        route: Sequence[int] | None = None,
        kind: str = "change",
        order: Sequence[tuple[int, bool, bool]] = (),
        extra: Sequence[tuple[str, RingType]] = (),
        note: str = "",
        level: int = 0,
    ) -> Map:
        """The map that holds a term, a sum of monomials with one key record; made unless there is one."""
        made = map_of(term, lookup, route, kind, order, extra, note, strategy, self.relations)
        if (
            level > made.level
        ):  # merged later than others that hold the same, so not shared with them
            made = replace(made, name=f"{made.name}{level}", level=level)
        known = self.program.maps.get(made.name)
        if known is not None:
            return known
        if self.frozen:
            raise NoSuchMap(made.name)
        found = summands(normalize(term))
        for _, m in found:
            checked(m)
        self._add(made, found, set(made.reads) - self.relations.static)
        return made

    def hold(self, made: Map, term: Term) -> None:
        """Adds a map that holds the rows of a source; one that is static is filled once, by a change."""
        self._add(made, summands(term), set(made.reads))

    def _add(self, made: Map, found: list[tuple[int, Monomial]], moving: Collection[str]) -> None:
        """Adds a map that holds a sum of monomials, with the maps that keeping it looks up."""
        self._summands[made.name] = found
        self.program.maps[made.name] = made
        changes: dict[str, tuple[Statement, ...]] = {}
        for name in sorted(moving):
            changes[name] = self._statements(made, {name})  # this makes the maps that it looks up
            self.work.add(self.program, changes[name])
        # Its filling looks up the same maps, but of inputs that never change it makes its own.
        filling = self._filling(made)
        self.program.kept[made.name] = Kept(changes, filling)  # after those that it looks up

    def complete(self) -> None:
        """Adds the statements of several changes, once all maps are there that they may look up."""
        for name in self._summands:
            m, kept = self.program.maps[name], self.program.kept[name]
            if kept.at_once is None and kept.products is None:
                made = replace(kept, at_once=self._at_once(m), products=self._products(m))
                self.program.kept[name] = made

    @with_room
    def _statements(self, target: Map, changed: Collection[str]) -> tuple[Statement, ...]:
        """How the changes of some relations, all at once, change a map."""
        return tuple(
            self._statement(target, sign, term, target.strategy)
            for sign, m in self._summands[target.name]
            for term in changes_of(m, changed, self._one_by_one(m, changed, target.strategy))
        )

    def _one_by_one(self, m: Monomial, names: Collection[str], strategy: str) -> bool:
        """Whether changes are taken one by one: always where only inputs are kept, as it asks for no other maps."""
        moving = sum(isinstance(s, Rel) and s.name in names for _, s in m.atoms)
        return strategy == FIRST_ORDER or (self.rules >= 1 and moving > MOST_SETS)

    @with_room
    def _filling(self, target: Map) -> tuple[Statement, ...]:
        """How a map is computed when it is new: of each monomial one atom is read whole, the rest is looked up."""
        out = []
        for sign, m in self._summands[target.name]:
            names = [s.name if isinstance(s, Rel) else "" for _, s in m.atoms]
            if any(n in self.moving for n in names):
                continue
            place = next((i for i, n in enumerate(names) if n not in self.relations.static), 0)
            whole = Changed(m, frozenset({m.atoms[place][0]}))
            out.append(self._statement(target, sign, whole, target.strategy))
        return tuple(out)

    def _at_once(self, target: Map) -> tuple[Statement, ...] | None:
        """The statements of any set of changes, by the maps that are kept; None if these are not enough.

        Terms of changes one by one are right for every set of them: what does not change is the same before and after.
        """
        moving = set(target.reads) - self.relations.static
        if not 1 < len(moving) <= MOST_AT_ONCE:
            return None
        return self._with_what_is_kept(lambda: self._statements(target, moving))

    def _products(self, target: Map) -> tuple[Product, ...] | None:
        """How relations of one row each change a map together, those of a monomial as one; None if they cannot."""
        terms = self._summands[target.name]
        names = singles(self.program).intersection(target.reads)
        names &= untied([m for _, m in terms]) if len(names) > 1 else set()
        if len(names) < 2:
            return None
        return self._with_what_is_kept(lambda: self._multiplied(target, terms, names))

    def _multiplied(
        self, target: Map, terms: list[tuple[int, Monomial]], names: set[str]
    ) -> tuple[Product, ...] | None:
        out = []
        for sign, m in terms:
            if not names.isdisjoint(s.name for _, s in m.atoms if isinstance(s, Rel)):
                made = multiplied(m, names)
                if made is None:
                    return None
                changed = Changed(made.monomial, frozenset({made.monomial.atoms[0][0]}))
                statement = self._statement(target, sign, changed, target.strategy)
                out.append(Product(made.factors, made.row, statement))
        return tuple(out)

    def _with_what_is_kept(self, plan: Callable[[], T | None]) -> T | None:
        """A plan that adds no map; None if it would have to."""
        self.frozen = True
        try:
            return plan()
        except NoSuchMap:
            return None
        finally:
            self.frozen = False

    # --- statements -----------------------------------------------------------------------------------------

    def _statement(self, target: Map, sign: int, of: Changed, strategy: str) -> Statement:
        """The statement of one term of a change: from the rows of its first change through look-ups of the rest."""
        checked(of.monomial)
        rest, flow = Rest(of, strategy, self.program.strata, self._directly(of)), Flow()
        flow.bind_row(rest.driver)
        weights: list[list[str]] = [[WEIGHT] for _ in rest.rings]
        changes: list[Statement] = []
        rest.take_ready(flow)
        while rest.waiting:
            block = rest.next_block(flow.known)
            if not rest.waiting:
                weights = self._added_up(target, flow, rest, block, weights)
            joined = self._join(flow, block)
            changes.extend(joined.changes)
            for w, a in zip(weights, joined.weights, strict=True):
                w.append(a)
            rest.take_ready(flow)
        for ring, w in zip(rest.rings, weights, strict=True):
            w.extend(flow.ring(ring))
        columns = tuple(flow.column(k) for k in rest.key)
        read = _columns_read(flow, [*columns, *(c for w in weights for c in w)])
        given = [(n, f"{rest.driver.name}.{n}") for n, _ in row_columns(rest.driver)]
        return Statement(
            target,
            rest.drives,
            tuple((n, c) for n, c in given if c in read),
            tuple(flow.steps),
            columns,
            tuple(tuple(w) for w in weights),
            sign,
            tuple(changes),
        )

    def _directly(self, of: Changed) -> bool:
        """Whether all is tied to what changes directly: where that moves in a loop, round after round, or is joined with what does.

        Elsewhere it would ask for more maps: of customers by their nation, where suppliers change that are of a nation.
        """
        drives = [s for v, s in of.monomial.atoms if v in of.change or self.rules >= 4]
        moves = any(isinstance(s, Rel) and s.name in self.moving for s in drives)
        return self.rules >= 3 and moves

    def _added_up(
        self, target: Map, flow: Flow, rest: Rest, block: Joining, weights: list[list[str]]
    ) -> list[list[str]]:
        """The factors of the ring values so far: where rows may be alike in all that the last block is joined by, their sums.

        So are the rows of an answer, which come in pairs, the old one and the new one, and rows of a source that are joined
        by something else than a key of theirs. What they differ in must be in factors, and these must be there; of the key
        only what the block brings may be missing.
        """
        inside = {v for v, _ in block.atoms}
        factors = [f for ring in rest.rings for f in ring]
        early = [k for k in rest.key if flow.reads(k)]
        late = [k for k in rest.key if not flow.reads(k)]
        if (
            not block.needed  # one entry is found for each row, if any
            or rest.filters
            or rest.arrays
            or any(block.absorbed)
            or not all(map(flow.reads, factors))
            or not all(variables(k) <= inside for k in late)
        ):
            return weights
        tied = [*(link.outer for link in block.links), *early]
        asked = {t for term in tied for t in subterms(term)}
        if all(t in asked for _, t in row_columns(rest.driver)):  # no two rows are alike, as a rule
            return weights
        by = tuple(dict.fromkeys(map(flow.column, tied)))
        stem = f"a{len(flow.steps)}"
        sums = tuple(
            (f"{stem}.{name}", t, (*w, *flow.ring(ring)))
            for (name, t), w, ring in zip(target.ring, weights, rest.rings, strict=False)
        )
        flow.add_up(by, sums)
        rest.rings = [[] for _ in rest.rings]
        return [[WEIGHT, name] for name, _, _ in sums]

    def driven(self, target: Map, sign: int, m: Monomial, by: Var) -> Statement:
        """The statement of a monomial from the rows of one of its atoms on."""
        return self._statement(target, sign, Changed(m, frozenset({by})), target.strategy)

    def _join(self, flow: Flow, block: Joining) -> _Joined:
        """Looks up a block in a version of it; its map is made if need be."""
        atoms, links, version = block.atoms, block.links, block.version
        by_inner = {link.inner: link for link in reversed(links)}
        guards = [Call("is_not_null", (k.inner,)) for k in by_inner.values() if not k.null_safe]
        part = block_term(
            atoms,
            (*block.within, *guards),
            tuple(by_inner),
            tuple(block.needed),
            tuple(map(tuple, block.absorbed)),
        )
        strategy = "recursive" if len(atoms) > 1 else "either"
        keys = list(part.keys)
        places = [keys.index(i) for i in by_inner]
        changes: tuple[Statement, ...] = ()
        if version == "change":
            into = map_of(part.term, places, None, "change", (), (), "", "change", self.relations)
        else:
            into = self.keep(part.term, places, strategy=strategy)
        if version != "old":
            changes = tuple(
                self._statement(
                    into, sign, Changed(m, frozenset(v for v, _ in m.atoms)), FIRST_ORDER
                )
                for sign, m in summands(normalize(part.term))
            )
        probes = []
        for name in into.lookup:
            inner = next(i for i in by_inner if part.keys[i] == name)
            probes.append((flow.column(by_inner[inner].outer), by_inner[inner].null_safe))
        stem = f"j{len(flow.steps)}"
        brings = []
        for term, column in part.keys.items():
            if term in block.needed or len(links) > len(by_inner):
                brings.append((column, f"{stem}.{column}"))
                flow.columns.setdefault(term, f"{stem}.{column}")
        used = dict.fromkeys(part.rings)
        weights = tuple((r, f"{stem}.{r}") for r in used)
        flow.steps.append(
            Lookup(
                into.name,
                tuple(p for p, _ in probes),
                tuple(s for _, s in probes),
                tuple(brings),
                weights,
                version,
            )
        )
        flow.known |= {v for v, _ in atoms}
        for link in links:  # a column that two things are equal to is looked up by one of them
            if by_inner[link.inner] is not link:
                op = "<=>" if link.null_safe else "="
                flow.filter(Call(op, (link.inner, link.outer)))
        return _Joined([f"{stem}.{r}" for r in part.rings], changes)


@dataclass(frozen=True)
class _Joined:
    weights: list[str]
    changes: tuple[Statement, ...]


def _columns_read(flow: Flow, outputs: Iterable[str]) -> set[str]:
    read = set(outputs)
    for step in flow.steps:
        match step:
            case Lookup():
                read |= set(step.keys)
            case Expand():
                read.add(step.array)
            case AddUp():
                read |= {*step.by, *(c for _, _, factors in step.sums for c in factors)}
            case _:
                used = step.scalar if hasattr(step, "scalar") else step.condition
                read |= set(used.reads)
    return read
