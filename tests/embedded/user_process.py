"""Use an embedded Postgres until standard input closes: `python -m … DATA_DIR`."""

import sys
from pathlib import Path

from app.embedded.server import EmbeddedPostgres
from app.errors import ConfigurationError


def main() -> None:
    postgres = EmbeddedPostgres(Path(sys.argv[1]), settings={"fsync": "off"})
    try:
        sys.stdout.write(postgres.start().dsn() + "\n")
    except ConfigurationError as error:
        sys.exit(str(error))
    sys.stdout.flush()
    sys.stdin.read()
    postgres.stop()


if __name__ == "__main__":
    main()
