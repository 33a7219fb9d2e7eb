"""An edit in words: what would be kept, filled and dropped if views had other queries, and what that reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from headwater.plan.adopting import Adoption
from headwater.plan.program import Map, Program, Statement


def explain_edit(
    before: Program,
    after: Program,
    moved: Sequence[str],
    again: Collection[str],
    adopts: Adoption,
    entries: Mapping[str, int],
) -> str:
    """What an edit would do: `moved` are the views that it changes, `again` the maps that both programs have and it fills.

    `adopts` has the new maps that begin with what others had, and `entries` says how many entries each map has now.
    """
    adopted = adopts.maps
    kept = [m for n, m in after.maps.items() if n in before.maps and n not in again]
    new = [m for n, m in after.maps.items() if n not in before.maps or n in again]
    new = [m for m in new if m.name not in adopted]
    followed = {a.of.name for a in adopted.values()}
    gone = [m for n, m in before.maps.items() if n not in after.maps and n not in followed]
    lines = [
        f"INSTEAD: {len(kept)} maps are kept, {len(adopted)} adopted, {len(new)} filled, {len(gone)} dropped"
    ]
    if not moved:
        lines.append("  the answer is the same, written otherwise: nothing moves")
    lines += [f"  VIEW {n} is planned anew" for n in moved]
    lines += [f"  KEEP {_said(m)}, {entries.get(m.name, 0):,} entries" for m in kept]
    for a in adopted.values():
        had = f"{entries.get(a.of.name, 0):,} entries, and the difference"
        if a.carried:
            had += f" of the answer{'s' * (len(a.carried) > 1)} {' and '.join(a.carried)}"
        lines.append(f"  ADOPT {_said(a.map)}, {had}{_reads(after, a.filling, entries)}")
    for m in new:
        filling = after.kept[m.name].filling if m.name in after.kept else ()
        lines.append(f"  FILL {_said(m)}{_reads(after, filling, entries)}")
    lines += [f"  DROP {_said(m)}, {entries.get(m.name, 0):,} entries" for m in gone]
    return "\n".join(lines)


def _said(m: Map) -> str:
    return f"{m.note or 'looked up by deltas'}, by {', '.join(m.lookup) or 'nothing'}"


def _reads(program: Program, filling: Iterable[Statement], entries: Mapping[str, int]) -> str:
    """What the filling of a map reads: relations whole, and maps by key."""
    held = {x.reads[0]: x.name for x in program.maps.values() if x.fields and len(x.reads) == 1}
    whole, by_key = dict[str, None](), dict[str, None]()
    for s in filling:
        if s.drives in program.strata:
            whole[f"the answer {s.drives}"] = None
        else:
            count = entries.get(held.get(s.drives, ""), 0)
            whole[f"`{s.drives}` ({count:,} entries)"] = None
        by_key |= {
            f"{program.maps[n].note or 'a map'} ({entries.get(n, 0):,} entries)": None
            for n in s.reads
        }
    out = f", from all of {' and '.join(whole)}" if whole else ""
    return out + (f", looking up {' and '.join(by_key)}" if by_key else "")
