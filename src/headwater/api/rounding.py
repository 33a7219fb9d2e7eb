"""Sums of doubles that are rounded at every step, as earlier versions of Headwater made them: `rebuild` reads such views again."""

from __future__ import annotations

from headwater.calculus.check import type_of
from headwater.calculus.terms import Answer, Term, Unbox, subterms
from headwater.calculus.types import DOUBLE, REAL
from headwater.calculus.windows import Window

EXACTLY_TOLD = {"sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp"}
"""Window functions that add up, and did so with rounding once."""


def rounds_sums(term: Term) -> bool:
    """Whether a term has sums of doubles that are rounded at every step, as an earlier version made them."""
    for t in subterms(term):
        match t:
            case Unbox() if type_of(t) == REAL:
                return True
            case Answer("window", (_, windows, *_)) if any(_rounds(w) for w in windows):
                return True
    return False


def _rounds(w: Window) -> bool:
    return w.returns == DOUBLE and w.function in EXACTLY_TOLD and not w.exact
