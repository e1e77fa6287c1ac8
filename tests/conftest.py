"""Loads the fixtures that folders share. A fixture starts nothing and imports nothing slow until a test requests it."""

import gc
import logging

import pytest

from app.db.principals import warn_of_unnamed_work

# Tests of services name no principal, and others read the log: the one warning of it comes before them, unseen.
logging.disable()
warn_of_unnamed_work()
logging.disable(logging.NOTSET)

# With Python's own thresholds, a process that has imported the service and all tests would look for garbage thousands
# of times.
gc.set_threshold(50_000, 20, 20)

pytest.register_assert_rewrite("tests.fixtures")
pytest_plugins = (
    "tests.fixtures.database.cluster",
    "tests.fixtures.database.citus",
    "tests.fixtures.database.copies",
    "tests.fixtures.database.seeded",
    "tests.fixtures.providers.rerank_wire",
    "tests.fixtures.providers.wire",
    "tests.fixtures.services",
    "tests.fixtures.parser",
    "tests.fixtures.sampling",
    "tests.fixtures.examples",
    "tests.fixtures.order",
    "tests.fixtures.http.application",
    "tests.fixtures.http.certificates",
)


def pytest_collection_finish() -> None:
    """Take what has been imported and collected out of all later searches for garbage."""
    gc.freeze()
