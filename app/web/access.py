"""Authentication and authorisation, before a request's body is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.requests import ClientDisconnect

from app.auth.principal import Principal, Role
from app.auth.tokens import TokenVerifier, bearer_token
from app.composition.services import Services
from app.errors import Forbidden, TenantNotFound, Unauthenticated
from app.knowledge.tenants.context import TenantContext
from app.web.bodies.intake import end_intake, holding_intake
from app.web.bodies.json_body import (
    Handler,
    JsonRequest,
    body_length,
    declared_length,
    media_type,
    read_body,
    refuse_body,
)
from app.web.caller import Caller
from app.web.login import RemoteLogin
from app.web.oversight import asks_for_all, describe_access, refuse_overview
from app.web.problems import problems, tenant_gone
from app.web.query_names import query_names, refuse_unknown

if TYPE_CHECKING:
    from app.auth.openid.sign_in import ProviderSignIn

READING = frozenset({Role.READER, Role.CREATOR, Role.TENANT_ADMIN, Role.PLATFORM_ADMIN})
"""A token with none of these shows that its owner may no longer read. A platform admin's token shows nothing: the
same person may have another token to read with."""

REVOKED = "the token was revoked"

# Only for OpenAPI, which shows where the token goes: `secured_router` does the work.
bearer_scheme = HTTPBearer(
    auto_error=False, bearerFormat="JWT", description="A token, for example from `knowledge token`."
)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the app, for handlers at `app.state.parts`.

    `metrics_apart`: metrics have a separate port. `login`: that of remote MCP clients. `sign_in`: that of people at a
    provider. `public_url`: the address at which callers reach the service, if it is known. `origins`: those of web
    pages that may call it.
    """

    services: Services
    verifier: TokenVerifier
    metrics_apart: bool = False
    login: RemoteLogin | None = None
    sign_in: ProviderSignIn | None = None
    public_url: str | None = None
    origins: frozenset[str] = frozenset()


async def identify(
    request: Request, token: str | None = None, verifier: TokenVerifier | None = None
) -> Principal:
    """Verify `token` or the request's bearer token, with `verifier` or the app's; also sets `request.state.principal`.

    Raises Unauthenticated.
    """
    parts: Parts = request.app.state.parts
    if token is None:
        token = bearer_token(request.headers.get("authorization"))
    principal = await (verifier or parts.verifier).verify(token)
    if Role.PLATFORM_ADMIN in principal.roles and await _is_revoked(parts.services, principal.token_id):
        raise Unauthenticated(REVOKED)
    request.state.principal = principal
    return principal


async def _is_revoked(services: Services, token_id: str | None) -> bool:
    """Whether a platform admin's token was revoked; those of tenants are in the tenant's context."""
    return token_id is not None and await services.platform_revocations.contains(token_id)


async def authenticate(
    request: Request,
    role: Role,
    token: str | None = None,
    verifier: TokenVerifier | None = None,
    *,
    asks_all: bool | None = None,
) -> Caller:
    """The caller with `role`, one of the tenant roles; also sets `request.state.caller`, and
    `request.state.tenant` even if it is refused; `token` and `verifier` as for `identify`. Callers whose token was
    revoked or whose tenant was deleted are strangers, as those without a token (`request.state.is_stranger`).
    `asks_all`: an admin of the tenant asks to see all of it; None: if the request has the header.

    Each way into a tenant over HTTP comes through here, and counts as one request of the tenant, whether its role is
    enough or not, but for its administration: a limit set too low can be taken back. Raises
    Unauthenticated, Forbidden, RateLimited and DatabaseUnavailable.
    """
    parts: Parts = request.app.state.parts
    principal = await identify(request, token, verifier)
    tenant = None
    if principal.tenant_id is not None:
        try:
            tenant = await parts.services.tenants.context(principal.tenant_id)
        except TenantNotFound:
            request.state.is_stranger = True
            raise tenant_gone() from None
        request.state.tenant = tenant
        if principal.token_id is not None and principal.token_id in tenant.revoked_tokens:
            request.state.is_stranger = True
            raise Unauthenticated(REVOKED)
        if not hasattr(request.state, "passage"):
            request.state.passage = await parts.services.admission.pace(tenant, declared_length(request))
        if role is not Role.TENANT_ADMIN or not principal.has(role):
            parts.services.admission.admit(tenant)
    try:
        tenant_id = principal.require_tenant(role)
        assert tenant is not None
    except Forbidden as error:
        if principal.tenant_id is not None and not principal.roles & READING:
            parts.services.subscriptions.note_caller(
                principal.tenant_id, principal.subject, principal.groups, reads=False
            )
        await _note_denial(request, error)
        raise
    parts.services.subscriptions.note_caller(
        tenant_id, principal.subject, principal.groups, [role.value for role in principal.roles], reads=True
    )
    caller = Caller(principal, tenant, await _oversee(request, role, tenant, asks_all))
    caller.act(role)
    request.state.caller = caller
    return caller


async def _oversee(request: Request, role: Role, tenant: TenantContext, asks_all: bool | None) -> bool:
    parts: Parts = request.app.state.parts
    principal: Principal = request.state.principal
    try:
        if asks_all is None:
            sees_all = asks_for_all(request, principal)
        else:
            sees_all = asks_all and principal.has(Role.TENANT_ADMIN)
        await refuse_overview(request, role, tenant, parts.services.tenants, sees_all=sees_all)
    except TenantNotFound:
        request.state.is_stranger = True
        raise tenant_gone() from None
    except Forbidden as error:
        await _note_denial(request, error)
        raise
    if sees_all:
        await parts.services.trail.note_access(tenant.tenant_id, principal.subject)
    return sees_all


async def answer(request: Request, handle: Handler) -> Response:
    """Have an admitted request answered: one that only reads in its tenant's turn, and one with a body once its tenant
    had a turn to have it parsed.

    Raises RateLimited, TooLarge and TooSlow.
    """
    caller: Caller | None = getattr(request.state, "caller", None)
    if caller is None:
        return await handle(request)
    parts: Parts = request.app.state.parts
    admission = parts.services.admission
    if request.method == "GET":
        async with admission.reading(caller.tenant):
            return await handle(request)
    count = body_length(request)
    if (
        not count or media_type(request) == "multipart/form-data"
    ):  # a file is read piece by piece, into a file
        return await handle(request)
    async with admission.holding(caller.tenant, count) as arrival:
        try:
            length = await read_body(request, lambda part: admission.receive(arrival, part))
        except ClientDisconnect:
            return Response(status_code=400)
        arrival.complete()
        async with admission.intake(caller.tenant, length) as intake:
            with holding_intake(intake):
                return await handle(request)


async def authenticate_platform(
    request: Request, token: str | None = None, verifier: TokenVerifier | None = None
) -> Principal:
    """A caller that manages the platform; `token` and `verifier` as for `identify`.

    Raises Unauthenticated and Forbidden.
    """
    principal = await identify(request, token, verifier)
    try:
        principal.require(Role.PLATFORM_ADMIN)
    except Forbidden as error:
        await _note_denial(request, error)
        raise
    return principal


async def _note_denial(request: Request, error: Forbidden) -> None:
    parts: Parts = request.app.state.parts
    principal: Principal = request.state.principal
    route = request.scope.get("route")
    operation = str(getattr(route, "operation_id", None) or getattr(route, "path", "unmatched"))
    await parts.services.trail.deny(principal.tenant_id, principal.subject, operation, error)


class NamedRoute(APIRoute):
    """A route whose function's name is its operation id, which clients and the audit trail use."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, end_intake(endpoint), **options | {"operation_id": endpoint.__name__})


class SecuredRoute(NamedRoute):
    """A route for callers with its `role`; 401 and 403 are answered before the body is read."""

    role: Role

    def get_route_handler(self) -> Handler:
        """FastAPI's handler, behind the checks."""
        handle = super().get_route_handler()
        if self.body_field is None and "POST" in (self.methods or ()):
            handle = refuse_body(handle)
        allowed = query_names(self)

        async def secured(request: Request) -> Response:
            if self.role is Role.PLATFORM_ADMIN:
                await authenticate_platform(request)
            elif getattr(request.state, "settled_role", None) is not self.role:  # not settled by a shortcut
                await authenticate(request, self.role)
            refuse_unknown(request.query_params.keys(), allowed)
            return await answer(JsonRequest(request.scope, request.receive), handle)

        return secured


def secured_router(role: Role, prefix: str, tag: str) -> APIRouter:
    """A router whose paths require `role`."""
    described = [Depends(describe_access)] if role is Role.TENANT_ADMIN else []
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        route_class=type("SecuredRoute", (SecuredRoute,), {"role": role}),
        dependencies=[Security(bearer_scheme), *described],
        responses=problems(401, 403, 422, 429, 503),
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


CurrentCaller = Annotated[Caller, Depends(_caller)]
CurrentPrincipal = Annotated[Principal, Depends(_principal)]
CurrentServices = Annotated[Services, Depends(_services)]
