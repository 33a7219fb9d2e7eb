"""A Kafka broker for tests: one node from the jars that tools/kafka.sh has, on free ports of this machine.

It is started once in a process and goes with it. Where its jars or Java cannot be had the tests that ask for it are
skipped, and say so.
"""

from __future__ import annotations

import atexit
import os
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

ROOT = Path(__file__).parent.parent.parent
JARS = ROOT / "build" / "kafka" / "jars"


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Broker:
    """A broker that runs; `restart` keeps what it has."""

    def __init__(self, jars: Path, root: Path):
        self.jars, self.root = jars, root
        self.port, self.controller = free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(root / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
        }
        self.settings = root / "server.properties"
        self.settings.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        format_ = ("format", "-t", "AAAAAAAAQACAAAAAAAAAAQ", "-c", str(self.settings))
        self._java("kafka.tools.StorageTool", *format_).wait(60)

    @property
    def address(self) -> str:
        """What clients connect to."""
        return f"127.0.0.1:{self.port}"

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
        quick = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
        with (self.root / "log").open("ab") as log:
            return subprocess.Popen(
                [str(java), *quick, "-cp", f"{self.jars}/*", main, *arguments],
                cwd=self.root,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start(self) -> None:
        """Starts it and waits until it answers."""
        self.process = self._java("kafka.Kafka", str(self.settings))
        admin = self.admin()
        for _ in range(120):
            if self.process.poll() is not None:
                break
            try:
                admin.list_topics(timeout=1)
                return
            except Exception:
                time.sleep(0.1)
        raise TimeoutError((self.root / "log").read_text()[-2000:])

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stops it; SIGKILL as a machine that goes."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None

    def admin(self) -> Any:
        """A client that makes and drops topics."""
        admin = pytest.importorskip("confluent_kafka.admin")
        return admin.AdminClient(
            {"bootstrap.servers": self.address, "log_level": 0, "logger": _silent()}
        )

    def topic(self, name: str, partitions: int = 1) -> None:
        """A topic that is new and empty."""
        admin = pytest.importorskip("confluent_kafka.admin")
        client = self.admin()
        if name in client.list_topics(timeout=10).topics:
            for done in client.delete_topics([name]).values():
                done.result(20)
            while name in client.list_topics(timeout=10).topics:
                time.sleep(0.05)
        for done in client.create_topics([admin.NewTopic(name, partitions, 1)]).values():
            done.result(20)
        while len(client.list_topics(name, timeout=10).topics[name].partitions) < partitions:
            time.sleep(0.05)

    def send(self, topic: str, records: list[tuple[Any, Any, int]]) -> None:
        """Puts records (key, value, partition) into a topic."""
        kafka = pytest.importorskip("confluent_kafka")
        producer = kafka.Producer({"bootstrap.servers": self.address, "linger.ms": 5})
        for key, value, partition in records:
            while True:
                try:
                    producer.produce(topic, value, key, partition)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        producer.flush(60)


def _silent() -> Any:
    import logging  # only here

    logger = logging.getLogger("kafka of the tests")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


@cache
def kafka() -> Broker:
    """The broker of this process."""
    pytest.importorskip("confluent_kafka")
    made = subprocess.run([ROOT / "tools" / "kafka.sh"], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no Kafka broker: {made.stderr.strip()}")
    root = Path(tempfile.mkdtemp(prefix="headwater-kafka-"))
    broker = Broker(JARS, root)
    broker.start()

    def end() -> None:
        broker.stop(signal.SIGKILL)
        shutil.rmtree(root, ignore_errors=True)

    atexit.register(end)
    return broker
