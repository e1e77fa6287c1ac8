"""The callers of a tenant with the groups of their last tokens, so that an admin can see who may read an entry."""

from __future__ import annotations

from app.db.schema.migration import execute_script, run_file

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    run_file("callers")
    run_file("tenant_isolation")
    run_file("rights")


def downgrade() -> None:
    execute_script("drop table callers")
