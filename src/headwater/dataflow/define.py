"""Definitions of stages, checked: inputs that are there, columns that they have, a signature that fits.

`stage_of` makes a `Stage`, which has everything that an epoch needs, from the words that a user gave and the rows of what
there is to read. What a stage is, but for its functions, is plain data (`Stage.described`), stored and compared.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from headwater.calculus.types import (
    BIGINT,
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Boxed,
    KeyType,
    ListType,
    RecordType,
)
from headwater.dataflow import words
from headwater.dataflow.keeping import WORDS, Kept
from headwater.dataflow.runnable import all_inputs, own
from headwater.dataflow.signature import taken
from headwater.dataflow.words import ALL, Combine, Framing, Lookup, Reads, Route, Runnable
from headwater.errors import HeadwaterError, StageError
from headwater.interop.arrow_types import arrow_type
from headwater.language.declared import ddl_of
from headwater.language.schema import columns

FORMS = ("rows", "arrow", "pandas")
TIMES = (TIMESTAMP, TIMESTAMP_NTZ, DATE, BIGINT)
RESERVED = frozenset(("_w", "_frame", "_g", "_h", "_i"))


@dataclass(frozen=True)
class By:
    """How rows of an input are sent to groups: by columns, by a function, or to all."""

    kind: Literal["columns", "route", "all"]
    columns: tuple[str, ...] = ()
    f: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Input:
    """An input of a stage, as it is read."""

    name: str
    row: RecordType
    by: By | None
    order_by: tuple[str, ...] = ()
    framing: Framing | None = None
    take: int | Literal["all"] = 1
    changes: bool = False
    combine: Combine | None = None
    start: Literal["all", "new"] = "all"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(n for n, _ in self.row.fields)


@dataclass(frozen=True)
class Part:
    """A part of a stage's state, with its types."""

    kept: Kept
    key: RecordType
    row: RecordType
    expires: timedelta | None = None


@dataclass(frozen=True)
class Stage:
    """A stage: everything that an epoch of it needs."""

    name: str
    f: Callable[..., Any]
    inputs: tuple[Input, ...]
    outputs: Mapping[str, RecordType]
    key: RecordType | None = None
    """The columns of a group's key; None for a stage that takes row by row."""
    state: tuple[Part, ...] = ()
    form: str = "rows"
    whole: bool = False
    groups: Literal["touched", "all"] = "touched"
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    runnable: Runnable = field(default_factory=all_inputs)
    clock: str | None = None
    remember: bool = False
    retain: bool | None = None
    on_error: Literal["hold", "set aside"] = "hold"
    changed: Literal["refuse", "keep", "replay"] = "refuse"
    takes: frozenset[str] = frozenset()
    """What the function is given by name: `state`, `epoch`, look-ups."""

    @property
    def row_wise(self) -> bool:
        return self.key is None

    @property
    def kept(self) -> tuple[Kept, ...]:
        return tuple(p.kept for p in self.state)

    @cached_property
    def single(self) -> str | None:
        """The one output, where there is one."""
        return next(iter(self.outputs)) if len(self.outputs) == 1 else None

    def described(self) -> dict[str, Any]:
        """What the stage is, as plain data; of functions only that they are there."""
        return {
            "inputs": [_input_data(i) for i in self.inputs],
            "outputs": {n: ddl_of(r) for n, r in self.outputs.items()},
            "key": None if self.key is None else ddl_of(self.key),
            "state": [_part_data(p) for p in self.state],
            "form": self.form,
            "whole": self.whole,
            "groups": self.groups,
            "lookups": {n: [k.what, k.on and [*map(list, k.on)]] for n, k in self.lookups.items()},
            "runnable": self.runnable.told,
            "clock": self.clock,
            "remember": self.remember,
        }

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions of the stage that a user wrote, by what they are for."""
        out: dict[str, Callable[..., Any]] = {"function": self.f}
        for i in self.inputs:
            if i.by is not None and i.by.f is not None:
                out[f"route of {i.name}"] = i.by.f
            if i.framing is not None and inspect.isfunction(i.framing.key):
                out[f"framing of {i.name}"] = i.framing.key
            if i.combine is not None and i.combine.f is not None:
                out[f"combiner of {i.name}"] = i.combine.f
        if inspect.isfunction(self.runnable.f) and not self.runnable.f.__module__.startswith(
            "headwater."
        ):
            out["runnable"] = self.runnable.f
        return out


def _input_data(i: Input) -> dict[str, Any]:
    by = None if i.by is None else [i.by.kind, list(i.by.columns)]
    combine = None if i.combine is None else [i.combine.kind, list(i.combine.columns)]
    return {
        "name": i.name,
        "row": ddl_of(i.row),
        "by": by,
        "order_by": list(i.order_by),
        "framing": i.framing.told if i.framing else None,
        "take": i.take,
        "changes": i.changes,
        "combine": combine,
    }


def _part_data(p: Part) -> dict[str, Any]:
    return {
        "name": p.kept.name,
        "kind": p.kept.kind,
        "key": ddl_of(p.key),
        "row": ddl_of(p.row),
        "order_by": list(p.kept.order),
        "only": list(p.kept.only),
        "expires": None if p.expires is None else p.expires.total_seconds(),
    }


@dataclass(frozen=True)
class Readable:
    """Something that a stage may read: its rows, whether it is a view, and whether it is kept to be looked at."""

    row: RecordType
    view: bool = False
    retained: bool = True


def stage_of(
    f: Callable[..., Any],
    inputs: tuple[Any, ...],
    known: Mapping[str, Readable],
    *,
    out: Any,
    name: str | None = None,
    by: Any = None,
    order_by: Any = None,
    state: Any = None,
    form: str = "rows",
    whole: bool = False,
    groups: Any = "touched",
    lookups: Mapping[str, Any] | None = None,
    runnable: Any = None,
    clock: str | None = None,
    remember: bool = False,
    retain: bool | None = None,
    on_error: Any = "hold",
    changed: Any = "refuse",
) -> Stage:
    """A stage, checked; StageError says what is wrong with it. `known` is all that there is to read, by name."""
    name = str(name or getattr(f, "__name__", ""))
    check = _Check(name, known)
    if not callable(f):
        raise check.wrong("is no function", "give a function, or use db.stage as a decorator")
    if not name.isidentifier():
        raise check.wrong("has no name", "write it with def, or give name=")
    if not inputs:
        raise check.wrong("reads nothing", 'name its inputs: db.stage("orders", out=...)')
    check.one_of("form", form, FORMS)
    check.one_of("groups", groups, ("touched", "all"))
    check.one_of("on_error", on_error, ("hold", "set aside"))
    check.one_of("changed", changed, ("refuse", "keep", "replay"))
    read = [i if isinstance(i, Reads) else check.said(words.reads, i) for i in inputs]
    order = check.said(words.columns_of, order_by)
    made = tuple(check.input(r, by, order) for r in read)
    if len({i.name for i in made}) < len(made):
        raise check.wrong("reads an input twice", "read it once, and look at its rows twice")
    key = check.key(made)
    outputs = check.outputs(out)
    parts = check.state(state, made)
    looked = {n: check.lookup(n, k, made, key) for n, k in (lookups or {}).items()}
    runs = check.runnable(runnable, made)
    stage = Stage(
        name,
        f,
        made,
        outputs,
        key,
        parts,
        form,
        whole,
        groups,
        looked,
        runs,
        clock,
        remember,
        retain,
        on_error,
        changed,
    )
    check.fits(stage)
    shape = ["row"] if stage.row_wise else ["key", *(i.name for i in made)]
    needed = (*looked, *(["state"] if parts else []))
    takes = taken(f, shape, needed, check.wrong)
    return replace(stage, takes=takes)


class _Check:
    """The checks of one stage, which name it."""

    def __init__(self, stage: str, known: Mapping[str, Readable]):
        self.stage, self.known = stage, known

    def wrong(self, what: str, hint: str) -> StageError:
        return StageError(f"the stage `{self.stage}` {what}", hint=hint)

    def said(self, word: Callable[[Any], Any], given: Any) -> Any:
        """What a word makes of what was given; what it refuses is said of the stage."""
        try:
            return word(given)
        except StageError as e:
            raise StageError(f"of the stage `{self.stage}`: {e.what}", hint=e.hint) from e

    def one_of(self, what: str, given: Any, allowed: tuple[str, ...]) -> None:
        if given not in allowed:
            raise self.wrong(f"has {what}={given!r}", f"one of {', '.join(map(repr, allowed))}")

    def readable(self, what: str) -> Readable:
        found = self.known.get(what)
        if found is None:
            there = ", ".join(self.known) or "none"
            raise self.wrong(f"reads `{what}`, which is unknown", f"there are: {there}")
        return found

    def ddl(self, what: str, ddl: Any) -> RecordType:
        if not isinstance(ddl, str):
            raise self.wrong(
                f"has {what} of type {type(ddl).__name__}", "give DDL: 'site STRING, n BIGINT'"
            )
        try:
            return columns(ddl) if ddl.strip() else RecordType(())
        except HeadwaterError as e:
            raise self.wrong(f"has {what} that cannot be read: {e.what}", e.hint or "") from e

    def has(self, row: RecordType, names: tuple[str, ...], what: str) -> None:
        there = [n for n, _ in row.fields]
        for n in names:
            if n not in there:
                raise self.wrong(
                    f"{what} `{n}`, which is no column", f"columns: {', '.join(there)}"
                )

    def comparable(self, row: RecordType, names: tuple[str, ...], what: str) -> None:
        for n, t in row.fields:
            if n in names and isinstance(t, (Boxed, ListType, RecordType)):
                raise self.wrong(f"{what} `{n}`, whose values have no order", "take another column")

    def input(self, r: Reads, by: Any, order: tuple[str, ...]) -> Input:
        read = self.readable(r.what)
        row, by = read.row, r.by if r.by is not None else by
        order = r.order_by or order
        self.has(row, order, f"sorts `{r.what}` by")
        self.comparable(row, order, f"sorts `{r.what}` by")
        made: By | None
        match by:
            case None:
                made = None
            case Route(f, _):
                made = By("route", (), f)
            case _ if by is ALL:
                made = By("all")
            case _:
                names = self.said(words.columns_of, by)
                self.has(row, names, f"groups `{r.what}` by")
                self.comparable(row, names, f"groups `{r.what}` by")
                made = By("columns", names)
        if r.framing is not None:
            self.has(row, r.framing.order, f"frames `{r.what}` by")
            self.comparable(row, r.framing.order, f"frames `{r.what}` by")
        if r.combine is not None:
            self.has(row, r.combine.columns, f"combines `{r.what}` over")
            if made is None:
                raise self.wrong(
                    "combines rows and has no groups", "give by=, or leave combine out"
                )
        self._routes = getattr(self, "_routes", {}) | {r.what: by}
        return Input(r.what, row, made, order, r.framing, r.take, r.changes, r.combine, r.start)

    def key(self, inputs: tuple[Input, ...]) -> RecordType | None:
        """The columns of the key, which all inputs that name one must agree on."""
        grouped = [i for i in inputs if i.by is not None]
        if not grouped:
            if len(inputs) > 1:
                raise self.wrong(
                    "has several inputs and no groups", "give by=; by=() is one group of all rows"
                )
            return None
        if len(grouped) < len(inputs):
            lacking = next(i.name for i in inputs if i.by is None)
            raise self.wrong(f"does not say how `{lacking}` is grouped", "give it by=, too")
        found: list[tuple[str, RecordType]] = []
        for i in grouped:
            assert i.by is not None
            if i.by.kind == "route":
                row = self.ddl("the key of a route", self._routes[i.name].ddl)
                self.comparable(row, tuple(n for n, _ in row.fields), f"routes `{i.name}` to")
                found.append((i.name, row))
            elif i.by.kind == "columns":
                types = dict(i.row.fields)
                found.append((i.name, RecordType(tuple((n, types[n]) for n in i.by.columns))))
        if not found:
            raise self.wrong(
                "sends all its rows to all groups", "one input must say which there are"
            )
        first = found[0][1]
        for other, row in found[1:]:
            if [t for _, t in row.fields] != [t for _, t in first.fields]:
                raise self.wrong(
                    f"groups `{found[0][0]}` by ({ddl_of(first)}) and `{other}` by ({ddl_of(row)})",
                    "keys of all inputs must have the same types",
                )
        return first

    def outputs(self, out: Any) -> dict[str, RecordType]:
        given = out if isinstance(out, Mapping) else {self.stage: out}
        made = {}
        for name, ddl in given.items():
            if hasattr(ddl, "name") and hasattr(ddl, "row"):  # a flow that was declared
                name, row = ddl.name, ddl.row
            else:
                row = self.ddl(f"the output `{name}`", ddl)
            if not str(name).isidentifier():
                raise self.wrong(f"calls an output `{name}`", "give it a name like `links`")
            if not row.fields:
                raise self.wrong(f"has an output `{name}` without columns", "name its columns")
            taken = [n for n, _ in row.fields if n in RESERVED]
            if taken:
                raise self.wrong(f"calls a column `{taken[0]}`", "that name has a meaning already")
            made[name] = row
        if not made:
            raise self.wrong("has no output", "give out=")
        return made

    def state(self, given: Any, inputs: tuple[Input, ...]) -> tuple[Part, ...]:
        if given is None:
            return ()
        if isinstance(given, Mapping):
            bad = next((n for n in given if n in WORDS or not str(n).isidentifier()), None)
            if bad is not None:
                raise self.wrong(f"calls a part of its state `{bad}`", "take another name")
            return tuple(self.part(n, p, inputs) for n, p in given.items())
        return (self.part("", given, inputs),)

    def part(self, name: str, given: Any, inputs: tuple[Input, ...]) -> Part:
        if isinstance(given, str):
            given = words.record(given)
        if not isinstance(given, (words.Record, words.Bag)):
            raise self.wrong(f"has {given!r} as state", "give DDL, flow.record or flow.bag")
        row = self.ddl("state", given.ddl)
        names = tuple(n for n, _ in row.fields)
        reserved = RESERVED | (WORDS if not name else {"clear"})
        taken = [n for n in names if n in reserved or n.startswith("_")]
        if taken:
            raise self.wrong(f"calls a column of its state `{taken[0]}`", "take another name")
        if isinstance(given, words.Bag):
            self.has(row, given.order_by, "sorts its state by")
            self.comparable(row, given.order_by, "sorts its state by")
            return Part(Kept(name, "bag", names, (), given.order_by), RecordType(()), row)
        key = RecordType(()) if given.key is None else self.ddl("the key of state", given.key)
        both = RecordType((*key.fields, *row.fields))
        self.has(both, given.order_by, "sorts its state by")
        self.comparable(both, given.order_by, "sorts its state by")
        if given.only and not key.fields:
            raise self.wrong("has state with `only` and no key", "give key=, or leave only= out")
        if given.only and len(given.only) != len(key.fields):
            raise self.wrong(
                "names entries of its state by other columns than its key has", "one for each"
            )
        if given.only and not any(set(given.only) <= set(i.columns) for i in inputs):
            raise self.wrong(
                f"names entries of its state by {', '.join(given.only)}, which no input has",
                "name columns of an input",
            )
        for i in inputs if given.only else ():
            types = dict(i.row.fields)
            for n, (k, t) in zip(given.only, key.fields, strict=True):
                if set(given.only) <= set(i.columns) and types[n] != t:
                    raise self.wrong(
                        f"names entries of its state by `{n}` of `{i.name}`, which is {types[n]}, and their `{k}` is {t}",
                        "compare columns of one type",
                    )
        if given.expires is not None and not isinstance(given.expires, timedelta):
            raise self.wrong(f"has state with expires={given.expires!r}", "give a timedelta")
        kind = "records" if key.fields else "record"
        keys = tuple(n for n, _ in key.fields)
        kept = Kept(name, kind, names, keys, given.order_by, given.only)
        return Part(kept, key, row, given.expires)

    def lookup(
        self, name: str, given: Any, inputs: tuple[Input, ...], key: RecordType | None
    ) -> Lookup:
        if name in ("state", "epoch") or not str(name).isidentifier():
            raise self.wrong(f"calls a look-up `{name}`", "take another name")
        made = given if isinstance(given, Lookup) else self.said(words.lookup, given)
        read = self.readable(made.what)
        if not read.retained:
            raise self.wrong(f"looks `{made.what}` up, which is not kept", "give it retain=True")
        if made.on is not None:
            ours = key if key is not None else inputs[0].row
            self.has(ours, tuple(a for a, _ in made.on), f"looks `{made.what}` up by")
            self.has(read.row, tuple(b for _, b in made.on), f"looks `{made.what}` up at")
            mine, theirs = dict(ours.fields), dict(read.row.fields)
            for a, b in made.on:
                if mine[a] != theirs[b]:
                    raise self.wrong(
                        f"looks `{made.what}` up at `{b}`, which is {theirs[b]}, by `{a}`, which is {mine[a]}",
                        "compare columns of one type",
                    )
        return made

    def runnable(self, given: Any, inputs: tuple[Input, ...]) -> Runnable:
        made = all_inputs() if given is None else given
        if not isinstance(made, Runnable):
            if not callable(made):
                raise self.wrong(f"has runnable={given!r}", "give flow.any_input(), or a function")
            made = own(made)
        names = {i.name for i in inputs}
        lacking = next((n for n in made.inputs if n not in names), None)
        if lacking is not None:
            raise self.wrong(
                f"has {made.told}, and `{lacking}` is no input", f"inputs: {', '.join(names)}"
            )
        if made.told == "same_frame()" and not all(i.framing for i in inputs):
            lacking = next(i.name for i in inputs if not i.framing)
            raise self.wrong(
                f"has same_frame(), and `{lacking}` is not framed",
                "give it framing=flow.daily(...)",
            )
        return made

    def fits(self, s: Stage) -> None:
        """What goes with what."""
        if s.row_wise and s.state:
            raise self.wrong("has state and no groups", "give by=; by=() is one group of all rows")
        if s.row_wise and s.inputs[0].changes:
            raise self.wrong(
                "takes row by row, and reads changes",
                "leave changes= out: what is deleted in front of it is deleted behind it",
            )
        if s.row_wise and s.whole:
            raise self.wrong("is whole and has no groups", "give by=")
        if s.whole and s.state:
            raise self.wrong(
                "is whole and has state", "a whole stage sees all rows of a group each time"
            )
        if s.whole and any(i.combine or i.framing for i in s.inputs):
            raise self.wrong(
                "is whole, and combines or frames", "it sees all rows of a group each time"
            )
        if s.whole and any(i.by is not None and i.by.kind == "all" for i in s.inputs):
            raise self.wrong(
                "is whole, and sends rows to all groups", "route them, or look them up"
            )
        if s.remember and not s.row_wise:
            raise self.wrong(
                "remembers and has groups", "a stage row by row remembers what rows gave"
            )
        if s.remember and s.form != "rows":
            raise self.wrong(f"remembers, in the form {s.form}", "leave form= out")
        if any(
            i.changes and i.combine and i.combine.kind in ("least", "greatest") for i in s.inputs
        ):
            raise self.wrong("has the least or greatest of changes", "a deletion has no part in it")
        if s.groups == "all" and not s.state:
            raise self.wrong(
                'has groups="all" and no state', "groups of the past are those with state"
            )
        if s.form != "rows" and (s.clock or any(p.kept.kind != "record" for p in s.state)):
            raise self.wrong(
                f"has the form {s.form} with a clock, records by key or bags",
                'form="rows" has these',
            )
        if s.form != "rows" and len(s.state) > 1:
            raise self.wrong(f"has the form {s.form} and several parts of state", "keep one record")
        if s.clock is not None:
            self.clock(s)
        if any(p.expires for p in s.state) and s.clock is None:
            raise self.wrong("has state that expires and no clock", "give clock=, a column of time")
        if any(p.expires for p in s.state) and BIGINT in self.clocks(s):
            raise self.wrong(
                f"has state that expires, and its clock `{s.clock}` is a number",
                "name a column of time",
            )
        for i in s.inputs:
            if self.known[i.name].view and s.state and not i.changes:
                raise self.wrong(
                    f"has state and reads the view `{i.name}`, whose rows may go again",
                    f'read it with flow.reads("{i.name}", changes=True)',
                )

    def clock(self, s: Stage) -> None:
        if s.row_wise:
            raise self.wrong("has a clock and no groups", "give by=")
        types = self.clocks(s)
        if not types:
            raise self.wrong(
                f"has the clock `{s.clock}`, which no input has", "name a column of time"
            )
        if len(types) > 1 or not types <= set(TIMES):
            raise self.wrong(
                f"has the clock `{s.clock}`, which is no time", "name a column of time"
            )

    def clocks(self, s: Stage) -> set[KeyType]:
        return {t for i in s.inputs for n, t in i.row.fields if n == s.clock}


def arrow_schema(row: RecordType) -> pa.Schema:
    """The columns of a row as Arrow."""
    return pa.schema([(n, arrow_type(t)) for n, t in row.fields])
