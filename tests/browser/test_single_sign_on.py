"""Signing in at a provider on another site, and signing out, with the cookies that a browser really sends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.browser.accessibility import find_barriers
from tests.browser.conftest import Visits
from tests.browser.site import run_site
from tests.fixtures.identity.openid import OpenIdProvider

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
async def provider() -> AsyncIterator[OpenIdProvider]:
    """A provider at `localhost`: for a browser, another site than that of the service, `127.0.0.1`."""
    provider = OpenIdProvider("")
    async with provider.serving():
        provider.url = provider.url.replace("127.0.0.1", "localhost")
        yield provider


@pytest.fixture(scope="module")
async def guarded(
    browser: Browser, provider: OpenIdProvider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Visits]:
    """Tabs of a service whose people sign in at the provider."""
    with run_site(tmp_path_factory.mktemp("guarded"), provider.url) as site:
        provider.redirect_uris = {f"{site.address}/console/sign-in/callback"}
        provider.after_sign_out = {f"{site.address}/console/sign-in"}
        provider.claims = {"tenant_id": str(site.tenant_id), "roles": ["creator"]}
        async with AsyncExitStack() as stack:
            yield Visits(browser, site, [], stack)


async def test_a_person_signs_in_at_the_provider_and_out_again(guarded: Visits, provider: OpenIdProvider) -> None:
    visit = await guarded.begin()
    visit.also = provider.url
    page = visit.page
    await visit.open("/console/entries?tag=deployment")
    assert urlsplit(page.url).path == "/console/sign-in"
    assert await find_barriers(visit) == []
    await visit.take_picture("single-sign-on")
    await page.get_by_role("link", name="Sign in with Example ID").click()
    await page.get_by_role("button", name="Continue as rita").click()

    await page.wait_for_url("**/console/entries?tag=deployment")
    await visit.expect(page.locator(".who")).to_contain_text("rita")
    await visit.expect(page.get_by_role("link", name="New entry")).to_be_visible()
    await visit.take_picture("single-sign-on-entries")
    assert await page.evaluate("document.cookie") == ""

    await page.get_by_role("button", name="Sign out").click()
    await visit.expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    assert [set(given) for given in provider.ended] == [{"client_id", "post_logout_redirect_uri", "id_token_hint"}]
    await visit.open("/console/entries")
    assert urlsplit(page.url).path == "/console/sign-in"
    visit.check()


async def test_a_refusal_of_the_provider_is_shown(guarded: Visits, provider: OpenIdProvider) -> None:
    visit = await guarded.begin(scheme="dark", width=390)
    visit.also = provider.url
    page = visit.page
    await visit.open("/console/sign-in")
    provider.error = "access_denied"
    await page.get_by_role("link", name="Sign in with Example ID").click()
    await page.get_by_role("button", name="Continue as rita").click()
    await visit.expect(page.get_by_role("alert")).to_have_text("Example ID refused the sign-in.")
    assert await find_barriers(visit) == []
    await visit.take_picture("single-sign-on-refused")
    provider.error = None
    await page.get_by_role("link", name="Sign in with Example ID").click()
    await page.get_by_role("button", name="Continue as rita").click()
    await visit.expect(page.get_by_role("searchbox")).to_be_visible()
    visit.check()
