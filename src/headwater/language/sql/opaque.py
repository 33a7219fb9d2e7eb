"""Expressions that only Spark knows: their own text with holes for the columns that they read.

A function that the calculus does not list, a lambda, an interval, an array or a map inside of an expression: the
smallest expression around it that gives a value a cell can hold becomes one call, whose name is the template

    spark:size(split({0}, ','))

and whose arguments are the terms of the columns, aggregates, subqueries and registered functions in it. Everything
else stays as its author wrote it. Its type is what Spark says when the view is defined (`Ask`); without Spark at
hand such an expression is refused. The variables of a lambda are no columns and stay in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from sqlglot import exp

from headwater.calculus.check import type_of
from headwater.calculus.scalars import SPARK_TEXT
from headwater.calculus.terms import Call, Term
from headwater.calculus.types import Boxed, KeyType, ListType, bag
from headwater.errors import HeadwaterError, ParseError, QueryError, TypeMismatch, UnknownName
from headwater.language.functions import DEFINED
from headwater.language.sql.functions import refused_function
from headwater.language.sql.placing import place_of
from headwater.language.sql.time_windows import is_field

if TYPE_CHECKING:
    from headwater.language.sql.expressions import Expressions
    from headwater.language.sql.reader import Reader


@dataclass(frozen=True)
class Told:
    """What Spark says of an expression: its type as Spark calls it, and as a key type if cells can hold it.

    Where Spark refuses the expression, `problem` is its short message, `condition` the name of the error, and
    `routine` the function that it does not know. Columns are called `_0`, `_1` and so on in the message.
    """

    name: str = ""
    type: KeyType | None = None
    condition: str = ""
    problem: str = ""
    routine: str = ""


class Ask(Protocol):
    """Asks Spark about a template over columns of the given types."""

    def __call__(self, template: str, types: tuple[KeyType, ...]) -> Told: ...

    @property
    def zone(self) -> str:
        """The time zone in which text is read as an instant."""


class Unread(Exception):
    """An expression that is not in the language by itself; the one around it may be, as a whole.

    `sure` says that Spark was asked, so that its error is the one to show.
    """

    def __init__(self, error: HeadwaterError, sure: bool = False):
        super().__init__(error.what)
        self.error, self.sure = error, sure


def read(x: Expressions, e: exp.Expr, cause: Unread, exploded: bool = False) -> Term:
    """The expression as one call of Spark; `Unread` where it is none by itself. What is exploded is a bag."""
    ask, place = x.reader.ask, place_of(e)
    if ask is None or place is None:
        raise cause
    leaves = dict(_leaves(x, e, frozenset()))
    template, args = _template(x.reader, e, place, leaves)
    names = {leaf.term: leaf.name for leaf in leaves.values() if leaf.term is not None}
    types = tuple(type_of(a) for a in args)
    told = ask(template, types)
    if told.problem:
        called = lambda m: names[args[int(m[1])]] or "it"  # noqa: E731
        problem = re.sub(r"\b_(\d+)\b", called, told.problem)
        raise _problem(x.reader, e, replace(told, problem=problem), cause)
    if told.type is None:
        refused = x.reader.refuse(
            "NESTED",
            f"`{shown(x.reader, place)}` is {told.name}, and a column of a view cannot hold that yet",
            e,
            "take one value out of it, or make text of it with to_json",
        )
        raise Unread(refused)
    t: KeyType = told.type
    if exploded and isinstance(t, ListType):
        t = Boxed(bag(t.element))
    return Call(SPARK_TEXT + template, args, t)


def shown(reader: Reader, place: tuple[int, int]) -> str:
    """The text at a place, on one line and not too long."""
    text = " ".join(reader.text[place[0] : place[1]].split())
    return text if len(text) <= 60 else text[:57] + "..."


_NO_SCALAR = ("AGGREGATE_FILTER", "AGGREGATE_FUNCTION", "WINDOW_FUNCTION", "GENERATOR")
"""What the errors are called by which Spark says that an expression is no scalar."""


def _problem(reader: Reader, e: exp.Expr, told: Told, cause: Unread) -> Exception:
    """The error for an expression that Spark refuses."""
    if told.condition.startswith("PARSE"):
        return cause  # a part of something that can be read
    if cause.sure:
        return Unread(cause.error, True)
    text = f"`{shown(reader, place_of(e) or (0, 0))}`"
    if told.condition == "USER_FUNCTION":
        error: HeadwaterError = reader.refuse(
            "USER_FUNCTION",
            f"{text} calls a function of the session, which another session does not have",
            e,
            "register the Python function with @headwater.function",
        )
    elif "DETERMINISTIC" in told.condition:
        error = not_repeatable(reader, e, text)
    elif any(word in told.condition for word in _NO_SCALAR):
        error = reader.error(
            QueryError,
            f"{text} is no scalar: it aggregates, numbers or generates rows",
            e,
            hint="of the aggregates, sum, count, avg, min, max and collect_list are maintained",
        )
    elif isinstance(cause.error, (TypeMismatch, ParseError)):
        error = cause.error
    elif "ROUTINE" in told.condition:
        unknown = [n for n in e.find_all(exp.Func) if _called(reader, n) == told.routine.lower()]
        where = unknown[0] if unknown else e
        what = f"the function `{told.routine}` is not known"
        error = reader.error(UnknownName, what, where, hint="neither is it a function of Spark")
    else:
        what = f"{text} cannot be computed"
        error = reader.error(TypeMismatch, what, e, hint=f"Spark says: {told.problem}")
    return Unread(error, True)


def _called(reader: Reader, e: exp.Expr) -> str:
    """The name by which the text calls a function."""
    return (e.name if isinstance(e, exp.Anonymous) else reader.word(e) or e.key).lower()


def not_repeatable(reader: Reader, e: exp.Expr, text: str) -> HeadwaterError:
    """The refusal of what gives another value at each evaluation."""
    return reader.refuse(
        "NON_DETERMINISTIC",
        f"{text} gives another value at each evaluation",
        e,
        "compute it once, in the source",
    )


# --- what the holes are for -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Leaf:
    """A piece of the text that is no text: a term, or the variable of a lambda under another name."""

    end: int
    name: str
    term: Term | None


def _leaves(x: Expressions, e: exp.Expr, bound: frozenset[str]) -> Iterator[tuple[int, _Leaf]]:
    """The parts of an expression that are terms, by where they begin; `bound` are variables of lambdas."""
    if isinstance(e, exp.Column) and e.parts[0].name.lower() in bound:
        yield from _renamed(e.parts[0])
        return
    if isinstance(e, exp.Identifier):
        field = (exp.Dot, "expression"), (exp.PropertyEQ, "this"), (exp.Alias, "alias")
        named = any(isinstance(e.parent, kind) and e.arg_key == key for kind, key in field)
        if e.name.lower() in bound and not named:
            yield from _renamed(e)
        return
    if _is_leaf(x, e):
        place = place_of(e)
        if place is None:
            raise Unread(x.reader.refuse("UNSUPPORTED_EXPRESSION", _not_read(e), e, ""))
        yield place[0], _Leaf(place[1], e.alias_or_name, x.key(e))
        return
    if isinstance(e, exp.Lambda):
        bound = bound | {p.name.lower() for p in e.expressions}
    elif isinstance(e, (exp.Placeholder, exp.Parameter, exp.Star, exp.Query)):
        raise Unread(x.reader.refuse("UNSUPPORTED_EXPRESSION", _not_read(e), e, ""))
    elif x.reader.is_aggregate(e):
        raise x.misplaced(e)
    for child in e.iter_expressions():
        if not isinstance(child, (exp.DataType, exp.Var)):
            yield from _leaves(x, child, bound)


def _not_read(e: exp.Expr) -> str:
    return f"`{e.sql(dialect='spark')}` is not in the language here"


def _is_leaf(x: Expressions, e: exp.Expr) -> bool:
    """Whether a part is a term of its own: a column, an aggregate, a subquery, a registered function."""
    if isinstance(e, (exp.Column, exp.Subquery)):
        return not isinstance(e.this, exp.Star)
    if isinstance(e, exp.Window) or is_field(e):
        return True
    if isinstance(e, (exp.In, exp.Exists)):
        return e.find(exp.Query) is not None
    if isinstance(e, exp.Not) and isinstance(e.this, (exp.In, exp.Exists)):
        return _is_leaf(x, e.this)
    if isinstance(e, exp.Anonymous) and e.name.lower() in {n.lower() for n in DEFINED}:
        return True
    return x.grouping is not None and place_of(e) is not None and x.grouping.term_of(e) is not None


_OURS = re.compile(r"_.*|[a-z][0-9]\w*|[a-z][0-9a-f]{6,}")
"""Names that columns of a statement may have: a variable of a lambda would hide them."""


def _renamed(e: exp.Expr) -> Iterator[tuple[int, _Leaf]]:
    if _OURS.fullmatch(e.name.lower()) and "start" in e.meta:
        yield e.meta["start"], _Leaf(e.meta["end"] + 1, e.name, None)


# --- the text ---------------------------------------------------------------------------------------------------

_TIGHT_AFTER, _TIGHT_BEFORE = {"(", "[", "."}, {")", "]", ",", ".", "["}
_SIGNS = set("<>=!|&^-:")
"""Of `<<` and the like sqlglot makes two words, and Spark none."""


def _template(
    reader: Reader, e: exp.Expr, place: tuple[int, int], leaves: dict[int, _Leaf]
) -> tuple[str, tuple[Term, ...]]:
    """The text of an expression word by word, with holes; equal expressions have equal templates."""
    args: dict[Term, int] = {}
    out, called, end = "", [""], place[0]
    words = [t for t in reader.tokens if place[0] <= t.start < place[1]]
    word, before = "", ""
    for i, token in enumerate(words):
        if token.start < end:
            continue  # inside of a leaf, or one of the words that sqlglot makes of `1L`
        leaf, apart = leaves.get(token.start), token.start > end
        end = leaf.end if leaf is not None else token.end + 1
        before, word = word, reader.text[token.start : end]
        after = next((t.text for t in words[i + 1 :] if t.start >= end), ")")
        is_name = word[0].isalpha() or word[0] == "_"
        if leaf is not None:
            piece = f"`{leaf.name}_`" if leaf.term is None else ""
            if leaf.term is not None:
                piece = f"{{{args.setdefault(leaf.term, len(args))}}}"
            # A field of `struct(a, b)` has the name of the column, which the hole has not.
            alone = before in ("(", ",") and after in (")", ",")
            if called[-1] == "struct" and alone and leaf.name:
                piece += f" AS {_quoted(leaf.name)}"
        else:
            if is_name and before != ".":
                _check(reader, e, word, after == "(", words[i + 1 :])
            piece = word.lower() if is_name and after == "(" and before != "." else word
            piece = piece.replace("{", "{{").replace("}", "}}")
            if word == "(":
                called.append(before.lower())
            elif word == ")" and len(called) > 1:
                called.pop()
        call = word == "(" and (before[-1:].isalnum() or before[-1:] == "_")
        tight = not out or before in _TIGHT_AFTER or word in _TIGHT_BEFORE or call
        tight = tight or (not apart and {before[-1:], word[0]} <= _SIGNS)
        out += piece if tight else f" {piece}"
    return out, tuple(args)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``").replace("{", "{{").replace("}", "}}") + "`"


_MOMENTS = {"now", "today", "tomorrow", "yesterday"}


def _check(reader: Reader, e: exp.Expr, word: str, called: bool, rest: list[Any]) -> None:
    """Raises where the text calls what gives another answer at another time or place."""
    name = word.lower()
    if called and not rest[1:]:
        return
    empty = called and rest[1].text == ")"
    refused = refused_function(name, called, empty)
    if refused is not None:
        reason, what, hint = refused
        raise reader.refuse(reason, f"`{word}` {what}", e, hint)
    if name == "aes_encrypt" and called:
        raise not_repeatable(reader, e, "`aes_encrypt`")
    typed = name in ("date", "timestamp", "timestamp_ntz", "timestamp_ltz") and rest
    if typed and rest[0].text.strip().lower() in _MOMENTS and not called:
        raise reader.refuse(
            "TIME_OF_DAY",
            f"`{word} '{rest[0].text}'` changes without any input changing",
            e,
            "keep the time in a source of one row, and join with it",
        )
