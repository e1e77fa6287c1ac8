"""The pages for operators, run as written: their commands run in order against real servers."""

import re
import shutil

import pytest

from tests.operation.pages import FOLDER, ROOT, make_script, open_place, read_blocks

PAGES = sorted(page.name for page in FOLDER.glob("*.md"))

PREPARATION = """
psql -q -d postgres -c 'create database knowledge'
deploy/roles.sh
knowledge migrate --service-role kb_service
knowledge tenant create acme
printf '%s\\n' '# Harbour' '' 'The harbour closes at dusk.' > harbour.md
knowledge ingest --tenant acme harbour.md
"""
"""The state before a page begins: a server with the service's database, and a tenant with a document."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="the pages are written for bash")
@pytest.mark.parametrize("page", PAGES)
def test_page_works_as_written(page: str) -> None:
    with open_place() as place:
        prepared = place.run("set -euo pipefail" + PREPARATION)
        assert prepared.returncode == 0, prepared.stderr
        answer = place.run(make_script(read_blocks(page)))
        assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr[-3000:]


def test_pages_cover_what_operators_need() -> None:
    assert len(PAGES) > 10
    assert all(map(read_blocks, PAGES))


@pytest.mark.parametrize("page", PAGES)
def test_settings_named_by_a_page_exist(page: str) -> None:
    known = set(re.findall(r"^#? ?([A-Z][A-Z0-9_]+)=", (ROOT / ".env.example").read_text("utf-8"), re.MULTILINE))
    text = (FOLDER / page).read_text("utf-8")
    named = set(re.findall(r"\b(?:KB|JWT|EMBEDDING|DATABASE|OPENAI|GEMINI)_[A-Z_]+[A-Z]\b", text))
    assert named <= known, named - known
