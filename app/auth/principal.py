"""The caller, its roles, and the claims of a token that name them; no cryptography here."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NoReturn
from uuid import UUID

from app.contract.fields import MAX_GROUP_CHARACTERS, MAX_GROUPS, MAX_SUBJECT_CHARACTERS, MAX_TOKEN_ID_CHARACTERS
from app.errors import Forbidden, InvalidInput, Unauthenticated


class Role(StrEnum):
    """A role of the service, as in a token's `roles`."""

    READER = "reader"
    CREATOR = "creator"
    TENANT_ADMIN = "tenant_admin"
    PLATFORM_ADMIN = "platform_admin"


_INCLUDES: dict[Role, frozenset[Role]] = {
    Role.READER: frozenset({Role.READER}),
    Role.CREATOR: frozenset({Role.CREATOR, Role.READER}),
    Role.TENANT_ADMIN: frozenset({Role.TENANT_ADMIN, Role.CREATOR, Role.READER}),
    Role.PLATFORM_ADMIN: frozenset({Role.PLATFORM_ADMIN}),
}


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller whose token was verified.

    A platform admin manages tenants and cannot read any tenant's knowledge: `platform_admin` together with other
    roles cancels them, so that no token can do both. Only a platform admin's `tenant_id` may be None. `token_id` is the
    token's `jti`, by which it can be revoked, and `groups` are those that the token names.
    """

    subject: str
    tenant_id: UUID | None
    roles: frozenset[Role]
    token_id: str | None = field(default=None, compare=False)
    groups: tuple[str, ...] = ()

    def has(self, role: Role) -> bool:
        """Whether one of the caller's roles is `role` or includes it."""
        if Role.PLATFORM_ADMIN in self.roles:
            return role is Role.PLATFORM_ADMIN
        return any(role in _INCLUDES[own] for own in self.roles)

    def require(self, role: Role) -> None:
        """Raise Forbidden unless the caller has `role`."""
        if not self.has(role):
            # The token may have the role, but platform_admin cancels it.
            platform = Role.PLATFORM_ADMIN in self.roles
            clause = f", in a token without {Role.PLATFORM_ADMIN.value}" if platform else ""
            raise Forbidden(f"this requires the role {role.value}{clause}")

    def require_tenant(self, role: Role) -> UUID:
        """The tenant in which the caller has `role`, one of the tenant roles. Raises Forbidden."""
        self.require(role)
        if self.tenant_id is None:
            raise Forbidden("this requires a tenant's token")
        return self.tenant_id


GROUPS_CLAIM = "groups"
"""The claim that most identity providers use for groups."""


_LATEST_TIME = 253_402_300_799
"""31 December 9999, the last second that a datetime can hold."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_ROLES = {role.value: role for role in Role}


def parse_object(data: bytes) -> dict[str, object]:
    """Read a JSON object strictly: UTF-8, no repeated keys, no NaN or Infinity. Raises Unauthenticated."""
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Unauthenticated("the token is malformed") from None
    if not isinstance(value, dict):
        raise Unauthenticated("the token is malformed")
    return value


def check_times(claims: Mapping[str, object], *, now: float, leeway: float) -> None:
    """Check `exp` (required), `nbf` and `iat`, all in seconds since 1970. Raises Unauthenticated."""
    if "exp" not in claims:
        raise Unauthenticated("the token has no exp")
    if _seconds(claims, "exp") <= now - leeway:
        raise Unauthenticated("the token has expired")
    for name in ("nbf", "iat"):
        if name in claims and _seconds(claims, name) > now + leeway:
            raise Unauthenticated("the token is not valid yet")


def check_parties(claims: Mapping[str, object], *, audience: str | None, issuer: str | None) -> None:
    """Check `aud` and `iss`. Raises Unauthenticated.

    A token that names an audience while none is configured is refused, as RFC 7519, section 4.1.3, demands:
    it is meant for another service. `iss` is checked only when an issuer is configured.
    """
    named = claims.get("aud")
    audiences = [named] if isinstance(named, str) else named
    if "aud" in claims and not (isinstance(audiences, list) and all(isinstance(a, str) for a in audiences)):
        raise Unauthenticated("the token's aud must be a string or a list of strings")
    if audience is None and "aud" in claims:
        raise Unauthenticated("the token is meant for another service: its aud is not accepted here")
    if audience is not None and (not isinstance(audiences, list) or audience not in audiences):
        raise Unauthenticated("the token is meant for another service: its aud is not accepted here")
    if issuer is not None and claims.get("iss") != issuer:
        raise Unauthenticated("the token's iss is not accepted here")


def make_principal(claims: Mapping[str, object], groups_claim: str = GROUPS_CLAIM) -> Principal:
    """Read `sub`, `roles`, `tenant_id`, and the groups. Raises Unauthenticated.

    Roles that the service does not know are ignored: an issuer may name those of other services too.
    """
    subject = _subject(claims.get("sub"))
    roles = _roles(claims.get("roles"))
    token_id = _token_id(claims.get("jti"))
    groups = _groups(find_claim(claims, groups_claim), groups_claim)
    tenant = claims.get("tenant_id")
    if tenant is None and Role.PLATFORM_ADMIN in roles:
        return Principal(subject, None, roles, token_id)
    # UUID() also accepts braces, `urn:uuid:` and stray hyphens.
    if not isinstance(tenant, str) or not _UUID.fullmatch(tenant):
        raise Unauthenticated("the token's tenant_id must be a UUID")
    return Principal(subject, UUID(tenant), roles, token_id, groups)


def _subject(subject: object) -> str:
    # isprintable is false for control characters, NUL, lone surrogates and all blanks except the plain space.
    if (
        not isinstance(subject, str)
        or not 1 <= len(subject) <= MAX_SUBJECT_CHARACTERS
        or not subject.isprintable()
        or subject != subject.strip()
    ):
        raise Unauthenticated(
            f"the token's sub must be 1 to {MAX_SUBJECT_CHARACTERS} printable characters"
            " without leading or trailing blanks"
        )
    return subject


def _token_id(token_id: object) -> str | None:
    # A token whose id no revocation could name is refused.
    if token_id is None:
        return None
    if not isinstance(token_id, str) or not 1 <= len(token_id) <= MAX_TOKEN_ID_CHARACTERS:
        raise Unauthenticated(f"the token's jti must be a string of 1 to {MAX_TOKEN_ID_CHARACTERS} characters")
    return token_id


def _roles(roles: object) -> frozenset[Role]:
    if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
        raise Unauthenticated("the token's roles must be a list of strings")
    return frozenset(_ROLES[role] for role in roles if role in _ROLES)


def find_claim(claims: Mapping[str, object], name: str) -> object:
    """The claim of this name, or at the end of this path, as `realm_access.roles`; None if there is none."""
    if name in claims:
        return claims[name]
    value: object = claims
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def _groups(groups: object, claim: str) -> tuple[str, ...]:
    # Names that no list of readers can have are ignored: their owner sees less.
    if groups is None:
        return ()
    named = [groups] if isinstance(groups, str) else groups
    if not isinstance(named, list) or len(named) > MAX_GROUPS or not all(isinstance(g, str) for g in named):
        raise Unauthenticated(f"the token's {claim} must be a list of at most {MAX_GROUPS} strings")
    return tuple(sorted({g for g in named if is_group_name(g)}))


def check_groups(groups: Collection[str], field: str = "groups") -> tuple[str, ...]:
    """The groups in order, each once. Raises InvalidInput, which names the field, for a name that none can have."""
    if not all(map(is_group_name, groups)):
        raise InvalidInput.of(
            field, f"must each have 1 to {MAX_GROUP_CHARACTERS} printable characters, without outer blanks"
        )
    return tuple(sorted(set(groups)))


def is_group_name(name: str) -> bool:
    """Whether a list of readers can name this group."""
    return 1 <= len(name) <= MAX_GROUP_CHARACTERS and name.isprintable() and name == name.strip()


def _seconds(claims: Mapping[str, object], name: str) -> float:
    value = claims[name]
    # The range also refuses NaN and infinity, which result from JSON numbers such as 1e999.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST_TIME:
        raise Unauthenticated(f"the token's {name} must be a number of seconds since 1970")
    return value


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise ValueError("a key is repeated")
    return keys


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
