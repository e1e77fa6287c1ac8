"""Cut documents into chunks that fit a model's input: at sections, tables and pages, then at pauses."""

from app.documents.chunking.chunks import MAX_HEADINGS, Chunk, split, split_text

__all__ = ["MAX_HEADINGS", "Chunk", "split", "split_text"]
