"""Replacing: views get other queries in one commit, and those that read them follow.

    replace(F → F′) = define F′, where what F′ and F have in common stays

What is new is filled from what is there, what nobody needs any more is dropped, and until the commit, and by time travel after
it, the old answer is read. Readers, stages and copies are told the difference of both answers.

To rebuild is to replace every view by its own query. Those that are kept exactly have the rows that they had; a loop in diffuse mode
starts anew and has others, and with it all that reads it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace as replaced
from typing import Any

from headwater.api.catalog import SETTINGS, Catalog, ViewDef, facts_of
from headwater.api.declaring import Declaring
from headwater.api.dropping import without_maps
from headwater.api.editing import Edit, Editing, Given, names_read
from headwater.api.feeding import Told
from headwater.api.feeds import REBUILD, REPLACE, Held, difference, is_near
from headwater.api.handles import Commit, ViewHandle
from headwater.api.nearness import EXACT, ROUNDS, Error, error_of, mode_as, mode_of
from headwater.api.over import Over, forget_found, hidden_at
from headwater.calculus.check import type_of
from headwater.calculus.types import RecordType
from headwater.dataflow.maps import is_of_graph
from headwater.engine.ledgers import LEDGER
from headwater.engine.rings import spec_of
from headwater.engine.spark.session import Counts
from headwater.engine.working import Working
from headwater.errors import HeadwaterError, Purged, QueryError
from headwater.language.queries import read_query, text_of
from headwater.plan import stored
from headwater.plan.adopting import Adopting, Adoption
from headwater.plan.analysis import rounds_of
from headwater.plan.compiler import STRATEGIES
from headwater.plan.maps import key_fields
from headwater.plan.program import Program
from headwater.show.edits import explain_edit
from headwater.show.explain import explain_can
from headwater.state.store import Commit as StoreCommit


class Replacing(Declaring):
    """The part of a database that gives views other queries."""

    def view(
        self,
        name: str,
        query: Any,
        *,
        strategy: str = "auto",
        key: str | Sequence[str] | None = None,
        replace: bool = False,
        mode: str = "exact",
        cut: float | None = None,
        near: float | None = None,
        rounds: int = ROUNDS,
    ) -> ViewHandle:
        """Declares a view and computes it from what is there; again with the same query it is no change.

        `key` names the columns that its rows are looked up by; of a nested view the first column unless it is given. With
        `replace`, a view that is there gets this query in one commit, and views that read it follow: what both have in
        common is kept, and the rest is filled. It is refused where a reader names a column that the view has no more
        (`replace_views` replaces both), and where rows that were told to be final would not be.

        With mode="diffuse" the loops of the query are kept near their fixpoint, with one state instead of one a round: a row is
        told when it is further than `cut` from what was told of its key last, and the changes that it makes are told in
        turn, at most `rounds` times in an increment. With `near`, fractions in the keys of groups that are that near are
        one. `error` says how far the rows are from the fixpoint, `Commit.withheld` how many were not told.
        """
        known = self.catalog.named(name) if isinstance(name, str) else name
        if not replace or known not in self.catalog.views:
            return super().view(
                name,
                query,
                strategy=strategy,
                key=key,
                mode=mode,
                cut=cut,
                near=near,
                rounds=rounds,
            )
        if strategy not in STRATEGIES:
            raise QueryError(f"`{strategy}` is no strategy", hint=f"one of {', '.join(STRATEGIES)}")
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        self._replaced({known: Given(query, strategy, keys, mode_of(mode, cut, near, rounds))})
        return ViewHandle(self, known)

    def replace_views(self, queries: Mapping[str, Any]) -> Commit:
        """Gives several views other queries in one commit, and defines those that are not there.

        They are given as a dict by name, in any order. A view that is there keeps its strategy, its key and its mode. One
        that is given the query that it has is read anew over what is replaced, and may have other columns then.
        """
        if not isinstance(queries, Mapping):
            raise QueryError(
                f"the queries are of type {type(queries).__name__}",
                hint="give a dict with a query for each view: {'totals': 'SELECT ...'}",
            )
        check_names(queries, "given")
        given: dict[str, Given] = {}
        for n, query in queries.items():
            known = self.catalog.views.get(self.catalog.named(n))
            given[self.catalog.named(n)] = (
                Given(query)
                if known is None
                else Given(query, known.strategy, known.key, mode_as(known))
            )
        return self._replaced(given)

    def comment(self, name: str, text: str) -> None:
        """Says something of a view, which SHOW VIEWS shows; in a commit that changes no rows, unless it is said already."""
        with self._locked():
            self._writing()
            known = self.catalog.views.get(self.catalog.named(name))
            if known is None:
                raise self._unknown(name)
            if not isinstance(text, str):
                raise QueryError(f"the comment of `{name}` is {text!r}", hint="give it as text")
            if known.comment != text:
                made = replaced(known, comment=text)
                views = {**self.catalog.views, known.name: made}
                becomes = Catalog(self.catalog.sources, views), self.program
                with self._commit(f"comment {known.name}", becomes, minor=True) as commit:
                    commit.set(*facts_of(made))

    def error(self, name: str) -> Error:
        """How far a view in diffuse mode is from the fixpoint of its loops, which are computed anew from the sources."""
        return error_of(self, name)

    def can(
        self,
        query: Any,
        closes: Mapping[str, Any] | None = None,
        instead_of: str | None = None,
        *,
        mode: str | None = None,
        cut: float | None = None,
        near: float | None = None,
        rounds: int = ROUNDS,
    ) -> str:
        """What would be kept for a query, and what a change would cost; nothing is defined. Or why it cannot be.

        With `closes`, the schemes of some sources in the form that `source` takes, what would grow if they had these.
        With `instead_of`, what replacing that view by the query would keep, fill and drop, and what it would read; in the mode
        that the view has, unless another one is given. `mode`, `cut`, `near` and `rounds` are those of `view`.
        """
        asked = None
        if (mode, cut, near, rounds) != (None, None, None, ROUNDS):
            asked = mode_of(mode or "exact", cut, near, rounds)
        if instead_of is None:
            return self._can(query, closes, asked or EXACT)
        name, known = self.catalog.named(instead_of), self._defined
        if name not in known.catalog.views:
            raise self._unknown(instead_of)
        if closes is not None:
            raise QueryError(
                "both `closes` and `instead_of` are given", hint="ask for one after the other"
            )
        was = known.catalog.views[name]
        edit = self._edit({name: Given(query, was.strategy, was.key, asked or mode_as(was))})
        self._check_read(edit)
        again = self._filled_again(edit)
        adopts = self._adopts(edit, again)
        runs = self.store.at(known.version).version.maps
        entries = {n: sum(r.rows for r in refs) for n, (_, refs) in runs.items()}
        made = edit.catalog.views[name]
        told = explain_can(known.program, edit.program, name, made.kept, made.why)
        return f"{told}\n{explain_edit(known.program, edit.program, edit.moved, again, adopts, entries)}"

    # --- one edit -------------------------------------------------------------------------------------------------------

    def _edit(self, given: Mapping[str, Given], again: Mapping[str, Given] | None = None) -> Edit:
        """What the database would become if views had other queries, and those of `again` were read anew over them."""
        known = self._defined
        editing = Editing(known.catalog, known.program, given, again)

        def read(query: Any, schemas: Any) -> Any:
            return read_query(query, schemas, self.ask)

        return editing.edited(read, self._checked, self._sampled(), known.version + 1)

    def _replaced(self, given: Mapping[str, Given]) -> Commit:
        """Plans, fills and commits views with other queries; what has its query already follows what it reads."""
        started = time.perf_counter()
        with self._locked():
            self._writing()
            new, again = self._divided(given)
            for n in new:
                if n not in self.catalog.views:
                    self._check_name(n)
            if not new:
                return Commit(self.version, repeated=True, database=self)
            self.session.counts = counts = Counts()
            edit = self._edit(new, again)
            size = self._commit_edit(edit, REPLACE + ", ".join(new))
            assert self._writer is not None
            return Commit(
                self.version,
                seconds=time.perf_counter() - started,
                bytes=size,
                jobs=counts.jobs,
                exchanges=counts.exchanges,
                hops=counts.hops,
                rounds=rounds_of(self.program, self._rounds),
                warnings=self._writer.warnings(),
                database=self,
            )

    def _divided(self, given: Mapping[str, Given]) -> tuple[dict[str, Given], dict[str, Given]]:
        """The views that are given another query than they have, and those that are given the one that they have."""
        same = {n for n, g in given.items() if self._is_as_given(n, g)}
        new = {n: g for n, g in given.items() if n not in same}
        return new, {n: g for n, g in given.items() if n in same}

    def _is_as_given(self, name: str, given: Given) -> bool:
        """Whether a view is there with this query, and would be read from it as it is."""
        known, query = self.catalog.views.get(name), given.query
        asked = given.strategy, given.key, given.mode
        if known is None:
            return False
        if isinstance(query, str):
            if not self._is_defined(name, query, *asked):
                return False
            if not self._has_other_columns(known):
                return True
        try:
            text, _, term = read_query(query, self.catalog.schemas(), self.ask)
            row = RecordType(tuple(key_fields(type_of(term))))
        except HeadwaterError:  # the edit says why, unless it reads what is given with it
            return False
        same = (text_of(term), row) == (known.term, known.type.key)
        return same and self._is_defined(name, text, *asked)

    def _has_other_columns(self, view: ViewDef) -> bool:
        """Whether a source that a view names has got columns since the view was read, so that its text may say more."""
        since = max(view.created, view.replaced)
        # A source that gets wider columns and more in one commit replaces the view, which reads the old ones.
        grown = {n.lower() for n, s in self.catalog.sources.items() if s.added >= since}
        return bool(grown) and not grown.isdisjoint(names_read(self.catalog.term(view.name), view))

    def _commit_edit(
        self,
        edit: Edit,
        note: str,
        adopts: Adoption | None = None,
        first: Callable[[StoreCommit, Working], Program] | None = None,
    ) -> int:
        """Fills the maps that an edit has new, tells what changed, and commits. Gives the bytes written.

        `adopts` is what new maps take over, if that is known. `first` does what is to be done before maps are filled, and gives
        the program of what is there by then.
        """
        before, after, graph = self._defined, edit.program, self.graph
        self._check_read(edit)
        for n in edit.planned:
            self._register(edit.catalog.views[n])
        lacking = self._filled_again(edit)
        adopts = self._adopts(edit, lacking) if adopts is None else adopts
        assert self._writer is not None
        self._spare({*self._writer.dead})  # the new plan may read what nobody read of the old one
        with self._commit(note, (edit.catalog, after)) as commit:
            for key, value in stored.facts_of(after).items():  # all, for their places are others
                commit.set(key, value)
            for n, source in edit.catalog.sources.items():
                if source != before.catalog.sources.get(n):
                    commit.set(*facts_of(source))
            for n, made in edit.catalog.views.items():
                if made != before.catalog.views.get(n):
                    commit.set(*facts_of(made))
            forget_found(commit, after)
            for n in before.program.maps:
                if n not in after.maps or n in lacking:
                    commit.drop(n)
            for n, m in after.maps.items():
                if n not in before.program.maps or n in lacking:
                    commit.create(spec_of(m))
            self._specs = {}  # maps of one name may have other columns
            working = self._working(commit, after)
            working.refs = {n: r for n, r in working.refs.items() if n not in lacking}
            working.refs |= {n: commit.adopt(n, a.of.name) for n, a in adopts.maps.items()}
            working.hidden = {n: p for n, p in working.hidden.items() if n not in edit.moved}
            with self._telling("writing"):
                known = without_maps(
                    before.program if first is None else first(commit, working), lacking
                )
                old = self._reading(self._snapshot(before.version), before)
                self._fill(commit, working, after, known, adopts, old)
                views = [after.views[n] for n in edit.moved]
                for view in views:
                    if view.strategy == "recompute":
                        made = edit.catalog.views[view.name]
                        self._recompute(working, view, edit.catalog, made)
                becomes = edit.catalog, after
                replaced = [n for n in edit.moved if n in before.program.views]
                self._tell_first(commit, working, views, becomes, replaced)
                told = self._tell_instead(commit, working, becomes, edit.moved)
            made_runs = self._written(working)
            size = self._add_made(commit, made_runs)
            sent = self._send(commit, graph, told, made_runs)
            self._set_graph(commit, sent, graph)
        self._became(sent)
        return size

    def _filled_again(self, edit: Edit) -> set[str]:
        """The maps that both programs have by name, and that are filled again: entries may be gone, or columns be others."""
        lacking = {m for n in edit.moved for m in self._lacking(edit.program, n)}
        others = _of_other_columns(self.program, edit.program)
        return lacking | (filled_together(edit.program, others) & self.program.maps.keys())

    def _adopts(self, edit: Edit, lacking: set[str]) -> Adoption:
        """The new maps that begin with what others had; none where entries of those may be gone."""
        if self._promises_something():
            return Adoption()
        return Adopting(self.program, edit.program, lacking).found()

    def _tell_instead(
        self,
        commit: StoreCommit,
        working: Working,
        becomes: tuple[Catalog, Program],
        moved: Sequence[str],
    ) -> Told:
        """Puts the difference of both answers of views that stages read among what the commit writes."""
        told, graph, (catalog, program) = Told(), self.graph, becomes
        wanted = [n for n in moved if n in self._wanted(graph)]
        if not wanted:
            return told
        facts = {**commit.base.facts, **commit.change.facts}
        over = Over.read({k: v for k, v in facts.items() if v is not None}, catalog)
        working.hidden, working.never = hidden_at(over, catalog), over.begins
        known = self._defined
        old = self._reading(self._snapshot(known.version), known)
        for n in wanted:
            was = Held(known.program, known.program.views[n], old)
            now = Held(program, program.views[n], working)
            table = difference(was, now, self.session.evaluate)
            self._tell_rows(told, working, n, table, graph.inputs, graph.looked_up)
        return told

    def _check_read(self, edit: Edit) -> None:
        """Raises where somebody reads a view who cannot follow: a stream, or a stage or a ledger with other columns."""
        was, now = self.program.views, edit.program.views
        for n in edit.moved:
            if n not in was:
                continue
            for stream in self.stream_defs.values():
                if n in stream.inputs:
                    raise QueryError(
                        f"the stream `{stream.name}` takes the final rows of `{n}`, and has taken some in order",
                        hint=f"drop `{stream.name}` first, and define it again",
                    )
            same = was[n].type == now[n].type
            stages = self.graph.stages.values()
            for stage in stages:
                reads = n in stage.inputs or n in [what for what, _ in stage.looks_up]
                if reads and not (same and not was[n].parts and not now[n].parts):
                    what = "nested rows" if same else "other columns"
                    raise QueryError(
                        f"[REPLACE_COLUMNS] the stage `{stage.name}` reads `{n}`, which would have {what}",
                        hint=f"drop `{stage.name}` first, or define a view of another name",
                    )
            ledger = self.store.at(self.version).version.maps.get(f"{LEDGER}{n}")
            if ledger is not None and ledger[1] and not same:
                raise Purged(
                    f"rows of `{n}` were told to be final, and the new query has other columns",
                    hint="drop the view and define it again, or take another name",
                )

    # --- all views anew --------------------------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Chooses anew what to keep for all views, and computes it from the sources, in one commit."""
        with self._locked():
            self._writing(stale=True)
            self._rebuild(REBUILD)

    def upgrade(self) -> None:
        """Makes the Spark of this session the one that answers are given by: all views are computed again and verified."""
        with self._locked():
            self._writing(stale=True, other_spark=True)
            before = self.session.adopt(self.session.settings_now())
            try:
                self._rebuild(REBUILD)
            except BaseException:
                self.session.adopt(before)
                raise
        self.verify()

    def _rebuild(self, note: str) -> None:
        purged = [
            s.name
            for s in self.catalog.sources.values()
            if s.retain == "open" and s.name in self.over.closed
        ]
        if purged:
            raise Purged(
                f"`{purged[0]}` keeps open rows only, so that its views cannot be computed anew",
                hint="views go on as they are; only with retain=True can they be rebuilt",
            )
        graph = self.graph
        catalog, program = self.catalog.chosen_again(
            lambda q, known: read_query(q, known, self.ask)[2], self._sampled()
        )
        sources = {m.name for s in catalog.sources.values() for m in s.all_maps}
        assert self._writer is not None
        self._spare({*self._writer.dead})  # the new plan may read what nobody read of the old one
        with self._commit(note, (catalog, program)) as commit:
            if commit.base.facts.get(SETTINGS) != self.session.settings():
                commit.set(SETTINGS, self.session.settings())
            for made in catalog.views.values():
                commit.set(*facts_of(made))
            forget_found(commit, program)
            for name in commit.base.maps:
                if name not in sources and not is_of_graph(name):
                    commit.drop(name)
            for name, m in program.maps.items():
                if name not in sources:
                    commit.create(spec_of(m))
            working = self._working(commit, program)
            # Ledgers stay: what they have is not told again.
            held = {n: r for n, r in working.refs.items() if n in sources or n.startswith(LEDGER)}
            working.refs = held
            with self._telling("writing"):
                self._fill(commit, working, program, catalog.of_sources())
                for name, view in program.views.items():
                    if view.strategy == "recompute":
                        self._recompute(working, view, catalog, catalog.views[name])
                views = program.views.values()
                self._tell_first(commit, working, views, (catalog, program))
                moved = [  # what is kept exactly has the rows that it had
                    n
                    for n in sorted(self._wanted(graph))
                    if any(is_near(p, p.views[n]) for p in (self.program, program))
                ]
                told = self._tell_instead(commit, working, (catalog, program), moved)
            made_runs = self._written(working)
            self._add_made(commit, made_runs)
            sent = self._send(commit, graph, told, made_runs)
            self._set_graph(commit, sent, graph)
        self._became(sent)


def check_names(names: Iterable[Any], how: str) -> None:
    """Raises where a name of a view is no text, or there twice; upper and lower case are the same."""
    seen: set[str] = set()
    for n in names:
        if not isinstance(n, str):
            raise QueryError(
                f"the name {n!r} of a view is of type {type(n).__name__}",
                hint="give it as text: {'totals': 'SELECT ...'}",
            )
        if n.lower() in seen:
            raise QueryError(
                f"the view `{n}` is {how} twice",
                hint="name one of them otherwise: upper and lower case are the same",
            )
        seen.add(n.lower())


def filled_together(program: Program, maps: set[str]) -> set[str]:
    """Maps with those that are filled with them: all of an answer, whose bags tell its group, and all of a loop."""
    out, size = set(maps), -1
    answers = [{m.name for m in s.maps} for s in program.strata.values()]
    inside = program.inside()
    loops = [{n for n, x in inside.items() if x is loop} for loop in program.loops.values()]
    while len(out) > size:
        size = len(out)
        out |= {n for found in (*answers, *loops) if not out.isdisjoint(found) for n in found}
    return out


def _of_other_columns(before: Program, after: Program) -> set[str]:
    """The maps that both programs have by name, and that are kept in other columns."""
    both = before.maps.keys() & after.maps.keys()
    return {
        n
        for n in both
        if before.maps[n] is not after.maps[n]
        and (spec_of(before.maps[n]), before.maps[n].ring)
        != (spec_of(after.maps[n]), after.maps[n].ring)
    }
