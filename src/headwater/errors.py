"""Every exception that Headwater raises, and the one layout of their messages.

A message says what is wrong, shows the source with the place underlined, says what exists,
and says what could be done. `HeadwaterError` carries those parts; `str` lays them out:

    unknown column `prise` in `orders`
      select sum(prise) from orders
                 ^^^^^
    columns of `orders`: id, item, price
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Span:
    """A place in a query's text: 1-based line and column, and how many characters."""

    line: int
    column: int
    length: int = 1

    def underline(self, text: str) -> str:
        """The line of `text` that the span is in, with the span underlined."""
        lines = text.splitlines() or [""]
        line = lines[min(self.line, len(lines)) - 1]
        width = max(1, min(self.length, max(1, len(line) - self.column + 1)))
        indent = "".join("\t" if c == "\t" else " " for c in line[: self.column - 1])
        return f"  {line}\n  {indent}{'^' * width}"


class HeadwaterError(Exception):
    """Any error of Headwater: what is wrong, where, and what to do."""

    def __init__(self, what: str, *, text: str = "", span: Span | None = None, hint: str = ""):
        super().__init__(what)
        self.what, self.text, self.span, self.hint = what, text, span, hint

    def __reduce__(self) -> Any:
        # Subclasses have other arguments, so that an error is put together from what it holds.
        return _restored, (type(self), self.args, dict(self.__dict__))

    def __str__(self) -> str:
        parts = [self.what]
        if self.span is not None:
            parts[0] += f" (line {self.span.line}, column {self.span.column})"
            if self.text:
                parts.append(self.span.underline(self.text))
        if self.hint:
            parts.append(self.hint)
        return "\n".join(parts)


def _restored(kind: type[HeadwaterError], args: Any, held: dict[str, Any]) -> HeadwaterError:
    """An error as it was before it was pickled."""
    made = kind.__new__(kind, *args)
    made.__dict__.update(held)
    return made


class IllTyped(HeadwaterError):
    """A term of the calculus that has no type: which sub-term, what was expected, what was found."""

    def __init__(self, term: str, expected: str, found: str):
        super().__init__(f"in `{term}`: expected {expected}, found {found}")
        self.term, self.expected, self.found = term, expected, found


class NotInterpretable(HeadwaterError):
    """A term that the reference interpreter has no meaning for (an opaque function, an unbound name)."""


class ScalarError(HeadwaterError):
    """A scalar operation that Spark refuses in ANSI mode: overflow, division by zero, a bad cast."""


class LabelConflict(HeadwaterError):
    """Two dictionaries define the same label differently."""


class InconsistentShredding(HeadwaterError):
    """A shredded value with an undefined or conflicting label."""


class NotShreddable(HeadwaterError):
    """A term whose meaning depends on the contents of an inner bag as a key, which labels cannot carry."""


class NotHomomorphic(HeadwaterError):
    """A term for which no merge monoid can be inferred."""


class NotDiminishable(HeadwaterError):
    """A monoid without an inverse: deletions need the group's contents."""


class RewriteDiverges(HeadwaterError):
    """A set of rewrite rules that did not reach a fixpoint; the message names those still firing."""


class ParseError(HeadwaterError):
    """Text of the calculus, of SQL, or of a schema that cannot be read."""


class QueryError(HeadwaterError):
    """A query that means nothing against the declared inputs."""


class UnknownName(QueryError):
    """A column, table or function that is not declared."""


class DefinedAnew(QueryError):
    """Changes over a version since which a view has other columns, or nested rows of another query."""


class AmbiguousColumn(QueryError):
    """A column name that several tables in scope have."""


class TypeMismatch(QueryError):
    """Operands of a query that have no common type."""


class NotIncremental(QueryError):
    """A query that is outside the language that Headwater maintains: the clause, why, and a rewrite to try.

    `reason` is a stable name, such as `NON_DETERMINISTIC`; it is part of the message.
    """

    def __init__(
        self, reason: str, what: str, *, text: str = "", span: Span | None = None, hint: str = ""
    ):
        super().__init__(f"[{reason}] {what}", text=text, span=span, hint=hint)
        self.reason = reason


class StateError(HeadwaterError):
    """An error of the directory that a database lives in; it stays at the version before.

    The one exception says so in its first words: a version that was committed while the disk would not confirm it.
    """


class DamagedState(StateError):
    """A file or log record that is missing or is not what was written; it is named and never skipped.

    `whole` is the newest version that has no damage, which can still be read; mending means to put the file back from
    a copy, or to create the database anew.
    """

    def __init__(self, path: str, what: str, whole: int | None = None):
        last = "" if whole is None else f"the last whole version is {whole}"
        last += "; put the file back from a copy" if last else ""
        super().__init__(f"{path} is damaged: {what}", hint=last)
        self.path, self.damage, self.whole = path, what, whole


class VersionGone(StateError):
    """A version that was never committed, or is older than what `keep_versions` and `keep_minutes` retain."""


class WriterBusy(StateError):
    """A second writer, while the first is alive: a database has one at a time, and any number of readers.

    The first lets others in by `close`, or by ending; one on another machine that shows no life is taken over.
    """


class LeaseLost(StateError):
    """A writer that was taken over while it slept: nothing of it was committed; open the database again."""


class EngineError(HeadwaterError):
    """Spark failed, or a function or expression of a query did: the message has its words, `__cause__` all of it.

    The database stays at the version before, and the change can be applied again.
    """


class SettingsDiffer(HeadwaterError):
    """A Spark session with settings, or of a version, that would give other answers than the database has."""


class BadChange(HeadwaterError):
    """Rows that cannot be a change of their source: a missing, extra or mistyped column; which, and where.

    Nothing was applied; the corrected change can be.
    """


class DeletesMissingRows(BadChange):
    """A deletion of rows that are not there, of which one is shown; `strict=False` would ignore and count them."""


class MissingOwner(BadChange):
    """Inner rows without the row that they belong to, or whose array is NULL; which, and what to do."""


class KeyConflict(BadChange, LabelConflict):
    """Rows whose key is NULL, or would be there more than once; the key, and the rows that have it."""


class FeedAway(HeadwaterError):
    """A feed whose server or path is not there now, or lets nobody in: it is tried again, and the rest goes on."""


class FeedLost(HeadwaterError):
    """A feed of which what comes behind the cursor is gone: a slot that was dropped, a change feed that was cleaned up, another topic."""


class BadPattern(HeadwaterError):
    """A pattern or punctuation that means nothing: a value of a wrong type, ends turned round, an unknown column."""


class LateRows(HeadwaterError):
    """A change with rows that match what was closed before: which row, what it breaks, and since when."""


class Purged(HeadwaterError):
    """What would need rows that were closed and are kept no more."""


class NotRetained(HeadwaterError):
    """A check, recomputation or late view that needs the rows of a source declared with `retain=False`."""


class NameTaken(HeadwaterError):
    """A source or view of that name is there already."""


class InUse(HeadwaterError):
    """A source or view that others read cannot be dropped."""


class SinkError(HeadwaterError):
    """A sink whose target cannot be written: no rights, other columns, files or tables of somebody else.

    The target stays at the version that it has, and the database at its own.
    """


class SinkAway(SinkError):
    """A target that is not there now, as its server is away: the sink is tried again."""


class SinkMissing(SinkError):
    """A sink that this process has not declared: its path, passwords and functions are known to who declares it again."""


class StageError(HeadwaterError):
    """A stage, flow or word of a dataflow that means nothing: an unknown input, a route over no column, two writers."""


class StageChanged(StageError):
    """A stage that was defined before with another function, schema or route; what differs, and what can be done."""


class StageMissing(StageError):
    """A stage that has input to read and no function in this process: define it again by its name."""


class StageFailed(HeadwaterError):
    """A stage whose epoch failed: its name, the epoch, what was read, the key, the first row, and the error.

    Nothing of the epoch was committed, the rest of the graph went on, and the next `run` tries again.
    """


class StateConflict(HeadwaterError):
    """Two groups of an epoch that wrote the same entry of a stage's state differently."""


class FlowFull(HeadwaterError):
    """A flow with more unread increments than `db.limit` allows; who does not read it, and why."""


class CycleLimit(HeadwaterError):
    """A cycle that ran for more than `rounds` epochs without input from outside; its path and its last increments."""


class NoFixpoint(HeadwaterError):
    """A loop that does not end: its rounds, and the rows that the last of them still changed."""


class Stuck(HeadwaterError):
    """A stage that waits for a flow that nobody writes."""


class StreamError(HeadwaterError):
    """A stream that means nothing, or cannot go on: an unknown header, an order column that is none, a state that is not plain."""


class StreamChanged(StreamError):
    """A stream that was defined before with another schema, order, or other steps; what differs, and what can be done."""


class StreamMissing(StreamError):
    """A stream that has functions, and none of them in this process: define it again by its name."""


class Ties(StreamError):
    """Two rows that depend on each other and have the same order value, where that is refused."""


class IllFormedSchema(HeadwaterError):
    """A schema of a stream in which a row would have no place or two: which header, which key."""


class SchemaMismatch(HeadwaterError):
    """A step of a pipeline that asks for more order, other columns or other rows than it is given: where, and of what."""


class StepFailed(HeadwaterError):
    """A function of a step that fails, or gives other rows or values than its step declares: which step, and what."""


class NotInSchema(HeadwaterError):
    """A row that has no place in a stream: of a header that its schema has not, or of another key than its stream's."""


class NotMonotone(HeadwaterError):
    """A function that takes back what it gave before; `before` and `after` are what it gave and what it gives now."""

    def __init__(
        self,
        what: str,
        *,
        before: tuple[Any, ...] = (),
        after: tuple[Any, ...] = (),
        text: str = "",
        span: Span | None = None,
        hint: str = "",
    ):
        super().__init__(what, text=text, span=span, hint=hint)
        self.before, self.after = before, after
