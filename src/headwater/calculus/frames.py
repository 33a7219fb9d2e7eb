"""What a window function of a frame is, given the rows of the frame in order: counts, sums, extremes, spreads.

NULLs are left out of all of them but the first, last and nth value. Sums of doubles, and what is made from sums, are
rounded once where a window says that it is exact; those of older views are rounded at each step, as Spark does it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from headwater.calculus.dyadic import POWERS, Dyadic, shown
from headwater.calculus.scalars import EXACT, divide, fit, order
from headwater.calculus.types import DOUBLE

if TYPE_CHECKING:
    from headwater.calculus.windows import Window

Row: TypeAlias = Mapping[str, Any]
Aggregate: TypeAlias = Callable[["Window", list[Row]], Any]


def _values(w: Window, rows: list[Row]) -> list[Any]:
    (name,) = w.arguments
    return [v for row in rows if (v := row[name]) is not None]


def _nth(w: Window, rows: list[Row], n: int) -> Any:
    (name,) = w.arguments
    seen = _values(w, rows) if w.ignore_nulls else [row[name] for row in rows]
    return seen[n] if -len(seen) <= n < len(seen) else None


def _count(w: Window, rows: list[Row]) -> int:
    return sum(all(row[name] is not None for name in w.arguments) for row in rows)


def total(values: Sequence[Any]) -> Any:
    """The sum of some numbers in their order: exact, but for floats."""
    out: Any = 0
    for v in values:
        out = EXACT.add(Decimal(out), v) if isinstance(v, Decimal) else out + v
    return out


def powers_of(w: Window) -> list[int]:
    """Which powers of the values an answer over exact sums is told from."""
    return [k for (k,) in POWERS[f"_{w.function}"]]


def exactly(function: str, values: Sequence[Any]) -> float | None:
    """An answer over the sums of powers of some numbers, rounded once."""
    name = f"_{function}"
    powers = [k for (k,) in POWERS[name]]
    scale = max((-int(v.as_tuple().exponent) for v in values if isinstance(v, Decimal)), default=0)
    units = [int(v.scaleb(scale, EXACT)) if isinstance(v, Decimal) else v for v in values]
    sums: list[Any] = [sum((Dyadic.of(*[u] * k) for u in units), Dyadic()) for k in powers if k]
    return shown(name, (scale,), [*([len(values)] if 0 in powers else []), *sums])


def _sum(w: Window, rows: list[Row]) -> Any:
    values = _values(w, rows)
    if w.exact:
        return exactly(w.function, values) if values else None
    return fit(w.returns, total(values)) if values else None


def _avg(w: Window, rows: list[Row]) -> Any:
    values = _values(w, rows)
    if not values:
        return None
    if w.exact:
        return exactly(w.function, values)
    if w.returns == DOUBLE:
        return float(total(values)) / len(values)
    return divide(w.returns, None, total(values), len(values))


def _extreme(pick: Callable[..., Any]) -> Aggregate:
    return lambda w, rows: pick(_values(w, rows), key=order, default=None)


def welford(state: tuple[int, float, float], x: float) -> tuple[int, float, float]:
    """Count, mean and sum of squared distances from the mean, with one more number; as Spark does it."""
    n, mean, m2 = state
    n += 1
    delta = x - mean
    step = delta / n
    return n, mean + step, m2 + delta * (delta - step)


def spread(function: str, state: tuple[int, float, float]) -> float | None:
    """var_pop and the like; NULL without enough rows."""
    n, _, m2 = state
    n -= function.endswith("_samp")
    if n <= 0:
        return None
    return math.sqrt(m2 / n) if function.startswith("stddev") else m2 / n


def _spread(w: Window, rows: list[Row]) -> float | None:
    if w.exact:
        return exactly(w.function, _values(w, rows))
    state = (0, 0.0, 0.0)
    for v in _values(w, rows):
        state = welford(state, float(v))
    return spread(w.function, state)


AGGREGATES: dict[str, Aggregate] = {
    "first_value": lambda w, rows: _nth(w, rows, 0),
    "last_value": lambda w, rows: _nth(w, rows, -1),
    "nth_value": lambda w, rows: _nth(w, rows, w.offset - 1),
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _extreme(min),
    "max": _extreme(max),
    "bool_and": _extreme(min),
    "bool_or": _extreme(max),
    "var_pop": _spread,
    "var_samp": _spread,
    "stddev_pop": _spread,
    "stddev_samp": _spread,
}
"""What each function of a frame is, given the frame's rows in order."""
