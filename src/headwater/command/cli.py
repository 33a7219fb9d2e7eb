"""The command `headwater`: arguments in, calls out, answers printed.

    headwater demo                     a story: orders arrive, views stay fresh
    headwater status DIR               sources, views, maps, what is closed, and who writes
    headwater show DIR VIEW            the rows of a view or source, now or at a version
    headwater changes DIR VIEW         the rows that changed after a version
    headwater explain DIR VIEW         how a view is kept
    headwater explain DIR --can QUERY  what would be kept for a query, at what cost
    headwater explain DIR --graph      sources, views, stages and flows, and who waits for what
    headwater run DIR --with APP.py    defines the stages of a program, and runs them
    headwater verify DIR [VIEW]        recompute and compare
    headwater check DIR                read every byte that is kept, and name what is damaged

Nothing here writes to a database but `run`, and `demo` to its own, so all else works beside a writer; Spark is started
by `demo` and `verify`, and by `run` where there is much to do.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from headwater.api.database import Database, open_database
from headwater.api.verify import source_view
from headwater.command import app, demo
from headwater.engine.spark.session import quiet_session
from headwater.engine.view_rows import repeated
from headwater.errors import HeadwaterError, QueryError, StateError
from headwater.folds.keeping import KINDS as KINDS_OF_STREAMS
from headwater.folds.keeping import is_of_stream
from headwater.plan.analysis import maps_of, read_from
from headwater.show.terminal import Paint, changes_shown, grid, in_order, rows_shown, size
from headwater.state import directory, lease
from headwater.state.store import Store

LIMIT = 20
KINDS = ("delete", "update_preimage", "update_postimage", "insert")
"""Kinds of changes in the order in which they are shown of one key."""
"""Rows that `show` prints unless told otherwise."""


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
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as e:
        print(f"it could not be read: {e.strerror or e}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headwater", description="Look into a database of maintained views."
    )
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

    one = command("status", _status, "sources, views, maps, versions, and who writes")
    one.add_argument("dir", type=Path, metavar="DIR")

    one = command("show", _show, "the rows of a view or source")
    _names(one)
    one.add_argument("--version", type=_count, metavar="N", help="as it was at a version")
    one.add_argument("--limit", type=_count, metavar="N", default=LIMIT, help="0 for all rows")

    one = command("changes", _changes, "the rows of a view that changed after a version")
    _names(one)
    one.add_argument("--since", type=_count, metavar="N", default=0, help="a version; 0 for all")
    one.add_argument("--format", choices=("weights", "cdc"), default="weights")
    one.add_argument("--limit", type=_count, metavar="N", default=0, help="0 for all rows")

    one = command("explain", _explain, "how a view is kept, or what a stage is")
    one.add_argument("dir", type=Path, metavar="DIR")
    one.add_argument("view", nargs="?", metavar="NAME", help="a view or a stage")
    one.add_argument("--can", metavar="QUERY", help="what would be kept for a query, at what cost")
    one.add_argument("--graph", action="store_true", help="all sources, views, stages and flows")

    one = command("run", _run, "define the stages of a program, and run them")
    one.add_argument("dir", type=Path, metavar="DIR")
    one.add_argument(
        "--with", dest="app", type=Path, required=True, metavar="APP.py", help="has `define(db)`"
    )
    one.add_argument("--epochs", type=_count, metavar="N", help="so many at most")
    one.add_argument("--seconds", type=_seconds, metavar="S", help="for so long at most")
    one.add_argument("--every", type=_seconds, metavar="E", help="look for input again, for ever")

    one = command("verify", _verify, "recompute views on Spark and compare")
    one.add_argument("dir", type=Path, metavar="DIR")
    one.add_argument("view", nargs="?", metavar="VIEW", help="all of them without")

    one = command("check", _check, "read every byte that is kept, and name what is damaged")
    one.add_argument("dir", type=Path, metavar="DIR")
    return parser


def _names(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", type=Path, metavar="DIR")
    parser.add_argument("view", metavar="VIEW")


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
    demo.run(options.dir, options.orders, options.daily, options.days, paint, command)


def _show(options: argparse.Namespace, paint: Paint) -> None:
    table = repeated(_opened(options.dir).table(options.view, options.version))
    print(rows_shown(in_order(table), options.limit or None, paint))


def _changes(options: argparse.Namespace, paint: Paint) -> None:
    db = _opened(options.dir)
    if db.catalog.named(options.view) in db.sources:
        raise QueryError(
            f"`{options.view}` is a source", hint=f"views: {', '.join(db.views) or 'none'}"
        )
    if options.format == "weights":
        table = db.changes_table(options.view, options.since)
        print(changes_shown(table, options.limit or None, paint, by=_key(db, options.view)))
        return
    changed = db.cdc_table(options.view, options.since)
    ranks = pc.index_in(changed.column("_change_type"), pa.array(KINDS))
    first = ["_commit_version", *_key(db, options.view), "_rank"]
    ordered = in_order(changed.append_column("_rank", ranks), first).drop_columns(["_rank"])
    print(rows_shown(ordered, options.limit or None, paint))


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


def _run(options: argparse.Namespace, _: Paint) -> None:
    define = app.defines(options.app)
    with open_database(options.dir) as db:
        app.defined(options.app, define, db)
        try:
            print(db.run(epochs=options.epochs, seconds=options.seconds, every=options.every))
        except KeyboardInterrupt:  # how one that looks for input for ever is ended
            print("it was stopped; the next run goes on from the last epoch that was committed")


def _verify(options: argparse.Namespace, paint: Paint) -> None:
    db = _opened(options.dir)
    names = [options.view] if options.view else db.views
    _start_spark()
    for name in names:
        remarks = db.verify(name)
        print(paint.sign(f"+ {name} is what its query gives at version {db.version}"))
        for remark in remarks.values():
            print(f"  {remark}")


def _check(options: argparse.Namespace, paint: Paint) -> None:
    """By the store alone: what a damaged catalog says need not be understood to read every byte."""
    _there(options.dir)
    found = Store(directory.check(directory.local_path(options.dir))).check()
    for name in found.strays:
        print(f"{name} is none of the database's files, and is left alone")
    for problem in found.problems:
        print(paint.sign(f"- {problem.what}"))
    told = f"{found.versions} versions, {found.files} files, {size(found.bytes)} read"
    if found.problems:
        raise StateError(
            f"{told}: {len(found.problems)} damaged",
            hint=f"the last whole version is {found.whole}; put the files back from a copy",
        )
    print(paint.sign(f"+ {told}: all of it is as it was written"))


def _start_spark() -> None:
    with tempfile.TemporaryDirectory() as folder:
        quiet_session(Path(folder) / "spark.log")


def _status(options: argparse.Namespace, paint: Paint) -> None:
    db = _opened(options.dir)
    snapshot = db.store.at(db.version)
    kept = db.store.kept()
    writes = lease.holder(db.files)
    when = datetime.fromtimestamp(snapshot.version.time, UTC).isoformat(" ", "seconds")
    note = snapshot.version.note.get("what", "")
    print(f"{options.dir}: version {db.version}, {when}" + (f" ({note})" if note else ""))
    print(f"versions {kept[0]} to {kept[-1]} can be read" if kept else "no versions yet")
    print(f"process {writes.pid} on {writes.host} writes" if writes else "nobody writes")
    for line in _on_disk(db):
        print(line)

    sources = [
        (n, _rows(db, n), s.ddl.replace("`", ""))
        for n, s in db.catalog.sources.items()
        if not s.written
    ]
    _section("sources", ("source", "rows", "columns"), sources, (False, True, False), paint)
    views = [
        (n, _rows(db, n), v.created, v.ddl.replace("`", "")) for n, v in db.catalog.views.items()
    ]
    _section(
        "views", ("view", "rows", "since", "columns"), views, (False, True, True, False), paint
    )

    if db.ends():
        _ends_status(db, paint)
    if db.graph.stages or db.graph.flows or db.directories():
        _graph_status(db, paint)
    if db.streams:
        _streams_status(db, paint)

    used: dict[str, list[str]] = {}
    for view in db.program.views.values():
        for m in maps_of(db.program, view):
            used.setdefault(m.name, []).append(view.name)
    maps = []
    for name, (_, refs) in sorted(snapshot.version.maps.items()):
        known = db.program.maps.get(name)  # one that no view needs any more may be left
        rows, total = sum(r.rows for r in refs), sum(r.size for r in refs)
        by = ", ".join(used.get(name, [])) or "-"
        maps.append(
            (
                name,
                f"{len(refs)}",
                f"{rows:,}",
                size(total),
                by,
                known.note or "looked up by deltas" if known else _beside(name, db.streams),
            )
        )
    heads = ("map", "runs", "rows", "bytes", "used by", "what it is")
    _section("maps", heads, maps, (False, True, True, True, False, False), paint)


_OF_GRAPH = {
    "q:": "what a stage has not read",
    "s:": "the state of a stage",
    "d:": "when groups are due",
    "w:": "groups that are due, in order",
    "r:": "what rows gave",
    "b:": "the rows of groups",
    "a:": "the answers of groups",
    "l:": "looked up by stages",
}
"""What the maps of a graph are, by how their names begin."""
MOST_SHOWN = 3
"""How many punctuations of a source are shown."""


def _beside(name: str, streams: Sequence[str]) -> str:
    """What a map is that no program names."""
    kind, _, of = name.partition(":")
    if is_of_stream(name, streams):
        return KINDS_OF_STREAMS[kind]
    match kind:
        case "ledger":
            return f"the final rows of {of}"
        case "aside":
            return f"the late rows of {of}"
    return _OF_GRAPH.get(name[:2], "-")


def _ends_status(db: Database, paint: Paint) -> None:
    """What is over of each source, how many rows came late, and how much is kept for what."""
    rows = []
    for s in db.ends():
        shown = [str(p) for p in s.closed][:MOST_SHOWN]
        more = len(s.closed) - len(shown)
        text = " ∪ ".join(shown) or "nothing"
        late = "-" if s.late is None else f"{s.late:,}"
        rows.append((s.name, s.declared, text + (f" and {more:,} more" if more else ""), late))
    heads = ("source", "declared", "closed", "late rows")
    _section("sources that end", heads, rows, (False, False, False, True), paint)
    sizes = [
        (kind, f"{found.maps:,}", f"{found.entries:,}", size(found.bytes))
        for kind, found in db.sizes().items()
    ]
    _section("maps", ("kept for", "maps", "rows", "bytes"), sizes, (False, True, True, True), paint)


def _graph_status(db: Database, paint: Paint) -> None:
    """Stages and directories with what they did and what waits for them, and the flows between."""
    nodes = []
    for n in db.nodes():
        waits = "?" if n.waiting is None else f"{n.waiting:,}"
        kind = f"{n.kind}, paused" if n.paused else n.kind
        done = f"{n.epochs:,}", f"{n.rows:,}", f"{n.seconds:.2f} s"
        state = size(n.bytes) if n.entries else "-"
        nodes.append((n.name, kind, *done, waits, f"{n.entries:,}", state))
    heads = ("node", "kind", "runs", "rows read", "time", "waiting", "entries", "state")
    _section("nodes", heads, nodes, (False, False, *[True] * 6), paint)
    graph = db.graph
    flows = []
    for name, f in graph.flows.items():
        by = ", ".join([*graph.readers(name), *db.catalog.readers(name)]) or "-"
        queues = ", ".join(f"{s} {len(graph.cursors[s, name].at)}" for s in graph.readers(name))
        kept = {True: "yes", False: "no", None: "not yet decided"}[f.retained]
        rows = _rows(db, name) if f.retained else "-"
        flows.append((name, f.writer or "-", by, queues or "-", kept, rows))
    columns = ("flow", "written by", "read by", "waiting", "kept", "rows")
    _section("flows", columns, flows, (*[False] * 5, True), paint)


def _streams_status(db: Database, paint: Paint) -> None:
    """Streams with what they read and tell, how many rows wait, and for what."""
    rows = []
    for name, made in db.stream_defs.items():
        waits = db[name].pending()
        behind = sorted({h for w in waits for h in w.waits_for})
        rows.append(
            (
                name,
                made.schema,
                ", ".join(made.relations.values()) or "-",
                f"{sum(w.rows for w in waits):,}",
                ", ".join(behind) or "-",
            )
        )
    heads = ("stream", "schema", "tells", "waiting", "for")
    _section("streams", heads, rows, (False, False, False, True, False), paint)


def _on_disk(db: Database) -> list[str]:
    """What the directory holds, and how much of the past it is to hold."""
    keep, disk = db.keep(), db.on_disk()
    past = [f"{keep.versions} versions"]
    past += [f"those of {keep.minutes:g} minutes"] if keep.minutes else []
    past += [f"files for {keep.grace:g} minutes more"] if keep.grace else []
    rest = disk.data - disk.named
    out = [
        f"keeps {', '.join(past)}",
        f"on disk {size(disk.total)} in {disk.files:,} files: {size(disk.newest)} of the newest version, "
        f"{size(disk.named - disk.newest)} of older ones, {size(disk.log)} of records"
        + (f", {size(rest)} to be collected" if rest else ""),
    ]
    if disk.strays:
        out.append(f"not the database's, and left alone: {', '.join(disk.strays)}")
    return out


def _section(
    title: str,
    heads: tuple[str, ...],
    rows: Sequence[Sequence[object]],
    right: tuple[bool, ...],
    paint: Paint,
) -> None:
    print()
    print(grid(heads, rows, right, paint, widest=10_000) if rows else f"no {title}")


def _rows(db: Database, name: str) -> str:
    """How many rows a source or view has: about, where it is large, and `-` where they are not kept."""
    source = db.catalog.sources.get(name)
    if source is not None and not source.retain:
        return "-"
    view = source_view(source) if source is not None else db.program.views[name]
    read = read_from(db.program, view)[0]
    entries = sum(r.rows for r in db.store.at(db.version).version.maps[read.name][1])
    if not db.policy.reads_here([entries]):
        return f"~{entries:,}"
    return f"{pc.sum(db.table(name).column('_w')).as_py() or 0:,}"
