"""One statement in the making: the columns that a row has so far, and the steps that gave them.

A `Flow` starts with the columns of a change (`bind_row`). `column` binds a term to a column once all that it reads is
there, `filter` and `expand` add steps, and `ring` gives the columns whose product is the value. `statements.py` joins:
it looks up a block of other atoms, and tells the flow which columns came with it. `connected` finds the blocks, and
`links_of` the equalities that tie a block to what is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headwater.calculus.check import type_of
from headwater.calculus.terms import (
    Call,
    Const,
    Field,
    Num,
    Pred,
    Term,
    Unbox,
    Var,
    Zero,
    children,
    variables,
)
from headwater.calculus.types import (
    BIGINT,
    DOUBLE,
    EXACTLY,
    INT,
    INTEGRAL,
    Base,
    KeyType,
    RecordType,
    RingType,
    decimal,
    is_key,
    unboxed,
)
from headwater.errors import NotIncremental
from headwater.plan.program import AddUp, Bind, Expand, Filter, Step
from headwater.plan.scalar import scalar
from headwater.rules.equalities import equality, match_of


@dataclass(frozen=True)
class Link:
    """An equality between a block and what is known already; `null_safe` is `<=>`."""

    inner: Term
    outer: Term
    null_safe: bool


def row_columns(var: Var) -> list[tuple[str, Term]]:
    """The columns of a row by name; a row that is a scalar has one."""
    if isinstance(var.type, RecordType):
        return [(n, Field(var, n)) for n, _ in var.type.fields]
    return [("value", var)]


class Flow:
    """The columns and steps of a statement so far."""

    def __init__(self) -> None:
        self.known: set[Var] = set()
        self.columns: dict[Term, str] = {}
        self.steps: list[Step] = []

    def bind_row(self, var: Var) -> None:
        """The columns of a change's row."""
        self.known.add(var)
        for name, term in row_columns(var):
            self.columns[term] = f"{var.name}.{name}"

    def reads(self, term: Term) -> bool:
        """Whether everything that a term reads is there."""
        return variables(term) <= self.known

    def column(self, term: Term) -> str:
        """The column that holds a term, bound by a step if there is none yet."""
        found = self.columns.get(term)
        if found is None:
            found = f"b{len(self.steps)}"
            self.steps.append(Bind(found, scalar(term, self.columns)))
            self.columns[term] = found
        return found

    def expand(self, var: Var, source: Term) -> None:
        """Each element of an array that a row has."""
        assert isinstance(source, Unbox)
        array = self.column(source.key)
        if isinstance(var.type, RecordType):
            brings = tuple((n, f"{var.name}.{n}") for n, _ in var.type.fields)
            self.columns |= {Field(var, n): c for n, c in brings}
        else:
            brings = (("", var.name),)
            self.columns[var] = var.name
        self.steps.append(Expand(array, brings))
        self.known.add(var)

    def add_up(
        self, by: tuple[str, ...], sums: tuple[tuple[str, RingType, tuple[str, ...]], ...]
    ) -> None:
        """Makes rows that are alike in some columns one; nothing else is left of them but sums."""
        self.steps.append(AddUp(by, sums))
        self.columns = {t: c for t, c in self.columns.items() if c in by}

    def filter(self, condition: Term) -> None:
        """Keeps the rows for which a condition is true."""
        self.steps.append(Filter(scalar(condition, self.columns)))

    def ring(self, factors: Sequence[Term]) -> list[str]:
        """The columns whose product is a product of filters and numbers."""
        conditions: list[Term] = []
        values: list[Term] = []
        exact: list[Term] = []
        for f in factors:
            match f:
                case Pred(e):
                    conditions.append(e)
                case Num(1):
                    pass
                case Num(value, t) if t == INT:
                    values.append(Const(value, BIGINT))
                case Zero():  # a sum of what is NULL in this branch of a union
                    values.append(Const(0, BIGINT))
                case Unbox(Call("_exact", args)):
                    exact.extend(args)
                case Unbox(e) if type_of(e) == EXACTLY:  # NULL
                    values.append(Const(0, BIGINT))
                case Unbox(e):
                    values.append(e)
                case _:
                    raise NotIncremental(
                        "VALUE",
                        f"`{f}` is no number of a row",
                        hint="sum a column or an expression",
                    )
        # unbox(NULL) is 0, so a filter that only says that the value is there says nothing more.
        present = [*values, *(exact if len(set(exact)) == 1 else ())]
        conditions = [c for c in conditions if not _says_present(c, present)]
        terms = [value_or_zero(v) for v in values]
        if exact:
            return [
                *map(self.column, terms),
                *(self.column(e) for e in _guarded(exact, conditions)),
            ]
        if conditions:
            test = conditions[0] if len(conditions) == 1 else Call("and", tuple(conditions))
            first = terms[0] if terms else Const(1, BIGINT)
            chosen = Call("case", (test, first, zero_of(type_of(first))))
            terms = [chosen, *terms[1:]]
        return [self.column(t) for t in terms]


def _guarded(exact: Sequence[Term], conditions: Sequence[Term]) -> list[Term]:
    """The factors of a summand that is not rounded, each 0 where a condition does not hold; integers as decimals."""
    terms = [value_or_zero(e, whole=decimal(20, 0)) for e in exact]
    for c in conditions:
        terms = [Call("case", (c, t, zero_of(type_of(t)))) for t in terms]
    return terms


def _says_present(condition: Term, values: Sequence[Term]) -> bool:
    match condition:
        case Call("is_not_null", (e,)):
            return e in values
    return False


def zero_of(t: KeyType) -> Const:
    """0 in a type of numbers."""
    assert isinstance(t, Base)
    return Const(0.0 if t.name in ("float", "double") else 0, t)


def value_or_zero(value: Term, whole: Base = BIGINT) -> Term:
    """A number as a summand: NULL adds nothing; small integers and floats are widened."""
    t = type_of(value)
    ring = unboxed(t)
    if ring is None:
        raise NotIncremental("VALUE", f"`{value}` is no number", hint="sum numbers")
    wide: Base | None = DOUBLE if t.name == "float" else whole if t.name in INTEGRAL else None
    if wide is not None and wide != t:
        value, t = Call("cast", (value,), wide), wide
    if isinstance(value, Const):
        return value
    return Call("coalesce", (value, zero_of(t)))


def links_of(filters: Iterable[Term], block: set[Var], known: set[Var]) -> dict[Term, Link]:
    """The equalities among filters that tie a block to what is known, both sides in one type."""
    found = ((f, match_of(f, block, known)) for f in filters)
    return {f: Link(*m) for f, m in found if m is not None}


def subterms_over(term: Term, block: set[Var]) -> list[Term]:
    """The largest sub-terms that read the block and nothing else."""
    reads = variables(term)
    if not reads & block:
        return []
    row = isinstance(term, Var) and isinstance(term.type, RecordType)
    if reads <= block and is_key(t := type_of(term)) and t != EXACTLY and not row:
        return [term]
    return list(dict.fromkeys(p for c in children(term) for p in subterms_over(c, block)))


def connected(atoms: Sequence[Var], filters: Iterable[Term]) -> list[list[Var]]:
    """The atoms in blocks that equalities hold together."""
    group: dict[Var, int] = {v: i for i, v in enumerate(atoms)}
    for f in filters:
        found = equality(f)
        if found is not None:
            sides = [variables(a) & group.keys() for a in found.sides]
            if all(sides):
                met = {group[v] for side in sides for v in side}
                for v, g in group.items():
                    group[v] = min(met) if g in met else g
    blocks: dict[int, list[Var]] = {}
    for v, g in group.items():
        blocks.setdefault(g, []).append(v)
    return list(blocks.values())
