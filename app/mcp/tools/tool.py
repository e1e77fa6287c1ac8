"""A tool: its listing, its required role, and its function."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal
from uuid import UUID

from mcp_types import ToolAnnotations

from app.auth.principal import Role
from app.contract.assets import Asset
from app.contract.reading import ReadPart
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.mcp.answers.passages import Links, ToolAnswer
from app.mcp.schemas import admit_problem, input_schema
from app.web import access

Effect = Literal["reads", "adds", "changes"]
"""What a tool does to stored knowledge: nothing, adding only, or also changing and removing."""


@dataclass(frozen=True, slots=True)
class Call(access.Call):
    """A call of a tool, and the links that its answer can have."""

    links: Links

    async def read_document(
        self, asset_id: UUID, *, page: int | None = None, heading: str | None = None, start: int | None = None
    ) -> tuple[Asset, ReadPart]:
        """A document of the caller's tenant and a part of its text. Raises as ReadingService.read_part does."""
        asset = await self.services.assets.get(self.tenant_id, asset_id)
        part = await self.services.reading.read_part(self.tenant_id, asset_id, page=page, heading=heading, start=start)
        return asset, part

    async def search(self, query: SearchQuery) -> SearchResult:
        """Search in the caller's tenant. Raises as KnowledgeSearchService.search does."""
        return await self.services.search.search(self.tenant_id, query, subject=self.subject)


Run = Callable[[Any, Call], Awaitable[ToolAnswer]]


# Without slots: its schemas are cached.
@dataclass(frozen=True)
class Tool:
    """A tool with its listing and function.

    `output` is the schema of its result, and `idempotent` whether a second call with the same arguments has no further
    effect. `fields` maps field names of the services to its own, for errors. `most_hits` is the largest page of its
    searches; None: that of the service for external callers. `brief` has shorter schemas of some arguments.
    """

    name: str
    title: str
    description: str
    role: Role
    arguments: type
    run: Run
    output: Mapping[str, Any]
    effect: Effect = "reads"
    idempotent: bool = True
    fields: Mapping[str, str] = field(default_factory=dict)
    most_hits: int | None = None
    brief: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The schema of its arguments."""
        schema = input_schema(self.arguments)
        return schema | {"properties": schema["properties"] | self.brief}

    def name_arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by their own names: models confuse `id`, as hits have it, with `entry_id`."""
        known = self.input_schema["properties"]
        own = {name: other for name, other in (("id", "entry_id"), ("entry_id", "id")) if other in known}
        return {
            name if name in known or own.get(name, name) in given else own.get(name, name): value
            for name, value in given.items()
        }

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """The schema of its structured output."""
        return admit_problem(self.output)

    @property
    def annotations(self) -> ToolAnnotations:
        """What clients learn about its effect."""
        return ToolAnnotations(
            title=self.title,
            read_only_hint=self.effect == "reads",
            destructive_hint=self.effect == "changes",
            idempotent_hint=self.idempotent,
            open_world_hint=False,
        )

    @property
    def reads(self) -> bool:
        """Whether the tool is for readers and searches or reads: it then runs in its tenant's turn."""
        return self.role is Role.READER
