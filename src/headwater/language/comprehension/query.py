"""Queries written as Python comprehensions.

`@query` decorates a function whose parameters are inputs and whose body is one `return`, perhaps
after a docstring and simple assignments. Called, it runs as Python on lists, so each query is its
own oracle; `read` gives the term of the calculus, from the function's syntax tree. The law, for
inputs R that are lists of rows, where lists, sets and generators are bags to any depth:

    interpret(q.read(schemas), R) = q(R)

Statements are read in `statements.py`, expressions in `expressions.py`, calls in `calls.py`, loops in
`loops.py`; what operators mean is in `operators.py`, with the few places where a value is Spark's and
not Python's. What is outside the language is refused, with the place and something to write instead,
and never approximated.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

from headwater.calculus.check import check, type_of
from headwater.calculus.deep import with_room
from headwater.calculus.terms import Rel, Term, subterms
from headwater.calculus.types import MapType, ProductType
from headwater.errors import NotIncremental, TypeMismatch, UnknownName
from headwater.language.comprehension.expressions import Reader
from headwater.language.comprehension.loops import no_loop_of_rows
from headwater.language.comprehension.operators import EMPTY, as_bag, is_collection, kind
from headwater.language.comprehension.reading import Scope, Source
from headwater.language.comprehension.statements import let_around, read_body


class Query:
    """A comprehension: call it to run it on lists, `read` it to get its term."""

    __name__: str
    __wrapped__: Callable[..., Any]

    def __init__(self, f: Callable[..., Any]):
        if not inspect.isfunction(f):
            raise NotIncremental(
                "UNSUPPORTED_SYNTAX", f"{f!r} is not a function", hint="decorate a def"
            )
        self.source = _source(f)
        self.inputs = tuple(f.__code__.co_varnames[: f.__code__.co_argcount])
        functools.update_wrapper(self, f)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.__wrapped__(*args, **named)

    def __repr__(self) -> str:
        return f"<query {self.__name__}({', '.join(self.inputs)})>"

    @with_room
    def read(self, schemas: Mapping[str, MapType], *, kept: bool = False) -> Term:
        """The term of the query over inputs of the given types; one that is to be kept has no loops that read rows around them."""
        if self.source is None:
            raise NotIncremental(
                "NO_SOURCE",
                f"the source of the query `{self.__name__}` is not available",
                hint="define it in a file or a notebook cell, not at the prompt or by exec",
            )
        definition, source = _definition(self.source, self.__name__)
        for argument in definition.args.args:
            if argument.arg not in schemas:
                with source.at(argument):
                    raise UnknownName(
                        f"unknown input `{argument.arg}` of the query `{self.__name__}`",
                        hint=f"declared: {', '.join(sorted(schemas)) or 'nothing'}",
                    )
        scope = Scope({n: Rel(n, schemas[n]) for n in self.inputs}, frozenset(self.inputs))
        reader = Reader(source, _outside(self.__wrapped__))
        lets, out = read_body(definition, reader, scope, lambda e, s: _returned(e, reader, s))
        term = let_around(lets, out)
        _untyped(term, definition, source)
        if kept:
            no_loop_of_rows(reader, term)
        check(term, schemas)
        return term


def query(f: Callable[..., Any]) -> Query:
    """Makes a function of comprehensions a query."""
    return Query(f)


def _source(f: Callable[..., Any]) -> str | None:
    """The function's text, taken when it is defined: the file may change while the program runs."""
    if hasattr(f, "__wrapped__"):
        raise NotIncremental(
            "UNSUPPORTED_SYNTAX",
            f"`{f.__name__}` is wrapped by another decorator, so its text is not what runs",
            hint="put @query next to the def",
        )
    try:
        return inspect.getsource(f)
    except (OSError, TypeError):
        return None


def _definition(text: str, name: str) -> tuple[ast.FunctionDef, Source]:
    """The function's syntax tree; places in it are places in `text`."""
    indented = text[:1].isspace()  # strings may have lines that are not, so nothing is dedented
    try:
        tree = ast.parse("if True:\n" + text if indented else text)
    except SyntaxError:  # the lines around a lambda
        tree = ast.Module([], [])
    if indented:
        ast.increment_lineno(tree, -1)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            source, args = Source(text), node.args
            if args.posonlyargs or args.kwonlyargs or args.vararg or args.kwarg or args.defaults:
                with source.at(node):
                    raise NotIncremental(
                        "UNSUPPORTED_SYNTAX",
                        "the parameters of a query are its inputs, by name and without defaults",
                    )
            return node, source
    raise NotIncremental(
        "UNSUPPORTED_SYNTAX", f"`{name}` is not a plain function", hint="write it with def"
    )


def _outside(f: Callable[..., Any]) -> Mapping[str, Any]:
    """What names from outside a function stand for: enclosing functions, module, builtins."""
    cells: dict[str, Any] = {}
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            cells[name] = cell.cell_contents
        except ValueError:  # assigned later, or never
            continue
    return ChainMap(cells, f.__globals__, vars(builtins))


def _untyped(term: Term, definition: ast.FunctionDef, source: Source) -> None:
    """An empty list must have met a list that gave it a type."""
    if EMPTY in subterms(term):
        lists = [n for n in ast.walk(definition) if isinstance(n, ast.List) and not n.elts]
        with source.at(lists[0] if lists else definition):
            raise TypeMismatch(
                "an empty list has no type here",
                hint="an empty list that has one: [x for x in xs if False]",
            )


def _returned(value: ast.expr, reader: Reader, scope: Scope) -> Term:
    if isinstance(value, ast.GeneratorExp):
        return reader.bag(value, scope)
    term = reader.term(value, scope)
    t = type_of(term)
    if isinstance(t, ProductType):
        with reader.source.at(value):
            raise NotIncremental(
                "NOT_A_COLLECTION",
                "a query returns a collection, and this is a tuple of them",
                hint="name them, and return one: a, b = hw.repeat((a0, b0), ...)",
            )
    if not is_collection(t):
        with reader.source.at(value):
            raise NotIncremental(
                "NOT_A_COLLECTION",
                f"a query returns a collection, and this is {kind(t)}",
                hint=f"return a list with one row: {_wrapped(value, reader.source.shown(value))}",
            )
    return as_bag(term)


def _wrapped(value: ast.expr, text: str) -> str:
    return f"[{text}]" if isinstance(value, (ast.Dict, ast.Tuple)) else f'[{{"total": {text}}}]'
