"""Terms up to the names of bound variables, so that equal maps are one map.

`canonical` names every bound variable by the place of its binder; `sorted_monomial` also puts the atoms and
factors of a comprehension over inputs in an order of their own. Terms with the same form hold the same map.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from headwater.calculus.notation.text import show
from headwater.calculus.terms import (
    For,
    Pred,
    Rel,
    Term,
    Times,
    Var,
    binders,
    children,
    rebind,
    rebuild,
    substitute,
    variables,
)
from headwater.rules.equalities import equality
from headwater.rules.monomial import Monomial


def canonical(term: Term) -> Term:
    """The term with its bound variables named by place: equal up to renaming is equal after this."""
    count = 0
    taken = {v.name for v in variables(term)}

    def visit(t: Term, named: Mapping[Term, Var]) -> Term:
        nonlocal count
        if isinstance(t, Var):
            return named.get(t, t)
        bound = binders(t)
        if not bound:
            return rebuild(t, tuple(visit(c, named) for c in children(t)))
        *outer, body = children(t)
        t = rebuild(t, (*(visit(c, named) for c in outer), body))
        new = []
        for b in bound:
            while f"x{count}" in taken:
                count += 1
            new.append(Var(f"x{count}", b.type))
            count += 1
        return rebind(t, tuple(new), visit(body, {**named, **dict(zip(bound, new, strict=True))}))

    return visit(term, {})


def sorted_monomial(m: Monomial) -> Term:
    """A comprehension over inputs with its atoms by name and its factors by text: one form for many spellings."""
    atoms = in_order(m.atoms)
    names: dict[Var, Term] = {v: Var(f"y{i}", v.type) for i, (v, _) in enumerate(atoms)}
    factors = sorted((oriented(substitute(f, names)) for f in once(m.factors)), key=show)
    output = substitute(m.output, names)
    body: Term = Times((*factors, output)) if factors else output
    for var, source in reversed(atoms):
        new = names[var]
        assert isinstance(new, Var)
        body = For(new, substitute(source, names), body)
    return body


def in_order(atoms: Iterable[tuple[Var, Term]]) -> list[tuple[Var, Term]]:
    """Relations by name, and then what depends on their rows, as it stands."""
    inputs = [(v, s) for v, s in atoms if isinstance(s, Rel)]
    rest = [(v, s) for v, s in atoms if not isinstance(s, Rel)]
    return [*sorted(inputs, key=lambda a: a[1].name), *rest]


def oriented(factor: Term) -> Term:
    """[a = b] with its sides in the order of their text: the other way round it is the same."""
    found = equality(factor) if isinstance(factor, Pred) else None
    if found is None or show(found.left) <= show(found.right):
        return factor
    assert isinstance(factor, Pred)
    return Pred(rebuild(factor.condition, found.sides[::-1]))


def once(factors: Iterable[Term]) -> list[Term]:
    """Filters said once: [e] · [e] = [e]."""
    seen: list[Term] = []
    for f in factors:
        if not (isinstance(f, Pred) and f in seen):
            seen.append(f)
    return seen


def digest(*parts: str) -> str:
    """A short name for some text."""
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:10]
