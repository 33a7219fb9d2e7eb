"""Random well-typed terms.

Which terms are drawn is said by `Features`: IncNRC+ alone (`POSITIVE`), with dictionaries of labels
(`LABELS`), with nested results (`SHREDDABLE`), or the whole language (`FULL`). Every variable of a term
has a name of its own and every label index is defined once, so that no union has a conflict. Scalars
are taken from what cannot fail: small integers, halves, comparisons, logic. The type that is wanted
decides what can be made; `leaves` and `nodes` list it, and a count of nodes makes terms stop growing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from headwater.calculus.terms import (
    Add,
    Answer,
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
    Not,
    Num,
    Pointwise,
    Pred,
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
)
from headwater.calculus.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    LABEL,
    REAL,
    STRING,
    VOID,
    Base,
    Boxed,
    Exact,
    FunType,
    IntType,
    KeyType,
    LabelType,
    MapType,
    ProductType,
    RealType,
    RecordType,
    RingType,
    Type,
    bag,
    decimal,
    has_box,
    is_key,
    is_scalar,
    unboxed,
)
from headwater.theory.degree_cost import degree
from random_values import BASES, Inputs, Pick, Types, value


@dataclass(frozen=True)
class Features:
    """What may be drawn beyond IncNRC+."""

    labels: bool = False
    boxes: bool = False
    full: bool = False


POSITIVE = Features()
LABELS = Features(labels=True)
SHREDDABLE = Features(boxes=True)
FULL = Features(labels=True, boxes=True, full=True)


MOST_ROUNDS = {0: 3, 1: 3, 2: 2}
"""Rounds of a random loop, by the degree of its step: what is multiplied with itself grows with each of them."""


class Query(NamedTuple):
    """A closed term and the inputs it may read."""

    term: Term
    inputs: Inputs


COMPARISONS = ("=", "=", "=", "<", "<=", "<>", ">", ">=", "<=>")


class At(NamedTuple):
    """Where a term stands: what is in scope, how deep it may grow, and what it may not read."""

    scope: tuple[Var, ...]
    depth: int
    pure: bool = False
    """In a key of IncNRC+: no input is read, nor a variable that may stand for one."""
    zero: bool = True
    """Zero is drawn; not in what a loop walks over."""

    def deeper(self, *bound: Var) -> At:
        return self._replace(scope=(*self.scope, *bound), depth=self.depth - 1)


Maker = Callable[[Any, At], Term]


@lru_cache(maxsize=10_000)
def paths(var: Var) -> tuple[tuple[Term, Type], ...]:
    """A variable and the fields of it, with their types."""
    out: list[tuple[Term, Type]] = [(var, var.type)]
    for term, t in out:
        if isinstance(t, (RecordType, ProductType)):
            out.extend((Field(term, n), f) for n, f in t.fields)
    return tuple(out)


def splits(t: RingType) -> list[tuple[RingType, RingType]]:
    """Pairs of rings with a product in t, not both of them maps."""
    out = [(INT, t), (t, INT)]
    match t:
        case FunType():
            out = [(INT, t)]
        case RealType():
            out += [(REAL, REAL), (REAL, Exact(1))]
        case Exact(scale) if scale > 1:
            out += [(Exact(1), Exact(scale - 1))]
        case MapType(key, inner) if not isinstance(inner, MapType):
            out += [(inner, MapType(key, INT)), (MapType(key, INT), inner)]
    return out


def pairing(t: RingType) -> bool:
    """Whether t is a map from tuples, as a product of maps is."""
    if not (isinstance(t, MapType) and isinstance(t.key, RecordType)):
        return False
    names = tuple(n for n, _ in t.key.fields)
    return len(names) > 1 and names == tuple(f"_{i + 1}" for i in range(len(names)))


def bases_of(inputs: Inputs) -> list[Base]:
    """The base types in the rows of inputs."""
    rows = [t.key for t in inputs.values() if isinstance(t, MapType)]
    return [t for row in rows for _, t in paths(Var("", row)) if isinstance(t, Base)]


class Generator:
    """Draws terms of given types; one generator per term, for it counts names and nodes."""

    def __init__(self, pick: Pick, inputs: Inputs, features: Features, size: int = 10):
        self.pick, self.inputs, self.features, self.left = pick, inputs, features, size
        self.types = Types(pick, (BIGINT, *dict.fromkeys(bases_of(inputs))))
        self.names = 0
        self.repeats = 0
        self.labels: dict[str, tuple[KeyType, ...]] = {}
        self.undefined: list[str] = []
        self.rels = [Rel(name, t) for name, t in inputs.items()]

    def choose(self, options: Any) -> Any:
        return options[self.pick(len(options))]

    def fresh(self, stem: str, t: Type) -> Var:
        self.names += 1
        return Var(f"{stem}{self.names}", t)

    def row_type(self, at: At) -> KeyType:
        """A type of keys to walk over: one of an input, a pair, or a new one."""
        known = [t.key for t in self.inputs.values() if isinstance(t, MapType)]
        match self.pick(6):
            case 3:
                return RecordType((("_1", self.choose(known)), ("_2", self.choose(known))))
            case 4:
                return self.types.row()
            case 5 if self.features.labels:
                return RecordType((("a", BIGINT), ("l", LABEL)))
            case _:
                return self.choose(known)

    def finite_type(self, at: At) -> RingType:
        """A ring to bind to a variable or to test for zero."""
        if self.features.full and self.pick(3) == 2:
            return self.types.ring()
        return bag(self.row_type(at))

    # --- ring terms ------------------------------------------------------------------------------

    def ring(self, t: RingType, at: At) -> Term:
        """A ring term of type t."""
        self.left -= 1
        small = at.depth <= 0 or self.left <= 0
        options = self.leaves(t, at) if small or self.pick(4) == 0 else self.nodes(t)
        return self.choose(options)(t, at)

    def leaves(self, t: RingType, at: At) -> list[Maker]:
        """Ways to make a term that does not grow further, the plainest first."""
        known: list[Term] = [] if at.pure else [r for r in self.rels if r.type == t]
        for var in at.scope:
            for term, found in paths(var):
                if not is_key(found):
                    known += [term] * 3 if found == t and not at.pure else []
                elif unboxed(found) == t and (isinstance(found, Boxed) or self.features.full):
                    known += [Unbox(term)]
        made: list[Maker] = [lambda t, _: Zero(t)] if at.zero else []
        made += [lambda _t, _at: self.choose(known)] * (8 if known else 0)
        made += self.makers(t) * 2
        if at.depth >= 0 and not at.pure and not isinstance(t, FunType):
            made += [self.walk] * (4 if isinstance(t, MapType) else 1)
        return made

    def makers(self, t: RingType) -> list[Maker]:
        """The constructors of a ring."""
        match t:
            case MapType():
                return [self.singleton]
            case ProductType():
                return [self.product]
            case FunType(argument, _):
                return [self.dictionary] if argument == LABEL else [self.function]
            case _:
                return [self.number, self.predicate] if t == INT else [self.number]

    def walk(self, t: RingType, at: At) -> Term:
        """A loop over what is at hand, with a small body."""
        source, key = self.choose(self.sources(INT, at))
        var = self.fresh("x", key)
        inner = at.deeper(var)._replace(depth=-1)
        return For(var, source, self.choose(self.makers(t))(t, inner))

    def nodes(self, t: RingType) -> list[Maker]:
        """Ways to make a term that grows."""
        made: list[Maker] = [
            self.add,
            self.neg,
            self.let,
            self.loop,
            self.loop,
            self.loop,
            self.times,
        ]
        if isinstance(t, FunType):
            made = [self.add, self.neg, self.let, self.times, self.let_key]
            made += (
                [self.dictionary, self.union] * 2 if t.argument == LABEL else [self.function] * 3
            )
            if isinstance(t.result, FunType) and t.argument == t.result.argument:
                made += [self.differential] * (0 if is_key(t.argument) else 3)
            return made
        if pairing(t):
            made += [self.pair, self.pair]
        if isinstance(t, MapType):
            made += [self.singleton, self.flatten]
        if self.features.labels:
            made += [self.apply_label]
        if self.features.full:
            made += [
                self.let_key,
                self.sum,
                self.each,
                self.each,
                self.apply_map,
                self.apply_function,
            ]
            made += [self.apply_differential, self.component, self.unbox]
            made += [self.repeat, self.repeat] if self.repeats == 0 else []
            if t == INT:
                made += [self.predicate, *[self.negation] * 6]
            if isinstance(t, MapType):
                made += [self.pointwise, self.pointwise]
                made += [self.first] if t.value == INT else []
            if isinstance(t, ProductType):
                made += [self.product]
        return made

    def number(self, t: RingType, at: At) -> Term:
        if not self.features.full:
            return Num(1, t)
        return Num(value(t, self.pick), t)

    def predicate(self, t: RingType, at: At) -> Term:
        return Pred(self.condition(at.deeper()) if at.scope else self.key(BOOLEAN, at.deeper()))

    def singleton(self, t: MapType, at: At) -> Term:
        key = self.key(t.key, at.deeper())
        plain = t.value == INT and (not self.features.full or self.pick(3) < 2)
        return Sng(key, Num(1, INT) if plain else self.ring(t.value, at.deeper()))

    def flatten(self, t: MapType, at: At) -> Term:
        """for x in r collect s, where s is small; r has inner bags if an input has."""
        if at.pure:
            return self.singleton(t, at)
        rows = [r for r in self.rels if isinstance(r.type, MapType) and has_box(r.type.key)]
        if not rows:
            return self.walk(t, at)
        var = self.fresh("x", (source := self.choose(rows)).type.key)
        return For(var, source, self.walk(t, at.deeper(var)))

    def product(self, t: ProductType, at: At) -> Term:
        return Record(tuple((n, self.ring(f, at.deeper())) for n, f in t.fields))

    def function(self, t: FunType, at: At) -> Term:
        var = self.fresh("x" if is_key(t.argument) else "X", t.argument)
        return Fn(var, self.ring(t.result, at.deeper(var)))

    def add(self, t: RingType, at: At) -> Term:
        return Add(tuple(self.ring(t, at.deeper()) for _ in range((2, 3, 1)[self.pick(3)])))

    def neg(self, t: RingType, at: At) -> Term:
        return Neg(self.ring(t, at.deeper()))

    def times(self, t: RingType, at: At) -> Term:
        """A product with a number: a predicate more often than not."""
        left, right = self.choose(splits(t)) if self.features.full else (INT, t)
        factors = [self.ring(left, at.deeper()), self.ring(right, at.deeper())]
        if self.pick(3) == 1:
            test = self.negation if self.features.full and self.pick(2) else self.predicate
            factors.append(test(INT, at.deeper()))
        return Times(tuple(factors if self.pick(2) else reversed(factors)))

    def pair(self, t: MapType, at: At) -> Term:
        """A product of maps."""
        assert isinstance(t.key, RecordType)
        first, *rest = (k for _, k in t.key.fields)
        last = [MapType(k, INT) for k in rest]
        return Times(tuple(self.ring(m, at.deeper()) for m in (MapType(first, t.value), *last)))

    def loop(self, t: RingType, at: At) -> Term:
        """for x in r collect s."""
        values, body = self.choose(splits(t)) if self.features.full else (INT, t)
        if isinstance(values, MapType) and isinstance(body, MapType):
            values, body = INT, t
        source, key = self.source(values, at)
        var = self.fresh("x", key)
        inner = at.deeper(var)
        if self.pick(3) == 1:
            return For(var, source, Times((self.predicate(INT, inner), self.ring(body, inner))))
        return For(var, source, self.ring(body, inner))

    def source(self, values: RingType, at: At) -> tuple[Term, KeyType]:
        """A map with such values to walk over, and the type of its keys."""
        there = self.sources(values, at)
        if there and self.pick(3) < 2:
            return self.choose(there)
        key = self.row_type(at)
        return self.ring(MapType(key, values), at.deeper()._replace(zero=False)), key

    def sources(self, values: RingType, at: At) -> list[tuple[Term, KeyType]]:
        """The maps with such values that are at hand."""
        known: list[tuple[Term, Type]] = [] if at.pure else [(r, r.type) for r in self.rels]
        for var in at.scope:
            for term, t in paths(var):
                if isinstance(t, Boxed):
                    known += [(Unbox(term), t.content)] * 4
                elif not at.pure:
                    known.append((term, t))
        return [(m, t.key) for m, t in known if isinstance(t, MapType) and t.value == values]

    def let(self, t: RingType, at: At) -> Term:
        """let X := r in s; nothing that reads an input may come into a key by way of X."""
        if at.pure:
            return self.neg(t, at)
        kind: RingType = self.finite_type(at)
        match self.pick(5):
            case 3 if self.features.full:
                kind = FunType(self.row_type(at), t) if self.pick(2) else FunType(kind, INT)
            case 4 if self.features.labels and not isinstance(t, FunType):
                kind = FunType(LABEL, t)
        var = self.fresh("X", kind)
        return Let(var, self.ring(kind, at.deeper()), self.ring(t, at.deeper(var)))

    def let_key(self, t: Type, at: At) -> Term:
        """let key x := e in r, where r is a ring value or a key."""
        if not self.features.full:
            return self.key(t, at) if is_key(t) else self.neg(t, at)  # type: ignore[arg-type]
        kind = self.row_type(at)
        var = self.fresh("x", kind)
        body = self.key if is_key(t) else self.ring
        return Let(var, self.key(kind, at.deeper()), body(t, at.deeper(var)))  # type: ignore[operator]

    def sum(self, t: RingType, at: At) -> Term:
        return Sum(self.ring(MapType(self.row_type(at), t), at.deeper()))

    def each(self, t: RingType, at: At) -> Term:
        values = self.types.ring() if self.pick(3) == 2 else INT
        source, key = self.source(values, at)
        k, v = self.fresh("k", key), self.fresh("V", values)
        return Each(k, v, source, self.ring(t, at.deeper(k, v)))

    def pointwise(self, t: MapType, at: At) -> Term:
        """A product at each key, of two maps or of a map and a function."""
        left, right = self.choose(splits(t.value))
        sides: list[RingType] = [MapType(t.key, left), MapType(t.key, right)]
        if self.pick(3) == 2:
            one = self.pick(2)
            sides[one] = FunType(t.key, (left, right)[one])
        return Pointwise(*(self.ring(s, at.deeper()) for s in sides))

    def negation(self, t: RingType, at: At) -> Term:
        return Not(self.ring(self.finite_type(at), at.deeper()))

    def component(self, t: RingType, at: At) -> Term:
        """One component of a product."""
        fields = [("n", t), ("s", INT)]
        product = ProductType(tuple(fields if self.pick(2) else reversed(fields)))
        return Field(self.ring(product, at.deeper()), "n")

    def unbox(self, t: RingType, at: At) -> Term:
        kind: KeyType = Boxed(t)
        match t:
            case IntType():
                kind = BIGINT
            case RealType():
                kind = DOUBLE
            case Exact(scale):
                kind = decimal((10, 38)[self.pick(2)], scale)
        return Unbox(self.key(kind, at.deeper()))

    def first(self, t: MapType, at: At) -> Term:
        """The first rows of a bag in an order."""
        order = self.types.flat()
        directions = tuple((self.pick(2) == 1, self.pick(2) == 1) for _ in order.fields)
        params = ((1, 2, 0, None)[self.pick(4)], self.pick(3), directions)
        rows = bag(RecordType((("order", order), ("row", t.key))))
        return Answer("first", params, self.ring(rows, at.deeper()))

    def repeat(self, t: RingType, at: At) -> Term:
        """repeat X := r then s, of few rounds; there is no loop inside of a loop."""
        if at.pure or self.repeats:
            return self.neg(t, at)
        self.repeats += 1
        several = self.pick(4) == 3
        kind = ProductType((("m", t), ("n", bag(self.row_type(at))))) if several else t
        make = self.product if isinstance(kind, ProductType) else self.ring
        var = self.fresh("X", kind)
        start, self.left = self.ring(kind, at.deeper()), max(self.left, 4)
        step = make(kind, at.deeper(var))  # type: ignore[operator]
        most = MOST_ROUNDS.get(degree(step, (), {var: 1}), 1)  # type: ignore[call-overload]
        loop = Repeat(
            var, start, step, times=(most, 1, 0, 2)[self.pick(4)] if most > 1 else self.pick(2)
        )
        return Field(loop, "m") if several else loop

    # --- functions and labels --------------------------------------------------------------------

    def apply_map(self, t: RingType, at: At) -> Term:
        key = self.row_type(at)
        return Apply(self.ring(MapType(key, t), at.deeper()), self.key(key, at.deeper()))

    def apply_function(self, t: RingType, at: At) -> Term:
        kind: Type = self.row_type(at) if self.pick(2) else self.finite_type(at)
        function = self.ring(FunType(kind, t), at.deeper())
        argument = self.key if is_key(kind) else self.ring
        return Apply(function, argument(kind, at.deeper()))  # type: ignore[operator]

    def apply_differential(self, t: RingType, at: At) -> Term:
        """(δ(f) @ r) @ s."""
        kind = self.finite_type(at)
        function = self.differential(FunType(kind, FunType(kind, t)), at.deeper())
        return Apply(Apply(function, self.ring(kind, at.deeper())), self.ring(kind, at.deeper()))

    def differential(self, t: FunType, at: At) -> Term:
        assert isinstance(t.result, FunType)
        return Differential(self.ring(FunType(t.argument, t.result.result), at.deeper()))

    def apply_label(self, t: RingType, at: At) -> Term:
        """A dictionary at a label."""
        kind = FunType(LABEL, t)
        dictionary = (self.ring, self.union, self.union)[self.pick(3)](kind, at.deeper())
        return Apply(dictionary, self.key(LABEL, at.deeper()))

    def dictionary(self, t: FunType, at: At) -> Term:
        """The definition of a label, of one that is used already if there is such."""
        index = self.undefined.pop() if self.undefined else self.index()
        params = tuple(self.fresh("p", k) for k in self.labels[index])
        return Dict(index, params, self.ring(t.result, at.deeper(*params)))

    def union(self, t: FunType, at: At) -> Term:
        return DictUnion(self.dictionary(t, at.deeper()), self.dictionary(t, at.deeper()))

    def index(self) -> str:
        """A new label index; what its arguments are is said here, for labels and for its definition."""
        index = f"ℓ{len(self.labels) + 1}"
        types = (BIGINT, STRING, self.types.flat())
        self.labels[index] = tuple(self.choose(types) for _ in range((1, 2, 0)[self.pick(3)]))
        return index

    def label(self, t: KeyType, at: At) -> Term:
        if not self.labels or self.pick(4) == 3:
            self.undefined.append(self.index())
        index = self.choose(list(self.labels))
        return Label(index, tuple(self.key(k, at.deeper()) for k in self.labels[index]))

    # --- key terms -------------------------------------------------------------------------------

    def key(self, t: KeyType, at: At) -> Term:
        """A key term of type t."""
        self.left -= 1
        small = at.depth <= 0 or self.left <= 0
        known = [term for var in at.scope for term, found in paths(var) if found == t]
        if known and self.pick(3) < 2:
            out: Term = self.choose(known)
            return out
        made = [self.plain] if small else [*[self.plain] * 4, *self.key_nodes(t)]
        return self.choose(made)(t, at)

    def plain(self, t: KeyType, at: At) -> Term:
        """A constant, a record, a label or a box."""
        match t:
            case RecordType(fields):
                return Record(tuple((n, self.key(k, at.deeper())) for n, k in fields))
            case LabelType():
                return self.label(t, at)
            case Boxed():
                return Const(None, t) if self.pick(6) == 5 else self.box(t, at)
            case _:
                return Const(value(t, self.pick), t)

    def box(self, t: Boxed, at: At) -> Term:
        pure, depth = at.pure or not self.features.boxes, max(at.depth - 1, 2)
        return Box(self.ring(t.content, at._replace(depth=depth, pure=pure, zero=True)))

    def key_nodes(self, t: KeyType) -> list[Maker]:
        """Ways to make a key that grows."""
        full = self.features.full
        made: list[Maker] = [self.let_key, self.let_in_key, self.field] if full else []
        if isinstance(t, Base):
            made += [self.choice, self.scalar, self.scalar]
            made += [self.extreme, self.only] if full else []
        elif full:
            made += [self.choice]
        if full and t in (BIGINT, DOUBLE, decimal(38, 1), decimal(38, 2)):
            made += [self.counted]
        return made

    def scalar(self, t: Base, at: At) -> Term:
        """A scalar function that cannot fail."""
        inner = at.deeper()
        match t.name:
            case "boolean":
                return self.condition(inner)
            case "bigint":
                operator = ("+", "-", "*")[self.pick(3)]
                return Call(operator, (self.key(BIGINT, inner), self.key(BIGINT, inner)))
            case "string":
                match self.pick(3):
                    case 0:
                        return Call("upper", (self.key(STRING, inner),))
                    case 1:
                        return Call("concat", (self.key(STRING, inner), self.key(STRING, inner)))
                    case _:
                        return Call("cast", (self.key(BIGINT, inner),), STRING)
            case _:
                return self.choice(t, at)

    def condition(self, at: At) -> Term:
        """A comparison, mostly, or a combination of conditions."""
        there = [(e, t) for var in at.scope for e, t in paths(var) if isinstance(t, Base)]
        kind: KeyType = self.types.base()
        match self.pick(8):
            case 0 | 1 | 2 | 3 if there:
                one, kind = self.choose(there)
                others = [e for e, t in there if t == kind and e != one]
                other = self.choose(others) if others else self.key(kind, at)
                return Call(self.choose(COMPARISONS), (one, other))
            case 0 | 1 | 2 | 3:
                return Call(self.choose(COMPARISONS), (self.key(kind, at), self.key(kind, at)))
            case 4:
                logic = ("and", "or")[self.pick(2)]
                return Call(logic, tuple(self.key(BOOLEAN, at) for _ in range(2 + self.pick(2))))
            case 5:
                return Call("not", (self.key(BOOLEAN, at),))
            case 6:
                return Call(("is_null", "is_not_null")[self.pick(2)], (self.key(kind, at),))
            case _:
                if self.features.full:
                    kind = self.row_type(at)
                    return Call(
                        ("=", "<=>")[self.pick(2)], (self.key(kind, at), self.key(kind, at))
                    )
                return Call("<=>", (self.key(kind, at), Const(None, VOID)))

    def choice(self, t: KeyType, at: At) -> Term:
        """case or coalesce."""
        one, other = self.key(t, at.deeper()), self.key(t, at.deeper())
        if self.pick(2):
            return Call("coalesce", (one, other))
        return Call("case", (self.key(BOOLEAN, at.deeper()), one, other))

    def let_in_key(self, t: KeyType, at: At) -> Term:
        """let X := r in e."""
        var = self.fresh("X", self.finite_type(at))
        return Let(var, self.ring(var.type, at.deeper()), self.key(t, at.deeper(var)))  # type: ignore[arg-type]

    def field(self, t: KeyType, at: At) -> Term:
        """A field of a record that is written out."""
        return Field(self.key(RecordType((("a", t), ("b", BIGINT))), at.deeper()), "a")

    def counted(self, t: Base, at: At) -> Term:
        """A number of a ring as a key."""
        number = unboxed(t)
        assert number is not None and is_scalar(number)
        return Box(self.ring(number, at.deeper()))

    def extreme(self, t: Base, at: At) -> Term:
        """An answer over a bag: an extreme, or what stands beside one, or is in the middle, or most often there."""
        at, turned = at.deeper(), self.pick(2) == 1
        match self.pick(6):
            case 0:
                return Answer("mode", (turned,), self.ring(bag(t), at))
            case 1:
                beside = RecordType((("by", self.choose(BASES)), ("value", t)))
                return Answer(("min_by", "max_by")[self.pick(2)], (), self.ring(bag(beside), at))
            case 2 if t == DOUBLE:
                name = ("percentile", "percentile_disc")[self.pick(2)]
                share = (0.5, 0.3, 0.0, 1.0)[self.pick(4)]
                return Answer(name, (share, turned), self.ring(bag(BIGINT), at))
            case 2 if t == STRING:
                order = RecordType((("o1", self.choose(BASES)),))
                rows = bag(RecordType((("order", order), ("row", t))))
                directions = ((turned, self.pick(2) == 1),)
                return Answer(
                    "listagg", ((", ", "'")[self.pick(2)], directions), self.ring(rows, at)
                )
            case _:
                return Answer(("min", "max")[self.pick(2)], (), self.ring(bag(t), at))

    def only(self, t: Base, at: At) -> Term:
        """The one row of a bag that has at most one."""
        if self.pick(3) == 2:
            return Answer("single", (), Zero(bag(t)))
        return Answer("single", (), Sng(self.key(t, at.deeper()), Num(1, INT)))


def query(pick: Pick, features: Features, depth: int = 3, size: int = 10) -> Query:
    """Inputs and a closed term over them that has a finite value."""
    types = Types(pick, (BIGINT, BIGINT, BASES[pick(len(BASES))]))
    inputs = types.inputs()
    generator, at = Generator(pick, inputs, features, size), At((), depth)
    t: RingType = bag(generator.row_type(at))
    if features.full and pick(2):
        t = types.ring()
    elif features.boxes and pick(2):
        t = bag(types.nested())
    if pick(16) == 0:
        return Query(generator.ring(t, at), inputs)
    return Query(generator.choose(generator.nodes(t))(t, at), inputs)
