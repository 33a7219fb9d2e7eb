"""Runs that maps have taken over, in a directory that somebody sends: a record that names the runs of another map is checked."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from edits import bag
from headwater.errors import DamagedState, HeadwaterError
from test_tampering import numbers, record, reseal, runs_of, write

JOINED = "SELECT a.k, a.x, b.y FROM s a JOIN t b ON a.k = b.k WHERE a.x > {}"
SUMS = "SELECT y, count(*) AS n, sum(x) AS t FROM v GROUP BY y HAVING count(*) > {}"
VIEWS = ("v", "w", "u")
Answers = dict[tuple[str, int], Any]


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("edited") / "db"
    with hw.open(path) as db:
        db.source("s", "k BIGINT, x BIGINT")
        db.source("t", "k BIGINT, y BIGINT")
        db.apply({"s": [(i % 9, i) for i in range(60)], "t": [(i, i % 3) for i in range(9)]})
        db.view("v", JOINED.format(20))
        db.view("v2", JOINED.format(3))
        db.view("w", SUMS.format(2))
        db.view("u", "SELECT count(*) AS n, sum(t) AS t FROM w")
        for i in range(6):
            db.apply({"s": [(i, 100 + i)]})
        db.view("v", JOINED.format(17), replace=True)
        db.view("w", SUMS.format(3), replace=True)
        for i in range(8):
            db.apply({"t": [(i, i % 2)]})
    return path


def answers(path: Path, versions: list[int]) -> Answers:
    """What every view answers at some versions, or the error that says why it does not."""
    out: Answers = {}
    for name in VIEWS:
        for version in versions:
            try:
                with hw.open(path) as db:
                    out[name, version] = bag(db.table(name, version))
            except HeadwaterError as e:
                out[name, version] = e
    return out


def versions_of(path: Path) -> list[int]:
    """The last version before the edits, and three after them."""
    every = numbers(path)
    return [every[-11], every[-8], every[-2], every[-1]]


def test_maps_have_taken_over_runs_in_records_and_in_a_checkpoint(edited: Path) -> None:
    taken = {n: [r for _, r in runs_of(record(edited, n)) if "of" in r] for n in numbers(edited)}
    assert sum(bool(runs) for runs in taken.values()) >= 3
    assert any(taken[n] for n in numbers(edited) if "checkpoint" in record(edited, n))
    assert not any(isinstance(a, Exception) for a in answers(edited, versions_of(edited)).values())


def lists_of(found: Any) -> list[tuple[str, list[Any]]]:
    """The lists of runs that a record has, by map."""
    lists = [*found["change"]["added"].items()]
    lists += [(n, refs) for n, (_, refs) in found.get("checkpoint", {"maps": {}})["maps"].items()]
    return lists


def claimed(r: random.Random, path: Path) -> str:
    """A map that has a run of another one, too, and says so; or whose run is said to be of another."""
    every = [(m, x) for n in numbers(path) for m, x in runs_of(record(path, n))]
    checkpoint = max(n for n in numbers(path) if "checkpoint" in record(path, n))
    maps = record(path, checkpoint)["checkpoint"]["maps"]
    columns = {n: spec["columns"] for n, (spec, _) in maps.items()}
    lists = [(n, x) for n in numbers(path)[-9:] for x in lists_of(record(path, n)) if x[1]]
    number, (name, _) = r.choice([x for x in lists if x[1][0] in columns])
    found = record(path, number)
    refs = r.choice([x for n, x in lists_of(found) if n == name])
    kind = r.choice(["a run more", "a run more", "of another", "of itself"])
    match kind:
        case "a run more":
            alike = [x for x in every if columns.get(x[0]) == columns[name] and x[0] != name]
            other, one = r.choice(alike or every)
            refs.append({"of": other, **one})
        case "of another":
            r.choice(refs)["of"] = r.choice([*columns])
        case _:
            for ref in refs:
                ref.pop("of", None)
    write(path, number, found)
    where = "the checkpoint" if number == checkpoint else "record"
    return f"{kind} for {name} in {where} {number}, sealed: {reseal(path)}"


def assert_lawful(edited: Path, path: Path, seed: int) -> int:
    """How many errors there are; whatever is answered is right.

    A checkpoint says all by itself, and may name a run that another map had in the past: a check, which reads what is before it, finds that.
    """
    shutil.copytree(edited, path)
    said = claimed(random.Random(seed), path)
    versions = versions_of(edited)
    right, found = answers(edited, versions), answers(path, versions)
    errors = [a for a in found.values() if isinstance(a, HeadwaterError)]
    wrong = [k for k, a in found.items() if not isinstance(a, HeadwaterError) and a != right[k]]
    if wrong:
        problems = map(str, hw.open(path).check().problems)
        assert any("other things than the version before" in p for p in problems), said
        assert "a run more" in said and "checkpoint" in said, f"{wrong}: {said}"
    return len(errors)


def test_runs_that_are_claimed_give_what_is_right_or_an_error_of_ours(
    edited: Path, tmp_path: Path
) -> None:
    assert (
        sum(assert_lawful(edited, tmp_path / str(seed), seed) > 0 for seed in (*range(6), 31)) > 1
    )


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 400, 20))
def test_runs_that_are_claimed_in_more_ways(edited: Path, tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 20):
        assert_lawful(edited, tmp_path / str(seed), seed)


def test_a_run_is_taken_over_from_a_map_that_goes(edited: Path, tmp_path: Path) -> None:
    """The record of an edit whose old map stays, and one that takes a run over without an edit."""
    for at, change in ((-10, "dropped"), (-1, "added")):
        path = Path(shutil.copytree(edited, tmp_path / change))
        number = numbers(path)[at]
        found = record(path, number)
        if change == "dropped":
            found["change"]["dropped"] = []
        else:
            before = record(path, max(n for n in numbers(path) if "checkpoint" in record(path, n)))
            (name, _), *_ = found["change"]["added"].items()
            taken = [x for m, x in runs_of(before) if m != name][-1]
            found["change"]["added"][name].append({**taken, "of": "another"})
        write(path, number, found)
        with pytest.raises(DamagedState, match="that it has not taken over"):
            hw.open(path).table("v", number)
