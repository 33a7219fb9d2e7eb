"""Subqueries as joins: ¬ and scalar subqueries replaced by joins with the answers of groups.

    ¬¬q(x)   = for p in D collect [p = e(x)]       D has every key of q once, where q(x) = M @ e(x)
    ¬q(x)    = for p in A collect [p = e(x)]       A has the keys of the outer rows at which M is zero
    f(t(x))  = for p in T collect [p = e(x)] · f(p.t)      T has t's value for every key of the outer rows
    f(t(x)) · g(t(x))  = for p in T collect [p = e(x)] · f(p.t) · g(p.t)

A and T are answers over one map of two counts: the outer rows of a key, and what the subquery has there. So every
outer row meets exactly one row of T, also where the subquery has none, and nothing is evaluated that the query does
not show. What a subquery reads from outside goes through equalities where it can; where it cannot, the key is all
that it reads, and M is computed for every value of that which the outer rows have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Answer,
    Apply,
    Box,
    Call,
    Each,
    Field,
    For,
    Let,
    Not,
    Pred,
    Record,
    Rel,
    Repeat,
    Sng,
    Sum,
    Term,
    Times,
    Var,
    Zero,
    children,
    rebuild,
    replaced,
    substitute,
    subterms,
    variables,
)
from headwater.calculus.types import (
    INT,
    ListType,
    MapType,
    ProductType,
    RecordType,
    has_box,
    is_key,
)
from headwater.errors import NotIncremental
from headwater.plan.first_rows import limited, numbers_windows
from headwater.plan.nested.ownership import Owned, without_owners
from headwater.plan.subqueries.asked import AskedRows, AskedScalar, asked_scalar, calls_of
from headwater.plan.subqueries.exists import Truth
from headwater.plan.subqueries.keyed import (
    LIVE,
    ONE,
    Fields,
    Keyed,
    Named,
    as_fields,
    beside_outer,
    by_equalities,
    columns_of,
    is_ready,
    is_row,
    is_scalar_subquery,
    key_of,
    keyless,
    matching,
    only_reads,
    outer_rows,
    plain_rows,
    reads_rows,
    reads_single,
    values_of,
    with_key,
)
from headwater.plan.unions import summands_of
from headwater.rules.monomial import Monomial, Signed, monomial, sum_of, summands
from headwater.rules.normalize import for_let, normalize
from headwater.rules.rewrite import rewrite
from headwater.rules.rows import cells, row_like, spread, tidy
from headwater.rules.simplify import SIMPLIFY


@dataclass(frozen=True)
class Subquery:
    """A subquery as a function of outer columns, the fields of `param`.

    A scalar one has a ring value, called `value` in the scalars `shown`; another is a bag of rows.
    """

    param: Var
    term: Term
    value: Var | None = None
    shown: tuple[Term, ...] = ()


MOST_PRODUCTS = 1_000
"""Products of relations that one bag of a query is written out as."""


def _check_size(products: int) -> None:
    if products > MOST_PRODUCTS:
        raise NotIncremental(
            "TOO_LARGE",
            f"the query is a sum of more than {MOST_PRODUCTS:,} joins when its unions, outer joins and ORs are"
            " written out",
            hint="define a part of it as a view of its own, and read that",
        )


class Subqueries:
    """The subqueries of one compilation."""

    def __init__(self, named: Named, owned: Owned | None = None):
        self.named = named
        self.owned = owned or {}
        self.known: dict[str, Subquery] = {}
        self.count = 0
        self.shares = True
        """Whether equal scalars of one row are asked for once, and averages are kept whole."""

    def fresh(self, stem: str) -> str:
        """A variable's name that no term of this compilation has."""
        self.count += 1
        return f"{stem}′{self.count}"

    def monomials(self, term: Term) -> Signed:
        """A term as a sum of monomials over relations, without subqueries."""
        linear = self.cut(term)
        _check_size(summands_of(linear))
        return self.expanded(summands(normalize(linear)))

    # --- names for subqueries --------------------------------------------------------------------------------

    def cut(self, term: Term) -> Term:
        """The term with every closed answer as a relation, and every other subquery as a function of columns."""
        match term:
            case Let(var, bound, body) if is_key(var.type):
                return self.cut(substitute(body, {var: bound}))
            case Let(var, bound, body) if isinstance(var.type, MapType) and not is_row(body, {var}):
                return self.cut(substitute(body, {var: bound}))
            case Repeat() | Field(Repeat()):
                return self._loop(term)
            case Answer(_, _, bag) if isinstance(type_of(term), MapType):
                return self.cut(self._as_group(term, bag))
            case Each(k, v, _, body) if not is_row(body, {k, v}):
                return self.cut(self._apart(term, {k, v}))
            case Let(v, _, body) if not is_key(type_of(term)):
                if not is_row(body, {v}):
                    return self.cut(self._apart(term, {v}))
                if not variables(term):
                    return self.named(term)
                return self._bag(term) if monomial(body).atoms else self._scalars(term)
            case Each():
                return self._bag(term) if variables(term) else self.named(term)
            case For() if numbers_windows(term):
                fused = limited(term)
                return rebuild(fused, tuple(self.cut(c) for c in children(fused)))
            case Sum(bag) if type_of(bag).value == INT:
                x = Var(self.fresh("x"), type_of(bag).key)
                return For(x, self.cut(bag), ONE)
            case _ if is_scalar_subquery(term):
                return self._scalar(term)
            case _:
                return rebuild(term, tuple(self.cut(c) for c in children(term)))

    def _loop(self, term: Term) -> Term:
        """A loop as what is left of its collections; one that depends on outer columns would be another for every row."""
        if variables(term):
            raise NotIncremental(
                "CORRELATED",
                "a loop reads columns of the rows that stand around it",
                hint="keep these columns in the rows of the loop, and join with them after it",
            )
        return self.named(term)

    def _as_group(self, term: Answer, bag: Term) -> Term:
        """f(r) = let v := r in for x in f(v) collect {x}: an answer of rows, as that of the one group."""
        v = Var(self.fresh("v"), type_of(bag))
        made = Answer(term.function, term.params, v)
        x = Var(self.fresh("x"), type_of(made).key)
        return Let(v, bag, For(x, made, Sng(x, ONE)))

    def _apart(self, term: Each | Let, own: set[Var]) -> Term:
        """each k ↦ v in m collect s(k, v) = for p in (each k ↦ v in m collect {⟨k, f(v)⟩}) collect s(p)."""
        body = spread(term.body, own)
        factors = body.factors if isinstance(body, Times) else (body,)
        inside = tuple(f for f in factors if isinstance(f, Pred) and only_reads(f, own))
        rest = tuple(f for f in factors if f not in inside)
        outer: Term = rest[0] if len(rest) == 1 else Times(rest) if rest else ONE
        values = list(dict.fromkeys(values_of(outer, own)))
        fields = {t: f"c{i}" for i, t in enumerate(values)}
        row = Record(tuple((n, t) for t, n in fields.items()) or (("c0", LIVE),))
        p = Var(self.fresh("p"), type_of(row))
        shown = replaced(outer, {t: Field(p, n) for t, n in fields.items()})
        if variables(shown) & own:
            raise NotIncremental(
                "ANSWER",
                f"`{outer}` takes a group apart in a way that is not maintained",
                hint="aggregate in a subquery of FROM first",
            )
        answer = Times((*inside, Sng(row, ONE))) if inside else Sng(row, ONE)
        if isinstance(term, Each):
            return For(p, Each(term.key, term.value, term.source, answer), shown)
        return For(p, Let(term.var, term.bound, answer), shown)

    def _bag(self, term: Term) -> Term:
        """A bag of rows that depends on outer columns, as a function of them."""
        param, columns, (body,) = self._over([term])
        t = type_of(term)
        assert isinstance(param.type, RecordType) and isinstance(t, MapType)
        return Apply(AskedRows(self._keep(Subquery(param, body)), MapType(param.type, t)), columns)

    def _scalar(self, term: Term) -> Term:
        """A scalar over the ring value of a subquery."""
        if isinstance(term, Let):
            return self._shown(term.var, term.bound, [term.body])[term.body]
        simpler = rewrite(term, (*SIMPLIFY, for_let))  # the single row of an aggregate is that row
        if simpler != term:
            return self.cut(simpler)
        (source,) = (c for c in children(term) if reads_rows(c))
        v = Var(self.fresh("v"), type_of(source))
        body = rebuild(term, tuple(v if c is source else c for c in children(term)))
        return self._shown(v, source, [body])[body]

    def _scalars(self, term: Let) -> Term:
        """let v := q(x) in s(v) = s(t(x)): every scalar over v is a subquery of its own."""
        values = list(dict.fromkeys(values_of(term.body, {term.var})))
        return self.cut(replaced(term.body, self._shown(term.var, term.bound, values)))

    def _shown(self, v: Var, source: Term, scalars: Sequence[Term]) -> dict[Term, Term]:
        """Scalars over the ring value of a subquery, each as a function of outer columns."""
        over = {s: s for s in scalars}
        if any(reads_single(s, v) for s in scalars):
            v, source, over = self._counted(v, source, scalars)
        found = [values_of(s, {v}, safe=True, means=self.shares) for s in over.values()]
        values = list(dict.fromkeys(x for some in found for x in some))
        param, columns, (body, *shown) = self._over([source, *values], {v})
        name = self._keep(Subquery(param, body, v, tuple(shown)))
        args = tuple(t for _, t in columns.fields)
        calls: dict[Term, Term] = {
            t: asked_scalar(name, i, args, type_of(t)) for i, t in enumerate(values)
        }
        return {s: replaced(o, calls) for s, o in over.items()}

    def _counted(
        self, v: Var, source: Term, scalars: Sequence[Term]
    ) -> tuple[Var, Term, dict[Term, Term]]:
        """single(q) = one_row(sum(q), min(q)), over the pair of q and its count; it is checked where it is used."""
        x = Var(self.fresh("x"), type_of(source).key)
        if has_box(x.type) or isinstance(x.type, ListType):  # there is no least of several arrays
            raise NotIncremental(
                "SUBQUERY",
                "a scalar subquery gives an array of another row",
                hint="join with the row that has it, or build the array with array_agg",
            )
        pair = For(x, source, Record((("v", Sng(x, ONE)), ("s", ONE))))
        w = Var(self.fresh("v"), type_of(pair))
        bag, count = Field(w, "v"), Box(Field(w, "s"))
        one = Call("one_row", (count, Answer("min", (), bag)))
        opened = {s: replaced(s, {Answer("single", (), v): one, v: bag}) for s in scalars}
        return w, pair, opened

    def _over(
        self, terms: Sequence[Term], own: Iterable[Var] = ()
    ) -> tuple[Var, Record, list[Term]]:
        """Terms over the outer columns that they read, as the fields of one variable."""
        outer = frozenset[Var]().union(*(variables(t) for t in terms)) - frozenset(own)
        read = list(dict.fromkeys(c for t in terms for c in columns_of(t, outer)))
        columns = Record(tuple((f"_{i + 1}", c) for i, c in enumerate(read)))
        param = Var(self.fresh("o"), type_of(columns))
        by = as_fields(read, param)
        return param, columns, [tidy(substitute(t, by)) for t in terms]

    def _keep(self, s: Subquery) -> str:
        name = f"subquery:{len(self.known)}"
        self.known[name] = s
        return name

    # --- one subquery less ------------------------------------------------------------------------------------

    def expanded(self, found: Signed) -> Signed:
        todo, done = list(reversed(found)), list[tuple[int, Monomial]]()
        while todo:
            _check_size(len(todo) + len(done))
            sign, m = todo.pop()
            m = without_owners(m, self.owned)
            step = self._one(m)
            if step is None:
                done.append((sign, m))
                continue
            for part in reversed(step):
                built = summands(normalize(part.build(part.output)))
                todo.extend((sign * s, n) for s, n in reversed(built))
        reads = [any(isinstance(s, Rel) for _, s in m.atoms) for _, m in done]
        return [(s, m if r else self._once(m)) for (s, m), r in zip(done, reads, strict=True)]

    def _once(self, m: Monomial) -> Monomial:
        """A monomial without atoms as one over a relation that always has exactly one row, so that it can be joined."""
        v = Var(self.fresh("v"), INT)
        rows = self.named(Let(v, Zero(INT), Sng(key_of([LIVE]), ONE)))
        one = Var(self.fresh("p"), type_of(rows).key)
        return Monomial(((one, rows), *m.atoms), m.factors, m.output)

    def _one(self, m: Monomial) -> list[Monomial] | None:
        """The monomial with one subquery less, as a sum; None if it has none."""
        plain = plain_rows(m)
        if isinstance(m.output, Not):
            m = Monomial(m.atoms, (*m.factors, m.output), ONE)
        m = self._by_row(m)
        for i, (_, source) in enumerate(m.atoms):
            if isinstance(source, Apply) and is_ready(source.argument, plain):
                return [self._lateral(m, i, source)]
        for t in (*m.factors, m.output, *(s for _, s in m.atoms)):
            for call in calls_of(t):
                if all(is_ready(a, plain) for a in call.args):
                    return [self._with_scalars(m, call)]
        for i, f in enumerate(m.factors):
            if isinstance(f, Not):
                rest = Monomial(m.atoms, (*m.factors[:i], *m.factors[i + 1 :]), m.output)
                counted = Truth(self, rest).counted(f.term)
                if counted is not None:
                    return [counted]
                cases = Truth(self, rest).absent(f.term)
                return [
                    Monomial((*rest.atoms, *atoms), (*factors, *rest.factors), rest.output)
                    for atoms, factors in cases
                ]
        return None

    def _by_row(self, m: Monomial) -> Monomial:
        """{k ↦ q(x)} = for y in q(x) collect {k ↦ {y}}: a bag that is added whole, row by row, which can be joined."""
        bag = m.output.value if isinstance(m.output, Sng) else m.output
        if not isinstance(bag, Apply):
            return m
        y = Var(self.fresh("y"), type_of(bag).key)
        row = Sng(y, ONE)
        output = Sng(m.output.key, row) if isinstance(m.output, Sng) else row
        return Monomial((*m.atoms, (y, bag)), m.factors, output)

    def _lateral(self, m: Monomial, place: int, source: Apply) -> Monomial:
        """for r in q(x) collect s = for p in Q collect [p.key = e(x)] · s[p/r]: the rows of all keys, joined."""
        assert isinstance(source.function, Rel)
        s = self.known[source.function.name]
        term = s.term
        assert isinstance(term, (Each, Let))
        v, group = (term.value, term.source) if isinstance(term, Each) else (term.var, term.bound)
        found = summands(normalize(self.cut(group)))
        own = term.key if isinstance(term, Each) else None
        assert isinstance(source.argument, Record)
        parts = found if own is not None else keyless(found)
        keyed = self.keyed(parts, {s.param}, m, source.argument)
        groups = sum_of(keyed.parts)
        k = Var(self.fresh("k"), type_of(groups).key)
        columns = cells(k)
        keys = [f"_key{i}" for i in range(len(keyed.keys))]
        body = term.body
        if own is not None:
            body = tidy(substitute(body, {own: row_like(own.type, columns[len(keys) :])}))
        b = monomial(body)
        assert isinstance(b.output, Sng)
        shown = cells(b.output.key)
        named = [*zip(keys, columns, strict=False), *((f"c{i}", t) for i, t in enumerate(shown))]
        output = Sng(Record(tuple(named)), b.output.value)
        answers = self.named(Each(k, v, groups, Monomial(b.atoms, b.factors, output).build(output)))
        p = Var(self.fresh("p"), type_of(answers).key)
        var, _ = m.atoms[place]
        row = row_like(var.type, [Field(p, f"c{i}") for i in range(len(shown))])
        joined = matching(p, keyed.keys)
        before, after = m.atoms[:place], m.atoms[place + 1 :]
        later = tuple((x, substitute(t, {var: row})) for x, t in after)
        factors = tuple(substitute(f, {var: row}) for f in m.factors)
        return Monomial(
            (*before, (p, answers), *later),
            (*joined, *factors),
            substitute(m.output, {var: row}),
        )

    def _with_scalars(self, m: Monomial, call: AskedScalar) -> Monomial:
        """f(t(x)) = for p in T collect [p.key = e(x)] · f(p.t)."""
        s = self.known[call.subquery]
        argument = Record(tuple((f"_{i + 1}", a) for i, a in enumerate(call.args)))
        answers, keys = self._answers(s, m, argument)
        calls = [
            asked_scalar(call.subquery, i, call.args, type_of(t)) for i, t in enumerate(s.shown)
        ]
        there = self._there(m, answers, keys, calls) if self.shares else None
        p = there or Var(self.fresh("p"), type_of(answers).key)
        fields: dict[Term, Term] = {c: Field(p, f"v{i}") for i, c in enumerate(calls)}
        if there is not None:
            same = tuple((v, replaced(t, fields)) for v, t in m.atoms)
            factors = tuple(replaced(f, fields) for f in m.factors)
            return Monomial(same, factors, replaced(m.output, fields))
        owner = max((i for i, (v, _) in enumerate(m.atoms) if v in variables(argument)), default=-1)
        atoms = [(v, replaced(t, fields)) for v, t in m.atoms]
        return Monomial(
            (*atoms[: owner + 1], (p, answers), *atoms[owner + 1 :]),
            (*matching(p, keys), *(replaced(f, fields) for f in m.factors)),
            replaced(m.output, fields),
        )

    def _there(
        self, m: Monomial, answers: Term, keys: Sequence[Term], calls: Sequence[Term]
    ) -> Var | None:
        """T · T = T at the same key, which has one row: the row of T that the monomial has already."""
        for v, source in m.atoms:
            if any(c in subterms(source) for c in calls):
                return None  # it would be read before it is there
            if source == answers and all(f in m.factors for f in matching(v, keys)):
                return v
        return None

    def _answers(self, s: Subquery, m: Monomial, argument: Record) -> tuple[Term, list[Term]]:
        """T: the scalars of a subquery for every key of the outer rows, and what its key columns equal."""
        assert s.value is not None
        found = summands(normalize(self.cut(s.term)))
        t = s.value.type
        shown = tuple((f"v{i}", x) for i, x in enumerate(s.shown))
        if not argument.fields:
            closed = sum_of(self.expanded(found), t)
            return self.named(Let(s.value, closed, Sng(Record(shown), ONE))), []
        keyed = self.keyed(keyless(found), {s.param}, m, argument)
        parts = list(t.fields) if isinstance(t, ProductType) else [("v", t)]

        def fields(value: Term) -> Fields:
            by_name = dict(value.fields) if isinstance(value, Record) else {"v": value}
            return tuple((f"_{f}", by_name[f]) for f, _ in parts)

        zeros = tuple((f"_{f}", Zero(z)) for f, z in parts)  # type: ignore[arg-type]
        groups = beside_outer(keyed, outer_rows(m, keyed.keys), fields, zeros)
        k = Var(self.fresh("k"), type_of(groups).key)
        v = Var(self.fresh("v"), type_of(groups).value)
        whole = Record(tuple((f, Field(v, f"_{f}")) for f, _ in parts))
        by = whole if isinstance(t, ProductType) else Field(v, "_v")
        answered = tuple((n, tidy(substitute(x, {s.value: by}))) for n, x in shown)
        live = Pred(Call(">", (Box(Field(v, "n")), LIVE)))
        row = Record((*key_of(cells(k)).fields, *answered))
        return self.named(Each(k, v, groups, Times((live, Sng(row, ONE))))), keyed.keys

    # --- keys ----------------------------------------------------------------------------------------------------

    def keyed(
        self, found: Signed, outer: set[Var], m: Monomial, argument: Record | None = None
    ) -> Keyed:
        """A subquery as a map by what it reads from outside: by equalities if they say all, else by every value.

        What it reads are columns of the variables `outer`: rows of m, or a parameter that `argument` gives.
        """
        found = [(sign, self._by_row(n)) for sign, n in found]
        by = by_equalities(found, outer) or self._by_values(found, outer, m, argument)
        keys = by.keys
        if argument is not None:
            (param,) = outer
            keys = [tidy(substitute(e, {param: argument})) for e in keys]
        return Keyed(self.expanded(by.parts), keys)

    def _by_values(
        self, found: Signed, outer: set[Var], m: Monomial, argument: Record | None
    ) -> Keyed:
        """q(x) for every different value of the columns that it reads: for d in D collect {d ↦ q(d)}."""
        built = [(sign, n.build(n.output)) for sign, n in found]
        read = list(dict.fromkeys(c for _, t in built for c in columns_of(t, outer)))
        given = read
        if argument is not None:
            (param,) = outer
            given = [tidy(substitute(c, {param: argument})) for c in read]
        rows = outer_rows(m, given)
        once = key_of(given)
        d, w = Var(self.fresh("d"), type_of(once)), Var(self.fresh("w"), INT)
        live = Pred(Call(">", (Box(w), LIVE)))
        values = self.named(
            Each(d, w, rows.build(Sng(once, ONE)), Times((live, Sng(spread(d, {d}), ONE))))
        )
        x = Var(self.fresh("x"), type_of(once))
        by = as_fields(read, x, "_key", 0)
        inner = [Field(x, f"_key{i}") for i in range(len(read))]
        parts = [
            (sign * s, with_key(n, inner))
            for sign, t in built
            for s, n in summands(normalize(For(x, values, tidy(substitute(t, by)))))
        ]
        return Keyed(parts, list(read))
