"""A quarantine reaches back: former versions of a quarantined entry are not found either."""

from __future__ import annotations

from app.db.schema.migration import execute_script, load_function, run_file, update_each_tenant

revision = "0024"
down_revision = "0023"

COMMENT = (
    "The entry is quarantined, or was when it was deleted, or a chunk of the same asset with this text is"
)


def upgrade() -> None:
    run_file("readers")
    run_file("access_columns")
    execute_script(
        "alter table former_entries add column if not exists withheld boolean not null default false"
    )
    execute_script(f"comment on column former_entries.withheld is '{COMMENT}'")
    for function in ("former_entry", "entries_at", "keep_version"):
        load_function("versions", function)
    update_each_tenant("""
        update former_entries v set withheld = true
          from entries e
         where v.tenant_id = tenant and e.tenant_id = tenant and e.quarantined and not v.withheld
           and (v.id = e.id or v.asset_id = e.asset_id and v.text_hash = e.text_hash)
    """)


def downgrade() -> None:
    """Leave the column: the functions, which a downgrade leaves, read it."""
