"""Shredded queries as flat parts: labels as columns, dictionaries as closed maps from labels to contents.

`shred` names an inner bag by all that it reads from outside. What determines it is less: where it is tied to the
outside by equalities alone, the values that those compare,

    (for y in S collect [f(y) = e(x)] · s)  at the label e(x)  is  for y in S collect {(f(y), s)}

so the part of the inner bags reads nothing from outside, and has the bags of owners that are yet to come. Elsewhere
the label is all columns that are read, and the part is computed for the different labels of the part above:

    for d in D collect {(d, s(d))}      D = the labels that the rows above have, each once

Every part is then a flat query like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwater.calculus.check import type_of
from headwater.calculus.shapes import Bags, Cell, Row, Shape, Variant
from headwater.calculus.terms import (
    Add,
    Box,
    Call,
    Const,
    Dict,
    DictUnion,
    Each,
    Field,
    For,
    Label,
    Let,
    Neg,
    Pred,
    Record,
    Sng,
    Term,
    Times,
    Var,
    Zero,
    apart,
    children,
    rebuild,
    substitute,
    subterms,
    variables,
)
from headwater.calculus.types import (
    BIGINT,
    INT,
    LABEL,
    Boxed,
    KeyType,
    MapType,
    RecordType,
    Type,
    has_box,
)
from headwater.errors import NotShreddable
from headwater.plan.nested.opening import LOOKED_UP, opened
from headwater.plan.nested.shred import Context, Entries, Fields, Inner, shred
from headwater.plan.subqueries.asked import asks
from headwater.plan.subqueries.cut import Subqueries
from headwater.plan.subqueries.keyed import (
    LIVE,
    ONE,
    Keyed,
    as_fields,
    by_equalities,
    columns_of,
    key_of,
    only_reads,
)
from headwater.rules.monomial import Monomial, Signed, monomial, sum_of, summands
from headwater.rules.rewrite import rewrite
from headwater.rules.rows import cells, row_like, tidy

VALUE = "value"
"""The column of an element that is no record."""


@dataclass(frozen=True)
class FlatPart:
    """A flat part of a nested query: its top rows, or the contents of all its inner bags at a path.

    `term` gives flat rows: first the columns of the label, `#0`, `#1`, ..., then those that `shape` puts together. For
    inner bags `owner` is the number of the part above, and `at` are the columns of its rows that hold the label. Where
    a place may have bags of several kinds, `tagged` is the column above that says which kind a row has, and the number
    of this one.
    """

    path: str
    term: Term
    label: tuple[str, ...]
    shape: Shape
    owner: int | None = None
    at: tuple[str, ...] = ()
    tagged: tuple[str, int] | None = None


def parts_of(term: Term) -> list[FlatPart]:
    """A query with nested rows as flat parts, the top first, each after the part above it."""
    shredded = shred(opened(term))
    assert isinstance(shredded.type, MapType)
    context = shredded.context.keys if isinstance(shredded.context, Entries) else None
    return _Parts().all(shredded.flat, shredded.type.key, context)


# --- parts --------------------------------------------------------------------------------------------------------


@dataclass
class _Bag:
    """One kind of inner bag in the making.

    `term` is the contents of one bag, as flat rows over `params`, the values in its label that `shred` gave it. `keys`
    are the terms over `params` that really determine it, its label from now on. `closed` is the contents of all bags,
    each row with its key before it, where equalities say the key; else None, and the rows above are asked for the
    labels.
    """

    path: str
    index: str
    params: tuple[Var, ...]
    term: Term
    shape: Shape
    keys: list[Term]
    closed: Signed | None


class _Parts:
    """One query's parts; inner bags are numbered as they are met."""

    def __init__(self) -> None:
        self.bags: list[_Bag] = []
        self.known: dict[tuple[str, Dict], int] = {}

    def all(self, flat: Term, t: KeyType, context: Context) -> list[FlatPart]:
        """The parts of a shredded query, level by level.

        Bags are numbered as they are met, which is from the inside to the outside: the columns of a row depend on the
        keys of the bags in it. Parts are numbered from the top, so that each comes after its owner. `numbers` leads
        from the one to the other, and shapes are renumbered in the end.
        """
        flat = rewrite(flat, LOOKED_UP)
        labels = _Labels(flat)
        shape = self.shape(t, context, "", "", labels)
        top = outputs(flat, lambda key: Record(tuple(self.columns(key, shape, labels))))
        parts = [FlatPart("", top, (), shape)]
        at = {0: shape}
        numbers: dict[int, int] = {}
        todo = [0]
        while todo:
            above = todo.pop(0)
            for tag, number, variant in _variants(at[above]):
                bag = self.bags[variant.part]
                label = tuple(f"#{i}" for i in range(len(bag.keys)))
                term = self._closed(bag, label, parts[above], variant, (tag, number))
                numbers[variant.part] = len(parts)
                tagged = None if tag is None else (tag, number)
                parts.append(
                    FlatPart(bag.path, term, label, bag.shape, above, variant.label, tagged)
                )
                at[len(parts) - 1] = bag.shape
                todo.append(len(parts) - 1)
        return [_renumbered(p, numbers) for p in parts]

    # --- shapes and columns ---------------------------------------------------------------------------------------

    def shape(self, t: Type, context: Context, path: str, name: str, labels: _Labels) -> Shape:
        """The shape of a row of a nested type; inner bags are prepared as they are met."""
        match t:
            case RecordType(fields) if has_box(t) or not name:
                of = dict(context.of) if isinstance(context, Fields) else {}
                return Row(
                    tuple(
                        (n, self.shape(f, of.get(n), _dot(path, n), _dot(name, n), labels))
                        for n, f in fields
                    )
                )
            case Boxed(content) if isinstance(context, Inner):
                assert isinstance(content, MapType)
                if content.value != INT:
                    raise NotShreddable(f"an inner collection of {content} is no bag of rows")
                inside = context.content
                keys = inside.keys if isinstance(inside, Entries) else None
                if (
                    not name
                ):  # a bag that is itself an element: its path is not that of the bag it is in
                    name, path = VALUE, _dot(path, VALUE)
                found = [
                    self.bag(d, content.key, keys, path)
                    for d in _dictionaries(context.dictionary)
                    if not isinstance(d, Dict) or d.index in labels.made
                ]
                # A tag is needed to tell kinds apart, and also to tell no array (NULL) from an empty one.
                tag = f"{name}#" if len(found) > 1 or labels.may_be_null else None
                variants = []
                for i, number in enumerate(found):
                    stem = f"{name}#{i}." if len(found) > 1 else f"{name}#"
                    columns = tuple(f"{stem}{j}" for j in range(len(self.bags[number].keys)))
                    variants.append(Variant(number, columns))
                return Bags(tuple(variants), tag)
            case _ if has_box(t):
                raise NotShreddable(f"`{t}` has no labels to follow")
            case _:
                return Cell(name or VALUE)

    def columns(self, key: Term, shape: Shape, labels: _Labels) -> Iterator[tuple[str, Term]]:
        """The columns of a flat row: its cells, and those of its labels."""
        match shape:
            case Cell(column):
                yield column, key
            case Row(fields):
                for name, inner in fields:
                    yield from self.columns(tidy(Field(key, name)), inner, labels)
            case Bags(variants, tag):
                yield from self._label(key, variants, tag, labels)

    def _label(
        self, label: Term, variants: Sequence[Variant], tag: str | None, labels: _Labels
    ) -> Iterator[tuple[str, Term]]:
        """A label as columns: which kind of bag it is, and the values that determine the bag."""
        if tag is not None:
            yield tag, self._tag(label, variants)
        for v in variants:
            bag = self.bags[v.part]
            for j, column in enumerate(v.label):
                yield column, self._value(label, bag, j)

    def _tag(self, label: Term, variants: Sequence[Variant]) -> Term:
        """Which kind of bag a label names, by number; NULL where there is no array."""
        match label:
            case Label(index):
                kinds = [self.bags[v.part].index for v in variants]
                return Const(kinds.index(index), BIGINT)
            case Call("case", (condition, a, b)):
                return Call("case", (condition, self._tag(a, variants), self._tag(b, variants)))
            case Const(None):
                return Const(None, BIGINT)
        raise _unread(label)

    def _value(self, label: Term, bag: _Bag, place: int) -> Term:
        """The value of a key of one kind of bag in a label; NULL where the label is of another kind."""
        match label:
            case Label(index, args):
                if index != bag.index:
                    return Const(None, type_of(bag.keys[place]))
                return tidy(substitute(bag.keys[place], dict(zip(bag.params, args, strict=True))))
            case Call("case", (condition, a, b)):
                return Call(
                    "case", (condition, self._value(a, bag, place), self._value(b, bag, place))
                )
            case Const(None):
                return Const(None, type_of(bag.keys[place]))
        raise _unread(label)

    # --- inner bags -----------------------------------------------------------------------------------------------

    def bag(self, dictionary: Term, t: KeyType, context: Context, path: str) -> int:
        """The number of a dictionary's bags, with their contents as flat rows and the key that determines them.

        If equalities do not say the key, it is every column that the contents read from outside.
        """
        if not isinstance(dictionary, Dict):
            raise NotShreddable(f"`{dictionary}` defines inner bags in a way that is not followed")
        at = (path, dictionary)
        if at not in self.known:
            body = rewrite(dictionary.body, LOOKED_UP)
            labels = _Labels(body)
            shape = self.shape(t, context, path, "", labels)
            term = outputs(body, lambda key: Record(tuple(self.columns(key, shape, labels))))
            params = frozenset(dictionary.params)
            keyed = by_key(term, set(params))
            read = keyed.keys if keyed else list(dict.fromkeys(columns_of(term, params)))
            self.known[at] = len(self.bags)
            parts = keyed.parts if keyed else None
            made = _Bag(path, dictionary.index, dictionary.params, term, shape, read, parts)
            self.bags.append(made)
        return self.known[at]

    def _closed(
        self,
        bag: _Bag,
        label: tuple[str, ...],
        above: FlatPart,
        variant: Variant,
        tagged: tuple[str | None, int],
    ) -> Term:
        """The contents of all bags of a kind, each row with the label of its bag before it."""
        names = [*label, *(n for n, _ in _row_type(bag.term).fields)]

        def named(key: Term) -> Record:
            return Record(tuple(zip(names, cells(key), strict=True)))

        if bag.closed is not None:
            if not bag.closed:
                return Zero(MapType(_labelled(bag, names), INT))
            return outputs(sum_of(bag.closed), named)
        # Not closed: for each label that some row above has, the contents of its bag. So this part reads the part above,
        # and changes when labels come and go there.
        domain = _domain(above, variant, tagged, label)
        x = Var("d", type_of(domain).key)
        term = apart_from(bag.term, {"d"})
        by = as_fields(bag.keys, x, "#", 0)
        own = [Field(x, n) for n in label]
        body = tidy(substitute(term, by))
        return For(x, domain, outputs(body, lambda key: named(key_of(own, cells(key)))))


class _Labels:
    """The labels that a term makes, by index, and whether some may be NULL."""

    def __init__(self, term: Term) -> None:
        # Bags of different kinds in one place share a context; each makes labels of its own.
        self.made = {t.index for t in subterms(term) if isinstance(t, Label)}
        self.may_be_null = any(
            isinstance(t, (Call, Const)) and type_of(t) == LABEL for t in subterms(term)
        )


def _labelled(bag: _Bag, names: Sequence[str]) -> RecordType:
    types = [*(type_of(k) for k in bag.keys), *(t for _, t in _row_type(bag.term).fields)]
    return RecordType(tuple(zip(names, types, strict=True)))


def _row_type(term: Term) -> RecordType:
    t = type_of(term).key
    assert isinstance(t, RecordType)
    return t


def _domain(
    above: FlatPart, variant: Variant, tagged: tuple[str | None, int], label: tuple[str, ...]
) -> Term:
    """The different labels that the rows above have: what a part is computed for that is not closed.

    each d ↦ w in (for r in above collect {label of r}) collect [w > 0] · {d}
    """
    r = Var("r", type_of(above.term).key)
    key = Record(tuple((n, Field(r, c)) for n, c in zip(label, variant.label, strict=True)))
    tag, number = tagged
    mine: tuple[Term, ...] = ()
    if tag is not None:
        mine = (Pred(Call("=", (Field(r, tag), Const(number, BIGINT)))),)
    found = For(r, above.term, Times((*mine, Sng(key, ONE))) if mine else Sng(key, ONE))
    d, w = Var("d", type_of(key)), Var("w", INT)
    row = Record(tuple((n, Field(d, n)) for n in label))
    live = Pred(Call(">", (Box(w), LIVE)))
    return Each(d, w, found, Times((live, Sng(row, ONE))))


def by_key(term: Term, outer: set[Var]) -> Keyed | None:
    """A bag that depends on outer columns as a map by key; None if equalities do not say all.

    [l for l in lines if l.order_id == o.id]       by key   {(l.order_id, l)}, and the key is o.id
    [l for l in lines if l.price > o.least]        None: no map by a value of o has just these bags
    """
    found = summands(term)
    if not variables(term) & outer:  # one bag for all: its label says nothing
        same = outputs(term, lambda key: key_of([LIVE], cells(key)))
        return Keyed(summands(same), [LIVE])
    (first, *more) = found
    grouped = first[1].output
    if isinstance(grouped, Each) and not more and not first[1].atoms and not first[1].factors:
        return _by_group(first[0], grouped, outer)
    if any(not isinstance(m.output, Sng) for _, m in found):
        # Answers of groups as rows that are joined: what is left is a comprehension over them.
        found = summands(Subqueries(lambda answer: answer).cut(term))
        if any(_unknown(m) or not isinstance(m.output, Sng) for _, m in found):
            return None
    return by_equalities(found, outer)


def _unknown(m: Monomial) -> bool:
    """Whether something is left that only the rows outside can say."""
    return asks(m.build(m.output))


def _by_group(sign: int, term: Each, outer: set[Var]) -> Keyed | None:
    """each k ↦ v in (M @ e(x)) collect s = (each (e, k) ↦ v in M collect {e ↦ s}) @ e(x)."""
    body = monomial(term.body)
    own = {term.key, term.value}
    if body.atoms or not isinstance(body.output, Sng):
        return None
    if not all(only_reads(t, own) for t in (*body.factors, body.output)):
        return None
    inner = by_key(term.source, outer)
    if inner is None:
        return None
    groups = sum_of(inner.parts)
    k = Var(term.key.name, type_of(groups).key)
    columns, count = cells(k), len(inner.keys)
    by = {term.key: row_like(term.key.type, columns[count:])}
    factors = tuple(tidy(substitute(f, by)) for f in body.factors)
    shown = tidy(substitute(body.output.key, by))
    output = Sng(key_of(columns[:count], cells(shown)), body.output.value)
    made = Each(k, term.value, groups, Monomial((), factors, output).build(output))
    return Keyed([(sign, Monomial((), (), made))], inner.keys)


def outputs(term: Term, f: Callable[[Term], Record]) -> Term:
    """The term with f(row) for every row that it gives: it goes through all that only chooses or combines rows."""
    match term:
        case For() | Each() | Let():
            *outer, body = children(term)
            return rebuild(term, (*outer, outputs(body, f)))
        case Add(terms):
            return Add(tuple(outputs(t, f) for t in terms))
        case Neg(inner):
            return Neg(outputs(inner, f))
        case Times(factors):
            return Times(
                tuple(outputs(t, f) if isinstance(type_of(t), MapType) else t for t in factors)
            )
        case Sng(key, value):
            return Sng(f(key), value)
        case Zero(MapType(key, value)):
            return Zero(MapType(type_of(f(Var("x", key))), value))
        case _ if isinstance(t := type_of(term), MapType):
            x = Var("x", t.key)
            return For(x, term, Sng(f(x), ONE))
    raise AssertionError(term)


def apart_from(term: Term, names: set[str]) -> Term:
    """The term with no binder of these names."""
    renamed = apart(term, names)
    return rebuild(renamed, tuple(apart_from(c, names) for c in children(renamed)))


def _variants(shape: Shape) -> Iterator[tuple[str | None, int, Variant]]:
    match shape:
        case Row(fields):
            for _, inner in fields:
                yield from _variants(inner)
        case Bags(variants, tag):
            for i, v in enumerate(variants):
                yield tag, i, v


def _renumbered(part: FlatPart, numbers: Mapping[int, int]) -> FlatPart:
    """The part with the numbers of parts in its shape."""

    def go(shape: Shape) -> Shape:
        match shape:
            case Row(fields):
                return Row(tuple((n, go(s)) for n, s in fields))
            case Bags(variants, tag):
                return Bags(tuple(Variant(numbers[v.part], v.label) for v in variants), tag)
            case _:
                return shape

    return FlatPart(
        part.path, part.term, part.label, go(part.shape), part.owner, part.at, part.tagged
    )


def _dictionaries(term: Term) -> list[Term]:
    """The dictionaries of a place, one for each kind of bag."""
    match term:
        case DictUnion(left, right):
            return list(dict.fromkeys([*_dictionaries(left), *_dictionaries(right)]))
        case Zero():
            return []
        case _:
            return [term]


def _dot(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _unread(label: Term) -> NotShreddable:
    return NotShreddable(
        f"`{label}` is an inner bag that comes from where labels cannot follow",
        hint="build inner bags with a comprehension, collect_list or a subquery",
    )
