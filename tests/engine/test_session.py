"""Reopening: what answers depend on is kept with the database, and the user's session is never changed by us."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.engine.spark.session import ANSI, CASE, TIME_ZONE, Session
from headwater.errors import BadChange, SettingsDiffer
from spark_session import session

pytestmark = pytest.mark.spark

YORK = ZoneInfo("America/New_York")
TIMES = [datetime(2024, 3, 10, 0, 30, tzinfo=UTC) + timedelta(hours=5 * i) for i in range(12)]


@contextlib.contextmanager
def setting(**settings: str) -> Iterator[SparkSession]:
    """The tests' session with other settings for a while; given with `_` for `.`, relative to `spark.sql`."""
    spark = session()
    names = {f"spark.sql.{n.replace('_', '.')}": v for n, v in settings.items()}
    before = {n: spark.conf.get(n) for n in names}
    for n, v in names.items():
        spark.conf.set(n, v)
    try:
        yield spark
    finally:
        for n, v in before.items():
            spark.conf.set(n, v)


def hours(db: hw.Database) -> Counter[tuple[Any, ...]]:
    found = db["hours"].snapshot().collect()
    return Counter(tuple(r) for r in found)


@pytest.mark.parametrize("execution", ["driver", "spark"])
def test_another_time_zone(tmp_path: Path, execution: str) -> None:
    with (
        setting(session_timeZone="America/New_York") as spark,
        hw.open(tmp_path / "db", spark) as db,
    ):
        db.policy.execution = execution
        db.source("s", "t TIMESTAMP, n BIGINT")
        db.view(
            "hours",
            "SELECT hour(t) AS h, CAST(t AS DATE) AS d, count(*) AS c FROM s GROUP BY hour(t), CAST(t AS DATE)",
        )
        db.view("text", "SELECT CAST(t AS STRING) AS x, n FROM s")
        db.apply({"s": [(t, 1) for t in TIMES]})
        expected = Counter((t.astimezone(YORK).hour, t.astimezone(YORK).date(), 1) for t in TIMES)
        assert hours(db) == expected
        text = sorted(db.table("text").column("x").to_pylist())
    with setting(session_timeZone="Asia/Tokyo") as spark, hw.open(tmp_path / "db", spark) as db:
        db.policy.execution = execution
        assert hours(db) == expected
        db.verify()
        # The same instants again, from a frame of the user's session and as an Arrow table.
        moments = pa.table({"t": pa.array(TIMES, pa.timestamp("us", "UTC")), "n": [2] * len(TIMES)})
        db.apply({"s": spark.createDataFrame(moments)})
        assert hours(db) == Counter((h, d, 2) for h, d, _ in expected)
        assert sorted(db.table("text").column("x").to_pylist()) == sorted(text * 2)
        assert {r.t.timestamp() for r in db["s"].snapshot().collect()} == {
            t.timestamp() for t in TIMES
        }
        db.verify()
        assert spark.conf.get(TIME_ZONE) == "Asia/Tokyo"


def test_times_without_a_zone_are_of_the_time_zone_of_the_database(tmp_path: Path) -> None:
    naive = [datetime(2024, 7, 1, 12), datetime(2024, 3, 10, 2, 30), datetime(2024, 11, 3, 1, 30)]
    with setting(session_timeZone="America/New_York") as spark:
        literals = ", ".join(f"TIMESTAMP'{t}'" for t in naive)
        spoken = spark.sql(f"SELECT explode(array({literals})) AS t").toArrow()["t"].to_pylist()
        with hw.open(tmp_path / "db", spark) as db:
            db.source("s", "t TIMESTAMP")
            db.apply({"s": [(t,) for t in naive]})
            db.apply({"s": pd.DataFrame({"t": [*naive, pd.NaT]})})
            db.apply({"s": pa.table({"t": pa.array(naive, pa.timestamp("us"))})})
            found = Counter({r["t"]: r["_w"] for r in db.table("s").to_pylist()})
            assert found == Counter([*spoken, *spoken, *spoken, None])
    with setting(session_timeZone="+08:00") as spark, hw.open(tmp_path / "other", spark) as db:
        db.source("s", "t TIMESTAMP")
        with pytest.raises(BadChange, match="row 1 of the change of `s` has a time without a zone"):
            db.apply({"s": [(naive[0],)]})
        db.apply({"s": [(TIMES[0],)]})
        assert db.table("s").column("t").to_pylist() == TIMES[:1]


def test_a_session_with_other_settings_is_refused(tmp_path: Path) -> None:
    with hw.open(tmp_path / "db", session()) as db:
        db.source("s", "k INT")
    for path in ("db", "new"):
        with setting(ansi_enabled="false") as spark, pytest.raises(SettingsDiffer) as ansi:
            hw.open(tmp_path / path, spark)
        assert "is not in ANSI mode" in str(ansi.value) and f"set {ANSI} to true" in ansi.value.hint
        with setting(caseSensitive="true") as spark, pytest.raises(SettingsDiffer) as case:
            hw.open(tmp_path / path, spark)
        assert "tells upper from lower case" in str(case.value)
        assert f"set {CASE} to false" in case.value.hint
    assert not (tmp_path / "new").exists()
    with setting(ansi_enabled="TRUE", caseSensitive="FALSE") as spark:
        hw.open(tmp_path / "db", spark).close()


def test_another_version_of_spark_reads_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what its expressions would give is refused, and writing, until the database is upgraded."""
    with monkeypatch.context() as patch, hw.open(tmp_path / "db", session()) as db:
        patch.setattr(Session, "_version", property(lambda _: "3.5.1"))
        db.source("s", "k INT, t STRING")
        db.view("g", "SELECT k, count(*) AS n FROM s GROUP BY k")
        db.view(
            "o", "SELECT k, max(md5(t)) AS m FROM s GROUP BY k HAVING length(soundex(max(t))) > 0"
        )
        db.apply({"s": [(1, "a"), (1, "b"), (2, "c")]})
        answers = sorted(tuple(r.values()) for r in db.table("o").to_pylist())
    with hw.open(tmp_path / "db", session()) as db:
        assert sorted(tuple(r.values()) for r in db.table("g").to_pylist()) == [
            (1, 2, 1),
            (2, 1, 1),
        ]
        assert sorted(tuple(r) for r in db["g"].snapshot().collect()) == [(1, 2), (2, 1)]
        assert db.changes_table("g", 0).num_rows == 2
        db.policy.read_here = 0  # large ones are read by tasks
        assert sorted(tuple(r) for r in db["g"].snapshot().collect()) == [(1, 2), (2, 1)]
        # What only Spark evaluates was evaluated when it was committed.
        assert sorted(tuple(r.values()) for r in db.table("o").to_pylist()) == answers
        refused = [
            lambda: db.verify(),
            lambda: db.apply({"s": [(3, "d")]}),
            lambda: db.view("w", "SELECT k FROM s"),
            lambda: db.rebuild(),
        ]
        for act in refused:
            with pytest.raises(
                SettingsDiffer, match=r"was made with Spark 3\.5, this is "
            ) as caught:
                act()
            assert "call upgrade()" in str(caught.value)
        db.upgrade()
        assert sorted(tuple(r.values()) for r in db.table("o").to_pylist()) == answers
        db.apply({"s": [(3, "d")]})
        db.verify()
    with hw.open(tmp_path / "db", session()) as db:
        assert len(db.table("o")) == 3
        db.verify()


def test_the_users_session_is_left_alone(tmp_path: Path) -> None:
    odd = {
        "shuffle_partitions": "7",
        "adaptive_enabled": "true",
        "execution_arrow_pyspark_enabled": "false",
        "execution_arrow_maxRecordsPerBatch": "3",
        "session_timeZone": "Asia/Kolkata",
    }
    with setting(**odd) as spark:
        spark.createDataFrame([(1,)], "a INT").createOrReplaceTempView(
            "s"
        )  # a name that we use too
        before = dict(spark.conf.getAll)
        tables = {t.name for t in spark.catalog.listTables()}  # other tests have left some
        active = SparkSession.getActiveSession()
        for execution in ("driver", "spark"):
            with hw.open(tmp_path / execution, spark) as db:
                db.policy.execution = execution
                db.source("s", "t TIMESTAMP, v STRING")
                db.view(
                    "g",
                    "SELECT hour(t) AS h, count(*) AS c FROM s WHERE reverse(v) <> 'x' GROUP BY hour(t)",
                )
                db.apply({"s": [(t, "ab") for t in TIMES]})
                db.apply(
                    {
                        "s": spark.sql(
                            "SELECT TIMESTAMP'2024-01-01 10:00:00' AS t, 'y' AS v FROM range(20)"
                        )
                    }
                )
                found = Counter({r.h: r.c for r in db["g"].snapshot().collect()})
                assert found == Counter(
                    [t.astimezone(ZoneInfo("Asia/Kolkata")).hour for t in TIMES] + [10] * 20
                )
                assert db["g"].changes(since=0).count() > 0
                assert db["g"].changes(since=0, format="cdc").count() > 0
                db.verify()
            with setting(session_timeZone="UTC"), hw.open(tmp_path / execution, spark) as db:
                assert Counter({r.h: r.c for r in db["g"].snapshot().collect()}) == found
            assert dict(spark.conf.getAll) == before
            assert SparkSession.getActiveSession() is active is spark
            assert spark.table("s").columns == ["a"]
            assert {t.name for t in spark.catalog.listTables()} == tables
        spark.catalog.dropTempView("s")


def test_a_session_of_another_thread_is_used_and_not_changed(tmp_path: Path) -> None:
    found: list[Any] = []

    def work() -> None:
        with hw.open(tmp_path / "db") as db:
            db.source("s", "k INT")
            db.apply({"s": [(1,)]})
            found.append(db["s"].snapshot().collect())
            found.append(db.spark)

    with setting(session_timeZone="Asia/Kolkata") as spark:
        before = dict(spark.conf.getAll)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert found and found[0][0].k == 1 and found[1] is spark
        assert dict(spark.conf.getAll) == before
