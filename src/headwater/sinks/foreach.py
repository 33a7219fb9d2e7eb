"""A function of this process as a sink: it is called with what changed, and with the version that this leads to.

    def f(changes, version): ...          # an Arrow table with `_w`: equal rows once, their weights added up

It is called at least once for every change: that it was is committed to the database after the call, so that a process that
is killed in between calls it again, with what changed since the same version. A function that keeps the version together with
what it does, and says so by a method `version()`, is called exactly once for each change:

    class Table:
        def version(self): ...            # the last version that was kept; None at the beginning
        def __call__(self, changes, version): ...
        def replace(self, rows, version): ...     # optional: all rows, in the place of what is there

The first call has all rows of the view. Where the database does not keep the version any more from which changes are due,
`replace` is called with all rows; without it that is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headwater.errors import HeadwaterError, SinkError
from headwater.sinks.sink import Place, Rows


class Foreach:
    """A function that takes changes; `recall` and `keep` read and write its place in the database."""

    by_version = False

    def __init__(
        self,
        sink: str,
        function: Callable[[pa.Table, int], Any],
        recall: Callable[[], Place | None],
        keep: Callable[[Place], None],
        view: str,
    ):
        self.sink, self.function, self.view = sink, function, view
        self.recall, self.keep = recall, keep
        self._version: Callable[[], int | None] | None = getattr(function, "version", None)
        self._replace: Callable[[pa.Table, int], Any] | None = getattr(function, "replace", None)

    def place(self) -> Place | None:
        """What the function says that it has, or the database of it."""
        known = self.recall()
        if self._version is None:
            return known
        version = self._called(self._version)
        if version is None:
            return None
        # The database knows the mark of the version only where it was there when that was kept.
        if known is not None and known.version == version:
            return known
        return Place("", self.view, version, None)

    def write(self, changes: pa.Table, place: Place) -> None:
        """Calls the function where something changed, and keeps the place."""
        if changes.num_rows:
            self._called(self.function, changes, place.version)
        self.keep(place)

    def replace(self, rows: Rows, place: Place) -> None:
        """Calls the function with all rows the first time, later its `replace`."""
        first = self.place() is None
        if first:
            self._called(self.function, rows.table(), place.version)
        elif self._replace is not None:
            self._called(self._replace, rows.table(), place.version)
        else:
            raise SinkError(
                f"the function of the sink `{self.sink}` cannot go on from the version that it has, and has no `replace`",
                hint="give an object with a method replace(rows, version); or drop the sink, and declare it again",
            )
        self.keep(place)

    def close(self) -> None:
        """Calls `close` of the function, if it has one."""
        close = getattr(self.function, "close", None)
        if close is not None:
            self._called(close)

    def _called(self, f: Callable[..., Any], *given: Any) -> Any:
        try:
            return f(*given)
        except HeadwaterError:
            raise
        except Exception as e:  # what a user wrote may raise anything
            raise SinkError(
                f"the function of the sink `{self.sink}` raised {type(e).__name__}: {e}",
                hint="it is called again with the same changes by the next sync",
            ) from e
