"""The hook of mkdocs that adds the made pages to the site; nothing of them is kept in the repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docs.generation.pages import make_pages

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add every made page to the files of the site."""
    from mkdocs.structure.files import File

    for path, text in make_pages().items():
        files.append(File.generated(config, path, content=text))
    return files
