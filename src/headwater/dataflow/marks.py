"""Marks of functions: what tells whether a stage is run by the function that it was defined with, in any process.

A mark is a hash of the function's syntax tree, without decorators and docstrings, and of what it reads of its own module
and closure: functions in turn, and plain values. Where there is no source, as in a console, bytecode takes its place.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from headwater.language.functions import told

PLAIN = (type(None), bool, int, float, str, bytes, Decimal, date, timedelta)


def mark(f: Callable[..., Any]) -> str:
    """A short hash of what a function does."""
    parts: list[str] = []
    _collect(f, parts, set())
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:16]


def _collect(f: Any, parts: list[str], seen: set[int]) -> None:
    if id(f) in seen:
        return
    seen.add(id(f))
    if isinstance(f, partial):
        parts.append(_value(f.args) + _value(tuple(sorted(f.keywords.items()))))
        _collect(f.func, parts, seen)
        return
    f = inspect.unwrap(f) if callable(f) else f
    if inspect.ismethod(f):
        f = f.__func__
    if not isinstance(f, FunctionType):
        if not isinstance(f, type) and callable(f) and hasattr(f, "__dict__"):
            parts.append(_value(tuple(sorted((n, repr(v)) for n, v in vars(f).items()))))
            f = getattr(type(f).__call__, "__func__", type(f).__call__)
        if not isinstance(f, FunctionType):
            parts.append(f"{getattr(f, '__module__', '')}.{getattr(f, '__qualname__', type(f))}")
            return
    parts.append(_text(f))
    parts.append(_value(f.__defaults__ or ()))
    for name, value in _read(f):
        if isinstance(value, FunctionType):
            if value.__module__ == f.__module__:
                parts.append(name)
                _collect(value, parts, seen)
        elif _is_plain(value):
            parts.append(f"{name}={_value(value)}")


def _text(f: FunctionType) -> str:
    """The function's syntax tree, or its bytecode."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(f))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return told(f.__code__)
    if not isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return told(f.__code__)  # a lambda stands somewhere in a line
    tree.decorator_list = []
    body = tree.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and len(body) > 1:
        tree.body = body[1:]
    return ast.dump(tree)


def _read(f: FunctionType) -> list[tuple[str, Any]]:
    """What a function reads by name: of its module, and of the functions around it."""
    out = []
    for name in sorted(_names(f.__code__)):
        if name in f.__globals__:
            out.append((name, f.__globals__[name]))
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            out.append((name, cell.cell_contents))
        except ValueError:  # not yet set
            continue
    return out


def _names(code: CodeType) -> set[str]:
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list, frozenset, set)):
        return len(value) < 1000 and all(map(_is_plain, value))
    if isinstance(value, dict):
        return len(value) < 1000 and all(_is_plain(x) for kv in value.items() for x in kv)
    return isinstance(value, PLAIN)


def _value(value: Any) -> str:
    if isinstance(value, (set, frozenset)):
        return f"set({sorted(map(repr, value))})"
    return repr(value)
