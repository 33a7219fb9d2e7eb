"""Stories of nested data on a database, in this process and without Spark.

After every step every view is what its function gives on the lists that the story has made, and a copy of its parts that
only gets the changes nests to the same. Changes are told once and nothing in them cancels out; what no row of the view
owns any more is gone from the copy.
"""

from __future__ import annotations

import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

import headwater as hw
from headwater.calculus.data import from_python
from headwater.calculus.ring import collect
from headwater.calculus.types import Boxed, KeyType, MapType, RecordType
from headwater.engine.nested.rows import key_of
from headwater.engine.spark.session import Session
from headwater.errors import (
    BadChange,
    DeletesMissingRows,
    LabelConflict,
    MissingOwner,
    NotIncremental,
    NotShreddable,
)
from increment_changes import applied
from nested_stories import Apply, Change, Define, Drop, Model, Step, Story, script

Label = str | None
Entry = tuple[str, Label, Any]
"""A row of a part: its path, the label of its bag, and itself, frozen."""


def frozen(value: Any) -> Any:
    """A struct as a tuple of its fields, which can be counted."""
    if isinstance(value, dict):
        return tuple((n, frozen(v)) for n, v in value.items())
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def answer(t: MapType, table: pa.Table) -> Any:
    """Rows with weights as a value of the calculus."""
    rows = table.drop_columns([n for n in ("_w", "_version") if n in table.column_names])
    scalar = not isinstance(t.key, RecordType)
    keys = [from_python(t.key, r["value"] if scalar else r) for r in rows.to_pylist()]
    return collect(zip(keys, table.column("_w").to_pylist(), strict=True))


def entries(table: pa.Table) -> list[tuple[Entry, int]]:
    """The rows of changes."""
    out = []
    for row in table.to_pylist():
        path = row["_path"]
        others = [n for n in row if not n.startswith("_") and n != (path or "row")]
        assert all(row[n] is None for n in others), f"{row} is of more than one path"
        out.append(((path, row["_label"], frozen(row[path or "row"])), row["_w"]))
    return out


class Copy:
    """What someone else has of a nested view: its parts, kept up to date by its changes."""

    def __init__(self) -> None:
        self.rows: Counter[Entry] = Counter()

    def apply(self, table: pa.Table) -> None:
        change = entries(table)
        often = [e for e, n in Counter(e for e, _ in change).items() if n > 1]
        assert not often, f"changes tell twice: {often[0]}"
        for entry, w in change:
            assert w, f"changes have weight 0: {entry}"
            self.rows[entry] += w
            if not self.rows[entry]:
                del self.rows[entry]
        assert all(n > 0 for n in self.rows.values()), f"a copy has negative rows: {self.rows}"

    def nested(self, t: MapType) -> Any:
        """The view, put together from its parts; every bag has an owner."""
        parts: dict[tuple[str, Label], list[tuple[Any, int]]] = {}
        for (path, label, row), n in self.rows.items():
            parts.setdefault((path, label), []).append((row, n))
        owned: set[tuple[str, Label]] = {("", None)}

        def bag(element: KeyType, path: str, label: Label) -> Any:
            found = parts.get((path, label), [])
            if not isinstance(element, RecordType):
                path = f"{path}.value" if path else "value"
            return collect((key(element, row, path), n) for row, n in found)

        def key(t: KeyType, value: Any, path: str) -> Any:
            match t:
                case Boxed(MapType(element, _)):
                    if value is None:
                        return None
                    if not isinstance(value, str):  # an array that is kept whole
                        return collect((key(element, v, path), 1) for v in value)
                    owned.add((path, value))
                    return bag(element, path, value)
                case RecordType(fields):
                    if value is None:
                        return None
                    row = dict(value)
                    return tuple(key(f, row[n], f"{path}.{n}" if path else n) for n, f in fields)
                case _:
                    return from_python(t, value)

        whole = bag(t.key, "", None)
        lost = parts.keys() - owned
        assert not lost, f"a copy has rows that nobody owns: {sorted(lost, key=repr)[:3]}"
        return whole


class NeedsSpark(Exception):
    """What is asked for only Spark can compute."""


class InDriver(Session):
    """A session that starts no Spark."""

    @property
    def user(self) -> Any:  # type: ignore[override]
        raise NeedsSpark


def where(e: Exception) -> str:
    """The kind of an error: its class, and the function of the library that it arose in."""
    if isinstance(e, RecursionError):
        return type(e).__name__  # where it ends is chance
    frames = traceback.extract_tb(e.__traceback__)
    inside = [f for f in frames if "headwater" in Path(f.filename).parts]
    at = f" in {Path(inside[-1].filename).name} {inside[-1].name}" if inside else ""
    return type(e).__name__ + at


class Run:
    """A story on a database and on the model, side by side."""

    def __init__(self, story: Story, path: Path, several: str = "auto", spark: Any = None):
        self.story, self.path, self.several, self.spark = story, path, several, spark
        self.model = Model(story)
        self.refused: list[str] = []
        self.missing: set[str] = set()
        self.copies: dict[str, Copy] = {}
        self.past: dict[str, dict[int, Any]] = {}
        self.db = self.open()

    def open(self) -> hw.Database:
        db = hw.open(self.path, spark=self.spark)
        db.policy.execution, db.policy.several = (
            "driver" if self.spark is None else "spark",
            self.several,
        )
        if self.spark is None:
            db.session.__class__ = InDriver
        return db

    def play(self) -> None:
        """Every step, and after it every view is compared."""
        for name, source in self.story.sources.items():
            self.db.source(name, source.ddl, key=list(source.key) or None)
        done: list[Step] = []
        try:
            for step in self.story.steps:
                done.append(step)
                self.step(step)
                self.compare(step)
            self.compare_past()
            self.db.close()
            self.db = self.open()
            self.compare_answers("reopened")
            if self.several == "auto":
                self.db.rebuild()
                self.compare_answers("rebuilt")
        except NeedsSpark as e:
            self.refused.append(f"NeedsSpark in {traceback.extract_tb(e.__traceback__)[-3].name}")
        except Exception as e:
            text = "\n".join(script(Story(self.story.sources, done)))
            raise AssertionError(f"{text}\n# {where(e)}: {e}") from e
        finally:
            self.db.close()

    def step(self, step: Step) -> None:
        match step:
            case Define(view):
                if any(n in self.missing for n in view.inputs):
                    self.missing.add(view.name)
                    return
                query = self.model.define(step)
                before = self.db.version
                try:
                    self.db.view(view.name, query, strategy=view.strategy)
                except (NotIncremental, NotShreddable) as e:
                    assert self.db.version == before and view.name not in self.db.views
                    self.refused.append(f"{type(e).__name__}: {str(e).splitlines()[0]}")
                    self.missing.add(view.name)
                    self.model.forget(view.name)
            case Drop(name):
                if name in self.db.views and not self.db.catalog.readers(name):
                    self.db.drop(name)
                    self.model.forget(name)
                    self.past.pop(name, None)
                    self.missing.add(name)
            case Apply(changes):
                before = self.db.version
                given = {p: _delta(c) for p, c in changes.items()}
                if step.error:
                    self.refuse(given, step.error)
                    return
                self.model.apply(step)  # first, so that a step that makes no sense is not played
                commit = applied(self.db, given) if before % 2 else self.db.apply(given)
                assert commit.version == self.db.version == before + 1

    def refuse(self, given: dict[str, hw.Delta], errors: str) -> None:
        """A change that is wrong changes nothing."""
        before = self.db.version
        try:
            self.db.apply(given)
        except (BadChange, DeletesMissingRows, LabelConflict, MissingOwner) as e:
            assert type(e).__name__ in errors, f"another error: {type(e).__name__}: {e}"
        else:
            raise AssertionError(f"no error: {errors}")
        assert self.db.version == before, "a version of what was refused"

    # --- comparing -----------------------------------------------------------------------------------------------

    def compare(self, step: Step) -> None:
        version = self.db.version
        answers = self.compare_answers(f"version {version}")
        for name, expected in answers.items():
            t = self.model.types[name]
            new = isinstance(step, Define) and step.view.name == name
            if new:
                self.copies[name] = Copy()
            if version in self.past.get(name, ()):  # nothing was done
                continue
            change = self.db.changes_table(name, version - 1, version)
            if "_path" in change.column_names:
                self.copies[name].apply(change)
                found = self.copies[name].nested(t)
                assert found == expected, (
                    f"a copy differs: {name} at version {version}: {found}\n# and not: {expected}"
                )
                self.compare_parts(name)
            elif not new:
                before = self.past[name][version - 1]
                found = collect([*before.items(), *answer(t, change).items()])
                assert found == expected, (
                    f"changes differ: {name} at version {version}: {found}\n# and not: {expected}"
                )
            if isinstance(step, Apply) and not self.read(name) & {
                p.split(".")[0] for p in step.changes
            }:
                assert not change.num_rows, f"changes where nothing changed: {name}: {change}"
            self.past.setdefault(name, {})[version] = expected
            self.compare_lookups(name, expected)
        self.compare_sources()

    def compare_parts(self, name: str) -> None:
        """The parts as they are read are what the changes have made of the copy."""
        found: Counter[Entry] = Counter()
        for path, table in self.db.parts(name).items():
            for row in table.to_pylist():
                label, w = row.pop("_label", None), row.pop("_w")
                scalar = (
                    list(row) == ["value"] and (path, label, row["value"]) in self.copies[name].rows
                )
                found[path, label, frozen(row["value"] if scalar else row)] += w
        assert found == self.copies[name].rows, f"parts differ: {name}: {found}"

    def compare_sources(self) -> None:
        """Nested sources are read as they were given, whole and by key."""
        for name, source in self.story.sources.items():
            rows, t = self.model.data[name], self.model.types[name]
            expected = from_python(t, rows)
            found = answer(t, self.db.table(name))
            assert found == expected, f"a source differs: {name}: {found}\n# and not: {expected}"
            for row in rows[:1] if source.nested else ():
                one = self.db.lookup(name, [row[k] for k in source.key_at(())])
                assert from_python(t.key, one) == from_python(t.key, row), (
                    f"a look-up differs: {one}"
                )

    def compare_lookups(self, name: str, expected: Any) -> None:
        """A row of a nested view by its key, where that is the key of one row."""
        program = self.db._at(None)[1].program
        view, t = program.views[name], self.model.types[name]
        if not view.parts or not isinstance(t.key, RecordType):
            return
        names = [n for n, _ in t.key.fields]
        places = [names.index(n) for n, _ in key_of(view) if n in names]
        if not places:
            return
        keys: Counter[Any] = Counter()
        for row, n in expected.items():
            keys[tuple(row[i] for i in places)] += n
        for row in expected:
            key = tuple(row[i] for i in places)
            if keys[key] == 1:
                found = self.db.lookup(name, key)
                assert from_python(t.key, found) == row, (
                    f"a look-up differs: {name} at {key}: {found}"
                )
                return

    def compare_answers(self, when: str) -> dict[str, Any]:
        answers: dict[str, Any] = self.model.answers()
        for name, expected in answers.items():
            table = self.db.table(name)
            found = answer(self.model.types[name], table)
            assert found == expected, (
                f"an answer differs: {name}, {when}: {found}\n# and not: {expected}"
            )
            assert all(w > 0 for w in table.column("_w").to_pylist())
        return answers

    def compare_past(self) -> None:
        """Older versions are as they were, and changes add up from the first to the last."""
        for name, past in self.past.items():
            t, first = self.model.types[name], min(past)
            for version in {first, list(past)[len(past) // 2]}:
                found = answer(t, self.db.table(name, version))
                assert found == past[version], (
                    f"an older version differs: {name} at {version}: {found}\n# and not: {past[version]}"
                )
            change = self.db.changes_table(name, first)
            if "_path" not in change.column_names:
                continue
            whole: Counter[Entry] = Counter()
            for entry, w in entries(self.db.changes_table(name, first - 1)):
                whole[entry] += w
            total = Counter({e: n for e, n in whole.items() if n})
            assert total == self.copies[name].rows, (
                f"all changes of {name} since {first - 1}: {total}"
            )

    def read(self, name: str) -> set[str]:
        """The sources under a view."""
        if name in self.story.sources:
            return {name}
        view = self.model.views[name][0]
        return {s for n in view.inputs for s in self.read(n)}


def _delta(change: Change) -> hw.Delta:
    return hw.Delta(inserts=list(change.inserts), deletes=list(change.deletes))
