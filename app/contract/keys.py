"""API keys: bearer tokens that a tenant's admin creates for programs, where no identity provider issues tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, Field, Strict, WithJsonSchema

from app.contract.administration import check_end
from app.contract.fields import MAX_GROUP_CHARACTERS, MAX_PRINCIPALS, NAME_RULE, is_principal
from app.contract.validation import Described, Items, request, require

KeyRole = Literal["reader", "creator", "tenant_admin"]
"""A role that a key can have: a key acts in its tenant only."""

MAX_KEYS = 100
"""Most keys of a tenant; each process that a key calls keeps the tenant's keys in memory."""

MAX_KEY_NAME = 100


def _is_key_name(name: str) -> bool:
    return name.isprintable() and name == name.strip()


KeyName = Annotated[
    str,
    Field(min_length=1, max_length=MAX_KEY_NAME),
    require(_is_key_name, f"must be 1 to {MAX_KEY_NAME} printable characters without outer blanks"),
]
Group = Annotated[
    str,
    Strict(),
    require(lambda name: is_principal(f"group:{name}"), NAME_RULE),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_GROUP_CHARACTERS}),
]


@request(schema={"examples": [{"name": "nightly-import", "role": "creator"}]})
class NewKey:
    """A key to create."""

    name: KeyName
    """Unique in the tenant. The key acts as `key:NAME`, which audit trail, receipts and lists of readers show."""
    role: KeyRole
    groups: Annotated[Items[Group], Field(max_length=MAX_PRINCIPALS), AfterValidator(tuple)] = ()
    """Groups of the key, as those of a token."""
    expires_at: Annotated[AwareDatetime, AfterValidator(check_end)] | None = None
    """When the key expires; null: never."""


@dataclass(frozen=True, slots=True)
class ApiKey(Described):
    """A key, without its secret."""

    id: UUID
    name: str
    role: KeyRole
    groups: Sequence[str]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    """When a call used the key; recorded once a minute. Null: never."""


@dataclass(frozen=True, slots=True)
class ApiKeyWithSecret(ApiKey):
    """A new key with its secret."""

    key: Annotated[str, Field(examples=["kb_AZnFonse1z-KQWwPXi2bF3jZkP0n2m8v6c1t5q9w7e4r3y2u1i0o9p8a7s6d5f4g"])]
    """The bearer token. Only this answer has it: the service stores a hash."""
