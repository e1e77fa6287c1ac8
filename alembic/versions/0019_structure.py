"""Assets keep their outline and the pages without text; entries with suspicious content can be in quarantine."""

from __future__ import annotations

from app.db.schema.migration import execute_script

revision = "0019"
down_revision = "0018"

COLUMNS = {
    "assets": {
        "outline": "jsonb",
        "pages_without_text": "integer[] not null default '{}'",
        "flags": "jsonb",
    },
    "entries": {"quarantined": "boolean not null default false"},
}
COMMENTS = {
    "assets.outline": (
        "headings (start, level, title), pages (start, end), "
        "tables (start, end of the header, end) as offsets in the text"
    ),
    "assets.pages_without_text": "pages that show something and have no text, as scanned pages do",
    "assets.flags": "how many chunks have each flag of suspicious content",
    "entries.quarantined": "hidden from searches for its suspicious content, until it is released",
}


def upgrade() -> None:
    for table, columns in COLUMNS.items():
        for name, kind in columns.items():
            execute_script(f"alter table {table} add column if not exists {name} {kind}")
    for column, comment in COMMENTS.items():
        execute_script(f"comment on column {column} is '{comment}'")


def downgrade() -> None:
    # entries.quarantined stays: functions of later versions, which a downgrade leaves, read it.
    for name in COLUMNS["assets"]:
        execute_script(f"alter table assets drop column if exists {name}")
