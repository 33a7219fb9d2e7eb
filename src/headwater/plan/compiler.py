"""Strata: a view cut where an answer is needed.

`each k ↦ v in m collect s` (GROUP BY, DISTINCT) and `let v := m in s` (an aggregate without groups) are answers:
`m` is linear and becomes a map keyed by the group, `s` is evaluated again for the groups that a change touches.
The relation that it yields is an input of the stratum above. Components of `v` that are bags become maps of their
own beside it: in order for min and max, by value for the DISTINCT forms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headwater.calculus.check import type_of
from headwater.calculus.deep import with_room
from headwater.calculus.notation.text import show
from headwater.calculus.terms import (
    Answer,
    Each,
    Field,
    Let,
    Num,
    Record,
    Rel,
    Repeat,
    Sng,
    Term,
    Times,
    Var,
    relations,
    substitute,
    subterms,
)
from headwater.calculus.types import (
    INT,
    MapType,
    RecordType,
    bag,
)
from headwater.errors import NotIncremental, UnknownName
from headwater.plan.answer_terms import summed
from headwater.plan.answers import Answering
from headwater.plan.choose import MOST_STATEMENTS, Data, TooMuchWork, Work
from headwater.plan.diffuse import Diffusing, check_no_loops, diffused
from headwater.plan.equal_maps import canonical, digest
from headwater.plan.loops import Looping, looped
from headwater.plan.maps import checked, key_fields, map_of
from headwater.plan.nested.form import Form, apart, form_of, is_plain
from headwater.plan.nested.opening import compares_cells
from headwater.plan.nested.ownership import Owned
from headwater.plan.nested.views import nested_parts
from headwater.plan.passes import (
    OF_QUERY,
    OF_SUM,
    OF_VIEW,
    Pass,
    Passed,
    but,
    name_unions,
    read_as,
    retype_sources,
    said,
)
from headwater.plan.program import (
    WEIGHT,
    Answered,
    Diffusion,
    Map,
    Nested,
    Program,
    Relations,
    Stored,
    Stratum,
    View,
)
from headwater.plan.statements import RULES, Materializer
from headwater.plan.subqueries.cut import Subqueries
from headwater.plan.subqueries.keyed import is_scalar_subquery
from headwater.rules.monomial import Monomial, Signed, summands
from headwater.rules.normalize import normalize

MOST_ASKED_FOR = 3_000
"""Statements of a strategy that was asked for."""
COUNTED = Sng(Record(()), Record((("r0", Num(1, INT)),)))
"""One more of what is counted, at the only key."""
STRATEGIES = ("auto", "recursive", "first-order", "recompute")


class Compiler:
    """Adds views to a program; equal maps and strata are shared.

    `inputs` says what inputs with arrays are compiled as: a nested source is a query over its flat parts. `whole` gives
    the term of a view that is there already, over sources alone.
    """

    def __init__(
        self,
        program: Program,
        inputs: Mapping[Rel, Term],
        owned: Owned | None = None,
        whole: Callable[[str], Term] | None = None,
    ):
        self.program, self.inputs, self.whole = program, dict(inputs), whole
        self.stored: bool | None = False
        self.checks: list[str] = []
        """The counts of failures that what is planned now asks for."""
        self.maps = Materializer(program)
        self.subqueries = Subqueries(self.named, owned)
        self.passed: list[Passed] = []
        self.form: Form | None = None
        self.looping: Looping | None = None
        """The loop whose step is planned now."""
        self.diffusion: Diffusion | None = None
        """How near the loops of the view are kept that is planned now; exactly, if nothing is said."""
        self.diffusing: Diffusing | None = None
        """The loop in diffuse mode whose step is planned now."""

    @property
    def relations(self) -> Relations:
        """What is known of relations."""
        return self.program.relations

    @property
    def keeps_sums(self) -> bool:
        """Whether loops of sums are kept as such: not by earlier rules, and not where a loop is kept near."""
        return self.maps.rules >= 4 and self.diffusion is None

    def fork(self) -> Compiler:
        """A copy to try something on."""
        made = Compiler(self.program.copy(), self.inputs, self.subqueries.owned, self.whole)
        made.diffusion = self.diffusion
        return made

    @with_room
    def choose(
        self, name: str, term: Term, key: Sequence[str] = (), data: Data | None = None
    ) -> tuple[Program, str, str]:
        """The program with a view added by the strategy with less work, which it is, and why."""
        first, most = self._trial(name, term, "first-order", key, Work(data=data))
        try:
            limited = Work(most, MOST_STATEMENTS, data)
            chosen, rows = self._trial(name, term, "recursive", key, limited)
        except TooMuchWork:
            best, chosen, said = "first-order", first, "more"
        else:  # as much work at most, and less to look up
            best, said = "recursive", f"{rows:,.0f}"
        why = (
            f"rows made by one changed row of each input: recursive {said}, first-order {most:,.0f}"
        )
        chosen.maps.complete()
        return chosen.program, best, f"{best}: {why}"

    @with_room
    def asked_for(self, name: str, term: Term, strategy: str, key: Sequence[str]) -> Program:
        """The program with a view added by a strategy that was asked for, within reason."""
        try:
            limited = Work(most_statements=MOST_ASKED_FOR)
            made, _ = self._trial(name, term, strategy, key, limited)
        except TooMuchWork:
            raise NotIncremental(
                "TOO_LARGE",
                f"kept with the strategy `{strategy}` the view needs more than {MOST_ASKED_FOR:,} statements",
                hint="leave the strategy out, or define a part of it as a view of its own",
            ) from None
        made.maps.complete()
        return made.program

    def _trial(
        self, name: str, term: Term, strategy: str, key: Sequence[str], work: Work
    ) -> tuple[Compiler, float]:
        """A copy with a view added, and the work of its maps; `TooMuchWork` if that is more than allowed."""
        made = self.fork()
        made.maps.work = work
        made.view(name, term, strategy, key, None)
        rows, made.maps.work = made.maps.work.rows, Work()
        return made, rows

    def view(
        self,
        name: str,
        term: Term,
        strategy: str,
        key: Sequence[str] = (),
        stored: bool | None = False,
        rules: int = RULES,
    ) -> View:
        """Adds a view; the relations that it reads are sources, or views that are there already.

        Rows of a nested view are looked up by the columns `key`. With `stored` the rows of an answer are kept; None
        keeps them where only Spark gives the answer, so that reading needs none. `rules` says by which it is planned.
        """
        self.stored, self.maps.rules, self.checks = stored, rules, []
        self.subqueries.shares = rules >= 2
        views = [v for r in relations(term) if (v := self.program.views.get(r.name)) is not None]
        t = type_of(term)
        if not isinstance(t, MapType) or t.value != INT:
            raise NotIncremental("SHAPE", "a view is a bag of rows", hint="select rows")
        _check_names(term)
        row = RecordType(tuple(key_fields(t)))
        if strategy == "recompute":
            rows = _recomputed(name, substitute(term, self._wholes(views)), row)
            self.program.maps[rows.name] = rows
            made = View(name, row, strategy, Stored(rows))
        else:
            self.strategy = "first-order" if strategy == "first-order" else "recursive"
            wholes = {Rel(v.name, bag(v.type)): self._read(v) for v in views}
            if self.diffusion is not None:
                check_no_loops(wholes)
            read = substitute(term, wholes)
            made = self._kept(name, read, row, strategy, key)
            assert self.form is not None
            made = replace(
                made,
                checks=tuple(dict.fromkeys(self.checks)),
                form=f"{self.form.kind}: {self.form.why}",
                passes=tuple(dict.fromkeys((p.of, p.name) for p in self.passed)),
            )
        self.program.views[name] = made
        return made

    def _read(self, view: View) -> Term:
        """What a view is read as: the relation of its answer where it has one, which is kept already; else its term."""
        if view.stratum is not None and self.maps.rules >= 1:
            return Rel(view.stratum, bag(view.type))
        if isinstance(view.rows, Stored):
            for told, name in self._told().items():
                if told == view.rows.map.name:
                    return Rel(name, bag(view.type))
        return self._wholes([view])[Rel(view.name, bag(view.type))]

    def _told(self) -> dict[str, str]:
        """The maps that hold what loops in diffuse mode told last, and the relation of each."""
        loops = [x for x in self.program.loops.values() if x.diffuse is not None]
        return {
            m.name: n
            for x in loops
            for m, n in zip(x.diffuse.told, x.collections, strict=True)  # type: ignore[union-attr]
        }

    def _wholes(self, views: Sequence[View]) -> dict[Rel, Term]:
        """Views as terms over sources alone."""
        assert self.whole is not None or not views, "nobody knows the terms of views"
        return {Rel(v.name, bag(v.type)): self.whole(v.name) for v in views if self.whole}

    def _kept(
        self, name: str, whole: Term, row: RecordType, strategy: str, key: Sequence[str]
    ) -> View:
        """A view in the form that its term has: flat, as flat parts if its rows are nested, or with whole arrays."""
        self.passed = []
        self.form = form = self._form(name, whole)
        if form.kind != "nested":
            return self._incremental(name, form.term, row, strategy, key)
        return View(name, row, strategy, Nested(nested_parts(self, name, form, key)))

    def _form(self, name: str, whole: Term) -> Form:
        """What the rows of a view are kept as, decided before anything is."""
        read = read_as(whole, self.inputs)
        if is_plain(whole, read):
            return Form("flat", "no row has an array", whole)
        if not apart(read) and compares_cells(retype_sources(whole, self)):
            return Form("whole", "an array of a source is compared with one that is built", whole)
        term = self.run(OF_VIEW, whole, name)
        return form_of(whole, term, read, self._refusal)

    def _refusal(self, terms: Sequence[Term]) -> str:
        """Why flat terms cannot be kept, if they cannot: tried with maps that have a name and no rows."""
        dry = self.fork()
        dry.maps = Names(dry.program)
        dry.maps.rules, dry.subqueries.shares = self.maps.rules, self.subqueries.shares
        dry.strategy = self.strategy
        try:
            for term in terms:
                dry.rows(dry.run(but(OF_QUERY, name_unions), term, ""), "")
        except NotIncremental as e:
            return e.what
        return ""

    def _incremental(
        self, name: str, term: Term, row: RecordType, strategy: str, key: Sequence[str]
    ) -> View:
        by = _places_of(name, row, key) if self.maps.rules >= 2 else []
        passes = OF_QUERY if self.maps.rules >= 1 else but(OF_QUERY, name_unions)
        linear = self.run(passes, term, name)
        stored = False
        if self.diffusion is not None:
            told = {n: m for m, n in self._told().items()}
            if isinstance(linear, Rel) and linear.name in told:
                return View(name, row, strategy, Stored(self.program.maps[told[linear.name]]))
            # A relation of its own, by which others read what was told, and not the loop once more.
            linear = linear if isinstance(linear, Rel) else self.named(_itself(linear))
        if isinstance(linear, Rel) and linear.name in self.program.strata:
            stored = (
                self.program.strata[linear.name].only_spark if self.stored is None else self.stored
            )
            keys = {row.fields[i][0] for i in by}
            stored = stored or (
                bool(by) and keys != {*(self.program.strata[linear.name].shown_key or ())}
            )
            if not stored:
                return View(name, row, strategy, Answered(linear.name))
        rows, note = self.rows(linear, name), f"the rows of {name}"
        kept = self.maps.keep(rows, by or range(len(row.fields)), strategy=self.strategy, note=note)
        return View(name, row, strategy, Stored(kept, stored))

    # --- passes ---------------------------------------------------------------------------------------------

    def run(self, passes: Sequence[Pass], term: Term, of: str) -> Term:
        """The term after some passes; what each of them changes is written down."""
        for one in passes:
            made = one(term, self)
            if made != term:
                self.passed.append(Passed(of, said(one), made))
            term = made
        return term

    def monomials(self, term: Term, of: str) -> Signed:
        """A term as a sum of products of relations."""
        return summands(self.run(OF_SUM, term, of))

    def rows(self, term: Term, of: str) -> Term:
        """A term as a sum of products, in the one form that equal maps have."""
        return summed(self.monomials(term, of), type_of(term))

    def count(self, way: str, failures: Sequence[Monomial]) -> None:
        """A count of rows that must be zero after every increment."""
        if not failures:
            return
        rows = [(1, m) for f in failures for _, m in self.monomials(f.build(COUNTED), way)]
        made = summed(self.in_rounds(rows), type_of(COUNTED))
        kept = self.maps.keep(made, [], strategy=self.strategy, kind="value", note=way)
        self.program.checks[kept.name] = kept
        self.checks.append(kept.name)

    def moves(self, found: Signed) -> bool:
        """Whether monomials read what moves in the loop that is planned now."""
        return self.looping is not None and self.looping.moves(found)

    def in_rounds(self, found: Signed, collected: bool = False) -> Signed:
        """Monomials with their rounds, where one of them reads what moves in the loop, or they are a collection of it."""
        if self.looping is not None and (collected or self.looping.moves(found)):
            return self.looping.lifted(found)
        return found

    def named(self, answer: Term) -> Term:
        """The relation of a closed answer: that of its stratum; of a loop, what is left of its collections at the end."""
        term = canonical(answer)
        if isinstance(term, (Repeat, Field)):
            return looped(self, term) if self.diffusion is None else diffused(self, term)
        assert isinstance(term, (Each, Let))
        stem = "first:" if self.strategy == "first-order" else ""
        if self.maps.rules >= 2 and any(map(_differs, subterms(term))):
            stem += "2:"  # whose maps are not those of earlier rules
        if self.looping is not None and self.looping.reads(term):
            stem += "loop:"  # by rounds, which the same answer over what the loop leaves is not
        name = f"r{digest(stem + show(term))}"
        if name not in self.program.strata:
            self.answer(name, term)
        return Rel(name, type_of(term))

    def answer(
        self,
        name: str,
        term: Each | Let,
        started: Signed | None = None,
        differences: bool = False,
    ) -> Stratum:
        """Adds the stratum of an answer; `started` says how it starts, if it is a collection of a loop.

        With `differences` its rows count for less than nothing, too, so that a group may have a value and no rows.
        """
        outside, self.checks = self.checks, []
        answering = Answering(self, name, term, started, differences)
        made = self.diffusing.stratum(answering) if self.diffusing else answering.stratum()
        made = replace(made, checks=tuple(dict.fromkeys(self.checks)))
        self.checks = outside
        self.program.strata[name] = made
        self.relations.levels[name] = made.level + 1
        if self.looping is not None and (made.rounds or started is not None):
            self.looping.add(made)
            self.relations.levels[name] = (
                made.level
            )  # for who is inside; the loop says that of others
        if self.diffusing is not None and name in self.diffusing.names:
            self.relations.levels[name] = made.level
        self.relations.rows[name] = made.type
        return made


def _check_names(term: Term) -> None:
    """Raises where rows inside of a query have a column that is named as their weight is: changes of rows have both."""
    for t in subterms(term):
        if isinstance(t, Record) and any(n.lower() == WEIGHT for n, _ in t.fields):
            raise NotIncremental(
                "COLUMN_NAME",
                f"a column inside of the query is named `{WEIGHT}`, which says how often a row is there",
                hint="give it another name",
            )


def _itself(term: Term) -> Each:
    """each k ↦ v in m collect v · {k} = m."""
    t = type_of(term)
    assert isinstance(t, MapType)
    k, v = Var("k", t.key), Var("v", INT)
    return Each(k, v, term, Times((v, Sng(k, Num(1, INT)))))


def _differs(term: Term) -> bool:
    """Whether the maps of a term are not those that rules before the second made of it."""
    match term:
        case Answer("window", (_, windows, *_)):
            return any(w.exact for w in windows)
    return is_scalar_subquery(term)


class Names(Materializer):
    """Maps by name alone: what terms would be kept as, and whether they can be, with nothing kept."""

    def keep(self, term: Term, lookup: Sequence[int], **how: Any) -> Map:
        for _, m in summands(normalize(term)):
            checked(m)
        given = {"route": None, "kind": "change", "order": (), "extra": (), "note": "", **how}
        given.pop("level", None)
        return map_of(term, lookup, known=self.relations, **given)


def _places_of(name: str, row: RecordType, key: Sequence[str]) -> list[int]:
    """The places of the columns that rows of a flat view are looked up by, if some are declared."""
    low = [n.lower() for n, _ in row.fields]
    for k in key:
        if k.lower() not in low:
            raise UnknownName(
                f"the key `{k}` of `{name}` is none of its columns",
                hint=f"columns of `{name}`: {', '.join(n for n, _ in row.fields)}",
            )
    return [low.index(k.lower()) for k in key]


def _recomputed(name: str, term: Term, row: RecordType) -> Map:
    key = tuple((f"k{i}", t) for i, (_, t) in enumerate(row.fields))
    every = tuple(n for n, _ in key)
    note = f"the rows of {name}, recomputed"
    text = show(term)
    return Map(f"v{digest(name, text)}", text, key, (("r0", INT),), every, every, note=note)
