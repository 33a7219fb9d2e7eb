"""A program that defines a graph, as `headwater run DIR --with app.py` takes it: a file with a function `define(db)`.

    def define(db):
        db.source("pages", "url STRING, html STRING", path="inbox", format="json")

        @db.stage("pages", out="source STRING, url STRING")
        def links(page): ...

or with views that are functions, which are defined behind it, in one commit:

    @hw.materialized_view
    def hosts():
        return "SELECT source, count(*) AS n FROM links GROUP BY source"

What it raises is told with its file and line; an error in Headwater's own words stays what it is.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.api.database import Database
from headwater.api.defining import collected
from headwater.errors import HeadwaterError, QueryError

SHAPE = "write `def define(db):` in it, with db.source, db.view and db.stage, or views by @hw.materialized_view"


def defines(path: Path) -> Callable[[Database], Any]:
    """The function `define` of a program."""
    if not path.is_file():
        raise QueryError(f"there is no program {path}", hint=f"name a Python file; {SHAPE}")
    spec = importlib.util.spec_from_file_location(f"headwater_app_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise QueryError(f"{path} is no Python file", hint="its name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its functions are found again by name
    sys.path.insert(0, str(path.parent.absolute()))  # what lies beside it, as `python app.py` would
    loader = spec.loader
    _told(path, lambda: loader.exec_module(module))
    found, views = getattr(module, "define", None), collected(module)
    if not callable(found) and not views:
        raise QueryError(f"{path} has no function `define`", hint=SHAPE)

    def define(db: Database) -> None:
        if callable(found):
            found(db)
        if views:
            db.define(views)

    return define


def defined(path: Path, define: Callable[[Database], Any], db: Database) -> None:
    """Has a program define its sources, views and stages in a database."""
    _told(path, lambda: define(db))


def _told(path: Path, run: Callable[[], Any]) -> None:
    try:
        run()
    except HeadwaterError:
        raise
    except SyntaxError as e:
        raise QueryError(f"{path}, line {e.lineno}: {e.msg}", hint="mend it") from e
    except Exception as e:  # what a user wrote may raise anything
        lines = [f.lineno for f in traceback.extract_tb(e.__traceback__) if f.filename == str(path)]
        where = f"{path}, line {lines[-1]}" if lines else str(path)
        raise QueryError(f"{where}: {type(e).__name__}: {e}", hint="nothing was run") from e
