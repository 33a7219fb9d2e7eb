"""How feeds and sinks connect to Kafka: options, and what the library is told by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.feeds.kinds import Option

CONNECTION = {
    "servers": Option(needed=True),
    "security": Option(("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")),
    "mechanism": Option(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
    "username": Option(),
    "password": Option(secret=True),
    "ca": Option(),
}
"""Options of every feed and sink of the kind."""
_NAMES = {
    "servers": "bootstrap.servers",
    "security": "security.protocol",
    "mechanism": "sasl.mechanism",
    "username": "sasl.username",
    "password": "sasl.password",
    "ca": "ssl.ca.location",
}


def configuration(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the library is told."""
    given = {_NAMES[n]: str(v) for n, v in options.items() if n in _NAMES and v is not None}
    return {**given, "client.id": "headwater", "log_level": 3, "socket.timeout.ms": 10_000}
