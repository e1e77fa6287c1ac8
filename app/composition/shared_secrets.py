"""The secrets that tokens are signed with, from the settings or from the data folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.auth.issuing import MIN_SECRET_BYTES
from app.embedded.data_folder import mark_new_folder, read_or_create_secret
from app.errors import ConfigurationError
from app.settings import Settings
from app.settings.groups import parse_secrets

FILE_NAME = "jwt-secret"
SECRET_SIZE = 48


@dataclass(frozen=True, slots=True)
class SharedSecrets:
    """The HS256 secrets: `named` by `kid`, of which the first signs, and the secret of JWT_SECRET."""

    unnamed: str | None = field(repr=False)
    named: Mapping[str, str] = field(repr=False)

    @property
    def signing(self) -> tuple[str | None, str]:
        """The `kid` of new tokens, and their secret."""
        for kid, secret in self.named.items():
            return kid, secret
        assert self.unnamed is not None
        return None, self.unnamed


def shared_secrets(settings: Settings) -> SharedSecrets | None:
    """The configured secrets, or the secret that the embedded mode generates and stores; None with JWKS."""
    jwt = settings.jwt
    named = {} if jwt.secrets is None else parse_secrets(jwt.secrets)
    if jwt.secret is not None or named:
        return SharedSecrets(None if jwt.secret is None else jwt.secret.get_secret_value(), named)
    if jwt.jwks_url is None and settings.database.embedded:
        return SharedSecrets(ensure_secret(settings.database.data_dir), {})
    return None


def ensure_secret(data_dir: Path) -> str:
    """Return the secret in `data_dir`, generated at the first call; simultaneous processes get the same one.

    Raises ConfigurationError when the secret cannot be created or read, or is not usable.
    """
    path = data_dir / FILE_NAME
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        mark_new_folder(data_dir)
        secret = read_or_create_secret(path, SECRET_SIZE)
    except OSError as error:
        raise ConfigurationError(
            "KB_DATA_DIR", f"the token secret {path} cannot be created or read: {error.strerror}"
        ) from None
    except ValueError:
        secret = ""
    if len(secret) < MIN_SECRET_BYTES or not secret.isascii():
        raise ConfigurationError(
            "KB_DATA_DIR", f"{path} contains no usable secret", "remove it; the next start generates a new one"
        )
    return secret
