"""The same texts serve one server and Citus: slugs are unique by a table, and triggers read their rows once.

Takes an exclusive lock on `tenants` for a moment.
"""

from __future__ import annotations

from app.db.schema.migration import execute_script, load_function, run_file

revision = "0014"
down_revision = "0013"

FUNCTIONS = {
    "tenants": ("tenancy.create_tenant", "tenancy.delete_tenant"),
    "entries": ("index_words",),
    "embeddings": ("tenancy.create_vector_index",),
    "statistics": ("count_entries", "count_passages", "count_tags"),
    "model_changes": ("await_both_models", "keep_models_in_use"),
    "subscriptions": ("note_changes",),
    "audit_pruning": ("tenancy.prune_audit",),
}


def upgrade() -> None:
    execute_script("alter table tenants drop constraint if exists tenants_slug_key")
    run_file("tenant_slugs")
    for file, functions in FUNCTIONS.items():
        for function in functions:
            load_function(file, function)


def downgrade() -> None:
    # tenant_slugs stays: the functions, which stay as they are, write it. The version before does not know Citus.
    execute_script("alter table tenants add constraint tenants_slug_key unique (slug)")
