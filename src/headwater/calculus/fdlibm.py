"""exp, log, log10 and pow to the last bit as Spark has them: Java's StrictMath, which is Sun's fdlibm.

    exp(x)    = 2^k · exp(r)          x = k·ln 2 + r, exp(r) by a rational function
    log(x)    = k·ln 2 + log(1 + f)   x = 2^k·(1 + f), log(1 + f) by a polynomial in f / (2 + f)
    pow(x, y) = 2^(y · log2 x)        log2 x and its product with y in two doubles each

The last bit depends on the order of the operations, so that they stand here as they stand there; all values of an
array take each step, and cases are chosen in the end. The constants and steps are those of fdlibm 5.3, whose notice is:

    Copyright (C) 1993-2004 by Sun Microsystems, Inc. All rights reserved. Permission to use, copy, modify, and
    distribute this software is freely granted, provided that this notice is preserved.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Doubles = np.ndarray[Any, Any]

LN2_HI, LN2_LO = 6.93147180369123816490e-01, 1.90821492927058770002e-10
INV_LN2 = 1.44269504088896338700e00
P = (
    1.66666666666666019037e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)
MOST_EXP, LEAST_EXP = 7.09782712893383973096e02, -7.45133219101941108420e02
SIGN, FRACTION, ONE = 0x80000000, 0x000FFFFF, 0x3FF00000
"""Parts of the upper half of a double's bits, and the upper half of 1.0."""


def _high(x: Doubles) -> Doubles:
    """The upper halves of the bits, with their sign."""
    out: Doubles = np.ascontiguousarray(x, np.float64).view(np.int64) >> 32
    return out


def _cut(x: Doubles) -> Doubles:
    """Doubles without the lower halves of their bits."""
    bits = np.ascontiguousarray(x, np.float64).view(np.int64) & np.int64(~0xFFFFFFFF)
    return bits.view(np.float64)


def _with_high(x: Doubles, high: Doubles) -> Doubles:
    """Doubles with other upper halves."""
    low = np.ascontiguousarray(x, np.float64).view(np.int64) & np.int64(0xFFFFFFFF)
    return (low | (high.astype(np.int64) << 32)).view(np.float64)


def _polynomial(x: Doubles, *factors: float) -> Doubles:
    """Horner's scheme, the last factor first."""
    out: Any = factors[-1]
    for f in reversed(factors[:-1]):
        out = f + x * out
    return np.asarray(out)


def exp(x: Doubles) -> Doubles:
    """e to the power of each number."""
    with np.errstate(all="ignore"):
        negative, size = np.signbit(x), _high(x) & 0x7FFFFFFF
        plain = np.isfinite(x) & (x <= MOST_EXP) & (x >= LEAST_EXP)
        some = np.where(plain, x, 1.0)
        near, small = size < 0x3FF0A2B2, size <= 0x3FD62E42
        k = np.trunc(INV_LN2 * some + np.where(negative, -0.5, 0.5))
        k = np.where(small, 0.0, np.where(near, np.where(negative, -1.0, 1.0), k))
        high = np.where(small, some, some - np.where(near, np.copysign(LN2_HI, some), k * LN2_HI))
        low = np.where(small, 0.0, np.where(near, np.copysign(LN2_LO, some), k * LN2_LO))
        r = np.where(small, some, high - low)
        t = r * r
        c = r - t * _polynomial(t, *P)
        inside = 1.0 - ((r * c) / (c - 2.0) - r)
        y = 1.0 - ((low - (r * c) / (2.0 - c)) - high)
        steps = k.astype(np.int64)
        scaled = np.where(
            steps >= -1021,
            np.ldexp(y, steps),
            np.ldexp(y, steps + 1000) * 9.33263618503218878990e-302,
        )
        out = np.where(small, inside, scaled)
        out = np.where(size < 0x3E300000, 1.0 + x, out)
        far = np.where(np.isnan(x), x, np.where(x > 0, np.inf, 0.0))
        return np.where(plain, out, far)


def log(x: Doubles) -> Doubles:
    """The natural logarithm of each number."""
    with np.errstate(all="ignore"):
        plain = np.isfinite(x) & (x > 0)
        some = np.where(plain, x, 1.0)
        tiny = _high(some) < 0x00100000
        some = np.where(tiny, some * 2.0**54, some)
        high = _high(some)
        k = np.where(tiny, -54, 0) + (high >> 20) - 1023
        high = high & FRACTION
        up = (high + 0x95F64) & 0x100000
        f = _with_high(some, high | (up ^ ONE)) - 1.0
        dk = (k + (up >> 20)).astype(np.float64)
        by_k = dk != 0
        # |f| < 2^-20
        r = f * f * (0.5 - 0.33333333333333333 * f)
        near = np.where(by_k, dk * LN2_HI - ((r - dk * LN2_LO) - f), f - r)
        whole = np.where(by_k, dk * LN2_HI + dk * LN2_LO, 0.0)
        near = np.where(f == 0, whole, near)
        s = f / (2.0 + f)
        z = s * s
        w = z * z
        even = w * _polynomial(
            w, 3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01
        )
        odd = z * _polynomial(
            w,
            6.666666666666735130e-01,
            2.857142874366239149e-01,
            1.818357216161805012e-01,
            1.479819860511658591e-01,
        )
        r = odd + even
        half = 0.5 * f * f
        with_half = np.where(
            by_k,
            dk * LN2_HI - ((half - (s * (half + r) + dk * LN2_LO)) - f),
            f - (half - s * (half + r)),
        )
        without = np.where(by_k, dk * LN2_HI - ((s * (f - r) - dk * LN2_LO) - f), f - s * (f - r))
        out = np.where(((high - 0x6147A) | (0x6B851 - high)) > 0, with_half, without)
        out = np.where((FRACTION & (2 + high)) < 3, near, out)
        far = np.where(x == 0, -np.inf, np.where(x < 0, np.nan, x))
        return np.where(plain, out, far)


def log_to(base: Doubles, x: Doubles) -> Doubles:
    """The logarithm of each number to a base, which Spark takes as a quotient."""
    with np.errstate(all="ignore"):
        return np.asarray(log(x) / log(base))


def log10(x: Doubles) -> Doubles:
    """The logarithm to the base 10 of each number."""
    with np.errstate(all="ignore"):
        plain = np.isfinite(x) & (x > 0)
        some = np.where(plain, x, 1.0)
        tiny = _high(some) < 0x00100000
        some = np.where(tiny, some * 2.0**54, some)
        high = _high(some)
        k = np.where(tiny, -54, 0) + (high >> 20) - 1023
        i = (k < 0).astype(np.int64)
        y = (k + i).astype(np.float64)
        rest = _with_high(some, (high & FRACTION) | ((0x3FF - i) << 20))
        z = y * 3.69423907715893078616e-13 + 4.34294481903251816668e-01 * log(rest)
        out = z + y * 3.01029995663611771306e-01
        far = np.where(x == 0, -np.inf, np.where(x < 0, np.nan, x))
        return np.where(plain, out, far)


# --- pow -----------------------------------------------------------------------------------------------------

CP, CP_H, CP_L = 9.61796693925975554329e-01, 9.61796700954437255859e-01, -7.02846165095275826516e-09
DP_H, DP_L = 5.84962487220764160156e-01, 1.35003920212974897128e-08
LG2, LG2_H, LG2_L = (
    6.93147180559945286227e-01,
    6.93147182464599609375e-01,
    -1.90465429995776804525e-09,
)
OVERFLOW = 8.0085662595372944372e-17
L = (
    5.99999999999994648725e-01,
    4.28571428578550184252e-01,
    3.33333329818377432918e-01,
    2.72728123808534006489e-01,
    2.30660745775561754067e-01,
    2.06975017800338417784e-01,
)


def power(x: Doubles, y: Doubles) -> Doubles:
    """Each number to the power of another."""
    x, y = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
    with np.errstate(all="ignore"):
        size = np.abs(x)
        whole = np.isfinite(y) & (np.floor(y) == y)
        odd = whole & (np.abs(y) < 2.0**53) & (np.fmod(y, 2.0) != 0)
        sign = np.where(np.signbit(x) & odd, -1.0, 1.0)
        plain = np.isfinite(x) & (size != 0) & (size != 1) & np.isfinite(y) & (y != 0)
        some, by = np.where(plain, size, 2.0), np.where(plain, y, 1.0)
        out = sign * _scaled(by, *_log2(some, by))
        out = np.where((x < 0) & ~whole, np.nan, out)
        # Zeros, ones and infinities: the power is the number or its inverse, with the sign of an odd power.
        edge = np.where(y < 0, 1.0 / size, size) * sign
        edge = np.where((x == -1.0) & ~whole, np.nan, edge)
        out = np.where(plain, out, edge)
        out = np.where(np.isinf(y), _endless(size, y), out)
        out = np.where(y == -1.0, 1.0 / x, out)
        out = np.where((y == 0.5) & (x > -np.inf), np.sqrt(x + 0.0), out)
        out = np.where(y == 2.0, x * x, out)
        out = np.where(y == 1.0, x, out)
        out = np.where(np.isnan(x) | np.isnan(y), np.nan, out)
        return np.where(y == 0.0, 1.0, out)


def _endless(size: Doubles, y: Doubles) -> Doubles:
    """The power of an infinite exponent."""
    grows = (size > 1) == (y > 0)
    return np.where(size == 1, np.nan, np.where(grows, np.inf, 0.0))


def _log2(x: Doubles, y: Doubles) -> tuple[Doubles, Doubles]:
    """log2 of positive numbers in two doubles, the first one with half of the bits.

    For a great exponent and a number beside 1 its series is enough, and exact.
    """
    t = x - 1.0
    w = (t * t) * (0.5 - t * (0.3333333333333333333333 - t * 0.25))
    u = 1.44269502162933349609e00 * t
    v = t * 1.92596299112661746887e-08 - w * INV_LN2
    near_1 = _cut(u + v)
    near_2 = v - (near_1 - u)

    tiny = _high(x) < 0x00100000
    x = np.where(tiny, x * 2.0**53, x)
    high = _high(x)
    n = np.where(tiny, -53, 0) + (high >> 20) - 0x3FF
    j = high & FRACTION
    k = ((j > 0x3988E) & (j < 0xBB67A)).astype(np.int64)
    over = (j >= 0xBB67A).astype(np.int64)
    n = n + over
    high = (j | ONE) - (over << 20)
    x = _with_high(x, high)
    point = np.where(k == 1, 1.5, 1.0)
    u = x - point
    v = 1.0 / (x + point)
    ss = u * v
    s_h = _cut(ss)
    t_h = _with_high(np.zeros_like(x), ((high >> 1) | 0x20000000) + 0x00080000 + (k << 18))
    t_l = x - (t_h - point)
    s_l = v * ((u - s_h * t_h) - s_h * t_l)
    s2 = ss * ss
    r = s2 * s2 * _polynomial(s2, *L)
    r = r + s_l * (s_h + ss)
    s2 = s_h * s_h
    t_h = _cut(3.0 + s2 + r)
    t_l = r - ((t_h - 3.0) - s2)
    u = s_h * t_h
    v = s_l * t_h + t_l * ss
    p_h = _cut(u + v)
    p_l = v - (p_h - u)
    z_h = CP_H * p_h
    z_l = CP_L * p_h + p_l * CP + np.where(k == 1, DP_L, 0.0)
    t = n.astype(np.float64)
    d = np.where(k == 1, DP_H, 0.0)
    t1 = _cut(((z_h + z_l) + d) + t)
    t2 = z_l - (((t1 - t) - d) - z_h)
    great = ((_high(y) & 0x7FFFFFFF) > 0x41E00000) & (np.abs(near_1) < 1e-5)
    return np.where(great, near_1, t1), np.where(great, near_2, t2)


def _scaled(y: Doubles, t1: Doubles, t2: Doubles) -> Doubles:
    """2 to the power of y · (t1 + t2)."""
    y1 = _cut(y)
    p_l = (y - y1) * t1 + y * t2
    p_h = y1 * t1
    z = p_l + p_h
    over = (z > 1024) | ((z == 1024) & (p_l + OVERFLOW > z - p_h))
    under = (z < -1075) | ((z == -1075) & (p_l <= z - p_h))
    inside = ~(over | under) & np.isfinite(z)
    p_l, p_h, z = (np.where(inside, a, 0.0) for a in (p_l, p_h, z))
    # The whole number nearest to z, which is taken out of it.
    high = _high(z)
    large = (high & 0x7FFFFFFF) > 0x3FE00000
    k = ((high & 0x7FFFFFFF) >> 20) - 0x3FF
    up = high + (0x00100000 >> np.clip(k + 1, 0, 40))
    k = np.clip(((up & 0x7FFFFFFF) >> 20) - 0x3FF, 0, 20)
    whole = _with_high(np.zeros_like(z), up & ~(FRACTION >> k))
    n = ((up & FRACTION) | 0x00100000) >> (20 - k)
    n = np.where(large, np.where(high < 0, -n, n), 0)
    p_h = np.where(large, p_h - whole, p_h)
    t = _cut(p_l + p_h)
    u = t * LG2_H
    v = (p_l - (t - p_h)) * LG2 + t * LG2_L
    z = u + v
    w = v - (z - u)
    t = z * z
    t1 = z - t * _polynomial(t, *P)
    r = (z * t1) / (t1 - 2.0) - (w + z * w)
    out = np.ldexp(1.0 - (r - z), n)
    return np.where(over, np.inf, np.where(under, 0.0, np.where(inside, out, np.nan)))
