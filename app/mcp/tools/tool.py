"""A tool: its listing, its required role, and its function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from mcp_types import ToolAnnotations

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.assets import Asset
from app.contract.entries import Entry
from app.contract.reading import ReadPart
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.mcp.answers.passages import Links, ToolAnswer
from app.mcp.schemas.flattening import admit_problem, input_schema
from app.web.access import Caller

Effect = Literal["reads", "adds", "changes"]
"""What a tool does to stored knowledge: nothing, adding only, or also changing and removing."""


@dataclass(frozen=True, slots=True)
class Call:
    """The caller of a tool, the services that it uses, and the links that its answer can have."""

    caller: Caller
    services: Services
    links: Links

    @property
    def tenant_id(self) -> UUID:
        """The caller's tenant."""
        return self.caller.tenant_id

    @property
    def subject(self) -> str:
        """The caller's name, for audit and receipts."""
        return self.caller.subject

    async def read_entry(self, entry_id: UUID) -> Entry:
        """An entry of the caller's tenant. Raises EntryNotFound, and Quarantined, whatever the caller's role."""
        return await self.services.entries.read(self.tenant_id, entry_id)

    async def read_document(
        self,
        asset_id: UUID,
        *,
        page: int | None = None,
        heading: str | None = None,
        start: int | None = None,
    ) -> tuple[Asset, ReadPart]:
        """A document of the caller's tenant and a part of its text. Raises as SectionReader.read does."""
        asset = await self.services.assets.get(self.tenant_id, asset_id)
        part = await self.services.sections.read(self.tenant_id, asset_id, page=page, heading=heading, start=start)
        return asset, part

    async def search(self, query: SearchQuery) -> SearchResult:
        """Search in the caller's tenant. Raises as KnowledgeSearchService.search does."""
        return await self.services.search.search(self.tenant_id, query, subject=self.subject)


Run = Callable[[Any, Call], Awaitable[ToolAnswer]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool with its listing and function.

    `fields` maps field names of the services to its own, for errors. `most_hits` is the largest page of its searches;
    None: that of the service for external callers.
    """

    name: str
    title: str
    description: str
    role: Role
    arguments: type
    run: Run
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    annotations: ToolAnnotations
    fields: Mapping[str, str]
    most_hits: int | None

    @property
    def reads(self) -> bool:
        """Whether the tool only reads, for readers: it then runs in its tenant's turn."""
        return self.role is Role.READER and self.annotations.read_only_hint is True


def make_tool(
    name: str,
    title: str,
    description: str,
    role: Role,
    arguments: type,
    run: Run,
    output: Mapping[str, Any],
    *,
    effect: Effect = "reads",
    idempotent: bool = True,
    fields: Mapping[str, str] | None = None,
    most_hits: int | None = None,
) -> Tool:
    """Make a tool; `idempotent` if a second call with the same arguments has no further effect."""
    annotations = ToolAnnotations(
        title=title,
        read_only_hint=effect == "reads",
        destructive_hint=effect == "changes",
        idempotent_hint=idempotent,
        open_world_hint=False,
    )
    schemas = input_schema(arguments), admit_problem(output)
    return Tool(name, title, description, role, arguments, run, *schemas, annotations, dict(fields or {}), most_hits)
