"""Running: a script, a program or a pipeline defines what there is in a database, and feeds, stages and sinks run.

    headwater run app.sql [--dir warehouse]         a script of statements
    headwater run app.py [--dir warehouse]          a program with `define(db)`, or with @hw.materialized_view
    headwater run spark-pipeline.yml [--dir ...]    a pipeline of Spark, of SQL files
    headwater run DIR --with app.py                 the same, with the database first

^C and SIGTERM end it after what it is at; the next run goes on from there.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.api.database import Database, open_database
from headwater.api.executing import Result, read_all, read_script
from headwater.api.rehearsing import rehearsed
from headwater.command import app
from headwater.command.pipeline import defines, read_pipeline
from headwater.command.printing import plain, print_json, print_rows
from headwater.errors import QueryError
from headwater.script.statements import Ask, Explain, Show
from headwater.show.terminal import Paint, rows_shown

PROGRAMS = (".sql", ".py", ".yml", ".yaml")


def run(options: argparse.Namespace, paint: Paint) -> None:
    """Defines what a program says, and runs it."""
    program, folder, defined = program_of(options.target, options.app, options.dir)
    if options.dry_run:
        _rehearse(program, folder, options.json)
        return
    script = read_script(program) if program.suffix == ".sql" else None
    define = None if script is not None else defined or app.defines(program)
    if script is not None:
        read_all(script)  # before a database is made
    with open_database(folder) as db:
        if script is not None:
            for result in db.executed(script):
                _show(result, options.json, paint)
        elif define is not None:
            app.defined(program, define, db)
        try:
            done = db.run(
                once=options.once,
                always=options.always,
                every=options.every,
                epochs=options.epochs,
                seconds=options.seconds,
            )
        except KeyboardInterrupt:
            print("it was stopped; the next run goes on from the last epoch that was committed")
            return
        if options.json:
            print_json({"version": db.version, **plain(vars(done))})
        else:
            print(done)


def program_of(
    target: Path, given: Path | None, folder: Path | None
) -> tuple[Path, Path, Callable[[Database], Any] | None]:
    """The program, the directory of the database, and of a pipeline what it does."""
    if given is not None and folder is not None:
        raise QueryError(
            "both --with and --dir are given",
            hint="headwater run app.sql --dir DIR, or headwater run DIR --with app.py",
        )
    program = target if given is None else given
    if program.suffix not in PROGRAMS:
        raise QueryError(
            f"{program} is no program",
            hint="headwater run app.sql --dir DIR, or headwater run DIR --with app.py",
        )
    place = target if given is not None else folder
    if program.suffix in (".yml", ".yaml"):
        pipeline = read_pipeline(program)
        return program, place or pipeline.folder, defines(pipeline, app.defines)
    return program, place or program.parent / "warehouse", None


def _rehearse(program: Path, folder: Path, as_json: bool) -> None:
    """Prints what a script would do, and changes nothing."""
    if program.suffix != ".sql":
        raise QueryError(
            f"{program} is no script, and only scripts have a dry run",
            hint="name a file that ends in .sql",
        )
    script = read_script(program)
    with tempfile.TemporaryDirectory() as scratch:
        there = folder if (folder / "log").is_dir() else Path(scratch) / "empty"
        with open_database(there) as db, open_database(Path(scratch) / "stage") as stage:
            for planned in rehearsed(script, db, stage):
                if as_json:
                    print_json({**vars(planned), "more": list(planned.more)})
                else:
                    print(planned)


def _show(result: Result, as_json: bool, paint: Paint) -> None:
    """Prints what a statement that asks gave."""
    if isinstance(result.statement.what, Ask | Show):
        print_rows(result.value) if as_json else print(rows_shown(result.value, None, paint))
    elif isinstance(result.statement.what, Explain):
        print_json({"explain": result.value}) if as_json else print(result.value)
