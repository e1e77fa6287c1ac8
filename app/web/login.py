"""The login of remote MCP clients: where they get tokens for /mcp, and how they learn of it.

As the authorization of the Model Context Protocol demands: protected resource metadata (RFC 9728), and tokens that are
bound to this resource (RFC 8707).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.auth.tokens import TokenVerifier

WELL_KNOWN = "/.well-known/oauth-protected-resource"
"""Section 3 of RFC 9728; the path of the resource follows."""


@dataclass(frozen=True, slots=True)
class RemoteLogin:
    """The authorization server whose tokens are accepted for a resource of this service.

    Attributes:
        resource: the URL of the resource, which a token's `aud` must contain.
        path: the path of the resource in it.
        issuer: the authorization server's issuer, which is a token's `iss`.
        verifier: checks both.
    """

    resource: str
    path: str
    issuer: str
    verifier: TokenVerifier

    @property
    def metadata_url(self) -> str:
        """Where the metadata of the resource is."""
        return f"{self.resource.removesuffix(self.path)}{WELL_KNOWN}{self.path}"

    def metadata(self) -> dict[str, Any]:
        """The metadata of the resource, section 2 of RFC 9728."""
        return {
            "resource": self.resource,
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": "Knowledge search",
        }

    def challenge(self, *, has_token: bool) -> str:
        """The value of `WWW-Authenticate` for a caller without a valid token (RFC 9728, section 5.1; RFC 6750)."""
        error = 'error="invalid_token", ' if has_token else ""
        return f'Bearer {error}resource_metadata="{self.metadata_url}"'
