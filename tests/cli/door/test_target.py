"""Which service a command uses, and what it and `knowledge doctor` tell when that fails."""

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest

from app.auth.principal import Role
from app.cli.door import explain
from knowledge_client.retries import Retries
from tests.cli.conftest import CommandLine
from tests.fixtures.http.callers import make_token
from tests.fixtures.http.running_service import RunningService

SECRET = "s3cret-token"


def test_the_tenant_is_required_without_a_default(offline: CommandLine) -> None:
    refused = offline("search", "x")
    assert refused.status == 2
    assert "is required, unless KB_TENANT or KB_URL is set" in refused.err


def test_the_token_determines_the_tenant(remote: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = remote("list", "--tenant", "demo")
    assert refused.err == "error: --tenant: must be omitted with KB_URL: KB_TOKEN determines the tenant\n"
    monkeypatch.setenv("KB_TENANT", "another")
    assert remote.succeed("list", "--json").json["items"] == []


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"KB_URL": "https://kb.example"}, "KB_TOKEN: must be set with KB_URL"),
        ({"KB_URL": "ftp://kb.example", "KB_TOKEN": SECRET}, "KB_URL: must be an address"),
        ({"KB_URL": "https://ada:pw@kb.example", "KB_TOKEN": SECRET}, "KB_URL: must be an address"),
        ({"KB_URL": "http://kb.example:port", "KB_TOKEN": SECRET}, "KB_URL: must be an address"),
        ({"KB_URL": "http://kb.example:99999", "KB_TOKEN": SECRET}, "KB_URL: must be an address"),
        ({"KB_URL": "http://[::1", "KB_TOKEN": SECRET}, "KB_URL: must be an address"),
        ({"KB_URL": "http://kb.example#x", "KB_TOKEN": SECRET}, "KB_URL: must be an address"),
        (
            {"KB_URL": "https://kb.example", "KB_TOKEN": SECRET, "SSL_CERT_FILE": "absent.pem"},
            "SSL_CERT_FILE: must be a file with certificates",
        ),
        ({"KB_URL": "https://kb.example", "KB_TOKEN": f"{SECRET} x"}, "KB_TOKEN: must be one line"),
        ({"KB_URL": "http://127.0.0.1:9", "KB_TOKEN": SECRET}, "KB_URL: no answer from http://127.0.0.1:9"),
    ],
)
def test_a_wrong_address_is_named_and_the_token_is_not_shown(
    offline: CommandLine, variables: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.cli.door.RETRIES", Retries(first=0.0))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for command in (("get", "x"), ("add", "x"), ("search", "x"), ("tenant", "list")):
        refused = offline(*command)
        assert refused.status == 1
        assert reason in refused.err
        assert refused.err.count("\n") == 1
        assert SECRET not in refused.err
        assert refused.out == ""


def test_an_address_from_a_file_never_gets_the_token_of_the_environment(
    offline: CommandLine, tmp_path: Path, service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("KB_TOKEN", SECRET)
    file = tmp_path / "remote.env"
    file.write_text(f"KB_URL={service.url}\n")
    assert "must come from one source" in offline("--env-file", str(file), "list").err
    monkeypatch.delenv("KB_TOKEN")
    file.write_text(f"KB_URL={service.url}\nKB_TOKEN={service.new_token()}\n")
    assert offline.succeed("--env-file", str(file), "list", "--json").json["items"] == []


@pytest.mark.parametrize(
    "arguments", [("export",), ("model", "list"), ("nodes",), ("token", "--role", "reader"), ("erase", "--files")]
)
def test_a_command_of_the_installation_refuses_a_service_elsewhere(
    remote: CommandLine, arguments: tuple[str, ...]
) -> None:
    refused = remote(*arguments)
    assert refused.status in (1, 2)
    assert "KB_URL" in refused.err


def test_refusals_of_the_service_are_shown_as_they_are(
    remote: CommandLine, service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "must be between 1 and 50" in remote("search", "x", "--limit", "51").err
    monkeypatch.setenv("KB_TOKEN", make_token(service.new_tenant(), Role.READER))
    refused = remote("add", "x")
    assert (refused.status, refused.err.count("\n")) == (1, 1)
    assert "role" in refused.err
    monkeypatch.setenv("KB_TOKEN", "no-token")
    refused = remote("list", "--json")
    assert json.loads(refused.err)["error"].startswith("KB_TOKEN: ")


def test_a_token_is_revoked_at_the_service(
    remote: CommandLine, service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert remote.succeed("token", "revoke", "leaked-1", "--json").json["token_id"] == "leaked-1"
    assert remote.succeed("token", "revoked").out.startswith("leaked-1  revoked 20")
    assert "must be omitted with KB_URL" in remote("token", "revoked", "--tenant", "demo").err
    assert "platform_admin" in remote("token", "revoke", "leaked-2", "--platform").err
    monkeypatch.setenv("KB_TOKEN", make_token(None, Role.PLATFORM_ADMIN))
    remote.succeed("token", "revoke", "leaked-2", "--platform")
    assert "leaked-2" in [t["token_id"] for t in remote.succeed("token", "revoked", "--platform", "--json").json]


@contextmanager
def answering(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[str]:
    """A server that is not the service: its answers in turn, each with status, headers and content."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, content = left.pop(0)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_PATCH = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


ENTRY = "01890000-0000-7000-8000-000000000000"
LIMITED = b'{"type": "/problems/limit-reached", "title": "x", "status": 429, "detail": "too many", "limit": "requests"}'


@pytest.mark.parametrize(
    ("answer", "command", "reason"),
    [
        ((302, {"Location": "http://evil.example"}, b""), ("get", ENTRY), "the status 302 and is not one of the"),
        ((502, {}, b"<html>"), ("edit", ENTRY, "--title", "x", "--if-version", "3"), "the status 502"),
        ((200, {}, b"hello"), ("get", ENTRY), "is not one that this version of the command reads"),
        ((429, {"Retry-After": "3600"}, LIMITED), ("get", ENTRY), "error: too many"),
    ],
)
def test_an_answer_that_cannot_be_used_is_named(
    offline: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    answer: tuple[int, dict[str, str], bytes],
    command: tuple[str, ...],
    reason: str,
) -> None:
    with answering(answer) as url:
        monkeypatch.setenv("KB_URL", url)
        monkeypatch.setenv("KB_TOKEN", SECRET)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        refused = offline(*command)
        assert refused.status == 1
        assert reason in refused.err
        assert SECRET not in refused.err


def test_a_request_is_sent_again_as_retry_after_says(offline: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("knowledge_client.caller.time.sleep", waits.append)
    monkeypatch.setattr("app.cli.door.RETRIES", Retries(longest=60.0, draw=lambda: 0.0))
    page = b'{"items": [], "next_cursor": null}'
    with answering((429, {"Retry-After": "7"}, LIMITED), (503, {}, b""), (200, {}, page)) as url:
        monkeypatch.setenv("KB_URL", url)
        monkeypatch.setenv("KB_TOKEN", SECRET)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert offline.succeed("list", "--json").json["items"] == []
    assert waits == [7.0, 0.5]


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (socket.gaierror(-2, "Name or service not known"), "the name of the host is not known"),
        (ConnectionRefusedError(111, "refused"), "the connection was refused"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong"), "no TLS at this port: failed"),
        (OSError(113, "No route to host"), "ConnectError"),
    ],
)
def test_a_failed_connection_names_its_reason(cause: OSError, reason: str) -> None:
    error = httpx.ConnectError("failed")
    error.__cause__ = cause
    assert explain(error) == reason


def test_an_untrusted_certificate_and_a_timeout_are_named() -> None:
    untrusted = ssl.SSLCertVerificationError(1, "failed")
    untrusted.verify_message = "self-signed certificate"
    error = httpx.ConnectError("failed")
    error.__cause__ = untrusted
    assert explain(error) == "the certificate is not trusted: self-signed certificate"
    assert explain(httpx.ConnectTimeout("late")) == "it took too long"


def test_an_admin_is_told_which_variable_shows_all(
    remote: CommandLine, service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = service.new_tenant()
    monkeypatch.setenv("KB_TOKEN", make_token(tenant, Role.TENANT_ADMIN, subject="ada"))
    remote.succeed("add", "The payroll", "--reader", "user:ada", "--external-id", "pay")
    show = ("access", "show", "--subject", "ada")
    assert remote(*show).err.endswith(": set KB_ACCESS=all\n")
    monkeypatch.setenv("KB_ACCESS", "all")
    assert "entries  1 of 1" in remote.succeed(*show).out


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
