"""AUTO CDC of Spark's pipelines: a table that follows events by key, the newest of each by its sequence.

    hw.create_auto_cdc_flow("customers", source="events", keys=["id"], sequence_by="seq", apply_as_deletes="op = 'D'")

The events are rows of a source (or view), and the target is a view of them: of each key the event with the greatest sequence, unless that
one deletes. So late events change nothing, a deletion stays one, whatever the order of arrival, and the target can be explained and
verified like every view. The events stay in their source. What else AUTO CDC has, such as histories (SCD type 2), is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from headwater.errors import QueryError
from headwater.interop.spark_text import column_name
from headwater.language.views import MaterializedView


def create_auto_cdc_flow(
    target: str,
    source: str,
    keys: Sequence[str],
    sequence_by: str,
    apply_as_deletes: str | None = None,
    column_list: Sequence[str] | None = None,
    except_column_list: Sequence[str] | None = None,
    stored_as_scd_type: int | str | None = None,
    name: str | None = None,
    *,
    track_history_column_list: Sequence[str] | None = None,
    track_history_except_column_list: Sequence[str] | None = None,
    spark_conf: Any = None,
) -> MaterializedView:
    """The target as a view, for `db.define` or a program, with the arguments of PySpark's; names and expressions are texts of SQL.

    An event whose `apply_as_deletes` is NULL does not delete.
    """
    for said, value in (
        ("track_history_column_list", track_history_column_list),
        ("track_history_except_column_list", track_history_except_column_list),
        ("spark_conf", spark_conf),
        ("name", name),
    ):
        if value:
            raise QueryError(
                f"`{said}` of the flow into `{target}` means nothing here", hint=_WHY[said]
            )
    if str(stored_as_scd_type or 1) != "1":
        raise QueryError(
            f"the flow into `{target}` keeps a history (SCD type {stored_as_scd_type}), which is not built",
            hint="leave stored_as_scd_type out; every version of the target can be read as it was",
        )
    text = auto_cdc(
        target, source, keys, sequence_by, apply_as_deletes, column_list, except_column_list
    )
    return MaterializedView(target, lambda: text, key=tuple(keys))


def auto_cdc(
    target: str,
    source: str,
    keys: Sequence[str],
    sequence_by: str,
    deletes: str | None,
    columns: Sequence[str] | None,
    without: Sequence[str] | None,
) -> str:
    """The query of a target."""
    named = {"keys": keys, "column_list": columns or (), "except_column_list": without or ()}
    for what, given in named.items():
        if isinstance(given, str) or not all(isinstance(n, str) and n for n in given):
            raise QueryError(
                f"`{what}` of the flow into `{target}` is {given!r}",
                hint="give a list of names of columns, as text",
            )
    for what, text in (("sequence_by", sequence_by), ("apply_as_deletes", deletes or "false")):
        if not isinstance(text, str) or not text.strip():
            raise QueryError(f"`{what}` of the flow into `{target}` is {text!r}", hint="give SQL")
    if not keys or (columns and without):
        raise QueryError(
            f"the flow into `{target}` has "
            + ("both column_list and except_column_list" if keys else "no keys"),
            hint="give one of them" if keys else "keys=[...] says which events are of one row",
        )
    lost = [k for k in keys if columns and k.lower() not in map(str.lower, columns)]
    lost += [k for k in keys if without and k.lower() in map(str.lower, without)]
    if lost:
        raise QueryError(
            f"the flow into `{target}` leaves out `{lost[0]}`, which is one of its keys",
            hint="a row is known by its keys: take them in",
        )
    kept = ", ".join(map(column_name, columns)) if columns else "*"
    if without:
        kept = f"* EXCEPT ({', '.join(map(column_name, without))})"
    by = ", ".join(map(column_name, keys))
    last = f"row_number() OVER (PARTITION BY {by} ORDER BY ({sequence_by}) DESC) = 1"
    gone = f" AND NOT coalesce(({deletes}), false)" if deletes else ""
    return f"SELECT {kept} FROM {column_name(source)} QUALIFY {last}{gone}"


_FLOW = re.compile(
    r"""CREATE \s+ FLOW \s+ (?P<flow>\S+) \s+ AS \s+ AUTO \s+ CDC \s+ INTO \s+ (?P<target>\S+)
    \s+ FROM \s+ (?:STREAM \s+ (?P<stream>\S+) | STREAM \s* \( \s* (?P<inside>[^\s)]+) \s* \) | (?P<source>\S+))
    \s+ KEYS \s* \( (?P<keys>[^)]*) \)
    (?: \s+ APPLY \s+ AS \s+ DELETE \s+ WHEN \s+ (?P<deletes>.+?) )?
    \s+ SEQUENCE \s+ BY \s+ (?P<sequence>.+?)
    (?: \s+ COLUMNS \s+ (?: \* \s+ EXCEPT \s* \( (?P<without>[^)]*) \) | \( (?P<columns>[^)]*) \) ) )?
    (?: \s+ STORED \s+ AS \s+ SCD \s+ TYPE \s+ (?P<type>\d+) )? \s* ;? \s*""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


_CLAUSE = re.compile(
    r"\b(COLUMNS|IGNORE\s+NULL|APPLY\s+AS|STORED\s+AS|TRACK\s+HISTORY|SEQUENCE\s+BY)\b",
    re.IGNORECASE,
)
"""A clause that would be read as part of an expression."""


def flow_of(text: str) -> MaterializedView | None:
    """The target of a statement CREATE FLOW ... AS AUTO CDC; None where it is another flow, or has clauses that are not taken."""
    found = _FLOW.fullmatch(text.strip())
    if found is None or any(_CLAUSE.search(found[n] or "") for n in ("sequence", "deletes")):
        return None
    source = found["stream"] or found["inside"] or found["source"]
    return create_auto_cdc_flow(
        _bare(found["target"]),
        _bare(source),
        _names(found["keys"]) or (),
        found["sequence"],
        found["deletes"],
        _names(found["columns"]),
        _names(found["without"]),
        found["type"],
    )


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [_bare(n) for n in text.split(",") if n.strip()]


def _bare(name: str) -> str:
    return name.strip().strip("`")


_WHY = {
    "track_history_column_list": "it is of histories (SCD type 2), which are not built",
    "track_history_except_column_list": "it is of histories (SCD type 2), which are not built",
    "spark_conf": "answers depend on the settings that the database was made with: leave it out",
    "name": "a target has one flow here: leave it out",
}
