"""Each large tenant has an HNSW index of its own; the indexes that tenants shared are dropped.

Upkeep builds the new indexes in the background. Until then the searches of large tenants are exact.
"""

from __future__ import annotations

from app.db.schema.migration import execute_script, load_function, update_each_tenant

revision = "0006"
down_revision = "0005"

FORGET_INDEXES = (
    "update vector_statistics set index_state = 'none' where tenant_id = tenant and index_state <> 'none'"
)


def upgrade() -> None:
    execute_script("""
        do $$
        declare name text; model integer;
        begin
          for model in select id from embedding_models loop
            execute format('drop index if exists embeddings_hnsw_%s', model);
          end loop;
          -- Parts of an index whose build was interrupted.
          for name in select relname from pg_class where relname ~ '^embeddings_p[0-9]+_hnsw_[0-9]+$' loop
            execute format('drop index public.%I', name);
          end loop;
        end $$;
        comment on column embeddings.in_index is
          'Whether the tenant''s HNSW index includes the row; false for tenants that are small enough for exact search';
        comment on column vector_statistics.index_state is
          'ready: every passage of the tenant is in its HNSW index, and new ones go there at once';
    """)
    update_each_tenant(FORGET_INDEXES)
    load_function("embeddings", "tenancy.create_vector_index")
    load_function("embeddings", "tenancy.drop_vector_index")


def downgrade() -> None:
    # `knowledge model add` of the version before builds the shared index again; until then its searches are exact.
    execute_script("""
        do $$
        declare name text;
        begin
          for name in select relname from pg_class where relname ~ '^embeddings_hnsw_[0-9]+_[0-9a-f]{32}$' loop
            execute format('drop index public.%I', name);
          end loop;
        end $$;
    """)
    update_each_tenant(FORGET_INDEXES)
