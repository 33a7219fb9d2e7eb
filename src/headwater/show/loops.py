"""Loops as text: what they start from, the step of a round, when they end, and which statements run at which round.

LOOP xfd0325b101   exact: every round is kept, as what it changes
  start  x := ∅
  step   x := (for e in edges collect ...) + (for r in x collect for e in edges collect ...)
  ends   when a round changes nothing; 10,000 rounds that do are an error
  last   the last commit moved 354 rows, at rounds 1 to 3: 40, 312, 2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from headwater.calculus.notation.layout import layout
from headwater.calculus.terms import Record, Repeat, Term, Zero
from headwater.plan.maps import term_of_loop
from headwater.plan.program import Loop, Program

Rounds = Mapping[str, Sequence[tuple[int, int]]]
"""Of each loop the rounds that were visited, with the rows that moved."""
MOST_ROUNDS = 12
"""How many rounds of the last commit are shown."""


def loop_lines(program: Program, loop: Loop) -> list[str]:
    """What a loop is."""
    term = term_of_loop(program, loop)
    return [
        f"LOOP {loop.name}   {_mode(loop)}",
        *_parts("start", term.var.name, term.start),
        *_parts("step", term.var.name, term.step),
        f"  ends   {_end(loop, term)}",
        *_left_out(loop),
    ]


def _mode(loop: Loop) -> str:
    if loop.diffuse is None:
        return "exact: every round is kept, as what it changes"
    how = loop.diffuse.how
    one = f"; fractions of rows within {how.near:g} are one to groups" if how.near else ""
    return (
        f"diffuse: a row is told when it is further than {how.cut:g} from what was told last{one}"
    )


def _left_out(loop: Loop) -> list[str]:
    """The terms of the product rule that a loop in diffuse mode leaves out."""
    said = loop.diffuse.left_out if loop.diffuse else ()
    return [f"  {'' if i else 'left out':<8} {line}" for i, line in enumerate(said)]


def _parts(title: str, var: str, term: Term) -> Iterator[str]:
    """What a collection becomes; each one, of a loop that has several."""
    parts = term.fields if isinstance(term, Record) else (("", term),)
    for i, (name, part) in enumerate(parts):
        becomes = f"{var}.{name} := " if name else f"{var} := "
        said = "∅" if isinstance(part, Zero) else layout(part, indent=9 + len(becomes))
        yield f"  {title if not i else '':<7}{becomes}{said}"


def _end(loop: Loop, term: Repeat) -> str:
    if loop.diffuse is not None:
        return f"when no row has to be told, or after {loop.diffuse.how.rounds:,} rounds of an increment"
    if loop.times is not None:
        rounds = "1 round" if loop.times == 1 else f"{loop.times:,} rounds"
        return f"after {rounds}, or when a round changes nothing"
    over = f"{loop.limit:,} rounds that do are an error"
    if term.within is not None:
        w = term.within
        return f"when no {w.column} by ({', '.join(w.by)}) moves by more than {w.epsilon:g} in a round; {over}"
    return f"when a round changes nothing; {over}"


def round_by_round(loop: Loop | None, relation: str) -> str:
    """How often a statement of a map of a loop runs."""
    if loop is None:
        return ""
    inside = relation in loop.relations
    if loop.diffuse is not None:
        return ", in every round in which it moves" if inside else ""
    return ", round by round" if inside else ", once, against all rounds"


def last_rounds(loop: Loop, rounds: Rounds) -> list[str]:
    """The rounds of the last commit, where it touched the loop."""
    found = rounds.get(loop.name)
    if not found:
        return []
    steady = all(b == a + 1 for (a, _), (b, _) in pairwise(found))
    if steady and len(found) > 1:
        said = f"{found[0][0]} to {found[-1][0]}: " + ", ".join(
            f"{n:,}" for _, n in found[:MOST_ROUNDS]
        )
    else:
        said = ", ".join(f"{at}: {n:,}" for at, n in found[:MOST_ROUNDS])
    more = ", ..." if len(found) > MOST_ROUNDS else ""
    moved = sum(n for _, n in found)
    rows = "1 row" if moved == 1 else f"{moved:,} rows"
    at = "round" if len(found) == 1 else "rounds"
    return [f"  last   the last commit moved {rows}, at {at} {said}{more}"]
