"""Tools that store, change and delete entries."""

from app.auth.principal import Role
from app.contract.entries import MAX_BULK, BulkRequest, BulkResponse, NewEntry
from app.contract.reading import AddedEntry, DeletedEntry, EntryState
from app.mcp.answers.entries import describe_state, show_written
from app.mcp.answers.passages import ToolAnswer, to_json
from app.mcp.arguments import DeleteArguments, UpdateArguments
from app.mcp.schemas import input_schema, output_schema
from app.mcp.tools.tool import Call, Tool


async def _add(arguments: NewEntry, call: Call) -> ToolAnswer:
    entry, new = await call.services.entries.create(call.tenant_id, arguments, actor=call.subject)
    said = "Stored as a new entry" if new else "The entry existed already and has the given fields now"
    text = f"{said}: id {entry.id}. {describe_state(entry)}"
    return ToolAnswer(text, to_json(AddedEntry("created" if new else "existing", show_written(entry))))


async def _import(arguments: BulkRequest, call: Call) -> ToolAnswer:
    results = await call.services.entries.create_many(call.tenant_id, arguments.entries, actor=call.subject)
    counts = {
        status: sum(result.status == status for result in results)
        for status in ("created", "updated", "unchanged", "failed")
    }
    lines = [", ".join(f"{count} {status}" for status, count in counts.items()) + "."]
    lines += [f"entry {result.index}: {result.error}" for result in results if result.error]
    return ToolAnswer("\n".join(lines), to_json(BulkResponse(results)))


async def _update(arguments: UpdateArguments, call: Call) -> ToolAnswer:
    versions = None if arguments.version is None else {arguments.version}
    entry = await call.services.entries.change(
        call.tenant_id, arguments.entry_id, arguments, if_version=versions, actor=call.subject
    )
    text = f"The entry has the given fields now: id {entry.id}, version {entry.version}."
    return ToolAnswer(f"{text} {describe_state(entry)}", to_json(show_written(entry)))


async def _delete(arguments: DeleteArguments, call: Call) -> ToolAnswer:
    versions = None if arguments.version is None else {arguments.version}
    entry_id = arguments.entry_id
    named_by = await call.services.entries.delete(call.tenant_id, entry_id, if_version=versions, actor=call.subject)
    text = f"The entry {entry_id} is deleted."
    if named_by:
        text += f" These entries still name it in source_ids: {', '.join(map(str, named_by))}. Check and correct them."
    return ToolAnswer(text, to_json(DeletedEntry(entry_id, named_by)))


_NEW, _CHANGED = (input_schema(model)["properties"] for model in (NewEntry, UpdateArguments))
_UNDESCRIBED = {
    name: {key: value for key, value in schema.items() if key != "description"}
    for name, schema in _CHANGED.items()
    if name in _NEW
}
"""The fields of an entry for kb_update, which kb_add describes."""

TOOLS = (
    Tool(
        "kb_add",
        "Add an entry",
        "Store one piece of knowledge for later: a fact, a decision with its reason, a lesson. Write one"
        " self-contained entry per subject. If an entry with the same external_id, or without one the same"
        " content, exists, it is updated and no second entry is created. All readers of the tenant may read a new"
        " entry, unless `readers` names groups and users. If it repeats what you read in an entry with `readers`, give"
        " it the same.",
        Role.CREATOR,
        NewEntry,
        _add,
        output_schema(AddedEntry),
        effect="changes",
    ),
    Tool(
        "kb_bulk_import",
        "Add many entries",
        "Store 1 to 1,000 entries in one call, each in the form that kb_add accepts. If one is refused, the others"
        " are still stored; the result lists the outcome of each.",
        Role.CREATOR,
        BulkRequest,
        _import,
        output_schema(BulkResponse),
        effect="changes",
        brief={"entries": {"type": "array", "minItems": 1, "maxItems": MAX_BULK, "items": {"type": "object"}}},
    ),
    Tool(
        "kb_update",
        "Change an entry",
        "Change the given fields of an entry, as kb_add describes them; omitted fields are unchanged, and null clears"
        " one that can be null. To replace outdated knowledge and keep its"
        " history, add a new entry and set `superseded_by_id` of the old one instead. Read the entry with kb_get"
        " first, and send its `version`, so that you do not overwrite a change of someone else. An entry with"
        " `writers` is changed and deleted only by them.",
        Role.CREATOR,
        UpdateArguments,
        _update,
        output_schema(EntryState),
        effect="changes",
        brief=_UNDESCRIBED,
    ),
    Tool(
        "kb_delete",
        "Delete an entry",
        "Delete an entry permanently. Passages of documents cannot be deleted one by one. Use this tool only on"
        " request; for outdated knowledge, set `superseded_by_id` with kb_update instead. The result lists the entries"
        " that name it in `source_ids`: what they say may have lost its ground.",
        Role.CREATOR,
        DeleteArguments,
        _delete,
        output_schema(DeletedEntry),
        effect="changes",
    ),
)
"""In the order of the listing."""
