"""Strangers and identities."""

import asyncio
import contextlib
import importlib
import inspect
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import httpx
import pytest
from asgi_lifespan import LifespanManager

from app.auth import jwks, principal, tokens
from app.auth.issuing import read_token_id
from app.auth.jwks import JwksCache, find_key, parse_key_set
from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.concurrency.limits import Pace
from app.contract.administration import NewRevocation, NewTenant, Tenant
from app.contract.keys import NewKey
from app.db.rows import new_id
from app.main import create_app
from app.settings import Settings
from app.web.occupancy import Occupancy
from tests.fixtures.http.callers import SECRET, Caller, make_token, open_client
from tests.fixtures.http.expectations import expect_problem
from tests.fixtures.http.serving import serve
from tests.fixtures.identity.forgery import NOW, TENANT, forge, forge_asymmetric
from tests.fixtures.identity.issuer import Issuer
from tests.hostile.tokens import AUDIENCE, ISSUER, PUBLISHED, RSA, forge_issued, forge_shared, make_good_claims

KEY = SECRET.encode()
PATHS = ("/knowledge/entries", "/admin/tenants", "/admin/stats")


async def expect_all_refused(client: httpx.AsyncClient, tenant: Tenant, forged: dict[str, str]) -> None:
    """Fail unless each token gets a 401 problem that does not repeat the token."""
    for name, token in forged.items():
        for path in PATHS:
            answer = await Caller(client, tenant.id, token).get(path)
            body = expect_problem(answer, 401)
            assert len(body["detail"]) < 120, name
            assert str(tenant.id) not in answer.text, name


async def test_no_forged_token_is_accepted_with_a_shared_secret(
    settings: Settings, api_services: Services, api_tenant: Tenant
) -> None:
    verifier = TokenVerifier(secret=SECRET, audience=AUDIENCE, issuer=ISSUER)
    app = create_app(settings, api_services, verifier)
    async with LifespanManager(app), open_client(app) as client:
        good = forge(make_good_claims(time.time(), str(api_tenant.id)), key=KEY)
        assert (await Caller(client, api_tenant.id, good).get(PATHS[0])).status_code == 200
        forged = forge_shared(time.time(), str(api_tenant.id), KEY)
        assert len(forged) > 40
        await expect_all_refused(client, api_tenant, dict(forged))


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with Issuer() as server:
        server.publish(*PUBLISHED)
        yield server


async def test_no_forged_token_is_accepted_with_published_keys(
    settings: Settings, api_services: Services, api_tenant: Tenant, issuer: Issuer
) -> None:
    async with httpx.AsyncClient() as fetching:
        cache = JwksCache(issuer.url, fetching)
        verifier = TokenVerifier(keys=cache, audience=AUDIENCE, issuer=ISSUER)
        app = create_app(settings, api_services, verifier)
        async with LifespanManager(app), open_client(app) as client:
            good = make_good_claims(time.time(), str(api_tenant.id))
            token = forge_asymmetric(good, RSA, {"alg": "RS256", "kid": "r"})
            assert (await Caller(client, api_tenant.id, token).get(PATHS[0])).status_code == 200
            forged = forge_issued(time.time(), str(api_tenant.id))
            assert len(forged) > 40
            await expect_all_refused(client, api_tenant, dict(forged))
        await cache.close()
    assert issuer.requests == 1  # a dozen unknown key ids within ten seconds cause no further request


# The check to remove, its module, and an attack that passes without it. A check that two layers make is
# removed from both.
REMOVED: list[tuple[str, dict[Any, dict[str, str]]]] = [
    ("expired beyond the leeway", {principal: {'raise Unauthenticated("the token has expired")': "pass"}}),
    ("no exp", {principal: {'raise Unauthenticated("the token has no exp")': "return"}}),
    ("exp that is infinite", {principal: {"or not 0 <= value <= _LATEST_TIME": ""}}),
    ("nbf in the future", {principal: {'raise Unauthenticated("the token is not valid yet")': "pass"}}),
    ("iat in the future", {principal: {'("nbf", "iat")': '("nbf",)'}}),
    ("another aud", {principal: {"audience not in audiences": "False"}}),
    ("no aud", {principal: {"if audience is not None and": "if False and"}}),
    ("another iss", {principal: {'claims.get("iss") != issuer': "False"}}),
    ("no iss", {principal: {'claims.get("iss") != issuer': '"iss" in claims and claims["iss"] != issuer'}}),
    ("sub with a line break", {principal: {"or not subject.isprintable()": ""}}),
    ("roles as text", {principal: {"not isinstance(roles, list) or": ""}}),
    ("no tenant", {principal: {"if tenant is None and Role.PLATFORM_ADMIN in roles": "if tenant is None"}}),
    ("tenant in braces", {principal: {"_UUID.fullmatch(tenant)": "tenant"}}),
    ("repeated claim", {principal: {"if len(keys) != len(pairs)": "if False"}}),
    ("another secret", {tokens: {"algorithms=[algorithm])": "algorithms=[algorithm], verify=False)"}}),
    (
        "alg RS256",
        {tokens: {"if algorithm != HMAC_ALGORITHM:": "if False:", "algorithms=[algorithm])": "algorithms=None)"}},
    ),
    ("crit", {tokens: {'isdisjoint(("crit", ': 'isdisjoint(('}}),
    ("another kind", {tokens: {"kind.lower() not in _TYPES": "False"}}),
    ("too long", {tokens: {"len(token) > MAX_TOKEN_CHARACTERS": "False"}}),
    ("five megabytes", {tokens: {"len(token) > MAX_TOKEN_CHARACTERS": "False"}}),
    ("unheard-of kid of a published key", {jwks: {"(kid is None or k.kid == kid)": "True"}}),
    ("another key", {tokens: {"algorithms=[algorithm])": "algorithms=[algorithm], verify=False)"}}),
]  # fmt: skip


class Verifier(Protocol):
    """The interface of a weakened module's verifier."""

    async def verify(self, token: str) -> object: ...


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that can be imported as a package."""
    folder = tmp_path / "weakened"
    folder.mkdir()
    folder.joinpath("__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "weakened"]:
        del sys.modules[name]


class FixedKeys:
    """The published keys, without a request to an issuer."""

    async def find(self, kid: str | None, algorithm: str) -> jwks.PublicKey | None:
        module = sys.modules.get("weakened.jwks")
        parse, find = (module.parse_key_set, module.find_key) if module else (parse_key_set, find_key)
        found: jwks.PublicKey | None = find(parse(_key_set()), kid, algorithm)
        return found


def _key_set() -> bytes:
    return json.dumps({"keys": PUBLISHED}).encode()


async def passes(make: Any, attack: str) -> bool:
    """Whether a verifier of this class accepts the forged token `attack`."""
    common: dict[str, Any] = {"audience": AUDIENCE, "issuer": ISSUER, "clock": lambda: NOW}
    shared, issued = forge_shared(NOW, TENANT, KEY), forge_issued(NOW, TENANT)
    verifiers: list[tuple[Verifier, str | None]] = [
        (make(secret=SECRET, **common), shared.get(attack)),
        (make(keys=FixedKeys(), **common), issued.get(attack)),
    ]
    for verifier, token in verifiers:
        if token is not None:
            with contextlib.suppress(Exception):
                await verifier.verify(token)
                return True
    return False


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("attack", "changes"), REMOVED, ids=[attack for attack, _ in REMOVED])
async def test_removing_a_check_lets_its_attack_through(
    package: Path, attack: str, changes: dict[Any, dict[str, str]]
) -> None:
    assert not await passes(TokenVerifier, attack)
    for module in (principal, jwks, tokens):
        source = inspect.getsource(module)
        for old, new in changes.get(module, {}).items():
            assert source.count(old) == 1, f"{old!r} is no longer the check: name what is"
            source = source.replace(old, new)
        for other in ("principal", "jwks", "tokens"):
            source = source.replace(f"from app.auth.{other} import", f"from weakened.{other} import")
        _, _, name = module.__name__.rpartition(".")
        package.joinpath(f"{name}.py").write_text(source, encoding="utf-8")
    weakened = importlib.import_module("weakened.tokens")
    assert await passes(weakened.TokenVerifier, attack)


class Counting(Pace):
    """A pace that counts its turns, and delays none."""

    def __init__(self) -> None:
        super().__init__(1_000_000, 1_000_000)
        self.turns = 0

    async def wait(self, key: Hashable) -> None:
        self.turns += 1
        await super().wait(key)


Credential = Callable[[Services, UUID], Awaitable[tuple[str, Callable[[], Awaitable[object]]]]]
"""Makes a reader's bearer token and what revokes it."""


async def _by_token(services: Services, tenant_id: UUID) -> tuple[str, Callable[[], Awaitable[object]]]:
    token = make_token(tenant_id, Role.READER)
    revocation = NewRevocation(token_id=read_token_id(token))
    return token, lambda: services.tenants.revoke(tenant_id, revocation, actor="test")


async def _by_key(services: Services, tenant_id: UUID) -> tuple[str, Callable[[], Awaitable[object]]]:
    made = await services.keys.create(tenant_id, NewKey(name=new_id().hex, role="reader"), actor="test")
    return made.key, lambda: services.keys.revoke(tenant_id, made.id, actor="test")


@pytest.mark.parametrize("make", [_by_token, _by_key])
async def test_callers_whose_token_was_revoked_or_whose_tenant_was_deleted_wait_for_turns(
    settings: Settings, api_services: Services, verifier: TokenVerifier, make: Credential
) -> None:
    tenant = await api_services.tenants.create(NewTenant(f"t-{new_id().hex}"), actor="test")
    (revoked, revoke), (valid, _) = [await make(api_services, tenant.id) for _ in range(2)]
    occupancy = Occupancy()
    occupancy.strangers = pace = Counting()
    async with (
        serve(create_app(settings, api_services, verifier), occupancy) as address,
        httpx.AsyncClient(base_url=address, trust_env=False) as client,
    ):

        async def read(token: str | None) -> tuple[int, int]:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            before = pace.turns
            return (await client.get("/knowledge/entries", headers=headers)).status_code, pace.turns - before

        assert await read(None) == (401, 1)
        assert await read(revoked) == (200, 0)
        await revoke()
        assert await read(revoked) == (401, 1)
        assert await read(valid) == (200, 0)
        await api_services.tenants.delete(tenant.id, actor="test")
        assert await read(valid) == (401, 1)


async def test_callers_without_a_token_wait_for_turns_and_those_with_one_do_not(
    settings: Settings, api_services: Services, verifier: TokenVerifier, admin: Caller
) -> None:
    now = [0.0]
    occupancy = Occupancy()
    occupancy.strangers = Pace(1, 2, clock=lambda: now[0])
    app = create_app(settings, api_services, verifier)
    async with serve(app, occupancy) as address, httpx.AsyncClient(base_url=address, trust_env=False) as client:

        async def read(token: str | None) -> int:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            return (await client.get("/knowledge/entries", headers=headers)).status_code

        assert [await read(token) for token in (None, "forged")] == [401, 401]
        waiting = asyncio.create_task(read(None))
        done, _ = await asyncio.wait({waiting}, timeout=0.3)
        assert not done, "two need not wait"
        assert await read(admin.token) == 200
        while not waiting.done():  # its turn comes when a second has passed
            now[0] += 1
            await asyncio.sleep(0.01)
        assert await waiting == 401
