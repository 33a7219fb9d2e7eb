"""Sequences of a source's events as its users have them: what may be declared, and forgetting those of keys that are gone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.api.catalog import SourceDef
from headwater.api.opening import Opening
from headwater.engine.probing import entries_at
from headwater.engine.rings import spec_of
from headwater.engine.working import Working
from headwater.errors import ParseError, QueryError, UnknownName
from headwater.interop.spark_text import spark_type
from headwater.io.events import CONFLICTS
from headwater.io.sequences import AT, in_order, write
from headwater.io.values import NOT_FITTING, one_value
from headwater.language.schema import columns
from headwater.state.arrangement import INDEX
from headwater.state.run import column


def check_by_key(made: SourceDef) -> None:
    """Raises where what is said of rows by key means nothing."""
    name = made.name
    for what, said in (("sequence_by", made.sequence_by), ("on_conflict", made.on_conflict)):
        if not isinstance(said, str):
            raise QueryError(f"`{what}` of `{name}` is {said!r}", hint="give it as text")
        if said and not made.key:
            raise QueryError(
                f"`{name}` has `{what}=` and no key", hint="say key=, by which rows are the same"
            )
    if made.on_conflict not in ("", *CONFLICTS):
        raise QueryError(
            f"`on_conflict` of `{name}` is {made.on_conflict!r}",
            hint=f"one of {', '.join(CONFLICTS)}",
        )
    if (made.sequence_by or made.on_conflict) and not made.retain:
        raise QueryError(
            f"`{name}` keeps no copy of its rows, so that none is found by its key",
            hint="leave retain=False out",
        )
    if made.sequence_by:
        _check_sequence(made)


def _check_sequence(made: SourceDef) -> None:
    name, said = made.name, made.sequence_by
    known = {n.lower(): t for n, t in made.row.fields}
    t = known.get(said.lower())
    if t is None:
        try:
            ((n, t),) = columns(said).fields
        except (ParseError, ValueError) as e:
            raise QueryError(
                f"`{said}`, which orders the events of `{name}`, is none of its columns",
                hint=f"columns of `{name}`: {', '.join(known)}; one that comes with changes alone is said with its"
                " type: sequence_by='lsn BIGINT'",
            ) from e
        if n.lower() in known:
            raise QueryError(
                f"`{n}`, which orders the events of `{name}`, is one of its columns",
                hint=f"name it without a type: sequence_by={n!r}",
            )
    if not in_order(t):
        raise QueryError(
            f"`{said}`, which orders the events of `{name}`, is {spark_type(t)}",
            hint="take a whole number, a decimal, a date, a time or text",
        )


class Sequencing(Opening):
    """The part of a database that forgets the sequences of keys that are gone."""

    def forget(self, source: str, before: Any) -> int:
        """Forgets deletions whose sequence is below a value, in one commit; gives how many they were.

        For a source with `sequence_by=`. An event of such a key that comes later counts as new, however old it is: forget what is
        older than any event that is still on its way.
        """
        with self._locked():
            self._writing()
            known = self.catalog.sources.get(self.catalog.named(source))
            if known is None or known.sequences is None:
                raise UnknownName(
                    f"`{source}` is no source whose events have a sequence",
                    hint="say sequence_by= where it is declared",
                )
            kept, t = known.sequences, dict(known.sequences.key)[AT]
            try:
                least = one_value(before, t, self.session.zone)[0]
            except NOT_FITTING as e:
                raise QueryError(
                    f"{before!r} is no sequence of `{source}`", hint=f"it is {spark_type(t)}"
                ) from e
            with self._commit(f"forget {known.name}") as commit:
                working = self._working(commit, self.program)
                working.know(spec_of(kept))
                forgotten = 0
                for table in working.before(kept.name).scan():
                    old = table.filter(pc.less(column(table, AT), least))
                    old = old.filter(pa.array(~_there(working, known, old)))
                    write(working, kept, old, old.select(kept.columns).slice(0, 0))
                    forgotten += old.num_rows
                self._add(commit, working)
        return forgotten


def _there(working: Working, source: SourceDef, entries: pa.Table) -> np.ndarray[Any, Any]:
    """Which of the keys that are remembered have a row."""
    keys = [f"k{i}" for i in range(len(source.by.key))]
    found = entries_at(working.before(source.maps[source.name].name), entries.select(keys))
    out = np.zeros(entries.num_rows, np.bool_)
    out[np.asarray(column(found, INDEX))] = True
    return out
