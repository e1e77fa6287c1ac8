"""Phrases in quotes and words after a hyphen: what is read as such, and what it does to a search."""

from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import NewEntry
from app.contract.search import SearchQuery
from app.contract.vocabulary import Mode
from app.knowledge.search.query import Asked, read_operators

pytestmark = pytest.mark.own_tenants

PLAIN = (
    "cakes without nuts",
    "cakes NOT nuts",
    "cakes - nuts",
    "cakes – nuts",
    "-",
    "--",
    "-nuts",
    '-"with nuts" -fruit',
    "-40 degrees",
    "error -1 at start",
    "from -3.5 to 7",
    "well-known multi-tenant set-up",
    "(-nuts) cakes,-fruit",
    "kubectl get pods --all -n kube",
    "git log -p -three",
    'git commit -m "fix the login"',
    "- eggs\n-milk\n-flour",
    'blue "door paint',
    'a 5" pipe and a 3" valve',
    '{"error": "file not found"}',
    'say "cut" or ""',
)
READ = {
    "cakes -nuts": Asked("cakes", (), ("nuts",)),
    "-nuts cakes -fruit, -nuts": Asked("cakes", (), ("nuts", "fruit")),
    'cakes -"with nuts"': Asked("cakes", (), ("with nuts",)),
    "tenant -multi-tenant -C++ -v1.2": Asked("tenant", (), ("multi-tenant", "C++", "v1.2")),
    "चाय -पानी 茶 -猫": Asked("चाय 茶", (), ("पानी", "猫")),
    "backup -🔴 -✅Done -.NET": Asked("backup", (), ("🔴", "✅Done", ".NET")),
    "java -jar app.jar": Asked("java app.jar", (), ("jar",)),
    'the "blue door" shed': Asked('the "blue door" shed', ("blue door",)),
    'say "cut once" or „zwei Mal“, “and more”': Asked(
        'say "cut once" or „zwei Mal“, “and more”', ("cut once", "zwei Mal", "and more")
    ),
    "« deux fois » »drei Mal hier« 「猫茶」": Asked(
        "« deux fois » »drei Mal hier« 「猫茶」", ("deux fois", "drei Mal hier", "猫茶")
    ),
    '"same one" "same one" -other': Asked('"same one" "same one"', ("same one",), ("other",)),
}


@pytest.mark.parametrize("query", PLAIN)
def test_a_query_without_operators_is_searched_as_it_stands(query: str) -> None:
    assert read_operators(query) == Asked(query)


@pytest.mark.parametrize("query", READ)
def test_operators_are_read(query: str) -> None:
    assert read_operators(query) == READ[query]


def test_operators_are_limited() -> None:
    assert len(read_operators(" ".join(f'"phrase {n}"' for n in range(9))).phrases) == 5
    many = "x " + " ".join(f"-word{n}" for n in range(11))
    assert read_operators(many) == Asked(many)


TEXTS = (
    "Blue door paint is kept in the shed.",
    "Paint the door of the blue shed.",
    "Cakes with nuts are on shelf one.",
    "Cakes with fruit are on shelf two.",
    "Pass -jar to start the jar with java.",
    "🔴 Deck is wet.",
    "🟢Deck is dry, says .NET.",
    "Wasser mit Nüssen steht auf dem ersten Regal, der Kuchen auf dem zweiten Regal.",
)


@pytest.fixture
async def ids(services: Services, tenant: Tenant) -> dict[UUID, str]:
    stored = [(await services.entries.create(tenant.id, NewEntry(content=text)))[0] for text in TEXTS]
    return {entry.id: entry.content for entry in stored}


async def find(services: Services, tenant: Tenant, query: str, mode: Mode = "hybrid") -> list[str]:
    asked = SearchQuery(query, mode=mode, similarity_threshold=0.0)
    found = await services.search.search(tenant.id, asked)
    return [hit.content for hit in found]


EXCLUDING = (
    ("cakes", " -nut", {TEXTS[2]}),
    ("paint", ' -"blue door"', {TEXTS[0]}),
    ("shelf paint", " -one -two", {TEXTS[2], TEXTS[3]}),
    ("shelf Regal", " -Nüsse", {TEXTS[-1]}),
    ("deck", " -🔴", {TEXTS[5]}),
    ("deck", " -🟢Deck", {TEXTS[6]}),
    ("deck", " -.NET", {TEXTS[6]}),
    ("start java", " -jar", set[str]()),
)


@pytest.mark.parametrize(("query", "exclusion", "lost"), EXCLUDING)
@pytest.mark.usefixtures("ids")
async def test_no_leg_finds_an_excluded_word(
    services: Services, tenant: Tenant, query: str, exclusion: str, lost: set[str]
) -> None:
    for mode in ("hybrid", "keyword", "semantic"):
        all_found = set(await find(services, tenant, query, mode))
        assert set(await find(services, tenant, query + exclusion, mode)) == all_found - lost != set(), mode
        assert mode == "semantic" or lost <= all_found


@pytest.mark.usefixtures("ids")
async def test_a_phrase_binds_the_keyword_leg(services: Services, tenant: Tenant) -> None:
    assert await find(services, tenant, '"blue door paint"', "keyword") == [TEXTS[0]]
    assert await find(services, tenant, '"paint the door"', "keyword") == [TEXTS[1]]
    both = await services.search.search(tenant.id, SearchQuery('"paint the door"', similarity_threshold=0.0))
    assert both[0].content == TEXTS[1]
    assert {hit.content for hit in both if "keyword" in hit.sources} == {TEXTS[1]}
    assert {hit.content for hit in both} - {TEXTS[1]}
    nothing = await services.search.search(tenant.id, SearchQuery('"door blue paint"', mode="keyword"))
    assert (len(nothing), nothing.metadata.suggestions[0]) == (0, "door blue paint")


async def test_the_answer_and_why_not_name_the_operators(
    services: Services, tenant: Tenant, ids: dict[UUID, str]
) -> None:
    query = SearchQuery('"blue door" -shed', mode="keyword", limit=1)
    found = await services.search.search(tenant.id, query)
    assert (found.metadata.phrases, found.metadata.excluded) == (("blue door",), ("shed",))
    by_text = {text: entry_id for entry_id, text in ids.items()}

    async def why(text: str, query: str) -> list[tuple[str, str]]:
        asked = SearchQuery(query, mode="keyword")
        answer = await services.search.why_not(tenant.id, by_text[text], asked)
        return [(reason.stage, reason.detail) for reason in answer.reasons]

    assert await why(TEXTS[0], "paint -shed") == [("excluded", "has the excluded shed")]
    assert ("keyword", "does not have the phrase 'blue door'") in await why(TEXTS[1], '"blue door"')


async def test_facets_count_what_a_search_with_operators_finds(
    services: Services, tenant: Tenant, ids: dict[UUID, str]
) -> None:
    assert ids
    for query, count in (("shelf -nuts", 1), ('"shelf two"', 1), ("shelf", 2)):
        found = await services.search.search(tenant.id, SearchQuery(query, mode="keyword", facets=["scope"]))
        assert found.facets is not None
        assert [(value.value, value.count) for value in found.facets["scope"].values] == [("global", count)], query
