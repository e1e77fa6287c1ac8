"""Authenticate and authorise requests before their body is read, and record an admin's access to a whole tenant."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Request, Response, Security
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import WithJsonSchema
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from app.auth.principal import Principal, Role
from app.auth.tokens import TokenVerifier, bearer_token
from app.composition.services import Services
from app.contract.search import most_hits
from app.contract.vocabulary import COMMAND_LINE, ToolSet
from app.db.principals import SERVICE, Rights, act_as, principals_of
from app.errors import FieldError, Forbidden, InvalidInput, TenantNotFound, Unauthenticated
from app.knowledge.tenants.admission import Admission
from app.knowledge.tenants.directory import TenantContext, TenantDirectory
from app.knowledge.tenants.keys import is_key
from app.web.bodies import (
    Handler,
    JsonRequest,
    body_length,
    declared_length,
    end_intake,
    holding_intake,
    media_type,
    read_body,
    refuse_body,
)
from app.web.deprecation import add_headers, deprecation_headers
from app.web.insiders import Insider, find_insider
from app.web.login import RemoteLogin
from app.web.problems import problems, tenant_gone
from app.web.rendering import ACCESS, spare_known

if TYPE_CHECKING:
    from app.auth.sign_in import ProviderSignIn

RIGHTS = {Role.READER: Rights.READ, Role.CREATOR: Rights.WRITE, Role.TENANT_ADMIN: Rights.ADMINISTER}
"""The rights of a path in the database, by the role that it requires: a path for readers cannot write knowledge."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A verified caller with a role in an existing tenant.

    `sees_all`: an admin of the tenant has asked to see data beyond its own rights. `is_insider`: it is a command of the
    user that runs the service, for which the limits of callers do not apply.
    """

    principal: Principal
    tenant: TenantContext
    sees_all: bool = False
    is_insider: bool = False

    def act(self, role: Role) -> None:
        """From here on, transactions are of this caller, with the rights of a path for `role`."""
        principals = SERVICE if self.sees_all else principals_of(self.subject, self.principal.groups)
        act_as(principals, RIGHTS[role])

    @property
    def tenant_id(self) -> UUID:
        """The tenant that the caller works in."""
        return self.tenant.tenant_id

    @property
    def subject(self) -> str:
        """The token's `sub`, for audit and receipts."""
        return self.principal.subject

    @property
    def sees_quarantined(self) -> bool:
        """Whether the caller may read what is in quarantine over HTTP and in the console: those who can correct it.

        The tools of MCP do not ask: agents get no quarantined text, whatever their role.
        """
        return self.principal.has(Role.CREATOR)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool or a page: its caller, and the services for it."""

    caller: Caller
    services: Services

    @property
    def tenant_id(self) -> UUID:
        """The caller's tenant."""
        return self.caller.tenant_id

    @property
    def subject(self) -> str:
        """The caller's name, for audit and receipts."""
        return self.caller.subject


MAX_SHOWN = 100
"""Characters of an unknown name that the problem repeats."""


def query_names(route: APIRoute) -> frozenset[str]:
    """The names that the route and its dependencies read."""
    fields = get_flat_params(route.dependant)
    return frozenset(field.alias for field in fields if isinstance(field.field_info, Query))


def refuse_unknown(given: Collection[str], allowed: frozenset[str]) -> None:
    """Raise InvalidInput with each name that is not allowed, and the most similar allowed name."""
    if unknown := sorted(set(given) - allowed):
        raise InvalidInput(list(_errors(unknown, allowed)))


def _errors(unknown: Collection[str], allowed: frozenset[str]) -> Iterator[FieldError]:
    listed = f"must be one of {', '.join(sorted(allowed))}" if allowed else "the path has no query parameters"
    for name in unknown:
        close = get_close_matches(name.lower()[:MAX_SHOWN], sorted(allowed), n=1)
        advice = f"did you mean {close[0]}? " if close else ""
        yield FieldError(name[:MAX_SHOWN], f"unknown query parameter; {advice}{listed}")


Access = Annotated[
    str | None,
    WithJsonSchema({"type": "string", "enum": ["all"]}),
    Header(alias=ACCESS, description="`all`: see and change the whole tenant. The audit trail records it."),
]
NARROW = (
    "/admin/settings",
    "/admin/revoked-tokens",
    "/admin/keys",
    "/console/settings",
    "/console/access/change",
    "/console/everything",
)
"""Paths of the administration that show nothing of entries that the admin may not read, and the console's path at which
an admin begins to see everything."""


class OverviewRefused(Forbidden):
    """Not all readers of the tenant may read everything, and its admin did not ask to see all."""


async def describe_access(_access: Access = None) -> None:
    """Describe the header in the OpenAPI document; `asks_for_all` reads it before the handler runs."""


def asks_for_all(request: Request, principal: Principal) -> bool:
    """Whether the request has the header ACCESS. Raises InvalidInput, and Forbidden for callers without that role."""
    asked = request.headers.get(ACCESS)
    if asked is None:
        return False
    if asked != "all":
        raise InvalidInput.of(ACCESS, "must be all, or absent")
    principal.require(Role.TENANT_ADMIN)
    return True


async def require_overview(tenant: TenantContext, tenants: TenantDirectory, *, sees_all: bool) -> None:
    """Raise OverviewRefused unless the caller sees all, or all its readers do."""
    if sees_all:
        return
    if not tenant.restricted:
        # The cached tenant may be older than the first entry with readers.
        tenants.forget(tenant.tenant_id)
        tenant = await tenants.context(tenant.tenant_id)
    if tenant.restricted:
        raise OverviewRefused(
            f"not all readers of this tenant may read everything: send {ACCESS}: all (KB_ACCESS=all for commands)"
        )


READING = frozenset({Role.READER, Role.CREATOR, Role.TENANT_ADMIN, Role.PLATFORM_ADMIN})
"""A token with none of these shows that its owner may no longer read. A platform admin's token shows nothing: the
same person may have another token to read with."""

REVOKED = "the token was revoked"

# Only for OpenAPI, which shows where the token goes: `secured_router` does the work.
bearer_scheme = HTTPBearer(
    auto_error=False,
    bearerFormat="JWT",
    description="A token, for example from `knowledge token`, or an API key (`kb_…`) of the tenant.",
)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the app, for handlers at `app.state.parts`.

    `metrics_apart`: metrics have a separate port. `login`: that of remote MCP clients. `sign_in`: that of people at a
    provider. `public_url`: the address at which callers reach the service, if it is known. `origins`: those of web
    pages that may call it. `tools`: those that MCP clients list unless they choose.
    """

    services: Services
    verifier: TokenVerifier
    metrics_apart: bool = False
    login: RemoteLogin | None = None
    sign_in: ProviderSignIn | None = None
    public_url: str | None = None
    origins: frozenset[str] = frozenset()
    tools: ToolSet = "core"


async def identify(request: Request, token: str | None = None, verifier: TokenVerifier | None = None) -> Principal:
    """Verify `token` or the request's bearer token, an API key or a token for `verifier` or the app's; also sets
    `request.state.principal`.

    Raises Unauthenticated.
    """
    parts: Parts = request.app.state.parts
    if (insider := find_insider(request.scope)) is not None:
        request.state.principal = insider.platform_admin
        return insider.platform_admin
    if token is None:
        token = bearer_token(request.headers.get("authorization"))
    if is_key(token):
        grant = await parts.services.keys.verify(token)
        principal = Principal(grant.subject, grant.tenant_id, frozenset({Role(grant.role)}), groups=tuple(grant.groups))
    else:
        principal = await (verifier or parts.verifier).verify(token)
    # The revoked tokens of a tenant are in its context.
    token_id = principal.token_id if Role.PLATFORM_ADMIN in principal.roles else None
    if token_id is not None and await parts.services.platform_revocations.contains(token_id):
        raise Unauthenticated(REVOKED)
    request.state.principal = principal
    return principal


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
    if (insider := find_insider(request.scope)) is not None:
        return await _admit_insider(request, role, insider)
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
        if not hasattr(request.state, "ticket"):
            request.state.ticket = await parts.services.admission.pace(tenant, declared_length(request))
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


async def _admit_insider(request: Request, role: Role, insider: Insider) -> Caller:
    """Let a command in, with the rights of the service: its user can open the database. Raises TenantNotFound."""
    if insider.slug is None:
        raise Forbidden("this requires a tenant")
    parts: Parts = request.app.state.parts
    tenants = parts.services.tenants
    tenant = await tenants.context((await tenants.find(insider.slug)).id)
    principal = Principal(COMMAND_LINE, tenant.tenant_id, frozenset({Role.TENANT_ADMIN}))
    caller = Caller(principal, tenant, sees_all=True, is_insider=True)
    caller.act(role)
    request.state.principal, request.state.caller = principal, caller
    return caller


async def _oversee(request: Request, role: Role, tenant: TenantContext, asks_all: bool | None) -> bool:
    parts: Parts = request.app.state.parts
    principal: Principal = request.state.principal
    try:
        if asks_all is None:
            sees_all = asks_for_all(request, principal)
        else:
            sees_all = asks_all and principal.has(Role.TENANT_ADMIN)
        # The numbers and ids of an overview would tell of entries that the admin may not read.
        if role is Role.TENANT_ADMIN and not request.url.path.startswith(NARROW):
            await require_overview(tenant, parts.services.tenants, sees_all=sees_all)
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
    if caller is None or caller.is_insider:
        return await handle(request)
    parts: Parts = request.app.state.parts
    with most_hits(parts.services.search.defaults.max_limit):
        return await _answer_tenant(request, caller, parts.services.admission, handle)


async def _answer_tenant(request: Request, caller: Caller, admission: Admission, handle: Handler) -> Response:
    if request.method == "GET":
        async with admission.reading(caller.tenant):
            return await handle(request)
    count = body_length(request)
    if not count or media_type(request) == "multipart/form-data":  # a file is read piece by piece, into a file
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
        self._deprecation = deprecation_headers(self.openapi_extra)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, also with a problem; answers of a deprecated path have its headers."""
        await super().handle(scope, receive, add_headers(send, self._deprecation) if self._deprecation else send)


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
            else:
                await authenticate(request, self.role)
            refuse_unknown(request.query_params.keys(), allowed)
            return spare_known(request, await answer(JsonRequest(request.scope, request.receive), handle))

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


async def _reader(request: Request) -> str | None:
    insider = find_insider(request.scope)
    principal: Principal = request.state.principal
    return None if insider is not None and insider.looks_only else principal.subject


async def _principal(request: Request) -> Principal:
    principal: Principal = request.state.principal
    return principal


async def _services(request: Request) -> Services:
    parts: Parts = request.app.state.parts
    return parts.services


CurrentCaller = Annotated[Caller, Depends(_caller)]
CurrentReader = Annotated[str | None, Depends(_reader)]
"""The caller as the audit trail names it for what it reads; None if that is not recorded."""
CurrentPrincipal = Annotated[Principal, Depends(_principal)]
CurrentServices = Annotated[Services, Depends(_services)]
