"""The word index: rows are added in bulk, and nothing is pending when a statement has ended."""

from __future__ import annotations

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from tests.fixtures.database.cluster import connected
from tests.knowledge.conftest import RunJobs

WAITING = """
select sum(gin_clean_pending_list(inhrelid)) from pg_inherits where inhparent = 'entries_by_lexeme'::regclass"""
"""Flushes the pending lists and returns the number of their pages."""

EARLIER_SEPARATORS = r"""
translate(regexp_replace(t, '[\u0080-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7\u2000-\u200b'
  '\u200e-\u206f\u20a0-\u20cf\u2190-\u245f\u2500-\u25ff\u2e00-\u2e7f\u3000-\u3004\u3008-\u3020\u3030\ufe10-\ufe1f'
  '\ufe30-\ufe6f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\ufffc\ufffd]', ' ', 'g'), '/-_.:@#', '       ')"""


async def test_no_word_is_pending_in_the_index_after_a_write(
    services: Services, tenant: Tenant, run_jobs: RunJobs, superuser_dsn: str
) -> None:
    async with connected(superuser_dsn) as superuser:
        entry, _ = await services.entries.create(tenant.id, EntryDraft(content="The harbour closes at dusk."))
        assert await superuser.fetchval(WAITING) == 0
        await services.entries.change(tenant.id, entry.id, EntryDraft(content="The lighthouse is lit at dusk."))
        assert await superuser.fetchval(WAITING) == 0
        await services.entries.create_many(tenant.id, [EntryDraft(content=f"Berth {n}") for n in range(50)])
        assert await superuser.fetchval(WAITING) == 0
        await services.assets.upload(tenant.id, Upload("a.md", b"# Pier\n\nBoats lie at the pier."))
        await run_jobs()
        assert await superuser.fetchval(WAITING) == 0
        for word, found in (("harbour", 0), ("lighthouse", 1), ("berth", 50), ("pier", 1)):
            query = SearchQuery(query=word, mode="keyword", limit=50)
            assert len(await services.search.search(tenant.id, query)) == found, word

        await superuser.execute("alter table entries disable trigger words_inserted")
        await services.entries.create(tenant.id, EntryDraft(content="The quay is wet."))
        assert await superuser.fetchval(WAITING) > 0, "what the trigger is for"


async def test_word_separators_are_unchanged(superuser_dsn: str) -> None:
    """Apart from the two of Katakana. Characters that change in other ways have tests of their own."""
    async with connected(superuser_dsn) as superuser:
        different = await superuser.fetch(
            "select n from generate_series(1, 131071) n cross join lateral (select 'a' || chr(n) || 'b') x (t)"
            " where n not between 55296 and 57343 and n not in (12448, 12539) and paired_text(t) = t"
            f" and spaced_text(t) is distinct from {EARLIER_SEPARATORS}"
        )
        parted = await superuser.fetchval(
            r"select spaced_text('a/b-c_d.e:f@g#h[i]^j\k' || chr(8222) || 'l' || chr(8203) || 'm')"
        )
    assert [row["n"] for row in different] == []
    assert parted == r"a b c d e f g h[i]^j\k l m"
