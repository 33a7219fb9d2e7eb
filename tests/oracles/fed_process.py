"""A process that follows feeds and keeps sinks until it is killed, and what kills it: for stories of real servers.

As a program it is given a database and a JSON text with sources, views and sinks, and runs for ever.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.errors import HeadwaterError


def declare(db: Any, what: dict[str, Any]) -> None:
    """Declares everything, as a program does whenever it starts."""
    for name, (schema, key, options) in what["sources"].items():
        db.source(name, schema, key=key or None, **options)
    for name, query in what["views"].items():
        db.view(name, query)
    for name, (view, options) in what["sinks"].items():
        db.sink(name, view, **options)


def follow(root: str, what: dict[str, Any]) -> None:
    """Runs for ever, whatever is away."""
    with hw.open(root) as db:
        declare(db, what)
        print("ready", flush=True)
        while True:
            with contextlib.suppress(HeadwaterError):
                db.run(every=0.02, seconds=600)


class Follower:
    """The program, which is started again each time that it is killed."""

    def __init__(self, root: Path, what: dict[str, Any], rng: random.Random):
        self.root, self.what, self.rng, self.kills = root, what, rng, 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and waits until everything is declared."""
        path = os.pathsep.join(p for p in sys.path if p)
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(self.root), json.dumps(self.what)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        """Kills it, in whatever it does now."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.kills += 1

    def finish(self) -> Any:
        """Kills it, and gives the database at the end of everything that there is."""
        self.kill()
        db = hw.open(self.root)
        declare(db, self.what)
        for _ in range(50):
            try:
                db.run(available=True)
                return db
            except HeadwaterError:  # the server has not seen yet that the process is gone
                time.sleep(0.1)
        db.run(available=True)
        return db


if __name__ == "__main__":
    follow(sys.argv[1], json.loads(sys.argv[2]))
