"""Each protection is removed in turn, and the gate at the start, the matrix or the attacks must detect it."""

from collections.abc import AsyncIterator

import pytest

from app.composition.database import check_database
from app.db.schema.catalog import check_service_role
from app.db.schema.isolation import find_faults
from app.errors import ConfigurationError
from tests.fixtures.database.cluster import Connection, TestDatabase, connected
from tests.fixtures.database.seeded import Seeded
from tests.isolation.attacks import attack_functions
from tests.isolation.matrix import COMMANDS, ROLE, find_shared_faults, list_relations, probe_matrix
from tests.isolation.mutation import Mutation
from tests.isolation.mutations import MUTATIONS


@pytest.fixture(scope="module")
async def broken(seeded: Seeded) -> AsyncIterator[Connection]:
    """One superuser connection for all mutations; each mutation is undone."""
    async with connected(seeded.database.superuser_dsn) as connection:
        yield connection


async def find_start_faults(superuser: Connection) -> list[str]:
    """The faults that the service's start check reports, as its role."""
    await superuser.execute(f"savepoint gate; set local role {ROLE}")
    try:
        await check_service_role(superuser)
        return [fault.text for fault in await find_faults(superuser)]
    except ConfigurationError as error:
        return [str(error)]
    finally:
        await superuser.execute("rollback to savepoint gate")


async def notice(superuser: Connection, seeded: Seeded, mutation: Mutation) -> dict[str, list[str]]:
    """The faults that each guard finds; guards without faults are omitted."""
    relations = [r for r in await list_relations(superuser) if r.name in mutation.places]
    assert {r.name for r in relations} == set(mutation.places)
    shared = await find_shared_faults(superuser)
    _, cells = await probe_matrix(superuser, seeded.first, seeded.second, relations, COMMANDS)
    attacked = mutation.function
    report = await attack_functions(superuser, seeded, attacked) if attacked else None
    found = {
        "gate": await find_start_faults(superuser),
        "matrix": shared + cells,
        "attacks": report.faults if report else [],
    }
    return {guard: faults for guard, faults in found.items() if faults}


async def test_intact_database_has_no_faults(seeded: Seeded, broken: Connection) -> None:
    async with broken.transaction():
        assert await find_start_faults(broken) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
async def test_mutation_is_detected(seeded: Seeded, broken: Connection, mutation: Mutation) -> None:
    undo = broken.transaction()
    await undo.start()
    try:
        await broken.execute(mutation.sql)
        noticed = await notice(broken, seeded, mutation)
    finally:
        await undo.rollback()
    assert set(noticed) == mutation.noticed_by, noticed
    assert any(mutation.named in fault for fault in noticed.get("gate", [""])), noticed


async def test_broken_database_is_not_served(fresh_database: TestDatabase) -> None:
    await check_database(fresh_database.service_dsn)
    async with connected(fresh_database.admin_dsn) as owner:
        await owner.execute("alter table assets no force row level security; grant truncate on jobs to kb_app")
    with pytest.raises(ConfigurationError) as caught:
        await check_database(fresh_database.service_dsn)
    assert str(caught.value) == (
        "DATABASE_URL: tenants are not isolated: table assets has row-level security that its owner is free of"
        " (and 2 more: knowledge doctor); remedy: alter table assets enable row level security,"
        " force row level security"
    )


async def test_a_security_invoker_view_shows_the_tenants_rows_only(seeded: Seeded, broken: Connection) -> None:
    """The rights and policies of its tables apply to the role that reads it, so the gate accepts it."""
    undo = broken.transaction()
    await undo.start()
    try:
        await broken.execute(
            "create view titles with (security_invoker) as select tenant_id, title from entries;"
            " grant select on titles to kb_app"
        )
        assert await find_start_faults(broken) == []
        await broken.execute(f"set local role {ROLE}")
        assert await broken.fetch("select from titles") == []
        await broken.execute("select set_config('app.current_tenant', $1, true)", str(seeded.first))
        assert {row["tenant_id"] for row in await broken.fetch("select tenant_id from titles")} == {seeded.first}
    finally:
        await undo.rollback()
