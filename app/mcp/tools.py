"""The tools, each with the role that may use it; what they do is what HTTP does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types import ToolAnnotations
from pydantic import BaseModel

from app.auth.principal import Role
from app.composition.services import Services
from app.knowledge.entries.related import describe_related
from app.knowledge.search.query import SearchQuery
from app.knowledge.search.results import SearchResult
from app.mcp.answers import ToolAnswer, answer_search, to_json
from app.mcp.arguments import (
    BulkArguments,
    HybridSearchArguments,
    KbSearchArguments,
    NoArguments,
    RelatedArguments,
)
from app.mcp.models import AddedModel, search_output_schema
from app.mcp.related import answer_related
from app.mcp.schemas import input_schema, output_schema
from app.web.access import Caller
from app.web.bulk import write_entries
from app.web.models.administration import ModelChangeModel, NewModelChange, Stats
from app.web.models.entries import BulkResponse, NewEntry, RelatedResponse
from app.web.rendering import describe_change


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls a tool, and what it works with."""

    caller: Caller
    services: Services

    async def search(self, query: SearchQuery) -> SearchResult:
        """Search in the caller's tenant. Raises as KnowledgeSearchService.search does."""
        return await self.services.search.search(self.caller.tenant_id, query, subject=self.caller.subject)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as it is listed, and what it does. `fields` are its names for fields of the services, for errors."""

    name: str
    title: str
    description: str
    role: Role
    arguments: type[BaseModel]
    run: Callable[[Any, Call], Awaitable[ToolAnswer]]
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    annotations: ToolAnnotations
    fields: Mapping[str, str]


async def _search(arguments: KbSearchArguments, call: Call) -> ToolAnswer:
    query = arguments.to_query(call.services.search.defaults)
    return answer_search(await call.search(query), arguments.token_budget)


async def _hybrid_search(arguments: HybridSearchArguments, call: Call) -> ToolAnswer:
    return answer_search(await call.search(arguments.to_query()))


async def _related(arguments: RelatedArguments, call: Call) -> ToolAnswer:
    tenant_id = call.caller.tenant_id
    found = await call.services.related.related(tenant_id, arguments.entry_id, arguments.limit)
    return answer_related(found, to_json(describe_related(found)))


async def _add(arguments: NewEntry, call: Call) -> ToolAnswer:
    caller = call.caller
    entry, new = await call.services.entries.create(caller.tenant_id, arguments.given(), actor=caller.subject)
    status = "created" if new else "existing"
    said = "Stored as a new entry" if new else "The knowledge base has it already; its fields are up to date"
    text = f"{said}: id {entry.id}. Words find it at once; meaning: {entry.embedding_status}."
    return ToolAnswer(text, to_json({"status": status, "entry": entry}))


async def _import(arguments: BulkArguments, call: Call) -> ToolAnswer:
    results = await write_entries(arguments, call.caller, call.services)
    counts = {
        status: sum(result.status == status for result in results)
        for status in ("created", "updated", "unchanged", "failed")
    }
    lines = [", ".join(f"{count} {status}" for status, count in counts.items()) + "."]
    lines += [f"entry {result.index}: {result.error}" for result in results if result.error]
    return ToolAnswer("\n".join(lines), to_json({"results": results}))


async def _stats(_arguments: NoArguments, call: Call) -> ToolAnswer:
    caller = call.caller
    stats = await call.services.administration.stats(caller.tenant_id, reader=caller.subject)
    structured = to_json(stats)
    return ToolAnswer("\n".join(f"{name}: {value}" for name, value in structured.items()), structured)


async def _rebuild(arguments: NewModelChange, call: Call) -> ToolAnswer:
    change = await call.services.reembedding.start(
        call.caller.tenant_id,
        provider=arguments.provider,
        name=arguments.model,
        dimensions=arguments.dimensions,
        rate=arguments.rate,
        switch_at_overlap=arguments.switch_at_overlap,
        actor=call.caller.subject,
    )
    text = (
        f"The vectors of {change.new.name} are made in the background: {change.entries - change.waiting} of"
        f" {change.entries} entries have theirs. Searches use {change.old.name} until the switch."
    )
    return ToolAnswer(text, to_json(describe_change(change)))


def _tool(
    name: str,
    title: str,
    description: str,
    role: Role,
    arguments: type[BaseModel],
    run: Callable[[Any, Call], Awaitable[ToolAnswer]],
    output: Mapping[str, Any],
    *,
    destructive: bool | None = None,
    fields: Mapping[str, str] | None = None,
) -> Tool:
    """`destructive` is None for a tool that only reads."""
    annotations = ToolAnnotations(
        title=title,
        read_only_hint=destructive is None,
        destructive_hint=bool(destructive),
        idempotent_hint=True,
        open_world_hint=False,
    )
    schema = input_schema(arguments)
    return Tool(
        name, title, description, role, arguments, run, schema, output, annotations, dict(fields or {})
    )


TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        _tool(
            "kb_search",
            "Search the knowledge base",
            "Find what the team knows: decisions, lessons, facts and passages of uploaded documents, by meaning and"
            " by words. Use it first, for any question that the team's own knowledge may answer. Each hit has its"
            " text, a score and a citation; the answer says when there is no strong match. Ask one thing at a time;"
            " if nothing fits, ask again in other words, or without filters.",
            Role.READER,
            KbSearchArguments,
            _search,
            search_output_schema(),
        ),
        _tool(
            "kb_get_related",
            "Read around an entry",
            "What belongs to an entry that a search found: its parent, its siblings (for a passage of a document"
            " those before and after it), entries that it was made from or that were made from it, and entries that"
            " share its tags. Use it when a hit is cut off or lacks its context.",
            Role.READER,
            RelatedArguments,
            _related,
            output_schema(RelatedResponse),
        ),
        _tool(
            "hybrid_search",
            "Search with chosen weights",
            "As kb_search without its filters, but you choose what meaning and exact words are worth, may bring a"
            " vector of your own, and get up to 100 hits. Use it when kb_search ranks badly: more weight for"
            " keyword where names, codes or quotations matter, more for semantic where wording may differ.",
            Role.READER,
            HybridSearchArguments,
            _hybrid_search,
            search_output_schema(),
            fields={"query": "query_text", "limit": "top_k"},
        ),
        _tool(
            "kb_add",
            "Add an entry",
            "Store one piece of knowledge that will be worth finding again: a fact, a decision with its reason, a"
            " lesson. One subject an entry, understandable by itself. The same external_id, else the same content,"
            " again changes the existing entry and makes no second one.",
            Role.CREATOR,
            NewEntry,
            _add,
            output_schema(AddedModel),
            destructive=True,
        ),
        _tool(
            "kb_bulk_import",
            "Add many entries",
            "Store 1 to 1,000 entries at once, each as kb_add takes it. One that is refused keeps none of the others"
            " from being stored; the answer has a result for each.",
            Role.CREATOR,
            BulkArguments,
            _import,
            output_schema(BulkResponse),
            destructive=True,
        ),
        _tool(
            "kb_stats",
            "Count what is there",
            "How many entries of each type and documents of each status there are, what waits for its vector, the"
            " embedding model, and the searches of the last day.",
            Role.TENANT_ADMIN,
            NoArguments,
            _stats,
            output_schema(Stats),
        ),
        _tool(
            "kb_rebuild_embeddings",
            "Rebuild all vectors with another model",
            "Move the knowledge base to another embedding model that its operator has registered: all vectors are"
            " made anew in the background while searches go on with the old ones. Called again, it shows how far"
            " that is. It costs one embedding of everything: only when asked to.",
            Role.TENANT_ADMIN,
            NewModelChange,
            _rebuild,
            output_schema(ModelChangeModel),
            destructive=False,
        ),
    )
}
"""By name, in the order in which they are listed."""
