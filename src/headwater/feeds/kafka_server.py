"""How feeds and sinks connect to Kafka: what the library is told by their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
