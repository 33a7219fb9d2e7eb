"""Stories of nested data: sources, views defined before and after data, changes of whole rows and of inner ones.

The model of the data is plain Python: a source is a list of dicts, an inner bag a list in it or None. A view is its own
function, run on these lists. `Stories` draws what happens, `Told` plays it on the model and says it as a script, and
`checked` is the law for the reader of comprehensions: the function, its term and what rules make of the term agree.
"""

from __future__ import annotations

import copy
import itertools
import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from comprehensions import Row
from headwater.calculus.check import type_of
from headwater.calculus.data import from_python
from headwater.calculus.interpret import interpret
from headwater.calculus.types import Boxed, KeyType, MapType, RecordType
from headwater.errors import NotShreddable
from headwater.language.comprehension import Query
from headwater.language.schema import schemas
from headwater.plan.nested.shred import Labeller, evaluate, nest, shred, shred_value
from headwater.rules.normalize import normalize
from random_comprehensions import Bag, Features, Queries, Rec, Scalar, SourceOf, Sources, T, ViewOf
from random_values import Pick

Data = dict[str, list[Any]]
PREAMBLE = """import datetime
import tempfile
from datetime import date
from decimal import Decimal

import headwater as hw
"""
_count = itertools.count()


class Missing(list[Any]):
    """A NULL array: nothing to loop over, and yet not an empty list."""


def seen(t: T, value: Any) -> Any:
    """Data as a query sees it: rows with attributes, and NULL arrays that can be looped over."""
    match t:
        case Rec(fields) if not t.is_tuple:
            return Row({n: seen(f, value[n]) for n, f in fields})
        case Rec(fields):
            return tuple(seen(f, v) for (_, f), v in zip(fields, value, strict=True))
        case Bag(of):
            return Missing() if value is None else [seen(of, v) for v in value]
        case _:
            return value


def plain(value: Any) -> Any:
    """Data as it is: NULL arrays are None, and sets are lists."""
    match value:
        case Missing():
            return None
        case dict():
            return {n: plain(v) for n, v in value.items()}
        case tuple():
            return tuple(map(plain, value))
        case list() | set():
            return [plain(v) for v in value]
        case _:
            return value


def of_key(t: KeyType) -> T:
    """A type of the calculus as one of data from outside."""
    match t:
        case RecordType(fields):
            return Rec(tuple((n, of_key(f)) for n, f in fields), dotted=True)
        case Boxed(MapType(key, _)):
            return Bag(of_key(key))
        case _:
            return Scalar(str(t))


def defined(view: ViewOf) -> Query:
    """The function of a view, made of its text."""
    name = f"<nested {next(_count)}>"
    linecache.cache[name] = (len(view.text), None, view.text.splitlines(keepends=True), name)
    outside: dict[str, Any] = {}
    exec(PREAMBLE, outside)
    exec(compile(view.text, name, "exec"), outside)
    made: Query = outside[view.name]
    return made


# --- changes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """Rows that go and rows that come, of a source or of its inner bags."""

    deletes: Sequence[Any] = ()
    inserts: Sequence[Any] = ()


@dataclass(frozen=True)
class Define:
    """A view to define, by its text or by a function that is there."""

    view: ViewOf
    query: Query | None = None


@dataclass(frozen=True)
class Apply:
    """Changes to apply at once, by source or by path (`N.lines`); with an error, as which they are refused."""

    changes: Mapping[str, Change]
    error: str = ""


@dataclass(frozen=True)
class Drop:
    """A view to drop, unless another reads it."""

    name: str


Step = Define | Apply | Drop


@dataclass(frozen=True)
class Story:
    """Sources, and what happens to them."""

    sources: Mapping[str, SourceOf]
    steps: Sequence[Step]

    @property
    def views(self) -> list[ViewOf]:
        return [s.view for s in self.steps if isinstance(s, Define)]


def same(t: T, a: Any, b: Any) -> bool:
    """Whether two values are equal, with bags as bags."""
    return bool(counted(t, a) == counted(t, b))


def counted(t: T, value: Any) -> Any:
    """A value that can be compared: bags by how often each row is in them."""
    if value is None:
        return None
    match t:
        case Rec(fields):
            return tuple(counted(f, value[n]) for n, f in fields)
        case Bag(of):
            rows = [counted(of, v) for v in value]
            return frozenset((r, rows.count(r)) for r in rows)
        case Scalar():
            return value


def removed(t: T, rows: list[Any], gone: Any) -> None:
    """Takes one row out of a list that equals the one given; `ValueError` if there is none."""
    for i, row in enumerate(rows):
        if same(t, row, gone):
            del rows[i]
            return
    raise ValueError(f"{gone} is not there")


def applied(sources: Mapping[str, SourceOf], data: Data, step: Apply) -> Data:
    """The data after a change: what goes goes first, inner rows before whole ones; owners come before inner rows."""
    data = copy.deepcopy(data)
    paths = sorted(step.changes, key=lambda p: p.count("."))
    for path in reversed(paths):
        name, *inner = path.split(".")
        for row in step.changes[path].deletes:
            bag, own = _inside(sources[name], data[name], inner, row)
            removed(sources[name].at(inner), bag, own)
    for path in paths:
        name, *inner = path.split(".")
        for row in step.changes[path].inserts:
            bag, own = _inside(sources[name], data[name], inner, row)
            key = sources[name].key_at(tuple(inner))
            if key and any(all(r[k] == own[k] for k in key) for r in bag):
                raise ValueError(f"{own} is there already")
            bag.append(copy.deepcopy(own))
    return data


def _inside(source: SourceOf, rows: list[Any], path: Sequence[str], row: Any) -> tuple[list, Any]:
    """The bag that a row is addressed to, and the row without the keys of its owners."""
    if not path:
        return rows, row
    rest = dict(row)
    for i, name in enumerate(path):
        key = source.key_at(tuple(path[:i]))
        wanted = [rest.pop(k) for k in key]
        (owner,) = (r for r in rows if [r[k] for k in key] == wanted)
        if owner[name] is None:
            raise ValueError(f"{name} is missing in {owner}")
        rows = owner[name]
    return rows, rest if isinstance(source.at(path), Rec) else rest["value"]


# --- drawing ----------------------------------------------------------------------------------------------------


class Stories:
    """Draws stories; the data is kept on the way, so that what is deleted is there."""

    def __init__(
        self, pick: Pick, features: Features, strategies: Sequence[str] = ("auto",), views: int = 2
    ):
        self.pick, self.features, self.strategies, self.most = pick, features, strategies, views
        self.draw = Sources(pick, features)
        self.sources = self.draw.sources()
        self.data: Data = {n: [] for n in self.sources}
        self.known: dict[str, T] = {n: s.row for n, s in self.sources.items()}
        self.sizes = dict.fromkeys(self.sources, 1)
        self.views: list[ViewOf] = []

    def story(self, increments: int) -> Story:
        steps: list[Step] = [self.define()]
        filled = self.apply(4)
        steps.insert(self.pick(2), filled)
        for _ in range(increments):
            if len(self.views) < self.most and self.pick(3) == 2:
                steps.append(self.define())
            elif self.views and self.pick(12) == 11:
                name = self.views[self.pick(len(self.views))].name
                steps.append(Drop(name))
                self.known.pop(name, None)  # if the drop is refused it is only read no more
            steps.append(self.apply())
            if self.features.deep and self.pick(3) == 2:
                steps += self.wrong()
        gone = {n: Change(deletes=copy.deepcopy(rows)) for n, rows in self.data.items() if rows}
        steps.append(self.done(Apply(gone)))
        if self.pick(2):
            steps.append(self.apply())
        return Story(self.sources, steps)

    def define(self) -> Define:
        name = f"v{len(self.views) + 1}"
        strategy = self.strategies[self.pick(len(self.strategies))]
        view = Queries(self.pick, self.known, self.sizes, self.features.atoms).view(name, strategy)
        self.views.append(view)
        if self.features.views and isinstance(view.row, Rec):
            self.known[name], self.sizes[name] = view.row, view.size
        return Define(view)

    def done(self, step: Apply) -> Apply:
        self.data = applied(self.sources, self.data, step)
        return step

    def apply(self, most: int | None = None) -> Apply:
        """A change of some sources, whole rows and inner ones; a row has only one of the two."""
        changes: dict[str, Change] = {}
        for name, source in self.sources.items():
            if most is None and self.pick(3) == 0:
                continue
            rows = list(self.data[name])
            if self.features.deep and source.nested and rows and self.pick(4):
                changes |= self.deep(name, source, rows)
            if not source.nested or most is not None or self.pick(2):
                changes[name] = self.change(source, (), rows, most or 2, self.data[name])
            if self.features.deep and source.nested and changes.get(name) and self.pick(3) == 2:
                self.beside(name, source, changes)
        kept = {p: c for p, c in changes.items() if c.deletes or c.inserts}
        return self.done(Apply(kept))

    def beside(self, name: str, source: SourceOf, changes: dict[str, Change]) -> None:
        """Inner rows for an owner that comes in the same change."""
        path = source.addressed()[0]
        for row in changes[name].inserts:
            if row[path[0]] is not None:
                new = self.draw.rows(source, path, row[path[0]], 2)
                scalar = not isinstance(source.at(path), Rec)
                given = [{"id": row["id"], **({"value": r} if scalar else r)} for r in new]
                at = ".".join((name, *path))
                known = changes.get(at, Change())
                changes[at] = replace(known, inserts=[*known.inserts, *given])

    def change(
        self,
        source: SourceOf,
        path: tuple[str, ...],
        rows: list[Any],
        most: int,
        there: list[Any] | None = None,
    ) -> Change:
        """Rows of a bag that go, and others that come; one may come back with another content."""
        left, deletes = list(rows), []
        for _ in range((0, 1, 2)[self.pick(3)]):
            if left:
                deletes.append(left.pop(self.pick(len(left))))
        stay = [r for r in there or rows if not any(r is d for d in deletes)]
        inserts = self.draw.rows(source, path, stay, most)
        if deletes and not source.key_at(path) and self.pick(6) == 5:
            inserts.append(copy.deepcopy(deletes[0]))  # it goes and comes: no change
        return Change(copy.deepcopy(deletes), inserts)

    def deep(self, name: str, source: SourceOf, rows: list[Any]) -> dict[str, Change]:
        """Changes of inner bags of some rows, which are taken away; of each only one bag, so that none depends on another."""
        out: dict[str, list[Any]] = {}
        paths = source.addressed()
        for _ in range(1 + self.pick(2)):
            if not rows:
                break
            row = rows.pop(self.pick(len(rows)))
            path = paths[self.pick(len(paths))]
            found = self._bag(source, row, path)
            if found is None:
                continue
            owners, bag = found
            change = self.change(source, path, bag, 2)
            scalar = not isinstance(source.at(path), Rec)

            def addressed(rows: Sequence[Any], o: Any = owners, s: bool = scalar) -> list[Any]:
                return [{**o, **({"value": r} if s else r)} for r in rows]

            deletes, inserts = out.setdefault(".".join((name, *path)), [[], []])
            deletes += addressed(change.deletes)
            inserts += addressed(change.inserts)
        return {p: Change(d, i) for p, (d, i) in out.items()}

    def wrong(self) -> list[Step]:
        """A change that must be refused as a whole, with something beside it that is right."""
        nested = [(n, s) for n, s in self.sources.items() if s.nested]
        if not nested:
            return []
        name, source = nested[self.pick(len(nested))]
        rows, path = self.data[name], source.addressed()[0]
        new = self.draw.datum(source.row, source, ())
        inner = self.draw.datum(source.at(path), source, path)
        deep = {"id": 99, **(inner if isinstance(source.at(path), Rec) else {"value": inner})}
        at = ".".join((name, *path))
        options: list[tuple[str, str, Change]] = [
            ("MissingOwner", at, Change(inserts=[deep])),
            ("DeletesMissingRows", at, Change(deletes=[deep])),
            ("DeletesMissingRows", name, Change(deletes=[{**new, "id": 99}])),
        ]
        if rows:
            row = rows[self.pick(len(rows))]
            options.append(("LabelConflict", name, Change(inserts=[{**new, "id": row["id"]}])))
            if row[path[0]] is None:
                options.append(("MissingOwner", at, Change(inserts=[{**deep, "id": row["id"]}])))
            else:
                less = {**copy.deepcopy(row), path[0]: None}
                options.append(("", name, Change(deletes=[less])))
        error, where, change = options[self.pick(len(options))]
        beside = {"R": self.change(self.sources["R"], (), self.data["R"], 2)}
        return [Apply({**beside, where: change}, error or "MissingOwner DeletesMissingRows")]

    def _bag(
        self, source: SourceOf, row: Any, path: tuple[str, ...]
    ) -> tuple[dict[str, Any], list[Any]] | None:
        """A bag inside of a row at a path, with the keys that lead to it; None if there is none."""
        owners: dict[str, Any] = {}
        rows: list[Any] | None = None
        for i, name in enumerate(path):
            if i:
                if not rows:
                    return None
                row = rows[self.pick(len(rows))]
            owners |= {k: row[k] for k in source.key_at(path[:i])}
            rows = row[name]
            if rows is None:
                return None
        return owners, rows


# --- telling ----------------------------------------------------------------------------------------------------


def script(story: Story) -> Iterator[str]:
    """A story as a program."""
    yield PREAMBLE
    for view in story.views:
        yield f"\n{view.text}"
    yield "\ndb = hw.open(tempfile.mkdtemp())"
    for name, source in story.sources.items():
        key = f", key={list(source.key)!r}" if source.key else ""
        yield f"db.source({name!r}, {source.ddl!r}{key})"
    for step in story.steps:
        yield told(step)


def told(step: Step) -> str:
    """A step as a statement."""
    match step:
        case Define(view):
            chosen = f", strategy={view.strategy!r}" if view.strategy != "auto" else ""
            return f"db.view({view.name!r}, {view.name}{chosen})"
        case Drop(name):
            return f"db.drop({name!r})"
        case Apply(changes):
            given = [
                f"    {p!r}: hw.Delta(\n        inserts={list(c.inserts)!r},\n        deletes={list(c.deletes)!r},\n    ),\n"
                for p, c in changes.items()
            ]
            text = f"db.apply({{\n{''.join(given)}}})" if given else "db.apply({})"
            return f"{text}  # {step.error}" if step.error else text


# --- the model --------------------------------------------------------------------------------------------------


class Model:
    """The data of a story and its views, as Python has them, and as the interpreter has them."""

    def __init__(self, story: Story):
        self.story = story
        self.data: Data = {n: [] for n in story.sources}
        self.types: dict[str, MapType] = schemas(
            "; ".join(f"{n}({s.ddl})" for n, s in story.sources.items())
        )
        self.views: dict[str, tuple[ViewOf, Query]] = {}

    def define(self, step: Define) -> Query:
        query, view = step.query or defined(step.view), step.view
        self.types[view.name] = type_of(query.read(self.types))
        self.views[view.name] = view, query
        return query

    def forget(self, name: str) -> None:
        del self.views[name], self.types[name]

    def apply(self, step: Apply) -> None:
        if not step.error:
            self.data = applied(self.story.sources, self.data, step)

    def inputs(self) -> dict[str, Any]:
        """The data of sources and of views, as plain Python."""
        out: dict[str, Any] = dict(self.data)
        for name, (view, query) in self.views.items():
            given = [seen(Bag(of_key(self.types[n].key)), out[n]) for n in view.inputs]
            out[name] = plain(query(*given))
        return out

    def answers(self) -> dict[str, Any]:
        """What each view is, as a value of the calculus: bags to any depth, and NULL is not an empty bag."""
        inputs = self.inputs()
        return {n: from_python(self.types[n], inputs[n]) for n in self.views}


def checked(model: Model) -> list[str]:
    """The term of every view means what its function does, and so do its normal and its shredded form.

    Answers the views that have no shredded form.
    """
    inputs = model.inputs()
    values = {n: from_python(model.types[n], v) for n, v in inputs.items()}
    refused = []
    for name, (view, query) in model.views.items():
        term = query.read(model.types)
        given = {n: values[n] for n in view.inputs}
        expected = values[name]
        found = interpret(term, given)
        assert found == expected, f"{name} by the interpreter: {found}\n# and not: {expected}"
        normal = normalize(term)
        found = interpret(normal, given)
        assert found == expected, f"{name} in normal form {normal}: {found}\n# and not: {expected}"
        try:
            parts = shred(normal)
        except NotShreddable as e:
            refused.append(f"{name}: {str(e).splitlines()[0]}")
            continue
        shredded, labels = {}, Labeller()
        for n in view.inputs:
            shredded |= shred_value(n, given[n], model.types[n], labels)
        flat, context = evaluate(parts, shredded)
        found = nest(flat, context, parts.type)
        assert found == expected, f"{name} shredded: {found}\n# and not: {expected}"
    return refused


def without(story: Story) -> Iterator[Story]:
    """The story without a step, or without a row of a change; smaller ones first."""
    steps = list(story.steps)
    for i, step in enumerate(steps):
        yield replace(story, steps=[*steps[:i], *steps[i + 1 :]])
        if not isinstance(step, Apply):
            continue
        for path, c in step.changes.items():
            rest = {p: x for p, x in step.changes.items() if p != path}
            yield replace(story, steps=[*steps[:i], Apply(rest), *steps[i + 1 :]])
            for j in range(len(c.deletes)):
                less = replace(c, deletes=[*c.deletes[:j], *c.deletes[j + 1 :]])
                changed = Apply({**step.changes, path: less})
                yield replace(story, steps=[*steps[:i], changed, *steps[i + 1 :]])
            for j in range(len(c.inserts)):
                less = replace(c, inserts=[*c.inserts[:j], *c.inserts[j + 1 :]])
                changed = Apply({**step.changes, path: less})
                yield replace(story, steps=[*steps[:i], changed, *steps[i + 1 :]])
