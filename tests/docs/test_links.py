"""The check of links between the pages of the repository."""

from pathlib import Path

from docs.links import find_broken, main


def test_no_page_has_a_link_that_leads_nowhere() -> None:
    assert main() == 0


def test_missing_files_and_headings_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Other\n\n## A part of it\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n[1](other.md) [2](other.md#a-part-of-it) [3](#page) [4](https://example.org/x) [5](lost.md)"
        ' [6](other.md#lost) [7](#lost) <a href="gone.html">8</a>\n\n```text\n[9](code.md)\n```\n'
    )
    assert list(find_broken(page)) == ["lost.md", "other.md#lost", "#lost", "gone.html"]
