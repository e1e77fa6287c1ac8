"""What the search page shows of its results: their number, groups by document, and help where there are none."""

from __future__ import annotations

from tests.console.asset_pages import Work
from tests.console.browser import Browser
from tests.console.conftest import SignIn
from tests.console.search_pages import form_of
from tests.fixtures.http.callers import Caller


async def test_hits_are_grouped_by_document(browser: Browser, admin: Caller, work: Work) -> None:
    text = "".join(f"# Bell {n}\n\n" + f"The bell {n} rings. " * 60 + "\n\n" for n in range(4))
    await admin.upload("guide.md", text.encode(), "text/markdown")
    await work()
    page = await browser.search("bell rings", mode="keyword")
    assert len(page.all(".hit")) == 4
    (documents,) = [a for a in page.all(".switch a") if a.text_content() == "By document"]
    assert page.texts(".switch [aria-current]") == ["One by one"]
    grouped = await browser.get(documents.get("href"))
    assert len(grouped.all(".hit")) == 1
    assert grouped.texts(".hit h3 a") == ["guide.md"]
    assert grouped.texts(".switch [aria-current]") == ["By document"]
    passages = grouped.all(".hit .passages a")
    assert len(passages) == 4
    assert {a.text_content() for a in passages} == {f"Bell {n}" for n in range(4)}
    for passage in passages:
        opened = await browser.get(passage.get("href").partition("#")[0])
        assert passage.text_content() in opened.text
        assert opened.all("mark.passage")
    (passages,) = [a for a in grouped.all(".switch a") if a.text_content() == "One by one"]
    assert form_of(passages.get("href")).request() == {"query": "bell rings", "mode": "keyword"}


async def test_a_search_without_results_shows_what_may_help(
    browser: Browser, admin: Caller, sign_in: SignIn, reader: Caller
) -> None:
    await admin.add("The bell rings", tags=["sea"])
    page = await browser.search("bell", tags="land", mode="keyword")
    wider = page.one(".nothing a.plain")
    assert wider.get("href") == "/console?query=bell"
    assert "(2 are set)" in page.text
    assert (await browser.get(wider.get("href"))).all(".hit")
    (write,) = [a for a in page.all(".nothing a") if a.text_content() == "write an entry"]
    form = await browser.get(write.get("href"))
    assert form.one("#field-title").get("value") == "bell"
    nothing = await sign_in(reader).search("zyzzyva", mode="keyword")
    assert "write an entry" not in nothing.text
    grouped = await browser.search("zyzzyva", group_by="asset", limit="5", similarity_threshold="0.99")
    assert "(1 is set)" in grouped.text
    assert not (await browser.search("bell")).all(".nothing")


async def test_the_number_of_results_reads_naturally(browser: Browser, admin: Caller) -> None:
    for number in range(12):
        await admin.add(f"Bell number {number}")
    page = await browser.search("bell", mode="keyword")
    assert page.texts("#answer h2[data-announce]") == ["1 to 10 of 12 results"]
    assert (await browser.search("bell", mode="keyword", limit="20")).texts("#answer h2[data-announce]") == [
        "12 results"
    ]
