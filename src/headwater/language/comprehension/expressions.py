"""Python expressions as terms: comprehensions, records, conditions, arithmetic.

Every expression is a key (a scalar, a tuple or dict as a record) or a collection (a bag); `key` and
`bag` box and unbox between the two. A comprehension is `for` over its sources, its conditions are
factors, and what it yields depends on who asks: a list collects singletons, `sum` collects numbers,
`any` and `all` collect truth values. So `collect` takes the way to emit an element.

Conditions are read in two forms. As a scalar they may be part of a larger one; as a factor of a
product `and` splits, and a quantifier (`any`, `all`, `in`) is ¬¬count or ¬count, with no scalar.
Names that a query does not bind stand for constants of its module, as they are when it is read.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from headwater.calculus.check import type_of
from headwater.calculus.terms import Box, Call, For, Not, Pred, Record, Sng, Term, Var
from headwater.calculus.types import (
    BOOLEAN,
    DATE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    KeyType,
    ProductType,
    RecordType,
    has_box,
    is_numeric,
)
from headwater.errors import NotIncremental, TypeMismatch, UnknownName
from headwater.language.build import distinct
from headwater.language.comprehension.calls import read_call
from headwater.language.comprehension.operators import (
    EMPTY,
    NONE_OF_THEM,
    ONE,
    as_bag,
    as_key,
    chosen,
    component,
    connected,
    constant,
    equal,
    is_collection,
    is_tuple,
    kind,
    negated,
    numeric,
    ordered,
    product,
    together,
)
from headwater.language.comprehension.reading import (
    MISSING,
    Emit,
    Scope,
    Source,
    arguments,
    integer,
)

ORDERINGS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
ARITHMETIC = {
    ast.Add: ("+", "+"),
    ast.Sub: ("-", "-"),
    ast.Mult: ("*", "*"),
    ast.Div: ("/", "/"),
    ast.FloorDiv: ("py_floordiv", "//"),
    ast.Mod: ("py_mod", "%"),
}
MOMENTS = {"year", "month", "day", "hour", "minute", "second"}


class Reader:
    """Reads the expressions of one function."""

    def __init__(self, source: Source, outside: Mapping[str, Any]):
        self.source, self.names = source, outside
        self.loops: dict[Term, ast.Call] = {}

    # --- keys and collections --------------------------------------------------------------------

    def term(self, e: ast.expr, scope: Scope) -> Term:
        """An expression as a key or a collection."""
        with self.source.at(e):
            out = self._term(e, scope)
            type_of(out)
            return out

    def key(self, e: ast.expr, scope: Scope) -> Term:
        """An expression as a key; a collection is boxed."""
        return as_key(self.term(e, scope))

    def bag(self, e: ast.expr, scope: Scope) -> Term:
        """What a loop or an aggregate runs over; generators and tuples are collections here."""
        with self.source.at(e):
            match e:
                case ast.ListComp() | ast.GeneratorExp():
                    return self.collect(e, scope, lambda x, inner: Sng(self.key(x, inner), ONE))
                case ast.SetComp(elt, generators):
                    listed = ast.copy_location(ast.ListComp(elt, generators), e)
                    return self.unique(self.bag(listed, scope), elt)
                case ast.Tuple(elts) | ast.List(elts) if elts:
                    return together([Sng(self.key(x, scope), ONE) for x in elts])
                case ast.Set(elts):
                    rows = together([Sng(self.key(x, scope), ONE) for x in elts])
                    return self.unique(rows, elts[0])
                case ast.Tuple():
                    return EMPTY
                case _:
                    return as_bag(self.term(e, scope))

    def collect(self, e: ast.expr, scope: Scope, emit: Emit) -> Term:
        """The sum of what is emitted for each element of a collection."""
        if isinstance(e, (ast.ListComp, ast.GeneratorExp)):
            _late(e.generators)
            return self._clauses(e.generators, e.elt, scope, emit)
        rows = self.bag(e, scope)
        var = scope.variable("item", type_of(rows).key)
        name = ast.copy_location(ast.Name("item", ast.Load()), e)
        return For(var, rows, emit(name, scope.bind(var, {"item": var})))

    def _clauses(
        self, rest: list[ast.comprehension], e: ast.expr, scope: Scope, emit: Emit
    ) -> Term:
        """for x in r if c ... : for x in r collect [c] · ..."""
        if not rest:
            return emit(e, scope)
        clause = rest[0]
        if clause.is_async:
            raise NotIncremental("UNSUPPORTED_SYNTAX", "asynchronous loops are not read")
        rows = self.bag(clause.iter, scope)
        with self.source.at(clause.target):
            var, scope = self._target(clause.target, type_of(rows).key, scope)
        factors = [f for c in clause.ifs for f in self.factors(c, scope)]
        return For(var, rows, product(*factors, self._clauses(rest[1:], e, scope, emit)))

    def _target(self, target: ast.expr, t: KeyType, scope: Scope) -> tuple[Var, Scope]:
        name = target.id if isinstance(target, ast.Name) else "row"
        var = scope.variable(name, t)
        return var, scope.bind(var, self._unpacked(target, var))

    def _unpacked(self, target: ast.expr, term: Term) -> dict[str, Term]:
        """The names that a target binds, each to its part of the row."""
        match target:
            case ast.Name(id=name):
                return {name: term}
            case ast.Tuple(elts) | ast.List(elts):
                t = type_of(term)
                if not is_tuple(t) or len(t.fields) != len(elts):
                    found = f"a tuple of {len(t.fields)}" if is_tuple(t) else kind(t)
                    hint = "" if is_tuple(t) else "name the row and take its fields: row.name"
                    raise TypeMismatch(f"{len(elts)} names for {found}", hint=hint)
                bound: dict[str, Term] = {}
                for (field, _), part in zip(t.fields, elts, strict=True):
                    with self.source.at(part):
                        bound |= self._unpacked(part, component(term, field))
                return bound
            case _:
                hint = "write `for x in xs` or `for a, b in xs`"
                raise NotIncremental("MUTATION", "a loop binds names", hint=hint)

    def unique(self, rows: Term, e: ast.expr) -> Term:
        if isinstance(e, ast.Dict) or has_box(type_of(rows).key):
            what = "dicts, lists and sets cannot be elements of a set"
            raise NotIncremental("UNHASHABLE", what, hint="make the element a tuple of scalars")
        return distinct(rows)

    # --- conditions ------------------------------------------------------------------------------

    def condition(self, e: ast.expr, scope: Scope) -> Term:
        """A condition as a scalar, in which NULL is as good as false."""
        with self.source.at(e):
            match e:
                case ast.BoolOp(op, values):
                    name = "and" if isinstance(op, ast.And) else "or"
                    return Call(name, tuple(self.condition(v, scope) for v in values))
                case ast.UnaryOp(ast.Not(), operand):
                    if (quantified := self._quantified(e, scope)) is not None:
                        return _counted(quantified)
                    return negated(self.condition(operand, scope))
                case _:
                    return self._boolean(e, self.term(e, scope))

    def factors(self, e: ast.expr, scope: Scope) -> list[Term]:
        """A condition as factors that are 1 where it holds and 0 elsewhere."""
        if isinstance(e, ast.BoolOp) and isinstance(e.op, ast.And):
            return [f for v in e.values for f in self.factors(v, scope)]
        with self.source.at(e):
            quantified = self._quantified(e, scope)
            if quantified is not None:
                count, there = quantified
                return [Not(Not(count)) if there else Not(count)]
            match self.condition(e, scope):
                case Call("and", parts):  # tuples are equal where all of their fields are
                    return [Pred(p) for p in parts]
                case condition:
                    return [Pred(condition)]

    def _holds(self, e: ast.expr, scope: Scope) -> Term:
        """1 where a condition holds."""
        return product(*self.factors(e, scope))

    def _fails(self, e: ast.expr, scope: Scope) -> Term:
        """1 where a condition does not hold; None does not hold."""
        with self.source.at(e):
            quantified = self._quantified(e, scope)
            if quantified is not None:
                count, there = quantified
                return Not(count) if there else Not(Not(count))
            return Pred(negated(self.condition(e, scope)))

    def _quantified(self, e: ast.expr, scope: Scope) -> tuple[Term, bool] | None:
        """For any, all, in, not in: a count, and whether the condition says that it is not zero."""
        match e:
            case ast.UnaryOp(ast.Not(), operand):
                inner = self._quantified(operand, scope)
                return inner and (inner[0], not inner[1])
            case ast.Call(func):
                callee = self.outside(func, scope)
                if callee is any or callee is all:
                    (over,) = arguments(e, 1, 1)
                    emit: Emit = self._holds if callee is any else self._fails
                    return self.collect(over, scope, emit), callee is any
                return None
            case ast.Compare(left, [ast.In() | ast.NotIn() as op], [right]):
                if isinstance(right, (ast.Tuple, ast.List, ast.Set)) or self._is_text(right, scope):
                    return None
                wanted = self.key(left, scope)
                count = self.collect(right, scope, lambda x, s: Pred(equal(wanted, self.key(x, s))))
                return count, isinstance(op, ast.In)
            case _:
                return None

    def _is_text(self, e: ast.expr, scope: Scope) -> bool:
        comprehension = isinstance(e, (ast.ListComp, ast.SetComp, ast.GeneratorExp))
        return not comprehension and type_of(self.term(e, scope)) == STRING

    def _boolean(self, e: ast.expr, term: Term) -> Term:
        t = type_of(term)
        if t == BOOLEAN:
            return term
        x = self.source.shown(e, "x")
        if is_collection(t):
            hint = f"len({x}) > 0"
        elif is_numeric(t):
            hint = f"{x} != 0"
        else:
            hint = f'{x} != ""' if t == STRING else f"{x} is not None"
        what = f"a condition is a boolean, and this is {kind(t)}"
        hint = f"write `{hint}`; to choose a value write `a if c else b`"
        with self.source.at(e):
            raise NotIncremental("NOT_A_BOOLEAN", what, hint=hint)

    def _compared(self, op: ast.cmpop, left: ast.expr, right: ast.expr, scope: Scope) -> Term:
        """One link of a chain of comparisons."""
        match op:
            case ast.Is() | ast.IsNot():
                if not (isinstance(right, ast.Constant) and right.value is None):
                    what = "`is` asks for None only"
                    raise NotIncremental("UNSUPPORTED_SYNTAX", what, hint="write `==` or `!=`")
                name = "is_null" if isinstance(op, ast.Is) else "is_not_null"
                return Call(name, (self.key(left, scope),))
            case ast.Eq():
                return equal(self.term(left, scope), self.term(right, scope))
            case ast.NotEq():
                return negated(equal(self.term(left, scope), self.term(right, scope)))
            case ast.In():
                return self._member(left, right, scope)
            case ast.NotIn():
                return negated(self._member(left, right, scope))
            case _:
                return ordered(ORDERINGS[type(op)], self.key(left, scope), self.key(right, scope))

    def _member(self, left: ast.expr, right: ast.expr, scope: Scope) -> Term:
        """`x in (a, b)` and `s in text`; collections are counted by `_quantified`."""
        if isinstance(right, (ast.Tuple, ast.List, ast.Set)):
            wanted = self.key(left, scope)
            tests = tuple(equal(wanted, self.key(x, scope)) for x in right.elts)
            return tests[0] if len(tests) == 1 else Call("or", tests) if tests else constant(False)
        link = ast.copy_location(ast.Compare(left, [ast.In()], [right]), right)
        if (quantified := self._quantified(link, scope)) is not None:
            return _counted(quantified)
        return Call("contains", (self.key(right, scope), self.key(left, scope)))

    # --- expressions -----------------------------------------------------------------------------

    def _term(self, e: ast.expr, scope: Scope) -> Term:
        if (quantified := self._quantified(e, scope)) is not None:
            return _counted(quantified)
        match e:
            case ast.Constant(value):
                return constant(value)
            case ast.Name(id=name):
                return scope.names[name] if name in scope.names else self._constant(e, scope)
            case ast.Attribute(value, name):
                return self._attribute(e, value, name, scope)
            case ast.Subscript(value, ast.Constant(str() as name)):
                return self._field(value, self.term(value, scope), name)
            case ast.Subscript(value, index):
                return self._item(self.term(value, scope), index)
            case ast.Dict(keys, values):
                return self._record(keys, values, scope)
            case ast.Tuple(elts) if elts:
                return Record(tuple((f"_{i + 1}", self.key(x, scope)) for i, x in enumerate(elts)))
            case ast.List(elts) if not elts:
                return EMPTY
            case ast.ListComp() | ast.SetComp() | ast.List() | ast.Set():
                return self.bag(e, scope)
            case ast.GeneratorExp():
                raise NotIncremental(
                    "UNSUPPORTED_SYNTAX",
                    "a generator is used up once, and reads its variables when it is",
                    hint="write a list: [... for x in xs]",
                )
            case ast.BoolOp(op, values):
                operands = [self._boolean(v, self.term(v, scope)) for v in values]
                return connected("and" if isinstance(op, ast.And) else "or", operands)
            case ast.UnaryOp(ast.Not()):
                return self.condition(e, scope)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)) if not isinstance(
                number, bool
            ):
                return constant(-number)
            case ast.UnaryOp(ast.USub(), operand):
                return numeric("negate", "-", self.key(operand, scope))
            case ast.Compare(left, ops, comparators):
                pairs = zip([left, *comparators], ops, comparators, strict=False)
                links = [self._compared(op, a, b, scope) for a, op, b in pairs]
                return links[0] if len(links) == 1 else Call("and", tuple(links))
            case ast.IfExp(test, body, orelse):
                condition = self.condition(test, scope)
                return chosen(condition, self.term(body, scope), self.term(orelse, scope))
            case ast.BinOp(base, ast.Pow(), ast.Constant(2)):
                squared = self.key(base, scope)
                return numeric("*", "** 2", squared, squared)
            case ast.BinOp(_, ast.Pow()):
                hint = "write x * x * x; x ** 2 is read"
                raise NotIncremental(
                    "UNSUPPORTED_SYNTAX", "of powers the square is read", hint=hint
                )
            case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
                return self._arithmetic(left, op, right, scope)
            case ast.Call():
                return read_call(self, e, scope)
            case ast.JoinedStr():
                hint = "write a + b of strings, or register a function with @function"
                raise NotIncremental("UNSUPPORTED_SYNTAX", "f-strings are not read", hint=hint)
            case ast.Starred():
                hint = "add lists with +, and write out the arguments"
                raise NotIncremental("UNSUPPORTED_SYNTAX", "`*` is not read", hint=hint)
            case _:
                what = f"`{ast.unparse(e)}` is outside the language of queries"
                hint = (
                    "in it: comprehensions, records, arithmetic, conditions, registered functions"
                )
                raise NotIncremental("UNSUPPORTED_SYNTAX", what, hint=hint)

    def _arithmetic(self, left: ast.expr, op: ast.operator, right: ast.expr, scope: Scope) -> Term:
        a, b = self.term(left, scope), self.term(right, scope)
        s, t = type_of(a), type_of(b)
        if isinstance(op, ast.Add) and s == t == STRING:
            return Call("concat", (a, b))
        if isinstance(op, ast.Add) and is_collection(s) and is_collection(t):
            if any(self._is_set(x, scope) for x in (left, right)):
                raise TypeMismatch("sets are not added", hint="write set(list(a) + list(b))")
            return together([as_bag(a), as_bag(b)])
        return numeric(*ARITHMETIC[type(op)], as_key(a), as_key(b))

    def _is_set(self, e: ast.expr, scope: Scope) -> bool:
        call = isinstance(e, ast.Call) and self.outside(e.func, scope) is set
        return call or isinstance(e, (ast.Set, ast.SetComp))

    def _record(self, keys: list[ast.expr | None], values: list[ast.expr], scope: Scope) -> Term:
        names = [k.value for k in keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]
        if not keys or len(names) < len(keys) or len(set(names)) < len(names):
            what = "a dict here is a record: its keys are distinct string constants"
            raise NotIncremental("UNSUPPORTED_SYNTAX", what, hint='write {"name": value, ...}')
        return Record(tuple((n, self.key(v, scope)) for n, v in zip(names, values, strict=True)))

    def _attribute(self, e: ast.Attribute, value: ast.expr, name: str, scope: Scope) -> Term:
        if isinstance(self.outside(value, scope), ModuleType):
            return self._constant(e, scope)
        term = self.term(value, scope)
        if name in MOMENTS and type_of(term) in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
            return Call(name, (term,))
        return self._field(value, term, name)

    def _field(self, owner: ast.expr, term: Term, name: str) -> Term:
        t, shown = type_of(term), ast.unparse(owner)
        if not isinstance(t, RecordType):
            hint = f"take it of each: [x.{name} for x in {shown}]" if is_collection(t) else ""
            raise TypeMismatch(f"`{shown}` is {kind(t)} and has no field `{name}`", hint=hint)
        if name not in dict(t.fields):
            known = ", ".join(n for n, _ in t.fields)
            what = f"unknown field `{name}` in `{shown}`"
            raise UnknownName(what, hint=f"fields of `{shown}`: {known}")
        return component(term, name)

    def _item(self, term: Term, index: ast.expr) -> Term:
        t, at = type_of(term), integer(index)
        if isinstance(t, ProductType) and at is not None and -len(t.fields) <= at < len(t.fields):
            return component(term, t.fields[at][0])
        if at is None or not is_tuple(t):
            what = f"{kind(t)} is not read by position"
            hint = 'write t[0] of a tuple, row["name"] of a record'
            raise NotIncremental("UNSUPPORTED_SYNTAX", what, hint=hint)
        if not -len(t.fields) <= at < len(t.fields):
            raise UnknownName(f"no position {at} in a tuple of {len(t.fields)}")
        return component(term, t.fields[at][0])

    # --- names from outside, and calls -----------------------------------------------------------

    def outside(self, e: ast.expr, scope: Scope) -> Any:
        """The Python object that a name or `module.name` stands for outside the query."""
        match e:
            case ast.Name(id=name) if name not in scope.names and name not in scope.functions:
                return self.names.get(name, MISSING)
            case ast.Attribute(value, name):
                module = self.outside(value, scope)
                return getattr(module, name, MISSING) if isinstance(module, ModuleType) else MISSING
            case _:
                return MISSING

    def _constant(self, e: ast.expr, scope: Scope) -> Term:
        """A constant of the module or an enclosing function, as it is when the query is read."""
        found = self.outside(e, scope)
        if isinstance(e, ast.Name) and e.id in scope.functions:
            what = (
                f"`{e.id}` is a function; here it is the step of a loop, or a key, and nothing else"
            )
            raise NotIncremental("UNSUPPORTED_SYNTAX", what, hint="write hw.repeat(start, step)")
        if found is MISSING:
            hint = f"in sight: {', '.join(sorted(scope.names))}"
            raise UnknownName(f"unknown name `{ast.unparse(e)}`", hint=hint)
        return constant(found)


def _counted(quantified: tuple[Term, bool]) -> Term:
    """A quantifier as a scalar: the count compared with 0."""
    count, there = quantified
    return Call(">" if there else "=", (Box(count), NONE_OF_THEM))


def _late(clauses: list[ast.comprehension]) -> None:
    """A generator reads the variables of its loop while it runs; no later clause may bind them."""
    for i, clause in enumerate(clauses):
        if isinstance(clause.iter, ast.GeneratorExp):
            later = {name for c in clauses[i + 1 :] for name in _names(c.target)}
            if again := sorted(later & _names(clause.iter)):
                what = f"`{again[0]}` is bound again while a generator still reads it"
                raise NotIncremental(
                    "UNSUPPORTED_SYNTAX", what, hint="use another name, or a list [...]"
                )


def _names(e: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(e) if isinstance(n, ast.Name)}
