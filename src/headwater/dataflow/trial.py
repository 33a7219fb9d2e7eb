"""Trials: stages on plain lists, without a database and without Spark, as `flow.trial`.

    @flow.stage("clicks", by="user", state="n BIGINT", out="user STRING, n BIGINT")
    def counted(user, clicks, state):
        state.n = (state.n or 0) + len(clicks)
        return user, state.n

    seen = flow.trial([counted], {"clicks": [[("ann",)], [("ann",), ("bob",)]]}, {"clicks": "user STRING"})
    seen.increments("counted")    # [[("ann", 1)], [("ann", 2), ("bob", 1)]]

A trial is the meaning of a graph: a database that runs the same stages has the same flows and the same state.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from headwater.calculus.types import RecordType
from headwater.dataflow.calling import Failed
from headwater.dataflow.define import Readable, Stage, stage_of
from headwater.dataflow.meaning import Meaning
from headwater.dataflow.node import typed
from headwater.dataflow.rows import frozen, row_class, sort_key
from headwater.dataflow.unread import Bag, added
from headwater.dataflow.words import Reads, name_of, reads
from headwater.errors import StageError, StageFailed
from headwater.language.schema import columns

_DEFINED: WeakKeyDictionary[Callable[..., Any], tuple[tuple[Any, ...], Mapping[str, Any]]] = (
    WeakKeyDictionary()
)
"""The definitions of functions: what they read, and the other words. They are beside the functions, for a function goes to
tasks with all that hangs on it, and hold neither the function nor a database, so that both can go."""


def defined(f: Any) -> Given | None:
    """The definition of a function, if it has one."""
    try:
        found = _DEFINED.get(f)
    except TypeError:  # of something that is no function
        return None
    return None if found is None else Given(f, *found)


def note(f: Callable[..., Any], given: Given) -> None:
    """Notes the definition of a function."""
    inputs = tuple(i if isinstance(i, Reads) else reads(i) for i in given.inputs)
    out = given.words.get("out")
    words = dict(given.words)
    if isinstance(out, Mapping):
        words["out"] = {n: _plain(o) for n, o in out.items()}
    elif out is not None:
        words["out"] = _plain(out)
    _DEFINED[f] = inputs, words


def _plain(out: Any) -> Any:
    """An output without the database that a handle of a flow is of."""
    handle = not isinstance(out, Flow) and hasattr(out, "name") and hasattr(out, "row")
    return Flow(out.name, out.row) if handle else out


WORDS = tuple(
    p for p in inspect.signature(stage_of).parameters if p not in ("f", "inputs", "known")
)
"""What may be said of a stage beside its inputs."""


@dataclass(frozen=True)
class Given:
    """A definition as a user gave it, not yet checked against inputs."""

    f: Callable[..., Any]
    inputs: tuple[Any, ...]
    words: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.words.get("name") or self.f.__name__)

    def checked(self, known: Mapping[str, Readable]) -> Stage:
        """The stage, checked against what there is to read."""
        return stage_of(self.f, self.inputs, known, **self.words)


def stage(*inputs: Any, **words: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Defines a stage for a trial, or for `db.stage(f)` later, in the words of `db.stage`; the function stays callable."""
    unknown = next((w for w in words if w not in WORDS), None)
    if unknown is not None:
        raise StageError(
            f"`{unknown}=` is no word of a stage", hint=f"there are: {', '.join(WORDS)}"
        )

    def define(f: Callable[..., Any]) -> Callable[..., Any]:
        note(f, Given(f, inputs, words))
        return f

    return define


@dataclass(frozen=True)
class Flow:
    """A flow that is declared before the stage that writes it: every cycle has one."""

    name: str
    row: RecordType


def declared_flow(name: str, ddl: str) -> Flow:
    """A flow for a trial, as `db.flow` declares one in a database."""
    return Flow(name, columns(ddl))


class Trial:
    """What became of a trial: flows, state, and who ran."""

    def __init__(self, meaning: Meaning, ran: list[str], rows: Mapping[str, RecordType]):
        self.meaning, self.ran, self._rows = meaning, ran, rows

    def increments(self, name: str) -> list[list[Any]]:
        """The increments of a flow, in order, each with its rows repeated and sorted; deletions have a weight."""
        return [_shown(self._rows[name], b) for b in self.meaning.sent.get(name, [])]

    def rows(self, name: str) -> list[Any]:
        """What all increments of a flow add up to."""
        return _shown(self._rows[name], added(*self.meaning.sent.get(name, [])))

    def state(self, stage: str, *key: Any) -> dict[str, dict[Any, Any]]:
        """The state of a group, by part and entry."""
        held = self.meaning.nodes[stage].state
        return {n: dict(g.get(frozen(key), {})) for n, g in held.items()}

    @property
    def waiting(self) -> dict[str, dict[str, int]]:
        """How many complete frames wait, by stage and input."""
        nodes = self.meaning.nodes
        return {n: {i: len(w) for i, w in self.meaning.waiting(n).items()} for n in nodes}


def _shown(row: RecordType, bag: Bag) -> list[Any]:
    made = row_class(tuple(n for n, _ in row.fields))
    out: list[Any] = []
    for r, n in sorted(bag.items(), key=lambda x: sort_key(x[0])):
        out.extend([made(r)] * n if n > 0 else [(*r, n)])
    return out


def trial(
    stages: Sequence[Any],
    rows: Mapping[str, Sequence[Any]],
    schemas: Mapping[str, str] | None = None,
    *,
    state: Mapping[str, Mapping[Any, Any]] | None = None,
    flows: Sequence[Any] = (),
    epochs: int | None = None,
    zone: str = "UTC",
) -> Trial:
    """Runs stages on plain lists: `rows` has for each input a list of increments, each a list of rows (a weight may follow).

    `stages` are functions with a definition (`flow.stage`, `db.stage`); `schemas` are the columns of inputs that no stage
    gives; `state` begins with records, as `{"stage": {key: (values)}}`. StageFailed if a function fails.
    """
    given = [_definition(s) for s in stages]
    known = {n: Readable(columns(d)) for n, d in (schemas or {}).items()}
    for f in flows:
        known[f.name] = Readable(f.row)
    for s in given:
        if isinstance(s, Stage):
            known |= {i.name: Readable(i.row) for i in s.inputs if i.name not in known}
    made: list[Stage] = []
    for s in _in_order(given, known):
        found = s if isinstance(s, Stage) else s.checked(known)
        declared = {f.name for f in flows} - {o for m in made for o in m.outputs}
        for taken in [n for n in found.outputs if n in known and n not in declared]:
            writer = next((m.name for m in made if taken in m.outputs), None)
            raise StageError(
                f"the stage `{found.name}` gives `{taken}`, which is "
                + (f"given by the stage `{writer}`" if writer else "the name of an input"),
                hint="take another name",
            )
        known |= {n: Readable(r) for n, r in found.outputs.items()}
        made.append(found)
    written = {o for s in made for o in s.outputs}
    inputs = {n: r.row for n, r in known.items() if n not in written and n in rows}
    looked = {k.what for s in made for k in s.lookups.values()}
    inputs |= {n: known[n].row for n in looked}
    meaning = Meaning(made, inputs, [f.name for f in flows], zone=zone)
    for name, groups in (state or {}).items():
        meaning.nodes[name].state[""] = {
            frozen(k if isinstance(k, tuple) else (k,)): {(): tuple(v)} for k, v in groups.items()
        }
    ran: list[str] = []
    count = max((len(_increments(r)) for r in rows.values()), default=0)
    for number in range(count):
        change = {}
        for name, increments in rows.items():
            if name not in known:
                raise StageError(
                    f"rows are given for `{name}`, which is unknown", hint="see schemas="
                )
            some = _increments(increments)
            if number < len(some):
                change[name] = bag_of(name, known[name].row, some[number], zone)
        try:
            meaning.give(change)
        except Failed as e:
            raise StageError(e.told, hint="delete rows that were given before") from e
        ran += meaning.run(None if epochs is None else epochs - len(ran))
        for name, node in meaning.nodes.items():
            if node.held is not None:
                raise StageFailed(
                    f"the stage `{name}` failed: {node.held.told}",
                    hint=f"group {node.held.key!r}, first row {node.held.row!r}",
                ) from node.held.why
    return Trial(meaning, ran, {n: r.row for n, r in known.items()})


def _definition(s: Any) -> Given | Stage:
    found = s if isinstance(s, Stage) else defined(s)
    if found is None:
        raise StageError(
            f"{s!r} is no stage", hint="define it with flow.stage(...) or db.stage(...)"
        )
    return found


def _in_order(given: Sequence[Given | Stage], known: Mapping[str, Any]) -> list[Given | Stage]:
    """Stages so that each comes after those that give its inputs; those of cycles read declared flows."""
    left, there, out = list(given), set(known), list[Given | Stage]()
    while left:
        for s in left:
            reads = []
            if isinstance(s, Given):
                looked = (s.words.get("lookups") or {}).values()
                reads = [name_of(getattr(i, "what", i)) for i in (*s.inputs, *looked)]
            if all(r in there for r in reads):
                break
        else:
            s = left[0]  # the check says what is missing
        left.remove(s)
        out.append(s)
        names = s.outputs if isinstance(s, Stage) else s.words.get("out")
        there |= set(names) if isinstance(names, Mapping) else {s.name}
    return out


def _increments(rows: Sequence[Any]) -> list[Any]:
    """A list of increments; a list of rows is one."""
    listed = list(rows)
    if listed and all(isinstance(r, list) for r in listed):
        return listed
    return [listed] if listed else []


def bag_of(name: str, row: RecordType, rows: Sequence[Any], zone: str = "UTC") -> Bag:
    """Rows as users give them, as a bag: tuples, after which a weight may follow."""
    width = len(row.fields)
    values = typed(name, row, [tuple(r[:width]) for r in rows], zone)
    weights = [r[width] if len(r) > width else 1 for r in rows]
    return added(*({frozen(v): w} for v, w in zip(values, weights, strict=True)))
