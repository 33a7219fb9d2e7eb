"""Spark's grammar of expressions, where sqlglot's parser has another one.

    boolean   NOT boolean | value predicate? | boolean AND boolean | boolean OR boolean
    predicate NOT? BETWEEN value AND value | NOT? IN (...) | NOT? LIKE value | IS NOT? NULL | IS NOT? DISTINCT FROM value ...
    value     the operators below, all from the left

A comparison is a value, so it binds tighter than a predicate (`a = b IS NULL` asks whether `a = b` is), and a value has
at most one predicate. sqlglot reads `||` as weaker than `+`, `&` and `|` as equally strong, and comparisons as weaker
than predicates. What Spark does not read as an expression (`a ISNULL`, `a = NOT b`, `LIMIT 2, 3`) is an error here, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import TokenType as T
from sqlglot import exp
from sqlglot.parser import IsPredicatePrecedence
from sqlglot.parsers.spark import SparkParser

Build = Callable[[exp.Expr, exp.Expr], exp.Expr]


def _binary(kind: type[exp.Expr]) -> Build:
    return lambda a, b: kind(this=a, expression=b)


def _joined(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return exp.DPipe(this=a, expression=b, safe=True)


def _shifted(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="shiftrightunsigned", expressions=[a, b])


LEVELS: tuple[tuple[tuple[tuple[T, ...], Build], ...], ...] = (
    (
        ((T.PLUS,), _binary(exp.Add)),
        ((T.DASH,), _binary(exp.Sub)),
        ((T.DPIPE,), _joined),
        ((T.COLLATE,), _binary(exp.Collate)),
    ),
    (
        ((T.GT, T.GT, T.GT), _shifted),
        ((T.LT, T.LT), _binary(exp.BitwiseLeftShift)),
        ((T.GT, T.GT), _binary(exp.BitwiseRightShift)),
    ),
    (((T.AMP,), _binary(exp.BitwiseAnd)),),
    (((T.CARET,), _binary(exp.BitwiseXor)),),
    (((T.PIPE,), _binary(exp.BitwiseOr)),),
    (
        ((T.EQ,), _binary(exp.EQ)),
        ((T.NEQ,), _binary(exp.NEQ)),
        ((T.NULLSAFE_EQ,), _binary(exp.NullSafeEQ)),
        ((T.LTE,), _binary(exp.LTE)),
        ((T.GTE,), _binary(exp.GTE)),
        ((T.LT,), _binary(exp.LT)),
        ((T.GT,), _binary(exp.GT)),
    ),
)
"""Binary operators above `*`, tightest first; a sign may be several words of sqlglot's."""

PREDICATES = (T.BETWEEN, T.IN, T.IS, T.LIKE, T.ILIKE, T.RLIKE)


FOREIGN = re.compile(
    r"(?:^|(?<=\s))(OFFSET \d+ (?:ROWS?|LIMIT)\b|\* EXCLUDE \(|(?<=\) )FILTER \( (?!WHERE\s)\S+)",
    re.IGNORECASE,
)
"""Words that sqlglot takes and leaves out of the tree, and Spark does not take."""


def foreign(tokens: list[Any]) -> Any | None:
    """The first word of a clause that Spark does not have and the tree does not show."""
    words = ["''" if t.token_type.name == "STRING" else t.text or "''" for t in tokens]
    found = FOREIGN.search(" ".join(w.replace(" ", "_") for w in words))
    return None if found is None else tokens[found.string[: found.start(1)].count(" ")]


def with_windows_named(tokens: list[Any]) -> list[Any]:
    """The word WINDOW as a name but where it begins a clause: `WINDOW name AS`. sqlglot takes `GROUP BY window(` for one."""
    out = list(tokens)
    for i, token in enumerate(tokens):
        ahead = [t.token_type for t in tokens[i + 1 : i + 3]]
        clause = ahead[1:] == [T.ALIAS] and ahead[0] not in (T.COMMA, T.DOT, T.L_PAREN, T.R_PAREN)
        if token.token_type == T.WINDOW and not clause:
            out[i] = type(token)(T.VAR, token.text, token.line, token.col, token.start, token.end)
    return out


def _misplaced_not(parser: Any) -> None:
    parser.raise_error("NOT stands where a value is expected; put it into brackets")


class GrammarParser(SparkParser):
    """sqlglot's parser for Spark, with Spark's precedence."""

    IS_PREDICATE_PRECEDENCE = IsPredicatePrecedence.HIGH
    FACTOR: ClassVar[dict[T, Any]] = {
        t: SparkParser.FACTOR[t] for t in (T.STAR, T.SLASH, T.MOD, T.DIV)
    }
    RANGE_PARSERS: ClassVar[dict[T, Any]] = {t: SparkParser.RANGE_PARSERS[t] for t in PREDICATES}
    UNARY_PARSERS: ClassVar[dict[T, Any]] = {
        **{t: SparkParser.UNARY_PARSERS[t] for t in (T.DASH, T.TILDE)},
        T.PLUS: lambda self: self._parse_plus(),
        T.NOT: _misplaced_not,
    }

    def _parse_plus(self) -> exp.Expr:
        """A plus before a value, which only the name of a column shows."""
        out = self.expression(exp.Paren(this=self._parse_unary()))
        out.meta["plus"] = True
        return out

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        """What AND connects: NOT of it, or a value with a predicate."""
        if self._match(T.NOT):
            return self.expression(exp.Not(this=self._parse_equality()))
        return self._parse_range()

    def _parse_comparison(self, this: exp.Expr | None = None) -> exp.Expr | None:
        return self._parse_range(this)

    def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = False) -> exp.Expr | None:
        """A value with at most one predicate."""
        this = this or self._parse_bitwise()
        if this is None:
            return None
        negate = self._match(T.NOT)
        if self._match_set(self.RANGE_PARSERS):
            predicate = self.RANGE_PARSERS[self._prev.token_type](self, this)
            return self._negate_range(predicate) if negate else predicate or this
        if negate:
            self._retreat(self._index - 1)
        return this

    def _parse_is_rhs(self, distinct: bool = False) -> exp.Expr | None:
        """IS is of NULL, TRUE, FALSE or UNKNOWN, and nothing more."""
        return self._parse_bitwise() if distinct else self._parse_null() or self._parse_boolean()

    def _parse_bitwise(self) -> exp.Expr | None:
        """A value: all operators but NOT, AND and OR."""
        return self._parse_level(len(LEVELS) - 1)

    def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
        return self._parse_level(0, parse_mod)

    def _parse_level(self, level: int, parse_mod: bool = True) -> exp.Expr | None:
        """Operators of a level and of those below it, by climbing: one loop holds the values that wait."""
        waiting: list[tuple[int, Build, exp.Expr]] = []
        this = self._parse_factor(parse_mod=parse_mod)
        while True:
            found = self._operator(level) if this is not None else None
            at = len(LEVELS) if found is None else found[0]
            while waiting and waiting[-1][0] <= at and this is not None:
                _, build, left = waiting.pop()
                this = self.expression(build(left, this))
                if isinstance(this, exp.Collate):
                    self._normalize_collate(this)
            if found is None:
                return this
            assert this is not None
            waiting.append((at, found[1], this))
            this = self._parse_factor(parse_mod=parse_mod)
            if this is None:
                self.raise_error("an operator without a value after it")

    def _operator(self, highest: int) -> tuple[int, Build] | None:
        """The operator that stands here, with its level; its words are taken."""
        ahead = self._tokens[self._index : self._index + 3]
        kinds = tuple(t.token_type for t in ahead)
        for level in (1, 0, *range(2, highest + 1)):  # `<<` before `<`
            for words, build in LEVELS[level] if level <= highest else ():
                together = all(a.end + 1 == b.start for a, b in pairwise(ahead[: len(words)]))
                if kinds[: len(words)] == words and together:
                    self._advance(len(words))
                    return level, build
        return None

    def _parse_limit(
        self, this: exp.Expr | None = None, top: bool = False, skip_limit_token: bool = False
    ) -> exp.Expr | None:
        limit = super()._parse_limit(this, top, skip_limit_token)
        if isinstance(limit, exp.Limit) and limit.args.get("offset") is not None:
            self.raise_error("LIMIT takes one number; write LIMIT 3 OFFSET 2")
        return limit
