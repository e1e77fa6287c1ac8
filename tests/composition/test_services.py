"""Settings reach the services that apply them."""

from __future__ import annotations

from app.composition.services import open_services
from app.contract.administration import NewTenant
from app.settings import load_settings


async def test_the_bounds_of_records_are_those_of_the_settings(service_dsn: str) -> None:
    settings = load_settings(
        {
            "DATABASE_URL": service_dsn,
            "EMBEDDING_PROVIDER": "mock",
            "EMBEDDING_DIMENSIONS": "16",
            "JWT_SECRET": "s" * 32,
            "KB_AUDIT_ROWS": "1500000",
            "KB_LIMIT_RECEIPTS": "2000",
        },
        None,
    )
    async with open_services(settings) as services:
        tenant = await services.tenants.create(NewTenant("bounded"), actor="test")
        found = (await services.administration.stats(tenant.id)).records
    assert (found["audit"].limit, found["receipts"].limit) == (1_500_000, 2_000)
