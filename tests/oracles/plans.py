"""Plans as text: the maps that are kept for a view, and the statements that each change runs on them.

`plan` is all that knows how a program is asked; the lines are those of `explain`. Names of maps and answers are digests of
what they hold: in a plan they are numbered in the order in which they are read, and `Plan.names` has the numbers with the
digests, since a map on disk is found by its name.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import headwater as hw
from headwater.language.comprehension import Query
from headwater.plan.analysis import changes_of, maps_of, strata_of
from headwater.plan.program import Map, Program, Stored, View
from headwater.show.explain import _order_text, _reading, _statement_text

DIGEST = re.compile(r"(?<![a-z0-9_])([a-z]+)[0-9a-f]{10}\d*(?![a-z0-9_])")
_numbers = count()


@dataclass(frozen=True)
class Plan:
    """The lines of a plan, and its names."""

    lines: list[str]
    names: dict[str, str]


def plan(db: hw.Database, name: str) -> Plan:
    """The plan of the only view of a database."""
    return _numbered(list(_lines(db, name)))


def _lines(db: hw.Database, name: str) -> Iterator[str]:
    program = db.program
    view = program.views[name]
    where = view.stratum or (view.rows.map.name if isinstance(view.rows, Stored) else "")
    yield f"kept {view.strategy}" + (f", read from {where}" if where else "")
    for part in view.parts:
        owners = f", owners {part.owners.name}" if part.owners else ""
        yield f"part {part.path or 'top'} in {part.map.name} by ({', '.join(part.label)}){owners}"
    for s in (program.strata[n] for n in strata_of(program, view)):
        keys = ", ".join(n for n, _ in s.group.key)
        yield f"answer {s.name}, level {s.level}, by ({keys}) from {', '.join(m.name for m in s.maps)}; {_reading(s)}"
        for b in s.from_bags:
            distinct = "distinct " if b.distinct else ""
            yield f"  {b.column} := {b.function} of {distinct}({', '.join(b.items)}) in {b.map.name}"
        if s.ranked is not None:
            yield from (f"  {n} := {w.text()}" for n, w in s.ranked.windows)
        yield from (f"  row {n} = {c.sql}" for n, c in s.row)
        yield from (f"  where {c.sql}" for c in s.where)
    for m in _needed(program, view):
        order = f", in the order of {_order_text(m)}" if m.order else ""
        yield f"map {m.name}, {m.kind}, by ({', '.join(m.lookup)}){order}" + (
            f": {m.note}" if m.note else ""
        )
        if m.reads:
            yield f"  holds {m.text}"
        for relation, statement in changes_of(program, [m]):
            yield f"  Δ{relation}: {_statement_text(statement)}"


def _needed(program: Program, view: View) -> list[Map]:
    """The maps of a view, and beside them those that count what is an error, with what they look up."""
    found = {m.name: m for m in maps_of(program, view)}
    roots = list(program.checks.values())
    while roots:
        m = roots.pop(0)
        if m.name not in found:
            found[m.name] = m
            for _, s in changes_of(program, [m]):
                roots += [program.maps[n] for n in sorted(s.reads)]
    return list(found.values())


def _numbered(lines: list[str]) -> Plan:
    """The same with numbers for digests, by the letters that they stand behind."""
    names: dict[str, str] = {}
    counts: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        whole, stem = found.group(), found.group(1)
        if whole not in names:
            counts[stem] = counts.get(stem, 0) + 1
            names[whole] = f"{stem.upper()}{counts[stem]}"
        return names[whole]

    return Plan([DIGEST.sub(number, line) for line in lines], names)


def comprehension(body: str, inputs: list[str]) -> Query:
    """A query from the text of the expression that it gives, over those inputs that it names."""
    named = [n for n in inputs if re.search(rf"\b{n}\b", body)]
    text = f"@query\ndef q({', '.join(named)}):\n    return {body}\n"
    name = f"<plan {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    outside = {"query": hw.query}
    exec(compile(text, name, "exec"), outside)
    made = outside["q"]
    assert isinstance(made, Query)
    return made
