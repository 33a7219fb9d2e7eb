"""Scalar functions written in Python, for use in comprehensions.

`@function(returns="STRING")` leaves the function callable as it is, and gives its name a meaning
in the reference interpreter; a query that calls it has a `Call` with the declared type. A function
is evaluated row by row, and again for rows that are taken back, so it must be pure: equal arguments
give equal values, today and after a restart. A missing value arrives as None.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any

from headwater.calculus.answers import ANSWERS
from headwater.calculus.data import from_python
from headwater.calculus.scalars import SCALARS, register
from headwater.calculus.types import Base, KeyType
from headwater.errors import QueryError
from headwater.language.schema import columns

DEFINED: dict[str, Function] = {}
"""What `function` registered; a name may be defined again, as notebooks do."""

_WORDS = frozenset(("sum", "box", "unbox", "zero", "for", "each", "let", "fn", "dict"))


class Function:
    """A Python function that queries may call; calling it runs it."""

    __name__: str
    __wrapped__: Callable[..., Any]

    def __init__(self, f: Callable[..., Any], returns: KeyType):
        self.returns = returns
        functools.update_wrapper(self, f)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.__wrapped__(*args, **named)

    @property
    def fingerprint(self) -> str:
        """A hash of what the function does, to tell whether it is the one that a query was defined with."""
        code = self.__wrapped__.__code__
        parts = (code.co_code.hex(), told(code.co_consts), repr(code.co_names), str(self.returns))
        return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:16]

    def accepts(self, count: int) -> bool:
        """Whether the function can be called with this number of arguments."""
        try:
            inspect.signature(self.__wrapped__).bind(*[None] * count)
        except TypeError:
            return False
        return True


def told(constant: Any) -> str:
    """A constant of a function as text that is the same in every process.

    `repr` of inner code has its address in memory, and that of a set the order that strings have today.
    """
    match constant:
        case CodeType():
            inner = constant.co_code.hex(), told(constant.co_consts), repr(constant.co_names)
            return f"code({', '.join(inner)})"
        case tuple():
            return f"({', '.join(map(told, constant))}{',' if len(constant) == 1 else ''})"
        case frozenset():
            return f"frozenset({sorted(map(told, constant))})"
    return repr(constant)


def function(returns: str | KeyType) -> Callable[[Callable[..., Any]], Function]:
    """Makes a pure function of scalars known to queries; `returns` is its type, as in a schema."""
    t = dict(columns(f"result {returns}").fields)["result"] if isinstance(returns, str) else returns

    def define(f: Callable[..., Any]) -> Function:
        name = f.__name__
        if not isinstance(t, Base):
            raise QueryError(
                f"the function `{name}` returns {t}", hint="a function returns a scalar"
            )
        if not name.isidentifier():
            raise QueryError(
                f"a function needs a name, and this is `{name}`", hint="write it with def"
            )
        if name not in DEFINED and (name in SCALARS or name in ANSWERS or name in _WORDS):
            raise QueryError(
                f"`{name}` has a meaning already", hint="give the function another name"
            )
        register(name, t, lambda *args: from_python(t, f(*args)))
        DEFINED[name] = Function(f, t)
        return DEFINED[name]

    return define
