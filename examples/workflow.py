"""A three-step workflow without HTTP, for two tenants concurrently: search, store a lesson, search again.

    .venv/bin/python examples/workflow.py

builds everything from the settings (`.env.example`); the defaults are an embedded Postgres under `.data/` and the
local model. A workflow engine with its own event loop, database engine and provider passes them in: see
`work_on_own_engine`. The workflow acts as a user of its own, which may read and write what all creators may.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from app.composition.database import check_database
from app.composition.services import Services, build_services, open_services
from app.contract.administration import NewTenant
from app.contract.entries import Entry, EntryDraft
from app.contract.results import Hit
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.principals import Rights, acting_as, principals_of
from app.embeddings.provider import EmbeddingProvider
from app.errors import TenantNotFound
from app.settings import Settings, load_settings

Learn = Callable[[str, Sequence[Hit]], Awaitable[str]]
"""Derives new knowledge from a question and the known hits; in a real workflow, a person or a model."""

SUBJECT = "workflow"
"""The user that the workflow is, in permissions and in the audit trail."""

QUESTIONS = {
    "harbour-north": "When may ships enter the harbour at night?",
    "harbour-south": "How many berths does the quay have?",
}


@dataclass(frozen=True, slots=True)
class Lesson:
    """The hits before the lesson, the lesson, and the hits after it."""

    before: Sequence[Hit]
    learnt: Entry
    after: Sequence[Hit]


async def learn_lesson(services: Services, tenant_id: UUID, question: str, learn: Learn) -> Lesson:
    """Run the three steps in one tenant."""
    query = SearchQuery(query=question, limit=3)
    found = await services.search.search(tenant_id, query, subject=SUBJECT)
    # A step that is repeated after a crash may find its own lesson, which must not be its own source.
    before = [hit for hit in found if hit.title != question]

    # The lesson names its sources, so that `related` links them. Writing with the same external_id again updates the
    # entry instead of adding a second one.
    learnt, _ = await services.entries.create(
        tenant_id,
        EntryDraft(
            content=await learn(question, before),
            title=question,
            entry_type="lesson",
            source_ids=[hit.id for hit in before],
            external_id=f"workflow:{question}",
        ),
        actor=SUBJECT,
    )

    after = await services.search.search(tenant_id, query, subject=SUBJECT)
    return Lesson(before, learnt, after.results)


async def work_for_tenants(services: Services, questions: Mapping[str, str], learn: Learn) -> dict[str, Lesson]:
    """Run one workflow for each tenant's question concurrently; create tenants that do not exist."""

    async def work(slug: str, question: str) -> Lesson:
        try:
            tenant = await services.tenants.find(slug)
        except TenantNotFound:
            tenant = await services.tenants.create(NewTenant(slug), actor=SUBJECT)
        return await learn_lesson(services, tenant.id, question, learn)

    with acting_as(principals_of(SUBJECT, groups=()), Rights.WRITE):
        lessons = await asyncio.gather(*(work(slug, question) for slug, question in questions.items()))
    return dict(zip(questions, lessons, strict=True))


async def work_from_settings(
    settings: Settings, learn: Learn, provider: EmbeddingProvider | None = None
) -> dict[str, Lesson]:
    """Build the services from the settings, optionally with your own provider."""
    async with open_services(settings, provider=provider) as services:
        return await work_for_tenants(services, QUESTIONS, learn)


async def work_on_own_engine(
    dsn: str, engine: AsyncEngine, provider: EmbeddingProvider, learn: Learn
) -> dict[str, Lesson]:
    """Build the services on the caller's engine and provider, and leave both open.

    The engine uses asyncpg and logs in at `dsn` as the service's role. Run `knowledge migrate` first: it creates the
    schema and registers the configured model; `register_model` registers another. `pool_size` is the maximum number of
    connections in use.
    """
    await check_database(dsn)
    services = await build_services(Database(dsn, engine=engine, pool_size=4), provider)
    try:
        return await work_for_tenants(services, QUESTIONS, learn)
    finally:
        await services.close()


async def note_question(question: str, known: Sequence[Hit]) -> str:
    """Stand in for learning: note the question and the known titles."""
    titles = ", ".join(hit.title or hit.snippet for hit in known) or "nothing"
    return f"A user asked: {question} Known until then: {titles}."


def main() -> None:
    """Run the workflow and print what changed."""
    for slug, lesson in asyncio.run(work_from_settings(load_settings(), note_question)).items():
        print(f"{slug}: found {len(lesson.before)} before, {len(lesson.after)} after")
        print(f"  learnt: {lesson.learnt.content}")


if __name__ == "__main__":
    main()
