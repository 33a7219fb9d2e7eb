"""The writer's lease: one writer at a time, and a way past one that died.

A lease is a file with a number, its *epoch*; the highest epoch is the writer. The writer shows that it lives
by small files beside it, its beats. Another may take over when the lease was released, when its process is
gone from this machine, or when it has not shown life for the time to live; it then writes the next epoch, and
commits a fence, so that a writer that was only asleep finds its next version taken and cannot commit.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import uuid
from dataclasses import dataclass

from headwater.errors import LeaseLost, WriterBusy
from headwater.state.files import FileSystem

FOLDER = "lease"
_OWN: set[str] = set()
"""The leases that this process has taken."""


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
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, args=(time_to_live / 3,), daemon=True)
        if time_to_live > 0:
            self._thread.start()

    def check(self) -> None:
        """Raises `LeaseLost` if another writer has taken over, or the lease was released."""
        newest = max((h.epoch for h in _epochs(self.files)), default=0)
        if self._stop.is_set():
            raise LeaseLost("this writer is closed", hint="open another one")
        if newest != self.holder.epoch:
            raise LeaseLost(
                "another writer has taken over this database",
                hint="close it, and open it again to go on from the newest version",
            )

    def beat(self) -> None:
        """Shows life, and forgets the beat before."""
        self.files.put_if_absent(f"{_path(self.holder.epoch)}.beat{self._beats + 1}", b"")
        self.files.delete(f"{_path(self.holder.epoch)}.beat{self._beats}")
        self._beats += 1

    def _live(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            try:
                self.beat()
            except OSError:  # a full disk must not end the writer; the next beat may succeed
                continue

    def release(self) -> None:
        """Lets the next writer in at once."""
        self._stop.set()
        self.files.put_if_absent(f"{_path(self.holder.epoch)}.released", b"")

    def withdraw(self) -> None:
        """Gives up a takeover that could not be fenced: the lease is as it was before."""
        self._stop.set()
        with contextlib.suppress(OSError):
            self.files.delete(f"{_path(self.holder.epoch)}.json")


def acquire(files: FileSystem, time_to_live: float = 60.0) -> Lease:
    """The lease, or `WriterBusy` while its holder lives."""
    held = _epochs(files)
    last = held[-1] if held else None
    taken_over = False
    if last is not None and not _released(files, last.epoch):
        age = files.now() - _last_sign(files, last.epoch)
        here = last.host == socket.gethostname()
        mine = here and last.pid == os.getpid()
        # In containers a process often has the number of the one before it, which was killed.
        gone = last.owner not in _OWN if mine else here and not _alive(last.pid)
        if not gone and age < time_to_live:
            if mine:
                raise WriterBusy(
                    "this process is writing to this database already, through another handle",
                    hint="use that one, or close it first",
                )
            raise WriterBusy(
                f"process {last.pid} on {last.host} is writing to this database",
                hint=f"close it there; a writer that shows no life for {time_to_live:.0f} s is taken over",
            )
        taken_over = True
    holder = Holder(
        (last.epoch if last else 0) + 1, uuid.uuid4().hex, socket.gethostname(), os.getpid()
    )
    _OWN.add(holder.owner)
    record = {"owner": holder.owner, "host": holder.host, "pid": holder.pid}
    if not files.put_if_absent(f"{_path(holder.epoch)}.json", json.dumps(record).encode()):
        raise WriterBusy(
            "another writer has just opened this database", hint="try again when it is closed"
        )
    with contextlib.suppress(OSError):  # the last few are enough to tell who came when
        for old in held[:-1]:
            for entry in files.list(FOLDER):
                if entry.name.startswith(f"{old.epoch:020d}."):
                    files.delete(f"{FOLDER}/{entry.name}")
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


def _epochs(files: FileSystem) -> list[Holder]:
    out = []
    for entry in files.list(FOLDER):
        if entry.name.endswith(".json"):
            try:
                data = json.loads(files.read(f"{FOLDER}/{entry.name}"))
            except FileNotFoundError:  # forgotten by a newer writer since it was listed
                continue
            epoch = int(entry.name.removesuffix(".json"))
            out.append(Holder(epoch, data["owner"], data["host"], data["pid"]))
    return sorted(out, key=lambda h: h.epoch)


def _last_sign(files: FileSystem, epoch: int) -> float:
    prefix = f"{epoch:020d}."
    return max(e.written for e in files.list(FOLDER) if e.name.startswith(prefix))


def _released(files: FileSystem, epoch: int) -> bool:
    return any(e.name == f"{epoch:020d}.released" for e in files.list(FOLDER))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
