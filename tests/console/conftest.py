"""The application of the API's tests, and browsers that are signed in to its console."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
from fastapi import FastAPI

from tests.console.browser import Browser, open_browser
from tests.fixtures.http.callers import Caller

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
    """A browser without a signed-in user."""
    browser = open_browser(app)
    yield browser
    await browser.http.aclose()
