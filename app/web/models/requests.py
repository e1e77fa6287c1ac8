"""Bodies of requests: of their fields, only those that the caller sent count."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


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
