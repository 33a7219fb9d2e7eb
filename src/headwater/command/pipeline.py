"""Pipelines of Spark: `spark-pipeline.yml`, as `spark-pipelines` takes it, with libraries of SQL.

    name: shop
    storage: store
    libraries:
      - glob:
          include: transformations/**

Its files are read in the order of their names. Sources and rows come first, in that order, and then all views in one commit, whatever they
read of each other. Of the statements of pipelines CREATE [OR REFRESH] MATERIALIZED VIEW and CREATE TEMPORARY VIEW are taken, and
CREATE FLOW ... AS AUTO CDC INTO a streaming table, which is a view of the events (`language/auto_cdc`); a Python library is a program of Headwater. What is not taken is refused by its name, with the file and the line, before anything is done.

The format is the part of YAML that such files are written in: maps and lists in blocks, plain or quoted values, and comments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from headwater.api.database import Database
from headwater.errors import HeadwaterError, ParseError, QueryError
from headwater.language.auto_cdc import flow_of
from headwater.script.grammar import Reading
from headwater.script.statements import CreateView, Statement
from headwater.script.words import Piece, Script, pieces

FIELDS = ("name", "storage", "libraries", "catalog", "database", "schema", "configuration")
NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")


@dataclass(frozen=True)
class Pipeline:
    """A pipeline: its name, where its database is, and its files."""

    name: str
    folder: Path
    files: tuple[Path, ...]


def read_pipeline(path: Path) -> Pipeline:
    """The pipeline of a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise QueryError(f"{path} cannot be read: {e}", hint="name a spark-pipeline.yml") from e
    found = read_yaml(text, str(path))
    if not isinstance(found, dict):
        raise ParseError(f"{path} has no fields", hint=f"fields: {', '.join(FIELDS)}")
    for field in found:
        if field not in FIELDS:
            raise QueryError(
                f"{path}: `{field}` is no field of a pipeline", hint=f"fields: {', '.join(FIELDS)}"
            )
    for field in ("name", "storage", "libraries"):
        if not found.get(field):
            raise QueryError(
                f"{path}: the field `{field}` is missing",
                hint="a pipeline has name, storage and libraries",
            )
    for field, hint in (
        ("catalog", "a database of Headwater has one level of names: leave it out"),
        ("database", "a database of Headwater has one level of names: leave it out"),
        ("schema", "a database of Headwater has one level of names: leave it out"),
        (
            "configuration",
            "answers depend on the settings that the database was made with: leave it out",
        ),
    ):
        if found.get(field):
            raise QueryError(f"{path}: the field `{field}` means nothing here", hint=hint)
    files = tuple(f for entry in found["libraries"] for f in _files(path, entry))
    return Pipeline(str(found["name"]), _storage(path, str(found["storage"])), files)


def defines(
    pipeline: Pipeline, program: Callable[[Path], Callable[[Database], Any]]
) -> Callable[[Database], Any]:
    """What a pipeline does to a database; `program` reads a Python library. Everything is read before anything is done."""
    steps: list[Callable[[Database], Any]] = []
    views: dict[str, tuple[str, Statement, Script]] = {}
    for file in pipeline.files:
        if file.suffix == ".py":
            steps.append(program(file))
            continue
        script = Script(file.read_text(encoding="utf-8"), str(file))
        rest: list[Statement] = []
        for statement in _statements(script):
            if isinstance(statement.what, CreateView):
                name = statement.what.name.lower()
                if name in views:
                    raise QueryError(
                        f"{file}, line {statement.piece.line}: the view `{name}` is defined twice",
                        hint="define it once",
                    )
                views[name] = statement.what.name, statement, script
            else:
                rest.append(statement)
        steps.append(_carried_out(rest, script))

    def define(db: Database) -> None:
        for step in steps:
            step(db)
        if views:
            queries = {
                n: s.what.query for n, s, _ in views.values() if isinstance(s.what, CreateView)
            }
            try:
                db.replace_views(queries)
            except HeadwaterError as e:
                raise _placed(e, [(s, script) for _, s, script in views.values()]) from e.__cause__

    return define


def _carried_out(rest: list[Statement], script: Script) -> Callable[[Database], Any]:
    def step(db: Database) -> None:
        times: dict[str, int] = {}
        for s in rest:
            times[s.piece.text] = times.get(s.piece.text, 0) + 1
            try:
                db.carry_out(s, script, times[s.piece.text])
            except HeadwaterError as e:
                raise _placed(e, [(s, script)]) from e.__cause__

    return step


def _placed(e: HeadwaterError, tried: list[tuple[Statement, Script]]) -> HeadwaterError:
    """An error with the file and line of the statement that it is about."""
    for s, script in tried:
        query = s.what.query if isinstance(s.what, CreateView) else ""
        if len(tried) == 1 or (e.text and e.text == query):
            e.what = f"{script.file}, line {s.piece.line}: {e.what}"
            break
    return e


def _statements(script: Script) -> Iterator[Statement]:
    """The statements of a library: those of scripts, and of the words of pipelines those that are taken."""
    tables, targets = dict[str, Piece](), set[str]()
    for piece in pieces(script):
        words = [w.text.upper() for w in piece.words[:6]]
        try:
            bare = [w for w in words if w not in ("OR", "REFRESH")]
            if bare[:3] == ["CREATE", "STREAMING", "TABLE"] and words[-2] == "TABLE":
                tables[piece.words[-1].text.strip("`").lower()] = piece
                continue
            flow = flow_of(piece.text) if words[:2] == ["CREATE", "FLOW"] else None
            if flow is not None:
                targets.add(flow.name.lower())
                yield Statement(CreateView(flow.name, str(flow.query()), True), piece)
                continue
            yield Statement(Reading(_as_ours(piece, words)).statement(), piece)
        except HeadwaterError as e:
            e.what = f"{script.file}: {e.what}"
            raise
    for name in tables.keys() - targets:
        raise QueryError(
            f"{script.file}: line {tables[name].line}: no flow of this file goes into the streaming table `{name}`",
            hint="CREATE FLOW f AS AUTO CDC INTO it FROM a source KEYS (...) SEQUENCE BY ...",
        )


def _as_ours(piece: Piece, words: list[str]) -> Piece:
    """A statement of a pipeline in the words of scripts."""
    given = piece.words
    if words[:3] == ["CREATE", "OR", "REFRESH"]:
        given = (given[0], *given[3:])
        words = [words[0], *words[3:]]
    if words[:3] == ["CREATE", "TEMPORARY", "VIEW"]:
        kept = given[1]
        materialized = type(kept)("word", "MATERIALIZED", kept.start, kept.end)
        given = (given[0], materialized, *given[2:])
    for said in (["STREAMING", "TABLE"], ["FLOW"]):
        if words[0] == "CREATE" and words[1 : 1 + len(said)] == said:
            raise QueryError(
                f"line {piece.line}: CREATE {' '.join(said)} is not taken",
                hint="CREATE SOURCE ... USING a kind takes what comes in, and CREATE MATERIALIZED VIEW keeps what is computed from it;"
                " a flow is AUTO CDC INTO t FROM s KEYS (...) [APPLY AS DELETE WHEN ...] SEQUENCE BY ... [COLUMNS ...] [STORED AS SCD TYPE 1]",
            )
    return Piece(piece.script, given)


def _files(path: Path, entry: Any) -> list[Path]:
    """The files of a library, in the order of their names."""
    include = (
        entry.get("glob", {}).get("include")
        if isinstance(entry, dict) and isinstance(entry.get("glob"), dict)
        else None
    )
    if not isinstance(include, str):
        raise QueryError(
            f"{path}: a library is no glob", hint="- glob:\n    include: transformations/**"
        )
    pattern = f"{include}/*" if include.endswith("/**") else include
    found = sorted(
        f for f in path.parent.glob(pattern) if f.is_file() and "__pycache__" not in f.parts
    )
    if not found:
        raise QueryError(
            f"{path}: no file is matched by {include}",
            hint="name files, or a folder: transformations/**",
        )
    for f in found:
        if f.suffix not in (".sql", ".py"):
            raise QueryError(f"{path}: {f} is no library", hint="libraries end in .sql or .py")
    return found


def _storage(path: Path, given: str) -> Path:
    url = urlparse(given)
    if url.scheme not in ("", "file"):
        raise QueryError(
            f"{path}: the storage {given} is no local directory",
            hint="give a path or a file URL, or say --dir",
        )
    return path.parent / (unquote(url.path) if url.scheme else given) / "warehouse"


# --- the part of YAML that is read ------------------------------------------------------------------------------------


def read_yaml(text: str, file: str) -> Any:
    """Maps and lists in blocks, with plain or quoted values; what else YAML has is refused with its line."""
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = (
            re.sub(r"(^|\s)#.*$", "", line).rstrip()
            if not re.search(r"['\"].*#.*['\"]", line)
            else line.rstrip()
        )
        if bare.strip() and bare.strip() != "---":
            lines.append((len(bare) - len(bare.lstrip(" ")), bare.strip(), number))
    value, rest = _block(lines, 0, file)
    if rest < len(lines):
        raise _unread(file, lines[rest][2])
    return value


def _block(lines: list[tuple[int, str, int]], at: int, file: str) -> tuple[Any, int]:
    if at >= len(lines):
        return None, at
    indent, first, _ = lines[at]
    out: Any = [] if first.startswith("- ") or first == "-" else {}
    while at < len(lines) and lines[at][0] == indent:
        _, text, number = lines[at]
        if isinstance(out, list):
            if not (text.startswith("- ") or text == "-"):
                break
            inner = text[1:].strip()
            if ":" in inner and not inner.startswith(("'", '"')):  # the first field of a map
                lines[at] = (indent + len(text) - len(inner), inner, number)
                value, at = _block(lines, at, file)
            elif inner:
                value, at = _scalar(inner, file, number), at + 1
            else:
                value, at = _deeper(lines, at, indent, file)
            out.append(value)
            continue
        found = re.fullmatch(r"""(['"]?)([\w.\-]+)\1:(?:\s+(.*))?""", text)
        if found is None or found[2] in out:
            raise _unread(file, number)
        if found[3]:
            out[found[2]], at = _scalar(found[3], file, number), at + 1
        elif (
            at + 1 < len(lines) and lines[at + 1][0] == indent and lines[at + 1][1].startswith("-")
        ):
            out[found[2]], at = _block(lines, at + 1, file)
        else:
            out[found[2]], at = _deeper(lines, at, indent, file)
    return out, at


def _deeper(lines: list[tuple[int, str, int]], at: int, indent: int, file: str) -> tuple[Any, int]:
    if at + 1 < len(lines) and lines[at + 1][0] > indent:
        return _block(lines, at + 1, file)
    return None, at + 1


def _scalar(text: str, file: str, number: int) -> Any:
    if text in ("{}", "[]"):
        return {} if text == "{}" else []
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text[0] in "&*!|>{[@`%'\"":
        raise _unread(file, number)
    return text


def _unread(file: str, number: int) -> ParseError:
    return ParseError(
        f"{file}, line {number}: this is not in the part of YAML that is read",
        hint="write maps and lists in blocks, with plain or quoted values",
    )
