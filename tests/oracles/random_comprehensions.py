"""Random nested sources, and random comprehensions over them.

Everything is drawn with `pick`, where 0 is the simplest choice. Types are three: a scalar by its kind, a record and a
bag. A query is the text of a Python function; what it is drawn from never fails in Python (no order of what may be None;
divisions, `int` of text and extremes of what may be empty stand behind a guard), so the function on lists says what a view
must be. `Features` turns parts of it on.

Sources have small domains, so that rows and bags are equal often: two equal inner bags of different owners are two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any, TypeAlias

from random_values import Pick

# --- types ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scalar:
    """A scalar: only opt may be None, an integer otherwise."""

    kind: str


@dataclass(frozen=True)
class Rec:
    """A record, or a tuple if its fields are _1, _2, ...; of sources and views it is read with a dot."""

    fields: tuple[tuple[str, T], ...]
    dotted: bool = field(default=False, compare=False)

    @property
    def is_tuple(self) -> bool:
        return self.fields[0][0] == "_1"


@dataclass(frozen=True)
class Bag:
    """A list or a set of rows; sets are not added to each other."""

    of: T
    is_set: bool = field(default=False, compare=False)


T: TypeAlias = Scalar | Rec | Bag
INT, STR, OPT, BOOL = (Scalar(k) for k in ("int", "str", "opt", "bool"))
DEC, DBL, DAY = (Scalar(k) for k in ("dec", "dbl", "day"))
DDL = {
    "int": "BIGINT",
    "str": "STRING",
    "opt": "BIGINT",
    "bool": "BOOLEAN",
    "dec": "DECIMAL(10,2)",
    "dbl": "DOUBLE",
    "day": "DATE",
}
POOLS: dict[str, tuple[Any, ...]] = {
    "int": (0, 1, 2),
    "str": ("x", "y", "", "1"),
    "opt": (None, 0, 1),
    "bool": (True, False),
    "dec": (Decimal("0.50"), Decimal("1.00"), Decimal("-1.25")),
    "dbl": (0.0, 0.5, -0.0),
    "day": (date(2024, 2, 29), date(2023, 12, 31)),
}
CONSTANTS = {
    "int": "1",
    "str": "'x'",
    "opt": "(None if 0 > 1 else 1)",  # a bare None has no type; one beside a number has
    "bool": "True",
    "dec": 'Decimal("0.50")',
    "dbl": "0.5",
    "day": "date(2024, 2, 29)",
}
KINDS = (INT, STR, INT, OPT, STR, INT, BOOL, DEC, INT, STR, DBL, DAY)
KEYS = range(7)
"""The keys that owners of inner bags have."""


def given(t: T) -> T:
    """The type of data that comes from a source or a view: read with dots, and without sets."""
    match t:
        case Rec(fields):
            return Rec(tuple((n, given(f)) for n, f in fields), dotted=True)
        case Bag(of):
            return Bag(given(of))
        case _:
            return t


def built(t: T) -> T:
    """The type of data that may be built in the query, of dicts, and may come from outside."""
    match t:
        case Rec(fields):
            return Rec(tuple((n, built(f)) for n, f in fields))
        case Bag(of, is_set):
            return Bag(built(of), is_set)
        case _:
            return t


def ddl(t: T) -> str:
    """A type in Spark's DDL."""
    match t:
        case Scalar(kind):
            return DDL.get(kind, kind)
        case Rec(fields):
            return f"STRUCT<{', '.join(f'{n}: {ddl(f)}' for n, f in fields)}>"
        case Bag(of):
            return f"ARRAY<{ddl(of)}>"


def nesting(t: T) -> int:
    """How many bags are in each other."""
    match t:
        case Rec(fields):
            return max(nesting(f) for _, f in fields)
        case Bag(of):
            return 1 + nesting(of)
        case _:
            return 0


@dataclass(frozen=True)
class Features:
    """What is drawn beyond nested views over flat sources."""

    nested: bool = True
    """Sources have arrays."""
    deep: bool = True
    """Changes are addressed to inner bags too."""
    views: bool = True
    """Views read other views, nested ones among them."""
    atoms: int = 5
    """A query reads so many sources at most, counted as often as it does."""


# --- sources ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceOf:
    """A source: its columns, and its key, with the keys of inner rows as paths."""

    columns: tuple[tuple[str, T], ...]
    key: tuple[str, ...] = ()

    @property
    def ddl(self) -> str:
        return ", ".join(f"{n} {ddl(t)}" for n, t in self.columns)

    @property
    def row(self) -> Rec:
        row = given(Rec(self.columns))
        assert isinstance(row, Rec)
        return row

    @property
    def nested(self) -> bool:
        return any(nesting(t) for _, t in self.columns)

    def key_at(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The key of the rows at a path, in its own columns."""
        prefix = ".".join((*path, ""))
        inner = [k.removeprefix(prefix) for k in self.key if k.startswith(prefix)]
        return tuple(k for k in inner if "." not in k)

    def addressed(self) -> list[tuple[str, ...]]:
        """The paths of the bags that changes can be addressed to: all owners on the way have keys."""
        out: list[tuple[str, ...]] = []

        def walk(row: T, path: tuple[str, ...]) -> None:
            if isinstance(row, Rec) and self.key_at(path):
                for name, t in row.fields:
                    if isinstance(t, Bag):
                        out.append((*path, name))
                        walk(t.of, (*path, name))

        walk(self.row, ())
        return out

    def at(self, path: Sequence[str]) -> T:
        """The type of the rows at a path."""
        t: T = self.row
        for name in path:
            assert isinstance(t, Rec)
            inner = dict(t.fields)[name]
            assert isinstance(inner, Bag)
            t = inner.of
        return t


class Sources:
    """Draws sources and their data."""

    def __init__(self, pick: Pick, features: Features):
        self.pick, self.features = pick, features

    def sources(self) -> dict[str, SourceOf]:
        flat = {n: self.flat() for n in ("R", "S", "U")[: 1 + self.pick(3)]}
        if not self.features.nested:
            return flat
        return flat | {n: self.nested() for n in ("N", "P")[: (1, 0, 2, 1)[self.pick(4)]]}

    def flat(self) -> SourceOf:
        columns = [("k", INT), *self.scalars("abc", 1 + self.pick(2))]
        if self.pick(4) == 3:
            return SourceOf((("id", INT), *columns), ("id",))
        return SourceOf(tuple(columns))

    def scalars(self, names: str, count: int) -> list[tuple[str, T]]:
        return [(n, KINDS[self.pick(len(KINDS))]) for n in names[:count]]

    def nested(self) -> SourceOf:
        keys = ["id"]
        columns: list[tuple[str, T]] = [("id", INT), *self.scalars("ab", self.pick(3))]
        if self.pick(6) == 5:
            columns.append(("r", Rec((("k", INT), ("s", STR)))))
        columns.append(("lines", self.array("lines", 2, keys)))
        if self.pick(4) == 3:
            columns.append(("tags", self.array("tags", 1, keys)))
        return SourceOf(tuple(columns), tuple(keys))

    def array(self, path: str, depth: int, keys: list[str]) -> Bag:
        if self.pick(6) == 5:
            return Bag((INT, STR, OPT)[self.pick(3)])
        columns: list[tuple[str, T]] = []
        above = path.rpartition(".")[0]
        owned = not above or any(k.rpartition(".")[0] == above for k in keys)
        if self.pick(2) and owned:
            columns.append((f"no{depth}", INT))
            keys.append(f"{path}.no{depth}")
        columns += [("k", INT), *self.scalars("ab", self.pick(3))]
        if depth > 1 and self.pick(2):
            columns.append(("parts", self.array(f"{path}.parts", depth - 1, keys)))
        return Bag(Rec(tuple(columns)))

    # --- data ----------------------------------------------------------------------------------------------------

    def rows(
        self, source: SourceOf, path: tuple[str, ...], there: Sequence[Any], most: int
    ) -> list[Any]:
        """New rows beside those that are there, with keys that none of them has."""
        key = source.key_at(path)
        used = {tuple(r[k] for k in key) for r in there} if key else set()
        out = []
        for _ in range(self.pick(most + 1)):
            row = self.datum(source.at(path), source, path)
            if key:
                free = [n for n in KEYS if (n,) not in used]
                if not free:
                    break
                row[key[0]] = free[self.pick(len(free))]
                used.add((row[key[0]],))
            out.append(row)
        return out

    def datum(self, t: T, source: SourceOf, path: tuple[str, ...]) -> Any:
        match t:
            case Scalar(kind):
                return POOLS[kind][self.pick(len(POOLS[kind]))]
            case Rec(fields):
                return {n: self.datum(f, source, (*path, n)) for n, f in fields}
            case Bag():
                return None if self.pick(8) == 7 else self.rows(source, path, (), 3)


# --- queries ----------------------------------------------------------------------------------------------------

Names = tuple[tuple[str, T], ...]
"""What a query has in sight: expressions with their types."""


@dataclass(frozen=True)
class ViewOf:
    """A view: the text of its function, the type of its rows, and how many atoms it joins."""

    name: str
    text: str
    inputs: tuple[str, ...]
    row: T
    size: int
    strategy: str = "auto"


def reach(names: Names) -> Names:
    """The expressions, and the fields of the records among them."""
    out = list(names)
    for text, t in out:
        if isinstance(t, Rec):
            for i, (n, f) in enumerate(t.fields):
                if t.is_tuple:
                    out.append((f"{text}[{i}]", f))
                else:
                    out.append((f"{text}.{n}" if t.dotted else f'{text}["{n}"]', f))
    return tuple(out)


class Queries:
    """Draws one query; `known` are the rows of what it may read, and `sizes` how many atoms each of them joins."""

    def __init__(self, pick: Pick, known: Mapping[str, T], sizes: Mapping[str, int], most: int):
        self.pick, self.known, self.sizes, self.left = pick, dict(known), sizes, most
        self.read: dict[str, None] = {}
        self.count = 0
        self.lets: list[str] = []
        self.bound: Names = ()

    def choose(self, options: Sequence[Any]) -> Any:
        return options[self.pick(len(options))]

    def fresh(self, stem: str = "x") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def view(self, name: str, strategy: str = "auto") -> ViewOf:
        most = self.left = min(self.left, (2, 3, 1, 4, 5)[self.pick(5)])
        text, t = self.top()
        inputs = tuple(self.read) or (next(iter(self.known)),)
        body = "".join(f"    {line}\n" for line in (*self.lets, f"return {text}"))
        whole = f"@hw.query\ndef {name}({', '.join(inputs)}):\n{body}"
        return ViewOf(name, whole, inputs, given(t), max(1, most - self.left), strategy)

    def top(self) -> tuple[str, T]:
        which = self.pick(12)
        if which == 7:
            one, t = self.listing((), 2)
            return f"{one} + {self.bag((), Bag(t), 1)}", built(t)
        if which == 8:
            return self.grouped((), 2)
        if which == 9:
            bound, t = self.listing((), 2)
            self.lets.append(f"some = {bound}")
            self.bound = (("some", Bag(t)),)
            return self.listing((), 2)
        if which == 10:
            return self.a_set((), 2)
        if which == 11:
            return self.inverted()
        return self.listing((), 2)

    # --- lists ---------------------------------------------------------------------------------------------------

    def listing(self, names: Names, depth: int, want: T | None = None) -> tuple[str, T]:
        """A list comprehension, and the type of its rows."""
        clauses, inner = self.clauses(names, 1 + (self.pick(4) == 3))
        element, t = self.element(inner, depth, want)
        return f"[{element} {clauses}]", t

    def clauses(self, names: Names, count: int) -> tuple[str, Names]:
        """Loops with conditions, and what is in sight inside of them."""
        out: list[str] = []
        for _ in range(count):
            over, t = self.collection(names)
            target, bound = self.target(t)
            out.append(f"for {target} in {over}")
            correlated = any(text.split(".")[0].split("[")[0] in over for text, _ in names)
            if names and not correlated:
                condition = self.correlation(names, bound)
                out += [f"if {condition}"] if condition else []
            names = names + bound
            if self.pick(3) == 2:
                out.append(f"if {self.condition(names, 1)}")
        return " ".join(out), names

    def target(self, t: T) -> tuple[str, Names]:
        """What a loop binds: a name, or the parts of a tuple."""
        if isinstance(t, Rec) and t.is_tuple and len(t.fields) > 1 and self.pick(2):
            parts = [(self.fresh("p"), f) for _, f in t.fields]
            return ", ".join(n for n, _ in parts), tuple(parts)
        name = self.fresh()
        return name, ((name, t),)

    def collection(self, names: Names) -> tuple[str, T]:
        """What a loop runs over, and the type of its rows."""
        inner = [(e, t.of) for e, t in reach(names) if isinstance(t, Bag)]
        fits = [n for n in self.known if self.sizes[n] <= self.left]
        options: list[Any] = [self.whole] * (8 if fits else 0)
        options += [lambda: self.choose(inner)] * (16 if inner else 0)
        if self.bound:
            options += [lambda: (self.bound[0][0], self.bound[0][1].of)] * 6  # type: ignore[union-attr]
        if fits:
            options += [lambda: self.filtered(names), lambda: self.a_set(names, 0)]
        made: tuple[str, T] = self.choose(options)() if options else self.whole()
        return made

    def whole(self) -> tuple[str, T]:
        """A source or a view."""
        fits = [n for n in self.known if self.sizes[n] <= self.left] or list(self.known)
        name = self.choose(fits)
        self.read[name] = None
        self.left -= self.sizes[name]
        return name, self.known[name]

    def filtered(self, names: Names) -> tuple[str, T]:
        """The rows of a source that a condition holds for."""
        over, t = self.whole()
        name = self.fresh()
        condition = self.condition((*names, (name, t)), 0)
        return f"[{name} for {name} in {over} if {condition}]", t

    def a_set(self, names: Names, depth: int) -> tuple[str, T]:
        """A set of scalars or of tuples of them."""
        clauses, inner = self.clauses(names, 1)
        scalars = [(e, t) for e, t in reach(inner) if isinstance(t, Scalar)]
        if self.pick(2) and len(scalars) > 1:
            parts = [self.choose(scalars) for _ in range(2)]
            t: T = Rec(tuple((f"_{i + 1}", f) for i, (_, f) in enumerate(parts)))
            return f"{{({', '.join(e for e, _ in parts)}) {clauses}}}", t
        e, t = self.choose(scalars or [("1", INT)])
        return f"{{{e} {clauses}}}", t

    def grouped(self, names: Names, depth: int) -> tuple[str, T]:
        """Rows nested under the keys that they have."""
        over, t = self.collection(names)
        name, other, key = self.fresh(), self.fresh(), self.fresh("g")
        scalars = [(e, f) for e, f in reach(((name, t),)) if isinstance(f, Scalar)]
        if not scalars or over not in (*self.known, "some"):
            return self.listing(names, depth)
        e, kind = self.choose(scalars)
        same = e.replace(name, other, 1)
        inside = (*names, (key, kind), (other, t))
        element, of = self.element(inside, depth - 1, None)
        rows = f"[{element} for {other} in {over} if {same} == {key}]"
        fields: list[tuple[str, str, T]] = [("g", key, kind), ("rows", rows, Bag(of))]
        if self.pick(2):
            fields.append(("n", f"len([1 for {other} in {over} if {same} == {key}])", INT))
        text, row = self.record(fields)
        return f"[{text} for {key} in {{{e} for {name} in {over}}}]", row

    def inverted(self) -> tuple[str, T]:
        """For every row of one source the owners of inner rows that fit it."""
        owners = [n for n, t in self.known.items() if isinstance(t, Rec) and nesting(t)]
        if not owners:
            return self.grouped((), 2)
        over, t = self.whole()
        name, owner = self.fresh(), self.choose(owners)
        self.read[owner] = None
        self.left -= self.sizes[owner]
        x, y = self.fresh("o"), self.fresh("e")
        bags = [(e, f.of) for e, f in reach(((x, self.known[owner]),)) if isinstance(f, Bag)]
        e, of = self.choose(bags)
        outside: Names = ((name, t),)
        condition = self.correlation(outside, ((y, of),)) or "True"
        element, row = self.element((*outside, (x, self.known[owner]), (y, of)), 0, None)
        inner = f"[{element} for {x} in {owner} for {y} in {e} if {condition}]"
        fields = [*self.fields(outside, 0, 1), ("of", inner, Bag(row))]
        text, whole = self.record(fields)
        return f"[{text} for {name} in {over}]", whole

    # --- rows ----------------------------------------------------------------------------------------------------

    def element(self, names: Names, depth: int, want: T | None) -> tuple[str, T]:
        """A row: of a type that is wanted, or any."""
        if want is not None:
            return self.value(names, want, depth), built(want)
        rows = [(e, t) for e, t in reach(names) if isinstance(t, Rec)]
        which = self.pick(24 if depth > 1 else 10)  # the rows of a view mostly have inner bags
        if which == 8 and rows:
            made: tuple[str, T] = self.choose(rows)
            return made
        if which == 9:
            kind = self.choose(KINDS)
            return self.scalar(names, kind, 1), kind
        if which == 7 and depth > 0:
            return self.inner(names, depth - 1)
        fields = self.fields(names, depth, 1 + self.pick(2))
        if depth > 0:
            for stem in ("l", "m")[: (1, 1, 2, 1, 0, 1)[self.pick(6)]]:
                text, t = self.inner(names, depth - 1)
                fields.append((stem, text, t))
        if self.pick(8) == 7:
            text, t = self.record(self.fields(names, max(0, depth - 1), 2))
            fields.append(("r", text, t))
        return self.record(fields)

    def fields(self, names: Names, depth: int, count: int) -> list[tuple[str, str, T]]:
        """Named scalars, mostly columns."""
        scalars = [(e, t) for e, t in reach(names) if isinstance(t, Scalar)]
        out: list[tuple[str, str, T]] = []
        for n in "abcd"[:count]:
            if scalars and self.pick(4) < 3:
                e, t = scalars[-1 - self.pick(len(scalars))]
            else:
                t = self.choose(KINDS)
                e = self.scalar(names, t, 2)
            out.append((n, e, t))
        return out

    def record(self, fields: list[tuple[str, str, T]]) -> tuple[str, T]:
        """A tuple or a dict."""
        if self.pick(2):
            text = "{" + ", ".join(f'"{n}": {e}' for n, e, _ in fields) + "}"
            return text, Rec(tuple((n, t) for n, _, t in fields))
        comma = "," if len(fields) == 1 else ""
        text = f"({', '.join(e for _, e, _ in fields)}{comma})"
        return text, Rec(tuple((f"_{i + 1}", t) for i, (_, _, t) in enumerate(fields)))

    def inner(self, names: Names, depth: int) -> tuple[str, T]:
        """An inner list or set, of any type."""
        bags = [(e, t) for e, t in reach(names) if isinstance(t, Bag)]
        which = self.pick(10)
        if which in (3, 4) and bags:
            made: tuple[str, T] = self.choose(bags)
            return made
        if which == 5:
            text, t = self.a_set(names, depth)
            return text, Bag(t, is_set=True)
        if which in (6, 7):
            one, t = self.listing(names, depth)
            if which == 6:
                return f"{one} + {self.bag(names, Bag(t), depth)}", Bag(built(t))
            condition = self.condition(names, 1)
            other = "[]" if self.pick(2) else self.bag(names, Bag(t), depth)
            return f"({one} if {condition} else {other})", Bag(built(t))
        if which == 8:
            text, t = self.grouped(names, depth)
            return text, Bag(t)
        text, t = self.listing(names, depth)
        return text, Bag(t)

    # --- values of a type that is wanted -------------------------------------------------------------------------

    def value(self, names: Names, t: T, depth: int) -> str:
        match t:
            case Scalar():
                return self.scalar(names, t, 1)
            case Bag():
                return self.bag(names, t, depth)
            case Rec(fields):
                parts = [(n, self.value(names, f, depth), f) for n, f in fields]
                if t.is_tuple:
                    return f"({', '.join(e for _, e, _ in parts)}{',' * (len(parts) == 1)})"
                return "{" + ", ".join(f'"{n}": {e}' for n, e, _ in parts) + "}"

    def bag(self, names: Names, t: Bag, depth: int) -> str:
        """A list of a type that is wanted; never one that may be missing, which has no sum in Python."""
        found = [e for e, f in reach(names) if f == t]
        if found and self.pick(3):
            name = self.fresh()
            return f"[{name} for {name} in {self.choose(found)}]"
        if self.pick(6) == 5 and not t.is_set:
            return f"[{self.value(names, t.of, depth)}]"
        return self.listing(names, depth, t.of)[0]

    # --- scalars -------------------------------------------------------------------------------------------------

    def scalar(self, names: Names, t: Scalar, depth: int) -> str:
        """A scalar of a kind: a column, a constant, something computed, an aggregate."""
        found = [e for e, f in reach(names) if f == t]
        which = self.pick(8)
        if found and (which < 4 or depth <= 0):
            return str(self.choose(found))
        if depth > 0 and t.kind in STARTS and which in (4, 5):
            return self.aggregate(names, t, depth - 1)
        if depth > 0 and t.kind == "bool" and names:
            return self.condition(names, depth - 1)
        if depth > 0 and which == 6 and names:
            one, other = (self.scalar(names, t, 0) for _ in range(2))
            return f"({one} if {self.condition(names, depth - 1)} else {other})"
        if found and t.kind == "int":
            one, other = self.choose(found), self.choose(found)
            forms = (f"{one} + 1", f"{one} + {other}", f"-{one}", "1", *guarded(one, other))
            return str(self.choose(forms))
        if found and t.kind == "str" and which < 7:
            return f"{self.choose(found)} + 'z'"
        if depth > 0 and t.kind in ("opt", "str") and which in (4, 5):
            return self.extreme(names, t)
        if t.kind == "opt" and found:
            return str(self.choose(found))
        return CONSTANTS[t.kind]

    def aggregate(self, names: Names, t: Scalar, depth: int) -> str:
        """A number from a bag."""
        inner = [e for e, f in reach(names) if isinstance(f, Bag)]
        if t.kind == "int" and self.pick(3) == 0:
            if inner and self.pick(3):
                return f"len({self.choose(inner)})"
            clauses, _ = self.clauses(names, 1)
            return f"len([1 {clauses}])"
        clauses, inside = self.clauses(names, 1)
        x = self.scalar(inside, t, 0)
        if t.kind == "int" and self.pick(6) == 5:
            found = self.choose((f"any(True {clauses})", f"len([1 {clauses}]) > 0"))
            return f"({self.choose(('min', 'max'))}({x} {clauses}) if {found} else 0)"
        if t.kind == "int" and self.pick(3) == 2:
            return f"{self.choose(('min', 'max'))}(({x} {clauses}), default=0)"
        return f"sum(({x} {clauses}){STARTS[t.kind]})"

    def extreme(self, names: Names, t: Scalar) -> str:
        clauses, inside = self.clauses(names, 1)
        kind, default = (INT, "None") if t.kind == "opt" else (STR, "''")
        return f"{self.choose(('min', 'max'))}(({self.scalar(inside, kind, 0)} {clauses}), default={default})"

    # --- conditions ----------------------------------------------------------------------------------------------

    def correlation(self, outer: Names, inner: Names) -> str:
        """How inner rows belong to outer ones: by equality, by inequality, by both, by one or the other, not at all."""
        pairs = [
            (a, b, t)
            for a, t in reach(outer)
            for b, f in reach(inner)
            if t == f and isinstance(t, Scalar) and t != BOOL
        ]
        if not pairs:
            return ""
        a, b, _ = self.choose(pairs)
        c, d, u = self.choose(pairs)
        less = "!=" if u == OPT else "<="
        which = self.pick(12)
        if which < 6:
            return f"{b} == {a}"
        forms = (
            f"{b} == {a} and {d} {less} {c}",
            f"{b} == {a} or {d} == {c}",
            f"{d} {less} {c}",
            f"{b} != {a}",
            "",
            f"{b} == {a} and ({d} != {c} or {self.condition((*outer, *inner), 0)})",
        )
        return forms[which - 6]

    def condition(self, names: Names, depth: int) -> str:
        scalars = [(e, t) for e, t in reach(names) if isinstance(t, Scalar)]
        which = self.pick(14)
        if depth > 0 and which in (6, 7, 12, 13):
            clauses, inside = self.clauses(names, 1)
            return f"{self.choose(('any', 'all'))}({self.condition(inside, 0)} {clauses})"
        if depth > 0 and which == 8:
            joint = self.choose((" or ", " and "))
            return f"({self.condition(names, depth - 1)}{joint}{self.condition(names, 0)})"
        if depth > 0 and which == 9:
            return f"not ({self.condition(names, depth - 1)})"
        bags = [(e, t.of) for e, t in reach(names) if isinstance(t, Bag)]
        if which == 10 and bags:
            return f"len({self.choose(bags)[0]}) {self.choose(('> 0', '== 0', '> 1'))}"
        if which == 11 and depth > 0 and scalars and self.left > 0:
            e, t = self.choose(scalars)
            clauses, inside = self.clauses(names, 1)
            word = self.choose(("in", "not in"))
            return f"{e} {word} [{self.scalar(inside, t, 0)} {clauses}]"
        if not scalars:
            return f"len({self.choose(bags)[0]}) > 0" if bags else "True"
        e, t = self.choose(scalars)
        others = [f for f, u in scalars if u == t and f != e]
        match t.kind:
            case "bool":
                return str(e)
            case "opt":
                forms = [f"{e} is None", f"{e} == 0", f"{e} is not None"]
                forms += [f"{e} == {self.choose(others)}"] if others else []
            case "int":
                forms = [f"{e} > 0", f"{e} != 1", f"{e} in (1, 2)"]
                forms += [f"{e} {op} {self.choose(others)}" for op in ("<", "!=") if others]
                of = self.choose(others) if others else "2"
                forms += [f"({e} != 0 and {of} // {e} == 1)", f"({e} == 0 or {of} % {e} == 0)"]
            case "str":
                forms = [f"{e} == 'x'", f"{e} < 'y'"]
                forms += [f"({e} == '1' and int({e}) > 0)", f"({e} != '1' or int({e}) > 1)"]
                forms += [f"{e} == {self.choose(others)}"] if others else []
            case _:
                forms = [f"{e} < {CONSTANTS[t.kind]}", f"{e} == {CONSTANTS[t.kind]}"]
                forms += [f"{e} <= {self.choose(others)}"] if others else []
        return str(self.choose(forms))


def guarded(one: str, other: str) -> tuple[str, ...]:
    """Numbers that would fail without their guard."""
    return (
        f"({one} // {other} if {other} != 0 else 0)",
        f"({one} % {other} if {other} > 0 else 7)",
        f"(0 if {other} == 0 else -{one} // {other})",
    )


STARTS = {"int": "", "dec": ', Decimal("0.00")', "dbl": ", 0.0"}
"""What a sum of each kind of number starts with."""
