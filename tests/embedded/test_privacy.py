"""The private files of an embedded Postgres, and who can reach it."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from app.embedded import EmbeddedAddress, read_or_create_secret
from app.embedded.data_folder import DataFolder
from app.embedded.processes import choose_account, find_binaries
from app.embedded.server import EmbeddedPostgres
from app.embedded.sockets import choose_socket_dir
from tests.fixtures.embedded import FAST, fetch_value, find_postmaster


def get_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.slow
def test_wrong_or_missing_password_is_refused(prepared_dir: Path) -> None:
    with EmbeddedPostgres(prepared_dir, settings=FAST) as postgres:
        address = postgres.start()
        for password in ("wrong", "", address.password + "x"):
            with pytest.raises((asyncpg.InvalidPasswordError, asyncpg.InterfaceError)):
                fetch_value(replace(address, password=password).dsn(), "select 1")
        rules = "select string_agg(distinct auth_method, ',') from pg_hba_file_rules"
        assert fetch_value(address.dsn(), rules) == "scram-sha-256"
        stored = "select rolpassword from pg_authid where rolname = 'postgres'"
        assert fetch_value(address.dsn(), stored).startswith("SCRAM-SHA-256$")


@pytest.mark.slow
def test_lost_password_file_is_replaced_with_a_new_password(prepared_dir: Path) -> None:
    with EmbeddedPostgres(prepared_dir, settings=FAST) as postgres:
        before = postgres.start().password
    (prepared_dir / "postgres.password").unlink()
    with EmbeddedPostgres(prepared_dir, settings=FAST) as postgres:
        address = postgres.start()
        assert address.password != before
        assert fetch_value(address.dsn(), "select 1") == 1


def test_nothing_listens_on_the_network_and_no_file_is_open_to_others(tmp_path: Path) -> None:
    data_dir = tmp_path / "deep" / "data"
    modes = {path: get_mode(path) for path in tmp_path.parents}
    with EmbeddedPostgres(data_dir, settings=FAST) as postgres:
        address = postgres.start()
        assert fetch_value(address.dsn(), "show listen_addresses") == ""
        assert not find_postmaster(data_dir).net_connections("inet")
        assert get_mode(Path(address.socket_dir)) == 0o700
        assert len(os.fsencode(address.socket_dir)) < 80
        for path in data_dir.rglob("*"):
            assert get_mode(path) & 0o077 == 0, path
        assert get_mode(data_dir) & 0o066 == 0
    assert {path: get_mode(path) for path in tmp_path.parents} == modes


def test_log_holds_no_query_text_values_or_password(prepared_dir: Path) -> None:
    with EmbeddedPostgres(prepared_dir, settings=FAST) as postgres:
        address = postgres.start()
        for sql in (
            "select 'secret-literal'::int",
            "select secret_column",
            "do $$ begin raise warning 'secret-warning'; end $$; create table u (c text unique);"
            "insert into u values ('secret-key'); insert into u values ('secret-key')",
            "create role secret_role password 'secret-password'; select 1/0",
        ):
            with pytest.raises(asyncpg.PostgresError):
                fetch_value(address.dsn(), sql)
    log = (prepared_dir / "postgres.log").read_text()
    assert "ready to accept connections" in log
    assert "secret" not in log
    assert address.password not in log


def test_postgres_gets_no_service_keys(prepared_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGOPTIONS", "-c jit=on")
    with EmbeddedPostgres(prepared_dir, settings=FAST):
        names = set(find_postmaster(prepared_dir).environ())
        assert names <= {"PATH", "TMPDIR", "LC_ALL", "TZ", "PGDATA", "PG_GRANDPARENT_PID"}


@pytest.mark.parametrize("trap", ["open", "link", "file"])
def test_prepared_socket_folder_of_an_attacker_is_not_used(tmp_path: Path, trap: str) -> None:
    folder = DataFolder.create(tmp_path)
    account = choose_account(folder, find_binaries())
    first = choose_socket_dir(folder, account, "")
    try:
        assert choose_socket_dir(folder, account, str(first)) == first
        first.rmdir()
        if trap == "open":
            first.mkdir()
            first.chmod(0o777)
            account.own(first)
        elif trap == "link":
            first.symlink_to(tmp_path)
        else:
            first.touch()
        second = choose_socket_dir(folder, account, str(first))
        assert second != first
        assert second.stat().st_uid == account.uid
        second.rmdir()
    finally:
        first.rmdir() if first.is_dir() and not first.is_symlink() else first.unlink()


def test_socket_folder_with_another_name_is_not_reused(tmp_path: Path) -> None:
    folder = DataFolder.create(tmp_path)
    account = choose_account(folder, find_binaries())
    first = choose_socket_dir(folder, account, "")
    other = first.with_name("kb-0000000000-abcdefgh")
    second = choose_socket_dir(folder, account, str(other))
    first.rmdir()
    second.rmdir()
    assert second.parent == other.parent
    assert not other.exists()


def test_dsn_escapes_every_part() -> None:
    dsn = EmbeddedAddress("/run/a b&c", "p@ss/w:rd").dsn(database="x?y")
    assert dsn == "postgresql://postgres:p%40ss%2Fw%3Ard@/x%3Fy?host=/run/a%20b%26c&port=5432"


def test_dsn_of_another_role_needs_its_own_password() -> None:
    address = EmbeddedAddress("/run/x", "superuser's")
    with pytest.raises(ValueError, match="'app'"):
        address.dsn("app")
    assert "app:own@" in address.dsn("app", password="own")
    assert "superuser" not in repr(address)


def test_secret_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "jwt.secret"
    with ThreadPoolExecutor(8) as pool:
        secrets = set(pool.map(lambda _: read_or_create_secret(path), range(32)))
    assert len(secrets) == 1
    assert len(secrets.pop()) >= 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["jwt.secret"]


def test_empty_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jwt.secret").touch()
    with pytest.raises(ValueError, match=r"jwt\.secret is empty"):
        read_or_create_secret(tmp_path / "jwt.secret")
