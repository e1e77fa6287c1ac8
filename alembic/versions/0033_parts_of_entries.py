"""Whether a caller may see what belongs to an entry is asked by a function that keeps its plan.

As parts of the policies, the same questions were planned with each statement, for all partitions of `entries`.
"""

from __future__ import annotations

from app.db.schema.migration import execute_script, is_citus, load_function

revision = "0033"
down_revision = "0032"

PARTS = ("pending_embeddings", "entry_changes", "access_counts", "feedback", "deliveries")


def _set_policies(condition: str) -> None:
    for table in PARTS:
        seen = "(select sees_everything()) or " + condition.format(table)
        execute_script(f"alter policy readers on {table} using ({seen}) with check ({seen})")


def upgrade() -> None:
    for function in ("may_read", "may_change"):
        load_function("access", function)
    if not is_citus():
        _set_policies("may_read(tenant_id, entry_id)")


def downgrade() -> None:
    """Leave `may_change`, which answers as before."""
    if not is_citus():
        _set_policies(
            "exists (select from entries e where e.tenant_id = {0}.tenant_id and e.id = {0}.entry_id)"
        )
    execute_script("drop function may_read(uuid, uuid)")
