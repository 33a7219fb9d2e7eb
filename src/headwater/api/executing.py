"""Executing: statements of a script, carried out one after another; each that changes something is one commit.

A script is read as a whole first: where one of its statements cannot be read, nothing is done. Then each is carried out. Where one is
refused, those before it stay, and the error says so, with the file and the line. Run again a script changes nothing:
what is declared as it was is no change, and what a file does to rows (INSERT, UPDATE, DELETE) is done once, under an id
that is made of the file's name and the statement's text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_never

import pyarrow as pa

from headwater.api.catalog import SourceDef
from headwater.api.handles import Source, ViewHandle
from headwater.api.ids import Id
from headwater.api.renaming import Renaming
from headwater.api.sinking import SinkHandle
from headwater.calculus.types import RecordType
from headwater.errors import HeadwaterError, ParseError, QueryError, Span, UnknownName
from headwater.language.declared import ddl_of, declared
from headwater.script.grammar import FORMS, statements
from headwater.script.renaming import renamed_in
from headwater.script.statements import (
    AddColumns,
    Ask,
    CreateSink,
    CreateSource,
    CreateView,
    Delete,
    Drop,
    Explain,
    Insert,
    Rename,
    Show,
    Statement,
    Update,
)
from headwater.script.words import Script


@dataclass(frozen=True)
class Result:
    """What a statement gave: a handle, a commit, rows as an Arrow table, a text, or nothing."""

    statement: Statement
    value: Any
    before: int
    """The version before it."""
    after: int
    """The version after it; the same one where it changed nothing."""


class Executing(Renaming):
    """The part of a database that carries out statements."""

    def execute(self, script: str | Path) -> Any:
        """Carries out a statement, or a script of several with `;` between them, and gives what the last one gives.

        A declaration gives its handle, INSERT, UPDATE and DELETE give a Commit, a query and SHOW a DataFrame, EXPLAIN its text,
        and the others None. Each statement is one commit. A Path names a file of statements: relative locations in it are beside
        it, and what it does to rows is done once, however often it is executed.
        """
        value = None
        for result in self.executed(read_script(script)):
            value = result.value
        return self._frame(value) if isinstance(value, pa.Table) else value

    def executed(self, script: Script) -> Iterator[Result]:
        """Carries out the statements of a script one by one, and gives each with its result; rows are Arrow tables."""
        times: dict[str, int] = {}
        read = read_all(script)
        for done, statement in enumerate(read):
            text = statement.piece.text
            statement = self._as_called(statement, read[done + 1 :])
            times[text] = times.get(text, 0) + 1
            before = self.version
            try:
                value = self.carry_out(statement, script, times[text])
            except HeadwaterError as e:
                raise told(e, statement, done, len(read)) from e.__cause__
            yield Result(statement, value, before, self.version)

    def carry_out(self, statement: Statement, script: Script, time: int = 1) -> Any:
        """Carries out a statement of a script, in which its text stands for the first time, or the second, or so on."""
        id = script_id(script, statement.piece.text, time)
        beside = Path(script.file).absolute().parent if script.file else None
        match statement.what:
            case CreateSource() as made:
                return self._create_source(made, beside)
            case CreateView() as made:
                known = self.catalog.named(made.name)
                if known in self.catalog.views and made.if_absent:
                    return ViewHandle(self, known)
                if known in self.catalog.views and made.replace:
                    self.replace_views({known: made.query})  # which leaves how it is kept as it is
                    view = ViewHandle(self, known)
                else:
                    view = self.view(made.name, made.query)
                if made.comment is not None:
                    self.comment(view.name, made.comment)
                return view
            case CreateSink() as made:
                return self._create_sink(made, beside)
            case Insert() as change:
                return self._insert(change, id)
            case Update() as change:
                return self._update(change, id)
            case Delete() as change:
                return self._delete(change, id)
            case Drop() as gone:
                return self._drop_named(gone)
            case AddColumns() as more:
                return self._add_columns(more)
            case Rename() as other:
                return self._rename(other)
            case Explain(name=name, query=query):
                return str(self.can(query) if name is None else self.explain(name))
            case Show(what=what):
                return self._shown(what)
            case Ask(query=query):
                return self.answer(query)
            case _ as never:
                assert_never(never)

    def _as_called(self, statement: Statement, behind: Sequence[Statement]) -> Statement:
        """A statement of a script that was run before, with the names that statements behind it have given since."""
        later = [s.what for s in behind if isinstance(s.what, Rename)]
        names = {r.name.lower(): r.to for r in later if self._has_become(r.name, r.to)}
        return Statement(renamed_in(statement.what, names), statement.piece) if names else statement

    # --- declarations --------------------------------------------------------------------------------------------------

    def _create_source(self, made: CreateSource, beside: Path | None) -> Any:
        known = self.catalog.sources.get(self.catalog.named(made.name))
        if made.if_absent and known is not None and not _is_as(known, made.columns):
            return Source(self, known.name)
        given: dict[str, Any] = dict(made.more)
        if made.kind is not None:
            given["format"] = made.kind
        if made.location is not None:
            given["path"] = located(made.location, beside)
        if made.options:
            given["options"] = dict(made.options)
        columns = made.columns
        if known is not None and _begins_as(known, columns):
            columns = known.ddl  # what was added since stays
            given.setdefault("key", list(known.key) or None)
        return self.source(made.name, columns, **given)

    def _create_sink(self, made: CreateSink, beside: Path | None) -> Any:
        known = self.sink_defs.get(made.name)
        if (
            made.if_absent
            and known is not None
            and (known.of, known.format) != (made.of, made.kind)
        ):
            return SinkHandle(self, made.name)
        path = None if made.location is None else str(located(made.location, beside))
        options = dict(made.options) or None
        return self.sink(made.name, made.of, format=made.kind, path=path, options=options)

    def _drop_named(self, gone: Drop) -> None:
        if self._is_a(gone.what, gone.name, "DROP", "", gone.if_there):
            self.drop(self.catalog.named(gone.name), cascade=gone.cascade)

    def _is_a(self, what: str, name: str, verb: str, rest: str, if_there: bool = False) -> bool:
        """Whether there is a source, view or sink of a name; an error where there is none, or it is something else."""
        known, catalog = self.catalog.named(name), self.catalog
        sources = [n for n, s in catalog.sources.items() if not s.written]
        kinds: dict[str, list[str]] = {"source": sources, "view": [*catalog.views]}
        kinds["sink"] = self.sinks
        if known in kinds[what]:
            return True
        other = next((k for k, names in kinds.items() if known in names), None)
        if if_there and other is None:
            return False
        there = ", ".join(kinds[what]) or "none"
        raise UnknownName(
            f"there is no {what} `{name}`",
            hint=f"`{name}` is a {other}: {verb} {other.upper()} {name} {rest}".rstrip()
            if other
            else f"{what}s: {there}",
        )

    def _add_columns(self, more: AddColumns) -> Source:
        """A source with columns more, NULL in the rows that are there; those that it has already are no change."""
        known = self._modified(more.source)
        had = {n.lower(): t for n, t in known.row.fields}
        added = declared(more.columns)
        new = [(n, t) for n, t in added.row.fields if had.get(n.lower()) != t]
        if not new:
            return Source(self, known.name)
        names = {n for n, _ in new}
        limits = [m for m in added.limits if m.path[0] in names]
        return self._with_columns(known, ddl_of(RecordType(tuple(new)), limits))

    def _rename(self, other: Rename) -> None:
        """Another name; what has it already, and had the other, is no change."""
        if not self._has_become(other.name, other.to):
            self._is_a(other.what, other.name, "ALTER", f"RENAME TO {other.to}")
            self.rename(other.name, other.to)

    def _has_become(self, old: str, new: str) -> bool:
        """Whether something was renamed so, and nothing has the old name."""
        catalog = self.catalog
        made = catalog.sources.get(catalog.named(new)) or catalog.views.get(catalog.named(new))
        was = [] if made is None else [c.partition(" ")[2].lower() for c in made.called]
        gone = catalog.named(old) not in (*catalog.sources, *catalog.views, *self.sink_defs)
        return gone and old.lower() in was

    def _shown(self, what: str) -> pa.Table:
        """The sources, views or sinks as rows."""
        if what == "views":
            views = self.catalog.views.values()
            return pa.table(
                {
                    "view": pa.array([v.name for v in views], pa.string()),
                    "columns": pa.array([v.ddl.replace("`", "") for v in views], pa.string()),
                    "query": pa.array([v.text for v in views], pa.string()),
                    "comment": pa.array([v.comment for v in views], pa.string()),
                }
            )
        if what == "sinks":
            sinks = self.sink_defs.values()
            return pa.table(
                {
                    "sink": pa.array([s.name for s in sinks], pa.string()),
                    "of": pa.array([s.of for s in sinks], pa.string()),
                    "kind": pa.array([s.format for s in sinks], pa.string()),
                    "location": pa.array([s.path for s in sinks], pa.string()),
                }
            )
        sources = [s for s in self.catalog.sources.values() if not s.written]
        return pa.table(
            {
                "source": pa.array([s.name for s in sources], pa.string()),
                "columns": pa.array([s.ddl.replace("`", "") for s in sources], pa.string()),
                "key": pa.array([", ".join(s.key) for s in sources], pa.string()),
                "kind": pa.array([s.format for s in sources], pa.string()),
                "location": pa.array([s.path for s in sources], pa.string()),
            }
        )


def read_script(given: Any) -> Script:
    """A script from its text, or from the file that a path names."""
    if isinstance(given, Path):
        try:
            return Script(given.read_text(encoding="utf-8"), str(given))
        except UnicodeDecodeError as e:
            raise ParseError(
                f"{given} is no text in UTF-8: {e.reason} at byte {e.start}",
                hint="save it as UTF-8",
            ) from e
        except OSError as e:
            raise QueryError(
                f"{given} cannot be read: {e.strerror or e}", hint="name a file of statements"
            ) from e
    if not isinstance(given, str):
        raise ParseError(
            f"`{type(given).__name__}` is no statement of Headwater",
            hint=f"give text, or the Path of a file: {FORMS}",
        )
    return Script(given)


def read_all(script: Script) -> list[Statement]:
    """The statements of a script; an error names the file."""
    try:
        read = statements(script)
    except HeadwaterError as e:
        if script.file:
            e.what = f"{script.file}: {e.what}"
            e.hint = "\n".join(filter(None, (e.hint, "nothing of the script was carried out")))
        raise
    if not read and not script.file:
        raise ParseError("`` is no statement of Headwater", hint=FORMS)
    return read


def told(
    e: HeadwaterError, statement: Statement, done: int, of: int, tried: bool = False
) -> HeadwaterError:
    """An error of a statement with its place in the script, and with what became of the others, unless all were only `tried`."""
    script, piece = statement.piece.script, statement.piece
    placed = _place_in(e, statement)
    e.span, e.text = placed, script.text if placed is not None else ""
    if placed is not None:
        e.what = f"{script.file}: {e.what}" if script.file else e.what
    elif of > 1 or script.file:
        line = f"line {piece.line}"
        e.what = f"{script.file}, {line}: {e.what}" if script.file else f"{line}: {e.what}"
    e.hint = "\n".join(filter(None, (e.hint, "" if tried else _kept(done, of - done - 1))))
    return e


def _place_in(e: HeadwaterError, statement: Statement) -> Span | None:
    """The place of an error in the script: that of the query in it, or of what is underlined where the query was made from the statement."""
    script, piece = statement.piece.script, statement.piece
    if e.span is None or not e.text:
        return None
    at = script.text.find(e.text, piece.start)
    if at >= 0:
        first = script.span(at, at)
        column = e.span.column + (first.column - 1 if e.span.line == 1 else 0)
        return Span(first.line + e.span.line - 1, column, e.span.length)
    line = e.text.splitlines()[e.span.line - 1]
    marked = line[e.span.column - 1 : e.span.column - 1 + e.span.length]
    at = script.text.find(marked, piece.start, piece.words[-1].end)
    return script.span(at, at + len(marked)) if marked and at >= 0 else None


def _kept(done: int, left: int) -> str:
    """What became of the other statements of a script, of which one was refused."""
    if not done:
        return "nothing of the script was carried out" if left else ""
    are = "are" if done > 1 else "is"
    told = f"the {done} statement{'s' * (done > 1)} before it {are} carried out"
    return told + (f", the {left} behind it {'are' if left > 1 else 'is'} not" if left else "")


def located(location: str, beside: Path | None) -> Path:
    """Where a location of a script is: one that is relative is beside the script's file."""
    return Path(location) if beside is None else beside / location


def script_id(script: Script, text: str, time: int) -> Id | None:
    """The id under which a statement of a file is applied: one number of an application that is this statement."""
    if not script.file:
        return None
    digest = hashlib.sha256(f"{time}\n{text}".encode()).hexdigest()[:32]
    return f"script {Path(script.file).name} {digest}", 0


def _begins_as(known: SourceDef, columns: str) -> bool:
    """Whether a source has the columns that are declared, and more behind them."""
    row = declared(columns).row.fields
    return len(known.row.fields) > len(row) and known.row.fields[: len(row)] == row


def _is_as(known: SourceDef, columns: str) -> bool:
    """Whether a source has the columns that are declared."""
    return known.ddl == declared(columns).ddl
