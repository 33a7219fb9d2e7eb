"""A stream as text and picture: its schema, what runs where, what is kept, and which steps were moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.show.drawing import Explanation, svg


@dataclass(frozen=True)
class StreamShown:
    """A stream to be shown, as plain data."""

    name: str
    schema: str
    """Its schema, drawn."""
    steps: Sequence[tuple[str, str]]
    """Its steps, each with the schema that it tells."""
    order: str
    headers: Mapping[str, str]
    """What each header is, and up to where it is closed."""
    runs: Sequence[tuple[str, str, str]]
    """What runs: where in the schema, how, and what is kept for it."""
    outputs: Mapping[str, str]
    moved: Sequence[str] = field(default_factory=tuple)
    waiting: Sequence[str] = field(default_factory=tuple)
    sizes: Sequence[tuple[str, int, int]] = field(default_factory=tuple)
    """The maps that it has, with their entries and bytes."""
    bounds: Mapping[str, str] = field(default_factory=dict)
    """By what each map stays bounded, or that it grows."""


def explain_stream(s: StreamShown) -> Explanation:
    """What a stream is and how far it came."""
    lines = [f"STREAM {s.name}", "", *(f"  {line}" for line in s.schema.splitlines()), ""]
    lines += ["HEADERS", f"  order: {s.order}"]
    lines += [f"  {h}: {what}" for h, what in s.headers.items()]
    lines += ["", "STEPS"]
    for number, (step, tells) in enumerate(s.steps, 1):
        lines += [f"  {number}. {step}", f"     tells {tells}"]
    lines += [f"  moved: {reason}" for reason in s.moved]
    lines += ["", "RUNS"]
    for where, how, kept in s.runs:
        lines += [f"  {where}: {how}; keeps {kept}"]
    lines += ["", "OUTPUTS", *(f"  {h}: {what}" for h, what in s.outputs.items())]
    if s.sizes:
        lines += ["", "BOUNDS"]
        for m, rows, size in s.sizes:
            by = f"; {s.bounds[m]}" if m in s.bounds else ""
            lines += [f"  {m}: {rows} entries, {size} bytes{by}"]
    lines += ["", "WAITING", *(f"  {w}" for w in s.waiting or ["nothing"])]
    boxes = {f"in:{h}": (h, "source", 0) for h in s.headers}
    boxes["stream"] = (s.name, "stage", 1)
    boxes |= {f"out:{h}": (h, "flow", 2) for h in s.outputs}
    edges = [(f"in:{h}", "stream", False) for h in s.headers]
    edges += [("stream", f"out:{h}", False) for h in s.outputs]
    return Explanation("\n".join(lines), svg(boxes, edges))
