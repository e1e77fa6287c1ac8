"""Tools for the tenant's admin: statistics, and rebuilding vectors."""

import orjson

from app.auth.principal import Role
from app.contract.administration import Stats
from app.contract.models import ModelChange
from app.contract.validation import given_fields
from app.errors import InvalidInput
from app.mcp.answers.entries import answer_change
from app.mcp.answers.passages import ToolAnswer, to_json
from app.mcp.arguments import NoArguments, RebuildArguments
from app.mcp.schemas import output_schema
from app.mcp.tools.tool import Call, Tool


async def _stats(_arguments: NoArguments, call: Call) -> ToolAnswer:
    stats = await call.services.administration.stats(call.tenant_id, reader=call.subject)
    structured = to_json(stats)
    lines = [f"{name}: {orjson.dumps(value).decode()}" for name, value in structured.items()]
    return ToolAnswer("\n".join(lines), structured)


async def _rebuild(arguments: RebuildArguments, call: Call) -> ToolAnswer:
    service, tenant_id, actor = call.services.reembedding, call.tenant_id, call.subject
    if arguments.action != "start" and (extra := given_fields(arguments).keys() - {"action"}):
        raise InvalidInput.of(min(extra), "is allowed for the action start only")
    match arguments.action:
        case "status":
            change = await service.status(tenant_id, reader=actor)
        case "switch" | "switch_back":
            change = await service.switch(tenant_id, back=arguments.action == "switch_back", actor=actor)
        case "end":
            change = await service.end(tenant_id, actor=actor)
        case "start":
            change = await service.start(tenant_id, arguments, rebuild=not arguments.names_model, actor=actor)
    return answer_change(change)


TOOLS = (
    Tool(
        "kb_stats",
        "Get statistics",
        "Get the number of entries by type and of documents by status, the entries without a vector, the embedding"
        " model, and the searches of the last day.",
        Role.TENANT_ADMIN,
        NoArguments,
        _stats,
        output_schema(Stats),
    ),
    Tool(
        "kb_rebuild_embeddings",
        "Rebuild all vectors, or change the model",
        "Create all vectors again in the background. By default with the model in use; with provider, model or"
        " dimensions, move the knowledge base to another model that its operator has registered. Searches stay"
        " complete in the meantime. A move compares both models and switches by itself only if the evidence is"
        " good enough; otherwise it waits for the action 'switch'. Use the action 'status' to see the progress, the"
        " comparison and the decision. This embeds the whole knowledge base, which may be expensive: use it only"
        " on request.",
        Role.TENANT_ADMIN,
        RebuildArguments,
        _rebuild,
        output_schema(ModelChange),
        effect="changes",
        idempotent=False,
    ),
)
"""In the order of the listing."""
