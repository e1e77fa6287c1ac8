"""The address of an embedded Postgres and the login."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote

SUPERUSER = "postgres"
DATABASE = "knowledge"
PORT = 5432
"""Used only in the name of the socket file (`.s.PGSQL.5432`); no TCP port is opened."""


@dataclass(frozen=True, slots=True)
class EmbeddedAddress:
    """The private socket directory of a running embedded Postgres and its superuser's password."""

    socket_dir: str
    password: str = field(repr=False)
    port: int = PORT

    def dsn(self, role: str = SUPERUSER, database: str = DATABASE, password: str | None = None) -> str:
        """Build a `postgresql://` URL for asyncpg, SQLAlchemy or psql.

        Without `password`, the URL contains the superuser's password, so any other role needs one.
        """
        if password is None:
            if role != SUPERUSER:
                raise ValueError(f"the password of role {role!r} is needed: only {SUPERUSER!r} has a default")
            password = self.password
        login = f"{quote(role, safe='')}:{quote(password, safe='')}"
        host = quote(self.socket_dir, safe="/")
        return f"postgresql://{login}@/{quote(database, safe='')}?host={host}&port={self.port}"
