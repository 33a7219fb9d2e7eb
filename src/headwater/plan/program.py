"""The program of a database as data: maps that are kept, statements that change them, answers over them.

A *map* holds the value of a term. A *statement* says how one changed relation changes one map: take the
change's rows, bind and filter, look up other maps, emit (key, ring). A *stratum* says how a relation is
answered from maps: which columns are re-read for a touched key, and what row they give. Everything here is
plain data with scalars as text, so that any executor can run it; `engine` has two.

A program is complete: whoever runs it plans nothing. It is stored in the log (`stored.py`), and a database goes on with
its stored program, whatever plan a later version of the compiler would make, until it is rebuilt.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from typing import Any, Literal

from headwater.calculus.shapes import Shape
from headwater.calculus.types import DOUBLE, DYADIC, KeyType, RecordType, RingType, boxed
from headwater.calculus.windows import WHOLE, Reach, Total, Window
from headwater.plan.conditions import Condition, condition
from headwater.plan.scalar import Scalar

WEIGHT = "_w"
"""The column of a change that says how often a row is added (or taken away)."""


Ordering = tuple[str, bool, bool]
"""A column that entries of a group are in the order of: descending, NULLs last."""


@dataclass(frozen=True)
class Map:
    """A kept map: the term that it holds, in the notation of the calculus, and its columns.

    `lookup` are the key columns that it is searched by, `route` those that decide which task merges an entry.
    A *value* map is answered from, a *change* map is only looked up; `order` sorts the entries of a group.
    """

    name: str
    text: str
    key: tuple[tuple[str, KeyType], ...]
    ring: tuple[tuple[str, RingType], ...]
    lookup: tuple[str, ...]
    route: tuple[str, ...]
    kind: str = "change"
    order: tuple[Ordering, ...] = ()
    level: int = 0
    reads: tuple[str, ...] = ()
    note: str = ""
    fields: tuple[str, ...] = ()
    """The names of the columns of the relation whose rows it holds, where it holds those."""
    strategy: str = "recursive"
    """Which maps its statements look up: `first-order` those of the inputs alone."""

    def __hash__(self) -> int:
        """By its name, a digest of what it is; what is told of a map once is looked up often."""
        return hash(self.name)

    @cached_property
    def columns(self) -> list[str]:
        return [n for n, _ in self.key]


@dataclass(frozen=True)
class Bind:
    """A new column."""

    name: str
    scalar: Scalar


@dataclass(frozen=True)
class Filter:
    """Rows for which a condition is true."""

    condition: Scalar


Version = Literal["old", "new", "change"]
"""What of a map is looked up: what it had before the change of a statement, what it has after it, or the difference."""


@dataclass(frozen=True)
class Lookup:
    """Every row with each entry that a map has at its key: `brings` key columns and `weights` ring columns.

    The change of a map that is looked up, as it is or with what was there before, is arranged for this increment.
    """

    into: str
    keys: tuple[str, ...]
    matches_null: tuple[bool, ...]
    brings: tuple[tuple[str, str], ...]
    weights: tuple[tuple[str, str], ...]
    version: Version = "old"


@dataclass(frozen=True)
class Expand:
    """Every row with each element of an array of its own, in new columns: its fields, or itself."""

    array: str
    brings: tuple[tuple[str, str], ...]
    """Which field of the element is which column; "" is the element."""


@dataclass(frozen=True)
class AddUp:
    """Rows that are alike in the columns `by` as one row of weight 1: of the others it has sums, each of a product of columns.

    Σₓ f(x) · g(k)  =  (Σₓ f(x)) · g(k)        what is looked up next is found once for all of them
    """

    by: tuple[str, ...]
    sums: tuple[tuple[str, RingType, tuple[str, ...]], ...]
    """The name of each sum, its ring, and the columns that are multiplied."""


Step = Bind | Filter | Lookup | Expand | AddUp


@dataclass(frozen=True)
class Statement:
    """How the change of one relation changes one map: for rows of Δ`drives`, steps, then key ↦ product of columns.

    `changes` are the changes of other occurrences that it looks up, arranged first.
    """

    target: Map
    drives: str
    columns: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    key: tuple[str, ...]
    ring: tuple[tuple[str, ...], ...]
    sign: int = 1
    changes: tuple[Statement, ...] = ()

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """Its filters that compare a column of the change with a constant, before anything is looked up; under the change's names."""
        names = {c: n for n, c in self.columns}
        first = takewhile(lambda s: isinstance(s, Bind | Filter), self.steps)
        found = [condition(s.condition) for s in first if isinstance(s, Filter)]
        mine = [c for c in found if c is not None and c.column in names]
        return tuple(replace(c, column=names[c.column]) for c in mine)

    @cached_property
    def needs(self) -> set[str]:
        """The relations that must have changed for the statement to say anything.

        Of a map that is looked up in its new version the change may be empty; of one whose change is looked up not.
        """
        asked = {s.into for s in self.steps if isinstance(s, Lookup) and s.version == "change"}
        return {self.drives, *(c.drives for c in self.changes if c.target.name in asked)}

    @property
    def reads(self) -> set[str]:
        """The maps that it looks up."""
        return {s.into for s in self.steps if isinstance(s, Lookup) and s.version != "change"}


@dataclass(frozen=True)
class Product:
    """A statement that starts from the product of some relations of one row each (`together.py`).

    `row` is the row of the product; the columns of the i-th factor are called `i.name` in it.
    """

    factors: tuple[str, ...]
    row: RecordType
    statement: Statement


@dataclass(frozen=True)
class Kept:
    """How a map is kept: the statements of each way in which what it reads may change.

    `changes` are those of one relation that changes alone, or after others. `at_once` are those of any set of relations
    that change together, all of which read the version before; None where they would look up maps that are not kept.
    `products` are those of relations of one row each, taken together; None where there are not several. `filling` are
    those that compute the map from what is there: of each summand one relation is read whole, and the rest looked up.
    """

    changes: Mapping[str, tuple[Statement, ...]]
    filling: tuple[Statement, ...]
    at_once: tuple[Statement, ...] | None = None
    products: tuple[Product, ...] | None = None

    @property
    def every(self) -> list[Statement]:
        """The statements of all of these ways."""
        of_one = [s for statements in self.changes.values() for s in statements]
        products = [p.statement for p in self.products or ()]
        return [*of_one, *self.filling, *(self.at_once or ()), *products]

    @property
    def reads(self) -> set[str]:
        """The maps that are looked up to keep it, in any of these ways."""
        return {name for s in self.every for name in s.reads}


@dataclass(frozen=True)
class Distinct:
    """A ring column of the group that sums over the different values of a bag."""

    map: Map
    column: str
    counts: bool
    """Whether it counts the values; else it adds them."""
    power: int = 1
    """The power of them that it adds."""


@dataclass(frozen=True)
class Told:
    """A component that is told from sums that are not rounded: an answer of `calculus.dyadic`, over ring columns."""

    column: str
    function: str
    scales: tuple[int, ...]
    sums: tuple[str, ...]


ENDS = {"min": (False, 0), "max": (True, 0), "min_by": (False, 1), "max_by": (True, 1)}
"""Functions of a bag that one end of it says: whether the last, and which column of the element they give."""
COLLECT = "collect"
"""All elements of a bag, as an array."""


@dataclass(frozen=True)
class FromBag:
    """A component that is answered from a bag in order: from the near end of it, or from all of it.

    `items` are the columns of the bag's elements; with `distinct` each counts once.
    """

    map: Map
    column: str
    function: str
    params: tuple[Any, ...]
    items: tuple[str, ...]
    type: KeyType
    distinct: bool = False


@dataclass(frozen=True)
class Ranked:
    """The rows of a group in order: the first of them, or all with what window functions say of each.

    `order` and `row` are columns of the bag; the row's are given under new names.
    """

    map: Map
    order: tuple[str, ...]
    row: tuple[tuple[str, str], ...]
    limit: int | None = None
    offset: int = 0
    windows: tuple[tuple[str, Window], ...] = ()
    reach: Reach = WHOLE
    """How far a changed row matters: what of a touched group is read again."""
    totals: tuple[tuple[Total, str], ...] = ()
    """Columns of the group's ring with the totals that a suffix carries."""

    @property
    def reads_part(self) -> bool:
        """Whether the rows around those that changed are enough."""
        return bool(self.windows) and self.limit is None and self.reach != WHOLE


@dataclass(frozen=True)
class Stratum:
    """A relation answered from a group's map.

    For a touched key the columns of `group` (its key, its ring) and of `from_bags` make a row of components;
    `where` and `row` over those give the row of the relation, `weight` how often. `answers` keeps the components
    that were answered last, where they cannot be told from the group's map alone. With `ranked` there is one row
    of components for each row that it gives.
    """

    name: str
    text: str
    type: RecordType
    group: Map
    distinct: tuple[Distinct, ...]
    from_bags: tuple[FromBag, ...]
    ranked: Ranked | None
    answers: Map | None
    always: bool
    where: tuple[Scalar, ...]
    row: tuple[tuple[str, Scalar], ...]
    weight: Scalar | None
    level: int = 0
    told: tuple[Told, ...] = ()
    checks: tuple[str, ...] = ()
    """The maps that count what fails among the rows that it is answered from."""
    rounds: bool = False
    """Whether its maps hold changes by round, the last column of the group's key: an answer is that of their sum up to a round."""

    def __hash__(self) -> int:
        """By its name, a digest of what it is."""
        return hash(self.name)

    @property
    def passed_on(self) -> tuple[Distinct, ...]:
        """The sums that bags pass on when a value comes or goes; in a loop, where that is so at some rounds, they are read."""
        return () if self.rounds else self.distinct

    @property
    def only_spark(self) -> bool:
        """Whether Spark alone can tell the rows, as some expression in them has no tree."""
        scalars = [*self.where, *(s for _, s in self.row), *([self.weight] if self.weight else [])]
        return any(s.tree is None for s in scalars)

    @cached_property
    def only_there(self) -> list[str]:
        """The sums of its group of which an answer asks nothing but whether they are above 0."""
        positive = {f"(`{n}` > 0L)": n for n, _ in self.group.ring}
        told = [*self.where, *(c for _, c in self.row), *([self.weight] if self.weight else [])]
        read = {n for c in told if c.sql not in positive for n in c.reads}
        asked = [positive[c.sql] for c in self.where if c.sql in positive]
        return [n for n in asked if n not in read]

    @cached_property
    def as_added(self) -> bool:
        """Whether its rows are the keys of its group's map, each as often as its count says: what the map is added is its change."""
        shown = [c.sql for _, c in self.row]
        keys, (count, *more) = self.group.columns, [n for n, _ in self.group.ring]
        plain = not (self.rounds or self.always or self.where or self.bags or self.answers or more)
        weight = self.weight.sql if self.weight is not None else None
        return plain and shown == [f"`{k}`" for k in keys] and weight == f"`{count}`"

    @property
    def shown_key(self) -> list[str] | None:
        """The columns that show the key of its groups, which tell its rows apart; None where not all of it is shown."""
        shown = {c.sql: n for n, c in reversed(self.row)}
        key = [shown.get(f"`{c}`") for c in self.group.columns]
        if self.ranked is not None or self.weight is not None or None in key:
            return None
        return [n for n in key if n is not None]

    @property
    def maps(self) -> list[Map]:
        """All maps of the stratum."""
        return [self.group, *self.bags, *([self.answers] if self.answers else [])]

    @cached_property
    def bags(self) -> list[Map]:
        """The maps of bags beside the group's."""
        maps = [*(d.map for d in self.distinct), *(b.map for b in self.from_bags)]
        return list(dict.fromkeys([*maps, *([self.ranked.map] if self.ranked else [])]))

    @cached_property
    def components(self) -> list[tuple[str, KeyType]]:
        """The columns that an answer reads: the group's key, its ring as numbers, and what comes from bags."""
        ring = [(n, boxed(t)) for n, t in self.group.ring if t != DYADIC]
        group = [*self.group.key, *ring, *((t.column, DOUBLE) for t in self.told)]
        bags = [(b.column, b.type) for b in self.from_bags]
        if self.ranked is None:
            return [*group, *bags]
        types = dict(self.ranked.map.key)
        rows = [(n, types[c]) for c, n in self.ranked.row]
        return [*group, *bags, *rows, *((n, w.returns) for n, w in self.ranked.windows)]


@dataclass(frozen=True)
class Diffusion:
    """How near a loop in diffuse mode is kept: what may be withheld, which keys are one, and how often its rows may move."""

    cut: float
    near: float | None = None
    rounds: int = 50


@dataclass(frozen=True)
class Settled:
    """A stratum inside of a diffuse loop whose groups keep the answer that they were given until an input touches them.

    `groups` has the groups that are there, and says which an input touches; `probes` compute what a group is answered from,
    from the rows of the relation `asks`, which are keys of groups.
    """

    stratum: str
    groups: Map
    asks: str
    probes: tuple[Statement, ...]


@dataclass(frozen=True)
class Diffuse:
    """A loop in diffuse mode: what it is kept by, collection by collection.

    `told` hold the rows of X*, those told last, and `steps` those that the step gives; both are searched by `keys`, the
    columns that are no fractions. `due` have the keys that had yet to move when the rounds of an increment were over.
    `begins` have the rows that X* starts from. `left_out` says which changes of X* do not reach what they would have to read whole.
    """

    how: Diffusion
    told: tuple[Map, ...]
    steps: tuple[Map, ...]
    due: tuple[Map, ...]
    begins: tuple[Map, ...]
    settled: tuple[Settled, ...] = ()
    left_out: tuple[str, ...] = ()
    aliases: Map | None = None
    """Fractions that were told, with those that they are taken for by who reads them; only with `near`."""


@dataclass(frozen=True)
class Until:
    """What a loop ends by: the stratum of rows that have moved too far at a round, and the map that counts them by round."""

    far: str
    count: Map


@dataclass(frozen=True)
class Loop:
    """A loop: its collections and the answers inside of it, all with a column that says at which round a row comes or goes.

    `collections` are the strata whose relations the next round reads, `strata` all that are answered in a round, lowest
    first, and `maps` those that read what moves in it. `level` is that of the highest relation it reads from outside.
    """

    name: str
    text: str
    collections: tuple[str, ...]
    strata: tuple[str, ...]
    maps: tuple[str, ...]
    level: int
    times: int | None = None
    limit: int = 10_000
    until: Until | None = None
    """What says that it has ended, where it ends when its values are near enough to those of the round before."""
    diffuse: Diffuse | None = None
    """How it is kept in diffuse mode, in which its collections are relations without rounds, and no strata."""

    @property
    def relations(self) -> tuple[str, ...]:
        """All that moves in it."""
        return tuple(dict.fromkeys((*self.strata, *self.collections)))


@dataclass(frozen=True)
class Part:
    """A flat part of a nested view: its top rows, or the contents of its inner bags at a path, by label.

    `columns` names the columns of the map, those of the label first; `shape` puts rows together from the rest. Of inner
    bags `owner` is the number of the part above, and `owners` has the labels of this part with those of the rows above
    that have them.
    """

    path: str
    map: Map
    columns: tuple[tuple[str, KeyType], ...]
    label: tuple[str, ...]
    shape: Shape
    element: KeyType
    owner: int | None = None
    owners: Map | None = None
    kind: int | None = None
    """Its number among the parts of its path, where there are several: labels of each say the same of other bags."""


@dataclass(frozen=True)
class Answered:
    """Rows that a stratum answers, told when they are read."""

    stratum: str


@dataclass(frozen=True)
class Stored:
    """Rows that are the key of a map; those of an answer, if only Spark could tell them when they are read."""

    map: Map
    answer: bool = False


@dataclass(frozen=True)
class Nested:
    """Nested rows, put together from flat parts."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class View:
    """A view: where its rows are, the strategy that it is kept by, and the maps that count what fails among its rows."""

    name: str
    type: RecordType
    strategy: str
    rows: Answered | Stored | Nested
    checks: tuple[str, ...] = ()
    form: str = ""
    """Flat, nested or whole, and why (`nested/form.py`)."""
    passes: tuple[tuple[str, str], ...] = ()
    """What was rewritten, and by which pass (`passes.py`), in the order in which it was."""

    @property
    def maps(self) -> list[Map]:
        """The maps of its own that a view is read from."""
        match self.rows:
            case Stored(map=m):
                return [m]
            case Nested(parts):
                return [m for p in parts for m in (p.map, p.owners) if m is not None]
            case _:
                return []

    @property
    def parts(self) -> tuple[Part, ...]:
        """The flat parts of nested rows; flat rows have none."""
        return self.rows.parts if isinstance(self.rows, Nested) else ()

    @property
    def stratum(self) -> str | None:
        """The stratum that answers it, if its rows are not stored."""
        return self.rows.stratum if isinstance(self.rows, Answered) else None


def keeps_answer(view: View) -> bool:
    """Whether the rows of an answer are stored, which would otherwise be told when they are read."""
    return isinstance(view.rows, Stored) and view.rows.answer


@dataclass
class Relations:
    """What is known of the relations that maps read: their rows, their stratum's level, and whether they never change."""

    rows: dict[str, RecordType] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    static: set[str] = field(default_factory=set)


@dataclass
class Program:
    """All relations, maps, strata and views of a database, and how each map is kept.

    `kept` is in the order in which maps can be filled: each after those that it is computed from. `answers` of strata,
    and maps that are recomputed, are in `maps` only.
    """

    maps: dict[str, Map] = field(default_factory=dict)
    strata: dict[str, Stratum] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    checks: dict[str, Map] = field(default_factory=dict)
    """Maps that count rows which are errors: an increment after which one is not zero fails."""
    relations: Relations = field(default_factory=Relations)
    kept: dict[str, Kept] = field(default_factory=dict)
    loops: dict[str, Loop] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What is known of it as a whole, computed once (`routes.py`)."""

    def copy(self) -> Program:
        """The same to add to; what it is made of is shared."""
        r = self.relations
        return Program(
            dict(self.maps),
            dict(self.strata),
            dict(self.views),
            dict(self.checks),
            Relations(dict(r.rows), dict(r.levels), set(r.static)),
            dict(self.kept),
            dict(self.loops),
        )

    def statements(self, m: Map, changed: Collection[str]) -> tuple[Statement, ...]:
        """How the changes of some relations change a map, if one changes or all are read at the version before."""
        kept, names = self.kept.get(m.name), set(changed).intersection(m.reads)
        if kept is None or not names:
            return ()
        if len(names) == 1:
            return kept.changes.get(names.pop(), ())
        assert kept.at_once is not None, m.name
        return tuple(s for s in kept.at_once if s.needs <= names)

    def inside(self) -> dict[str, Loop]:
        """The loops that strata are answered in and maps move in, by the names of both."""
        out = {n: loop for loop in self.loops.values() for n in (*loop.relations, *loop.maps)}
        strata = [(self.strata[n], loop) for n, loop in out.items() if n in self.strata]
        return {**out, **{m.name: loop for s, loop in strata for m in s.maps}}

    def around(self, loop: Loop) -> set[str]:
        """The relations that a loop reads from outside."""
        return {r for n in loop.maps for r in self.maps[n].reads}.difference(loop.relations)

    def looked_up(self) -> set[str]:
        """The maps that statements of single changes look up."""
        changes = [s for k in self.kept.values() for found in k.changes.values() for s in found]
        return {name for s in changes for name in s.reads}
