"""Callers without a valid token: their answers wait for turns."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

import httpx

from app.auth.issuing import read_token_id
from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.concurrency.limits import Pace
from app.contract.administration import NewRevocation, NewTenant
from app.main import create_app
from app.settings import Settings
from app.web.occupancy import Occupancy
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.http.serving import serve


class Counting(Pace):
    """A pace that counts its turns, and delays none."""

    def __init__(self) -> None:
        super().__init__(1_000_000, 1_000_000)
        self.turns = 0

    async def wait(self, key: Hashable) -> None:
        self.turns += 1
        await super().wait(key)


async def test_callers_whose_token_was_revoked_or_whose_tenant_was_deleted_wait_for_turns(
    settings: Settings, api_services: Services, verifier: TokenVerifier
) -> None:
    tenant = await api_services.tenants.create(NewTenant("strangers"), actor="test")
    revoked, valid = (make_token(tenant.id, Role.READER) for _ in range(2))
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
        await api_services.revocations.revoke(tenant.id, NewRevocation(token_id=read_token_id(revoked)), actor="test")
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
    async with (
        serve(app, occupancy) as address,
        httpx.AsyncClient(base_url=address, trust_env=False) as client,
    ):

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
