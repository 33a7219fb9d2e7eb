"""Aggregates for each of a set of keys, as the values of one map.

In a comprehension one groups by taking the different keys and, for each, what has that key:

    [(k, sum(x.n for x in xs if x.k == k)) for k in {x.k for x in xs}]

    each k ↦ v in m collect s(v, q(k)) = each k ↦ ⟨v, u⟩ in ⟨m, Q⟩ collect [v > 0] · s(v, u)     where q(k) = Q @ k

so that every group is one entry with all its sums, and nothing is joined.

Where a group's bag is only taken apart again, row by row, there is no need of the group:

    each k ↦ v in m collect (for x in v.a collect s(k, x)) = for k ↦ x in m.a collect s(k, x)
"""

from __future__ import annotations

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Add,
    Box,
    Call,
    Each,
    Field,
    For,
    Pred,
    Record,
    Sng,
    Term,
    Times,
    Var,
    Zero,
    apart,
    children,
    fresh,
    names_in,
    rebuild,
    relations,
    replaced,
    substitute,
    subterms,
    variables,
)
from headwater.calculus.types import INT, ProductType, is_scalar
from headwater.plan.subqueries.keyed import LIVE, ONE, by_equalities, key_of, keyless, value_of
from headwater.rules.monomial import Monomial, Signed, monomial, sum_of, summands
from headwater.rules.rows import cells, row_like

ROWS = "n"
"""The component that counts the rows which have a key."""


def groups_again(term: Term) -> bool:
    """Whether different keys are taken, and something is computed for each."""
    return any(
        isinstance(t, Each) and t.value.type == INT and relations(t.body) for t in subterms(term)
    )


def each_fused(term: Each) -> Term | None:
    """each k ↦ v in m collect s(v, q(k)) = each k ↦ ⟨v, u⟩ in ⟨m, Q⟩ collect [v > 0] · s(v, u)."""
    if not isinstance(term, Each) or term.value.type != INT:
        return None
    key = term.key
    rows = summands(term.source)
    if any(not isinstance(m.output, Sng) for _, m in rows):
        return None
    found = {q: parts for q in _asked(term.body, key) if (parts := _by(q, key)) is not None}
    if not found:
        return None
    names = {q: f"q{i}" for i, q in enumerate(found)}
    zeros: dict[str, Term] = {ROWS: Zero(INT), **{n: Zero(type_of(q)) for q, n in names.items()}}
    values: list[tuple[int, Monomial, dict[str, Term]]] = []
    for name, parts in {ROWS: rows, **{names[q]: parts for q, parts in found.items()}}.items():
        for sign, m in parts:
            same = next((x for x in values if x[0] == sign and _same(x[1], m, name, x[2])), None)
            if same is None:
                values.append((sign, m, {name: value_of(m)}))
            else:
                same[2][name] = substitute(value_of(m), _renaming(m, same[1]))
    groups: Signed = []
    for sign, m, given in values:
        assert isinstance(m.output, Sng)
        value = Record(tuple((n, given.get(n, zero)) for n, zero in zeros.items()))
        groups.append((sign, Monomial(m.atoms, m.factors, Sng(m.output.key, value))))
    source = sum_of(groups)
    v = Var(term.value.name, type_of(source).value)
    by: dict[Term, Term] = {q: Field(v, n) for q, n in names.items()}
    body = replaced(term.body, {**by, term.value: Field(v, ROWS)})
    live = Pred(Call(">", (Box(Field(v, ROWS)), LIVE)))
    return Each(key, v, source, Times((live, body)))


def _same(known: Monomial, m: Monomial, name: str, given: dict[str, Term]) -> bool:
    """Whether two monomials go over the same rows with the same key, so that they can be one with two values."""
    if name in given or [t for _, t in known.atoms] != [t for _, t in m.atoms]:
        return False
    assert isinstance(known.output, Sng) and isinstance(m.output, Sng)
    by = _renaming(m, known)
    factors = {substitute(f, by) for f in m.factors}
    return factors == set(known.factors) and substitute(m.output.key, by) == known.output.key


def _renaming(m: Monomial, known: Monomial) -> dict[Var, Term]:
    return {v: w for (v, _), (w, _) in zip(m.atoms, known.atoms, strict=True)}


def _asked(term: Term, key: Var) -> list[Term]:
    """The sums in a body that read inputs, and of the group only its key."""
    if not relations(term):
        return []
    if isinstance(term, Box) and variables(term) == {key} and is_scalar(type_of(term.term)):
        return [term.term]
    return [q for c in children(term) for q in _asked(c, key)]


def _by(q: Term, key: Var) -> Signed | None:
    """A value q(k) as monomials by key; None if equalities do not say all columns of the key, each once."""
    keyed = by_equalities(keyless(summands(q)), {key})
    if keyed is None or len(keyed.keys) != len(cells(key)) or set(keyed.keys) != set(cells(key)):
        return None
    places = [keyed.keys.index(c) for c in cells(key)]
    out: Signed = []
    for sign, m in keyed.parts:
        assert isinstance(m.output, Sng)
        columns = cells(m.output.key)
        row = row_like(key.type, [columns[i] for i in places])
        out.append((sign, Monomial(m.atoms, m.factors, Sng(row, m.output.value))))
    return out


# --- bags that are taken apart -------------------------------------------------------------------------------------


def each_opened(term: Each) -> Term | None:
    """each k ↦ v in m collect (for x in v.a collect s) = for the rows of m collect s, with their k and x.

    The same of `each x ↦ w in v.a`, by k and x together. That the group has rows goes without saying then.
    """
    if not isinstance(term, Each) or not isinstance(term.value.type, ProductType):
        return None
    k, v, body = term.key, term.value, monomial(term.body)
    rows = summands(_apart_from(term.source, names_in(term.body)))
    values = [m.output.value if isinstance(m.output, Sng) else None for _, m in rows]
    if any(sign < 0 for sign, _ in rows) or not all(isinstance(x, Record) for x in values):
        return None
    counts = [n for n, _ in v.type.fields if all(dict(x.fields)[n] == ONE for x in values)]  # type: ignore[union-attr]
    alive = [Pred(Call(">", (Box(Field(v, n)), LIVE))) for n in counts]
    left = Monomial(body.atoms, tuple(f for f in body.factors if f not in alive), body.output)
    inner = left.build(left.output)
    source = _only_bag(left, v)
    if source is None:
        return None
    made: list[Term] = []
    for _, m in rows:
        assert isinstance(m.output, Sng) and isinstance(m.output.value, Record)
        bag = dict(m.output.value.fields)[source.name]
        if isinstance(left.output, Each):
            x = Var(fresh("x", names_in(bag) | names_in(m.output.key)), type_of(bag).key)
            bag = For(x, bag, Sng(key_of([*cells(m.output.key), *cells(x)]), ONE))
            made.append(m.build(bag))
        else:
            made.append(m.build(substitute(replaced(inner, {source: bag}), {k: m.output.key})))
    whole = made[0] if len(made) == 1 else Add(tuple(made))
    if not isinstance(left.output, Each):
        return whole
    each = left.output
    both = Var(fresh("k", names_in(inner)), type_of(whole).key)
    columns, width = cells(both), len(cells(k))
    by = {
        k: row_like(k.type, columns[:width]),
        each.key: row_like(each.key.type, columns[width:]),
    }
    answer = Times((*left.factors, each.body)) if left.factors else each.body
    return Each(both, each.value, whole, substitute(answer, by))


def _only_bag(body: Monomial, v: Var) -> Field | None:
    """The bag v.a, if a body takes that apart and reads nothing else of v."""
    sources = [s for _, s in body.atoms if v in variables(s)]
    rest = [*body.factors, body.output]
    if not body.atoms and isinstance(body.output, Each):
        sources, rest = [body.output.source], [*body.factors, body.output.body]
    if len(sources) != 1 or any(v in variables(t) for t in rest):
        return None
    (source,) = sources
    return source if isinstance(source, Field) and source.term == v else None


def _apart_from(term: Term, names: set[str]) -> Term:
    renamed = apart(term, names)
    return rebuild(renamed, tuple(_apart_from(c, names) for c in children(renamed)))
