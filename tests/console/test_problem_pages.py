"""What a person sees in place of a page."""

from __future__ import annotations

import pytest

from app.console.rendering import make_sentence
from tests.console.browser import Browser
from tests.console.conftest import SignIn
from tests.console.pages import path_of
from tests.fixtures.http.callers import Caller


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("there is no entry with this id", "There is no entry with this id."),
        ("limit: must be at most 50", "limit: must be at most 50."),
        ("Ready.", "Ready."),
        ("élan", "Élan."),
        ("3 files", "3 files."),
        ("", ""),
    ],
)
def test_a_detail_becomes_a_sentence(text: str, sentence: str) -> None:
    assert make_sentence(text) == sentence


async def test_a_refusal_has_a_heading_in_words_and_a_way_back(
    browser: Browser, sign_in: SignIn, reader: Caller, platform: Caller
) -> None:
    missing = await browser.get(path_of("GET /console/entries/{entry_id}")[1])
    assert (missing.status, missing.one("h1").text_content()) == (404, "This does not exist")
    refused = await sign_in(reader).get("/console/health")
    assert (refused.status, refused.one("h1").text_content()) == (403, "You may not do this")
    assert "This requires the role tenant_admin." in refused.one("[role=alert]").text_content()
    for page in (missing, refused):
        assert page.one("main section > p > a").get("href") == "/console"
        assert not page.one("h1").text_content().endswith(page.answer.reason_phrase)
    lost = await sign_in(platform).get("/console/entries")
    assert lost.one("main section > p > a").get("href") == "/console/platform"
