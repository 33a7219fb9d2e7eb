"""The crawl queue three ways, with the same functions: state that is kept, state that is sent round, and no state.

    direct      stages with state: an epoch looks up what its rows name, and puts what changed
    black box   the state is a flow like any other, in a cycle: every epoch reads all of it, and writes all of it again
    landmark    every increment is all pages so far, and there is no state

Links are drawn so that state grows as that of a crawl does: a quarter of them go to as many URLs as an increment has pages,
the others to 170 times as many, so that after ten increments there are six URLs for ten links. (A crawl of a billion pages,
ClueWeb09, has 4.8 billion URLs in 7.9 billion links.) An increment names about as many URLs whenever it comes.
"""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from math import log1p
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import headwater as hw
from headwater import flow
from headwater.dataflow import tasks

PAGES = "url STRING, html STRING"
LINKS = "source STRING, url STRING, site STRING"
URLS = "site STRING, url STRING, n BIGINT"
COUNTED = {"urls": URLS, "sites": "site STRING, n BIGINT"}
MERGED = "url STRING, n BIGINT, of_site BIGINT"
SCORED = "url STRING, score DOUBLE"
LINKS_A_PAGE, ENOUGH, POPULAR, TAIL = 10, 3.0, 0.25, 170
HREF = re.compile(r'href="([^"]*)"')


# --- pages -----------------------------------------------------------------------------------------------------------


def crawled(pages: int, increments: int, seed: int = 7) -> list[pa.Table]:
    """Increments of so many pages, each with ten links; no page comes twice."""
    rng = np.random.default_rng(seed)
    many, sites = pages * TAIL, max(pages // 27, 1)
    chosen = rng.permutation(many)[: pages * increments].tolist()
    popular = rng.integers(0, pages, (len(chosen), LINKS_A_PAGE))
    others = rng.integers(0, many, (len(chosen), LINKS_A_PAGE))
    targets = np.where(rng.random(popular.shape) < POPULAR, popular, others).tolist()

    def url(n: int) -> str:
        return f"s{n % sites}.org/{n}"

    html = [" ".join(f'<a href="{url(t)}">' for t in some) for some in targets]
    names = [url(n) for n in chosen]
    whole = pa.table({"url": pa.array(names), "html": pa.array(html)})
    return [whole.slice(i * pages, pages) for i in range(increments)]


def cut(increments: Iterable[pa.Table], into: int) -> list[pa.Table]:
    """Each increment as several."""
    out = []
    for t in increments:
        step = -(-t.num_rows // into)
        out += [t.slice(i, step) for i in range(0, t.num_rows, step)]
    return out


def expected(increments: Iterable[pa.Table], again: bool) -> Counter[tuple[str, float]]:
    """What the queue has been given after some increments, in plain Python; with `again` every URL is told of each time."""
    urls, sites, seen = Counter[str](), Counter[str](), set[str]()
    out = Counter[tuple[str, float]]()
    for table in increments:
        found = [u for text in table.column("html").to_pylist() for u in HREF.findall(text)]
        seen.update(table.column("url").to_pylist())
        urls.update(found)
        sites.update(map(site_of, found))
        for url in urls if again else set(found):
            score = log1p(urls[url]) + log1p(sites[site_of(url)]) / 10
            if url not in seen and score > ENOUGH:
                out[url, score] += 1
    return out


# --- the functions ---------------------------------------------------------------------------------------------------


def site_of(url: str) -> str:
    return url.split("/")[0]


def links_of(page: Any) -> Any:
    return [(page.url, u, site_of(u)) for u in HREF.findall(page.html)]


def count(site: str, links: list[Any], urls: Any, total: Any) -> Iterator[Any]:
    """In-links per URL and per site; `urls` and `total` are records, kept by the stage or by hand."""
    for url, some in groupby(links, attrgetter("url")):
        held = urls[url]
        held.n = n = (held.n or 0) + sum(1 for _ in some)
        yield "urls", (site, url, n)
    total.n = (total.n or 0) + len(links)
    yield "sites", (site, total.n)


def merge(urls: list[Any], sites: list[Any], pages: list[Any], seen: Any) -> list[Any]:
    """The URLs that are not among the pages seen, with the numbers of both."""
    for page in pages:
        seen[page.url].seen = True
    return [(u.url, u.n, sites[0].n) for u in urls if not seen[u.url].seen]


def score(u: Any) -> Any:
    return u.url, log1p(u.n) + log1p(u.of_site) / 10


def choose(s: Any) -> Any:
    return s if s.score > ENOUGH else None


class Entry:
    """A record that is held by hand."""

    __slots__ = ("n", "seen")

    def __init__(self, n: int | None = None, seen: bool | None = None):
        self.n, self.seen = n, seen


class Held(dict[str, Entry]):
    """Records by key, held by hand; those that nobody names stay the rows that they were read as."""

    def __init__(self, rows: Iterable[Any] = ()):
        super().__init__()
        self.rows = {r.url: r for r in rows}

    def __missing__(self, url: str) -> Entry:
        row = self.rows.get(url)
        made = self[url] = Entry(getattr(row, "n", None), None if row is None else True)
        return made

    def untouched(self) -> Iterator[Any]:
        """Rows to pass on as they are."""
        return (row for url, row in self.rows.items() if url not in self)


# --- the graphs ------------------------------------------------------------------------------------------------------


def behind(db: hw.Database) -> None:
    """What follows the two stages that count and merge."""

    @db.stage("merged", out=SCORED)
    def scored(u: Any) -> Any:
        return score(u)

    @db.stage("scored", out=SCORED)
    def queue(s: Any) -> Any:
        return choose(s)


def by_site(page: Any) -> str:
    return site_of(page.url)


MERGES = (
    flow.reads("urls", by="site", order_by="url"),
    flow.reads("sites", by="site"),
    flow.reads("pages", by=flow.route(by_site, "site STRING")),
)


def direct(db: hw.Database) -> None:
    """Stages with state."""
    db.source("pages", PAGES, retain=False)

    @db.stage("pages", out=LINKS)
    def links(page: Any) -> Any:
        return links_of(page)

    each = flow.record("n BIGINT", key="url STRING", only="url")

    @db.stage(
        "links", by="site", order_by="url", state={"site": "n BIGINT", "each": each}, out=COUNTED
    )
    def inlinks(site: str, links: Any, state: Any) -> Any:
        return count(site, links, state.each, state.site)

    @db.stage(*MERGES, state=flow.record("seen BOOLEAN", key="url STRING", only="url"), out=MERGED)
    def merged(site: str, urls: Any, sites: Any, pages: Any, state: Any) -> Any:
        return merge(urls, sites, pages, state)

    behind(db)


def landmark(db: hw.Database) -> None:
    """All pages each time, and no state."""
    db.source("pages", PAGES, retain=False)

    @db.stage("pages", runnable=flow.landmark("pages"), out=LINKS)
    def links(page: Any) -> Any:
        return links_of(page)

    @db.stage("links", by="site", order_by="url", out=COUNTED)
    def inlinks(site: str, links: Any) -> Any:
        return count(site, links, Held(), Entry())

    @db.stage(*MERGES, runnable=flow.landmark("pages"), out=MERGED)
    def merged(site: str, urls: Any, sites: Any, pages: Any) -> Any:
        return merge(urls, sites, pages, Held())

    behind(db)


def with_state(*inputs: str, state: str) -> Any:
    """A runnable: an increment of every input, and of the state too, but for the first time."""

    def ready(waiting: Any, small: Any) -> Any:
        needed = [*inputs, state] if small else inputs
        return (
            flow.Run(dict.fromkeys(needed, 1), small=1)
            if all(len(waiting[n]) for n in needed)
            else None
        )

    return ready


def black_box(db: hw.Database) -> None:
    """The state of both stages is a flow of its own that they write and read."""
    db.source("pages", PAGES, retain=False)
    db.flow("counts", URLS, retain=False)
    db.flow("known", "site STRING, url STRING", retain=False)

    @db.stage("pages", out=LINKS)
    def links(page: Any) -> Any:
        return links_of(page)

    @db.stage(
        flow.reads("links", by="site", order_by="url"),
        flow.reads("counts", by="site"),
        runnable=with_state("links", state="counts"),
        out={**COUNTED, "counts": db["counts"]},
    )
    def inlinks(site: str, links: Any, counts: Any) -> Any:
        held, total = Held(counts), Entry(sum(c.n for c in counts))
        if links:
            yield from count(site, links, held, total)
        yield from (("counts", tuple(r)) for r in held.untouched())
        yield from (("counts", (site, url, e.n)) for url, e in held.items())

    @db.stage(
        *MERGES,
        flow.reads("known", by="site"),
        runnable=with_state("urls", "sites", "pages", state="known"),
        out={"merged": MERGED, "known": db["known"]},
    )
    def decides(site: str, urls: Any, sites: Any, pages: Any, known: Any) -> Any:
        held = Held(known)
        yield from (("merged", row) for row in merge(urls, sites, pages, held))
        yield from (("known", tuple(r)) for r in held.untouched())
        yield from (("known", (site, url)) for url, e in held.items() if e.seen)

    behind(db)


WAYS: dict[str, Callable[[hw.Database], None]] = {
    "direct": direct,
    "black box": black_box,
    "landmark": landmark,
}


# --- running ---------------------------------------------------------------------------------------------------------


@dataclass
class Crawl:
    """What increments took: seconds of the processor and by the clock, and the seconds of stages; of all together."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    stages: list[dict[str, float]] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    """Runs that the counts of URLs are in, after each increment."""
    kept: int = 0
    """Bytes of state at the end, in files or in the flows that are sent round."""


def crawl(way: str, increments: Sequence[pa.Table], home: Path, spark: Any = None) -> Crawl:
    """Runs increments one after another; the queue at the end is compared with plain Python."""
    out = Crawl()
    with hw.open(home, spark=spark) as db:
        db.policy.execution = "driver" if spark is None else "spark"
        WAYS[way](db)
        before: dict[str, float] = {}
        for table in increments:
            cpu, wall = time.process_time(), time.perf_counter()
            db.apply({"pages": table})
            db.run()
            out.cpu.append(time.process_time() - cpu)
            out.wall.append(time.perf_counter() - wall)
            now = {n: node.seconds for n, node in db.graph.nodes.items()}
            out.stages.append({n: s - before.get(n, 0) for n, s in now.items()})
            out.runs.append(len(state_runs(db, ("s:inlinks.each",))))
            before = now
        out.kept = kept_bytes(db)
        rows = db.table("queue")
        found = Counter[tuple[str, float]]()
        for r in rows.to_pylist():
            found[r["url"], r["score"]] += r["_w"]
    wanted = expected(increments, again=way == "landmark")
    if {k: n for k, n in found.items() if n} != wanted:
        raise AssertionError(f"the queue of the crawl, {way}, is not that of plain Python")
    return out


def state_runs(db: hw.Database, names: Iterable[str]) -> list[Any]:
    """The runs of some maps, if they are there."""
    maps = db.store.at(db.version).version.maps
    return [r for n in names if n in maps for r in maps[n][1]]


def kept_bytes(db: hw.Database) -> int:
    """Bytes of what stages keep, and of flows that are their state."""
    mine = [n for n in db.store.at(db.version).version.maps if n.startswith("s:")]
    return sum(r.size for r in state_runs(db, [*mine, "q:inlinks.counts", "q:decides.known"]))


# --- what the exchange carries ---------------------------------------------------------------------------------------


def _noted(
    log: str, real: Callable[[int, str, bytes], Any], part: int, name: str, content: bytes
) -> Any:
    """A blob for a part, of which the input and the size are noted in a file."""
    with open(log, "a") as f:
        f.write(f"{name} {len(content)}\n")
    return real(part, name, content)


def exchanged(
    way: str, increments: Sequence[pa.Table], home: Path, spark: Any
) -> list[dict[str, int]]:
    """By increment and input, the bytes that all epochs send from task to task on Spark."""
    log, real, out = home / "sent", tasks._blob, list[dict[str, int]]()
    tasks._blob = partial(_noted, str(log), real)  # it travels to the tasks with what calls it
    try:
        with hw.open(home / "db", spark=spark) as db:
            db.policy.execution = "spark"
            WAYS[way](db)
            for table in increments:
                log.write_text("")
                db.apply({"pages": table})
                db.run()
                sent: dict[str, int] = {}
                for line in log.read_text().splitlines():
                    name, _, size = line.rpartition(" ")
                    sent[name] = sent.get(name, 0) + int(size)
                out.append(sent)
            found = Counter(
                {(r["url"], r["score"]): r["_w"] for r in db.table("queue").to_pylist()}
            )
    finally:
        tasks._blob = real
    if found != expected(increments, again=False):
        raise AssertionError(f"the queue of the crawl on Spark, {way}, is not that of plain Python")
    return out
