"""LIMIT and OFFSET without an order: any rows are an answer, and an answer is checked by what all of them have.

`SELECT ... LIMIT 3` is right if it has as many rows as Spark's answer and each is a row of the query without the LIMIT,
not more often than it is there. Which rows a LIMIT further inside takes decides more than that: such a query is compared
with the definition, in which ties are broken by the row itself.
"""

from __future__ import annotations

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark

_CUTS = (TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH)
_ORDERS = (TokenType.ORDER_BY, TokenType.SORT_BY)


def unlimited(text: str) -> str | None:
    """A query without the LIMIT and OFFSET at its end; None unless it has them, and no order."""
    tokens = [t for t in Spark.Tokenizer().tokenize(text) if t.token_type != TokenType.SEMICOLON]
    if any(t.token_type in _ORDERS for t in _outside(tokens)):
        return None
    cut = len(tokens)
    while cut >= 2 and _is_clause(tokens[cut - 2], tokens[cut - 1]):
        cut -= 2
    return None if cut == len(tokens) else text[: tokens[cut].start]


def takes_some(text: str) -> bool:
    """Whether a query takes some of several rows anywhere."""
    tokens = Spark.Tokenizer().tokenize(text)
    before = ["", *(t.text.upper() for t in tokens)]  # AT RECURSION LIMIT n counts rounds
    return any(
        t.token_type in _CUTS and word != "RECURSION"
        for word, t in zip(before, tokens, strict=False)
    )


def _is_clause(word: Token, number: Token) -> bool:
    return word.token_type in _CUTS and number.token_type == TokenType.NUMBER


def _outside(tokens: list[Token]) -> list[Token]:
    """The tokens that are in no brackets."""
    out, depth = [], 0
    for t in tokens:
        depth -= t.token_type == TokenType.R_PAREN
        if not depth:
            out.append(t)
        depth += t.token_type == TokenType.L_PAREN
    return out
