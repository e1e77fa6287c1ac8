"""A link that signs in once."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from app.auth.issuing import VALID_SECONDS, SignInLink
from app.hosts import is_loopback
from tests.fixtures.http.callers import Caller

PATH = "/console/sign-in/once"


@pytest.fixture
def key(app: FastAPI, admin: Caller) -> Iterator[str]:
    """The key of a link to the admin's token."""
    link = SignInLink(admin.token)
    app.state.sign_in_link = link
    yield link.issue()
    del app.state.sign_in_link


def test_a_key_is_exchanged_once() -> None:
    link = SignInLink("a token")
    assert link.redeem("") is None
    key = link.issue()
    assert link.redeem(key + "x") is None
    assert link.redeem("\ud800") is None
    assert link.redeem(key) == "a token"
    assert link.redeem(key) is None


def test_a_new_key_replaces_the_one_before() -> None:
    link = SignInLink("a token")
    first, second = link.issue(), link.issue()
    assert first != second
    assert link.redeem(first) is None
    assert link.redeem(second) == "a token"


def test_a_key_expires() -> None:
    now = 100.0
    link = SignInLink("a token", clock=lambda: now)
    key = link.issue()
    now += VALID_SECONDS
    assert link.redeem(key) is None
    now -= 1
    assert link.redeem(key) is None, "an expired key has been used"


@pytest.mark.parametrize(
    ("host", "near"),
    [
        *(("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True)),
        *(("0.0.0.0", False), ("::", False), ("10.0.0.7", False), ("", False)),  # noqa: S104
        ("localhost.elsewhere.test", False),
    ],
)
def test_only_addresses_of_this_machine_are_loopback(host: str, near: bool) -> None:
    assert is_loopback(host) is near


async def test_head_neither_uses_the_link_nor_tells_whether_it_is_valid(app: FastAPI, key: str) -> None:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://console.test") as browser:
        asked = [await browser.head(PATH, params={"key": sent}) for sent in (key, key, f"{key}x")]
        for answer in asked:
            assert (answer.status_code, answer.content) == (200, b"")
            assert "set-cookie" not in answer.headers
        assert len({answer.headers["content-length"] for answer in asked}) == 1
        signed_in = await browser.get(PATH, params={"key": key})
        assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/console")
        assert "set-cookie" in signed_in.headers
        told = await browser.head(PATH, params={"key": key})
        assert "set-cookie" not in told.headers
