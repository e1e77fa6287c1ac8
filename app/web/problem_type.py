"""What a type of problem is, and the path of its page."""

from __future__ import annotations

from dataclasses import dataclass

from app import errors

PATH = "/problems"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A kind of problem that programs can tell from the others; `error` is the class that it renders, if any."""

    name: str
    status: int
    meaning: str
    remedy: str
    error: type[errors.KnowledgeError] | None = None

    @property
    def uri(self) -> str:
        """The problem's `type`: a reference to the page about it."""
        return f"{PATH}/{self.name}"
