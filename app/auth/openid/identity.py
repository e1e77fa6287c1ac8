"""The person in an ID token, section 3.1.3.7 of OpenID Connect Core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from authlib.oidc.core import CodeIDToken
from joserfc.errors import JoseError

from app.auth.claims import GROUPS_CLAIM, find_claim, make_principal
from app.auth.openid.failures import AccessMissing, UnusableAnswer
from app.auth.principal import Principal
from app.auth.tokens import LEEWAY_SECONDS, TokenVerifier, read_header
from app.errors import Unauthenticated


@dataclass(frozen=True, slots=True)
class ClaimNames:
    """Where the claims have the tenant's id, the roles and the groups: a claim's name, or a path of names with dots."""

    tenant: str
    roles: str
    groups: str = GROUPS_CLAIM


class Identities:
    """Reads people from ID tokens; `verifier` checks signature, `iss`, `aud`, `exp`, `nbf` and `iat`."""

    def __init__(self, verifier: TokenVerifier, client_id: str, names: ClaimNames) -> None:
        self._verifier = verifier
        self._client_id = client_id
        self._names = names

    async def read(self, id_token: str, *, nonce: str, access_token: object) -> Principal:
        """The person, with tenant and roles.

        Raises UnusableAnswer for a token that is not for this sign-in, AccessMissing for a person without tenant or
        role, and ProviderUnreachable.
        """
        try:
            claims = await self._verifier.read_claims(id_token)
            header = read_header(id_token)
        except Unauthenticated as error:
            raise UnusableAnswer(str(error)) from None
        checked = CodeIDToken(
            claims,
            header,
            params={"nonce": nonce, "client_id": self._client_id, "access_token": access_token},
        )
        try:
            checked.validate(leeway=LEEWAY_SECONDS)
        except (JoseError, TypeError, ValueError) as error:
            claim = getattr(error, "claim", None)
            raise UnusableAnswer(f"the ID token's {claim or 'claims'} are not acceptable") from None
        return self._find_person(claims)

    def _find_person(self, claims: Mapping[str, object]) -> Principal:
        known: dict[str, object] = {
            "sub": claims.get("sub"),
            "tenant_id": find_claim(claims, self._names.tenant),
            "roles": find_claim(claims, self._names.roles),
            GROUPS_CLAIM: find_claim(claims, self._names.groups),
        }
        try:
            person = make_principal(known)
        except Unauthenticated as error:
            raise AccessMissing(str(error)) from None
        if not person.roles:
            raise AccessMissing("the token's roles contain none of the service")
        return person
