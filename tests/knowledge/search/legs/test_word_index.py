"""The index and the weights of words."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.queries import statistics
from app.knowledge.search.plan import SearchDefaults
from tests.fixtures.database.cluster import connected, fetchval
from tests.fixtures.searching import explanation_of, keyword_leg_of
from tests.knowledge.conftest import RunJobs
from tests.knowledge.writing import ids, write

WAITING = """
select sum(gin_clean_pending_list(inhrelid)) from pg_inherits where inhparent = 'entries_by_lexeme'::regclass"""
"""Flushes the pending lists and returns the number of their pages."""
EARLIER_SEPARATORS = r"""
translate(regexp_replace(t, '[\u0080-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7\u2000-\u200b'
  '\u200e-\u206f\u20a0-\u20cf\u2190-\u245f\u2500-\u25ff\u2e00-\u2e7f\u3000-\u3004\u3008-\u3020\u3030\ufe10-\ufe1f'
  '\ufe30-\ufe6f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\ufffc\ufffd]', ' ', 'g'),
  '/-_.:@#<>', '         ')"""


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


async def test_words_in_angle_brackets_are_found(services: Services, tenant: Tenant) -> None:
    texts = {
        "TariffPlan": "fn plan() -> Option<TariffPlan>",
        "Sidebar": "render <Sidebar collapsed> first",
        "pod name": "kubectl logs <pod-name>",
        "dateTime": "the type <xs:dateTime/> of the schema",
        "kestrelitem": "List<Map<String, Kestrelitem>> items",
        "callback": "<a href='x' onclick=callback()>",
    }
    written = await write(services, tenant, *texts.values())
    for query, entry_id in zip(texts, written, strict=True):
        result = await services.search.search(tenant.id, SearchQuery(query, mode="keyword"))
        assert [hit.id for hit in result] == [entry_id], query
        assert result[0].matched_terms, query
        assert result[0].keyword_score is not None


async def test_word_separators_are_unchanged(superuser_dsn: str) -> None:
    """Apart from & + < > and the two of Katakana. Characters that change in other ways have tests of their own."""
    async with connected(superuser_dsn) as superuser:
        different = await superuser.fetch(
            "select n from generate_series(1, 131071) n cross join lateral (select 'a' || chr(n) || 'b') x (t)"
            " where n not between 55296 and 57343 and n not in (38, 43, 60, 62, 12448, 12539) and paired_text(t) = t"
            f" and spaced_text(t) is distinct from {EARLIER_SEPARATORS}"
        )
        parted = await superuser.fetchval(
            r"select spaced_text('a/b-c_d.e:f@g#h[i]^j\k&n+o<p>q' || chr(8222) || 'l' || chr(8203) || 'm')"
        )
    assert [row["n"] for row in different] == []
    assert parted == r"a b c d e f g h[i]^j\k n o p q l m"


SIMPLE = "simple"
"""The language whose lexemes are the words themselves."""


def score_of(query: Sequence[str], text: str, texts: Sequence[str]) -> float:
    """The formula of docs/ranking.md, by hand."""
    mean = sum(map(len, texts)) / len(texts)
    norm = 0.3 + 0.9 * len(text) / mean
    total = 0.0
    for word in query:
        having = sum(word in other.split() for other in texts)
        idf = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        if times := text.split().count(word):
            repeated = 5.2 * norm / (4 + norm) * (times - 1) / (times + 1.2)
            total += idf * 2.2 / (1 + norm) * (1 + repeated)
    return total


def bm25(query: Sequence[str], texts: Sequence[str]) -> list[float]:
    """BM25 of each text, k1 = 1.2 and b = 0.75, with its length in characters."""
    mean = sum(map(len, texts)) / len(texts)
    counts = [Counter(text.split()) for text in texts]
    scores = [0.0] * len(texts)
    for word in query:
        having = sum(word in count for count in counts)
        idf = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for place, count in enumerate(counts):
            norm = 0.3 + 0.9 * len(texts[place]) / mean
            scores[place] += idf * 2.2 * count[word] / (count[word] + norm)
    return scores


async def scores(services: Services, tenant: Tenant, query: str) -> dict[UUID, float]:
    found = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
    return {hit.id: hit.keyword_score or 0.0 for hit in explanation_of(found).hits}


async def test_score_is_the_documented_formula_with_the_mean_length_of_the_moment(
    services: Services, tenant: Tenant
) -> None:
    texts = ["harbour pilot", "harbour harbour harbour and a long wall of stone", "pilot pilot", "no word"]
    written = await write(services, tenant, *texts, language=SIMPLE)
    for more in ((), ("a text that is much longer than the others " * 20,)):
        texts += more
        written += await write(services, tenant, *more, language=SIMPLE)
        expected = {
            entry: score
            for entry, text in zip(written, texts, strict=True)
            if (score := score_of(["harbour", "pilot"], text, texts))
        }
        assert await scores(services, tenant, "harbour pilot") == pytest.approx(expected, rel=1e-5)


async def test_entry_of_more_words_than_the_vector_has_room_for_is_scored_as_any_other(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    letters = "abcdefghijklmnopqrst"
    words = [f"{a}{b}{c}{d}" for a in letters for b in letters for c in letters for d in "xyz"][:8_300]
    texts = [" ".join([*words, *words, "harbour"]), "harbour pilot", " ".join(words[:50])]
    written = await write(services, tenant, *texts, language=SIMPLE)
    assert await fetchval(superuser_dsn, "select word_weights is null from entries where id = $1", written[0])
    query = ["harbour", words[7], words[8_000]]
    expected = dict(zip(written, (score_of(query, text, texts) for text in texts), strict=True))
    assert await scores(services, tenant, " ".join(query)) == pytest.approx(expected, rel=1e-5)


async def test_phrase_gains_as_much_as_a_word_that_occurs_twice(services: Services, tenant: Tenant) -> None:
    apart, together = await write(services, tenant, "harbour of the pilot", "of the harbour pilot", language=SIMPLE)
    plain, phrase = await scores(services, tenant, "harbour pilot"), await scores(services, tenant, '"harbour pilot"')
    assert set(plain) == {apart, together}
    assert set(phrase) == {together}, "the other one has not the phrase"
    # Both are of mean length. A word that occurs twice scores 1.375 times its idf, here that of one of two entries.
    assert phrase[together] - plain[apart] == pytest.approx(1.375 * math.log(2), rel=1e-5)


async def test_correction_that_is_a_word_of_the_query_is_counted_with_it(services: Services, tenant: Tenant) -> None:
    (written,) = await write(services, tenant, "The lighthouse in the harbour")
    await write(services, tenant, "Nothing of that")
    found = await services.search.search(
        tenant.id, SearchQuery(query="lighthouse lighthuose", mode="keyword", explain=True)
    )
    assert ids(found) == [written]
    assert keyword_leg_of(found).corrections == {"lighthuose": "lighthouse"}


async def test_nearly_all_of_the_ten_best_are_found_although_the_words_are_frequent(
    services: Services, tenant: Tenant
) -> None:
    bounded = await build_services(services.database, services.provider, defaults=SearchDefaults(keyword_budget=60))
    generator = random.Random(5)  # noqa: S311
    words = [f"{a}{b}{c}" for a in "bcdfghjklm" for b in "aeiouyrst" for c in "bcdfghjklm"]
    chances = [1 / (rank + 5) for rank in range(len(words))]
    texts = [" ".join(generator.choices(words, chances, k=generator.randint(15, 40))) + f" n{n}" for n in range(800)]
    drafts = [EntryDraft(content=text, language=SIMPLE) for text in texts]
    written: list[UUID] = []
    for start in range(0, len(drafts), 400):
        results = await bounded.entries.create_many(tenant.id, drafts[start : start + 400])
        written += [result.id for result in results if result.id is not None]
    async with services.database.tenant_session(tenant.id) as session:
        await statistics.refresh_lexemes(session)
    found = there = 0
    while there < 300:
        query = list(dict.fromkeys(generator.choices(words, chances, k=6)))
        truth = dict(zip(written, bm25(query, texts), strict=True))
        tenth = sorted(truth.values())[-10]
        result = await bounded.search.search(tenant.id, SearchQuery(query=" ".join(query), mode="keyword"))
        if result.metadata.exact:
            continue
        found += sum(truth[entry] >= tenth for entry in ids(result)[:10])
        there += 10
    assert found / there >= 0.95
