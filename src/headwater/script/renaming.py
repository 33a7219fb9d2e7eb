"""Statements of a script that was run before, in which something has another name by now.

    CREATE SOURCE a ...; CREATE MATERIALIZED VIEW v AS SELECT ... FROM a; ALTER SOURCE a RENAME TO b

Run again, there is no `a` any more, and what the first two say is said of `b`: they find it as they have left it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from headwater.errors import HeadwaterError
from headwater.language.sql.renaming import with_tables
from headwater.script.statements import What

NAMES, QUERIES = ("name", "of", "source"), ("query",)
"""The fields of statements that are names, and those that are queries over names."""


def renamed_in(what: What, names: Mapping[str, str]) -> What:
    """What a statement says, of things that have other names; the old ones are given in lower case."""
    new: dict[str, Any] = {}
    for f in fields(what):
        said = getattr(what, f.name)
        if not isinstance(said, str):
            continue
        if f.name in NAMES:
            new[f.name] = names.get(said.lower(), said)
        elif f.name in QUERIES and said:
            with contextlib.suppress(HeadwaterError):  # who carries it out says what is wrong
                new[f.name] = with_tables(said, names)
    return replace(what, **new)
