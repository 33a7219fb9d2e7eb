"""The one Spark session of the tests: local, small, in ANSI mode."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any

import pytest


@cache
def session() -> Any:
    """A local session for work that is small; it lives as long as the process."""
    sql = pytest.importorskip("pyspark.sql")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else tasks run another Python
    made = (
        sql.SparkSession.builder.master("local[2]")
        .appName("headwater tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    return made
