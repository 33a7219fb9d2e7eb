"""Databases tell what the reference tells of the ready rows: after every increment, for random stories, pipelines and cuts."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import headwater as hw
from headwater.folds.sql import Sql
from headwater.streams.pipeline import on
from headwater.streams.schema import Header, headers_of, parse
from stream_pipelines import PIPELINES, Pipeline, sources
from stream_stories import TIMELINES, Story, meant


class Played:
    """A story as a database has it, beside what is meant."""

    def __init__(self, path: Path, pipeline: Pipeline, seed: int, partitions: int | None = None):
        self.path, self.pipeline, self.pick = path, pipeline, Random(seed)
        self.partitions = partitions
        pick = self.pick
        times = ["times"] if pipeline.times_only else [*TIMELINES, "times"]
        if pipeline.clocks:
            times.remove("doubles")  # by which no clock goes
        self.line = TIMELINES[pick.choice(times)]
        names = headers_of(parse(pipeline.schema))
        self.sources = {n: h for n, h in sources(self.line.type).items() if n in names}
        append_only = [n for n in self.sources if pick.random() < 0.3]
        static = [n for n in self.sources if len(self.sources) > 1 and pick.random() < 0.1]
        self.story = Story(
            Random(seed),
            self.sources,
            self.line,
            keyed=pick.random() < 0.5,
            append_only=append_only,
            static=static if len(static) < len(self.sources) else [],
            grain=pick.choice([1, 30]),
        )
        self.defined: dict[str, Any] = {"order": "ts", **pipeline.options}
        self.defined["marks"] = dict.fromkeys(pipeline.clocks, self.line.interval)
        self.is_defined = False
        self.db = hw.open(path, partitions=partitions)
        for name, header in self.sources.items():
            self.declare(name, header)
        first = self.story.first_rows()
        if first:
            self.db.apply(first)
        headers = dict(self.sources)
        schema, steps = pipeline.means or (pipeline.schema, pipeline.steps)
        self.clocks = [c for c in headers_of(parse(schema)) if c not in self.sources]
        headers |= {c: Header.of(c, ts=self.line.type) for c in self.clocks}
        sql = Sql(self.db.session, self.db.ask, self.db.files)
        self.query = on(steps, parse(schema), headers, sql, "ts")

    def declare(self, name: str, header: Header) -> None:
        ddl = ", ".join(f"{n} {t}" for n, t in header.fields)
        keyed = self.story.keyed and "k" in header.columns
        options: dict[str, Any] = {"closes": ["ts", ("k", "ts"), "k"] if keyed else "ts"}
        if name in self.story.append_only:
            options["append_only"] = True
        if name in self.story.static:
            options = {"static": True}
        self.db.source(name, ddl, **options)

    def define(self) -> None:
        self.db.stream("s", self.pipeline.schema, self.pipeline.steps, **self.defined)
        self.is_defined = True

    def open_again(self) -> None:
        self.db.close()
        self.db = hw.open(self.path, partitions=self.partitions)
        if self.is_defined:
            self.define()

    def step(self) -> None:
        changes, points = self.story.step()
        self.db.apply(changes, punctuate=points)

    def end(self) -> None:
        self.db.apply({}, punctuate=self.story.end())

    def meant(self) -> Any:
        lasting = {*self.story.append_only}
        events, closed = self.story.events(), self.story.closed
        return meant(self.query, events, closed, self.clocks, self.line, lasting)


def play(path: Path, name: str, seed: int, steps: int = 8, partitions: int | None = None) -> None:
    played = Played(path / "db", PIPELINES[name], seed, partitions)
    pick = Random(seed)
    late = 0 if pick.random() < 0.7 else pick.randrange(1, 4)
    for number in range(steps):
        if number == late:
            played.define()
        played.step()
        if pick.random() < 0.2:
            played.open_again()
        if pick.random() < 0.1 and played.is_defined:
            played.db.drop("s")
            played.define()
        if played.is_defined:
            assert played.db["s"].value() == played.meant(), (name, seed, number)
    played.db["s"].verify()
    played.end()
    assert played.db["s"].value() == played.meant(), (name, seed)
    played.db["s"].verify()
    played.db.close()


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 12))]
)
def test_what_is_told_is_what_is_meant(tmp_path: Path, name: str, seed: int) -> None:
    play(tmp_path, name, seed)
