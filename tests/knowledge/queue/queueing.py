"""Queued work without a service that runs it."""

from datetime import timedelta

from app.composition.services import Services
from app.contract.administration import Tenant
from app.db.queries import jobs as db

NOW = timedelta(0)


async def enqueue(services: Services, tenant: Tenant, *subjects: str, delay: timedelta = NOW) -> None:
    async with services.database.tenant_session(tenant.id) as session:
        for subject in subjects:
            await db.enqueue_job(session, "refresh_statistics", subject, delay)
