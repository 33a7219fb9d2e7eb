"""Options and profiles of the test suite.

`--golden` rewrites the golden files instead of comparing with them. The profile `fuzz` draws as many
examples for each law as FUZZ_EXAMPLES says, and remembers failures like the other one.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from headwater.state import compaction

collect_ignore_glob = ["data/*"]
"""What tests read and play; names of files may be the same in different folders."""

# A first example may import modules, and two cores are shared, so time is no measure of an example. The
# ordinary run draws the same examples each time, so that it says the same of the same code.
settings.register_profile(
    "default",
    max_examples=int(os.environ.get("EXAMPLES", "45")),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz",
    settings.get_profile("default"),
    derandomize=False,
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "2000")),
)
settings.load_profile("default")

# Databases of tests are small, and are to be compacted as often as large ones are.
compaction.SMALL = 0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden", action="store_true", help="rewrite the golden files; read the diff"
    )


def started() -> bool:
    """Whether this process has a Spark session."""
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and sql.SparkSession._instantiatedSession is not None


def _fail_if_started(item: pytest.Item, before: bool) -> None:
    if not before and started() and item.get_closest_marker("spark") is None:
        pytest.fail("the test started Spark and is not marked: pytest.mark.spark", pytrace=False)


# Tests without the mark `spark` start none: they run in several processes, each of which would have its own. A fixture of
# this kind would come after those of modules, which may be who starts it.


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    before = started()
    yield
    _fail_if_started(item, before)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    before = started()
    yield
    _fail_if_started(item, before)


def pytest_collection_finish() -> None:
    """Leaves the tests themselves, some millions of objects, out of Python's search for cycles: that took a fifth of the time."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()
