"""DuckDB beside Headwater in one process, where each leaves the memory of the other alone."""

from __future__ import annotations

import duckdb

NEVER = "1 TB"


def connected() -> duckdb.DuckDBPyConnection:
    """A database in memory that keeps what it has freed.

    Else DuckDB has the C library give back all free memory of the process, that of others too, and the increment that comes next
    pays for every page anew: 100 thousand of them, which took 0.1 s, and 1.3 s once Spark had used the memory meanwhile.
    """
    con = duckdb.connect()
    for setting in ("allocator_flush_threshold", "allocator_bulk_deallocation_flush_threshold"):
        con.execute(f"SET {setting} = '{NEVER}'")
    return con
