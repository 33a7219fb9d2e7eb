"""PageRank as a query, for tests of loops over sums."""

from __future__ import annotations

from typing import Any

import headwater as hw

ROUNDS = 4
"""The rounds of `ranks`."""


@hw.query
def ranks(nodes: Any, links: Any) -> Any:
    """PageRank, four rounds."""
    out = [{"node": n.node, "n": len([k for k in links if k.src == n.node])} for n in nodes]
    return hw.repeat(
        [{"node": n.node, "rank": 1.0} for n in nodes],
        lambda rank: [{"node": n.node, "rank": 0.15 + 0.85 * sum(
            r.rank / o["n"] for k in links if k.dst == n.node
            for o in out if o["node"] == k.src for r in rank if r.node == k.src)} for n in nodes],
        times=4,
    )  # fmt: skip
