"""Views as functions, collected when a program is loaded: `@hw.materialized_view`, with the arguments of PySpark's pipelines.

    @hw.materialized_view
    def revenue():
        return "SELECT customer, sum(price) AS total FROM orders GROUP BY customer"

    @hw.materialized_view(name="large", schema="customer STRING, total DECIMAL(20,2)")
    def large_customers(revenue):
        return [{"customer": r.customer, "total": r.total} for r in revenue if r.total > 100]

A function without parameters gives the query; one with parameters is a comprehension over the inputs that they name. What means nothing
here is refused by name: rows are arranged by the keys of their maps, and answers depend on no setting of Spark.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from headwater.errors import QueryError
from headwater.language.comprehension import Query

PROPERTIES = {f"headwater.{n}": n for n in ("strategy", "key", "mode", "cut", "near", "rounds")}
"""Properties that mean something, and what they say of a view: arguments of `db.view`."""
NUMBERS: dict[str, Callable[[str], Any]] = {"cut": float, "near": float, "rounds": int}
"""Those that are numbers, which properties may have as text."""


@dataclass(frozen=True)
class MaterializedView:
    """A view that a program defines: its name, its query, and what is said of it."""

    name: str
    function: Callable[..., Any]
    schema: Any = None
    """The columns that it is to have, as DDL or as a StructType."""
    strategy: str = "auto"
    key: tuple[str, ...] = ()
    comment: str = ""
    inputs: tuple[str, ...] = field(default=())
    nearness: Mapping[str, Any] | None = None
    """Its mode, with `cut`, `near` and `rounds`; None where nothing is said of it."""

    def query(self) -> Any:
        """The query: SQL text, a comprehension, or a term."""
        if self.inputs:
            return Query(self.function)
        found = self.function()
        if not isinstance(found, (str, Query)) and not hasattr(found, "children"):
            kind = type(found).__name__
            what = "a DataFrame" if kind == "DataFrame" else f"a value of type {kind}"
            raise QueryError(
                f"the function of the view `{self.name}` gives {what}",
                hint="have it give SQL, or take its inputs as parameters and be a comprehension",
            )
        return found

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The function itself, as it was written."""
        return self.function(*args, **named)


@overload
def materialized_view(query_function: Callable[..., Any]) -> MaterializedView: ...


@overload
def materialized_view(
    query_function: None = None,
    *,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    table_properties: Mapping[str, str] | None = None,
    partition_cols: Sequence[str] | None = None,
    cluster_by: Sequence[str] | None = None,
    schema: Any = None,
    format: str | None = None,
) -> Callable[[Callable[..., Any]], MaterializedView]: ...


def materialized_view(
    query_function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    table_properties: Mapping[str, str] | None = None,
    partition_cols: Sequence[str] | None = None,
    cluster_by: Sequence[str] | None = None,
    schema: Any = None,
    format: str | None = None,
) -> Any:
    """Defines a view in a program, for `headwater run app.py` or `db.define(module)`; a decorator, with or without arguments.

    `name` is the function's without it; `comment` is for who reads the program; `schema` are the columns that the view must have. Of
    `table_properties` there are `headwater.strategy`, `headwater.key`, `headwater.mode`, `headwater.cut`, `headwater.near` and
    `headwater.rounds`, which are those of `db.view`.
    """

    def outer(f: Callable[..., Any]) -> MaterializedView:
        if not inspect.isfunction(f):
            raise QueryError(f"{f!r} is no function", hint="decorate a def")
        called = name or f.__name__
        for said, value in (
            ("spark_conf", spark_conf),
            ("partition_cols", partition_cols),
            ("cluster_by", cluster_by),
            ("format", format),
        ):
            if value:
                raise QueryError(
                    f"`{said}` of the view `{called}` means nothing here", hint=_WHY[said]
                )
        told: dict[str, Any] = {}
        for n, value in (table_properties or {}).items():
            if n not in PROPERTIES:
                raise QueryError(
                    f"the property `{n}` of the view `{called}` means nothing here",
                    hint=f"properties that do: {', '.join(PROPERTIES)}",
                )
            told[PROPERTIES[n]] = value
        if "key" in told:
            told["key"] = tuple(k.strip() for k in str(told["key"]).split(","))
        near: dict[str, Any] = {n: told.pop(n) for n in (*NUMBERS, "mode") if n in told}
        inputs = tuple(inspect.signature(f).parameters)
        return MaterializedView(
            called, f, schema, comment=comment or "", inputs=inputs, nearness=_near(near), **told
        )

    return outer if query_function is None else outer(query_function)


def _near(said: dict[str, Any]) -> dict[str, Any] | None:
    """What is said of how near loops are kept, with numbers that are text as numbers; what is no number is refused by `db.view`'s checks."""
    for n, read in NUMBERS.items():
        if isinstance(said.get(n), str):
            with contextlib.suppress(ValueError):
                said[n] = read(said[n])
    return {"mode": "exact", **said} if said else None


_WHY = {
    "spark_conf": "answers depend on the settings that the database was made with: leave it out",
    "partition_cols": "rows are found by the keys of their maps: leave it out",
    "cluster_by": "rows are found by the keys of their maps: leave it out",
    "format": "views are kept in the database; a sink writes them in another format: leave it out",
}
