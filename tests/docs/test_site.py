"""The site: built without a warning, and self-contained."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

pytestmark = pytest.mark.slow
LOADED = re.compile(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]+)"|<link\b[^>]*\bhref="([^"]+)"')
STYLED = re.compile(r"url\(['\"]?(https?:[^)'\"]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; any warning fails the build."""
    for name in ("mkdocs", "material", "mkdocstrings"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: make docs installs it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


def test_site_has_every_page_and_the_openapi_document(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        made = page.relative_to(DOCS).with_suffix("")
        assert (site / made / "index.html").is_file() or made.name == "index"
    for path in ("index.html", "reference/http/index.html", "reference/openapi.json"):
        assert (site / path).is_file()
    assert not list(site.rglob("*.py"))


def test_site_loads_nothing_from_other_hosts(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert pages
    for page in pages:
        for source, link in LOADED.findall(page.read_text("utf-8")):
            assert not re.match(r"https?:|//", source or link), f"{page.relative_to(site)}: {source or link}"
    for style in site.rglob("*.css"):
        assert STYLED.findall(style.read_text("utf-8")) == [], style.name


def test_pictures_are_part_of_their_pages(site: Path) -> None:
    included = [page for page in DOCS.rglob("*.md") if "pictures/" in page.read_text("utf-8")]
    for page in included:
        text = (site / page.relative_to(DOCS).with_suffix("") / "index.html").read_text("utf-8")
        assert text.count('<svg class="kb-picture"') == page.read_text("utf-8").count('--8<-- "pictures/')
    named = {name for page in included for name in re.findall(r"pictures/(\w+\.svg)", page.read_text("utf-8"))}
    assert named == {picture.name for picture in (DOCS / "pictures").glob("*.svg")}
