"""The terms of the calculus: all nodes, each with the sentence that is its meaning.

Leaves carry their types, so the type of a term is a function of the term alone (`check.type_of`).
Nodes are immutable and compare by structure; the hash is taken once, when a node is built, because
delta terms share a great deal. A change to an input is just another input, named by `change_name`.
Sums and products are n-ary, so the depth of a term is the depth of the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from operator import is_
from typing import Any, TypeAlias, dataclass_transform

from headwater.calculus.types import KeyType, RingType, Type


class Node:
    """Structural equality with a hash taken at construction."""

    _hash: int
    _names: tuple[str, ...]

    def __post_init__(self) -> None:
        values = tuple([getattr(self, n) for n in self._names])
        object.__setattr__(self, "_hash", hash((type(self).__name__, values)))
        object.__setattr__(self, "_values", values)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or self._hash != other._hash:
            return False
        return bool(self._values == other._values)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        from headwater.calculus.notation.text import show  # the printer needs the nodes

        return show(self)  # type: ignore[arg-type]


@dataclass_transform(frozen_default=True, eq_default=False)
def node(cls: type[Any]) -> type[Any]:
    made = dataclass(frozen=True, eq=False, repr=False)(cls)
    made._names = tuple(f.name for f in fields(made))
    return made


# --- leaves, records, scalars ------------------------------------------------------------------


@node
class Const(Node):
    """A key constant; None is NULL."""

    value: Any
    type: KeyType

    def __post_init__(self) -> None:
        # 1, 1.0 and True are equal in Python; the type tells them apart, and so does the class here.
        super().__post_init__()
        object.__setattr__(self, "_values", (type(self.value), self.value, self.type))


@node
class Var(Node):
    """A variable bound by `for`, `each`, `let`, `fn`, `repeat` or a dictionary."""

    name: str
    type: Type


@node
class Rel(Node):
    """An input, or the change of one."""

    name: str
    type: RingType


@node
class Record(Node):
    """{a: e, ...} of keys, or the ring product ⟨a: r, ...⟩."""

    fields: tuple[tuple[str, Term], ...]


@node
class Field(Node):
    """e.a: one component of a record or of a ring product."""

    term: Term
    name: str


@node
class Call(Node):
    """f(e, ...): a scalar function of keys; `returns` is the declared type of an opaque one, or a cast's target."""

    function: str
    args: tuple[Term, ...]
    returns: KeyType | None = None


# --- rings ---------------------------------------------------------------------------------------


@node
class Num(Node):
    """A constant of a ring of numbers."""

    value: Any
    type: RingType


@node
class Zero(Node):
    """0 of any ring: the empty bag, the empty map."""

    type: RingType


@node
class Sng(Node):
    """{e ↦ r}: the map that is r at the key e and zero elsewhere."""

    key: Term
    value: Term


@node
class Add(Node):
    """r + s + ...: values added key by key."""

    terms: tuple[Term, ...]


@node
class Neg(Node):
    """-r: every value negated."""

    term: Term


@node
class Times(Node):
    """r · s · ...: numbers scale, maps pair their keys; once a factor is zero the rest is not evaluated."""

    factors: tuple[Term, ...]


@node
class Pointwise(Node):
    """r * s: the product at each key."""

    left: Term
    right: Term


@node
class Sum(Node):
    """sum(r): the total of the map's values."""

    term: Term


@node
class For(Node):
    """for x in r collect s: the sum, over the keys x of r, of r(x) · s."""

    var: Var
    source: Term
    body: Term


@node
class Let(Node):
    """let X := r in s."""

    var: Var
    bound: Term
    body: Term


@node
class Pred(Node):
    """[e]: 1 where the condition is true, 0 where it is false or NULL."""

    condition: Term


@node
class Not(Node):
    """¬r: 1 where r is zero, else 0."""

    term: Term


# --- nesting and labels ----------------------------------------------------------------------------


@node
class Box(Node):
    """box(r): a ring value as a key."""

    term: Term


@node
class Unbox(Node):
    """unbox(e): the ring value that the key stands for; 0 for NULL."""

    key: Term


@node
class Label(Node):
    """ι(e, ...): the label with static index ι and the values of the free variables."""

    index: str
    args: tuple[Term, ...]


@node
class Dict(Node):
    """[ι(x, ...) ↦ r]: the dictionary that defines every label with index ι."""

    index: str
    params: tuple[Var, ...]
    body: Term


@node
class DictUnion(Node):
    """d ∪ e: the definitions of both; an error where they differ on a label."""

    left: Term
    right: Term


# --- functions and answers -------------------------------------------------------------------------


@node
class Fn(Node):
    """fn x => r: with a key for x the infinite map, with a ring value a function."""

    var: Var
    body: Term


@node
class Apply(Node):
    """f @ a: a map, dictionary or function at an argument."""

    function: Term
    argument: Term


@node
class Differential(Node):
    """δf: the change of f(x) when x changes, as fn x => fn Δx => δ_x f."""

    function: Term


@node
class Each(Node):
    """each k ↦ v in r collect s: the sum of s over the keys of r, where v is the whole value at k."""

    key: Var
    value: Var
    source: Term
    body: Term


@node
class Repeat(Node):
    """repeat x := r then s: r, and again and again s of what there was the round before, until nothing changes.

    With `times` there are so many rounds; with `within` they end when no value moves by more than it says; a loop that
    has not ended after `limit` rounds has no value. Several collections are a ring product ⟨a: r, b: s⟩.
    """

    var: Var
    start: Term
    step: Term
    times: int | None = None
    within: Within | None = None
    limit: int = 10_000


@dataclass(frozen=True)
class Within:
    """An end of rounds: every key `by` has as many rows and values as before, and their sum moves by no more than `epsilon`."""

    epsilon: float
    column: str
    by: tuple[str, ...]


@node
class Answer(Node):
    """f[params](r): a function of a whole ring value that is not linear in it (min, first, single)."""

    function: str
    params: tuple[Any, ...]
    term: Term


Term: TypeAlias = (
    Const
    | Var
    | Rel
    | Record
    | Field
    | Call
    | Num
    | Zero
    | Sng
    | Add
    | Neg
    | Times
    | Pointwise
    | Sum
    | For
    | Let
    | Pred
    | Not
    | Box
    | Unbox
    | Label
    | Dict
    | DictUnion
    | Fn
    | Apply
    | Differential
    | Each
    | Repeat
    | Answer
)

NODES: tuple[type[Any], ...] = Term.__args__


# --- walking -----------------------------------------------------------------------------------------


def children(term: Term) -> tuple[Term, ...]:
    """The sub-terms, in reading order; binders are not sub-terms."""
    known: tuple[Term, ...] | None = getattr(term, "_children", None)
    if known is None:
        known = _children(term)
        object.__setattr__(term, "_children", known)
    return known


def _children(term: Term) -> tuple[Term, ...]:
    match term:
        case Var() | Const() | Rel() | Num():  # most nodes are leaves
            return ()
        case Record(parts):
            return tuple(t for _, t in parts)
        case Field(inner, _) | Neg(inner) | Sum(inner) | Not(inner) | Box(inner):
            return (inner,)
        case Call(_, args) | Label(_, args):
            return args
        case Sng(key, value):
            return (key, value)
        case Add(items) | Times(items):
            return items
        case Pointwise(left, right) | DictUnion(left, right):
            return (left, right)
        case For(_, source, body) | Let(_, source, body) | Each(_, _, source, body):
            return (source, body)
        case Repeat(_, start, step):
            return (start, step)
        case Pred(inner) | Unbox(inner) | Differential(inner) | Answer(_, _, inner):
            return (inner,)
        case Dict(_, _, body) | Fn(_, body):
            return (body,)
        case Apply(function, argument):
            return (function, argument)
        case _:
            return ()


def binders(term: Term) -> tuple[Var, ...]:
    """The variables that the node binds in its last child."""
    match term:
        case For(var) | Let(var) | Fn(var) | Repeat(var):
            return (var,)
        case Each(key, value):
            return (key, value)
        case Dict(_, params):
            return params
        case _:
            return ()


def rebuild(term: Term, new: tuple[Term, ...]) -> Term:
    """The node with other children; the same object if they are the same objects."""
    old = children(term)
    if len(old) == len(new) and all(map(is_, old, new)):
        return term
    match term:
        case Record(parts):
            return Record(tuple((n, t) for (n, _), t in zip(parts, new, strict=True)))
        case Field(_, name):
            return Field(new[0], name)
        case Call(function, _, returns) if type(term) is Call:
            return Call(function, new, returns)
        case Call():  # a kind of call stays of its kind
            return replace(term, args=new)
        case Label(index, _):
            return Label(index, new)
        case Add():
            return Add(new)
        case Times():
            return Times(new)
        case For(var):
            return For(var, *new)
        case Let(var):
            return Let(var, *new)
        case Each(key, value):
            return Each(key, value, *new)
        case Repeat():
            return replace(term, start=new[0], step=new[1])
        case Answer(function, params):
            return Answer(function, params, *new)
        case Dict(index, params):
            return Dict(index, params, *new)
        case Fn(var):
            return Fn(var, *new)
        case _:
            node: Any = type(term)
            rebuilt: Term = node(*new)
            return rebuilt


def rebind(term: Term, bound: tuple[Var, ...], body: Term) -> Term:
    """A binding node with other variables and another last child."""
    match term:
        case For(_, source):
            return For(bound[0], source, body)
        case Let(_, source):
            return Let(bound[0], source, body)
        case Fn():
            return Fn(bound[0], body)
        case Each(_, _, source):
            return Each(bound[0], bound[1], source, body)
        case Repeat():
            return replace(term, var=bound[0], step=body)
        case Dict(index):
            return Dict(index, bound, body)
        case _:
            raise AssertionError(f"{type(term).__name__} binds nothing")


def subterms(term: Term) -> Iterator[Term]:
    """Every sub-term once, the term itself first."""
    seen: set[Term] = set()
    stack = [term]
    while stack:
        t = stack.pop()
        if t not in seen:
            seen.add(t)
            yield t
            stack.extend(reversed(children(t)))


def free(term: Term) -> frozenset[Var | Rel]:
    """The inputs and unbound variables that a term reads."""
    known: frozenset[Var | Rel] | None = getattr(term, "_free", None)
    if known is None:
        if isinstance(term, (Var, Rel)):
            known = frozenset((term,))
        else:
            kids = children(term)
            bound = binders(term)
            known = frozenset().union(*(free(k) for k in (kids[:-1] if bound else kids)))
            if bound:
                known |= free(kids[-1]) - set(bound)
        object.__setattr__(term, "_free", known)
    return known


def relations(term: Term) -> frozenset[Rel]:
    """The inputs that a term reads."""
    return frozenset(x for x in free(term) if isinstance(x, Rel))


def variables(term: Term) -> frozenset[Var]:
    """The unbound variables of a term."""
    known: frozenset[Var] | None = getattr(term, "_variables", None)
    if known is None:
        known = frozenset([x for x in free(term) if isinstance(x, Var)])
        object.__setattr__(term, "_variables", known)
    return known


def size(term: Term) -> int:
    """How many nodes the term has when written out."""
    return 1 + sum(size(c) for c in children(term))


# --- substitution -------------------------------------------------------------------------------------


def fresh(name: str, taken: set[str] | frozenset[str]) -> str:
    """A name like `name` that is not taken."""
    if name not in taken:
        return name
    stem = name.rstrip("0123456789")
    n = 1
    while f"{stem}{n}" in taken:
        n += 1
    return f"{stem}{n}"


def substitute(term: Term, by: Mapping[Any, Term]) -> Term:
    """The term with free leaves replaced, bound variables renamed where they would capture."""
    by = {k: v for k, v in by.items() if k in free(term)}
    if not by:
        return term
    if isinstance(term, (Var, Rel)):
        return by[term]
    bound = binders(term)
    if not bound:
        return rebuild(term, tuple(substitute(c, by) for c in children(term)))
    *outer, body = children(term)
    term = rebuild(term, (*(substitute(c, by) for c in outer), body))
    inner = {k: v for k, v in by.items() if k not in bound and k in free(body)}
    captured = {x.name for v in inner.values() for x in free(v)}
    if any(b.name in captured for b in bound):
        taken = captured | {x.name for x in free(body)}
        renamed = []
        for b in bound:
            new = Var(fresh(b.name, taken), b.type)
            taken |= {new.name}
            renamed.append(new)
            inner[b] = new
        bound = tuple(renamed)
    return rebind(term, bound, substitute(body, inner))


def replaced(term: Term, by: Mapping[Term, Term]) -> Term:
    """The term with sub-terms replaced, but for those that read what is bound around them inside of it."""
    if term in by:
        return by[term]
    kids, bound = children(term), binders(term)
    if not bound:
        return rebuild(term, tuple(replaced(c, by) for c in kids))
    inside = {t: new for t, new in by.items() if not variables(t).intersection(bound)}
    return rebuild(term, (*(replaced(c, by) for c in kids[:-1]), replaced(kids[-1], inside)))


def names_in(term: Term) -> set[str]:
    """Every name that occurs in a term, bound or free."""
    found = {x.name for x in free(term)}
    for t in subterms(term):
        found |= {v.name for v in binders(t)}
    return found


def apart(term: Term, taken: set[str] | frozenset[str]) -> Term:
    """The term with the variables that its root binds renamed, where their names are taken."""
    bound = binders(term)
    if not any(b.name in taken for b in bound):
        return term
    *_, body = children(term)
    taken = set(taken) | {x.name for x in free(body)}
    renamed: dict[Var, Term] = {}
    for b in bound:
        renamed[b] = new = Var(fresh(b.name, taken), b.type)
        taken.add(new.name)
    return rebind(
        term, tuple(v for v in renamed.values() if isinstance(v, Var)), substitute(body, renamed)
    )


def change_name(name: str, level: int = 1) -> str:
    """ΔR, then Δ′R, Δ′′R: the change of an input, and the changes that higher-order deltas read."""
    return "Δ" + "′" * (level - 1) + name
