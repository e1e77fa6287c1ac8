"""What `knowledge doctor` finds of the sign-in at a provider."""

from __future__ import annotations

from app.cli.doctor.finding import Finding
from app.cli.doctor.machine import check_sign_in
from app.settings import Settings
from tests.console.single_sign_on import make_settings
from tests.fixtures.identity.openid import OpenIdProvider


async def check(issuer: str) -> Finding:
    (finding,) = [finding async for finding in check_sign_in(make_settings(issuer, public_url="http://localhost:8000"))]
    assert finding.check == "sign-in"
    return finding


async def test_doctor_fetches_the_document_and_the_keys_of_the_provider() -> None:
    provider = OpenIdProvider("http://console.test")
    async with provider.serving():
        assert (await check(provider.url)).status == "ok"
        assert provider.paths == ["/.well-known/openid-configuration", "/keys"]
        slash = await check(f"{provider.url}/")
        assert slash.status == "wrong"
        assert slash.detail.startswith("the provider's document is unusable: it is the document of another issuer;")
        provider.keys.clear()
        assert "keys cannot be fetched" in (await check(provider.url)).detail
    assert "ConnectError" in (await check(provider.url)).detail
    assert (await check("http://login.example.com")).detail.startswith("KB_OIDC_ISSUER: must be an https")
    assert not [finding async for finding in check_sign_in(Settings())]


async def test_doctor_warns_of_an_unencrypted_console() -> None:
    settings = make_settings("http://login.example.com", public_url="http://kb.example.com")
    warning, wrong = [finding async for finding in check_sign_in(settings)]
    assert (warning.status, wrong.status) == ("warning", "wrong")
    assert "KB_PUBLIC_URL is http" in warning.detail
