"""A dump of a database of each released revision, as an operator would have it, and the program that writes the newest.

Until its release, the newest is written again when the baseline changes; afterwards it never is.
"""

import asyncio
import gzip
import subprocess
import tempfile
from pathlib import Path

from app.composition.database import SERVICE, create_roles, prepare
from app.composition.services import build_services
from app.contract.administration import NewRevocation, NewTenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.erasures import NewErasure
from app.contract.models import NewModelChange
from app.db.database import Database
from app.db.principals import acting_for_service
from app.db.schema.owner import register_model
from app.db.schema.scripts import latest_revision
from app.embedded import DATABASE, EmbeddedAddress
from app.embedded.processes import find_binaries
from app.embedded.server import EmbeddedPostgres
from tests.fixtures.database.cluster import FAST, MODEL, PASSWORDS, TestDatabase, execute
from tests.fixtures.database.tenant_rows import fill_tenant
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.reembedding.moving import WIDER

FOLDER = Path(__file__).with_name("databases")
"""A dump in SQL for each revision, compressed."""
COMMAND = ".venv/bin/python -m tests.compatibility.database"

EVERY, MOVING = "every-table", "moving"
"""The slugs of a tenant with rows in every table, and of one whose work is in progress."""
CONTENT = "The lock gate of the northern dock opens at high tide."
UNFINISHED = Upload("tides.md", b"# Tides\n\nThe spring tide lifts the floating crane.\n", external_id="tides")


def find_dump(revision: str) -> Path:
    """The place of the dump of a revision."""
    return FOLDER / f"{revision}.sql.gz"


async def fill(made: TestDatabase) -> None:
    """Write rows in every table, and leave work in progress: a model change, an erasure, a file, due deliveries."""
    await register_model(made.admin_dsn, WIDER, actor="ada")
    database, provider = Database(made.service_dsn, pool_size=4), FailingProvider(MODEL)
    services = await build_services(database, provider, next_provider=FailingProvider(WIDER))
    with acting_for_service():
        every = await services.tenants.create(NewTenant(EVERY), actor="paula")
        await fill_tenant(services, every, provider, made.superuser_dsn)
        moving = (await services.tenants.create(NewTenant(MOVING), actor="paula")).id
        for number in range(8):
            await services.entries.create(moving, EntryDraft(content=f"{CONTENT} Tide table {number}.", tags=["dock"]))
        await services.entries.create(
            moving, EntryDraft(content="The pilots' pay is secret.", readers=["user:ada"], external_id="pay")
        )
        gone, _ = await services.entries.create(moving, EntryDraft(content="The harbour master's telephone number."))
        while await services.worker.run_once():
            pass
        await services.erasures.erase(moving, NewErasure(entry_id=gone.id), actor="ada")
        await services.reembedding.start(moving, NewModelChange(dimensions=WIDER.dimensions), actor="ada")
        await services.assets.upload(moving, UNFINISHED)
        await services.platform_revocations.revoke(NewRevocation("leaked", None), actor="paula")
    await services.close()
    await database.close()
    # No webhook is sent.
    await execute(
        made.superuser_dsn, "insert into send_turns (destination, tenant, window_at) values ('a', $1, now())", moving
    )


async def write_dump(folder: Path) -> bytes:
    """The dump of a new database."""
    server = EmbeddedPostgres(folder / "data", settings=FAST)
    address = await asyncio.to_thread(server.start)
    try:
        await create_roles(address.dsn(), PASSWORDS)
        made = TestDatabase(DATABASE, address)
        await prepare(made.admin_dsn, service_role=SERVICE, model=MODEL)
        await fill(made)
        return run("pg_dump", address, made.name, "--no-sync")
    finally:
        await asyncio.to_thread(server.stop)


def restore(dump: Path, made: TestDatabase) -> None:
    """Fill an empty database from a dump, as the page about backups does."""
    run("psql", made.address, made.name, "-qX", "-v", "ON_ERROR_STOP=1", given=gzip.decompress(dump.read_bytes()))


def run(program: str, address: EmbeddedAddress, name: str, *options: str, given: bytes | None = None) -> bytes:
    """The output of one of Postgres' own programs."""
    command = [str(find_binaries() / program), *options, f"--dbname={address.dsn(database=name)}"]
    done = subprocess.run(command, input=given, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def write_missing() -> None:
    """Write the dump of the newest revision unless an earlier release has."""
    if not find_dump(latest_revision()).exists():
        main()


def main() -> None:
    """Write the dump of the newest revision."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        dump = asyncio.run(write_dump(Path(folder)))
    find_dump(latest_revision()).write_bytes(gzip.compress(dump, mtime=0))


if __name__ == "__main__":
    main()
