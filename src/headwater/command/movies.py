"""The movie example: for every movie, the movies of the same genre or by the same director.

The answer is nested, so a new movie changes inner bags of rows that are already there. `story` shows
how: the shredded query keeps a flat table of labels and a dictionary of inner bags, and an arriving
movie adds to both, without touching what did not change.
"""

from __future__ import annotations

from typing import Any

from headwater.calculus import ring
from headwater.calculus.data import from_python, to_python
from headwater.calculus.interpret import interpret
from headwater.calculus.ring import LabelValue, RingMap, Value
from headwater.calculus.terms import Term, change_name
from headwater.language.comprehension import query
from headwater.language.schema import schemas
from headwater.plan.nested.shred import map_context, nest, shred
from headwater.rules.delta import delta
from headwater.rules.normalize import normalize
from headwater.show.explain import explain

MOVIES = schemas("M(name STRING, gen STRING, dir STRING)")
SHOWN = [
    ("Drive", "Drama", "Refn"),
    ("Skyfall", "Action", "Mendes"),
    ("Rush", "Action", "Howard"),
]
ARRIVING = [("Jarhead", "Drama", "Mendes")]


@query
def related(M: Any) -> Any:
    """Every movie with the names of those that share its genre or its director."""
    return [
        {
            "name": m.name,
            "related": [
                m2.name for m2 in M if m.name != m2.name and (m.gen == m2.gen or m.dir == m2.dir)
            ],
        }
        for m in M
    ]


def story() -> str:
    """The example from the query to the answer after a change, step by step."""
    term = normalize(related.read(MOVIES))
    old = {"M": from_python(MOVIES["M"], SHOWN)}
    change = {change_name("M"): from_python(MOVIES["M"], ARRIVING)}
    shredded = shred(term)
    before = nest(
        interpret(shredded.flat, old),
        map_context(shredded.context, lambda d: interpret(d, old)),
        shredded.type,
    )
    everything = {**old, **change}
    rows = interpret(delta(shredded.flat, {"M"}), everything)
    (path, dictionary), *_ = shredded.dictionaries().items()
    labels = [row[1] for row in interpret(shredded.flat, old)]
    added = interpret(delta(dictionary, {"M"}), everything)
    contents = {name_of(x): added(x) for x in labels if added(x)}
    flat = ring.add(interpret(shredded.flat, old), rows)
    context = map_context(shredded.context, lambda d: _after(d, everything))
    parts = [
        explain(term),
        "",
        "BEFORE",
        _table(before, shredded.type),
        "",
        f"{', '.join(ARRIVING[0])} arrives",
        f"  flat rows added            {_names(rows)}",
        f"  {path} of old rows changed  "
        + ", ".join(f"{name} +{sorted(bag)}" for name, bag in sorted(contents.items())),
        "",
        "AFTER",
        _table(nest(flat, context, shredded.type), shredded.type),
    ]
    return "\n".join(parts)


def name_of(label: LabelValue) -> str:
    """The movie whose inner bag a label names."""
    name: str = label.args[0][0]
    return name


def _after(d: Term, inputs: dict[str, Value]) -> Value:
    return ring.add(interpret(d, inputs), interpret(delta(d, {"M"}), inputs))


def _names(rows: RingMap) -> str:
    return ", ".join(sorted(f"{row[0]} {n:+d}" for row, n in rows.items()))


def _table(value: RingMap, t: Any) -> str:
    rows = sorted(to_python(t, value), key=lambda r: str(r["name"]))
    return "\n".join(f"  {r['name']:<10} {{{', '.join(sorted(r['related']))}}}" for r in rows)
