"""The first page before a search: what is new, saved searches, questions to try, how to add knowledge."""

from __future__ import annotations

from app.console.start import QUESTIONS
from tests.console.asset_pages import Work, upload
from tests.console.browser import Browser
from tests.console.conftest import SignIn
from tests.fixtures.http.callers import Caller

GUIDE = "# Guide\n\n## How do boats moor?\n\n" + "With ropes that the crew throws. " * 60


async def test_the_first_page_shows_what_is_new_and_what_to_ask(browser: Browser, admin: Caller, work: Work) -> None:
    await admin.add("The bell rings at noon", title="When the bell rings")
    await admin.add("Nothing to ask", title="Bells")
    await admin.add("It ended", title="An entry that is over", expires_at="2020-01-01T00:00:00Z")
    await upload(browser, "guide.md", GUIDE.encode())
    await work()
    page = await browser.get("/console")
    assert page.status == 200
    assert page.texts(".start .tag") == ["How do boats moor?", "When the bell rings"]
    titles = page.texts("#news-heading + ul a")
    assert set(titles) == {"guide.md", "Bells", "When the bell rings"}
    for link in page.all(".start a"):
        assert (await browser.get(link.get("href"))).status == 200
    question = await browser.get(page.all(".start .tag")[0].get("href"))
    assert question.one("#hit-1 h3 a").text_content() == "How do boats moor?"


async def test_questions_are_few_and_come_from_several_documents(browser: Browser, work: Work) -> None:
    for name in ("boats", "lamps"):
        text = "".join(f"## The {name} of berth {n}\n\n" + f"There are {n} {name}. " * 60 + "\n\n" for n in range(9))
        await upload(browser, f"{name}.md", text.encode())
    await work()
    found = (await browser.get("/console")).texts(".start .tag")
    assert len(found) == len(set(found)) == QUESTIONS
    assert sum("boats" in question for question in found) == QUESTIONS / 2


async def test_a_long_document_leaves_room_for_questions_of_others(browser: Browser, admin: Caller, work: Work) -> None:
    await admin.add("The bell rings at noon", title="When the bell rings")
    await upload(browser, "boats.md", b"# Boats\n\n## 4.2 Where boats moor\n\nAt the quay.")
    await work()
    text = "".join(f"## {n}. Lamp of berth {n}\n\n" + f"Lamp {n} is red. " * 60 + "\n\n" for n in range(40))
    await upload(browser, "lamps.md", text.encode())
    await work()
    found = (await browser.get("/console")).texts(".start .tag")
    assert {"When the bell rings", "Where boats moor"} < set(found)
    assert "Lamp of berth 39" in found, "without the number of its section"


async def test_a_title_that_begins_with_a_number_keeps_it(browser: Browser, admin: Caller) -> None:
    await admin.add("Of twelve hours each", title="3 shifts at the lock")
    await admin.add("It is new", title="2.0 is the new tide table")
    found = (await browser.get("/console")).texts(".start .tag")
    assert set(found) == {"3 shifts at the lock", "2.0 is the new tide table"}


async def test_indexes_and_the_like_are_not_questions(browser: Browser, work: Work) -> None:
    headings = (
        *("Concept Index", "B.5 Function Index", "Appendix D Indexes", "Index of Shell Builtin Commands"),
        *("Table of Contents", "List of Figures", "GNU Free Documentation License", "Copying This Manual"),
        *("See Also", "About this manual", "How the index is built", "List of boats at berth 7, by name"),
    )
    text = "".join(f"## {heading}\n\n" + f"It tells of {n}. " * 80 + "\n\n" for n, heading in enumerate(headings))
    await upload(browser, "manual.md", text.encode())
    await work()
    found = (await browser.get("/console")).texts(".start .tag")
    assert set(found) == {"How the index is built", "List of boats at berth 7, by name"}


async def test_saved_searches_are_the_visitors_own(
    browser: Browser, sign_in: SignIn, admin: Caller, reader: Caller
) -> None:
    await admin.add("The bell")
    saved = {"name": "Bells at sea", "request": {"query": "bell"}}
    assert (await admin.post("/knowledge/saved-searches", saved)).status_code == 201
    assert (await browser.get("/console")).texts("#saved-heading + ul a") == ["Bells at sea"]
    assert not (await sign_in(reader).get("/console")).all("#saved-heading")


async def test_only_writers_are_told_where_to_add(browser: Browser, sign_in: SignIn, reader: Caller) -> None:
    page = await browser.get("/console")
    assert page.texts("#adding-heading") == ["There is nothing to find yet"]
    assert {a.get("href") for a in page.all(".start a")} == {"/console/assets", "/console/entries/new"}
    assert not (await sign_in(reader).get("/console")).all(".start a")


async def test_another_tenants_knowledge_is_not_shown(browser: Browser, stranger: Caller) -> None:
    await stranger.add("Foreign", title="A canary in the mine")
    assert "canary" not in (await browser.get("/console")).text
