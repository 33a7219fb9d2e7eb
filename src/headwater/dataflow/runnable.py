"""When a stage runs: functions from what waits on its inputs to what an epoch reads and removes.

A runnable sees of every input the keys of its complete frames, oldest first, and of the frame that still grows; it never
sees rows. It gives a `Run`, or None to wait. Those that wait for given frames whatever else is there make the graph a Kahn
network, whose outcome depends on no schedule; `any_input`, `prefer` and `landmark` do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headwater.dataflow.framing import Cut, Place
from headwater.dataflow.words import Run, Runnable, name_of
from headwater.errors import StageError


@dataclass(frozen=True)
class Waiting:
    """What waits on an input: the keys of its complete frames, and of the open one; without framing a key is None."""

    keys: tuple[Any, ...] = ()
    open: Any = None
    closed: Any = None
    """The greatest key up to which frames are known to be complete."""
    take: int | Literal["all"] = 1
    first: Place | None = None
    """The place of the first complete frame, where it is late."""

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def whole(self) -> int:
        """How many frames an epoch would read: as many as `take` says, none while there are fewer."""
        if self.take == "all":
            return len(self.keys)
        return self.take if len(self.keys) >= self.take else 0

    @property
    def place(self) -> Place:
        """Where the first complete frame stands among those of its input."""
        return (self.keys[0], 1) if self.first is None else self.first

    @property
    def soonest(self) -> Place | None:
        """The least place that a frame may have which is not complete yet; None while nothing is known."""
        if self.open is not None:
            return self.open, 0
        return None if self.closed is None else (self.closed, 2)


def waiting(found: Cut, take: int | Literal["all"]) -> Waiting:
    """What waits on an input that was cut into frames."""
    keys = tuple(f.key for f in found.frames)
    open_ = None if found.open is None else found.open.key
    return Waiting(keys, open_, found.closed, take, found.frames[0].late if keys else None)


Waits = Mapping[str, Waiting]


def _all_inputs(waiting: Waits, small: Any) -> Run | None:
    counts = {n: w.whole for n, w in waiting.items()}
    return Run(counts) if all(counts.values()) else None


def _any_input(waiting: Waits, small: Any) -> Run | None:
    counts = {n: w.whole or len(w) for n, w in waiting.items() if len(w)}
    return Run(counts) if counts else None


def _same_frame(waiting: Waits, small: Any) -> Run | None:
    """The frames of the least place; who has no complete frame must be past it.

    Frames that are late are read alone, in the order of the inputs: another input may have been past their key when they
    came, and whether it was depends on the schedule.
    """
    heads = [(w.place, at) for at, w in enumerate(waiting.values()) if w.keys]
    if not heads:
        return None
    least, first = min(heads)
    late = least[1] != 1
    for at, w in enumerate(waiting.values()):
        if not w.keys and (w.soonest is None or (w.soonest, at) < (least, first)):
            return None
    reads = [first] if late else [at for place, at in heads if place == least]
    return Run({n: 1 for at, n in enumerate(waiting) if at in reads})


@dataclass(frozen=True)
class _InTurn:
    order: tuple[str, ...]

    def __call__(self, waiting: Waits, small: Any) -> Run | None:
        name = self.order[small]
        count = waiting[name].whole
        return Run({name: count}, small=(small + 1) % len(self.order)) if count else None


@dataclass(frozen=True)
class _Prefer:
    first: str
    second: str
    times: int
    most: int

    def __call__(self, waiting: Waits, small: int) -> Run | None:
        a, b = waiting[self.first].whole, waiting[self.second].whole
        behind = len(waiting[self.second]) >= self.most
        if b and (behind or not a or small >= self.times):
            return Run({self.second: b}, small=0)
        return Run({self.first: a}, small=small + 1) if a else None


@dataclass(frozen=True)
class _Sliding:
    over: str
    frames: int

    def __call__(self, waiting: Waits, small: Any) -> Run | None:
        others = {n: w.whole for n, w in waiting.items() if n != self.over}
        if len(waiting[self.over]) < self.frames or not all(others.values()):
            return None
        return Run({self.over: self.frames, **others}, {self.over: 1, **others})


@dataclass(frozen=True)
class _Landmark:
    over: str

    def __call__(self, waiting: Waits, small: int) -> Run | None:
        others = {n: w.whole for n, w in waiting.items() if n != self.over}
        count = len(waiting[self.over])
        if count <= small or not all(others.values()):
            return None
        return Run({self.over: count, **others}, {self.over: 0, **others}, count)


def all_inputs() -> Runnable:
    """Every input has what `take` says: the rule unless another is given."""
    return Runnable(_all_inputs, "all_inputs()", kahn=True)


def any_input() -> Runnable:
    """Some input has something; what there is of each, up to `take`, is read."""
    return Runnable(_any_input, "any_input()")


def same_frame() -> Runnable:
    """The oldest frame, by its key, of all inputs that have it; others must be past it. Joins flows that miss days.

    A frame that is late is read alone: it is joined with nothing, whatever has come meanwhile.
    """
    return Runnable(_same_frame, "same_frame()", kahn=True)


def in_turn(*inputs: Any) -> Runnable:
    """One input after another, and round again."""
    names = tuple(map(name_of, inputs))
    if not names:
        raise StageError("in_turn() names no inputs", hint='in_turn("a", "b")')
    return Runnable(_InTurn(names), f"in_turn({', '.join(names)})", True, 0, names)


def prefer(first: Any, *, to: Any, times: int = 4, most: int = 20) -> Runnable:
    """One input before another: at most `times` epochs in a row while the other waits, and `most` increments behind."""
    if type(times) is not int or type(most) is not int or min(times, most) < 1:
        raise StageError(f"prefer with times={times!r}, most={most!r}", hint="give 1, 2, ...")
    a, b = name_of(first), name_of(to)
    told = f"prefer({a}, to={b}, times={times}, most={most})"
    return Runnable(_Prefer(a, b, times, most), told, False, 0, (a, b))


def sliding(over: Any, *, frames: int) -> Runnable:
    """Windows of so many frames of an input, each a frame further on."""
    if type(frames) is not int or frames < 1:
        raise StageError(f"windows of {frames!r} frames", hint="give 1, 2, ...")
    name = name_of(over)
    return Runnable(_Sliding(name, frames), f"sliding({name}, {frames})", True, None, (name,))


def landmark(over: Any) -> Runnable:
    """All frames of an input since the first, again whenever there is a new one."""
    name = name_of(over)
    return Runnable(_Landmark(name), f"landmark({name})", False, 0, (name,))


def is_kahn(told: str) -> bool:
    """Whether a runnable, by what is said of it in the log, waits for given frames whatever else is there."""
    name, bracket, _ = told.partition("(")
    return bool(bracket) and name in ("all_inputs", "same_frame", "in_turn", "sliding")


def own(f: Callable[[Waits, Any], Run | None], small: Any = None) -> Runnable:
    """A runnable of one's own."""
    return Runnable(f, getattr(f, "__name__", "a function"), False, small)


def decided(runnable: Runnable, waiting: Waits, small: Any) -> Run | None:
    """What a runnable says, with nothing left out: reads, and removes of every input; StageError if it makes no sense."""
    run = runnable.f(waiting, small)
    if run is None:
        return None
    if not isinstance(run, Run):
        raise StageError(
            f"`{runnable.told}` gave {run!r}", hint="a runnable gives flow.Run(reads={...}) or None"
        )
    removes = dict(run.reads if run.removes is None else run.removes)
    for said, counts in (("reads", run.reads), ("removes", removes)):
        for name, n in counts.items():
            if name not in waiting:
                raise StageError(
                    f"`{runnable.told}` {said} `{name}`, which is no input",
                    hint=f"inputs: {', '.join(waiting)}",
                )
            if type(n) is not int or not 0 <= n <= len(waiting[name]):
                raise StageError(
                    f"`{runnable.told}` {said} {n!r} frames of `{name}`, which has {len(waiting[name])}",
                    hint="give a number of frames that wait",
                )
    if not any(run.reads.values()):
        raise StageError(f"`{runnable.told}` reads nothing", hint="give None to wait")
    return Run(dict(run.reads), removes, run.small)
