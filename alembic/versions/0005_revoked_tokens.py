"""A list of each tenant's revoked tokens."""

from __future__ import annotations

from app.db.schema.migration import execute_script, run_file

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_file("revoked_tokens")
    run_file("tenant_isolation")


def downgrade() -> None:
    execute_script("drop table revoked_tokens")
