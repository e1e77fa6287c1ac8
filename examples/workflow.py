"""A three-step workflow without HTTP: search, keep what was learnt, search again; for two tenants at once.

    .venv/bin/python examples/workflow.py

builds everything from the settings (`.env.example`): with none, an embedded Postgres under `.data/` and the local
model. A workflow engine that has an event loop, an engine and a provider of its own lends them instead: see
`work_on_own_engine`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from app.composition.database import check_database
from app.composition.services import Services, build_services, open_services
from app.db.database import Database
from app.embeddings.provider import EmbeddingProvider
from app.errors import TenantNotFound
from app.knowledge.entries.entry import Entry
from app.knowledge.search.query import SearchQuery
from app.knowledge.search.results import Hit
from app.settings import Settings, load_settings

Learn = Callable[[str, Sequence[Hit]], Awaitable[str]]
"""Makes new knowledge of a question and of what is known already; in a real workflow, a person or a model."""

QUESTIONS = {
    "harbour-north": "When may ships enter the harbour at night?",
    "harbour-south": "How many berths does the quay have?",
}


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a workflow knew before, what it learnt, and what it finds since."""

    before: Sequence[Hit]
    learnt: Entry
    after: Sequence[Hit]


async def learn_lesson(services: Services, tenant_id: UUID, question: str, learn: Learn) -> Lesson:
    """The three steps, inside one tenant."""
    query = SearchQuery(query=question, limit=3)
    found = await services.search.search(tenant_id, query, subject="workflow")
    # A step that is done again, after a crash, may find its own lesson, which is no source of itself.
    before = [hit for hit in found if hit.title != question]

    # What is learnt says what it was made from, so that `related` leads from one to the other. The same external_id
    # again changes the entry instead of adding a second one.
    learnt, _ = await services.entries.create(
        tenant_id,
        {
            "content": await learn(question, before),
            "title": question,
            "entry_type": "lesson",
            "source_ids": [hit.id for hit in before],
            "external_id": f"workflow:{question}",
        },
        actor="workflow",
    )

    after = await services.search.search(tenant_id, query, subject="workflow")
    return Lesson(before, learnt, after.results)


async def work_for_tenants(
    services: Services, questions: Mapping[str, str], learn: Learn
) -> dict[str, Lesson]:
    """One workflow for each tenant's question, all at once; tenants that do not exist are made."""

    async def work(slug: str, question: str) -> Lesson:
        try:
            tenant = await services.tenants.find(slug)
        except TenantNotFound:
            tenant = await services.tenants.create(slug, actor="workflow")
        return await learn_lesson(services, tenant.id, question, learn)

    lessons = await asyncio.gather(*(work(slug, question) for slug, question in questions.items()))
    return dict(zip(questions, lessons, strict=True))


async def work_from_settings(
    settings: Settings, learn: Learn, provider: EmbeddingProvider | None = None
) -> dict[str, Lesson]:
    """The services as the settings describe them, if wanted with a provider of your own."""
    async with open_services(settings, provider=provider) as services:
        return await work_for_tenants(services, QUESTIONS, learn)


async def work_on_own_engine(
    dsn: str, engine: AsyncEngine, provider: EmbeddingProvider, learn: Learn
) -> dict[str, Lesson]:
    """The services over a lent engine, whose pool, and whose provider, stay open for their owner.

    The engine uses asyncpg and logs in at `dsn` as the service's role. `knowledge migrate` made the database and
    registered the provider's model; `pool_size` is how many of the engine's connections may be used at a time.
    """
    await check_database(dsn)
    services = await build_services(Database(dsn, engine=engine, pool_size=4), provider)
    try:
        return await work_for_tenants(services, QUESTIONS, learn)
    finally:
        await services.close()


async def note_question(question: str, known: Sequence[Hit]) -> str:
    """A stand-in for learning: it notes that the question was asked, and what was known."""
    titles = ", ".join(hit.title or hit.snippet for hit in known) or "nothing"
    return f"Somebody asked: {question} Known until then: {titles}."


def main() -> None:
    """Run the workflow and print what changed."""
    for slug, lesson in asyncio.run(work_from_settings(load_settings(), note_question)).items():
        print(f"{slug}: found {len(lesson.before)} before, {len(lesson.after)} after")
        print(f"  learnt: {lesson.learnt.content}")


if __name__ == "__main__":
    main()
