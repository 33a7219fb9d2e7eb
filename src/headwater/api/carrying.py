"""Carrying: changes of relations, carried through all maps of a program; by `apply`, and by what follows from it in a commit."""

from __future__ import annotations

from collections.abc import Collection

from headwater.api.bring_in import checked_change
from headwater.api.catalog import Catalog, ViewDef, as_stored, check_functions
from headwater.api.punctuating import Punctuating
from headwater.api.verify import Verifier
from headwater.engine.change import Change
from headwater.engine.increment import Increment
from headwater.engine.recomputed import put_instead
from headwater.engine.working import Working
from headwater.language.functions import DEFINED
from headwater.plan.program import View


class Carrying(Punctuating):
    """The part of a database that carries changes through its maps."""

    def _carry(
        self,
        working: Working,
        staged: dict[str, Change],
        wanted: frozenset[str] = frozenset(),
        again: bool = False,
        known: Collection[str] = (),
    ) -> tuple[dict[str, int], Increment]:
        """Carries staged changes through all maps. Gives how many deletions were ignored by source, and the increment.

        `again` is for what a commit carries after something else, whose outcome it starts from; relations whose
        change is `known` to fit are not checked.
        """
        for view in self.catalog.views.values():
            self._register(view)
        with as_stored(self.version), self._telling("writing"):
            ignored = checked_change(self.catalog, self.path, staged, working, known)
            increment = Increment(
                self.program, working, self.session, self.path, self.policy.most_carried, wanted
            )
            increment.may_refill = not any(s.closes for s in self.catalog.sources.values())
            at_once = self.policy.at_once(sum(c.rows for c in staged.values()))
            at_once = at_once and not again and increment.possible_at_once(staged)
            increment.run(staged, in_sequence=not at_once)
            self._visited(increment)
            for name, kept in self.program.views.items():
                if kept.strategy == "recompute":
                    self._recompute(working, kept, self.catalog, self.catalog.views[name])
        return ignored, increment

    def _visited(self, increment: Increment) -> None:
        """Notes the rounds that an increment visited, one after another where there are several in a commit."""
        for loop, visited in increment.rounds.items():
            self._rounds[loop] = [*self._rounds.get(loop, ()), *visited]

    def _register(self, view: ViewDef) -> None:
        check_functions(view)
        for name in view.functions:
            f = DEFINED[name]
            self.session.register(name, f.__wrapped__, str(f.returns))

    def _recompute(self, working: Working, view: View, catalog: Catalog, made: ViewDef) -> None:
        """Computes the answer of a view with the strategy `recompute` anew, and adds its difference from the old one."""
        answer = Verifier(self).answer(working, catalog, made)
        put_instead(working, view, answer, self.session.evaluate)
