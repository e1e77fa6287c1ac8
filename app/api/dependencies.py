"""Who calls: settled before a request's body is read, so that nobody without the role gets further."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from app.api.problems import problems
from app.auth.principal import Principal, Role
from app.auth.tokens import TokenVerifier, bearer_token
from app.composition import Services
from app.errors import TenantNotFound, Unauthenticated
from app.knowledge.tenants import TenantContext
from app.settings import Settings

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

# Only for OpenAPI, which shows where the token goes: `secured_router` does the work.
bearer_scheme = HTTPBearer(
    auto_error=False, bearerFormat="JWT", description="A token as `knowledge token` prints it."
)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the app was built from, as handlers find it on `app.state.parts`."""

    services: Services
    verifier: TokenVerifier
    settings: Settings


@dataclass(frozen=True, slots=True)
class Caller:
    """A verified caller with a role in an existing tenant."""

    principal: Principal
    tenant: TenantContext

    @property
    def subject(self) -> str:
        """The token's `sub`, for audit and receipts."""
        return self.principal.subject


def secured_router(role: Role, prefix: str, tag: str) -> APIRouter:
    """A router whose every path needs `role`; 401 and 403 are answered before the body is read."""

    class SecuredRoute(APIRoute):
        def get_route_handler(self) -> Handler:
            handle = super().get_route_handler()

            async def secured(request: Request) -> Response:
                parts: Parts = request.app.state.parts
                principal = await parts.verifier.verify(bearer_token(request.headers.get("authorization")))
                request.state.principal = principal
                if role is Role.PLATFORM_ADMIN:
                    principal.require(role)
                else:
                    tenant_id = principal.require_tenant(role)
                    try:
                        tenant = await parts.services.tenants.context(tenant_id)
                    except TenantNotFound:
                        raise Unauthenticated("the token's tenant does not exist") from None
                    request.state.caller = Caller(principal, tenant)
                return await handle(request)

            return secured

    return APIRouter(
        prefix=prefix,
        tags=[tag],
        route_class=SecuredRoute,
        dependencies=[Security(bearer_scheme)],
        responses=problems(401, 403, 422, 503),
    )


# Coroutines, since FastAPI would run plain functions in a thread each.
async def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


async def _principal(request: Request) -> Principal:
    principal: Principal = request.state.principal
    return principal


async def _services(request: Request) -> Services:
    parts: Parts = request.app.state.parts
    return parts.services


async def _settings(request: Request) -> Settings:
    parts: Parts = request.app.state.parts
    return parts.settings


CurrentCaller = Annotated[Caller, Depends(_caller)]
CurrentPrincipal = Annotated[Principal, Depends(_principal)]
CurrentServices = Annotated[Services, Depends(_services)]
CurrentSettings = Annotated[Settings, Depends(_settings)]
