"""What is said of a node that is held: which it is, at what, why, and what can be done."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.api.catalog import SourceDef
from headwater.dataflow.calling import Failed
from headwater.dataflow.graph import Graph
from headwater.errors import FeedAway, FlowFull, StageFailed


def failure(
    name: str, graph: Graph, failed: Failed, sources: Mapping[str, SourceDef]
) -> StageFailed | FlowFull:
    """What is said of an epoch that failed."""
    if isinstance(failed.why, FlowFull):  # the stage is as it should be, and has no room
        return failed.why
    if name not in graph.stages:
        source = sources[name]
        told = directory_failure if source.is_directory else feed_failure
        return told(source, failed)
    node = graph.nodes[name]
    read = []
    for i in graph.stages[name].inputs:
        c = graph.cursors[name, i]
        read.append(f"`{i}` from increment {c.first}" if c.at else f"nothing of `{i}`")
    where = [f"epoch {node.epochs}, reading {' and '.join(read)}"]
    if failed.key is not None:
        where.append(f"group {failed.key!r}")
    if failed.row is not None:
        where.append(f"first row {failed.row!r}")
    hint = getattr(failed.why, "hint", "")
    where.append(hint or "nothing of it was committed; the next run tries again")
    made = StageFailed(f"the stage `{name}` failed: {failed.told}", hint="\n".join(where))
    made.__cause__ = failed.why
    return made


def feed_failure(made: SourceDef, failed: Failed) -> StageFailed:
    """What is said of a feed from which nothing can be taken."""
    hint = getattr(failed.why, "hint", "")
    rest = "nothing of this batch was taken; the next run tries again"
    away = isinstance(failed.why, FeedAway)
    out = StageFailed(
        f"the feed of `{made.name}` is {'away' if away else 'held'}: {failed.told}",
        hint="\n".join([f"feed of kind {made.format}", *([hint] if hint else []), rest]),
    )
    out.__cause__ = failed.why
    return out


def directory_failure(made: SourceDef, failed: Failed) -> StageFailed:
    """What is said of a directory from which nothing can be taken."""
    hint = getattr(failed.why, "hint", "")
    rest = "nothing of it was taken, nor of files after it; the next run tries again"
    out = StageFailed(
        f"the directory of `{made.name}` is held: {failed.told}",
        hint="\n".join([f"directory {made.path}", *([hint] if hint else []), rest]),
    )
    out.__cause__ = failed.why
    return out
