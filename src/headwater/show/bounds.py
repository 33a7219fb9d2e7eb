"""The bounds of a view as text: a verdict, when its rows are final, and a line a map.

BOUNDS of hot (bids: append-only, closes ts, 10 seconds behind; auctions: no scheme)   partly unblocked
  rows  final when bids is closed by ts
  MAP m9..  a group's value, by (bids.auction, window_start(bids.ts))
    bounded     leaves when bids is closed by ts
  MAP m4..  looked up by deltas, by (auctions.id)
    unbounded   Δbids looks up by bids.auction, and that does not say bids.ts
    would do    closes="auction" on bids
"""

from __future__ import annotations

from headwater.plan.advice import MapBound, Measures, ViewBounds
from headwater.plan.outlook import Needs


def bounds_text(b: ViewBounds) -> str:
    """All that is said of a view."""
    of = "; ".join(f"{name}: {said}" for name, said in b.sources)
    lines = [f"BOUNDS of {b.view} ({of})   {b.verdict}"]
    if b.final is not None:
        lines.append(f"  rows  final {when(b.final)}")
    else:
        lines += [f"  NOT FINAL  {why}" for why in b.not_final]
        lines += _would("  would do   ", b.would_be_final)
    for m in b.maps:
        lines += [f"  MAP {m.name}  {m.what}", *(f"    {line}" for line in _map(m))]
    if b.verdict != "unblocked":
        lines += _would("  TO UNBLOCK all of it: ", b.would_do) or [
            "  TO UNBLOCK all of it: nothing that sources can declare is known to do"
        ]
    return "\n".join(lines)


def _map(m: MapBound) -> list[str]:
    match m.state:
        case "bounded":
            assert m.leaves is not None
            return [f"bounded     leaves {when(m.leaves)}"]
        case "fixed":
            return ["fixed       it does not grow"]
        case "ends":
            assert m.leaves is not None
            return [f"ends        nothing more comes {when(m.leaves)}"]
        case "kept":
            lines = ["kept        its source keeps all its rows"]
            return [*lines, *_would("would do    ", m.would_do)]
        case "front":
            end = "last" if m.over else "first"
            kept = f"the {end} entry" if m.first == 1 else f"the {end} {m.first} entries"
            of = "each group's that are over" if m.over else "each group"
            lines = [f"by group    {kept} of {of}, but groups stay"]
        case _:
            lines = []
    lines += [f"unbounded   {why}" for why in m.blocked]
    lines = lines or ["unbounded   nobody is known to be done with it"]
    return [*lines, *_would("would do    ", m.would_do)]


def when(needs: Needs) -> str:
    """What must be closed, in words."""
    if not needs:
        return "at once"
    return "when " + " and ".join(f"{s} is closed by {', '.join(c)}" for s, c in needs)


def _would(label: str, sets: tuple[Measures, ...]) -> list[str]:
    if not sets:
        return []
    return [label + ", or ".join(" with ".join(map(str, s)) for s in sets)]
