"""The application of the API's tests, and browsers that are signed in to its console."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI

from app.composition.identity import open_sign_in
from app.composition.services import Services
from app.contract.administration import Tenant
from tests.console.browser import ADDRESS, Browser, open_browser
from tests.console.single_sign_on import make_settings, open_app
from tests.fixtures.http.callers import Caller
from tests.fixtures.identity.openid import OpenIdProvider, generate_key

SignIn = Callable[[Caller], Browser]


@pytest.fixture
async def sign_in(app: FastAPI) -> AsyncIterator[SignIn]:
    """Opens a browser in which a caller of the API is signed in."""
    async with AsyncExitStack() as stack:

        def sign_in(caller: Caller) -> Browser:
            browser = open_browser(app, caller.token)
            stack.push_async_callback(browser.http.aclose)
            return browser

        yield sign_in


@pytest.fixture
async def browser(sign_in: SignIn, admin: Caller) -> Browser:
    """A browser in which the admin of the test's tenant is signed in."""
    return sign_in(admin)


@pytest.fixture
async def signed_out(app: FastAPI) -> AsyncIterator[Browser]:
    browser = open_browser(app)
    yield browser
    await browser.http.aclose()


@pytest.fixture(scope="session")
def openid_key() -> rsa.RSAPrivateKey:
    """The key of all these providers; generating one takes as long as a test."""
    return generate_key()


@pytest.fixture
async def openid(api_tenant: Tenant, openid_key: rsa.RSAPrivateKey) -> AsyncIterator[OpenIdProvider]:
    """A provider that gives rita the role of a reader in the test's tenant."""
    provider = OpenIdProvider(ADDRESS, openid_key)
    provider.claims = {"tenant_id": str(api_tenant.id), "roles": ["reader", "something-else"]}
    async with provider.serving():
        yield provider


@pytest.fixture(scope="session")
async def sso_app(api_services: Services) -> AsyncIterator[FastAPI]:
    """An application whose people sign in at a provider, and whose routes are ready."""
    async with open_app(api_services, "http://127.0.0.1:1") as app:
        yield app


@pytest.fixture
async def sso(sso_app: FastAPI, openid: OpenIdProvider) -> AsyncIterator[FastAPI]:
    """This application with the test's provider, of which it knows nothing yet."""
    async with open_sign_in(make_settings(openid.url)) as sign_in:
        sso_app.state.parts = replace(sso_app.state.parts, sign_in=sign_in)
        yield sso_app


@pytest.fixture
async def visitor(sso: FastAPI) -> AsyncIterator[Browser]:
    browser = open_browser(sso)
    yield browser
    await browser.http.aclose()
