"""`.ci/audit` compares the lock with a database, and never takes a missing answer for a good one."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ADVISORY = {
    "id": "PYSEC-2099-1",
    "modified": "2099-01-01T00:00:00Z",
    "published": "2099-01-01T00:00:00Z",
    "details": "An advisory of this test.",
    "affected": [
        {
            "package": {"name": "alembic", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.0"}]}],
        }
    ],
}

pytestmark = pytest.mark.skipif(
    not (ROOT / "build/audit/bin/pip-audit").exists(), reason="`make audit` was not run here: no pip-audit"
)


class Advisories(HTTPServer):
    """A database in the format of OSV, with an advisory for the packages in `vulnerable`."""

    vulnerable: frozenset[str] = frozenset()
    asked: int = 0


class _Answer(BaseHTTPRequestHandler):
    server: Advisories

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked += 1
        found = [ADVISORY] if asked["package"]["name"] in self.server.vulnerable else []
        body = json.dumps({"vulns": found} if found else {}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def advisories() -> Iterator[Advisories]:
    server = Advisories(("127.0.0.1", 0), _Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def audit(address: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / ".ci/audit", "--osv-url", address],
        env=os.environ | {"AUDIT_SERVICE": "osv", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
    )


def test_audit_passes_when_every_package_was_compared(advisories: Advisories) -> None:
    ended = audit(f"http://127.0.0.1:{advisories.server_port}/v1/query")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "requirements.lock: no known vulnerabilities (osv)\n"
    assert advisories.asked > 200


def test_audit_names_a_vulnerable_package(advisories: Advisories) -> None:
    advisories.vulnerable = frozenset({"alembic"})
    ended = audit(f"http://127.0.0.1:{advisories.server_port}/v1/query")
    assert ended.returncode == 1, ended.stderr
    assert "alembic" in ended.stdout
    assert "PYSEC-2099-1" in ended.stdout
    assert "no known vulnerabilities" not in ended.stdout


def test_audit_fails_when_the_database_does_not_answer() -> None:
    ended = audit("http://127.0.0.1:9/v1/query")
    assert ended.returncode == 2
    assert "requirements.lock was not audited" in ended.stderr
    assert "no known vulnerabilities" not in ended.stdout
