"""The sections of the console, in the order of their navigation; a page belongs to one by the start of its path."""

from __future__ import annotations

READERS = (
    ("/console", "Search"),
    ("/console/entries", "Entries"),
    ("/console/assets", "Documents"),
    ("/console/saved-searches", "Saved searches"),
)
"""Address and name of each section that all roles of a tenant see."""

ADMINS = (
    ("/console/health", "Health"),
    ("/console/usage", "Usage"),
    ("/console/feedback", "Feedback"),
    ("/console/settings", "Settings"),
    ("/console/compare", "Compare"),
    ("/console/model", "Model"),
    ("/console/sources", "Sources"),
    ("/console/access", "Access"),
    ("/console/receipts", "Searches"),
    ("/console/audit", "Audit trail"),
)
"""The sections of a tenant's admin; readers find the comparison below the results of a search."""


def section_of(path: str) -> str:
    """The address of the section of a page: the first two parts of its path."""
    return "/".join(path.split("/")[:3])
