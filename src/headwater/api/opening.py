"""The feeds of a database that this process has declared, and what each is made from.

A database may be somebody else's, and so may what its log says of feeds. So a feed is opened only where `db.source` has
declared it in this process, as a stage runs only where its function is bound. Secrets are here alone: the log has the other
options.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from headwater.api.applying import Applying
from headwater.api.catalog import SourceDef
from headwater.errors import HeadwaterError, QueryError, StateError
from headwater.feeds.feed import Declared, Feed
from headwater.feeds.iterable import IterableFeed
from headwater.feeds.kinds import KINDS, OBJECTS, checked_options, kind_of
from headwater.feeds.streaming import StreamingFeed
from headwater.io.files import FORMATS
from headwater.state.directory import local_path

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds until a feed that failed is tried again: doubled each time, up to a minute."""


@dataclass
class Opened:
    """A feed that this process has declared: what it is made from, and itself once it was asked."""

    declared: Declared
    kind: str
    feed: Feed | None = None
    given: Any = None
    """The object that was given as `feed=`."""
    taken: tuple[int, dict[str, Any]] | None = None
    """What was taken of a feed whose cursor is a set of names, with the version that has it."""
    pauses: int = 0
    until: float = 0.0
    """How often it failed one after another, and when it is tried again."""

    def opened(self) -> Feed:
        """The feed, made where it is not there."""
        if self.feed is None:
            self.feed = KINDS[self.kind].made(self.declared)
        return self.feed

    def close(self) -> None:
        """Lets go what the feed holds open; it is made anew when it is asked again."""
        feed, self.feed = self.feed, (None if self.given is None else self.feed)
        if feed is not None and hasattr(feed, "close"):
            feed.close()

    def failed(self) -> None:
        """It is left alone for a while."""
        pause = min(FIRST_PAUSE * 2**self.pauses, LONGEST_PAUSE)
        self.pauses, self.until = self.pauses + 1, time.monotonic() + pause


class Opening(Applying):
    """The part of a database that knows which feeds there are."""

    _opened: dict[str, Opened]
    """The feeds of sources that this process has declared."""

    def close(self) -> None:
        """Lets another writer in, and what feeds hold open. Reading goes on to work."""
        for opened in self._opened.values():
            with contextlib.suppress(HeadwaterError, OSError):
                opened.close()
        super().close()

    def _open_feed(self, made: SourceDef, options: Mapping[str, str], given: Any) -> None:
        """Notes how the feed of a source that was declared is made; one that is the same stays open."""
        if made.format is None:
            self._close_feed(made.name)
            return
        declared = self._as_declared(made, options)
        before = self._opened.get(made.name)
        if before is not None and before.given is given and before.kind == made.format:
            if replace(before.declared, spark=declared.spark) == declared:
                return
        self._close_feed(made.name)
        feed = None
        if given is not None:
            feed = _feed_of(made, given, declared)
        self._opened[made.name] = Opened(declared, made.format, feed, given)

    def _as_declared(self, made: SourceDef, options: Mapping[str, str]) -> Declared:
        """What the feed of a source is made from."""
        return Declared(
            *(made.name, made.row, made.key, made.path, dict(options), made.bad, made.limits),
            zone=self.session.zone,
            spark=lambda: self.session.user,
            format=made.format or "",
            home=str(self.path),
        )

    def _close_feed(self, name: str) -> None:
        opened = self._opened.pop(name, None)
        if opened is not None:
            opened.close()

    def _is_opened(self, made: SourceDef) -> bool:
        """Whether this process has declared the feed of a source, with the very options that the log has.

        Of a directory only the path counts: how its files are read another process may have said.
        """
        opened = self._opened.get(made.name)
        if opened is None or opened.kind != made.format or made.format is None:
            return False
        if made.is_directory:
            return opened.declared.path == str(local_path(made.path or ""))
        shown = opened.declared.options
        if opened.kind in KINDS:
            shown = KINDS[opened.kind].shown(shown)
        return (opened.declared.path, shown) == (made.path, made.options)


def declared_feed(
    name: str, format: Any, path: Any, options: Any, feed: Any
) -> tuple[str | None, str | None, dict[str, str], dict[str, str]]:
    """The kind of a feed, if a source has one, its path, and its options: with secrets, and as the log has them."""
    if feed is not None:
        if format is not None or path is not None:
            raise QueryError(
                f"the source `{name}` has `feed=`, and `{'format' if format is not None else 'path'}=` beside it",
                hint="give a format, or an object of this process",
            )
        if isinstance(feed, DataFrame):
            if not feed.isStreaming:
                raise QueryError(
                    f"the feed of `{name}` is no streaming DataFrame",
                    hint="apply it: db.apply({...}); or read it with spark.readStream",
                )
            told = checked_options(name, OBJECTS["streaming"], "a streaming DataFrame", options)
            return "streaming", None, told, told
        known = callable(getattr(feed, "read", None))
        if not known and (isinstance(feed, str | bytes | Mapping) or not _iterates(feed)):
            raise QueryError(
                f"the feed of `{name}` is of type {type(feed).__name__}",
                hint="give an iterable of rows or tables, a streaming DataFrame, or an object with `read`",
            )
        called = "feed" if known else "iterable"
        told = checked_options(name, OBJECTS[called], f"a feed of kind {called}", options)
        return called, None, told, told
    if format is None and path is None:
        if options:
            raise QueryError(
                f"the source `{name}` has `options=` and no path or format",
                hint="say format=, the kind of feed that it has, or path=, the directory of its files",
            )
        return None, None, {}, {}
    kind = kind_of(name, format)
    if kind.path and path is None:
        raise QueryError(
            f"the source `{name}` has the format {format} and no path",
            hint="say path=, the directory that its files come into",
        )
    if path is not None and not kind.path:
        raise QueryError(f"the source `{name}`: {format} has no path", hint="leave path= out")
    told = checked_options(name, kind, format, options)
    place = None if path is None else _place(name, path, format in FORMATS)
    return format, place, told, kind.shown(told)


def _place(name: str, path: Any, local: bool) -> str:
    """A path as it is kept: a local one from the root on, another (`s3://`) as it is."""
    if isinstance(path, str) and "://" in path and not local:
        return path
    try:
        return str(local_path(path))
    except StateError as e:
        raise QueryError(f"the path of `{name}` is {path!r}", hint="give a local directory") from e


def _feed_of(made: SourceDef, given: Any, declared: Declared) -> Any:
    """An object of this process as a feed."""
    if made.format == "streaming":
        return StreamingFeed(given, declared)
    if made.format == "iterable":
        return IterableFeed(given, made.name)
    return given


def _iterates(feed: Any) -> bool:
    return isinstance(feed, Iterable)
