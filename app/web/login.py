"""The login of remote MCP clients: where they get tokens for /mcp, and how they find it.

As the authorization of the Model Context Protocol demands: protected resource metadata (RFC 9728), and tokens that are
bound to this resource (RFC 8707).
"""

from dataclasses import dataclass
from typing import Any

from app.auth.jwks import is_secure
from app.auth.tokens import TokenVerifier
from app.errors import ConfigurationError

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
        scopes: those that a client should request, separated by spaces; the service does not check them.

    Raises ConfigurationError for an issuer that is neither https nor on this machine.
    """

    resource: str
    path: str
    issuer: str
    verifier: TokenVerifier
    scopes: str | None = None

    def __post_init__(self) -> None:
        if not is_secure(self.issuer):
            raise ConfigurationError("KB_MCP_ISSUER", "must be an https:// address", "http:// only on this machine")

    @property
    def metadata_url(self) -> str:
        """Where the metadata of the resource is."""
        return f"{self.resource.removesuffix(self.path)}{WELL_KNOWN}{self.path}"

    def metadata(self) -> dict[str, Any]:
        """The metadata of the resource, section 2 of RFC 9728."""
        scopes = {} if self.scopes is None else {"scopes_supported": self.scopes.split()}
        return {
            "resource": self.resource,
            "authorization_servers": [self.issuer],
            **scopes,
            "bearer_methods_supported": ["header"],
            "resource_name": "Knowledge search",
        }

    def challenge(self, *, has_token: bool) -> str:
        """The value of `WWW-Authenticate` for a caller without a valid token (RFC 9728, section 5.1; RFC 6750)."""
        error = 'error="invalid_token", ' if has_token else ""
        scope = "" if self.scopes is None else f', scope="{self.scopes}"'
        return f'Bearer {error}resource_metadata="{self.metadata_url}"{scope}'
