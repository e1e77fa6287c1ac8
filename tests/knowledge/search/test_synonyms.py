"""Synonyms of a tenant, which searches look for in the place of terms of the query."""

from typing import Any

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.results import KeywordExplanation
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch, read_synonyms
from app.errors import InvalidInput
from app.knowledge.search.query import MAX_SYNONYM_PAIRS, find_synonyms
from tests.fixtures.searching import explanation_of
from tests.knowledge.writing import write

pytestmark = pytest.mark.own_tenants

RULES = ("laptop, notebook, portable computer", "pc => laptop", "KV-7 => Kestrel valve", "携帯 => 電話", "🚀, rocket")


def test_rules_are_read_in_both_directions_or_in_one() -> None:
    assert set(read_synonyms("a, b c,a")) == {("a", "b c"), ("b c", "a")}
    assert read_synonyms("a, b => c") == (("a", "c"), ("b", "c"))


REFUSED: tuple[Any, ...] = (
    "laptop", "a, ", ", => a", "a => b => c", "a => ", "a, +", "one two three four five six, a", "a, " + "b" * 81,
    ", ".join(f"t{n}" for n in range(21)), "a, " + "b " * 300, 5, "a, b\x00",
)  # fmt: skip


@pytest.mark.parametrize("rule", REFUSED)
def test_other_rules_are_refused_by_place(rule: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        SettingsPatch(synonyms=["a, b", rule])
    assert [error.field for error in caught.value.errors] == ["synonyms.1"]


def test_rules_and_the_synonyms_of_one_query_are_limited() -> None:
    with pytest.raises(InvalidInput, match="500"):
        SettingsPatch(synonyms=["a, b"] * 501)
    rules = [", ".join(f"term{n} {m}" for m in range(20)) for n in range(5)]
    assert len(find_synonyms(rules, "terms 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19")) == MAX_SYNONYM_PAIRS


FINDS = (
    ("laptop", {"notebook", "portable"}),
    ("the Laptops of staff", {"notebook", "portable"}),
    ("portable computers", {"notebook", "portable"}),
    ("computer portable", {"portable"}),
    ("pc", set[str]()),
    ("KV-7", {"valve"}),
    ("携帯はどこ", {"電話"}),
    ("🚀", {"rocket", "🚀"}),
    ("rockets", {"rocket", "🚀"}),
)


@pytest.mark.parametrize(("query", "found"), FINDS)
async def test_a_search_finds_synonyms_of_its_terms(
    services: Services, tenant: Tenant, query: str, found: set[str]
) -> None:
    texts = {
        "notebook": "Every notebook is insured.",
        "portable": "A portable computer needs a lock.",
        "valve": "The Kestrel valve opens at six bar.",
        "電話": "電話は二階にあります。",
        "rocket": "Rockets are red.",
        "🚀": "🚀Start is at noon.",
        "other": "Vests are in the hall.",
    }
    written = dict(zip(texts, await write(services, tenant, *texts.values()), strict=True))
    await services.tenants.change_settings(tenant.id, SettingsPatch(synonyms=RULES))
    result = await services.search.search(tenant.id, SearchQuery(query, mode="keyword", explain=True))
    assert {hit.id for hit in result} == {written[name] for name in found}
    if query == "laptop":
        assert {"notebook"} in [set(hit.matched_terms) for hit in result]
        keyword = explanation_of(result).legs.keyword
        assert isinstance(keyword, KeywordExplanation)
        assert keyword.synonyms == {"laptop": ["notebook", "portable computer"]}
        why = await services.search.why_not(tenant.id, written["other"], SearchQuery(query, mode="keyword"))
        assert ("keyword", "shares no word with the query or its synonyms (notebook, portable computer)") in [
            (reason.stage, reason.detail) for reason in why.reasons
        ]


async def test_the_callers_own_word_comes_first(services: Services, tenant: Tenant) -> None:
    other, own = await write(services, tenant, "Every notebook is insured.", "Every laptop is insured.")
    query = SearchQuery("laptop", mode="keyword")
    assert [hit.id for hit in await services.search.search(tenant.id, query)] == [own]
    await services.tenants.change_settings(tenant.id, SettingsPatch(synonyms=RULES))
    assert [hit.id for hit in await services.search.search(tenant.id, query)] == [own, other]
    await services.tenants.change_settings(tenant.id, SettingsPatch(synonyms=None))
    assert [hit.id for hit in await services.search.search(tenant.id, query)] == [own]


async def test_an_identifier_with_a_synonym_is_still_found_as_a_whole(services: Services, tenant: Tenant) -> None:
    texts = ("Fault E-4012 stops the press.", "Fault ERR_4012 stops the press.", "An ERR is logged.", "Room 4012.")
    named, own, *_ = await write(services, tenant, *texts)
    await services.tenants.change_settings(tenant.id, SettingsPatch(synonyms=["ERR_4012, E-4012"]))
    result = await services.search.search(tenant.id, SearchQuery("ERR_4012", mode="keyword", explain=True))
    assert {hit.id for hit in result} == {own, named}
    keyword = explanation_of(result).legs.keyword
    assert isinstance(keyword, KeywordExplanation)
    assert keyword.strategy == "whole_identifier"
    assert keyword.synonyms == {"ERR_4012": ["E-4012"]}


@pytest.mark.parametrize("rule", ["ERR, error", "4012, four thousand", "ERR_4012, jam"])
async def test_a_synonym_hides_no_part_of_an_identifier_that_no_entry_has(
    services: Services, tenant: Tenant, rule: str
) -> None:
    parts, *_ = await write(services, tenant, "Fault ERR 4012 stops it.", "An error.", "Four thousand.", "A jam.")
    await services.tenants.change_settings(tenant.id, SettingsPatch(synonyms=[rule]))
    query = SearchQuery("ERR_4012", mode="keyword")
    assert parts in [hit.id for hit in await services.search.search(tenant.id, query)]
    (whole,) = await write(services, tenant, "It is ERR_4012 that stops it.")
    assert whole in [hit.id for hit in await services.search.search(tenant.id, query)]
