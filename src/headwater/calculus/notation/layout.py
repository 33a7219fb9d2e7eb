"""The text of a term over several lines, for people: broken where a line would be too long."""

from __future__ import annotations

from headwater.calculus.notation.text import atom, ends, quoted, show
from headwater.calculus.terms import (
    Add,
    Dict,
    Each,
    Field,
    Fn,
    For,
    Let,
    Neg,
    Record,
    Repeat,
    Sng,
    Term,
    Times,
)
from headwater.calculus.types import field_name


def layout(term: Term, width: int = 100, indent: int = 0) -> str:
    """`show(term)`, with a line for each generator, summand and factor that does not fit."""
    flat = show(term)
    if len(flat) + indent <= width:
        return flat
    pad = "\n" + " " * (indent + 2)

    def inner(t: Term) -> str:
        return layout(t, width, indent + 2)

    def source(t: Term) -> str:
        return atom(t) if len(show(t)) + indent + 20 <= width else f"({pad}{inner(t)})"

    match term:
        case For(var, bag, body):
            nested = isinstance(body, (For, Each))
            rest = layout(body, width, indent) if nested else inner(body)
            head = f"for {quoted(var.name)} in {source(bag)} collect"
            return head + ("\n" + " " * indent if nested else pad) + rest
        case Each(key, value, bag, body):
            names = f"{quoted(key.name)} ↦ {quoted(value.name)}"
            return f"each {names} in {source(bag)} collect{pad}{inner(body)}"
        case Let(var, bound, body):
            head = f"let {quoted(var.name)} := {inner(bound)} in"
            return f"{head}\n{' ' * indent}{layout(body, width, indent)}"
        case Repeat(var, start, step):
            head = f"repeat[{ends(term)}] {quoted(var.name)} :={pad}{inner(start)}"
            return f"{head}\n{' ' * indent}then{pad}{inner(step)}"
        case Field(Repeat() as loop, name):
            return f"({layout(loop, width, indent + 1)}).{field_name(name)}"
        case Fn(var, body):
            return f"fn {quoted(var.name)}: {var.type} =>{pad}{inner(body)}"
        case Dict(index, params, body):
            listed = ", ".join(f"{quoted(p.name)}: {p.type}" for p in params)
            return f"dict {quoted(index)}({listed}) ↦{pad}{inner(body)}"
        case Add(terms):
            return ("\n" + " " * indent).join(
                f"{'+ ' if i else '  '}{_operand(t, width, indent + 2)}"
                for i, t in enumerate(terms)
            )
        case Neg(t):
            return f"-{_operand(t, width, indent + 1)}"
        case Times(factors):
            return pad.join(
                f"{'· ' if i else ''}{_operand(f, width, indent + 4)}"
                for i, f in enumerate(factors)
            )
        case Sng(Record(fields) as key, value) if len(show(key)) + indent > width:
            lines = f",{pad} ".join(f"{n}: {layout(t, width, indent + 4)}" for n, t in fields)
            shown = "" if show(value) == "1" else f" ↦ {inner(value)}"
            return "{{" + lines + "}" + shown + "}"
        case Sng(key, value):
            return f"{{{show(key)} ↦{pad}{inner(value)}}}"
        case Record(fields) if flat.startswith("⟨"):
            return "⟨" + f",{pad}".join(f"{n}: {inner(t)}" for n, t in fields) + "⟩"
        case _:
            return flat


def _operand(term: Term, width: int, indent: int) -> str:
    one_line = atom(term)
    if len(one_line) + indent <= width or not one_line.startswith("("):
        return one_line if len(one_line) + indent <= width else layout(term, width, indent)
    return f"({layout(term, width, indent + 1)})"
