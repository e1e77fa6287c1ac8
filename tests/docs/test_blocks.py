"""Every block of code on every page does what the page shows, in order, as for a reader who pastes it."""

import pytest

from tests.docs.pages import OPERATIONS, PAGES, find_blocks, read_blocks
from tests.docs.reader import Reader

QUICK = ("docs/index.md", "docs/quick-start.md", "docs/ranking.md")
"""Followed in every run, with an empty tenant; the other pages need the sample knowledge and run with the slow tests.
"""

HOW_TO = "docs/how-to/"
"""Pages that bring all that they use; one of them is followed in every run."""

SAMPLE = "docs/how-to/completeness.md"

OTHERS = [page for page in PAGES if page not in QUICK and not page.startswith((OPERATIONS, HOW_TO))]
FROM_NOTHING = [
    pytest.param(page, marks=() if page == SAMPLE else pytest.mark.slow) for page in PAGES if page.startswith(HOW_TO)
]


@pytest.mark.parametrize("page", QUICK)
def test_quick_page_can_be_followed_from_top_to_bottom(page: str, reader: Reader) -> None:
    reader.read(find_blocks(page))


@pytest.mark.parametrize("page", FROM_NOTHING)
def test_how_to_page_can_be_followed_in_an_empty_folder(page: str, newcomer: Reader) -> None:
    assert list(newcomer.folder.iterdir()) == []
    newcomer.read(find_blocks(page))


@pytest.mark.slow
@pytest.mark.usefixtures("samples")
@pytest.mark.parametrize("page", OTHERS)
def test_page_can_be_followed_from_top_to_bottom(page: str, reader: Reader) -> None:
    reader.read(find_blocks(page))


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nfalse\n```",
        "```sh\ncurl -s http://127.0.0.1:8000/knowledge/entries\n```",
        "```python\nassert 1 == 2\n```",
        "```json\n{\n```",
        '<!-- schema: SearchRequest -->\n```json\n{"query": ""}\n```',
        "```python\nprint(1)\n```\n\n<!-- output: of the block above -->\n```text\n2\n```",
    ],
    ids=["a failing command", "a refused request", "an assertion", "broken json", "wrong json", "other output"],
)
def test_a_wrong_block_is_noticed(text: str, reader: Reader) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:\d"):
        reader.read(read_blocks("page.md", text))
