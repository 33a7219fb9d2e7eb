"""Strata: a view cut where an answer is needed.

`each k ↦ v in m collect s` (GROUP BY, DISTINCT) and `let v := m in s` (an aggregate without groups) are answers:
`m` is linear and becomes a map keyed by the group, `s` is evaluated again for the groups that a change touches.
The relation that it yields is an input of the stratum above. Components of `v` that are bags become maps of their
own beside it: in order for min and max, by value for the DISTINCT forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Add,
    Answer,
    Box,
    Call,
    Const,
    Each,
    Field,
    Let,
    Neg,
    Num,
    Pred,
    Record,
    Rel,
    Sng,
    Term,
    Times,
    Unbox,
    Var,
    Zero,
    children,
    rebuild,
    relations,
    substitute,
    subterms,
)
from headwater.calculus.text import show
from headwater.calculus.types import (
    INT,
    KeyType,
    MapType,
    ProductType,
    RecordType,
    RingType,
    Type,
    bag,
    boxed,
    has_box,
    is_scalar,
)
from headwater.compiler.alpha import canonical, digest, sorted_monomial
from headwater.compiler.choose import work
from headwater.compiler.materialize import (
    ONE,
    Materializer,
    Relations,
    cells_of,
    key_fields,
    output_of,
)
from headwater.compiler.program import Distinct, Extreme, Map, Program, Stratum, View
from headwater.compiler.scalar import Scalar, scalar
from headwater.errors import NotIncremental
from headwater.rules.monoid import Monomial, monomial
from headwater.rules.subqueries import Subqueries

STRATEGIES = ("auto", "recursive", "first-order", "recompute")


class Compiler:
    """Views of one database into one program; equal maps and strata are shared."""

    def __init__(self, sources: Mapping[str, RecordType], static: Iterable[str] = ()):
        self.program = Program()
        self.relations = Relations(dict(sources), {n: 0 for n in sources}, set(static))
        self.maps = Materializer(self.program, self.relations)
        self.subqueries = Subqueries(self._relation)

    def fork(self) -> Compiler:
        """A copy to try something on."""
        made = Compiler(self.relations.rows, self.relations.static)
        p, r = self.program, self.relations
        made.program = Program(dict(p.maps), dict(p.strata), dict(p.views))
        made.relations = Relations(dict(r.rows), dict(r.levels), set(r.static))
        made.maps = Materializer(made.program, made.relations)
        return made

    def choose(self, name: str, term: Term) -> tuple[str, str]:
        """The strategy with less work for a view, and why."""
        tried: dict[str, float] = {}
        for strategy in ("recursive", "first-order"):
            trial = self.fork()
            trial.view(name, term, strategy)
            new = [m for n, m in trial.program.maps.items() if n not in self.program.maps]
            tried[strategy] = work(trial.maps, new)
        best = min(tried, key=lambda s: tried[s])
        said = ", ".join(f"{s} {w:g}" for s, w in tried.items())
        return best, f"{best}: rows made by one changed row of each input: {said}"

    def view(self, name: str, term: Term, strategy: str = "auto") -> View:
        """Adds a view; the relations that it reads are sources, or views that are there already."""
        if strategy == "auto":
            strategy, _ = self.choose(name, term)
        known = {Rel(v.name, bag(v.type)): v.term for v in self.program.views.values()}
        whole = substitute(term, known)
        t = type_of(whole)
        if not isinstance(t, MapType) or t.value != INT:
            raise NotIncremental("SHAPE", "a view is a bag of rows", hint="select rows")
        if has_box(t) or any(has_box(r.type) for r in relations(whole)):
            raise NotIncremental(
                "NESTED", "inner bags are not maintained yet", hint="select flat columns"
            )
        row = RecordType(tuple(key_fields(t)))
        if strategy == "recompute":
            rows = _recomputed(name, whole, row)
            self.program.maps[rows.name] = rows
            made = View(name, whole, row, strategy, None, rows)
        else:
            self.strategy = "first-order" if strategy == "first-order" else "recursive"
            made = self._incremental(name, whole, row, strategy)
        self.program.views[name] = made
        return made

    def _incremental(self, name: str, term: Term, row: RecordType, strategy: str) -> View:
        linear = self.subqueries.cut(canonical(term))
        if isinstance(linear, Rel) and linear.name in self.program.strata:
            return View(name, term, row, strategy, linear.name, None)
        rows = _summed(self.monomials(linear), type_of(linear))
        every = range(len(row.fields))
        kept = self.maps.keep(rows, every, strategy=self.strategy, note=f"the rows of {name}")
        return View(name, term, row, strategy, None, kept)

    # --- where answers are needed ---------------------------------------------------------------------------

    def monomials(self, term: Term) -> list[tuple[int, Monomial]]:
        """A term as a sum of monomials over relations."""
        return self.subqueries.monomials(term)

    def _relation(self, term: Term) -> Term:
        """The relation of a closed answer: that of its stratum."""
        named = canonical(term)
        assert isinstance(named, (Each, Let))
        term = named
        stem = "first:" if self.strategy == "first-order" else ""
        name = f"r{digest(stem + show(term))}"
        if name not in self.program.strata:
            made = _Answering(self, name, term).stratum()
            self.program.strata[name] = made
            self.relations.levels[name] = made.level + 1
            self.relations.rows[name] = made.type
        return Rel(name, type_of(term))


class _Answering:
    """The compilation of one answer."""

    def __init__(self, compiler: Compiler, name: str, term: Each | Let):
        self.compiler, self.name, self.term = compiler, name, term
        if isinstance(term, Each):
            self.k: Var | None = term.key
            self.v, self.source, self.body = term.value, term.source, term.body
        else:
            self.k, self.v, self.source, self.body = None, term.var, term.bound, term.body
        self.monomials = compiler.monomials(self.source)
        self.groups = key_fields(type_of(self.source))
        self.columns: dict[Term, str] = {}
        self.extra: list[tuple[str, RingType]] = []
        self.distinct: list[tuple[str, Map, bool]] = []
        self.extremes: list[Extreme] = []

    def stratum(self) -> Stratum:
        """The group's map, the maps of its bags, and the answer over them."""
        self._keys()
        product = isinstance(self.v.type, ProductType)
        fields = (
            list(self.v.type.fields)
            if isinstance(self.v.type, ProductType)
            else [("", self.v.type)]
        )
        scalars = [(i, n, t) for i, (n, t) in enumerate(fields) if is_scalar(t)]
        self.bags: dict[Term, int] = {
            (Field(self.v, n) if product else self.v): i
            for i, (n, t) in enumerate(fields)
            if isinstance(t, MapType)
        }
        ring: list[list[Term]] = [[ONE] for _ in self.monomials]
        rings: list[RingType] = [INT]
        for i, n, t in scalars:
            column = [_component(m.output, i) for _, m in self.monomials]
            known = (j for j in range(len(rings)) if column and [r[j] for r in ring] == column)
            place = next(known, None)
            if place is None:
                for r, c in zip(ring, column, strict=True):
                    r.append(c)
                rings.append(t)
                place = len(rings) - 1
            self.columns[Field(self.v, n) if product else self.v] = f"r{place}"
        self._bags()
        value = ProductType(tuple((f"r{i}", t) for i, t in enumerate(rings)))
        group = self._map(
            [(s, _ringed(m, r)) for (s, m), r in zip(self.monomials, ring, strict=True)],
            range(len(self.groups)),
            value=value,
            kind="value",
            extra=tuple(self.extra),
            note="a group's value",
        )
        return self._answer(group)

    def _keys(self) -> None:
        if self.k is None:
            return
        if isinstance(self.k.type, RecordType):
            for i, (n, _) in enumerate(self.groups):
                self.columns[Field(self.k, n)] = f"k{i}"
        else:
            self.columns[self.k] = "k0"

    def _map(
        self,
        monomials: list[tuple[int, Monomial]],
        lookup: Iterable[int],
        *,
        kind: str,
        route: Iterable[int] | None = None,
        order: int | None = None,
        extra: tuple[tuple[str, RingType], ...] = (),
        value: RingType = INT,
        note: str,
    ) -> Map:
        key = RecordType(tuple((f"k{i}", t) for i, (_, t) in enumerate(self.groups)))
        return self.compiler.maps.keep(
            _summed(monomials, MapType(key, value)),
            list(lookup),
            strategy=self.compiler.strategy,
            route=None if route is None else list(route),
            kind=kind,
            order=order,
            extra=extra,
            note=note,
        )

    # --- bags: min, max, and what is said of different values --------------------------------------------------

    def _bags(self) -> None:
        for t in subterms(self.body):
            if t in self.columns:
                continue
            match t:
                case Answer("min" | "max" as name, (), of) if of in self.bags:
                    self._extreme(t, of, name == "max")
                case Each(d, w, of, body) if of in self.bags:
                    self._different(t, of, d, w, body)

    def _extreme(self, term: Answer, of: Term, largest: bool) -> None:
        bag = self._bag(of, ordered=True)
        column = f"e{len(self.extremes)}"
        self.extremes.append(Extreme(bag, column, largest, type_of(term)))
        self.columns[term] = column

    def _different(self, term: Each, of: Term, d: Var, w: Var, body: Term) -> None:
        factors = [f for f in (body.factors if isinstance(body, Times) else (body,)) if f != ONE]
        live = [f for f in factors if f == Pred(Call(">", (Box(w), Const(0, boxed(INT)))))]
        rest = [f for f in factors if f not in live]
        if not live or rest not in ([], [Unbox(d)]):
            raise NotIncremental("AGGREGATE", f"`{term}` is not maintained yet")
        bag = self._bag(of, ordered=False)
        column = f"d{digest(bag.name, str(not rest))}"  # says which bag, so that groups are shared rightly
        if column not in dict(self.extra):
            self.extra.append((column, type_of(term)))
            self.distinct.append((column, bag, not rest))
        self.columns[term] = column

    def _bag(self, of: Term, ordered: bool) -> Map:
        place, groups = self.bags[of], len(self.groups)
        parts = []
        for sign, m in self.monomials:
            value = _component(m.output, place)
            if isinstance(value, Zero):  # a branch of UNION ALL in which the column is NULL
                continue
            factors = value.factors if isinstance(value, Times) else (value,)
            (item,) = (f for f in factors if isinstance(f, Sng))
            rest = tuple(f for f in factors if f is not item)
            key, _ = output_of(_ringed(m, [ONE]).output)
            items = [v for _, v in item.key.fields] if isinstance(item.key, Record) else [item.key]
            row = Record(tuple((f"k{i}", t) for i, t in enumerate((*key, *items))))
            parts.append((sign, Monomial(m.atoms, (*m.factors, *rest), Sng(row, item.value))))
        if not parts:  # no branch has values
            raise NotIncremental("EMPTY", "an aggregate of NULL is NULL", hint="leave it out")
        width = len(key_fields(_type(parts[0][1])))
        if ordered:
            note = "the values of a group, in order"
            return self._map(parts, range(groups), kind="change", order=groups, note=note)
        note = "the different values of a group"
        return self._map(parts, range(width), kind="change", route=range(groups), note=note)

    # --- the answer ------------------------------------------------------------------------------------------------

    def _answer(self, group: Map) -> Stratum:
        m = monomial(self.body)
        if m.atoms or not isinstance(m.output, Sng):
            raise NotIncremental(
                "ANSWER",
                f"`{self.body}` is more than one row a group, which is not maintained yet",
                hint="join the groups in a query around this one",
            )
        for t in subterms(self.body):
            if isinstance(t, Rel):
                raise NotIncremental(
                    "SUBQUERY",
                    "a subquery beside aggregates is not maintained yet",
                    hint="join it in a query around this one",
                )
        where = [f.condition for f in m.factors if isinstance(f, Pred)]
        weights = [f for f in (*m.factors, m.output.value) if not isinstance(f, Pred) and f != ONE]
        if len(weights) > 1 or not all(isinstance(w, (Unbox, Num)) for w in weights):
            raise NotIncremental("ANSWER", f"`{self.body}` is not maintained yet")
        key = m.output.key
        row_type = RecordType(tuple(key_fields(type_of(self.term))))
        cells = cells_of(key)
        weight = None
        for w in weights:
            assert isinstance(w, (Unbox, Num))
            weight = self._scalar(w.key if isinstance(w, Unbox) else Const(w.value, boxed(INT)))
        return Stratum(
            self.name,
            self.term,
            row_type,
            group,
            tuple(Distinct(m, c, counts) for c, m, counts in self.distinct),
            tuple(self.extremes),
            self._answers(group) if self.extremes else None,
            self.k is None,
            tuple(self._scalar(t) for t in where),
            tuple((n, self._scalar(c)) for (n, _), c in zip(row_type.fields, cells, strict=True)),
            weight,
            group.level,
        )

    def _scalar(self, term: Term) -> Scalar:
        unread = [b for b in self.bags if b in subterms(_hidden(term, self.columns))]
        if unread:
            raise NotIncremental(
                "AGGREGATE",
                f"`{term}` reads a whole bag, which is not maintained yet",
                hint="sum, count, avg, min, max and their DISTINCT forms are",
            )
        return scalar(term, self.columns)

    def _answers(self, group: Map) -> Map:
        """What was answered last, by group: the smallest and largest values cannot be told from the sums."""
        types = component_types(group, self.extremes)
        key = tuple((f"k{i}", t) for i, (_, t) in enumerate(types))
        by = group.lookup
        name = f"a{digest(self.name)}"
        made = Map(
            name,
            self.term,
            key,
            (("r0", INT),),
            by,
            by,
            "change",
            "",
            group.level,
            (),
            "last answers",
        )
        self.compiler.program.maps[name] = made
        return made


def component_types(group: Map, extremes: Iterable[Extreme]) -> list[tuple[str, KeyType]]:
    """The columns that an answer reads: the group's key, its ring as numbers, and the extremes."""
    return [
        *group.key,
        *((n, boxed(t)) for n, t in group.ring),
        *((e.column, e.type) for e in extremes),
    ]


def _component(output: Term, place: int) -> Term:
    value = output.value if isinstance(output, Sng) else output
    return value.fields[place][1] if isinstance(value, Record) else value


def _ringed(m: Monomial, ring: list[Term]) -> Monomial:
    """The monomial with another value, and its key as a record."""
    key = m.output.key if isinstance(m.output, Sng) else Record(())
    cells = cells_of(key)
    named = Record(tuple((f"k{i}", c) for i, c in enumerate(cells)))
    value = Record(tuple((f"r{i}", r) for i, r in enumerate(ring)))
    return Monomial(m.atoms, m.factors, Sng(named, value))


def _summed(monomials: list[tuple[int, Monomial]], t: Type) -> Term:
    """The sum of monomials in one form; without any, the zero of a type."""
    terms = []
    for sign, m in monomials:
        made = canonical(sorted_monomial(m))
        terms.append(Neg(made) if sign < 0 else made)
    terms.sort(key=show)
    if not terms:
        assert isinstance(t, MapType)
        return Zero(t)
    return terms[0] if len(terms) == 1 else Add(tuple(terms))


def _type(m: Monomial) -> MapType:
    t = type_of(sorted_monomial(m))
    assert isinstance(t, MapType)
    return t


def _hidden(term: Term, columns: Mapping[Term, str]) -> Term:
    """The term without what is a column already."""
    if term in columns:
        return Const(None, boxed(INT))
    return rebuild(term, tuple(_hidden(c, columns) for c in children(term)))


def _recomputed(name: str, term: Term, row: RecordType) -> Map:
    key = tuple((f"k{i}", t) for i, (_, t) in enumerate(row.fields))
    every = tuple(n for n, _ in key)
    note = f"the rows of {name}, recomputed"
    return Map(f"v{digest(name, show(term))}", term, key, (("r0", INT),), every, every, note=note)
