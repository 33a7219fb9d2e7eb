"""One answer compiled: the maps that a group is answered from, and the row or rows that it gives.

    each k ↦ v in m collect [having(v)] · {k, f(v)}

`v` is a product of components. Those that are numbers are columns of one map, the *group's* map: count, sums. Those
that are bags are maps of their own beside it, with the group's key and the element as key:

    by value    for count(DISTINCT x) and the like: a value that comes or goes is passed on to a sum of the group
    in order    for min, max, percentiles and arrays, read from an end or whole
    in order    for rows: the first of a group (LIMIT), or all of them with windows

Then every term in the body that is read from one of these is a column, and what is left of the body are scalars over
columns: `Stratum` has both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater.calculus.check import type_of
from headwater.calculus.dyadic import POWERS
from headwater.calculus.notation.text import show
from headwater.calculus.terms import (
    Answer,
    Box,
    Call,
    Each,
    Field,
    For,
    Let,
    Num,
    Pred,
    Record,
    Rel,
    Sng,
    Sum,
    Term,
    Times,
    Unbox,
    Var,
    Zero,
    substitute,
    subterms,
)
from headwater.calculus.types import (
    BIGINT,
    DYADIC,
    INT,
    KeyType,
    MapType,
    ProductType,
    RecordType,
    RingType,
    Type,
    is_key,
    is_scalar,
)
from headwater.calculus.windows import WHOLE, Total, carried, reach
from headwater.errors import NotIncremental
from headwater.plan.answer_terms import (
    component_of,
    field_of,
    flat,
    hidden,
    number_of,
    once_each,
    power_of,
    ringed,
    summed,
)
from headwater.plan.equal_maps import digest
from headwater.plan.maps import ONE, key_fields, output_of
from headwater.plan.program import COLLECT, Distinct, FromBag, Map, Ranked, Stratum, Told
from headwater.plan.scalar import Scalar, scalar
from headwater.rules.monomial import Monomial, Signed, monomial
from headwater.rules.normalize import sum_linear
from headwater.rules.rewrite import rewrite
from headwater.rules.rounds import ROUND, with_round
from headwater.rules.rows import cells
from headwater.rules.simplify import null_of_record, sum_singleton, unbox_box

AT = Var(ROUND, BIGINT)
"""The round of an answer, in its row."""

if TYPE_CHECKING:
    from headwater.plan.compiler import Compiler


class Answering:
    """The compilation of one answer.

    `columns` says for each term over k and v in which column of the components it is. `monomials` is the source, a sum;
    `ring` has for each monomial what it adds to each ring column of the group's map, and `rings` the types of these.
    """

    def __init__(
        self,
        compiler: Compiler,
        name: str,
        term: Each | Let,
        started: Signed | None = None,
        differences: bool = False,
    ):
        """`started` says that it is a collection of a loop, with how that starts: it has its rows by round as they are."""
        self.compiler, self.name, self.term = compiler, name, term
        self.differences = differences
        if isinstance(term, Each):
            self.k: Var | None = term.key
            self.v, self.source, self.body = term.value, term.source, term.body
        else:
            self.k, self.v, self.source, self.body = None, term.var, term.bound, term.body
            self._bag_as_component()
        self.body = rewrite(self.body, (unbox_box, sum_linear, sum_singleton, null_of_record))
        found = compiler.monomials(self.source, name)
        self.groups = key_fields(type_of(self.source))
        self.moves = started is not None or compiler.moves(found)
        if self.moves:
            self.groups = [*self.groups, (ROUND, BIGINT)]
        self.monomials = [*compiler.in_rounds(found, started is not None), *(started or ())]
        self.sums = self.moves and started is None
        """Whether an answer is that of all rounds up to one, so that a group is searched without its round."""
        self.columns: dict[Term, str] = {}
        self.extra: list[tuple[str, RingType]] = []
        self.distinct: list[Distinct] = []
        self.told: list[Told] = []
        self.from_bags: list[FromBag] = []
        self.ranked: Ranked | None = None

    def _bag_as_component(self) -> None:
        """A whole bag as the one component of a value, so that its rows are not taken for groups."""
        if isinstance(self.v.type, MapType):
            x = Var("x", self.v.type.key)
            self.source = For(x, self.source, Record((("v", Sng(x, ONE)),)))
            v = Var(self.v.name, type_of(self.source))
            self.body = substitute(self.body, {self.v: Field(v, "v")})
            self.v = v

    def stratum(self) -> Stratum:
        """The group's map, the maps of its bags, and the answer over them."""
        self._keys()
        product = isinstance(self.v.type, ProductType)
        fields = (
            list(self.v.type.fields)
            if isinstance(self.v.type, ProductType)
            else [("", self.v.type)]
        )
        # Numbers of the value are ring columns of the group's map; the first column always counts rows, so that a
        # group is gone when it is zero. Bags are looked for in the body, which says how each is read.
        scalars = [(i, n, t) for i, (n, t) in enumerate(fields) if is_scalar(t)]
        self.bags: dict[Term, int] = {
            (Field(self.v, n) if product else self.v): i
            for i, (n, t) in enumerate(fields)
            if isinstance(t, MapType)
        }
        self.ring: list[list[Term]] = [[ONE] for _ in self.monomials]
        self.rings: list[RingType] = [INT]
        for i, n, t in scalars:
            column = [component_of(m.output, i) for _, m in self.monomials]
            self.columns[Field(self.v, n) if product else self.v] = self._ring(column, t)
        self._bags()
        for x, answer in monomial(self.body).atoms:
            assert isinstance(answer, Answer)
            self._rows(x, answer)
        key = RecordType(tuple((f"k{i}", t) for i, (_, t) in enumerate(self.groups)))
        value = ProductType(tuple((f"r{i}", t) for i, t in enumerate(self.rings)))
        made = [(s, ringed(m, r)) for (s, m), r in zip(self.monomials, self.ring, strict=True)]
        group = self.compiler.maps.keep(
            summed(made, MapType(key, value)),
            list(range(len(self.groups) - self.sums)),
            strategy=self.compiler.strategy,
            kind="change" if self._is_written_blindly() else "value",
            extra=tuple(self.extra),
            note="a group's value",
        )
        return self._answer(group)

    def _is_written_blindly(self) -> bool:
        """Whether the group's map is written without a look at what it has: nobody asks what a group's value was.

        An answer inside of a loop is that of a sum of rounds. The rows of a collection are its map's entries: what rounds add to
        it is what it changed by.
        """
        of_loop = self.moves and self.compiler.maps.rules >= 4
        return self.sums or self.differences or of_loop

    def _keys(self) -> None:
        """The columns of the group's key."""
        if self.moves:
            self.columns[AT] = f"k{len(self.groups) - 1}"
        if self.k is None:
            return
        if isinstance(self.k.type, RecordType):
            for i, (n, _) in enumerate(self.k.type.fields):
                self.columns[Field(self.k, n)] = f"k{i}"
        else:
            self.columns[self.k] = "k0"

    # --- bags: min, max, and what is said of different values --------------------------------------------------

    def _bags(self) -> None:
        """A column for every term of the body that reads a bag, and the map that it is read from.

        Sub-terms come after the terms that they are in, so that the largest term with a column of its own is found
        first: max(v.a) before v.a.
        """
        for t in subterms(self.body):
            if t in self.columns:
                continue
            match t:
                case Answer(name, params, of) if name in POWERS:
                    self._told(t, name, params, of)
                case Answer(name, params, of) if is_key(type_of(t)) and of in self.bags:
                    self._from_bag(t, of, name, params)
                case Answer(name, params, Each(_, _, of) as once) if of in self.bags:
                    self._from_bag(t, of, name, params, once)
                case Sum(of) if of in self.bags:
                    self.columns[t] = self._ring(self._counts(of), INT)
                case Box(of) if of in self.bags:
                    self._from_bag(t, of, COLLECT)
                case Box(Each(_, _, of) as once) if of in self.bags and not is_scalar(
                    type_of(once)
                ):
                    self._from_bag(t, of, COLLECT, (), once)
                case Each(d, w, of, body) if of in self.bags and is_scalar(type_of(t)):
                    self._different(t, of, d, w, body)

    def _told(self, term: Term, name: str, scales: tuple[int, ...], of: Term) -> None:
        """A component that is computed from exact sums: a variance from n, Σx and Σx², say."""
        sums = [t for _, t in of.fields] if isinstance(of, Record) else [of]
        for s in sums:
            match s:
                case Each(d, w, bag, body) if s not in self.columns and bag in self.bags:
                    self._different(s, bag, d, w, body)
                case _ if s not in self.columns:
                    raise NotIncremental("AGGREGATE", f"`{term}` is not maintained")
        self.columns[term] = f"s{len(self.told)}"
        made = Told(self.columns[term], name, scales, tuple(self.columns[s] for s in sums))
        self.told.append(made)

    def _from_bag(
        self,
        term: Term,
        of: Term,
        function: str,
        params: tuple[Any, ...] = (),
        once: Each | None = None,
    ) -> None:
        """A component that is read from a bag; `once` says that each of its elements counts once."""
        if once is not None and once_each(once.key, once.value, once.body) != [Sng(once.key, ONE)]:
            raise NotIncremental("AGGREGATE", f"`{term}` is not maintained")
        bag = self._bag(of, ordered=True)
        column = f"e{len(self.from_bags)}"
        items = tuple(bag.columns[len(self.groups) :])
        made = FromBag(bag, column, function, params, items, type_of(term), once is not None)
        self.from_bags.append(made)
        self.columns[term] = column

    def _rows(self, x: Var, answer: Answer) -> None:
        """The rows that an answer gives of a bag of {order, row}, which is kept in that order.

        ORDER BY price LIMIT 3 over rows (item, price) has the elements {order: (price), row: (item, price)}. The map
        has the columns: those of the group's key, order columns that are no columns of the row, and the columns of the
        row.
        """
        assert answer.term in self.bags, answer
        element = type_of(answer.term).key
        assert isinstance(element, RecordType)
        (_, order_type), (_, row_type) = element.fields
        parts = [
            (sign, m, cells(field_of(e, "order")), cells(field_of(e, "row")))
            for sign, m, e in self._elements(answer.term)
        ]
        # An order column that is a column of the row, too, is kept once; it must be so in every monomial. `orders` has
        # for each order column the row's column that it is, or -1, -2, ... for the first, second, ... that is apart.
        types = flat(row_type)
        orders: list[int] = []
        apart: list[int] = []
        for i in range(len(flat(order_type))):
            same = (j for j in range(len(types)) if all(p[2][i] == p[3][j] for p in parts))
            found = next(same, None) if parts else None
            if found is None:
                apart.append(i)
            orders.append(-len(apart) if found is None else found)
        # Where order columns are in the key of the map: group, then `apart` from `start` on, then the row from `width` on.
        start, width = len(self.groups), len(self.groups) + len(apart)
        places = [start - 1 - o if o < 0 else width + o for o in orders]
        directions = answer.params[-1] if answer.function == "first" else answer.params[0]
        # A column that orders twice orders the first time: rows that are tied are equal in it.
        by = dict[int, Any](reversed(list(zip(places, directions, strict=True))))
        places = list(dict.fromkeys(places))
        rows = [(s, m, [*(o[i] for i in apart), *r]) for s, m, o, r in parts]
        bag = self._kept(
            rows,
            [flat(order_type)[i] for i in apart] + types,
            order=[(p, *by[p]) for p in places] or [(width, False, False)],
            note="the rows of a group, in order",
        )
        row = tuple((f"k{width + i}", f"x{i}") for i in range(len(types)))
        order = tuple(f"k{p}" for p in places)
        of: Term = x
        if answer.function == "first":
            limit, offset, _ = answer.params
            self.ranked = Ranked(bag, order, row, limit, offset)
        else:
            given = dict(zip(answer.params[2], (n for _, n in row), strict=True))
            windows = tuple((f"w{i}", w.over(given)) for i, w in enumerate(answer.params[1]))
            self.ranked = Ranked(bag, order, row, answer.params[3], 0, windows)
            # Without an order all rows are peers, and all of them are read. So are those of a group in a loop.
            if directions and parts and not self.sums:
                columns = zip(*(p[3] for p in parts), strict=True)
                named = zip((n for _, n in row), types, columns, strict=True)
                self._part({n: (t, c) for n, t, c in named})
            of = Field(x, "row")
            for n, _ in windows:
                self.columns[Field(Field(x, "w"), n)] = n
        for cell, (_, name) in zip(cells(of), row, strict=True):
            self.columns[cell] = name

    def _part(self, columns: Mapping[str, tuple[KeyType, tuple[Term, ...]]]) -> None:
        """How far a changed row matters for its group, and the totals that spare reading what comes before it.

        For a running sum the rows from the change on are read again. What the sum is there comes from the total of the
        whole group, a ring column of the group's map, less what was read. `columns` has of each column of the row its
        type, and what it is in each monomial.
        """
        assert self.ranked is not None
        windows = [w for _, w in self.ranked.windows]
        exact = self.compiler.maps.rules >= 2
        found = reach(windows, {n: t for n, (t, _) in columns.items()}, exact)
        if found == WHOLE or (found.kind == "suffix" and found.after):
            return  # `Ranked` says WHOLE unless it is told otherwise
        totals: list[tuple[Total, str]] = []
        for total in carried(windows) if found.kind == "suffix" else ():
            if total.kind == "rows":
                totals.append((total, "r0"))
                continue
            terms: list[Term] = []
            for i in range(len(self.monomials)):
                own = [columns[c][1][i] for c in total.columns]
                if total.kind == "sum":
                    terms.append(Unbox(own[0]))
                elif total.kind == "power":
                    terms.append(Unbox(Call("_exact", tuple(own * total.power))))
                else:
                    tests = tuple(Pred(Call("is_not_null", (c,))) for c in own)
                    terms.append(tests[0] if len(tests) == 1 else Times(tests))
            totals.append((total, self._ring(terms, type_of(terms[0]))))
        self.ranked = replace(self.ranked, reach=found, totals=tuple(totals))

    def _ring(self, terms: list[Term], t: Type) -> str:
        """The column of the group's ring that adds up a term of each monomial; an equal one is shared."""
        for j in range(len(self.rings)):
            if terms and [r[j] for r in self.ring] == terms:
                return f"r{j}"
        for r, c in zip(self.ring, terms, strict=True):
            r.append(c)
        self.rings.append(t)  # type: ignore[arg-type]
        return f"r{len(self.rings) - 1}"

    def _different(self, term: Each, of: Term, d: Var, w: Var, body: Term) -> None:
        """A sum over the different values of a bag, as a ring column of the group that the bag passes on to.

        count(DISTINCT x) is `each d ↦ w in v.a collect [w > 0]`. It is not linear in the rows, but it is in the values
        that come and go: the bag is a map by value, and when a value's count becomes positive, 1 is added to the group.
        """
        rest = once_each(d, w, body)
        power = power_of(rest, d)
        if power is None:
            raise NotIncremental("AGGREGATE", f"`{term}` is not maintained")
        bag = self._bag(of, ordered=False)
        t = type_of(term)
        what = f"{t}{power}" if t == DYADIC else str(not rest)
        column = f"d{digest(bag.name, what)}"  # says which bag, so that groups are shared rightly
        if column not in dict(self.extra):
            self.extra.append((column, t))
            self.distinct.append(Distinct(bag, column, not rest, power))
        self.columns[term] = column

    def _bag(self, of: Term, ordered: bool) -> Map:
        element = type_of(of).key
        parts = [(sign, m, cells(e)) for sign, m, e in self._elements(of)]
        start, types = len(self.groups), flat(element)
        if ordered:
            order = [(start + i, False, False) for i in range(len(types))]
            return self._kept(parts, types, order=order, note="the values of a group, in order")
        note = "the different values of a group"
        by_value = None if self.sums else start + len(types)
        return self._kept(parts, types, lookup=by_value, note=note)

    def _counts(self, of: Term) -> list[Term]:
        """How many elements each monomial adds to a bag: the factors of its value without the element."""
        out: list[Term] = []
        for _, m in self.monomials:
            value = component_of(m.output, self.bags[of])
            if isinstance(value, Zero):  # the column is NULL there, and adds nothing
                out.append(Zero(INT))
                continue
            parts = value.factors if isinstance(value, Times) else (value,)
            one = tuple(p.value if isinstance(p, Sng) else p for p in parts)
            kept = tuple(p for p in one if p != ONE)
            out.append(Times(kept) if len(kept) > 1 else kept[0] if kept else ONE)
        return out

    def _elements(self, of: Term) -> Iterator[tuple[int, Monomial, Term]]:
        """The monomials of a bag, each with the element that it adds: {k ↦ ⟨1, [f] · {x}⟩} adds x where f holds.

        The output of each is {k ↦ ⟨1⟩} times how often the element is added; `_kept` makes one key of both.
        """
        for sign, m in self.monomials:
            value = component_of(m.output, self.bags[of])
            if isinstance(value, Zero):  # a branch of UNION ALL in which the column is NULL
                continue
            factors = value.factors if isinstance(value, Times) else (value,)
            (item,) = (f for f in factors if isinstance(f, Sng))
            rest = tuple(f for f in factors if f is not item)
            key = ringed(m, [ONE]).output
            yield sign, Monomial(m.atoms, (*m.factors, *rest), Times((key, item.value))), item.key

    def _level(self) -> int:
        """The level of the group's map.

        A bag of different values reads fewer relations than its group, perhaps, and so could be merged at a lower level.
        But it passes on to the group in the same step, and a group that has no rows yet would keep nothing of that.
        """
        known = self.compiler.relations.levels
        names = (s.name for _, m in self.monomials for _, s in m.atoms if isinstance(s, Rel))
        return max((known.get(n, 0) for n in names), default=0)

    def _kept(
        self,
        parts: list[tuple[int, Monomial, list[Term]]],
        types: list[KeyType],
        *,
        lookup: int | None = None,
        order: Sequence[tuple[int, bool, bool]] = (),
        note: str,
    ) -> Map:
        """The map of a bag, with the group's key and the columns of an element as its key.

        It is searched by the group's key, or by its first `lookup` columns; then it is routed by the group's key, so
        that one task merges a group with its bag.
        """
        groups = len(self.groups)
        made = []
        for sign, m, items in parts:
            assert isinstance(m.output, Times)
            group, times = m.output.factors
            key, _ = output_of(group)
            row = Record(tuple((f"k{i}", t) for i, t in enumerate((*key, *items))))
            made.append((sign, Monomial(m.atoms, m.factors, Sng(row, times))))
        key_type = [*(t for _, t in self.groups), *types]
        t = MapType(RecordType(tuple((f"k{i}", k) for i, k in enumerate(key_type))), INT)
        return self.compiler.maps.keep(
            summed(made, t),
            list(range(groups - self.sums if lookup is None else lookup)),
            strategy=self.compiler.strategy,
            route=None if lookup is None else list(range(groups)),
            order=order,
            level=self._level() if lookup is not None else 0,
            note=note,
        )

    # --- the answer ------------------------------------------------------------------------------------------------

    def _answer(self, group: Map) -> Stratum:
        """The stratum: the body as filters, cells of a row and a weight, all of them scalars over columns."""
        m = monomial(self.body)
        assert isinstance(m.output, Sng), self.body
        where = [f.condition for f in m.factors if isinstance(f, Pred)]
        weights = [f for f in (*m.factors, m.output.value) if not isinstance(f, Pred) and f != ONE]
        known = self.columns.keys()
        if len(weights) > 1 or not all(isinstance(w, (Unbox, Num)) or w in known for w in weights):
            raise NotIncremental(
                "ANSWER",
                f"the rows of `{self.body}` are there as often as a product says that no map holds",
                hint="aggregate in a subquery of FROM first",
            )
        key = m.output.key
        row_type = RecordType(tuple(key_fields(type_of(self.term))))
        row_cells = cells(key)
        if self.moves:
            row_type, row_cells = with_round(row_type), [*row_cells, AT]
        weight = None
        for w in weights:
            weight = self._scalar(number_of(w))
        made = Stratum(
            self.name,
            show(self.term),
            row_type,
            group,
            tuple(self.distinct),
            tuple(self.from_bags),
            self.ranked,
            None,
            self.k is None and self.ranked is None,
            tuple(self._scalar(t) for t in where),
            tuple(
                (n, self._scalar(c)) for (n, _), c in zip(row_type.fields, row_cells, strict=True)
            ),
            weight,
            group.level,
            tuple(self.told),
            rounds=self.sums,
        )
        if self.from_bags and (not self.sums or _by_ends(made)):
            made = replace(made, answers=self.last_answers(made))
        return made

    def _scalar(self, term: Term) -> Scalar:
        """A term of the body over the columns of the components; a bag that has no column by now cannot be read."""
        unread = [b for b in self.bags if b in subterms(hidden(term, self.columns))]
        if unread:
            raise NotIncremental(
                "AGGREGATE",
                f"`{term}` reads the rows of its group by none of the functions that are kept for groups",
                hint="write sum, count, avg, min, max, their DISTINCT forms, or another aggregate of SQL",
            )
        return scalar(term, self.columns)

    def last_answers(self, made: Stratum) -> Map:
        """The map of what was answered last, by group.

        The old row of a touched group must be taken back. From the sums it can be told again, as the group's map has their
        old values at hand. From a bag it would have to be read as it was before, which is more work than to keep it.
        Inside of a loop only the ends of bags are kept, by round.
        """
        ends = [(b.column, b.type) for b in made.from_bags]
        cells = [*made.group.key, *ends] if self.sums else made.components
        key = tuple((f"k{i}", t) for i, (_, t) in enumerate(cells))
        by, name = made.group.lookup, f"a{digest(self.name)}"
        note = "last answers"
        ring = (("r0", INT),)
        kept = Map(name, show(self.term), key, ring, by, by, level=made.group.level, note=note)
        self.compiler.program.maps[name] = kept
        return kept


def _by_ends(made: Stratum) -> bool:
    """Whether an answer inside of a loop is that of ends of bags alone: of its count it asks whether there are rows."""
    columns = {n for n, _ in made.group.key} | {b.column for b in made.from_bags}
    ends = all(b.function in ("min", "max") and len(b.items) == 1 for b in made.from_bags)
    told = [s for _, s in made.row] + ([made.weight] if made.weight else [])
    asked = [s for s in made.where if not (s.reads == ("r0",) and s.sql == "(`r0` > 0L)")]
    if made.ranked is not None or not ends or (made.always and len(asked) < len(made.where)):
        return False
    return all(columns.issuperset(s.reads) for s in (*told, *asked))
