"""The local model finds a text that shares no word with the query."""

from __future__ import annotations

from app.composition.services import Services
from app.contract.administration import NewTenant
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery

TEXTS = (
    "The cat sleeps on the warm windowsill all afternoon.",
    "Interest rates were raised by the central bank on Thursday.",
    "To reset your password, open the account page and choose a new one.",
    "The recipe needs flour, butter, sugar and three eggs.",
)


async def test_question_finds_its_answer_without_a_common_word(local_services: Services) -> None:
    tenant = await local_services.tenants.create(NewTenant("meaning"), actor="test")
    made = {text: (await local_services.entries.create(tenant.id, EntryDraft(content=text)))[0].id for text in TEXTS}
    for query, answer in (
        ("I forgot my login credentials", TEXTS[2]),
        ("baking a cake", TEXTS[3]),
        ("monetary policy", TEXTS[1]),
        ("resting pets", TEXTS[0]),
    ):
        result = await local_services.search.search(
            tenant.id, SearchQuery(query=query, mode="semantic", similarity_threshold=0.1)
        )
        assert result[0].id == made[answer], query
        assert result.metadata.exact
