"""The example workflow, run as its readers would: in its own loop, on its own engine, and from settings."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import create_async_engine

from app.composition.services import Services
from app.contract.administration import NewTenant
from app.contract.entries import EntryDraft
from app.contract.results import Hit
from app.embeddings.provider import resolve_model
from app.embeddings.providers.mock import MockProvider
from app.settings import DatabaseSettings, EmbeddingSettings, Settings
from examples.workflow import QUESTIONS, Lesson, note_question, work_for_tenants, work_from_settings, work_on_own_engine
from tests.fixtures.database.cluster import MODEL, TestDatabase
from tests.fixtures.providers.failing import FailingProvider

ROOT = Path(__file__).parents[2]


async def learn_from_the_harbour_master(question: str, known: Sequence[Hit]) -> str:
    """A fact that no model can know beforehand."""
    assert known == []
    return f"The harbour master says, when asked '{question}': it depends on the tide."


def check_lessons(lessons: dict[str, Lesson]) -> None:
    """Each tenant found nothing, learned something, and then finds only that."""
    assert list(lessons) == list(QUESTIONS)
    for slug, lesson in lessons.items():
        assert lesson.before == []
        assert [hit.id for hit in lesson.after] == [lesson.learnt.id]
        assert QUESTIONS[slug] in lesson.after[0].content


async def test_the_workflow_runs_in_its_own_loop_on_its_own_engine(fresh_database: TestDatabase) -> None:
    dsn = fresh_database.service_dsn

    async def work() -> dict[str, Lesson]:
        address = dsn.replace("postgresql://", "postgresql+asyncpg://", 1)
        engine = create_async_engine(address, pool_size=4, max_overflow=0)
        provider = FailingProvider(MODEL)
        try:
            lessons = await work_on_own_engine(dsn, engine, provider, learn_from_the_harbour_master)
            # Both were lent, so both are still usable.
            assert not provider.closed
            async with engine.connect() as connection:
                assert (await connection.exec_driver_sql("select 1")).scalar_one() == 1
        finally:
            await engine.dispose()
        return lessons

    check_lessons(await asyncio.to_thread(asyncio.run, work()))


async def test_a_repeated_step_changes_its_own_entry(services: Services) -> None:
    (first, _) = (await work_for_tenants(services, QUESTIONS, note_question)).values()
    (again, _) = (await work_for_tenants(services, QUESTIONS, learn_from_the_harbour_master)).values()
    assert again.learnt.id == first.learnt.id
    assert again.learnt.content != first.learnt.content
    assert [hit.id for hit in again.after] == [first.learnt.id]


async def test_a_lesson_names_its_sources(services: Services) -> None:
    tenant = await services.tenants.create(NewTenant("harbour-north"), actor="test")
    known, _ = await services.entries.create(tenant.id, EntryDraft(content="Ships enter the harbour by day."))
    lesson = (await work_for_tenants(services, QUESTIONS, note_question))["harbour-north"]
    assert lesson.learnt.source_ids == [known.id]
    (related,) = (await services.reading.related(tenant.id, known.id, 5)).results
    assert (related.id, related.relationship) == (lesson.learnt.id, "derived")


async def test_services_from_settings_accept_a_given_provider(fresh_database: TestDatabase) -> None:
    provider = FailingProvider(MODEL)
    settings = Settings(
        database=DatabaseSettings(url=SecretStr(fresh_database.service_dsn)),
        embedding=EmbeddingSettings(provider="local"),
    )
    check_lessons(await work_from_settings(settings, learn_from_the_harbour_master, provider))
    assert provider.queries
    assert not provider.closed


async def test_the_model_of_a_given_provider_is_registered_when_an_administrator_is_configured(
    fresh_database: TestDatabase,
) -> None:
    settings = Settings(
        database=DatabaseSettings(
            url=SecretStr(fresh_database.service_dsn), admin_url=SecretStr(fresh_database.admin_dsn)
        )
    )
    provider = MockProvider(resolve_model("mock", dimensions=24))
    check_lessons(await work_from_settings(settings, learn_from_the_harbour_master, provider))


@pytest.mark.slow
async def test_the_example_runs_as_a_program(fresh_database: TestDatabase) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "DATABASE_URL": fresh_database.service_dsn,
        "EMBEDDING_PROVIDER": "mock",
        "EMBEDDING_DIMENSIONS": "16",
        "JWT_SECRET": "a-secret-that-the-example-does-not-need",
    }
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "examples/workflow.py"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "harbour-south: found 0 before, 1 after" in done.stdout
