"""Renaming: a source, view or sink gets another name in one commit, and whoever reads it goes on.

    rename(x → y) = everything that was said of x, said of y

No row is written: maps get the names that their terms have now (`plan/renaming`) and take over the runs that are there. The
queries of views are stored with the new name in them; of functions and terms, which have no text to rewrite, the stored term is.
What is called `y` now is read under that name at every version, also at those in which it was `x`. Stages and streams are programs
that name what they read, and cannot follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

from headwater.api.cascading import Cascading
from headwater.api.catalog import SEEN, SOURCE, VIEW, Catalog, ViewDef, facts_of
from headwater.api.feeds import RENAME
from headwater.api.over import BEGINS, CLOSED, FOUND, MARKS, TOLD
from headwater.api.sinking import SINK, SUNK
from headwater.calculus.deep import with_room
from headwater.calculus.notation.parse import parse
from headwater.calculus.terms import Term
from headwater.calculus.types import MapType
from headwater.dataflow.graph import NODE, SCHEDULE
from headwater.engine.late import ASIDE
from headwater.engine.ledgers import LEDGER
from headwater.errors import HeadwaterError, InUse, QueryError
from headwater.feeds.feed import FILES, FROM, REJECTED
from headwater.io.sequences import SEQUENCES
from headwater.language.queries import read_query, text_of
from headwater.language.sql.renaming import with_tables
from headwater.plan import stored
from headwater.plan.equal_maps import canonical
from headwater.plan.program import Program
from headwater.plan.renaming import in_term, renamed
from headwater.state.store import Commit as StoreCommit

OF_NAMES = (SOURCE, VIEW, SEEN, CLOSED, MARKS, TOLD, BEGINS, FOUND, NODE)
"""Facts that are called after a source, a view, a map or an answer."""
OUTSIDE = {
    "kafka": ("topic", "group"),
    "postgres": ("table", "slot"),
    "streaming": ("checkpoint",),
}
"""Options of feeds that are the name of their source unless they are said: what is outside keeps its name."""
OUTSIDE_SINKS = {"kafka": ("topic",), "postgres": ("table",)}


class Renaming(Cascading):
    """The part of a database that gives things other names."""

    def rename(self, old: str, new: str) -> None:
        """Gives a source, view or sink another name, in one commit; views and sinks that read it go on.

        The queries of views that read it say the new name from then on. Earlier versions are read under the new name, too. Records
        that were set aside (`<name>_rejected`) follow. It is refused where a stage or stream reads it, for these name it in their
        program.
        """
        for n in (old, new):
            if not isinstance(n, str):
                raise QueryError(f"{n!r} is no name", hint="give it as text: 'orders'")
        with self._locked():
            self._writing()
            if old in self.sink_defs:
                return self._rename_sink(old, new)
            name = self.catalog.named(old)
            self._check_renamed(name, new)
            if name == new:
                return None
            names = {name: new} | {
                n: f"{new}{n.removeprefix(name)}"
                for n, s in self.catalog.sources.items()
                if s.written == name and n in (f"{name}{REJECTED}", f"{name}{FILES}")
            }
            for n, now in names.items():
                if n.lower() != now.lower():
                    self._check_name(now)
                self._check_followed(n)
            return self._renamed(name, names)

    def _check_renamed(self, name: str, new: str) -> None:
        """Raises unless there is such a source or view, which may have another name."""
        source = self.catalog.sources.get(name)
        what = ""
        if name in self.graph.stages:
            what = "a stage"
        elif name in self.stream_defs:
            what = "a stream"
        elif source is not None and source.written:
            what = f"written by `{source.written}`"
        if what:
            raise QueryError(
                f"`{name}` is {what}, and cannot have another name",
                hint="rename the source"
                if source is not None and source.written in self.catalog.sources
                else "it is called so in the program that runs it: drop it, and define it by the new name",
            )
        if source is None and name not in self.catalog.views:
            raise self._unknown(name)
        if new.lower() == name.lower() and not new.isidentifier():
            self._check_name(new)
        if source is not None and new != name:
            lacking = [n for n in OUTSIDE.get(source.format or "", ()) if n not in source.options]
            if lacking:
                raise InUse(
                    f"`{name}` cannot have another name, for its {lacking[0]} outside is called after it",
                    hint="a checkpoint cannot be moved: declare a source of the new name"
                    if source.format == "streaming"
                    else f"declare it again with {' and '.join(f'{n}=' for n in lacking)} as they are now, and rename it then",
                )

    def _check_followed(self, name: str) -> None:
        """Raises where somebody reads it who cannot follow."""
        graph = self.graph
        stages = [*graph.readers(name)]
        stages += [s.name for s in graph.stages.values() if name in [w for w, _ in s.looks_up]]
        streams = [d.name for d in self.stream_defs.values() if name in d.inputs]
        for kind, readers in (("stage", stages), ("stream", streams)):
            if readers:
                raise InUse(
                    f"`{name}` cannot have another name, for the {kind} `{readers[0]}` reads it by this one",
                    hint=f"drop `{readers[0]}` first, and define it again behind",
                )

    # --- sources and views --------------------------------------------------------------------------------------------

    def _renamed(self, name: str, names: Mapping[str, str]) -> None:
        """Commits other names of a source, with what is beside it, or of a view."""
        known = self._defined
        relations = {
            r: now + r.removeprefix(n)
            for n, now in names.items()
            if n in known.catalog.sources
            for r in known.catalog.sources[n].relations
        }
        views = {n: now for n, now in names.items() if n in known.catalog.views}
        program, at = renamed(known.program, relations, views)
        catalog = self._catalog_with(names, at)
        with self._commit(f"{RENAME}{name} to {names[name]}", (catalog, program)) as commit:
            for key, value in stored.facts_of(program).items():  # all, for their places are others
                commit.set(key, value)
            own = {**at, **names}
            self._move_facts(commit, own)
            for source in catalog.sources.values():
                if source != known.catalog.sources.get(source.name):
                    commit.set(*facts_of(source))
            for view in catalog.views.values():
                if view != known.catalog.views.get(view.name):
                    commit.set(*facts_of(view))
            self._move_maps(commit, program, at, names)
            for sink in self.sink_defs.values():
                if sink.of in names:
                    commit.set(f"{SINK}{sink.name}", asdict(replace(sink, of=names[sink.of])))
        self._move_here(names)

    def _catalog_with(self, names: Mapping[str, str], at: Mapping[str, str]) -> Catalog:
        """The catalog in which something has another name, and views read it by that."""
        known, version = self.catalog, self.version + 1
        out = Catalog()
        for n, source in known.sources.items():
            if n in names:
                called = (*source.called, f"{version} {n}")
                made = replace(source, name=names[n], held_in=(), called=called)
                held = [at.get(m, m) for m in source.held_in] if source.retain else []
                made = replace(made, held_in=tuple(held or [m.name for m in made.all_maps]))
                source = replace(made, written=names.get(made.written, made.written))
            out.sources[source.name] = source
        for n, view in known.views.items():
            if n in names:
                view = replace(view, name=names[n], called=(*view.called, f"{version} {n}"))
            out.views[view.name] = view
        schemas = out.schemas()
        for reader in dict.fromkeys(r for n in names for r in known.readers(n)):
            made_of = known.views[reader]
            now = names.get(reader, reader)
            text, term = self._text_and_term(made_of, names, schemas)
            out.views[now] = replace(out.views[now], text=text, term=term)
        return out

    @with_room
    def _text_and_term(
        self, view: ViewDef, names: Mapping[str, str], schemas: dict[str, MapType]
    ) -> tuple[str, str]:
        """The text and the term of a view that reads something by its new name; refused where they would not say the same."""
        term = in_term(self.catalog.term(view.name), names)
        read = next((t for t in (term, canonical(term)) if _is_read(t, schemas)), None)
        text = view.text
        if view.language == "sql":
            low = {n.lower(): now for n, now in names.items()}
            try:
                text = with_tables(view.text, low)
                was = in_term(read_query(view.text, self.catalog.schemas(), self.ask)[2], names)
                now = read_query(text, schemas, self.ask)[2]
                read = read if canonical(was) == canonical(now) else None
            except HeadwaterError:
                read = None
        elif read is not None:
            text = text_of(read)
        if read is None:
            raise QueryError(
                f"the view `{view.name}` cannot follow: its query would not say the same with the new name",
                hint=f"take another name, or drop `{view.name}` first and define it again behind",
            )
        return text, text_of(read)

    # --- what is kept under names -------------------------------------------------------------------------------------

    def _move_facts(self, commit: StoreCommit, names: Mapping[str, str]) -> None:
        """Facts that are called after something are called after its new name."""
        facts = commit.base.facts
        for key, value in facts.items():
            kind, colon, name = key.partition(":")
            now = names.get(name, name)
            if kind + colon == FROM:
                now = next(
                    (
                        to + name.removeprefix(n)
                        for n, to in names.items()
                        if name == n or name.startswith((f"{n}/", f"{n}:"))
                    ),
                    name,
                )
            elif kind + colon not in OF_NAMES:
                continue
            if now != name:
                commit.set(key, None)
                if kind + colon not in (SOURCE, VIEW):
                    commit.set(f"{kind}:{now}", value)
        counters = facts.get(SCHEDULE)
        if counters is not None:
            parts = {
                part: {names.get(n, n): x for n, x in counters[part].items()}
                for part in ("runs", "since")
            }
            commit.set(SCHEDULE, {**counters, **parts})

    def _move_maps(
        self,
        commit: StoreCommit,
        program: Program,
        at: Mapping[str, str],
        names: Mapping[str, str],
    ) -> None:
        """Maps under their new names, with the runs that they have."""
        moved = {n: at[n] for n in self.program.maps if at.get(n, n) != n}
        for n, now in names.items():
            moved |= {f"{kind}{n}": f"{kind}{now}" for kind in (LEDGER, ASIDE, SEQUENCES)}
        assert self._writer is not None
        self._spare({*self._writer.dead})  # the next commit says what is dead, by the names of now
        for n, now in moved.items():
            if n in commit.base.maps:
                commit.create(replace(commit.base.maps[n][0], name=now))
                commit.drop(n)
                commit.adopt(now, n)

    def _move_here(self, names: Mapping[str, str]) -> None:
        """What this process has open goes on under the new names."""
        for n, now in names.items():
            self._regions.pop(n, None)
            opened = self._opened.pop(n, None)
            if opened is not None:
                opened.close()
                opened.declared = replace(opened.declared, name=now)
                self._opened[now] = opened
        for name, here in self._sinks.items():
            if here.made.of in names:
                here.made = replace(here.made, of=names[here.made.of])
                self._shut(name)

    def _shut(self, name: str) -> None:
        here = self._sinks[name]
        if here.sink is not None:
            here.sink.close()
        here.sink = here.schema = None

    # --- sinks --------------------------------------------------------------------------------------------------------

    def _rename_sink(self, old: str, new: str) -> None:
        """Gives a sink another name; its target stays where it is."""
        made = self.sink_defs[old]
        if old == new:
            return
        if old.lower() != new.lower():
            self._check_name(new)
        lacking = [n for n in OUTSIDE_SINKS.get(made.format, ()) if n not in made.options]
        if lacking:
            raise InUse(
                f"the sink `{old}` cannot have another name, for its {lacking[0]} is called after it",
                hint=f"declare it again with {lacking[0]}={old!r}, and rename it then",
            )
        with self._commit(f"{RENAME}{old} to {new}", minor=True) as commit:
            commit.set(f"{SINK}{old}", None)
            commit.set(f"{SINK}{new}", asdict(replace(made, name=new)))
            if (place := commit.base.facts.get(f"{SUNK}{old}")) is not None:
                commit.set(f"{SUNK}{old}", None)
                commit.set(f"{SUNK}{new}", place)
        self._sinks_held.pop(old, None)
        if old in self._sinks:
            self._shut(old)
            here = self._sinks[new] = self._sinks.pop(old)
            here.made = replace(here.made, name=new)


def _is_read(term: Term, schemas: dict[str, MapType]) -> bool:
    """Whether a term is read as itself from its text."""
    try:
        return parse(text_of(term), schemas) == term
    except HeadwaterError:
        return False
