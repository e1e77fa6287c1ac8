"""Erasures with their receipts, and a job that runs them."""

from __future__ import annotations

from app.db.schema.migration import execute_script, run_file

revision = "0020"
down_revision = "0019"

KINDS = (
    "'ingest_asset', 'embed_entries', 'refresh_statistics', 'index_vectors', 'reembed', 'match_changes',"
    " 'deliver_webhooks'"
)
ALLOW = """
    alter table jobs drop constraint if exists jobs_kind_check;
    alter table jobs add constraint jobs_kind_check check (kind in ({kinds})) not valid
"""


def upgrade() -> None:
    run_file("erasures")
    run_file("tenant_isolation")
    execute_script(ALLOW.format(kinds=f"{KINDS}, 'erase'"))
    execute_script("alter table jobs validate constraint jobs_kind_check")


def downgrade() -> None:
    """The owner sees no jobs under row-level security, so those of erasures stay; nothing claims them."""
    execute_script(ALLOW.format(kinds=KINDS))
    execute_script(
        "drop function tenancy.pseudonymise_actor(uuid, integer); drop table erasure_items; drop table erasures"
    )
