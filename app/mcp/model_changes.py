"""The tool `kb_rebuild_embeddings`: actions on a model change, and its description for language models."""

from __future__ import annotations

from uuid import UUID

from app.errors import InvalidInput
from app.knowledge.reembedding.account import explain_change
from app.knowledge.reembedding.change import ModelChange
from app.knowledge.reembedding.service import ReembeddingService
from app.mcp.answers import ToolAnswer, to_json
from app.mcp.arguments import RebuildArguments
from app.web.rendering import describe_change

STATES = {
    "filling": "The vectors are being created",
    "ready": "The vectors are complete, and searches use the old model",
    "switched": "Searches use the new vectors",
    "dropping": "The change has ended, and the vectors that are not in use are being removed",
}


async def act_on_change(
    service: ReembeddingService, tenant_id: UUID, actor: str, arguments: RebuildArguments
) -> ModelChange:
    """Do what the arguments ask for. Raises as the service does, and InvalidInput."""
    if arguments.action != "start" and (extra := arguments.model_fields_set - {"action"}):
        raise InvalidInput.of(min(extra), "is allowed for the action start only")
    match arguments.action:
        case "status":
            return await service.status(tenant_id, reader=actor)
        case "switch" | "switch_back":
            return await service.switch(tenant_id, back=arguments.action == "switch_back", actor=actor)
        case "end":
            return await service.end(tenant_id, actor=actor)
        case "start":
            pass
    if not arguments.names_model:
        return await service.rebuild(tenant_id, terms=arguments.terms(), actor=actor)
    return await service.start(
        tenant_id,
        provider=arguments.provider,
        name=arguments.model,
        dimensions=arguments.dimensions,
        terms=arguments.terms(),
        actor=actor,
    )


def answer_change(change: ModelChange) -> ToolAnswer:
    """Describe a change in text and as structured output."""
    subject = f"Rebuild of {change.new.name}" if change.rebuild else f"{change.old.name} to {change.new.name}"
    done = f"{change.progress:.0%} of {change.entries} entries are done"
    lines = [f"{subject}: {change.state}. {STATES[change.state]}; {done}.", *explain_change(change)]
    return ToolAnswer("\n".join(lines), to_json(describe_change(change)))
