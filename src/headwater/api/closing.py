"""What may be said of the end of a source: by which columns it is over, what becomes of late rows, and which rows are kept."""

from __future__ import annotations

from headwater.api.catalog import SourceDef
from headwater.errors import QueryError
from headwater.language.closes import LATE


def check_closes(made: SourceDef) -> None:
    """Raises where what is said of the end of a source means nothing."""
    name = made.name
    if made.late not in ("", *LATE):
        raise QueryError(f"`late` of `{name}` is {made.late!r}", hint=f"one of {', '.join(LATE)}")
    if made.late and not made.closes:
        raise QueryError(
            f"`{name}` says what becomes of late rows, and no row of it is ever late",
            hint="say closes=, the columns by which it is over",
        )
    if not isinstance(made.append_only, bool):
        raise QueryError(f"`append_only` of `{name}` is {made.append_only!r}", hint="True or False")
    if not isinstance(made.retain, bool) and made.retain != "open":
        raise QueryError(f"`retain` of `{name}` is {made.retain!r}", hint="True, 'open' or False")
    if made.retain == "open" and not made.closes:
        raise QueryError(
            f"`{name}` keeps open rows only, and no row of it is ever closed",
            hint="say closes=, the columns by which it is over",
        )
    if made.static and (made.closes or made.append_only):
        raise QueryError(
            f"`{name}` is static, so all of it is over", hint="leave closes= and append_only= out"
        )
    if made.nested and made.late not in ("", "refuse"):
        raise QueryError(
            f"`{name}` has arrays with owners, and late={made.late!r}",
            hint="inner rows cannot come without their owner: leave `late` out, and a change with late rows is refused",
        )
    if made.nested and made.closes:
        keyed = {c.lower() for c in made.key}
        other = [c for s in made.schemes for c in s.columns if c.lower() not in keyed]
        if other or made.retain == "open":
            raise QueryError(
                f"`{name}` has arrays with owners, and "
                + (f"is closed by `{other[0]}`" if other else "keeps open rows only"),
                hint=f"close it by columns of its key: {', '.join(made.key)}"
                if other
                else "leave retain='open' out",
            )
