"""What `headwater status` prints: sources, views, stages, streams and maps, who writes, and what is on disk."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from headwater.api.database import Database
from headwater.api.verify import source_view
from headwater.folds.keeping import KINDS as KINDS_OF_STREAMS
from headwater.folds.keeping import is_of_stream
from headwater.plan.analysis import maps_of, read_from
from headwater.show.terminal import Paint, grid, size
from headwater.state import lease


def status(db: Database) -> dict[str, Any]:
    """What a database is, for programs."""
    snapshot, kept, writes = db.store.at(db.version), db.store.kept(), lease.holder(db.files)
    disk, sources = db.on_disk(), db.catalog.sources
    return {
        "version": db.version,
        "time": datetime.fromtimestamp(snapshot.version.time, UTC).isoformat(),
        "readable": [kept[0], kept[-1]] if kept else [],
        "writer": {"pid": writes.pid, "host": writes.host} if writes else None,
        "disk": {"bytes": disk.total, "files": disk.files},
        "sources": {
            n: {"columns": s.ddl.replace("`", ""), "key": list(s.key), "entries": _entries(db, n)}
            for n, s in sources.items()
            if not s.written
        },
        "views": {
            n: {"columns": v.ddl.replace("`", ""), "since": v.created, "entries": _entries(db, n)}
            for n, v in db.catalog.views.items()
        },
        "nodes": [vars(n) for n in db.nodes()],
    }


def print_status(db: Database, path: Path, paint: Paint) -> None:
    """Prints what a database is, for people."""
    snapshot = db.store.at(db.version)
    kept = db.store.kept()
    writes = lease.holder(db.files)
    when = datetime.fromtimestamp(snapshot.version.time, UTC).isoformat(" ", "seconds")
    note = snapshot.version.note.get("what", "")
    print(f"{path}: version {db.version}, {when}" + (f" ({note})" if note else ""))
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
        done = f"{n.epochs:,}", f"{n.rows:,}", f"{n.seconds:.2f} s"
        state = size(n.bytes) if n.entries else "-"
        nodes.append((n.name, n.about, *done, waits, f"{n.entries:,}", state))
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
    entries = _entries(db, name)
    if not db.policy.reads_here([entries]):
        return f"~{entries:,}"
    return f"{pc.sum(db.table(name).column('_w')).as_py() or 0:,}"


def _entries(db: Database, name: str) -> int:
    """How many entries the map has that a source or view is read from; those of one key may be several."""
    source = db.catalog.sources.get(name)
    if source is not None and not source.retain:
        return 0
    view = source_view(source) if source is not None else db.program.views[name]
    read = read_from(db.program, view)[0]
    return sum(r.rows for r in db.store.at(db.version).version.maps[read.name][1])
