"""One stream, told of the same rows whatever the order in which they come and the increments that they come in.

Rows of a story are shuffled and cut, some that go again before they are closed are among them, and what can be closed is
closed in between. All that was told is then one stream, and the differ finds nothing. Without the barrier it does.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest

import headwater as hw
from headwater.errors import StateError
from headwater.folds import ready
from headwater.folds.fold import events_of
from headwater.streams.differ import differ
from headwater.streams.schema import Event, headers_of, parse
from stream_pipelines import PIPELINES, Pipeline, sources
from stream_stories import TIMELINES, Timeline

LINE = TIMELINES["times"]
LAST = 300
"""Up to where rows are closed, unless all of them are; some are behind it."""


def drawn(pipeline: Pipeline, line: Timeline, seed: int, rows: int) -> dict[str, list[Any]]:
    """Rows of the sources of a pipeline."""
    pick = Random(seed)
    names = headers_of(parse(pipeline.schema))
    out: dict[str, list[Any]] = {}
    for name, header in sources(line.type).items():
        if name in names:
            out[name] = [_row(pick, header, line) for _ in range(rows)]
    return out


def _row(pick: Random, header: Any, line: Timeline) -> Any:
    number = pick.choice([pick.randrange(400), pick.randrange(14) * 30])
    cells = {"k": pick.randrange(3), "l": pick.randrange(2), "x": pick.randrange(6)}
    cells["ts"] = line.at(number)
    return header.row(*(cells[n] for n in header.columns))


def told(
    path: Path, pipeline: Pipeline, given: dict[str, list[Any]], pick: Random, over: bool
) -> tuple[Any, list[Event], Any]:
    """What a stream tells of rows that come in a random order and cut: the value, in the order of telling; and its schema."""
    db = hw.open(path)
    for name, header in sources(LINE.type).items():
        if name in given:
            ddl = ", ".join(f"{n} {t}" for n, t in header.fields)
            keyed = "k" in header.columns
            db.source(name, ddl, closes=["ts", ("k", "ts")] if keyed else "ts")
    marks = dict.fromkeys(pipeline.clocks, LINE.interval)
    db.stream("s", pipeline.schema, pipeline.steps, order="ts", marks=marks, **pipeline.options)
    waiting = {name: pick.sample(rows, len(rows)) for name, rows in given.items()}
    noise: list[tuple[str, Any]] = []
    while any(waiting.values()) or noise:
        changes = {}
        for name, rows in waiting.items():
            count = pick.randint(0, min(len(rows), 20))
            inserts, waiting[name] = rows[:count], rows[count:]
            deletes = [r for n, r in noise if n == name]
            more = [_row(pick, sources(LINE.type)[name], LINE)] if inserts else []
            more = [r for r in more if pick.random() < 0.5 and not _is_closed(db, name, r)]
            noise = [(n, r) for n, r in noise if n != name] + [(name, r) for r in more]
            changes[name] = hw.Delta(
                inserts=[tuple(r) for r in (*inserts, *more)], deletes=[tuple(r) for r in deletes]
            )
        points = {n: p for n in given if (p := _point(pick, n, waiting[n], noise)) is not None}
        db.apply(changes, punctuate=points)
    last = hw.closed() if over else hw.closed(ts=hw.below(LINE.at(LAST)))
    db.apply({}, punctuate=dict.fromkeys(given, last))
    db["s"].verify()
    fold = db.fold_of(db.stream_defs["s"])
    tables = {h: db["s"].output_table(h) for h in fold.outputs}
    found = (
        db["s"].value(),
        events_of(tables, fold.outputs),
        (fold.transformer.output, fold.outputs),
    )
    db.close()
    return found


def _is_closed(db: Any, name: str, row: Any) -> bool:
    cells = {**row._asdict(), "ts": row.ts.replace(tzinfo=None)}
    known = db.over.closed.get(name)
    return known is not None and known.matches(cells)


def _point(pick: Random, name: str, waiting: list[Any], noise: list[tuple[str, Any]]) -> Any:
    """What may be closed: nothing that comes, or goes, later."""
    rows = [*waiting, *(r for n, r in noise if n == name)]
    if pick.random() < 0.3:
        return None
    if rows and "k" in rows[0]._fields and pick.random() < 0.4:
        key = pick.randrange(3)
        mine = [LINE.number(r.ts) for r in rows if r.k == key]
        return hw.closed(k=key, ts=hw.below(LINE.at(min([*mine, LAST]))))
    low = min([*(LINE.number(r.ts) for r in rows), LAST])
    return hw.closed(ts=hw.below(LINE.at(pick.randint(0, low))))


def compare(name: str, seed: int, times: int, rows: int = 20) -> None:
    """What is told in many ways is one stream."""
    pipeline, pick = PIPELINES[name], Random(seed)
    given, over = drawn(pipeline, LINE, seed, rows), pick.random() < 0.5
    first: Any = None
    for n in range(times):
        with tempfile.TemporaryDirectory() as folder:
            value, events, (schema, headers) = told(
                Path(folder) / "db", pipeline, given, pick, over
            )
        first = first or (value, events)
        assert differ(schema, headers, first[1], events) is None, (name, seed, n)
        assert value == first[0], (name, seed, n)


@pytest.mark.parametrize("name", ["fold by key", "carry", "pattern", "frames side by side"])
def test_one_stream_in_many_ways(name: str) -> None:
    compare(name, 1, 4)


def test_one_stream_in_twenty_ways() -> None:
    compare("key and sequence side by side", 2, 20, 12)


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_every_stream_in_twenty_ways(name: str) -> None:
    compare(name, 3, 20, 40)


def test_without_the_barrier_streams_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that pass a mark which waits are in another frame than they should be."""
    monkeypatch.setattr(ready, "_hold_back", lambda *args: None)
    with pytest.raises((AssertionError, StateError)):
        for seed in range(10):
            compare("marks of a source", seed, 3)
