"""What a database did, for those who watch it: a line of JSON for each commit, and metrics as text of Prometheus.

A line has the names of Spark's StreamingQueryProgress, so that what reads those reads ours: a commit is a batch, its version
the `batchId`, its sources those that had rows. It goes to the logger `headwater.progress` where that takes INFO, and to the function
that `run(progress=...)` was given; where neither is so, a commit costs a few additions. Counters are of this process, as Prometheus has them: they
begin at 0 with it.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headwater.api.epochs import Prepared
from headwater.api.explaining import Explaining
from headwater.api.handles import Commit
from headwater.api.taking import BatchRead

LOG, PROGRESS = logging.getLogger("headwater"), logging.getLogger("headwater.progress")


@dataclass
class Totals:
    """What commits of this process added up to."""

    run: str = field(default_factory=lambda: str(uuid.uuid4()))
    commits: int = 0
    seconds: float = 0.0
    bytes: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    last: float = field(default_factory=time.monotonic)

    def add(self, commit: Commit) -> float:
        """Counts a commit; gives the seconds since the one before."""
        now = time.monotonic()
        since, self.last = now - self.last, now
        self.commits += 1
        self.seconds += commit.seconds
        self.bytes += commit.bytes
        pairs = (
            (self.rows, commit.rows),
            (self.rejected, commit.rejected),
            (self.late, commit.late),
        )
        for total, found in pairs:
            for name, count in found.items():
                total[name] = total.get(name, 0) + count
        return since


class Observing(Explaining):
    """The part of a database that says what it did."""

    _totals: Totals

    def _brought_in(self, *given: Any, **more: Any) -> Commit:
        commit = super()._brought_in(*given, **more)
        self._observed(commit, APPLIED)
        return commit

    def _committed(self, p: Prepared | BatchRead) -> None:
        started, before = time.perf_counter(), self.version
        super()._committed(p)
        if isinstance(p, Prepared) and self.version != before:
            seconds = time.perf_counter() - started
            self._observed(Commit(self.version, seconds=seconds, database=self), p.stage.name)

    def _observed(self, commit: Commit, what: str) -> None:
        """Counts a commit, and tells it to those who asked. It is there already, so that nothing is raised."""
        since = self._totals.add(commit)
        listener = getattr(self, "_listener", None)
        if listener is None and not PROGRESS.isEnabledFor(logging.INFO):
            return
        try:
            told = self._progress_of(commit, what, since)
            PROGRESS.info("%s", json.dumps(told))
            if listener is not None:
                listener(told)
        except Exception as e:  # what a listener raises may be anything
            LOG.warning("version %d was committed, and not told: %s", commit.version, e)

    def _progress_of(self, commit: Commit, what: str, since: float) -> dict[str, Any]:
        """A commit under the names of StreamingQueryProgress."""
        rows = sum(commit.rows.values())
        duration = round(1000 * commit.seconds)
        return {
            "id": str(uuid.UUID(self.identity)),
            "runId": self._totals.run,
            "name": self.path.name,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "batchId": commit.version,
            "batchDuration": duration,
            "numInputRows": rows,
            **_rates(rows, since, commit.seconds),
            "durationMs": {"triggerExecution": duration},
            "stateOperators": [],
            "sources": [
                {
                    "description": name,
                    "startOffset": str(commit.version - 1),
                    "endOffset": str(commit.version),
                    "latestOffset": str(commit.version),
                    "numInputRows": count,
                    **_rates(count, since, commit.seconds),
                    "metrics": {
                        "rejected": str(commit.rejected.get(name, 0)),
                        "late": str(commit.late.get(name, 0)),
                    },
                }
                for name, count in commit.rows.items()
            ],
            "sink": {"description": what, "numOutputRows": -1, "metrics": {"where": commit.where}},
        }

    def metrics(self) -> str:
        """What it did in this process, how much it holds, and how far behind its sinks are, as text of Prometheus."""
        t, sinks = self._totals, [self.sink_status(n) for n in self.sinks]
        sizes = self.sizes()
        nodes = {n: f for n, f in self.graph.nodes.items() if f.epochs}
        of_sinks = {s.name: s for s in sinks}
        families: list[tuple[str, str, str, str, Mapping[str, float] | float]] = [
            ("version", "gauge", "The version that the handle is at.", "", self.version),
            ("commits_total", "counter", "Commits of this process.", "", t.commits),
            ("commit_seconds_total", "counter", "Seconds that they took.", "", t.seconds),
            ("commit_bytes_total", "counter", "Bytes that they wrote.", "", t.bytes),
            ("input_rows_total", "counter", "Rows given to sources.", "source", t.rows),
            ("rejected_rows_total", "counter", "Records that did not fit.", "source", t.rejected),
            ("late_rows_total", "counter", "Rows of what was closed.", "source", t.late),
            (
                "state_bytes",
                "gauge",
                "Bytes of maps.",
                "kind",
                {k: s.bytes for k, s in sizes.items()},
            ),
            (
                *("state_entries", "gauge", "Entries of maps.", "kind"),
                {k: s.entries for k, s in sizes.items()},
            ),
            (
                *("node_epochs_total", "counter", "Epochs of stages and feeds.", "node"),
                {n: f.epochs for n, f in nodes.items()},
            ),
            (
                *("sink_version", "gauge", "The version that a sink has.", "sink"),
                {n: s.version or 0 for n, s in of_sinks.items()},
            ),
            (
                *("sink_behind_versions", "gauge", "Versions that it has not.", "sink"),
                {n: s.behind for n, s in of_sinks.items()},
            ),
            (
                *("sink_rows_total", "counter", "Rows given to a sink.", "sink"),
                {n: s.rows for n, s in of_sinks.items()},
            ),
            (
                *("sink_seconds_total", "counter", "Seconds that its syncs took.", "sink"),
                {n: s.seconds for n, s in of_sinks.items()},
            ),
            (
                *("sink_held", "gauge", "1 where a sink could not be brought on.", "sink"),
                {n: int(bool(s.held)) for n, s in of_sinks.items()},
            ),
        ]
        return "".join(line for family in families for line in _lines(*family))


APPLIED = "views"
"""What the rows of a change go to."""


def _rates(rows: int, since: float, seconds: float) -> dict[str, float]:
    return {
        "inputRowsPerSecond": round(rows / max(since, 1e-6), 3),
        "processedRowsPerSecond": round(rows / max(seconds, 1e-6), 3),
    }


def _lines(
    name: str, kind: str, said: str, label: str, values: Mapping[str, float] | float
) -> Iterable[str]:
    """A metric and its values as text; one without any is not named."""
    if isinstance(values, Mapping):
        samples = [(f'{{{label}="{_escaped(n)}"}}', v) for n, v in sorted(values.items())]
    else:
        samples = [("", values)]
    if samples:
        yield f"# HELP headwater_{name} {said}\n# TYPE headwater_{name} {kind}\n"
    for at, value in samples:
        yield f"headwater_{name}{at} {round(value, 6)}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
