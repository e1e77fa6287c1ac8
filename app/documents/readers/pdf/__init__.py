"""PDF: what a person sees on its pages, as text in reading order."""

from app.documents.readers.pdf.lines import join_hyphenation
from app.documents.readers.pdf.reader import parse

__all__ = ["join_hyphenation", "parse"]
