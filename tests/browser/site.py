"""The service for the browser: the real `knowledge serve --demo`, with a Postgres and a folder of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from app.auth.principal import Role
from tests.fixtures.http.callers import SECRET, make_token
from tests.fixtures.identity.openid import CLIENT_ID, CLIENT_SECRET

PROGRAM = Path(sys.executable).with_name("knowledge")
START_SECONDS = 180


@dataclass(frozen=True, slots=True)
class Site:
    """A running service and its tenant `demo`."""

    address: str
    tenant_id: UUID
    sign_in_link: str
    """The link that the service printed, which signs in once."""

    def token(self, *roles: Role, tenant_id: UUID | None = None, subject: str = "ada") -> str:
        """A token for `demo` or another tenant; without a tenant, for a platform administrator."""
        tenant = None if Role.PLATFORM_ADMIN in roles else tenant_id or self.tenant_id
        return make_token(tenant, *roles, subject=subject)

    def call(self, method: str, path: str, token: str, **options: Any) -> Any:
        """The answer of the HTTP API; the test fails unless the request succeeds."""
        answer = httpx.request(
            method,
            self.address + path,
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=60,
            **options,
        )
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def create_tenant(self, slug: str, name: str) -> UUID:
        """Create another tenant, without knowledge."""
        token = self.token(Role.PLATFORM_ADMIN)
        return UUID(self.call("POST", "/admin/tenants", token, json={"slug": slug, "name": name})["id"])


@contextmanager
def run_site(folder: Path, issuer: str | None = None) -> Iterator[Site]:
    """Serve from a separate folder until the block ends, without any setting of this process's environment.

    With `issuer`, people can sign in there.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    settings = {"KB_DATA_DIR": str(folder / "data"), "JWT_SECRET": SECRET, "KB_DRAIN_SECONDS": "0"}
    # Mock vectors cost nothing: the contents of the pages matter here, not the ranking.
    settings["EMBEDDING_PROVIDER"] = "mock"
    if issuer is not None:
        settings |= {"KB_OIDC_ISSUER": issuer, "KB_PUBLIC_URL": f"http://127.0.0.1:{port}"}
        settings |= {"KB_OIDC_CLIENT_ID": CLIENT_ID, "KB_OIDC_CLIENT_SECRET": CLIENT_SECRET}
        settings["KB_OIDC_NAME"] = "Example ID"
    log = folder / "service.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(PROGRAM), "serve", "--demo", "--port", str(port)],
            cwd=folder,
            env=environment | settings,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_until_ready(process, address, log)
        tenants = httpx.get(
            f"{address}/admin/tenants",
            headers={"Authorization": f"Bearer {make_token(None, Role.PLATFORM_ADMIN)}"},
            trust_env=False,
        ).json()["items"]
        (demo,) = (tenant for tenant in tenants if tenant["slug"] == "demo")
        printed = next(line for line in log.read_text().splitlines() if "/console/sign-in/once?" in line)
        yield Site(address, UUID(demo["id"]), printed.strip())
    finally:
        # SIGTERM, not SIGKILL: the service also stops its Postgres.
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(45)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, f"the service did not start: {log.read_text()}"
        assert time.monotonic() < deadline, f"the service is not ready: {log.read_text()}"
        try:
            if httpx.get(f"{address}/readyz", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
