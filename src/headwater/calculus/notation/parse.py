"""Reads the notation that `text.show` prints: `parse(show(e), inputs, scope) == e`.

Recursive descent, two methods per sort: `ring` and `key` read as far to the right as a term reaches,
`ring_operand` and `key_operand` read one operand. The text says no types of names, so they come from
the declared inputs, from the scope, and for a binder from the type of what it binds. The position
decides between keys and ring values, so nothing is tried twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headwater.calculus import types as ty
from headwater.calculus.check import type_of
from headwater.calculus.dyadic import POWERS
from headwater.calculus.notation.literals import Literals
from headwater.calculus.notation.text import INFIX, KEY_FORMS, RESERVED
from headwater.calculus.terms import (
    Add,
    Answer,
    Apply,
    Box,
    Call,
    Dict,
    DictUnion,
    Differential,
    Each,
    Field,
    Fn,
    For,
    Label,
    Let,
    Neg,
    Not,
    Num,
    Pointwise,
    Pred,
    Record,
    Rel,
    Repeat,
    Sng,
    Sum,
    Term,
    Times,
    Unbox,
    Var,
    Within,
    Zero,
)
from headwater.calculus.windows import Window, read_window
from headwater.errors import IllTyped

Inputs = Mapping[str, ty.RingType]
Scope = Mapping[str, ty.Type]
NO_VARIABLES: Scope = {}


def parse(text: str, inputs: Inputs, scope: Scope = NO_VARIABLES) -> Term:
    """The ring term that the text shows."""
    parser = _Parser(text, inputs, scope)
    return parser.whole(parser.ring)


def parse_key(text: str, inputs: Inputs, scope: Scope = NO_VARIABLES) -> Term:
    """The key term that the text shows."""
    parser = _Parser(text, inputs, scope)
    return parser.whole(parser.key)


def parse_type(text: str) -> ty.Type:
    """The type that the text shows."""
    literals = Literals(text)
    t: ty.Type = literals.whole(literals.type)
    return t


class _Parser(Literals):
    """One reading of one text: the cursor, and which variables are in scope."""

    def __init__(self, text: str, inputs: Inputs, scope: Scope):
        super().__init__(text)
        self.inputs, self.scope = inputs, dict(scope)

    # --- names and binders -------------------------------------------------------------------------

    def known(self, term: Term, first: int) -> Any:
        """The type of a term that was read from the token `first` on."""
        try:
            return type_of(term)
        except IllTyped as e:
            raise self.wrong(f"`{e.term}` has no type: found {e.found}", e.expected, first) from e

    def reference(self, sort: str, fits: Callable[[ty.Type], bool]) -> Term:
        """A variable, or else the input with the longest name, and the fields that follow in the name."""
        if self.token.kind != "quoted" and (self.token.kind != "name" or self.sees(*RESERVED)):
            raise self.unexpected(sort)
        first, token = self.at, self.next()
        parts = [token.text] if token.kind == "quoted" else token.text.split(".")
        leaf, fields = self.leaf(parts)
        if leaf is None:
            names = ", ".join(sorted({*self.scope, *self.inputs})) or "none is declared"
            what = f"unknown name `{token.text}`"
            raise self.wrong(what, f"a variable or an input: {names}", first)
        if not fits(leaf.type):
            raise self.wrong(f"`{leaf}` is of type {leaf.type}", sort, first)
        return self.with_fields(leaf, fields, first)

    def leaf(self, parts: list[str]) -> tuple[Var | Rel | None, list[str]]:
        """What a dotted name begins with, and the rest of the name."""
        if parts[0] in self.scope:
            return Var(parts[0], self.scope[parts[0]]), parts[1:]
        for n in range(len(parts), 0, -1):
            name = ".".join(parts[:n])
            t = self.inputs.get(name, self.inputs.get(name.lstrip("Δ′")))
            if t is not None:
                return Rel(name, t), parts[n:]
        return None, []

    def with_fields(self, term: Term, fields: list[str], first: int) -> Term:
        """A term, the given fields of it, and those that follow it in the text."""
        for field in fields:
            term = Field(term, field)
            self.known(term, first)
        if not self.accept("."):
            return term
        kind, text, _, _ = self.token
        if kind not in ("name", "quoted"):
            raise self.unexpected("the name of a field")
        self.next()
        return self.with_fields(term, [text] if kind == "quoted" else text.split("."), first)

    def under(self, bound: tuple[Var, ...], body: Callable[[], Term]) -> Term:
        """A body that may read the bound variables."""
        outer = self.scope
        self.scope = {**outer, **{v.name: v.type for v in bound}}
        out = body()
        self.scope = outer
        return out

    def source(self) -> tuple[Term, ty.MapType]:
        """in r collect: the map that a binder walks over."""
        self.take("in")
        first, source = self.at, self.ring_operand()
        t = self.known(source, first)
        if not isinstance(t, ty.MapType):
            raise self.wrong(f"`{source}` is of type {t}", "a finite map", first)
        self.take("collect")
        return source, t

    # --- ring terms --------------------------------------------------------------------------------

    def ring(self) -> Term:
        """A ring term: a binder, a prefix, or operands with one operator between them."""
        if self.accept("for"):
            x = self.name("variable")
            source, t = self.source()
            var = Var(x, t.key)
            return For(var, source, self.under((var,), self.ring))
        if self.accept("each"):
            k = self.name("variable")
            self.take("↦")
            v = self.name("variable")
            source, t = self.source()
            pair = Var(k, t.key), Var(v, t.value)
            return Each(*pair, source, self.under(pair, self.ring))
        if self.accept("let"):
            return self.let(self.ring)
        if self.sees("repeat") and self.opens("["):
            return self.repeat()
        if self.accept("fn"):
            var = Var(*self.named(self.type))
            self.take("=>")
            return Fn(var, self.under((var,), self.ring))
        if self.accept("dict"):
            if not self.opens("("):
                raise self.unexpected("a label with its parameters")
            index = self.next().text
            params = self.listed("(", lambda: Var(*self.named(self.key_type)), ")")
            self.take("↦")
            return Dict(index, params, self.under(params, self.ring))
        if self.accept("¬"):
            return Not(self.ring_operand())
        if self.accept("+"):
            return Add((self.ring_operand(),))
        if self.accept("·"):
            return Times((self.ring_operand(),))
        if self.sees("-") and self.after.kind != "number":
            self.take("-")
            return Neg(self.ring_operand())
        return self.combination()

    def let(self, body: Callable[[], Term]) -> Term:
        """let X := r in s: s has the sort of the position, r that of the keyword."""
        keyed = self.sees("key") and self.after.text != ":="
        self.at += keyed
        name = self.name("variable")
        self.take(":=")
        first, value = self.at, self.key() if keyed else self.ring()
        var = Var(name, self.known(value, first))
        self.take("in")
        return Let(var, value, self.under((var,), body))

    def repeat(self) -> Term:
        """repeat[end] X := r then s: a loop, with X of the type of r in s."""
        self.take("repeat")
        times, within, limit = self.within("[", self.end_of_rounds, "]")
        name = self.name("variable")
        self.take(":=")
        first, start = self.at, self.ring()
        var = Var(name, self.known(start, first))
        self.take("then")
        return Repeat(var, start, self.under((var,), self.ring), times, within, limit)

    def end_of_rounds(self) -> tuple[int | None, Within | None, int]:
        """times 10, within 0.01 of rank by node, limit 100: one of them at least, in this order."""
        if not self.sees("times", "within", "limit"):
            raise self.unexpected("`times`, `within` or `limit`")
        times = self.integer() if self.accept("times") else None
        within = self.nearness() if self.accept("within") else None
        if times is None or self.sees("limit"):
            self.take("limit")
            return times, within, self.integer()
        return times, within, Repeat.limit

    def nearness(self) -> Within:
        """0.01 of rank by node, part."""
        if self.token.kind != "number" or self.token.text[-1] in "rd":
            raise self.unexpected("how far a value may move")
        epsilon = float(self.next().text)
        self.take("of")
        column = self.name("column")
        by = list[str]()
        if self.accept("by"):
            by = [self.name("column"), *self.repeated(",", lambda: self.name("column"))]
        return Within(epsilon, column, tuple(by))

    def combination(self) -> Term:
        """r + s + ..., r · s · ..., r * s, r ∪ s, f @ a, or a single operand."""
        first, left = self.at, self.ring_operand()
        if self.sees("+"):
            return Add((left, *self.repeated("+", self.ring_operand)))
        if self.sees("·"):
            return Times((left, *self.repeated("·", self.ring_operand)))
        if self.accept("*"):
            return Pointwise(left, self.ring_operand())
        if self.accept("∪"):
            return DictUnion(left, self.ring_operand())
        if not self.sees("@"):
            return left
        match self.known(left, first):
            case ty.MapType(wanted, _) | ty.FunType(wanted, _):
                self.take("@")
                return Apply(left, self.key_operand() if ty.is_key(wanted) else self.ring_operand())
            case t:
                raise self.wrong(
                    f"`{left}` is of type {t}", "a map or a function before `@`", first
                )

    def ring_operand(self) -> Term:
        """A ring term that needs no parentheses, or has them."""
        first = self.at
        return self.with_fields(self.ring_atom(), [], first)

    def ring_atom(self) -> Term:
        kind, text, _, _ = self.token
        if kind in ("number", "string") or self.sees("-"):
            return self.number()
        if self.accept("δ"):
            return Differential(self.within("(", self.ring, ")"))
        if kind == "sign":
            match text:
                case "(":
                    return self.within("(", self.ring, ")")
                case "[":
                    return Pred(self.within("[", self.key, "]"))
                case "⟨":
                    return Record(self.listed("⟨", lambda: self.named(self.ring), "⟩"))
                case "{":
                    return self.within("{", self.singleton, "}")
        if kind == "name" and (self.opens("(") or self.opens("[")):
            match self.next().text:
                case "zero":
                    return Zero(self.within("(", self.ring_type, ")"))
                case "sum":
                    return Sum(self.within("(", self.ring, ")"))
                case "unbox":
                    return Unbox(self.within("(", self.key, ")"))
                case "first":
                    params = self.within("[", self.first_params, "]")
                    return Answer("first", params, self.within("(", self.ring, ")"))
                case "window":
                    params = self.within("[", self.window_params, "]")
                    return Answer("window", params, self.within("(", self.ring, ")"))
            raise self.wrong(
                f"`{text}` is not a form of ring values",
                "zero, sum, unbox, first or window",
                self.at - 1,
            )
        return self.reference("a ring value", lambda t: not ty.is_key(t))

    def singleton(self) -> Term:
        """e, or e ↦ r."""
        key = self.key()
        return Sng(key, self.ring() if self.accept("↦") else Num(1, ty.INT))

    def first_params(self) -> tuple[Any, ...]:
        """limit; offset; asc nulls first; desc nulls last; ..."""
        limit = None if self.accept("none") else self.integer()
        self.take(";")
        offset = self.integer()
        return limit, offset, self.directions()

    def directions(self) -> tuple[tuple[bool, bool], ...]:
        """; asc nulls first; desc nulls last ..."""
        out = []
        while self.accept(";"):
            descending = self.either("asc", "desc")
            self.take("nulls")
            out.append((descending, self.either("first", "last")))
        return tuple(out)

    def key_params(self, name: str) -> tuple[Any, ...]:
        """The parameters of an answer that is a key, as `text.show` writes them."""
        if name == "mode":
            return (self.either("asc", "desc"),)
        if name in POWERS:
            return (self.integer(), *self.repeated(";", self.integer))
        constant = self.constant()
        if name == "listagg":
            return (constant.value, self.directions())
        self.take(";")
        return (float(constant.value), self.either("asc", "desc"))

    def window_params(self) -> tuple[Any, ...]:
        """(columns); limit; asc nulls first; ...; row_number(): int; ..."""
        names = tuple(self.listed("(", lambda: self.name("column"), ")"))
        self.take(";")
        limit = None if self.accept("none") else self.integer()
        directions: list[tuple[bool, bool]] = []
        windows: list[Window] = []
        while self.accept(";"):
            if self.sees("asc", "desc"):
                descending = self.either("asc", "desc")
                self.take("nulls")
                directions.append((descending, self.either("first", "last")))
            else:
                windows.append(read_window(self))
        return tuple(directions), tuple(windows), names, limit

    def either(self, no: str, yes: str) -> bool:
        """Which of two words is here."""
        if not self.sees(no, yes):
            raise self.unexpected(f"`{no}` or `{yes}`")
        return self.next().text == yes

    # --- key terms ---------------------------------------------------------------------------------

    def key(self) -> Term:
        """A key term: a binder, or operands with one scalar operator between them."""
        if self.accept("let"):
            return self.let(self.key)
        left = self.key_operand()
        if not self.sees(*INFIX):
            return left
        operator = self.token.text
        return Call(operator, (left, *self.repeated(operator, self.key_operand)))

    def key_operand(self) -> Term:
        """A key term that needs no parentheses, or has them."""
        first = self.at
        return self.with_fields(self.key_atom(), [], first)

    def key_atom(self) -> Term:
        kind, text, _, _ = self.token
        if kind in ("number", "string") or self.sees("-", "null", "true", "false"):
            return self.constant()
        if self.sees("("):
            return self.within("(", self.key, ")")
        if self.sees("{"):
            return Record(self.listed("{", lambda: self.named(self.key), "}"))
        if kind == "name" and text in KEY_FORMS and self.opens("["):
            self.next()
            params = self.within("[", lambda: self.key_params(text), "]")
            return Answer(text, params, self.within("(", self.ring, ")"))
        if not self.opens("("):
            return self.reference("a key", ty.is_key)
        self.next()
        if kind == "name" and text == "box":
            return Box(self.within("(", self.ring, ")"))
        if kind == "name" and text in KEY_FORMS:
            return Answer(text, (), self.within("(", self.ring, ")"))
        args = self.listed("(", self.key, ")")
        if text.startswith("ℓ"):
            return Label(text, args)
        return Call(text, args, self.key_type() if self.accept(":") else None)
