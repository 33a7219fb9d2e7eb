"""The command `headwater`: arguments in, calls out, answers printed.

    headwater init [FOLDER]            a script and a first file, to begin with
    headwater run app.sql              carries out a script, and takes what comes in; also of programs and pipelines
    headwater query DIR STATEMENT      one statement, or several: SELECT, INSERT, SHOW, ...
    headwater status DIR               sources, views, maps, what is closed, and who writes
    headwater show DIR VIEW            the rows of a view or source, now or at a version
    headwater changes DIR VIEW         the rows that changed after a version; --follow goes on
    headwater explain DIR VIEW         how a view is kept
    headwater explain DIR --can QUERY  what would be kept for a query, at what cost
    headwater explain DIR --graph      sources, views, stages and flows, and who waits for what
    headwater verify DIR [VIEW]        recompute and compare
    headwater check DIR                read every byte that is kept, and name what is damaged
    headwater compact DIR              rewrite runs as few, and collect what nobody needs
    headwater upgrade DIR              bring it up to this Headwater and this Spark
    headwater drop DIR NAME            take a view or source away
    headwater completion SHELL         what bash or zsh reads to complete all this
    headwater demo                     a story: orders arrive, views stay fresh

The exit code is 0, or 1 where Headwater refuses, with one message on stderr, or 2 where the arguments are wrong. `run`, `compact`, `upgrade`,
`drop` and `query` of statements that change write to a database; all else works beside a writer. Spark is started by `demo`,
`verify` and `upgrade`, and by the others where there is much to do, or what only Spark knows.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from headwater.api.database import Database, open_database
from headwater.api.executing import read_script
from headwater.command import demo, running
from headwater.command.completion import SHELLS, completion
from headwater.command.following import followed
from headwater.command.printing import print_json, print_rows
from headwater.command.starting import start
from headwater.command.status import print_status, status
from headwater.engine.spark.session import quiet_session
from headwater.engine.view_rows import repeated
from headwater.errors import HeadwaterError, QueryError, StateError
from headwater.script.grammar import statements
from headwater.script.statements import Ask, Explain, Show
from headwater.show.terminal import Paint, changes_shown, in_order, rows_shown, size
from headwater.state import directory
from headwater.state.store import Store
from headwater.version import VERSION

LIMIT = 20
"""Rows that `show` prints unless told otherwise."""
KINDS = ("delete", "update_preimage", "update_postimage", "insert")
"""Kinds of changes in the order in which they are shown of one key."""


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; 1 and the sentence of the error where Headwater refuses."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names of files may be no text
            stream.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace, Paint], None] = options.run
    try:
        run(options, Paint.of(sys.stdout))
        sys.stdout.flush()
    except HeadwaterError as e:
        print(e, file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # ^C is how one ends what goes on
        return 0 if getattr(options, "follow", False) else 130
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as e:
        print(f"it could not be read: {e.strerror or e}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headwater", description="Keep the answers to queries up to date as data arrives."
    )
    parser.add_argument("--version", action="version", version=f"headwater {VERSION}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[..., None], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        made.set_defaults(run=run)
        return made

    one = command("demo", _demo, "a story: orders arrive day by day, and two views stay fresh")
    one.add_argument("--dir", type=Path, help="an empty or new directory; a temporary one without")
    one.add_argument("--orders", type=_count, default=demo.ORDERS, help="orders loaded first")
    one.add_argument("--daily", type=_count, default=demo.DAILY, help="orders of a day")
    one.add_argument("--days", type=_count, default=demo.DAYS, help="days that follow")
    one.add_argument("--sale", type=_count, default=demo.SALE, help="orders of the third day")

    one = command("init", _init, "make a folder with a script and a first file")
    one.add_argument("folder", type=Path, nargs="?", default=Path(), metavar="FOLDER")

    one = command("run", running.run, "carry out a script or program, and take what comes in")
    one.add_argument(
        "target",
        type=Path,
        metavar="PROGRAM",
        help="app.sql, app.py, spark-pipeline.yml; or DIR with --with",
    )
    one.add_argument(
        "--dir", type=Path, help="the database; `warehouse` beside the program without"
    )
    one.add_argument("--with", dest="app", type=Path, metavar="APP", help="the program, for a DIR")
    one.add_argument(
        "--dry-run", action="store_true", help="print what would be done, and do nothing"
    )
    one.add_argument("--epochs", type=_count, metavar="N", help="so many at most")
    one.add_argument("--seconds", type=_seconds, metavar="S", help="for so long at most")
    one.add_argument("--every", type=_seconds, metavar="E", help="look for input again, for ever")
    one.add_argument("--once", action="store_true", help="one batch of every feed")
    one.add_argument("--always", action="store_true", help="take input as it comes, for ever")
    _json(one)

    one = command("query", _query, "carry out a statement, and print what it gives")
    _dir(one)
    one.add_argument("statement", metavar="STATEMENT", help="SELECT, INSERT, SHOW, ...")
    one.add_argument("--limit", type=_count, metavar="N", default=0, help="0 for all rows")
    _json(one)

    one = command("status", _status, "sources, views, maps, versions, and who writes")
    _dir(one)
    _json(one)

    one = command("show", _show, "the rows of a view or source")
    _names(one)
    one.add_argument("--version", type=_count, metavar="N", help="as it was at a version")
    one.add_argument("--limit", type=_count, metavar="N", default=LIMIT, help="0 for all rows")
    _json(one)

    one = command("changes", _changes, "the rows of a view that changed after a version")
    _names(one)
    one.add_argument("--since", type=_count, metavar="N", help="a version; 0 for all")
    one.add_argument("--format", choices=("weights", "cdc"), default="weights")
    one.add_argument("--limit", type=_count, metavar="N", default=0, help="0 for all rows")
    one.add_argument("--follow", action="store_true", help="go on as versions are committed")
    one.add_argument("--seconds", type=_seconds, metavar="S", help="follow for so long at most")
    _json(one)

    one = command("explain", _explain, "how a view is kept, or what a stage is")
    _dir(one)
    one.add_argument("view", nargs="?", metavar="NAME", help="a view or a stage")
    one.add_argument("--can", metavar="QUERY", help="what would be kept for a query, at what cost")
    one.add_argument("--graph", action="store_true", help="all sources, views, stages and flows")

    one = command("verify", _verify, "recompute views on Spark and compare")
    _dir(one)
    one.add_argument("view", nargs="?", metavar="VIEW", help="all of them without")
    _json(one)

    one = command("check", _check, "read every byte that is kept, and name what is damaged")
    _dir(one)
    _json(one)

    one = command("compact", _compact, "rewrite runs as few, and collect what nobody needs")
    _dir(one)

    one = command("upgrade", _upgrade, "bring a database up to this Headwater and this Spark")
    _dir(one)

    one = command("drop", _drop, "take a view, or a source that nobody reads, away")
    _names(one)
    one.add_argument("--cascade", action="store_true", help="and all that reads it")

    one = command("rename", _rename, "give a view, source or sink another name")
    _names(one)
    one.add_argument("to", help="its new name")

    one = command("completion", _completion, "what a shell reads to complete this command")
    one.add_argument("shell", choices=SHELLS)
    return parser


def _dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", type=Path, metavar="DIR")


def _names(parser: argparse.ArgumentParser) -> None:
    _dir(parser)
    parser.add_argument("view", metavar="NAME")


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="lines of JSON, for programs")


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(text)
    return value


def _opened(path: Path) -> Database:
    """The database in a directory, which must be there."""
    _there(path)
    return open_database(path)


def _there(path: Path) -> None:
    if path.is_dir() or not path.exists():
        if not (path / "log").is_dir():
            raise StateError(f"there is no database in {path}", hint="headwater.open creates one")


# --- the commands ---------------------------------------------------------------------------------------------------


def _demo(options: argparse.Namespace, paint: Paint) -> None:
    called = Path(sys.argv[0])
    command = str(called) if called.name == "headwater" else "python -m headwater"
    demo.run(options.dir, options.orders, options.daily, options.days, options.sale, paint, command)


def _init(options: argparse.Namespace, _: Paint) -> None:
    print("\n".join(start(options.folder)))


def _query(options: argparse.Namespace, paint: Paint) -> None:
    """Statements that only ask work beside a writer; others take the right to write, and let it go."""
    script = read_script(options.statement)
    asks = all(isinstance(s.what, Ask | Show | Explain) for s in statements(script))
    db = _opened(options.dir)
    try:
        for result in db.executed(script):
            if isinstance(result.value, pa.Table):
                table = result.value.slice(0, options.limit) if options.limit else result.value
                print_rows(table) if options.json else print(rows_shown(table, None, paint))
            elif isinstance(result.value, str):
                print_json({"explain": result.value}) if options.json else print(result.value)
            elif options.json:
                print_json({"version": result.after, "changed": result.after > result.before})
            else:
                print(
                    f"version {result.after}"
                    + ("" if result.after > result.before else ", nothing changed")
                )
    finally:
        if not asks:
            db.close()


def _show(options: argparse.Namespace, paint: Paint) -> None:
    table = in_order(repeated(_opened(options.dir).table(options.view, options.version)))
    if options.json:
        print_rows(table.slice(0, options.limit) if options.limit else table)
    else:
        print(rows_shown(table, options.limit or None, paint))


def _changes(options: argparse.Namespace, paint: Paint) -> None:
    db = _opened(options.dir)
    if db.catalog.named(options.view) in db.sources:
        raise QueryError(
            f"`{options.view}` is a source", hint=f"views: {', '.join(db.views) or 'none'}"
        )
    cdc = options.format == "cdc"
    if not options.follow:
        since = options.since or 0
        table = db.cdc_table(options.view, since) if cdc else db.changes_table(options.view, since)
        _print_changes(db, table, options, paint)
        return
    since = db.version if options.since is None else options.since
    db.changes_table(options.view, since)  # says what is wrong with either, before it waits
    for table in followed(db, options.view, since, cdc, options.seconds):
        _print_changes(db, table, options, paint)
        sys.stdout.flush()


def _print_changes(
    db: Database, table: pa.Table, options: argparse.Namespace, paint: Paint
) -> None:
    """Prints rows that changed, those of one key next to each other."""
    limit = options.limit or None
    if options.format == "cdc":
        ranks = pc.index_in(table.column("_change_type"), pa.array(KINDS))
        first = ["_commit_version", *_key(db, options.view), "_rank"]
        table = in_order(table.append_column("_rank", ranks), first).drop_columns(["_rank"])
        print_rows(table.slice(0, limit)) if options.json else print(
            rows_shown(table, limit, paint)
        )
    elif options.json:
        print_rows(in_order(table, ["_version"]).slice(0, limit))
    else:
        print(changes_shown(table, limit, paint, by=_key(db, options.view)))


def _key(db: Database, name: str) -> list[str]:
    """The columns that name a view's groups, so that old and new rows of a group stand together."""
    view = db.program.views.get(db.catalog.named(name))
    if view is None or view.stratum is None:  # what a stage or a stream gives has no groups
        return []
    stratum = db.program.strata[view.stratum]
    return [n for n, c in stratum.row if c.reads and {*c.reads} <= {*stratum.group.columns}]


def _explain(options: argparse.Namespace, _: Paint) -> None:
    if (options.can is not None) + (options.view is not None) + options.graph != 1:
        raise QueryError(
            "explain takes a view or stage, a query with --can, or --graph",
            hint="name one of them",
        )
    db = _opened(options.dir)
    if options.graph:
        print(db.explain_graph())
    else:
        print(db.explain(options.view) if options.can is None else db.can(options.can))


def _verify(options: argparse.Namespace, paint: Paint) -> None:
    db = _opened(options.dir)
    names = [options.view] if options.view else db.views
    _start_spark()
    for name in names:
        remarks = list(db.verify(name).values())
        if options.json:
            print_json({"view": name, "version": db.version, "remarks": remarks})
            continue
        print(paint.sign(f"+ {name} is what its query gives at version {db.version}"))
        for remark in remarks:
            print(f"  {remark}")


def _check(options: argparse.Namespace, paint: Paint) -> None:
    """By the store alone: what a damaged catalog says need not be understood to read every byte."""
    _there(options.dir)
    found = Store(directory.check(directory.local_path(options.dir))).check()
    told = f"{found.versions} versions, {found.files} files, {size(found.bytes)} read"
    if options.json:
        damaged = [p.what for p in found.problems]
        sizes = {"versions": found.versions, "files": found.files, "bytes": found.bytes}
        print_json(
            {**sizes, "whole": found.whole, "damaged": damaged, "strays": list(found.strays)}
        )
    else:
        for name in found.strays:
            print(f"{name} is none of the database's files, and is left alone")
        for problem in found.problems:
            print(paint.sign(f"- {problem.what}"))
    if found.problems:
        raise StateError(
            f"{told}: {len(found.problems)} damaged",
            hint=f"the last whole version is {found.whole}; put the files back from a copy",
        )
    if not options.json:
        print(paint.sign(f"+ {told}: all of it is as it was written"))


def _compact(options: argparse.Namespace, _: Paint) -> None:
    with _opened(options.dir) as db:
        before = db.on_disk()
        db.compact()
        after = db.on_disk()
    print(
        f"{size(before.total)} in {before.files:,} files became {size(after.total)} in {after.files:,}"
    )


def _upgrade(options: argparse.Namespace, paint: Paint) -> None:
    """What an older Headwater kept is computed anew where it has to be, and with another Spark in any case."""
    with _opened(options.dir) as db:
        spark = db.session.settings()["spark"]
        if db.session.is_other:
            _start_spark()
            db.upgrade()
            now = db.session.settings()["spark"]
            print(
                paint.sign(
                    f"+ its answers were those of Spark {spark}, and are those of Spark {now} at version {db.version}"
                )
            )
        elif db.stale:
            db.rebuild()
            print(
                paint.sign(
                    f"+ its views were kept in other maps, and are computed anew at version {db.version}"
                )
            )
        else:
            print(f"it is of this Headwater and of Spark {spark}; there is nothing to do")


def _rename(options: argparse.Namespace, _: Paint) -> None:
    with _opened(options.dir) as db:
        db.rename(options.view, options.to)
        print(f"`{options.view}` is `{options.to}` since version {db.version}")


def _drop(options: argparse.Namespace, _: Paint) -> None:
    with _opened(options.dir) as db:
        gone = db.read_by(options.view) if options.cascade else [options.view]
        db.drop(options.view, cascade=options.cascade)
        said = ", ".join(f"`{n}`" for n in gone)
        are = "is" if len(gone) == 1 else "are"
        print(f"{said} {are} gone at version {db.version}; versions before it have what was there")


def _completion(options: argparse.Namespace, _: Paint) -> None:
    print(completion(_parser(), options.shell), end="")


def _status(options: argparse.Namespace, paint: Paint) -> None:
    db = _opened(options.dir)
    if options.json:
        print_json(status(db))
    else:
        print_status(db, options.dir, paint)


def _start_spark() -> None:
    with tempfile.TemporaryDirectory() as folder:
        quiet_session(Path(folder) / "spark.log")
