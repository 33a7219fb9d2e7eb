"""TPC-H as a stream of changes: its tables at a scale, its queries, and increments that insert and delete.

The tables come from `tpchgen-cli`. A stream holds some rows of them back; each increment inserts some of those, and
deletes some that are there. An order comes and goes with its lines. What was deleted may be inserted again later, so
groups that emptied come back. Every row of a table is different, so a table is its full rows and which are there.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Tables = dict[str, pa.Table]
Change = dict[str, tuple[pa.Table, pa.Table]]
"""Inserted and deleted rows by table."""
Mask = np.ndarray[Any, np.dtype[np.bool_]]

SCHEMAS = {
    "region": "r_regionkey BIGINT, r_name STRING, r_comment STRING",
    "nation": "n_nationkey BIGINT, n_name STRING, n_regionkey BIGINT, n_comment STRING",
    "supplier": """s_suppkey BIGINT, s_name STRING, s_address STRING, s_nationkey BIGINT, s_phone STRING,
        s_acctbal DECIMAL(15,2), s_comment STRING""",
    "customer": """c_custkey BIGINT, c_name STRING, c_address STRING, c_nationkey BIGINT, c_phone STRING,
        c_acctbal DECIMAL(15,2), c_mktsegment STRING, c_comment STRING""",
    "part": """p_partkey BIGINT, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING, p_size INT,
        p_container STRING, p_retailprice DECIMAL(15,2), p_comment STRING""",
    "partsupp": """ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost DECIMAL(15,2),
        ps_comment STRING""",
    "orders": """o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(15,2),
        o_orderdate DATE, o_orderpriority STRING, o_clerk STRING, o_shippriority INT, o_comment STRING""",
    "lineitem": """l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT,
        l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2),
        l_returnflag STRING, l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE,
        l_shipinstruct STRING, l_shipmode STRING, l_comment STRING""",
}
STATIC = ("region", "nation")
"""Tables that never change: declared so, and filled before the first view."""
QUERIES = [f"q{n:02}" for n in range(1, 23)]
SMALL = 0.1
"""Below this scale some parameters of the benchmark select nothing, and others take their place."""


# --- queries -----------------------------------------------------------------------------------------------------


def query(name: str, scale: float) -> str:
    """The text of a query at a scale, without its comments.

    `-- at small scale: a => b` puts b for a below the scale SMALL, and `-- divided by the scale: x` a number that the
    benchmark defines so.
    """
    lines = (Path(__file__).parent / "queries" / f"{name}.sql").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("--"))
    for line in lines:
        if line.startswith("-- at small scale: "):
            old, new = line.removeprefix("-- at small scale: ").split(" => ")
        elif line.startswith("-- divided by the scale: "):
            old = line.removeprefix("-- divided by the scale: ")
            new = f"{Decimal(old) / Decimal(str(scale)):f}"
        else:
            continue
        assert old in text, f"{name} has no {old}"
        if scale < SMALL or line.startswith("-- divided"):
            text = text.replace(old, new)
    return text


# --- tables ------------------------------------------------------------------------------------------------------


def declare(db: Any, tables: Tables) -> None:
    """Declares all tables as sources of a database, and fills those that never change."""
    for name, ddl in SCHEMAS.items():
        db.source(name, ddl, static=name in STATIC)
    db.apply({name: tables[name] for name in STATIC})


def generated(
    scale: float, folder: Path, columns: Mapping[str, Sequence[str]] | None = None
) -> Tables:
    """The tables at a scale, all or some columns of some, from a folder of Parquet files that is filled if it is not."""
    at = folder / f"scale-{scale:g}"
    if not (at / "done").exists():
        program = Path(sys.executable).parent / "tpchgen-cli"
        made = [str(program), "parquet", "--quiet", "--overwrite"]
        subprocess.run([*made, "--scale-factor", f"{scale:g}", "--output-dir", at], check=True)
        (at / "done").touch()
    wanted: Mapping[str, Any] = columns or dict.fromkeys(SCHEMAS)
    return {
        name: plain(pq.read_table(at / f"{name}.parquet", columns=some))
        for name, some in wanted.items()
    }


def plain(table: pa.Table) -> pa.Table:
    """A table with strings instead of views of strings, which not all readers know."""
    strings = {pa.string_view(): pa.string()}
    fields = [pa.field(f.name, strings.get(f.type, f.type)) for f in table.schema]
    return table.cast(pa.schema(fields)).combine_chunks()


# --- changes -----------------------------------------------------------------------------------------------------


class Stream:
    """Tables that grow and shrink: `tables` is what is there now, and each of `changes` makes it other.

    `held` is the share of a table's rows that are not there at first; increment for increment an equal part of them
    is inserted. `deleted` is the share of a table's present rows that an increment deletes; half of them come back in
    the next one if `again`. Both name `orders` for orders with their lines, and both may be a number of rows, of all
    increments and of each, instead of a share. `torn` is the share of those lines that
    are missing all the same, other ones after every increment: orders gain and lose lines while they are there.
    """

    def __init__(
        self,
        tables: Tables,
        increments: int,
        held: Mapping[str, float],
        deleted: Mapping[str, float],
        again: bool = True,
        torn: float = 0.0,
        seed: int = 1,
    ):
        self.full, self.increments = tables, increments
        self.deleted, self.again, self.torn = deleted, again, torn
        self.rng = np.random.default_rng(seed)
        self.there: dict[str, Mask] = {n: np.ones(t.num_rows, bool) for n, t in tables.items()}
        self.waiting: dict[str, list[Any]] = {}
        for name, share in held.items():
            rows = self.full[name].num_rows
            some = self.rng.choice(rows, count(share, rows), replace=False)
            self.waiting[name] = np.array_split(some, increments)
            self.there[name][some] = False
        self.there["lineitem"] = self._lines(self.there["orders"])

    @property
    def tables(self) -> Tables:
        """What is there now."""
        return {n: self._rows(n, there) for n, there in self.there.items()}

    @property
    def load(self) -> Tables:
        """What is there now of the tables that change."""
        return {n: t for n, t in self.tables.items() if n not in STATIC}

    def changes(self) -> Iterator[Change]:
        """The increments; when one is given out, `tables` has it."""
        back: dict[str, Any] = {}
        for i in range(self.increments):
            before = dict(self.there)
            for name, share in self.deleted.items():
                there = before[name].copy()
                present = np.flatnonzero(there)
                gone = self.rng.choice(present, count(share, len(present)), replace=False)
                there[gone] = False
                there[back.get(name, [])] = True
                there[self.waiting[name][i]] = True
                back[name] = gone[: len(gone) // 2] if self.again else []
                self.there[name] = there
            self.there["lineitem"] = self._lines(self.there["orders"])
            yield {
                name: (self._rows(name, after & ~was), self._rows(name, was & ~after))
                for name, was in before.items()
                if ((after := self.there[name]) != was).any()
            }

    def _rows(self, name: str, mask: Mask) -> pa.Table:
        return self.full[name].filter(pa.array(mask)).combine_chunks()

    def _lines(self, orders: Mask) -> Mask:
        """Which lines are of orders that are there."""
        keys = np.asarray(self.full["orders"].column("o_orderkey"))[orders]
        made: Mask = np.isin(np.asarray(self.full["lineitem"].column("l_orderkey")), keys)
        if self.torn:
            made &= self.rng.random(len(made)) >= self.torn
        return made


def count(share: float, rows: int) -> int:
    """So many of some rows: a share of them, or a number."""
    return round(rows * share) if share < 1 else int(share)


GROWING = ("orders", "customer", "partsupp", "supplier", "part")


def half_way(tables: Tables, increments: int = 6) -> Stream:
    """From half of the growing tables to all, with a twentieth deleted on the way by each increment."""
    return Stream(tables, increments, dict.fromkeys(GROWING, 0.5), dict.fromkeys(GROWING, 0.05))


def thousandths(tables: Tables, increments: int) -> Stream:
    """Increments of a thousandth of the orders, with their lines, and of partsupp: as many inserted as deleted."""
    names = ("orders", "partsupp")
    held = dict.fromkeys(names, 0.001 * increments)
    return Stream(tables, increments, held, dict.fromkeys(names, 0.001), again=False)
