"""A query at each stage of its way from text to increments, as text.

`explain(term)` shows the type, the normal form, the split into state and answer with the merge of each
state, the deltas of each state down to degree 0 with their costs, and the shredded form. It only shows
what the rules give; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.calculus.check import type_of
from headwater.calculus.layout import layout
from headwater.calculus.terms import Term, change_name, relations
from headwater.calculus.types import Boxed, FunType, MapType, RecordType, Type, has_box
from headwater.errors import NotHomomorphic, NotShreddable
from headwater.rules.answer import merges, split, trace_lineage
from headwater.rules.cost import BagCost, Cost, bottom, cost, degree, show_cost, tcost
from headwater.rules.delta import chain, delta
from headwater.rules.normalize import normalize
from headwater.rules.shred import shred

ROWS, INNER, CHANGED = 1000, 10, 10
"""Sizes at which costs are shown: rows of an input, of an inner bag, and of a change."""
MOST_AT_ONCE = 3
"""Above so many occurrences of inputs, changes are taken one input after another."""
SIZES = f"costs at {ROWS} rows an input, {INNER} an inner bag, {CHANGED} a change"


def explain(term: Term) -> str:
    """All stages of a query."""
    return "\n\n".join(f"{title}\n{_indented(body)}" for title, body in sections(term))


def sections(term: Term) -> Iterator[tuple[str, str]]:
    """The stages, one after another, as (title, text); what is nested is split after shredding."""
    yield "TYPE", str(type_of(term))
    normal = normalize(term)
    yield "NORMAL FORM", layout(normal)
    parts = {"": normal}
    if has_box(type_of(term)) or any(has_box(r.type) for r in relations(term)):
        try:
            shredded = shred(normal)
        except NotShreddable as e:
            yield "SHREDDED", str(e)
        else:
            dictionaries = {p: normalize(d) for p, d in shredded.dictionaries().items()}
            parts = {"flat": normalize(shredded.flat), **dictionaries}
            yield "SHREDDED", "\n".join(f"{n} := {layout(t, indent=2)}" for n, t in parts.items())
    yield "STATE AND ANSWER", "\n".join(_split(n, t) for n, t in parts.items())
    yield "DELTAS", "\n".join([SIZES, *(_deltas(n, t) for n, t in parts.items())])


def _split(part: str, term: Term) -> str:
    names = [r.name for r in relations(term)]
    whole = split(term)
    lines = [f"{part}:"] if part else []
    for state, merge in zip(whole.states, merges(whole, names), strict=True):
        lines.append(f"h  {state.var.name} := {layout(state.term, indent=8)}")
        lines.append(f"   {state.var.name} : {state.var.type}")
        if isinstance(merge, NotHomomorphic):
            lines.append("   no merge of its own: maintained by its deltas")
        else:
            lines.append(f"   merge {merge.monoid}")
    lines.append(f"a  {layout(whole.answer, indent=3)}")
    traced = trace_lineage(whole)
    if traced != whole:
        lines.append("with the lineage of joins, a homomorphism where what is said below holds:")
        for state, merge in zip(traced.states, merges(traced, names), strict=True):
            lines.append(f"h  {state.var.name} := {layout(state.term, indent=8)}")
            reason = merge.what if isinstance(merge, NotHomomorphic) else f"merge {merge.monoid}"
            assumed = "" if isinstance(merge, NotHomomorphic) else ", ".join(merge.assumes)
            lines.append(f"   {reason}" + (f"   where {assumed}" if assumed else ""))
        lines.append(f"a  {layout(traced.answer, indent=3)}")
    return "\n".join(lines)


def _deltas(part: str, term: Term) -> str:
    lines = [f"{part}:"] if part else []
    for state in split(term).states:
        name, names = state.var.name, [r.name for r in relations(state.term)]
        if degree(state.term, names) > MOST_AT_ONCE:
            lines.append(f"{name}   {_measures(state.term, names)}, its inputs one after another:")
            for changed in sorted(names):
                d = delta(state.term, {changed})
                lines.append(f"δ{name} for Δ{changed}   {_measures(d, names)}")
                lines.append("   " + layout(normalize(d), indent=3))
            continue
        for order, d in enumerate(chain(state.term, names)):
            sign = ("", "δ", "δ²", "δ³")[order]
            lines.append(f"{sign}{name}   {_measures(d, names)}")
            lines.append("   " + layout(normalize(d), indent=3))
    return "\n".join(lines)


def _measures(term: Term, names: list[str]) -> str:
    c = cost(term, typical_sizes(term))
    return f"degree {degree(term, names)}, cost {show_cost(c)}, time {tcost(c)}"


def typical_sizes(term: Term) -> dict[str, Cost]:
    """A size for every input of a term: large for an input, small for a change."""
    return {
        r.name: _typical(r.type, CHANGED if r.name.startswith(change_name("")[0]) else ROWS)
        for r in relations(term)
    }


def _typical(t: Type, rows: int) -> Cost:
    match t:
        case MapType(key, _):
            return BagCost(rows, _typical(key, min(rows, INNER)))
        case RecordType(fields):
            return tuple(_typical(f, rows) for _, f in fields)
        case Boxed(content) | FunType(_, content):
            return _typical(content, min(rows, INNER))
        case _:
            return bottom(t)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
