"""Rules that open nested terms: bags that are built and read at once, look-ups of maps, inputs with other types.

They bring a nested query into the form that `shred` and `parts` take: after them every inner bag is built where it
stands, and every map that is looked up at a key is a comprehension with an equality.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from headwater.calculus import scalars
from headwater.calculus.check import type_of
from headwater.calculus.scalars import SPARK_TEXT
from headwater.calculus.terms import (
    Add,
    Apply,
    Box,
    Call,
    Const,
    Each,
    Field,
    For,
    Let,
    Neg,
    Pred,
    Record,
    Rel,
    Repeat,
    Sng,
    Term,
    Times,
    Unbox,
    Var,
    Zero,
    apart,
    children,
    free,
    fresh,
    names_in,
    rebuild,
    relations,
    replaced,
    substitute,
    subterms,
    variables,
)
from headwater.calculus.types import (
    BOOLEAN,
    VOID,
    Boxed,
    KeyType,
    ListType,
    MapType,
    ProductType,
    RecordType,
    Type,
    has_box,
)
from headwater.errors import NotIncremental
from headwater.plan.nested.groups import each_fused, each_opened
from headwater.plan.subqueries.keyed import ONE, is_row
from headwater.rules.normalize import NORMALIZE
from headwater.rules.rewrite import Rule, rewrite
from headwater.rules.rows import cells
from headwater.rules.simplify import SIMPLIFY

COMPARING = ("=", "<=>", "nullif")

# --- inputs -------------------------------------------------------------------------------------------------------


def retyped(term: Term, by: Mapping[Rel, Term]) -> Term:
    """The term with inputs replaced by others, whose rows may have other types for the same columns."""
    match term:
        case Rel():
            return by.get(term, term)
        case For(var, source, body):
            source = retyped(source, by)
            x = Var(var.name, type_of(source).key)
            return For(x, source, retyped(_renamed(body, {var: x}), by))
        case Let(var, bound, body):
            bound = retyped(bound, by)
            x = Var(var.name, type_of(bound))
            return Let(x, bound, retyped(_renamed(body, {var: x}), by))
        case Each(key, value, source, body):
            source = retyped(source, by)
            t = type_of(source)
            k, v = Var(key.name, t.key), Var(value.name, t.value)
            return Each(k, v, source, retyped(_renamed(body, {key: k, value: v}), by))
        case Repeat(var, start, step):
            start = retyped(start, by)
            x = Var(var.name, type_of(start))
            step = retyped(_renamed(step, {var: x}), by)
            if type_of(step) != x.type:
                raise NotIncremental(
                    "RECURSION_NESTED",
                    f"`{term}` repeats rows with arrays",
                    hint="repeat flat rows, and build arrays of what the loop gives",
                )
            return replace(term, var=x, start=start, step=step)
        case Add(terms):
            return Add(_alike([retyped(t, by) for t in terms]))
        case Call("case", (condition, *branches)):
            chosen = _alike([retyped(b, by) for b in branches])
            return rebuild(term, (retyped(condition, by), *chosen))
        case Call("coalesce", args):
            return rebuild(term, _alike([retyped(a, by) for a in args]))
        case Call(scalars.OR_EMPTY, (array,)):
            array = retyped(array, by)
            return Call(scalars.OR_EMPTY, (array,), type_of(array))
        case Call(function, args) if function in COMPARING:
            made = [retyped(a, by) for a in args]
            arrays = any(has_box(type_of(a)) for a in made)  # beside a bag that is built, a cell
            return rebuild(term, _alike(made) if arrays else tuple(made))
        case _:
            return rebuild(term, tuple(retyped(c, by) for c in children(term)))


def _alike(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Terms that were of one type and may have got others, as terms of one type again.

    NULLs take the type that the others have. Beside arrays that are bags, those that are kept whole become bags.
    """
    types = [type_of(t) for t in terms]
    made: Sequence[Term] = terms
    for kind in (ListType, Boxed):
        if all(type_of(t) == type_of(made[0]) for t in made):
            break
        whole = reduce(lambda a, b, kind=kind: _merged(a, b, kind), types)  # type: ignore[misc]
        made = [_as_type(t, whole) for t in terms]
    return tuple(made)


def _merged(a: Type, b: Type, kind: type) -> Any:
    """The type of both where an array is a list in one and a bag in the other: of the kind that is given."""
    match a, b:
        case (ListType(x), Boxed(MapType(y, n))) | (Boxed(MapType(y, n)), ListType(x)):
            inner = _merged(x, y, kind)
            return ListType(inner) if kind is ListType else Boxed(MapType(inner, n))
        case ListType(x), ListType(y):
            return ListType(_merged(x, y, kind))
        case Boxed(MapType(x, n)), Boxed(MapType(y, _)):
            return Boxed(MapType(_merged(x, y, kind), n))
        case MapType(x, v), MapType(y, w):
            return MapType(_merged(x, y, kind), _merged(v, w, kind))
        case (RecordType(fields), RecordType(others)) | (ProductType(fields), ProductType(others)):
            pairs = zip(fields, others, strict=True)
            record: Any = type(a)
            return record(tuple((n, _merged(f, g, kind)) for (n, f), (_, g) in pairs))
        case _:
            return a


def _as_type(term: Term, t: Any) -> Term:
    """The term as one of a type: with other types for its NULLs and empty bags, and lists as bags."""
    if type_of(term) == t:
        return term
    match term:
        case Const(None):
            return Const(None, t)
        case Call("cast", (nothing,)) if type_of(nothing) == VOID:
            return Const(None, t)
        case Zero():
            return Zero(t)
        case Record(fields):
            types = dict(t.fields)
            return Record(tuple((n, _as_type(f, types[n])) for n, f in fields))
        case Sng(key, value):
            return Sng(_as_type(key, t.key), _as_type(value, t.value))
        case Box(inner) if isinstance(t, Boxed):
            return Box(_as_type(inner, t.content))
        case Add(terms):
            return Add(tuple(_as_type(x, t) for x in terms))
        case Neg(inner):
            return Neg(_as_type(inner, t))
        case Times(factors):
            maps = [isinstance(type_of(f), MapType) for f in factors]
            pairs = zip(factors, maps, strict=True)
            return Times(tuple(_as_type(f, t) if m else f for f, m in pairs))
        case For() | Let() | Each():
            *outer, body = children(term)
            return rebuild(term, (*outer, _as_type(body, t)))
        case Call("case", (condition, *branches)):
            return rebuild(term, (condition, *(_as_type(b, t) for b in branches)))
        case Call("coalesce", args):
            return rebuild(term, tuple(_as_type(a, t) for a in args))
    match type_of(term), t:
        case RecordType(), RecordType(columns):
            return Record(tuple((n, _as_type(Field(term, n), f)) for n, f in columns))
        case ListType(element), Boxed(MapType(row, _)):
            x = Var(fresh("x", names_in(term)), element)
            bag = For(x, Unbox(term), Sng(_as_type(x, row), ONE))
            there = Call("is_not_null", (term,))
            return Call("case", (there, Box(bag), Const(None, t)))
    return term


def compares_cells(term: Term) -> bool:
    """Whether an array that is a cell was made a bag only to be compared with a bag that is built."""
    for t in subterms(term):
        if isinstance(t, Call) and t.function in COMPARING:
            for a in t.args:
                match a:
                    case Call("case", (Call("is_not_null", (cell,)), Box(For(_, Unbox(same))), _)):
                        if cell == same and isinstance(type_of(cell), ListType):
                            return True
    return False


def _renamed(body: Term, by: dict[Var, Var]) -> Term:
    return substitute(body, {old: new for old, new in by.items() if old != new})


def as_lists(t: Type) -> KeyType:
    """A row type in which arrays are values that are kept whole."""
    match t:
        case Boxed(MapType(key, _)):
            return ListType(as_lists(key))
        case RecordType(fields):
            return RecordType(tuple((n, as_lists(f)) for n, f in fields))
        case _:
            return t  # type: ignore[return-value]


# --- rules --------------------------------------------------------------------------------------------------------


def unbox_case(term: Unbox) -> Term | None:
    """unbox(case when c then a else b) = [c] · unbox(a) + [not c] · unbox(b), and unbox(NULL) is empty.

    An array of a source that is NULL has no rows, so there the choice needs no condition.
    """
    match term:
        case Unbox(
            Call(
                "case",
                (
                    Call("is_not_null", (Field(Var() as owner, mark),)),
                    Box(For(_, Rel(name)) as rows),
                    Const(None),
                ),
            )
        ) if name.endswith(f".{mark}") and variables(rows) == {owner}:
            return rows
        case Unbox(Call("case", (condition, a, b))) if isinstance(type_of(a), Boxed):
            other = Call("not", (Call("coalesce", (condition, Const(False, BOOLEAN))),))
            return Add((Times((Pred(condition), Unbox(a))), Times((Pred(other), Unbox(b)))))
        case Unbox(Const(None, Boxed())):
            return Zero(type_of(term))
    return None


def null_of_box(term: Call) -> Term | None:
    """A bag that is built is not NULL; one that is chosen is NULL where the choice is."""
    match term:
        case Call("is_null" | "is_not_null" as test, (Box(_),)):
            return Const(test == "is_not_null", BOOLEAN)
        case Call("is_null" | "is_not_null" as test, (Call("case", (c, a, b)),)) if isinstance(
            type_of(a), Boxed
        ):
            return Call("case", (c, Call(test, (a,)), Call(test, (b,))))
    return None


def or_empty(term: Call) -> Term | None:
    """A bag or the empty one, as a choice."""
    match term:
        case Call(scalars.OR_EMPTY, (array,)) if isinstance(t := type_of(array), Boxed):
            there = Call("is_not_null", (array,))
            return Call("case", (there, array, Box(Zero(t.content))))
    return None


def apply_for(term: Apply) -> Term | None:
    """(for x in a collect b) @ e = for x in a collect (b @ e), and the same through each, let and factors."""
    match term:
        case Apply(For() | Each() | Let() as f, e) if isinstance(type_of(f), MapType):
            bound = apart(f, {x.name for x in free(e)})
            *outer, body = children(bound)
            return rebuild(bound, (*outer, Apply(body, e)))
        case Apply(Times(factors), e):
            maps = [f for f in factors if isinstance(type_of(f), MapType)]
            if len(maps) == 1:
                return Times(tuple(Apply(f, e) if f is maps[0] else f for f in factors))
    return None


def apply_sng(term: Apply) -> Term | None:
    """{k ↦ r} @ e = [k = e] · r, where NULL is equal to NULL."""
    match term:
        case Apply(Sng(key, value), e):
            same = [Pred(Call("<=>", pair)) for pair in zip(cells(key), cells(e), strict=True)]
            return Times((*same, value)) if same else value
    return None


def each_read(term: Each) -> Term | None:
    """each k ↦ v in m collect s: components of m that s does not read are left out."""
    match term:
        case Each(key, value, source, body) if isinstance(value.type, ProductType):
            names = [n for n, _ in value.type.fields]
            reads = {t.name for t in subterms(body) if isinstance(t, Field) and t.term == value}
            kept = [n for n in names if n in reads] or names[:1]
            if kept == names or _reads_whole(body, value):
                return None
            less = _with_values(source, kept)
            if less is None:
                return None
            v = Var(value.name, type_of(less).value)
            fields: dict[Term, Term] = {Field(value, n): Field(v, n) for n in kept}
            return Each(key, v, less, replaced(body, fields))
    return None


def _reads_whole(body: Term, value: Var) -> bool:
    if isinstance(body, Field) and body.term == value:
        return False
    return body == value or any(_reads_whole(c, value) for c in children(body))


def _with_values(term: Term, kept: Sequence[str]) -> Term | None:
    """A map of records with some of their components; None if they are not written out."""
    match term:
        case For() | Let() | Each():
            *outer, body = children(term)
            less = _with_values(body, kept)
            return None if less is None else rebuild(term, (*outer, less))
        case Add(terms) | Times(terms):
            made = [_with_values(t, kept) if isinstance(type_of(t), MapType) else t for t in terms]
            return None if None in made else rebuild(term, tuple(t for t in made if t is not None))
        case Neg(inner):
            less = _with_values(inner, kept)
            return None if less is None else Neg(less)
        case Sng(key, Record(fields)):
            return Sng(key, Record(tuple((n, t) for n, t in fields if n in kept)))
        case _:
            return None


def let_rows(term: Let) -> Term | None:
    """let X := a in b = b[a/X] for a collection that b takes apart: its inner bags are opened where they are read."""
    match term:
        case Let(var, bound, body) if isinstance(var.type, MapType) and not is_row(body, {var}):
            return substitute(body, {var: bound})
    return None


def builds_bags(term: Term) -> bool:
    """Whether inner bags are built or read somewhere."""
    return any(
        (isinstance(t, Box) and isinstance(type_of(t), Boxed))
        or (isinstance(t, Unbox) and isinstance(type_of(t.key), Boxed))
        for t in subterms(term)
    )


OPENED: tuple[Rule, ...] = (
    *SIMPLIFY,
    *NORMALIZE,
    let_rows,
    or_empty,
    unbox_case,
    null_of_box,
    each_fused,
    each_opened,
)
LOOKED_UP: tuple[Rule, ...] = (*SIMPLIFY, *NORMALIZE, apply_for, apply_sng, each_read)


def opened(term: Term) -> Term:
    """The normal form, in which a bag that is built and read at once is no bag."""
    return rewrite(term, OPENED)


ANY_ORDER = {"is_null", "is_not_null", "case", "coalesce"}
ANY_ORDER_IN_SPARK = {
    *("cardinality", "size", "array_size", "exists", "forall", "array_contains"),
    *("array_max", "array_min", "sort_array", "array_sort"),
}
"""Functions of arrays whose value does not depend on the order of the elements."""


def without_order(term: Term, inner: Collection[str]) -> None:
    """Raises where the order of an array matters that is kept as rows of its own: relations of inner rows have none."""
    for t in subterms(term):
        if not isinstance(t, Call) or t.function in ANY_ORDER:
            continue
        name = t.function.removeprefix(SPARK_TEXT)
        if (
            t.function.startswith(SPARK_TEXT)
            and name.partition("(")[0].lower() in ANY_ORDER_IN_SPARK
        ):
            continue
        boxed = [a for a in t.args if has_box(type_of(a))]
        rows = [r.name for a in boxed for r in relations(a) if r.name in inner]
        if rows:
            raise NotIncremental(
                "ARRAY_ORDER",
                f"`{name}` reads the array `{rows[0]}` in its order, and it is kept as rows without one",
                hint="keep the position as a field of the elements, or declare the source without a key",
            )
