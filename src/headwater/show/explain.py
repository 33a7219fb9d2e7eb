"""A query at each stage of its way from text to increments, as text.

`explain(term)` shows the type, the normal form, the split into state and answer with the merge of each
state, the deltas of each state down to degree 0 with their costs, and the shredded form. This is theory: what the
rules say of a query. It decides nothing, and a view may be kept otherwise.

`explain_view` shows how a view is kept: its strata, its maps and the statements that change them, as they are run.
`explain_can` says what would be kept for a query that is not defined.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.calculus.check import type_of
from headwater.calculus.deep import with_room
from headwater.calculus.notation.layout import layout
from headwater.calculus.terms import Term, change_name, relations
from headwater.calculus.types import Boxed, FunType, MapType, RecordType, Type, has_box
from headwater.errors import NotHomomorphic, NotShreddable
from headwater.plan.advice import ViewBounds
from headwater.plan.analysis import COSTS, changes_of, cost_class, loops_of, maps_of, strata_of
from headwater.plan.maps import term_of
from headwater.plan.nested.shred import shred
from headwater.plan.program import (
    ENDS,
    AddUp,
    Bind,
    Expand,
    Filter,
    Lookup,
    Map,
    Program,
    Statement,
    Stratum,
    View,
)
from headwater.plan.scalar import Scalar
from headwater.rules.delta import chain, delta
from headwater.rules.normalize import normalize
from headwater.show.bounds import bounds_text
from headwater.show.drawing import Explanation, draw
from headwater.show.loops import Rounds, last_rounds, loop_lines, round_by_round
from headwater.theory.degree_cost import BagCost, Cost, bottom, cost, degree, show_cost, tcost
from headwater.theory.split import merges, split, trace_lineage

ROWS, INNER, CHANGED = 1000, 10, 10
"""Sizes at which costs are shown: rows of an input, of an inner bag, and of a change."""
MOST_AT_ONCE = 3
"""Above this number of occurrences of inputs, changes are taken one input after another."""
THEORY = "in theory; what a view runs is what the explain of the view shows"
SIZES = f"costs at {ROWS} rows an input, {INNER} an inner bag, {CHANGED} a change"


@with_room
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
    yield "STATE AND ANSWER", "\n".join([THEORY, *(_split(n, t) for n, t in parts.items())])
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


# --- views of a database ------------------------------------------------------------------------------------


@with_room
def explain_view(
    program: Program,
    view: View,
    asked: str,
    why: str,
    bounds: ViewBounds | None = None,
    rounds: Rounds | None = None,
) -> Explanation:
    """How a view is kept: what was decided, its strata, their maps, what each change does to them, and what grows.

    `rounds` are those that the last commit visited of each loop.
    """
    lines = [f"VIEW {view.name}   strategy {asked}", f"  {why}"]
    cost = cost_class(program, view.name)
    lines.append(f"  cost class {cost}: {COSTS[cost]}")
    if view.strategy == "recompute":
        lines.append("  recomputed from its inputs at every increment")
        lines += _bounds(bounds)
        return Explanation("\n".join(lines), "")
    lines += _on_spark(program, view)
    lines += _planned(view)
    for loop in loops_of(program, view):
        lines += ["", *loop_lines(program, loop), *last_rounds(loop, rounds or {})]
    strata = [program.strata[n] for n in strata_of(program, view)]
    inside = program.inside()
    shared: dict[str, list[str]] = {}
    for other in program.views.values():
        for m in maps_of(program, other):
            shared.setdefault(m.name, []).append(other.name)
    for s in strata:
        key = ", ".join(n for n, _ in s.group.key) or "one group"
        at = f", at the rounds of {inside[s.name].name}" if s.name in inside else ""
        lines += ["", f"STRATUM {s.level}   {s.name} answers groups by ({key}){at}"]
        lines.append(f"  {_reading(s)}")
        lines += [f"  h      {m.name}, {m.note or 'a map'}: {_merged(m)}" for m in s.maps]
        lines += [f"  a      {n} = {c.sql}" for n, c in s.row]
        lines += [f"         where {c.sql}" for c in s.where]
    for m in maps_of(program, view):
        others = [v for v in shared.get(m.name, []) if v != view.name]
        lines += ["", f"MAP {m.name}   {m.note or 'looked up by deltas'}"]
        lines.append(
            f"  holds  {layout(term_of(program, m), indent=9)}"
            if m.reads
            else "  holds  what was answered last"
        )
        search = ", ".join(m.lookup) or "nothing: all of it is read"
        lines.append(
            f"  looked up by {search}; a {m.kind} map"
            + (f", in the order of {_order_text(m)}" if m.order else "")
        )
        if others:
            lines.append(f"  shared with {', '.join(others)}")
        for relation, statement in changes_of(program, [m]):
            d = degree(delta(term_of(program, m), {relation}), [relation])
            when = round_by_round(inside.get(m.name), relation)
            lines.append(f"  Δ{relation} (degree {d}{when}): {_statement_text(statement)}")
    lines += _bounds(bounds)
    growing = frozenset() if bounds is None else bounds.growing
    picture = draw(program, view, maps_of(program, view), [s.name for s in strata], growing)
    return Explanation("\n".join(lines), picture)


def _bounds(bounds: ViewBounds | None) -> list[str]:
    return [] if bounds is None else ["", bounds_text(bounds)]


@with_room
def explain_can(
    known: Program,
    program: Program,
    name: str,
    kept: str,
    why: str,
    bounds: ViewBounds | None = None,
) -> str:
    """What would be kept for a view, beside what is known already, and what of it would grow."""
    view = program.views[name]
    cost, maps = cost_class(program, name), maps_of(program, view)
    new = [m for m in maps if m.name not in known.maps]
    strata = [program.strata[n] for n in strata_of(program, view)]
    lines = [
        f"CAN be kept, by the strategy {kept}",
        f"  {why}",
        f"  cost class {cost}: {COSTS[cost]}",
    ]
    lines.append(f"  {len(new)} new maps, {len(maps) - len(new)} shared, {len(strata)} strata")
    lines += _on_spark(program, view)
    for loop in loops_of(program, view):
        lines += [f"  {line}" for line in loop_lines(program, loop)]
    for s in strata:
        key = ", ".join(n for n, _ in s.group.key) or "one group"
        lines.append(f"  STRATUM {s.level}  groups by ({key})   {_reading(s)}")
    for m in new:
        by = ", ".join(m.lookup) or "nothing"
        lines.append(
            f"  MAP {m.note or 'looked up by deltas'}, by {by}, of {', '.join(m.reads) or 'answers'}"
        )
    return "\n".join([*lines, *_bounds(bounds)])


def _on_spark(program: Program, view: View) -> list[str]:
    """The expressions that have no form here; each change that reaches one costs a job of Spark."""
    scalars: list[Scalar] = []
    for name in strata_of(program, view):
        s = program.strata[name]
        scalars += [*s.where, *(c for _, c in s.row), *([s.weight] if s.weight else [])]
    for _, statement in changes_of(program, maps_of(program, view)):
        scalars += [x.scalar for x in statement.steps if isinstance(x, Bind)]
        scalars += [x.condition for x in statement.steps if isinstance(x, Filter)]
    found = dict.fromkeys(c.sql for c in scalars if c.tree is None)
    return [f"  only Spark evaluates {text}: a job for each increment" for text in found]


def _planned(view: View) -> list[str]:
    """What the query of a view became, and by which passes."""
    lines = ["", f"PLANNED   {view.form}"] if view.form else []
    of: dict[str, list[str]] = {}
    for what, name in view.passes:
        of.setdefault(what, []).append(name)
    return [*lines, *(f"  {what}: {', '.join(names)}" for what, names in of.items())]


def _merged(m: Map) -> str:
    """How a change is merged into a map that a stratum is answered from."""
    key = ", ".join(n for n, _ in m.key) or "its one entry"
    rings = " and ".join(f"{n} {t}" for n, t in m.ring)
    newest = "the newest value is read" if m.kind == "value" else "all changes are summed"
    return f"merge adds {rings} by ({key}), and {newest}"


def _reading(s: Stratum) -> str:
    """What of a touched group is read to answer it."""
    said = []
    if s.from_bags:
        whole = sorted({b.function for b in s.from_bags if b.function not in ENDS})
        said.append(
            f"reads whole groups for {', '.join(whole)}" if whole else "reads ends of groups"
        )
    r = s.ranked
    if r is not None and r.limit is not None:
        said.append(f"reads the first {r.limit + r.offset} rows of a group")
    elif r is not None and r.reads_part:
        said.append(
            {
                "local": f"reads {r.reach.before + r.reach.after} rows around a change",
                "suffix": "reads a group from a change on",
                "session": "reads the sessions around a change",
            }[r.reach.kind]
        )
    elif r is not None:
        names = ", ".join(dict.fromkeys(w.function for _, w in r.windows)) or "OFFSET"
        said.append(f"reads whole groups for {names}")
    return "; ".join(said) or "reads the group's value"


def _order_text(m: Map) -> str:
    return ", ".join(f"{n} descending" if down else n for n, down, _ in m.order)


def _statement_text(s: Statement) -> str:
    parts = []
    for step in s.steps:
        match step:
            case Lookup():
                what = {"change": "Δ{}", "new": "new {}", "old": "{}"}[step.version].format(
                    step.into
                )
                parts.append(f"look up {what} by ({', '.join(step.keys)})")
            case Expand():
                parts.append(f"for each of {step.array}")
            case AddUp(by, _):
                parts.append(f"add up by ({', '.join(by)})")
            case Bind(name, scalar):
                parts.append(f"{name} := {scalar.sql}")
            case Filter(condition):
                parts.append(f"[{condition.sql}]")
    ring = ", ".join(" · ".join(r) for r in s.ring)
    parts.append(f"{'-' if s.sign < 0 else ''}{{({', '.join(s.key)}) ↦ {ring}}}")
    return "; ".join(parts)
