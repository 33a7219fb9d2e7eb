"""`verify` of loops: by Spark's own recursion, by the steps round by round, or by the interpreter; and it finds what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headwater as hw
from headwater.engine import loops
from headwater.engine.verify import recompute, spark_rounds
from headwater.errors import NoFixpoint, StateError
from headwater.language.schema import schemas
from headwater.language.sql.recursive_steps import steps

pytestmark = pytest.mark.spark

PARTS = """WITH RECURSIVE b (top, part, n) MAX RECURSION LEVEL 20 AS (SELECT src, dst, n FROM edges UNION ALL
  SELECT b.top, e.dst, b.n * e.n FROM b JOIN edges e ON e.src = b.part) SELECT top, sum(n) AS n FROM b GROUP BY top"""
REACHED = """WITH RECURSIVE r AS (SELECT src, dst FROM edges UNION SELECT r.src, e.dst FROM r JOIN edges e ON e.src = r.dst)
  SELECT * FROM r"""
RANKED = """WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 3) degrees (node BIGINT, n BIGINT) AS (
    SELECT src, count(*) FROM edges GROUP BY src),
  ranks (node BIGINT, rank DOUBLE) AS (SELECT node, 0.15D + sum(w) AS rank FROM (SELECT node, 0D AS w FROM degrees UNION ALL
    SELECT e.dst, 0.85D * r.rank / d.n FROM ranks r JOIN edges e ON e.src = r.node JOIN degrees d ON d.node = r.node)
    GROUP BY node) SELECT * FROM ranks"""
BOTH = """WITH MUTUALLY RECURSIVE edges (src BIGINT, dst BIGINT) AS (SELECT a, b FROM far UNION SELECT b, a FROM far),
  far (a BIGINT, b BIGINT) AS (SELECT src, dst FROM hops UNION SELECT e.src, h.dst FROM edges e JOIN hops h ON h.src = e.dst)
  SELECT * FROM edges"""
INSIDE = f"SELECT count(*) AS n FROM ({REACHED})"


@hw.query
def labels(edges: Any) -> Any:
    nodes = [{"node": n} for n in {e.src for e in edges}]
    return hw.repeat(
        [{"node": n["node"], "label": n["node"]} for n in nodes],
        lambda old: [
            {
                "node": n["node"],
                "label": min(
                    [o.label for o in old if o.node == n["node"]]
                    + [o.label for e in edges if e.dst == n["node"] for o in old if o.node == e.src]
                ),
            }
            for n in nodes
        ],
    )


VIEWS: dict[str, Any] = {
    "parts": PARTS,
    "reached": REACHED,
    "ranks": RANKED,
    "both": BOTH,
    "inside": INSIDE,
    "labels": labels,
    "above": "SELECT r.src, p.n, count(*) AS c FROM reached r JOIN parts p ON p.top = r.src GROUP BY r.src, p.n",
}
ACYCLIC = [(1, 2, 2), (1, 3, 1), (2, 4, 3), (3, 4, 1), (4, 5, 2)]


@pytest.fixture(scope="module")
def db(tmp_path_factory: Any) -> Iterator[hw.Database]:
    from spark_session import session

    with hw.open(tmp_path_factory.mktemp("loops") / "db", session()) as made:
        made.source("edges", "src BIGINT, dst BIGINT, n BIGINT")
        made.source("hops", "src BIGINT, dst BIGINT")
        for name, query in VIEWS.items():
            made.view(name, query)
        made.apply({"edges": ACYCLIC, "hops": [(1, 2), (2, 3)]})
        made.apply({"edges": hw.Delta(inserts=[(5, 6, 1)], deletes=[(3, 4, 1)])})
        yield made


def test_who_computes_what(db: hw.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """UNION ALL goes to Spark as it is, other recursion round by round, and what stands inside to the interpreter."""
    asked = list[str]()

    def noted(name: str, f: Any) -> Any:
        return lambda *a: (asked.append(name), f(*a))[1]

    monkeypatch.setattr(recompute, "by_rounds", noted("rounds", recompute.by_rounds))
    monkeypatch.setattr(recompute, "query", noted("whole", recompute.query))
    monkeypatch.setattr(
        "headwater.api.verify.by_interpreter", noted("interpreter", recompute.by_interpreter)
    )
    ways = {}
    for name in VIEWS:
        asked.clear()
        remarks = db.verify(name)
        ways[name] = sorted(set(asked)) + sorted(remarks)
    assert ways == {
        "parts": ["whole"],
        "reached": ["rounds"],
        "ranks": ["rounds"],
        "both": ["rounds"],
        "inside": ["interpreter"],
        "labels": ["interpreter"],
        "above": ["rounds", "whole"],
    }


def test_names_that_hide_sources_are_given_back(db: hw.Database) -> None:
    """`both` calls a query of its own `edges`, and what is computed after it reads the source."""
    db.view("beside", "SELECT b.src, e.n FROM both b JOIN edges e ON e.src = b.src")
    assert not db.verify("beside")
    assert not [t.name for t in db.session.spark.catalog.listTables() if t.isTemporary]


def test_rounds_end(db: hw.Database) -> None:
    text = "WITH MUTUALLY RECURSIVE (ERROR AT RECURSION LIMIT 2) x (n INT) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT * FROM x"
    made = steps(text, schemas("t(a INT)"))
    assert made is not None
    with pytest.raises(NoFixpoint, match="still changes at round 2"):
        spark_rounds.by_rounds(db.session.spark, made)
    again = steps(text.replace("ERROR", "RETURN"), schemas("t(a INT)"))
    assert again is not None
    assert sorted(r.n for r in spark_rounds.by_rounds(db.session.spark, again).collect()) == [1, 2]


def test_rounds_that_were_left_out_are_found(
    db: hw.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of each way, and the last test of this database, which is wrong from here on."""
    planned = loops._by_round

    def early(agenda: Any, table: pa.Table, name: str) -> None:
        planned(agenda, table.filter(pc.less_equal(table.column(name), 1)), name)

    monkeypatch.setattr(loops, "_by_round", early)
    db.apply({"edges": [(0, 1, 1)], "hops": [(3, 4)]})
    monkeypatch.undo()
    for name in ("parts", "reached", "labels"):
        with pytest.raises(StateError, match=f"`{name}` differs from its query"):
            db.verify(name)
