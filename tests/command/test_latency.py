"""From a closed file to the row in `changes --follow`: a view with to_date, round and upper over a million rows, two processes, no Java."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS, MOST = 1_000_000, 0.3
BEGIN = 1_700_000_000_000_000
SCRIPT = """CREATE SOURCE orders (id BIGINT, customer STRING, price DOUBLE, at TIMESTAMP) USING parquet LOCATION 'inbox';
CREATE MATERIALIZED VIEW days AS
  SELECT upper(customer) AS customer, to_date(at) AS day, round(sum(price), 2) AS total
  FROM orders GROUP BY upper(customer), to_date(at)"""


def orders(ids: np.ndarray, names: list[str], seconds: np.ndarray) -> pa.Table:  # type: ignore[type-arg]
    at = pa.array(seconds * 1_000_000 + BEGIN, pa.timestamp("us", "UTC"))
    return pa.table({"id": ids, "customer": names, "price": ids * 0.5, "at": at})


@pytest.mark.slow
def test_a_closed_file_is_seen_soon(tmp_path: Path) -> None:
    inbox, draw = tmp_path / "inbox", np.random.default_rng(1)
    inbox.mkdir()
    names = [f"c{i}" for i in draw.integers(0, 50_000, ROWS)]
    table = orders(np.arange(ROWS), names, draw.integers(0, 1_000_000, ROWS))
    pq.write_table(table, inbox / "first.parquet")
    (tmp_path / "app.sql").write_text(SCRIPT)
    command, env = [sys.executable, "-m", "headwater"], {"PATH": "", "HOME": str(tmp_path)}
    run = [*command, "run", str(tmp_path / "app.sql")]
    subprocess.run(run, env=env, check=True, stdout=subprocess.DEVNULL)
    keeps = subprocess.Popen([*run, "--always"], env=env, stdout=subprocess.DEVNULL)
    asked = ["changes", str(tmp_path / "warehouse"), "days", "--follow", "--json", "--since", "3"]
    follows = subprocess.Popen([*command, *asked], env=env, stdout=subprocess.PIPE, text=True)
    took = []
    try:
        assert follows.stdout is not None
        for i in range(-1, 9):
            new = orders(np.array([ROWS + i]), [f"new{i}"], np.array([i + 1]))
            pq.write_table(new, inbox / "_hidden")
            (inbox / "_hidden").rename(inbox / f"{i}.parquet")
            closed = time.monotonic()
            assert json.loads(follows.stdout.readline())["customer"] == f"NEW{i}"
            # both have started by the first file, which does not count
            took += [time.monotonic() - closed] if i >= 0 else []
            time.sleep(0.3)
    finally:
        follows.kill()
        keeps.terminate()
    assert keeps.wait(30) == 0
    assert statistics.median(took) < MOST, [f"{1000 * t:.0f} ms" for t in took]
