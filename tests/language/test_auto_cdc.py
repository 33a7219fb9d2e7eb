"""`hw.create_auto_cdc_flow`: a table that follows events by key, beside a plain dict."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import QueryError


@pytest.mark.parametrize("seed", range(2))
def test_events_in_any_order_are_a_dict(tmp_path: Path, seed: int) -> None:
    """Late events change nothing, a deletion stays one, and a program that is run again does not either."""
    rng, newest = random.Random(seed), dict[int, tuple[int, Any]]()
    flow = hw.create_auto_cdc_flow(
        "customers",
        source="events",
        keys=["id"],
        sequence_by="seq",
        apply_as_deletes="op = 'D'",
        except_column_list=["op", "seq"],
        stored_as_scd_type="1",
    )
    with hw.open(tmp_path) as db:
        db.source("events", "id BIGINT, name STRING, op STRING, seq BIGINT")
        db.define([flow])
        order = list(range(200))
        rng.shuffle(order)
        for start in range(0, 200, 25):
            events = [
                (rng.randrange(12), f"n{s}", rng.choice(["I", "U", "D", None]), s)
                for s in order[start : start + 25]
            ]
            db.apply({"events": events})
            for k, name, op, s in events:
                if s > newest.get(k, (-1,))[0]:
                    newest[k] = s, None if op == "D" else name
            held = {k: n for k, (_, n) in newest.items() if n is not None}
            assert {r["id"]: r["name"] for r in db.table("customers").to_pylist()} == held
            k = rng.choice(list(held))
            assert tuple(db["customers"].lookup(k)) == (k, held[k])
        version = db.version
        assert db.define([flow]).version == version


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"stored_as_scd_type": 2}, r"keeps a history \(SCD type 2\), which is not built"),
        ({"track_history_column_list": ["a"]}, "`track_history_column_list` of the flow into `t`"),
        ({"spark_conf": {"a": "b"}}, "`spark_conf` of the flow into `t` means nothing"),
        ({"name": "f"}, "`name` of the flow into `t` means nothing"),
        ({"keys": []}, "has no keys"),
        ({"keys": "id"}, "`keys` of the flow into `t` is 'id'"),
        ({"sequence_by": ""}, "`sequence_by` of the flow into `t` is ''"),
        ({"column_list": ["v"]}, "leaves out `id`, which is one of its keys"),
        ({"column_list": ["id"], "except_column_list": ["v"]}, "both column_list and"),
    ],
)
def test_what_is_not_built_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(QueryError, match=told):
        hw.create_auto_cdc_flow(
            **{"target": "t", "source": "s", "keys": ["id"], "sequence_by": "n", **given}
        )
