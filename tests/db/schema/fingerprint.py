"""A fingerprint of a database's schema: each object of the catalog with a digest of its definition."""

import re
from hashlib import sha256
from pathlib import Path

from tests.fixtures.database.cluster import TestDatabase, fetch

FOLDER = Path(__file__).resolve().parent
STATEMENT = (FOLDER / "fingerprint.sql").read_text(encoding="utf-8")
RECORDED = FOLDER / "fingerprint.txt"
"""The digests of a database that the baseline created, one object in each line, after its name."""


async def fingerprint(database: TestDatabase) -> list[tuple[str, str]]:
    """The objects of the database, each with the parts of its definition, in order."""
    return [(row["thing"], row["detail"]) for row in await fetch(database.superuser_dsn, STATEMENT)]


def digests(parts: list[tuple[str, str]]) -> dict[str, str]:
    """A short digest of each object; a table's partitions and their objects are combined into one."""
    made: dict[str, str] = {}
    for thing, detail in parts:
        name = re.sub(r"_p\d\d\b", "_pNN", thing)
        made[name] = sha256(f"{made.get(name, '')}\n{thing}\n{detail}".encode()).hexdigest()[:16]
    return made


def render(digests_of_things: dict[str, str]) -> str:
    """The text of the file `fingerprint.txt`."""
    return "".join(f"{digest} {thing}\n" for thing, digest in sorted(digests_of_things.items()))


def read_recorded() -> dict[str, str]:
    """The content of `fingerprint.txt`."""
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    return {thing: digest for digest, _, thing in (line.partition(" ") for line in lines)}
