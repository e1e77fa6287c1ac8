"""The benchmarks of documents and of ingestion."""

import gzip
import io
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.db.statements import parse_statement
from app.documents.formats import detect_format
from app.evaluation.collection import Document
from app.knowledge.ingestion.pipeline import ChunkSize
from benchmarks.documents import measurement, packages
from benchmarks.documents.measurement import measure_collection
from benchmarks.documents.questions import COLLECTIONS, DocumentFile, Question, load_files
from benchmarks.documents.report import make_comparison, make_rows, read_scores, write_figures
from benchmarks.documents.scoring import METRICS, Found, score_hits
from benchmarks.ingestion.ceilings import embed_alone, insert_alone, prepare_file
from benchmarks.ingestion.files import MARKDOWN_SHARE, FileMaker
from benchmarks.ingestion.growth import Growth
from benchmarks.ingestion.line import IngestionFailed, Line, name_files
from benchmarks.ingestion.results import Throughput
from tests.evaluation.samples import hide_progress
from tests.fixtures.providers.failing import FailingProvider

ASKED = Question("How hot is a kiln?", frozenset({3}), ["Firing"])
FILE = DocumentFile("pottery", "Markdown", "pottery-doc", "usr/share/doc/pottery.md", 60, [
    Question("How hot is a kiln?", frozenset(), ["Firing"]),
    Question("Where is clay dug?", frozenset(), ["Clay"]),
])  # fmt: skip
TEXT = "# Firing\n\nA kiln is hot: 1,200 degrees.\n\n# Clay\n\nClay is dug.\n"


def found(file: str, page: int, end: int | None = None, *headings: str, title: str | None = None) -> Found:
    place = {"page": page} | ({"page_end": end} if end else {}) | ({"headings": headings} if headings else {})
    return Found(file, title, place)


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_each_file_has_five_questions_with_places_in_it(collection: str) -> None:
    files = load_files(collection)
    assert len({file.name for file in files}) == len(files) >= 5
    assert len({file.layout for file in files}) == len(files)
    for file in files:
        assert len({question.text for question in file.questions}) == len(file.questions) >= 5
        assert file.path.startswith("usr/")
        assert not re.search(r"\d\.\d", file.path.removesuffix("fhs-3.0.pdf.gz").removesuffix("manual_2.4.2.pdf.gz"))
        for question in file.questions:
            assert question.headings
            assert all(1 <= page <= file.size for page in question.pages)
            assert bool(question.pages) == (collection == "pdf")


def test_there_are_many_layouts_and_a_large_file_of_pages() -> None:
    files = load_files("pdf")
    assert len(files) >= 12
    assert max(file.size for file in files) > 300
    assert sum(len(file.questions) for file in files) >= 100


def test_a_hit_is_right_on_a_page_of_the_answer_in_the_right_file() -> None:
    hits = [found("other", 3), found("pottery", 1), found("pottery", 2, 4, "2 Firing")]
    assert score_hits(ASKED, "pottery", hits) == {
        "hit@1": 0, "hit@3": 1, "MRR@10": pytest.approx(1 / 3), "page": 0, "heading": 0,
    }  # fmt: skip
    assert score_hits(ASKED, "pottery", hits[2:])["heading"] == 1
    assert set(score_hits(ASKED, "pottery", []).values()) == {0}


@pytest.mark.parametrize(
    ("heading", "under"),
    [("Firing", True), ("4.2 FIRING and cooling", True), ("Chapter 3. Firing", True), ("Misfiring", False),
     ("A Firing", True), ("Fire", False)]
)  # fmt: skip
def test_headings_are_compared_by_words_without_their_number(heading: str, under: bool) -> None:
    assert found("pottery", 1, None, "Top", heading).is_under(ASKED) is under
    assert found("pottery", 1, title=f"Pottery > {heading} > Below").is_under(ASKED) is under


async def test_a_collection_is_measured_in_a_tenant_of_its_own(
    services: Services, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fetch(file: DocumentFile) -> tuple[str, bytes]:
        if file is FILE:
            return "pottery.md", TEXT.encode()
        raise packages.Missing("the package glass-doc is not there")

    monkeypatch.setattr(measurement, "fetch_file", fetch)
    files = [FILE, replace(FILE, name="glass")]
    figures = await measure_collection(services, "html", files, hide_progress)
    assert figures.missing == {"glass": "the package glass-doc is not there"}
    assert [set(score) for score in figures.scores["pottery"]] == [set(METRICS)] * 2
    assert figures.chunks
    assert await services.tenants.list_tenants() == []
    assert [row[:3] for row in make_rows(figures)] == [("pottery", "Markdown", "2"), ("all", "", "2")]
    write_figures(tmp_path / "figures.json", {"html": figures})
    before = read_scores(tmp_path / "figures.json")["html"]
    assert make_comparison("html", before, figures.scores)[0][-1] == "+0.000 [+0.000, +0.000]"


def test_a_file_of_another_edition_is_not_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packages, "FETCHED", tmp_path)
    file = replace(FILE, path="usr/share/doc/pottery.md.gz", size=len(TEXT))
    folder = tmp_path / file.package / "usr/share/doc"
    folder.mkdir(parents=True)
    (folder / "pottery.md.gz").write_bytes(gzip.compress(TEXT.encode()))
    assert packages.fetch_file(file) == ("pottery.md", TEXT.encode())
    with pytest.raises(packages.Missing, match="another edition"):
        packages.fetch_file(replace(file, size=len(TEXT) * 2))


def test_a_machine_without_apt_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packages, "FETCHED", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(packages.Missing, match="apt-get and dpkg-deb are needed"):
        packages.fetch_file(FILE)


ORIGINALS = [
    Document(str(n), None, " ".join(f"Sentence {m} of text {n} is about boats & berths." for m in range(20)))
    for n in range(5)
]
ROWS = parse_statement(
    "rows",
    "select e.title, e.content, e.metadata, e.text_hash, e.language, k.passage, k.char_start, k.char_end, k.embedding"
    "  from entries e join embeddings k on k.tenant_id = e.tenant_id and k.entry_id = e.id"
    " where e.tenant_id = :tenant_id order by e.content, k.passage",
)


@pytest.fixture
def line(services: Services, tenant: Tenant) -> Line:
    return Line(services, tenant.id, 2, ChunkSize())


def test_files_are_reproducible_by_seed_and_differ_from_each_other() -> None:
    first, again = (FileMaker(1, ORIGINALS), FileMaker(1, ORIGINALS))
    files = [first.make_markdown(5_000) for _ in range(3)]
    assert files == [again.make_markdown(5_000) for _ in range(3)]
    assert len(set(files)) == 3
    assert all(5_000 <= len(data) < 7_000 for data in files)


def test_mixture_is_mostly_readable_word_files() -> None:
    maker = FileMaker(1, ORIGINALS)
    data = maker.make_word_file(2_000, 10_000)
    assert len(data) > 10_000
    assert detect_format(data, "a.docx").name == "docx"
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert b"boats &amp; berths" in archive.read("word/document.xml")
    sizes = {"md": 0, "docx": 0}
    for name, content in maker.make_mixture(8_000_000, markdown=50_000, pictures=400_000):
        sizes[name.rpartition(".")[2]] += len(content)
    assert 0.9 < sizes["md"] * MARKDOWN_SHARE / sum(sizes.values()) < 1.2


@pytest.mark.slow
async def test_bare_sql_stores_what_the_pipeline_stores(line: Line, services: Services, other_tenant: Tenant) -> None:
    maker = FileMaker(1, ORIGINALS)
    files = name_files([maker.make_markdown(20_000) for _ in range(2)])
    await line.accept(files)
    assert await line.finish() > 0
    prepared = [await prepare_file(line, *file) for file in files]
    assert await line.count_chunks() == sum(len(file.rows) for file in prepared) > 10
    bare = Line(services, other_tenant.id, 1, line.chunk_size)
    assert await insert_alone(bare, prepared) > 0
    rows = []
    for tenant_id in (line.tenant_id, bare.tenant_id):
        async with services.database.tenant_session(tenant_id) as session:
            rows.append([tuple(r) for r in await session.fetch(ROWS)])
    assert rows[0] == rows[1]


async def test_model_alone_embeds_the_texts_of_the_chunks(line: Line, failing_provider: FailingProvider) -> None:
    data = FileMaker(1, ORIGINALS).make_markdown(1_000)
    prepared = await prepare_file(line, "a.md", data)
    assert await embed_alone(line.services.provider, prepared.texts) >= 0
    assert failing_provider.documents == list(prepared.texts)


async def test_files_that_fail_end_the_measurement(line: Line) -> None:
    await line.accept([("broken.pdf", b"%PDF-1.4\nnothing more")])
    with pytest.raises(IngestionFailed, match="failed"):
        await line.finish()


@pytest.mark.slow
async def test_stream_ingests_every_file(line: Line) -> None:
    maker = FileMaker(1, ORIGINALS)
    files = name_files([maker.make_markdown(1_000) for _ in range(6)])
    await line.stream(iter(files))
    page = await line.services.assets.list_assets(line.tenant_id, limit=50)
    assert [asset.status for asset in page.items] == ["indexed"] * 6


def test_memory_and_rate_are_shares_of_the_whole() -> None:
    growth = Growth([(0.0, 0, 100 << 20), (1.0, 49, 150 << 20), (2.0, 100, 120 << 20)], 30 << 20)
    assert [held >> 20 for held in growth.by_tenth()] == [100, 150, 150, 150, 150] + [120] * 5
    assert Throughput("mock/x", 2, 1_000, 700, 2, 900.0, "SQL alone", (900.0, 1_100.0), 1_200.0, 90.0).share == 0.9
