"""Sources: assets that come from a folder, a repository or a store elsewhere, and are kept equal to it.

An external_id is unique among the assets without a source, and within each source.
"""

from __future__ import annotations

from app.db.schema.migration import execute_script, run_file, update_each_tenant

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    execute_script("""
        alter table assets add column if not exists source text;
        comment on column assets.source is 'The source that the asset belongs to, which has given it its external_id';
        alter table assets drop constraint if exists assets_tenant_id_external_id_key;
        create unique index if not exists assets_by_external_id on assets (tenant_id, external_id)
          where source is null;
        drop index if exists assets_by_bytes;
        create unique index assets_by_bytes on assets (tenant_id, sha256)
          where external_id is null and source is null;
        create index if not exists assets_by_source on assets (tenant_id, source) where source is not null;
    """)
    run_file("sources")
    run_file("tenant_isolation")


def downgrade() -> None:
    # Two sources can have assets with the same external_id, which the version before does not allow.
    update_each_tenant("""
        update assets set external_id = source || ':'
          || case when length(source || external_id) < 512 then external_id else md5(external_id) end
         where tenant_id = tenant and source is not null
    """)
    execute_script("""
        drop table source_items;
        drop table sources;
        drop index assets_by_external_id;
        drop index assets_by_bytes;
        alter table assets drop column source;
        alter table assets add unique (tenant_id, external_id);
        create unique index assets_by_bytes on assets (tenant_id, sha256) where external_id is null;
    """)
