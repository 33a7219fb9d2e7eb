"""Variance, covariance, regression, skewness and kurtosis: sums of powers that are kept, and formulas over them.

A sum of powers is linear, so what is kept is n, Σx, Σx², ... and Σxy. What is shown are central moments. From raw sums
alone they would lose their digits where values are large beside their spread; so integers and decimals are added up
exactly, as whole numbers (a decimal counts in units of its last digit), and before anything is rounded the sums are
moved to the whole number q that is nearest to the mean:

    Σ(x - q)ᵏ  from  Σxᵏ, ..., n      by   Σxⁱ(x - q)ʲ⁺¹ = Σxⁱ⁺¹(x - q)ʲ - q Σxⁱ(x - q)ʲ

Then all is done in doubles, with d = mean - q less than one. Doubles have no exact sums: there q is 0, and a spread that
is less than the rounding of its sum counts as none. NULLs and groups of one row give what they give in Spark.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from itertools import pairwise

from headwater.calculus.check import type_of
from headwater.calculus.scalars import as_decimal
from headwater.calculus.terms import Call, Const, Term, Unbox
from headwater.calculus.types import BIGINT, DOUBLE, INTEGRAL, Base, KeyType, decimal
from headwater.language.build import ONE, ZERO
from headwater.language.sql.coerce import case_of, cast_to

ONE_ARGUMENT = {
    "stddev_samp",
    "stddev_pop",
    "var_samp",
    "var_pop",
    "skewness",
    "kurtosis",
}
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
WHOLE = decimal(38, 0)
NOTHING = Const(None, DOUBLE)
EPSILON = 1e-15
INFINITE = Const(math.inf, DOUBLE)
"""Below it are all numbers but NaN."""

Total = Callable[[Callable[[list[Term]], Term]], Callable[[Callable[[str], Term]], Term]]
"""Keeps the sum of a term over the arguments, and gives it back from the group's value."""
Answered = Callable[[Callable[[str], Term]], Term]


def moments(name: str, types: list[KeyType], total: Total) -> Answered:
    """The answer of an aggregate of one or two numeric arguments, of which no one is NULL."""
    exact = all(_is_exact(t) for t in types)
    powers: list[tuple[int, ...]] = [(0, 0), *_pairs(name)]
    if len(types) == 1:
        top = {"skewness": 3, "kurtosis": 4}.get(name, 2)
        powers = [(k,) for k in range(top + 1)]
    kept = {p: total(lambda args, p=p: _power(args, p, exact)) for p in powers}  # type: ignore[misc]

    def answer(v: Callable[[str], Term]) -> Term:
        sums = {p: s(v) for p, s in kept.items()}
        units = [t.scale if exact and isinstance(t, Base) else 0 for t in types]
        return _FORMULAS[name](_Moments(sums, units, exact))

    return answer


def _pairs(name: str) -> list[tuple[int, int]]:
    """Which sums Σ xⁱ yʲ an aggregate of two arguments needs; x is the first in the text."""
    both = [(1, 0), (0, 1), (1, 1)]
    # regr_...(y, x): the dependent variable comes first, so `x` here is Spark's y.
    needs = {
        "regr_count": [],
        "regr_avgx": [(0, 1)],
        "regr_avgy": [(1, 0)],
        "regr_sxx": [(0, 1), (0, 2)],
        "regr_syy": [(1, 0), (2, 0)],
        "regr_slope": [*both, (0, 2)],
        "regr_intercept": [*both, (0, 2)],
        "regr_r2": [*both, (2, 0), (0, 2)],
        "corr": [*both, (2, 0), (0, 2)],
    }
    return needs.get(name, both)


def _is_exact(t: KeyType) -> bool:
    """Whether the numbers of a type are whole numbers of some unit that decimals have room for."""
    if not isinstance(t, Base):
        return False
    return t.name in INTEGRAL or (t.name == "decimal" and t.precision + t.scale + 2 <= 38)


def _power(args: list[Term], powers: tuple[int, ...], exact: bool) -> Term:
    """xⁱ yʲ as a summand."""
    units = [_units(a) if exact else cast_to(a, DOUBLE) for a in args]
    factors = [u for u, k in zip(units, powers, strict=True) for _ in range(k)]
    return Unbox(reduce(lambda a, b: Call("*", (a, b)), factors)) if factors else ONE


def _units(arg: Term) -> Term:
    """A number as a whole number of units of its last digit."""
    t = type_of(arg)
    assert isinstance(t, Base)
    precision, scale = as_decimal(t)
    if scale == 0:
        return cast_to(arg, decimal(precision, 0))
    up = Const(Decimal(10**scale), decimal(scale + 1, 0))
    return cast_to(Call("*", (arg, up)), decimal(precision, 0))


def _double(term: Term) -> Term:
    return cast_to(term, DOUBLE)


def _number(value: float) -> Term:
    return Const(float(value), DOUBLE)


def _minus(a: Term, b: Term) -> Term:
    return Call("-", (a, b))


def _times(*factors: Term) -> Term:
    return reduce(lambda a, b: Call("*", (a, b)), factors)


def _over(a: Term, b: Term) -> Term:
    return Call("/", (a, b))


class _Moments:
    """Central moments of one or two variables from the sums of a group, as terms of type double."""

    def __init__(self, sums: dict[tuple[int, ...], Term], units: list[int], exact: bool):
        self.sums, self.units, self.exact = sums, units, exact
        self.count = sums[tuple(0 for _ in units)]
        self.n = _double(self.count)

    def raw(self, k: int, of: int) -> Term:
        """Σxᵏ of one of the variables."""
        return self.sums[tuple(k if i == of else 0 for i in range(len(self.units)))]

    def center(self, of: int) -> Term:
        """q: the whole number nearest to the mean."""
        return Call("/", (self.raw(1, of), self.count), WHOLE)

    def about_center(self, k: int, of: int) -> Term:
        """Σ(x - q)ᵏ as a double."""
        if not self.exact:
            return _double(self.raw(k, of))
        row = [cast_to(self.raw(i, of), WHOLE) for i in range(k + 1)]
        for _ in range(k):
            row = [_minus(b, _times(self.center(of), a)) for a, b in pairwise(row)]
        return _double(row[0])

    def offset(self, of: int) -> Term:
        """d = mean - q."""
        return _over(self.about_center(1, of), self.n)

    def scaled(self, term: Term, power: int) -> Term:
        """A moment in the units of the data again."""
        return _over(term, _number(10.0**power)) if power else term

    def mean(self, of: int) -> Term:
        """The mean."""
        return self.scaled(_over(_double(self.raw(1, of)), self.n), self.units[of])

    def second(self, of: int, in_units: bool = False) -> Term:
        """Σ(x - mean)², which is not negative."""
        d, square = self.offset(of), self.about_center(2, of)
        spread = _minus(square, _times(self.n, d, d))
        if self.exact:
            spread = Call("greatest", (_number(0), spread))
        else:
            rounding = _times(_number(EPSILON), square)
            tiny = Call("and", (Call("<=", (spread, rounding)), Call("<", (spread, INFINITE))))
            spread = case_of([tiny], [_number(0), spread])
        return spread if in_units else self.scaled(spread, 2 * self.units[of])

    def third(self) -> Term:
        """Σ(x - mean)³ in units."""
        d, t2 = self.offset(0), self.about_center(2, 0)
        tail = _times(_number(2), self.n, d, d, d)
        body = _minus(self.about_center(3, 0), _times(_number(3), d, t2))
        return Call("+", (body, tail))

    def fourth(self) -> Term:
        """Σ(x - mean)⁴ in units."""
        d, t2, t3 = self.offset(0), self.about_center(2, 0), self.about_center(3, 0)
        body = _minus(self.about_center(4, 0), _times(_number(4), d, t3))
        body = Call("+", (body, _times(_number(6), d, d, t2)))
        return _minus(body, _times(_number(3), self.n, d, d, d, d))

    def mixed(self) -> Term:
        """Σ(x - mean)(y - mean)."""
        xy = self.sums[(1, 1)]
        if self.exact:
            # Σ(x - p)(y - q) = (Σxy - p Σy) - q (Σx - p n)
            p, q = self.center(0), self.center(1)
            half = _minus(cast_to(xy, WHOLE), _times(p, self.raw(1, 1)))
            rest = _minus(cast_to(self.raw(1, 0), WHOLE), _times(p, cast_to(self.count, WHOLE)))
            xy = _minus(half, _times(q, rest))
        spread = _minus(_double(xy), _times(self.n, self.offset(0), self.offset(1)))
        return self.scaled(spread, sum(self.units))

    def unless(self, *pairs: tuple[Term, Term], otherwise: Term) -> Term:
        """NULL of no rows, then the first pair whose condition holds, else the last term."""
        none = Call("=", (self.count, ZERO))
        conditions = [none, *(c for c, _ in pairs)]
        return case_of(conditions, [NOTHING, *(r for _, r in pairs), otherwise])

    def of_one(self) -> tuple[Term, Term]:
        """NULL of one row."""
        return Call("=", (self.count, Const(1, BIGINT))), NOTHING


def _none(term: Term) -> Term:
    return Call("=", (term, _number(0)))


def _variance(sample: bool, root: bool) -> Callable[[_Moments], Term]:
    def formula(m: _Moments) -> Term:
        by = _minus(m.n, _number(1)) if sample else m.n
        value = _over(m.second(0), by)
        shown = Call("sqrt", (value,)) if root else value
        return m.unless(*([m.of_one()] if sample else []), otherwise=shown)

    return formula


def _covariance(sample: bool) -> Callable[[_Moments], Term]:
    def formula(m: _Moments) -> Term:
        by = _minus(m.n, _number(1)) if sample else m.n
        return m.unless(*([m.of_one()] if sample else []), otherwise=_over(m.mixed(), by))

    return formula


def _skewness(m: _Moments) -> Term:
    spread = m.second(0, in_units=True)
    below = _times(spread, Call("sqrt", (spread,)))
    shown = _over(_times(Call("sqrt", (m.n,)), m.third()), below)
    return m.unless((_none(spread), NOTHING), otherwise=shown)


def _kurtosis(m: _Moments) -> Term:
    spread = m.second(0, in_units=True)
    shown = _minus(_over(_times(m.n, m.fourth()), _times(spread, spread)), _number(3))
    return m.unless((_none(spread), NOTHING), otherwise=shown)


def _correlation(m: _Moments) -> Term:
    x, y = m.second(0), m.second(1)
    flat = Call("or", (_none(x), _none(y)))
    roots = _times(Call("sqrt", (x,)), Call("sqrt", (y,)))
    return m.unless((flat, NOTHING), otherwise=_over(m.mixed(), roots))


def _slope(m: _Moments) -> Term:
    x = m.second(1)
    return m.unless((_none(x), NOTHING), otherwise=_over(m.mixed(), x))


def _intercept(m: _Moments) -> Term:
    x = m.second(1)
    slope = _over(m.mixed(), x)
    shown = _minus(m.mean(0), _times(slope, m.mean(1)))
    return m.unless((_none(x), NOTHING), otherwise=shown)


def _r2(m: _Moments) -> Term:
    y, x, xy = m.second(0), m.second(1), m.mixed()
    shown = _over(_times(xy, xy), _times(x, y))
    return m.unless((_none(x), NOTHING), (_none(y), _number(1)), otherwise=shown)


_FORMULAS: dict[str, Callable[[_Moments], Term]] = {
    "stddev_samp": _variance(sample=True, root=True),
    "stddev_pop": _variance(sample=False, root=True),
    "var_samp": _variance(sample=True, root=False),
    "var_pop": _variance(sample=False, root=False),
    "skewness": _skewness,
    "kurtosis": _kurtosis,
    "covar_pop": _covariance(sample=False),
    "covar_samp": _covariance(sample=True),
    "corr": _correlation,
    "regr_count": lambda m: m.count,
    "regr_sxx": lambda m: m.unless(otherwise=m.second(1)),
    "regr_syy": lambda m: m.unless(otherwise=m.second(0)),
    "regr_sxy": lambda m: m.unless(otherwise=m.mixed()),
    "regr_slope": _slope,
    "regr_intercept": _intercept,
    "regr_r2": _r2,
}
