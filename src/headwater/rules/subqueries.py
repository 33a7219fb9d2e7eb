"""Subqueries as joins: ¬ and scalar subqueries replaced by joins with the answers of groups.

    ¬¬q(x)   = for p in D collect [p = e(x)]       D has every key of q once, where q(x) = M @ e(x)
    ¬q(x)    = for p in A collect [p = e(x)]       A has the keys of the outer rows at which M is zero
    f(t(x))  = for p in T collect [p = e(x)] · f(p.t)      T has t's value for every key of the outer rows

A and T are answers over one map of two counts: the outer rows of a key, and what the subquery has there. So every
outer row meets exactly one row of T, also where the subquery has none, and nothing is evaluated that the query does
not show. What a subquery reads from outside goes through equalities where it can; where it cannot, the key is all
that it reads, and M is computed for every value of that which the outer rows have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from headwater.calculus.check import type_of
from headwater.calculus.scalars import common_type
from headwater.calculus.terms import (
    Add,
    Answer,
    Apply,
    Box,
    Call,
    Const,
    Each,
    Field,
    For,
    Let,
    Neg,
    Not,
    Num,
    Pred,
    Record,
    Rel,
    Sng,
    Sum,
    Term,
    Times,
    Var,
    Zero,
    children,
    rebuild,
    relations,
    substitute,
    subterms,
    variables,
)
from headwater.calculus.types import (
    BIGINT,
    BOOLEAN,
    INT,
    MapType,
    ProductType,
    RecordType,
    Type,
    is_key,
)
from headwater.errors import NotIncremental
from headwater.rules.monoid import Monomial, monomial, summands
from headwater.rules.normalize import for_let, normalize
from headwater.rules.rewrite import rewrite
from headwater.rules.simplify import SIMPLIFY, field_of_record

ONE, NONE = Num(1, INT), Num(0, INT)
TRUE, FALSE = Const(True, BOOLEAN), Const(False, BOOLEAN)
LIVE = Const(0, BIGINT)
MARK = "subquery:"
"""How the names of subqueries begin that stand for a function of outer columns."""

Signed = list[tuple[int, Monomial]]
Named = Callable[[Term], Term]
"""Gives a name to what is answered group by group: a closed answer in, the relation of its rows out."""
Cases = list[tuple[tuple[tuple[Var, Term], ...], tuple[Term, ...]]]
"""A truth value as cases of which at most one holds: atoms to join, factors."""


@dataclass(frozen=True)
class Subquery:
    """A subquery as a function of outer columns, the fields of `param`.

    A scalar one has a ring value, called `value` in the scalars `shown`; another is a bag of rows.
    """

    param: Var
    term: Term
    value: Var | None = None
    shown: tuple[Term, ...] = ()


class Subqueries:
    """The subqueries of one compilation."""

    def __init__(self, named: Named):
        self.named = named
        self.known: dict[str, Subquery] = {}
        self.count = 0

    def _fresh(self, stem: str) -> str:
        """A variable's name that no term of this compilation has."""
        self.count += 1
        return f"{stem}′{self.count}"

    def monomials(self, term: Term) -> Signed:
        """A term as a sum of monomials over relations, without subqueries."""
        return self._expanded(summands(normalize(self.cut(term))))

    # --- names for subqueries --------------------------------------------------------------------------------

    def cut(self, term: Term) -> Term:
        """The term with every closed answer as a relation, and every other subquery as a function of columns."""
        match term:
            case Let(var, bound, body) if isinstance(var.type, MapType) and not _is_row(
                body, {var}
            ):
                return self.cut(substitute(body, {var: bound}))
            case Answer(_, _, bag) if isinstance(type_of(term), MapType):
                return self.cut(self._as_group(term, bag))
            case Each(k, v, _, body) if not _is_row(body, {k, v}):
                return self.cut(self._apart(term, {k, v}))
            case Let(v, _, body) if not is_key(type_of(term)):
                if not _is_row(body, {v}):
                    return self.cut(self._apart(term, {v}))
                if not variables(term):
                    return self.named(term)
                return self._bag(term) if monomial(body).atoms else self._scalars(term)
            case Each():
                return self._bag(term) if variables(term) else self.named(term)
            case Sum(bag) if type_of(bag).value == INT:
                x = Var(self._fresh("x"), type_of(bag).key)
                return For(x, self.cut(bag), ONE)
            case _ if _is_scalar_subquery(term):
                return self._scalar(term)
            case _:
                return rebuild(term, tuple(self.cut(c) for c in children(term)))

    def _as_group(self, term: Answer, bag: Term) -> Term:
        """f(r) = let v := r in for x in f(v) collect {x}: an answer of rows, as that of the one group."""
        v = Var(self._fresh("v"), type_of(bag))
        made = Answer(term.function, term.params, v)
        x = Var(self._fresh("x"), type_of(made).key)
        return Let(v, bag, For(x, made, Sng(x, ONE)))

    def _apart(self, term: Each | Let, own: set[Var]) -> Term:
        """each k ↦ v in m collect s(k, v) = for p in (each k ↦ v in m collect {⟨k, f(v)⟩}) collect s(p)."""
        body = _spread(term.body, own)
        factors = body.factors if isinstance(body, Times) else (body,)
        inside = tuple(f for f in factors if isinstance(f, Pred) and _only(f, own))
        rest = tuple(f for f in factors if f not in inside)
        outer: Term = rest[0] if len(rest) == 1 else Times(rest) if rest else ONE
        values = list(dict.fromkeys(_values(outer, own)))
        fields = {t: f"c{i}" for i, t in enumerate(values)}
        row = Record(tuple((n, t) for t, n in fields.items()) or (("c0", LIVE),))
        p = Var(self._fresh("p"), type_of(row))
        shown = _replaced(outer, {t: Field(p, n) for t, n in fields.items()})
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
        return Apply(Rel(self._keep(Subquery(param, body)), MapType(param.type, t)), columns)

    def _scalar(self, term: Term) -> Term:
        """A scalar over the ring value of a subquery."""
        if isinstance(term, Let):
            return self._shown(term.var, term.bound, [term.body])[term.body]
        simpler = rewrite(term, (*SIMPLIFY, for_let))  # the single row of an aggregate is that row
        if simpler != term:
            return self.cut(simpler)
        (source,) = (c for c in children(term) if relations(c))
        v = Var(self._fresh("v"), type_of(source))
        body = rebuild(term, tuple(v if c is source else c for c in children(term)))
        return self._shown(v, source, [body])[body]

    def _scalars(self, term: Let) -> Term:
        """let v := q(x) in s(v) = s(t(x)): every scalar over v is a subquery of its own."""
        values = list(dict.fromkeys(_values(term.body, {term.var})))
        return self.cut(_replaced(term.body, self._shown(term.var, term.bound, values)))

    def _shown(self, v: Var, source: Term, scalars: Sequence[Term]) -> dict[Term, Term]:
        """Scalars over the ring value of a subquery, each as a function of outer columns."""
        opened = {s: s for s in scalars}
        if any(_singles(s, v) for s in scalars):
            v, source, opened = self._counted(v, source, scalars)
        values = list(dict.fromkeys(x for s in opened.values() for x in _values(s, {v})))
        param, columns, (body, *shown) = self._over([source, *values], {v})
        name = self._keep(Subquery(param, body, v, tuple(shown)))
        args = tuple(t for _, t in columns.fields)
        calls: dict[Term, Term] = {
            t: Call(f"{name}.{i}", args, type_of(t)) for i, t in enumerate(values)
        }
        return {s: _replaced(o, calls) for s, o in opened.items()}

    def _counted(
        self, v: Var, source: Term, scalars: Sequence[Term]
    ) -> tuple[Var, Term, dict[Term, Term]]:
        """single(q) = one_row(sum(q), min(q)), over the pair of q and its count; it is checked where it is used."""
        x = Var(self._fresh("x"), type_of(source).key)
        pair = For(x, source, Record((("v", Sng(x, ONE)), ("s", ONE))))
        w = Var(self._fresh("v"), type_of(pair))
        bag, count = Field(w, "v"), Box(Field(w, "s"))
        one = Call("one_row", (count, Answer("min", (), bag)))
        opened = {s: _replaced(s, {Answer("single", (), v): one, v: bag}) for s in scalars}
        return w, pair, opened

    def _over(
        self, terms: Sequence[Term], own: Iterable[Var] = ()
    ) -> tuple[Var, Record, list[Term]]:
        """Terms over the outer columns that they read, as the fields of one variable."""
        outer = frozenset[Var]().union(*(variables(t) for t in terms)) - frozenset(own)
        read = list(dict.fromkeys(c for t in terms for c in _columns(t, outer)))
        columns = Record(tuple((f"_{i + 1}", c) for i, c in enumerate(read)))
        param = Var(self._fresh("o"), type_of(columns))
        by = _as_fields(read, param)
        return param, columns, [_tidy(substitute(t, by)) for t in terms]

    def _keep(self, s: Subquery) -> str:
        self.known[f"{MARK}{len(self.known)}"] = s
        return f"{MARK}{len(self.known) - 1}"

    # --- one subquery less ------------------------------------------------------------------------------------

    def _expanded(self, found: Signed) -> Signed:
        todo, done = list(reversed(found)), list[tuple[int, Monomial]]()
        while todo:
            sign, m = todo.pop()
            step = self._one(m)
            if step is None:
                done.append((sign, m))
                continue
            for part in reversed(step):
                built = summands(normalize(part.build(part.output)))
                todo.extend((sign * s, n) for s, n in reversed(built))
        return [(sign, m if m.atoms else self._once(m)) for sign, m in done]

    def _once(self, m: Monomial) -> Monomial:
        """A monomial that reads nothing as one over a relation that has its one row always."""
        v = Var(self._fresh("v"), INT)
        rows = self.named(Let(v, Zero(INT), Sng(_key([LIVE]), ONE)))
        return Monomial(((Var(self._fresh("p"), type_of(rows).key), rows),), m.factors, m.output)

    def _one(self, m: Monomial) -> list[Monomial] | None:
        """The monomial with one subquery less, as a sum; None if it has none."""
        plain = {v for v, s in m.atoms if isinstance(s, Rel)}
        if isinstance(m.output, Not):
            m = Monomial(m.atoms, (*m.factors, m.output), ONE)
        for i, (_, source) in enumerate(m.atoms):
            if isinstance(source, Apply) and _ready(source.argument, plain):
                return [self._lateral(m, i, source)]
        for t in (*m.factors, m.output, *(s for _, s in m.atoms)):
            for call in _calls(t):
                if all(_ready(a, plain) for a in call.args):
                    return [self._with_scalars(m, call)]
        for i, f in enumerate(m.factors):
            if isinstance(f, Not):
                rest = Monomial(m.atoms, (*m.factors[:i], *m.factors[i + 1 :]), m.output)
                cases = _Truth(self, rest).absent(f.term)
                return [
                    Monomial((*rest.atoms, *atoms), (*factors, *rest.factors), rest.output)
                    for atoms, factors in cases
                ]
        return None

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
        opened = found if own is not None else _open(found)
        keyed = self.keyed(opened, {s.param}, m, source.argument)
        groups = _sum_of(keyed.parts)
        k = Var(self._fresh("k"), type_of(groups).key)
        columns = cells(k)
        keys = [f"_key{i}" for i in range(len(keyed.keys))]
        body = term.body
        if own is not None:
            body = _tidy(substitute(body, {own: _like(own.type, columns[len(keys) :])}))
        b = monomial(body)
        assert isinstance(b.output, Sng)
        shown = cells(b.output.key)
        named = [*zip(keys, columns, strict=False), *((f"c{i}", t) for i, t in enumerate(shown))]
        output = Sng(Record(tuple(named)), b.output.value)
        answers = self.named(Each(k, v, groups, Monomial(b.atoms, b.factors, output).build(output)))
        p = Var(self._fresh("p"), type_of(answers).key)
        var, _ = m.atoms[place]
        row = _like(var.type, [Field(p, f"c{i}") for i in range(len(shown))])
        joined = _matching(p, keyed.keys)
        before, after = m.atoms[:place], m.atoms[place + 1 :]
        later = tuple((x, substitute(t, {var: row})) for x, t in after)
        factors = tuple(substitute(f, {var: row}) for f in m.factors)
        return Monomial(
            (*before, (p, answers), *later),
            (*joined, *factors),
            substitute(m.output, {var: row}),
        )

    def _with_scalars(self, m: Monomial, call: Call) -> Monomial:
        """f(t(x)) = for p in T collect [p.key = e(x)] · f(p.t)."""
        name, _ = call.function.rsplit(".", 1)
        s = self.known[name]
        argument = Record(tuple((f"_{i + 1}", a) for i, a in enumerate(call.args)))
        answers, keys = self._answers(s, m, argument)
        p = Var(self._fresh("p"), type_of(answers).key)
        fields: dict[Term, Term] = {
            Call(f"{name}.{i}", call.args, type_of(t)): Field(p, f"v{i}")
            for i, t in enumerate(s.shown)
        }
        owner = max((i for i, (v, _) in enumerate(m.atoms) if v in variables(argument)), default=-1)
        atoms = [(v, _replaced(t, fields)) for v, t in m.atoms]
        return Monomial(
            (*atoms[: owner + 1], (p, answers), *atoms[owner + 1 :]),
            (*_matching(p, keys), *(_replaced(f, fields) for f in m.factors)),
            _replaced(m.output, fields),
        )

    def _answers(self, s: Subquery, m: Monomial, argument: Record) -> tuple[Term, list[Term]]:
        """T: the scalars of a subquery for every key of the outer rows, and what its key columns equal."""
        assert s.value is not None
        found = summands(normalize(self.cut(s.term)))
        t = s.value.type
        shown = tuple((f"v{i}", x) for i, x in enumerate(s.shown))
        if not argument.fields:
            closed = _sum_of(self._expanded(found), t)
            return self.named(Let(s.value, closed, Sng(Record(shown), ONE))), []
        keyed = self.keyed(_open(found), {s.param}, m, argument)
        parts = list(t.fields) if isinstance(t, ProductType) else [("v", t)]
        rows: Signed = []
        for sign, n in keyed.parts:
            value = _value(n)
            by_name = dict(value.fields) if isinstance(value, Record) else {"v": value}
            fields = (("n", NONE), *((f"_{f}", by_name[f]) for f, _ in parts))
            rows.append((sign, _valued(n, Record(fields))))
        zeros = Record((("n", ONE), *((f"_{f}", Zero(z)) for f, z in parts)))  # type: ignore[arg-type]
        rows.append((1, _valued(_outer(m, keyed.keys), zeros, keyed.keys)))
        groups = _sum_of(rows)
        k = Var(self._fresh("k"), type_of(groups).key)
        v = Var(self._fresh("v"), type_of(groups).value)
        whole = Record(tuple((f, Field(v, f"_{f}")) for f, _ in parts))
        by = whole if isinstance(t, ProductType) else Field(v, "_v")
        answered = tuple((n, _tidy(substitute(x, {s.value: by}))) for n, x in shown)
        live = Pred(Call(">", (Box(Field(v, "n")), LIVE)))
        row = Record((*_key(cells(k)).fields, *answered))
        return self.named(Each(k, v, groups, Times((live, Sng(row, ONE))))), keyed.keys

    # --- keys ----------------------------------------------------------------------------------------------------

    def keyed(
        self, found: Signed, outer: set[Var], m: Monomial, argument: Record | None = None
    ) -> Keyed:
        """A subquery as a map by what it reads from outside: by equalities if they say all, else by every value.

        What it reads are columns of the variables `outer`: rows of m, or a parameter that `argument` gives.
        """
        by = _by_equalities(found, outer) or self._by_values(found, outer, m, argument)
        keys = by.keys
        if argument is not None:
            (param,) = outer
            keys = [_tidy(substitute(e, {param: argument})) for e in keys]
        return Keyed(self._expanded(by.parts), keys)

    def _by_values(
        self, found: Signed, outer: set[Var], m: Monomial, argument: Record | None
    ) -> Keyed:
        """q(x) for every different value of the columns that it reads: for d in D collect {d ↦ q(d)}."""
        built = [(sign, n.build(n.output)) for sign, n in found]
        read = list(dict.fromkeys(c for _, t in built for c in _columns(t, outer)))
        given = read
        if argument is not None:
            (param,) = outer
            given = [_tidy(substitute(c, {param: argument})) for c in read]
        rows = _outer(m, given)
        once = _key(given)
        d, w = Var(self._fresh("d"), type_of(once)), Var(self._fresh("w"), INT)
        live = Pred(Call(">", (Box(w), LIVE)))
        values = self.named(
            Each(d, w, rows.build(Sng(once, ONE)), Times((live, Sng(_spread(d, {d}), ONE))))
        )
        x = Var(self._fresh("x"), type_of(once))
        by = _as_fields(read, x, "_key", 0)
        inner = [Field(x, f"_key{i}") for i in range(len(read))]
        parts = [
            (sign * s, _with_key(n, inner))
            for sign, t in built
            for s, n in summands(normalize(For(x, values, _tidy(substitute(t, by)))))
        ]
        return Keyed(parts, list(read))


@dataclass(frozen=True)
class Keyed:
    """A subquery as a closed map: monomials that begin their keys with `_key0`..., and what outside equals those."""

    parts: Signed
    keys: list[Term]


class _Truth:
    """Whether a subquery has rows, given a row of a monomial, as joins."""

    def __init__(self, of: Subqueries, m: Monomial):
        self.of, self.m = of, m
        self.rows = {v for v, _ in m.atoms}

    def absent(self, term: Term) -> Cases:
        """¬r."""
        match term:
            case Not(inner):
                return self.present(inner)
            case Pred(e):
                return [((), (Pred(Call("not", (Call("coalesce", (e, FALSE)),))),))]
            case Num(value):
                return [] if value else [((), ())]
            case Zero():
                return [((), ())]
            case Times(factors):
                return self._absent_product(list(factors))
            case Add(terms) if not any(isinstance(t, Neg) for t in terms):
                return _both(*(self.absent(t) for t in terms))
            case _:
                return self._joined(term, there=False)

    def _absent_product(self, factors: list[Term]) -> Cases:
        """¬(a · b) = ¬a + ¬¬a · ¬b."""
        first, *rest = factors
        if not rest:
            return self.absent(first)
        return [
            *self.absent(first),
            *_both(self.present(first), self._absent_product(rest)),
        ]

    def present(self, term: Term) -> Cases:
        """¬¬r."""
        match term:
            case Not(inner):
                return self.absent(inner)
            case Pred():
                return [((), (term,))]
            case Num(value):
                return [((), ())] if value else []
            case Zero():
                return []
            case Times(factors):
                return _both(*(self.present(f) for f in factors))
            case Add((first, *rest)) if not any(isinstance(t, Neg) for t in (first, *rest)):
                more = Add(tuple(rest)) if len(rest) > 1 else rest[0]
                return [*self.present(first), *_both(self.absent(first), self.present(more))]
            case _:
                return self._joined(term, there=True)

    def _joined(self, term: Term, there: bool) -> Cases:
        """A join with the keys at which a subquery has rows, or with those of the outer rows at which it has none."""
        split = _null_aware(term)
        if split is not None:
            return self.present(split) if there else self.absent(split)
        of, found = self.of, summands(term)
        outer = {v for v in variables(term) if v in self.rows}
        w = Var(of._fresh("w"), INT)
        if not outer:
            whole = _sum_of(of._expanded(found), INT)
            test = Pred(Call(">" if there else "=", (Box(w), LIVE)))
            answers = of.named(Let(w, whole, Times((test, Sng(Record((("_key0", LIVE),)), ONE)))))
            return [(((Var(of._fresh("p"), type_of(answers).key), answers),), ())]
        keyed = of.keyed(_open(found), outer, self.m)
        if there:
            groups = _sum_of(keyed.parts)
            k = Var(of._fresh("k"), type_of(groups).key)
            tests: tuple[Term, ...] = (Pred(Call(">", (Box(w), LIVE))),)
        else:
            groups = _sum_of(
                [
                    *(
                        (s, _valued(n, Record((("n", NONE), ("c", _value(n))))))
                        for s, n in keyed.parts
                    ),
                    (
                        1,
                        _valued(
                            _outer(self.m, keyed.keys),
                            Record((("n", ONE), ("c", NONE))),
                            keyed.keys,
                        ),
                    ),
                ]
            )
            k = Var(of._fresh("k"), type_of(groups).key)
            w = Var(w.name, type_of(groups).value)
            tests = (
                Pred(Call(">", (Box(Field(w, "n")), LIVE))),
                Pred(Call("=", (Box(Field(w, "c")), LIVE))),
            )
        row = _spread(k, {k})
        answers = of.named(Each(k, w, groups, Times((*tests, Sng(row, ONE)))))
        p = Var(of._fresh("p"), type_of(answers).key)
        return [(((p, answers),), _matching(p, keyed.keys))]


def _both(*several: Cases) -> Cases:
    """A product of truth values: one case of each."""
    return [
        (tuple(a for atoms, _ in chosen for a in atoms), tuple(f for _, fs in chosen for f in fs))
        for chosen in product(*several)
    ]


# --- keys -----------------------------------------------------------------------------------------------------------


def _by_equalities(found: Signed, outer: set[Var]) -> Keyed | None:
    """for y in S collect [f(y) = e(x)] · s = (for y in S collect {f(y) ↦ s}) @ e(x), if all monomials say the same e."""
    parts: Signed = []
    shared: list[Term] | None = None
    for sign, m in found:
        bound = {v for v, _ in m.atoms}
        links: dict[Term, Term] = {}
        rest: list[Term] = []
        for f in m.factors:
            link = _link(f, bound, outer)
            if link is None or link[0] in links:
                rest.append(f)
            else:
                links[link[0]] = link[1]
                rest.extend(link[2])
        whole = Monomial(m.atoms, tuple(rest), m.output)
        if variables(whole.build(whole.output)) & outer or not links:
            return None
        if shared is None:
            shared = list(links)
        if set(shared) != set(links):
            return None
        parts.append((sign, _with_key(whole, [links[e] for e in shared])))
    return Keyed(parts, shared) if shared is not None else None


def _link(factor: Term, bound: set[Var], outer: set[Var]) -> tuple[Term, Term, list[Term]] | None:
    """(outside, inside, guards) of a filter that equates the two; a filter on the outside alone equals true."""
    if not isinstance(factor, Pred) or relations(factor) or any(_calls(factor)):
        return None
    match factor.condition:
        case Call("=" | "<=>" as op, (a, b)):
            for inside, outside in ((a, b), (b, a)):
                reads, others = variables(inside), variables(outside)
                if reads and reads <= bound and others and others <= outer:
                    t = common_type(type_of(inside), type_of(outside))
                    if t is None:
                        return None
                    inside, outside = (
                        e if type_of(e) == t else Call("cast", (e,), t) for e in (inside, outside)
                    )
                    guards = [Pred(Call("is_not_null", (inside,)))] if op == "=" else []
                    return outside, inside, list[Term](guards)
    reads = variables(factor)
    return (factor.condition, TRUE, []) if reads and reads <= outer else None


def _null_aware(term: Term) -> Term | None:
    """[coalesce(a = b, true)] · r, of NOT IN, is there when [a = b] · r, [a is null] · r or [b is null] · r is."""
    if not isinstance(term, For):
        return None
    m = monomial(term)
    for i, f in enumerate(m.factors):
        match f:
            case Pred(Call("coalesce", (Call("=", (a, b)), Const(True)))):
                rest = (*m.factors[:i], *m.factors[i + 1 :])
                sides = [Call("is_null", (t,)) for t in (a, b) if not isinstance(t, Const)]
                tests = [Call("=", (a, b)), *sides]
                parts = [
                    normalize(Monomial(m.atoms, (Pred(c), *rest), m.output).build(m.output))
                    for c in tests
                ]
                return Add(tuple(parts))
    return None


def _outer(m: Monomial, keys: Sequence[Term]) -> Monomial:
    """The rows of a monomial that terms over it are taken from: all that is joined, if they read several."""
    reads = frozenset[Var]().union(*(variables(k) for k in keys))
    atoms = tuple(a for a in m.atoms if a[0] in reads)
    if len(atoms) > 1:
        atoms = m.atoms
    own = {v for v, _ in atoms}
    plain = tuple(
        f
        for f in m.factors
        if isinstance(f, Pred) and variables(f) <= own and not relations(f) and not any(_calls(f))
    )
    return Monomial(atoms, plain, ONE)


def _key(keys: Sequence[Term], more: Sequence[Term] = ()) -> Record:
    return Record(tuple((f"_key{i}", t) for i, t in enumerate((*keys, *more))))


def _open(found: Signed) -> Signed:
    """Monomials of a ring value as those of a map with one key, which has no columns."""
    out: Signed = []
    for s, m in found:
        if isinstance(m.output, Not):
            m = Monomial(m.atoms, (*m.factors, m.output), ONE)
        out.append((s, Monomial(m.atoms, m.factors, Sng(Record(()), m.output))))
    return out


def _with_key(m: Monomial, keys: Sequence[Term]) -> Monomial:
    """A monomial with more columns before those of its key."""
    assert isinstance(m.output, Sng)
    return Monomial(m.atoms, m.factors, Sng(_key(keys, cells(m.output.key)), m.output.value))


def _value(m: Monomial) -> Term:
    assert isinstance(m.output, Sng)
    return m.output.value


def _valued(m: Monomial, value: Term, keys: Sequence[Term] | None = None) -> Monomial:
    """A monomial with another value."""
    key = _key(keys) if keys is not None else m.output.key  # type: ignore[union-attr]
    return Monomial(m.atoms, m.factors, Sng(key, value))


def _matching(p: Var, keys: Sequence[Term]) -> tuple[Term, ...]:
    """[p.key = e]: NULL is a key like others, since what NULL must not match was left out before."""
    return tuple(Pred(Call("<=>", (Field(p, f"_key{i}"), e))) for i, e in enumerate(keys))


def _sum_of(found: Signed, t: Type | None = None) -> Term:
    """Monomials added up; without any, the zero of a type."""
    built = [m.build(m.output) if s > 0 else Neg(m.build(m.output)) for s, m in found]
    if not built:
        assert t is not None and not is_key(t)
        return Zero(t)  # type: ignore[arg-type]
    return built[0] if len(built) == 1 else Add(tuple(built))


# --- terms ------------------------------------------------------------------------------------------------------------


def cells(key: Term) -> list[Term]:
    """The columns of a key: the fields of a record, or the key itself."""
    if isinstance(key, Record):
        return [k for _, k in key.fields]
    t = type_of(key)
    return [Field(key, n) for n, _ in t.fields] if isinstance(t, RecordType) else [key]


def _like(t: Type, columns: Sequence[Term]) -> Term:
    """A row of a type from its columns."""
    if isinstance(t, RecordType):
        return Record(tuple((n, c) for (n, _), c in zip(t.fields, columns, strict=True)))
    (only,) = columns
    return only


def _spread(term: Term, own: Iterable[Var]) -> Term:
    """The term with records written out where a whole row is read."""
    rows = {x: _like(x.type, cells(x)) for x in own if isinstance(x.type, RecordType)}
    return _tidy(substitute(term, rows))


def _only(term: Term, own: set[Var]) -> bool:
    """Whether a term reads some variables, and no relation."""
    return variables(term) <= own and not relations(term) and not any(_calls(term))


def _is_row(body: Term, own: set[Var]) -> bool:
    """Whether the answer of a group is a row of scalars, or rows that an answer function gives."""
    m = monomial(body)
    bound = {v for v, _ in m.atoms}
    if not isinstance(m.output, Sng) or len(bound) > 1:
        return False
    if any(
        not isinstance(s, Answer) or not variables(s) <= own or relations(s) for _, s in m.atoms
    ):
        return False
    return all(_only(t, own | bound) for t in (*m.factors, m.output)) and not any(
        isinstance(f, Not) for f in m.factors
    )


def _is_scalar_subquery(term: Term) -> bool:
    """Whether a scalar is computed from a ring value that reads relations."""
    if not is_key(type_of(term)) or isinstance(term, (Record, Call, Field)):
        return False
    return any(relations(c) and not is_key(type_of(c)) for c in children(term))


def _singles(term: Term, v: Var) -> bool:
    return any(t == Answer("single", (), v) for t in subterms(term))


def _values(term: Term, own: set[Var]) -> list[Term]:
    """The largest scalars of a term that read some variables and nothing else."""
    if not variables(term) & own:
        return []
    flat = is_key(t := type_of(term)) and not isinstance(t, RecordType)
    if flat and _only(term, own) and not any(_checks(s) for s in subterms(term)):
        return [term]
    return [x for c in children(term) for x in _values(c, own)]


def _checks(term: Term) -> bool:
    """Whether a scalar may fail for a group that no row asks for."""
    return isinstance(term, Call) and term.function == "one_row"


def _tidy(term: Term) -> Term:
    """The term with the fields of records that are written out; nothing else moves."""
    return rewrite(term, (field_of_record,))


def _columns(term: Term, outer: Iterable[Var]) -> list[Term]:
    """The columns of outer rows that a term reads."""
    rows = set(outer)
    if isinstance(term, Field) and term.term in rows:
        return [term]
    if isinstance(term, Var) and term in rows:
        return cells(term)
    return [c for x in children(term) if variables(x) & rows for c in _columns(x, rows)]


def _as_fields(read: Sequence[Term], row: Var, stem: str = "_", start: int = 1) -> dict[Var, Term]:
    """Outer variables as records of the columns that are read of them, which are fields of a row."""
    by: dict[Var, list[tuple[str, Term]]] = {}
    out: dict[Var, Term] = {}
    for i, c in enumerate(read):
        new = Field(row, f"{stem}{i + start}")
        if isinstance(c, Field) and isinstance(c.term, Var):
            by.setdefault(c.term, []).append((c.name, new))
        else:
            assert isinstance(c, Var), c
            out[c] = new
    return out | {x: Record(tuple(fields)) for x, fields in by.items()}


def _replaced(term: Term, by: Mapping[Term, Term]) -> Term:
    """The term with sub-terms replaced, which read nothing that is bound inside of it."""
    if term in by:
        return by[term]
    return rebuild(term, tuple(_replaced(c, by) for c in children(term)))


def _calls(term: Term) -> Iterator[Call]:
    """The scalar subqueries in a term that its own rows do not bind, those inside of ¬ left out."""
    if isinstance(term, Call) and term.function.startswith(MARK):
        yield term
    elif not isinstance(term, Not):
        for c in children(term):
            yield from _calls(c)


def _ready(argument: Term, plain: set[Var]) -> bool:
    """Whether what a subquery is a function of can be had from relations alone."""
    return variables(argument) <= plain and not any(_calls(argument))
