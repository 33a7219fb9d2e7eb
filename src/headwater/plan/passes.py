"""The passes: what becomes of a view's query before maps are kept of it, in the order in which it happens.

    of a view       retype sources, open bags            if something in it is nested; `nested.form` says what it is kept as then
    of a query      keep sums, name unions, rename variables, forgive subqueries, cut answers       the view's, or that of each flat part
    of a sum        forgive subqueries, join subqueries, split disjunctions, forgive joins       of the rows, and of every group

A pass is a function from a term to a term with the same meaning, which is its law:

    interpret(pass(q)) = interpret(q)

A relation that a pass has named has the value of the answer that it stands for; and where something fails in q, a count
that the pass has asked for is above zero. Nothing but these names and counts leaves a pass: the rest is in the term.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.calculus.check import type_of
from headwater.calculus.terms import Rel, Term, relations, subterms
from headwater.plan.disjunctions import joins
from headwater.plan.equal_maps import canonical
from headwater.plan.failures import KINDS, failing, forgiving, hides, is_risky, lenient, may_fail
from headwater.plan.nested.opening import opened, retyped
from headwater.plan.subqueries.cut import Subqueries
from headwater.plan.unions import unions_named
from headwater.rules.affine import AFFINE
from headwater.rules.monomial import Monomial, Signed, sum_of, summands
from headwater.rules.normalize import normalize
from headwater.rules.rewrite import rewrite


class Setting(Protocol):
    """What passes ask of the compilation that they are a part of."""

    inputs: dict[Rel, Term]
    """What inputs with arrays are read as."""
    subqueries: Subqueries

    @property
    def keeps_sums(self) -> bool:
        """Whether loops of sums are kept as such."""

    def named(self, answer: Term) -> Term:
        """The relation of a closed answer, whose rows are kept from now on."""

    def count(self, way: str, failures: Sequence[Monomial]) -> None:
        """Has rows counted that fail in a way: the answer is an error while there are some."""


Pass = Callable[[Term, Setting], Term]


@dataclass(frozen=True)
class Passed:
    """A term as a pass has left it: that of a view, of a part at a path, of the group of an answer, or of a count."""

    of: str
    name: str
    term: Term


def said(one: Pass) -> str:
    """A pass by its name, as it is read aloud: `open bags`."""
    return one.__name__.replace("_", " ")


# --- of a view ------------------------------------------------------------------------------------------------------


def retype_sources(term: Term, setting: Setting) -> Term:
    """R = for x in R′ collect {row(x)}: a source with arrays is a query over flat relations, or has them as cells."""
    return retyped(term, read_as(term, setting.inputs))


def open_bags(term: Term, setting: Setting) -> Term:
    """unbox(box(r)) = r, and each k ↦ v in m collect (for x in v.a collect s) = for the rows of m collect s."""
    return opened(term)


def read_as(term: Term, inputs: Mapping[Rel, Term]) -> dict[Rel, Term]:
    """The inputs of a term that have arrays, and what they are read as."""
    return {r: inputs[r] for r in relations(term) if r in inputs}


# --- of a query -----------------------------------------------------------------------------------------------------


def keep_sums(term: Term, setting: Setting) -> Term:
    """repeat x := s then F(x) = F(each k ↦ w in y collect {k, w}): a loop of sums is kept as its sums, with no answer in it."""
    return rewrite(term, AFFINE) if setting.keeps_sums else term


def name_unions(term: Term, setting: Setting) -> Term:
    """for x in (a + b) collect s = for x in U collect s, where writing the sum out would make too many products."""
    return unions_named(term, setting.named)


def rename_variables(term: Term, setting: Setting) -> Term:
    """for x in a collect s = for y in a collect s[y/x]: terms that are equal up to names are equal."""
    return canonical(term)


def forgive_subqueries(term: Term, setting: Setting) -> Term:
    """a / b = a / nullif(b, 0) in the rows that a subquery looks for; how many of them fail is counted."""
    whole = normalize(term) if any(map(is_risky, subterms(term))) else term
    if not hides(whole):
        return term
    _count(setting, [m for _, m in summands(whole)])
    return forgiving(whole)


def cut_answers(term: Term, setting: Setting) -> Term:
    """each k ↦ v in m collect s = A: what is answered group by group is a relation, or a function of outer columns."""
    return setting.subqueries.cut(term)


# --- of a sum -------------------------------------------------------------------------------------------------------


def join_subqueries(term: Term, setting: Setting) -> Term:
    """¬q(x) = for p in A collect [p = e(x)], f(t(x)) = for p in T collect [p.key = e(x)] · f(p.t): a sum of products."""
    return sum_of(setting.subqueries.monomials(term), type_of(term))


def split_disjunctions(term: Term, setting: Setting) -> Term:
    """[a or b] = [a] + [not a] · [b], where a and b are equalities that rows are joined by."""
    return sum_of(joins(summands(term)), type_of(term))


def forgive_joins(term: Term, setting: Setting) -> Term:
    """a / b = a / nullif(b, 0) among joined rows; how many of them fail is counted."""
    found = summands(term)
    _count(setting, [m for _, m in found if may_fail(m)])
    kept: Signed = [(sign, lenient(m) if may_fail(m) else m) for sign, m in found]
    return sum_of(kept, type_of(term))


def _count(setting: Setting, risky: Sequence[Monomial]) -> None:
    """Counts of rows that fail, each way by itself, so that the error says which it was."""
    for way in KINDS:
        setting.count(way, [f for m in risky for f in failing(m, way)])


OF_VIEW: tuple[Pass, ...] = (retype_sources, open_bags)
OF_QUERY: tuple[Pass, ...] = (
    keep_sums,
    name_unions,
    rename_variables,
    forgive_subqueries,
    cut_answers,
)
OF_SUM: tuple[Pass, ...] = (
    forgive_subqueries,
    join_subqueries,
    split_disjunctions,
    forgive_joins,  # last: what is split is counted once for each alternative, under its own guard
)
PASSES: tuple[Pass, ...] = (*OF_VIEW, *OF_QUERY, *OF_SUM)
"""All passes in their order; `forgive_subqueries` is there twice, as the groups of answers have subqueries of their own."""


def but(passes: Sequence[Pass], *left_out: Pass) -> tuple[Pass, ...]:
    """The passes without some."""
    return tuple(p for p in passes if p not in left_out)
