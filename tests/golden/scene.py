"""A service of its own, whose answers no other test changes, and the requests that are sent to it."""

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import numpy as np
import yaml
from asgi_lifespan import LifespanManager

from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services, build_services
from app.db.database import Database
from app.db.schema.owner import register_model
from app.embedded import EmbeddedAddress
from app.embeddings.provider import Vector
from app.knowledge.worker import KINDS
from app.main import create_app
from app.settings import IngestionSettings, Settings
from tests.fixtures.database.cluster import MODEL, TestDatabase, connected, new_database
from tests.fixtures.http.callers import Caller, make_token, open_client
from tests.fixtures.http.mcp_client import HEADERS
from tests.fixtures.providers.failing import FailingProvider
from tests.golden.placeholders import Placeholders
from tests.knowledge.reembedding.moving import WIDER

UNKNOWN = "00000000-0000-4000-8000-000000000000"
MESSAGES = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}
"""Messages of MCP, and the parameter for what follows them in `ask`."""

CALLERS: Mapping[str, tuple[Role, str, tuple[str, ...]]] = {
    "admin": (Role.TENANT_ADMIN, "ada", ()),
    "other-admin": (Role.TENANT_ADMIN, "otto", ()),
    "creator": (Role.CREATOR, "carl", ("pilots",)),
    "reader": (Role.READER, "rita", ("crew",)),
}


class ExactProvider(FailingProvider):
    """Its vectors have 16 coordinates of a quarter: similarities are exact on every machine."""

    async def _vector(self, text: str) -> Vector:
        bits = np.unpackbits(np.frombuffer(hashlib.sha256(text.encode()).digest()[:2], np.uint8))
        vector: Vector = np.zeros(self.model.dimensions, np.float32)
        vector[:16] = bits * 0.5 - 0.25
        return vector


@dataclass(frozen=True, slots=True)
class Step:
    """A request; `requests.yaml` describes the fields."""

    name: str
    ask: str
    who: str = "admin"
    keep: Mapping[str, str] = field(default_factory=dict)
    works: bool = False
    down: bool = False
    json: Any = None
    params: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content: str | None = None
    file: Mapping[str, str] | None = None
    form: Any = None

    def place(self) -> tuple[str, str]:
        """The method and the path."""
        method, path = self.ask.split(" ", 1)
        return ("POST", "/mcp") if method in MESSAGES else (method, path)

    def options(self) -> dict[str, Any]:
        """The options of httpx."""
        headers = {"X-Request-ID": "golden", **self.headers}
        if self.who == "admin" and self.ask.partition(" ")[2].startswith("/admin/"):
            headers["X-KB-Access"] = "all"
        method, name = self.ask.split(" ", 1)
        if method in MESSAGES:
            params = {MESSAGES[method]: name} | ({} if self.json is None else {"arguments": self.json})
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return {"json": message, "headers": headers | HEADERS}
        given = {"json": self.json, "params": self.params, "content": self.content, "data": self.form}
        options = {name: value for name, value in given.items() if value is not None}
        if self.file is not None:
            options["files"] = {"file": (self.file["name"], self.file["text"].encode(), self.file["type"])}
        return {**options, "headers": headers}


STEPS = tuple(Step(**step) for step in yaml.safe_load(Path(__file__).with_name("requests.yaml").read_text("utf-8")))


@dataclass(frozen=True, slots=True)
class Scene:
    """The service, a client for it, and the ids that answers had."""

    made: TestDatabase
    services: Services
    provider: FailingProvider
    http: httpx.AsyncClient
    ids: dict[str, str] = field(default_factory=lambda: {"unknown": UNKNOWN})
    placeholders: Placeholders = field(default_factory=Placeholders)

    async def send(self, step: Step) -> httpx.Response:
        """The answer of the service, after which nothing goes on in the background."""
        if step.works:
            await self._work()
        self.provider.down = step.down
        self.ids["now"] = datetime.now(UTC).isoformat()
        names = ("ask", "json", "params")
        step = replace(step, **{name: fill_ids(getattr(step, name), self.ids) for name in names})
        answer = await self._caller(step).request(*step.place(), **step.options())
        await self.services.journal.flush()
        await self.services.accesses.flush()
        await self.services.similarities.flush()
        await self.services.subscriptions.close()  # until the caller's groups and roles are noted
        assert answer.is_success or not step.keep, f"{step.name}: {answer.text}"
        for name, place in step.keep.items():
            self.ids[name] = find_id(answer.json(), place)
            self.placeholders.name(self.ids[name], name)
        return answer

    async def _work(self) -> None:
        """Run all queued jobs, also those that are due later; no webhook is called."""
        async with connected(self.made.superuser_dsn) as superuser:
            while True:
                await superuser.execute("update jobs set run_at = now() where state = 'queued'")
                if not await self.services.worker.run_once(KINDS):
                    return

    def _caller(self, step: Step) -> Caller:
        if step.who == "nameless":
            return Caller(self.http, None, "")
        if step.place()[1].startswith(("/admin/tenants", "/admin/platform")):
            return Caller(self.http, None, make_token(None, Role.PLATFORM_ADMIN, subject="paula"))
        role, subject, groups = CALLERS[step.who]
        tenant = UUID(self.ids["tenant"])
        return Caller(self.http, tenant, make_token(tenant, role, subject=subject, groups=groups))


def fill_ids(value: Any, ids: Mapping[str, str]) -> Any:
    """The value with ids in the place of their names."""
    if isinstance(value, str):
        for name, known in ids.items():
            value = value.replace(f"{{{name}}}", known)
        return value
    if isinstance(value, dict):
        return {key: fill_ids(inner, ids) for key, inner in value.items()}
    return [fill_ids(inner, ids) for inner in value] if isinstance(value, list) else value


def find_id(answer: Any, place: str) -> str:
    """The id at a place, such as `results.0.id`."""
    for step in place.split("."):
        answer = answer[int(step) if step.isdecimal() else step]
    return str(answer)


@asynccontextmanager
async def open_scene(cluster: EmbeddedAddress, template: str, verifier: TokenVerifier) -> AsyncIterator[Scene]:
    """Start the service on a database of its own; no worker runs."""
    async with new_database(cluster, template=template) as made:
        await register_model(made.admin_dsn, WIDER)
        database, provider = Database(made.service_dsn, pool_size=5), ExactProvider(MODEL)
        services = await build_services(database, provider, next_provider=ExactProvider(WIDER))
        app = create_app(Settings(ingestion=IngestionSettings(worker=False)), services, verifier)
        async with LifespanManager(app), open_client(app) as http:
            yield Scene(made, services, provider, http)
        await services.close()
        await database.close()
