"""The keys that encrypt secrets in the database, from the settings."""

from __future__ import annotations

from pydantic import SecretStr

from app.embedded.secret_file import read_or_create_secret
from app.errors import ConfigurationError
from app.settings import Settings
from app.settings.fields import parse_encryption_keys

KEY_FILE = "encryption-key"


def encryption_keys(settings: Settings) -> tuple[bytes, ...]:
    """The configured keys, or the one that the embedded mode generates and stores; none without either.

    Raises ConfigurationError.
    """
    if settings.encryption.keys is not None:
        return parse_encryption_keys(settings.encryption.keys)
    if not settings.database.embedded:
        return ()
    path = settings.database.data_dir / KEY_FILE
    try:
        return parse_encryption_keys(SecretStr(read_or_create_secret(path)))
    except OSError as error:
        raise ConfigurationError(
            "KB_DATA_DIR", f"the encryption key {path} cannot be created or read: {error.strerror}"
        ) from None
    except ValueError:
        raise ConfigurationError(
            "KB_DATA_DIR", f"{path} contains no usable key", "restore it from a backup"
        ) from None
