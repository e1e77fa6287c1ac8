"""Feedback on hits: the two buttons, and what they store."""

from __future__ import annotations

from uuid import uuid4

from tests.console.browser import Browser, all_fields
from tests.console.conftest import SignIn
from tests.fixtures.http.callers import Caller

PART = {"HX-Request": "true"}
PATH = "/console/feedback"


async def test_a_hit_is_rated_and_rated_again(browser: Browser, admin: Caller) -> None:
    await admin.add("The bell", title="Bells")
    page = await browser.search("bell", mode="keyword")
    form = page.one(".hit form.thumbs")
    assert [b.get("aria-pressed") for b in form.cssselect("button")] == ["false", "false"]
    given = {name: values[0] for name, values in all_fields(form).items()}
    assert given["next"] == "/console?query=bell&mode=keyword"
    liked = await browser.post(PATH, {**given, "relevant": "true"}, headers=PART)
    assert [b.get("aria-pressed") for b in liked.all("button")] == ["true", "false"]
    assert not liked.all("main")
    report = (await admin.get("/admin/feedback")).json()
    assert (report["relevant"], report["not_relevant"]) == (1, 0)
    again = {name: values[0] for name, values in all_fields(liked.one("form")).items()}
    assert again == given
    whole = await browser.post(PATH, {**again, "relevant": "false"})
    assert "not useful" in whole.one("main").text_content()
    assert whole.one("main a").get("href") == given["next"]
    report = (await admin.get("/admin/feedback")).json()
    assert (report["relevant"], report["not_relevant"]) == (0, 1)


async def test_a_rating_of_another_callers_search_is_refused(
    browser: Browser, sign_in: SignIn, admin: Caller, reader: Caller
) -> None:
    await admin.add("The bell")
    form = all_fields((await browser.search("bell")).one(".hit form.thumbs"))
    given = {name: values[0] for name, values in form.items()} | {"relevant": "true"}
    other = await sign_in(reader).post(PATH, given, headers=PART)
    assert other.status == 404
    assert other.answer.headers["hx-retarget"] == "#problem"
    for wrong in ({"entry_id": str(uuid4())}, {"entry_id": "x"}, {"relevant": "perhaps"}, {"search_id": ""}):
        assert (await browser.post(PATH, {**given, **wrong})).status == 422, wrong
    away = await browser.post(PATH, {**given, "next": "https://elsewhere.test/console"})
    assert away.one("main a").get("href") == "/console"
