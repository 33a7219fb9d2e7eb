"""The program of a view as a picture: sources, maps, strata and the view, left to right, as SVG.

An edge from a source to a map is a statement that the source's change drives; a dashed one from a map to a map is a
look-up. Maps that grow for ever have a red border. A notebook shows it beside the text of `explain`.
"""

from __future__ import annotations

from html import escape

from headwater.plan.analysis import changes_of
from headwater.plan.program import Map, Program, View

WIDTH, HEIGHT, ACROSS, DOWN = 190, 34, 250, 54
COLORS = {
    "source": "#dbe9f6",
    "map": "#f3f3f3",
    "group": "#fdeccf",
    "stratum": "#e3f1dc",
    "view": "#cfe8cf",
    "stage": "#fdeccf",
    "flow": "#f3f3f3",
}


def draw(
    program: Program,
    view: View,
    maps: list[Map],
    strata: list[str],
    growing: frozenset[str] = frozenset(),
) -> str:
    """The picture of a view that needs some maps and strata, of which some maps grow for ever."""
    boxes: dict[str, tuple[str, str, int]] = {}
    edges: list[tuple[str, str, bool]] = []
    groups = {m.name for s in strata for m in program.strata[s].maps}
    for m in maps:
        at = 1 + 3 * m.level + (1 if m.name in groups or m in view.maps else 0)
        boxes[m.name] = (m.note or "looked up", "group" if m.name in groups else "map", at)
        for relation in m.reads:
            if relation not in program.strata:
                boxes.setdefault(relation, (relation, "source", 0))
            edges.append((relation, m.name, False))
        for _, statement in changes_of(program, [m]):
            edges += [(name, m.name, True) for name in sorted(statement.reads)]
    for name in strata:
        s = program.strata[name]
        boxes[name] = (f"answers ({', '.join(n for n, _ in s.row)})", "stratum", 3 + 3 * s.level)
        edges += [(m.name, name, False) for m in s.maps]
    last = 1 + max((at for _, _, at in boxes.values()), default=0)
    boxes[view.name] = (view.name, "view", last)
    read = [m.name for m in view.maps] if view.stratum is None else [view.stratum]
    edges.extend((name, view.name, False) for name in read)
    return svg(boxes, list(dict.fromkeys(edges)), growing)


def svg(
    boxes: dict[str, tuple[str, str, int]],
    edges: list[tuple[str, str, bool]],
    growing: frozenset[str] = frozenset(),
) -> str:
    """Boxes by name, with their text, kind and column, some marked, and edges between them, some dashed."""
    columns = sorted({at for _, _, at in boxes.values()})
    place: dict[str, tuple[int, int]] = {}
    filled = dict.fromkeys(columns, 0)
    for name, (_, _, at) in boxes.items():
        place[name] = (10 + ACROSS * columns.index(at), 10 + DOWN * filled[at])
        filled[at] += 1
    out = []
    for a, b, dashed in edges:
        if a in place and b in place:
            (x, y), (u, v) = place[a], place[b]
            style = ' stroke-dasharray="4 3"' if dashed else ""
            start = x + WIDTH if u > x else x
            end = u if u > x else u + WIDTH
            middle = (start + end) / 2
            path = f"M{start},{y + 17} C{middle},{y + 17} {middle},{v + 17} {end},{v + 17}"
            out.append(f'<path d="{path}" fill="none" stroke="#888"{style}/>')
    for name, (text, kind, _) in boxes.items():
        x, y = place[name]
        border = 'stroke="#c0392b" stroke-width="2.5"' if name in growing else 'stroke="#666"'
        out.append(
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="{COLORS[kind]}" {border}/>'
            f'<text x="{x + 8}" y="{y + 21}" font-size="12">{escape(_short(text))}</text>'
        )
    width, height = 20 + ACROSS * len(columns), 20 + DOWN * max(filled.values(), default=1)
    body = "".join(out)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif">{body}</svg>'
    )


def _short(text: str) -> str:
    return text if len(text) <= 28 else text[:27] + "…"


class Explanation(str):
    """The text of `explain`; a notebook draws it too."""

    svg: str

    def __new__(cls, text: str, svg: str) -> Explanation:
        made = super().__new__(cls, text)
        made.svg = svg
        return made

    def _repr_html_(self) -> str:
        return f"{self.svg}<pre>{escape(str(self))}</pre>"

    def __repr__(self) -> str:
        return str(self)
