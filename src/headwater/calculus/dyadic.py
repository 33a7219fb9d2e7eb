"""Sums of numbers without rounding, and what is shown of them: sums, means and moments, each rounded once.

A double is a whole number times a power of two, so a sum of doubles is a fraction that can be told exactly; NaN and
the infinities are counted beside it, because what came must be able to go. Integers and decimals are whole numbers of
their last digit. From n, Σx, Σx², ... and Σxy, which are linear and so can be kept, come the central moments:

    n Σ(x - mean)²          = n Σx² - (Σx)²
    n² Σ(x - mean)³         = n² Σx³ - 3n Σx Σx² + 2 (Σx)³
    n³ Σ(x - mean)⁴         = n³ Σx⁴ - 4n² Σx Σx³ + 6n (Σx)² Σx² - 3 (Σx)⁴
    n Σ(x - mean)(y - mean) = n Σxy - Σx Σy

All is done in whole numbers. NULLs and groups of one row give what they give in Spark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

NOTHING = Fraction(0)


@dataclass(frozen=True)
class Dyadic:
    """An exact sum: of what is finite, and how often NaN, ∞ and -∞ are in it."""

    finite: Fraction = NOTHING
    nan: int = 0
    pos: int = 0
    neg: int = 0

    @staticmethod
    def of(*factors: Any) -> Dyadic:
        """The exact product of some numbers."""
        if all(not isinstance(f, float) or math.isfinite(f) for f in factors):
            return Dyadic(math.prod((Fraction(f) for f in factors), start=Fraction(1)))
        odd = math.prod(_sign(f) for f in factors)
        return Dyadic(NOTHING, int(odd != odd), int(odd == math.inf), int(odd == -math.inf))

    def __add__(self, other: Dyadic) -> Dyadic:
        return Dyadic(*(a + b for a, b in zip(self.parts, other.parts, strict=True)))

    def __neg__(self) -> Dyadic:
        return self * -1

    def __mul__(self, times: int) -> Dyadic:
        return Dyadic(*(a * times for a in self.parts))

    __rmul__ = __mul__

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.finite, self.nan, self.pos, self.neg

    @property
    def odd(self) -> float | None:
        """NaN or an infinity, where anything but numbers is in it."""
        if self.nan > 0 or (self.pos > 0 and self.neg > 0):
            return math.nan
        return math.inf if self.pos > 0 else -math.inf if self.neg > 0 else None

    def rounded(self) -> float:
        """The nearest double."""
        return nearest(self.finite) if self.odd is None else self.odd


def _sign(value: Any) -> float:
    """-1, 0 or 1 in the place of a number, so that products of numbers neither overflow nor vanish."""
    return float((value > 0) - (value < 0)) if math.isfinite(value) else value


def nearest(x: Fraction) -> float:
    """The nearest double to a fraction, ties to even; infinite beyond all doubles."""
    try:
        return x.numerator / x.denominator
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def root(x: Fraction) -> float:
    """The nearest double to the square root of a fraction.

    More than 53 bits of the root, of which the last says that more follow, are rounded once.
    """
    n, m = x.numerator, x.denominator
    by = (n.bit_length() - m.bit_length() - 109) // 2
    if by >= 0:
        return nearest(Fraction(_odd_root(n, m << 2 * by) << by))
    return nearest(Fraction(_odd_root(n << -2 * by, m), 1 << -by))


def signed_root(x: Fraction, sign: int) -> float:
    """The root with a sign."""
    return -root(x) if sign < 0 else root(x)


def _odd_root(n: int, m: int) -> int:
    a = math.isqrt(n // m)
    return a | (a * a * m != n)


# --- what is shown -----------------------------------------------------------------------------------------

POWERS: dict[str, tuple[tuple[int, ...], ...]] = {
    "_sum": ((1,),),
    "_avg": ((0,), (1,)),
    **{f"_{v}_{of}": ((0,), (1,), (2,)) for v in ("var", "stddev") for of in ("pop", "samp")},
    "_skewness": tuple((k,) for k in range(4)),
    "_kurtosis": tuple((k,) for k in range(5)),
    "_covar_pop": ((0, 0), (1, 0), (0, 1), (1, 1)),
    "_covar_samp": ((0, 0), (1, 0), (0, 1), (1, 1)),
    "_corr": ((0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2)),
    "_regr_sxx": ((0, 0), (0, 1), (0, 2)),
    "_regr_syy": ((0, 0), (1, 0), (2, 0)),
    "_regr_sxy": ((0, 0), (1, 0), (0, 1), (1, 1)),
    "_regr_slope": ((0, 0), (1, 0), (0, 1), (1, 1), (0, 2)),
    "_regr_intercept": ((0, 0), (1, 0), (0, 1), (1, 1), (0, 2)),
    "_regr_r2": ((0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2)),
}
"""What each answer is told from: how many rows there are (powers 0), and the sums of which powers.

Of regr_...(y, x) the first argument is the dependent variable, so the powers are those of (y, x).
"""


def shown(name: str, scales: Sequence[int], sums: Sequence[Any]) -> float | None:
    """An answer from the sums that `POWERS` lists; of decimals, which are in units, the scales are given."""
    if name == "_sum":
        out: float = sums[0].rounded()
        return out
    if sums[0] <= 0:
        return None
    if name == "_avg":
        total = sums[1].rounded()
        return nearest(sums[1].finite / sums[0]) if math.isfinite(total) else total
    scales = scales or (0,) * len(POWERS[name][0])
    return _FORMULAS[name](_Central(dict(zip(POWERS[name], sums, strict=True)), scales))


class _Central:
    """Central moments of one or two variables, times powers of n, in whole numbers of a unit of each variable."""

    def __init__(self, sums: dict[tuple[int, ...], Any], scales: Sequence[int]):
        self.n: int = next(s for p, s in sums.items() if not any(p))
        self.odd = [False] * len(scales)
        bits = [0] * len(scales)
        kept = {p: s for p, s in sums.items() if any(p)}
        for p, s in kept.items():
            for i, k in enumerate(p):
                if k:
                    self.odd[i] |= sum(p) == 1 and s.odd is not None
                    needed = s.finite.denominator.bit_length() - 1
                    bits[i] = max(bits[i], -(-needed // sum(p)))
        self.sums: dict[tuple[int, ...], int] = {
            p: s.finite.numerator
            * (1 << sum(b * k for b, k in zip(bits, p, strict=True)))
            // s.finite.denominator
            for p, s in kept.items()
        }
        self.units = [Fraction(1, 10**s << b) for s, b in zip(scales, bits, strict=True)]

    def raw(self, k: int, of: int) -> int:
        return self.sums[tuple(k if i == of else 0 for i in range(len(self.units)))]

    def second(self, of: int = 0) -> int:
        """n Σ(x - mean)², which is not negative."""
        return self.n * self.raw(2, of) - self.raw(1, of) ** 2

    def third(self) -> int:
        """n² Σ(x - mean)³."""
        n, s1, s2, s3 = self.n, self.raw(1, 0), self.raw(2, 0), self.raw(3, 0)
        return n * n * s3 - 3 * n * s1 * s2 + 2 * s1**3

    def fourth(self) -> int:
        """n³ Σ(x - mean)⁴."""
        n, s1, s2, s3, s4 = self.n, *(self.raw(k, 0) for k in range(1, 5))
        return n**3 * s4 - 4 * n * n * s1 * s3 + 6 * n * s1 * s1 * s2 - 3 * s1**4

    def mixed(self) -> int:
        """n Σ(x - mean)(y - mean)."""
        return self.n * self.sums[(1, 1)] - self.raw(1, 0) * self.raw(1, 1)


_Formula = Callable[[_Central], float | None]


def _spread(sample: bool, of_root: bool) -> _Formula:
    def formula(m: _Central) -> float | None:
        if sample and m.n == 1:
            return None
        if m.odd[0]:
            return math.nan
        value = Fraction(m.second(), m.n * (m.n - sample)) * m.units[0] ** 2
        return root(value) if of_root else nearest(value)

    return formula


def _covariance(sample: bool) -> _Formula:
    def formula(m: _Central) -> float | None:
        if sample and m.n == 1:
            return None
        if any(m.odd):
            return math.nan
        return nearest(Fraction(m.mixed(), m.n * (m.n - sample)) * m.units[0] * m.units[1])

    return formula


def _skewness(m: _Central) -> float | None:
    if m.odd[0]:
        return math.nan
    a2, a3 = m.second(), m.third()
    return signed_root(Fraction(a3 * a3, a2**3), a3) if a2 else None


def _kurtosis(m: _Central) -> float | None:
    if m.odd[0]:
        return math.nan
    a2 = m.second()
    return nearest(Fraction(m.fourth() - 3 * a2 * a2, a2 * a2)) if a2 else None


def _about(of: int) -> _Formula:
    """Σ(x - mean)² of one of two variables."""

    def formula(m: _Central) -> float | None:
        return math.nan if m.odd[of] else nearest(Fraction(m.second(of), m.n) * m.units[of] ** 2)

    return formula


def _sxy(m: _Central) -> float | None:
    return math.nan if any(m.odd) else nearest(Fraction(m.mixed(), m.n) * m.units[0] * m.units[1])


def _correlation(m: _Central) -> float | None:
    if any(m.odd):
        return math.nan
    both, b = m.second(0) * m.second(1), m.mixed()
    return signed_root(Fraction(b * b, both), b) if both else None


def _slope(m: _Central) -> float | None:
    if not m.odd[1] and not m.second(1):
        return None
    if any(m.odd):
        return math.nan
    return nearest(Fraction(m.mixed(), m.second(1)) * m.units[0] / m.units[1])


def _intercept(m: _Central) -> float | None:
    """mean(y) - slope · mean(x)."""
    if not m.odd[1] and not m.second(1):
        return None
    if any(m.odd):
        return math.nan
    spread = m.second(1)
    above = m.raw(1, 0) * spread - m.mixed() * m.raw(1, 1)
    return nearest(Fraction(above, m.n * spread) * m.units[0])


def _r2(m: _Central) -> float | None:
    if not m.odd[1] and not m.second(1):
        return None
    if not m.odd[0] and not m.second(0):
        return 1.0
    if any(m.odd):
        return math.nan
    return nearest(Fraction(m.mixed() ** 2, m.second(0) * m.second(1)))


_FORMULAS: dict[str, _Formula] = {
    "_var_pop": _spread(False, False),
    "_var_samp": _spread(True, False),
    "_stddev_pop": _spread(False, True),
    "_stddev_samp": _spread(True, True),
    "_skewness": _skewness,
    "_kurtosis": _kurtosis,
    "_covar_pop": _covariance(False),
    "_covar_samp": _covariance(True),
    "_corr": _correlation,
    "_regr_sxx": _about(1),
    "_regr_syy": _about(0),
    "_regr_sxy": _sxy,
    "_regr_slope": _slope,
    "_regr_intercept": _intercept,
    "_regr_r2": _r2,
}
