"""The sample knowledge follows the contract and shows what the service can do."""

import asyncio
import io
import re
from collections import Counter

import py3langid
import pytest
from docx import Document
from pypdf import PdfReader

from app.composition.services import build_services
from app.contract.administration import NewTenant
from app.contract.assets import Upload
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.schema.owner import register_model
from app.embeddings.providers.local import LocalProvider, load_minilm
from app.evaluation.evaluation import finish_upkeep
from app.samples import QUERIES, SampleDocument, SampleEntry, SampleQuery, load_documents, load_entries

WRITABLE_TYPES = {"fact", "summary", "template", "decision", "lesson", "temp_note", "insight"}
WORD = re.compile(r"[\w.]+")


@pytest.fixture(scope="module")
def entries() -> list[SampleEntry]:
    return load_entries()


@pytest.fixture(scope="module")
def documents() -> dict[str, SampleDocument]:
    return {document.name.rsplit(".")[-1]: document for document in load_documents()}


def language_of(text: str) -> str:
    return next(str(language) for language, _ in py3langid.rank(text) if language in {"de", "en"})


def words_of(text: str) -> Counter[str]:
    return Counter(word.strip(".").lower() for word in WORD.findall(text))


def test_entries_are_many_and_of_every_writable_type(entries: list[SampleEntry]) -> None:
    by_type = Counter(entry.entry_type for entry in entries)
    assert len(entries) >= 48
    assert set(by_type) == WRITABLE_TYPES
    assert min(by_type.values()) >= 3


def test_entries_have_unique_ids_and_unique_contents(entries: list[SampleEntry]) -> None:
    assert len({entry.external_id for entry in entries}) == len(entries)
    assert len({entry.content for entry in entries}) == len(entries)


def test_entries_refer_only_to_entries_before_them(entries: list[SampleEntry]) -> None:
    seen: set[str] = set()
    for entry in entries:
        references = {entry.parent, entry.superseded_by, *entry.sources} - {None}
        assert references <= seen, entry.external_id
        seen.add(entry.external_id)


def test_entries_show_hierarchy_sources_supersession_and_verification(entries: list[SampleEntry]) -> None:
    parents = Counter(entry.parent for entry in entries if entry.parent)
    assert max(parents.values()) >= 4
    assert any(entry.parent for entry in entries if entry.external_id in parents), "no third level"
    assert all(entry.sources for entry in entries if entry.entry_type == "insight")
    assert sum(1 for entry in entries if entry.superseded_by) >= 2
    assert 10 <= sum(entry.is_verified for entry in entries) < len(entries)
    assert len({entry.confidence for entry in entries}) >= 5
    assert {role for entry in entries for role in entry.roles} == {"pm", "dev", "qa", "all"}


def test_entries_share_tags_so_that_related_ones_are_found(entries: list[SampleEntry]) -> None:
    lonely = [
        entry.external_id
        for entry in entries
        if not any(len({*entry.tags} & {*other.tags}) >= 2 for other in entries if other is not entry)
    ]
    assert len(lonely) <= len(entries) // 4, lonely


def test_entries_are_in_english_and_german(entries: list[SampleEntry]) -> None:
    prose = [f"{entry.title}. {entry.content}" for entry in entries]
    languages = Counter(language_of(text) for text in prose)
    assert languages["de"] >= 12
    assert languages["en"] >= 30
    for text in prose:
        german_words = words_of(text).keys() & {"der", "die", "das", "und", "wird", "nicht", "eine", "den"}
        assert (language_of(text) == "de") == (len(german_words) >= 2), text


def test_entries_contain_identifiers_to_search_for(entries: list[SampleEntry]) -> None:
    everything = "\n".join(f"{entry.title}\n{entry.content}" for entry in entries)
    for identifier in ("KNOW-004", "ERR_CONN_RESET", "ERR_TARIFF_GAP", "KM-4031", "vercel.json", "3.8.1"):
        assert identifier in everything


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.expected)
def test_query_shares_more_words_with_its_expected_entry_than_most(
    query: SampleQuery, entries: list[SampleEntry]
) -> None:
    wanted = words_of(query.text).keys()
    texts = {entry.external_id: words_of(f"{entry.title} {entry.content}") for entry in entries}
    spread = Counter(word for text in texts.values() for word in text)
    weight = {key: sum(1 / spread[word] for word in wanted & text.keys()) for key, text in texts.items()}
    assert query.expected in sorted(weight, key=lambda key: -weight[key])[:5]
    assert not any(entry.superseded_by for entry in entries if entry.external_id == query.expected)
    assert "'" not in query.text, "the curl line quotes the request with apostrophes"


def test_queries_are_in_english_and_german() -> None:
    assert len(QUERIES) >= 3
    assert {language_of(query.text) for query in QUERIES} == {"en", "de"}


def test_documents_follow_the_contract(documents: dict[str, SampleDocument]) -> None:
    assert set(documents) == {"pdf", "md", "html", "docx"}
    assert len({document.external_id for document in documents.values()}) == len(documents)
    for document in documents.values():
        assert 1_000 < len(document.read()) < 60_000
        assert document.tags
        assert set(document.roles) <= {"pm", "dev", "qa", "all"}


def test_pdf_has_readable_text_on_every_page(documents: dict[str, SampleDocument]) -> None:
    pages = [page.extract_text() for page in PdfReader(io.BytesIO(documents["pdf"].read())).pages]
    assert len(pages) >= 3
    assert all(len(page) > 800 for page in pages)
    assert "The first fifteen minutes" in pages[1]
    assert "within 72 hours" in pages[2]
    assert language_of("\n".join(pages)) == "en"


def test_markdown_is_german_and_has_sections(documents: dict[str, SampleDocument]) -> None:
    text = documents["md"].read().decode("utf-8")
    assert language_of(text) == "de"
    assert len(re.findall(r"^##+ ", text, re.MULTILINE)) >= 8
    assert len(text.split()) >= 700


def test_html_is_english_and_declares_its_language(documents: dict[str, SampleDocument]) -> None:
    text = documents["html"].read().decode("utf-8")
    assert text.startswith("<!doctype html>")
    assert '<html lang="en">' in text
    assert re.findall(r"<title>(.*)</title>", text) == re.findall(r"<h1>(.*)</h1>", text) != []
    assert language_of(re.sub(r"<[^>]*>", " ", text)) == "en"
    assert "KM-4031" in text


def test_docx_has_headings_and_a_table(documents: dict[str, SampleDocument]) -> None:
    document = Document(io.BytesIO(documents["docx"].read()))
    headings = [p for p in document.paragraphs if p.style is not None and str(p.style.name).startswith("Heading")]
    assert len(headings) >= 5
    assert "Gates and hardware" in {row.cells[0].text for row in document.tables[0].rows}


SECTIONS = {
    "When should I open an incident, and what is one?": ("Before anything happens", 1),
    "How do I prepare before my rotation on call begins?": ("Before anything happens", 1),
    "How quickly must a SEV2 be acknowledged?": ("Severity", 1),
    "Who writes the updates, and who must not touch a keyboard?": ("Roles", 1),
    "What are the first steps after I acknowledge the page?": ("The first fifteen minutes", 2),
    "Calls of the API get a web page instead of JSON": ("The API answers with HTML", 2),
    "connections are reset after a while": ("Many ERR_CONN_RESET errors", 2),
    "Bookings wait for their payment although the skippers have paid": ("Payments are pending", 2),
    "the barriers on the pontoons stay closed": ("Gates do not open", 2),
    "What may we promise to the harbour offices?": ("Talking to customers", 3),
    "How soon must the authority hear that personal data leaked?": ("Talking to customers", 3),
    "Who may begin work at noon after a night on duty?": ("When it is over", 3),
    "How many actions come out of a review?": ("The review", 3),
    "How often do we break things on purpose?": ("Exercises", 3),
    "When do I ring the hotline of Paylane?": ("Appendix: numbers to call", 3),
}
"""Questions, the section that answers each, and its page."""


async def test_each_section_of_the_handbook_is_found_first_by_its_question(database: Database, admin_dsn: str) -> None:
    provider = LocalProvider(await asyncio.to_thread(load_minilm))
    await register_model(admin_dsn, provider.model)
    services = await build_services(database, provider)
    try:
        tenant = await services.tenants.create(NewTenant("handbook"), actor="test")
        (handbook,) = (document for document in load_documents() if document.name.endswith(".pdf"))
        await services.assets.upload(tenant.id, Upload(handbook.name, handbook.read()))
        await finish_upkeep(services, tenant.id)
        wrong = []
        for question, (section, page) in SECTIONS.items():
            hits = list(await services.search.search(tenant.id, SearchQuery(query=question)))
            headings = hits[0].metadata.get("headings", []) if hits else []
            pages = range(hits[0].metadata["page"], hits[0].metadata.get("page_end", hits[0].metadata["page"]) + 1)
            if not any(heading.endswith(section) for heading in headings[-1:]) or page not in pages:
                wrong.append((question, headings, [hit.title for hit in hits[:3]]))
        assert wrong == []
    finally:
        await services.close()
        await provider.close()
