"""The sources whose feeds are directories (`feeds/directory`): which they are, and which files are new."""

from __future__ import annotations

from headwater.api.catalog import SourceDef
from headwater.api.taking import Taking
from headwater.errors import StageMissing
from headwater.feeds.directory import DirectoryFeed


class Directories(Taking):
    """The part of a database that knows directories."""

    def directories(self) -> dict[str, SourceDef]:
        """The sources whose rows are files of a directory."""
        return {n: s for n, s in self.catalog.sources.items() if s.is_directory}

    def new_files(self, source: str) -> list[str]:
        """The files in a source's directory that were not taken, in the order in which they will be."""
        made = self.catalog.sources[self.catalog.named(source)]
        if not self._is_opened(made):
            raise not_named(made)
        feed = self._opened[made.name].opened()
        assert isinstance(feed, DirectoryFeed)
        return feed.new(self._cursor(made.name))


def not_named(made: SourceDef) -> StageMissing:
    """What is said of a directory that this process has not named."""
    return StageMissing(
        f"the source `{made.name}` has a directory that this process has not named: {made.path}",
        hint="declare it again with db.source(..., path=...); one that is declared without a path has none any more",
    )
