"""The page of API keys."""

from tests.console.browser import Browser
from tests.fixtures.http.callers import Caller

KEYS = "/console/keys"


async def test_a_key_is_shown_once_used_to_sign_in_and_revoked(browser: Browser, admin: Caller) -> None:
    refused = await browser.post(KEYS, {"name": " ", "role": "reader"})
    assert refused.status == 422
    assert refused.one("#field-name-error") is not None
    made = await browser.post(KEYS, {"name": "reports", "role": "tenant_admin", "groups": "crew, pilots"})
    assert made.status == 200, made.text
    key = made.one("code").text_content()
    assert (await Caller(admin.http, admin.tenant_id, key).get("/admin/stats")).status_code == 200
    assert (await browser.post(KEYS, {"name": "reports", "role": "reader"})).status == 409
    page = await browser.get(KEYS)
    assert key not in page.text
    assert page.texts("tbody th") == ["reports"]
    assert page.texts("tbody td")[:2] == ["tenant admin", "crew, pilots"]
    assert (await browser.post("/console/sign-in", {"token": key})).status == 303
    address = page.one("tbody form").get("action")
    assert (await browser.post(str(address), {})).status == 303
    assert (await browser.post("/console/sign-in", {"token": key})).status == 401
