"""What the readers of Python expressions share: the source, the names in sight, their protocol.

`Source.at` gives an error the place of the smallest expression that it arose in, so the code that
finds an error raises it bare. A `Scope` is what names stand for at one point of a query: terms, and
functions that are defined in it. Such a function sees the names of the body that defines it as they
are when it is called, and no variable of a comprehension around the call, as Python has it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from headwater.calculus.check import type_of
from headwater.calculus.terms import Term, Var, fresh
from headwater.calculus.types import Base, Type
from headwater.errors import IllTyped, NotIncremental, QueryError, Span, TypeMismatch
from headwater.language.comprehension.operators import kind

MISSING = object()
"""What a name stands for that is not defined outside the query."""


@dataclass(frozen=True)
class Source:
    """The text of a function, and places in it."""

    text: str

    def span(self, node: ast.AST) -> Span:
        line: int = node.lineno  # type: ignore[attr-defined]
        start: int = node.col_offset  # type: ignore[attr-defined]
        row = self.text.splitlines()[line - 1].encode()  # offsets of the syntax tree count bytes
        ends_here = node.end_lineno == line  # type: ignore[attr-defined]
        end = node.end_col_offset if ends_here else len(row)  # type: ignore[attr-defined]
        return Span(line, len(row[:start].decode()) + 1, max(1, len(row[start:end].decode())))

    def shown(self, node: ast.AST, otherwise: str = "...") -> str:
        """The text of a node as it is written, if it is short."""
        text = ast.get_source_segment(self.text, node) or ""
        return text if len(text) <= 40 and "\n" not in text else otherwise

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Errors that have no place yet arose in this node."""
        try:
            yield
        except IllTyped as e:
            what = f"`{ast.unparse(node)}`: expected {e.expected}, found {e.found}"
            raise TypeMismatch(what, text=self.text, span=self.span(node)) from e
        except QueryError as e:
            if e.span is None:
                e.text, e.span = self.text, self.span(node)
            raise


@dataclass(frozen=True)
class Inner:
    """A function that is defined inside of a query, and the names of the body that defines it."""

    node: ast.Lambda | ast.FunctionDef
    names: Mapping[str, Term]


@dataclass(frozen=True)
class Scope:
    """What the names in sight stand for, and the variables that an inner one must not capture."""

    names: Mapping[str, Term]
    taken: frozenset[str]
    functions: Mapping[str, Inner | None] = field(default_factory=dict)
    """Functions of the query; a term of the same name hides one, and None is one that is being read."""

    def variable(self, name: str, t: Type) -> Var:
        """A variable named like `name`."""
        return Var(fresh(name, self.taken), t)

    def bind(self, var: Var, names: Mapping[str, Term]) -> Scope:
        """The scope inside a binder of `var`, where `names` stand for it or for parts of it."""
        return replace(self, names={**self.names, **names}, taken=self.taken | {var.name})

    def inner(self, name: str) -> Inner | None:
        """The function of the query that a name stands for."""
        return None if name in self.names else self.functions.get(name)

    def inside(self, name: str, function: Inner) -> Scope:
        """The scope of a function's body, without its parameters; it does not see itself."""
        return replace(self, names=function.names, functions={**self.functions, name: None})


Emit: TypeAlias = Callable[[ast.expr, Scope], Term]
"""What a comprehension collects for its element."""


class Expressions(Protocol):
    """Reads expressions; `calls.py` reads the arguments of calls with it."""

    source: Source
    loops: dict[Term, ast.Call]
    """The loops that were read, and where they are written."""

    def term(self, e: ast.expr, scope: Scope) -> Term:
        """An expression as a key or a collection."""

    def key(self, e: ast.expr, scope: Scope) -> Term:
        """An expression as a key; a collection is boxed."""

    def bag(self, e: ast.expr, scope: Scope) -> Term:
        """What a loop runs over, or an aggregate."""

    def collect(self, e: ast.expr, scope: Scope, emit: Emit) -> Term:
        """The sum of what is emitted for each element of a collection."""

    def factors(self, e: ast.expr, scope: Scope) -> list[Term]:
        """A condition as factors that are 1 where it holds and 0 elsewhere."""

    def unique(self, rows: Term, e: ast.expr) -> Term:
        """The set of the rows."""

    def outside(self, e: ast.expr, scope: Scope) -> Any:
        """The Python object that a name stands for outside the query, else MISSING."""


# --- syntax trees --------------------------------------------------------------------------------


def arguments(
    e: ast.Call, least: int, most: int | None, named: tuple[str, ...] = ()
) -> list[ast.expr]:
    """The positional arguments of a call, as many as the language has."""
    shown = ast.unparse(e.func)
    strange = [k.arg or "**" for k in e.keywords if k.arg not in named]
    if strange:
        raise NotIncremental("UNSUPPORTED_SYNTAX", f"`{shown}` is not read with `{strange[0]}=`")
    if len(e.args) < least or (most is not None and len(e.args) > most):
        upto = f"{least} to {most}" if most else f"at least {least}"
        wanted = str(least) if least == most else upto
        what = f"`{shown}` is read with {wanted} arguments, and here are {len(e.args)}"
        raise NotIncremental("UNSUPPORTED_SYNTAX", what)
    return e.args


def integer(e: ast.expr) -> int | None:
    """An integer constant, signed or not."""
    match e:
        case ast.Constant(value) if type(value) is int:
            return value
        case ast.UnaryOp(ast.USub(), operand):
            inner = integer(operand)
            return None if inner is None else -inner
        case _:
            return None


def scalar(r: Expressions, e: ast.expr, scope: Scope) -> Term:
    """An expression as a scalar."""
    term = r.key(e, scope)
    if not isinstance(t := type_of(term), Base):
        with r.source.at(e):
            raise TypeMismatch(f"a scalar is wanted here, and this is {kind(t)}")
    return term


def function_of(e: ast.expr, scope: Scope) -> tuple[ast.Lambda | ast.FunctionDef, Scope] | None:
    """A lambda, or a function of the query by its name, and the scope of its body; None if it is neither."""
    match e:
        case ast.Lambda():
            return e, scope
        case ast.Name(id=name) if (found := scope.inner(name)) is not None:
            return found.node, scope.inside(name, found)
        case _:
            return None


def parameters(node: ast.Lambda | ast.FunctionDef) -> list[str] | None:
    """The names of a function's parameters; None if they are not all plain ones."""
    a = node.args
    if a.posonlyargs or a.kwonlyargs or a.vararg or a.kwarg or a.defaults:
        return None
    return [x.arg for x in a.args]
