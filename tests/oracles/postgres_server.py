"""A PostgreSQL server for tests: from Debian's packages, in a directory of its own, on a free port of this machine.

It is started once in a process and goes with it. It refuses to run as root, so root starts it as the user that the
package made. Where there is no server the tests that ask for it are skipped, and say so.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

MISSING = "no PostgreSQL server: make test installs it where apt-get may be used (postgresql)"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_replication_slots": "40",
    "max_wal_senders": "8",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "wal_keep_size": "0",
}


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def binaries() -> Path | None:
    """Where the newest installed server is; None where there is none."""
    found = shutil.which("postgres")
    if found:
        return Path(found).parent
    packaged = sorted(
        Path(os.sep, "usr", "lib", "postgresql").glob("*/bin/postgres"),
        key=lambda p: float(p.parts[-3]),
    )
    return packaged[-1].parent if packaged else None


class Server:
    """A server with one database; `stop` and `start` are those of an administrator."""

    def __init__(self, bin_: Path, root: Path, **settings: str):
        self.bin, self.root, self.port = bin_, root, free_port()
        self.settings = {**SETTINGS, **settings}
        self.password = "a secret of the tests"
        self.process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(root, owner.pw_uid, owner.pw_gid)
            self.user: dict[str, Any] = {
                "user": owner.pw_uid,
                "group": owner.pw_gid,
                "extra_groups": [],
            }
        else:
            self.user = {}
        secret = root / "secret"
        secret.write_text(self.password)
        if self.user:
            os.chown(secret, self.user["user"], self.user["group"])
        made = [
            "-D",
            str(root / "data"),
            "-U",
            "postgres",
            "--no-sync",
            "--no-locale",
            "-E",
            "UTF8",
        ]
        made += ["--auth=scram-sha-256", f"--pwfile={secret}"]
        self._run("initdb", *made)

    def _run(self, name: str, *arguments: str) -> None:
        subprocess.run(
            [str(self.bin / name), *arguments],
            check=True,
            cwd=self.root,
            stdout=subprocess.DEVNULL,
            **self.user,
        )

    def start(self) -> None:
        """Starts it and waits until it answers."""
        asked = [f"-c{k}={v}" for k, v in self.settings.items()]
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    str(self.bin / "postgres"),
                    *("-D", str(self.root / "data")),
                    *("-p", str(self.port)),
                    *asked,
                ],
                cwd=self.root,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self.user,
            )
        psycopg = pytest.importorskip("psycopg")
        for _ in range(200):
            try:
                psycopg.connect(self.address, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        raise TimeoutError((self.root / "log").read_text()[-2000:])

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stops it: SIGINT ends connections and writes everything, SIGQUIT does not."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stops and starts it on the same port."""
        self.stop(how)
        self.start()

    @property
    def address(self) -> str:
        """What a client connects to, with the password."""
        return f"host=127.0.0.1 port={self.port} dbname=postgres user=postgres password='{self.password}'"

    @property
    def options(self) -> dict[str, Any]:
        """The options of a source or sink that say where the server is."""
        where = {"host": "127.0.0.1", "port": self.port, "database": "postgres"}
        return {**where, "user": "postgres", "password": self.password}

    def connect(self) -> Any:
        """A connection in which every statement is a transaction."""
        return pytest.importorskip("psycopg").connect(self.address, autocommit=True)


def made(**settings: str) -> Server:
    """A server that runs, in a directory that goes with the process."""
    bin_ = binaries()
    if bin_ is None:
        pytest.skip(MISSING)
    root = Path(tempfile.mkdtemp(prefix="headwater-postgres-"))
    server = Server(bin_, root, **settings)
    server.start()

    def end() -> None:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(root, ignore_errors=True)

    atexit.register(end)
    return server


@cache
def postgres() -> Server:
    """The server of this process."""
    return made()
