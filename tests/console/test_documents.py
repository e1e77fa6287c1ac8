"""A document as it reads, part by part, with the passage of a hit."""

from __future__ import annotations

from uuid import UUID

from app.composition.services import Services
from app.knowledge.entries.inspection import DOCUMENT_PART, DocumentPart
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


async def test_a_document_is_shown_as_it_reads_with_the_passage_of_a_hit(
    browser: Browser, work: Work
) -> None:
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
