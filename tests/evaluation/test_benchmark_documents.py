"""The questions about real documents, and how the hits of a search are scored against them."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from pathlib import Path

import pytest

from app.composition.services import Services
from benchmarks.documents import measurement, packages
from benchmarks.documents.measurement import measure_collection
from benchmarks.documents.questions import COLLECTIONS, DocumentFile, Question, load_files
from benchmarks.documents.report import make_comparison, make_rows, read_scores, write_figures
from benchmarks.documents.scoring import METRICS, Found, score_hits
from tests.evaluation.samples import hide_progress

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
     ("A Firing", True), ("Fire", False)],
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
