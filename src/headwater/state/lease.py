"""The writer's lease: one writer at a time, and a way past one that died.

A lease is a file with a number, its *epoch*; the highest epoch is the writer. The writer shows that it lives
by small files beside it, its beats. Another may take over when the lease was released, when its process is
gone from this machine, or when it has not shown life for the time to live; it then writes the next epoch, and
commits a fence, so that a writer that was only asleep finds its next version taken and cannot commit.

Within a process the newest writer wins at once: a cell of a notebook that opens a database again goes on with it,
and the handle before it is told. A lease is of the process that took it; a child that was forked has none.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import uuid
import weakref
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from headwater.errors import DamagedState, LeaseLost, StateError, WriterBusy
from headwater.state.files import FileSystem, is_temporary

FOLDER = "lease"
_LEASE = re.compile(r"(\d{20})\.json")
_OURS = re.compile(r"\d{20}\.(json|released|beat\d+)")


@dataclass(frozen=True)
class Holder:
    """Who has a lease: which epoch, and the process that took it."""

    epoch: int
    owner: str
    host: str
    pid: int


class Lease:
    """A lease that is held."""

    def __init__(self, files: FileSystem, holder: Holder, taken_over: bool, time_to_live: float):
        self.files, self.holder, self.taken_over = files, holder, taken_over
        self._beats = 0
        self._stopped = False
        self._wake: SimpleQueue[None] = SimpleQueue()
        if time_to_live > 0:
            # The thread does not keep the lease alive: one that nobody has any more stops by itself.
            given = weakref.ref(self), self._wake, time_to_live / 3
            try:
                threading.Thread(target=_live, args=given, daemon=True).start()
            except RuntimeError as e:  # no more are to be had
                self.withdraw()
                raise StateError(
                    f"the right to write cannot be held: {e}",
                    hint="nothing was committed; end some threads, and do the same again",
                ) from e

    def check(self) -> None:
        """Raises `LeaseLost` if another writer has taken over, the lease was released, or this is another process."""
        if self.holder.pid != os.getpid():
            raise LeaseLost(
                f"process {self.holder.pid} writes to this database, and this is {os.getpid()}, forked from it",
                hint="open the database again in this process, once the other has closed it",
            )
        if max(_numbers(self.files), default=0) != self.holder.epoch:
            self._stop()
            raise LeaseLost(
                "another writer has taken over this database",
                hint="close it, and open it again to go on from the newest version",
            )
        if self._stopped:
            raise LeaseLost("this writer is closed", hint="open another one")

    def _stop(self) -> None:
        """No beats from now on; by a queue, for a signal can leave the lock of an `Event` locked for ever."""
        self._stopped = True
        self._wake.put(None)

    def beat(self) -> None:
        """Shows life, and forgets the beat before."""
        self.files.put_if_absent(f"{_path(self.holder.epoch)}.beat{self._beats + 1}", b"")
        self.files.delete(f"{_path(self.holder.epoch)}.beat{self._beats}")
        self._beats += 1

    def release(self) -> None:
        """Lets the next writer in at once."""
        self._stop()
        if self.holder.pid == os.getpid():
            self.files.put_if_absent(f"{_path(self.holder.epoch)}.released", b"")

    def withdraw(self) -> None:
        """Gives up a takeover that could not be fenced: the lease is as it was before."""
        self._stop()
        with contextlib.suppress(OSError):
            self.files.delete(f"{_path(self.holder.epoch)}.json")


def _live(held: weakref.ref[Lease], wake: SimpleQueue[None], seconds: float) -> None:
    while True:
        with contextlib.suppress(Empty):
            wake.get(timeout=seconds)
            return
        lease = held()
        if lease is None:
            return
        with contextlib.suppress(
            OSError
        ):  # a full disk must not end the writer; the next beat may succeed
            lease.beat()
        del lease


def acquire(files: FileSystem, time_to_live: float = 60.0) -> Lease:
    """The lease, or `WriterBusy` while its holder lives."""
    held = _epochs(files)
    last = held[-1] if held else None
    taken_over = False
    if last is not None and not _released(files, last.epoch):
        here = last.host == socket.gethostname()
        # This process has another handle, or the number of one that was killed, as in containers.
        gone = here and (last.pid == os.getpid() or not _alive(last.pid))
        if not gone and files.now() - _last_sign(files, last.epoch) < time_to_live:
            raise WriterBusy(
                f"process {last.pid} on {last.host} is writing to this database",
                hint=f"close it there; a writer that shows no life for {time_to_live:.0f} s is taken over",
            )
        taken_over = True
    holder = Holder(
        (last.epoch if last else 0) + 1, uuid.uuid4().hex, socket.gethostname(), os.getpid()
    )
    record = {"owner": holder.owner, "host": holder.host, "pid": holder.pid}
    if not files.put_if_absent(f"{_path(holder.epoch)}.json", json.dumps(record).encode()):
        raise WriterBusy(
            "another writer has just opened this database", hint="try again when it is closed"
        )
    with contextlib.suppress(OSError):  # the last few are enough to tell who came when
        old = {h.epoch for h in held[:-1]}
        for name in files.names(FOLDER):
            if _OURS.fullmatch(name) and int(name[:20]) in old:
                files.delete(f"{FOLDER}/{name}")
    return Lease(files, holder, taken_over, time_to_live)


def holder(files: FileSystem) -> Holder | None:
    """Who writes, as far as can be seen from here; nobody where the lease was released or its process is gone."""
    held = _epochs(files)
    if not held or _released(files, held[-1].epoch):
        return None
    here = held[-1].host == socket.gethostname()
    return None if here and not _alive(held[-1].pid) else held[-1]


def _path(epoch: int) -> str:
    return f"{FOLDER}/{epoch:020d}"


def _numbers(files: FileSystem) -> list[int]:
    """The epochs that there are."""
    found = (_LEASE.fullmatch(n) for n in files.names(FOLDER))
    return sorted(int(m[1]) for m in found if m)


def _epochs(files: FileSystem) -> list[Holder]:
    out = []
    for epoch in _numbers(files):
        path = f"{_path(epoch)}.json"
        try:
            data = json.loads(files.read(path))
            out.append(Holder(epoch, str(data["owner"]), str(data["host"]), int(data["pid"])))
        except FileNotFoundError:  # forgotten by a newer writer since it was listed
            continue
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as e:
            raise DamagedState(
                path, "it does not say who writes; if nobody does, delete this file"
            ) from e
    return out


def strays(files: FileSystem) -> list[str]:
    """Files beside the leases that are none of ours."""
    names = files.names(FOLDER)
    return [f"{FOLDER}/{n}" for n in names if not _OURS.fullmatch(n) and not is_temporary(n)]


def _last_sign(files: FileSystem, epoch: int) -> float:
    prefix = f"{epoch:020d}."
    signs = [e.written for e in files.list(FOLDER) if e.name.startswith(prefix)]
    return max(signs, default=0.0)


def _released(files: FileSystem, epoch: int) -> bool:
    return f"{epoch:020d}.released" in files.names(FOLDER)


def _alive(pid: int) -> bool:
    try:
        if pid <= 0:  # no process has such a number: it would mean several
            return False
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
