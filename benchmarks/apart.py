"""A call in a process of its own, which may run out of memory or time and then ends alone."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

T = TypeVar("T")


class Failed(Exception):
    """Why a call in a process of its own has no answer."""


def apart(seconds: float, f: Callable[..., T], *given: Any) -> T:
    """What a call answers, if it does so in time; else raises `Failed`."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(there, f, given))
    child.start()
    there.close()
    try:
        if not here.poll(seconds):
            raise Failed(f"took more than {seconds:.0f} s")
        answer = here.recv()
    except EOFError:
        child.join()
        raise Failed(f"its process ended with code {child.exitcode}") from None
    finally:
        child.kill()
        child.join()
        here.close()
    if isinstance(answer, Failed):
        raise answer
    made: T = answer
    return made


def _child(pipe: Connection, f: Callable[..., Any], given: tuple[Any, ...]) -> None:
    with open(os.devnull, "w") as nothing:  # Spark greets, and would write over the bar
        os.dup2(nothing.fileno(), 2)
    try:
        made = f(*given)
    except Exception as e:
        made = Failed(f"{type(e).__name__}: {str(e).partition(chr(10))[0]}")
    pipe.send(made)
