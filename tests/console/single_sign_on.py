"""The application with a provider of OpenID Connect, and the way of a browser through both."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from asgi_lifespan import LifespanManager
from fastapi import FastAPI
from pydantic import SecretStr

from app.composition.services import Services
from app.console.session import COOKIE
from app.main import create_app
from app.settings import IngestionSettings, ServerSettings, Settings
from app.settings.groups import EncryptionSettings, JwtSettings, OidcSettings
from tests.console.browser import ADDRESS, Browser, Page
from tests.fixtures.http.callers import SECRET
from tests.fixtures.identity.openid import CLIENT_ID, CLIENT_SECRET, OpenIdProvider

KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
OTHER_KEY = "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="
BEGIN = "/console/sign-in/provider"
CALLBACK = "/console/sign-in/callback"

GENERAL = "Example ID could not sign you in. Try again, or ask your administrator."
UNREACHABLE = "Example ID does not answer at the moment. Try again in a minute."
EXPIRED = "This sign-in has expired, or was not started in this browser. Start again."
DENIED = "Example ID refused the sign-in."
TOO_MANY = (
    "Your account has more groups than a session can hold. Ask your administrator to let Example ID send only those"
    " that this service needs."
)
MISSING = "Your account has no access to this service. Ask your administrator for a tenant and a role."
UNUSABLE = "The answer of Example ID could not be verified. Try again, or ask your administrator."


def make_settings(issuer: str, *, keys: str = KEY, public_url: str = ADDRESS, **changes: Any) -> Settings:
    """Settings of a service whose people sign in at `issuer`; `changes` are those of its registration."""
    given: dict[str, Any] = {
        "issuer": issuer,
        "client_id": CLIENT_ID,
        "client_secret": SecretStr(CLIENT_SECRET),
        "name": "Example ID",
    }
    return Settings(
        ingestion=IngestionSettings(worker=False),
        server=ServerSettings(public_url=public_url),
        jwt=JwtSettings(secret=SecretStr(SECRET)),
        encryption=EncryptionSettings(keys=SecretStr(keys)),
        oidc=OidcSettings(**given | changes),
    )


@contextlib.asynccontextmanager
async def open_app(services: Services, issuer: str, **changes: Any) -> AsyncIterator[FastAPI]:
    """A process of the service."""
    app = create_app(make_settings(issuer, **changes), services)
    async with LifespanManager(app):
        yield app


async def begin(browser: Browser, page: str | None = None) -> str:
    """Follow the link on the sign-in page; the address at the provider."""
    wanted = {} if page is None else {"next": page}
    link = (await browser.get("/console/sign-in", wanted)).one("#provider")
    answer = (await browser.get(link.get("href"))).answer
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


async def come_back(browser: Browser, address: str) -> Page:
    """Open the address to which the provider sends the browser."""
    parts = urlsplit(address)
    assert f"{parts.scheme}://{parts.netloc}" == ADDRESS
    return await browser.get(f"{parts.path}?{parts.query}")


async def sign_in(browser: Browser, provider: OpenIdProvider, page: str | None = None) -> Page:
    """The whole way; the page at its end."""
    return await come_back(browser, await provider.visit(await begin(browser, page)))


def target_of(page: Page) -> str:
    """Where a page leads by itself."""
    seconds, _, address = page.one("meta[http-equiv=refresh]").get("content").partition("; url=")
    assert seconds == "0"
    assert page.one("main a").get("href") == address
    return str(address)


def expect_refusal(page: Page, text: str, openid: OpenIdProvider) -> None:
    """A sign-in page with this text alone, and no session."""
    assert page.texts("[role=alert]") == [text]
    assert page.status == (503 if text == UNREACHABLE else 401)
    kept = [line for line in page.answer.headers.get_list("set-cookie") if "max-age=0" not in line.lower()]
    assert not kept
    for internal in (openid.url, "internal", "Error", "Traceback", "httpx"):
        assert internal not in page.answer.text
    assert page.all("#provider"), "the person can try again"
    assert page.all("#token")


async def refuse(visitor: Browser, openid: OpenIdProvider, text: str) -> None:
    """Sign in, which must fail with this text."""
    expect_refusal(await sign_in(visitor, openid), text, openid)
    assert COOKIE not in visitor.http.cookies
