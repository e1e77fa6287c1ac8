"""The link that signs in once, as `knowledge serve --demo` prints it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI

from app.auth.issuing import SignInLink
from app.cli.demo import welcome
from app.console.session import COOKIE
from app.contract.administration import Tenant
from app.settings import load_settings
from tests.console.browser import ADDRESS, Browser, read_page
from tests.fixtures.http.callers import SECRET, Caller

PATH = "/console/sign-in/once"


@pytest.fixture
def key(app: FastAPI, admin: Caller) -> Iterator[str]:
    """The key of a link to the admin's token."""
    link = SignInLink(admin.token)
    app.state.sign_in_link = link
    yield link.issue()
    del app.state.sign_in_link


async def test_the_link_signs_in_once(
    signed_out: Browser, app: FastAPI, admin: Caller, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "app")
    wrong = await signed_out.get(PATH, {"key": f"{key}x"})
    assert wrong.status == 401
    answer = (await signed_out.get(PATH, {"key": key})).answer
    assert (answer.status_code, answer.headers["location"]) == (303, "/console")
    flags = answer.headers["set-cookie"].lower()
    assert "httponly" in flags
    assert "samesite=strict" in flags
    assert (await signed_out.get("/console")).status == 200
    again = await signed_out.get(PATH, {"key": key})
    assert (again.status, again.answer.headers.get("location")) == (303, "/console"), "signed in already"
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as other:
        used = read_page(await other.get(PATH, params={"key": key}))
        assert used.status == 401
        assert "has been used" in used.one("#refusal").text_content()
        assert COOKIE not in other.cookies
    logged = " ".join(str(vars(record)) for record in caplog.records)
    assert key not in logged
    assert admin.token not in logged


async def test_the_link_is_refused_from_another_machine(app: FastAPI, key: str) -> None:
    transport = httpx.ASGITransport(app=app, client=("10.0.0.7", 4711))
    async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as other:
        assert (await other.get(PATH, params={"key": key})).status_code == 401


async def test_a_service_without_a_link_refuses_every_key(signed_out: Browser) -> None:
    for key in ("", "x"):
        assert (await signed_out.get(PATH, {"key": key})).status == 401


def test_only_a_service_for_this_machine_prints_a_link(api_tenant: Tenant) -> None:
    given = {"JWT_SECRET": SECRET, "DATABASE_URL": "postgresql://localhost/x"}
    near = load_settings(given)
    hints = welcome(near, api_tenant, "http://127.0.0.1:8000")
    assert hints.link is not None
    (line,) = [line for line in hints.text.splitlines() if PATH in line]
    assert hints.link.redeem(urlsplit(line).query.removeprefix("key=")) is not None
    far = load_settings(given | {"KB_HOST": "0.0.0.0"})  # noqa: S104
    for hints in (
        welcome(far, api_tenant, "http://127.0.0.1:8000"),
        welcome(near, api_tenant, "http://127.0.0.1:8000", alone=False),
    ):
        assert hints.link is None
        assert PATH not in hints.text
