"""The statements of a function: names bound once each, functions of its own, and one `return`.

Assignments become lets around what is returned:

    a = e; return f      let a := e in f

`a, b = hw.repeat(...)` names the collections of a loop. A function that is defined inside of a query, by `def` or as
`name = lambda ...`, is the step of a loop or a key; it is read where it is used.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from headwater.calculus.check import type_of
from headwater.calculus.terms import Let, Term, Var, variables
from headwater.calculus.types import ProductType
from headwater.errors import NotIncremental, TypeMismatch
from headwater.language.comprehension.operators import component
from headwater.language.comprehension.reading import Expressions, Inner, Scope

ASSIGN = "bind names once, `name = expression`, and return one expression of them"

Lets = list[tuple[Var, Term]]
Read = TypeVar("Read")


def read_body(
    definition: ast.FunctionDef,
    r: Expressions,
    scope: Scope,
    read: Callable[[ast.expr, Scope], Read],
) -> tuple[Lets, Read]:
    """What the statements bind, and what `read` makes of the returned expression."""
    lets: Lets = []
    own: dict[str, ast.Lambda | ast.FunctionDef] = {}
    statements = _statements(definition)
    for statement in statements:
        # A function reads the names of its body as they are when it is called, which this statement may do.
        known = {name: Inner(node, scope.names) for name, node in own.items()}
        scope = replace(scope, functions={**scope.functions, **known})
        with r.source.at(statement):
            match statement:
                case ast.FunctionDef(name=name, decorator_list=[]):
                    own[name] = statement
                    scope = replace(scope, names=_without(scope.names, name))
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as function):
                    own[name] = function
                    scope = replace(scope, names=_without(scope.names, name))
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ):
                    bound = r.term(value, scope)
                    if isinstance(type_of(bound), ProductType):  # a let binds one collection
                        scope = replace(scope, names={**scope.names, name: bound})
                    else:
                        scope = _let(name, bound, scope, lets)
                case ast.Assign(targets=[ast.Tuple(elts)], value=value):
                    for name, part in _parts(statement, elts, r.term(value, scope)):
                        scope = _let(name, part, scope, lets)
                case ast.Return(value=ast.expr() as value):
                    if (after := next(statements, None)) is not None:
                        with r.source.at(after):
                            raise NotIncremental(
                                "MUTATION", "nothing follows the return", hint=ASSIGN
                            )
                    return lets, read(value, scope)
                case _:
                    raise _refused(statement)
    with r.source.at(definition):
        raise NotIncremental("UNSUPPORTED_SYNTAX", "a query returns a collection", hint=ASSIGN)


def read_function(
    node: ast.Lambda | ast.FunctionDef,
    r: Expressions,
    scope: Scope,
    read: Callable[[ast.expr, Scope], Read],
) -> tuple[Lets, Read]:
    """The same of a function that a query defines."""
    if isinstance(node, ast.Lambda):
        return [], read(node.body, scope)
    return read_body(node, r, scope, read)


def let_around(lets: Lets, term: Term) -> Term:
    """The term inside of the lets that it reads."""
    for var, bound in reversed(lets):
        if var in variables(term):
            term = Let(var, bound, term)
    return term


def _let(name: str, bound: Term, scope: Scope, lets: Lets) -> Scope:
    """The scope in which a name stands for what is bound."""
    var = scope.variable(name, type_of(bound))
    lets.append((var, bound))
    return scope.bind(var, {name: var})


def _parts(statement: ast.stmt, targets: list[ast.expr], bound: Term) -> Iterator[tuple[str, Term]]:
    """The collections of a loop over several of them, by the names that they are given."""
    t = type_of(bound)
    names = [x.id for x in targets if isinstance(x, ast.Name)]
    if not isinstance(t, ProductType) or len(names) < len(targets) or len(set(names)) < len(names):
        raise _refused(statement)
    if len(names) != len(t.fields):
        raise TypeMismatch(f"{len(names)} names for a loop over {len(t.fields)} collections")
    return zip(names, (component(bound, field) for field, _ in t.fields), strict=True)


def _without(names: Mapping[str, Term], name: str) -> Mapping[str, Term]:
    return {n: t for n, t in names.items() if n != name}


def _statements(definition: ast.FunctionDef) -> Iterator[ast.stmt]:
    """The body without its docstring."""
    body = definition.body
    return iter(body if ast.get_docstring(definition) is None else body[1:])


def _refused(statement: ast.stmt) -> NotIncremental:
    match statement:
        case ast.For() | ast.While() | ast.AsyncFor():
            return NotIncremental(
                "MUTATION",
                "loops are not read",
                hint="write [... for x in xs if ...], or hw.repeat(start, step) to go on from round to round",
            )
        case ast.If() | ast.Match():
            return NotIncremental("MUTATION", "branches are not read", hint="write `a if c else b`")
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Delete() | ast.Expr():
            what = "a statement here binds one new name to a value, and changes nothing"
            return NotIncremental("MUTATION", what, hint=ASSIGN)
        case _:
            what = f"the statement `{ast.unparse(statement).splitlines()[0]}` is not read"
            return NotIncremental("UNSUPPORTED_SYNTAX", what, hint=ASSIGN)
