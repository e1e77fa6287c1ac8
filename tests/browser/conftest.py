"""A real Chromium and the real service; without either, these tests are skipped and name what is missing."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pytest

from app.auth.principal import Role
from tests.browser.site import Site, run_site
from tests.browser.visit import PATIENCE, Visit

if TYPE_CHECKING:
    from playwright.async_api import Browser

FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Only this machine resolves; by its name it is another site than by its address.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
WIDE, PHONE = 1280, 390
"""CSS pixels: a small desktop window, and a phone in portrait."""

COOKIE = "kb_console"


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One headless Chromium for all tests, with an empty profile."""
    playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser
        await browser.close()


@pytest.fixture(scope="session")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The service with the sample knowledge, for all tests; a test that writes uses a tenant of its own."""
    with run_site(tmp_path_factory.mktemp("site")) as site:
        yield site


@dataclass(frozen=True, slots=True)
class Visits:
    """Opens tabs for a test, each with cookies and storage of its own."""

    browser: Browser
    site: Site
    opened: list[Visit]
    stack: AsyncExitStack

    async def begin(
        self, token: str | None = None, *, width: int = WIDE, scheme: Literal["light", "dark"] = "light"
    ) -> Visit:
        """A tab; with `token` it is signed in to the console already."""
        context = await self.browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=scheme,
            reduced_motion="reduce",
            service_workers="block",
        )
        self.stack.push_async_callback(context.close)
        context.set_default_timeout(PATIENCE)
        if token is not None:
            await context.add_cookies(
                [
                    {
                        "name": COOKIE,
                        "value": token,
                        "domain": "127.0.0.1",
                        "path": "/console",
                        "httpOnly": True,
                        "sameSite": "Strict",
                    }
                ]
            )
        visit = Visit(await context.new_page(), self.site)
        self.opened.append(visit)
        await visit.watch(context)
        return visit


@pytest.fixture
async def visits(browser: Browser, site: Site) -> AsyncIterator[Visits]:
    """Tabs for one test; at its end, no forbidden event may have occurred in them."""
    async with AsyncExitStack() as stack:
        visits = Visits(browser, site, [], stack)
        yield visits
        for visit in visits.opened:
            visit.check()


@pytest.fixture
def admin_token(site: Site) -> str:
    """The token of the demo tenant's admin."""
    return site.token(Role.TENANT_ADMIN)
