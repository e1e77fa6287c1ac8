"""Generate examples for the OpenAPI document from the schemas, with consistent values for known fields."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

REQUEST_ID = "5f2b6c1e8d3a4f70"
ID = "0199c5a2-7b1e-7d3f-8a41-6c0f5e2d9b17"
TIME = "2026-01-15T09:30:00Z"

# Values for fields of this name, in any model or in the one named before the dot. The first that the field's schema
# allows is used.
FIELDS: Mapping[str, tuple[Any, ...]] = {
    "action": ("entry.created",),
    "actor": ("ada",),
    "asset_id": (None, ID),
    "asset_name": (None,),
    "assets_by_status": ({"indexed": 31, "failed": 1},),
    "byte_size": (48213,),
    "chunk_index": (None,),
    "chunks": (12,),
    "comparison": (None,),
    "content": ("Routes in vercel.json are matched from top to bottom; the catch-all comes last.",),
    "cursor": (None,),
    "debug_info": (None,),
    "default_limit": (None,),
    "SearchMetadata.degraded": ([],),
    "detail": ({"fields": ["tags"]},),
    "dimensions": (384,),
    "embedding_status": ("ready",),
    "entries": (1250,),
    "entries_by_language": ({"english": 1100, "german": 150},),
    "entries_by_type": ({"fact": 800, "lesson": 50, "chunk": 400},),
    "entry_type": ("lesson",),
    "error": (None,),
    "exact": (True,),
    "expires_at": (None,),
    "external_id": (None, "handbook-7"),
    "fallback_rate_24h": (0.0,),
    "file": ("(the bytes of handbook.pdf)",),
    "index": (0,),
    "Weights.keyword": (0.3,),
    "keyword_score": (4.2,),
    "language": ("english",),
    "matched_terms": (["vercel.json", "routes"],),
    "max_limit": (None,),
    "media_type": ("application/pdf",),
    "metadata": ({"reviewed": True}, '{"reviewed": true}'),
    "model": ("all-MiniLM-L6-v2",),
    "Asset.name": ("handbook.pdf",),
    "ModelInfo.name": ("all-MiniLM-L6-v2",),
    "SourceStatus.name": ("handbook",),
    "name": ("Acme",),
    "next_cursor": (None,),
    "overlap_count": (None,),
    "parent_id": (None,),
    "pending_embeddings": (0,),
    "ModelChange.progress": (0.4,),
    "progress": (1.0,),
    "provider": ("local",),
    "query": ("how do I order routes in vercel.json",),
    "rate": (600,),
    "ready_at": (None,),
    "refused": (0,),
    "relationship_types": (["parent"],),
    "role": ("dev",),
    "roles": (["all"],),
    "search_modes_used": (["semantic", "keyword"],),
    "Weights.semantic": (0.7,),
    "similarity": (0.87,),
    "similarity_threshold": (0.3,),
    "slug": ("acme",),
    "snippet": ("Routes in vercel.json are matched from top to bottom; the catch-all comes last.",),
    "source_ids": ([],),
    "sources": (["semantic", "keyword"],),
    "status": ("ready", "indexed"),
    "subject_ids": ([ID],),
    "suggestions": ([],),
    "relaxations": ([],),
    "superseded_by_id": (None,),
    "switch_at_overlap": (0.9,),
    "switched_at": (None,),
    "tags": (["vercel", "routing"],),
    "title": ("Route order",),
    "type_weights": ({"lesson": 1.2},),
    "version": (1,),
}
_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class ExampleMaker:
    """Generates an example for any schema of a document with these components."""

    def __init__(self, components: Mapping[str, Schema]) -> None:
        self._components = components

    def of(self, schema: Schema, name: str, *, complete: bool = True) -> Any:
        """Generate an example of the field `name` or `Model.name`; unless `complete`, only with required fields."""
        schema = self._resolve(schema)
        short = name.rpartition(".")[2]
        qualified = FIELDS.get(name, ()) if name != short else ()
        for value in (*qualified, *schema.get("examples", ()), *FIELDS.get(short, ())):
            if self._allows(schema, value):
                return value
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][0]
        if schema.get("default") is not None:
            return schema["default"]
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            return self.of(choices[0], name, complete=complete)
        return self._of_type(schema, name, complete)

    def _of_type(self, schema: Schema, name: str, complete: bool) -> Any:
        match schema.get("type"):
            case "object":
                wanted = schema.get("properties", {}) if complete else schema.get("required", ())
                owner = schema.get("title", "")
                return {
                    field: self.of(schema["properties"][field], f"{owner}.{field}", complete=complete)
                    for field in wanted
                }
            case "array":
                return [self.of(schema.get("items", {}), name, complete=complete)]
            case "string":
                return {"uuid": ID, "date-time": TIME, "uri": "https://example.com/hook"}.get(
                    schema.get("format", ""), "text"
                )
            case "integer" | "number":
                return max(schema.get("minimum", 1), 1) if schema.get("maximum", 1) >= 1 else schema["maximum"]
            case "boolean":
                return False
        return {}

    def _allows(self, schema: Schema, value: Any) -> bool:
        """Whether the value has the schema's type; bounds are not checked."""
        schema = self._resolve(schema)
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            return any(self._allows(choice, value) for choice in choices)
        if "enum" in schema or "const" in schema:
            return value in schema.get("enum", [schema.get("const")])
        kind = schema.get("type")
        if kind is None:
            return True
        if kind == "array" and isinstance(value, list):
            return all(self._allows(schema.get("items", {}), item) for item in value)
        if kind == "object" and isinstance(value, dict):
            fields = schema.get("properties", {})
            inner = schema.get("additionalProperties", {})
            others = inner if isinstance(inner, dict) else {}
            return all(self._allows(fields.get(n, others), v) for n, v in value.items()) and (
                set(schema.get("required", ())) <= set(value)
            )
        return isinstance(value, _JSON_TYPES[kind]) and isinstance(value, bool) is (kind == "boolean")

    def _resolve(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self._components[schema["$ref"].rpartition("/")[2]]
        return schema
