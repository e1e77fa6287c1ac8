"""A case that the ranking gets wrong, and why no general change is made for it.

A reader would put the second entry above the third, since it answers the question for any platform. The third only has
the file's name and says nothing of order.
"""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import NewTenant
from app.contract.search import RRF_WEIGHTS, SearchQuery
from app.contract.vocabulary import Fusion
from app.knowledge.search.ranking import Candidate, reciprocal_rank_fusion
from tests.knowledge.writing import write

ENTRIES = (
    "In vercel.json, order routes from specific to parameterised: /api/users/me before /api/users/:id.",
    "In serverless functions the order of route definitions matters: specific patterns come before wildcards.",
    "Vercel deployment configuration: vercel.json supports rewrites, redirects and headers.",
)
QUERY = "How to order routes in vercel.json"


@pytest.mark.parametrize("fusion", ["rrf", "score"])
async def test_an_entry_with_the_name_in_the_question_ranks_above_one_with_its_subject(
    local_services: Services, fusion: Fusion
) -> None:
    """Both legs agree on it, so neither fusion can tell: the model sees the name, and the name is the rarest word.

    In rank fusion no change of the keyword leg can help as long as it finds both entries: at 0.7 to 0.3, one rank of
    the semantic leg counts more than one of the keyword leg. Leaving out entries that have only the name would lose the
    answers to most questions about a name.
    """
    tenant = await local_services.tenants.create(NewTenant(f"worked-example-{fusion}"), actor="test")
    ids = await write(local_services, tenant, *ENTRIES, language="english")
    wanted = SearchQuery(query=QUERY, fusion=fusion, explain=True)
    found = await local_services.search.search(tenant.id, wanted)
    await local_services.tenants.delete(tenant.id, actor="test")
    assert [ids.index(hit.id) + 1 for hit in found] == [1, 3, 2]
    assert found.debug_info is not None
    ranks = [(hit.semantic_rank, hit.keyword_rank) for hit in found.debug_info.hits]
    assert ranks == [(1, 1), (2, 2), (3, 3)]


def test_one_rank_of_the_semantic_leg_counts_more_than_one_of_the_keyword_leg() -> None:
    now = datetime(2026, 1, 15, tzinfo=UTC)
    named = Candidate(UUID(int=3), now, semantic_rank=2, keyword_rank=3)
    general = Candidate(UUID(int=2), now, semantic_rank=3, keyword_rank=2)
    reciprocal_rank_fusion([named, general], RRF_WEIGHTS)
    assert named.score > general.score
