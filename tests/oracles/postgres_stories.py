"""Random transactions on a table of PostgreSQL, with every type that is read, keys that change, and truncations."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

SCHEMA = (
    "id int, b bigint, n decimal(12, 3), s string, ok boolean, d date, ts timestamp_ntz, tz timestamp,"
    " f double, raw binary, doc string, u string"
)
COLUMNS = (
    "id int {}, b bigint, n numeric(12, 3), s text, ok bool, d date, ts timestamp, tz timestamptz,"
    " f float8, raw bytea, doc jsonb, u uuid"
)
_ROW = """(
    {id}, {r}::bigint * 3000000000, {r} / 8.0, CASE {r} % 5 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'a "b", c' || chr(10) || {r} END,
    {r} % 2 = 0, date '2020-02-28' + {r}, timestamp '2021-03-04 05:06:07.125' + {r} * interval '1 minute',
    timestamptz '2021-03-04 05:06:07.5+02' + {r} * interval '1 hour', {r} * 1e100 / 3, decode(lpad(to_hex({r}), 8, '0'), 'hex'),
    jsonb_build_object('r', {r}), md5('{r}')::uuid)"""


def one(
    connection: Any, table: str, rng: random.Random, ids: int = 40, inside: bool = False
) -> None:
    """A transaction of up to six statements; one in eight is rolled back, and some have savepoints.

    `inside` a transaction it is one statement of it, which leaves rows below 0 alone.
    """
    if inside:
        _statement(connection, table, rng, ids, alone=False)
        return
    rolled_back = rng.random() < 0.125
    connection.execute("BEGIN")
    for _ in range(rng.randint(1, 6)):
        _statement(connection, table, rng, ids)
        if rng.random() < 0.1:
            connection.execute("SAVEPOINT a")
            _statement(connection, table, rng, ids)
            connection.execute("ROLLBACK TO a" if rng.random() < 0.5 else "RELEASE a")
    connection.execute("ROLLBACK" if rolled_back else "COMMIT")


def _statement(
    connection: Any, table: str, rng: random.Random, ids: int, alone: bool = True
) -> None:
    i, j, r = rng.randrange(ids), rng.randrange(ids), rng.randrange(10_000)
    kind = rng.random()
    if kind < 0.4:
        free = f"WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE id = {i})"
        connection.execute(
            f"INSERT INTO {table} SELECT * FROM (VALUES {_ROW.format(id=i, r=r)}) AS v {free}"
        )
    elif kind < 0.6:
        connection.execute(
            f"UPDATE {table} SET b = {r}, s = 'new {r}', n = NULL WHERE id >= 0 AND id % 7 = {i % 7}"
        )
    elif kind < 0.75:
        free = f"AND NOT EXISTS (SELECT 1 FROM {table} WHERE id = {j})"
        connection.execute(f"UPDATE {table} SET id = {j} WHERE id = {i} {free}")
    elif kind < 0.85:  # all keys move at once
        connection.execute(f"UPDATE {table} SET id = id + {ids} WHERE id >= 0")
        connection.execute(f"UPDATE {table} SET id = (id + {i}) % {ids} WHERE id >= 0")
    elif kind < 0.98:
        connection.execute(f"DELETE FROM {table} WHERE id >= 0 AND id % 5 = {i % 5}")
    elif alone:
        connection.execute(f"TRUNCATE {table}")


def rows_of(connection: Any, table: str) -> Counter[Any]:
    """The rows of the table as the feed gives them."""
    found = connection.execute(f"SELECT *, doc::text, u::text FROM {table}").fetchall()
    return Counter((*r[:10], *r[12:]) for r in found)
