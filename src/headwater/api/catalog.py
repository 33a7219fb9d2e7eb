"""What a database was told: its sources and views, as plain data in the log.

Queries are kept as their text and as the term that was read from it, and the program that keeps them is stored beside them
(`plan/stored.py`). Databases that were written before programs were stored are compiled from the terms, in the order in
which the views were defined, and must come out with the maps that are on disk.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar, cast

from headwater.api.rounding import rounds_sums
from headwater.api.source_maps import key_map, part_map
from headwater.calculus.check import type_of
from headwater.calculus.deep import with_room
from headwater.calculus.notation.parse import parse, parse_type
from headwater.calculus.scalars import SPARK_TEXT
from headwater.calculus.terms import (
    Call,
    Rel,
    Term,
    relations,
    substitute,
    subterms,
)
from headwater.calculus.types import MapType, RecordType, bag, has_box
from headwater.errors import DamagedState, HeadwaterError, StateError
from headwater.io.events import CONFLICTS, ByKey
from headwater.io.files import FORMATS
from headwater.io.sequences import by_key, sequence_map
from headwater.language.closes import Scheme
from headwater.language.declared import Limit, declared
from headwater.language.functions import DEFINED
from headwater.language.queries import text_of
from headwater.language.schema import columns
from headwater.language.sql import tables_named
from headwater.language.sql.functions import RUNS_CODE
from headwater.language.sql.texts import check_called, check_expression, check_template, folded
from headwater.plan import stored
from headwater.plan.choose import Data
from headwater.plan.compiler import Compiler
from headwater.plan.nested.opening import as_lists
from headwater.plan.nested.sources import SourcePart, owned_by, rows_of, source_parts
from headwater.plan.program import Diffusion, Map, Program, keeps_answer
from headwater.plan.statements import RULES, Materializer
from headwater.state.log import Version, path_of
from headwater.state.store import Commit

SOURCE, VIEW, SEEN = "source:", "view:", "seen:"
SETTINGS, KEEP, DATABASE, SETTLED = "settings", "keep", "database", "settled"
"""How the facts of a version are called."""
T = TypeVar("T")


@dataclass(frozen=True)
class SourceDef:
    """A declared input."""

    name: str
    ddl: str
    key: tuple[str, ...] = ()
    static: bool = False
    retain: bool | str = True
    """Whether its rows are kept; `open` keeps those that are not closed."""
    strict: bool = True
    path: str | None = None
    format: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    held_in: tuple[str, ...] = ()
    """The names of the maps that hold its rows, as they were given when it was declared; none in the first databases."""
    written: str = ""
    """The stage that writes it, or `flow` for a flow that was declared; empty for a source, which `apply` changes."""
    append_only: bool = False
    closes: tuple[str, ...] = ()
    """The schemes by which it is closed, each as the text of its plain data."""
    late: str = ""
    """What becomes of late rows, if it was said."""
    sequence_by: str = ""
    """The column that orders events of a key; with its type where it is none of the source's and comes with changes alone."""
    on_conflict: str = ""
    """What an insert of a key that is there does, if it was said."""
    added: int = 0
    """The version that gave it the columns that it has, if it had others before."""
    bad: str = "stop"
    """What becomes of records of its feed that do not fit."""
    called: tuple[str, ...] = ()
    """What it was called before, each with the first version in which it was that no more: "7 orders", oldest first."""

    @property
    def is_directory(self) -> bool:
        """Whether its rows are files of a directory."""
        return self.path is not None and self.format in FORMATS

    @cached_property
    def schemes(self) -> tuple[Scheme, ...]:
        """The schemes by which it is closed."""
        return tuple(Scheme.read(json.loads(d)) for d in self.closes)

    @cached_property
    def by(self) -> ByKey:
        """How it takes rows by key."""
        key = self.parts[0].key if self.key else ()
        return by_key(self.row, key, self.sequence_by, self.on_conflict)

    @cached_property
    def sequences(self) -> Map | None:
        """The map of what is remembered of keys, where their events have a sequence."""
        return sequence_map(self.name, self.row, self.by) if self.sequence_by else None

    @property
    def lateness(self) -> str:
        """What becomes of late rows: refused unless a watermark makes some rows late by itself.

        Inner rows and their owner come in one change, of which no part goes in alone: of a nested source all are refused.
        """
        follows = any(s.in_order for s in self.schemes) and not self.nested
        return self.late or ("aside" if follows else "refuse")

    @cached_property
    def row(self) -> RecordType:
        return columns(self.ddl)

    @cached_property
    def limits(self) -> tuple[Limit, ...]:
        """The limits of its columns: NOT NULL and lengths."""
        return declared(self.ddl).limits

    @property
    def type(self) -> MapType:
        return bag(self.row)

    @cached_property
    def parts(self) -> list[SourcePart]:
        """The relations that it is kept in: its rows, and the arrays that have an owner."""
        return source_parts(self.name, self.row, self.key)

    @property
    def nested(self) -> bool:
        """Whether rows are kept apart from their arrays."""
        return len(self.parts) > 1

    @property
    def relations(self) -> dict[str, RecordType]:
        """The relations by name, with their rows; arrays that are kept whole stay bags to queries."""
        return {p.name: p.row for p in self.parts} if self.nested else {self.name: self.row}

    @cached_property
    def held(self) -> list[tuple[Map, Term]]:
        """The maps that hold its rows, with their terms: those of relations first, then those of the keys of inner rows."""
        found = [
            *(part_map(p, p.row if self.nested else self.row) for p in self.parts),
            *(key_map(p) for p in self._keyed),
        ]
        names = self.held_in or tuple(m.name for m, _ in found)
        return [
            (m if m.name == n else replace(m, name=n), t)
            for (m, t), n in zip(found, names, strict=True)
        ]

    @property
    def _keyed(self) -> list[SourcePart]:
        return [p for p in self.parts if p.key and p.owner is not None]

    @cached_property
    def maps(self) -> dict[str, Map]:
        """The map that holds the rows of each relation."""
        return {p.name: m for p, (m, _) in zip(self.parts, self.held, strict=False)}

    @property
    def all_maps(self) -> list[Map]:
        """The maps that hold its rows."""
        return [m for m, _ in self.held]

    @cached_property
    def keys(self) -> dict[str, Map]:
        """The maps that have the keys of inner rows, by relation; those of top rows are in their own map."""
        inner = self.held[len(self.parts) :]
        return {p.name: m for p, (m, _) in zip(self._keyed, inner, strict=True)}


@dataclass(frozen=True)
class ViewDef:
    """A declared view: the text that was given, the term that was read, and how it is kept."""

    name: str
    text: str
    language: str
    term: str
    ddl: str
    strategy: str
    place: int
    created: int
    functions: dict[str, str] = field(default_factory=dict)
    kept: str = "recursive"
    why: str = ""
    row: str = ""
    """The type of a row in the notation of the calculus, which tells a list from a bag."""
    key: tuple[str, ...] = ()
    """The columns that its rows are looked up by."""
    stored: bool = False
    """Whether the rows of an answer are kept, as only Spark could tell them when they are read."""
    rules: int = 0
    """By which rules it is planned (`plan.statements.RULES`)."""
    mode: str = "exact"
    """How its loops are kept: exactly, or near (`diffuse`)."""
    cut: float | None = None
    """How far rows that are told may be from what a loop gives, in diffuse mode."""
    near: float | None = None
    """How near fractions in the keys of groups are one."""
    rounds: int = 50
    """How often rows may move in one increment, in diffuse mode."""
    replaced: int = 0
    """The version that planned it anew, as its query was replaced, or one that it reads; 0 if none did."""
    called: tuple[str, ...] = ()
    """What it was called before, as `SourceDef.called` has it."""
    comment: str = ""
    """What is said of it, for who looks at it."""

    @property
    def type(self) -> MapType:
        return bag(_row_type(self.row) if self.row else columns(self.ddl))

    @property
    def diffusion(self) -> Diffusion | None:
        """How near its loops are kept, if they are not kept exactly."""
        if self.mode != "diffuse" or self.cut is None:
            return None
        return Diffusion(self.cut, self.near, self.rounds)


@dataclass
class Catalog:
    """The sources and views of a version."""

    sources: dict[str, SourceDef] = field(default_factory=dict)
    views: dict[str, ViewDef] = field(default_factory=dict)
    _terms: dict[str, Term] = field(default_factory=dict, compare=False, repr=False)
    _wholes: dict[str, Term] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def read(facts: dict[str, Any], version: int) -> Catalog:
        """The catalog in the facts of a version."""
        return well_defined(version, lambda: Catalog._read(facts))

    @staticmethod
    def _read(facts: dict[str, Any]) -> Catalog:
        out = Catalog()
        for key, value in facts.items():
            if key.startswith(SOURCE):
                kinds = "key", "held_in", "closes", "called"
                lists = {n: tuple(value[n]) for n in kinds if n in value}
                source = SourceDef(**{**value, **lists})
                out.sources[_checked(key, SOURCE, source)] = source
                _check_schemes(source)
            elif key.startswith(VIEW):
                view = ViewDef(**value)
                view = replace(view, key=tuple(view.key), called=tuple(view.called))
                out.views[_checked(key, VIEW, view)] = view
        out.views = dict(sorted(out.views.items(), key=lambda v: v[1].place))
        return out

    def named(self, name: str) -> str:
        """A name as it was declared: upper and lower case are the same, as in SQL; one that is not there stays."""
        if name in self.sources or name in self.views or not isinstance(name, str):
            return name
        low = name.lower()
        return next((n for n in (*self.sources, *self.views) if n.lower() == low), name)

    def named_at(self, name: str, version: int) -> str:
        """What a source or view, by the name that it has, was called at an earlier version; another name stays."""
        known = self.sources.get(self.named(name)) or self.views.get(self.named(name))
        for entry in known.called if known is not None else ():
            until, _, was = entry.partition(" ")
            if version < int(until):
                return was
        return name

    def owning(self, relation: str) -> SourceDef:
        """The source that has a relation: itself, or that of the rows an array is in."""
        own = self.sources.get(relation)
        return own or next(s for s in self.sources.values() if relation in s.relations)

    def schemas(self) -> dict[str, MapType]:
        """What queries may read."""
        return {
            **{n: s.type for n, s in self.sources.items()},
            **{n: v.type for n, v in self.views.items()},
        }

    def compiler(self, program: Program, diffusion: Diffusion | None = None) -> Compiler:
        """A compiler that adds views to a program, with their loops kept exactly, or near."""
        sources = self.sources.values()
        inputs: dict[Rel, Term] = {
            Rel(s.name, s.type): rows_of(s.parts) if s.nested else Rel(s.name, bag(as_lists(s.row)))
            for s in sources
            if has_box(s.row)
        }
        owned = {
            n: owner
            for s in sources
            if s.nested and s.retain
            for n, owner in owned_by(s.parts).items()
        }
        made = Compiler(program, inputs, owned, self.whole)
        made.diffusion = diffusion
        return made

    def with_source(self, program: Program, source: SourceDef) -> Program:
        """A program with the relations of one more source, and the maps that hold its rows."""
        made = program.copy()
        rows = source.relations
        made.relations.rows |= rows
        made.relations.levels |= dict.fromkeys(rows, 0)
        made.relations.static |= set(rows) if source.static else set()
        maps = Materializer(made)
        for m, term in source.held if source.retain else ():
            maps.hold(m, term)
        return made

    def of_sources(self) -> Program:
        """The program of the sources alone."""
        made = Program()
        for source in self.sources.values():
            made = self.with_source(made, source)
        return made

    @with_room
    def compiled(self) -> Program:
        """The program of all views, planned anew by the rules and strategies that they were defined with.

        Only databases that were written before programs were stored are read so.
        """
        program = self.of_sources()
        for view in self.views.values():
            made = self.compiler(program, view.diffusion)
            made.view(view.name, self.term(view.name), view.kept, view.key, view.stored, view.rules)
            made.maps.complete()
            program = made.program
        return program

    def check_terms(self) -> None:
        """Raises where a term that was stored calls what runs code, or has a text that may not reach Spark.

        Terms are read when they are needed; those that could be such are read at once.
        """
        for view in self.views.values():
            low = folded(view.term)
            if SPARK_TEXT in low or any(name in low for name in RUNS_CODE):
                self.term(view.name)

    @with_room
    def term(self, name: str) -> Term:
        """The term of a view over sources and other views, as it was read from its text."""
        if name not in self._terms:
            self._terms[name] = _term(self.views[name], self.schemas())
        return self._terms[name]

    @with_room
    def whole(self, name: str) -> Term:
        """The term of a view over sources alone."""
        if name not in self._wholes:
            term = self.term(name)
            read = [r for r in relations(term) if r.name in self.views]
            self._wholes[name] = substitute(term, {r: self.whole(r.name) for r in read})
        return self._wholes[name]

    @with_room
    def chosen_again(
        self, read: Callable[[str, dict[str, MapType]], Term], data: Data
    ) -> tuple[Catalog, Program]:
        """The catalog and program with the strategy of every view chosen anew, one view after another.

        Sums of doubles that were rounded are so no more: `read` reads the text of a view again.
        """
        out = Catalog(self.sources)
        program = self.of_sources()
        for view in self.views.values():
            term = self.term(view.name)
            if view.language == "sql" and rounds_sums(term):
                again = read(view.text, out.schemas())
                if type_of(again) == type_of(term):
                    term, view = again, replace(view, term=text_of(again))
            made = out.compiler(program, view.diffusion)
            if view.strategy == "auto":
                program, kept, why = made.choose(view.name, term, view.key, data)
                answers = keeps_answer(program.views[view.name])
                view = replace(view, kept=kept, why=why, stored=answers, rules=RULES)
            else:
                made.view(view.name, term, view.kept, view.key, view.stored)
                made.maps.complete()
                program, view = made.program, replace(view, rules=RULES)
            out.views[view.name] = view
        return out, program

    def views_under(self, view: ViewDef) -> list[ViewDef]:
        """A view and the views that its text names, and theirs, in the order in which they were defined."""
        found, todo = {view.name: view}, [view]
        known = {n.lower(): v for n, v in self.views.items()}
        while todo:
            at = todo.pop()
            named = tables_named(at.text) if at.language == "sql" else set()
            new = [known[n] for n in named if n in known and known[n].name not in found]
            found |= {v.name: v for v in new}
            todo += new
        return sorted(found.values(), key=lambda v: v.place)

    def readers(self, name: str) -> list[str]:
        """The views that read a source or view directly. The text is looked at too, as `verify` recomputes from it."""
        out = []
        low = name.lower()
        for view in self.views.values():
            if low not in view.term.lower() and low not in view.text.lower():
                continue  # a term says the names of what it reads
            reads = {r.name for r in relations(self.term(view.name))}
            named = tables_named(view.text) if view.language == "sql" else set()
            if name in reads or name.lower() in named:
                out.append(view.name)
        return out


_KINDS: dict[str, Any] = {
    "str": str,
    "int": int,
    "bool": bool,
    "bool | str": (bool, str),
    "str | None": (str, type(None)),
    "float | None": (float, type(None)),
    "tuple[str, ...]": tuple,
    "dict[str, str]": dict,
}


def _checked(key: str, prefix: str, made: SourceDef | ViewDef) -> str:
    """The name of a definition, checked: its values have the right types, and its fact is called after it."""
    for f in fields(made):
        value = getattr(made, f.name)
        inner = value if isinstance(value, (tuple, dict)) else ()
        if not isinstance(value, _KINDS[str(f.type)]) or not all(type(x) is str for x in inner):
            raise TypeError(f"`{f.name}` of `{key}` is {value!r}")
    if key != prefix + made.name:
        raise ValueError(f"`{key}` is called `{made.name}`")
    if not all(entry.partition(" ")[0].isdecimal() for entry in made.called):
        raise ValueError(f"`{key}` was called {made.called}")
    return made.name


def _check_schemes(source: SourceDef) -> None:
    """Raises where a source is closed by what it has not, or keeps what there is not."""
    names = {n for n, _ in source.row.fields}
    for s in source.schemes:
        if not {*s.columns, *([s.by] if s.by else [])} <= names:
            raise ValueError(f"`{source.name}` is closed by {s.columns}")
    if source.retain not in (True, False, "open"):
        raise ValueError(f"`{source.name}` keeps {source.retain!r}")
    if source.on_conflict not in ("", *CONFLICTS) or (source.sequence_by and not source.key):
        raise ValueError(f"`{source.name}` has {source.on_conflict!r}, {source.sequence_by!r}")
    _ = source.by  # its sequence is a column, or has a type


@lru_cache(maxsize=4096)
def _row_type(text: str) -> RecordType:
    """The type of a row, read from its notation. Remembered, for defining a view asks for those of all others."""
    t: Any = parse_type(text)
    return cast(RecordType, t)


def _term(view: ViewDef, known: dict[str, MapType]) -> Term:
    """The term of a view, checked: its texts for Spark are expressions that may be given to it."""
    term = parse(view.term, known)
    check_texts(term)
    return term


def facts_of(item: SourceDef | ViewDef) -> tuple[str, dict[str, Any]]:
    """The fact that stores a definition: its name and its value."""
    prefix = SOURCE if isinstance(item, SourceDef) else VIEW
    return prefix + item.name, asdict(item)


def functions_of(term: Term) -> dict[str, str]:
    """The Python functions that a query calls, each with a digest that changes when the function does."""
    names = {t.function for t in subterms(term) if isinstance(t, Call)}
    return {n: DEFINED[n].fingerprint for n in sorted(names) if n in DEFINED}


def check_functions(view: ViewDef) -> None:
    """Raises unless the functions that a view calls are registered, and are those it was defined with."""
    for name, mark in view.functions.items():
        if name not in DEFINED:
            raise StateError(
                f"the view `{view.name}` calls the function `{name}`, which is not registered",
                hint="define it again with @headwater.function before the database is used",
            )
        if DEFINED[name].fingerprint != mark:
            raise StateError(
                f"the function `{name}` is not the one that the view `{view.name}` was defined with",
                hint="define the function as it was, or drop the view and define it again",
            )


def read_facts(version: Version) -> tuple[Catalog, dict[str, str] | None]:
    """What a version says of itself: its definitions, and the settings that its answers depend on."""

    def settings() -> dict[str, str] | None:
        kept = version.facts.get(SETTINGS)
        return None if kept is None else {n: str(kept[n]) for n in ("time_zone", "ansi", "spark")}

    return Catalog.read(version.facts, version.number), well_defined(version.number, settings)


def program_of(version: Version, catalog: Catalog) -> Program:
    """The program of a version: the one that is stored, or that of its views where none is."""

    def read() -> Program:
        if not stored.is_stored(version.facts):
            return catalog.compiled()
        catalog.check_terms()
        functions = frozenset(name for v in catalog.views.values() for name in v.functions)
        program = stored.read(version.facts, lambda text: check_expression(text, functions))
        if program.views.keys() != catalog.views.keys():
            raise ValueError("it has other views than are defined")
        for source in catalog.sources.values():
            if source.retain and not program.maps.keys() >= set(source.held_in):
                raise ValueError(f"`{source.name}` is held in a map that is not there")
        return program

    return well_defined(version.number, read)


def set_program(commit: Commit, program: Program, before: Program) -> None:
    """Stores a program in a commit, unless the version before has the same one."""
    known = before if stored.is_stored(commit.base.facts) else None
    if known is program:  # as in every commit that only changes rows
        return
    for key, value in stored.facts_of(program, known, commit.base.facts).items():
        commit.set(key, value)
    gone = stored.names_of(before) - stored.names_of(program) if known is not None else ()
    for key in gone:
        commit.set(key, None)


def well_defined(version: int, read: Callable[[], T]) -> T:
    """The result of reading definitions; `DamagedState` where they are not as they were written."""
    try:
        return read()
    except HeadwaterError:
        raise
    except Exception as e:  # what somebody changed may be wrong in any way
        told = f"{type(e).__name__}: {e}".splitlines()[0][:200]
        raise DamagedState(path_of(version), f"its definitions cannot be read ({told})") from e


BROKEN = (LookupError, TypeError, ValueError, AttributeError, AssertionError, NotImplementedError)
"""What a program raises that stumbles over itself, those of Arrow among them."""


@contextlib.contextmanager
def as_stored(version: int, what: str = "program") -> Iterator[None]:
    """Around what runs the program of a version, or its stages: where they do not do, an error of ours names the version.

    Names are checked when a program is read (`plan/names.py`); that its scalars and types fit each other, nobody knows before
    they run.
    """
    try:
        yield
    except HeadwaterError:
        raise
    except BROKEN as e:
        told = f"{type(e).__name__}: {e}".splitlines()[0][:200]
        raise StateError(
            f"the {what} of version {version} does not run ({told})",
            hint=f"if {path_of(version)} or one before it was changed by somebody, put the log back from a copy, or"
            " plan the views anew with rebuild(); if not, this is an error in Headwater",
        ) from e


def check_texts(term: Term) -> None:
    """Raises unless the texts that Spark evaluates in a term are expressions as they may be defined."""
    for t in subterms(term):
        if isinstance(t, Call) and t.function.startswith(SPARK_TEXT):
            check_template(t.function.removeprefix(SPARK_TEXT), len(t.args))
        elif isinstance(t, Call):
            check_called(t.function)
