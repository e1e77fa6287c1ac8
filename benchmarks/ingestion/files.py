"""Files to ingest: Markdown from the benchmark's texts, and Word files that are mostly pictures."""

import io
import random
import zipfile
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from app.evaluation.collection import Document
from benchmarks.texts import read_texts, vary_text

ORIGINALS = 2_000
SECTION = 6
"""Paragraphs under one heading."""

MARKDOWN_BYTES = 1_000_000
PICTURES_BYTES = 16_000_000
PROSE_BYTES = 100_000
"""Bytes of text in a Word file."""

MARKDOWN_SHARE = 8
"""In a mixed set, an eighth of the bytes is Markdown; the rest is Word files with pictures."""

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


class FileMaker:
    """Creates files that differ from each other; the same seed gives the same files."""

    def __init__(self, seed: int = 0, originals: Sequence[Document] | None = None) -> None:
        self._originals = originals or read_texts(ORIGINALS)
        self._generator = random.Random(seed)

    def make_markdown(self, size: int) -> bytes:
        """A document of at least `size` bytes, at most a paragraph longer, with a title and sections."""
        lines = [f"# Document {self._generator.randrange(10**9)}"]
        for number, paragraph in enumerate(self._make_paragraphs(size)):
            if number % SECTION == 0:
                lines.append(f"## Section {number // SECTION + 1}")
            lines.append(paragraph)
        return "\n\n".join(lines).encode()

    def make_word_file(self, prose: int, pictures: int) -> bytes:
        """A DOCX with `prose` bytes of text and a picture of `pictures` bytes."""
        body = "".join(
            f"<w:p><w:r><w:t>{escape(paragraph)}</w:t></w:r></w:p>" for paragraph in self._make_paragraphs(prose)
        )
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(
                "word/document.xml",
                f'<?xml version="1.0"?><w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>',
                zipfile.ZIP_DEFLATED,
            )
            archive.writestr("word/media/image1.png", self._generator.randbytes(pictures))
        return out.getvalue()

    def make_mixture(
        self, total: int, *, markdown: int = MARKDOWN_BYTES, pictures: int = PICTURES_BYTES
    ) -> Iterator[tuple[str, bytes]]:
        """Names and contents of files of at least `total` bytes together, in which the two kinds alternate.

        `markdown` is the size of a Markdown file, `pictures` the size of the picture in a Word file.
        """
        made = {"md": 0, "docx": 0}
        number = 0
        while sum(made.values()) < total:
            if made["md"] * MARKDOWN_SHARE <= sum(made.values()):
                kind, data = "md", self.make_markdown(markdown)
            else:
                kind, data = "docx", self.make_word_file(PROSE_BYTES, pictures)
            made[kind] += len(data)
            yield f"file-{number}.{kind}", data
            number += 1

    def _make_paragraphs(self, size: int) -> Iterator[str]:
        made = 0
        while made < size:
            original, other = self._generator.sample(self._originals, 2)
            paragraph = vary_text(original, other, self._generator)
            made += len(paragraph.encode()) + 2
            yield paragraph
