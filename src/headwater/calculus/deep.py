"""Room for terms that are deeper than Python's stack: a sum of a thousand columns has a thousand levels.

What reads, compiles and evaluates a term calls itself for each level, and Python stops at 1,000 calls. Such functions have no
effects, so they can begin again: `with_room` does so in a thread of its own with a large stack, and only where it must.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from headwater.errors import NotIncremental

P = ParamSpec("P")
T = TypeVar("T")

LEVELS = 30_000
"""Calls inside of each other that a deep query may need; what needs more is refused."""
STACK = 512 << 20
"""Bytes of stack for them, of which only those that are used take memory."""
_room = threading.local()
_widened = threading.Lock()


def with_room(f: Callable[P, T]) -> Callable[P, T]:
    """A function without effects, done again with a large stack where Python's own is too small.

    What is deeper than even that is refused by name, `TOO_DEEP`.
    """

    @wraps(f)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if getattr(_room, "taken", False):  # whoever took it is told, and begins again
            return f(*args, **kwargs)
        try:
            _room.taken = True
            return f(*args, **kwargs)
        except RecursionError:
            pass
        finally:
            _room.taken = False
        return _in_large_stack(lambda: f(*args, **kwargs))

    return run


def _in_large_stack(f: Callable[[], T]) -> T:
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        _room.taken = True
        try:
            done.append(f())
        except BaseException as e:
            failed.append(e)

    with _widened:  # the limits are those of the process
        levels, stack = sys.getrecursionlimit(), threading.stack_size(STACK)
        sys.setrecursionlimit(max(levels, LEVELS))
        try:
            thread = threading.Thread(target=run, name="headwater: a deep query", daemon=True)
            thread.start()
            thread.join()
        except RuntimeError as e:  # no room for such a thread
            failed.append(RecursionError(str(e)))
        finally:
            threading.stack_size(stack)
            sys.setrecursionlimit(levels)
    if done:
        return done[0]
    if isinstance(failed[0], RecursionError):
        raise NotIncremental(
            "TOO_DEEP",
            "the query is nested too deeply: expressions or subqueries stand thousands deep in each other",
            hint="define a part of it as a view of its own, and read that",
        ) from None
    raise failed[0]
