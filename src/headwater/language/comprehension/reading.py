"""What the readers of Python expressions share: the source, the names in sight, their protocol.

`Source.at` gives an error the place of the smallest expression that it arose in, so the code that
finds an error raises it bare. A `Scope` is what names stand for at one point of a query.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from headwater.calculus.terms import Term, Var, fresh
from headwater.calculus.types import Type
from headwater.errors import IllTyped, QueryError, Span, TypeMismatch

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
class Scope:
    """What the names in sight stand for, and the variables that an inner one must not capture."""

    names: Mapping[str, Term]
    taken: frozenset[str]

    def variable(self, name: str, t: Type) -> Var:
        """A variable named like `name`."""
        return Var(fresh(name, self.taken), t)

    def bind(self, var: Var, names: Mapping[str, Term]) -> Scope:
        """The scope inside a binder of `var`, where `names` stand for it or for parts of it."""
        return Scope({**self.names, **names}, self.taken | {var.name})


Emit: TypeAlias = Callable[[ast.expr, Scope], Term]
"""What a comprehension collects for its element."""


class Expressions(Protocol):
    """Reads expressions; `calls.py` reads the arguments of calls with it."""

    source: Source

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
