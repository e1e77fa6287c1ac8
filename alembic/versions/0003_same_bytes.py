"""Assets with the same bytes: their chunks repeat each other; assets have titles given by callers, and versions."""

from __future__ import annotations

from app.db.schema.migration import execute_script, load_function

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    execute_script("""
        alter table assets
          add column if not exists given_title text check (length(given_title) between 1 and 1000),
          add column if not exists version bigint not null default 1;
        comment on column assets.title is 'the title that the file itself has';
        comment on column assets.given_title is 'the title that a caller gave; it replaces the one of the file';
        comment on column assets.version is 'counts the changes that callers made; the ETag';
        create index if not exists assets_same_bytes on assets (tenant_id, sha256);
        alter table entries add column if not exists repeats uuid;
        comment on column entries.repeats is
         'the chunk that this one repeats, of the first asset with the same bytes: see repeats_another()';
        create index if not exists entries_by_repeated on entries (tenant_id, repeats) where repeats is not null;
    """)
    for function in ("entry_passes", "repeats_another", "entry_matches"):
        load_function("entry_filter", function)
    load_function("keyword_lookups", "keyword.tag_overlaps")


def downgrade() -> None:
    # entries.repeats and its index stay: entry_matches(), which stays as it is, reads them.
    execute_script("""
        drop index assets_same_bytes;
        alter table assets drop column given_title, drop column version;
    """)
