"""Services that manage tenants, for commands that need no embedding model."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from app.composition.database import check_database, open_database, small_pool
from app.composition.providers import configured_models, find_models
from app.contract.search import Weights
from app.contract.settings import Limits
from app.db.database import Database
from app.knowledge.administration.platform import PlatformService
from app.knowledge.audit import AuditTrail
from app.knowledge.entries.reading import ReadingService
from app.knowledge.quarantine import QuarantineService
from app.knowledge.search.plan import SearchDefaults
from app.knowledge.tenants.directory import PlatformRevocations, TenantDirectory
from app.knowledge.tenants.keys import ApiKeys
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class Platform:
    """The services that need no embedding model, with the names that they have among all services."""

    database: Database
    tenants: TenantDirectory
    platform: PlatformService
    reading: ReadingService
    platform_revocations: PlatformRevocations
    quarantine: QuarantineService
    trail: AuditTrail
    keys: ApiKeys


@contextlib.asynccontextmanager
async def open_platform(settings: Settings, *, for_creation: bool = False) -> AsyncIterator[Platform]:
    """Open the platform on the configured database; `for_creation` also finds the id of new tenants' model.

    Raises ConfigurationError.
    """
    async with open_database(settings) as addresses:
        await check_database(addresses.service)
        async with small_pool(addresses.service, settings) as database:
            model_id = (await find_models(database, configured_models(settings)))[0] if for_creation else 0
            trail = AuditTrail(database)
            tenants = TenantDirectory(
                database,
                trail,
                default_model_id=model_id,
                default_limits=default_limits(settings),
                max_limit=settings.search.max_limit,
            )
            yield Platform(
                database,
                tenants,
                PlatformService(database, tenants),
                ReadingService(database),
                PlatformRevocations(database),
                QuarantineService(database, trail),
                trail,
                ApiKeys(database, trail, tenants),
            )


def default_limits(settings: Settings) -> Limits:
    """The configured limits of a tenant for which the platform has set none."""
    return Limits(**settings.limits.model_dump(exclude={"crowd"}))


def search_defaults(settings: Settings) -> SearchDefaults:
    """The configured defaults and limits of searches."""
    search = settings.search
    return SearchDefaults(
        weights=Weights(search.semantic_weight, search.keyword_weight),
        similarity_threshold=search.similarity_threshold,
        default_limit=search.default_limit,
        max_limit=search.max_limit,
        exact_limit=search.exact_limit,
    )
