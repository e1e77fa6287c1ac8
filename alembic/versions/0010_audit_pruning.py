"""A bound for the audit trails: a function of the owner removes their oldest rows."""

from __future__ import annotations

from app.db.schema.migration import execute_script, load_function

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    load_function("audit_pruning", "tenancy.prune_audit")


def downgrade() -> None:
    execute_script("drop function tenancy.prune_audit(bigint, integer)")
