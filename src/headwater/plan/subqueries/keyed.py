"""What a subquery reads from outside as a key: monomials by equalities, and the terms that go with it.

A correlated subquery q(x) is a map looked up: q(x) = M @ e(x). Here are the laws that find e, and small functions
over rows, keys and columns that they share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Answer,
    Call,
    Const,
    Field,
    For,
    Not,
    Num,
    Pred,
    Record,
    Rel,
    Sng,
    Term,
    Unbox,
    Var,
    children,
    rebuild,
    relations,
    subterms,
    variables,
)
from headwater.calculus.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    Boxed,
    RecordType,
    is_key,
)
from headwater.plan.failures import raises
from headwater.plan.subqueries.asked import asks, calls_of
from headwater.rules.equalities import equated
from headwater.rules.monomial import Monomial, Signed, monomial, sum_of
from headwater.rules.rows import cells

ONE, NONE = Num(1, INT), Num(0, INT)
TRUE, FALSE = Const(True, BOOLEAN), Const(False, BOOLEAN)
LIVE = Const(0, BIGINT)

Fields = tuple[tuple[str, Term], ...]
Named = Callable[[Term], Term]
"""Gives a name to what is answered group by group: a closed answer in, the relation of its rows out."""


@dataclass(frozen=True)
class Keyed:
    """A subquery as a map that is looked up: `parts` is the map, `keys` are the terms outside that it is looked up by.

    q(x) = for y in S collect [y.k = x.a] · s    has  parts  for y in S collect {_key0: y.k ↦ s}   and  keys  x.a

    The monomials of `parts` read nothing from outside; their keys begin with the columns `_key0`, `_key1`, ...
    """

    parts: Signed
    keys: list[Term]


# --- keys -----------------------------------------------------------------------------------------------------------


def by_equalities(found: Signed, outer: set[Var]) -> Keyed | None:
    """for y in S collect [f(y) = e(x)] · s = (for y in S collect {f(y) ↦ s}) @ e(x), if all monomials say the same e."""
    parts: Signed = []
    shared: list[Term] | None = None
    for sign, m in found:
        bound = {v for v, _ in m.atoms}
        links: dict[Term, Term] = {}
        rest: list[Term] = []
        for f in m.factors:
            link = _link(f, bound, outer)
            if link is None:
                rest.append(f)
            elif link[0] in links:  # e(x) is known already as another column: the two are equal
                same = Pred(Call("<=>", (links[link[0]], link[1])))
                rest.extend((*link[2], *(() if links[link[0]] == link[1] else (same,))))
            else:
                links[link[0]] = link[1]
                rest.extend(link[2])
        whole = Monomial(m.atoms, tuple(rest), m.output)
        if variables(whole.build(whole.output)) & outer or not links:
            return None
        if shared is None:
            shared = list(links)
        if set(shared) != set(links):
            return None
        parts.append((sign, with_key(whole, [links[e] for e in shared])))
    return Keyed(parts, shared) if shared is not None else None


def _link(factor: Term, bound: set[Var], outer: set[Var]) -> tuple[Term, Term, list[Term]] | None:
    """(outside, inside, guards) of a filter that equates the two; None if it does not.

    A filter that reads the outside alone is taken for an equality with `true`, so that it becomes a part of the key.
    """
    if not isinstance(factor, Pred) or relations(factor) or any(calls_of(factor)):
        return None
    found = equated(factor, bound, outer)
    if found is not None:
        return found
    reads = variables(factor)
    return (factor.condition, TRUE, []) if reads and reads <= outer else None


def outer_rows(m: Monomial, keys: Sequence[Term]) -> Monomial:
    """The outer rows that a subquery is asked for: a monomial with the atoms that its keys read.

    for x in R, y in S collect [x.a > 0] · ¬q(x.k) · s  with the key x.k  gives  for x in R collect [x.a > 0]

    If the keys read several atoms, all that is joined is taken, since a pair of rows is there only where the join
    has it. Filters come along where they can, and only make fewer keys.
    """
    reads = frozenset[Var]().union(*(variables(k) for k in keys))
    for v, source in reversed(m.atoms):  # an inner bag comes with the row that has it
        reads |= variables(source) if v in reads else frozenset()
    atoms = tuple(a for a in m.atoms if a[0] in reads)
    if len(atoms) > 1:
        atoms = _without_subqueries(m)
    own = {v for v, _ in atoms}
    plain = tuple(
        f
        for f in m.factors
        if isinstance(f, Pred) and variables(f) <= own and not relations(f) and not any(calls_of(f))
    )
    return Monomial(atoms, plain, ONE)


def _without_subqueries(m: Monomial) -> tuple[tuple[Var, Term], ...]:
    """The atoms of a monomial that are no subqueries, and do not depend on one.

    for x in R, p in q(x.a), y in p.bag collect ...  leaves  for x in R

    The rows are wanted in order to ask a subquery for each of them, and this may be the very subquery that is
    left out: its answer cannot be known before it is asked.
    """
    dropped: set[Var] = set()
    for v, source in m.atoms:
        if asks(source) or variables(source) & dropped:
            dropped.add(v)
    return tuple(a for a in m.atoms if a[0] not in dropped)


def key_of(keys: Sequence[Term], more: Sequence[Term] = ()) -> Record:
    return Record(tuple((f"_key{i}", t) for i, t in enumerate((*keys, *more))))


def keyless(found: Signed) -> Signed:
    """A ring value as a map with one key that has no columns: n as {⟨⟩ ↦ n}, monomial by monomial."""
    out: Signed = []
    for s, m in found:
        if isinstance(m.output, Not):
            m = Monomial(m.atoms, (*m.factors, m.output), ONE)
        out.append((s, Monomial(m.atoms, m.factors, Sng(Record(()), m.output))))
    return out


def with_key(m: Monomial, keys: Sequence[Term]) -> Monomial:
    """A monomial with more columns before those of its key."""
    assert isinstance(m.output, Sng)
    return Monomial(m.atoms, m.factors, Sng(key_of(keys, cells(m.output.key)), m.output.value))


def value_of(m: Monomial) -> Term:
    assert isinstance(m.output, Sng)
    return m.output.value


def valued(m: Monomial, value: Term, keys: Sequence[Term] | None = None) -> Monomial:
    """A monomial with another value."""
    key = key_of(keys) if keys is not None else m.output.key  # type: ignore[union-attr]
    return Monomial(m.atoms, m.factors, Sng(key, value))


def beside_outer(
    keyed: Keyed, outer: Monomial, parts: Callable[[Term], Fields], zeros: Fields
) -> Term:
    """{e(x) ↦ ⟨n: 1, zeros⟩} over the outer rows, and {key ↦ ⟨n: 0, parts⟩} over the subquery: two counts for each key."""
    rows = [(s, valued(n, Record((("n", NONE), *parts(value_of(n)))))) for s, n in keyed.parts]
    beside = valued(outer, Record((("n", ONE), *zeros)), keyed.keys)
    return sum_of([*rows, (1, beside)])


def matching(p: Var, keys: Sequence[Term]) -> tuple[Term, ...]:
    """[p.key = e]: NULL is a key like others, since what NULL must not match was left out before."""
    return tuple(Pred(Call("<=>", (Field(p, f"_key{i}"), e))) for i, e in enumerate(keys))


# --- terms ------------------------------------------------------------------------------------------------------------


def only_reads(term: Term, own: set[Var]) -> bool:
    """Whether a term reads some variables, and no relation."""
    return variables(term) <= own and not relations(term) and not any(calls_of(term))


def is_row(body: Term, own: set[Var]) -> bool:
    """Whether the answer of a group is a row of scalars, or rows that an answer function gives."""
    m = monomial(body)
    bound = {v for v, _ in m.atoms}
    if not isinstance(m.output, Sng) or type_of(m.output.value) != INT or len(bound) > 1:
        return False
    if any(
        not isinstance(s, Answer) or not variables(s) <= own or relations(s) for _, s in m.atoms
    ):
        return False
    return all(only_reads(t, own | bound) for t in (*m.factors, m.output)) and not any(
        isinstance(f, Not) for f in m.factors
    )


def is_scalar_subquery(term: Term) -> bool:
    """Whether a scalar is computed from a ring value that reads relations."""
    if not is_key(type_of(term)) or isinstance(term, (Record, Call, Field)):
        return False
    whole = isinstance(type_of(term), Boxed)  # an array made of another is no number
    return any(
        (relations(c) if whole else reads_rows(c)) and not is_key(type_of(c))
        for c in children(term)
    )


def reads_rows(term: Term) -> bool:
    """Whether a term reads relations, or more of an array's elements than how many there are."""
    loops = [t for t in subterms(term) if isinstance(t, For) and isinstance(t.source, Unbox)]
    return bool(relations(term)) or any(t.body != ONE for t in loops)


def reads_single(term: Term, v: Var) -> bool:
    return any(t == Answer("single", (), v) for t in subterms(term))


def values_of(term: Term, own: set[Var], safe: bool = False, means: bool = False) -> list[Term]:
    """The largest scalars of a term that read some variables and nothing else.

    With `safe` those that cannot fail: what may is left to the rows that ask for it, if there are any. With `means`
    an average is known not to fail: earlier rules took it for a division like any other.
    """
    if not variables(term) & own:
        return []
    flat = is_key(t := type_of(term)) and not isinstance(t, RecordType)
    if flat and only_reads(term, own) and not (safe and _may_fail(term, means)):
        return [term]
    return [x for c in children(term) for x in values_of(c, own, safe, means)]


def _may_fail(term: Term, means: bool) -> bool:
    one = any(isinstance(s, Call) and s.function == "one_row" for s in subterms(term))
    return one or raises(_undivided(term) if means else term)


def _undivided(term: Term) -> Term:
    """The term with a / 1 in the place of a / n in case(n = 0, null, a / n): an average never divides by zero."""
    term = rebuild(term, tuple(_undivided(c) for c in children(term)))
    match term:
        case Call(
            "case", (Call("=", (n, Const(0))) as none, Const(None) as null, Call("/", (a, by), t))
        ):
            same = by == n or (isinstance(by, Call) and (by.function, by.args) == ("cast", (n,)))
            one = Const(1.0 if type_of(by) == DOUBLE else 1, type_of(by))
            return Call("case", (none, null, Call("/", (a, one), t))) if same else term
    return term


def columns_of(term: Term, outer: Iterable[Var]) -> list[Term]:
    """The columns of outer rows that a term reads."""
    rows = set(outer)
    if isinstance(term, Field) and term.term in rows:
        return [term]
    if isinstance(term, Var) and term in rows:
        return cells(term)
    return [c for x in children(term) if variables(x) & rows for c in columns_of(x, rows)]


def as_fields(read: Sequence[Term], row: Var, stem: str = "_", start: int = 1) -> dict[Var, Term]:
    """What to put in the place of outer variables, when a row has the columns that are read of them.

    With x.a and x.b read, x becomes {a: row._1, b: row._2}.
    """
    by: dict[Var, list[tuple[str, Term]]] = {}
    out: dict[Var, Term] = {}
    for i, c in enumerate(read):
        new = Field(row, f"{stem}{i + start}")
        if isinstance(c, Field) and isinstance(c.term, Var):
            by.setdefault(c.term, []).append((c.name, new))
        else:
            assert isinstance(c, Var), c
            out[c] = new
    return out | {x: Record(tuple(fields)) for x, fields in by.items()}


def plain_rows(m: Monomial) -> set[Var]:
    """The variables of a monomial that are rows of relations, or elements of arrays that such rows have."""
    out: set[Var] = set()
    for v, source in m.atoms:
        if isinstance(source, Rel) or (isinstance(source, Unbox) and is_ready(source, out)):
            out.add(v)
    return out


def is_ready(argument: Term, plain: set[Var]) -> bool:
    """Whether the argument of a subquery can be computed from rows of relations, with no other subquery asked before."""
    return variables(argument) <= plain and not any(calls_of(argument))
