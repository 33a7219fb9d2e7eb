"""One call of a stage's function: what it is given, and what it gives, row by row.

A function gives a row (a tuple, after whose columns a weight may follow, or a dict), any number of them, or None; with
several outputs pairs of an output's name and a row. A `Punctuation` may stand where a row may. What does not fit is said
with the stage and the output.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from headwater.dataflow.define import Stage
from headwater.dataflow.rows import frozen
from headwater.dataflow.words import Punctuation
from headwater.errors import HeadwaterError, StageError

Given = tuple[str, tuple[Any, ...], int]
"""A row that a function gave: for which output, its values, its weight."""


@dataclass(frozen=True)
class Epoch:
    """What a function may know of the epoch that it is called in: its number, chance that is the same when it is repeated."""

    stage: str
    number: int
    key: Any = None

    @cached_property
    def random(self) -> random.Random:
        """Random numbers that are the same whenever this group of this epoch is computed again."""
        return random.Random(f"{self.stage} {self.number} {self.key!r}")

    @cached_property
    def time(self) -> datetime:
        """The time now."""
        return datetime.now(UTC)


class Failed(Exception):
    """A call that failed: the group's key, the first row that it saw, and why."""

    def __init__(self, why: BaseException, key: Any = None, row: Any = None):
        super().__init__(why)
        self.why, self.key, self.row = why, key, row

    @property
    def told(self) -> str:
        """The error in a line."""
        if isinstance(self.why, HeadwaterError):
            return self.why.what
        text = str(self.why).splitlines()
        return f"{type(self.why).__name__}: {text[0] if text else ''}".rstrip(": ")


def given_by(stage: Stage, result: Any, punctuations: dict[str, Any]) -> Iterator[Given]:
    """The rows that a function gave; punctuations are noted by output."""
    if result is None:
        return
    for item in _items(stage, result):
        output, row = (stage.single, item) if stage.single else _pair(stage, item)
        if row is None:
            continue
        assert output is not None
        if isinstance(row, Punctuation):
            before = punctuations.get(output)
            if before is None or row.key > before:
                punctuations[output] = row.key
            continue
        yield output, *shaped(stage, output, row)


def _items(stage: Stage, result: Any) -> Iterable[Any]:
    """One thing, or several: a tuple is a row, and with several outputs a pair."""
    if isinstance(result, (tuple, Mapping, Punctuation)):
        return (result,)
    if isinstance(result, (str, bytes)) or not isinstance(result, Iterable):
        raise StageError(
            f"`{stage.name}` gave {result!r}, which is no row",
            hint="give a tuple or a dict, several of them in a list or by yield, or None",
        )
    return result


def _pair(stage: Stage, item: Any) -> tuple[str, Any]:
    if not (isinstance(item, tuple) and len(item) == 2 and item[0] in stage.outputs):
        raise StageError(
            f"`{stage.name}` gave {item!r}, and it has several outputs",
            hint=f"give pairs: ({next(iter(stage.outputs))!r}, row); outputs: {', '.join(stage.outputs)}",
        )
    return item


def shaped(stage: Stage, output: str, row: Any) -> tuple[tuple[Any, ...], int]:
    """The values of a row, in the order of its columns, and its weight."""
    names = [n for n, _ in stage.outputs[output].fields]
    if isinstance(row, Mapping):
        lacking = [n for n in names if n not in row]
        extra = [n for n in row if n not in names and n != "_w"]
        if lacking or extra:
            what = f"has no `{lacking[0]}`" if lacking else f"has a column `{extra[0]}` too many"
            raise _unfit(stage, output, row, what)
        return tuple(row[n] for n in names), _weight(stage, output, row.get("_w", 1))
    if not isinstance(row, (tuple, list)):
        raise _unfit(stage, output, row, "is no row")
    if len(row) == len(names):
        return tuple(row), 1
    if len(row) == len(names) + 1:
        return tuple(row[:-1]), _weight(stage, output, row[-1])
    raise _unfit(stage, output, row, f"has {len(row)} values")


def _weight(stage: Stage, output: str, weight: Any) -> int:
    if type(weight) is not int:
        raise StageError(
            f"`{stage.name}` gave a row of `{output}` the weight {weight!r}",
            hint="a weight is a whole number: how often the row comes, or goes where it is negative",
        )
    return weight


def _unfit(stage: Stage, output: str, row: Any, what: str) -> StageError:
    names = ", ".join(n for n, _ in stage.outputs[output].fields)
    return StageError(
        f"a row that `{stage.name}` gave for `{output}` {what}: {row!r}",
        hint=f"columns of `{output}`: {names}; a weight may follow",
    )


def keys_given(stage: Stage, row: Any, given: Any, width: int) -> list[tuple[Any, ...]]:
    """The keys that a route gave for a row: one, several, or none; `ALL` is seen by the caller."""
    found = given if isinstance(given, (list, set, frozenset)) else [given]
    out = []
    for key in found:
        if key is None:
            continue
        whole = key if width != 1 and isinstance(key, tuple) else (key,)
        if len(whole) != width:
            raise StageError(
                f"a route of `{stage.name}` gave {key!r} for the row {tuple(row)!r}",
                hint=f"a key has {width} values; give a key, a list of keys, None or flow.ALL",
            )
        out.append(tuple(whole))
    return out


def combined(stage: Stage, name: str, rows: Sequence[Any], made: type) -> list[Any]:
    """The rows of a group after its combiner."""
    given = next(i for i in stage.inputs if i.name == name)
    combine = given.combine
    if combine is None or not rows:
        return list(rows)
    if combine.f is not None:
        out = combine.f(list(rows))
        result = list(out) if isinstance(out, Iterable) and not isinstance(out, tuple) else [out]
        for r in result:
            if not isinstance(r, (tuple, list)) or len(r) != len(rows[0]):
                raise StageError(
                    f"the combiner of `{name}` in `{stage.name}` gave {r!r}",
                    hint=f"rows must keep their columns: {', '.join(given.columns)}",
                )
        return [made(r) for r in result]
    places = [given.columns.index(c) for c in combine.columns]
    weighted = given.changes
    best: dict[Any, list[Any]] = {}
    for r in rows:
        rest = frozen([v for i, v in enumerate(r[: len(given.columns)]) if i not in places])
        held = best.get(rest)
        if combine.kind == "sums":
            weight = r[-1] if weighted else 1
            values = [None if r[i] is None else r[i] * weight for i in places]
        else:
            values = [r[i] for i in places]
        if held is None:
            best[rest] = [list(r), values]
            continue
        for j, v in enumerate(values):
            held[1][j] = _combined(combine.kind, held[1][j], v)
    out = []
    for row, values in best.values():
        for i, v in zip(places, values, strict=True):
            row[i] = v
        if weighted:
            row[-1] = 1
        out.append(made(row))
    return out


def _combined(kind: str, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if kind == "sums":
        return a + b
    return min(a, b) if kind == "least" else max(a, b)
