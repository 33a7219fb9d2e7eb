"""Defining: the views that a program has collected, all in one commit; what they read of each other is in any order.

A view of the program that is there with another query is replaced, as by `replace_views`; one that the program does not have stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from headwater.api.editing import Given
from headwater.api.executing import Executing
from headwater.api.handles import Commit
from headwater.api.nearness import Mode, mode_as, mode_of
from headwater.api.replacing import check_names
from headwater.calculus.types import RecordType
from headwater.errors import QueryError
from headwater.language.declared import ddl_of, ddl_of_struct, declared
from headwater.language.views import MaterializedView


class Defining(Executing):
    """The part of a database that takes the views of programs."""

    def define(
        self, program: ModuleType | Mapping[str, Any] | Iterable[MaterializedView]
    ) -> Commit:
        """Defines the views that a module has by `@hw.materialized_view`, or some of them that are given, in one commit; and what they say of themselves."""
        views = collected(program)
        check_names([v.name for v in views], "defined")
        given = {
            self.catalog.named(v.name): Given(v.query(), v.strategy, v.key, self._mode_of(v))
            for v in views
        }
        said = {self.catalog.named(v.name): v for v in views if v.schema is not None}
        new, again = self._divided(given)
        if new and said:
            edit = self._edit(new, again)
            for n, v in said.items():
                _check_schema(v, edit.catalog.views[n].type.key)
        done = self._replaced(given) if new else Commit(self.version, repeated=True, database=self)
        for v in views:
            if v.comment:
                self.comment(v.name, v.comment)
        return replace(done, version=self.version)  # what is said of them comes behind

    def _mode_of(self, view: MaterializedView) -> Mode:
        """How the loops of a view are kept: as the program says, or else as they are."""
        known = self.catalog.views.get(self.catalog.named(view.name))
        if view.nearness is None and known is not None:
            return mode_as(known)
        return mode_of(**(view.nearness or {"mode": "exact"}))


def collected(program: Any) -> list[MaterializedView]:
    """The views of a module in the order in which it defines them, or those that are given."""
    if isinstance(program, ModuleType):
        program = vars(program)
    items = list(program.values() if isinstance(program, Mapping) else program)
    return list({id(v): v for v in items if isinstance(v, MaterializedView)}.values())


def _check_schema(view: MaterializedView, found: Any) -> None:
    text = view.schema if isinstance(view.schema, str) else ddl_of_struct(view.schema)
    wanted = declared(text).row
    assert isinstance(found, RecordType)
    same = [(n.lower(), t) for n, t in wanted.fields] == [(n.lower(), t) for n, t in found.fields]
    if not same:
        raise QueryError(
            f"the view `{view.name}` is to have the columns {ddl_of(wanted)}, and its query gives {ddl_of(found)}",
            hint="change the schema or the query",
        )
