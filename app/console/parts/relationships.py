"""The words for relationships between entries, as shown to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from app.knowledge.vocabulary import Relationship

RELATIONSHIPS: Mapping[Relationship | Literal["superseded_by", "supersedes"], str] = {
    "parent": "Parent",
    "superseded_by": "Superseded by",
    "sibling": "Siblings",
    "child": "Children",
    "source": "Derived from",
    "derived": "Derived from it",
    "tag_overlap": "Shared tags",
    "supersedes": "Supersedes",
}
"""In the order in which pages show them."""
