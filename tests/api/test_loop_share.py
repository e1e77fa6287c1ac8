"""Refused and large requests are charged to their tenant; accepted small ones are not."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.composition.services import Services
from app.concurrency.background import MemoryRelease
from app.concurrency.share import (
    DEEPEST,
    FREE,
    LARGE,
    MIB,
    MIB_SECONDS,
    REFUSED_SECONDS,
    SHARE,
    Work,
)
from app.concurrency.turns import LATELY
from app.knowledge.tenants.admission import Admission
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_problem
from tests.fixtures.http.limits import expect_refusal


def charged(services: Services, caller: Caller) -> float:
    """Seconds that the caller's tenant was charged and has not paid back."""
    account = services.admission._loop._accounts.get(caller.tenant_id)
    return 0.0 if account is None else FREE - account.seconds


REFUSED: list[tuple[str, dict[str, Any], int]] = [
    ("/knowledge/search", {"query": "harbour", "limit": 0}, 422),
    ("/knowledge/search", {"query": "harbour", "unknown": 1}, 422),
    ("/knowledge/search", {"query": "harbour", "metadata": {"a": [[]] * 3_000}}, 422),
    ("/knowledge/entries", {"content": ""}, 422),
    ("/knowledge/search", {"query": "x" * 300_000}, 413),
]


@pytest.fixture
def still(api_services: Services, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the share, which stands still."""
    now = [0.0]
    monkeypatch.setattr(api_services.admission._loop, "_clock", lambda: now[0])
    return now


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(("path", "body", "status"), REFUSED)
async def test_a_refused_body_is_charged(
    api_services: Services, admin: Caller, path: str, body: dict[str, Any], status: int
) -> None:
    before = charged(api_services, admin)
    expect_problem(await admin.post(path, body), status)
    assert charged(api_services, admin) > before


@pytest.mark.usefixtures("still")
async def test_accepted_small_requests_and_missing_items_are_not_charged(api_services: Services, admin: Caller) -> None:
    assert (await admin.post("/knowledge/entries", {"content": "harbour"})).status_code == 201
    assert (await admin.post("/knowledge/search", {"query": "harbour"})).status_code == 200
    assert (await admin.get(f"/knowledge/entries/{uuid4()}")).status_code == 404
    assert charged(api_services, admin) == 0


@pytest.mark.usefixtures("still")
async def test_a_large_accepted_body_is_charged(api_services: Services, admin: Caller) -> None:
    entries = [{"content": f"{number} " + "harbour " * 10_000} for number in range(LARGE // 80_000 + 1)]
    answer = await admin.post("/knowledge/entries/bulk", {"entries": entries})
    assert answer.status_code in (200, 201)
    assert charged(api_services, admin) > 0


@pytest.mark.usefixtures("still")
async def test_a_large_body_is_charged_when_it_is_announced_and_only_once(
    api_services: Services, admin: Caller
) -> None:
    assert isinstance(admin.tenant_id, UUID)
    admission = api_services.admission
    tenant = await api_services.tenants.context(admin.tenant_id)
    ticket = await admission.pace(tenant, 5 * MIB)
    assert charged(api_services, admin) == pytest.approx(5 * MIB_SECONDS)
    admission.charge_answered(tenant, Work(0.0, 5 * MIB, refused=False), ticket)
    assert charged(api_services, admin) == pytest.approx(5 * MIB_SECONDS + REFUSED_SECONDS)
    await admission.pace(tenant, LARGE)
    assert charged(api_services, admin) == pytest.approx(5 * MIB_SECONDS + REFUSED_SECONDS)


async def test_a_tenant_in_debt_waits_and_others_do_not(
    api_services: Services,
    admin: Caller,
    stranger: Caller,
    still: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admission = api_services.admission
    monkeypatch.setattr(admission, "_patience", 0.05)
    assert isinstance(admin.tenant_id, UUID)
    admission._loop.charge(admin.tenant_id, FREE + DEEPEST)
    search = {"query": "harbour"}
    assert (await stranger.post("/knowledge/search", search)).status_code == 200
    expect_refusal(await admin.post("/knowledge/search", search), "concurrent_requests")
    expect_refusal(await admin.get("/knowledge/entries"), "concurrent_requests")
    still[0] += DEEPEST / SHARE + 1
    assert (await stranger.post("/knowledge/search", search)).status_code == 200
    assert (await admin.post("/knowledge/search", search)).status_code == 200
    assert not admission._loop._accounts[admin.tenant_id].waiting


async def test_a_tenant_whose_requests_all_wait_waits_while_another_one_is_active(
    api_services: Services, admin: Caller, stranger: Caller
) -> None:
    now = [0.0]
    admission = Admission(clock=lambda: now[0])
    one, other = [await api_services.tenants.context(c.tenant_id) for c in (admin, stranger) if c.tenant_id]
    admission._loop.charge(one.tenant_id, FREE + DEEPEST)
    await admission.pace(other, 0)
    waiting = asyncio.create_task(admission.pace(one, 0))
    await asyncio.sleep(0)
    now[0] += 2 * LATELY
    await admission.pace(other, 0)
    admission._loop._hand_out(one.tenant_id)
    await asyncio.sleep(0)
    assert not waiting.done(), "the tenant itself is not active: its request was noted long ago"
    now[0] += 2 * LATELY
    admission._loop._hand_out(one.tenant_id)
    await asyncio.wait_for(waiting, 60)


async def test_memory_is_released_after_a_large_body_a_large_answer_and_a_large_file(
    api_services: Services, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(MemoryRelease, "note", lambda self, size: sizes.append(size))
    await admin.post("/knowledge/entries/bulk", {"entries": [], "unknown": "x" * LARGE})
    assert max(sizes) > LARGE
    sizes.clear()
    entry = await admin.add("harbour " * 12_000)
    assert max(sizes) > 96_000
    sizes.clear()
    answer = await admin.get(f"/knowledge/entries/{entry['id']}", headers={"Accept-Encoding": "identity"})
    assert len(answer.content) > 96_000
    assert sizes == [len(answer.content)]
    text = b"A file about a harbour."
    sizes.clear()
    await admin.upload("a.txt", text, "text/plain")
    while await api_services.worker.run_once():
        pass
    assert len(text) in sizes
