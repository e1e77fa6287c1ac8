"""A document as it reads, part by part, with the passage of a hit."""

from __future__ import annotations

import time
from uuid import UUID

from app.composition.services import Services
from app.console.document_text import read_marks
from app.knowledge.entries.reading import DOCUMENT_PART, DocumentPart
from tests.console.asset_pages import Work, upload
from tests.console.browser import Browser
from tests.fixtures.http.callers import Caller

DOCUMENT = """# Harbour

Boats enter from six.
They wait at the pier.

## Berths

| place | depth |
| --- | --- |
| north | 4 m |
| east | 3 m |

- ropes are new
- lamps burn

```
quay = 7
```
"""


async def test_a_document_is_shown_as_it_reads_with_the_passage_of_a_hit(browser: Browser, work: Work) -> None:
    address = (await upload(browser, "a.md", (DOCUMENT * 2).encode())).answer.headers["location"]
    await work()
    page = await browser.get(address)
    assert page.texts(".document h3") == ["Harbour", "Harbour"]
    assert page.texts(".document h4") == ["Berths", "Berths"]
    assert page.texts(".document p")[0] == "Boats enter from six. They wait at the pier."
    assert page.texts(".document pre")[0].strip() == "quay = 7"
    assert page.texts(".contents li") == ["Harbour", "Berths"] * 2
    target = page.all(".contents a")[3].get("href").rpartition("#")[2]
    assert page.one(f"#{target}").text_content() == "Berths"
    hit = (await browser.get("/console", {"query": "depth of the east berth"})).all(".hit a[href*='chunk=']")
    shown = await browser.get(hit[0].get("href").partition("#")[0])
    shown.one("#passage")
    assert shown.all(".document mark.passage, .document tr.passage")


async def test_the_parts_of_a_document_together_are_the_whole(
    browser: Browser, admin: Caller, api_services: Services, work: Work
) -> None:
    rows = "".join(f"| ship {n} | {n % 90} m |\n" for n in range(4_000))
    text = f"# Ships\n\n| name | length |\n| --- | --- |\n{rows}\n{'endless ' * 4_000}\n\n# Last\n\nEnd.\n"
    address = (await upload(browser, "a.md", text.encode())).answer.headers["location"]
    await work()
    asset = UUID(address.rpartition("/")[2])
    tenant_id, whole = admin.tenant_id, ""
    assert tenant_id is not None
    parts: list[DocumentPart] = []
    while not parts or len(parts) < parts[-1].count:
        part = await api_services.inspection.document_part(
            tenant_id, asset, (parts[-1].start + len(parts[-1].text)) if parts else 0
        )
        assert part is not None
        parts.append(part)
        assert part.start == len(whole)
        whole += part.text
    assert whole == (await admin.get(address.replace("/console", "/knowledge") + "/text")).text
    for start in (0, 25_000, 45_000, len(whole) - 1):
        found = await api_services.inspection.document_part(tenant_id, asset, start)
        assert found is not None
        assert found.start <= start < found.start + len(found.text)
    page = await browser.get(page_of(address, 1))
    assert page.texts(".document th") == ["name", "length"], "the header of a table that began before"


def page_of(address: str, number: int) -> str:
    return f"{address}?start={number * DOCUMENT_PART}"


MARKED = """---
title: Harbour **rules**
tags:
  - sea
  - night
---
# The *long* pier

Boats **wait _here_** and `run **now**`, not at <b>six</b>: see [the plan](javascript:alert(1)) of 2 * 3 * 4,
snake_case_name, \\*plain\\* and an open ** mark.

- ~~old~~ ropes

| place | **depth** |
| --- | --- |
| `north` | 4 m |
"""


async def test_marks_within_lines_of_markdown_are_styles_and_the_front_matter_is_a_table(
    browser: Browser, work: Work
) -> None:
    address = (await upload(browser, "a.md", MARKED.encode())).answer.headers["location"]
    await work()
    page = await browser.get(address)
    facts, depths = page.all(".document table")
    rows = [[cell.text_content() for cell in row.cssselect("td")] for row in facts.cssselect("tr")]
    assert rows == [["title", "Harbour **rules**"], ["tags", "- sea - night"]]
    assert page.texts(".document h3") == ["The long pier"]
    assert page.texts(".document h3 em") == ["long"]
    assert page.texts(".document p")[0] == (
        "Boats wait here and run **now**, not at <b>six</b>: see the plan of 2 * 3 * 4, snake_case_name, *plain* and an"
        " open ** mark."
    )
    assert page.texts(".document p strong") == ["wait"]
    assert page.texts(".document p em") == ["here"]
    assert page.texts(".document code") == ["run **now**"]
    assert page.texts(".document li del") == ["old"]
    assert not page.all(".document b, .document a, .document p strong *")
    assert [cell.text_content() for cell in depths.cssselect("th, td")] == ["place", "depth", "north", "4 m"]


async def test_marks_of_other_files_stay(browser: Browser, work: Work) -> None:
    address = (await upload(browser, "a.txt", b"---\na: 1\n---\nTwo **stars** stay.")).answer.headers["location"]
    await work()
    page = await browser.get(address)
    assert "Two **stars** stay." in page.text
    assert not page.all(".document strong, .document table")


def test_marks_without_an_end_take_linear_time() -> None:
    for text in ("**a " * 20_000, "[" * 50_000, "`" * 50_000, "*a" * 30_000, "~~x" * 20_000, "_a " * 20_000):
        began = time.perf_counter()
        shown = "".join(text[span.start : span.end] for span in read_marks(text))
        assert time.perf_counter() - began < 5
        assert len(shown) <= len(text)
