"""The words of an entry are computed once, by a trigger."""

import pytest

from tests.fixtures.database.cluster import Connection, TestDatabase, connected

CALLS = "select coalesce(sum(calls), 0) from pg_stat_xact_user_functions where funcname = 'entry_lexemes'"
TENANT = """
    insert into tenants (id, slug, name, model_id)
    select '0198c5a2-7d1e-7a60-8d0b-5b1f6a2d7c33', 'a', 'a', min(id) from embedding_models
"""
ADD = """
    insert into entries (tenant_id, id, entry_type, title, content, language, content_hash, text_hash)
    select id, gen_random_uuid(), 'fact', 'Harbour café', $1::text, 'english', $1::text::bytea, '' from tenants
"""
WRONG = """
    select count(*) from entries where lexemes is distinct from entry_lexemes(language, title, content)
                                    or word_weights is distinct from entry_weights(language, title, content)
"""


async def calls_of(connection: Connection, statement: str, *values: object) -> int:
    """How often a statement computes the words of an entry."""
    await connection.execute("set track_functions = 'all'")
    async with connection.transaction():
        before = await connection.fetchval(CALLS)
        await connection.execute(statement, *values)
        return int(await connection.fetchval(CALLS) - before)


async def test_words_are_computed_once_and_only_from_the_text(fresh_database: TestDatabase) -> None:
    async with connected(fresh_database.superuser_dsn) as superuser:
        await superuser.execute(TENANT)
        assert await calls_of(superuser, ADD, "The harbour opens") == 1
        assert await calls_of(superuser, "update entries set content = 'The gate closes'") == 1
        assert await superuser.fetchval("select lexemes @@ 'gate' and not lexemes @@ 'open' from entries")
        assert await calls_of(superuser, "update entries set tags = '{x}', quarantined = true") == 0
        assert await superuser.fetchval(WRONG) == 0


@pytest.mark.parametrize("column", ["lexemes", "word_weights"])
async def test_words_that_a_statement_gives_are_replaced(fresh_database: TestDatabase, column: str) -> None:
    async with connected(fresh_database.superuser_dsn) as superuser:
        await superuser.execute(TENANT)
        await superuser.execute(ADD, "The harbour opens")
        await superuser.execute(f"update entries set {column} = null")
        assert await superuser.fetchval(WRONG) == 0
