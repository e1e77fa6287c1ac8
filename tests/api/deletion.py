"""Tenants that another process deletes while this one still remembers them."""

from collections.abc import Callable
from uuid import UUID

from app.composition.services import Services
from app.db.database import Database
from app.knowledge.audit import AuditTrail
from app.knowledge.tenants.directory import TenantDirectory


async def delete_elsewhere(services: Services, service_dsn: str, tenant_id: UUID) -> Callable[[], None]:
    """Delete a tenant through a connection of another process; the service remembers it permanently.

    Returns a function that makes the service remember the tenant again after it has forgotten it.
    """
    directory = services.tenants
    context = await directory.context(tenant_id)

    def recall() -> None:
        generation = directory._generations.current(tenant_id)
        directory._known[tenant_id] = (float("inf"), generation, context)

    other = Database(service_dsn, pool_size=1)
    await TenantDirectory(other, AuditTrail(other), default_model_id=1).delete(tenant_id, actor="test")
    await other.close()
    recall()
    return recall
