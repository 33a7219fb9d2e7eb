"""The parts of the notation without names of inputs or variables: types, numbers and constants.

`Literals` is the cursor that reads them; the parser of terms adds the rest. What a constant stands
for depends on the type after it: 1.50:decimal(3,2) is a decimal, '2024-02-29':date is a date.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from headwater.calculus import types as ty
from headwater.calculus.lists import read_list
from headwater.calculus.notation.tokens import Cursor, Token
from headwater.calculus.ring import number
from headwater.calculus.terms import Const, Num

_TYPES: dict[str, ty.Type] = {t.name: t for t in vars(ty).values() if isinstance(t, ty.Base)}
_TYPES |= {"Int": ty.INT, "Real": ty.REAL, "Dyadic": ty.DYADIC, "Label": ty.LABEL}

_ESCAPED = {"n": "\n", "r": "\r"}
_QUOTED: dict[str, Callable[[str], Any]] = {
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamp_ntz": datetime.fromisoformat,
    "binary": bytes.fromhex,
    "double": lambda text: number(float(text)),
    "float": lambda text: number(float(text)),
}
"""How a quoted constant is read where its type is not string."""


class Literals(Cursor):
    """A cursor that reads types and constants."""

    def named(self, item: Callable[[], Any]) -> tuple[str, Any]:
        """name: item."""
        name = self.name("field or a variable")
        self.take(":")
        return name, item()

    def type(self) -> Any:
        """A key type or a ring type."""
        t = self.type_operand()
        return ty.MapType(t, self.ring_type()) if ty.is_key(t) and self.accept("->") else t

    def key_type(self) -> Any:
        first, t = self.at, self.type_operand()
        if not ty.is_key(t):
            raise self.wrong(f"{t} is a ring type", "a key type", first)
        return t

    def ring_type(self) -> Any:
        first, t = self.at, self.type()
        if ty.is_key(t):
            raise self.wrong(f"{t} is a key type", "a ring type", first)
        return t

    def type_operand(self) -> Any:
        """A type that is not an arrow from keys, which has no brackets."""
        if self.sees("{"):
            return ty.RecordType(self.listed("{", lambda: self.named(self.key_type), "}"))
        if self.sees("⟨"):
            return ty.ProductType(self.listed("⟨", lambda: self.named(self.ring_type), "⟩"))
        if self.sees("["):
            return ty.Boxed(self.within("[", self.ring_type, "]"))
        if self.accept("("):
            argument = self.type()
            self.take("=>")
            result = self.ring_type()
            self.take(")")
            return ty.FunType(argument, result)
        if self.accept("Bag"):
            return ty.bag(self.within("(", self.key_type, ")"))
        if self.accept("Exact"):
            return ty.Exact(self.within("(", self.integer, ")"))
        if self.accept("list"):
            return ty.ListType(self.within("(", self.key_type, ")"))
        if self.accept("decimal"):
            return self.within("(", self.decimal_type, ")")
        if self.token.kind != "name" or self.token.text not in _TYPES:
            raise self.unexpected("a type")
        return _TYPES[self.next().text]

    def decimal_type(self) -> ty.Base:
        precision = self.integer()
        self.take(",")
        return ty.decimal(precision, self.integer())

    def number(self) -> Num:
        """3 of Int, 3.0r of Real, 3.00d of Exact(2); 'inf'r where there are no digits."""
        first, sign = self.at, "-" if self.accept("-") else ""
        kind, text, _, _ = self.next()
        digits = sign + text.rstrip("rd")
        if kind == "string" and self.accept("r"):
            return Num(number(float(text[1:-1])), ty.REAL)
        if kind == "number" and text.endswith("r"):
            return Num(float(digits), ty.REAL)
        if kind == "number" and text.endswith("d"):
            return Num(Decimal(digits), ty.Exact(len(digits.partition(".")[2])))
        if kind == "number" and text.isdecimal():
            return Num(int(digits), ty.INT)
        raise self.wrong(
            f"`{digits}` is not a number of a ring", "one such as 3, 3.0r or 3.00d", first
        )

    def constant(self) -> Const:
        """A key constant; what its text stands for depends on the type after it."""
        first, sign = self.at, "-" if self.accept("-") else ""
        token = self.next()
        t = self.key_type() if self.accept(":") else None
        try:
            return _constant(token, sign, t)
        except (ValueError, ArithmeticError) as e:
            what = f"`{sign}{token.text}` is not a constant" + (f" of type {t}" if t else "")
            raise self.wrong(what, "one such as 3, 'a' or '2024-02-29':date", first) from e


def _constant(token: Token, sign: str, t: Any) -> Const:
    """The constant that a literal stands for, given the type after it if there is one."""
    text, name = sign + token.text, t.name if isinstance(t, ty.Base) else None
    match token.kind:
        case "string":
            plain = re.sub(r"(?s)\\(.)", lambda m: _ESCAPED.get(m[1], m[1]), text[1:-1])
            if isinstance(t, ty.ListType):
                return Const(read_list(plain, t), t)
            read = _QUOTED.get(name or "string", str)
            return Const(read(plain), t or ty.STRING)
        case "number" if name == "decimal":
            return Const(Decimal(text), t)
        case "number" if token.text.isdecimal():
            return Const(int(text), t or ty.BIGINT)
        case "number":
            return Const(float(text), t or ty.DOUBLE)
        case "name" if not sign and text == "null":
            return Const(None, t or ty.VOID)
        case "name" if not sign:
            return Const({"true": True, "false": False}[text], t or ty.BOOLEAN)
    raise ValueError(text)
