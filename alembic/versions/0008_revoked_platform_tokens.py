"""A list of revoked tokens of platform administrators."""

from __future__ import annotations

from app.db.schema.migration import execute_script, run_file

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_file("revoked_platform_tokens")


def downgrade() -> None:
    execute_script(
        "drop function tenancy.revoke_token(text, timestamptz, integer, text);"
        " drop function tenancy.list_revoked_tokens(); drop table revoked_platform_tokens"
    )
