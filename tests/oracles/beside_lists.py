"""A database with nested data beside plain Python lists: every change goes to both, and every answer is compared.

A view is a comprehension, which runs on the lists as it stands, or SQL with a function that says what it means. After
each change its rows are those of the function; its parts, put together by their labels, are the same rows, with no bag
that nobody has; and what `changes` tells is the difference of the parts, so nothing that did not change is in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from headwater.calculus.types import Boxed, KeyType, MapType, RecordType
from headwater.engine.view_rows import repeated
from headwater.language.comprehension import Query

Means = Callable[..., Any]


class Thing(SimpleNamespace):
    """A row with its fields as attributes, as comprehensions read them; equal rows are one in a set."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(vars(self).items()))


def thing(value: Any) -> Any:
    """Dicts to any depth as things."""
    if isinstance(value, dict):
        return Thing(**{n: thing(v) for n, v in value.items()})
    return [thing(v) for v in value] if isinstance(value, list) else value


def plain(value: Any) -> Any:
    """What a function gives as dicts, lists and scalars; a tuple is a row of `_1`, `_2`."""
    if isinstance(value, Thing):
        return plain(vars(value))
    if isinstance(value, dict):
        return {n: plain(v) for n, v in value.items()}
    if isinstance(value, tuple):
        return {f"_{i + 1}": plain(v) for i, v in enumerate(value)}
    if hasattr(value, "__iter__") and not isinstance(value, (str, bytes)):
        return [plain(v) for v in value]
    return value


def canon(value: Any) -> Any:
    """A value that is equal for equal rows, with arrays as bags; NULL is not the empty bag."""
    if isinstance(value, dict):
        return tuple((n, canon(v)) for n, v in value.items())
    if isinstance(value, list):
        return ("bag", frozenset(Counter(map(canon, value)).items()))
    return value


def _as_row(value: Any) -> dict[str, Any]:
    """A row of a view; what is no record is its only column."""
    return value if isinstance(value, dict) else {"value": value}


# --- parts put together -----------------------------------------------------------------------------------------

Entry = tuple[str, str | None, Any]
"""A row of a part: its path, its label, and the row with labels in the places of its bags."""


def entries(parts: Mapping[str, pa.Table]) -> Counter[Entry]:
    """What `parts` gives, each row with how often it is there; a bag of scalars has its values as they are."""
    out: Counter[Entry] = Counter()
    for path, table in parts.items():
        for row in table.to_pylist():
            w, label = row.pop("_w"), row.pop("_label", None)
            out[path, label, canon(row)] += w
    assert all(w > 0 for w in out.values()), out
    return out


def told(changes: pa.Table) -> Counter[Entry]:
    """What `changes` gives in the same form; nothing is told twice, or with the weight 0."""
    out: Counter[Entry] = Counter()
    for row in changes.to_pylist():
        path, label, w = row["_path"], row["_label"], row["_w"]
        own = path or "row"
        others = {n for n in row if not n.startswith("_") and n != own and row[n] is not None}
        assert not others, f"a change of {own} has {others}"
        inner = row[own] if isinstance(row[own], dict) else {"value": row[own]}
        entry = (path, label, canon(inner))
        assert entry not in out, f"told twice: {entry}"
        assert w != 0, f"told with weight 0: {entry}"
        out[entry] = w
    return out


def difference(after: Counter[Entry], before: Counter[Entry]) -> Counter[Entry]:
    """after - before, without zeros."""
    out = {e: after[e] - before[e] for e in after.keys() | before.keys()}
    return Counter({e: w for e, w in out.items() if w})


def together(found: Counter[Entry], row: KeyType) -> list[Any]:
    """The rows of a view from the entries of its parts; every bag has an owner."""
    bags: dict[tuple[str, str | None], list[tuple[Any, int]]] = {}
    for (path, label, inner), w in found.items():
        bags.setdefault((path, label), []).append((inner, w))
    owned: set[tuple[str, str | None]] = {("", None)}

    def contents(t: KeyType, path: str, label: str | None) -> list[Any]:
        out = []
        for inner, w in bags.get((path, label), []):
            values = dict(inner)
            value = values if isinstance(t, RecordType) else values["value"]
            inside = f"{path}.value".lstrip(".") if isinstance(t, Boxed) else path
            out += [built(t, value, inside)] * w
        return out

    def built(t: KeyType, value: Any, path: str) -> Any:
        match t:
            case Boxed(MapType(element, _)):
                if not isinstance(value, str):  # NULL, or an array that is kept whole
                    return value
                owned.add((path, value))
                return contents(element, path, value)
            case RecordType(fields):
                if value is None:
                    return None
                inner = dict(value)
                at = f"{path}." if path else ""
                return {n: built(f, inner[n], at + n) for n, f in fields}
        return value

    rows = contents(row, "", None)
    lost = bags.keys() - owned
    assert not lost, f"bags that nobody has: {sorted(lost, key=repr)}"
    return rows


# --- the two side by side ---------------------------------------------------------------------------------------


class Beside:
    """A database and the lists that it should have."""

    def __init__(self, path: Path, **options: Any):
        self.path, self.options = path, options
        self.db = hw.open(path, **options)
        self.db.policy.execution = "driver"
        self.data: dict[str, list[Any]] = {}
        self.means: dict[str, tuple[Means, tuple[str, ...]]] = {}
        self.parts: dict[str, Counter[Entry]] = {}
        self.past: dict[int, dict[str, Any]] = {}

    def source(self, name: str, ddl: str, **options: Any) -> None:
        self.db.source(name, ddl, **options)
        self.data[name] = []

    def view(self, name: str, query: Any, means: Means | None = None, **options: Any) -> None:
        """A view, and what it means: the comprehension itself, or a function with the names of its inputs."""
        self.db.view(name, query, **options)
        meaning = means or query
        inputs = (
            meaning.inputs
            if isinstance(meaning, Query)
            else meaning.__code__.co_varnames[: meaning.__code__.co_argcount]
        )
        self.means[name] = meaning, tuple(inputs)
        self._tell(name, new=True)
        self.check()

    def answer(self, name: str) -> Any:
        """What a view should have, or the rows of a source."""
        if name in self.data:
            return thing(self.data[name])
        meaning, inputs = self.means[name]
        return thing(plain(meaning(*(self.answer(i) for i in inputs))))

    def rows(self, name: str, version: int | None = None) -> Any:
        """What a view has."""
        return canon(repeated(self.db.table(name, version)).to_pylist())

    # --- changing -------------------------------------------------------------------------------------------------

    def apply(self, changes: Mapping[str, Any]) -> Any:
        """Applies changes to both, and compares everything."""
        made = self.db.apply(changes)
        for name, given in changes.items():
            delta = given if isinstance(given, hw.Delta) else hw.Delta(given)
            for row in delta.deletes or ():
                self._change(name, row, -1)
            for row in delta.inserts or ():
                self._change(name, row, 1)
        for name in self.means:
            self._tell(name)
        self.check()
        return made

    def _change(self, name: str, row: dict[str, Any], sign: int) -> None:
        source = self.db.catalog.owning(name)
        (number,) = (i for i, p in enumerate(source.parts) if p.name.lower() == name.lower())
        chain = [number]
        while (above := source.parts[chain[-1]].owner) is not None:
            chain.append(above)
        chain.reverse()
        at: list[Any] = self.data[source.name]
        part = source.parts[number]
        for upper, lower in pairwise(chain):
            key = source.parts[upper].key
            given = dict(zip(key, (row[n] for n in source.parts[lower].label), strict=False))
            own = [k for k in key if k not in source.parts[upper].label]
            (owner,) = (r for r in at if all(r[k] == given[k] for k in own))
            at = owner[source.parts[lower].path.rpartition(".")[2]]
        inner: Any = {n: v for n, v in row.items() if n not in part.label}
        if not isinstance(part.element, RecordType):
            inner = inner["value"]
        if sign > 0:
            at.append(inner)
        else:
            places = [i for i, r in enumerate(at) if canon(r) == canon(inner)]
            assert places, f"{inner} is not in the lists"
            del at[places[0]]

    def refused(self, changes: Any, error: type[Exception], *said: str) -> Exception:
        """A change that is an error and changes nothing; its message has all that is `said`."""
        version, before = self.db.version, {n: self.rows(n) for n in [*self.data, *self.means]}
        with pytest.raises(error) as caught:
            self.db.apply(changes)
        assert type(caught.value) is error
        for words in said:
            assert words in str(caught.value), str(caught.value)
        assert self.db.version == version
        assert self.db.store.head() == version
        assert before == {n: self.rows(n) for n in before}
        self.check()
        return caught.value

    # --- comparing ------------------------------------------------------------------------------------------------

    def _tell(self, name: str, new: bool = False) -> None:
        """The changes of the last version are the difference of the parts."""
        view = self.db.program.views[name]
        changes = self.db.changes_table(name, self.db.version - 1)
        if not view.parts:
            return
        assert set(changes.column("_version").to_pylist()) <= {self.db.version}
        now = entries(self.db.parts(name))
        before = Counter() if new else self.parts[name]
        assert told(changes) == difference(now, before), name
        self.parts[name] = now
        row = self.db.catalog.views[name].type.key
        assert canon(together(now, row)) == self.rows(name), name

    def check(self) -> None:
        """All answers are right, now and at versions that were compared before."""
        found = {n: self.rows(n) for n in [*self.data, *self.means]}
        for name in found:
            wanted = canon([_as_row(r) for r in plain(self.answer(name))])
            assert found[name] == wanted, f"{name}:\n{found[name]}\nand not\n{wanted}"
        self.past[self.db.version] = {n: found[n] for n in self.means}

    def check_past(self, *names: str) -> None:
        """Versions that were compared before read as they did; all changes together make the parts as they are."""
        for version, found in self.past.items():
            for name in found.keys() & set(names or found):
                assert self.rows(name, version) == found[name], (name, version)
        for name in self.parts.keys() & set(names or self.parts):
            total: Counter[Entry] = Counter()
            created = self.db.catalog.views[name].created
            for version in range(created, self.db.version + 1):
                for entry, w in told(self.db.changes_table(name, version - 1, version)).items():
                    total[entry] += w
            assert Counter({e: w for e, w in total.items() if w}) == self.parts[name], name

    def reopened(self) -> None:
        """Closes the database and opens it again."""
        self.db.close()
        self.db = hw.open(self.path, **self.options)
        self.db.policy.execution = "driver"
        for name, before in self.parts.items():
            assert entries(self.db.parts(name)) == before, name
        self.check()

    def changes(self, name: str) -> set[tuple[str, str | None, Any, int]]:
        """What the last version changed of a view, with rows as they are told."""
        found = told(self.db.changes_table(name, self.db.version - 1))
        return {(path, label, row, w) for (path, label, row), w in found.items()}


def opened(folder: Path) -> Iterator[Beside]:
    """An empty database beside empty lists, for a fixture; in the end all versions read as they did."""
    made = Beside(folder / "db")
    yield made
    made.check_past()
    made.db.close()
