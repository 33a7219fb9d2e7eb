"""What a step of a stream asks about SQL text: conditions, expressions and relations, through one small protocol.

Steps are data: their conditions and queries are texts, or functions of Python. What a text means is not known here;
whoever runs a pipeline gives an `Evaluator`, which compiles a text for the rows of a header. So the library, its
reference and the engine read the same steps, each with its own evaluation of SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headwater.calculus.types import Base
from headwater.errors import HeadwaterError
from headwater.streams.columns import Fields, Row
from headwater.streams.schema import Header


class Evaluator(Protocol):
    """SQL text compiled for rows of known headers.

    - `condition` and `expression` give a function of one row; NULL is None, and a condition is true, false or None.
    - `typed` gives the type of an expression over a header.
    - `relation` evaluates a query over named tables; rows come in any order, and none is lost.
    - `columns` gives the columns that such a query has, without rows.
    - `reads` gives the columns of a header that a condition or an expression reads.
    - `fewer` says whether a query never has more rows than the one table that it reads: no join, no union, no explode.
    A text that reads a column that is not there raises an error of `headwater.errors`, when it is compiled.
    """

    def condition(self, text: str, header: Header) -> Callable[[Row], bool | None]: ...

    def expression(self, text: str, header: Header) -> Callable[[Row], Any]: ...

    def typed(self, text: str, header: Header) -> Base: ...

    def relation(
        self, text: str, tables: Mapping[str, tuple[Header, Sequence[Row]]]
    ) -> list[Row]: ...

    def columns(self, text: str, tables: Mapping[str, Header]) -> Fields: ...

    def reads(self, text: str, header: Header) -> frozenset[str]: ...

    def fewer(self, text: str) -> bool: ...


@dataclass(frozen=True)
class NoSQL:
    """The evaluator of pipelines whose steps have functions of Python only."""

    def condition(self, text: str, header: Header) -> Callable[[Row], bool | None]:
        raise _no_sql(text)

    def expression(self, text: str, header: Header) -> Callable[[Row], Any]:
        raise _no_sql(text)

    def typed(self, text: str, header: Header) -> Base:
        raise _no_sql(text)

    def relation(self, text: str, tables: Mapping[str, tuple[Header, Sequence[Row]]]) -> list[Row]:
        raise _no_sql(text)

    def columns(self, text: str, tables: Mapping[str, Header]) -> Fields:
        raise _no_sql(text)

    def reads(self, text: str, header: Header) -> frozenset[str]:
        raise _no_sql(text)

    def fewer(self, text: str) -> bool:
        raise _no_sql(text)


def _no_sql(text: str) -> HeadwaterError:
    return HeadwaterError(
        f"the SQL text `{text}` needs an evaluator",
        hint="give one to the pipeline: steps.on(schema, headers, evaluator=...)",
    )
