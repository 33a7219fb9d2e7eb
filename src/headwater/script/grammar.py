"""Statements read from their words.

    CREATE SOURCE [IF NOT EXISTS] s (columns [, PRIMARY KEY (...)]) [USING kind] [LOCATION 'path'] [OPTIONS (name = value, ...)]
           [CLOSES (column, ...)] [APPEND ONLY] [SEQUENCE BY column] [ON CONFLICT REPLACE | IGNORE | ERROR] [BAD RECORDS STOP | SKIP | ASIDE]
    CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] v [COMMENT 'text'] AS query
    CREATE SINK [IF NOT EXISTS] n FROM v USING kind [LOCATION 'path'] [OPTIONS (...)]
    INSERT INTO s [(columns)] VALUES (...), ... | query          UPDATE s SET column = expression, ... [WHERE condition]
    DELETE FROM s [WHERE condition]                              DROP SOURCE | VIEW | SINK [IF EXISTS] n [CASCADE]
    ALTER SOURCE s ADD COLUMN[S] column type, ...                ALTER SOURCE | VIEW | SINK n RENAME TO m
    EXPLAIN v | query        SHOW SOURCES | VIEWS | SINKS        SELECT ... | WITH ... | VALUES ... | TABLE ... | FROM ...

A clause that is not here is an error at its place, and none is passed over. Queries and expressions are cut out as they are
written, and read by the front end of SQL when the statement is carried out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from headwater.errors import ParseError
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
    What,
)
from headwater.script.words import Piece, Script, Word, pieces

_CLOSING = {"(": ")", "[": "]", "{": "}"}
QUERIES = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "(")
FORMS = "CREATE SOURCE | MATERIALIZED VIEW | SINK, INSERT INTO, UPDATE, DELETE FROM, DROP, ALTER, EXPLAIN, SHOW, or a query"
OF_SOURCES = "USING, LOCATION, OPTIONS, CLOSES, APPEND ONLY, SEQUENCE BY, ON CONFLICT, BAD RECORDS"


def statements(script: Script) -> list[Statement]:
    """The statements of a script; the first that cannot be read is an error, and none is carried out then."""
    return [Statement(Reading(p).statement(), p) for p in pieces(script)]


class Reading:
    """One reading of the words of a statement, from left to right."""

    def __init__(self, piece: Piece):
        self.piece, self.words, self.at = piece, piece.words, 0

    # --- words ---------------------------------------------------------------------------------------------------------

    def here(self, *words: str) -> bool:
        """Whether these words, or signs, stand next."""
        found = self.words[self.at : self.at + len(words)]
        return len(found) == len(words) and all(
            w.said(x) for w, x in zip(found, words, strict=True)
        )

    def takes(self, *words: str) -> bool:
        """The same, and goes on behind them."""
        if not self.here(*words):
            return False
        self.at += len(words)
        return True

    def expect(self, *words: str, hint: str = "") -> None:
        """Goes on behind words that must stand next."""
        if not self.takes(*words):
            raise self.wrong(f"{' '.join(words)} is missing", hint)

    def wrong(self, what: str, hint: str = "") -> ParseError:
        """An error at the next word, or behind the last one."""
        script, words = self.piece.script, self.words
        if self.at < len(words):
            span = script.span(words[self.at].start, words[self.at].end)
        else:
            span = script.span(words[-1].end - 1, words[-1].end)
            what = f"{what} at the end of the statement"
        return ParseError(what, text=script.text, span=span, hint=hint)

    def next(self, what: str) -> Word:
        """The next word, which must be there."""
        if self.at >= len(self.words):
            raise self.wrong(f"{what} is missing")
        self.at += 1
        return self.words[self.at - 1]

    def name(self, of: str) -> str:
        """A name: a plain word, or one in backquotes; parts of a name are refused."""
        word = self.next(f"the name of {of}")
        if word.kind not in ("word", "name"):
            self.at -= 1
            raise self.wrong(f"`{word.text}` is no name of {of}", "use letters, digits and _")
        if self.here("."):
            raise self.wrong(
                f"the name of {of} has several parts",
                "a database has one level of names: leave the schema out",
            )
        return word.text

    def text(self, of: str) -> str:
        """A text in quotes."""
        word = self.next(of)
        if word.kind != "text":
            self.at -= 1
            raise self.wrong(f"{of} is no text", f"write it in quotes: '{word.text}'")
        return word.text

    def one_of(self, of: str, *words: str) -> str:
        """One of some words, in lower case."""
        word = self.next(of)
        if not word.said(*words):
            self.at -= 1
            raise self.wrong(f"`{word.text}` is no {of}", f"one of {', '.join(words)}")
        return word.text.lower()

    def brackets(self, of: str) -> tuple[int, int]:
        """The words inside of brackets, as the first of them and the one behind the last; goes on behind the brackets."""
        if not self.here("("):
            raise self.wrong(f"the {of} are missing", f"write the {of} in brackets")
        first = self.at + 1
        self.at = self._closed(self.at) + 1
        return first, self.at - 1

    def _closed(self, at: int) -> int:
        """The bracket that closes the one at a place."""
        waits: list[str] = []
        for i in range(at, len(self.words)):
            w = self.words[i]
            if w.kind != "sign":
                continue
            if w.text in _CLOSING:
                waits.append(_CLOSING[w.text])
            elif waits and w.text == waits[-1]:
                waits.pop()
                if not waits:
                    return i
        self.at = at
        raise self.wrong("the bracket is not closed", "close it with )")

    def cut(self, first: int, end: int) -> str:
        """The script's text from one word up to another."""
        if first >= end:
            return ""
        return self.piece.script.text[self.words[first].start : self.words[end - 1].end]

    def rest(self, of: str) -> str:
        """The text from here to the end of the statement."""
        if self.at >= len(self.words):
            raise self.wrong(f"{of} is missing")
        first, self.at = self.at, len(self.words)
        return self.cut(first, len(self.words))

    def until(self, of: str, *words: str) -> str:
        """The text up to the first of some words or signs that stands in no brackets, or to the end."""
        first = self.at
        while self.at < len(self.words):
            word = self.words[self.at]
            if word.said(*words):
                break
            self.at = self._closed(self.at) + 1 if word.said("(", "[", "{") else self.at + 1
        if first == self.at:
            raise self.wrong(f"{of} is missing")
        return self.cut(first, self.at)

    def end(self, hint: str = "") -> None:
        """Raises where words are left."""
        if self.at < len(self.words):
            raise self.wrong(f"`{self.words[self.at].text}` means nothing here", hint)

    # --- statements ----------------------------------------------------------------------------------------------------

    def statement(self) -> What:
        """What the statement says."""
        forms: dict[str, Callable[[], What]] = {
            "CREATE": self._create,
            "INSERT": self._insert,
            "UPDATE": self._update,
            "DELETE": self._delete,
            "DROP": self._drop,
            "ALTER": self._alter,
            "EXPLAIN": self._explain,
            "SHOW": self._show,
        }
        if self.here(self.words[0].text.upper()) and self.words[0].said(*QUERIES):
            return Ask(self.rest("a query"))
        read = forms.get(self.words[0].text.upper()) if self.words[0].kind == "word" else None
        if read is None:
            said = " ".join(self.piece.text.split()[:4])
            raise self.wrong(f"`{said}` is no statement of Headwater", FORMS)
        self.at = 1
        made = read()
        self.end()
        return made

    def _create(self) -> What:
        replace = self.takes("OR", "REPLACE")
        if self.takes("MATERIALIZED", "VIEW"):
            return self._view(replace)
        if not replace and self.takes("SOURCE"):
            return self._source()
        if not replace and self.takes("SINK"):
            return self._sink()
        said = " ".join(self.piece.text.split()[:4])
        raise self.wrong(
            f"`{said}` is no statement of Headwater",
            "CREATE SOURCE, CREATE [OR REPLACE] MATERIALIZED VIEW, or CREATE SINK",
        )

    def _absent(self) -> bool:
        return self.takes("IF", "NOT", "EXISTS")

    def _view(self, replace: bool) -> CreateView:
        absent = self._absent()
        if absent and replace:
            self.at -= 3
            raise self.wrong("OR REPLACE and IF NOT EXISTS are both said", "leave one of them out")
        name = self.name("a view")
        comment = self.text("the comment") if self.takes("COMMENT") else None
        self.expect("AS", hint="CREATE MATERIALIZED VIEW name AS SELECT ...")
        return CreateView(name, self.rest("the query"), replace, absent, comment)

    def _source(self) -> CreateSource:
        absent, name = self._absent(), self.name("a source")
        columns = self.cut(*self.brackets("columns"))
        kind = location = None
        options: dict[str, Any] = {}
        more: dict[str, Any] = {}
        seen: set[str] = set()
        while self.at < len(self.words):
            clause = self.words[self.at].text.upper()
            if clause in seen:
                raise self.wrong(f"{clause} is said twice", "say it once")
            seen.add(clause)
            if self.takes("USING"):
                kind = self.name("a kind").lower()
            elif self.takes("LOCATION"):
                location = self.text("the location")
            elif self.takes("OPTIONS"):
                options = self._options()
            elif self.takes("CLOSES"):
                more["closes"] = self._closes()
            elif self.takes("APPEND", "ONLY"):
                more["append_only"] = True
            elif self.takes("SEQUENCE", "BY"):
                more["sequence_by"] = self.name("a column")
            elif self.takes("ON", "CONFLICT"):
                more["on_conflict"] = self.one_of("ON CONFLICT", "REPLACE", "IGNORE", "ERROR")
            elif self.takes("BAD", "RECORDS"):
                more["bad"] = self.one_of("BAD RECORDS", "STOP", "SKIP", "ASIDE")
            else:
                self.end(f"clauses of a source: {OF_SOURCES}")
        return CreateSource(name, columns, absent, kind, location, options, more)

    def _closes(self) -> Any:
        first, end = self.brackets("columns")
        names = tuple(w.text for w in self.words[first:end] if not w.said(","))
        return names[0] if len(names) == 1 else names

    def _options(self) -> dict[str, Any]:
        """Options in brackets: `name = value` or `name value`, where a name may have dots or stand in quotes."""
        first, end = self.brackets("options")
        behind, self.at = self.at, first
        out: dict[str, Any] = {}
        while self.at < end:
            word = self.next("the name of an option")
            if word.kind not in ("word", "name", "text"):
                self.at -= 1
                raise self.wrong(f"`{word.text}` is no name of an option", "OPTIONS (name = value)")
            name = word.text
            while self.takes("."):
                name += f".{self.next('the name of an option').text}"
            self.takes("=")
            if self.at >= end:
                raise self.wrong(f"the option `{name}` has no value", "OPTIONS (name = value)")
            if name in out:
                raise self.wrong(f"the option `{name}` is said twice", "say it once")
            out[name] = self._value(f"the value of `{name}`")
            if self.at < end:
                self.expect(",", hint="OPTIONS (name = value, name = value)")
        self.at = behind
        return out

    def _value(self, of: str) -> Any:
        """A text, a number or a truth value."""
        negative = self.takes("-")
        word = self.next(of)
        if word.kind == "text" and not negative:
            return word.text
        if word.said("TRUE", "FALSE") and not negative:
            return word.said("TRUE")
        if word.kind == "number" and re.fullmatch(r"\d+", word.text):
            return -int(word.text) if negative else int(word.text)
        if word.kind == "number" and re.fullmatch(r"\d*\.\d*", word.text):
            return -float(word.text) if negative else float(word.text)
        self.at -= 1
        raise self.wrong(
            f"{of} is no text, number or truth value", f"write it in quotes: '{word.text}'"
        )

    def _sink(self) -> CreateSink:
        absent, name = self._absent(), self.name("a sink")
        self.expect("FROM", hint="CREATE SINK name FROM view USING kind")
        of = self.name("a view")
        self.expect("USING", hint="CREATE SINK name FROM view USING kind")
        kind, location = self.name("a kind").lower(), None
        options: dict[str, Any] = {}
        while self.at < len(self.words):
            if location is None and self.takes("LOCATION"):
                location = self.text("the location")
            elif not options and self.takes("OPTIONS"):
                options = self._options()
            else:
                self.end("clauses of a sink: LOCATION, OPTIONS")
        return CreateSink(name, of, kind, absent, location, options)

    def _insert(self) -> Insert:
        self.expect("INTO", hint="INSERT INTO source VALUES ...")
        self.takes("TABLE")
        source = self.name("a source")
        columns: tuple[str, ...] = ()
        if self.here("(") and not self.words[self.at + 1].said(*QUERIES):
            first, end = self.brackets("columns")
            columns = tuple(w.text for w in self.words[first:end] if not w.said(","))
        rows = None
        if self.here("VALUES"):
            before = self.at
            self.at += 1
            rows, self.at = self._plain_rows(), before
        if not self.here("VALUES") and not (
            self.at < len(self.words) and self.words[self.at].said(*QUERIES)
        ):
            raise self.wrong(
                "VALUES or a query is missing", "INSERT INTO source VALUES (1, 'a'), (2, 'b')"
            )
        return Insert(source, columns, rows, self.rest("the rows"))

    def _plain_rows(self) -> tuple[tuple[Any, ...], ...] | None:
        """Rows of plain values behind VALUES; None where a value is an expression, which is for the front end."""
        rows: list[tuple[Any, ...]] = []
        try:
            while True:
                row: list[Any] = []
                if self.takes("("):
                    while True:
                        row.append(self._plain())
                        if self.takes(")"):
                            break
                        self.expect(",")
                else:
                    row.append(self._plain())
                rows.append(tuple(row))
                if self.at == len(self.words):
                    return tuple(rows)
                self.expect(",")
        except (ParseError, ValueError):
            return None

    def _plain(self) -> Any:
        """A plain value: NULL, a truth value, a text, or a number without a letter."""
        if self.takes("NULL"):
            return None
        if self.at < len(self.words) and self.words[self.at].kind == "number":
            word = self.next("a value").text
            if not re.fullmatch(r"\d+|\d*\.\d+", word):
                raise ValueError(word)
            return int(word) if word.isdigit() else Decimal(word)
        if self.here("-") and self.words[self.at + 1].kind == "number":
            self.at += 1
            return -self._plain()
        value = self._value("a value")
        if isinstance(value, float):
            raise ValueError(value)
        return value

    def _update(self) -> Update:
        source = self.name("a source")
        self.expect("SET", hint="UPDATE source SET column = expression WHERE condition")
        values: dict[str, str] = {}
        while True:
            name = self.name("a column")
            self.expect("=", hint="SET column = expression")
            if name in values:
                raise self.wrong(f"the column `{name}` is set twice", "set it once")
            values[name] = self.until("the expression", ",", "WHERE")
            if not self.takes(","):
                break
        return Update(source, values, self._where())

    def _delete(self) -> Delete:
        self.expect("FROM", hint="DELETE FROM source WHERE condition")
        return Delete(self.name("a source"), self._where())

    def _where(self) -> str:
        return self.rest("the condition") if self.takes("WHERE") else ""

    def _drop(self) -> Drop:
        self.takes("MATERIALIZED")
        what = self.one_of("kind of thing that can be dropped", "SOURCE", "VIEW", "SINK")
        there = self.takes("IF", "EXISTS")
        return Drop(what, self.name(f"a {what}"), there, self.takes("CASCADE"))  # type: ignore[arg-type]

    def _alter(self) -> What:
        self.takes("MATERIALIZED")
        what = self.one_of("kind of thing that can be altered", "SOURCE", "VIEW", "SINK")
        name = self.name(f"a {what}")
        if self.takes("RENAME", "TO"):
            return Rename(what, name, self.name(f"a {what}"))  # type: ignore[arg-type]
        if what == "source" and (self.takes("ADD", "COLUMN") or self.takes("ADD", "COLUMNS")):
            if self.here("("):
                return AddColumns(name, self.cut(*self.brackets("columns")))
            return AddColumns(name, self.rest("the column"))
        raise self.wrong(
            "it is not said how it is altered",
            "ADD COLUMN column type, or RENAME TO name" if what == "source" else "RENAME TO name",
        )

    def _explain(self) -> Explain:
        if self.at < len(self.words) and self.words[self.at].said(*QUERIES):
            return Explain(None, self.rest("the query"))
        return Explain(self.name("a view"), None)

    def _show(self) -> Show:
        self.takes("MATERIALIZED")
        what = self.one_of("kind of thing that can be shown", "SOURCES", "VIEWS", "SINKS")
        return Show(what)  # type: ignore[arg-type]
