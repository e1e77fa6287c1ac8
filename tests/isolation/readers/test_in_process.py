"""Programs in the same process act as a principal that they name, for everyone, or for the service."""

import logging
from collections.abc import Iterator

import asyncpg
import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.principals import (
    Rights,
    acting_as,
    acting_for_everyone,
    acting_for_service,
    principals_of,
    warn_of_unnamed_work,
)
from app.errors import EntryNotFound, InvalidInput, NotAWriter

QUERY = SearchQuery(query="payroll", mode="keyword", limit=10)
JANE = principals_of("jane", ["finance"])
OPEN, CLOSED, GUARDED = "Payroll in the open", "Payroll behind a door", "Payroll under guard"


@pytest.fixture(autouse=True)
def told() -> Iterator[None]:
    """The log has not warned yet, and warns of no later test."""
    warn_of_unnamed_work.cache_clear()
    yield
    logging.disable()
    warn_of_unnamed_work()
    logging.disable(logging.NOTSET)


@pytest.fixture
async def held(services: Services, tenant: Tenant) -> dict[str, EntryDraft]:
    """An entry for all, one with readers and one with writers."""
    drafts = {
        OPEN: EntryDraft(content=OPEN),
        CLOSED: EntryDraft(content=CLOSED, readers=["group:finance"]),
        GUARDED: EntryDraft(content=GUARDED, writers=["user:jane"]),
    }
    with acting_as(JANE, Rights.WRITE):
        for draft in drafts.values():
            await services.entries.create(tenant.id, draft, actor="jane")
    return drafts


async def find(services: Services, tenant: Tenant) -> set[str]:
    return {hit.content for hit in await services.search.search(tenant.id, QUERY)}


@pytest.mark.usefixtures("held")
async def test_work_sees_what_its_choice_may_read(
    services: Services, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    with acting_as(JANE, Rights.READ):
        assert await find(services, tenant) == {OPEN, CLOSED, GUARDED}
    with acting_as(principals_of("joe", ["sales"]), Rights.READ):
        assert await find(services, tenant) == {OPEN, GUARDED}
    with acting_for_everyone():
        assert await find(services, tenant) == {OPEN, GUARDED}
    with acting_for_service():
        assert await find(services, tenant) == {OPEN, CLOSED, GUARDED}
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_work_changes_only_with_rights_and_what_its_principals_may_change(
    services: Services, tenant: Tenant, held: dict[str, EntryDraft]
) -> None:
    with acting_for_service():
        ids = {hit.content: hit.id for hit in await services.search.search(tenant.id, QUERY)}
    change = EntryDraft(title="Changed")
    for choice in (acting_as(JANE, Rights.READ), acting_for_everyone()):
        with choice, pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied"):
            await services.entries.change(tenant.id, ids[OPEN], change)
    with acting_for_everyone(Rights.WRITE):
        assert (await services.entries.change(tenant.id, ids[OPEN], change)).title == "Changed"
        with pytest.raises(EntryNotFound):
            await services.entries.change(tenant.id, ids[CLOSED], change)
        with pytest.raises(NotAWriter):
            await services.entries.change(tenant.id, ids[GUARDED], change)
    with acting_as(JANE, Rights.WRITE):
        for entry_id in ids.values():
            assert (await services.entries.change(tenant.id, entry_id, change)).title == "Changed"


@pytest.mark.usefixtures("held")
async def test_work_that_names_no_principal_sees_what_all_may_read_and_is_logged_once(
    services: Services, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        assert await find(services, tenant) == {OPEN, GUARDED}
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [message.partition(":")[0] for message in told] == ["work in a tenant names no principal"]
    with pytest.raises(InvalidInput, match="names no principal with acting_as"):
        await services.entries.create(tenant.id, EntryDraft(content="x", readers=["group:finance"]))
