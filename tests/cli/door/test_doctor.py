"""What `knowledge doctor` finds of a service elsewhere."""

import pytest

from app.auth.principal import Role
from tests.cli.conftest import CommandLine
from tests.fixtures.http.callers import make_token
from tests.fixtures.http.running_service import RunningService


def test_doctor_is_short_where_the_service_and_the_token_are_fine(
    remote: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert remote.succeed("doctor").out == "ok: 3 checks, nothing is wrong\n"
    found = remote.succeed("doctor", "--json").json
    assert [(finding["check"], finding["status"]) for finding in found] == [
        ("service", "ok"),
        ("clock", "ok"),
        ("token", "ok"),
    ]
    assert "tenant_admin" in found[-1]["detail"]
    monkeypatch.setenv("KB_TOKEN", make_token(None, Role.PLATFORM_ADMIN))
    assert "platform_admin" in remote.succeed("doctor", "--json").json[-1]["detail"]


@pytest.mark.parametrize(
    ("url", "check", "reason"),
    [
        ("http://127.0.0.1:9", "service", "the connection was refused"),
        ("{url}/console", "service", "is not one of the service"),
        ("https://127.0.0.1:{port}", "service", "no TLS at this port"),
    ],
)
def test_doctor_names_what_is_wrong_with_the_address(
    remote: CommandLine, service: RunningService, url: str, check: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = url.format(url=service.url, port=service.url.rpartition(":")[2])
    monkeypatch.setenv("KB_URL", address)
    result = remote("doctor", "--json")
    assert result.status == 1
    wrong = [finding for finding in result.json if finding["status"] == "wrong"]
    assert [finding["check"] for finding in wrong] == [check]
    assert reason in wrong[0]["detail"]


def test_doctor_names_what_is_wrong_with_the_token(
    remote: CommandLine, service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = service.new_tenant()
    ends_soon = make_token(tenant, Role.READER, ttl=600)
    for token, status, reason in (
        ("a.b.c", "wrong", "the token is malformed"),
        (f"{make_token(tenant, Role.READER)[:-4]}AAAA", "wrong", "signature"),
        (make_token(tenant, Role.PLATFORM_ADMIN, Role.READER), "wrong", "the token has platform_admin, reader"),
        (ends_soon, "warning", "valid for 0.2 hours"),
    ):
        monkeypatch.setenv("KB_TOKEN", token)
        result = remote("doctor", "--json")
        assert (result.json[-1]["check"], result.json[-1]["status"]) == ("token", status)
        assert reason in result.json[-1]["detail"]
        assert result.status == (1 if status == "wrong" else 0)
        assert token not in result.out
