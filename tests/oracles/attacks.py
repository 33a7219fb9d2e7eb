"""Attacks on a handle: interrupts at a moment or at a line, a disk whose n-th call fails, and forked children.

What comes out of an attack is what was thrown, or an error of ours that says what to do; the tests say what else must hold.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import headwater as hw
from headwater.errors import HeadwaterError, StateError
from headwater.state.files import LocalFiles


def told(e: HeadwaterError) -> bool:
    """Whether an error says what to do."""
    return len(str(e).splitlines()) > 1


# --- interrupts


class Rings(Exception):
    """What a handler of signals raises that is not Ctrl-C."""


class Alarm:
    """A timer that interrupts whatever the main thread does when it rings."""

    def __init__(self) -> None:
        self.raises: type[BaseException] | None = None
        self.rang = 0

    def ring(self, number: int, frame: FrameType | None) -> None:
        raises, self.raises = self.raises, None
        if raises is not None:
            self.rang += 1
            raise raises

    def during(self, act: Callable[[], Any], moment: float, raises: type[BaseException]) -> None:
        """Interrupts at a moment; what comes out of it is the interrupt itself, or says what to do."""
        self.raises = raises
        try:
            signal.setitimer(signal.ITIMER_REAL, max(moment, 1e-6))
            act()
            self.raises = None
        except raises:
            pass
        except Exception:
            if raises is KeyboardInterrupt:
                raise
            # An ordinary exception may be caught by whoever it hits, and be told in any words.
        finally:
            self.raises = None
            signal.setitimer(signal.ITIMER_REAL, 0)


class Lines:
    """Interrupts at a line: the n-th that the modules which read and commit run in this thread."""

    FILES = frozenset(
        str(Path(hw.__file__).parent / name)
        for name in (
            *(f"api/{n}.py" for n in ("applying", "writing", "versions", "declaring", "dropping")),
            *(f"api/{n}.py" for n in ("bring_in", "ids", "feeding", "flowing", "running")),
            *(f"state/{n}.py" for n in ("store", "log", "lease", "collection", "files", "run")),
        )
    )

    def __init__(self) -> None:
        self.run: list[tuple[str, int]] = []
        self.at = -1

    def during(self, act: Callable[[], Any], at: int = -1) -> None:
        """Interrupts there; what comes out of it is the interrupt itself."""
        self.run, self.at = [], at
        before = sys.gettrace()
        try:
            sys.settrace(self.called)
            act()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)

    def called(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self.at_line if frame.f_code.co_filename in self.FILES else None

    def at_line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.run.append((frame.f_code.co_filename, frame.f_lineno))
            if len(self.run) == self.at:
                raise KeyboardInterrupt
        return self.at_line

    def ends(self) -> list[int]:
        """When each line was run first, and when last."""
        first = {line: n for n, line in reversed(list(enumerate(self.run, 1)))}
        last = {line: n for n, line in enumerate(self.run, 1)}
        return sorted({*first.values(), *last.values()})


# --- a disk that fails

CALLS = ("write", "put_if_absent", "read", "map", "list", "names", "size", "delete", "now")
CHANGING = ("write", "put_if_absent", "delete")


UNCLEAR = "does not say whether"
"""What is said where a disk does not answer any more."""


class Disk:
    """The calls that a handle makes of its file system in this thread, the n-th of which fails.

    It fails before its effect or after it, where it has one; and all that come after it may fail too.
    """

    def __init__(self, patch: pytest.MonkeyPatch, root: Path):
        self.root, self.code = root, errno.EIO
        self.after = self.lasts = self.broken = False
        self.at, self.count, self.failed = -1, 0, ""
        for name in CALLS:
            patch.setattr(LocalFiles, name, self.failing(name, getattr(LocalFiles, name)))

    def failing(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(files: LocalFiles, *args: Any) -> Any:
            mine = files.root == self.root and threading.current_thread() is threading.main_thread()
            if mine and self.broken:
                raise OSError(self.code, os.strerror(self.code))
            if not mine or (self.after and name not in CHANGING):
                return real(files, *args)
            self.count += 1
            if self.count - 1 != self.at:
                return real(files, *args)
            self.failed, self.broken = " ".join([name, *args[:1]]), self.lasts
            if self.after:
                real(files, *args)
            raise OSError(self.code, os.strerror(self.code))

        return call

    def during(self, act: Callable[[], Any], at: int) -> Any:
        """Fails there, and gives what came of it, which may be an error of ours."""
        self.at, self.count, self.failed = at, 0, ""
        try:
            return act()
        except StateError as e:
            assert told(e), e
            return e
        finally:
            self.at, self.broken = -1, False


# --- forks


def forked(act: Callable[[], Any], begun: Callable[[], Any] = lambda: None) -> Any:
    """What a forked child gives; `begun` is done by the parent while it lives."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)  # it may hang, and must not for ever
        try:
            given = pickle.dumps(act())
        except BaseException as e:
            given = pickle.dumps(f"{type(e).__name__}: {e}")
        with contextlib.suppress(BaseException):
            os.write(writing, given)
        os._exit(0)
    os.close(writing)
    try:
        begun()
        with os.fdopen(reading, "rb") as f:
            return pickle.loads(f.read())
    finally:
        _, code = os.waitpid(child, 0)
        assert code == 0, "the child hung or died"


def came_of(act: Callable[[], Any]) -> str:
    """What came of something: nothing that is to be told, or an error of ours that says what to do."""
    try:
        act()
    except HeadwaterError as e:
        assert told(e), e
        return type(e).__name__
    return "done"
