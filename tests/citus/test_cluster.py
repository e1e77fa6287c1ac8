"""The cluster for tests itself."""

import pytest

from tests.fixtures.database.citus import CitusCluster, create_citus_database, drop_citus_database
from tests.fixtures.database.cluster import connected


@pytest.mark.slow
async def test_nodes_know_each_other(citus_cluster: CitusCluster) -> None:
    database = await create_citus_database(citus_cluster, "kb_nodes")
    try:
        for node in database.nodes:
            async with connected(node.service_dsn) as connection:
                assert await connection.fetchval("select count(*) from pg_dist_node where isactive") == 3
    finally:
        await drop_citus_database(citus_cluster, "kb_nodes")
