"""Words stand apart from typographic signs, whatever the database's locale."""

from __future__ import annotations

from app.db.schema.migration import execute_script

revision = "0007"
down_revision = "0006"

LANGUAGES = (
    "simple", "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french",
    "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali",
    "norwegian", "portuguese", "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish",
    "yiddish",
)  # fmt: skip

# Where LC_CTYPE is C, as in the embedded database, Postgres takes every sign beyond ASCII for a letter: the words of
# „word“, it’s or a no-break space were one word with it, and not found by those without. Signs of Latin-1, general
# punctuation (but for the joiners inside words), currencies, arrows to geometric shapes, supplemental punctuation,
# and the punctuation of East Asian scripts. Letters, digits, fractions and pictures stay.
SIGNS = (
    r"[\u0080-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7\u2000-\u200b\u200e-\u206f\u20a0-\u20cf"
    r"\u2190-\u245f\u2500-\u25ff\u2e00-\u2e7f\u3000-\u3004\u3008-\u3020\u3030\ufe10-\ufe1f\ufe30-\ufe6f"
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\ufffc\ufffd]"
)
OPENED = "pg_catalog.translate(content, '/-_.:@#', '       ')"


def by_language(function: str, content: str) -> str:
    """A CASE with constant configurations: a regconfig column or a cast would not be immutable."""
    cases = (
        f"when '{name}' then pg_catalog.{function}('pg_catalog.{name}'::regconfig, {content})"
        for name in LANGUAGES
    )
    return f"case language {' '.join(cases)} end"


def define_lexemes(content: str) -> str:
    """DDL of the two functions that turn a text into lexemes, through the SQL expression `content`."""
    return f"""
create or replace function text_lexemes(language text, content text) returns tsvector
language sql immutable parallel safe
return {by_language("to_tsvector", content)};

create or replace function text_phrase(language text, content text) returns tsquery
language sql immutable parallel safe
return {by_language("phraseto_tsquery", content)};
"""


# The generated column is made anew where a column that it is made from is set. `tenants` shows the owner all of
# its rows; `entries` those of the tenant that is set.
REWRITE = f"""
do $$
declare tenant uuid;
begin
  for tenant in select id from tenants order by id loop
    perform set_config('app.current_tenant', tenant::text, true);
    update entries set content = content where tenant_id = tenant and (content ~ '{SIGNS}' or title ~ '{SIGNS}');
  end loop;
  perform set_config('app.current_tenant', '', true);
end $$;
"""

UP = f"""
create function spaced_text(content text) returns text
language sql immutable parallel safe
return pg_catalog.translate(pg_catalog.regexp_replace(content, '{SIGNS}', ' ', 'g'), '/-_.:@#', '       ');
comment on function spaced_text(text) is 'A text with spaces for the signs that part words';
revoke all on function spaced_text(text) from public;
grant execute on function spaced_text(text) to kb_app;
{define_lexemes("spaced_text(content)")}
{REWRITE}
"""

DOWN = f"""
{define_lexemes(OPENED)}
drop function spaced_text(text);
{REWRITE}
"""


def upgrade() -> None:
    execute_script(UP)


def downgrade() -> None:
    execute_script(DOWN)
