"""Variance, covariance, regression, skewness and kurtosis: sums of powers that are kept, and answers over them.

A sum of powers is linear, so what is kept is n, Σx, Σx², ... and Σxy, and none of them is rounded: the powers of
doubles are exact, and integers and decimals are whole numbers of their last digit. What is shown is an answer of
`calculus.dyadic`: a formula over the sums in whole numbers, rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.calculus.dyadic import POWERS
from headwater.calculus.terms import Answer, Box, Record, Term, Unbox
from headwater.calculus.types import Base, KeyType
from headwater.language.build import ONE, exactly

TWO_ARGUMENTS = {
    "covar_pop",
    "covar_samp",
    "corr",
    "regr_count",
    "regr_avgx",
    "regr_avgy",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
    "regr_slope",
    "regr_intercept",
    "regr_r2",
}

Total = Callable[[Callable[[list[Term]], Term]], Callable[[Callable[[str], Term]], Term]]
"""Keeps the sum of a term over the arguments, and gives it back, as a number of a ring, from the group's value."""
Answered = Callable[[Callable[[str], Term]], Term]


def moments(name: str, types: list[KeyType], total: Total) -> Answered:
    """The answer of an aggregate of one or two numeric arguments, of which no one is NULL."""
    if name == "regr_count":
        count = total(lambda _: ONE)
        return lambda v: Box(count(v))
    kept = [total(lambda args, p=p: _power(args, p)) for p in POWERS[f"_{name}"]]  # type: ignore[misc]
    scales = tuple(t.scale if isinstance(t, Base) else 0 for t in types)

    def answer(v: Callable[[str], Term]) -> Term:
        sums = Record(tuple((f"s{i}", s(v)) for i, s in enumerate(kept)))
        return Answer(f"_{name}", scales if any(scales) else (), sums)

    return answer


def _power(args: list[Term], powers: tuple[int, ...]) -> Term:
    """xⁱ yʲ as a summand."""
    factors = [a for a, k in zip(args, powers, strict=True) for _ in range(k)]
    return Unbox(exactly(*factors)) if factors else ONE
