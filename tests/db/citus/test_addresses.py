"""The addresses of a cluster's nodes."""

import pytest

from app.db.cluster.sessions import address_of


@pytest.mark.parametrize(
    ("dsn", "address"),
    [
        ("postgresql://kb:p%40ss@a:5432/k?sslmode=require", "postgresql://kb:p%40ss@node-2:6000/k?sslmode=require"),
        ("postgresql://kb@a,b:5432/k?target_session_attrs=primary",
         "postgresql://kb@node-2:6000/k?target_session_attrs=primary"),
        ("postgresql:///k?host=/run/postgresql&user=kb", "postgresql://node-2:6000/k?user=kb"),
    ],
)  # fmt: skip
def test_a_node_has_the_login_the_database_and_the_options_of_the_service(dsn: str, address: str) -> None:
    assert address_of(dsn, "node-2", 6000) == address


def test_an_ipv6_address_is_in_brackets() -> None:
    assert address_of("postgresql://kb@a/k", "fd00::7", 6000) == "postgresql://kb@[fd00::7]:6000/k"
