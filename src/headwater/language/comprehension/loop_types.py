"""The types of what goes round in a loop: one type for the start and for every step, of flat rows.

The type of the start is made wider where Python sees no difference (whole numbers of any size, None beside anything), and
the step's rows are fitted to it; what does not fit is refused with the column. Rows of a loop are records of scalars: a
collection of scalars goes round as records with one field, `value`, and nothing else sees that.
"""

from __future__ import annotations

from headwater.calculus.terms import Field, For, Record, Sng, Term, Var
from headwater.calculus.types import (
    INTEGRAL,
    VOID,
    Base,
    Boxed,
    KeyType,
    ListType,
    RecordType,
    bag,
    is_numeric,
)
from headwater.errors import NotIncremental
from headwater.language.comprehension.operators import ONE, coerce, joined, kind

ONLY = "value"
"""The field of a loop's rows that are scalars to everybody else."""

DOUBLES = "begin with a double: 1.0 for 1, float(x) for x"
DECIMALS = (
    "a decimal that goes round keeps its places: begin with one that has them all, as `sum` has"
)
LIKE = "the step gives rows like those that it is given"


def fitted(start: KeyType, step: KeyType, path: str = "") -> KeyType:
    """The type of the start, or a wider one of its kind, that the step's values have, too."""
    match start, step:
        case RecordType(fields), RecordType(others):
            if {n for n, _ in fields} != {n for n, _ in others}:
                what = f"the columns of the step are {_listed(step)}, and of the start {_listed(start)}"
                raise NotIncremental("RECURSION_TYPES", what, hint=LIKE)
            given = dict(others)
            inner = ((n, t, f"{path}.{n}" if path else n) for n, t in fields)
            return RecordType(tuple((n, fitted(t, given[n], p)) for n, t, p in inner))
        case Base(), Base() if (both := _wider(start, step)) is not None:
            return both
        case _ if start == step:
            return start
        case _:
            whose = f"the column `{path}` is" if path else "a row is"
            what = f"{whose} {kind(start)} at the start, and {kind(step)} after a step"
            raise NotIncremental("RECURSION_TYPES", what, hint=_hint(start, step))


def _wider(a: Base, b: Base) -> Base | None:
    """The type of both where values of the start stay what they are: of one kind, and with the start's places."""
    both = joined(a, b)
    if a == b or VOID in (a, b) or not isinstance(both, Base):
        return both if isinstance(both, Base) else None
    if not (is_numeric(a) and is_numeric(b)):
        return None
    kinds = {_kind(a), _kind(b)}
    grows = kinds in ({"whole"}, {"floating"}) or (a.name == "decimal" and both.scale == a.scale)
    return both if both == a or grows else None


def _kind(t: Base) -> str:
    floating = t.name in ("float", "double")
    return "whole" if t.name in INTEGRAL else "floating" if floating else t.name


def _hint(a: KeyType, b: KeyType) -> str:
    if not (is_numeric(a) and is_numeric(b)):
        return LIKE
    return DECIMALS if "decimal" in (a.name, b.name) else DOUBLES  # type: ignore[union-attr]


def _listed(t: RecordType) -> str:
    return ", ".join(n for n, _ in t.fields)


def round_row(t: KeyType) -> RecordType:
    """The type of a loop's rows: a record, of one field where queries see a scalar."""
    return t if isinstance(t, RecordType) else RecordType(((ONLY, t),))


def going_in(rows: Term, t: KeyType) -> Term:
    """Rows as they go round."""
    typed = coerce(rows, bag(t))
    if isinstance(t, RecordType):
        return typed
    value = Var("value", t)
    return For(value, typed, Sng(Record(((ONLY, value),)), ONE))


def coming_out(rows: Term, t: KeyType) -> Term:
    """Rows that go round as queries see them."""
    if isinstance(t, RecordType):
        return rows
    row = Var("row", round_row(t))
    return For(row, rows, Sng(Field(row, ONLY), ONE))


# --- flat rows -----------------------------------------------------------------------------------


def check_flat(t: KeyType, whose: str) -> None:
    """The rows of a loop hold no collections."""
    if (path := _nested(t)) is not None:
        column = f"the column `{path}` of {whose}" if path else f"a row of {whose}"
        raise NotIncremental(
            "RECURSION_NESTED",
            f"{column} is a collection, and what goes round is flat",
            hint="let the loop compute rows with keys, and collect them after it",
        )


def _nested(t: KeyType, path: str = "") -> str | None:
    """Where in a row a collection sits."""
    match t:
        case Boxed() | ListType():
            return path
        case RecordType(fields):
            inner = (_nested(f, f"{path}.{n}" if path else n) for n, f in fields)
            return next((p for p in inner if p is not None), None)
        case _:
            return None
