"""A crawl queue: links out of pages, in-links per URL and per site at once, a score, and the URLs worth fetching.

Stages say what SQL does not; a view says the rest. Pages come in increments, and every stage keeps what it needs.
Run it with `python examples/crawl.py`.
"""

from __future__ import annotations

import re
import tempfile
from itertools import groupby
from math import log1p

import headwater as hw
from headwater import flow

PAGES = "url STRING, html STRING"
BEST = "SELECT url, max(score) AS score, count(*) AS times FROM queue GROUP BY url"


def site_of(url: str) -> str:
    return url.split("/")[0]


@flow.stage("pages", out="source STRING, url STRING, site STRING")
def links(page):  # row by row: what is deleted in front of it is deleted behind it
    return [(page.url, u, site_of(u)) for u in re.findall(r'href="([^"]*)"', page.html)]


@flow.stage(
    "links",
    by="site",
    order_by="url",  # `only`: of the URLs of a site, those that its new links name
    state={"site": "n BIGINT", "urls": flow.record("n BIGINT", key="url STRING", only="url")},
    out={"urls": "site STRING, url STRING, n BIGINT", "sites": "site STRING, n BIGINT"},
)
def inlinks(site, links, state):
    for url, some in groupby(links, lambda link: link.url):
        state.urls[url].n = n = (state.urls[url].n or 0) + len(list(some))
        yield "urls", (site, url, n)
    state.site.n = (state.site.n or 0) + len(links)
    yield "sites", (site, state.site.n)


@flow.stage(
    flow.reads("urls", by="site", order_by="url"),
    flow.reads("sites", by="site"),
    flow.reads("pages", by=flow.route(lambda page: site_of(page.url), "site STRING")),
    state=flow.record("seen BOOLEAN", key="url STRING", only="url"),
    out="url STRING, n BIGINT, of_site BIGINT",
)
def merged(site, urls, sites, pages, state):
    for page in pages:
        state[page.url].seen = True
    return [(u.url, u.n, sites[0].n) for u in urls if not state[u.url].seen]


@flow.stage("merged", out="url STRING, score DOUBLE")
def scored(u):
    return u.url, log1p(u.n) + log1p(u.of_site) / 10


@flow.stage("scored", out="url STRING, score DOUBLE")
def queue(s):
    return s if s.score > 1 else None


STAGES = [links, inlinks, merged, scored, queue]


def define(db: hw.Database) -> None:
    """The source, the stages, and a view over what they give."""
    db.source("pages", PAGES)
    for stage in STAGES:
        db.stage(stage)
    db.view("best", BEST)


def page(url: str, *links: str) -> tuple[str, str]:
    return url, " ".join(f'<a href="{u}">' for u in links)


def main(folder: str) -> None:
    """Three increments of pages; after each, what to fetch next."""
    with hw.open(folder) as db:
        define(db)
        for pages in (
            [page("a.org/", "b.org/", "b.org/x", "c.org/"), page("a.org/1", "b.org/x", "c.org/")],
            [page("c.org/", "b.org/x", "b.org/y", "a.org/2"), page("a.org/2", "b.org/y")],
            [page("b.org/x", "c.org/", "b.org/y", "d.org/")],
        ):
            db.apply({"pages": pages})
            db.run()
            best = sorted(db.table("best").to_pylist(), key=lambda r: (-r["score"], r["url"]))
            print(f"{len(pages)} pages:", ", ".join(f"{r['url']} {r['score']:.3f}" for r in best))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
