"""Shredding: nested queries as flat ones, with labels for inner bags and dictionaries for their contents.

`shred(q)` gives a flat term, in which each boxed bag is a label, and a *context*: a tree that mirrors
the type and holds, for each boxed place, the dictionary from labels to contents. A label is a static
index and the values of the free variables of the bag it names, so it does not change when the bag does;
that is what lets a change reach an inner bag by adding to its definition. `nest` puts values back:

    nest(interpret(flat), interpret(context)) = interpret(q)

An input R with an inner bag `items` is read as the flat input R and the dictionary input `R.items`;
`shred_value` makes both from a nested value. Labels stand for contents only where contents are not
compared: a query that groups by, joins on or compares an inner bag is refused with `NotShreddable`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from headwater.calculus import ring
from headwater.calculus.check import type_of
from headwater.calculus.interpret import interpret
from headwater.calculus.ring import Dictionary, FiniteDictionary, LabelValue, RingMap, Value
from headwater.calculus.terms import (
    Add,
    Apply,
    Box,
    Call,
    Const,
    Dict,
    DictUnion,
    Differential,
    Each,
    Field,
    Fn,
    For,
    Label,
    Let,
    Neg,
    Num,
    Pointwise,
    Record,
    Rel,
    Repeat,
    Sng,
    Sum,
    Term,
    Times,
    Unbox,
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
    LABEL,
    Boxed,
    FunType,
    MapType,
    ProductType,
    RecordType,
    Type,
    has_box,
    is_key,
)
from headwater.errors import InconsistentShredding, LabelConflict, NotShreddable

# --- contexts -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fields:
    """The context of a record or a product: one for each field that has inner bags."""

    of: tuple[tuple[str, Context], ...]


@dataclass(frozen=True)
class Inner:
    """The context of a boxed place: its dictionary (a term, or its value), and what is inside."""

    dictionary: Any
    content: Context


@dataclass(frozen=True)
class Entries:
    """The context of a map: of its keys and of its values."""

    keys: Context
    values: Context


Context: TypeAlias = Fields | Inner | Entries | None
"""None: nothing nested below."""


@dataclass(frozen=True)
class Shredded:
    """A query in shredded form: the flat term, the context, and the nested type they stand for."""

    flat: Term
    context: Context
    type: Type

    def dictionaries(self) -> dict[str, Term]:
        """The dictionary of each boxed place, by path."""
        return dict(paths(self.context))


def paths(context: Context, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every dictionary in a context with its path: `orders`, `orders.parts`; values of maps as `@`."""
    match context:
        case Fields(of):
            for name, inner in of:
                yield from paths(inner, f"{path}.{name}" if path else name)
        case Inner(dictionary, content):
            yield path, dictionary
            yield from paths(content, path)
        case Entries(keys, values):
            yield from paths(keys, path)
            yield from paths(values, f"{path}.@" if path else "@")


def map_context(context: Context, f: Callable[[Any], Any]) -> Context:
    """The context with every dictionary replaced."""
    match context:
        case Fields(of):
            return Fields(tuple((n, map_context(c, f)) for n, c in of))
        case Inner(dictionary, content):
            return Inner(f(dictionary), map_context(content, f))
        case Entries(keys, values):
            return Entries(map_context(keys, f), map_context(values, f))
        case _:
            return None


def flat_type(t: Type) -> Any:
    """The type with a label at every boxed place."""
    match t:
        case Boxed():
            return LABEL
        case RecordType(fields):
            return RecordType(tuple((n, flat_type(f)) for n, f in fields))
        case ProductType(fields):
            return ProductType(tuple((n, flat_type(f)) for n, f in fields))
        case MapType(key, value):
            return MapType(flat_type(key), flat_type(value))
        case FunType(argument, result):
            return FunType(flat_type(argument), flat_type(result))
        case _:
            return t


def context_of(t: Type, path: str, make: Callable[[str, Type], Any]) -> Context:
    """The context of a type, with a dictionary made for each boxed place from its path and content type."""
    match t:
        case RecordType(fields) | ProductType(fields):
            parts = [(n, context_of(f, f"{path}.{n}", make)) for n, f in fields]
            kept = tuple((n, c) for n, c in parts if c is not None)
            return Fields(kept) if kept else None
        case Boxed(content):
            return Inner(make(path, content), context_of(content, path, make))
        case MapType(key, value):
            keys, values = context_of(key, path, make), context_of(value, f"{path}.@", make)
            return Entries(keys, values) if keys or values else None
        case _:
            return None


def _field(context: Context, name: str) -> Context:
    return dict(context.of).get(name) if isinstance(context, Fields) else None


def _keys(context: Context) -> Context:
    return context.keys if isinstance(context, Entries) else None


def _values(context: Context) -> Context:
    return context.values if isinstance(context, Entries) else None


def _entries(keys: Context, values: Context) -> Context:
    return Entries(keys, values) if keys or values else None


def unite(a: Context, b: Context) -> Context:
    """The label union of two contexts of the same type."""
    if a is None or b is None or a == b:
        return a if b is None else b
    match a, b:
        case Fields(xs), Fields(ys):
            names = dict.fromkeys([n for n, _ in xs] + [n for n, _ in ys])
            return Fields(tuple((n, unite(_field(a, n), _field(b, n))) for n in names))
        case Inner(d1, c1), Inner(d2, c2):
            # A dictionary that defines nothing adds nothing.
            both = d1 if d1 == d2 or isinstance(d2, Zero) else DictUnion(d1, d2)
            return Inner(d2 if isinstance(d1, Zero) else both, unite(c1, c2))
        case Entries(k1, v1), Entries(k2, v2):
            return Entries(unite(k1, k2), unite(v1, v2))
        case _:
            raise AssertionError("contexts of different types")


# --- shredding a term -----------------------------------------------------------------------------------


def shred(term: Term) -> Shredded:
    """The query in shredded form."""
    flat, context = _Shredding().ring(term, {}, {})
    return Shredded(flat, context, type_of(term))


Known = dict[Var, tuple[Term, Context]]
"""For each variable in scope: what stands for it in flat terms, and its context."""
Defined = dict[Var, Term]
"""Ring variables in scope by their definitions, which replace them inside dictionaries."""


class _Shredding:
    """One shredding; it numbers the labels that it makes."""

    def __init__(self) -> None:
        self.labels = 0

    def ring(self, term: Term, known: Known, defined: Defined) -> tuple[Term, Context]:
        term = apart(term, {v.name for v in known})  # one name, one variable: labels carry them
        match term:
            case Rel(name, t):
                flat = flat_type(t)
                return Rel(name, flat), context_of(t, name, _dictionary_input)
            case Var():
                return known[term]
            case Zero(t):
                return Zero(flat_type(t)), _undefined(t)
            case Num():
                return term, None
            case Record(fields):
                parts = [(n, *self.ring(t, known, defined)) for n, t in fields]
                return Record(tuple((n, f) for n, f, _ in parts)), _fields(parts)
            case Field(inner, name):
                f, c = self.ring(inner, known, defined)
                return Field(f, name), _field(c, name)
            case Sng(key, value):
                k, kc = self.key(key, known, defined)
                v, vc = self.ring(value, known, defined)
                return Sng(k, v), _entries(kc, vc)
            case Add(terms):
                flats, context = [], None
                for part in terms:
                    f, c = self.ring(part, known, defined)
                    flats.append(f)
                    context = unite(context, c)
                return Add(tuple(flats)), context
            case Neg(inner):
                f, c = self.ring(inner, known, defined)
                return Neg(f), c
            case Times(factors):
                return self._times(term, factors, known, defined)
            case Sum(inner):
                f, c = self.ring(inner, known, defined)
                return Sum(f), _values(c)
            case For(var, source, body):
                s, sc = self.ring(source, known, defined)
                x = Var(var.name, flat_type(var.type))
                b, bc = self.ring(body, {**known, var: (x, _keys(sc))}, defined)
                return For(x, s, b), _scaled(sc, bc)
            case Let(var, bound, body):
                return self._let(var, bound, body, known, defined, self.ring)
            case Unbox(key):
                k, c = self.key(key, known, defined)
                return (
                    (Apply(c.dictionary, k), c.content) if isinstance(c, Inner) else (Unbox(k), c)
                )
            case Each(key, value, source, body):
                _no_boxes(source, "GROUP BY, DISTINCT or UNION compares")
                s, sc = self.ring(source, known, defined)
                k, v = Var(key.name, key.type), Var(value.name, flat_type(value.type))
                scope = {**known, key: (k, None), value: (v, _values(sc))}
                inner_defined = {**defined, v: substitute(Apply(s, k), defined)}
                b, bc = self.ring(body, scope, inner_defined)
                return Each(k, v, s, b), bc
            case Repeat():
                return self._repeat(term, known, defined)
            case Pointwise(left, _):
                _no_boxes(left, "a pointwise product compares")
                return self._plain(term, known, defined)
            case Apply(function, argument) if is_key(type_of(argument)):
                _no_boxes(function, "a look-up compares")
                f, fc = self.ring(function, known, defined)
                a, _ = self.key(argument, known, defined)
                return Apply(f, a), _values(fc)
            case _:
                return self._plain(term, known, defined)

    def key(self, term: Term, known: Known, defined: Defined) -> tuple[Term, Context]:
        term = apart(term, {v.name for v in known})
        match term:
            case Var():
                return known[term]
            case Const(value, t):
                if has_box(t) and value is not None:
                    raise NotShreddable(f"`{term}` is a constant with an inner bag")
                return Const(value, flat_type(t)), _undefined(t)
            case Record(fields):
                parts = [(n, *self.key(t, known, defined)) for n, t in fields]
                return Record(tuple((n, f) for n, f, _ in parts)), _fields(parts)
            case Field(inner, name):
                f, c = self.key(inner, known, defined)
                return Field(f, name), _field(c, name)
            case Box(inner) if isinstance(type_of(term), Boxed):
                return self._box(inner, known, defined)
            case Let(var, bound, body):
                return self._let(var, bound, body, known, defined, self.key)
            case Call("case", (condition, a, b)) if isinstance(type_of(term), Boxed):
                test, _ = self.key(condition, known, defined)
                (f, fc), (g, gc) = self.key(a, known, defined), self.key(b, known, defined)
                return Call("case", (test, f, g)), unite(fc, gc)
            case Call("is_null" | "is_not_null" as test, (inner,)):
                return Call(test, (self.key(inner, known, defined)[0],)), None
            case _:
                return self._plain(term, known, defined)

    def _box(self, term: Term, known: Known, defined: Defined) -> tuple[Term, Context]:
        """box(r) = ι(x, ...) where [ι(x, ...) ↦ r] and x, ... are the free variables of r."""
        flat, context = self.ring(term, known, defined)
        flat = substitute(flat, defined)
        self.labels += 1
        index = f"ℓ{self.labels}"
        params = tuple(sorted(variables(flat), key=lambda v: v.name))
        return Label(index, params), Inner(Dict(index, params, flat), context)

    def _let(
        self, var: Var, bound: Term, body: Term, known: Known, defined: Defined, go: Any
    ) -> tuple[Term, Context]:
        flat, context = (self.key if is_key(var.type) else self.ring)(bound, known, defined)
        x = Var(var.name, flat_type(var.type))
        b, bc = go(body, {**known, var: (x, context)}, {**defined, x: substitute(flat, defined)})
        return Let(x, flat, b), bc

    def _repeat(self, term: Repeat, known: Known, defined: Defined) -> tuple[Term, Context]:
        """A loop over flat rows is one over flat terms; no label says what a row is at some round."""
        if has_box(term.var.type):
            raise NotShreddable(
                f"`{term}` repeats rows with inner bags",
                hint="repeat flat rows, and build inner bags of what the loop gives",
            )
        if any(isinstance(t, Box) and isinstance(type_of(t), Boxed) for t in subterms(term.step)):
            raise NotShreddable(
                f"`{term.step}` builds inner bags in every round",
                hint="build inner bags before the loop, or of what it gives",
            )
        start, _ = self.ring(term.start, known, defined)
        step, _ = self.ring(term.step, {**known, term.var: (term.var, None)}, defined)
        return rebuild(term, (start, step)), None

    def _times(
        self, term: Term, factors: tuple[Term, ...], known: Known, defined: Defined
    ) -> tuple[Term, Context]:
        """Maps pair the contexts of their keys; a number has none and leaves the others as they are."""
        parts = [(type_of(f), *self.ring(f, known, defined)) for f in factors]
        flat = Times(tuple(f for _, f, _ in parts))
        maps = [c for t, _, c in parts if isinstance(t, MapType)]
        if len(maps) < 2:
            context: Context = None
            for _, _, c in parts:
                context = unite(context, c)
            return flat, context
        if any(_values(c) for c in maps):
            raise NotShreddable(f"`{term}` multiplies maps whose values have inner bags")
        return flat, _entries(
            _fields([(f"_{i + 1}", None, _keys(c)) for i, c in enumerate(maps)]), None
        )

    def _plain(self, term: Term, known: Known, defined: Defined) -> tuple[Term, Context]:
        """A node that only passes keys and numbers on: its parts are flat, and so is it."""
        if isinstance(term, (Fn, Dict, DictUnion, Differential, Label)):
            raise NotShreddable(
                f"`{term}` is a function or a dictionary", hint="simplify the term first"
            )
        if has_box(type_of(term)):
            raise NotShreddable(
                f"`{term}` gives an inner bag in a way that labels cannot follow",
                hint="build inner bags with a comprehension, array_agg or a subquery",
            )
        parts = []
        for child in children(term):
            if is_key(type_of(child)) and has_box(type_of(child)):
                raise NotShreddable(
                    f"`{term}` compares or computes with the contents of an inner bag",
                    hint="compare keys or aggregates of the bag instead",
                )
            if isinstance(t := type_of(child), MapType) and has_box(t.key):
                # Rows that differ in labels only may cancel when nested: emptiness is not the same.
                raise NotShreddable(
                    f"`{term}` depends on which rows with inner bags are equal",
                    hint="count the rows, or leave the inner bag out before this",
                )
            go = self.key if is_key(type_of(child)) else self.ring
            parts.append(go(child, known, defined)[0])
        return rebuild(term, tuple(parts)), None


def _dictionary_input(path: str, content: Type) -> Term:
    return Rel(path, FunType(LABEL, flat_type(content)))


def _undefined(t: Type) -> Context:
    """The context of a NULL or of nothing: its dictionaries define nothing."""
    return context_of(t, "", lambda _, content: Zero(FunType(LABEL, flat_type(content))))


def _fields(parts: list[tuple[str, Any, Context]]) -> Context:
    kept = tuple((n, c) for n, _, c in parts if c is not None)
    return Fields(kept) if kept else None


def _scaled(source: Context, body: Context) -> Context:
    """The context of Σ v · b: that of the body, or of the values where the body is a number."""
    return unite(_values(source), body) if _values(source) else body


def _no_boxes(source: Term, what: str) -> None:
    t = type_of(source)
    if has_box(t.key if isinstance(t, MapType) else t.argument):
        raise NotShreddable(
            f"{what} the contents of inner bags in `{source}`",
            hint="group by keys of the rows, not by arrays",
        )


# --- values -----------------------------------------------------------------------------------------------


class Labeller:
    """Gives inner bags of input values their labels: a new one for every bag that it meets."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, path: str, _content: RingMap) -> LabelValue:
        self.count += 1
        return LabelValue(path, (self.count,))


def shred_value(
    name: str, value: Value, t: MapType, label: Callable[[str, RingMap], LabelValue] | None = None
) -> dict[str, Value]:
    """The flat value of an input and its dictionaries, under the names that shredded terms read."""
    label = label or Labeller()
    entries: dict[str, dict[LabelValue, Value]] = {}
    zeros: dict[str, Value] = {}

    def prepare(path: str, content: Type) -> None:
        entries[path], zeros[path] = {}, ring.zero(content)

    context_of(t, name, prepare)

    def go(v: Value, kind: Type, path: str) -> Value:
        match kind:
            case Boxed(content) if v is not None:
                ell = label(path, v)
                entries[path][ell] = go(v, content, path)
                return ell
            case RecordType(fields) | ProductType(fields) if v is not None:
                return tuple(go(x, f, f"{path}.{n}") for x, (n, f) in zip(v, fields, strict=True))
            case MapType(key, inner):
                return ring.collect(
                    (go(k, key, path), go(x, inner, f"{path}.@")) for k, x in v.items()
                )
            case _:
                return v

    flat = go(value, t, name)
    tables = {p: Dictionary.of(e, zeros[p]) for p, e in entries.items()}
    return {name: flat, **tables}


def evaluate(shredded: Shredded, inputs: Mapping[str, Value]) -> tuple[Value, Context]:
    """The values of the flat term and of the context."""
    context = map_context(shredded.context, lambda d: interpret(d, inputs))
    return interpret(shredded.flat, inputs), context


def nest(flat: Value, context: Context, t: Type) -> Value:
    """The nested value that a flat value and a context stand for; an undefined label is an error."""
    match t:
        case Boxed(content) if flat is not None:
            assert isinstance(context, Inner), context
            return nest(ring.define(context.dictionary, flat), context.content, content)
        case RecordType(fields) | ProductType(fields) if flat is not None:
            return tuple(
                nest(v, _field(context, n), f) for v, (n, f) in zip(flat, fields, strict=True)
            )
        case MapType(key, value):
            return ring.collect(
                (nest(k, _keys(context), key), nest(v, _values(context), value))
                for k, v in flat.items()
            )
        case _:
            return flat


def consistent(flat: Value, context: Context, t: Type) -> None:
    """Raises `InconsistentShredding` unless every label in a shredded value is defined, to any depth."""
    nest(flat, context, t)


def consistent_inputs(inputs: Mapping[str, Value]) -> None:
    """Raises unless no label has different definitions in two dictionaries of the inputs."""
    seen: dict[LabelValue, tuple[str, Value]] = {}
    for name, value in inputs.items():
        if isinstance(value, FiniteDictionary):
            for label, content in value.entries.items():
                if label in seen and seen[label][1] != content:
                    raise LabelConflict(
                        f"label {label} is defined differently in {seen[label][0]} and {name}"
                    )
                seen[label] = (name, content)


def consistent_change(inputs: Mapping[str, Value], changes: Mapping[str, Value]) -> None:
    """Raises unless a shredded change fits its inputs.

    A label that several inputs define changes in all of them alike, and a label that the change
    brings anew is new everywhere; then the sum of the two is consistent again.
    """
    consistent_inputs(inputs)
    consistent_inputs(changes)
    tables = {n: v for n, v in inputs.items() if isinstance(v, FiniteDictionary)}
    for name, change in changes.items():
        if not isinstance(change, FiniteDictionary):
            continue
        for label in change.entries:
            for other, table in tables.items():
                if not table.defines(label):
                    continue
                if label not in tables[name].entries:
                    raise InconsistentShredding(
                        f"the change of {name} brings {label} as new, but {other} defines it"
                    )
                there = changes.get(other)
                if not (isinstance(there, Dictionary) and there.defines(label)):
                    raise InconsistentShredding(
                        f"{label} changes in {name} and stays in {other}, which defines it too"
                    )
