"""Random sequences of calls by two tenants, compared with a model of what each should see."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import NewTenant
from tests.fixtures.http.callers import Caller, make_token

WORDS = ("harbour", "lantern", "zeppelin", "vinegar")
who = st.integers(0, 1)
place = st.integers(0, 50)
contents = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True).map(" ".join)


@dataclass
class Known:
    """A caller, and the contents of the entries that it should have, by id."""

    caller: Caller
    entries: dict[str, str] = field(default_factory=dict)


class TwoTenants(RuleBasedStateMachine):
    """Two tenants that write the same contents and try each other's ids."""

    def __init__(
        self, run: Callable[[Coroutine[Any, Any, Any]], Any], http: httpx.AsyncClient, services: Services
    ) -> None:
        super().__init__()
        self.run = run
        self.http = http
        self.services = services
        self.tenants = [self.make_tenant() for _ in range(2)]
        self.calls = 0

    def make_tenant(self) -> Known:
        tenant = self.run(self.services.tenants.create(NewTenant(f"r-{uuid4().hex}"), actor="test"))
        return Known(Caller(self.http, tenant.id, make_token(tenant.id, Role.TENANT_ADMIN)))

    def call(self, tenant: Known, method: str, path: str, **options: Any) -> httpx.Response:
        answer: httpx.Response = self.run(tenant.caller.request(method, path, **options))
        return answer

    def pick(self, number: int) -> str:
        """An id that one of the two tenants has, or an unknown one."""
        ids = [*self.tenants[0].entries, *self.tenants[1].entries]
        return ids[number % len(ids)] if ids else str(uuid4())

    @rule(by=who, content=contents, parent=st.none() | place)
    def create(self, by: int, content: str, parent: int | None) -> None:
        tenant = self.tenants[by]
        body: dict[str, Any] = {"content": content, "tags": ["sea", content.split()[0]]}
        if parent is not None:
            body["parent_id"] = self.pick(parent)
        same = next((i for i, c in tenant.entries.items() if c == content), None)
        answer = self.call(tenant, "POST", "/knowledge/entries", json=body)
        if parent is not None and (body["parent_id"] not in tenant.entries or body["parent_id"] == same):
            assert answer.status_code == 422, answer.text
            return
        if answer.status_code == 422:
            # A parent of its own parent, among the tenant's own entries.
            assert parent is not None
            assert same is not None
            return
        assert answer.status_code == (201 if same is None else 200), answer.text
        assert same in (None, answer.json()["id"])
        tenant.entries[answer.json()["id"]] = content

    @rule(by=who, texts=st.lists(contents, min_size=1, max_size=4))
    def create_many(self, by: int, texts: list[str]) -> None:
        tenant = self.tenants[by]
        body = {"entries": [{"content": text} for text in texts]}
        for text, result in zip(
            texts, self.call(tenant, "POST", "/knowledge/entries/bulk", json=body).json()["results"], strict=True
        ):
            assert result["status"] == ("unchanged" if text in tenant.entries.values() else "created")
            tenant.entries[result["id"]] = text

    @rule(by=who, number=place, method=st.sampled_from(["GET", "PATCH", "DELETE"]))
    def touch(self, by: int, number: int, method: str) -> None:
        tenant, target = self.tenants[by], self.pick(number)
        options = {"json": {"title": f"title {number}"}} if method == "PATCH" else {}
        answer = self.call(tenant, method, f"/knowledge/entries/{target}", **options)
        if target not in tenant.entries:
            assert answer.status_code == 404
        elif method == "DELETE":
            assert answer.status_code == 204
            del tenant.entries[target]
        else:
            assert answer.json()["content"] == tenant.entries[target]

    @rule(by=who, number=place)
    def look_around(self, by: int, number: int) -> None:
        tenant, target = self.tenants[by], self.pick(number)
        found = self.call(tenant, "GET", f"/knowledge/entries/{target}/related", params={"limit": 20}).json()
        ids = {hit["id"] for hit in found["results"]}
        assert ids <= tenant.entries.keys() - {target}
        assert not ids or target in tenant.entries
        request = {"query": "harbour", "mode": "keyword"}
        why = self.call(tenant, "POST", "/knowledge/search/why-not", json={"entry_id": target, "request": request})
        unknown = [reason["stage"] for reason in why.json()["reasons"]] == ["entry"]
        assert unknown == (target not in tenant.entries)

    @rule(by=who, word=st.sampled_from(WORDS), mode=st.sampled_from(["keyword", "hybrid", "semantic"]))
    def search(self, by: int, word: str, mode: str) -> None:
        tenant = self.tenants[by]
        body = {"query": word, "mode": mode, "limit": 50}
        found = self.call(tenant, "POST", "/knowledge/search", json=body).json()
        ids = {hit["id"] for hit in found["results"]}
        having = {i for i, content in tenant.entries.items() if word in content}
        assert ids <= tenant.entries.keys()
        assert mode == "semantic" or having <= ids
        if mode == "keyword":
            assert ids == having
            assert found["metadata"]["estimated_matches"] == len(having)
            spelt = {w for content in tenant.entries.values() for w in content.split()} | {"sea"}
            assert set(found["metadata"]["suggestions"]) <= spelt

    @rule(by=who)
    def start_again(self, by: int) -> None:
        """Delete the tenant; another takes its place."""
        gone = self.tenants[by]
        assert gone.caller.tenant_id is not None
        self.run(self.services.tenants.delete(gone.caller.tenant_id, actor="test"))
        assert self.call(gone, "GET", "/knowledge/entries").status_code == 401
        self.tenants[by] = self.make_tenant()

    @invariant()
    def lists_contain_what_was_written(self) -> None:
        for tenant in self.tenants:
            listed = self.call(tenant, "GET", "/knowledge/entries", params={"limit": 200}).json()["items"]
            assert {entry["id"]: entry["content"] for entry in listed} == tenant.entries


@pytest.fixture
async def loop() -> asyncio.AbstractEventLoop:
    """The loop in which the app runs."""
    return asyncio.get_running_loop()


@pytest.mark.parametrize(
    ("examples", "steps", "chance"),
    [(5, 10, False), pytest.param(150, 50, True, marks=pytest.mark.slow)],
    ids=["few", "many"],
)
def test_sequences_of_calls_show_each_tenant_only_its_own_entries(
    loop: asyncio.AbstractEventLoop,
    http: httpx.AsyncClient,
    api_services: Services,
    examples: int,
    steps: int,
    chance: bool,
) -> None:
    run_state_machine_as_test(
        lambda: TwoTenants(loop.run_until_complete, http, api_services),  # type: ignore[arg-type]  # not a class
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=not chance,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
