"""The pages themselves: languages, markers, links and navigation."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

from docs.links import FENCED, INCLUDED, find_anchors, include
from tests.docs.pages import DOCS, OPERATIONS, PAGES, ROOT, find_blocks

RUN = {"sh", "python", "json", "yaml", "text"}
LANGUAGES = RUN | {"sql", "ts", "ini"}
MOST_NOT_RUN = 17
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
REQUEST = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) ([^`\s?]+)[^`]*`")
UNDESCRIBED = {"GET /metrics"}
"""Requests that the OpenAPI document omits."""


class Loader(yaml.SafeLoader):
    """mkdocs.yml without the meaning of its tags."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


@pytest.fixture(scope="module")
def texts(generated_pages: Mapping[str, str]) -> dict[str, str]:
    """Every page of the site, generated pages included, by its path below `docs/`, with its inclusions resolved."""
    written = {str(path.relative_to(DOCS)): path.read_text("utf-8") for path in DOCS.rglob("*.md")}
    return {path: INCLUDED.sub(include, text) for path, text in {**written, **generated_pages}.items()}


def without_code(text: str) -> str:
    return FENCED.sub("", text)


def test_every_block_names_its_language_and_every_reason_is_given() -> None:
    blocks = [block for page in PAGES for block in find_blocks(page)]
    assert blocks
    assert not [block.place for block in blocks if block.language not in LANGUAGES]
    left_out = [block for block in blocks if block.marker == "not run"]
    assert not [block.place for block in left_out if len(block.remark) < 10]
    assert len(left_out) <= MOST_NOT_RUN
    # These are shown and never run, so they need a reason.
    others = [block for block in blocks if block.language not in RUN and not block.page.startswith(OPERATIONS)]
    assert not [block.place for block in others if block.marker != "not run"]


@pytest.mark.slow
def test_links_lead_to_existing_pages_and_headings(texts: dict[str, str]) -> None:
    broken = []
    for page, text in texts.items():
        for target in LINK.findall(without_code(text)) if page.endswith(".md") else ():
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = unquote(target).partition("#")
            place = (DOCS / page).parent.joinpath(path).resolve() if path else (DOCS / page).resolve()
            name = place.relative_to(DOCS).as_posix() if place.is_relative_to(DOCS) else ""
            if name not in texts or (anchor and anchor not in find_anchors(texts[name])):
                broken.append(f"{page}: {target}")
    assert broken == []


def test_requests_named_in_the_text_exist(texts: dict[str, str], document: dict[str, Any]) -> None:
    def name(method: str, path: str) -> str:
        return f"{method} {re.sub(r'{[^}]*}', '{}', path)}"

    known = {name(method.upper(), path) for path, item in document["paths"].items() for method in item} | UNDESCRIBED
    named = [
        (page, name(*found.groups()))
        for page, text in {**texts, "README.md": (ROOT / "README.md").read_text("utf-8")}.items()
        if page.endswith(".md")
        for found in REQUEST.finditer(without_code(text))
    ]
    assert len(named) > 20
    assert [(page, request) for page, request in named if request not in known] == []


def test_navigation_has_every_page_once(texts: dict[str, str]) -> None:
    def walk(part: Any) -> Iterator[str]:
        if isinstance(part, str):
            yield part
        else:
            for inner in part.values() if isinstance(part, dict) else part:
                yield from walk(inner)

    site = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Loader=Loader)  # noqa: S506
    shown = list(walk(site["nav"]))
    assert sorted(shown) == sorted(name for name in texts if name.endswith(".md"))


def test_every_page_starts_with_one_title(texts: dict[str, str]) -> None:
    for name, text in texts.items():
        if name.endswith(".md"):
            titles = re.findall(r"^# .+$", without_code(text), re.MULTILINE)
            assert len(titles) == 1, name


def test_changelog_names_the_newest_migration() -> None:
    newest = max(path.name[:4] for path in (ROOT / "alembic" / "versions").glob("[0-9]*.py"))
    assert newest in (ROOT / "CHANGELOG.md").read_text("utf-8")
