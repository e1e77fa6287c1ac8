"""Bodies of requests: of their fields, only those that the caller sent count."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

WHITE = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space as `str.strip` removes it, for patterns: what `\\s` means differs between languages."""

NOT_BLANK = Field(json_schema_extra={"pattern": f"[^{WHITE}]"})
"""Described only: a text of white space is empty after trimming."""


class RequestBody(BaseModel):
    """A body that refuses unknown fields, and whose schema has no defaults.

    Generated clients send the defaults of a schema. What a missing field means is in its description: it can depend on
    the tenant, and in a patch it is the stored value.
    """

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        for field in handler.resolve_ref_schema(schema).get("properties", {}).values():
            field.pop("default", None)
        return schema
