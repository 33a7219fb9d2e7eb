"""Records of files and lines as rows, and those that do not fit, each with its place.

A file is read whole, by the code that reads it in a task of Spark too. If something in it does not fit, its records are
halved until those that do not are alone, so that what a record means never depends on its neighbours:

    rows(file) = rows of all records that can be read alone        rejected(file) = the others

What becomes of the others is the policy of the source: `stop` raises the first with its file and line, `skip` and `aside`
give them beside the rows. A file that is of another format, or whose columns are others, is wrong as a whole.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.calculus.types import RecordType
from headwater.engine.change import schema_of
from headwater.errors import BadChange
from headwater.feeds.feed import Declared
from headwater.feeds.fitting import REJECTED_SCHEMA, Bad, as_rejected, halved
from headwater.feeds.new_columns import ADD, known
from headwater.io.events import BESIDE, CHANGE_TYPE, DELETE_KEY, UPSERT
from headwater.io.files import UNREADABLE, parse
from headwater.io.limits import check_limits
from headwater.io.rows import SIGNS, checked
from headwater.plan.program import WEIGHT

CHANGES = (*SIGNS, UPSERT, DELETE_KEY)
"""What a row may say that it does."""
LONGEST = 10_000
"""How many characters of a record are kept."""


@dataclass(frozen=True)
class Records:
    """Rows in the columns and types of a source, with `_w`, and records that do not fit: `record`, `place` and `why`."""

    table: pa.Table
    rejected: pa.Table = field(default_factory=REJECTED_SCHEMA.empty_table)


@dataclass(frozen=True)
class Record:
    """One record as it was given: its text, and where it was."""

    text: bytes
    place: str


@dataclass(frozen=True)
class Reader:
    """What is needed to read records of a source: plain data, which a task of Spark has too."""

    source: str
    row: RecordType
    format: str
    options: dict[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    limits: tuple[Any, ...] = ()
    bad: str = "stop"
    zone: str = "UTC"

    def file(self, path: Path, shown: str) -> Records:
        """The records of a file; BadChange says what is wrong with it, or with the first record of it that does not fit."""
        try:
            table = self._known(parse(path, self.row, self.format, self.options))
        except UNREADABLE as e:
            return self._unread(path, shown, e)
        try:
            return Records(self._typed(table))
        except BadChange as e:
            self._check_columns(shown, table, e)
            if self.format in ("parquet", "xml"):
                unit = "element" if self.format == "xml" else "row"
                return self._by_row(table, lambda n: f"`{shown}`, {unit} {n + 1}")
            return self._sifted(self._records(path, shown), table.column_names)

    def lines(self, records: Sequence[Record]) -> Records:
        """Records that came one by one, each with its place: lines of JSON, CSV without a header, or text."""
        names = [n for n, _ in self.row.fields] if self.format == "csv" else []
        return self._sifted(list(records), names) if records else Records(self._empty())

    def rows(self, table: pa.Table, place: Callable[[int], str]) -> Records:
        """Rows that somebody else has read, with the texts of columns as they are; a record is shown as its values."""
        try:
            return Records(self._typed(table))
        except BadChange as e:
            self._check_columns("the rows", table, e)
            return self._by_row(table, place)

    def _by_row(self, table: pa.Table, place: Callable[[int], str]) -> Records:
        shown = [str(r).encode() for r in table.to_pylist()]
        records = [Record(text, place(n)) for n, text in enumerate(shown)]
        return self._halved(records, lambda a, b: self._typed(table.slice(a, b - a)))

    # --- what a whole file may be ------------------------------------------------------------------------------------

    def _unread(self, path: Path, shown: str, e: Exception) -> Records:
        """A file that cannot be read as one: its records alone, where it has lines."""
        whole = isinstance(e, OSError) or self.format in ("parquet", "xml", "text")
        told = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        why = (told.splitlines() or [type(e).__name__])[0]
        names: list[str] = []
        if not whole and self.format == "csv":
            names = self._names(path)
            whole = not {n.lower() for n in names} >= {n.lower() for n, _ in self.row.fields}
        if whole:
            raise BadChange(
                f"`{shown}` cannot be read as {self.format}: {why}",
                hint="mend the file, or take it away",
            ) from e
        return self._sifted(self._records(path, shown), names)

    def _check_columns(self, shown: str, table: pa.Table, e: BadChange) -> None:
        """Raises where not a record but the columns of all of them are wrong."""
        low = {n.lower() for n in table.column_names}
        missing = [n for n, _ in self.row.fields if n.lower() not in low]
        extra = low - {n.lower() for n, _ in self.row.fields} - {*BESIDE}
        types = self.format == "parquet" and table.num_rows and self._misfit(table)
        if missing or types or (extra and self.format != "json"):
            raise BadChange(f"`{shown}` does not fit: {e.what}", hint=e.hint) from e

    def _misfit(self, table: pa.Table) -> bool:
        """Whether no row of a table with types of its own would fit, as a column is of another type."""
        try:
            checked(self.source, self.row, table.slice(0, 0), 1, self.zone, self._casts)
        except BadChange:
            return True
        return False

    @property
    def _casts(self) -> bool:
        return self.format != "parquet"

    def _known(self, table: pa.Table) -> pa.Table:
        """A table without columns that the source does not have, where they are ignored; where they are added, it gets them first."""
        if self.options.get("new_columns") == ADD:
            return known(self.source, self.row, table, self.format == "parquet")
        if self.options.get("new_columns") != "ignore":
            return table
        mine = {n.lower() for n, _ in self.row.fields} | {*BESIDE}
        return table.select([n for n in table.column_names if n.lower() in mine])

    # --- records one by one ------------------------------------------------------------------------------------------

    def _typed(self, table: pa.Table) -> pa.Table:
        """A table in the types of the source; BadChange for a row that does not fit."""
        if CHANGE_TYPE in table.column_names:
            return self._typed_kinds(table)
        made = self._cells(table)
        check_limits(self.source, self.limits, made)
        return made

    def _cells(self, table: pa.Table) -> pa.Table:
        made = checked(self.source, self.row, table, 1, self.zone, self._casts)
        for n in self.key:
            if n in made.column_names and made.column(n).null_count:
                raise BadChange(f"the key `{n}` is NULL", hint="give it a value")
        return made

    def _typed_kinds(self, table: pa.Table) -> pa.Table:
        """The same, with what each row does beside it; where that is to go by its key, nothing else of it counts."""
        kinds = pc.fill_null(table.column(CHANGE_TYPE).cast(pa.string()), "insert")
        other = [k for k in pc.unique(kinds).to_pylist() if k not in CHANGES]
        if other:
            raise BadChange(f"`{CHANGE_TYPE}` is {other[0]!r}", hint=f"one of {', '.join(CHANGES)}")
        made = self._cells(table.drop_columns([CHANGE_TYPE]))
        stays = made.filter(pc.not_equal(kinds, DELETE_KEY))
        check_limits(self.source, self.limits, stays)
        return made.drop_columns([WEIGHT]).append_column(CHANGE_TYPE, kinds)

    def _empty(self) -> pa.Table:
        return schema_of(self.row).empty_table()

    def _sifted(self, records: list[Record], names: Sequence[str]) -> Records:
        """The rows of records that can be read, and the others."""

        def read(a: int, b: int) -> pa.Table:
            data = b"".join(
                r.text if r.text.endswith(b"\n") else r.text + b"\n" for r in records[a:b]
            )
            table = self._known(parse(data, self.row, self.format, self.options, names))
            if table.num_rows != b - a:
                raise BadChange(f"{b - a} records give {table.num_rows} rows", hint="mend it")
            return self._typed(table)

        return self._halved(records, read)

    def _halved(self, records: list[Record], read: Callable[[int, int], pa.Table]) -> Records:
        bad: list[Bad] = []
        read_as = halved(
            len(records),
            read,
            (BadChange, *UNREADABLE),
            lambda i, e: bad.append(self._bad(records[i], e)),
        )
        tables = [table for _, _, table in read_as]
        found = pa.concat_tables(tables, promote_options="default") if tables else self._empty()
        return Records(found, as_rejected(bad))

    def _bad(self, record: Record, e: Exception) -> Bad:
        """A record that does not fit; raised where the policy is to stop."""
        why = e.what if isinstance(e, BadChange) else (str(e).splitlines() or ["unreadable"])[0]
        why = why.replace(f"row 1 of the change of `{self.source}`", "it")
        if self.bad == "stop":
            hint = f"{e.hint}; or " if isinstance(e, BadChange) and e.hint else ""
            raise BadChange(
                f"{record.place} does not fit: {why}",
                hint=f"{hint}mend it, or declare the source with bad='skip' or bad='aside'",
            ) from e
        shown = record.text.decode("utf-8", "replace").rstrip("\r\n")[:LONGEST]
        return Bad(shown, record.place, why)

    # --- the records of a file ---------------------------------------------------------------------------------------

    def _names(self, path: Path) -> list[str]:
        """The columns of a CSV file."""
        if self.options.get("header", "true") != "true":
            return [n for n, _ in self.row.fields]
        text = path.read_bytes().decode("utf-8-sig", "replace")
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter), [])

    @property
    def _delimiter(self) -> str:
        return self.options.get("delimiter", ",")

    def _records(self, path: Path, shown: str) -> list[Record]:
        """The records of a file with the lines that they begin at."""
        match self.format:
            case "csv":
                return self._csv_records(path, shown)
            case "json" | "text":
                lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
                if not lines[-1]:
                    del lines[-1]
                blank = self.format == "text"
                return [
                    Record(line, f"`{shown}`, line {n}")
                    for n, line in enumerate(lines, 1)
                    if blank or line.strip()
                ]
        raise AssertionError(self.format)

    def _csv_records(self, path: Path, shown: str) -> list[Record]:
        """The records of a CSV file: what stands in quotes may have newlines."""
        text = path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
        lines = text.splitlines(keepends=True)
        read, out, before = csv.reader(iter(lines), delimiter=self._delimiter), [], 0
        skip = self.options.get("header", "true") == "true"
        while True:
            try:
                if next(read, None) is None:
                    break
            except csv.Error:
                pass  # its line is as much of it as there is
            record = "".join(lines[before : read.line_num])
            place, before = before + 1, read.line_num
            if skip or not record.strip("\r\n"):
                skip = False if skip else skip
                continue
            raw = record.encode("utf-8", "surrogateescape")
            out.append(Record(raw, f"`{shown}`, line {place}"))
        return out


def reader_of(declared: Declared, format: str) -> Reader:
    """What reads the records of a source in a format."""
    return Reader(
        declared.name,
        declared.row,
        format,
        declared.options,
        declared.key,
        declared.limits,
        declared.bad,
        declared.zone,
    )
