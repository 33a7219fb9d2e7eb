"""Rows that are there only while a loop has rows: what is kept near its fixpoint must not keep itself alive by them.

In diffuse mode X* goes on from what it was. Where a row of the loop says that there is another, two of them in a circle would
stay when what they came from has gone. So what gives rows by rows of the loop must be *covered*: without any row of the loop the
same keys are given. Monomials are read as conditions for a key, and one law says when P is enough for Q:

    P ⟹ Q              each atom of Q is one of P, P says all that Q asks, and both give the same key
    P ∧ ¬s, P ∧ s ⟹ Q   together they give all keys of P: the two branches of P LEFT JOIN s

A condition on what moves with the loop is like an atom of it: it falls this way or that by what X* was. So of each column is known
what of the loop it is made of: values, counts of rows, or a fraction that is settled. A sum of a group whose rows others count
(⟨n: 0, v: …⟩) gives no row, and may read what it likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from headwater.calculus.terms import (
    Box,
    Call,
    Const,
    Each,
    Field,
    Num,
    Pred,
    Record,
    Rel,
    Sng,
    Term,
    Var,
    Zero,
    children,
    replaced,
    substitute,
    subterms,
    variables,
)
from headwater.calculus.types import INT, ProductType
from headwater.plan.maps import output_of
from headwater.rules.equalities import equality
from headwater.rules.monomial import Monomial, monomial

if TYPE_CHECKING:
    from headwater.plan.answers import Answering


class Made(Enum):
    """What of the loop a column is made of."""

    VALUE = auto()
    """A fraction of its rows, which moves with every round."""
    COUNT = auto()
    """How many rows it has."""
    SETTLED = auto()
    """A fraction that stays until an input touches its group: rows that are equal in it are one by design (`near=`)."""


Columns: TypeAlias = Mapping[str, frozenset[Made]]
"""What the columns of a row are made of, those of the loop alone; a row that is a scalar has the column ""."""
NOTHING: frozenset[Made] = frozenset()


@dataclass(frozen=True)
class Absent:
    """Nothing is found at a key: no atoms under these conditions give these cells the values `at`."""

    looked_for: Monomial
    at: tuple[Term, ...]


@dataclass(frozen=True)
class Given:
    """When a key is given: by which atoms, under which conditions, and where nothing is found."""

    atoms: tuple[tuple[Var, Term], ...]
    conditions: tuple[Term, ...]
    absent: tuple[Absent, ...]
    key: tuple[Term, ...]


class Sustained:
    """What of a loop has rows only while X* has some, found answer by answer."""

    def __init__(self, values: Mapping[str, Iterable[str]]):
        """`values` has for each collection its columns that are fractions."""
        self.names = set(values)
        self.columns: dict[str, Columns] = {
            name: {c: frozenset({Made.VALUE}) for c in of} for name, of in values.items()
        }
        self.lacking: dict[str, tuple[list[Given], Monomial]] = {}
        """Answers that have keys for which nothing is found: when there are such keys, and what would be found."""
        self.fresh = 0

    def answer(self, answering: Answering, name: str) -> None:
        """Notes what the rows of an answer are there by, and what its columns are made of."""
        giving = [m for _, m in answering.monomials if _gives(m)]
        looked_for = _looked_for(answering)
        key, value = self._group(answering)
        body = monomial(answering.body)
        of = {answering.v: value} | ({answering.k: key} if answering.k is not None else {})
        one = not isinstance(answering.term, Each)  # it has one row, whatever there is
        if looked_for is not None and not one:
            self.lacking[name] = [g for m in giving for g in self._read(m, None)], looked_for
        else:
            asked = [f for f in body.factors if one or not _is_there(f, answering.v)]
            if any(_decides(f, of) for f in asked) or (not one and self.alone(giving)):
                self.names.add(name)
        cells = _named(body.output.key if isinstance(body.output, Sng) else body.output)
        # The rows of an answer that has them in order are read from a bag, whatever there is in it.
        all_of = frozenset[Made]().union(*key.values(), *value.values())
        self.columns[name] = {n: all_of if body.atoms else _made_of(t, of) for n, t in cells}

    def settled(self, answering: Answering, name: str, fractions: Iterable[str]) -> None:
        """Notes an answer that stays until an input touches its group; that the loop has rows at all is taken for granted."""
        self.columns[name] = {c: frozenset({Made.SETTLED}) for c in fractions}
        given = [g for _, m in answering.monomials if _gives(m) for g in self._read(m, None)]
        if given and all(map(self._decided, given)):
            self.names.add(name)

    def alone(self, found: Sequence[Monomial], key: Sequence[int] | None = None) -> bool:
        """Whether a row of some monomials is there by the loop alone; `key` are the places of a row's key."""
        given = [g for m in found for g in self._read(m, key)]
        every = self._resolved(given)
        covers = [g for g in every if not g.absent and not self._of_loop(g)]
        return any(self._of_loop(g) and not any(_enough(g, c) for c in covers) for g in given)

    def keyed(self, found: Sequence[Monomial], key: Sequence[int]) -> bool:
        """Whether rows have a key that is made of values of the loop."""
        return any(
            Made.VALUE in _made_of(k, self._at(g.atoms))
            for m in found
            for g in self._read(m, key)
            for k in g.key
        )

    def _of_loop(self, g: Given) -> bool:
        rows = any(isinstance(s, Rel) and s.name in self.names for _, s in g.atoms)
        return rows or self._decided(g)

    def _decided(self, g: Given) -> bool:
        """Whether what moves with the loop decides if a key is given."""
        at = self._at(g.atoms)
        return any(_decides(f, at) for f in g.conditions) or any(
            any(_decides(f, self._at(a.looked_for.atoms)) for f in a.looked_for.factors)
            or any(isinstance(x, Rel) and x.name in self.names for _, x in a.looked_for.atoms)
            or any(Made.VALUE in _made_of(t, at) for t in a.at)
            for a in g.absent
        )

    # --- what columns are made of -----------------------------------------------------------------------------------

    def _at(self, atoms: Iterable[tuple[Var, Term]]) -> dict[Var, Columns]:
        return {v: self.columns.get(s.name, {}) for v, s in atoms if isinstance(s, Rel)}

    def _group(self, answering: Answering) -> tuple[Columns, Columns]:
        """What the key and the components of an answer's groups are made of."""
        key, value = dict[str, frozenset[Made]](), dict[str, frozenset[Made]]()
        v = answering.v.type
        types = dict(v.fields) if isinstance(v, ProductType) else {"": v}
        for _, m in answering.monomials:
            at = self._at(m.atoms)
            counts = any(map(self._of_loop, self._read(m, None)))
            keyed = isinstance(m.output, Sng) and answering.k is not None
            if keyed:
                for n, t in _named(m.output.key):
                    key[n] = key.get(n, NOTHING) | _made_of(t, at)
            for n, t in _named(m.output.value if keyed else m.output):
                if not _is_zero(t):
                    count = {Made.COUNT} if counts and types.get(n) == INT else NOTHING
                    value[n] = value.get(n, NOTHING) | _made_of(t, at) | count
        return key, value

    # --- monomials as conditions -----------------------------------------------------------------------------------

    def _read(self, m: Monomial, places: Sequence[int] | None) -> Iterator[Given]:
        """When a monomial gives a key; an answer of keys for which nothing is found is read as what it says."""
        cells, _ = output_of(m.output)
        key = cells if places is None else [cells[i] for i in places]
        kept = [(v, s) for v, s in m.atoms if not (isinstance(s, Rel) and s.name in self.lacking)]
        lacking = [(v, s.name) for v, s in m.atoms if isinstance(s, Rel) and s.name in self.lacking]
        for chosen in product(*(self.lacking[n][0] for _, n in lacking)):
            atoms, absent, conditions = list(kept), list[Absent](), list[Term]()
            cell: dict[Term, Term] = {}
            for (v, name), one in zip(lacking, chosen, strict=True):
                g = self._apart(one)
                atoms += g.atoms
                conditions += g.conditions
                absent += [*g.absent, Absent(self.lacking[name][1], g.key)]
                cell |= {Field(v, f"_key{i}"): t for i, t in enumerate(g.key)}
            these = {v for v, _ in lacking}
            told = [replaced(f, cell) for f in m.factors]  # how often a key is there says nothing
            conditions += [f for f in told if isinstance(f, Pred) or not variables(f) & these]
            yield Given(
                tuple(atoms),
                tuple(conditions),
                tuple(absent),
                tuple(replaced(t, cell) for t in key),
            )

    def _apart(self, g: Given) -> Given:
        """The same with variables that no other has."""
        self.fresh += 1
        names: dict[Term, Term] = {v: Var(f"{v.name}#{self.fresh}", v.type) for v, _ in g.atoms}
        return Given(
            tuple((names[v], s) for v, s in g.atoms),  # type: ignore[misc]
            tuple(substitute(f, names) for f in g.conditions),
            tuple(
                Absent(a.looked_for, tuple(substitute(t, names) for t in a.at)) for a in g.absent
            ),
            tuple(substitute(t, names) for t in g.key),
        )

    def _resolved(self, given: Sequence[Given]) -> list[Given]:
        """All that is given, and what two of them give together: P of P ∧ ¬s and P ∧ s."""
        out, todo = list(given), [g for g in given if g.absent]
        while todo:
            g = todo.pop()
            for i, a in enumerate(g.absent):
                rest = replace(g, absent=(*g.absent[:i], *g.absent[i + 1 :]))
                if rest not in out and any(_enough(self._with(rest, a), q) for q in out):
                    out.append(rest)
                    todo = [x for x in out if x.absent]
        return out

    def _with(self, g: Given, a: Absent) -> Given:
        """The same where something is found."""
        m = a.looked_for
        cells, _ = output_of(m.output)
        found = self._apart(Given(m.atoms, m.factors, (), tuple(cells)))
        ties = (Pred(Call("<=>", pair)) for pair in zip(found.key, a.at, strict=True))
        conditions = (*g.conditions, *found.conditions, *ties)
        return Given((*g.atoms, *found.atoms), conditions, g.absent, g.key)


def _enough(p: Given, q: Given) -> bool:
    """P ⟹ Q: whether a key is given by one wherever it is by another."""
    known = _Known(p.conditions)
    choices = [[w for w, s in p.atoms if s == source] for _, source in q.atoms]
    for chosen in product(*choices):
        at: dict[Term, Term] = {v: w for (v, _), w in zip(q.atoms, chosen, strict=True)}
        if (
            all(known.same(substitute(a, at), b) for a, b in zip(q.key, p.key, strict=True))
            and all(known.says(substitute(f, at)) for f in q.conditions)
            and all(
                any(
                    a.looked_for == b.looked_for
                    and all(
                        known.same(substitute(x, at), y) for x, y in zip(a.at, b.at, strict=True)
                    )
                    for b in p.absent
                )
                for a in q.absent
            )
        ):
            return True
    return False


class _Known:
    """What follows of some conditions by their equalities."""

    def __init__(self, conditions: Iterable[Term]):
        self.conditions = set(conditions)
        self.classes: list[set[Term]] = []
        self.there: list[Term] = []
        """What is not NULL."""
        for f in self.conditions:
            match f:
                case Pred(Call("is_not_null", (x,))):
                    self.there.append(x)
                case Pred(Call("=" | "<=>" as op, (a, b))):
                    mine = [c for c in self.classes if a in c or b in c]
                    others = [c for c in self.classes if c not in mine]
                    self.classes = [*others, {a, b}.union(*mine)]
                    self.there += [a, b] if op == "=" else []

    def same(self, a: Term, b: Term) -> bool:
        return a == b or any(a in c and b in c for c in self.classes)

    def says(self, condition: Term) -> bool:
        if condition in self.conditions:
            return True
        match condition:
            case Pred(Call("is_not_null", (x,))):
                return any(self.same(x, y) for y in self.there)
            case Pred(Call("=" | "<=>" as op, (a, b))):
                there = op == "<=>" or any(self.same(a, y) for y in self.there)
                return there and self.same(a, b)
        return False


# --- groups that count --------------------------------------------------------------------------------------------------


def _looked_for(answering: Answering) -> Monomial | None:
    """What an answer counts that has the keys whose count is 0, if that is one thing: NOT EXISTS."""
    count = Box(Field(answering.v, "c"))
    asked = any(
        isinstance(t, Call) and t.function == "=" and t.args[0] == count
        for t in subterms(answering.body)
    )
    counted = [m for _, m in answering.monomials if not _gives(m)]
    if not asked or len(counted) != 1:
        return None
    (m,) = counted  # under names that are the same whoever asks
    names: dict[Term, Term] = {v: Var(f"found{i}", v.type) for i, (v, _) in enumerate(m.atoms)}
    return Monomial(
        tuple((names[v], s) for v, s in m.atoms),  # type: ignore[misc]
        tuple(substitute(f, names) for f in m.factors),
        substitute(m.output, names),
    )


def _is_there(f: Term, v: Var) -> bool:
    """Whether a filter is [n > 0] or [v > 0], which says that a group has rows."""
    match f:
        case Pred(Call(">", (Box(Field(x, "n") | x), Const(0)))):
            return x == v
    return False


def _gives(m: Monomial) -> bool:
    """Whether a monomial counts for its group, so that this has a row."""
    value = m.output.value if isinstance(m.output, Sng) else m.output
    count = dict(value.fields).get("n") if isinstance(value, Record) else None
    return count is None or not _is_zero(count)


def _is_zero(t: Term) -> bool:
    return isinstance(t, Zero) or (isinstance(t, Num) and t.value == 0)


# --- what terms are made of ----------------------------------------------------------------------------------------------


def _named(row: Term) -> tuple[tuple[str, Term], ...]:
    return row.fields if isinstance(row, Record) else (("", row),)


def _made_of(term: Term, at: Mapping[Var, Columns]) -> frozenset[Made]:
    """What a term is made of, where these variables have such columns."""
    out, todo, seen = NOTHING, [term], set[Term]()
    while todo:
        t = todo.pop()
        if t in seen:
            continue
        seen.add(t)
        match t:
            case Field(Var() as v, name) if v in at:
                out |= at[v].get(name, NOTHING)
            case Var() if t in at:
                out = out.union(*at[t].values())
            case _:
                todo += children(t)
    return out


def _decides(f: Term, at: Mapping[Var, Columns]) -> bool:
    """Whether a factor is a condition on what moves with the loop; of what is settled may be asked if it is there, or another."""
    if not isinstance(f, Pred):
        return False
    made = _made_of(f, at)
    there = isinstance(f.condition, Call) and f.condition.function == "is_not_null"
    return bool(made & {Made.VALUE, Made.COUNT}) or (
        Made.SETTLED in made and not there and equality(f) is None
    )
