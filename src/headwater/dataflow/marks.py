"""Marks of functions: what tells whether a stage is run by the function that it was defined with, in any process.

A mark is a hash of the function's syntax tree, without decorators and docstrings, and of what it reads of its own project,
by name or out of a closure: functions and classes in turn, and plain values. Where there is no source, as in a console, or
for a lambda, which stands somewhere in a line, bytecode takes its place. Nothing in it depends on the process: no address,
no order of a set.
"""

from __future__ import annotations

import ast
import dis
import hashlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from headwater.language.functions import told

PLAIN = (type(None), bool, int, float, complex, str, bytes, Decimal, date, time, timedelta)
MANY = 1000
"""Collections of more values are data, and no part of what a function is."""


def mark(f: Callable[..., Any]) -> str:
    """A short hash of what a function does."""
    parts: list[str] = []
    _Collected(f, parts).add(f)
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:16]


class _Collected:
    """What a function is made of, each function and class once."""

    def __init__(self, f: Any, parts: list[str]):
        self.parts, self.seen = parts, dict[int, Any]()
        self.root = _root(_plain_function(f))

    def add(self, f: Any) -> None:
        if id(f) in self.seen:
            return
        self.seen[id(f)] = f  # kept, so that no other thing gets its address
        if isinstance(f, partial):
            self.value("partial", f.args)
            self.value("named", f.keywords)
            self.add(f.func)
            return
        if isinstance(f, type):
            self.parts.append(_text(f))
            return
        f = inspect.unwrap(f)
        if inspect.ismethod(f):
            self.value("self", f.__self__)
            f = f.__func__
        if not isinstance(f, FunctionType):
            self._object(f)
            return
        self.parts.append(_text(f))
        self.value("defaults", (f.__defaults__ or (), f.__kwdefaults__ or {}))
        for name, value in _read(f):
            self.value(name, value)

    def _object(self, f: Any) -> None:
        """An object that can be called, or anything that is no function of Python."""
        call = inspect.getattr_static(type(f), "__call__", None)
        if isinstance(f, FunctionType | type) or not isinstance(call, FunctionType):
            self.parts.append(
                f"{getattr(f, '__module__', '')}.{getattr(f, '__qualname__', type(f))}"
            )
            return
        self.value("object", dict(getattr(f, "__dict__", {})))
        self.add(call)

    def value(self, name: str, value: Any) -> None:
        """What a function has at a name: a plain value, a function or class of the project, or what holds such."""
        if _is_plain(value):
            self.parts.append(f"{name}={_value(value)}")
        elif isinstance(value, Mapping) and len(value) < MANY:
            for k, v in value.items():
                self.value(f"{name}.{_value(k) if _is_plain(k) else type(k)}", v)
        elif isinstance(value, list | tuple) and len(value) < MANY:
            for i, v in enumerate(value):
                self.value(f"{name}.{i}", v)
        elif isinstance(value, partial):
            self.parts.append(name)
            self.add(value)
        elif isinstance(value, FunctionType | type) or hasattr(value, "__wrapped__"):
            if self._is_own(value):
                self.parts.append(name)
                self.add(value)

    def _is_own(self, value: Any) -> bool:
        """Whether something is of the same project: of the same module or package, or of a file beside."""
        at = _root(inspect.unwrap(value))
        return at == self.root or (
            isinstance(at, Path)
            and isinstance(self.root, Path)
            and at.is_relative_to(self.root)
            and not {"site-packages", "dist-packages"}.intersection(at.relative_to(self.root).parts)
        )


def _plain_function(f: Any) -> Any:
    """The function, or the class, that something is made from."""
    while isinstance(f, partial):
        f = f.func
    f = inspect.unwrap(f)
    if inspect.ismethod(f):
        f = f.__func__
    return f if isinstance(f, FunctionType | type) else type(f)


def _root(f: Any) -> Path | str:
    """The folder of the project that a function or class is of, as far as can be seen; else the name of its module."""
    name = getattr(f, "__module__", None) or ""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if file is None or (isinstance(f, FunctionType) and f.__globals__ is not vars(module)):
        file = f.__code__.co_filename if isinstance(f, FunctionType) else file
        if file is None or not Path(file).exists():
            return name
        return Path(file).resolve().parent
    return Path(file).resolve().parents[name.count(".") + (Path(file).name == "__init__.py")]


def _text(f: FunctionType | type) -> str:
    """The syntax tree of a function or class as text, or its bytecode."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(f))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return told(f.__code__) if isinstance(f, FunctionType) else f.__qualname__
    if not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return told(f.__code__) if isinstance(f, FunctionType) else f.__qualname__
    for part in ast.walk(tree):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            _without_words(part)
    tree.decorator_list = []
    return ast.unparse(tree)


def _without_words(tree: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
    """Takes the docstring away."""
    first = tree.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        tree.body = tree.body[1:] or [ast.Pass()]


def _read(f: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function reads by name: of its module, of modules of its project, and of the functions around it."""
    for name in sorted(_globals(f.__code__)):
        value = f.__globals__.get(name)
        if isinstance(value, ModuleType):
            there = vars(value)
            yield from ((f"{name}.{n}", there[n]) for n in sorted(_names(f.__code__)) if n in there)
        elif name in f.__globals__:
            yield name, value
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not yet set
            continue


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Code, and all inside."""
    yield code
    for c in code.co_consts:
        if isinstance(c, CodeType):
            yield from _codes(c)


def _globals(code: CodeType) -> set[str]:
    """The names that code reads of its module."""
    return {
        str(i.argval)
        for c in _codes(code)
        for i in dis.get_instructions(c)
        if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }


def _names(code: CodeType) -> set[str]:
    """All names in code, those of attributes too."""
    return {n for c in _codes(code) for n in c.co_names}


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list | frozenset | set):
        return len(value) < MANY and all(map(_is_plain, value))
    if isinstance(value, dict):
        return len(value) < MANY and all(_is_plain(x) for kv in value.items() for x in kv)
    return isinstance(value, PLAIN)


def _value(value: Any) -> str:
    """A plain value as text that is the same in every process."""
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(_value, value)))}}}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_value(k)}: {_value(v)}' for k, v in value.items())}}}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(map(_value, value))})"
    return repr(value)
