"""The few functions that run with their owner's rights, attacked by the role that may call them."""

from tests.fixtures.database.cluster import Connection
from tests.fixtures.database.seeded import Seeded
from tests.isolation.attacks import attack_functions


async def test_definer_functions_return_and_change_nothing_of_another_tenant(
    seeded: Seeded, breaker: Connection
) -> None:
    report = await attack_functions(breaker, seeded)
    assert report.faults == []
    assert report.aims["hostile text"] > 500
    assert report.aims["foreign id"] > 50
    assert report.aims["no tenant"] >= 40
    print(f"{report.attacks} attacks: {report.aims}")  # noqa: T201
