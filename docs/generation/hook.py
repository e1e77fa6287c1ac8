"""The mkdocs hook that adds the generated pages to the site; the repository does not contain them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docs.generation.pages import make_pages

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add every generated page to the files of the site."""
    from mkdocs.structure.files import File

    for path, text in make_pages().items():
        files.append(File.generated(config, path, content=text))
    return files
