"""Cuts documents into chunks that fit a model's input: by section, table and page, then where a reader pauses."""

from app.documents.chunking.chunks import MAX_HEADINGS, Chunk, split, split_text

__all__ = ["MAX_HEADINGS", "Chunk", "split", "split_text"]
