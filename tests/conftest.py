"""Loads the fixtures that folders share.

None of them starts anything until a test asks for it, and what takes long to import is imported then, too.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.fixtures")
pytest_plugins = (
    "tests.fixtures.database.cluster",
    "tests.fixtures.database.copies",
    "tests.fixtures.database.seeded",
    "tests.fixtures.providers.wire",
    "tests.fixtures.services",
    "tests.fixtures.http.application",
)
