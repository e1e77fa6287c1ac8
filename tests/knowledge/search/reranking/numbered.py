"""Entries n0, n1, …, which all match `harbour`, and scores for them."""

from uuid import UUID

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.search import SearchQuery
from tests.fixtures.providers.rerank_wire import RerankWire, encode_scores, texts_of
from tests.fixtures.providers.wire import Reply
from tests.knowledge.writing import write


async def write_numbered(services: Services, tenant: Tenant, count: int) -> list[UUID]:
    """Entries that match `harbour` by their words, the first ones better."""
    texts = (f"n{n} harbour" + " filler" * n for n in range(count))
    return await write(services, tenant, *texts, language="simple")


def find(**changes: object) -> SearchQuery:
    return SearchQuery(**({"query": "harbour", "mode": "keyword", "explain": True} | changes))  # type: ignore[arg-type]


def scripted(wire: RerankWire, **scores: float) -> None:
    """The next answer has these scores for the texts that start with these words, and 0 for the others."""

    def score(text: str) -> float:
        return next((value for word, value in scores.items() if text.startswith(word)), 0.0)

    wire.script = [Reply(body=lambda r: encode_scores(r, [(at, score(text)) for at, text in enumerate(texts_of(r))]))]
