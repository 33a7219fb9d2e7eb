"""Events of Debezium as a connector would send them: random changes of a table, in partitions by key, with records sent again.

The table is a plain dict, which says what a source must have in the end. As after a failure of the connector, some records
are sent again: from an earlier place on, everything up to now.
"""

from __future__ import annotations

import json
import random
from typing import Any

SCHEMA = "id int, name string, price decimal(10, 2), at timestamp_ntz"


def events(
    count: int, partitions: int, rng: random.Random, ids: int = 500
) -> tuple[list[tuple[bytes, bytes | None, int]], dict[int, tuple[Any, ...]]]:
    """Records (key, value, partition) and the table that they end in."""
    table: dict[int, dict[str, Any]] = {}
    sent: list[tuple[bytes, bytes | None, int]] = []
    queues: list[list[tuple[bytes, bytes | None, int]]] = [[] for _ in range(partitions)]
    lsn = 1000
    while len(sent) < count:
        lsn += rng.randint(1, 9)
        i = rng.randrange(ids)
        before = table.get(i)
        if before is None or rng.random() < 0.7:
            after: dict[str, Any] | None = {
                "id": i,
                "name": rng.choice(["ä", 'b "c"', "", None]),
                "price": f"{rng.randrange(10_000) / 100:.2f}",
                "at": 1_600_000_000_000_000 + rng.randrange(10**9),
            }
            op = "c" if before is None else "u"
        else:
            after, op = None, "d"
        if after is None:
            del table[i]
        else:
            table[i] = after
        source = {
            "connector": "postgresql",
            "lsn": lsn,
            "sequence": json.dumps([str(lsn - 1), str(lsn)]),
        }
        value = {"before": before, "after": after, "op": op, "source": source, "ts_ms": 1}
        p = i % partitions
        key = json.dumps({"id": i}).encode()
        new: list[tuple[bytes, bytes | None, int]] = [(key, json.dumps(value).encode(), p)]
        if op == "d":
            new.append((key, None, p))
        sent += new
        queues[p] += new
        if rng.random() < 0.002:  # the connector starts again, and goes back
            again = [r for q in queues for r in q[-rng.randint(1, 40) :]]
            sent += again
    return sent, {i: tuple(r.values()) for i, r in table.items()}
