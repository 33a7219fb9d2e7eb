"""Columns that records have and their source has not: added with the first record that has them, NULL in the rows before."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw
from dying_files import Dying
from faulty_files import Stopped
from headwater.errors import HeadwaterError, QueryError, StageFailed
from headwater.feeds.kinds import KINDS, checked_options
from headwater.feeds.new_columns import NewColumns, check_record
from headwater.language.schema import columns

ADD = {"new_columns": "add"}


def rows(db: hw.Database, name: str) -> list[dict[str, Any]]:
    found = [r for r in db.table(name).to_pylist() for _ in range(r.pop("_w"))]
    return sorted(found, key=lambda r: r["id"])


def declared(db: hw.Database, inbox: Path, format: str, **more: Any) -> None:
    said = {"key": "id", "path": inbox, "format": format, "options": ADD, **more}
    db.source("s", "id BIGINT, v BIGINT", **said)


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_files_with_more_columns(tmp_path: Path, format: str) -> None:
    """Against a dict: files come with columns and without, the process is another one now and then, and views go on."""
    rng, inbox, there = random.Random(4), tmp_path / "inbox", dict[int, dict[str, Any]]()
    inbox.mkdir()
    types = {"w": "BIGINT", "x": "STRING", "y": "DOUBLE"}

    def value(name: str) -> Any:
        n = rng.randrange(5)
        return {"w": n, "x": f"t{n}", "y": n / 4}[name] if format != "csv" else f"{n}"

    known: list[str] = []
    for i in range(9):
        more = rng.sample(sorted(types), rng.randrange(3)) if i else []
        known += [n for n in sorted(more) if n not in known]
        made = []
        for _ in range(4):
            row: dict[str, Any] = {"id": len(there), "v": rng.randrange(9)}
            made.append(row | {n: value(n) for n in sorted(more)})
            there[len(there)] = made[-1]
        path = inbox / f"{i}.{format}"
        if format == "json":
            path.write_text("".join(json.dumps(r) + "\n" for r in made))
        elif format == "csv":
            path.write_text(
                "\n".join(",".join(map(str, r)) for r in ([*made[0]], *(r.values() for r in made)))
            )
        else:
            pq.write_table(pa.Table.from_pylist(made), path)
        if i % 2 == 0:
            continue  # two files at a time
        with hw.open(tmp_path / "db") as db:
            declared(db, inbox, format)
            db.view("t", "SELECT count(*) AS n, sum(v) AS v FROM s")
            db.run()
            got = rows(db, "s")
            wanted = [{n: r.get(n) for n in ("id", "v", *known)} for r in there.values()]
            assert [sorted(r.items()) for r in got] == [sorted(r.items()) for r in wanted]
            assert db.table("t").to_pylist()[0]["v"] == sum(r["v"] for r in there.values())
    assert len(known) == 3


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_column_and_its_rows_are_taken_once(tmp_path: Path, where: str) -> None:
    """A process that dies at any write: who goes on has every row once, with its new column."""
    for write in range(1, 16):
        path = tmp_path / f"{where}{write}"
        inbox = path / "inbox"
        inbox.mkdir(parents=True)
        (inbox / "a.json").write_text('{"id": 1, "v": 1}\n')
        with hw.open(path / "db") as db:
            declared(db, inbox, "json")
            db.run()
        (inbox / "b.json").write_text('{"id": 2, "v": 2, "x": "a"}\n')
        with pytest.MonkeyPatch.context() as patched, contextlib.suppress(Stopped, HeadwaterError):
            dying = Dying(write, where).over(patched)
            with hw.open(path / "db") as db:
                declared(db, inbox, "json")
                db.run()
        with hw.open(path / "db") as db:
            declared(db, inbox, "json")
            db.run()
            assert rows(db, "s") == [{"id": 1, "v": 1, "x": None}, {"id": 2, "v": 2, "x": "a"}]
        if not dying.dead:
            break
    assert write > 3 and not dying.dead


def test_columns_that_are_not_added(tmp_path: Path) -> None:
    """NULL has no type yet, a nested one stops the feed, and kinds that do not add refuse."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    with hw.open(tmp_path / "db") as db:
        declared(db, inbox, "json", bad="aside")
        (inbox / "a.json").write_text('{"id": 1, "v": 1, "x": null}\n{"id": 2, "v": "no"}\n')
        db.run()
        assert rows(db, "s") == [{"id": 1, "v": 1}] and db.table("s_rejected").num_rows == 1
        (inbox / "b.json").write_text('{"id": 3, "v": 1, "x": [1]}\n')
        with pytest.raises(StageFailed, match="the new column `x` of `s` is list"):
            db.run()
        assert rows(db, "s") == [{"id": 1, "v": 1}]
        for format, more in (("delta", {}), ("socket", {"host": "h", "port": "1"})):
            with pytest.raises(QueryError, match="new_columns"):
                checked_options("s", KINDS[format], format, {**ADD, **more})


def test_records_with_more_keys() -> None:
    """Objects of JSON, one by one, as Kafka gives them."""
    row = columns("id BIGINT, v BIGINT")
    check_record("s", row, {"ID": 1, "v": None, "x": None})
    for record, ddl in [
        ({"id": 1, "x": 1}, "`x` BIGINT"),
        ({"id": 1, "x": 1.5, "y": "2026-01-01"}, "`x` DOUBLE, `y` STRING"),
        ({"id": 1, "x": True}, "`x` BOOLEAN"),
    ]:
        with pytest.raises(NewColumns) as e:
            check_record("s", row, record)
        assert e.value.columns == ddl
