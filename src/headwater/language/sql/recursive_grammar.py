"""The grammar of recursive WITH clauses, where sqlglot's parser has none.

    WITH RECURSIVE name (column, ...) [MAX RECURSION LEVEL n] AS (query), ...                         as Spark has it
    WITH MUTUALLY RECURSIVE [(RETURN | ERROR AT RECURSION LIMIT n)] name (column TYPE, ...) AS (query), ...   as Materialize

sqlglot's nodes have no place for the two limits and for the word MUTUALLY, so they stand in the `meta` of the clause and of
its queries (`clause_of`, `level_of`), beside where the texts of both begin and end: `recursion.py` gives them their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import TokenType as T
from sqlglot import exp

from headwater.language.sql.grammar import GrammarParser

_CLAUSE, _LEVEL, _BODY = "recursive clause", "recursion level", "body"

MOST_ROUNDS = 1_000_000
"""Rounds that a limit may allow: a version has room for them."""
MOST_TIMES = 1_000
"""Rounds that are always gone, however little the last of them change."""


@dataclass(frozen=True)
class Clause:
    """A recursive WITH clause: where it stands, and what its words say beside its queries."""

    place: tuple[int, int]
    mutually: bool = False
    returns: int | None = None
    """RETURN AT RECURSION LIMIT: what is there after so many rounds."""
    fails: int | None = None
    """ERROR AT RECURSION LIMIT: how many rounds there may be."""


@dataclass(frozen=True)
class Level:
    """MAX RECURSION LEVEL n, and where it stands."""

    rounds: int
    place: tuple[int, int]


def clause_of(node: exp.With) -> Clause | None:
    """What a WITH clause says of recursion; None if it is not recursive."""
    found: Clause | None = node.meta.get(_CLAUSE)
    return found


def level_of(cte: exp.CTE) -> Level | None:
    """The MAX RECURSION LEVEL of one query of WITH."""
    found: Level | None = cte.args["alias"].meta.get(_LEVEL)
    return found


def body_of(cte: exp.CTE) -> tuple[int, int]:
    """From where to where the query of a CTE stands in the text, without its brackets."""
    found: tuple[int, int] = cte.meta[_BODY]
    return found


def is_declared(node: exp.Expr) -> bool:
    """Whether a node is a column with a type in the head of a mutually recursive query."""
    cte = node.parent.parent if isinstance(node.parent, exp.TableAlias) else None
    clause = cte.parent if isinstance(cte, exp.CTE) else None
    told = clause_of(clause) if isinstance(clause, exp.With) else None
    return isinstance(node, exp.ColumnDef) and told is not None and told.mutually


class RecursiveParser(GrammarParser):
    """Spark's grammar with both recursive WITH clauses."""

    _heads = False
    """Whether the name that comes next is that of a query of WITH."""

    def _parse_with(self, skip_with_token: bool = False) -> exp.With | None:
        first = self._index
        words = [t.text.upper() for t in self._tokens[first : first + 3]]
        mutually = words == ["WITH", "MUTUALLY", "RECURSIVE"]
        returns = fails = None
        if mutually:
            self._advance(3)
            returns, fails = self._parse_ends()
        node: exp.With | None = super()._parse_with(skip_with_token or mutually)
        if node is None:
            return None
        if mutually:
            node.set("recursive", True)
        if node.args.get("recursive"):
            place = (self._tokens[first].start, self._tokens[self._index - 1].end + 1)
            node.meta[_CLAUSE] = Clause(place, mutually, returns, fails)
        return node

    def _parse_ends(self) -> tuple[int | None, int | None]:
        """(RETURN AT RECURSION LIMIT n) and (ERROR AT RECURSION LIMIT n), in either order."""
        found: dict[str, int] = {}
        if not self._match(T.L_PAREN):
            return None, None
        while True:
            word = self._curr
            kind = word.text.upper() if word is not None else ""
            if kind not in ("RETURN", "ERROR") or kind in found:
                self.raise_error("expected RETURN or ERROR AT RECURSION LIMIT, and a number")
            self._advance()
            if not self._match_text_seq("AT", "RECURSION", "LIMIT"):
                self.raise_error(f"expected AT RECURSION LIMIT and a number after {kind}")
            found[kind] = self._parse_rounds(
                f"{kind} AT RECURSION LIMIT", 1, MOST_TIMES if kind == "RETURN" else MOST_ROUNDS
            )
            if not self._match(T.COMMA):
                break
        self._match_r_paren()
        if len(found) > 1:
            self.raise_error("RETURN and ERROR AT RECURSION LIMIT exclude each other", word)
        return found.get("RETURN"), found.get("ERROR")

    def _parse_rounds(self, what: str, least: int, most: int) -> int:
        """A number of rounds, written out."""
        token, after = self._curr, self._next
        text = token.text if token is not None and token.token_type == T.NUMBER else ""
        ends = after is not None and after.token_type in (T.ALIAS, T.L_PAREN, T.R_PAREN, T.COMMA)
        if not (ends and text.isdigit() and least <= int(text) <= most):
            self.raise_error(f"{what} takes a whole number from {least} to {most:,}")
        self._advance()
        return int(text)

    def _parse_cte(self) -> Any:
        self._heads = True
        cte = super()._parse_cte()
        self._heads = False
        if isinstance(cte, exp.CTE):
            cte.meta[_BODY] = self._body()
        return cte

    def _body(self) -> tuple[int, int]:
        """Where the brackets stand that were just closed."""
        at, depth = self._index - 1, 0
        end = self._tokens[at].start
        while True:
            kind = self._tokens[at].token_type
            depth += (kind == T.R_PAREN) - (kind == T.L_PAREN)
            if depth == 0:
                return self._tokens[at].end + 1, end
            at -= 1

    def _parse_table_alias(self, alias_tokens: Any = None) -> exp.TableAlias | None:
        heads, self._heads = self._heads, False
        alias: exp.TableAlias | None = super()._parse_table_alias(alias_tokens)
        first = self._curr
        if heads and alias is not None and self._match_text_seq("MAX", "RECURSION", "LEVEL"):
            rounds = self._parse_rounds("MAX RECURSION LEVEL", 0, MOST_ROUNDS)
            place = (first.start, self._tokens[self._index - 1].end + 1)
            alias.meta[_LEVEL] = Level(rounds, place)
        return alias
